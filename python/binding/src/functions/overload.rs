//! One overload as Python sees it: its signature, and how bound arguments become those of the
//! operator.

use super::group::Mode;
use crate::args::{Param, ParamKind, Signature, default_value, split_arguments};
use crate::py::Py;
use crate::py::class::TypeCell;
use crate::types::structseq;
use corten_ops::AnyOp;
use corten_ops::IValue;
use std::sync::OnceLock;

/// Where an argument of the operator comes from.
#[derive(Clone)]
pub(crate) enum Source {
    /// The tensor a method was called on.
    This,
    /// A parameter of the signature.
    Param(usize),
    /// One of the tensors given as `out=`.
    Out(usize),
    /// All tensors given as `out=`.
    Outs,
    /// Not visible from Python.
    Fixed(IValue),
}

/// A call plan: an operator and the sources of its arguments, in schema order.
pub(crate) struct Plan {
    pub(crate) op: &'static dyn AnyOp,
    pub(crate) sources: Vec<Source>,
}

/// One signature's operators.
pub(crate) struct Overload {
    /// Without `out=`.
    pub(crate) without_out: Option<Plan>,
    /// With `out=`.
    pub(crate) out: Option<Plan>,
    /// The place of `out` among the parameters, and how many tensors it holds where that is fixed.
    pub(crate) out_param: Option<(usize, Option<usize>)>,
    /// The places of a factory's `dtype`, `layout` and `device`.
    pub(crate) options: Option<[usize; 3]>,
    /// The place of `requires_grad`.
    pub(crate) requires_grad: Option<usize>,
    /// The names of the results, where there are several with names.
    pub(crate) fields: Vec<String>,
    /// The type of such results without and with `out=`, once there were some.
    pub(crate) result_types: [OnceLock<&'static TypeCell>; 2],
    /// The text that the canonical order sorts by.
    pub(crate) sort_text: String,
    /// What to say when a deprecated order of arguments is used.
    pub(crate) warning: Option<String>,
}

/// An argument of a schema, as text.
struct Argument<'a> {
    ty: &'a str,
    name: &'a str,
    default: Option<&'a str>,
    keyword_only: bool,
}

impl Argument<'_> {
    fn is_written_keyword(&self) -> bool {
        self.keyword_only && self.ty.contains("!)")
    }

    fn is_written_list(&self) -> bool {
        self.is_written_keyword() && self.ty.ends_with("[]")
    }

    fn is_option(&self) -> bool {
        self.keyword_only && matches!(self.name, "dtype" | "layout" | "device" | "pin_memory")
    }
}

/// The argument list of a schema `name(arguments) -> returns`.
fn arguments(schema: &'static str) -> Vec<Argument<'static>> {
    let list = schema.split_once('(').map_or("", |(_, rest)| rest);
    let list = list.rsplit_once(" -> ").map_or(list, |(list, _)| list);
    let list = list.trim_end().strip_suffix(')').unwrap_or(list);
    let mut keyword_only = false;
    let mut found = Vec::new();
    for text in split_arguments(list) {
        if text == "*" {
            keyword_only = true;
            continue;
        }
        let (declaration, default) = split_default(text);
        if let Some((ty, name)) = declaration.rsplit_once(' ') {
            found.push(Argument { ty: ty.trim(), name: name.trim(), default, keyword_only });
        }
    }
    found
}

fn split_default(text: &'static str) -> (&'static str, Option<&'static str>) {
    let mut depth = 0_i32;
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            '=' if depth == 0 => return (text[..at].trim(), Some(text[at + 1..].trim())),
            _ => {}
        }
    }
    (text.trim(), None)
}

/// A type without alias annotations.
fn plain_type(ty: &str) -> String {
    let mut text = String::new();
    let mut depth = 0;
    for c in ty.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ if depth == 0 => text.push(c),
            _ => {}
        }
    }
    text
}

/// The names of the results, where every one of several has a name.
pub(crate) fn result_names(schema: &str) -> Vec<String> {
    let Some((_, returns)) = schema.rsplit_once(" -> ") else { return Vec::new() };
    let Some(list) = returns.trim().strip_prefix('(').and_then(|rest| rest.strip_suffix(')'))
    else {
        return Vec::new();
    };
    let names: Option<Vec<String>> = split_arguments(list)
        .into_iter()
        .map(|part| part.rsplit_once(' ').map(|(_, name)| name.to_owned()))
        .collect();
    names.filter(|names| names.len() > 1).unwrap_or_default()
}

impl Overload {
    /// What an operator and its `out=` twin have in common: the arguments without options, outputs
    /// and defaults.
    pub(crate) fn key(op: &'static dyn AnyOp) -> String {
        arguments(op.def().schema)
            .iter()
            .filter(|argument| !argument.is_written_keyword() && !argument.is_option())
            .map(|argument| {
                let star = if argument.keyword_only { "*" } else { "" };
                format!("{star}{} {},", plain_type(argument.ty), argument.name)
            })
            .collect()
    }

    /// The class of results with names, of which there are several.
    pub(crate) fn result_type(&self, name: &str, is_out: bool) -> Py<&'static TypeCell> {
        let known = &self.result_types[usize::from(is_out)];
        if let Some(ty) = known.get() {
            return Ok(ty);
        }
        let fields: Vec<&str> = self.fields.iter().map(String::as_str).collect();
        let name = if is_out { format!("{name}_out") } else { name.to_owned() };
        let made = structseq::type_for(&name, &fields)?;
        Ok(known.get_or_init(|| made))
    }

    /// The signature of an operator, merged with its `out=` twin, and the plan of its calls.
    pub(crate) fn new(
        function: &str,
        mode: Mode,
        op: &'static dyn AnyOp,
        out: Option<&'static dyn AnyOp>,
        numbers: bool,
    ) -> (Signature, Self) {
        let declared = arguments(op.def().schema);
        let out_arguments = arguments(out.unwrap_or(op).def().schema);
        let outputs: Vec<&str> = out_arguments
            .iter()
            .filter(|argument| argument.is_written_keyword())
            .map(|argument| argument.name)
            .collect();
        // `out` goes before the options of a factory, and behind anything else.
        let is_factory = declared.iter().filter(|argument| argument.is_option()).count() == 4;
        let is_option = |argument: &Argument<'static>| is_factory && argument.is_option();
        let mut params = visible(&declared, mode, numbers, |argument| !is_option(argument));
        let mut out_param = None;
        if mode == Mode::Function && !outputs.is_empty() {
            let list = out_arguments.iter().any(Argument::is_written_list);
            let single = outputs.len() == 1 && !list;
            let kind = if single { ParamKind::Tensor } else { ParamKind::TensorList };
            out_param = Some((params.len(), (!list).then_some(outputs.len())));
            params.push(Param::new("out", kind, 0, true, true, Some("None")));
        }
        params.extend(visible(&declared, mode, false, is_option));
        let (mut options, mut requires_grad) = (None, None);
        if is_factory {
            let place = |name: &str| params.iter().position(|param| param.name == name);
            options = place("dtype").zip(place("layout")).zip(place("device"));
            requires_grad = Some(params.len());
            params.push(Param::new("requires_grad", ParamKind::Bool, 0, true, true, Some("False")));
        }
        let sort_text = sort_text(&declared);
        let signature = Signature::new(function, params);
        let plan = |op: &'static dyn AnyOp, list: &[Argument<'static>]| Plan {
            op,
            sources: list
                .iter()
                .map(|argument| source(argument, mode, &signature, &outputs))
                .collect(),
        };
        let is_out = declared.iter().any(Argument::is_written_keyword);
        let overload = Self {
            without_out: (!is_out).then(|| plan(op, &declared)),
            out: match out {
                Some(out) => Some(plan(out, &out_arguments)),
                None => is_out.then(|| plan(op, &declared)),
            },
            out_param,
            options: options.map(|((dtype, layout), device)| [dtype, layout, device]),
            requires_grad,
            fields: result_names(op.def().schema),
            result_types: Default::default(),
            sort_text,
            warning: None,
        };
        (signature, overload)
    }

    /// A deprecated order of an operator's arguments, which messages do not mention.
    pub(crate) fn deprecated(
        mode: Mode,
        op: &'static dyn AnyOp,
        out: Option<&'static dyn AnyOp>,
        params: &str,
        present: &Signature,
    ) -> (Signature, Self) {
        let name = op.def().name;
        let mut signature = Signature::from_text(&format!("{name}({params})"));
        if mode == Mode::Method {
            signature = Signature::new(
                name,
                signature.params.into_iter().filter(|param| param.name != "input").collect(),
            );
        }
        let warning = format!(
            "This overload of {name} is deprecated:\n\t{name}{}\nConsider using one of the \
             following signatures instead:\n\t{name}{}",
            signature.display(),
            present.display()
        );
        let mut out_param = None;
        if let (Mode::Function, Some(_)) = (mode, out) {
            out_param = Some((signature.params.len(), Some(1)));
            let mut params = signature.params;
            params.push(Param::new("out", ParamKind::Tensor, 0, true, true, Some("None")));
            signature = Signature::new(name, params);
        }
        signature.hidden = true;
        let plan = |op: &'static dyn AnyOp| Plan {
            op,
            sources: arguments(op.def().schema)
                .iter()
                .map(|argument| source(argument, mode, &signature, &["out"]))
                .collect(),
        };
        let overload = Self {
            without_out: Some(plan(op)),
            out: out.map(plan),
            out_param,
            options: None,
            requires_grad: None,
            fields: Vec::new(),
            result_types: Default::default(),
            sort_text: String::new(),
            warning: Some(warning),
        };
        (signature, overload)
    }
}

/// The signature in the spelling by which PyTorch sorts overloads.
fn sort_text(declared: &[Argument<'static>]) -> String {
    let mut text = String::new();
    let mut starred = false;
    for argument in declared {
        if argument.keyword_only && !starred {
            text.push_str("*, ");
            starred = true;
        }
        let ty = plain_type(argument.ty);
        let (base, optional) = match ty.strip_suffix('?') {
            Some(base) => (base, "?"),
            None => (ty.as_str(), ""),
        };
        let spelled = match base.split_once('[') {
            Some(("int", size)) => format!("IntArrayRef[{size}"),
            Some(("SymInt", size)) => format!("SymIntArrayRef[{size}"),
            Some(("Tensor", _)) => "TensorList".to_owned(),
            Some(("Tensor?", _)) => "c10::List".to_owned(),
            Some(("bool", _)) => "std::array".to_owned(),
            Some(("Scalar", _)) => "ScalarList".to_owned(),
            Some((other, _)) => format!("ArrayRef<{other}>"),
            None => match base {
                "int" => "int64_t".to_owned(),
                "float" => "double".to_owned(),
                "str" => "c10::string_view".to_owned(),
                other => other.to_owned(),
            },
        };
        text.push_str(&spelled.replace("[]", ""));
        text.push_str(optional);
        text.push(' ');
        text.push_str(if argument.name == "self" { "input" } else { argument.name });
        if let Some(default) = argument.default {
            text.push('=');
            text.push_str(default);
        }
        text.push_str(", ");
    }
    text
}

/// The parameters that Python sees of those that `chosen` picks.
fn visible(
    declared: &[Argument<'static>],
    mode: Mode,
    numbers: bool,
    chosen: impl Fn(&Argument<'static>) -> bool,
) -> Vec<Param> {
    declared
        .iter()
        .filter(|argument| chosen(argument) && !argument.is_written_keyword())
        .filter(|argument| !(mode == Mode::Method && argument.name == "self"))
        .filter_map(|argument| {
            let (kind, count, nullable) = ParamKind::from_schema(argument.ty)?;
            let name = match argument.name {
                "self" if kind == ParamKind::Tensor || kind == ParamKind::TensorList => "input",
                other => other,
            };
            let default = match (argument.name, argument.default) {
                ("pin_memory", Some("None")) => Some("False"),
                (_, default) => default,
            };
            let mut param = Param::new(name, kind, count, nullable, argument.keyword_only, default);
            param.symbolic = argument.ty.contains("SymInt");
            param.numbers = numbers && kind == ParamKind::Tensor;
            Some(param)
        })
        .collect()
}

fn source(
    argument: &Argument<'static>,
    mode: Mode,
    signature: &Signature,
    outputs: &[&str],
) -> Source {
    if mode == Mode::Method && argument.name == "self" {
        return Source::This;
    }
    if argument.is_written_list() {
        return Source::Outs;
    }
    if argument.is_written_keyword() {
        let index = outputs.iter().position(|name| *name == argument.name).unwrap_or(0);
        return Source::Out(index);
    }
    let name = if argument.name == "self" { "input" } else { argument.name };
    let place =
        signature.params.iter().position(|param| param.name == name || param.name == argument.name);
    match place {
        Some(index) => Source::Param(index),
        None => Source::Fixed(match (ParamKind::from_schema(argument.ty), argument.default) {
            (Some((kind, count, _)), Some(text)) => default_value(kind, count, text),
            _ => IValue::None,
        }),
    }
}
