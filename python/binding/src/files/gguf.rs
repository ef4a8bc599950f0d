//! GGML's files.

use super::path::readable;
use super::values::{from_object, named_tensors, to_object};
use crate::args::parser;
use crate::py::class::{Class, TypeBuilder, instance, make, this};
use crate::py::gil::detach;
use crate::py::{Args, Obj, Py, TypeCell, ffi, method};
use crate::tensor;
use corten::io::Value;
use corten::io::gguf::{self, Opened};
use std::ffi::CStr;

static TYPE: TypeCell = TypeCell::new();

struct PyOpened(Opened);

impl Class for PyOpened {
    const NAME: &'static CStr = c"corten._C._Gguf";

    fn cell() -> &'static TypeCell {
        &TYPE
    }

    fn describe(builder: TypeBuilder) -> TypeBuilder {
        builder.doc(c"A mapped GGUF file.").methods([
            method!("metadata", |s: &Obj, _a: Args<'_>| {
                let dict = Obj::dict()?;
                for (name, value) in get_this(s).metadata() {
                    dict.dict_set(&Obj::str_from(name)?, &to_object(value)?)?;
                }
                Ok(dict)
            }),
            method!("describe", |s: &Obj, _a: Args<'_>| {
                let tensors = get_this(s).tensors().iter().map(|info| {
                    let (name, ty) = (Obj::str_from(&info.name), &info.element_type);
                    let has_dtype = Obj::bool(ty.dtype.is_some());
                    let shape = Obj::int_tuple(&info.shape);
                    Obj::tuple([name, Obj::str_from(ty.name), shape, Ok(has_dtype)])
                });
                Obj::list(tensors)
            }),
            method!("tensor", |s: &Obj, args: Args<'_>| {
                let bound = parser!("tensor(str name)").parse(None, args)?;
                tensor::wrap_owned(get_this(s).tensor(bound.str(0)?)?)
            }),
            method!("weights", |s: &Obj, args: Args<'_>| {
                let bound = parser!("weights(str name)").parse(None, args)?;
                tensor::wrap_owned(get_this(s).weights(bound.str(0)?)?)
            }),
            method!("dequantized", |s: &Obj, args: Args<'_>| {
                let bound = parser!("dequantized(str name)").parse(None, args)?;
                let (opened, name) = (get_this(s), bound.str(0)?);
                tensor::wrap_owned(detach(|| opened.dequantized(name))?)
            }),
        ])
    }
}

fn get_this(object: &Obj) -> &Opened {
    &this::<PyOpened>(object).0
}

/// The file of an object.
fn expect_opened(object: &Obj) -> Py<&Opened> {
    if !TYPE.is_instance(object) {
        return Err(crate::py::errors::type_error("a GGUF file is expected"));
    }
    Ok(get_this(object))
}

/// Makes the type.
pub(super) fn add_to(module: &Obj) -> Py<()> {
    module.set_attr_str(c"_Gguf", &make::<PyOpened>()?)
}

/// The functions of the module.
pub(super) fn functions() -> Vec<ffi::PyMethodDef> {
    vec![
        method!("_gguf_open", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_gguf_open(any path)").parse(None, args)?;
            let path = readable(bound.object(0)?)?;
            instance(PyOpened(detach(|| Opened::new(path))?))
        }),
        method!("_gguf_write", |_m: &Obj, args: Args<'_>| {
            let parser =
                parser!("_gguf_write(any metadata, any tensors, any write, any model=None)");
            let bound = parser.parse(None, args)?;
            let pairs = bound.object(0)?.call_method(crate::py::name!("items"), &[])?.items()?;
            let pair = |pair: &Obj| -> Py<(String, Value)> {
                let (name, value) = (pair.sequence_item(0)?, pair.sequence_item(1)?);
                Ok((name.as_str()?.to_owned(), from_object(&value)?))
            };
            let metadata: Vec<_> = pairs.iter().map(pair).collect::<Py<_>>()?;
            let (tensors, put) = (named_tensors(bound.object(1)?)?, bound.object(2)?);
            let model = bound.get(3).map(|model| expect_opened(model)).transpose()?;
            gguf::write_like(model, &metadata, &tensors, |piece| {
                let piece = Obj::bytes(piece).and_then(|piece| put.call(&[&piece]));
                piece.map(drop).map_err(crate::py::Raised::into_error)
            })?;
            Ok(Obj::none())
        }),
    ]
}
