//! Matching names from the right, as sizes are broadcast.

use corten_core::{DimName, Result, ShownNames, bail, ensure};

/// The names of a broadcast result: at each position from the right, the name that either tensor has
/// there.
///
/// # Errors
/// `Runtime` where both have names there that differ, or where a name that one has is at another
/// position of the other.
pub fn unify_from_right(
    names: &[DimName],
    others: &[DimName],
    action: &str,
) -> Result<Vec<DimName>> {
    let rank = names.len().max(others.len());
    let at = |list: &[DimName], back: usize| -> DimName {
        list.len().checked_sub(back + 1).and_then(|index| list[index].clone())
    };
    let mut result = Vec::new();
    for back in 0..rank {
        let (name, other) = (at(names, back), at(others, back));
        match (&name, &other) {
            (Some(a), Some(b)) if a != b => bail!(
                Runtime,
                "Error when attempting to {action} dims {} and dims {}: dim '{a}' and dim '{b}' are \
                 at the same position from the right but do not match.",
                ShownNames(names),
                ShownNames(others)
            ),
            (Some(_), Some(_)) | (None, None) => {}
            (Some(a), None) => check_alignment(a, names, others, others, action)?,
            (None, Some(b)) => check_alignment(b, names, others, names, action)?,
        }
        result.push(name.or(other));
    }
    result.reverse();
    Ok(result)
}

/// Refuses a name that is also in `elsewhere`, at another position.
fn check_alignment(
    name: &str,
    names: &[DimName],
    others: &[DimName],
    elsewhere: &[DimName],
    action: &str,
) -> Result<()> {
    ensure!(
        elsewhere.iter().flatten().all(|other| &**other != name),
        Runtime,
        "Misaligned dims when attempting to {action} dims {} and dims {}: dim '{name}' appears in a \
         different position from the right across both lists.",
        ShownNames(names),
        ShownNames(others)
    );
    Ok(())
}
