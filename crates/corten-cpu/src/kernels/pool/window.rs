//! Which input elements every output element of a pooling looks at.

use super::super::support::nth;
use corten_core::{Result, ensure};

/// The windows of one axis, one per output position.
pub(super) struct Axis {
    pub(super) windows: Vec<Window>,
    pub(super) input: usize,
}

/// The positions `start, start + step, …` below `end`, all inside the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) step: usize,
    /// The window's length with the padding that it covers.
    pub(super) padded: usize,
}

impl Window {
    pub(super) fn positions(self) -> impl Iterator<Item = usize> + Clone {
        (self.start..self.end).step_by(self.step)
    }

    pub(super) fn len(self) -> usize {
        self.end.saturating_sub(self.start).div_ceil(self.step)
    }
}

/// What a pooling over windows is told, per axis.
#[derive(Clone, Copy)]
pub(super) struct Sliding<'a> {
    pub(super) kernel: &'a [i64],
    pub(super) stride: &'a [i64],
    pub(super) padding: &'a [i64],
    pub(super) dilation: &'a [i64],
    pub(super) ceil_mode: bool,
}

impl Sliding<'_> {
    /// Whether the lists have one element or one per axis, in PyTorch's words.
    pub(super) fn check_lists(&self, name: &str, rank: usize) -> Result<()> {
        let many = if rank == 2 { "two" } else { "three" };
        let fits = |list: &[i64]| list.len() == 1 || list.len() == rank;
        // PyTorch's wording differs for this one operator.
        let either = if name == "avg_pool3d" { "" } else { " either" };
        ensure!(
            fits(self.kernel),
            Runtime,
            "{name}: kernel_size must{either} be a single int, or a tuple of {many} ints"
        );
        ensure!(
            self.stride.is_empty() || fits(self.stride),
            Runtime,
            "{name}: stride must{either} be omitted, a single int, or a tuple of {many} ints"
        );
        ensure!(
            fits(self.padding),
            Runtime,
            "{name}: padding must{either} be a single int, or a tuple of {many} ints"
        );
        ensure!(
            fits(self.dilation),
            Runtime,
            "{name}: dilation must be either a single int, or a tuple of {many} ints"
        );
        Ok(())
    }

    fn stride(&self, axis: usize) -> i64 {
        nth(if self.stride.is_empty() { self.kernel } else { self.stride }, axis)
    }

    /// The windows of one axis of `input` elements.
    fn axis(&self, axis: usize, input: i64) -> Result<Axis> {
        let (kernel, stride) = (nth(self.kernel, axis), self.stride(axis));
        let (padding, dilation) = (nth(self.padding, axis), nth(self.dilation, axis));
        ensure!(stride != 0, Runtime, "stride should not be zero");
        ensure!(padding >= 0, Runtime, "pad must be non-negative, but got pad: {padding}");
        let reach = (kernel - 1) * dilation + 1;
        ensure!(
            padding <= reach / 2,
            Runtime,
            "pad should be at most half of effective kernel size, but got pad={padding}, \
             kernel_size={kernel} and dilation={dilation}"
        );
        let extra = if self.ceil_mode { stride - 1 } else { 0 };
        let mut output = (input + 2 * padding - reach + extra).div_euclid(stride) + 1;
        if self.ceil_mode && (output - 1) * stride >= input + padding {
            // The last window would lie in the right padding only.
            output -= 1;
        }
        let window = |position: i64| {
            let first = position * stride - padding;
            let end = (first + reach).min(input + padding);
            let skipped = if first < 0 { (-first + dilation - 1) / dilation } else { 0 };
            Window {
                start: (first + skipped * dilation) as usize,
                end: end.clamp(0, input) as usize,
                step: dilation as usize,
                padded: (end - first) as usize,
            }
        };
        Ok(Axis { windows: (0..output.max(0)).map(window).collect(), input: input as usize })
    }

    /// The windows of every spatial axis, checked in PyTorch's order.
    pub(super) fn axes(&self, sizes: &[i64], rank: usize) -> Result<Vec<Axis>> {
        let spatial = &sizes[sizes.len() - rank..];
        let axes: Result<Vec<_>> = spatial
            .iter()
            .enumerate()
            .map(|(axis, &size)| self.checked_axis(axis, rank, size))
            .collect();
        axes
    }

    fn checked_axis(&self, axis: usize, rank: usize, size: i64) -> Result<Axis> {
        let letters: &[&str] = if rank == 2 { &["H", "W"] } else { &["T", "H", "W"] };
        let positive = |prefix: &str, what: &str, value: &dyn Fn(usize) -> i64| {
            let listed: Vec<String> =
                (0..rank).map(|i| format!("{prefix}{}: {}", letters[i], value(i))).collect();
            ensure!(
                (0..rank).all(|i| value(i) > 0),
                Runtime,
                "{what} should be greater than zero, but got {}",
                listed.join(" ")
            );
            Ok(())
        };
        ensure!((0..rank).all(|i| self.stride(i) != 0), Runtime, "stride should not be zero");
        positive("k", "kernel size", &|i| nth(self.kernel, i))?;
        positive("d", "stride", &|i| self.stride(i))?;
        positive("dilation", "dilation", &|i| nth(self.dilation, i))?;
        self.axis(axis, size)
    }
}

/// The windows of an adaptive pooling: `output` of them, of nearly equal length.
pub(super) fn adaptive_axis(input: i64, output: i64) -> Axis {
    let window = |position: i64| {
        let start = position * input / output;
        let end = ((position + 1) * input + output - 1) / output;
        Window { start: start as usize, end: end as usize, step: 1, padded: (end - start) as usize }
    };
    Axis { windows: (0..output).map(window).collect(), input: input as usize }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(
        kernel: i64,
        stride: i64,
        padding: i64,
        dilation: i64,
        ceil_mode: bool,
        input: i64,
    ) -> Vec<(usize, usize, usize)> {
        let sliding = Sliding {
            kernel: &[kernel],
            stride: &[stride],
            padding: &[padding],
            dilation: &[dilation],
            ceil_mode,
        };
        sliding.axis(0, input).unwrap().windows.iter().map(|w| (w.start, w.end, w.padded)).collect()
    }

    #[test]
    fn windows_are_clipped_to_the_input() {
        assert_eq!(spans(2, 2, 0, 1, false, 5), [(0, 2, 2), (2, 4, 2)]);
        assert_eq!(spans(2, 2, 0, 1, true, 5), [(0, 2, 2), (2, 4, 2), (4, 5, 1)]);
        assert_eq!(spans(3, 2, 1, 1, false, 5), [(0, 2, 3), (1, 4, 3), (3, 5, 3)]);
        assert_eq!(spans(3, 1, 1, 2, false, 5), [(1, 4, 5), (0, 5, 5), (1, 5, 5)]);
    }

    #[test]
    fn adaptive_windows_cover_the_input() {
        let windows = adaptive_axis(5, 3).windows;
        assert_eq!(
            windows.iter().map(|w| (w.start, w.end)).collect::<Vec<_>>(),
            [(0, 2), (1, 4), (3, 5)]
        );
    }
}
