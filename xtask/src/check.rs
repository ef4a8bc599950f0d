//! `check`: what has to hold before a change is handed in.

use crate::{Outcome, root, size, tidy};
use std::process::Command;
use std::time::Instant;

/// The generator's own crates are built apart: with them the library would be built a second time.
const LIBRARY: &str = "--workspace --exclude corten-codegen --exclude xtask";
const TOOLS: &str = "--package corten-codegen --package xtask --features corten-codegen/generate";

/// What is run: a name, the arguments before those that choose the packages, and those after.
const STEPS: [(&str, &str, &str, &str); 5] = [
    ("format", "fmt --all --check", "", ""),
    ("clippy", "clippy", LIBRARY, "--all-targets -- --deny warnings"),
    ("clippy of the tools", "clippy", TOOLS, "--all-targets -- --deny warnings"),
    ("registry", "test --quiet", TOOLS, ""),
    ("tests", "test --quiet", LIBRARY, ""),
];

/// Runs every step and stops at the first that fails.
pub(crate) fn run() -> Outcome {
    tidy::run()?;
    for (name, command, packages, options) in STEPS {
        let start = Instant::now();
        let line = format!("{command} {packages} {options}");
        let cargo =
            Command::new("cargo").args(line.split_whitespace()).current_dir(root()).status();
        let status = cargo.map_err(|error| format!("cargo: {error}"))?;
        if !status.success() {
            return Err(format!("{name} failed: cargo {line}"));
        }
        println!("{name}: {:.0} s", start.elapsed().as_secs_f64());
    }
    size::run()
}
