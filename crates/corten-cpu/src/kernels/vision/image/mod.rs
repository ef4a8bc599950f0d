//! Image files: their bytes to pixels, and back.

mod exif;
mod gif;
mod jpeg;
mod png;
mod webp;

use corten_core::{
    Access, AccessSet, DType, Element, Reader, Result, TensorBase, TensorOptions, Writer, bail,
    ensure, err,
};
use corten_ops::{Tensor, op};

use crate::kernels::support::contiguous;

/// The channels that are asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mode {
    Unchanged,
    Grey,
    GreyAlpha,
    Rgb,
    Rgba,
}

impl Mode {
    fn of(mode: i64, format: &str) -> Result<Self> {
        Ok(match mode {
            0 => Self::Unchanged,
            1 => Self::Grey,
            2 => Self::GreyAlpha,
            3 => Self::Rgb,
            4 => Self::Rgba,
            _ => bail!(Runtime, "The provided mode is not supported for {format} files"),
        })
    }
}

/// An image whose pixels lie side by side, channels last.
struct Picture<T = u8> {
    width: usize,
    height: usize,
    channels: usize,
    samples: Vec<T>,
    /// The Exif data of the file.
    exif: Option<Vec<u8>>,
}

impl<T: Element> Picture<T> {
    /// The image as a tensor of shape `[channels, height, width]`, turned as the Exif data says if
    /// that is wanted.
    fn into_tensor(self, dtype: DType, turned: bool) -> Result<Tensor> {
        let sizes = [self.height, self.width, self.channels].map(|size| size as i64);
        let tensor = tensor_of(&self.samples, &sizes, dtype)?;
        let tensor = op::permute(&tensor, &[2, 0, 1])?;
        match self.exif.filter(|_| turned) {
            Some(data) => exif::turned(&tensor, exif::orientation(&data)),
            None => Ok(tensor),
        }
    }
}

/// A new tensor of these elements.
fn tensor_of<T: Element>(elements: &[T], sizes: &[i64], dtype: DType) -> Result<Tensor> {
    let tensor = TensorBase::empty(sizes, TensorOptions::new().dtype(dtype))?;
    Writer::<T>::new(&tensor)?.copy_from_slice(elements);
    Ok(tensor.into())
}

fn check_encoded(data: &Tensor) -> Result<()> {
    ensure!(data.is_contiguous(), Runtime, "Input tensor must be contiguous.");
    ensure!(
        data.dtype() == DType::UInt8,
        Runtime,
        "Input tensor must have uint8 data type, got {}",
        data.dtype()
    );
    ensure!(
        data.dim() == 1 && data.numel() > 0,
        Runtime,
        "Input tensor must be 1-dimensional and non-empty, got {} dims  and {} numels.",
        data.dim(),
        data.numel()
    );
    Ok(())
}

/// The image in the bytes of a JPEG file.
///
/// # Errors
/// `Runtime` for what is no such file, or not all of it.
pub fn decode_jpeg(data: &Tensor, mode: i64, apply_exif_orientation: bool) -> Result<Tensor> {
    check_encoded(data)?;
    let picture = jpeg::decode(&Reader::<u8>::new(data)?, Mode::of(mode, "JPEG")?)?;
    picture.into_tensor(DType::UInt8, apply_exif_orientation)
}

/// The image in the bytes of a PNG file.
///
/// # Errors
/// `Runtime` for what is no such file, or not all of it.
pub fn decode_png(data: &Tensor, mode: i64, apply_exif_orientation: bool) -> Result<Tensor> {
    check_encoded(data)?;
    match png::decode(&Reader::<u8>::new(data)?, mode)? {
        png::Decoded::Bytes(picture) => picture.into_tensor(DType::UInt8, apply_exif_orientation),
        png::Decoded::Words(picture) => picture.into_tensor(DType::UInt16, apply_exif_orientation),
    }
}

/// The image in the bytes of a WebP file.
///
/// # Errors
/// `Runtime` for what is no such file, or not all of it.
pub fn decode_webp(encoded_data: &Tensor, mode: i64) -> Result<Tensor> {
    check_encoded(encoded_data)?;
    let picture = webp::decode(&Reader::<u8>::new(encoded_data)?, mode)?;
    picture.into_tensor(DType::UInt8, false)
}

/// The images in the bytes of a GIF file.
///
/// # Errors
/// `Runtime` for what is no such file, or not all of it.
pub fn decode_gif(data: &Tensor) -> Result<Tensor> {
    check_encoded(data)?;
    let (samples, [images, height, width]) = gif::decode(&Reader::<u8>::new(data)?)?;
    let sizes = [images, height, width, 3].map(|size| size as i64);
    let tensor = op::permute(&tensor_of(&samples, &sizes, DType::UInt8)?, &[0, 3, 1, 2])?;
    if images == 1 { op::squeeze_dim(&tensor, 0) } else { Ok(tensor) }
}

/// The image in the bytes of a file of any of these formats.
///
/// # Errors
/// `Runtime` for files of other formats, and as for these.
pub fn decode_image(data: &Tensor, mode: i64, apply_exif_orientation: bool) -> Result<Tensor> {
    ensure!(data.dtype() == DType::UInt8, Runtime, "Expected a torch.uint8 tensor");
    ensure!(
        data.dim() == 1 && data.numel() > 0,
        Runtime,
        "Expected a non empty 1-dimensional tensor"
    );
    let data = contiguous(data)?;
    let begins =
        |with: &[u8]| Ok::<bool, corten_core::Error>(Reader::<u8>::new(&data)?.starts_with(with));
    if begins(&[0xff, 0xd8, 0xff])? {
        return decode_jpeg(&data, mode, apply_exif_orientation);
    }
    if begins(b"\x89PNG")? {
        return decode_png(&data, mode, apply_exif_orientation);
    }
    if begins(b"GIF89a")? || begins(b"GIF87a")? {
        return decode_gif(&data);
    }
    if begins(b"RIFF")? && Reader::<u8>::new(&data)?.get(8..15) == Some(b"WEBPVP8".as_slice()) {
        return decode_webp(&data, mode);
    }
    bail!(
        Runtime,
        "Unsupported image file. Only jpeg, png, webp and gif are currently supported. For avif and \
         heic format, please rely on `decode_avif` and `decode_heic` directly."
    )
}

/// The pixels of an image that is to be written, channels last.
fn pixels_of(data: &Tensor) -> Result<(Tensor, [usize; 3])> {
    ensure!(data.dtype() == DType::UInt8, Runtime, "Input tensor dtype should be uint8");
    ensure!(data.dim() == 3, Runtime, "Input data should be a 3-dimensional tensor");
    let channels = data.sizes()[0];
    ensure!(
        channels == 1 || channels == 3,
        Runtime,
        "The number of channels should be 1 or 3, got: {channels}"
    );
    let pixels = contiguous(&op::permute(data, &[1, 2, 0])?)?;
    let sizes = pixels.sizes();
    let sizes = [sizes[0], sizes[1], sizes[2]].map(|size| size as usize);
    Ok((pixels, sizes))
}

/// The bytes of a JPEG file of an image.
///
/// # Errors
/// `Runtime` for what is no image of one or three channels.
pub fn encode_jpeg(data: &Tensor, quality: i64) -> Result<Tensor> {
    let (pixels, sizes) = pixels_of(data)?;
    let bytes = jpeg::encode(&Reader::<u8>::new(&pixels)?, sizes, quality)?;
    tensor_of(&bytes, &[bytes.len() as i64], DType::UInt8)
}

/// The bytes of a PNG file of an image.
///
/// # Errors
/// `Runtime` for what is no image of one or three channels, and for levels that do not exist.
pub fn encode_png(data: &Tensor, compression_level: i64) -> Result<Tensor> {
    ensure!(
        (0..=9).contains(&compression_level),
        Runtime,
        "Compression level should be between 0 and 9"
    );
    let (pixels, sizes) = pixels_of(data)?;
    let bytes = png::encode(&Reader::<u8>::new(&pixels)?, sizes, compression_level as u8)?;
    tensor_of(&bytes, &[bytes.len() as i64], DType::UInt8)
}

/// Writes bytes to a file and gives them back.
///
/// # Errors
/// `Runtime` for what is no list of bytes, and for a file that cannot be written.
pub fn write_file(filename: &str, data: &Tensor) -> Result<Tensor> {
    ensure!(data.dtype() == DType::UInt8, Runtime, "Input tensor dtype should be uint8");
    ensure!(data.dim() == 1, Runtime, "Input data should be a 1-dimensional tensor");
    let dense = contiguous(data)?;
    let access = AccessSet::acquire(&[(&dense, Access::Read)])?;
    std::fs::write(filename, access.read::<u8>(0)?)
        .map_err(|error| err!(Runtime, "Error opening output file '{filename}': {error}"))?;
    Ok(data.clone())
}
