//! Settings and questions: threads, default dtype, type promotion.

use crate::args::{dtype_arg, number_kind, parser, scalar_from};
use crate::py::errors::{runtime_error, type_error};
use crate::py::{Args, Obj, Py, ffi, method};
use crate::{tensor, types};
use corten_core::{
    ResultTypeState, casts_by_category, default_dtype, promote_types, set_default_dtype,
};
use corten_ops::composite::attention::{Backend, allow, allows};
use corten_ops::parallel;

/// The functions of the module.
pub(crate) fn functions() -> Vec<ffi::PyMethodDef> {
    let mut rows = dtype_functions();
    rows.extend(thread_functions());
    rows.extend(determinism_functions());
    rows.extend(fast_path_functions());
    rows.extend(attention_functions());
    rows
}

fn determinism_functions() -> Vec<ffi::PyMethodDef> {
    vec![
        method!("_set_deterministic_algorithms", |_m: &Obj, args: Args<'_>| {
            set_switch(args, corten_core::use_deterministic_algorithms)
        }),
        method!("_get_deterministic_algorithms", |_m: &Obj, _a: Args<'_>| {
            Ok(Obj::bool(corten_core::are_deterministic_algorithms_enabled()))
        }),
        method!("_set_deterministic_fill_uninitialized_memory", |_m: &Obj, args: Args<'_>| {
            set_switch(args, corten_core::set_fill_uninitialized_memory)
        }),
        method!("_get_deterministic_fill_uninitialized_memory", |_m: &Obj, _a: Args<'_>| {
            Ok(Obj::bool(corten_core::fill_uninitialized_memory()))
        }),
    ]
}

/// The ways to compute attention that a program allows.
fn attention_functions() -> Vec<ffi::PyMethodDef> {
    vec![
        method!("_get_math_sdp_enabled", |_m: &Obj, _a: Args<'_>| {
            Ok(Obj::bool(allows(Backend::Math)))
        }),
        method!("_get_flash_sdp_enabled", |_m: &Obj, _a: Args<'_>| {
            Ok(Obj::bool(allows(Backend::Flash)))
        }),
        method!("_get_mem_efficient_sdp_enabled", |_m: &Obj, _a: Args<'_>| {
            Ok(Obj::bool(allows(Backend::Efficient)))
        }),
        method!("_get_cudnn_sdp_enabled", |_m: &Obj, _a: Args<'_>| {
            Ok(Obj::bool(allows(Backend::Cudnn)))
        }),
        method!("_set_sdp_use_math", |_m: &Obj, args: Args<'_>| {
            set_switch(args, |on| allow(Backend::Math, on))
        }),
        method!("_set_sdp_use_flash", |_m: &Obj, args: Args<'_>| {
            set_switch(args, |on| allow(Backend::Flash, on))
        }),
        method!("_set_sdp_use_mem_efficient", |_m: &Obj, args: Args<'_>| {
            set_switch(args, |on| allow(Backend::Efficient, on))
        }),
        method!("_set_sdp_use_cudnn", |_m: &Obj, args: Args<'_>| {
            set_switch(args, |on| allow(Backend::Cudnn, on))
        }),
    ]
}

/// The switch that builds with debug assertions have; see Note [Fast paths].
fn fast_path_functions() -> Vec<ffi::PyMethodDef> {
    vec![
        method!("_set_fast_paths", |_m: &Obj, args: Args<'_>| {
            let [on] = args.positional else { return Err(type_error("one bool expected")) };
            Ok(Obj::bool(corten_core::set_fast_paths(on.is_true()?)))
        }),
        method!("_get_fast_paths", |_m: &Obj, _a: Args<'_>| {
            Ok(Obj::bool(corten_core::fast_paths()))
        }),
    ]
}

/// Turns one switch of the process; its argument must be a bool itself.
fn set_switch(args: Args<'_>, turn: fn(bool)) -> Py<Obj> {
    let [on] = args.positional else { return Err(type_error("one bool expected")) };
    if !on.is_bool() {
        return Err(runtime_error(format!("expected a bool, but got {}", on.type_name())));
    }
    corten::compile::flush_thread()?;
    turn(on.is_true()?);
    Ok(Obj::none())
}

fn dtype_functions() -> Vec<ffi::PyMethodDef> {
    vec![
        method!("get_default_dtype", |_m: &Obj, _a: Args<'_>| Ok(types::dtype::object(
            default_dtype()
        ))),
        method!("set_default_dtype", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("set_default_dtype(any d)").parse(None, args)?;
            let Some(dtype) = types::dtype::get(bound.object(0)?) else {
                return Err(type_error(
                    "invalid dtype object: only floating-point types are \
                                       supported as the default type",
                ));
            };
            if !dtype.is_floating_point() {
                return Err(type_error(
                    "only floating-point types are supported as the default type",
                ));
            }
            // Calls that are recorded were made under the old one.
            corten::compile::flush_thread()?;
            set_default_dtype(dtype)?;
            Ok(Obj::none())
        }),
        method!("promote_types", |_m: &Obj, args: Args<'_>| {
            let parser = parser!("promote_types(ScalarType type1, ScalarType type2)");
            let bound = parser.parse(None, args)?;
            let (a, b) = (dtype_arg(bound.object(0)?)?, dtype_arg(bound.object(1)?)?);
            Ok(types::dtype::object(promote_types(a, b)?))
        }),
        method!("can_cast", |_m: &Obj, args: Args<'_>| {
            let parser = parser!("can_cast(ScalarType from_, ScalarType to)");
            let bound = match parser.parse(None, args) {
                Ok(bound) => bound,
                Err(raised) if args.keywords.is_empty() => return Err(raised),
                Err(raised) => {
                    raised.clear();
                    parser!("can_cast(ScalarType from, ScalarType to)").parse(None, args)?
                }
            };
            let (from, to) = (dtype_arg(bound.object(0)?)?, dtype_arg(bound.object(1)?)?);
            Ok(Obj::bool(casts_by_category(from, to)))
        }),
        method!("result_type", result_type),
    ]
}

fn result_type(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let parser = parser!(
        "result_type(Tensor tensor, Tensor other)",
        "result_type(Scalar scalar, Tensor tensor)",
        "result_type(Tensor tensor, Scalar other)",
        "result_type(Scalar scalar1, Scalar scalar2)",
    );
    let bound = parser.parse(None, args)?;
    let mut state = ResultTypeState::new();
    for place in 0..2 {
        let object = bound.object(place)?;
        match tensor::get(object) {
            Some(value) => {
                state.push_tensor(value.dtype(), value.dim(), value.is_wrapped_number())?;
            }
            None if number_kind(object).is_some() => state.push_scalar(&scalar_from(object)?)?,
            None => return Err(type_error("result_type() takes tensors and numbers")),
        }
    }
    Ok(types::dtype::object(state.finish()?))
}

fn thread_functions() -> Vec<ffi::PyMethodDef> {
    vec![
        method!("get_num_threads", |_m: &Obj, _a: Args<'_>| Obj::int(
            parallel::num_threads() as i64
        )),
        method!("set_num_threads", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("set_num_threads(any nthreads)").parse(None, args)?;
            let count = bound.object(0)?;
            if !crate::args::is_int(count, false) {
                return Err(type_error(format!(
                    "set_num_threads expects an int, but got {}",
                    count.type_name()
                )));
            }
            let count = count.to_i64()?;
            if count <= 0 {
                return Err(runtime_error("set_num_threads expects a positive integer"));
            }
            parallel::set_num_threads(count as usize);
            Ok(Obj::none())
        }),
        method!("_cpu_capability", |_m: &Obj, _a: Args<'_>| Obj::str_from(
            &corten::cpu::vec::level().name().to_uppercase()
        )),
        method!("_product_instructions", |_m: &Obj, _a: Args<'_>| Obj::str_from(
            corten::cpu::product_instructions()
        )),
        method!("get_num_interop_threads", |_m: &Obj, _a: Args<'_>| Obj::int(1)),
        method!("set_num_interop_threads", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("set_num_interop_threads(int nthreads)").parse(None, args)?;
            if bound.int(0)? <= 0 {
                return Err(runtime_error("set_num_interop_threads expects a positive integer"));
            }
            Ok(Obj::none())
        }),
    ]
}
