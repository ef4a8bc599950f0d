//! Views whose autograd state is a few bits.
//!
//! Note [Compact views]: nearly all that autograd must know of a view that no graph was recorded for
//! is its base. The base keeps the version counter, which the view refers to anyway. So such a
//! view has no state on the heap: that reference becomes a strong one, and the word of flags says
//! that the tensor is a view, whether it was made without recording, and at which version. Whoever
//! asks for the state gets a full one, made then; the questions that every operator asks of its
//! arguments are answered without. A state of its own was a fifth of the cost of a small view.

use std::mem::ManuallyDrop;
use std::sync::atomic::Ordering;

use super::autograd_meta::{FullView, make_view_meta};
use super::base::{Info, TensorImpl};
use super::{AutogradMeta, TensorBase};
use crate::{IntrusivePtr, fast_paths};

const VERSION_SHIFT: u32 = 48;

impl TensorBase {
    /// Makes this tensor, a view of `source`'s elements that was just made, a compact view of what
    /// `source` is a compact view of, or of `source` itself. `unrecorded` says that it was made while
    /// nothing was recorded. Returns whether that was possible: nobody else may know the tensor
    /// yet, and it must count its changes on that base.
    ///
    /// Whether `source` has a state that says more of views is the caller's to check.
    #[inline]
    pub fn become_compact_view(&mut self, source: &Self, unrecorded: bool) -> bool {
        let version = self.version.current();
        if !fast_paths() || !self.is_fresh() || version > u32::from(u16::MAX) {
            return false;
        }
        let of_compact = source.info().has(Info::BRIEF_VIEW);
        // Sparse tensors say so by this flag: what is made of one shares no memory with it as a whole.
        if source.info().has(Info::STORAGE_THROWS) {
            return false;
        }
        let unrecorded = unrecorded || of_compact && source.info().has(Info::MADE_UNRECORDED);
        // SAFETY: this is the only reference of any kind, and it is borrowed exclusively.
        let tensor = unsafe { &mut *self.0.as_ptr() };
        if !tensor.version.strengthen(&source.0) {
            return false;
        }
        let made = if unrecorded { Info::MADE_UNRECORDED } else { 0 };
        *tensor.info.get_mut() |= Info::BRIEF_VIEW | made | u64::from(version) << VERSION_SHIFT;
        true
    }
}

impl TensorImpl {
    /// Whether the tensor is a view whose autograd state was not made yet.
    #[inline]
    pub fn is_compact_view(&self) -> bool {
        self.info().0 & (Info::BRIEF_VIEW | Info::HAS_AUTOGRAD) == Info::BRIEF_VIEW
    }

    /// What `ask` makes of the base of a [compact view](Self::is_compact_view).
    #[inline]
    pub fn of_compact_base<R>(&self, ask: impl FnOnce(&TensorBase) -> R) -> Option<R> {
        if self.is_compact_view() { self.of_kept_base(ask) } else { None }
    }

    /// What `ask` makes of the tensor that this one owns because it was made as a compact view of it;
    /// the full autograd state that it may have by now owns the base once more.
    #[inline]
    pub fn of_kept_base<R>(&self, ask: impl FnOnce(&TensorBase) -> R) -> Option<R> {
        let base = self.version.strong_keeper()?;
        // SAFETY: the slot holds a strong reference as long as the tensor lives; this handle is not
        // dropped.
        let base = ManuallyDrop::new(TensorBase(unsafe { IntrusivePtr::from_raw(base) }));
        Some(ask(&base))
    }

    /// The autograd state of a compact view, made now unless another thread has just done it.
    #[cold]
    pub(super) fn full_view_state(&self) -> Option<&dyn AutogradMeta> {
        let info = self.info.load(Ordering::Acquire);
        if info & Info::HAS_AUTOGRAD == 0 {
            let base = self.of_compact_base(TensorBase::clone)?;
            let unrecorded = info & Info::MADE_UNRECORDED != 0;
            let version = (info >> VERSION_SHIFT) as u32;
            self.install_autograd_meta(make_view_meta(FullView { base, version, unrecorded }));
        }
        self.installed_autograd_meta()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DType, Result};

    fn viewed(base: &TensorBase) -> TensorBase {
        base.view_in_order(&[6]).expect("the order is kept")
    }

    #[test]
    fn a_compact_view_keeps_its_base() -> Result<()> {
        let base = TensorBase::empty(&[2, 3], DType::Float32)?;
        let mut view = viewed(&base);
        assert!(!view.is_compact_view() && view.of_compact_base(TensorBase::use_count).is_none());
        assert!(view.become_compact_view(&base, false));
        assert!(view.is_compact_view() && view.shares_version_with(&base));
        assert_eq!(base.use_count(), 2);
        let weak = base.downgrade();
        drop(base);
        let mut inner = view.view_of_range(0, 1, 2, 1).expect("there are these positions");
        assert!(inner.become_compact_view(&view, true), "a view of a view is one of the base");
        assert_eq!(weak.upgrade().map(|base| base.use_count()), Some(3));
        drop(view);
        assert_eq!(inner.of_compact_base(TensorBase::use_count), Some(1));
        let remembered = inner.downgrade();
        drop(inner);
        assert!(weak.upgrade().is_none(), "a weak reference to the view keeps no base");
        drop(remembered);
        Ok(())
    }

    #[test]
    fn only_new_views_are_compact() -> Result<()> {
        let base = TensorBase::empty(&[2, 3], DType::Float32)?;
        let mut own = TensorBase::empty(&[6], DType::Float32)?;
        assert!(!own.become_compact_view(&base, false), "it counts for itself");
        let mut known = viewed(&base);
        let other = known.clone();
        assert!(!known.become_compact_view(&base, false), "somebody else knows it");
        drop(other);
        let mut detached = base.alias()?;
        let mut view = viewed(&detached);
        assert!(!view.become_compact_view(&detached, false), "the counter is elsewhere");
        assert!(!detached.become_compact_view(&own, false), "it is no view of that");
        for _ in 0..1 << 16 {
            base.bump_version();
        }
        assert!(!viewed(&base).become_compact_view(&base, false), "the version has no room");
        Ok(())
    }

    #[test]
    fn a_full_state_is_made_once() -> Result<()> {
        let base = TensorBase::empty(&[2, 3], DType::Float32)?;
        let mut view = viewed(&base);
        assert!(view.become_compact_view(&base, false));
        let states: Vec<usize> = std::thread::scope(|scope| {
            let ask = || view.autograd_meta().map(|meta| std::ptr::from_ref(meta).addr());
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
            threads.into_iter().filter_map(|thread| thread.join().ok().flatten()).collect()
        });
        assert!(states.len() == 4 && states.iter().all(|state| *state == states[0]));
        assert!(!view.is_compact_view() && view.shares_version_with(&base));
        Ok(())
    }
}
