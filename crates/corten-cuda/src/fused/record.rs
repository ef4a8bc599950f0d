//! What operators would launch, recorded instead.

use crate::pointwise::{Expression, Numbers};
use crate::reduction::Reduction;
use corten_core::{DType, Result, bail};
use corten_ops::TensorIterator;
use corten_ops::device_groups::{LaunchOperand, RecordedLaunch};
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// What a step of a group launches when it runs by itself.
pub(crate) enum Launch {
    /// An expression.
    Pointwise {
        expression: &'static Expression,
        /// Of the result and of the inputs.
        dtypes: SmallVec<[DType; 4]>,
        /// What it computes in.
        value: DType,
        /// Its numbers in the value type.
        numbers: SmallVec<[[u8; 16]; 4]>,
    },
    /// A reduction; the dtypes are those of the result and of the input.
    Reduction { reduction: Reduction, dtypes: [DType; 2] },
}

thread_local! {
    static ACTIVE: Cell<bool> = const { Cell::new(false) };
    static RECORDED: RefCell<Vec<RecordedLaunch>> = const { RefCell::new(Vec::new()) };
}

/// Ends the recording, also of a call that panics.
struct Recorder;

impl Drop for Recorder {
    fn drop(&mut self) {
        ACTIVE.set(false);
        RECORDED.take();
    }
}

/// Runs `call` and gives what it would have launched; nothing where it fails or does anything else. Recordings do
/// not nest.
pub(super) fn record(call: &mut dyn FnMut() -> Result<()>) -> Option<Vec<RecordedLaunch>> {
    if ACTIVE.replace(true) {
        return None;
    }
    let _recorder = Recorder;
    call().ok()?;
    Some(RECORDED.take())
}

/// Whether launches of this thread are recorded instead of made.
#[inline]
pub(crate) fn is_recording() -> bool {
    ACTIVE.get()
}

/// Refuses what is neither a pointwise launch nor a reduction while launches are recorded: the memory that it
/// would work on has no contents.
///
/// # Errors
/// `Internal` while launches are recorded.
#[inline]
pub(crate) fn refuse_other_work() -> Result<()> {
    if is_recording() {
        bail!(Internal, "work of a device cannot be recorded for a group");
    }
    Ok(())
}

/// Records a pointwise launch over a planned walk.
///
/// # Errors
/// Those of the walk's operands.
pub(crate) fn record_pointwise(
    expression: &'static Expression,
    iter: &mut TensorIterator,
    numbers: &Numbers,
    count: usize,
    value: DType,
) -> Result<()> {
    let operands = operands(iter, expression.inputs + 1)?;
    let dtypes = operands.iter().map(|operand| operand.dtype).collect();
    let numbers = numbers.of_call(count).iter().copied().collect();
    push(iter, Launch::Pointwise { expression, dtypes, value, numbers }, operands, false);
    Ok(())
}

/// Records a reduction with one result over a planned walk.
///
/// # Errors
/// Those of the walk's operands.
pub(crate) fn record_reduction(iter: &mut TensorIterator, reduction: Reduction) -> Result<()> {
    if iter.noutputs() != 1 {
        return refuse_other_work();
    }
    let operands = operands(iter, 2)?;
    let dtypes = [operands[0].dtype, operands[1].dtype];
    push(iter, Launch::Reduction { reduction, dtypes }, operands, true);
    Ok(())
}

fn push(
    iter: &TensorIterator,
    launch: Launch,
    operands: SmallVec<[LaunchOperand; 4]>,
    reduces: bool,
) {
    let length = (iter.ndim() <= 1).then(|| iter.numel());
    let launch = Arc::new(launch);
    RECORDED.with_borrow_mut(|recorded| {
        recorded.push(RecordedLaunch { launch, operands, length, reduces });
    });
}

fn operands(iter: &mut TensorIterator, count: usize) -> Result<SmallVec<[LaunchOperand; 4]>> {
    let at = iter.pointers()?;
    let mut operands = SmallVec::new();
    for (i, start) in at.iter().enumerate().take(count) {
        let dtype = iter.dtype(i);
        let element = (i > 0 && iter.device_of(i).is_cpu()).then(|| {
            let mut element = [0; 2];
            let place = (&raw mut element).cast::<u8>();
            // SAFETY: an operand of the host is one element, which the iterator holds, and no element is longer
            // than the place.
            unsafe { start.copy_to_nonoverlapping(place, dtype.itemsize()) };
            element
        });
        let stride = iter.strides(i).first().copied().filter(|_| element.is_none()).unwrap_or(0);
        operands.push(LaunchOperand { dtype, address: start.addr(), stride, element });
    }
    Ok(operands)
}
