//! Tensors kept for the backward pass.
//!
//! Note [Saved variables]: an input can be kept as it is: its own `grad_fn` is another node. An
//! output cannot, because its `grad_fn` is the node that keeps it, a cycle that would never be
//! freed. So of an output only a detached alias is kept, and the node is attached again when it
//! is unpacked. Either way the version counter is shared, so that a later in-place write shows.

use crate::graph;
use crate::node::{Node, NodeRef, WeakNode};
use crate::ownership::OwnershipWalk;
use crate::saved_hooks::{self, Packed, SavedTensorHooks};
use corten_core::{DType, DispatchKey, Error, Result, bail, bug, err};
use corten_ops::Tensor;
use std::sync::Arc;

/// One saved slot of a node.
#[derive(Clone)]
pub(crate) enum Saved {
    One(SavedVariable),
    List(Vec<SavedVariable>),
}

impl Saved {
    /// Its node was reached from all its owners.
    pub(crate) fn reach(&self, walk: &mut OwnershipWalk<'_>) {
        match self {
            Self::One(variable) => variable.reach(walk),
            Self::List(list) => list.iter().for_each(|variable| variable.reach(walk)),
        }
    }
}

impl Default for Saved {
    /// Nothing.
    #[inline(always)]
    fn default() -> Self {
        Self::One(SavedVariable::default())
    }
}

/// A tensor kept for the backward pass, with the version it had.
///
/// By default nothing was saved.
///
/// ```
/// use corten::autograd::saved::SavedVariable;
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// let x = tensor![1.0]?;
/// let saved = SavedVariable::input(&x)?;
/// assert_eq!(saved.unpack(None)?.to_vec::<f32>()?, [1.0]);
/// op::add__scalar(&x, 1.into(), 1.into())?;
/// assert!(saved.unpack(None).is_err(), "it was changed in place");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct SavedVariable {
    data: Option<Tensor>,
    rare: Option<Arc<Rare>>,
    version: u32,
    output_nr: u32,
    is_leaf: bool,
    is_output: bool,
    saved_original: bool,
}

/// What only some saved variables carry.
#[derive(Clone, Default)]
struct Rare {
    hooks: Option<SavedTensorHooks>,
    packed: Option<Packed>,
    grad_fn: Option<NodeRef>,
    accumulator: Option<WeakNode>,
    requires_grad: bool,
    /// The `grad_fn` of a view that the node itself modified in place.
    inplace_view_fn: Option<WeakNode>,
}

impl SavedVariable {
    /// Keeps an input.
    ///
    /// # Errors
    /// For inference tensors, and what a packing hook raises.
    pub fn input(tensor: &Tensor) -> Result<Self> {
        let mut saved = Self::default();
        saved.save_input(tensor)?;
        Ok(saved)
    }

    /// Keeps output `output_nr` of the node under construction.
    ///
    /// # Errors
    /// As [`input`](Self::input).
    pub fn output(tensor: &Tensor, output_nr: u32) -> Result<Self> {
        let mut saved = Self::default();
        saved.save_output(tensor, output_nr)?;
        Ok(saved)
    }

    /// Becomes what [`input`](Self::input) makes. It must be empty.
    pub(crate) fn save_input(&mut self, tensor: &Tensor) -> Result<()> {
        self.save(tensor, None)?;
        Ok(())
    }

    /// Becomes what [`output`](Self::output) makes. It must be empty.
    pub(crate) fn save_output(&mut self, tensor: &Tensor, output_nr: u32) -> Result<()> {
        if self.save(tensor, Some(output_nr))? {
            self.data = Some(graph::visible_alias(tensor)?);
        }
        Ok(())
    }

    /// [`save_output`](Self::save_output) of the one result of an operator, which nobody else knows
    /// yet.
    pub(crate) fn save_fresh_output(&mut self, tensor: &mut Tensor) -> Result<()> {
        if self.save(tensor, Some(0))? {
            self.data = Some(match graph::is_seen_by_python(tensor) {
                true => graph::visible_alias(tensor)?,
                false => tensor.base_mut().alias_of_fresh()?.into(),
            });
        }
        Ok(())
    }

    /// Takes everything but the alias of an output. Returns whether that is to be kept.
    #[inline(always)]
    fn save(&mut self, tensor: &Tensor, output_nr: Option<u32>) -> Result<bool> {
        let version = match tensor.counted_version() {
            Some(version) => version,
            None if !tensor.defined() => return Ok(false),
            None => uncounted()?,
        };
        let differentiable = graph::is_differentiable_type(tensor.dtype());
        let (own_nr, is_leaf) = graph::place_of(tensor);
        self.version = version;
        self.output_nr = output_nr.unwrap_or(own_nr);
        self.is_output = output_nr.is_some() && differentiable;
        self.is_leaf = !self.is_output && is_leaf;
        if let Some(hooks) = saved_hooks::current().filter(|_| !tensor.is_wrapped_number()) {
            self.pack(hooks, tensor)?;
            return Ok(false);
        }
        if !self.is_output {
            self.saved_original = true;
            self.data = Some(tensor.clone());
        }
        Ok(self.is_output)
    }

    fn pack(&mut self, hooks: SavedTensorHooks, tensor: &Tensor) -> Result<()> {
        let mut rare = Rare::default();
        if self.is_leaf {
            rare.requires_grad = graph::requires_grad(tensor);
            if let Some(accumulator) = graph::grad_accumulator(tensor)? {
                rare.accumulator = Some(accumulator.downgrade());
            }
        } else if !self.is_output {
            rare.grad_fn = graph::grad_fn(tensor)?;
        }
        rare.packed = Some(hooks.pack_tensor(tensor, !self.is_leaf)?);
        rare.hooks = Some(hooks);
        self.rare = Some(Arc::new(rare));
        Ok(())
    }

    /// Its owner was reached from all of its own.
    pub(crate) fn reach(&self, walk: &mut OwnershipWalk<'_>) {
        if let Some(data) = &self.data {
            walk.tensor(data);
        }
        let Some(rare) = &self.rare else { return };
        if !walk.is_last(Arc::as_ptr(rare).addr(), Arc::strong_count(rare)) {
            return;
        }
        if let Some(hooks) = &rare.hooks {
            hooks.reach(walk);
        }
        if let Some(packed) = &rare.packed
            && walk.is_last(Arc::as_ptr(packed).addr(), Arc::strong_count(packed))
        {
            walk.foreign(&**packed);
        }
        if let Some(node) = &rare.grad_fn {
            walk.node(node);
        }
    }

    /// Whether the variable is an output of the node that keeps it.
    pub(crate) fn is_output(&self) -> bool {
        self.is_output
    }

    pub(crate) fn output_nr(&self) -> u32 {
        self.output_nr
    }

    /// Turns a kept output that proved not to be differentiable into a plain tensor.
    pub(crate) fn make_constant(&mut self) {
        self.is_output = false;
        self.is_leaf = true;
    }

    /// The output is a view that the node modified in place: its `grad_fn` is not the node.
    pub(crate) fn set_inplace_view(&mut self, grad_fn: &NodeRef) {
        let rare = Arc::make_mut(self.rare.get_or_insert_with(Arc::default));
        rare.inplace_view_fn = Some(grad_fn.downgrade());
    }

    /// Packs the kept tensor with hooks of its own.
    ///
    /// # Errors
    /// When there are hooks already, the variable is empty or was freed.
    pub fn register_hooks(&mut self, hooks: SavedTensorHooks) -> Result<()> {
        if self.rare.as_ref().is_some_and(|rare| rare.hooks.is_some()) {
            bail!(
                Runtime,
                "Calling register_hooks on a saved tensor whose hooks have already been set. Hint: \
                 only one pair of hooks is allowed at a time."
            );
        }
        let Some(tensor) = self.data.clone() else {
            bail!(Runtime, "Calling register_hooks on a saved tensor with value None is forbidden");
        };
        self.pack(hooks, &tensor)?;
        self.data = None;
        self.saved_original = false;
        Ok(())
    }

    /// The tensor as it was saved, attached to the graph again; undefined when there was none.
    ///
    /// `saved_for` is the node that keeps the variable.
    ///
    /// # Errors
    /// When the tensor was modified in place since it was saved, or detached in place.
    pub fn unpack(&self, saved_for: Option<&NodeRef>) -> Result<Tensor> {
        let hooks = self.rare.as_ref().and_then(|rare| rare.hooks.as_ref());
        let Some(data) = &self.data else {
            return match (hooks, &self.rare) {
                (Some(hooks), Some(rare)) => self.unpack_with(hooks, rare, saved_for),
                _ => Ok(Tensor::undefined()),
            };
        };
        if data.counted_version().unwrap_or_default() != self.version {
            // A view that may no longer be used has no `grad_fn`; the version is the better error.
            let grad_fn = self.grad_fn(data, saved_for).ok().flatten();
            return Err(self.modified(data, grad_fn.as_deref()));
        }
        if self.saved_original {
            if !self.is_leaf && graph::is_leaf(data) {
                return Err(detached_in_place());
            }
            return Ok(data.clone());
        }
        let dual = self.is_output && crate::forward::is_open();
        let hidden = !corten_core::grad_mode_enabled() && !dual;
        if self.is_leaf || hidden && !graph::is_seen_by_python(data) {
            // Nobody can tell the difference, and an alias of an alias costs an allocation.
            return Ok(data.clone());
        }
        let Some(grad_fn) = self.grad_fn(data, saved_for)? else {
            bug!("No grad_fn for non-leaf saved tensor");
        };
        let variable = graph::visible_alias(data)?;
        if dual {
            crate::forward::restore(&variable, grad_fn.tangent(self.output_nr))?;
        }
        graph::set_gradient_edge(&variable, grad_fn, self.output_nr)?;
        Ok(variable)
    }

    /// As [`unpack`](Self::unpack), attached to the graph whatever the grad mode is: for users.
    ///
    /// # Errors
    /// As [`unpack`](Self::unpack).
    pub fn unpack_for_user(&self, saved_for: Option<&NodeRef>) -> Result<Tensor> {
        let _mode = corten_core::GradModeGuard::new(true);
        self.unpack(saved_for)
    }

    fn unpack_with(
        &self,
        hooks: &SavedTensorHooks,
        rare: &Rare,
        saved_for: Option<&NodeRef>,
    ) -> Result<Tensor> {
        let Some(packed) = &rare.packed else { bug!("a hooked saved tensor lost its value") };
        let data = hooks.unpack_tensor(packed)?;
        let grad_fn =
            if self.is_output { self.grad_fn(&data, saved_for)? } else { rare.grad_fn.clone() };
        if grad_fn.is_none() && !rare.requires_grad {
            return Ok(data);
        }
        // A wrapper's class makes the alias.
        let wraps = data.key_set().has(DispatchKey::Python);
        let alias = if wraps { graph::visible_alias } else { graph::detached_alias };
        let variable = alias(&data)?;
        match grad_fn {
            Some(grad_fn) => graph::set_gradient_edge(&variable, grad_fn, self.output_nr)?,
            None => graph::share_accumulator(&variable, rare.accumulator.as_ref())?,
        }
        Ok(variable)
    }

    fn grad_fn(&self, data: &Tensor, saved_for: Option<&NodeRef>) -> Result<Option<NodeRef>> {
        if let Some(view_fn) = self.rare.as_ref().and_then(|rare| rare.inplace_view_fn.as_ref()) {
            return Ok(view_fn.upgrade());
        }
        if self.is_output {
            return Ok(saved_for.cloned());
        }
        if self.saved_original { graph::grad_fn(data) } else { Ok(None) }
    }

    #[cold]
    fn modified(&self, data: &Tensor, grad_fn: Option<&Node>) -> Error {
        let current = data.version().unwrap_or_default();
        let mut message = format!(
            "one of the variables needed for gradient computation has been modified by an inplace \
             operation: [{} {}]",
            legacy_type_name(data),
            display_sizes(&data.sizes()),
        );
        if let Some(node) = grad_fn {
            let name = forward_name(&node.full_name());
            message += &format!(", which is output {} of {name},", self.output_nr_of(data));
        }
        message += &format!(" is at version {current}; expected version {} instead.", self.version);
        message += if crate::anomaly::is_enabled() {
            " Hint: the backtrace further above shows the operation that failed to compute its \
             gradient. The variable in question was changed in there or anywhere later. Good luck!"
        } else {
            " Hint: enable anomaly detection to find the operation that failed to compute its \
             gradient, with torch.autograd.set_detect_anomaly(True, check_nan=False)."
        };
        err!(Runtime, "{message}")
    }

    fn output_nr_of(&self, data: &Tensor) -> u32 {
        if self.saved_original { graph::output_nr(data) } else { self.output_nr }
    }
}

/// The version of an inference tensor, which counts none. Only transforms of functions save them.
#[cold]
fn uncounted<V: Default>() -> Result<V> {
    if crate::transform::is_active() {
        return Ok(V::default());
    }
    bail!(
        Runtime,
        "Inference tensors cannot be saved for backward. Please do not use Tensors created in \
         inference mode in computation tracked by autograd. To work around this, you can make a \
         clone to get a normal tensor and use it in autograd, or use `torch.no_grad()` instead of \
         `torch.inference_mode()`."
    )
}

/// The error of a second backward pass through a freed graph.
#[cold]
pub(crate) fn freed_graph() -> Error {
    err!(
        Runtime,
        "Trying to backward through the graph a second time (or directly access saved tensors \
         after they have already been freed). Saved intermediate values of the graph are freed \
         when you call .backward() or autograd.grad(). Specify retain_graph=True if you need to \
         backward through the graph a second time or if you need to access saved tensors after \
         calling backward."
    )
}

#[cold]
fn detached_in_place() -> Error {
    err!(
        Runtime,
        "Trying to use a saved tensor that has been detached in-place, i.e. with .detach_().This \
         is not supported, please use out-of-place `.detach()` instead"
    )
}

/// The operator's name in a node's name: `AddBackward0` is of `Add`.
pub(crate) fn forward_name(node: &str) -> String {
    match node.rsplit_once("Backward") {
        Some((stem, "" | "0")) if !stem.is_empty() => stem.to_owned(),
        Some((stem, number)) if !stem.is_empty() => format!("{stem}{number}"),
        _ => node.to_owned(),
    }
}

/// `[2, 3]`.
pub(crate) fn display_sizes(sizes: &[i64]) -> String {
    let list: Vec<String> = sizes.iter().map(i64::to_string).collect();
    format!("[{}]", list.join(", "))
}

/// The type name of old: `torch.FloatTensor`, and for younger dtypes `CPUBFloat16Type`.
fn legacy_type_name(tensor: &Tensor) -> String {
    let dtype = tensor.dtype();
    let device = tensor.device();
    let name = dtype.type_name();
    let old = matches!(
        dtype,
        DType::UInt8
            | DType::Int8
            | DType::Int16
            | DType::Int32
            | DType::Int64
            | DType::Float16
            | DType::Float32
            | DType::Float64
    );
    if device == corten_core::Device::CPU && old {
        return format!("torch.{name}Tensor");
    }
    let device = device.device_type.to_string();
    if old && device == "cuda" {
        return format!("torch.cuda.{name}Tensor");
    }
    format!("{}{name}Type", device.to_uppercase())
}
