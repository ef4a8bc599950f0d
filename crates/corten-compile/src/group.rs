//! Nodes that run together, element by element.

use crate::ir::{Argument, BufferId, Node, Operand, Program};
use crate::recipe::{Recipe, Written};
use crate::space::{is_injective, strides_over};
use corten_core::Dims;
use smallvec::SmallVec;
use std::sync::Arc;

/// More steps than these are not put together: planning and the room for results in the first-level cache
/// grow with them.
const MOST_STEPS: usize = 96;
/// Buffers that a group reads or writes at most.
const MOST_BUFFERS: usize = 24;

/// A node with what it runs.
pub(crate) struct Member {
    pub(crate) node: usize,
    pub(crate) recipe: Arc<Recipe>,
}

/// Nodes over one iteration space, in program order.
pub(crate) struct Group {
    pub(crate) members: Vec<Member>,
    /// The sizes of what the nodes write; of one dimension where all operands are contiguous or single.
    pub(crate) sizes: Dims,
    /// Whether all operands lie in order, so that sizes do not matter.
    pub(crate) flat: bool,
    /// Whether all nodes write these sizes.
    uniform: bool,
    accesses: Vec<Access>,
    buffers: SmallVec<[BufferId; 8]>,
    steps: usize,
}

/// How a node uses a tensor.
struct Access {
    operand: Operand,
    writes: bool,
}

/// The tensor that a node writes.
pub(crate) fn written(node: &Node, which: Written) -> Option<&Operand> {
    match which {
        Written::Argument(i) => match &node.arguments[i] {
            Argument::Tensor(operand) => Some(operand),
            _ => None,
        },
        Written::Result(i) => node.results[i].as_ref(),
    }
}

/// What a node needs to take part in a group.
pub(crate) struct Candidate {
    member: Member,
    sizes: Dims,
    flat: bool,
    accesses: SmallVec<[Access; 4]>,
}

impl Candidate {
    /// A node with its recipe; `None` where its operands do not broadcast to what it writes.
    pub(crate) fn new(program: &Program, index: usize, recipe: Arc<Recipe>) -> Option<Self> {
        let node = &program.nodes()[index];
        let (first, _) = recipe.outputs.first()?;
        let sizes = written(node, *first)?.sizes.clone();
        let mut accesses: SmallVec<[Access; 4]> = SmallVec::new();
        for operand in node.reads() {
            strides_over(operand, &sizes)?;
            accesses.push(Access { operand: operand.clone(), writes: false });
        }
        for &(which, _) in &recipe.outputs {
            let operand = written(node, which)?;
            if operand.sizes != sizes || !is_injective(operand) {
                return None;
            }
            accesses.push(Access { operand: operand.clone(), writes: true });
        }
        let flat = accesses.iter().all(|access| {
            let whole = access.operand.sizes == sizes && access.operand.is_contiguous();
            whole || access.operand.numel() == 1
        });
        let numel: i64 = sizes.iter().product();
        let member = Member { node: index, recipe };
        let candidate = Self { member, sizes, flat, accesses };
        (numel > 1 && candidate.agrees_with_itself()).then_some(candidate)
    }

    fn agrees_with_itself(&self) -> bool {
        let pairs = self.accesses.iter().enumerate();
        pairs
            .into_iter()
            .all(|(i, access)| self.accesses[..i].iter().all(|other| agree(access, other, false)))
    }

    /// Whether the nodes of a group and this one can run element by element together.
    pub(crate) fn fits(&self, group: &Group) -> bool {
        let flat = self.flat && group.flat;
        is_same_space(flat, group.uniform, &self.sizes, &group.sizes)
            && group.steps + self.member.recipe.steps.len() <= MOST_STEPS
            && self.agrees_with(&group.accesses, flat)
            && self.fresh_buffers(group) + group.buffers.len() <= MOST_BUFFERS
    }

    fn fresh_buffers(&self, group: &Group) -> usize {
        let fresh = |access: &&Access| !group.buffers.contains(&access.operand.buffer);
        self.accesses.iter().filter(fresh).count()
    }

    fn agrees_with(&self, others: &[Access], flat: bool) -> bool {
        let agrees = |access: &Access| others.iter().all(|other| agree(access, other, flat));
        self.accesses.iter().all(agrees)
    }

    /// Whether the group and the candidate read or write a buffer in common.
    pub(crate) fn shares_buffer(&self, group: &Group) -> bool {
        self.fresh_buffers(group) < self.accesses.len()
    }
}

/// Whether two uses of a buffer may go on side by side: none of them writes, they share no byte, or every
/// step uses the same element in both.
fn agree(a: &Access, b: &Access, flat: bool) -> bool {
    if a.operand.buffer != b.operand.buffer || !(a.writes || b.writes) {
        return true;
    }
    let (x, y) = (a.operand.bytes(), b.operand.bytes());
    let apart = x.end <= y.start || y.end <= x.start;
    let same_place = a.operand.offset == b.operand.offset && a.operand.dtype == b.operand.dtype;
    let same_walk = a.operand.sizes == b.operand.sizes && a.operand.strides == b.operand.strides;
    let same_flat = flat
        && a.operand.is_contiguous()
        && b.operand.is_contiguous()
        && a.operand.numel() == b.operand.numel();
    apart || (same_place && (same_walk || same_flat))
}

/// Whether steps over two spaces are the same ones: over the same sizes, or, where all operands lie in order, as many.
fn is_same_space(flat: bool, uniform: bool, a: &[i64], b: &[i64]) -> bool {
    let as_many = || a.iter().product::<i64>() == b.iter().product::<i64>();
    (uniform && a == b) || (flat && as_many())
}

impl Group {
    /// A group of one node.
    pub(crate) fn of(candidate: Candidate) -> Self {
        let mut group = Self {
            members: Vec::new(),
            sizes: candidate.sizes.clone(),
            flat: candidate.flat,
            uniform: true,
            accesses: Vec::new(),
            buffers: SmallVec::new(),
            steps: 0,
        };
        group.push(candidate);
        group
    }

    /// Takes a node that [fits](Candidate::fits).
    pub(crate) fn push(&mut self, candidate: Candidate) {
        self.flat &= candidate.flat;
        self.uniform &= candidate.sizes == self.sizes;
        self.steps += candidate.member.recipe.steps.len();
        for access in &candidate.accesses {
            self.note_buffer(access.operand.buffer);
        }
        self.accesses.extend(candidate.accesses);
        self.members.push(candidate.member);
    }

    fn note_buffer(&mut self, buffer: BufferId) {
        if !self.buffers.contains(&buffer) {
            self.buffers.push(buffer);
        }
    }

    /// Whether all nodes of two groups can run element by element together.
    pub(crate) fn fits(&self, other: &Group) -> bool {
        let flat = self.flat && other.flat;
        let agree_all = || {
            let agrees = |a: &Access| other.accesses.iter().all(|b| agree(a, b, flat));
            self.accesses.iter().all(agrees)
        };
        is_same_space(flat, self.uniform && other.uniform, &self.sizes, &other.sizes)
            && self.steps + other.steps <= MOST_STEPS
            && self.buffers.len() + other.buffers.len() <= MOST_BUFFERS
            && agree_all()
    }

    /// Takes all nodes of another group that [fits](Self::fits).
    pub(crate) fn merge(&mut self, other: Group) {
        self.flat &= other.flat;
        self.uniform &= other.uniform && other.sizes == self.sizes;
        self.steps += other.steps;
        for &buffer in &other.buffers {
            self.note_buffer(buffer);
        }
        self.accesses.extend(other.accesses);
        self.members.extend(other.members);
        self.members.sort_by_key(|member| member.node);
    }

    /// The buffers that the nodes use.
    pub(crate) fn buffers(&self) -> &[BufferId] {
        &self.buffers
    }
}
