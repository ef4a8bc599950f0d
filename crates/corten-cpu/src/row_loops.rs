//! Rows computed with the vectors of the machine.
//!
//! A [`Job`] is written once over vectors; [`Vectorised::run`] runs it with those of the level in
//! use. The walks here are what keeps their callers free of addresses.

use crate::vec::{Lanes, Level, baseline, level};
#[cfg(target_arch = "x86_64")]
use crate::vec::{avx2, avx512};
use corten_core::{Element, cast};

/// A computation on rows of `T`.
pub(crate) trait Job<T> {
    /// Its result.
    type Out;
    /// The computation; `#[inline(always)]`, see Note [Vector inlining].
    fn run<V: Lanes<Elem = T>>(self) -> Self::Out;
}

/// An element type that has vectors.
pub(crate) trait Vectorised: Element {
    /// Runs a job with the vectors of the level in use.
    fn run<J: Job<Self>>(job: J) -> J::Out;
    /// `self * factor + shift`, rounded once.
    fn fused(self, factor: Self, shift: Self) -> Self;
}

macro_rules! vectorised {
    ($($element:ty: $vector:ident;)+) => {$(
        impl Vectorised for $element {
            #[inline]
            fn run<J: Job<Self>>(job: J) -> J::Out {
                match level() {
                    #[cfg(target_arch = "x86_64")]
                    // SAFETY: the level was detected.
                    Level::Avx512 => unsafe { run_avx512::<Self, avx512::$vector, J>(job) },
                    #[cfg(target_arch = "x86_64")]
                    // SAFETY: as above.
                    Level::Avx2 => unsafe { run_avx2::<Self, avx2::$vector, J>(job) },
                    _ => job.run::<baseline::$vector>(),
                }
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
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
unsafe fn run_avx512<T, V: Lanes<Elem = T>, J: Job<T>>(job: J) -> J::Out {
    job.run::<V>()
}

/// # Safety
/// The processor must have the features.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn run_avx2<T, V: Lanes<Elem = T>, J: Job<T>>(job: J) -> J::Out {
    job.run::<V>()
}

/// Runs `body` compiled with the instructions of the level in use, for loops that the compiler
/// turns into vectors by itself. No result changes by it.
#[inline(always)]
pub(crate) fn compiled<R>(body: impl FnOnce() -> R) -> R {
    f32::run(Compiled(body))
}

struct Compiled<F>(F);

impl<R, F: FnOnce() -> R> Job<f32> for Compiled<F> {
    type Out = R;

    #[inline(always)]
    fn run<V: Lanes<Elem = f32>>(self) -> R {
        (self.0)()
    }
}

/// A function of one element, over vectors. A trait and not a closure, which would not always be
/// inlined; see Note [Vector inlining].
pub(crate) trait Function<T>: Copy {
    /// Its value; `#[inline(always)]`.
    fn of<V: Lanes<Elem = T>>(self, x: V) -> V;
}

/// `out[i] = f(row[i])`, as far as both go.
pub(crate) fn map<T: Vectorised>(out: &mut [T], row: &[T], f: impl Function<T>) {
    let count = out.len().min(row.len());
    T::run(Walk { to: out.as_mut_ptr(), from: row.as_ptr(), count, f });
}

/// `row[i] = f(row[i])`.
pub(crate) fn map_in_place<T: Vectorised>(row: &mut [T], f: impl Function<T>) {
    let to = row.as_mut_ptr();
    T::run(Walk { to, from: to, count: row.len(), f });
}

/// A row on its way through a function: `to` is writable and `from` readable for `count` elements,
/// and they are the same place or do not overlap.
struct Walk<T, F> {
    to: *mut T,
    from: *const T,
    count: usize,
    f: F,
}

impl<T, F: Function<T>> Job<T> for Walk<T, F> {
    type Out = ();

    #[inline(always)]
    fn run<V: Lanes<Elem = T>>(self) {
        let Self { to, from, count, f } = self;
        let whole = count - count % V::LANES;
        let mut i = 0;
        while i < whole {
            // SAFETY: `LANES` elements are left at `i`.
            unsafe { f.of(V::load(from.add(i))).store(to.add(i)) };
            i += V::LANES;
        }
        let rest = count - i;
        if rest > 0 {
            // SAFETY: `rest` elements are left at `i`, fewer than a vector.
            unsafe { f.of(V::load_partial(from.add(i), rest)).store_partial(to.add(i), rest) };
        }
    }
}

/// A sum, or another way to put values together, over pairs of elements; as [`Function`].
pub(crate) trait PairFold<T>: Copy {
    /// What a pair contributes; nothing for a pair of zeros.
    fn term<V: Lanes<Elem = T>>(self, x: V, y: V) -> V;
    /// Two contributions together.
    #[inline(always)]
    fn combine<V: Lanes<Elem = T>>(self, x: V, y: V) -> V {
        x + y
    }
}

/// The accumulators of [`fold_pairs`], so that no step waits for the one before.
const STATES: usize = 4;

/// Elements of the widest vector.
const MOST_LANES: usize = 16;

/// Puts the contributions of the pairs of two rows together, as far as both go, into a few parts
/// that are left to the caller.
pub(crate) fn fold_pairs<T: Vectorised>(a: &[T], b: &[T], fold: impl PairFold<T>) -> Parts<T> {
    T::run(Pairs { a, b, fold })
}

/// As many results as the widest vector has lanes; some may be zero for nothing.
pub(crate) type Parts<T> = [T; MOST_LANES];

struct Pairs<'a, T, F> {
    a: &'a [T],
    b: &'a [T],
    fold: F,
}

impl<T: Element, F: PairFold<T>> Job<T> for Pairs<'_, T, F> {
    type Out = Parts<T>;

    #[inline(always)]
    fn run<V: Lanes<Elem = T>>(self) -> Parts<T> {
        let Self { a, b, fold } = self;
        let count = a.len().min(b.len());
        let (a, b) = (a.as_ptr(), b.as_ptr());
        let mut states = [V::lit(0.0); STATES];
        let mut i = 0;
        while i + STATES * V::LANES <= count {
            for state in &mut states {
                // SAFETY: a vector is left at `i` for every state.
                let (x, y) = unsafe { (V::load(a.add(i)), V::load(b.add(i))) };
                *state = fold.combine(*state, fold.term(x, y));
                i += V::LANES;
            }
        }
        while i + V::LANES <= count {
            // SAFETY: a vector is left at `i`.
            let (x, y) = unsafe { (V::load(a.add(i)), V::load(b.add(i))) };
            states[0] = fold.combine(states[0], fold.term(x, y));
            i += V::LANES;
        }
        let rest = count - i;
        if rest > 0 {
            // SAFETY: `rest` elements are left at `i`, fewer than a vector.
            let (x, y) =
                unsafe { (V::load_partial(a.add(i), rest), V::load_partial(b.add(i), rest)) };
            states[1] = fold.combine(states[1], fold.term(x, y));
        }
        let all =
            fold.combine(fold.combine(states[0], states[1]), fold.combine(states[2], states[3]));
        const { assert!(V::LANES <= MOST_LANES) };
        let mut parts = [cast::<f64, T>(0.0); MOST_LANES];
        // SAFETY: the array has room for the widest vector.
        unsafe { all.store(parts.as_mut_ptr()) };
        parts
    }
}

/// e to the power of the distance from `.0`.
#[derive(Clone, Copy)]
pub(crate) struct ExpMinus<T>(pub(crate) T);

impl<T: Copy> Function<T> for ExpMinus<T> {
    #[inline(always)]
    fn of<V: Lanes<Elem = T>>(self, x: V) -> V {
        (x - V::splat(self.0)).exp()
    }
}

/// `row = row * factor + shift`, rounded once on every machine.
pub(crate) fn multiply_add<T: Vectorised>(row: &mut [T], factor: T, shift: T) {
    if level() == Level::Baseline {
        row.iter_mut().for_each(|x| *x = x.fused(factor, shift));
    } else {
        map_in_place(row, MultiplyAdd { factor, shift });
    }
}

#[derive(Clone, Copy)]
struct MultiplyAdd<T> {
    factor: T,
    shift: T,
}

impl<T: Copy> Function<T> for MultiplyAdd<T> {
    #[inline(always)]
    fn of<V: Lanes<Elem = T>>(self, x: V) -> V {
        x.mul_add(V::splat(self.factor), V::splat(self.shift))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_every_length_are_walked_once() {
        for length in 0..70 {
            let row: Vec<f32> = (0..length).map(|i| i as f32 / 8.0 - 3.0).collect();
            let mut out = vec![0.0; row.len()];
            map(&mut out, &row, ExpMinus(1.5));
            let mut same = row.clone();
            map_in_place(&mut same, ExpMinus(1.5));
            assert_eq!(out, same);
            for (&x, &y) in row.iter().zip(&out) {
                assert!((y - (x - 1.5).exp()).abs() <= 1e-6 * y, "{x} {y}");
            }
        }
    }

    #[derive(Clone, Copy)]
    struct Products;

    impl<T: Element> PairFold<T> for Products {
        #[inline(always)]
        fn term<V: Lanes<Elem = T>>(self, x: V, y: V) -> V {
            x * y
        }
    }

    #[test]
    fn pairs_of_every_length_are_put_together_once() {
        for length in 0..300 {
            let a: Vec<f64> = (0..length).map(|i| f64::from(i % 7)).collect();
            let b: Vec<f64> = (0..length).map(|i| f64::from(i % 5)).collect();
            let sum: f64 = a.iter().zip(&b).map(|(x, y)| x * y).sum();
            assert_eq!(fold_pairs(&a, &b, Products).iter().sum::<f64>(), sum);
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
        map(&mut out, &row, ExpMinus(0.0));
        assert_eq!((out[0], out[1], out[3]), (0.0, f64::INFINITY, 0.0));
        assert!(out[2].is_nan());
    }
}
