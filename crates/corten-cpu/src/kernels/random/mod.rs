//! Sampling. Every sampler holds the generator for its whole run and fills in memory order, so
//! one seed gives one result whatever the number of threads.

mod distributions;
mod fill;
mod multinomial;
mod normal;
mod parameters;
mod rejection;
mod slopes;

pub use distributions::{
    bernoulli_float_, bernoulli_tensor_, cauchy_, exponential_, geometric_, log_normal_, random_,
    random_from_, random_to_, uniform_,
};
pub use multinomial::{multinomial, multinomial_out};
pub use normal::normal_;
pub use parameters::{
    binomial, dirichlet_grad, poisson, sample_dirichlet, standard_gamma, standard_gamma_grad,
};
