//! Recording: what the generated wrappers call around an operator.

use crate::graph::{self, In};
use crate::inplace;
use crate::meta;
use crate::node::{Edge, Edges, InputMetadata, Node, NodeDef, NodeRef, edge_range};
use crate::saved::{Saved, SavedVariable};
use crate::view;
use corten_core::tls::{self, ThreadState};
use corten_core::{
    AUTOGRAD_KEYS, Dims, Result, Scalar, TensorOptions, Unshared, bail, below_adinplaceorview_from,
    inference_mode_enabled,
};
use corten_ops::Tensor;
use corten_ops::{IValue, StoreIn};
use std::sync::Arc;

pub use crate::inplace::rebase_history;

/// A node under construction.
///
/// Note [Nodes in place]: what a node keeps is pushed empty and then filled where it lies. Made
/// elsewhere, field by field, and then moved, it would be read by wider loads than it was stored
/// with, and those wait until the stores have reached the cache, longer than all the rest takes.
///
/// ```
/// use corten::autograd::record::{self, Record};
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// // Nothing is recorded where no input requires a gradient.
/// let x = tensor![1.0]?.requires_grad_(true)?;
/// let def = op::exp(&x)?.grad_fn()?.and_then(|node| node.def());
/// if let Some(def) = def {
///     let record: Option<Record> = record::begin(def, &[(&tensor![1.0]?).into()])?;
///     assert!(record.is_none());
/// }
/// # Ok(())
/// # }
/// ```
pub struct Record {
    node: Unshared<Node>,
}

/// Starts the record of an operator, if it has to be recorded: grad mode is on and an input
/// requires a gradient.
///
/// # Errors
/// When an input is a view that may no longer be used.
#[inline]
pub fn begin(def: &'static NodeDef, inputs: &[In<'_>]) -> Result<Option<Record>> {
    if !any_input_requires_grad(inputs) {
        return Ok(None);
    }
    start(def, inputs)
}

/// Refuses tensors that require a gradient which operator `name` does not have.
///
/// # Errors
/// `Runtime` naming the argument.
#[inline]
pub fn refuse_gradients(name: &str, arguments: &[(&str, In<'_>)]) -> Result<()> {
    for (argument, input) in arguments {
        if input.requires_grad() && corten_core::grad_mode_enabled() && !below_autograd() {
            return Err(not_differentiable(name, argument));
        }
    }
    Ok(())
}

#[cold]
fn not_differentiable(name: &str, argument: &str) -> corten_core::Error {
    corten_core::err!(
        Runtime,
        "The function '{name}' is not differentiable with respect to argument '{argument}'. This \
         input cannot have requires_grad True."
    )
}

// A loop of its own: around every call, `Iterator::any` would be a call more.
#[inline(always)]
fn any_input_requires_grad(inputs: &[In<'_>]) -> bool {
    for input in inputs {
        if input.requires_grad() {
            return true;
        }
    }
    false
}

fn start(def: &'static NodeDef, inputs: &[In<'_>]) -> Result<Option<Record>> {
    let Some(sequence_nr) = tls::sequence_number_if_recording() else { return Ok(None) };
    let mut record = Record { node: Node::generated(def, sequence_nr) };
    let node = &mut *record.node;
    for input in inputs {
        match input {
            In::One(tensor) | In::Opt(Some(tensor)) => node.add_edge(graph::gradient_edge(tensor)?),
            In::Opt(None) => node.add_edge(Edge::default()),
            In::List(_) | In::OptList(_) => {
                add_edges_of_all(node, inputs)?;
                break;
            }
        }
    }
    Ok(Some(record))
}

/// Where there are lists among the inputs, the node also knows where the edges of each end.
#[cold]
fn add_edges_of_all(node: &mut Node, inputs: &[In<'_>]) -> Result<()> {
    node.edges = Edges::default();
    let mut ends = Vec::with_capacity(inputs.len());
    for input in inputs {
        input.collect_edges(&mut |edge| node.add_edge(edge))?;
        ends.push(node.edges.len() as u32);
    }
    node.ends = Some(ends.into());
    Ok(())
}

/// The wrappers also serve `ADInplaceOrView`, where nothing is recorded.
fn below_autograd() -> bool {
    !(tls::local_exclude() & AUTOGRAD_KEYS).is_empty()
}

/// [`begin`] for an operator that writes to some of its arguments.
///
/// # Errors
/// When one of `written` must not be written to in place.
#[inline]
pub fn begin_inplace(
    def: &'static NodeDef,
    inputs: &[In<'_>],
    written: &[&Tensor],
) -> Result<Option<Record>> {
    refuse_inference(written)?;
    let required = corten_core::grad_mode_enabled()
        && (any_input_requires_grad(inputs) || any_requires_grad(written));
    if !required || below_autograd() {
        return Ok(None);
    }
    for tensor in written {
        inplace::check_inplace(tensor, true)?;
        if !graph::is_differentiable_type(tensor.dtype()) {
            // Nothing flows back out of integers: what they were made of stays unrecorded.
            return Ok(None);
        }
    }
    start(def, inputs)
}

/// The checks of [`begin_inplace`] for an operator without a gradient.
///
/// # Errors
/// As [`begin_inplace`].
pub fn check_inplace(written: &[&Tensor], inputs: &[In<'_>]) -> Result<()> {
    refuse_inference(written)?;
    let required = any_requires_grad(written) || any_input_requires_grad(inputs);
    if !required || below_autograd() {
        return Ok(());
    }
    written.iter().try_for_each(|tensor| inplace::check_inplace(tensor, true))
}

/// The checks for an `out=` call of operator `name`.
///
/// # Errors
/// When the call would have to be recorded.
pub fn check_out(name: &str, inputs: &[In<'_>], outs: &[&Tensor]) -> Result<()> {
    refuse_inference(outs)?;
    inplace::check_out(name, inputs, outs)
}

fn any_requires_grad(tensors: &[&Tensor]) -> bool {
    tensors.iter().any(|tensor| graph::requires_grad(tensor))
}

fn refuse_inference(written: &[&Tensor]) -> Result<()> {
    if !inference_mode_enabled() && written.iter().any(|tensor| tensor.is_inference()) {
        bail!(
            Runtime,
            "Inplace update to inference tensor outside InferenceMode is not allowed.You can make \
             a clone to get a normal tensor before doing inplace update.See \
             https://github.com/pytorch/rfcs/pull/17 for more details."
        );
    }
    Ok(())
}

/// Whether the elements of a matrix lie column by column, without gaps: then its gradient should, too.
pub fn lies_by_columns(matrix: &Tensor) -> bool {
    matrix.matrix_geometry().is_some_and(|([rows, _], [row, column])| row == 1 && column == rows)
}

/// Notes that the tensors were written to.
///
/// # Errors
/// For inference tensors outside of inference mode.
pub fn bump(written: &[&Tensor]) -> Result<()> {
    for tensor in written {
        // Inference tensors count no versions.
        if !tensor.is_inference() {
            tensor.bump_version();
        }
    }
    Ok(())
}

/// Makes a view of `base` by a view operator, and a differentiable one. `recorded` says that it will
/// be the result of a node.
///
/// # Errors
/// Those of the operator; when the result is a view of something else.
#[inline]
pub fn view(
    base: &Tensor,
    recorded: bool,
    make: impl FnOnce() -> Result<Tensor>,
) -> Result<Tensor> {
    let (result, state) = below_adinplaceorview_from(make);
    differentiable_view(base, result?, recorded, state)
}

fn differentiable_view(
    base: &Tensor,
    mut result: Tensor,
    recorded: bool,
    state: ThreadState,
) -> Result<Tensor> {
    let creation = view::creation_in(state, false);
    if !recorded && view::make_compact_view(base, &mut result, creation) {
        return Ok(result);
    }
    view::make_view(base, result, creation)
}

/// [`view`] for an operator that returns several views.
///
/// # Errors
/// As [`view`].
pub fn views(base: &Tensor, make: impl FnOnce() -> Result<Vec<Tensor>>) -> Result<Vec<Tensor>> {
    let (results, state) = below_adinplaceorview_from(make);
    let creation = view::creation_in(state, true);
    results?.into_iter().map(|result| view::make_view(base, result, creation)).collect()
}

impl Record {
    /// Whether the gradient of a differentiable argument may be wanted: what only it needs is not
    /// saved otherwise.
    #[inline]
    pub fn needs(&self, argument: usize) -> bool {
        edge_range(self.node.ends.as_deref(), argument)
            .any(|edge| self.node.edges.get(edge).is_some_and(Edge::is_valid))
    }

    /// Saves a tensor in the next slot, or nothing if `wanted` is false.
    ///
    /// # Errors
    /// For inference tensors, and what a hook on saved tensors raises.
    pub fn tensor(&mut self, wanted: bool, tensor: &Tensor) -> Result<()> {
        self.save(wanted, |variable| variable.save_input(tensor))
    }

    /// [`tensor`](Self::tensor) for an optional argument.
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor).
    pub fn opt_tensor(&mut self, wanted: bool, tensor: Option<&Tensor>) -> Result<()> {
        match tensor {
            Some(tensor) => self.tensor(wanted, tensor),
            None => self.save(false, |_| Ok(())),
        }
    }

    /// [`tensor`](Self::tensor) for a list, which takes one slot.
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor).
    pub fn tensors(&mut self, wanted: bool, tensors: &[Tensor]) -> Result<()> {
        let saved = tensors.iter().filter(|_| wanted).map(SavedVariable::input);
        let saved = saved.collect::<Result<Vec<_>>>()?;
        *self.slot() = Saved::List(saved);
        Ok(())
    }

    /// [`tensors`](Self::tensors) for a list of optional tensors.
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor).
    pub fn opt_tensors(&mut self, wanted: bool, tensors: &[Option<Tensor>]) -> Result<()> {
        let save = |tensor: &Option<Tensor>| match tensor {
            Some(tensor) => SavedVariable::input(tensor),
            None => Ok(SavedVariable::default()),
        };
        let saved = tensors.iter().filter(|_| wanted).map(save).collect::<Result<Vec<_>>>()?;
        *self.slot() = Saved::List(saved);
        Ok(())
    }

    /// Saves result `index` of the operator in the next slot.
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor).
    pub fn output(&mut self, wanted: bool, result: &Tensor, index: u32) -> Result<()> {
        self.save(wanted, |variable| variable.save_output(result, index))
    }

    /// [`output`](Self::output) for the one result of an operator, which nobody else knows yet.
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor).
    pub fn fresh_output(&mut self, wanted: bool, result: &mut Tensor) -> Result<()> {
        self.save(wanted, |variable| variable.save_fresh_output(result))
    }

    /// Saves results of an operator that returns a list, in one slot.
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor).
    pub fn outputs(&mut self, wanted: bool, results: &[Tensor]) -> Result<()> {
        let results = results.iter().enumerate().filter(|_| wanted);
        let saved = results.map(|(index, result)| SavedVariable::output(result, index as u32));
        let saved = saved.collect::<Result<Vec<_>>>()?;
        *self.slot() = Saved::List(saved);
        Ok(())
    }

    /// Fills the variable of the next slot where it will stay, see Note [Nodes in place], or takes
    /// the slot without a variable.
    #[inline(always)]
    fn save(
        &mut self,
        wanted: bool,
        fill: impl FnOnce(&mut SavedVariable) -> Result<()>,
    ) -> Result<()> {
        if !wanted {
            self.node.places.add_nothing();
            return Ok(());
        }
        match self.slot() {
            Saved::One(variable) => fill(variable),
            Saved::List(_) => Ok(()),
        }
    }

    /// Takes a slot for a tensor or a list of tensors.
    #[inline(always)]
    fn slot(&mut self) -> &mut Saved {
        let node = &mut *self.node;
        node.places.add_tensor();
        node.saved.slots_mut().add()
    }

    /// Saves a value in the next slot.
    // Not inlined: nearly every wrapper saves one.
    #[inline(never)]
    pub fn value(&mut self, value: impl StoreIn) {
        value.store_in(self.value_slot());
    }

    /// Saves a number in the next slot. One, as factors are by default, takes no room.
    #[inline]
    pub fn number(&mut self, number: Scalar) {
        if number == Scalar::Int(1) {
            self.node.places.add_one();
        } else {
            self.value(number);
        }
    }

    /// Saves in the next slot whether something holds, which takes no room.
    #[inline]
    pub fn flag(&mut self, holds: bool) {
        if holds {
            self.node.places.add_one();
        } else {
            self.node.places.add_nothing();
        }
    }

    /// Saves the sizes of a tensor in the next slot.
    pub fn sizes(&mut self, tensor: &Tensor) {
        self.dims(|dims| tensor.copy_sizes_to(dims));
    }

    /// Saves the strides of a tensor in the next slot.
    pub fn strides(&mut self, tensor: &Tensor) {
        self.dims(|dims| tensor.copy_strides_to(dims));
    }

    #[inline(always)]
    fn dims(&mut self, fill: impl FnOnce(&mut Dims)) {
        let slot = self.value_slot();
        *slot = IValue::IntList(Dims::new_const());
        if let IValue::IntList(dims) = slot {
            fill(dims);
        }
    }

    /// Takes a slot for a value.
    #[inline(always)]
    fn value_slot(&mut self) -> &mut IValue {
        let node = &mut *self.node;
        node.places.add_value();
        node.values.add()
    }

    /// Saves the shapes of a list of tensors in the next slot.
    pub fn shapes(&mut self, tensors: &[Tensor]) {
        let shapes: Vec<Dims> = tensors.iter().map(|tensor| tensor.sizes()).collect();
        self.value(IValue::Object(Arc::new(shapes)));
    }

    /// Saves the dtypes of a list of tensors in the next slot.
    pub fn dtypes(&mut self, tensors: &[Tensor]) {
        let dtypes: Vec<_> = tensors.iter().map(|tensor| tensor.dtype()).collect();
        self.value(IValue::Object(Arc::new(dtypes)));
    }

    /// Saves the options of a tensor in the next slot.
    pub fn options(&mut self, tensor: &Tensor) {
        let options: TensorOptions = tensor.options();
        self.value(IValue::Object(Arc::new(options)));
    }

    /// Makes the results, in schema order, the node's.
    ///
    /// # Errors
    /// `Internal` when the crate is not initialised.
    pub fn finish(self, results: &[&Tensor]) -> Result<()> {
        self.finish_with(results, false)
    }

    /// [`finish`](Self::finish) for an operator that returns a list.
    ///
    /// # Errors
    /// As [`finish`](Self::finish).
    pub fn finish_list(self, results: &[Tensor]) -> Result<()> {
        let results: Vec<&Tensor> = results.iter().collect();
        self.finish_with(&results, true)
    }

    /// [`finish`](Self::finish) for the one result of an operator that is no view.
    ///
    /// # Errors
    /// As [`finish`](Self::finish).
    pub fn finish_fresh(self, result: &mut Tensor) -> Result<()> {
        let mut node = self.node;
        let outputs = node.def().map_or(0, |def| def.outputs);
        // Integers have no gradients: they are results of no node.
        if outputs & 1 == 0 || !graph::is_differentiable_type(result.dtype()) {
            return Ok(());
        }
        node.inputs.add().set_to(result);
        graph::set_first_edge(result, node.share(), 0)
    }

    fn finish_with(self, results: &[&Tensor], list: bool) -> Result<()> {
        let node = self.into_node(results, list);
        // The handle goes to an only result: another one would cost two locked instructions.
        if let [result] = results {
            return match node.inputs[0].is_defined() {
                true => graph::set_gradient_edge(result, node, 0),
                false => Ok(()),
            };
        }
        for (nr, result) in results.iter().enumerate() {
            if node.inputs[nr].is_defined() {
                graph::set_gradient_edge(result, node.clone(), nr as u32)?;
            }
        }
        Ok(())
    }

    /// Makes the node the history of the tensors that the operator wrote to.
    ///
    /// # Errors
    /// As [`rebase_history`].
    pub fn finish_inplace(self, written: &[&Tensor]) -> Result<()> {
        let node = self.into_node(written, false);
        for (nr, tensor) in written.iter().enumerate() {
            if !node.inputs[nr].is_defined() {
                continue;
            }
            rebase_history(tensor, node.clone(), nr as u32)?;
            let meta = meta::get_or_init(tensor)?;
            if meta.view().is_some() {
                let Some(view_fn) = meta.stored_grad_fn() else { continue };
                node.saved.patch(|slots| attach_view_fn(slots, nr as u32, &view_fn));
            }
        }
        Ok(())
    }

    fn into_node(mut self, results: &[&Tensor], list: bool) -> NodeRef {
        let node = &mut *self.node;
        let outputs = node.def().map_or(u32::MAX, |def| def.outputs);
        for (nr, result) in results.iter().enumerate() {
            let bit = if list { 0 } else { nr.min(31) };
            let differentiable = outputs >> bit & 1 == 1
                && result.defined()
                && graph::is_differentiable_type(result.dtype());
            let input = node.inputs.add();
            if differentiable {
                input.set_to(result);
            }
        }
        settle_outputs(node);
        self.node.share()
    }
}

/// Kept outputs that are not differentiable are constants.
fn settle_outputs(node: &mut Node) {
    let inputs = &node.inputs;
    let settle = |variable: &mut SavedVariable| {
        let input = inputs.get(variable.output_nr() as usize);
        if variable.is_output() && !input.is_some_and(InputMetadata::is_defined) {
            variable.make_constant();
        }
    };
    for slot in &mut **node.saved.slots_mut() {
        match slot {
            Saved::One(variable) => settle(variable),
            Saved::List(list) => list.iter_mut().for_each(settle),
        }
    }
}

fn attach_view_fn(slots: &mut [Saved], nr: u32, view_fn: &NodeRef) {
    for slot in slots {
        if let Saved::One(variable) = slot
            && variable.is_output()
            && variable.output_nr() == nr
        {
            variable.set_inplace_view(view_fn);
        }
    }
}
