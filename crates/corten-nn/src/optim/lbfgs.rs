//! L-BFGS (Nocedal and Wright, Numerical Optimization, chapters 3 and 7).

use super::by_parameter::{ParameterState, empty_states, real};
use super::group::{ParamGroup, Settings, check_groups, settings};
use super::setting::Setting;
use super::{Optimizer, OptimizerState};
use corten_autograd::{Autograd, enable_grad, no_grad};
use corten_core::{Result, bail, ensure};
use corten_io::Value;
use corten_ops::{Tensor, op};

settings! {
    /// Settings of [`Lbfgs`].
    LbfgsOptions {
        /// Learning rate: the step along each direction, or where the line search begins.
        lr: f64 = 1.0,
        /// The most iterations of a step.
        max_iter: usize = 20,
        /// The most evaluations of a step; by default 5/4 of the iterations.
        max_eval: Option<usize> = None,
        /// A gradient with no larger element ends a step.
        tolerance_grad: f64 = 1e-7,
        /// A change of parameters or loss below it ends a step.
        tolerance_change: f64 = 1e-9,
        /// Number of changes of the gradient that are remembered.
        history_size: usize = 100,
        /// How the length of steps is found; by default it is the learning rate.
        line_search_fn: Option<LineSearch> = None,
        /// Whether parameters are moved along their gradients instead of against them.
        maximize: bool = false,
    }
    momentum: none;
    maximize: maximize;
    files: {}
}

/// How [`Lbfgs`] finds the length of a step.
///
/// ```
/// use corten::nn::optim::{LbfgsOptions, LineSearch};
///
/// let options = LbfgsOptions { line_search_fn: Some(LineSearch::StrongWolfe), ..Default::default() };
/// assert_eq!(options.history_size, 100);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineSearch {
    /// One that satisfies the strong Wolfe conditions.
    StrongWolfe,
}

impl Setting for LineSearch {
    fn to_value(&self) -> Value {
        Value::Text("strong_wolfe".to_owned())
    }

    fn from_value(value: &Value) -> Option<Self> {
        matches!(value, Value::Text(name) if name == "strong_wolfe").then_some(Self::StrongWolfe)
    }
}

/// Quasi-Newton steps from the last changes of the gradient. One group of parameters; a step needs a closure that
/// computes the loss and its gradients ([`Optimizer::step_with`]).
///
/// ```
/// use corten::nn::optim::{Lbfgs, LbfgsOptions, Optimizer};
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// let x = tensor![3.0, -2.0]?.requires_grad_(true)?;
/// let mut optimizer = Lbfgs::new([x.clone()], LbfgsOptions { lr: 0.5, ..Default::default() })?;
/// let target = tensor![1.0, 1.0]?;
/// optimizer.step_with(&mut || {
///     if let Some(grad) = x.grad() {
///         op::zero_(&grad)?;
///     }
///     let loss = loss::mse_loss(&x, &target, Reduction::Mean)?;
///     loss.backward()?;
///     Ok(loss)
/// })?;
/// assert!((x.to_vec::<f32>()?[0] - 1.0).abs() < 1e-3);
/// # Ok(())
/// # }
/// ```
pub struct Lbfgs {
    group: ParamGroup<LbfgsOptions>,
    history: History,
}

/// What is remembered between steps.
#[derive(Clone, Default)]
struct History {
    evaluations: usize,
    iterations: usize,
    direction: Option<Tensor>,
    length: f64,
    changes: Vec<Change>,
    scale: f64,
    grad: Option<Tensor>,
    loss: f64,
}

/// A change of the gradient, the change of the parameters that it came from, and one over their product.
#[derive(Clone)]
struct Change {
    grad: Tensor,
    params: Tensor,
    inverse: f64,
}

fn evaluations(max_iter: usize) -> usize {
    max_iter.saturating_mul(5) / 4
}

fn number(tensor: &Tensor) -> Result<f64> {
    Ok(op::item(tensor)?.to_f64())
}

fn dot(a: &Tensor, b: &Tensor) -> Result<f64> {
    number(&op::dot(a, b)?)
}

fn largest(tensor: &Tensor) -> Result<f64> {
    number(&op::max(&op::abs(tensor)?)?)
}

impl Lbfgs {
    /// An optimizer of the parameters.
    ///
    /// # Errors
    /// `Value` for a negative rate, no parameters, or parameters that are no leaves.
    pub fn new(
        params: impl IntoIterator<Item = Tensor>,
        mut options: LbfgsOptions,
    ) -> Result<Self> {
        options.max_eval.get_or_insert(evaluations(options.max_iter));
        ensure!(options.lr >= 0.0, Value, "Invalid learning rate: {}", options.lr);
        let group = ParamGroup::new(params, options);
        check_groups(std::slice::from_ref(&group))?;
        Ok(Self { group, history: History::default() })
    }

    fn flat_grad(&self) -> Result<Tensor> {
        let pieces = self.group.params.iter().map(|parameter| {
            let grad = match parameter.grad() {
                Some(grad) => grad,
                None => op::zeros_like(parameter, None, None, None, None, None)?,
            };
            op::reshape(&real(&grad)?, &[-1])
        });
        let flat = op::cat(&pieces.collect::<Result<Vec<_>>>()?, 0)?;
        if self.group.options.maximize { op::neg(&flat) } else { Ok(flat) }
    }

    fn advance(&self, length: f64, direction: &Tensor) -> Result<()> {
        let mut offset = 0;
        for parameter in &self.group.params {
            let own = real(parameter)?;
            let count = own.numel();
            let piece = op::narrow(direction, 0, offset, count)?;
            op::add__tensor(&own, &op::view(&piece, &own.sizes())?, length.into())?;
            offset += count;
        }
        Ok(())
    }

    fn evaluate(&self, closure: Closure<'_>) -> Result<(f64, Tensor)> {
        let loss = number(&enable_grad(&mut *closure)?)?;
        let loss = if self.group.options.maximize { -loss } else { loss };
        Ok((loss, self.flat_grad()?))
    }

    /// Loss and gradient at a distance, leaving the parameters where they were.
    fn probe(
        &self,
        closure: Closure<'_>,
        start: &[Tensor],
        length: f64,
        direction: &Tensor,
    ) -> Result<(f64, Tensor)> {
        self.advance(length, direction)?;
        let found = self.evaluate(closure);
        for (parameter, value) in self.group.params.iter().zip(start) {
            op::copy_(parameter, value, false)?;
        }
        found
    }

    fn iterate(&mut self, closure: Closure<'_>, mut loss: f64, mut grad: Tensor) -> Result<()> {
        let options = self.group.options.clone();
        let most = options.max_eval.unwrap_or_else(|| evaluations(options.max_iter));
        let (mut evaluations, mut iterations) = (1, 0);
        while iterations < options.max_iter {
            iterations += 1;
            self.history.iterations += 1;
            let direction = self.update_direction(&grad)?;
            let before = loss;
            (self.history.grad, self.history.loss) = (Some(op::clone(&grad, None)?), loss);
            let is_first = self.history.iterations == 1;
            let first = (1.0 / number(&op::sum(&op::abs(&grad)?, None)?)?).min(1.0);
            self.history.length = if is_first { first * options.lr } else { options.lr };
            let slope = dot(&grad, &direction)?;
            if slope > -options.tolerance_change {
                break;
            }
            let used = if options.line_search_fn == Some(LineSearch::StrongWolfe) {
                let left = most.saturating_sub(evaluations);
                let start = Point { t: 0.0, loss, grad: op::clone(&grad, None)?, slope };
                let (point, used) = self.line_search(closure, &direction, start, left)?;
                self.advance(point.t, &direction)?;
                (loss, grad, self.history.length) = (point.loss, point.grad, point.t);
                used
            } else {
                self.advance(self.history.length, &direction)?;
                // The last evaluation is left to the next step.
                if iterations == options.max_iter {
                    0
                } else {
                    (loss, grad) = self.evaluate(closure)?;
                    1
                }
            };
            evaluations += used;
            self.history.evaluations += used;
            let flat = used > 0 && largest(&grad)? <= options.tolerance_grad;
            if iterations == options.max_iter || evaluations >= most || flat {
                break;
            }
            let moved = largest(&direction)? * self.history.length.abs();
            if moved <= options.tolerance_change || (loss - before).abs() < options.tolerance_change
            {
                break;
            }
        }
        Ok(())
    }

    /// The two-loop recursion: the direction from a gradient and the changes.
    fn update_direction(&mut self, grad: &Tensor) -> Result<Tensor> {
        let history = &mut self.history;
        let (Some(previous), Some(direction)) = (&history.grad, &history.direction) else {
            history.scale = 1.0;
            history.changes.clear();
            let direction = op::neg(grad)?;
            history.direction = Some(direction.clone());
            return Ok(direction);
        };
        let y = op::sub_tensor(grad, previous, 1.into())?;
        let s = op::mul_scalar(direction, history.length.into())?;
        let product = dot(&y, &s)?;
        if product > 1e-10 {
            if history.changes.len() >= self.group.options.history_size {
                history.changes.drain(..1.min(history.changes.len()));
            }
            history.scale = product / dot(&y, &y)?;
            history.changes.push(Change { grad: y, params: s, inverse: 1.0 / product });
        }
        let q = op::neg(grad)?;
        let mut weights = Vec::new();
        for change in history.changes.iter().rev() {
            let weight = dot(&change.params, &q)? * change.inverse;
            op::add__tensor(&q, &change.grad, (-weight).into())?;
            weights.push(weight);
        }
        let direction = op::mul__scalar(&q, history.scale.into())?;
        for (change, weight) in history.changes.iter().zip(weights.into_iter().rev()) {
            let correction = weight - dot(&change.grad, &direction)? * change.inverse;
            op::add__tensor(&direction, &change.params, correction.into())?;
        }
        history.direction = Some(direction.clone());
        Ok(direction)
    }

    /// A point along a direction that satisfies the strong Wolfe conditions, and the number of evaluations.
    fn line_search(
        &self,
        closure: Closure<'_>,
        direction: &Tensor,
        start: Point,
        most: usize,
    ) -> Result<(Point, usize)> {
        let clones = self.group.params.iter().map(|parameter| op::clone(parameter, None));
        let held = clones.collect::<Result<Vec<_>>>()?;
        let mut at = |t: f64| {
            let (loss, grad) = self.probe(&mut *closure, &held, t, direction)?;
            let slope = dot(&grad, direction)?;
            Ok(Point { t, loss, grad, slope })
        };
        let tolerance = self.group.options.tolerance_change / largest(direction)?;
        let (bracket, done, used) = bracket(&mut at, &start, self.history.length, most)?;
        if done {
            let [_, best] = bracket;
            return Ok((best, used));
        }
        // A bracket is found with one evaluation more than rounds.
        zoom(&mut at, bracket, &start, tolerance, used, (most + 1).max(used))
    }
}

type Closure<'a> = &'a mut dyn FnMut() -> Result<Tensor>;

/// A step length with the loss, gradient and slope there.
#[derive(Clone)]
struct Point {
    t: f64,
    loss: f64,
    grad: Tensor,
    slope: f64,
}

impl Point {
    /// Whether the loss is too high for the decrease that the first condition asks for.
    fn is_high(&self, start: &Self) -> bool {
        self.loss > start.loss + 1e-4 * self.t * start.slope
    }

    /// Whether the slope satisfies the second condition.
    fn is_flat(&self, start: &Self) -> bool {
        self.slope.abs() <= -0.9 * start.slope
    }
}

/// Where the cubic through two points with their slopes is least, within bounds.
fn cubic_minimum(a: &Point, b: &Point, bounds: Option<(f64, f64)>) -> f64 {
    let (low, high) = bounds.unwrap_or((a.t.min(b.t), a.t.max(b.t)));
    let d1 = a.slope + b.slope - 3.0 * (a.loss - b.loss) / (a.t - b.t);
    let square = d1 * d1 - a.slope * b.slope;
    if square.is_nan() || square < 0.0 {
        return f64::midpoint(low, high);
    }
    let d2 = square.sqrt();
    let position = if a.t <= b.t {
        b.t - (b.t - a.t) * ((b.slope + d2 - d1) / (b.slope - a.slope + 2.0 * d2))
    } else {
        a.t - (a.t - b.t) * ((a.slope + d2 - d1) / (a.slope - b.slope + 2.0 * d2))
    };
    position.max(low).min(high)
}

/// Two points between which one satisfies the conditions, or the second of which does; and the number of
/// evaluations.
fn bracket(
    at: &mut dyn FnMut(f64) -> Result<Point>,
    start: &Point,
    length: f64,
    most: usize,
) -> Result<([Point; 2], bool, usize)> {
    let (mut previous, mut current, mut used) = (start.clone(), at(length)?, 1);
    for i in 0..most {
        if current.is_high(start) || (i > 1 && current.loss >= previous.loss) {
            return Ok(([previous, current], false, used));
        }
        if current.is_flat(start) {
            return Ok(([previous, current], true, used));
        }
        if current.slope >= 0.0 {
            return Ok(([previous, current], false, used));
        }
        let low = current.t + 0.01 * (current.t - previous.t);
        let t = cubic_minimum(&previous, &current, Some((low, current.t * 10.0)));
        previous = std::mem::replace(&mut current, at(t)?);
        used += 1;
    }
    Ok(([start.clone(), current], false, used))
}

/// Narrows a bracket until a point of it satisfies the conditions.
fn zoom(
    at: &mut dyn FnMut(f64) -> Result<Point>,
    mut bracket: [Point; 2],
    start: &Point,
    tolerance: f64,
    mut used: usize,
    most: usize,
) -> Result<(Point, usize)> {
    // The lower end is the first one where both are equally low.
    let lower_of = |bracket: &[Point; 2]| usize::from(bracket[0].loss > bracket[1].loss);
    let (mut lower, mut stalled) = (lower_of(&bracket), false);
    while used < most {
        let (low_t, high_t) = (bracket[lower].t, bracket[1 - lower].t);
        if (high_t - low_t).abs() < tolerance {
            break;
        }
        let (left, right) = (low_t.min(high_t), low_t.max(high_t));
        let margin = 0.1 * (right - left);
        let mut t = cubic_minimum(&bracket[0], &bracket[1], None);
        let mut near_end = (right - t).min(t - left) < margin;
        if near_end && (stalled || t >= right || t <= left) {
            // Near an end twice in a row, or at it: move in by a tenth.
            t = if (t - right).abs() < (t - left).abs() { right - margin } else { left + margin };
            near_end = false;
        }
        stalled = near_end;
        let point = at(t)?;
        used += 1;
        if point.is_high(start) || point.loss >= bracket[lower].loss {
            bracket[1 - lower] = point;
            lower = lower_of(&bracket);
            continue;
        }
        if point.is_flat(start) {
            return Ok((point, used));
        }
        if point.slope * (high_t - low_t) >= 0.0 {
            bracket[1 - lower] = bracket[lower].clone();
        }
        bracket[lower] = point;
    }
    let [first, second] = bracket;
    Ok((if lower == 0 { first } else { second }, used))
}

impl Optimizer for Lbfgs {
    /// # Errors
    /// Always: a step needs the loss again and again.
    fn step(&mut self) -> Result<()> {
        bail!(Runtime, "LBFGS needs a closure that computes the loss: call step_with")
    }

    /// Up to `max_iter` iterations; returns the loss of the first evaluation.
    fn step_with(&mut self, closure: &mut dyn FnMut() -> Result<Tensor>) -> Result<Tensor> {
        no_grad(|| {
            let first = enable_grad(&mut *closure)?;
            let loss = number(&first)?;
            let loss = if self.group.options.maximize { -loss } else { loss };
            self.history.evaluations += 1;
            let grad = self.flat_grad()?;
            if largest(&grad)? > self.group.options.tolerance_grad {
                self.iterate(closure, loss, grad)?;
            }
            Ok(first)
        })
    }

    fn parameters(&self) -> Vec<Tensor> {
        self.group.params.clone()
    }

    fn group_count(&self) -> usize {
        1
    }

    fn group_lr(&self, _: usize) -> f64 {
        self.group.options.lr
    }

    fn set_group_lr(&mut self, _: usize, lr: f64) {
        self.group.options.lr = lr;
    }

    fn group_momentum(&self, _: usize) -> Option<f64> {
        self.group.options.momentum()
    }

    fn set_group_momentum(&mut self, _: usize, _: f64) {}

    fn extra(&mut self, _: usize) -> &mut Vec<(String, Value)> {
        &mut self.group.extra
    }

    fn state_dict(&self) -> OptimizerState {
        let mut states = empty_states(&self.group.params);
        states[0] = self.history.to_state();
        OptimizerState::collect(std::iter::once((&self.group, &states)))
    }

    fn load_state_dict(&mut self, state: &OptimizerState) -> Result<()> {
        let mut groups = [self.group.clone()];
        let states = state.distribute(&mut groups)?;
        let first = states.into_iter().flatten().next().unwrap_or_default();
        let history = History::from_state(&first)?;
        let [group] = groups;
        (self.group, self.history) = (group, history);
        Ok(())
    }
}

impl History {
    /// The entries that PyTorch keeps in the state of the first parameter.
    fn to_state(&self) -> ParameterState {
        let mut state = ParameterState::default();
        let int = |count: usize| Value::Int(i64::try_from(count).unwrap_or(i64::MAX));
        state.set("func_evals", int(self.evaluations));
        state.set("n_iter", int(self.iterations));
        let (Some(direction), Some(grad)) = (&self.direction, &self.grad) else { return state };
        let tensors = |of: fn(&Change) -> &Tensor| {
            Value::List(
                self.changes.iter().map(|change| Value::Tensor(of(change).clone())).collect(),
            )
        };
        state.set("d", Value::Tensor(direction.clone()));
        state.set("t", Value::Float(self.length));
        state.set("old_dirs", tensors(|change| &change.grad));
        state.set("old_stps", tensors(|change| &change.params));
        let inverses = self.changes.iter().map(|change| Value::Float(change.inverse)).collect();
        state.set("ro", Value::List(inverses));
        state.set("H_diag", Value::Float(self.scale));
        state.set("prev_flat_grad", Value::Tensor(grad.clone()));
        state.set("prev_loss", Value::Float(self.loss));
        state
    }

    fn from_state(state: &ParameterState) -> Result<Self> {
        let count = |name| state.get(name).and_then(Value::number).unwrap_or(0.0) as usize;
        let value = |name| state.get(name).and_then(Value::number).unwrap_or(0.0);
        let list = |name| state.get(name).and_then(Value::elements).unwrap_or_default();
        let (grads, params, inverses) = (list("old_dirs"), list("old_stps"), list("ro"));
        ensure!(
            grads.len() == params.len() && params.len() == inverses.len(),
            Value,
            "the state of LBFGS has lists of different lengths"
        );
        let mut changes = Vec::new();
        for ((grad, params), inverse) in grads.iter().zip(params).zip(inverses) {
            let (Some(grad), Some(params), Some(inverse)) =
                (grad.tensor(), params.tensor(), inverse.number())
            else {
                bail!(Value, "the state of LBFGS must hold tensors and numbers");
            };
            changes.push(Change { grad: grad.clone(), params: params.clone(), inverse });
        }
        let tensor = |name| state.get(name).and_then(Value::tensor).cloned();
        Ok(Self {
            evaluations: count("func_evals"),
            iterations: count("n_iter"),
            direction: tensor("d"),
            length: value("t"),
            changes,
            scale: value("H_diag"),
            grad: tensor("prev_flat_grad"),
            loss: value("prev_loss"),
        })
    }
}
