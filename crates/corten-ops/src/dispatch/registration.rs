//! Kernels that can be taken out again.

use crate::registry::AnyOp;

/// A registration that can be taken back.
///
/// ```
/// use corten::ops::{Library, Registration, Target};
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// let library = Library::new("example_of_registrations");
/// library.define("same(Tensor self) -> Tensor")?;
/// let target = Target::CompositeImplicitAutograd;
/// let registered: Registration = library.implement("same", target, |_, _| Ok(()))?;
/// registered.remove();
/// # Ok(())
/// # }
/// ```
#[must_use = "`remove` takes the kernel out again; `keep` leaves it"]
pub struct Registration {
    pub(super) op: &'static dyn AnyOp,
    pub(super) id: u64,
}

impl Registration {
    /// Leaves the kernel in place for the rest of the program.
    pub fn keep(self) {}

    /// Takes the kernel out again.
    pub fn remove(self) {
        self.op.deregister(self.id);
    }
}
