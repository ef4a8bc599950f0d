//! The reducer: its construction, its state, and what happens around forward passes.

use super::bucket::{Bucket, GradBucket};
use super::comm::{Collectives, CommHook, Pending};
use super::stats::Timer;
use super::{faults, rebuild};
use corten_autograd::engine::queue_callback;
use corten_autograd::{HookHandle, NodeRef, graph};
use corten_core::{Result, bail, ensure};
use corten_ops::Tensor;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

/// The first bucket is closed from this many bytes on, so that communication begins early.
pub const DEFAULT_FIRST_BUCKET_BYTES: usize = 1 << 20;

/// The other buckets are closed from this many bytes on.
pub const DEFAULT_BUCKET_BYTES: usize = 25 << 20;

/// How a reducer works.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes from which on a bucket is closed when the buckets are made anew.
    pub bucket_bytes_cap: usize,
    /// The same for the first bucket.
    pub first_bucket_bytes_cap: usize,
    /// Limits bucket by bucket, in place of both; empty: none.
    pub bucket_bytes_cap_list: Vec<usize>,
    /// Looks for parameters that a pass does not reach.
    pub find_unused_parameters: bool,
    /// `.grad` becomes a view of the bucket.
    pub gradient_as_bucket_view: bool,
    /// Buckets that a pass does not reach are not communicated: all ranks must agree on them.
    pub skip_all_reduce_unused_params: bool,
    /// Buckets have memory only during backward passes.
    pub lazy_bucket_allocation: bool,
    /// Gradients are copied a bucket at a time.
    pub batched_grad_copy: bool,
    /// Names of the parameters, for errors.
    pub names: HashMap<usize, String>,
    /// Whether errors name parameters.
    pub names_in_errors: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            bucket_bytes_cap: DEFAULT_BUCKET_BYTES,
            first_bucket_bytes_cap: DEFAULT_FIRST_BUCKET_BYTES,
            bucket_bytes_cap_list: Vec::new(),
            find_unused_parameters: false,
            gradient_as_bucket_view: false,
            skip_all_reduce_unused_params: false,
            lazy_bucket_allocation: false,
            batched_grad_copy: false,
            names: HashMap::new(),
            names_in_errors: false,
        }
    }
}

/// Averages gradients over processes while backward passes run.
///
/// Each parameter's accumulator calls it when the gradient is complete. A bucket whose gradients are
/// all there is communicated at once, in the order of the buckets on every rank, while the pass goes
/// on; at the end of the pass the results are waited for and become the gradients. One pass at a time.
pub struct Reducer {
    pub(super) params: Vec<Tensor>,
    pub(super) expect_sparse: Vec<bool>,
    pub(super) options: Options,
    group: RwLock<Arc<dyn Collectives>>,
    /// Held, so that the hooks stay: tensors know their accumulators weakly.
    accumulators: Vec<NodeRef>,
    /// Parameters by the address of their accumulator.
    pub(super) by_address: HashMap<usize, usize>,
    hooks: Mutex<Vec<HookHandle>>,
    /// Apart from the state: a hook may ask the reducer to communicate.
    comm_hook: Mutex<Option<Arc<dyn CommHook>>>,
    static_graph: AtomicBool,
    /// Optimizers have stepped when a bucket's result was there: gradients are not written.
    optimizer_in_backward: AtomicBool,
    state: Mutex<State>,
    pub(super) timer: Timer,
    me: Weak<Self>,
}

/// What changes from pass to pass.
pub(super) struct State {
    pub(super) buckets: Vec<Bucket>,
    /// Bucket and slot of each parameter.
    pub(super) places: Vec<(usize, usize)>,
    /// The first bucket that is not under way.
    pub(super) next_bucket: usize,
    /// A forward pass has announced gradients.
    pub(super) expects_gradients: bool,
    /// A pass has begun to deliver gradients and has not been ended.
    pub(super) needs_finalize: bool,
    pub(super) marked_unused: bool,
    pub(super) unused: Vec<usize>,
    /// Which parameters' gradients have come in this pass.
    pub(super) ready: Vec<bool>,
    /// How many ranks use each parameter; before the sum: whether this one does.
    pub(super) used: Vec<i32>,
    pub(super) used_work: Option<Arc<dyn Pending>>,
    /// The order of gradients in the first pass, by which the buckets are made anew.
    pub(super) order: Vec<usize>,
    pub(super) has_rebuilt: bool,
    /// The pass that a static graph is learned from is over.
    pub(super) static_recorded: bool,
    /// How often each parameter's gradient came in that pass.
    pub(super) hook_counts: Vec<u32>,
    pub(super) hooks_left: Vec<u32>,
    /// What gradients are divided by.
    pub(super) div_factor: Option<f64>,
    /// The number of ranks that still have inputs, and whether the world's size counts instead.
    pub(super) forward_work: Option<(Arc<dyn Pending>, bool)>,
    /// What the end of the pass waits for besides.
    pub(super) installed: Vec<Arc<dyn Pending>>,
    pub(super) iterations: u64,
    pub(super) warned_all_used: bool,
    pub(super) manual: bool,
}

impl Reducer {
    /// A reducer of `params`, whose accumulators it hooks into. `assignment` has the buckets in the
    /// order in which they are communicated; [`super::assign_buckets`] makes one.
    ///
    /// # Errors
    /// `Runtime` when there are no parameters, one is no leaf that requires a gradient or is there
    /// twice, or the buckets do not have each parameter once.
    pub fn new(
        params: Vec<Tensor>,
        assignment: &[Vec<usize>],
        group: Arc<dyn Collectives>,
        expect_sparse: Vec<bool>,
        options: Options,
    ) -> Result<Arc<Self>> {
        ensure!(!params.is_empty(), Runtime, "Reducer: expected at least one parameter");
        let count = params.len();
        let expect_sparse =
            if expect_sparse.is_empty() { vec![false; count] } else { expect_sparse };
        ensure!(
            expect_sparse.len() == count,
            Runtime,
            "Reducer: expect_sparse_gradients has {} entries for {count} parameters",
            expect_sparse.len()
        );
        let (accumulators, by_address) = accumulators_of(&params)?;
        let mut state = State::new(count);
        state.set_buckets(&params, &expect_sparse, assignment, &options)?;
        let reducer = Arc::new_cyclic(|me: &Weak<Self>| Self {
            params,
            expect_sparse,
            options,
            group: RwLock::new(group),
            accumulators,
            by_address,
            hooks: Mutex::default(),
            comm_hook: Mutex::default(),
            static_graph: AtomicBool::new(false),
            optimizer_in_backward: AtomicBool::new(false),
            state: Mutex::new(state),
            timer: Timer::default(),
            me: me.clone(),
        });
        reducer.hook_into_accumulators();
        Ok(reducer)
    }

    fn hook_into_accumulators(&self) {
        let hook = |(index, node): (usize, &NodeRef)| {
            let me = self.me.clone();
            node.register_hook(Arc::new(move |_: &[Tensor], _: &[Tensor]| {
                if let Some(reducer) = me.upgrade() {
                    reducer.autograd_hook(index)?;
                }
                Ok(None)
            }))
        };
        let handles = self.accumulators.iter().enumerate().map(hook).collect();
        *self.hooks.lock().unwrap_or_else(PoisonError::into_inner) = handles;
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The group that the gradients are averaged over.
    pub fn group(&self) -> Arc<dyn Collectives> {
        self.group.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the group.
    pub fn update_group(&self, group: Arc<dyn Collectives>) {
        let old = std::mem::replace(
            &mut *self.group.write().unwrap_or_else(PoisonError::into_inner),
            group,
        );
        drop(old);
    }

    /// The parameters.
    pub fn params(&self) -> &[Tensor] {
        &self.params
    }

    /// The options it was made with.
    pub fn options(&self) -> &Options {
        &self.options
    }

    pub(super) fn is_static(&self) -> bool {
        self.static_graph.load(Ordering::Relaxed)
    }

    /// Whether the graph is searched for parameters that it does not reach.
    pub(super) fn searches_graph(&self) -> bool {
        self.options.find_unused_parameters && !self.is_static()
    }

    /// Promises that every pass reaches the same parameters equally often. The first pass learns how
    /// often; its gradients are communicated by [`delay_all_reduce`](Self::delay_all_reduce).
    ///
    /// # Errors
    /// `Runtime` after the first pass.
    pub fn set_static_graph(&self) -> Result<()> {
        ensure!(
            self.lock().iterations == 0,
            Runtime,
            "set_static_graph() should be called before training loop starts and after DDP is \
             constructed."
        );
        self.static_graph.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// A hook runs optimizers with the results of buckets: gradients are not written at the end.
    pub fn set_optimizer_in_backward(&self) {
        self.optimizer_in_backward.store(true, Ordering::Relaxed);
    }

    pub(super) fn writes_gradients(&self) -> bool {
        !self.optimizer_in_backward.load(Ordering::Relaxed)
    }

    /// Has `hook` communicate the buckets.
    ///
    /// # Errors
    /// `Runtime` when there is a hook.
    pub fn register_comm_hook(&self, hook: Arc<dyn CommHook>) -> Result<()> {
        let mut place = self.comm_hook.lock().unwrap_or_else(PoisonError::into_inner);
        ensure!(
            place.is_none(),
            Runtime,
            "register_comm_hook or register_builtin_comm_hook can only be called once."
        );
        *place = Some(hook);
        Ok(())
    }

    pub(super) fn comm_hook(&self) -> Option<Arc<dyn CommHook>> {
        self.comm_hook.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Communicates a bucket as a pass would: by the hook, or as the sum over the ranks.
    ///
    /// # Errors
    /// Those of the hook or the group.
    pub fn run_comm_hook(&self, bucket: Arc<GradBucket>) -> Result<Arc<dyn Pending>> {
        match self.comm_hook() {
            Some(hook) => hook.run(bucket),
            None => self.group().all_reduce(&bucket.buffer()),
        }
    }

    /// Notes that a forward pass begins.
    pub fn prepare_for_forward(&self) {
        self.lock().iterations += 1;
        self.timer.forward_began();
    }

    /// Announces gradients. `outputs` are those of the forward pass, from which the graph is searched if
    /// unused parameters are to be found.
    ///
    /// # Errors
    /// Those of the search.
    pub fn prepare_for_backward(&self, outputs: &[Tensor]) -> Result<()> {
        self.timer.backward_prepared();
        let mut state = self.lock();
        state.begin_pass();
        if self.is_static() {
            state.hooks_left = state.hook_counts.clone();
        }
        if self.searches_graph() {
            self.search_unused(&mut state, outputs)?;
        }
        Ok(())
    }

    /// Makes the buckets anew in the order in which the gradients came, once, after the first pass.
    /// Returns whether it has.
    ///
    /// # Errors
    /// `Runtime` when the prior pass left gradients out; those of the group.
    pub fn rebuild_buckets(&self) -> Result<bool> {
        rebuild::rebuild(self)
    }

    /// Whether the buckets are still to be made anew.
    pub(super) fn should_rebuild(&self, state: &State) -> bool {
        (self.is_static() || !self.options.find_unused_parameters) && !state.has_rebuilt
    }

    /// Notes all parameters as come, in their order: for a rank without inputs.
    pub fn push_all_rebuilt_params(&self) {
        let mut state = self.lock();
        if self.should_rebuild(&state) {
            state.order = (0..self.params.len()).collect();
        }
    }

    /// A rank without inputs: zeros in the place of every bucket.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn zeros_like_grad_buckets(&self) -> Result<Vec<Arc<GradBucket>>> {
        let state = self.lock();
        let count = state.buckets.len();
        let zeros = |(index, bucket): (usize, &Bucket)| {
            let total = bucket.slots.iter().map(|slot| slot.numel).sum();
            let Some(slot) = bucket.slots.first() else {
                bail!(Runtime, "Reducer: a bucket has no parameters");
            };
            let like = corten_ops::op::detach(&self.params[slot.variable])?;
            let zeros = corten_ops::op::new_zeros(&like, &[total], None, None, None, None)?;
            let slots = bucket.slots.clone();
            Ok(Arc::new(GradBucket::new(index, count, zeros, slots, &self.params)))
        };
        state.buckets.iter().enumerate().map(zeros).collect()
    }

    /// The number of ranks that still have inputs is on its way. Gradients are divided by it, or by the
    /// number of all ranks.
    pub fn set_forward_pass_work(&self, work: Arc<dyn Pending>, use_static_world_size: bool) {
        self.lock().forward_work = Some((work, use_static_world_size));
    }

    /// What the end of the pass waits for besides.
    pub fn install_post_backward(&self, futures: Vec<Arc<dyn Pending>>) {
        let mut state = self.lock();
        if !state.expects_gradients {
            return;
        }
        state.installed.extend(futures);
    }

    /// Whether this rank has used each parameter, as 32-bit integers.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn local_used_map(&self) -> Result<Tensor> {
        Tensor::from_slice(&self.lock().used, &[self.params.len() as i64])
    }

    /// Whether the first pass of a static graph is being learned from.
    pub(super) fn learns_graph(&self, state: &State) -> bool {
        self.is_static() && !state.static_recorded
    }

    /// Takes the hooks out.
    pub fn remove_autograd_hooks(&self) {
        let hooks = std::mem::take(&mut *self.hooks.lock().unwrap_or_else(PoisonError::into_inner));
        hooks.iter().for_each(HookHandle::remove);
    }

    /// Fails if a pass was begun and not ended.
    ///
    /// # Errors
    /// `Runtime`, with the parameters whose gradients did not come.
    pub fn check_finalized(&self) -> Result<()> {
        faults::ensure_prior_reduction_finished(self, &self.lock())
    }

    /// Forgets a pass that was given up.
    ///
    /// # Errors
    /// Those of new buckets.
    pub fn reset_state(&self) -> Result<()> {
        let mut state = self.lock();
        state.begin_pass();
        state.expects_gradients = false;
        state.needs_finalize = false;
        state.div_factor = None;
        state.used_work = None;
        state.installed.clear();
        state.used.fill(0);
        state.buckets.iter_mut().for_each(|bucket| bucket.work = None);
        Ok(())
    }

    /// Whether the user ends passes with [`finalize_backward_manual`](Self::finalize_backward_manual).
    pub fn set_manual_finalization(&self, required: bool) {
        self.lock().manual = required;
    }

    /// Whether [`finalize_backward_manual`](Self::finalize_backward_manual) must wait for the end of the
    /// coming pass: while the buckets are still to be made anew.
    pub fn should_finalize_after_backward(&self) -> bool {
        let state = self.lock();
        state.manual && self.should_rebuild(&state)
    }

    /// Has the end of the pass that this thread runs finish the reduction.
    pub(super) fn finalize_after_pass(&self) -> Result<()> {
        let me = self.me.clone();
        queue_callback(move || match me.upgrade() {
            Some(reducer) => reducer.finish_pass(),
            None => Ok(()),
        })
    }

    /// Nanoseconds from the announcement of the gradients to each parameter's.
    pub fn backward_stats(&self) -> Vec<u64> {
        self.timer.arrivals(self.params.len())
    }

    /// Sizes of the buckets in bytes, in their order.
    pub fn bucket_sizes(&self) -> Vec<usize> {
        let state = self.lock();
        let bytes = |bucket: &Bucket| {
            let slots = bucket.slots.iter();
            let bytes = slots
                .map(|slot| slot.numel as usize * self.params[slot.variable].dtype().itemsize());
            bytes.sum()
        };
        state.buckets.iter().map(bytes).collect()
    }

    /// The parameters of each bucket, in their order.
    pub fn bucket_indices(&self) -> Vec<Vec<usize>> {
        let state = self.lock();
        let indices = |bucket: &Bucket| bucket.slots.iter().map(|slot| slot.variable).collect();
        state.buckets.iter().map(indices).collect()
    }

    /// Whether the buckets have been made anew.
    pub fn has_rebuilt_buckets(&self) -> bool {
        self.lock().has_rebuilt
    }

    /// Forward passes so far that announced gradients.
    pub fn iterations(&self) -> u64 {
        self.lock().iterations
    }
}

impl Drop for Reducer {
    fn drop(&mut self) {
        self.remove_autograd_hooks();
    }
}

type Accumulators = (Vec<NodeRef>, HashMap<usize, usize>);

fn accumulators_of(params: &[Tensor]) -> Result<Accumulators> {
    let mut accumulators = Vec::with_capacity(params.len());
    let mut by_address = HashMap::with_capacity(params.len());
    for (index, param) in params.iter().enumerate() {
        let Some(node) = graph::grad_accumulator(param)? else {
            bail!(Runtime, "Reducer: parameter {index} does not require a gradient");
        };
        ensure!(
            by_address.insert(node.address(), index).is_none(),
            Runtime,
            "Reducer tried to register duplicate grad accumulator for variable {index}"
        );
        accumulators.push(node);
    }
    Ok((accumulators, by_address))
}

impl State {
    fn new(count: usize) -> Self {
        Self {
            buckets: Vec::new(),
            places: Vec::new(),
            next_bucket: 0,
            expects_gradients: false,
            needs_finalize: false,
            marked_unused: false,
            unused: Vec::new(),
            ready: vec![false; count],
            used: vec![0; count],
            used_work: None,
            order: Vec::new(),
            has_rebuilt: false,
            static_recorded: false,
            hook_counts: vec![0; count],
            hooks_left: vec![0; count],
            div_factor: None,
            forward_work: None,
            installed: Vec::new(),
            iterations: 0,
            warned_all_used: false,
            manual: false,
        }
    }

    /// Replaces the buckets. Gradients that are views of the old ones move to the new ones.
    pub(super) fn set_buckets(
        &mut self,
        params: &[Tensor],
        expect_sparse: &[bool],
        assignment: &[Vec<usize>],
        options: &Options,
    ) -> Result<()> {
        let mut places = vec![None; params.len()];
        let mut buckets = Vec::with_capacity(assignment.len());
        for (number, members) in assignment.iter().enumerate() {
            let is_sparse = |&index: &usize| expect_sparse.get(index) == Some(&true);
            let sparse = members.iter().any(is_sparse);
            ensure!(
                !sparse || members.len() == 1,
                Runtime,
                "Buckets of parameters with sparse gradients must have one parameter, but bucket \
                 {number} has {}",
                members.len()
            );
            let mut bucket = Bucket::new(params, members, sparse)?;
            for (slot, &index) in members.iter().enumerate() {
                ensure!(
                    places[index].replace((number, slot)).is_none(),
                    Runtime,
                    "Reducer: parameter {index} is in two buckets"
                );
            }
            if !options.lazy_bucket_allocation {
                bucket.allocate(params)?;
            }
            buckets.push(bucket);
        }
        let placed: Option<Vec<_>> = places.into_iter().collect();
        let Some(placed) = placed else {
            bail!(Runtime, "Reducer: a parameter is in no bucket");
        };
        if options.gradient_as_bucket_view {
            buckets.iter().try_for_each(|bucket| super::copies::move_gradients(bucket, params))?;
        }
        (self.buckets, self.places) = (buckets, placed);
        self.next_bucket = 0;
        Ok(())
    }

    /// Nothing has come yet.
    fn begin_pass(&mut self) {
        self.next_bucket = 0;
        for bucket in &mut self.buckets {
            bucket.missing = bucket.slots.len();
            bucket.sparse = None;
            bucket.skipped = false;
        }
        self.expects_gradients = true;
        self.marked_unused = false;
        self.ready.fill(false);
        self.unused_if_searched();
    }

    /// The unused parameters of a static graph stay what the first pass told.
    fn unused_if_searched(&mut self) {
        if !self.static_recorded {
            self.unused.clear();
        }
    }
}
