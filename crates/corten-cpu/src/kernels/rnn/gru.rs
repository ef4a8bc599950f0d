//! Gated recurrent units.

use super::{After, Before, Behind, Cell, Gates, Grads, Shape, backward, forward, rows};
use crate::kernels::support::{contiguous, empty, expect_dtype, is_shape_only};
use crate::vec::Lanes;
use corten_core::{Access, AccessSet, Result, ensure, match_dtype};
use corten_ops::{Tensor, op};

/// The gates: reset, update and new.
const GATES: usize = 3;

/// What is kept of every step: the gates, what the state contributes to the new one, and the state
/// before it.
const KEPT: usize = GATES + 2;

/// The reset gate multiplies what the state contributes to the new one, so that the gradients of what
/// state and input contribute differ: those of the input lie beside.
struct Gru;

impl Cell for Gru {
    const NAME: &'static str = "gru_sequence";
    const GATES: usize = GATES;
    const KEPT: usize = KEPT;
    const HAS_CELL: bool = false;
    const BESIDE: usize = GATES;

    #[inline(always)]
    fn activate<V: Lanes>(of_state: Gates<V>, of_input: Gates<V>) -> Gates<V> {
        let [reset, update, of_new, _] = of_state;
        let [of_reset, of_update, new, _] = of_input;
        [(reset + of_reset).sigmoid(), (update + of_update).sigmoid(), of_new, new]
    }

    #[inline(always)]
    fn forward<V: Lanes>([reset, update, of_new, new]: Gates<V>, before: V) -> After<V> {
        let new = of_new.mul_add(reset, new).tanh();
        let output = (before - new).mul_add(update, new);
        After { output, cell: output, kept: [reset, update, new, of_new, before] }
    }

    #[inline(always)]
    fn backward<V: Lanes>(behind: Behind<V>) -> Grads<V> {
        let Behind { kept: [reset, update, new, of_new, _], before, grad, carried } = behind;
        let (one, grad) = (V::lit(1.0), grad + carried);
        let grad_new = grad * (one - update) * (one - new * new);
        let grad_update = grad * (before - new) * (update * (one - update));
        let grad_reset = grad_new * of_new * (reset * (one - reset));
        let through = grad_new * reset;
        Grads {
            gates: [grad_reset, grad_update, through, through],
            carried: grad * update,
            beside: [grad_reset, grad_update, grad_new, grad_new],
        }
    }

    fn beside_of(step: usize, _length: usize) -> Option<usize> {
        Some(step)
    }

    fn before<'a, T>(shape: &Shape, kept: &'a [T], _first: &'a [T], step: usize) -> Before<'a, T> {
        shape.kept_states(&kept[shape.range(step, KEPT)], KEPT)
    }
}

/// Outputs, and what the gradient needs of all steps if it is asked for.
///
/// # Errors
/// `Runtime` when shapes or dtypes do not fit.
pub fn gru_sequence(
    gates: &Tensor,
    hx: &Tensor,
    w_hh: &Tensor,
    b_hh: Option<&Tensor>,
    reverse: bool,
    train: bool,
) -> Result<(Tensor, Tensor)> {
    let shape = Shape::of::<Gru>(gates, GATES, [hx, w_hh], reverse)?;
    let [length, batch, hidden] = shape.sizes();
    let bias = match b_hh {
        Some(bias) => contiguous(bias)?,
        None => empty(&[0], gates)?,
    };
    expect_dtype(&bias, hx.dtype())?;
    ensure!(
        b_hh.is_none() || bias.sizes().as_slice() == [GATES as i64 * hidden],
        Runtime,
        "gru_sequence: a bias of sizes {:?} does not fit states of sizes {:?}",
        bias.sizes().as_slice(),
        hx.sizes().as_slice()
    );
    let output = empty(&[length, batch, hidden], gates)?;
    let kept = if train { vec![length, batch, KEPT as i64 * hidden] } else { vec![0] };
    let workspace = empty(&kept, gates)?;
    if is_shape_only(&output) {
        return Ok((output, workspace));
    }
    let [gates, hx, w_hh] = [gates, hx, w_hh].map(contiguous);
    let (gates, hx, w_hh) = (gates?, hx?, w_hh?);
    let access = AccessSet::acquire(&[
        (&output, Access::Write),
        (&workspace, Access::Write),
        (&gates, Access::Read),
        (&hx, Access::Read),
        (&w_hh, Access::Read),
        (&bias, Access::Read),
    ])?;
    match_dtype!(gates.dtype(), "gru_sequence", SingleDouble, T => {
        let results = forward::Results {
            output: access.write::<T>(0)?,
            cell: &mut [],
            kept: access.write::<T>(1)?,
        };
        let given = forward::Given {
            gates: access.read::<T>(2)?,
            output: access.read::<T>(3)?,
            cell: &[],
            weight: access.read::<T>(4)?,
            bias: access.read::<T>(5)?,
        };
        forward::run::<Gru, T>(&shape, results, given)
    })?;
    drop(access);
    Ok((output, workspace))
}

/// Gradients of [`gru_sequence`] with respect to its tensors.
///
/// # Errors
/// `Runtime` when shapes or dtypes do not fit.
pub fn gru_sequence_backward(
    grad_output: &Tensor,
    hx: &Tensor,
    w_hh: &Tensor,
    workspace: &Tensor,
    reverse: bool,
) -> Result<(Tensor, Tensor, Tensor, Tensor)> {
    let shape = Shape::of::<Gru>(workspace, KEPT, [hx, w_hh], reverse)?;
    let [length, batch, hidden] = shape.sizes();
    ensure!(
        grad_output.sizes().as_slice() == [length, batch, hidden],
        Runtime,
        "gru_sequence_backward: a gradient of sizes {:?} does not fit",
        grad_output.sizes().as_slice()
    );
    expect_dtype(grad_output, hx.dtype())?;
    let gates = [length, batch, GATES as i64 * hidden];
    let (grad_gates, of_state) = (empty(&gates, hx)?, empty(&gates, hx)?);
    let grad_hx = empty(&[batch, hidden], hx)?;
    if is_shape_only(&grad_gates) {
        let grad_b = empty(&gates[2..], hx)?;
        return Ok((grad_gates, grad_hx, empty(&w_hh.sizes(), hx)?, grad_b));
    }
    let carried = empty(&[batch, hidden], hx)?;
    let [grad_output, w_hh, workspace] = [grad_output, w_hh, workspace].map(contiguous);
    let (grad_output, w_hh, workspace) = (grad_output?, w_hh?, workspace?);
    let access = AccessSet::acquire(&[
        (&of_state, Access::Write),
        (&grad_hx, Access::Write),
        (&carried, Access::Write),
        (&grad_gates, Access::Write),
        (&grad_output, Access::Read),
        (&w_hh, Access::Read),
        (&workspace, Access::Read),
    ])?;
    match_dtype!(hx.dtype(), "gru_sequence_backward", SingleDouble, T => {
        let results = backward::Results {
            gates: access.write::<T>(0)?,
            output: access.write::<T>(1)?,
            carried: access.write::<T>(2)?,
            beside: access.write::<T>(3)?,
        };
        let given = backward::Given {
            output: access.read::<T>(4)?,
            state: &[],
            weight: access.read::<T>(5)?,
            kept: access.read::<T>(6)?,
        };
        results.carried.fill(T::default());
        backward::run::<Gru, T>(&shape, results, given)
    })?;
    drop(access);
    let of_state = rows(&of_state)?;
    let before = op::narrow(&rows(&workspace)?, 1, (KEPT as i64 - 1) * hidden, hidden)?;
    let grad_w = op::mm(&op::t(&of_state)?, &before)?;
    let grad_b = op::sum_dim_intlist(&of_state, Some(&[0]), false, None)?;
    Ok((grad_gates, grad_hx, grad_w, grad_b))
}
