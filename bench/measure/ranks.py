"""Whether one sample is worse than another."""

import statistics


def p_greater(ours, theirs):
    """One-sided Mann-Whitney test by its normal approximation: small if `ours` tend to be greater."""
    tagged = sorted([(value, 0) for value in ours] + [(value, 1) for value in theirs])
    ranks, tied, start = 0.0, 0.0, 0
    while start < len(tagged):
        stop = start
        while stop < len(tagged) and tagged[stop][0] == tagged[start][0]:
            stop += 1
        ranks += sum(tag == 0 for _, tag in tagged[start:stop]) * (start + 1 + stop) / 2
        tied += (stop - start) ** 3 - (stop - start)
        start = stop
    n, m = len(ours), len(theirs)
    u = ranks - n * (n + 1) / 2
    variance = n * m / 12 * (n + m + 1 - tied / ((n + m) * (n + m - 1)))
    if variance <= 0:
        return 1.0
    return 1 - statistics.NormalDist().cdf((u - n * m / 2 - 0.5) / variance**0.5)
