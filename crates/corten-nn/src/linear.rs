//! Linear and bilinear maps, and the identity.

use crate::hooks::Hooks;
use crate::lazy::{Lazy, lazy_module};
use crate::module::{Forward, Module, Parameter};
use crate::parametrize::Weighted;
use crate::print::Repr;
use crate::{empty, init};
use corten_core::{Result, ensure};
use corten_ops::{Tensor, op};

/// Options of [`Linear`].
///
/// ```
/// assert!(corten::nn::LinearOptions::default().bias);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct LinearOptions {
    /// Whether a bias is added.
    pub bias: bool,
}

impl Default for LinearOptions {
    fn default() -> Self {
        Self { bias: true }
    }
}

macro_rules! linear {
    ($(#[$attribute:meta])* $name:ident) => {
        #[derive(Module)]
        $(#[$attribute])*
        #[module(repr)]
        pub struct $name {
            /// Shape (out, in).
            pub weight: Parameter,
            /// Shape (out).
            pub bias: Option<Parameter>,
            hooks: Hooks,
        }

        impl $name {
            /// A map with bias, drawn from `U(-1/√inputs, 1/√inputs)`.
            ///
            /// # Errors
            /// `Runtime` for negative sizes.
            pub fn new(in_features: i64, out_features: i64) -> Result<Self> {
                Self::with_bias(in_features, out_features, true)
            }

            /// A map with options.
            ///
            /// # Errors
            /// `Runtime` for negative sizes.
            pub fn with(in_features: i64, out_features: i64, options: LinearOptions) -> Result<Self> {
                Self::with_bias(in_features, out_features, options.bias)
            }

            /// A map with or without bias.
            ///
            /// # Errors
            /// `Runtime` for negative sizes.
            pub fn with_bias(in_features: i64, out_features: i64, bias: bool) -> Result<Self> {
                let weight = Parameter::new(empty(&[out_features, in_features])?)?;
                let bias = bias.then(|| Parameter::new(empty(&[out_features])?)).transpose()?;
                let made = Self { weight, bias, hooks: Hooks::default() };
                made.reset_parameters()?;
                Ok(made)
            }

            /// Draws weight and bias anew.
            ///
            /// # Errors
            /// Those of the operators.
            pub fn reset_parameters(&self) -> Result<()> {
                init::weight_and_bias(&self.weight, self.bias.as_deref())
            }

            fn repr(&self) -> String {
                let sizes = self.weight.sizes();
                linear_repr(sizes[1], sizes[0], self.bias.is_some())
            }
        }

        impl Forward for $name {
            fn forward(&self, input: &Tensor) -> Result<Tensor> {
                self.forward_with(input, &self.weight)
            }
        }

        impl Weighted for $name {
            const PARAMETRIZED: &'static str = concat!("Parametrized", stringify!($name));
            const OUTPUT_DIM: usize = 0;

            fn weight(&self) -> &Parameter {
                &self.weight
            }

            fn forward_with(&self, input: &Tensor, weight: &Tensor) -> Result<Tensor> {
                op::linear(input, weight, self.bias.as_deref())
            }
        }
    };
}

fn linear_repr(inputs: i64, outputs: i64, bias: bool) -> String {
    format!("in_features={inputs}, out_features={outputs}, bias={}", bias.repr())
}

linear!(
    /// `input @ weight.T + bias`.
    #[doc = example!("let layer = Linear::new(4, 2)?;
let y = layer.forward(&op::randn(&[3, 4], None, None, None, None)?)?;
assert_eq!(y.sizes().as_slice(), [3, 2]);")]
    Linear
);
linear!(
    /// The output projection of attention: a [`Linear`] of another name, as in PyTorch.
    #[doc = example!("let layer = NonDynamicallyQuantizableLinear::new(4, 2)?;
assert!(layer.to_string().starts_with(\"NonDynamicallyQuantizableLinear(in_features=4\"));")]
    NonDynamicallyQuantizableLinear
);

lazy_module!(
    /// A [`Linear`] that takes `in_features` from its first input.
    #[doc = example!("let layer = LazyLinear::new(2);
layer.forward(&op::randn(&[3, 4], None, None, None, None)?)?;
assert_eq!(layer.to_string(), \"Linear(in_features=4, out_features=2, bias=True)\");")]
    LazyLinear => Linear
);

impl LazyLinear {
    /// A map to `out_features`, with bias.
    pub fn new(out_features: i64) -> Self {
        Self::with(out_features, LinearOptions::default())
    }

    /// A map to `out_features`, with options.
    pub fn with(out_features: i64, options: LinearOptions) -> Self {
        let repr = linear_repr(0, out_features, options.bias);
        let build = move |inputs| Linear::with(inputs, out_features, options);
        Self(Lazy::new(
            repr,
            build,
            |input| input.size(-1),
            |shapes| shapes("weight").and_then(|shape| shape.get(1).copied()),
        ))
    }
}

/// `input1ᵀ weight input2 + bias`.
#[doc = example!("let layer = Bilinear::new(2, 3, 4)?;
let ones = |n| op::ones(&[5, n], None, None, None, None);
assert_eq!(layer.forward(&ones(2)?, &ones(3)?)?.sizes().as_slice(), [5, 4]);")]
#[derive(Module)]
#[module(repr)]
pub struct Bilinear {
    /// Shape (out, in1, in2).
    pub weight: Parameter,
    /// Shape (out).
    pub bias: Option<Parameter>,
}

impl Bilinear {
    /// A map with bias, drawn from `U(-1/√in1, 1/√in1)`.
    ///
    /// # Errors
    /// `Value` without inputs.
    pub fn new(in1_features: i64, in2_features: i64, out_features: i64) -> Result<Self> {
        Self::with(in1_features, in2_features, out_features, LinearOptions::default())
    }

    /// A map with options.
    ///
    /// # Errors
    /// `Value` without inputs.
    pub fn with(
        in1_features: i64,
        in2_features: i64,
        out_features: i64,
        options: LinearOptions,
    ) -> Result<Self> {
        ensure!(in1_features > 0, Value, "in1_features must be > 0, but got {in1_features}");
        let weight = Parameter::new(empty(&[out_features, in1_features, in2_features])?)?;
        let bias = options.bias.then(|| Parameter::new(empty(&[out_features])?)).transpose()?;
        let bound = 1.0 / (in1_features as f64).sqrt();
        init::uniform_(&weight, -bound, bound)?;
        if let Some(bias) = &bias {
            init::uniform_(bias, -bound, bound)?;
        }
        Ok(Self { weight, bias })
    }

    /// The form of two inputs with equal leading dimensions.
    ///
    /// # Errors
    /// Those of the operator.
    pub fn forward(&self, input1: &Tensor, input2: &Tensor) -> Result<Tensor> {
        op::bilinear(input1, input2, &self.weight, self.bias.as_deref())
    }

    fn repr(&self) -> String {
        let sizes = self.weight.sizes();
        let bias = self.bias.is_some().repr();
        format!(
            "in1_features={}, in2_features={}, out_features={}, bias={bias}",
            sizes[1], sizes[2], sizes[0]
        )
    }
}

/// Returns its input.
#[doc = example!("let x = op::ones(&[2], None, None, None, None)?;
assert!(Identity.forward(&x)?.is_same(&x));")]
#[derive(Clone, Copy, Default, Module)]
pub struct Identity;

impl Forward for Identity {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        Ok(input.clone())
    }
}
