//! The registry as data: what `python -m corten.ops --json` prints, and calls by qualified name.

use crate::args::parser;
use crate::py::errors::{attribute_error, type_error};
use crate::py::{Args, Obj, Py, ffi, method, name};
use crate::types::structseq;
use corten_ops::registry::{Autocast, Cost};
use corten_ops::{AnyOp, Gradient, OpKind, registry};

/// The functions of the module.
pub(crate) fn functions() -> Vec<ffi::PyMethodDef> {
    vec![
        method!("_ops", |_m: &Obj, _a: Args<'_>| {
            Obj::list(registry::all().into_iter().map(describe))
        }),
        method!("_ops_tagged", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_ops_tagged(str tag)").parse(None, args)?;
            let tag = bound.str(0)?;
            let tagged = registry::all().into_iter().filter(|op| op.def().tags.contains(&tag));
            Obj::list(tagged.map(|op| Obj::str_from(op.def().name)))
        }),
        method!("_op_overloads", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_op_overloads(str name)").parse(None, args)?;
            let found = registry::overloads(bound.str(0)?);
            Obj::list(found.into_iter().map(|op| Obj::str_from(op.def().overload)))
        }),
        method!("_op_schema", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_op_schema(str name)").parse(None, args)?;
            let def = find(bound.str(0)?)?.def();
            Obj::str_from(&format!("{}::{}", def.namespace, def.schema))
        }),
        method!("_op_call", call),
        method!("_result_names", |_m: &Obj, _a: Args<'_>| {
            let named = registry::all().into_iter().filter(|op| !result_fields(*op).is_empty());
            Obj::list(named.map(|op| Obj::str_from(&result_name(op))))
        }),
        method!("_result_fields", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_result_fields(str name)").parse(None, args)?;
            let wanted = bound.str(0)?;
            let op = registry::all()
                .into_iter()
                .find(|op| !result_fields(*op).is_empty() && result_name(*op) == wanted);
            let fields = op.map(result_fields).unwrap_or_default();
            Obj::list(fields.iter().map(|field| Obj::str_from(field)))
        }),
        method!("_result_type", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_result_type(str name, any fields)").parse(None, args)?;
            let fields = bound.object(1)?.items()?;
            let fields = fields.iter().map(Obj::as_str).collect::<Py<Vec<&str>>>()?;
            Ok(structseq::type_for(bound.str(0)?, &fields)?.obj())
        }),
    ]
}

/// The names of an operator's results, where it has several with names.
fn result_fields(op: &'static dyn AnyOp) -> Vec<String> {
    crate::functions::result_names(op.def().schema)
}

/// The name of the class of an operator's results.
fn result_name(op: &'static dyn AnyOp) -> String {
    let def = op.def();
    if def.kind == OpKind::Out { format!("{}_out", def.name) } else { def.name.to_owned() }
}

fn find(name: &str) -> Py<&'static dyn AnyOp> {
    registry::find(name).ok_or_else(|| attribute_error(format!("no operator {name}")))
}

/// `_op_call(name, *args, **kwargs)`: calls one overload by its qualified name.
fn call(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let [wanted, rest @ ..] = args.positional else {
        return Err(type_error("the name of an operator expected"));
    };
    let op = find(wanted.as_str()?)?;
    crate::functions::call_overload(op, Args { positional: rest, ..args })
}

fn describe(op: &'static dyn AnyOp) -> Py<Obj> {
    let def = op.def();
    let dict = Obj::dict()?;
    let tags = Obj::list(def.tags.iter().map(|tag| Obj::str_from(tag)));
    let set = |key: &crate::py::names::Name, value: Py<Obj>| dict.dict_set(&key.obj(), &value?);
    set(name!("name"), Obj::str_from(&def.qualified_name()))?;
    set(name!("schema"), Obj::str_from(&format!("{}::{}", def.namespace, def.schema)))?;
    set(name!("tags"), tags)?;
    set(name!("numbers"), Ok(Obj::bool(def.numbers)))?;
    let kind = match def.kind {
        OpKind::Functional => "functional",
        OpKind::Inplace => "inplace",
        OpKind::Out => "out",
        OpKind::View => "view",
    };
    set(name!("kind"), Obj::str_from(kind))?;
    set(name!("function"), Ok(Obj::bool(def.function)))?;
    set(name!("method"), Ok(Obj::bool(def.method)))?;
    set(name!("python"), Obj::list(def.python.iter().map(|home| Obj::str_from(home))))?;
    set(name!("doc"), Obj::str_from(def.doc))?;
    set(name!("source"), Obj::str_from(def.source))?;
    set(name!("implementation"), Obj::str_from(def.implementation))?;
    let gradient = match def.gradient {
        Gradient::Formula => "formula",
        Gradient::None => "none",
        Gradient::Composite => "composite",
        Gradient::Unknown => "unknown",
    };
    set(name!("gradient"), Obj::str_from(gradient))?;
    let formulas = Obj::dict()?;
    for (arguments, text) in def.formulas {
        formulas.dict_set(&Obj::str_from(arguments)?, &Obj::str_from(text)?)?;
    }
    set(name!("formulas"), Ok(formulas))?;
    let keys = op.kernels().into_iter().map(|(target, _)| target.to_string());
    let keys: std::collections::BTreeSet<String> = keys.collect();
    set(name!("kernels"), Obj::list(keys.iter().map(|key| Obj::str_from(key))))?;
    let cost = match def.cost {
        Cost::Stream => "stream",
        Cost::Product => "product",
    };
    set(name!("cost"), Obj::str_from(cost))?;
    let autocast = match def.autocast {
        None => Ok(Obj::none()),
        Some(Autocast::Lower) => Obj::str_from("lower"),
        Some(Autocast::Float32) => Obj::str_from("float32"),
        Some(Autocast::Widest) => Obj::str_from("widest"),
    };
    set(name!("autocast"), autocast)?;
    let names = def.names.map_or_else(|| Ok(Obj::none()), |rule| Obj::str_from(rule.name));
    set(name!("names"), names)?;
    Ok(dict)
}
