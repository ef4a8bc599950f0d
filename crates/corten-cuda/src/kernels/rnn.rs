//! Recurrent networks over whole sequences: a step is a product and a launch.

use crate::kernel::{Argument, Template};
use crate::launch::Shape;
use crate::operands::{Operands, contiguous, empty, on_meta, on_meta_opt};
use crate::stream::Stream;
use crate::text;
use corten_core::{Access, DType, Result, ensure, not_implemented_for};
use corten_ops::{Tensor, op};
use std::ffi::c_void;

static LSTM: Template = Template { name: "lstm_step", text: &[text::RNN] };
static LSTM_BACKWARD: Template = Template { name: "lstm_step_backward", text: &[text::RNN] };
static GRU: Template = Template { name: "gru_step", text: &[text::RNN] };
static GRU_BACKWARD: Template = Template { name: "gru_step_backward", text: &[text::RNN] };

/// What is kept of a step per hidden unit.
const KEPT: i64 = 5;

/// The order of the steps of a sequence, and the size of its states.
#[derive(Clone, Copy)]
struct Sequence {
    length: i64,
    batch: i64,
    hidden: i64,
    reverse: bool,
}

impl Sequence {
    fn of(steps: &Tensor, hx: &Tensor, reverse: bool) -> Result<Self> {
        let dtype = hx.dtype();
        if !dtype.is_floating_point() || dtype.itemsize() == 1 {
            return Err(not_implemented_for("recurrent sequences", dtype));
        }
        let (length, batch, hidden) = (steps.size(0)?, steps.size(1)?, hx.size(1)?);
        ensure!(
            hidden <= i64::from(i32::MAX) && batch * hidden <= i64::from(i32::MAX) * 128,
            Runtime,
            "recurrent sequences: states of {batch} x {hidden} are too large for one launch"
        );
        Ok(Self { length, batch, hidden, reverse })
    }

    /// Places in memory, in the order of the steps.
    fn places(self) -> Vec<i64> {
        let places = 0..self.length;
        if self.reverse { places.rev().collect() } else { places.collect() }
    }

    fn state(&self) -> [i64; 2] {
        [self.batch, self.hidden]
    }

    fn steps(&self, runs: i64) -> [i64; 3] {
        [self.length, self.batch, runs * self.hidden]
    }

    /// Launches a step over the states, with some tensors by their addresses and one more number where it is
    /// given behind so many of them.
    fn launch(
        &self,
        template: &'static Template,
        tensors: &[(&Tensor, Access)],
        number: Option<(usize, u32)>,
    ) -> Result<()> {
        let held = Operands::hold(tensors)?;
        let mut at: Vec<*mut u8> = (0..tensors.len()).map(|index| held.at(index)).collect();
        let (mut elements, mut hidden) = ((self.batch * self.hidden) as u64, self.hidden as u32);
        let mut parameters: Vec<*mut c_void> =
            vec![(&raw mut elements).cast(), (&raw mut hidden).cast()];
        parameters.extend(at.iter_mut().map(|address| (&raw mut *address).cast::<c_void>()));
        let mut more = number.map_or(0, |(_, value)| value);
        if let Some((behind, _)) = number {
            parameters.insert(2 + behind, (&raw mut more).cast());
        }
        let dtype = tensors[0].0.dtype();
        let stream = Stream::current(tensors[0].0.device().index);
        let of = [Argument::Storage(dtype), Argument::Value(dtype)];
        let shape = Shape::over(self.batch * self.hidden);
        // SAFETY: the callers give contiguous tensors of the kernel's sizes, in its order; they are held.
        unsafe { template.launch(&of, shape, stream, &mut parameters)? };
        drop(held);
        Ok(())
    }
}

/// A step of a sequence, or nothing of an empty one.
fn step(steps: &Tensor, place: i64) -> Result<Tensor> {
    match steps.numel() {
        0 => Ok(Tensor::undefined()),
        _ => op::select_int(steps, 0, place),
    }
}

/// Outputs, the last cell state, and with `train` what the gradient needs.
///
/// # Errors
/// `Runtime` when shapes or dtypes do not fit, `NotImplemented` for dtypes that are not floating-point; for the
/// functions below likewise.
pub fn lstm_sequence(
    gates: &Tensor,
    hx: &Tensor,
    cx: &Tensor,
    w_hh: &Tensor,
    reverse: bool,
    train: bool,
) -> Result<(Tensor, Tensor, Tensor)> {
    let [a, b, c, d] = [gates, hx, cx, w_hh].map(on_meta);
    let (output, _, workspace) = op::lstm_sequence(&a?, &b?, &c?, &d?, reverse, train)?;
    let sequence = Sequence::of(gates, hx, reverse)?;
    let dtype = hx.dtype();
    let (output, workspace) =
        (empty(&output.sizes(), dtype, gates)?, empty(&workspace.sizes(), dtype, gates)?);
    let [gates, mut h, c] = [contiguous(gates)?, contiguous(hx)?, contiguous(cx)?];
    let cell = op::clone(&c, None)?;
    let weight = op::t(w_hh)?;
    if cell.numel() == 0 {
        return Ok((output, cell, workspace));
    }
    for place in sequence.places() {
        let of_state = op::mm(&h, &weight)?;
        h = step(&output, place)?;
        sequence.launch(
            &LSTM,
            &[
                (&step(&gates, place)?, Access::Read),
                (&of_state, Access::Read),
                (&cell, Access::Read),
                (&cell, Access::Write),
                (&h, Access::Write),
                (&step(&workspace, place)?, Access::Write),
            ],
            None,
        )?;
    }
    Ok((output, cell, workspace))
}

/// Gradients of [`lstm_sequence`] with respect to its tensors.
pub fn lstm_sequence_backward(
    grad_output: &Tensor,
    grad_cy: &Tensor,
    hx: &Tensor,
    cx: &Tensor,
    w_hh: &Tensor,
    workspace: &Tensor,
    reverse: bool,
) -> Result<(Tensor, Tensor, Tensor, Tensor)> {
    let [a, b, c, d, e, f] = [grad_output, grad_cy, hx, cx, w_hh, workspace].map(on_meta);
    op::lstm_sequence_backward(&a?, &b?, &c?, &d?, &e?, &f?, reverse)?;
    let sequence = Sequence::of(workspace, hx, reverse)?;
    let dtype = hx.dtype();
    let grad_gates = empty(&sequence.steps(4), dtype, hx)?;
    let before = empty(&sequence.steps(1), dtype, hx)?;
    let carried = op::clone(&contiguous(grad_cy)?, None)?;
    let [grad_output, c, workspace] =
        [contiguous(grad_output)?, contiguous(cx)?, contiguous(workspace)?];
    let mut through = Tensor::undefined();
    let places = if carried.numel() == 0 { Vec::new() } else { sequence.places() };
    for (index, &place) in places.iter().enumerate().rev() {
        let kept = step(&workspace, place)?;
        let (past, row) = match index.checked_sub(1) {
            Some(past) => {
                let kept = step(&workspace, places[past])?;
                (op::narrow(&kept, 1, (KEPT - 1) * sequence.hidden, sequence.hidden)?, KEPT)
            }
            None => (c.clone(), 1),
        };
        let next = places.get(index + 1).map(|&next| step(&before, next)).transpose()?;
        let own = step(&grad_gates, place)?;
        sequence.launch(
            &LSTM_BACKWARD,
            &[
                (&step(&grad_output, place)?, Access::Read),
                (&through, Access::Read),
                (&kept, Access::Read),
                (&past, Access::Read),
                (&carried, Access::Write),
                (&own, Access::Write),
                (&next.unwrap_or_else(Tensor::undefined), Access::Write),
            ],
            Some((4, (row * sequence.hidden) as u32)),
        )?;
        through = op::mm(&own, w_hh)?;
    }
    if let Some(&first) = places.first() {
        op::copy_(&step(&before, first)?, hx, false)?;
    }
    if !through.defined() {
        through = op::zeros_like(hx, None, None, None, None, None)?;
    }
    let grad_w = op::mm(&op::t(&rows(&grad_gates)?)?, &rows(&before)?)?;
    Ok((grad_gates, through, carried, grad_w))
}

/// The steps of a sequence as the rows of a matrix.
fn rows(steps: &Tensor) -> Result<Tensor> {
    op::reshape(steps, &[steps.size(0)? * steps.size(1)?, steps.size(2)?])
}

/// Outputs, and with `train` what the gradient needs.
pub fn gru_sequence(
    gates: &Tensor,
    hx: &Tensor,
    w_hh: &Tensor,
    b_hh: Option<&Tensor>,
    reverse: bool,
    train: bool,
) -> Result<(Tensor, Tensor)> {
    let [a, b, c] = [gates, hx, w_hh].map(on_meta);
    let bias = on_meta_opt(b_hh)?;
    let (output, workspace) = op::gru_sequence(&a?, &b?, &c?, bias.as_ref(), reverse, train)?;
    let sequence = Sequence::of(gates, hx, reverse)?;
    let dtype = hx.dtype();
    let (output, workspace) =
        (empty(&output.sizes(), dtype, gates)?, empty(&workspace.sizes(), dtype, gates)?);
    let (gates, mut h) = (contiguous(gates)?, contiguous(hx)?);
    let bias = match b_hh.filter(|bias| bias.defined()) {
        Some(bias) => contiguous(bias)?,
        None => Tensor::undefined(),
    };
    let weight = op::t(w_hh)?;
    if output.numel() == 0 {
        return Ok((output, workspace));
    }
    for place in sequence.places() {
        let of_state = op::mm(&h, &weight)?;
        let after = step(&output, place)?;
        sequence.launch(
            &GRU,
            &[
                (&step(&gates, place)?, Access::Read),
                (&of_state, Access::Read),
                (&bias, Access::Read),
                (&h, Access::Read),
                (&after, Access::Write),
                (&step(&workspace, place)?, Access::Write),
            ],
            None,
        )?;
        h = after;
    }
    Ok((output, workspace))
}

/// Gradients of [`gru_sequence`] with respect to its tensors.
pub fn gru_sequence_backward(
    grad_output: &Tensor,
    hx: &Tensor,
    w_hh: &Tensor,
    workspace: &Tensor,
    reverse: bool,
) -> Result<(Tensor, Tensor, Tensor, Tensor)> {
    let [a, b, c, d] = [grad_output, hx, w_hh, workspace].map(on_meta);
    op::gru_sequence_backward(&a?, &b?, &c?, &d?, reverse)?;
    let sequence = Sequence::of(workspace, hx, reverse)?;
    let dtype: DType = hx.dtype();
    let [grad_gates, of_state] = [0, 1].map(|_| empty(&sequence.steps(3), dtype, hx));
    let (grad_gates, of_state) = (grad_gates?, of_state?);
    let carried = op::zero_(&empty(&sequence.state(), dtype, hx)?)?;
    let (grad_output, workspace) = (contiguous(grad_output)?, contiguous(workspace)?);
    let mut through = Tensor::undefined();
    let places = if carried.numel() == 0 { Vec::new() } else { sequence.places() };
    for &place in places.iter().rev() {
        let own = step(&of_state, place)?;
        sequence.launch(
            &GRU_BACKWARD,
            &[
                (&step(&grad_output, place)?, Access::Read),
                (&through, Access::Read),
                (&step(&workspace, place)?, Access::Read),
                (&carried, Access::Write),
                (&step(&grad_gates, place)?, Access::Write),
                (&own, Access::Write),
            ],
            None,
        )?;
        through = op::mm(&own, w_hh)?;
    }
    let grad_hx = match through.defined() {
        true => (&through + &carried)?,
        false => carried,
    };
    let of_state = rows(&of_state)?;
    let before = op::narrow(&rows(&workspace)?, 1, (KEPT - 1) * sequence.hidden, sequence.hidden)?;
    let grad_w = op::mm(&op::t(&of_state)?, &before)?;
    let grad_b = op::sum_dim_intlist(&of_state, Some(&[0]), false, None)?;
    Ok((grad_gates, grad_hx, grad_w, grad_b))
}
