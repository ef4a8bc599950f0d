//! Windows of signal processing.

use crate::{Tensor, op};
use corten_core::{DType, Device, Layout, Result, Scalar, default_dtype, ensure};
use std::f64::consts::PI;

/// How the tensor is to be made.
#[derive(Clone, Copy)]
struct Options {
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
}

impl Options {
    fn check(self, name: &str, length: i64) -> Result<()> {
        if let Some(layout) = self.layout {
            ensure!(
                layout == Layout::Strided,
                Runtime,
                "{name} is not implemented for sparse types, got: {}",
                self.text()
            );
        }
        let floating =
            self.dtype.is_none_or(|dtype| dtype.is_floating_point() || dtype.is_complex());
        ensure!(floating, Runtime, "{name} expects floating point dtypes, got: {}", self.text());
        ensure!(
            length >= 0,
            Runtime,
            "{name} requires non-negative window_length, got window_length={length}"
        );
        Ok(())
    }

    fn text(self) -> String {
        let dtype = match self.dtype {
            Some(dtype) => crate::meta::cpp_name(dtype).to_owned(),
            None => format!("{} (default)", crate::meta::cpp_name(default_dtype())),
        };
        let device = self.device.unwrap_or(Device::CPU);
        let layout = match self.layout {
            None | Some(Layout::Strided) => "Strided (default)",
            Some(_) => "Sparse",
        };
        format!(
            "TensorOptions(dtype={dtype}, device={device}, layout={layout}, requires_grad=false \
             (default), pinned_memory=false, memory_format=(nullopt))"
        )
    }

    fn ones(self, length: i64) -> Result<Tensor> {
        op::ones(&[length], self.dtype, self.layout, self.device, self.pin_memory)
    }

    fn arange(self, length: i64) -> Result<Tensor> {
        let (dtype, end) = (self.dtype.or(Some(default_dtype())), Scalar::Int(length));
        op::arange(end, dtype, self.layout, self.device, self.pin_memory)
    }
}

/// A window over `length` points, of which a periodic one is one longer and cut.
fn window(
    name: &str,
    (length, periodic): (i64, bool),
    options: Options,
    shape: impl FnOnce(Tensor, f64) -> Result<Tensor>,
) -> Result<Tensor> {
    options.check(name, length)?;
    if length <= 1 {
        return options.ones(length);
    }
    let full = if periodic { length.saturating_add(1) } else { length };
    let values = shape(options.arange(full)?, (full - 1) as f64)?;
    if periodic { op::narrow(&values, 0, 0, length) } else { Ok(values) }
}

/// `tensor *= factor`.
fn scale(tensor: &Tensor, factor: f64) -> Result<Tensor> {
    op::mul__scalar(tensor, Scalar::Float(factor))
}

/// `tensor += by`.
fn shift(tensor: &Tensor, by: f64) -> Result<Tensor> {
    op::add__scalar(tensor, Scalar::Float(by), Scalar::Int(1))
}

fn cosine(
    length: i64,
    periodic: bool,
    alpha: f64,
    beta: f64,
    name: &str,
    o: Options,
) -> Result<Tensor> {
    window(name, (length, periodic), o, |n, last| {
        shift(&scale(&op::cos_(&scale(&n, PI * 2.0 / last)?)?, -beta)?, alpha)
    })
}

fn bartlett(length: i64, periodic: bool, o: Options) -> Result<Tensor> {
    window("bartlett_window", (length, periodic), o, |n, last| {
        let rising = scale(&n, 2.0 / last)?;
        let start = (last as i64) / 2 + 1;
        shift(&scale(&op::slice_tensor(&rising, 0, Some(start), None, 1)?, -1.0)?, 2.0)?;
        Ok(rising)
    })
}

fn blackman(length: i64, periodic: bool, o: Options) -> Result<Tensor> {
    window("blackman_window", (length, periodic), o, |n, last| {
        let n = scale(&n, PI / last)?;
        let fast = scale(&op::cos_(&op::mul_scalar(&n, Scalar::Float(4.0))?)?, 0.08)?;
        let slow = scale(&op::cos_(&scale(&n, 2.0)?)?, 0.5)?;
        shift(&op::sub__tensor(&fast, &slow, Scalar::Int(1))?, 0.42)
    })
}

fn kaiser(length: i64, periodic: bool, beta: f64, o: Options) -> Result<Tensor> {
    window("kaiser_window", (length, periodic), o, |n, last| {
        let centred = shift(&scale(&n, 2.0 / last)?, -1.0)?;
        let rest = shift(&op::neg_(&op::square_(&centred)?)?, 1.0)?;
        let root = scale(&op::sqrt_(&op::clamp_min_(&rest, Scalar::Int(0))?)?, beta)?;
        let double = Some(DType::Float64);
        let at_zero = op::scalar_tensor(Scalar::Float(beta), double, None, None, None)?;
        let most = op::i0(&at_zero)?.to_element::<f64>()?;
        op::div__scalar(&op::i0_(&root)?, Scalar::Float(most))
    })
}

/// Defines the overloads: their names, further arguments and what they call.
macro_rules! windows {
    ($($(#[$doc:meta])* $name:ident($($x:ident: $t:ty),*) = |$length:ident, $o:ident| $body:expr;)+) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        /// `Runtime` for a negative length, dtypes other than floating point and sparse layouts.
        pub fn $name(
            window_length: i64,
            $($x: $t,)*
            dtype: Option<DType>,
            layout: Option<Layout>,
            device: Option<Device>,
            pin_memory: Option<bool>,
        ) -> Result<Tensor> {
            let ($length, $o) = (window_length, Options { dtype, layout, device, pin_memory });
            $body
        }
    )+};
}

windows! {
    /// Bartlett's window, periodic.
    bartlett_window() = |n, o| bartlett(n, true, o);
    /// Bartlett's window.
    bartlett_window_periodic(periodic: bool) = |n, o| bartlett(n, periodic, o);
    /// Blackman's window, periodic.
    blackman_window() = |n, o| blackman(n, true, o);
    /// Blackman's window.
    blackman_window_periodic(periodic: bool) = |n, o| blackman(n, periodic, o);
    /// Hann's window, periodic.
    hann_window() = |n, o| cosine(n, true, 0.5, 0.5, "hann_window", o);
    /// Hann's window.
    hann_window_periodic(periodic: bool) = |n, o| cosine(n, periodic, 0.5, 0.5, "hann_window", o);
    /// Hamming's window, periodic.
    hamming_window() = |n, o| cosine(n, true, 0.54, 0.46, "hamming_window", o);
    /// Hamming's window.
    hamming_window_periodic(periodic: bool) = |n, o| {
        cosine(n, periodic, 0.54, 0.46, "hamming_window", o)
    };
    /// Hamming's window with another constant.
    hamming_window_periodic_alpha(periodic: bool, alpha: f64) = |n, o| {
        cosine(n, periodic, alpha, 0.46, "hamming_window", o)
    };
    /// Hamming's window with other constants.
    hamming_window_periodic_alpha_beta(periodic: bool, alpha: f64, beta: f64) = |n, o| {
        cosine(n, periodic, alpha, beta, "hamming_window", o)
    };
    /// Kaiser's window, periodic, with β = 12.
    kaiser_window() = |n, o| kaiser(n, true, 12.0, o);
    /// Kaiser's window with β = 12.
    kaiser_window_periodic(periodic: bool) = |n, o| kaiser(n, periodic, 12.0, o);
    /// Kaiser's window.
    kaiser_window_beta(periodic: bool, beta: f64) = |n, o| kaiser(n, periodic, beta, o);
}
