//! What kernels find wrong with their data: an index out of bounds.
//!
//! A kernel that would have to touch memory outside of a tensor does not, and writes the number of what
//! it found to a word of pinned memory. The word is looked at when the host has waited for the device;
//! then the error is raised, once.

use crate::device::{MOST_DEVICES, bound};
use crate::driver::{RelaxedCapture, driver, error};
use corten_core::{Error, Result};
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// An index is not within its dimension.
pub(crate) const INDEX_OUT_OF_BOUNDS: u32 = 1;

/// A number that should be a probability is not within 0..=1.
pub(crate) const NO_PROBABILITY: u32 = 2;

/// A rate of a Poisson distribution is negative, infinite or no number.
pub(crate) const NO_RATE: u32 = 3;

/// Mapped into the device's addresses (CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP).
const MAPPED: u32 = 3;

#[derive(Clone, Copy)]
struct Word {
    host: &'static AtomicU32,
    device: u64,
}

static WORDS: [OnceLock<Word>; MOST_DEVICES] = [const { OnceLock::new() }; MOST_DEVICES];

/// The address of a device's word for kernels.
///
/// # Errors
/// Those of the driver.
pub(crate) fn address(device: i8) -> Result<u64> {
    let place = &WORDS[device as usize];
    if let Some(word) = place.get() {
        return Ok(word.device);
    }
    bound(device)?;
    let driver = driver()?;
    let _relaxed = RelaxedCapture::new(driver);
    let (mut host, mut address): (*mut c_void, u64) = (std::ptr::null_mut(), 0);
    // SAFETY: the driver writes an address each; the memory is never freed.
    unsafe {
        error::check(driver, (driver.cuMemHostAlloc)(&mut host, 64, MAPPED))?;
        host.cast::<u32>().write(0);
        error::check(driver, (driver.cuMemHostGetDevicePointer_v2)(&mut address, host, 0))?;
    }
    // SAFETY: the memory is aligned, is never freed, and everybody touches it atomically from here on.
    let host = unsafe { &*host.cast::<AtomicU32>() };
    Ok(place.get_or_init(|| Word { host, device: address }).device)
}

/// Makes the error of a device whose results must not be used.
pub type FailureReport = Box<dyn FnOnce() -> Error + Send>;

static REPORTS: Mutex<Vec<(i8, FailureReport)>> = Mutex::new(Vec::new());
static HAS_REPORTS: AtomicBool = AtomicBool::new(false);

/// Has the next call that waits for a device fail: work that it was given did not end well, as when
/// a collective was aborted, and its memory holds no results.
pub fn report_failure(device: i8, report: FailureReport) {
    let mut reports = REPORTS.lock().unwrap_or_else(PoisonError::into_inner);
    reports.push((device, report));
    HAS_REPORTS.store(true, Ordering::Release);
}

/// The first report of a device. Later ones have the same cause and go with it.
fn take_report(device: i8) -> Option<FailureReport> {
    let mut reports = REPORTS.lock().unwrap_or_else(PoisonError::into_inner);
    let (own, others) =
        std::mem::take(&mut *reports).into_iter().partition(|(of, _)| *of == device);
    *reports = others;
    HAS_REPORTS.store(!reports.is_empty(), Ordering::Release);
    let own: Vec<(i8, FailureReport)> = own;
    own.into_iter().next().map(|(_, report)| report)
}

/// Raises what kernels of a device have found, after the host has waited for them.
///
/// # Errors
/// `Accelerator` in PyTorch's words.
pub(crate) fn check(device: i8) -> Result<()> {
    if HAS_REPORTS.load(Ordering::Acquire)
        && let Some(report) = take_report(device)
    {
        return Err(report());
    }
    let Some(word) = WORDS.get(device as usize).and_then(OnceLock::get) else { return Ok(()) };
    if word.host.load(Ordering::Acquire) == 0 {
        return Ok(());
    }
    let found = match word.host.swap(0, Ordering::AcqRel) {
        INDEX_OUT_OF_BOUNDS => "index out of bounds".to_owned(),
        NO_PROBABILITY => "a probability is not between 0 and 1".to_owned(),
        NO_RATE => "invalid Poisson rate, expected rate to be non-negative".to_owned(),
        other => format!("failure {other}"),
    };
    Err(error::report(
        error::ASSERT,
        "device-side assert triggered",
        &format!("What a kernel found: {found}\n"),
    ))
}
