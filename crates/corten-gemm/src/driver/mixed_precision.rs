//! Mixed-precision products: low-precision operands, accumulated in a wider type. Float results are
//! rounded once, of integer results the low bits are kept.

#[cfg(target_arch = "x86_64")]
use crate::driver::amx_gemm::{AmxB, AmxGemm, BLOCKS};
use crate::driver::epilogue::{Epilogue, StoreTile, SumsTo};
use crate::driver::int8::{self, Int8};
use crate::driver::macro_kernel::gemm_blocked;
use crate::driver::plan::{Algorithm, GemvForm, Plan};
use crate::driver::skinny::{Skinny, SmallMatrix};
#[cfg(target_arch = "x86_64")]
use crate::driver::vnni2::{as_vnni2, gemm_vnni2, store_vnni2};
#[cfg(target_arch = "x86_64")]
use crate::kernel::select::vnni2_kernels;
use crate::kernel::select::{Number, SkinnyOperand};
use crate::pack::convert_pack::{ConvertKernels, ConvertPack, Converted};
#[cfg(target_arch = "x86_64")]
use crate::pack::interleave::{Interleaved, Vnni2Layout};
use crate::pack::operand::Operand;
use crate::types::accumulate::{Accumulate, Scale};
use crate::types::element::Scalar;
use crate::types::isa::Isa;
use crate::types::low_precision::{Bf16, F16, LowPrecision};
use crate::types::params::KC;
use crate::types::partition::chunks;
use crate::types::strided_rows::StridedRows;
use crate::types::view::{MatrixRef, View};
#[cfg(target_arch = "x86_64")]
use crate::types::vnni::Vnni2;
use crate::types::workspace::Workspace;
use std::num::Wrapping;
use std::ops::Range;

/// Rows and columns of a part of the result whose accumulators are buffered.
const PART: usize = 1024;

/// Elements of an operand that are packed in the time in which an accumulator is transposed.
#[cfg(target_arch = "x86_64")]
const PACKED_PER_STORE: usize = 4;

/// The element types of mixed-precision products: [`Bf16`], [`F16`], and integers of 8 and 16 bits.
pub trait MixedPrecision: ConvertPack<Accum: Number> + SkinnyOperand<Sum = Self::Accum> {
    /// The rows and columns of a part of the result, given the depth, if accumulators must be
    /// buffered.
    #[doc(hidden)]
    fn part(_: Isa, _depth: usize) -> Option<[usize; 2]> {
        Some([PART; 2])
    }

    /// Computes the sums of a part of a product.
    ///
    /// # Safety
    /// The processor must have the instruction set.
    #[doc(hidden)]
    unsafe fn sum(
        isa: Isa,
        sums: SumsTo<'_, Self>,
        a: MatrixRef<'_, Self>,
        b: MatrixRef<'_, Self>,
        workspace: &mut Workspace,
    ) {
        // SAFETY: the caller's.
        unsafe { gemm_converted(isa, sums, a, b, workspace) }
    }

    /// A skinny product.
    ///
    /// # Safety
    /// The processor must have the instruction set.
    #[doc(hidden)]
    unsafe fn skinny_gemm(skinny: SkinnyMixed<'_, Self>, workspace: &mut Workspace) {
        skinny.run_converted(workspace);
    }
}

/// The rows and columns of a part of a result, given the depth; none where that is summed at once.
fn buffered_part(depth: usize) -> Option<[usize; 2]> {
    (depth > KC).then_some([PART; 2])
}

/// A product whose operands are converted while they are packed.
///
/// # Safety
/// As for [`MixedPrecision::sum`].
unsafe fn gemm_converted<H: MixedPrecision>(
    isa: Isa,
    sums: SumsTo<'_, H>,
    a: MatrixRef<'_, H>,
    b: MatrixRef<'_, H>,
    workspace: &mut Workspace,
) {
    let kernels = H::Accum::micro_kernels(isa);
    let (depth, pack) = (a.shape()[1], H::convert_kernels(isa));
    let (a, b) = (Converted { source: a, pack }, Converted { source: b, pack });
    let epilogue = match sums {
        SumsTo::Buffer(view) => {
            Epilogue::of(view, H::Accum::ONE, Accumulate::Overwrite, &kernels.packing.pack_b)
        }
        SumsTo::Epilogue(c, store) => Epilogue::through(c.shape, store, &kernels.packing.pack_b),
    };
    gemm_blocked(kernels, epilogue, depth, Operand::Implicit(&a), Operand::Implicit(&b), workspace);
}

/// A skinny product, whose large operand is `b`.
pub struct SkinnyMixed<'a, H: LowPrecision> {
    isa: Isa,
    form: GemvForm,
    a: MatrixRef<'a, H>,
    b: MatrixRef<'a, H>,
    store: &'a StoreTile<'a, H::Accum>,
}

impl<H: LowPrecision + SkinnyOperand<Sum = H::Accum>> SkinnyMixed<'_, H> {
    fn run_converted(self, workspace: &mut Workspace) {
        let Self { isa, form, a, b, store } = self;
        let a = SmallMatrix { source: a, isa };
        Skinny { a: &a, b, isa, form, store }.run(workspace);
    }
}

impl<H: Int8> SkinnyMixed<'_, H> {
    /// # Safety
    /// The processor must have the instruction set.
    unsafe fn run_int8(self, workspace: &mut Workspace) {
        if self.isa < Isa::Avx512Vnni {
            return self.run_converted(workspace);
        }
        let Self { isa, form, a, b, store } = self;
        let shape @ [rows, cols] = [a.shape()[0], b.shape()[1]];
        let mut buffer = std::mem::take(&mut workspace.sums);
        let sums = buffer.as_mut_slice::<Wrapping<i32>>(rows * cols);
        let view = View { data: sums.as_mut_ptr(), shape, strides: [cols as isize, 1] };
        // SAFETY: the caller's.
        unsafe { int8::gemm_into(isa, Some(form), view, a, b, workspace) };
        store(sums, cols, [0, 0], shape);
        workspace.sums = buffer;
    }
}

#[cfg(target_arch = "x86_64")]
impl SkinnyMixed<'_, Bf16> {
    /// Both operands as VNNI2 in place, if possible.
    fn as_vnni2(&self) -> Option<[MatrixRef<'_, Vnni2>; 2]> {
        Some([as_vnni2(self.a)?, as_vnni2(self.b.t())?.t()])
    }

    fn run_vnni2(&self, [a, b]: [MatrixRef<'_, Vnni2>; 2], workspace: &mut Workspace) {
        let store = store_vnni2(self.store);
        let (isa, form) = (self.isa, self.form);
        Skinny { a: &a, b, isa, form, store: &store }.run(workspace);
    }
}

/// [`buffered_part`] for AMX.
#[cfg(target_arch = "x86_64")]
fn buffered_part_amx(depth: usize) -> Option<[usize; 2]> {
    (depth.div_ceil(2) > BLOCKS * KC).then_some([PART; 2])
}

/// Whether the product of the transposes is faster: `b`, whose VNNI2 pairs are in place, then needs no
/// packing, but `a` does, and the result is transposed.
#[cfg(target_arch = "x86_64")]
fn transpose_pays(a: MatrixRef<'_, Bf16>, b: MatrixRef<'_, Bf16>) -> bool {
    let ([rows, depth], cols) = (a.shape(), b.shape()[1]);
    as_vnni2(b.t()).is_some() && rows * depth + PACKED_PER_STORE * rows * cols < cols * depth
}

impl MixedPrecision for F16 {
    fn part(_: Isa, depth: usize) -> Option<[usize; 2]> {
        buffered_part(depth)
    }
}

impl MixedPrecision for i16 {}

macro_rules! int8 {
    ($($element:ty),+) => {$(
        impl MixedPrecision for $element {
            unsafe fn sum(
                isa: Isa,
                sums: SumsTo<'_, Self>,
                a: MatrixRef<'_, Self>,
                b: MatrixRef<'_, Self>,
                workspace: &mut Workspace,
            ) {
                let SumsTo::Buffer(sums) = sums else {
                    unreachable!("accumulators of int8 are buffered")
                };
                // SAFETY: the caller's.
                unsafe { int8::gemm_into(isa, None, sums, a, b, workspace) }
            }

            unsafe fn skinny_gemm(skinny: SkinnyMixed<'_, Self>, workspace: &mut Workspace) {
                // SAFETY: the caller's.
                unsafe { skinny.run_int8(workspace) }
            }
        }
    )+};
}

int8!(i8, u8);

impl MixedPrecision for Bf16 {
    fn part(isa: Isa, depth: usize) -> Option<[usize; 2]> {
        match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Amx => buffered_part_amx(depth),
            Isa::Avx512Bf16 => buffered_part(depth.div_ceil(2)),
            _ => buffered_part(depth),
        }
    }

    #[cfg(target_arch = "x86_64")]
    unsafe fn sum(
        isa: Isa,
        sums: SumsTo<'_, Bf16>,
        a: MatrixRef<'_, Self>,
        b: MatrixRef<'_, Self>,
        workspace: &mut Workspace,
    ) {
        if isa < Isa::Avx512Bf16 {
            // SAFETY: the caller's.
            return unsafe { gemm_converted(isa, sums, a, b, workspace) };
        }
        if isa >= Isa::Amx {
            let transposed = transpose_pays(a, b);
            let (a, b) = if transposed { (b.t(), a.t()) } else { (a, b) };
            // SAFETY: the caller's, of the instruction set in use.
            return unsafe {
                let (cols, b) = (b.shape()[1], Interleaved::<Vnni2Layout>::new(b, true));
                AmxGemm { a, b: AmxB::Interleaved(&b), cols, transposed }.run(sums, workspace);
            };
        }
        // SAFETY: the caller's, of the instruction set in use.
        unsafe {
            let b = Interleaved::<Vnni2Layout>::new(b, true);
            gemm_vnni2(vnni2_kernels(isa), sums, a, Operand::Implicit(&b), workspace);
        }
    }

    #[cfg(target_arch = "x86_64")]
    unsafe fn skinny_gemm(skinny: SkinnyMixed<'_, Self>, workspace: &mut Workspace) {
        let has_pairs = skinny.isa >= Isa::Avx512Bf16 && skinny.form == GemvForm::Dot;
        match skinny.as_vnni2() {
            Some(pairs) if has_pairs => skinny.run_vnni2(pairs, workspace),
            _ => skinny.run_converted(workspace),
        }
    }
}

/// `c = beta * c + alpha * a @ b` on this thread, every float rounded once and every integer wrapped
/// around; without `beta`, `c` is not read. For the plan see [`gemm`](crate::gemm). With AVX-512 BF16,
/// subnormal `f32` count as zero, as they do in PyTorch's products.
///
/// # Safety
/// As for [`gemm`](crate::gemm).
///
/// # Panics
/// When the shapes do not match or the depth is zero.
pub unsafe fn gemm_mixed<H: MixedPrecision>(
    plan: Plan,
    isa: Isa,
    c: View<*mut H>,
    a: View<*const H>,
    b: View<*const H>,
    alpha: H::Accum,
    beta: Option<H::Accum>,
) {
    assert!(b.shape == [a.shape[1], c.shape[1]], "the shapes do not match");
    assert!(a.shape == [c.shape[0], b.shape[0]], "the shapes do not match");
    assert!(a.shape[1] > 0, "the depth is zero");
    if c.shape.contains(&0) {
        return;
    }
    // Results are stored row by row.
    let transposed = match plan.0 {
        Algorithm::Blocked | Algorithm::Naive => c.strides[1] != 1 && c.strides[0] == 1,
        Algorithm::Skinny { transposed, .. } => transposed,
    };
    let (c, a, b) = if transposed { (c.t(), b.t(), a.t()) } else { (c, a, b) };
    // SAFETY: the caller's.
    let (a, b) = unsafe { (MatrixRef::new(a), MatrixRef::new(b)) };
    let epilogue =
        RoundingEpilogue { c, scale: Scale { alpha, beta }, pack: H::convert_kernels(isa) };
    let store = |sums: &[H::Accum], width, origin, size| epilogue.store(sums, width, origin, size);
    let mut workspace = Workspace::acquire();
    if let Algorithm::Skinny { form, .. } = plan.0 {
        let skinny = SkinnyMixed { isa, form, a, b, store: &store };
        // SAFETY: the caller's.
        unsafe { H::skinny_gemm(skinny, &mut workspace) };
        return workspace.release();
    }
    let Some(part) = H::part(isa, a.shape()[1]) else {
        // SAFETY: the caller's.
        unsafe { H::sum(isa, SumsTo::Epilogue(c, &store), a, b, &mut workspace) };
        return workspace.release();
    };
    epilogue.in_parts(part, workspace, |sums, rows, cols, workspace| {
        let (a, b) = (a.rows(rows), b.part(0..a.shape()[1], cols));
        // SAFETY: the caller's.
        unsafe { H::sum(isa, SumsTo::Buffer(sums), a, b, workspace) };
    });
}

/// The epilogue of a low-precision result: accumulators are scaled and rounded.
pub(crate) struct RoundingEpilogue<H: LowPrecision> {
    pub c: View<*mut H>,
    pub scale: Scale<H::Accum>,
    pub pack: &'static ConvertKernels<H>,
}

impl<H: LowPrecision> RoundingEpilogue<H> {
    /// Has the accumulators of one part after the other computed, given their buffer, rows and
    /// columns, and stores them.
    pub(crate) fn in_parts(
        &self,
        part: [usize; 2],
        mut workspace: Workspace,
        sum: impl Fn(View<*mut H::Accum>, Range<usize>, Range<usize>, &mut Workspace),
    ) {
        let mut buffer = std::mem::take(&mut workspace.sums);
        for rows in chunks(self.c.shape[0], part[0]) {
            for cols in chunks(self.c.shape[1], part[1]) {
                let shape = [rows.len(), cols.len()];
                let sums = buffer.as_mut_slice::<H::Accum>(shape[0] * shape[1]);
                let view = View { data: sums.as_mut_ptr(), shape, strides: [shape[1] as isize, 1] };
                sum(view, rows.clone(), cols.clone(), &mut workspace);
                self.store(sums, shape[1], [rows.start, cols.start], shape);
            }
        }
        workspace.sums = buffer;
        workspace.release();
    }

    pub(crate) fn store(
        &self,
        sums: &[H::Accum],
        width: usize,
        origin: [usize; 2],
        [rows, cols]: [usize; 2],
    ) {
        let (c, [row, col]) = (self.c.ptr_at(origin), self.c.strides);
        assert!(cols <= width && (rows - 1) * width + cols <= sums.len());
        let from =
            StridedRows { first: sums.as_ptr(), stride: width as isize, count: rows, len: cols };
        if col == 1 {
            let to = StridedRows { first: c, stride: row, count: rows, len: cols };
            // SAFETY: there are sums for all rows and columns, which lie in the result; the
            // kernels are of the instruction set in use.
            return unsafe { (self.pack.store_tile)(from, to, self.scale) };
        }
        for i in 0..rows {
            for j in 0..cols {
                let to = c.wrapping_offset(i as isize * row + j as isize * col);
                let sum = self.scale.alpha * sums[i * width + j];
                // SAFETY: as above.
                unsafe {
                    let old = (*to).to_accum();
                    let all = self.scale.beta.map_or(sum, |beta| beta.fma(old, sum));
                    *to = H::from_accum(all);
                }
            }
        }
    }
}
