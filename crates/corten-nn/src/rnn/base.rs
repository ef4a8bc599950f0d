//! Layers of cells over time, in one or two directions.

use super::packed::PackedSequence;
use super::steps::{self, Cell, Weights};
use crate::module::{Mode, Module, ModuleField, Parameter, Visitor};
use crate::{Memo, empty, init};
use corten_core::{Result, ensure, warn};
use corten_ops::{Tensor, op};

/// Options of [`Lstm`](crate::Lstm), [`Gru`](crate::Gru) and [`Rnn`](crate::Rnn).
///
/// ```
/// assert_eq!(corten::nn::RnnOptions::default().num_layers, 1);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RnnOptions {
    /// How many layers.
    pub num_layers: usize,
    /// Whether the cells have biases.
    pub bias: bool,
    /// Whether inputs are (batch, length, width) rather than (length, batch, width).
    pub batch_first: bool,
    /// Probability of dropping an output of all layers but the last in training.
    pub dropout: f64,
    /// Whether each layer also runs from the end to the beginning.
    pub bidirectional: bool,
    /// To what width the outputs of an LSTM are projected; 0 for no projection.
    pub proj_size: i64,
}

impl Default for RnnOptions {
    fn default() -> Self {
        Self {
            num_layers: 1,
            bias: true,
            batch_first: false,
            dropout: 0.0,
            bidirectional: false,
            proj_size: 0,
        }
    }
}

/// The parameters of one direction of one layer, under names with its number.
struct Parameters {
    suffix: String,
    weight_ih: Parameter,
    weight_hh: Parameter,
    bias_ih: Option<Parameter>,
    bias_hh: Option<Parameter>,
    weight_hr: Option<Parameter>,
}

impl Parameters {
    fn visit<'a>(&'a self, visitor: &mut Visitor<'a>) {
        let fields: [(&str, &dyn ModuleField); 5] = [
            ("weight_ih", &self.weight_ih),
            ("weight_hh", &self.weight_hh),
            ("bias_ih", &self.bias_ih),
            ("bias_hh", &self.bias_hh),
            ("weight_hr", &self.weight_hr),
        ];
        for (name, field) in fields {
            visitor.field(&format!("{name}{}", self.suffix), field);
        }
    }

    fn weights(&self) -> Weights<'_> {
        let matrices = [&self.weight_ih, &self.weight_hh];
        Weights::of(matrices, [&self.bias_ih, &self.bias_hh, &self.weight_hr])
    }

    fn deep_clone(&self, memo: &mut Memo) -> Result<Self> {
        Ok(Self {
            suffix: self.suffix.clone(),
            weight_ih: self.weight_ih.deep_clone_field(memo)?,
            weight_hh: self.weight_hh.deep_clone_field(memo)?,
            bias_ih: self.bias_ih.deep_clone_field(memo)?,
            bias_hh: self.bias_hh.deep_clone_field(memo)?,
            weight_hr: self.weight_hr.deep_clone_field(memo)?,
        })
    }
}

/// What LSTM, GRU and Elman networks share.
pub(crate) struct Recurrent {
    name: &'static str,
    pub(crate) cell: Cell,
    input_size: i64,
    hidden_size: i64,
    options: RnnOptions,
    parameters: Vec<Parameters>,
    training: Mode,
}

impl Recurrent {
    pub(crate) fn new(
        name: &'static str,
        cell: Cell,
        input_size: i64,
        hidden_size: i64,
        options: RnnOptions,
    ) -> Result<Self> {
        check(input_size, hidden_size, &options)?;
        ensure!(
            cell == Cell::Lstm || options.proj_size == 0,
            Value,
            "proj_size argument is only supported for LSTM, not RNN or GRU"
        );
        let (parameters, training) = (Vec::new(), Mode::default());
        let mut made = Self { name, cell, input_size, hidden_size, options, parameters, training };
        for layer in 0..options.num_layers {
            for suffix in ["", "_reverse"].into_iter().take(made.directions()) {
                let parameters = made.parameters_of(layer, suffix)?;
                made.parameters.push(parameters);
            }
        }
        made.reset_parameters()?;
        Ok(made)
    }

    fn directions(&self) -> usize {
        if self.options.bidirectional { 2 } else { 1 }
    }

    /// The width of the outputs of one direction.
    fn out_size(&self) -> i64 {
        if self.options.proj_size > 0 { self.options.proj_size } else { self.hidden_size }
    }

    fn parameters_of(&self, layer: usize, suffix: &str) -> Result<Parameters> {
        let rows = self.cell.gates() * self.hidden_size;
        let RnnOptions { bias, proj_size, .. } = self.options;
        let width =
            if layer == 0 { self.input_size } else { self.out_size() * self.directions() as i64 };
        let parameter = |shape: &[i64]| Parameter::new(empty(shape)?);
        Ok(Parameters {
            suffix: format!("_l{layer}{suffix}"),
            weight_ih: parameter(&[rows, width])?,
            weight_hh: parameter(&[rows, self.out_size()])?,
            bias_ih: bias.then(|| parameter(&[rows])).transpose()?,
            bias_hh: bias.then(|| parameter(&[rows])).transpose()?,
            weight_hr: (proj_size > 0)
                .then(|| parameter(&[proj_size, self.hidden_size]))
                .transpose()?,
        })
    }

    /// Draws all parameters from `U(-1/√hidden, 1/√hidden)`.
    pub(crate) fn reset_parameters(&self) -> Result<()> {
        let bound = 1.0 / (self.hidden_size as f64).sqrt();
        for (_, item) in Visitor::parts(self) {
            if let Some(tensor) = item.tensor() {
                init::uniform_(tensor, -bound, bound)?;
            }
        }
        Ok(())
    }

    /// The outputs of the last layer at all times, and the final states of all layers.
    pub(crate) fn forward(
        &self,
        input: &Tensor,
        hx: Option<&[&Tensor]>,
    ) -> Result<(Tensor, Vec<Tensor>)> {
        let rank = input.dim();
        ensure!(
            rank == 2 || rank == 3,
            Value,
            "{}: Expected input to be 2D or 3D, got {rank}D instead",
            self.name
        );
        let is_sample = rank == 2;
        let flips = self.options.batch_first && !is_sample;
        let x = match (is_sample, flips) {
            (true, _) => op::unsqueeze(input, 1)?,
            (_, true) => op::transpose_int(input, 0, 1)?,
            _ => input.clone(),
        };
        let states = self.states(hx, &x, x.size(1)?, is_sample)?;
        self.check_input(&x, &states, x.size(1)?)?;
        let (output, mut finals) = self.run(&x, &states, None)?;
        let output = match (is_sample, flips) {
            (true, _) => op::squeeze_dim(&output, 1)?,
            (_, true) => op::transpose_int(&output, 0, 1)?,
            _ => output,
        };
        if is_sample {
            finals = each(&finals, |state| op::squeeze_dim(state, 1))?;
        }
        Ok((output, finals))
    }

    /// The same over packed sequences; states are in the order of the batch.
    pub(crate) fn forward_packed(
        &self,
        input: &PackedSequence,
        hx: Option<&[&Tensor]>,
    ) -> Result<(PackedSequence, Vec<Tensor>)> {
        ensure!(
            input.data.dim() == 2,
            Runtime,
            "input must have 2 dimensions, got {}",
            input.data.dim()
        );
        ensure!(
            input.batch_sizes.is_sorted_by(|a, b| a >= b && *b > 0),
            Value,
            "batch_sizes of a packed sequence must be positive and must not rise, got {:?}",
            input.batch_sizes
        );
        let permuted = |states: Vec<Tensor>, order: &Option<Tensor>| match order {
            Some(order) => each(&states, |state| op::index_select(state, 1, order)),
            None => Ok(states),
        };
        let batch = input.batch_size();
        let mut states = self.states(hx, &input.data, batch, false)?;
        if hx.is_some() {
            states = permuted(states, &input.sorted_indices)?;
        }
        self.check_input(&input.data, &states, batch)?;
        let (output, finals) = self.run(&input.data, &states, Some(&input.batch_sizes))?;
        Ok((input.with_data(output), permuted(finals, &input.unsorted_indices)?))
    }

    /// The widths of the states: of the outputs, and of the cells of an LSTM.
    fn state_widths(&self) -> Vec<i64> {
        let mut widths = vec![self.out_size()];
        if self.cell == Cell::Lstm {
            widths.push(self.hidden_size);
        }
        widths
    }

    /// The states at the beginning: zeros if there are none.
    fn states(
        &self,
        hx: Option<&[&Tensor]>,
        x: &Tensor,
        batch: i64,
        is_sample: bool,
    ) -> Result<Vec<Tensor>> {
        let Some(states) = hx else {
            let count = self.parameters.len() as i64;
            let zeros =
                |width: &i64| op::new_zeros(x, &[count, batch, *width], None, None, None, None);
            return self.state_widths().iter().map(zeros).collect();
        };
        let rank = if is_sample { 2 } else { 3 };
        for state in states {
            ensure!(
                state.dim() == rank,
                Runtime,
                "For {} input, hx {}should also be {rank}-D but got {}-D tensor",
                if is_sample { "unbatched 2-D" } else { "batched 3-D" },
                if states.len() == 2 { "and cx " } else { "" },
                states.iter().map(|s| s.dim().to_string()).collect::<Vec<_>>().join("-D, ")
            );
        }
        let state = |state: &&Tensor| {
            if is_sample { op::unsqueeze(state, 1) } else { Ok((*state).clone()) }
        };
        states.iter().map(state).collect()
    }

    fn check_input(&self, x: &Tensor, states: &[Tensor], batch: i64) -> Result<()> {
        let (expected, width) = (self.input_size, x.size(-1)?);
        ensure!(
            width == expected,
            Runtime,
            "input.size(-1) must be equal to input_size. Expected {expected}, got {width}"
        );
        let (given, dtype) = (x.dtype().name(), self.parameters[0].weight_ih.dtype().name());
        ensure!(
            given == dtype,
            Value,
            "RNN input dtype (torch.{given}) does not match weight dtype (torch.{dtype}). Convert input: input.to(torch.{dtype}), or convert model: model.to(torch.{given})"
        );
        let count = self.parameters.len() as i64;
        for (i, (state, width)) in states.iter().zip(self.state_widths()).enumerate() {
            let name =
                if states.len() == 2 { format!("hidden[{i}] ") } else { "hidden ".to_owned() };
            ensure!(
                state.sizes()[..] == [count, batch, width],
                Runtime,
                "Expected {name}size ({count}, {batch}, {width}), got {:?}",
                state.sizes().as_slice()
            );
        }
        Ok(())
    }

    fn run(
        &self,
        input: &Tensor,
        states: &[Tensor],
        batch_sizes: Option<&[i64]>,
    ) -> Result<(Tensor, Vec<Tensor>)> {
        let RnnOptions { num_layers, dropout, .. } = self.options;
        // Bounded: one or two states.
        let mut finals: Vec<Vec<Tensor>> = vec![Vec::new(); states.len()];
        let mut output = input.clone();
        for (layer, pair) in self.parameters.chunks(self.directions()).enumerate() {
            let mut sides = Vec::with_capacity(2);
            for (direction, parameters) in pair.iter().enumerate() {
                let cell = (layer * self.directions() + direction) as i64;
                let state = each(states, |state| op::select_int(state, 0, cell))?;
                let (weights, is_backward) = (parameters.weights(), direction == 1);
                let (side, last) =
                    steps::run(self.cell, &output, state, &weights, is_backward, batch_sizes)?;
                sides.push(side);
                finals.iter_mut().zip(last).for_each(|(all, one)| all.push(one));
            }
            output = if sides.len() == 1 { sides.remove(0) } else { op::cat(&sides, -1)? };
            if dropout > 0.0 && self.training.training() && layer + 1 < num_layers {
                output = op::dropout(&output, dropout, true)?;
            }
        }
        Ok((output, finals.iter().map(|all| op::stack(all, 0)).collect::<Result<_>>()?))
    }
}

fn each(tensors: &[Tensor], change: impl FnMut(&Tensor) -> Result<Tensor>) -> Result<Vec<Tensor>> {
    tensors.iter().map(change).collect()
}

fn check(input_size: i64, hidden_size: i64, options: &RnnOptions) -> Result<()> {
    let RnnOptions { num_layers, dropout, proj_size, .. } = *options;
    ensure!(
        (0.0..=1.0).contains(&dropout),
        Value,
        "dropout should be a number in range [0, 1] representing the probability of an element being zeroed"
    );
    if dropout > 0.0 && num_layers == 1 {
        warn(format!(
            "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects num_layers greater than 1, but got dropout={dropout} and num_layers={num_layers}"
        ));
    }
    ensure!(input_size > 0, Value, "input_size must be greater than zero");
    ensure!(hidden_size > 0, Value, "hidden_size must be greater than zero");
    ensure!(num_layers > 0, Value, "num_layers must be greater than zero");
    ensure!(
        proj_size >= 0,
        Value,
        "proj_size should be a positive integer or zero to disable projections"
    );
    ensure!(proj_size < hidden_size, Value, "proj_size has to be smaller than hidden_size");
    Ok(())
}

impl Module for Recurrent {
    fn visit<'a>(&'a self, visitor: &mut Visitor<'a>) {
        self.parameters.iter().for_each(|parameters| parameters.visit(visitor));
        visitor.field("training", &self.training);
    }

    fn name(&self) -> &'static str {
        self.name
    }

    fn extra_repr(&self) -> String {
        let RnnOptions { num_layers, bias, batch_first, dropout, bidirectional, proj_size } =
            self.options;
        let mut text = format!("{}, {}", self.input_size, self.hidden_size);
        let mut add = |is_shown: bool, part: String| {
            if is_shown {
                text.push_str(&part);
            }
        };
        add(proj_size != 0, format!(", proj_size={proj_size}"));
        add(num_layers != 1, format!(", num_layers={num_layers}"));
        add(!bias, ", bias=False".to_owned());
        add(batch_first, ", batch_first=True".to_owned());
        add(dropout != 0.0, format!(", dropout={dropout:?}"));
        add(bidirectional, ", bidirectional=True".to_owned());
        text
    }

    fn deep_clone_with(&self, memo: &mut Memo) -> Result<Self> {
        Ok(Self {
            name: self.name,
            cell: self.cell,
            input_size: self.input_size,
            hidden_size: self.hidden_size,
            options: self.options,
            parameters: self
                .parameters
                .iter()
                .map(|p| p.deep_clone(memo))
                .collect::<Result<_>>()?,
            training: self.training.clone(),
        })
    }
}
