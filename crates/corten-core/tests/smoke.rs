//! The main road: make, view, read and write tensors.
use corten_core::*;

#[test]
fn make_write_view_read() {
    let t = TensorBase::empty(&[2, 3], DType::Float32).unwrap();
    assert_eq!(t.strides().as_slice(), [3, 1]);
    for (i, x) in Writer::<f32>::new(&t).unwrap().iter_mut().enumerate() {
        *x = i as f32;
    }
    let v = t.as_view_of(&[3], &[1], 3).unwrap();
    assert_eq!(&Reader::<f32>::new(&v).unwrap()[..], [3.0, 4.0, 5.0]);
    t.bump_version();
    assert_eq!(v.version().unwrap(), 1);
    let r = Reader::<f32>::new(&v).unwrap();
    let w = Writer::<f32>::new(&t).unwrap_err();
    assert!(w.message().contains("conflicting access"), "{w}");
    drop(r);
    let s = match_dtype!(t.dtype(), "x", Float, T => Ok(T::DTYPE.itemsize())).unwrap();
    assert_eq!(s, 4);
    t.resize(&[2, 2, 2, 2, 2, 2, 2], None).unwrap();
    assert_eq!(t.sizes().len(), 7);
    assert_eq!(t.strides().as_slice(), [64, 32, 16, 8, 4, 2, 1]);
    let g = Generator::cpu(0);
    assert_eq!(g.lock().random(), 2357136044);
    assert_eq!(g.get_state().len(), 5056);
    let e = TensorBase::empty(&[1_000_000_000_000_000], DType::Float32).unwrap_err();
    println!("{e}");
}
