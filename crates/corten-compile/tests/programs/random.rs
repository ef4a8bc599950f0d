//! Random programs: strides, dtypes, broadcasts, views, calls in place.

use crate::sketch::{Given, Sketch};
use corten::core::Scalar;
use corten::ops::IValue;
use corten::prelude::*;
use corten_compile::Report;
use proptest::prelude::*;

/// Numbers that a seed decides.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % sides
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.roll(from.len())]
    }
}

const DTYPES: [DType; 7] = [
    DType::Float32,
    DType::Float32,
    DType::BFloat16,
    DType::Float16,
    DType::Float64,
    DType::Int64,
    DType::Bool,
];

const UNARY: [&str; 12] = [
    "aten::neg",
    "aten::abs",
    "aten::exp",
    "aten::tanh",
    "aten::sigmoid",
    "aten::relu",
    "aten::sqrt",
    "aten::silu",
    "aten::sign",
    "aten::floor",
    "aten::sin",
    "aten::reciprocal",
];
const BINARY: [&str; 9] = [
    "aten::add.Tensor",
    "aten::sub.Tensor",
    "aten::mul.Tensor",
    "aten::div.Tensor",
    "aten::maximum",
    "aten::lt.Tensor",
    "aten::eq.Tensor",
    "aten::minimum",
    "aten::atan2",
];
const BINARY_IN_PLACE: [&str; 4] =
    ["aten::add_.Tensor", "aten::mul_.Tensor", "aten::sub_.Tensor", "aten::copy_"];
const UNARY_IN_PLACE: [&str; 4] = ["aten::neg_", "aten::relu_", "aten::abs_", "aten::sigmoid_"];

/// A tensor of some dtype and layout that broadcasts to `sizes`.
fn input(dice: &mut Dice, sizes: &[i64]) -> Result<Tensor> {
    let mut own: Vec<i64> = sizes.to_vec();
    match dice.roll(6) {
        0 => own.iter_mut().for_each(|size| *size = if dice.roll(2) == 0 { 1 } else { *size }),
        1 => drop(own.drain(..dice.roll(sizes.len()))),
        _ => {}
    }
    let padded: Vec<i64> = own.iter().map(|size| size + 2).collect();
    let numel: i64 = padded.iter().product();
    let shift = dice.roll(50) as i64;
    let values: Vec<f32> =
        (0..numel).map(|i| ((i * 29 + shift) % 61) as f32 / 11.0 - 2.5).collect();
    let base = Tensor::from_vec(values, &padded)?;
    let base = base.to_dtype(*dice.pick(&DTYPES))?;
    let mut cut = base;
    for (dim, &size) in own.iter().enumerate() {
        cut = cut.narrow(dim as i64, dice.roll(3) as i64, size)?;
    }
    match dice.roll(3) {
        0 if own.len() > 1 => {
            let swapped = cut.transpose(0, -1)?.contiguous()?;
            swapped.transpose(0, -1)
        }
        1 => Ok(cut),
        _ => cut.contiguous(),
    }
}

/// A reduction of the last dimensions, with or without them.
fn reduce(dice: &mut Dice, sketch: &mut Sketch, a: &Tensor) -> Result<Vec<Tensor>> {
    let dims: &[i64] = if a.dim() > 2 && dice.roll(3) == 0 { &[-2, -1] } else { &[-1] };
    let keep = dice.roll(2) == 0;
    let none = || Given::Value(IValue::None);
    let dim: Given = IValue::IntList(dims.iter().copied().collect()).into();
    let keeps: Given = IValue::Bool(keep).into();
    let made = match dice.roll(5) {
        0 => sketch.call("aten::sum.dim_IntList", &[a.into(), dim, keeps, none()])?,
        1 => sketch.call("aten::mean.dim", &[a.into(), dim, keeps, none()])?,
        2 => sketch.call("aten::amax", &[a.into(), dim, keeps])?,
        3 => sketch.call("aten::amin", &[a.into(), dim, keeps])?,
        _ => sketch.call("aten::var.correction", &[a.into(), dim, none(), keeps])?,
    };
    match keep {
        true => Ok(made),
        false => dims.iter().try_fold(made, |made, _| {
            made.into_iter().map(|tensor| tensor.unsqueeze(-1)).collect()
        }),
    }
}

fn step(dice: &mut Dice, sketch: &mut Sketch, live: &mut Vec<Tensor>) -> Result<()> {
    let a = dice.pick(live).clone();
    let b = dice.pick(live).clone();
    let alpha: Given = 1_i64.into();
    let with_alpha = |name: &str| name.contains("add") || name.contains("sub");
    let made = match dice.roll(14) {
        0..=3 => {
            let name = *dice.pick(&UNARY);
            sketch.call(name, &[(&a).into()])
        }
        4..=6 => {
            let name = *dice.pick(&BINARY);
            let mut given: Vec<Given> = vec![(&a).into(), (&b).into()];
            given.extend(with_alpha(name).then_some(alpha));
            sketch.call(name, &given)
        }
        7 => {
            let number = Given::Number(Scalar::Float(0.75));
            sketch.call("aten::mul.Tensor", &[(&a).into(), number])
        }
        8 => {
            let name = *dice.pick(&BINARY_IN_PLACE);
            let mut given: Vec<Given> = vec![(&a).into(), (&b).into()];
            given.extend(with_alpha(name).then_some(alpha));
            if name.contains("copy") {
                given.push(IValue::Bool(false).into());
            }
            sketch.call(name, &given)
        }
        9 => {
            let name = *dice.pick(&UNARY_IN_PLACE);
            sketch.call(name, &[(&a).into()])
        }
        10 => {
            let mask = sketch.one("aten::gt.Scalar", &[(&a).into(), 0.5.into()])?;
            sketch.call("aten::where.self", &[(&mask).into(), (&a).into(), (&b).into()])
        }
        _ if a.dim() > 0 && a.dtype().is_floating_point() => reduce(dice, sketch, &a),
        _ => return Ok(()),
    };
    // Calls that the dtypes or shapes refuse are no part of the program.
    let Ok(made) = made else { return Ok(()) };
    for tensor in made {
        if tensor.dim() > 1 && dice.roll(5) == 0 {
            live.push(tensor.transpose(0, 1)?.transpose(0, 1)?.narrow(0, 0, 1)?);
        }
        live.push(tensor);
    }
    Ok(())
}

fn run(seed: u64) -> Result<Report> {
    let mut dice = Dice(seed | 1);
    let shapes: [&[i64]; 7] =
        [&[37], &[5, 70], &[3, 4, 33], &[2, 3, 5, 11], &[300, 300], &[1, 65], &[7, 3, 200]];
    let sizes = *dice.pick(&shapes);
    let mut sketch = Sketch::default();
    let mut live = Vec::new();
    for _ in 0..2 + dice.roll(3) {
        live.push(input(&mut dice, sizes)?);
    }
    let inputs = live.len();
    for _ in 0..4 + dice.roll(14) {
        step(&mut dice, &mut sketch, &mut live)?;
    }
    let made: Vec<Tensor> = live.split_off(inputs);
    let wanted: Vec<&Tensor> = made.iter().filter(|_| dice.roll(3) == 0).collect();
    sketch.consume(&wanted, || dice.roll(2) == 0)?;
    sketch.check(&wanted)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn plans_give_what_calls_give(seed in any::<u64>()) {
        run(seed).map_err(|error| TestCaseError::fail(format!("{error:?}")))?;
    }
}

#[test]
fn many_nodes_are_put_together() -> Result<()> {
    let reports: Vec<Report> = (0..50).map(|seed| run(seed * 7919 + 1)).collect::<Result<_>>()?;
    let fused: usize = reports.iter().flat_map(|report| &report.groups).map(Vec::len).sum();
    assert!(fused > 150, "{fused} nodes of 50 programs");
    let in_place: usize = reports.iter().map(|report| report.in_place).sum();
    assert!(in_place > 10, "{in_place} results of 50 programs");
    Ok(())
}
