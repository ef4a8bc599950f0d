//! Which input elements every output element of a pooling looks at.

use super::super::support::nth;
use corten_core::{Result, bail, ensure, try_collect};

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
    #[inline(always)]
    pub(super) fn positions(self) -> Positions {
        Positions { next: self.start, end: self.end, step: self.step }
    }

    pub(super) fn len(self) -> usize {
        self.end.saturating_sub(self.start).div_ceil(self.step)
    }
}

/// The positions of a window, one after the other. A range with `step_by` would divide first, which
/// takes longer than a window of a few elements.
#[derive(Clone, Copy)]
pub(super) struct Positions {
    next: usize,
    end: usize,
    step: usize,
}

impl Iterator for Positions {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        let position = self.next;
        self.next = position.saturating_add(self.step);
        (position < self.end).then_some(position)
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

    /// The number of windows of one axis of `size` elements; 0 or less if there is none.
    fn count(&self, axis: usize, size: i64) -> Result<i64> {
        let (kernel, stride) = (nth(self.kernel, axis), self.stride(axis));
        let (padding, dilation) = (nth(self.padding, axis), nth(self.dilation, axis));
        ensure!(stride != 0, Runtime, "stride should not be zero");
        ensure!(padding >= 0, Runtime, "pad must be non-negative, but got pad: {padding}");
        let reach = kernel.checked_sub(1).and_then(|gaps| gaps.checked_mul(dilation));
        let reach = reach.and_then(|reach| reach.checked_add(1));
        let Some(reach) = reach else {
            bail!(
                Runtime,
                "effective kernel size overflows, but got kernel_size={kernel} and \
                 dilation={dilation}"
            )
        };
        ensure!(
            padding <= reach / 2,
            Runtime,
            "pad should be at most half of effective kernel size, but got pad={padding}, \
             kernel_size={kernel} and dilation={dilation}"
        );
        let extra = if self.ceil_mode { stride.saturating_sub(1) } else { 0 };
        let room = size.saturating_add(padding.saturating_mul(2)).saturating_sub(reach);
        let count = floor_div(room.saturating_add(extra), stride).saturating_add(1);
        // A last window that would lie in the right padding only is left out.
        let beyond = self.ceil_mode
            && count.saturating_sub(1).saturating_mul(stride) >= size.saturating_add(padding);
        Ok(if beyond { count - 1 } else { count })
    }

    /// The windows of one axis; the numbers are checked.
    fn axis(&self, axis: usize, size: i64, count: i64) -> Result<Axis> {
        let (kernel, stride) = (nth(self.kernel, axis), self.stride(axis));
        let (padding, dilation) = (nth(self.padding, axis), nth(self.dilation, axis));
        let reach = (kernel - 1) * dilation + 1;
        let window = |position: i64| {
            let first = position * stride - padding;
            let end = (first + reach).min(size + padding);
            let skipped = if first < 0 { (-first + dilation - 1) / dilation } else { 0 };
            Window {
                start: (first + skipped * dilation) as usize,
                end: end.clamp(0, size) as usize,
                step: dilation as usize,
                padded: (end - first) as usize,
            }
        };
        Ok(Axis { windows: try_collect((0..count).map(window))?, input: size as usize })
    }

    /// The windows of every spatial axis, checked in PyTorch's order.
    pub(super) fn axes(&self, name: &str, sizes: &[i64], rank: usize) -> Result<Vec<Axis>> {
        let spatial = &sizes[sizes.len() - rank..];
        let mut counts = Vec::with_capacity(rank);
        for (axis, &size) in spatial.iter().enumerate() {
            counts.push(self.count(axis, size)?);
        }
        self.check_positive(rank)?;
        super::check_not_empty(sizes, name, rank)?;
        if name == "avg_pool3d" {
            self.check_kernel_fits(spatial)?;
        }
        let listed = |numbers: &[i64]| {
            let channels = sizes[sizes.len() - rank - 1];
            let all: Vec<String> =
                std::iter::once(&channels).chain(numbers).map(i64::to_string).collect();
            all.join("x")
        };
        ensure!(
            counts.iter().all(|&count| count >= 1),
            Runtime,
            "Given input size: ({}). Calculated output size: ({}). Output size is too small",
            listed(spatial),
            listed(&counts)
        );
        (0..rank).map(|axis| self.axis(axis, spatial[axis], counts[axis])).collect()
    }

    fn check_positive(&self, rank: usize) -> Result<()> {
        let positive = |prefix: &str, what: &str, value: &dyn Fn(usize) -> i64| {
            let named = names(rank).iter().enumerate();
            let listed: Vec<String> =
                named.map(|(axis, letter)| format!("{prefix}{letter}: {}", value(axis))).collect();
            ensure!(
                (0..rank).all(|axis| value(axis) > 0),
                Runtime,
                "{what} should be greater than zero, but got {}",
                listed.join(" ")
            );
            Ok(())
        };
        positive("k", "kernel size", &|axis| nth(self.kernel, axis))?;
        positive("d", "stride", &|axis| self.stride(axis))?;
        positive("dilation", "dilation", &|axis| nth(self.dilation, axis))
    }

    fn check_kernel_fits(&self, spatial: &[i64]) -> Result<()> {
        // Bounded: dimensions.
        let kernel: Vec<i64> = (0..spatial.len()).map(|axis| nth(self.kernel, axis)).collect();
        ensure!(
            spatial.iter().zip(&kernel).all(|(size, kernel)| size >= kernel),
            Runtime,
            "input image (T: {} H: {} W: {}) smaller than kernel size (kT: {} kH: {} kW: {})",
            spatial[0],
            spatial[1],
            spatial[2],
            kernel[0],
            kernel[1],
            kernel[2]
        );
        Ok(())
    }
}

fn names(rank: usize) -> &'static [&'static str] {
    if rank == 2 { &["H", "W"] } else { &["T", "H", "W"] }
}

/// Division rounded down, as PyTorch rounds sizes of windows.
fn floor_div(a: i64, b: i64) -> i64 {
    let quotient = a / b;
    if (a % b != 0) && ((a < 0) != (b < 0)) { quotient - 1 } else { quotient }
}

/// The windows of an adaptive pooling: `output` of them, of nearly equal length.
///
/// # Errors
/// `OutOfMemory` for more windows than there is memory for.
pub(super) fn adaptive_axis(input: i64, output: i64) -> Result<Axis> {
    let most = output.checked_add(1).and_then(|most| most.checked_mul(input.max(1)));
    ensure!(most.is_some(), OutOfMemory, "no memory for an output of {output} windows");
    let window = |position: i64| {
        let start = position * input / output;
        let end = ((position + 1) * input + output - 1) / output;
        Window { start: start as usize, end: end as usize, step: 1, padded: (end - start) as usize }
    };
    Ok(Axis { windows: try_collect((0..output).map(window))?, input: input as usize })
}

/// One window over one element: the axis of a dimension that is not pooled.
pub(super) fn unit_axis() -> Axis {
    Axis { windows: vec![Window { start: 0, end: 1, step: 1, padded: 1 }], input: 1 }
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
        sliding
            .axis(0, input, sliding.count(0, input).unwrap())
            .unwrap()
            .windows
            .iter()
            .map(|w| (w.start, w.end, w.padded))
            .collect()
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
        let windows = adaptive_axis(5, 3).unwrap().windows;
        assert_eq!(
            windows.iter().map(|w| (w.start, w.end)).collect::<Vec<_>>(),
            [(0, 2), (1, 4), (3, 5)]
        );
    }
}
