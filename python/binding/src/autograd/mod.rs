//! The gradient engine from Python.

mod engine;
mod forward;
mod function;
mod garbage;
mod hooks;
mod modes;
mod node;
mod profile;
mod saved;
mod vmap;

use crate::py::{Obj, Py, ffi};
use corten_autograd::{graph, view};
use corten_core::Result;
use corten_ops::Tensor;

pub(crate) use engine::backward_method;
pub(crate) use garbage::{clear, traverse};
pub(crate) use hooks::{register_hook, register_post_accumulate_hook};

/// The Python object of the node that a tensor is a result of.
pub(crate) fn grad_fn(tensor: &Tensor) -> Py<Obj> {
    match graph::grad_fn(tensor)? {
        Some(node) => node::wrap(&node),
        None => Ok(Obj::none()),
    }
}

/// The root of a view.
pub(crate) fn base(tensor: &Tensor) -> Py<Obj> {
    match view::base_of(tensor.base()) {
        Some(base) => crate::tensor::wrap(&base),
        None => Ok(Obj::none()),
    }
}

/// Whether the tensor is a differentiable view.
pub(crate) fn is_view(tensor: &Tensor) -> bool {
    view::is_view(tensor.base())
}

/// Which output of its node the tensor is.
pub(crate) fn output_nr(tensor: &Tensor) -> i64 {
    i64::from(graph::output_nr(tensor.base()))
}

/// Whether a non-leaf keeps its gradient.
pub(crate) fn retains_grad(tensor: &Tensor) -> bool {
    corten_autograd::Autograd::retains_grad(tensor)
}

/// Makes a non-leaf keep its gradient.
pub(crate) fn retain_grad(tensor: &Tensor) -> Result<()> {
    corten_autograd::retain_grad(tensor)
}

/// Makes the classes.
pub(crate) fn add_to(module: &Obj) -> Py<()> {
    node::add_to(module)?;
    hooks::add_to(module)?;
    modes::add_to(module)?;
    function::add_to(module)
}

/// The functions of the module.
pub(crate) fn functions() -> Vec<ffi::PyMethodDef> {
    let mut rows = modes::functions();
    rows.extend(engine::functions());
    rows.extend(forward::functions());
    rows.extend(profile::functions());
    rows.extend(vmap::functions());
    rows.extend(vmap::questions());
    rows.extend(saved::functions());
    rows.extend(function::functions());
    rows
}
