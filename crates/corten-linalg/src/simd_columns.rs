//! Loops over whole vectors of the processor, for real matrices that are kept in such.

use crate::tridiagonal_dc::Real;
use pulp::Simd;
use std::ops::{Deref, DerefMut, Neg};

/// AlignedColumns that are taken at once.
pub(crate) const COLUMN_GROUP: usize = 4;

/// Bytes of the widest vectors, and of a line of the cache.
const LINE: usize = 64;

/// A page, at whose multiples a processor takes what is read for what was just written.
const PAGE: usize = 4096;

/// Numbers of which vectors are made.
pub(crate) trait Lanes: Copy + Neg<Output = Self> {
    type Vector<S: Simd>: Copy;

    const ZERO: Self;
    /// How many make a line.
    const LINE: usize = LINE / size_of::<Self>();

    /// Numbers as vectors; as many of them as are whole.
    fn vectors<S: Simd>(numbers: &[Self]) -> &[Self::Vector<S>];

    fn vectors_mut<S: Simd>(numbers: &mut [Self]) -> &mut [Self::Vector<S>];

    fn splat<S: Simd>(simd: S, number: Self) -> Self::Vector<S>;

    /// `a * b + c`.
    fn multiply_add<S: Simd>(
        simd: S,
        a: Self::Vector<S>,
        b: Self::Vector<S>,
        c: Self::Vector<S>,
    ) -> Self::Vector<S>;

    fn sum<S: Simd>(simd: S, vector: Self::Vector<S>) -> Self;
}

macro_rules! lanes {
    ($t:ty, $vector:ident, $vectors:ident, $vectors_mut:ident, $splat:ident, $multiply_add:ident,
     $sum:ident) => {
        impl Lanes for $t {
            type Vector<S: Simd> = S::$vector;

            const ZERO: Self = 0.0;

            #[inline(always)]
            fn vectors<S: Simd>(numbers: &[Self]) -> &[Self::Vector<S>] {
                S::$vectors(numbers).0
            }

            #[inline(always)]
            fn vectors_mut<S: Simd>(numbers: &mut [Self]) -> &mut [Self::Vector<S>] {
                S::$vectors_mut(numbers).0
            }

            #[inline(always)]
            fn splat<S: Simd>(simd: S, number: Self) -> Self::Vector<S> {
                simd.$splat(number)
            }

            #[inline(always)]
            fn multiply_add<S: Simd>(
                simd: S,
                a: Self::Vector<S>,
                b: Self::Vector<S>,
                c: Self::Vector<S>,
            ) -> Self::Vector<S> {
                simd.$multiply_add(a, b, c)
            }

            #[inline(always)]
            fn sum<S: Simd>(simd: S, vector: Self::Vector<S>) -> Self {
                simd.$sum(vector)
            }
        }
    };
}

lanes!(f32, f32s, as_simd_f32s, as_mut_simd_f32s, splat_f32s, mul_add_e_f32s, reduce_sum_f32s);
lanes!(f64, f64s, as_simd_f64s, as_mut_simd_f64s, splat_f64s, mul_add_e_f64s, reduce_sum_f64s);

/// Zeros that begin with a line.
pub(crate) struct AlignedBuffer<T> {
    numbers: Vec<T>,
    start: usize,
    count: usize,
}

impl<T: Lanes> AlignedBuffer<T> {
    /// At least so many, in whole lines.
    pub(crate) fn zeros(count: usize) -> Self {
        let count = count.next_multiple_of(T::LINE);
        let numbers = vec![T::ZERO; count + T::LINE];
        let start = numbers.as_ptr().align_offset(LINE).min(T::LINE);
        Self { numbers, start, count }
    }
}

impl<T> Deref for AlignedBuffer<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        &self.numbers[self.start..][..self.count]
    }
}

impl<T> DerefMut for AlignedBuffer<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.numbers[self.start..][..self.count]
    }
}

/// The columns of a matrix in whole lines, and as many as make groups, with zeros where it has none.
pub(crate) struct AlignedColumns<T> {
    pub numbers: AlignedBuffer<T>,
    /// From a column to the next.
    pub stride: usize,
}

impl<T: Lanes> AlignedColumns<T> {
    pub(crate) fn zeros(rows: usize, columns: usize) -> Self {
        let lines = rows.next_multiple_of(T::LINE);
        let alike = (lines * size_of::<T>()).is_multiple_of(PAGE);
        let stride = lines + if alike { T::LINE } else { 0 };
        Self {
            numbers: AlignedBuffer::zeros(stride * columns.next_multiple_of(COLUMN_GROUP)),
            stride,
        }
    }

    #[inline(always)]
    pub(crate) fn column(&mut self, at: usize) -> &mut [T] {
        &mut self.numbers[at * self.stride..][..self.stride]
    }

    /// The group of columns that begins with one, from a row on.
    #[inline(always)]
    pub(crate) fn group(&mut self, first: usize, row: usize) -> [&mut [T]; COLUMN_GROUP] {
        let stride = self.stride;
        let group = &mut self.numbers[first * stride..][..COLUMN_GROUP * stride];
        let (left, right) = group.split_at_mut(2 * stride);
        let ((a, b), (c, d)) = (left.split_at_mut(stride), right.split_at_mut(stride));
        [&mut a[row..], &mut b[row..], &mut c[row..], &mut d[row..]]
    }

    /// The same, and apart what is in another row and below.
    #[inline(always)]
    pub(crate) fn split_group(
        &mut self,
        first: usize,
        row: usize,
        below: usize,
    ) -> [(&mut [T], &mut [T]); COLUMN_GROUP] {
        let [a, b, c, d] = self.group(first, row);
        let at = below - row;
        [a.split_at_mut(at), b.split_at_mut(at), c.split_at_mut(at), d.split_at_mut(at)]
    }
}

// Loops and no closures around the processor's instructions, which would be compiled apart, for any processor.

/// Subtracts `v` and `w` times their factors from each of the columns, and returns their products with `x`.
#[inline(always)]
pub(crate) fn subtract_and_multiply<T: Lanes, S: Simd>(
    simd: S,
    [a, b, c, d]: [&mut [T]; COLUMN_GROUP],
    [v, w, x]: [&[T]; 3],
    [of_v, of_w]: [[T; COLUMN_GROUP]; 2],
) -> [T; COLUMN_GROUP] {
    let (a, b) = (T::vectors_mut::<S>(a), T::vectors_mut::<S>(b));
    let (c, d) = (T::vectors_mut::<S>(c), T::vectors_mut::<S>(d));
    let (v, w, x) = (T::vectors::<S>(v), T::vectors::<S>(w), T::vectors::<S>(x));
    let zero = T::splat(simd, T::ZERO);
    let (mut factors, mut sums) = ([[zero; 2]; COLUMN_GROUP], [zero; COLUMN_GROUP]);
    for (factors, (of_v, of_w)) in factors.iter_mut().zip(of_v.into_iter().zip(of_w)) {
        *factors = [T::splat(simd, -of_v), T::splat(simd, -of_w)];
    }
    for ((((((a, b), c), d), v), w), x) in a.iter_mut().zip(b).zip(c).zip(d).zip(v).zip(w).zip(x) {
        let (v, w, x) = (*v, *w, *x);
        for ((value, sum), [of_v, of_w]) in [a, b, c, d].into_iter().zip(&mut sums).zip(factors) {
            let left = T::multiply_add(simd, v, of_v, *value);
            *value = T::multiply_add(simd, w, of_w, left);
            *sum = T::multiply_add(simd, *value, x, *sum);
        }
    }
    let [a, b, c, d] = sums;
    [T::sum(simd, a), T::sum(simd, b), T::sum(simd, c), T::sum(simd, d)]
}

/// The same, and adds the columns that are left times their factors to `y`.
#[inline(always)]
pub(crate) fn subtract_and_multiply_both<T: Lanes, S: Simd>(
    simd: S,
    [a, b, c, d]: [&mut [T]; COLUMN_GROUP],
    [v, w, x]: [&[T]; 3],
    y: &mut [T],
    [of_v, of_w, of_x]: [[T; COLUMN_GROUP]; 3],
) -> [T; COLUMN_GROUP] {
    let (a, b) = (T::vectors_mut::<S>(a), T::vectors_mut::<S>(b));
    let (c, d) = (T::vectors_mut::<S>(c), T::vectors_mut::<S>(d));
    let (v, w, x) = (T::vectors::<S>(v), T::vectors::<S>(w), T::vectors::<S>(x));
    let (y, zero) = (T::vectors_mut::<S>(y), T::splat(simd, T::ZERO));
    let (mut factors, mut sums) = ([[zero; 3]; COLUMN_GROUP], [zero; COLUMN_GROUP]);
    for (factors, ((of_v, of_w), of_x)) in
        factors.iter_mut().zip(of_v.into_iter().zip(of_w).zip(of_x))
    {
        *factors = [T::splat(simd, -of_v), T::splat(simd, -of_w), T::splat(simd, of_x)];
    }
    for (((((((a, b), c), d), v), w), x), y) in
        a.iter_mut().zip(b).zip(c).zip(d).zip(v).zip(w).zip(x).zip(y)
    {
        let (v, w, x, mut total) = (*v, *w, *x, *y);
        for ((value, sum), [of_v, of_w, of_x]) in
            [a, b, c, d].into_iter().zip(&mut sums).zip(factors)
        {
            let left = T::multiply_add(simd, v, of_v, *value);
            *value = T::multiply_add(simd, w, of_w, left);
            *sum = T::multiply_add(simd, *value, x, *sum);
            total = T::multiply_add(simd, *value, of_x, total);
        }
        *y = total;
    }
    let [a, b, c, d] = sums;
    [T::sum(simd, a), T::sum(simd, b), T::sum(simd, c), T::sum(simd, d)]
}

/// Adds columns times their factors.
#[inline(always)]
pub(crate) fn add<T: Lanes, S: Simd>(
    simd: S,
    to: &mut [T],
    [a, b, c, d]: [&mut [T]; COLUMN_GROUP],
    [f, g, h, i]: [T; COLUMN_GROUP],
) {
    let (a, b) = (T::vectors::<S>(a), T::vectors::<S>(b));
    let (c, d) = (T::vectors::<S>(c), T::vectors::<S>(d));
    let (f, g) = (T::splat(simd, f), T::splat(simd, g));
    let (h, i) = (T::splat(simd, h), T::splat(simd, i));
    let to = T::vectors_mut::<S>(to);
    for ((((to, a), b), c), d) in to.iter_mut().zip(a).zip(b).zip(c).zip(d) {
        let left = T::multiply_add(simd, *b, g, T::multiply_add(simd, *a, f, *to));
        *to = T::multiply_add(simd, *d, i, T::multiply_add(simd, *c, h, left));
    }
}

/// As many numbers as a group has columns.
#[inline(always)]
pub(crate) fn group<T: Copy>(numbers: &[T], first: usize) -> [T; COLUMN_GROUP] {
    [numbers[first], numbers[first + 1], numbers[first + 2], numbers[first + 3]]
}

/// Subtracts both vectors times their factors.
#[inline(always)]
pub(crate) fn subtract_two<T: Real>(column: &mut [T], [v, w]: [&[T]; 2], [of_v, of_w]: [T; 2]) {
    for ((x, v), w) in column.iter_mut().zip(v).zip(w) {
        *x = *x - *v * of_v - *w * of_w;
    }
}
