//! Models in the format ONNX.

use super::values::{described, to_object};
use crate::args::parser;
use crate::creation::Buffer;
use crate::py::gil::detach;
use crate::py::{Args, Obj, Py, Raised, ffi, method};
use corten::onnx::{External, Model, Tensors};
use std::path::PathBuf;

/// The functions of the module.
pub(super) fn functions() -> Vec<ffi::PyMethodDef> {
    vec![
        method!("_onnx_write", write),
        method!("_onnx_read", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_onnx_read(any data, str? folder=None)").parse(None, args)?;
            let view = Buffer::new(bound.object(0)?)?;
            let folder = bound.str_opt(1)?.map(PathBuf::from);
            let tensors = folder.as_deref().map_or(Tensors::Within, Tensors::Beside);
            let (start, length, _) = view.memory();
            if length == 0 {
                return to_object(&Model::from_bytes(&[], tensors)?.to_value());
            }
            // SAFETY: the view keeps so many bytes, and no code of others runs while they are read.
            let bytes = unsafe { std::slice::from_raw_parts(start, length) };
            to_object(&detach(|| Model::from_bytes(bytes, tensors))?.to_value())
        }),
    ]
}

/// `_onnx_write(model, write, location, write_data)`: calls `write` with the pieces of a model, and before it
/// `write_data` with those of a file of its large tensors where that has a name.
fn write(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let parser =
        parser!("_onnx_write(any model, any write, str? location=None, any? write_data=None, int? least=None)");
    let bound = parser.parse(None, args)?;
    let model = Model::from_value(&described(bound.object(0)?)?)?;
    let send = |to: &Obj, piece: &[u8]| {
        let piece = Obj::bytes(piece).and_then(|piece| to.call(&[&piece]));
        piece.map(drop).map_err(Raised::into_error)
    };
    let least = bound.int_opt(4)?.map_or(256, |least| least.max(0) as usize);
    let external =
        bound.str_opt(2)?.map(|location| External { location: location.to_owned(), least });
    if let Some(external) = &external {
        let to = bound.object(3)?;
        model.write_data(external, |piece| send(to, piece))?;
    }
    let to = bound.object(1)?;
    model.write(external.as_ref(), |piece| send(to, piece))?;
    Ok(Obj::none())
}
