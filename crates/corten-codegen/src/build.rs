//! What the build scripts of corten-ops, corten-cpu and corten-autograd call.

#![allow(clippy::print_stdout, reason = "cargo reads what build scripts print")]

use crate::emit::{self, Generated};
use crate::incomplete;
use crate::registry::{Mistake, Registry, missing};
use crate::sources::{CPU_MISSING, EXPR, FORMULAS, OPS, Sources, functions, vocabulary};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Writes the file of corten-ops.
pub fn ops() -> ExitCode {
    run(&[OPS], |build| Ok(emit::ops(&build.registry()?)))
}

/// Writes the file of corten-cpu.
pub fn cpu() -> ExitCode {
    run(&[OPS, EXPR, CPU_MISSING], |build| {
        let mut registry = build.registry()?;
        registry.without_kernels(&missing(&build.root.join(CPU_MISSING))?)?;
        if build.incomplete {
            build.left_out.extend(incomplete::without_missing_kernels(&mut registry, &build.root));
        }
        Ok(emit::cpu(&registry, &vocabulary(&build.root)?))
    })
}

/// Writes the file of corten-autograd.
pub fn autograd() -> ExitCode {
    run(&[OPS, FORMULAS], |build| {
        let mut sources = Sources {
            registry: build.registry()?,
            vocabulary: Default::default(),
            functions: functions(&build.root)?,
        };
        if build.incomplete {
            let missing = incomplete::without_missing_manual(&mut sources.registry, &build.root);
            build.left_out.extend(missing);
        }
        Ok(emit::autograd(&sources))
    })
}

struct Build {
    root: PathBuf,
    /// Whether operators with missing parts are left out; see `incomplete`.
    incomplete: bool,
    left_out: Vec<Mistake>,
}

impl Build {
    fn registry(&mut self) -> Result<Registry, Vec<Mistake>> {
        if !self.incomplete {
            return Registry::read(&self.root.join(OPS));
        }
        let (mut registry, mistakes) = Registry::read_sound(&self.root.join(OPS));
        self.left_out.extend(mistakes);
        self.left_out.extend(incomplete::without_missing_functions(&mut registry, &self.root));
        Ok(registry)
    }
}

fn run(
    inputs: &[&str],
    generate: impl FnOnce(&mut Build) -> Result<Generated, Vec<Mistake>>,
) -> ExitCode {
    let root = variable("CARGO_MANIFEST_DIR").join("../..");
    for input in inputs {
        println!("cargo::rerun-if-changed={}", root.join(input).display());
    }
    let incomplete = incomplete::allowed(&root);
    let mut build = Build { root, incomplete, left_out: Vec::new() };
    let generated = generate(&mut build).and_then(|generated| {
        build.left_out.extend(generated.mistakes);
        let fatal = !build.incomplete && !build.left_out.is_empty();
        if fatal { Err(std::mem::take(&mut build.left_out)) } else { Ok(generated.text) }
    });
    match generated {
        Ok(text) => write(&text, &build.left_out),
        Err(mistakes) => {
            for mistake in &mistakes {
                println!("cargo::error={}", mistake.to_string().replace('\n', " "));
            }
            ExitCode::FAILURE
        }
    }
}

fn write(text: &str, left_out: &[Mistake]) -> ExitCode {
    let directory = variable("OUT_DIR");
    let mut list = String::new();
    for mistake in left_out {
        let _ = writeln!(list, "{mistake}");
    }
    if !left_out.is_empty() {
        let file = directory.join("left_out.txt");
        println!("cargo::warning={} declarations left out, see {}", left_out.len(), file.display());
    }
    let written = write_if_changed(&directory.join("generated.rs"), text)
        .and_then(|()| write_if_changed(&directory.join("left_out.txt"), &list));
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("cargo::error={error}");
            ExitCode::FAILURE
        }
    }
}

/// An unchanged file keeps its time, so that cargo does not rebuild.
fn write_if_changed(path: &Path, text: &str) -> std::io::Result<()> {
    match std::fs::read_to_string(path) {
        Ok(before) if before == text => Ok(()),
        _ => std::fs::write(path, text),
    }
}

/// A directory that cargo tells a build script.
#[allow(clippy::disallowed_methods, reason = "build scripts are configured by variables")]
fn variable(name: &str) -> PathBuf {
    PathBuf::from(std::env::var(name).unwrap_or_default())
}
