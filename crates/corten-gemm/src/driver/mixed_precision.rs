//! Products of narrow elements. Sums are wide: those of floats are rounded once, and of those of
//! integers the low bits are kept.

#[cfg(target_arch = "x86_64")]
use crate::driver::amx_gemm::{AmxB, AmxGemm, BLOCKS};
use crate::driver::epilogue::{Accumulate, Epilogue};
use crate::driver::gemm::{KC, chunks, gemm_blocked};
use crate::driver::int8::{self, Byte};
use crate::driver::plan::{Algorithm, Plan};
use crate::kernel::micro_kernel::{Instructions, Number, Sealed};
#[cfg(target_arch = "x86_64")]
use crate::kernel::micro_kernel::{MicroKernels, vnni2_kernels};
use crate::kernel::skinny::{GemvForm, Skinny, SkinnyOperand, SmallMatrix, StoreTile};
use crate::pack::blocks::Operand;
use crate::pack::convert_pack::{self, ConvertKernels, Converted};
#[cfg(target_arch = "x86_64")]
use crate::pack::interleave::{Interleaved, Vnni2Layout};
use crate::pack::pack_kernels::{Lines, Scale};
#[cfg(target_arch = "x86_64")]
use crate::pack::prepacked::PrepackedBf16;
use crate::types::low_precision::{Bf16, F16, Narrow};
use crate::types::view::{Source, View};
#[cfg(target_arch = "x86_64")]
use crate::types::vnni::Pair;
use crate::types::workspace::Scratch;
use std::num::Wrapping;
use std::ops::Range;

/// Rows and columns of a part of the result whose sums are kept.
const PART: usize = 1024;

/// Elements of a factor that are brought into order in the time in which a sum is turned.
#[cfg(target_arch = "x86_64")]
const SUM: usize = 4;

/// [`Bf16`], [`F16`], and integers of 8 and 16 bits.
pub trait NarrowFactor: Narrow + SkinnyOperand<Sum = Self::Wide> {
    /// The moves of these instructions.
    #[doc(hidden)]
    fn convert_kernels(instructions: Instructions) -> &'static ConvertKernels<Self>;

    /// The rows and columns of a part of the result, given the depth, if sums need places of their own.
    #[doc(hidden)]
    fn part(_: Instructions, _depth: usize) -> Option<[usize; 2]> {
        Some([PART; 2])
    }

    /// Brings the sums of a product of parts to their places.
    ///
    /// # Safety
    /// The processor must have the instructions.
    #[doc(hidden)]
    unsafe fn sum(
        instructions: Instructions,
        sums: SumsTo<'_, Self>,
        a: Source<'_, Self>,
        b: Source<'_, Self>,
        workspace: &mut Scratch,
    ) {
        // SAFETY: the caller's.
        unsafe { sum_of_widened(instructions, sums, a, b, workspace) }
    }

    /// A product with few rows.
    ///
    /// # Safety
    /// The processor must have the instructions.
    #[doc(hidden)]
    unsafe fn skinny_gemm(skinny: SkinnyMixed<'_, Self>, workspace: &mut Scratch) {
        skinny.run_widened(workspace);
    }
}

/// The rows and columns of a part of a result of so many steps; none where they are summed at once.
fn part_of(chunks: usize) -> Option<[usize; 2]> {
    (chunks > KC).then_some([PART; 2])
}

/// Where sums go.
pub enum SumsTo<'a, H: Narrow> {
    /// To a place of their own.
    Buffer(View<*mut H::Wide>),
    /// To this result, which they are brought to when all of the depth is summed at once.
    Epilogue(View<*mut H>, &'a StoreTile<'a, H::Wide>),
}

/// The sums of what becomes wide where tiles need it.
///
/// # Safety
/// As for [`NarrowFactor::sum`].
unsafe fn sum_of_widened<H: NarrowFactor>(
    instructions: Instructions,
    sums: SumsTo<'_, H>,
    a: Source<'_, H>,
    b: Source<'_, H>,
    workspace: &mut Scratch,
) {
    let kernels = H::Wide::micro_kernels(instructions);
    let (depth, pack) = (a.shape()[1], H::convert_kernels(instructions));
    let (a, b) = (Converted { source: a, pack }, Converted { source: b, pack });
    let epilogue = match sums {
        SumsTo::Buffer(view) => {
            Epilogue::of(view, H::Wide::ONE, Accumulate::Overwrite, &kernels.pack)
        }
        SumsTo::Epilogue(c, store) => Epilogue::through(c.shape, store, &kernels.pack),
    };
    gemm_blocked(kernels, epilogue, depth, Operand::Implicit(&a), Operand::Implicit(&b), workspace);
}

/// A product with few rows, in the order of its second factor.
pub struct SkinnyMixed<'a, H: Narrow> {
    instructions: Instructions,
    form: GemvForm,
    a: Source<'a, H>,
    b: Source<'a, H>,
    store: &'a StoreTile<'a, H::Wide>,
}

impl<H: NarrowFactor> SkinnyMixed<'_, H> {
    fn run_widened(self, workspace: &mut Scratch) {
        let Self { instructions, form, a, b, store } = self;
        let a = SmallMatrix { source: a, instructions };
        Skinny { a: &a, b, instructions, form, store }.run(workspace);
    }
}

impl<H: Byte> SkinnyMixed<'_, H> {
    /// # Safety
    /// The processor must have the instructions.
    unsafe fn run_bytes(self, workspace: &mut Scratch) {
        if self.instructions < Instructions::Avx512Vnni {
            return self.run_widened(workspace);
        }
        let Self { instructions, form, a, b, store } = self;
        let shape @ [rows, cols] = [a.shape()[0], b.shape()[1]];
        let mut room = std::mem::take(&mut workspace.sums);
        let sums = room.elements::<Wrapping<i32>>(rows * cols);
        let view = View { data: sums.as_mut_ptr(), shape, strides: [cols as isize, 1] };
        // SAFETY: the caller's.
        unsafe { int8::sums(instructions, Some(form), view, a, b, workspace) };
        store(sums, cols, [0, 0], shape);
        workspace.sums = room;
    }
}

#[cfg(target_arch = "x86_64")]
impl SkinnyMixed<'_, Bf16> {
    /// Both factors as pairs where they lie, if they are.
    fn as_pairs(&self) -> Option<[Source<'_, Pair>; 2]> {
        Some([pairs_of(self.a)?, pairs_of(self.b.t())?.t()])
    }

    fn run_pairs(&self, [a, b]: [Source<'_, Pair>; 2], workspace: &mut Scratch) {
        let store = of_pairs(self.store);
        let (instructions, form) = (self.instructions, self.form);
        Skinny { a: &a, b, instructions, form, store: &store }.run(workspace);
    }
}

/// What takes sums by their bits to where floats are taken.
#[cfg(target_arch = "x86_64")]
pub(crate) fn of_pairs(
    store: &StoreTile<'_, f32>,
) -> impl Fn(&[Pair], usize, [usize; 2], [usize; 2]) {
    move |sums, width, place, size| {
        // SAFETY: a sum is an `f32`, by its bits.
        let sums = unsafe { std::slice::from_raw_parts(sums.as_ptr().cast(), sums.len()) };
        store(sums, width, place, size);
    }
}

/// A first factor as pairs where they lie, if they do.
#[cfg(target_arch = "x86_64")]
pub(crate) fn pairs_of(a: Source<'_, Bf16>) -> Option<Source<'_, Pair>> {
    let ([rows, depth], [row, step]) = (a.shape(), a.strides());
    let batch_stride = row % 2 == 0 || rows == 1;
    if step != 1 || depth % 2 != 0 || !batch_stride || !a.first().cast::<Pair>().is_aligned() {
        return None;
    }
    let view = View { data: a.first().cast(), shape: [rows, depth / 2], strides: [row / 2, 1] };
    // SAFETY: the same memory, for as long.
    Some(unsafe { Source::new(view) })
}

/// [`part_of`] so many steps where tiles have registers of their own.
#[cfg(target_arch = "x86_64")]
fn part_in_tiles(chunks: usize) -> Option<[usize; 2]> {
    (chunks.div_ceil(2) > BLOCKS * KC).then_some([PART; 2])
}

/// Whether the transposes are multiplied: the second factor then is the first one, and where its pairs lie
/// side by side it is not brought into order. The first one is instead, and the sums.
#[cfg(target_arch = "x86_64")]
fn transpose_pays(a: Source<'_, Bf16>, b: Source<'_, Bf16>) -> bool {
    let ([rows, depth], cols) = (a.shape(), b.shape()[1]);
    pairs_of(b.t()).is_some() && rows * depth + SUM * rows * cols < cols * depth
}

/// The sums of pairs in vector registers.
///
/// # Safety
/// As for [`NarrowFactor::sum`].
#[cfg(target_arch = "x86_64")]
unsafe fn sum_of_pairs(
    kernels: &'static MicroKernels<Pair>,
    sums: SumsTo<'_, Bf16>,
    a: Source<'_, Bf16>,
    b: Operand<'_, Pair>,
    workspace: &mut Scratch,
) {
    let depth = a.shape()[1].div_ceil(2);
    // SAFETY: the caller's.
    let a = unsafe { Interleaved::<Vnni2Layout>::new(a, false) };
    let a = Operand::Implicit(&a);
    match sums {
        SumsTo::Buffer(sums) => {
            let epilogue =
                Epilogue::of(sums.cast(), Pair::ONE, Accumulate::Overwrite, &kernels.pack);
            gemm_blocked(kernels, epilogue, depth, a, b, workspace);
        }
        SumsTo::Epilogue(c, store) => {
            let store = of_pairs(store);
            gemm_blocked(
                kernels,
                Epilogue::through(c.shape, &store, &kernels.pack),
                depth,
                a,
                b,
                workspace,
            );
        }
    }
}

impl NarrowFactor for F16 {
    fn convert_kernels(instructions: Instructions) -> &'static ConvertKernels<Self> {
        convert_pack::f16_kernels(instructions)
    }

    fn part(_: Instructions, depth: usize) -> Option<[usize; 2]> {
        part_of(depth)
    }
}

impl NarrowFactor for i16 {
    fn convert_kernels(instructions: Instructions) -> &'static ConvertKernels<Self> {
        convert_pack::i16_kernels(instructions)
    }
}

macro_rules! bytes {
    ($($element:ty: $moves:ident;)+) => {$(
        impl NarrowFactor for $element {
            fn convert_kernels(instructions: Instructions) -> &'static ConvertKernels<Self> {
                convert_pack::$moves(instructions)
            }

            unsafe fn sum(
                instructions: Instructions,
                sums: SumsTo<'_, Self>,
                a: Source<'_, Self>,
                b: Source<'_, Self>,
                workspace: &mut Scratch,
            ) {
                let SumsTo::Buffer(sums) = sums else {
                    unreachable!("sums of bytes have places of their own")
                };
                // SAFETY: the caller's.
                unsafe { int8::sums(instructions, None, sums, a, b, workspace) }
            }

            unsafe fn skinny_gemm(skinny: SkinnyMixed<'_, Self>, workspace: &mut Scratch) {
                // SAFETY: the caller's.
                unsafe { skinny.run_bytes(workspace) }
            }
        }
    )+};
}

bytes! {
    i8: i8_kernels;
    u8: u8_kernels;
}

impl NarrowFactor for Bf16 {
    fn convert_kernels(instructions: Instructions) -> &'static ConvertKernels<Self> {
        convert_pack::bf16_kernels(instructions)
    }

    fn part(instructions: Instructions, depth: usize) -> Option<[usize; 2]> {
        match instructions {
            #[cfg(target_arch = "x86_64")]
            Instructions::Amx => part_in_tiles(depth),
            Instructions::Avx512Bf16 => part_of(depth.div_ceil(2)),
            _ => part_of(depth),
        }
    }

    #[cfg(target_arch = "x86_64")]
    unsafe fn sum(
        instructions: Instructions,
        sums: SumsTo<'_, Bf16>,
        a: Source<'_, Self>,
        b: Source<'_, Self>,
        workspace: &mut Scratch,
    ) {
        if instructions < Instructions::Avx512Bf16 {
            // SAFETY: the caller's.
            return unsafe { sum_of_widened(instructions, sums, a, b, workspace) };
        }
        if instructions >= Instructions::Amx {
            let transposed = transpose_pays(a, b);
            let (a, b) = if transposed { (b.t(), a.t()) } else { (a, b) };
            // SAFETY: the caller's: these are the instructions in use.
            return unsafe {
                let (cols, b) = (b.shape()[1], Interleaved::<Vnni2Layout>::new(b, true));
                AmxGemm { a, b: AmxB::Interleaved(&b), cols, transposed }.run(sums, workspace);
            };
        }
        // SAFETY: the caller's: these are the instructions in use.
        unsafe {
            let b = Interleaved::<Vnni2Layout>::new(b, true);
            sum_of_pairs(vnni2_kernels(instructions), sums, a, Operand::Implicit(&b), workspace);
        }
    }

    #[cfg(target_arch = "x86_64")]
    unsafe fn skinny_gemm(skinny: SkinnyMixed<'_, Self>, workspace: &mut Scratch) {
        let has_pairs =
            skinny.instructions >= Instructions::Avx512Bf16 && skinny.form == GemvForm::Dot;
        match skinny.as_pairs() {
            Some(pairs) if has_pairs => skinny.run_pairs(pairs, workspace),
            _ => skinny.run_widened(workspace),
        }
    }
}

/// `c = beta * c + alpha * a @ b` on this thread, every float rounded once and every integer wrapped
/// around; without `beta`, what `c` holds is not read. For the way see [`product`](crate::product).
/// With AVX-512 BF16, floats and sums smaller than the smallest normal `f32` count as zero, as they do
/// in PyTorch's products.
///
/// # Safety
/// As for [`product`](crate::product).
///
/// # Panics
/// When the shapes do not fit or there is no depth.
pub unsafe fn product_of_narrow<H: NarrowFactor>(
    plan: Plan,
    instructions: Instructions,
    c: View<*mut H>,
    a: View<*const H>,
    b: View<*const H>,
    alpha: H::Wide,
    beta: Option<H::Wide>,
) {
    assert!(b.shape == [a.shape[1], c.shape[1]], "the shapes do not fit");
    assert!(a.shape == [c.shape[0], b.shape[0]], "the shapes do not fit");
    assert!(a.shape[1] > 0, "there is no depth");
    if c.shape.contains(&0) {
        return;
    }
    // Results are written line by line.
    let transposed = match plan.0 {
        Algorithm::Blocked | Algorithm::Naive => c.strides[1] != 1 && c.strides[0] == 1,
        Algorithm::Skinny { transposed, .. } => transposed,
    };
    let (c, a, b) = if transposed { (c.t(), b.t(), a.t()) } else { (c, a, b) };
    // SAFETY: the caller's.
    let (a, b) = unsafe { (Source::new(a), Source::new(b)) };
    let epilogue =
        Converting { c, scale: Scale { alpha, beta }, pack: H::convert_kernels(instructions) };
    let store = |sums: &[H::Wide], width, place, size| epilogue.store(sums, width, place, size);
    let mut workspace = Scratch::take();
    if let Algorithm::Skinny { form, .. } = plan.0 {
        let skinny = SkinnyMixed { instructions, form, a, b, store: &store };
        // SAFETY: the caller's.
        unsafe { H::skinny_gemm(skinny, &mut workspace) };
        return workspace.give_back();
    }
    let Some(part) = H::part(instructions, a.shape()[1]) else {
        // SAFETY: the caller's.
        unsafe { H::sum(instructions, SumsTo::Epilogue(c, &store), a, b, &mut workspace) };
        return workspace.give_back();
    };
    epilogue.in_parts(part, workspace, |sums, rows, cols, workspace| {
        let (a, b) = (a.rows(rows), b.part(0..a.shape()[1], cols));
        // SAFETY: the caller's.
        unsafe { H::sum(instructions, SumsTo::Buffer(sums), a, b, workspace) };
    });
}

/// `c = beta * c + a @ b` on this thread, with some columns of a factor whose panels were made before;
/// the first one begins a panel. Rounded as by [`product_of_narrow`].
///
/// # Safety
/// As for [`product`](crate::product), of `c` and `a`.
///
/// # Panics
/// When the shapes do not fit, there is no depth, or the columns do not begin with a panel.
#[cfg(target_arch = "x86_64")]
pub unsafe fn product_of_packed_pairs(
    c: View<*mut Bf16>,
    a: View<*const Bf16>,
    (b, cols): (&PrepackedBf16, Range<usize>),
    beta: Option<f32>,
) {
    assert!(a.shape[0] == c.shape[0] && cols.len() == c.shape[1], "the shapes do not fit");
    assert!(a.shape[1] == b.shape()[0] && cols.end <= b.shape()[1], "the shapes do not fit");
    assert!(a.shape[1] > 0, "there is no depth");
    if c.shape.contains(&0) {
        return;
    }
    // SAFETY: the caller's.
    let a = unsafe { Source::new(a) };
    let scale = Scale { alpha: 1.0, beta };
    let epilogue = Converting { c, scale, pack: Bf16::convert_kernels(Instructions::Avx512Bf16) };
    let multiply =
        |sums: SumsTo<'_, Bf16>, rows, columns: Range<usize>, workspace: &mut Scratch| {
            let (a, first, cols) = (a.rows(rows), cols.start + columns.start, columns.len());
            // SAFETY: pairs were packed, so the processor has the instructions.
            unsafe {
                if b.instructions >= Instructions::Amx {
                    let b = AmxB::Prepacked(&b.pairs, first);
                    AmxGemm { a, b, cols, transposed: false }.run(sums, workspace);
                } else {
                    sum_of_pairs(
                        b.pairs.kernels(),
                        sums,
                        a,
                        Operand::Prepacked(&b.pairs, first),
                        workspace,
                    );
                }
            }
        };
    let mut workspace = Scratch::take();
    let Some(part) = Bf16::part(b.instructions, a.shape()[1]) else {
        let store = |sums: &[f32], width, place, size| epilogue.store(sums, width, place, size);
        let sums = SumsTo::Epilogue(c, &store);
        multiply(sums, 0..c.shape[0], 0..c.shape[1], &mut workspace);
        return workspace.give_back();
    };
    epilogue.in_parts(part, workspace, |sums, rows, columns, workspace| {
        multiply(SumsTo::Buffer(sums), rows, columns, workspace);
    });
}

/// A result that sums are rounded to.
struct Converting<H: Narrow> {
    c: View<*mut H>,
    scale: Scale<H::Wide>,
    pack: &'static ConvertKernels<H>,
}

impl<H: Narrow> Converting<H> {
    /// Has the sums of one part after the other made, given their place, rows and columns, and brings
    /// them to the result.
    fn in_parts(
        &self,
        part: [usize; 2],
        mut workspace: Scratch,
        sum: impl Fn(View<*mut H::Wide>, Range<usize>, Range<usize>, &mut Scratch),
    ) {
        let mut room = std::mem::take(&mut workspace.sums);
        for rows in chunks(self.c.shape[0], part[0]) {
            for cols in chunks(self.c.shape[1], part[1]) {
                let shape = [rows.len(), cols.len()];
                let sums = room.elements::<H::Wide>(shape[0] * shape[1]);
                let view = View { data: sums.as_mut_ptr(), shape, strides: [shape[1] as isize, 1] };
                sum(view, rows.clone(), cols.clone(), &mut workspace);
                self.store(sums, shape[1], [rows.start, cols.start], shape);
            }
        }
        workspace.sums = room;
        workspace.give_back();
    }

    fn store(&self, sums: &[H::Wide], width: usize, place: [usize; 2], [rows, cols]: [usize; 2]) {
        let (c, [row, col]) = (self.c.place(place), self.c.strides);
        assert!(cols <= width && (rows - 1) * width + cols <= sums.len());
        let from = Lines { first: sums.as_ptr(), stride: width as isize, count: rows, len: cols };
        if col == 1 {
            let to = Lines { first: c, stride: row, count: rows, len: cols };
            // SAFETY: there are sums for all rows and columns, and they are places of the result;
            // the moves are of the level in use.
            return unsafe { (self.pack.store_tile)(from, to, self.scale) };
        }
        for i in 0..rows {
            for j in 0..cols {
                let to = c.wrapping_offset(i as isize * row + j as isize * col);
                let sum = self.scale.alpha * sums[i * width + j];
                // SAFETY: as above.
                unsafe {
                    let old = (*to).wide();
                    let all = self.scale.beta.map_or(sum, |beta| beta.multiply_add(old, sum));
                    *to = H::rounded(all);
                }
            }
        }
    }
}
