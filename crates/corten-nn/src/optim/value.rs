//! What optimizers and schedulers keep between programs, as files hold it.

use corten_ops::Tensor;

/// A value of a state dict, with the types that PyTorch writes.
#[derive(Clone, Debug)]
pub enum Value {
    /// No value.
    None,
    /// A truth value.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
    /// Text.
    Text(String),
    /// A tuple of Python.
    Tuple(Vec<Value>),
    /// A list.
    List(Vec<Value>),
    /// Keys and values in order.
    Dict(Vec<(Value, Value)>),
    /// A tensor.
    Tensor(Tensor),
}

impl Value {
    /// The value as a number: of a number, a truth value, or a tensor of one element.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Bool(value) => Some(f64::from(*value)),
            Self::Int(value) => Some(*value as f64),
            Self::Float(value) => Some(*value),
            Self::Tensor(value) => corten_ops::op::item(value).ok().map(|item| item.to_f64()),
            _ => None,
        }
    }

    /// The value as a tensor, if it is one.
    pub fn tensor(&self) -> Option<&Tensor> {
        match self {
            Self::Tensor(value) => Some(value),
            _ => None,
        }
    }

    /// The value of a key that is text.
    pub fn get(&self, key: &str) -> Option<&Value> {
        let Self::Dict(entries) = self else { return None };
        let is_key = |known: &Value| matches!(known, Self::Text(text) if text == key);
        entries.iter().find(|(known, _)| is_key(known)).map(|(_, value)| value)
    }

    /// A dictionary whose keys are text.
    pub fn named(entries: &[(String, Value)]) -> Self {
        let entries = entries.iter().map(|(key, value)| (Self::Text(key.clone()), value.clone()));
        Self::Dict(entries.collect())
    }

    /// The entries of a dictionary whose keys are text.
    pub fn entries(&self) -> Option<Vec<(String, Value)>> {
        let Self::Dict(entries) = self else { return None };
        let named = entries.iter().map(|(key, value)| match key {
            Self::Text(key) => Some((key.clone(), value.clone())),
            _ => None,
        });
        named.collect()
    }

    /// The elements of a tuple or a list.
    pub fn elements(&self) -> Option<&[Value]> {
        match self {
            Self::Tuple(values) | Self::List(values) => Some(values),
            _ => None,
        }
    }
}

/// What can be a setting of a group: a field of an options struct.
pub trait Setting: Sized {
    /// The setting as files hold it.
    fn to_value(&self) -> Value;

    /// The setting that a file holds, if it has the right type.
    fn from_value(value: &Value) -> Option<Self>;
}

impl Setting for f64 {
    fn to_value(&self) -> Value {
        // PyTorch's defaults of zero and one are integers, and its files hold them as such.
        Value::Float(*self)
    }

    fn from_value(value: &Value) -> Option<Self> {
        value.number()
    }
}

impl Setting for bool {
    fn to_value(&self) -> Value {
        Value::Bool(*self)
    }

    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Bool(value) => Some(*value),
            Value::None => Some(false),
            _ => None,
        }
    }
}

impl Setting for usize {
    fn to_value(&self) -> Value {
        i64::try_from(*self).map_or(Value::None, Value::Int)
    }

    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Int(value) => Self::try_from(*value).ok(),
            _ => None,
        }
    }
}

impl<T: Setting> Setting for Option<T> {
    fn to_value(&self) -> Value {
        self.as_ref().map_or(Value::None, T::to_value)
    }

    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::None => Some(None),
            value => T::from_value(value).map(Some),
        }
    }
}

impl<A: Setting, B: Setting> Setting for (A, B) {
    fn to_value(&self) -> Value {
        Value::Tuple(vec![self.0.to_value(), self.1.to_value()])
    }

    fn from_value(value: &Value) -> Option<Self> {
        match value.elements()? {
            [first, second] => Some((A::from_value(first)?, B::from_value(second)?)),
            _ => None,
        }
    }
}

impl Setting for (f64, f64, f64) {
    fn to_value(&self) -> Value {
        Value::Tuple([self.0, self.1, self.2].map(Value::Float).to_vec())
    }

    fn from_value(value: &Value) -> Option<Self> {
        match value.elements()? {
            [a, b, c] => Some((a.number()?, b.number()?, c.number()?)),
            _ => None,
        }
    }
}
