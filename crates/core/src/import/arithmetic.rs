//! Numbers that may be written as `"10*1024*1024*1024"`: the operators of the tool that read them, and no others.

/// Deeper ones are no numbers that somebody wrote.
const DEEPEST: u32 = 64;

/// Python's meaning of `+ - * / // % **`, signs and brackets.
pub(super) fn evaluate(text: &str) -> Result<f64, String> {
    let letters: Vec<char> = text.chars().filter(|letter| !letter.is_whitespace()).collect();
    let mut parser = Parser { letters, at: 0, depth: 0 };
    let value = parser.sum()?;
    match parser.peek() {
        None if value.is_finite() => Ok(value),
        None => Err(format!("`{text}` is no number that can be counted with")),
        Some(letter) => Err(format!("`{text}` is no number: `{letter}` is not understood there")),
    }
}

struct Parser {
    letters: Vec<char>,
    at: usize,
    depth: u32,
}

impl Parser {
    fn peek(&self) -> Option<char> {
        self.letters.get(self.at).copied()
    }

    fn take(&mut self, word: &str) -> bool {
        let found =
            self.letters.get(self.at..).is_some_and(|rest| word.chars().eq(rest.iter().copied().take(word.len())));
        self.at += if found { word.len() } else { 0 };
        found
    }

    fn sum(&mut self) -> Result<f64, String> {
        let mut value = self.product()?;
        loop {
            if self.take("+") {
                value += self.product()?;
            } else if self.take("-") {
                value -= self.product()?;
            } else {
                return Ok(value);
            }
        }
    }

    fn product(&mut self) -> Result<f64, String> {
        let mut value = self.sign()?;
        loop {
            if self.take("//") {
                value = (value / divisor(self.sign()?)?).floor();
            } else if self.take("/") {
                value /= divisor(self.sign()?)?;
            } else if self.take("%") {
                let by = divisor(self.sign()?)?;
                value -= by * (value / by).floor();
            } else if self.take("*") {
                value *= self.sign()?;
            } else {
                return Ok(value);
            }
        }
    }

    fn sign(&mut self) -> Result<f64, String> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err("this is nested too deeply for a number".to_owned());
        }
        let value = if self.take("-") {
            -self.sign()?
        } else if self.take("+") {
            self.sign()?
        } else {
            self.power()?
        };
        self.depth -= 1;
        Ok(value)
    }

    fn power(&mut self) -> Result<f64, String> {
        let base = self.atom()?;
        // Binds tighter than a sign before it, and to the right.
        if self.take("**") { Ok(base.powf(self.sign()?)) } else { Ok(base) }
    }

    fn atom(&mut self) -> Result<f64, String> {
        if self.take("(") {
            let value = self.sum()?;
            return if self.take(")") { Ok(value) } else { Err("a bracket is not closed".to_owned()) };
        }
        let is_part = |letter: &char| letter.is_ascii_digit() || matches!(letter, '.' | '_');
        let start = self.at;
        while self.peek().as_ref().is_some_and(is_part) {
            self.at += 1;
        }
        if self.peek().is_some_and(|letter| letter.eq_ignore_ascii_case(&'e')) && self.at > start {
            self.at += 1;
            self.at += usize::from(self.peek().is_some_and(|letter| matches!(letter, '+' | '-')));
            while self.peek().is_some_and(|letter| letter.is_ascii_digit()) {
                self.at += 1;
            }
        }
        let text: String =
            self.letters.get(start..self.at).unwrap_or_default().iter().filter(|it| **it != '_').collect();
        text.parse()
            .map_err(|_| format!("a number is missing at `{}`", self.letters.iter().skip(start).collect::<String>()))
    }
}

fn divisor(value: f64) -> Result<f64, String> {
    if value == 0.0 { Err("this divides by zero".to_owned()) } else { Ok(value) }
}
