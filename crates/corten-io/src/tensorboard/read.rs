//! Event files, read back.

use super::record::{Field, fields, records};
use crate::atomic::io_error;
use corten_core::Result;
use std::path::Path;

/// An event of a file.
///
/// ```
/// use corten::io::tensorboard::{Event, EventValue};
///
/// let event = Event { step: 3, values: vec![("loss".into(), EventValue::Scalar(0.5))], ..Default::default() };
/// assert_eq!(event.values[0].1, EventValue::Scalar(0.5));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Event {
    /// Seconds since 1970.
    pub wall_time: f64,
    /// The step of the run.
    pub step: i64,
    /// The version of the file, in its first event.
    pub version: Option<String>,
    /// Tags and values.
    pub values: Vec<(String, EventValue)>,
}

/// A value of an event.
///
/// ```
/// use corten::io::tensorboard::EventValue;
///
/// assert_ne!(EventValue::Scalar(1.0), EventValue::Text("1".into()));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum EventValue {
    /// A number.
    Scalar(f64),
    /// A text.
    Text(String),
    /// A picture as a PNG file, with its height and width.
    Image(i64, i64, Vec<u8>),
    /// A histogram: the statistics (least, greatest, number, sum, sum of squares), the upper
    /// limits and the counts.
    Histogram([f64; 5], Vec<f64>, Vec<f64>),
    /// Something else, as its bytes.
    Other(Vec<u8>),
}

/// The events of a file.
///
/// # Errors
/// `Runtime` where the file cannot be read; `Value` where it is damaged.
pub fn read_events(path: impl AsRef<Path>) -> Result<Vec<Event>> {
    let path = path.as_ref();
    let bytes = std::fs::read(path).map_err(|error| io_error(path, &error))?;
    parse_events(&bytes)
}

/// The events in the bytes of a file.
///
/// # Errors
/// `Value` where they are damaged.
pub fn parse_events(bytes: &[u8]) -> Result<Vec<Event>> {
    records(bytes)?.into_iter().map(event).collect()
}

fn event(message: &[u8]) -> Result<Event> {
    let mut event = Event::default();
    for (number, field) in fields(message)? {
        match (number, field) {
            (1, Field::Double(time)) => event.wall_time = time,
            (2, Field::Integer(step)) => event.step = step,
            (3, Field::Data(version)) => event.version = Some(text(version)),
            (5, Field::Data(summary)) => {
                for (_, value) in fields(summary)? {
                    if let Field::Data(value) = value {
                        event.values.push(tagged(value)?);
                    }
                }
            }
            _ => {}
        }
    }
    Ok(event)
}

fn tagged(message: &[u8]) -> Result<(String, EventValue)> {
    let (mut tag, mut value) = (String::new(), EventValue::Other(message.to_vec()));
    for (number, field) in fields(message)? {
        match (number, field) {
            (1, Field::Data(name)) => tag = text(name),
            (2, Field::Single(number)) => value = EventValue::Scalar(f64::from(number)),
            (4, Field::Data(found)) => value = image(found)?,
            (5, Field::Data(found)) => value = histogram(found)?,
            (8, Field::Data(found)) => value = tensor(found)?,
            _ => {}
        }
    }
    Ok((tag, value))
}

fn image(message: &[u8]) -> Result<EventValue> {
    let (mut size, mut file) = ((0, 0), Vec::new());
    for field in fields(message)? {
        match field {
            (1, Field::Integer(height)) => size.0 = height,
            (2, Field::Integer(width)) => size.1 = width,
            (4, Field::Data(data)) => file = data.to_vec(),
            _ => {}
        }
    }
    Ok(EventValue::Image(size.0, size.1, file))
}

fn histogram(message: &[u8]) -> Result<EventValue> {
    let (mut stats, mut limits, mut counts) = ([0.0; 5], Vec::new(), Vec::new());
    for field in fields(message)? {
        match field {
            (number @ 1..=5, Field::Double(value)) => stats[number as usize - 1] = value,
            (6, Field::Data(data)) => limits = doubles(data),
            (7, Field::Data(data)) => counts = doubles(data),
            _ => {}
        }
    }
    Ok(EventValue::Histogram(stats, limits, counts))
}

fn tensor(message: &[u8]) -> Result<EventValue> {
    for field in fields(message)? {
        match field {
            (8, Field::Data(string)) => return Ok(EventValue::Text(text(string))),
            (6, Field::Data(data)) if data.len() == 8 => {
                return Ok(EventValue::Scalar(doubles(data)[0]));
            }
            (5, Field::Data(&[a, b, c, d])) => {
                return Ok(EventValue::Scalar(f64::from(f32::from_le_bytes([a, b, c, d]))));
            }
            _ => {}
        }
    }
    Ok(EventValue::Other(message.to_vec()))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn doubles(data: &[u8]) -> Vec<f64> {
    let (whole, _) = data.as_chunks::<8>();
    whole.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect()
}
