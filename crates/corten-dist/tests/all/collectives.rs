//! Collectives of threads: dtypes, sizes, mismatches.

use std::sync::Arc;
use std::time::Duration;

use corten_core::DType;
use corten_dist::{Call, CallOptions, Engine, Factor, ReduceOp, ThreadWorld, Work, reduce};
use corten_ops::{Tensor, op};

const LONG: Option<Duration> = Some(Duration::from_secs(20));

/// Starts a call on each rank; the works.
fn start(size: usize, call: impl Fn(usize) -> Call) -> Vec<Arc<Work>> {
    let world = ThreadWorld::new(size).unwrap();
    let engines: Vec<Arc<dyn Engine>> = (0..size).map(|rank| world.engine(rank).unwrap()).collect();
    let options = CallOptions::default();
    engines.iter().enumerate().map(|(rank, engine)| engine.start(call(rank), &options)).collect()
}

fn run(size: usize, call: impl Fn(usize) -> Call) {
    start(size, call).iter().for_each(|work| work.wait(LONG).unwrap());
}

fn tensor(values: &[f64], dtype: DType) -> Tensor {
    let tensor = Tensor::from_slice(values, &[values.len() as i64]).unwrap();
    op::to_dtype(&tensor, dtype, false, true, None).unwrap()
}

fn values(tensor: &Tensor) -> Vec<f64> {
    tensor.to_vec::<f64>().unwrap()
}

#[test]
fn reductions_of_every_dtype() {
    corten::init().unwrap();
    let dtypes = [
        DType::Float32,
        DType::Float64,
        DType::Float16,
        DType::BFloat16,
        DType::UInt8,
        DType::Int8,
        DType::Int16,
        DType::Int32,
        DType::Int64,
    ];
    let expected: [(ReduceOp, [f64; 3]); 5] = [
        (ReduceOp::Sum, [6.0, 4.0, 9.0]),
        (ReduceOp::Product, [6.0, 0.0, 27.0]),
        (ReduceOp::Min, [1.0, 0.0, 3.0]),
        (ReduceOp::Max, [3.0, 4.0, 3.0]),
        (ReduceOp::Avg, [2.0, 4.0 / 3.0, 3.0]),
    ];
    for dtype in dtypes {
        for (operation, result) in &expected {
            let inputs = [[1.0, 0.0, 3.0], [2.0, 0.0, 3.0], [3.0, 4.0, 3.0]];
            let tensors: Vec<Tensor> = inputs.iter().map(|input| tensor(input, dtype)).collect();
            run(3, |rank| Call::AllReduce { tensor: tensors[rank].clone(), op: operation.clone() });
            let result = values(&tensor(result, dtype));
            tensors.iter().for_each(|each| assert_eq!(values(each), result, "{operation} {dtype}"));
        }
    }
}

#[test]
fn bits() {
    corten::init().unwrap();
    for (operation, result) in
        [(ReduceOp::BitAnd, 4.0), (ReduceOp::BitOr, 15.0), (ReduceOp::BitXor, 12.0 - 4.0 + 3.0)]
    {
        let tensors = [tensor(&[12.0], DType::Int32), tensor(&[7.0], DType::Int32)];
        run(2, |rank| Call::AllReduce { tensor: tensors[rank].clone(), op: operation.clone() });
        assert_eq!(values(&tensors[1]), [result], "{operation}");
    }
    assert!(ReduceOp::BitXor.check(DType::Float32).is_err());
    assert!(ReduceOp::Max.check(DType::Complex64).is_err());
}

#[test]
fn sizes() {
    corten::init().unwrap();
    for count in [0, 1, 7, 1_000_000] {
        let tensors: Vec<Tensor> = (1..4)
            .map(|rank| Tensor::from_vec(vec![rank as f32; count], &[count as i64]).unwrap())
            .collect();
        run(3, |rank| Call::AllReduce { tensor: tensors[rank].clone(), op: ReduceOp::Sum });
        for each in &tensors {
            assert!(each.to_vec::<f32>().unwrap().iter().all(|&value| value == 6.0));
        }
    }
}

#[test]
fn sums_of_halves_are_rounded_once() {
    corten::init().unwrap();
    let inputs: Vec<(Tensor, &ReduceOp)> =
        (0..2048).map(|_| (tensor(&[1.0], DType::BFloat16), &ReduceOp::Sum)).collect();
    assert_eq!(values(&reduce(&inputs).unwrap()), [2048.0]);
}

#[test]
fn factors_are_of_each_rank() {
    corten::init().unwrap();
    let tensors = [tensor(&[1.0], DType::Float32), tensor(&[10.0], DType::Float32)];
    run(2, |rank| {
        let factor = match rank {
            0 => Factor::Number(2.0),
            _ => Factor::Tensor(tensor(&[0.5], DType::Float32)),
        };
        Call::AllReduce { tensor: tensors[rank].clone(), op: ReduceOp::PremulSum(factor) }
    });
    assert_eq!(values(&tensors[0]), [7.0]);
}

#[test]
fn parts_of_one_memory() {
    corten::init().unwrap();
    let wholes: Vec<Tensor> = (0..2).map(|_| tensor(&[0.0; 4], DType::Float64)).collect();
    let part = |rank: usize| corten_dist::memory::part(&wholes[rank], 2 * rank, 2).unwrap();
    (0..2)
        .for_each(|rank| drop(op::fill__scalar(&part(rank), (rank as f64 + 1.0).into()).unwrap()));
    run(2, |rank| Call::AllGatherInto { output: wholes[rank].clone(), input: part(rank) });
    assert_eq!(values(&wholes[0]), [1.0, 1.0, 2.0, 2.0]);
    run(2, |rank| Call::ReduceScatterInto {
        output: part(rank),
        input: wholes[rank].clone(),
        op: ReduceOp::Sum,
    });
    assert_eq!(values(&wholes[0]), [2.0, 2.0, 2.0, 2.0]);
    assert_eq!(values(&wholes[1]), [1.0, 1.0, 4.0, 4.0]);
}

#[test]
fn ranks_that_disagree_fail() {
    corten::init().unwrap();
    let ones = |count: usize| tensor(&vec![1.0; count], DType::Float32);
    let sum = |tensor: Tensor| Call::AllReduce { tensor, op: ReduceOp::Sum };
    let cases: [[Call; 2]; 4] = [
        [sum(ones(1)), sum(ones(2))],
        [sum(ones(1)), sum(tensor(&[1.0], DType::Float64))],
        [sum(ones(1)), Call::Barrier { device: None }],
        [
            Call::Broadcast { tensor: ones(1), root: 0 },
            Call::Broadcast { tensor: ones(1), root: 1 },
        ],
    ];
    for case in cases {
        for work in start(2, |rank| case[rank].clone()) {
            let error = work.wait(LONG).unwrap_err();
            assert!(error.message().contains("mismatch"), "{error}");
        }
    }
    let splits = [[1, 1], [2, 0]];
    for work in start(2, |rank| Call::AllToAllBase {
        output: ones(2),
        input: ones(2),
        output_splits: splits[rank].to_vec(),
        input_splits: vec![1, 1],
    }) {
        assert!(work.wait(LONG).unwrap_err().message().contains("expects"));
    }
}

#[test]
fn messages_keep_their_order_and_tags() {
    corten::init().unwrap();
    let world = ThreadWorld::new(2).unwrap();
    let (a, b) = (world.engine(0).unwrap(), world.engine(1).unwrap());
    let options = CallOptions::default();
    let number = |value: f64| tensor(&[value], DType::Float32);
    let got: Vec<Tensor> = (0..3).map(|_| number(0.0)).collect();
    let early = b.start(Call::Recv { tensor: got[0].clone(), from: 0, tag: 5 }, &options);
    for (value, tag) in [(1.0, 4), (2.0, 5), (3.0, 4)] {
        a.start(Call::Send { tensor: number(value), to: 1, tag }, &options).wait(LONG).unwrap();
    }
    let late = b.start(Call::RecvAny { tensor: got[1].clone(), tag: 4 }, &options);
    let last = b.start(Call::Recv { tensor: got[2].clone(), from: 0, tag: 4 }, &options);
    Work::join("all", vec![early, late.clone(), last]).wait(LONG).unwrap();
    assert_eq!(got.iter().flat_map(values).collect::<Vec<_>>(), [2.0, 1.0, 3.0]);
    assert_eq!(late.source_rank().unwrap(), 0);
    a.start(Call::Send { tensor: number(1.0), to: 1, tag: 0 }, &options);
    let wrong = Call::Recv { tensor: tensor(&[0.0, 0.0], DType::Float32), from: 0, tag: 0 };
    assert!(b.start(wrong, &options).wait(LONG).is_err());
}
