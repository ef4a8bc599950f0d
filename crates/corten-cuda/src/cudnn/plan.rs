//! Descriptors and algorithms of convolutions, kept by shape.

use super::{CudnnSettings, cudnn_settings};
use crate::device::{MOST_DEVICES, bound};
use crate::driver::cudnn_table::{
    Library, NOT_SUPPORTED, Performance, cudnn, data_type, determinism, format, math, mode,
};
use crate::driver::{Handle, RelaxedCapture, driver};
use crate::operands::{Operands, empty};
use crate::stream::Stream;
use corten_core::{Access, DType, Result};
use corten_ops::Tensor;
use smallvec::SmallVec;
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, PoisonError};

/// The operand that is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Role {
    /// The output, from the image and the weight.
    Output,
    /// The image, from the output and the weight.
    Image,
    /// The weight, from the image and the output.
    Weight,
}

/// A convolution: the tensors, of which `role` says the one that is computed, and its numbers. All three lie
/// in NCHW order, or all in NHWC order.
pub(crate) struct Convolution<'a> {
    pub(crate) role: Role,
    pub(crate) image: &'a Tensor,
    pub(crate) weight: &'a Tensor,
    pub(crate) output: &'a Tensor,
    pub(crate) stride: &'a [i64],
    pub(crate) padding: &'a [i64],
    pub(crate) dilation: &'a [i64],
    pub(crate) groups: i64,
    pub(crate) channels_last: bool,
}

type Numbers = SmallVec<[c_int; 8]>;

/// What tells one plan from all others.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    device: i8,
    role: Role,
    dtype: DType,
    settings: CudnnSettings,
    channels_last: bool,
    groups: c_int,
    sizes: [Numbers; 3],
    /// Strides, paddings and dilations.
    lists: [Numbers; 3],
}

/// More plans than this are not kept.
const KEPT_PLANS: usize = 1024;
/// Algorithms that the library is asked for.
const ASKED: usize = 10;
/// Bytes that algorithms may work in while they are timed.
const MOST_WORKSPACE: usize = 1 << 30;

/// Descriptors and the algorithm.
struct Plan {
    image: Handle,
    weight: Handle,
    output: Handle,
    convolution: Handle,
    algorithm: c_int,
    workspace: usize,
}

impl Drop for Plan {
    fn drop(&mut self) {
        let Ok(Library { table, .. }) = cudnn() else { return };
        // SAFETY: the descriptors are this plan's and are used no more; a null one was not made.
        unsafe {
            for tensor in [self.image, self.output].into_iter().filter(|&one| one != Handle::NULL) {
                (table.cudnnDestroyTensorDescriptor)(tensor);
            }
            if self.weight != Handle::NULL {
                (table.cudnnDestroyFilterDescriptor)(self.weight);
            }
            if self.convolution != Handle::NULL {
                (table.cudnnDestroyConvolutionDescriptor)(self.convolution);
            }
        }
    }
}

/// Plans by key; `None` where the library has no algorithm.
static PLANS: Mutex<Option<HashMap<Key, Option<Arc<Plan>>>>> = Mutex::new(None);

/// The library's contexts, one per device; a context serves one thread at a time.
static CONTEXTS: [Mutex<Option<Handle>>; MOST_DEVICES] = [const { Mutex::new(None) }; MOST_DEVICES];

/// A status, or none where the library does not support what it was asked.
fn supported(library: &Library, status: i32) -> Result<bool> {
    match status {
        0 => Ok(true),
        _ if status / 1000 == NOT_SUPPORTED / 1000 => Ok(false),
        _ => library.check(status).map(|()| true),
    }
}

/// Sizes for at least two spatial dimensions.
fn widened(list: &[i64], spatial: usize, filler: c_int) -> Option<Numbers> {
    let mut numbers: Numbers = list
        .iter()
        .map(|&number| c_int::try_from(number))
        .collect::<std::result::Result<_, _>>()
        .ok()?;
    if spatial == 1 {
        numbers.insert(numbers.len() - 1, filler);
    }
    Some(numbers)
}

/// One number for each spatial dimension.
fn spread(list: &[i64], spatial: usize, filler: c_int) -> Option<Numbers> {
    let each: SmallVec<[i64; 4]> =
        (0..spatial).map(|axis| list[if list.len() == 1 { 0 } else { axis }]).collect();
    widened(&each, spatial, filler)
}

impl Key {
    /// The key of a convolution that the library may have; `None` for one that it has not.
    fn of(wanted: &Convolution<'_>, settings: CudnnSettings) -> Option<Self> {
        let dtype = wanted.image.dtype();
        let floating =
            matches!(dtype, DType::Float32 | DType::Float64 | DType::Float16 | DType::BFloat16);
        let tensors = [wanted.image, wanted.weight, wanted.output];
        let fits = tensors
            .iter()
            .all(|tensor| tensor.dtype() == dtype && (1..1 << 31).contains(&tensor.numel()));
        let spatial = wanted.image.dim() - 2;
        if !floating || !fits || !(1..=3).contains(&spatial) {
            return None;
        }
        let sizes = |tensor: &Tensor| widened(&tensor.sizes(), spatial, 1);
        Some(Self {
            device: wanted.image.device().index,
            role: wanted.role,
            dtype,
            settings,
            channels_last: wanted.channels_last,
            groups: c_int::try_from(wanted.groups).ok()?,
            sizes: [sizes(wanted.image)?, sizes(wanted.weight)?, sizes(wanted.output)?],
            lists: [
                spread(wanted.stride, spatial, 1)?,
                spread(wanted.padding, spatial, 0)?,
                spread(wanted.dilation, spatial, 1)?,
            ],
        })
    }

    fn data_type(&self) -> c_int {
        match self.dtype {
            DType::Float64 => data_type::DOUBLE,
            DType::Float16 => data_type::HALF,
            DType::BFloat16 => data_type::BFLOAT16,
            _ => data_type::FLOAT,
        }
    }

    fn math(&self) -> c_int {
        match self.dtype {
            DType::Float16 | DType::BFloat16 => math::TENSOR_OP_MATH,
            DType::Float32 if !self.settings.allow_tf32 => math::FMA_MATH,
            _ => math::DEFAULT_MATH,
        }
    }

    /// The strides of a dense tensor.
    fn strides(&self, sizes: &[c_int]) -> Numbers {
        let mut strides: Numbers = sizes.into();
        let mut next = 1_i32;
        let inner_first = (2..sizes.len()).rev();
        let order: SmallVec<[usize; 8]> = match self.channels_last {
            true => std::iter::once(1).chain(inner_first).chain([0]).collect(),
            false => inner_first.chain([1, 0]).collect(),
        };
        for dim in order {
            strides[dim] = next;
            next = next.saturating_mul(sizes[dim].max(1));
        }
        strides
    }
}

/// Computes an operand by cuDNN; false where it is absent, turned off, or has no algorithm.
///
/// # Errors
/// `Runtime` where the library fails.
pub(crate) fn convolve(wanted: &Convolution<'_>) -> Result<bool> {
    let mut settings = cudnn_settings();
    if !settings.enabled {
        return Ok(false);
    }
    let Ok(library) = cudnn() else { return Ok(false) };
    let stream = Stream::current(wanted.image.device().index);
    // Timing waits for the device, which a capture cannot contain.
    settings.benchmark = settings.benchmark && !stream.is_capturing()?;
    let Some(key) = Key::of(wanted, settings) else { return Ok(false) };
    bound(key.device)?;
    let context = &CONTEXTS[key.device as usize];
    let mut context = context.lock().unwrap_or_else(PoisonError::into_inner);
    let handle = started(library, &mut context, stream)?;
    let held = hold(wanted)?;
    let run = Run { library, handle, held: &held, key: &key, like: wanted.image };
    let known = {
        let plans = PLANS.lock().unwrap_or_else(PoisonError::into_inner);
        plans.as_ref().and_then(|plans| plans.get(&key).cloned())
    };
    let plan = match known {
        Some(plan) => plan,
        None => {
            let plan = run.made()?.map(Arc::new);
            keep(&key, plan.clone());
            plan
        }
    };
    let Some(plan) = plan else { return Ok(false) };
    let done = run.compute(&plan)?;
    if !done {
        keep(&key, None);
    }
    Ok(done)
}

fn keep(key: &Key, plan: Option<Arc<Plan>>) {
    let mut plans = PLANS.lock().unwrap_or_else(PoisonError::into_inner);
    let plans = plans.get_or_insert_default();
    if plans.len() >= KEPT_PLANS {
        plans.clear();
    }
    plans.insert(key.clone(), plan);
}

fn started(library: &Library, context: &mut Option<Handle>, stream: Stream) -> Result<Handle> {
    let table = &library.table;
    let handle = match *context {
        Some(handle) => handle,
        None => {
            let _relaxed = RelaxedCapture::new(driver()?);
            let mut handle = Handle::NULL;
            // SAFETY: the library writes a handle; the device's context is current.
            library.check(unsafe { (table.cudnnCreate)(&mut handle) })?;
            *context.insert(handle)
        }
    };
    // SAFETY: the handle and the stream are those of one device.
    library.check(unsafe { (table.cudnnSetStream)(handle, stream.handle()) })?;
    Ok(handle)
}

fn hold<'a>(wanted: &Convolution<'a>) -> Result<Operands<'a>> {
    let access = |role| if wanted.role == role { Access::Write } else { Access::Read };
    Operands::hold(&[
        (wanted.image, access(Role::Image)),
        (wanted.weight, access(Role::Weight)),
        (wanted.output, access(Role::Output)),
    ])
}

/// A call of the library on one device's context.
struct Run<'a, 'b> {
    library: &'a Library,
    handle: Handle,
    held: &'a Operands<'b>,
    key: &'a Key,
    like: &'a Tensor,
}

impl Run<'_, '_> {
    /// The plan of the key; `None` where the library has no algorithm.
    fn made(&self) -> Result<Option<Plan>> {
        let _relaxed = RelaxedCapture::new(driver()?);
        let mut plan = Plan {
            image: Handle::NULL,
            weight: Handle::NULL,
            output: Handle::NULL,
            convolution: Handle::NULL,
            algorithm: 0,
            workspace: 0,
        };
        if !self.describe(&mut plan)? || !self.choose(&mut plan)? {
            return Ok(None);
        }
        Ok(Some(plan))
    }

    /// Makes the descriptors.
    fn describe(&self, plan: &mut Plan) -> Result<bool> {
        let (table, key) = (&self.library.table, self.key);
        let [image, weight, output] = &key.sizes;
        let [stride, padding, dilation] = &key.lists;
        let (dims, dtype) = (image.len() as c_int, key.data_type());
        let layout = match key.channels_last {
            true => format::TENSOR_NHWC,
            false => format::TENSOR_NCHW,
        };
        let computed = if dtype == data_type::DOUBLE { dtype } else { data_type::FLOAT };
        // SAFETY: the library writes handles, and reads as many numbers as there are dimensions.
        unsafe {
            for (place, sizes) in [(&mut plan.image, image), (&mut plan.output, output)] {
                self.library.check((table.cudnnCreateTensorDescriptor)(place))?;
                let strides = key.strides(sizes);
                let status = (table.cudnnSetTensorNdDescriptor)(
                    *place,
                    dtype,
                    dims,
                    sizes.as_ptr(),
                    strides.as_ptr(),
                );
                if !supported(self.library, status)? {
                    return Ok(false);
                }
            }
            self.library.check((table.cudnnCreateFilterDescriptor)(&mut plan.weight))?;
            let sizes = weight.as_ptr();
            let status =
                (table.cudnnSetFilterNdDescriptor)(plan.weight, dtype, layout, dims, sizes);
            if !supported(self.library, status)? {
                return Ok(false);
            }
            self.library.check((table.cudnnCreateConvolutionDescriptor)(&mut plan.convolution))?;
            let status = (table.cudnnSetConvolutionNdDescriptor)(
                plan.convolution,
                dims - 2,
                padding.as_ptr(),
                stride.as_ptr(),
                dilation.as_ptr(),
                mode::CROSS_CORRELATION,
                computed,
            );
            if !supported(self.library, status)? {
                return Ok(false);
            }
            let status = (table.cudnnSetConvolutionGroupCount)(plan.convolution, key.groups);
            self.library.check(status)?;
            let status = (table.cudnnSetConvolutionMathType)(plan.convolution, key.math());
            supported(self.library, status)
        }
    }

    /// The descriptors in the order in which the functions of a role take them.
    fn descriptors(&self, plan: &Plan) -> [Handle; 4] {
        match self.key.role {
            Role::Output => [plan.image, plan.weight, plan.convolution, plan.output],
            Role::Image => [plan.weight, plan.output, plan.convolution, plan.image],
            Role::Weight => [plan.image, plan.output, plan.convolution, plan.weight],
        }
    }

    /// The addresses of what is read and of what is written, in the same order.
    fn addresses(&self) -> ([*const c_void; 2], *mut c_void) {
        let [image, weight, output] = [0, 1, 2].map(|place| self.held.at(place).cast::<c_void>());
        match self.key.role {
            Role::Output => ([image, weight], output),
            Role::Image => ([weight, output], image),
            Role::Weight => ([image, output], weight),
        }
    }

    /// Finds the algorithm and how many bytes it works in.
    fn choose(&self, plan: &mut Plan) -> Result<bool> {
        let table = &self.library.table;
        let [first, second, convolution, result] = self.descriptors(plan);
        let (ask, size_of) = match self.key.role {
            Role::Output => (
                table.cudnnGetConvolutionForwardAlgorithm_v7,
                table.cudnnGetConvolutionForwardWorkspaceSize,
            ),
            Role::Image => (
                table.cudnnGetConvolutionBackwardDataAlgorithm_v7,
                table.cudnnGetConvolutionBackwardDataWorkspaceSize,
            ),
            Role::Weight => (
                table.cudnnGetConvolutionBackwardFilterAlgorithm_v7,
                table.cudnnGetConvolutionBackwardFilterWorkspaceSize,
            ),
        };
        let (mut found, mut count) = ([Performance::default(); ASKED], 0);
        let (handle, asked, to) = (self.handle, ASKED as c_int, found.as_mut_ptr());
        // SAFETY: the descriptors are made; the library writes at most as many results as it is asked for.
        let status =
            unsafe { ask(handle, first, second, convolution, result, asked, &mut count, to) };
        if !supported(self.library, status)? {
            return Ok(false);
        }
        let mut listed = found[..(count.max(0) as usize).min(ASKED)].to_vec();
        if self.key.settings.benchmark
            && let Some(timed) = self.timed(plan, &listed)?
        {
            listed = timed;
        }
        let wanted = |one: &&Performance| {
            let repeats = one.determinism == determinism::DETERMINISTIC;
            one.status == 0 && (repeats || !self.key.settings.deterministic)
        };
        let Some(chosen) = listed.iter().find(wanted) else { return Ok(false) };
        let exact = self.key.math() == math::FMA_MATH;
        let kept = if exact { math::FMA_MATH } else { chosen.math };
        // SAFETY: as above; the library writes one size.
        let status = unsafe {
            self.library.check((table.cudnnSetConvolutionMathType)(convolution, kept))?;
            let bytes = &mut plan.workspace;
            size_of(handle, first, second, convolution, result, chosen.algorithm, bytes)
        };
        plan.algorithm = chosen.algorithm;
        supported(self.library, status)
    }

    /// The algorithms by the time that they take; the result is overwritten.
    fn timed(&self, plan: &Plan, listed: &[Performance]) -> Result<Option<Vec<Performance>>> {
        let table = &self.library.table;
        let find = match self.key.role {
            Role::Output => table.cudnnFindConvolutionForwardAlgorithmEx,
            Role::Image => table.cudnnFindConvolutionBackwardDataAlgorithmEx,
            Role::Weight => table.cudnnFindConvolutionBackwardFilterAlgorithmEx,
        };
        let usable = listed.iter().filter(|one| one.status == 0).map(|one| one.memory);
        let bytes = usable.filter(|&bytes| bytes <= MOST_WORKSPACE).max().unwrap_or(0);
        let room = empty(&[bytes as i64], DType::UInt8, self.like)?;
        let workspace = Operands::hold(&[(&room, Access::Write)])?;
        let [first, second, convolution, result] = self.descriptors(plan);
        let ([one, other], to) = self.addresses();
        let (mut found, mut count) = ([Performance::default(); ASKED], 0);
        // SAFETY: the descriptors tell the sizes of the tensors, which are held, as is the workspace.
        let status = unsafe {
            find(
                self.handle,
                first,
                one,
                second,
                other,
                convolution,
                result,
                to,
                ASKED as c_int,
                &mut count,
                found.as_mut_ptr(),
                workspace.at(0).cast(),
                bytes,
            )
        };
        drop(workspace);
        Ok(match supported(self.library, status)? {
            true => Some(found[..(count.max(0) as usize).min(ASKED)].to_vec()),
            false => None,
        })
    }

    /// Puts the convolution into the stream; false where the library refuses it.
    fn compute(&self, plan: &Plan) -> Result<bool> {
        let table = &self.library.table;
        let compute = match self.key.role {
            Role::Output => table.cudnnConvolutionForward,
            Role::Image => table.cudnnConvolutionBackwardData,
            Role::Weight => table.cudnnConvolutionBackwardFilter,
        };
        let room = empty(&[plan.workspace as i64], DType::UInt8, self.like)?;
        let workspace = Operands::hold(&[(&room, Access::Write)])?;
        let [first, second, convolution, result] = self.descriptors(plan);
        let ([one, other], to) = self.addresses();
        let (single, double) = ([1.0_f32, 0.0], [1.0_f64, 0.0]);
        let wide = self.key.dtype == DType::Float64;
        let factor = |place: usize| match wide {
            true => std::ptr::from_ref(&double[place]).cast::<c_void>(),
            false => std::ptr::from_ref(&single[place]).cast::<c_void>(),
        };
        // SAFETY: the descriptors tell the sizes of the tensors, which are held, as is the workspace; the
        // factors are read during the call.
        let status = unsafe {
            compute(
                self.handle,
                factor(0),
                first,
                one,
                second,
                other,
                convolution,
                plan.algorithm,
                workspace.at(0).cast(),
                plan.workspace,
                factor(1),
                result,
                to,
            )
        };
        drop(workspace);
        supported(self.library, status)
    }
}
