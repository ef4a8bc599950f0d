//! What a node saved: tensors behind a lock, since they may be freed while others read, and where
//! each slot lies.

use crate::inline_vec::InlineVec;
use crate::saved::Saved;
use corten_core::Result;
use corten_ops::IValue;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// The tensors and lists of tensors that a node saved.
pub(crate) type SavedSlots = InlineVec<Saved, 2>;

/// The tensors a node saved.
///
/// Note [Saved tensors and foreign locks]: cloning a handle may need the lock of a foreign
/// language (its wrapper gains a reference), and a thread that holds that lock may want to read
/// the same slots. So readers share the lock, and freeing never waits: it raises the flag, and
/// whoever finds the flag up and the lock free empties the slots.
pub(crate) struct SavedState {
    slots: RwLock<SavedSlots>,
    released: AtomicBool,
}

impl SavedState {
    #[inline(always)]
    pub(crate) fn new() -> Self {
        Self { slots: RwLock::new(InlineVec::default()), released: AtomicBool::new(false) }
    }

    pub(crate) fn slots_mut(&mut self) -> &mut SavedSlots {
        self.slots.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, SavedSlots> {
        self.slots.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The slots, unless somebody changes them.
    pub(crate) fn try_read(&self) -> Option<RwLockReadGuard<'_, SavedSlots>> {
        self.slots.try_read().ok()
    }

    /// Changes the slots of a node that is still being recorded.
    pub(crate) fn patch(&self, change: impl FnOnce(&mut SavedSlots)) {
        change(&mut self.slots.write().unwrap_or_else(PoisonError::into_inner));
    }

    fn is_released(&self) -> bool {
        self.released.load(Ordering::Acquire)
    }

    pub(crate) fn release(&self) {
        self.released.store(true, Ordering::Release);
        // Freed after the lock is gone: the last handle to a tensor may run foreign code.
        let slots = match self.slots.try_write() {
            Ok(mut slots) => std::mem::take(&mut *slots),
            Err(_) => InlineVec::default(),
        };
        drop(slots);
    }

    pub(crate) fn get(&self, place: usize) -> Result<Option<Saved>> {
        if self.is_released() {
            return Err(crate::saved::freed_graph());
        }
        let slot = self.read().get(place).cloned();
        if self.is_released() {
            self.release();
        }
        Ok(slot)
    }
}

/// Where what a node saved lies: its slots number the tensors and the values together.
#[derive(Clone, Copy)]
pub(crate) struct SavedLayout {
    count: u8,
    /// The slots of tensors and lists of tensors that were saved.
    tensors: u32,
    /// The slots of values. Those in both sets hold what takes no room: the number one, or what is
    /// true.
    values: u32,
}

/// What a slot at [`SlotLocation::One`] holds.
pub(crate) static ONE: IValue = IValue::Int(1);

/// Where one slot lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotLocation {
    /// Among the tensors.
    Tensor(usize),
    /// Among the values.
    Value(usize),
    /// Nowhere: it is the number one, or what it says is true.
    One,
    /// Nowhere: no gradient that is wanted needs the tensor, or what it says is false.
    Nothing,
}

impl SavedLayout {
    /// More slots than any operator has; the generator refuses a recipe that saves more.
    const MOST: usize = u32::BITS as usize;

    pub(crate) const fn new() -> Self {
        Self { count: 0, tensors: 0, values: 0 }
    }

    /// The number of slots that were taken so far.
    fn count(self) -> usize {
        usize::from(self.count)
    }

    #[inline(always)]
    fn next(&mut self) -> u32 {
        let bit = 1_u32.wrapping_shl(self.count.into());
        self.count += 1;
        bit
    }

    #[inline(always)]
    pub(crate) fn add_tensor(&mut self) {
        self.tensors |= self.next();
    }

    #[inline(always)]
    pub(crate) fn add_value(&mut self) {
        self.values |= self.next();
    }

    #[inline(always)]
    pub(crate) fn add_one(&mut self) {
        let bit = self.next();
        self.tensors |= bit;
        self.values |= bit;
    }

    #[inline(always)]
    pub(crate) fn add_nothing(&mut self) {
        self.next();
    }

    /// Where slot `slot` lies; none if there is no such slot.
    pub(crate) fn of(self, slot: usize) -> Option<SlotLocation> {
        if slot >= self.count().min(Self::MOST) {
            return None;
        }
        let bit = 1_u32 << slot;
        let before = |slots: u32| (slots & (bit - 1)).count_ones() as usize;
        Some(match (self.tensors & bit != 0, self.values & bit != 0) {
            (true, true) => SlotLocation::One,
            (true, false) => SlotLocation::Tensor(before(self.tensors & !self.values)),
            (false, true) => SlotLocation::Value(before(self.values & !self.tensors)),
            (false, false) => SlotLocation::Nothing,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_and_values_are_numbered_apart() {
        let mut places = SavedLayout::new();
        places.add_value();
        places.add_tensor();
        places.add_nothing();
        places.add_tensor();
        places.add_value();
        let found: Vec<Option<SlotLocation>> = (0..6).map(|slot| places.of(slot)).collect();
        let expected = [
            Some(SlotLocation::Value(0)),
            Some(SlotLocation::Tensor(0)),
            Some(SlotLocation::Nothing),
            Some(SlotLocation::Tensor(1)),
            Some(SlotLocation::Value(1)),
            None,
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn what_takes_no_room_is_not_counted() {
        let mut places = SavedLayout::new();
        places.add_one();
        places.add_tensor();
        places.add_one();
        places.add_value();
        let found: Vec<Option<SlotLocation>> = (0..4).map(|slot| places.of(slot)).collect();
        let expected =
            [SlotLocation::One, SlotLocation::Tensor(0), SlotLocation::One, SlotLocation::Value(0)]
                .map(Some);
        assert_eq!(found, expected);
    }

    #[test]
    fn the_last_slot_that_can_be_numbered_is_found() {
        let mut places = SavedLayout::new();
        (0..SavedLayout::MOST).for_each(|_| places.add_tensor());
        assert_eq!(
            places.of(SavedLayout::MOST - 1),
            Some(SlotLocation::Tensor(SavedLayout::MOST - 1))
        );
        assert_eq!(places.of(SavedLayout::MOST), None);
    }
}
