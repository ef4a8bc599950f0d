//! Names of dimensions.
//!
//! Note [Place of the key `Named`]: a tensor with names has the dispatch key `Named`, which is the
//! highest of all. So a call on it is seen before anything else has made other tensors of its
//! arguments: the kernel of that key (`corten_ops::names`) infers the names of the results, excludes
//! the key for the thread, and calls the operator again; autograd, `vmap`, modes and kernels below see
//! ordinary calls, and what they compute with has no need of names. Tensors without names never have
//! the key, and the lookup of a kernel goes by the highest key anyway, so that a call without names
//! takes no instruction more. PyTorch had the key below autograd, where each kernel
//! propagated names by itself; there it would also have moved the number of every key above it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::base::TensorImpl;
use crate::keys::NAMED;
use crate::{Result, bail, ensure, warn_once};

/// The name of a dimension; `None` for a dimension without one.
pub type DimName = Option<Arc<str>>;

/// More dimensions cannot have names.
const MOST_DIMS: usize = 64;

static IN_USE: AtomicBool = AtomicBool::new(false);

/// Whether any tensor of this process has had names.
#[inline]
pub fn names_in_use() -> bool {
    IN_USE.load(Ordering::Relaxed)
}

/// Names as messages print them: `['N', None]`.
///
/// ```
/// use corten_core::ShownNames;
///
/// assert_eq!(ShownNames(&[Some("N".into()), None]).to_string(), "['N', None]");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ShownNames<'a>(pub &'a [DimName]);

impl fmt::Display for ShownNames<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (index, name) in self.0.iter().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            match name {
                Some(name) => write!(f, "{comma}'{name}'")?,
                None => write!(f, "{comma}None")?,
            }
        }
        f.write_str("]")
    }
}

/// Refuses what is no identifier.
///
/// # Errors
/// `Runtime` for a name with other characters than letters, digits and underscores, or that begins
/// with a digit.
pub fn check_name(name: &str) -> Result<()> {
    let begins = name.chars().next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    ensure!(
        begins && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'),
        Runtime,
        "Invalid name: a valid identifier contains only digits, alphabetical characters, and/or \
         underscore and starts with a non-digit. got: '{name}'."
    );
    Ok(())
}

/// Refuses a name that two dimensions have.
///
/// # Errors
/// `Runtime` for such names.
pub fn check_unique_names(names: &[DimName]) -> Result<()> {
    for (index, name) in names.iter().enumerate() {
        let repeated = name.is_some() && names[index + 1..].contains(name);
        ensure!(
            !repeated,
            Runtime,
            "Cannot construct a tensor with duplicate names. Got names: {}.",
            ShownNames(names)
        );
    }
    Ok(())
}

impl TensorImpl {
    /// Whether a dimension has a name.
    #[inline]
    pub fn has_names(&self) -> bool {
        self.key_set().has_any(NAMED)
    }

    /// The names of the dimensions, `None` if none is named.
    pub fn names(&self) -> Option<Box<[DimName]>> {
        if !self.has_names() {
            return None;
        }
        self.extra_meta()?.names.filter(|names| names.len() == self.dim())
    }

    /// One name per dimension, most often `None`.
    pub fn dim_names(&self) -> Vec<DimName> {
        match self.names() {
            Some(names) => names.into_vec(),
            // Bounded: dimensions.
            None => vec![None; self.dim()],
        }
    }

    /// Names the dimensions; `None` takes all names away, as a list without names does.
    ///
    /// # Errors
    /// `Runtime` for names that are no identifiers or not unique, and for more or fewer names than
    /// dimensions.
    pub fn set_names(&self, names: Option<&[DimName]>) -> Result<()> {
        let Some(names) = names else {
            self.drop_names();
            return Ok(());
        };
        self.check_names(names)?;
        if names.iter().all(Option::is_none) {
            self.drop_names();
            return Ok(());
        }
        if !self.defined() {
            bail!(Runtime, "an undefined tensor has no dimensions to name");
        }
        static WARNED: AtomicBool = AtomicBool::new(false);
        warn_once(
            &WARNED,
            "Named tensors and all their associated APIs are an experimental feature and subject to \
             change. Please do not use them for anything important until they are released as stable.",
        );
        IN_USE.store(true, Ordering::Relaxed);
        self.update_extra_meta(|extra| extra.names = Some(names.into()));
        Ok(())
    }

    /// Whether these names suit the dimensions.
    ///
    /// # Errors
    /// As [`set_names`](Self::set_names).
    pub fn check_names(&self, names: &[DimName]) -> Result<()> {
        let rank = self.dim();
        ensure!(
            rank <= MOST_DIMS,
            Runtime,
            "Named tensors only support up to {MOST_DIMS} dims: Attempted to create a tensor with \
             dim {rank} with names {}",
            ShownNames(names)
        );
        ensure!(
            rank == names.len(),
            Runtime,
            "Number of names ({}) and number of dimensions in tensor ({rank}) do not match. Attempted \
             to create a tensor with names {}",
            names.len(),
            ShownNames(names)
        );
        names.iter().flatten().try_for_each(|name| check_name(name))?;
        check_unique_names(names)
    }

    /// Takes all names away.
    pub fn drop_names(&self) {
        if self.has_names() {
            self.update_extra_meta(|extra| extra.names = None);
        }
    }
}
