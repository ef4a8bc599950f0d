//! From the registry to Rust text.

mod autograd;
mod cpu;
mod cuda;
mod ops;
mod signatures;

pub use autograd::autograd;
pub use cpu::cpu;
pub use cuda::{CudaParts, cuda};
pub use ops::ops;

use crate::registry::{Mistake, Op};
use crate::rust::{Base, Shape, Ty};
use crate::schema::{Type, Value};
use std::fmt::Write;

/// Where in the generated file a piece stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub enum Section {
    /// `mod op` of corten-ops: statics and functions.
    Op,
    /// `mod build` of corten-ops: calls with optional arguments by name.
    Builder,
    /// `mod stubs` of corten-ops.
    Stubs,
    /// `mod kernel` of corten-ops: what an operator does on every backend.
    Kernel,
    /// Methods of `Tensor`.
    Method,
    /// `mod pointwise` of corten-cpu.
    Pointwise,
    /// Statements of `register`.
    Register,
    /// Free functions and statics of corten-autograd.
    Autograd,
}

/// What is generated for one operator at one place.
#[derive(Clone, Debug)]
pub struct Piece {
    /// The place.
    pub place: Section,
    /// The items or statements.
    pub code: String,
}

/// The text of one crate's file and what is wrong with the declarations that are not in it.
#[derive(Debug)]
pub struct Generated {
    /// The text.
    pub text: String,
    /// The mistakes.
    pub mistakes: Vec<Mistake>,
}

/// The text of one crate's generated file, in pieces.
#[derive(Debug, Default)]
struct Output {
    /// The pieces, with the operator each belongs to.
    pieces: Vec<(String, Piece)>,
    mistakes: Vec<Mistake>,
}

impl Output {
    fn add(&mut self, op: &Op, result: Result<Vec<Piece>, String>) {
        match result {
            Ok(pieces) => {
                let title = format!("{}  {}", op.location, op.schema);
                self.pieces.extend(pieces.into_iter().map(|piece| (title.clone(), piece)));
            }
            Err(message) => self.mistakes.push(op.mistake(message)),
        }
    }

    /// The formatted items of a place, each operator's preceded by its declaration.
    fn items(&self, place: Section) -> String {
        let mut text = String::new();
        let mut before = "";
        for (title, piece) in self.pieces.iter().filter(|(_, piece)| piece.place == place) {
            if title != before {
                let _ = writeln!(text, "\n// {title}");
                before = title;
            }
            text.push_str(&formatted(&piece.code));
        }
        text
    }

    fn register(&self, head: &str, tail: &str) -> String {
        let lines = self.pieces.iter().filter(|(_, piece)| piece.place == Section::Register);
        let lines: Vec<&str> = lines.map(|(_, piece)| piece.code.as_str()).collect();
        formatted(&format!("{head} {{ {} {tail} }}", lines.join("\n")))
    }

    fn finish(self, text: String) -> Generated {
        Generated { text, mistakes: self.mistakes }
    }
}

/// Everything that is generated for the operators of a name, for people to read.
///
/// # Errors
/// Mistakes in the registry.
pub fn show(sources: &crate::Sources, name: &str) -> Result<String, Vec<Mistake>> {
    let wanted =
        |op: &Op| op.forms().any(|(_, schema)| schema.full_name() == name || schema.name == name);
    let mut text = String::new();
    for op in sources.registry.ops.iter().filter(|op| wanted(op)) {
        let _ = writeln!(text, "// {}  {}", op.location, op.schema);
        let parts = [
            ("corten-ops", ops::operator(&sources.registry, op)),
            ("corten-cpu", cpu::operator(op, &sources.vocabulary)),
            ("corten-autograd", autograd::operator(sources, op)),
        ];
        for (name, pieces) in parts {
            let _ = writeln!(text, "\n// ---- {name}");
            for piece in pieces.map_err(|message| vec![op.mistake(message)])? {
                text.push_str(&match piece.place {
                    Section::Register => {
                        let statements = piece.code.replace(";op::", ";\n// register: op::");
                        format!("// register: {statements}\n")
                    }
                    Section::Method => formatted(&format!("impl Tensor {{ {} }}", piece.code)),
                    _ => formatted(&piece.code),
                });
            }
        }
        text.push('\n');
    }
    Ok(text)
}

/// Formats items. Text that does not parse is kept as it is: the compiler's message about it says
/// more than ours could.
pub(crate) fn formatted(code: &str) -> String {
    match syn::parse_file(code) {
        Ok(file) => prettyplease::unparse(&file),
        Err(_) => format!("{code}\n"),
    }
}

fn indented(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        if !line.is_empty() {
            out.push_str("    ");
            out.push_str(line);
        }
        out.push('\n');
    }
    out
}

const HEADER: &str = "// Written by corten-codegen from ops/*.toml. `cargo xtask show <operator>` prints one operator.\n";

/// The Rust expression of a default value, as an argument of the type.
///
/// # Errors
/// When the value does not fit the type.
pub(crate) fn default_value(value: &Value, declared: &Type) -> Result<String, String> {
    let ty = Ty::of(declared)?;
    let no = || Err(format!("no Rust value for the default `{value}` of `{declared}`"));
    if *value == Value::None {
        let optional = matches!(ty.shape, Shape::Optional | Shape::OptionalList);
        return if optional { Ok("None".to_owned()) } else { no() };
    }
    let one = |value: &Value| one_value(value, ty.base).map_or_else(no, Ok);
    let list = || {
        let values = match (value, sized(declared)) {
            (Value::List(values), _) => values.clone(),
            (single, Some(size)) => vec![single.clone(); size],
            _ => return no(),
        };
        let texts: Vec<String> = values.iter().map(one).collect::<Result<_, _>>()?;
        Ok(format!("&[{}]", texts.join(", ")))
    };
    match ty.shape {
        Shape::One => one(value),
        Shape::Optional => Ok(format!("Some({})", one(value)?)),
        Shape::List => list(),
        Shape::OptionalList => Ok(format!("Some({})", list()?)),
        Shape::ListOfOptional => no(),
    }
}

fn sized(ty: &Type) -> Option<usize> {
    match ty.bare() {
        Type::List(_, size) => *size,
        Type::Optional(inner) => sized(inner),
        _ => None,
    }
}

fn one_value(value: &Value, base: Base) -> Option<String> {
    let number = match value {
        Value::Name(name) => Value::enumerator(name).map(Value::Int)?,
        other => other.clone(),
    };
    let float = |text: &str| {
        text.parse::<f64>().ok().map(|value| match value {
            v if v == f64::INFINITY => "f64::INFINITY".to_owned(),
            v if v == f64::NEG_INFINITY => "f64::NEG_INFINITY".to_owned(),
            v => format!("{v:?}"),
        })
    };
    Some(match (number, base) {
        (Value::Int(v), Base::Int) => v.to_string(),
        (Value::Int(v), Base::Float) => format!("{:?}", v as f64),
        (Value::Int(v), Base::Scalar) => format!("Scalar::Int({v})"),
        (Value::Float(text), Base::Float) => float(&text)?,
        (Value::Float(text), Base::Scalar) => format!("Scalar::Float({})", float(&text)?),
        (Value::Bool(v), Base::Bool) => v.to_string(),
        (Value::Bool(v), Base::Scalar) => format!("Scalar::Bool({v})"),
        (Value::Int(0), Base::MemoryFormat) => "MemoryFormat::Contiguous".to_owned(),
        (Value::Int(1), Base::MemoryFormat) => "MemoryFormat::Preserve".to_owned(),
        (Value::Int(2), Base::MemoryFormat) => "MemoryFormat::ChannelsLast".to_owned(),
        (Value::Int(3), Base::MemoryFormat) => "MemoryFormat::ChannelsLast3d".to_owned(),
        (Value::Int(0), Base::Layout) => "Layout::Strided".to_owned(),
        (Value::Int(4), Base::DType) => "DType::Int64".to_owned(),
        (Value::Str(text), Base::Str) => format!("\"{}\"", &text[1..text.len() - 1]),
        _ => return None,
    })
}
