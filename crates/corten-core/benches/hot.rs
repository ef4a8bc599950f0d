//! Prices of the paths that every operator takes: `cargo bench -p corten-core`.
#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::time::Instant;

use corten_core::*;

/// Nanoseconds per call, best of several runs.
fn price(name: &str, mut call: impl FnMut()) {
    const CALLS: u32 = 100_000;
    let mut best = f64::INFINITY;
    for _ in 0..9 {
        let start = Instant::now();
        for _ in 0..CALLS {
            call();
        }
        best = best.min(start.elapsed().as_nanos() as f64 / f64::from(CALLS));
    }
    println!("{name:40} {best:8.1} ns");
}

fn main() -> Result<()> {
    let options = TensorOptions::new().dtype(DType::Float32);
    let [a, b, c] = [(); 3].map(|()| TensorBase::empty(&[1], options));
    let (a, b, c) = (a?, b?, c?);
    price("access set of 3 operands", || {
        let set = AccessSet::acquire(&[
            (black_box(&c), Access::Write),
            (black_box(&a), Access::Read),
            (black_box(&b), Access::Read),
        ]);
        black_box(set.map(|set| set.byte_ptr(0)).ok());
    });
    std::thread::scope(|scope| {
        scope.spawn(|| AccessSet::acquire(&[(&a, Access::Read), (&b, Access::Read)]).map(drop));
    });
    price("the same, 2 operands seen by 2 threads", || {
        let set = AccessSet::acquire(&[
            (black_box(&c), Access::Write),
            (black_box(&a), Access::Read),
            (black_box(&b), Access::Read),
        ]);
        black_box(set.map(|set| set.byte_ptr(0)).ok());
    });
    price("clone and drop a tensor", || drop(black_box(a.clone())));
    price("sizes()", || drop(black_box(black_box(&a).sizes())));
    price("geometry()", || drop(black_box(black_box(&a).geometry())));
    price("data_ptr()", || _ = black_box(black_box(&a).data_ptr()));
    price("storage()", || drop(black_box(black_box(&a).storage())));
    price("is_contiguous()", || _ = black_box(black_box(&a).is_contiguous()));
    price("view", || drop(black_box(black_box(&a).as_view_of(&[1], &[1], 0))));
    for elements in [1, 1024, 16 * 1024, 256 * 1024] {
        price(&format!("empty and drop, {elements} f32"), || {
            drop(black_box(TensorBase::empty(black_box(&[elements]), options)));
        });
    }
    for bytes in [64, 4096, 1 << 20, 8 << 20] {
        let allocator = get_allocator(DeviceType::Cpu)?;
        price(&format!("allocate and free, {bytes} bytes"), || {
            drop(black_box(allocator.allocate(black_box(bytes))));
        });
    }
    let generator = Generator::cpu(0);
    let mut guard = generator.lock();
    price("mt19937 u32", || _ = black_box(guard.random()));
    Ok(())
}
