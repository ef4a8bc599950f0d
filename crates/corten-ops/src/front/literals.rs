//! Tensors and indices as literals.

use crate::{Tensor, op};
use corten_core::{Complex, DType, Element, Result, bf16, default_dtype, f16};

/// What [`tensor!`](crate::tensor) takes: numbers, arrays of numbers, arrays of arrays.
///
/// ```
/// use corten::core::DType;
/// use corten::ops::front::Literal;
///
/// let mut sizes = Vec::new();
/// [[1.0, 2.0, 3.0]].sizes(&mut sizes);
/// assert_eq!(sizes, [1, 3]);
/// assert_eq!(<[i64; 2] as Literal>::dtype(), DType::Int64);
/// ```
pub trait Literal {
    /// The type of the elements.
    type Element: Element;

    /// The dtype of the tensor: Python's, so that `1.0` is of the default dtype and `1` is an `int64`.
    fn dtype() -> DType;

    /// Adds the sizes of the dimensions.
    fn sizes(&self, sizes: &mut Vec<i64>);

    /// Adds the elements in row-major order.
    fn elements(self, elements: &mut Vec<Self::Element>);
}

macro_rules! numbers {
    ($($type:ty => $dtype:expr),+ $(,)?) => {$(
        impl Literal for $type {
            type Element = $type;

            fn dtype() -> DType {
                $dtype
            }

            fn sizes(&self, _: &mut Vec<i64>) {}

            fn elements(self, elements: &mut Vec<$type>) {
                elements.push(self);
            }
        }
    )+};
}

numbers! {
    // What Rust takes literals without a suffix for.
    f64 => default_dtype(), i32 => DType::Int64,
    bool => DType::Bool, u8 => DType::UInt8, i8 => DType::Int8, i16 => DType::Int16, i64 => DType::Int64,
    u16 => DType::UInt16, u32 => DType::UInt32, u64 => DType::UInt64, f32 => DType::Float32,
    f16 => DType::Float16, bf16 => DType::BFloat16, Complex<f32> => DType::Complex64,
    Complex<f64> => DType::Complex128,
}

impl<L: Literal, const N: usize> Literal for [L; N] {
    type Element = L::Element;

    fn dtype() -> DType {
        L::dtype()
    }

    fn sizes(&self, sizes: &mut Vec<i64>) {
        sizes.push(N as i64);
        // Rows of an array have one length, which is that of a type; an empty one ends the sizes.
        if let Some(first) = self.first() {
            first.sizes(sizes);
        }
    }

    fn elements(self, elements: &mut Vec<L::Element>) {
        self.into_iter().for_each(|row| row.elements(elements));
    }
}

/// The tensor of a literal, of a dtype or of its own.
///
/// # Errors
/// Those of allocations where no memory is left.
pub fn from_literal<L: Literal>(literal: L, dtype: Option<DType>) -> Result<Tensor> {
    let (mut sizes, mut elements) = (Vec::new(), Vec::new());
    literal.sizes(&mut sizes);
    literal.elements(&mut elements);
    let tensor = Tensor::from_vec(elements, &sizes)?;
    op::to_dtype(&tensor, dtype.unwrap_or_else(L::dtype), false, false, None)
}

/// A tensor written as it is printed.
///
/// Numbers without a suffix have Python's dtypes: the default dtype for floating point, `int64` for integers;
/// others that of their type. A dtype may follow behind a semicolon. Gives a `Result<Tensor>`.
///
/// ```
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// let x = tensor![[1., 2., 3.], [4., 5., 6.]]?;
/// assert_eq!((x.sizes().as_slice(), x.dtype()), (&[2, 3][..], DType::Float32));
/// let y = tensor![1, 2, 3; DType::Float64]?;
/// assert_eq!(y.to_vec::<f64>()?, [1.0, 2.0, 3.0]);
/// # Ok(())
/// # }
/// ```
#[macro_export]
macro_rules! tensor {
    ($($item:expr),* $(,)?) => {
        $crate::front::from_literal([$($item),*], None)
    };
    ($($item:expr),* ; $dtype:expr) => {
        $crate::front::from_literal([$($item),*], Some($dtype))
    };
}

/// An index of several items, each of which may have a step behind a semicolon.
///
/// ```
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// let x = op::reshape(&Tensor::arange(0, 12)?, &[3, 4])?;
/// assert_eq!(x.i(s![.., 0..4; 2])?.to_vec::<i64>()?, [0, 2, 4, 6, 8, 10]);
/// assert_eq!(x.i(s![-1, 1..])?.to_vec::<i64>()?, [9, 10, 11]);
/// # Ok(())
/// # }
/// ```
#[macro_export]
macro_rules! s {
    ($($item:expr $(; $step:expr)?),* $(,)?) => {
        ::std::vec![$($crate::index::IndexItem::from($item)$(.step($step))?),*]
    };
}
