use super::*;

#[test]
fn pivots_are_the_first_of_the_largest() {
    let nan = f64::NAN;
    for (column, first, expected) in [
        (&[1.0, -3.0, 3.0, 2.0][..], 0, 1),
        (&[8.0, -3.0, 3.0, 5.0], 1, 3),
        (&[0.0, 0.0, 0.0], 1, 1),
        (&[0.0, 0.0, 0.0, nan], 2, 2),
        (&[nan, 7.0], 0, 0),
        (&[1.0, nan, -2.0, 2.0], 0, 2),
        (&[nan, nan], 0, 0),
    ] {
        for shift in [0, 1, 15, 16, 31] {
            let mut filled = vec![9.0; shift];
            filled.extend_from_slice(column);
            filled.resize(filled.len().next_multiple_of(LANES), 0.0);
            assert_eq!(largest(&filled, shift + first), shift + expected, "{column:?} at {shift}");
        }
    }
}

#[test]
fn rows_are_exchanged_and_brought_back() {
    let rows: Vec<f32> = (0_u8..12).map(f32::from).collect();
    let (mut exchanged, pivots) = (rows.clone(), [3, 3, 4, 4]);
    exchange_rows(&mut exchanged, 3, &pivots);
    assert_eq!(exchanged[..3], [6.0, 7.0, 8.0]);
    exchange_rows_back(&mut exchanged, 3, &pivots);
    assert_eq!(exchanged, rows);
}
