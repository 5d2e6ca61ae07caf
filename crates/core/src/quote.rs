//! Quotes texts for POSIX shells. The only place that does; a command stays a list until a shell must read it.

use thiserror::Error;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum QuoteError {
    #[error("{text:?} holds a NUL character, which no argument can carry")]
    Nul { text: String },
}

/// `text` as one word for `sh`.
pub fn posix(text: &str) -> Result<String, QuoteError> {
    let quoted = shlex::try_quote(text).map_err(|_nul| QuoteError::Nul { text: text.to_owned() })?;
    Ok(quoted.into_owned())
}

/// `words` as one line for `sh`, which reads them back one by one. A first word such as `if` or `time` is
/// still a keyword there; `exec` before the line makes it a program's name.
pub fn posix_line(words: &[String]) -> Result<String, QuoteError> {
    let quoted: Result<Vec<_>, _> = words.iter().map(|word| posix(word)).collect();
    Ok(quoted?.join(" "))
}

/// Whether a shell reads `text` as it stands, inside or outside any quotes. The empty text does.
pub fn is_plain(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_alphanumeric() || "_@%+=:,./-".contains(c))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;

    /// What a program gets that `/bin/sh` starts with these words.
    fn through_sh(line: &str) -> Vec<String> {
        let folder = std::env::temp_dir();
        let script = format!("printf '%s\\0' {line}");
        let output = Command::new("/bin/sh").arg("-c").arg(script).current_dir(folder).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        text.strip_suffix('\0').unwrap().split('\0').map(str::to_owned).collect()
    }

    fn words(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn hostile_words_arrive_unchanged() {
        let hostile = words(&[
            "",
            "--",
            "-n",
            "-e",
            " ",
            "\n",
            "\t",
            "a b",
            "it's",
            "\"",
            "'",
            "''",
            "\\",
            "\\'",
            "\\\"",
            "a\\",
            "\\n",
            "$HOME",
            "${HOME}",
            "$(touch x)",
            "`touch x`",
            "*",
            "?",
            "[a-z]*",
            "~",
            "~root",
            "{a,b}",
            "{1..3}",
            "!!",
            "!x",
            "^",
            "#",
            "# no comment",
            "a;b",
            "a&b",
            "a|b",
            "a>b",
            "<",
            "(",
            ")",
            "a=b",
            "%s",
            "\r\n",
            "\u{7f}\u{1}",
            "🤖",
            "größe",
            "\u{a0}",
            "k={name:default,x:[1,2]}",
            "line one\nline two\n",
            "'\"'\"'",
            "if",
            "done",
        ]);
        assert_eq!(through_sh(&posix_line(&hostile).unwrap()), hostile);
        for word in hostile {
            assert_eq!(through_sh(&posix(&word).unwrap()), [word]);
        }
    }

    #[test]
    fn a_long_word_arrives_unchanged() {
        let long = "it's $HOME `x`\n🤖 ".repeat(5000);
        assert_eq!(long.len(), 100_000);
        let quoted = posix(&long).unwrap();
        assert_eq!(through_sh(&quoted), [long]);
    }

    #[test]
    fn nul_is_refused() {
        assert_eq!(posix("a\0b"), Err(QuoteError::Nul { text: "a\0b".to_owned() }));
        assert!(posix_line(&words(&["a", "\0"])).is_err());
    }

    #[test]
    fn plain_words_stay_readable() {
        assert_eq!(posix_line(&words(&["python", "a/b-c.py", "x y"])).unwrap(), "python a/b-c.py 'x y'");
        assert_eq!(posix_line(&[]).unwrap(), "");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn any_words_arrive_unchanged(
            words in prop::collection::vec("[^\0]{0,12}|[-'\"\\\\$`{}*!^\n\t ~#=a]{0,12}", 1..6)
        ) {
            prop_assert_eq!(through_sh(&posix_line(&words).unwrap()), words);
        }

        #[test]
        fn plain_texts_need_no_quotes(text in "[ -~]{1,3}") {
            if is_plain(&text) {
                let line = format!("{text} \"{text}\" '{text}'");
                prop_assert_eq!(through_sh(&line), vec![text.clone(), text.clone(), text]);
            }
        }
    }
}
