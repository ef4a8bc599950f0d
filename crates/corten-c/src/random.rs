//! Generators of random numbers.

use crate::status::{CortenStatus, guard};
use crate::tensor::{CortenDevice, device_from, write_to};
use corten::core::{bail, default_generator};
use corten::{Generator, Result};

/// A generator of random numbers.
pub struct CortenGenerator(Generator);

impl CortenGenerator {
    pub(crate) fn give(generator: Generator) -> *mut Self {
        Box::into_raw(Box::new(Self(generator)))
    }

    /// # Safety
    /// The pointer must be null or come from [`give`](Self::give) and be alive.
    pub(crate) unsafe fn borrowed<'a>(generator: *const Self) -> Result<&'a Generator> {
        // SAFETY: the caller's.
        match unsafe { generator.as_ref() } {
            Some(found) => Ok(&found.0),
            None => bail!(Value, "a generator is null"),
        }
    }

    /// # Safety
    /// The pointer must be null or come from [`give`](Self::give), and is not used afterwards.
    pub(crate) unsafe fn drop_given(generator: *mut Self) {
        if !generator.is_null() {
            // SAFETY: the caller's.
            drop(unsafe { Box::from_raw(generator) });
        }
    }
}

/// Seeds the default generators of all devices.
#[unsafe(no_mangle)]
pub extern "C" fn corten_manual_seed(seed: u64) -> CortenStatus {
    guard(|| {
        corten::manual_seed(seed);
        Ok(())
    })
}

/// A generator with a stream of its own, for operators that take one. Only those of the host can be made.
///
/// # Safety
/// `generator` must be valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corten_generator_new(
    seed: u64,
    generator: *mut *mut CortenGenerator,
) -> CortenStatus {
    // SAFETY: the caller's.
    guard(|| unsafe { write_to(generator, CortenGenerator::give(Generator::cpu(seed))) })
}

/// The default generator of a device.
///
/// # Safety
/// `generator` must be valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corten_generator_default(
    device: CortenDevice,
    generator: *mut *mut CortenGenerator,
) -> CortenStatus {
    guard(|| {
        let found = default_generator(device_from(device)?)?.clone();
        // SAFETY: the caller's.
        unsafe { write_to(generator, CortenGenerator::give(found)) }
    })
}

/// Starts the stream of a seed.
///
/// # Safety
/// `generator` must be alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corten_generator_seed(
    generator: *mut CortenGenerator,
    seed: u64,
) -> CortenStatus {
    guard(|| {
        // SAFETY: the caller's.
        unsafe { CortenGenerator::borrowed(generator) }?.manual_seed(seed);
        Ok(())
    })
}

/// Gives a generator back; null is allowed.
///
/// # Safety
/// `generator` must be null or alive, and is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corten_generator_free(generator: *mut CortenGenerator) {
    guard(|| {
        // SAFETY: the caller's.
        unsafe { CortenGenerator::drop_given(generator) };
        Ok(())
    });
}
