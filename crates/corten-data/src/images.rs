//! Images in folders of classes.

use crate::dataset::{Dataset, check_index};
use corten_core::{Result, ensure, err};
use corten_ops::{Tensor, op};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Endings of the files that are taken.
const EXTENSIONS: [&str; 5] = ["jpg", "jpeg", "png", "gif", "webp"];

/// How many channels images have.
///
/// ```
/// use corten::data::ImageMode;
///
/// assert_eq!(ImageMode::default(), ImageMode::Rgb);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ImageMode {
    /// As many as the file has.
    Unchanged = 0,
    /// One: grey.
    Gray = 1,
    /// Two: grey and opacity.
    GrayAlpha = 2,
    /// Three: red, green, blue.
    #[default]
    Rgb = 3,
    /// Four: red, green, blue and opacity.
    RgbAlpha = 4,
}

/// The image in a JPEG, PNG, WebP or GIF file: bytes of shape `[channels, height, width]`.
///
/// # Errors
/// `Runtime` where the file cannot be read or is no such image.
///
/// ```
/// use corten::data::{ImageMode, read_image};
///
/// let missing = read_image("no-such-folder/cat.png", ImageMode::Rgb);
/// assert!(missing.unwrap_err().message().starts_with("no-such-folder/cat.png: "));
/// ```
pub fn read_image(path: impl AsRef<Path>, mode: ImageMode) -> Result<Tensor> {
    let path = path.as_ref();
    let bytes =
        std::fs::read(path).map_err(|error| err!(Runtime, "{}: {error}", path.display()))?;
    let count = bytes.len() as i64;
    let image = op::decode_image(&Tensor::from_vec(bytes, &[count])?, mode as i64, false);
    image.map_err(|error| err!(Runtime, "{}: {}", path.display(), error.message()))
}

/// Images in a folder for each class: `cats/1.png`, `cats/more/2.jpg`, `dogs/3.png`.
///
/// A sample is an image, bytes of shape `[channels, height, width]`, and the number of its class.
/// Classes are numbered in the order of their names, and samples follow the order of torchvision's
/// `ImageFolder`. Images become equal in size by a [`MapDataset`](crate::MapDataset).
///
/// ```
/// use corten::data::ImageFolder;
/// use corten::prelude::*;
///
/// let folder = std::env::temp_dir().join(format!("corten-doc-images-{}", std::process::id()));
/// for (class, level) in [("dark", 10u8), ("light", 200)] {
///     std::fs::create_dir_all(folder.join(class)).unwrap();
///     let pixels = Tensor::from_vec(vec![level; 12], &[3, 2, 2])?;
///     let file = op::encode_png(&pixels, 6)?.to_vec::<u8>()?;
///     std::fs::write(folder.join(class).join("1.png"), file).unwrap();
/// }
/// let images = ImageFolder::open(&folder)?;
/// assert_eq!(images.classes(), ["dark", "light"]);
/// let (pixels, class) = images.get(1)?;
/// assert_eq!((pixels.sizes().as_slice(), class), (&[3, 2, 2][..], 1));
/// # std::fs::remove_dir_all(folder).ok();
/// # Ok::<(), corten::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ImageFolder {
    classes: Vec<String>,
    samples: Vec<(PathBuf, i64)>,
    mode: ImageMode,
}

impl ImageFolder {
    /// The images below a folder, with three channels.
    ///
    /// # Errors
    /// `Runtime` where a folder cannot be read, holds no folders, or a class has no image.
    pub fn open(root: impl AsRef<Path>) -> Result<Self> {
        let root = root.as_ref();
        let mut classes: Vec<String> = entries(root)?
            .into_iter()
            .filter(|path| path.is_dir())
            .filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
            .collect();
        classes.sort();
        ensure!(
            !classes.is_empty(),
            Runtime,
            "Couldn't find any class folder in {}.",
            root.display()
        );
        let (mut samples, mut empty) = (Vec::new(), Vec::new());
        for (number, class) in classes.iter().enumerate() {
            let before = samples.len();
            let images = images_below(&root.join(class))?;
            samples.extend(images.into_iter().map(|path| (path, number as i64)));
            if samples.len() == before {
                empty.push(class.as_str());
            }
        }
        ensure!(
            empty.is_empty(),
            Runtime,
            "Found no valid file for the classes {}. Supported extensions are: .{}",
            empty.join(", "),
            EXTENSIONS.join(", .")
        );
        Ok(Self { classes, samples, mode: ImageMode::Rgb })
    }

    /// How many channels images have.
    #[must_use]
    pub fn mode(mut self, mode: ImageMode) -> Self {
        self.mode = mode;
        self
    }

    /// The names of the classes.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// The files and their classes.
    pub fn samples(&self) -> &[(PathBuf, i64)] {
        &self.samples
    }
}

impl Dataset for ImageFolder {
    type Sample = (Tensor, i64);

    fn len(&self) -> usize {
        self.samples.len()
    }

    fn get(&self, index: usize) -> Result<(Tensor, i64)> {
        check_index(index, self.samples.len())?;
        let (path, class) = &self.samples[index];
        Ok((read_image(path, self.mode)?, *class))
    }
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let told = |error: std::io::Error| err!(Runtime, "{}: {error}", folder.display());
    let found = std::fs::read_dir(folder).map_err(told)?;
    found.map(|entry| Ok(entry.map_err(told)?.path())).collect()
}

/// The images of all folders below one: folders by their paths, files by their names.
fn images_below(root: &Path) -> Result<Vec<PathBuf>> {
    let mut folders = BTreeSet::from([root.to_path_buf()]);
    // A link may lead back to a folder that holds it.
    let (mut waiting, mut visited) = (vec![root.to_path_buf()], BTreeSet::new());
    while let Some(folder) = waiting.pop() {
        if folder.canonicalize().is_ok_and(|real| !visited.insert(real)) {
            continue;
        }
        for path in entries(&folder)?.into_iter().filter(|path| path.is_dir()) {
            folders.insert(path.clone());
            waiting.push(path);
        }
    }
    let mut by_text: Vec<PathBuf> = folders.into_iter().collect();
    by_text.sort_by(|a, b| a.as_os_str().cmp(b.as_os_str()));
    let mut images = Vec::new();
    for folder in by_text {
        let mut files = entries(&folder)?;
        files.retain(|path| path.is_file() && is_image(path));
        files.sort();
        images.extend(files);
    }
    Ok(images)
}

fn is_image(path: &Path) -> bool {
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
    ending.is_some_and(|ending| EXTENSIONS.contains(&ending.as_str()))
}
