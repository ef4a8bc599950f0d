//! Transforms of the windows of a signal, and the signal back from them.

use crate::composite::support::{defined, tensor_type_name};
use crate::{Tensor, batched, op};
use corten_core::{DispatchKey, Result, Scalar, bail, ensure, err, tls, warn_once};
use std::fmt::Display;
use std::sync::atomic::AtomicBool;

/// The shape of a short-time transform.
struct Windows {
    n_fft: i64,
    hop: i64,
    length: i64,
}

impl Windows {
    fn new(n_fft: i64, hop_length: Option<i64>, win_length: Option<i64>) -> Self {
        Self { n_fft, hop: hop_length.unwrap_or(n_fft >> 2), length: win_length.unwrap_or(n_fft) }
    }

    /// The window with zeros on both sides, as long as the transform.
    fn padded(&self, window: &Tensor) -> Result<Tensor> {
        let left = (self.n_fft - self.length) / 2;
        let right = self.n_fft - self.length - left;
        op::constant_pad_nd(window, &[left, right], Scalar::Int(0))
    }
}

/// Whether functions of Python see every call: what depends on values is no part of what they record.
fn is_traced() -> bool {
    tls::local_include().has(DispatchKey::Python)
}

fn shown<T: Display>(value: Option<T>) -> String {
    value.map_or_else(|| "None".to_owned(), |value| value.to_string())
}

fn described(input: &Tensor, windows: &Windows, window: Option<&Tensor>) -> String {
    let window = window.map(|window| {
        format!("{}{{{:?}}}", tensor_type_name(window.dtype()), window.sizes().as_slice())
    });
    format!(
        "{}{:?}, n_fft={}, hop_length={}, win_length={}, window={}",
        tensor_type_name(input.dtype()),
        input.sizes().as_slice(),
        windows.n_fft,
        windows.hop,
        windows.length,
        shown(window)
    )
}

/// The transforms of the windows of a signal.
///
/// # Errors
/// `Runtime` for shapes and lengths that do not fit, `NotImplemented` for integers.
pub fn stft(
    self_: &Tensor,
    n_fft: i64,
    hop_length: Option<i64>,
    win_length: Option<i64>,
    window: Option<&Tensor>,
    normalized: bool,
    onesided: Option<bool>,
    return_complex: Option<bool>,
    align_to_window: Option<bool>,
) -> Result<Tensor> {
    stft_center(
        self_,
        n_fft,
        hop_length,
        win_length,
        window,
        false,
        "constant",
        normalized,
        onesided,
        return_complex,
        align_to_window,
    )
}

/// The transforms of the windows of a signal that is padded with `center`.
///
/// # Errors
/// As [`stft`].
pub fn stft_center(
    self_: &Tensor,
    n_fft: i64,
    hop_length: Option<i64>,
    win_length: Option<i64>,
    window: Option<&Tensor>,
    center: bool,
    pad_mode: &str,
    normalized: bool,
    onesided: Option<bool>,
    return_complex: Option<bool>,
    align_to_window: Option<bool>,
) -> Result<Tensor> {
    let window = defined(window);
    if window.is_none() {
        static SAID: AtomicBool = AtomicBool::new(false);
        warn_about_window(
            &SAID,
            "A rectangular window will be applied,which is known to cause spectral leakage. Other \
             windows such as torch.hann_window or torch.hamming_window are recommended to reduce \
             spectral leakage.",
        );
    }
    ensure!(
        !center || align_to_window.is_none(),
        Runtime,
        "stft align_to_window should only be set when center = false"
    );
    let windows = Windows::new(n_fft, hop_length, win_length);
    let complex = returns_complex(self_, window, return_complex)?;
    let options = format!(
        "normalized={}, onesided={}, return_complex={}, align_to_window={}",
        u8::from(normalized),
        shown(onesided.map(u8::from)),
        shown(return_complex.map(u8::from)),
        shown(align_to_window.map(u8::from))
    );
    let named = || format!("stft({}, {options}) ", described(self_, &windows, window));
    check_signal(self_, &named)?;
    let mut input = if self_.dim() == 1 { op::unsqueeze(self_, 0)? } else { self_.clone() };
    if center {
        input = centered(&input, n_fft, pad_mode)?;
    }
    check_windows(&input, &windows, window, align_to_window == Some(true), &named)?;
    if align_to_window == Some(true) {
        input = windows.padded(&input)?;
    }
    let spectrum = transformed(self_, &input, &windows, window, normalized, onesided)?;
    let spectrum = op::transpose_int(&spectrum, 1, 2)?;
    let spectrum = if self_.dim() == 1 { op::squeeze_dim(&spectrum, 0)? } else { spectrum };
    if complex { Ok(spectrum) } else { op::view_as_real(&spectrum) }
}

fn warn_about_window(said: &AtomicBool, what: &str) {
    warn_once(
        said,
        format!(
            "A window was not provided. {what}To suppress this warning and use a rectangular \
             window, explicitly set `window=torch.ones(n_fft, device=<device>)`."
        ),
    );
}

fn returns_complex(
    input: &Tensor,
    window: Option<&Tensor>,
    return_complex: Option<bool>,
) -> Result<bool> {
    static SAID: AtomicBool = AtomicBool::new(false);
    let is_complex = |tensor: &Tensor| tensor.dtype().is_complex();
    let complex = return_complex.unwrap_or(is_complex(input) || window.is_some_and(is_complex));
    if !complex {
        ensure!(
            return_complex.is_some(),
            Runtime,
            "stft requires the return_complex parameter be given for real inputs, and will \
             further require that return_complex=True in a future PyTorch release."
        );
        warn_once(
            &SAID,
            "stft with return_complex=False is deprecated. In a future pytorch release, stft will \
             return complex tensors for all inputs, and return_complex=False will raise an \
             error.\nNote: you can still call torch.view_as_real on the complex output to recover \
             the old return format.",
        );
    }
    Ok(complex)
}

fn check_signal(input: &Tensor, named: &dyn Fn() -> String) -> Result<()> {
    ensure!(
        input.dtype().is_floating_point() || input.dtype().is_complex(),
        NotImplemented,
        "{}: expected a tensor of floating point or complex values",
        named()
    );
    let fits = (1..=2).contains(&input.dim());
    ensure!(fits, Runtime, "{}: expected a 1D or 2D tensor", named());
    Ok(())
}

/// A signal with half a window more on both sides.
fn centered(input: &Tensor, n_fft: i64, mode: &str) -> Result<Tensor> {
    let amount = n_fft / 2;
    let padded = op::pad(&op::unsqueeze(input, 0)?, &[amount, amount], mode, None)?;
    op::squeeze_dim(&padded, 0)
}

fn check_windows(
    input: &Tensor,
    windows: &Windows,
    window: Option<&Tensor>,
    align: bool,
    named: &dyn Fn() -> String,
) -> Result<()> {
    let &Windows { n_fft, hop, length } = windows;
    let signal = input.size(1)?;
    let needed = if align { length } else { n_fft };
    ensure!(
        n_fft > 0 && needed <= signal,
        Runtime,
        "{}: expected 0 < n_fft < {signal}, but got n_fft={length}",
        named()
    );
    ensure!(hop > 0, Runtime, "{}: expected hop_length > 0, but got hop_length={hop}", named());
    ensure!(
        0 < length && length <= n_fft,
        Runtime,
        "{}: expected 0 < win_length <= n_fft, but got win_length={length}",
        named()
    );
    if let Some(window) = window {
        let sizes = window.sizes();
        ensure!(
            sizes.as_slice() == [length],
            Runtime,
            "{}: expected a 1D window tensor of size equal to win_length={length}, but got window \
             with size {:?}",
            named(),
            sizes.as_slice()
        );
    }
    Ok(())
}

/// The spectra of the windows of a padded signal, one row each.
fn transformed(
    signal: &Tensor,
    input: &Tensor,
    windows: &Windows,
    window: Option<&Tensor>,
    normalized: bool,
    onesided: Option<bool>,
) -> Result<Tensor> {
    let mut frames = op::unfold(input, 1, windows.n_fft, windows.hop)?;
    if windows.length < windows.n_fft {
        let (dtype, device) = (Some(signal.dtype()), Some(signal.device()));
        let window = match window {
            Some(window) => windows.padded(window)?,
            None => windows.padded(&op::ones(&[windows.length], dtype, None, device, None)?)?,
        };
        frames = op::mul_tensor(&frames, &window)?;
    } else if let Some(window) = window {
        frames = op::mul_tensor(&frames, window)?;
    }
    let complex = frames.dtype().is_complex();
    let onesided = onesided.unwrap_or(!complex);
    let normalization = i64::from(normalized);
    if !complex {
        return op::_fft_r2c(&frames, &[2], normalization, onesided);
    }
    check_both_sides(onesided)?;
    op::_fft_c2c(&frames, &[2], normalization, true)
}

fn check_both_sides(onesided: bool) -> Result<()> {
    ensure!(!onesided, Runtime, "Cannot have onesided output if window or input is complex");
    Ok(())
}

/// The signal whose windows have these transforms, by least squares.
///
/// # Errors
/// `Type` for real numbers, `Runtime` for shapes and lengths that do not fit, and where the
/// windows leave a part of the signal out.
pub fn istft(
    self_: &Tensor,
    n_fft: i64,
    hop_length: Option<i64>,
    win_length: Option<i64>,
    window: Option<&Tensor>,
    center: bool,
    normalized: bool,
    onesided: Option<bool>,
    length: Option<i64>,
    return_complex: bool,
) -> Result<Tensor> {
    let window = defined(window);
    if window.is_none() {
        static SAID: AtomicBool = AtomicBool::new(false);
        warn_about_window(
            &SAID,
            "A rectangular window will be applied.Please provide the same window used by stft to \
             make the inversion lossless.",
        );
    }
    let windows = Windows::new(n_fft, hop_length, win_length);
    ensure!(
        self_.dtype().is_complex(),
        Type,
        "istft requires a complex-valued input tensor matching the output from stft with \
         return_complex=True."
    );
    let named = || {
        format!(
            "istft({}, center={}, normalized={}, onesided={}, length={}, return_complex={}) ",
            described(self_, &windows, window),
            u8::from(center),
            u8::from(normalized),
            shown(onesided.map(u8::from)),
            shown(length),
            u8::from(return_complex)
        )
    };
    let onesided = check_spectrum(self_, &windows, window, onesided, &named)?;
    let whole = synthesised(self_, &windows, window, normalized, onesided, return_complex)?;
    let part = OutputRange { center, length, n_fft };
    let signal = part.cut(&whole, &named)?;
    let signal = if self_.dim() == 2 { op::squeeze_dim(&signal, 0)? } else { signal };
    part.extended(&signal, whole.length)
}

/// Whether the spectrum is one-sided, after its checks.
fn check_spectrum(
    input: &Tensor,
    windows: &Windows,
    window: Option<&Tensor>,
    onesided: Option<bool>,
    named: &dyn Fn() -> String,
) -> Result<bool> {
    let &Windows { n_fft, hop, length } = windows;
    let points = input.size(-2).map_err(|error| match input.dim() {
        1 => err!(Index, "Dimension out of range (expected to be in range of [-2, 1], but got -3)"),
        _ => error,
    })?;
    ensure!(input.numel() > 0, Runtime, "{}: input tensor cannot be empty.", named());
    ensure!(
        input.dim() <= 3,
        Runtime,
        "{}: expected a tensor with 3 or 4 dimensions, but got {}",
        named(),
        input.dim() + 1
    );
    let onesided = onesided.unwrap_or(points != n_fft);
    let (expected, what, flag) = match onesided {
        true => (n_fft / 2 + 1, "n_fft / 2 + 1", "True"),
        false => (n_fft, "n_fft", "False"),
    };
    ensure!(
        expected == points,
        Runtime,
        "{}: expected the frequency dimension (3rd to the last) of the input tensor to match \
         {what} when onesided={flag}, but got {points}",
        named()
    );
    let hop_fits = 0 < hop && hop <= length;
    ensure!(hop_fits, Runtime, "{}: expected 0 < hop_length <= win_length", named());
    let length_fits = 0 < length && length <= n_fft;
    ensure!(length_fits, Runtime, "{}: expected 0 < win_length <= n_fft", named());
    ensure!(
        window.is_none_or(|window| window.sizes().as_slice() == [length]),
        Runtime,
        "{}: Invalid window shape. window has to be 1D and length of `win_length`",
        named()
    );
    Ok(onesided)
}

/// Windows added up where they overlap, and the squares of the window likewise.
struct Whole {
    signal: Tensor,
    envelope: Tensor,
    length: i64,
}

fn synthesised(
    input: &Tensor,
    windows: &Windows,
    window: Option<&Tensor>,
    normalized: bool,
    onesided: bool,
    return_complex: bool,
) -> Result<Whole> {
    let n_fft = windows.n_fft;
    let input = if input.dim() == 2 { op::unsqueeze(input, 0)? } else { input.clone() };
    let frames = input.size(2)?;
    let Some(length) = windows.hop.checked_mul(frames - 1).and_then(|n| n.checked_add(n_fft))
    else {
        bail!(Runtime, "the signal would be too long");
    };
    let (real, device) = (Some(input.dtype().to_real()), Some(input.device()));
    let mut shape = match window {
        Some(window) => window.clone(),
        None => op::ones(&[windows.length], real, None, device, None)?,
    };
    if windows.length != n_fft {
        shape = windows.padded(&shape)?;
    }
    let spectrum = op::transpose_int(&input, 1, 2)?;
    let normalization = if normalized { 1 } else { 2 };
    let pieces = if return_complex {
        check_both_sides(onesided)?;
        op::_fft_c2c(&spectrum, &[2], normalization, false)?
    } else {
        ensure!(
            window.is_none_or(|window| !window.dtype().is_complex()),
            Runtime,
            "Complex windows are incompatible with return_complex=False"
        );
        let half = op::slice_tensor(&spectrum, -1, Some(0), Some(n_fft / 2 + 1), 1)?;
        op::_fft_c2r(&half, &[2], normalization, n_fft)?
    };
    let weighted = op::mul_tensor(&pieces, &op::reshape(&shape, &[1, 1, n_fft])?)?;
    let added = |pieces: &Tensor| {
        op::unfold_backward(pieces, &[pieces.size(0)?, length], 1, n_fft, windows.hop)
    };
    let signal = added(&weighted)?;
    let squares = op::pow_tensor_scalar(&shape, Scalar::Int(2))?;
    let envelope = added(&op::expand(&squares, &[1, frames, n_fft], false)?)?;
    Ok(Whole { signal, envelope, length })
}

/// The part of the synthesised signal that is wanted.
struct OutputRange {
    center: bool,
    length: Option<i64>,
    n_fft: i64,
}

impl OutputRange {
    fn start(&self) -> i64 {
        if self.center { self.n_fft / 2 } else { 0 }
    }

    fn end(&self, whole: i64) -> i64 {
        match self.length {
            Some(length) => self.start().saturating_add(length),
            None if self.center => whole - self.n_fft / 2,
            None => whole,
        }
    }

    fn cut(&self, whole: &Whole, named: &dyn Fn() -> String) -> Result<Tensor> {
        let range = (Some(self.start()), Some(self.end(whole.length)));
        let signal = op::slice_tensor(&whole.signal, 1, range.0, range.1, 1)?;
        let envelope = op::slice_tensor(&whole.envelope, 1, range.0, range.1, 1)?;
        let lowest = op::min(&op::abs(&batched::all_items(&envelope))?)?;
        let known = lowest.device().is_cpu() && !lowest.lacks_data() && !is_traced();
        let low = known && op::item(&lowest)?.to_f64() < 1e-11;
        ensure!(!low, Runtime, "{}window overlap add min: 1\n[ CPUBoolType{{}} ]", named());
        op::div_tensor(&signal, &envelope)
    }

    /// The signal with zeros behind it, where it is shorter than wanted.
    fn extended(&self, signal: &Tensor, whole: i64) -> Result<Tensor> {
        static SAID: AtomicBool = AtomicBool::new(false);
        let missing = self.end(whole) - whole;
        if missing <= 0 {
            return Ok(signal.clone());
        }
        warn_once(
            &SAID,
            "The length of signal is shorter than the length parameter. Result is being padded \
             with zeros in the tail. Please check your center and hop_length settings.",
        );
        op::constant_pad_nd(signal, &[0, missing], Scalar::Int(0))
    }
}
