//! Nodes of the backward graph as Python objects: one class per name, one object per node.

use super::function;
use super::garbage::Found;
use super::hooks::{register_post_hook, register_pre_hook};
use crate::functions::wrap_value;
use crate::py::class::{Class, TypeBuilder, instance_of, make, this, value};
use crate::py::collect::Referents;
use crate::py::errors::{runtime_error, type_error};
use crate::py::gil::{self, Shared};
use crate::py::{Args, Obj, Py, TypeCell, ffi, getter, method, name, slot};
use corten_autograd::ownership::OwnershipWalk;
use corten_autograd::{Edge, Node, NodeRef};
use corten_core::{TensorBase, TensorOptions};
use corten_ops::Tensor;
use std::any::Any;
use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

static TYPE: TypeCell = TypeCell::new();

/// What a node owns for Python: its dictionary, and where its object is while that lives.
pub(super) struct Backlink {
    object: AtomicPtr<ffi::PyObject>,
    metadata: Mutex<Option<Shared>>,
}

impl Backlink {
    fn lock(&self) -> MutexGuard<'_, Option<Shared>> {
        self.metadata.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The dictionary, made when it is first asked for.
    fn metadata(&self) -> Py<Obj> {
        if let Some(known) = &*self.lock() {
            return Ok(known.get());
        }
        // Made without the lock: that may run the garbage collector.
        let made = Obj::dict()?;
        Ok(self.lock().get_or_insert_with(|| Shared::new(made)).get())
    }

    /// Shows the collector the dictionary.
    pub(super) fn traverse(&self, referents: &mut Referents) {
        if let Ok(metadata) = self.metadata.try_lock()
            && let Some(metadata) = &*metadata
        {
            referents.shared(metadata);
        }
    }
}

/// The object of a node, which owns it; the node does not own its object.
pub(super) struct PyNode {
    node: NodeRef,
    backlink: Arc<Backlink>,
}

impl Drop for PyNode {
    fn drop(&mut self) {
        self.backlink.object.store(std::ptr::null_mut(), Ordering::Release);
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
                getter!("metadata", |s: &Obj| this::<PyNode>(s).backlink.metadata()),
                getter!("requires_grad", |_s: &Obj| Ok(Obj::bool(true))),
                getter!("_input_metadata", |s: &Obj| input_metadata(get_this(s))),
            ])
            .methods([
                method!("name", |s: &Obj, _a: Args<'_>| Obj::str_from(&get_this(s).full_name())),
                method!("register_hook", |s: &Obj, args: Args<'_>| {
                    register_post_hook(get_this(s), args)
                }),
                method!("register_prehook", |s: &Obj, args: Args<'_>| {
                    register_pre_hook(get_this(s), args)
                }),
                method!("_sequence_nr", |s: &Obj, _a: Args<'_>| Obj::uint(
                    get_this(s).sequence_nr()
                )),
            ])
    }

    const COLLECTED: bool = true;

    fn traverse(&self, _object: *mut ffi::PyObject, referents: &mut Referents) {
        if is_sole_owner(&self.node) {
            OwnershipWalk::new(&mut Found(referents)).from_node(&self.node);
        }
    }

    fn clear(&self) {
        if is_sole_owner(&self.node) {
            self.node.clear();
            drop(self.backlink.lock().take());
        }
    }
}

fn is_sole_owner(node: &NodeRef) -> bool {
    node.use_count() == 1 && gil::all_attached()
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
        let object = link.object.load(Ordering::Acquire);
        if !object.is_null() {
            // SAFETY: the object clears the link when it dies, which happens with the lock held.
            return Ok(unsafe { Obj::borrowed(object) });
        }
        return wrap_anew(node, link);
    }
    let backlink = Arc::new(Backlink {
        object: AtomicPtr::new(std::ptr::null_mut()),
        metadata: Mutex::new(None),
    });
    node.set_foreign_object(Some(backlink.clone() as Arc<dyn Any + Send + Sync>));
    wrap_anew(node, backlink)
}

fn wrap_anew(node: &NodeRef, backlink: Arc<Backlink>) -> Py<Obj> {
    let class = class_of(&node.name())?;
    let made = instance_of(class, PyNode { node: node.clone(), backlink: backlink.clone() })?;
    backlink.object.store(made.as_ptr(), Ordering::Release);
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

/// `_edge_tensor(node, output_nr)`: a tensor that stands for an output of a node, as backward passes
/// ask tensors for their edges.
fn edge_tensor(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let bound = crate::args::parser!("_edge_tensor(any node, int output_nr)").parse(None, args)?;
    let object = bound.object(0)?;
    let node = match value::<PyNode>(object) {
        Some(found) => found.node.clone(),
        None => function::node_of(object).ok_or_else(|| {
            type_error(format!("expected a node, but got {}", object.type_name()))
        })?,
    };
    let number = bound.int(1)?;
    let metadata = u32::try_from(number)
        .ok()
        .and_then(|nr| Some((nr, node.input_metadata().get(nr as usize)?)))
        .ok_or_else(|| runtime_error(format!("{} has no output {number}", node.full_name())))?;
    let (nr, metadata) = metadata;
    let options = TensorOptions::new().dtype(metadata.dtype).device(metadata.device);
    // Nobody reads its elements: only its sizes, dtype and device count.
    let memory = TensorBase::empty(&[1], options)?;
    let made = TensorBase::empty(&[0], options)?;
    // Bounded: as many as a tensor has dimensions.
    let strides = vec![0; metadata.sizes().len()];
    made.set_storage_and_geometry(memory.storage()?, 0, metadata.sizes(), &strides)?;
    let made: Tensor = made.into();
    corten_autograd::graph::set_gradient_edge(&made, node.clone(), nr)?;
    crate::tensor::wrap(&made)
}

/// The functions of the module.
pub(super) fn functions() -> Vec<ffi::PyMethodDef> {
    vec![
        method!("_increment_version", |_m: &Obj, args: Args<'_>| {
            let parser = crate::args::parser!("_increment_version(Tensor tensor)");
            parser.parse(None, args)?.tensor(0)?.bump_version();
            Ok(Obj::none())
        }),
        method!("_edge_tensor", edge_tensor),
        method!("_grad_accumulator", |_m: &Obj, args: Args<'_>| {
            let bound = crate::args::parser!("_grad_accumulator(Tensor leaf)").parse(None, args)?;
            match corten_autograd::graph::grad_accumulator(&bound.tensor(0)?)? {
                Some(node) => wrap(&node),
                None => Ok(Obj::none()),
            }
        }),
    ]
}
