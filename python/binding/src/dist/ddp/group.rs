//! Groups of Python as what the reducer asks.

use super::super::group_from;
use crate::py::gil;
use crate::py::{Obj, Py};
use corten_core::{Layout, Result};
use corten_dist::ProcessGroup;
use corten_dist::ddp::{Collectives, Pending};
use corten_ops::Tensor;
use std::sync::Arc;

/// The collectives of a `ProcessGroup`, also of one whose methods are Python's.
pub(super) fn from_object(object: &Obj) -> Py<Arc<dyn Collectives>> {
    let name = match object.attr_opt(crate::py::name!("name"))? {
        Some(name) if name.is_callable() => name.call(&[])?.display(),
        _ => String::new(),
    };
    Ok(Arc::new(Group { group: group_from(object)?, name }))
}

/// A group that is waited for without the interpreter's lock.
struct Group {
    group: Arc<ProcessGroup>,
    name: String,
}

/// What is waited for so.
struct Detached(Arc<dyn Pending>);

fn detached(pending: Result<Arc<dyn Pending>>) -> Result<Arc<dyn Pending>> {
    Ok(Arc::new(Detached(pending?)))
}

impl Pending for Detached {
    fn wait(&self) -> Result<Tensor> {
        // Short passes keep the lock, which a rank on another thread may need to get on.
        if gil::is_attached() { gil::without(|| self.0.wait()) } else { self.0.wait() }
    }
}

impl Collectives for Group {
    fn rank(&self) -> usize {
        self.group.rank()
    }

    fn size(&self) -> usize {
        self.group.size()
    }

    fn backend_name(&self) -> String {
        self.name.clone()
    }

    fn all_reduce(&self, tensor: &Tensor) -> Result<Arc<dyn Pending>> {
        // The ranks' numbers of entries are waited for at once.
        if tensor.layout() != Layout::Strided && gil::is_attached() {
            return detached(gil::without(|| self.group.all_reduce(tensor)));
        }
        detached(self.group.all_reduce(tensor))
    }

    fn broadcast(&self, tensor: &Tensor, root: usize) -> Result<Arc<dyn Pending>> {
        detached(self.group.broadcast(tensor, root))
    }

    fn all_gather(&self, outputs: &[Tensor], input: &Tensor) -> Result<Arc<dyn Pending>> {
        detached(self.group.all_gather(outputs, input))
    }
}
