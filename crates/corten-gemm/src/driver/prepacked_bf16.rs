//! Products of `bf16` with a prepacked `b`.

use crate::driver::amx_gemm::{AmxB, AmxGemm};
use crate::driver::epilogue::SumsTo;
use crate::driver::mixed_precision::{MixedPrecision, RoundingEpilogue};
use crate::driver::vnni2::gemm_vnni2;
use crate::kernel::select::vnni2_kernels;
use crate::pack::convert_pack::ConvertPack;
use crate::pack::interleave::{Interleaved, Vnni2Layout};
use crate::pack::operand::{ImplicitOperand, Operand};
use crate::pack::prepacked::PrepackedB;
use crate::types::accumulate::Scale;
use crate::types::isa::{Isa, has_amx};
use crate::types::low_precision::Bf16;
use crate::types::view::{MatrixRef, View};
use crate::types::vnni::Vnni2;
use crate::types::workspace::Workspace;
use std::ops::Range;

/// A prepacked `b` of `bf16`, in VNNI2 layout.
pub struct PrepackedBf16 {
    pub(crate) pairs: PrepackedB<Vnni2>,
    depth: usize,
}

impl PrepackedBf16 {
    /// Packs a matrix, where the instruction set has products of VNNI2.
    #[must_use]
    pub fn of(b: MatrixRef<'_, Bf16>, isa: Isa) -> Option<Self> {
        let has_pairs = is_x86_feature_detected!("avx512bf16");
        let has_tiles = isa < Isa::Amx || has_amx();
        if isa < Isa::Avx512Bf16 || !has_pairs || !has_tiles {
            return None;
        }
        let [depth, cols] = b.shape();
        // SAFETY: the processor has the instruction set.
        let columns = unsafe { Interleaved::<Vnni2Layout>::new(b, true) };
        let shape = [depth.div_ceil(2), cols];
        let packing = &vnni2_kernels(isa).packing;
        let pairs = PrepackedB::pack_with(shape, isa, packing, |[pairs, cols], to, width| {
            columns.pack(pairs, cols, to, width);
        });
        Some(Self { pairs, depth })
    }

    /// The number of rows and of columns.
    #[must_use]
    pub fn shape(&self) -> [usize; 2] {
        [self.depth, self.pairs.shape()[1]]
    }

    /// As [`PrepackedB::panel_cols`].
    #[must_use]
    pub fn panel_cols(&self) -> usize {
        self.pairs.panel_cols()
    }

    /// Every element with its row and column.
    pub fn elements(&self) -> impl Iterator<Item = (usize, usize, Bf16)> {
        let both = self.pairs.elements().flat_map(|(pair, col, Vnni2(bits))| {
            let [first, second] = [bits as u16, (bits >> 16) as u16].map(Bf16);
            [(2 * pair, col, first), (2 * pair + 1, col, second)]
        });
        both.filter(|(row, ..)| *row < self.depth)
    }
}

/// `c = beta * c + a @ b` on this thread, with some columns of a prepacked `b`; the first one begins a
/// micro-panel. Rounded as by [`gemm_mixed`](crate::gemm_mixed).
///
/// # Safety
/// As for [`gemm`](crate::gemm), of `c` and `a`.
///
/// # Panics
/// When the shapes do not match, the depth is zero, or the columns do not begin with a micro-panel.
pub unsafe fn gemm_prepacked_bf16(
    c: View<*mut Bf16>,
    a: View<*const Bf16>,
    (b, cols): (&PrepackedBf16, Range<usize>),
    beta: Option<f32>,
) {
    assert!(a.shape[0] == c.shape[0] && cols.len() == c.shape[1], "the shapes do not match");
    assert!(a.shape[1] == b.shape()[0] && cols.end <= b.shape()[1], "the shapes do not match");
    assert!(a.shape[1] > 0, "the depth is zero");
    if c.shape.contains(&0) {
        return;
    }
    // SAFETY: the caller's.
    let a = unsafe { MatrixRef::new(a) };
    let scale = Scale { alpha: 1.0, beta };
    let epilogue = RoundingEpilogue { c, scale, pack: Bf16::convert_kernels(Isa::Avx512Bf16) };
    let multiply =
        |sums: SumsTo<'_, Bf16>, rows, columns: Range<usize>, workspace: &mut Workspace| {
            let (a, first, cols) = (a.rows(rows), cols.start + columns.start, columns.len());
            // SAFETY: VNNI2 was packed, so the processor has the instruction set.
            unsafe {
                if b.pairs.isa() >= Isa::Amx {
                    let b = AmxB::Prepacked(&b.pairs, first);
                    AmxGemm { a, b, cols, transposed: false }.run(sums, workspace);
                } else {
                    gemm_vnni2(
                        vnni2_kernels(b.pairs.isa()),
                        sums,
                        a,
                        Operand::Prepacked(&b.pairs, first),
                        workspace,
                    );
                }
            }
        };
    let mut workspace = Workspace::acquire();
    let Some(part) = Bf16::part(b.pairs.isa(), a.shape()[1]) else {
        let store = |sums: &[f32], width, origin, size| epilogue.store(sums, width, origin, size);
        let sums = SumsTo::Epilogue(c, &store);
        multiply(sums, 0..c.shape[0], 0..c.shape[1], &mut workspace);
        return workspace.release();
    };
    epilogue.in_parts(part, workspace, |sums, rows, columns, workspace| {
        multiply(SumsTo::Buffer(sums), rows, columns, workspace);
    });
}
