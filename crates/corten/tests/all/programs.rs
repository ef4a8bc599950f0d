//! The example programs print the losses that their twins in Python print for the same seed.
#![allow(clippy::unwrap_used, clippy::panic)] // tests may

use std::path::{Path, PathBuf};
use std::process::Command;

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/goldens/losses.txt");

/// The program of an example, which `cargo test` builds beside the tests.
fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().and_then(Path::parent).unwrap();
    let file = format!("{name}{}", std::env::consts::EXE_SUFFIX);
    let program = folder.join("examples").join(file);
    assert!(program.exists(), "`cargo build --package corten --examples` builds what this needs");
    program
}

/// The numbers behind the word `loss` in what a program reports while it trains.
fn losses(report: &str) -> Vec<f64> {
    let mut words = report.split_whitespace();
    let mut found = Vec::new();
    while let Some(word) = words.next() {
        if word == "loss" {
            found.push(words.next().unwrap().parse().unwrap());
        }
    }
    found
}

#[test]
fn losses_are_those_of_the_twins_in_python() {
    let out = std::env::temp_dir().join(format!("corten-programs-{}", std::process::id()));
    for line in std::fs::read_to_string(GOLDEN).unwrap().lines() {
        let (run, expected) = line.split_once('|').unwrap();
        let mut words = run.split(' ');
        let mut command = Command::new(program(words.next().unwrap()));
        let done = command.args(words).arg("--out").arg(&out).output().unwrap();
        let report = String::from_utf8(done.stderr).unwrap();
        assert!(done.status.success(), "{run}: {report}");
        let found = losses(&report);
        let expected: Vec<f64> = expected.split(' ').map(|loss| loss.parse().unwrap()).collect();
        assert_eq!(found.len(), expected.len(), "{run}");
        for (step, (found, expected)) in found.iter().zip(&expected).enumerate() {
            // Four digits are printed; rounding may turn the last one.
            let is_near = (found - expected).abs() < 1.5e-4;
            assert!(is_near, "{run}: the loss of step {step} is {found}, PyTorch's {expected}");
        }
    }
    std::fs::remove_dir_all(out).unwrap();
}
