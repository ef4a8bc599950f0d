//! Sparse tensors as text: their parts one below the other, then what there is to say of the whole.

use super::Options;
use super::text::{append_suffixes, elements_alone, gradient_suffix, is_obvious, size_suffix};
use crate::sparse::{Compressed, Coo};
use crate::{Tensor, op};
use corten_core::{Device, DeviceType, Layout, Result};

/// The parts of a sparse tensor by their names in PyTorch.
fn named_parts(tensor: &Tensor) -> Vec<(&'static str, Tensor)> {
    if let Some(parts) = Coo::of(tensor) {
        return vec![("indices", parts.indices), ("values", parts.values)];
    }
    let Some(parts) = Compressed::of(tensor) else { return Vec::new() };
    let (first, second) = match parts.layout {
        Layout::SparseCsr | Layout::SparseBsr => ("crow_indices", "col_indices"),
        _ => ("ccol_indices", "row_indices"),
    };
    vec![(first, parts.compressed_indices), (second, parts.plain_indices), ("values", parts.values)]
}

/// The text of a sparse tensor after a prefix.
pub(super) fn repr(
    tensor: &Tensor,
    prefix: &str,
    indent: usize,
    options: &Options,
) -> Result<String> {
    let mut lines = Vec::new();
    for (name, part) in named_parts(tensor) {
        let start = format!("{name}=tensor(");
        let elements = elements_alone(&op::detach(&part)?, indent + start.len(), options)?;
        lines.push(format!("{start}{elements})"));
    }
    // Bounded: the indentation of three lines.
    let text = format!("{prefix}{}", lines.join(&format!(",\n{}", " ".repeat(indent))));
    let last_line = text.rsplit('\n').next().unwrap_or_default();
    // The size of a tensor in coordinate format always begins a line.
    let length = match tensor.layout() {
        Layout::Sparse => options.linewidth,
        _ => last_line.chars().count() + 2,
    };
    Ok(append_suffixes(text, length, &suffixes(tensor)?, indent, options))
}

fn suffixes(tensor: &Tensor) -> Result<Vec<String>> {
    let device = tensor.device();
    let mut found = Vec::new();
    if device.device_type != DeviceType::Cpu {
        found.push(format!("device='{device}'"));
    }
    found.push(size_suffix(tensor));
    if device != Device::META {
        found.push(format!("nnz={}", op::_nnz(tensor)?));
    }
    if !is_obvious(tensor.dtype()) {
        found.push(format!("dtype=torch.{}", tensor.dtype().name()));
    }
    found.push(format!("layout=torch.{}", tensor.layout().name()));
    found.extend(gradient_suffix(tensor));
    Ok(found)
}
