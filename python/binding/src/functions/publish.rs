//! Makes the Python objects of the registry's operators: functions of the module and its
//! namespaces, and the method table of `Tensor`.

use super::call::call_group;
use super::group::{Group, Mode};
use super::trampoline;
use crate::py::class::{Class, TypeBuilder, TypeCell, instance, this};
use crate::py::{Args, Obj, Py, ffi, method, name, slot};
use corten_ops::{AnyOp, OpKind, registry};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::{CStr, CString};
use std::sync::{OnceLock, PoisonError, RwLock};

/// Everything that is visible from Python.
struct Published {
    // Ordered maps: a hash table would be one large block that is copied as it grows, and memory
    // that is touched once stays resident.
    functions: BTreeMap<&'static str, &'static Group>,
    methods: BTreeMap<&'static str, &'static Group>,
    method_list: Vec<&'static Group>,
    /// Namespace and name of each function.
    homes: Vec<(&'static str, &'static Group)>,
}

static PUBLISHED: OnceLock<Published> = OnceLock::new();
/// Functions looked up by name that are in no namespace, made when first asked for.
static HIDDEN: RwLock<Vec<&'static Group>> = RwLock::new(Vec::new());

fn published() -> &'static Published {
    PUBLISHED.get_or_init(collect)
}

/// The overloads of one name.
#[derive(Default)]
struct Bucket {
    without_out: Vec<&'static dyn AnyOp>,
    outs: Vec<&'static dyn AnyOp>,
}

fn collect() -> Published {
    let mut buckets: BTreeMap<&'static str, Bucket> = BTreeMap::new();
    for op in registry::all() {
        let def = op.def();
        if def.namespace != "aten" {
            continue;
        }
        let bucket = buckets.entry(def.name).or_default();
        let list = if def.kind == OpKind::Out { &mut bucket.outs } else { &mut bucket.without_out };
        list.push(op);
    }
    let mut found = Published {
        functions: BTreeMap::new(),
        methods: BTreeMap::new(),
        // Bounded: modules.
        method_list: Vec::with_capacity(buckets.len()),
        // Bounded: modules.
        homes: Vec::with_capacity(buckets.len()),
    };
    for (name, bucket) in buckets {
        let all = || bucket.without_out.iter().chain(&bucket.outs);
        let is_function = all().any(|op| op.def().function);
        let homes: BTreeSet<&'static str> =
            all().flat_map(|op| op.def().python.iter().copied()).collect();
        if is_function || !homes.is_empty() {
            let visible = |list: &[&'static dyn AnyOp]| -> Vec<&'static dyn AnyOp> {
                let shown = |op: &&'static dyn AnyOp| {
                    op.def().function || !op.def().python.is_empty() || op.def().kind == OpKind::Out
                };
                list.iter().copied().filter(shown).collect()
            };
            let group = leak(Group::new(
                name,
                Mode::Function,
                visible(&bucket.without_out),
                visible(&bucket.outs),
            ));
            found.functions.insert(name, group);
            if is_function {
                found.homes.push(("", group));
            }
            found.homes.extend(
                homes.into_iter().filter(|home| !home.is_empty()).map(|home| (home, group)),
            );
        }
        let methods: Vec<&'static dyn AnyOp> =
            bucket.without_out.iter().copied().filter(|op| op.def().method).collect();
        if !methods.is_empty() {
            let group = leak(Group::new(name, Mode::Method, methods, Vec::new()));
            found.methods.insert(name, group);
            found.method_list.push(group);
        }
    }
    found
}

fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

fn leak_text(text: &str) -> &'static CStr {
    Box::leak(CString::new(text).unwrap_or_default().into_boxed_c_str())
}

/// The group of a name; a function that is in no namespace is made on demand.
pub(crate) fn find(name: &str, mode: Mode) -> Option<&'static Group> {
    let published = published();
    let table = if mode == Mode::Function { &published.functions } else { &published.methods };
    if let Some(group) = table.get(name) {
        return Some(group);
    }
    if mode == Mode::Method {
        return None;
    }
    let known = HIDDEN.read().unwrap_or_else(PoisonError::into_inner);
    if let Some(group) = known.iter().find(|group| group.name == name) {
        return Some(group);
    }
    drop(known);
    let ops = registry::overloads(&format!("aten::{name}"));
    let (outs, without_out): (Vec<_>, Vec<_>) =
        ops.into_iter().partition(|op| op.def().kind == OpKind::Out);
    let first = without_out.first().or(outs.first())?;
    let group = leak(Group::new(first.def().name, Mode::Function, without_out, outs));
    HIDDEN.write().unwrap_or_else(PoisonError::into_inner).push(group);
    Some(group)
}

/// The rows of `Tensor`'s method table for the registry's methods, except those written by hand.
pub(crate) fn method_rows(taken: &HashSet<&CStr>) -> Vec<ffi::PyMethodDef> {
    let groups: Vec<&'static Group> = published()
        .method_list
        .iter()
        .copied()
        .filter(|group| !taken.iter().any(|name| name.to_bytes() == group.name.as_bytes()))
        .collect();
    let rows = groups
        .iter()
        .enumerate()
        .filter_map(|(index, group)| {
            let function = trampoline::function(index)?;
            Some(crate::py::call::method_def_doc(leak_text(group.name), function, 0, doc(group)))
        })
        .collect();
    trampoline::install(groups);
    rows
}

/// The doc string: a text signature where there is one signature, then what the registry says.
fn doc(group: &Group) -> &'static CStr {
    let text = match group.ops() {
        [only] => match text_signature(only.def().schema, group.mode) {
            Some(list) => format!("{}({list})\n--\n\n{}", group.name, group.doc()),
            None => group.doc().to_owned(),
        },
        _ => group.doc().to_owned(),
    };
    leak_text(&text)
}

/// The parameter list as `inspect.signature` reads it; nothing where it has no such form.
fn text_signature(schema: &str, mode: Mode) -> Option<String> {
    let (_, rest) = schema.split_once('(')?;
    let (list, _) = rest.rsplit_once(") -> ")?;
    let mut parts = Vec::new();
    if mode == Mode::Method {
        parts.push("$self".to_owned());
    }
    for argument in crate::args::split_arguments(list) {
        if argument == "*" {
            parts.push("*".to_owned());
            continue;
        }
        let (declaration, default) = match argument.rsplit_once('=') {
            Some((declaration, default)) => (declaration, Some(default)),
            None => (argument, None),
        };
        let name = declaration.trim().rsplit_once(' ')?.1;
        if name == "self" && mode == Mode::Method {
            continue;
        }
        let name = if name == "self" { "input" } else { name };
        parts.push(match default {
            None => name.to_owned(),
            Some(default) if default.starts_with('[') => format!("{name}=()"),
            Some(default)
                if default.starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '\'') =>
            {
                format!("{name}={default}")
            }
            Some(default @ ("True" | "False" | "None")) => format!("{name}={default}"),
            Some(_) => format!("{name}=None"),
        });
    }
    if parts.last().is_some_and(|last| last == "*") {
        parts.pop();
    }
    Some(parts.join(", "))
}

static TYPE: TypeCell = TypeCell::new();

/// What a function of the module is bound to: its operator.
struct PyOperator {
    group: &'static Group,
    home: &'static str,
}

impl Class for PyOperator {
    const NAME: &'static CStr = c"corten._C._Operator";

    fn cell() -> &'static TypeCell {
        &TYPE
    }

    fn describe(builder: TypeBuilder) -> TypeBuilder {
        builder
            .doc(c"An operator of the registry.")
            .flags(ffi::Py_TPFLAGS_DISALLOW_INSTANTIATION)
            .slot(ffi::Py_tp_getattro, slot!(binary get_attribute))
            .methods([method!("__reduce__", |s: &Obj, _a: Args<'_>| {
                let lookup =
                    crate::py::convert::import(name!("corten._C"))?.attr(name!("_operator"))?;
                let operator = this::<PyOperator>(s);
                let args = [operator.home, operator.group.name].map(Obj::str_from);
                Obj::tuple([Ok(lookup), Obj::tuple(args)])
            })])
    }
}

/// A pickled function is found again as an attribute of its operator.
fn get_attribute(object: &Obj, wanted: &Obj) -> Py<Obj> {
    object.attr_or(wanted, |wanted| {
        let operator = this::<PyOperator>(object);
        if wanted == "_namespace" {
            return operator.group.namespace().map(Obj::str_from).transpose();
        }
        match wanted == operator.group.name {
            true => function_object(operator.home, operator.group).map(Some),
            false => Ok(None),
        }
    })
}

unsafe extern "C" fn enter(
    operator: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    crate::py::call::guard(|| {
        // SAFETY: CPython passes live objects for the time of the call; a builtin function is
        // bound to the operator it was made with.
        let (operator, args) = unsafe { (Obj::peek(&operator), Args::new(args, count, &names)) };
        call_group(this::<PyOperator>(operator).group, None, args)
    })
}

/// The function object of a group, made once per home.
pub(crate) fn function_object(home: &'static str, group: &'static Group) -> Py<Obj> {
    static MADE: OnceLock<RwLock<HashMap<(usize, &'static str), usize>>> = OnceLock::new();
    let made = MADE.get_or_init(RwLock::default);
    let key = (std::ptr::from_ref(group) as usize, home);
    if let Some(&address) = made.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
        // SAFETY: function objects are kept for ever.
        return Ok(unsafe { Obj::borrowed(address as *mut ffi::PyObject) });
    }
    let operator = instance(PyOperator { group, home })?;
    let row = leak(crate::py::call::method_def_doc(leak_text(group.name), enter, 0, doc(group)));
    let module = if home.is_empty() { "corten".to_owned() } else { format!("corten.{home}") };
    let module = Obj::str_from(&module)?;
    // SAFETY: the row is leaked; the function counts its references to operator and module name.
    let function = unsafe {
        let row = std::ptr::from_ref(row).cast_mut();
        Obj::owned(ffi::PyCFunction_NewEx(row, operator.as_ptr(), module.as_ptr()))?
    };
    let address = function.clone().into_ptr() as usize;
    made.write().unwrap_or_else(PoisonError::into_inner).insert(key, address);
    Ok(function)
}

/// The Python object that `__torch_function__` gets for a group.
pub(crate) fn public_object(group: &'static Group) -> Py<Obj> {
    if group.mode == Mode::Method {
        let name = leak_text(group.name);
        return crate::tensor::TENSOR.obj().attr_str(name);
    }
    // The last home's object is the one that its namespace has, and a home goes before the package.
    let own = published().homes.iter().filter(|(_, other)| std::ptr::eq(*other, group));
    function_object(own.map(|(home, _)| *home).max().unwrap_or(""), group)
}

/// The attribute of `_C` that holds a home's functions.
fn namespace_name(home: &str) -> String {
    match home {
        "" => "_functions".to_owned(),
        "nn.functional" | "_nn" => "_nn".to_owned(),
        other => format!("_{}", other.trim_start_matches('_').replace('.', "_")),
    }
}

/// Adds the namespaces to the module: `_functions`, `_nn`, `_linalg`, `_special`, `_fft`, ….
pub(crate) fn add_to(module: &Obj) -> Py<()> {
    crate::py::class::make::<PyOperator>()?;
    let mut spaces: BTreeMap<String, Obj> = BTreeMap::new();
    for home in ["", "nn.functional", "linalg", "special", "fft", "sparse"] {
        space(module, &mut spaces, &namespace_name(home))?;
    }
    for (home, group) in &published().homes {
        let space = space(module, &mut spaces, &namespace_name(home))?;
        let function = function_object(home, group)?;
        space.set_attr_str(leak_text(group.name), &function)?;
        // `linalg_det` is also `det` in its own namespace.
        if let Some(short) = group.name.strip_prefix(home).and_then(|rest| rest.strip_prefix('_'))
            && !home.is_empty()
        {
            space.set_attr_str(leak_text(short), &function)?;
        }
    }
    Ok(())
}

fn space(module: &Obj, spaces: &mut BTreeMap<String, Obj>, name: &str) -> Py<Obj> {
    if let Some(found) = spaces.get(name) {
        return Ok(found.clone());
    }
    let qualified = leak_text(&format!("corten._C.{name}"));
    // SAFETY: a terminated name.
    let made = unsafe { Obj::owned(ffi::PyModule_New(qualified.as_ptr()))? };
    module.set_attr_str(leak_text(name), &made)?;
    spaces.insert(name.to_owned(), made.clone());
    Ok(made)
}

/// `_operator(home, name)`: what a pickled function is found by.
pub(crate) fn lookup(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let bound = crate::args::parser!("_operator(str home, str name)").parse(None, args)?;
    let (home, wanted) = (bound.str(0)?, bound.str(1)?);
    let found = published()
        .homes
        .iter()
        .find(|(space, group)| *space == home && group.name == wanted)
        .map(|(space, group)| (*space, *group));
    match found {
        Some((home, group)) => instance(PyOperator { group, home }),
        None => Err(crate::py::errors::attribute_error(format!("no operator {home}.{wanted}"))),
    }
}
