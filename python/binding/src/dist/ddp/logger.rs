//! `Logger`: what a module tells of itself and what passes took.

use super::reducer;
use crate::args::parser;
use crate::py::call::OwnedArgs;
use crate::py::class::{Class, TypeBuilder, instance, this, value};
use crate::py::{Args, Obj, Py, TypeCell, ffi, getter, method, slot};
use corten_dist::ddp::Reducer;
use std::collections::BTreeMap;
use std::ffi::CStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

static LOGGER: TypeCell = TypeCell::new();
static DATA: TypeCell = TypeCell::new();

/// The logger of a reducer.
pub(super) struct PyLogger {
    reducer: Arc<Reducer>,
    data: Mutex<Maps>,
}

/// Texts and numbers by name.
#[derive(Clone, Default)]
struct Maps {
    texts: BTreeMap<&'static str, String>,
    numbers: BTreeMap<&'static str, i64>,
}

/// A copy of both.
pub(super) struct PyLoggingData(Maps);

impl Class for PyLogger {
    const NAME: &'static CStr = c"corten._C._distributed_c10d.Logger";

    fn cell() -> &'static TypeCell {
        &LOGGER
    }

    fn describe(builder: TypeBuilder) -> TypeBuilder {
        builder
            .doc(c"What a data-parallel module tells of itself and of its passes.")
            .slot(ffi::Py_tp_new, slot!(call new))
            .methods([
                method!("set_construction_data_and_log", set_construction_data),
                method!("set_runtime_stats_and_log", |_s: &Obj, _a: Args<'_>| Ok(Obj::none())),
                method!("set_error_and_log", |s: &Obj, args: Args<'_>| {
                    let bound = parser!("set_error_and_log(str error)").parse(None, args)?;
                    note_error(s, bound.str(0)?);
                    Ok(Obj::none())
                }),
                method!("_get_ddp_logging_data", |s: &Obj, _a: Args<'_>| {
                    instance(PyLoggingData(collect(this::<PyLogger>(s))))
                }),
                method!("_set_comm_hook_name", |s: &Obj, args: Args<'_>| {
                    let bound = parser!("_set_comm_hook_name(str comm_hook)").parse(None, args)?;
                    maps(s).texts.insert("comm_hook", bound.str(0)?.to_owned());
                    Ok(Obj::none())
                }),
                method!("_set_uneven_input_join", |s: &Obj, _a: Args<'_>| {
                    maps(s).numbers.insert("join_uneven_inputs", 1);
                    Ok(Obj::none())
                }),
                method!("_set_static_graph", |s: &Obj, _a: Args<'_>| {
                    maps(s).numbers.insert("static_graph", 1);
                    Ok(Obj::none())
                }),
            ])
    }
}

impl Class for PyLoggingData {
    const NAME: &'static CStr = c"corten._C._distributed_c10d.DDPLoggingData";

    fn cell() -> &'static TypeCell {
        &DATA
    }

    fn describe(builder: TypeBuilder) -> TypeBuilder {
        builder.doc(c"What a logger has.").flags(ffi::Py_TPFLAGS_DISALLOW_INSTANTIATION).getset([
            getter!("strs_map", |s: &Obj| {
                let map = Obj::dict()?;
                for (name, text) in &this::<PyLoggingData>(s).0.texts {
                    map.dict_set(&Obj::str_from(name)?, &Obj::str_from(text)?)?;
                }
                Ok(map)
            }),
            getter!("ints_map", |s: &Obj| {
                let map = Obj::dict()?;
                for (name, number) in &this::<PyLoggingData>(s).0.numbers {
                    map.dict_set(&Obj::str_from(name)?, &Obj::int(*number)?)?;
                }
                Ok(map)
            }),
        ])
    }
}

fn maps(object: &Obj) -> MutexGuard<'_, Maps> {
    this::<PyLogger>(object).data.lock().unwrap_or_else(PoisonError::into_inner)
}

fn new(_class: &Obj, args: &Obj, kwargs: Option<&Obj>) -> Py<Obj> {
    let owned = OwnedArgs::new(args, kwargs)?;
    let bound = parser!("Logger(any reducer)").parse(None, owned.as_args())?;
    let reducer = reducer::expect(bound.object(0)?)?;
    instance(PyLogger { reducer, data: Mutex::default() })
}

/// Keeps an error, if the object is a logger.
pub(super) fn note_error(object: &Obj, message: &str) {
    if let Some(logger) = value::<PyLogger>(object) {
        logger.reducer.set_error(message);
    }
}

fn set_construction_data(object: &Obj, args: Args<'_>) -> Py<Obj> {
    let parser = parser!(
        "set_construction_data_and_log(str module_name, any device_ids, int output_device, bool broadcast_buffers, bool has_sync_bn, bool static_graph)"
    );
    let bound = parser.parse(None, args)?;
    let ids = bound.object(1)?.items()?.iter().map(Obj::display).collect::<Vec<_>>().join(", ");
    let reducer = &this::<PyLogger>(object).reducer;
    let backend = reducer.group().backend_name();
    let mut maps = maps(object);
    maps.texts.insert("module_name", bound.str(0)?.to_owned());
    maps.texts.insert("device_ids", ids);
    maps.texts.insert("backend_name", backend);
    maps.numbers.insert("output_device", bound.int(2)?);
    maps.numbers.insert("broadcast_buffers", bound.bool(3)?.into());
    maps.numbers.insert("has_sync_bn", bound.bool(4)?.into());
    if bound.bool(5)? {
        maps.numbers.insert("static_graph", 1);
    }
    Ok(Obj::none())
}

/// Everything that is known now.
fn collect(logger: &PyLogger) -> Maps {
    let reducer = &logger.reducer;
    let mut maps = logger.data.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let (params, options) = (reducer.params(), reducer.options());
    let mut dtypes: Vec<&str> = params.iter().map(|param| param.dtype().type_name()).collect();
    dtypes.sort_unstable();
    dtypes.dedup();
    let list =
        |numbers: &[usize]| numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
    let sizes = reducer.bucket_sizes();
    maps.texts.insert("dtypes", dtypes.join(", "));
    maps.texts.insert("bucket_sizes", list(&sizes));
    let bytes = params.iter().map(|param| param.numel() * param.dtype().itemsize() as i64).sum();
    let group = reducer.group();
    let rebuilt = reducer.has_rebuilt_buckets();
    if rebuilt {
        maps.texts.insert("rebuilt_bucket_sizes", list(&sizes));
    }
    maps.numbers.extend([
        ("world_size", group.size() as i64),
        ("rank", group.rank() as i64),
        ("iteration", reducer.iterations() as i64),
        ("num_parameter_tensors", params.len() as i64),
        ("total_parameter_size_bytes", bytes),
        ("bucket_cap_bytes", options.bucket_bytes_cap as i64),
        ("find_unused_parameters", options.find_unused_parameters.into()),
        ("gradient_as_bucket_view", options.gradient_as_bucket_view.into()),
        ("has_rebuilt_buckets", rebuilt.into()),
        ("is_multi_device_module", 0),
        ("num_buckets_reduced", sizes.len() as i64),
    ]);
    add_times(&mut maps, reducer);
    maps
}

fn add_times(maps: &mut Maps, reducer: &Reducer) {
    let measured = reducer.measured();
    let last = &measured.last;
    let [forward, backward, communication, overlap] = measured.totals.averages();
    let numbers = [
        ("forward_compute_time", last.forward()),
        ("forward_compute_time_start", last.forward_start),
        ("backward_compute_time", last.backward()),
        ("backward_compute_time_start", last.backward_start),
        ("backward_compute_time_end", last.backward_end),
        ("backward_comm_time", last.communication()),
        ("backward_comm_time_start", last.communication_start),
        ("backward_comm_time_end", last.communication_end),
        ("backward_compute_comm_overlap_time", last.overlap()),
        ("avg_forward_compute_time", forward),
        ("avg_backward_compute_time", backward),
        ("avg_backward_comm_time", communication),
        ("avg_backward_compute_comm_overlap_time", overlap),
    ];
    maps.numbers.extend(numbers.map(|(name, time)| (name, time as i64)));
    let order = measured.order.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
    maps.texts.insert("prev_iteration_grad_ready_order_indices", order);
    if let Some(error) = measured.error {
        maps.texts.insert("error", error);
        maps.numbers.insert("has_error", 1);
    }
}
