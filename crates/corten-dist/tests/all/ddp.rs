//! The reducer over ranks that are threads.

use corten::autograd::{Autograd, GradDType};
use corten::prelude::*;
use corten_core::DeviceType;
use corten_dist::ddp::{
    BuiltinHook, Collectives, CommHook, GradBucket, Options, Pending, Reducer, assign_buckets,
    broadcast_coalesced, verify_params,
};
use corten_dist::{Backend, ProcessGroup, ThreadWorld};
use std::sync::{Arc, Mutex};

/// Runs `body` on every rank of a world and returns what they return, in order.
fn on_ranks<T: Send + 'static>(
    size: usize,
    body: impl Fn(usize, Arc<dyn Collectives>) -> T + Send + Sync + 'static,
) -> Vec<T> {
    let world = ThreadWorld::new(size).unwrap();
    let body = Arc::new(body);
    let threads: Vec<_> = (0..size)
        .map(|rank| {
            let engine = world.engine(rank).unwrap();
            let body = body.clone();
            std::thread::spawn(move || {
                let group = ProcessGroup::new(rank, size, None);
                group.register(DeviceType::Cpu, Backend::new(engine, None));
                body(rank, group)
            })
        })
        .collect();
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
}

fn leaf(values: &[f64], sizes: &[i64]) -> Tensor {
    Tensor::from_slice(values, sizes).unwrap().requires_grad_(true).unwrap()
}

/// Three layers: `w2 · tanh(w1 · x + b)`.
fn model() -> Vec<Tensor> {
    let numbers = |count: usize, step: f64| -> Vec<f64> {
        (0..count).map(|index| ((index as f64) * step).sin()).collect()
    };
    vec![
        leaf(&numbers(12, 0.7), &[4, 3]),
        leaf(&numbers(4, 0.3), &[4]),
        leaf(&numbers(8, 1.1), &[2, 4]),
    ]
}

fn inputs(rank: usize) -> Tensor {
    let values: Vec<f64> = (0..6).map(|index| (index + 6 * rank) as f64 * 0.25 - 1.0).collect();
    Tensor::from_vec(values, &[2, 3]).unwrap()
}

fn forward(params: &[Tensor], x: &Tensor) -> Result<Tensor> {
    let hidden = (op::matmul(x, &op::t(&params[0])?)? + &params[1])?;
    op::matmul(&op::tanh(&hidden)?, &op::t(&params[2])?)
}

fn loss(params: &[Tensor], x: &Tensor) -> Result<Tensor> {
    let y = forward(params, x)?;
    op::mean(&(&y * &y)?, None)
}

fn grads(params: &[Tensor]) -> Vec<Option<Vec<f64>>> {
    let one = |param: &Tensor| param.grad().map(|grad| grad.to_vec::<f64>().unwrap());
    params.iter().map(one).collect()
}

fn reducer(
    params: &[Tensor],
    group: &Arc<dyn Collectives>,
    limits: &[usize],
    options: Options,
) -> Arc<Reducer> {
    let (mut buckets, _) = assign_buckets(params, limits, &[], &[]).unwrap();
    buckets.reverse();
    Reducer::new(params.to_vec(), &buckets, group.clone(), Vec::new(), options).unwrap()
}

fn pass(reducer: &Reducer, params: &[Tensor], x: &Tensor) -> Result<()> {
    reducer.prepare_for_forward();
    reducer.rebuild_buckets()?;
    let loss = loss(params, x)?;
    reducer.prepare_for_backward(std::slice::from_ref(&loss))?;
    loss.backward()
}

/// The gradients of one process with the inputs of all ranks.
fn expected(size: usize) -> Vec<Option<Vec<f64>>> {
    let params = model();
    let all: Vec<Tensor> = (0..size).map(inputs).collect();
    loss(&params, &op::cat(&all, 0).unwrap()).unwrap().backward().unwrap();
    grads(&params)
}

fn assert_close(found: &[Option<Vec<f64>>], wanted: &[Option<Vec<f64>>], tolerance: f64) {
    assert_eq!(found.len(), wanted.len());
    for (found, wanted) in found.iter().zip(wanted) {
        match (found, wanted) {
            (Some(found), Some(wanted)) => {
                assert_eq!(found.len(), wanted.len());
                for (a, b) in found.iter().zip(wanted) {
                    assert!((a - b).abs() <= tolerance, "{a} is not {b}");
                }
            }
            (found, wanted) => assert_eq!(found, wanted),
        }
    }
}

#[test]
fn buckets_are_closed_by_size_and_kind() {
    corten::init().unwrap();
    let of = |count: i64, dtype: DType| op::zeros(&[count], Some(dtype), None, None, None).unwrap();
    let tensors = [
        of(10, DType::Float32),
        of(20, DType::Float32),
        of(5, DType::Float64),
        of(30, DType::Float32),
    ];
    let (buckets, limits) = assign_buckets(&tensors, &[40, 100], &[], &[]).unwrap();
    // As PyTorch 2.15 says.
    assert_eq!(buckets, [vec![0], vec![1, 3], vec![2]]);
    assert_eq!(limits, [40, 100, 40]);
    let (buckets, _) =
        assign_buckets(&tensors, &[1 << 20], &[false, true, false, false], &[]).unwrap();
    assert_eq!(buckets, [vec![0, 3], vec![1], vec![2]]);
    let (buckets, _) = assign_buckets(&tensors, &[1 << 20], &[], &[3, 2, 1, 0]).unwrap();
    assert_eq!(buckets, [vec![3, 2, 0], vec![1]]);
    assert!(assign_buckets(&[], &[1], &[], &[]).is_err());
    assert!(assign_buckets(&tensors, &[], &[], &[]).is_err());
    assert!(assign_buckets(&tensors, &[1], &[true], &[]).is_err());
}

#[test]
fn gradients_equal_those_of_one_process() {
    corten::init().unwrap();
    for size in [1, 2, 3, 4] {
        let wanted = expected(size);
        for view in [false, true] {
            for limit in [1, 40, 1 << 20] {
                let found = on_ranks(size, move |rank, group| {
                    let params = model();
                    let options = Options {
                        gradient_as_bucket_view: view,
                        first_bucket_bytes_cap: limit,
                        bucket_bytes_cap: limit,
                        ..Options::default()
                    };
                    let reducer = reducer(&params, &group, &[limit], options);
                    let mut found = Vec::new();
                    for step in 0..3 {
                        pass(&reducer, &params, &inputs(rank)).unwrap();
                        assert_eq!(reducer.has_rebuilt_buckets(), step > 0);
                        found.push(grads(&params));
                        params.iter().for_each(|param| param.set_grad(None).unwrap());
                    }
                    found
                });
                for steps in &found {
                    steps.iter().for_each(|found| assert_close(found, &wanted, 1e-12));
                    assert_eq!(steps, &found[0], "ranks differ");
                }
            }
        }
    }
}

#[test]
fn sums_without_averaging_are_averaged_by_the_next_pass() {
    corten::init().unwrap();
    let found = on_ranks(2, |rank, group| {
        let params = model();
        let options = Options { gradient_as_bucket_view: rank == 0, ..Options::default() };
        let reducer = reducer(&params, &group, &[1 << 20], options);
        // No announcement: gradients stay this rank's own.
        loss(&params, &inputs(rank)).unwrap().backward().unwrap();
        let own = grads(&params);
        pass(&reducer, &params, &inputs(rank)).unwrap();
        (own, grads(&params))
    });
    assert_ne!(found[0].0, found[1].0);
    let doubled: Vec<_> = expected(2)
        .into_iter()
        .map(|grad| grad.map(|grad| grad.iter().map(|value| 2.0 * value).collect::<Vec<_>>()))
        .collect();
    for (_, sum) in &found {
        assert_close(sum, &doubled, 1e-12);
    }
}

/// Notes which buckets are sent, in order, and averages them.
struct Spy {
    hook: Arc<dyn CommHook>,
    sent: Mutex<Vec<(usize, bool, usize)>>,
}

impl CommHook for Spy {
    fn run(&self, bucket: Arc<GradBucket>) -> Result<Arc<dyn Pending>> {
        let parameters = bucket.parameters().len();
        self.sent.lock().unwrap().push((bucket.index(), bucket.is_last(), parameters));
        assert_eq!(bucket.gradients()?.len(), parameters);
        self.hook.run(bucket)
    }
}

#[test]
fn buckets_are_sent_in_order_by_the_hook() {
    corten::init().unwrap();
    let found = on_ranks(2, |rank, group| {
        let params = model();
        let reducer = reducer(&params, &group, &[1], Options::default());
        let hook = BuiltinHook::AllReduce.over(group.clone());
        let spy = Arc::new(Spy { hook, sent: Mutex::default() });
        reducer.register_comm_hook(spy.clone()).unwrap();
        let twice = reducer.register_comm_hook(spy.clone()).unwrap_err();
        assert!(twice.message().contains("can only be called once"), "{twice}");
        pass(&reducer, &params, &inputs(rank)).unwrap();
        (grads(&params), spy.sent.lock().unwrap().clone())
    });
    for (grads, sent) in &found {
        assert_close(grads, &expected(2), 1e-12);
        assert_eq!(sent[..], [(0, false, 1), (1, false, 1), (2, true, 1)]);
    }
}

#[test]
fn half_precision_halves_the_digits() {
    corten::init().unwrap();
    let found = on_ranks(2, |rank, group| {
        let params = model();
        let reducer = reducer(&params, &group, &[1 << 20], Options::default());
        reducer.register_comm_hook(BuiltinHook::Fp16Compress.over(group.clone())).unwrap();
        pass(&reducer, &params, &inputs(rank)).unwrap();
        (grads(&params), params[0].grad().unwrap().dtype())
    });
    for (grads, dtype) in &found {
        assert_close(grads, &expected(2), 2e-3);
        assert_eq!(*dtype, DType::Float64);
    }
    assert_eq!(found[0].0, found[1].0);
}

fn unused_model(params: &[Tensor], rank: usize) -> Result<Tensor> {
    // The second parameter is used by no rank, the third by rank 1 only.
    let used = op::sum(&(&params[0] * (rank as f64 + 1.0))?, None)?;
    if rank == 1 { used + op::sum(&params[2], None)? } else { Ok(used) }
}

#[test]
fn unused_parameters_are_found() {
    corten::init().unwrap();
    for view in [false, true] {
        let found = on_ranks(2, move |rank, group| {
            let params = model();
            let options = Options {
                find_unused_parameters: true,
                gradient_as_bucket_view: view,
                ..Options::default()
            };
            let reducer = reducer(&params, &group, &[1 << 20], options);
            let mut found = Vec::new();
            for _ in 0..2 {
                reducer.prepare_for_forward();
                reducer.rebuild_buckets().unwrap();
                let output = unused_model(&params, rank).unwrap();
                reducer.prepare_for_backward(std::slice::from_ref(&output)).unwrap();
                output.backward().unwrap();
                found.push(grads(&params));
                params.iter().for_each(|param| param.set_grad(None).unwrap());
            }
            found
        });
        for found in found.iter().flatten() {
            assert_eq!(found[0], Some(vec![1.5; 12]));
            assert_eq!(found[1], None, "no rank has used it");
            assert_eq!(found[2], Some(vec![0.5; 8]));
        }
    }
}

#[test]
fn parameters_without_gradients_are_named() {
    corten::init().unwrap();
    let found = on_ranks(2, |rank, group| {
        let params = model();
        let reducer = reducer(&params, &group, &[1 << 20], Options::default());
        reducer.prepare_for_forward();
        let output = unused_model(&params, rank).unwrap();
        reducer.prepare_for_backward(&[]).unwrap();
        output.backward().unwrap();
        reducer.check_finalized().unwrap_err().message().to_owned()
    });
    let start = "Expected to have finished reduction in the prior iteration before starting a new \
                 one. This error indicates that your module has parameters that were not used in \
                 producing loss. You can enable unused parameter detection";
    assert!(found[0].starts_with(start), "{}", found[0]);
    assert!(found[0].contains("did not receive grad for rank 0: 1 2\n"), "{}", found[0]);
    assert!(found[1].contains("did not receive grad for rank 1: 1\n"), "{}", found[1]);
}

#[test]
fn a_gradient_that_comes_twice_is_refused() {
    corten::init().unwrap();
    let found = on_ranks(1, |_, group| {
        let params = model();
        let names = [(2, "head.weight".to_owned())].into();
        let options = Options { find_unused_parameters: true, names, ..Options::default() };
        let reducer = reducer(&params, &group, &[1 << 20], options);
        reducer.prepare_for_forward();
        // The search sees the first output only, but the pass reaches the third parameter, too.
        let output = op::sum(&params[0], None).unwrap();
        reducer.prepare_for_backward(std::slice::from_ref(&output)).unwrap();
        let loss = (output + op::sum(&params[2], None).unwrap()).unwrap();
        loss.backward().unwrap_err().message().to_owned()
    });
    assert!(found[0].starts_with("Expected to mark a variable ready only once."), "{}", found[0]);
    assert!(found[0].contains("Parameter at index 2 with name head.weight has been marked"));
}

#[test]
fn a_static_graph_is_learned_from_the_first_pass() {
    corten::init().unwrap();
    let found = on_ranks(2, |rank, group| {
        let params = model();
        let reducer = reducer(&params, &group, &[1 << 20], Options::default());
        reducer.set_static_graph().unwrap();
        let mut found = Vec::new();
        for step in 0..3 {
            reducer.prepare_for_forward();
            assert_eq!(reducer.rebuild_buckets().unwrap(), step == 2);
            // Two passes over the first parameter, none over the second.
            let first = op::sum(&(&params[0] * (rank as f64 + 1.0)).unwrap(), None).unwrap();
            let second = op::sum(&(&params[2] * 3.0).unwrap(), None).unwrap();
            reducer.prepare_for_backward(&[]).unwrap();
            let again = op::sum(&params[0], None).unwrap();
            again.backward().unwrap();
            let loss = (first + second).unwrap();
            loss.backward().unwrap();
            if step == 0 {
                reducer.delay_all_reduce().unwrap();
            }
            found.push(grads(&params));
            params.iter().for_each(|param| param.set_grad(None).unwrap());
        }
        let late = reducer.set_static_graph().unwrap_err();
        assert!(late.message().contains("should be called before training loop starts"));
        found
    });
    for found in found.iter().flatten() {
        assert_eq!(found[0], Some(vec![2.5; 12]));
        assert_eq!(found[1], None);
        assert_eq!(found[2], Some(vec![3.0; 8]));
    }
}

#[test]
fn a_static_graph_that_changes_is_refused() {
    corten::init().unwrap();
    let found = on_ranks(1, |_, group| {
        let params = model();
        let reducer = reducer(&params, &group, &[1 << 20], Options::default());
        reducer.set_static_graph().unwrap();
        reducer.prepare_for_forward();
        reducer.prepare_for_backward(&[]).unwrap();
        op::sum(&params[0], None).unwrap().backward().unwrap();
        reducer.delay_all_reduce().unwrap();
        reducer.prepare_for_forward();
        reducer.prepare_for_backward(&[]).unwrap();
        let loss = op::sum(&params[2], None).unwrap();
        loss.backward().unwrap_err().message().to_owned()
    });
    assert!(
        found[0].starts_with("Your training graph has changed in this iteration"),
        "{}",
        found[0]
    );
}

#[test]
fn dtypes_have_buckets_of_their_own() {
    corten::init().unwrap();
    let found = on_ranks(2, |rank, group| {
        let params = vec![
            leaf(&[1.0, 2.0], &[2]),
            Tensor::from_slice(&[1.0_f32, 2.0], &[2]).unwrap().requires_grad_(true).unwrap(),
            leaf(&[3.0], &[]),
        ];
        params[2].set_grad_dtype(GradDType::Same).unwrap();
        let reducer = reducer(&params, &group, &[1 << 20], Options::default());
        assert_eq!(reducer.bucket_indices(), [vec![1], vec![0, 2]]);
        reducer.prepare_for_forward();
        let factor = rank as f64 + 1.0;
        let wide = (op::sum(&params[0], None).unwrap() * &params[2]).unwrap();
        let loss = (wide + op::sum(&params[1], None).unwrap()).unwrap();
        let loss = (loss * factor).unwrap();
        reducer.prepare_for_backward(&[]).unwrap();
        loss.backward().unwrap();
        (grads(&params), params[1].grad().unwrap().dtype())
    });
    for (found, dtype) in &found {
        assert_eq!(found[0], Some(vec![4.5, 4.5]));
        assert_eq!(found[1], Some(vec![1.5, 1.5]));
        assert_eq!(found[2], Some(vec![4.5]));
        assert_eq!(*dtype, DType::Float32);
    }
}

#[test]
fn models_that_differ_are_refused_on_every_rank() {
    corten::init().unwrap();
    let verify = |make: fn(usize) -> Vec<Tensor>| {
        on_ranks(2, move |rank, group| {
            verify_params(&*group, &make(rank)).map_err(|e| e.message().to_owned())
        })
    };
    assert_eq!(verify(|_| model()), [Ok(()), Ok(())]);
    let counts = verify(|rank| model().split_off(rank));
    assert_eq!(
        counts[1].as_ref().unwrap_err(),
        "DDP expects same model across all ranks, but Rank 1 has 2 params, while rank 0 has \
         inconsistent 3 params."
    );
    assert!(counts[0].is_err());
    let sizes = verify(|rank| vec![leaf(&[0.0; 4], if rank == 0 { &[4] } else { &[2, 2] })]);
    assert_eq!(
        sizes[1].as_ref().unwrap_err(),
        "[1]: params[0] in this process with sizes [2, 2] appears not to match sizes of the same \
         param in process 0."
    );
    assert!(sizes[0].is_err());
    let strides = verify(|rank| {
        let matrix = leaf(&[0.0; 6], &[2, 3]);
        vec![if rank == 0 { matrix } else { op::t(&leaf(&[0.0; 6], &[3, 2])).unwrap() }]
    });
    assert_eq!(
        strides[1].as_ref().unwrap_err(),
        "[1]: params[0] in this process with strides [1, 2] appears not to match strides of the \
         same param in process 0."
    );
}

#[test]
fn states_are_made_equal() {
    corten::init().unwrap();
    let found = on_ranks(3, |rank, group| {
        let of = |value: f64, sizes: &[i64]| {
            let tensor = Tensor::from_element(value + rank as f64).unwrap();
            op::clone(&op::expand(&tensor, sizes, false).unwrap(), None).unwrap()
        };
        let tensors = vec![
            of(1.0, &[2, 3]),
            op::t(&of(10.0, &[3, 2])).unwrap(),
            op::to_dtype(&of(20.0, &[5]), DType::Int64, false, false, None).unwrap(),
            of(30.0, &[]),
        ];
        for bytes in [1, 1 << 20] {
            broadcast_coalesced(&*group, &tensors, bytes, 1).unwrap();
        }
        tensors.iter().map(|tensor| tensor.to_vec::<f64>().unwrap()).collect::<Vec<_>>()
    });
    for found in found {
        assert_eq!(found, [vec![2.0; 6], vec![11.0; 6], vec![21.0; 5], vec![31.0]]);
    }
}

#[test]
fn the_user_may_end_passes() {
    corten::init().unwrap();
    let found = on_ranks(2, |rank, group| {
        let params = model();
        let options = Options { lazy_bucket_allocation: true, ..Options::default() };
        let reducer = reducer(&params, &group, &[1], options);
        reducer.set_manual_finalization(true);
        assert!(reducer.should_finalize_after_backward());
        assert!(reducer.finalize_backward_manual().is_err());
        pass(&reducer, &params, &inputs(rank)).unwrap();
        let open = reducer.check_finalized().unwrap_err();
        assert!(open.message().contains("finalize_backward() was not called"), "{open}");
        reducer.finalize_backward_manual().unwrap();
        reducer.check_finalized().unwrap();
        grads(&params)
    });
    found.iter().for_each(|found| assert_close(found, &expected(2), 1e-12));
}

#[test]
fn a_reducer_that_is_gone_leaves_passes_alone() {
    corten::init().unwrap();
    on_ranks(1, |_, group| {
        let params = model();
        let reducer = reducer(&params, &group, &[1 << 20], Options::default());
        reducer.prepare_for_forward();
        reducer.prepare_for_backward(&[]).unwrap();
        drop(reducer);
        loss(&params, &inputs(0)).unwrap().backward().unwrap();
        assert_close(&grads(&params), &expected(1), 1e-12);
        let twice = [params[0].clone(), params[0].clone()];
        let refused = Reducer::new(
            twice.to_vec(),
            &[vec![0, 1]],
            group.clone(),
            Vec::new(),
            Options::default(),
        );
        assert!(refused.err().unwrap().message().contains("duplicate grad accumulator"));
        let constant = [Tensor::from_element(1.0).unwrap()];
        let refused =
            Reducer::new(constant.to_vec(), &[vec![0]], group, Vec::new(), Options::default());
        assert!(refused.err().unwrap().message().contains("does not require a gradient"));
    });
}

#[test]
fn sparse_gradients_are_averaged() {
    corten::init().unwrap();
    let found = on_ranks(2, |rank, group| {
        let params = vec![leaf(&[0.0; 8], &[4, 2]), leaf(&[1.0, 1.0], &[2])];
        let (mut buckets, _) = assign_buckets(&params, &[1 << 20], &[true, false], &[]).unwrap();
        buckets.reverse();
        let sparse = vec![true, false];
        let reducer =
            Reducer::new(params.clone(), &buckets, group, sparse, Options::default()).unwrap();
        for _ in 0..2 {
            params.iter().for_each(|param| param.set_grad(None).unwrap());
            reducer.prepare_for_forward();
            reducer.rebuild_buckets().unwrap();
            let words: &[i64] = if rank == 0 { &[0, 1, 1] } else { &[1] };
            let words = Tensor::from_slice(words, &[words.len() as i64]).unwrap();
            let rows = op::embedding(&params[0], &words, -1, false, true).unwrap();
            let loss = op::sum(&(rows * &params[1]).unwrap(), None).unwrap();
            reducer.prepare_for_backward(&[]).unwrap();
            loss.backward().unwrap();
        }
        let grad = params[0].grad().unwrap();
        assert_eq!(grad.layout(), corten_core::Layout::Sparse);
        op::to_dense(&grad, None, None).unwrap().to_vec::<f64>().unwrap()
    });
    for found in found {
        assert_eq!(found, [0.5, 0.5, 1.5, 1.5, 0.0, 0.0, 0.0, 0.0]);
    }
}
