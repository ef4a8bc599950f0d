//! Marks for the profiler: events with times.

use crate::driver_memory::is_capturing;
use crate::event::Event;
use crate::stream::Stream;
use corten_ops::profiler::DeviceMark;
use std::any::Any;

struct Mark {
    event: Event,
    stream: Stream,
}

impl DeviceMark for Mark {
    fn stream(&self) -> (i8, u16) {
        (self.stream.device(), self.stream.number())
    }

    fn nanoseconds_since(&self, earlier: &dyn DeviceMark) -> Option<i64> {
        let earlier = earlier.as_any().downcast_ref::<Self>()?;
        self.event.wait().ok()?;
        earlier.event.wait().ok()?;
        let milliseconds = earlier.event.elapsed_time(&self.event).ok()?;
        Some((f64::from(milliseconds) * 1e6) as i64)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Marks the present place in the current stream of a device, unless the stream's work is recorded.
pub(crate) fn mark(device: Option<i8>) -> Option<Box<dyn DeviceMark>> {
    if !crate::is_initialized() || crate::is_in_bad_fork() {
        return None;
    }
    let stream = Stream::current(device.unwrap_or(-1));
    if is_capturing(stream.device()) {
        return None;
    }
    let mut event = Event::new(true);
    event.mark(stream).ok()?;
    Some(Box::new(Mark { event, stream }))
}
