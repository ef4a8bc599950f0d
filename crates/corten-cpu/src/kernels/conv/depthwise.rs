//! Convolutions with one input channel per group, where matrices would have a single row.

use super::geometry::Geometry;
use crate::chunks::{for_each_chunk, grain_of};
use crate::row_loops;
use crate::rows::Wide;
use corten_core::Result;

/// Whether this path is for the geometry.
pub(super) fn fits(geometry: &Geometry) -> bool {
    geometry.groups > 1 && geometry.group_channels() == 1
}

/// `output = weight * image (+ bias)`, for every sample.
pub(super) fn correlate<W: Wide>(
    geometry: &Geometry,
    output: &mut [W],
    image: &[W],
    weight: &[W],
    bias: Option<&[W]>,
) -> Result<()> {
    if geometry.channels_last {
        pixels(geometry, output, image, weight, bias)
    } else {
        planes(geometry, output, image, weight, bias)
    }
}

fn planes<W: Wide>(
    geometry: &Geometry,
    output: &mut [W],
    image: &[W],
    weight: &[W],
    bias: Option<&[W]>,
) -> Result<()> {
    let (positions, pixels) = (geometry.positions(), geometry.pixels());
    let (features, size) = (geometry.features, geometry.kernel_size());
    for_each_chunk(output, positions, grain_of(positions * size), |i, output| {
        let (sample, feature) = (i / features, i % features);
        let channel = sample * geometry.channels + feature / geometry.group_features();
        let image = &image[channel * pixels..][..pixels];
        row_loops::compiled(|| {
            output.fill(bias.map_or(W::ZERO, |bias| bias[feature]));
            for (kernel, &factor) in weight[feature * size..][..size].iter().enumerate() {
                add_shifted(geometry, output, image, kernel, factor);
            }
        });
        Ok(())
    })
}

/// Adds the image, shifted by one kernel element and times its weight.
#[inline(always)]
fn add_shifted<W: Wide>(
    geometry: &Geometry,
    output: &mut [W],
    image: &[W],
    kernel: usize,
    factor: W,
) {
    let [_, kh, kw] = geometry.kernel;
    let [z, y, x] = [kernel / (kh * kw), kernel / kw % kh, kernel % kw];
    let [depths, heights, widths] =
        [(0, z), (1, y), (2, x)].map(|(axis, k)| geometry.inside(axis, k));
    let source = |axis: usize, output: usize, kernel: usize| {
        output * geometry.stride[axis] + kernel * geometry.dilation[axis] - geometry.padding[axis]
    };
    if widths.is_empty() {
        return;
    }
    for depth in depths {
        for height in heights.clone() {
            let row = source(0, depth, z) * geometry.image[1] + source(1, height, y);
            let start = row * geometry.image[2] + source(2, widths.start, x);
            let target = (depth * geometry.output[1] + height) * geometry.output[2] + widths.start;
            let target = &mut output[target..][..widths.len()];
            if geometry.stride[2] == 1 {
                let values = &image[start..][..widths.len()];
                target.iter_mut().zip(values).for_each(|(sum, &value)| *sum += value * factor);
            } else {
                let values = image[start..].iter().step_by(geometry.stride[2]);
                target.iter_mut().zip(values).for_each(|(sum, &value)| *sum += value * factor);
            }
        }
    }
}

fn pixels<W: Wide>(
    geometry: &Geometry,
    output: &mut [W],
    image: &[W],
    weight: &[W],
    bias: Option<&[W]>,
) -> Result<()> {
    let (features, size) = (geometry.features, geometry.kernel_size());
    let per_channel = geometry.group_features();
    // One row per kernel element, so that a pixel is done in runs of features.
    let turned: Vec<W> =
        (0..size * features).map(|i| weight[i % features * size + i / features]).collect();
    let sample_size = geometry.channels * geometry.pixels();
    let [_, heights, widths] = geometry.output;
    for_each_chunk(output, features, grain_of(features * size), |i, output| {
        let (sample, position) = (i / geometry.positions(), i % geometry.positions());
        let place = [position / (heights * widths), position / widths % heights, position % widths];
        let image = &image[sample * sample_size..][..sample_size];
        match bias {
            Some(bias) => output.copy_from_slice(bias),
            None => output.fill(W::ZERO),
        }
        for (kernel, weights) in turned.chunks_exact(features).enumerate() {
            let [_, kh, kw] = geometry.kernel;
            let element = [kernel / (kh * kw), kernel / kw % kh, kernel % kw];
            let inside =
                (0..3).all(|axis| geometry.inside(axis, element[axis]).contains(&place[axis]));
            if !inside {
                continue;
            }
            let source: [usize; 3] = std::array::from_fn(|axis| {
                place[axis] * geometry.stride[axis] + element[axis] * geometry.dilation[axis]
                    - geometry.padding[axis]
            });
            let pixel = (source[0] * geometry.image[1] + source[1]) * geometry.image[2] + source[2];
            let values = &image[pixel * geometry.channels..][..geometry.channels];
            if per_channel == 1 {
                for ((sum, &value), &weight) in output.iter_mut().zip(values).zip(weights) {
                    *sum += value * weight;
                }
            } else {
                for (feature, (sum, &weight)) in output.iter_mut().zip(weights).enumerate() {
                    *sum += values[feature / per_channel] * weight;
                }
            }
        }
        Ok(())
    })
}
