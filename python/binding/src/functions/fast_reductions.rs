//! Fast paths of reductions: of everything, and of small tensors over one dimension, given by place
//! or by name.

use super::fast::{Fast, finish, int, is_small, split, unary};
use crate::py::{Args, Obj, Py, TypeCell, name};
use crate::tensor;
use crate::types::structseq;
use corten_core::Result;
use corten_ops::{Tensor, op};
use std::sync::OnceLock;

/// The fast path of a reduction, if it has one.
pub(super) fn find(name: &str) -> Option<Fast> {
    Some(match name {
        "sum" => |this, args| {
            let along = |x: &Tensor, dim, keep| op::sum_dim_intlist(x, Some(&[dim]), keep, None);
            unary(this, args, |x| op::sum(x, None)).or_else(|| reduced(this, args, along))
        },
        "mean" => |this, args| {
            let along = |x: &Tensor, dim, keep| op::mean_dim(x, Some(&[dim]), keep, None);
            unary(this, args, |x| op::mean(x, None)).or_else(|| reduced(this, args, along))
        },
        "amax" => |this, args| reduced(this, args, |x, dim, keep| op::amax(x, &[dim], keep)),
        "amin" => |this, args| reduced(this, args, |x, dim, keep| op::amin(x, &[dim], keep)),
        "argmax" => |this, args| reduced(this, args, |x, dim, keep| op::argmax(x, Some(dim), keep)),
        "argmin" => |this, args| reduced(this, args, |x, dim, keep| op::argmin(x, Some(dim), keep)),
        "logsumexp" => {
            |this, args| reduced(this, args, |x, dim, keep| op::logsumexp(x, &[dim], keep))
        }
        "max" => |this, args| {
            static TYPE: OnceLock<&TypeCell> = OnceLock::new();
            unary(this, args, op::max).or_else(|| selected(this, args, op::max_dim, &TYPE, "max"))
        },
        "min" => |this, args| {
            static TYPE: OnceLock<&TypeCell> = OnceLock::new();
            unary(this, args, op::min).or_else(|| selected(this, args, op::min_dim, &TYPE, "min"))
        },
        _ => return None,
    })
}

/// A small tensor, a dimension, and whether it stays, and nothing else.
fn dimension<'a>(this: Option<&'a Obj>, args: Args<'a>) -> Option<(&'a Tensor, i64, bool)> {
    let (x, rest) = split(this, Args { names: None, ..args })?;
    let mut given = [rest.first(), rest.get(1)];
    for (at, value) in args.keywords.iter().enumerate() {
        let key = args.keyword_ptr(at);
        let names = [name!("dim"), name!("keepdim")];
        let place = names.iter().position(|name| name.as_ptr() == key)?;
        if given[place].replace(value).is_some() {
            return None;
        }
    }
    let [Some(dim), keep] = given else { return None };
    let keep = match keep {
        None => false,
        Some(keep) if keep.is_bool() => keep.is(&Obj::bool(true)),
        Some(_) => return None,
    };
    let fits = rest.len() <= 2 && is_small(&[x]);
    Some((x, int(dim).filter(|_| fits)?, keep))
}

fn reduced(
    this: Option<&Obj>,
    args: Args<'_>,
    run: fn(&Tensor, i64, bool) -> Result<Tensor>,
) -> Option<Py<Obj>> {
    let (x, dim, keep) = dimension(this, args)?;
    finish(run(x, dim, keep))
}

/// Values and their indices, as a named tuple.
fn selected(
    this: Option<&Obj>,
    args: Args<'_>,
    run: fn(&Tensor, i64, bool) -> Result<(Tensor, Tensor)>,
    known: &OnceLock<&'static TypeCell>,
    name: &str,
) -> Option<Py<Obj>> {
    let (x, dim, keep) = dimension(this, args)?;
    let wrap = |(values, indices)| {
        let ty = match known.get() {
            Some(ty) => ty,
            None => {
                let made = structseq::type_for(name, &["values", "indices"])?;
                known.get_or_init(|| made)
            }
        };
        structseq::result(ty, vec![tensor::wrap_owned(values)?, tensor::wrap_owned(indices)?])
    };
    Some(run(x, dim, keep).map_err(Into::into).and_then(wrap))
}
