//! Plans by the structure of their programs.

use crate::Plan;
use crate::ir::{Program, Structure};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// More plans than this are not kept: a program whose structure is another each time would fill the memory.
const MOST_PLANS: usize = 4096;

type Plans = HashMap<u64, Vec<(Structure, Arc<Plan>)>>;

static PLANS: Mutex<Option<Plans>> = Mutex::new(None);

/// The plan of a program, made where there is none of its structure.
pub(crate) fn plan_of(program: &Program) -> Arc<Plan> {
    let hash = program.structure_hash();
    if let Some(found) = find(program, hash) {
        return found;
    }
    // Without the lock: another thread may make the same plan, which does no harm.
    let plan = Arc::new(Plan::compile(program));
    let mut plans = lock();
    let plans = plans.get_or_insert_default();
    if plans.len() >= MOST_PLANS {
        plans.clear();
    }
    plans.entry(hash).or_default().push((program.structure(), Arc::clone(&plan)));
    plan
}

fn find(program: &Program, hash: u64) -> Option<Arc<Plan>> {
    let plans = lock();
    let same = plans.as_ref()?.get(&hash)?;
    let found = same.iter().find(|(structure, _)| program.has_structure(structure));
    found.map(|(_, plan)| Arc::clone(plan))
}

fn lock() -> MutexGuard<'static, Option<Plans>> {
    PLANS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Forgets all plans.
///
/// ```
/// corten_compile::reset();
/// ```
pub fn reset() {
    *lock() = None;
}
