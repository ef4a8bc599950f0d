//! Weights in the order of the micro-kernels. See Note [Weights of quantised layers].

use super::vector;
use crate::gemm::instructions;
use corten_core::{Access, AccessSet, DType, Result, bug, check_memory, ensure, try_vec};
use corten_gemm::{DepthwiseInt8, PrepackedInt8};
use corten_ops::Tensor;
use corten_ops::opaque::{self, Prepared};
use std::any::Any;
use std::sync::Arc;

/// Outputs of neighbouring groups are computed together until they fill a vector.
const MERGED_OUTPUTS: usize = 16;

/// How the elements of a weight are summed: a row of its matrix consists of segments, each of which is
/// padded to groups of four bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) groups: usize,
    /// The groups that are one product, with zeros between them.
    pub(super) merged: usize,
    /// The outputs of all groups.
    pub(super) outputs: usize,
    /// Channels of a group.
    pub(super) channels: usize,
    /// Positions of the kernel.
    pub(super) positions: usize,
    /// Positions of a row of the kernel.
    pub(super) width: usize,
    /// Positions that lie side by side in a segment.
    pub(super) joined: usize,
}

impl Layout {
    /// That of a weight of (outputs, channels of a group, positions), of which `joined` at a time, of
    /// a row of the kernel, are contiguous in the input.
    pub(super) fn of(
        [outputs, channels, positions]: [usize; 3],
        groups: usize,
        [width, joined]: [usize; 2],
        mergeable: bool,
    ) -> Self {
        let each = (outputs / groups).max(1);
        let fits =
            |merged: &usize| groups.is_multiple_of(*merged) && merged * each <= MERGED_OUTPUTS;
        let merged = if mergeable { (1..=groups).filter(fits).max().unwrap_or(1) } else { 1 };
        let joined = if groups == 1 { joined } else { 1 };
        Self { groups, merged, outputs, channels, positions, width, joined }
    }

    /// Whether each channel has one kernel of its own.
    pub(super) fn is_depthwise(&self) -> bool {
        self.groups > 1 && self.channels == 1 && self.outputs == self.groups
    }

    /// Bytes of a segment.
    pub(super) fn segment(&self) -> usize {
        self.channels * self.merged * self.joined
    }

    /// Bytes of a segment with its padding.
    pub(super) fn padded_segment(&self) -> usize {
        self.segment().next_multiple_of(4)
    }

    /// Segments of a row.
    pub(super) fn segments(&self) -> usize {
        self.positions / self.joined
    }

    /// Outputs of a product.
    pub(super) fn product_outputs(&self) -> usize {
        self.outputs / self.groups * self.merged
    }
}

/// A packed weight.
pub(super) struct PackedWeight {
    dense: Tensor,
    layout: Layout,
    products: Vec<PrepackedInt8>,
    /// The kernels, where each channel has one of its own and zero points are 0.
    depthwise: Option<DepthwiseInt8>,
    /// The sum of the elements of each output.
    totals: Vec<i32>,
    zero_points: Option<Vec<i32>>,
}

impl PackedWeight {
    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }

    pub(super) fn products(&self) -> &[PrepackedInt8] {
        &self.products
    }

    pub(super) fn depthwise(&self) -> Option<&DepthwiseInt8> {
        self.depthwise.as_ref()
    }

    pub(super) fn outputs(&self) -> usize {
        self.layout.outputs
    }

    /// Elements of an output.
    pub(super) fn steps(&self) -> usize {
        self.layout.channels * self.layout.positions
    }

    pub(super) fn totals(&self) -> &[i32] {
        &self.totals
    }

    pub(super) fn zero_points(&self) -> Option<&[i32]> {
        self.zero_points.as_deref()
    }
}

impl Prepared for PackedWeight {
    fn to_dense(&self) -> Result<Tensor> {
        Ok(self.dense.clone())
    }
}

/// Calls `f` with a packed weight, which is packed by the first call.
pub(super) fn with_packed<R>(
    weight: &Tensor,
    zero_points: &Tensor,
    layout: impl Fn(bool) -> Layout,
    f: impl FnOnce(&PackedWeight) -> Result<R>,
) -> Result<R> {
    ensure!(
        weight.dtype() == DType::Int8,
        Runtime,
        "expected a weight of int8, but got {}",
        weight.dtype().name()
    );
    let outputs = weight.size(0)? as usize;
    let zero_points =
        vector::<i32>(zero_points, DType::Int32, outputs, "zero points of the weight")?;
    let zero_points = zero_points.iter().any(|&x| x != 0).then_some(zero_points);
    let layout = layout(zero_points.is_none());
    if opaque::is_opaque(weight) {
        let made = |dense: &Tensor| {
            let packed = pack(dense, layout, zero_points.clone())?;
            Ok(Some(Arc::new(packed) as Arc<dyn Prepared>))
        };
        if let Some(prepared) = opaque::prepared(weight, made)?
            && let Some(packed) = (&*prepared as &dyn Any).downcast_ref::<PackedWeight>()
            && packed.layout == layout
            && packed.zero_points == zero_points
        {
            return f(packed);
        }
    }
    let dense = opaque::value(weight)?.unwrap_or_else(|| weight.clone());
    f(&pack(&dense, layout, zero_points)?)
}

/// Packs a weight of (outputs, channels of a group, positions…).
fn pack(dense: &Tensor, layout: Layout, zero_points: Option<Vec<i32>>) -> Result<PackedWeight> {
    let contiguous = super::contiguous(dense)?;
    let access = AccessSet::acquire(&[(&contiguous, Access::Read)])?;
    let elements = access.read::<i8>(0)?;
    let steps = layout.channels * layout.positions;
    if elements.len() != steps * layout.outputs {
        bug!("a weight of {} elements in the layout {layout:?}", elements.len());
    }
    let depthwise = (layout.is_depthwise() && zero_points.is_none()).then(|| {
        let rows = layout.positions / layout.width;
        DepthwiseInt8::of(elements, layout.groups, [rows, layout.width], instructions())
    });
    let products = if depthwise.is_some() { vec![] } else { products(elements, &layout)? };
    let total = |row: &[i8]| row.iter().map(|&x| i32::from(x)).sum();
    let totals = match steps {
        0 => vec![0; layout.outputs],
        _ => elements.chunks(steps).map(total).collect(),
    };
    drop(access);
    Ok(PackedWeight { dense: dense.clone(), layout, products, depthwise, totals, zero_points })
}

/// The matrices of the groups.
fn products(elements: &[i8], layout: &Layout) -> Result<Vec<PrepackedInt8>> {
    let (steps, outputs) = (layout.channels * layout.positions, layout.product_outputs());
    let depth = layout.padded_segment() * layout.segments();
    check_memory(depth * outputs * layout.groups / layout.merged)?;
    let mut rows = try_vec(0i8, depth * outputs)?;
    let products = (0..layout.groups / layout.merged).map(|product| {
        rows.fill(0);
        for output in 0..outputs {
            let from = &elements[(product * outputs + output) * steps..][..steps];
            let group = output / (layout.outputs / layout.groups);
            place(from, layout, group, &mut rows[output * depth..][..depth]);
        }
        PrepackedInt8::of(&rows, [outputs, depth], instructions())
    });
    Ok(products.collect())
}

/// Puts the elements of an output, (channels, positions), into segments of positions and channels.
fn place(from: &[i8], layout: &Layout, group: usize, to: &mut [i8]) {
    let Layout { channels, positions, joined, merged, .. } = *layout;
    for channel in 0..channels {
        for position in 0..positions {
            let (segment, within) = (position / joined, position % joined);
            let at = segment * layout.padded_segment()
                + within * channels * merged
                + group * channels
                + channel;
            to[at] = from[channel * positions + position];
        }
    }
}
