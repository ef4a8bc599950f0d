//! Copying parts of factors into the order in which tiles read them, and tiles of a turned result
//! to where they belong.

use crate::simd::vector::{MAX_LANES, Vector};
use crate::types::accumulate::Scale;
use crate::types::element::Scalar;
use crate::types::params::{CACHE_LINE, PAGE_BYTES, TLB_REACH};
use crate::types::partition::Partition;
use crate::types::strided_rows::StridedRows;
use crate::types::view::stride_bytes;

/// The moves of an instruction set.
pub(crate) struct PackKernels<E> {
    /// The elements that the lines of the other moves are filled up to are a multiple of this.
    pub lanes: usize,
    /// Copies lines to lines `width` apart, and zeros to what is left of these.
    ///
    /// # Safety
    /// The lines must be readable, `to` writable for as many lines of `width`, a multiple of the
    /// lanes that no line is longer than, and the processor must have the instructions.
    pub copy: unsafe fn(StridedRows<*const E>, to: *mut E, width: usize),
    /// Copies lines in groups of elements side by side, each to a place of its own, the lines of a group
    /// to lines `width` apart. What is left of them holds anything.
    ///
    /// # Safety
    /// As for `copy`, for every group; the places are one after the other.
    pub pack_panels: unsafe fn(StridedRows<*const E>, Partition, to: *mut E, width: usize),
    /// Writes element `j` of line `i` to place `i` of line `j`; the lines written are `width`
    /// apart. What is left of them holds copies of other elements.
    ///
    /// # Safety
    /// As for `copy`, with lines for elements.
    pub transpose: unsafe fn(StridedRows<*const E>, to: *mut E, width: usize),
    /// `to = beta * to + alpha * from`.
    ///
    /// # Safety
    /// `from` must be readable, `to` readable and writable, and the processor must have the
    /// instructions.
    pub store_tile: unsafe fn(StridedRows<*const E>, to: StridedRows<*mut E>, Scale<E>),
    /// The same, turned: element `j` of line `i` is for place `i` of line `j`.
    ///
    /// # Safety
    /// As for `store_tile`.
    pub store_tile_transposed: unsafe fn(StridedRows<*const E>, to: StridedRows<*mut E>, Scale<E>),
}

/// # Safety
/// As for [`PackKernels::copy`].
#[inline(always)]
unsafe fn copy<V: Vector>(from: StridedRows<*const V::Elem>, to: *mut V::Elem, width: usize) {
    let whole = from.len / V::LANES * V::LANES;
    let mut line = from.first;
    let mut to = to;
    for _ in 0..from.count {
        // SAFETY: the caller's, for this and all that follows here.
        unsafe {
            for at in (0..whole).step_by(V::LANES) {
                V::load(line.add(at)).store(to.add(at));
            }
            for at in (whole..width).step_by(V::LANES) {
                let rest = from.len.saturating_sub(at);
                V::load_partial(line.wrapping_add(at), rest).store(to.add(at));
            }
            line = line.wrapping_offset(from.stride);
            to = to.wrapping_add(width);
        }
    }
}

/// Lines that groups are copied of before the next ones: what a group leaves of their cache lines is
/// still near when the next one needs it, at whatever distance they lie.
const PACK_UNROLL: usize = 4;

/// How many lines before they are copied they are brought near, where they lie on pages of their own.
const PREFETCH_DISTANCE: usize = 16;

/// # Safety
/// As for [`PackKernels::packed_a`].
#[inline(always)]
unsafe fn pack_panels<V: Vector>(
    from: StridedRows<*const V::Elem>,
    groups: Partition,
    to: *mut V::Elem,
    width: usize,
) {
    let batch_stride = stride_bytes::<V::Elem>(from.stride);
    let far = batch_stride.saturating_mul(from.count) > TLB_REACH;
    let per_call = if far { PACK_UNROLL } else { from.count };
    for start in (0..from.count).step_by(per_call) {
        let first = from.first.wrapping_offset(start as isize * from.stride);
        let strided = StridedRows { first, count: (from.count - start).min(per_call), ..from };
        if batch_stride >= PAGE_BYTES {
            prefetch_ahead::<V>(strided);
        }
        for group in 0..groups.count {
            let elements = groups.get(group);
            let first = first.wrapping_add(elements.start);
            let to = to.wrapping_add((group * from.count + start) * width);
            let part = StridedRows { first, len: elements.len(), ..strided };
            // Whole registers may be read where lines go on that far behind the group.
            let whole = elements.start + width <= from.len;
            // SAFETY: the caller's.
            unsafe {
                match width / V::LANES {
                    1 if whole => copy_vectors::<V, 1>(part, to),
                    2 if whole => copy_vectors::<V, 2>(part, to),
                    _ => copy::<V>(part, to, width),
                }
            }
        }
    }
}

/// Brings lines near that are to be copied later.
#[inline(always)]
fn prefetch_ahead<V: Vector>(strided: StridedRows<*const V::Elem>) {
    let ahead = (PREFETCH_DISTANCE as isize).wrapping_mul(strided.stride);
    prefetch_rows::<V, _>(StridedRows { first: strided.first.wrapping_offset(ahead), ..strided });
}

/// Asks the processor to bring lines of elements of any type near.
#[inline(always)]
pub(crate) fn prefetch_rows<V: Vector, E>(strided: StridedRows<*const E>) {
    for line in 0..strided.count as isize {
        let line = strided.first.wrapping_offset(line.wrapping_mul(strided.stride));
        for at in (0..strided.len).step_by(CACHE_LINE / size_of::<E>()) {
            V::prefetch(line.wrapping_add(at).cast());
        }
    }
}

/// Copies lines of so many registers to lines one after the other.
///
/// # Safety
/// The lines must be readable for all lanes of the registers, and `to` writable for as many of them.
#[inline(always)]
unsafe fn copy_vectors<V: Vector, const REGISTERS: usize>(
    from: StridedRows<*const V::Elem>,
    to: *mut V::Elem,
) {
    let (mut line, mut to) = (from.first, to);
    for _ in 0..from.count {
        for v in 0..REGISTERS {
            // SAFETY: the caller's.
            unsafe { V::load(line.add(v * V::LANES)).store(to.add(v * V::LANES)) };
        }
        line = line.wrapping_offset(from.stride);
        to = to.wrapping_add(REGISTERS * V::LANES);
    }
}

/// The columns of a square of elements, which may be smaller than the register is long.
///
/// # Safety
/// The lines must be readable.
#[inline(always)]
unsafe fn load_block<V: Vector>(from: StridedRows<*const V::Elem>) -> [V; MAX_LANES] {
    let mut rows = [V::splat(V::Elem::ZERO); MAX_LANES];
    let mut line = from.first;
    for (i, row) in rows.iter_mut().enumerate().take(V::LANES) {
        // SAFETY: the caller's.
        *row = unsafe {
            if from.len == V::LANES { V::load(line) } else { V::load_partial(line, from.len) }
        };
        // Lines beyond the last one repeat it.
        line = line.wrapping_offset(if i + 1 < from.count { from.stride } else { 0 });
    }
    V::transpose(rows)
}

/// Calls `f(line, element, columns, how many)` for squares of a block.
macro_rules! for_blocks {
    ($V:ident, $from:ident, |$line:ident, $at:ident, $columns:ident, $count:ident| $body:block) => {
        for $line in (0..$from.count).step_by($V::LANES) {
            for $at in (0..$from.len).step_by($V::LANES) {
                let first = $from.first.wrapping_offset($line as isize * $from.stride);
                let $count = ($from.len - $at).min($V::LANES);
                let count = $from.count - $line;
                let first = first.wrapping_add($at);
                let strided = StridedRows { first, count, len: $count, ..$from };
                // SAFETY: the caller's.
                let $columns = unsafe { load_block::<$V>(strided) };
                $body
            }
        }
    };
}

/// # Safety
/// As for [`PackKernels::transpose`].
#[inline(always)]
unsafe fn transpose<V: Vector>(from: StridedRows<*const V::Elem>, to: *mut V::Elem, width: usize) {
    for_blocks!(V, from, |line, at, columns, count| {
        for (i, column) in columns.iter().enumerate().take(count) {
            // SAFETY: the caller's: `width` is a multiple of the lanes.
            unsafe { column.store(to.add((at + i) * width + line)) };
        }
    });
}

/// # Safety
/// As for [`PackKernels::store_tile`].
#[inline(always)]
unsafe fn store_tile<V: Vector>(
    from: StridedRows<*const V::Elem>,
    to: StridedRows<*mut V::Elem>,
    scale: Scale<V::Elem>,
) {
    let (alpha, beta) = (V::splat(scale.alpha), scale.beta.map(V::splat));
    for i in 0..from.count as isize {
        let sums = from.first.wrapping_offset(i * from.stride);
        let line = to.first.wrapping_offset(i * to.stride);
        for at in (0..from.len).step_by(V::LANES) {
            let width = (from.len - at).min(V::LANES);
            // SAFETY: the caller's.
            unsafe {
                let sum = match width == V::LANES {
                    true => V::load(sums.add(at)),
                    false => V::load_partial(sums.add(at), width),
                };
                store_partial_sum(line.add(at), width, alpha.mul(sum), beta);
            }
        }
    }
}

/// # Safety
/// As for [`PackKernels::store_tile_transposed`].
#[inline(always)]
unsafe fn store_tile_transposed<V: Vector>(
    from: StridedRows<*const V::Elem>,
    to: StridedRows<*mut V::Elem>,
    scale: Scale<V::Elem>,
) {
    let (alpha, beta) = (V::splat(scale.alpha), scale.beta.map(V::splat));
    for_blocks!(V, from, |line, at, columns, count| {
        let width = (from.count - line).min(V::LANES);
        for (i, &column) in columns.iter().enumerate().take(count) {
            let place = to.first.wrapping_offset((at + i) as isize * to.stride);
            // SAFETY: the caller's.
            unsafe { store_partial_sum(place.wrapping_add(line), width, alpha.mul(column), beta) };
        }
    });
}

/// Stores `width` lanes of a sum.
///
/// # Safety
/// `to` must be readable and writable for `width` elements.
#[inline(always)]
unsafe fn store_partial_sum<V: Vector>(to: *mut V::Elem, width: usize, sum: V, beta: Option<V>) {
    // SAFETY: the caller's, for all of it.
    unsafe {
        if width == V::LANES {
            let old = beta.map(|beta| beta.mul(V::load(to)));
            old.map_or(sum, |old| old.add(sum)).store(to);
        } else {
            let old = beta.map(|beta| beta.mul(V::load_partial(to, width)));
            old.map_or(sum, |old| old.add(sum)).store_partial(to, width);
        }
    }
}

/// The moves for each level: the same text, compiled with the level's instructions.
macro_rules! compiled {
    ($($name:ident $(with $features:literal)?;)+) => {$(
        pub(crate) mod $name {
            use super::PackKernels;
            use crate::types::accumulate::Scale;
            use crate::types::strided_rows::StridedRows;
            use crate::types::partition::Partition;
            use crate::simd::vector::Vector;

            /// # Safety
            /// As for [`PackKernels::copy`].
            $(#[target_feature(enable = $features)])?
            unsafe fn copy<V: Vector>(from: StridedRows<*const V::Elem>, to: *mut V::Elem, width: usize) {
                // SAFETY: the caller's.
                unsafe { super::copy::<V>(from, to, width) }
            }

            /// # Safety
            /// As for [`PackKernels::packed_a`].
            $(#[target_feature(enable = $features)])?
            unsafe fn pack_panels<V: Vector>(
                from: StridedRows<*const V::Elem>,
                groups: Partition,
                to: *mut V::Elem,
                width: usize,
            ) {
                // SAFETY: the caller's.
                unsafe { super::pack_panels::<V>(from, groups, to, width) }
            }

            /// # Safety
            /// As for [`PackKernels::transpose`].
            $(#[target_feature(enable = $features)])?
            unsafe fn transpose<V: Vector>(from: StridedRows<*const V::Elem>, to: *mut V::Elem, width: usize) {
                // SAFETY: the caller's.
                unsafe { super::transpose::<V>(from, to, width) }
            }

            /// # Safety
            /// As for [`PackKernels::store_tile`].
            $(#[target_feature(enable = $features)])?
            unsafe fn store_tile<V: Vector>(
                from: StridedRows<*const V::Elem>,
                to: StridedRows<*mut V::Elem>,
                scale: Scale<V::Elem>,
            ) {
                // SAFETY: the caller's.
                unsafe { super::store_tile::<V>(from, to, scale) }
            }

            /// # Safety
            /// As for [`PackKernels::store_tile_transposed`].
            $(#[target_feature(enable = $features)])?
            unsafe fn store_tile_transposed<V: Vector>(
                from: StridedRows<*const V::Elem>,
                to: StridedRows<*mut V::Elem>,
                scale: Scale<V::Elem>,
            ) {
                // SAFETY: the caller's.
                unsafe { super::store_tile_transposed::<V>(from, to, scale) }
            }

            /// The moves of a register.
            pub(crate) const fn pack_kernels<V: Vector>() -> PackKernels<V::Elem> {
                PackKernels {
                    lanes: V::LANES,
                    copy: copy::<V>,
                    pack_panels: pack_panels::<V>,
                    transpose: transpose::<V>,
                    store_tile: store_tile::<V>,
                    store_tile_transposed: store_tile_transposed::<V>,
                }
            }
        }
    )+};
}

compiled! { on_any; }

#[cfg(target_arch = "x86_64")]
compiled! {
    on_avx2 with "avx2,fma";
    on_avx512 with "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma";
    on_avx512_vnni with "avx512vnni,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma";
    on_avx512_bf16 with "avx512bf16,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma";
}
