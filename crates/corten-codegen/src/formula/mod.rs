//! The formula language: a closed part of Rust's expression syntax.
//!
//! Numbers, strings, names, `+ - * /`, unary minus, comparisons, `&& || !`, calls, methods,
//! `if … { … } else { … }`, `[a, b]`, `grads[1]`. Everything else is refused.

mod calls;
pub mod gradient;
mod parse;
pub mod pointwise;

pub use calls::{FormulaFunction, Functions};

use std::fmt;

/// An expression with the text it came from.
#[derive(Clone, Debug)]
pub struct Formula {
    /// The text.
    pub text: String,
    /// The parsed expression.
    pub expr: Expr,
}

impl Formula {
    /// Parses a formula.
    ///
    /// # Errors
    /// What the language does not have.
    pub fn parse(text: &str) -> Result<Self, String> {
        Ok(Self { text: text.to_owned(), expr: parse::expression(text)? })
    }
}

impl fmt::Display for Formula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// A number as it was written, without suffix.
    Number(String),
    /// A string.
    Text(String),
    /// `true` or `false`.
    Bool(bool),
    /// A name; `None` is one too.
    Name(String),
    /// `grads[1]`.
    Index(Box<Expr>, usize),
    /// `-x`.
    Negative(Box<Expr>),
    /// `!x`.
    Not(Box<Expr>),
    /// `a + b`, `a < b`, `a && b`.
    Binary(Box<Expr>, &'static str, Box<Expr>),
    /// `f(a, b)`.
    Call(String, Vec<Expr>),
    /// `x.f(a, b)`.
    Method(Box<Expr>, String, Vec<Expr>),
    /// `if c { a } else { b }`.
    If(Box<Expr>, Box<Expr>, Box<Expr>),
    /// `[a, b]`.
    List(Vec<Expr>),
}

impl Expr {
    /// Calls `visit` with this expression and every one inside, outermost first.
    pub fn walk<'a>(&'a self, visit: &mut impl FnMut(&'a Expr)) {
        visit(self);
        match self {
            Self::Number(_) | Self::Text(_) | Self::Bool(_) | Self::Name(_) => {}
            Self::Index(inner, _) | Self::Negative(inner) | Self::Not(inner) => inner.walk(visit),
            Self::Binary(left, _, right) => {
                left.walk(visit);
                right.walk(visit);
            }
            Self::Call(_, arguments) | Self::List(arguments) => {
                arguments.iter().for_each(|argument| argument.walk(visit));
            }
            Self::Method(receiver, _, arguments) => {
                receiver.walk(visit);
                arguments.iter().for_each(|argument| argument.walk(visit));
            }
            Self::If(condition, then, otherwise) => {
                condition.walk(visit);
                then.walk(visit);
                otherwise.walk(visit);
            }
        }
    }

    /// Whether the name occurs.
    pub fn mentions(&self, name: &str) -> bool {
        let mut found = false;
        self.walk(&mut |expr| found |= matches!(expr, Expr::Name(other) if other == name));
        found
    }
}
