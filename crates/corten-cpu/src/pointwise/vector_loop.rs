//! The loop over vectors.

use crate::pointwise::inner_loop::{Scalars, Source};
use crate::pointwise::loops::{Sink, splat};
use crate::vec::{Lanes, Memory, fetch, prefetch_ahead};
use std::mem::MaybeUninit;

// Note [Results on lines]
// A vector that lies across two lines of memory takes as long as two. Where results do not begin at a
// multiple of a vector's length, as every second row of a thousand numbers, every second vector or every
// one does: sums of such rows took two fifths longer for it. There a partial vector comes first.
//
// Stores to a second-level cache wait. Short operators have the next line of the results brought to the
// first-level cache, which gains a tenth; further ahead is no faster. And there registers of half the
// width are another tenth faster than those of AVX-512 (measured on Intel's Granite Rapids alone).
//
// Operands are prefetched, see Note [Prefetching], which gains a tenth where they come from memory, a
// sixth where they have 16 bits. Where results take the place of an operand it would lose as much.

/// Results for which it is worth a partial vector to have none of the others in two lines.
const LONG: usize = 256;

/// Bytes of results that the first-level cache does not hold beside the operands.
pub(crate) const FAR: usize = 10 << 10;

/// So many elements are not in a first-level cache.
const MANY: usize = 1 << 16;

/// The loop of an operator over the vectors of a level. With `LINES`, results are written line by line,
/// which two vectors are: see Note [Results on lines].
///
/// # Safety
/// As for [`InnerLoop`](crate::pointwise::inner_loop::InnerLoop), with the instructions of `L`.
#[inline(always)]
pub(crate) unsafe fn vector_loop<L: Lanes, S: Sink<L>, const LINES: bool>(
    to: *mut u8,
    from: &[Source; 3],
    scalars: &Scalars,
    n: usize,
) {
    // SAFETY: the caller's.
    unsafe {
        if const { S::IS_SHORT } {
            short_loop::<L, S, LINES>(to, from, scalars, n);
        } else {
            long_loop::<L, S>(to, from, scalars, n);
        }
    }
}

// Note [One body]
// The expression of an operator that is not short is most of its loop, so that it stands there once.
// An operand that is one element is a vector of it, from which every step reads; the elements that fill
// no vector are brought to a vector of their own, for one more step of the same loop.

/// A vector's place in memory, at an alignment that all stores take.
#[repr(align(64))]
struct Room<L>(MaybeUninit<L>);

impl<L> Room<L> {
    const fn new() -> Self {
        Self(MaybeUninit::uninit())
    }

    #[inline(always)]
    fn start<T>(&mut self) -> *mut T {
        self.0.as_mut_ptr().cast()
    }
}

/// As [`vector_loop`], see Note [One body]. Elements in memory are those of `L`.
///
/// # Safety
/// As for [`vector_loop`].
#[inline(always)]
unsafe fn long_loop<L: Lanes, S: Sink<L>>(
    to: *mut u8,
    from: &[Source; 3],
    scalars: &Scalars,
    n: usize,
) {
    debug_assert_eq!(size_of::<<S::From as Memory<L>>::Elem>(), size_of::<L::Elem>());
    if n == 0 {
        return;
    }
    // SAFETY: the loop was chosen for this element type.
    let splat = unsafe { splat::<L>(scalars) };
    let s = &splat[..scalars.values().len()];
    let mut rooms = [const { Room::<L>::new() }; 3];
    let mut result = Room::<L>::new();
    let mut operands = [std::ptr::null::<<S::From as Memory<L>>::Elem>(); 3];
    let mut steps = [0; 3];
    for k in 0..S::ARITY {
        operands[k] = from[k].from.cast();
        steps[k] = L::LANES;
        if from[k].fixed {
            // SAFETY: every operand has at least one element; a room has place for a vector.
            unsafe { S::From::load_one(operands[k]).store(rooms[k].start()) };
            operands[k] = rooms[k].start();
            steps[k] = 0;
        }
    }
    let (whole, rest) = (n / L::LANES, n % L::LANES);
    let prefetches = n >= MANY;
    let (mut target, mut left, mut behind) = (to, whole, rest);
    loop {
        while left > 0 {
            if prefetches {
                prefetch_ahead(target);
                operands[..S::ARITY].iter().for_each(|&operand| prefetch_ahead(operand));
            }
            // SAFETY: a vector is left at every operand and at the target.
            unsafe {
                let a = S::From::load(operands[0]);
                let b = if S::ARITY > 1 { S::From::load(operands[1]) } else { a };
                let c = if S::ARITY > 2 { S::From::load(operands[2]) } else { a };
                S::put(S::eval([a, b, c], s), target, L::LANES);
            }
            for k in 0..S::ARITY {
                operands[k] = operands[k].wrapping_add(steps[k]);
            }
            target = target.wrapping_add(L::LANES * S::SIZE);
            left -= 1;
        }
        if behind == 0 {
            break;
        }
        for k in (0..S::ARITY).filter(|&k| steps[k] > 0) {
            // SAFETY: so many elements are left, fewer than a vector.
            unsafe { S::From::load_partial(operands[k], behind).store(rooms[k].start()) };
            operands[k] = rooms[k].start();
        }
        (target, left, behind) = (result.start(), 1, 0);
    }
    if rest > 0 {
        // SAFETY: the last step wrote a vector of results, of which so many belong behind the others.
        unsafe { S::put_rest(result.start(), to.add(whole * L::LANES * S::SIZE), rest) };
    }
}

/// As [`vector_loop`], for an operator that next to nothing is computed for: two vectors side by side.
///
/// # Safety
/// As for [`vector_loop`].
#[inline(always)]
unsafe fn short_loop<L: Lanes, S: Sink<L>, const LINES: bool>(
    to: *mut u8,
    from: &[Source; 3],
    scalars: &Scalars,
    n: usize,
) {
    // SAFETY: the loop was chosen for this element type.
    let splat = unsafe { splat::<L>(scalars) };
    let s = &splat[..scalars.values().len()];
    let at = |k: usize| from[k].from.cast::<<S::From as Memory<L>>::Elem>();
    let fixed = [from[0].fixed, S::ARITY > 1 && from[1].fixed, S::ARITY > 2 && from[2].fixed];
    // SAFETY: every operand has at least one element where `n > 0`.
    let first = |k: usize| if n > 0 { unsafe { S::From::load_one(at(k)) } } else { L::lit(0.0) };
    let a0 = first(0);
    let a1 = if S::ARITY > 1 { first(1) } else { a0 };
    let a2 = if S::ARITY > 2 { first(2) } else { a0 };
    let ones = [a0, a1, a2];
    let mut i = if LINES { before_vector::<L, S>(to, n) } else { 0 };
    if i > 0 {
        // SAFETY: `i` elements are there, fewer than a vector.
        unsafe {
            let x = operands_at::<L, S>(from, fixed, ones, 0, i);
            S::put(S::eval(x, s), to, i);
        }
    }
    let operands = [at(0), at(1), at(2)];
    let asks = from[..S::ARITY].iter().all(|operand| operand.from != to.cast_const());
    // Loads side by side: a tenth faster where operands come from a second-level cache.
    let pair = 2 * L::LANES * S::SIZE;
    while i + 2 * L::LANES <= n {
        if LINES {
            fetch(to.wrapping_add(i * S::SIZE + pair));
            for (operand, fixed) in operands.iter().zip(fixed).take(S::ARITY) {
                if asks && !fixed {
                    prefetch_ahead(operand.wrapping_add(i));
                }
            }
        }
        // SAFETY: two vectors are left at `i`.
        unsafe {
            let [x, y] = pairs_at::<L, S>(from, fixed, ones, i);
            S::put_two([S::eval(x, s), S::eval(y, s)], to.add(i * S::SIZE));
        }
        i += 2 * L::LANES;
    }
    while i < n {
        let count = L::LANES.min(n - i);
        // SAFETY: so many elements are left at `i`, at most a vector.
        unsafe {
            let x = operands_at::<L, S>(from, fixed, ones, i, count);
            S::put(S::eval(x, s), to.add(i * S::SIZE), count);
        }
        i += count;
    }
}

/// The elements before the first multiple of a vector's length, where there are many; fewer than a
/// vector.
#[inline(always)]
fn before_vector<L: Lanes, S: Sink<L>>(to: *const u8, n: usize) -> usize {
    let bytes = to.addr().wrapping_neg() % (L::LANES * S::SIZE);
    if n >= LONG && bytes.is_multiple_of(S::SIZE) { bytes / S::SIZE } else { 0 }
}

/// The operands at `i`: those that are one element are that in every lane.
///
/// # Safety
/// `n` elements of each of the others must be left there, at most a vector.
#[inline(always)]
unsafe fn operands_at<L: Lanes, S: Sink<L>>(
    from: &[Source; 3],
    fixed: [bool; 3],
    ones: [L; 3],
    i: usize,
    n: usize,
) -> [L; 3] {
    let mut x = ones;
    for k in 0..3 {
        if k < S::ARITY && !fixed[k] {
            let at = from[k].from.cast::<<S::From as Memory<L>>::Elem>();
            // SAFETY: the caller's.
            x[k] = unsafe {
                match n == L::LANES {
                    true => S::From::load(at.add(i)),
                    false => S::From::load_partial(at.add(i), n),
                }
            };
        }
    }
    x
}

/// As [`operands_at`] for two vectors that [`Memory::load_two`] gives.
///
/// # Safety
/// Two vectors of each of the others must be left there.
#[inline(always)]
unsafe fn pairs_at<L: Lanes, S: Sink<L>>(
    from: &[Source; 3],
    fixed: [bool; 3],
    ones: [L; 3],
    i: usize,
) -> [[L; 3]; 2] {
    let (mut x, mut y) = (ones, ones);
    for k in 0..3 {
        if k < S::ARITY && !fixed[k] {
            let at = from[k].from.cast::<<S::From as Memory<L>>::Elem>();
            // SAFETY: the caller's.
            [x[k], y[k]] = unsafe { S::From::load_two(at.add(i)) };
        }
    }
    [x, y]
}
