//! Products with a prepacked `b`.

use crate::driver::epilogue::Epilogue;
use crate::driver::macro_kernel::gemm_blocked;
use crate::kernel::select::Number;
use crate::pack::operand::Operand;
use crate::pack::pack_panel::pack_panel;
use crate::pack::prepacked::PrepackedB;
use crate::types::accumulate::Accumulate;
use crate::types::isa::Isa;
use crate::types::view::{MatrixRef, View};
use crate::types::workspace::Workspace;
use std::ops::Range;

impl<E: Number> PrepackedB<E> {
    /// Packs a matrix for the micro-kernels of an instruction set.
    #[must_use]
    pub fn of(b: MatrixRef<'_, E>, isa: Isa) -> Self {
        let packing = &E::micro_kernels(isa).packing;
        Self::pack_with(b.shape(), isa, packing, |[depth, cols], to, width| {
            pack_panel(&packing.pack_b, to, b.part(depth, cols), width);
        })
    }
}

/// [`gemm`](crate::gemm) with some columns of a prepacked `b`; the first one begins a micro-panel.
///
/// # Safety
/// As for [`gemm`](crate::gemm), of `c`, `a` and the biases.
///
/// # Panics
/// When the shapes do not match, the depth is zero, or the columns do not begin with a micro-panel.
pub unsafe fn gemm_prepacked<E: Number>(
    c: View<*mut E>,
    a: View<*const E>,
    (b, cols): (&PrepackedB<E>, Range<usize>),
    accumulate: Accumulate<E>,
) {
    assert!(a.shape[0] == c.shape[0] && cols.len() == c.shape[1], "the shapes do not match");
    assert!(b.has(a.shape[1], cols.clone()), "the shapes do not match");
    assert!(a.shape[1] > 0, "the depth is zero");
    if c.shape.contains(&0) {
        return;
    }
    // SAFETY: the caller's.
    let a = unsafe { MatrixRef::new(a) };
    let kernels = E::micro_kernels(b.isa());
    let epilogue = Epilogue::of(c, E::ONE, accumulate, &kernels.packing.pack_b);
    let mut workspace = Workspace::acquire();
    let depth = a.shape()[1];
    let b_operand = Operand::Prepacked(b, cols.start);
    gemm_blocked(kernels, epilogue, depth, Operand::Matrix(a), b_operand, &mut workspace);
    workspace.release();
}
