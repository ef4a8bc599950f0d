//! Which instruction set the loops use.

// Note [Instances]
// What is compiled for which element type, level and layout, since that is the size of the library:
//
// | loop                              | types                     | AVX-512 | AVX2 | baseline of x86-64 |
// |-----------------------------------|---------------------------|---------|------|--------------------|
// | pointwise, vectors                | f32, f64                  | yes     | yes  | functions called   |
// | pointwise, short operators        | f16, bf16 besides         | yes     | yes  | through f32        |
// | pointwise, results beyond caches  | f32, f64, f16, bf16       | lines   | non-temporal | no         |
// | pointwise, single elements        | integers, bool, complex   | as AVX2 | yes  | one at a time      |
// | rows (`RowKernel`)                | f32, f64                  | yes, but `run_narrow` | yes | not unrolled |
// | reductions, columns               | types of the fold         | where states stay in registers | yes | one at a time |
// | reductions, slices                | types of the fold         | as AVX2 | yes  | yes                |
// | cascade sum                       | f32, f64, f16, bf16, complex | as AVX2 | yes | yes               |
// | conversion                        | through wide types        | frequent pairs | yes | yes           |
// | copies, gather, index by position | 1, 2, 4, 8, 16 bytes      | –       | –    | yes                |
//
// Layouts are no dimension of it: see Note [Staging]. Other dtypes go through these: 8-bit floats and those
// of 16 bits of all other operators through f32, complex32 through complex64, index reductions and
// extrema with their places of short integers through i32, ranges through i64, f64, f32 or complex128.
// The baseline is for processors that are seldom met: its loops are right and small, and not fast.

use std::sync::OnceLock;

/// An instruction set level; a higher one includes the lower ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// What every processor of the architecture has.
    Baseline,
    /// AVX2, FMA and F16C.
    Avx2,
    /// AVX-512 F, BW, DQ and VL, beside those of `Avx2`.
    Avx512,
}

impl Level {
    /// The level's name in `CORTEN_CPU_CAPABILITY` and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Baseline => "default",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        }
    }

    /// The levels this processor can run, lowest first.
    pub fn available() -> impl Iterator<Item = Self> {
        [Self::Baseline, Self::Avx2, Self::Avx512].into_iter().filter(|&level| level <= highest())
    }
}

/// The level in use: the highest the processor has, or the one `CORTEN_CPU_CAPABILITY` names if
/// that is lower.
pub fn level() -> Level {
    static LEVEL: OnceLock<Level> = OnceLock::new();
    *LEVEL.get_or_init(|| {
        let wanted = corten_core::config::var("CORTEN_CPU_CAPABILITY");
        let named = Level::available().find(|level| Some(level.name()) == wanted.as_deref());
        named.unwrap_or_else(highest)
    })
}

#[cfg(target_arch = "x86_64")]
fn highest() -> Level {
    let avx2 = cfg!(feature = "avx2")
        && is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c");
    let avx512 = cfg!(feature = "avx512")
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl");
    match (avx2, avx512) {
        (true, true) => Level::Avx512,
        (true, false) => Level::Avx2,
        _ => Level::Baseline,
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn highest() -> Level {
    Level::Baseline
}
