//! The packed reference count: pure logic, model-checked by `tests/loom.rs`.
//!
//! Note [Packed reference count]: bits 0..32 hold the strong count, bits 32..63 the weak count, bit
//! 63 says that a Python wrapper exists. All strong references together own one weak one. Two
//! separate counters would need a second locked instruction wherever an object dies.

use crate::sync::atomic::{AtomicU64, Ordering, fence};

const STRONG_ONE: u64 = 1;
const WEAK_ONE: u64 = 1 << 32;
const HAS_WRAPPER: u64 = 1 << 63;
const UNIQUE: u64 = STRONG_ONE | WEAK_ONE;
/// So many owners that an object is never freed.
pub(crate) const IMMORTAL: u64 = 0x0FFF_FFFF | (0x0FFF_FFFF << 32);

/// Strong and weak count and the wrapper bit of one object, in one word.
///
/// ```
/// use corten_core::Generator;
///
/// let generator = Generator::cpu(0);
/// let other = generator.clone();
/// assert_eq!(generator.as_intrusive().use_count(), 2);
/// drop(other);
/// ```
#[derive(Debug)]
pub struct RefCount(AtomicU64);

/// What the caller of [`RefCount::release`] must do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Released {
    /// Nothing: others hold the object.
    Alive,
    /// Give back the reference to the Python wrapper, which is now the only owner.
    WrapperOnly,
    /// Release the contents, then call `release_weak`.
    Contents,
    /// Delete the object.
    Dead,
}

/// What the caller of [`RefCount::try_upgrade`] got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Upgrade {
    /// A strong reference.
    Done,
    /// Nothing: the contents are gone.
    Gone,
    /// Nothing yet: the only owner is the Python wrapper, which must be kept alive first.
    NeedsWrapper,
}

/// More references than memory has room for: handles were forgotten on purpose, and a count that
/// runs over would free an object in use.
const MOST: u32 = 1 << 31;

#[cold]
fn too_many() -> ! {
    std::process::abort()
}

const fn strong(word: u64) -> u32 {
    word as u32
}

const fn weak(word: u64) -> u32 {
    ((word & !HAS_WRAPPER) >> 32) as u32
}

impl RefCount {
    /// One strong reference.
    #[inline]
    pub(crate) fn unique() -> Self {
        Self(AtomicU64::new(UNIQUE))
    }

    /// A count that starts at a given word.
    pub(crate) const fn starting_at(word: AtomicU64) -> Self {
        Self(word)
    }

    /// Adds a strong reference. Returns whether a reference to the Python wrapper must be added.
    #[inline]
    pub(crate) fn retain(&self) -> bool {
        self.count_strong(STRONG_ONE)
    }

    #[inline(always)]
    fn count_strong(&self, change: u64) -> bool {
        let before = self.0.fetch_add(change, Ordering::Relaxed);
        debug_assert!(strong(before) != 0, "retained a dead object");
        if strong(before) > MOST {
            too_many();
        }
        let needs_wrapper = before & HAS_WRAPPER != 0 && strong(before) == 1;
        if needs_wrapper {
            // The wrapper slot was stored before the bit.
            fence(Ordering::Acquire);
        }
        needs_wrapper
    }

    /// Takes a strong reference away.
    #[inline]
    pub(crate) fn release(&self) -> Released {
        // The sole owner needs no locked instruction: nobody else can change the word.
        if self.0.load(Ordering::Acquire) & !HAS_WRAPPER == UNIQUE {
            return Released::Dead;
        }
        let before = self.0.fetch_sub(STRONG_ONE, Ordering::AcqRel);
        match strong(before) {
            1 if weak(before) == 1 => Released::Dead,
            1 => Released::Contents,
            2 if before & HAS_WRAPPER != 0 => Released::WrapperOnly,
            _ => Released::Alive,
        }
    }

    /// Adds a weak reference.
    #[inline]
    pub(crate) fn retain_weak(&self) {
        if weak(self.0.fetch_add(WEAK_ONE, Ordering::Relaxed)) > MOST / 2 {
            too_many();
        }
    }

    /// Takes a weak reference away. Returns whether the object must be deleted.
    #[inline]
    pub(crate) fn release_weak(&self) -> bool {
        // The last reference of any kind needs no locked instruction, as in `release`.
        if self.0.load(Ordering::Acquire) & !HAS_WRAPPER == WEAK_ONE {
            return true;
        }
        weak(self.0.fetch_sub(WEAK_ONE, Ordering::AcqRel)) == 1
    }

    /// Starts over with one strong reference where whoever owns the last reference of any kind, a
    /// weak one, asks for it and gives it up. Returns whether that was so.
    #[inline]
    pub(crate) fn start_over(&self) -> bool {
        let last = self.0.load(Ordering::Acquire) == WEAK_ONE;
        if last {
            self.0.store(UNIQUE, Ordering::Relaxed);
        }
        last
    }

    /// Makes a strong reference of a weak one while somebody holds a strong one. Returns what
    /// [`retain`](Self::retain) does.
    #[inline]
    pub(crate) fn strengthen(&self) -> bool {
        self.count_strong(STRONG_ONE.wrapping_sub(WEAK_ONE))
    }

    /// Adds a strong or a weak reference where whoever has the only reference of any kind asks for
    /// it, exclusively: nobody else can change the word. Returns whether that was so.
    #[inline]
    pub(crate) fn add_to_sole(&self, weak: bool) -> bool {
        let sole = self.is_sole();
        if sole {
            self.0.store(UNIQUE + if weak { WEAK_ONE } else { STRONG_ONE }, Ordering::Relaxed);
        }
        sole
    }

    /// Tries to add a strong reference from a weak one. `wrapper_kept` says that the caller has
    /// just added a reference to the Python wrapper; then the wrapper's sole ownership is no
    /// obstacle, but any other state is (`NeedsWrapper` then means: undo it and start again).
    pub(crate) fn try_upgrade(&self, wrapper_kept: bool) -> Upgrade {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            if strong(word) == 0 {
                return Upgrade::Gone;
            }
            let wrapper_only = strong(word) == 1 && word & HAS_WRAPPER != 0;
            if wrapper_only != wrapper_kept {
                // The wrapper slot was stored before the bit.
                fence(Ordering::Acquire);
                return Upgrade::NeedsWrapper;
            }
            if strong(word) > MOST {
                too_many();
            }
            let next = word + STRONG_ONE;
            match self.0.compare_exchange_weak(word, next, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Upgrade::Done,
                Err(current) => word = current,
            }
        }
    }

    /// Tries to set the wrapper bit. `shared` says that the caller has just given the object a
    /// reference to its wrapper, as is due when someone besides the wrapper holds the object.
    /// Returns `false` if the count says otherwise.
    pub(crate) fn try_set_wrapper(&self, shared: bool) -> bool {
        let mut word = self.0.load(Ordering::Relaxed);
        while (strong(word) > 1) == shared {
            let next = word | HAS_WRAPPER;
            match self.0.compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(current) => word = current,
            }
        }
        false
    }

    /// Sets the wrapper bit where whoever has the only reference of any kind asks for it, as in
    /// [`add_to_sole`](Self::add_to_sole). Returns whether that was so.
    #[inline]
    pub(crate) fn set_wrapper_of_sole(&self) -> bool {
        let sole = self.is_sole();
        if sole {
            self.0.store(UNIQUE | HAS_WRAPPER, Ordering::Relaxed);
        }
        sole
    }

    /// [`clear_wrapper`](Self::clear_wrapper) where whoever has the only reference of any kind asks
    /// for it, as in [`add_to_sole`](Self::add_to_sole). Returns whether that was so.
    #[inline]
    pub(crate) fn clear_wrapper_of_sole(&self) -> bool {
        let sole = self.0.load(Ordering::Acquire) == UNIQUE | HAS_WRAPPER;
        if sole {
            self.0.store(UNIQUE, Ordering::Relaxed);
        }
        sole
    }

    /// Clears the wrapper bit. Returns whether the object held a reference to its wrapper, which
    /// the caller must then give back.
    pub(crate) fn clear_wrapper(&self) -> bool {
        let before = self.0.fetch_and(!HAS_WRAPPER, Ordering::AcqRel);
        before & HAS_WRAPPER != 0 && strong(before) > 1
    }

    /// Whether a Python wrapper exists.
    #[inline]
    pub(crate) fn has_wrapper(&self) -> bool {
        self.0.load(Ordering::Acquire) & HAS_WRAPPER != 0
    }

    /// How many strong references there are.
    #[inline]
    pub fn strong_count(&self) -> usize {
        strong(self.0.load(Ordering::Relaxed)) as usize
    }

    /// How many weak references there are, not counting the one that the strong ones own.
    pub fn weak_count(&self) -> usize {
        let word = self.0.load(Ordering::Relaxed);
        (weak(word) as usize).saturating_sub(usize::from(strong(word) > 0))
    }

    /// Whether there is one strong reference, no weak one and no wrapper: whoever borrows the
    /// handle exclusively has the object to itself.
    #[inline]
    pub(crate) fn is_sole(&self) -> bool {
        self.0.load(Ordering::Acquire) == UNIQUE
    }

    /// Whether there is exactly one strong reference.
    #[inline]
    pub fn is_unique(&self) -> bool {
        strong(self.0.load(Ordering::Acquire)) == 1
    }
}
