//! The engines behind [`super::gemm`]: `corten-gemm`, and four of its real products for complex
//! numbers.

use super::{Base, Factor, Factors, Mat, MatMut, SideBySide};
use crate::vec::{Level, level};
use corten_core::{Complex, Element, Scalar, bf16, f16, unwinding};
use corten_gemm::{
    Accumulate, BatchStride, Bf16, F16, Int8, Isa, MatrixRef, PACK_PADDING, Plan, View, gemm_int8,
    gemm_mixed,
};
use std::num::Wrapping;

/// An element type that matrices can be made of.
pub(crate) trait MatElement: Element + Default {
    /// `c = beta * c + alpha * a @ b` on this thread. The shapes fit and no dimension is 0. The plan
    /// is that of the whole product, of which this may be a part.
    fn product(
        plan: Plan,
        c: MatMut<'_, Self>,
        a: Mat<'_, Self>,
        b: Mat<'_, Self>,
        factors: Factors,
    );

    /// `c = base + a @ b`.
    fn product_from(
        plan: Plan,
        mut c: MatMut<'_, Self>,
        a: Mat<'_, Self>,
        b: Mat<'_, Self>,
        base: Base<'_, Self>,
    ) {
        if let Base::Nothing = base {
            return Self::product(plan, c, a, b, Factors::PRODUCT);
        }
        base.fill(&mut c);
        Self::product(plan, c, a, b, Factors::ADD);
    }

    /// `c = base + a @ b` over so many steps. The shapes fit and no dimension is 0.
    fn product_of_factors(
        mut c: SideBySide<'_, Self>,
        depth: usize,
        [a, b]: [Factor<'_, Self>; 2],
        base: Base<'_, Self>,
    ) {
        let ([rows, all], cols) = (c.shape(), c.first.cols);
        let mut rooms = [vec![], vec![]];
        let [room, other] = &mut rooms;
        let (Some(a), Some(b)) = (made(a, [rows, depth], room), made(b, [depth, all], other))
        else {
            return;
        };
        for index in 0..c.count {
            let range = index * cols..(index + 1) * cols;
            let mut c = c.get(index);
            let factors = match base {
                Base::Nothing => Factors::PRODUCT,
                Base::Result => Factors::ADD,
                Base::PerRow(values) => {
                    c.update(|row, _, _| values[row]);
                    Factors::ADD
                }
                Base::PerColumn(values) => {
                    c.update(|_, col, _| values[range.start + col]);
                    Factors::ADD
                }
            };
            Self::product(Plan::BLOCKED, c, a, b.cols(range), factors);
        }
    }

    /// Whether a product with so many columns copies rows that lie at a multiple of
    /// [`L1_ALIAS_STRIDE`](super::L1_ALIAS_STRIDE).
    fn packs_aliasing_rows(_cols: usize) -> bool {
        true
    }

    /// `c = beta * c`, without reading `c` when `beta` is zero.
    fn rescale(mut c: MatMut<'_, Self>, beta: Scalar) {
        let zero = is_zero(beta);
        c.update(|_, _, old| if zero { Self::default() } else { old.times(beta) });
    }

    /// An element of the result, scaled: rounded once, or wrapped around.
    fn times(self, factor: Scalar) -> Self;
}

/// A factor as a matrix; one that is made lies in the room.
fn made<'a, T: MatElement>(
    factor: Factor<'a, T>,
    [lines, len]: [usize; 2],
    room: &'a mut Vec<T>,
) -> Option<Mat<'a, T>> {
    match factor {
        Factor::Matrix(matrix) => Some(matrix),
        Factor::Made(columns) => {
            unwinding::resize(room, lines * len + PACK_PADDING, T::default());
            columns.pack(0..lines, 0..len, room, len);
            Mat::row_major(room, lines, len).ok()
        }
        Factor::Pieces(pieces) => {
            let places = (0..lines).flat_map(|line| (0..len).map(move |place| (line, place)));
            unwinding::extend(room, places.map(|(line, place)| pieces.at(line, place)));
            Mat::row_major(room, lines, len).ok()
        }
    }
}

/// The instructions of the level in use.
pub(crate) fn instructions() -> Isa {
    match level() {
        Level::Baseline => Isa::Portable,
        Level::Avx2 => Isa::Avx2,
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 if is_x86_feature_detected!("avx512vnni") => {
            match is_x86_feature_detected!("avx512bf16") {
                true if corten_gemm::has_amx() => Isa::Amx,
                true => Isa::Avx512Bf16,
                false => Isa::Avx512Vnni,
            }
        }
        Level::Avx512 => Isa::Avx512,
    }
}

/// The name of those instructions.
pub(crate) fn instructions_in_use() -> &'static str {
    match instructions() {
        Isa::Portable => "baseline instructions",
        Isa::Avx2 => "AVX2",
        Isa::Avx512 => "AVX-512",
        Isa::Avx512Vnni => "AVX-512 VNNI",
        Isa::Avx512Bf16 => "AVX-512 BF16",
        Isa::Amx => "AMX",
    }
}

/// `c = a @ b` of bytes on this thread. The shapes fit and no dimension is 0.
pub(super) fn multiply_bytes<A: Int8, B: Int8>(
    plan: Plan,
    c: MatMut<'_, i32>,
    a: Mat<'_, A>,
    b: Mat<'_, B>,
) {
    // SAFETY: integers that wrap around are integers; the matrices lie where their pointers say, `c`
    // shares memory with no other one, and the instructions are those of the level in use.
    unsafe { gemm_int8(plan, instructions(), c.view().cast(), a.view(), b.view()) };
}

/// Whether a factor is exactly zero.
fn is_zero(factor: Scalar) -> bool {
    factor.to_complex() == Complex::new(0.0, 0.0)
}

macro_rules! through_real_tiles {
    ($($t:ident),*) => {$(
        impl MatElement for $t {
            fn product(
                plan: Plan,
                c: MatMut<'_, Self>,
                a: Mat<'_, Self>,
                b: Mat<'_, Self>,
                factors: Factors,
            ) {
                let start = match is_zero(factors.beta) {
                    true => Accumulate::Overwrite,
                    false => Accumulate::Beta(Self::from_scalar(factors.beta)),
                };
                let alpha = Self::from_scalar(factors.alpha);
                // SAFETY: the matrices lie where their pointers say, `c` shares memory with no
                // other one, and the instructions are those of the level in use.
                unsafe {
                    let (c, a, b) = (c.view(), a.view(), b.view());
                    corten_gemm::gemm(plan, instructions(), c, a, b, alpha, start);
                }
            }

            #[inline(always)]
            fn product_from(
                plan: Plan,
                c: MatMut<'_, Self>,
                a: Mat<'_, Self>,
                b: Mat<'_, Self>,
                base: Base<'_, Self>,
            ) {
                let start = base.start([c.rows, c.cols], 1.0);
                // SAFETY: as for `product`; there is a value for every row, or column.
                unsafe {
                    let (c, a, b) = (c.view(), a.view(), b.view());
                    corten_gemm::gemm(plan, instructions(), c, a, b, 1.0, start);
                }
            }

            fn product_of_factors(
                c: SideBySide<'_, Self>,
                depth: usize,
                factors: [Factor<'_, Self>; 2],
                base: Base<'_, Self>,
            ) {
                let start = base.start(c.shape(), 1.0);
                let apart = BatchStride { columns: c.first.cols, distance: c.distance as isize };
                let view = View { shape: c.shape(), ..c.first.view() };
                // SAFETY: as for `product`; there is a value for every row, or column.
                unsafe {
                    let factors = factors.map(|factor| match factor {
                        Factor::Matrix(matrix) => {
                            corten_gemm::Operand::Matrix(MatrixRef::new(matrix.view()))
                        }
                        Factor::Made(columns) => corten_gemm::Operand::Implicit(columns),
                        Factor::Pieces(pieces) => {
                            let (first, distance) = (pieces.first.view(), pieces.distance as isize);
                            let first = MatrixRef::new(first);
                            let pieces = corten_gemm::Segments::new(first, pieces.count, distance);
                            corten_gemm::Operand::Segments(pieces)
                        }
                    });
                    let result = (view, (c.count > 1).then_some(apart));
                    corten_gemm::gemm_operands(instructions(), result, depth, factors, start);
                }
            }

            fn packs_aliasing_rows(cols: usize) -> bool {
                corten_gemm::packs_aliasing_rows::<Self>(instructions(), cols)
            }

            fn times(self, factor: Scalar) -> Self {
                Self::from_scalar(factor) * self
            }
        }
    )*};
}

through_real_tiles!(f32, f64);

macro_rules! through_real_products {
    ($($t:ident),*) => {$(
        impl MatElement for Complex<$t> {
            fn product(
                _: Plan,
                mut c: MatMut<'_, Self>,
                a: Mat<'_, Self>,
                b: Mat<'_, Self>,
                factors: Factors,
            ) {
                let (m, n) = (c.rows, c.cols);
                let mut parts = [unwinding::vec(0 as $t, m * n), unwinding::vec(0 as $t, m * n)];
                let part = |matrix: &Mat<'_, Self>, imaginary: bool| View {
                    data: matrix.data.cast::<$t>().wrapping_add(usize::from(imaginary)),
                    shape: matrix.shape(),
                    strides: [2 * matrix.row_stride, 2 * matrix.col_stride],
                };
                let signs = [if a.conj { -1.0 } else { 1.0 }, if b.conj { -1.0 } else { 1.0 }];
                // Which parts of both factors are multiplied, where to, and with what sign.
                let products = [
                    (false, false, 0, 1.0),
                    (true, true, 0, -signs[0] * signs[1]),
                    (false, true, 1, signs[1]),
                    (true, false, 1, signs[0]),
                ];
                for (step, (of_a, of_b, to, sign)) in products.into_iter().enumerate() {
                    // SAFETY: a complex number is its two parts side by side, so either part of a
                    // matrix is a real matrix with twice the strides; the sums are dense.
                    unsafe {
                        let data = parts[to].as_mut_ptr();
                        let sums = View { data, shape: [m, n], strides: [n as isize, 1] };
                        let old = if step % 2 == 1 { Accumulate::Beta(1.0) } else { Accumulate::Overwrite };
                        corten_gemm::gemm(
                            Plan::BLOCKED, instructions(), sums, part(&a, of_a), part(&b, of_b), sign, old,
                        );
                    }
                }
                let (zero, beta) = (is_zero(factors.beta), Self::from_scalar(factors.beta));
                let alpha = Self::from_scalar(factors.alpha);
                c.update(|row, col, old| {
                    let place = row * n + col;
                    let product = alpha * Complex::new(parts[0][place], parts[1][place]);
                    if zero { product } else { beta * old + product }
                });
            }

            fn times(self, factor: Scalar) -> Self {
                Self::from_scalar(factor) * self
            }
        }
    )*};
}

through_real_products!(f32, f64);

macro_rules! integers {
    ($($t:ident),*) => {$(
        impl MatElement for $t {
            fn product(
                plan: Plan,
                c: MatMut<'_, Self>,
                a: Mat<'_, Self>,
                b: Mat<'_, Self>,
                factors: Factors,
            ) {
                let [alpha, beta] = [factors.alpha, factors.beta].map(Self::from_scalar).map(Wrapping);
                let start = if beta.0 == 0 { Accumulate::Overwrite } else { Accumulate::Beta(beta) };
                let (to, a, b) = (c.view().cast(), a.view().cast(), b.view().cast());
                // SAFETY: integers that wrap around are integers; the matrices lie where their
                // pointers say, `c` shares memory with no other one, and the instructions are those
                // of the level in use.
                unsafe { corten_gemm::gemm(plan, instructions(), to, a, b, alpha, start) };
            }

            fn times(self, factor: Scalar) -> Self {
                Self::from_scalar(factor).wrapping_mul(self)
            }
        }
    )*};
}

integers!(i32, i64);

macro_rules! narrow_integers {
    ($($t:ident),*) => {$(
        impl MatElement for $t {
            fn product(
                plan: Plan,
                c: MatMut<'_, Self>,
                a: Mat<'_, Self>,
                b: Mat<'_, Self>,
                factors: Factors,
            ) {
                let factor = |factor: Scalar| Wrapping(i32::from(Self::from_scalar(factor)));
                let [alpha, beta] = [factors.alpha, factors.beta].map(factor);
                let beta = (beta.0 != 0).then_some(beta);
                let (to, a, b) = (c.view(), a.view(), b.view());
                // SAFETY: the matrices lie where their pointers say, `c` shares memory with no
                // other one, and the instructions are those of the level in use.
                unsafe { gemm_mixed(plan, instructions(), to, a, b, alpha, beta) };
            }

            fn times(self, factor: Scalar) -> Self {
                Self::from_scalar(factor).wrapping_mul(self)
            }
        }
    )*};
}

narrow_integers!(u8, i8, i16);

macro_rules! rounded_once {
    ($($t:ident as $bits:ident),*) => {$(
        impl MatElement for $t {
            fn product(
                plan: Plan,
                c: MatMut<'_, Self>,
                a: Mat<'_, Self>,
                b: Mat<'_, Self>,
                factors: Factors,
            ) {
                let [alpha, beta] = [factors.alpha, factors.beta].map(|x| x.to_f64() as f32);
                let beta = (beta != 0.0).then_some(beta);
                let (to, a, b) = (c.view().cast::<$bits>(), a.view().cast(), b.view().cast());
                // SAFETY: either type is its 16 bits; the matrices lie where their pointers say,
                // `c` shares memory with no other one, and the instructions are those of the level
                // in use.
                unsafe {
                    gemm_mixed(plan, instructions(), to, a, b, alpha, beta);
                }
            }

            fn times(self, factor: Scalar) -> Self {
                Self::from_f32(factor.to_f64() as f32 * self.to_f32())
            }
        }
    )*};
}

rounded_once!(f16 as F16, bf16 as Bf16);
