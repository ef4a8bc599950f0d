//! Running a group tile by tile.
//!
//! A tile is a part of the iteration space whose values in all slots stay in the first-level cache. Every step
//! runs over the tile before the next step does, so that results are read while they are there.

use crate::ir::{BufferId, Program};
use crate::lower::{External, Location, Lowered, PlacedStep, Slot};
use crate::memory;
use crate::recipe::affine;
use corten_core::{Access, AccessSet, Result, bail, ensure};
use corten_cpu::pointwise::steps::{self, ElementBytes};
use corten_ops::Tensor;
use corten_ops::parallel::{GRAIN, parallel_for};
use smallvec::SmallVec;
use std::cell::Cell;
use std::ops::Range;

/// Bytes that the tile of all slots and operands may take.
const TILE_BYTES: usize = 32 << 10;
/// As `TILE_BYTES`, for tiles of whole rows: they stay in the second-level cache, and reductions pay for more rows
/// at once.
const ROW_TILE_BYTES: usize = 128 << 10;
/// Elements of a tile.
const TILE: Range<usize> = 256..4096;
/// Slots begin at multiples of this many bytes.
const LINE: usize = 64;

/// A group ready to run.
pub(crate) struct Kernel {
    lowered: Lowered,
    /// Elements of a tile along each dimension.
    tile: SmallVec<[i64; 4]>,
    /// Tiles along each dimension.
    tiles: SmallVec<[i64; 4]>,
    /// Where slots begin, and where the last one ends.
    starts: Vec<usize>,
    /// Externals that take over the memory of others.
    takes: SmallVec<[Takeover; 1]>,
}

/// A result in the memory of an operand that ends with the group.
#[derive(Clone, Copy)]
struct Takeover {
    to: usize,
    from: usize,
}

impl Kernel {
    /// Chooses the tiles; `None` where they would be so small that steps cost more than they do.
    pub(crate) fn new(lowered: Lowered) -> Option<Self> {
        let streams = lowered.externals.iter().map(|external| external.operand.dtype.itemsize());
        let slots = lowered.slots.iter().filter(|slot| !slot.per_row).map(|slot| slot.size);
        let width: usize = slots.chain(streams).sum();
        let elements = match lowered.by_rows {
            true => ROW_TILE_BYTES / width.max(1),
            false => (TILE_BYTES / width.max(1)).clamp(TILE.start, TILE.end),
        };
        // A multiple of every vector's length.
        let elements = (elements / LINE * LINE) as i64;
        let sizes = &lowered.space.sizes;
        let mut tile: SmallVec<[i64; 4]> = SmallVec::from_elem(1, sizes.len());
        tile[0] = if lowered.by_rows { sizes[0] } else { sizes[0].min(elements) };
        if let Some(&rows) = sizes.get(1)
            && tile[0] == sizes[0]
        {
            tile[1] = rows.min((elements / tile[0]).max(1));
        }
        let area: i64 = tile.iter().product();
        let numel = lowered.space.numel();
        if area < numel.min(64) {
            return None;
        }
        let tiles =
            sizes.iter().zip(&tile).map(|(&size, &part)| (size + part - 1) / part).collect();
        let mut starts = vec![0];
        for slot in &lowered.slots {
            let elements = if slot.per_row { area / tile[0] } else { area };
            let bytes = (elements as usize * slot.size).next_multiple_of(LINE);
            starts.push(starts[starts.len() - 1] + bytes);
        }
        Some(Self { lowered, tile, tiles, starts, takes: SmallVec::new() })
    }

    /// Runs the group over the buffers of a program.
    ///
    /// # Errors
    /// Those of the allocation, of taking access, and a division of integers by zero.
    pub(crate) fn run(&self, program: &Program) -> Result<()> {
        let prepared = self.prepare(program)?;
        let taken = self.take_over(program)?;
        let mut tensors: SmallVec<[Tensor; 8]> = SmallVec::new();
        for external in self.in_buffers() {
            let buffer = external.operand.buffer;
            let moved = taken.iter().find(|(from, _)| *from == buffer);
            let storage = &program.buffer(moved.map_or(buffer, |&(_, to)| to)).storage;
            if external.writes {
                memory::provide(storage)?;
            }
            tensors.push(external.operand.tensor(storage)?);
        }
        let wanted = tensors.iter().zip(self.in_buffers()).map(|(tensor, external)| {
            (tensor.base(), if external.writes { Access::Write } else { Access::Read })
        });
        let wanted: SmallVec<[_; 8]> = wanted.collect();
        let set = AccessSet::acquire(&wanted)?;
        let bases = self.bases(&set, &prepared)?;
        let mut singles = self.lowered.singles.clone();
        // SAFETY: the set holds all externals, in which their operands lie, as just checked; single elements are
        // this thread's, and steps over them write elements of their own.
        unsafe { self.run_once(&bases, &mut singles)? };
        let run = GroupRun { kernel: self, bases: &bases, singles: &singles };
        let count: i64 = self.tiles.iter().product();
        let area: i64 = self.tile.iter().product();
        parallel_for(0..count, (GRAIN / area).max(1), |range| {
            // SAFETY: as above; tiles are disjoint, so that no two threads write the same element.
            unsafe { run.tiles(range)? };
            if steps::divided_by_zero() {
                bail!(Runtime, "ZeroDivisionError")
            }
            Ok(())
        })
    }

    /// Moves memory from operands that end here to results; the buffers whose memory was moved, with where to.
    fn take_over(&self, program: &Program) -> Result<SmallVec<[(BufferId, BufferId); 1]>> {
        let mut taken = SmallVec::new();
        for (to, from) in self.taken_buffers() {
            let [to_storage, from_storage] = [to, from].map(|id| &program.buffer(id).storage);
            if memory::take_over(from_storage, to_storage)? {
                taken.push((from, to));
            }
        }
        Ok(taken)
    }

    /// Has results take over the memory of operands that nobody reads after the group: where a result is at most
    /// written when all steps of a tile have read the operand, and both lie alike.
    pub(crate) fn choose_memory(&mut self, program: &Program, dead: &[BufferId]) {
        let count = self.lowered.externals.len();
        for to in 0..count {
            if !self.is_fresh(program, to) {
                continue;
            }
            let from = (0..count).find(|&from| {
                let is_free = self.takes.iter().all(|taken| taken.from != from);
                is_free && self.ends_before(program, dead, from, to)
            });
            self.takes.extend(from.map(|from| Takeover { to, from }));
        }
    }

    /// Whether some result is in the memory of an operand.
    pub(crate) fn takes_over(&self) -> bool {
        !self.takes.is_empty()
    }

    /// The buffers that take over the memory of others, with those.
    pub(crate) fn taken_buffers(&self) -> SmallVec<[(BufferId, BufferId); 1]> {
        let buffer = |external: usize| self.lowered.externals[external].operand.buffer;
        self.takes.iter().map(|taken| (buffer(taken.to), buffer(taken.from))).collect()
    }

    /// Whether an external is a whole result of the group, over which there is no other.
    fn is_fresh(&self, program: &Program, index: usize) -> bool {
        let external = &self.lowered.externals[index];
        external.writes
            && !program.buffer(external.operand.buffer).role.is_given()
            && self.is_whole(program, index)
    }

    /// Whether an external is all that the group uses of its buffer, and one element for each of the space.
    fn is_whole(&self, program: &Program, index: usize) -> bool {
        let External { operand, prepared, .. } = &self.lowered.externals[index];
        let storage = &program.buffer(operand.buffer).storage;
        let bytes = operand.numel() as usize * operand.dtype.itemsize();
        let uses =
            self.lowered.externals.iter().filter(|other| other.operand.buffer == operand.buffer);
        prepared.is_none()
            && operand.offset == 0
            && operand.numel() == self.lowered.space.numel()
            && bytes == storage.nbytes()
            && uses.count() == 1
    }

    /// Whether an operand ends with the group, lies as a result does, and is read before that is written.
    fn ends_before(&self, program: &Program, dead: &[BufferId], from: usize, to: usize) -> bool {
        let [read, written] = [from, to].map(|index| &self.lowered.externals[index]);
        let strides = &self.lowered.space.strides;
        let place = Location::External;
        let steps = &self.lowered.steps;
        let reads = |step: &&PlacedStep| step.places.iter().skip(1).any(|&at| at == place(from));
        let last_read = steps.iter().rposition(|step| reads(&step));
        let first_write = steps.iter().position(|step| step.places.first() == Some(&place(to)));
        let in_order = match (last_read, first_write) {
            (Some(read), Some(write)) => {
                read < write || (read == write && steps[read].step.runs_in_place())
            }
            (None, _) | (_, None) => false,
        };
        !read.writes
            && dead.contains(&read.operand.buffer)
            && self.is_whole(program, from)
            && read.operand.dtype.itemsize() == written.operand.dtype.itemsize()
            && strides[from] == strides[to]
            && in_order
    }

    /// The externals in buffers of the program.
    fn in_buffers(&self) -> impl Iterator<Item = &External> {
        self.lowered.externals.iter().filter(|external| external.prepared.is_none())
    }

    /// The numbers per channel of the nodes that have some.
    fn prepare(&self, program: &Program) -> Result<Prepared> {
        let mut prepared = Prepared::new();
        for (node, _) in self.lowered.externals.iter().filter_map(|external| external.prepared) {
            if prepared.iter().all(|(other, _)| *other != node) {
                prepared.push((node, affine::prepare(program, &program.nodes()[node])?));
            }
        }
        Ok(prepared)
    }

    /// The first elements of all externals.
    fn bases(&self, set: &AccessSet<'_>, prepared: &Prepared) -> Result<SmallVec<[*mut u8; 8]>> {
        let mut bases = SmallVec::new();
        let mut held = 0..set.len();
        for External { operand, prepared: made, .. } in &self.lowered.externals {
            let bytes = operand.bytes();
            let (start, nbytes) = match made {
                None => held.next().map_or((std::ptr::null_mut(), 0), |i| set.extent(i)),
                Some((node, which)) => {
                    let made = prepared.iter().find(|(other, _)| other == node);
                    made.map_or((std::ptr::null_mut(), 0), |(_, numbers)| {
                        let numbers = &numbers[*which];
                        (numbers.as_ptr().cast_mut().cast(), size_of_val(numbers.as_slice()))
                    })
                }
            };
            let within = bytes.start >= 0 && bytes.end <= nbytes as i64 && !start.is_null();
            ensure!(
                within,
                Runtime,
                "a tensor was given another storage while a program was about to run"
            );
            let offset = operand.offset * operand.dtype.itemsize() as i64;
            bases.push(start.wrapping_offset(offset as isize));
        }
        Ok(bases)
    }

    /// Runs the steps over single elements.
    ///
    /// # Safety
    /// The bases must be the first elements of the externals, held for this thread.
    unsafe fn run_once(&self, bases: &[*mut u8], singles: &mut [ElementBytes]) -> Result<()> {
        let first: *mut ElementBytes = singles.as_mut_ptr();
        for PlacedStep { step, places, .. } in &self.lowered.once {
            let at: SmallVec<[*mut u8; 4]> = places
                .iter()
                .map(|place| match *place {
                    Location::External(i) => bases[i],
                    Location::Single(i) => first.wrapping_add(i).cast(),
                    Location::Slot(_) => std::ptr::null_mut(),
                })
                .collect();
            let mut strides: SmallVec<[i64; 8]> = SmallVec::from_elem(0, 2 * places.len());
            // Outputs are dense rows of one element.
            strides[0] = size_of::<ElementBytes>() as i64;
            // SAFETY: every place is one element of the step's dtypes: lowering gives steps over single elements no
            // slot.
            unsafe { step.run(&at, &strides, 1, 1)? };
        }
        Ok(())
    }

    /// The buffers that are read or written.
    pub(crate) fn buffers(&self, program: &Program) -> Vec<BufferId> {
        let made = self.lowered.externals.iter().filter_map(|external| external.prepared);
        let parameters = made.flat_map(|(node, _)| program.nodes()[node].reads().skip(1));
        let buffers = self.in_buffers().map(|external| &external.operand).chain(parameters);
        buffers.map(|operand| operand.buffer).collect()
    }

    /// Bytes that are read and written.
    pub(crate) fn bytes(&self) -> usize {
        let bytes =
            self.lowered.externals.iter().map(|external| {
                external.operand.numel() as usize * external.operand.dtype.itemsize()
            });
        bytes.sum()
    }

    /// Buffers that are never in memory.
    pub(crate) fn removed(&self) -> usize {
        self.lowered.removed.len()
    }
}

/// Numbers per channel by node.
type Prepared = SmallVec<[(usize, [Vec<f32>; 2]); 1]>;

thread_local! {
    /// Room for slots that the thread keeps.
    static ROOM: Cell<Vec<u64>> = const { Cell::new(Vec::new()) };
}

/// A kernel with the memory of one run.
struct GroupRun<'a> {
    kernel: &'a Kernel,
    bases: &'a [*mut u8],
    singles: &'a [ElementBytes],
}

// SAFETY: whoever runs tiles holds the memory, and gives every thread tiles of its own.
unsafe impl Sync for GroupRun<'_> {}

impl GroupRun<'_> {
    /// Runs tiles of these numbers.
    ///
    /// # Safety
    /// The bases must be the first elements of the externals, which are held and of which no other thread uses the
    /// elements of these tiles meanwhile.
    unsafe fn tiles(&self, range: Range<i64>) -> Result<()> {
        let kernel = self.kernel;
        let bytes = kernel.starts[kernel.starts.len() - 1] + LINE;
        let mut room = ROOM.take();
        if room.len() * size_of::<u64>() < bytes {
            room.resize(bytes / size_of::<u64>(), 0);
        }
        let start = room.as_mut_ptr().cast::<u8>();
        let slots = start.wrapping_add(start.align_offset(LINE));
        let space = &kernel.lowered.space;
        let mut at: SmallVec<[*mut u8; 8]> = SmallVec::from_slice(self.bases);
        for tile in range {
            let (mut rest, mut n) = (tile, [1; 2]);
            at.copy_from_slice(self.bases);
            for (dim, &count) in kernel.tiles.iter().enumerate() {
                let first = rest % count * kernel.tile[dim];
                rest /= count;
                if let Some(n) = n.get_mut(dim) {
                    *n = kernel.tile[dim].min(space.sizes[dim] - first);
                }
                for (at, strides) in at.iter_mut().zip(&space.strides) {
                    *at = at.wrapping_offset((strides[dim] * first) as isize);
                }
            }
            // SAFETY: the caller's, of this tile; slots have room for its elements.
            unsafe { self.tile(&at, slots, n)? };
        }
        ROOM.set(room);
        Ok(())
    }

    /// Runs all steps over a tile of `n[1]` rows of `n[0]` elements.
    ///
    /// # Safety
    /// As for [`tiles`](Self::tiles), with the addresses of the tile's first elements.
    unsafe fn tile(&self, externals: &[*mut u8], slots: *mut u8, n: [i64; 2]) -> Result<()> {
        let kernel = self.kernel;
        let space = &kernel.lowered.space;
        for PlacedStep { step, places, over_rows } in &kernel.lowered.steps {
            let count = places.len();
            let (mut at, mut strides) = ([std::ptr::null_mut(); 4], [0; 8]);
            let mut dense = true;
            for (i, place) in places.iter().enumerate() {
                let (address, inner, outer) = match *place {
                    Location::Slot(slot) => {
                        let Slot { size, per_row } = kernel.lowered.slots[slot];
                        let at = slots.wrapping_add(kernel.starts[slot]);
                        let size = size as i64;
                        if per_row { (at, 0, size) } else { (at, size, size * n[0]) }
                    }
                    Location::External(external) => {
                        let along = &space.strides[external];
                        (externals[external], along[0], along.get(1).copied().unwrap_or(0))
                    }
                    Location::Single(single) => {
                        (std::ptr::from_ref(&self.singles[single]).cast_mut().cast(), 0, 0)
                    }
                };
                let (inner, outer) = if *over_rows { (outer, 0) } else { (inner, outer) };
                (at[i], strides[i], strides[count + i]) = (address, inner, outer);
                dense &= outer == inner * n[0];
            }
            let [n0, n1] = match (over_rows, dense) {
                (true, _) => [n[1], 1],
                (false, true) => [n[0] * n[1], 1],
                (false, false) => n,
            };
            // SAFETY: the caller's; at most four operands: those of recorded loops.
            unsafe { step.run(&at[..count], &strides[..2 * count], n0 as usize, n1 as usize)? };
        }
        Ok(())
    }
}
