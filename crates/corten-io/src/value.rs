//! What files hold: values with the types of Python, and tensors.

use corten_core::{DType, Device, Layout};
use corten_ops::{Tensor, op};

/// A value of a file: of a pickle, of a state dict, of metadata.
///
/// ```
/// use corten::io::Value;
///
/// let options = Value::from_pairs([("lr", Value::Float(0.1)), ("steps", Value::Int(3))]);
/// assert_eq!(options.get("steps").and_then(Value::number), Some(3.0));
/// ```
#[derive(Clone, Debug)]
pub enum Value {
    /// `None`.
    None,
    /// A truth value.
    Bool(bool),
    /// A whole number of 64 bits.
    Int(i64),
    /// A whole number beyond 64 bits: two's complement, little-endian.
    BigInt(Vec<u8>),
    /// A number.
    Float(f64),
    /// A complex number.
    Complex(f64, f64),
    /// Text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// A tuple of Python.
    Tuple(Vec<Value>),
    /// A list.
    List(Vec<Value>),
    /// A set.
    Set(Vec<Value>),
    /// Keys and values in order: a `dict`, an `OrderedDict` or a `Counter`.
    Dict(Vec<(Value, Value)>),
    /// A tensor.
    Tensor(Tensor),
    /// A `torch.Size`.
    Size(Vec<i64>),
    /// A dtype.
    DType(DType),
    /// A device.
    Device(Device),
    /// A layout.
    Layout(Layout),
    /// An object of a class that is not known here: nothing of it is run.
    Object(Box<Object>),
}

/// An object of a class that is not known here.
#[derive(Clone, Debug)]
pub struct Object {
    /// Module and name of its class.
    pub class: String,
    /// What it was called with, its state, and what was added to it.
    pub parts: Vec<Value>,
}

impl Value {
    /// The value as a number: of a number, a truth value, or a tensor of one element.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Bool(value) => Some(f64::from(*value)),
            Self::Int(value) => Some(*value as f64),
            Self::Float(value) => Some(*value),
            Self::Tensor(value) => op::item(value).ok().map(|item| item.to_f64()),
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

    /// The value as text, if it is text.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(value) => Some(value),
            _ => None,
        }
    }

    /// The value of a key that is text.
    pub fn get(&self, key: &str) -> Option<&Self> {
        let Self::Dict(entries) = self else { return None };
        entries.iter().find(|(known, _)| known.text() == Some(key)).map(|(_, value)| value)
    }

    /// A dictionary whose keys are text.
    pub fn named(entries: &[(String, Self)]) -> Self {
        let entries = entries.iter().map(|(key, value)| (Self::Text(key.clone()), value.clone()));
        Self::Dict(entries.collect())
    }

    /// A dictionary of pairs.
    pub fn from_pairs<K: Into<String>>(pairs: impl IntoIterator<Item = (K, Self)>) -> Self {
        let pairs = pairs.into_iter().map(|(key, value)| (Self::Text(key.into()), value));
        Self::Dict(pairs.collect())
    }

    /// A dictionary of named tensors, such as a state dict.
    pub fn from_tensors<K: Into<String>>(tensors: impl IntoIterator<Item = (K, Tensor)>) -> Self {
        Self::from_pairs(tensors.into_iter().map(|(key, tensor)| (key, Self::Tensor(tensor))))
    }

    /// The entries of a dictionary whose keys are text.
    pub fn entries(&self) -> Option<Vec<(String, Self)>> {
        let Self::Dict(entries) = self else { return None };
        let named =
            entries.iter().map(|(key, value)| Some((key.text()?.to_owned(), value.clone())));
        named.collect()
    }

    /// All tensors with the dotted paths to them, in order: what a state dict is made of, however it is nested.
    pub fn tensors(&self) -> Vec<(String, Tensor)> {
        fn visit(value: &Value, path: &str, found: &mut Vec<(String, Tensor)>) {
            let below = |key: &str| {
                if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
            };
            match value {
                Value::Tensor(tensor) => found.push((path.to_owned(), tensor.clone())),
                Value::Dict(entries) => {
                    for (key, value) in entries {
                        let key = match key {
                            Value::Text(key) => key.clone(),
                            Value::Int(key) => key.to_string(),
                            _ => continue,
                        };
                        visit(value, &below(&key), found);
                    }
                }
                Value::List(values) | Value::Tuple(values) => {
                    let numbered = values.iter().enumerate();
                    numbered.for_each(|(i, value)| visit(value, &below(&i.to_string()), found));
                }
                _ => {}
            }
        }
        let mut found = Vec::new();
        visit(self, "", &mut found);
        found
    }

    /// The elements of a tuple or a list.
    pub fn elements(&self) -> Option<&[Self]> {
        match self {
            Self::Tuple(values) | Self::List(values) => Some(values),
            _ => None,
        }
    }
}
