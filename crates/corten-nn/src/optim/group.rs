//! Parameters that share settings.

use corten_core::{Result, ensure};
use corten_io::Value;
use corten_ops::Tensor;

/// The settings of a group; implemented by the options structs of the optimizers.
///
/// ```
/// use corten::nn::optim::{AdamOptions, Settings};
///
/// let mut options = AdamOptions::default();
/// options.set_lr(0.5);
/// assert_eq!((options.lr(), options.momentum()), (0.5, Some(0.9)));
/// ```
pub trait Settings: Clone + Default {
    /// The learning rate.
    fn lr(&self) -> f64;

    /// Sets the learning rate.
    fn set_lr(&mut self, lr: f64);

    /// The momentum, or the first beta, of optimizers that have one.
    fn momentum(&self) -> Option<f64>;

    /// Sets what [`momentum`](Self::momentum) gives.
    fn set_momentum(&mut self, momentum: f64);

    /// Whether parameters are moved along their gradients instead of against them.
    fn maximize(&self) -> bool;

    /// The settings under PyTorch's names, in its order.
    fn to_values(&self) -> Vec<(String, Value)>;

    /// Whether a name is that of a setting.
    fn is_setting(&self, name: &str) -> bool;

    /// Takes over a setting of a file. Whether the name is known and the value has the right type.
    fn set(&mut self, name: &str, value: &Value) -> bool;
}

/// Parameters and their settings.
///
/// ```
/// use corten::nn::optim::{ParamGroup, Sgd, SgdOptions};
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// let (body, head) = (Linear::new(4, 4)?, Linear::new(4, 1)?);
/// let slow = ParamGroup::new(body.parameters(), SgdOptions { lr: 1e-3, ..Default::default() });
/// let fast = ParamGroup::new(head.parameters(), SgdOptions { lr: 1e-1, ..Default::default() });
/// let optimizer = Sgd::with_groups(vec![slow, fast])?;
/// assert_eq!(optimizer.group_lr(1), 0.1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ParamGroup<O> {
    /// The parameters.
    pub params: Vec<Tensor>,
    /// The settings, which may be changed between steps.
    pub options: O,
    /// What schedulers keep with a group, such as `initial_lr`.
    pub extra: Vec<(String, Value)>,
}

impl<O> ParamGroup<O> {
    /// A group of parameters.
    pub fn new(params: impl IntoIterator<Item = Tensor>, options: O) -> Self {
        Self { params: params.into_iter().collect(), options, extra: Vec::new() }
    }
}

/// Refuses parameters that stand in two groups, are not leaves, or do not exist.
pub(super) fn check_groups<O>(groups: &[ParamGroup<O>]) -> Result<()> {
    use corten_autograd::Autograd;
    let all: Vec<&Tensor> = groups.iter().flat_map(|group| &group.params).collect();
    ensure!(!all.is_empty(), Value, "optimizer got an empty parameter list");
    let mut seen = std::collections::HashSet::new();
    for parameter in all {
        ensure!(
            parameter.is_leaf() || parameter.retains_grad(),
            Value,
            "can't optimize a non-leaf Tensor"
        );
        ensure!(
            seen.insert(parameter.impl_ptr()),
            Value,
            "some parameters appear in more than one parameter group"
        );
    }
    Ok(())
}

/// Declares the settings of an optimizer: fields with PyTorch's defaults, how the momentum is found, and what
/// files hold beside them.
macro_rules! settings {
    (
        $(#[$doc:meta])*
        $options:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty = $default:expr,)* }
        momentum: $momentum:tt;
        maximize: $maximize:tt;
        files: { $($extra:ident = $value:expr),* $(,)? }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $options {
            $($(#[$field_doc])* pub $field: $type,)*
        }

        impl Default for $options {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }

        impl $crate::optim::Settings for $options {
            fn lr(&self) -> f64 {
                self.lr
            }

            fn set_lr(&mut self, lr: f64) {
                self.lr = lr;
            }

            $crate::optim::group::momentum!($momentum);

            $crate::optim::group::maximize!($maximize);

            fn to_values(&self) -> Vec<(String, $crate::optim::Value)> {
                use $crate::optim::Setting;
                vec![
                    $((stringify!($field).to_owned(), self.$field.to_value()),)*
                    $((stringify!($extra).to_owned(), $value),)*
                ]
            }

            fn is_setting(&self, name: &str) -> bool {
                [$(stringify!($field)),*].contains(&name)
            }

            fn set(&mut self, name: &str, value: &$crate::optim::Value) -> bool {
                use $crate::optim::Setting;
                match name {
                    $(stringify!($field) => Setting::from_value(value)
                        .map(|value| self.$field = value).is_some(),)*
                    _ => false,
                }
            }
        }
    };
}
pub(super) use settings;

/// The methods of [`Settings`] about the momentum: of a field, of the first beta, or of none.
macro_rules! momentum {
    (none) => {
        fn momentum(&self) -> Option<f64> {
            None
        }

        fn set_momentum(&mut self, _: f64) {}
    };
    (betas) => {
        fn momentum(&self) -> Option<f64> {
            Some(self.betas.0)
        }

        fn set_momentum(&mut self, momentum: f64) {
            self.betas.0 = momentum;
        }
    };
    ($field:ident) => {
        fn momentum(&self) -> Option<f64> {
            Some(self.$field)
        }

        fn set_momentum(&mut self, momentum: f64) {
            self.$field = momentum;
        }
    };
}
pub(super) use momentum;

/// [`Settings::maximize`], of a field or of none.
macro_rules! maximize {
    (none) => {
        fn maximize(&self) -> bool {
            false
        }
    };
    ($field:ident) => {
        fn maximize(&self) -> bool {
            self.$field
        }
    };
}
pub(super) use maximize;
