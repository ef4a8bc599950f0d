//! Every operator on the meta device: the shapes, strides and dtypes of the CPU, without data.

use crate::call::Call;
use crate::{calls, common};
use corten_autograd::no_grad;
use corten_core::{DType, Device, Error, ErrorKind, Result, ensure};
use corten_ops::{OpKind, Tensor, op};

/// Operators whose results, or their shapes, follow from the data: the meta device refuses them.
const BY_DATA: &[&str] = &[
    "_choose_qparams_per_tensor",
    "_local_scalar_dense",
    "_unique",
    "_unique2",
    "allclose",
    "argwhere",
    "equal",
    "masked_select",
    "nonzero",
    "nonzero_numpy",
    "unique_consecutive",
    "unique_dim",
    "unique_dim_consecutive",
    "where",
];

/// At least so many overloads are compared; the others need arguments that nobody wrote down.
const COMPARED: usize = 990;

#[test]
fn shapes_without_data() {
    common::init();
    let (mut compared, mut failures) = (0, Vec::new());
    for op in corten_ops::registry::all() {
        if op.def().kind == OpKind::Out || crate::is_of_sparse_layouts(op) {
            continue;
        }
        let mut count = 0;
        for call in calls(op, DType::Float64).into_iter().flatten() {
            match compare(&call) {
                Ok(same) => count += usize::from(same),
                Err(error) => failures.push(format!("{}: {error:?}", call.name())),
            }
        }
        compared += usize::from(count > 0);
    }
    println!("{compared} overloads compared");
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
    assert!(compared >= COMPARED, "only {compared} overloads");
}

/// Whether the CPU takes the call, which then must be the same on the meta device.
fn compare(call: &Call) -> Result<bool> {
    let name = call.name();
    // First, because an operator that works in place changes its arguments.
    let shapes = no_grad(|| call.on_meta(&meta)?.run_as_given());
    let Ok(real) = no_grad(|| call.run(call.inputs())) else { return Ok(false) };
    if BY_DATA.contains(&name.as_str()) {
        ensure!(
            shapes.is_err_and(|error| refuses(&error)),
            Runtime,
            "take it off the list of those by data"
        );
        return Ok(true);
    }
    let shapes = match shapes {
        // The elements that a mask selects.
        Err(error) if refuses(&error) && name == "index.Tensor" => return Ok(true),
        shapes => shapes?,
    };
    ensure!(real.len() == shapes.len(), Runtime, "another number of results");
    for (place, (real, shape)) in real.iter().zip(&shapes).enumerate() {
        ensure!(shape.device().is_meta(), Runtime, "result {place} is not on the meta device");
        let same = real.sizes() == shape.sizes()
            && real.strides() == shape.strides()
            && real.dtype() == shape.dtype();
        ensure!(
            same,
            Runtime,
            "result {place} has sizes {:?}, strides {:?} and dtype {:?} on the CPU, and {:?}, \
             {:?} and {:?} on the meta device",
            real.sizes().as_slice(),
            real.strides().as_slice(),
            real.dtype(),
            shape.sizes().as_slice(),
            shape.strides().as_slice(),
            shape.dtype()
        );
    }
    Ok(true)
}

/// Whether the meta device says that there is no data.
fn refuses(error: &Error) -> bool {
    error.kind() == ErrorKind::NotImplemented || error.message().contains("on meta tensors")
}

/// A tensor like another without its data.
fn meta(tensor: &Tensor) -> Result<Tensor> {
    op::empty_strided(
        &tensor.sizes(),
        &tensor.strides(),
        Some(tensor.dtype()),
        None,
        Some(Device::META),
        None,
    )
}
