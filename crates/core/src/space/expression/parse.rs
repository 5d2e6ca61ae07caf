//! Reads an expression by precedence: `or`, `and`, `not`, comparisons, sums, products, minus, powers.

use crate::value::Value;

use super::arithmetic::Operator;
use super::function::Function;
use super::token::{Token, error, tokens};
use super::{Expression, ExpressionError, Kind, Node};

/// Bounds the evaluation too: `1+1+…` nests once for every two bytes.
const LONGEST: usize = 1_000;
const DEEPEST: usize = 40;

const COMPARISONS: [(&str, Operator); 6] = [
    ("==", Operator::Equal),
    ("!=", Operator::Unequal),
    ("<", Operator::Less),
    ("<=", Operator::AtMost),
    (">", Operator::More),
    (">=", Operator::AtLeast),
];
const SUMS: [(&str, Operator); 2] = [("+", Operator::Add), ("-", Operator::Subtract)];
const PRODUCTS: [(&str, Operator); 3] =
    [("*", Operator::Multiply), ("/", Operator::Divide), ("%", Operator::Remainder)];

struct Parser {
    tokens: std::iter::Peekable<std::vec::IntoIter<(usize, Token)>>,
    names: Vec<String>,
    depth: usize,
    end: usize,
}

pub(super) fn parse(text: &str) -> Result<Expression, ExpressionError> {
    if text.len() > LONGEST {
        return Err(error(format!("longer than {LONGEST} bytes"), LONGEST));
    }
    let tokens = tokens(text)?.into_iter().peekable();
    let mut parser = Parser { tokens, names: Vec::new(), depth: 0, end: text.len() };
    let root = parser.expression()?;
    match parser.tokens.next() {
        None => Ok(Expression { root, names: parser.names }),
        Some((at, _)) => Err(error("expected an operator", at)),
    }
}

type Parsed = Result<Node, ExpressionError>;

impl Parser {
    fn expression(&mut self) -> Parsed {
        self.deeper(|parser| {
            let mut left = parser.conjunction()?;
            while let Some(at) = parser.word("or") {
                let right = parser.conjunction()?;
                left = Node { at, kind: Kind::Or(Box::new(left), Box::new(right)) };
            }
            Ok(left)
        })
    }

    fn conjunction(&mut self) -> Parsed {
        let mut left = self.negation()?;
        while let Some(at) = self.word("and") {
            let right = self.negation()?;
            left = Node { at, kind: Kind::And(Box::new(left), Box::new(right)) };
        }
        Ok(left)
    }

    fn negation(&mut self) -> Parsed {
        let Some(at) = self.word("not") else { return self.comparison() };
        let inner = self.deeper(Self::negation)?;
        Ok(Node { at, kind: Kind::Not(Box::new(inner)) })
    }

    fn comparison(&mut self) -> Parsed {
        let left = self.sum()?;
        let Some((at, operator)) = self.operator(&COMPARISONS) else { return Ok(left) };
        let right = self.sum()?;
        // `1 < x < 3` would compare a truth value with 3.
        if let Some((at, _)) = self.operator(&COMPARISONS) {
            return Err(error("comparisons do not chain, use `and`", at));
        }
        Ok(binary(at, operator, left, right))
    }

    fn sum(&mut self) -> Parsed {
        let mut left = self.product()?;
        while let Some((at, operator)) = self.operator(&SUMS) {
            let right = self.product()?;
            left = binary(at, operator, left, right);
        }
        Ok(left)
    }

    fn product(&mut self) -> Parsed {
        let mut left = self.signed()?;
        while let Some((at, operator)) = self.operator(&PRODUCTS) {
            let right = self.signed()?;
            left = binary(at, operator, left, right);
        }
        Ok(left)
    }

    fn signed(&mut self) -> Parsed {
        let Some(at) = self.sign("-") else { return self.power() };
        let inner = self.deeper(Self::signed)?;
        Ok(Node { at, kind: Kind::Negate(Box::new(inner)) })
    }

    fn power(&mut self) -> Parsed {
        let base = self.atom()?;
        let Some(at) = self.sign("**") else { return Ok(base) };
        let exponent = self.deeper(Self::signed)?;
        Ok(binary(at, Operator::Power, base, exponent))
    }

    fn atom(&mut self) -> Parsed {
        let Some((at, token)) = self.tokens.next() else { return Err(error("unexpected end", self.end)) };
        let kind = match token {
            Token::Int(int) => Kind::Literal(Value::Int(int)),
            Token::Float(float) => Kind::Literal(Value::Float(float)),
            Token::Text(text) => Kind::Literal(Value::Text(text)),
            Token::Quoted(name) => self.name(name),
            Token::Word(word) => match word.as_str() {
                "true" => Kind::Literal(Value::Bool(true)),
                "false" => Kind::Literal(Value::Bool(false)),
                "and" | "or" | "not" => return Err(error(format!("unexpected `{word}`"), at)),
                _ if self.sign("(").is_some() => self.call(&word, at)?,
                _ => self.name(word),
            },
            Token::Sign("(") => {
                let inner = self.expression()?;
                self.close()?;
                inner.kind
            }
            Token::Sign(sign) => return Err(error(format!("unexpected `{sign}`"), at)),
        };
        Ok(Node { at, kind })
    }

    fn call(&mut self, word: &str, at: usize) -> Result<Kind, ExpressionError> {
        let mut arguments = vec![self.expression()?];
        while self.sign(",").is_some() {
            arguments.push(self.expression()?);
        }
        self.close()?;
        if word == "if" {
            let parts = arguments.try_into().map_err(|_| error("`if` takes 3 arguments", at))?;
            return Ok(Kind::If(Box::new(parts)));
        }
        let function = Function::named(word).ok_or_else(|| error(format!("no function `{word}`"), at))?;
        if !function.takes(arguments.len()) {
            return Err(error(format!("wrong number of arguments for `{word}`"), at));
        }
        Ok(Kind::Call(function, arguments))
    }

    fn name(&mut self, name: String) -> Kind {
        let known = self.names.iter().position(|known| *known == name);
        Kind::Name(known.unwrap_or_else(|| {
            self.names.push(name);
            self.names.len() - 1
        }))
    }

    fn close(&mut self) -> Result<(), ExpressionError> {
        let at = self.tokens.peek().map_or(self.end, |(at, _)| *at);
        self.sign(")").map(|_| ()).ok_or_else(|| error("expected `)`", at))
    }

    fn deeper(&mut self, inner: impl FnOnce(&mut Self) -> Parsed) -> Parsed {
        self.depth += 1;
        if self.depth > DEEPEST {
            let at = self.tokens.peek().map_or(self.end, |(at, _)| *at);
            return Err(error(format!("nested deeper than {DEEPEST}"), at));
        }
        let parsed = inner(self);
        self.depth -= 1;
        parsed
    }

    fn word(&mut self, wanted: &str) -> Option<usize> {
        self.tokens.next_if(|(_, token)| matches!(token, Token::Word(word) if word == wanted)).map(|(at, _)| at)
    }

    fn sign(&mut self, wanted: &str) -> Option<usize> {
        self.tokens.next_if(|(_, token)| matches!(token, Token::Sign(sign) if *sign == wanted)).map(|(at, _)| at)
    }

    fn operator(&mut self, among: &[(&str, Operator)]) -> Option<(usize, Operator)> {
        among.iter().find_map(|(sign, operator)| Some((self.sign(sign)?, *operator)))
    }
}

fn binary(at: usize, operator: Operator, left: Node, right: Node) -> Node {
    Node { at, kind: Kind::Binary(operator, Box::new(left), Box::new(right)) }
}
