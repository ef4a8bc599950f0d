//! Pointwise operators that are expressions, and the functions that run them over an iterator.

pub(crate) mod contiguous;
pub(crate) mod gather_scatter;
pub(crate) mod inner_loop;
mod lane_loop;
pub(crate) mod loops;
pub mod steps;
pub(crate) mod vector_loop;

use crate::pointwise::inner_loop::PickLoop;
use crate::pointwise::loops::{Body, Test};
use crate::vec::expr::Expr;
use corten_core::{DeviceType, Result, Scalar};
use corten_ops::Stub;
use corten_ops::iter::TensorIterator;
use corten_ops::meta::Domain;

/// A pointwise operator with one tensor argument.
pub trait Pointwise1 {
    /// The operator's name, for messages.
    const NAME: &'static str;
    /// The element types it is defined for.
    const DOMAIN: Domain;
    /// The value of one element; `s` are the scalar arguments.
    fn eval<E: Expr>(x: E, s: &[E]) -> E;
}

/// A pointwise operator with two tensor arguments.
pub trait Pointwise2 {
    /// The operator's name, for messages.
    const NAME: &'static str;
    /// The element types it is defined for.
    const DOMAIN: Domain;
    /// The value of one element; `s` are the scalar arguments.
    fn eval<E: Expr>(x: E, y: E, s: &[E]) -> E;
}

/// A pointwise operator with three tensor arguments.
pub trait Pointwise3 {
    /// The operator's name, for messages.
    const NAME: &'static str;
    /// The element types it is defined for.
    const DOMAIN: Domain;
    /// The value of one element; `s` are the scalar arguments.
    fn eval<E: Expr>(x: E, y: E, z: E, s: &[E]) -> E;
}

/// A pointwise predicate with one tensor argument.
pub trait PointwisePred1 {
    /// The operator's name, for messages.
    const NAME: &'static str;
    /// The element types it is defined for.
    const DOMAIN: Domain;
    /// The truth of one element; `s` are the scalar arguments.
    fn eval<E: Expr>(x: E, s: &[E]) -> E::Mask;
}

/// A pointwise predicate with two tensor arguments.
pub trait PointwisePred2 {
    /// The operator's name, for messages.
    const NAME: &'static str;
    /// The element types it is defined for.
    const DOMAIN: Domain;
    /// The truth of one element; `s` are the scalar arguments.
    fn eval<E: Expr>(x: E, y: E, s: &[E]) -> E::Mask;
}

/// Implements the runners: two functions per arity, and the adapter that gives the loops the
/// operator with three arguments of which they fill the first ones.
macro_rules! runners {
    ($($(#[$doc:meta])* $name:ident $register:ident $pick:ident:
        $operator:ident => $kind:ident($arity:literal, $($x:ident),+);)+) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        /// `NotImplemented` outside the operator's domain, or a division of integers by zero.
        pub fn $name<P: $operator>(iter: &mut TensorIterator, scalars: &[Scalar]) -> Result<()> {
            loops::run(iter, scalars, P::NAME, $pick::<P>())
        }

        /// Registers the operator's loops.
        ///
        /// # Errors
        /// When the stub takes no loops of the CPU.
        pub fn $register<P: $operator>(stub: &Stub) -> Result<()> {
            stub.set_shortcut(|rule, call| contiguous::run($pick::<P>(), rule, call));
            stub.set(DeviceType::Cpu, $name::<P>)
        }

        fn $pick<P: $operator>() -> PickLoop {
            struct Adapter<P>(P);
            runners!(@impl $kind $operator $arity $($x)+);
            runners!(@pick $kind Adapter<P>)
        }
    )+};
    (@pick Body $adapter:ty) => { loops::body::<$adapter> };
    (@pick Test $adapter:ty) => { loops::test::<$adapter> };
    (@impl Body $operator:ident $arity:literal $($x:ident)+) => {
        impl<P: $operator> Body for Adapter<P> {
            const ARITY: usize = $arity;
            const DOMAIN: Domain = P::DOMAIN;
            const IS_SHORT: bool = loops::is_among(P::NAME, loops::SHORT);
            const GOES_PAST: bool = Self::IS_SHORT || loops::is_among(P::NAME, loops::MIDDLING);
            #[inline(always)]
            fn eval<E: Expr>(x: [E; 3], s: &[E]) -> E {
                let [$($x,)+ ..] = x;
                P::eval($($x),+, s)
            }
        }
    };
    (@impl Test $operator:ident $arity:literal $($x:ident)+) => {
        impl<P: $operator> Test for Adapter<P> {
            const ARITY: usize = $arity;
            const DOMAIN: Domain = P::DOMAIN;
            #[inline(always)]
            fn eval<E: Expr>(x: [E; 3], s: &[E]) -> E::Mask {
                let [$($x,)+ ..] = x;
                P::eval($($x),+, s)
            }
        }
    };
}

runners! {
    /// Runs an operator with one tensor argument.
    pointwise1 register_pointwise1 pick_pointwise1: Pointwise1 => Body(1, a);
    /// Runs an operator with two tensor arguments.
    pointwise2 register_pointwise2 pick_pointwise2: Pointwise2 => Body(2, a, b);
    /// Runs an operator with three tensor arguments.
    pointwise3 register_pointwise3 pick_pointwise3: Pointwise3 => Body(3, a, b, c);
    /// Runs a predicate with one tensor argument.
    predicate1 register_predicate1 pick_predicate1: PointwisePred1 => Test(1, a);
    /// Runs a predicate with two tensor arguments.
    predicate2 register_predicate2 pick_predicate2: PointwisePred2 => Test(2, a, b);
}
