//! Bringing rows of an iterator to the contiguous form that the loops take.

use crate::copy::strided::{Rows, gather, scatter};
use crate::copy::transpose::TILE;
use crate::pointwise::loops::{InnerLoop, Kernel, Scalars, Source};
use crate::pointwise::vector_loop::FAR;
use crate::vec::convert::Conversion;
use crate::vec::stream::{SHORTEST_RUN, Stream};
use corten_core::DType;
use corten_ops::iter::TensorIterator;
use std::mem::MaybeUninit;

// Note [Staging]
// Loops are instantiated for contiguous operands of the computing dtype only: one function per
// operator, dtype and instruction set. Rows that are strided, or of a 16-bit or 8-bit float, are
// copied a few kilobytes at a time into buffers, computed there, and copied back. Rejected: a
// strided and a converting variant of every loop. They would multiply the instantiations by about
// ten, and with vectors in the middle gathering element by element costs the same. Only operators
// that do next to nothing have loops over 16-bit floats as they are, twice as fast.

/// Bytes per buffer: four of them stay in the first-level cache.
const BUFFER: usize = 4096;

/// Rows shorter than this are staged several at a time.
const SHORT: usize = 32;

/// Rows, however short, that are not worth buffers.
const FEW_ROWS: usize = 4;

/// Bytes that a loop over operands that overlap reads before it writes.
const ORDERED: usize = 64;

/// Operands of a kernel, the output included.
const MOST: usize = 4;

/// The operand that may be a number.
const NUMBER: usize = 2;

#[repr(align(64))]
struct Buffer(MaybeUninit<[u8; BUFFER]>);

impl Buffer {
    fn new() -> Self {
        Self(MaybeUninit::uninit())
    }

    fn start(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }
}

struct Buffers {
    operands: [Buffer; MOST],
    raw: Buffer,
    /// How results leave, where they are stored non-temporally.
    stream: Option<Stream>,
}

impl Buffers {
    fn new(stream: Option<Stream>) -> Self {
        Self { operands: std::array::from_fn(|_| Buffer::new()), raw: Buffer::new(), stream }
    }
}

/// How one operand is stored.
#[derive(Clone, Copy)]
struct Operand {
    size: usize,
    /// To the dtype of the computation, or from it for the output.
    conversion: Option<Conversion>,
}

/// A kernel with what is known of the iterator's operands beforehand.
#[derive(Clone)]
pub(crate) struct GatherScatter {
    kernel: Kernel,
    scalars: Scalars,
    /// The second input, where it is one element that has not been rounded.
    number: Option<Scalars>,
    operands: [Operand; MOST],
    /// Elements that every buffer has room for.
    capacity: usize,
    /// Steps may share elements, so that their order shows.
    one_by_one: bool,
    /// Bytes of the output.
    written: usize,
}

/// A part of the walk: rows of one length.
#[derive(Clone, Copy)]
struct RowGroup {
    length: usize,
    rows: usize,
}

impl RowGroup {
    /// Whether the elements of all rows lie one after the other.
    fn is_dense(self, rows: Rows, size: usize) -> bool {
        rows.inner == size as i64 && (self.rows == 1 || rows.outer == (size * self.length) as i64)
    }
}

impl GatherScatter {
    pub(crate) fn new(
        iter: &TensorIterator,
        mut kernel: Kernel,
        scalars: Scalars,
        number: Option<Scalars>,
    ) -> Self {
        let result = if kernel.test { DType::Bool } else { kernel.compute };
        let mut widest = kernel.compute.itemsize();
        let mut operands = [Operand { size: 0, conversion: None }; MOST];
        for (i, operand) in operands.iter_mut().enumerate().take(kernel.arity + 1) {
            let dtype = iter.dtype(i);
            operand.size = dtype.itemsize();
            widest = widest.max(operand.size);
            operand.conversion = match i {
                0 if dtype != result => Some(Conversion::new(result, dtype)),
                1.. if dtype != kernel.compute => Some(Conversion::new(dtype, kernel.compute)),
                _ => None,
            };
        }
        if number.is_some() {
            operands[NUMBER] = Operand { size: kernel.compute.itemsize(), conversion: None };
        }
        let one_by_one = !iter.parts_are_independent();
        let dtype = iter.input_dtype();
        let alike = number.is_none() && (0..=kernel.arity).all(|i| iter.dtype(i) == dtype);
        let nbytes = iter.numel() as usize * operands[0].size;
        kernel.inner_loop = kernel.inner_loop_for(nbytes);
        if let Some([near, far]) = kernel.halves.filter(|_| alike && !one_by_one) {
            kernel.inner_loop = if nbytes < FAR { near } else { far };
            operands.iter_mut().for_each(|operand| operand.conversion = None);
        } else if dtype.is_reduced_float() {
            kernel.past = None;
        }
        let capacity = BUFFER / widest;
        // Other loops over numbers of 16 bits compute for as long as memory takes, so that what streams
        // save goes into their copies.
        let streamed = operands[0].size != 2 || kernel.past.is_some();
        let written = if streamed { nbytes } else { 0 };
        Self { kernel, scalars, number, operands, capacity, one_by_one, written }
    }

    /// Runs the kernel over `n1` rows of `n0` elements.
    ///
    /// # Safety
    /// The addresses and strides (inner ones, then outer ones) must be those of the operands of
    /// the iterator this was made for, readable and writable for that many elements.
    pub(crate) unsafe fn rows(&self, at: &[*mut u8], strides: &[i64], n0: usize, n1: usize) {
        let Some(number) = &self.number else {
            // SAFETY: the caller's.
            return unsafe { self.walk(at, strides, n0, n1) };
        };
        let count = self.kernel.arity + 1;
        let (mut addresses, mut steps) = ([std::ptr::null_mut(); MOST], [0; 2 * MOST]);
        addresses[..count].copy_from_slice(&at[..count]);
        steps[..2 * count].copy_from_slice(&strides[..2 * count]);
        addresses[NUMBER] = number.address();
        (steps[NUMBER], steps[count + NUMBER]) = (0, 0);
        // SAFETY: the caller's; the number is one element that is only read, and with strides of 0
        // every step reads it.
        unsafe { self.walk(&addresses[..count], &steps[..2 * count], n0, n1) }
    }

    /// # Safety
    /// As for [`rows`](Self::rows).
    unsafe fn walk(&self, at: &[*mut u8], strides: &[i64], n0: usize, n1: usize) {
        let count = self.kernel.arity + 1;
        let (inner, outer) = strides.split_at(count);
        let regular = (0..count).all(|i| {
            let dense = inner[i] == self.operands[i].size as i64;
            self.operands[i].conversion.is_none() && (dense || n0 == 1 || (i > 0 && inner[i] == 0))
        });
        if self.one_by_one {
            let run = if regular { ORDERED / self.kernel.compute.itemsize() } else { 1 };
            // SAFETY: the caller's.
            return unsafe { self.ordered(at, strides, n0, n1, run) };
        }
        let in_place = at[1..count].contains(&at[0]);
        let computed = if in_place { None } else { Stream::of_computed(self.written) };
        if regular && computed.is_none() && (n0 >= SHORT || n1 <= FEW_ROWS) {
            let is_long = n0 * self.operands[0].size >= SHORTEST_RUN && !in_place;
            let past = self.kernel.past.filter(|_| is_long);
            let past = past.and_then(|past| Some((Stream::of(self.written)?, past)));
            for row in 0..n1 {
                let moved = |i: usize| at[i].wrapping_offset((outer[i] * row as i64) as isize);
                let source = |i: usize| {
                    let i = i.min(count - 1);
                    Source { from: moved(i), fixed: inner[i] == 0 || n0 == 1 }
                };
                let from = [source(1), source(2), source(3)];
                // SAFETY: the row is dense, or one element; the loops fit the dtypes, and what is
                // written with non-temporal stores is no operand.
                unsafe {
                    match past {
                        Some((_, past)) => self.row_past_caches(past, moved(0), &from, n0),
                        None => (self.kernel.inner_loop)(moved(0), &from, &self.scalars, n0),
                    }
                }
            }
            return;
        }
        // SAFETY: the caller's.
        unsafe { self.staged(at, strides, n0, n1, computed) }
    }

    /// A row whose whole lines of memory are written with non-temporal stores.
    ///
    /// # Safety
    /// As for [`InnerLoop`], and as [`Kernel::past`] says.
    unsafe fn row_past_caches(&self, past: InnerLoop, to: *mut u8, from: &[Source; 3], n: usize) {
        let size = self.operands[0].size;
        let [head, whole, rest] = Stream::cut(to, size, n);
        for (inner_loop, part) in
            [(self.kernel.inner_loop, head), (past, whole), (self.kernel.inner_loop, rest)]
        {
            let source = |source: Source| match source.fixed {
                true => source,
                false => Source { from: source.from.wrapping_add(part.start * size), ..source },
            };
            // SAFETY: the caller's, of a part of the row; the second one is whole lines, as `past`
            // takes them.
            unsafe {
                inner_loop(to.add(part.start * size), &from.map(source), &self.scalars, part.len())
            };
        }
    }

    /// # Safety
    /// As for [`rows`](Self::rows).
    #[cold]
    unsafe fn staged(
        &self,
        at: &[*mut u8],
        strides: &[i64],
        n0: usize,
        n1: usize,
        stream: Option<Stream>,
    ) {
        let count = self.kernel.arity + 1;
        let (inner, outer) = strides.split_at(count);
        let mut buffers = Buffers::new(stream);
        let across = (1..count).any(|i| {
            let size = self.operands[i].size as i64;
            outer[i] == size && inner[i] != size && inner[i] != 0
        });
        let length = match across && n1 >= TILE {
            // Tiles of such an operand are gathered line by line of the cache.
            true => n0.min(self.capacity / TILE),
            false => n0.min(self.capacity),
        };
        let rows = match n0 > length && !across {
            true => 1,
            false => (self.capacity / length.max(1)).clamp(1, n1.max(1)),
        };
        for row in (0..n1).step_by(rows) {
            for start in (0..n0).step_by(length.max(1)) {
                let part = RowGroup { length: length.min(n0 - start), rows: rows.min(n1 - row) };
                let moved = |i: usize| {
                    let offset = inner[i] * start as i64 + outer[i] * row as i64;
                    at[i].wrapping_offset(offset as isize)
                };
                // SAFETY: the part lies within the rows.
                unsafe { self.part(part, moved, inner, outer, &mut buffers) };
            }
        }
    }

    /// Elements in the order in which PyTorch writes and reads them, which shows where operands
    /// overlap: whole blocks, then one by one.
    ///
    /// # Safety
    /// As for [`rows`](Self::rows).
    #[cold]
    unsafe fn ordered(&self, at: &[*mut u8], strides: &[i64], n0: usize, n1: usize, run: usize) {
        let count = self.kernel.arity + 1;
        let (inner, outer) = strides.split_at(count);
        let mut buffers = Buffers::new(None);
        for row in 0..n1 {
            let mut start = 0;
            while start < n0 {
                let length = if n0 - start >= run { run } else { 1 };
                let moved = |i: usize| {
                    let offset = inner[i] * start as i64 + outer[i] * row as i64;
                    at[i].wrapping_offset(offset as isize)
                };
                // SAFETY: the part lies within the row.
                unsafe {
                    self.part(RowGroup { length, rows: 1 }, moved, inner, outer, &mut buffers);
                }
                start += length;
            }
        }
    }

    /// # Safety
    /// As for [`rows`](Self::rows), for the part's rows at `moved(operand)`.
    unsafe fn part(
        &self,
        part: RowGroup,
        moved: impl Fn(usize) -> *mut u8,
        inner: &[i64],
        outer: &[i64],
        buffers: &mut Buffers,
    ) {
        let count = self.kernel.arity + 1;
        let rows = |i: usize| Rows { at: moved(i), inner: inner[i], outer: outer[i] };
        let mut from = [Source { from: std::ptr::null(), fixed: true }; 3];
        for i in 1..count {
            // SAFETY: the caller's.
            from[i - 1] = unsafe { self.source(i, rows(i), part, buffers) };
        }
        let (target, total) = (self.operands[0], part.length * part.rows);
        let out = rows(0);
        let dense = total == 1 || part.is_dense(out, target.size);
        let nbytes = total * target.size;
        let stream = buffers.stream.as_ref().filter(|_| dense && nbytes >= SHORTEST_RUN);
        let direct = dense && stream.is_none() && target.conversion.is_none();
        let to = if direct { out.at } else { buffers.operands[0].start() };
        // SAFETY: operands are dense or single by now, and so is the target.
        unsafe { (self.kernel.inner_loop)(to, &from, &self.scalars, total) };
        if direct {
            return;
        }
        let mut ready = to.cast_const();
        if let Some(conversion) = target.conversion {
            let direct = dense && stream.is_none();
            let place = if direct { out.at } else { buffers.raw.start() };
            // SAFETY: both have room for a buffer's elements, and they are different.
            unsafe { conversion.run(ready, place, total) };
            ready = place;
        }
        // SAFETY: the caller's; who streams reads nothing of the output.
        unsafe {
            match stream {
                Some(stream) => stream.copy(ready, out.at, nbytes),
                None if !dense => scatter(target.size, ready, out, part.length, part.rows),
                None => {}
            }
        }
    }

    /// Operand `i` of a part, dense or one element, in the dtype of the computation.
    ///
    /// # Safety
    /// As for [`part`](Self::part).
    unsafe fn source(&self, i: usize, rows: Rows, part: RowGroup, buffers: &mut Buffers) -> Source {
        let Operand { size, conversion } = self.operands[i];
        let total = part.length * part.rows;
        let still = |stride: i64, n: usize| stride == 0 || n == 1;
        let fixed = still(rows.inner, part.length) && still(rows.outer, part.rows);
        let dense = fixed || part.is_dense(rows, size);
        let staged = buffers.operands[i].start();
        let mut ready = rows.at.cast_const();
        if !dense {
            let place = if conversion.is_some() { buffers.raw.start() } else { staged };
            // SAFETY: the caller's; the buffer has room for `total` elements.
            unsafe { gather(size, rows, place, part.length, part.rows) };
            ready = place;
        }
        if let Some(conversion) = conversion {
            // SAFETY: `ready` has that many elements, and the buffers are different.
            unsafe { conversion.run(ready, staged, if fixed { 1 } else { total }) };
            ready = staged;
        }
        Source { from: ready, fixed }
    }
}
