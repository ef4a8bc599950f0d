//! Random number generators: the state, the stream of raw numbers and their serialised form.

mod mt19937;
pub mod philox;

use std::sync::{Mutex, MutexGuard, OnceLock};

pub use mt19937::Mt19937;

use crate::refcount::PyObjectSlot;
use crate::{
    Device, DispatchKey, Error, IntrusivePtr, KeySet, RefCount, RefCounted, Result, bail, config,
    ensure, err,
};

/// The seed of a new generator that nobody seeded. Default generators have [`initial_seed`].
pub const DEFAULT_SEED: u64 = 67_280_421_310_721;

/// Bytes of a serialised state.
pub const STATE_BYTES: usize = 5056;

/// A handle to a random number generator. Clones share the state.
///
/// ```
/// use corten_core::Generator;
///
/// let generator = Generator::cpu(42);
/// let state = generator.get_state();
/// let first = generator.lock().random();
/// generator.set_state(&state)?;
/// assert_eq!(generator.lock().random(), first);
/// # Ok::<(), corten_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Generator(IntrusivePtr<GeneratorImpl>);

/// The state behind a [`Generator`].
///
/// ```
/// use corten_core::Generator;
///
/// let generator = Generator::cpu(1);
/// assert!(generator.is_same(&generator.clone()));
/// ```
#[derive(Debug)]
pub struct GeneratorImpl {
    refcount: RefCount,
    pyobject: PyObjectSlot,
    device: Device,
    state: Mutex<State>,
    /// The place in the stream of a generator for devices, whose kernels draw by counter.
    philox: Option<Mutex<PhiloxState>>,
}

/// Where a stream of [`philox`] is: its seed, and how many numbers each thread of a kernel has drawn.
///
/// ```
/// use corten_core::{Device, DeviceType, Generator};
/// use corten_core::generator::PhiloxState;
///
/// let device = Device { device_type: DeviceType::Cuda, index: 0 };
/// let generator = Generator::philox(device, 7);
/// let state: PhiloxState = generator.advance_philox(4)?;
/// assert_eq!((state.seed, state.offset), (7, 0));
/// assert_eq!(generator.offset()?, 4);
/// # Ok::<(), corten_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhiloxState {
    /// The key of the stream.
    pub seed: u64,
    /// Numbers drawn per thread, a multiple of 4.
    pub offset: u64,
}

// SAFETY: the count is the field of that name.
unsafe impl RefCounted for GeneratorImpl {
    fn refcount(&self) -> &RefCount {
        &self.refcount
    }

    fn pyobject_slot(&self) -> Option<&PyObjectSlot> {
        Some(&self.pyobject)
    }
}

/// Everything that `get_state` saves.
#[derive(Clone, Debug)]
struct State {
    engine: Mt19937,
    next_f64_normal: Option<f64>,
    next_f32_normal: Option<f32>,
}

impl State {
    fn new(seed: u64) -> Self {
        Self { engine: Mt19937::new(seed), next_f64_normal: None, next_f32_normal: None }
    }
}

impl Generator {
    /// A generator for the host, seeded with `seed`.
    pub fn cpu(seed: u64) -> Self {
        Self::made(Device::CPU, seed, None)
    }

    /// A generator for the kernels of a device, which draw by counter: its state is a seed and an offset.
    pub fn philox(device: Device, seed: u64) -> Self {
        Self::made(device, seed, Some(Mutex::new(PhiloxState { seed, offset: 0 })))
    }

    fn made(device: Device, seed: u64, philox: Option<Mutex<PhiloxState>>) -> Self {
        Self(IntrusivePtr::new(GeneratorImpl {
            refcount: RefCount::unique(),
            pyobject: PyObjectSlot::empty(),
            device,
            state: Mutex::new(State::new(seed)),
            philox,
        }))
    }

    /// The place in the stream, of a generator whose kernels draw by counter.
    pub fn philox_state(&self) -> Option<PhiloxState> {
        Some(*lock(self.0.philox.as_ref()?))
    }

    /// The place in the stream for a kernel whose threads draw up to `count` numbers each; the numbers are
    /// not given out again.
    ///
    /// # Errors
    /// `Runtime` for a generator of the host.
    pub fn advance_philox(&self, count: u64) -> Result<PhiloxState> {
        let Some(philox) = &self.0.philox else { return Err(self.wrong_device("cuda")) };
        let mut state = lock(philox);
        let before = *state;
        // Kernels draw four numbers at once.
        state.offset = state.offset.wrapping_add(count.div_ceil(4) * 4);
        Ok(before)
    }

    /// How many numbers each thread has drawn.
    ///
    /// # Errors
    /// `Runtime` for a generator of the host, which has no offset.
    pub fn offset(&self) -> Result<u64> {
        match self.philox_state() {
            Some(state) => Ok(state.offset),
            None => bail!(Runtime, "CPU Generator does not use offset"),
        }
    }

    /// Sets how many numbers each thread has drawn.
    ///
    /// # Errors
    /// `Runtime` for a generator of the host, and for an offset that no kernel leaves behind.
    pub fn set_offset(&self, offset: u64) -> Result<()> {
        let Some(philox) = &self.0.philox else {
            bail!(Runtime, "CPU Generator does not use offset")
        };
        ensure!(offset.is_multiple_of(4), Runtime, "offset must be a multiple of 4");
        lock(philox).offset = offset;
        Ok(())
    }

    /// That the kernels of the host can draw from the generator.
    ///
    /// # Errors
    /// `Runtime` for a generator of another device.
    #[inline]
    pub fn expect_host(&self) -> Result<&Self> {
        if self.0.philox.is_some() { Err(self.wrong_device("cpu")) } else { Ok(self) }
    }

    /// A generator for host code that computes in the place of a device's kernel: the generator itself, or
    /// a new one whose seed is the place in the stream, which moves on.
    ///
    /// # Errors
    /// None for generators that this crate makes.
    pub fn host_twin(&self) -> Result<Self> {
        if self.0.philox.is_none() {
            return Ok(self.clone());
        }
        let PhiloxState { seed, offset } = self.advance_philox(4)?;
        let key = [seed as u32, (seed >> 32) as u32];
        let words = philox::Philox4x32::block(key, [offset as u32, (offset >> 32) as u32, 0, 0]);
        Ok(Self::cpu(u64::from(words[0]) | (u64::from(words[1]) << 32)))
    }

    #[cold]
    fn wrong_device(&self, expected: &str) -> Error {
        let found = self.0.device.device_type;
        err!(Runtime, "Expected a '{expected}' device type for generator but found '{found}'")
    }

    /// The device whose kernels draw from this generator.
    pub fn device(&self) -> Device {
        self.0.device
    }

    /// The key that the generator adds to a call.
    pub fn key_set(&self) -> KeySet {
        let key = if self.0.device.is_cuda() { DispatchKey::CUDA } else { DispatchKey::CPU };
        KeySet::from_key(key)
    }

    /// The state for the time of drawing. Kernels hold it throughout, so that their numbers are one
    /// run of the stream.
    pub fn lock(&self) -> GeneratorGuard<'_> {
        GeneratorGuard(self.0.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }

    /// Starts the stream of `seed` and returns the generator.
    pub fn manual_seed(&self, seed: u64) -> &Self {
        match &self.0.philox {
            Some(philox) => *lock(philox) = PhiloxState { seed, offset: 0 },
            None => *self.lock().0 = State::new(seed),
        }
        self
    }

    /// Seeds from the operating system and returns the seed.
    pub fn seed(&self) -> u64 {
        let seed = random_seed();
        self.manual_seed(seed);
        seed
    }

    /// The seed of the present stream.
    pub fn initial_seed(&self) -> u64 {
        match self.philox_state() {
            Some(state) => state.seed,
            None => self.lock().0.engine.seed(),
        }
    }

    /// The state as bytes, in PyTorch's format.
    pub fn get_state(&self) -> Vec<u8> {
        match self.philox_state() {
            Some(state) => [state.seed.to_le_bytes(), state.offset.to_le_bytes()].concat(),
            None => encode(&self.lock().0),
        }
    }

    /// Restores a state of [`get_state`](Self::get_state).
    pub fn set_state(&self, bytes: &[u8]) -> Result<()> {
        match &self.0.philox {
            Some(philox) => *lock(philox) = decode_philox(bytes)?,
            None => *self.lock().0 = decode(bytes)?,
        }
        Ok(())
    }

    /// A new generator that continues with the same numbers.
    #[must_use]
    pub fn clone_state(&self) -> Self {
        if let Some(state) = self.philox_state() {
            let philox = Some(Mutex::new(state));
            return Self::made(self.0.device, state.seed, philox);
        }
        let copy = Self::cpu(0);
        *copy.lock().0 = self.lock().0.clone();
        copy
    }

    /// Whether both handles share their state.
    pub fn is_same(&self, other: &Self) -> bool {
        self.0.ptr_eq(&other.0)
    }

    /// The handle to the object itself.
    pub fn as_intrusive(&self) -> &IntrusivePtr<GeneratorImpl> {
        &self.0
    }
}

/// Exclusive use of a generator.
///
/// ```
/// use corten_core::Generator;
///
/// let generator = Generator::cpu(0);
/// let mut guard = generator.lock();
/// assert_ne!(guard.random64(), guard.random64());
/// ```
#[derive(Debug)]
pub struct GeneratorGuard<'a>(MutexGuard<'a, State>);

impl GeneratorGuard<'_> {
    /// The next 32 random bits.
    #[inline]
    pub fn random(&mut self) -> u32 {
        self.0.engine.next_u32()
    }

    /// The next 64 random bits: two draws, the first one in the upper half.
    #[inline]
    pub fn random64(&mut self) -> u64 {
        let high = u64::from(self.random());
        (high << 32) | u64::from(self.random())
    }

    /// Fills with what as many calls of [`random`](Self::random) would give.
    pub fn fill_random(&mut self, out: &mut [u32]) {
        self.0.engine.fill(out);
    }

    /// Takes the second `f64` normal of the last pair, if it is still there.
    pub fn take_f64_normal(&mut self) -> Option<f64> {
        self.0.next_f64_normal.take()
    }

    /// Keeps the second `f64` normal of a pair.
    pub fn set_f64_normal(&mut self, value: Option<f64>) {
        self.0.next_f64_normal = value;
    }

    /// Takes the second `f32` normal of the last pair, if it is still there.
    pub fn take_f32_normal(&mut self) -> Option<f32> {
        self.0.next_f32_normal.take()
    }

    /// Keeps the second `f32` normal of a pair.
    pub fn set_f32_normal(&mut self, value: Option<f32>) {
        self.0.next_f32_normal = value;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Seed and offset, little-endian; the offset may be left out, as old versions of PyTorch did.
fn decode_philox(bytes: &[u8]) -> Result<PhiloxState> {
    ensure!(matches!(bytes.len(), 8 | 16), Runtime, "RNG state is wrong size");
    let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
    let offset = if bytes.len() == 16 { number(8) } else { 0 };
    ensure!(offset.is_multiple_of(4), Runtime, "offset must be a multiple of 4");
    Ok(PhiloxState { seed: number(0), offset })
}

/// The generator of host kernels that are given none.
pub fn default_cpu_generator() -> &'static Generator {
    static DEFAULT: OnceLock<Generator> = OnceLock::new();
    DEFAULT.get_or_init(|| Generator::cpu(initial_seed()))
}

/// The seed of a default generator that nobody seeded: another one in each process and for each device, unless the
/// environment variable `CORTEN_SEED` has a number.
///
/// ```
/// use corten_core::{config, generator::initial_seed};
///
/// assert_eq!(initial_seed() == initial_seed(), config::settings().seed.is_some());
/// ```
pub fn initial_seed() -> u64 {
    config::settings().seed.unwrap_or_else(random_seed)
}

/// What finds the default generators of devices, which their back end keeps.
static OF_DEVICES: OnceLock<fn(i8) -> Result<&'static Generator>> = OnceLock::new();

/// Says who keeps the default generators of GPUs.
pub fn set_device_generators(find: fn(i8) -> Result<&'static Generator>) {
    // The first one stays: there is one back end.
    let _ = OF_DEVICES.set(find);
}

/// The generator of a device's kernels that are given none: the host's where the device has no back end.
///
/// # Errors
/// Those of the back end, such as a device that does not exist.
pub fn default_generator(device: Device) -> Result<&'static Generator> {
    match OF_DEVICES.get() {
        Some(find) if device.is_cuda() => find(device.index),
        _ => Ok(default_cpu_generator()),
    }
}

/// Seeds the default generator.
pub fn manual_seed(seed: u64) -> &'static Generator {
    let generator = default_cpu_generator();
    generator.manual_seed(seed);
    generator
}

fn random_seed() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    // The standard library keys its hashers from the operating system's random numbers.
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u128(crate::clock::unix_time().as_nanos());
    hasher.finish()
}

// The format, little-endian: u64 seed, i32 left, i32 seeded, u64 next, 624 words as u64, then the
// f64 triple (x, cached normal, rho), i32 cached f64 valid, 4 bytes of padding, f32 cached normal,
// i32-sized f32 valid flag, padding.
const WORDS_AT: usize = 24;
const F64_NORMAL_AT: usize = 5024;
const F64_VALID_AT: usize = 5040;
const F32_NORMAL_AT: usize = 5048;
const F32_VALID_AT: usize = 5052;

fn encode(state: &State) -> Vec<u8> {
    let engine = &state.engine;
    // Bounded: a constant.
    let mut bytes = vec![0; STATE_BYTES];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(0, &engine.seed().to_le_bytes());
    put(8, &engine.left().to_le_bytes());
    put(12, &1_i32.to_le_bytes());
    put(16, &u64::from(engine.next()).to_le_bytes());
    for (index, &word) in engine.words().iter().enumerate() {
        put(WORDS_AT + 8 * index, &u64::from(word).to_le_bytes());
    }
    if let Some(normal) = state.next_f64_normal {
        put(F64_NORMAL_AT, &normal.to_le_bytes());
        put(F64_VALID_AT, &1_i32.to_le_bytes());
    }
    if let Some(normal) = state.next_f32_normal {
        put(F32_NORMAL_AT, &normal.to_le_bytes());
        put(F32_VALID_AT, &1_i32.to_le_bytes());
    }
    bytes
}

fn decode(bytes: &[u8]) -> Result<State> {
    ensure!(
        bytes.len() == STATE_BYTES,
        Runtime,
        "Expected a CPUGeneratorImplState of size {STATE_BYTES} but found the input RNG state size \
         to be {}",
        bytes.len()
    );
    let u64_at = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
    let i32_at = |at: usize| i32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
    let (left, next) = (i32_at(8), u64_at(16));
    let valid = i32_at(12) == 1 && (1..=624).contains(&left) && next <= 624;
    ensure!(valid, Runtime, "Invalid mt19937 state");
    let words = std::array::from_fn(|index| u64_at(WORDS_AT + 8 * index) as u32);
    let normal64 = f64::from_bits(u64_at(F64_NORMAL_AT));
    let normal32 = f32::from_bits(i32_at(F32_NORMAL_AT) as u32);
    Ok(State {
        engine: Mt19937::from_parts(u64_at(0), left, next as u32, words),
        next_f64_normal: (i32_at(F64_VALID_AT) != 0).then_some(normal64),
        next_f32_normal: (bytes[F32_VALID_AT] != 0).then_some(normal32),
    })
}
