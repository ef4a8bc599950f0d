//! Per-thread dispatch state: included and excluded keys, the gradient modes, and their guards.

use std::cell::Cell;
use std::marker::PhantomData;

use crate::keys::{ADINPLACEORVIEW, AUTOCAST_KEYS, AUTOGRAD_KEYS};
use crate::{DispatchKey, KeySet};

const DEFAULT_INCLUDE: KeySet =
    KeySet::of(&[DispatchKey::BackendSelect, DispatchKey::ADInplaceOrView]);
const DEFAULT_EXCLUDE: KeySet = AUTOCAST_KEYS;

const BELOW_ADINPLACEORVIEW: KeySet = AUTOGRAD_KEYS.union(ADINPLACEORVIEW);

const GRAD_MODE: u8 = 1;
const INFERENCE_MODE: u8 = 2;
const FW_GRAD_MODE: u8 = 4;
const MULTITHREADING: u8 = 8;
const VIEW_REPLAY: u8 = 16;
const GRAD_LAYOUT: u8 = 32;
const DEFAULT_MODES: u8 = GRAD_MODE | FW_GRAD_MODE | MULTITHREADING | GRAD_LAYOUT;

/// Everything of a thread that influences dispatch and recording. The backward engine and other
/// helper threads take over the state of the thread that they work for.
///
/// ```
/// use corten_core::tls;
///
/// let here = tls::thread_state();
/// let there = std::thread::spawn(move || {
///     let _guard = tls::ThreadStateGuard::new(here);
///     tls::thread_state().grad_mode()
/// });
/// assert!(there.join().is_ok_and(|recording| recording));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadState {
    include: KeySet,
    exclude: KeySet,
    modes: u8,
}

impl ThreadState {
    const DEFAULT: Self =
        Self { include: DEFAULT_INCLUDE, exclude: DEFAULT_EXCLUDE, modes: DEFAULT_MODES };

    /// Below autograd, automatic casts and every mode: for kernels that run after their caller has gone on.
    pub const BELOW_MODES: Self = Self {
        include: KeySet::of(&[DispatchKey::BackendSelect]),
        exclude: AUTOCAST_KEYS.union(BELOW_ADINPLACEORVIEW),
        modes: MULTITHREADING | GRAD_LAYOUT,
    };

    /// [`grad_mode_enabled`] in this state.
    #[inline]
    pub fn grad_mode(&self) -> bool {
        self.modes & GRAD_MODE != 0
    }

    /// [`inference_mode_enabled`] in this state.
    #[inline]
    pub fn inference_mode(&self) -> bool {
        self.modes & INFERENCE_MODE != 0
    }
}

/// One place for all that a recorded call asks its thread: finding a thread's locals is a call.
struct Local {
    state: Cell<ThreadState>,
    next_node: Cell<u64>,
}

thread_local! {
    static LOCAL: Local =
        const { Local { state: Cell::new(ThreadState::DEFAULT), next_node: Cell::new(0) } };
}

#[inline]
fn state() -> ThreadState {
    LOCAL.with(|local| local.state.get())
}

#[inline]
fn update(change: impl FnOnce(&mut ThreadState)) -> ThreadState {
    LOCAL.with(|local| local.update(change))
}

impl Local {
    #[inline(always)]
    fn update(&self, change: impl FnOnce(&mut ThreadState)) -> ThreadState {
        let before = self.state.get();
        let mut after = before;
        change(&mut after);
        self.state.set(after);
        before
    }

    /// Excludes keys. Returns those that were not excluded before.
    #[inline(always)]
    fn exclude(&self, keys: KeySet) -> KeySet {
        let before = self.update(|state| state.exclude |= keys);
        KeySet(keys.0 & !before.exclude.0)
    }

    #[inline(always)]
    fn stop_excluding(&self, keys: KeySet) {
        self.update(|state| state.exclude = KeySet(state.exclude.0 & !keys.0));
    }

    #[inline(always)]
    fn count_node(&self) -> u64 {
        let number = self.next_node.get();
        self.next_node.set(number + 1);
        number
    }
}

/// The number of the next node of this thread's graphs. Later nodes run first.
pub fn next_sequence_number() -> u64 {
    LOCAL.with(Local::count_node)
}

/// The number of the node of a call that is about to be recorded; none where nothing is: in no-grad
/// mode and below autograd.
#[inline]
pub fn sequence_number_if_recording() -> Option<u64> {
    LOCAL.with(|local| {
        let state = local.state.get();
        let records = state.modes & GRAD_MODE != 0 && (state.exclude & AUTOGRAD_KEYS).is_empty();
        records.then(|| local.count_node())
    })
}

/// Calls `body` below autograd and below the bookkeeping of views and versions: what
/// [`BelowADInplaceOrViewGuard`] does, for calls that come often.
#[inline]
pub fn below_adinplaceorview<R>(body: impl FnOnce() -> R) -> R {
    below_adinplaceorview_from(body).0
}

/// As [`below_adinplaceorview`]; also returns the state that it found.
#[inline]
pub fn below_adinplaceorview_from<R>(body: impl FnOnce() -> R) -> (R, ThreadState) {
    struct Restore<'a>(&'a Local, KeySet);
    impl Drop for Restore<'_> {
        #[inline(always)]
        fn drop(&mut self) {
            self.0.stop_excluding(self.1);
        }
    }
    LOCAL.with(|local| {
        let before = local.state.get();
        let _restore = Restore(local, local.exclude(BELOW_ADINPLACEORVIEW));
        (body(), before)
    })
}

/// The state of this thread.
pub fn thread_state() -> ThreadState {
    state()
}

/// Keys that take part in every call of this thread.
#[inline]
pub fn local_include() -> KeySet {
    state().include
}

/// Keys that take part in no call of this thread.
#[inline]
pub fn local_exclude() -> KeySet {
    state().exclude
}

/// The keys of a call whose arguments have the keys `keys`.
#[inline]
pub fn effective(keys: KeySet) -> KeySet {
    let state = state();
    (keys | state.include) - state.exclude
}

/// Includes or excludes keys in this thread until the guard that does so is no longer wanted:
/// the primitive below the guards, for languages that cannot scope them.
pub fn set_included(keys: KeySet, included: bool) {
    update(|state| {
        state.include = if included { state.include | keys } else { state.include - keys };
    });
}

/// See [`set_included`].
pub fn set_excluded(keys: KeySet, excluded: bool) {
    update(|state| {
        state.exclude = if excluded { state.exclude | keys } else { state.exclude - keys };
    });
}

/// Replaces the included and the excluded keys of this thread; returns those before.
///
/// ```
/// use corten_core::{DispatchKey, KeySet, tls};
///
/// let (include, exclude) = (tls::local_include(), tls::local_exclude());
/// let before = tls::replace_key_sets(include.with(DispatchKey::Tracer), exclude);
/// assert_eq!(before, (include, exclude));
/// tls::replace_key_sets(include, exclude);
/// ```
pub fn replace_key_sets(include: KeySet, exclude: KeySet) -> (KeySet, KeySet) {
    let before = update(|state| (state.include, state.exclude) = (include, exclude));
    (before.include, before.exclude)
}

macro_rules! modes {
    ($($(#[$doc:meta])* $get:ident $set:ident $bit:ident;)*) => {$(
        $(#[$doc])*
        #[inline]
        pub fn $get() -> bool {
            state().modes & $bit != 0
        }

        /// Sets the mode of the function of the same name and returns its old value.
        pub fn $set(enabled: bool) -> bool {
            let before = update(|state| {
                state.modes = if enabled { state.modes | $bit } else { state.modes & !$bit };
            });
            before.modes & $bit != 0
        }
    )*};
}

modes! {
    /// Whether calls of this thread are recorded for differentiation.
    grad_mode_enabled set_grad_mode GRAD_MODE;
    /// Whether tensors made by this thread are inference tensors.
    inference_mode_enabled set_inference_mode_bit INFERENCE_MODE;
    /// Whether forward-mode derivatives are computed by this thread.
    fw_grad_mode_enabled set_fw_grad_mode FW_GRAD_MODE;
    /// Whether backward passes started by this thread may use several threads.
    multithreading_enabled set_multithreading_enabled MULTITHREADING;
    /// Whether views are regenerated by replaying the view operator instead of `as_strided`.
    view_replay_enabled set_view_replay_enabled VIEW_REPLAY;
    /// Whether accumulated gradients follow the layout of their parameters.
    grad_layout_enforced set_grad_layout_enforced GRAD_LAYOUT;
}

/// Guards act on the thread that made them and must be dropped there.
type NotSend = PhantomData<*mut ()>;

/// Puts a whole state back when dropped.
///
/// ```
/// use corten_core::{grad_mode_enabled, set_grad_mode, tls};
///
/// let before = tls::thread_state();
/// set_grad_mode(false);
/// {
///     let _guard = tls::ThreadStateGuard::new(before);
///     assert!(grad_mode_enabled());
/// }
/// assert!(!grad_mode_enabled());
/// ```
#[must_use]
#[derive(Debug)]
pub struct ThreadStateGuard {
    before: ThreadState,
    thread: NotSend,
}

impl ThreadStateGuard {
    /// Makes `state` the state of this thread.
    pub fn new(state: ThreadState) -> Self {
        Self { before: update(|current| *current = state), thread: PhantomData }
    }
}

impl Drop for ThreadStateGuard {
    fn drop(&mut self) {
        update(|state| *state = self.before);
    }
}

/// Includes keys while it lives. Only keys that were not included before are taken back.
///
/// ```
/// use corten_core::{DispatchKey, IncludeGuard, KeySet, tls};
///
/// let _guard = IncludeGuard::new(KeySet::of(&[DispatchKey::Tracer]));
/// assert!(tls::local_include().has(DispatchKey::Tracer));
/// ```
#[must_use]
#[derive(Debug)]
pub struct IncludeGuard {
    added: KeySet,
    thread: NotSend,
}

impl IncludeGuard {
    /// Includes `keys`.
    pub fn new(keys: KeySet) -> Self {
        let before = update(|state| state.include |= keys);
        Self { added: KeySet(keys.0 & !before.include.0), thread: PhantomData }
    }
}

impl Drop for IncludeGuard {
    fn drop(&mut self) {
        update(|state| state.include = KeySet(state.include.0 & !self.added.0));
    }
}

/// Excludes keys while it lives. Only keys that were not excluded before are taken back.
///
/// ```
/// use corten_core::{AUTOCAST_KEYS, DispatchKey, ExcludeGuard, tls};
///
/// let _guard = ExcludeGuard::new(AUTOCAST_KEYS);
/// assert!(tls::local_exclude().has(DispatchKey::AutocastCPU));
/// ```
#[must_use]
#[derive(Debug)]
pub struct ExcludeGuard {
    added: KeySet,
    thread: NotSend,
}

impl ExcludeGuard {
    /// Excludes `keys`.
    #[inline]
    pub fn new(keys: KeySet) -> Self {
        Self { added: LOCAL.with(|local| local.exclude(keys)), thread: PhantomData }
    }
}

impl Drop for ExcludeGuard {
    #[inline]
    fn drop(&mut self) {
        LOCAL.with(|local| local.stop_excluding(self.added));
    }
}

/// Sends calls below autograd while it lives: nothing is recorded.
///
/// ```
/// use corten_core::{AUTOGRAD_KEYS, BelowAutogradGuard, tls};
///
/// let _guard = BelowAutogradGuard::new();
/// assert_eq!(tls::local_exclude().0 & AUTOGRAD_KEYS.0, AUTOGRAD_KEYS.0);
/// ```
#[must_use]
#[derive(Debug)]
pub struct BelowAutogradGuard(#[allow(dead_code)] ExcludeGuard);

impl BelowAutogradGuard {
    /// Excludes every autograd key.
    #[inline]
    pub fn new() -> Self {
        Self(ExcludeGuard::new(AUTOGRAD_KEYS))
    }
}

impl Default for BelowAutogradGuard {
    fn default() -> Self {
        Self::new()
    }
}

/// Sends calls below autograd and below the bookkeeping of views and versions while it lives.
///
/// ```
/// use corten_core::{BelowADInplaceOrViewGuard, DispatchKey, tls};
///
/// let _guard = BelowADInplaceOrViewGuard::new();
/// assert!(tls::local_exclude().has(DispatchKey::ADInplaceOrView));
/// ```
#[must_use]
#[derive(Debug)]
pub struct BelowADInplaceOrViewGuard(#[allow(dead_code)] ExcludeGuard);

impl BelowADInplaceOrViewGuard {
    /// Excludes every autograd key and `ADInplaceOrView`.
    #[inline]
    pub fn new() -> Self {
        Self(ExcludeGuard::new(BELOW_ADINPLACEORVIEW))
    }
}

impl Default for BelowADInplaceOrViewGuard {
    fn default() -> Self {
        Self::new()
    }
}

/// Turns recording on or off while it lives.
///
/// ```
/// use corten_core::{GradModeGuard, grad_mode_enabled};
///
/// {
///     let _guard = GradModeGuard::new(false);
///     assert!(!grad_mode_enabled());
/// }
/// assert!(grad_mode_enabled());
/// ```
#[must_use]
#[derive(Debug)]
pub struct GradModeGuard {
    before: bool,
    thread: NotSend,
}

impl GradModeGuard {
    /// Sets the grad mode.
    pub fn new(enabled: bool) -> Self {
        Self { before: set_grad_mode(enabled), thread: PhantomData }
    }
}

impl Drop for GradModeGuard {
    fn drop(&mut self) {
        set_grad_mode(self.before);
    }
}

/// Turns inference mode on or off while it lives: no recording, no versions, no view tracking.
///
/// ```
/// use corten_core::{InferenceModeGuard, inference_mode_enabled};
///
/// let _guard = InferenceModeGuard::new(true);
/// assert!(inference_mode_enabled());
/// ```
#[must_use]
#[derive(Debug)]
pub struct InferenceModeGuard(#[allow(dead_code)] ThreadStateGuard);

impl InferenceModeGuard {
    /// Enters (or, with `false`, leaves) inference mode.
    pub fn new(enabled: bool) -> Self {
        let mut state = thread_state();
        let gradients = GRAD_MODE | FW_GRAD_MODE | MULTITHREADING;
        if enabled {
            state.modes = (state.modes & !gradients) | INFERENCE_MODE;
            // The key stays out of the excluded set: normal tensors still bump their versions.
            state.include = state.include - ADINPLACEORVIEW;
            state.exclude |= AUTOGRAD_KEYS;
        } else {
            state.modes = (state.modes | gradients) & !INFERENCE_MODE;
            state.include |= ADINPLACEORVIEW;
            state.exclude = state.exclude - AUTOGRAD_KEYS;
        }
        Self(ThreadStateGuard::new(state))
    }
}
