//! Back ends and groups: checks, strides, time, and who is missing.

use std::sync::Arc;
use std::thread::scope;
use std::time::Duration;

use corten_core::DeviceType;
use corten_dist::{
    Backend, Call, DistError, DistErrorKind, HashStore, ProcessGroup, ReduceOp, Store, ThreadWorld,
    Work,
};
use corten_ops::{Tensor, op};

const SHORT: Duration = Duration::from_millis(150);

fn backends(size: usize) -> Vec<Arc<Backend>> {
    corten::init().unwrap();
    let store: Arc<dyn Store> = Arc::new(HashStore::new());
    (0..size)
        .map(|rank| {
            let world = ThreadWorld::on_store(&*store, size).unwrap();
            Backend::new(world.engine(rank).unwrap(), Some(store.clone()))
        })
        .collect()
}

fn sum(tensor: &Tensor) -> Call {
    Call::AllReduce { tensor: tensor.clone(), op: ReduceOp::Sum }
}

fn ones(count: usize) -> Tensor {
    Tensor::from_vec(vec![1f32; count], &[count as i64]).unwrap()
}

#[test]
fn the_missing_rank_is_named() {
    let backends = backends(3);
    scope(|scope| {
        for rank in [0, 2] {
            let backend = &backends[rank];
            scope.spawn(move || {
                let work = backend.start(sum(&ones(1)), Some(SHORT), true).unwrap();
                let error = work.wait(None).unwrap_err();
                assert_eq!(error.kind(), DistErrorKind::Backend);
                assert!(error.message().contains("Rank 1 did not report."), "{error}");
                assert_eq!(work.exception().unwrap().message(), error.message());
            });
        }
    });
    let later = backends[0].start(sum(&ones(1)), None, true).unwrap();
    assert!(later.wait(None).is_err(), "a world that was aborted runs nothing more");
}

#[test]
fn strides_are_kept() {
    let backends = backends(2);
    let tensors: Vec<Tensor> = (0..2)
        .map(|_| Tensor::from_vec((0..6).map(f64::from).collect(), &[2, 3]).unwrap())
        .collect();
    let works: Vec<Arc<Work>> = backends
        .iter()
        .zip(&tensors)
        .map(|(backend, tensor)| {
            let turned = op::t(tensor).unwrap();
            assert!(!turned.is_contiguous());
            backend.start(sum(&turned), None, true).unwrap()
        })
        .collect();
    works.iter().for_each(|work| work.wait(None).unwrap());
    assert_eq!(tensors[0].to_vec::<f64>().unwrap(), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
    assert_eq!(backends[0].sequence(), 1);
}

#[test]
fn wrong_arguments_start_nothing() {
    let backends = backends(2);
    let root = Call::Broadcast { tensor: ones(1), root: 2 };
    let list = Call::AllGather { outputs: vec![ones(1)], input: ones(1) };
    let size = Call::ReduceScatterInto { output: ones(2), input: ones(3), op: ReduceOp::Sum };
    let bits = Call::AllReduce { tensor: ones(1), op: ReduceOp::BitOr };
    for (call, words) in [
        (root, "invalid root rank: 2"),
        (list, "expected length 2, got 1"),
        (size, "world_size times"),
        (bits, "Cannot use ReduceOp.BOR"),
    ] {
        let error = backends[0].start(call, None, true).err().unwrap();
        assert!(error.message().contains(words), "{error}");
    }
    assert_eq!(backends[0].sequence(), 0);
}

#[test]
fn barriers_name_who_does_not_come() {
    let backends = backends(3);
    scope(|scope| {
        for backend in &backends {
            scope.spawn(|| backend.monitored_barrier(None, false).unwrap());
        }
    });
    scope(|scope| {
        let watching = scope.spawn(|| backends[0].monitored_barrier(Some(SHORT), true));
        let waiting = scope.spawn(|| backends[2].monitored_barrier(Some(SHORT), true));
        let error = watching.join().unwrap().unwrap_err();
        assert_eq!(error.message(), "[Rank 0]: Rank 1 failed to pass monitoredBarrier in 150 ms");
        assert!(waiting.join().unwrap().is_err());
    });
}

#[test]
fn groups_choose_by_device() {
    let backends = backends(1);
    let group = ProcessGroup::new(0, 1, None);
    let error = group.start(sum(&ones(1)), None, true).err().unwrap();
    assert!(error.message().contains("No backend type associated with device type cpu"), "{error}");
    group.register(DeviceType::Cpu, backends[0].clone());
    group.start(sum(&ones(1)), None, true).unwrap().wait(None).unwrap();
    group.start(Call::Barrier { device: None }, None, true).unwrap().wait(None).unwrap();
    let batch = Call::Batch(vec![sum(&ones(1)), Call::Broadcast { tensor: ones(2), root: 0 }]);
    let work = group.start(batch, None, true).unwrap();
    work.wait(None).unwrap();
    assert_eq!((work.outputs().len(), group.device_types()), (2, vec![DeviceType::Cpu]));
}

#[test]
fn works_end_once() {
    let work = Work::new("allreduce", Vec::new());
    let joined = Work::join("all", vec![work.clone(), Work::done("barrier", Vec::new())]);
    assert!(!joined.is_completed());
    let (sender, receiver) = std::sync::mpsc::channel();
    work.on_end(move |work| sender.send(work.is_success()).unwrap());
    work.fail(DistError::network("the peer is gone"));
    work.complete();
    assert!(!receiver.recv().unwrap() && !work.is_success());
    assert_eq!(joined.wait(None).unwrap_err().message(), "the peer is gone");
    assert_eq!(joined.raw_error().unwrap().kind(), DistErrorKind::Network);
    assert!(Work::new("send", Vec::new()).wait(Some(SHORT)).is_err());
}

#[test]
fn parts_split_off() {
    let backends = backends(3);
    let parts: Vec<_> = backends
        .iter()
        .map(|backend| backend.engine().split(&[2, 0], Duration::from_secs(5)).unwrap())
        .collect();
    assert!(parts[1].is_none());
    let ranks: Vec<usize> = parts.iter().flatten().map(|part| part.rank()).collect();
    assert_eq!(ranks, [1, 0]);
}
