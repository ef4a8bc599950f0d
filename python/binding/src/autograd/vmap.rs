//! Levels of `vmap` and the tensors that hide a dimension in them.

use crate::args::parser;
use crate::py::{Args, Obj, Py, ffi, method};
use crate::tensor;
use corten_autograd::transform;
use corten_core::Result;
use corten_core::geometry::wrap_dim;
use corten_ops::batched::{self, Randomness};
use corten_ops::{Tensor, op};

/// The functions of the module.
pub(super) fn functions() -> Vec<ffi::PyMethodDef> {
    vec![
        method!("_vmap_increment_nesting", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_vmap_increment_nesting(int batch_size, str randomness)")
                .parse(None, args)?;
            let randomness = Randomness::from_name(bound.str(1)?)?;
            Obj::int(batched::enter(bound.int(0)?, randomness) as i64)
        }),
        method!("_vmap_decrement_nesting", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_vmap_decrement_nesting(int level)").parse(None, args)?;
            batched::exit(bound.int(0)? as u64)?;
            Ok(Obj::none())
        }),
        method!("_add_batch_dim", |_m: &Obj, args: Args<'_>| {
            let bound =
                parser!("_add_batch_dim(Tensor tensor, int dim, int level)").parse(None, args)?;
            let value = bound.tensor(0)?;
            let dim = wrap_dim(bound.int(1)?, value.dim())?;
            tensor::wrap(&batched::wrap(value, dim, bound.int(2)? as u64)?)
        }),
        method!("_remove_batch_dim", |_m: &Obj, args: Args<'_>| {
            let bound =
                parser!("_remove_batch_dim(Tensor tensor, int level, int batch_size, int out_dim)")
                    .parse(None, args)?;
            let level = bound.int(1)? as u64;
            tensor::wrap(&removed(&bound.tensor(0)?, level, bound.int(2)?, bound.int(3)?)?)
        }),
        method!("_vmap_everywhere", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_vmap_everywhere(Tensor tensor)").parse(None, args)?;
            everywhere(&bound.tensor(0)?)
        }),
        method!("_transform_enter", |_m: &Obj, _a: Args<'_>| {
            transform::enter();
            Ok(Obj::none())
        }),
        method!("_transform_exit", |_m: &Obj, _a: Args<'_>| {
            transform::exit()?;
            Ok(Obj::none())
        }),
        method!("_is_transform_active", |_m: &Obj, _a: Args<'_>| Ok(Obj::bool(
            transform::is_active()
        ))),
        method!("_times_turned_off", |_m: &Obj, _a: Args<'_>| Obj::int(
            transform::times_turned_off() as i64
        )),
        method!("_recordable", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_recordable(Tensor tensor)").parse(None, args)?;
            tensor::wrap(&transform::recordable(&bound.tensor(0)?)?)
        }),
    ]
}

/// The functions that look at tensors and levels.
pub(super) fn questions() -> Vec<ffi::PyMethodDef> {
    vec![
        method!("_is_batched", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_is_batched(Tensor tensor)").parse(None, args)?;
            Ok(Obj::bool(batched::is_batched(bound.tensor(0)?.base())))
        }),
        method!("_split_batch", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_split_batch(Tensor tensor, int level)").parse(None, args)?;
            let (tensor, level) = (bound.tensor(0)?, bound.int(1)? as u64);
            match batched::of(&tensor).filter(|found| found.level == level) {
                Some(found) => Obj::tuple([tensor::wrap(&found.value), Obj::int(found.dim as i64)]),
                None => Obj::tuple([tensor::wrap(&tensor), Ok(Obj::none())]),
            }
        }),
        method!("_batch_level", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_batch_level(Tensor tensor)").parse(None, args)?;
            match batched::of(bound.tensor(0)?.base()) {
                Some(found) => Obj::int(found.level as i64),
                None => Ok(Obj::none()),
            }
        }),
        method!("_vmap_info", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_vmap_info(int level)").parse(None, args)?;
            match batched::info(bound.int(0)? as u64) {
                Some((size, randomness)) => {
                    Obj::tuple([Obj::int(size), Obj::str_from(randomness.name())])
                }
                None => Ok(Obj::none()),
            }
        }),
        method!("_vmap_hide", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_vmap_hide(int level)").parse(None, args)?;
            Obj::int(batched::hide(bound.int(0)? as u64) as i64)
        }),
        method!("_vmap_show", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_vmap_show(int count)").parse(None, args)?;
            batched::show(bound.int(0)? as usize);
            Ok(Obj::none())
        }),
        method!("_batch_levels", |_m: &Obj, _a: Args<'_>| {
            Obj::tuple(batched::alive().into_iter().map(|(level, _)| Obj::int(level as i64)))
        }),
    ]
}

fn everywhere(tensor: &Tensor) -> Py<Obj> {
    tensor::wrap(&batched::everywhere(tensor)?)
}

/// The tensor with the items of a level along `out_dim`.
fn removed(tensor: &Tensor, level: u64, batch_size: i64, out_dim: i64) -> Result<Tensor> {
    let dim = wrap_dim(out_dim, tensor.dim() + 1)?;
    match batched::of(tensor).filter(|found| found.level == level) {
        Some(found) if found.dim == dim => Ok(found.value),
        Some(found) => op::movedim_int(&found.value, found.dim as i64, dim as i64),
        None => {
            let mut sizes = tensor.sizes().to_vec();
            sizes.insert(dim, batch_size);
            op::expand(&op::unsqueeze(tensor, dim as i64)?, &sizes, false)
        }
    }
}
