//! Reductions of whole tensors of a list, put off and made two launches; as pointwise launches are in
//! [`joint`](crate::joint).

use crate::compile::{Function, Key, Program, function};
use crate::launch::{Shape, THREADS, launch};
use crate::memory::CudaAllocator;
use crate::reduction::Reduction;
use crate::stream::Stream;
use crate::text;
use corten_core::{Allocator, DType, Result, Storage};
use corten_ops::TensorIterator;
use std::cell::RefCell;
use std::ops::Range;

/// The most reductions of a launch; as in `reduce.cuh`.
const MOST: usize = 64;
/// Elements that a block takes; as in `reduce.cuh`.
const CHUNK: u64 = 1 << 14;

thread_local! {
    static KEPT: RefCell<Option<Kept>> = const { RefCell::new(None) };
}

/// A reduction of neighbouring elements that is put off.
struct Whole {
    steps: u64,
    input: Range<usize>,
    output: Range<usize>,
    /// What these lie in.
    _storages: [Storage; 2],
}

impl Whole {
    /// Whether the order of two reductions matters.
    fn meets(&self, other: &Self) -> bool {
        let overlap = |a: &Range<usize>, b: &Range<usize>| a.start < b.end && b.start < a.end;
        overlap(&self.output, &other.output)
            || overlap(&self.output, &other.input)
            || overlap(&self.input, &other.output)
    }
}

/// Reductions of one kind in one stream.
struct Kept {
    reduction: Reduction,
    dtypes: [DType; 2],
    stream: Stream,
    all: Vec<Whole>,
}

/// Keeps a reduction of `steps` neighbouring elements to one number.
///
/// # Errors
/// Those of launching what is kept and cannot stay.
pub(crate) fn keep(
    reduction: Reduction,
    iter: &TensorIterator,
    steps: i64,
    [output, input]: [*mut u8; 2],
) -> Result<()> {
    let dtypes = [iter.dtype(0), iter.dtype(1)];
    let bytes =
        |at: *mut u8, count: usize, dtype: DType| at.addr()..at.addr() + count * dtype.itemsize();
    let whole = Whole {
        steps: steps as u64,
        input: bytes(input, steps as usize, dtypes[1]),
        output: bytes(output, 1, dtypes[0]),
        _storages: [iter.tensor(0).storage()?, iter.tensor(1).storage()?],
    };
    let stream = Stream::current(iter.device().index);
    let joins = KEPT.with_borrow(|kept| {
        kept.as_ref().is_some_and(|kept| {
            std::ptr::eq(kept.reduction.accumulator, reduction.accumulator)
                && kept.reduction.number.to_bits() == reduction.number.to_bits()
                && (kept.dtypes, kept.reduction.dtype) == (dtypes, reduction.dtype)
                && kept.stream == stream
                && kept.all.len() < MOST
                && !kept.all.iter().any(|other| other.meets(&whole))
        })
    });
    if !joins {
        crate::joint::flush()?;
    }
    KEPT.with_borrow_mut(|kept| {
        let new = || Kept { reduction, dtypes, stream, all: Vec::new() };
        kept.get_or_insert_with(new).all.push(whole);
    });
    Ok(())
}

/// Launches what is put off.
///
/// # Errors
/// Those of compiling and of the driver; `OutOfMemory`.
pub(crate) fn flush() -> Result<()> {
    if !KEPT.with_borrow(Option::is_some) {
        return Ok(());
    }
    KEPT.take().map_or(Ok(()), |kept| kept.launch())
}

impl Kept {
    fn function(&self, second: bool) -> Result<Function> {
        let Reduction { accumulator, dtype, .. } = self.reduction;
        let [output, input] = self.dtypes;
        let none = DType::Undefined;
        let key = Key {
            device: self.stream.device(),
            operator: accumulator.as_ptr().addr(),
            dtypes: [output, input, dtype, none, none, none],
            variant: 1 << 30 | u32::from(second),
        };
        function(key, || {
            let value = text::value_type(dtype);
            let accumulator = accumulator.replace("{}", value);
            let [output, input] = [output, input].map(text::storage_type);
            let expression = match second {
                false => format!("ct::reduce_many<{accumulator}, {value}, {input}>"),
                true => format!("ct::reduce_many_ends<{accumulator}, {output}>"),
            };
            let text = vec![text::TYPES, text::MATH, text::POINTWISE, text::REDUCE];
            Program { text, own: String::new(), expression }
        })
    }

    fn launch(&self) -> Result<()> {
        let (first, second) = (self.function(false)?, self.function(true)?);
        // `ManyReductions` of `reduce.cuh` in words of 64 bits.
        let mut words = vec![0_u64; 3 * MOST];
        let mut ends = vec![0_u32; MOST + 2];
        for (i, whole) in self.all.iter().enumerate() {
            words[i] = whole.steps;
            words[MOST + i] = whole.input.start as u64;
            words[2 * MOST + i] = whole.output.start as u64;
            ends[i + 1] = ends[i] + whole.steps.div_ceil(CHUNK).max(1) as u32;
        }
        let blocks = ends[self.all.len()];
        ends[MOST + 1] = self.all.len() as u32;
        words.push(self.reduction.number.to_bits());
        words.extend(ends.chunks(2).map(|pair| u64::from(pair[0]) | u64::from(pair[1]) << 32));
        let bytes = self.reduction.bytes;
        let partial = CudaAllocator.allocate_on(blocks as usize * bytes, self.stream.device())?;
        let mut at = partial.get();
        let mut parameters = [words.as_mut_ptr().cast(), (&raw mut at).cast()];
        let shared = THREADS / 2 * bytes as u32;
        let over = |blocks: u32| Shape { grid: [blocks, 1, 1], block: [THREADS / 2, 1, 1], shared };
        // SAFETY: the words are `ManyReductions`; the elements of each lie side by side, their storages are held
        // until the launches are in the stream, and so is the memory of partial results.
        unsafe {
            launch(first, over(blocks), self.stream, &mut parameters)?;
            launch(second, over(self.all.len() as u32), self.stream, &mut parameters)
        }
    }
}
