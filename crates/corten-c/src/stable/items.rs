//! Single elements: numbers as tensors, and tensors of one element as numbers.

use super::handle::{TensorHandle, give, tensor_at};
use super::outcome::{Outcome, guard};
use crate::tensor::write_to;
use corten::core::{Complex, bail, bf16, f16};
use corten::{DType, Device, Result, Scalar, op};

/// A complex number of C++.
#[repr(C)]
#[derive(Clone, Copy)]
struct Pair<T> {
    real: T,
    imaginary: T,
}

/// What an element is in C.
trait Item: Sized {
    fn of(number: Scalar) -> Result<Self>;
}

fn real(number: Scalar) -> Result<f64> {
    if let Scalar::Complex(found) = number
        && found.im != 0.0
    {
        bail!(Runtime, "value cannot be converted to type double without overflow");
    }
    Ok(number.to_f64())
}

macro_rules! integer_items {
    ($($type:ty)+) => {$(
        impl Item for $type {
            fn of(number: Scalar) -> Result<Self> {
                let fitting = match number {
                    Scalar::Bool(truth) => Some(Self::from(truth)),
                    Scalar::Int(number) => Self::try_from(number).ok(),
                    Scalar::UInt(number) => Self::try_from(number).ok(),
                    other => {
                        let whole = real(other)?.trunc();
                        let fits = whole >= Self::MIN as f64 && whole <= Self::MAX as f64;
                        fits.then_some(whole as Self)
                    }
                };
                let name = stringify!($type);
                match fitting {
                    Some(found) => Ok(found),
                    None => bail!(Runtime, "value cannot be converted to type {name} without overflow"),
                }
            }
        }
    )+};
}

integer_items! { i8 i16 i32 i64 u8 u16 u32 u64 }

impl Item for f64 {
    fn of(number: Scalar) -> Result<Self> {
        real(number)
    }
}

impl Item for f32 {
    fn of(number: Scalar) -> Result<Self> {
        Ok(real(number)? as Self)
    }
}

impl Item for f16 {
    fn of(number: Scalar) -> Result<Self> {
        Ok(Self::from_f64(real(number)?))
    }
}

impl Item for bf16 {
    fn of(number: Scalar) -> Result<Self> {
        Ok(Self::from_f64(real(number)?))
    }
}

impl Item for bool {
    fn of(number: Scalar) -> Result<Self> {
        Ok(match number {
            Scalar::Bool(truth) => truth,
            Scalar::Complex(found) => found.re != 0.0 || found.im != 0.0,
            other => other.to_f64() != 0.0,
        })
    }
}

impl Item for Pair<f32> {
    fn of(number: Scalar) -> Result<Self> {
        Ok(match number {
            Scalar::Complex(found) => Self { real: found.re as f32, imaginary: found.im as f32 },
            other => Self { real: other.to_f64() as f32, imaginary: 0.0 },
        })
    }
}

impl From<Pair<f32>> for Scalar {
    fn from(pair: Pair<f32>) -> Self {
        Self::Complex(Complex::new(f64::from(pair.real), f64::from(pair.imaginary)))
    }
}

impl From<Pair<f64>> for Scalar {
    fn from(pair: Pair<f64>) -> Self {
        Self::Complex(Complex::new(pair.real, pair.imaginary))
    }
}

macro_rules! items {
    ($($name:ident: $type:ty;)+) => {$(
        /// # Safety
        /// The handle must be alive, the place valid for a write.
        unsafe extern "C" fn $name(tensor: TensorHandle, item: *mut $type) -> Outcome {
            // SAFETY: the caller's.
            guard(|| unsafe { write_to(item, Item::of(op::item(tensor_at(tensor)?)?)?) })
        }
    )+};
}

items! {
    aoti_torch_item_float16: f16;
    aoti_torch_item_float32: f32;
    aoti_torch_item_float64: f64;
    aoti_torch_item_uint8: u8;
    aoti_torch_item_uint16: u16;
    aoti_torch_item_uint32: u32;
    aoti_torch_item_uint64: u64;
    aoti_torch_item_int8: i8;
    aoti_torch_item_int16: i16;
    aoti_torch_item_int32: i32;
    aoti_torch_item_int64: i64;
    aoti_torch_item_bool: bool;
    aoti_torch_item_bfloat16: bf16;
    aoti_torch_item_complex64: Pair<f32>;
}

macro_rules! scalar_tensors {
    ($($name:ident($type:ty): $dtype:ident, |$value:ident| $scalar:expr;)+) => {$(
        /// # Safety
        /// The place must be valid for a write.
        unsafe extern "C" fn $name($value: $type, made: *mut TensorHandle) -> Outcome {
            guard(|| {
                let (dtype, host) = (Some(DType::$dtype), Some(Device::CPU));
                let tensor = op::scalar_tensor($scalar, dtype, None, host, None)?;
                // SAFETY: the caller's.
                unsafe { write_to(made, give(tensor)) }
            })
        }
    )+};
}

scalar_tensors! {
    aoti_torch_scalar_to_tensor_float32(f32): Float32, |value| Scalar::Float(f64::from(value));
    aoti_torch_scalar_to_tensor_float64(f64): Float64, |value| Scalar::Float(value);
    aoti_torch_scalar_to_tensor_uint8(u8): UInt8, |value| Scalar::Int(i64::from(value));
    aoti_torch_scalar_to_tensor_uint16(u16): UInt16, |value| Scalar::Int(i64::from(value));
    aoti_torch_scalar_to_tensor_uint32(u32): UInt32, |value| Scalar::Int(i64::from(value));
    aoti_torch_scalar_to_tensor_uint64(u64): UInt64, |value| Scalar::UInt(value);
    aoti_torch_scalar_to_tensor_int8(i8): Int8, |value| Scalar::Int(i64::from(value));
    aoti_torch_scalar_to_tensor_int16(i16): Int16, |value| Scalar::Int(i64::from(value));
    aoti_torch_scalar_to_tensor_int32(i32): Int32, |value| Scalar::Int(i64::from(value));
    aoti_torch_scalar_to_tensor_int64(i64): Int64, |value| Scalar::Int(value);
    aoti_torch_scalar_to_tensor_bool(bool): Bool, |value| Scalar::Bool(value);
    aoti_torch_scalar_to_tensor_complex64(Pair<f32>): Complex64, |value| value.into();
    aoti_torch_scalar_to_tensor_complex128(Pair<f64>): Complex128, |value| value.into();
}

super::functions! {
    aoti_torch_item_float16
    aoti_torch_item_float32
    aoti_torch_item_float64
    aoti_torch_item_uint8
    aoti_torch_item_uint16
    aoti_torch_item_uint32
    aoti_torch_item_uint64
    aoti_torch_item_int8
    aoti_torch_item_int16
    aoti_torch_item_int32
    aoti_torch_item_int64
    aoti_torch_item_bool
    aoti_torch_item_bfloat16
    aoti_torch_item_complex64
    aoti_torch_scalar_to_tensor_float32
    aoti_torch_scalar_to_tensor_float64
    aoti_torch_scalar_to_tensor_uint8
    aoti_torch_scalar_to_tensor_uint16
    aoti_torch_scalar_to_tensor_uint32
    aoti_torch_scalar_to_tensor_uint64
    aoti_torch_scalar_to_tensor_int8
    aoti_torch_scalar_to_tensor_int16
    aoti_torch_scalar_to_tensor_int32
    aoti_torch_scalar_to_tensor_int64
    aoti_torch_scalar_to_tensor_bool
    aoti_torch_scalar_to_tensor_complex64
    aoti_torch_scalar_to_tensor_complex128
}
