//! Kernels of groups of calls: recorded from the launches of operators, printed as CUDA C, launched as one.
//! See Note [Device groups] in `corten-ops`.

mod elements;
mod kernel;
mod printer;
mod record;
mod rows;

use crate::reduction::row_division;
use corten_core::Result;
use corten_ops::device_groups::{DeviceGroup, DeviceGroups, GroupKernel, RecordedLaunch};
use std::sync::Arc;

pub(crate) use record::{is_recording, record_pointwise, record_reduction, refuse_other_work};

/// The groups of this back end.
pub(crate) struct Groups;

impl DeviceGroups for Groups {
    fn record(&self, call: &mut dyn FnMut() -> Result<()>) -> Option<Vec<RecordedLaunch>> {
        record::record(call)
    }

    fn takes_rows(&self, rows: i64, length: i64) -> bool {
        // A reduction that takes two passes has another order of additions.
        let most = i64::from(i32::MAX);
        (2..=most).contains(&length)
            && (1..=most).contains(&rows)
            && row_division(length as u64, rows as u64).parts == 1
    }

    fn kernel(&self, group: DeviceGroup) -> Option<Arc<dyn GroupKernel>> {
        kernel::Kernel::new(&group).map(|kernel| Arc::new(kernel) as Arc<dyn GroupKernel>)
    }
}
