//! Corten timed beside candle and burn on the CPU: steps of training and inference, as each library's
//! documentation writes them, with equal weights and data.
//!
//! Every measurement is a process of its own, so that thread pools and allocators do not meet; the
//! processes of the libraries take turns. Printed are medians and the medians of ratios.

mod burn_side;
mod candle_side;
mod corten_side;
mod workload;

use std::error::Error;
use std::process::Command;
use std::time::{Duration, Instant};
use workload::{ROWS, Row, Step};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const LIBRARIES: [&str; 3] = ["corten", "candle", "burn"];
/// How many losses are compared.
const LOSSES: usize = 8;

/// What one process measured.
struct Measured {
    seconds: f64,
    losses: Vec<f64>,
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn step_of(library: &str, row: Row) -> Result<Step> {
    match library {
        "corten" => Ok(corten_side::step(row)?),
        "candle" => Ok(candle_side::step(row)?),
        _ => Ok(burn_side::step(row)),
    }
}

/// Runs steps of one library for a while; prints the median of their times, then the first losses.
fn run(library: &str, row: Row, duration: Duration) -> Result<()> {
    let mut step = step_of(library, row)?;
    // The first steps grow pools and caches.
    let mut losses = Vec::with_capacity(LOSSES);
    for _ in 0..LOSSES {
        losses.push(format!("{:e}", step()?));
    }
    let (begin, mut times) = (Instant::now(), Vec::new());
    while times.len() < 5 || begin.elapsed() < duration {
        let start = Instant::now();
        std::hint::black_box(step()?);
        times.push(start.elapsed().as_secs_f64());
    }
    println!("{:e} {}", median(times), losses.join(" "));
    Ok(())
}

/// The same in a process of its own.
fn measure(library: &str, row: Row, threads: usize, seconds: f64) -> Result<Measured> {
    let threads = threads.to_string();
    let output = Command::new(std::env::current_exe()?)
        .args(["--one", library, row.name(), &seconds.to_string()])
        .envs(["CORTEN_NUM_THREADS", "RAYON_NUM_THREADS"].map(|name| (name, &threads)))
        .output()?;
    if !output.status.success() {
        return Err(format!("{library}: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    let text = String::from_utf8(output.stdout)?;
    let numbers: Vec<f64> =
        text.split_whitespace().map(str::parse).collect::<std::result::Result<_, _>>()?;
    let (seconds, losses) = numbers.split_first().ok_or("nothing was measured")?;
    Ok(Measured { seconds: *seconds, losses: losses.to_vec() })
}

/// How far the losses of a library are from Corten's, relative to them.
fn deviation(ours: &Measured, theirs: &Measured) -> f64 {
    let pairs = ours.losses.iter().zip(&theirs.losses);
    pairs.map(|(a, b)| (a - b).abs() / a.abs().max(1e-6)).fold(0.0, f64::max)
}

/// A line of the table: medians of Corten, and for the others medians, ratios and deviations.
fn line(row: Row, threads: usize, rounds: usize, seconds: f64) -> Result<String> {
    let mut measured: Vec<[Measured; 3]> = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        let [ours, candle, burn] = LIBRARIES.map(|library| measure(library, row, threads, seconds));
        measured.push([ours?, candle?, burn?]);
    }
    let milliseconds =
        |i: usize| 1e3 * median(measured.iter().map(|round| round[i].seconds).collect());
    let ratio = |i: usize| {
        median(measured.iter().map(|round| round[i].seconds / round[0].seconds).collect())
    };
    let mut text = format!("| {} | {threads} | {:.2}", row.title(), milliseconds(0));
    for i in 1..3 {
        let apart = deviation(&measured[0][0], &measured[0][i]);
        text += &format!(" | {:.2} | **{:.2}** | {apart:.0e}", milliseconds(i), ratio(i));
    }
    Ok(text + " |")
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [mark, library, row, seconds] = &arguments[..] {
        if mark == "--one" {
            let row = ROWS.into_iter().find(|known| known.name() == row).ok_or("no such row")?;
            return run(library, row, Duration::from_secs_f64(seconds.parse()?));
        }
    }
    let number = |i: usize, default: f64| arguments.get(i).map_or(Ok(default), |text| text.parse());
    let (rounds, seconds) = (number(0, 5.0)? as usize, number(1, 1.0)?);
    let chosen = arguments.get(2).map_or("", String::as_str);
    println!(
        "| | threads | Corten ms | candle ms | ratio | losses apart | burn ms | ratio | losses apart |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for row in ROWS.into_iter().filter(|row| row.name().starts_with(chosen)) {
        for threads in [1, 2] {
            println!("{}", line(row, threads, rounds, seconds)?);
        }
    }
    Ok(())
}
