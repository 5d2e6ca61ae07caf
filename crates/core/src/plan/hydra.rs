//! Values in Hydra's override grammar, so that Hydra reads back the very value: what it would take for a
//! number, a list or a sweep is quoted. Read off `OverrideLexer.g4` of hydra-core 1.3 and checked against the
//! real parser in `tests/hydra.rs`. Keys are the user's own: `+x`, `++x`, `~x`, `group@package`.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::template::plain;
use crate::value::Value;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum HydraError {
    /// Hydra takes quotes around values, but not around the keys of a dict.
    #[error(
        "Hydra's grammar has no way to write the dict key {key:?} as a text; \
         set it by a parameter of its own, such as `+table.key`, or rename it"
    )]
    Key { key: String },
}

/// `key=value`. A null under a `~key` gives `~key` alone, which deletes it whatever its value is.
pub fn assignment(key: &str, value: &Value) -> Result<String, HydraError> {
    if key.starts_with('~') && *value == Value::Null {
        return Ok(key.to_owned());
    }
    Ok(format!("{key}={}", element(value)?))
}

/// `value` as the part after `=`. An interpolation in a text, such as `${a.b}`, reaches OmegaConf as it is
/// written and is resolved there.
pub fn element(value: &Value) -> Result<String, HydraError> {
    Ok(match value {
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) => plain(value),
        Value::Text(text) if is_bare(text) => text.clone(),
        Value::Text(text) => quoted(text),
        Value::List(items) => {
            let items: Result<Vec<_>, _> = items.iter().map(element).collect();
            format!("[{}]", items?.join(","))
        }
        Value::Table(entries) => dict(entries)?,
    })
}

fn dict(entries: &BTreeMap<String, Value>) -> Result<String, HydraError> {
    let pair = |(key, value): (&String, &Value)| Ok(format!("{}:{}", dict_key(key)?, element(value)?));
    let pairs: Result<Vec<_>, _> = entries.iter().map(pair).collect();
    Ok(format!("{{{}}}", pairs?.join(",")))
}

/// Texts that need no quotes wherever they stand: names and paths. The grammar allows more; quotes are the
/// safer choice there.
fn is_bare(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_' || c == '/')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c))
        && !is_literal(text)
}

/// In quotes a backslash is itself, except in a run of them that ends at a quote: there they are doubled.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('\'');
    let mut backslashes = 0;
    for c in text.chars() {
        if c == '\'' {
            quoted.extend(std::iter::repeat_n('\\', backslashes + 1));
        }
        backslashes = if c == '\\' { backslashes + 1 } else { 0 };
        quoted.push(c);
    }
    quoted.extend(std::iter::repeat_n('\\', backslashes));
    quoted.push('\'');
    quoted
}

/// Keys know no quotes, only backslashes before what the `ESC` token lists.
fn dict_key(key: &str) -> Result<String, HydraError> {
    let refused = || HydraError::Key { key: key.to_owned() };
    if key.is_empty() || is_literal(key) {
        return Err(refused());
    }
    let mut written = String::with_capacity(key.len());
    for c in key.chars() {
        if "\\()[]{}:=, \t".contains(c) {
            written.push('\\');
        } else if !c.is_ascii_alphanumeric() && !"_/-+.$%*@?|".contains(c) {
            return Err(refused());
        }
        written.push(c);
    }
    Ok(written)
}

/// Whether Hydra reads the bare text as null, a boolean or a number.
fn is_literal(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is = |word: &str| text.eq_ignore_ascii_case(word);
    let is_unsigned = |word: &str| unsigned.eq_ignore_ascii_case(word);
    is("null") || is("true") || is("false") || is_unsigned("inf") || is_unsigned("nan") || is_number(unsigned)
}

fn is_number(unsigned: &str) -> bool {
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let mantissa_fits = match mantissa.split_once('.') {
        None => is_whole(mantissa),
        Some(("", fraction)) => are_digits(fraction),
        Some((whole, fraction)) => is_whole(whole) && (fraction.is_empty() || are_digits(fraction)),
    };
    mantissa_fits && exponent.is_none_or(|exponent| are_digits(exponent.strip_prefix(['+', '-']).unwrap_or(exponent)))
}

/// `0`, `10`, `1_000`, but not `01`.
fn is_whole(text: &str) -> bool {
    text == "0" || (are_digits(text) && !text.starts_with('0'))
}

fn are_digits(text: &str) -> bool {
    text.split('_').all(|group| !group.is_empty() && group.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    fn table(entries: &[(&str, Value)]) -> Value {
        Value::Table(entries.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect())
    }

    #[test]
    fn values_are_written_as_hydra_reads_them() {
        let cases = [
            (Value::Null, "null"),
            (Value::Bool(true), "true"),
            (Value::Int(-3), "-3"),
            (Value::Float(1e-5), "1e-5"),
            (Value::Float(2.0), "2.0"),
            (Value::Float(f64::NAN), "nan"),
            (Value::Float(f64::NEG_INFINITY), "-inf"),
            (text("Isaac-Ant-v0"), "Isaac-Ant-v0"),
            (text("/data/a.b/c_d"), "/data/a.b/c_d"),
            (text(""), "''"),
            (text("TRUE"), "'TRUE'"),
            (text("Null"), "'Null'"),
            (text("nan"), "'nan'"),
            (text("1e5"), "'1e5'"),
            (text("a,b"), "'a,b'"),
            (text("a b "), "'a b '"),
            (text("f(x)"), "'f(x)'"),
            (text("${a.b}"), "'${a.b}'"),
            (text("it's"), r"'it\'s'"),
            (text(r"a\"), r"'a\\'"),
            (text(r"a\b"), r"'a\b'"),
            (text(r"\\'"), r"'\\\\\''"),
            (text("a\n\té"), "'a\n\té'"),
            (Value::List(vec![]), "[]"),
            (Value::List(vec![Value::Int(1), text("a,b"), Value::List(vec![Value::Null])]), "[1,'a,b',[null]]"),
            (table(&[]), "{}"),
            (table(&[("b", text("x:y")), ("a b", table(&[("c", Value::Bool(false))]))]), r"{a\ b:{c:false},b:'x:y'}"),
            (table(&[("${x}", Value::Int(1)), (r"\", Value::Int(2))]), r"{$\{x\}:1,\\:2}"),
        ];
        for (value, expected) in cases {
            assert_eq!(element(&value).unwrap(), expected);
        }
    }

    #[test]
    fn keys_pass_as_written() {
        for key in ["+env.x", "++env.x", "~x", "env.a/b@pkg", "hydra/launcher", "$x"] {
            assert_eq!(assignment(key, &Value::Int(1)).unwrap(), format!("{key}=1"));
        }
        assert_eq!(assignment("~x", &Value::Null).unwrap(), "~x");
        assert_eq!(assignment("x", &Value::Null).unwrap(), "x=null");
    }

    #[test]
    fn dict_keys_that_hydra_cannot_read_are_refused() {
        for key in
            ["", "1", "-1", "1.", ".5", "1_0", "2e-3", "true", "NULL", "+inf", "a'b", "a\"", "a\nb", "é", "~a", "#"]
        {
            let error = element(&Value::List(vec![table(&[(key, Value::Null)])])).unwrap_err();
            assert_eq!(error, HydraError::Key { key: key.to_owned() });
        }
        for key in ["01", "1__0", "1_", "e5", "1e", ".", "-", "1.5.2", "infx", "1-2", "v1"] {
            assert_eq!(element(&table(&[(key, Value::Null)])).unwrap(), format!("{{{key}:null}}"));
        }
    }
}
