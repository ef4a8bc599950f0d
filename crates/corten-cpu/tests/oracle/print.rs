//! Tensors as text.

use crate::text::{self, Reader};
use corten_ops::IValue;
use corten_ops::print::{Options, set_options};

/// The text of one line's tensor under its options.
pub(crate) fn run(call: &str) -> String {
    let mut reader = Reader::new(call);
    let mut number = || reader.word().parse::<usize>().unwrap();
    let (precision, threshold, edgeitems, linewidth) =
        (number(), number() as f64, number(), number());
    let sci_mode = match reader.word() {
        "1" => Some(true),
        "0" => Some(false),
        _ => None,
    };
    set_options(Options { precision, threshold, edgeitems, linewidth, sci_mode });
    let IValue::Tensor(tensor) = text::value(reader.word()) else { panic!("no tensor in {call}") };
    tensor.to_string().replace('\n', "\\n")
}
