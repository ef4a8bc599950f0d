//! Products of `bf16` in VNNI2 layout.

use crate::driver::epilogue::{Epilogue, StoreTile, SumsTo};
use crate::driver::macro_kernel::gemm_blocked;
use crate::kernel::args::MicroKernels;
use crate::pack::interleave::{Interleaved, Vnni2Layout};
use crate::pack::operand::Operand;
use crate::types::accumulate::Accumulate;
use crate::types::element::Scalar;
use crate::types::low_precision::Bf16;
use crate::types::view::{MatrixRef, View};
use crate::types::vnni::Vnni2;
use crate::types::workspace::Workspace;

/// Stores VNNI2 accumulators by a function for `f32`.
pub(crate) fn store_vnni2(
    store: &StoreTile<'_, f32>,
) -> impl Fn(&[Vnni2], usize, [usize; 2], [usize; 2]) {
    move |sums, width, origin, size| {
        // SAFETY: an accumulator is an `f32`, by its bits.
        let sums = unsafe { std::slice::from_raw_parts(sums.as_ptr().cast(), sums.len()) };
        store(sums, width, origin, size);
    }
}

/// An `a` as VNNI2 in place, if it is aligned and its rows are whole pairs.
pub(crate) fn as_vnni2(a: MatrixRef<'_, Bf16>) -> Option<MatrixRef<'_, Vnni2>> {
    let ([rows, depth], [row, step]) = (a.shape(), a.strides());
    let whole = row % 2 == 0 || rows == 1;
    if step != 1 || depth % 2 != 0 || !whole || !a.first().cast::<Vnni2>().is_aligned() {
        return None;
    }
    let view = View { data: a.first().cast(), shape: [rows, depth / 2], strides: [row / 2, 1] };
    // SAFETY: the same memory, for as long.
    Some(unsafe { MatrixRef::new(view) })
}

/// A product of VNNI2 in vector registers.
///
/// # Safety
/// As for [`MixedPrecision::sum`](crate::MixedPrecision).
pub(crate) unsafe fn gemm_vnni2(
    kernels: &'static MicroKernels<Vnni2>,
    sums: SumsTo<'_, Bf16>,
    a: MatrixRef<'_, Bf16>,
    b: Operand<'_, Vnni2>,
    workspace: &mut Workspace,
) {
    let depth = a.shape()[1].div_ceil(2);
    // SAFETY: the caller's.
    let a = unsafe { Interleaved::<Vnni2Layout>::new(a, false) };
    let a = Operand::Implicit(&a);
    match sums {
        SumsTo::Buffer(sums) => {
            let epilogue = Epilogue::of(
                sums.cast(),
                Vnni2::ONE,
                Accumulate::Overwrite,
                &kernels.packing.pack_b,
            );
            gemm_blocked(kernels, epilogue, depth, a, b, workspace);
        }
        SumsTo::Epilogue(c, store) => {
            let store = store_vnni2(store);
            gemm_blocked(
                kernels,
                Epilogue::through(c.shape, &store, &kernels.packing.pack_b),
                depth,
                a,
                b,
                workspace,
            );
        }
    }
}
