//! Dropout.

use crate::module::{Forward, Mode, Module};
use crate::print::Repr;
use corten_core::{Result, ensure, warn};
use corten_ops::{Tensor, op};

macro_rules! dropout {
    ($(#[$attribute:meta])* $name:ident, $input:literal, |$x:ident, $p:ident, $training:ident| $call:expr) => {
        #[derive(Module)]
        $(#[$attribute])*
        #[doc = example!(
            "let dropout = ", stringify!($name), "::new(0.5)?;\n",
            "let x = op::ones(&", $input, ", None, None, None, None)?;\n",
            "assert_eq!(dropout.forward(&x)?.sizes(), x.sizes());\n",
            "dropout.eval();\n",
            "assert_eq!(dropout.forward(&x)?.to_vec::<f32>()?, x.to_vec::<f32>()?);"
        )]
        #[module(repr)]
        pub struct $name {
            p: f64,
            training: Mode,
        }

        impl $name {
            /// Dropout with probability `p`.
            ///
            /// # Errors
            /// `Value` outside [0, 1].
            pub fn new(p: f64) -> Result<Self> {
                ensure!(
                    (0.0..=1.0).contains(&p),
                    Value,
                    "dropout probability has to be between 0 and 1, but got {p}"
                );
                Ok(Self { p, training: Mode::default() })
            }

            fn repr(&self) -> String {
                format!("p={}, inplace=False", self.p.repr())
            }
        }

        impl Default for $name {
            /// Dropout of half of the elements.
            fn default() -> Self {
                Self { p: 0.5, training: Mode::default() }
            }
        }

        impl Forward for $name {
            fn forward(&self, $x: &Tensor) -> Result<Tensor> {
                let ($p, $training) = (self.p, self.training.training());
                $call
            }
        }
    };
}

dropout!(
    /// Zeroes elements with probability `p` in training and scales the others up.
    Dropout, "[2, 3]", |x, p, training| op::dropout(x, p, training)
);
dropout!(
    /// Zeroes whole channels of (C, L) or (N, C, L) signals.
    Dropout1d, "[1, 2, 3]", |x, p, training| {
        let rank = x.dim();
        ensure!(
            rank == 2 || rank == 3,
            Runtime,
            "dropout1d: Expected 2D or 3D input, but received a {rank}D input. Note that dropout1d exists to provide channel-wise dropout on inputs with 1 spatial dimension, a channel dimension, and an optional batch dimension (i.e. 2D or 3D inputs)."
        );
        of_channels(x, p, training, rank == 2)
    }
);
dropout!(
    /// Zeroes whole channels of (N, C, H, W) images.
    Dropout2d, "[1, 2, 3, 3]", |x, p, training| {
        if x.dim() != 4 {
            warn(format!(
                "dropout2d: Received a {}-D input to dropout2d, of which the first two dimensions are taken for batch and channels; use dropout1d or dropout for other inputs.",
                x.dim()
            ));
        }
        op::feature_dropout(x, p, training)
    }
);
dropout!(
    /// Zeroes whole channels of (C, D, H, W) or (N, C, D, H, W) volumes.
    Dropout3d, "[1, 2, 3, 3, 3]", |x, p, training| of_channels(x, p, training, x.dim() == 4)
);
dropout!(
    /// Dropout that keeps mean and variance for SELU networks.
    AlphaDropout, "[2, 3]", |x, p, training| op::alpha_dropout(x, p, training)
);
dropout!(
    /// Alpha dropout of whole channels.
    FeatureAlphaDropout, "[1, 2, 3]", |x, p, training| op::feature_alpha_dropout(x, p, training)
);

/// Dropout of channels; an input of one sample gets a batch for it.
fn of_channels(x: &Tensor, p: f64, training: bool, is_sample: bool) -> Result<Tensor> {
    if is_sample {
        return op::squeeze_dim(&op::feature_dropout(&op::unsqueeze(x, 0)?, p, training)?, 0);
    }
    op::feature_dropout(x, p, training)
}
