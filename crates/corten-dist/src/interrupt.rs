//! What may end a wait early: the user's Ctrl-C.

use std::sync::{Condvar, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use crate::error::{DistError, Result};

/// Asks whether the thread should stop waiting, and says why.
pub type Check = fn() -> Option<DistError>;

static CHECK: RwLock<Option<Check>> = RwLock::new(None);

/// Between two questions, a wait sleeps so long at most.
pub const SLICE: Duration = Duration::from_millis(50);

/// Has every wait of this crate ask `check` now and then. The Python binding looks for signals there.
pub fn set_check(check: Check) {
    *CHECK.write().unwrap_or_else(PoisonError::into_inner) = Some(check);
}

/// Asks whether to stop waiting.
///
/// # Errors
/// What the check says, for instance the exception `KeyboardInterrupt`.
pub fn check() -> Result<()> {
    let check = *CHECK.read().unwrap_or_else(PoisonError::into_inner);
    check.and_then(|check| check()).map_or(Ok(()), Err)
}

/// Waits until `ready` gives something or the deadline is over (`None`).
///
/// # Errors
/// Those of [`check`].
pub fn wait_until<'a, T, R>(
    condvar: &Condvar,
    mut guard: MutexGuard<'a, T>,
    deadline: Option<Instant>,
    mut ready: impl FnMut(&mut T) -> Option<R>,
) -> Result<(MutexGuard<'a, T>, Option<R>)> {
    loop {
        if let Some(result) = ready(&mut guard) {
            return Ok((guard, Some(result)));
        }
        let left = deadline.map(|end| end.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Ok((guard, None));
        }
        let slice = left.map_or(SLICE, |left| left.min(SLICE));
        guard = condvar.wait_timeout(guard, slice).unwrap_or_else(PoisonError::into_inner).0;
        check()?;
    }
}
