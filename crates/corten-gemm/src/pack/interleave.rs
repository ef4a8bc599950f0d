//! The VNNI layouts: 2 or 4 neighbours along the depth are interleaved, for instructions that compute
//! their dot product.

use crate::pack::operand::ImplicitOperand;
use crate::simd::vector::{MAX_LANES, Vector};
use crate::simd::vnni4;
use crate::simd::x86::{Avx512Vnni2, Avx512Vnni4Signed};
use crate::types::element::Pod;
use crate::types::low_precision::Bf16;
use crate::types::strided_rows::StridedRows;
use crate::types::view::MatrixRef;
use crate::types::vnni::{Vnni2, Vnni4};
use std::ops::Range;

/// The most elements of a VNNI group.
const MAX_GROUP: usize = 4;

/// How elements are interleaved.
pub(crate) trait Interleave {
    /// The type of an element.
    type Element: Pod;
    /// A vector of interleaved elements.
    type Vector: Vector;
    /// The neighbours that are interleaved.
    const SIZE: usize;
    /// The padding of the depth: it contributes nothing to a product.
    const ZERO: Self::Element;

    /// Interleaves the first [`Self::SIZE`] elements.
    fn interleave(elements: [Self::Element; MAX_GROUP]) -> <Self::Vector as Vector>::Elem;

    /// Loads elements that are contiguous along the depth.
    ///
    /// # Safety
    /// `from` must be readable for a vector.
    unsafe fn load_contiguous(from: *const Self::Element) -> Self::Vector;

    /// Loads and interleaves an element of each of [`Self::SIZE`] rows.
    ///
    /// # Safety
    /// Every row must be readable for as many elements as there are lanes.
    unsafe fn load_strided(first: *const Self::Element, stride: isize) -> Self::Vector;

    /// Interleaves rows into rows of groups `width` apart.
    ///
    /// # Safety
    /// As for `PackKernels::copy`, for rows of groups.
    unsafe fn interleave_rows(
        from: StridedRows<*const Self::Element>,
        to: *mut InterleavedElement<Self>,
        width: usize,
    ) where
        Self: Sized,
    {
        // SAFETY: the caller's.
        unsafe { interleave_rows::<Self>(from, to, width) }
    }
}

/// The interleaved elements of a layout.
pub(crate) type InterleavedElement<G> = <<G as Interleave>::Vector as Vector>::Elem;

/// VNNI2: pairs of `bf16`.
pub(crate) struct Vnni2Layout;

impl Interleave for Vnni2Layout {
    type Element = Bf16;
    type Vector = Avx512Vnni2;
    const SIZE: usize = 2;
    const ZERO: Bf16 = Bf16(0);

    fn interleave([first, second, ..]: [Bf16; MAX_GROUP]) -> Vnni2 {
        Vnni2::of(first, second)
    }

    #[inline(always)]
    unsafe fn load_contiguous(from: *const Bf16) -> Avx512Vnni2 {
        // SAFETY: the caller's.
        unsafe { Avx512Vnni2::load(from.cast()) }
    }

    #[inline(always)]
    unsafe fn load_strided(first: *const Bf16, stride: isize) -> Avx512Vnni2 {
        // SAFETY: the caller's.
        unsafe { Avx512Vnni2::load_strided(first, first.wrapping_offset(stride)) }
    }
}

/// VNNI4: four int8, with sign bits flipped or not. The signedness of the other operand does not matter
/// here.
pub(crate) struct Vnni4Layout<const FLIP_SIGNS: bool>;

impl<const FLIP_SIGNS: bool> Interleave for Vnni4Layout<FLIP_SIGNS> {
    type Element = u8;
    type Vector = Avx512Vnni4Signed;
    const SIZE: usize = 4;
    const ZERO: u8 = 0;

    fn interleave(elements: [u8; MAX_GROUP]) -> Vnni4 {
        Vnni4(if FLIP_SIGNS { elements.map(|byte| byte ^ 0x80) } else { elements })
    }

    #[inline(always)]
    unsafe fn load_contiguous(from: *const u8) -> Avx512Vnni4Signed {
        // SAFETY: the caller's.
        let groups = unsafe { Avx512Vnni4Signed::load(from.cast()) };
        if FLIP_SIGNS { groups.flip_signs() } else { groups }
    }

    #[inline(always)]
    unsafe fn load_strided(first: *const u8, stride: isize) -> Avx512Vnni4Signed {
        // SAFETY: the caller's.
        let groups = unsafe { Avx512Vnni4Signed::load_strided(first, stride) };
        if FLIP_SIGNS { groups.flip_signs() } else { groups }
    }

    unsafe fn interleave_rows(from: StridedRows<*const u8>, to: *mut Vnni4, width: usize) {
        // SAFETY: the caller's.
        unsafe { vnni4::interleave_rows::<FLIP_SIGNS>(from, to, width) }
    }
}

/// A matrix that is interleaved while it is packed. The depth is padded with zeros.
pub(crate) struct Interleaved<'a, G: Interleave> {
    source: MatrixRef<'a, G::Element>,
    /// Whether the depth is that of the rows, as of `b`.
    row_major: bool,
}

impl<'a, G: Interleave> Interleaved<'a, G> {
    /// # Safety
    /// The processor must have AVX-512 F, BW, DQ and VL.
    pub(crate) unsafe fn new(source: MatrixRef<'a, G::Element>, row_major: bool) -> Self {
        Self { source, row_major }
    }

    /// The shape in groups.
    pub(crate) fn size(&self) -> [usize; 2] {
        let [rows, cols] = self.source.shape();
        if self.row_major { [rows.div_ceil(G::SIZE), cols] } else { [rows, cols.div_ceil(G::SIZE)] }
    }

    /// The elements of some rows and columns of groups.
    pub(crate) fn part(&self, rows: Range<usize>, cols: Range<usize>) -> MatrixRef<'a, G::Element> {
        let all = self.source.shape();
        let elements = |interleaved: Range<usize>, all: usize| {
            G::SIZE * interleaved.start..(G::SIZE * interleaved.end).min(all)
        };
        match self.row_major {
            true => self.source.part(elements(rows, all[0]), cols),
            false => self.source.part(rows, elements(cols, all[1])),
        }
    }

    fn interleave(
        &self,
        from: &MatrixRef<'_, G::Element>,
        [i, j]: [usize; 2],
    ) -> InterleavedElement<G> {
        let [rows, cols] = from.shape();
        let mut elements = [G::ZERO; MAX_GROUP];
        for (at, element) in elements.iter_mut().enumerate().take(G::SIZE) {
            let place = if self.row_major { [G::SIZE * i + at, j] } else { [i, G::SIZE * j + at] };
            if place[0] < rows && place[1] < cols {
                *element = from.at(place);
            }
        }
        G::interleave(elements)
    }
}

impl<G: Interleave> ImplicitOperand<InterleavedElement<G>> for Interleaved<'_, G> {
    fn pack(
        &self,
        rows: Range<usize>,
        cols: Range<usize>,
        to: &mut [InterleavedElement<G>],
        width: usize,
    ) {
        let size = [rows.len(), cols.len()];
        assert!(size[1] <= width && width.is_multiple_of(G::Vector::LANES));
        assert!(size[0] * width <= to.len());
        let from = self.part(rows, cols);
        let ([rows, cols], [row, col]) = (from.shape(), from.strides());
        let rows_at = |stride, count, len| StridedRows { first: from.first(), stride, count, len };
        let place = to.as_mut_ptr();
        // SAFETY: the matrix is readable, `to` holds all rows, and the constructor's caller owes
        // the instruction set.
        unsafe {
            match (self.row_major, [row, col]) {
                (true, [_, 1]) => G::interleave_rows(rows_at(row, rows, cols), place, width),
                (true, [1, _]) => transpose_contiguous::<G>(rows_at(col, cols, rows), place, width),
                (false, [_, 1]) => copy_contiguous::<G>(rows_at(row, rows, cols), place, width),
                (false, [1, _]) => transpose_strided::<G>(rows_at(col, cols, rows), place, width),
                _ => {
                    for (i, row) in to.chunks_exact_mut(width).enumerate().take(size[0]) {
                        (0..size[1]).for_each(|j| row[j] = self.interleave(&from, [i, j]));
                    }
                }
            }
        }
    }
}

/// Loads neighbours along a row.
///
/// # Safety
/// The rows must be readable.
#[inline(always)]
unsafe fn load_contiguous<G: Interleave>(
    from: StridedRows<*const G::Element>,
    row: usize,
    at: usize,
) -> G::Vector {
    let all = G::SIZE * G::Vector::LANES;
    let place = from.first.wrapping_offset(row as isize * from.stride).wrapping_add(G::SIZE * at);
    let left = from.len - G::SIZE * at;
    // SAFETY: the caller's, for the remainder of the row.
    unsafe {
        if left >= all {
            return G::load_contiguous(place);
        }
        let mut elements_left = [G::ZERO; MAX_GROUP * MAX_LANES];
        std::ptr::copy_nonoverlapping(place, elements_left.as_mut_ptr(), left);
        G::load_contiguous(elements_left.as_ptr())
    }
}

/// Loads neighbours across rows.
///
/// # Safety
/// The rows must be readable, for `n` elements from `at` on.
#[inline(always)]
unsafe fn load_strided<G: Interleave>(
    from: StridedRows<*const G::Element>,
    row: usize,
    at: usize,
    n: usize,
) -> G::Vector {
    let first = G::SIZE * row;
    let place = from.first.wrapping_offset(first as isize * from.stride).wrapping_add(at);
    if n == G::Vector::LANES && first + G::SIZE <= from.count {
        // SAFETY: the caller's.
        return unsafe { G::load_strided(place, from.stride) };
    }
    let mut elements_left = [G::ZERO; MAX_GROUP * MAX_LANES];
    // SAFETY: the caller's; a vector of groups has so many elements.
    unsafe {
        for i in 0..G::SIZE.min(from.count - first) {
            let to = elements_left[i * G::Vector::LANES..].as_mut_ptr();
            std::ptr::copy_nonoverlapping(place.wrapping_offset(i as isize * from.stride), to, n);
        }
        G::load_strided(elements_left.as_ptr(), G::Vector::LANES as isize)
    }
}

/// Pack kernels that interleave. The contracts of `PackKernels` hold for rows of groups.
macro_rules! pack {
    ($($name:ident: $arrange:ident |$from:ident, $line:ident, $at:ident, $n:ident|
        $load:expr, $size:expr;)+) => {$(
        /// # Safety
        /// The rows must be readable, `to` writable, and the processor must have the instruction
        /// set.
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
        unsafe fn $name<G: Interleave>(
            $from: StridedRows<*const G::Element>,
            to: *mut InterleavedElement<G>,
            width: usize,
        ) {
            // SAFETY: the caller's.
            unsafe {
                crate::pack::convert_pack::$arrange($size, |$line, $at, $n| $load, to, width);
            }
        }
    )+};
}

pack! {
    copy_contiguous: pack_rows |from, row, at, _n|
        load_contiguous::<G>(from, row, at), [from.count, from.len.div_ceil(G::SIZE)];
    transpose_contiguous: pack_transposed |from, row, at, _n|
        load_contiguous::<G>(from, row, at), [from.count, from.len.div_ceil(G::SIZE)];
    interleave_rows: pack_rows |from, row, at, n|
        load_strided::<G>(from, row, at, n), [from.count.div_ceil(G::SIZE), from.len];
    transpose_strided: pack_transposed |from, row, at, n|
        load_strided::<G>(from, row, at, n), [from.count.div_ceil(G::SIZE), from.len];
}
