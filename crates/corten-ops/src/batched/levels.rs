//! The calls of `vmap` that are running on this thread.

use corten_core::tls::IncludeGuard;
use corten_core::{DispatchKey, KeySet, Result, bail, ensure};
use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};

/// What random operators do inside of `vmap`.
///
/// ```
/// use corten::ops::batched::Randomness;
///
/// assert_eq!(Randomness::from_name("same")?, Randomness::Same);
/// # Ok::<(), corten::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Randomness {
    /// They are errors.
    Error,
    /// Every item gets numbers of its own.
    Different,
    /// All items get the same numbers.
    Same,
}

impl Randomness {
    /// From its name in Python.
    ///
    /// # Errors
    /// `Runtime` for other names.
    pub fn from_name(name: &str) -> Result<Self> {
        Ok(match name {
            "error" => Self::Error,
            "different" => Self::Different,
            "same" => Self::Same,
            _ => bail!(
                Runtime,
                "Only allowed values for randomness are 'error', 'different', or 'same'. Got {name}"
            ),
        })
    }

    /// The name in Python.
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Different => "different",
            Self::Same => "same",
        }
    }
}

pub(super) struct Level {
    pub number: u64,
    pub size: i64,
    pub randomness: Randomness,
    _included: IncludeGuard,
}

#[derive(Default)]
struct Levels {
    open: Vec<Level>,
    /// How many of them, from the outermost on, calls can see: a kernel that handles a level calls
    /// operators on behalf of those outside of it.
    visible: usize,
}

/// Calls of `vmap` so far, by all threads, so that a tensor that left its call is told from those
/// of a later one.
static CALLS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static LEVELS: RefCell<Levels> = RefCell::default();
}

/// Opens a level on this thread for `size` items and returns its number.
pub fn enter(size: i64, randomness: Randomness) -> u64 {
    let number = CALLS.fetch_add(1, Ordering::Relaxed) + 1;
    let included = IncludeGuard::new(KeySet::of(&[DispatchKey::FuncTorchVmapMode]));
    LEVELS.with_borrow_mut(|levels| {
        levels.open.push(Level { number, size, randomness, _included: included });
        levels.visible = levels.open.len();
    });
    number
}

/// Closes a level.
///
/// # Errors
/// `Runtime` unless it was opened last.
pub fn exit(number: u64) -> Result<()> {
    let top = LEVELS.with_borrow_mut(|levels| {
        let is_last = levels.open.last().is_some_and(|level| level.number == number);
        let top = if is_last { levels.open.pop() } else { None };
        levels.visible = levels.visible.min(levels.open.len());
        top
    });
    ensure!(top.is_some(), Runtime, "vmap: level {number} is not the one that was opened last");
    Ok(())
}

/// The open levels that calls can see, with their sizes, the outermost first.
pub fn alive() -> Vec<(u64, i64)> {
    LEVELS.with_borrow(|levels| {
        let visible = levels.open.iter().take(levels.visible);
        visible.map(|level| (level.number, level.size)).collect()
    })
}

/// The number of items of an open level and what random operators do in it.
pub fn info(number: u64) -> Option<(i64, Randomness)> {
    LEVELS.with_borrow(|levels| {
        let level = levels.open.iter().find(|level| level.number == number)?;
        Some((level.size, level.randomness))
    })
}

/// Hides a level, and those inside of it, from calls; gives back what [`show`] takes.
pub fn hide(number: u64) -> usize {
    LEVELS.with_borrow_mut(|levels| {
        let before = levels.visible;
        let place = levels.open.iter().position(|level| level.number == number);
        levels.visible = place.unwrap_or(before);
        before
    })
}

/// Shows as many levels as before [`hide`].
pub fn show(count: usize) {
    LEVELS.with_borrow_mut(|levels| levels.visible = count.min(levels.open.len()));
}

/// How many levels there are up to this one, from 1; `None` when it is closed.
pub fn depth(number: u64) -> Option<usize> {
    LEVELS.with_borrow(|levels| {
        levels.open.iter().position(|level| level.number == number).map(|place| place + 1)
    })
}

/// The innermost level that calls can see.
pub(super) fn top() -> Option<(u64, i64, Randomness)> {
    LEVELS.with_borrow(|levels| {
        let level = levels.open.get(levels.visible.checked_sub(1)?)?;
        Some((level.number, level.size, level.randomness))
    })
}

/// Hides a level, and those inside of it, while it lives.
pub(super) struct Hidden {
    before: usize,
}

impl Hidden {
    pub(super) fn new(number: u64) -> Self {
        Self { before: hide(number) }
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        show(self.before);
    }
}
