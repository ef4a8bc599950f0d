//! The base of `corten.nn.Module`: how its attributes are found and what calling it does.
//!
//! Parameters, buffers, children and hooks stay in the dictionaries of the instances, which programs
//! read and write; this is only the way through them that every forward pass takes.

mod attributes;

use crate::py::class::TypeBuilder;
use crate::py::errors::{attribute_error, type_error};
use crate::py::{Args, Obj, Py, ffi, method, name, slot};
use corten_core::fast_paths;
use std::sync::atomic::{AtomicPtr, Ordering};

/// What `corten.nn` tells once about its modules.
struct Rules {
    /// The dictionaries of hooks for all modules.
    hooks: Vec<Obj>,
    /// `Module._call_impl`, which runs hooks.
    call_impl: Obj,
}

static RULES: AtomicPtr<Rules> = AtomicPtr::new(std::ptr::null_mut());

pub(crate) fn functions() -> Vec<ffi::PyMethodDef> {
    vec![method!("_set_module_rules", |_m: &Obj, args: Args<'_>| {
        let [hooks, call_impl] = args.positional else {
            return Err(type_error("the hooks and the slow call expected"));
        };
        let rules = Rules { hooks: hooks.items()?, call_impl: call_impl.clone() };
        // Kept for ever, like the classes that they belong to.
        RULES.store(Box::into_raw(Box::new(rules)), Ordering::Release);
        Ok(Obj::none())
    })]
}

pub(crate) fn add_to(module: &Obj) -> Py<()> {
    let base = TypeBuilder::new(c"corten._C._ModuleBase", 0)
        .flags(ffi::Py_TPFLAGS_BASETYPE)
        .slot(ffi::Py_tp_call, slot!(call call))
        .methods([
            method!("__getattr__", member),
            method!("__init_subclass__", attributes::adopt_new, ffi::METH_CLASS),
        ])
        .build()?;
    attributes::init(&base)?;
    module.set_attr_str(c"_ModuleBase", &base)
}

/// `__getattr__(name)`: a parameter, a buffer or a child, where the usual places have nothing.
fn member(module: &Obj, args: Args<'_>) -> Py<Obj> {
    let [wanted] = args.positional else {
        return Err(type_error("__getattr__ takes the name of an attribute"));
    };
    member_named(module, &module.instance_dict()?, wanted)
}

fn member_named(module: &Obj, own: &Obj, wanted: &Obj) -> Py<Obj> {
    for members in [name!("_parameters"), name!("_buffers"), name!("_modules")] {
        // Held: keys may compare in ways of their own, and take it away meanwhile.
        if let Some(members) = own.dict_peek(members, Obj::clone)?
            && members.is_dict()
            && let Some(found) = members.dict_get(wanted)?
        {
            return Ok(found);
        }
    }
    Err(attribute_error(format!(
        "'{}' object has no attribute '{}'",
        crate::py::obj::type_name(&module.type_obj()),
        wanted.as_str()?
    )))
}

/// `module(*args, **kwargs)`: `forward` where no hook is set, else the call that runs hooks.
fn call(module: &Obj, args: &Obj, kwargs: Option<&Obj>) -> Py<Obj> {
    let own = module.instance_dict()?;
    if !fast_paths() || !is_dense_cpu(module, &own)? {
        return module.attr(name!("_call_impl"))?.call_tuple(args, kwargs);
    }
    let forward = name!("forward");
    if kwargs.is_none()
        && let Some(method) = attributes::method_of(module, &own, forward, Obj::clone)?
        && let Some(result) = method.call_with_first(module, args)
    {
        return result;
    }
    module.attr(forward)?.call_tuple(args, kwargs)
}

/// Whether no hook is set for this module or for all, and its class calls like the others.
fn is_dense_cpu(module: &Obj, own: &Obj) -> Py<bool> {
    // SAFETY: what is stored is never freed or changed.
    let Some(rules) = (unsafe { RULES.load(Ordering::Acquire).as_ref() }) else {
        return Ok(false);
    };
    let hooks = [
        name!("_forward_hooks"),
        name!("_forward_pre_hooks"),
        name!("_backward_hooks"),
        name!("_backward_pre_hooks"),
    ];
    for hooks in hooks {
        if own.dict_peek(hooks, Obj::dict_len)?.flatten() != Some(0) {
            return Ok(false);
        }
    }
    for hooks in &rules.hooks {
        if hooks.dict_len() != Some(0) {
            return Ok(false);
        }
    }
    let call_impl = name!("_call_impl");
    let is_usual = |method: &Obj| method.is(&rules.call_impl);
    Ok(match attributes::method_of(module, own, call_impl, is_usual)? {
        Some(is_usual) => is_usual,
        None => {
            own.dict_peek(call_impl, |_| ())?.is_none()
                && module.type_obj().attr(call_impl)?.is(&rules.call_impl)
        }
    })
}
