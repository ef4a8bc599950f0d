//! What loops over contiguous memory have in common.

use crate::pointwise::vector_loop::FAR;
use corten_core::{DType, Element, Result, Scalar, match_dtype};
use smallvec::SmallVec;

/// One operand of a contiguous loop.
#[derive(Clone, Copy)]
pub(crate) struct Source {
    /// The first element.
    pub(crate) from: *const u8,
    /// Whether every step takes the same element.
    pub(crate) fixed: bool,
}

/// Operators have at most this many scalar arguments.
pub(crate) const MOST_SCALARS: usize = 4;

/// Room for an element of any dtype.
pub(crate) type Value = [u64; 2];

/// The scalar arguments, in the element type of the loop.
#[derive(Clone)]
pub(crate) struct Scalars {
    values: [Value; MOST_SCALARS],
    count: usize,
}

/// A contiguous loop: `n` results from three operands, of which it may need fewer.
///
/// # Safety
/// The result must be writable and the operands readable for `n` elements (a fixed one for one
/// element) of the types the loop was made for; the processor must have the loop's instructions.
pub(crate) type InnerLoop = unsafe fn(to: *mut u8, from: &[Source; 3], scalars: &Scalars, n: usize);

/// A loop, and the dtype in which it computes.
#[derive(Clone, Copy)]
pub(crate) struct Kernel {
    /// The loop, for this processor.
    pub(crate) inner_loop: InnerLoop,
    /// The dtype of its operands.
    pub(crate) compute: DType,
    /// The loops over operands of the 16-bit dtype that the kernel was chosen for, if it has any: one
    /// for less than [`FAR`] bytes of results, one for the others.
    pub(crate) halves: Option<[InnerLoop; 2]>,
    /// The loop for [`FAR`] bytes of results and more, if it has one of its own.
    pub(crate) far: Option<InnerLoop>,
    /// The loop whose results are stored non-temporally, if it has one: it takes whole lines of memory, and
    /// nothing may access them before a [`Stream`](crate::vec::stream::Stream) is dropped.
    pub(crate) past: Option<InnerLoop>,
    /// How many operands it reads.
    pub(crate) arity: usize,
    /// Whether results are bool whatever the dtype of the operands.
    pub(crate) test: bool,
}

impl Kernel {
    /// The loop for so many bytes of results.
    pub(crate) fn inner_loop_for(&self, written: usize) -> InnerLoop {
        self.far.filter(|_| written >= FAR).unwrap_or(self.inner_loop)
    }
}

/// Chooses the loop of an operator for a dtype.
pub(crate) type PickLoop = fn(DType) -> Option<Kernel>;

impl Scalars {
    /// Numbers beyond the range of an integer dtype become the end of the range.
    ///
    /// # Errors
    /// `NotImplemented` for a dtype without elements.
    pub(crate) fn new(scalars: &[Scalar], dtype: DType) -> Result<Self> {
        let within: SmallVec<[Scalar; MOST_SCALARS]> =
            scalars.iter().map(|&scalar| within(scalar, dtype)).collect();
        Self::wrapped(&within, dtype)
    }

    /// As [`new`](Self::new); numbers beyond the range of an integer dtype wrap around.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub(crate) fn wrapped(scalars: &[Scalar], dtype: DType) -> Result<Self> {
        let mut wrapped = Self::none();
        wrapped.wrap(scalars, dtype)?;
        Ok(wrapped)
    }

    /// No scalars.
    pub(crate) const fn none() -> Self {
        Self { values: [[0; 2]; MOST_SCALARS], count: 0 }
    }

    /// Takes `scalars`, as [`wrapped`](Self::wrapped), in place.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    #[inline(always)]
    pub(crate) fn wrap(&mut self, scalars: &[Scalar], dtype: DType) -> Result<()> {
        for (value, &scalar) in self.values.iter_mut().zip(scalars) {
            *value = element(scalar, dtype)?;
        }
        self.count = scalars.len().min(MOST_SCALARS);
        Ok(())
    }

    /// The scalars, each at the start of its place.
    pub(crate) fn values(&self) -> &[Value] {
        &self.values[..self.count]
    }

    /// The address of the first one.
    pub(crate) fn address(&self) -> *mut u8 {
        (&raw const self.values).cast_mut().cast()
    }
}

/// A number as an element, at the start of its place.
pub(crate) fn element(scalar: Scalar, dtype: DType) -> Result<Value> {
    let mut value = [0; 2];
    match_dtype!(dtype, "scalar", All, T => {
        const { assert!(size_of::<T>() <= size_of::<Value>()) };
        const { assert!(align_of::<T>() <= align_of::<Value>()) };
        // SAFETY: the place has room and alignment for every element type, as just asserted.
        unsafe { (&raw mut value).cast::<T>().write(T::from_scalar(scalar)) };
        Ok(())
    })?;
    Ok(value)
}

/// A number at the end of the range of an integer dtype if it lies outside.
fn within(scalar: Scalar, dtype: DType) -> Scalar {
    if !dtype.is_integral(false) || scalar.is_complex() {
        return scalar;
    }
    let bits = 8 * dtype.itemsize() as u32;
    let (low, high) = match dtype.is_signed() {
        true => (i64::MIN >> (64 - bits), i64::MAX >> (64 - bits)),
        false => (0, ((1i128 << bits) - 1).min(i128::from(i64::MAX)) as i64),
    };
    match scalar {
        Scalar::Int(value) => Scalar::Int(value.clamp(low, high)),
        Scalar::Float(value) => Scalar::Int((value as i64).clamp(low, high)),
        other => other,
    }
}
