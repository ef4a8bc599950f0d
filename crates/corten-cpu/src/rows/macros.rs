//! Functions and folds of rows, written as formulas.

/// Defines functions of the elements of rows, with numbers that are the same for all of them.
macro_rules! row_functions {
    ($($(#[$doc:meta])* $name:ident $({ $($field:ident),+ })?: $rows:literal
        |$($x:ident),+| $value:expr;)+) => {$(
        $crate::rows::macros::row_parameters!($(#[$doc])* $name $($($field)+)?);

        impl<T: Copy> $crate::rows::loops::Function<T, $rows>
            for $crate::rows::macros::row_parameters!(@of $name $($($field)+)?)
        {
            #[inline(always)]
            fn of<V: $crate::vec::Lanes<Elem = T>>(self, [$($x),+]: [V; $rows]) -> V {
                $($(let $field = V::splat(self.$field);)+)?
                $value
            }
        }
    )+};
}

/// As [`row_functions`], for ways to put `$rows` rows together into `$values` sums.
macro_rules! row_folds {
    ($($(#[$doc:meta])* $name:ident $({ $($field:ident),+ })?: $rows:literal to $values:literal
        |$($state:ident),+; $($x:ident),+| $($value:expr),+;)+) => {$(
        $crate::rows::macros::row_parameters!($(#[$doc])* $name $($($field)+)?);

        impl<T: Copy> $crate::rows::loops::RowFold<T, $rows, $values>
            for $crate::rows::macros::row_parameters!(@of $name $($($field)+)?)
        {
            #[inline(always)]
            fn step<V: $crate::vec::Lanes<Elem = T>>(
                self,
                [$($state),+]: [V; $values],
                [$($x),+]: [V; $rows],
            ) -> [V; $values] {
                $($(let $field = V::splat(self.$field);)+)?
                [$($value),+]
            }
        }
    )+};
}

/// The numbers of a function, as a type of that name.
macro_rules! row_parameters {
    (@of $name:ident) => { $name };
    (@of $name:ident $($field:ident)+) => { $name<T> };
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(crate) struct $name;
    };
    ($(#[$doc:meta])* $name:ident $($field:ident)+) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(crate) struct $name<T> {
            $(pub(crate) $field: T,)+
        }
    };
}

pub(crate) use {row_folds, row_functions, row_parameters};

/// Runs a body for every vector of so many elements, given its place and how many it has. Whole ones
/// come apart from the last, so that no count is looked at. The body is no closure, which would be
/// compiled for another processor than the rest.
macro_rules! for_each_vector {
    ($vector:ty, $count:expr, |$at:ident, $n:ident| $body:expr) => {{
        let count: usize = $count;
        let whole = count / <$vector>::LANES * <$vector>::LANES;
        for $at in (0..whole).step_by(<$vector>::LANES) {
            let $n = <$vector>::LANES;
            $body;
        }
        if whole < count {
            let ($at, $n) = (whole, count - whole);
            $body;
        }
    }};
}
pub(crate) use for_each_vector;
