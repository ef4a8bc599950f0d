//! Calls between two threads: what is sent is copied at once and waits for who receives it.

use std::sync::Arc;

use corten_ops::Tensor;

use super::ThreadWorld;
use crate::engine::Call;
use crate::error::DistError;
use crate::memory::{copy_bytes, copy_of};
use crate::work::Work;

/// What was sent and not received yet, and what is to be received.
#[derive(Default)]
pub(super) struct Mailbox {
    sent: Vec<Sent>,
    wanted: Vec<Wanted>,
}

struct Sent {
    from: usize,
    to: usize,
    tag: i32,
    copy: Tensor,
}

struct Wanted {
    from: Option<usize>,
    to: usize,
    tag: i32,
    tensor: Tensor,
    work: Arc<Work>,
}

impl Sent {
    fn fits(&self, wanted: &Wanted) -> bool {
        self.to == wanted.to
            && self.tag == wanted.tag
            && wanted.from.is_none_or(|from| from == self.from)
    }
}

impl Wanted {
    fn take(self, sent: &Sent) {
        let (want, got) = (self.tensor.dtype(), sent.copy.dtype());
        if want != got || self.tensor.numel() != sent.copy.numel() {
            let (want_count, got_count) = (self.tensor.numel(), sent.copy.numel());
            self.work.fail(DistError::runtime(format!(
                "recv: rank {} expects {want_count} elements of {want} and rank {} sent {got_count} \
                 of {got}",
                self.to, sent.from
            )));
            return;
        }
        self.work.set_source_rank(sent.from);
        self.work.finish(copy_bytes(&self.tensor, &sent.copy));
    }
}

impl Mailbox {
    /// The works that wait, which are forgotten.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Arc<Work>> + use<> {
        self.sent.clear();
        std::mem::take(&mut self.wanted).into_iter().map(|wanted| wanted.work)
    }
}

impl ThreadWorld {
    /// Sends or receives for a rank.
    pub(super) fn post(&self, rank: usize, call: Call, work: &Arc<Work>) {
        let work = work.clone();
        match call {
            Call::Send { tensor, to, tag } => match copy_of(&tensor) {
                Ok(copy) => self.send(Sent { from: rank, to, tag, copy }, &work),
                Err(error) => work.fail(error),
            },
            Call::Recv { tensor, from, tag } => {
                self.receive(Wanted { from: Some(from), to: rank, tag, tensor, work });
            }
            Call::RecvAny { tensor, tag } => {
                self.receive(Wanted { from: None, to: rank, tag, tensor, work });
            }
            other => {
                let message = format!("{} is no call between two ranks", other.name());
                work.fail(DistError::runtime(message));
            }
        }
    }

    fn send(&self, sent: Sent, work: &Work) {
        let wanted = {
            let mut state = self.state();
            if let Some(reason) = &state.aborted {
                work.fail(DistError::backend(reason.clone()));
                return;
            }
            let wanted = &mut state.mailbox.wanted;
            match wanted.iter().position(|wanted| sent.fits(wanted)) {
                Some(index) => Some((wanted.remove(index), sent)),
                None => {
                    state.mailbox.sent.push(sent);
                    None
                }
            }
        };
        work.complete();
        if let Some((wanted, sent)) = wanted {
            wanted.take(&sent);
        }
    }

    fn receive(&self, wanted: Wanted) {
        let found = {
            let mut state = self.state();
            if let Some(reason) = &state.aborted {
                wanted.work.fail(DistError::backend(reason.clone()));
                return;
            }
            let sent = &mut state.mailbox.sent;
            match sent.iter().position(|sent| sent.fits(&wanted)) {
                Some(index) => (wanted, sent.remove(index)),
                None => {
                    state.mailbox.wanted.push(wanted);
                    return;
                }
            }
        };
        found.0.take(&found.1);
    }
}
