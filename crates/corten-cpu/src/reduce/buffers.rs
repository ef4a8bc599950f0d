//! Room on the stack for what reductions work with.

use std::mem::MaybeUninit;

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

/// Room for gathered and for converted elements: as many units of 16 bytes for either.
pub(crate) struct Staging<const UNITS: usize> {
    pub(crate) raw: [MaybeUninit<u128>; UNITS],
    pub(crate) wide: [MaybeUninit<u128>; UNITS],
}

impl<const UNITS: usize> Staging<UNITS> {
    pub(crate) const BYTES: usize = 16 * UNITS;

    #[inline(always)]
    pub(crate) fn new() -> Self {
        Self { raw: [MaybeUninit::uninit(); UNITS], wide: [MaybeUninit::uninit(); UNITS] }
    }
}

/// Room for a run of elements.
pub(crate) type RunRoom = Staging<256>;

/// Room for slices that are turned together.
pub(crate) type TurnedRoom = Staging<1024>;
