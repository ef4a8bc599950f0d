//! Rows computed with the vectors of the machine.
//!
//! A [`Job`] is written once over vectors; [`Vectorised::run`] runs it with those of the level in
//! use. The walks here are what keeps their callers free of addresses.

use crate::vec::{Lanes, Level, baseline, level};
#[cfg(target_arch = "x86_64")]
use crate::vec::{avx2, avx512};
use corten_core::{Element, cast};

pub(crate) use crate::row_macros::{row_folds, row_functions};

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
/// turns into vectors by itself. No result changes by it. A large closure is not inlined and stays
/// at the baseline: those are written as a [`Job`].
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
    T::run(Walk {
        to: out.as_mut_ptr(),
        from: rows.map(<[T]>::as_ptr),
        count: least(out, rows),
        f,
    });
}

/// `row[i] = f(row[i])`.
pub(crate) fn map_in_place<T: Vectorised>(row: &mut [T], f: impl Function<T, 1>) {
    let to = row.as_mut_ptr();
    T::run(Walk { to, from: [to.cast_const()], count: row.len(), f });
}

/// As [`map_in_place`], and puts what it writes together as [`fold`] would.
pub(crate) fn map_in_place_and_fold<T: Vectorised>(
    row: &mut [T],
    f: impl Function<T, 1>,
    fold: impl RowFold<T, 1, 1>,
) -> Parts<T> {
    let to = row.as_mut_ptr();
    T::run(FoldedWalk { walk: Walk { to, from: [to.cast_const()], count: row.len(), f }, fold })
}

/// [`map`] within a job.
#[inline(always)]
pub(crate) fn map_with<V: Lanes, const N: usize>(
    out: &mut [V::Elem],
    rows: [&[V::Elem]; N],
    f: impl Function<V::Elem, N>,
) {
    let (to, count) = (out.as_mut_ptr(), least(out, rows));
    Walk { to, from: rows.map(<[V::Elem]>::as_ptr), count, f }.run::<V>();
}

/// [`map_in_place`] within a job.
#[inline(always)]
pub(crate) fn map_in_place_with<V: Lanes>(row: &mut [V::Elem], f: impl Function<V::Elem, 1>) {
    let to = row.as_mut_ptr();
    Walk { to, from: [to.cast_const()], count: row.len(), f }.run::<V>();
}

/// As [`map_with`], and puts what it writes together as [`fold_with`] would.
#[inline(always)]
pub(crate) fn map_and_fold_with<V: Lanes, const N: usize>(
    out: &mut [V::Elem],
    rows: [&[V::Elem]; N],
    f: impl Function<V::Elem, N>,
    fold: impl RowFold<V::Elem, 1, 1>,
) -> Parts<V::Elem> {
    let (to, count) = (out.as_mut_ptr(), least(out, rows));
    FoldedWalk { walk: Walk { to, from: rows.map(<[V::Elem]>::as_ptr), count, f }, fold }.run::<V>()
}

/// The length that all rows have.
#[inline(always)]
fn least<T, const N: usize>(out: &[T], rows: [&[T]; N]) -> usize {
    rows.into_iter().fold(out.len(), |least, row| least.min(row.len()))
}

/// Rows on their way through a function: `to` is writable and `from` readable for `count` elements,
/// and they are the same place or do not overlap.
struct Walk<T, F, const N: usize> {
    to: *mut T,
    from: [*const T; N],
    count: usize,
    f: F,
}

impl<T, F: Function<T, N>, const N: usize> Job<T> for Walk<T, F, N> {
    type Out = ();

    #[inline(always)]
    fn run<V: Lanes<Elem = T>>(self) {
        let Self { to, from, count, f } = self;
        let whole = count - count % V::LANES;
        let mut i = 0;
        while i < whole {
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

/// Rows on their way through a function, the values of which are put together.
struct FoldedWalk<T, F, G, const N: usize> {
    walk: Walk<T, F, N>,
    fold: G,
}

impl<T: Element, F: Function<T, N>, G: RowFold<T, 1, 1>, const N: usize> Job<T>
    for FoldedWalk<T, F, G, N>
{
    type Out = Parts<T>;

    #[inline(always)]
    fn run<V: Lanes<Elem = T>>(self) -> Parts<T> {
        let Self { walk: Walk { to, from, count, f }, fold } = self;
        let mut states = [[V::splat(start_of(&fold))]; STATES];
        let in_turn = count - count % (STATES * V::LANES);
        let whole = count - count % V::LANES;
        let mut i = 0;
        while i < in_turn {
            for state in &mut states {
                // SAFETY: a vector is left at `i` for every state.
                *state = fold.step(*state, [unsafe { step_at::<V, T, F, N>(to, from, f, i) }]);
                i += V::LANES;
            }
        }
        while i < whole {
            // SAFETY: a vector is left at `i`.
            states[0] = fold.step(states[0], [unsafe { step_at::<V, T, F, N>(to, from, f, i) }]);
            i += V::LANES;
        }
        let rest = count - i;
        if rest > 0 {
            // SAFETY: `rest` elements are left at `i`, fewer than a vector.
            let value = unsafe { f.of(load_rest::<V, N>(from, i, rest)) };
            // SAFETY: as above.
            unsafe { value.store_partial(to.add(i), rest) };
            let [stepped] = fold.step(states[1], [value]);
            states[1] = [first_lanes(stepped, rest, states[1][0])];
        }
        let [parts] = parts_of(states, &fold);
        parts
    }
}

/// A vector of values, which is written at place `i`.
///
/// # Safety
/// A vector must be readable and writable at place `i`.
#[inline(always)]
unsafe fn step_at<V: Lanes<Elem = T>, T, F: Function<T, N>, const N: usize>(
    to: *mut T,
    from: [*const T; N],
    f: F,
    i: usize,
) -> V {
    // SAFETY: the caller's.
    unsafe {
        let value = f.of(load_at::<V, N>(from, i));
        value.store(to.add(i));
        value
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
unsafe fn load_at<V: Lanes, const N: usize>(from: [*const V::Elem; N], i: usize) -> [V; N] {
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
unsafe fn load_rest<V: Lanes, const N: usize>(
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

/// A way to put the elements of `N` rows together into `M` values, sums or others.
pub(crate) trait RowFold<T, const N: usize, const M: usize>: Copy {
    /// What the values are of no elements.
    const START: f64 = 0.0;
    /// The values with one more element of each row; `#[inline(always)]`.
    fn step<V: Lanes<Elem = T>>(self, state: [V; M], x: [V; N]) -> [V; M];
    /// Values of different elements together.
    #[inline(always)]
    fn combine<V: Lanes<Elem = T>>(self, x: V, y: V) -> V {
        x + y
    }
}

/// The states of [`fold`], so that no step waits for the one before.
const STATES: usize = 4;

/// Elements of the widest vector.
pub(crate) const MOST_LANES: usize = 16;

/// As many partial results as the widest vector has lanes; some may be those of no elements.
pub(crate) type Parts<T> = [T; MOST_LANES];

/// Puts rows together, as far as all go, into a few parts that are left to the caller.
pub(crate) fn fold<T: Vectorised, const N: usize, const M: usize>(
    rows: [&[T]; N],
    fold: impl RowFold<T, N, M>,
) -> [Parts<T>; M] {
    T::run(Folded { rows, fold })
}

struct Folded<'a, T, F, const N: usize, const M: usize> {
    rows: [&'a [T]; N],
    fold: F,
}

impl<T: Element, F: RowFold<T, N, M>, const N: usize, const M: usize> Job<T>
    for Folded<'_, T, F, N, M>
{
    type Out = [Parts<T>; M];

    #[inline(always)]
    fn run<V: Lanes<Elem = T>>(self) -> [Parts<T>; M] {
        fold_with::<V, N, M>(self.rows, self.fold)
    }
}

/// [`fold`] within a job.
#[inline(always)]
pub(crate) fn fold_with<V: Lanes, const N: usize, const M: usize>(
    rows: [&[V::Elem]; N],
    fold: impl RowFold<V::Elem, N, M>,
) -> [Parts<V::Elem>; M] {
    let count = least(rows[0], rows);
    let from = rows.map(<[V::Elem]>::as_ptr);
    let start = start_of(&fold);
    let mut states = [[V::splat(start); M]; STATES];
    let mut i = 0;
    while i + STATES * V::LANES <= count {
        for state in &mut states {
            // SAFETY: a vector is left at `i` for every state.
            *state = fold.step(*state, unsafe { load_at::<V, N>(from, i) });
            i += V::LANES;
        }
    }
    while i + V::LANES <= count {
        // SAFETY: a vector is left at `i`.
        states[0] = fold.step(states[0], unsafe { load_at::<V, N>(from, i) });
        i += V::LANES;
    }
    let rest = count - i;
    if rest > 0 {
        // SAFETY: `rest` elements are left at `i`, fewer than a vector.
        let stepped = fold.step(states[1], unsafe { load_rest::<V, N>(from, i, rest) });
        for (state, stepped) in states[1].iter_mut().zip(stepped) {
            *state = first_lanes(stepped, rest, *state);
        }
    }
    parts_of(states, &fold)
}

/// The states of every value together.
#[inline(always)]
fn parts_of<V: Lanes, const N: usize, const M: usize>(
    states: [[V; M]; STATES],
    fold: &impl RowFold<V::Elem, N, M>,
) -> [Parts<V::Elem>; M] {
    const { assert!(V::LANES <= MOST_LANES) };
    let mut parts = [[start_of(fold); MOST_LANES]; M];
    for (m, parts) in parts.iter_mut().enumerate() {
        let first = fold.combine(states[0][m], states[1][m]);
        let second = fold.combine(states[2][m], states[3][m]);
        // SAFETY: the array has room for the widest vector.
        unsafe { fold.combine(first, second).store(parts.as_mut_ptr()) };
    }
    parts
}

/// Puts one element of every row into the state of its column, as far as all go.
pub(crate) fn fold_columns<T: Vectorised, const N: usize, const M: usize>(
    states: [&mut [T]; M],
    rows: [&[T]; N],
    fold: impl RowFold<T, N, M>,
) {
    let count = states.iter().fold(least(rows[0], rows), |least, state| least.min(state.len()));
    let states = states.map(<[T]>::as_mut_ptr);
    T::run(Columns { states, from: rows.map(<[T]>::as_ptr), count, fold });
}

/// Rows on their way into the states of their columns: `states` are writable and `from` readable
/// for `count` elements, and no two of them overlap.
struct Columns<T, F, const N: usize, const M: usize> {
    states: [*mut T; M],
    from: [*const T; N],
    count: usize,
    fold: F,
}

impl<T, F: RowFold<T, N, M>, const N: usize, const M: usize> Job<T> for Columns<T, F, N, M> {
    type Out = ();

    #[inline(always)]
    fn run<V: Lanes<Elem = T>>(self) {
        let Self { states, from, count, fold } = self;
        let before = states.map(<*mut T>::cast_const);
        let whole = count - count % V::LANES;
        let mut i = 0;
        while i < whole {
            // SAFETY: `LANES` elements are left at `i`.
            unsafe {
                let stepped = fold.step(load_at::<V, M>(before, i), load_at::<V, N>(from, i));
                for (state, stepped) in states.into_iter().zip(stepped) {
                    stepped.store(state.add(i));
                }
            }
            i += V::LANES;
        }
        let rest = count - i;
        if rest > 0 {
            // SAFETY: `rest` elements are left at `i`, fewer than a vector.
            unsafe {
                let state = load_rest::<V, M>(before, i, rest);
                let stepped = fold.step(state, load_rest::<V, N>(from, i, rest));
                for (state, stepped) in states.into_iter().zip(stepped) {
                    stepped.store_partial(state.add(i), rest);
                }
            }
        }
    }
}

#[inline(always)]
fn start_of<T: Element, const N: usize, const M: usize, F: RowFold<T, N, M>>(_: &F) -> T {
    cast(F::START)
}

/// The first `count` lanes of a vector, fewer than all, and the others of another one.
#[inline(always)]
fn first_lanes<V: Lanes>(vector: V, count: usize, others: V) -> V {
    let mut places = [cast::<f64, V::Elem>(0.0); MOST_LANES];
    for (i, place) in places.iter_mut().enumerate() {
        *place = cast(i as f64);
    }
    // SAFETY: the array has room for the widest vector.
    let places = unsafe { V::load(places.as_ptr()) };
    V::select(places.lt(V::lit(count as f64)), vector, others)
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
