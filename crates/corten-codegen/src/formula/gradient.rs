//! Lowering of gradient formulas to fallible calls on tensors, directed by the types of the
//! schema's arguments.

use super::{Expr, Functions};
use crate::registry::{Op, Registry};
use crate::rust::{Base, Output, Parameter, Shape, Signature, Ty, identifier};
use std::collections::BTreeSet;

mod coerce;
mod overload;

/// What a formula needs from the forward pass or from the engine.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Use {
    /// An argument as it is: a tensor, a list of tensors or a value.
    Argument(String),
    /// A value read from a tensor argument: `sizes`, or `size` with its argument.
    Metadata {
        /// The argument.
        argument: String,
        /// The method.
        method: &'static str,
        /// The text of the method's arguments.
        with: String,
    },
    /// An output of the operator.
    Result(usize),
    /// The gradient of output 0.
    Grad,
    /// The gradients of all outputs.
    Grads,
    /// Which arguments need a gradient.
    Needs,
}

/// What the parts of formulas can refer to.
pub struct Scope<'a> {
    /// The operator.
    pub op: &'a Op,
    /// Its signature.
    pub signature: &'a Signature,
    /// All operators.
    pub registry: &'a Registry,
    /// All formula functions.
    pub functions: &'a Functions,
}

/// A lowered formula.
#[derive(Debug)]
pub struct Lowered {
    /// The expression.
    pub text: String,
    /// What it uses.
    pub uses: BTreeSet<Use>,
}

/// Whether the text of a tensor expression is a value or can be borrowed.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Form {
    /// An owned value.
    Owned,
    /// A place that holds an owned value.
    Section,
    /// The type of a parameter: a reference, or a value that is copied.
    Passed,
}

#[derive(Clone, PartialEq, Debug)]
enum ExprType {
    Known(Ty, Form),
    Integer,
    Decimal,
    Missing,
    List(Vec<Code>),
    /// The results of a call that returns several.
    Tuple(Vec<Ty>),
}

/// A lowered part.
#[derive(Clone, PartialEq, Debug)]
struct Code {
    text: String,
    kind: ExprType,
    uses: BTreeSet<Use>,
}

const TENSOR: Ty = Ty::one(Base::Tensor);
const TENSORS: Ty = Ty::list(Base::Tensor);
const INT: Ty = Ty::one(Base::Int);
const FLOAT: Ty = Ty::one(Base::Float);
const BOOL: Ty = Ty::one(Base::Bool);
const SCALAR: Ty = Ty::one(Base::Scalar);

/// The methods of tensors that read metadata, with the type they give.
const METADATA: [(&str, Ty); 14] = [
    ("sizes", Ty::list(Base::Int)),
    ("strides", Ty::list(Base::Int)),
    ("dim", INT),
    ("numel", INT),
    ("size", INT),
    ("stride", INT),
    ("storage_offset", INT),
    ("dtype", Ty::one(Base::DType)),
    ("device", Ty::one(Base::Device)),
    ("layout", Ty::one(Base::Layout)),
    ("options", Ty::one(Base::Options)),
    ("is_complex", BOOL),
    ("is_floating_point", BOOL),
    ("lies_by_columns", BOOL),
];

/// The same for lists of tensors.
const LIST_METADATA: [(&str, Ty); 3] =
    [("sizes", Ty::list(Base::Dims)), ("dtypes", Ty::list(Base::DType)), ("len", INT)];

/// The name of a value read from a tensor argument: `self.size(-1)` is `self_size_m1`.
pub fn metadata_name(argument: &str, method: &str, with: &str) -> String {
    let stem = format!("{}_{method}", argument.trim_end_matches('_'));
    if with.is_empty() { stem } else { format!("{stem}_{}", with.replace('-', "m")) }
}

/// The Rust expression that reads metadata of `tensor`, an expression for a `&Tensor`.
pub fn read_metadata(tensor: &str, method: &str, with: &str) -> String {
    match method {
        "dim" => format!("({tensor}.dim() as i64)"),
        "size" | "stride" => format!("{tensor}.{method}({with})?"),
        "lies_by_columns" => format!("record::lies_by_columns({tensor})"),
        "is_complex" | "is_floating_point" => format!("{tensor}.dtype().{method}()"),
        _ => format!("{tensor}.{method}()"),
    }
}

/// The type that a metadata method of a single tensor gives.
pub fn metadata_type(method: &str) -> Option<Ty> {
    METADATA.iter().find(|row| row.0 == method).map(|row| row.1)
}

impl Scope<'_> {
    /// Lowers the formula of one argument to the expression of its gradient: a tensor, or a
    /// `Vec` of tensors for a list.
    ///
    /// # Errors
    /// Names, functions and types that do not fit.
    pub fn gradient(&self, expr: &Expr, argument: &Parameter) -> Result<Lowered, String> {
        let code = self.code(expr)?;
        let is_list = matches!(argument.ty.shape, Shape::List | Shape::ListOfOptional);
        let text = if is_list { code.owned_list() } else { code.owned_tensor() };
        match text {
            Some(text) => Ok(Lowered { text, uses: code.uses }),
            None => Err(format!(
                "must give {}, not {}",
                if is_list { "a list of tensors" } else { "a tensor" },
                code.describe()
            )),
        }
    }

    /// Lowers the formula for all arguments to a `Vec` with one gradient for each.
    ///
    /// # Errors
    /// As [`Scope::gradient`], or another number of gradients.
    pub fn gradients(&self, expr: &Expr, count: usize) -> Result<Lowered, String> {
        let code = self.code(expr)?;
        let text = match &code.kind {
            ExprType::Tuple(types)
                if types.len() == count && types.iter().all(|ty| *ty == TENSOR) =>
            {
                let parts: Vec<String> = (0..count).map(|i| format!("all.{i}")).collect();
                Some(format!("{{ let all = {}; vec![{}] }}", code.text, parts.join(", ")))
            }
            ExprType::Known(ty, Form::Owned) if *ty == TENSOR && count == 1 => {
                Some(format!("vec![{}]", code.text))
            }
            _ => code.owned_list(),
        };
        match text {
            Some(text) => Ok(Lowered { text, uses: code.uses }),
            None => Err(format!("must give {count} gradients, not {}", code.describe())),
        }
    }

    fn code(&self, expr: &Expr) -> Result<Code, String> {
        match expr {
            Expr::Number(text) => {
                let decimal = text.contains(['.', 'e', 'E']);
                Ok(Code::new(text, if decimal { ExprType::Decimal } else { ExprType::Integer }))
            }
            Expr::Text(text) => Ok(Code::passed(format!("{text:?}"), Ty::one(Base::Str))),
            Expr::Bool(flag) => Ok(Code::passed(flag.to_string(), BOOL)),
            Expr::Name(name) => self.name(name),
            Expr::Index(list, i) => match &**list {
                Expr::Name(name) if name == "grads" => {
                    Ok(Code::place(format!("grads[{i}]"), TENSOR).using(Use::Grads))
                }
                _ => Err("only `grads` can be indexed".to_owned()),
            },
            Expr::Negative(inner) => self.negative(self.code(inner)?),
            Expr::Not(inner) => {
                let inner = self.code(inner)?;
                match inner.is(BOOL) {
                    true => Ok(inner.map(|text| format!("(!{text})"))),
                    false => self.operator("logical_not", vec![inner]),
                }
            }
            Expr::Binary(left, op, right) => self.binary(self.code(left)?, op, self.code(right)?),
            Expr::Call(name, arguments) if name == "result" => match &arguments[..] {
                [Expr::Number(i)] => self.name(&format!("result{i}")),
                _ => Err("`result` takes the number of an output".to_owned()),
            },
            Expr::Call(name, arguments) => self.call(name, self.codes(arguments)?),
            Expr::Method(receiver, name, arguments) => self.method(receiver, name, arguments),
            Expr::If(condition, then, otherwise) => self.branch(condition, then, otherwise),
            Expr::List(parts) => {
                let parts = self.codes(parts)?;
                let uses = parts.iter().flat_map(|part| part.uses.clone()).collect();
                Ok(Code { text: String::new(), kind: ExprType::List(parts), uses })
            }
        }
    }

    fn codes(&self, exprs: &[Expr]) -> Result<Vec<Code>, String> {
        exprs.iter().map(|expr| self.code(expr)).collect()
    }

    fn parameter(&self, name: &str) -> Option<&Parameter> {
        let identifier = identifier(name);
        self.signature.parameters.iter().find(|p| p.name == identifier)
    }

    fn name(&self, name: &str) -> Result<Code, String> {
        if let Some(parameter) = self.parameter(name) {
            let used = Use::Argument(parameter.name.clone());
            let code = match parameter.ty.holds_tensors() {
                true => Code::place(&parameter.name, parameter.ty),
                false => Code::passed(&parameter.name, parameter.ty),
            };
            return Ok(code.using(used));
        }
        if let Some(i) = self.result_index(name) {
            return match self.signature.output.0.get(i) {
                Some(ty) => Ok(Code::place(format!("result{i}"), *ty).using(Use::Result(i))),
                None => Err(format!("there is no output {i}")),
            };
        }
        Ok(match name {
            "grad" => Code::passed("grad", TENSOR).using(Use::Grad),
            "grads" => Code::passed("grads", TENSORS).using(Use::Grads),
            "needs" => Code::place("needs", Ty::list(Base::Bool)).using(Use::Needs),
            "None" => Code::new("None", ExprType::Missing),
            "inf" => Code::passed("f64::INFINITY", FLOAT),
            "nan" => Code::passed("f64::NAN", FLOAT),
            "pi" => Code::passed("std::f64::consts::PI", FLOAT),
            _ => return Err(format!("`{name}` is not in scope")),
        })
    }

    /// `result`, `result1`, or the name that the schema gives an output.
    fn result_index(&self, name: &str) -> Option<usize> {
        let named = |r: &crate::schema::Return| r.name.as_deref() == Some(name);
        if let Some(i) = self.op.schema.returns.iter().position(named) {
            return Some(i);
        }
        let rest = name.strip_prefix("result")?;
        if rest.is_empty() { Some(0) } else { rest.parse().ok() }
    }

    fn negative(&self, inner: Code) -> Result<Code, String> {
        if let Some(tensor) = inner.borrowed_tensor() {
            return Ok(inner.map(|_| format!("(-{tensor})?")).owned(TENSOR));
        }
        match inner.number() {
            Some(_) => Ok(inner.map(|text| format!("-{text}"))),
            None if inner.is(SCALAR) => {
                Ok(inner.map(|text| format!("(-{text}.to_f64())")).retyped(FLOAT))
            }
            None => Err(format!("cannot negate {}", inner.describe())),
        }
    }

    fn binary(&self, left: Code, op: &'static str, right: Code) -> Result<Code, String> {
        let arithmetic = matches!(op, "+" | "-" | "*" | "/");
        let tensors = (left.borrowed_tensor(), right.borrowed_tensor());
        if tensors.0.is_some() || tensors.1.is_some() {
            if !arithmetic {
                return self.operator(comparison_operator(op)?, vec![left, right]);
            }
            let side = |tensor: Option<String>, code: &Code| match tensor {
                Some(text) => Ok(text),
                None => code.factor().ok_or_else(|| format!("no `{op}` for {}", code.describe())),
            };
            let text = format!("({} {op} {})?", side(tensors.0, &left)?, side(tensors.1, &right)?);
            return Ok(left.join(right, text).owned(TENSOR));
        }
        self.numbers(left, op, right, arithmetic)
    }

    fn numbers(
        &self,
        left: Code,
        op: &'static str,
        right: Code,
        arithmetic: bool,
    ) -> Result<Code, String> {
        if matches!(op, "&&" | "||") || (left.is(BOOL) && right.is(BOOL)) {
            if !(left.is(BOOL) && right.is(BOOL)) {
                return Err(format!("`{op}` is for truth values"));
            }
            let text = format!("({} {op} {})", left.text, right.text);
            return Ok(left.join(right, text).retyped(BOOL));
        }
        let whole = |code: &Code| code.is(INT) || code.kind == ExprType::Integer;
        let (ty, sides) = match whole(&left) && whole(&right) {
            true => (INT, (left.coerced(INT), right.coerced(INT))),
            false => (FLOAT, (left.coerced(FLOAT), right.coerced(FLOAT))),
        };
        let (Some((a, _)), Some((b, _))) = sides else {
            if !arithmetic && left.comparable(&right) {
                let text = format!("({} {op} {})", left.text, right.text);
                return Ok(left.join(right, text).retyped(BOOL));
            }
            return Err(format!("no `{op}` for {} and {}", left.describe(), right.describe()));
        };
        let text = format!("({a} {op} {b})");
        Ok(left.join(right, text).retyped(if arithmetic { ty } else { BOOL }))
    }

    fn branch(&self, condition: &Expr, then: &Expr, otherwise: &Expr) -> Result<Code, String> {
        let condition = self.code(condition)?;
        if !condition.is(BOOL) {
            return Err(format!("a condition must be true or false, not {}", condition.describe()));
        }
        let (then, otherwise) = (self.code(then)?, self.code(otherwise)?);
        let tensors = then.owned_tensor().zip(otherwise.owned_tensor());
        let lists = then.owned_list().zip(otherwise.owned_list());
        let floats = then.coerced(FLOAT).zip(otherwise.coerced(FLOAT));
        let ints = then.coerced(INT).zip(otherwise.coerced(INT));
        let (ty, form, (a, b)) = if let Some(tensors) = tensors {
            (TENSOR, Form::Owned, tensors)
        } else if let Some(lists) = lists {
            (TENSORS, Form::Owned, lists)
        } else if let Some((a, b)) = ints {
            (INT, Form::Passed, (a.0, b.0))
        } else if let Some((a, b)) = floats {
            (FLOAT, Form::Passed, (a.0, b.0))
        } else {
            return Err(format!(
                "the branches give {} and {}",
                then.describe(),
                otherwise.describe()
            ));
        };
        let text = format!("if {} {{ {a} }} else {{ {b} }}", condition.text);
        let code = condition.join(then.join(otherwise, String::new()), text);
        Ok(Code { kind: ExprType::Known(ty, form), ..code })
    }

    fn method(&self, receiver: &Expr, name: &str, arguments: &[Expr]) -> Result<Code, String> {
        let receiver_code = self.code(receiver)?;
        if let Some(code) = self.metadata(receiver, &receiver_code, name, arguments)? {
            return Ok(code);
        }
        let mut codes = vec![receiver_code];
        codes.extend(self.codes(arguments)?);
        self.call(name, codes)
    }

    /// `x.sizes()` and the like: saved as a value where `x` is an argument of the operator.
    fn metadata(
        &self,
        receiver: &Expr,
        code: &Code,
        name: &str,
        arguments: &[Expr],
    ) -> Result<Option<Code>, String> {
        let ExprType::Known(ty, form) = code.kind else { return Ok(None) };
        if ty.shape == Shape::List {
            return Ok(self.list_metadata(receiver, code, name));
        }
        let row = METADATA.iter().find(|row| row.0 == name);
        let Some((method, read)) = row.copied().filter(|_| ty == TENSOR) else {
            return Ok(None);
        };
        let with = match arguments {
            [] => String::new(),
            [one] => match self.code(one)?.coerced(INT) {
                Some((text, _)) if self.code(one)?.uses.is_empty() => text,
                _ => return Err(format!("`{name}` takes a constant")),
            },
            _ => return Err(format!("`{name}` takes at most one argument")),
        };
        if let (Expr::Name(argument), Some(parameter)) = (receiver, self.argument_of(receiver)) {
            let name = metadata_name(argument, method, &with);
            let used = Use::Metadata { argument: parameter.name.clone(), method, with };
            return Ok(Some(Code::passed(name, read).using(used)));
        }
        let tensor = match form {
            Form::Owned => format!("({})", code.text),
            _ => code.text.clone(),
        };
        let text = read_metadata(&tensor, method, &with);
        let form = if read.shape == Shape::List { Form::Section } else { Form::Passed };
        Ok(Some(Code { text, kind: ExprType::Known(read, form), uses: code.uses.clone() }))
    }

    /// `xs.sizes()`, `xs.dtypes()` and `xs.len()` of a list.
    fn list_metadata(&self, receiver: &Expr, code: &Code, name: &str) -> Option<Code> {
        let Some(parameter) = self.argument_of(receiver).filter(|p| p.ty == TENSORS) else {
            let length = code.clone().map(|text| format!("({text}.len() as i64)"));
            return (name == "len").then(|| length.retyped(INT));
        };
        let row = LIST_METADATA.iter().find(|row| row.0 == name);
        let (method, read) = row.copied()?;
        let name = metadata_name(&parameter.name, method, "");
        let used = Use::Metadata { argument: parameter.name.clone(), method, with: String::new() };
        Some(Code::passed(name, read).using(used))
    }

    fn argument_of(&self, expr: &Expr) -> Option<&Parameter> {
        match expr {
            Expr::Name(name) => self.parameter(name),
            _ => None,
        }
    }

    fn call(&self, name: &str, arguments: Vec<Code>) -> Result<Code, String> {
        if let Some(function) = self.functions.find(name, &self.op.family) {
            let trouble = |text: &String| {
                format!("`{}` has the type `{text}`, which formulas do not know", function.path)
            };
            let parameters = function.parameters.as_ref().map_err(trouble)?;
            let results = function.results.as_ref().map_err(trouble)?;
            let passed = overload::pass_all(&arguments, parameters)
                .ok_or_else(|| overload::no_fit(&function.path, &arguments))?;
            let question = if function.fallible { "?" } else { "" };
            let text = format!("crate::{}({}){question}", function.path, passed.join(", "));
            return Ok(Code::result(text, results, &arguments));
        }
        self.operator(name, arguments)
    }

    fn operator(&self, name: &str, arguments: Vec<Code>) -> Result<Code, String> {
        let (function, passed, output) = overload::resolve(self.registry, name, &arguments)?;
        let Output(types) = output;
        let text = format!("op::{function}({})?", passed.join(", "));
        Ok(Code::result(text, &types, &arguments))
    }
}

fn comparison_operator(op: &str) -> Result<&'static str, String> {
    Ok(match op {
        "<" => "lt",
        "<=" => "le",
        ">" => "gt",
        ">=" => "ge",
        "==" => "eq",
        "!=" => "ne",
        "&&" => "logical_and",
        "||" => "logical_or",
        other => return Err(format!("no `{other}` for tensors")),
    })
}
