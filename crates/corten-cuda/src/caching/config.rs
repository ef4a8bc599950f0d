//! `PYTORCH_ALLOC_CONF`: how the allocators round, split, cache and release.

use corten_core::{Result, bail, ensure};

pub(super) const MIB: u64 = 1 << 20;

/// All sizes are multiples of this.
pub const MIN_BLOCK: u64 = 512;
/// The largest request that is served from the pool of small blocks.
pub const SMALL_SIZE: u64 = MIB;
/// The segments of small blocks.
pub const SMALL_SEGMENT: u64 = 2 * MIB;
/// Requests from here on get a segment of their own.
pub const MIN_LARGE_ALLOC: u64 = 10 * MIB;
/// What such segments are rounded up to.
pub const ROUND_LARGE: u64 = 2 * MIB;

/// The intervals of `roundup_power2_divisions`: 1 MiB, 2 MiB, … 32 GiB.
const INTERVALS: usize = 16;

/// Who serves device memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// The allocator of this module.
    #[default]
    Native,
    /// The driver's stream-ordered allocator.
    CudaMallocAsync,
}

impl Backend {
    /// PyTorch's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::CudaMallocAsync => "cudaMallocAsync",
        }
    }
}

/// How much address space an expandable segment reserves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ReserveSize {
    /// A fraction of the device's memory.
    Fraction(f64),
    /// Bytes.
    Bytes(u64),
}

/// The settings, each with PyTorch's name and default.
#[derive(Clone, Debug, PartialEq)]
pub struct AllocConfig {
    /// Segments for requests between 1 and 10 MiB, in bytes.
    pub large_segment_size: u64,
    /// Blocks of at least this size are not split; `u64::MAX` for no limit.
    pub max_split_size: u64,
    /// How much larger than a request of at least `max_split_size` a cached block may be.
    pub max_non_split_rounding: u64,
    /// The fraction of the memory limit above which unused segments are released; 0 for never.
    pub garbage_collection_threshold: f64,
    /// Into how many steps a power of two is divided when sizes are rounded, for each interval.
    pub roundup_power2_divisions: [u64; INTERVALS],
    /// Whether segments grow.
    pub expandable_segments: bool,
    /// The address space of an expandable segment; 9/8 of the device's memory if absent.
    pub expandable_segments_reserve: Option<ReserveSize>,
    /// Who serves device memory.
    pub backend: Backend,
    /// The limit of `set_per_process_memory_fraction` at the start.
    pub per_process_memory_fraction: f64,
    /// Whether the lock may be released while the driver allocates.
    pub release_lock_on_cudamalloc: bool,
    /// Whether an allocation above the limit is refused before the driver is asked.
    pub throw_on_cudamalloc_oom: bool,
    /// Whether blocks that other streams used may be reused in the capture that freed them.
    pub graph_capture_record_stream_reuse: bool,
    /// Whether pinned memory is ordinary memory that is registered.
    pub pinned_use_cuda_host_register: bool,
    /// The threads that touch such memory first.
    pub pinned_num_register_threads: u64,
    /// Whether a thread of its own polls the events of pinned memory.
    pub pinned_use_background_threads: bool,
    /// Pinned memory that is reserved at once, in MiB; 0 for none.
    pub pinned_reserve_segment_size_mb: u64,
    /// Pinned requests above this size are not rounded to powers of two.
    pub pinned_max_round_threshold: u64,
    /// Pinned blocks above this size are not cached.
    pub pinned_max_cached_size: u64,
    /// Whether errors in freeing pinned memory are ignored.
    pub pinned_free_catch_all: bool,
    /// The text that was parsed last.
    pub text: String,
}

impl Default for AllocConfig {
    fn default() -> Self {
        Self {
            large_segment_size: 20 * MIB,
            max_split_size: u64::MAX,
            max_non_split_rounding: 20 * MIB,
            garbage_collection_threshold: 0.0,
            roundup_power2_divisions: [0; INTERVALS],
            expandable_segments: false,
            expandable_segments_reserve: None,
            backend: Backend::Native,
            per_process_memory_fraction: 1.0,
            release_lock_on_cudamalloc: false,
            throw_on_cudamalloc_oom: false,
            graph_capture_record_stream_reuse: false,
            pinned_use_cuda_host_register: false,
            pinned_num_register_threads: 1,
            pinned_use_background_threads: false,
            pinned_reserve_segment_size_mb: 0,
            pinned_max_round_threshold: u64::MAX,
            pinned_max_cached_size: u64::MAX,
            pinned_free_catch_all: false,
            text: String::new(),
        }
    }
}

impl AllocConfig {
    /// The settings that `text` makes of these. Splitting, rounding and garbage collection start from their
    /// defaults, everything else keeps its value unless `text` names it. Errors, in PyTorch's words, are
    /// `ValueError`s.
    pub fn parse_over(&self, text: &str) -> Result<Self> {
        let mut config = Self {
            max_split_size: u64::MAX,
            garbage_collection_threshold: 0.0,
            roundup_power2_divisions: [0; INTERVALS],
            text: text.to_owned(),
            ..self.clone()
        };
        let mut tokens = Tokens::new(text);
        while let Some(key) = tokens.next() {
            config.set(&key, &mut tokens)?;
            // The separator, whatever it is: PyTorch does not look at it.
            tokens.next();
        }
        Ok(config)
    }

    fn set(&mut self, key: &str, tokens: &mut Tokens) -> Result<()> {
        match key {
            "large_segment_size_mb" => {
                let mb = tokens.number(key)?;
                ensure!(mb > 10, Value, "CachingAllocator option {key} must be > 10 MB");
                self.large_segment_size = mb.saturating_mul(MIB);
            }
            "max_split_size_mb" => self.max_split_size = self.at_least_a_segment(key, tokens)?,
            "max_non_split_rounding_mb" => {
                self.max_non_split_rounding = self.at_least_a_segment(key, tokens)?;
            }
            "garbage_collection_threshold" => {
                let value = tokens.float(key)?;
                ensure!(
                    value > 0.0 && value < 1.0,
                    Value,
                    "garbage_collect_threshold is invalid, set it in (0.0, 1.0)"
                );
                self.garbage_collection_threshold = value;
            }
            "roundup_power2_divisions" => self.set_divisions(key, tokens)?,
            "expandable_segments" => self.expandable_segments = tokens.boolean(key)?,
            "expandable_segments_reserve" => {
                self.expandable_segments_reserve = tokens.reserve_size(key)?;
            }
            "expandable_segments_reserve_by_class" => tokens.skip_value(key)?,
            "backend" => self.backend = tokens.backend(key)?,
            "per_process_memory_fraction" => {
                let value = tokens.float(key)?;
                ensure!(
                    (0.0..=1.0).contains(&value),
                    Value,
                    "per_process_memory_fraction is invalid, set it in [0.0, 1.0]"
                );
                self.per_process_memory_fraction = value;
            }
            "release_lock_on_cudamalloc" | "release_lock_on_hipmalloc" => {
                self.release_lock_on_cudamalloc = tokens.boolean(key)?;
            }
            "throw_on_cudamalloc_oom" => self.throw_on_cudamalloc_oom = tokens.boolean(key)?,
            "graph_capture_record_stream_reuse" => {
                self.graph_capture_record_stream_reuse = tokens.boolean(key)?;
            }
            _ => return self.set_pinned(key, tokens),
        }
        Ok(())
    }

    fn set_pinned(&mut self, key: &str, tokens: &mut Tokens) -> Result<()> {
        match key {
            "pinned_use_cuda_host_register" | "pinned_use_hip_host_register" => {
                self.pinned_use_cuda_host_register = tokens.boolean(key)?;
            }
            "pinned_num_register_threads" => {
                let threads = tokens.number(key)?;
                ensure!(
                    threads.is_power_of_two(),
                    Value,
                    "Number of register threads has to be power of 2, got {threads}"
                );
                ensure!(
                    threads <= 128,
                    Value,
                    "Number of register threads should be less than or equal to 128, got {threads}"
                );
                self.pinned_num_register_threads = threads;
            }
            "pinned_use_background_threads" => {
                self.pinned_use_background_threads = tokens.boolean(key)?;
            }
            "pinned_reserve_segment_size_mb" => {
                let mb = tokens.number(key)?;
                ensure!(mb > 0, Value, "Pinned reserve segment size has to be greater than 0");
                self.pinned_reserve_segment_size_mb = mb;
            }
            "pinned_max_round_threshold_mb" => {
                self.pinned_max_round_threshold = tokens.number(key)?.saturating_mul(MIB);
            }
            "pinned_max_cached_size_mb" => {
                self.pinned_max_cached_size = tokens.number(key)?.saturating_mul(MIB);
            }
            "pinned_free_catch_all" => self.pinned_free_catch_all = tokens.boolean(key)?,
            _ => bail!(Value, "Unrecognized key '{key}' in Accelerator allocator config."),
        }
        Ok(())
    }

    fn at_least_a_segment(&self, key: &str, tokens: &mut Tokens) -> Result<u64> {
        let (mb, least) = (tokens.number(key)?, self.large_segment_size / MIB);
        ensure!(mb >= least, Value, "CachingAllocator option {key} too small, must be >= {least}");
        Ok(mb.saturating_mul(MIB))
    }

    fn set_divisions(&mut self, key: &str, tokens: &mut Tokens) -> Result<()> {
        if tokens.peek(1) != Some("[") {
            let divisions = tokens.number(key)?;
            ensure!(
                divisions.is_power_of_two(),
                Value,
                "For roundups, the divisions has to be power of 2 "
            );
            self.roundup_power2_divisions = [divisions; INTERVALS];
            return Ok(());
        }
        tokens.skip(2);
        let mut last: Option<usize> = None;
        while let Some(interval) = tokens.next() {
            if interval == "]" {
                return Ok(());
            }
            let divisions = tokens.number(key)?;
            ensure!(
                divisions == 0 || divisions.is_power_of_two(),
                Value,
                "For roundups, the divisions has to be power of 2 or 0 to disable roundup "
            );
            last = Some(self.set_interval(key, &interval, divisions, last)?);
            if tokens.peek(0) != Some("]") {
                tokens.skip(1);
            }
        }
        bail!(Runtime, "Index out of bounds in ConfigTokenizer: the list of {key} is not closed")
    }

    /// Sets one interval and returns its index; the first that is named also sets all below it.
    fn set_interval(
        &mut self,
        key: &str,
        interval: &str,
        divisions: u64,
        last: Option<usize>,
    ) -> Result<usize> {
        if interval == ">" {
            let first = last.unwrap_or(0) + 1;
            for slot in self.roundup_power2_divisions.iter_mut().skip(first) {
                *slot = divisions;
            }
            return Ok(INTERVALS - 1);
        }
        let mb = parse_number(key, interval)?;
        ensure!(mb.is_power_of_two(), Value, "For roundups, the intervals have to be power of 2 ");
        let index = (mb.ilog2() as usize).min(INTERVALS - 1);
        let first = if last.is_none() { 0 } else { index };
        for slot in &mut self.roundup_power2_divisions[first..=index] {
            *slot = divisions;
        }
        Ok(index)
    }

    /// The size of the block for a request of `bytes`.
    pub fn round_size(&self, bytes: u64) -> u64 {
        if bytes < MIN_BLOCK {
            return MIN_BLOCK;
        }
        let interval = (bytes.ilog2() as usize).saturating_sub(20).min(INTERVALS - 1);
        let divisions = self.roundup_power2_divisions[interval];
        if divisions > 1 && bytes > MIN_BLOCK.saturating_mul(divisions) {
            return round_up(bytes, ((1 << bytes.ilog2()) / divisions).max(1));
        }
        round_up(bytes, MIN_BLOCK)
    }

    /// The size of the segment that is allocated for a block of `size`.
    pub fn segment_size(&self, size: u64) -> u64 {
        if size <= SMALL_SIZE {
            SMALL_SEGMENT
        } else if size < MIN_LARGE_ALLOC {
            self.large_segment_size
        } else {
            round_up(size, ROUND_LARGE)
        }
    }
}

/// `value` rounded up to a multiple of `unit`, or the largest multiple that is a number.
pub(super) fn round_up(value: u64, unit: u64) -> u64 {
    value.checked_next_multiple_of(unit).unwrap_or(u64::MAX / unit * unit)
}

/// The parts of a configuration: keys, values and the characters `,:[]`, without white space.
struct Tokens {
    tokens: Vec<String>,
    index: usize,
}

impl Tokens {
    fn new(text: &str) -> Self {
        let mut tokens: Vec<String> = Vec::new();
        let mut joins = false;
        for c in text.chars().filter(|c| !c.is_ascii_whitespace()) {
            let special = matches!(c, ',' | ':' | '[' | ']');
            match tokens.last_mut() {
                Some(last) if joins && !special => last.push(c),
                _ => tokens.push(c.to_string()),
            }
            joins = !special;
        }
        Self { tokens, index: 0 }
    }

    fn next(&mut self) -> Option<String> {
        let token = self.tokens.get(self.index).cloned();
        self.index += 1;
        token
    }

    fn peek(&self, distance: usize) -> Option<&str> {
        self.tokens.get(self.index + distance).map(String::as_str)
    }

    fn skip(&mut self, count: usize) {
        self.index += count;
    }

    /// The value of `key` and its index, behind the colon.
    fn value(&mut self, key: &str) -> Result<(String, usize)> {
        self.skip(1);
        match self.next() {
            Some(token) => Ok((token, self.index - 1)),
            None => bail!(Runtime, "Index out of bounds in ConfigTokenizer: {key} has no value"),
        }
    }

    fn skip_value(&mut self, key: &str) -> Result<()> {
        let (mut token, _) = self.value(key)?;
        if token != "[" {
            return Ok(());
        }
        while token != "]" {
            let Some(next) = self.next() else {
                bail!(
                    Runtime,
                    "Expected closing bracket ']' in ConfigTokenizer but reached end of config"
                )
            };
            token = next;
        }
        Ok(())
    }

    fn number(&mut self, key: &str) -> Result<u64> {
        let (token, _) = self.value(key)?;
        parse_number(key, &token)
    }

    fn float(&mut self, key: &str) -> Result<f64> {
        let (token, _) = self.value(key)?;
        match longest_number(&token).parse() {
            Ok(value) => Ok(value),
            Err(_) => bail!(Value, "stod: expected a number for {key} but got '{token}'"),
        }
    }

    fn boolean(&mut self, key: &str) -> Result<bool> {
        match self.value(key)? {
            (token, _) if token == "True" => Ok(true),
            (token, _) if token == "False" => Ok(false),
            (token, index) => bail!(
                Value,
                "Expected 'True' or 'False' at index {index} in ConfigTokenizer but got '{token}'"
            ),
        }
    }

    fn backend(&mut self, key: &str) -> Result<Backend> {
        match self.value(key)?.0.as_str() {
            "native" => Ok(Backend::Native),
            "cudaMallocAsync" => Ok(Backend::CudaMallocAsync),
            _ => bail!(Value, "Unknown allocator backend, options are native and cudaMallocAsync"),
        }
    }

    /// A fraction as `0.5`, or a size as `40G`; anything else is warned about and ignored.
    fn reserve_size(&mut self, key: &str) -> Result<Option<ReserveSize>> {
        let (token, _) = self.value(key)?;
        let size = match token.strip_suffix('G') {
            Some(gib) => gib
                .parse()
                .ok()
                .filter(|gib| in_range(*gib))
                .map(|gib: f64| ReserveSize::Bytes((gib * (1u64 << 30) as f64) as u64)),
            None => token.parse().ok().filter(|x| in_range(*x)).map(ReserveSize::Fraction),
        };
        if size.is_none() {
            corten_core::warn(format!(
                "Ignoring invalid expandable-segment reserve value '{token}' in PYTORCH_CUDA_ALLOC_CONF (expected \
                 a positive, finite fraction like 0.5 or an absolute size like 40G); using default."
            ));
        }
        Ok(size)
    }
}

fn in_range(value: f64) -> bool {
    value > 0.0 && value.is_finite()
}

/// The digits in front, as C's `strtoull` reads them: what follows them is ignored.
fn parse_number(key: &str, token: &str) -> Result<u64> {
    let digits = token.strip_prefix('+').unwrap_or(token);
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    match digits[..end].parse() {
        Ok(number) => Ok(number),
        Err(_) => bail!(Value, "stoull: expected a number for {key} but got '{token}'"),
    }
}

/// The longest prefix that is a number, as C's `strtod` reads it.
fn longest_number(token: &str) -> &str {
    let ends = token.char_indices().map(|(at, c)| at + c.len_utf8()).rev();
    ends.map(|end| &token[..end]).find(|prefix| prefix.parse::<f64>().is_ok()).unwrap_or("")
}
