//! Accessors: strides, checks, what may be held beside what, threads.
#![allow(clippy::unwrap_used, clippy::panic)] // tests may

use corten_core::*;

fn tensor<T: Element>(values: Vec<T>, sizes: &[i64], strides: &[i64], offset: i64) -> TensorBase {
    let keys = KeySet::for_tensor(DeviceType::Cpu, Layout::Strided, T::DTYPE);
    let storage = Storage::from_vec(values);
    TensorBase::new_with_storage(storage, T::DTYPE, keys, sizes, strides, offset).unwrap()
}

fn message<T>(result: Result<T>) -> String {
    result.err().map(|error| error.message().to_owned()).unwrap()
}

#[test]
fn indices_follow_strides() {
    let numbers: Vec<i64> = (0..24).collect();
    for (sizes, strides, offset) in [
        ([2, 3, 4], [12, 4, 1], 0),
        ([4, 3, 2], [1, 4, 12], 0),
        ([2, 2, 2], [12, 6, 3], 1),
        ([2, 3, 4], [-12, 4, -1], 15),
        ([3, 2, 2], [0, 1, 0], 5),
        ([0, 3, 2], [6, 2, 1], 0),
    ] {
        let t = tensor(numbers.clone(), &sizes, &strides, offset);
        let a = TensorAccessor::<i64, 3>::new(&t).unwrap();
        assert_eq!(a.sizes().map(|size| size as i64), sizes);
        assert_eq!(a.strides().map(|stride| stride as i64), strides);
        for (i, j, k) in (0..sizes[0])
            .flat_map(|i| (0..sizes[1]).map(move |j| (i, j)))
            .flat_map(|(i, j)| (0..sizes[2]).map(move |k| (i, j, k)))
        {
            let expected = offset + i * strides[0] + j * strides[1] + k * strides[2];
            assert_eq!(a[[i, j, k]], expected);
            assert_eq!(a.at(i).at(j)[k as usize], expected);
            assert_eq!(*a.at(i).at(j).at(k).value(), expected);
        }
        assert_eq!(a.get(sizes), None);
        assert_eq!(a.get([-1, 0, 0]), None);
        assert_eq!(a.packed().rows().len() as i64, sizes[0]);
    }
    let scalar = tensor(vec![7u8], &[], &[], 0);
    assert_eq!(*TensorAccessor::<u8, 0>::new(&scalar).unwrap().packed().value(), 7);
}

#[test]
fn what_does_not_fit_is_refused() {
    let t = tensor(vec![1.0f64; 6], &[2, 3], &[3, 1], 0);
    assert_eq!(
        message(TensorAccessor::<f32, 2>::new(&t)),
        "expected scalar type Float but found Double"
    );
    assert_eq!(
        message(TensorAccessor::<f64, 3>::new(&t)),
        "TensorAccessor expected 3 dims but tensor has 2"
    );
    assert!(TensorAccessor::<f64, 0>::new(&TensorBase::undefined()).is_err());
    let twice = tensor(vec![1.0f64; 6], &[2, 3], &[1, 1], 0);
    assert!(message(TensorAccessorMut::<f64, 2>::new(&twice)).contains("single memory location"));
    assert!(TensorAccessor::<f64, 2>::new(&twice).is_ok());
    for (sizes, strides) in [([2, 3], [3, 1]), ([3, 2], [1, 3]), ([1, 6], [0, 1]), ([0, 9], [0, 0])]
    {
        let t = tensor(vec![1.0f64; 6], &sizes, &strides, 0);
        assert!(TensorAccessorMut::<f64, 2>::new(&t).is_ok(), "{sizes:?} {strides:?}");
    }
}

#[test]
fn a_written_tensor_is_held_alone() {
    let t = tensor(vec![1i32, 2, 3, 4], &[2, 2], &[2, 1], 0);
    let reading = TensorAccessor::<i32, 2>::new(&t).unwrap();
    assert!(TensorAccessor::<i32, 2>::new(&t).is_ok());
    assert!(TensorAccessorMut::<i32, 2>::new(&t).is_err());
    drop(reading);
    let mut writing = TensorAccessorMut::<i32, 2>::new(&t).unwrap();
    assert!(TensorAccessor::<i32, 2>::new(&t).is_err());
    writing.packed_mut().at_mut(1).fill(9);
    *writing.get_mut([0, 0]).unwrap() = 5;
    assert_eq!(writing.get_mut([0, 2]), None);
    drop(writing);
    assert_eq!(&Reader::<i32>::new(&t).unwrap()[..], [5, 2, 9, 9]);
}

#[test]
fn several_operands_are_held_at_once() {
    let a = tensor(vec![1.0f32, 2.0, 3.0, 4.0], &[2, 2], &[1, 2], 0);
    let out = tensor(vec![0.0f32; 2], &[2], &[1], 0);
    let set = AccessSet::acquire(&[(&a, Access::Read), (&out, Access::Write)]).unwrap();
    let read = set.accessor::<f32, 2>(0).unwrap();
    let mut written = set.accessor_mut::<f32, 1>(1).unwrap();
    for i in 0..2 {
        written[i] = read.at(i)[0] - read[[i, 1]];
    }
    assert!(set.accessor_mut::<f32, 2>(0).is_err(), "it is declared read");
    assert!(set.accessor::<f32, 1>(1).is_err(), "it is declared written");
    assert!(set.accessor_mut::<f32, 1>(1).is_err(), "it was taken");
    assert!(set.accessor::<f32, 1>(2).is_err(), "there is none");
    drop(set);
    assert_eq!(&Reader::<f32>::new(&out).unwrap()[..], [-2.0, -2.0]);
    let set = AccessSet::acquire(&[(&a, Access::Read), (&a, Access::Write)]).unwrap();
    assert!(set.accessor::<f32, 2>(0).is_err() && set.accessor_mut::<f32, 2>(1).is_err());
}

#[test]
fn truth_values_are_valid() {
    let storage = Storage::from_vec(vec![1u8, 7, 0, 1]);
    let keys = KeySet::for_tensor(DeviceType::Cpu, Layout::Strided, DType::Bool);
    let new = |strides, offset| {
        let storage = storage.clone();
        TensorBase::new_with_storage(storage, DType::Bool, keys, &[2], &[strides], offset).unwrap()
    };
    assert!(TensorAccessor::<bool, 1>::new(&new(1, 0)).is_err());
    assert!(TensorAccessor::<bool, 1>::new(&new(2, 0)).unwrap()[[0]]);
    assert!(TensorAccessorMut::<bool, 1>::new(&new(1, 0)).unwrap()[[1]]);
    assert!(TensorAccessor::<bool, 1>::new(&new(1, 0)).unwrap()[[1]]);
}

#[test]
fn threads_share_and_split() {
    let t = tensor((0..64i64).collect(), &[8, 8], &[1, 8], 0);
    let mut held = TensorAccessorMut::<i64, 2>::new(&t).unwrap();
    std::thread::scope(|threads| {
        let (mut first, second) = held.packed_mut().split_at(3);
        threads.spawn(move || first.fill(-1));
        for mut row in second.rows() {
            threads.spawn(move || (0..8).for_each(|i| row[i] *= 2));
        }
    });
    let packed = held.packed();
    let sum = std::thread::scope(|threads| {
        let rows =
            (0..8).map(|i| threads.spawn(move || (0..8).map(|j| packed[[i, j]]).sum::<i64>()));
        rows.collect::<Vec<_>>().into_iter().map(|row| row.join().unwrap()).sum::<i64>()
    });
    let expected: i64 = (0..64i64).map(|n| if n % 8 < 3 { -1 } else { 2 * n }).sum();
    assert_eq!(sum, expected);
}

#[test]
#[should_panic(expected = "index [2, 0] is out of bounds for an accessor of sizes [2, 2]")]
fn an_index_outside_stops() {
    let t = tensor(vec![1u8; 4], &[2, 2], &[2, 1], 0);
    let _ = TensorAccessor::<u8, 2>::new(&t).unwrap()[[2, 0]];
}
