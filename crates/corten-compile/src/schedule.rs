//! Which nodes run together, and in which order.
//!
//! Nodes are taken in program order. What a node reads or writes decides on which earlier items it depends:
//! buffers order their readers and writers as the program did. An elementwise node joins the last group that
//! it depends on, or one that nothing depends on yet, which then runs as late as the node.

use crate::device::recipe_of;
use crate::fold::{self, Fold};
use crate::group::{Candidate, Group};
use crate::ir::{BufferId, Program};
use smallvec::SmallVec;

/// What runs at once.
pub(crate) enum Item {
    /// A node by its ordinary kernel.
    Node(usize),
    /// Nodes tile by tile.
    Group(Group),
    /// A convolution with the normalisation of its result.
    Folded(Fold),
}

type ItemId = usize;

/// Items with the order in which they run.
#[derive(Default)]
struct Schedule {
    items: Vec<Option<Item>>,
    /// Ranks of the items: those of lower rank run first.
    rank: Vec<u64>,
    /// Whether another item depends on it.
    is_used: Vec<bool>,
    next_rank: u64,
    buffers: Vec<Uses>,
}

/// The items that use a buffer.
#[derive(Clone, Default)]
struct Uses {
    writer: Option<ItemId>,
    /// Since it was written last.
    readers: SmallVec<[ItemId; 4]>,
}

/// Orders the nodes of a program in items; without `fuse` each by itself.
pub(crate) fn schedule(program: &Program, fuse: bool) -> Vec<Item> {
    let mut schedule =
        Schedule { buffers: vec![Uses::default(); program.buffers().len()], ..Schedule::default() };
    let folds = if fuse { fold::find(program) } else { Vec::new() };
    for index in 0..program.nodes().len() {
        if folds.iter().any(|fold| fold.convolution == index) {
            continue;
        }
        match folds.iter().find(|fold| fold.normalisation == index) {
            Some(&fold) => schedule.add_folded(program, fold),
            None => schedule.add(program, index, fuse),
        }
    }
    schedule.finish()
}

impl Schedule {
    fn add(&mut self, program: &Program, index: usize, fuse: bool) {
        let node = &program.nodes()[index];
        let dependencies = self.dependencies(program, index);
        let recipe = if fuse { recipe_of(program, node) } else { None };
        let candidate = recipe.and_then(|recipe| Candidate::new(program, index, recipe));
        let item = match candidate {
            None => self.push(Item::Node(index)),
            Some(candidate) => match self.home(&candidate, &dependencies) {
                None => self.push(Item::Group(Group::of(candidate))),
                Some(home) => {
                    if let Some(Some(Item::Group(group))) = self.items.get_mut(home) {
                        group.push(candidate);
                    }
                    home
                }
            },
        };
        for &dependency in dependencies.iter().filter(|&&other| other != item) {
            if let Some(used) = self.is_used.get_mut(dependency) {
                *used = true;
            }
        }
        self.note(program, index, item);
    }

    /// Adds a convolution where its normalisation stands.
    fn add_folded(&mut self, program: &Program, fold: Fold) {
        let nodes = [fold.convolution, fold.normalisation];
        let item = self.push(Item::Folded(fold));
        for node in nodes {
            for dependency in self.dependencies(program, node).into_iter().filter(|&id| id != item)
            {
                self.is_used[dependency] = true;
            }
            self.note(program, node, item);
        }
    }

    fn push(&mut self, item: Item) -> ItemId {
        self.items.push(Some(item));
        self.rank.push(self.next_rank);
        self.is_used.push(false);
        self.next_rank += 1;
        self.items.len() - 1
    }

    fn group(&self, id: ItemId) -> Option<&Group> {
        match self.items.get(id) {
            Some(Some(Item::Group(group))) => Some(group),
            _ => None,
        }
    }

    /// The items that must run before a node, or with it.
    fn dependencies(&self, program: &Program, index: usize) -> SmallVec<[ItemId; 8]> {
        let node = &program.nodes()[index];
        let mut found: SmallVec<[ItemId; 8]> = SmallVec::new();
        let mut add = |id: ItemId| {
            if !found.contains(&id) {
                found.push(id);
            }
        };
        for operand in node.reads() {
            self.buffers[operand.buffer.index()].writer.into_iter().for_each(&mut add);
        }
        for operand in node.writes() {
            let uses = &self.buffers[operand.buffer.index()];
            uses.writer.into_iter().chain(uses.readers.iter().copied()).for_each(&mut add);
        }
        found
    }

    /// The group that a node joins.
    fn home(&mut self, candidate: &Candidate, dependencies: &[ItemId]) -> Option<ItemId> {
        let fits = |id: ItemId| self.group(id).is_some_and(|group| candidate.fits(group));
        // Groups that nothing depends on may run later than they stand.
        let movable: SmallVec<[ItemId; 4]> =
            dependencies.iter().copied().filter(|&id| !self.is_used[id] && fits(id)).collect();
        let last = dependencies.iter().copied().max_by_key(|&id| self.rank[id]);
        if let Some(last) = last.filter(|&last| self.is_used[last] && fits(last)) {
            return Some(last);
        }
        if let Some((&home, others)) = movable.split_first() {
            for &other in others {
                self.merge(home, other);
            }
            self.rank[home] = self.next_rank;
            self.next_rank += 1;
            return Some(home);
        }
        self.neighbour(candidate, last.map_or(0, |last| self.rank[last] + 1))
    }

    /// Puts two groups together that both run as late as one may wish.
    fn merge(&mut self, home: ItemId, other: ItemId) {
        let fit = match (self.group(home), self.group(other)) {
            (Some(a), Some(b)) => a.fits(b),
            _ => false,
        };
        if !fit {
            return;
        }
        let Some(Item::Group(taken)) = self.items[other].take() else { return };
        let moved: SmallVec<[BufferId; 8]> = taken.buffers().into();
        if let Some(Some(Item::Group(group))) = self.items.get_mut(home) {
            group.merge(taken);
        }
        for buffer in moved {
            let uses = &mut self.buffers[buffer.index()];
            if uses.writer == Some(other) {
                uses.writer = Some(home);
            }
            uses.readers.iter_mut().filter(|reader| **reader == other).for_each(|id| *id = home);
        }
    }

    /// One of the last groups, of no lower rank, which uses a buffer that the node uses, too.
    fn neighbour(&self, candidate: &Candidate, rank: u64) -> Option<ItemId> {
        const LOOK_BACK: usize = 6;
        let recent = (0..self.items.len()).rev().take(LOOK_BACK);
        recent.into_iter().find(|&id| {
            self.rank[id] >= rank
                && self
                    .group(id)
                    .is_some_and(|group| candidate.shares_buffer(group) && candidate.fits(group))
        })
    }

    /// Notes what a node that belongs to an item uses.
    fn note(&mut self, program: &Program, index: usize, item: ItemId) {
        let node = &program.nodes()[index];
        for operand in node.reads() {
            let uses = &mut self.buffers[operand.buffer.index()];
            if !uses.readers.contains(&item) {
                uses.readers.push(item);
            }
        }
        for operand in node.writes() {
            let uses = &mut self.buffers[operand.buffer.index()];
            uses.writer = Some(item);
            uses.readers.clear();
        }
    }

    fn finish(self) -> Vec<Item> {
        let mut order: Vec<(u64, Item)> = self
            .rank
            .into_iter()
            .zip(self.items)
            .filter_map(|(rank, item)| Some((rank, item?)))
            .collect();
        order.sort_by_key(|(rank, _)| *rank);
        order.into_iter().map(|(_, item)| item).collect()
    }
}
