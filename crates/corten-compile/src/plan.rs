//! Plans: how a program runs.

use crate::call;
use crate::device;
use crate::fold::{self, Fold, FoldedConvolution};
use crate::group::Group;
use crate::ir::{BufferId, Node, Program};
use crate::lower::{Lowered, lower};
use crate::memory::{self, StepMemory};
use crate::schedule::{Item, schedule};
use crate::tile::Kernel;
use corten_core::{BelowADInplaceOrViewGuard, Error, Result};
use smallvec::SmallVec;

/// How a program runs, for all programs of its [structure](crate::ir::Structure).
///
/// ```
/// use corten::core::{Device, Storage};
/// use corten::ops::registry;
/// use corten::prelude::*;
/// use corten_compile::Plan;
/// use corten_compile::ir::{Argument, Node, Operand, Program, Role};
///
/// # fn main() -> Result<()> {
/// let x = tensor![1.0, 4.0]?;
/// let mut program = Program::new();
/// let input = program.add_buffer(x.storage()?, Role::Input);
/// let storage = Storage::new(8, Device::CPU)?;
/// let output = program.add_buffer(storage.clone(), Role::Output);
/// program.push(Node {
///     op: registry::find("aten::sqrt").ok_or_else(|| corten::core::err!(Runtime, "no sqrt"))?,
///     arguments: [Argument::Tensor(Operand::of(&x, input))].into_iter().collect(),
///     results: [Some(Operand::of(&x, output))].into_iter().collect(),
///     line: None,
/// });
/// Plan::compile(&program).run(&program).map_err(|failed| failed.error)?;
/// let roots = Operand::of(&x, output).tensor(&storage)?;
/// assert_eq!(roots.to_vec::<f32>()?, [1.0, 2.0]);
/// # Ok(())
/// # }
/// ```
pub struct Plan {
    steps: Vec<PlanStep>,
    /// Inputs that the program writes.
    written_inputs: Vec<BufferId>,
    report: Report,
}

/// What runs at once.
struct PlanStep {
    run: Run,
    /// The nodes, in program order.
    nodes: SmallVec<[usize; 4]>,
    /// Internal buffers that are not used after it.
    dead: SmallVec<[BufferId; 2]>,
}

enum Run {
    Node,
    Tiles(Box<Kernel>),
    /// One launch of a device.
    Launch(Box<device::Kernel>),
    /// A convolution with the normalisation of its result.
    Folded(Box<FoldedConvolution>),
    /// A node whose result could take over the memory of an operand, by tiles.
    NodeOrTiles(Box<Kernel>),
}

/// A node that failed.
///
/// ```
/// use corten_compile::{Failed, Plan};
/// use corten_compile::ir::Program;
///
/// let program = Program::new();
/// let outcome: Result<(), Failed> = Plan::compile(&program).run(&program);
/// assert!(outcome.is_ok());
/// ```
#[derive(Debug)]
pub struct Failed {
    /// Its number in the program; the first one of a group that failed.
    pub node: usize,
    /// Why.
    pub error: Error,
}

/// What a plan saves.
///
/// ```
/// use corten_compile::{Plan, Report};
/// use corten_compile::ir::Program;
///
/// let report: Report = Plan::compile(&Program::new()).report().clone();
/// assert_eq!((report.nodes, report.bytes_saved), (0, 0));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Nodes of the program.
    pub nodes: usize,
    /// The groups of two nodes and more, each as the numbers of its nodes.
    pub groups: Vec<Vec<usize>>,
    /// Internal buffers that are never in memory.
    pub removed_buffers: usize,
    /// Bytes of memory traffic that groups save: what they neither write nor read again.
    pub bytes_saved: usize,
    /// Convolutions with the normalisation after them in their weights.
    pub folded: usize,
    /// Results that take over the memory of an operand which nobody reads any more.
    pub in_place: usize,
    /// The most bytes that internal, output and consumed buffers hold at once.
    pub peak_bytes: usize,
    /// As `peak_bytes`, were each node run by itself.
    pub peak_bytes_apart: usize,
}

impl Plan {
    /// Plans a program: nodes that run element by element over the same space run together.
    pub fn compile(program: &Program) -> Self {
        Self::new(program, true)
    }

    /// The plan that runs every node by its ordinary kernel.
    pub fn node_by_node(program: &Program) -> Self {
        Self::new(program, false)
    }

    fn new(program: &Program, fuse: bool) -> Self {
        let items = schedule(program, fuse);
        let users = users(program, &items);
        let mut report = Report { nodes: program.nodes().len(), ..Report::default() };
        let mut steps: Vec<PlanStep> = Vec::with_capacity(items.len());
        for (index, item) in items.into_iter().enumerate() {
            match item {
                Item::Node(node) => steps.push(PlanStep::of_node(node)),
                Item::Folded(fold) => {
                    report.folded += 1;
                    steps.push(PlanStep::of_fold(fold));
                }
                Item::Group(group) => {
                    let is_needed = |buffer: BufferId| users[buffer.index()] != User::Only(index);
                    push_group(program, &group, is_needed, &mut steps, &mut report);
                }
            }
        }
        let mut plan = Self { steps, written_inputs: written_inputs(program), report };
        plan.find_last_uses(program);
        plan
    }

    fn find_last_uses(&mut self, program: &Program) {
        let used: Vec<Vec<BufferId>> =
            self.steps.iter().map(|step| step.buffers(program)).collect();
        let dead = memory::last_uses(program, used.iter().map(Vec::as_slice));
        for (step, dead) in self.steps.iter_mut().zip(dead) {
            step.dead = dead;
            step.choose_memory(program);
            self.report.in_place += step.takes().len();
        }
        let held = used.iter().zip(&self.steps).map(|(used, step)| StepMemory {
            used,
            dead: &step.dead,
            takes: step.takes(),
        });
        self.report.peak_bytes = memory::peak(program, held);
        let apart: Vec<Vec<BufferId>> = (0..program.nodes().len())
            .map(|node| PlanStep::of_node(node).buffers(program))
            .collect();
        let dead = memory::last_uses(program, apart.iter().map(Vec::as_slice));
        let held = apart.iter().zip(&dead).map(|(used, dead)| StepMemory {
            used,
            dead,
            takes: SmallVec::new(),
        });
        self.report.peak_bytes_apart = memory::peak(program, held);
    }

    /// What the plan saves.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Runs a program of the structure that the plan was made for. Outputs have their memory afterwards,
    /// internal buffers none. Calls go to the kernels of the CPU: below autograd and without what the thread
    /// includes above them, which the caller sees to.
    ///
    /// # Errors
    /// The first node that fails, which may be one of a later line than others that have not run. What nodes
    /// before it have written stays.
    pub fn run(&self, program: &Program) -> Result<(), Failed> {
        let _below = BelowADInplaceOrViewGuard::new();
        let apart = !self.written_inputs.is_empty() && self.inputs_overlap(program);
        if apart {
            return Self::node_by_node(program).run_steps(program);
        }
        self.run_steps(program)
    }

    fn run_steps(&self, program: &Program) -> Result<(), Failed> {
        for step in &self.steps {
            let node = step.nodes.first().copied().unwrap_or(0);
            let outcome = match &step.run {
                Run::Node => call::call(program, &program.nodes()[node]),
                Run::Folded(folded) => folded.run(program),
                Run::Tiles(kernel) | Run::NodeOrTiles(kernel) => kernel.run(program),
                Run::Launch(kernel) => kernel.run(program),
            };
            outcome.map_err(|error| Failed { node, error })?;
            for &buffer in &step.dead {
                // Who still uses it frees it.
                let _ = memory::release(&program.buffer(buffer).storage);
            }
        }
        Ok(())
    }

    /// Whether an input that is written shares memory with another buffer: numbers of buffers then say too
    /// little about what nodes depend on.
    fn inputs_overlap(&self, program: &Program) -> bool {
        let range = |id: usize| {
            let storage = &program.buffers()[id].storage;
            let start = storage.data_ptr().addr();
            start..start + storage.nbytes()
        };
        self.written_inputs.iter().any(|written| {
            let a = range(written.index());
            (0..program.buffers().len()).any(|other| {
                let b = range(other);
                other != written.index() && a.start < b.end && b.start < a.end && b.start != 0
            })
        })
    }
}

impl Run {
    /// How a group runs, the bytes that it reads and writes, and how many buffers it removes.
    fn of(program: &Program, group: &Group, lowered: Lowered) -> Option<(Self, usize, usize)> {
        let node = &program.nodes()[group.members.first()?.node];
        let place = device::device_of(program, node);
        if place.is_cpu() {
            let kernel = Kernel::new(lowered)?;
            let (bytes, removed) = (kernel.bytes(), kernel.removed());
            let of_kernel = if group.members.len() > 1 { Self::Tiles } else { Self::NodeOrTiles };
            return Some((of_kernel(Box::new(kernel)), bytes, removed));
        }
        let kernel = device::Kernel::new(lowered, place)?;
        let (bytes, removed) = (kernel.bytes(), kernel.removed());
        Some((Self::Launch(Box::new(kernel)), bytes, removed))
    }
}

impl PlanStep {
    fn of_node(node: usize) -> Self {
        let nodes = SmallVec::from_slice(&[node]);
        Self { run: Run::Node, nodes, dead: SmallVec::new() }
    }

    fn of_fold(fold: Fold) -> Self {
        let nodes = SmallVec::from_slice(&[fold.convolution, fold.normalisation]);
        let run = Run::Folded(Box::new(FoldedConvolution::new(fold)));
        Self { run, nodes, dead: SmallVec::new() }
    }

    /// Has results take over the memory of operands that end here. Those of launches do not: on a device memory goes
    /// back in the order of the stream that it was allocated in, which need not be the one of the program.
    fn choose_memory(&mut self, program: &Program) {
        if let Run::Tiles(kernel) | Run::NodeOrTiles(kernel) = &mut self.run {
            kernel.choose_memory(program, &self.dead);
        }
        if matches!(&self.run, Run::NodeOrTiles(kernel) if !kernel.takes_over()) {
            self.run = Run::Node;
        }
    }

    /// Buffers that take over the memory of others.
    fn takes(&self) -> SmallVec<[(BufferId, BufferId); 1]> {
        match &self.run {
            Run::Node | Run::Launch(_) | Run::Folded(_) => SmallVec::new(),
            Run::Tiles(kernel) | Run::NodeOrTiles(kernel) => kernel.taken_buffers(),
        }
    }

    /// The buffers that are in memory for the step.
    fn buffers(&self, program: &Program) -> Vec<BufferId> {
        match &self.run {
            Run::Node => {}
            Run::Folded(folded) => return fold::buffers(program, folded.fold),
            Run::Tiles(kernel) | Run::NodeOrTiles(kernel) => return kernel.buffers(program),
            Run::Launch(kernel) => return kernel.buffers(),
        }
        let nodes = self.nodes.iter().map(|&node| &program.nodes()[node]);
        nodes
            .flat_map(|node| node.reads().chain(node.writes()))
            .map(|operand| operand.buffer)
            .collect()
    }
}

/// Plans a group, or its nodes apart where that is no gain.
fn push_group(
    program: &Program,
    group: &Group,
    is_needed: impl Fn(BufferId) -> bool,
    steps: &mut Vec<PlanStep>,
    report: &mut Report,
) {
    let nodes: SmallVec<[usize; 4]> = group.members.iter().map(|member| member.node).collect();
    let may_run = nodes.len() > 1 || is_large(program, group);
    let lowered = may_run.then(|| lower(program, group, is_needed)).flatten();
    let Some((run, bytes, removed)) = lowered.and_then(|lowered| Run::of(program, group, lowered))
    else {
        steps.extend(nodes.iter().map(|&node| PlanStep::of_node(node)));
        return;
    };
    if matches!(run, Run::NodeOrTiles(_)) {
        steps.push(PlanStep { run, nodes, dead: SmallVec::new() });
        return;
    }
    let apart = nodes.iter().flat_map(|&node| {
        let node = &program.nodes()[node];
        node.reads().chain(node.results.iter().flatten())
    });
    let apart: usize = apart.map(bytes_of).sum();
    report.bytes_saved += apart.saturating_sub(bytes);
    report.removed_buffers += removed;
    report.groups.push(nodes.to_vec());
    steps.push(PlanStep { run, nodes, dead: SmallVec::new() });
}

/// Whether memory counts for a node of the host by itself, which its ordinary kernel runs otherwise.
fn is_large(program: &Program, group: &Group) -> bool {
    const LARGE: i64 = 1 << 14;
    let only = group.members.first().map(|member| &program.nodes()[member.node]);
    let is_large = |node: &Node| {
        device::device_of(program, node).is_cpu() && node.writes().any(|to| to.numel() >= LARGE)
    };
    group.reduced == 0 && only.is_some_and(is_large)
}

fn bytes_of(operand: &crate::ir::Operand) -> usize {
    operand.numel() as usize * operand.dtype.itemsize()
}

/// Who uses a buffer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum User {
    Nobody,
    /// An item alone.
    Only(usize),
    Several,
}

fn users(program: &Program, items: &[Item]) -> Vec<User> {
    let mut users = vec![User::Nobody; program.buffers().len()];
    for (index, item) in items.iter().enumerate() {
        let nodes: SmallVec<[usize; 8]> = match item {
            Item::Node(node) => SmallVec::from_slice(&[*node]),
            Item::Group(group) => group.members.iter().map(|member| member.node).collect(),
            Item::Folded(fold) => SmallVec::from_slice(&[fold.convolution, fold.normalisation]),
        };
        for node in nodes {
            let node = &program.nodes()[node];
            for operand in node.reads().chain(node.writes()) {
                let user = &mut users[operand.buffer.index()];
                *user = match *user {
                    User::Nobody => User::Only(index),
                    User::Only(known) if known == index => User::Only(index),
                    _ => User::Several,
                };
            }
        }
    }
    users
}

fn written_inputs(program: &Program) -> Vec<BufferId> {
    let mut written: Vec<BufferId> = program
        .nodes()
        .iter()
        .flat_map(|node| node.writes())
        .map(|operand| operand.buffer)
        .filter(|&buffer| program.buffer(buffer).role.is_given())
        .collect();
    written.sort_unstable();
    written.dedup();
    written
}
