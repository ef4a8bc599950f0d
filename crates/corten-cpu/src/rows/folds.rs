//! Rows put together: sums, extrema and others, with the vectors of the machine.

use crate::rows::loops::{
    Function, LONG, RowKernel, RowMap, Vectorised, least, load_at, load_rest,
};
use crate::vec::{Lanes, prefetch_ahead};
use corten_core::{Element, cast};

/// A way to put the elements of `N` rows together into `M` values, sums or others.
pub(crate) trait RowFold<T, const N: usize, const M: usize>: Copy {
    /// What the values are of no elements.
    const START: [f64; M] = [0.0; M];
    /// The values with one more element of each row; `#[inline(always)]`.
    fn step<V: Lanes<Elem = T>>(self, state: [V; M], x: [V; N]) -> [V; M];
    /// Values of different elements together.
    #[inline(always)]
    fn combine<V: Lanes<Elem = T>>(self, x: [V; M], y: [V; M]) -> [V; M] {
        std::array::from_fn(|m| x[m] + y[m])
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

impl<T: Element, F: RowFold<T, N, M>, const N: usize, const M: usize> RowKernel<T>
    for Folded<'_, T, F, N, M>
{
    type Out = [Parts<T>; M];

    #[inline(always)]
    fn run<V: Lanes<Elem = T>>(self) -> [Parts<T>; M] {
        parts_of::<V, N, M>(vectors_of(self.rows, self.fold), &self.fold)
    }
}

// Note [Lanes in registers]
// Parts leave a loop through memory, and what reads them one by one waits for that as long as for sixty
// elements. Where nothing else is asked for, lanes are put together before.

/// Puts rows together, as far as all go, into one value of each kind.
pub(crate) fn folded<T: Vectorised, const N: usize, const M: usize>(
    rows: [&[T]; N],
    fold: impl RowFold<T, N, M>,
) -> [T; M] {
    T::run(FoldedToOne { rows, fold })
}

struct FoldedToOne<'a, T, F, const N: usize, const M: usize> {
    rows: [&'a [T]; N],
    fold: F,
}

impl<T: Element, F: RowFold<T, N, M>, const N: usize, const M: usize> RowKernel<T>
    for FoldedToOne<'_, T, F, N, M>
{
    type Out = [T; M];

    #[inline(always)]
    fn run<V: Lanes<Elem = T>>(self) -> [T; M] {
        folded_with::<V, N, M>(self.rows, self.fold)
    }
}

/// [`folded`] within a job.
#[inline(always)]
pub(crate) fn folded_with<V: Lanes, const N: usize, const M: usize>(
    rows: [&[V::Elem]; N],
    fold: impl RowFold<V::Elem, N, M>,
) -> [V::Elem; M] {
    one_of::<V, N, M>(vectors_of(rows, fold), fold)
}

#[inline(always)]
fn vectors_of<V: Lanes, const N: usize, const M: usize>(
    rows: [&[V::Elem]; N],
    fold: impl RowFold<V::Elem, N, M>,
) -> [V; M] {
    // SAFETY: all rows have so many elements.
    unsafe { fold_all::<V, N, M>(&rows.map(<[V::Elem]>::as_ptr), least(rows[0], rows), fold) }
}

/// What a fold reads: `N` rows, or what a function makes of them.
trait Columnwise<V: Lanes, const N: usize> {
    /// # Safety
    /// A vector must be left at `i`.
    unsafe fn at(&self, i: usize) -> [V; N];
    /// # Safety
    /// `rest` elements must be left at `i`, fewer than a vector.
    unsafe fn rest_at(&self, i: usize, rest: usize) -> [V; N];
    /// Asks for what will be read, or written, some way behind `i`.
    fn ask(&self, i: usize);
}

impl<V: Lanes, const N: usize> Columnwise<V, N> for [*const V::Elem; N] {
    #[inline(always)]
    unsafe fn at(&self, i: usize) -> [V; N] {
        // SAFETY: the caller's.
        unsafe { load_at(*self, i) }
    }

    #[inline(always)]
    unsafe fn rest_at(&self, i: usize, rest: usize) -> [V; N] {
        // SAFETY: the caller's.
        unsafe { load_rest(*self, i, rest) }
    }

    #[inline(always)]
    fn ask(&self, i: usize) {
        self.iter().for_each(|row| prefetch_ahead(row.wrapping_add(i)));
    }
}

/// The values, which are written on the way.
impl<V: Lanes, F: Function<V::Elem, N>, const N: usize> Columnwise<V, 1> for RowMap<V::Elem, F, N> {
    #[inline(always)]
    unsafe fn at(&self, i: usize) -> [V; 1] {
        // SAFETY: the caller's.
        unsafe {
            let value = self.f.of(load_at::<V, N>(self.from, i));
            value.store(self.to.add(i));
            [value]
        }
    }

    #[inline(always)]
    unsafe fn rest_at(&self, i: usize, rest: usize) -> [V; 1] {
        // SAFETY: the caller's.
        unsafe {
            let value = self.f.of(load_rest::<V, N>(self.from, i, rest));
            value.store_partial(self.to.add(i), rest);
            [value]
        }
    }

    #[inline(always)]
    fn ask(&self, i: usize) {
        prefetch_ahead(self.to.wrapping_add(i));
    }
}

/// # Safety
/// There must be `count` elements.
#[inline(always)]
unsafe fn fold_all<V: Lanes, const N: usize, const M: usize>(
    rows: &impl Columnwise<V, N>,
    count: usize,
    fold: impl RowFold<V::Elem, N, M>,
) -> [V; M] {
    let start = start_of(&fold);
    let mut states = [start.map(V::splat); STATES];
    let (mut i, asks) = (0, count >= LONG);
    while i + STATES * V::LANES <= count {
        for state in &mut states {
            if asks {
                rows.ask(i);
            }
            // SAFETY: a vector is left at `i` for every state.
            *state = fold.step(*state, unsafe { rows.at(i) });
            i += V::LANES;
        }
    }
    while i + V::LANES <= count {
        // SAFETY: a vector is left at `i`.
        states[0] = fold.step(states[0], unsafe { rows.at(i) });
        i += V::LANES;
    }
    let rest = count - i;
    if rest > 0 {
        // SAFETY: `rest` elements are left at `i`, fewer than a vector.
        let stepped = fold.step(states[1], unsafe { rows.rest_at(i, rest) });
        for (state, stepped) in states[1].iter_mut().zip(stepped) {
            *state = first_lanes(stepped, rest, *state);
        }
    }
    let [first, second, third, fourth] = states;
    fold.combine(fold.combine(first, second), fold.combine(third, fourth))
}

/// The lanes of every vector.
#[inline(always)]
fn parts_of<V: Lanes, const N: usize, const M: usize>(
    all: [V; M],
    fold: &impl RowFold<V::Elem, N, M>,
) -> [Parts<V::Elem>; M] {
    const { assert!(V::LANES <= MOST_LANES) };
    let mut parts = start_of(fold).map(|start| [start; MOST_LANES]);
    for (parts, all) in parts.iter_mut().zip(all) {
        // SAFETY: the array has room for the widest vector.
        unsafe { all.store(parts.as_mut_ptr()) };
    }
    parts
}

/// The lanes of every vector put together, a half of them with the other; see Note [Lanes in registers].
#[inline(always)]
fn one_of<V: Lanes, const N: usize, const M: usize>(
    mut all: [V; M],
    fold: impl RowFold<V::Elem, N, M>,
) -> [V::Elem; M] {
    const { assert!(V::LANES <= MOST_LANES) };
    for distance in [8, 4, 2, 1] {
        if distance < V::LANES {
            let mut others = all;
            for other in &mut others {
                *other = other.exchanged(distance);
            }
            all = fold.combine(all, others);
        }
    }
    let mut ones = start_of(&fold);
    for (one, all) in ones.iter_mut().zip(all) {
        let mut lanes = [*one; MOST_LANES];
        // SAFETY: the array has room for the widest vector.
        unsafe { all.store(lanes.as_mut_ptr()) };
        *one = lanes[0];
    }
    ones
}

/// As [`map_in_place`], and puts what it writes together as [`folded`] would.
pub(crate) fn map_in_place_and_fold<T: Vectorised>(
    row: &mut [T],
    f: impl Function<T, 1>,
    fold: impl RowFold<T, 1, 1>,
) -> T {
    T::run(FoldedWalk { walk: RowMap::in_place(row, f), fold })
}

/// As [`map_with`], and puts what it writes together as [`folded_with`] would.
#[inline(always)]
pub(crate) fn map_and_fold_with<V: Lanes, const N: usize>(
    out: &mut [V::Elem],
    rows: [&[V::Elem]; N],
    f: impl Function<V::Elem, N>,
    fold: impl RowFold<V::Elem, 1, 1>,
) -> V::Elem {
    FoldedWalk { walk: RowMap::of(out, rows, f), fold }.run::<V>()
}

/// Rows on their way through a function, the values of which are put together.
struct FoldedWalk<T, F, G, const N: usize> {
    walk: RowMap<T, F, N>,
    fold: G,
}

impl<T: Element, F: Function<T, N>, G: RowFold<T, 1, 1>, const N: usize> RowKernel<T>
    for FoldedWalk<T, F, G, N>
{
    type Out = T;

    #[inline(always)]
    fn run<V: Lanes<Elem = T>>(self) -> T {
        let Self { walk, fold } = self;
        // SAFETY: the walk's rows are as long as it says.
        let [one] = one_of::<V, 1, 1>(unsafe { fold_all(&walk, walk.count, fold) }, fold);
        one
    }
}

/// Puts one element of every row into the state of its column, as far as all go.
pub(crate) fn fold_columns<T: Vectorised, const N: usize, const M: usize>(
    states: [&mut [T]; M],
    rows: [&[T]; N],
    fold: impl RowFold<T, N, M>,
) {
    let count = states.iter().fold(least(rows[0], rows), |least, state| least.min(state.len()));
    let states = states.map(<[T]>::as_mut_ptr);
    T::run(ColumnFold { states, from: rows.map(<[T]>::as_ptr), count, fold });
}

/// Rows on their way into the states of their columns: `states` are writable and `from` readable
/// for `count` elements, and no two of them overlap.
struct ColumnFold<T, F, const N: usize, const M: usize> {
    states: [*mut T; M],
    from: [*const T; N],
    count: usize,
    fold: F,
}

impl<T, F: RowFold<T, N, M>, const N: usize, const M: usize> RowKernel<T>
    for ColumnFold<T, F, N, M>
{
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
fn start_of<T: Element, const N: usize, const M: usize, F: RowFold<T, N, M>>(_: &F) -> [T; M] {
    F::START.map(cast)
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
