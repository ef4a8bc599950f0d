//! GEMM for matrices in memory and for operands that are generated while they are packed. The algorithm
//! is that of the plan; see [`macro_kernel`](crate::driver::macro_kernel) for the blocked one.

use crate::driver::epilogue::{BatchStride, Epilogue};
use crate::driver::macro_kernel::gemm_blocked;
use crate::driver::plan::{Algorithm, GemvForm, Plan};
use crate::driver::skinny::{Skinny, SmallMatrix};
use crate::driver::small_gemm::SmallGemm;
use crate::driver::unpacked::UnpackedGemm;
use crate::kernel::args::MicroKernels;
use crate::kernel::select::Number;
use crate::pack::operand::Operand;
use crate::pack::packing::MAX_UNPACKED_PANELS;
use crate::types::accumulate::Accumulate;
use crate::types::element::Scalar;
use crate::types::isa::Isa;
use crate::types::params::{KC, L1_ALIAS_STRIDE, PAGE_BYTES, TLB_REACH};
use crate::types::partition::Partition;
use crate::types::view::{MatrixRef, View, stride_bytes};
use crate::types::workspace::Workspace;

/// `c = accumulate + alpha * a @ b` on this thread. The plan is that of the operands, or of larger ones
/// of which these are some rows of `a` and some columns of `b`.
///
/// # Safety
/// The operands and biases must be readable and `c` readable and writable over their shapes, `c` must
/// not overlap them or itself, and the processor must have the instruction set.
///
/// # Panics
/// When the shapes do not match or the depth is zero.
pub unsafe fn gemm<E: Number>(
    plan: Plan,
    isa: Isa,
    c: View<*mut E>,
    a: View<*const E>,
    b: View<*const E>,
    alpha: E,
    accumulate: Accumulate<E>,
) {
    assert!(b.shape == [a.shape[1], c.shape[1]], "the shapes do not match");
    assert!(a.shape == [c.shape[0], b.shape[0]], "the shapes do not match");
    assert!(a.shape[1] > 0, "the depth is zero");
    if c.shape.contains(&0) {
        return;
    }
    let kernels = E::micro_kernels(isa);
    // SAFETY: the caller's.
    let (left, right) = unsafe { (MatrixRef::new(a), MatrixRef::new(b)) };
    if plan.0 == Algorithm::Blocked
        && alpha == E::ONE
        && let Some(unpacked) = UnpackedGemm::of(kernels, c, left, right, accumulate)
    {
        // SAFETY: the caller's: the result and the biases have its shape.
        return unsafe { unpacked.run() };
    }
    // The transpose of a product is the product of the transposes, in the other order.
    let transposed = match plan.0 {
        Algorithm::Blocked => cost(kernels, c.t(), b.t(), a.t()) < cost(kernels, c, a, b),
        Algorithm::Skinny { transposed, .. } => transposed,
        Algorithm::Naive => false,
    };
    let (c, a, b, accumulate) = match transposed {
        true => (c.t(), right.t(), left.t(), accumulate.t()),
        false => (c, left, right, accumulate),
    };
    if let Algorithm::Skinny { form: GemvForm::Dot, .. } = plan.0
        && alpha == E::ONE
        && let Some(small) = SmallGemm::of(a, b, isa, accumulate)
    {
        // SAFETY: the caller's: the result and the biases have its shape.
        return unsafe { small.run(c, accumulate) };
    }
    if plan.0 == Algorithm::Naive {
        // SAFETY: the caller's.
        return unsafe { naive(c, a, b, alpha, accumulate) };
    }
    let epilogue = Epilogue::of(c, alpha, accumulate, &kernels.packing.pack_b);
    let mut workspace = Workspace::acquire();
    if let Algorithm::Skinny { form, .. } = plan.0 {
        let store = |sums: &[E], width, origin, size| epilogue.store(sums, width, origin, size);
        let a = SmallMatrix { source: a, isa };
        Skinny { a: &a, b, isa, form, store: &store }.run(&mut workspace);
    } else {
        let depth = a.shape()[1];
        gemm_blocked(
            kernels,
            epilogue,
            depth,
            Operand::Matrix(a),
            Operand::Matrix(b),
            &mut workspace,
        );
    }
    workspace.release();
}

/// The textbook triple loop.
///
/// # Safety
/// As for [`gemm`].
unsafe fn naive<E: Number>(
    c: View<*mut E>,
    a: MatrixRef<'_, E>,
    b: MatrixRef<'_, E>,
    alpha: E,
    accumulate: Accumulate<E>,
) {
    for row in 0..c.shape[0] {
        for col in 0..c.shape[1] {
            let terms = (0..a.shape()[1]).map(|step| a.at([row, step]) * b.at([step, col]));
            let sum = terms.fold(E::ZERO, |sum, term| sum + term);
            // SAFETY: the caller's; the element lies in the result.
            unsafe { accumulate.store_row(&[alpha * sum], [row, col], c) };
        }
    }
}

/// [`gemm`] by the blocked algorithm, of operands that may be implicit or segmented. The columns of the
/// result may be those of several matrices.
///
/// # Safety
/// As for [`gemm`], of every matrix of the result; rows and columns of operands in memory are those of
/// the result, and their depth is the one given.
///
/// # Panics
/// When the shapes do not match or the depth is zero.
pub unsafe fn gemm_operands<E: Number>(
    isa: Isa,
    (c, batch_stride): (View<*mut E>, Option<BatchStride>),
    depth: usize,
    [a, b]: [Operand<'_, E>; 2],
    accumulate: Accumulate<E>,
) {
    assert!(a.fits([c.shape[0], depth]) && b.fits([depth, c.shape[1]]), "the shapes do not match");
    assert!(
        batch_stride.is_none_or(|batch_stride| batch_stride.columns > 0),
        "the matrices have no columns"
    );
    assert!(depth > 0, "the depth is zero");
    if c.shape.contains(&0) {
        return;
    }
    let kernels = E::micro_kernels(isa);
    if let (Operand::Matrix(a), Operand::Matrix(b), None) = (a, b, batch_stride)
        && let Some(unpacked) = UnpackedGemm::of(kernels, c, a, b, accumulate)
    {
        // SAFETY: the caller's, for all of them.
        return unsafe { unpacked.run() };
    }
    let epilogue =
        Epilogue::of(c, E::ONE, accumulate, &kernels.packing.pack_b).batch_stride(batch_stride);
    let mut workspace = Workspace::acquire();
    gemm_blocked(kernels, epilogue, depth, a, b, &mut workspace);
    workspace.release();
}

/// An estimate of the cycles of a blocked product: multiplications; reading `a` where the steps of its
/// rows are not contiguous; packing `b`, which is slower where its columns are not contiguous or every
/// row is on a page of its own; and storing the result where its columns are not contiguous, for every
/// block of the depth. With wide vectors a step takes half the cycles, so that latencies weigh more; but
/// pages less, as micro-panels are wider and prefetched.
fn cost<E: Scalar>(
    kernels: &MicroKernels<E>,
    c: View<*mut E>,
    a: View<*const E>,
    b: View<*const E>,
) -> usize {
    let ([rows, cols], depth) = (c.shape, a.shape[1]);
    let wide = kernels.packing.is_wide();
    let pages = if wide { 5 } else { 8 };
    // A step issues two multiplications a cycle, and loads one row of `b` and an element of `a` per
    // row.
    let panels = Partition::of(cols.div_ceil(kernels.packing.lanes), kernels.packing.nr_vectors);
    let step_cycles: usize = panels.widths().map(|(count, w)| count * (3 * w).max(6 + w)).sum();
    // Saturating: expanded operands have more elements than there are bytes.
    let times = |a: usize, b: usize| a.saturating_mul(b);
    let multiply = times(times(rows, depth), step_cycles) / 6;
    let stride = stride_bytes::<E>(a.strides[1]);
    let quarters = match panels.count {
        _ if a.strides[1] == 1 => 0,
        // Micro-panels of `a` are packed a few elements at a time.
        count if count > MAX_UNPACKED_PANELS => 4,
        _ if stride.is_multiple_of(L1_ALIAS_STRIDE) => 4,
        _ if stride.saturating_mul(depth.min(KC)) <= TLB_REACH => 0,
        _ if wide && stride >= PAGE_BYTES => 3,
        _ => 1,
    };
    let read_a = times(times(rows, depth), quarters) / 4;
    let pack_b = match b.strides {
        [row, 1] if stride_bytes::<E>(row) >= PAGE_BYTES => times(times(depth, cols), pages) / 8,
        [_, 1] => times(depth, cols) / 8,
        _ => times(depth, cols) / 4,
    };
    let store_c =
        if c.strides[1] == 1 { 0 } else { times(times(rows, cols), depth.div_ceil(KC)) / 2 };
    multiply.saturating_add(read_a).saturating_add(pack_b).saturating_add(store_c)
}
