//! The library and the twins compute the same.

use corten_lab::{Size, cases};

#[test]
fn the_library_agrees_with_its_twins() -> corten::Result<()> {
    corten::manual_seed(0);
    cases(Size::Small)?.iter().try_for_each(|case| case.check())
}
