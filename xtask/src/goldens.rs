//! `goldens`: runs every script of tests/goldens/make.

use crate::{Outcome, root};
use std::process::Command;

/// Runs the scripts with the given Python, which needs PyTorch.
pub(crate) fn run(python: &str) -> Outcome {
    let directory = root().join("tests/goldens/make");
    let entries = std::fs::read_dir(&directory).map_err(|error| error.to_string())?;
    let mut scripts: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    scripts.retain(|path| path.extension().is_some_and(|ending| ending == "py"));
    scripts.sort();
    for script in scripts {
        println!("{}", script.display());
        let status = Command::new(python).arg(&script).status();
        let status = status.map_err(|error| format!("{python}: {error}"))?;
        if !status.success() {
            return Err(format!("{} failed", script.display()));
        }
    }
    Ok(())
}
