//! The project's own tasks. `cargo xtask` lists them.

#![allow(clippy::print_stdout, reason = "a program that talks to its user")]

mod allocation;
mod check;
mod examples;
mod facts;
mod goldens;
mod header;
mod keys;
mod layers;
mod modules;
mod names;
mod ops;
mod show;
mod size;
mod tidy;
mod training;
mod typed;
mod words;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "\
cargo xtask check              format, clippy, tidy, registry tests, unit tests, size
cargo xtask tidy               the rules of docs/STYLE.md that a program can check
cargo xtask ops [family]       operators per family: forms, kinds, gradients, kernels per backend
cargo xtask show <operator>    everything that is generated for an operator
cargo xtask size               the bytes of the release library by crate, beside their budget
cargo xtask header             writes the C headers of crates/corten-c
cargo xtask header <folder>    writes them there, with a function per operator
cargo xtask keys               writes ops/README.md, the table of the registry's keys
cargo xtask modules            writes docs/modules.md, modules, optimizers and files of PyTorch, Python and Rust
cargo xtask names              writes docs/names.md, the rules for names of dimensions
cargo xtask goldens <python>   makes tests/goldens again with a Python that has PyTorch
";

/// What a task returns: an error is a message for the user.
type Outcome = Result<(), String>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match &words[..] {
        ["check"] => check::run(),
        ["tidy"] => tidy::run(),
        ["ops"] => ops::run(None),
        ["ops", family] => ops::run(Some(family)),
        ["show", operator] => show::run(operator),
        ["size"] => size::run(),
        ["header"] => header::run(),
        ["header", folder] => header::export(Path::new(folder)),
        ["keys"] => keys::run(),
        ["modules"] => modules::run(),
        ["names"] => names::run(),
        ["goldens", python] => goldens::run(python),
        [] => {
            print!("{USAGE}");
            Ok(())
        }
        _ => Err(format!("what is `{}`?\n{USAGE}", words.join(" "))),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
