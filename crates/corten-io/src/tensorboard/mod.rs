//! TensorBoard's event files.
//!
//! ```
//! use corten::io::tensorboard::{EventValue, SummaryWriter, read_events};
//!
//! # fn main() -> corten::Result<()> {
//! let folder = std::env::temp_dir().join(format!("corten-doc-runs-{}", std::process::id()));
//! let mut writer = SummaryWriter::new(&folder)?;
//! for step in 0..3 {
//!     writer.add_scalar("loss", 1.0 / (step + 1) as f64, step)?;
//! }
//! writer.flush()?;
//! let events = read_events(writer.path())?;
//! assert_eq!(events[2].values[0], ("loss".to_owned(), EventValue::Scalar(0.5)));
//! # std::fs::remove_dir_all(folder).ok();
//! # Ok(())
//! # }
//! ```

mod plugins;
mod read;
mod record;
mod summary;

pub use read::{Event, EventValue, parse_events, read_events};
pub use record::{crc32c, masked_crc};
pub use summary::{Bins, Summary};

use crate::atomic::io_error;
use corten_core::{Result, clock};
use corten_ops::Tensor;
use record::{Message, record};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

static NUMBER: AtomicU64 = AtomicU64::new(0);

/// Writes what TensorBoard shows to an event file in a folder.
///
/// The file is complete after [`flush`](Self::flush), and when the writer is dropped.
///
/// ```
/// use corten::io::tensorboard::{Summary, SummaryWriter};
///
/// let folder = std::env::temp_dir().join(format!("corten-doc-writer-{}", std::process::id()));
/// let mut writer = SummaryWriter::new(&folder)?;
/// writer.add_text("notes", "first run", 0)?;
/// // With a time of one's own:
/// writer.add(&Summary::scalar("loss", 0.5), 1, Some(1700000000.0))?;
/// writer.flush()?;
/// # std::fs::remove_dir_all(folder).ok();
/// # Ok::<(), corten::Error>(())
/// ```
#[derive(Debug)]
pub struct SummaryWriter {
    path: PathBuf,
    file: BufWriter<File>,
}

impl SummaryWriter {
    /// Begins an event file in a folder, which is made where it is missing.
    ///
    /// # Errors
    /// `Runtime` where the file cannot be made.
    pub fn new(folder: impl AsRef<Path>) -> Result<Self> {
        Self::with_suffix(folder, "")
    }

    /// As [`new`](Self::new), with an ending for the name of the file.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_suffix(folder: impl AsRef<Path>, suffix: &str) -> Result<Self> {
        let folder = folder.as_ref();
        std::fs::create_dir_all(folder).map_err(|error| io_error(folder, &error))?;
        let (host, process) = (host_name(), clock::process_id());
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("events.out.tfevents.{:.0}.{host}.{process}.{number}{suffix}", now());
        let path = folder.join(name);
        let file = File::create(&path).map_err(|error| io_error(&path, &error))?;
        let mut writer = Self { path, file: BufWriter::new(file) };
        writer.event(now(), 0, 3, b"brain.Event:2")?;
        writer.flush()?;
        Ok(writer)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a summary at a step and a time in seconds since 1970: now, unless given.
    ///
    /// # Errors
    /// `Runtime` where the file cannot be written.
    pub fn add(&mut self, summary: &Summary, step: i64, wall_time: Option<f64>) -> Result<()> {
        self.event(wall_time.unwrap_or_else(now), step, 5, summary.as_bytes())
    }

    /// Writes a number.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub fn add_scalar(&mut self, tag: &str, value: f64, step: i64) -> Result<()> {
        self.add(&Summary::scalar(tag, value), step, None)
    }

    /// Writes the distribution of a tensor's elements.
    ///
    /// # Errors
    /// As [`add`](Self::add) and [`Summary::histogram`].
    pub fn add_histogram(&mut self, tag: &str, values: &Tensor, step: i64) -> Result<()> {
        self.add(&Summary::histogram(tag, values, &Bins::TensorFlow, None)?, step, None)
    }

    /// Writes a picture of shape `[channels, height, width]`: bytes, or numbers from 0 to 1.
    ///
    /// # Errors
    /// As [`add`](Self::add) and [`Summary::image`].
    pub fn add_image(&mut self, tag: &str, image: &Tensor, step: i64) -> Result<()> {
        self.add(&Summary::image(tag, image, "CHW")?, step, None)
    }

    /// Writes pictures of shape `[number, channels, height, width]` beside each other.
    ///
    /// # Errors
    /// As [`add`](Self::add) and [`Summary::image`].
    pub fn add_images(&mut self, tag: &str, images: &Tensor, step: i64) -> Result<()> {
        self.add(&Summary::image(tag, images, "NCHW")?, step, None)
    }

    /// Writes a text in Markdown.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub fn add_text(&mut self, tag: &str, text: &str, step: i64) -> Result<()> {
        self.add(&Summary::text(tag, text), step, None)
    }

    /// Hands everything to the system.
    ///
    /// # Errors
    /// `Runtime` where the file cannot be written.
    pub fn flush(&mut self) -> Result<()> {
        self.file.flush().map_err(|error| io_error(&self.path, &error))
    }

    fn event(&mut self, wall_time: f64, step: i64, field: u64, payload: &[u8]) -> Result<()> {
        let mut event = Message::new().double(1, wall_time);
        if step != 0 {
            event = event.integer(2, step);
        }
        let bytes = record(&event.data(field, payload).0);
        self.file.write_all(&bytes).map_err(|error| io_error(&self.path, &error))
    }
}

/// Seconds since 1970.
fn now() -> f64 {
    clock::unix_time().as_secs_f64()
}

fn host_name() -> String {
    let told = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = told.trim();
    if name.is_empty() { "localhost".to_owned() } else { name.to_owned() }
}
