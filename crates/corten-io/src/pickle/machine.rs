//! The machine of pickles: a stack, marks, a memo.

use super::source::Source;
use std::collections::HashMap;
use std::fmt;

/// What is wrong with a pickle, whatever its objects are.
///
/// ```
/// use corten::io::pickle::Fault;
///
/// let fault = Fault::Invalid("the pickle has no mark".into());
/// assert_eq!(fault.to_string(), "the pickle has no mark");
/// ```
#[derive(Clone, Debug)]
pub enum Fault {
    /// It ends before its object does.
    EndOfInput(&'static str),
    /// It makes no sense.
    Invalid(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EndOfInput(text) => formatter.write_str(text),
            Self::Invalid(text) => formatter.write_str(text),
        }
    }
}

/// A value that a pickle spells out.
///
/// ```
/// use corten::io::pickle::Literal;
///
/// assert!(matches!(Literal::Text(b"weight"), Literal::Text(text) if text.starts_with(b"w")));
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Literal<'a> {
    /// `None`.
    None,
    /// A truth value.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A whole number beyond 64 bits: two's complement, little-endian.
    BigInt(&'a [u8]),
    /// A number.
    Float(f64),
    /// Text in UTF-8, if the pickle is right; surrogates may be encoded, too.
    Text(&'a [u8]),
    /// A string of Python 2, of any encoding.
    String(&'a [u8]),
    /// Bytes.
    Bytes(&'a [u8]),
}

/// The objects that a pickle makes: what the opcodes of the machine mean.
///
/// The last ones are of protocols that not everybody reads; they are refused unless they are defined.
pub trait Objects {
    /// An object.
    type Object: Clone;
    /// What making objects fails with.
    type Error;

    /// The error for a pickle that is wrong whatever its objects are.
    fn fault(fault: Fault) -> Self::Error;

    /// Whether an opcode is understood.
    fn accepts(&self, opcode: u8) -> bool {
        let _ = opcode;
        true
    }

    /// A value.
    ///
    /// # Errors
    /// It cannot be made, as every object below.
    fn literal(&mut self, literal: Literal<'_>) -> Result<Self::Object, Self::Error>;
    /// A tuple.
    ///
    /// # Errors
    /// As above.
    fn tuple(&mut self, items: Vec<Self::Object>) -> Result<Self::Object, Self::Error>;
    /// A list.
    ///
    /// # Errors
    /// As above.
    fn list(&mut self, items: Vec<Self::Object>) -> Result<Self::Object, Self::Error>;
    /// A set.
    ///
    /// # Errors
    /// As above.
    fn set(&mut self, items: Vec<Self::Object>) -> Result<Self::Object, Self::Error>;
    /// An empty dictionary.
    ///
    /// # Errors
    /// As above.
    fn dict(&mut self) -> Result<Self::Object, Self::Error>;
    /// A function or class by module and name.
    ///
    /// # Errors
    /// It is not allowed.
    fn global(&mut self, module: &str, name: &str) -> Result<Self::Object, Self::Error>;
    /// What calling a function with a tuple gives.
    ///
    /// # Errors
    /// It may not be called, or not so.
    fn call(
        &mut self,
        function: Self::Object,
        arguments: Self::Object,
    ) -> Result<Self::Object, Self::Error>;
    /// An object of a class, not initialised, of a tuple of arguments.
    ///
    /// # Errors
    /// As for calls.
    fn create(
        &mut self,
        class: Self::Object,
        arguments: Self::Object,
    ) -> Result<Self::Object, Self::Error>;
    /// Gives an object its attributes.
    ///
    /// # Errors
    /// It can have none.
    fn build(&mut self, target: &Self::Object, state: Self::Object) -> Result<(), Self::Error>;
    /// Adds to the end of a list.
    ///
    /// # Errors
    /// It is no list.
    fn append(
        &mut self,
        target: &Self::Object,
        items: Vec<Self::Object>,
    ) -> Result<(), Self::Error>;
    /// Adds to a dictionary: keys and values in turns.
    ///
    /// # Errors
    /// It is no dictionary, or a value is missing.
    fn set_items(
        &mut self,
        target: &Self::Object,
        items: Vec<Self::Object>,
    ) -> Result<(), Self::Error>;
    /// What a persistent id stands for.
    ///
    /// # Errors
    /// It has another form.
    fn persistent(&mut self, id: Self::Object) -> Result<Self::Object, Self::Error>;

    /// Adds to a set.
    ///
    /// # Errors
    /// It is no set.
    fn add(&mut self, target: &Self::Object, items: Vec<Self::Object>) -> Result<(), Self::Error> {
        let _ = (target, items);
        Err(unsupported::<Self>())
    }
    /// The text of a module's or function's name.
    ///
    /// # Errors
    /// It is no text.
    fn text(&self, name: &Self::Object) -> Result<String, Self::Error> {
        let _ = name;
        Err(unsupported::<Self>())
    }
    /// As [`create`](Self::create), with arguments by name.
    ///
    /// # Errors
    /// As for calls.
    fn create_named(
        &mut self,
        class: Self::Object,
        arguments: Self::Object,
        named: Self::Object,
    ) -> Result<Self::Object, Self::Error> {
        let _ = (class, arguments, named);
        Err(unsupported::<Self>())
    }
}

fn unsupported<O: Objects + ?Sized>() -> O::Error {
    O::fault(Fault::Invalid("an opcode of the pickle is not supported".to_owned()))
}

fn invalid<O: Objects>(what: impl Into<String>) -> O::Error {
    O::fault(Fault::Invalid(what.into()))
}

/// The error at the end of a pickle that goes on.
const TRUNCATED: Fault = Fault::EndOfInput("Ran out of input: pickle data was truncated");

/// Reads pickles from a source into objects.
///
/// [`read`](super::read) makes values; programs with objects of their own implement [`Objects`].
///
/// ```
/// use corten::io::pickle::{Fault, Literal, Machine, Objects, Slice};
///
/// /// Counts the numbers of a pickle.
/// #[derive(Default)]
/// struct Count(usize);
///
/// impl Objects for Count {
///     type Object = ();
///     type Error = Fault;
///     fn fault(fault: Fault) -> Fault { fault }
///     fn literal(&mut self, literal: Literal<'_>) -> Result<(), Fault> {
///         self.0 += usize::from(matches!(literal, Literal::Int(_) | Literal::Float(_)));
///         Ok(())
///     }
///     fn tuple(&mut self, _: Vec<()>) -> Result<(), Fault> { Ok(()) }
///     fn list(&mut self, _: Vec<()>) -> Result<(), Fault> { Ok(()) }
///     fn set(&mut self, _: Vec<()>) -> Result<(), Fault> { Ok(()) }
///     fn dict(&mut self) -> Result<(), Fault> { Ok(()) }
///     fn global(&mut self, _: &str, _: &str) -> Result<(), Fault> { Ok(()) }
///     fn call(&mut self, _: (), _: ()) -> Result<(), Fault> { Ok(()) }
///     fn create(&mut self, _: (), _: ()) -> Result<(), Fault> { Ok(()) }
///     fn build(&mut self, _: &(), _: ()) -> Result<(), Fault> { Ok(()) }
///     fn append(&mut self, _: &(), _: Vec<()>) -> Result<(), Fault> { Ok(()) }
///     fn set_items(&mut self, _: &(), _: Vec<()>) -> Result<(), Fault> { Ok(()) }
///     fn persistent(&mut self, _: ()) -> Result<(), Fault> { Ok(()) }
/// }
///
/// let (mut count, mut source) = (Count::default(), Slice::new(b"\x80\x02](K\x01K\x02e.", 0));
/// Machine::new(&mut source, &mut count).run().unwrap();
/// assert_eq!(count.0, 2);
/// ```
pub struct Machine<'a, S, O: Objects> {
    source: &'a mut S,
    objects: &'a mut O,
    stack: Vec<O::Object>,
    marks: Vec<usize>,
    memo: HashMap<u64, O::Object>,
}

impl<'a, S: Source<O::Error>, O: Objects> Machine<'a, S, O> {
    /// A machine that reads where the source is.
    pub fn new(source: &'a mut S, objects: &'a mut O) -> Self {
        Self { source, objects, stack: Vec::new(), marks: Vec::new(), memo: HashMap::new() }
    }

    /// The object of the pickle; the source is behind it then.
    ///
    /// # Errors
    /// The pickle ends early or makes no sense, or an object cannot be made.
    pub fn run(mut self) -> Result<O::Object, O::Error> {
        loop {
            let mut opcode = [0];
            if self.source.fill(&mut opcode)? == 0 {
                return Err(O::fault(Fault::EndOfInput("Ran out of input")));
            }
            let [opcode] = opcode;
            if opcode == b'.' {
                return self.pop();
            }
            if !self.objects.accepts(opcode) {
                return Err(invalid::<O>(format!("Unsupported operand {opcode}")));
            }
            self.execute(opcode)?;
        }
    }

    fn execute(&mut self, opcode: u8) -> Result<(), O::Error> {
        match opcode {
            b'(' => self.marks.push(self.stack.len()),
            b'0' => match self.stack.len() > self.base() {
                true => drop(self.pop()?),
                false => drop(self.above_mark()?),
            },
            b'1' => drop(self.above_mark()?),
            b'2' => self.stack.push(self.top()?),
            0x80 => self.protocol()?,
            0x95 => drop(self.fixed::<8>()?),
            b'c' | 0x93 | b'i' | b'o' | b'R' | 0x81 | 0x92 => self.find_or_call(opcode)?,
            b'b' => {
                let (state, target) = (self.pop()?, self.top()?);
                self.objects.build(&target, state)?;
            }
            b'Q' => {
                let id = self.pop()?;
                let found = self.objects.persistent(id)?;
                self.stack.push(found);
            }
            b'p' | b'q' | b'r' | 0x94 => self.memoize(opcode)?,
            b'g' | b'h' | b'j' => self.remember(opcode)?,
            b']' | b'l' | b')' | b't' | 0x85..=0x87 | b'}' | b'd' | 0x8f | 0x91 => {
                self.container(opcode)?;
            }
            b'a' | b'e' | b's' | b'u' | 0x90 => self.extend(opcode)?,
            _ => self.literal(opcode)?,
        }
        Ok(())
    }

    fn protocol(&mut self) -> Result<(), O::Error> {
        let [version] = self.fixed()?;
        if version > 5 {
            return Err(invalid::<O>(format!("Unsupported protocol {version}")));
        }
        Ok(())
    }

    // Bytes

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], O::Error> {
        let mut bytes = [0; N];
        if self.source.fill(&mut bytes)? < N {
            return Err(O::fault(TRUNCATED));
        }
        Ok(bytes)
    }

    /// A length of so many bytes.
    fn length(&mut self, width: u8) -> Result<u64, O::Error> {
        Ok(match width {
            1 => u64::from(self.fixed::<1>()?[0]),
            4 => u64::from(u32::from_le_bytes(self.fixed()?)),
            _ => u64::from_le_bytes(self.fixed()?),
        })
    }

    /// Bytes that their length precedes.
    fn counted(&mut self, opcode: u8) -> Result<O::Object, O::Error> {
        let count = match opcode {
            b'U' | b'C' | 0x8c | 0x8a => self.length(1)?,
            b'X' | b'B' => self.length(4)?,
            b'T' | 0x8b => {
                let count = u64::try_from(i32::from_le_bytes(self.fixed()?));
                count.map_err(|_| invalid::<O>("negative length"))?
            }
            _ => self.length(8)?,
        };
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let bytes = self.source.take(count)?;
        if bytes.len() < count {
            return Err(O::fault(TRUNCATED));
        }
        self.objects.literal(match opcode {
            b'X' | 0x8c | 0x8d => Literal::Text(&bytes),
            b'U' | b'T' => Literal::String(&bytes),
            0x8a | 0x8b => integer(&bytes),
            _ => Literal::Bytes(&bytes),
        })
    }

    fn line(&mut self) -> Result<String, O::Error> {
        let line = self.source.line()?;
        let Some((b'\n', text)) = line.split_last() else { return Err(O::fault(TRUNCATED)) };
        let text = std::str::from_utf8(text);
        Ok(text.map_err(|_| invalid::<O>("a line of the pickle is no text"))?.to_owned())
    }

    // Stack

    fn base(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    fn pop(&mut self) -> Result<O::Object, O::Error> {
        let has = self.stack.len() > self.base();
        let popped = if has { self.stack.pop() } else { None };
        popped.ok_or_else(|| invalid::<O>("the stack of the pickle is empty"))
    }

    fn top(&self) -> Result<O::Object, O::Error> {
        let has = self.stack.len() > self.base();
        let top = if has { self.stack.last().cloned() } else { None };
        top.ok_or_else(|| invalid::<O>("the stack of the pickle is empty"))
    }

    fn above_mark(&mut self) -> Result<Vec<O::Object>, O::Error> {
        let mark = self.marks.pop().ok_or_else(|| invalid::<O>("the pickle has no mark"))?;
        Ok(self.stack.split_off(mark))
    }

    // Names and calls

    fn find_or_call(&mut self, opcode: u8) -> Result<(), O::Error> {
        let made = match opcode {
            b'c' => self.named()?,
            0x93 => {
                let (name, module) = (self.pop()?, self.pop()?);
                let (module, name) = (self.objects.text(&module)?, self.objects.text(&name)?);
                self.objects.global(&module, &name)?
            }
            b'i' | b'o' => {
                let named = if opcode == b'i' { Some(self.named()?) } else { None };
                let mut items = self.above_mark()?.into_iter();
                let class = named.or_else(|| items.next());
                let class =
                    class.ok_or_else(|| invalid::<O>("the stack of the pickle is empty"))?;
                let arguments = self.objects.tuple(items.collect())?;
                self.objects.call(class, arguments)?
            }
            0x92 => {
                let (named, arguments, class) = (self.pop()?, self.pop()?, self.pop()?);
                self.objects.create_named(class, arguments, named)?
            }
            _ => {
                let (arguments, function) = (self.pop()?, self.pop()?);
                match opcode {
                    b'R' => self.objects.call(function, arguments)?,
                    _ => self.objects.create(function, arguments)?,
                }
            }
        };
        self.stack.push(made);
        Ok(())
    }

    /// The function or class that two lines name.
    fn named(&mut self) -> Result<O::Object, O::Error> {
        let (module, name) = (self.line()?, self.line()?);
        self.objects.global(&module, &name)
    }

    // Memo

    fn memoize(&mut self, opcode: u8) -> Result<(), O::Error> {
        let key = match opcode {
            b'p' => self.number_line()?,
            b'q' => self.length(1)?,
            b'r' => self.length(4)?,
            _ => self.memo.len() as u64,
        };
        let top = self.top()?;
        self.memo.insert(key, top);
        Ok(())
    }

    fn remember(&mut self, opcode: u8) -> Result<(), O::Error> {
        let key = match opcode {
            b'g' => self.number_line()?,
            b'h' => self.length(1)?,
            _ => self.length(4)?,
        };
        let Some(found) = self.memo.get(&key) else {
            return Err(invalid::<O>(format!("Memo value not found at index {key}")));
        };
        self.stack.push(found.clone());
        Ok(())
    }

    fn number_line(&mut self) -> Result<u64, O::Error> {
        self.line()?.parse().map_err(|_| invalid::<O>("a line of the pickle is no number"))
    }

    // Containers

    fn container(&mut self, opcode: u8) -> Result<(), O::Error> {
        let items = match opcode {
            b'l' | b't' | b'd' | 0x91 => self.above_mark()?,
            0x85..=0x87 => {
                let count = usize::from(opcode - 0x84);
                let start = self.stack.len().checked_sub(count).filter(|&at| at >= self.base());
                let start =
                    start.ok_or_else(|| invalid::<O>("the stack of the pickle is empty"))?;
                self.stack.split_off(start)
            }
            _ => Vec::new(),
        };
        let made = match opcode {
            b']' | b'l' => self.objects.list(items)?,
            b'}' => self.objects.dict()?,
            b'd' => {
                let dict = self.objects.dict()?;
                self.objects.set_items(&dict, items)?;
                dict
            }
            0x8f | 0x91 => self.objects.set(items)?,
            _ => self.objects.tuple(items)?,
        };
        self.stack.push(made);
        Ok(())
    }

    fn extend(&mut self, opcode: u8) -> Result<(), O::Error> {
        let items = match opcode {
            b'a' => vec![self.pop()?],
            b's' => {
                let (value, key) = (self.pop()?, self.pop()?);
                vec![key, value]
            }
            _ => self.above_mark()?,
        };
        let target = self.top()?;
        match opcode {
            b's' | b'u' => self.objects.set_items(&target, items),
            0x90 => self.objects.add(&target, items),
            _ => self.objects.append(&target, items),
        }
    }

    // Literals

    fn literal(&mut self, opcode: u8) -> Result<(), O::Error> {
        let made = match opcode {
            b'X' | 0x8c | 0x8d | b'U' | b'T' | b'C' | b'B' | 0x8e | 0x96 | 0x8a | 0x8b => {
                self.counted(opcode)?
            }
            b'V' | b'S' => {
                let line = self.line()?;
                let text = if opcode == b'S' { line.trim_matches(['\'', '"']) } else { &line };
                self.objects.literal(Literal::Text(text.as_bytes()))?
            }
            _ => {
                let number = self.number(opcode)?;
                self.objects.literal(number)?
            }
        };
        self.stack.push(made);
        Ok(())
    }

    fn number(&mut self, opcode: u8) -> Result<Literal<'static>, O::Error> {
        Ok(match opcode {
            b'N' => Literal::None,
            0x88 => Literal::Bool(true),
            0x89 => Literal::Bool(false),
            b'J' => Literal::Int(i64::from(i32::from_le_bytes(self.fixed()?))),
            b'K' => Literal::Int(i64::from(self.fixed::<1>()?[0])),
            b'M' => Literal::Int(i64::from(u16::from_le_bytes(self.fixed()?))),
            b'G' => Literal::Float(f64::from_be_bytes(self.fixed()?)),
            b'I' | b'L' | b'F' => {
                let line = self.line()?;
                decimal(opcode, &line)
                    .ok_or_else(|| invalid::<O>(format!("no number: {line:.40}")))?
            }
            _ => return Err(invalid::<O>(format!("Unsupported operand {opcode}"))),
        })
    }
}

/// A number that is spelt out.
fn decimal(opcode: u8, line: &str) -> Option<Literal<'static>> {
    match (opcode, line.trim_end_matches('L')) {
        (b'F', text) => text.parse().ok().map(Literal::Float),
        (_, "00") => Some(Literal::Bool(false)),
        (_, "01") => Some(Literal::Bool(true)),
        (_, text) => text.parse().ok().map(Literal::Int),
    }
}

/// A whole number in two's complement, little-endian.
fn integer(bytes: &[u8]) -> Literal<'_> {
    if bytes.len() > 8 {
        return Literal::BigInt(bytes);
    }
    let fill = if bytes.last().is_some_and(|byte| byte & 0x80 != 0) { 0xff } else { 0 };
    let mut wide = [fill; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    Literal::Int(i64::from_le_bytes(wide))
}
