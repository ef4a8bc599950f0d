//! Wrappers in the middle of a nest.

use super::{levels, of, wrap};
use crate::{Tensor, op};
use corten_core::Result;

/// The tensor with the dimension of a level in sight, and where that is; `None` where it has none.
///
/// # Errors
/// Those of making a tensor.
pub fn expose(tensor: &Tensor, level: u64) -> Result<(Tensor, Option<usize>)> {
    let Some(outer) = of(tensor) else { return Ok((tensor.clone(), None)) };
    if outer.level <= level {
        let found = (outer.level == level).then_some(outer.dim);
        return Ok(if found.is_some() { (outer.value, found) } else { (tensor.clone(), None) });
    }
    let (value, found) = expose(&outer.value, level)?;
    let Some(found) = found else { return Ok((tensor.clone(), None)) };
    let dim = if found <= outer.dim { outer.dim + 1 } else { outer.dim };
    let found = if dim < found { found - 1 } else { found };
    Ok((wrap(value, dim, outer.level)?, Some(found)))
}

/// The tensor with dimension `dim` hidden for `level`, below the wrappers of higher levels.
///
/// # Errors
/// Those of making a tensor.
pub fn enclose(tensor: &Tensor, dim: usize, level: u64) -> Result<Tensor> {
    let Some(outer) = of(tensor).filter(|outer| outer.level > level) else {
        return wrap(tensor.clone(), dim, level);
    };
    let place = if dim >= outer.dim { dim + 1 } else { dim };
    let value = enclose(&outer.value, place, level)?;
    let dim = if place < outer.dim { outer.dim - 1 } else { outer.dim };
    wrap(value, dim, outer.level)
}

/// The tensor repeated along a hidden dimension for every open level that it has none of.
///
/// # Errors
/// Those of `expand`.
pub fn everywhere(tensor: &Tensor) -> Result<Tensor> {
    let mut tensor = tensor.clone();
    for (level, size) in levels::alive() {
        if expose(&tensor, level)?.1.is_some() {
            continue;
        }
        let mut sizes = vec![size];
        sizes.extend_from_slice(&tensor.sizes());
        tensor = enclose(&op::expand(&tensor, &sizes, false)?, 0, level)?;
    }
    Ok(tensor)
}
