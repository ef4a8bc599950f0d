//! Dispatch keys and sets of them.
//!
//! A set is one word: 16 backend bits (low) and 47 functionality bits (high). The runtime key of a
//! functionality that differs by backend is a pair of both.

use std::fmt;
use std::ops::{BitAnd, BitOr, BitOrAssign, BitXor, Sub};

use crate::{DType, DeviceType, Layout};

macro_rules! backends {
    ($($name:ident = $number:literal,)*) => {
        /// A backend, in increasing priority.
        #[repr(u8)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Backend {
            $(#[doc = concat!("The `", stringify!($name), "` backend.")] $name = $number,)*
        }

        impl Backend {
            /// Every backend in increasing priority.
            pub const ALL: &[Backend] = &[$(Backend::$name,)*];
        }
    };
}

backends! {
    Cpu = 0, Cuda = 1, Hip = 2, Xla = 3, Mps = 4, Ipu = 5, Xpu = 6, Hpu = 7, Ve = 8, Lazy = 9,
    Mtia = 10, Maia = 11, PrivateUse1 = 12, PrivateUse2 = 13, PrivateUse3 = 14, Meta = 15,
}

impl Backend {
    /// The backend of a device type, if tensors of it have a backend bit.
    pub const fn of(device_type: DeviceType) -> Option<Self> {
        Some(match device_type {
            DeviceType::Cpu | DeviceType::MklDnn => Self::Cpu,
            DeviceType::Cuda => Self::Cuda,
            DeviceType::Hip => Self::Hip,
            DeviceType::Xla => Self::Xla,
            DeviceType::Mps => Self::Mps,
            DeviceType::Ipu => Self::Ipu,
            DeviceType::Xpu => Self::Xpu,
            DeviceType::Hpu => Self::Hpu,
            DeviceType::Ve => Self::Ve,
            DeviceType::Lazy => Self::Lazy,
            DeviceType::Mtia => Self::Mtia,
            DeviceType::Maia => Self::Maia,
            DeviceType::PrivateUse1 => Self::PrivateUse1,
            DeviceType::Meta => Self::Meta,
            _ => return None,
        })
    }
}

macro_rules! dispatch_keys {
    ($($name:ident)*) => {
        /// A dispatch key: a functionality, a runtime key (a functionality of one backend), or an
        /// alias that stands for several keys at registration and is never in a set.
        #[repr(u8)]
        #[allow(non_camel_case_types, reason = "PyTorch's names")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum DispatchKey {
            $(#[doc = concat!("The `", stringify!($name), "` key.")] $name,)*
        }

        impl DispatchKey {
            /// Every key.
            pub const ALL: &[DispatchKey] = &[$(DispatchKey::$name,)*];

            /// The name, as PyTorch prints it.
            pub const fn name(self) -> &'static str {
                match self { $(DispatchKey::$name => stringify!($name),)* }
            }
        }
    };
}

dispatch_keys! {
    Undefined Dense FPGA Vulkan Metal Quantized CustomRNGKeyId MkldnnCPU Sparse SparseCsr
    NestedTensor BackendSelect Fake Python FuncTorchDynamicLayerBackMode Functionalize Conjugate
    Negative ZeroTensor ADInplaceOrView AutogradOther AutogradFunctionality AutogradNestedTensor
    Tracer AutocastCPU AutocastMTIA AutocastMAIA AutocastXPU AutocastIPU AutocastHPU AutocastXLA
    AutocastMPS AutocastCUDA AutocastPrivateUse1 FuncTorchBatched BatchedNestedTensor
    FuncTorchVmapMode Batched VmapMode FuncTorchGradWrapper DeferredInit PythonTLSSnapshot
    FuncTorchDynamicLayerFrontMode TESTING_ONLY_GenericWrapper TESTING_ONLY_GenericMode
    PreDispatch PythonDispatcher NegativeStrides Named

    CPU CUDA HIP XLA MPS IPU XPU HPU VE Lazy MTIA MAIA PrivateUse1 PrivateUse2 PrivateUse3 Meta

    QuantizedCPU QuantizedCUDA QuantizedHIP QuantizedXLA QuantizedMPS QuantizedIPU QuantizedXPU
    QuantizedHPU QuantizedVE QuantizedLazy QuantizedMTIA QuantizedMAIA QuantizedPrivateUse1
    QuantizedPrivateUse2 QuantizedPrivateUse3 QuantizedMeta

    SparseCPU SparseCUDA SparseHIP SparseXLA SparseMPS SparseIPU SparseXPU SparseHPU SparseVE
    SparseLazy SparseMTIA SparseMAIA SparsePrivateUse1 SparsePrivateUse2 SparsePrivateUse3
    SparseMeta

    SparseCsrCPU SparseCsrCUDA SparseCsrHIP SparseCsrXLA SparseCsrMPS SparseCsrIPU SparseCsrXPU
    SparseCsrHPU SparseCsrVE SparseCsrLazy SparseCsrMTIA SparseCsrMAIA SparseCsrPrivateUse1
    SparseCsrPrivateUse2 SparseCsrPrivateUse3 SparseCsrMeta

    NestedTensorCPU NestedTensorCUDA NestedTensorHIP NestedTensorXLA NestedTensorMPS
    NestedTensorIPU NestedTensorXPU NestedTensorHPU NestedTensorVE NestedTensorLazy
    NestedTensorMTIA NestedTensorMAIA NestedTensorPrivateUse1 NestedTensorPrivateUse2
    NestedTensorPrivateUse3 NestedTensorMeta

    AutogradCPU AutogradCUDA AutogradHIP AutogradXLA AutogradMPS AutogradIPU AutogradXPU
    AutogradHPU AutogradVE AutogradLazy AutogradMTIA AutogradMAIA AutogradPrivateUse1
    AutogradPrivateUse2 AutogradPrivateUse3 AutogradMeta

    Autograd CompositeImplicitAutograd FuncTorchBatchedDecomposition
    CompositeImplicitAutogradNestedTensor CompositeExplicitAutograd
    CompositeExplicitAutogradNonFunctional
}

/// Functionality keys, `Undefined` included.
const NUM_FUNCTIONALITIES: usize = DispatchKey::Named as usize + 1;
/// Backend bits.
pub const NUM_BACKENDS: usize = 16;
/// Functionalities that have one runtime key per backend, in the order of their blocks.
const PER_BACKEND: [DispatchKey; 6] = [
    DispatchKey::Dense,
    DispatchKey::Quantized,
    DispatchKey::Sparse,
    DispatchKey::SparseCsr,
    DispatchKey::NestedTensor,
    DispatchKey::AutogradFunctionality,
];
/// Slots of an operator's kernel table: one per runtime key.
pub const NUM_RUNTIME_KEYS: usize = NUM_FUNCTIONALITIES + PER_BACKEND.len() * (NUM_BACKENDS - 1);
const _: () = assert!(NUM_RUNTIME_KEYS == 139);

const BACKEND_MASK: u64 = (1 << NUM_BACKENDS) - 1;

/// The first slot of each functionality, and whether its slots are chosen by the backend.
const SLOTS: [(u8, bool); NUM_FUNCTIONALITIES] = {
    let mut slots = [(0, false); NUM_FUNCTIONALITIES];
    let mut functionality = 0;
    let mut next = 0;
    while functionality < NUM_FUNCTIONALITIES {
        let per_backend = DispatchKey::ALL[functionality].is_per_backend();
        slots[functionality] = (next, per_backend);
        next += if per_backend { NUM_BACKENDS as u8 } else { 1 };
        functionality += 1;
    }
    slots
};

impl DispatchKey {
    const fn is_functionality(self) -> bool {
        (self as usize) < NUM_FUNCTIONALITIES
    }

    /// Whether this functionality has one runtime key per backend.
    pub const fn is_per_backend(self) -> bool {
        let mut block = 0;
        while block < PER_BACKEND.len() {
            if PER_BACKEND[block] as u8 == self as u8 {
                return true;
            }
            block += 1;
        }
        false
    }

    /// Whether this key stands for several keys at registration.
    pub const fn is_alias(self) -> bool {
        self as u8 >= Self::Autograd as u8
    }

    /// The functionality of a runtime key; other keys are their own.
    pub const fn functionality(self) -> Self {
        if self.is_functionality() || self.is_alias() {
            return self;
        }
        PER_BACKEND[(self as usize - NUM_FUNCTIONALITIES) / NUM_BACKENDS]
    }

    /// The backend of a runtime key that has one.
    pub const fn backend(self) -> Option<Backend> {
        if self.is_functionality() || self.is_alias() {
            return None;
        }
        Some(Backend::ALL[(self as usize - NUM_FUNCTIONALITIES) % NUM_BACKENDS])
    }

    /// The runtime key of a functionality for a backend.
    pub const fn runtime(functionality: Self, backend: Backend) -> Self {
        let mut block = 0;
        while block < PER_BACKEND.len() {
            if PER_BACKEND[block] as u8 == functionality as u8 {
                let key = NUM_FUNCTIONALITIES + block * NUM_BACKENDS + backend as usize;
                return Self::ALL[key];
            }
            block += 1;
        }
        functionality
    }

    /// The slot of a runtime key in an operator's kernel table; `None` for aliases.
    pub const fn runtime_index(self) -> Option<usize> {
        if self.is_alias() {
            return None;
        }
        let (first, _) = SLOTS[self.functionality() as usize];
        Some(match self.backend() {
            Some(backend) => first as usize + backend as usize,
            None => first as usize,
        })
    }

    /// The runtime key with this slot.
    pub fn from_runtime_index(index: usize) -> Option<Self> {
        Self::ALL.iter().copied().find(|key| {
            !(key.is_functionality() && key.is_per_backend()) && key.runtime_index() == Some(index)
        })
    }

    /// Looks a key up by its name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|key| key.name() == name)
    }
}

impl fmt::Display for DispatchKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A set of dispatch keys.
///
/// ```
/// use corten_core::{DType, DeviceType, DispatchKey, KeySet, Layout};
///
/// let keys = KeySet::for_tensor(DeviceType::Cpu, Layout::Strided, DType::Float32);
/// assert_eq!(keys.highest_key(), DispatchKey::CPU);
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct KeySet(pub u64);

impl KeySet {
    /// No key.
    pub const EMPTY: Self = Self(0);
    /// Every backend and functionality.
    pub const FULL: Self = Self(u64::MAX >> (64 - (NUM_BACKENDS + NUM_FUNCTIONALITIES - 1)));

    /// The set of these keys.
    pub const fn of(keys: &[DispatchKey]) -> Self {
        let mut set = 0;
        let mut index = 0;
        while index < keys.len() {
            set |= Self::from_key(keys[index]).0;
            index += 1;
        }
        Self(set)
    }

    /// The set of one key. A runtime key sets its functionality and its backend.
    pub const fn from_key(key: DispatchKey) -> Self {
        let functionality = key.functionality() as u32;
        if key.is_alias() || functionality == 0 {
            return Self::EMPTY;
        }
        let backend = match key.backend() {
            Some(backend) => 1 << backend as u32,
            None => 0,
        };
        Self((1 << (NUM_BACKENDS as u32 + functionality - 1)) | backend)
    }

    /// The set of one backend bit and no functionality.
    pub const fn from_backend(backend: Backend) -> Self {
        Self(1 << backend as u32)
    }

    /// The keys of all functionalities above `key`, with every backend.
    pub const fn after(key: DispatchKey) -> Self {
        let bit = NUM_BACKENDS as u32 + key.functionality() as u32;
        // The highest key has the highest bit of the word: nothing is above it.
        let above = if bit < u64::BITS { Self::FULL.0 & !((1 << bit) - 1) } else { 0 };
        Self(above | BACKEND_MASK)
    }

    /// The keys of all functionalities below `key`, with every backend: what `key` redispatches to.
    pub const fn below(key: DispatchKey) -> Self {
        let functionality = key.functionality() as u32;
        if functionality == 0 {
            return Self(BACKEND_MASK);
        }
        Self(((1 << (NUM_BACKENDS as u32 + functionality - 1)) - 1) | BACKEND_MASK)
    }

    /// Whether `key` is in the set; of a runtime key, both its functionality and its backend.
    #[inline]
    pub const fn has(self, key: DispatchKey) -> bool {
        let wanted = Self::from_key(key).0;
        wanted != 0 && self.0 & wanted == wanted
    }

    /// Whether any functionality of `other` is in the set.
    #[inline]
    pub const fn has_any(self, other: Self) -> bool {
        self.0 & other.0 & !BACKEND_MASK != 0
    }

    /// Whether every key of `other` is in the set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether there is no key.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The union.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Without the functionalities of `other`. Backends stay: they may belong to other keys.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & (BACKEND_MASK | !other.0))
    }

    /// With `key` added.
    #[must_use]
    pub const fn with(self, key: DispatchKey) -> Self {
        self.union(Self::from_key(key))
    }

    /// The functionality with the highest priority; `Undefined` if there is none.
    #[inline]
    pub fn highest_functionality(self) -> DispatchKey {
        DispatchKey::ALL[self.highest_functionality_index()]
    }

    #[inline]
    fn highest_functionality_index(self) -> usize {
        64 - ((self.0 >> NUM_BACKENDS).leading_zeros() as usize)
    }

    /// The backend with the highest priority.
    pub fn highest_backend(self) -> Option<Backend> {
        let bits = self.0 & BACKEND_MASK;
        (bits != 0).then(|| Backend::ALL[63 - bits.leading_zeros() as usize])
    }

    /// The runtime key with the highest priority.
    pub fn highest_key(self) -> DispatchKey {
        let functionality = self.highest_functionality();
        match (functionality.is_per_backend(), self.highest_backend()) {
            (true, backend) => DispatchKey::runtime(functionality, backend.unwrap_or(Backend::Cpu)),
            _ => functionality,
        }
    }

    /// The slot of the highest runtime key in an operator's kernel table.
    #[inline]
    pub fn highest_runtime_index(self) -> usize {
        let (first, per_backend) = SLOTS[self.highest_functionality_index()];
        // The lowest bit is set so that no backend at all reads as the first one.
        let backend = 63 - (self.0 & BACKEND_MASK | 1).leading_zeros() as usize;
        first as usize + if per_backend { backend } else { 0 }
    }

    /// The runtime keys in the set, lowest priority first.
    pub fn iter(self) -> impl Iterator<Item = DispatchKey> {
        DispatchKey::ALL
            .iter()
            .copied()
            .filter(move |key| !(key.is_functionality() && key.is_per_backend()) && self.has(*key))
    }

    /// The keys of a fresh tensor of this layout and device type, before autograd and autocast.
    pub fn for_tensor(device_type: DeviceType, layout: Layout, dtype: DType) -> Self {
        let functionality = match layout {
            Layout::Strided if dtype.is_quantized() => DispatchKey::Quantized,
            Layout::Strided => DispatchKey::Dense,
            Layout::Sparse => DispatchKey::Sparse,
            Layout::Mkldnn => {
                return Self::of(&[DispatchKey::MkldnnCPU]).union(Self::from_backend(Backend::Cpu));
            }
            Layout::Jagged => DispatchKey::NestedTensor,
            _ => DispatchKey::SparseCsr,
        };
        match (device_type, Backend::of(device_type)) {
            (_, Some(backend)) => Self::from_key(DispatchKey::runtime(functionality, backend)),
            (DeviceType::Fpga, None) => Self::from_key(DispatchKey::FPGA),
            (DeviceType::Vulkan, None) => Self::from_key(DispatchKey::Vulkan),
            (DeviceType::Metal, None) => Self::from_key(DispatchKey::Metal),
            _ => Self::EMPTY,
        }
    }

    /// The autocast key that belongs to the highest backend of the set.
    pub fn autocast_of_backend(self) -> Self {
        use DispatchKey::*;
        Self::from_key(match self.highest_backend() {
            Some(Backend::Cpu) => AutocastCPU,
            Some(Backend::Cuda | Backend::Hip) => AutocastCUDA,
            Some(Backend::Xla) => AutocastXLA,
            Some(Backend::Mps) => AutocastMPS,
            Some(Backend::Ipu) => AutocastIPU,
            Some(Backend::Xpu) => AutocastXPU,
            Some(Backend::Hpu) => AutocastHPU,
            Some(Backend::Mtia) => AutocastMTIA,
            Some(Backend::Maia) => AutocastMAIA,
            Some(Backend::PrivateUse1) => AutocastPrivateUse1,
            _ => Undefined,
        })
    }

    /// The autograd key that records calls on tensors with these keys.
    pub fn autograd_of_backend(self) -> Self {
        const OTHER: KeySet = KeySet::of(&[
            DispatchKey::FPGA,
            DispatchKey::Vulkan,
            DispatchKey::Metal,
            DispatchKey::MkldnnCPU,
            DispatchKey::CustomRNGKeyId,
        ]);
        if self.is_empty() {
            Self::EMPTY
        } else if self.has_any(Self::of(&[DispatchKey::NestedTensor])) {
            Self::from_key(DispatchKey::AutogradNestedTensor)
        } else if self.has_any(OTHER) {
            Self::from_key(DispatchKey::AutogradOther)
        } else {
            Self::from_key(DispatchKey::AutogradFunctionality)
        }
    }
}

/// Every key under which calls are recorded for differentiation.
pub const AUTOGRAD_KEYS: KeySet = KeySet::of(&[
    DispatchKey::AutogradOther,
    DispatchKey::AutogradFunctionality,
    DispatchKey::AutogradNestedTensor,
]);

/// The key of tensors with negative strides: it comes first, and kernels get copies without them.
pub const NEGATIVE_STRIDES: KeySet = KeySet::of(&[DispatchKey::NegativeStrides]);

/// The key under which in-place calls bump versions and views are registered.
pub const ADINPLACEORVIEW: KeySet = KeySet::of(&[DispatchKey::ADInplaceOrView]);

/// The key under which calls are recorded to run later, of threads that do: below all that looks at single calls,
/// above the backends. No bit is free for a key of its own; PyTorch's key of this name is for generators of devices
/// from outside, of which there are none here.
pub const DEFERRED: KeySet = KeySet::of(&[DispatchKey::CustomRNGKeyId]);

/// Every automatic mixed precision key.
pub const AUTOCAST_KEYS: KeySet = KeySet::of(&[
    DispatchKey::AutocastCPU,
    DispatchKey::AutocastMTIA,
    DispatchKey::AutocastMAIA,
    DispatchKey::AutocastXPU,
    DispatchKey::AutocastIPU,
    DispatchKey::AutocastHPU,
    DispatchKey::AutocastXLA,
    DispatchKey::AutocastMPS,
    DispatchKey::AutocastCUDA,
    DispatchKey::AutocastPrivateUse1,
]);

/// The key of tensors whose dimensions have names. See Note [Place of the key `Named`].
pub const NAMED: KeySet = KeySet::of(&[DispatchKey::Named]);

/// The keys that the Python side adds to a tensor; shallow copies do not carry them over.
pub const PYTHON_KEYS: KeySet = KeySet::of(&[DispatchKey::Python, DispatchKey::PythonTLSSnapshot]);

impl BitOr for KeySet {
    type Output = Self;
    #[inline]
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for KeySet {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl BitAnd for KeySet {
    type Output = Self;
    #[inline]
    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl BitXor for KeySet {
    type Output = Self;
    fn bitxor(self, other: Self) -> Self {
        Self(self.0 ^ other.0)
    }
}

/// Removes functionalities; see [`KeySet::without`].
impl Sub for KeySet {
    type Output = Self;
    #[inline]
    fn sub(self, other: Self) -> Self {
        self.without(other)
    }
}

impl From<DispatchKey> for KeySet {
    fn from(key: DispatchKey) -> Self {
        Self::from_key(key)
    }
}

impl FromIterator<DispatchKey> for KeySet {
    fn from_iter<I: IntoIterator<Item = DispatchKey>>(keys: I) -> Self {
        keys.into_iter().fold(Self::EMPTY, Self::with)
    }
}

impl fmt::Debug for KeySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeySet(")?;
        for (index, key) in self.iter().enumerate() {
            if index > 0 {
                f.write_str(", ")?;
            }
            f.write_str(key.name())?;
        }
        f.write_str(")")
    }
}
