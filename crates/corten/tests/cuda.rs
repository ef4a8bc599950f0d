//! `Device::cuda(0)` from Rust: on the emulated driver, which is built here.

#![cfg(all(feature = "cuda", target_os = "linux", target_arch = "x86_64"))]

use corten::cuda::{self, CudaGraph, DeviceGuard, Event, Graph, Stream, StreamGuard};
use corten::ops::Conversion;
use corten::prelude::*;
use corten::{ErrorKind, op};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../corten-cuda/emulator");

/// The newest change of files in a folder.
fn changed(folder: &Path) -> Option<std::time::SystemTime> {
    let files = std::fs::read_dir(folder).ok()?.flatten();
    files.filter_map(|file| file.metadata().ok()?.modified().ok()).max()
}

/// The folder of the emulated driver, made again where its sources have changed.
fn emulator() -> Result<PathBuf, String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("emulator");
    let made = std::fs::metadata(folder.join("libnvrtc.so.13")).and_then(|file| file.modified());
    if made.is_ok_and(|made| changed(Path::new(SOURCES)).is_none_or(|source| source < made)) {
        return Ok(folder);
    }
    let built = Command::new("sh").arg(Path::new(SOURCES).join("build.sh")).arg(&folder).status();
    match built {
        Ok(status) if status.success() => Ok(folder),
        _ => Err("no test of CUDA ran: the emulator takes a C++ compiler, g++ or CXX".to_owned()),
    }
}

/// Makes the emulated devices those of this process; `None` where they cannot be had. The guard keeps tests,
/// which count memory and draw random numbers, from running at once.
fn devices() -> Option<MutexGuard<'static, ()>> {
    static READY: OnceLock<bool> = OnceLock::new();
    static ALONE: Mutex<()> = Mutex::new(());
    let guard = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let ready = READY.get_or_init(|| match emulator() {
        Ok(folder) => {
            let folder_of = |name| folder.join(name).into_os_string();
            // SAFETY: every test comes here first and waits for the lock: no other thread reads the environment.
            unsafe {
                std::env::set_var("CORTEN_KERNEL_CACHE", folder_of("loaded"));
                std::env::set_var("CUSIM_CACHE", folder_of("kernels"));
                std::env::set_var("CUSIM_DEVICES", "2");
            }
            cuda::set_library_directories(vec![folder]);
            true
        }
        Err(message) => {
            eprintln!("{message}");
            false
        }
    });
    ready.then_some(guard)
}

fn range(count: i64) -> Result<Tensor> {
    Tensor::from_vec((0..count).map(|i| i as f32).collect(), &[count])
}

#[test]
fn devices_are_counted_and_chosen() -> Result<()> {
    let Some(_alone) = devices() else { return Ok(()) };
    assert!(cuda::is_available());
    assert_eq!(cuda::device_count(), 2);
    assert_eq!(cuda::set_device(1)?, 0);
    assert_eq!(
        range(2)?.to(Device::new(corten::core::DeviceType::Cuda))?.device(),
        Device::cuda(1)
    );
    {
        let _guard = DeviceGuard::new(0)?;
        assert_eq!(cuda::current_device(), 0);
    }
    assert_eq!(cuda::set_device(0)?, 1);
    let error = cuda::set_device(2).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Accelerator);
    assert!(error.message().contains("invalid device ordinal"), "{error}");
    assert!(range(2)?.to(Device::cuda(5)).is_err());
    assert_eq!(cuda::device_properties(0)?.warp_size, 32);
    Ok(())
}

#[test]
fn tensors_move_and_gradients_follow() -> Result<()> {
    let Some(_alone) = devices() else { return Ok(()) };
    let x = range(5)?.requires_grad_(true)?;
    let there = x.to(Device::cuda(0))?;
    assert_eq!((there.device(), there.dtype()), (Device::cuda(0), DType::Float32));
    (&there * &there)?.sum()?.to(Device::CPU)?.backward()?;
    let grad = x.grad().map(|grad| grad.to_vec::<f32>()).transpose()?;
    assert_eq!(grad, Some(vec![0.0, 2.0, 4.0, 6.0, 8.0]));
    let wide = there.detach()?.to((Device::cuda(1), DType::Float64))?;
    assert_eq!((wide.device(), wide.dtype()), (Device::cuda(1), DType::Float64));
    assert_eq!(wide.to(&x)?.to_vec::<f32>()?, [0.0, 1.0, 2.0, 3.0, 4.0]);
    assert!(wide.to(Device::cuda(1))?.is_same(&wide));
    assert!(!wide.to(Conversion::from(Device::cuda(1)).copy())?.is_same(&wide));
    Ok(())
}

#[test]
fn pinned_memory_is_copied_beside_the_hosts_work() -> Result<()> {
    let Some(_alone) = devices() else { return Ok(()) };
    let source = range(6)?.reshape(&[2, 3])?.t()?;
    let pinned = cuda::pin_memory(&source)?;
    assert!(cuda::is_tensor_pinned(&pinned) && !cuda::is_tensor_pinned(&source));
    assert_eq!((pinned.sizes(), pinned.strides()), (source.sizes(), source.strides()));
    assert!(cuda::pin_memory(&pinned)?.is_same(&pinned));
    let there = pinned.to(Conversion::from(Device::cuda(0)).non_blocking())?;
    cuda::synchronize(0)?;
    assert_eq!(there.to(Device::CPU)?.to_vec::<f32>()?, source.to_vec::<f32>()?);
    let error = cuda::pin_memory(&there).unwrap_err();
    assert!(error.message().contains("only dense CPU tensors can be pinned"), "{error}");
    Ok(())
}

#[test]
fn streams_are_ordered_by_events() -> Result<()> {
    let Some(_alone) = devices() else { return Ok(()) };
    let main = Stream::current(0);
    assert_eq!(main, Stream::default_of(0));
    let (low, high) = (Stream::new(0, 0)?, Stream::new(0, -1)?);
    assert_eq!((low.priority()?, high.priority()?), (0, -1));
    assert_eq!(Stream::from_id(0, high.id())?, high);
    let x = range(1000)?.to(Device::cuda(0))?;
    high.wait_stream(main)?;
    let y = {
        let _guard = StreamGuard::new(high);
        assert_eq!(Stream::current(0), high);
        let y = (&x * 2.0)?;
        cuda::record_stream(&x, high)?;
        y
    };
    assert_eq!(Stream::current(0), main);
    main.wait_event(&high.record_event()?)?;
    assert_eq!((&y + 1.0)?.sum()?.to_element::<f32>()?, 1e6);
    let (mut start, mut end) = (Event::new(true), Event::new(true).blocking(true));
    assert!(start.query()?);
    start.record(low)?;
    end.record(low)?;
    end.synchronize()?;
    assert!(start.elapsed_time(&end)? >= 0.0);
    low.synchronize()?;
    assert!(low.query()? && end.query()?);
    let error = start.elapsed_time(&low.record_event()?).unwrap_err();
    assert!(error.message().contains("enable_timing=True"), "{error}");
    Ok(())
}

#[test]
fn memory_is_counted() -> Result<()> {
    let Some(_alone) = devices() else { return Ok(()) };
    cuda::synchronize(0)?;
    cuda::empty_cache()?;
    let before = cuda::memory_allocated(0)?;
    let x = range(1 << 20)?.to(Device::cuda(0))?;
    assert_eq!(cuda::memory_allocated(0)?, before + (4 << 20));
    drop(x);
    assert_eq!(cuda::memory_allocated(0)?, before);
    assert!(cuda::max_memory_allocated(0)? >= before + (4 << 20));
    cuda::reset_peak_memory_stats(0)?;
    assert_eq!(cuda::max_memory_allocated(0)?, before);
    let reserved = cuda::memory_reserved(0)?;
    assert!(reserved >= 4 << 20);
    cuda::empty_cache()?;
    assert!(cuda::memory_reserved(0)? < reserved);
    let (free, total) = cuda::mem_get_info(0)?;
    assert!(free <= total);
    let stats = cuda::memory_stats(0)?;
    assert_eq!(stats["allocated_bytes.all.current"] as u64, before);
    let error = op::zeros(&[1 << 40], None, None, Some(Device::cuda(0)), None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    assert!(
        error.message().starts_with("CUDA out of memory. Tried to allocate 4096.00 GiB"),
        "{error}"
    );
    Ok(())
}

#[test]
fn seeds_repeat_random_numbers() -> Result<()> {
    let Some(_alone) = devices() else { return Ok(()) };
    let draw = || -> Result<Vec<f32>> {
        let made = op::rand(&[8], None, None, Some(Device::cuda(0)), None)?;
        made.to(Device::CPU)?.to_vec::<f32>()
    };
    cuda::manual_seed(7)?;
    let first = draw()?;
    let second = draw()?;
    cuda::manual_seed_all(7);
    assert_eq!(draw()?, first);
    assert_ne!(first, second);
    Ok(())
}

#[test]
fn graphs_replay_what_was_captured() -> Result<()> {
    let Some(_alone) = devices() else { return Ok(()) };
    let x = range(4)?.to(Device::cuda(0))?;
    (&x * 3.0)?;
    let (mut graph, y) = CudaGraph::capture(|| &x * 3.0)?;
    op::copy_(&x, &Tensor::from_vec(vec![5.0f32, 6.0, 7.0, 8.0], &[4])?, false)?;
    graph.replay()?;
    assert_eq!(y.to(Device::CPU)?.to_vec::<f32>()?, [15.0, 18.0, 21.0, 24.0]);
    let error = Graph::new().replay().unwrap_err();
    assert!(error.message().contains("without a preceding successful capture"), "{error}");
    let error = Graph::new().capture_begin(None, cuda::CaptureMode::Global).unwrap_err();
    assert!(error.message().contains("must be captured on a non-default stream"), "{error}");
    let failed = CudaGraph::capture(|| x.sum()?.to_element::<f32>());
    assert!(failed.is_err());
    assert_eq!(Stream::current(0), Stream::default_of(0));
    assert_eq!(x.sum()?.to_element::<f32>()?, 26.0);
    Ok(())
}

/// The losses of some steps of a small network.
fn losses(device: Device) -> Result<Vec<f32>> {
    corten::manual_seed(0);
    let model =
        Sequential::new().with(Linear::new(4, 16)?).with(Gelu::default()).with(Linear::new(16, 3)?);
    for parameter in model.parameters() {
        parameter.set_data(&parameter.detach()?.to(device)?)?;
    }
    let x = op::randn(&[12, 4], None, None, None, None)?.to(device)?;
    let y = Tensor::from_vec((0..12).map(|i| i % 3).collect::<Vec<i64>>(), &[12])?.to(device)?;
    let mut optimizer = AdamW::new(model.parameters(), AdamWOptions::default())?;
    let mut losses = Vec::new();
    for _ in 0..8 {
        let loss = loss::cross_entropy(&model.forward(&x)?, &y)?;
        optimizer.zero_grad()?;
        loss.backward()?;
        optimizer.step()?;
        losses.push(loss.to_element::<f32>()?);
    }
    Ok(losses)
}

#[test]
fn training_gives_the_losses_of_the_cpu() -> Result<()> {
    let Some(_alone) = devices() else { return Ok(()) };
    let (cpu, gpu) = (losses(Device::CPU)?, losses(Device::cuda(0))?);
    assert!(cpu[7] < cpu[0]);
    for (one, other) in cpu.iter().zip(&gpu) {
        assert!((one - other).abs() < 1e-4, "{cpu:?} {gpu:?}");
    }
    Ok(())
}
