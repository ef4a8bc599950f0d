//! Fourier transforms along one dimension or several, made of the three kernels.

mod frequencies;
mod shapes;
mod spaces;
mod transforms;
mod windows;

pub use frequencies::*;
pub use spaces::*;
pub use transforms::*;
pub use windows::{istft, stft, stft_center};
