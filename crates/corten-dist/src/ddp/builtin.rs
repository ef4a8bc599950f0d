//! Hooks that need no Python.

use super::GradBucket;
use super::comm::{Collectives, CommHook, Pending};
use corten_core::{DType, Result};
use corten_ops::{Tensor, op};
use std::sync::Arc;

/// Which hook: those of PyTorch's `BuiltinCommHookType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BuiltinHook {
    /// The average, as without a hook.
    AllReduce,
    /// The average in half precision: half of the bytes.
    Fp16Compress,
}

impl BuiltinHook {
    /// The name in PyTorch.
    pub fn name(self) -> &'static str {
        match self {
            Self::AllReduce => "ALLREDUCE",
            Self::Fp16Compress => "FP16_COMPRESS",
        }
    }

    /// The hook over a group.
    pub fn over(self, group: Arc<dyn Collectives>) -> Arc<dyn CommHook> {
        Arc::new(Builtin { kind: self, group })
    }
}

struct Builtin {
    kind: BuiltinHook,
    group: Arc<dyn Collectives>,
}

impl CommHook for Builtin {
    fn run(&self, bucket: Arc<GradBucket>) -> Result<Arc<dyn Pending>> {
        let buffer = bucket.buffer();
        let size = self.group.size() as f64;
        match self.kind {
            BuiltinHook::AllReduce => {
                op::div__scalar(&buffer, size.into())?;
                self.group.all_reduce(&buffer)
            }
            BuiltinHook::Fp16Compress => {
                let half = op::to_dtype(&buffer, DType::Float16, false, false, None)?;
                op::div__scalar(&half, size.into())?;
                let work = self.group.all_reduce(&half)?;
                Ok(Arc::new(Decompressed { work, buffer }))
            }
        }
    }
}

/// Half precision on its way, back to the dtype of the bucket.
struct Decompressed {
    work: Arc<dyn Pending>,
    buffer: Tensor,
}

impl Pending for Decompressed {
    fn wait(&self) -> Result<Tensor> {
        op::copy_(&self.buffer, &self.work.wait()?, false)
    }
}
