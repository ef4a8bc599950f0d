//! The lattice of dtypes.

use crate::numbers::{Class, TABLED, category, promoted, result_type};
use crate::sample::cases;
use corten_core::{DType, ResultTypeState, can_cast, promote_types};
use proptest::collection::vec;
use proptest::prelude::*;

fn pairs() -> impl Iterator<Item = (DType, DType)> {
    DType::NUMERIC.iter().flat_map(|&a| DType::NUMERIC.iter().map(move |&b| (a, b)))
}

/// The common dtype, or none.
fn join(a: DType, b: DType) -> Option<DType> {
    promote_types(a, b).ok()
}

#[test]
fn the_table_is_pytorchs() {
    for (a, b) in TABLED.iter().flat_map(|(_, a)| TABLED.iter().map(move |(_, b)| (*a, *b))) {
        assert_eq!(join(a, b), promoted(a, b), "{a} {b}");
    }
}

#[test]
fn eight_bit_floats_promote_with_themselves_only() {
    for (a, b) in pairs().filter(|(a, b)| a.is_float8() || b.is_float8()) {
        assert_eq!(join(a, b), (a == b).then_some(a), "{a} {b}");
    }
}

#[test]
fn promotion_is_idempotent_and_commutative() {
    for (a, b) in pairs() {
        assert_eq!(join(a, a), Some(a));
        assert_eq!(join(a, b), join(b, a), "{a} {b}");
    }
}

/// In whatever order three dtypes are promoted, wherever both orders are defined.
#[test]
fn promotion_is_associative() {
    for ((a, b), &c) in pairs().flat_map(|pair| DType::NUMERIC.iter().map(move |c| (pair, c))) {
        let left = join(a, b).and_then(|ab| join(ab, c));
        let right = join(b, c).and_then(|bc| join(a, bc));
        assert!(left.is_none() || right.is_none() || left == right, "{a} {b} {c}");
    }
}

/// The common dtype absorbs both, holds both, and is of the higher category.
#[test]
fn the_common_dtype_is_an_upper_bound() {
    for (a, b, common) in pairs().filter_map(|(a, b)| Some((a, b, join(a, b)?))) {
        assert_eq!(join(common, a), Some(common), "{a} {b}");
        assert!(can_cast(a, common) && can_cast(b, common), "{a} {b}");
        assert_eq!(category(common), category(a).max(category(b)), "{a} {b}");
    }
}

/// Writing without an explicit conversion goes to the same or a higher category.
#[test]
fn casts_go_up_in_category() {
    for (a, b) in pairs() {
        assert_eq!(can_cast(a, b), category(a) <= category(b), "{a} {b}");
    }
}

fn operand() -> impl Strategy<Value = (DType, Class)> {
    let numbers = [DType::Bool, DType::Int64, DType::Float64, DType::Complex128];
    let tabled = prop::sample::select(TABLED.map(|(_, dtype)| dtype).to_vec());
    let number = prop::sample::select(numbers.to_vec());
    let class = prop::sample::select(vec![Class::Dimensional, Class::RankZero, Class::Wrapped]);
    (tabled, number, class).prop_map(|(tabled, number, class)| match class {
        Class::Wrapped => (number, class),
        _ => (tabled, class),
    })
}

fn found(operands: &[(DType, Class)]) -> Option<DType> {
    let mut state = ResultTypeState::new();
    for (dtype, class) in operands {
        let rank = usize::from(*class == Class::Dimensional);
        state.push_tensor(*dtype, rank, *class == Class::Wrapped).ok()?;
    }
    state.finish().ok()
}

proptest! {
    #![proptest_config(cases(2000))]

    #[test]
    fn result_types_are_the_twins(operands in vec(operand(), 1..5)) {
        prop_assert_eq!(found(&operands), result_type(&operands));
    }

    /// Of two operands, which comes first does not matter.
    #[test]
    fn result_types_do_not_depend_on_the_order(a in operand(), b in operand()) {
        prop_assert_eq!(found(&[a, b]), found(&[b, a]));
    }
}
