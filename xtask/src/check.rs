//! `check`: what has to hold before a change is handed in.

use crate::{Outcome, root, tidy};
use std::process::Command;
use std::time::Instant;

const STEPS: [(&str, &[&str]); 4] = [
    ("format", &["fmt", "--all", "--check"]),
    ("clippy", &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]),
    ("registry", &["test", "--quiet", "--package", "corten-codegen", "--features", "generate"]),
    ("tests", &["test", "--quiet", "--workspace"]),
];

/// Runs every step and stops at the first that fails.
pub(crate) fn run() -> Outcome {
    tidy::run()?;
    for (name, arguments) in STEPS {
        let start = Instant::now();
        let cargo = Command::new("cargo").args(arguments).current_dir(root()).status();
        let status = cargo.map_err(|error| format!("cargo: {error}"))?;
        if !status.success() {
            return Err(format!("{name} failed: cargo {}", arguments.join(" ")));
        }
        println!("{name}: {:.0} s", start.elapsed().as_secs_f64());
    }
    Ok(())
}
