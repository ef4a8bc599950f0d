//! Values as TensorBoard's plugins want them.

use super::record::Message;
use corten_core::{DType, Result, ensure, err};
use corten_ops::{Tensor, op};
use flate2::write::ZlibEncoder;
use flate2::{Compression, Crc};
use std::io::Write;

/// The data type of text in TensorBoard's tensors.
const STRING: i64 = 7;
const COLUMNS: usize = 8;

/// What one point of a chart, a picture or a text is made of.
///
/// ```
/// use corten::io::tensorboard::{Bins, Summary};
/// use corten::prelude::*;
///
/// let weights = tensor![0.5, -0.25, 1.0]?;
/// let summary = Summary::histogram("weights", &weights, &Bins::TensorFlow, None)?;
/// assert!(summary.as_bytes().len() > 50);
/// # Ok::<(), corten::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary(Vec<u8>);

/// Where the bars of a histogram begin and end.
///
/// ```
/// use corten::io::tensorboard::Bins;
///
/// let quarters = Bins::Edges(vec![0.0, 0.25, 0.5, 0.75, 1.0]);
/// assert!(matches!(quarters, Bins::Edges(edges) if edges.len() == 5));
/// ```
#[derive(Clone, Debug, Default)]
pub enum Bins {
    /// Edges a tenth apart from each other, from 1e-12 on, on both sides of zero.
    #[default]
    TensorFlow,
    /// These edges, in rising order.
    Edges(Vec<f64>),
}

impl Summary {
    pub(super) fn new(tag: &str, value: Message) -> Self {
        Self::of_plugin(tag, value, None)
    }

    /// A value for a plugin, which is told more about it.
    pub(super) fn of_plugin(tag: &str, value: Message, plugin: Option<(&str, Message)>) -> Self {
        let mut body = Message::new().data(1, tag);
        body.0.extend(value.0);
        if let Some((plugin, content)) = plugin {
            let mut named = Message::new().data(1, plugin);
            if !content.0.is_empty() {
                named = named.message(2, content);
            }
            body = body.message(9, Message::new().message(1, named));
        }
        Self(Message::new().message(1, body).0)
    }

    /// A summary that somebody else encoded.
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// The bytes of the protocol buffer.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// A number, in single precision.
    pub fn scalar(tag: &str, value: f64) -> Self {
        Self::new(tag, Message::new().single(2, value as f32))
    }

    /// A number as the newer plugin for scalars wants it, in single or double precision.
    pub fn scalar_tensor(tag: &str, value: f64, double_precision: bool) -> Self {
        let (dtype, field) = if double_precision { (2, 6) } else { (1, 5) };
        let tensor = Message::new().integer(1, dtype).data(2, b"");
        let tensor = if double_precision {
            tensor.data(field, value.to_le_bytes())
        } else {
            tensor.data(field, (value as f32).to_le_bytes())
        };
        Self::of_plugin(tag, Message::new().message(8, tensor), Some(("scalars", Message::new())))
    }

    /// A text in Markdown.
    pub fn text(tag: &str, text: &str) -> Self {
        let shape = Message::new().message(2, Message::new().integer(1, 1));
        let tensor = Message::new().integer(1, STRING).message(2, shape).data(8, text);
        let tag = format!("{tag}/text_summary");
        Self::of_plugin(&tag, Message::new().message(8, tensor), Some(("text", Message::new())))
    }

    /// How often the elements of a tensor fall between edges; neighbours are joined where there
    /// would be more than `max_bins`.
    ///
    /// # Errors
    /// `Value` without an element, and where none falls between the edges.
    pub fn histogram(
        tag: &str,
        values: &Tensor,
        bins: &Bins,
        max_bins: Option<usize>,
    ) -> Result<Self> {
        let mut values = values.to_vec::<f64>()?;
        ensure!(!values.is_empty(), Value, "The input has no element.");
        let (sum, squares) = (values.iter().sum(), values.iter().map(|x| x * x).sum());
        values.sort_by(f64::total_cmp);
        let (mut counts, mut limits) = match bins {
            Bins::TensorFlow => counted(&values, default_edges()),
            Bins::Edges(edges) => counted(&values, edges.clone()),
        };
        if let Some(most) = max_bins.filter(|most| *most > 0 && *most < counts.len()) {
            let step = counts.len().div_ceil(most);
            let last = limits.pop();
            limits = limits.into_iter().step_by(step).chain(last).collect();
            counts = counts.chunks(step).map(|joined| joined.iter().sum()).collect();
        }
        let filled = |count: &f64| *count > 0.0;
        let none = || err!(Value, "no element falls between the edges of the histogram");
        let start = counts.iter().position(filled).ok_or_else(none)?;
        let end = counts.iter().rposition(filled).ok_or_else(none)? + 1;
        // From the empty bar before the first filled one; each count goes with its upper limit.
        let kept = if start > 0 {
            counts[start - 1..end].to_vec()
        } else {
            [&[0.0], &counts[..end]].concat()
        };
        let extremes = (values[0], values[values.len() - 1]);
        let stats = [extremes.0, extremes.1, values.len() as f64, sum, squares];
        Ok(Self::raw_histogram(tag, stats, &limits[start..=end], &kept))
    }

    /// A histogram that was computed already: its least and greatest element, their number, sum
    /// and sum of squares; the upper limit of each bar and its count.
    pub fn raw_histogram(tag: &str, stats: [f64; 5], limits: &[f64], counts: &[f64]) -> Self {
        let histogram = (1..).zip(stats).fold(Message::new(), |m, (field, x)| m.double(field, x));
        let histogram = histogram.doubles(6, limits).doubles(7, counts);
        Self::new(tag, Message::new().message(5, histogram))
    }

    /// A picture of bytes, or of numbers from 0 to 1. `format` names the dimensions: `CHW`, `HWC`,
    /// `HW`, or with `N` for several beside each other.
    ///
    /// # Errors
    /// `Value` for a tensor of other dimensions, or of other than 1, 3 or 4 channels.
    pub fn image(tag: &str, images: &Tensor, format: &str) -> Result<Self> {
        let pixels = Pixels::of(images, format)?;
        let [height, width, channels] = [pixels.height, pixels.width, pixels.channels];
        let image = Message::new().integer(1, height as i64).integer(2, width as i64);
        let image = image.integer(3, channels as i64).data(4, pixels.png()?);
        Ok(Self::new(tag, Message::new().message(4, image)))
    }
}

/// Edges on both sides of zero, as TensorFlow has them.
fn default_edges() -> Vec<f64> {
    let above = std::iter::successors(Some(1e-12), |edge| Some(edge * 1.1));
    let above: Vec<f64> = above.take_while(|edge| *edge < 1e20).collect();
    let below = above.iter().rev().map(|edge| -edge);
    below.chain([0.0]).chain(above.iter().copied()).collect()
}

/// How many of sorted values lie from each edge on and below the next; the last bar has its end.
fn counted(sorted: &[f64], edges: Vec<f64>) -> (Vec<f64>, Vec<f64>) {
    let last = edges.len().saturating_sub(1);
    let below: Vec<usize> = edges
        .iter()
        .enumerate()
        .map(|(at, edge)| {
            sorted.partition_point(|value| value < edge || (at == last && value <= edge))
        })
        .collect();
    (below.windows(2).map(|pair| pair[1].saturating_sub(pair[0]) as f64).collect(), edges)
}

/// Bytes of pixels, rows of `width` times `channels`.
struct Pixels {
    height: usize,
    width: usize,
    channels: usize,
    bytes: Vec<u8>,
}

impl Pixels {
    fn of(images: &Tensor, format: &str) -> Result<Self> {
        let format = format.to_uppercase();
        let shape = images.sizes();
        let fits = images.dim() == format.len();
        ensure!(
            fits,
            Value,
            "size of input tensor and input format are different. tensor shape: {:?}, \
             input_format: {format}",
            shape.as_slice()
        );
        let scale = if images.dtype() == DType::UInt8 { 1.0 } else { 255.0 };
        let mut axes = Vec::new();
        for letter in "NHWC".chars().filter(|letter| format.contains(*letter)) {
            axes.extend(format.find(letter).map(|at| at as i64));
        }
        let known = axes.len() == format.len() && format.contains('H') && format.contains('W');
        ensure!(known, Value, "dimensions are named by N, H, W and C, but got {format}");
        let ordered = op::permute(images, &axes)?;
        let size = |letter| format.find(letter).map_or(1, |at| shape[at] as usize);
        let values = ordered.to_vec::<f32>()?;
        let bytes: Vec<u8> =
            values.into_iter().map(|x| (x * scale).clamp(0.0, 255.0) as u8).collect();
        let (height, width, channels) = (size('H'), size('W'), size('C'));
        ensure!(
            matches!(channels, 1 | 3 | 4),
            Value,
            "images have 1, 3 or 4 channels, but got {channels}"
        );
        Ok(Self { height, width, channels, bytes }.grid(size('N')).colored())
    }

    /// Pictures below each other become a grid of eight columns.
    fn grid(self, count: usize) -> Self {
        if count <= 1 {
            return self;
        }
        let columns = count.min(COLUMNS);
        let row = self.width * self.channels;
        let stride = columns * row;
        let height = count.div_ceil(columns) * self.height;
        // Bounded: as the picture, and at most seven more of its parts.
        let mut bytes = vec![0; height * stride];
        for (at, source) in self.bytes.chunks(row.max(1)).enumerate() {
            let (picture, y) = (at / self.height, at % self.height);
            let top = picture / columns * self.height + y;
            let start = top * stride + picture % columns * row;
            bytes[start..start + source.len()].copy_from_slice(source);
        }
        Self { height, width: columns * self.width, channels: self.channels, bytes }
    }

    /// Grey pictures with three equal channels.
    fn colored(self) -> Self {
        if self.channels != 1 {
            return self;
        }
        let bytes = self.bytes.iter().flat_map(|&byte| [byte; 3]).collect();
        Self { channels: 3, bytes, ..self }
    }

    fn png(&self) -> Result<Vec<u8>> {
        let told = |error: std::io::Error| err!(Runtime, "{error}");
        let mut packed = ZlibEncoder::new(Vec::new(), Compression::default());
        for row in self.bytes.chunks((self.width * self.channels).max(1)) {
            packed.write_all(&[0]).and_then(|()| packed.write_all(row)).map_err(told)?;
        }
        let color = if self.channels == 4 { 6 } else { 2 };
        let mut header = [self.width, self.height].map(|x| (x as u32).to_be_bytes()).concat();
        header.extend([8, color, 0, 0, 0]);
        let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
        let parts =
            [(b"IHDR", header), (b"IDAT", packed.finish().map_err(told)?), (b"IEND", vec![])];
        for (name, content) in parts {
            file.extend((content.len() as u32).to_be_bytes());
            let mut check = Crc::new();
            check.update(name);
            check.update(&content);
            file.extend(name);
            file.extend(content);
            file.extend(check.sum().to_be_bytes());
        }
        Ok(file)
    }
}
