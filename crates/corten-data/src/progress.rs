//! How far a loop is, as a line of text.

use corten_core::clock;
use std::io::Write;
use std::time::Duration;

/// The line is written at most this often.
const INTERVAL: Duration = Duration::from_millis(100);
/// Characters of the bar.
const WIDTH: usize = 10;

/// An iterator that writes how far it is, as `tqdm` does in Python. The line is written where the
/// program says: to standard error, or to a file.
///
/// ```
/// use corten::data::Progress;
///
/// let mut out = Vec::new();
/// let sum: i32 = Progress::new(1..=4, &mut out).label("sum").sum();
/// assert_eq!(sum, 10);
/// let text = String::from_utf8(out).unwrap();
/// assert!(text.contains("sum: 100%|██████████| 4/4 ["));
/// ```
///
/// For a loader: `for batch in Progress::new(&loader, std::io::stderr()) { … }`.
pub struct Progress<I, W: Write> {
    items: I,
    out: W,
    label: String,
    total: Option<usize>,
    done: usize,
    /// When the first item was asked for, and when the line was last written.
    started: Duration,
    shown: Option<Duration>,
    ended: bool,
}

impl<I: Iterator, W: Write> Progress<I, W> {
    /// The items of a loop, which tells its length by its size hint.
    pub fn new(items: impl IntoIterator<IntoIter = I>, out: W) -> Self {
        let items = items.into_iter();
        let total = items.size_hint().1;
        let (label, started) = (String::new(), clock::elapsed());
        Self { items, out, label, total, done: 0, started, shown: None, ended: false }
    }

    /// What stands before the bar.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// How many items there are, where the loop does not tell.
    #[must_use]
    pub fn total(mut self, total: usize) -> Self {
        self.total = Some(total);
        self
    }

    fn show(&mut self, end: &str) {
        let text =
            line(&self.label, self.done, self.total, clock::elapsed().saturating_sub(self.started));
        self.shown = Some(clock::elapsed());
        // A closed stream is no reason to fail.
        let _ = write!(self.out, "\r{text}{end}").and_then(|()| self.out.flush());
    }

    fn end(&mut self) {
        if !self.ended {
            self.ended = true;
            self.show("\n");
        }
    }
}

impl<I: Iterator, W: Write> Iterator for Progress<I, W> {
    type Item = I::Item;

    fn next(&mut self) -> Option<I::Item> {
        if self.shown.is_none() {
            self.started = clock::elapsed();
            self.show("");
        }
        let item = self.items.next();
        match item {
            None => self.end(),
            Some(_) => {
                self.done += 1;
                if self.shown.is_some_and(|shown| clock::elapsed() >= shown + INTERVAL) {
                    self.show("");
                }
            }
        }
        item
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.items.size_hint()
    }
}

impl<I, W: Write> Drop for Progress<I, W> {
    fn drop(&mut self) {
        // A loop that was left keeps its last line.
        if !self.ended && self.shown.is_some() {
            let _ = writeln!(self.out);
        }
    }
}

/// `label:  40%|████      | 2/5 [00:01<00:02, 1.50it/s]`.
fn line(label: &str, done: usize, total: Option<usize>, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f64();
    let rate = if seconds > 0.0 { done as f64 / seconds } else { 0.0 };
    let speed = if rate > 0.0 { format!("{rate:.2}it/s") } else { "?it/s".to_owned() };
    let head = if label.is_empty() { String::new() } else { format!("{label}: ") };
    let Some(total) = total.filter(|total| *total >= done && *total > 0) else {
        return format!("{head}{done}it [{}, {speed}]", clock(seconds));
    };
    let filled = WIDTH * done / total;
    let bar: String = (0..WIDTH).map(|at| if at < filled { '█' } else { ' ' }).collect();
    let left = if rate > 0.0 { clock((total - done) as f64 / rate) } else { "?".to_owned() };
    let percent = 100 * done / total;
    format!("{head}{percent:3}%|{bar}| {done}/{total} [{}<{left}, {speed}]", clock(seconds))
}

fn clock(seconds: f64) -> String {
    let seconds = seconds as u64;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let short = format!("{minutes:02}:{seconds:02}");
    if hours > 0 { format!("{hours}:{short}") } else { short }
}
