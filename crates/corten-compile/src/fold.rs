//! Convolutions with the batch normalisation after them put into their weights.
//!
//! In evaluation mode the normalisation multiplies each channel and adds to it, which the weights and the bias of the
//! convolution can do as well. The products round otherwise then, so that only programs that
//! [allow it](crate::ir::Program::set_folds) are folded. The folded weights are kept for the next run: the storages
//! that they were made from are [watched](corten_core::Storage::watch_writes), and whoever is about to write one has
//! them dropped before.

use crate::call;
use crate::device;
use crate::ir::{Argument, BufferId, Node, Operand, Program, Role};
use crate::recipe::affine;
use corten_core::{DType, Deferred, Result, Storage, WeakStorage};
use corten_ops::{IValue, Tensor, op};
use smallvec::SmallVec;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// A convolution and the normalisation of its result, by the numbers of the nodes.
#[derive(Clone, Copy)]
pub(crate) struct Fold {
    pub(crate) convolution: usize,
    pub(crate) normalisation: usize,
}

/// The pairs of a program that may be folded: those on the host.
pub(crate) fn find(program: &Program) -> Vec<Fold> {
    if !program.folds() {
        return Vec::new();
    }
    let mut uses: Vec<Uses> = vec![Uses::default(); program.buffers().len()];
    for (index, node) in program.nodes().iter().enumerate() {
        node.reads().for_each(|operand| uses[operand.buffer.index()].reads += 1);
        for operand in node.writes() {
            uses[operand.buffer.index()].writes += 1;
            uses[operand.buffer.index()].writer = index;
        }
    }
    let normalisations = program.nodes().iter().enumerate();
    let fold = |(normalisation, node): (usize, &Node)| {
        if !device::device_of(program, node).is_cpu() {
            return None;
        }
        affine::of(node)?;
        let Some(Argument::Tensor(input)) = node.arguments.first() else { return None };
        let between = uses[input.buffer.index()];
        let convolution = between.writer;
        let is_between = (between.reads, between.writes) == (1, 1)
            && program.buffer(input.buffer).role == Role::Internal
            && is_foldable(&program.nodes()[convolution], input);
        let fold = Fold { convolution, normalisation };
        // The convolution runs where the normalisation stood.
        let Some(Argument::Tensor(image)) = program.nodes()[convolution].arguments.first() else {
            return None;
        };
        let meanwhile = program.nodes().get(convolution + 1..normalisation)?;
        let is_as_it_was =
            meanwhile.iter().all(|node| node.writes().all(|to| to.buffer != image.buffer));
        let mut constants = constants(program, fold).into_iter();
        let is_constant = constants.all(|operand| uses[operand.buffer.index()].writes == 0);
        (is_between && is_as_it_was && is_constant).then_some(fold)
    };
    normalisations.filter_map(fold).collect()
}

/// How often a buffer is used, and by whom it is written last.
#[derive(Clone, Copy, Default)]
struct Uses {
    reads: usize,
    writes: usize,
    writer: usize,
}

/// Whether a node is a convolution of `f32`, and no transposed one, that gives just this tensor.
fn is_foldable(node: &Node, result: &Operand) -> bool {
    let def = node.op.def();
    let is_float = |at: usize| match node.arguments.get(at) {
        Some(Argument::Tensor(operand)) => operand.dtype == DType::Float32,
        _ => false,
    };
    let is_absent =
        |at: usize| matches!(node.arguments.get(at), Some(Argument::Value(IValue::None)));
    def.namespace == "aten"
        && def.name == "convolution"
        && is_float(0)
        && is_float(1)
        && (is_float(2) || is_absent(2))
        && matches!(node.arguments.get(6), Some(Argument::Value(IValue::Bool(false))))
        && node.results.len() == 1
        && node.results[0].as_ref() == Some(result)
}

/// The operands that folded weights are made from: the weights and the bias, and what the normalisation has.
fn constants(program: &Program, fold: Fold) -> SmallVec<[&Operand; 6]> {
    let [convolution, normalisation] =
        [fold.convolution, fold.normalisation].map(|node| &program.nodes()[node]);
    let own = convolution.arguments.iter().skip(1).flat_map(Argument::operands);
    own.chain(normalisation.reads().skip(1)).collect()
}

/// The buffers that a folded pair uses.
pub(crate) fn buffers(program: &Program, fold: Fold) -> Vec<BufferId> {
    let [convolution, normalisation] =
        [fold.convolution, fold.normalisation].map(|node| &program.nodes()[node]);
    let reads = convolution.reads().chain(normalisation.reads().skip(1));
    reads.chain(normalisation.writes()).map(|operand| operand.buffer).collect()
}

/// A folded pair with the weights that it ran with.
pub(crate) struct FoldedConvolution {
    pub(crate) fold: Fold,
    known: Mutex<Vec<Weak<FoldedWeights>>>,
}

impl FoldedConvolution {
    pub(crate) fn new(fold: Fold) -> Self {
        Self { fold, known: Mutex::default() }
    }

    /// Runs both nodes as one convolution.
    ///
    /// # Errors
    /// Those of the convolution.
    pub(crate) fn run(&self, program: &Program) -> Result<()> {
        let (weight, bias) = self.weights(program)?;
        let [convolution, normalisation] =
            [self.fold.convolution, self.fold.normalisation].map(|node| &program.nodes()[node]);
        call::call_with(program, convolution, [(1, weight), (2, bias)], &normalisation.results)
    }

    /// The folded weights and bias, made where they are not known.
    fn weights(&self, program: &Program) -> Result<(Tensor, Tensor)> {
        let constants = constants(program, self.fold);
        let storages: SmallVec<[&Storage; 6]> =
            constants.iter().map(|operand| &program.buffer(operand.buffer).storage).collect();
        let known: Vec<Arc<FoldedWeights>> = {
            let mut known = lock(&self.known);
            known.retain(|one| one.strong_count() > 0);
            known.iter().filter_map(Weak::upgrade).collect()
        };
        let found = known.iter().filter(|one| one.is_of(&storages));
        if let Some(weights) = found.filter_map(|one| lock(&one.made).clone()).next() {
            return Ok(weights);
        }
        let made = fold_weights(program, self.fold)?;
        // What others reach without entering may change without a word.
        if storages.iter().all(|storage| storage.is_sole_owner()) {
            let sources = storages.iter().map(|storage| storage.downgrade()).collect();
            let kept = FoldedWeights { made: Mutex::new(Some(made.clone())), sources };
            let kept = Arc::new(kept);
            let watcher: Arc<dyn Deferred> = kept.clone();
            storages.iter().for_each(|storage| storage.watch_writes(&watcher));
            lock(&self.known).push(Arc::downgrade(&kept));
        }
        Ok(made)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Weights and bias with a normalisation in them. The storages they were made from hold it.
struct FoldedWeights {
    made: Mutex<Option<(Tensor, Tensor)>>,
    sources: Vec<WeakStorage>,
}

impl FoldedWeights {
    fn is_of(&self, storages: &[&Storage]) -> bool {
        let same = |(one, other): (&WeakStorage, &&Storage)| {
            one.upgrade().is_some_and(|storage| storage.ptr_eq(other))
        };
        self.sources.len() == storages.len() && self.sources.iter().zip(storages).all(same)
    }
}

impl Deferred for FoldedWeights {
    fn flush(&self, _waits: bool) -> Result<()> {
        let made = lock(&self.made).take();
        for storage in self.sources.iter().filter_map(WeakStorage::upgrade) {
            storage.forget_use(self);
        }
        drop(made);
        Ok(())
    }

    fn is_running_here(&self) -> bool {
        false
    }
}

/// Multiplies the weights of each channel, and moves the bias.
fn fold_weights(program: &Program, fold: Fold) -> Result<(Tensor, Tensor)> {
    let [convolution, normalisation] =
        [fold.convolution, fold.normalisation].map(|node| &program.nodes()[node]);
    let [scale, shift] = affine::prepare(program, normalisation)?;
    let channels = scale.len() as i64;
    let given = |at: usize| match convolution.arguments.get(at) {
        Some(Argument::Tensor(operand)) => {
            operand.tensor(&program.buffer(operand.buffer).storage).map(Some)
        }
        _ => Ok(None),
    };
    let weight = given(1)?.unwrap_or_default();
    let (scale, shift) =
        (Tensor::from_vec(scale, &[channels])?, Tensor::from_vec(shift, &[channels])?);
    let bias = match given(2)? {
        Some(bias) => op::add_tensor(&op::mul_tensor(&bias, &scale)?, &shift, 1.into())?,
        None => shift,
    };
    let mut sizes = vec![1; weight.dim()];
    sizes[0] = channels;
    Ok((op::mul_tensor(&weight, &op::view(&scale, &sizes)?)?, bias))
}
