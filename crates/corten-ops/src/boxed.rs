//! Boxed calls: arguments and results as tagged values on a stack.
//!
//! Back ends, tracing, operators defined at run time and the Python front end call through here;
//! typed calls never do.

use crate::Tensor;
use corten_core::{
    Complex, DType, Device, Dims, Generator, Layout, MemoryFormat, Result, Scalar, Storage, bail,
    bug,
};
use smallvec::SmallVec;
use std::any::Any;
use std::sync::Arc;

/// A tagged value.
///
/// ```
/// use corten::ops::IValue;
///
/// let value = IValue::from(2.5);
/// assert_eq!(value.get::<f64>()?, 2.5);
/// assert!(value.get::<&str>().is_err());
/// # Ok::<(), corten::Error>(())
/// ```
#[derive(Clone, Default)]
pub enum IValue {
    /// Absent: `None` for an optional argument.
    #[default]
    None,
    /// A tensor, possibly undefined.
    Tensor(Tensor),
    /// A floating-point number.
    Double(f64),
    /// A complex number.
    ComplexDouble(Complex<f64>),
    /// An integer.
    Int(i64),
    /// An unsigned integer above `i64::MAX`.
    UInt(u64),
    /// A truth value.
    Bool(bool),
    /// A string.
    String(Arc<str>),
    /// A list of integers.
    IntList(Dims),
    /// A list of floating-point numbers.
    DoubleList(Vec<f64>),
    /// A list of truth values.
    BoolList(Vec<bool>),
    /// A list of tensors.
    TensorList(Vec<Tensor>),
    /// A list of tensors of which some may be absent.
    OptionalTensorList(Vec<Option<Tensor>>),
    /// A list of numbers.
    ScalarList(Vec<Scalar>),
    /// A device.
    Device(Device),
    /// A dtype.
    DType(DType),
    /// A layout.
    Layout(Layout),
    /// A memory format.
    MemoryFormat(MemoryFormat),
    /// A random number generator.
    Generator(Generator),
    /// A storage.
    Storage(Storage),
    /// Several values.
    Tuple(Vec<IValue>),
    /// An object of the language in front, or of a back end.
    Object(Arc<dyn Any + Send + Sync>),
}

impl IValue {
    /// The name of the tag, for messages.
    pub fn tag(&self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Tensor(_) => "Tensor",
            Self::Double(_) => "Double",
            Self::ComplexDouble(_) => "ComplexDouble",
            Self::Int(_) | Self::UInt(_) => "Int",
            Self::Bool(_) => "Bool",
            Self::String(_) => "String",
            Self::IntList(_) => "IntList",
            Self::DoubleList(_) => "DoubleList",
            Self::BoolList(_) => "BoolList",
            Self::TensorList(_) => "TensorList",
            Self::OptionalTensorList(_) => "OptionalTensorList",
            Self::ScalarList(_) => "ScalarList",
            Self::Device(_) => "Device",
            Self::DType(_) => "ScalarType",
            Self::Layout(_) => "Layout",
            Self::MemoryFormat(_) => "MemoryFormat",
            Self::Generator(_) => "Generator",
            Self::Storage(_) => "Storage",
            Self::Tuple(_) => "Tuple",
            Self::Object(_) => "Object",
        }
    }

    /// The value as the argument type that the context asks for.
    ///
    /// # Errors
    /// `Internal` when the tag is another one.
    pub fn get<'a, T: FromIValue<'a>>(&'a self) -> Result<T> {
        T::from_ivalue(self)
    }

    /// Calls `visit` with every tensor in the value.
    pub fn for_each_tensor(&self, visit: &mut impl FnMut(&Tensor)) {
        match self {
            Self::Tensor(tensor) => visit(tensor),
            Self::TensorList(list) => list.iter().for_each(visit),
            Self::OptionalTensorList(list) => list.iter().flatten().for_each(visit),
            Self::Tuple(values) => values.iter().for_each(|value| value.for_each_tensor(visit)),
            _ => {}
        }
    }
}

impl IValue {
    /// Becomes another value; the frequent small ones are written in place.
    pub fn set_to(&mut self, other: &Self) {
        match *other {
            Self::None => *self = Self::None,
            Self::Int(value) => *self = Self::Int(value),
            Self::Double(value) => *self = Self::Double(value),
            Self::Bool(value) => *self = Self::Bool(value),
            _ => self.clone_from(other),
        }
    }
}

/// The stack of a boxed call: arguments in schema order, replaced by the results.
///
/// ```
/// use corten::ops::{Stack, returns};
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// let mut stack = Stack::new();
/// stack.push(tensor![1.0, -2.0]?);
/// corten::ops::call("aten::abs", &mut stack)?;
/// let result: Tensor = returns(stack)?;
/// assert_eq!(result.to_vec::<f32>()?, [1.0, 2.0]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Stack(SmallVec<[IValue; IN_PLACE]>);

/// Stacks of up to this many values need no heap block.
const IN_PLACE: usize = 6;

impl Stack {
    /// An empty stack.
    pub fn new() -> Self {
        Self::default()
    }

    /// A stack of absent values, to be replaced where they lie: a value that is made elsewhere and
    /// then moved takes several times as long.
    #[inline]
    pub fn of_none(count: usize) -> Self {
        const NONE: [IValue; IN_PLACE] = [const { IValue::None }; IN_PLACE];
        if count <= IN_PLACE {
            return Self(SmallVec::from_buf_and_len(NONE, count));
        }
        // Bounded: arguments.
        Self(SmallVec::from_elem(IValue::None, count))
    }

    /// Puts a value on top.
    pub fn push(&mut self, value: impl Into<IValue>) {
        self.0.push(value.into());
    }

    /// Takes the value on top.
    pub fn pop(&mut self) -> Option<IValue> {
        self.0.pop()
    }

    /// Replaces everything by the results of a call.
    pub fn replace(&mut self, results: impl Returns) {
        self.0.clear();
        results.push_to(self);
    }

    /// Removes everything.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

impl std::ops::Deref for Stack {
    type Target = [IValue];

    fn deref(&self) -> &[IValue] {
        &self.0
    }
}

impl std::ops::DerefMut for Stack {
    fn deref_mut(&mut self) -> &mut [IValue] {
        &mut self.0
    }
}

impl FromIterator<IValue> for Stack {
    fn from_iter<I: IntoIterator<Item = IValue>>(values: I) -> Self {
        Self(values.into_iter().collect())
    }
}

/// The results of a boxed call as a typed value.
///
/// # Errors
/// `Internal` when the stack does not hold that type.
pub fn returns<T: Returns>(mut stack: Stack) -> Result<T> {
    let result = T::pop_from(&mut stack)?;
    if !stack.is_empty() {
        bug!("a boxed kernel left {} values too many on the stack", stack.len());
    }
    Ok(result)
}

/// A type that an argument of a boxed call can be read as.
///
/// ```
/// use corten::ops::{FromIValue, IValue};
///
/// assert_eq!(Option::<i64>::from_ivalue(&IValue::None)?, None);
/// assert_eq!(Option::<i64>::from_ivalue(&IValue::Int(3))?, Some(3));
/// # Ok::<(), corten::Error>(())
/// ```
pub trait FromIValue<'a>: Sized {
    /// Reads the value.
    ///
    /// # Errors
    /// `Internal` when the tag is another one.
    fn from_ivalue(value: &'a IValue) -> Result<Self>;
}

fn mismatch<T>(expected: &str, value: &IValue) -> Result<T> {
    bug!("expected a boxed {expected}, found {}", value.tag())
}

macro_rules! from_ivalue {
    ($($type:ty, $name:literal: $($pattern:pat => $value:expr),+;)+) => {$(
        impl<'a> FromIValue<'a> for $type {
            fn from_ivalue(value: &'a IValue) -> Result<Self> {
                match value {
                    $($pattern => Ok($value),)+
                    other => mismatch($name, other),
                }
            }
        }
    )+};
}

from_ivalue! {
    &'a Tensor, "Tensor": IValue::Tensor(v) => v;
    Scalar, "Scalar":
        IValue::Double(v) => Scalar::Float(*v), IValue::Int(v) => Scalar::Int(*v),
        IValue::UInt(v) => Scalar::UInt(*v), IValue::Bool(v) => Scalar::Bool(*v),
        IValue::ComplexDouble(v) => Scalar::Complex(*v);
    i64, "Int": IValue::Int(v) => *v, IValue::Bool(v) => i64::from(*v);
    f64, "Double": IValue::Double(v) => *v, IValue::Int(v) => *v as f64,
        IValue::Bool(v) => f64::from(u8::from(*v));
    bool, "Bool": IValue::Bool(v) => *v, IValue::Int(v) => *v != 0;
    &'a str, "String": IValue::String(v) => v;
    &'a [i64], "IntList": IValue::IntList(v) => v;
    &'a [f64], "DoubleList": IValue::DoubleList(v) => v;
    &'a [bool], "BoolList": IValue::BoolList(v) => v;
    &'a [Tensor], "TensorList": IValue::TensorList(v) => v;
    &'a [Option<Tensor>], "OptionalTensorList": IValue::OptionalTensorList(v) => v;
    &'a [Scalar], "ScalarList": IValue::ScalarList(v) => v;
    Device, "Device": IValue::Device(v) => *v;
    DType, "ScalarType": IValue::DType(v) => *v;
    Layout, "Layout": IValue::Layout(v) => *v;
    MemoryFormat, "MemoryFormat": IValue::MemoryFormat(v) => *v;
    &'a Generator, "Generator": IValue::Generator(v) => v;
    &'a Storage, "Storage": IValue::Storage(v) => v;
}

impl<'a, T: FromIValue<'a>> FromIValue<'a> for Option<T> {
    fn from_ivalue(value: &'a IValue) -> Result<Self> {
        match value {
            IValue::None => Ok(None),
            IValue::Tensor(tensor) if !tensor.defined() => Ok(None),
            other => T::from_ivalue(other).map(Some),
        }
    }
}

/// A value that becomes tagged where it will stay: put together first and then moved, it would be
/// read by wider loads than it was stored with, which wait for the stores.
///
/// ```
/// use corten::ops::{IValue, StoreIn};
///
/// let mut place = IValue::None;
/// 7i64.store_in(&mut place);
/// assert_eq!(place.get::<i64>()?, 7);
/// # Ok::<(), corten::Error>(())
/// ```
pub trait StoreIn {
    /// Stores the value in `place`.
    fn store_in(self, place: &mut IValue);
}

macro_rules! into_ivalue {
    ($($type:ty, $value:ident => $result:expr;)+) => {$(
        impl From<$type> for IValue {
            #[inline]
            fn from($value: $type) -> Self { $result }
        }

        impl StoreIn for $type {
            #[inline]
            fn store_in(self, place: &mut IValue) {
                *place = self.into();
            }
        }
    )+};
}

into_ivalue! {
    Tensor, v => Self::Tensor(v);
    &Tensor, v => Self::Tensor(v.clone());
    i64, v => Self::Int(v);
    f64, v => Self::Double(v);
    bool, v => Self::Bool(v);
    &str, v => Self::String(v.into());
    String, v => Self::String(v.into());
    &[i64], v => Self::IntList(v.into());
    Dims, v => Self::IntList(v);
    Vec<i64>, v => Self::IntList(v.into());
    &[f64], v => Self::DoubleList(v.into());
    Vec<f64>, v => Self::DoubleList(v);
    &[bool], v => Self::BoolList(v.into());
    Vec<bool>, v => Self::BoolList(v);
    &[Tensor], v => Self::TensorList(v.into());
    Vec<Tensor>, v => Self::TensorList(v);
    &[Option<Tensor>], v => Self::OptionalTensorList(v.into());
    Vec<Option<Tensor>>, v => Self::OptionalTensorList(v);
    &[Scalar], v => Self::ScalarList(v.into());
    Vec<Scalar>, v => Self::ScalarList(v);
    Device, v => Self::Device(v);
    DType, v => Self::DType(v);
    Layout, v => Self::Layout(v);
    MemoryFormat, v => Self::MemoryFormat(v);
    &Generator, v => Self::Generator(v.clone());
    Generator, v => Self::Generator(v);
    Storage, v => Self::Storage(v);
    &Storage, v => Self::Storage(v.clone());
    Complex<f64>, v => Self::ComplexDouble(v);
}

impl From<Scalar> for IValue {
    fn from(value: Scalar) -> Self {
        match value {
            Scalar::Bool(v) => Self::Bool(v),
            Scalar::Int(v) => Self::Int(v),
            Scalar::UInt(v) => Self::UInt(v),
            Scalar::Float(v) => Self::Double(v),
            Scalar::Complex(v) => Self::ComplexDouble(v),
        }
    }
}

impl StoreIn for Scalar {
    #[inline]
    fn store_in(self, place: &mut IValue) {
        match self {
            Self::Bool(v) => *place = IValue::Bool(v),
            Self::Int(v) => *place = IValue::Int(v),
            Self::UInt(v) => *place = IValue::UInt(v),
            Self::Float(v) => *place = IValue::Double(v),
            Self::Complex(v) => *place = IValue::ComplexDouble(v),
        }
    }
}

impl<T: StoreIn> StoreIn for Option<T> {
    #[inline]
    fn store_in(self, place: &mut IValue) {
        match self {
            Some(value) => value.store_in(place),
            None => *place = IValue::None,
        }
    }
}

impl StoreIn for IValue {
    #[inline]
    fn store_in(self, place: &mut IValue) {
        *place = self;
    }
}

impl<T: Into<IValue>> From<Option<T>> for IValue {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::None, Into::into)
    }
}

/// What an operator returns: pushed to and taken from a stack.
///
/// ```
/// use corten::ops::{Returns, Stack, returns};
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// /// Calls an operator of one argument.
/// fn unary<R: Returns>(name: &str, x: Tensor) -> Result<R> {
///     let mut stack = Stack::new();
///     stack.push(x);
///     corten::ops::call(name, &mut stack)?;
///     returns(stack)
/// }
/// let exponent: Tensor = unary("aten::exp", tensor![0.0]?)?;
/// assert_eq!(exponent.to_vec::<f32>()?, [1.0]);
/// # Ok(())
/// # }
/// ```
pub trait Returns: Sized {
    /// Pushes the results in order.
    fn push_to(self, stack: &mut Stack);
    /// Takes the results off the top.
    ///
    /// # Errors
    /// `Internal` when the stack holds other types.
    fn pop_from(stack: &mut Stack) -> Result<Self>;
}

fn take(stack: &mut Stack) -> Result<IValue> {
    match stack.pop() {
        Some(value) => Ok(value),
        None => bug!("a boxed kernel returned too few values"),
    }
}

impl Returns for () {
    fn push_to(self, _stack: &mut Stack) {}

    fn pop_from(_stack: &mut Stack) -> Result<Self> {
        Ok(())
    }
}

macro_rules! returns_one {
    ($($type:ty, $name:literal: $pattern:pat => $value:expr;)+) => {$(
        impl Returns for $type {
            fn push_to(self, stack: &mut Stack) { stack.push(self); }

            fn pop_from(stack: &mut Stack) -> Result<Self> {
                match take(stack)? {
                    $pattern => Ok($value),
                    other => mismatch($name, &other),
                }
            }
        }
    )+};
}

returns_one! {
    Tensor, "Tensor": IValue::Tensor(v) => v;
    Vec<Tensor>, "TensorList": IValue::TensorList(v) => v;
    i64, "Int": IValue::Int(v) => v;
    f64, "Double": IValue::Double(v) => v;
    bool, "Bool": IValue::Bool(v) => v;
    DType, "ScalarType": IValue::DType(v) => v;
}

impl Returns for Scalar {
    fn push_to(self, stack: &mut Stack) {
        stack.push(self);
    }

    fn pop_from(stack: &mut Stack) -> Result<Self> {
        take(stack)?.get()
    }
}

macro_rules! returns_tuple {
    ($($name:ident)+; $($reversed:ident)+) => {
        impl<$($name: Returns),+> Returns for ($($name,)+) {
            #[allow(non_snake_case)]
            fn push_to(self, stack: &mut Stack) {
                let ($($name,)+) = self;
                $($name.push_to(stack);)+
            }

            #[allow(non_snake_case)]
            fn pop_from(stack: &mut Stack) -> Result<Self> {
                $(let $reversed = $reversed::pop_from(stack)?;)+
                Ok(($($name,)+))
            }
        }
    };
}

returns_tuple!(A B; B A);
returns_tuple!(A B C; C B A);
returns_tuple!(A B C D; D C B A);
returns_tuple!(A B C D E; E D C B A);
returns_tuple!(A B C D E F; F E D C B A);

/// Fails with torch's words for an operator called with too many or too few arguments.
///
/// # Errors
/// `Type` when the count differs.
pub(crate) fn check_argument_count(operator: &str, given: usize, expected: usize) -> Result<()> {
    if given != expected {
        bail!(Type, "{operator}() expected {expected} arguments on the stack, but got {given}");
    }
    Ok(())
}
