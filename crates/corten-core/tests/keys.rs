//! Dispatch keys, sets of them, and the state of a thread.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::too_many_lines)]

use corten_core::*;

#[test]
fn runtime_keys_have_distinct_slots() {
    let mut seen = [false; NUM_RUNTIME_KEYS];
    for key in DispatchKey::ALL.iter().filter(|key| !key.is_alias()) {
        let slot = key.runtime_index().unwrap();
        if key.is_per_backend() {
            // A functionality's own slot is the one of its first backend.
            assert_eq!(DispatchKey::runtime(*key, Backend::Cpu).runtime_index(), Some(slot));
            continue;
        }
        assert!(!std::mem::replace(&mut seen[slot], true), "{key}");
        assert_eq!(DispatchKey::from_runtime_index(slot), Some(*key));
    }
    assert!(seen.iter().all(|&used| used));
    assert_eq!(DispatchKey::from_name("AutogradCPU"), Some(DispatchKey::AutogradCPU));
    assert!(DispatchKey::CompositeImplicitAutograd.runtime_index().is_none());
}

#[test]
fn numbers_are_priorities() {
    use DispatchKey::*;
    assert_eq!((Dense as u8, Python as u8, ADInplaceOrView as u8), (1, 13, 19));
    assert_eq!(
        (AutogradFunctionality as u8, AutocastCPU as u8, PythonDispatcher as u8),
        (21, 24, 46)
    );
    assert_eq!((NegativeStrides as u8, Named as u8), (47, 48));
    assert_eq!(KeySet::after(Named).highest_functionality(), Undefined);
    assert_eq!(KeySet::after(NegativeStrides).highest_functionality(), Named);
    assert!(AutogradMeta.functionality() == AutogradFunctionality);
    assert_eq!(SparseCUDA.backend(), Some(Backend::Cuda));
    assert_eq!(Backend::of(DeviceType::PrivateUse1), Some(Backend::PrivateUse1));
}

#[test]
fn the_highest_key_decides() {
    use DispatchKey::*;
    let cpu = KeySet::of(&[CPU, AutogradCPU, ADInplaceOrView]);
    assert_eq!(cpu.highest_key(), AutogradCPU);
    assert_eq!(cpu.highest_runtime_index(), AutogradCPU.runtime_index().unwrap());
    let below = cpu & KeySet::below(ADInplaceOrView);
    assert_eq!(
        (below.highest_key(), below.highest_runtime_index()),
        (CPU, CPU.runtime_index().unwrap())
    );
    // A meta operand wins over all other backends.
    let mixed = cpu | KeySet::of(&[Meta]);
    assert_eq!((mixed - AUTOGRAD_KEYS - ADINPLACEORVIEW).highest_key(), Meta);
    assert_eq!(KeySet::EMPTY.highest_key(), Undefined);
    assert_eq!(KeySet::EMPTY.highest_runtime_index(), 0);
    for key in KeySet::FULL.iter() {
        assert_eq!(KeySet::from(key).highest_key(), key);
        assert_eq!(Some(KeySet::from(key).highest_runtime_index()), key.runtime_index());
    }
}

#[test]
fn removing_keys_leaves_backends() {
    use DispatchKey::*;
    let set = KeySet::of(&[CPU, AutogradCPU]);
    let rest = set - KeySet::of(&[AutogradCPU]);
    assert_eq!(rest, KeySet::of(&[CPU]));
    assert!(set.has(CPU) && set.has(AutogradCPU) && !set.has(CUDA) && !set.has(SparseCPU));
    assert!(set.has_any(AUTOGRAD_KEYS) && !rest.has_any(AUTOGRAD_KEYS));
    assert_eq!(format!("{set:?}"), "KeySet(CPU, AutogradCPU)");
    assert_eq!(set.iter().collect::<KeySet>(), set);
}

#[test]
fn guards_nest_and_undo_only_their_own() {
    use DispatchKey::*;
    let cpu = KeySet::of(&[CPU, AutogradCPU, ADInplaceOrView, AutocastCPU]);
    let effective = || tls::effective(cpu);
    assert!(effective().has(BackendSelect), "included by default");
    assert!(!effective().has(AutocastCPU), "excluded by default");
    {
        let _outer = BelowAutogradGuard::new();
        {
            let _inner = BelowADInplaceOrViewGuard::new();
            assert_eq!(effective().highest_key(), BackendSelect);
        }
        assert!(!effective().has(AutogradCPU) && effective().has(ADInplaceOrView));
        let _include = IncludeGuard::new(KeySet::of(&[Tracer, BackendSelect]));
        assert_eq!(effective().highest_key(), Tracer);
    }
    assert!(effective().has(AutogradCPU) && effective().has(BackendSelect));
    tls::set_excluded(KeySet::of(&[AutocastCPU]), false);
    assert!(effective().has(AutocastCPU));
    tls::set_excluded(KeySet::of(&[AutocastCPU]), true);

    assert!(grad_mode_enabled() && !inference_mode_enabled());
    {
        let _no_grad = GradModeGuard::new(false);
        assert!(!grad_mode_enabled());
        let _inference = InferenceModeGuard::new(true);
        assert!(inference_mode_enabled() && !tls::fw_grad_mode_enabled());
        // A normal tensor still bumps its version: the key itself is not excluded.
        assert!(effective().has(ADInplaceOrView) && !effective().has(AutogradCPU));
        assert!(!tls::local_include().has(ADInplaceOrView));
        let _normal = InferenceModeGuard::new(false);
        assert!(grad_mode_enabled() && effective().has(AutogradCPU));
    }
    assert!(grad_mode_enabled() && tls::multithreading_enabled());
    assert!(!tls::view_replay_enabled() && tls::grad_layout_enforced());
}

#[test]
fn states_travel_to_helper_threads() {
    let _no_grad = GradModeGuard::new(false);
    let state = tls::thread_state();
    let helper = std::thread::spawn(move || {
        assert!(grad_mode_enabled());
        let _guard = tls::ThreadStateGuard::new(state);
        grad_mode_enabled()
    });
    assert!(!helper.join().unwrap());
}

#[test]
fn philox_known_answers() {
    use corten_core::philox::Philox4x32;
    // From the reference implementation's test vectors (Random123, kat_vectors).
    let zero = Philox4x32::block([0, 0], [0; 4]);
    assert_eq!(zero, [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
    let ones = Philox4x32::block([u32::MAX; 2], [u32::MAX; 4]);
    assert_eq!(ones, [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
    let pi = Philox4x32::block(
        [0xa409_3822, 0x299f_31d0],
        [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
    );
    assert_eq!(pi, [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]);
    let mut stream = Philox4x32::new(1, 2, 0);
    let first: Vec<u32> = (0..8).map(|_| stream.next_u32()).collect();
    let mut later = Philox4x32::new(1, 2, 1);
    assert_eq!(first[4..], [(); 4].map(|()| later.next_u32()));
}

#[test]
fn generators() {
    let g = Generator::cpu(0);
    let expected = [2_357_136_044, 2_546_248_239, 3_071_714_933, 3_626_093_760];
    assert_eq!([(); 4].map(|()| g.lock().random()), expected);
    g.manual_seed((1 << 32) + 42);
    assert_eq!(g.lock().random(), 1_608_637_542, "only the low half of the seed matters");
    assert_eq!(g.initial_seed(), (1 << 32) + 42);
    g.manual_seed(0);
    let wide = g.lock().random64();
    assert_eq!(wide, (u64::from(expected[0]) << 32) | u64::from(expected[1]));
    g.lock().set_f64_normal(Some(0.5));
    g.lock().set_f32_normal(Some(-2.0));
    let copy = g.clone_state();
    assert_eq!(copy.lock().random(), g.lock().random());
    let restored = Generator::cpu(9);
    restored.set_state(&g.get_state()).unwrap();
    assert_eq!(restored.lock().take_f64_normal(), Some(0.5));
    assert_eq!(restored.lock().take_f32_normal(), Some(-2.0));
    assert_eq!(restored.lock().random(), g.lock().random());
    assert_eq!(
        g.set_state(&[0; 10]).unwrap_err().message(),
        "Expected a CPUGeneratorImplState of size 5056 but found the input RNG state size to be 10"
    );
    assert_eq!(g.set_state(&[0; 5056]).unwrap_err().message(), "Invalid mt19937 state");
    // Cargo gives tests a seed; programs have another one in each process.
    let chosen = corten_core::config::settings().seed;
    assert!(chosen.is_none_or(|seed| default_cpu_generator().initial_seed() == seed));
    assert!(manual_seed(3).is_same(default_cpu_generator()));
    assert_ne!(g.seed(), g.seed());
}
