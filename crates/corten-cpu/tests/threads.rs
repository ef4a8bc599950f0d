//! Operators that are split over threads give what one thread gives.

use corten_core::{DType, Result};
use corten_ops::{Tensor, op, parallel};

/// More than one thread's share.
const ELEMENTS: i64 = 200_000;

#[test]
fn reductions_to_one_element() -> Result<()> {
    corten_cpu::init()?;
    let x = op::arange(ELEMENTS.into(), Some(DType::Float32), None, None, None)?;
    let x = op::remainder_scalar(&x, 7.into())?;
    let functions: [fn(&Tensor) -> Result<Tensor>; 6] = [
        |x| op::sum(x, None),
        |x| op::mean(x, None),
        |x| op::nansum(x, None, false, None),
        |x| op::prod(x, None),
        op::max,
        op::min,
    ];
    for function in functions {
        let [one, four] = [1, 4].map(|threads| -> Result<f32> {
            parallel::set_num_threads(threads);
            function(&x)?.to_element::<f32>()
        });
        assert_eq!(one?, four?);
    }
    Ok(())
}
