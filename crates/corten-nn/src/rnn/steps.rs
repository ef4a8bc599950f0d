//! The steps of recurrent networks, written over operators.

use crate::module::Parameter;
use corten_autograd::{Autograd, autocast, forward};
use corten_core::{DType, Result, ensure, grad_mode_enabled};
use corten_ops::{Tensor, batched, op};

/// Which recurrence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cell {
    Tanh,
    Relu,
    Lstm,
    Gru,
}

impl Cell {
    /// How many blocks of rows the weights have.
    pub(crate) fn gates(self) -> i64 {
        match self {
            Self::Tanh | Self::Relu => 1,
            Self::Gru => 3,
            Self::Lstm => 4,
        }
    }

    /// The next states from what the input contributes and the present states.
    pub(crate) fn step(
        self,
        gates: &Tensor,
        state: &[Tensor],
        weights: &Weights<'_>,
    ) -> Result<Vec<Tensor>> {
        let recurrent = op::linear(&state[0], weights.w_hh, weights.b_hh)?;
        match self {
            Self::Tanh => Ok(vec![op::tanh(&(gates + recurrent)?)?]),
            Self::Relu => Ok(vec![op::relu(&(gates + recurrent)?)?]),
            Self::Gru => gru_step(gates, &recurrent, &state[0]).map(|state| vec![state]),
            Self::Lstm => {
                let (h, c) = lstm_step(&(recurrent + gates)?, &state[1])?;
                let h = weights.w_hr.map_or(Ok(h.clone()), |w_hr| op::linear(&h, w_hr, None))?;
                Ok(vec![h, c])
            }
        }
    }
}

/// Rows of the weights are reset, update, new.
fn gru_step(inputs: &Tensor, recurrent: &Tensor, state: &Tensor) -> Result<Tensor> {
    let (inputs, recurrent) = (op::chunk(inputs, 3, -1)?, op::chunk(recurrent, 3, -1)?);
    let reset = op::sigmoid(&(&recurrent[0] + &inputs[0])?)?;
    let update = op::sigmoid(&(&recurrent[1] + &inputs[1])?)?;
    let new = op::tanh(&(&inputs[2] + (&recurrent[2] * reset)?)?)?;
    ((state - &new)? * update)? + new
}

/// Rows of the weights are input, forget, cell, output.
fn lstm_step(gates: &Tensor, cell: &Tensor) -> Result<(Tensor, Tensor)> {
    let gates = op::chunk(gates, 4, -1)?;
    let kept = (op::sigmoid(&gates[1])? * cell)?;
    let added = (op::sigmoid(&gates[0])? * op::tanh(&gates[2])?)?;
    let cell = (kept + added)?;
    Ok(((op::sigmoid(&gates[3])? * op::tanh(&cell)?)?, cell))
}

/// The weights of one cell.
pub(crate) struct Weights<'a> {
    pub(crate) w_ih: &'a Tensor,
    pub(crate) w_hh: &'a Tensor,
    pub(crate) b_ih: Option<&'a Tensor>,
    pub(crate) b_hh: Option<&'a Tensor>,
    pub(crate) w_hr: Option<&'a Tensor>,
}

impl<'a> Weights<'a> {
    pub(crate) fn of(
        [w_ih, w_hh]: [&'a Parameter; 2],
        [b_ih, b_hh, w_hr]: [&'a Option<Parameter>; 3],
    ) -> Self {
        let (b_ih, b_hh, w_hr) = (b_ih.as_deref(), b_hh.as_deref(), w_hr.as_deref());
        Self { w_ih, w_hh, b_ih, b_hh, w_hr }
    }

    fn tensors(&self) -> impl Iterator<Item = &Tensor> {
        [self.w_ih, self.w_hh].into_iter().chain([self.b_ih, self.b_hh].into_iter().flatten())
    }
}

/// One direction of one layer over a (length, batch, width) input, or a packed one with the sizes
/// of its steps: the outputs of all steps and the final states.
pub(crate) fn run(
    cell: Cell,
    input: &Tensor,
    state: Vec<Tensor>,
    weights: &Weights<'_>,
    is_backward: bool,
    batch_sizes: Option<&[i64]>,
) -> Result<(Tensor, Vec<Tensor>)> {
    ensure!(
        batch_sizes.is_some() || input.size(0)? > 0,
        Runtime,
        "Expected sequence length to be larger than 0 in RNN"
    );
    if batch_sizes.is_none() && is_one_operator(cell, input, &state, weights) {
        return sequence(cell, input, &state, weights, is_backward);
    }
    let gates = op::linear(input, weights.w_ih, weights.b_ih)?;
    let mut pieces = match batch_sizes {
        None => op::unbind_int(&gates, 0)?,
        Some(sizes) => op::split_with_sizes(&gates, sizes, 0)?,
    };
    if is_backward {
        pieces.reverse();
    }
    let walk = match (batch_sizes, is_backward) {
        (None, _) => even,
        (Some(_), false) => shrinking,
        (Some(_), true) => growing,
    };
    let (mut outputs, finals) = walk(cell, &pieces, state, weights)?;
    if is_backward {
        outputs.reverse();
    }
    let joined =
        if batch_sizes.is_none() { op::stack(&outputs, 0)? } else { op::cat(&outputs, 0)? };
    Ok((joined, finals))
}

/// Whether one operator can run the whole sequence.
fn is_one_operator(cell: Cell, input: &Tensor, state: &[Tensor], weights: &Weights<'_>) -> bool {
    let dtype = input.dtype();
    matches!(cell, Cell::Lstm | Cell::Gru)
        && weights.w_hr.is_none()
        && matches!(dtype, DType::Float32 | DType::Float64)
        && !forward::is_open()
        && !autocast::enabled(autocast::AutocastDevice::Cpu)
        && std::iter::once(input).chain(state).chain(weights.tensors()).all(|tensor| {
            tensor.dtype() == dtype && tensor.device().is_cpu() && !batched::is_batched(tensor)
        })
}

fn sequence(
    cell: Cell,
    input: &Tensor,
    state: &[Tensor],
    weights: &Weights<'_>,
    is_backward: bool,
) -> Result<(Tensor, Vec<Tensor>)> {
    let mut bias = weights.b_ih.cloned();
    if let (Cell::Lstm, Some(b_ih), Some(b_hh)) = (cell, weights.b_ih, weights.b_hh) {
        bias = Some((b_ih + b_hh)?);
    }
    let gates = op::linear(input, weights.w_ih, bias.as_ref())?;
    let mut used = std::iter::once(&gates).chain(state).chain(weights.tensors());
    let trains = grad_mode_enabled() && used.any(Autograd::requires_grad);
    let last = if is_backward { 0 } else { -1 };
    if cell == Cell::Lstm {
        let (outputs, c, _) =
            op::lstm_sequence(&gates, &state[0], &state[1], weights.w_hh, is_backward, trains)?;
        let h = op::select_int(&outputs, 0, last)?;
        return Ok((outputs, vec![h, c]));
    }
    let (outputs, _) =
        op::gru_sequence(&gates, &state[0], weights.w_hh, weights.b_hh, is_backward, trains)?;
    let h = op::select_int(&outputs, 0, last)?;
    Ok((outputs, vec![h]))
}

type Walked = Result<(Vec<Tensor>, Vec<Tensor>)>;

/// Sequences of one length.
fn even(cell: Cell, pieces: &[Tensor], mut state: Vec<Tensor>, weights: &Weights<'_>) -> Walked {
    // Bounded: as many as steps, which are tensors each.
    let mut outputs = Vec::with_capacity(pieces.len());
    for gates in pieces {
        state = cell.step(gates, &state, weights)?;
        outputs.push(state[0].clone());
    }
    Ok((outputs, state))
}

fn rows(state: &[Tensor], start: i64, length: i64) -> Result<Vec<Tensor>> {
    state.iter().map(|tensor| op::narrow(tensor, 0, start, length)).collect()
}

/// Packed, forwards: sequences end one by one, the last of the batch first.
fn shrinking(
    cell: Cell,
    pieces: &[Tensor],
    mut state: Vec<Tensor>,
    weights: &Weights<'_>,
) -> Walked {
    // Bounded: as many as steps, which are tensors each.
    let (mut outputs, mut ended) = (Vec::with_capacity(pieces.len()), Vec::new());
    for gates in pieces {
        let (size, have) = (gates.size(0)?, state[0].size(0)?);
        if size < have {
            ended.push(rows(&state, size, have - size)?);
            state = rows(&state, 0, size)?;
        }
        state = cell.step(gates, &state, weights)?;
        outputs.push(state[0].clone());
    }
    ended.push(state);
    ended.reverse();
    let count = ended[0].len();
    let joined = |i: usize| {
        let parts: Vec<Tensor> = ended.iter().map(|state| state[i].clone()).collect();
        op::cat(&parts, 0)
    };
    Ok((outputs, (0..count).map(joined).collect::<Result<_>>()?))
}

/// Packed, backwards: sequences join one by one with their initial states.
fn growing(cell: Cell, pieces: &[Tensor], initial: Vec<Tensor>, weights: &Weights<'_>) -> Walked {
    // Bounded: as many as steps, which are tensors each.
    let mut outputs = Vec::with_capacity(pieces.len());
    let first = pieces.first().map_or(Ok(0), |piece| piece.size(0))?;
    let mut state = rows(&initial, 0, first)?;
    for gates in pieces {
        let (size, have) = (gates.size(0)?, state[0].size(0)?);
        if size > have {
            let joining = rows(&initial, have, size - have)?;
            let joined = state.into_iter().zip(joining).map(|(a, b)| op::cat(&[a, b], 0));
            state = joined.collect::<Result<_>>()?;
        }
        state = cell.step(gates, &state, weights)?;
        outputs.push(state[0].clone());
    }
    Ok((outputs, state))
}
