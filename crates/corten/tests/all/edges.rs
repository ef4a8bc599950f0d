//! Modules, optimizers, loaders and files where programs go wrong: empty, contradictory and foreign input gives a clear
//! error or PyTorch's numbers, never a panic, a lost gradient or a silent default.
#![allow(clippy::unwrap_used)] // tests may

use corten::data::*;
use corten::io::{Value, torch};
use corten::nn::optim::lr_scheduler::{LinearLR, LrScheduler, SequentialLR, StepLR};
use corten::nn::optim::{
    Asgd, AsgdOptions, GradScaler, GradScalerOptions, OptimizerState, ParamGroup,
};
use corten::nn::*;
use corten::prelude::*;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn message<T>(result: Result<T>) -> String {
    result.err().map(|error| error.message().to_owned()).unwrap_or_default()
}

fn leaf(values: &[f32]) -> Tensor {
    let tensor = Tensor::from_slice(values, &[values.len() as i64]).unwrap();
    tensor.requires_grad_(true).unwrap()
}

fn sgd(parameter: &Tensor) -> Sgd {
    Sgd::new([parameter.clone()], SgdOptions { lr: 0.5, ..Default::default() }).unwrap()
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("corten-edges-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

#[test]
fn a_parameter_is_a_leaf_whatever_it_is_made_of() -> Result<()> {
    let source = leaf(&[1.0, 2.0]);
    let parameter = Parameter::new((&source * 2.0)?)?;
    assert!(parameter.is_leaf() && parameter.requires_grad());
    parameter.sum()?.backward()?;
    assert_eq!(parameter.grad().unwrap().to_vec::<f32>()?, [1.0, 1.0]);
    assert!(source.grad().is_none());
    sgd(&parameter).step()?;
    assert_eq!(parameter.to_vec::<f32>()?, [1.5, 3.5]);
    Ok(())
}

#[derive(Module)]
struct Mixed {
    real: Parameter,
    complex: Parameter,
    count: Buffer,
}

#[test]
fn casts_by_name_leave_complex_parameters_and_integers() -> Result<()> {
    let complex = Tensor::ones([2])?.to(DType::Complex64)?;
    let net = Mixed {
        real: Parameter::new(Tensor::ones([2])?)?,
        complex: Parameter::new(complex)?,
        count: Buffer::new(tensor![3]?),
    };
    net.real.sum()?.backward()?;
    net.double()?;
    let dtypes = [net.real.dtype(), net.complex.dtype(), net.count.dtype()];
    assert_eq!(dtypes, [DType::Float64, DType::Complex64, DType::Int64]);
    assert_eq!(net.real.grad().unwrap().dtype(), DType::Float64);
    net.to_dtype(DType::Complex128)?;
    assert_eq!(net.complex.dtype(), DType::Complex128);
    Ok(())
}

#[test]
fn names_of_a_sequence_are_unique() -> Result<()> {
    let net = Sequential::new().with_named("1", Linear::new(2, 3)?).with(Linear::new(3, 4)?);
    let names: Vec<String> = net.named_children().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["1", "2"]);
    let net = net.with_named("1", Linear::new(2, 3)?);
    assert_eq!(net.len(), 2);
    Ok(())
}

#[test]
fn hooks_of_layers_run_under_masks() -> Result<()> {
    let layer = TransformerEncoderLayer::new(4, 2)?;
    let encoder = TransformerEncoder::new(&layer, 2, None)?;
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    encoder.hooks_of("layers.1")?.register_forward(move |_, _| {
        counted.fetch_add(1, Ordering::Relaxed);
        Ok(None)
    });
    let x = Tensor::ones([3, 1, 4])?;
    encoder.forward(&x)?;
    encoder.forward_masked(&x, AttentionMasks { is_causal: true, ..Default::default() })?;
    assert_eq!(calls.load(Ordering::Relaxed), 2);
    Ok(())
}

#[test]
fn recurrent_networks_refuse_what_does_not_fit() -> Result<()> {
    let x = Tensor::ones([3])?;
    assert!(message(pack_padded_sequence(&x, &[], false, true)).contains("must have 2 dimensions"));
    let cell = LstmCell::new(2, 2)?;
    let (sample, square) = (Tensor::ones([2])?, Tensor::ones([2, 2])?);
    let refused = message(cell.forward(&sample, Some((&square, &square))));
    assert_eq!(refused, "LSTMCell: Expected hidden to be 1D as the input is, got 2D instead");
    let rising = PackedSequence {
        data: Tensor::ones([3, 2])?,
        batch_sizes: vec![1, 2],
        sorted_indices: None,
        unsorted_indices: None,
    };
    let refused = message(Gru::new(2, 2)?.forward_packed(&rising, None));
    assert!(refused.starts_with("batch_sizes of a packed sequence"), "{refused}");
    let bags = Tensor::zeros([2, 0])?.to(DType::Int64)?;
    assert!(message(EmbeddingBag::new(3, 2)?.forward(&bags)).contains("must have a width"));
    Ok(())
}

#[test]
fn norms_of_gradients_are_of_any_order() -> Result<()> {
    let (a, b) = (leaf(&[0.0]), leaf(&[0.0, 0.0]));
    let set = |a_grad: f32, b_grad: [f32; 2]| -> Result<()> {
        a.set_grad(Some(&tensor![a_grad]?))?;
        b.set_grad(Some(&Tensor::from_slice(&b_grad, &[2])?))
    };
    let parameters = [a.clone(), leaf(&[1.0]), b.clone()];
    for (norm_type, expected) in [(1.0, 15.0), (2.0, 9.0), (f64::INFINITY, 8.0)] {
        set(3.0, [4.0, -8.0])?;
        let options = ClipGradOptions { norm_type, ..Default::default() };
        let norm = clip_grad_norm_with(&parameters, 0.5, options)?.to_element::<f64>()?;
        assert!((norm - if norm_type == 2.0 { 89f64.sqrt() } else { expected }).abs() < 1e-5);
        let left = total_norm(&[a.grad().unwrap(), b.grad().unwrap()], options)?;
        assert!((left.to_element::<f64>()? - 0.5).abs() < 1e-4);
    }
    set(f32::NAN, [1.0, 1.0])?;
    let options = ClipGradOptions { error_if_nonfinite: true, ..Default::default() };
    let refused = message(clip_grad_norm_with(&parameters, 1.0, options));
    assert!(refused.starts_with("The total norm of order 2.0 for gradients"), "{refused}");
    assert_eq!(clip_grad_norm_(&[], 1.0)?.to_element::<f32>()?, 0.0);
    Ok(())
}

#[test]
fn one_scaler_serves_several_optimizers() -> Result<()> {
    let (a, b) = (leaf(&[1.0]), leaf(&[1.0]));
    let (mut first, mut second) = (sgd(&a), sgd(&b));
    let options = GradScalerOptions { init_scale: 4.0, growth_interval: 1, ..Default::default() };
    let mut scaler = GradScaler::new(options)?;
    scaler.scale(&a.sum()?)?.backward()?;
    scaler.scale(&(&b * f64::INFINITY)?.sum()?)?.backward()?;
    assert!(scaler.step(&mut first)?);
    assert!(!scaler.step(&mut second)?);
    assert!(message(scaler.step(&mut first)).starts_with("step() has already been called"));
    assert!(message(scaler.unscale_(&first)).contains("after step()"));
    scaler.update();
    assert_eq!((scaler.get_scale(), a.to_vec::<f32>()?), (2.0, vec![0.5]));
    // Without gradients there is nothing to learn from.
    first.zero_grad()?;
    assert!(message(scaler.step(&mut first)).starts_with("No inf checks were recorded"));
    scaler.update();
    assert_eq!(scaler.get_scale(), 2.0);
    Ok(())
}

#[test]
fn scaled_losses_of_short_dtypes_do_not_overflow() -> Result<()> {
    let scaler = GradScaler::new(GradScalerOptions::default())?;
    let loss = Tensor::full([], 4.0)?.to(DType::Float16)?;
    let scaled = scaler.scale(&loss)?;
    assert_eq!((scaled.dtype(), scaled.to_element::<f32>()?), (DType::Float32, 4.0 * 65536.0));
    Ok(())
}

#[test]
fn states_of_old_files_have_numbers_for_tensors() -> Result<()> {
    let parameter = leaf(&[1.0]);
    let mut asgd = Asgd::new([parameter.clone()], AsgdOptions::default())?;
    parameter.sum()?.backward()?;
    asgd.step()?;
    let mut state = asgd.state_dict();
    for (name, value) in state.state.get_mut(&0).unwrap() {
        match name.as_str() {
            "step" => *value = Value::Int(1),
            "eta" | "mu" => *value = Value::Float(value.number().unwrap()),
            _ => {}
        }
    }
    let mut resumed = Asgd::new([parameter.clone()], AsgdOptions::default())?;
    resumed.load_state_dict(&state)?;
    resumed.step()?;
    asgd.step()?;
    let step = resumed.state(0, 0).unwrap().tensor("step")?;
    assert_eq!(step.to_element::<f32>()?, 2.0);
    Ok(())
}

#[test]
fn settings_of_a_wrong_type_are_no_silent_defaults() -> Result<()> {
    let parameter = leaf(&[1.0]);
    let mut optimizer = sgd(&parameter);
    let changed = |name: &str, value: Value| -> OptimizerState {
        let mut state = optimizer.state_dict();
        state.param_groups[0].iter_mut().find(|(known, _)| known == name).unwrap().1 = value;
        state
    };
    let tensor = changed("lr", Value::Tensor(tensor![0.25]?));
    let text = changed("lr", Value::Text("fast".to_owned()));
    assert_eq!(
        message(optimizer.load_state_dict(&text)),
        "a parameter group of the state has a wrong 'lr'"
    );
    optimizer.load_state_dict(&tensor)?;
    assert_eq!(optimizer.lr(), 0.25);
    Ok(())
}

#[test]
fn schedules_know_their_groups() -> Result<()> {
    let (a, b) = (leaf(&[1.0]), leaf(&[1.0]));
    let group = |tensor: &Tensor| ParamGroup::new([tensor.clone()], SgdOptions::default());
    let mut two = Sgd::with_groups(vec![group(&a), group(&b)])?;
    let mut one = sgd(&a);
    let mut scheduler = StepLR::new(&mut two, 1, 0.5)?;
    let refused = message(scheduler.step(&mut one));
    assert!(refused.contains("made for 2 parameter groups"), "{refused}");
    let of_one = StepLR::new(&mut one, 1, 0.5)?.state_dict();
    let refused = message(scheduler.load_state_dict(&of_one));
    assert!(refused.contains("is of 1 parameter groups, but the scheduler has 2"), "{refused}");
    // A group that comes later keeps its rate.
    let mut scheduler = StepLR::new(&mut one, 1, 0.5)?;
    one.add_param_group(group(&b))?;
    scheduler.step(&mut one)?;
    assert_eq!((one.group_lr(0), one.group_lr(1)), (0.25, 1e-3));
    Ok(())
}

#[test]
fn schedules_without_steps_give_numbers() -> Result<()> {
    let mut optimizer = sgd(&leaf(&[1.0]));
    let first = Box::new(StepLR::new(&mut optimizer, 10, 0.5)?);
    let second = Box::new(LinearLR::new(&mut optimizer, 0.5, 1.0, 0)?);
    let mut chain = SequentialLR::new(&mut optimizer, vec![first, second], &[1])?;
    for _ in 0..3 {
        chain.step(&mut optimizer)?;
        assert!(optimizer.lr().is_finite());
    }
    Ok(())
}

#[test]
fn indices_out_of_range_are_errors() -> Result<()> {
    fn refused<S>(found: Result<S>) {
        assert!(message(found).contains("is out of range for"));
    }
    let rows = TensorDataset::new(vec![tensor![1, 2]?])?;
    refused(rows.get(2));
    refused(rows.get(usize::MAX));
    let part = Subset::new(Arc::new(rows), vec![1])?;
    refused(part.get(1));
    refused(part.get_many(&[0, 1]));
    refused(TokenFile::from_tensor(tensor![1, 2, 3, 4, 5]?)?.blocks(2)?.get(2));
    refused(CsvTable::from_reader("a\n1\n".as_bytes(), Default::default())?.get(1));
    Ok(())
}

#[test]
fn lengths_do_not_overflow() -> Result<()> {
    let one = || FnDataset::new(1, Ok);
    assert!(message(random_split(one(), &[usize::MAX, 2], None)).contains("Sum of input lengths"));
    let endless = FnDataset::new(usize::MAX, Ok);
    let both = ConcatDataset::new(vec![
        Box::new(endless) as Box<dyn Dataset<Sample = usize>>,
        Box::new(one()),
    ])?;
    assert_eq!((both.len(), both.get(5)?), (usize::MAX, 5));
    Ok(())
}

/// Indices that begin anew when they are asked for once more after their end.
struct Restless;

impl Sampler for Restless {
    type Item = usize;

    fn iter(&self) -> Result<Indices> {
        let mut next = 0;
        Ok(Box::new(std::iter::from_fn(move || {
            next = (next + 1) % 4;
            (next > 0).then(|| Ok(next - 1))
        })))
    }

    fn len(&self) -> usize {
        3
    }
}

#[test]
fn the_end_of_a_pass_is_its_end() -> Result<()> {
    for workers in [0, 2] {
        for (size, count) in [(1, 3), (2, 2)] {
            let loader = DataLoader::new(FnDataset::new(3, |i| Ok(i as i64)), size);
            let loader = loader.sampler(Restless).workers(workers);
            assert_eq!(loader.iter()?.take(9).count(), count);
        }
    }
    Ok(())
}

#[test]
fn loaders_end_whatever_happens_in_them() -> Result<()> {
    // Left in the middle, with samples that panic, and without samples: nothing hangs, threads end.
    let alive = Arc::new(());
    let held = Arc::clone(&alive);
    let samples = FnDataset::new(100, move |index| {
        let _held = &held;
        assert!(index != 7, "a bad sample");
        Ok(index as i64)
    });
    let loader = DataLoader::new(samples, 5).workers(3).persistent_workers(true);
    let mut pass = loader.iter()?;
    assert_eq!(pass.next().unwrap()?.numel(), 5);
    let second = message(pass.next().unwrap());
    assert!(second.contains("Caught a panic") && second.contains("a bad sample"), "{second}");
    drop(pass);
    assert_eq!(loader.iter()?.filter(Result::is_ok).count(), 19);
    drop(loader);
    assert_eq!(Arc::strong_count(&alive), 1);
    for workers in [0, 2] {
        let none = DataLoader::new(FnDataset::new(0, |i| Ok(i as i64)), 4).workers(workers);
        assert_eq!(none.iter()?.count(), 0);
    }
    Ok(())
}

#[test]
fn errors_of_tables_name_the_file() -> Result<()> {
    let folder = Folder::new("csv");
    let path = folder.0.join("rows.csv");
    std::fs::write(&path, "a,b\n1,2\n3\n").unwrap();
    assert!(message(CsvTable::read(&path, Default::default())).contains("rows.csv: CSV"));
    let rows = CsvRows::new(&path, Default::default()).iter()?.collect::<Result<Vec<_>>>();
    assert!(message(rows).contains("rows.csv: CSV"));
    Ok(())
}

#[test]
fn writers_of_one_name_do_not_meet() -> Result<()> {
    let folder = Folder::new("writers");
    let path = folder.0.join("both.pt");
    std::thread::scope(|scope| {
        for value in 0..4 {
            let path = &path;
            scope.spawn(move || {
                for _ in 0..5 {
                    let tensor = Tensor::full([1000], value).unwrap();
                    torch::save(path, &Value::from_tensors([("x", tensor)])).unwrap();
                    let x = torch::load(path).unwrap().tensors().remove(0).1;
                    assert_eq!(
                        x.min().unwrap().to_element::<i64>().unwrap(),
                        x.max().unwrap().to_element::<i64>().unwrap()
                    );
                }
            });
        }
    });
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 1);
    Ok(())
}

#[cfg(unix)]
#[test]
fn files_behind_links_and_devices_are_written_to() -> Result<()> {
    use std::os::unix::fs::{FileTypeExt, PermissionsExt};
    let folder = Folder::new("links");
    let (target, link) = (folder.0.join("target.pt"), folder.0.join("link.pt"));
    let value = |number| Value::from_pairs([("x", Value::Int(number))]);
    torch::save(&target, &value(1))?;
    std::fs::set_permissions(&target, std::fs::Permissions::from_mode(0o640)).unwrap();
    std::os::unix::fs::symlink(&target, &link).unwrap();
    torch::save(&link, &value(2))?;
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(torch::load(&target)?.get("x").and_then(Value::number), Some(2.0));
    assert_eq!(std::fs::metadata(&target).unwrap().permissions().mode() & 0o777, 0o640);
    let device = std::path::Path::new("/dev/null");
    torch::save(device, &value(3))?;
    assert!(std::fs::metadata(device).unwrap().file_type().is_char_device());
    Ok(())
}

#[test]
fn parameters_without_gradients_begin_when_they_have_one() -> Result<()> {
    let options = AdamOptions { lr: 0.1, ..Default::default() };
    let (early, late, alone) = (leaf(&[1.0]), leaf(&[1.0]), leaf(&[1.0]));
    let mut both = Adam::new([early.clone(), late.clone()], options.clone())?;
    for _ in 0..3 {
        early.sum()?.backward()?;
        both.step()?;
        both.zero_grad()?;
    }
    assert_eq!(late.to_vec::<f32>()?, [1.0]);
    let state = both.state_dict();
    assert_eq!(state.state.keys().copied().collect::<Vec<_>>(), [0]);
    // The state goes through a file; then the other parameter and one of a new group begin.
    let folder = Folder::new("adam");
    torch::save(folder.0.join("adam.pt"), &state.to_value())?;
    let mut resumed = Adam::new([early.clone(), late.clone()], options.clone())?;
    let loaded = torch::load(folder.0.join("adam.pt"))?;
    resumed.load_state_dict(&OptimizerState::from_value(&loaded)?)?;
    resumed.add_param_group(ParamGroup::new([alone.clone()], options))?;
    (&late + &alone)?.sum()?.backward()?;
    resumed.step()?;
    let step = |group, place| -> Result<f32> {
        resumed.state(group, place).unwrap().tensor("step")?.to_element()
    };
    assert_eq!((step(0, 0)?, step(0, 1)?, step(1, 0)?), (3.0, 1.0, 1.0));
    assert_eq!(late.to_vec::<f32>()?, alone.to_vec::<f32>()?);
    Ok(())
}
