//! Tensors of GPUs for engines that take the host's memory only, through pinned memory.
//!
//! What is read has been copied to the host when the call starts, so that calls of all ranks keep their order;
//! what is written is copied back on a stream once the call is done, and waiting for the work has the
//! current stream wait for that.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use corten_core::geometry::contiguous_strides;
use corten_core::{KeySet, TensorBase};
use corten_cuda::{Event, Stream, StreamGuard, pinned_storage};
use corten_ops::{Tensor, op};

use crate::dense::{StandIns, mapped};
use crate::engine::Call;
use crate::error::Result;
use crate::reduce_op::{Factor, ReduceOp};
use crate::work::{Driver, Work};

/// What becomes of a call's tensors on GPUs.
pub(crate) struct Staged {
    /// Copies when the call is done: to the device, from the host.
    back: Vec<(Tensor, Tensor)>,
    /// A stream of each device that takes part.
    streams: Vec<Stream>,
    outputs: Vec<Tensor>,
}

impl Staged {
    /// The call on the host's memory; nothing else where none of its tensors is on a GPU.
    ///
    /// # Errors
    /// Those of CUDA, and `OutOfMemory` without pinned memory.
    pub(crate) fn of(call: Call) -> Result<(Call, Option<Self>)> {
        let outputs = call.outputs();
        let mut staged = Self { back: Vec::new(), streams: Vec::new(), outputs };
        let call = mapped(call, &mut staged)?;
        if staged.streams.is_empty() {
            return Ok((call, None));
        }
        for stream in &staged.streams {
            stream.record_event()?.synchronize()?;
        }
        Ok((call, Some(staged)))
    }

    /// The work that is done when the results of `inner` are on their way to the devices.
    pub(crate) fn follow(self, inner: &Work) -> Arc<Work> {
        let ends = Arc::new(Mutex::new(Vec::new()));
        let driver = Box::new(OnDevices(ends.clone()));
        let outer = Work::driven(inner.name(), self.outputs.clone(), driver);
        let result = outer.clone();
        inner.on_end(move |inner| {
            if let Ok(source) = inner.source_rank() {
                outer.set_source_rank(source);
            }
            let copied = match inner.raw_error() {
                Some(error) => Err(error),
                None => self.copy_back(),
            };
            outer.finish(copied.map(|events| {
                *ends.lock().unwrap_or_else(PoisonError::into_inner) = events;
            }));
        });
        result
    }

    fn copy_back(&self) -> Result<Vec<Event>> {
        let mut events = Vec::new();
        for stream in &self.streams {
            let _guard = StreamGuard::new(*stream);
            for (tensor, copy) in &self.back {
                if tensor.device().index == stream.device() {
                    op::copy_(tensor, copy, true)?;
                    corten_cuda::record_stream(tensor, *stream)?;
                }
            }
            events.push(stream.record_event()?);
        }
        Ok(events)
    }

    /// The stream of a device, which waits for what the caller has given to the device until now.
    fn stream(&mut self, device: i8) -> Result<Stream> {
        if let Some(stream) = self.streams.iter().find(|stream| stream.device() == device) {
            return Ok(*stream);
        }
        let stream = Stream::new(device, 0)?;
        stream.wait_stream(Stream::current(device))?;
        self.streams.push(stream);
        Ok(stream)
    }

    /// Pinned memory for a tensor, with what it holds or with anything.
    fn pinned(&mut self, tensor: &Tensor, is_copied: bool) -> Result<Tensor> {
        let (sizes, storage) = (tensor.sizes(), pinned_storage(tensor.nbytes())?);
        let strides = contiguous_strides(&sizes)?;
        let (device, dtype) = (storage.device().device_type, tensor.dtype());
        let keys = KeySet::for_tensor(device, tensor.layout(), dtype);
        let base = TensorBase::new_with_storage(storage, dtype, keys, &sizes, &strides, 0)?;
        let pinned = Tensor::from(base);
        let stream = self.stream(tensor.device().index)?;
        if is_copied {
            let _guard = StreamGuard::new(stream);
            op::copy_(&pinned, &op::detach(tensor)?, true)?;
            corten_cuda::record_stream(tensor, stream)?;
        }
        Ok(pinned)
    }

    fn written(&mut self, tensor: &Tensor, is_copied: bool) -> Result<Tensor> {
        if !tensor.device().is_cuda() {
            return Ok(tensor.clone());
        }
        let pinned = self.pinned(tensor, is_copied)?;
        self.back.push((op::detach(tensor)?, pinned.clone()));
        Ok(pinned)
    }
}

impl StandIns for Staged {
    fn read(&mut self, tensor: &Tensor) -> Result<Tensor> {
        match tensor.device().is_cuda() {
            true => self.pinned(tensor, true),
            false => Ok(tensor.clone()),
        }
    }

    fn write(&mut self, tensor: &Tensor) -> Result<Tensor> {
        self.written(tensor, false)
    }

    fn update(&mut self, tensor: &Tensor) -> Result<Tensor> {
        self.written(tensor, true)
    }

    fn operation(&mut self, op: ReduceOp) -> Result<ReduceOp> {
        Ok(match op {
            ReduceOp::PremulSum(Factor::Tensor(factor)) if factor.device().is_cuda() => {
                ReduceOp::PremulSum(Factor::Number(op::item(&factor)?.to_f64()))
            }
            other => other,
        })
    }
}

/// The events after which the results are on the devices; none before the call is done.
struct OnDevices(Arc<Mutex<Vec<Event>>>);

impl Driver for OnDevices {
    fn wait(&self, work: &Work, timeout: Option<Duration>) -> Result<()> {
        work.wait_for_end(timeout)?;
        for event in &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            if let Some(device) = event.device() {
                Stream::current(device).wait_event(event)?;
            }
        }
        Ok(())
    }

    fn is_completed(&self, _work: &Work) -> bool {
        // The work itself knows.
        false
    }
}
