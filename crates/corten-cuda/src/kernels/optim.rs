//! Whole steps of optimizers, many tensors in a launch.

use crate::kernel::{Argument, Template, parameters};
use crate::launch::Shape;
use crate::operands::Operands;
use crate::stream::Stream;
use crate::text;
use corten_core::{Access, DType, MemoryFormat, Result, ensure, not_implemented_for};
use corten_ops::{Tensor, op};

static STEP: Template = Template { name: "optimizer_step", text: &[text::OPTIM] };

/// The most tensors of a launch; as in `optim.cuh`.
const MOST: usize = 32;

/// `Lists` of `optim.cuh`.
#[repr(C)]
struct Lists {
    numel: [u64; MOST],
    at: [[*mut u8; MOST]; 5],
    steps: [*mut u8; MOST],
}

/// `Settings` of `optim.cuh`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Settings {
    lr: f64,
    beta1: f64,
    beta2: f64,
    weight_decay: f64,
    eps: f64,
    dampening: f64,
    decoupled: u32,
    maximize: u32,
    nesterov: u32,
    is_first: u32,
}

/// A step of an optimizer; `kind` is its number in `optim.cuh`.
struct Step<'a> {
    name: &'static str,
    kind: u32,
    settings: Settings,
    /// Parameters, gradients and states.
    lists: Vec<&'a [Tensor]>,
    counts: &'a [Tensor],
    scaling: [Option<&'a Tensor>; 2],
}

/// Tensors of one parameter as the kernel takes them: contiguous, or of one dense layout.
struct Row {
    tensors: Vec<Tensor>,
    step: Option<Tensor>,
    /// Whether they are copies.
    copied: bool,
}

const GRAD: usize = 1;

impl Step<'_> {
    fn run(&self) -> Result<()> {
        let params = self.lists[0];
        ensure!(
            self.lists.iter().all(|list| list.len() == params.len()),
            Runtime,
            "a fused step needs as many gradients and states as parameters"
        );
        ensure!(
            self.counts.is_empty() || self.counts.len() == params.len(),
            Runtime,
            "a fused step needs as many counts of steps as parameters"
        );
        for list in &self.lists {
            for (param, tensor) in params.iter().zip(*list) {
                ensure!(
                    tensor.sizes() == param.sizes() && tensor.dtype() == param.dtype(),
                    Runtime,
                    "a parameter, its gradient and its state need the same shape and dtype"
                );
            }
        }
        // A launch is for tensors of one device and dtype.
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for (i, param) in params.iter().enumerate().filter(|(_, param)| param.numel() > 0) {
            let fits = |group: &&mut Vec<usize>| {
                let first = &params[group[0]];
                group.len() < MOST
                    && first.dtype() == param.dtype()
                    && first.device() == param.device()
            };
            match groups.iter_mut().find(fits) {
                Some(group) => group.push(i),
                None => groups.push(vec![i]),
            }
        }
        groups.iter().try_for_each(|group| self.launch(group))
    }

    fn row(&self, i: usize) -> Result<Row> {
        let own: Vec<Tensor> = self.lists.iter().map(|list| list[i].clone()).collect();
        let strides = own[0].strides();
        let alike = own[0].is_non_overlapping_and_dense()
            && own.iter().all(|tensor| tensor.strides() == strides);
        let copy = |tensor: &Tensor| op::clone(tensor, Some(MemoryFormat::Contiguous));
        let tensors = if alike { own } else { own.iter().map(copy).collect::<Result<_>>()? };
        let on_device = |count: &Tensor| {
            op::to_device(count, self.lists[0][i].device(), DType::Float32, false, false, None)
        };
        let step = self.counts.get(i).map(on_device).transpose()?;
        Ok(Row { tensors, step, copied: !alike })
    }

    fn launch(&self, group: &[usize]) -> Result<()> {
        let first = &self.lists[0][group[0]];
        let (dtype, device) = (first.dtype(), first.device());
        if !dtype.is_floating_point() || dtype.itemsize() == 1 {
            return Err(not_implemented_for(self.name, dtype));
        }
        let rows: Vec<Row> = group.iter().map(|&i| self.row(i)).collect::<Result<_>>()?;
        let number =
            |tensor: &Tensor| op::to_device(tensor, device, DType::Float32, false, false, None);
        let scaling =
            [self.scaling[0].map(number).transpose()?, self.scaling[1].map(number).transpose()?];
        let undefined = Tensor::default();
        let mut wanted = Vec::new();
        for row in &rows {
            wanted.extend(row.tensors.iter().map(|tensor| (tensor, Access::Write)));
            wanted.push((row.step.as_ref().unwrap_or(&undefined), Access::Read));
        }
        wanted.extend(scaling.iter().map(|own| (own.as_ref().unwrap_or(&undefined), Access::Read)));
        let held = Operands::hold(&wanted)?;
        let null = std::ptr::null_mut::<u8>();
        let mut lists = Lists { numel: [0; MOST], at: [[null; MOST]; 5], steps: [null; MOST] };
        let width = self.lists.len() + 1;
        for (i, row) in rows.iter().enumerate() {
            lists.numel[i] = row.tensors[0].numel() as u64;
            for k in 0..self.lists.len() {
                lists.at[k][i] = held.at(i * width + k);
            }
            lists.steps[i] = held.at(i * width + width - 1);
        }
        let end = rows.len() * width;
        let (mut scale, mut inf, mut settings) = (held.at(end), held.at(end + 1), self.settings);
        let most = lists.numel.iter().copied().max().unwrap_or(1);
        let grid = [most.div_ceil(256).min(2048) as u32, rows.len() as u32, 1];
        let shape = Shape { grid, block: [256, 1, 1], shared: 0 };
        let of = [Argument::Storage(dtype), Argument::Value(dtype), Argument::Number(self.kind)];
        let stream = Stream::current(device.index);
        let parameters = parameters!(lists, settings, scale, inf);
        // SAFETY: the tensors of a row are dense, laid out alike, and held.
        unsafe { STEP.launch(&of, shape, stream, parameters)? };
        drop(held);
        self.write_back(group, &rows)
    }

    /// Copies what is not laid out alike back.
    fn write_back(&self, group: &[usize], rows: &[Row]) -> Result<()> {
        for (&i, row) in group.iter().zip(rows).filter(|(_, row)| row.copied) {
            for (k, (list, own)) in self.lists.iter().zip(&row.tensors).enumerate() {
                if k != GRAD || self.scaling[0].is_some() {
                    op::copy_(&list[i], own, false)?;
                }
            }
        }
        Ok(())
    }
}

/// A step of stochastic gradient descent.
///
/// # Errors
/// `Runtime` for lists that do not fit, `NotImplemented` for dtypes that are no floats; for the functions
/// below likewise.
pub fn fused_sgd_(
    self_: &[Tensor],
    grads: &[Tensor],
    momentum_buffer_list: &[Tensor],
    weight_decay: f64,
    momentum: f64,
    lr: f64,
    dampening: f64,
    nesterov: bool,
    maximize: bool,
    is_first_step: bool,
    grad_scale: Option<&Tensor>,
    found_inf: Option<&Tensor>,
) -> Result<()> {
    let settings = Settings {
        lr,
        beta1: momentum,
        weight_decay,
        dampening,
        maximize: maximize.into(),
        nesterov: nesterov.into(),
        is_first: is_first_step.into(),
        ..Settings::default()
    };
    let mut lists = vec![self_, grads];
    if momentum != 0.0 {
        lists.push(momentum_buffer_list);
    }
    let kind = u32::from(momentum != 0.0);
    let scaling = [grad_scale, found_inf];
    Step { name: "fused_sgd", kind, settings, lists, counts: &[], scaling }.run()
}

fn adam(
    settings: Settings,
    lists: &[&[Tensor]],
    counts: &[Tensor],
    scaling: [Option<&Tensor>; 2],
) -> Result<()> {
    let kind = if lists.len() > 4 { 3 } else { 2 };
    Step { name: "fused_adam", kind, settings, lists: lists.to_vec(), counts, scaling }.run()
}

/// Defines a step for lists of parameters with the way in which they shrink.
macro_rules! adam_steps {
    ($($(#[$doc:meta])* pub fn $name:ident = $decoupled:literal;)+) => {$(
        $(#[$doc])*
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
            let (maximize, decoupled) = (maximize.into(), $decoupled);
            let settings = Settings {
                lr,
                beta1,
                beta2,
                weight_decay,
                eps,
                maximize,
                decoupled,
                ..Settings::default()
            };
            let lists = [self_, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs];
            let lists = &lists[..4 + usize::from(amsgrad)];
            adam(settings, lists, state_steps, [grad_scale, found_inf])
        }
    )+};
}

adam_steps! {
    /// A step of Adam.
    pub fn fused_adam_ = 0;
    /// A step of Adam with decoupled weight decay.
    pub fn fused_adamw_ = 1;
}

/// A step of Adadelta.
pub fn adadelta_step_(
    self_: &[Tensor],
    grads: &[Tensor],
    square_avgs: &[Tensor],
    acc_deltas: &[Tensor],
    lr: f64,
    rho: f64,
    eps: f64,
    weight_decay: f64,
    maximize: bool,
    grad_scale: Option<&Tensor>,
    found_inf: Option<&Tensor>,
) -> Result<()> {
    let settings = Settings {
        lr,
        beta1: rho,
        weight_decay,
        eps,
        maximize: maximize.into(),
        ..Settings::default()
    };
    let lists = vec![self_, grads, square_avgs, acc_deltas];
    let scaling = [grad_scale, found_inf];
    Step { name: "adadelta_step", kind: 4, settings, lists, counts: &[], scaling }.run()
}
