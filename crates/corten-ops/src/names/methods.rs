//! The methods of tensors that give, change and use names.

use super::without_names;
use crate::{Tensor, op};
use corten_core::{DimName, Result, ShownNames, bail, check_name, ensure, geometry};
use std::sync::Arc;

/// Stands for several names in lists of them.
const ELLIPSIS: &str = "...";

/// A list of names: `["N", "C"]`, or `[Some("N"), None]` where some dimensions have none. `"..."`
/// stands for those that are not mentioned, where a method says so.
///
/// ```
/// use corten::ops::names::IntoNames;
///
/// assert_eq!(["N", "C"].into_names()[1].as_deref(), Some("C"));
/// assert!([Some("N"), None].into_names()[1].is_none());
/// ```
pub trait IntoNames {
    /// The list.
    fn into_names(self) -> Vec<DimName>;
}

impl IntoNames for &[&str] {
    fn into_names(self) -> Vec<DimName> {
        self.iter().map(|name| Some(Arc::from(*name))).collect()
    }
}

impl<const N: usize> IntoNames for [&str; N] {
    fn into_names(self) -> Vec<DimName> {
        self.as_slice().into_names()
    }
}

impl IntoNames for &[Option<&str>] {
    fn into_names(self) -> Vec<DimName> {
        self.iter().map(|name| name.map(Arc::from)).collect()
    }
}

impl<const N: usize> IntoNames for [Option<&str>; N] {
    fn into_names(self) -> Vec<DimName> {
        self.as_slice().into_names()
    }
}

impl IntoNames for Vec<DimName> {
    fn into_names(self) -> Vec<DimName> {
        self
    }
}

impl IntoNames for &[DimName] {
    fn into_names(self) -> Vec<DimName> {
        self.to_vec()
    }
}

/// Dimensions with names.
///
/// ```
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// let images = Tensor::zeros([2, 3, 4, 5])?.refine_names(["N", "C", "H", "W"])?;
/// let means = images.mean_dim(Some(&images.dims_of(["H", "W"])?))?;
/// assert_eq!(means.sizes().as_slice(), [2, 3]);
/// assert_eq!(means.dim_of("C")?, 1);
///
/// let last = images.align_to(["N", "...", "C"])?;
/// assert_eq!(last.sizes().as_slice(), [2, 4, 5, 3]);
/// let flat = images.flatten_names(["C", "H", "W"], "features")?;
/// assert_eq!(flat.sizes().as_slice(), [2, 60]);
/// assert!((&images + &last).is_err());
/// # Ok(())
/// # }
/// ```
impl Tensor {
    /// A view whose dimensions have these names; `"..."` keeps those that it stands for, and
    /// `[None]` takes all names away.
    ///
    /// # Errors
    /// `Runtime` for names that are no identifiers, are not unique or do not suit the rank.
    pub fn rename(&self, names: impl IntoNames) -> Result<Self> {
        let names = self.new_names(names.into_names(), "rename")?;
        self.named_alias(names)
    }

    /// As [`rename`](Self::rename), in place.
    ///
    /// # Errors
    /// As there.
    pub fn rename_(&self, names: impl IntoNames) -> Result<()> {
        let names = self.new_names(names.into_names(), "rename_")?;
        self.set_names(names.as_deref())
    }

    /// A view in which some names are others: pairs of the present and the new one, which may be
    /// `None`.
    ///
    /// # Errors
    /// `Runtime` for a name that no dimension has; those of [`rename`](Self::rename).
    pub fn rename_pairs<'a, N>(&self, pairs: &[(&str, N)]) -> Result<Self>
    where
        N: Into<Option<&'a str>> + Copy,
    {
        let names = self.replaced_names(pairs, "rename")?;
        self.named_alias(Some(names))
    }

    /// As [`rename_pairs`](Self::rename_pairs), in place.
    ///
    /// # Errors
    /// As there.
    pub fn rename_pairs_<'a, N>(&self, pairs: &[(&str, N)]) -> Result<()>
    where
        N: Into<Option<&'a str>> + Copy,
    {
        self.set_names(Some(&self.replaced_names(pairs, "rename_")?))
    }

    /// A view in which dimensions without a name have one: names that there are must be given again.
    /// `"..."` keeps those that it stands for.
    ///
    /// # Errors
    /// `Runtime` for a name in the place of another one; those of [`rename`](Self::rename).
    pub fn refine_names(&self, names: impl IntoNames) -> Result<Self> {
        let own = self.dim_names();
        let names = with_ellipsis(names.into_names(), &own, "refine_names")?;
        ensure!(
            own.len() == names.len(),
            Runtime,
            "refine_names: cannot coerce Tensor{} to Tensor{} because they have a different number of \
             dims ({} and {} respectively).",
            ShownNames(&own),
            ShownNames(&names),
            own.len(),
            names.len()
        );
        self.check_names(&names)?;
        for (index, (old, new)) in own.iter().zip(&names).enumerate() {
            let Some(name) = old.as_ref().filter(|_| old != new) else { continue };
            let why = match new {
                None => "more specific than None".to_owned(),
                Some(new) => format!("different from '{new}'"),
            };
            bail!(
                Runtime,
                "refine_names: cannot coerce Tensor{} to Tensor{} because '{name}' is {why} at index \
                 {index}",
                ShownNames(&own),
                ShownNames(&names)
            );
        }
        self.named_alias(Some(names))
    }

    /// A view with the dimensions in the order of these names; a name that the tensor does not have is
    /// a new dimension of size 1. `"..."` stands for the dimensions that are not mentioned, in their
    /// order.
    ///
    /// # Errors
    /// `Runtime` where a dimension is not mentioned or has no name, unless `"..."` stands for it.
    pub fn align_to(&self, names: impl IntoNames) -> Result<Self> {
        let (own, mut names) = (self.dim_names(), names.into_names());
        match ellipsis(&names, "align_to")? {
            Some(place) => {
                names.remove(place);
                ensure!(
                    names.iter().all(Option::is_some),
                    Runtime,
                    "align_to: the desired order of dimensions cannot contain a None name, got {}",
                    ShownNames(&names)
                );
                let mut order: Vec<Source> = names.iter().map(|name| source(name, &own)).collect();
                let rest =
                    (0..own.len()).filter(|dim| own[*dim].is_none() || !names.contains(&own[*dim]));
                order.splice(place..place, rest.map(Source::Dim).collect::<Vec<_>>());
                let all = order.iter().zip(filled(&order, names, place));
                self.aligned(&order, all.map(|(from, name)| from.name(&own, name)).collect())
            }
            None => {
                for (index, name) in own.iter().enumerate() {
                    let Some(name) = name else {
                        bail!(
                            Runtime,
                            "align_to: All input dims must be named. Found unnamed dim at index \
                             {index} of Tensor{}",
                            ShownNames(&own)
                        )
                    };
                    ensure!(
                        names.contains(&own[index]),
                        Runtime,
                        "align_to: Cannot find dim '{name}' from Tensor{} in desired alignment {}.",
                        ShownNames(&own),
                        ShownNames(&names)
                    );
                }
                let order: Vec<Source> = names.iter().map(|name| source(name, &own)).collect();
                self.aligned(&order, names)
            }
        }
    }

    /// [`align_to`](Self::align_to) the names of another tensor.
    ///
    /// # Errors
    /// As there.
    pub fn align_as(&self, other: &Self) -> Result<Self> {
        self.align_to(other.dim_names())
    }

    /// The position of the dimension with this name.
    ///
    /// # Errors
    /// `Runtime` where there is none.
    pub fn dim_of(&self, name: &str) -> Result<i64> {
        let own = self.dim_names();
        match own.iter().position(|other| other.as_deref() == Some(name)) {
            Some(dim) => Ok(dim as i64),
            None => bail!(Runtime, "Name '{name}' not found in Tensor{}.", ShownNames(&own)),
        }
    }

    /// The positions of the dimensions with these names.
    ///
    /// # Errors
    /// `Runtime` where there is none.
    pub fn dims_of(&self, names: impl IntoNames) -> Result<Vec<i64>> {
        let position = |name: &DimName| match name {
            Some(name) => self.dim_of(name),
            None => bail!(Runtime, "Please look up dimensions by name, got: name = None."),
        };
        names.into_names().iter().map(position).collect()
    }

    /// Neighbouring dimensions as one, which is named `out_dim`.
    ///
    /// # Errors
    /// `Runtime` where the dimensions are no neighbours in this order.
    pub fn flatten_names(&self, dims: impl IntoNames, out_dim: &str) -> Result<Self> {
        let dims = dims.into_names();
        let positions = self.dims_of(dims.as_slice())?;
        let (Some(first), Some(last)) = (positions.first(), positions.last()) else {
            bail!(Runtime, "flatten(tensor, dims, out_dim): dims cannot be empty")
        };
        ensure!(
            positions.windows(2).all(|pair| pair[0] + 1 == pair[1]),
            Runtime,
            "flatten(tensor, dims, out_dim): dims {} must be consecutive in Tensor{}",
            ShownNames(&dims),
            ShownNames(&self.dim_names())
        );
        self.flatten_range(*first, *last, out_dim)
    }

    /// The dimensions from `start_dim` to `end_dim` as one, which is named `out_dim`.
    ///
    /// # Errors
    /// `Index` for a dimension out of range.
    pub fn flatten_range(&self, start_dim: i64, end_dim: i64, out_dim: &str) -> Result<Self> {
        check_name(out_dim)?;
        let mut names = self.dim_names();
        let name = Some(Arc::from(out_dim));
        let wrap = |dim| geometry::wrap_dim(dim, self.dim());
        let (start, end) = (wrap(start_dim)?, wrap(end_dim)?);
        let mut flat = without_names(|| op::flatten_using_ints(self, start_dim, end_dim))?;
        if names.is_empty() {
            names.push(name);
        } else {
            names.splice(start..=end, [name]);
        }
        if flat.is_same(self) {
            flat = without_names(|| op::alias(self))?;
        }
        flat.set_names(Some(&names))?;
        Ok(flat)
    }

    /// One dimension as several with these names and sizes.
    ///
    /// # Errors
    /// `Runtime` where the sizes do not make up that of the dimension.
    pub fn unflatten_names(&self, dim: &str, sizes: &[(&str, i64)]) -> Result<Self> {
        let named: Vec<DimName> = sizes.iter().map(|(name, _)| Some(Arc::from(*name))).collect();
        let sizes: Vec<i64> = sizes.iter().map(|(_, size)| *size).collect();
        self.unflatten_at(self.dim_of(dim)?, &sizes, &named)
    }

    /// The dimension at a position as several with these sizes and names.
    ///
    /// # Errors
    /// As [`unflatten_names`](Self::unflatten_names).
    pub fn unflatten_at(&self, dim: i64, sizes: &[i64], named: &[DimName]) -> Result<Self> {
        let mut names = self.dim_names();
        let place = geometry::wrap_dim_strict(dim, self.dim())?;
        let made = without_names(|| op::unflatten_int(self, dim, sizes))?;
        names.splice(place..=place, named.iter().cloned());
        made.set_names(Some(&names))?;
        Ok(made)
    }

    /// This tensor with names, for one that was just made: `Tensor::zeros([2, 3])?.with_names(["N", "C"])?`.
    ///
    /// # Errors
    /// As [`rename`](Self::rename).
    pub fn with_names(self, names: impl IntoNames) -> Result<Self> {
        self.set_names(Some(&names.into_names()))?;
        Ok(self)
    }

    /// A view with other names.
    fn named_alias(&self, names: Option<Vec<DimName>>) -> Result<Self> {
        if let Some(names) = &names {
            self.check_names(names)?;
        }
        let alias = without_names(|| op::alias(self))?;
        alias.set_names(names.as_deref())?;
        Ok(alias)
    }

    /// The names that `rename` is given, `"..."` replaced.
    fn new_names(&self, names: Vec<DimName>, function: &str) -> Result<Option<Vec<DimName>>> {
        if let [None] = names[..] {
            return Ok(None);
        }
        with_ellipsis(names, &self.dim_names(), function).map(Some)
    }

    fn replaced_names<'a, N>(&self, pairs: &[(&str, N)], function: &str) -> Result<Vec<DimName>>
    where
        N: Into<Option<&'a str>> + Copy,
    {
        let own = self.dim_names();
        let mut names = own.clone();
        for (old, new) in pairs {
            let new: Option<&str> = (*new).into();
            let Some(place) = own.iter().position(|name| name.as_deref() == Some(*old)) else {
                bail!(
                    Runtime,
                    "{function}: Tried to rename dim '{old}' to dim {} in Tensor[{}] but dim '{old}' \
                     does not exist",
                    new.unwrap_or("None"),
                    tuple_of(&own)
                )
            };
            names[place] = new.map(Arc::from);
        }
        Ok(names)
    }

    /// The dimensions in another order, with new ones between.
    fn aligned(&self, order: &[Source], names: Vec<DimName>) -> Result<Self> {
        let dims: Vec<i64> = order.iter().filter_map(Source::dim).collect();
        let made = without_names(|| {
            let mut made = op::permute(self, &dims)?;
            for (place, from) in order.iter().enumerate() {
                if from.dim().is_none() {
                    made = op::unsqueeze(&made, place as i64)?;
                }
            }
            Ok(made)
        })?;
        made.set_names(Some(&names))?;
        Ok(made)
    }
}

/// Where a dimension of an aligned tensor comes from.
#[derive(Clone, Copy)]
enum Source {
    Dim(usize),
    New,
}

impl Source {
    fn dim(&self) -> Option<i64> {
        match self {
            Self::Dim(dim) => Some(*dim as i64),
            Self::New => None,
        }
    }

    fn name(&self, own: &[DimName], given: DimName) -> DimName {
        match self {
            Self::Dim(dim) => own[*dim].clone(),
            Self::New => given,
        }
    }
}

fn source(name: &DimName, own: &[DimName]) -> Source {
    own.iter().position(|other| other == name).map_or(Source::New, Source::Dim)
}

/// The names with as many absent ones in the place of the ellipsis as it stands for.
fn filled(order: &[Source], mut names: Vec<DimName>, place: usize) -> Vec<DimName> {
    // Bounded: dimensions.
    let absent = vec![None; order.len() - names.len()];
    names.splice(place..place, absent);
    names
}

/// Where the ellipsis is.
fn ellipsis(names: &[DimName], function: &str) -> Result<Option<usize>> {
    let is_ellipsis = |name: &DimName| name.as_deref() == Some(ELLIPSIS);
    ensure!(
        names.iter().filter(|name| is_ellipsis(name)).count() < 2,
        Runtime,
        "{function}: More than one Ellipsis ('...') found in names ({}). This function supports up \
         to one Ellipsis.",
        tuple_of(names)
    );
    Ok(names.iter().position(is_ellipsis))
}

/// The names with those of the tensor in the place of the ellipsis.
fn with_ellipsis(names: Vec<DimName>, own: &[DimName], function: &str) -> Result<Vec<DimName>> {
    let Some(place) = ellipsis(&names, function)? else { return Ok(names) };
    let behind = names.len() - place - 1;
    let end = own.len().saturating_sub(behind);
    let kept = own.get(place..end).unwrap_or_default();
    Ok([&names[..place], kept, &names[place + 1..]].concat())
}

/// Names as a tuple of Python.
pub(crate) fn tuple_of(names: &[DimName]) -> String {
    let list = ShownNames(names).to_string();
    let list = list.trim_start_matches('[').trim_end_matches(']');
    if names.len() == 1 { format!("({list},)") } else { format!("({list})") }
}
