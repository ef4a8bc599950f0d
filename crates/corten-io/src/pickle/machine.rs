//! The machine of pickles: a stack, marks, a memo.

use super::node::{Arena, Node, NodeId};
use crate::value::Value;
use corten_core::{Result, bail, ensure, err};
use std::collections::HashMap;

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

/// Reads one pickle.
pub struct Machine<'a, H> {
    bytes: &'a [u8],
    at: usize,
    host: &'a mut H,
    /// The objects.
    pub arena: Arena,
    stack: Vec<NodeId>,
    marks: Vec<usize>,
    memo: HashMap<u64, NodeId>,
    /// What calls may still read and make, in parts of values: a small pickle may call with one large value often.
    work: usize,
}

/// The work of calls per byte of a pickle, and that of the smallest.
const WORK_PER_BYTE: usize = 8;
const LEAST_WORK: usize = 1 << 16;

/// The most opcodes in a byte of a pickle is one; objects cost a hundred times a byte.
const MOST_OBJECTS: usize = 1 << 26;

impl<'a, H: Host> Machine<'a, H> {
    /// A machine for the bytes from a position on.
    pub fn new(bytes: &'a [u8], at: usize, host: &'a mut H) -> Self {
        let (arena, memo) = (Arena::default(), HashMap::new());
        let work = bytes.len().saturating_sub(at).saturating_mul(WORK_PER_BYTE) + LEAST_WORK;
        Self { bytes, at, host, arena, stack: Vec::new(), marks: Vec::new(), memo, work }
    }

    /// The object of the pickle, and the position behind it.
    ///
    /// # Errors
    /// `Runtime` where the pickle ends early, makes no sense, or asks for what is not allowed.
    pub fn run(&mut self) -> Result<(NodeId, usize)> {
        let mut objects = 0;
        loop {
            objects += 1;
            ensure!(
                objects < MOST_OBJECTS,
                Runtime,
                "a pickle of more than {MOST_OBJECTS} opcodes"
            );
            let opcode = self.byte()?;
            if opcode == b'.' {
                return Ok((self.pop()?, self.at));
            }
            self.execute(opcode)?;
        }
    }

    fn execute(&mut self, opcode: u8) -> Result<()> {
        match opcode {
            b'(' => self.marks.push(self.stack.len()),
            b'0' => match self.stack.len() > self.base() {
                true => drop(self.pop()?),
                false => drop(self.above_mark()?),
            },
            b'1' => drop(self.above_mark()?),
            b'2' => self.stack.push(self.top()?),
            0x80 => self.protocol()?,
            0x95 => drop(self.take(8)?),
            b'c' | 0x93 => self.find(opcode)?,
            b'R' | 0x81 | 0x92 | b'i' | b'o' => self.call(opcode)?,
            b'b' => self.build()?,
            b'Q' => {
                let id = self.pop()?;
                let node = self.host.persistent(&self.arena, id)?;
                self.push(node);
            }
            b'p' | b'q' | b'r' | 0x94 => self.memoize(opcode)?,
            b'g' | b'h' | b'j' => self.remember(opcode)?,
            b']' | b'l' | b')' | b't' | 0x85 | 0x86 | 0x87 | b'}' | b'd' | 0x8f | 0x91 => {
                self.container(opcode)?;
            }
            b'a' | b'e' | b's' | b'u' | 0x90 => self.extend(opcode)?,
            _ => {
                let value = self.literal(opcode)?;
                self.push(Node::Value(value));
            }
        }
        Ok(())
    }

    fn protocol(&mut self) -> Result<()> {
        let version = self.byte()?;
        ensure!(version <= 5, Runtime, "unsupported pickle protocol: {version}");
        Ok(())
    }

    // Bytes

    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let end = self.at.checked_add(count).filter(|&end| end <= self.bytes.len());
        let Some(end) = end else { bail!(Runtime, "Ran out of input: pickle data was truncated") };
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }

    fn unsigned(&mut self, count: usize) -> Result<u64> {
        let mut bytes = [0; 8];
        bytes[..count].copy_from_slice(self.take(count)?);
        Ok(u64::from_le_bytes(bytes))
    }

    fn counted(&mut self, width: usize) -> Result<&'a [u8]> {
        let count = self.unsigned(width)?;
        let count = usize::try_from(count).map_err(|_| err!(Runtime, "a negative length"))?;
        self.take(count)
    }

    fn line(&mut self) -> Result<&'a str> {
        let rest = &self.bytes[self.at..];
        let Some(end) = rest.iter().position(|&byte| byte == b'\n') else {
            bail!(Runtime, "Ran out of input: pickle data was truncated");
        };
        self.at += end + 1;
        std::str::from_utf8(&rest[..end])
            .map_err(|_| err!(Runtime, "a line of the pickle is no text"))
    }

    // Stack

    fn base(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    fn push(&mut self, node: Node) {
        let id = self.arena.add(node);
        self.stack.push(id);
    }

    fn pop(&mut self) -> Result<NodeId> {
        let has = self.stack.len() > self.base();
        let popped = if has { self.stack.pop() } else { None };
        popped.ok_or_else(|| err!(Runtime, "the stack of the pickle is empty"))
    }

    fn top(&self) -> Result<NodeId> {
        let has = self.stack.len() > self.base();
        let top = if has { self.stack.last().copied() } else { None };
        top.ok_or_else(|| err!(Runtime, "the stack of the pickle is empty"))
    }

    fn above_mark(&mut self) -> Result<Vec<NodeId>> {
        let Some(mark) = self.marks.pop() else { bail!(Runtime, "the pickle has no mark") };
        Ok(self.stack.split_off(mark))
    }

    // Names and calls

    fn find(&mut self, opcode: u8) -> Result<()> {
        let (module, name) = if opcode == b'c' {
            (self.line()?.to_owned(), self.line()?.to_owned())
        } else {
            let (name, module) = (self.pop()?, self.pop()?);
            (self.text_of(module)?, self.text_of(name)?)
        };
        let node = self.host.global(&module, &name)?;
        self.charge(node.cost())?;
        self.push(node);
        Ok(())
    }

    fn charge(&mut self, cost: usize) -> Result<()> {
        let left = self.work.checked_sub(cost);
        self.work = left.ok_or_else(|| {
            err!(Runtime, "the calls of the pickle are more than its size allows")
        })?;
        Ok(())
    }

    fn text_of(&self, id: NodeId) -> Result<String> {
        match self.arena.get(id) {
            Node::Value(Value::Text(text)) => Ok(text.clone()),
            _ => bail!(Runtime, "a name of the pickle is no text"),
        }
    }

    fn call(&mut self, opcode: u8) -> Result<()> {
        let (function, arguments): (NodeId, Vec<NodeId>) = match opcode {
            b'i' => {
                let (module, name) = (self.line()?.to_owned(), self.line()?.to_owned());
                let node = self.host.global(&module, &name)?;
                (self.arena.add(node), self.above_mark()?)
            }
            b'o' => {
                let mut items = self.above_mark()?;
                ensure!(!items.is_empty(), Runtime, "the stack of the pickle is empty");
                (items.remove(0), items)
            }
            _ => {
                // Names of arguments go to the end of the others.
                let named = if opcode == 0x92 { Some(self.pop()?) } else { None };
                let (arguments, function) = (self.pop()?, self.pop()?);
                let Node::Tuple(arguments) = self.arena.get(arguments) else {
                    bail!(Runtime, "arguments are saved as a tuple");
                };
                (function, arguments.iter().copied().chain(named).collect())
            }
        };
        let name = match self.arena.get(function) {
            Node::Global(name) => name.clone(),
            _ => bail!(Runtime, "the pickle calls what is no function"),
        };
        let read = |&id: &NodeId| self.arena.get(id).cost();
        self.charge(arguments.iter().map(read).sum::<usize>() + arguments.len())?;
        let node = self.host.call(&mut self.arena, &name, &arguments)?;
        self.charge(node.cost())?;
        self.push(node);
        Ok(())
    }

    /// Attributes: those of dictionaries and parameters are left out, others are kept with unknown objects.
    fn build(&mut self) -> Result<()> {
        let (state, target) = (self.pop()?, self.top()?);
        match self.arena.get_mut(target) {
            Node::Object(_, parts) => parts.push(state),
            Node::Dict(_) | Node::Value(Value::Tensor(_)) => {}
            _ => {
                bail!(Runtime, "Can only build Tensor, Parameter, OrderedDict or types allowlisted")
            }
        }
        Ok(())
    }

    fn memoize(&mut self, opcode: u8) -> Result<()> {
        let key = match opcode {
            b'p' => self.number_line()?,
            b'q' => self.unsigned(1)?,
            b'r' => self.unsigned(4)?,
            _ => self.memo.len() as u64,
        };
        let top = self.top()?;
        self.memo.insert(key, top);
        Ok(())
    }

    fn remember(&mut self, opcode: u8) -> Result<()> {
        let key = match opcode {
            b'g' => self.number_line()?,
            b'h' => self.unsigned(1)?,
            _ => self.unsigned(4)?,
        };
        let Some(&id) = self.memo.get(&key) else {
            bail!(Runtime, "Memo value not found at index {key}");
        };
        self.stack.push(id);
        Ok(())
    }

    fn number_line(&mut self) -> Result<u64> {
        self.line()?.parse().map_err(|_| err!(Runtime, "a line of the pickle is no number"))
    }

    // Containers

    fn container(&mut self, opcode: u8) -> Result<()> {
        let node = match opcode {
            b']' => Node::List(Vec::new()),
            b'l' => Node::List(self.above_mark()?),
            b')' => Node::Tuple(Vec::new()),
            b't' => Node::Tuple(self.above_mark()?),
            0x85..=0x87 => {
                let mut items =
                    (0..opcode - 0x84).map(|_| self.pop()).collect::<Result<Vec<_>>>()?;
                items.reverse();
                Node::Tuple(items)
            }
            b'}' => Node::Dict(Vec::new()),
            b'd' => {
                let items = self.above_mark()?;
                Node::Dict(pairs(&items)?)
            }
            0x8f => Node::Set(Vec::new()),
            _ => Node::Set(self.above_mark()?),
        };
        self.push(node);
        Ok(())
    }

    fn extend(&mut self, opcode: u8) -> Result<()> {
        let items = match opcode {
            b'a' => vec![self.pop()?],
            b's' => {
                let (value, key) = (self.pop()?, self.pop()?);
                vec![key, value]
            }
            _ => self.above_mark()?,
        };
        let target = self.top()?;
        match (self.arena.get_mut(target), opcode) {
            (Node::List(list), b'a' | b'e') => list.extend(items),
            (Node::Set(set), 0x90) => set.extend(items),
            (Node::Dict(dict), b's' | b'u') => dict.extend(pairs(&items)?),
            (Node::Object(_, parts), _) => parts.extend(items),
            _ => bail!(Runtime, "the pickle adds to what cannot be added to"),
        }
        Ok(())
    }

    // Literals

    fn literal(&mut self, opcode: u8) -> Result<Value> {
        Ok(match opcode {
            b'N' => Value::None,
            0x88 => Value::Bool(true),
            0x89 => Value::Bool(false),
            b'J' => Value::Int(i64::from(self.unsigned(4)? as u32 as i32)),
            b'K' => Value::Int(self.unsigned(1)? as i64),
            b'M' => Value::Int(self.unsigned(2)? as i64),
            0x8a => integer(self.counted(1)?),
            0x8b => integer(self.counted(4)?),
            b'I' | b'L' => self.decimal()?,
            b'F' => {
                let text = self.line()?;
                Value::Float(text.parse().map_err(|_| err!(Runtime, "no number: {text:.40}"))?)
            }
            b'G' => Value::Float(f64::from_bits(self.unsigned(8)?.swap_bytes())),
            b'V' => Value::Text(self.line()?.to_owned()),
            b'X' => text(self.counted(4)?),
            0x8c => text(self.counted(1)?),
            0x8d => text(self.counted(8)?),
            b'S' => Value::Text(self.line()?.trim_matches(['\'', '"']).to_owned()),
            // Strings of Python 2: text where they are text.
            b'U' => text(self.counted(1)?),
            b'T' => text(self.counted(4)?),
            b'C' => Value::Bytes(self.counted(1)?.to_vec()),
            b'B' => Value::Bytes(self.counted(4)?.to_vec()),
            0x8e | 0x96 => Value::Bytes(self.counted(8)?.to_vec()),
            _ => bail!(Runtime, "Unsupported operand {opcode}"),
        })
    }

    fn decimal(&mut self) -> Result<Value> {
        let text = self.line()?.trim_end_matches('L');
        match text {
            "00" => Ok(Value::Bool(false)),
            "01" => Ok(Value::Bool(true)),
            _ => text.parse().map(Value::Int).map_err(|_| err!(Runtime, "no number: {text:.40}")),
        }
    }
}

fn pairs(items: &[NodeId]) -> Result<Vec<(NodeId, NodeId)>> {
    ensure!(items.len().is_multiple_of(2), Runtime, "a key of a dictionary has no value");
    Ok(items.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect())
}

fn text(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => Value::Text(text.to_owned()),
        Err(_) => Value::Bytes(bytes.to_vec()),
    }
}

/// A whole number in two's complement, little-endian.
fn integer(bytes: &[u8]) -> Value {
    if bytes.len() > 8 {
        return Value::BigInt(bytes.to_vec());
    }
    let fill = if bytes.last().is_some_and(|byte| byte & 0x80 != 0) { 0xff } else { 0 };
    let mut wide = [fill; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    Value::Int(i64::from_le_bytes(wide))
}
