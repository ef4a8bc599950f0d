//! The loop over single elements: integers, truth values and complex numbers.

use crate::pointwise::inner_loop::{Scalars, Source};
use crate::pointwise::loops::{Sink, splat};
use crate::vec::{Lanes, one_at_a_time};
use std::mem::MaybeUninit;

// Note [Steps of single elements]
// What brings operands to the form that a compiler vectorises is the same for all operators of a size
// of elements, and stands in one function: what shares memory with the results, or lies between the
// places of its dtype, is copied first, and what is one element is repeated, a step of [`CHUNK`] bytes
// at a time. An operator adds a function of a step. Lengths are multiples of a block there, as the
// compiler knows, so that it adds no loops for a rest: one of some elements is filled up to a block, and
// fewer are computed element by element.

/// Bytes of an operand per step.
const CHUNK: usize = 2048;

/// Bytes of a block, which four vectors of AVX2 have.
const BLOCK: usize = 128;

/// A rest of fewer elements is not filled up.
const FEW: usize = 16;

/// A step of an operator: `n` results, whole blocks of them or fewer than [`FEW`] besides, from dense
/// operands that share no memory with them.
type Step = unsafe fn(to: *mut u8, from: &[*const u8; 3], scalars: &Scalars, n: usize);

/// The room for one operand of a step.
#[repr(align(64))]
struct Room(MaybeUninit<[u8; CHUNK]>);

/// The room for a block.
#[repr(align(64))]
struct BlockRoom(MaybeUninit<[u8; BLOCK]>);

/// How an operator's operands lie in memory.
#[derive(Clone, Copy)]
struct Shape {
    arity: usize,
    /// Bytes per element of the operands, at most 16, and per result.
    size: usize,
    result: usize,
    align: usize,
    /// Elements of a block.
    block: usize,
}

/// Takes an operator's steps; see Note [Steps of single elements].
///
/// # Safety
/// As for [`InnerLoop`](crate::pointwise::inner_loop::InnerLoop), with operands and results of the shape.
unsafe fn in_steps(
    to: *mut u8,
    from: &[Source; 3],
    scalars: &Scalars,
    n: usize,
    shape: Shape,
    step: Step,
) {
    let Shape { arity, size, result, align, block } = shape;
    let most = CHUNK / size;
    let mut rooms = [const { Room(MaybeUninit::uninit()) }; 3];
    let mut shared = [false; 3];
    let mut operands = from.map(|source| source.from);
    for k in 0..arity {
        let room = rooms[k].0.as_mut_ptr().cast::<u8>();
        if from[k].fixed {
            // SAFETY: every operand has at least one element, and a room has place for a step of them.
            unsafe { repeat(operands[k], room, size, n.min(most).next_multiple_of(block)) };
            operands[k] = room;
        } else {
            let (first, last) = (operands[k].addr(), operands[k].addr() + n * size);
            let overlaps = first < to.addr() + n * result && to.addr() < last;
            shared[k] = overlaps || !first.is_multiple_of(align);
        }
    }
    for start in (0..n).step_by(most) {
        let length = most.min(n - start);
        let mut at = operands;
        for k in (0..arity).filter(|&k| !from[k].fixed) {
            at[k] = at[k].wrapping_add(start * size);
            if shared[k] {
                let room = rooms[k].0.as_mut_ptr().cast::<u8>();
                // SAFETY: so many elements are left, and a room has place for them.
                unsafe { std::ptr::copy_nonoverlapping(at[k], room, length * size) };
                at[k] = room;
            }
        }
        let to = to.wrapping_add(start * result);
        let (whole, rest) = (length - length % block, length % block);
        let main = if rest < FEW { length } else { whole };
        // SAFETY: the operands have so many elements, which lie apart from the results by now.
        unsafe { step(to, &at, scalars, main) };
        if main < length {
            for k in (0..arity).filter(|&k| !from[k].fixed) {
                at[k] = at[k].wrapping_add(whole * size);
            }
            let fixed = from.map(|source| source.fixed);
            // SAFETY: so many elements are left, fewer than a block.
            unsafe { filled_step(to.add(whole * result), at, fixed, scalars, rest, shape, step) };
        }
    }
}

/// A step over fewer elements than a block, filled up with the last ones.
///
/// # Safety
/// As for [`Step`], with a block of the operands that are repeated already.
unsafe fn filled_step(
    to: *mut u8,
    mut at: [*const u8; 3],
    fixed: [bool; 3],
    scalars: &Scalars,
    rest: usize,
    shape: Shape,
    step: Step,
) {
    let Shape { arity, size, result, block, .. } = shape;
    let mut rooms = [const { BlockRoom(MaybeUninit::uninit()) }; 4];
    let [out, ins @ ..] = &mut rooms;
    for (k, room) in ins.iter_mut().enumerate().take(arity).filter(|&(k, _)| !fixed[k]) {
        let room = room.0.as_mut_ptr().cast::<u8>();
        // SAFETY: `rest` elements are there, at least one, and a room has place for a block.
        unsafe {
            std::ptr::copy_nonoverlapping(at[k], room, rest * size);
            repeat(at[k].add((rest - 1) * size), room.add(rest * size), size, block - rest);
        }
        at[k] = room;
    }
    let out = out.0.as_mut_ptr().cast::<u8>();
    // SAFETY: the rooms hold a block of operands and of results, of which as many as there are places
    // are copied.
    unsafe {
        step(out, &at, scalars, block);
        std::ptr::copy_nonoverlapping(out.cast_const(), to, rest * result);
    }
}

/// Writes one element `n` times.
///
/// # Safety
/// `from` must be readable for an element of this size, `to` writable for `n` of them.
unsafe fn repeat(from: *const u8, to: *mut u8, size: usize, n: usize) {
    // SAFETY: the caller's; elements are read and written at any alignment.
    unsafe {
        match size {
            1 => std::ptr::write_bytes(to, from.read(), n),
            2 => repeat_as::<u16>(from, to, n),
            4 => repeat_as::<u32>(from, to, n),
            8 => repeat_as::<u64>(from, to, n),
            _ => repeat_as::<[u64; 2]>(from, to, n),
        }
    }
}

/// # Safety
/// As for [`repeat`], with the size of `T`.
#[inline(always)]
unsafe fn repeat_as<T: Copy>(from: *const u8, to: *mut u8, n: usize) {
    // SAFETY: the caller's.
    unsafe {
        let value = from.cast::<T>().read_unaligned();
        (0..n).for_each(|i| to.cast::<T>().add(i).write_unaligned(value));
    }
}

/// A step with blocks that become vectors.
///
/// # Safety
/// As for [`Step`].
#[cfg(any(not(target_arch = "x86_64"), feature = "avx2"))]
#[inline(always)]
unsafe fn vectorised_step<L: Lanes, S: Sink<L>>(
    to: *mut u8,
    from: &[*const u8; 3],
    scalars: &Scalars,
    n: usize,
) {
    // SAFETY: the loop was chosen for this element type.
    let splat = unsafe { splat::<L>(scalars) };
    let s = &splat[..scalars.values().len()];
    let block = const { BLOCK / size_of::<L::Elem>() };
    let whole = n / block * block;
    // SAFETY: there are so many elements, and the operands lie apart from the results.
    unsafe {
        let x: [&[L::Elem]; 3] = std::array::from_fn(|k| {
            let k = if k < S::ARITY { k } else { 0 };
            std::slice::from_raw_parts(from[k].cast::<L::Elem>(), whole)
        });
        let results = std::slice::from_raw_parts_mut(to.cast(), whole * S::SIZE);
        blocks::<L, S>(results, x[0], x[1], x[2], s, whole);
    }
    for i in whole..n {
        one_at_a_time();
        // SAFETY: an element is left at `i`.
        unsafe { S::put(S::eval(elements_at::<L, S>(from, i), s), to.add(i * S::SIZE), 1) };
    }
}

/// Slices, of which the compiler knows that they do not overlap.
///
/// # Safety
/// The results must have `n` places, the operands that the sink takes `n` elements.
#[cfg(any(not(target_arch = "x86_64"), feature = "avx2"))]
#[inline(always)]
unsafe fn blocks<L: Lanes, S: Sink<L>>(
    results: &mut [MaybeUninit<u8>],
    x0: &[L::Elem],
    x1: &[L::Elem],
    x2: &[L::Elem],
    s: &[L],
    n: usize,
) {
    for j in 0..n {
        // SAFETY: the caller's.
        unsafe {
            let a = L::load(x0.as_ptr().add(j));
            let b = if S::ARITY > 1 { L::load(x1.as_ptr().add(j)) } else { a };
            let c = if S::ARITY > 2 { L::load(x2.as_ptr().add(j)) } else { a };
            S::put(S::eval([a, b, c], s), results.as_mut_ptr().add(j * S::SIZE).cast(), 1);
        }
    }
}

/// # Safety
/// The operands that the sink takes must have an element at `i`.
#[inline(always)]
unsafe fn elements_at<L: Lanes, S: Sink<L>>(from: &[*const u8; 3], i: usize) -> [L; 3] {
    // SAFETY: the caller's.
    let at = |k: usize| unsafe { L::load(from[k].cast::<L::Elem>().add(i)) };
    let a = at(0);
    [a, if S::ARITY > 1 { at(1) } else { a }, if S::ARITY > 2 { at(2) } else { a }]
}

/// A step element by element, which is small and not fast.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "x86-64 has a second level"))]
///
/// # Safety
/// As for [`Step`].
#[inline(always)]
unsafe fn compact_step<L: Lanes, S: Sink<L>>(
    to: *mut u8,
    from: &[*const u8; 3],
    scalars: &Scalars,
    n: usize,
) {
    // SAFETY: the loop was chosen for this element type.
    let splat = unsafe { splat::<L>(scalars) };
    let s = &splat[..scalars.values().len()];
    for i in 0..n {
        one_at_a_time();
        // SAFETY: an element is left at `i`.
        unsafe { S::put(S::eval(elements_at::<L, S>(from, i), s), to.add(i * S::SIZE), 1) };
    }
}

/// The loops of a level with their steps.
macro_rules! lane_loops {
    ($($name:ident steps $step:ident = $body:ident $(with $features:literal)?;)+) => {$(
        /// # Safety
        /// As for [`InnerLoop`](crate::pointwise::inner_loop::InnerLoop).
        pub(crate) unsafe fn $name<L: Lanes, S: Sink<L>>(
            to: *mut u8,
            from: &[Source; 3],
            scalars: &Scalars,
            n: usize,
        ) {
            let shape = const {
                let (size, align) = (size_of::<L::Elem>(), align_of::<L::Elem>());
                Shape { arity: S::ARITY, size, result: S::SIZE, align, block: BLOCK / size }
            };
            // SAFETY: the caller's.
            unsafe { in_steps(to, from, scalars, n, shape, $step::<L, S>) }
        }

        /// # Safety
        /// As for [`Step`].
        $(#[target_feature(enable = $features)])?
        unsafe fn $step<L: Lanes, S: Sink<L>>(
            to: *mut u8,
            from: &[*const u8; 3],
            scalars: &Scalars,
            n: usize,
        ) {
            // SAFETY: the caller's.
            unsafe { $body::<L, S>(to, from, scalars, n) }
        }
    )+};
}

// On x86-64 every processor of the last ten years has AVX2: older ones get right results.
#[cfg(target_arch = "x86_64")]
lane_loops! {
    lane_baseline steps step_baseline = compact_step;
}

#[cfg(not(target_arch = "x86_64"))]
lane_loops! {
    lane_baseline steps step_baseline = vectorised_step;
}

#[cfg(all(target_arch = "x86_64", feature = "avx2"))]
lane_loops! {
    lane_avx2 steps step_avx2 = vectorised_step with "avx2,fma,f16c";
}
