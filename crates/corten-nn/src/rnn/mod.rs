//! Recurrent networks.

mod base;
mod cells;
mod packed;
mod steps;

pub use base::RnnOptions;
pub use cells::{GruCell, LstmCell, RnnCell, RnnCellOptions};
pub use packed::{
    PackedSequence, PaddingSide, invert_permutation, pack_padded_sequence, pack_sequence,
    pad_packed_sequence, pad_sequence, unpack_sequence, unpad_sequence,
};

use crate::module::Module;
use base::Recurrent;
use corten_core::{Result, bug};
use corten_ops::Tensor;
use steps::Cell;

/// The nonlinearity of an Elman network.
///
/// ```
/// assert_eq!(corten::nn::Nonlinearity::default(), corten::nn::Nonlinearity::Tanh);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Nonlinearity {
    /// Hyperbolic tangent.
    #[default]
    Tanh,
    /// Rectifier.
    Relu,
}

impl Nonlinearity {
    fn cell(self) -> Cell {
        match self {
            Self::Tanh => Cell::Tanh,
            Self::Relu => Cell::Relu,
        }
    }
}

/// Networks with one state.
macro_rules! one_state {
    ($name:ident) => {
        impl $name {
            /// The outputs of the last layer at all times, and the final states of all layers;
            /// states begin with zeros unless they are given.
            ///
            /// # Errors
            /// For shapes and dtypes that do not fit.
            pub fn forward(&self, input: &Tensor, hx: Option<&Tensor>) -> Result<(Tensor, Tensor)> {
                let given = hx.map(|hx| [hx]);
                let (output, states) =
                    self.inner.forward(input, given.as_ref().map(|hx| &hx[..]))?;
                Ok((output, only(states)?))
            }

            /// The same over packed sequences.
            ///
            /// # Errors
            /// For shapes and dtypes that do not fit.
            pub fn forward_packed(
                &self,
                input: &PackedSequence,
                hx: Option<&Tensor>,
            ) -> Result<(PackedSequence, Tensor)> {
                let given = hx.map(|hx| [hx]);
                let given = given.as_ref().map(|hx| &hx[..]);
                let (output, states) = self.inner.forward_packed(input, given)?;
                Ok((output, only(states)?))
            }
        }
    };
}

/// What all networks have.
macro_rules! network {
    ($(#[$attribute:meta])* $name:ident) => {
        #[derive(Module)]
        $(#[$attribute])*
        pub struct $name {
            #[module(flatten)]
            inner: Recurrent,
        }

        impl $name {
            /// Draws all parameters from `U(-1/√hidden, 1/√hidden)`.
            ///
            /// # Errors
            /// Those of the operators.
            pub fn reset_parameters(&self) -> Result<()> {
                self.inner.reset_parameters()
            }

            fn repr(&self) -> String {
                self.inner.extra_repr()
            }
        }
    };
}

fn only(states: Vec<Tensor>) -> Result<Tensor> {
    match states.into_iter().next() {
        Some(state) => Ok(state),
        None => bug!("a recurrent network without states"),
    }
}

fn pair(states: Vec<Tensor>) -> Result<(Tensor, Tensor)> {
    let mut states = states.into_iter();
    match (states.next(), states.next()) {
        (Some(h), Some(c)) => Ok((h, c)),
        _ => bug!("an LSTM without two states"),
    }
}

network!(
    /// Long short-term memory; states are pairs of output and cell.
    #[doc = example!("let lstm = Lstm::with(3, 4, RnnOptions { batch_first: true, ..Default::default() })?;
let x = op::randn(&[2, 5, 3], None, None, None, None)?;
let (y, (h, c)) = lstm.forward(&x, None)?;
assert_eq!(y.sizes().as_slice(), [2, 5, 4]);
assert_eq!(h.sizes(), c.sizes());")]
    #[module(name = "LSTM", repr)]
    Lstm
);
network!(
    /// Gated recurrent units.
    #[doc = example!("let gru = Gru::new(3, 4)?;
let x = op::randn(&[5, 2, 3], None, None, None, None)?;
let (y, h) = gru.forward(&x, None)?;
assert_eq!(gru.forward(&x, Some(&h))?.0.sizes(), y.sizes());")]
    #[module(name = "GRU", repr)]
    Gru
);
network!(
    /// Elman network with a hyperbolic tangent or a rectifier.
    #[doc = example!("let rnn = Rnn::with(3, 4, Nonlinearity::Relu, RnnOptions::default())?;
let (y, _) = rnn.forward(&op::randn(&[5, 2, 3], None, None, None, None)?, None)?;
assert_eq!(y.sizes().as_slice(), [5, 2, 4]);")]
    #[module(name = "RNN", repr)]
    Rnn
);
one_state!(Gru);
one_state!(Rnn);

impl Lstm {
    /// One layer over inputs of (length, batch, input).
    ///
    /// # Errors
    /// `Value` for sizes that are not positive.
    pub fn new(input_size: i64, hidden_size: i64) -> Result<Self> {
        Self::with(input_size, hidden_size, RnnOptions::default())
    }

    /// With options.
    ///
    /// # Errors
    /// `Value` for sizes and numbers that are none.
    pub fn with(input_size: i64, hidden_size: i64, options: RnnOptions) -> Result<Self> {
        Ok(Self { inner: Recurrent::new("LSTM", Cell::Lstm, input_size, hidden_size, options)? })
    }

    /// The outputs of the last layer at all times, and the final states of all layers; states
    /// begin with zeros unless they are given.
    ///
    /// # Errors
    /// For shapes and dtypes that do not fit.
    pub fn forward(
        &self,
        input: &Tensor,
        hx: Option<(&Tensor, &Tensor)>,
    ) -> Result<(Tensor, (Tensor, Tensor))> {
        let given = hx.map(|(h, c)| [h, c]);
        let (output, states) = self.inner.forward(input, given.as_ref().map(|hx| &hx[..]))?;
        Ok((output, pair(states)?))
    }

    /// The same over packed sequences.
    ///
    /// # Errors
    /// For shapes and dtypes that do not fit.
    pub fn forward_packed(
        &self,
        input: &PackedSequence,
        hx: Option<(&Tensor, &Tensor)>,
    ) -> Result<(PackedSequence, (Tensor, Tensor))> {
        let given = hx.map(|(h, c)| [h, c]);
        let given = given.as_ref().map(|hx| &hx[..]);
        let (output, states) = self.inner.forward_packed(input, given)?;
        Ok((output, pair(states)?))
    }
}

impl Gru {
    /// One layer over inputs of (length, batch, input).
    ///
    /// # Errors
    /// `Value` for sizes that are not positive.
    pub fn new(input_size: i64, hidden_size: i64) -> Result<Self> {
        Self::with(input_size, hidden_size, RnnOptions::default())
    }

    /// With options.
    ///
    /// # Errors
    /// `Value` for sizes and numbers that are none.
    pub fn with(input_size: i64, hidden_size: i64, options: RnnOptions) -> Result<Self> {
        Ok(Self { inner: Recurrent::new("GRU", Cell::Gru, input_size, hidden_size, options)? })
    }
}

impl Rnn {
    /// One layer with a hyperbolic tangent over inputs of (length, batch, input).
    ///
    /// # Errors
    /// `Value` for sizes that are not positive.
    pub fn new(input_size: i64, hidden_size: i64) -> Result<Self> {
        Self::with(input_size, hidden_size, Nonlinearity::Tanh, RnnOptions::default())
    }

    /// With options.
    ///
    /// # Errors
    /// `Value` for sizes and numbers that are none.
    pub fn with(
        input_size: i64,
        hidden_size: i64,
        nonlinearity: Nonlinearity,
        options: RnnOptions,
    ) -> Result<Self> {
        let cell = nonlinearity.cell();
        Ok(Self { inner: Recurrent::new("RNN", cell, input_size, hidden_size, options)? })
    }
}
