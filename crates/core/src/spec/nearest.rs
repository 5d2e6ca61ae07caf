//! "Did you mean …?"

/// The candidate most like `name`, if any is like it at all.
pub(crate) fn nearest<'c>(name: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let mut best = None;
    // Below one half, the suggestions are rather comic than helpful.
    let mut best_likeness = 0.5;
    // The comparison takes the product of the lengths, and nobody mistypes what is longer.
    let is_short = |name: &str| name.len() <= 100;
    for candidate in candidates.into_iter().filter(|candidate| is_short(candidate) && is_short(name)) {
        let likeness = strsim::normalized_damerau_levenshtein(name, candidate);
        if likeness >= best_likeness && best != Some(candidate) {
            best = Some(candidate);
            best_likeness = likeness + f64::EPSILON;
        }
    }
    best
}

/// As a hint.
pub(super) fn did_you_mean<'c>(name: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<String> {
    nearest(name, candidates).map(|candidate| format!("did you mean `{candidate}`?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_only() {
        let keys = ["memory", "metrics", "gpus", "cpus"];
        assert_eq!(nearest("memry", keys), Some("memory"));
        assert_eq!(nearest("gpu", keys), Some("gpus"));
        assert_eq!(nearest("colour", keys), None);
        assert_eq!(nearest("trian", ["test", "train"]), Some("train"));
        let long = "x".repeat(1_000_000);
        assert_eq!(nearest(&long, [long.as_str()]), None);
        assert_eq!(nearest("SIGUSR2", ["USR1", "USR2"]), Some("USR2"));
    }
}
