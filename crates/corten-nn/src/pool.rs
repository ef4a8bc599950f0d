//! Pooling.

use crate::module::Module;
use crate::parts;
use corten_core::Result;
use corten_ops::{Tensor, op};

/// Maxima over windows of images.
#[derive(Clone, Copy, Debug)]
pub struct MaxPool2d {
    /// Size of the window.
    pub kernel: [i64; 2],
    /// Steps between windows.
    pub stride: [i64; 2],
    /// Rows and columns added at both ends.
    pub padding: [i64; 2],
}

impl MaxPool2d {
    /// Windows beside each other.
    pub fn new(kernel: [i64; 2]) -> Self {
        Self { kernel, stride: kernel, padding: [0, 0] }
    }
}

impl Module for MaxPool2d {
    parts!();

    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        op::max_pool2d(input, &self.kernel, &self.stride, &self.padding, &[1, 1], false)
    }
}

/// Means over windows of images.
#[derive(Clone, Copy, Debug)]
pub struct AvgPool2d {
    /// Size of the window.
    pub kernel: [i64; 2],
    /// Steps between windows.
    pub stride: [i64; 2],
    /// Rows and columns added at both ends, which count in the means.
    pub padding: [i64; 2],
}

impl AvgPool2d {
    /// Windows beside each other.
    pub fn new(kernel: [i64; 2]) -> Self {
        Self { kernel, stride: kernel, padding: [0, 0] }
    }
}

impl Module for AvgPool2d {
    parts!();

    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        op::avg_pool2d(input, &self.kernel, &self.stride, &self.padding, false, true, None)
    }
}
