//! Asks the linker to lay the functions of small calls side by side, where it can.
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
    let Ok(here) = env::var("CARGO_MANIFEST_DIR") else { return };
    let order = Path::new(&here).join("order.ld");
    if wanted && optimised && understood(&order).unwrap_or(false) {
        println!("cargo::rustc-cdylib-link-arg=-T");
        println!("cargo::rustc-cdylib-link-arg={}", order.display());
    }
}

/// Whether the linker takes the list: a library without contents is linked with it.
fn understood(order: &Path) -> Option<bool> {
    let target = env::var("TARGET").ok()?;
    if !target.ends_with("-linux-gnu") {
        return Some(false);
    }
    let out = env::var("OUT_DIR").ok()?;
    let source = Path::new(&out).join("empty.rs");
    std::fs::write(&source, "").ok()?;
    let mut rustc = Command::new(env::var_os("RUSTC")?);
    rustc.args(["--crate-type", "cdylib", "--crate-name", "empty"]);
    rustc.args(["--target", &target, "--out-dir", &out]).arg(&source);
    rustc.args(["-C", "link-arg=-T", "-C"]).arg(format!("link-arg={}", order.display()));
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        let mut flag = std::ffi::OsString::from("linker=");
        flag.push(linker);
        rustc.arg("-C").arg(flag);
    }
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    rustc.args(flags.split('\x1f').filter(|flag| !flag.is_empty()));
    Some(rustc.output().ok()?.status.success())
}
