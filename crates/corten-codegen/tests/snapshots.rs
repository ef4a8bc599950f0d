//! What is generated for representative operators, in full.
//!
//! After a wanted change: `CORTEN_BLESS=1 cargo test -p corten-codegen --features generate`, and
//! look at the difference.

#![cfg(feature = "generate")]
#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use corten_codegen::emit;
use std::path::Path;

const OPERATORS: [&str; 8] = [
    "silu",
    "add.Tensor",
    "add.Scalar",
    "sum.dim_IntList",
    "max.dim",
    "transpose.int",
    "cat",
    "convolution",
];

#[test]
fn representative_operators() {
    let sources = common::fixtures();
    #[allow(clippy::disallowed_methods, reason = "a switch of this test")]
    let bless = std::env::var("CORTEN_BLESS").is_ok();
    for operator in OPERATORS {
        let text =
            emit::show(&sources, operator).unwrap_or_else(|m| panic!("{}", common::listed(&m)));
        assert!(!text.is_empty(), "{operator}");
        let file = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/snapshots")
            .join(format!("{}.txt", operator.replace('.', "_")));
        if bless {
            std::fs::write(&file, &text).unwrap();
        }
        let expected = std::fs::read_to_string(&file).unwrap_or_default();
        assert_eq!(text, expected, "{operator} is generated differently");
    }
}

#[test]
fn whole_files_are_rust() {
    let sources = common::fixtures();
    let files = [
        emit::ops(&sources.registry),
        emit::cpu(&sources.registry, &sources.vocabulary),
        emit::autograd(&sources),
    ];
    for file in files {
        assert!(file.mistakes.is_empty(), "{}", common::listed(&file.mistakes));
        syn::parse_file(&file.text).unwrap_or_else(|error| panic!("{error}\n{}", file.text));
    }
}
