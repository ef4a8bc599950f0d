//! Whole steps of optimizers, in which each number is read and written once.

use crate::chunks::{for_each_chunk, grain_of};
use crate::expr::Expr;
use crate::row_loops::{Job, load, store};
use crate::rows::{Wide, match_wide};
use crate::vec::Lanes;
use corten_core::{Access, AccessSet, DType, MemoryFormat, Result, ensure};
use corten_ops::{Tensor, op};

/// Elements that one thread updates at a time.
const CHUNK: usize = 1 << 14;

/// How parameters shrink.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Decay {
    /// By what is added to their gradients.
    Gradient,
    /// By themselves.
    Decoupled,
}

/// The settings that all parameters share.
#[derive(Clone, Copy)]
struct Settings {
    decay: Decay,
    lr: f64,
    beta1: f64,
    beta2: f64,
    weight_decay: f64,
    eps: f64,
    amsgrad: bool,
    maximize: bool,
}

/// What is updated: per parameter the number itself, its gradient and its state.
#[derive(Clone, Copy)]
struct Lists<'a> {
    params: &'a [Tensor],
    grads: &'a [Tensor],
    means: &'a [Tensor],
    squares: &'a [Tensor],
    largest: &'a [Tensor],
    steps: &'a [Tensor],
}

/// Defines a step for lists of parameters with the way in which they shrink.
macro_rules! steps {
    ($($(#[$doc:meta])* $name:ident $decay:ident;)+) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        /// `Runtime` where the lists do not belong together; `NotImplemented` for dtypes that are
        /// not floating-point.
        pub fn $name(
            self_: &[Tensor],
            grads: &[Tensor],
            exp_avgs: &[Tensor],
            exp_avg_sqs: &[Tensor],
            max_exp_avg_sqs: &[Tensor],
            state_steps: &[Tensor],
            lr: f64,
            beta1: f64,
            beta2: f64,
            weight_decay: f64,
            eps: f64,
            amsgrad: bool,
            maximize: bool,
            grad_scale: Option<&Tensor>,
            found_inf: Option<&Tensor>,
        ) -> Result<()> {
            let decay = Decay::$decay;
            let settings = Settings { decay, lr, beta1, beta2, weight_decay, eps, amsgrad, maximize };
            let lists = Lists {
                params: self_,
                grads,
                means: exp_avgs,
                squares: exp_avg_sqs,
                largest: max_exp_avg_sqs,
                steps: state_steps,
            };
            step(settings, lists, grad_scale, found_inf)
        }
    )+};
}

steps! {
    /// A step of Adam.
    fused_adam_ Gradient;
    /// A step of Adam with decoupled weight decay.
    fused_adamw_ Decoupled;
}

fn step(
    settings: Settings,
    lists: Lists<'_>,
    grad_scale: Option<&Tensor>,
    found_inf: Option<&Tensor>,
) -> Result<()> {
    if found_inf.map(op::item).transpose()?.is_some_and(|found| found.to_f64() == 1.0) {
        return Ok(());
    }
    let scale = grad_scale.map(op::item).transpose()?.map(|scale| scale.to_f64());
    let Lists { params, grads, means, squares, largest, steps } = lists;
    let count = params.len();
    let as_many = [grads, means, squares, steps].iter().all(|list| list.len() == count);
    ensure!(
        as_many && (!settings.amsgrad || largest.len() == count),
        Runtime,
        "a fused step needs as many gradients and states as parameters"
    );
    for i in 0..count {
        let mut tensors = vec![&params[i], &grads[i], &means[i], &squares[i]];
        tensors.extend(largest.get(i).filter(|_| settings.amsgrad));
        for tensor in &tensors {
            ensure!(
                tensor.sizes() == params[i].sizes() && tensor.dtype() == params[i].dtype(),
                Runtime,
                "a parameter, its gradient and its state need the same shape and dtype"
            );
        }
        let step = Step::new(settings, op::item(&steps[i])?.to_f64(), scale);
        update(&tensors, step)?;
    }
    Ok(())
}

/// Updates one parameter: where its tensors are, or in copies that are written back.
fn update(tensors: &[&Tensor], step: Step) -> Result<()> {
    let dtype = tensors[0].dtype();
    let wide = if dtype.is_reduced_float() { DType::Float32 } else { dtype };
    let apart = |i: usize| tensors[..i].iter().all(|t| t.storage_key() != tensors[i].storage_key());
    let direct =
        wide == dtype && (0..tensors.len()).all(|i| tensors[i].is_contiguous() && apart(i));
    if direct {
        return match_wide!(dtype, "fused_adam", T => run::<T>(tensors, step));
    }
    let copies: Vec<Tensor> = tensors
        .iter()
        .map(|t| {
            op::clone(&op::to_dtype(t, wide, false, false, None)?, Some(MemoryFormat::Contiguous))
        })
        .collect::<Result<_>>()?;
    let references: Vec<&Tensor> = copies.iter().collect();
    match_wide!(wide, "fused_adam", T => run::<T>(&references, step))?;
    for (i, (tensor, copy)) in tensors.iter().zip(&copies).enumerate() {
        if i != GRAD || step.scale.is_some() {
            op::copy_(tensor, copy, false)?;
        }
    }
    Ok(())
}

/// The place of the gradient among the tensors of a parameter.
const GRAD: usize = 1;

/// Parts of a parameter, its gradient, the means of the gradient and of its square, and the largest
/// of the latter, which may be empty.
struct Part<'a, T>([&'a mut [T]; 5]);

/// Updates contiguous tensors in storages of their own.
fn run<T: Wide>(tensors: &[&Tensor], step: Step) -> Result<()> {
    let wanted: Vec<_> = tensors.iter().map(|tensor| (tensor.base(), Access::Write)).collect();
    let set = AccessSet::acquire(&wanted)?;
    let mut slices: [&mut [T]; 5] = std::array::from_fn(|_| &mut [] as &mut [T]);
    for (i, slice) in slices.iter_mut().enumerate().take(tensors.len()) {
        *slice = set.write::<T>(i)?;
    }
    let mut parts = Vec::new();
    while !slices[0].is_empty() {
        let length = slices[0].len().min(CHUNK);
        parts.push(Part(slices.each_mut().map(|slice| {
            let length = length.min(slice.len());
            let (now, later) = std::mem::take(slice).split_at_mut(length);
            *slice = later;
            now
        })));
    }
    for_each_chunk(&mut parts, 1, grain_of(CHUNK), |_, parts| {
        for Part(rows) in parts {
            T::run(Update { step, rows: rows.each_mut().map(|row| &mut **row) });
        }
        Ok(())
    })
}

/// The numbers of a step.
#[derive(Clone, Copy)]
struct Step {
    settings: Settings,
    /// What the gradients are divided by.
    scale: Option<f64>,
    /// The corrections of the running means for their start at zero.
    rate: f64,
    root: f64,
}

impl Step {
    fn new(settings: Settings, step: f64, scale: Option<f64>) -> Self {
        let rate = settings.lr / (1.0 - settings.beta1.powf(step));
        let root = (1.0 - settings.beta2.powf(step)).sqrt();
        Self { settings, scale, rate, root }
    }
}

/// The rows of a step.
struct Update<'a, T> {
    step: Step,
    rows: [&'a mut [T]; 5],
}

impl<T: Wide> Job<T> for Update<'_, T> {
    type Out = ();

    #[inline(always)]
    fn run<V: Lanes<Elem = T>>(self) {
        let Self { step, rows: [params, grads, means, squares, largest] } = self;
        let count = params.len();
        let mut i = 0;
        while i < count {
            let n = V::LANES.min(count - i);
            let mut grad: V = load(grads, i, n);
            if let Some(scale) = step.scale {
                grad = grad / V::lit(scale);
                store(grad, grads, i, n);
            }
            let (param, grad) = step.decayed(load(params, i, n), grad);
            let mean: V = step.mean(load(means, i, n), grad);
            let square: V = step.square(load(squares, i, n), grad);
            store(mean, means, i, n);
            store(square, squares, i, n);
            let mut bound = square;
            if step.settings.amsgrad {
                bound = Expr::max(load::<V>(largest, i, n), square);
                store(bound, largest, i, n);
            }
            let divisor = bound.sqrt() / V::lit(step.root) + V::lit(step.settings.eps);
            store(param + V::lit(-step.rate) * mean / divisor, params, i, n);
            i += n;
        }
    }
}

/// PyTorch's roundings.
impl Step {
    /// The parameter and its gradient after the decay.
    #[inline(always)]
    fn decayed<V: Lanes>(&self, param: V, grad: V) -> (V, V) {
        let Settings { decay, lr, weight_decay, maximize, .. } = self.settings;
        let grad = if maximize { -grad } else { grad };
        match decay {
            _ if weight_decay == 0.0 => (param, grad),
            Decay::Gradient => (param, param.mul_add(V::lit(weight_decay), grad)),
            Decay::Decoupled => (param * V::lit(1.0 - lr * weight_decay), grad),
        }
    }

    /// `lerp` of the mean to the gradient.
    #[inline(always)]
    fn mean<V: Lanes>(&self, mean: V, grad: V) -> V {
        let weight = 1.0 - self.settings.beta1;
        match weight.abs() < 0.5 {
            true => V::lit(weight).mul_add(grad - mean, mean),
            false => (V::lit(weight) - V::lit(1.0)).mul_add(grad - mean, grad),
        }
    }

    #[inline(always)]
    fn square<V: Lanes>(&self, square: V, grad: V) -> V {
        let beta2 = self.settings.beta2;
        (V::lit(1.0 - beta2) * grad).mul_add(grad, square * V::lit(beta2))
    }
}
