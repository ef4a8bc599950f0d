//! GIF files, by the crate `gif`.

use corten_core::{Error, Result, bail, ensure, err, try_reserve, try_vec};
use gif::{ColorOutput, DecodeOptions, DisposalMethod, Frame, MemoryLimit};
use std::num::NonZeroU64;

/// The pixels of all images of a file, channels last, with their number, height and width.
///
/// # Errors
/// `Runtime` for what is no such file, or not all of it.
pub(super) fn decode(data: &[u8]) -> Result<(Vec<u8>, [usize; 3])> {
    let mut options = DecodeOptions::new();
    options.set_color_output(ColorOutput::Indexed);
    // The largest image that the format has.
    let most = NonZeroU64::new(1 << 32).map_or(MemoryLimit::Unlimited, MemoryLimit::Bytes);
    options.set_memory_limit(most);
    let mut decoder = options.read_info(data).map_err(failed)?;
    let background = match (decoder.global_palette(), decoder.bg_color()) {
        (Some(palette), Some(place)) => colour(palette, place),
        _ => [0; 3],
    };
    let mut canvas = Canvas {
        size: [usize::from(decoder.height()), usize::from(decoder.width())],
        images: Vec::new(),
        count: 0,
        background,
    };
    loop {
        // Memory is asked for before the crate takes it.
        let Some(frame) = decoder.next_frame_info().map_err(failed)? else { break };
        let mut indices = try_vec(0u8, usize::from(frame.width) * usize::from(frame.height))?;
        let frame = Frame { buffer: Vec::new().into(), ..frame.clone() };
        decoder.read_into_buffer(&mut indices).map_err(failed)?;
        let Some(palette) = frame.palette.as_deref().or(decoder.global_palette()) else {
            bail!(Runtime, "Global and local color maps are missing. This should never happen!");
        };
        canvas.add(&frame, &indices, palette)?;
    }
    ensure!(canvas.count > 0, Runtime, "GIF file should contain at least one image!");
    let [height, width] = canvas.size;
    Ok((canvas.images, [canvas.count, height, width]))
}

fn failed(error: gif::DecodingError) -> Error {
    err!(Runtime, "decode_gif: {error}")
}

fn colour(palette: &[u8], place: usize) -> [u8; 3] {
    palette.get(3 * place..).and_then(|rest| rest.first_chunk()).copied().unwrap_or_default()
}

/// The images so far.
struct Canvas {
    /// Height and width.
    size: [usize; 2],
    images: Vec<u8>,
    count: usize,
    background: [u8; 3],
}

impl Canvas {
    /// Draws a frame on the image before, or on the background if it says so. What it says of the time
    /// after it is taken for the time before, as in torchvision.
    fn add(&mut self, frame: &Frame<'_>, indices: &[u8], palette: &[u8]) -> Result<()> {
        let [across, down] = [frame.width, frame.height].map(usize::from);
        if self.count == 0 {
            self.size = [self.size[0].max(down), self.size[1].max(across)];
        }
        let [height, width] = self.size;
        let bytes = height * width * 3;
        let first = self.images.len();
        try_reserve(&mut self.images, bytes)?;
        let keeps = frame.dispose != DisposalMethod::Background;
        if self.count > 0 && keeps {
            self.images.extend_from_within(first - bytes..);
        } else {
            let pixels = std::iter::repeat_n(self.background, height * width);
            self.images.extend(pixels.flatten());
        }
        self.count += 1;
        let image = &mut self.images[first..];
        for (row, indices) in indices.chunks_exact(across.max(1)).enumerate() {
            for (column, &index) in indices.iter().enumerate() {
                let (y, x) = (row + usize::from(frame.top), column + usize::from(frame.left));
                if Some(index) != frame.transparent && y < height && x < width {
                    let colour = colour(palette, usize::from(index));
                    image[(y * width + x) * 3..][..3].copy_from_slice(&colour);
                }
            }
        }
        Ok(())
    }
}
