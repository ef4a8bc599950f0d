//! Regions whose calls are recorded and run later, as Python enters and leaves them.

use crate::py::errors::type_error;
use crate::py::{Args, Obj, Py, ffi, gil, method, name};
use crate::tensor;
use corten::compile::{self, Region};
use corten_core::{DEFERRED, tls};
use corten_ops::Tensor;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

thread_local! {
    static REGIONS: RefCell<Vec<Region>> = const { RefCell::new(Vec::new()) };
    /// Lines by code object and number. The code objects are kept.
    static LINES: RefCell<HashMap<(usize, i32), Arc<str>>> = RefCell::new(HashMap::new());
}

/// More lines than a program has that records.
const MOST_LINES: usize = 1 << 14;

/// The functions of the module.
pub(crate) fn functions() -> Vec<ffi::PyMethodDef> {
    vec![
        method!("_region_enter", |_m: &Obj, args: Args<'_>| {
            let (strict, folds) = match args.positional {
                [strict] => (strict.is_true()?, false),
                [strict, folds] => (strict.is_true()?, folds.is_true()?),
                _ => return Err(type_error("bools expected")),
            };
            compile::set_line_source(line);
            let region = Region::enter_with(strict);
            if folds {
                region.allow_folding();
            }
            REGIONS.with_borrow_mut(|regions| regions.push(region));
            Ok(Obj::none())
        }),
        method!("_region_exit", |_m: &Obj, args: Args<'_>| {
            let Some(region) = REGIONS.with_borrow_mut(Vec::pop) else { return Ok(Obj::none()) };
            let mut tensors = Vec::new();
            match args.positional {
                [returned] if has_all_tensors(returned, &mut tensors) => {
                    let tensors: Vec<&Tensor> = tensors.iter().collect();
                    gil::without(|| region.finish_returning(&tensors))?;
                }
                _ => gil::without(|| region.finish())?,
            }
            Ok(Obj::none())
        }),
        method!("_region_flush", |_m: &Obj, _a: Args<'_>| {
            gil::without(compile::flush_thread)?;
            Ok(Obj::none())
        }),
        method!("_region_break", |_m: &Obj, args: Args<'_>| {
            let [reason] = args.positional else { return Err(type_error("a reason expected")) };
            let reason = reason.display();
            gil::without(|| compile::break_region(&reason))?;
            Ok(Obj::none())
        }),
        method!("_compile_reset", |_m: &Obj, _a: Args<'_>| {
            compile::reset();
            Ok(Obj::none())
        }),
        method!("_region_active", |_m: &Obj, _a: Args<'_>| {
            // Backward passes may be regions, too, which no program asked for.
            let entered = REGIONS.with_borrow(|regions| !regions.is_empty());
            Ok(Obj::bool(entered && compile::is_recording()))
        }),
        method!("_region_pause", |_m: &Obj, args: Args<'_>| {
            let [paused] = args.positional else { return Err(type_error("a bool expected")) };
            let before = tls::local_exclude().has_any(DEFERRED);
            tls::set_excluded(DEFERRED, paused.is_true()?);
            Ok(Obj::bool(before))
        }),
        method!("_region_statistics", |_m: &Obj, args: Args<'_>| {
            let [start] = args.positional else { return Err(type_error("a bool expected")) };
            if start.is_true()? {
                compile::start_statistics();
                return Ok(Obj::none());
            }
            statistics()
        }),
    ]
}

/// Collects the tensors in what a function returned; false where that raises.
fn has_all_tensors(returned: &Obj, found: &mut Vec<Tensor>) -> bool {
    collect_tensors(returned, 0, found).map_err(|raised| raised.clear()).is_ok()
}

/// The tensors in a value, as deep as values are nested.
fn collect_tensors(value: &Obj, depth: usize, found: &mut Vec<Tensor>) -> Py<()> {
    const DEEPEST: usize = 16;
    if let Some(tensor) = tensor::get(value) {
        // Bounded: results of a function of Python.
        found.push(tensor.clone());
    } else if depth < DEEPEST && value.is_dict() {
        for item in value.call_method(name!("values"), &[])?.iter()? {
            collect_tensors(&item?, depth + 1, found)?;
        }
    } else if depth < DEEPEST && (value.is_tuple() || value.is_list()) {
        for item in value.items()? {
            collect_tensors(&item, depth + 1, found)?;
        }
    }
    Ok(())
}

/// Programs as lists of operators with their lines, and breaks as operator, reason and line.
fn statistics() -> Py<Obj> {
    let Some(found) = compile::take_statistics() else { return Ok(Obj::none()) };
    let line = |line: &Option<Arc<str>>| match line {
        Some(line) => Obj::str_from(line),
        None => Ok(Obj::none()),
    };
    let node =
        |(name, at): &(String, Option<Arc<str>>)| Obj::tuple([Obj::str_from(name), line(at)]);
    let programs = found.programs.iter().map(|program| Obj::list(program.iter().map(node)));
    let breaks = found.breaks.iter().map(|one| {
        let (operator, reason) = (Obj::str_from(&one.operator), Obj::str_from(&one.reason));
        Obj::tuple([operator, reason, line(&one.line)])
    });
    let reports = found.reports.iter().map(|report| {
        let groups = report.groups.iter();
        let groups = groups.map(|group| Obj::list(group.iter().map(|&node| Obj::int(node as i64))));
        Obj::tuple([Obj::list(groups), Obj::int(report.bytes_saved as i64)])
    });
    Obj::tuple([Obj::list(programs), Obj::list(breaks), Obj::list(reports)])
}

/// The line that this thread runs, such as `model.py:12`.
fn line() -> Option<Arc<str>> {
    if !gil::is_attached() {
        return None;
    }
    // SAFETY: the interpreter lock is held; the frame is borrowed from the thread, which runs it.
    let frame = unsafe { ffi::PyEval_GetFrame() };
    if frame.is_null() {
        return None;
    }
    // SAFETY: as above; the code object is a new reference.
    let (number, code) =
        unsafe { (ffi::PyFrame_GetLineNumber(frame), ffi::PyFrame_GetCode(frame)) };
    let key = (code.addr(), number);
    if let Some(known) = LINES.with_borrow(|lines| lines.get(&key).cloned()) {
        // SAFETY: the reference from above; the table has one of its own.
        unsafe { ffi::Py_DECREF(code.cast()) };
        return Some(known);
    }
    // SAFETY: the reference from above. It is kept for good, so that its address names no other code.
    let code = unsafe { Obj::owned(code.cast()) }.ok()?;
    let file = code.attr_str(c"co_filename").and_then(|name| name.str()).ok()?.display();
    let text: Arc<str> = format!("{file}:{number}").into();
    let has_room = LINES.with_borrow(|lines| lines.len() < MOST_LINES);
    if has_room {
        LINES.with_borrow_mut(|lines| lines.insert(key, Arc::clone(&text)));
        code.into_ptr();
    }
    Some(text)
}
