//! `tensor[items]` and `tensor[items] = value`.

use crate::text::{self, Reader};
use corten_core::{Result, bail};
use corten_ops::index::{self, IndexItem, Slice};
use corten_ops::{IValue, Tensor};

/// The result of one line's call as text.
pub(crate) fn run(call: &str) -> String {
    let (call, value) = match call.rsplit_once(" ) ") {
        Some((call, value)) => (call, Some(text::value(value))),
        None => (call.trim_end_matches(" )"), None),
    };
    let mut reader = Reader::new(call);
    let _what = reader.word();
    let IValue::Tensor(tensor) = text::value(reader.word()) else { panic!("no tensor in {call}") };
    let address = text::storage_address(&tensor);
    assert_eq!(reader.word(), "(");
    let items: Vec<IndexItem> = reader.words().map(item).collect();
    if let Err(error) = check_steps(&tensor, &items) {
        return text::failure(&error);
    }
    match apply(&tensor, &items, value) {
        Ok(result) => text::write(&IValue::Tensor(result), Some(address)),
        Err(error) => text::failure(&error),
    }
}

/// Refuses negative steps, as PyTorch does, after what is wrong with the items before them.
fn check_steps(tensor: &Tensor, items: &[IndexItem]) -> Result<()> {
    let is_negative = |item: &IndexItem| matches!(item, IndexItem::Slice(Slice { step: Some(step), .. }) if *step < 0);
    let Some(place) = items.iter().position(is_negative) else { return Ok(()) };
    let forwards: Vec<IndexItem> = items
        .iter()
        .map(|item| if is_negative(item) { item.clone().step(1) } else { item.clone() })
        .collect();
    match index::get(tensor, &forwards) {
        Err(error) if error.message().contains("too many") => return Err(error),
        Err(error) if error.message().contains("0-dim") => return Err(error),
        _ => {}
    }
    index::get(tensor, &items[..place])?;
    bail!(Value, "step must be greater than zero")
}

fn apply(tensor: &Tensor, items: &[IndexItem], value: Option<IValue>) -> Result<Tensor> {
    match value {
        None => return index::get(tensor, items),
        Some(IValue::Tensor(value)) => index::set(tensor, items, &value)?,
        Some(number) => index::set_scalar(tensor, items, number.get()?)?,
    }
    Ok(tensor.clone())
}

fn item(word: &str) -> IndexItem {
    if let Some(bounds) = word.strip_prefix('S') {
        let bounds: Vec<Option<i64>> = bounds.split(',').map(|bound| bound.parse().ok()).collect();
        return IndexItem::Slice(Slice { start: bounds[0], stop: bounds[1], step: bounds[2] });
    }
    match word {
        "N" => IndexItem::None,
        "E" => IndexItem::Ellipsis,
        _ => match text::value(word) {
            IValue::Int(index) => IndexItem::Int(index),
            IValue::Bool(truth) => IndexItem::Bool(truth),
            IValue::Tensor(tensor) => IndexItem::Tensor(tensor),
            other => panic!("{} is no item", other.tag()),
        },
    }
}
