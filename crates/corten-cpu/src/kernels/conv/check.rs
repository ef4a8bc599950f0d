//! What a convolution accepts, in PyTorch's words, and the sizes that follow.

use super::geometry::Geometry;
use corten_core::{MemoryFormat, Result, ensure};
use corten_ops::Tensor;

/// The list arguments, with one number per spatial dimension.
pub(super) struct Lists {
    stride: Vec<i64>,
    padding: Vec<i64>,
    dilation: Vec<i64>,
    output_padding: Vec<i64>,
}

impl Lists {
    pub(super) fn of(
        weight: &Tensor,
        stride: &[i64],
        padding: &[i64],
        dilation: &[i64],
        output_padding: &[i64],
    ) -> Result<Self> {
        let rank = weight.dim().saturating_sub(2);
        ensure!(rank > 0, Runtime, "weight should have at least three dimensions");
        let all = |list: &[i64], name: &str| {
            if list.len() == 1 {
                return Ok(vec![list[0]; rank]);
            }
            ensure!(
                list.len() == rank,
                Runtime,
                "expected {name} to be a single integer value or a list of {rank} values to match \
                 the convolution dimensions, but got {name}={list:?}"
            );
            Ok(list.to_vec())
        };
        Ok(Self {
            stride: all(stride, "stride")?,
            padding: all(padding, "padding")?,
            dilation: all(dilation, "dilation")?,
            output_padding: all(output_padding, "output_padding")?,
        })
    }

    /// The lists for signals seen as images of height 1.
    pub(super) fn of_image(&self) -> Self {
        let pad = |list: &[i64], filler: i64| [&[filler], list].concat();
        Self {
            stride: pad(&self.stride, 1),
            padding: pad(&self.padding, 0),
            dilation: pad(&self.dilation, 1),
            output_padding: pad(&self.output_padding, 0),
        }
    }

    fn rank(&self) -> usize {
        self.stride.len()
    }

    /// Elements that the kernel reaches over in one dimension.
    fn reach(&self, axis: usize, weight: &[i64]) -> i64 {
        self.dilation[axis].saturating_mul(weight[axis + 2] - 1).saturating_add(1)
    }

    pub(super) fn output_sizes(
        &self,
        input: &[i64],
        weight: &[i64],
        transposed: bool,
        groups: i64,
    ) -> Vec<i64> {
        let features = if transposed { weight[1] * groups } else { weight[0] };
        let spatial = (0..self.rank()).map(|axis| {
            let (size, reach) = (input[axis + 2], self.reach(axis, weight));
            let (stride, padding) = (self.stride[axis], self.padding[axis]);
            match transposed {
                true => (size - 1)
                    .saturating_mul(stride)
                    .saturating_sub(padding.saturating_mul(2))
                    .saturating_add(reach)
                    .saturating_add(self.output_padding[axis]),
                false => {
                    let padded = size.saturating_add(padding.saturating_mul(2));
                    padded.saturating_sub(reach).div_euclid(stride) + 1
                }
            }
        });
        [input[0], features].into_iter().chain(spatial).collect()
    }

    /// The geometry of the convolution from `image` to `output`, in three dimensions.
    pub(super) fn geometry(
        &self,
        image: &[i64],
        weight: &[i64],
        output: &[i64],
        groups: i64,
        format: MemoryFormat,
    ) -> Geometry {
        let pad = |list: &[i64], filler: usize| {
            let mut axes = [filler; 3];
            for (axis, &value) in axes[3 - list.len()..].iter_mut().zip(list) {
                *axis = value as usize;
            }
            axes
        };
        let geometry = Geometry {
            groups: groups as usize,
            channels: image[1] as usize,
            features: output[1] as usize,
            image: pad(&image[2..], 1),
            kernel: pad(&weight[2..], 1),
            output: pad(&output[2..], 1),
            stride: pad(&self.stride, 1),
            padding: pad(&self.padding, 0),
            dilation: pad(&self.dilation, 1),
            channels_last: format != MemoryFormat::Contiguous,
            kernel_rows: format == MemoryFormat::Contiguous
                && weight.last() > output.last()
                && self.dilation.last() == Some(&1),
        };
        geometry.with_whole_images(image[0] as usize)
    }
}

pub(super) fn forward(
    input: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    lists: &Lists,
    transposed: bool,
    groups: i64,
) -> Result<()> {
    let all = |list: &[i64], least: i64| list.iter().all(|&value| value >= least);
    ensure!(groups > 0, Runtime, "non-positive groups is not supported");
    ensure!(all(&lists.padding, 0), Runtime, "negative padding is not supported");
    ensure!(all(&lists.output_padding, 0), Runtime, "negative output_padding is not supported");
    ensure!(all(&lists.stride, 1), Runtime, "non-positive stride is not supported");
    ensure!(
        all(&lists.dilation, 1),
        Runtime,
        "dilation should be greater than zero, but got {:?}",
        lists.dilation
    );
    check_ranks(input, weight, groups)?;
    let (sizes, kernel) = (input.sizes(), weight.sizes());
    let (channels, features, prefix) = match transposed {
        true => (kernel[0], kernel[1] * groups, "Given transposed=1, ".to_owned()),
        false => (kernel[1] * groups, kernel[0], "Given ".to_owned()),
    };
    let named = if transposed { prefix.clone() } else { format!("Given groups={groups}, ") };
    ensure!(
        sizes[1] == channels,
        Runtime,
        "{named}weight of size {:?}, expected input{:?} to have {channels} channels, but got {} \
         channels instead",
        kernel.as_slice(),
        sizes.as_slice(),
        sizes[1]
    );
    if let Some(bias) = bias {
        ensure!(
            bias.sizes().as_slice() == [features],
            Runtime,
            "{prefix}weight of size {:?}, expected bias to be 1-dimensional with {features} \
             elements, but got bias of size {:?} instead",
            kernel.as_slice(),
            bias.sizes().as_slice()
        );
    }
    if transposed { Ok(()) } else { check_kernel(input, weight, lists) }
}

fn check_ranks(input: &Tensor, weight: &Tensor, groups: i64) -> Result<()> {
    let (sizes, kernel) = (input.sizes(), weight.sizes());
    ensure!(
        sizes.len() == kernel.len(),
        Runtime,
        "Expected {0}-dimensional input for {0}-dimensional weight {1:?}, but got {2}-dimensional \
         input of size {3:?} instead",
        kernel.len(),
        kernel.as_slice(),
        sizes.len(),
        sizes.as_slice()
    );
    ensure!(
        kernel[0] >= groups,
        Runtime,
        "Given groups={groups}, expected weight to be at least {groups} at dimension 0, but got \
         weight of size {:?} instead",
        kernel.as_slice()
    );
    ensure!(
        kernel[0] % groups == 0,
        Runtime,
        "Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, but \
         got weight of size [{:?}] instead",
        kernel.as_slice()
    );
    Ok(())
}

fn check_kernel(input: &Tensor, weight: &Tensor, lists: &Lists) -> Result<()> {
    let (sizes, kernel) = (input.sizes(), weight.sizes());
    let padded: Vec<i64> = (0..lists.rank())
        .map(|axis| sizes[axis + 2].saturating_add(lists.padding[axis].saturating_mul(2)))
        .collect();
    let reach: Vec<i64> = (0..lists.rank()).map(|axis| lists.reach(axis, &kernel)).collect();
    ensure!(
        padded.iter().zip(&reach).all(|(padded, reach)| padded >= reach),
        Runtime,
        "Calculated padded input size per channel: ({}). Kernel size: ({}). Kernel size can't be \
         greater than actual input size",
        by(&padded),
        by(&reach)
    );
    Ok(())
}

/// Refuses kernels without elements, for images and volumes.
pub(super) fn kernel(weight: &Tensor) -> Result<()> {
    match &weight.sizes()[2..] {
        [height, width] => ensure!(
            *height > 0 && *width > 0,
            Runtime,
            "kernel size should be greater than zero, but got kernel_height: {height} \
             kernel_width: {width}"
        ),
        sizes => {
            let listed: Vec<_> = sizes.iter().map(i64::to_string).collect();
            ensure!(
                sizes.iter().all(|&size| size > 0),
                Runtime,
                "kernel size should be greater than zero, but got: {} (TxHxW)",
                listed.join(" x ")
            );
        }
    }
    Ok(())
}

/// What a transposed convolution accepts beyond that.
pub(super) fn transposed(input: &Tensor, weight: &Tensor, lists: &Lists) -> Result<()> {
    let sizes = input.sizes();
    for axis in 0..lists.rank() {
        let (extra, stride, dilation) =
            (lists.output_padding[axis], lists.stride[axis], lists.dilation[axis]);
        ensure!(
            extra < stride.max(dilation),
            Runtime,
            "output padding must be smaller than either stride or dilation, but got {}",
            named_lists(lists)
        );
    }
    let output = lists.output_sizes(&sizes, &weight.sizes(), true, 1);
    ensure!(
        output[2..].iter().all(|&size| size >= 1) || input.numel() == 0,
        Runtime,
        "Given input size per channel: ({}). Calculated output size per channel: ({}). Output size \
         is too small",
        by(&sizes[2..]),
        by(&output[2..])
    );
    Ok(())
}

/// The numbers of the error about output padding, as PyTorch lists them.
fn named_lists(lists: &Lists) -> String {
    let axes: &[&str] =
        if lists.rank() == 3 { &["depth", "height", "width"] } else { &["height", "width"] };
    let filler = axes.len() - lists.rank().min(axes.len());
    let mut parts = Vec::new();
    for (name, list, default) in [
        ("output_padding", &lists.output_padding, 0),
        ("stride", &lists.stride, 1),
        ("dilation", &lists.dilation, 1),
    ] {
        for (i, axis) in axes.iter().enumerate() {
            let value = i.checked_sub(filler).map_or(default, |i| list[i]);
            parts.push(format!("{name}_{axis}: {value}"));
        }
    }
    parts.join(" ")
}

fn by(sizes: &[i64]) -> String {
    sizes.iter().map(i64::to_string).collect::<Vec<_>>().join(" x ")
}
