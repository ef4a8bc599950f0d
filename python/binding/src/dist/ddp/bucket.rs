//! `GradBucket`.

use super::list_of;
use crate::py::class::{Class, TypeBuilder, instance, this, value};
use crate::py::errors::type_error;
use crate::py::{Args, Obj, Py, TypeCell, ffi, method};
use crate::tensor;
use corten_dist::ddp::GradBucket;
use std::ffi::CStr;
use std::sync::Arc;

static TYPE: TypeCell = TypeCell::new();

/// A bucket as hooks see it.
pub(super) struct PyBucket(Arc<GradBucket>);

impl Class for PyBucket {
    const NAME: &'static CStr = c"corten._C._distributed_c10d.GradBucket";

    fn cell() -> &'static TypeCell {
        &TYPE
    }

    fn describe(builder: TypeBuilder) -> TypeBuilder {
        builder
            .doc(c"Gradients of several parameters in one tensor, as communication hooks see them.")
            .flags(ffi::Py_TPFLAGS_DISALLOW_INSTANTIATION)
            .methods([
                method!("index", |s: &Obj, _a: Args<'_>| Obj::int(bucket(s).index() as i64)),
                method!("buffer", |s: &Obj, _a: Args<'_>| tensor::wrap(&bucket(s).buffer())),
                method!("gradients", |s: &Obj, _a: Args<'_>| {
                    Obj::list(bucket(s).gradients()?.iter().map(tensor::wrap))
                }),
                method!("is_last", |s: &Obj, _a: Args<'_>| Ok(Obj::bool(bucket(s).is_last()))),
                method!("set_buffer", |s: &Obj, args: Args<'_>| {
                    let [buffer] = args.positional else {
                        return Err(type_error("set_buffer() takes one tensor"));
                    };
                    bucket(s).set_buffer(tensor::expect(buffer)?.clone());
                    Ok(Obj::none())
                }),
                method!("parameters", |s: &Obj, _a: Args<'_>| {
                    Obj::list(bucket(s).parameters().iter().map(tensor::wrap))
                }),
                method!("_sizes", |s: &Obj, _a: Args<'_>| {
                    let sizes = bucket(s).parameters().iter();
                    list_of(&sizes.map(|one| one.numel() as usize).collect::<Vec<_>>())
                }),
            ])
    }
}

fn bucket(object: &Obj) -> &GradBucket {
    &this::<PyBucket>(object).0
}

/// The object of a bucket.
pub(super) fn wrap(bucket: Arc<GradBucket>) -> Py<Obj> {
    instance(PyBucket(bucket))
}

/// The bucket of an object.
pub(super) fn expect(object: &Obj) -> Py<Arc<GradBucket>> {
    value::<PyBucket>(object)
        .map(|bucket| bucket.0.clone())
        .ok_or_else(|| type_error(format!("expected GradBucket but got {}", object.type_name())))
}
