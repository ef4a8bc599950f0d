//! Long short-term memory.

use super::{After, Before, Behind, Cell, Gates, Grads, Shape, backward, forward, rows};
use crate::kernels::support::{contiguous, empty, expect_dtype, is_shape_only};
use crate::vec::Lanes;
use corten_core::{Access, AccessSet, Result, ensure, match_dtype};
use corten_ops::{Tensor, op};

/// The gates: input, forget, cell and output.
const GATES: usize = 4;

/// What is kept of every step: the gates, and the cell state after it.
const KEPT: usize = GATES + 1;

/// Beside its output it has a cell state; beside the gradients of the gates, the gradient of the
/// weight needs the outputs before every step, which are computed anew.
struct Lstm;

impl Cell for Lstm {
    const NAME: &'static str = "lstm_sequence";
    const GATES: usize = GATES;
    const KEPT: usize = KEPT;
    const HAS_CELL: bool = true;
    const BESIDE: usize = 1;

    #[inline(always)]
    fn activate<V: Lanes>(of_state: Gates<V>, of_input: Gates<V>) -> Gates<V> {
        let [input, forget, new, out] = of_state;
        let [of_input, of_forget, of_new, of_out] = of_input;
        let [input, forget] = [(input + of_input).sigmoid(), (forget + of_forget).sigmoid()];
        [input, forget, (new + of_new).tanh(), (out + of_out).sigmoid()]
    }

    #[inline(always)]
    fn forward<V: Lanes>([input, forget, new, out]: Gates<V>, before: V) -> After<V> {
        let cell = forget.mul_add(before, input * new);
        After { output: out * cell.tanh(), cell, kept: [input, forget, new, out, cell] }
    }

    #[inline(always)]
    fn backward<V: Lanes>(behind: Behind<V>) -> Grads<V> {
        let Behind { kept: [input, forget, new, out, cell], before, grad, carried } = behind;
        let (one, tanh) = (V::lit(1.0), cell.tanh());
        let of_cell = carried + grad * out * (one - tanh * tanh);
        let gates = [
            of_cell * new * (input * (one - input)),
            of_cell * before * (forget * (one - forget)),
            of_cell * input * (one - new * new),
            grad * tanh * (out * (one - out)),
        ];
        Grads { gates, carried: of_cell * forget, beside: [out * tanh; 4] }
    }

    /// The output of a step is the one before the next.
    fn beside_of(step: usize, length: usize) -> Option<usize> {
        (step + 1 < length).then_some(step + 1)
    }

    fn before<'a, T>(shape: &Shape, kept: &'a [T], first: &'a [T], step: usize) -> Before<'a, T> {
        match step {
            0 => Before { states: &first[shape.states()], row: shape.hidden },
            _ => shape.kept_states(&kept[shape.range(step - 1, KEPT)], KEPT),
        }
    }
}

/// A cell state is as large as the output.
fn check_cell(cx: &Tensor, hx: &Tensor) -> Result<()> {
    let (of_cell, states) = (cx.sizes(), hx.sizes());
    ensure!(
        of_cell == states,
        Runtime,
        "lstm_sequence: states of sizes {:?} and {:?} do not fit",
        states.as_slice(),
        of_cell.as_slice()
    );
    expect_dtype(cx, hx.dtype())
}

/// Outputs, the last cell state, and the activated gates and cell states of all steps if they are
/// asked for.
///
/// # Errors
/// `Runtime` when shapes or dtypes do not fit.
pub fn lstm_sequence(
    gates: &Tensor,
    hx: &Tensor,
    cx: &Tensor,
    w_hh: &Tensor,
    reverse: bool,
    train: bool,
) -> Result<(Tensor, Tensor, Tensor)> {
    let shape = Shape::of::<Lstm>(gates, GATES, [hx, w_hh], reverse)?;
    check_cell(cx, hx)?;
    let [length, batch, hidden] = shape.sizes();
    let output = empty(&[length, batch, hidden], gates)?;
    let cell = empty(&[batch, hidden], gates)?;
    let kept = if train { vec![length, batch, KEPT as i64 * hidden] } else { vec![0] };
    let workspace = empty(&kept, gates)?;
    if is_shape_only(&output) {
        return Ok((output, cell, workspace));
    }
    let [gates, hx, cx, w_hh] = [gates, hx, cx, w_hh].map(contiguous);
    let (gates, hx, cx, w_hh) = (gates?, hx?, cx?, w_hh?);
    let access = AccessSet::acquire(&[
        (&output, Access::Write),
        (&cell, Access::Write),
        (&workspace, Access::Write),
        (&gates, Access::Read),
        (&hx, Access::Read),
        (&cx, Access::Read),
        (&w_hh, Access::Read),
    ])?;
    match_dtype!(gates.dtype(), "lstm_sequence", SingleDouble, T => {
        let results = forward::Results {
            output: access.write::<T>(0)?,
            cell: access.write::<T>(1)?,
            kept: access.write::<T>(2)?,
        };
        let given = forward::Given {
            gates: access.read::<T>(3)?,
            output: access.read::<T>(4)?,
            cell: access.read::<T>(5)?,
            weight: access.read::<T>(6)?,
            bias: &[],
        };
        forward::run::<Lstm, T>(&shape, results, given)
    })?;
    drop(access);
    Ok((output, cell, workspace))
}

/// Gradients of [`lstm_sequence`] with respect to its tensors.
///
/// # Errors
/// `Runtime` when shapes or dtypes do not fit.
pub fn lstm_sequence_backward(
    grad_output: &Tensor,
    grad_cy: &Tensor,
    hx: &Tensor,
    cx: &Tensor,
    w_hh: &Tensor,
    workspace: &Tensor,
    reverse: bool,
) -> Result<(Tensor, Tensor, Tensor, Tensor)> {
    let shape = Shape::of::<Lstm>(workspace, KEPT, [hx, w_hh], reverse)?;
    check_cell(cx, hx)?;
    let [length, batch, hidden] = shape.sizes();
    ensure!(
        grad_output.sizes().as_slice() == [length, batch, hidden] && grad_cy.sizes() == cx.sizes(),
        Runtime,
        "lstm_sequence_backward: gradients of sizes {:?} and {:?} do not fit",
        grad_output.sizes().as_slice(),
        grad_cy.sizes().as_slice()
    );
    let grad_gates = empty(&[length, batch, GATES as i64 * hidden], hx)?;
    let (grad_hx, grad_cx) = (empty(&[batch, hidden], hx)?, empty(&[batch, hidden], hx)?);
    if is_shape_only(&grad_gates) {
        let grad_w = empty(&w_hh.sizes(), hx)?;
        return Ok((grad_gates, grad_hx, grad_cx, grad_w));
    }
    let before = empty(&[length, batch, hidden], hx)?;
    let [grad_output, grad_cy, hx, cx] = [grad_output, grad_cy, hx, cx].map(contiguous);
    let (grad_output, grad_cy, hx, cx) = (grad_output?, grad_cy?, hx?, cx?);
    let (w_hh, workspace) = (contiguous(w_hh)?, contiguous(workspace)?);
    let access = AccessSet::acquire(&[
        (&grad_gates, Access::Write),
        (&grad_hx, Access::Write),
        (&grad_cx, Access::Write),
        (&before, Access::Write),
        (&grad_output, Access::Read),
        (&grad_cy, Access::Read),
        (&hx, Access::Read),
        (&cx, Access::Read),
        (&w_hh, Access::Read),
        (&workspace, Access::Read),
    ])?;
    match_dtype!(hx.dtype(), "lstm_sequence_backward", SingleDouble, T => {
        let results = backward::Results {
            gates: access.write::<T>(0)?,
            output: access.write::<T>(1)?,
            carried: access.write::<T>(2)?,
            beside: access.write::<T>(3)?,
        };
        let (grad_cy, hx) = (access.read::<T>(5)?, access.read::<T>(6)?);
        let given = backward::Given {
            output: access.read::<T>(4)?,
            state: access.read::<T>(7)?,
            weight: access.read::<T>(8)?,
            kept: access.read::<T>(9)?,
        };
        results.carried.copy_from_slice(grad_cy);
        if shape.length > 0 {
            results.beside[shape.range(0, 1)].copy_from_slice(hx);
        }
        backward::run::<Lstm, T>(&shape, results, given)
    })?;
    drop(access);
    let grad_w = op::mm(&op::t(&rows(&grad_gates)?)?, &rows(&before)?)?;
    Ok((grad_gates, grad_hx, grad_cx, grad_w))
}
