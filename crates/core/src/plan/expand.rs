//! Variables in paths that only the machine knows which the program runs on: `$TMPDIR`, `${USER}`, a leading `~/`.

use thiserror::Error;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ExpandError {
    #[error("`{text}` needs the variable {name}, which is not set there")]
    Unset { text: String, name: String },
    #[error("`{text}` has a `$` that no variable follows")]
    NoName { text: String },
}

/// `variable` answers what a variable is set to. An empty one counts as not set: a path must not lose its beginning.
pub fn expand(text: &str, variable: impl Fn(&str) -> Option<String>) -> Result<String, ExpandError> {
    let value = |name: &str| {
        let unset = || ExpandError::Unset { text: text.to_owned(), name: name.to_owned() };
        variable(name).filter(|value| !value.is_empty()).ok_or_else(unset)
    };
    let mut expanded = String::new();
    let mut rest = text;
    if text == "~" || text.starts_with("~/") {
        expanded.push_str(&value("HOME")?);
        rest = text.split_at(1).1;
    }
    while let Some((before, after)) = rest.split_once('$') {
        expanded.push_str(before);
        let braced = after.strip_prefix('{').and_then(|inner| inner.split_once('}'));
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let (name, left) = braced.unwrap_or_else(|| after.split_at(after.find(|c| !is_part(c)).unwrap_or(after.len())));
        if name.is_empty() || !name.chars().all(is_part) {
            return Err(ExpandError::NoName { text: text.to_owned() });
        }
        expanded.push_str(&value(name)?);
        rest = left;
    }
    expanded.push_str(rest);
    Ok(expanded)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(name: &str) -> Option<String> {
        [("TMPDIR", "/tmp/job 7"), ("HOME", "/home/me"), ("A_1", "a"), ("EMPTY", "")]
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| (*value).to_owned())
    }

    #[test]
    fn variables_and_home() {
        for (text, expected) in [
            ("$TMPDIR", "/tmp/job 7"),
            ("${TMPDIR}/x", "/tmp/job 7/x"),
            ("/local/$A_1-b", "/local/a-b"),
            ("~/x:$A_1", "/home/me/x:a"),
            ("~", "/home/me"),
            ("/a~/b", "/a~/b"),
        ] {
            assert_eq!(expand(text, known), Ok(expected.to_owned()), "{text}");
        }
    }

    #[test]
    fn what_is_not_set_is_named() {
        for text in ["$NOPE/x", "${EMPTY}/x"] {
            assert!(matches!(expand(text, known), Err(ExpandError::Unset { .. })), "{text}");
        }
        for text in ["/a/$", "/a/$/b", "${}", "${A-b}"] {
            assert!(matches!(expand(text, known), Err(ExpandError::NoName { .. })), "{text}");
        }
    }
}
