//! Counters of an allocator, with the names of `torch.cuda.memory_stats()`.

use std::collections::BTreeMap;

use super::raw::PoolId;

/// A quantity that goes up and down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// Its value now.
    pub current: i64,
    /// Its maximum since the last reset of the peaks.
    pub peak: i64,
    /// The sum of all increases since the last reset of the accumulated values.
    pub allocated: i64,
    /// The sum of all decreases since then.
    pub freed: i64,
}

impl Stat {
    /// Adds `amount`, which may be negative.
    pub fn change(&mut self, amount: i64) {
        self.current = self.current.saturating_add(amount);
        self.peak = self.peak.max(self.current);
        if amount > 0 {
            self.allocated = self.allocated.saturating_add(amount);
        } else {
            self.freed = self.freed.saturating_sub(amount);
        }
    }

    /// Forgets the sums.
    pub fn reset_accumulated(&mut self) {
        (self.allocated, self.freed) = (0, 0);
    }

    /// Lowers the peak to the current value.
    pub fn reset_peak(&mut self) {
        self.peak = self.current;
    }

    pub(super) fn flatten(&self, prefix: &str, into: &mut Vec<(String, i64)>) {
        let fields = [
            ("allocated", self.allocated),
            ("current", self.current),
            ("freed", self.freed),
            ("peak", self.peak),
        ];
        into.extend(fields.map(|(name, value)| (format!("{prefix}.{name}"), value)));
    }
}

/// A quantity of all pools together, and of the pools of small and of large blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatArray {
    /// Both together.
    pub all: Stat,
    /// Blocks of up to 1 MiB.
    pub small_pool: Stat,
    /// Blocks above that.
    pub large_pool: Stat,
}

impl StatArray {
    /// Adds `amount` to the pool of small or of large blocks, and to both together.
    pub fn change(&mut self, small: bool, amount: i64) {
        self.all.change(amount);
        let pool = if small { &mut self.small_pool } else { &mut self.large_pool };
        pool.change(amount);
    }

    fn each(&mut self, f: fn(&mut Stat)) {
        f(&mut self.all);
        f(&mut self.small_pool);
        f(&mut self.large_pool);
    }

    fn flatten(&self, prefix: &str, into: &mut Vec<(String, i64)>) {
        self.all.flatten(&format!("{prefix}.all"), into);
        self.large_pool.flatten(&format!("{prefix}.large_pool"), into);
        self.small_pool.flatten(&format!("{prefix}.small_pool"), into);
    }
}

/// Everything that is counted for one device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceStats {
    /// Allocations that the program holds.
    pub allocation: StatArray,
    /// Segments that came from the driver whole; expandable segments are not counted.
    pub segment: StatArray,
    /// Blocks that are allocated, or freed but still used by a stream.
    pub active: StatArray,
    /// Free blocks of segments that are partly in use, which cannot be given back to the device.
    pub inactive_split: StatArray,
    /// Bytes of the blocks that the program holds.
    pub allocated_bytes: StatArray,
    /// Bytes that the device has given.
    pub reserved_bytes: StatArray,
    /// Bytes that the device has given for private pools. What a pool had stays until the next reset.
    pub reserved_bytes_by_private_pools: BTreeMap<PoolId, StatArray>,
    /// Bytes of active blocks.
    pub active_bytes: StatArray,
    /// Bytes of `inactive_split`.
    pub inactive_split_bytes: StatArray,
    /// Bytes that were asked for, without rounding, of active blocks.
    pub requested_bytes: StatArray,
    /// Failed allocations of the driver after which all cached memory was released.
    pub num_alloc_retries: i64,
    /// Out-of-memory errors.
    pub num_ooms: i64,
    /// Allocations of blocks of at least `max_split_size`.
    pub oversize_allocations: Stat,
    /// Segments of at least `max_split_size`.
    pub oversize_segments: Stat,
    /// How often all pending events were waited for.
    pub num_sync_all_streams: i64,
    /// Allocations and mappings of the driver.
    pub num_device_alloc: i64,
    /// Frees and unmappings of the driver.
    pub num_device_free: i64,
    /// Allocations that `throw_on_cudamalloc_oom` refused before the driver was asked.
    pub num_oom_rejections: i64,
    /// The size from which blocks are not split, -1 without a limit.
    pub max_split_size: i64,
}

impl DeviceStats {
    fn arrays(&mut self) -> [&mut StatArray; 9] {
        [
            &mut self.allocation,
            &mut self.segment,
            &mut self.active,
            &mut self.inactive_split,
            &mut self.allocated_bytes,
            &mut self.reserved_bytes,
            &mut self.active_bytes,
            &mut self.inactive_split_bytes,
            &mut self.requested_bytes,
        ]
    }

    fn each(&mut self, f: fn(&mut Stat)) {
        self.arrays().into_iter().for_each(|array| array.each(f));
        self.reserved_bytes_by_private_pools.values_mut().for_each(|array| array.each(f));
        f(&mut self.oversize_allocations);
        f(&mut self.oversize_segments);
    }

    /// Forgets sums and event counters: `reset_accumulated_memory_stats`.
    pub fn reset_accumulated(&mut self) {
        self.each(Stat::reset_accumulated);
        self.num_alloc_retries = 0;
        self.num_ooms = 0;
        self.num_sync_all_streams = 0;
        self.num_device_alloc = 0;
        self.num_device_free = 0;
        self.num_oom_rejections = 0;
    }

    /// Lowers peaks to current values: `reset_peak_memory_stats`.
    pub fn reset_peak(&mut self) {
        self.each(Stat::reset_peak);
    }

    /// The keys and values of `torch.cuda.memory_stats()`, sorted by key.
    pub fn flatten(&self) -> Vec<(String, i64)> {
        let mut flat = Vec::with_capacity(128);
        let arrays = [
            ("active", &self.active),
            ("active_bytes", &self.active_bytes),
            ("allocated_bytes", &self.allocated_bytes),
            ("allocation", &self.allocation),
            ("inactive_split", &self.inactive_split),
            ("inactive_split_bytes", &self.inactive_split_bytes),
            ("requested_bytes", &self.requested_bytes),
            ("reserved_bytes", &self.reserved_bytes),
            ("segment", &self.segment),
        ];
        for (name, array) in arrays {
            array.flatten(name, &mut flat);
        }
        for (PoolId(a, b), array) in &self.reserved_bytes_by_private_pools {
            array.flatten(&format!("reserved_bytes_by_private_pools.{a}_{b}"), &mut flat);
        }
        self.oversize_allocations.flatten("oversize_allocations", &mut flat);
        self.oversize_segments.flatten("oversize_segments", &mut flat);
        let counters = [
            ("max_split_size", self.max_split_size),
            ("num_alloc_retries", self.num_alloc_retries),
            ("num_device_alloc", self.num_device_alloc),
            ("num_device_free", self.num_device_free),
            ("num_oom_rejections", self.num_oom_rejections),
            ("num_ooms", self.num_ooms),
            ("num_sync_all_streams", self.num_sync_all_streams),
        ];
        flat.extend(counters.map(|(name, value)| (name.to_owned(), value)));
        flat.sort();
        flat
    }
}
