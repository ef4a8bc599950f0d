//! Access to the contents of storages.
//!
//! A kernel takes what its operands need at once: every storage once, in the strongest mode asked
//! for. Several may read or one may write. A conflict with an access that the same thread already
//! holds is an error, since waiting would never end; a conflict with another thread waits. How it
//! works is in `README.md` beside this file.

mod accessor;
mod blocks;
mod cell;
mod enter;
mod guard;
mod packed;
mod protocol;
mod record;
mod set;
mod small_copy;
mod spinlock;

pub use accessor::{TensorAccessor, TensorAccessorMut};
pub use blocks::{Blocks, WantedBlock};
pub use cell::BriefCell;
pub(crate) use enter::{Hold, with_published};
pub use guard::{Reader, Writer};
pub use packed::{ElementIndex, LeadingRows, PackedTensorAccessor, PackedTensorAccessorMut};
pub(crate) use protocol::AccessState;
pub(crate) use record::{lock_for_fork, retire, slots, withdraw_other_threads};
pub use set::{AccessSet, HeldPlace, Holds};

/// What an operand is used for.
///
/// ```
/// use corten_core::{Access, AccessSet, TensorBase, TensorOptions};
///
/// let x = TensorBase::empty(&[3], TensorOptions::default())?;
/// let reading = AccessSet::acquire(&[(&x, Access::Read)])?;
/// assert!(AccessSet::acquire(&[(&x, Access::Write)]).is_err(), "this thread reads it");
/// drop(reading);
/// # Ok::<(), corten_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// The contents are read.
    Read,
    /// The contents are written, and perhaps read.
    Write,
}

impl Access {
    #[inline]
    const fn flag(self) -> usize {
        match self {
            Self::Read => 0,
            Self::Write => protocol::WRITE,
        }
    }
}
