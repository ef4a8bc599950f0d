//! Copying parts of factors into the order in which tiles read them, and tiles of a turned result
//! to where they belong.

use crate::register::{MOST_LANES, MOST_TURNED, Register};
use crate::tile::{MOST_COLS, Sealed, put};

/// Lines of elements that lie side by side.
#[derive(Clone, Copy)]
pub(crate) struct Lines<P> {
    /// The first element.
    pub first: P,
    /// From one line to the next.
    pub stride: isize,
    /// How many there are.
    pub count: usize,
    /// The elements of each.
    pub len: usize,
}

/// The moves of an instruction set.
pub(crate) struct Moves<E> {
    /// The elements that the lines of the other moves are filled up to are a multiple of this.
    pub lanes: usize,
    /// Copies lines to lines `width` apart, and zeros to what is left of these.
    ///
    /// # Safety
    /// The lines must be readable, `to` writable for as many lines of `width`, a multiple of the
    /// lanes that no line is longer than, and the processor must have the instructions.
    pub copy: unsafe fn(Lines<*const E>, to: *mut E, width: usize),
    /// Writes element `j` of line `i` to place `i` of line `j`; the lines written are `width`
    /// apart. What is left of them holds copies of other elements.
    ///
    /// # Safety
    /// As for `copy`, with lines for elements.
    pub turn: unsafe fn(Lines<*const E>, to: *mut E, width: usize),
    /// `to = beta * to + from`, turned: element `j` of line `i` is for place `i` of line `j`.
    ///
    /// # Safety
    /// `from` must be readable and hold at most [`MOST_LANES`] lines of [`MOST_COLS`] elements,
    /// `to` readable and writable, and the processor must have the instructions.
    pub put_turned: unsafe fn(from: Lines<*const E>, to: Lines<*mut E>, beta: Option<E>),
}

#[inline(always)]
unsafe fn copy<V: Register>(from: Lines<*const V::Elem>, to: *mut V::Elem, width: usize) {
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
                V::load_some(line.wrapping_add(at), rest).store(to.add(at));
            }
            line = line.wrapping_offset(from.stride);
            to = to.wrapping_add(width);
        }
    }
}

#[inline(always)]
unsafe fn turn<V: Register>(from: Lines<*const V::Elem>, to: *mut V::Elem, width: usize) {
    let in_pieces = from.len / V::TURNED * V::TURNED;
    for first in (0..from.count).step_by(V::LANES) {
        let line = |i: usize| (first + i).min(from.count - 1) as isize * from.stride;
        let lines: [_; MOST_LANES] = std::array::from_fn(|i| from.first.wrapping_offset(line(i)));
        let mut to = to.wrapping_add(first);
        for at in (0..in_pieces).step_by(V::TURNED) {
            // SAFETY: the caller's: the lines have so many elements.
            let columns = unsafe { V::turn(&lines, at) };
            for &column in columns.iter().take(V::TURNED) {
                // SAFETY: the caller's: `width` is a multiple of the lanes.
                unsafe { column.store(to) };
                to = to.wrapping_add(width);
            }
        }
        for at in in_pieces..from.len {
            for (i, line) in lines.iter().enumerate().take(V::LANES) {
                // SAFETY: as above.
                unsafe { *to.add(i) = *line.add(at) };
            }
            to = to.wrapping_add(width);
        }
    }
}

#[inline(always)]
unsafe fn put_turned<V: Register>(
    from: Lines<*const V::Elem>,
    to: Lines<*mut V::Elem>,
    beta: Option<V::Elem>,
) {
    let mut turned = [V::Elem::ZERO; MOST_LANES * MOST_COLS];
    let beta = beta.map(V::splat);
    // SAFETY: there is room for the most lines and elements, and the caller's.
    unsafe { turn::<V>(from, turned.as_mut_ptr(), MOST_LANES) };
    for (i, line) in turned.chunks_exact(MOST_LANES).enumerate().take(to.count) {
        let place = to.first.wrapping_offset(i as isize * to.stride);
        for at in (0..to.len).step_by(V::LANES) {
            let width = (to.len - at).min(V::LANES);
            // SAFETY: a line holds whole registers; the caller's for `to`.
            unsafe { put(place.wrapping_add(at), width, V::load(line[at..].as_ptr()), beta) };
        }
    }
}

/// The moves for each level: the same text, compiled with the level's instructions.
macro_rules! compiled {
    ($($name:ident $(with $features:literal)?;)+) => {$(
        pub(crate) mod $name {
            use super::{Lines, Moves};
            use crate::register::Register;

            /// # Safety
            /// As for [`Moves::copy`].
            $(#[target_feature(enable = $features)])?
            unsafe fn copy<V: Register>(from: Lines<*const V::Elem>, to: *mut V::Elem, width: usize) {
                // SAFETY: the caller's.
                unsafe { super::copy::<V>(from, to, width) }
            }

            /// # Safety
            /// As for [`Moves::turn`].
            $(#[target_feature(enable = $features)])?
            unsafe fn turn<V: Register>(from: Lines<*const V::Elem>, to: *mut V::Elem, width: usize) {
                // SAFETY: the caller's.
                unsafe { super::turn::<V>(from, to, width) }
            }

            /// # Safety
            /// As for [`Moves::put_turned`].
            $(#[target_feature(enable = $features)])?
            unsafe fn put_turned<V: Register>(
                from: Lines<*const V::Elem>,
                to: Lines<*mut V::Elem>,
                beta: Option<V::Elem>,
            ) {
                // SAFETY: the caller's.
                unsafe { super::put_turned::<V>(from, to, beta) }
            }

            /// The moves of a register.
            pub(crate) const fn moves<V: Register>() -> Moves<V::Elem> {
                Moves {
                    lanes: V::LANES,
                    copy: copy::<V>,
                    turn: turn::<V>,
                    put_turned: put_turned::<V>,
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
}

const _: () = assert!(MOST_TURNED <= MOST_LANES);
