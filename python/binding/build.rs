//! Asks the linker, where it can, to lay the functions of small calls side by side, to keep one of functions
//! that are the same, and to write down what is where.
//!
//! A call of one small operator runs through a hundred functions of a library of 28 megabytes. Where
//! the linker leaves them, they push each other out of the processor's instruction cache: small calls
//! take up to a tenth longer, and which ones do changes with every build. `order.ld` lists these
//! functions; `make order` writes it, and `CORTEN_LINK_ORDER=off` leaves it out.

#![expect(clippy::disallowed_methods, reason = "Cargo tells a build script all by the environment")]

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=order.ld");
    println!("cargo::rerun-if-env-changed=CORTEN_LINK_ORDER");
    let wanted = env::var("CORTEN_LINK_ORDER").map_or(true, |value| value != "off");
    let optimised = env::var("OPT_LEVEL").is_ok_and(|level| level != "0");
    let (Ok(here), Ok(out)) = (env::var("CARGO_MANIFEST_DIR"), env::var("OUT_DIR")) else { return };
    let order = Path::new(&here).join("order.ld").display().to_string();
    let order = ["-T".to_owned(), order];
    // Functions of different types that are the same instructions become one. Nothing here tells functions
    // apart by their addresses: what frees memory is told apart by that of a `static`.
    let fold = ["-Wl,--icf=all".to_owned()];
    // What `cargo xtask size` reads.
    let map = [format!("-Wl,-Map={out}/link.map")];
    let choices: [(bool, &[String]); 3] = [(wanted, &order), (true, &fold), (true, &map)];
    for (_, arguments) in choices.iter().filter(|(wanted, _)| *wanted && optimised) {
        if understood(arguments, &out).unwrap_or(false) {
            for argument in *arguments {
                println!("cargo::rustc-cdylib-link-arg={argument}");
            }
        }
    }
}

/// Whether the linker takes some arguments: a library without contents is linked with them.
fn understood(arguments: &[String], out: &str) -> Option<bool> {
    let target = env::var("TARGET").ok()?;
    if !target.ends_with("-linux-gnu") {
        return Some(false);
    }
    let source = Path::new(out).join("empty.rs");
    std::fs::write(&source, "").ok()?;
    let mut rustc = Command::new(env::var_os("RUSTC")?);
    rustc.args(["--crate-type", "cdylib", "--crate-name", "empty"]);
    rustc.args(["--target", &target, "--out-dir", out]).arg(&source);
    for argument in arguments {
        rustc.arg("-C").arg(format!("link-arg={argument}"));
    }
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        let mut flag = std::ffi::OsString::from("linker=");
        flag.push(linker);
        rustc.arg("-C").arg(flag);
    }
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    rustc.args(flags.split('\x1f').filter(|flag| !flag.is_empty()));
    Some(rustc.output().ok()?.status.success())
}
