//! What became of the calls of a region, for those who ask why.

use super::program::line;
use crate::{Plan, Report};
use std::cell::RefCell;
use std::sync::Arc;

/// A call at which what was recorded had to run.
///
/// ```
/// use corten_compile::Break;
///
/// let one = Break { operator: "aten::item".to_owned(), reason: "it reads data".to_owned(), line: None };
/// assert!(one.line.is_none());
/// ```
#[derive(Clone, Debug)]
pub struct Break {
    /// The operator.
    pub operator: String,
    /// Why it was not recorded.
    pub reason: String,
    /// The line of the program that called it.
    pub line: Option<Arc<str>>,
}

/// What a thread recorded and ran.
///
/// ```
/// corten_compile::start_statistics();
/// assert!(corten_compile::take_statistics().is_some_and(|found| found.programs.is_empty()));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    /// The programs that ran: the operators of each with the lines of their calls.
    pub programs: Vec<Vec<(String, Option<Arc<str>>)>>,
    /// By program: the groups of calls that ran together, by their numbers, and the bytes of memory traffic saved.
    pub reports: Vec<Report>,
    /// The calls that made programs run early.
    pub breaks: Vec<Break>,
}

thread_local! {
    static CURRENT: RefCell<Option<Statistics>> = const { RefCell::new(None) };
}

/// Begins to collect statistics of this thread.
pub fn start_statistics() {
    CURRENT.set(Some(Statistics::default()));
}

/// The statistics since [`start_statistics`], which end with it.
pub fn take_statistics() -> Option<Statistics> {
    CURRENT.take()
}

/// Whether this thread collects statistics.
pub(super) fn is_collecting() -> bool {
    CURRENT.with_borrow(Option::is_some)
}

/// Notes why programs run early.
pub(super) fn note_break(operator: &str, reason: &str) {
    if !is_collecting() {
        return;
    }
    let line = line();
    change(|statistics| {
        let (operator, reason) = (operator.to_owned(), reason.to_owned());
        statistics.breaks.push(Break { operator, reason, line });
    });
}

/// Notes that a program runs.
pub(super) fn note_program(program: &crate::ir::Program) {
    change(|statistics| {
        let nodes = program.nodes().iter();
        let named = nodes.map(|node| (node.op.def().qualified_name(), node.line.clone()));
        statistics.programs.push(named.collect());
    });
}

/// Notes how a program runs.
pub(super) fn note_plan(plan: &Plan) {
    if is_collecting() {
        change(|statistics| statistics.reports.push(plan.report().clone()));
    }
}

fn change(change: impl FnOnce(&mut Statistics)) {
    CURRENT.with_borrow_mut(|current| {
        current.as_mut().map(change);
    });
}
