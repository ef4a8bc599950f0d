//! PyTorch's schema language: parsing and printing.
//!
//! `add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor` and everything else that
//! PyTorch registers parses, and prints back to the same text.

mod parse;
mod print;
mod types;

pub use types::{Alias, BaseType, Type};

use std::fmt;
use std::str::FromStr;

/// The declaration of one operator overload.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Schema {
    /// The part before `::`; empty when the text names none.
    pub namespace: String,
    /// The name without namespace and overload.
    pub name: String,
    /// The part after the dot; empty for the default overload.
    pub overload: String,
    /// The arguments, positional ones first.
    pub arguments: Vec<Argument>,
    /// The results.
    pub returns: Vec<Return>,
    /// Whether the arguments end in `...`.
    pub vararg: bool,
    /// Whether the results end in `...`.
    pub varret: bool,
}

/// One argument of a schema.
#[derive(Clone, Debug, PartialEq)]
pub struct Argument {
    /// The name.
    pub name: String,
    /// The type with its alias annotations.
    pub ty: Type,
    /// The default value.
    pub default: Option<Value>,
    /// Whether the argument can be given by name only.
    pub kwarg_only: bool,
}

/// One result of a schema.
#[derive(Clone, Debug, PartialEq)]
pub struct Return {
    /// The name, where there is one.
    pub name: Option<String>,
    /// The type with its alias annotations.
    pub ty: Type,
}

/// A default value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `None`.
    None,
    /// `True` or `False`.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A floating-point number, as it was written.
    Float(String),
    /// A string, between its quotes as it was written.
    Str(String),
    /// A list.
    List(Vec<Value>),
    /// The name of an enumerator: `contiguous_format`, `Mean`.
    Name(String),
}

/// Why a text is not a schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// What was expected.
    pub message: String,
    /// The byte where the parser stopped.
    pub offset: usize,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.message, self.offset)
    }
}

impl std::error::Error for ParseError {}

impl FromStr for Schema {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        Self::parse(text)
    }
}

impl Schema {
    /// Parses a schema.
    ///
    /// # Errors
    /// When the text is not one.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        parse::schema(text)
    }

    /// `name` or `name.overload`: what tells overloads of a namespace apart.
    pub fn full_name(&self) -> String {
        match self.overload.as_str() {
            "" => self.name.clone(),
            overload => format!("{}.{overload}", self.name),
        }
    }

    /// Whether the name ends in one underscore, the mark of an in-place operator.
    pub fn is_inplace_name(&self) -> bool {
        self.name.ends_with('_') && !self.name.ends_with("__")
    }

    /// The arguments that the operator writes to.
    pub fn written(&self) -> impl Iterator<Item = &Argument> {
        self.arguments.iter().filter(|argument| argument.is_written())
    }

    /// The arguments that the operator writes to and returns; all that it writes to where it
    /// returns nothing. Others it writes to hold what it drew or counted.
    pub fn rewritten(&self) -> impl Iterator<Item = &Argument> {
        let returned = |argument: &Argument| {
            let alias = argument.ty.alias();
            alias.is_some_and(|a| {
                self.returns.iter().filter_map(|r| r.ty.alias()).any(|b| a.meets(b))
            })
        };
        self.written().filter(move |argument| self.returns.is_empty() || returned(argument))
    }

    /// The keyword-only arguments that the operator writes to and returns: `out`.
    pub fn outs(&self) -> impl Iterator<Item = &Argument> {
        self.written().filter(|argument| argument.kwarg_only)
    }

    /// Whether nothing is written.
    pub fn is_functional(&self) -> bool {
        self.written().next().is_none()
    }

    /// The argument whose memory the results may share, for a functional operator.
    pub fn viewed(&self) -> Option<&Argument> {
        if !self.is_functional() {
            return None;
        }
        let shared = self.returns.iter().find_map(|r| r.ty.alias())?;
        self.arguments.iter().find(|a| a.ty.alias().is_some_and(|alias| alias.meets(shared)))
    }

    /// The same schema as PyTorch's registry holds it: enumerators as numbers, defaults of
    /// sized lists and of numbers in one spelling. Two texts mean the same exactly when their
    /// normal forms are equal.
    pub fn normalized(mut self) -> Self {
        for argument in &mut self.arguments {
            if let Some(value) = argument.default.take() {
                argument.default = Some(value.normalized(&argument.ty));
            }
        }
        self
    }
}

impl Argument {
    /// Whether the operator writes to the argument.
    pub fn is_written(&self) -> bool {
        self.ty.alias().is_some_and(|alias| alias.write)
    }

    /// Whether the results may share memory with the argument.
    pub fn is_aliased(&self) -> bool {
        self.ty.alias().is_some()
    }
}

impl Value {
    /// The enumerators that schemas name, as the numbers that PyTorch stores.
    pub fn enumerator(name: &str) -> Option<i64> {
        Some(match name {
            "contiguous_format" | "strided" => 0,
            "Mean" | "preserve_format" => 1,
            "Sum" | "channels_last" => 2,
            "channels_last_3d" => 3,
            "long" => 4,
            _ => return None,
        })
    }

    fn normalized(self, ty: &Type) -> Self {
        match (self, ty.bare()) {
            (Self::Name(name), _) => match Self::enumerator(&name) {
                Some(number) => Self::Int(number),
                None => Self::Name(name),
            },
            (Self::Float(text), _) => match text.parse::<f64>() {
                Ok(number) => Self::Float(format!("{number:?}")),
                Err(_) => Self::Float(text),
            },
            (Self::Int(number), Type::Base(BaseType::Float)) => {
                Self::Float(format!("{:?}", number as f64))
            }
            (Self::List(values), Type::List(element, _)) => {
                Self::List(values.into_iter().map(|v| v.normalized(element)).collect())
            }
            (value, Type::List(element, Some(size))) if value != Self::None => {
                Self::List(vec![value.normalized(element); *size])
            }
            (value, Type::Optional(inner)) => value.normalized(inner),
            (Self::Str(text), _) => Self::Str(text.replace('\'', "\"")),
            (value, _) => value,
        }
    }
}
