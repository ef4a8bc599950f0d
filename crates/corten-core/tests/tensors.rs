//! What a tensor promises: views, versions, copies, in-place changes, lazy memory, errors.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::too_many_lines)]

use std::sync::Arc;

use corten_core::geometry::*;
use corten_core::*;

fn empty(sizes: &[i64]) -> TensorBase {
    TensorBase::empty(sizes, DType::Float32).unwrap()
}

fn counting(sizes: &[i64]) -> TensorBase {
    let t = empty(sizes);
    for (value, element) in Writer::<f32>::new(&t).unwrap().iter_mut().enumerate() {
        *element = value as f32;
    }
    t
}

fn message<T>(result: Result<T>) -> String {
    match result {
        Ok(_) => panic!("expected an error"),
        Err(error) => error.message().to_owned(),
    }
}

#[test]
fn views_share_storage_and_version() {
    let t = counting(&[2, 3]);
    let view = t.as_view_of(&[3], &[1], 3).unwrap();
    assert_eq!(&Reader::<f32>::new(&view).unwrap()[..], [3.0, 4.0, 5.0]);
    Writer::<f32>::new(&view).unwrap()[0] = 9.0;
    assert_eq!(Reader::<f32>::new(&t).unwrap()[3], 9.0);
    view.bump_version();
    assert_eq!((t.version().unwrap(), view.version().unwrap()), (1, 1));
    assert!(t.shares_version_with(&view) && t.is_alias_of(&view) && !t.is_same(&view));
    assert_eq!(view.data_ptr().addr() - t.data_ptr().addr(), 12);
    drop(t);
    assert_eq!(view.storage().unwrap().use_count(), 2);
    assert_eq!(Reader::<f32>::new(&view).unwrap()[0], 9.0);
}

#[test]
fn the_undefined_tensor() {
    let none = TensorBase::undefined();
    assert!(!none.defined() && none.is_same(&TensorBase::default()));
    assert_eq!((none.dtype(), none.device_opt(), none.numel()), (DType::Undefined, None, 0));
    assert!(none.storage().is_err() && none.key_set().is_empty() && none.data_ptr().is_null());
    assert!(none.set_sizes_and_strides(&[1], &[1], 0).is_err());
    assert!(none.resize(&[2], None).is_err());
    for _ in 0..10 {
        drop(none.clone());
    }
}

#[test]
fn keys_follow_device_and_mode() {
    use DispatchKey::*;
    let t = empty(&[1]);
    let expected = KeySet::of(&[CPU, ADInplaceOrView, AutogradCPU, AutocastCPU]);
    assert_eq!(t.key_set(), expected);
    let meta = TensorBase::empty(&[2, 3], TensorOptions::from(Device::META)).unwrap();
    assert_eq!(meta.key_set(), KeySet::of(&[Meta, ADInplaceOrView, AutogradMeta]));
    assert!(meta.data_ptr().is_null());
    assert_eq!(meta.storage().unwrap().nbytes(), 24);
    let inference = {
        let _guard = InferenceModeGuard::new(true);
        empty(&[1])
    };
    assert_eq!(inference.key_set(), KeySet::of(&[CPU, AutocastCPU]));
    assert!(inference.is_inference());
    let text = message(inference.version());
    assert_eq!(text, "Inference tensors do not track version counter.");
    inference.bump_version();
    assert!(inference.shares_version_with(&inference.alias().unwrap()));
}

#[test]
fn versions() {
    let t = counting(&[2]);
    assert_eq!(t.version().unwrap(), 0);
    let data = t.shallow_copy_and_detach(VersionCounter::Own, true).unwrap();
    let detached = t.shallow_copy_and_detach(VersionCounter::Shared, true).unwrap();
    data.bump_version();
    detached.bump_version();
    assert_eq!((t.version().unwrap(), data.version().unwrap()), (1, 1));
    assert!(t.shares_version_with(&detached) && !t.shares_version_with(&data));
    // The counter outlives the tensor it was made for.
    let second = detached.as_view_of(&[1], &[1], 0).unwrap();
    drop(t);
    second.bump_version();
    drop(second);
    assert_eq!(detached.version().unwrap(), 2);
}

#[test]
fn the_alias_of_a_fresh_tensor_takes_its_counter() {
    for sizes in [&[2_i64, 3][..], &[1; 7]] {
        let mut fresh = empty(sizes);
        fresh.bump_version();
        let alias = fresh.alias_of_fresh().unwrap();
        assert_eq!((fresh.geometry(), fresh.key_set()), (alias.geometry(), alias.key_set()));
        assert!(fresh.is_alias_of(&alias) && fresh.shares_version_with(&alias));
        assert_eq!(fresh.is_fresh(), sizes.len() < 6);
        alias.bump_version();
        let view = fresh.as_view_of(&[1], &[1], 0).unwrap();
        drop(alias);
        view.bump_version();
        assert_eq!((fresh.version().unwrap(), view.version().unwrap()), (3, 3));
        let mut second = fresh.alias_of_fresh().unwrap();
        let third = second.alias_of_fresh().unwrap();
        drop(fresh);
        third.bump_version();
        assert_eq!((second.version().unwrap(), view.version().unwrap()), (4, 4));
    }
}

#[test]
fn aliases_are_as_shallow_copies() {
    let base = TensorBase::empty(&[2, 3, 4, 5, 6, 7], DType::Int16).unwrap();
    let views = [
        base.as_view_of(&[3, 2], &[1, 3], 4).unwrap(),
        base.as_view_of(&[], &[], 0).unwrap(),
        base.as_view_of(&[2, 1, 2, 2, 1], &[8, 0, 2, 4, 9], 1).unwrap(),
        base.clone(),
    ];
    for view in views {
        let alias = view.alias().unwrap();
        let copy = view.shallow_copy_and_detach(VersionCounter::Shared, true).unwrap();
        assert_eq!(alias.geometry(), copy.geometry());
        assert_eq!((alias.dtype(), alias.device()), (copy.dtype(), copy.device()));
        assert_eq!(alias.key_set(), copy.key_set());
        assert_eq!(alias.is_contiguous(), copy.is_contiguous());
        assert_eq!(alias.is_non_overlapping_and_dense(), copy.is_non_overlapping_and_dense());
        assert!(alias.is_alias_of(&view) && alias.shares_version_with(&view));
        assert!(alias.autograd_meta().is_none() && alias.allows_metadata_change());
    }
}

#[test]
fn blocks_are_copied_where_both_lie_alike() {
    let source = TensorBase::empty(&[2, 3], DType::Int32).unwrap();
    Writer::<i32>::new(&source).unwrap().copy_from_slice(&[1, 2, 3, 4, 5, 6]);
    let base = TensorBase::empty(&[8], DType::Int32).unwrap();
    assert!(base.clear_block().unwrap());
    let part = base.as_view_of(&[2, 3], &[3, 1], 1).unwrap();
    assert!(part.copy_block_from(&source).unwrap());
    assert_eq!(Reader::<i32>::new(&base).unwrap()[..], [0, 1, 2, 3, 4, 5, 6, 0]);
    // Overlapping parts of one storage are copied as if they did not overlap.
    let shifted = base.as_view_of(&[2, 3], &[3, 1], 2).unwrap();
    assert!(shifted.copy_block_from(&part).unwrap());
    assert_eq!(Reader::<i32>::new(&base).unwrap()[..], [0, 1, 1, 2, 3, 4, 5, 6]);
    let refused = [
        base.as_view_of(&[2, 3], &[1, 2], 0).unwrap(),
        base.as_view_of(&[2, 3], &[4, 1], 0).unwrap(),
        base.as_view_of(&[3, 2], &[2, 1], 0).unwrap(),
        TensorBase::empty(&[2, 3], DType::Float32).unwrap(),
        TensorBase::empty(&[2, 3], TensorOptions::from(Device::META)).unwrap(),
    ];
    for other in refused {
        assert!(!other.copy_block_from(&source).unwrap());
    }
    let gaps = base.as_view_of(&[2, 3], &[4, 1], 0).unwrap();
    assert!(!gaps.clear_block().unwrap());
    assert_eq!(Reader::<i32>::new(&base).unwrap()[..], [0, 1, 1, 2, 3, 4, 5, 6]);
    let beyond = base.as_view_of(&[2, 3], &[3, 1], 5).unwrap();
    // Whoever asked goes on to the kernel, which says what is wrong.
    assert!(!beyond.copy_block_from(&source).unwrap() && !beyond.clear_block().unwrap());
    let _reading = Reader::<i32>::new(&base).unwrap();
    assert!(part.copy_block_from(&source).is_err());
}

#[test]
fn resize_grows_and_never_shrinks() {
    let t = TensorBase::empty(&[6], DType::Int64).unwrap();
    Writer::<i64>::new(&t).unwrap().copy_from_slice(&[0, 1, 2, 3, 4, 5]);
    t.resize(&[2, 2], None).unwrap();
    assert_eq!(t.storage().unwrap().nbytes(), 48);
    t.resize(&[4, 4], None).unwrap();
    assert_eq!(t.storage().unwrap().nbytes(), 128);
    assert_eq!(Reader::<i64>::new(&t).unwrap()[..6], [0, 1, 2, 3, 4, 5]);
    t.resize(&[2, 2, 2, 2], Some(MemoryFormat::ChannelsLast)).unwrap();
    assert_eq!(t.strides().as_slice(), [8, 1, 4, 2]);
    assert_eq!(message(t.resize(&[1 << 62, 4], None)), "numel: integer multiplication overflow");
    let lent = Storage::from_vec(vec![0_f32; 4]);
    let keys = KeySet::of(&[DispatchKey::CPU]);
    let fixed = TensorBase::new_with_storage(lent, DType::Float32, keys, &[4], &[1], 0).unwrap();
    let text = message(fixed.resize(&[100], None));
    assert_eq!(text, "Trying to resize storage that is not resizable");
}

#[test]
fn set_data_and_metadata_guard() {
    let (t, other) = (counting(&[2, 3]), TensorBase::empty(&[5], DType::Int32).unwrap());
    t.bump_version();
    t.set_data(&other).unwrap();
    assert_eq!((t.dtype(), t.sizes().as_slice()), (DType::Int32, &[5_i64][..]));
    assert!(t.is_alias_of(&other));
    assert_eq!(t.version().unwrap(), 1);
    let meta = TensorBase::empty(&[5], TensorOptions::from(Device::META)).unwrap();
    assert!(message(t.set_data(&meta)).contains("incompatible tensor type"));
    let strict = t.shallow_copy_and_detach(VersionCounter::Own, false).unwrap();
    assert!(!strict.allows_metadata_change());
    assert!(message(strict.resize(&[9], None)).contains("is not allowed on a Tensor created from"));
    assert!(strict.set_sizes_and_strides(&[1], &[1], None).is_err());
    strict.set_allow_metadata_change(true);
    strict.resize(&[3], None).unwrap();
}

#[test]
fn set_binds_another_storage_and_grows_it() {
    let (t, storage) = (counting(&[2]), Storage::new(8, Device::CPU).unwrap());
    t.set_storage_and_geometry(storage.clone(), 1, &[2, 2], &[2, 1]).unwrap();
    assert_eq!((t.storage_offset(), storage.nbytes()), (1, 20));
    let set = |offset, sizes: &[i64], strides: &[i64]| {
        message(t.set_storage_and_geometry(storage.clone(), offset, sizes, strides))
    };
    assert_eq!(set(-1, &[1], &[1]), "Tensor: invalid storage offset -1");
    assert_eq!(set(0, &[1], &[1, 1]), "unequal size length (1) and stride length (2)");
    // Negative strides are fine as long as they stay inside.
    t.set_storage_and_geometry(storage.clone(), 2, &[3], &[-1]).unwrap();
    assert!(set(1, &[3], &[-1]).contains("out of bounds"));
}

#[test]
fn exchanging_a_storage_under_a_reader() {
    let (t, other) = (counting(&[4]), counting(&[2]));
    let weak = t.storage().unwrap().downgrade();
    let reader = Reader::<f32>::new(&t).unwrap();
    t.set_data(&other).unwrap();
    assert!(weak.upgrade().is_some(), "still being read");
    assert_eq!(&reader[..], [0.0, 1.0, 2.0, 3.0]);
    drop(reader);
    // A thread of another test that leaves at the same time may be the one that drops it.
    let is_gone = |_| {
        std::thread::yield_now();
        weak.upgrade().is_none()
    };
    assert!((0..100_000).any(is_gone), "collected when the reader left");
}

#[test]
fn conflicting_access_in_one_thread() {
    let t = counting(&[2]);
    let view = t.as_view_of(&[1], &[1], 1).unwrap();
    let reader = Reader::<f32>::new(&t).unwrap();
    let second = Reader::<f32>::new(&view).unwrap();
    assert!(message(Writer::<f32>::new(&view)).contains("conflicting access to a storage"));
    assert!(t.storage().unwrap().resize(100).is_err());
    drop(reader);
    assert!(Writer::<f32>::new(&view).is_err());
    drop(second);
    let writer = Writer::<f32>::new(&t).unwrap();
    assert!(Reader::<f32>::new(&view).is_err());
    assert!(AccessSet::acquire(&[(&view, Access::Read), (&empty(&[1]), Access::Write)]).is_err());
    drop(writer);
    Reader::<f32>::new(&view).unwrap();
}

/// An operand that is read through a slice is not handed out for writing beside it, and the other way round.
#[test]
fn slices_of_one_operand_do_not_overlap() {
    let a = counting(&[4]);
    let set = AccessSet::acquire(&[(&a, Access::Write)]).unwrap();
    let read = set.read::<f32>(0).unwrap();
    assert_eq!((read[1], set.read::<f32>(0).unwrap()[2]), (1.0, 2.0));
    assert!(set.write::<f32>(0).is_err(), "is being read");
    drop(set);
    let set = AccessSet::acquire(&[(&a, Access::Write)]).unwrap();
    set.write::<f32>(0).unwrap()[0] = 5.0;
    assert!(set.read::<f32>(0).is_err(), "is being written");
    assert!(set.write::<f32>(0).is_err(), "was taken already");
}

#[test]
fn access_sets_take_each_storage_once() {
    let (a, b) = (counting(&[4]), counting(&[4]));
    let head = a.as_view_of(&[2], &[1], 0).unwrap();
    let tail = a.as_view_of(&[2], &[1], 2).unwrap();
    let none = TensorBase::undefined();
    let set = AccessSet::acquire(&[
        (&head, Access::Write),
        (&tail, Access::Read),
        (&b, Access::Read),
        (&none, Access::Read),
    ])
    .unwrap();
    assert_eq!(set.len(), 4);
    assert_eq!(set.read::<f32>(2).unwrap()[3], 3.0);
    assert!(set.write::<f32>(0).is_err(), "shares its storage with operand 1");
    assert!(set.write::<f32>(2).is_err(), "not declared written");
    assert!(set.read::<i32>(2).is_err(), "another dtype");
    assert!(set.read_ptr::<f32>(2).is_ok() && set.write_ptr::<f32>(1).is_err());
    assert!(set.byte_ptr(3).is_null() && set.byte_ptr(9).is_null());
    let distance = set.byte_ptr(1).addr() - set.byte_ptr(0).addr();
    assert_eq!((distance, set.extent(0).1), (8, 16));
    drop(set);
    let many: Vec<TensorBase> = (0..200).map(|_| counting(&[1])).collect();
    let wanted: Vec<_> = many.iter().chain(&many).map(|t| (t, Access::Write)).collect();
    let holds = AccessSet::acquire(&wanted).unwrap().into_holds();
    assert!(Reader::<f32>::new(&many[150]).is_err());
    drop(holds);
    let set = AccessSet::acquire(&[(&b, Access::Write), (&a, Access::Read)]).unwrap();
    let (out, input) = (set.write::<f32>(0).unwrap(), set.read::<f32>(1).unwrap());
    out.copy_from_slice(input);
    assert!(set.write::<f32>(0).is_err() && set.read::<f32>(0).is_err(), "handed out already");
}

#[test]
fn slices_are_checked() {
    let t = counting(&[2, 3]);
    let column = t.as_view_of(&[2], &[3], 0).unwrap();
    assert!(message(Reader::<f32>::new(&column)).contains("contiguous"));
    let beyond = t.as_view_of(&[9], &[1], 0).unwrap();
    assert!(message(Reader::<f32>::new(&beyond)).contains("out of bounds for storage"));
    let before = t.as_view_of(&[1], &[1], -1).unwrap();
    assert!(Reader::<f32>::new(&before).is_err());
    let keys = t.key_set();
    let bytes = t.as_view_with(DType::UInt8, keys, &[8], &[1], 1).unwrap();
    assert_eq!(Reader::<u8>::new(&bytes).unwrap().len(), 8);
    let bools = t.as_view_with(DType::Bool, keys, &[8], &[1], 0).unwrap();
    assert!(message(Reader::<bool>::new(&bools)).contains("bytes other than 0 and 1"));
    let meta = TensorBase::empty(&[2], TensorOptions::from(Device::META)).unwrap();
    assert!(Reader::<f32>::new(&meta).is_err());
    assert_eq!(Reader::<f32>::new(&empty(&[0, 3])).unwrap().len(), 0);
}

#[test]
fn materialise_hooks_and_refusals() {
    let t = counting(&[2]);
    let storage = t.storage().unwrap();
    let original = storage.data_ptr();
    let hook: Materialise = Box::new(|old, nbytes| {
        let allocator = get_allocator(DeviceType::Cpu)?;
        // SAFETY: the old memory has `nbytes` bytes.
        unsafe { allocator.clone_data(old.get(), nbytes) }
    });
    storage.set_materialise(hook).unwrap();
    assert!(storage.set_materialise(Box::new(|old, _| Ok(old))).is_err(), "only one at a time");
    assert_eq!(Reader::<f32>::new(&t).unwrap()[1], 1.0);
    assert_eq!(storage.data_ptr(), original, "reading does not copy");
    assert_eq!(Writer::<f32>::new(&t).unwrap()[1], 1.0);
    assert_ne!(storage.data_ptr(), original, "writing does");
    storage.set_write_error(Some("read-only".into()));
    assert_eq!(message(Writer::<f32>::new(&t)), "read-only");
    Reader::<f32>::new(&t).unwrap();
    storage.set_write_error(None);
    storage.set_access_error(Some("gone".into()));
    assert_eq!(message(Reader::<f32>::new(&t)), "gone");
    storage.set_access_error(None);
    Writer::<f32>::new(&t).unwrap();
}

#[test]
fn lazy_memory() {
    let t = TensorBase::uninitialized(Device::CPU).unwrap();
    assert!(!t.dtype_initialized() && t.storage_initialized());
    assert!(t.lazy().data::<f32>().is_err());
    t.lazy().resize(&[2, 3]).unwrap();
    assert!(!t.storage_initialized());
    assert!(!t.lazy().mutable_data::<f32>().unwrap().is_null());
    assert!(t.lazy().data::<f32>().is_ok() && t.lazy().data::<i32>().is_err());
    Writer::<f32>::new(&t).unwrap().copy_from_slice(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);

    t.lazy().reshape(&[3, 2]).unwrap();
    assert_eq!(Reader::<f32>::new(&t).unwrap()[5], 5.0);
    assert!(message(t.lazy().reshape(&[7])).contains("should use Resize"));

    // Shrinking keeps the memory, growing frees it until the next access.
    let before = t.data_ptr();
    t.lazy().resize(&[2]).unwrap();
    assert_eq!(t.data_ptr(), before);
    t.lazy().resize(&[100]).unwrap();
    assert!(!t.storage_initialized() && t.storage().unwrap().nbytes() == 0);

    // A buffer is reused under another dtype if it is large enough.
    t.lazy().resize(&[4]).unwrap();
    let floats = t.lazy().mutable_data::<f32>().unwrap();
    assert_eq!(t.lazy().mutable_data::<i32>().unwrap().addr(), floats.addr());
    assert_eq!(t.dtype(), DType::Int32);
    t.lazy().mutable_data::<f64>().unwrap();
    assert_eq!(t.storage().unwrap().nbytes(), 32);

    t.lazy().free_memory().unwrap();
    assert!(!t.storage_initialized() && t.sizes().as_slice() == [4]);
}

#[test]
fn lazy_growth() {
    let t = counting(&[2, 2]);
    t.lazy().extend(1, 100.0).unwrap();
    assert_eq!(t.sizes().as_slice(), [3, 2]);
    assert_eq!(t.storage().unwrap().nbytes(), 32, "grown by a hundred percent");
    assert_eq!(Reader::<f32>::new(&t).unwrap()[..4], [0.0, 1.0, 2.0, 3.0]);
    let before = t.data_ptr();
    t.lazy().extend(1, 100.0).unwrap();
    assert_eq!((t.data_ptr(), t.sizes().as_slice()), (before, &[4_i64, 2][..]));
    t.lazy().reserve_space(50).unwrap();
    assert_eq!((t.sizes().as_slice(), t.storage().unwrap().nbytes()), (&[4_i64, 2][..], 400));
    // Reserved memory stays when the tensor shrinks.
    t.lazy().resize(&[1, 2]).unwrap();
    assert_eq!(t.storage().unwrap().nbytes(), 400);

    let shared = t.as_view_of(&[1], &[1], 0).unwrap();
    assert!(t.lazy().reserve_space(1000).is_err(), "the memory is shared");
    t.lazy().free_memory().unwrap();
    assert!(!shared.data_ptr().is_null(), "the other one keeps it");

    let target = TensorBase::uninitialized(Device::CPU).unwrap();
    assert!(target.lazy().share_data(&shared).is_err(), "sizes differ");
    target.lazy().resize(&[1]).unwrap();
    target.lazy().share_data(&shared).unwrap();
    assert!(target.is_alias_of(&shared) && target.dtype() == DType::Float32);
}

#[test]
fn shallow_copies_carry_rare_properties() {
    struct Tag(u32);
    impl BackendMeta for Tag {
        fn for_copy(self: Arc<Self>) -> Arc<dyn BackendMeta> {
            Arc::new(Tag(self.0 + 1))
        }
        fn as_any(&self) -> &dyn std::any::Any {
            self
        }
    }
    let t = empty(&[2]);
    t.update_extra_meta(|extra| {
        extra.backend = Some(Arc::new(Tag(1)));
        extra.names = Some(Box::new([Some("n".into())]));
        extra.storage_error = Some("no storage for you".into());
    });
    let copy = t.shallow_copy_and_detach(VersionCounter::Own, true).unwrap();
    let extra = copy.extra_meta().unwrap();
    let tag = extra.backend.unwrap();
    assert_eq!(tag.as_any().downcast_ref::<Tag>().unwrap().0, 2);
    assert_eq!(copy.names().unwrap()[0].as_deref(), Some("n"));
    assert_eq!(message(copy.storage()), "no storage for you");
}

#[test]
fn names_follow_copies_and_not_views() {
    let name = |text: &str| Some(Arc::from(text));
    let t = empty(&[2, 3]);
    assert!(!t.has_names() && t.names().is_none() && t.dim_names() == [None, None]);
    t.set_names(Some(&[name("n"), None])).unwrap();
    assert!(t.has_names() && names_in_use() && t.key_set().has(DispatchKey::Named));
    assert_eq!(t.key_set().highest_key(), DispatchKey::Named);
    for copy in [t.alias().unwrap(), t.shallow_copy_and_detach(VersionCounter::Own, true).unwrap()]
    {
        assert_eq!(copy.dim_names(), [name("n"), None]);
    }
    let view = t.as_view_of(&[3, 2], &[1, 3], 0).unwrap();
    assert!(!view.has_names() && view.names().is_none());
    view.shallow_copy_from(&t).unwrap();
    assert_eq!(view.dim_names(), [name("n"), None]);
    view.shallow_copy_from(&empty(&[4])).unwrap();
    assert!(!view.has_names() && view.dim_names() == [None]);
    t.set_names(Some(&[None, None])).unwrap();
    assert!(!t.has_names());
    assert_eq!(
        message(t.set_names(Some(&[name("n")]))),
        "Number of names (1) and number of dimensions in tensor (2) do not match. Attempted to create \
         a tensor with names ['n']"
    );
    assert_eq!(
        message(t.set_names(Some(&[name("n"), name("n")]))),
        "Cannot construct a tensor with duplicate names. Got names: ['n', 'n']."
    );
    assert!(message(t.set_names(Some(&[name("1"), None]))).starts_with("Invalid name"));
    assert!(TensorBase::undefined().set_names(None).is_ok());
}

#[test]
fn shape_policies_answer_for_tensors_without_data() {
    struct Wrapper;
    impl ShapePolicy for Wrapper {
        fn sizes(&self) -> Option<Dims> {
            Some(Dims::from_slice(&[7, 8]))
        }
        fn device(&self) -> Option<Device> {
            Some(Device::cuda(3))
        }
    }
    let meta = TensorBase::empty(&[2], TensorOptions::from(Device::META)).unwrap();
    meta.set_shape_policy(Some(Arc::new(Wrapper))).unwrap();
    assert_eq!((meta.dim(), meta.numel(), meta.size(-1).unwrap()), (2, 56, 8));
    assert_eq!(meta.device(), Device::cuda(3));
    assert_eq!(meta.geometry().sizes.as_slice(), [2]);
    meta.set_shape_policy(None).unwrap();
    assert_eq!(meta.numel(), 2);
    assert!(empty(&[1]).set_shape_policy(Some(Arc::new(Wrapper))).is_err());
}

#[test]
fn errors_in_the_words_programs_know() {
    let options = TensorOptions::new();
    let make = |sizes: &[i64]| message(TensorBase::empty(sizes, options));
    assert_eq!(make(&[-1]), "Trying to create tensor with negative dimension -1: [-1]");
    assert_eq!(
        make(&[1_000_000_000_000_000]),
        "[enforce fail at alloc_cpu] DefaultCPUAllocator: can't allocate memory: you tried to \
         allocate 4000000000000000 bytes. Error code 12 (Cannot allocate memory)"
    );
    assert_eq!(
        make(&[1 << 40, 1 << 40]),
        "Storage size calculation overflowed with sizes=[1099511627776, 1099511627776]"
    );
    assert_eq!(
        make(&[1 << 61]),
        "Storage size calculation overflowed with sizes=[2305843009213693952]"
    );
    assert_eq!(
        message(TensorBase::empty_strided(&[2, 3], &[1 << 62, 1 << 62], options)),
        "Storage size calculation overflowed with sizes=[2, 3] and \
         strides=[4611686018427387904, 4611686018427387904]"
    );
    assert_eq!(
        message(TensorBase::empty_strided(&[2, 3], &[1], options)),
        "dimensionality of sizes (2) must match dimensionality of strides (1)"
    );
    assert_eq!(
        message(wrap_dim(5, 2)),
        "Dimension out of range (expected to be in range of [-2, 1], but got 5)"
    );
    assert_eq!(wrap_dim(-1, 0).unwrap(), 0);
    let text = message(wrap_dim_strict(0, 0));
    assert_eq!(text, "Dimension specified as 0 but tensor has no dimensions");
    assert_eq!(message(infer_size(&[2, 2], 3)), "shape '[2, 2]' is invalid for input of size 3");
    assert_eq!(message(infer_size(&[-1, -1], 3)), "only one dimension can be inferred");
    assert_eq!(
        message(infer_size(&[-1, 0], 0)),
        "cannot reshape tensor of 0 elements into shape [-1, 0] because the unspecified dimension \
         size -1 can be any value and is ambiguous"
    );
    assert_eq!(
        message(infer_broadcast(&[2, 3], &[4])),
        "The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1"
    );
    assert_eq!(
        message(contiguous_strides(&[1, 1 << 62, 4, 1 << 62])),
        "Stride calculation overflowed"
    );
    assert_eq!(
        message(check_in_bounds(&[9, 9], &[9, 9], 0, 4, 12)),
        "setStorage: sizes [9, 9], strides [9, 9], storage offset 0, and itemsize 4 requiring a \
         storage size of 580 are out of bounds for storage of size 12"
    );
    assert_eq!(
        message(Scalar::from(300).checked_to::<u8>("fill")),
        "value cannot be converted to type uint8_t without overflow"
    );
    assert!(Scalar::from(f64::INFINITY).checked_to::<i32>("fill").is_err());
    assert!(Scalar::from(f64::INFINITY).checked_to::<f16>("fill").is_ok());
    assert!(Scalar::from(1e39).checked_to::<f32>("fill").is_err());
    let result: Result<()> = match_dtype!(DType::Int64, "exp", Float, T => {
        let _: T = cast(0_i64);
        Ok(())
    });
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotImplemented);
    assert_eq!(error.message(), "\"exp\" not implemented for 'Long'");
}

#[test]
fn devices_have_a_grammar() {
    for text in ["cpu", "cuda", "cuda:1", "meta", "privateuseone:7", "cpu:0"] {
        assert_eq!(text.parse::<Device>().unwrap().to_string(), text);
    }
    assert_ne!("cpu".parse::<Device>().unwrap(), "cpu:0".parse().unwrap());
    for text in ["cuda:01", "cuda:-1", "cuda:", "cuda:1:2"] {
        assert_eq!(message(text.parse::<Device>()), format!("Invalid device string: '{text}'"));
    }
    assert_eq!(message("".parse::<Device>()), "Device string must not be empty");
    assert!(message("foo".parse::<Device>()).ends_with("at start of device string: foo"));
    for (number, device_type) in DeviceType::ALL.iter().enumerate() {
        assert_eq!(*device_type as usize, number);
    }
}

#[test]
fn meta_and_foreign_devices() {
    struct Counting(std::sync::atomic::AtomicUsize);
    // SAFETY: the memory comes from a vector that the `DataPtr` owns.
    unsafe impl Allocator for Counting {
        fn allocate(&self, nbytes: usize) -> Result<DataPtr> {
            self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let mut bytes = vec![0_u8; nbytes];
            let data = bytes.as_mut_ptr();
            Ok(DataPtr::with_owner(data, Box::new(bytes), Device::new(DeviceType::PrivateUse1)))
        }
        unsafe fn copy_data(&self, to: *mut u8, from: *const u8, nbytes: usize) {
            // SAFETY: the caller vouches for both blocks.
            unsafe { to.copy_from_nonoverlapping(from, nbytes) };
        }
    }
    static ALLOCATOR: Counting = Counting(std::sync::atomic::AtomicUsize::new(0));
    let device = Device::new(DeviceType::PrivateUse1);
    let text = message(TensorBase::empty(&[1], TensorOptions::from(device)));
    assert_eq!(text, "Allocator for privateuseone is not set.");
    assert!(set_allocator(DeviceType::PrivateUse1, &ALLOCATOR, 1));
    assert!(!set_allocator(DeviceType::PrivateUse1, &ALLOCATOR, 0), "lower priority");
    let t = TensorBase::empty(&[3], TensorOptions::from(device)).unwrap();
    assert_eq!((t.device(), t.storage().unwrap().device()), (device, device));
    assert!(t.key_set().has(DispatchKey::PrivateUse1));
    assert!(t.key_set().has(DispatchKey::AutogradPrivateUse1));
    t.resize(&[9], None).unwrap();
    assert_eq!(ALLOCATOR.0.load(std::sync::atomic::Ordering::Relaxed), 2);
}

#[cfg(unix)]
#[test]
fn mapped_files() {
    use corten_core::mapped::{Mapping, Sharing};
    let path = std::env::temp_dir().join(format!("corten-core-{}.bin", std::process::id()));
    std::fs::write(&path, [1_u8, 2, 3, 4]).unwrap();
    let bytes = |storage: &Storage, nbytes: i64| {
        let keys = KeySet::of(&[DispatchKey::CPU]);
        TensorBase::new_with_storage(storage.clone(), DType::UInt8, keys, &[nbytes], &[1], 0)
            .unwrap()
    };
    let private = Storage::from_file(&path, Sharing::Private, 0).unwrap();
    assert_eq!((private.nbytes(), private.is_shared(), private.is_resizable()), (4, false, false));
    Writer::<u8>::new(&bytes(&private, 4)).unwrap()[0] = 9;
    assert_eq!(std::fs::read(&path).unwrap(), [1, 2, 3, 4]);
    assert!(Storage::from_file(&path, Sharing::Private, 8).is_err(), "too small");
    let shared = Storage::from_file(&path, Sharing::Shared, 8).unwrap();
    Writer::<u8>::new(&bytes(&shared, 8)).unwrap()[7] = 8;
    assert_eq!(std::fs::read(&path).unwrap(), [1, 2, 3, 4, 0, 0, 0, 8]);
    std::fs::remove_file(&path).unwrap();

    let t = counting(&[4]);
    let storage = t.storage().unwrap();
    let descriptor = storage.share().unwrap();
    assert!(storage.is_shared() && !storage.is_resizable());
    assert_eq!(Reader::<f32>::new(&t).unwrap()[3], 3.0);
    let other = Mapping::of_descriptor(descriptor, Sharing::Shared, 0, false).unwrap();
    let other = Storage::from_mapping(other);
    assert_eq!(other.nbytes(), 16);
    Writer::<f32>::new(&t).unwrap()[0] = 5.0;
    assert_eq!(Reader::<u8>::new(&bytes(&other, 16)).unwrap()[..4], 5.0_f32.to_le_bytes());
    assert!(storage.share().is_ok(), "a second time changes nothing");
}

#[cfg(target_os = "linux")]
#[test]
fn segments_with_names() {
    use corten_core::mapped::{Mapping, Transport};
    let path =
        std::path::PathBuf::from(format!("/dev/shm/corten-core-test-{}", std::process::id()));
    let t = counting(&[4]);
    let storage = t.storage().unwrap();
    storage.share_as(&path).unwrap();
    assert!(storage.is_shared() && !storage.is_resizable() && path.exists());
    assert_eq!(Reader::<f32>::new(&t).unwrap()[3], 3.0);
    assert!(Mapping::new_segment(&path, 4).is_err(), "the name is taken");

    let segment = storage.segment().unwrap();
    segment.announce(Transport::Queue, &[std::process::id()]).unwrap();
    drop((t, storage));
    assert!(path.exists(), "a message with the name is on its way");
    drop(segment);
    let other =
        Storage::from_mapping(Mapping::open_segment(&path, Some(Transport::Queue)).unwrap());
    assert_eq!(other.nbytes(), 16);
    drop(other);
    assert!(!path.exists(), "the last user removes the name");
    assert!(Mapping::open_segment(&path, None).is_err());
}
