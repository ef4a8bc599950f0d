//! Random number generators of devices: one by default per device, whose state is a seed and an offset.

use crate::device::{MOST_DEVICES, bound, check_exists, resolve};
use crate::driver::{DeviceAddress, RelaxedCapture, driver, error};
use crate::driver_memory::is_capturing;
use crate::stream::Stream;
use corten_core::generator::{PhiloxState, initial_seed};
use corten_core::{DEFAULT_SEED, Device, Generator, Result, bail};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The generator of kernels of a device that are given none. Makes no context.
///
/// # Errors
/// `Runtime` for a number that no device has.
pub fn default_generator(device: i8) -> Result<&'static Generator> {
    let device = existing(device)?;
    // The lock is held while the generator is made, so that a seed for all reaches it.
    let seed = SEED.lock().unwrap_or_else(PoisonError::into_inner);
    let make = || Generator::philox(Device::cuda(device), seed.unwrap_or_else(initial_seed));
    Ok(DEFAULTS[device as usize].get_or_init(make))
}

static DEFAULTS: [OnceLock<Generator>; MOST_DEVICES] = [const { OnceLock::new() }; MOST_DEVICES];

/// The seed of default generators that are still to be made, if somebody chose one.
static SEED: Mutex<Option<u64>> = Mutex::new(None);

/// Seeds the default generators of all devices, those too that are made later. No driver is needed.
pub fn manual_seed_all(seed: u64) {
    let mut next = SEED.lock().unwrap_or_else(PoisonError::into_inner);
    *next = Some(seed);
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

/// Marks an offset that counts from the beginning of a graph: the seed is then the address of the words of
/// [`GraphRandom`]. Offsets of streams never get there.
const IN_GRAPH: u64 = 1 << 63;

/// The random numbers of one graph from one generator: where its kernels read seed and offset, which each
/// replay sets, and how many numbers a replay draws.
#[derive(Debug)]
pub(crate) struct GraphRandom {
    generator: Generator,
    device: i8,
    words: OnceLock<DeviceAddress>,
    drawn: AtomicU64,
}

/// The generators of the captures that are under way.
static CAPTURING: Mutex<Vec<Arc<GraphRandom>>> = Mutex::new(Vec::new());

impl GraphRandom {
    pub(crate) fn new(generator: Generator, device: i8) -> Self {
        Self { generator, device, words: OnceLock::new(), drawn: AtomicU64::new(0) }
    }

    pub(crate) fn is_of(&self, generator: &Generator) -> bool {
        self.generator.is_same(generator)
    }

    /// Says that a capture begins or has ended.
    pub(crate) fn set_capturing(self: &Arc<Self>, begins: bool) {
        let mut capturing = CAPTURING.lock().unwrap_or_else(PoisonError::into_inner);
        capturing.retain(|other| !Arc::ptr_eq(other, self));
        if begins {
            capturing.push(self.clone());
        }
    }

    /// The part of the graph's numbers for a kernel whose threads draw up to `count` numbers each.
    fn reserve(&self, count: u64) -> Result<PhiloxState> {
        let seed = self.words()?;
        let offset = self.drawn.fetch_add(count.div_ceil(4) * 4, Ordering::Relaxed);
        Ok(PhiloxState { seed, offset: offset | IN_GRAPH })
    }

    fn words(&self) -> Result<DeviceAddress> {
        if let Some(&words) = self.words.get() {
            return Ok(words);
        }
        bound(self.device)?;
        let driver = driver()?;
        let _relaxed = RelaxedCapture::new(driver);
        let mut address = 0;
        // SAFETY: the driver writes one address; the memory stays until the graph is gone.
        error::check(driver, unsafe { (driver.cuMemAlloc_v2)(&mut address, 16) })?;
        Ok(*self.words.get_or_init(|| address))
    }

    /// Sets seed and offset for a replay that is about to go into a stream.
    ///
    /// # Errors
    /// Those of the driver.
    pub(crate) fn begin_replay(&self, stream: Stream) -> Result<()> {
        let drawn = self.drawn.load(Ordering::Relaxed);
        let (Some(&words), true) = (self.words.get(), drawn > 0) else { return Ok(()) };
        let state = self.generator.advance_philox(drawn)?;
        let values = [state.seed, state.offset];
        // SAFETY: 16 bytes each; pageable memory has been read when the call returns.
        unsafe { crate::memory::copy_to_device(stream, words, values.as_ptr().cast(), 16) }
    }
}

impl Drop for GraphRandom {
    fn drop(&mut self) {
        let Some(&words) = self.words.get() else { return };
        if let (Ok(_), Ok(driver)) = (bound(self.device), driver()) {
            let _relaxed = RelaxedCapture::new(driver);
            // SAFETY: the graph is gone; the driver waits for its launches.
            unsafe { (driver.cuMemFree_v2)(words) };
        }
    }
}

/// The part of a generator's stream for a launch whose threads draw up to `count` numbers each. While the
/// launch goes into a graph, this is a part of what each replay draws.
///
/// # Errors
/// `Runtime` for a generator that the graph does not know.
pub(crate) fn reserve(
    device: i8,
    generator: Option<&Generator>,
    count: u64,
) -> Result<PhiloxState> {
    let generator = match generator {
        Some(generator) => generator,
        None => default_generator(device)?,
    };
    if !is_capturing(device) || !Stream::current(device).is_capturing()? {
        return generator.advance_philox(count);
    }
    let capturing = CAPTURING.lock().unwrap_or_else(PoisonError::into_inner);
    match capturing.iter().rev().find(|random| random.is_of(generator)).cloned() {
        Some(random) => {
            drop(capturing);
            random.reserve(count)
        }
        None => bail!(
            Runtime,
            "Attempt to increase offset for a CUDA generator not in capture mode. Register it by \
             CUDAGraph.register_generator_state before the capture."
        ),
    }
}
