//! Every call in `tests/goldens/oracle/*.txt` gives what it gives in PyTorch: values, shapes,
//! strides, offsets, aliasing, errors. The files are made by `tests/goldens/make/oracle_*.py`,
//! which also says how a call is written.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod close;
mod getitem;
mod print;
mod text;

use corten_core::Result;
use corten_ops::{IValue, Stack, Tensor, registry};
use std::path::Path;
use text::Reader;

/// Calls whose result is an accident of PyTorch's kernels: an index beyond the input where a window
/// holds nothing but padding; the strides of a gradient where those of the image are ambiguous.
const ACCIDENTS: &[&str] = &[
    "max_pool3d_with_indices t15[1,1,2,1,2][16,1,1,4,8]+0 I2,2,3",
    "max_pool3d_with_indices_backward t6[2,2,2,1][1,4,2,8]+0 t6[2,3,2,1][6,2,1,1]+0",
];

/// One call that does not give what it should.
struct Miss {
    call: String,
    expected: String,
    found: String,
}

fn check_family(family: &str, run: fn(&str) -> String, same: fn(&str, &str) -> bool) {
    corten_ops::init();
    corten_cpu::init().unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/goldens/oracle")
        .join(format!("{family}.txt"));
    let text = std::fs::read_to_string(path).unwrap();
    let (mut calls, mut misses) = (0, Vec::new());
    for line in text.lines() {
        let (call, expected) = line.split_once(" = ").unwrap();
        calls += 1;
        let found = run(call);
        if !same(&found, expected) && !ACCIDENTS.iter().any(|start| call.starts_with(start)) {
            misses.push(Miss { call: call.into(), expected: expected.into(), found });
        }
    }
    for miss in misses.iter().take(60) {
        println!("{}\n  expected {}\n  found    {}", miss.call, miss.expected, miss.found);
    }
    assert!(misses.is_empty(), "{} of {calls} calls differ", misses.len());
}

/// The result of a call as text.
fn run(call: &str) -> String {
    let mut reader = Reader::new(call);
    let name = reader.word().to_owned();
    let Some(op) = registry::find(&format!("aten::{name}")) else {
        return format!("!NoSuchOperator {name}");
    };
    let args: Vec<IValue> = reader.values();
    let first = args.iter().find_map(|arg| match arg {
        IValue::Tensor(tensor) => Some(text::storage_address(tensor)),
        _ => None,
    });
    let mut stack: Stack = fitted(op.schema(), args).into_iter().collect();
    match op.call_boxed(&mut stack) {
        Ok(()) => {
            let results: Vec<String> =
                stack.iter().map(|value| text::write(value, first)).collect();
            match &results[..] {
                [one] => one.clone(),
                several => format!("( {} )", several.join(" ")),
            }
        }
        Err(error) => text::failure(&error),
    }
}

/// Lists in the type that the schema asks for.
fn fitted(schema: &corten_ops::schema::Schema, args: Vec<IValue>) -> Vec<IValue> {
    let optional = |ty: String| ty.contains("Tensor?[]");
    let fit = |(formal, arg): (&corten_ops::schema::Argument, IValue)| match arg {
        IValue::Tuple(items) if optional(formal.ty.to_string()) => IValue::OptionalTensorList({
            let get = |item: &IValue| item.get::<Option<&Tensor>>().unwrap().cloned();
            items.iter().map(get).collect()
        }),
        IValue::Tuple(items) => {
            let tensors: Result<Vec<Tensor>> =
                items.iter().map(|item| item.get::<&Tensor>().cloned()).collect();
            IValue::TensorList(tensors.unwrap())
        }
        IValue::IntList(list) if formal.ty.to_string().contains("Tensor[]") && list.is_empty() => {
            IValue::TensorList(Vec::new())
        }
        other => other,
    };
    schema.arguments.iter().zip(args).map(fit).collect()
}

macro_rules! families {
    ($same:path: $($name:ident)+) => {$(
        #[test]
        fn $name() {
            check_family(stringify!($name), run, $same);
        }
    )+};
}

families! { text::same: view factory copy index combine }
families! { close::same: matmul conv pool norm softmax loss embedding attention fft linalg }

#[test]
fn indexing() {
    check_family("getitem", getitem::run, text::same);
}

#[test]
fn printing() {
    check_family("print", print::run, |found, expected| found == expected);
}
