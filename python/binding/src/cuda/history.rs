//! Who allocated: the frames of Python that the caching allocator's history keeps.

use crate::args::parser;
use crate::py::errors::{Raised, runtime_error};
use crate::py::gil::{self, Shared};
use crate::py::{Args, Obj, Py};
use corten::cuda::caching::{AllocationContext, Context, HistoryOptions, RecordContext};
use std::any::Any;
use std::sync::Arc;

/// What a function of Python said of the frames of a thread: a list of dictionaries, the innermost first.
struct Frames {
    label: String,
    frames: Shared,
}

impl AllocationContext for Frames {
    fn label(&self) -> String {
        self.label.clone()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The frames of a context, as a snapshot has them.
pub(super) fn frames(context: Option<&Context>) -> Py<Obj> {
    match context.and_then(|context| context.as_any().downcast_ref::<Frames>()) {
        Some(found) => Ok(found.frames.get()),
        None => Obj::list([]),
    }
}

/// Asks a function of Python for a label and the frames of this thread. An exception that is under way stays so,
/// and one of the function's means no frames.
fn gather(function: &Shared) -> Option<Context> {
    if !gil::is_alive() {
        return None;
    }
    gil::attach(|| {
        let pending = Raised::pending().and_then(Raised::take);
        let found = describe(&function.get());
        let found = found.map_err(Raised::clear).ok();
        if let Some(exception) = pending {
            Raised::raise(&exception);
        }
        found
    })
}

fn describe(function: &Obj) -> Py<Context> {
    let answer = function.call(&[])?.items()?;
    let [label, frames] = answer.as_slice() else {
        return Err(runtime_error("a label and frames are expected"));
    };
    Ok(Arc::new(Frames { label: label.display(), frames: Shared::new(frames.clone()) }))
}

/// Which history is kept: whether any, for which events frames are, how many events, the function that gives the
/// frames, and whether what there is is forgotten.
pub(super) fn record(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let parser = parser!(
        "_cuda_recordMemoryHistory(bool enabled, int max_entries, str? context=None, any frames=None, bool clear=False)"
    );
    let bound = parser.parse(None, args)?;
    let recorder = bound.get(3).filter(|function| !function.is_none()).map(|function| {
        let function = Shared::new(function.clone());
        let recorder = move || gather(&function);
        Arc::new(recorder) as Arc<dyn Fn() -> Option<Context> + Send + Sync>
    });
    let when = match bound.str_opt(2)? {
        None => RecordContext::Never,
        Some("state") => RecordContext::State,
        Some("alloc") => RecordContext::Alloc,
        Some(_) => RecordContext::All,
    };
    let options = HistoryOptions {
        enabled: bound.bool(0)?,
        when,
        max_entries: usize::try_from(bound.int(1)?).unwrap_or(0),
        recorder,
        clear: bound.bool(4)?,
    };
    corten::cuda::device_memory()?.record_history(&options)?;
    Ok(Obj::none())
}
