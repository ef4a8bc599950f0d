//! Weights that are computed from others: weight and spectral normalisation.

use crate::copy::Memo;
use crate::hooks::Hooks;
use crate::module::{Buffer, Forward, Item, Mode, Module, ModuleField, Parameter, Visitor};
use corten_autograd::{Autograd, no_grad};
use corten_core::{Result, ensure};
use corten_ops::{Tensor, op};
use std::fmt;

/// A layer whose weight may be computed from other tensors: linear maps and convolutions.
///
/// ```
/// use corten::nn::{Linear, Weighted};
/// use corten::prelude::*;
///
/// let layer = Linear::with_bias(2, 2, false)?;
/// let zeros = op::zeros(&[2, 2], None, None, None, None)?;
/// let x = op::ones(&[1, 2], None, None, None, None)?;
/// assert_eq!(layer.forward_with(&x, &zeros)?.to_vec::<f32>()?, [0.0, 0.0]);
/// # Ok::<(), corten::Error>(())
/// ```
pub trait Weighted: Forward {
    /// The printed name of the layer with such a weight.
    const PARAMETRIZED: &'static str;
    /// The dimension of the weight that belongs to the outputs.
    const OUTPUT_DIM: usize;

    /// The layer's own weight.
    fn weight(&self) -> &Parameter;

    /// The computation with another weight.
    ///
    /// # Errors
    /// Those of the operators.
    fn forward_with(&self, input: &Tensor, weight: &Tensor) -> Result<Tensor>;
}

/// What stands under `parametrizations`.
#[derive(Module)]
#[module(name = "ModuleDict")]
struct OfWeight<P: Module> {
    weight: P,
}

/// A layer with a computed weight: its parts but the weight, and what the weight is made of.
macro_rules! parametrized {
    ($(#[$attribute:meta])* $name:ident, $list:ident) => {
        $(#[$attribute])*
        pub struct $name<M: Weighted> {
            layer: M,
            parametrizations: OfWeight<$list>,
        }

        impl<M: Weighted> $name<M> {
            /// The weight that the layer computes with.
            ///
            /// # Errors
            /// Those of the operators.
            pub fn weight(&self) -> Result<Tensor> {
                self.parametrizations.weight.compute()
            }

            /// The layer with the present weight as its own: the end of the parametrisation.
            ///
            /// # Errors
            /// Those of the operators.
            pub fn into_inner(self) -> Result<M> {
                let weight = no_grad(|| self.weight())?;
                self.layer.weight().set_data(&op::detach(&weight)?)?;
                Ok(self.layer)
            }
        }

        impl<M: Weighted> Module for $name<M> {
            fn visit<'a>(&'a self, visitor: &mut Visitor<'a>) {
                for (name, item) in Visitor::parts(&self.layer) {
                    let is_weight =
                        matches!(item, Item::Parameter(one) if one.is_same(self.layer.weight()));
                    if !is_weight {
                        visitor.named(&name, item);
                    }
                }
                visitor.field("parametrizations", &self.parametrizations);
            }

            fn name(&self) -> &'static str {
                M::PARAMETRIZED
            }

            fn extra_repr(&self) -> String {
                self.layer.extra_repr()
            }

            fn hooks(&self) -> Option<&Hooks> {
                self.layer.hooks()
            }

            fn deep_clone_with(&self, memo: &mut Memo) -> Result<Self> {
                let layer = self.layer.deep_clone_with(memo)?;
                let parametrizations = self.parametrizations.deep_clone_field(memo)?;
                Ok(Self { layer, parametrizations })
            }
        }

        impl<M: Weighted> Forward for $name<M> {
            fn forward(&self, input: &Tensor) -> Result<Tensor> {
                self.layer.forward_with(input, &self.weight()?)
            }
        }

        impl<M: Weighted> fmt::Display for $name<M> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&crate::describe(self))
            }
        }

        impl<M: Weighted> fmt::Debug for $name<M> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&crate::describe(self))
            }
        }
    };
}

/// What `weight_norm` puts into the list of a weight.
#[derive(Module)]
#[module(name = "_WeightNorm")]
struct LengthAndDirection;

#[derive(Module)]
#[module(name = "ParametrizationList")]
struct WeightNormList {
    original0: Parameter,
    original1: Parameter,
    #[module(rename = "0")]
    step: LengthAndDirection,
    dim: Option<usize>,
}

impl WeightNormList {
    fn compute(&self) -> Result<Tensor> {
        let length = norm_except(&self.original1, self.dim)?;
        op::mul_tensor(&self.original1, &op::div_tensor(&self.original0, &length)?)
    }
}

/// The 2-norm over all dimensions but one, kept as ones, or over all.
fn norm_except(tensor: &Tensor, dim: Option<usize>) -> Result<Tensor> {
    let Some(dim) = dim else {
        return op::linalg_vector_norm(tensor, 2.into(), None, false, None);
    };
    let others: Vec<i64> = (0..tensor.dim()).filter(|d| *d != dim).map(|d| d as i64).collect();
    if others.is_empty() {
        return op::abs(tensor);
    }
    op::linalg_vector_norm(tensor, 2.into(), Some(&others), true, None)
}

parametrized!(
    /// A layer that trains length and direction of its weight separately: `g * v / |v|`.
    #[doc = example!("let layer = WeightNorm::new(Linear::new(4, 3)?)?;
assert_eq!(layer.named_parameters()[1].0, \"parametrizations.weight.original0\");
assert_eq!(layer.forward(&op::ones(&[2, 4], None, None, None, None)?)?.size(1)?, 3);")]
    WeightNorm, WeightNormList
);

impl<M: Weighted> WeightNorm<M> {
    /// A length for each index of dimension 0.
    ///
    /// # Errors
    /// Those of the operators.
    pub fn new(layer: M) -> Result<Self> {
        Self::with(layer, Some(0))
    }

    /// A length for each index of a dimension, or one in all.
    ///
    /// # Errors
    /// `Index` for a dimension that the weight does not have.
    pub fn with(layer: M, dim: Option<usize>) -> Result<Self> {
        let weight = layer.weight().clone();
        ensure!(
            dim.is_none_or(|dim| dim < weight.dim()),
            Index,
            "Dimension out of range (expected to be less than {})",
            weight.dim()
        );
        let length = no_grad(|| norm_except(&weight, dim))?;
        let (original0, step) = (Parameter::new(op::detach(&length)?)?, LengthAndDirection);
        let list = WeightNormList { original0, original1: weight, step, dim };
        Ok(Self { layer, parametrizations: OfWeight { weight: list } })
    }
}

/// Options of [`SpectralNorm`].
///
/// ```
/// assert_eq!(corten::nn::SpectralNormOptions::default().n_power_iterations, 1);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SpectralNormOptions {
    /// How often the estimate is refined at each use in training.
    pub n_power_iterations: usize,
    /// The least norm of a vector that is divided by.
    pub eps: f64,
    /// The dimension of the rows; that of the outputs if absent.
    pub dim: Option<usize>,
}

impl Default for SpectralNormOptions {
    fn default() -> Self {
        Self { n_power_iterations: 1, eps: 1e-12, dim: None }
    }
}

/// What `spectral_norm` puts into the list of a weight: estimates of singular vectors.
#[derive(Module)]
#[module(name = "_SpectralNorm")]
struct PowerIteration {
    #[module(rename = "_u")]
    u: Buffer,
    #[module(rename = "_v")]
    v: Buffer,
    training: Mode,
}

#[derive(Module)]
#[module(name = "ParametrizationList")]
struct SpectralNormList {
    original: Parameter,
    #[module(rename = "0")]
    step: PowerIteration,
    dim: usize,
    n_power_iterations: usize,
    eps: f64,
}

fn normalized(vector: &Tensor, eps: f64) -> Result<Tensor> {
    let length = op::linalg_vector_norm(vector, 2.into(), None, false, None)?;
    op::div_tensor(vector, &op::clamp_min(&length, eps.into())?)
}

/// The weight as a matrix whose rows are the indices of a dimension.
fn matrix(weight: &Tensor, dim: usize) -> Result<Tensor> {
    let mut order: Vec<i64> = (0..weight.dim() as i64).collect();
    let row = order.remove(dim);
    order.insert(0, row);
    op::flatten_using_ints(&op::permute(weight, &order)?, 1, -1)
}

impl SpectralNormList {
    /// Refines the estimates.
    fn iterate(&self, matrix: &Tensor, times: usize) -> Result<()> {
        let PowerIteration { u, v, .. } = &self.step;
        let transposed = op::transpose_int(matrix, 0, 1)?;
        no_grad(|| {
            for _ in 0..times {
                op::copy_(u, &normalized(&op::mv(matrix, v)?, self.eps)?, false)?;
                op::copy_(v, &normalized(&op::mv(&transposed, u)?, self.eps)?, false)?;
            }
            Ok(())
        })
    }

    fn compute(&self) -> Result<Tensor> {
        let matrix = matrix(&self.original, self.dim)?;
        if self.step.training.training() {
            self.iterate(&matrix, self.n_power_iterations)?;
        }
        // Copies: the buffers change at the next use, the graph must not.
        let (u, v) = (op::clone(&self.step.u, None)?, op::clone(&self.step.v, None)?);
        op::div_tensor(&self.original, &op::dot(&u, &op::mv(&matrix, &v)?)?)
    }
}

parametrized!(
    /// A layer that divides its weight by an estimate of its largest singular value, which is
    /// refined at each use in training.
    #[doc = example!("let layer = SpectralNorm::new(Linear::new(4, 3)?)?;
for _ in 0..20 {
    layer.weight()?;
}
let values = op::linalg_svdvals(&layer.weight()?, None)?.to_vec::<f32>()?;
assert!((values[0] - 1.0).abs() < 1e-3);")]
    SpectralNorm, SpectralNormList
);

impl<M: Weighted> SpectralNorm<M> {
    /// One refinement at each use.
    ///
    /// # Errors
    /// Those of the operators.
    pub fn new(layer: M) -> Result<Self> {
        Self::with(layer, SpectralNormOptions::default())
    }

    /// With options.
    ///
    /// # Errors
    /// `Value` without refinements, `Index` for a dimension that the weight does not have.
    pub fn with(layer: M, options: SpectralNormOptions) -> Result<Self> {
        let SpectralNormOptions { n_power_iterations, eps, dim } = options;
        let (original, dim) = (layer.weight().clone(), dim.unwrap_or(M::OUTPUT_DIM));
        ensure!(
            n_power_iterations > 0,
            Value,
            "Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
        );
        let rank = original.dim();
        ensure!(
            dim < rank,
            Index,
            "Dimension out of range (expected to be in range of [-{rank}, {}] but got {dim})",
            rank as i64 - 1
        );
        let rows = no_grad(|| matrix(&original, dim))?;
        let drawn = |count: i64| {
            let vector = op::new_empty(&rows, &[count], None, None, None, None)?;
            op::normal_(&vector, 0.0, 1.0, None)
        };
        let (u, v) = no_grad(|| {
            Ok::<_, corten_core::Error>((drawn(rows.size(0)?)?, drawn(rows.size(1)?)?))
        })?;
        let (u, v) = (Buffer::new(normalized(&u, eps)?), Buffer::new(normalized(&v, eps)?));
        let step = PowerIteration { u, v, training: Mode::default() };
        let list = SpectralNormList { original, step, dim, n_power_iterations, eps };
        list.iterate(&rows, 15)?;
        Ok(Self { layer, parametrizations: OfWeight { weight: list } })
    }
}
