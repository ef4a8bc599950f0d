//! Calls that are recorded and run later.
//!
//! Note [Deferred execution]: in a [`Region`] every call of an operator on dense tensors of the host, or of one GPU,
//! that reaches the level of the back ends is recorded where its results are known without its data: their sizes, strides and
//! dtypes are those of the same call on the device `meta`. The results have storages without memory (Note [Pending
//! storages] in `corten-core`), and the program runs when somebody touches the bytes of one, at the latest where the
//! region ends. Autograd, views and metadata are above and are never deferred, so that a graph is recorded as
//! always. All other calls run at once: first the program, if they touch what it will read or write. What an
//! operator calls inside is not recorded unless the operator is made of others.

mod facts;
mod operands;
mod program;
mod recompute;
mod region;
mod shapes;
mod statistics;
mod streams;
mod trial;

pub use program::{DeferredProgram, LineSource, set_line_source};
pub use region::{Region, break_region, defers_passes, flush_thread, is_recording};
pub use statistics::{Break, Statistics, start_statistics, take_statistics};

use corten_core::tls::ExcludeGuard;
use corten_core::{Backend, DEFERRED, DispatchKey, KeySet, Result, set_deferred_flush};
use corten_ops::dispatch::set_fallback;
use corten_ops::{BoxedCall, Stack};
use facts::{Class, Facts};
use std::sync::{Arc, Once};

/// Has the dispatcher send the calls of threads that record here.
pub fn init() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        set_fallback(DispatchKey::CustomRNGKeyId, Arc::new(handle));
        set_deferred_flush(program::flush_before_devices);
    });
}

/// A call at the key of deferred execution.
fn handle(call: &BoxedCall, stack: &mut Stack) -> Result<()> {
    let Some(program) = region::current() else { return run_apart(call, stack) };
    let dense = match call.keys().highest_backend() {
        None | Some(Backend::Cpu) => Some(DispatchKey::CPU),
        Some(Backend::Cuda) => Some(DispatchKey::CUDA),
        Some(_) => None,
    };
    if !dense.is_some_and(|key| call.keys().contains(KeySet::from_key(key))) {
        return run_now(call, stack, "another device or layout");
    }
    let facts = Facts::of(call.op());
    match facts.class {
        Class::Transparent => call.redispatch(stack),
        Class::Metadata => run_apart(call, stack),
        Class::Immediate(reason) => run_now(call, stack, reason),
        Class::Looks => {
            operands::flush_touched(call.op().schema(), stack)?;
            run_apart(call, stack)
        }
        Class::Deferrable => match program::record(&program, call, stack, &facts)? {
            program::Recorded::Yes => Ok(()),
            program::Recorded::Aliases => run_apart(call, stack),
            program::Recorded::No(reason) => run_now(call, stack, reason),
        },
    }
}

/// Runs a call at once that touches no contents, or outside of regions.
fn run_apart(call: &BoxedCall, stack: &mut Stack) -> Result<()> {
    let _at_once = ExcludeGuard::new(DEFERRED);
    call.redispatch(stack)
}

/// Runs a call at once, after the programs whose results it needs or whose operands it overwrites.
fn run_now(call: &BoxedCall, stack: &mut Stack, reason: &'static str) -> Result<()> {
    let schema = call.op().schema();
    let touched = region::expected(|| operands::flush_touched(schema, stack))?;
    if touched {
        statistics::note_break(&call.op().def().qualified_name(), reason);
    }
    run_apart(call, stack)
}
