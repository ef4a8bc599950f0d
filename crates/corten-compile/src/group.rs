//! Nodes that run together, element by element or row by row.

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
    /// Whether it runs over one element per row of the group.
    pub(crate) over_rows: bool,
}

/// Nodes over one iteration space, in program order.
pub(crate) struct Group {
    pub(crate) members: Vec<Member>,
    /// The sizes of what elementwise nodes write and reductions read; of one dimension where all operands are
    /// contiguous or single.
    pub(crate) sizes: Dims,
    /// Trailing dimensions that reductions of the group reduce: together they are a row.
    pub(crate) reduced: usize,
    /// Whether all operands lie in order, so that sizes do not matter.
    pub(crate) flat: bool,
    /// Whether all nodes are over these sizes.
    uniform: bool,
    accesses: Vec<Access>,
    buffers: SmallVec<[BufferId; 8]>,
    steps: usize,
}

/// How a node uses a tensor.
#[derive(Clone)]
struct Access {
    operand: Operand,
    writes: bool,
    /// The strides over the sizes of the group.
    walk: Dims,
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

/// The strides of a tensor over the sizes of a group. `drops` says that the tensor lacks the dimensions that are
/// reduced.
pub(crate) fn walk_over(
    operand: &Operand,
    sizes: &[i64],
    reduced: usize,
    drops: bool,
) -> Option<Dims> {
    if !drops {
        return strides_over(operand, sizes);
    }
    let mut strides = strides_over(operand, &sizes[..sizes.len().checked_sub(reduced)?])?;
    strides.extend(std::iter::repeat_n(0, reduced));
    Some(strides)
}

/// Whether tensors of this rank lack the dimensions that a group reduces, in a node over rows.
pub(crate) fn drops_dims(node_sizes: &[i64], sizes: &[i64]) -> bool {
    node_sizes.len() < sizes.len()
}

/// The sizes that a node is over: of what it writes, or of what it reduces.
pub(crate) fn sizes_of<'a>(node: &'a Node, recipe: &Recipe) -> Option<&'a Dims> {
    let &(first, _) = recipe.outputs.first()?;
    match recipe.reduced {
        0 => written(node, first).map(|operand| &operand.sizes),
        _ => node.reads().next().map(|operand| &operand.sizes),
    }
}

/// What a node needs to take part in a group.
pub(crate) struct Candidate {
    node: usize,
    recipe: Arc<Recipe>,
    sizes: Dims,
    flat: bool,
    operands: SmallVec<[(Operand, bool); 4]>,
}

impl Candidate {
    /// A node with its recipe; `None` where its operands do not broadcast to what it writes.
    pub(crate) fn new(program: &Program, index: usize, recipe: Arc<Recipe>) -> Option<Self> {
        let node = &program.nodes()[index];
        let sizes = sizes_of(node, &recipe)?.clone();
        let mut operands: SmallVec<[(Operand, bool); 4]> = SmallVec::new();
        for operand in node.reads() {
            strides_over(operand, &sizes)?;
            operands.push((operand.clone(), false));
        }
        for &(which, _) in &recipe.outputs {
            let operand = written(node, which)?;
            if (recipe.reduced == 0 && operand.sizes != sizes) || !is_injective(operand) {
                return None;
            }
            operands.push((operand.clone(), true));
        }
        let flat = recipe.reduced == 0
            && operands.iter().all(|(operand, _)| {
                (operand.sizes == sizes && operand.is_contiguous()) || operand.numel() == 1
            });
        let candidate = Self { node: index, recipe, sizes, flat, operands };
        let accesses = candidate.accesses(&candidate.sizes, candidate.recipe.reduced)?;
        let mut pairs = accesses.iter().enumerate();
        let agrees = pairs.all(|(i, a)| accesses[..i].iter().all(|b| agree(a, b, false)));
        (candidate.sizes.iter().product::<i64>() > 1 && agrees).then_some(candidate)
    }

    /// Whether the node runs over one element per row of a group.
    fn is_over_rows(&self, sizes: &[i64], reduced: usize) -> bool {
        let kept = sizes.len() - reduced;
        self.recipe.reduced == 0
            && reduced > 0
            && self.sizes.starts_with(&sizes[..kept])
            && (self.sizes.len() == kept || self.sizes.len() == sizes.len())
            && self.sizes[kept..].iter().all(|&size| size == 1)
    }

    /// The operands over the sizes of a group; `None` where they are over others.
    fn accesses(&self, sizes: &[i64], reduced: usize) -> Option<SmallVec<[Access; 4]>> {
        let over_rows = self.is_over_rows(sizes, reduced);
        let mut accesses = SmallVec::new();
        for (operand, writes) in &self.operands {
            let drops = match self.recipe.reduced {
                0 => over_rows && drops_dims(&self.sizes, sizes),
                _ => *writes && drops_dims(&operand.sizes, sizes),
            };
            let walk = walk_over(operand, sizes, reduced, drops)?;
            accesses.push(Access { operand: operand.clone(), writes: *writes, walk });
        }
        Some(accesses)
    }

    /// Whether the nodes of a group and this one can run together.
    pub(crate) fn fits(&self, group: &Group) -> bool {
        let Some(reduced) = common(self.recipe.reduced, group.reduced) else { return false };
        let flat = self.flat && group.flat;
        let same = match reduced {
            0 => is_same_space(flat, group.uniform, &self.sizes, &group.sizes),
            _ => {
                let whole = self.sizes == group.sizes;
                group.uniform && (whole || self.is_over_rows(&group.sizes, reduced))
            }
        };
        if !same
            || group.steps + self.recipe.steps.len() > MOST_STEPS
            || self.fresh_buffers(group) + group.buffers.len() > MOST_BUFFERS
        {
            return false;
        }
        let own = if self.sizes.len() == group.sizes.len() || reduced > 0 {
            self.accesses(&group.sizes, reduced)
        } else {
            self.accesses(&self.sizes, 0)
        };
        own.is_some_and(|own| own.iter().all(|a| group.accesses.iter().all(|b| agree(a, b, flat))))
    }

    fn fresh_buffers(&self, group: &Group) -> usize {
        self.operands.iter().filter(|(operand, _)| !group.buffers.contains(&operand.buffer)).count()
    }

    /// Whether the group and the candidate read or write a buffer in common.
    pub(crate) fn shares_buffer(&self, group: &Group) -> bool {
        self.fresh_buffers(group) < self.operands.len()
    }
}

/// The number of reduced dimensions of both, where none of them may reduce any.
fn common(a: usize, b: usize) -> Option<usize> {
    (a == b || a == 0 || b == 0).then_some(a.max(b))
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
    let same_flat = flat
        && a.operand.is_contiguous()
        && b.operand.is_contiguous()
        && a.operand.numel() == b.operand.numel();
    apart || (same_place && (a.walk == b.walk || same_flat))
}

/// Whether steps over two spaces are the same ones: over the same sizes, or, where all operands lie in order,
/// as many.
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
            reduced: candidate.recipe.reduced,
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
        self.reduced = self.reduced.max(candidate.recipe.reduced);
        let over_rows = candidate.is_over_rows(&self.sizes, self.reduced);
        self.flat &= candidate.flat && self.reduced == 0;
        self.uniform &= candidate.sizes == self.sizes || over_rows;
        self.steps += candidate.recipe.steps.len();
        for (operand, _) in &candidate.operands {
            self.note_buffer(operand.buffer);
        }
        let own = candidate.accesses(&self.sizes, self.reduced);
        let own = own.or_else(|| candidate.accesses(&candidate.sizes, 0));
        self.accesses.extend(own.into_iter().flatten());
        let Candidate { node, recipe, .. } = candidate;
        self.members.push(Member { node, recipe, over_rows });
    }

    fn note_buffer(&mut self, buffer: BufferId) {
        if !self.buffers.contains(&buffer) {
            self.buffers.push(buffer);
        }
    }

    /// Whether all nodes of two groups can run together.
    pub(crate) fn fits(&self, other: &Group) -> bool {
        let Some(reduced) = common(self.reduced, other.reduced) else { return false };
        let flat = self.flat && other.flat && reduced == 0;
        let uniform = self.uniform && other.uniform;
        let agree_all =
            || self.accesses.iter().all(|a| other.accesses.iter().all(|b| agree(a, b, flat)));
        is_same_space(flat, uniform, &self.sizes, &other.sizes)
            && self.steps + other.steps <= MOST_STEPS
            && self.buffers.len() + other.buffers.len() <= MOST_BUFFERS
            && agree_all()
    }

    /// Takes all nodes of another group that [fits](Self::fits).
    pub(crate) fn merge(&mut self, other: Group) {
        self.reduced = self.reduced.max(other.reduced);
        self.flat &= other.flat && self.reduced == 0;
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
