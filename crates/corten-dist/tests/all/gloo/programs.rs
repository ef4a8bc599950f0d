//! What each rank runs.

use corten_core::{DType, TensorBase, TensorOptions};
use corten_dist::{Call, CallOptions, Engine, Factor, ReduceOp, Work};
use corten_ops::Tensor;
use std::sync::Arc;

use super::Rank;
use super::values::{self, Numbers};

/// Runs a program by name.
pub(super) fn run(program: &str, rank: &Rank) {
    match program {
        "values" => every_collective(rank),
        "reductions" => every_reduction(rank),
        "agreement" => agreement(rank),
        "transfers" => transfers(rank),
        "split" => split(rank),
        "resized" => resized_meanwhile(rank),
        other => super::faults::loop_until_failure(other, rank),
    }
}

/// A tensor of some bytes.
pub(super) fn tensor(dtype: DType, bytes: &[u8]) -> Tensor {
    let count = (bytes.len() / dtype.itemsize()) as i64;
    let base = TensorBase::empty(&[count], TensorOptions::default().dtype(dtype)).expect("memory");
    if !bytes.is_empty() {
        base.storage().expect("a storage").write_bytes(0, bytes).expect("its bytes");
    }
    Tensor::from(base)
}

pub(super) fn bytes(tensor: &Tensor) -> Vec<u8> {
    let start = tensor.storage_offset() as usize * tensor.itemsize();
    let all = tensor.storage().expect("a storage").read_bytes().expect("its bytes");
    all[start..start + tensor.nbytes()].to_vec()
}

impl Rank {
    pub(super) fn rank(&self) -> usize {
        self.engine.rank()
    }

    pub(super) fn size(&self) -> usize {
        self.engine.size()
    }

    pub(super) fn begin(&self, call: Call) -> Arc<Work> {
        self.engine.start(call, &CallOptions { timeout: self.timeout, ..CallOptions::default() })
    }

    pub(super) fn call(&self, call: Call) {
        let name = call.name();
        if let Err(error) = self.begin(call).wait(None) {
            panic!("{name}: {error}");
        }
    }

    /// The rank's elements as a tensor.
    fn own(&self, numbers: &Numbers, salt: usize) -> Tensor {
        tensor(numbers.dtype, &numbers.bytes(salt))
    }
}

const SIZES: [usize; 4] = [0, 1, 1001, 70_000];

/// Movement of bytes: what arrives is what was sent, for elements of every size.
fn every_collective(rank: &Rank) {
    for dtype in [DType::Bool, DType::BFloat16, DType::Float32, DType::Int64, DType::Complex128] {
        for count in SIZES {
            one_size(rank, Numbers { dtype, count });
        }
    }
    one_size(rank, Numbers { dtype: DType::Float32, count: 1_000_000 });
}

fn one_size(rank: &Rank, numbers: Numbers) {
    let (me, size, n) = (rank.rank(), rank.size(), numbers);
    let empty = || tensor(n.dtype, &vec![0; n.count * n.dtype.itemsize()]);
    let blanks = || (0..size).map(|_| empty()).collect::<Vec<_>>();
    let expected = |salt: usize, got: &Tensor, what: &str| {
        assert!(bytes(got) == n.bytes(salt), "{what} of {} x {}", n.count, n.dtype.name());
    };

    let outputs = blanks();
    rank.call(Call::AllGather { outputs: outputs.clone(), input: rank.own(&n, me) });
    outputs.iter().enumerate().for_each(|(r, got)| expected(r, got, "allgather"));

    let whole = tensor(n.dtype, &vec![0; size * n.count * n.dtype.itemsize()]);
    rank.call(Call::AllGatherInto { output: whole.clone(), input: rank.own(&n, me) });
    let all: Vec<u8> = (0..size).flat_map(|r| n.bytes(r)).collect();
    assert!(bytes(&whole) == all, "_allgather_base");

    let inputs: Vec<Tensor> = (0..size).map(|r| rank.own(&n, 10 * me + r)).collect();
    let outputs = blanks();
    rank.call(Call::AllToAll { outputs: outputs.clone(), inputs: inputs.clone() });
    outputs.iter().enumerate().for_each(|(r, got)| expected(10 * r + me, got, "alltoall"));
    uneven_rows(rank, n);

    for root in 0..size {
        let data = rank.own(&n, me);
        rank.call(Call::Broadcast { tensor: data.clone(), root });
        expected(root, &data, "broadcast");

        let outputs = if me == root { blanks() } else { Vec::new() };
        rank.call(Call::Gather { outputs: outputs.clone(), input: rank.own(&n, me), root });
        outputs.iter().enumerate().for_each(|(r, got)| expected(r, got, "gather"));

        let (output, given) = (empty(), if me == root { inputs.clone() } else { Vec::new() });
        rank.call(Call::Scatter { output: output.clone(), inputs: given, root });
        expected(10 * root + me, &output, "scatter");
    }
    rank.call(Call::Barrier { device: None });
}

/// Rank r gives r + 1 rows of a hundredth of the elements to each other.
fn uneven_rows(rank: &Rank, n: Numbers) {
    let (me, size) = (rank.rank(), rank.size());
    let row = Numbers { count: n.count / 100, ..n };
    let rows = |count: usize, salt: usize| -> Vec<u8> {
        (0..count).flat_map(|_| row.bytes(salt)).collect()
    };
    let width = (row.count * n.dtype.itemsize()).max(1);
    let received: usize = (0..size).map(|r| r + 1).sum();
    let input = tensor(n.dtype, &rows(size * (me + 1), me));
    let output = tensor(n.dtype, &vec![0; received * row.count * n.dtype.itemsize()]);
    rank.call(Call::AllToAllBase {
        output: output.clone(),
        input,
        output_splits: (0..size).map(|r| r + 1).collect(),
        input_splits: vec![me + 1; size],
    });
    let expected: Vec<u8> = (0..size).flat_map(|r| rows(r + 1, r)).collect();
    assert!(bytes(&output) == expected, "alltoall_base of rows of {width} bytes");
}

/// Every reduction of every dtype equals what one process computes.
fn every_reduction(rank: &Rank) {
    let (me, size) = (rank.rank(), rank.size());
    for (dtype, op) in values::reductions() {
        for count in [0, 1, 1001] {
            let numbers = Numbers { dtype, count };
            let operands: Vec<Vec<u8>> = (0..size).map(|r| numbers.bytes(r)).collect();
            let expected = values::reduced(dtype, &op, &operands);
            let what = format!("{op} of {count} x {}", dtype.name());

            let data = rank.own(&numbers, me);
            rank.call(Call::AllReduce { tensor: data.clone(), op: op.clone() });
            assert!(bytes(&data) == expected, "allreduce {what}");

            let data = rank.own(&numbers, me);
            rank.call(Call::Reduce { tensor: data.clone(), root: size - 1, op: op.clone() });
            assert!(me != size - 1 || bytes(&data) == expected, "reduce {what}");

            let inputs: Vec<Tensor> = (0..size).map(|_| rank.own(&numbers, me)).collect();
            let output = rank.own(&numbers, 5);
            let (to, op) = (output.clone(), op.clone());
            rank.call(Call::ReduceScatter { output: to, inputs: inputs.clone(), op });
            assert!(bytes(&output) == expected, "reduce_scatter {what}");
            assert!(bytes(&inputs[0]) == numbers.bytes(me), "inputs of {what}");
        }
    }
    // Many segments of a large tensor, the last of them shorter.
    let numbers = Numbers { dtype: DType::Int32, count: 1_000_003 };
    let operands: Vec<Vec<u8>> = (0..size).map(|r| numbers.bytes(r)).collect();
    let data = rank.own(&numbers, me);
    rank.call(Call::AllReduce { tensor: data.clone(), op: ReduceOp::Max });
    let expected = (0..numbers.count).flat_map(|index| {
        let element = |bytes: &Vec<u8>| bytes[4 * index]; // little endian, and less than 256
        [operands.iter().map(element).max().unwrap_or(0), 0, 0, 0]
    });
    assert!(bytes(&data).into_iter().eq(expected), "allreduce of many segments");
    refused(rank);
}

/// Reductions that there are not fail at once, on this rank alone, and harm nothing.
fn refused(rank: &Rank) {
    let float = Numbers { dtype: DType::Float32, count: 3 };
    let complex = Numbers { dtype: DType::Complex64, count: 3 };
    let integer = Numbers { dtype: DType::Int32, count: 3 };
    let truth = Numbers { dtype: DType::Bool, count: 3 };
    for (numbers, op) in [
        (float, ReduceOp::BitAnd),
        (complex, ReduceOp::Max),
        (integer, ReduceOp::PremulSum(Factor::Number(2.0))),
        (truth, ReduceOp::Avg),
    ] {
        let work = rank.begin(Call::AllReduce { tensor: rank.own(&numbers, 0), op });
        assert!(work.wait(None).is_err());
    }
    rank.call(Call::Barrier { device: None });
}

/// Sums whose rounding depends on the order are the same bits on all ranks.
fn agreement(rank: &Rank) {
    let (me, size) = (rank.rank(), rank.size());
    for (dtype, count) in [
        (DType::Float32, 7),
        (DType::Float32, 1_000_000),
        (DType::Float64, 99_999),
        (DType::Float16, 50_001),
        (DType::BFloat16, 50_001),
    ] {
        let data = tensor(dtype, &values::random(dtype, count, me as u64));
        rank.call(Call::AllReduce { tensor: data.clone(), op: ReduceOp::Sum });
        let outputs: Vec<Tensor> =
            (0..size).map(|_| tensor(dtype, &vec![0; count * dtype.itemsize()])).collect();
        rank.call(Call::AllGather { outputs: outputs.clone(), input: data.clone() });
        let all_same = outputs.iter().all(|other| bytes(other) == bytes(&data));
        assert!(all_same, "ranks differ in {count} x {}", dtype.name());
    }
}

/// Transfers with tags, out of order, from anybody, and of borders of one tensor.
fn transfers(rank: &Rank) {
    let (me, size) = (rank.rank(), rank.size());
    let numbers = Numbers { dtype: DType::Float32, count: 1000 };
    let (next, last) = ((me + 1) % size, (me + size - 1) % size);
    let row = |tensor: &Tensor, index: i64| {
        let storage = tensor.storage().expect("a storage");
        Tensor::from_storage(storage, DType::Float32, &[1000], &[1], index * 1000).expect("a row")
    };
    // Four rows of one tensor: two are sent while two are received.
    let halo = Numbers { count: 4000, ..numbers };
    let grid = rank.own(&halo, me);
    rank.call(Call::Batch(vec![
        Call::Send { tensor: row(&grid, 1), to: last, tag: 1 },
        Call::Send { tensor: row(&grid, 2), to: next, tag: 2 },
        Call::Recv { tensor: row(&grid, 0), from: last, tag: 2 },
        Call::Recv { tensor: row(&grid, 3), from: next, tag: 1 },
    ]));
    assert!(bytes(&row(&grid, 0)) == bytes(&row(&rank.own(&halo, last), 2)), "the row before");
    assert!(bytes(&row(&grid, 3)) == bytes(&row(&rank.own(&halo, next), 1)), "the row after");

    // Tags in the other order than they were sent in.
    let sends = [7, 8].map(|tag| {
        let tensor = rank.own(&numbers, me + tag);
        rank.begin(Call::Send { tensor, to: next, tag: tag as i32 })
    });
    for tag in [8, 7] {
        let got = rank.own(&numbers, 0);
        rank.call(Call::Recv { tensor: got.clone(), from: last, tag: tag as i32 });
        assert!(bytes(&got) == numbers.bytes(last + tag), "tag {tag}");
    }
    sends.iter().for_each(|work| work.wait(None).expect("a sent tensor"));

    if me == 0 {
        for _ in 1..size {
            let got = rank.own(&numbers, 0);
            let work = rank.begin(Call::RecvAny { tensor: got.clone(), tag: 9 });
            work.wait(None).expect("a tensor of somebody");
            let source = work.source_rank().expect("its sender");
            assert!(bytes(&got) == numbers.bytes(source), "from rank {source}");
        }
    } else {
        rank.call(Call::Send { tensor: rank.own(&numbers, me), to: 0, tag: 9 });
    }
    let to_itself = rank.begin(Call::Send { tensor: rank.own(&numbers, me), to: me, tag: 0 });
    assert!(to_itself.wait(None).is_err());
    rank.call(Call::Barrier { device: None });
}

/// The odd ranks apart, twice, beside the communicator of all.
fn split(rank: &Rank) {
    let odd: Vec<usize> = (0..rank.size()).filter(|rank| rank % 2 == 1).collect();
    for salt in 0..2 {
        let part = rank.engine.split(&odd, rank.timeout).expect("a communicator");
        assert_eq!(part.is_some(), rank.rank() % 2 == 1);
        let numbers = Numbers { dtype: DType::Int32, count: 5 };
        if let Some(part) = part {
            let data = rank.own(&numbers, rank.rank() + salt);
            let call = Call::AllReduce { tensor: data.clone(), op: ReduceOp::Sum };
            part.start(call, &CallOptions::default()).wait(None).expect("a sum");
            let operands: Vec<Vec<u8>> = odd.iter().map(|r| numbers.bytes(r + salt)).collect();
            let expected = values::reduced(DType::Int32, &ReduceOp::Sum, &operands);
            assert!(bytes(&data) == expected, "the sum of odd ranks");
            part.shutdown();
        }
        rank.call(Call::Barrier { device: None });
    }
}

/// A storage that is resized while it is received into leaves its memory to the call.
fn resized_meanwhile(rank: &Rank) {
    let numbers = Numbers { dtype: DType::Float32, count: 300_000 };
    let data = rank.own(&numbers, rank.rank());
    if rank.rank() == 0 {
        let work = rank.begin(Call::Recv { tensor: data.clone(), from: 1, tag: 0 });
        data.storage().expect("a storage").resize(64).expect("less memory");
        rank.call(Call::Barrier { device: None });
        work.wait(None).expect("a tensor that nobody sees");
    } else {
        rank.call(Call::Barrier { device: None });
        rank.call(Call::Send { tensor: data, to: 0, tag: 0 });
    }
    rank.call(Call::Barrier { device: None });
}

#[test]
fn bytes_arrive_as_they_were_sent() {
    if super::is_ready() {
        for size in [1, 2, 4] {
            super::Processes::start("values", size, super::DEADLINE).finish();
        }
    }
}

#[test]
fn reductions_equal_those_of_one_process() {
    if super::is_ready() {
        for size in [1, 2, 4] {
            super::Processes::start("reductions", size, super::DEADLINE).finish();
        }
    }
}

#[test]
fn ranks_agree_in_every_bit() {
    if super::is_ready() {
        for size in [2, 4] {
            super::Processes::start("agreement", size, super::DEADLINE).finish();
        }
    }
}

#[test]
fn transfers_between_ranks() {
    if super::is_ready() {
        for size in [2, 4] {
            super::Processes::start("transfers", size, super::DEADLINE).finish();
        }
    }
}

#[test]
fn communicators_of_some_ranks_and_over_tcp() {
    if super::is_ready() {
        super::Processes::start("split", 4, super::DEADLINE).finish();
        super::Processes::start("resized", 2, super::DEADLINE).finish();
        let port = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = port.local_addr().expect("its number");
        drop(port);
        let folder = std::env::temp_dir().join(format!("corten-gloo-tcp-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let store = format!("tcp:{address}");
        super::Processes::start_over(&store, "agreement", 2, super::DEADLINE, folder).finish();
    }
}
