//! The integers and scales of one block, out of their packing.

/// Elements of the largest block.
pub(crate) const MOST: usize = 256;
/// The most groups of a block.
pub(crate) const MOST_GROUPS: usize = 16;

/// One block with an integer to a byte.
///
/// Element `i` is `scales[i / group] * integers[i] - minimums[i / group]`, each step rounded to `f32`; formats without
/// minimums leave out the subtraction.
///
/// ```
/// use corten_blocks::{Format, Unpacked};
///
/// let mut bytes = [0; 18];
/// Format::Q4_0.quantize(&[-8.0; 32], &mut bytes)?;
/// let mut unpacked = Unpacked::new();
/// Format::Q4_0.unpack(&bytes, &mut unpacked)?;
/// assert_eq!((unpacked.integers[0], unpacked.scales[0]), (-8, 1.0));
/// # Ok::<(), corten_blocks::LengthError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Unpacked {
    /// The integers.
    pub integers: [i8; MOST],
    /// A scale for each group.
    pub scales: [f32; MOST_GROUPS],
    /// A minimum for each group.
    pub minimums: [f32; MOST_GROUPS],
}

impl Unpacked {
    /// A block of zeros.
    pub const fn new() -> Self {
        Self { integers: [0; MOST], scales: [0.0; MOST_GROUPS], minimums: [0.0; MOST_GROUPS] }
    }
}

impl Default for Unpacked {
    fn default() -> Self {
        Self::new()
    }
}

/// How the blocks of a format lie in memory.
pub(crate) trait Packing {
    /// Elements of a group with one scale.
    const GROUP: usize;
    /// Whether groups have minimums.
    const HAS_MINIMUMS: bool = false;

    /// Takes the scales and minimums out of a block. The slice has the bytes of one block.
    fn scales(bytes: &[u8], to: &mut Unpacked);

    /// Takes the integers out of a block.
    fn integers(bytes: &[u8], to: &mut [i8; MOST]);

    /// Takes a block apart.
    fn unpack(bytes: &[u8], to: &mut Unpacked) {
        Self::scales(bytes, to);
        Self::integers(bytes, &mut to.integers);
    }

    /// Makes the block nearest to some weights: as many as the block has, and as many bytes.
    fn pack(weights: &[f32], to: &mut [u8]);
}

/// The weights of whole blocks. Lengths were checked.
pub(crate) fn dequantize<P: Packing>(
    bytes: &[u8],
    nbytes: usize,
    out: &mut [f32],
    elements: usize,
) {
    let mut block = Unpacked::new();
    for (bytes, out) in bytes.chunks_exact(nbytes).zip(out.chunks_exact_mut(elements)) {
        P::unpack(bytes, &mut block);
        let groups = out.chunks_exact_mut(P::GROUP).zip(block.integers.chunks_exact(P::GROUP));
        for (group, (out, integers)) in groups.enumerate() {
            let (scale, minimum) = (block.scales[group], block.minimums[group]);
            for (out, &integer) in out.iter_mut().zip(integers) {
                let product = scale * f32::from(integer);
                *out = if P::HAS_MINIMUMS { product - minimum } else { product };
            }
        }
    }
}

/// The blocks of weights. Lengths were checked.
pub(crate) fn quantize<P: Packing>(
    weights: &[f32],
    elements: usize,
    out: &mut [u8],
    nbytes: usize,
) {
    for (weights, out) in weights.chunks_exact(elements).zip(out.chunks_exact_mut(nbytes)) {
        P::pack(weights, out);
    }
}

/// The number of two bytes in half precision.
pub(crate) fn half_at(bytes: &[u8], at: usize) -> f32 {
    half::f16::from_le_bytes([bytes[at], bytes[at + 1]]).to_f32()
}

/// Stores a number in half precision.
pub(crate) fn put_half(bytes: &mut [u8], at: usize, value: f32) {
    bytes[at..at + 2].copy_from_slice(&half::f16::from_f32(value).to_le_bytes());
}

/// What a scale is multiplied with to divide by it; 0 for 0, as GGML has it.
pub(crate) fn inverse(scale: f32) -> f32 {
    if scale == 0.0 { 0.0 } else { 1.0 / scale }
}
