//! Fourier transforms along one dimension or several, made of the three kernels.

mod frequencies;
mod lines;
mod shapes;
mod spaces;
mod windows;

pub use frequencies::*;
pub use lines::*;
pub use spaces::*;
pub use windows::{istft, stft, stft_center};
