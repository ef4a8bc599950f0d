//! Products of int8, signed or unsigned, accumulated in `i32` that wraps around.

use crate::driver::epilogue::Epilogue;
use crate::driver::macro_kernel::gemm_blocked;
use crate::driver::plan::{Algorithm, GemvForm, Plan};
use crate::driver::skinny::{Skinny, SmallMatrix};
use crate::kernel::select::{Number, SkinnyOperand};
use crate::pack::convert_pack::{ConvertPack, Converted};
use crate::pack::operand::Operand;
use crate::types::accumulate::Accumulate;
use crate::types::element::Scalar;
use crate::types::isa::Isa;
use crate::types::view::{MatrixRef, View};
use crate::types::workspace::Workspace;
use std::num::Wrapping;

/// The int8 types: `i8` and `u8`.
pub trait Int8: ConvertPack<Accum = Wrapping<i32>> + SkinnyOperand<Sum = Wrapping<i32>> {
    /// Whether it is signed.
    #[doc(hidden)]
    const SIGNED: bool;
}

impl Int8 for i8 {
    const SIGNED: bool = true;
}

impl Int8 for u8 {
    const SIGNED: bool = false;
}

/// `c = a @ b` on this thread. For the plan see [`gemm`](crate::gemm).
///
/// # Safety
/// As for [`gemm`](crate::gemm).
///
/// # Panics
/// When the shapes do not match or the depth is zero.
pub unsafe fn gemm_int8<A: Int8, B: Int8>(
    plan: Plan,
    isa: Isa,
    c: View<*mut Wrapping<i32>>,
    a: View<*const A>,
    b: View<*const B>,
) {
    assert!(b.shape == [a.shape[1], c.shape[1]], "the shapes do not match");
    assert!(a.shape == [c.shape[0], b.shape[0]], "the shapes do not match");
    assert!(a.shape[1] > 0, "the depth is zero");
    if c.shape.contains(&0) {
        return;
    }
    // Results are stored row by row.
    let (transposed, form) = match plan.0 {
        Algorithm::Blocked | Algorithm::Naive => (c.strides[1] != 1 && c.strides[0] == 1, None),
        Algorithm::Skinny { transposed, form } => (transposed, Some(form)),
    };
    let mut workspace = Workspace::acquire();
    // SAFETY: the caller's, for all of it.
    unsafe {
        let (a, b) = (MatrixRef::new(a), MatrixRef::new(b));
        match transposed {
            true => gemm_into(isa, form, c.t(), b.t(), a.t(), &mut workspace),
            false => gemm_into(isa, form, c, a, b, &mut workspace),
        }
    }
    workspace.release();
}

/// [`gemm_int8`] by the blocked algorithm, or by GEMV kernels in a form.
///
/// # Safety
/// The result must be writable and not overlap the operands or itself, and the processor must have the
/// instruction set.
pub(crate) unsafe fn gemm_into<A: Int8, B: Int8>(
    isa: Isa,
    form: Option<GemvForm>,
    c: View<*mut Wrapping<i32>>,
    a: MatrixRef<'_, A>,
    b: MatrixRef<'_, B>,
    workspace: &mut Workspace,
) {
    #[cfg(target_arch = "x86_64")]
    if isa >= Isa::Avx512Vnni {
        let bytes = crate::driver::int8_vnni::Int8Gemm {
            a: a.cast(),
            b: b.cast(),
            signs: [A::SIGNED, B::SIGNED],
        };
        if bytes.pay(form) {
            // SAFETY: the caller's.
            return unsafe { bytes.multiply(form, c, workspace) };
        }
    }
    let kernels = Wrapping::<i32>::micro_kernels(isa);
    let epilogue = Epilogue::of(c, Wrapping::ONE, Accumulate::Overwrite, &kernels.packing.pack_b);
    if let Some(form) = form {
        let store = |sums: &[_], width, origin, size| epilogue.store(sums, width, origin, size);
        let a = SmallMatrix { source: a, isa };
        return Skinny { a: &a, b, isa, form, store: &store }.run(workspace);
    }
    let depth = a.shape()[1];
    let a = Converted { source: a, pack: A::convert_kernels(isa) };
    let b = Converted { source: b, pack: B::convert_kernels(isa) };
    gemm_blocked(kernels, epilogue, depth, Operand::Implicit(&a), Operand::Implicit(&b), workspace);
}
