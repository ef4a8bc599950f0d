//! How exact products of matrices are, as `torch.backends.cuda.matmul` says.

use corten_core::{Result, are_deterministic_algorithms_enabled, bail, config, warn_once};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// Products of float32 may round their factors to TF32.
static TF32: AtomicBool = AtomicBool::new(false);
/// Products of float16 may add up in float16.
static HALF_SUMS: AtomicBool = AtomicBool::new(false);
/// What parts of split sums of float16 and of bfloat16 may be, see [`Reduction`].
static HALF_PARTS: AtomicU8 = AtomicU8::new(0);
static BFLOAT16_PARTS: AtomicU8 = AtomicU8::new(0);

/// Whether what is not deterministic only warns.
static ONLY_WARNS: AtomicBool = AtomicBool::new(false);

/// How a sum that is split may be put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Reduction {
    /// In any way.
    Any = 0,
    /// From parts in the precision of the sum.
    Exact = 1,
    /// Sums are not split.
    Unsplit = 2,
}

impl Reduction {
    fn from_number(number: u8) -> Self {
        match number {
            0 => Self::Any,
            1 => Self::Exact,
            _ => Self::Unsplit,
        }
    }
}

/// Whether products of float32 may use TF32.
pub fn tf32_allowed() -> bool {
    TF32.load(Ordering::Relaxed)
}

/// Lets products of float32 use TF32, or not.
pub fn allow_tf32(allowed: bool) {
    TF32.store(allowed, Ordering::Relaxed);
}

/// Whether products of float16 may add up in float16.
pub fn half_sums_allowed() -> bool {
    HALF_SUMS.load(Ordering::Relaxed)
}

/// Lets products of float16 add up in float16, or not.
pub fn allow_half_sums(allowed: bool) {
    HALF_SUMS.store(allowed, Ordering::Relaxed);
}

/// How split sums of float16, or of bfloat16, may be put together.
pub fn reduction(bfloat16: bool) -> Reduction {
    let place = if bfloat16 { &BFLOAT16_PARTS } else { &HALF_PARTS };
    Reduction::from_number(place.load(Ordering::Relaxed))
}

/// Sets what [`reduction`] says.
pub fn set_reduction(bfloat16: bool, reduction: Reduction) {
    let place = if bfloat16 { &BFLOAT16_PARTS } else { &HALF_PARTS };
    place.store(reduction as u8, Ordering::Relaxed);
}

/// Lets products whose environment does not promise the same results only warn of it.
pub fn only_warn_of_determinism(wanted: bool) {
    ONLY_WARNS.store(wanted, Ordering::Relaxed);
}

/// The most bytes of a workspace: `CUBLASLT_WORKSPACE_SIZE` in KiB, the sizes of `CUBLAS_WORKSPACE_CONFIG`
/// (pairs of KiB and number), or PyTorch's 32 MiB from Hopper on and 8 MiB before.
pub(crate) fn workspace_bytes(major: i32) -> usize {
    static GIVEN: OnceLock<Option<usize>> = OnceLock::new();
    let given = GIVEN.get_or_init(|| {
        let size = config::var("CUBLASLT_WORKSPACE_SIZE")
            .and_then(|size| size.trim().parse::<usize>().ok()?.checked_mul(1024));
        size.or_else(|| workspace_config(&config::var("CUBLAS_WORKSPACE_CONFIG")?))
    });
    given.unwrap_or(if major >= 9 { 32 << 20 } else { 8 << 20 })
}

/// The sum of `:SIZE:COUNT` pairs, or nothing for another text.
fn workspace_config(text: &str) -> Option<usize> {
    let numbers: Option<Vec<usize>> =
        text.trim().strip_prefix(':')?.split(':').map(|number| number.parse().ok()).collect();
    let numbers = numbers?;
    let whole = numbers.len() % 2 == 0;
    let bytes = numbers.chunks_exact(2).try_fold(0_usize, |sum, pair| {
        sum.checked_add(pair[0].checked_mul(1024)?.checked_mul(pair[1])?)
    });
    bytes.filter(|_| whole)
}

/// That the environment lets cuBLAS give the same results in every run, where that is asked for.
///
/// # Errors
/// `Runtime` in PyTorch's words.
pub(crate) fn check_deterministic() -> Result<()> {
    if !are_deterministic_algorithms_enabled() {
        return Ok(());
    }
    static FITS: OnceLock<bool> = OnceLock::new();
    let fits = FITS.get_or_init(|| {
        let given = config::var("CUBLAS_WORKSPACE_CONFIG");
        given.is_some_and(|given| given == ":4096:8" || given == ":16:8")
    });
    if *fits {
        return Ok(());
    }
    if ONLY_WARNS.load(Ordering::Relaxed) {
        static SAID: AtomicBool = AtomicBool::new(false);
        warn_once(&SAID, NOT_DETERMINISTIC);
        return Ok(());
    }
    bail!(Runtime, "{NOT_DETERMINISTIC}")
}

const NOT_DETERMINISTIC: &str = "Deterministic behavior was enabled with either \
    `torch.use_deterministic_algorithms(True)` or \
    `at::Context::setDeterministicAlgorithms(true)`, but this operation is not deterministic because \
    it uses CuBLAS and you have CUDA >= 10.2. To enable deterministic behavior in this case, you must \
    set an environment variable before running your PyTorch application: \
    CUBLAS_WORKSPACE_CONFIG=:4096:8 or CUBLAS_WORKSPACE_CONFIG=:16:8. For more information, go to \
    https://docs.nvidia.com/cuda/cublas/index.html#results-reproducibility";

#[cfg(test)]
mod tests {
    use super::workspace_config;

    #[test]
    fn workspaces_are_sums_of_pairs() {
        assert_eq!(workspace_config(":4096:8"), Some(32 << 20));
        assert_eq!(workspace_config(":4096:2:16:8"), Some((8 << 20) + (128 << 10)));
        for wrong in ["", "4096:8", ":4096", ":a:8", ":16:8:4"] {
            assert_eq!(workspace_config(wrong), None, "{wrong}");
        }
    }
}
