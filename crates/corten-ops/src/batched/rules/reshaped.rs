//! Operators in place on sizes and strides.

use super::{Batch, first, with_items};
use crate::boxed::{IValue, Stack};
use crate::registry;
use crate::{Tensor, op};
use corten_core::{Result, bail, ensure};

/// Gives the first argument the value and the sizes of the result of the operator out of place,
/// which is a view of the same memory.
pub(crate) fn reshaped(batch: &Batch, stack: &mut Stack) -> Result<()> {
    let written = first(stack)?.clone();
    ensure!(
        batch.has(&written),
        Internal,
        "vmap: {} on a tensor without items",
        batch.op.def().name
    );
    let result = match batch.op.def().name {
        "resize_" => resized(batch, &written, stack[1].get()?)?,
        "resize_as_" => resized(batch, &written, &stack[1].get::<&Tensor>()?.sizes())?,
        _ => viewed(batch, stack)?,
    };
    crate::batched::assign(&written, &result)?;
    stack.replace(written);
    Ok(())
}

fn viewed(batch: &Batch, stack: &Stack) -> Result<Tensor> {
    let name = batch.op.def().qualified_name();
    let plain = name.replacen("_.", ".", 1);
    let plain = plain.trim_end_matches('_');
    // `transpose_` goes with `transpose.int`.
    let found = registry::find(plain).or_else(|| registry::find(&format!("{plain}.int")));
    let Some(view) = found else {
        bail!(
            NotImplemented,
            "vmap: {name} changes its tensor in place, which is not supported for items. Please \
             use the variant that returns a result"
        )
    };
    let mut arguments = stack.clone();
    view.call_boxed(&mut arguments)?;
    match arguments.first() {
        Some(IValue::Tensor(result)) => Ok(result.clone()),
        _ => bail!(Internal, "vmap: {name} returned no tensor"),
    }
}

/// The beginning of every item's elements with other sizes.
fn resized(batch: &Batch, written: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    let value = batch.front(written)?;
    let own = corten_core::geometry::checked_numel(&value.sizes()[1..])?;
    let wanted = corten_core::geometry::checked_numel(sizes)?;
    ensure!(
        wanted <= own && value.is_contiguous(),
        NotImplemented,
        "vmap: {} is supported for items whose elements lie one behind another, and for no more \
         elements than they have: there are {own} and {wanted} are asked for",
        batch.op.def().name
    );
    let flat = op::view(&value, &[batch.size, own])?;
    let all = with_items(batch, sizes);
    batch.wrap(op::view(&op::narrow(&flat, 1, 0, wanted)?, all.get()?)?)
}
