//! Cuts an expression's text into tokens.

use super::ExpressionError;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    Int(i64),
    Float(f64),
    Text(String),
    /// A name or a word of the language.
    Word(String),
    /// A name in backticks: never a word of the language.
    Quoted(String),
    Sign(&'static str),
}

/// Longer ones first, so that `**` is not read as two `*`.
const SIGNS: [&str; 15] = ["**", "==", "!=", "<=", ">=", "<", ">", "+", "-", "*", "/", "%", "(", ")", ","];

/// All tokens with their offsets.
pub(super) fn tokens(text: &str) -> Result<Vec<(usize, Token)>, ExpressionError> {
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let at = text.len() - rest.len();
        let (token, length) = match first {
            '\'' | '"' => quoted(rest, first, at).map(|(inner, length)| (Token::Text(inner), length))?,
            '`' => quoted(rest, first, at).map(|(inner, length)| (Token::Quoted(inner), length))?,
            '0'..='9' | '.' => number(rest, at)?,
            _ if first.is_alphabetic() || first == '_' => word(rest),
            _ => sign(rest).ok_or_else(|| error(format!("unexpected `{first}`"), at))?,
        };
        found.push((at, token));
        rest = rest.get(length..).unwrap_or_default().trim_start();
    }
    Ok(found)
}

pub(super) fn error(what: impl Into<String>, at: usize) -> ExpressionError {
    ExpressionError { what: what.into(), at }
}

fn quoted(rest: &str, quote: char, at: usize) -> Result<(String, usize), ExpressionError> {
    let inner = rest.get(1..).unwrap_or_default();
    let end = inner.find(quote).ok_or_else(|| error(format!("missing closing `{quote}`"), at))?;
    Ok((inner.get(..end).unwrap_or_default().to_owned(), end + 2))
}

fn word(rest: &str) -> (Token, usize) {
    let part = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
    let length = rest.find(|c| !part(c)).unwrap_or(rest.len());
    (Token::Word(rest.get(..length).unwrap_or_default().to_owned()), length)
}

fn sign(rest: &str) -> Option<(Token, usize)> {
    SIGNS.iter().find(|sign| rest.starts_with(**sign)).map(|sign| (Token::Sign(sign), sign.len()))
}

fn number(rest: &str, at: usize) -> Result<(Token, usize), ExpressionError> {
    let digit = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '_';
    let mut length = rest.find(|c| !digit(c)).unwrap_or(rest.len());
    let exponent = |text: &str| text.ends_with(['e', 'E']);
    // The sign of an exponent belongs to the number: 1e-3.
    if exponent(rest.get(..length).unwrap_or_default()) && rest.get(length..).is_some_and(|r| r.starts_with(['+', '-']))
    {
        let tail = rest.get(length + 1..).unwrap_or_default();
        length += 1 + tail.find(|c: char| !c.is_ascii_digit()).unwrap_or(tail.len());
    }
    let text = rest.get(..length).unwrap_or_default();
    let plain = text.replace('_', "");
    let token = match (plain.parse(), plain.parse::<f64>()) {
        (Ok(int), _) => Token::Int(int),
        (_, Ok(float)) if float.is_finite() && !text.chars().all(|c| c.is_ascii_alphabetic()) => Token::Float(float),
        _ => return Err(error(format!("`{text}` is not a number"), at)),
    };
    Ok((token, length))
}
