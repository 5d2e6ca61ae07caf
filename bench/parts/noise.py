"""What a sweep recommends when results depend on luck: one seed per configuration, three, five, and adaptive repeats."""

import json

from measure import examples, processes
from measure.ranks import p_greater
from measure.record import median

RUNS = 200
# The response that the limits are about; the others show what changes with the noise.
JUDGED = "ppo"
MOST_OPTIMISM = 0.05
LEVEL = 0.05


def measure(report):
    program = examples.built("noise")
    said = processes.read([program, str(report.times(100, 10)), str(RUNS)], {}).output
    found = {}
    for line in said.decode().splitlines():
        study = json.loads(line)
        found[study["landscape"], study["protocol"]] = study
        for what in ("regret", "optimism"):
            report.samples[f"{study['landscape']}, {study['protocol']}, {what}"] = study[what]
    report.row(f"{RUNS} runs", "repeats", "true regret", "quartiles", "reported - true")
    for (landscape, protocol), study in found.items():
        ordered = sorted(study["regret"])
        low, high = ordered[len(ordered) // 4], ordered[3 * len(ordered) // 4]
        report.row(landscape, protocol, f"{median(ordered):.3f}", f"{low:.3f} to {high:.3f}", f"{median(study['optimism']):+.3f}")
    adaptive, one = found[JUDGED, "adaptive"], found[JUDGED, "one"]
    p = p_greater(adaptive["regret"], one["regret"])
    report.limit("regret of adaptive repeats", f"p = {p:.2f} that it is none the worse", p >= LEVEL, f"that of one seed, rank test at {LEVEL}")
    optimism = median(adaptive["optimism"])
    report.limit("score that adaptive repeats report", f"{optimism:+.3f} too good", optimism <= MOST_OPTIMISM, f"<= {MOST_OPTIMISM}")
