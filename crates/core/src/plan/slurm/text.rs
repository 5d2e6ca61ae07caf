//! Values in `#SBATCH` lines, which `sbatch` reads with rules of its own: a backslash escapes within quotes of
//! both kinds, `#` ends the line outside of them, and nothing is ever expanded.

use thiserror::Error;

use crate::quote;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DirectiveError {
    #[error("{text:?} holds a line break or another control character, which no `#SBATCH` line can carry")]
    Control { text: String },
    #[error("{text:?} is not one option of `sbatch`: {reason}")]
    NotAnOption { text: String, reason: &'static str },
}

/// `word` as `sbatch` reads it back from a `#SBATCH` line.
pub(super) fn quoted(word: &str) -> Result<String, DirectiveError> {
    if word.contains(|c: char| c.is_control()) {
        return Err(DirectiveError::Control { text: word.to_owned() });
    }
    if quote::is_plain(word) && !word.is_empty() {
        return Ok(word.to_owned());
    }
    Ok(format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\"")))
}

/// The words of an option as a user writes it, with the quotes of a shell.
pub(crate) fn words(text: &str) -> Result<Vec<String>, DirectiveError> {
    let refuse = |reason| DirectiveError::NotAnOption { text: text.to_owned(), reason };
    let words = shlex::split(text).ok_or_else(|| refuse("a quote is not closed"))?;
    match words.first() {
        Some(first) if first.starts_with('-') && first.len() > 1 && first != "--" => Ok(words),
        _ => Err(refuse("it begins with `-` or `--`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each pair was put to `sbatch` 22.05, which read it back as given.
    #[test]
    fn quotes_of_sbatch() {
        let quoted = |word: &str| quoted(word).unwrap_or_else(|error| error.to_string());
        assert_eq!(quoted("--comment=ab"), "--comment=ab");
        assert_eq!(quoted("--comment=a b"), "\"--comment=a b\"");
        assert_eq!(quoted("--comment=a #b"), "\"--comment=a #b\"");
        assert_eq!(quoted("--comment=it's"), "\"--comment=it's\"");
        assert_eq!(quoted("--comment=q\"q"), "\"--comment=q\\\"q\"");
        assert_eq!(quoted("--comment=b\\b"), "\"--comment=b\\\\b\"");
        assert_eq!(quoted("--comment=$HOME`x`"), "\"--comment=$HOME`x`\"");
        assert_eq!(quoted("--comment=größe"), "\"--comment=größe\"");
        assert!(super::quoted("a\nb").is_err());
        assert!(super::quoted("a\tb\0").is_err());
    }
}
