//! Rust names and types of what schemas declare.

use crate::schema::{Argument, BaseType, Schema, Type};
use std::fmt::Write;

/// A type as generated code sees it: of an argument, of a formula's part or of a result.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub enum Base {
    /// `Tensor`.
    Tensor,
    /// `Scalar`.
    Scalar,
    /// `i64`.
    Int,
    /// `f64`.
    Float,
    /// `bool`.
    Bool,
    /// `str`.
    Str,
    /// `Complex<f64>`.
    Complex,
    /// `DType`.
    DType,
    /// `Layout`.
    Layout,
    /// `Device`.
    Device,
    /// `MemoryFormat`.
    MemoryFormat,
    /// `Generator`.
    Generator,
    /// `Storage`.
    Storage,
    /// `TensorOptions`: of formulas only.
    Options,
    /// `Dims`, a shape: of formulas only.
    Dims,
}

/// How many values of the base type there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub enum Shape {
    /// One.
    One,
    /// One or none.
    Optional,
    /// A list.
    List,
    /// A list or none.
    OptionalList,
    /// A list of values of which some may be absent.
    ListOfOptional,
}

/// The type of an argument or of an expression.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub struct Ty {
    /// The type of one value.
    pub base: Base,
    /// How many values.
    pub shape: Shape,
}

impl Ty {
    /// One value.
    pub const fn one(base: Base) -> Self {
        Self { base, shape: Shape::One }
    }

    /// A list.
    pub const fn list(base: Base) -> Self {
        Self { base, shape: Shape::List }
    }

    /// The type of a schema's argument; an error names what Rust code cannot be written for.
    ///
    /// # Errors
    /// When the type has no counterpart.
    pub fn of(ty: &Type) -> Result<Self, String> {
        let no = || Err(format!("no Rust type for `{ty}`"));
        let (base, shape) = match ty.bare() {
            Type::Base(base) => (base, Shape::One),
            Type::Optional(inner) => match inner.bare() {
                Type::Base(base) => (base, Shape::Optional),
                Type::List(element, _) => match element.bare() {
                    Type::Base(base) => (base, Shape::OptionalList),
                    _ => return no(),
                },
                _ => return no(),
            },
            Type::List(element, _) => match element.bare() {
                Type::Base(base) => (base, Shape::List),
                Type::Optional(inner) => match inner.bare() {
                    Type::Base(base) => (base, Shape::ListOfOptional),
                    _ => return no(),
                },
                _ => return no(),
            },
            _ => return no(),
        };
        let base = match base {
            BaseType::Tensor => Base::Tensor,
            BaseType::Scalar => Base::Scalar,
            BaseType::Int | BaseType::SymInt => Base::Int,
            BaseType::Float => Base::Float,
            BaseType::Bool => Base::Bool,
            BaseType::Str => Base::Str,
            BaseType::Complex => Base::Complex,
            BaseType::ScalarType => Base::DType,
            BaseType::Layout => Base::Layout,
            BaseType::Device => Base::Device,
            BaseType::MemoryFormat => Base::MemoryFormat,
            BaseType::Generator => Base::Generator,
            BaseType::Storage => Base::Storage,
            BaseType::Named(_) => return no(),
        };
        Ok(Self { base, shape })
    }

    /// Whether tensors are inside.
    pub fn holds_tensors(self) -> bool {
        self.base == Base::Tensor
    }

    /// The type of a parameter.
    pub fn parameter(self) -> String {
        let by_reference =
            matches!(self.base, Base::Tensor | Base::Generator | Base::Storage | Base::Str);
        let name = self.base.rust();
        let one = if by_reference { format!("&{name}") } else { name.to_owned() };
        match self.shape {
            Shape::One => one,
            Shape::Optional => format!("Option<{one}>"),
            Shape::List => format!("&[{name}]"),
            Shape::OptionalList => format!("Option<&[{name}]>"),
            Shape::ListOfOptional => format!("&[Option<{name}>]"),
        }
    }

    /// The type as one word of a signature's name.
    pub fn word(self) -> String {
        let name = self.base.word();
        match self.shape {
            Shape::One => name.to_owned(),
            Shape::Optional => format!("Opt{name}"),
            Shape::List => format!("{name}s"),
            Shape::OptionalList => format!("Opt{name}s"),
            Shape::ListOfOptional => format!("{name}Opts"),
        }
    }

    /// The type of a parameter, read from its tokens: the inverse of [`Ty::parameter`].
    pub fn from_parameter(text: &str) -> Option<Self> {
        let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let text = text.replace("Option<", "?").replace('>', "").replace("'_", "");
        let (shape, name) = match text.as_str() {
            t if t.starts_with("?&[") => (Shape::OptionalList, &t[3..t.len() - 1]),
            t if t.starts_with("&[?") => (Shape::ListOfOptional, &t[3..t.len() - 1]),
            t if t.starts_with("&[") => (Shape::List, &t[2..t.len() - 1]),
            t if t.starts_with('?') => (Shape::Optional, t[1..].trim_start_matches('&')),
            t => (Shape::One, t.trim_start_matches('&')),
        };
        Some(Self { base: Base::from_rust(name)?, shape })
    }
}

const BASES: [(Base, &str, &str); 15] = [
    (Base::Tensor, "Tensor", "Tensor"),
    (Base::Scalar, "Scalar", "Scalar"),
    (Base::Int, "i64", "Int"),
    (Base::Float, "f64", "Float"),
    (Base::Bool, "bool", "Bool"),
    (Base::Str, "str", "Str"),
    (Base::Complex, "Complex<f64>", "Complex"),
    (Base::DType, "DType", "DType"),
    (Base::Layout, "Layout", "Layout"),
    (Base::Device, "Device", "Device"),
    (Base::MemoryFormat, "MemoryFormat", "MemoryFormat"),
    (Base::Generator, "Generator", "Generator"),
    (Base::Storage, "Storage", "Storage"),
    (Base::Options, "TensorOptions", "Options"),
    (Base::Dims, "Dims", "Dims"),
];

impl Base {
    fn row(self) -> &'static (Base, &'static str, &'static str) {
        BASES.iter().find(|row| row.0 == self).unwrap_or(&BASES[0])
    }

    /// The Rust type of one owned value.
    pub fn rust(self) -> &'static str {
        self.row().1
    }

    fn word(self) -> &'static str {
        self.row().2
    }

    fn from_rust(name: &str) -> Option<Self> {
        let name = if name == "Complex<f64" { "Complex<f64>" } else { name };
        BASES.iter().find(|row| row.1 == name).map(|row| row.0)
    }
}

/// What an operator returns.
#[derive(Clone, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub struct Output(pub Vec<Ty>);

impl Output {
    /// The results of a schema.
    ///
    /// # Errors
    /// When a type has no counterpart in Rust.
    pub fn of(schema: &Schema) -> Result<Self, String> {
        schema.returns.iter().map(|r| Ty::of(&r.ty)).collect::<Result<_, _>>().map(Self)
    }

    fn owned(ty: Ty) -> String {
        let name = ty.base.rust();
        match ty.shape {
            Shape::One => name.to_owned(),
            Shape::Optional => format!("Option<{name}>"),
            Shape::List => format!("Vec<{name}>"),
            Shape::OptionalList => format!("Option<Vec<{name}>>"),
            Shape::ListOfOptional => format!("Vec<Option<{name}>>"),
        }
    }

    /// The Rust type, without `Result`.
    pub fn rust(&self) -> String {
        match &self.0[..] {
            [one] => Self::owned(*one),
            several => {
                let parts: Vec<String> = several.iter().map(|ty| Self::owned(*ty)).collect();
                format!("({})", parts.join(", "))
            }
        }
    }

    /// The expressions for the results, one by one, of a value named `name`.
    pub fn parts(&self, name: &str) -> Vec<String> {
        match self.0.len() {
            1 => vec![name.to_owned()],
            n => (0..n).map(|i| format!("{name}.{i}")).collect(),
        }
    }
}

const KEYWORDS: [&str; 40] = [
    "as", "break", "const", "continue", "crate", "dyn", "else", "enum", "extern", "false", "fn",
    "for", "if", "impl", "in", "let", "loop", "match", "mod", "move", "mut", "pub", "ref",
    "return", "self", "Self", "static", "struct", "super", "trait", "true", "type", "unsafe",
    "use", "where", "while", "async", "await", "gen", "box",
];

/// A schema's name as an identifier: keywords get an underscore.
pub fn identifier(name: &str) -> String {
    if KEYWORDS.contains(&name) { format!("{name}_") } else { name.to_owned() }
}

/// The function of an overload: `add_.Tensor` is `add__tensor`, `mT` is `mt`.
pub fn function_name(schema: &Schema) -> String {
    let is_named_by_space = schema
        .name
        .split_once("__")
        .is_some_and(|(space, _)| crate::registry::NAMED_BY_SPACE.contains(&space));
    let dot = if is_named_by_space { "__" } else { "_" };
    identifier(&schema.full_name().replace('.', dot).to_ascii_lowercase())
}

/// The static of an overload: the function's name in capitals.
pub fn static_name(schema: &Schema) -> String {
    function_name(schema).to_ascii_uppercase()
}

/// A name in camel case, with a capital after each digit too, as nodes bear it: `fft_r2c` is `FftR2C`.
pub fn camel(name: &str) -> String {
    let mut inside_word = false;
    let mut titled = String::new();
    for letter in name.chars() {
        match letter {
            '_' => {}
            _ if inside_word => titled.push(letter),
            _ => titled.push(letter.to_ascii_uppercase()),
        }
        inside_word = letter.is_ascii_alphabetic();
    }
    titled
}

/// One parameter of a generated function.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// The identifier.
    pub name: String,
    /// The type.
    pub ty: Ty,
}

/// The signature of an overload.
#[derive(Clone, Debug)]
pub struct Signature {
    /// The parameters in schema order.
    pub parameters: Vec<Parameter>,
    /// The results.
    pub output: Output,
}

impl Signature {
    /// The signature of a schema.
    ///
    /// # Errors
    /// When a type has no counterpart in Rust.
    pub fn of(schema: &Schema) -> Result<Self, String> {
        let parameter = |argument: &Argument| -> Result<Parameter, String> {
            Ok(Parameter { name: identifier(&argument.name), ty: Ty::of(&argument.ty)? })
        };
        Ok(Self {
            parameters: schema.arguments.iter().map(parameter).collect::<Result<_, _>>()?,
            output: Output::of(schema)?,
        })
    }

    /// `self_: &Tensor, alpha: Scalar`.
    pub fn declared(&self) -> String {
        let one = |p: &Parameter| format!("{}: {}", p.name, p.ty.parameter());
        self.parameters.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    /// `self_, alpha`.
    pub fn passed(&self) -> String {
        self.parameters.iter().map(|p| p.name.as_str()).collect::<Vec<_>>().join(", ")
    }

    /// `&Tensor, Scalar`.
    pub fn types(&self) -> String {
        self.parameters.iter().map(|p| p.ty.parameter()).collect::<Vec<_>>().join(", ")
    }

    /// A name that two signatures share exactly when they are the same: `Tensor2ScalarToTensor`.
    pub fn name(&self) -> String {
        let words = |types: Vec<Ty>| {
            let mut text = String::new();
            let mut i = 0;
            while i < types.len() {
                let run = types[i..].iter().take_while(|ty| **ty == types[i]).count();
                text.push_str(&types[i].word());
                if run > 1 {
                    let _ = write!(text, "{run}");
                }
                i += run;
            }
            if text.is_empty() { "Nothing".to_owned() } else { text }
        };
        let parameters = words(self.parameters.iter().map(|p| p.ty).collect());
        format!("{parameters}To{}", words(self.output.0.clone()))
    }
}
