//! The state of one backward pass.

use super::buffer::InputBuffer;
use super::streams::Order;
use crate::node::{Edge, Grads, Node, NodeRef};
use corten_core::{Result, bail};
use corten_ops::Tensor;
use smallvec::SmallVec;
use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

/// Where the gradient that enters a node is handed out.
#[derive(Clone, Copy)]
pub(super) struct Capture {
    pub(super) nr: u32,
    pub(super) output: usize,
}

/// What a pass knows of one node.
#[derive(Default)]
pub(super) struct NodeState {
    pub(super) dependencies: u32,
    pub(super) buffer: Option<InputBuffer>,
    /// The function runs (always, unless the pass is restricted to some inputs).
    pub(super) needed: bool,
    pub(super) captures: SmallVec<[Capture; 1]>,
}

impl NodeState {
    fn should_execute(&self) -> bool {
        self.needed || !self.captures.is_empty()
    }
}

/// Addresses are their own hash, but for the bits that alignment makes equal.
#[derive(Default)]
pub(super) struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_usize(usize::from(byte));
        }
    }

    fn write_usize(&mut self, address: usize) {
        let mixed = (self.0 ^ address as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

type Address = usize;
pub(super) type NodeMap<V> = HashMap<Address, V, BuildHasherDefault<AddressHasher>>;

/// A node whose gradients are complete.
struct Ready {
    node: NodeRef,
    grads: Grads,
    order: u64,
}

impl Ready {
    /// Later recorded first; then first ready first.
    fn key(&self) -> (u64, std::cmp::Reverse<u64>) {
        (self.node.sequence_nr(), std::cmp::Reverse(self.order))
    }
}

impl PartialEq for Ready {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Ready {}

impl PartialOrd for Ready {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ready {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

/// One backward pass.
pub(super) struct GraphTask {
    pub(super) keep_graph: bool,
    pub(super) grad_mode: bool,
    /// Whether only some inputs are asked for.
    pub(super) restricted: bool,
    pub(super) nodes: NodeMap<NodeState>,
    queue: BinaryHeap<Ready>,
    pushed: u64,
    pub(super) captured: Vec<Tensor>,
    pub(super) order: Order,
}

/// Nodes whose longest way to a leaf is shorter than that of every requested input cannot lead
/// to one.
pub(super) fn min_topological_nr(outputs: &[Edge]) -> u64 {
    let numbers = outputs.iter().filter_map(|edge| edge.node.as_ref());
    numbers.map(|node| node.topological_nr()).min().unwrap_or(0)
}

impl GraphTask {
    pub(super) fn new(keep_graph: bool, create_graph: bool) -> Self {
        Self {
            keep_graph,
            grad_mode: create_graph,
            restricted: false,
            nodes: NodeMap::default(),
            queue: BinaryHeap::new(),
            pushed: 0,
            captured: Vec::new(),
            order: Order::new(),
        }
    }

    /// Counts the edges that lead into every node that the root reaches.
    pub(super) fn compute_dependencies(&mut self, root: &NodeRef, min_topological_nr: u64) {
        self.nodes.insert(root.address(), NodeState::default());
        let mut stack: Vec<&Node> = vec![root];
        while let Some(node) = stack.pop() {
            if node.topological_nr() < min_topological_nr {
                continue;
            }
            for next in node.next_edges().iter().filter_map(|edge| edge.node.as_ref()) {
                let state = self.nodes.entry(next.address()).or_insert_with(|| {
                    stack.push(next);
                    NodeState::default()
                });
                state.dependencies += 1;
            }
        }
    }

    /// Marks the nodes on the ways from the root to the requested inputs.
    pub(super) fn init_to_execute(
        &mut self,
        root: &NodeRef,
        outputs: &[Edge],
        accumulate: bool,
        min_topological_nr: u64,
    ) -> Result<()> {
        self.restricted = true;
        for (output, edge) in outputs.iter().enumerate() {
            let Some(node) = &edge.node else {
                bail!(Runtime, "One of the differentiated Tensors does not require grad");
            };
            let state = self.nodes.entry(node.address()).or_default();
            if accumulate {
                state.needed = true;
            } else {
                state.captures.push(Capture { nr: edge.nr, output });
            }
        }
        if !accumulate {
            self.captured.resize_with(outputs.len(), Tensor::undefined);
        }
        self.mark_needed(root, min_topological_nr);
        Ok(())
    }

    /// A node is needed if a node behind it executes: a post-order walk with its own stack.
    fn mark_needed(&mut self, root: &NodeRef, min_topological_nr: u64) {
        let mut seen: NodeMap<()> = NodeMap::default();
        let mut stack: Vec<(&NodeRef, usize)> = vec![(root, 0)];
        seen.insert(root.address(), ());
        while let Some((node, next_edge)) = stack.pop() {
            let edges = node.next_edges();
            let reaches = node.topological_nr() >= min_topological_nr;
            if reaches && next_edge < edges.len() {
                stack.push((node, next_edge + 1));
                if let Some(next) = &edges[next_edge].node
                    && seen.insert(next.address(), ()).is_none()
                {
                    stack.push((next, 0));
                }
                continue;
            }
            let behind = edges.iter().filter_map(|edge| edge.node.as_ref());
            let needed = reaches && behind.into_iter().any(|next| self.should_execute(next));
            if needed {
                self.nodes.entry(node.address()).or_default().needed = true;
            }
        }
    }

    /// Whether a node runs or is captured in this pass.
    pub(super) fn should_execute(&self, node: &NodeRef) -> bool {
        !self.restricted || self.nodes.get(&node.address()).is_some_and(NodeState::should_execute)
    }

    pub(super) fn start(&mut self, root: NodeRef, grads: Grads) -> Result<()> {
        for grad in &grads {
            self.order.hand_over(&root, grad)?;
        }
        self.push(root, grads);
        Ok(())
    }

    fn push(&mut self, node: NodeRef, grads: Grads) {
        let order = self.pushed;
        self.pushed += 1;
        self.queue.push(Ready { node, grads, order });
    }

    pub(super) fn pop(&mut self) -> Option<(NodeRef, Grads)> {
        self.queue.pop().map(|ready| (ready.node, ready.grads))
    }

    /// Hands a gradient on along an edge; the node behind it may become ready.
    pub(super) fn deliver(&mut self, edge: &Edge, grad: Tensor) -> Result<()> {
        let Some(node) = &edge.node else { return Ok(()) };
        let restricted = self.restricted;
        let Some(state) = self.nodes.get_mut(&node.address()).filter(|s| s.dependencies > 0) else {
            bail!(Internal, "dependency not found for {}", node.name());
        };
        state.dependencies -= 1;
        if restricted && !state.should_execute() {
            return Ok(());
        }
        self.order.hand_over(node, &grad)?;
        let ready = state.dependencies == 0;
        // Sums are computed in the stream that all parts have been ordered with.
        let summed = state.buffer.is_some();
        let _stream = if summed { self.order.enter(node)? } else { None };
        let buffer = state.buffer.get_or_insert_with(|| InputBuffer::new(node.num_inputs()));
        buffer.add(edge.nr, grad)?;
        if ready && let Some(buffer) = state.buffer.take() {
            self.push(node.clone(), buffer.0);
        }
        Ok(())
    }

    pub(super) fn into_captured(self) -> Vec<Tensor> {
        self.captured
    }
}
