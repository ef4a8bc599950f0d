//! Settings of optimizers as files hold them.

use corten_io::Value;

/// What can be a setting of a group: a field of an options struct.
///
/// ```
/// use corten::nn::optim::{Setting, Value};
///
/// assert!(matches!((0.9, 0.999).to_value(), Value::Tuple(_)));
/// assert_eq!(f64::from_value(&Value::Int(2)), Some(2.0));
/// ```
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
