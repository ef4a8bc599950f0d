//! Optimizers and schedules beside PyTorch's: parameters after steps, rates, names of state.
#![allow(clippy::unwrap_used)] // tests may

use corten::nn::optim::lr_scheduler::*;
use corten::nn::optim::*;
use corten::prelude::*;
use std::collections::BTreeMap;

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/goldens/optimizers.txt");

fn golden() -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(GOLDEN).unwrap();
    let lines = text.lines().map(|line| line.split_once('|').unwrap());
    lines.map(|(name, values)| (name.to_owned(), values.to_owned())).collect()
}

fn expected(golden: &BTreeMap<String, String>, name: &str) -> Vec<f64> {
    golden[name].split(' ').map(|number| number.parse().unwrap()).collect()
}

fn compare(name: &str, found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len(), "{name}");
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        let apart = (found - expected).abs();
        let near = apart <= tolerance * expected.abs().max(1.0);
        assert!(near, "{name}: element {index} is {found}, PyTorch's {expected}");
    }
}

fn parameters(matrices: bool) -> Result<Vec<Tensor>> {
    let shapes: &[&[i64]] = if matrices { &[&[3, 4], &[4, 2]] } else { &[&[3, 4], &[5], &[]] };
    let made = shapes.iter().enumerate().map(|(index, shape)| {
        let count: i64 = shape.iter().product();
        let value = |i: i64| (i as f64 * 0.37 + index as f64 + 0.11).sin();
        let values: Vec<f64> = (0..count).map(value).collect();
        Tensor::from_vec(values, shape)?.requires_grad_(true)
    });
    made.collect()
}

fn loss_of(params: &[Tensor], step: usize) -> Result<Tensor> {
    let mut total = op::zeros(&[], Some(DType::Float64), None, None, None)?;
    for p in params {
        let square = op::mul_scalar(&op::sum(&op::mul_tensor(p, p)?, None)?, 0.5.into())?;
        let angle = op::mul_scalar(p, 1.3.into())?;
        let angle = op::add_scalar(&angle, (0.1 * step as f64).into(), 1.into())?;
        let wave = op::sum(&op::cos(&angle)?, None)?;
        total = op::add_tensor(&total, &op::add_tensor(&square, &wave, 1.into())?, 1.into())?;
    }
    Ok(total)
}

/// Six steps; what the parameters are then, and the optimizer.
fn run<O: Optimizer>(
    matrices: bool,
    make: impl Fn(Vec<Tensor>) -> Result<O>,
) -> Result<(Vec<f64>, O)> {
    let params = parameters(matrices)?;
    let mut optimizer = make(params.clone())?;
    for step in 0..6 {
        // Half of the way a second optimizer goes on from the state of the first.
        if step == 3 {
            let state = OptimizerState::from_value(&optimizer.state_dict().to_value())?;
            optimizer = make(params.clone())?;
            optimizer.load_state_dict(&state)?;
        }
        let held = params.clone();
        optimizer.step_with(&mut || {
            held.iter().try_for_each(|parameter| parameter.set_grad(None))?;
            let loss = loss_of(&held, step)?;
            loss.backward()?;
            Ok(loss)
        })?;
    }
    let values = params.iter().map(|parameter| parameter.to_vec::<f64>());
    Ok((values.collect::<Result<Vec<_>>>()?.concat(), optimizer))
}

fn check<O: Optimizer>(
    name: &str,
    tolerance: f64,
    make: impl Fn(Vec<Tensor>) -> Result<O>,
) -> Result<()> {
    let golden = golden();
    let (found, optimizer) = run(name.starts_with("Muon"), make)?;
    compare(name, &found, &expected(&golden, name), tolerance);
    let state = optimizer.state_dict();
    let mut names: Vec<&str> = Vec::new();
    names.extend(state.state.get(&0).into_iter().flatten().map(|(name, _)| name.as_str()));
    names.push("/");
    names.extend(state.param_groups[0].iter().map(|(name, _)| name.as_str()));
    names.sort_unstable();
    let mut known: Vec<&str> = golden[&format!("{name} names")].split(' ').collect();
    // The coefficients of the recursion are scratch space.
    known.retain(|name| *name != "al" && !name.is_empty());
    known.sort_unstable();
    assert_eq!(names, known, "{name}");
    Ok(())
}

#[test]
fn gradient_descent_is_pytorchs() -> Result<()> {
    check("SGD 0", 1e-14, |params| Sgd::new(params, SgdOptions::default()))?;
    check("SGD 1", 1e-14, |params| {
        let options = SgdOptions { lr: 0.05, momentum: 0.9, dampening: 0.1, ..Default::default() };
        Sgd::new(params, SgdOptions { weight_decay: 0.02, ..options })
    })?;
    check("SGD 2", 1e-14, |params| {
        let options = SgdOptions { lr: 0.05, momentum: 0.9, ..Default::default() };
        Sgd::new(params, SgdOptions { nesterov: true, maximize: true, ..options })
    })?;
    check("ASGD 0", 1e-7, |params| Asgd::new(params, AsgdOptions::default()))?;
    check("ASGD 1", 1e-7, |params| {
        let options = AsgdOptions { lr: 0.05, t0: 3.0, weight_decay: 0.1, ..Default::default() };
        Asgd::new(params, options)
    })
}

#[test]
fn adam_and_its_relatives_are_pytorchs() -> Result<()> {
    check("Adam 0", 1e-13, |params| Adam::new(params, AdamOptions::default()))?;
    check("Adam 1", 1e-13, |params| {
        let options = AdamOptions { lr: 0.05, weight_decay: 0.1, ..Default::default() };
        Adam::new(params, AdamOptions { amsgrad: true, ..options })
    })?;
    check("Adam 2", 1e-13, |params| {
        Adam::new(params, AdamOptions { lr: 0.05, maximize: true, ..Default::default() })
    })?;
    check("AdamW 0", 1e-13, |params| AdamW::new(params, AdamWOptions::default()))?;
    check("AdamW 1", 1e-13, |params| {
        let options = AdamWOptions { lr: 0.05, betas: (0.8, 0.95), ..Default::default() };
        AdamW::new(params, AdamWOptions { amsgrad: true, ..options })
    })?;
    check("Adamax 0", 1e-13, |params| Adamax::new(params, AdamaxOptions::default()))?;
    check("Adamax 1", 1e-13, |params| {
        Adamax::new(params, AdamaxOptions { lr: 0.05, weight_decay: 0.1, ..Default::default() })
    })?;
    check("NAdam 0", 1e-7, |params| NAdam::new(params, NAdamOptions::default()))?;
    check("NAdam 1", 1e-7, |params| {
        let options = NAdamOptions { lr: 0.05, weight_decay: 0.1, ..Default::default() };
        NAdam::new(params, NAdamOptions { decoupled_weight_decay: true, ..options })
    })?;
    check("RAdam 0", 1e-13, |params| RAdam::new(params, RAdamOptions::default()))?;
    check("RAdam 1", 1e-13, |params| {
        RAdam::new(params, RAdamOptions { lr: 0.05, weight_decay: 0.1, ..Default::default() })
    })?;
    check("RAdam 2", 1e-13, |params| {
        RAdam::new(params, RAdamOptions { lr: 0.05, betas: (0.9, 0.7), ..Default::default() })
    })
}

#[test]
fn scaled_steps_are_pytorchs() -> Result<()> {
    check("Adadelta 0", 1e-13, |params| Adadelta::new(params, AdadeltaOptions::default()))?;
    check("Adadelta 1", 1e-13, |params| {
        let options = AdadeltaOptions { lr: 0.5, weight_decay: 0.1, ..Default::default() };
        Adadelta::new(params, AdadeltaOptions { rho: 0.8, ..options })
    })?;
    check("Adagrad 0", 1e-13, |params| Adagrad::new(params, AdagradOptions::default()))?;
    check("Adagrad 1", 1e-13, |params| {
        let options = AdagradOptions { lr: 0.05, lr_decay: 0.1, ..Default::default() };
        let initial_accumulator_value = 0.5;
        Adagrad::new(
            params,
            AdagradOptions { weight_decay: 0.1, initial_accumulator_value, ..options },
        )
    })?;
    check("RMSprop 0", 1e-13, |params| RmsProp::new(params, RmsPropOptions::default()))?;
    check("RMSprop 1", 1e-13, |params| {
        let options = RmsPropOptions { lr: 0.02, momentum: 0.9, ..Default::default() };
        RmsProp::new(params, RmsPropOptions { centered: true, weight_decay: 0.1, ..options })
    })?;
    check("Rprop 0", 1e-13, |params| Rprop::new(params, RpropOptions::default()))?;
    check("Rprop 1", 1e-13, |params| {
        let options = RpropOptions { lr: 0.05, etas: (0.4, 1.3), ..Default::default() };
        Rprop::new(params, RpropOptions { step_sizes: (1e-3, 0.2), ..options })
    })?;
    check("Adafactor 0", 1e-12, |params| Adafactor::new(params, AdafactorOptions::default()))?;
    check("Adafactor 1", 1e-12, |params| {
        let options = AdafactorOptions { lr: 0.1, weight_decay: 0.1, ..Default::default() };
        Adafactor::new(params, AdafactorOptions { d: 2.0, ..options })
    })?;
    // The iteration rounds to bfloat16.
    check("Muon 0", 1e-4, |params| Muon::new(params, MuonOptions::default()))?;
    check("Muon 1", 5e-3, |params| {
        let adjust_lr_fn = Some(AdjustLr::MatchRmsAdamW);
        let options = MuonOptions { lr: 0.05, nesterov: false, ..Default::default() };
        Muon::new(params, MuonOptions { adjust_lr_fn, ..options })
    })
}

#[test]
fn quasi_newton_steps_are_pytorchs() -> Result<()> {
    check("LBFGS 0", 1e-9, |params| {
        Lbfgs::new(params, LbfgsOptions { lr: 0.1, max_iter: 4, ..Default::default() })
    })?;
    // Near the minimum rounding decides where a line search ends.
    check("LBFGS 1", 1e-7, |params| {
        let line_search_fn = Some(LineSearch::StrongWolfe);
        let options = LbfgsOptions { line_search_fn, max_iter: 6, ..Default::default() };
        Lbfgs::new(params, LbfgsOptions { history_size: 3, ..options })
    })
}

type Make = fn(&mut dyn Optimizer) -> Result<BoxedScheduler>;

fn boxed<S: LrScheduler + 'static>(made: Result<S>) -> Result<BoxedScheduler> {
    Ok(Box::new(made?))
}

#[test]
fn schedules_are_pytorchs() -> Result<()> {
    let cases: [(&str, Make); 13] = [
        ("StepLR", |o| boxed(StepLR::new(o, 3, 0.5))),
        ("MultiStepLR", |o| boxed(MultiStepLR::new(o, &[2, 5, 5], 0.5))),
        ("ConstantLR", |o| boxed(ConstantLR::new(o, 0.25, 4))),
        ("LinearLR", |o| boxed(LinearLR::new(o, 0.25, 0.75, 6))),
        ("ExponentialLR", |o| boxed(ExponentialLR::new(o, 0.9))),
        ("PolynomialLR", |o| boxed(PolynomialLR::new(o, 8, 2.0))),
        ("CosineAnnealingLR", |o| boxed(CosineAnnealingLR::new(o, 4, 0.01))),
        ("CosineAnnealingWarmRestarts", |o| boxed(CosineAnnealingWarmRestarts::new(o, 3, 2, 0.01))),
        ("LambdaLR", |o| boxed(LambdaLR::new(o, |epoch| 0.9_f64.powf(epoch as f64)))),
        ("MultiplicativeLR", |o| {
            boxed(MultiplicativeLR::new(o, |epoch| 1.0 - epoch as f64 / 20.0))
        }),
        ("CyclicLR", |o| {
            let options =
                CyclicOptions { step_size_up: 3, step_size_down: Some(2), ..Default::default() };
            let mode = CyclicMode::Triangular2;
            boxed(CyclicLR::new(o, 0.01, 0.2, CyclicOptions { mode, ..options }))
        }),
        ("OneCycleLR", |o| boxed(OneCycleLR::new(o, 0.5, 15, OneCycleOptions::default()))),
        ("OneCycleLR three phases", |o| {
            let anneal_strategy = AnnealStrategy::Linear;
            let options =
                OneCycleOptions { three_phase: true, anneal_strategy, ..Default::default() };
            boxed(OneCycleLR::new(o, 0.5, 15, options))
        }),
    ];
    for (name, make) in cases {
        check_schedule(name, make)?;
    }
    Ok(())
}

fn check_schedule(name: &str, make: Make) -> Result<()> {
    let leaf = || Tensor::from_vec(vec![1.0_f64], &[1])?.requires_grad_(true);
    let group = |lr| -> Result<_> {
        let options = SgdOptions { lr, momentum: 0.5, ..Default::default() };
        Ok(ParamGroup::new([leaf()?], options))
    };
    let mut optimizer = Sgd::with_groups(vec![group(0.3)?, group(0.1)?])?;
    let mut scheduler = make(&mut optimizer)?;
    let (mut rates, mut momenta) = (Vec::new(), Vec::new());
    for epoch in 0..14 {
        rates.extend([optimizer.group_lr(0), optimizer.group_lr(1)]);
        momenta.push(optimizer.group_momentum(0).unwrap());
        // Half of the way a second schedule goes on from the state of the first.
        if epoch == 7 {
            let (state, rates) = (scheduler.state_dict(), scheduler.last_lr());
            scheduler = make(&mut optimizer)?;
            scheduler.load_state_dict(&state)?;
            for (group, rate) in rates.into_iter().enumerate() {
                optimizer.set_group_lr(group, rate);
            }
        }
        optimizer.step()?;
        scheduler.step(&mut optimizer)?;
    }
    rates.extend(momenta);
    compare(name, &rates, &expected(&golden(), name), 1e-12);
    Ok(())
}

#[test]
fn chains_of_schedules_are_pytorchs() -> Result<()> {
    let optimizer = || {
        let leaf = Tensor::from_vec(vec![1.0_f64], &[1])?.requires_grad_(true)?;
        Sgd::new([leaf], SgdOptions { lr: 0.3, ..Default::default() })
    };
    let run = |name: &str, sgd: &mut Sgd, step: &mut dyn FnMut(&mut Sgd, usize) -> Result<()>| {
        let mut rates = Vec::new();
        for epoch in 0..14 {
            rates.push(sgd.lr());
            step(sgd, epoch)?;
        }
        compare(name, &rates, &expected(&golden(), name), 1e-12);
        Ok::<_, corten::Error>(())
    };
    let mut sgd = optimizer()?;
    let parts = vec![
        boxed(ConstantLR::new(&mut sgd, 0.1, 3))?,
        boxed(LinearLR::new(&mut sgd, 0.5, 1.0, 4))?,
        boxed(ExponentialLR::new(&mut sgd, 0.8))?,
    ];
    let mut chain = SequentialLR::new(&mut sgd, parts, &[3, 8])?;
    run("SequentialLR", &mut sgd, &mut |sgd, _| chain.step(sgd))?;

    let mut sgd = optimizer()?;
    let parts =
        vec![boxed(ConstantLR::new(&mut sgd, 0.1, 4))?, boxed(ExponentialLR::new(&mut sgd, 0.9))?];
    let mut chain = ChainedScheduler::new(&sgd, parts)?;
    run("ChainedScheduler", &mut sgd, &mut |sgd, _| chain.step(sgd))?;

    let mut sgd = optimizer()?;
    let options = PlateauOptions { factor: 0.5, patience: 2, cooldown: 1, ..Default::default() };
    let mut plateau = ReduceLROnPlateau::new(&sgd, PlateauOptions { min_lr: 0.01, ..options })?;
    run("ReduceLROnPlateau", &mut sgd, &mut |sgd, epoch| {
        let state = plateau.state_dict();
        plateau.load_state_dict(&state)?;
        plateau.step(sgd, (3.0 - epoch as f64).max(1.0));
        Ok(())
    })?;

    let mut sgd = optimizer()?;
    let mut swa = SWALR::new(&mut sgd, 0.05, 5, AnnealStrategy::Cos)?;
    run("SWALR", &mut sgd, &mut |sgd, _| swa.step(sgd))
}

#[test]
fn wrong_settings_are_refused() -> Result<()> {
    let leaf = Tensor::from_vec(vec![1.0_f32], &[1])?.requires_grad_(true)?;
    let message = |error: corten::Error| error.message().to_owned();
    let options = AdamOptions { betas: (1.0, 0.9), ..Default::default() };
    let refused = Adam::new([leaf.clone()], options).err().map(message);
    assert_eq!(refused.as_deref(), Some("Invalid beta parameter at index 0: 1"));
    let refused = Sgd::new([], SgdOptions::default()).err().map(message);
    assert_eq!(refused.as_deref(), Some("optimizer got an empty parameter list"));
    let group = || ParamGroup::new([leaf.clone()], SgdOptions::default());
    let refused = Sgd::with_groups(vec![group(), group()]).err().map(message);
    assert_eq!(refused.as_deref(), Some("some parameters appear in more than one parameter group"));
    let no_leaf = leaf.sin()?;
    let refused = Sgd::new([no_leaf], SgdOptions::default()).err().map(message);
    assert_eq!(refused.as_deref(), Some("can't optimize a non-leaf Tensor"));
    Ok(())
}

#[test]
fn scales_follow_the_gradients() -> Result<()> {
    let leaf = Tensor::from_vec(vec![1.0_f32, 2.0], &[2])?.requires_grad_(true)?;
    let mut sgd = Sgd::new([leaf.clone()], SgdOptions { lr: 0.5, ..Default::default() })?;
    let mut scaler = GradScaler::new(GradScalerOptions {
        init_scale: 1024.0,
        growth_interval: 2,
        ..Default::default()
    })?;
    for (factor, moves, scale) in [
        (1.0, true, 1024.0),
        (f64::INFINITY, false, 512.0),
        (1.0, true, 512.0),
        (1.0, true, 1024.0),
    ] {
        let before = leaf.to_vec::<f32>()?;
        sgd.zero_grad()?;
        let loss = op::mul_scalar(&op::sum(&leaf, None)?, factor.into())?;
        scaler.scale(&loss)?.backward()?;
        assert_eq!(scaler.step(&mut sgd)?, moves);
        assert!(scaler.step(&mut sgd).is_err());
        scaler.update();
        assert_eq!(scaler.get_scale(), scale);
        let moved: Vec<f32> = before.iter().map(|x| x - if moves { 0.5 } else { 0.0 }).collect();
        assert_eq!(leaf.to_vec::<f32>()?, moved);
    }
    Ok(())
}

#[test]
fn averages_of_parameters() -> Result<()> {
    let tensor = |value: f32| Tensor::from_vec(vec![value], &[1]);
    let mut mean = AveragedParameters::new(&[tensor(5.0)?], Averaging::Mean)?;
    let mut ema = AveragedParameters::new(&[tensor(5.0)?], Averaging::Exponential(0.75))?;
    for value in [1.0, 2.0, 6.0] {
        mean.update(&[tensor(value)?])?;
        ema.update(&[tensor(value)?])?;
    }
    assert_eq!(mean.averages()[0].to_vec::<f32>()?, [3.0]);
    let expected = 0.75 * (0.75 * 1.0 + 0.25 * 2.0) + 0.25 * 6.0;
    assert_eq!(ema.averages()[0].to_vec::<f32>()?, [expected]);
    let target = tensor(0.0)?;
    mean.copy_to(std::slice::from_ref(&target))?;
    assert_eq!(target.to_vec::<f32>()?, [3.0]);
    assert!(mean.update(&[]).is_err());
    Ok(())
}
