//! Recurrent networks beside PyTorch's of the same seed, and packed sequences.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]
#![allow(clippy::too_many_lines, clippy::needless_update, reason = "tables of modules")]

use crate::common::*;
use corten::nn::*;
use corten::prelude::*;

fn options() -> RnnOptions {
    RnnOptions {
        num_layers: 2,
        bias: false,
        batch_first: true,
        bidirectional: true,
        ..Default::default()
    }
}

fn packed() -> Result<PackedSequence> {
    pack_padded_sequence(&x(&[5, 3, 4]), &[5, 2, 3], false, false)
}

fn two() -> RnnOptions {
    RnnOptions { num_layers: 2, bidirectional: true, ..Default::default() }
}

fn pair((y, h): (Tensor, Tensor)) -> Vec<Tensor> {
    vec![y, h]
}

fn triple((y, (h, c)): (Tensor, (Tensor, Tensor))) -> Vec<Tensor> {
    vec![y, h, c]
}

macro_rules! one_state {
    ($goldens:ident, $name:literal, $kind:ident, $cell:ident, |$options:ident| $make:expr) => {
        let make = |$options: RnnOptions| $make;
        let steps = x(&[5, 3, 4]);
        $goldens.case($name, || $kind::new(4, 6), |m| Ok(pair(m.forward(&steps, None)?)));
        $goldens.case(
            concat!($name, " options"),
            || make(options()),
            |m| Ok(pair(m.forward(&steps, None)?)),
        );
        $goldens.case(
            concat!($name, " packed"),
            || make(two()),
            |m| {
                let (y, h) = m.forward_packed(&packed()?, None)?;
                Ok(vec![y.data, h])
            },
        );
        $goldens.case(
            concat!($name, " sample"),
            || $kind::new(4, 6),
            |m| Ok(pair(m.forward(&op::select_int(&steps, 1, 0)?, None)?)),
        );
        $goldens.case(
            concat!($name, "Cell"),
            || $cell::new(4, 6),
            |m| Ok(vec![m.forward(&x(&[3, 4]), None)?]),
        );
    };
}

#[test]
fn recurrent_networks_equal_pytorch() {
    let mut goldens = Goldens::read();
    one_state!(goldens, "RNN", Rnn, RnnCell, |options| Rnn::with(
        4,
        6,
        Nonlinearity::Tanh,
        options
    ));
    one_state!(goldens, "GRU", Gru, GruCell, |options| Gru::with(4, 6, options));
    let steps = x(&[5, 3, 4]);
    goldens.case("LSTM", || Lstm::new(4, 6), |m| Ok(triple(m.forward(&steps, None)?)));
    goldens.case(
        "LSTM options",
        || Lstm::with(4, 6, options()),
        |m| Ok(triple(m.forward(&steps, None)?)),
    );
    goldens.case(
        "LSTM packed",
        || Lstm::with(4, 6, two()),
        |m| {
            let (y, (h, c)) = m.forward_packed(&packed()?, None)?;
            Ok(vec![y.data, h, c])
        },
    );
    goldens.case(
        "LSTM sample",
        || Lstm::new(4, 6),
        |m| Ok(triple(m.forward(&op::select_int(&steps, 1, 0)?, None)?)),
    );
    goldens.case("LSTMCell", || LstmCell::new(4, 6), |m| Ok(pair(m.forward(&x(&[3, 4]), None)?)));
    let layers = RnnOptions { num_layers: 2, ..Default::default() };
    goldens.case(
        "LSTM given",
        || Lstm::with(4, 6, layers),
        |m| {
            let (h, c) = (x(&[2, 3, 6]), shifted(&[2, 3, 6], 1.0));
            Ok(triple(m.forward(&steps, Some((&h, &c)))?))
        },
    );
    let projected = RnnOptions { proj_size: 2, bidirectional: true, ..Default::default() };
    goldens.case(
        "LSTM projected",
        || Lstm::with(4, 6, projected),
        |m| Ok(triple(m.forward(&steps, None)?)),
    );
    let dropped = RnnOptions { num_layers: 2, dropout: 0.5, ..Default::default() };
    goldens.case(
        "LSTM dropped",
        || Lstm::with(4, 6, dropped),
        |m| Ok(triple(m.forward(&steps, None)?)),
    );
    let relu = || Rnn::with(4, 6, Nonlinearity::Relu, RnnOptions::default());
    goldens.case("RNN relu", relu, |m| Ok(pair(m.forward(&steps, None)?)));
    let cell = RnnCellOptions { bias: false, nonlinearity: Nonlinearity::Relu };
    goldens.case(
        "RNNCell relu",
        || RnnCell::with(4, 6, cell),
        |m| Ok(vec![m.forward(&x(&[3, 4]), None)?]),
    );
    goldens.case(
        "GRUCell sample",
        || GruCell::new(4, 6),
        |m| Ok(vec![m.forward(&x(&[4]), Some(&x(&[6])))?]),
    );
    goldens.case(
        "LSTMCell given",
        || LstmCell::new(4, 6),
        |m| {
            let (h, c) = (x(&[3, 6]), shifted(&[3, 6], 1.0));
            Ok(pair(m.forward(&x(&[3, 4]), Some((&h, &c)))?))
        },
    );
    goldens.finish(|name| ["RNN", "GRU", "LSTM"].iter().any(|kind| name.starts_with(kind)));
}

#[test]
fn packed_sequences_come_back() -> Result<()> {
    let _drawing = drawing();
    let sequences = [x(&[2, 3]), x(&[4, 3]), x(&[1, 3])];
    let packed = pack_sequence(&sequences, false)?;
    assert_eq!(packed.batch_sizes, [3, 2, 1, 1]);
    for (back, sequence) in unpack_sequence(&packed)?.iter().zip(&sequences) {
        assert!(op::equal(back, sequence)?);
    }
    let (padded, lengths) = pad_packed_sequence(&packed, true, -1.0, Some(6))?;
    assert_eq!(padded.sizes()[..], [3, 6, 3]);
    assert_eq!(lengths, [2, 4, 1]);
    assert_eq!(op::select_int(&op::select_int(&padded, 0, 2)?, 0, 5)?.to_vec::<f32>()?, [-1.0; 3]);
    let left = pad_sequence(&sequences, true, 0.0, PaddingSide::Left)?;
    assert!(op::equal(&op::narrow(&op::select_int(&left, 0, 0)?, 0, 2, 2)?, &sequences[0])?);
    Ok(())
}

#[test]
fn lengths_that_do_not_fit_are_refused() -> Result<()> {
    let _drawing = drawing();
    let padded = x(&[3, 2, 1]);
    for (lengths, expected) in [
        (vec![1, 2], "`lengths` array must be sorted in decreasing order"),
        (vec![3], "Expected `len(lengths)` to be equal to batch_size, but got 1 (batch_size=2)"),
        (vec![2, 0], "Length of all samples has to be greater than 0"),
        (vec![4, 1], "Expected `lengths` to be at most 3, but got 4"),
    ] {
        let Err(error) = pack_padded_sequence(&padded, &lengths, false, true) else {
            panic!("{lengths:?} was packed")
        };
        assert!(error.message().contains(expected), "{error}");
    }
    let packed = pack_padded_sequence(&padded, &[3, 1], false, true)?;
    assert!(pad_packed_sequence(&packed, false, 0.0, Some(2)).is_err());
    Ok(())
}

#[test]
fn wrong_inputs_are_refused_in_pytorchs_words() -> Result<()> {
    let _drawing = drawing();
    let lstm = Lstm::new(4, 6)?;
    let refusal = |input: &Tensor, hx: Option<(&Tensor, &Tensor)>| {
        lstm.forward(input, hx).err().map(|error| error.message().to_owned()).unwrap_or_default()
    };
    assert_eq!(
        refusal(&x(&[5, 3, 3]), None),
        "input.size(-1) must be equal to input_size. Expected 4, got 3"
    );
    assert_eq!(refusal(&x(&[4]), None), "LSTM: Expected input to be 2D or 3D, got 1D instead");
    let state = x(&[1, 2, 6]);
    assert_eq!(
        refusal(&x(&[5, 3, 4]), Some((&state, &state))),
        "Expected hidden[0] size (1, 3, 6), got [1, 2, 6]"
    );
    assert!(Gru::with(4, 6, RnnOptions { proj_size: 2, ..Default::default() }).is_err());
    Ok(())
}
