//! What every module can do: the derive macro, walks, state dicts, copies, hooks, conversions.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use crate::common::*;
use corten::nn::*;
use corten::prelude::*;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

#[derive(Module)]
#[module(repr)]
struct Net {
    body: Sequential,
    scale: Parameter,
    #[module(rename = "heads")]
    outputs: HashMap<String, Linear>,
    mean: Buffer,
    seen: Buffer,
    layers: Vec<Linear>,
    absent: Option<Linear>,
    training: Mode,
    width: i64,
    #[module(skip)]
    names: Vec<&'static str>,
    hooks: Hooks,
}

impl Net {
    fn new() -> Result<Self> {
        let body = Sequential::new().with(Linear::new(2, 3)?).with(Relu).with(Dropout::new(0.5)?);
        let heads = [("b".to_owned(), Linear::new(3, 1)?), ("a".to_owned(), Linear::new(3, 1)?)];
        Ok(Self {
            body,
            scale: Parameter::new(op::ones(&[3], None, None, None, None)?)?,
            outputs: heads.into_iter().collect(),
            mean: Buffer::new(op::zeros(&[3], None, None, None, None)?),
            seen: Buffer::transient(op::zeros(&[], Some(DType::Int64), None, None, None)?),
            layers: vec![Linear::new(3, 3)?, Linear::new(3, 3)?],
            absent: None,
            training: Mode::default(),
            width: 3,
            names: vec!["net"],
            hooks: Hooks::default(),
        })
    }

    fn repr(&self) -> String {
        format!("width={}", self.width)
    }
}

impl Forward for Net {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let x = (self.body.call(x)? * &*self.scale)?;
        self.layers.iter().try_fold(x, |x, layer| layer.call(&x))
    }
}

fn names<T>(named: Vec<(String, T)>) -> Vec<String> {
    named.into_iter().map(|(name, _)| name).collect()
}

#[test]
fn derived_modules_show_their_parts_in_pytorchs_order() -> Result<()> {
    let net = Net::new()?;
    assert_eq!(
        names(net.named_parameters()),
        [
            "scale",
            "body.0.weight",
            "body.0.bias",
            "heads.a.weight",
            "heads.a.bias",
            "heads.b.weight",
            "heads.b.bias",
            "layers.0.weight",
            "layers.0.bias",
            "layers.1.weight",
            "layers.1.bias"
        ]
    );
    assert_eq!(names(net.named_buffers()), ["mean", "seen"]);
    assert_eq!(names(net.state_dict()?)[..3], ["scale", "mean", "body.0.weight"]);
    assert_eq!(
        names(net.named_modules()),
        [
            "", "body", "body.0", "body.1", "body.2", "heads", "heads.a", "heads.b", "layers",
            "layers.0", "layers.1"
        ]
    );
    assert_eq!(names(net.named_children()), ["body", "heads", "layers"]);
    assert_eq!(
        net.to_string(),
        "Net(
  width=3
  (body): Sequential(
    (0): Linear(in_features=2, out_features=3, bias=True)
    (1): ReLU()
    (2): Dropout(p=0.5, inplace=False)
  )
  (heads): ModuleDict(
    (a): Linear(in_features=3, out_features=1, bias=True)
    (b): Linear(in_features=3, out_features=1, bias=True)
  )
  (layers): ModuleList(
    (0-1): 2 x Linear(in_features=3, out_features=3, bias=True)
  )
)"
    );
    assert_eq!(format!("{:?}", Relu), "ReLU()");
    assert_eq!(net.names, ["net"]);
    Ok(())
}

#[derive(Module)]
enum Norm {
    Batch(BatchNorm1d),
    Layer(LayerNorm),
}

#[derive(Module)]
struct Wrapped<M: Module, const N: usize> {
    #[module(flatten)]
    inner: M,
    tail: [Linear2; N],
}

#[derive(Module)]
#[module(name = "Linear", no_debug)]
struct Linear2(Linear);

#[test]
fn enums_generics_and_tuples_are_modules() -> Result<()> {
    let norms = [Norm::Batch(BatchNorm1d::new(2)?), Norm::Layer(LayerNorm::new(&[2])?)];
    assert_eq!(norms[0].state_dict()?.len(), 5);
    assert!(norms[1].to_string().starts_with("LayerNorm((2,)"));
    assert!(norms[0].deep_clone()?.to_string().starts_with("BatchNorm1d(2"));
    let tail = [Linear2(Linear::new(2, 2)?), Linear2(Linear::new(2, 2)?)];
    let wrapped = Wrapped { inner: Linear::new(2, 2)?, tail };
    assert_eq!(
        names(wrapped.named_parameters()),
        ["weight", "bias", "tail.0.0.weight", "tail.0.0.bias", "tail.1.0.weight", "tail.1.0.bias"]
    );
    Ok(())
}

#[test]
fn modules_are_found_by_path_and_type() -> Result<()> {
    let net = Net::new()?;
    let linear = net.module("body.0")?;
    assert!(linear.downcast_ref::<Linear>().is_some());
    assert!(linear.downcast_ref::<Relu>().is_none());
    assert!(net.module("body.7").is_err());
    let mut order = Vec::new();
    net.apply(&mut |module| {
        order.push(module.name());
        if let Some(linear) = module.downcast_ref::<Linear>() {
            init::zeros_(&linear.weight)?;
        }
        Ok(())
    })?;
    assert_eq!(order[..4], ["Linear", "ReLU", "Dropout", "Sequential"]);
    assert_eq!(order.last(), Some(&"Net"));
    assert_eq!(net.layers[0].weight.to_vec::<f32>()?, [0.0; 9]);
    Ok(())
}

#[test]
fn modes_and_freezing_reach_all_parts() -> Result<()> {
    let net = Net::new()?;
    net.eval();
    assert!(!net.training.training());
    let x = x(&[4, 2]);
    assert!(op::equal(&net.forward(&x)?, &net.forward(&x)?)?);
    net.train();
    assert!(net.training.training());
    net.requires_grad_(false)?;
    assert!(net.parameters().iter().all(|parameter| !parameter.requires_grad()));
    assert!(!net.forward(&x)?.requires_grad());
    net.requires_grad_(true)?;
    net.forward(&x)?.sum()?.backward()?;
    assert!(net.scale.grad().is_some());
    net.zero_grad()?;
    assert!(net.scale.grad().is_none());
    assert_eq!(net.parameter_count(), 3 + 9 + 2 * 4 + 2 * 12);
    Ok(())
}

#[test]
fn conversions_keep_integers_and_gradients() -> Result<()> {
    let net = Net::new()?;
    net.forward(&x(&[4, 2]))?.sum()?.backward()?;
    let scale = (*net.scale).clone();
    net.double()?;
    assert_eq!(net.scale.dtype(), DType::Float64);
    assert!(net.scale.is_same(&scale));
    assert_eq!(net.scale.grad().map(|grad| grad.dtype()), Some(DType::Float64));
    assert_eq!(net.seen.dtype(), DType::Int64);
    net.half()?;
    assert_eq!(net.mean.dtype(), DType::Float16);
    assert!(net.to_device(Device::META).is_err());
    net.to(Some(Device::CPU), Some(DType::Float32))?;
    assert_eq!(net.mean.dtype(), DType::Float32);
    let Err(error) = net.to_dtype(DType::Int32) else { panic!("cast to integers") };
    assert!(error.message().starts_with("nn.Module.to only accepts floating point or complex"));
    Ok(())
}

#[test]
fn copies_are_deep_and_share_what_was_shared() -> Result<()> {
    let net = Net::new()?;
    let copy = net.deep_clone()?;
    for ((name, a), (_, b)) in net.state_dict()?.iter().zip(&copy.state_dict()?) {
        assert!(op::equal(a, b)?, "{name}");
        assert!(!a.is_alias_of(b), "{name}");
    }
    assert!(!copy.seen.is_persistent());
    init::zeros_(&copy.scale)?;
    assert_eq!(net.scale.to_vec::<f32>()?, [1.0; 3]);

    #[derive(Module)]
    struct Tied {
        first: Linear,
        second: Linear,
    }
    let (first, mut second) = (Linear::new(2, 2)?, Linear::new(2, 2)?);
    second.weight = first.weight.clone();
    let tied = Tied { first, second }.deep_clone()?;
    assert!(tied.first.weight.is_same(&tied.second.weight));
    assert_eq!(names(tied.named_parameters()), ["first.weight", "first.bias", "second.bias"]);
    assert_eq!(tied.state_dict()?.len(), 4);
    tied.first.weight.set_requires_grad_flag(false)?;
    assert!(!tied.deep_clone()?.second.weight.requires_grad());
    Ok(())
}

#[test]
fn shared_modules_are_walked_once() -> Result<()> {
    #[derive(Module)]
    struct Twice {
        first: Arc<Linear>,
        second: Arc<Linear>,
    }
    let first = Arc::new(Linear::new(2, 2)?);
    let twice = Twice { second: first.clone(), first };
    assert_eq!(names(twice.named_modules()), ["", "first"]);
    assert_eq!(twice.parameters().len(), 2);
    assert_eq!(twice.state_dict()?.len(), 4);
    let without_fields = Sequential::new().with(Relu).with(Relu);
    assert_eq!(without_fields.named_modules().len(), 3);
    Ok(())
}

#[test]
fn state_dicts_report_what_does_not_fit() -> Result<()> {
    let net = Sequential::new().with(Linear::new(2, 3)?).with(BatchNorm1d::new(3)?);
    let mut state = net.state_dict_with_prefix("model.")?;
    assert_eq!(state[0].0, "model.0.weight");
    state.iter_mut().for_each(|(name, _)| *name = name.trim_start_matches("model.").to_owned());
    let report = net.load_state_dict(state.clone(), true)?;
    assert_eq!(report.to_string(), "<All keys matched successfully>");
    let before = net.state_dict()?[2].1.to_vec::<f32>()?;
    state.retain(|(name, _)| name != "0.bias" && name != "1.num_batches_tracked");
    state.push(("extra".to_owned(), x(&[1])));
    state[0].1 = x(&[2, 2]);
    state[1].1 = x(&[3]);
    let Err(error) = net.load_state_dict(state.clone(), true) else { panic!("loaded") };
    assert_eq!(
        error.message(),
        "Error(s) in loading state_dict for Sequential:\n\tMissing key(s) in state_dict: \"0.bias\". \n\tUnexpected key(s) in state_dict: \"extra\". \n\tsize mismatch for 0.weight: copying a param with shape torch.Size([2, 2]) from checkpoint, the shape in current model is torch.Size([3, 2])."
    );
    assert!(net.load_state_dict(state.clone(), false).is_err());
    assert_eq!(net.state_dict()?[2].1.to_vec::<f32>()?, before);
    state[0].1 = x(&[3, 2]);
    let report = net.load_state_dict(state, false)?;
    assert_eq!((report.missing, report.unexpected), (vec!["0.bias".into()], vec!["extra".into()]));
    assert_eq!(net.state_dict()?[0].1.to_vec::<f32>()?, x(&[3, 2]).to_vec::<f32>()?);
    let empty: [(&str, Tensor); 0] = [];
    assert!(Relu.load_state_dict(empty, true).is_ok());
    Ok(())
}

#[test]
fn hooks_run_around_calls() -> Result<()> {
    let net = Net::new()?;
    net.eval();
    let log = Arc::new(Mutex::new(Vec::new()));
    let note = |text: &'static str| {
        let log = log.clone();
        move || log.lock().unwrap().push(text)
    };
    let (before, after, relu) = (note("before"), note("after"), note("relu"));
    let first = net.hooks.register_forward_pre(move |_| {
        before();
        Ok(None)
    });
    net.hooks_of("")?.register_forward(move |_, output| {
        after();
        Ok(Some((output * 2.0)?))
    });
    let of_relu = net.hooks_of("body.1")?.register_forward(move |_, output| {
        relu();
        assert!(op::all(&op::ge_scalar(output, 0.into())?)?.to_element::<bool>()?);
        Ok(None)
    });
    let x = x(&[4, 2]);
    let doubled = net.call(&x)?;
    assert!(op::allclose(&doubled, &(net.forward(&x)? * 2.0)?, 1e-5, 1e-6, false)?);
    assert_eq!(*log.lock().unwrap(), ["before", "relu", "after", "relu"]);
    first.remove();
    of_relu.remove();
    log.lock().unwrap().clear();
    net.deep_clone()?.call(&x)?;
    assert_eq!(*log.lock().unwrap(), ["after"]);
    assert!(net.hooks_of("heads").is_err());
    Ok(())
}

#[test]
fn backward_hooks_see_both_gradients() -> Result<()> {
    let layer = Linear::with_bias(2, 2, false)?;
    init::eye_(&layer.weight)?;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = seen.clone();
    let hooks = layer.hooks().unwrap();
    let handle = hooks.register_full_backward(move |of_input, of_output| {
        let mut seen = kept.lock().unwrap();
        seen.extend(of_output.to_vec::<f32>()?);
        let Some(of_input) = of_input else { return Ok(None) };
        seen.extend(of_input.to_vec::<f32>()?);
        Ok(Some((of_input * 10.0)?))
    });
    let without = shifted(&[1, 2], 1.0);
    layer.call(&without)?.sum()?.backward()?;
    assert_eq!(*seen.lock().unwrap(), [1.0; 2]);
    seen.lock().unwrap().clear();
    let before = hooks.register_full_backward_pre(|of_output| Ok(Some((of_output * 3.0)?)));
    let x = x(&[1, 2]).requires_grad_(true)?;
    layer.call(&x)?.sum()?.backward()?;
    assert_eq!(*seen.lock().unwrap(), [3.0; 4]);
    assert_eq!(x.grad().unwrap().to_vec::<f32>()?, [30.0, 30.0]);
    handle.remove();
    before.remove();
    x.set_grad(None)?;
    layer.call(&x)?.sum()?.backward()?;
    assert_eq!(x.grad().unwrap().to_vec::<f32>()?, [1.0, 1.0]);
    Ok(())
}

#[test]
fn dictionaries_and_lists_keep_their_order() -> Result<()> {
    let mut dict = ModuleDict::new();
    assert!(dict.insert("b", Linear::new(1, 1)?).is_none());
    dict.insert("a", Linear::new(1, 2)?);
    assert_eq!(dict.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["b", "a"]);
    assert!(dict.remove("b").is_some() && dict.get("b").is_none() && dict.len() == 1);
    let mut list = ModuleList::from(vec![Linear::new(1, 1)?]);
    list.push(Linear::new(1, 2)?);
    assert_eq!(list.deep_clone()?.len(), 2);
    let mut parameters = ParameterDict::default();
    parameters.insert("w", Parameter::new(x(&[2]))?);
    assert_eq!(parameters.deep_clone()?.named_parameters()[0].0, "w");
    let boxed: Vec<Box<dyn Layer>> = vec![Box::new(Relu), Box::new(Linear::new(1, 1)?)];
    let made: Sequential = boxed.into_iter().collect();
    assert_eq!(made.get(1).map(|layer| layer.name()), Some("Linear"));
    assert_eq!(made.iter().count(), 2);
    Ok(())
}

#[test]
fn vectors_become_parameters() -> Result<()> {
    let layer = Linear::new(2, 2)?;
    let flat = utils::parameters_to_vector(&layer.parameters())?;
    assert_eq!(flat.sizes()[..], [6]);
    let new = Tensor::from_vec((0..6).map(|i| i as f32).collect(), &[6])?;
    utils::vector_to_parameters(&new, &layer.parameters())?;
    assert_eq!(layer.bias.as_ref().unwrap().to_vec::<f32>()?, [4.0, 5.0]);
    assert!(layer.weight.requires_grad());
    assert!(utils::vector_to_parameters(&x(&[3]), &layer.parameters()).is_err());
    Ok(())
}

#[test]
fn settings_are_refused_in_pytorchs_words() -> Result<()> {
    let message = |error: Option<corten::Error>| error.map(|e| e.message().to_owned());
    let refused = |made: Result<()>| message(made.err()).unwrap_or_default();
    let strided =
        ConvOptions { stride: 2.into(), padding: ConvPadding::Same, ..Default::default() };
    assert_eq!(
        refused(Conv2d::with(1, 1, 3, strided).map(drop)),
        "padding='same' is not supported for strided convolutions"
    );
    let grouped = ConvOptions { groups: 2, ..Default::default() };
    assert_eq!(
        refused(Conv1d::with(3, 2, 1, grouped).map(drop)),
        "in_channels must be divisible by groups"
    );
    assert_eq!(
        refused(GroupNorm::new(3, 4).map(drop)),
        "num_channels (4) must be divisible by num_groups (3)"
    );
    assert_eq!(
        refused(MultiheadAttention::new(8, 3).map(drop)),
        "embed_dim must be divisible by num_heads"
    );
    assert_eq!(
        refused(Dropout::new(1.5).map(drop)),
        "dropout probability has to be between 0 and 1, but got 1.5"
    );
    assert_eq!(
        refused(BatchNorm2d::new(3)?.forward(&x(&[2, 3])).map(drop)),
        "expected 4D input (got 2D input)"
    );
    assert_eq!(
        refused(BatchNorm1d::new(3)?.forward(&x(&[1, 3])).map(drop)),
        "Expected more than 1 value per channel when training, got input size torch.Size([1, 3])"
    );
    assert_eq!(
        refused(Embedding::with_padding(3, 2, 4).map(drop)),
        "Padding_idx must be within num_embeddings"
    );
    assert!(
        refused(ConvTranspose1d::new(1, 1, 3)?.forward_to_size(&x(&[1, 1, 4]), &[9]).map(drop))
            .starts_with("requested an output size of [9], but valid sizes range from [6] to [6]")
    );
    let linear = Upsample::with(
        Resize::size(4),
        UpsampleOptions { mode: Interpolation::Linear, ..Default::default() },
    );
    assert_eq!(
        refused(linear.forward(&x(&[1, 1, 2, 2])).map(drop)),
        "Got 4D input, but linear mode needs 3D input"
    );
    Ok(())
}
