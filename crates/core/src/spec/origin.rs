//! Where a value was written, so that an error can point at it and `yard show-config` can name it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The place a value comes from. Sorts files by name and position, then flags, then defaults.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// Line and column count from 1, columns in characters.
    File {
        file: String,
        line: usize,
        column: usize,
    },
    /// The flag with the path it sets; never the value, which may be a secret in the wrong place.
    Flag(String),
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { file, line, column } => write!(f, "{file}:{line}:{column}"),
            Self::Flag(flag) => f.write_str(flag),
            Self::Default => f.write_str("default"),
        }
    }
}

/// Turns byte offsets of one text into lines and columns.
pub(super) struct Places<'t> {
    file: &'t str,
    text: &'t str,
    lines: Vec<Line>,
}

struct Line {
    start: usize,
    /// Bytes are characters, so a column needs no counting: a long line of numbers stays cheap.
    is_ascii: bool,
}

impl<'t> Places<'t> {
    pub(super) fn new(file: &'t str, text: &'t str) -> Self {
        let mut start = 0;
        let mut lines = Vec::new();
        for line in text.split('\n') {
            lines.push(Line { start, is_ascii: line.is_ascii() });
            start += line.len() + 1;
        }
        Self { file, text, lines }
    }

    /// An offset beyond the text is the end of the text; one inside a character is that character.
    pub(super) fn at(&self, offset: usize) -> Origin {
        let offset = offset.min(self.text.len());
        let number = self.lines.partition_point(|line| line.start <= offset);
        let before = match self.lines.get(number.saturating_sub(1)) {
            Some(line) if line.is_ascii => offset - line.start,
            Some(line) => {
                let rest = self.text.get(line.start..).unwrap_or_default();
                let starts = rest.char_indices().map(|(at, _)| line.start + at);
                let ends = rest.chars().scan(line.start, |at, c| {
                    *at += c.len_utf8();
                    Some(*at)
                });
                starts.zip(ends).take_while(|(_, end)| *end <= offset).count()
            }
            None => 0,
        };
        Origin::File { file: self.file.to_owned(), line: number, column: before + 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str, offset: usize) -> String {
        Places::new("f", text).at(offset).to_string()
    }

    #[test]
    fn lines_and_columns_count_from_one_and_in_characters() {
        assert_eq!(at("", 0), "f:1:1");
        assert_eq!(at("ab\ncd", 1), "f:1:2");
        assert_eq!(at("ab\ncd", 2), "f:1:3");
        assert_eq!(at("ab\ncd", 3), "f:2:1");
        assert_eq!(at("ab\n", 99), "f:2:1");
        assert_eq!(at("ä = 1", 3), "f:1:3");
        assert_eq!(at("ä = 1", 1), "f:1:1");
        assert_eq!(at("x\nä🙂b", 8), "f:2:3");
    }

    #[test]
    fn places_sort_as_one_reads() {
        let file = |line, column| Origin::File { file: "f".into(), line, column };
        assert!(file(2, 9) < file(10, 1));
        assert!(file(2, 9) < file(2, 10));
        assert!(file(99, 1) < Origin::Flag("--set a".into()));
        assert!(Origin::Flag("--set a".into()) < Origin::Default);
    }
}
