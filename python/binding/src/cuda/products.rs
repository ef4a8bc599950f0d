//! How products of matrices are computed: settings, and cuBLASLt.

use crate::args::parser;
use crate::py::{Args, Obj, Py, ffi, method};
use corten::cuda::{self, Reduction};

/// The functions of the module.
pub(super) fn functions() -> Vec<ffi::PyMethodDef> {
    vec![
        method!("_cuda_useCublasLt", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_cuda_useCublasLt(bool enabled)").parse(None, args)?;
            cuda::use_cublaslt(bound.bool(0)?);
            Ok(Obj::none())
        }),
        method!("_cuda_checkCublasLt", |_m: &Obj, _a: Args<'_>| {
            cuda::check_cublaslt()?;
            Ok(Obj::none())
        }),
        method!("_cuda_blasHandle", |_m: &Obj, _a: Args<'_>| Obj::int(
            cuda::current_blas_handle()? as i64
        )),
        method!("_cuda_onlyWarnOfDeterminism", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_cuda_onlyWarnOfDeterminism(bool enabled)").parse(None, args)?;
            cuda::only_warn_of_determinism(bound.bool(0)?);
            Ok(Obj::none())
        }),
        method!("_cuda_setAllowTF32", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_cuda_setAllowTF32(bool enabled)").parse(None, args)?;
            cuda::allow_tf32(bound.bool(0)?);
            Ok(Obj::none())
        }),
        method!("_cuda_setAllowHalfSums", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_cuda_setAllowHalfSums(bool enabled)").parse(None, args)?;
            cuda::allow_half_sums(bound.bool(0)?);
            Ok(Obj::none())
        }),
        method!("_cuda_setSplitReduction", set_split_reduction),
    ]
}

/// How split sums of float16, or of bfloat16, may be put together.
fn set_split_reduction(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let bound = parser!("_cuda_setSplitReduction(bool bfloat16, bool reduced, bool split)")
        .parse(None, args)?;
    let reduction = match (bound.bool(1)?, bound.bool(2)?) {
        (_, false) => Reduction::Unsplit,
        (false, true) => Reduction::Exact,
        (true, true) => Reduction::Any,
    };
    cuda::set_split_reduction(bound.bool(0)?, reduction);
    Ok(Obj::none())
}
