//! What an expression can be passed as.

use super::{BOOL, Code, ExprType, FLOAT, Form, INT, SCALAR, TENSOR, TENSORS, Use};
use crate::rust::{Base, Shape, Ty};
use std::collections::BTreeSet;

impl Code {
    pub(super) fn new(text: impl Into<String>, kind: ExprType) -> Self {
        Self { text: text.into(), kind, uses: BTreeSet::new() }
    }

    pub(super) fn passed(text: impl Into<String>, ty: Ty) -> Self {
        Self::new(text, ExprType::Known(ty, Form::Passed))
    }

    pub(super) fn place(text: impl Into<String>, ty: Ty) -> Self {
        Self::new(text, ExprType::Known(ty, Form::Section))
    }

    /// The result of a call with the given arguments.
    pub(super) fn result(text: String, types: &[Ty], arguments: &[Code]) -> Self {
        let kind = match types {
            [one] => ExprType::Known(*one, Form::Owned),
            several => ExprType::Tuple(several.to_vec()),
        };
        let uses = arguments.iter().flat_map(|argument| argument.uses.clone()).collect();
        Self { text, kind, uses }
    }

    pub(super) fn using(mut self, used: Use) -> Self {
        self.uses.insert(used);
        self
    }

    pub(super) fn map(mut self, change: impl FnOnce(&str) -> String) -> Self {
        self.text = change(&self.text);
        self
    }

    /// The same text as a value of another type.
    pub(super) fn retyped(mut self, ty: Ty) -> Self {
        self.kind = ExprType::Known(ty, Form::Passed);
        self
    }

    pub(super) fn owned(mut self, ty: Ty) -> Self {
        self.kind = ExprType::Known(ty, Form::Owned);
        self
    }

    /// New text over what both parts use.
    pub(super) fn join(mut self, other: Code, text: String) -> Self {
        self.uses.extend(other.uses);
        self.text = text;
        self
    }

    pub(super) fn is(&self, ty: Ty) -> bool {
        matches!(self.kind, ExprType::Known(known, _) if known == ty)
    }

    /// Values that Rust compares directly.
    pub(super) fn comparable(&self, other: &Code) -> bool {
        match (&self.kind, &other.kind) {
            (ExprType::Known(a, _), ExprType::Known(b, _)) => a == b && !a.holds_tensors(),
            _ => false,
        }
    }

    /// The text for a `&Tensor`.
    pub(super) fn borrowed_tensor(&self) -> Option<String> {
        match self.kind {
            ExprType::Known(ty, Form::Passed) if ty == TENSOR => Some(self.text.clone()),
            ExprType::Known(ty, _) if ty == TENSOR => Some(format!("&{}", self.text)),
            _ => None,
        }
    }

    /// The text for a `Tensor`.
    pub(super) fn owned_tensor(&self) -> Option<String> {
        match self.kind {
            ExprType::Known(ty, Form::Owned) if ty == TENSOR => Some(self.text.clone()),
            ExprType::Known(ty, _) if ty == TENSOR => Some(format!("{}.clone()", self.text)),
            ExprType::Known(Ty { base: Base::Tensor, shape: Shape::Optional }, Form::Owned) => {
                Some(format!("{}.unwrap_or_else(Tensor::undefined)", self.text))
            }
            _ => None,
        }
    }

    /// The text for a `Vec<Tensor>`.
    pub(super) fn owned_list(&self) -> Option<String> {
        match &self.kind {
            ExprType::Known(ty, Form::Owned) if *ty == TENSORS => Some(self.text.clone()),
            ExprType::Known(ty, _) if *ty == TENSORS => Some(format!("{}.to_vec()", self.text)),
            ExprType::List(parts) => {
                let parts: Option<Vec<String>> = parts.iter().map(Code::owned_tensor).collect();
                parts.map(|parts| format!("vec![{}]", parts.join(", ")))
            }
            _ => None,
        }
    }

    /// The type of a number that Rust computes with.
    pub(super) fn number(&self) -> Option<Ty> {
        match self.kind {
            ExprType::Integer => Some(INT),
            ExprType::Decimal => Some(FLOAT),
            ExprType::Known(ty, _) if ty == INT || ty == FLOAT => Some(ty),
            _ => None,
        }
    }

    /// The text of a number as the other side of an operator with a tensor.
    pub(super) fn factor(&self) -> Option<String> {
        match self.kind {
            // Without a suffix the compiler could not tell the operator's type.
            ExprType::Integer => Some(format!("{}_i64", self.text)),
            ExprType::Decimal => Some(format!("{}_f64", self.text)),
            ExprType::Known(ty, _) if [INT, FLOAT, SCALAR].contains(&ty) => Some(self.text.clone()),
            ExprType::Known(ty, _) if ty == BOOL => Some(format!("i64::from({})", self.text)),
            _ => None,
        }
    }

    /// For messages.
    pub(super) fn describe(&self) -> String {
        match &self.kind {
            ExprType::Known(ty, _) => format!("`{}`", ty.parameter()),
            ExprType::Integer | ExprType::Decimal => "a number".to_owned(),
            ExprType::Missing => "None".to_owned(),
            ExprType::List(_) => "a list".to_owned(),
            ExprType::Tuple(types) => format!("{} results", types.len()),
        }
    }

    /// The text with which this is passed as a type, and how far it was stretched.
    pub(super) fn coerced(&self, to: Ty) -> Option<(String, u32)> {
        match &self.kind {
            ExprType::Missing => {
                let optional = matches!(to.shape, Shape::Optional | Shape::OptionalList);
                optional.then(|| ("None".to_owned(), 0))
            }
            ExprType::Integer => self.literal(to),
            ExprType::Decimal => self.literal(to),
            ExprType::List(parts) => list(parts, to),
            ExprType::Tuple(_) => None,
            ExprType::Known(ty, form) => self.known(*ty, *form, to),
        }
    }

    fn literal(&self, to: Ty) -> Option<(String, u32)> {
        let text = &self.text;
        let whole = self.kind == ExprType::Integer;
        let one = match to.base {
            Base::Int if whole => (text.clone(), 0),
            Base::Float if whole => (format!("{text}.0"), 1),
            Base::Float => (text.clone(), 0),
            Base::Scalar if whole => (format!("Scalar::Int({text})"), 1),
            Base::Scalar => (format!("Scalar::Float({text})"), 1),
            _ => return None,
        };
        stretched(one, to)
    }

    fn known(&self, ty: Ty, form: Form, to: Ty) -> Option<(String, u32)> {
        if ty == to {
            return Some((self.as_parameter(ty, form), 0));
        }
        if ty.shape == Shape::One {
            let text = self.as_parameter(ty, form);
            let one = match (ty.base, to.base) {
                (a, b) if a == b => (text, 0),
                (Base::Int | Base::Float | Base::Bool, Base::Scalar) => {
                    (format!("Scalar::from({text})"), 1)
                }
                (Base::Int, Base::Float) => (format!("({text} as f64)"), 2),
                (Base::Scalar, Base::Float) => (format!("{text}.to_f64()"), 2),
                _ => return None,
            };
            return stretched(one, to);
        }
        if ty.shape == Shape::List && to.shape == Shape::OptionalList && ty.base == to.base {
            return Some((format!("Some({})", self.as_parameter(ty, form)), 1));
        }
        None
    }

    fn as_parameter(&self, ty: Ty, form: Form) -> String {
        let text = &self.text;
        if form == Form::Passed {
            return text.clone();
        }
        match (ty.shape, ty.base) {
            (Shape::One, Base::Tensor | Base::Generator | Base::Storage) => {
                format!("&{text}")
            }
            (Shape::One, _) => text.clone(),
            (Shape::Optional, Base::Tensor | Base::Generator) => format!("{text}.as_ref()"),
            (Shape::Optional, _) => text.clone(),
            (Shape::List | Shape::ListOfOptional, _) => format!("&{text}"),
            (Shape::OptionalList, _) => format!("{text}.as_deref()"),
        }
    }
}

/// One value where one, an optional one or a list is wanted.
fn stretched((text, cost): (String, u32), to: Ty) -> Option<(String, u32)> {
    match to.shape {
        Shape::One => Some((text, cost)),
        Shape::Optional => Some((format!("Some({text})"), cost + 1)),
        Shape::List if to.base == Base::Int => Some((format!("&[{text}]"), cost + 3)),
        Shape::OptionalList if to.base == Base::Int => Some((format!("Some(&[{text}])"), cost + 3)),
        _ => None,
    }
}

fn list(parts: &[Code], to: Ty) -> Option<(String, u32)> {
    let element = Ty::one(to.base);
    let mut texts = Vec::new();
    for part in parts {
        texts.push(match to.base {
            Base::Tensor if to.shape == Shape::List => part.owned_tensor()?,
            _ => part.coerced(element)?.0,
        });
    }
    let text = format!("&[{}]", texts.join(", "));
    match to.shape {
        Shape::List => Some((text, 1)),
        Shape::OptionalList => Some((format!("Some({text})"), 2)),
        _ => None,
    }
}
