//! Blocks that were freed while other streams used them: their events, and when these are asked.

use std::collections::VecDeque;

use corten_core::Result;

use super::blocks::BlockId;
use super::device::DeviceState;
use super::raw::{RawStreams, StreamId};

/// The events that blocks wait for.
pub(super) struct PendingEvents<E> {
    /// Events of a stream complete in their order, so only the first of each stream is asked; one that is not
    /// complete holds up its own stream alone.
    queues: Vec<(StreamId, VecDeque<(E, BlockId)>)>,
    /// Blocks that were freed during a capture: their events are recorded when it is over.
    deferred: Vec<BlockId>,
}

impl<E> Default for PendingEvents<E> {
    fn default() -> Self {
        Self { queues: Vec::new(), deferred: Vec::new() }
    }
}

impl<E> PendingEvents<E> {
    pub(super) fn is_empty(&self) -> bool {
        self.queues.is_empty() && self.deferred.is_empty()
    }

    pub(super) fn push(&mut self, stream: StreamId, event: E, id: BlockId) {
        match self.queues.iter_mut().find(|queue| queue.0 == stream) {
            Some((_, queue)) => queue.push_back((event, id)),
            None => self.queues.push((stream, VecDeque::from([(event, id)]))),
        }
    }

    pub(super) fn defer(&mut self, id: BlockId) {
        self.deferred.push(id);
    }
}

impl<E> DeviceState<E> {
    /// Frees the blocks whose events have completed. Nothing is asked during a capture.
    pub(super) fn poll<R: RawStreams<Event = E>>(&mut self, raw: &R) -> Result<()> {
        if self.pending.is_empty() || raw.is_capturing(self.device) {
            return Ok(());
        }
        self.record_deferred(raw)?;
        let mut index = 0;
        while let Some((_, queue)) = self.pending.queues.get_mut(index) {
            let Some((event, id)) = queue.front() else {
                self.pending.queues.swap_remove(index);
                continue;
            };
            if !raw.query_event(event)? {
                index += 1;
                continue;
            }
            let id = *id;
            queue.pop_front();
            self.complete(id);
        }
        Ok(())
    }

    /// Waits for all events and frees their blocks.
    pub(super) fn synchronize_events<R: RawStreams<Event = E>>(&mut self, raw: &R) -> Result<()> {
        self.stats.num_sync_all_streams += 1;
        self.record_deferred(raw)?;
        while let Some((_, queue)) = self.pending.queues.last_mut() {
            match queue.front() {
                Some((event, id)) => {
                    raw.synchronize_event(event)?;
                    let id = *id;
                    queue.pop_front();
                    self.complete(id);
                }
                None => drop(self.pending.queues.pop()),
            }
        }
        Ok(())
    }

    fn record_deferred<R: RawStreams<Event = E>>(&mut self, raw: &R) -> Result<()> {
        while let Some(&id) = self.pending.deferred.last() {
            while let Some(&stream) = self.blocks[id].stream_uses.last() {
                let event = raw.record_event(self.device, stream)?;
                self.pending.push(stream, event, id);
                let block = &mut self.blocks[id];
                block.event_count += 1;
                block.stream_uses.pop();
            }
            self.pending.deferred.pop();
            if self.blocks[id].event_count == 0 {
                self.finish_free(id);
            }
        }
        Ok(())
    }

    fn complete(&mut self, id: BlockId) {
        let block = &mut self.blocks[id];
        block.event_count = block.event_count.saturating_sub(1);
        if block.is_free() {
            self.finish_free(id);
        }
    }
}
