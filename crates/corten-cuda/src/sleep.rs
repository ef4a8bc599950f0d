//! Work that only takes time, for tests of order between streams.

use crate::kernel::{Argument, Template, parameters};
use crate::launch::Shape;
use crate::stream::Stream;
use crate::text;
use corten_core::Result;

static SLEEP: Template = Template { name: "sleep_cycles", text: &[text::SLEEP] };

/// Keeps the current stream of the current device busy for a number of clock cycles.
///
/// # Errors
/// Those of compiling and of the driver.
pub fn sleep(cycles: i64) -> Result<()> {
    let mut cycles = cycles;
    let shape = Shape { grid: [1; 3], block: [1; 3], shared: 0 };
    // SAFETY: the kernel touches no memory.
    unsafe { SLEEP.launch(&[Argument::Number(0)], shape, Stream::current(-1), parameters!(cycles)) }
}
