//! The state of automatic casts on the CPU.

use crate::args::{dtype_arg, parser};
use crate::py::{Args, Obj, ffi, method};
use crate::types;
use corten_autograd::autocast;

/// The functions of the module.
pub(crate) fn functions() -> Vec<ffi::PyMethodDef> {
    vec![
        method!("_autocast_enabled", |_m: &Obj, _a: Args<'_>| Ok(Obj::bool(autocast::enabled()))),
        method!("_set_autocast_enabled", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_set_autocast_enabled(bool enabled)").parse(None, args)?;
            autocast::set_enabled(bound.bool(0)?)?;
            Ok(Obj::none())
        }),
        method!("_autocast_dtype", |_m: &Obj, _a: Args<'_>| Ok(types::dtype::object(
            autocast::dtype()
        ))),
        method!("_set_autocast_dtype", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_set_autocast_dtype(ScalarType dtype)").parse(None, args)?;
            autocast::set_dtype(dtype_arg(bound.object(0)?)?);
            Ok(Obj::none())
        }),
        method!("is_autocast_cache_enabled", |_m: &Obj, _a: Args<'_>| Ok(Obj::bool(
            autocast::caches()
        ))),
        method!("set_autocast_cache_enabled", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("set_autocast_cache_enabled(bool enabled)").parse(None, args)?;
            autocast::set_caches(bound.bool(0)?);
            Ok(Obj::none())
        }),
        method!("autocast_increment_nesting", |_m: &Obj, _a: Args<'_>| Obj::int(
            autocast::change_nesting(1)
        )),
        method!("autocast_decrement_nesting", |_m: &Obj, _a: Args<'_>| Obj::int(
            autocast::change_nesting(-1)
        )),
        method!("clear_autocast_cache", |_m: &Obj, _a: Args<'_>| {
            autocast::clear_cache();
            Ok(Obj::none())
        }),
    ]
}
