//! Ranks that die, stop or hang: all others must notice, in time, and end by themselves.

use std::time::{Duration, Instant};

use corten_core::DType;
use corten_dist::{Call, ReduceOp};
use corten_ops::Tensor;

use super::programs::tensor;
use super::{DEADLINE, Processes, Rank, is_ready};

/// The exit code of a rank that saw an error.
const NOTICED: i32 = 7;

/// The calls that may be cut off.
const CALLS: [&str; 9] = [
    "allreduce",
    "small_allreduce",
    "broadcast",
    "allgather",
    "reduce",
    "reduce_scatter",
    "alltoall",
    "barrier",
    "ring",
];

/// Runs one call again and again until it fails; exits with [`NOTICED`] and says why.
pub(super) fn loop_until_failure(name: &str, rank: &Rank) {
    let blank = |count: usize| tensor(DType::Float32, &vec![0; 4 * count]);
    let blanks = |count| -> Vec<Tensor> { (0..rank.size()).map(|_| blank(count)).collect() };
    let (me, size, count) = (rank.rank(), rank.size(), 200_000);
    let calls = || match name {
        "allreduce" => vec![Call::AllReduce { tensor: blank(count), op: ReduceOp::Sum }],
        "small_allreduce" => vec![Call::AllReduce { tensor: blank(1), op: ReduceOp::Sum }],
        "broadcast" => vec![
            Call::Broadcast { tensor: blank(count), root: 0 },
            Call::Broadcast { tensor: blank(count), root: size - 1 },
        ],
        "allgather" => vec![Call::AllGather { outputs: blanks(count), input: blank(count) }],
        "reduce" => {
            let op = ReduceOp::Sum;
            let reduce = |root| Call::Reduce { tensor: blank(count), root, op: op.clone() };
            vec![reduce(0), reduce(size - 1)]
        }
        "reduce_scatter" => {
            let (output, inputs) = (blank(count), blanks(count));
            vec![Call::ReduceScatter { output, inputs, op: ReduceOp::Sum }]
        }
        "alltoall" => vec![Call::AllToAll { outputs: blanks(count), inputs: blanks(count) }],
        "barrier" => vec![Call::Barrier { device: None }],
        "ring" => vec![Call::Batch(vec![
            Call::Send { tensor: blank(count), to: (me + 1) % size, tag: 0 },
            Call::Recv { tensor: blank(count), from: (me + size - 1) % size, tag: 0 },
        ])],
        other => panic!("there is no program {other}"),
    };
    for round in 0.. {
        if round == 3 {
            println!("three rounds done");
        }
        let works: Vec<_> = calls().into_iter().map(|call| rank.begin(call)).collect();
        for work in works {
            if let Err(error) = work.wait(None) {
                println!("failed: {error}");
                // What comes later fails at once.
                let later = rank.begin(Call::Barrier { device: None });
                assert!(later.wait(None).is_err());
                std::process::exit(NOTICED);
            }
        }
    }
}

/// Sends a signal to a rank in the middle of a call; all others end with an error within the time.
fn interrupt(call: &str, size: usize, signal: i32, timeout: Duration) {
    let mut processes = Processes::start(call, size, timeout);
    (0..size).for_each(|rank| processes.wait_for(rank, "three rounds done"));
    let victim = size - 1;
    let begun = Instant::now();
    let process = processes.children[victim].id().cast_signed();
    // SAFETY: the child has not been waited for, so the number is its.
    assert_eq!(unsafe { libc::kill(process, signal) }, 0);
    for rank in 0..victim {
        let code = processes.wait(rank, DEADLINE);
        let output = processes.output(rank);
        assert_eq!(code, Some(NOTICED), "rank {rank} in {call}: {output}");
    }
    let allowed = timeout + Duration::from_secs(5);
    assert!(begun.elapsed() < allowed, "{call} took {:?}", begun.elapsed());
}

/// How often each fault is tried: `CORTEN_TEST_REPEAT`, or few times.
fn times(few: usize) -> usize {
    let set = corten_core::config::var("CORTEN_TEST_REPEAT");
    set.and_then(|text| text.parse().ok()).unwrap_or(few)
}

#[test]
fn a_killed_rank_is_noticed() {
    if is_ready() {
        for round in 0..times(1) {
            for (index, call) in CALLS.iter().enumerate() {
                let size = 2 + 2 * ((round + index) % 2);
                interrupt(call, size, libc::SIGKILL, Duration::from_secs(20));
            }
        }
    }
}

#[test]
fn a_stopped_rank_is_noticed() {
    if is_ready() {
        for round in 0..times(1) {
            // Each takes its timeout, so that a test tries few.
            for call in CALLS.iter().skip(round % 3).step_by(3) {
                interrupt(call, 4, libc::SIGSTOP, Duration::from_secs(2));
            }
        }
    }
}
