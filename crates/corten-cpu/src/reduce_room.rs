//! Room on the stack for what reductions work with.

use std::mem::MaybeUninit;

/// Bytes per buffer of converted or gathered elements.
pub(crate) const BUFFER: usize = 4096;

/// Room for the states of neighbouring columns.
pub(crate) struct States([MaybeUninit<u128>; Self::BYTES / 16]);

impl States {
    pub(crate) const BYTES: usize = 8192;

    #[inline(always)]
    pub(crate) fn new() -> Self {
        Self([MaybeUninit::uninit(); Self::BYTES / 16])
    }

    /// As many states, all with the value.
    #[inline(always)]
    pub(crate) fn filled<T: Copy>(&mut self, count: usize, value: T) -> &mut [T] {
        const { assert!(align_of::<T>() <= align_of::<u128>()) };
        let most = Self::BYTES / size_of::<T>().max(1);
        let first = self.0.as_mut_ptr().cast::<MaybeUninit<T>>();
        // SAFETY: the room is large and aligned enough for as many elements, which need no value yet.
        filled(unsafe { std::slice::from_raw_parts_mut(first, count.min(most)) }, value)
    }
}

/// The room with the value everywhere.
#[inline(always)]
pub(crate) fn filled<T: Copy>(room: &mut [MaybeUninit<T>], value: T) -> &mut [T] {
    room.fill(MaybeUninit::new(value));
    // SAFETY: all elements have just been written.
    unsafe { &mut *(std::ptr::from_mut(room) as *mut [T]) }
}

/// Room for gathered and for converted elements.
pub(crate) struct Staging {
    pub(crate) raw: [MaybeUninit<u128>; BUFFER / 16],
    pub(crate) wide: [MaybeUninit<u128>; BUFFER / 16],
}

impl Staging {
    #[inline(always)]
    pub(crate) fn new() -> Self {
        Self {
            raw: [MaybeUninit::uninit(); BUFFER / 16],
            wide: [MaybeUninit::uninit(); BUFFER / 16],
        }
    }
}

/// Bytes of slices that are turned together.
pub(crate) const TURNED: usize = 16384;

/// Room for turned slices, before and after conversion.
pub(crate) struct Turned {
    pub(crate) raw: [MaybeUninit<u128>; TURNED / 16],
    pub(crate) wide: [MaybeUninit<u128>; TURNED / 16],
}

impl Turned {
    #[inline(always)]
    pub(crate) fn new() -> Self {
        Self {
            raw: [MaybeUninit::uninit(); TURNED / 16],
            wide: [MaybeUninit::uninit(); TURNED / 16],
        }
    }
}
