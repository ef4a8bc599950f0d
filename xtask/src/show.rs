//! `show`: everything that is generated for an operator.

use crate::{Outcome, root};
use corten_codegen::{Sources, emit};

/// Prints the generated text of every overload of a name, or of one overload.
pub(crate) fn run(operator: &str) -> Outcome {
    let lines = |mistakes: Vec<corten_codegen::registry::Mistake>| {
        mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    let operator = operator.strip_prefix("aten::").unwrap_or(operator);
    let sources = Sources::read_sound(&root()).map_err(lines)?;
    match emit::show(&sources, operator).map_err(lines)? {
        text if text.is_empty() => Err(format!("no operator is called `{operator}`")),
        text => {
            print!("{text}");
            Ok(())
        }
    }
}
