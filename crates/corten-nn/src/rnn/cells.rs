//! Single steps of recurrent networks.

use super::Nonlinearity;
use super::steps::{Cell, Weights};
use crate::module::{Module, Parameter};
use crate::{empty, init};
use corten_core::{Result, ensure};
use corten_ops::{Tensor, op};

/// Options of the cells.
///
/// ```
/// assert!(corten::nn::RnnCellOptions::default().bias);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RnnCellOptions {
    /// Whether the cell has biases.
    pub bias: bool,
    /// The nonlinearity of [`RnnCell`]; the others have their own.
    pub nonlinearity: Nonlinearity,
}

impl Default for RnnCellOptions {
    fn default() -> Self {
        Self { bias: true, nonlinearity: Nonlinearity::Tanh }
    }
}

macro_rules! cell {
    ($(#[$attribute:meta])* $name:ident, |$options:ident| $cell:expr) => {
        #[derive(Module)]
        $(#[$attribute])*
        pub struct $name {
            /// Shape (gates * hidden, input).
            pub weight_ih: Parameter,
            /// Shape (gates * hidden, hidden).
            pub weight_hh: Parameter,
            /// Shape (gates * hidden).
            pub bias_ih: Option<Parameter>,
            /// Shape (gates * hidden).
            pub bias_hh: Option<Parameter>,
            #[module(skip)]
            cell: Cell,
        }

        impl $name {
            /// A cell with biases.
            ///
            /// # Errors
            /// `Runtime` for negative sizes.
            pub fn new(input_size: i64, hidden_size: i64) -> Result<Self> {
                Self::with(input_size, hidden_size, RnnCellOptions::default())
            }

            /// With options.
            ///
            /// # Errors
            /// `Runtime` for negative sizes.
            pub fn with(
                input_size: i64,
                hidden_size: i64,
                $options: RnnCellOptions,
            ) -> Result<Self> {
                let cell: Cell = $cell;
                let rows = cell.gates() * hidden_size;
                let bias = || $options.bias.then(|| Parameter::new(empty(&[rows])?)).transpose();
                let made = Self {
                    weight_ih: Parameter::new(empty(&[rows, input_size])?)?,
                    weight_hh: Parameter::new(empty(&[rows, hidden_size])?)?,
                    bias_ih: bias()?,
                    bias_hh: bias()?,
                    cell,
                };
                made.reset_parameters()?;
                Ok(made)
            }

            /// Draws all parameters from `U(-1/√hidden, 1/√hidden)`.
            ///
            /// # Errors
            /// Those of the operators.
            pub fn reset_parameters(&self) -> Result<()> {
                let hidden = self.weight_hh.size(1)?;
                let bound = if hidden > 0 { 1.0 / (hidden as f64).sqrt() } else { 0.0 };
                let biases = [&self.bias_ih, &self.bias_hh].into_iter().flatten();
                [&self.weight_ih, &self.weight_hh]
                    .into_iter()
                    .chain(biases)
                    .try_for_each(|parameter| init::uniform_(parameter, -bound, bound))
            }

            fn step(&self, input: &Tensor, states: &[Option<&Tensor>]) -> Result<Vec<Tensor>> {
                let weights = Weights::of(
                    [&self.weight_ih, &self.weight_hh],
                    [&self.bias_ih, &self.bias_hh, &None],
                );
                step(self.name(), self.cell, input, states, &weights)
            }

            fn repr(&self) -> String {
                let inputs = self.weight_ih.sizes()[1];
                let mut text = format!("{inputs}, {}", self.weight_hh.sizes()[1]);
                if self.bias_ih.is_none() {
                    text += ", bias=False";
                }
                if self.cell == Cell::Relu { text + ", nonlinearity=relu" } else { text }
            }
        }
    };
}

cell!(
    /// One step of an Elman network.
    #[doc = example!("let cell = RnnCell::new(3, 4)?;
let h = cell.forward(&op::randn(&[2, 3], None, None, None, None)?, None)?;
assert_eq!(h.sizes().as_slice(), [2, 4]);")]
    #[module(name = "RNNCell", repr)]
    RnnCell, |options| options.nonlinearity.cell()
);
cell!(
    /// One step of a gated recurrent unit.
    #[doc = example!("let cell = GruCell::new(3, 4)?;
let h = cell.forward(&op::randn(&[2, 3], None, None, None, None)?, None)?;
assert_eq!(h.sizes().as_slice(), [2, 4]);")]
    #[module(name = "GRUCell", repr)]
    GruCell, |options| Cell::Gru
);
cell!(
    /// One step of long short-term memory; the state is a pair of output and cell.
    #[doc = example!("let cell = LstmCell::new(3, 4)?;
let (h, c) = cell.forward(&op::randn(&[2, 3], None, None, None, None)?, None)?;
assert_eq!(h.sizes(), c.sizes());")]
    #[module(name = "LSTMCell", repr)]
    LstmCell, |options| Cell::Lstm
);

macro_rules! one_state {
    ($($name:ident),+) => {$(
        impl $name {
            /// The next state; the first one is zero.
            ///
            /// # Errors
            /// For shapes that do not fit.
            pub fn forward(&self, input: &Tensor, hx: Option<&Tensor>) -> Result<Tensor> {
                super::only(self.step(input, &[hx])?)
            }
        }
    )+};
}

one_state!(RnnCell, GruCell);

impl LstmCell {
    /// The next output and cell; the first ones are zero.
    ///
    /// # Errors
    /// For shapes that do not fit.
    pub fn forward(
        &self,
        input: &Tensor,
        hx: Option<(&Tensor, &Tensor)>,
    ) -> Result<(Tensor, Tensor)> {
        super::pair(self.step(input, &[hx.map(|hx| hx.0), hx.map(|hx| hx.1)])?)
    }
}

/// One step of a batch, or of one sample, which gets a batch for it.
fn step(
    name: &str,
    cell: Cell,
    input: &Tensor,
    states: &[Option<&Tensor>],
    weights: &Weights<'_>,
) -> Result<Vec<Tensor>> {
    let rank = input.dim();
    ensure!(
        rank == 1 || rank == 2,
        Value,
        "{name}: Expected input to be 1D or 2D, got {rank}D instead"
    );
    let is_batch = rank == 2;
    let batched = |tensor: &Tensor| {
        if is_batch { Ok(tensor.clone()) } else { op::unsqueeze(tensor, 0) }
    };
    let x = batched(input)?;
    let (batch, width, expected) = (x.size(0)?, x.size(1)?, weights.w_ih.size(1)?);
    ensure!(
        width == expected,
        Runtime,
        "input has inconsistent input_size: got {width} expected {expected}"
    );
    let hidden = weights.w_hh.size(1)?;
    let mut prepared = Vec::with_capacity(2);
    for (i, state) in states.iter().enumerate() {
        let Some(state) = state else {
            prepared.push(op::new_zeros(&x, &[batch, hidden], None, None, None, None)?);
            continue;
        };
        let rank = state.dim();
        ensure!(
            rank == 1 || rank == 2,
            Value,
            "{name}: Expected hidden to be 1D or 2D, got {rank}D instead"
        );
        ensure!(
            is_batch == (rank == 2),
            Value,
            "{name}: Expected hidden to be {}D as the input is, got {rank}D instead",
            input.dim()
        );
        let state = batched(state)?;
        let (rows, width) = (state.size(0)?, state.size(1)?);
        ensure!(
            rows == batch,
            Runtime,
            "Input batch size {batch} doesn't match hidden{i} batch size {rows}"
        );
        ensure!(
            width == hidden,
            Runtime,
            "hidden{i} has inconsistent hidden_size: got {width}, expected {hidden}"
        );
        prepared.push(state);
    }
    let gates = op::linear(&x, weights.w_ih, weights.b_ih)?;
    let next = cell.step(&gates, &prepared, weights)?;
    if is_batch { Ok(next) } else { next.iter().map(|state| op::squeeze_dim(state, 0)).collect() }
}
