//! Names as MLflow takes them: letters, digits and `_-. /`, and none that a file system would read as another.
//!
//! What had to be changed is written beside the run, as a tag for each name, before the name is used. So whoever comes
//! later, we or somebody else, finds the name that was meant, and no two names become one.

use std::collections::BTreeMap;

/// A tag that begins like this tells what a metric is really called.
pub(super) const METRIC_TAG: &str = "trainyard.metric.";
pub(super) const PARAM_TAG: &str = "trainyard.param.";
/// MLflow takes 250 characters, and a tag's prefix must fit too.
const LONGEST: usize = 230;

/// Which name is called what at the server.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    prefix: &'static str,
    /// By the name that was meant.
    taken: BTreeMap<String, String>,
    /// The other way round, for all names at the server.
    meant: BTreeMap<String, String>,
}

impl Keys {
    /// From the tags of a run and the names it has.
    pub(super) fn new<'a>(
        prefix: &'static str,
        tags: &BTreeMap<String, String>,
        names: impl Iterator<Item = &'a String>,
    ) -> Self {
        let mut keys = Self { prefix, taken: BTreeMap::new(), meant: BTreeMap::new() };
        for (tag, original) in tags {
            if let Some(name) = tag.strip_prefix(prefix) {
                keys.take(original, name);
            }
        }
        for name in names {
            if !keys.meant.contains_key(name) {
                keys.take(name, name);
            }
        }
        keys
    }

    fn take(&mut self, original: &str, name: &str) {
        self.taken.insert(original.to_owned(), name.to_owned());
        self.meant.insert(name.to_owned(), original.to_owned());
    }

    /// The server's name of this one, and the tag that must be written before it is used, if it is new and changed.
    pub(super) fn name(&mut self, original: &str) -> (String, Option<(String, String)>) {
        if let Some(name) = self.taken.get(original) {
            return (name.clone(), None);
        }
        let plain = acceptable(original);
        let name = if self.meant.contains_key(&plain) { marked(&plain, original) } else { plain };
        self.take(original, &name);
        // A tag's value has room for 8,000 characters; longer names than that are not told apart by reading them.
        let tag = (name != original)
            .then(|| (format!("{}{name}", self.prefix), original.chars().take(5000).collect::<String>()));
        (name, tag)
    }

    pub(super) fn original<'a>(&'a self, name: &'a str) -> &'a str {
        self.meant.get(name).map_or(name, String::as_str)
    }
}

/// As it is, if MLflow takes it.
pub(super) fn acceptable(original: &str) -> String {
    // No colon: servers before 2.13 refuse it.
    let allowed = |letter: char| letter.is_alphanumeric() || "_-. /".contains(letter);
    let name: String = original.chars().map(|letter| if allowed(letter) { letter } else { '_' }).collect();
    let segments = name.split('/').map(|segment| if matches!(segment, "" | "." | "..") { "_" } else { segment });
    let name = segments.collect::<Vec<_>>().join("/");
    if name.chars().count() > LONGEST { marked(&name, original) } else { name }
}

/// A name that nothing else has.
fn marked(name: &str, original: &str) -> String {
    let hash = blake3::hash(original.as_bytes()).to_hex();
    let head: String = name.chars().take(LONGEST - 13).collect();
    format!("{}_{}", head.trim_end_matches('/'), &hash[..12])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty() -> Keys {
        Keys::new(METRIC_TAG, &BTreeMap::new(), [].into_iter())
    }

    #[test]
    fn most_names_stay() {
        for name in ["Train/mean_reward", "rewards/iter", "größe", "a b-c.d_e"] {
            assert_eq!(empty().name(name), (name.to_owned(), None));
        }
    }

    #[test]
    fn others_are_changed_and_told() {
        let mut keys = empty();
        let (name, tag) = keys.name("Reward / Total reward (max)");
        assert_eq!(name, "Reward / Total reward _max_");
        assert_eq!(tag, Some((format!("{METRIC_TAG}{name}"), "Reward / Total reward (max)".to_owned())));
        assert_eq!(keys.name("Reward / Total reward (max)").1, None);
        for (original, name) in
            [("/a//b/", "_/a/_/b/_"), ("..", "_"), ("a/./b", "a/_/b"), ("", "_"), ("a:b", "a_b"), ("\0", "_")]
        {
            assert_eq!(empty().name(original).0, name, "{original:?}");
        }
    }

    #[test]
    fn no_two_names_become_one_now_or_later() {
        let mut keys = empty();
        let all = ["a(b", "a)b", "a_b", "a b", "a[b"];
        let names: BTreeMap<&str, String> = all.iter().map(|original| (*original, keys.name(original).0)).collect();
        let distinct: std::collections::BTreeSet<&String> = names.values().collect();
        assert_eq!(distinct.len(), all.len());

        let mut tags = BTreeMap::new();
        let mut keys = empty();
        tags.extend(all[..2].iter().filter_map(|original| keys.name(original).1));
        let mut later = Keys::new(METRIC_TAG, &tags, names.values().take(2));
        for original in all {
            assert_eq!(later.name(original).0, names[original], "{original}");
            assert_eq!(later.original(&names[original]), original);
        }
    }

    #[test]
    fn long_names_end_in_time() {
        let long = "x/".repeat(500);
        let (name, _) = empty().name(&long);
        assert!(name.chars().count() <= LONGEST && format!("{METRIC_TAG}{name}").chars().count() <= 250);
        assert_ne!(name, empty().name(&format!("{long}y")).0);
    }
}
