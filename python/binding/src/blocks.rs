//! Block-quantised tensors.

use crate::args::parser;
use crate::py::gil::detach;
use crate::py::{Args, Obj, Py, errors, ffi, method};
use crate::tensor;
use corten::blocks::Format;
use corten_ops::blocks;

/// The functions of the module.
pub(crate) fn functions() -> Vec<ffi::PyMethodDef> {
    vec![
        method!("_block_formats", |_m: &Obj, _a: Args<'_>| {
            Obj::list(Format::ALL.iter().map(|format| {
                let elements = Obj::int(format.block_elements() as i64);
                Obj::tuple([
                    Obj::str_from(format.name()),
                    elements,
                    Obj::int(format.block_bytes() as i64),
                ])
            }))
        }),
        method!("_block_format", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_block_format(Tensor tensor)").parse(None, args)?;
            let tensor = bound.tensor(0)?;
            match blocks::format_of(&tensor) {
                Some(format) => Obj::str_from(format.name()),
                None => Ok(Obj::none()),
            }
        }),
        method!("_blocks_of", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_blocks_of(Tensor tensor)").parse(None, args)?;
            let tensor = bound.tensor(0)?;
            let Some((rows, is_transposed)) = blocks::stored(&tensor) else {
                return Ok(Obj::none());
            };
            let (bytes, shape) = (tensor::wrap(rows.bytes()), Obj::int_tuple(rows.sizes()));
            let name = Obj::str_from(rows.format().name());
            Obj::tuple([name, bytes, shape, Ok(Obj::bool(is_transposed))])
        }),
        method!("_block_tensor", |_m: &Obj, args: Args<'_>| {
            let parser = parser!("_block_tensor(str format, Tensor bytes, int[] size)");
            let bound = parser.parse(None, args)?;
            let (format, bytes) = (format_named(bound.str(0)?)?, bound.tensor(1)?);
            tensor::wrap_owned(blocks::from_bytes(format, &bytes, &bound.ints(2)?)?)
        }),
        method!("_quantize_blocks", |_m: &Obj, args: Args<'_>| {
            let parser = parser!("_quantize_blocks(Tensor tensor, str format)");
            let bound = parser.parse(None, args)?;
            let (tensor, format) = (bound.tensor(0)?, format_named(bound.str(1)?)?);
            tensor::wrap_owned(detach(|| blocks::quantize(&tensor, format))?)
        }),
    ]
}

/// The format of a name as files spell it.
fn format_named(name: &str) -> Py<Format> {
    Format::of_name(name)
        .ok_or_else(|| errors::value_error(format!("no block format is called {name:?}")))
}
