//! The layout of a tensor's text: brackets, lines, the suffixes after the elements.

use super::format::Notation;
use super::{Options, options, sparse};
use crate::batched::{self, Batched};
use crate::{Tensor, op, opaque, without_names};
use corten_core::{
    Complex, DType, Device, DeviceType, Layout, Result, check_memory, default_dtype,
};

/// The text of a tensor, starting with `tensor(`.
///
/// # Errors
/// When the data cannot be read.
pub fn repr(tensor: &Tensor) -> Result<String> {
    repr_with_prefix(tensor, "tensor(")
}

/// The text of a tensor after a prefix: a subclass has its own name there.
///
/// # Errors
/// When the data cannot be read.
pub fn repr_with_prefix(tensor: &Tensor, prefix: &str) -> Result<String> {
    if let Some(found) = batched::of(tensor) {
        return repr_batched(&found);
    }
    if !tensor.defined() {
        return Ok(format!("{prefix})"));
    }
    let options = options();
    let indent = prefix.chars().count();
    if tensor.sparse_parts().is_some() {
        return sparse::repr(tensor, prefix, indent, &options);
    }
    if tensor.is_quantized() && tensor.device() != Device::META {
        return repr_quantized(tensor, prefix, &options);
    }
    let mut suffixes = Vec::new();
    if tensor.device().device_type != DeviceType::Cpu {
        suffixes.push(format!("device='{}'", tensor.device()));
    }
    let elements = without_names(|| elements(tensor, indent, &options, &mut suffixes))?;
    if tensor.layout() != Layout::Strided {
        suffixes.push(format!("layout=torch.{}", tensor.layout().name()));
    }
    if let Some(format) = crate::blocks::format_of(tensor) {
        suffixes.push(format!("block_format='{}'", format.name()));
    }
    suffixes.extend(gradient_suffix(tensor));
    if tensor.has_names() {
        suffixes.push(format!("names={}", crate::names::tuple_of(&tensor.dim_names())));
    }
    Ok(with_suffixes(format!("{prefix}{elements}"), &suffixes, indent, &options))
}

fn elements(
    tensor: &Tensor,
    indent: usize,
    options: &Options,
    suffixes: &mut Vec<String>,
) -> Result<String> {
    let dtype = tensor.dtype();
    let is_default_float = dtype == default_dtype();
    let dtype_suffix = || format!("dtype=torch.{}", dtype.name());
    if tensor.device() == Device::META {
        suffixes.push(size_suffix(tensor));
        if !is_default_float {
            suffixes.push(dtype_suffix());
        }
        return Ok("...".to_owned());
    }
    if tensor.numel() == 0 {
        if tensor.dim() != 1 {
            suffixes.push(size_suffix(tensor));
        }
        if !is_default_float {
            suffixes.push(dtype_suffix());
        }
        return Ok("[]".to_owned());
    }
    if !is_obvious(dtype) {
        suffixes.push(dtype_suffix());
    }
    let body = Body::read(tensor, options)?;
    Ok(body.text(0, &mut 0, indent))
}

/// A quantised tensor: what its integers stand for, then its quantizer.
fn repr_quantized(tensor: &Tensor, prefix: &str, options: &Options) -> Result<String> {
    let indent = prefix.chars().count();
    let quantizer = tensor.known_quantizer()?;
    let mut suffixes = vec![
        size_suffix(tensor),
        format!("dtype=torch.{}", tensor.dtype().name()),
        format!("quantization_scheme=torch.{}", quantizer.scheme().name()),
    ];
    if let Some((scale, zero_point)) = quantizer.of_tensor() {
        suffixes.push(format!("scale={}", super::format::python_float(scale)));
        suffixes.push(format!("zero_point={zero_point}"));
    }
    if let Some((scales, zero_points, axis)) = quantizer.of_channels() {
        suffixes.push(format!("scale={}", repr(&scales.clone().into())?));
        suffixes.push(format!("zero_point={}", repr(&zero_points.clone().into())?));
        suffixes.push(format!("axis={axis}"));
    }
    let floats = op::dequantize_self(&op::detach(tensor)?)?;
    let elements = match floats.numel() {
        0 => "[]".to_owned(),
        _ => Body::read(&floats, options)?.text(0, &mut 0, indent),
    };
    Ok(with_suffixes(format!("{prefix}{elements}"), &suffixes, indent, options))
}

/// Whether the elements of a tensor tell its dtype.
pub(super) fn is_obvious(dtype: DType) -> bool {
    let default = default_dtype();
    dtype == default || dtype == default.to_complex() || matches!(dtype, DType::Int64 | DType::Bool)
}

/// The elements alone, whose lines after the first are indented.
pub(super) fn elements_alone(tensor: &Tensor, indent: usize, options: &Options) -> Result<String> {
    if tensor.numel() == 0 {
        return Ok(format!("[], {}", size_suffix(tensor)));
    }
    if tensor.device() == Device::META {
        return Ok("...".to_owned());
    }
    Ok(Body::read(tensor, options)?.text(0, &mut 0, indent))
}

pub(super) fn size_suffix(tensor: &Tensor) -> String {
    let sizes = tensor.sizes();
    let list: Vec<String> = sizes.iter().map(i64::to_string).collect();
    match list.as_slice() {
        [one] => format!("size=({one},)"),
        _ => format!("size=({})", list.join(", ")),
    }
}

pub(super) fn gradient_suffix(tensor: &Tensor) -> Option<String> {
    let meta = tensor.autograd_meta()?;
    match meta.grad_fn_name(tensor) {
        Some(name) => Some(format!("grad_fn=<{name}>")),
        None => meta.requires_grad().then(|| "requires_grad=True".to_owned()),
    }
}

fn with_suffixes(text: String, suffixes: &[String], indent: usize, options: &Options) -> String {
    let last_line = text.rsplit('\n').next().unwrap_or_default();
    let length = last_line.chars().count() + 2;
    append_suffixes(text, length, suffixes, indent, options)
}

/// Appends what is said after the elements, to a last line of some length.
pub(super) fn append_suffixes(
    text: String,
    mut length: usize,
    suffixes: &[String],
    indent: usize,
    options: &Options,
) -> String {
    let mut result = text;
    for suffix in suffixes {
        let own = suffix.chars().count();
        if length + own + 2 > options.linewidth {
            // Bounded: what check_room asked for.
            result.push_str(&format!(",\n{}{suffix}", " ".repeat(indent)));
            length = indent + own;
        } else {
            result.push_str(&format!(", {suffix}"));
            length += own + 2;
        }
    }
    result.push(')');
    result
}

/// The shown elements as text, row-major, and the sizes they have.
struct Body<'a> {
    cells: Vec<String>,
    /// What one cell takes, separator included.
    cell_width: usize,
    sizes: Vec<usize>,
    /// Dimensions of which the middle is left out.
    gaps: Vec<bool>,
    options: &'a Options,
}

/// Fails where there is no memory for the texts of so many elements.
fn check_room(count: i64) -> Result<()> {
    /// Fewer are not worth a question.
    const MANY: i64 = 1 << 16;
    /// The text of an element, its allocation, and its share of the lines made of it, generously.
    const BYTES: usize = 128;
    if count > MANY { check_memory((count as usize).saturating_mul(BYTES)) } else { Ok(()) }
}

impl<'a> Body<'a> {
    fn read(tensor: &Tensor, options: &'a Options) -> Result<Self> {
        let summarise = tensor.numel() as f64 > options.threshold;
        let plain = match opaque::value(tensor)? {
            Some(value) => value,
            None => op::resolve_neg(&op::resolve_conj(&op::detach(tensor)?)?)?,
        };
        let mut shown = plain;
        let mut gaps = vec![false; tensor.dim()];
        let edge = options.edgeitems as i64;
        for (dim, gap) in gaps.iter_mut().enumerate() {
            let size = shown.sizes()[dim];
            if summarise && size > edge.saturating_mul(2) {
                let first = op::narrow(&shown, dim as i64, 0, edge)?;
                let last = op::narrow(&shown, dim as i64, size - edge, edge)?;
                shown = op::cat(&[first, last], dim as i64)?;
                *gap = true;
            }
        }
        check_room(shown.numel())?;
        let sizes = shown.sizes().iter().map(|size| *size as usize).collect();
        let (cells, cell_width) = cells(&shown, options)?;
        Ok(Self { cells, cell_width, sizes, gaps, options })
    }

    /// The text of the slice that starts at cell `next`, which moves on.
    fn text(&self, dim: usize, next: &mut usize, indent: usize) -> String {
        match self.sizes.len() - dim {
            0 => self.cells.first().map(|cell| cell.trim_start().to_owned()).unwrap_or_default(),
            1 => self.row(dim, next, indent),
            rest => {
                let edge = self.options.edgeitems;
                // Bounded: what check_room asked for.
                let mut slices = Vec::with_capacity(self.sizes[dim] + 1);
                for position in 0..self.sizes[dim] {
                    if self.gaps[dim] && position == edge {
                        slices.push("...".to_owned());
                    }
                    slices.push(self.text(dim + 1, next, indent + 1));
                }
                if self.gaps[dim] && edge == 0 {
                    slices.push("...".to_owned());
                }
                // Bounded: what check_room asked for.
                let separator = format!(",{}{}", "\n".repeat(rest - 1), " ".repeat(indent + 1));
                format!("[{}]", slices.join(&separator))
            }
        }
    }

    fn row(&self, dim: usize, next: &mut usize, indent: usize) -> String {
        let edge = self.options.edgeitems;
        // Bounded: what check_room asked for.
        let mut cells: Vec<&str> = Vec::with_capacity(self.sizes[dim] + 1);
        for position in 0..self.sizes[dim] {
            if self.gaps[dim] && position == edge {
                cells.push(" ...");
            }
            cells.push(&self.cells[*next]);
            *next += 1;
        }
        if self.gaps[dim] && edge == 0 {
            cells.push("...");
        }
        let per_line = (self.options.linewidth.saturating_sub(indent) / self.cell_width).max(1);
        let lines: Vec<String> = cells.chunks(per_line).map(|line| line.join(", ")).collect();
        // Bounded: what check_room asked for.
        format!("[{}]", lines.join(&format!(",\n{}", " ".repeat(indent + 1))))
    }
}

/// Every element as text in one notation, and the width of a cell with its separator.
fn cells(shown: &Tensor, options: &Options) -> Result<(Vec<String>, usize)> {
    let dtype = shown.dtype();
    if dtype.is_complex() {
        let values = shown.to_vec::<Complex<f64>>()?;
        let parts = |part: fn(&Complex<f64>) -> f64| values.iter().map(part).collect::<Vec<_>>();
        let re = Notation::of(&parts(|value| value.re), options);
        let im = Notation::of(&parts(|value| value.im), options);
        let cells = values.iter().map(|value| re.complex(&im, value.re, value.im)).collect();
        return Ok((cells, re.width + im.width + 3));
    }
    if dtype.is_floating_point() {
        let values = shown.to_vec::<f64>()?;
        let notation = Notation::of(&values, options);
        let cells = values.iter().map(|value| notation.float(*value)).collect();
        return Ok((cells, notation.width + 2));
    }
    let texts: Vec<String> = match dtype {
        DType::Bool => {
            let name = |value: &bool| (if *value { "True" } else { "False" }).to_owned();
            shown.to_vec::<bool>()?.iter().map(name).collect()
        }
        DType::UInt64 => shown.to_vec::<u64>()?.iter().map(u64::to_string).collect(),
        _ => shown.to_vec::<i64>()?.iter().map(i64::to_string).collect(),
    };
    let notation = Notation::verbatim(texts.iter());
    let cells = texts.iter().map(|text| notation.pad(text)).collect();
    Ok((cells, notation.width + 2))
}

/// What a tensor with a hidden dimension stands for.
fn repr_batched(found: &Batched) -> Result<String> {
    let value: String = repr(&found.value)?.lines().map(|line| format!("    {line}\n")).collect();
    let level = batched::depth(found.level).map_or("dead".to_owned(), |depth| depth.to_string());
    Ok(format!("BatchedTensor(lvl={level}, bdim={}, value=\n{value})", found.dim))
}
