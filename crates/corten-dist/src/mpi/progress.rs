//! What runs on the communicators of MPI.
//!
//! Calls are started without waiting, and MPI is asked in turn whether each has ended, so that messages and
//! collectives of several communicators overlap, and none outlives its deadline. Who asks: see `drive.rs`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use corten_core::DType;

use super::drive::{Ended, Rounds};
use super::ffi::{Communicator, Mpi, RawHandle, Request};
use super::plan::{CommunicatorFacts, Finish, Lane, Step};
use super::queue::{Command, Member, Reply, Split, Started};
use crate::buffer::Buffer;
use crate::{DistError, Result, Work};

/// The most bytes of one step: as many as MPI counts, in whole pages.
pub(super) const MAX_STEP: usize = 1 << 30;

/// The tag of messages within collectives, and of those before a communicator is made.
const COLLECTIVE_TAG: i32 = 1;
const SPLIT_TAG: i32 = 2;

/// Whether a call has failed: MPI would wait for the missing rank at its end.
static HAS_FAILED: AtomicBool = AtomicBool::new(false);

/// The communicators of a member: collectives, and messages of users.
#[derive(Clone, Copy)]
struct Lanes<H> {
    collective: Communicator<H>,
    user: Communicator<H>,
}

/// A receiving call: what is expected, and what is received afterwards from the same rank.
struct Expected {
    bytes: usize,
    lane: Lane,
    rest: Vec<Buffer>,
}

/// A call on its way.
struct Running<H> {
    member: Arc<Member>,
    requests: Requests<H>,
    deadline: Option<Instant>,
    begun: Instant,
    is_point_to_point: bool,
    then: Then,
}

/// What follows when all requests have ended.
enum Then {
    Finish(Arc<Work>, Vec<Finish>),
    Split(Vec<usize>, Reply<Result<Arc<Member>>>),
}

/// The communicators, and what runs there. One thread at a time has them.
pub(super) struct Communicators<H> {
    mpi: Mpi<H>,
    members: Vec<Option<Lanes<H>>>,
    running: Vec<Running<H>>,
    /// What has ended and has not been told.
    ended: Vec<Ended>,
    limit: usize,
    largest_tag: i32,
}

impl<H: RawHandle> Communicators<H> {
    pub(super) fn new(mpi: Mpi<H>, limit: usize) -> Result<Self> {
        let largest_tag = mpi.largest_tag()?;
        let (members, running, ended) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self { mpi, members, running, ended, limit, largest_tag })
    }
}

impl<H: RawHandle> Rounds for Communicators<H> {
    fn obey(&mut self, command: Command) {
        match command {
            Command::Start(started) => self.start(started),
            Command::World(reply) => {
                let made = self.world();
                reply.set(made);
            }
            Command::Split(split) => self.split(split),
            Command::Abort(member, reason) => self.break_off(&member, &reason),
            Command::Release(member) => self.release(&member),
        }
    }

    /// Asks MPI for every call whether it has ended. Returns whether any request has.
    fn poll(&mut self) -> bool {
        let mut is_eventful = false;
        let mut index = 0;
        while index < self.running.len() {
            match self.advance(index) {
                Ok(Advance::Nothing) => index += 1,
                Ok(Advance::Some) => {
                    is_eventful = true;
                    index += 1;
                }
                Ok(Advance::Ended) => {
                    is_eventful = true;
                    let ended = self.running.remove(index);
                    self.end(ended);
                }
                Err(error) => {
                    is_eventful = true;
                    let failed = self.running.remove(index);
                    self.fail(failed, &error);
                    // Other calls of the communicator may have gone with it.
                    index = 0;
                }
            }
        }
        is_eventful
    }

    fn is_idle(&self) -> bool {
        self.running.is_empty()
    }

    fn ended(&mut self) -> Vec<Ended> {
        std::mem::take(&mut self.ended)
    }

    /// Ends MPI together with all ranks. Where a call has failed or is still on its way, MPI is left as it
    /// is: it would wait for ranks that do not come.
    fn finish(mut self: Box<Self>, end: Instant) {
        while !self.running.is_empty()
            && !HAS_FAILED.load(Ordering::Relaxed)
            && Instant::now() < end
        {
            self.poll();
            std::thread::yield_now();
        }
        if self.running.is_empty() && !HAS_FAILED.load(Ordering::Relaxed) {
            self.mpi.finish();
        }
    }
}

impl<H: RawHandle> Communicators<H> {
    /// Begins all steps of a call.
    fn start(&mut self, started: Started) {
        let Started { member, work, plan, deadline, is_point_to_point } = started;
        if let Some(error) = member.broken() {
            self.ended.push(Ended::failed(work, error));
            return;
        }
        let mut requests = Vec::new();
        for step in plan.steps {
            match self.begin(&member, step) {
                Ok(request) => requests.push(request),
                Err(error) => {
                    let error = named(work.name(), &error);
                    self.ended.push(Ended::failed(work, error.clone()));
                    self.break_off(&member, &error);
                    return;
                }
            }
        }
        let then = Then::Finish(work, plan.finish);
        let begun = Instant::now();
        let running = Running { member, requests, deadline, begun, is_point_to_point, then };
        self.running.push(running);
    }

    fn lanes(&self, member: &Member) -> Result<Lanes<H>> {
        let lanes = self.members.get(member.number).copied().flatten();
        lanes.ok_or_else(|| DistError::backend("the communicator was given up"))
    }

    fn begin(&self, member: &Member, step: Step) -> Result<(Request<H>, Option<Expected>)> {
        let lanes = self.lanes(member)?;
        let (mpi, comm) = (&self.mpi, lanes.collective);
        let request = match step {
            Step::AllReduce { input, output, reduction } => {
                mpi.all_reduce(input.as_ref(), &output, reduction, comm)
            }
            Step::Reduce { input, output, reduction, root } => {
                mpi.reduce(input.as_ref(), output.as_ref(), reduction, root, comm)
            }
            Step::ReduceScatter { input, output, reduction } => {
                mpi.reduce_scatter(&input, &output, reduction, comm)
            }
            Step::Broadcast { buffer, root } => mpi.broadcast(&buffer, root, comm),
            Step::AllGather { input, output } => mpi.all_gather(input.as_ref(), &output, comm),
            Step::Gather { input, output, root } => mpi.gather(&input, output.as_ref(), root, comm),
            Step::Scatter { input, output, root } => {
                mpi.scatter(input.as_ref(), &output, root, comm)
            }
            Step::Send { buffer, to, lane } => {
                let (comm, tag) = lanes.of(lane);
                mpi.send(&buffer, (to, tag), comm)
            }
            Step::Receive { buffer, from, lane, rest } => {
                let (comm, tag) = lanes.of(lane);
                let request = mpi.receive(&buffer, (from, tag), comm)?;
                return Ok((request, Some(Expected { bytes: buffer.nbytes(), lane, rest })));
            }
            Step::Barrier => mpi.barrier(comm),
        };
        Ok((request?, None))
    }

    /// Asks for the requests of one call.
    fn advance(&mut self, index: usize) -> Result<Advance> {
        let Some(running) = self.running.get_mut(index) else { return Ok(Advance::Nothing) };
        let mut has_ended = false;
        let mut following = Vec::new();
        let mut at = 0;
        while let Some((request, expected)) = running.requests.get_mut(at) {
            let Some(received) = self.mpi.test(request)? else {
                at += 1;
                continue;
            };
            has_ended = true;
            let expected = expected.take();
            running.requests.swap_remove(at);
            let Some(expected) = expected else { continue };
            check_received(received.bytes, received.source, &expected)?;
            if let Then::Finish(work, _) = &running.then {
                work.set_source_rank(received.source);
            }
            following.extend(expected.rest.into_iter().map(|buffer| Step::Receive {
                buffer,
                from: Some(received.source),
                lane: expected.lane,
                rest: Vec::new(),
            }));
        }
        let member = running.member.clone();
        for step in following {
            let request = self.begin(&member, step)?;
            self.running[index].requests.push(request);
        }
        let running = &self.running[index];
        if running.requests.is_empty() {
            return Ok(Advance::Ended);
        }
        if running.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Err(running.timed_out());
        }
        Ok(if has_ended { Advance::Some } else { Advance::Nothing })
    }

    /// All requests of a call have ended.
    fn end(&mut self, ended: Running<H>) {
        match ended.then {
            Then::Finish(work, finish) => {
                let size = ended.member.place.size;
                self.ended.push(Ended { work, result: Ok(()), finish, size });
            }
            Then::Split(ranks, reply) => reply.set(self.subset(&ended.member, &ranks)),
        }
    }

    /// A request of a call has failed, or its time is over. A message that is not what the receiver wants
    /// is its own fault alone; after all else ranks no longer agree on what comes next.
    fn fail(&mut self, failed: Running<H>, error: &DistError) {
        let is_message = failed.is_point_to_point && failed.requests.is_empty();
        let error = &named(failed.name(), error);
        match failed.then {
            Then::Finish(work, _) => self.ended.push(Ended::failed(work, error.clone())),
            Then::Split(_, reply) => reply.set(Err(error.clone())),
        }
        if !is_message {
            self.break_off(&failed.member, error);
        }
    }

    /// Fails all calls of a communicator. Their requests stay with MPI, and so does their memory.
    fn break_off(&mut self, member: &Member, reason: &DistError) {
        HAS_FAILED.store(true, Ordering::Relaxed);
        member.break_off(reason);
        let (failed, running) = std::mem::take(&mut self.running)
            .into_iter()
            .partition(|running| running.member.number == member.number);
        self.running = running;
        for failed in <Vec<Running<H>>>::into_iter(failed) {
            match failed.then {
                Then::Finish(work, _) => self.ended.push(Ended::failed(work, reason.clone())),
                Then::Split(_, reply) => reply.set(Err(reason.clone())),
            }
        }
    }

    fn world(&mut self) -> Result<Arc<Member>> {
        let world = self.mpi.world();
        let collective = self.mpi.duplicate(world)?;
        self.member(collective)
    }

    /// Before MPI makes a communicator, which keeps the thread until all have come, its ranks tell the
    /// first one that they are there, and hear from it when all are.
    fn split(&mut self, split: Split) {
        let Split { member, ranks, deadline, reply } = split;
        match self.greet(&member, &ranks) {
            Ok(requests) => {
                let (begun, is_point_to_point) = (Instant::now(), false);
                let then = Then::Split(ranks, reply);
                let running =
                    Running { member, requests, deadline, begun, is_point_to_point, then };
                self.running.push(running);
            }
            Err(error) => reply.set(Err(error)),
        }
    }

    fn greet(&self, member: &Member, ranks: &[usize]) -> Result<Requests<H>> {
        if let Some(error) = member.broken() {
            return Err(error);
        }
        let (lanes, nothing) = (self.lanes(member)?, Buffer::scratch(0, DType::UInt8)?);
        let (comm, rank) = (lanes.collective, member.place.rank);
        let Some((&first, others)) = ranks.split_first() else { return Ok(Vec::new()) };
        let mut requests = Vec::new();
        if rank == first {
            for &other in others {
                requests.push(self.mpi.receive(&nothing, (Some(other), SPLIT_TAG), comm)?);
            }
        } else {
            requests.push(self.mpi.send(&nothing, (first, SPLIT_TAG), comm)?);
            requests.push(self.mpi.receive(&nothing, (Some(first), SPLIT_TAG), comm)?);
        }
        Ok(requests.into_iter().map(|request| (request, None)).collect())
    }

    fn subset(&mut self, member: &Member, ranks: &[usize]) -> Result<Arc<Member>> {
        let (lanes, nothing) = (self.lanes(member)?, Buffer::scratch(0, DType::UInt8)?);
        let mut answers = Vec::new();
        if let Some((first, others)) = ranks.split_first()
            && *first == member.place.rank
        {
            for &other in others {
                let to = (other, SPLIT_TAG);
                answers.push(self.mpi.send(&nothing, to, lanes.collective)?);
            }
        }
        let collective = self.mpi.subset(lanes.collective, ranks, SPLIT_TAG)?;
        for mut answer in answers {
            while self.mpi.test(&mut answer)?.is_none() {}
        }
        self.member(collective)
    }

    /// Takes a communicator over, and makes another one of it for messages.
    fn member(&mut self, collective: Communicator<H>) -> Result<Arc<Member>> {
        let user = self.mpi.duplicate(collective)?;
        let (rank, size) = self.mpi.rank_and_size(collective)?;
        self.members.push(Some(Lanes { collective, user }));
        let place =
            CommunicatorFacts { rank, size, limit: self.limit, largest_tag: self.largest_tag };
        Ok(Member::new(self.members.len() - 1, place))
    }

    /// Frees a communicator, unless something runs there, which goes on.
    fn release(&mut self, member: &Member) {
        member.break_off(&DistError::backend("the process group was shut down"));
        if self.running.iter().any(|running| running.member.number == member.number) {
            return;
        }
        let lanes = self.members.get_mut(member.number).and_then(Option::take);
        if let Some(lanes) = lanes
            && !HAS_FAILED.load(Ordering::Relaxed)
        {
            // A communicator that cannot be freed is one that stays.
            let _ = self.mpi.free(lanes.user).and_then(|()| self.mpi.free(lanes.collective));
        }
    }
}

type Requests<H> = Vec<(Request<H>, Option<Expected>)>;

/// What a round has brought for a call.
enum Advance {
    Nothing,
    Some,
    Ended,
}

impl<H: Copy> Lanes<H> {
    /// The communicator and tag of a message.
    fn of(&self, lane: Lane) -> (Communicator<H>, i32) {
        match lane {
            Lane::User(tag) => (self.user, tag),
            Lane::Collective => (self.collective, COLLECTIVE_TAG),
        }
    }
}

impl<H> Running<H> {
    fn name(&self) -> &'static str {
        match &self.then {
            Then::Finish(work, _) => work.name(),
            Then::Split(..) => "split",
        }
    }

    fn timed_out(&self) -> DistError {
        let age = self.begun.elapsed().as_millis();
        DistError::backend(format!("it did not end within {age} ms"))
    }
}

/// The error with the name of the call that failed.
fn named(name: &str, error: &DistError) -> DistError {
    DistError::new(error.kind(), format!("mpi {name}: {}", error.message()))
}

fn check_received(bytes: usize, source: usize, expected: &Expected) -> Result<()> {
    if bytes == expected.bytes {
        return Ok(());
    }
    Err(DistError::runtime(format!(
        "rank {source} sent a tensor of {bytes} bytes, but the one to receive it has {}",
        expected.bytes
    )))
}
