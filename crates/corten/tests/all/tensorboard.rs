//! Event files: the bytes that a second encoder writes for the same values, and what is read back.
#![allow(clippy::unwrap_used)] // tests may

use corten::io::Value;
use corten::io::tensorboard::*;
use corten::prelude::*;
use std::path::PathBuf;

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/goldens/event_files.txt");
const TIME: f64 = 1_700_000_000.25;

fn folder(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("corten-events-{name}-{}", std::process::id()))
}

fn golden(name: &str) -> Vec<u8> {
    let text = std::fs::read_to_string(GOLDEN).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name}|"))).unwrap();
    (0..line.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&line[at..at + 2], 16).unwrap())
        .collect()
}

/// What a writer appends for one summary.
fn written(summary: &Summary, step: i64) -> Vec<u8> {
    let folder = folder(&format!("step{step}"));
    let mut writer = SummaryWriter::with_suffix(&folder, ".test").unwrap();
    let before = std::fs::read(writer.path()).unwrap().len();
    writer.add(summary, step, Some(TIME)).unwrap();
    writer.flush().unwrap();
    let bytes = std::fs::read(writer.path()).unwrap();
    std::fs::remove_dir_all(folder).unwrap();
    bytes[before..].to_vec()
}

/// Sounds, curves and the parameters of a run.
fn of_plugins() -> Result<Vec<(&'static str, Summary)>> {
    let samples = tensor![-0.125, -0.875, 0.375, -0.625, 0.125, 1.375, -0.125]?;
    let (labels, predictions) = (tensor![1, 0, 1, 1, 0]?, tensor![0.9, 0.4, 0.35, 0.8, 0.1]?);
    let weights = tensor![1.0, 2.0, 0.5, 1.0, 4.0]?;
    let curve = |most, weights| Summary::pr_curve("pr", &labels, &predictions, most, weights);
    let text = |text: &str| Value::Text(text.to_owned());
    let parameters = [
        ("rate", Value::Float(0.1)),
        ("layers", Value::Int(3)),
        ("net", text("small")),
        ("bias", Value::Bool(true)),
    ];
    let parameters = parameters.map(|(name, value)| (name.to_owned(), value));
    let domains = [("net".to_owned(), vec![text("small"), text("large")])];
    let run = Summary::hyperparameters(&parameters, &["hp/loss".to_owned()], &domains)?;
    let names = ["hparams_experiment", "hparams_start", "hparams_end"];
    let mut cases = vec![
        ("audio", Summary::audio("beep", &samples, 8000)?),
        ("pr_curve", curve(5, None)?),
        ("pr_curve_weighted", curve(200, Some(&weights))?),
    ];
    cases.extend(names.into_iter().zip(run));
    assert!(curve(0, None).is_err() && curve(5, Some(&samples)).is_err());
    assert!(Summary::hyperparameters(&[("x".to_owned(), Value::None)], &[], &[]).is_err());
    Ok(cases)
}

#[test]
fn bytes_are_those_of_a_second_encoder() {
    let values = tensor![0.5, -0.25, 1.0, 0.0, 0.75, 2.0, 0.5].unwrap();
    let edges = Bins::Edges(vec![-1.0, 0.0, 0.5, 1.0, 2.0]);
    let histogram = |bins, most| Summary::histogram("weights", &values, bins, most).unwrap();
    let cases = [
        ("scalar", Summary::scalar("loss/train", 0.1)),
        ("scalar_tensor", Summary::scalar_tensor("loss", 0.1, false)),
        ("scalar_double", Summary::scalar_tensor("loss", 0.1, true)),
        ("text", Summary::text("notes", "two *words* ä")),
        ("histogram", histogram(&Bins::TensorFlow, None)),
        ("histogram_edges", histogram(&edges, None)),
        ("histogram_joined", histogram(&Bins::TensorFlow, Some(100))),
    ];
    let cases = cases.into_iter().chain(of_plugins().unwrap());
    for (step, (name, summary)) in cases.enumerate() {
        assert_eq!(written(&summary, step as i64), golden(name), "{name}");
    }
}

#[test]
fn files_are_read_back() {
    let folder = folder("read");
    let mut writer = SummaryWriter::new(&folder).unwrap();
    let path = writer.path().to_path_buf();
    let values = tensor![1.0, 1.0, 3.0].unwrap();
    writer.add_scalar("loss", 0.5, 1).unwrap();
    writer.add_histogram("values", &values, -2).unwrap();
    writer.add_text("notes", "hello", 3).unwrap();
    writer.add(&Summary::scalar_tensor("new", 0.1, true), 4, Some(TIME)).unwrap();
    drop(writer);
    let events = read_events(&path).unwrap();
    assert_eq!(events[0].version.as_deref(), Some("brain.Event:2"));
    assert_eq!(events[1].values, [("loss".to_owned(), EventValue::Scalar(0.5))]);
    assert_eq!(events[2].step, -2);
    let EventValue::Histogram(stats, limits, counts) = &events[2].values[0].1 else { panic!() };
    assert_eq!(*stats, [1.0, 3.0, 3.0, 5.0, 11.0]);
    assert_eq!((limits.len(), counts.iter().sum::<f64>()), (counts.len(), 3.0));
    assert_eq!(events[3].values[0].1, EventValue::Text("hello".to_owned()));
    assert_eq!((events[4].wall_time, &events[4].values[0].1), (TIME, &EventValue::Scalar(0.1)));
    let mut bytes = std::fs::read(&path).unwrap();
    for length in [bytes.len() - 1, 20, 5] {
        std::fs::write(&path, &bytes[..length]).unwrap();
        assert!(read_events(&path).is_err(), "{length} bytes");
    }
    bytes[30] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    assert!(read_events(&path).unwrap_err().message().contains("checksum"));
    std::fs::remove_dir_all(folder).unwrap();
}

/// The pixels of the picture of a summary, channels last.
fn pixels(image: &Tensor, format: &str) -> (Vec<i64>, Vec<u8>) {
    let folder = folder(format);
    let mut writer = SummaryWriter::new(&folder).unwrap();
    writer.add(&Summary::image("picture", image, format).unwrap(), 0, None).unwrap();
    writer.flush().unwrap();
    let events = read_events(writer.path()).unwrap();
    std::fs::remove_dir_all(folder).unwrap();
    let EventValue::Image(height, width, file) = events[1].values[0].1.clone() else { panic!() };
    let count = file.len() as i64;
    let decoded = op::decode_image(&Tensor::from_vec(file, &[count]).unwrap(), 0, false).unwrap();
    assert_eq!(decoded.sizes().as_slice()[1..], [height, width]);
    let last = op::permute(&decoded, &[1, 2, 0]).unwrap();
    (last.sizes().to_vec(), last.to_vec::<u8>().unwrap())
}

#[test]
fn pictures_are_png_files() {
    let bytes: Vec<u8> = (0..18).collect();
    let image = Tensor::from_vec(bytes.clone(), &[2, 3, 3]).unwrap();
    assert_eq!(pixels(&image, "HWC"), (vec![2, 3, 3], bytes));
    let gray = tensor![[0.0, 0.5], [1.0, 7.0]].unwrap();
    let (shape, found) = pixels(&gray, "HW");
    assert_eq!(shape, [2, 2, 3]);
    assert_eq!(found, [0, 0, 0, 127, 127, 127, 255, 255, 255, 255, 255, 255]);
    // Nine pictures of one pixel: eight beside each other, and one below.
    let nine = Tensor::from_vec((1..=27u8).collect(), &[9, 3, 1, 1]).unwrap();
    let (shape, found) = pixels(&nine, "NCHW");
    assert_eq!(shape, [2, 8, 3]);
    assert_eq!(found[..27], (1..=27).collect::<Vec<u8>>());
    assert!(found[27..].iter().all(|&byte| byte == 0));
    assert!(Summary::image("picture", &gray, "CHW").is_err());
    assert!(Summary::image("picture", &gray, "XY").is_err());
}

#[test]
fn empty_histograms_are_refused() {
    let none = op::zeros(&[0], None, None, None, None).unwrap();
    let error = Summary::histogram("none", &none, &Bins::TensorFlow, None).unwrap_err();
    assert_eq!(error.message(), "The input has no element.");
    let outside = Bins::Edges(vec![5.0, 6.0]);
    assert!(Summary::histogram("none", &tensor![1.0].unwrap(), &outside, None).is_err());
}
