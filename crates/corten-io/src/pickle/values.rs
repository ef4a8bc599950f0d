//! Pickles into nodes, with the help of a host.

use super::machine::{Fault, Literal, Machine, Objects};
use super::node::{Arena, Node, NodeId};
use super::source::Slice;
use crate::value::Value;
use corten_core::{Error, Result, bail, ensure, err};

/// What a pickle refers to outside of itself.
pub trait Host {
    /// A function or class by module and name; what it stands for if it is a value such as a dtype.
    ///
    /// # Errors
    /// `Runtime` for names that are not allowed.
    fn global(&mut self, module: &str, name: &str) -> Result<Node>;

    /// What calling a function or class gives.
    ///
    /// # Errors
    /// `Runtime` where it may not be called, or not with these arguments.
    fn call(&mut self, arena: &mut Arena, function: &str, arguments: &[NodeId]) -> Result<Node>;

    /// What a persistent id stands for.
    ///
    /// # Errors
    /// `Runtime` for ids of another form.
    fn persistent(&mut self, arena: &Arena, id: NodeId) -> Result<Node>;
}

/// The work of calls per byte of a pickle, and that of the smallest.
const WORK_PER_BYTE: usize = 8;
const LEAST_WORK: usize = 1 << 16;

/// Objects cost a hundred times a byte.
const MOST_OBJECTS: usize = 1 << 26;

/// The nodes of the pickle that begins at a position, its root, and the position behind it.
///
/// # Errors
/// `Runtime` where the pickle ends early, makes no sense, or asks for what the host does not allow.
pub fn read(bytes: &[u8], at: usize, host: &mut impl Host) -> Result<(Arena, NodeId, usize)> {
    let work = bytes.len().saturating_sub(at).saturating_mul(WORK_PER_BYTE) + LEAST_WORK;
    let mut nodes = Nodes { arena: Arena::default(), count: 0, host, work };
    let mut source = Slice::new(bytes, at);
    let root = Machine::new(&mut source, &mut nodes).run()?;
    Ok((nodes.arena, root, source.position()))
}

struct Nodes<'h, H> {
    arena: Arena,
    count: usize,
    host: &'h mut H,
    /// What calls may still read and make, in parts of values: a small pickle may call with one large value often.
    work: usize,
}

impl<H: Host> Nodes<'_, H> {
    fn made(&mut self, node: Node) -> Result<NodeId> {
        self.count += 1;
        ensure!(self.count < MOST_OBJECTS, Runtime, "a pickle of more than {MOST_OBJECTS} objects");
        Ok(self.arena.add(node))
    }

    fn charge(&mut self, cost: usize) -> Result<()> {
        let left = self.work.checked_sub(cost);
        self.work = left.ok_or_else(|| {
            err!(Runtime, "the calls of the pickle are more than its size allows")
        })?;
        Ok(())
    }

    fn call_with(&mut self, function: NodeId, arguments: &[NodeId]) -> Result<NodeId> {
        let name = match self.arena.get(function) {
            Node::Global(name) => name.clone(),
            _ => bail!(Runtime, "the pickle calls what is no function"),
        };
        let read = |&id: &NodeId| self.arena.get(id).cost();
        self.charge(arguments.iter().map(read).sum::<usize>() + arguments.len())?;
        let node = self.host.call(&mut self.arena, &name, arguments)?;
        self.charge(node.cost())?;
        self.made(node)
    }

    fn arguments(&self, tuple: NodeId) -> Result<Vec<NodeId>> {
        match self.arena.get(tuple) {
            Node::Tuple(arguments) => Ok(arguments.clone()),
            _ => bail!(Runtime, "arguments are saved as a tuple"),
        }
    }

    fn cannot_add<T>() -> Result<T> {
        bail!(Runtime, "the pickle adds to what cannot be added to")
    }
}

impl<H: Host> Objects for Nodes<'_, H> {
    type Object = NodeId;
    type Error = Error;

    fn fault(fault: Fault) -> Error {
        err!(Runtime, "{fault}")
    }

    fn literal(&mut self, literal: Literal<'_>) -> Result<NodeId> {
        let value = match literal {
            Literal::None => Value::None,
            Literal::Bool(value) => Value::Bool(value),
            Literal::Int(value) => Value::Int(value),
            Literal::BigInt(bytes) => Value::BigInt(bytes.to_vec()),
            Literal::Float(value) => Value::Float(value),
            // Strings of Python 2 are text where they are text.
            Literal::Text(bytes) | Literal::String(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => Value::Text(text.to_owned()),
                Err(_) => Value::Bytes(bytes.to_vec()),
            },
            Literal::Bytes(bytes) => Value::Bytes(bytes.to_vec()),
        };
        self.made(Node::Value(value))
    }

    fn tuple(&mut self, items: Vec<NodeId>) -> Result<NodeId> {
        self.made(Node::Tuple(items))
    }

    fn list(&mut self, items: Vec<NodeId>) -> Result<NodeId> {
        self.made(Node::List(items))
    }

    fn set(&mut self, items: Vec<NodeId>) -> Result<NodeId> {
        self.made(Node::Set(items))
    }

    fn dict(&mut self) -> Result<NodeId> {
        self.made(Node::Dict(Vec::new()))
    }

    fn global(&mut self, module: &str, name: &str) -> Result<NodeId> {
        let node = self.host.global(module, name)?;
        self.charge(node.cost())?;
        self.made(node)
    }

    fn call(&mut self, function: NodeId, arguments: NodeId) -> Result<NodeId> {
        let arguments = self.arguments(arguments)?;
        self.call_with(function, &arguments)
    }

    fn create(&mut self, class: NodeId, arguments: NodeId) -> Result<NodeId> {
        self.call(class, arguments)
    }

    /// Attributes: those of dictionaries and parameters are left out, others are kept with unknown objects.
    fn build(&mut self, target: &NodeId, state: NodeId) -> Result<()> {
        match self.arena.get_mut(*target) {
            Node::Object(_, parts) => parts.push(state),
            Node::Dict(_) | Node::Value(Value::Tensor(_)) => {}
            _ => {
                bail!(Runtime, "Can only build Tensor, Parameter, OrderedDict or types allowlisted")
            }
        }
        Ok(())
    }

    fn append(&mut self, target: &NodeId, items: Vec<NodeId>) -> Result<()> {
        match self.arena.get_mut(*target) {
            Node::List(parts) | Node::Object(_, parts) => parts.extend(items),
            _ => Self::cannot_add()?,
        }
        Ok(())
    }

    fn set_items(&mut self, target: &NodeId, items: Vec<NodeId>) -> Result<()> {
        ensure!(items.len().is_multiple_of(2), Runtime, "a key of a dictionary has no value");
        match self.arena.get_mut(*target) {
            Node::Dict(pairs) => {
                pairs.extend(items.chunks_exact(2).map(|pair| (pair[0], pair[1])));
            }
            Node::Object(_, parts) => parts.extend(items),
            _ => Self::cannot_add()?,
        }
        Ok(())
    }

    fn persistent(&mut self, id: NodeId) -> Result<NodeId> {
        let node = self.host.persistent(&self.arena, id)?;
        self.made(node)
    }

    fn add(&mut self, target: &NodeId, items: Vec<NodeId>) -> Result<()> {
        match self.arena.get_mut(*target) {
            Node::Set(parts) | Node::Object(_, parts) => parts.extend(items),
            _ => Self::cannot_add()?,
        }
        Ok(())
    }

    fn text(&self, name: &NodeId) -> Result<String> {
        match self.arena.get(*name) {
            Node::Value(Value::Text(text)) => Ok(text.clone()),
            _ => bail!(Runtime, "a name of the pickle is no text"),
        }
    }

    /// Names of arguments go to the end of the others.
    fn create_named(&mut self, class: NodeId, tuple: NodeId, named: NodeId) -> Result<NodeId> {
        let mut arguments = self.arguments(tuple)?;
        arguments.push(named);
        self.call_with(class, &arguments)
    }
}
