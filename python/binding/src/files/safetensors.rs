//! The safetensors format.

use super::path::readable;
use super::values::{dict_of, named_tensors};
use crate::args::parser;
use crate::creation::Buffer;
use crate::py::class::{Class, TypeBuilder, instance, make, this};
use crate::py::gil::detach;
use crate::py::{Args, Obj, Py, Raised, TypeCell, ffi, method};
use crate::{tensor, types};
use corten::io::safetensors::{self, Metadata, Opened};
use std::ffi::CStr;

static TYPE: TypeCell = TypeCell::new();

struct PyOpened(Opened);

impl Class for PyOpened {
    const NAME: &'static CStr = c"corten._C._Safetensors";

    fn cell() -> &'static TypeCell {
        &TYPE
    }

    fn describe(builder: TypeBuilder) -> TypeBuilder {
        builder.doc(c"A mapped safetensors file.").methods([
            method!("names", |s: &Obj, _a: Args<'_>| {
                let tensors = get_this(s).tensors().iter();
                Obj::list(tensors.map(|info| Obj::str_from(info.name())))
            }),
            method!("metadata", |s: &Obj, _a: Args<'_>| metadata(get_this(s).metadata())),
            method!("describe", |s: &Obj, args: Args<'_>| {
                let bound = parser!("describe(str name)").parse(None, args)?;
                let info = get_this(s).info(bound.str(0)?)?;
                let dtype = types::dtype::object(info.dtype());
                let start = Obj::int(info.start() as i64);
                Obj::tuple([Ok(dtype), Obj::int_tuple(info.shape()), start])
            }),
            method!("tensor", |s: &Obj, args: Args<'_>| {
                let bound = parser!("tensor(str name)").parse(None, args)?;
                let (opened, name) = (get_this(s), bound.str(0)?);
                tensor::wrap_owned(detach(|| opened.tensor(name))?)
            }),
        ])
    }
}

fn get_this(object: &Obj) -> &Opened {
    &this::<PyOpened>(object).0
}

fn metadata(found: Option<&Metadata>) -> Py<Obj> {
    let Some(found) = found else { return Ok(Obj::none()) };
    let mut pairs: Vec<_> = found.iter().collect();
    pairs.sort();
    let dict = Obj::dict()?;
    for (key, value) in pairs {
        dict.dict_set(&Obj::str_from(key)?, &Obj::str_from(value)?)?;
    }
    Ok(dict)
}

/// Makes the type.
pub(super) fn add_to(module: &Obj) -> Py<()> {
    module.set_attr_str(c"_Safetensors", &make::<PyOpened>()?)
}

/// The functions of the module.
pub(super) fn functions() -> Vec<ffi::PyMethodDef> {
    vec![
        method!("_safetensors_open", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_safetensors_open(any path)").parse(None, args)?;
            let path = readable(bound.object(0)?)?;
            instance(PyOpened(detach(|| Opened::new(path))?))
        }),
        method!("_safetensors_read", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_safetensors_read(any data)").parse(None, args)?;
            let view = Buffer::new(bound.object(0)?)?;
            let (start, length, _) = view.memory();
            if length == 0 {
                return dict_of(safetensors::read(&[])?);
            }
            // SAFETY: the view keeps so many bytes, and no code of others runs while they are read.
            let bytes = unsafe { std::slice::from_raw_parts(start, length) };
            dict_of(safetensors::read(bytes)?)
        }),
        method!("_safetensors_write", write),
    ]
}

/// `_safetensors_write(tensors, metadata, write)`: calls `write` with the pieces of a file.
fn write(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let parser = parser!("_safetensors_write(any tensors, any metadata, any write)");
    let bound = parser.parse(None, args)?;
    let tensors = named_tensors(bound.object(0)?)?;
    let metadata: Option<Metadata> = match bound.get(1).filter(|given| !given.is_none()) {
        None => None,
        Some(given) => {
            let pairs = given.call_method(crate::py::name!("items"), &[])?.items()?;
            let pair = |pair: &Obj| {
                let (key, value) = (pair.sequence_item(0)?, pair.sequence_item(1)?);
                Ok((key.as_str()?.to_owned(), value.as_str()?.to_owned()))
            };
            Some(pairs.iter().map(pair).collect::<Py<_>>()?)
        }
    };
    let put = bound.object(2)?;
    let named = tensors.iter().map(|(name, tensor)| (name.as_str(), tensor));
    safetensors::write(named, metadata.as_ref(), |piece| {
        let piece = Obj::bytes(piece).and_then(|piece| put.call(&[&piece]));
        piece.map(drop).map_err(Raised::into_error)
    })?;
    Ok(Obj::none())
}
