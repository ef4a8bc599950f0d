//! Products of narrow elements. Sums are wide: those of floats are rounded once, and of those of
//! integers the low bits are kept.

#[cfg(target_arch = "x86_64")]
use crate::driver::amx_gemm::{AmxB, AmxGemm, BLOCKS};
use crate::driver::epilogue::{Output, Start};
use crate::driver::gemm::{DEPTH, steps, walk};
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
    fn pack(instructions: Instructions) -> &'static ConvertKernels<Self>;

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
        sums: Place<'_, Self>,
        a: Source<'_, Self>,
        b: Source<'_, Self>,
        scratch: &mut Scratch,
    ) {
        // SAFETY: the caller's.
        unsafe { sum_of_widened(instructions, sums, a, b, scratch) }
    }

    /// A product with few rows.
    ///
    /// # Safety
    /// The processor must have the instructions.
    #[doc(hidden)]
    unsafe fn skinny_gemm(skinny: SkinnyMixed<'_, Self>, scratch: &mut Scratch) {
        skinny.run_widened(scratch);
    }
}

/// The rows and columns of a part of a result of so many steps; none where they are summed at once.
fn part_of(steps: usize) -> Option<[usize; 2]> {
    (steps > DEPTH).then_some([PART; 2])
}

/// Where sums go.
pub enum Place<'a, H: Narrow> {
    /// To a place of their own.
    Here(View<*mut H::Wide>),
    /// To this result, which they are brought to when all of the depth is summed at once.
    Elsewhere(View<*mut H>, &'a StoreTile<'a, H::Wide>),
}

/// The sums of what becomes wide where tiles need it.
///
/// # Safety
/// As for [`NarrowFactor::sum`].
unsafe fn sum_of_widened<H: NarrowFactor>(
    instructions: Instructions,
    sums: Place<'_, H>,
    a: Source<'_, H>,
    b: Source<'_, H>,
    scratch: &mut Scratch,
) {
    let kernels = H::Wide::micro_kernels(instructions);
    let (depth, pack) = (a.shape()[1], H::pack(instructions));
    let (a, b) = (Converted { source: a, pack }, Converted { source: b, pack });
    let output = match sums {
        Place::Here(view) => Output::of(view, H::Wide::ONE, Start::Nothing, &kernels.pack),
        Place::Elsewhere(c, bring) => Output::elsewhere(c.shape, bring, &kernels.pack),
    };
    walk(kernels, output, depth, Operand::Implicit(&a), Operand::Implicit(&b), scratch);
}

/// A product with few rows, in the order of its second factor.
pub struct SkinnyMixed<'a, H: Narrow> {
    instructions: Instructions,
    form: GemvForm,
    a: Source<'a, H>,
    b: Source<'a, H>,
    bring: &'a StoreTile<'a, H::Wide>,
}

impl<H: NarrowFactor> SkinnyMixed<'_, H> {
    fn run_widened(self, scratch: &mut Scratch) {
        let Self { instructions, form, a, b, bring } = self;
        let a = SmallMatrix { source: a, instructions };
        Skinny { a: &a, b, instructions, form, bring }.run(scratch);
    }
}

impl<H: Byte> SkinnyMixed<'_, H> {
    /// # Safety
    /// The processor must have the instructions.
    unsafe fn run_bytes(self, scratch: &mut Scratch) {
        if self.instructions < Instructions::Avx512Vnni {
            return self.run_widened(scratch);
        }
        let Self { instructions, form, a, b, bring } = self;
        let shape @ [rows, cols] = [a.shape()[0], b.shape()[1]];
        let mut room = std::mem::take(&mut scratch.sums);
        let sums = room.elements::<Wrapping<i32>>(rows * cols);
        let view = View { data: sums.as_mut_ptr(), shape, strides: [cols as isize, 1] };
        // SAFETY: the caller's.
        unsafe { int8::sums(instructions, Some(form), view, a, b, scratch) };
        bring(sums, cols, [0, 0], shape);
        scratch.sums = room;
    }
}

#[cfg(target_arch = "x86_64")]
impl SkinnyMixed<'_, Bf16> {
    /// Both factors as pairs where they lie, if they are.
    fn as_pairs(&self) -> Option<[Source<'_, Pair>; 2]> {
        Some([pairs_of(self.a)?, pairs_of(self.b.t())?.t()])
    }

    fn run_pairs(&self, [a, b]: [Source<'_, Pair>; 2], scratch: &mut Scratch) {
        let bring = of_pairs(self.bring);
        let (instructions, form) = (self.instructions, self.form);
        Skinny { a: &a, b, instructions, form, bring: &bring }.run(scratch);
    }
}

/// What takes sums by their bits to where floats are taken.
#[cfg(target_arch = "x86_64")]
pub(crate) fn of_pairs(
    bring: &StoreTile<'_, f32>,
) -> impl Fn(&[Pair], usize, [usize; 2], [usize; 2]) {
    move |sums, width, place, size| {
        // SAFETY: a sum is an `f32`, by its bits.
        let sums = unsafe { std::slice::from_raw_parts(sums.as_ptr().cast(), sums.len()) };
        bring(sums, width, place, size);
    }
}

/// A first factor as pairs where they lie, if they do.
#[cfg(target_arch = "x86_64")]
pub(crate) fn pairs_of(a: Source<'_, Bf16>) -> Option<Source<'_, Pair>> {
    let ([rows, depth], [row, step]) = (a.shape(), a.strides());
    let apart = row % 2 == 0 || rows == 1;
    if step != 1 || depth % 2 != 0 || !apart || !a.first().cast::<Pair>().is_aligned() {
        return None;
    }
    let view = View { data: a.first().cast(), shape: [rows, depth / 2], strides: [row / 2, 1] };
    // SAFETY: the same memory, for as long.
    Some(unsafe { Source::new(view) })
}

/// [`part_of`] so many steps where tiles have registers of their own.
#[cfg(target_arch = "x86_64")]
fn part_in_tiles(steps: usize) -> Option<[usize; 2]> {
    (steps.div_ceil(2) > BLOCKS * DEPTH).then_some([PART; 2])
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
    sums: Place<'_, Bf16>,
    a: Source<'_, Bf16>,
    b: Operand<'_, Pair>,
    scratch: &mut Scratch,
) {
    let depth = a.shape()[1].div_ceil(2);
    // SAFETY: the caller's.
    let a = unsafe { Interleaved::<Vnni2Layout>::new(a, false) };
    let a = Operand::Implicit(&a);
    match sums {
        Place::Here(sums) => {
            let output = Output::of(sums.cast(), Pair::ONE, Start::Nothing, &kernels.pack);
            walk(kernels, output, depth, a, b, scratch);
        }
        Place::Elsewhere(c, bring) => {
            let bring = of_pairs(bring);
            walk(kernels, Output::elsewhere(c.shape, &bring, &kernels.pack), depth, a, b, scratch);
        }
    }
}

impl NarrowFactor for F16 {
    fn pack(instructions: Instructions) -> &'static ConvertKernels<Self> {
        convert_pack::f16_kernels(instructions)
    }

    fn part(_: Instructions, depth: usize) -> Option<[usize; 2]> {
        part_of(depth)
    }
}

impl NarrowFactor for i16 {
    fn pack(instructions: Instructions) -> &'static ConvertKernels<Self> {
        convert_pack::i16_kernels(instructions)
    }
}

macro_rules! bytes {
    ($($element:ty: $moves:ident;)+) => {$(
        impl NarrowFactor for $element {
            fn pack(instructions: Instructions) -> &'static ConvertKernels<Self> {
                convert_pack::$moves(instructions)
            }

            unsafe fn sum(
                instructions: Instructions,
                sums: Place<'_, Self>,
                a: Source<'_, Self>,
                b: Source<'_, Self>,
                scratch: &mut Scratch,
            ) {
                let Place::Here(sums) = sums else {
                    unreachable!("sums of bytes have places of their own")
                };
                // SAFETY: the caller's.
                unsafe { int8::sums(instructions, None, sums, a, b, scratch) }
            }

            unsafe fn skinny_gemm(skinny: SkinnyMixed<'_, Self>, scratch: &mut Scratch) {
                // SAFETY: the caller's.
                unsafe { skinny.run_bytes(scratch) }
            }
        }
    )+};
}

bytes! {
    i8: i8_kernels;
    u8: u8_kernels;
}

impl NarrowFactor for Bf16 {
    fn pack(instructions: Instructions) -> &'static ConvertKernels<Self> {
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
        sums: Place<'_, Bf16>,
        a: Source<'_, Self>,
        b: Source<'_, Self>,
        scratch: &mut Scratch,
    ) {
        if instructions < Instructions::Avx512Bf16 {
            // SAFETY: the caller's.
            return unsafe { sum_of_widened(instructions, sums, a, b, scratch) };
        }
        if instructions >= Instructions::Amx {
            let transposed = transpose_pays(a, b);
            let (a, b) = if transposed { (b.t(), a.t()) } else { (a, b) };
            // SAFETY: the caller's: these are the instructions in use.
            return unsafe {
                let (cols, b) = (b.shape()[1], Interleaved::<Vnni2Layout>::new(b, true));
                AmxGemm { a, b: AmxB::Interleaved(&b), cols, transposed }.run(sums, scratch);
            };
        }
        // SAFETY: the caller's: these are the instructions in use.
        unsafe {
            let b = Interleaved::<Vnni2Layout>::new(b, true);
            sum_of_pairs(vnni2_kernels(instructions), sums, a, Operand::Implicit(&b), scratch);
        }
    }

    #[cfg(target_arch = "x86_64")]
    unsafe fn skinny_gemm(skinny: SkinnyMixed<'_, Self>, scratch: &mut Scratch) {
        let has_pairs =
            skinny.instructions >= Instructions::Avx512Bf16 && skinny.form == GemvForm::Dot;
        match skinny.as_pairs() {
            Some(pairs) if has_pairs => skinny.run_pairs(pairs, scratch),
            _ => skinny.run_widened(scratch),
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
    let output = Rounded { c, scale: Scale { alpha, beta }, pack: H::pack(instructions) };
    let bring = |sums: &[H::Wide], width, place, size| output.bring(sums, width, place, size);
    let mut scratch = Scratch::take();
    if let Algorithm::Skinny { form, .. } = plan.0 {
        let skinny = SkinnyMixed { instructions, form, a, b, bring: &bring };
        // SAFETY: the caller's.
        unsafe { H::skinny_gemm(skinny, &mut scratch) };
        return scratch.give_back();
    }
    let Some(part) = H::part(instructions, a.shape()[1]) else {
        // SAFETY: the caller's.
        unsafe { H::sum(instructions, Place::Elsewhere(c, &bring), a, b, &mut scratch) };
        return scratch.give_back();
    };
    output.in_parts(part, scratch, |sums, rows, cols, scratch| {
        let (a, b) = (a.rows(rows), b.part(0..a.shape()[1], cols));
        // SAFETY: the caller's.
        unsafe { H::sum(instructions, Place::Here(sums), a, b, scratch) };
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
    let output = Rounded { c, scale, pack: Bf16::pack(Instructions::Avx512Bf16) };
    let multiply = |sums: Place<'_, Bf16>, rows, columns: Range<usize>, scratch: &mut Scratch| {
        let (a, first, cols) = (a.rows(rows), cols.start + columns.start, columns.len());
        // SAFETY: pairs were packed, so the processor has the instructions.
        unsafe {
            if b.instructions >= Instructions::Amx {
                let b = AmxB::Prepacked(&b.pairs, first);
                AmxGemm { a, b, cols, transposed: false }.run(sums, scratch);
            } else {
                sum_of_pairs(
                    b.pairs.kernels(),
                    sums,
                    a,
                    Operand::Prepacked(&b.pairs, first),
                    scratch,
                );
            }
        }
    };
    let mut scratch = Scratch::take();
    let Some(part) = Bf16::part(b.instructions, a.shape()[1]) else {
        let bring = |sums: &[f32], width, place, size| output.bring(sums, width, place, size);
        let sums = Place::Elsewhere(c, &bring);
        multiply(sums, 0..c.shape[0], 0..c.shape[1], &mut scratch);
        return scratch.give_back();
    };
    output.in_parts(part, scratch, |sums, rows, columns, scratch| {
        multiply(Place::Here(sums), rows, columns, scratch);
    });
}

/// A result that sums are rounded to.
struct Rounded<H: Narrow> {
    c: View<*mut H>,
    scale: Scale<H::Wide>,
    pack: &'static ConvertKernels<H>,
}

impl<H: Narrow> Rounded<H> {
    /// Has the sums of one part after the other made, given their place, rows and columns, and brings
    /// them to the result.
    fn in_parts(
        &self,
        part: [usize; 2],
        mut scratch: Scratch,
        sum: impl Fn(View<*mut H::Wide>, Range<usize>, Range<usize>, &mut Scratch),
    ) {
        let mut room = std::mem::take(&mut scratch.sums);
        for rows in steps(self.c.shape[0], part[0]) {
            for cols in steps(self.c.shape[1], part[1]) {
                let shape = [rows.len(), cols.len()];
                let sums = room.elements::<H::Wide>(shape[0] * shape[1]);
                let view = View { data: sums.as_mut_ptr(), shape, strides: [shape[1] as isize, 1] };
                sum(view, rows.clone(), cols.clone(), &mut scratch);
                self.bring(sums, shape[1], [rows.start, cols.start], shape);
            }
        }
        scratch.sums = room;
        scratch.give_back();
    }

    fn bring(&self, sums: &[H::Wide], width: usize, place: [usize; 2], [rows, cols]: [usize; 2]) {
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
