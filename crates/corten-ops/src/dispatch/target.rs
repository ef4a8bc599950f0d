//! What a kernel is registered to: one runtime key or a group of them.

use corten_core::{DispatchKey, Result, bail};
use std::fmt;
use std::str::FromStr;

/// Where a kernel is registered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// One runtime key, such as `CPU` or `AutogradCPU`.
    Key(DispatchKey),
    /// Every autograd key.
    Autograd,
    /// Every backend, differentiable through the operators it calls.
    CompositeImplicitAutograd,
    /// Every backend; the gradient is separate.
    CompositeExplicitAutograd,
}

impl From<DispatchKey> for Target {
    fn from(key: DispatchKey) -> Self {
        Self::Key(key)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(key) => write!(f, "{key}"),
            Self::Autograd => f.write_str("Autograd"),
            Self::CompositeImplicitAutograd => f.write_str("CompositeImplicitAutograd"),
            Self::CompositeExplicitAutograd => f.write_str("CompositeExplicitAutograd"),
        }
    }
}

impl FromStr for Target {
    type Err = corten_core::Error;

    fn from_str(name: &str) -> Result<Self> {
        Ok(match name {
            "Autograd" => Self::Autograd,
            "CompositeImplicitAutograd" => Self::CompositeImplicitAutograd,
            "CompositeExplicitAutograd" => Self::CompositeExplicitAutograd,
            other => match other.parse::<DispatchKey>() {
                Ok(key) => Self::Key(key),
                Err(_) => bail!(Runtime, "could not parse dispatch key: {other}"),
            },
        })
    }
}
