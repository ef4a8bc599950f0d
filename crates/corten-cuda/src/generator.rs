//! Random number generators of devices: one by default per device, whose state is a seed and an offset.

use crate::device::{MOST_DEVICES, check_exists, resolve};
use corten_core::{DEFAULT_SEED, Device, Generator, Result};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The generator of kernels of a device that are given none. Makes no context.
///
/// # Errors
/// `Runtime` for a number that no device has.
pub fn default_generator(device: i8) -> Result<&'static Generator> {
    let device = existing(device)?;
    // The lock is held while the generator is made, so that a seed for all reaches it.
    let seed = SEED.lock().unwrap_or_else(PoisonError::into_inner);
    let make = || Generator::philox(Device::cuda(device), *seed);
    Ok(DEFAULTS[device as usize].get_or_init(make))
}

static DEFAULTS: [OnceLock<Generator>; MOST_DEVICES] = [const { OnceLock::new() }; MOST_DEVICES];

/// The seed of default generators that are still to be made.
static SEED: Mutex<u64> = Mutex::new(DEFAULT_SEED);

/// Seeds the default generators of all devices, those too that are made later. No driver is needed.
pub fn manual_seed_all(seed: u64) {
    let mut next = SEED.lock().unwrap_or_else(PoisonError::into_inner);
    *next = seed;
    for generator in DEFAULTS.iter().filter_map(OnceLock::get) {
        generator.manual_seed(seed);
    }
}

/// Seeds the current device's default generator.
///
/// # Errors
/// As [`default_generator`].
pub fn manual_seed(seed: u64) -> Result<()> {
    default_generator(-1)?.manual_seed(seed);
    Ok(())
}

/// A new generator for a device, seeded as one that nobody seeded.
///
/// # Errors
/// As [`default_generator`].
pub fn new_generator(device: i8) -> Result<Generator> {
    Ok(Generator::philox(Device::cuda(existing(device)?), DEFAULT_SEED))
}

fn existing(device: i8) -> Result<i8> {
    let device = resolve(device);
    check_exists(device)?;
    Ok(device)
}
