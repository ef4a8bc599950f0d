//! The text of the kernels, and the names of dtypes in it.

use corten_core::DType;

/// Element types and their conversions.
pub(crate) const TYPES: &str = include_str!("../kernels/types.cuh");
/// The primitives of expressions.
pub(crate) const MATH: &str = include_str!("../kernels/math.cuh");
/// Special functions: without the tables before them.
const SPECIAL: &str = include_str!("../kernels/special.cuh");
/// The incomplete gamma functions.
const INCOMPLETE: &str = include_str!("../kernels/incomplete.cuh");
/// Orthogonal polynomials.
const POLYNOMIALS: &str = include_str!("../kernels/polynomials.cuh");
/// Special functions with their tables.
pub(crate) const SPECIALS: [&str; 2] = [crate::generated::TABLES, SPECIAL];

/// The texts that the text of an expression names in its first line (`// needs …`).
pub(crate) fn needed(text: &str) -> Vec<&'static str> {
    let first = text.lines().next().and_then(|line| line.strip_prefix("// needs "));
    let Some(names) = first else { return Vec::new() };
    let named = names.split(' ').filter_map(|name| match name {
        "incomplete" => Some(INCOMPLETE),
        "polynomials" => Some(POLYNOMIALS),
        _ => None,
    });
    SPECIALS.into_iter().chain(named).collect()
}

/// Pointwise kernels.
pub(crate) const POINTWISE: &str = include_str!("../kernels/pointwise.cuh");

/// Reductions.
pub(crate) const REDUCE: &str = include_str!("../kernels/reduce.cuh");

/// Softmax, and what blocks combine.
pub(crate) const SOFTMAX: &str = include_str!("../kernels/softmax.cuh");

/// Products of matrices.
pub(crate) const GEMM: &str = include_str!("../kernels/gemm.cuh");

/// Gathering and scattering by indices.
pub(crate) const INDEX: &str = include_str!("../kernels/index.cuh");

/// Tensors one after another.
pub(crate) const COMBINE: &str = include_str!("../kernels/combine.cuh");

/// Elements that follow from their position.
pub(crate) const FACTORY: &str = include_str!("../kernels/factory.cuh");

/// Random numbers.
pub(crate) const RANDOM: &str = include_str!("../kernels/random.cuh");

/// Running sums, products and extrema.
pub(crate) const SCAN: &str = include_str!("../kernels/scan.cuh");

/// Losses of class indices and of probabilities.
pub(crate) const LOSS: &str = include_str!("../kernels/loss.cuh");

/// Positions of the true elements of a mask.
pub(crate) const SELECT: &str = include_str!("../kernels/select.cuh");

/// Sorting and searching.
pub(crate) const SORT: &str = include_str!("../kernels/sort.cuh");

/// Steps of optimizers.
pub(crate) const OPTIM: &str = include_str!("../kernels/optim.cuh");

/// Normalisation.
pub(crate) const NORM: &str = include_str!("../kernels/norm.cuh");

/// Convolutions.
pub(crate) const CONV: &str = include_str!("../kernels/conv.cuh");

/// Products of small matrices by warps, and what they are loaded with.
pub(crate) const MMA: &str = include_str!("../kernels/mma.cuh");

/// Products of matrices by tensor cores.
pub(crate) const GEMM_MMA: &str = include_str!("../kernels/gemm_mma.cuh");

/// Attention.
pub(crate) const ATTENTION: &str = include_str!("../kernels/attention.cuh");

/// Steps of recurrent networks.
pub(crate) const RNN: &str = include_str!("../kernels/rnn.cuh");

/// Sums over alignments.
pub(crate) const CTC: &str = include_str!("../kernels/ctc.cuh");

/// Dropout.
pub(crate) const DROPOUT: &str = include_str!("../kernels/dropout.cuh");
/// Fourier transforms.
pub(crate) const FFT: &str = include_str!("../kernels/fft.cuh");

/// Factorisations of matrices and what is solved with them.
pub(crate) const LINALG: &str = include_str!("../kernels/linalg.cuh");

/// Factors of indefinite matrices.
pub(crate) const LDL: &str = include_str!("../kernels/ldl.cuh");

/// Eigenvalues and singular values.
pub(crate) const JACOBI: &str = include_str!("../kernels/jacobi.cuh");
/// Bags of rows of a table.
pub(crate) const BAG: &str = include_str!("../kernels/bag.cuh");

/// Histograms.
pub(crate) const HISTOGRAM: &str = include_str!("../kernels/histogram.cuh");

/// Reductions of segments.
pub(crate) const SEGMENT: &str = include_str!("../kernels/segment.cuh");

/// The margin loss of several labels.
pub(crate) const MARGIN: &str = include_str!("../kernels/margin.cuh");

/// Distributions by rejection.
pub(crate) const SAMPLING: &str = include_str!("../kernels/sampling.cuh");

/// Slopes of samples.
pub(crate) const SLOPES: &str = include_str!("../kernels/slopes.cuh");

/// Bits of floating-point numbers.
pub(crate) const FLOAT_BITS: &str = include_str!("../kernels/float_bits.cuh");

/// Convolutions whose taps are moved.
pub(crate) const DEFORM: &str = include_str!("../kernels/deform.cuh");

/// Overlapping boxes.
pub(crate) const BOXES: &str = include_str!("../kernels/boxes.cuh");

/// Regions of images.
pub(crate) const REGIONS: &str = include_str!("../kernels/regions.cuh");

/// Hashes of contents.
pub(crate) const HASH: &str = include_str!("../kernels/hash.cuh");

/// Sorting rows.
pub(crate) const UNIQUE: &str = include_str!("../kernels/unique.cuh");

/// Sliding blocks of images.
pub(crate) const UNFOLD: &str = include_str!("../kernels/unfold.cuh");

/// Distances between rows.
pub(crate) const DISTANCE: &str = include_str!("../kernels/distance.cuh");

/// Batches of images.
pub(crate) const IMAGE: &str = include_str!("../kernels/image.cuh");

/// Pooling over windows.
pub(crate) const POOL: &str = include_str!("../kernels/pool.cuh");

/// Interpolation.
pub(crate) const UPSAMPLE: &str = include_str!("../kernels/upsample.cuh");

/// Values at the points of a grid.
pub(crate) const GRID: &str = include_str!("../kernels/grid.cuh");
/// Waiting.
pub(crate) const SLEEP: &str = include_str!("../kernels/sleep.cuh");

/// The type in which elements of a dtype lie in memory.
pub(crate) fn storage_type(dtype: DType) -> &'static str {
    match dtype {
        DType::UInt8 => "ct::u8",
        DType::Int8 => "ct::i8",
        DType::Int16 => "ct::i16",
        DType::Int32 => "ct::i32",
        DType::Int64 => "ct::i64",
        DType::UInt16 => "ct::u16",
        DType::UInt32 => "ct::u32",
        DType::UInt64 => "ct::u64",
        DType::Float16 => "ct::Half",
        DType::BFloat16 => "ct::BFloat16",
        DType::Float64 => "double",
        DType::Complex32 => "ct::HalfComplex",
        DType::BComplex32 => "ct::BFloat16Complex",
        DType::Complex64 => "ct::Complex<float>",
        DType::Complex128 => "ct::Complex<double>",
        DType::Bool => "bool",
        DType::Float8E5m2 => "ct::F8E5M2",
        DType::Float8E4m3fn => "ct::F8E4M3FN",
        DType::Float8E5m2fnuz => "ct::F8E5M2FNUZ",
        DType::Float8E4m3fnuz => "ct::F8E4M3FNUZ",
        DType::Float8E8m0fnu => "ct::F8E8M0FNU",
        DType::Float32 | DType::Undefined => "float",
        // Bits that are moved, not computed with.
        stored_only => match stored_only.itemsize() {
            1 => "ct::u8",
            2 => "ct::u16",
            _ => "ct::i32",
        },
    }
}

/// The type in which kernels compute with elements of a dtype.
pub(crate) fn value_type(dtype: DType) -> &'static str {
    match dtype {
        DType::UInt8 => "ct::Int<ct::u8>",
        DType::Int8 => "ct::Int<ct::i8>",
        DType::Int16 => "ct::Int<ct::i16>",
        DType::Int32 => "ct::Int<ct::i32>",
        DType::Int64 => "ct::Int<ct::i64>",
        DType::UInt16 => "ct::Int<ct::u16>",
        DType::UInt32 => "ct::Int<ct::u32>",
        DType::UInt64 => "ct::Int<ct::u64>",
        DType::Float64 => "double",
        DType::Complex32 | DType::BComplex32 | DType::Complex64 => "ct::Complex<float>",
        DType::Complex128 => "ct::Complex<double>",
        DType::Bool => "ct::Truth",
        stored_only if !stored_only.is_numeric() && stored_only != DType::Undefined => {
            match stored_only.itemsize() {
                1 => "ct::Int<ct::u8>",
                2 => "ct::Int<ct::u16>",
                _ => "ct::Int<ct::i32>",
            }
        }
        _ => "float",
    }
}
