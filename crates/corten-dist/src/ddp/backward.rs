//! A backward pass: gradients come one by one, buckets are sent when they are full, and the end waits
//! for the results.

use super::bucket::{Bucket, GradBucket, views_of};
use super::reducer::{Reducer, State};
use super::{copies, faults};
use corten_autograd::Autograd;
use corten_core::{ErrorKind, GradModeGuard, Layout, Result, bail, ensure};
use corten_ops::{Tensor, op};
use std::sync::Arc;

impl Reducer {
    /// The gradient of a parameter has been accumulated: what accumulators call.
    ///
    /// # Errors
    /// `Runtime` when it comes twice in a pass, or the graph of a static module has changed; those of the
    /// group.
    pub fn autograd_hook(&self, index: usize) -> Result<()> {
        let _mode = GradModeGuard::new(false);
        let mut state = self.lock();
        let learns = self.learns_graph(&state);
        if learns || self.searches_graph() {
            // A hook also runs when no gradient has come, as for outputs that the loss leaves out.
            if self.params[index].grad().is_some() {
                state.used[index] = 1;
            }
        }
        if !state.expects_gradients {
            return Ok(());
        }
        if learns {
            state.hook_counts[index] += 1;
            return Ok(());
        }
        if !state.marked_unused {
            state.marked_unused = true;
            for unused in state.unused.clone() {
                self.mark_ready(&mut state, unused)?;
            }
        }
        if self.is_static() {
            if state.hooks_left[index] == 0 {
                return Err(self.noted(faults::graph_changed()));
            }
            state.hooks_left[index] -= 1;
            if state.hooks_left[index] > 0 {
                return Ok(());
            }
        }
        if self.should_rebuild(&state) {
            state.order.push(index);
        }
        self.mark_ready(&mut state, index)
    }

    /// One gradient is complete. The last one of a bucket sends it, and every full one behind it.
    fn mark_ready(&self, state: &mut State, index: usize) -> Result<()> {
        if std::mem::replace(&mut state.ready[index], true) {
            return Err(faults::ready_twice(self, index));
        }
        self.timer.arrived(index, self.params.len());
        state.needs_finalize = true;
        self.set_div_factor(state)?;
        self.take_gradient(state, index)?;
        let (bucket, _) = state.places[index];
        state.buckets[bucket].missing -= 1;
        if state.buckets[bucket].missing == 0 {
            self.send_full_buckets(state)?;
        }
        if state.next_bucket == state.buckets.len() {
            if self.searches_graph() && !self.options.skip_all_reduce_unused_params {
                self.reduce_used_map(state)?;
            }
            self.finalize_after_pass()?;
        }
        Ok(())
    }

    /// Puts the gradient of a parameter into its bucket.
    fn take_gradient(&self, state: &mut State, index: usize) -> Result<()> {
        let divisor = if self.comm_hook().is_none() { state.div_factor } else { None };
        let (number, slot) = state.places[index];
        let bucket = &mut state.buckets[number];
        let param = &self.params[index];
        if bucket.expect_sparse {
            bucket.sparse = Some(sparse_gradient(param, divisor)?);
            return Ok(());
        }
        bucket.allocate(&self.params)?;
        copies::copy_in(bucket, slot, param, divisor, &self.options)
    }

    /// What gradients are divided by: the number of ranks, or of those that still have inputs.
    fn set_div_factor(&self, state: &mut State) -> Result<()> {
        if state.div_factor.is_some() {
            return Ok(());
        }
        let mut factor = self.group().size() as f64;
        if let Some((work, use_static_world_size)) = &state.forward_work
            && !use_static_world_size
        {
            let joined: Tensor = work.wait()?;
            factor = op::item(&joined)?.to_f64();
        }
        state.div_factor = Some(factor);
        Ok(())
    }

    /// Sends buckets in their order, as long as they are full.
    fn send_full_buckets(&self, state: &mut State) -> Result<()> {
        while let Some(bucket) = state.buckets.get(state.next_bucket)
            && bucket.missing == 0
        {
            self.send(state, state.next_bucket)?;
            state.next_bucket += 1;
        }
        Ok(())
    }

    fn send(&self, state: &mut State, number: usize) -> Result<()> {
        let count = state.buckets.len();
        if self.options.skip_all_reduce_unused_params
            && state.buckets[number].slots.iter().all(|slot| state.unused.contains(&slot.variable))
        {
            state.buckets[number].skipped = true;
            return Ok(());
        }
        let bucket = &mut state.buckets[number];
        let Some(buffer) = bucket.sparse.as_ref().or(bucket.flat.as_ref()) else {
            bail!(Runtime, "Gradient bucket storage has not been allocated yet.");
        };
        let (buffer, slots) = (buffer.clone(), bucket.slots.clone());
        self.timer.communication_began();
        let seen = Arc::new(GradBucket::new(number, count, buffer, slots, &self.params));
        bucket.work = Some(self.run_comm_hook(seen)?);
        Ok(())
    }

    /// The pass of this thread is over: waits for the buckets and writes the gradients.
    pub(super) fn finish_pass(&self) -> Result<()> {
        let _mode = GradModeGuard::new(false);
        let mut state = self.lock();
        self.timer.backward_ended();
        if state.manual {
            return Ok(());
        }
        self.finish_locked(&mut state)
    }

    fn finish_locked(&self, state: &mut State) -> Result<()> {
        if state.next_bucket != state.buckets.len() {
            return Err(corten_core::err!(
                Internal,
                "a backward pass ended with {} of {} buckets sent",
                state.next_bucket,
                state.buckets.len()
            ));
        }
        if self.is_static() && !self.learns_graph(state) && self.should_rebuild(state) {
            state.order.extend(state.unused.iter().copied());
        }
        self.finalize(state)
    }

    /// Ends a pass where the user does that.
    ///
    /// # Errors
    /// `Runtime` when buckets are missing; those of the communication.
    pub fn finalize_backward_manual(&self) -> Result<()> {
        let _mode = GradModeGuard::new(false);
        let mut state = self.lock();
        ensure!(
            state.needs_finalize && state.next_bucket == state.buckets.len(),
            Runtime,
            "finalize_backward() called before all DDP buckets were ready. next_bucket_={}, \
             buckets={}",
            state.next_bucket,
            state.buckets.len()
        );
        self.finish_locked(&mut state)
    }

    /// The first pass over a static graph is over: all buckets are filled and sent now.
    ///
    /// # Errors
    /// Those of the group.
    pub fn delay_all_reduce(&self) -> Result<()> {
        let _mode = GradModeGuard::new(false);
        let mut state = self.lock();
        self.timer.backward_ended();
        self.reduce_used_map(&mut state)?;
        let counts = state.hook_counts.iter().enumerate();
        state.unused = counts.filter(|(_, count)| **count == 0).map(|(index, _)| index).collect();
        state.needs_finalize = true;
        self.set_div_factor(&mut state)?;
        for index in 0..self.params.len() {
            state.ready[index] = true;
            self.take_gradient(&mut state, index)?;
        }
        for number in 0..state.buckets.len() {
            state.buckets[number].missing = 0;
        }
        self.send_full_buckets(&mut state)?;
        if state.manual {
            return Ok(());
        }
        self.finalize(&mut state)
    }

    fn finalize(&self, state: &mut State) -> Result<()> {
        state.expects_gradients = false;
        state.needs_finalize = false;
        for work in std::mem::take(&mut state.installed) {
            work.wait()?;
        }
        for number in 0..state.buckets.len() {
            self.finalize_bucket(state, number)?;
        }
        state.div_factor = None;
        state.forward_work = None;
        self.finalize_used_map(state)?;
        state.static_recorded |= self.is_static();
        self.timer.communication_ended();
        Ok(())
    }

    /// Forgets which parameters were used, but for a static graph, where they stay the same.
    fn finalize_used_map(&self, state: &mut State) -> Result<()> {
        let work = state.used_work.take();
        if self.is_static() {
            if let Some(work) = work {
                state.used = work.wait()?.to_vec::<i32>()?;
            }
        } else if self.searches_graph() {
            if let Some(work) = work {
                work.wait()?;
            }
            state.used.fill(0);
        }
        Ok(())
    }

    fn finalize_bucket(&self, state: &mut State, number: usize) -> Result<()> {
        let Some(work) = state.buckets[number].work.take() else { return Ok(()) };
        let result = work.wait()?;
        if !self.writes_gradients() {
            return Ok(());
        }
        if state.buckets[number].expect_sparse {
            let slot = state.buckets[number].slots[0].variable;
            self.params[slot].set_grad(Some(&result))?;
            return Ok(());
        }
        let bucket = std::mem::replace(&mut state.buckets[number], Bucket::empty());
        let outcome = self.write_gradients(state, &bucket, &result);
        state.buckets[number] = bucket;
        if self.options.lazy_bucket_allocation && !self.options.gradient_as_bucket_view {
            state.buckets[number].flat = None;
            state.buckets[number].views = Vec::new();
        }
        outcome
    }

    fn write_gradients(&self, state: &mut State, bucket: &Bucket, result: &Tensor) -> Result<()> {
        let in_place = bucket.flat.as_ref().is_some_and(|flat| flat.is_alias_of(result));
        let views = if in_place {
            bucket.views.clone()
        } else {
            let total: i64 = bucket.slots.iter().map(|slot| slot.numel).sum();
            ensure!(
                result.numel() == total,
                Runtime,
                "the result of a communication hook has {} elements, but the bucket {total}",
                result.numel()
            );
            views_of(&op::reshape(result, &[total])?, &bucket.slots, &self.params)?
        };
        let tracks_use = self.searches_graph() || self.is_static();
        copies::copy_out(bucket, &views, &self.params, &self.options, |index| {
            if tracks_use { self.is_unused_everywhere(state, index) } else { Ok(false) }
        })
    }
}

impl Bucket {
    /// What stands in a bucket's place while it is worked on.
    fn empty() -> Self {
        Self {
            slots: Vec::new(),
            flat: None,
            views: Vec::new(),
            sparse: None,
            expect_sparse: false,
            missing: 0,
            work: None,
            skipped: false,
        }
    }
}

/// The gradient of a parameter in its sparse layout, divided.
fn sparse_gradient(param: &Tensor, divisor: Option<f64>) -> Result<Tensor> {
    let Some(grad) = param.grad() else {
        return Err(corten_core::Error::new(
            ErrorKind::Runtime,
            "Expected variable to have sparse gradient.".to_owned(),
        ));
    };
    ensure!(grad.layout() == Layout::Sparse, Runtime, "Expected variable to have sparse gradient.");
    let grad = op::detach(&grad)?;
    match divisor {
        Some(divisor) => op::div_scalar(&grad, divisor.into()),
        None => Ok(grad),
    }
}
