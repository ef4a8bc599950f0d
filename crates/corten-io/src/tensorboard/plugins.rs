//! Values of further plugins: sounds, precision and recall, parameters of runs.

use super::record::Message;
use super::summary::Summary;
use crate::value::Value;
use corten_core::{Result, bail, ensure, try_vec};
use corten_ops::Tensor;

/// The data type of single precision in TensorBoard's tensors.
const FLOAT: i64 = 1;
/// The plugin keeps the number of thresholds in a byte.
const MOST_THRESHOLDS: usize = 127;
/// Divisors of precision and recall are no smaller.
const SMALLEST: f64 = 1e-7;

impl Summary {
    /// A sound of one channel: samples from -1 to 1, as a WAV file.
    ///
    /// # Errors
    /// `Runtime` for a tensor that cannot be copied to the CPU, `Value` for a sound of more than 4 GiB.
    pub fn audio(tag: &str, samples: &Tensor, sample_rate: u32) -> Result<Self> {
        let samples = samples.to_vec::<f32>()?;
        let bytes = samples.iter().flat_map(|sample| {
            // Towards zero, as conversions of tensors are.
            ((sample.clamp(-1.0, 1.0) * 32767.0) as i16).to_le_bytes()
        });
        let file = wav(&bytes.collect::<Vec<u8>>(), sample_rate)?;
        let audio = Message::new().single(1, sample_rate as f32).integer(2, 1);
        let audio = audio.integer(3, samples.len() as i64).data(4, file).data(5, "audio/wav");
        Ok(Self::new(tag, Message::new().message(6, audio)))
    }

    /// Precision and recall of predictions from 0 to 1, over thresholds; labels say what is true, and weights how
    /// much each counts.
    ///
    /// # Errors
    /// `Value` for different numbers of labels, predictions and weights, and without thresholds.
    pub fn pr_curve(
        tag: &str,
        labels: &Tensor,
        predictions: &Tensor,
        thresholds: usize,
        weights: Option<&Tensor>,
    ) -> Result<Self> {
        let (labels, predictions) = (labels.to_vec::<bool>()?, predictions.to_vec::<f64>()?);
        let weights = match weights {
            Some(weights) => weights.to_vec::<f64>()?,
            None => try_vec(1.0, predictions.len())?,
        };
        ensure!(
            labels.len() == predictions.len() && weights.len() == predictions.len(),
            Value,
            "there are {} labels, {} predictions and {} weights",
            labels.len(),
            predictions.len(),
            weights.len()
        );
        let count = thresholds.min(MOST_THRESHOLDS);
        ensure!(count > 0, Value, "a curve has one threshold at least");
        let (mut right, mut wrong) = (try_vec(0.0, count)?, try_vec(0.0, count)?);
        for ((is_true, prediction), weight) in labels.iter().zip(&predictions).zip(&weights) {
            let at = (prediction * (count - 1) as f64).floor().clamp(0.0, (count - 1) as f64);
            let counted = if *is_true { &mut right } else { &mut wrong };
            counted[at as usize] += weight;
        }
        // How many lie at or above each threshold.
        for counted in [&mut right, &mut wrong] {
            (1..count).rev().for_each(|at| counted[at - 1] += counted[at]);
        }
        let row = |value: &dyn Fn(usize) -> f64| (0..count).map(value).collect::<Vec<f64>>();
        let rows = [
            right.clone(),
            wrong.clone(),
            row(&|at| wrong[0] - wrong[at]),
            row(&|at| right[0] - right[at]),
            row(&|at| right[at] / (right[at] + wrong[at]).max(SMALLEST)),
            row(&|at| right[at] / right[0].max(SMALLEST)),
        ];
        let sizes = [rows.len(), count].map(|size| Message::new().integer(1, size as i64));
        let shape = sizes.into_iter().fold(Message::new(), |shape, size| shape.message(2, size));
        let values = rows.concat().into_iter().flat_map(|value| (value as f32).to_le_bytes());
        let values: Vec<u8> = values.collect();
        let tensor = Message::new().integer(1, FLOAT).message(2, shape).data(5, values);
        let content = Message::new().integer(2, count as i64);
        let tensor = Message::new().message(8, tensor);
        Ok(Self::of_plugin(tag, tensor, Some(("pr_curves", content))))
    }

    /// The parameters of a run and the names of what it is measured by: what there is, how the run started, how it
    /// ended. `domains` has the values that a parameter can have.
    ///
    /// # Errors
    /// `Value` for parameters that are no numbers, truth values or texts.
    pub fn hyperparameters(
        parameters: &[(String, Value)],
        metrics: &[String],
        domains: &[(String, Vec<Value>)],
    ) -> Result<[Self; 3]> {
        let (mut infos, mut start) = (Message::new(), Message::new());
        for (name, value) in parameters {
            let (encoded, kind) = protobuf_value(value)?;
            start = start.message(1, Message::new().data(1, name).message(2, encoded));
            let mut info = Message::new().data(1, name).integer(4, kind);
            if let Some((_, domain)) = domains.iter().find(|(known, _)| known == name) {
                let listed = domain.iter().try_fold(Message::new(), |listed, value| {
                    Ok::<_, corten_core::Error>(listed.message(1, protobuf_value(value)?.0))
                })?;
                info = info.message(5, listed);
            }
            infos = infos.message(4, info);
        }
        for name in metrics {
            infos = infos.message(5, Message::new().message(1, Message::new().data(2, name)));
        }
        let parts = [
            ("_hparams_/experiment", Message::new().message(2, infos)),
            ("_hparams_/session_start_info", Message::new().message(3, start)),
            ("_hparams_/session_end_info", Message::new().message(4, Message::new().integer(1, 1))),
        ];
        Ok(parts
            .map(|(tag, content)| Self::of_plugin(tag, Message::new(), Some(("hparams", content)))))
    }
}

/// A value of google.protobuf and the kind that the plugin for parameters gives it.
fn protobuf_value(value: &Value) -> Result<(Message, i64)> {
    Ok(match value {
        Value::Bool(value) => (Message::new().integer(4, i64::from(*value)), 2),
        Value::Int(value) => (Message::new().double(2, *value as f64), 3),
        Value::Float(value) => (Message::new().double(2, *value), 3),
        Value::Text(text) => (Message::new().data(3, text), 1),
        _ => bail!(Value, "value should be one of int, float, str, bool, or torch.Tensor"),
    })
}

/// A WAV file of 16-bit samples.
fn wav(samples: &[u8], sample_rate: u32) -> Result<Vec<u8>> {
    const HEADER: u32 = 36;
    let size = u32::try_from(samples.len()).ok().and_then(|size| size.checked_add(HEADER));
    let Some(size) = size else { bail!(Value, "a sound of more than 4 GiB") };
    let mut file = b"RIFF".to_vec();
    file.extend(size.to_le_bytes());
    file.extend(b"WAVEfmt ");
    file.extend(16_u32.to_le_bytes());
    // Uncompressed, one channel.
    file.extend([1, 0, 1, 0]);
    file.extend(sample_rate.to_le_bytes());
    file.extend(sample_rate.wrapping_mul(2).to_le_bytes());
    // Bytes and bits of a sample.
    file.extend([2, 0, 16, 0]);
    file.extend(b"data");
    file.extend((size - HEADER).to_le_bytes());
    file.extend(samples);
    Ok(file)
}
