//! Lowering of pointwise expressions: to Rust that is generic over `Expr`, and to CUDA C++.

use super::Expr;
use crate::rust::{Base, Shape, Signature, identifier};

/// The functions an expression may call: the methods of `corten_cpu::vec::expr::Expr`.
#[derive(Debug, Default)]
pub struct Vocabulary(Vec<Function>);

#[derive(Debug)]
struct Function {
    name: String,
    arguments: usize,
    kind: ValueKind,
}

impl Vocabulary {
    /// Reads the methods of `trait Expr` from its source: those over values that return a value
    /// or a mask. So a primitive that is added there can be used at once.
    ///
    /// # Errors
    /// When the text is not Rust.
    pub fn read(source: &str) -> Result<Self, String> {
        let file = syn::parse_file(source).map_err(|error| error.to_string())?;
        let mut functions = Vec::new();
        for item in file.items {
            match item {
                syn::Item::Trait(item) if item.ident == "Expr" => {
                    functions.extend(item.items.iter().filter_map(Function::of));
                }
                _ => {}
            }
        }
        Ok(Self(functions))
    }
}

impl Function {
    fn of(item: &syn::TraitItem) -> Option<Self> {
        let syn::TraitItem::Fn(method) = item else { return None };
        let is_value = |ty: &syn::Type| quote::quote!(#ty).to_string() == "Self";
        let over_values = method.sig.inputs.iter().all(|input| match input {
            syn::FnArg::Receiver(_) => true,
            syn::FnArg::Typed(typed) => is_value(&typed.ty),
        });
        method.sig.receiver().filter(|_| over_values)?;
        let syn::ReturnType::Type(_, result) = &method.sig.output else { return None };
        let kind = match quote::quote!(#result).to_string().as_str() {
            "Self" => ValueKind::Value,
            "Self :: Mask" => ValueKind::Mask,
            _ => return None,
        };
        let arguments = method.sig.inputs.len();
        Some(Self { name: method.sig.ident.to_string(), arguments, kind })
    }
}

/// The constants of expressions: their names, and what they are in Rust and in CUDA C++.
const CONSTANTS: &[(&str, &str, &str)] = &[
    ("inf", "f64::INFINITY", "CT_INFINITY"),
    ("nan", "f64::NAN", "CT_NAN"),
    ("pi", "std::f64::consts::PI", "3.14159265358979323846"),
    ("e", "std::f64::consts::E", "2.71828182845904523536"),
    ("ln_2", "std::f64::consts::LN_2", "0.693147180559945309417"),
    ("ln_10", "std::f64::consts::LN_10", "2.30258509299404568402"),
    ("sqrt_2", "std::f64::consts::SQRT_2", "1.41421356237309504880"),
];

/// The functions that the texts of CUDA kernels define, with the text of each: a function begins with
/// `CT_FN E` or `CT_FN bool`, or is made by a macro that is in [`MAKERS`].
#[derive(Debug, Default)]
pub struct CudaVocabulary(std::collections::BTreeMap<String, String>);

/// The macros of the texts that make a function of the name that they are given first.
const MAKERS: [&str; 4] = ["CT_REAL(", "CT_ROUND(", "CT_SPECIAL(", "CT_SPECIAL2("];

impl CudaVocabulary {
    /// Adds the functions of a text. Where two texts have one, it is the first's.
    pub fn add(&mut self, name: &str, text: &str) {
        let defined = |line: &str| {
            let made = MAKERS.iter().find_map(|maker| line.strip_prefix(maker));
            if let Some(rest) = made {
                return rest.split([',', ')']).next().map(str::to_owned);
            }
            let (head, _) = line.split_once("CT_FN ")?.1.split_once('(')?;
            let (_, name) = head.rsplit_once(' ')?;
            Some(name.to_owned())
        };
        for function in text.lines().filter_map(|line| defined(line.trim_start())) {
            self.0.entry(function).or_insert_with(|| name.to_owned());
        }
    }

    /// The texts that define the functions of an expression; nothing where one is defined nowhere.
    pub fn texts_of(&self, expr: &Expr) -> Option<std::collections::BTreeSet<&str>> {
        let mut texts = Some(std::collections::BTreeSet::new());
        expr.walk(&mut |expr| {
            if let Expr::Call(name, _) | Expr::Method(_, name, _) = expr {
                match (self.0.get(name), &mut texts) {
                    (Some(text), Some(texts)) => drop(texts.insert(text.as_str())),
                    _ => texts = None,
                }
            }
        });
        texts
    }
}

/// The language that an expression is lowered to.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Dialect {
    /// Rust over `Expr`, whose masks are values of their own.
    Rust,
    /// C++ over the value types of the kernels' text, whose masks are `bool`.
    Cuda,
}

impl Dialect {
    fn number(self, text: &str) -> String {
        match self {
            Self::Rust => format!("E::lit({text})"),
            Self::Cuda => format!("lit<E>({text})"),
        }
    }

    fn call(self, name: &str, arguments: &[String]) -> String {
        match self {
            Self::Rust => format!("{}.{name}({})", arguments[0], arguments[1..].join(", ")),
            Self::Cuda => format!("{name}({})", arguments.join(", ")),
        }
    }

    fn select(self, condition: &str, then: &str, otherwise: &str) -> String {
        match self {
            Self::Rust => format!("E::select({condition}, {then}, {otherwise})"),
            Self::Cuda => format!("({condition} ? {then} : {otherwise})"),
        }
    }

    fn logical(self, left: &str, operator: &str, right: &str) -> String {
        match self {
            Self::Rust => format!("({left} {operator} {right})"),
            Self::Cuda => format!("({left} {operator}{operator} {right})"),
        }
    }

    fn value(self, code: Code) -> String {
        match code.kind {
            ValueKind::Value => code.text,
            ValueKind::Mask => self.select(&code.text, &self.number("1.0"), &self.number("0.0")),
        }
    }

    fn mask(self, code: Code) -> String {
        match (code.kind, self) {
            (ValueKind::Mask, _) => code.text,
            (ValueKind::Value, Self::Rust) => format!("({}).ne(E::lit(0.0))", code.text),
            (ValueKind::Value, Self::Cuda) => self.call("ne", &[code.text, self.number("0.0")]),
        }
    }
}

/// Functions that take many times as long as an arithmetic operation.
const SLOW: &[&str] = &[
    "exp",
    "exp2",
    "expm1",
    "log",
    "log1p",
    "log2",
    "log10",
    "sin",
    "cos",
    "tan",
    "tanh",
    "erf",
    "pow",
    "log_add_exp",
];

/// A pointwise loop as the CPU crate needs it.
pub struct Loop {
    /// The tensors, in schema order.
    pub inputs: Vec<String>,
    /// The body.
    pub body: String,
    /// Whether the body is a truth value.
    pub predicate: bool,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum ValueKind {
    Value,
    Mask,
}

struct Code {
    text: String,
    kind: ValueKind,
}

/// Lowers an expression over the arguments of a signature.
///
/// # Errors
/// Names and functions that do not exist, and arguments that no loop gets.
pub fn lower(
    expr: &Expr,
    signature: &Signature,
    predicate: bool,
    vocabulary: &Vocabulary,
) -> Result<Loop, String> {
    lower_to(Dialect::Rust, expr, signature, predicate, vocabulary)
}

/// As [`lower`], to CUDA C++; none where the kernels' text lacks a function.
///
/// # Errors
/// As [`lower`].
pub fn lower_to_cuda(
    expr: &Expr,
    signature: &Signature,
    predicate: bool,
    vocabulary: &Vocabulary,
    defined: &CudaVocabulary,
) -> Result<Option<Loop>, String> {
    if defined.texts_of(expr).is_none() {
        return Ok(None);
    }
    lower_to(Dialect::Cuda, expr, signature, predicate, vocabulary).map(Some)
}

fn lower_to(
    dialect: Dialect,
    expr: &Expr,
    signature: &Signature,
    predicate: bool,
    vocabulary: &Vocabulary,
) -> Result<Loop, String> {
    let tensors = signature.parameters.iter().filter(|p| p.ty.holds_tensors());
    if let Some(other) = tensors.clone().find(|p| p.ty.shape != Shape::One) {
        return Err(format!("`{}` is not a single tensor", other.name));
    }
    let inputs: Vec<String> = tensors.map(|p| p.name.clone()).collect();
    let scalars = scalars(signature);
    let lowering = Lowering { dialect, inputs: &inputs, scalars: &scalars, vocabulary };
    let code = lowering.code(expr)?;
    let body = if predicate { dialect.mask(code) } else { dialect.value(code) };
    Ok(Loop { inputs, body, predicate })
}

/// The arguments that a loop gets as numbers, in schema order: `Scalar`, `int`, `float`, `bool`.
pub fn scalars(signature: &Signature) -> Vec<String> {
    let is_number =
        |base: Base| matches!(base, Base::Scalar | Base::Int | Base::Float | Base::Bool);
    let numbers = signature.parameters.iter();
    let numbers = numbers.filter(|p| p.ty.shape == Shape::One && is_number(p.ty.base));
    numbers.map(|p| p.name.clone()).collect()
}

struct Lowering<'a> {
    dialect: Dialect,
    inputs: &'a [String],
    scalars: &'a [String],
    vocabulary: &'a Vocabulary,
}

impl Lowering<'_> {
    fn value(&self, expr: &Expr) -> Result<String, String> {
        self.code(expr).map(|code| self.dialect.value(code))
    }

    fn mask(&self, expr: &Expr) -> Result<String, String> {
        self.code(expr).map(|code| self.dialect.mask(code))
    }

    fn code(&self, expr: &Expr) -> Result<Code, String> {
        let value = |text: String| Ok(Code { text, kind: ValueKind::Value });
        let mask = |text: String| Ok(Code { text, kind: ValueKind::Mask });
        match expr {
            Expr::Number(number) => {
                let dot = if number.contains(['.', 'e', 'E']) { "" } else { ".0" };
                value(self.dialect.number(&format!("{number}{dot}")))
            }
            Expr::Bool(flag) => value(self.dialect.number(&format!("{}.0", u8::from(*flag)))),
            Expr::Name(name) => value(self.name(name)?),
            Expr::Negative(inner) => match &**inner {
                Expr::Number(number) => self.code(&Expr::Number(format!("-{number}"))),
                _ => value(format!("(-{})", self.value(inner)?)),
            },
            Expr::Not(inner) => mask(format!("(!{})", self.mask(inner)?)),
            Expr::Binary(left, op @ ("+" | "-" | "*" | "/"), right) => {
                value(format!("({} {op} {})", self.value(left)?, self.value(right)?))
            }
            Expr::Binary(left, "&&", right) => {
                mask(self.dialect.logical(&self.mask(left)?, "&", &self.mask(right)?))
            }
            Expr::Binary(left, "||", right) => {
                mask(self.dialect.logical(&self.mask(left)?, "|", &self.mask(right)?))
            }
            Expr::Binary(left, op, right) => {
                let sides = [self.value(left)?, self.value(right)?];
                mask(self.dialect.call(comparison(op), &sides))
            }
            Expr::Call(name, arguments) => self.call(name, arguments.iter().collect()),
            Expr::Method(receiver, name, arguments) => {
                self.call(name, std::iter::once(&**receiver).chain(arguments).collect())
            }
            Expr::If(condition, then, otherwise) => self.branch(condition, then, otherwise),
            Expr::Text(_) | Expr::Index(..) | Expr::List(_) => {
                Err("a loop knows numbers only".to_owned())
            }
        }
    }

    fn name(&self, name: &str) -> Result<String, String> {
        let identifier = identifier(name);
        if self.inputs.contains(&identifier) {
            return Ok(identifier);
        }
        if let Some(i) = self.scalars.iter().position(|scalar| *scalar == identifier) {
            return Ok(format!("s[{i}]"));
        }
        match CONSTANTS.iter().find(|constant| constant.0 == name) {
            Some((_, rust, cuda)) => Ok(self.dialect.number(match self.dialect {
                Dialect::Rust => rust,
                Dialect::Cuda => cuda,
            })),
            None => Err(format!("`{name}` is neither a tensor nor a number of the schema")),
        }
    }

    fn call(&self, name: &str, arguments: Vec<&Expr>) -> Result<Code, String> {
        let Some(function) = self.vocabulary.0.iter().find(|function| function.name == name) else {
            return Err(format!("`{name}` is no function of pointwise expressions"));
        };
        let (kind, count) = (function.kind, function.arguments);
        if arguments.len() != count {
            return Err(format!("`{name}` takes {count} arguments, not {}", arguments.len()));
        }
        let values: Vec<String> =
            arguments.iter().map(|argument| self.value(argument)).collect::<Result<_, _>>()?;
        Ok(Code { text: self.dialect.call(name, &values), kind })
    }

    fn branch(&self, condition: &Expr, then: &Expr, otherwise: &Expr) -> Result<Code, String> {
        // What numbers of the schema decide is the same everywhere, and is moved out of the loop.
        let varies = self.mentions_input(condition);
        // The ternary operator of C++ computes one side anyway.
        let varies = varies && self.dialect == Dialect::Rust;
        let slow = [then, otherwise].map(|side| varies && is_slow(side));
        let condition = self.mask(condition)?;
        let (then, otherwise) = (self.code(then)?, self.code(otherwise)?);
        if then.kind == ValueKind::Mask && otherwise.kind == ValueKind::Mask {
            let (then, otherwise) = (then.text, otherwise.text);
            let text = match self.dialect {
                Dialect::Rust => format!("(({condition} & {then}) | (!{condition} & {otherwise}))"),
                Dialect::Cuda => self.dialect.select(&condition, &then, &otherwise),
            };
            return Ok(Code { text, kind: ValueKind::Mask });
        }
        let (then, otherwise) = (self.dialect.value(then), self.dialect.value(otherwise));
        let text = match slow {
            [false, false] => self.dialect.select(&condition, &then, &otherwise),
            [first, second] => format!(
                "{{ let chosen = {condition}; E::select(chosen, {}, {}) }}",
                only_where("chosen", then, first),
                only_where("(!chosen)", otherwise, second)
            ),
        };
        Ok(Code { text, kind: ValueKind::Value })
    }

    fn mentions_input(&self, expr: &Expr) -> bool {
        let mut found = false;
        expr.walk(&mut |expr| {
            if let Expr::Name(name) = expr {
                found |= self.inputs.contains(&identifier(name));
            }
        });
        found
    }
}

/// A value that takes long is computed for the vectors that have a lane for it.
fn only_where(condition: &str, value: String, slow: bool) -> String {
    match slow {
        true => format!("if {condition}.any() {{ {value} }} else {{ E::lit(0.0) }}"),
        false => value,
    }
}

/// Whether an expression calls a function that is computed by a series.
fn is_slow(expr: &Expr) -> bool {
    let mut found = false;
    expr.walk(&mut |expr| match expr {
        Expr::Call(name, _) | Expr::Method(_, name, _) => found |= SLOW.contains(&name.as_str()),
        _ => {}
    });
    found
}

fn comparison(op: &str) -> &'static str {
    match op {
        "<" => "lt",
        "<=" => "le",
        ">" => "gt",
        ">=" => "ge",
        "==" => "eq",
        _ => "ne",
    }
}
