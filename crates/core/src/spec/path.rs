//! The dotted path of a key, written as one would type it after `--set`.

use std::fmt;

use super::emit::write_key;

/// `jobs.train.seeds[2]`; empty for the whole file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct KeyPath(Vec<Step>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Key(String),
    Item(usize),
}

impl KeyPath {
    pub(super) fn key(&self, name: &str) -> Self {
        self.with(Step::Key(name.to_owned()))
    }

    pub(super) fn item(&self, index: usize) -> Self {
        self.with(Step::Item(index))
    }

    fn with(&self, step: Step) -> Self {
        let mut steps = self.0.clone();
        steps.push(step);
        Self(steps)
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (depth, step) in self.0.iter().enumerate() {
            match step {
                Step::Key(name) => {
                    if depth > 0 {
                        f.write_str(".")?;
                    }
                    write_key(name, f)?;
                }
                Step::Item(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_quoted_where_toml_wants_it() {
        let path = KeyPath::default().key("sweeps").key("ppo").key("space").key("agent.lr");
        assert_eq!(path.to_string(), r#"sweeps.ppo.space."agent.lr""#);
        assert_eq!(KeyPath::default().key("").key("ä").to_string(), r#"""."ä""#);
        assert_eq!(KeyPath::default().key("seeds").item(2).to_string(), "seeds[2]");
    }
}
