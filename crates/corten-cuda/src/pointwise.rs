//! Pointwise operators: an expression, an iterator, one launch.

use crate::compile::{Key, Program, function};
use crate::fused;
use crate::joint::Joined;
use crate::launch::{Shape, launch};
use crate::stream::Stream;
use crate::text;
use corten_core::{DType, Result, Scalar, bug, ensure, match_dtype, not_implemented_for};
use corten_ops::TensorIterator;
use corten_ops::meta::Domain;
use std::ffi::c_void;
use std::ops::Range;

/// A pointwise operator.
pub(crate) struct Expression {
    /// The operator's name, for messages.
    pub(crate) name: &'static str,
    /// The struct in the text that has the expression.
    pub(crate) operator: &'static str,
    /// The text that defines the struct; empty where `pointwise.cuh` does.
    pub(crate) text: &'static str,
    /// The number of tensors that it reads.
    pub(crate) inputs: usize,
    /// The dtypes that it is defined for.
    pub(crate) domain: Domain,
}

/// The most operands: a result and the inputs.
const MOST: usize = 4;
/// The most dimensions of a walk after merging; as in `pointwise.cuh`.
pub(crate) const MAX_DIMS: usize = 16;

/// `Numbers` of `pointwise.cuh`.
#[repr(C, align(16))]
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Numbers {
    values: [[u8; 16]; 4],
    inputs: [[u8; 16]; 4],
}

impl Numbers {
    /// The words of 64 bits that they take.
    pub(crate) const WORDS: usize = size_of::<Self>() / 8;

    /// The numbers as words of 64 bits.
    pub(crate) fn words(&self) -> impl Iterator<Item = u64> {
        let rows = self.values.iter().chain(&self.inputs);
        rows.flat_map(|row| {
            [0, 8].map(|at| u64::from_ne_bytes(std::array::from_fn(|i| row[at + i])))
        })
    }

    /// The first numbers of the call in the value type, each at the start of its place.
    pub(crate) fn of_call(&self, count: usize) -> &[[u8; 16]] {
        &self.values[..count.min(self.values.len())]
    }

    /// Numbers in the value type of a dtype.
    ///
    /// # Errors
    /// `NotImplemented` for a dtype without values.
    pub(crate) fn of(scalars: &[Scalar], dtype: DType) -> Result<Self> {
        let mut numbers = Self::default();
        for (place, &scalar) in numbers.values.iter_mut().zip(scalars) {
            *place = value_bytes(scalar, dtype)?;
        }
        Ok(numbers)
    }
}

/// `Divider` of `pointwise.cuh`: division by multiplication.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Divider {
    divisor: u32,
    multiplier: u32,
    shift: u32,
}

impl Divider {
    /// Divides numbers below 2^31 (Granlund and Montgomery, Division by Invariant Integers, 1994).
    pub(crate) fn by(divisor: u32) -> Self {
        let shift = 32 - divisor.saturating_sub(1).leading_zeros();
        let power = 1_u64 << shift;
        let multiplier = ((power - u64::from(divisor)) << 32) / u64::from(divisor.max(1)) + 1;
        Self { divisor, multiplier: multiplier as u32, shift }
    }
}

/// Runs an expression over a planned walk.
///
/// # Errors
/// `NotImplemented` outside the operator's domain, and those of the driver.
pub(crate) fn run(
    expression: &'static Expression,
    iter: &mut TensorIterator,
    scalars: &[Scalar],
) -> Result<()> {
    let dtype = iter.compute_dtype();
    if !expression.domain.contains(dtype) {
        return Err(not_implemented_for(expression.name, dtype));
    }
    run_as(expression, iter, scalars, dtype)
}

/// As [`run`], computing in `dtype`.
///
/// # Errors
/// As [`run`].
pub(crate) fn run_as(
    expression: &'static Expression,
    iter: &mut TensorIterator,
    scalars: &[Scalar],
    dtype: DType,
) -> Result<()> {
    if iter.numel() == 0 {
        return Ok(());
    }
    if iter.ninputs() < expression.inputs || iter.noutputs() != 1 {
        bug!("{}: the walk has {} operands", expression.name, iter.ntensors());
    }
    let moves = expression.name == "copy_cuda" && iter.dtype(0) == iter.dtype(1);
    if !moves {
        let operands = (0..iter.ntensors()).map(|i| iter.dtype(i));
        crate::kernel::refuse_stored_only(expression.name, operands.chain([dtype]))?;
    }
    let mut numbers = Numbers::of(scalars, dtype)?;
    if fused::is_recording() {
        return fused::record_pointwise(expression, iter, &numbers, scalars.len(), dtype);
    }
    if iter.can_use_32bit_indexing() {
        return run_part(expression, iter, &mut numbers, dtype);
    }
    iter.acquire()?;
    for mut part in iter.parts_32bit() {
        run_part(expression, &mut part, &mut numbers, dtype)?;
    }
    Ok(())
}

/// A number as an element of the value type of a dtype.
fn value_bytes(scalar: Scalar, dtype: DType) -> Result<[u8; 16]> {
    let value = match dtype {
        DType::Complex32 | DType::BComplex32 => DType::Complex64,
        _ if dtype.is_floating_point() && dtype.itemsize() < 4 => DType::Float32,
        _ => dtype,
    };
    let mut bytes = [0_u8; 16];
    match_dtype!(value, "number", All, T => {
        let element: T = scalar.to();
        // SAFETY: an element has at most 16 bytes, and any bytes may be written.
        unsafe { bytes.as_mut_ptr().cast::<T>().write_unaligned(element) };
        Ok(bytes)
    })
}

fn run_part(
    expression: &'static Expression,
    iter: &mut TensorIterator,
    numbers: &mut Numbers,
    dtype: DType,
) -> Result<()> {
    let count = expression.inputs + 1;
    let at = iter.pointers()?;
    let mut pointers = [std::ptr::null_mut::<u8>(); MOST];
    let mut dtypes = [DType::Undefined; 6];
    let mut constants = 0;
    dtypes[5] = dtype;
    for i in 0..count {
        (pointers[i], dtypes[i]) = (at[i], iter.dtype(i));
        if i > 0 && iter.device_of(i).is_cpu() {
            constants |= 1 << (i - 1);
            let size = iter.dtype(i).itemsize();
            // SAFETY: an operand of the host is one element, which the iterator holds.
            unsafe { at[i].copy_to_nonoverlapping(numbers.inputs[i - 1].as_mut_ptr(), size) };
        }
    }
    let stream = Stream::current(iter.device().index);
    let width = dense_width(iter, &at, count, constants);
    if width > 0 && crate::joint::is_open() {
        let kernel = Joined { expression, dtypes, constants, width };
        return crate::joint::keep(kernel, iter, &pointers, numbers, stream);
    }
    let key = Key {
        device: stream.device(),
        operator: std::ptr::from_ref(expression).addr(),
        dtypes,
        variant: constants << 8 | width,
    };
    let kernel = function(key, || program(expression, &dtypes, count, constants, width))?;
    let numel = iter.numel();
    let mut parameters = [(&raw mut pointers).cast::<c_void>(), (&raw mut *numbers).cast()];
    if width > 0 {
        let mut n = numel as u64;
        let shape = Shape::over((numel as u64).div_ceil(u64::from(width)) as i64);
        let mut all = [(&raw mut n).cast(), parameters[0], parameters[1]];
        // SAFETY: the parameters are those of `pointwise_dense`; the operands are held, and their memory
        // is used again only by work that comes after this in the stream.
        return unsafe { launch(kernel, shape, stream, &mut all) };
    }
    let mut n = numel as u32;
    let mut geometry = geometry(iter, count, constants)?;
    let mut all = [
        (&raw mut n).cast(),
        parameters[0],
        std::mem::take(&mut parameters[1]),
        geometry.as_mut_ptr().cast(),
    ];
    // SAFETY: as above, of `pointwise_strided`.
    unsafe { launch(kernel, Shape::over(numel), stream, &mut all) }
}

/// The number of elements that a thread takes of operands that are dense and aligned; 0 for others.
fn dense_width(iter: &TensorIterator, at: &[*mut u8], count: usize, constants: u32) -> u32 {
    let size = |i: usize| iter.dtype(i).itemsize() as i64;
    let operands = || (0..count).filter(|&i| !is_constant(i, constants));
    let dense = iter.ndim() == 0
        || iter.numel() == 1
        || iter.ndim() == 1 && operands().all(|i| iter.strides(i)[0] == size(i));
    if !dense {
        return 0;
    }
    aligned_width(operands().map(|i| (at[i], size(i) as usize)))
}

/// The elements that a thread takes of dense operands, given by address and bytes per element: as many as all of
/// them are aligned to.
pub(crate) fn aligned_width(operands: impl Iterator<Item = (*mut u8, usize)> + Clone) -> u32 {
    let widest = operands.clone().map(|(_, size)| size).max().unwrap_or(1);
    let mut width = (16 / widest).clamp(1, 4);
    while width > 1 && operands.clone().any(|(at, size)| !at.addr().is_multiple_of(width * size)) {
        width /= 2;
    }
    width as u32
}

/// `Geometry<N>` of `pointwise.cuh` for some dimensions of a walk and some operands; as words: the number
/// of dimensions, the dividers, the strides. Operands in `constants` do not move.
fn geometry(iter: &TensorIterator, count: usize, constants: u32) -> Result<Vec<u32>> {
    check_dims(iter.ndim())?;
    let stride = |i: usize, dim: usize| match is_constant(i, constants) {
        true => 0,
        false => iter.strides(i)[dim],
    };
    Ok(geometry_words(count, 0..iter.ndim(), |dim| iter.shape()[dim], stride))
}

/// Whether an operand is an input that is one number of the host.
fn is_constant(i: usize, constants: u32) -> bool {
    i > 0 && constants >> (i - 1) & 1 == 1
}

fn check_dims(dims: usize) -> Result<()> {
    ensure!(
        dims <= MAX_DIMS,
        Runtime,
        "CUDA kernels take at most {MAX_DIMS} dimensions, not {dims}"
    );
    Ok(())
}

/// `Geometry<N>` of some dimensions of a walk, where N is the number of operands.
///
/// # Errors
/// `Runtime` for more dimensions than kernels take.
pub(crate) fn geometry_of(
    iter: &TensorIterator,
    dims: Range<usize>,
    operands: &[usize],
) -> Result<Vec<u32>> {
    check_dims(dims.len())?;
    let strides = |k: usize, dim: usize| iter.strides(operands[k])[dim];
    Ok(geometry_words(operands.len(), dims, |dim| iter.shape()[dim], strides))
}

/// The words of `Geometry<N>` for N operands: of dimensions, fastest first, by their sizes and by the
/// strides in bytes of each operand. There are at most [`MAX_DIMS`].
pub(crate) fn geometry_words(
    count: usize,
    dims: impl ExactSizeIterator<Item = usize>,
    size: impl Fn(usize) -> i64,
    stride: impl Fn(usize, usize) -> i64,
) -> Vec<u32> {
    let mut words = vec![0_u32; 1 + 3 * MAX_DIMS + MAX_DIMS * count];
    words[0] = dims.len() as u32;
    for (place, dim) in dims.enumerate() {
        let Divider { divisor, multiplier, shift } = Divider::by(size(dim) as u32);
        words[1 + 3 * place..4 + 3 * place].copy_from_slice(&[divisor, multiplier, shift]);
        for k in 0..count {
            words[1 + 3 * MAX_DIMS + place * count + k] = stride(k, dim) as i32 as u32;
        }
    }
    words
}

fn program(
    expression: &Expression,
    dtypes: &[DType; 6],
    count: usize,
    constants: u32,
    width: u32,
) -> Program {
    let storage: Vec<&str> =
        dtypes[..count].iter().map(|&dtype| text::storage_type(dtype)).collect();
    let storage = storage.join(", ");
    let value = text::value_type(dtypes[5]);
    let operator = expression.operator;
    let expression_of = match width {
        0 => format!("ct::pointwise_strided<ct::{operator}, {value}, {constants}u, {storage}>"),
        _ => format!(
            "ct::pointwise_dense<ct::{operator}, {value}, {constants}u, {width}, {storage}>"
        ),
    };
    Program {
        text: [&[text::TYPES, text::MATH, text::POINTWISE], &*text::needed(expression.text)]
            .concat(),
        own: expression.text.to_owned(),
        expression: expression_of,
    }
}

/// The program of launches that are made one.
pub(crate) fn many_program(kernel: &Joined, most: usize, shared: bool) -> Program {
    let Joined { expression, dtypes, constants, width } = kernel;
    let storage: Vec<&str> =
        dtypes[..=expression.inputs].iter().map(|&dtype| text::storage_type(dtype)).collect();
    let (operator, value) = (expression.operator, text::value_type(dtypes[5]));
    let (storage, shared) = (storage.join(", "), u32::from(shared));
    Program {
        text: [&[text::TYPES, text::MATH, text::POINTWISE], &*text::needed(expression.text)]
            .concat(),
        own: expression.text.to_owned(),
        expression: format!(
            "ct::pointwise_many<ct::{operator}, {value}, {constants}u, {width}, {most}, {shared}, {storage}>"
        ),
    }
}
