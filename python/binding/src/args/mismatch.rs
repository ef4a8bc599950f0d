//! The error messages of the parser, in PyTorch's words.

use super::check::{Overloaded, Verdict, check};
use super::signature::{Param, ParamKind, Signature};
use crate::py::call::Args;
use crate::py::errors::type_error;
use crate::py::{Obj, Py, Raised};
use std::fmt::Write;

/// `f() takes 2 positional arguments but 3 were given`.
#[cold]
pub(crate) fn too_many(signature: &Signature, given: usize) -> Raised {
    let max = signature.max_positional;
    let name = &signature.function;
    if signature.params.is_empty() {
        return type_error(format!("TensorBase.{name}() takes no arguments ({given} given)"));
    }
    let were = if given == 1 { "was" } else { "were" };
    let positional_required =
        signature.params.iter().filter(|param| !param.optional && !param.keyword_only).count();
    if positional_required != max {
        return type_error(format!(
            "{name}() takes from {positional_required} to {max} positional arguments but {given} \
             {were} given"
        ));
    }
    let plural = if max == 1 { "" } else { "s" };
    type_error(format!("{name}() takes {max} positional argument{plural} but {given} {were} given"))
}

/// `f() missing 1 required positional arguments: "b"` (the plural is PyTorch's).
#[cold]
pub(crate) fn missing(signature: &Signature, from: usize) -> Raised {
    let names: Vec<String> = signature.params[from..]
        .iter()
        .filter(|param| !param.optional)
        .map(|param| format!("\"{}\"", param.name))
        .collect();
    let plural = if names.len() == 1 { "s" } else { "" };
    type_error(format!(
        "{}() missing {} required positional argument{plural}: {}",
        signature.function,
        names.len(),
        names.join(", ")
    ))
}

/// `f(): argument 'other' (position 2) must be Tensor, not str`.
#[cold]
pub(crate) fn wrong_type(
    signature: &Signature,
    param: &Param,
    position: Option<usize>,
    object: &Obj,
    verdict: &Verdict,
) -> Raised {
    let place = position.map_or(String::new(), |at| format!(" (position {})", at + 1));
    let head = format!(
        "{}(): argument '{}'{place} must be {}",
        signature.function,
        param.name,
        param.kind.name()
    );
    match (verdict, object.sequence_item(0)) {
        (Verdict::RefusedAt(at), Ok(item)) if position.is_some() => type_error(format!(
            "{head}, but found element of type {} at pos {at}",
            item.type_name()
        )),
        (_, item) => {
            if let Err(raised) = item {
                raised.clear();
            }
            type_error(format!("{head}, not {}", object.type_name()))
        }
    }
}

/// `f() got an unexpected keyword argument 'foo'`.
#[cold]
pub(crate) fn extra_keywords(signature: &Signature, args: Args<'_>) -> Raised {
    if signature.params.is_empty() {
        return type_error(format!(
            "TensorBase.{}() takes no keyword arguments",
            signature.function
        ));
    }
    for index in 0..args.keywords.len() {
        let keyword = match args.keyword(index) {
            Ok(keyword) => keyword,
            Err(raised) => return raised,
        };
        let name = &signature.function;
        match signature.params.iter().position(|param| param.name == keyword) {
            None => {
                return type_error(format!(
                    "{name}() got an unexpected keyword argument '{keyword}'"
                ));
            }
            Some(at) if at < args.positional.len() => {
                return type_error(format!(
                    "{name}() got multiple values for argument '{keyword}'"
                ));
            }
            Some(_) => {}
        }
    }
    type_error("invalid keyword arguments")
}

/// `f() received an invalid combination of arguments - got (…), but expected …`.
#[cold]
pub(crate) fn describe(signatures: &[Signature], args: Args<'_>) -> Py<String> {
    let shown: Vec<&Signature> = signatures.iter().filter(|signature| !signature.hidden).collect();
    let function = shown.first().map_or("", |signature| signature.function.as_str());
    let mut text = format!("{function}() received an invalid combination of arguments - got ");
    if let [only] = shown[..] {
        match unknown_keywords(only, args)? {
            names if !names.is_empty() => {
                text.truncate(text.len() - "got ".len());
                let _ = write!(text, "got unrecognized keyword arguments: {}", names.join(", "));
            }
            _ if count_matches(only, args) => text.push_str(&marked(only, args)?),
            _ => text.push_str(&types_of(args)?),
        }
        let _ = write!(text, ", but expected {}", only.display());
        return Ok(text);
    }
    text.push_str(&types_of(args)?);
    text.push_str(", but expected one of:\n");
    for signature in shown {
        let _ = writeln!(text, " * {}", signature.display());
        if !count_matches(signature, args) {
            continue;
        }
        let unknown = unknown_keywords(signature, args)?;
        if unknown.is_empty() {
            let _ = writeln!(
                text,
                "      didn't match because some of the arguments have invalid types: {}",
                marked(signature, args)?
            );
        } else {
            let _ = writeln!(
                text,
                "      didn't match because some of the keywords were incorrect: {}",
                unknown.join(", ")
            );
        }
    }
    Ok(text)
}

/// Whether as many arguments were given as the printed signature has pieces between commas, the
/// star included. That is how PyTorch picks the signatures it explains.
fn count_matches(signature: &Signature, args: Args<'_>) -> bool {
    let starred = signature.params.iter().any(|param| param.keyword_only);
    let pieces = signature.params.len().max(1) + usize::from(starred);
    args.positional.len() + args.keywords.len() == pieces
}

/// The keywords that are no parameter's whole text among the last pieces; one with a default never
/// is, as PyTorch compares with the default included.
fn unknown_keywords(signature: &Signature, args: Args<'_>) -> Py<Vec<String>> {
    let from = signature.params.len().saturating_sub(args.keywords.len());
    let mut unknown = Vec::new();
    for index in 0..args.keywords.len() {
        let keyword = args.keyword(index)?;
        let known = signature.params[from..]
            .iter()
            .any(|param| param.name == keyword && param.default_text.is_none());
        if !known {
            unknown.push(keyword);
        }
    }
    Ok(unknown)
}

/// What follows the last argument in a list: PyTorch's list ends in a comma without positional ones.
fn trailing(args: Args<'_>) -> &'static str {
    if args.positional.is_empty() && !args.keywords.is_empty() { ", " } else { "" }
}

/// `(Tensor, int, dim=str)`.
fn types_of(args: Args<'_>) -> Py<String> {
    let mut parts: Vec<String> = args.positional.iter().map(short_type).collect();
    for (index, value) in args.keywords.iter().enumerate() {
        parts.push(format!("{}={}", args.keyword(index)?, short_type(value)));
    }
    Ok(format!("({}{})", parts.join(", "), trailing(args)))
}

/// `(Tensor, !int!)`: what does not fit stands between exclamation marks.
fn marked(signature: &Signature, args: Args<'_>) -> Py<String> {
    let mut parts = Vec::new();
    for (index, value) in args.positional.iter().enumerate() {
        let fits = match signature.params.get(index) {
            Some(param) => accepts(param, value),
            None => false,
        };
        parts.push(if fits { long_type(value)? } else { format!("!{}!", long_type(value)?) });
    }
    for (index, value) in args.keywords.iter().enumerate() {
        let keyword = args.keyword(index)?;
        let fits = signature
            .params
            .iter()
            .find(|param| param.name == keyword)
            .is_some_and(|param| accepts(param, value));
        let ty = long_type(value)?;
        parts.push(if fits { format!("{keyword}={ty}") } else { format!("!{keyword}={ty}!") });
    }
    Ok(format!("({}{})", parts.join(", "), trailing(args)))
}

fn accepts(param: &Param, value: &Obj) -> bool {
    if value.is_none() && param.nullable {
        return true;
    }
    // PyTorch compares names here, and no object's type is called "Number" or "tuple of ints".
    if matches!(param.kind, ParamKind::Scalar | ParamKind::IntList) {
        return false;
    }
    match check(param, value, 0, &mut Overloaded::new()) {
        Ok(verdict) => matches!(verdict, Verdict::Accepted),
        Err(raised) => {
            raised.clear();
            false
        }
    }
}

fn short_type(value: &Obj) -> String {
    value.type_name()
}

/// The type with that of a sequence's items: `tuple of (int, str)`.
fn long_type(value: &Obj) -> Py<String> {
    let name = value.type_name();
    let (open, close) = match (value.is_tuple(), value.is_list()) {
        (true, _) if name == "tuple" => ('(', ')'),
        (_, true) => ('[', ']'),
        _ => return Ok(name),
    };
    let items = value.items()?;
    let kinds: Vec<String> = items.iter().map(short_type).collect();
    let tail = if kinds.len() == 1 { "," } else { "" };
    Ok(format!("{name} of {open}{}{tail}{close}", kinds.join(", ")))
}
