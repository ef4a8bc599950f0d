//! Pack kernels: vectorised copies and transposes of rows into micro-panels, and of tiles to the result.

use crate::simd::vector::{MAX_LANES, Vector};
use crate::types::accumulate::Scale;
use crate::types::element::Scalar;
use crate::types::params::{CACHE_LINE, PAGE_BYTES, TLB_REACH};
use crate::types::partition::Partition;
use crate::types::strided_rows::StridedRows;
use crate::types::view::stride_bytes;

/// The pack kernels of an instruction set.
pub(crate) struct PackKernels<E> {
    /// Packed rows are padded to a multiple of this.
    pub lanes: usize,
    /// Copies rows to rows `width` apart, padded with zeros.
    ///
    /// # Safety
    /// The rows must be readable, `to` writable for as many rows of `width`, a multiple of the lanes
    /// that no row is longer than, and the processor must have the instruction set.
    pub copy: unsafe fn(StridedRows<*const E>, to: *mut E, width: usize),
    /// Copies column ranges of rows to micro-panels, one after the other, in rows `width` apart.
    /// Their padding is unspecified.
    ///
    /// # Safety
    /// As for `copy`, for every micro-panel.
    pub pack_panels: unsafe fn(StridedRows<*const E>, Partition, to: *mut E, width: usize),
    /// Copies the transpose: element `j` of row `i` goes to element `i` of row `j`, rows being
    /// `width` apart. Their padding is unspecified.
    ///
    /// # Safety
    /// As for `copy`, with rows for elements.
    pub transpose: unsafe fn(StridedRows<*const E>, to: *mut E, width: usize),
    /// `to = beta * to + alpha * from`.
    ///
    /// # Safety
    /// `from` must be readable, `to` readable and writable, and the processor must have the
    /// instruction set.
    pub store_tile: unsafe fn(StridedRows<*const E>, to: StridedRows<*mut E>, Scale<E>),
    /// The same for the transpose: element `j` of row `i` is added to element `i` of row `j`.
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
    let mut row = from.first;
    let mut to = to;
    for _ in 0..from.count {
        // SAFETY: the caller's, for this and all that follows here.
        unsafe {
            for at in (0..whole).step_by(V::LANES) {
                V::load(row.add(at)).store(to.add(at));
            }
            for at in (whole..width).step_by(V::LANES) {
                let rest = from.len.saturating_sub(at);
                V::load_partial(row.wrapping_add(at), rest).store(to.add(at));
            }
            row = row.wrapping_offset(from.stride);
            to = to.wrapping_add(width);
        }
    }
}

/// Rows of which all micro-panels are copied before the next ones: the cache lines that a micro-panel
/// uses in part are still cached for the next one, at whatever distance rows are.
const PACK_UNROLL: usize = 4;

/// How many rows ahead are prefetched, where each is on a page of its own.
const PREFETCH_DISTANCE: usize = 16;

/// # Safety
/// As for [`PackKernels::pack_panels`].
#[inline(always)]
unsafe fn pack_panels<V: Vector>(
    from: StridedRows<*const V::Elem>,
    panels: Partition,
    to: *mut V::Elem,
    width: usize,
) {
    let row_bytes = stride_bytes::<V::Elem>(from.stride);
    let far = row_bytes.saturating_mul(from.count) > TLB_REACH;
    let unroll = if far { PACK_UNROLL } else { from.count };
    for start in (0..from.count).step_by(unroll) {
        let first = from.first.wrapping_offset(start as isize * from.stride);
        let rows = StridedRows { first, count: (from.count - start).min(unroll), ..from };
        if row_bytes >= PAGE_BYTES {
            prefetch_ahead::<V>(rows);
        }
        for panel in 0..panels.count {
            let elements = panels.get(panel);
            let first = first.wrapping_add(elements.start);
            let to = to.wrapping_add((panel * from.count + start) * width);
            let panel_rows = StridedRows { first, len: elements.len(), ..rows };
            // Whole vectors may be read where rows go on that far behind the columns.
            let whole = elements.start + width <= from.len;
            // SAFETY: the caller's.
            unsafe {
                match width / V::LANES {
                    1 if whole => copy_vectors::<V, 1>(panel_rows, to),
                    2 if whole => copy_vectors::<V, 2>(panel_rows, to),
                    _ => copy::<V>(panel_rows, to, width),
                }
            }
        }
    }
}

/// Prefetches the rows that are copied later.
#[inline(always)]
fn prefetch_ahead<V: Vector>(rows: StridedRows<*const V::Elem>) {
    let ahead = (PREFETCH_DISTANCE as isize).wrapping_mul(rows.stride);
    prefetch_rows::<V, _>(StridedRows { first: rows.first.wrapping_offset(ahead), ..rows });
}

/// Prefetches rows of elements of any type.
#[inline(always)]
pub(crate) fn prefetch_rows<V: Vector, E>(rows: StridedRows<*const E>) {
    for row in 0..rows.count as isize {
        let row = rows.first.wrapping_offset(row.wrapping_mul(rows.stride));
        for at in (0..rows.len).step_by(CACHE_LINE / size_of::<E>()) {
            V::prefetch(row.wrapping_add(at).cast());
        }
    }
}

/// Copies rows of whole vectors to consecutive rows.
///
/// # Safety
/// The rows must be readable for all lanes of the vectors, and `to` writable for as many.
#[inline(always)]
unsafe fn copy_vectors<V: Vector, const REGISTERS: usize>(
    from: StridedRows<*const V::Elem>,
    to: *mut V::Elem,
) {
    let (mut row, mut to) = (from.first, to);
    for _ in 0..from.count {
        for v in 0..REGISTERS {
            // SAFETY: the caller's.
            unsafe { V::load(row.add(v * V::LANES)).store(to.add(v * V::LANES)) };
        }
        row = row.wrapping_offset(from.stride);
        to = to.wrapping_add(REGISTERS * V::LANES);
    }
}

/// The transpose of a square block, which may be narrower than a vector.
///
/// # Safety
/// The rows must be readable.
#[inline(always)]
unsafe fn load_block<V: Vector>(from: StridedRows<*const V::Elem>) -> [V; MAX_LANES] {
    let mut vectors = [V::splat(V::Elem::ZERO); MAX_LANES];
    let mut row = from.first;
    for (i, vector) in vectors.iter_mut().enumerate().take(V::LANES) {
        // SAFETY: the caller's.
        *vector = unsafe {
            if from.len == V::LANES { V::load(row) } else { V::load_partial(row, from.len) }
        };
        // Rows beyond the last one repeat it.
        row = row.wrapping_offset(if i + 1 < from.count { from.stride } else { 0 });
    }
    V::transpose(vectors)
}

/// Runs a body for the transposed blocks of rows.
macro_rules! for_blocks {
    ($V:ident, $from:ident, |$row:ident, $at:ident, $columns:ident, $count:ident| $body:block) => {
        for $row in (0..$from.count).step_by($V::LANES) {
            for $at in (0..$from.len).step_by($V::LANES) {
                let first = $from.first.wrapping_offset($row as isize * $from.stride);
                let $count = ($from.len - $at).min($V::LANES);
                let count = $from.count - $row;
                let first = first.wrapping_add($at);
                let rows = StridedRows { first, count, len: $count, ..$from };
                // SAFETY: the caller's.
                let $columns = unsafe { load_block::<$V>(rows) };
                $body
            }
        }
    };
}

/// # Safety
/// As for [`PackKernels::transpose`].
#[inline(always)]
unsafe fn transpose<V: Vector>(from: StridedRows<*const V::Elem>, to: *mut V::Elem, width: usize) {
    for_blocks!(V, from, |row, at, columns, count| {
        for (i, column) in columns.iter().enumerate().take(count) {
            // SAFETY: the caller's: `width` is a multiple of the lanes.
            unsafe { column.store(to.add((at + i) * width + row)) };
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
        let row = to.first.wrapping_offset(i * to.stride);
        for at in (0..from.len).step_by(V::LANES) {
            let width = (from.len - at).min(V::LANES);
            // SAFETY: the caller's.
            unsafe {
                let sum = match width == V::LANES {
                    true => V::load(sums.add(at)),
                    false => V::load_partial(sums.add(at), width),
                };
                store_partial_sum(row.add(at), width, alpha.mul(sum), beta);
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
    for_blocks!(V, from, |row, at, columns, count| {
        let width = (from.count - row).min(V::LANES);
        for (i, &column) in columns.iter().enumerate().take(count) {
            let place = to.first.wrapping_offset((at + i) as isize * to.stride);
            // SAFETY: the caller's.
            unsafe { store_partial_sum(place.wrapping_add(row), width, alpha.mul(column), beta) };
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

/// The kernels of each instruction set: one source, compiled with the features.
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
            /// As for [`PackKernels::pack_panels`].
            $(#[target_feature(enable = $features)])?
            unsafe fn pack_panels<V: Vector>(
                from: StridedRows<*const V::Elem>,
                panels: Partition,
                to: *mut V::Elem,
                width: usize,
            ) {
                // SAFETY: the caller's.
                unsafe { super::pack_panels::<V>(from, panels, to, width) }
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

            /// The kernels of a vector type.
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
    on_avx_vnni with "avxvnni,avx2,fma";
    on_avx512 with "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma";
    on_avx512_vnni with "avx512vnni,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma";
    on_avx512_bf16 with "avx512bf16,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma";
}
