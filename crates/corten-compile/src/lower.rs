//! From the nodes of a group to steps over places.

use crate::group::{Group, Member, drops_dims, sizes_of, walk_over, written};
use crate::ir::{Argument, BufferId, Node, Operand, Program, Role};
use crate::recipe::affine::operand_beside;
use crate::recipe::{RecipeStep, Source};
use crate::space::Space;
use corten_core::{DType, Dims};
use corten_cpu::pointwise::steps::{ElementBytes, Step};
use smallvec::SmallVec;
use std::sync::Arc;

/// A tensor in memory that a group reads or writes.
pub(crate) struct External {
    pub(crate) operand: Operand,
    pub(crate) writes: bool,
    /// Whether the operand lacks the dimensions that the group reduces.
    drops: bool,
    /// For numbers per channel, which lie in no buffer: the node that they belong to, and which of its numbers.
    pub(crate) prepared: Option<(usize, usize)>,
}

/// Where an operand of a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Location {
    /// In memory, by the number of the external.
    External(usize),
    /// In the thread's room, by the number of the slot.
    Slot(usize),
    /// One element for all, by its number.
    Single(usize),
}

/// A step with its places: the output, then the inputs.
pub(crate) struct PlacedStep {
    pub(crate) step: Arc<dyn Step>,
    pub(crate) places: SmallVec<[Location; 4]>,
    /// Whether it runs over one element per row.
    pub(crate) over_rows: bool,
}

/// Room for a value of a tile.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot {
    /// Bytes of an element.
    pub(crate) size: usize,
    /// Whether there is one element per row.
    pub(crate) per_row: bool,
}

/// A group as steps.
pub(crate) struct Lowered {
    pub(crate) space: Space,
    pub(crate) externals: Vec<External>,
    /// Steps over single elements, which run once.
    pub(crate) once: Vec<PlacedStep>,
    pub(crate) steps: Vec<PlacedStep>,
    pub(crate) slots: Vec<Slot>,
    /// Whether rows must stay whole.
    pub(crate) by_rows: bool,
    /// The single elements, those of steps zero.
    pub(crate) singles: Vec<ElementBytes>,
    /// Internal buffers that are not made at all.
    pub(crate) removed: Vec<BufferId>,
}

/// A value on its way through the group.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Value {
    External(usize),
    /// The result of a step of the group.
    Step(usize),
    Single(usize),
}

/// A step before places are given.
struct ValueStep {
    step: Arc<dyn Step>,
    inputs: SmallVec<[Value; 3]>,
    dtype: DType,
    over_rows: bool,
    /// Whether the result is one element per row.
    per_row: bool,
}

/// How a node is over the sizes of its group.
#[derive(Clone, Copy)]
struct Relation {
    over_rows: bool,
    reduces: bool,
    /// Whether what it reads, and what it writes, lacks the dimensions that are reduced.
    drops: [bool; 2],
}

impl Relation {
    fn of(node: &Node, member: &Member, group: &Group) -> Option<Self> {
        let reduces = member.recipe.reduced > 0;
        let own = sizes_of(node, &member.recipe)?;
        let dropped = member.over_rows && drops_dims(own, &group.sizes);
        let &(first, _) = member.recipe.outputs.first()?;
        let result = &written(node, first)?.sizes;
        let drops = [dropped, dropped || (reduces && drops_dims(result, &group.sizes))];
        Some(Self { over_rows: member.over_rows, reduces, drops })
    }
}

#[derive(Default)]
struct Lowering {
    externals: Vec<External>,
    once: Vec<PlacedStep>,
    steps: Vec<ValueStep>,
    singles: Vec<ElementBytes>,
    /// What tensors over buffers that the group writes hold now.
    now: Vec<(Operand, usize, bool)>,
}

/// Lowers a group; `is_needed` tells whether somebody reads an internal buffer after it. `None` where tiles would
/// be too small.
pub(crate) fn lower(
    program: &Program,
    group: &Group,
    is_needed: impl Fn(BufferId) -> bool,
) -> Option<Lowered> {
    let mut lowering = Lowering::default();
    for member in &group.members {
        let node = &program.nodes()[member.node];
        let relation = Relation::of(node, member, group)?;
        let mut values: SmallVec<[Value; 8]> = SmallVec::new();
        for step in &member.recipe.steps {
            let value = lowering.step((member.node, node), step, &values, relation)?;
            values.push(value);
        }
        for &(which, step) in &member.recipe.outputs {
            let Value::Step(step) = values[step] else { return None };
            lowering.set(written(node, which)?, step, relation.drops[1]);
        }
    }
    let needed =
        |buffer: BufferId| program.buffer(buffer).role != Role::Internal || is_needed(buffer);
    lowering.finish(group, needed)
}

/// Whether operands of a group, one of which is written, are the same element at every step. A group has such uses of a
/// buffer from one place on only where they walk alike; what is read may repeat elements along the dimensions that are
/// reduced, as an expanded tensor does.
fn is_same(a: &Operand, b: &Operand) -> bool {
    a.buffer == b.buffer && a.offset == b.offset && a.dtype == b.dtype
}

impl Lowering {
    fn step(
        &mut self,
        (index, node): (usize, &Node),
        recipe: &RecipeStep,
        values: &[Value],
        relation: Relation,
    ) -> Option<Value> {
        let mut inputs: SmallVec<[Value; 3]> = SmallVec::new();
        for source in &recipe.inputs {
            inputs.push(match *source {
                Source::Step(step) => values[step],
                Source::Number(element) => self.single(element),
                Source::Prepared(which) => {
                    let operand = operand_beside(node.reads().next()?)?;
                    let prepared = Some((index, which));
                    self.externals.push(External {
                        operand,
                        writes: false,
                        drops: false,
                        prepared,
                    });
                    Value::External(self.externals.len() - 1)
                }
                Source::Argument(i) => match &node.arguments[i] {
                    Argument::Tensor(operand) => self.read(operand, relation.drops[0]),
                    _ => return None,
                },
            });
        }
        if recipe.single {
            return self.step_once(recipe, &inputs);
        }
        let Relation { over_rows, reduces, .. } = relation;
        self.steps.push(ValueStep {
            step: recipe.step.clone(),
            inputs,
            dtype: recipe.dtype,
            over_rows,
            per_row: over_rows || reduces,
        });
        Some(Value::Step(self.steps.len() - 1))
    }

    fn step_once(&mut self, recipe: &RecipeStep, inputs: &[Value]) -> Option<Value> {
        let mut places: SmallVec<[Location; 4]> = SmallVec::new();
        places.push(Location::Single(self.singles.len()));
        for input in inputs {
            places.push(match *input {
                Value::External(i) => Location::External(i),
                Value::Single(i) => Location::Single(i),
                Value::Step(_) => return None,
            });
        }
        self.singles.push([0; 2]);
        self.once.push(PlacedStep { step: recipe.step.clone(), places, over_rows: false });
        Some(Value::Single(self.singles.len() - 1))
    }

    fn single(&mut self, element: ElementBytes) -> Value {
        self.singles.push(element);
        Value::Single(self.singles.len() - 1)
    }

    /// What an operand holds now.
    fn read(&mut self, operand: &Operand, drops: bool) -> Value {
        if let Some((_, step, _)) = self.now.iter().rev().find(|(now, ..)| is_same(now, operand)) {
            return Value::Step(*step);
        }
        Value::External(self.external(operand, false, drops))
    }

    fn external(&mut self, operand: &Operand, writes: bool, drops: bool) -> usize {
        let known = self.externals.iter().position(|external| {
            let other = &external.operand;
            is_same(other, operand)
                && external.prepared.is_none()
                && external.drops == drops
                && other.sizes == operand.sizes
                && other.strides == operand.strides
        });
        match known {
            Some(i) => {
                self.externals[i].writes |= writes;
                i
            }
            None => {
                self.externals.push(External {
                    operand: operand.clone(),
                    writes,
                    drops,
                    prepared: None,
                });
                self.externals.len() - 1
            }
        }
    }

    /// Makes the result of a step what an operand holds.
    fn set(&mut self, operand: &Operand, step: usize, drops: bool) {
        match self.now.iter_mut().find(|(now, ..)| is_same(now, operand)) {
            Some((_, now, _)) => *now = step,
            None => self.now.push((operand.clone(), step, drops)),
        }
    }

    fn finish(mut self, group: &Group, is_needed: impl Fn(BufferId) -> bool) -> Option<Lowered> {
        let mut stores: Vec<(usize, usize)> = Vec::new();
        let mut removed = Vec::new();
        for (operand, step, drops) in std::mem::take(&mut self.now) {
            if is_needed(operand.buffer) {
                stores.push((step, self.external(&operand, true, drops)));
            } else {
                removed.push(operand.buffer);
            }
        }
        let space = self.space(group)?;
        let (places, slots, copies) = self.places(&stores, &space);
        let steps = self.steps.iter().enumerate().map(|(i, step)| {
            let place = |value: &Value| match *value {
                Value::External(i) => Location::External(i),
                Value::Single(i) => Location::Single(i),
                Value::Step(i) => places[i],
            };
            let inputs = step.inputs.iter().map(place);
            PlacedStep {
                step: step.step.clone(),
                places: std::iter::once(places[i]).chain(inputs).collect(),
                over_rows: step.over_rows,
            }
        });
        let mut steps: Vec<PlacedStep> = steps.collect();
        steps.extend(copies);
        let Self { externals, once, singles, .. } = self;
        let by_rows = group.reduced > 0;
        Some(Lowered { space, externals, once, steps, slots, by_rows, singles, removed })
    }

    /// The space over all externals.
    fn space(&self, group: &Group) -> Option<Space> {
        let sizes = match group.flat {
            true => Dims::from_elem(group.sizes.iter().product(), 1),
            false => group.sizes.clone(),
        };
        let strides = self.externals.iter().map(|external| {
            let operand = &external.operand;
            match (operand.numel(), group.flat) {
                (1, _) => Some(Dims::from_elem(0, sizes.len())),
                (_, true) => Some(Dims::from_elem(operand.dtype.itemsize() as i64, 1)),
                (_, false) => walk_over(operand, &sizes, group.reduced, external.drops),
            }
        });
        let strides: Vec<Dims> = strides.collect::<Option<_>>()?;
        let whole = |external: &External| external.operand.numel() == sizes.iter().product::<i64>();
        let leader = self.externals.iter().position(|external| external.writes && whole(external));
        let leader = leader.or_else(|| self.externals.iter().position(whole)).unwrap_or(0);
        match group.reduced {
            0 => Some(Space::new(&sizes, &strides, leader)),
            reduced => Space::of_rows(&sizes, &strides, leader, reduced),
        }
    }

    /// The last step that reads the result of each; 0 for those that none reads.
    fn last_uses(&self) -> Vec<usize> {
        let mut last_use = vec![0; self.steps.len()];
        for (i, step) in self.steps.iter().enumerate() {
            for input in &step.inputs {
                if let Value::Step(of) = *input {
                    last_use[of] = i;
                }
            }
        }
        last_use
    }

    /// Places for the results of all steps: in memory where they are stored, else in slots, which others take over
    /// after the last use. What is stored a second time is copied.
    fn places(
        &self,
        stores: &[(usize, usize)],
        space: &Space,
    ) -> (Vec<Location>, Vec<Slot>, Vec<PlacedStep>) {
        let (count, mut last_use) = (self.steps.len(), self.last_uses());
        let dense = |external: usize| {
            let size = self.externals[external].operand.dtype.itemsize() as i64;
            space.strides[external][0] == size
        };
        let (mut home, mut copies) = (vec![None; count], Vec::new());
        for &(step, external) in stores {
            if home[step].is_none() && (self.steps[step].per_row || dense(external)) {
                home[step] = Some(external);
            } else {
                copies.push((step, external));
                last_use[step] = count;
            }
        }
        let mut slots = Slots::default();
        let mut places: Vec<Location> = Vec::with_capacity(count);
        for (i, step) in self.steps.iter().enumerate() {
            // Inputs that end here give their slots to the result: loops may write where they read.
            let ends = step.inputs.iter().filter_map(|input| match *input {
                Value::Step(of) if last_use[of] == i => Some(places[of]),
                _ => None,
            });
            let freed: SmallVec<[Location; 3]> = ends.collect();
            let in_place = step.step.runs_in_place();
            if in_place {
                slots.free(&freed);
            }
            places.push(match home[i] {
                Some(external) => Location::External(external),
                None => Location::Slot(
                    slots.take(Slot { size: step.dtype.itemsize(), per_row: step.per_row }),
                ),
            });
            if !in_place {
                slots.free(&freed);
            }
            if let (Location::Slot(slot), 0) = (places[i], last_use[i]) {
                slots.free(&[Location::Slot(slot)]);
            }
        }
        let copies = copies.into_iter().filter_map(|(step, external)| {
            let ValueStep { dtype, per_row, .. } = self.steps[step];
            let copy = corten_cpu::pointwise::steps::conversion(dtype, dtype)?;
            let places = [Location::External(external), places[step]].into_iter().collect();
            Some(PlacedStep { step: copy, places, over_rows: per_row })
        });
        let copies = copies.collect();
        (places, slots.slots, copies)
    }
}

/// Slots of a size, and those that are free.
#[derive(Default)]
struct Slots {
    slots: Vec<Slot>,
    free: SmallVec<[usize; 8]>,
}

impl Slots {
    fn take(&mut self, wanted: Slot) -> usize {
        if let Some(found) = self.free.iter().rposition(|&slot| self.slots[slot] == wanted) {
            return self.free.remove(found);
        }
        self.slots.push(wanted);
        self.slots.len() - 1
    }

    fn free(&mut self, places: &[Location]) {
        for place in places {
            if let Location::Slot(slot) = *place
                && !self.free.contains(&slot)
            {
                self.free.push(slot);
            }
        }
    }
}
