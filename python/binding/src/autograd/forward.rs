//! Dual numbers: `_enter_dual_level`, `_make_dual` and their counterparts.

use crate::py::errors::type_error;
use crate::py::{Args, Obj, ffi, method};
use crate::tensor;
use corten_autograd::forward;

/// The functions of the module.
pub(super) fn functions() -> Vec<ffi::PyMethodDef> {
    vec![
        method!("_enter_dual_level", |_m: &Obj, _a: Args<'_>| Obj::int(
            forward::enter_level()? as i64
        )),
        method!("_exit_dual_level", |_m: &Obj, args: Args<'_>| {
            let [level] = args.positional else { return Err(type_error("a level expected")) };
            forward::exit_level(level.to_i64()? as u64)?;
            Ok(Obj::none())
        }),
        method!("_make_dual", |_m: &Obj, args: Args<'_>| {
            let [primal, tangent] = args.positional else {
                return Err(type_error("two tensors expected"));
            };
            let dual = forward::make_dual(tensor::expect(primal)?, tensor::expect(tangent)?)?;
            tensor::wrap(&dual)
        }),
        method!("_attach_tangent", |_m: &Obj, args: Args<'_>| {
            let [result, tangent] = args.positional else {
                return Err(type_error("two tensors expected"));
            };
            forward::attach(tensor::expect(result)?, tensor::expect(tangent)?.clone())?;
            Ok(Obj::none())
        }),
        method!("_unpack_dual", |_m: &Obj, args: Args<'_>| {
            let [dual] = args.positional else { return Err(type_error("a tensor expected")) };
            let (primal, tangent) = forward::unpack_dual(tensor::expect(dual)?)?;
            let tangent = tangent.as_ref().map_or_else(|| Ok(Obj::none()), tensor::wrap)?;
            Obj::tuple([tensor::wrap(&primal), Ok(tangent)])
        }),
    ]
}
