//! What the build scripts of corten-ops, corten-cpu and corten-autograd call.

#![allow(clippy::print_stdout, reason = "cargo reads what build scripts print")]

use crate::emit::{self, Generated};
use crate::registry::{Mistake, Registry, missing};
use crate::sources::{
    CPU_MISSING, CUDA_KERNELS, CUDA_TEXT, EXPR, FORMULAS, OPS, Sources, TABLES, cuda_parts,
    functions, vocabulary,
};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Names the file with the operators of a selective build.
const SELECTION: &str = "CORTEN_OPERATORS";

/// Writes the file of corten-ops.
pub fn ops() -> ExitCode {
    run(&[OPS], |root| Ok(emit::ops(&registry(root)?)))
}

/// Writes the file of corten-cpu.
pub fn cpu() -> ExitCode {
    run(&[OPS, EXPR, CPU_MISSING], |root| {
        let mut registry = registry(root)?;
        registry.without_kernels(&missing(&root.join(CPU_MISSING))?)?;
        Ok(emit::cpu(&registry, &vocabulary(root)?))
    })
}

/// Writes the file of corten-cuda.
pub fn cuda() -> ExitCode {
    let [gamma, incomplete, bessel] = TABLES;
    run(&[OPS, EXPR, CUDA_TEXT, CUDA_KERNELS, gamma, incomplete, bessel], |root| {
        Ok(emit::cuda(&registry(root)?, &vocabulary(root)?, &cuda_parts(root)?))
    })
}

/// Writes the file of corten-autograd.
pub fn autograd() -> ExitCode {
    run(&[OPS, FORMULAS], |root| {
        let (registry, functions) = (registry(root)?, functions(root)?);
        Ok(emit::autograd(&Sources { registry, functions, ..Sources::default() }))
    })
}

fn registry(root: &Path) -> Result<Registry, Vec<Mistake>> {
    let mut registry = Registry::read(&root.join(OPS))?;
    let list = variable(SELECTION);
    if !list.as_os_str().is_empty() {
        registry.select(&list)?;
    }
    Ok(registry)
}

fn run(
    inputs: &[&str],
    generate: impl FnOnce(&Path) -> Result<Generated, Vec<Mistake>>,
) -> ExitCode {
    let root = variable("CARGO_MANIFEST_DIR").join("../..");
    for input in inputs {
        println!("cargo::rerun-if-changed={}", root.join(input).display());
    }
    println!("cargo::rerun-if-env-changed={SELECTION}");
    let list = variable(SELECTION);
    if !list.as_os_str().is_empty() {
        println!("cargo::rerun-if-changed={}", list.display());
    }
    let mistakes = match generate(&root) {
        Ok(Generated { text, mistakes }) if mistakes.is_empty() => return write(&text),
        Ok(Generated { mistakes, .. }) | Err(mistakes) => mistakes,
    };
    for mistake in &mistakes {
        println!("cargo::error={}", mistake.to_string().replace('\n', " "));
    }
    ExitCode::FAILURE
}

/// Writes the file, unless it is the same: then cargo need not compile it again.
fn write(text: &str) -> ExitCode {
    let path = variable("OUT_DIR").join("generated.rs");
    if std::fs::read_to_string(&path).is_ok_and(|before| before == text) {
        return ExitCode::SUCCESS;
    }
    match std::fs::write(&path, text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("cargo::error={}: {error}", path.display());
            ExitCode::FAILURE
        }
    }
}

/// A directory that cargo tells a build script.
#[allow(clippy::disallowed_methods, reason = "build scripts are configured by variables")]
fn variable(name: &str) -> PathBuf {
    PathBuf::from(std::env::var(name).unwrap_or_default())
}
