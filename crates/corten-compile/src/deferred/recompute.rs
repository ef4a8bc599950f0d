//! Results that are computed again where somebody wants them.
//!
//! Note [Recomputed results]: some of what a region leaves behind for a backward pass takes little to compute from
//! values that are kept anyway, such as an activation from its argument. It need not be in memory between the
//! passes: its storage stays without memory and pending (see Note [Pending storages] in `corten-core`), on
//! a [`Recomputation`], a program of the one call. Who looks at the result has it run, and so has who is about to write
//! an operand. Who records a call that reads the result takes the call over, so that the result is in memory only
//! while that program needs it. The same kernel gets the same operands, so that no bit differs. The recomputation
//! holds its operands, and its result not: it ends with the result's storage.

use super::program::Running;
use crate::ir::{BufferId, Node, Operand, Program, Role};
use crate::{Plan, recipe};
use corten_core::tls::{ThreadState, ThreadStateGuard};
use corten_core::{Deferred, Result, Storage, WeakStorage, bug, err};
use smallvec::SmallVec;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};

/// Smaller results stay in memory: each recomputation takes about a microsecond.
const LEAST_BYTES: usize = 16 << 10;

/// A call that makes a result when it is wanted.
pub(super) struct Recomputation {
    call: Mutex<Option<Call>>,
    /// The number of the thread that runs it; 0: none.
    runner: AtomicUsize,
}

/// The call, until it ran or was taken over.
pub(super) struct Call {
    /// Its buffers are the operands by number.
    pub(super) node: Node,
    pub(super) operands: SmallVec<[Storage; 3]>,
    /// Which result it is for.
    pub(super) which: usize,
    result: WeakStorage,
    /// What is noted in the operands.
    reads: Arc<dyn Deferred>,
}

/// The use of the operands: it goes when the recomputation does.
struct Reading(Weak<Recomputation>);

impl Deferred for Reading {
    fn flush(&self, waits: bool) -> Result<()> {
        self.0.upgrade().map_or(Ok(()), |recomputation| recomputation.flush(waits))
    }

    fn is_running_here(&self) -> bool {
        self.0.upgrade().is_some_and(|recomputation| recomputation.is_running_here())
    }
}

/// A result of a program that is not to be kept: the number of its node, which result of it, and the buffer.
#[derive(Clone, Copy)]
pub(super) struct Left {
    node: usize,
    which: usize,
    pub(super) buffer: BufferId,
}

/// The results that a program may leave to be recomputed: what whole new buffers hold that cheap nodes wrote from
/// values which somebody else keeps, and which are not among the `returned` storages, given by their keys. All of the
/// host: on a GPU the stream of who looks may be another one, and groups may round otherwise than calls.
pub(super) fn choose(program: &Program, returned: &[usize]) -> Vec<Left> {
    let mut writers: Vec<(usize, usize)> = vec![(0, 0); program.buffers().len()];
    for (index, node) in program.nodes().iter().enumerate() {
        for operand in node.writes() {
            let (count, last) = &mut writers[operand.buffer.index()];
            (*count, *last) = (*count + 1, index);
        }
    }
    let mut is_left = vec![false; program.buffers().len()];
    let mut chosen = Vec::new();
    for (index, node) in program.nodes().iter().enumerate() {
        let wanted = |result: &Operand| {
            let buffer = program.buffer(result.buffer);
            let storage = &buffer.storage;
            buffer.role == Role::Output
                && storage.device().is_cpu()
                && storage.nbytes() >= LEAST_BYTES
                && writers[result.buffer.index()].0 == 1
                && !returned.contains(&storage.key())
        };
        let found = node.results.iter().position(|result| result.as_ref().is_some_and(wanted));
        let is_kept = |operand: &Operand| {
            let (count, last) = writers[operand.buffer.index()];
            let buffer = program.buffer(operand.buffer);
            !is_left[operand.buffer.index()]
                && (count == 0 || last < index)
                && matches!(buffer.role, Role::Input | Role::Output)
        };
        let Some(which) = found else { continue };
        if node.written_arguments().next().is_none() && node.reads().all(is_kept) && is_cheap(node)
        {
            let Some(result) = &node.results[which] else { continue };
            is_left[result.buffer.index()] = true;
            chosen.push(Left { node: index, which, buffer: result.buffer });
        }
    }
    chosen
}

/// Whether a node takes little for the memory of what it gives: elementwise nodes, and normalisations of rows.
fn is_cheap(node: &Node) -> bool {
    let def = node.op.def();
    let normalises = def.namespace == "aten" && def.name == "native_layer_norm";
    normalises || recipe::of(node).is_some_and(|recipe| recipe.reduced == 0 && !recipe.prepared)
}

/// Leaves a result of a program that has run to be computed again; `own` is the program, whose use of the storages is
/// still noted.
///
/// # Errors
/// Those of the call, where it has to run at once.
pub(super) fn leave(own: &dyn Deferred, program: &Program, left: Left) -> Result<()> {
    let mut node = program.nodes()[left.node].clone();
    let mut known: SmallVec<[BufferId; 3]> = SmallVec::new();
    for operand in node.argument_operands_mut() {
        let found = known.iter().position(|&buffer| buffer == operand.buffer);
        let number = found.unwrap_or(known.len());
        if found.is_none() {
            known.push(operand.buffer);
        }
        operand.buffer = BufferId(number as u32);
    }
    let operands: SmallVec<[Storage; 3]> =
        known.iter().map(|&buffer| program.buffer(buffer).storage.clone()).collect();
    let storage = &program.buffer(left.buffer).storage;
    let mut is_readable = true;
    let recomputation = Arc::new_cyclic(|this: &Weak<Recomputation>| {
        let reads: Arc<dyn Deferred> = Arc::new(Reading(this.clone()));
        for operand in &operands {
            is_readable &= operand.note_read_after(own, &reads).is_empty();
        }
        let (which, result) = (left.which, storage.downgrade());
        let call = Call { node, operands, which, result, reads };
        Recomputation { call: Mutex::new(Some(call)), runner: AtomicUsize::new(0) }
    });
    if !is_readable {
        // Another thread is about to write an operand.
        return recomputation.flush(true);
    }
    let program: Arc<dyn Deferred> = recomputation;
    if !storage.hand_over_use(own, &program, false) {
        bug!("a program has run that had no use of its result noted");
    }
    Ok(())
}

impl Recomputation {
    /// The call, unless another thread is at it.
    pub(super) fn try_lock(&self) -> Option<MutexGuard<'_, Option<Call>>> {
        match self.call.try_lock() {
            Ok(call) => Some(call),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl Call {
    /// Forgets what is noted in the operands.
    pub(super) fn forget_reads(&self) {
        self.operands.iter().for_each(|operand| operand.forget_use(&*self.reads));
    }

    /// Storages for the results that are not wanted.
    ///
    /// # Errors
    /// Where host memory has no allocator.
    pub(super) fn scratch(&self) -> Result<SmallVec<[Option<Storage>; 3]>> {
        let results = self.node.results.iter().enumerate();
        let one = |(index, made): (usize, &Option<Operand>)| {
            let made = made.as_ref().filter(|_| index != self.which);
            made.map(|made| Storage::without_memory(made.bytes().end as usize)).transpose()
        };
        results.map(one).collect()
    }

    /// A program of the call, for the result that is wanted.
    fn program(&self, result: Storage) -> Result<Program> {
        let mut program = Program::new();
        let mut node = self.node.clone();
        for operand in &self.operands {
            program.add_buffer(operand.clone(), Role::Input);
        }
        for (made, scratch) in node.results.iter_mut().zip(self.scratch()?) {
            let Some(made) = made else { continue };
            made.buffer = match scratch {
                Some(scratch) => program.add_buffer(scratch, Role::Internal),
                None => program.add_buffer(result.clone(), Role::Output),
            };
        }
        program.push(node);
        Ok(program)
    }
}

impl Deferred for Recomputation {
    fn flush(&self, waits: bool) -> Result<()> {
        if self.is_running_here() {
            return Ok(());
        }
        let mut held = match (self.try_lock(), waits) {
            (Some(held), _) => held,
            (None, true) => self.call.lock().unwrap_or_else(PoisonError::into_inner),
            (None, false) => {
                return Err(err!(
                    Runtime,
                    "conflicting access to a storage: another thread computes its contents while this one has \
                     others opened"
                ));
            }
        };
        let Some(call) = held.as_ref() else { return Ok(()) };
        // A storage that ends takes its recomputation along.
        let Some(result) = call.result.upgrade() else { return Ok(()) };
        let running = Running::start(&self.runner);
        let program = call.program(result.clone())?;
        {
            let _state = ThreadStateGuard::new(ThreadState::BELOW_MODES);
            Plan::node_by_node(&program).run(&program).map_err(|failed| failed.error)?;
        }
        result.forget_use(self);
        call.forget_reads();
        drop(running);
        // What it drops may come back here.
        let done = held.take();
        drop(held);
        drop((done, program, result));
        Ok(())
    }

    fn is_running_here(&self) -> bool {
        self.runner.load(Ordering::Relaxed) == super::program::thread_number()
    }
}

impl Drop for Recomputation {
    fn drop(&mut self) {
        let call = self.call.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(call) = call {
            call.forget_reads();
        }
    }
}
