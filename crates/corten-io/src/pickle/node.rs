//! The objects of a pickle while it is read: they refer to each other, and may come up more than once.

use crate::value::{Object, Value};
use corten_core::{Result, bail, ensure};

/// An object of a pickle.
pub type NodeId = usize;

/// What an object of a pickle is.
#[derive(Clone, Debug)]
pub enum Node {
    /// A value without parts that could still change.
    Value(Value),
    /// A tuple.
    Tuple(Vec<NodeId>),
    /// A list, which may still grow.
    List(Vec<NodeId>),
    /// A set, which may still grow.
    Set(Vec<NodeId>),
    /// A dictionary, which may still grow.
    Dict(Vec<(NodeId, NodeId)>),
    /// A function or a class, by module and name.
    Global(String),
    /// A storage of the file, by the number that the host gave it.
    Storage(usize),
    /// An object of an unknown class: the class and its parts.
    Object(String, Vec<NodeId>),
}

impl Node {
    /// The memory of the object without its parts, in parts of about the size of a value.
    pub(super) fn cost(&self) -> usize {
        match self {
            Self::Value(Value::Text(text)) | Self::Global(text) => 1 + text.len() / 16,
            Self::Value(Value::Bytes(bytes) | Value::BigInt(bytes)) => 1 + bytes.len() / 16,
            Self::Value(Value::Size(sizes)) => 1 + sizes.len(),
            Self::Tuple(ids) | Self::List(ids) | Self::Set(ids) | Self::Object(_, ids) => {
                1 + ids.len()
            }
            Self::Dict(pairs) => 1 + 2 * pairs.len(),
            Self::Value(_) | Self::Storage(_) => 1,
        }
    }
}

/// How deep values are nested at most.
const DEEPEST: usize = 500;

/// The objects of a pickle.
#[derive(Default)]
pub struct Arena {
    nodes: Vec<Node>,
}

impl Arena {
    /// Adds an object.
    pub fn add(&mut self, node: Node) -> NodeId {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    /// An object.
    pub fn get(&self, id: NodeId) -> &Node {
        &self.nodes[id]
    }

    /// An object, to be changed.
    pub fn get_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id]
    }

    /// The value of an object with all its parts.
    ///
    /// A part that comes up more than once is copied; what a small pickle could grow to that way is bounded by
    /// `budget`, the most parts in all.
    ///
    /// # Errors
    /// `Runtime` for an object within itself, for values nested too deeply, and beyond the budget.
    pub fn value(&self, id: NodeId, budget: &mut usize) -> Result<Value> {
        self.value_at(id, budget, 0)
    }

    fn value_at(&self, id: NodeId, budget: &mut usize, depth: usize) -> Result<Value> {
        ensure!(
            depth < DEEPEST,
            Runtime,
            "a value of the pickle is nested more than {DEEPEST} deep, or within itself"
        );
        // Texts and bytes count by their length, so that no copies of a long one are made without end.
        let cost = match self.get(id) {
            node @ (Node::Value(_) | Node::Global(_)) => node.cost(),
            Node::Object(class, _) => 1 + class.len() / 16,
            _ => 1,
        };
        let Some(left) = budget.checked_sub(cost) else {
            bail!(Runtime, "the pickle describes more values than its size allows");
        };
        *budget = left;
        let mut all = |ids: &[NodeId]| -> Result<Vec<Value>> {
            ids.iter().map(|&id| self.value_at(id, budget, depth + 1)).collect()
        };
        Ok(match self.get(id) {
            Node::Value(value) => value.clone(),
            Node::Tuple(ids) => Value::Tuple(all(ids)?),
            Node::List(ids) => Value::List(all(ids)?),
            Node::Set(ids) => Value::Set(all(ids)?),
            Node::Dict(pairs) => {
                let pairs = pairs.iter().map(|&(key, value)| {
                    let key = self.value_at(key, budget, depth + 1)?;
                    Ok((key, self.value_at(value, budget, depth + 1)?))
                });
                Value::Dict(pairs.collect::<Result<_>>()?)
            }
            Node::Global(name) => {
                Value::Object(Box::new(Object { class: name.clone(), parts: Vec::new() }))
            }
            Node::Object(class, ids) => {
                Value::Object(Box::new(Object { class: class.clone(), parts: all(ids)? }))
            }
            Node::Storage(_) => bail!(Runtime, "a storage that is no tensor's is not read"),
        })
    }
}
