//! Sequences of different lengths, padded or packed.

use corten_core::{DType, Result, Scalar, ensure};
use corten_ops::{Tensor, op};

/// Sequences of different lengths, step by step: the first elements of all, then the second, …
#[doc = example!("let a = Tensor::from_vec(vec![1.0f32, 2.0], &[2])?;
let b = Tensor::from_vec(vec![3.0f32], &[1])?;
let packed = pack_sequence(&[a, b], true)?;
assert_eq!(packed.data.to_vec::<f32>()?, [1.0, 3.0, 2.0]);
assert_eq!(packed.batch_sizes, [2, 1]);")]
#[derive(Clone)]
pub struct PackedSequence {
    /// The elements.
    pub data: Tensor,
    /// How many sequences reach each step.
    pub batch_sizes: Vec<i64>,
    /// Where the sequences, from the longest to the shortest, were in the batch.
    pub sorted_indices: Option<Tensor>,
    /// Where the sequences of the batch are among those sorted.
    pub unsorted_indices: Option<Tensor>,
}

impl PackedSequence {
    /// The same sequences with other elements.
    #[must_use]
    pub fn with_data(&self, data: Tensor) -> Self {
        Self { data, ..self.clone() }
    }

    /// How many sequences there are.
    pub fn batch_size(&self) -> i64 {
        self.batch_sizes.first().copied().unwrap_or(0)
    }
}

/// The permutation that undoes another.
///
/// # Errors
/// Those of the operators.
pub fn invert_permutation(permutation: &Tensor) -> Result<Tensor> {
    let inverse = op::empty_like(permutation, None, None, None, None, None)?;
    let count = permutation.numel();
    let places = op::arange(count.into(), None, None, Some(permutation.device()), None)?;
    op::scatter__src(&inverse, 0, permutation, &places)
}

/// Packs a padded (length, batch, …) tensor, or (batch, length, …) with `batch_first`, whose
/// sequences have the given lengths. Unless `enforce_sorted`, they may have any order.
///
/// # Errors
/// `Runtime` for lengths that do not fit, and sequences without elements.
#[doc = example!("let padded = op::ones(&[3, 2, 4], None, None, None, None)?;
let packed = pack_padded_sequence(&padded, &[1, 3], false, false)?;
assert_eq!(packed.batch_sizes, [2, 1, 1]);
let (back, lengths) = pad_packed_sequence(&packed, false, 0.0, None)?;
assert_eq!(back.sizes(), padded.sizes());
assert_eq!(lengths, [1, 3]);")]
pub fn pack_padded_sequence(
    input: &Tensor,
    lengths: &[i64],
    batch_first: bool,
    enforce_sorted: bool,
) -> Result<PackedSequence> {
    ensure!(input.numel() > 0, Runtime, "Cannot pack empty tensors.");
    let mut input = input.clone();
    let mut counts = lengths.to_vec();
    let mut order = None;
    if !enforce_sorted {
        // As `sort(descending=True)`, which is stable in PyTorch on the CPU.
        let mut places: Vec<usize> = (0..counts.len()).collect();
        places.sort_by_key(|place| std::cmp::Reverse(lengths[*place]));
        counts = places.iter().map(|place| lengths[*place]).collect();
        let places: Vec<i64> = places.into_iter().map(|place| place as i64).collect();
        let count = places.len() as i64;
        let places = to_device(&Tensor::from_vec(places, &[count])?, &input)?;
        input = op::index_select(&input, i64::from(!batch_first), &places)?;
        order = Some(places);
    }
    if batch_first {
        input = op::transpose_int(&input, 0, 1)?;
    }
    check_lengths(&counts, &input)?;
    let batch_sizes = batch_sizes(&counts);
    let steps = batch_sizes.iter().enumerate();
    let pieces = steps
        .map(|(step, size)| op::narrow(&op::select_int(&input, 0, step as i64)?, 0, 0, *size))
        .collect::<Result<Vec<_>>>()?;
    let unsorted_indices = order.as_ref().map(invert_permutation).transpose()?;
    let data = op::cat(&pieces, 0)?;
    Ok(PackedSequence { data, batch_sizes, sorted_indices: order, unsorted_indices })
}

fn to_device(tensor: &Tensor, like: &Tensor) -> Result<Tensor> {
    op::to_device(tensor, like.device(), tensor.dtype(), false, false, None)
}

fn check_lengths(counts: &[i64], input: &Tensor) -> Result<()> {
    ensure!(
        input.dim() >= 2,
        Runtime,
        "input must have 2 dimensions or more, for lengths and samples, got {}",
        input.dim()
    );
    let batch = input.size(1)?;
    ensure!(
        counts.len() as i64 == batch,
        Runtime,
        "Expected `len(lengths)` to be equal to batch_size, but got {} (batch_size={batch})",
        counts.len()
    );
    ensure!(
        counts.iter().all(|count| *count > 0),
        Runtime,
        "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0"
    );
    ensure!(
        counts.is_sorted_by(|a, b| a >= b),
        Runtime,
        "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass `enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this requirement if you do not need ONNX exportability."
    );
    let length = input.size(0)?;
    ensure!(
        counts[0] <= length,
        Runtime,
        "Expected `lengths` to be at most {length}, but got {}",
        counts[0]
    );
    Ok(())
}

/// How many of the lengths, which fall, reach each step.
fn batch_sizes(counts: &[i64]) -> Vec<i64> {
    let steps = counts.first().copied().unwrap_or(0);
    (0..steps).map(|step| counts.iter().filter(|count| **count > step).count() as i64).collect()
}

/// The padded tensor of packed sequences, and their lengths; at least `total_length` long.
///
/// # Errors
/// `Value` for a total length that is too short.
pub fn pad_packed_sequence(
    sequence: &PackedSequence,
    batch_first: bool,
    padding_value: f64,
    total_length: Option<i64>,
) -> Result<(Tensor, Vec<i64>)> {
    let sizes = &sequence.batch_sizes;
    let (steps, batch) = (sizes.len() as i64, sequence.batch_size());
    let length = total_length.unwrap_or(steps);
    ensure!(
        length >= steps,
        Value,
        "Expected total_length to be at least the length of the longest sequence in input, but got total_length={length} and max sequence length being {steps}"
    );
    let value = Scalar::Float(padding_value);
    let filled = |leading: &[i64]| {
        let rest = sequence.data.sizes();
        let shape: Vec<i64> = leading.iter().chain(&rest[1..]).copied().collect();
        op::new_full(&sequence.data, &shape, value, None, None, None, None)
    };
    let mut rows = Vec::with_capacity(sizes.len());
    for piece in op::split_with_sizes(&sequence.data, sizes, 0)? {
        let missing = batch - piece.size(0)?;
        rows.push(if missing > 0 { op::cat(&[piece, filled(&[missing])?], 0)? } else { piece });
    }
    let mut padded = op::stack(&rows, 0)?;
    if length > steps {
        padded = op::cat(&[padded, filled(&[length - steps, batch])?], 0)?;
    }
    let reached = |place: i64| sizes.iter().filter(|size| **size > place).count() as i64;
    let mut lengths: Vec<i64> = (0..batch).map(reached).collect();
    if batch_first {
        padded = op::transpose_int(&padded, 0, 1)?;
    }
    if let Some(order) = &sequence.unsorted_indices {
        padded = op::index_select(&padded, i64::from(!batch_first), order)?;
        let places =
            op::to_device(order, corten_core::Device::CPU, DType::Int64, false, false, None)?;
        lengths = places.to_vec::<i64>()?.iter().map(|place| lengths[*place as usize]).collect();
    }
    Ok((padded, lengths))
}

/// On which side [`pad_sequence`] fills up.
///
/// ```
/// assert_eq!(corten::nn::PaddingSide::default(), corten::nn::PaddingSide::Right);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PaddingSide {
    /// Before the elements.
    Left,
    /// Behind them.
    #[default]
    Right,
}

/// Stacks tensors of different lengths, filled up with a value.
///
/// # Errors
/// `Runtime` without tensors, and those of the operators.
#[doc = example!("let (a, b) = (Tensor::from_vec(vec![1i64, 2], &[2])?, Tensor::from_vec(vec![3i64], &[1])?);
let padded = pad_sequence(&[a, b], true, 0.0, PaddingSide::Right)?;
assert_eq!(padded.to_vec::<i64>()?, [1, 2, 3, 0]);")]
pub fn pad_sequence(
    sequences: &[Tensor],
    batch_first: bool,
    padding_value: f64,
    padding_side: PaddingSide,
) -> Result<Tensor> {
    ensure!(!sequences.is_empty(), Runtime, "received an empty list of sequences");
    let lengths = sequences.iter().map(|sequence| sequence.size(0)).collect::<Result<Vec<_>>>()?;
    let length = lengths.iter().copied().max().unwrap_or(0);
    // Bounded: the sequences that there are.
    let mut rows = Vec::with_capacity(sequences.len());
    for (sequence, own) in sequences.iter().zip(&lengths) {
        let mut shape = sequence.sizes().as_slice().to_vec();
        shape[0] = length - own;
        let value = Scalar::Float(padding_value);
        let fill = op::new_full(sequence, &shape, value, None, None, None, None)?;
        let pair = match padding_side {
            PaddingSide::Right => [sequence.clone(), fill],
            PaddingSide::Left => [fill, sequence.clone()],
        };
        rows.push(op::cat(&pair, 0)?);
    }
    op::stack(&rows, i64::from(!batch_first))
}

/// The tensors that [`pad_sequence`] stacked.
///
/// # Errors
/// Those of the operators.
pub fn unpad_sequence(padded: &Tensor, lengths: &[i64], batch_first: bool) -> Result<Vec<Tensor>> {
    let rows = op::unbind_int(padded, i64::from(!batch_first))?;
    rows.iter().zip(lengths).map(|(row, length)| op::narrow(row, 0, 0, *length)).collect()
}

/// Packs tensors of different lengths.
///
/// # Errors
/// As [`pad_sequence`] and [`pack_padded_sequence`].
pub fn pack_sequence(sequences: &[Tensor], enforce_sorted: bool) -> Result<PackedSequence> {
    let lengths = sequences.iter().map(|sequence| sequence.size(0)).collect::<Result<Vec<_>>>()?;
    let padded = pad_sequence(sequences, false, 0.0, PaddingSide::Right)?;
    pack_padded_sequence(&padded, &lengths, false, enforce_sorted)
}

/// The tensors that [`pack_sequence`] packed.
///
/// # Errors
/// Those of the operators.
pub fn unpack_sequence(packed: &PackedSequence) -> Result<Vec<Tensor>> {
    let (padded, lengths) = pad_packed_sequence(packed, true, 0.0, None)?;
    unpad_sequence(&padded, &lengths, true)
}
