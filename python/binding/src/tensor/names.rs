//! Names of dimensions: the attribute and the methods.

use super::object::{expect, this, wrap_owned};
use super::{attribute, overridable};
use crate::py::errors::{runtime_error, type_error};
use crate::py::{Args, Obj, Py, ffi};
use corten_core::{DimName, check_name};
use corten_ops::Tensor;
use std::sync::Arc;

/// The rows of the attribute table.
pub(super) fn attributes() -> Vec<ffi::PyGetSetDef> {
    vec![attribute!("names", |s: &Obj| tuple(this(s)), set_names)]
}

/// The rows of the method table.
pub(super) fn rows() -> Vec<ffi::PyMethodDef> {
    vec![
        overridable!("has_names", |object: &Obj, args: Args<'_>| {
            check_count("has_names", args, 0)?;
            Ok(Obj::bool(this(object).has_names()))
        }),
        overridable!("rename", |object: &Obj, args: Args<'_>| {
            wrap_owned(match given("rename", args)? {
                Given::Names(names) => this(object).rename(names)?,
                Given::Pairs(pairs) => this(object).rename_pairs(&borrowed(&pairs))?,
            })
        }),
        overridable!("rename_", |object: &Obj, args: Args<'_>| {
            match given("rename_", args)? {
                Given::Names(names) => this(object).rename_(names)?,
                Given::Pairs(pairs) => this(object).rename_pairs_(&borrowed(&pairs))?,
            }
            Ok(object.clone())
        }),
        overridable!("refine_names", |object: &Obj, args: Args<'_>| {
            wrap_owned(this(object).refine_names(positional("refine_names", args)?)?)
        }),
        overridable!("align_to", |object: &Obj, args: Args<'_>| {
            wrap_owned(this(object).align_to(positional("align_to", args)?)?)
        }),
        overridable!("align_as", |object: &Obj, args: Args<'_>| {
            let bound = crate::args::parser!("align_as(Tensor other)").parse(None, args)?;
            wrap_owned(this(object).align_as(expect(bound.object(0)?)?)?)
        }),
    ]
}

/// What `rename` is given.
enum Given {
    Names(Vec<DimName>),
    /// Present and new names.
    Pairs(Vec<(String, DimName)>),
}

fn borrowed(pairs: &[(String, DimName)]) -> Vec<(&str, Option<&str>)> {
    pairs.iter().map(|(old, new)| (old.as_str(), new.as_deref())).collect()
}

fn given(function: &str, args: Args<'_>) -> Py<Given> {
    if args.keywords.is_empty() {
        return positional(function, args).map(Given::Names);
    }
    if !args.positional.is_empty() {
        return Err(runtime_error(format!(
            "{function}: This function takes either positional args or keyword args, but not both. Use \
             tensor.{function}(*names) to name dims and tensor.{function}(**rename_map) to rename dims."
        )));
    }
    let pair = |(at, new): (usize, &Obj)| Ok((args.keyword(at)?, dim_name(new)?));
    args.keywords.iter().enumerate().map(pair).collect::<Py<_>>().map(Given::Pairs)
}

/// Names one by one.
fn positional(function: &str, args: Args<'_>) -> Py<Vec<DimName>> {
    if !args.keywords.is_empty() {
        return Err(type_error(format!("{function}() takes no keyword arguments")));
    }
    args.positional.iter().map(dim_name).collect()
}

fn check_count(function: &str, args: Args<'_>, count: usize) -> Py<()> {
    let found = args.positional.len() + args.keywords.len();
    if found == count {
        return Ok(());
    }
    Err(type_error(format!("{function}() takes {count} arguments ({found} given)")))
}

/// One name: a string or `None`; `...` is a name, too, which methods replace.
pub(crate) fn dim_name(object: &Obj) -> Py<DimName> {
    if object.is_none() {
        return Ok(None);
    }
    // SAFETY: a static of the interpreter.
    if std::ptr::eq(object.as_ptr(), unsafe { ffi::Py_Ellipsis() }) {
        return Ok(Some(Arc::from("...")));
    }
    if !object.is_str() {
        return Err(type_error(format!(
            "a name of a dimension must be a string or None, not {}",
            object.type_name()
        )));
    }
    let name = object.as_str()?;
    if name != "..." {
        check_name(name)?;
    }
    Ok(Some(Arc::from(name)))
}

/// A list of names, or `None` for no names.
pub(crate) fn dim_names(object: &Obj) -> Py<Option<Vec<DimName>>> {
    if object.is_none() {
        return Ok(None);
    }
    if !object.is_tuple() && !object.is_list() {
        return Err(type_error(format!(
            "names must be a tuple of strings, not {}",
            object.type_name()
        )));
    }
    object.items()?.iter().map(dim_name).collect::<Py<_>>().map(Some)
}

fn tuple(tensor: &Tensor) -> Py<Obj> {
    let one = |name: DimName| name.map_or_else(|| Ok(Obj::none()), |name| Obj::str_from(&name));
    let names: Vec<Py<Obj>> = tensor.dim_names().into_iter().map(one).collect();
    Obj::tuple(names)
}

fn set_names(object: &Obj, value: Option<&Obj>) -> Py<()> {
    let Some(value) = value else { return Err(runtime_error("cannot delete names")) };
    Ok(this(object).set_names(dim_names(value)?.as_deref())?)
}
