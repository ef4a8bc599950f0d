//! The state of automatic casts on the host and on GPUs.

use crate::args::{dtype_arg, parser};
use crate::py::{Args, Obj, ffi, method};
use crate::types;
use corten_autograd::autocast::{self, AutocastDevice};

/// The kind of device of a name, which the package has checked.
fn kind(name: &str) -> AutocastDevice {
    if name == "cuda" { AutocastDevice::Cuda } else { AutocastDevice::Cpu }
}

/// The functions of the module.
pub(crate) fn functions() -> Vec<ffi::PyMethodDef> {
    vec![
        method!("_autocast_enabled", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_autocast_enabled(str kind)").parse(None, args)?;
            Ok(Obj::bool(autocast::enabled(kind(bound.str(0)?))))
        }),
        method!("_set_autocast_enabled", |_m: &Obj, args: Args<'_>| {
            let parser = parser!("_set_autocast_enabled(str kind, bool enabled)");
            let bound = parser.parse(None, args)?;
            autocast::set_enabled(kind(bound.str(0)?), bound.bool(1)?)?;
            Ok(Obj::none())
        }),
        method!("_autocast_dtype", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_autocast_dtype(str kind)").parse(None, args)?;
            Ok(types::dtype::object(autocast::dtype(kind(bound.str(0)?))))
        }),
        method!("_set_autocast_dtype", |_m: &Obj, args: Args<'_>| {
            let parser = parser!("_set_autocast_dtype(str kind, ScalarType dtype)");
            let bound = parser.parse(None, args)?;
            autocast::set_dtype(kind(bound.str(0)?), dtype_arg(bound.object(1)?)?);
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
