//! `TensorIterator`: one walk over several tensors that broadcast against each other.
//!
//! [`TensorIteratorConfig`] collects the operands and the rules; [`TensorIteratorConfig::build`]
//! checks them, decides shape, dtype and device, allocates outputs, and orders and merges the
//! dimensions so that the innermost loop is as long and as regular as possible. A kernel then
//! writes that inner loop only and runs it with [`TensorIterator::for_each`].
//!
//! Strides are signed throughout: nothing here assumes that they are not negative.

mod config;
mod contiguous;
mod independence;
mod layout;
mod loops;
mod reduce;
mod resize;
mod shape;
mod split;
mod types;

pub use config::TensorIteratorConfig;
pub(crate) use layout::preserved_strides;
pub use loops::LoopOutcome;
pub use reduce::ReducedSlice;
pub use resize::{resize_output, resize_to};
pub use types::read_scalar;
pub(crate) use types::{allocate, allocate_like, copy_dense, write_elements};

use crate::Tensor;
use corten_core::access::{HeldPlace, Holds};
use corten_core::{Access, AccessSet, DType, Device, Dims, Result, Scalar, bail, bug};
use smallvec::SmallVec;

/// The address of each operand's current element.
pub(crate) type Pointers = SmallVec<[*mut u8; 4]>;

/// Several tensors walked together; see the module's description.
///
/// ```
/// use corten::ops::TensorIterator;
/// use corten::ops::iter::TensorIteratorConfig;
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// let (a, b) = (Tensor::ones([2, 3])?, Tensor::ones([3])?);
/// let config = TensorIteratorConfig::binary().add_output(None).add_input(&a).add_input(&b);
/// let iter: TensorIterator = config.build()?;
/// assert_eq!((iter.numel(), iter.ninputs(), iter.common_dtype()), (6, 2, DType::Float32));
/// # Ok(())
/// # }
/// ```
pub struct TensorIterator {
    /// On the heap: an iterator is moved some ten times until it runs.
    pub(crate) operands: Vec<Operand>,
    pub(crate) outputs: usize,
    /// Sizes, fastest dimension first, after reordering and merging.
    pub(crate) shape: Dims,
    /// `perm[i]` is the dimension of the broadcast shape that dimension `i` of the walk was.
    pub(crate) perm: Dims,
    pub(crate) numel: i64,
    pub(crate) common_dtype: DType,
    pub(crate) device: Device,
    pub(crate) is_reduction: bool,
    pub(crate) all_same_shape: bool,
    pub(crate) coalesced: bool,
    /// Cleared on all but the last part of a split reduction.
    pub(crate) is_final: bool,
    /// Set on the later parts of a split reduction: the output already holds partial results.
    pub(crate) accumulates: bool,
    pub(crate) hold: Hold,
}

/// Whether the operands' storages are held for access.
#[derive(Default)]
pub(crate) enum Hold {
    /// Not yet.
    #[default]
    Free,
    /// By this iterator.
    Own(#[allow(dead_code, reason = "held for its release on drop")] Holds),
    /// By the iterator that this one is a part of, which outlives it.
    Parent,
}

/// One tensor of the walk.
#[derive(Clone)]
pub(crate) struct Operand {
    /// What is read or written: the caller's tensor or a temporary of another dtype.
    pub(crate) tensor: Tensor,
    /// The caller's tensor where `tensor` is a temporary.
    pub(crate) original: Option<Tensor>,
    /// What the operator returns, where that is another view of the output.
    pub(crate) result: Option<Tensor>,
    /// Sizes of `tensor`; meaningful while building.
    pub(crate) sizes: Dims,
    /// Strides: of `tensor` in elements while building, then of the walk in bytes.
    pub(crate) strides: Dims,
    /// Bytes from the tensor's first element to the walk's first element.
    pub(crate) byte_offset: i64,
    pub(crate) dtype: DType,
    pub(crate) device: Device,
    pub(crate) is_output: bool,
    /// An output that is an input as well.
    pub(crate) read_write: bool,
    pub(crate) will_resize: bool,
    /// Allocated for the walk: no other operand shares its memory, nor do two steps.
    pub(crate) fresh: bool,
    /// The tensor's first element while the storages are held.
    start: Start,
    /// A converted one-element input, kept here instead of in a tensor.
    pub(crate) inline: Option<Inline>,
}

/// One element of any dtype, aligned for all of them.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
pub(crate) struct Inline(pub(crate) [u8; 16]);

/// An address that only somebody who holds the storage uses.
#[derive(Clone, Copy)]
pub(crate) struct Start(*mut u8);

// SAFETY: nothing is read or written through it here; who dereferences the addresses that
// `TensorIterator::pointers` gives answers for that.
unsafe impl Send for Start {}
// SAFETY: as above.
unsafe impl Sync for Start {}

impl Operand {
    pub(crate) fn defined(&self) -> bool {
        self.tensor.defined()
    }

    /// Whether the operand decides shape, order and strides: it exists and keeps its geometry.
    pub(crate) fn has_geometry(&self) -> bool {
        self.defined() && !self.will_resize
    }

    /// The walk's first element, given the tensor's.
    fn first(&self, start: *mut u8) -> *mut u8 {
        match &self.inline {
            Some(inline) => inline.0.as_ptr().cast_mut(),
            None => start.wrapping_offset(self.byte_offset as isize),
        }
    }

    /// The walk's first element while the storages are held.
    fn pointer(&self) -> *mut u8 {
        self.first(self.start.0)
    }
}

impl TensorIterator {
    /// The number of operands.
    pub fn ntensors(&self) -> usize {
        self.operands.len()
    }

    /// The number of outputs; they come first.
    pub fn noutputs(&self) -> usize {
        self.outputs
    }

    /// The number of inputs.
    pub fn ninputs(&self) -> usize {
        self.operands.len() - self.outputs
    }

    /// The number of dimensions of the walk.
    pub fn ndim(&self) -> usize {
        self.shape.len()
    }

    /// The sizes of the walk, fastest dimension first.
    pub fn shape(&self) -> &[i64] {
        &self.shape
    }

    /// The number of steps of the walk.
    pub fn numel(&self) -> i64 {
        self.numel
    }

    /// The dtype to compute in, `Undefined` where the operands were not brought to one.
    pub fn common_dtype(&self) -> DType {
        self.common_dtype
    }

    /// The dtype in which operand `i` is read or written.
    pub fn dtype(&self, i: usize) -> DType {
        self.operands[i].dtype
    }

    /// The dtype of the first input, or of the first output when there is no input.
    pub fn input_dtype(&self) -> DType {
        self.operands[self.outputs.min(self.operands.len() - 1)].dtype
    }

    /// The dtype that the loop computes in: the common one, or the first input's where there is none.
    pub fn compute_dtype(&self) -> DType {
        match self.common_dtype {
            DType::Undefined => self.input_dtype(),
            common => common,
        }
    }

    /// The device that runs the loop.
    pub fn device(&self) -> Device {
        self.device
    }

    /// The device of operand `i`.
    pub fn device_of(&self, i: usize) -> Device {
        self.operands[i].device
    }

    /// The strides of operand `i` in bytes, one per dimension of the walk.
    pub fn strides(&self, i: usize) -> &[i64] {
        &self.operands[i].strides
    }

    /// The tensor that operand `i` reads or writes.
    pub fn tensor(&self, i: usize) -> &Tensor {
        &self.operands[i].tensor
    }

    /// Whether operand `i` was given as a number, not as a tensor.
    pub fn is_wrapped_number(&self, i: usize) -> bool {
        let operand = &self.operands[i];
        operand.original.as_ref().unwrap_or(&operand.tensor).is_wrapped_number()
    }

    /// Input `i` as the loop reads it.
    pub fn input(&self, i: usize) -> &Tensor {
        &self.operands[self.outputs + i].tensor
    }

    /// Output `i` as the operator returns it.
    pub fn output(&self, i: usize) -> Tensor {
        let operand = &self.operands[i];
        operand.result.as_ref().or(operand.original.as_ref()).unwrap_or(&operand.tensor).clone()
    }

    /// Output `i` as the operator returns it, ending the walk.
    pub fn into_output(mut self, i: usize) -> Tensor {
        let operand = &mut self.operands[i];
        let returned = operand.result.take().or(operand.original.take());
        returned.unwrap_or_else(|| std::mem::take(&mut operand.tensor))
    }

    /// Whether the walk is a reduction: outputs have stride 0 along reduced dimensions.
    pub fn is_reduction(&self) -> bool {
        self.is_reduction
    }

    /// Whether this part of a split reduction is the last one.
    pub fn is_final_output(&self) -> bool {
        self.is_final
    }

    /// Whether a split reduction has already written partial results to the output.
    pub fn should_accumulate(&self) -> bool {
        self.accumulates
    }

    /// Whether operand `i` takes one element for the whole walk.
    pub fn is_scalar(&self, i: usize) -> bool {
        let operand = &self.operands[i];
        operand.inline.is_some() || operand.tensor.numel() == 1
    }

    /// Whether operand `i` is such an element in the memory of the CPU.
    pub fn is_cpu_scalar(&self, i: usize) -> bool {
        self.is_scalar(i) && self.operands[i].device.is_cpu()
    }

    /// The value of such an element where reading it in the common dtype changes it.
    ///
    /// # Errors
    /// `Runtime` when the element is being written by another thread.
    pub fn original_scalar(&self, i: usize) -> Result<Option<Scalar>> {
        let operand = &self.operands[i];
        match operand.inline.is_some() && operand.device.is_cpu() {
            true => types::read_scalar(&operand.tensor).map(Some),
            false => Ok(None),
        }
    }

    /// Whether every operand lies densely in the order of the walk.
    pub fn is_contiguous(&self) -> bool {
        if self.numel == 1 {
            return true;
        }
        self.shape.len() <= 1
            && self.operands.iter().all(|op| {
                op.strides.first().is_none_or(|&stride| stride == op.dtype.itemsize() as i64)
            })
    }

    /// The address of each operand's first element. Takes access to the operands.
    ///
    /// The addresses stay valid until [`finish`](Self::finish) or the end of the iterator; the
    /// memory may be touched only as the operand was declared.
    ///
    /// # Errors
    /// When the calling thread already holds one of the storages in a conflicting way.
    pub fn pointers(&mut self) -> Result<SmallVec<[*mut u8; 4]>> {
        self.acquire()?;
        if self.operands.len() > Holds::FEW {
            return Ok(self.operands.iter().map(Operand::pointer).collect());
        }
        let mut pointers = [std::ptr::null_mut(); Holds::FEW];
        for (pointer, operand) in pointers.iter_mut().zip(&self.operands) {
            *pointer = operand.pointer();
        }
        Ok(SmallVec::from_buf_and_len(pointers, self.operands.len()))
    }

    /// The address of operand `i`'s first element, without access to it.
    pub(crate) fn address(&self, i: usize) -> *mut u8 {
        let operand = &self.operands[i];
        operand.first(operand.tensor.data_ptr())
    }

    /// The address of operand `i`'s first element; see [`pointers`](Self::pointers).
    ///
    /// # Errors
    /// As for [`pointers`](Self::pointers).
    pub fn data_ptr(&mut self, i: usize) -> Result<*mut u8> {
        self.acquire()?;
        Ok(self.operands[i].pointer())
    }

    /// Takes access to the operands' storages, held until [`finish`](Self::finish).
    ///
    /// # Errors
    /// When an operand keeps its data elsewhere than in a storage, as sparse tensors do, or the
    /// calling thread already holds one of the storages in a conflicting way.
    pub fn acquire(&mut self) -> Result<()> {
        if !matches!(self.hold, Hold::Free) {
            return Ok(());
        }
        let simple = |operand: &Operand| operand.inline.is_none() && operand.tensor.has_storage();
        if self.operands.len() <= Holds::FEW && self.operands.iter().all(simple) {
            return self.acquire_few();
        }
        let mut wanted: SmallVec<[_; 4]> = SmallVec::new();
        let mut which: SmallVec<[usize; 4]> = SmallVec::new();
        for (i, operand) in self.operands.iter().enumerate() {
            if operand.inline.is_some() {
                continue;
            }
            if operand.tensor.has_storage() {
                let access = if operand.is_output { Access::Write } else { Access::Read };
                wanted.push((operand.tensor.base(), access));
                which.push(i);
            } else if operand.tensor.numel() > 0 {
                bail!(Runtime, "unsupported tensor layout: {}", operand.tensor.layout());
            }
        }
        let set = AccessSet::acquire(&wanted)?;
        let starts: SmallVec<[_; 4]> =
            (0..which.len()).map(|place| Start(set.byte_ptr(place))).collect();
        for (place, (&i, start)) in which.iter().zip(&starts).enumerate() {
            self.check_extent(&self.operands[i], start.0, set.extent(place))?;
        }
        self.hold = Hold::Own(set.into_holds());
        drop(wanted);
        for (&i, &start) in which.iter().zip(&starts) {
            self.operands[i].start = start;
        }
        Ok(())
    }

    /// [`acquire`](Self::acquire) for few operands, all of which have a storage.
    fn acquire_few(&mut self) -> Result<()> {
        let Some(first) = self.operands.first() else { return Ok(()) };
        let mut wanted = [(first.tensor.base(), Access::Read); Holds::FEW];
        for (place, operand) in wanted.iter_mut().zip(&self.operands) {
            let access = if operand.is_output { Access::Write } else { Access::Read };
            *place = (operand.tensor.base(), access);
        }
        let mut places = [HeldPlace::NONE; Holds::FEW];
        let holds = Holds::acquire_few(&wanted[..self.operands.len()], &mut places)?;
        for (operand, place) in self.operands.iter().zip(&places) {
            self.check_extent(operand, place.start, (place.storage, place.nbytes))?;
        }
        self.hold = Hold::Own(holds);
        for (operand, place) in self.operands.iter_mut().zip(&places) {
            operand.start = Start(place.start);
        }
        Ok(())
    }

    /// That the walk stays in the storage that an operand has now: another thread may have given the
    /// tensor another one, or resized it, since the walk was planned.
    fn check_extent(
        &self,
        operand: &Operand,
        start: *mut u8,
        (storage, nbytes): (*mut u8, usize),
    ) -> Result<()> {
        if self.numel == 0 {
            return Ok(());
        }
        let first = start.addr() as i64 - storage.addr() as i64 + operand.byte_offset;
        let walk = self.shape.iter().copied().zip(operand.strides.iter().copied());
        check_extent(walk, first, operand.dtype.itemsize(), nbytes)
    }

    /// Gives the operands' storages free and copies temporary outputs to the caller's tensors.
    ///
    /// # Errors
    /// Those of the copies.
    pub fn finish(&mut self) -> Result<()> {
        self.hold = Hold::Free;
        for i in 0..self.outputs {
            let operand = &self.operands[i];
            if let Some(original) = &operand.original {
                types::copy_dense(original, &operand.tensor)?;
            }
        }
        Ok(())
    }

    /// The walk of a reduction with output `i` alone. It ends before this one does.
    pub fn with_output(&self, i: usize) -> Self {
        let mut one = self.part();
        one.operands = vec![self.operands[i].clone(), self.operands[self.outputs].clone()];
        one.outputs = 1;
        one
    }

    /// Replaces what output `i` returns; the loop keeps writing the operand.
    pub(crate) fn set_result(&mut self, i: usize, result: Tensor) {
        self.operands[i].result = Some(result);
    }

    /// The iterator over the same operands as a part of this one, which holds the access if it has
    /// taken it.
    pub(crate) fn part(&self) -> Self {
        Self {
            operands: self.operands.clone(),
            shape: self.shape.clone(),
            perm: self.perm.clone(),
            hold: if matches!(self.hold, Hold::Free) { Hold::Free } else { Hold::Parent },
            ..*self
        }
    }

    /// The output operand's tensor for kernels that need exactly one.
    ///
    /// # Errors
    /// `Internal` when there is not exactly one output.
    pub fn only_output(&self) -> Result<&Tensor> {
        if self.outputs != 1 {
            bug!("expected one output, found {}", self.outputs);
        }
        Ok(&self.operands[0].tensor)
    }
}

/// That a walk over elements, given by sizes that are not 0 and strides in bytes, stays in a storage of `nbytes`
/// bytes, in which it begins `first` bytes from the start.
///
/// # Errors
/// `Runtime` otherwise: the storage has changed since the walk was planned.
#[inline]
pub fn check_extent(
    walk: impl Iterator<Item = (i64, i64)>,
    first: i64,
    itemsize: usize,
    nbytes: usize,
) -> Result<()> {
    let (mut low, mut high) = (0_i64, itemsize as i64);
    for (size, stride) in walk {
        let last = (size - 1).saturating_mul(stride);
        (low, high) = (low.saturating_add(last.min(0)), high.saturating_add(last.max(0)));
    }
    let within = first.saturating_add(low) >= 0
        && usize::try_from(first.saturating_add(high)).is_ok_and(|end| end <= nbytes);
    if !within {
        bail!(
            Runtime,
            "a tensor was given another shape or storage by another thread while an operator was about to use it"
        );
    }
    Ok(())
}
