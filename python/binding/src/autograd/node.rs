//! Nodes of the backward graph as Python objects: one class per name, one object per node.

use super::function;
use super::hooks::{handle, post_hook, pre_hook};
use crate::functions::wrap_value;
use crate::py::class::{Class, TypeBuilder, instance_of, make, this};
use crate::py::{Args, Obj, Py, TypeCell, ffi, getter, method, name, slot};
use corten_autograd::{Edge, Node, NodeRef};
use std::any::Any;
use std::cell::OnceCell;
use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

static TYPE: TypeCell = TypeCell::new();

/// What a node remembers of its object: where it is, while it lives.
struct Backlink(AtomicPtr<ffi::PyObject>);

pub(super) struct PyNode {
    node: NodeRef,
    backlink: Arc<Backlink>,
    metadata: OnceCell<Obj>,
}

impl Drop for PyNode {
    fn drop(&mut self) {
        self.backlink.0.store(std::ptr::null_mut(), Ordering::Release);
    }
}

impl Class for PyNode {
    const NAME: &'static CStr = c"corten.autograd.graph.Node";

    fn cell() -> &'static TypeCell {
        &TYPE
    }

    fn describe(builder: TypeBuilder) -> TypeBuilder {
        builder
            .doc(c"A recorded operator.")
            .flags(ffi::Py_TPFLAGS_BASETYPE | ffi::Py_TPFLAGS_DISALLOW_INSTANTIATION)
            .slot(ffi::Py_tp_getattro, slot!(binary get_attribute))
            .getset([
                getter!("next_functions", |s: &Obj| next_functions(get_this(s))),
                getter!("metadata", |s: &Obj| {
                    let cell = &this::<PyNode>(s).metadata;
                    if cell.get().is_none() {
                        let _ = cell.set(Obj::dict()?);
                    }
                    Ok(cell.get().cloned().unwrap_or_else(Obj::none))
                }),
                getter!("requires_grad", |_s: &Obj| Ok(Obj::bool(true))),
                getter!("_input_metadata", |s: &Obj| input_metadata(get_this(s))),
            ])
            .methods([
                method!("name", |s: &Obj, _a: Args<'_>| Obj::str_from(&get_this(s).full_name())),
                method!("register_hook", |s: &Obj, args: Args<'_>| {
                    handle(get_this(s).register_hook(post_hook(args)?))
                }),
                method!("register_prehook", |s: &Obj, args: Args<'_>| {
                    handle(get_this(s).register_prehook(pre_hook(args)?))
                }),
                method!("_sequence_nr", |s: &Obj, _a: Args<'_>| Obj::uint(
                    get_this(s).sequence_nr()
                )),
            ])
    }
}

fn get_this(object: &Obj) -> &NodeRef {
    &this::<PyNode>(object).node
}

/// `_saved_x`, and `variable` of an accumulator.
fn get_attribute(object: &Obj, wanted: &Obj) -> Py<Obj> {
    object.attr_or(wanted, |wanted| {
        let node = get_this(object);
        if wanted == "variable"
            && let Some(variable) = node.variable()
        {
            return crate::tensor::wrap(variable).map(Some);
        }
        match wanted.strip_prefix("_saved_") {
            Some(slot) => Node::saved_by_name(node, slot)?.map(wrap_value).transpose(),
            None => Ok(None),
        }
    })
}

/// Pairs of node and input number, one per edge.
pub(super) fn next_functions(node: &NodeRef) -> Py<Obj> {
    Obj::tuple(node.next_edges().iter().map(|edge: &Edge| {
        let next = match &edge.node {
            Some(next) => wrap(next)?,
            None => Obj::none(),
        };
        Obj::tuple([Ok(next), Obj::int(i64::from(edge.nr))])
    }))
}

fn input_metadata(node: &NodeRef) -> Py<Obj> {
    Obj::tuple(node.input_metadata().iter().map(|metadata| {
        Obj::tuple([
            crate::types::size::size(metadata.sizes()),
            Ok(crate::types::dtype::object(metadata.dtype)),
            crate::types::device::object(metadata.device),
        ])
    }))
}

/// The object of a node: that of a user function is its context.
pub(super) fn wrap(node: &NodeRef) -> Py<Obj> {
    if let Some(context) = function::context_of(node) {
        return Ok(context);
    }
    if let Some(foreign) = node.foreign_object()
        && let Ok(link) = foreign.downcast::<Backlink>()
    {
        let object = link.0.load(Ordering::Acquire);
        if !object.is_null() {
            // SAFETY: the object clears the link when it dies, which happens with the lock held.
            return Ok(unsafe { Obj::borrowed(object) });
        }
    }
    let backlink = Arc::new(Backlink(AtomicPtr::new(std::ptr::null_mut())));
    let made = instance_of(
        class_of(&node.name())?,
        PyNode { node: node.clone(), backlink: backlink.clone(), metadata: OnceCell::new() },
    )?;
    backlink.0.store(made.as_ptr(), Ordering::Release);
    node.set_foreign_object(Some(backlink as Arc<dyn Any + Send + Sync>));
    Ok(made)
}

/// The class of nodes of a name, made on first use.
fn class_of(wanted: &str) -> Py<*mut ffi::PyTypeObject> {
    static CLASSES: OnceLock<Mutex<HashMap<String, usize>>> = OnceLock::new();
    let classes = CLASSES.get_or_init(Mutex::default);
    let known = classes.lock().unwrap_or_else(PoisonError::into_inner).get(wanted).copied();
    if let Some(address) = known {
        return Ok(address as *mut ffi::PyTypeObject);
    }
    let qualified: &'static CStr = Box::leak(
        CString::new(format!("builtins.{wanted}")).unwrap_or_default().into_boxed_c_str(),
    );
    let class = TypeBuilder::new(qualified, 0)
        .flags(ffi::Py_TPFLAGS_DISALLOW_INSTANTIATION)
        .base(TYPE.obj())
        .build()?;
    class.set_attr(name!("__name__"), &Obj::str_from(wanted)?)?;
    let address = class.into_ptr() as usize;
    classes.lock().unwrap_or_else(PoisonError::into_inner).insert(wanted.to_owned(), address);
    Ok(address as *mut ffi::PyTypeObject)
}

/// Makes the base class.
pub(super) fn add_to(module: &Obj) -> Py<()> {
    module.set_attr_str(c"_Node", &make::<PyNode>()?)
}

/// The functions of the module.
pub(super) fn functions() -> Vec<ffi::PyMethodDef> {
    vec![
        method!("_increment_version", |_m: &Obj, args: Args<'_>| {
            let parser = crate::args::parser!("_increment_version(Tensor tensor)");
            parser.parse(None, args)?.tensor(0)?.bump_version();
            Ok(Obj::none())
        }),
        method!("_grad_accumulator", |_m: &Obj, args: Args<'_>| {
            let bound = crate::args::parser!("_grad_accumulator(Tensor leaf)").parse(None, args)?;
            match corten_autograd::graph::grad_accumulator(&bound.tensor(0)?)? {
                Some(node) => wrap(&node),
                None => Ok(Obj::none()),
            }
        }),
    ]
}
