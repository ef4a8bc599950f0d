//! Names of dimensions in calls that no signature takes: in the place of positions, and as `names=` of
//! factories. What fails to parse comes here, so that calls by position do not ask for names.

use super::call::call_group;
use super::group::Group;
use crate::args::{ParamKind, Signature};
use crate::py::{Args, Obj, Py};
use crate::tensor::{self, dim_name, dim_names};
use corten_core::names_in_use;
use corten_ops::Tensor;

/// The result of a call with names; nothing where it has none.
#[cold]
pub(super) fn call(group: &'static Group, this: Option<&Obj>, args: Args<'_>) -> Option<Py<Obj>> {
    let has_rule =
        |name: &str| group.ops().iter().any(|op| op.def().names.is_some_and(|r| r.name == name));
    if has_rule("given") {
        return without_names(args, |rest| call_group(group, this, rest));
    }
    let (value, rest) = match (this, args.positional.split_first()) {
        (Some(this), _) => (tensor::get(this)?.clone(), args.positional),
        (None, Some((first, rest))) => (first_tensor(first)?, rest),
        (None, None) => return None,
    };
    if has_rule("unflatten")
        && let Some(done) = unflatten(&value, rest, args)
    {
        return Some(done);
    }
    if !names_in_use() || !value.has_names() {
        return None;
    }
    if has_rule("flatten") {
        return flatten(&value, rest, args);
    }
    if has_rule("diagonal")
        && let Some((outdim, keywords)) = split(args, "outdim")
    {
        return Some(diagonal(group, this, &outdim, &keywords, args));
    }
    by_position(group, &value, this, args)
}

/// Calls a factory without `names=` and names its result; nothing where there are no names.
pub(crate) fn without_names(
    args: Args<'_>,
    make: impl FnOnce(Args<'_>) -> Py<Obj>,
) -> Option<Py<Obj>> {
    let (names, keywords) = split(args, "names")?;
    let run = || {
        let names = dim_names(&names)?;
        let made = with_keywords(args, &keywords, make)?;
        if let (Some(names), Some(made)) = (names, tensor::get(&made)) {
            made.set_names(Some(&names))?;
        }
        Ok(made)
    };
    Some(run())
}

/// A keyword argument, and the others.
fn split(args: Args<'_>, wanted: &str) -> Option<(Obj, Vec<(String, Obj)>)> {
    let mut keywords = Vec::new();
    let mut found = None;
    for (index, value) in args.keywords.iter().enumerate() {
        match args.keyword(index) {
            Ok(name) if name == wanted => found = Some(value.clone()),
            Ok(name) => keywords.push((name, value.clone())),
            Err(raised) => raised.clear(),
        }
    }
    Some((found?, keywords))
}

/// Calls with other keyword arguments.
fn with_keywords(
    args: Args<'_>,
    keywords: &[(String, Obj)],
    call: impl FnOnce(Args<'_>) -> Py<Obj>,
) -> Py<Obj> {
    let names: Vec<Py<Obj>> = keywords.iter().map(|(name, _)| Obj::str_from(name)).collect();
    let names = Obj::tuple(names)?;
    let values: Vec<Obj> = keywords.iter().map(|(_, value)| value.clone()).collect();
    call(Args { keywords: &values, names: Some(&names), ..args })
}

/// `diagonal(outdim=, dim1=, dim2=, offset=)`: the diagonal is a dimension with a name.
fn diagonal(
    group: &'static Group,
    this: Option<&Obj>,
    outdim: &Obj,
    keywords: &[(String, Obj)],
    args: Args<'_>,
) -> Py<Obj> {
    let name = dim_name(outdim)?;
    let made = with_keywords(args, keywords, |rest| call_group(group, this, rest))?;
    if let Some(tensor) = tensor::get(&made) {
        let mut names = tensor.dim_names();
        names.pop();
        names.push(name);
        tensor.set_names(Some(&names))?;
    }
    Ok(made)
}

/// The tensor that names are looked up in: the first of a list.
fn first_tensor(object: &Obj) -> Option<Tensor> {
    if object.is_tuple() || object.is_list() {
        let item = object.sequence_item(0).map_err(crate::py::Raised::clear).ok()?;
        return tensor::get(&item).cloned();
    }
    tensor::get(object).cloned()
}

/// Calls the group with positions in the place of names.
fn by_position(
    group: &'static Group,
    value: &Tensor,
    this: Option<&Obj>,
    args: Args<'_>,
) -> Option<Py<Obj>> {
    let signatures = &group.table().parser.signatures;
    let mut found = false;
    let mut replace = |object: &Obj, is_dim: bool| -> Py<Obj> {
        match is_dim.then(|| positions(value, object)).transpose()?.flatten() {
            Some(replaced) => {
                found = true;
                Ok(replaced)
            }
            None => Ok(object.clone()),
        }
    };
    let mut run = || {
        let positional: Vec<Obj> = args
            .positional
            .iter()
            .enumerate()
            .map(|(at, object)| replace(object, signatures.iter().any(|s| takes_dims(s, at))))
            .collect::<Py<_>>()?;
        let mut keywords = Vec::new();
        for (at, object) in args.keywords.iter().enumerate() {
            keywords.push(replace(object, is_dim_name(&args.keyword(at)?))?);
        }
        Ok((positional, keywords))
    };
    let (positional, keywords) = match run() {
        Ok(replaced) => replaced,
        Err(raised) => return Some(Err(raised)),
    };
    let args = Args { positional: &positional, keywords: &keywords, names: args.names };
    found.then(|| call_group(group, this, args))
}

/// Whether a positional argument may be a dimension.
fn takes_dims(signature: &Signature, at: usize) -> bool {
    let collects = signature.max_positional == 1;
    let param = signature.params.get(if collects { 0 } else { at });
    param.is_some_and(|param| {
        matches!(param.kind, ParamKind::Int | ParamKind::IntList) && is_dim_name(&param.name)
    })
}

fn is_dim_name(name: &str) -> bool {
    let trimmed = name.trim_end_matches(|c: char| c.is_ascii_digit());
    matches!(trimmed, "dim" | "dims" | "axis" | "source" | "destination" | "start_dim" | "end_dim")
}

/// Positions in the place of a name, or of a list with names; nothing where there is no name.
fn positions(value: &Tensor, object: &Obj) -> Py<Option<Obj>> {
    if object.is_str() {
        return Obj::int(value.dim_of(object.as_str()?)?).map(Some);
    }
    if !object.is_tuple() && !object.is_list() {
        return Ok(None);
    }
    let items = object.items()?;
    if !items.iter().any(Obj::is_str) {
        return Ok(None);
    }
    let place = |item: &Obj| match item.is_str() || item.is_none() {
        true => Ok(value.dims_of(vec![dim_name(item)?])?[0]),
        false => item.to_i64(),
    };
    let places: Vec<i64> = items.iter().map(place).collect::<Py<_>>()?;
    Obj::int_tuple(&places).map(Some)
}

/// All arguments in the order of these parameters, as far as they are given.
fn in_order(rest: &[Obj], args: Args<'_>, params: &[&str]) -> Option<Vec<Obj>> {
    let mut all = rest.to_vec();
    for param in params.iter().skip(rest.len()) {
        let given = |at: &usize| args.keyword(*at).is_ok_and(|name| name == *param);
        all.extend((0..args.keywords.len()).find(given).map(|at| args.keywords[at].clone()));
    }
    (all.len() == rest.len() + args.keywords.len()).then_some(all)
}

/// `flatten(dims, out_dim)` and `flatten(start_dim, end_dim, out_dim)`.
fn flatten(value: &Tensor, rest: &[Obj], args: Args<'_>) -> Option<Py<Obj>> {
    let lists = rest.first().is_some_and(|first| first.is_tuple() || first.is_list())
        || args.keywords.iter().any(|given| given.is_tuple() || given.is_list());
    let params: &[&str] =
        if lists { &["dims", "out_dim"] } else { &["start_dim", "end_dim", "out_dim"] };
    let all = in_order(rest, args, params)?;
    let dim = |object: &Obj| match object.is_str() {
        true => Ok(value.dim_of(object.as_str()?)?),
        false => object.to_i64(),
    };
    let run = || {
        let flat = match &all[..] {
            [dims, out] if lists => {
                let dims = dim_names(dims)?.unwrap_or_default();
                value.flatten_names(dims, out.as_str()?)?
            }
            [start, end, out] => value.flatten_range(dim(start)?, dim(end)?, out.as_str()?)?,
            _ => return Ok(None),
        };
        tensor::wrap_owned(flat).map(Some)
    };
    run().transpose()
}

/// `unflatten(dim, sizes)` where the sizes have names: pairs, or a dictionary.
fn unflatten(value: &Tensor, rest: &[Obj], args: Args<'_>) -> Option<Py<Obj>> {
    let all = in_order(rest, args, &["dim", "sizes"])?;
    let [dim, sizes] = &all[..] else { return None };
    let pairs = match sizes.is_dict() {
        true => sizes.call_method(crate::py::name!("items"), &[]).and_then(|items| items.items()),
        false if sizes.is_tuple() || sizes.is_list() => sizes.items(),
        false => return None,
    };
    let pairs = match pairs {
        Ok(pairs) => pairs,
        Err(raised) => return Some(Err(raised)),
    };
    let is_pair = |item: &Obj| (item.is_tuple() || item.is_list()) && item.sequence_len() == 2;
    if pairs.is_empty() || !pairs.iter().all(is_pair) {
        return None;
    }
    let run = || {
        let (mut names, mut lengths) = (Vec::new(), Vec::new());
        for pair in &pairs {
            names.push(dim_name(&pair.sequence_item(0)?)?);
            lengths.push(pair.sequence_item(1)?.to_i64()?);
        }
        let dim = if dim.is_str() { value.dim_of(dim.as_str()?)? } else { dim.to_i64()? };
        tensor::wrap_owned(value.unflatten_at(dim, &lengths, &names)?)
    };
    Some(run())
}
