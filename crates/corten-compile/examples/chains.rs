//! Chains of operators as one program, beside the same calls one by one: `cargo run --release -p corten-compile
//! --features avx512 --example chains`.

use corten::core::{DataPtr, Device, Storage};
use corten::ops::{IValue, Stack, registry};
use corten::prelude::*;
use corten_compile::Plan;
use corten_compile::ir::{Argument, BufferId, Node, Operand, Program, Role};
use std::collections::HashMap;
use std::io::Write;
use std::time::{Duration, Instant};

/// Calls that run at once, and are recorded.
#[derive(Default)]
struct Recorder {
    program: Program,
    buffers: HashMap<usize, BufferId>,
    storages: Vec<Storage>,
}

/// An argument of a call.
enum Given<'a> {
    Tensor(&'a Tensor),
    Value(IValue),
}

impl<'a> From<&'a Tensor> for Given<'a> {
    fn from(tensor: &'a Tensor) -> Self {
        Self::Tensor(tensor)
    }
}

impl From<f64> for Given<'_> {
    fn from(number: f64) -> Self {
        Self::Value(IValue::Double(number))
    }
}

impl From<i64> for Given<'_> {
    fn from(number: i64) -> Self {
        Self::Value(IValue::Int(number))
    }
}

impl From<bool> for Given<'_> {
    fn from(truth: bool) -> Self {
        Self::Value(IValue::Bool(truth))
    }
}

impl From<IValue> for Given<'_> {
    fn from(value: IValue) -> Self {
        Self::Value(value)
    }
}

fn last() -> Given<'static> {
    IValue::IntList([-1].into_iter().collect()).into()
}

fn none() -> Given<'static> {
    IValue::None.into()
}

impl Recorder {
    fn operand(&mut self, tensor: &Tensor, role: Role) -> Result<Operand> {
        let storage = tensor.storage()?;
        if !self.buffers.contains_key(&storage.key()) {
            let own = match role {
                Role::Input => storage.clone(),
                _ => Storage::new(storage.nbytes(), Device::CPU)?,
            };
            self.buffers.insert(storage.key(), self.program.add_buffer(own, role));
            self.storages.push(storage.clone());
        }
        Ok(Operand::of(tensor, self.buffers[&storage.key()]))
    }

    fn call(&mut self, name: &str, given: &[Given<'_>]) -> Result<Tensor> {
        let op = registry::find(name).ok_or_else(|| corten::core::err!(Runtime, "no {name}"))?;
        let (mut stack, mut arguments) = (Stack::new(), Vec::new());
        for argument in given {
            match argument {
                Given::Tensor(tensor) => {
                    arguments.push(Argument::Tensor(self.operand(tensor, Role::Input)?));
                    stack.push(*tensor);
                }
                Given::Value(value) => {
                    arguments.push(Argument::Value(value.clone()));
                    stack.push(value.clone());
                }
            }
        }
        op.call_boxed(&mut stack)?;
        let result: Tensor = corten::ops::returns(stack)?;
        let operand = self.operand(&result, Role::Internal)?;
        self.program.push(Node {
            op,
            arguments: arguments.into_iter().collect(),
            results: [Some(operand)].into_iter().collect(),
            line: None,
        });
        Ok(result)
    }

    fn want(&mut self, tensor: &Tensor) -> Result<()> {
        let id = self.buffers[&tensor.storage()?.key()];
        self.program.set_role(id, Role::Output);
        Ok(())
    }

    /// Takes the memory of all results away, as before the program ran.
    fn reset(&self) -> Result<()> {
        for buffer in self.program.buffers().iter().filter(|buffer| buffer.role != Role::Input) {
            let nbytes = buffer.storage.nbytes();
            drop(buffer.storage.set_data_ptr(DataPtr::null(Device::CPU), nbytes)?);
        }
        Ok(())
    }
}

fn input(sizes: &[i64]) -> Result<Tensor> {
    let numel: i64 = sizes.iter().product();
    let values: Vec<f32> = (0..numel).map(|i| ((i * 37 % 1009) as f32 - 500.0) / 230.0).collect();
    Tensor::from_vec(values, sizes)
}

type Chain = fn(&mut Recorder, &[Tensor]) -> Result<Tensor>;

fn affine(r: &mut Recorder, x: &[Tensor]) -> Result<Tensor> {
    let a = r.call("aten::mul.Tensor", &[(&x[0]).into(), (&x[1]).into()])?;
    let b = r.call("aten::add.Tensor", &[(&a).into(), (&x[2]).into(), 1_i64.into()])?;
    let c = r.call("aten::mul.Scalar", &[(&b).into(), 0.5.into()])?;
    r.call("aten::add.Tensor", &[(&c).into(), (&x[0]).into(), 1_i64.into()])
}

fn gelu_tanh(r: &mut Recorder, x: &[Tensor]) -> Result<Tensor> {
    let x = &x[0];
    let cube = r.call("aten::pow.Tensor_Scalar", &[x.into(), 3_i64.into()])?;
    let scaled = r.call("aten::mul.Scalar", &[(&cube).into(), 0.044715.into()])?;
    let sum = r.call("aten::add.Tensor", &[x.into(), (&scaled).into(), 1_i64.into()])?;
    let inner = r.call("aten::mul.Scalar", &[(&sum).into(), 0.797_884_560_802_865_4.into()])?;
    let tanh = r.call("aten::tanh", &[(&inner).into()])?;
    let one = r.call("aten::add.Scalar", &[(&tanh).into(), 1_i64.into(), 1_i64.into()])?;
    let half = r.call("aten::mul.Scalar", &[x.into(), 0.5.into()])?;
    r.call("aten::mul.Tensor", &[(&half).into(), (&one).into()])
}

fn silu_gate(r: &mut Recorder, x: &[Tensor]) -> Result<Tensor> {
    let a = r.call("aten::silu", &[(&x[0]).into()])?;
    r.call("aten::mul.Tensor", &[(&a).into(), (&x[1]).into()])
}

fn rms_norm(r: &mut Recorder, x: &[Tensor]) -> Result<Tensor> {
    let square = r.call("aten::pow.Tensor_Scalar", &[(&x[0]).into(), 2_i64.into()])?;
    let mean = r.call("aten::mean.dim", &[(&square).into(), last(), true.into(), none()])?;
    let shifted = r.call("aten::add.Scalar", &[(&mean).into(), 1e-6.into(), 1_i64.into()])?;
    let scale = r.call("aten::rsqrt", &[(&shifted).into()])?;
    let normed = r.call("aten::mul.Tensor", &[(&x[0]).into(), (&scale).into()])?;
    r.call("aten::mul.Tensor", &[(&normed).into(), (&x[1]).into()])
}

fn softmax(r: &mut Recorder, x: &[Tensor]) -> Result<Tensor> {
    let most = r.call("aten::amax", &[(&x[0]).into(), last(), true.into()])?;
    let below = r.call("aten::sub.Tensor", &[(&x[0]).into(), (&most).into(), 1_i64.into()])?;
    let powers = r.call("aten::exp", &[(&below).into()])?;
    let sum = r.call("aten::sum.dim_IntList", &[(&powers).into(), last(), true.into(), none()])?;
    r.call("aten::div.Tensor", &[(&powers).into(), (&sum).into()])
}

fn layer_norm(r: &mut Recorder, x: &[Tensor]) -> Result<Tensor> {
    let mean = r.call("aten::mean.dim", &[(&x[0]).into(), last(), true.into(), none()])?;
    let centred = r.call("aten::sub.Tensor", &[(&x[0]).into(), (&mean).into(), 1_i64.into()])?;
    let square = r.call("aten::mul.Tensor", &[(&centred).into(), (&centred).into()])?;
    let var = r.call("aten::mean.dim", &[(&square).into(), last(), true.into(), none()])?;
    let shifted = r.call("aten::add.Scalar", &[(&var).into(), 1e-5.into(), 1_i64.into()])?;
    let scale = r.call("aten::rsqrt", &[(&shifted).into()])?;
    let normed = r.call("aten::mul.Tensor", &[(&centred).into(), (&scale).into()])?;
    let scaled = r.call("aten::mul.Tensor", &[(&normed).into(), (&x[1]).into()])?;
    r.call("aten::add.Tensor", &[(&scaled).into(), (&x[1]).into(), 1_i64.into()])
}

fn residual(r: &mut Recorder, x: &[Tensor]) -> Result<Tensor> {
    let g = r.call("aten::gelu", &[(&x[0]).into(), IValue::from("none").into()])?;
    r.call("aten::add.Tensor", &[(&x[0]).into(), (&g).into(), 1_i64.into()])
}

fn ten(r: &mut Recorder, x: &[Tensor]) -> Result<Tensor> {
    let mut value = x[0].clone();
    for _ in 0..5 {
        let scaled = r.call("aten::mul.Scalar", &[(&value).into(), 0.9.into()])?;
        value = r.call("aten::add.Tensor", &[(&scaled).into(), (&x[1]).into(), 1_i64.into()])?;
    }
    Ok(value)
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1e6
}

fn time(recorder: &Recorder, plan: &Plan) -> Result<f64> {
    let mut times = Vec::new();
    let began = Instant::now();
    while times.len() < 5 || (began.elapsed() < Duration::from_millis(600) && times.len() < 2000) {
        recorder.reset()?;
        let start = Instant::now();
        plan.run(&recorder.program).map_err(|failed| failed.error)?;
        times.push(start.elapsed());
    }
    Ok(median(times))
}

fn main() -> Result<()> {
    let million = 1 << 20;
    let rows: [(&str, Chain, Vec<Vec<i64>>); 10] = [
        ("(x*g+b)*.5+x, 4M", affine, vec![vec![4 * million]; 3]),
        ("(x*g+b)*.5+x, 64K", affine, vec![vec![1 << 16]; 3]),
        ("(x*g+b)*.5+x, rows", affine, vec![vec![2048, 1024], vec![1024], vec![1024]]),
        ("gelu_tanh written out, 4M", gelu_tanh, vec![vec![4 * million]]),
        ("silu(x)*g, 4M", silu_gate, vec![vec![4 * million]; 2]),
        ("rmsnorm written out 2048x1024", rms_norm, vec![vec![2048, 1024], vec![1024]]),
        ("softmax written out 2048x1024", softmax, vec![vec![2048, 1024]]),
        ("layernorm written out 2048x1024", layer_norm, vec![vec![2048, 1024], vec![1024]]),
        ("x+gelu(x) 2048x1024", residual, vec![vec![2048, 1024]]),
        ("10 pointwise ops on 1K", ten, vec![vec![1024]; 2]),
    ];
    let mut out = std::io::stdout();
    let print = |error| corten::core::err!(Runtime, "{error}");
    writeln!(
        out,
        "{:34} {:>10} {:>10} {:>6} {:>9}",
        "chain", "apart us", "plan us", "gain", "plan made"
    )
    .map_err(print)?;
    for (name, chain, sizes) in rows {
        let inputs = sizes.iter().map(|sizes| input(sizes)).collect::<Result<Vec<_>>>()?;
        let mut recorder = Recorder::default();
        let result = chain(&mut recorder, &inputs)?;
        recorder.want(&result)?;
        let apart = Plan::node_by_node(&recorder.program);
        Plan::compile(&recorder.program);
        let start = Instant::now();
        let plan = Plan::compile(&recorder.program);
        let made = start.elapsed().as_secs_f64() * 1e6;
        let (slow, fast) = (time(&recorder, &apart)?, time(&recorder, &plan)?);
        let groups = &plan.report().groups;
        writeln!(
            out,
            "{name:34} {slow:10.1} {fast:10.1} {:6.2} {made:9.1} {groups:?}",
            slow / fast
        )
        .map_err(print)?;
    }
    Ok(())
}
