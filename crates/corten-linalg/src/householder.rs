//! HouseholderVectors that reduce matrices, and bases they are applied to.

use crate::Run;
use crate::parallel::{COLUMNS, share};
use crate::simd_columns::AlignedColumns;
use crate::tridiagonal_dc::Number;
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::householder;
use faer::linalg::qr::no_pivoting::factor::recommended_block_size;
use faer::{ColMut, Conj, Mat, MatMut, MatRef, Par};
use pulp::{Arch, Simd, WithSimd};

/// Numbers of a column that are computed at once.
const TOGETHER: usize = 8;

/// HouseholderVectors one after the other: each is the identity less its vector times itself, divided by its factor.
pub(crate) struct HouseholderVectors<T> {
    /// The vectors are in the columns and begin with a 1 that is not written there, each a row below the one
    /// before.
    pub vectors: AlignedColumns<T>,
    pub rows: usize,
    /// The row of the first vector's 1.
    pub first: usize,
    pub factors: Vec<T>,
}

impl<T: Number> HouseholderVectors<T> {
    /// Applies them, the last one first, to the columns of a basis.
    pub(crate) fn apply(&self, basis: &mut [T], run: Run) {
        let (rows, count) = (self.rows - self.first, self.factors.len());
        let (numbers, stride) = (&self.vectors.numbers[..], self.vectors.stride);
        let vectors = MatRef::from_column_major_slice_with_stride(numbers, stride, count, stride);
        let vectors = vectors.submatrix(self.first, 0, rows, count);
        let factors = Arch::new().dispatch(BlockReflector(self));
        share(run, basis.chunks_mut(self.rows * COLUMNS), |columns| {
            let width = columns.len() / self.rows;
            let columns = MatMut::from_column_major_slice_mut(columns, self.rows, width);
            let block = factors.nrows();
            let stack = householder::apply_block_householder_sequence_on_the_left_in_place_scratch::<
                T,
            >(rows, block, width);
            householder::apply_block_householder_sequence_on_the_left_in_place_with_conj(
                vectors,
                factors.as_ref(),
                Conj::No,
                columns.subrows_mut(self.first, rows),
                Par::Seq,
                MemStack::new(&mut MemBuffer::new(stack)),
            );
        });
    }
}

/// The factors of blocks of reflections beside one another, with the products of their vectors above the
/// diagonal.
struct BlockReflector<'a, T>(&'a HouseholderVectors<T>);

impl<T: Number> WithSimd for BlockReflector<'_, T> {
    type Output = Mat<T>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> Mat<T> {
        let HouseholderVectors { vectors, rows, first, factors } = self.0;
        let block = recommended_block_size::<T>(*rows, *rows);
        let mut joined = Mat::<T>::zeros(block, factors.len());
        for k in 0..factors.len() {
            let (start, row, head) = (k / block * block, k % block, first + k);
            joined[(row, k)] = factors[k];
            let vector = &vectors.numbers[k * vectors.stride..][head + 1..*rows];
            for before in start..k {
                let other = &vectors.numbers[before * vectors.stride..][head..*rows];
                joined[(before - start, k)] = other[0] + dot(&other[1..], vector);
            }
        }
        joined
    }
}

/// Writes to `vector` that of the householder_vector that brings a column to its first number, and what is not a 1 of
/// it to the column. Returns what the vector's product with itself is divided by then, and the number.
#[inline(always)]
pub(crate) fn householder_vector<T: Number>(column: &mut [T], vector: &mut [T]) -> (T, T) {
    let (head, tail) = column.split_at_mut(1);
    let square = dot(tail, tail);
    let found = if square.into() > T::SMALL_SQUARE {
        let length: f64 = (head[0] * head[0] + square).into();
        let length = T::of(length.sqrt().copysign(head[0].into()));
        let first = head[0] + length;
        head[0] = -length;
        let unit = T::of(1.0) / first;
        for number in &mut *tail {
            *number *= unit;
        }
        T::of(0.5) * (T::of(1.0) + square * unit * unit)
    } else {
        householder::make_householder_in_place(&mut head[0], ColMut::from_slice_mut(tail)).tau
    };
    vector[0] = T::of(1.0);
    vector[1..].copy_from_slice(tail);
    (found, head[0])
}

/// Subtracts both vectors times their factors.
#[inline(always)]
pub(crate) fn subtract<T: Number>(column: &mut [T], [v, w]: [&[T]; 2], [of_v, of_w]: [T; 2]) {
    for ((x, v), w) in column.iter_mut().zip(v).zip(w) {
        *x = *x - *v * of_v - *w * of_w;
    }
}

/// The sum of the lanes.
#[inline(always)]
fn sum<T: Number>(lanes: [T; TOGETHER]) -> T {
    let mut total = lanes[0];
    for &lane in &lanes[1..] {
        total += lane;
    }
    total
}

#[inline(always)]
pub(crate) fn dot<T: Number>(x: &[T], y: &[T]) -> T {
    let ((xs, x_left), (ys, y_left)) = (x.as_chunks::<TOGETHER>(), y.as_chunks::<TOGETHER>());
    let mut sums = [T::of(0.0); TOGETHER];
    for (x, y) in xs.iter().zip(ys) {
        for lane in 0..TOGETHER {
            sums[lane] += x[lane] * y[lane];
        }
    }
    let mut total = sum(sums);
    for (x, y) in x_left.iter().zip(y_left) {
        total += *x * *y;
    }
    total
}
