//! The program of a region: recording calls into it, and running it.

use super::facts::Facts;
use super::operands::{AllGiven, Given, collect, flush_touched, gpu_of, wrapped_number};
use super::recompute::{self, Call, Left, Recomputation};
use super::shapes::{self, Refusal, ResultOf, Results};
use super::streams::RecordedStream;
use super::{region, statistics, trial};
use crate::cache;
use crate::ir::{Argument, BufferId, Node, Operand, Program, Role, keys_of};
use corten_core::tls::{ThreadState, ThreadStateGuard};
use corten_core::{
    Backend, Deferred, Device, Error, ErrorKind, Programs, Result, Storage, TensorBase, err,
    run_programs,
};
use corten_ops::{AnyOp, BoxedCall, IValue, Stack, Tensor};
use smallvec::SmallVec;
use std::any::Any;
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};

/// A program of this many calls runs.
const MOST_NODES: usize = 4096;
/// A program whose results are larger than this runs: results that eager execution would have freed wait in it.
const MOST_BYTES: usize = 1 << 30;

/// Calls that wait to be run.
///
/// ```
/// use corten_compile::DeferredProgram;
/// use corten::core::Deferred;
///
/// let program = DeferredProgram::default();
/// assert!(program.flush(true).is_ok());
/// ```
#[derive(Default)]
pub struct DeferredProgram {
    recorded: Mutex<RecordedCalls>,
    /// The number of the thread that runs it; 0: none.
    runner: AtomicUsize,
}

#[derive(Default)]
struct RecordedCalls {
    program: Program,
    /// The buffers of storages, by their keys.
    ids: HashMap<usize, BufferId>,
    /// By buffer: whether its use is noted as writing.
    written: Vec<bool>,
    bytes: usize,
    /// Where its calls on a GPU run.
    stream: RecordedStream,
    /// The storages that a region returned, by their keys, if it may leave results to be recomputed.
    returned: Option<Vec<usize>>,
}

/// Whether a call was recorded; if not, why.
pub(super) enum Recorded {
    Yes,
    /// It touches no contents.
    Aliases,
    No(&'static str),
}

/// What became of an attempt to append a call.
enum Appended {
    Yes,
    Refused(&'static str),
    After(Programs),
}

/// The source of the line of the program that is running on this thread.
pub type LineSource = fn() -> Option<Arc<str>>;

static LINE_SOURCE: OnceLock<LineSource> = OnceLock::new();

/// Says how the line of a call is found. The first one stays.
pub fn set_line_source(source: LineSource) {
    LINE_SOURCE.get_or_init(|| source);
}

pub(super) fn line() -> Option<Arc<str>> {
    LINE_SOURCE.get().and_then(|source| source())
}

/// Records a call, whose results go to the stack, or says why not.
///
/// # Errors
/// Those of programs that have to run before.
pub(super) fn record(
    shared: &Arc<DeferredProgram>,
    call: &BoxedCall,
    stack: &mut Stack,
    facts: &Facts,
) -> Result<Recorded> {
    let mut op = call.op();
    let mut facts = *facts;
    if facts.is_switched(stack) {
        let Some(declared) = facts.declared(op, stack) else {
            return Ok(Recorded::No("it draws random numbers or keeps statistics"));
        };
        if !std::ptr::eq(declared.def(), op.def()) {
            (op, facts) = (declared, Facts::of(declared));
        }
    }
    let mut given = AllGiven::new();
    let on_gpu = call.keys().highest_backend() == Some(Backend::Cuda);
    let device = if on_gpu { gpu_of(stack) } else { Device::CPU };
    if let Err(reason) = collect(stack, device, &facts, &mut given) {
        return Ok(Recorded::No(reason));
    }
    let key = shapes::Key::of(op, stack);
    let known = match key.known() {
        Some(known) => known,
        None => {
            let found = shapes::on_meta(op, stack, &facts, &given);
            match (found, trial::of(op.def(), stack)) {
                (Ok(results), trial::Outcome::Unknown(signature)) => {
                    return try_call(call, stack, &given, (signature, &results));
                }
                (Ok(_), trial::Outcome::Failed) => Err("its shape rule does not tell all".into()),
                (found, _) => {
                    key.remember(&found);
                    found
                }
            }
        }
    };
    match known {
        Ok(results) => append(shared, (op, device), stack, &given, &results),
        Err(Refusal::Aliases) => Ok(Recorded::Aliases),
        Err(Refusal::Because(reason)) => Ok(Recorded::No(reason)),
    }
}

/// Runs the first call of its kind at once, and sees whether it gives what its shape rule says.
fn try_call(
    call: &BoxedCall,
    stack: &mut Stack,
    given: &AllGiven,
    (signature, results): (u64, &Results),
) -> Result<Recorded> {
    region::expected(|| flush_touched(call.op().schema(), stack))?;
    super::run_apart(call, stack)?;
    // Kernels return early where there is nothing to compute.
    if given.iter().all(|one| one.tensor.numel() > 0) {
        trial::note(signature, shapes::agrees(stack, results, given));
    }
    Ok(Recorded::Yes)
}

/// Appends a call to the program, and puts its results on the stack.
fn append(
    shared: &Arc<DeferredProgram>,
    (op, device): (&'static dyn AnyOp, Device),
    stack: &mut Stack,
    given: &AllGiven,
    results: &Results,
) -> Result<Recorded> {
    // Before the lock: it may run foreign code.
    let line = line();
    loop {
        let mut recorded = shared.lock();
        if !recorded.stream.takes(device) {
            drop(recorded);
            region::expected(|| shared.flush(true))?;
            continue;
        }
        let program: Arc<dyn Deferred> = shared.clone();
        match recorded.append(&program, (op, device, line.as_ref()), stack, given, results)? {
            Appended::Yes => {}
            Appended::Refused(reason) => return Ok(Recorded::No(reason)),
            Appended::After(programs) => {
                drop(recorded);
                region::expected(|| run_programs(&programs))?;
                continue;
            }
        }
        let is_long = recorded.program.nodes().len() >= MOST_NODES || recorded.bytes >= MOST_BYTES;
        drop(recorded);
        if is_long {
            region::expected(|| shared.flush(true))?;
        }
        return Ok(Recorded::Yes);
    }
}

impl RecordedCalls {
    fn append(
        &mut self,
        program: &Arc<dyn Deferred>,
        (op, device, line): (&'static dyn AnyOp, Device, Option<&Arc<str>>),
        stack: &mut Stack,
        given: &AllGiven,
        results: &Results,
    ) -> Result<Appended> {
        let mut operands = SmallVec::<[Argument; 4]>::new();
        for one in given {
            if let Some(number) = wrapped_number(&one.tensor, &one.storage) {
                operands.push(Argument::Number(number));
                continue;
            }
            match self.buffer_of(program, one) {
                Ok(id) => operands.push(Argument::Tensor(Operand::of(one.tensor.base(), id))),
                Err(refusal) => return Ok(refusal),
            }
        }
        let made = self.make_results((program, device), given, results, &operands)?;
        let arguments = arguments_of(stack, &mut operands.into_iter())?;
        let (tensors, results) = made;
        self.program.push(Node { op, arguments, results, line: line.cloned() });
        stack.clear();
        tensors.into_iter().for_each(|tensor| stack.push(tensor));
        Ok(Appended::Yes)
    }

    /// The buffer of a tensor's storage, whose use is noted.
    fn buffer_of(
        &mut self,
        program: &Arc<dyn Deferred>,
        one: &Given,
    ) -> Result<BufferId, Appended> {
        self.buffer_of_storage(program, &one.storage, one.writes)
    }

    fn buffer_of_storage(
        &mut self,
        program: &Arc<dyn Deferred>,
        storage: &Storage,
        writes: bool,
    ) -> Result<BufferId, Appended> {
        let known = self.ids.get(&storage.key()).copied();
        if known.is_some_and(|id| self.written[id.index()] || !writes) {
            return known.ok_or(Appended::Refused(""));
        }
        if known.is_none() && !storage.is_sole_owner() {
            return Err(Appended::Refused("its memory can be changed from outside"));
        }
        let conflicts = storage.note_use(program, writes);
        if let [only] = &conflicts[..]
            && let Some(recomputation) = (&**only as &dyn Any).downcast_ref::<Recomputation>()
        {
            let taken = self.take_over(program, recomputation, storage)?;
            return taken.ok_or(Appended::After(conflicts));
        }
        if !conflicts.is_empty() {
            return Err(Appended::After(conflicts));
        }
        let id = known.unwrap_or_else(|| self.add_buffer(storage.clone(), Role::Input, false));
        self.written[id.index()] |= writes;
        Ok(id)
    }

    /// Appends the call of a recomputation, whose result is needed; `None` where it has to run, or has run. See Note
    /// [Recomputed results].
    fn take_over(
        &mut self,
        program: &Arc<dyn Deferred>,
        recomputation: &Recomputation,
        storage: &Storage,
    ) -> Result<Option<BufferId>, Appended> {
        let Some(mut held) = recomputation.try_lock() else { return Ok(None) };
        let Some(call) = held.as_ref() else { return Ok(None) };
        let mut operands = SmallVec::<[BufferId; 3]>::new();
        for operand in &call.operands {
            match self.buffer_of_storage(program, operand, false) {
                Ok(id) => operands.push(id),
                Err(Appended::After(programs)) => return Err(Appended::After(programs)),
                Err(_) => return Ok(None),
            }
        }
        let Ok(scratch) = call.scratch() else { return Ok(None) };
        if !storage.hand_over_use(recomputation, program, true) {
            return Ok(None);
        }
        call.forget_reads();
        let wanted = self.add_buffer(storage.clone(), Role::Output, true);
        self.bytes = self.bytes.saturating_add(storage.nbytes());
        let taken = held.take();
        drop(held);
        if let Some(call) = taken {
            self.push_taken(program, call, &operands, (wanted, scratch));
        }
        Ok(Some(wanted))
    }

    fn push_taken(
        &mut self,
        program: &Arc<dyn Deferred>,
        call: Call,
        operands: &[BufferId],
        (wanted, scratch): (BufferId, SmallVec<[Option<Storage>; 3]>),
    ) {
        let Call { mut node, which, .. } = call;
        for argument in node.argument_operands_mut() {
            argument.buffer = operands[argument.buffer.index()];
        }
        let results = node.results.iter_mut().zip(scratch).enumerate();
        for (index, (result, storage)) in results {
            match (result, storage) {
                (Some(result), _) if index == which => result.buffer = wanted,
                (Some(result), Some(storage)) => {
                    // Nobody else knows the storage.
                    storage.note_use(program, true);
                    result.buffer = self.add_buffer(storage, Role::Output, true);
                }
                _ => {}
            }
        }
        self.program.push(node);
    }

    fn add_buffer(&mut self, storage: Storage, role: Role, written: bool) -> BufferId {
        let key = storage.key();
        let id = self.program.add_buffer(storage, role);
        self.ids.insert(key, id);
        self.written.push(written);
        id
    }

    /// The results as tensors, without memory yet, and as operands.
    #[allow(clippy::type_complexity, reason = "one caller")]
    fn make_results(
        &mut self,
        (program, device): (&Arc<dyn Deferred>, Device),
        given: &AllGiven,
        results: &Results,
        operands: &[Argument],
    ) -> Result<(SmallVec<[Tensor; 2]>, SmallVec<[Option<Operand>; 1]>)> {
        let (mut tensors, mut made) = (SmallVec::new(), SmallVec::new());
        for result in results {
            match result {
                ResultOf::Undefined => {
                    tensors.push(Tensor::undefined());
                    made.push(None);
                }
                ResultOf::Given(index) => {
                    tensors.push(given[*index].tensor.clone());
                    made.push(operands[*index].operands().next().cloned());
                }
                ResultOf::Fresh(shape) => {
                    let nbytes = shape.nbytes;
                    let storage = Storage::without_memory_on(nbytes, device)?;
                    let tensor: Tensor = TensorBase::new_with_storage(
                        storage.clone(),
                        shape.dtype,
                        keys_of(device),
                        &shape.sizes,
                        &shape.strides,
                        0,
                    )?
                    .into();
                    // Nobody else knows the storage.
                    storage.note_use(program, true);
                    let id = self.add_buffer(storage, Role::Output, true);
                    self.bytes = self.bytes.saturating_add(nbytes);
                    made.push(Some(Operand::of(tensor.base(), id)));
                    tensors.push(tensor);
                }
            }
        }
        Ok((tensors, made))
    }
}

/// The arguments of a node: values, and in the place of each tensor its operand.
fn arguments_of(
    stack: &Stack,
    operands: &mut impl Iterator<Item = Argument>,
) -> Result<SmallVec<[Argument; 4]>> {
    let missing = || err!(Internal, "an operand is missing");
    let mut arguments = SmallVec::new();
    for value in stack.iter() {
        let mut next = || match operands.next() {
            Some(Argument::Tensor(operand)) => Ok(operand),
            _ => Err(missing()),
        };
        arguments.push(match value {
            IValue::Tensor(tensor) if tensor.defined() => operands.next().ok_or_else(missing)?,
            IValue::TensorList(list) => {
                Argument::Tensors(list.iter().map(|_| next()).collect::<Result<_>>()?)
            }
            IValue::OptionalTensorList(list) => {
                let one = |tensor: &Option<Tensor>| tensor.as_ref().map(|_| next()).transpose();
                Argument::OptionalTensors(list.iter().map(one).collect::<Result<_>>()?)
            }
            other => Argument::Value(other.clone()),
        });
    }
    Ok(arguments)
}

impl DeferredProgram {
    /// Lets the program leave results to be recomputed, other than those of a region that returned these storages,
    /// given by their keys. See Note [Recomputed results].
    pub(super) fn may_leave(&self, returned: Vec<usize>) {
        self.lock().returned = Some(returned);
    }

    fn lock(&self) -> MutexGuard<'_, RecordedCalls> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn try_lock(&self) -> Result<MutexGuard<'_, RecordedCalls>> {
        match self.recorded.try_lock() {
            Ok(recorded) => Ok(recorded),
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => Err(err!(
                Runtime,
                "conflicting access to a storage: another thread computes its contents while this one has \
                 others opened"
            )),
        }
    }
}

/// A number of this thread other than 0.
pub(super) fn thread_number() -> usize {
    thread_local!(static NUMBER: u8 = const { 0 });
    NUMBER.with(|number| std::ptr::from_ref(number).addr())
}

/// Says that this thread runs a program, also while a panic unwinds.
pub(super) struct Running<'a>(&'a AtomicUsize);

thread_local! {
    /// The programs that this thread is running, one within the other.
    static RUNNING: Cell<usize> = const { Cell::new(0) };
}

impl<'a> Running<'a> {
    pub(super) fn start(runner: &'a AtomicUsize) -> Self {
        runner.store(thread_number(), Ordering::Relaxed);
        RUNNING.set(RUNNING.get() + 1);
        Self(runner)
    }
}

/// Runs what this thread has recorded, unless it is running a program: that one then goes on, as its calls come first
/// and another one may wait for it.
pub(super) fn flush_before_devices() -> Result<()> {
    if RUNNING.get() > 0 { Ok(()) } else { region::flush_thread() }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Relaxed);
        RUNNING.set(RUNNING.get() - 1);
    }
}

impl Deferred for DeferredProgram {
    fn flush(&self, waits: bool) -> Result<()> {
        if self.is_running_here() {
            return Ok(());
        }
        region::look(self, "access", "the contents of a result are looked at")?;
        let mut recorded = if waits { self.lock() } else { self.try_lock()? };
        let running = Running::start(&self.runner);
        let outcome = recorded.stream.enter().and_then(|_stream| recorded.run(self));
        for buffer in recorded.program.buffers() {
            buffer.storage.forget_use(self);
        }
        drop(running);
        // What it drops may run foreign code, which may come back here.
        let done = std::mem::take(&mut *recorded);
        drop(recorded);
        drop(done);
        outcome
    }

    fn is_running_here(&self) -> bool {
        self.runner.load(Ordering::Relaxed) == thread_number()
    }
}

impl RecordedCalls {
    fn run(&mut self, own: &DeferredProgram) -> Result<()> {
        if self.program.nodes().is_empty() {
            return Ok(());
        }
        self.program.set_folds(region::folds());
        self.assign_roles();
        let left = self.leave_results();
        if statistics::is_collecting() {
            statistics::note_program(&self.program);
        }
        let _state = ThreadStateGuard::new(ThreadState::BELOW_MODES);
        let plan = cache::plan_of(&self.program);
        statistics::note_plan(&plan);
        let outcome = plan.run(&self.program);
        left.iter().for_each(|left| self.program.set_role(left.buffer, Role::Output));
        if let Err(failed) = outcome {
            self.refuse_results(&failed.error);
            return Err(located(failed.error, self.program.nodes().get(failed.node)));
        }
        left.into_iter().try_for_each(|left| recompute::leave(own, &self.program, left))
    }

    /// The results that are not to be kept, which become internal.
    fn leave_results(&mut self) -> Vec<Left> {
        let returned = self.returned.take();
        let left = returned.map(|returned| recompute::choose(&self.program, &returned));
        let left = left.unwrap_or_default();
        left.iter().for_each(|left| self.program.set_role(left.buffer, Role::Internal));
        left
    }

    /// What nobody holds but the program need not outlive it. Other programs may read inputs, too.
    fn assign_roles(&mut self) {
        for index in 0..self.program.buffers().len() {
            let id = BufferId(index as u32);
            let buffer = self.program.buffer(id);
            if buffer.storage.use_count() > 0 {
                continue;
            }
            match buffer.role {
                Role::Output => self.program.set_role(id, Role::Internal),
                Role::Input if buffer.storage.pending_programs(true).is_empty() => {
                    self.program.set_role(id, Role::Consumed);
                }
                Role::Input | Role::Consumed | Role::Internal => {}
            }
        }
    }

    /// Whoever touches a result that was not computed learns why.
    fn refuse_results(&self, error: &Error) {
        for buffer in self.program.buffers() {
            let storage = &buffer.storage;
            if buffer.role == Role::Output && storage.nbytes() > 0 && storage.data_ptr().is_null() {
                storage.set_access_error(Some(error.message().to_owned()));
            }
        }
    }
}

const RECORDED_AT: &str = "\n(recorded at ";

/// The error with the line of the call.
fn located(error: Error, node: Option<&Node>) -> Error {
    let line = node.and_then(|node| node.line.as_ref());
    match (error.kind(), line) {
        (ErrorKind::External, _) | (_, None) => error,
        _ if error.message().contains(RECORDED_AT) => error,
        (kind, Some(line)) => Error::new(kind, format!("{}{RECORDED_AT}{line})", error.message())),
    }
}
