//! Pointwise launches of a list of tensors, put off and made one.
//!
//! While an operator runs for each tensor of a list (`_foreach_*`), dense pointwise launches of one kernel
//! are kept instead of launched, and up to [`MOST`] of them become one launch. Whatever this thread gives to
//! a device first launches what is kept ([`flush`]), and so does a launch whose operands overlap those of
//! a kept one: the order of the work is what it would be otherwise.

use crate::compile::{Function, Key, function};
use crate::launch::{Shape, THREADS, launch};
use crate::pointwise::{Expression, Numbers, many_program};
use crate::stream::Stream;
use corten_core::{DType, Result, Storage};
use corten_ops::{JointLaunches, TensorIterator};
use std::cell::{Cell, RefCell};
use std::ops::Range;

/// The most launches that become one; as in `pointwise.cuh`.
const MOST: usize = 64;
/// The most where each has numbers of its own: parameters have 4 KB.
const MOST_OWN: usize = 20;
/// Packs of elements that a thread takes; as in `pointwise.cuh`.
const PACKS: u64 = 4;

thread_local! {
    static OPEN: Cell<u32> = const { Cell::new(0) };
    static KEPT: RefCell<Option<Kept>> = const { RefCell::new(None) };
}

/// A launch that is put off.
struct Launch {
    numel: u64,
    pointers: [*mut u8; 4],
    numbers: Numbers,
    /// The bytes of each operand, the result first.
    bytes: [Range<usize>; 4],
    /// What the bytes lie in.
    _storages: Vec<Storage>,
}

impl Launch {
    /// Whether the order of two launches matters.
    fn meets(&self, other: &Self) -> bool {
        let overlap = |a: &Range<usize>, b: &Range<usize>| a.start < b.end && b.start < a.end;
        self.bytes.iter().any(|own| overlap(own, &other.bytes[0]))
            || other.bytes.iter().any(|own| overlap(own, &self.bytes[0]))
    }
}

/// Launches of one kernel in one stream.
struct Kept {
    kernel: Joined,
    stream: Stream,
    launches: Vec<Launch>,
}

/// What launches of one kernel have in common.
#[derive(Clone, Copy)]
pub(crate) struct Joined {
    pub(crate) expression: &'static Expression,
    pub(crate) dtypes: [DType; 6],
    pub(crate) constants: u32,
    pub(crate) width: u32,
}

impl PartialEq for Joined {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.expression, other.expression)
            && (self.dtypes, self.constants, self.width)
                == (other.dtypes, other.constants, other.width)
    }
}

/// The back end's part in operators of lists.
pub(crate) struct Lists;

impl JointLaunches for Lists {
    fn begin(&self) {
        OPEN.set(OPEN.get() + 1);
    }

    fn end(&self) -> Result<()> {
        OPEN.set(OPEN.get().saturating_sub(1));
        flush()
    }
}

/// Whether launches of this thread may be put off.
pub(crate) fn is_open() -> bool {
    OPEN.get() > 0
}

/// Keeps a dense launch over an iterator.
///
/// # Errors
/// Those of launching what is kept and cannot stay.
pub(crate) fn keep(
    kernel: Joined,
    iter: &TensorIterator,
    pointers: &[*mut u8; 4],
    numbers: &Numbers,
    stream: Stream,
) -> Result<()> {
    let (count, numel) = (kernel.expression.inputs + 1, iter.numel() as u64);
    let mut bytes = [const { 0..0 }; 4];
    let mut storages = Vec::with_capacity(count);
    for i in 0..count {
        let constant = i > 0 && kernel.constants >> (i - 1) & 1 == 1;
        if !constant {
            let start = pointers[i].addr();
            bytes[i] = start..start + iter.numel() as usize * iter.dtype(i).itemsize();
            storages.push(iter.tensor(i).storage()?);
        }
    }
    let launch =
        Launch { numel, pointers: *pointers, numbers: numbers.clone(), bytes, _storages: storages };
    // Reductions that are kept come first.
    crate::joint_reduction::flush()?;
    let joins = KEPT.with_borrow(|kept| {
        kept.as_ref().is_some_and(|kept| {
            kept.kernel == kernel
                && kept.stream == stream
                && kept.launches.len() < MOST
                && !kept.launches.iter().any(|other| other.meets(&launch))
        })
    });
    if !joins {
        flush()?;
    }
    KEPT.with_borrow_mut(|kept| {
        let kept = kept.get_or_insert_with(|| Kept { kernel, stream, launches: Vec::new() });
        kept.launches.push(launch);
    });
    Ok(())
}

/// Launches what is put off.
///
/// # Errors
/// Those of compiling and of the driver.
pub(crate) fn flush() -> Result<()> {
    crate::fused::refuse_other_work()?;
    crate::joint_reduction::flush()?;
    if !KEPT.with_borrow(Option::is_some) {
        return Ok(());
    }
    let Some(kept) = KEPT.take() else { return Ok(()) };
    let first = &kept.launches[0].numbers;
    let shared = kept.launches.iter().all(|launch| launch.numbers == *first);
    let most = if shared { MOST } else { MOST_OWN };
    kept.launches.chunks(most).try_for_each(|launches| kept.launch(launches, most, shared))
}

impl Kept {
    fn function(&self, most: usize, shared: bool) -> Result<Function> {
        let Joined { expression, dtypes, constants, width } = self.kernel;
        let key = Key {
            device: self.stream.device(),
            operator: std::ptr::from_ref(expression).addr(),
            dtypes,
            variant: 1 << 31 | u32::from(shared) << 30 | constants << 8 | width,
        };
        function(key, || many_program(&self.kernel, most, shared))
    }

    fn launch(&self, launches: &[Launch], most: usize, shared: bool) -> Result<()> {
        let kernel = self.function(most, shared)?;
        let count = self.kernel.expression.inputs + 1;
        let per_block = u64::from(THREADS) * u64::from(self.kernel.width) * PACKS;
        // `Many` of `pointwise.cuh` in words of 64 bits.
        let mut words = vec![0_u64; most * (1 + count)];
        let mut ends = vec![0_u32; most + 2];
        for (i, launch) in launches.iter().enumerate() {
            words[i] = launch.numel;
            for k in 0..count {
                words[most + i * count + k] = launch.pointers[k].addr() as u64;
            }
            ends[i + 1] = ends[i] + launch.numel.div_ceil(per_block) as u32;
        }
        let numbers = if shared { &launches[..1] } else { launches };
        words.extend(numbers.iter().flat_map(|launch| launch.numbers.words()));
        let all_numbers = if shared { 1 } else { most };
        words.resize(most * (1 + count) + all_numbers * Numbers::WORDS, 0);
        let blocks = ends[launches.len()];
        ends[most + 1] = launches.len() as u32;
        words.extend(
            ends.chunks(2).map(|pair| {
                u64::from(pair[0]) | u64::from(pair.get(1).copied().unwrap_or(0)) << 32
            }),
        );
        let shape = Shape { grid: [blocks.max(1), 1, 1], block: [THREADS, 1, 1], shared: 0 };
        let mut parameters = [words.as_mut_ptr().cast()];
        // SAFETY: the words are `Many` of this kernel; each launch's operands are dense, as long as its
        // number of elements says, and their storages are held until the launch is in the stream.
        unsafe { launch(kernel, shape, self.stream, &mut parameters) }
    }
}
