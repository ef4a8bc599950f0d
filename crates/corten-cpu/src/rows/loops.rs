//! Rows computed with the vectors of the machine.
//!
//! A [`RowKernel`] is written once over vectors; [`Vectorised::run`] runs it with those of the level in
//! use. The walks here are what keeps their callers free of addresses.

#[cfg(all(target_arch = "x86_64", feature = "avx2"))]
use crate::vec::avx2;
#[cfg(all(target_arch = "x86_64", feature = "avx512"))]
use crate::vec::avx512;
use crate::vec::{Lanes, Level, baseline, level, prefetch_ahead};
use corten_core::Element;

pub(crate) use crate::rows::folds::{
    MOST_LANES, Parts, RowFold, fold, fold_columns, folded, folded_with, map_and_fold_with,
    map_in_place_and_fold,
};
pub(crate) use crate::rows::macros::{for_each_vector, row_folds, row_functions};

/// A computation on rows of `T`.
pub(crate) trait RowKernel<T> {
    /// Its result.
    type Out;
    /// The computation; `#[inline(always)]`, see Note [Vector inlining].
    fn run<V: Lanes<Elem = T>>(self) -> Self::Out;
}

/// An element type that has vectors.
pub(crate) trait Vectorised: Element {
    /// Runs a job with the vectors of the level in use.
    fn run<J: RowKernel<Self>>(job: J) -> J::Out;
    /// The same with AVX2 at most, for jobs that are rare or that wider vectors do not help; see Note
    /// [Instances].
    fn run_narrow<J: RowKernel<Self>>(job: J) -> J::Out;
    /// `self * factor + shift`, rounded once.
    fn fused(self, factor: Self, shift: Self) -> Self;
}

macro_rules! vectorised {
    ($($element:ty: $vector:ident;)+) => {$(
        impl Vectorised for $element {
            #[inline]
            fn run<J: RowKernel<Self>>(job: J) -> J::Out {
                match level() {
                    #[cfg(all(target_arch = "x86_64", feature = "avx512"))]
                    // SAFETY: the level was detected.
                    Level::Avx512 => unsafe { run_avx512::<Self, avx512::$vector, J>(job) },
                    #[cfg(all(target_arch = "x86_64", feature = "avx2"))]
                    // SAFETY: as above.
                    Level::Avx2 => unsafe { run_avx2::<Self, avx2::$vector, J>(job) },
                    _ => job.run::<baseline::$vector>(),
                }
            }

            #[inline]
            fn run_narrow<J: RowKernel<Self>>(job: J) -> J::Out {
                #[cfg(all(target_arch = "x86_64", feature = "avx2"))]
                if level() >= Level::Avx2 {
                    // SAFETY: the level was detected.
                    return unsafe { run_avx2::<Self, avx2::$vector, J>(job) };
                }
                job.run::<baseline::$vector>()
            }

            #[inline]
            fn fused(self, factor: Self, shift: Self) -> Self {
                self.mul_add(factor, shift)
            }
        }
    )+};
}

vectorised! {
    f32: F32;
    f64: F64;
}

/// # Safety
/// The processor must have the features.
#[cfg(all(target_arch = "x86_64", feature = "avx512"))]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
unsafe fn run_avx512<T, V: Lanes<Elem = T>, J: RowKernel<T>>(job: J) -> J::Out {
    job.run::<V>()
}

/// # Safety
/// The processor must have the features.
#[cfg(all(target_arch = "x86_64", feature = "avx2"))]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn run_avx2<T, V: Lanes<Elem = T>, J: RowKernel<T>>(job: J) -> J::Out {
    job.run::<V>()
}

/// Runs `body` compiled with the instructions of the level in use, for loops that the compiler
/// turns into vectors by itself. No result changes by it. A large closure is not inlined and stays
/// at the baseline: those are written as a [`RowKernel`].
#[inline(always)]
pub(crate) fn compiled<R>(body: impl FnOnce() -> R) -> R {
    f32::run(Compiled(body))
}

struct Compiled<F>(F);

impl<R, F: FnOnce() -> R> RowKernel<f32> for Compiled<F> {
    type Out = R;

    #[inline(always)]
    fn run<V: Lanes<Elem = f32>>(self) -> R {
        (self.0)()
    }
}

/// A function of `N` elements, over vectors. A trait and not a closure, which would not always be
/// inlined; see Note [Vector inlining].
pub(crate) trait Function<T, const N: usize>: Copy {
    /// Its value; `#[inline(always)]`.
    fn of<V: Lanes<Elem = T>>(self, x: [V; N]) -> V;
}

/// `out[i] = f(rows[0][i], rows[1][i], …)`, as far as all go.
pub(crate) fn map<T: Vectorised, const N: usize>(
    out: &mut [T],
    rows: [&[T]; N],
    f: impl Function<T, N>,
) {
    T::run(RowMap::of(out, rows, f));
}

/// `row[i] = f(row[i])`.
pub(crate) fn map_in_place<T: Vectorised>(row: &mut [T], f: impl Function<T, 1>) {
    T::run(RowMap::in_place(row, f));
}

/// `row[i] = f(row[i], other[i])`, as far as both go.
pub(crate) fn map_over<T: Vectorised>(row: &mut [T], other: &[T], f: impl Function<T, 2>) {
    T::run(RowMap::over(row, other, f));
}

/// [`map`] within a job.
#[inline(always)]
pub(crate) fn map_with<V: Lanes, const N: usize>(
    out: &mut [V::Elem],
    rows: [&[V::Elem]; N],
    f: impl Function<V::Elem, N>,
) {
    RowMap::of(out, rows, f).run::<V>();
}

/// [`map_in_place`] within a job.
#[inline(always)]
pub(crate) fn map_in_place_with<V: Lanes>(row: &mut [V::Elem], f: impl Function<V::Elem, 1>) {
    RowMap::in_place(row, f).run::<V>();
}

/// The length that all rows have.
#[inline(always)]
pub(crate) fn least<T, const N: usize>(out: &[T], rows: [&[T]; N]) -> usize {
    rows.into_iter().fold(out.len(), |least, row| least.min(row.len()))
}

/// Rows of so many elements ask for memory, usually that of the next row: folds for what they read, walks
/// for what they write, as a fold has mostly read the row before. See Note [Prefetching].
pub(crate) const LONG: usize = 64;

/// Rows on their way through a function: `to` is writable and `from` readable for `count` elements,
/// and they are the same place or do not overlap.
pub(crate) struct RowMap<T, F, const N: usize> {
    pub(crate) to: *mut T,
    pub(crate) from: [*const T; N],
    pub(crate) count: usize,
    pub(crate) f: F,
}

impl<T, F, const N: usize> RowMap<T, F, N> {
    /// From rows to another one, as far as all go.
    #[inline(always)]
    pub(crate) fn of(out: &mut [T], rows: [&[T]; N], f: F) -> Self {
        Self { count: least(out, rows), to: out.as_mut_ptr(), from: rows.map(<[T]>::as_ptr), f }
    }
}

impl<T, F> RowMap<T, F, 1> {
    /// From a row to itself.
    #[inline(always)]
    pub(crate) fn in_place(row: &mut [T], f: F) -> Self {
        let to = row.as_mut_ptr();
        Self { to, from: [to.cast_const()], count: row.len(), f }
    }
}

impl<T, F> RowMap<T, F, 2> {
    /// From a row and another one to the row itself.
    #[inline(always)]
    pub(crate) fn over(row: &mut [T], other: &[T], f: F) -> Self {
        let (count, to) = (least(row, [other]), row.as_mut_ptr());
        Self { to, from: [to.cast_const(), other.as_ptr()], count, f }
    }
}

impl<T, F: Function<T, N>, const N: usize> RowKernel<T> for RowMap<T, F, N> {
    type Out = ();

    #[inline(always)]
    fn run<V: Lanes<Elem = T>>(self) {
        let Self { to, from, count, f } = self;
        let whole = count - count % V::LANES;
        let (mut i, asks) = (0, count >= LONG);
        while i < whole {
            if asks {
                prefetch_ahead(to.wrapping_add(i));
            }
            // SAFETY: `LANES` elements are left at `i`.
            unsafe { f.of(load_at::<V, N>(from, i)).store(to.add(i)) };
            i += V::LANES;
        }
        let rest = count - i;
        if rest > 0 {
            // SAFETY: `rest` elements are left at `i`, fewer than a vector.
            unsafe { f.of(load_rest::<V, N>(from, i, rest)).store_partial(to.add(i), rest) };
        }
    }
}

/// `count` elements of a row from place `i` on, at most a vector of them.
#[inline(always)]
pub(crate) fn load<V: Lanes>(row: &[V::Elem], i: usize, count: usize) -> V {
    let elements = &row[i..][..count];
    // SAFETY: the slice has as many elements as are loaded.
    unsafe {
        match count {
            _ if count == V::LANES => V::load(elements.as_ptr()),
            _ if count < V::LANES => V::load_partial(elements.as_ptr(), count),
            _ => V::lit(0.0),
        }
    }
}

/// `N` whole vectors of a row, the first elements of which lie `step` apart.
#[inline(always)]
pub(crate) fn load_spaced<V: Lanes, const N: usize>(row: &[V::Elem], step: usize) -> [V; N] {
    assert!((N - 1) * step + V::LANES <= row.len());
    let mut vectors = [V::lit(0.0); N];
    for (n, vector) in vectors.iter_mut().enumerate() {
        // SAFETY: the last vector ends within the row.
        *vector = unsafe { V::load(row.as_ptr().add(n * step)) };
    }
    vectors
}

/// StridedLoads in a row from which vectors are loaded that lie equally far from each.
pub(crate) struct StridedLoads<'a, V: Lanes, const N: usize> {
    row: &'a [V::Elem],
    each: [usize; N],
    /// How far the vectors may lie from the places.
    most: usize,
}

impl<'a, V: Lanes, const N: usize> StridedLoads<'a, V, N> {
    /// StridedLoads that whole vectors begin at.
    #[inline(always)]
    pub(crate) fn of(row: &'a [V::Elem], each: [usize; N]) -> Self {
        let last = each.into_iter().max().unwrap_or(0);
        let ends = row[last..].len();
        assert!(V::LANES <= ends);
        Self { row, each, most: ends - V::LANES }
    }

    /// The vectors that begin so many elements behind the places.
    #[inline(always)]
    pub(crate) fn load(&self, shift: usize) -> [V; N] {
        assert!(shift <= self.most);
        let mut vectors = [V::lit(0.0); N];
        for (vector, &at) in vectors.iter_mut().zip(&self.each) {
            // SAFETY: the vector of the last place ends within the row, and no place is behind it.
            *vector = unsafe { V::load(self.row.as_ptr().add(at + shift)) };
        }
        vectors
    }
}

/// Writes the first `count` elements of a vector to a row from place `i` on.
#[inline(always)]
pub(crate) fn store<V: Lanes>(vector: V, row: &mut [V::Elem], i: usize, count: usize) {
    let elements = &mut row[i..][..count];
    // SAFETY: the slice has as many elements as are stored.
    unsafe {
        match count {
            _ if count == V::LANES => vector.store(elements.as_mut_ptr()),
            _ if count < V::LANES => vector.store_partial(elements.as_mut_ptr(), count),
            _ => {}
        }
    }
}

/// # Safety
/// A vector must be readable at place `i` of every row.
#[inline(always)]
pub(crate) unsafe fn load_at<V: Lanes, const N: usize>(
    from: [*const V::Elem; N],
    i: usize,
) -> [V; N] {
    let mut x = [V::lit(0.0); N];
    for (x, from) in x.iter_mut().zip(from) {
        // SAFETY: the caller's.
        *x = unsafe { V::load(from.add(i)) };
    }
    x
}

/// # Safety
/// `rest` elements, fewer than a vector, must be readable at place `i` of every row.
#[inline(always)]
pub(crate) unsafe fn load_rest<V: Lanes, const N: usize>(
    from: [*const V::Elem; N],
    i: usize,
    rest: usize,
) -> [V; N] {
    let mut x = [V::lit(0.0); N];
    for (x, from) in x.iter_mut().zip(from) {
        // SAFETY: the caller's.
        *x = unsafe { V::load_partial(from.add(i), rest) };
    }
    x
}

row_functions! {
    /// `x * factor + shift`.
    MultiplyAdd { factor, shift }: 1 |x| x.mul_add(factor, shift);
}

/// `row = row * factor + shift`, rounded once on every machine.
pub(crate) fn multiply_add<T: Vectorised>(row: &mut [T], factor: T, shift: T) {
    if level() == Level::Baseline {
        row.iter_mut().for_each(|x| *x = x.fused(factor, shift));
    } else {
        map_in_place(row, MultiplyAdd { factor, shift });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::ExpMinus;

    #[test]
    fn rows_of_every_length_are_walked_once() {
        for length in 0..70 {
            let row: Vec<f32> = (0..length).map(|i| i as f32 / 8.0 - 3.0).collect();
            let mut out = vec![0.0; row.len()];
            map(&mut out, [&row], ExpMinus { shift: 1.5 });
            let mut same = row.clone();
            map_in_place(&mut same, ExpMinus { shift: 1.5 });
            assert_eq!(out, same);
            for (&x, &y) in row.iter().zip(&out) {
                assert!((y - (x - 1.5).exp()).abs() <= 1e-6 * y, "{x} {y}");
            }
        }
    }

    #[derive(Clone, Copy)]
    struct Products;

    impl<T: Element> RowFold<T, 2, 2> for Products {
        #[inline(always)]
        fn step<V: Lanes<Elem = T>>(self, [sum, count]: [V; 2], [x, y]: [V; 2]) -> [V; 2] {
            [sum + x * y, count + V::lit(1.0)]
        }
    }

    #[test]
    fn pairs_of_every_length_are_put_together_once() {
        for length in 0..300 {
            let a: Vec<f64> = (0..length).map(|i| f64::from(i % 7)).collect();
            let b: Vec<f64> = (0..length).map(|i| f64::from(i % 5)).collect();
            let sum: f64 = a.iter().zip(&b).map(|(x, y)| x * y).sum();
            let [sums, counts] = fold([&a, &b], Products);
            assert_eq!(sums.iter().sum::<f64>(), sum);
            assert_eq!(counts.iter().sum::<f64>(), f64::from(length));
        }
    }

    #[test]
    fn numbers_are_multiplied_and_added_in_one_rounding() {
        let mut row: Vec<f32> = (0..37).map(|i| 1.0 + i as f32 * 1e-7).collect();
        let exact: Vec<f32> = row.iter().map(|x| x.mul_add(1.000_000_1, -1.0)).collect();
        multiply_add(&mut row, 1.000_000_1, -1.0);
        assert_eq!(row, exact);
    }

    #[test]
    fn exponentials_end_in_zero_infinity_and_nan() {
        let row = [f64::NEG_INFINITY, 1e4, f64::NAN, -1e4];
        let mut out = [1.0; 4];
        map(&mut out, [&row], ExpMinus { shift: 0.0 });
        assert_eq!((out[0], out[1], out[3]), (0.0, f64::INFINITY, 0.0));
        assert!(out[2].is_nan());
    }
}
