//! Samplers and loaders: orders and numbers beside PyTorch's for the same seeds, worker threads, errors.
#![allow(clippy::unwrap_used)] // tests may

use corten::data::*;
use corten::prelude::*;
use corten::{ErrorKind, Generator};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/goldens/data_loader.txt");

/// The default generator, from which every loader draws, belongs to one test at a time.
static DEFAULT: Mutex<()> = Mutex::new(());

fn seeded(seed: u64) -> std::sync::MutexGuard<'static, ()> {
    let guard = DEFAULT.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    corten::manual_seed(seed);
    guard
}

fn golden(name: &str) -> Vec<i64> {
    let text = std::fs::read_to_string(GOLDEN).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name}|"))).unwrap();
    line.split_whitespace().map(|number| number.parse().unwrap()).collect()
}

fn check(name: &str, sampler: &dyn Sampler<Item = usize>) {
    let found: Vec<i64> = sampler.indices().unwrap().into_iter().map(|i| i as i64).collect();
    assert_eq!(found, golden(name), "{name}");
}

fn next_default() -> i64 {
    let drawn = op::empty_memory_format(&[], Some(DType::Int64), None, None, None, None).unwrap();
    op::random__from(&drawn, 0, Some(1_000_000), None).unwrap().to_element().unwrap()
}

fn numbers(count: usize) -> FnDataset<impl Fn(usize) -> Result<i64> + Send + Sync> {
    FnDataset::new(count, |index| Ok(index as i64))
}

/// The elements of all batches, one batch after another, -1 after each.
fn flat(loader: &DataLoader<Tensor>) -> Vec<i64> {
    let mut found = Vec::new();
    for batch in loader {
        found.extend(batch.unwrap().to_vec::<i64>().unwrap());
        found.push(-1);
    }
    found
}

#[test]
fn random_samplers_draw_as_torch() {
    let _guard = seeded(7);
    check("random", &RandomSampler::new(10));
    assert_eq!(next_default(), golden("random_next")[0]);
    corten::manual_seed(7);
    check("random_more", &RandomSampler::new(10).num_samples(25));
    corten::manual_seed(7);
    check("random_fewer", &RandomSampler::new(10).num_samples(4));
    corten::manual_seed(7);
    check("random_replaced", &RandomSampler::new(10).replacement(true).num_samples(70));
    let generator = Generator::cpu(3);
    let given = RandomSampler::new(10).generator(generator);
    check("random_given", &given);
    check("random_given_again", &given);
}

#[test]
fn weighted_and_subset_samplers_draw_as_torch() {
    let _guard = seeded(7);
    check("subset", &SubsetRandomSampler::new(vec![3, 5, 8, 13, 21]));
    let weights = tensor![0.1, 0.9, 0.4, 0.7, 3.0, 0.6].unwrap();
    let weighted = WeightedRandomSampler::new(&weights, 12).unwrap();
    check("weighted", &weighted.generator(Generator::cpu(5)));
    let single = WeightedRandomSampler::new(&weights, 5).unwrap().replacement(false);
    check("weighted_single", &single.generator(Generator::cpu(5)));
}

#[test]
fn distributed_parts_are_those_of_torch() {
    for (samples, replicas) in [(10, 3), (7, 4), (2, 5), (12, 4)] {
        for drop_last in [false, true] {
            for rank in 0..replicas {
                let sampler = DistributedSampler::new(samples, replicas, rank).unwrap();
                let sampler = sampler.seed(4).drop_last(drop_last);
                sampler.set_epoch(2);
                check(&format!("distributed_{samples}_{replicas}_{rank}_{drop_last}"), &sampler);
            }
        }
    }
    assert!(DistributedSampler::new(0, 2, 0).unwrap().indices().unwrap().is_empty());
    let error = DistributedSampler::new(4, 2, 2).err().unwrap();
    assert_eq!(error.message(), "Invalid rank 2, rank should be in the interval [0, 1]");
}

#[test]
fn splits_are_those_of_torch() {
    let parts = random_split(numbers(10), &[7, 3], Some(&Generator::cpu(42))).unwrap();
    let found: Vec<i64> =
        parts.iter().flat_map(|part| part.indices().iter().map(|&i| i as i64)).collect();
    assert_eq!(found, golden("split"));
    let parts =
        random_split_fractions(numbers(11), &[0.5, 0.3, 0.2], Some(&Generator::cpu(0))).unwrap();
    let lengths: Vec<i64> = parts.iter().map(|part| part.len() as i64).collect();
    assert_eq!(lengths, golden("fractions"));
    assert!(random_split(numbers(3), &[1, 1], None).is_err());
    assert!(random_split_fractions(numbers(3), &[0.5, 0.4], None).is_err());
}

#[test]
fn loaders_shuffle_as_torch_whatever_the_workers() {
    for workers in [0, 1, 3] {
        let _guard = seeded(11);
        let loader = DataLoader::new(numbers(10), 3).shuffle(true).workers(workers);
        assert_eq!(flat(&loader), golden("loader"), "{workers} workers");
        assert_eq!(flat(&loader), golden("loader_again"), "{workers} workers");
        assert_eq!(next_default(), golden("loader_next")[0], "{workers} workers");
        let given = DataLoader::new(numbers(10), 4).shuffle(true).drop_last(true);
        let given = given.generator(Generator::cpu(9)).workers(workers);
        assert_eq!(flat(&given), golden("loader_given"), "{workers} workers");
    }
}

#[test]
fn workers_have_the_seeds_and_numbers_of_torch() {
    let _guard = seeded(11);
    let draws = FnDataset::new(6, |_| {
        let info = worker_info().unwrap();
        let drawn = op::empty_memory_format(&[], Some(DType::Int64), None, None, None, None)?;
        op::random__from(&drawn, 0, Some(1_000_000), Some(info.generator()))?.to_element::<i64>()
    });
    let loader = DataLoader::new(draws, 1).workers(2);
    let found: Vec<i64> = flat(&loader).into_iter().filter(|&drawn| drawn >= 0).collect();
    assert_eq!(found, golden("worker_numbers"));
    corten::manual_seed(11);
    let seeds = FnDataset::new(4, |_| Ok(worker_info().unwrap().seed() as i64));
    assert_eq!(flat(&DataLoader::new(seeds, 2).workers(2)), golden("worker_seeds"));
}

#[test]
fn iterable_sets_are_shared_out() {
    let _guard = seeded(0);
    let part = |range: std::ops::Range<i64>| FnIterable::new(move || Ok(range.clone().map(Ok)));
    let chain = || ChainDataset::new(vec![part(0..5), part(10..13)]);
    for workers in [0, 1] {
        let loader = DataLoader::iterable(chain(), 3).workers(workers);
        assert_eq!(flat(&loader), [0, 1, 2, -1, 3, 4, 10, -1, 11, 12, -1]);
        let loader = DataLoader::iterable(chain(), 3).workers(workers).drop_last(true);
        assert_eq!(flat(&loader), [0, 1, 2, -1, 3, 4, 10, -1]);
    }
    // Each of two workers has the whole of it.
    let loader = DataLoader::iterable(part(0..3), 2).workers(2);
    assert_eq!(flat(&loader), [0, 1, -1, 0, 1, -1, 2, -1, 2, -1]);
    let single = DataLoader::iterable_unbatched(part(0..3));
    assert_eq!(single.iter().unwrap().collect::<Result<Vec<i64>>>().unwrap(), [0, 1, 2]);
    assert_eq!(DataLoader::iterable(part(0..3), 2).len(), None);
    let error = DataLoader::iterable(part(0..3), 2).shuffle(true).iter().err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Value);
}

#[test]
fn errors_and_panics_of_workers_come_to_the_caller() {
    let _guard = seeded(0);
    let broken = |index: usize| match index {
        2 => Err(corten::Error::new(ErrorKind::Index, "no such sample")),
        5 => panic!("a broken sample"),
        _ => Ok(index as i64),
    };
    let loader = DataLoader::new(FnDataset::new(8, broken), 2).workers(2);
    let batches: Vec<_> = loader.iter().unwrap().collect();
    assert_eq!(batches.len(), 4);
    let error = batches[1].as_ref().unwrap_err();
    assert_eq!((error.kind(), error.message()), (ErrorKind::Index, "no such sample"));
    let error = batches[2].as_ref().unwrap_err();
    assert_eq!(error.message(), "Caught a panic in DataLoader worker thread 0: a broken sample");
    assert_eq!(batches[3].as_ref().unwrap().to_vec::<i64>().unwrap(), [6, 7]);
    let loader = DataLoader::new(numbers(4), 1).workers(1).worker_init(|_| panic!("at the start"));
    let batches: Vec<_> = loader.iter().unwrap().collect();
    assert!(batches[0].as_ref().unwrap_err().message().contains("at the start"));
    assert_eq!(batches.len(), 1);
}

#[test]
fn slow_workers_time_out() {
    let _guard = seeded(0);
    let gate = Arc::new(Mutex::new(()));
    let held = gate.lock().unwrap();
    let waited = Arc::clone(&gate);
    let slow = FnDataset::new(2, move |index| {
        let _passed = waited.lock();
        Ok(index as i64)
    });
    let loader = DataLoader::new(slow, 1).workers(1).timeout(Duration::from_millis(20));
    let batches: Vec<_> = loader.iter().unwrap().collect();
    assert_eq!(batches.len(), 1);
    let message = batches[0].as_ref().unwrap_err().message().to_owned();
    assert_eq!(message, "DataLoader timed out after 0.02 seconds");
    drop(held);
}

#[test]
fn at_most_the_prefetch_factor_is_fetched_ahead() {
    let _guard = seeded(0);
    let fetched = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&fetched);
    let counted = FnDataset::new(100, move |index| {
        counter.fetch_add(1, Ordering::SeqCst);
        Ok(index as i64)
    });
    let loader = DataLoader::new(counted, 1).workers(2).prefetch_factor(3);
    let mut pass = loader.iter().unwrap();
    pass.next().unwrap().unwrap();
    std::thread::sleep(Duration::from_millis(50));
    assert!(fetched.load(Ordering::SeqCst) <= 7);
    // A pass that is left ends its threads.
    drop(pass);
    let seen = fetched.load(Ordering::SeqCst);
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(fetched.load(Ordering::SeqCst), seen);
}

#[test]
fn persistent_workers_stay() {
    let _guard = seeded(0);
    let starts = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&starts);
    let loader =
        DataLoader::new(numbers(6), 2).workers(2).persistent_workers(true).worker_init(move |_| {
            counter.fetch_add(1, Ordering::SeqCst);
            Ok(())
        });
    for _ in 0..3 {
        assert_eq!(flat(&loader), [0, 1, -1, 2, 3, -1, 4, 5, -1]);
    }
    // A pass may be left in the middle.
    loader.iter().unwrap().next().unwrap().unwrap();
    assert_eq!(flat(&loader), [0, 1, -1, 2, 3, -1, 4, 5, -1]);
    assert_eq!(starts.load(Ordering::SeqCst), 2);
    let part = FnIterable::new(|| Ok((0..3i64).map(Ok)));
    let loader = DataLoader::iterable(part, 2).workers(2).persistent_workers(true);
    for _ in 0..2 {
        assert_eq!(flat(&loader), [0, 1, -1, 0, 1, -1, 2, -1, 2, -1]);
    }
}

#[test]
fn out_of_order_batches_come_as_they_are_ready() {
    let _guard = seeded(0);
    let last = Arc::new(AtomicUsize::new(0));
    let fetched = Arc::clone(&last);
    let uneven = FnDataset::new(6, move |index| {
        // The first sample is ready after the last, which the other worker takes.
        while index == 0 && fetched.load(Ordering::SeqCst) < 5 {
            std::thread::yield_now();
        }
        fetched.fetch_max(index, Ordering::SeqCst);
        Ok(index as i64)
    });
    let loader = DataLoader::new(uneven, 1).workers(2).in_order(false);
    let mut found: Vec<i64> = flat(&loader).into_iter().filter(|&i| i >= 0).collect();
    assert_ne!(found[0], 0);
    found.sort_unstable();
    assert_eq!(found, [0, 1, 2, 3, 4, 5]);
}

#[test]
fn contradicting_options_are_refused() {
    let _guard = seeded(0);
    let message = |loader: DataLoader<Tensor>| loader.iter().err().unwrap().message().to_owned();
    let new = |size| DataLoader::new(numbers(4), size);
    let batches = || BatchSampler::new(SequentialSampler(4), 2, false).unwrap();
    for (loader, text) in [
        (new(0), "batch_size should be a positive integer value, but got batch_size=0"),
        (new(1).persistent_workers(true), "persistent_workers option needs num_workers > 0"),
        (new(1).timeout(Duration::from_secs(1)), "timeout must be 0 when num_workers is 0"),
        (
            new(1).sampler(SequentialSampler(4)).shuffle(true),
            "sampler option is mutually exclusive with shuffle",
        ),
        (
            new(2).batch_sampler(batches()),
            "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and \
             drop_last",
        ),
        (
            DataLoader::new(numbers(0), 2).shuffle(true),
            "num_samples should be a positive integer value, but got num_samples=0",
        ),
    ] {
        assert_eq!(message(loader), text);
    }
    assert_eq!(flat(&new(1).batch_sampler(batches())), [0, 1, -1, 2, 3, -1]);
    assert!(new(1).prefetch_factor(2).iter().is_err());
}

#[test]
fn empty_sets_have_no_batches() {
    let _guard = seeded(0);
    for workers in [0, 2] {
        let loader = DataLoader::new(numbers(0), 2).workers(workers);
        assert_eq!((loader.len(), loader.is_empty()), (Some(0), true));
        assert!(flat(&loader).is_empty());
        let none = FnIterable::new(|| Ok(std::iter::empty::<Result<i64>>()));
        assert!(flat(&DataLoader::iterable(none, 2).workers(workers)).is_empty());
    }
}

#[test]
fn nested_samples_are_collated() {
    let sample = |n: i64| {
        let named = BTreeMap::from([("a".to_owned(), (n, n as f32)), ("b".to_owned(), (0, 0.5))]);
        let hashed = HashMap::from([(1u8, n == 1)]);
        (named, vec![tensor![1.0, 2.0].unwrap()], [n, n + 1], "name", hashed)
    };
    let (named, list, array, names, hashed) = default_collate(vec![sample(1), sample(2)]).unwrap();
    assert_eq!(named["a"].0.to_vec::<i64>().unwrap(), [1, 2]);
    assert_eq!(named["a"].1.dtype(), DType::Float32);
    assert_eq!(list[0].sizes().as_slice(), [2, 2]);
    assert_eq!(array[1].to_vec::<i64>().unwrap(), [2, 3]);
    assert_eq!(names, ["name", "name"]);
    assert_eq!(hashed[&1].to_vec::<bool>().unwrap(), [true, false]);
    let uneven = default_collate(vec![vec![1i64], vec![1, 2]]).unwrap_err();
    assert_eq!(uneven.message(), "each element in list of batch should be of equal size");
    assert!(default_collate(vec![vec![1i64, 2], vec![1]]).is_err());
    assert!(default_collate(Vec::<i64>::new()).is_err());
    assert!(default_collate(vec![tensor![1.0].unwrap(), tensor![1.0, 2.0].unwrap()]).is_err());
}

#[test]
fn sets_of_sets() {
    let _guard = seeded(0);
    let concat = ConcatDataset::new(vec![numbers(2), numbers(0), numbers(3)]).unwrap();
    assert_eq!(concat.cumulative_sizes(), [2, 2, 5]);
    assert_eq!(flat(&DataLoader::new(concat, 5)), [0, 1, 0, 1, 2, -1]);
    assert!(ConcatDataset::new(vec![numbers(2)]).unwrap().get(2).is_err());
    let named = BTreeMap::from([("x", numbers(2)), ("y", numbers(2))]);
    let batch = DataLoader::new(StackDataset::new(named).unwrap(), 2).iter().unwrap().next();
    assert_eq!(batch.unwrap().unwrap()["y"].to_vec::<i64>().unwrap(), [0, 1]);
    let error = StackDataset::new((numbers(2), numbers(3))).err().unwrap();
    assert_eq!(error.message(), "Size mismatch between datasets");
}
