//! What the ranks do.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use corten_core::{Complex, Element, F8E4M3FN, F8E5M2, Scalar, bf16, f16};
use corten_dist::{Call, CallOptions, Engine, Factor, ReduceOp, Work, mpi_world};
use corten_ops::Tensor;

use super::launch;

const TIMEOUT: Duration = Duration::from_secs(30);

pub fn run(role: &str) {
    let folder = PathBuf::from(std::env::var(launch::FOLDER).unwrap());
    let world = mpi_world(TIMEOUT).unwrap();
    let rank = world.rank();
    std::fs::write(folder.join(format!("process-{rank}")), std::process::id().to_string()).unwrap();
    match role {
        "collectives" => collectives(&*world),
        "few" => {
            movements::<f32>(&*world, &[0, 17, 10_001]);
            reductions::<f32>(&*world, &[0, 17, 10_001]);
            reductions::<bf16>(&*world, &[17]);
            same_bits(&*world, 100_003);
        }
        "long" => long(&*world),
        "groups" => groups(&*world),
        "stopped" => failure(&*world, libc::SIGSTOP),
        "killed" => failure(&*world, libc::SIGKILL),
        "alone" => {
            assert_eq!((world.rank(), world.size()), (0, 1));
            reductions::<f32>(&*world, &[3]);
        }
        _ => panic!("no role {role}"),
    }
    std::fs::write(folder.join(format!("ended-{rank}")), "").unwrap();
    // Launchers may end all ranks when the first one exits without having ended MPI.
    let others: &[usize] = if ["stopped", "killed"].contains(&role) { &[0, 2] } else { &[] };
    let has_ended = |rank: &usize| folder.join(format!("ended-{rank}")).exists();
    while !others.iter().all(has_ended) {
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn start(engine: &dyn Engine, call: Call) -> Arc<Work> {
    let options = CallOptions { timeout: TIMEOUT, ..CallOptions::default() };
    engine.start(call, &options)
}

fn finish(engine: &dyn Engine, call: Call) {
    start(engine, call).wait(Some(TIMEOUT)).unwrap();
}

fn tensor<T: Element>(values: Vec<T>) -> Tensor {
    let len = values.len() as i64;
    Tensor::from_vec(values, &[len]).unwrap()
}

/// Element `index` of rank `rank`: small numbers, so that every sum of few ranks is exact in every dtype.
fn number(rank: usize, index: usize) -> i64 {
    ((index * 7 + rank * 3) % 3) as i64
}

fn element<T: Element>(value: i64) -> T {
    T::from_scalar(Scalar::Int(value))
}

fn values<T: Element>(rank: usize, from: usize, len: usize) -> Vec<T> {
    (from..from + len).map(|index| element(number(rank, index))).collect()
}

fn expect<T: Element>(tensor: &Tensor, expected: &[T], what: &str) {
    let found = tensor.to_vec::<T>().unwrap();
    let at = found.iter().zip(expected).position(|(a, b)| a != b);
    assert!(
        found.len() == expected.len() && at.is_none(),
        "{what} of {} elements of {}: {:?} differ at {at:?}: {:?} instead of {:?}",
        found.len(),
        T::DTYPE,
        at.map(|at| (found[at], expected[at])),
        &found[..found.len().min(8)],
        &expected[..expected.len().min(8)],
    );
}

const SIZES: [usize; 4] = [0, 1, 17, 1001];

fn collectives(engine: &dyn Engine) {
    macro_rules! each {
        ($($element:ty => $sizes:expr),*) => {$(
            movements::<$element>(engine, &$sizes);
            reductions::<$element>(engine, &$sizes);
        )*};
    }
    each!(f32 => SIZES, f64 => [17], f16 => [17], bf16 => SIZES, F8E5M2 => [17], F8E4M3FN => [17]);
    each!(Complex<f16> => [17], Complex<f32> => [17], Complex<f64> => [17]);
    each!(u8 => [17], i8 => [17], i16 => [17], i32 => [17], i64 => SIZES, u16 => [17], u32 => [17]);
    each!(u64 => [17]);
    movements::<bool>(engine, &SIZES);
    extrema::<f32>(engine);
    extrema::<bf16>(engine);
    extrema::<i64>(engine);
    bits(engine);
    bools(engine);
    nan(engine);
    movements::<f32>(engine, &[1_000_000]);
    reductions::<f32>(engine, &[1_000_000]);
    reductions::<bf16>(engine, &[100_003]);
    same_bits(engine, 1_000_000);
    wrong_calls(engine);
}

/// Every call takes several steps of MPI.
fn long(engine: &dyn Engine) {
    movements::<f32>(engine, &[0, 1, 101]);
    movements::<Complex<f64>>(engine, &[7]);
    reductions::<f32>(engine, &[0, 1, 101]);
    reductions::<Complex<f64>>(engine, &[7]);
    messages(engine);
}

/// What only moves elements.
fn movements<T: Element>(engine: &dyn Engine, sizes: &[usize]) {
    let (rank, size) = (engine.rank(), engine.size());
    let empty = |len: usize| tensor(vec![element::<T>(0); len]);
    for &len in sizes {
        let all: Vec<Vec<T>> = (0..size).map(|rank| values(rank, 0, len)).collect();
        let joined: Vec<T> = all.concat();
        let last = size - 1;
        let input = tensor(all[rank].clone());

        finish(engine, Call::Broadcast { tensor: input.clone(), root: last });
        expect(&input, &all[last], "broadcast");
        let input = tensor(all[rank].clone());

        let outputs: Vec<Tensor> = (0..size).map(|_| empty(len)).collect();
        finish(engine, Call::AllGather { outputs: outputs.clone(), input: input.clone() });
        outputs.iter().zip(&all).for_each(|(output, all)| expect(output, all, "allgather"));

        let uneven: Vec<Tensor> = (0..size).map(|rank| empty(len + rank)).collect();
        let given = tensor(values::<T>(rank, 0, len + rank));
        finish(engine, Call::AllGather { outputs: uneven.clone(), input: given });
        for (from, output) in uneven.iter().enumerate() {
            expect(output, &values::<T>(from, 0, len + from), "uneven allgather");
        }

        let output = empty(len * size);
        finish(engine, Call::AllGatherInto { output: output.clone(), input: input.clone() });
        expect(&output, &joined, "_allgather_base");
        let own = output.narrow(0, (rank * len) as i64, len as i64).unwrap();
        finish(engine, Call::AllGatherInto { output: output.clone(), input: own });
        expect(&output, &joined, "_allgather_base in place");

        let outputs: Vec<Tensor> =
            if rank == last { (0..size).map(|_| empty(len)).collect() } else { Vec::new() };
        let call = Call::Gather { outputs: outputs.clone(), input: input.clone(), root: last };
        finish(engine, call);
        outputs.iter().zip(&all).for_each(|(output, all)| expect(output, all, "gather"));

        let inputs =
            if rank == last { all.iter().cloned().map(tensor).collect() } else { Vec::new() };
        let output = empty(len);
        finish(engine, Call::Scatter { output: output.clone(), inputs, root: last });
        expect(&output, &all[rank], "scatter");

        all_to_all::<T>(engine, len);
    }
}

/// Rank `from` gives rank `to` `len + from + 2 * to` elements.
fn all_to_all<T: Element>(engine: &dyn Engine, len: usize) {
    let (rank, size) = (engine.rank(), engine.size());
    let count = |from: usize, to: usize| len + from + 2 * to;
    let given = |from: usize, to: usize| values::<T>(from * size + to, 0, count(from, to));
    let inputs: Vec<Vec<T>> = (0..size).map(|to| given(rank, to)).collect();
    let expected: Vec<Vec<T>> = (0..size).map(|from| given(from, rank)).collect();
    let outputs: Vec<Tensor> =
        expected.iter().map(|values| tensor(vec![element::<T>(0); values.len()])).collect();
    let call = Call::AllToAll {
        outputs: outputs.clone(),
        inputs: inputs.iter().cloned().map(tensor).collect(),
    };
    finish(engine, call);
    outputs.iter().zip(&expected).for_each(|(output, all)| expect(output, all, "alltoall"));

    let output = tensor(vec![element::<T>(0); expected.concat().len()]);
    let call = Call::AllToAllBase {
        output: output.clone(),
        input: tensor(inputs.concat()),
        output_splits: expected.iter().map(Vec::len).collect(),
        input_splits: inputs.iter().map(Vec::len).collect(),
    };
    finish(engine, call);
    expect(&output, &expected.concat(), "alltoall_base");
}

/// Element by element over the ranks.
fn reduced<T: Element>(
    size: usize,
    from: usize,
    len: usize,
    combine: impl Fn(i64, i64) -> i64,
) -> Vec<T> {
    let of = |index| (0..size).map(|rank| number(rank, index)).reduce(&combine).unwrap();
    (from..from + len).map(|index| element(of(index))).collect()
}

/// Sums, products and what comes of them.
fn reductions<T: Element>(engine: &dyn Engine, sizes: &[usize]) {
    let (rank, size) = (engine.rank(), engine.size());
    let root = size / 2;
    for &len in sizes {
        let sums: Vec<T> = reduced(size, 0, len, |a, b| a + b);
        let products: Vec<T> = reduced(size, 0, len, |a, b| a * b);
        for (op, expected) in [(ReduceOp::Sum, &sums), (ReduceOp::Product, &products)] {
            let input = tensor(values::<T>(rank, 0, len));
            finish(engine, Call::AllReduce { tensor: input.clone(), op: op.clone() });
            expect(&input, expected, op.name());
            let input = tensor(values::<T>(rank, 0, len));
            finish(engine, Call::Reduce { tensor: input.clone(), root, op: op.clone() });
            if rank == root {
                expect(&input, expected, "reduce");
            }
        }
        // Twice the number, and as many times as there are ranks, of which the average is known.
        let scaled = ReduceOp::PremulSum(Factor::Number(2.0));
        if scaled.check(T::DTYPE).is_ok() {
            let input = tensor(values::<T>(rank, 0, len));
            finish(engine, Call::AllReduce { tensor: input.clone(), op: scaled });
            let sum = |at: usize| (0..size).map(|rank| 2 * number(rank, at)).sum::<i64>();
            let twice: Vec<T> = (0..len).map(|at| element(sum(at))).collect();
            expect(&input, &twice, "PREMUL_SUM");
        }
        let input = tensor(values::<T>(3, 0, len));
        finish(engine, Call::AllReduce { tensor: input.clone(), op: ReduceOp::Avg });
        expect(&input, &values::<T>(3, 0, len), "AVG");

        let all: Vec<Vec<T>> = (0..size).map(|part| values(rank, part * len, len)).collect();
        let expected: Vec<T> = reduced(size, rank * len, len, |a, b| a + b);
        let output = tensor(vec![element::<T>(0); len]);
        let inputs = all.iter().cloned().map(tensor).collect();
        let call = Call::ReduceScatter { output: output.clone(), inputs, op: ReduceOp::Sum };
        finish(engine, call);
        expect(&output, &expected, "reduce_scatter");
        let input = tensor(all.concat());
        let own = input.narrow(0, (rank * len) as i64, len as i64).unwrap();
        let call = Call::ReduceScatterInto { output: own.clone(), input, op: ReduceOp::Sum };
        finish(engine, call);
        expect(&own, &expected, "_reduce_scatter_base");
    }
}

fn extrema<T: Element>(engine: &dyn Engine) {
    let (rank, size) = (engine.rank(), engine.size());
    for (op, smallest) in [(ReduceOp::Min, true), (ReduceOp::Max, false)] {
        let input = tensor(values::<T>(rank, 0, 33));
        finish(engine, Call::AllReduce { tensor: input.clone(), op: op.clone() });
        let expected: Vec<T> =
            reduced(size, 0, 33, |a, b| if smallest { a.min(b) } else { a.max(b) });
        expect(&input, &expected, op.name());
    }
}

fn bits(engine: &dyn Engine) {
    let (rank, size) = (engine.rank(), engine.size());
    let cases: [(ReduceOp, fn(i64, i64) -> i64); 3] = [
        (ReduceOp::BitAnd, |a, b| a & b),
        (ReduceOp::BitOr, |a, b| a | b),
        (ReduceOp::BitXor, |a, b| a ^ b),
    ];
    for (op, combine) in cases {
        let input = tensor(values::<i32>(rank, 0, 33));
        finish(engine, Call::AllReduce { tensor: input.clone(), op: op.clone() });
        expect(&input, &reduced::<i32>(size, 0, 33, combine), op.name());
    }
}

fn bools(engine: &dyn Engine) {
    let (rank, size) = (engine.rank(), engine.size());
    let of = |rank: usize| -> Vec<bool> { (0..9).map(|index| number(rank, index) > 0).collect() };
    let cases: [(ReduceOp, fn(bool, bool) -> bool); 5] = [
        (ReduceOp::Sum, |a, b| a | b),
        (ReduceOp::Product, |a, b| a & b),
        (ReduceOp::Min, |a, b| a & b),
        (ReduceOp::Max, |a, b| a | b),
        (ReduceOp::BitXor, |a, b| a ^ b),
    ];
    for (op, combine) in cases {
        let input = tensor(of(rank));
        finish(engine, Call::AllReduce { tensor: input.clone(), op: op.clone() });
        let merged =
            |a: Vec<bool>, b: Vec<bool>| a.into_iter().zip(b).map(|(a, b)| combine(a, b)).collect();
        expect(&input, &(0..size).map(of).reduce(merged).unwrap(), op.name());
    }
}

/// NaN on one rank is NaN on all.
fn nan(engine: &dyn Engine) {
    for op in [ReduceOp::Min, ReduceOp::Max, ReduceOp::Sum] {
        for at in 0..engine.size() {
            let value = if engine.rank() == at { f32::NAN } else { 1.0 };
            let input = tensor(vec![value]);
            finish(engine, Call::AllReduce { tensor: input.clone(), op: op.clone() });
            assert!(input.to_vec::<f32>().unwrap()[0].is_nan(), "{op} of NaN on rank {at}");
        }
    }
}

/// Sums that are rounded have the same bits on all ranks.
fn same_bits(engine: &dyn Engine, len: usize) {
    let mut state = 1 + engine.rank() as u64;
    let random = (0..len).map(|_| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / 1e4 - 800.0
    });
    let input = tensor(random.collect());
    finish(engine, Call::AllReduce { tensor: input.clone(), op: ReduceOp::Sum });
    let first = tensor(input.to_vec::<f32>().unwrap());
    finish(engine, Call::Broadcast { tensor: first.clone(), root: 0 });
    let bits = |tensor: &Tensor| -> Vec<u32> {
        tensor.to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect()
    };
    assert!(bits(&input) == bits(&first), "ranks got other bits");
}

/// What MPI cannot do is said before it starts.
fn wrong_calls(engine: &dyn Engine) {
    let call = |tensor, op| start(engine, Call::AllReduce { tensor, op }).wait(None).unwrap_err();
    let error = call(tensor(vec![1.0_f32]), ReduceOp::BitAnd);
    assert!(error.message().contains("BAND"), "{error}");
    let error = call(tensor(vec![1_i32]), ReduceOp::PremulSum(Factor::Number(0.5)));
    assert!(error.message().contains("PREMUL_SUM"), "{error}");
    let error = call(tensor(vec![true]), ReduceOp::Avg);
    assert!(error.message().contains("AVG"), "{error}");
    let tensor = tensor(vec![1_i32]);
    let error = start(engine, Call::Send { tensor, to: 0, tag: -3 }).wait(None).unwrap_err();
    assert!(error.message().contains("tags from 0"), "{error}");
}

/// Messages with tags, in any order, from any rank.
fn messages(engine: &dyn Engine) {
    let (rank, size) = (engine.rank(), engine.size());
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    let (first, second) = (tensor(vec![0_i64; 33]), tensor(vec![0_i64; 5]));
    let works = [
        start(engine, Call::Recv { tensor: second.clone(), from: previous, tag: 8 }),
        start(engine, Call::Recv { tensor: first.clone(), from: previous, tag: 7 }),
        start(engine, Call::Send { tensor: tensor(values::<i64>(rank, 0, 33)), to: next, tag: 7 }),
        start(engine, Call::Send { tensor: tensor(values::<i64>(rank, 9, 5)), to: next, tag: 8 }),
    ];
    works.iter().for_each(|work| work.wait(Some(TIMEOUT)).unwrap());
    expect(&first, &values::<i64>(previous, 0, 33), "recv");
    expect(&second, &values::<i64>(previous, 9, 5), "recv");
    assert_eq!(works[0].source_rank().unwrap(), previous);

    if rank == 0 {
        let mut sources: Vec<usize> = (1..size)
            .map(|_| {
                let output = tensor(vec![0_i64; 40]);
                let work = start(engine, Call::RecvAny { tensor: output.clone(), tag: 3 });
                work.wait(Some(TIMEOUT)).unwrap();
                let source = work.source_rank().unwrap();
                expect(&output, &values::<i64>(source, 0, 40), "recvAnySource");
                source
            })
            .collect();
        sources.sort_unstable();
        assert_eq!(sources, (1..size).collect::<Vec<_>>());
    } else {
        let tensor = tensor(values::<i64>(rank, 0, 40));
        finish(engine, Call::Send { tensor, to: 0, tag: 3 });
    }
    finish(engine, Call::Barrier { device: None });
}

/// Groups of some ranks, in their order; calls of several groups at once; a message of the wrong size.
fn groups(world: &dyn Engine) {
    messages(world);
    let (rank, size) = (world.rank(), world.size());
    let odd: Vec<usize> = (0..size).filter(|rank| rank % 2 == 1).collect();
    let reversed: Vec<usize> = (0..size).rev().collect();
    let of_odd = world.split(&odd, TIMEOUT).unwrap();
    assert_eq!(of_odd.is_some(), odd.contains(&rank));
    let of_reversed = world.split(&reversed, TIMEOUT).unwrap().unwrap();
    assert_eq!((of_reversed.rank(), of_reversed.size()), (size - 1 - rank, size));
    let engines = [Some(world), of_odd.as_deref(), Some(&*of_reversed)];
    let mut works = Vec::new();
    for (number, engine) in engines.into_iter().enumerate() {
        let Some(engine) = engine else { continue };
        for round in 0..3 {
            let tensor = tensor(values::<f32>(engine.rank(), round, 1000 * (number + 1)));
            let call = Call::AllReduce { tensor: tensor.clone(), op: ReduceOp::Sum };
            works.push((start(engine, call), tensor, engine.size(), round));
        }
    }
    for (work, tensor, size, round) in works.iter().rev() {
        work.wait(Some(TIMEOUT)).unwrap();
        let len = tensor.numel() as usize;
        expect(tensor, &reduced::<f32>(*size, *round, len, |a, b| a + b), "overlapping allreduce");
    }
    if let Some(engine) = &of_odd {
        movements::<i16>(&**engine, &[5]);
        engine.shutdown();
    }
    let batch = Call::Batch(vec![
        Call::Barrier { device: None },
        Call::AllReduce { tensor: tensor(vec![1_i32]), op: ReduceOp::Sum },
    ]);
    let work = start(world, batch);
    work.wait(Some(TIMEOUT)).unwrap();
    expect(&work.outputs()[0], &[size as i32], "batch");
    wrong_message(world);
}

fn wrong_message(world: &dyn Engine) {
    match world.rank() {
        0 => {
            let tensor = tensor(vec![1_i32; 3]);
            finish(world, Call::Send { tensor, to: 1, tag: 5 });
        }
        1 => {
            let tensor = tensor(vec![1_i32; 4]);
            let work = start(world, Call::Recv { tensor, from: 0, tag: 5 });
            let error = work.wait(Some(TIMEOUT)).unwrap_err();
            assert!(error.message().contains("12 bytes"), "{error}");
        }
        _ => {}
    }
    finish(world, Call::Barrier { device: None });
}

/// Rank 1 stops in the middle of a collective: the others get errors in time, for this call and the next.
fn failure(engine: &dyn Engine, signal: i32) {
    let call = || Call::AllReduce { tensor: tensor(vec![1.0_f32; 100_000]), op: ReduceOp::Sum };
    finish(engine, call());
    if engine.rank() == 1 {
        // SAFETY: a signal to this process itself.
        unsafe { libc::kill(libc::getpid(), signal) };
        // Another thread may be the one that takes the signal, a little later.
        std::thread::sleep(Duration::from_secs(100));
    }
    let begun = Instant::now();
    let options = CallOptions { timeout: Duration::from_secs(1), ..CallOptions::default() };
    let error = engine.start(call(), &options).wait(Some(TIMEOUT)).unwrap_err();
    assert!(error.message().contains("allreduce"), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(6), "{:?}", begun.elapsed());
    assert!(start(engine, call()).wait(Some(TIMEOUT)).is_err());
}
