//! Printing: the inverse of parsing.

use super::{Alias, Argument, Return, Schema, Type, Value};
use std::fmt::{self, Display, Formatter, Write};

fn joined<T: Display>(f: &mut Formatter<'_>, items: &[T], separator: &str) -> fmt::Result {
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            f.write_str(separator)?;
        }
        write!(f, "{item}")?;
    }
    Ok(())
}

impl Display for Schema {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if !self.namespace.is_empty() {
            write!(f, "{}::", self.namespace)?;
        }
        write!(f, "{}(", self.full_name())?;
        let mut parts = Vec::with_capacity(self.arguments.len() + 2);
        let mut kwarg_only = false;
        for argument in &self.arguments {
            if argument.kwarg_only && !kwarg_only {
                kwarg_only = true;
                parts.push("*".to_owned());
            }
            parts.push(argument.to_string());
        }
        if self.vararg {
            parts.push("...".to_owned());
        }
        joined(f, &parts, ", ")?;
        f.write_str(") -> ")?;
        match (&self.returns[..], self.varret) {
            ([], true) => f.write_str("..."),
            // A tuple type alone would read as several results.
            ([one], false) if !matches!(leftmost(&one.ty), Type::Tuple(_)) => write!(f, "{one}"),
            (several, varret) => {
                f.write_char('(')?;
                joined(f, several, ", ")?;
                f.write_str(if varret { ", ...)" } else { ")" })
            }
        }
    }
}

/// The type that the text of a type begins with.
fn leftmost(ty: &Type) -> &Type {
    match ty {
        Type::Optional(inner) | Type::List(inner, _) | Type::Aliased(inner, _) => leftmost(inner),
        other => other,
    }
}

impl Display for Argument {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.ty, self.name)?;
        match &self.default {
            Some(value) => write!(f, "={value}"),
            None => Ok(()),
        }
    }
}

impl Display for Return {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{} {name}", self.ty),
            None => write!(f, "{}", self.ty),
        }
    }
}

impl Display for Type {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Base(base) => f.write_str(base.name()),
            Self::Optional(inner) => write!(f, "{inner}?"),
            Self::List(inner, None) => write!(f, "{inner}[]"),
            Self::List(inner, Some(size)) => write!(f, "{inner}[{size}]"),
            Self::Aliased(inner, alias) => write!(f, "{inner}{alias}"),
            Self::Tuple(parts) => {
                f.write_char('(')?;
                joined(f, parts, ", ")?;
                f.write_char(')')
            }
            Self::Generic(name, parts) => {
                write!(f, "{name}(")?;
                joined(f, parts, ", ")?;
                f.write_char(')')
            }
        }
    }
}

impl Display for Alias {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_char('(')?;
        joined(f, &self.before, "|")?;
        if self.write {
            f.write_char('!')?;
        }
        if let Some(after) = &self.after {
            f.write_str(" -> ")?;
            joined(f, after, "|")?;
        }
        f.write_char(')')
    }
}

impl Display for Value {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::Bool(true) => f.write_str("True"),
            Self::Bool(false) => f.write_str("False"),
            Self::Int(number) => write!(f, "{number}"),
            Self::Float(text) | Self::Str(text) | Self::Name(text) => f.write_str(text),
            Self::List(values) => {
                f.write_char('[')?;
                joined(f, values, ", ")?;
                f.write_char(']')
            }
        }
    }
}
