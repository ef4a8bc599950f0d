//! Loops as values: what elementwise operators run, recorded to be run again over other memory.
//!
//! Note [Recorded steps]: a compiled program runs chains of elementwise operators tile by tile. It has no
//! loops of its own: every step is the loop that the operator runs by itself, with its scalars and its
//! conversions, so that results are the same bit for bit. Rather than a table from operators to loops,
//! which would be a second declaration of each, an operator is called once on a few elements while the
//! thread records; what it ran is then known, also of operators that choose their loop by an argument or
//! run several. Kernels that are not recorded leave results that no step wrote, which the caller notices.

use crate::copy::strided::{Rows, gather, scatter};
use crate::copy::transpose::copy_block;
use crate::pointwise::gather_scatter::GatherScatter;
use crate::vec::convert::Conversion;
use crate::vec::take_division_by_zero;
use corten_core::{DType, Result, Scalar};
use corten_ops::iter::TensorIterator;
use corten_ops::{IterKernel, Tensor};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A loop with everything it needs but the memory.
pub trait Step: Send + Sync {
    /// Runs over `n1` rows of `n0` elements. Addresses are those of the output and the inputs in the order of
    /// the operands; strides are in bytes, all inner ones, then all outer ones.
    ///
    /// # Safety
    /// Addresses and strides must be those of elements of the recorded dtypes, readable and, for the
    /// output, writable by this thread alone. The output may be one of the inputs, of the same strides, if the
    /// step [runs in place](Self::runs_in_place), and overlap no other one.
    ///
    /// # Errors
    /// The loop's.
    unsafe fn run(&self, at: &[*mut u8], strides: &[i64], n0: usize, n1: usize) -> Result<()>;

    /// Whether the output may be one of the inputs.
    fn runs_in_place(&self) -> bool {
        true
    }

    /// What a device runs instead, for steps that are not the host's: those do not [run](Self::run).
    fn device_step(&self) -> Option<&dyn std::any::Any> {
        None
    }
}

/// One element of any dtype, at the start.
pub type ElementBytes = [u64; 2];

/// An operand as it was when the step was recorded.
#[derive(Clone, Copy, Debug)]
pub struct RecordedOperand {
    /// The dtype in which the step reads or writes it.
    pub dtype: DType,
    /// The address of the first element.
    pub address: usize,
    /// Bytes from one element to the next; 0 for a single element.
    pub stride: i64,
    /// The element, if it is a single one.
    pub element: Option<ElementBytes>,
    /// Where the element was converted from: the address and the dtype.
    pub converted_from: Option<(usize, DType)>,
}

/// A step that was run.
pub struct RecordedStep {
    /// The loop.
    pub step: Arc<dyn Step>,
    /// The output, and the inputs.
    pub operands: SmallVec<[RecordedOperand; 4]>,
    /// The length of the walk, if it had one dimension at most.
    pub length: Option<i64>,
    /// Whether it reduces every row to one element: the output's elements then lie apart by the outer stride, and
    /// the inner one is 0.
    pub reduces: bool,
}

thread_local! {
    static RECORDED: RefCell<Option<Vec<RecordedStep>>> = const { RefCell::new(None) };
}

/// Threads that record.
static RECORDERS: AtomicUsize = AtomicUsize::new(0);

/// Ends the recording, also of a call that panics.
struct Recorder;

impl Recorder {
    fn begin() -> Self {
        RECORDERS.fetch_add(1, Ordering::Relaxed);
        RECORDED.with_borrow_mut(|recorded| *recorded = Some(Vec::new()));
        Self
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        RECORDED.with_borrow_mut(|recorded| *recorded = None);
        RECORDERS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Runs `call`, and returns the steps that it ran on this thread. Recordings do not nest.
pub fn record<R>(call: impl FnOnce() -> R) -> (R, Vec<RecordedStep>) {
    let recorder = Recorder::begin();
    let result = call();
    let recorded = RECORDED.with_borrow_mut(Option::take).unwrap_or_default();
    drop(recorder);
    (result, recorded)
}

/// Whether this thread records. Almost always one load tells.
#[inline(always)]
pub(crate) fn is_recording() -> bool {
    RECORDERS.load(Ordering::Relaxed) != 0 && this_thread_records()
}

#[cold]
fn this_thread_records() -> bool {
    RECORDED.with_borrow(Option::is_some)
}

/// Records a step over the operands of an iterator, which has one output.
#[cold]
pub(crate) fn push(iter: &mut TensorIterator, step: impl Step + 'static) -> Result<()> {
    let starts = iter.pointers()?;
    let mut operands = SmallVec::new();
    for (i, &start) in starts.iter().enumerate() {
        let dtype = iter.dtype(i);
        let element = iter.is_cpu_scalar(i).then(|| {
            let mut element = [0; 2];
            let place = (&raw mut element).cast::<u8>();
            // SAFETY: the iterator holds access to an element of this dtype at the address, and no
            // element is longer than the place.
            unsafe { std::ptr::copy_nonoverlapping(start, place, dtype.itemsize()) };
            element
        });
        let converted = iter.original_scalar(i)?.is_some();
        operands.push(RecordedOperand {
            dtype,
            address: start.addr(),
            stride: iter.strides(i).first().copied().filter(|_| element.is_none()).unwrap_or(0),
            element,
            converted_from: converted.then(|| {
                let tensor = iter.tensor(i);
                (tensor.data_ptr().addr(), tensor.dtype())
            }),
        });
    }
    let length = (iter.ndim() <= 1).then(|| iter.numel());
    let reduces = iter.is_reduction();
    RECORDED.with_borrow_mut(|recorded| {
        if let Some(recorded) = recorded {
            recorded.push(RecordedStep { step: Arc::new(step), operands, length, reduces });
        }
    });
    Ok(())
}

/// Records the kernel of a reduction with one output and one input.
#[inline]
pub(crate) fn note_reduction(
    iter: &mut TensorIterator,
    kernel: IterKernel,
    scalars: &[Scalar],
) -> Result<()> {
    if is_recording() && iter.ntensors() == 2 {
        let operands = [iter.tensor(0).clone(), iter.tensor(1).clone()];
        push(iter, RowReduction { kernel, scalars: scalars.into(), operands })?;
    }
    Ok(())
}

/// The kernel of a reduction over dense rows.
struct RowReduction {
    kernel: IterKernel,
    scalars: SmallVec<[Scalar; 1]>,
    /// Of the dtypes of output and input.
    operands: [Tensor; 2],
}

impl Step for RowReduction {
    unsafe fn run(&self, at: &[*mut u8], strides: &[i64], n0: usize, n1: usize) -> Result<()> {
        let [output, input] = &self.operands;
        let sizes = [n0 as i64, n1 as i64];
        // SAFETY: the caller's.
        let mut iter = unsafe {
            TensorIterator::of_rows(
                [output, input],
                [at[0], at[1]],
                sizes,
                [strides[2], strides[3]],
            )
        };
        (self.kernel)(&mut iter, &self.scalars)
    }

    fn runs_in_place(&self) -> bool {
        false
    }
}

/// Whether a step on this thread divided an integer by zero since it was last asked.
pub fn divided_by_zero() -> bool {
    take_division_by_zero()
}

impl Step for GatherScatter {
    unsafe fn run(&self, at: &[*mut u8], strides: &[i64], n0: usize, n1: usize) -> Result<()> {
        // SAFETY: the caller's.
        unsafe { self.rows(at, strides, n0, n1) };
        Ok(())
    }
}

/// A copy within a dtype, of so many bytes per element.
pub(crate) struct CopyStep(pub(crate) usize);

impl Step for CopyStep {
    unsafe fn run(&self, at: &[*mut u8], strides: &[i64], n0: usize, n1: usize) -> Result<()> {
        let rows = |i: usize| Rows { at: at[i], inner: strides[i], outer: strides[i + 2] };
        // SAFETY: the caller's.
        unsafe { copy_block(self.0, rows(1), rows(0), n0, n1) };
        Ok(())
    }
}

/// A copy to another dtype.
pub(crate) struct ConvertStep {
    conversion: Conversion,
    from: usize,
    to: usize,
}

impl ConvertStep {
    pub(crate) fn new(from: DType, to: DType) -> Self {
        let conversion = Conversion::new(from, to);
        Self { conversion, from: from.itemsize(), to: to.itemsize() }
    }
}

/// Elements that are converted at a time where they do not lie densely.
const PART: usize = 256;

impl Step for ConvertStep {
    fn runs_in_place(&self) -> bool {
        false
    }

    unsafe fn run(&self, at: &[*mut u8], strides: &[i64], n0: usize, n1: usize) -> Result<()> {
        let rows = |i: usize| Rows { at: at[i], inner: strides[i], outer: strides[i + 2] };
        let (to, from) = (rows(0), rows(1));
        let mut rooms = [[[0u64; 2]; PART]; 2];
        let [source, target] = rooms.each_mut().map(|room| room.as_mut_ptr().cast::<u8>());
        let dense = |stride: i64, size: usize| stride == size as i64 || n0 == 1;
        let (dense_from, dense_to) = (dense(from.inner, self.from), dense(to.inner, self.to));
        for row in 0..n1 as i64 {
            let (to, from) = (to.row(row), from.row(row));
            if dense_from && dense_to {
                // SAFETY: the caller's.
                unsafe { self.conversion.run(from.at, to.at, n0) };
                continue;
            }
            for start in (0..n0).step_by(PART) {
                let length = PART.min(n0 - start);
                // SAFETY: the part lies within the row; the rooms take any dtype.
                unsafe {
                    gather(self.from, from.element(start), source, length, 1);
                    self.conversion.run(source, target, length);
                    scatter(self.to, target, to.element(start), length, 1);
                }
            }
        }
        Ok(())
    }
}

/// The step that converts, or copies within a dtype; `None` where a dtype is only stored.
pub fn conversion(from: DType, to: DType) -> Option<Arc<dyn Step>> {
    if from == to {
        return Some(Arc::new(CopyStep(from.itemsize())));
    }
    (from.is_numeric() && to.is_numeric())
        .then(|| Arc::new(ConvertStep::new(from, to)) as Arc<dyn Step>)
}

/// One element everywhere, of so many bytes.
pub(crate) struct FillStep {
    pub(crate) element: ElementBytes,
    pub(crate) size: usize,
}

impl Step for FillStep {
    unsafe fn run(&self, at: &[*mut u8], strides: &[i64], n0: usize, n1: usize) -> Result<()> {
        let from = Rows { at: (&raw const self.element).cast_mut().cast(), inner: 0, outer: 0 };
        let to = Rows { at: at[0], inner: strides[0], outer: strides[1] };
        // SAFETY: the caller's; the element is read alone.
        unsafe { copy_block(self.size, from, to, n0, n1) };
        Ok(())
    }
}
