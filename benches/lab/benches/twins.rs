//! What the fast kernels gain over their slow twins: `cargo bench -p corten-lab`.
//!
//! Samples of both alternate, so that a slow moment of the machine hits both; medians are
//! printed. Every result is checked against the twin's first.
#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::time::Instant;

use corten::Result;
use corten::ops::parallel::{num_threads, set_num_threads};
use corten_lab::{Case, Size, Work, cases};

const SAMPLES: usize = 11;

/// A sample repeats a call until it has taken this long.
const SAMPLE_SECONDS: f64 = 0.01;

fn main() -> Result<()> {
    let threads = num_threads();
    corten::manual_seed(0);
    println!("copying memory on one thread: {:.1} GB/s", copy_speed());
    println!("{:34} {:>14} {:>14} {:>6}   {threads} threads", "", "v0", "library", "ratio");
    for case in cases(Size::Large)? {
        set_num_threads(1);
        case.check()?;
        let (slow, fast) = medians(|| drop(black_box((case.v0)())), || run(&case));
        set_num_threads(threads);
        let (_, wide) = medians(|| {}, || run(&case));
        println!(
            "{:34} {} {} {:5.1}x {}",
            case.name,
            speed(case.work, slow),
            speed(case.work, fast),
            slow / fast,
            speed(case.work, wide)
        );
    }
    Ok(())
}

fn run(case: &Case) {
    drop(black_box((case.library)()));
}

/// Median seconds per call of two functions whose samples alternate.
fn medians(mut first: impl FnMut(), mut second: impl FnMut()) -> (f64, f64) {
    let (calls_first, calls_second) = (calls(&mut first), calls(&mut second));
    let mut samples = [Vec::new(), Vec::new()];
    for _ in 0..SAMPLES {
        samples[0].push(seconds(&mut first, calls_first));
        samples[1].push(seconds(&mut second, calls_second));
    }
    let [first, second] = samples.map(|mut samples| {
        samples.sort_by(f64::total_cmp);
        samples[SAMPLES / 2]
    });
    (first, second)
}

/// How often a function is called per sample.
fn calls(call: &mut impl FnMut()) -> usize {
    seconds(call, 1);
    let once = seconds(call, 1).max(1e-7);
    (SAMPLE_SECONDS / once).ceil() as usize
}

fn seconds(call: &mut impl FnMut(), calls: usize) -> f64 {
    let start = Instant::now();
    (0..calls).for_each(|_| call());
    start.elapsed().as_secs_f64() / calls as f64
}

fn speed(work: Work, seconds: f64) -> String {
    let (amount, unit) = match work {
        Work::Bytes(bytes) => (bytes, "GB/s   "),
        Work::Flops(flops) => (flops, "GFLOP/s"),
    };
    format!("{:6.1} {unit}", amount as f64 / seconds / 1e9)
}

/// The roof of what moves memory: bytes read and written per second.
fn copy_speed() -> f64 {
    let from = vec![1.0f32; 1 << 24];
    let mut to = vec![0.0f32; 1 << 24];
    let (copy, _) = medians(|| black_box(&mut to).copy_from_slice(black_box(&from)), || {});
    (8 << 24) as f64 / copy / 1e9
}
