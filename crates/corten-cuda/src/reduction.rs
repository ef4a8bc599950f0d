//! Reductions: a planned walk, an accumulator of `reduce.cuh`, one launch or two.

use crate::compile::{Function, Key, Program, function};
use crate::fused;
use crate::launch::{Shape, launch};
use crate::memory::CudaAllocator;
use crate::pointwise::geometry_of;
use crate::stream::Stream;
use crate::text;
use corten_core::{Allocator, DType, DataPtr, Result, bail};
use corten_ops::TensorIterator;
use std::ffi::c_void;

/// A reduction: the accumulator in the text, with `{}` for the value type.
#[derive(Clone, Copy)]
pub(crate) struct Reduction {
    /// The accumulator, for instance `ct::Sum<{}>`.
    pub(crate) accumulator: &'static str,
    /// What the elements are accumulated as.
    pub(crate) dtype: DType,
    /// The order of a norm, the correction of a variance.
    pub(crate) number: f64,
    /// The most bytes of an accumulator.
    pub(crate) bytes: usize,
}

/// `ReduceShape` of `reduce.cuh`.
#[repr(C)]
#[derive(Clone, Copy)]
struct ReduceShape {
    outputs: u64,
    steps: u64,
    chunk: u64,
    number: f64,
}

/// How the work is divided: threads along the reduction, outputs per block, parts of the reduction.
struct Division {
    inner: bool,
    lanes: u32,
    width: u32,
    parts: u32,
}

/// How rows whose elements lie side by side are divided.
pub(crate) struct RowDivision {
    /// Threads along a row.
    pub(crate) lanes: u32,
    /// Rows per block.
    pub(crate) width: u32,
    /// Parts of a row, each of which a block takes.
    pub(crate) parts: u32,
}

/// The division of `outputs` rows of `steps` elements, by accumulators of 32 bytes at most.
pub(crate) fn row_division(steps: u64, outputs: u64) -> RowDivision {
    along_rows(steps, outputs, THREADS)
}

fn along_rows(steps: u64, outputs: u64, threads: u32) -> RowDivision {
    let lanes = steps.max(1).next_power_of_two().min(u64::from(threads)) as u32;
    let width = threads / lanes;
    RowDivision { lanes, width, parts: parts_of(steps, outputs.div_ceil(u64::from(width)), lanes) }
}

/// The parts of a reduction that `blocks` blocks take.
fn parts_of(steps: u64, blocks: u64, lanes: u32) -> u32 {
    // A thread should have some work to do before its result is worth a second pass.
    let most = (steps / (u64::from(lanes) * 16)).clamp(1, 1024);
    (MANY_BLOCKS / blocks.max(1)).clamp(1, most) as u32
}

/// The most threads of a block.
const THREADS: u32 = 256;
/// Blocks that fill a large GPU.
const MANY_BLOCKS: u64 = 512;

/// Runs a reduction over a planned walk of one input and one or two outputs.
///
/// # Errors
/// `Runtime` for reductions of more than 2^31 elements over several dimensions; those of the driver.
pub(crate) fn run(iter: &mut TensorIterator, reduction: Reduction) -> Result<()> {
    if fused::is_recording() {
        return fused::record_reduction(iter, reduction);
    }
    let (count, input) = (iter.noutputs(), iter.noutputs());
    let dims = iter.num_reduce_dims();
    let steps: i64 = iter.shape()[..dims].iter().product();
    let outputs: i64 = iter.shape()[dims..].iter().product();
    if outputs == 0 {
        return Ok(());
    }
    let several = dims > 1 || iter.ndim() - dims > 1;
    if several && !iter.can_use_32bit_indexing() {
        bail!(Runtime, "CUDA reductions over several dimensions take at most 2^31 - 1 bytes");
    }
    let at = iter.pointers()?;
    let mut pointers = [at[0], std::ptr::null_mut(), at[input]];
    if count > 1 {
        pointers[1] = at[1];
    }
    let dense = dims == 1 && iter.strides(input)[0] == iter.dtype(input).itemsize() as i64;
    if crate::joint::is_open() && outputs == 1 && count == 1 && (dense || steps == 1) {
        return crate::joint_reduction::keep(reduction, iter, steps, [at[0], at[input]]);
    }
    let device = iter.device().index;
    let division = divide(iter, steps, outputs, dims, reduction.bytes);
    let chunk = (steps as u64).div_ceil(u64::from(division.parts)).max(1);
    let parts = (steps as u64).div_ceil(chunk).max(1) as u32;
    let shape = ReduceShape {
        outputs: outputs as u64,
        steps: steps as u64,
        chunk,
        number: reduction.number,
    };
    let partial = match parts {
        1 => DataPtr::null(corten_core::Device::cuda(device)),
        _ => CudaAllocator
            .allocate_on(parts as usize * outputs as usize * reduction.bytes, device)?,
    };
    let operands: Vec<usize> = (0..count).chain((count < 2).then_some(0)).chain([input]).collect();
    let mut kept = geometry_of(iter, dims..iter.ndim(), &operands)?;
    let mut reduced = geometry_of(iter, 0..dims, &[input])?;
    let stream = Stream::current(device);
    let dtypes = [iter.dtype(0), iter.dtype(count - 1), iter.dtype(input)];
    let call = Call { reduction, dtypes, stream, division: &division };
    call.first_pass(shape, pointers, &partial, &mut kept, &mut reduced, parts, dims <= 1)?;
    if parts > 1 { call.second_pass(shape, pointers, &partial, &mut kept, parts) } else { Ok(()) }
}

/// The division of the work. Along the reduction where its elements are closer in memory than outputs.
fn divide(iter: &TensorIterator, steps: i64, outputs: i64, dims: usize, bytes: usize) -> Division {
    let strides = iter.strides(iter.noutputs());
    let (inner, outer) = (strides.first().copied(), strides.get(dims).copied());
    let inner =
        dims == 0 || outer.is_none_or(|outer| inner.is_none_or(|inner| inner.abs() <= outer.abs()));
    let threads = if bytes > 32 { THREADS / 2 } else { THREADS };
    let (steps, outputs) = (steps.max(0) as u64, outputs as u64);
    if inner {
        let RowDivision { lanes, width, parts } = along_rows(steps, outputs, threads);
        return Division { inner, lanes, width, parts };
    }
    let lanes = steps.max(1).next_power_of_two().min(u64::from(threads / 32)) as u32;
    let width = (threads / lanes).min(32);
    let parts = parts_of(steps, outputs.div_ceil(u64::from(width)), lanes);
    Division { inner, lanes, width, parts }
}

struct Call<'a> {
    reduction: Reduction,
    dtypes: [DType; 3],
    stream: Stream,
    division: &'a Division,
}

impl Call<'_> {
    fn kernel(&self, second: bool) -> Result<Function> {
        let Reduction { accumulator, dtype, .. } = self.reduction;
        let [out0, out1, input] = self.dtypes;
        let inner = self.division.inner;
        let key = Key {
            device: self.stream.device(),
            operator: accumulator.as_ptr().addr(),
            dtypes: [out0, out1, input, dtype, DType::Undefined, DType::Undefined],
            variant: 1 << 31 | u32::from(inner) << 1 | u32::from(second),
        };
        function(key, || {
            let value = text::value_type(dtype);
            let accumulator = accumulator.replace("{}", value);
            let [out0, out1, input] = [out0, out1, input].map(text::storage_type);
            let expression = match second {
                false => {
                    format!("ct::reduce<{accumulator}, {value}, {inner}, {out0}, {out1}, {input}>")
                }
                true => format!("ct::reduce_partials<{accumulator}, {out0}, {out1}>"),
            };
            let text = vec![text::TYPES, text::MATH, text::POINTWISE, text::REDUCE];
            Program { text, own: String::new(), expression }
        })
    }

    fn first_pass(
        &self,
        mut shape: ReduceShape,
        mut pointers: [*mut u8; 3],
        partial: &DataPtr,
        kept: &mut [u32],
        reduced: &mut [u32],
        parts: u32,
        direct: bool,
    ) -> Result<()> {
        let Division { inner, lanes, width, .. } = *self.division;
        let blocks = shape.outputs.div_ceil(u64::from(width));
        let launched = Shape {
            grid: [u32::try_from(blocks).unwrap_or(u32::MAX), parts, 1],
            block: if inner { [lanes, width, 1] } else { [width, lanes, 1] },
            shared: lanes * width * self.reduction.bytes as u32,
        };
        let (mut partial, mut direct) = (partial.get(), u32::from(direct));
        let mut parameters: [*mut c_void; 6] = [
            (&raw mut shape).cast(),
            (&raw mut pointers).cast(),
            (&raw mut partial).cast(),
            kept.as_mut_ptr().cast(),
            reduced.as_mut_ptr().cast(),
            (&raw mut direct).cast(),
        ];
        // SAFETY: the parameters are those of `reduce`; the iterator holds the operands, and the partial
        // results are given back in the stream's order.
        unsafe { launch(self.kernel(false)?, launched, self.stream, &mut parameters) }
    }

    fn second_pass(
        &self,
        mut shape: ReduceShape,
        mut pointers: [*mut u8; 3],
        partial: &DataPtr,
        kept: &mut [u32],
        mut parts: u32,
    ) -> Result<()> {
        let mut partial = partial.get();
        let mut parameters: [*mut c_void; 5] = [
            (&raw mut shape).cast(),
            (&raw mut pointers).cast(),
            (&raw mut partial).cast(),
            kept.as_mut_ptr().cast(),
            (&raw mut parts).cast(),
        ];
        let launched = Shape::over(shape.outputs as i64);
        // SAFETY: as above, of `reduce_partials`.
        unsafe { launch(self.kernel(true)?, launched, self.stream, &mut parameters) }
    }
}
