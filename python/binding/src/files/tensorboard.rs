//! TensorBoard's event files.

use super::path::to_path;
use super::values::from_object;
use crate::args::parser;
use crate::py::class::{Class, TypeBuilder, instance, make, this};
use crate::py::errors::value_error;
use crate::py::{Args, Obj, Py, TypeCell, ffi, method, name};
use crate::tensor;
use corten::io::Value;
use corten::io::tensorboard::{Bins, Summary, SummaryWriter, crc32c, masked_crc};
use corten_ops::Tensor;
use std::ffi::CStr;
use std::sync::{Mutex, MutexGuard, PoisonError};

static TYPE: TypeCell = TypeCell::new();

/// An event file that is written from any thread; nothing when it is closed.
struct PyEvents(Mutex<Option<SummaryWriter>>);

impl PyEvents {
    fn lock(&self) -> MutexGuard<'_, Option<SummaryWriter>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Class for PyEvents {
    const NAME: &'static CStr = c"corten._C._EventFile";

    fn cell() -> &'static TypeCell {
        &TYPE
    }

    fn describe(builder: TypeBuilder) -> TypeBuilder {
        builder.doc(c"A file of events, written from any thread.").methods([
            method!("path", |s: &Obj, _a: Args<'_>| {
                let writer = this::<PyEvents>(s).lock();
                let path = writer.as_ref().map(|writer| writer.path().display().to_string());
                path.map_or_else(|| Ok(Obj::none()), |path| Obj::str_from(&path))
            }),
            method!("add", |s: &Obj, args: Args<'_>| {
                let parser = parser!("add(any summary, int step, float wall_time)");
                let bound = parser.parse(None, args)?;
                let summary = Summary::from_bytes(bound.object(0)?.as_bytes()?.to_vec());
                let (step, time) = (bound.int(1)?, bound.object(2)?.to_f64()?);
                let mut writer = this::<PyEvents>(s).lock();
                let Some(writer) = writer.as_mut() else {
                    return Err(value_error("the event file is closed"));
                };
                writer.add(&summary, step, Some(time))?;
                Ok(Obj::none())
            }),
            method!("flush", |s: &Obj, _a: Args<'_>| {
                if let Some(writer) = this::<PyEvents>(s).lock().as_mut() {
                    writer.flush()?;
                }
                Ok(Obj::none())
            }),
            method!("close", |s: &Obj, _a: Args<'_>| {
                if let Some(mut writer) = this::<PyEvents>(s).lock().take() {
                    writer.flush()?;
                }
                Ok(Obj::none())
            }),
        ])
    }
}

/// Makes the type.
pub(super) fn add_to(module: &Obj) -> Py<()> {
    module.set_attr_str(c"_EventFile", &make::<PyEvents>()?)
}

fn encoded(summary: &Summary) -> Py<Obj> {
    Obj::bytes(summary.as_bytes())
}

/// The functions of the module.
pub(super) fn functions() -> Vec<ffi::PyMethodDef> {
    vec![
        method!("_event_file", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_event_file(any folder, str suffix)").parse(None, args)?;
            let writer = SummaryWriter::with_suffix(to_path(bound.object(0)?)?, bound.str(1)?)?;
            instance(PyEvents(Mutex::new(Some(writer))))
        }),
        method!("_crc32c", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_crc32c(any data)").parse(None, args)?;
            Obj::uint(crc32c(bound.object(0)?.as_bytes()?).into())
        }),
        method!("_masked_crc32c", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_masked_crc32c(any data)").parse(None, args)?;
            Obj::uint(masked_crc(bound.object(0)?.as_bytes()?).into())
        }),
        method!("_summary_scalar", |_m: &Obj, args: Args<'_>| {
            let parser = parser!("_summary_scalar(str tag, float x)");
            let bound = parser.parse(None, args)?;
            encoded(&Summary::scalar(bound.str(0)?, bound.object(1)?.to_f64()?))
        }),
        method!("_summary_scalar_tensor", |_m: &Obj, args: Args<'_>| {
            let parser = parser!("_summary_scalar_tensor(str tag, float x, bool double)");
            let bound = parser.parse(None, args)?;
            let (x, is_double) = (bound.object(1)?.to_f64()?, bound.bool(2)?);
            encoded(&Summary::scalar_tensor(bound.str(0)?, x, is_double))
        }),
        method!("_summary_text", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_summary_text(str tag, str text)").parse(None, args)?;
            encoded(&Summary::text(bound.str(0)?, bound.str(1)?))
        }),
        method!("_summary_histogram", histogram),
        method!("_summary_raw_histogram", raw_histogram),
        method!("_summary_image", |_m: &Obj, args: Args<'_>| {
            let parser = parser!("_summary_image(str tag, Tensor image, str format)");
            let bound = parser.parse(None, args)?;
            encoded(&Summary::image(bound.str(0)?, &bound.tensor(1)?, bound.str(2)?)?)
        }),
        method!("_summary_audio", |_m: &Obj, args: Args<'_>| {
            let parser = parser!("_summary_audio(str tag, Tensor sound, int sample_rate)");
            let bound = parser.parse(None, args)?;
            let rate = u32::try_from(bound.int(2)?);
            let rate = rate.map_err(|_| value_error("the sample rate is out of range"))?;
            encoded(&Summary::audio(bound.str(0)?, &bound.tensor(1)?, rate)?)
        }),
        method!("_summary_pr_curve", pr_curve),
        method!("_summary_hyperparameters", hyperparameters),
    ]
}

fn floats(object: &Obj) -> Py<Vec<f64>> {
    object.items()?.iter().map(Obj::to_f64).collect()
}

/// `_summary_histogram(tag, values, edges, max_bins)`: `edges` is None for TensorFlow's.
fn histogram(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let parser =
        parser!("_summary_histogram(str tag, Tensor values, any edges, int? max_bins=None)");
    let bound = parser.parse(None, args)?;
    let bins = match bound.get(2).filter(|edges| !edges.is_none()) {
        Some(edges) => Bins::Edges(floats(edges)?),
        None => Bins::TensorFlow,
    };
    let most = bound.int_opt(3)?.map(|most| most.max(0) as usize);
    encoded(&Summary::histogram(bound.str(0)?, &bound.tensor(1)?, &bins, most)?)
}

/// `_summary_raw_histogram(tag, statistics, limits, counts)`.
fn raw_histogram(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let parser = parser!("_summary_raw_histogram(str tag, any statistics, any limits, any counts)");
    let bound = parser.parse(None, args)?;
    let (limits, counts) = (floats(bound.object(2)?)?, floats(bound.object(3)?)?);
    let statistics = floats(bound.object(1)?)?.try_into();
    let statistics = statistics.map_err(|_| value_error("five statistics are expected"))?;
    encoded(&Summary::raw_histogram(bound.str(0)?, statistics, &limits, &counts))
}

/// `_summary_pr_curve(tag, labels, predictions, thresholds, weights)`.
fn pr_curve(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let parser = parser!(
        "_summary_pr_curve(str tag, Tensor labels, Tensor predictions, int thresholds, Tensor? weights=None)"
    );
    let bound = parser.parse(None, args)?;
    let weights: Option<Tensor> = bound
        .get(4)
        .filter(|weights| !weights.is_none())
        .map(|weights| tensor::expect(weights).cloned())
        .transpose()?;
    let (labels, predictions) = (bound.tensor(1)?, bound.tensor(2)?);
    let thresholds = bound.int(3)?.max(0) as usize;
    encoded(&Summary::pr_curve(bound.str(0)?, &labels, &predictions, thresholds, weights.as_ref())?)
}

/// `_summary_hyperparameters(parameters, metrics, domains)`: three summaries.
fn hyperparameters(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let parser = parser!("_summary_hyperparameters(any parameters, any metrics, any domains)");
    let bound = parser.parse(None, args)?;
    let named = |object: &Obj| -> Py<Vec<(String, Value)>> {
        let pairs = object.call_method(name!("items"), &[])?.items()?;
        let pair = |pair: &Obj| {
            let (name, value) = (pair.sequence_item(0)?, pair.sequence_item(1)?);
            Ok((name.as_str()?.to_owned(), from_object(&value)?))
        };
        pairs.iter().map(pair).collect()
    };
    let parameters = named(bound.object(0)?)?;
    let metrics = bound.object(1)?.items()?;
    let metrics: Vec<String> =
        metrics.iter().map(|name| name.as_str().map(str::to_owned)).collect::<Py<_>>()?;
    let domains: Vec<(String, Vec<Value>)> = named(bound.object(2)?)?
        .into_iter()
        .map(|(name, values)| (name, values.elements().unwrap_or_default().to_vec()))
        .collect();
    let made = Summary::hyperparameters(&parameters, &metrics, &domains)?;
    Obj::list(made.iter().map(encoded))
}
