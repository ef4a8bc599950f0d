//! The loop on the CPU.

use crate::NAME;
use crate::arguments::empty_result;
use corten::core::{Access, AccessSet, Element, match_dtype};
use corten::ops::parallel::{GRAIN, for_each_row};
use corten::{Result, Tensor};
use std::ops::{Add, Mul};

/// Checks, allocates, and runs the loop for the dtype.
pub(crate) fn linear_recurrence(decay: &Tensor, input: &Tensor) -> Result<Tensor> {
    let output = empty_result(decay, input)?;
    match_dtype!(input.dtype(), NAME, Float, T => run::<T>(decay, input, &output))?;
    Ok(output)
}

fn run<T>(decay: &Tensor, input: &Tensor, output: &Tensor) -> Result<()>
where
    T: Element + Add<Output = T> + Mul<Output = T>,
{
    // All at once: accessors that are made one after the other may wait for those of another thread
    // that waits for these.
    let held = AccessSet::acquire(&[
        (decay.base(), Access::Read),
        (input.base(), Access::Read),
        (output.base(), Access::Write),
    ])?;
    let (decay, input) = (held.accessor::<T, 2>(0)?, held.accessor::<T, 2>(1)?);
    let output = held.accessor_mut::<T, 2>(2)?;
    let steps = output.size(1);
    // A row costs as much as its elements: short rows share a thread.
    let grain = (GRAIN / steps.max(1) as i64).max(1);
    for_each_row(output, grain, |index, mut states| {
        let (decay, input) = (decay.at(index), input.at(index));
        let mut state = None;
        for step in 0..steps {
            let next = match state {
                Some(state) => decay[step] * state + input[step],
                None => input[step],
            };
            states[step] = next;
            state = Some(next);
        }
        Ok(())
    })
}
