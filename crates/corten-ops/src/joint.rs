//! Lists of tensors whose operators a device may run in one launch.

use crate::Tensor;
use corten_core::Result;
use std::sync::OnceLock;

/// How a back end puts off the pointwise operators of a list, to launch them together.
///
/// ```
/// use corten::Result;
/// use corten::ops::JointLaunches;
///
/// /// A back end that puts nothing off.
/// struct AtOnce;
///
/// impl JointLaunches for AtOnce {
///     fn begin(&self) {}
///
///     fn end(&self) -> Result<()> {
///         Ok(())
///     }
/// }
///
/// AtOnce.begin();
/// AtOnce.end()?;
/// # Ok::<(), corten::Error>(())
/// ```
pub trait JointLaunches: Sync {
    /// From here on this thread's operators may be put off.
    fn begin(&self);
    /// Launches what has been put off.
    ///
    /// # Errors
    /// Those of the launch.
    fn end(&self) -> Result<()>;
}

static OF_GPUS: OnceLock<&'static dyn JointLaunches> = OnceLock::new();

/// Says how GPUs launch the operators of a list.
pub fn set_joint_launches(launches: &'static dyn JointLaunches) {
    // The first one stays: there is one back end.
    let _ = OF_GPUS.set(launches);
}

/// Ends what was begun, also when the operators panic.
struct Begun(Option<&'static dyn JointLaunches>);

impl Begun {
    fn end(mut self) -> Result<()> {
        self.0.take().map_or(Ok(()), JointLaunches::end)
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        if let Some(launches) = self.0.take() {
            // A panic is under way, which is the failure that is seen.
            let _ = launches.end();
        }
    }
}

/// Runs operators of the tensors of a list, which a GPU may launch together. What they have been put off
/// for is launched before this returns.
pub(crate) fn jointly<T>(list: &[Tensor], run: impl FnOnce() -> Result<T>) -> Result<T> {
    let on_gpu =
        list.len() > 1 && list.first().is_some_and(|x| x.defined() && x.device().is_cuda());
    let Some(&launches) = OF_GPUS.get().filter(|_| on_gpu) else { return run() };
    launches.begin();
    let begun = Begun(Some(launches));
    let result = run();
    let ended = begun.end();
    result.and_then(|value| ended.map(|()| value))
}
