//! Einstein's index notation, by way of batched products of matrices.
//!
//! Every operand is brought to one common list of dimensions (size 1 where it lacks a label), then
//! operands are multiplied from left to right; a label is summed as soon as no later operand and
//! not the output has it.

use crate::{Tensor, op};
use corten_core::{Dims, Result, bail, ensure};

/// Sums of products in index notation.
///
/// # Errors
/// `Runtime` for a malformed equation or operands that do not fit it.
pub fn einsum(equation: &str, tensors: &[Tensor], path: Option<&[i64]>) -> Result<Tensor> {
    ensure!(!tensors.is_empty(), Runtime, "einsum(): must provide at least one operand");
    let notation = Notation::parse(equation, tensors)?;
    let mut operands = Vec::with_capacity(tensors.len());
    for (labels, tensor) in notation.inputs.iter().zip(tensors) {
        operands.push(notation.align(tensor, labels)?);
    }
    notation.check_sizes(&operands)?;
    let steps = steps(path, operands.len())?;
    for (first, second) in steps {
        let (a, b) = (operands[first].clone(), operands[second].clone());
        let (high, low) = (first.max(second), first.min(second));
        operands.remove(high);
        operands.remove(low);
        let summed = notation.finished(&operands, &a, &b);
        operands.push(multiply(&a, &b, &summed)?);
    }
    let mut result = operands.remove(0);
    let rest: Vec<i64> = (notation.kept..notation.rank).map(|d| d as i64).collect();
    let sizes = result.sizes();
    // The sum over one operand is a new tensor even where there is nothing to add.
    let alone = tensors.len() == 1;
    let long: Vec<i64> =
        rest.iter().copied().filter(|&d| alone || sizes[d as usize] != 1).collect();
    if !long.is_empty() {
        result = op::sum_dim_intlist(&result, Some(&long), true, None)?;
    }
    if rest.is_empty() { Ok(result) } else { op::squeeze_dims(&result, &rest) }
}

/// The pairs to multiply: two operands are taken out, their product goes to the end.
fn steps(path: Option<&[i64]>, count: usize) -> Result<Vec<(usize, usize)>> {
    let Some(path) = path.filter(|path| !path.is_empty()) else {
        // From left to right; the running product is last.
        return Ok((0..count.saturating_sub(1))
            .map(|i| if i == 0 { (0, 1) } else { (count - 1 - i, 0) })
            .collect());
    };
    ensure!(
        path.len() == 2 * (count - 1),
        Runtime,
        "einsum(): expected contraction path given in path parameter to have size {} but got {}",
        2 * (count - 1),
        path.len()
    );
    let mut steps = Vec::new();
    for (step, pair) in path.chunks_exact(2).enumerate() {
        let left = (count - step) as i64;
        ensure!(
            pair[0] != pair[1] && pair.iter().all(|place| (0..left).contains(place)),
            Runtime,
            "einsum(): the operands {pair:?} of the contraction path do not exist"
        );
        steps.push((pair[0] as usize, pair[1] as usize));
    }
    Ok(steps)
}

/// One place of a subscript: a letter, or a dimension that the ellipsis covers, counted from the
/// right.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Label {
    Letter(u8),
    Ellipsis(usize),
}

/// A parsed equation.
struct Notation {
    inputs: Vec<Vec<Label>>,
    /// The common dimensions: those of the output, then those that are summed.
    dims: Vec<Label>,
    kept: usize,
    rank: usize,
}

impl Notation {
    fn parse(equation: &str, tensors: &[Tensor]) -> Result<Self> {
        let text: String = equation.chars().filter(|c| *c != ' ').collect();
        let (left, right) = match text.split_once("->") {
            Some((left, right)) => (left, Some(right)),
            None => (text.as_str(), None),
        };
        let terms: Vec<&str> = left.split(',').collect();
        ensure!(
            terms.len() <= tensors.len(),
            Runtime,
            "einsum(): fewer operands were provided than specified in the equation"
        );
        ensure!(
            terms.len() == tensors.len(),
            Runtime,
            "einsum(): more operands were provided than specified in the equation"
        );
        let mut inputs = Vec::new();
        for (place, (term, tensor)) in terms.iter().zip(tensors).enumerate() {
            inputs.push(input_labels(term, tensor, place)?);
        }
        let covered = inputs.iter().flatten().filter_map(|label| match label {
            Label::Ellipsis(n) => Some(n + 1),
            Label::Letter(_) => None,
        });
        let covered = covered.max().unwrap_or(0);
        let mut dims = match right {
            Some(right) => output_labels(right, &inputs, covered)?,
            None => implicit_output(&inputs, covered),
        };
        let kept = dims.len();
        let mut letters: Vec<Label> = inputs.iter().flatten().copied().collect();
        letters.sort_by_key(|label| match label {
            Label::Letter(letter) => (1, usize::from(*letter)),
            Label::Ellipsis(n) => (0, usize::MAX - n),
        });
        for label in letters {
            if !dims.contains(&label) {
                dims.push(label);
            }
        }
        let rank = dims.len();
        Ok(Self { inputs, dims, kept, rank })
    }

    /// The operand with the common dimensions; repeated labels become diagonals.
    fn align(&self, tensor: &Tensor, labels: &[Label]) -> Result<Tensor> {
        let (mut tensor, mut labels) = (tensor.clone(), labels.to_vec());
        let mut place = 0;
        while place < labels.len() {
            let again = (place + 1..labels.len()).find(|&other| labels[other] == labels[place]);
            let Some(other) = again else {
                place += 1;
                continue;
            };
            let (a, b) = (tensor.sizes()[place], tensor.sizes()[other]);
            ensure!(
                a == b,
                Runtime,
                "einsum(): subscript {} is repeated for an operand but the sizes don't match, {b} \
                 != {a}",
                name_of(labels[place])
            );
            // The diagonal goes to the end; it is moved back to where its label stands.
            let diagonal = op::diagonal(&tensor, 0, place as i64, other as i64)?;
            tensor = op::movedim_int(&diagonal, -1, place as i64)?;
            labels.remove(other);
        }
        let order: Vec<i64> = self
            .dims
            .iter()
            .filter_map(|dim| labels.iter().position(|label| label == dim).map(|p| p as i64))
            .collect();
        let mut aligned = op::permute(&tensor, &order)?;
        for (place, dim) in self.dims.iter().enumerate() {
            if !labels.contains(dim) {
                aligned = op::unsqueeze(&aligned, place as i64)?;
            }
        }
        Ok(aligned)
    }

    fn check_sizes(&self, operands: &[Tensor]) -> Result<()> {
        for (dim, &label) in self.dims.iter().enumerate() {
            let mut size = 1;
            for (place, operand) in operands.iter().enumerate() {
                let found = operand.sizes()[dim];
                ensure!(
                    found == size || found == 1 || size == 1,
                    Runtime,
                    "einsum(): subscript {} has size {found} for operand {place} which does not \
                     broadcast with previously seen size {size}",
                    name_of(label)
                );
                size = if size == 1 { found } else { size };
            }
        }
        Ok(())
    }

    /// The summed dimensions that only `a` and `b` still have.
    fn finished(&self, others: &[Tensor], a: &Tensor, b: &Tensor) -> Vec<usize> {
        let (left, right) = (a.sizes(), b.sizes());
        (self.kept..self.rank)
            .filter(|&d| left[d] != 1 || right[d] != 1)
            .filter(|&d| others.iter().all(|other| other.sizes()[d] == 1))
            .collect()
    }
}

fn name_of(label: Label) -> char {
    match label {
        Label::Letter(letter) => letter.into(),
        Label::Ellipsis(_) => '.',
    }
}

fn input_labels(term: &str, tensor: &Tensor, place: usize) -> Result<Vec<Label>> {
    let (before, after) = match term.split_once("...") {
        Some((before, after)) => (before, Some(after)),
        None => (term, None),
    };
    let letters = |text: &str| {
        let letter = |byte: u8| {
            ensure!(
                byte.is_ascii_alphabetic(),
                Runtime,
                "einsum(): invalid subscript given at index {place} in the equation string, \
                 subscripts must be in [a-zA-Z]"
            );
            Ok(Label::Letter(byte))
        };
        text.bytes().map(letter).collect::<Result<Vec<_>>>()
    };
    let mut labels = letters(before)?;
    let named = labels.len() + after.map_or(0, str::len);
    let rank = tensor.dim();
    if let Some(after) = after {
        ensure!(
            named <= rank,
            Runtime,
            "einsum(): the number of subscripts in the equation ({named}) is more than the number \
             of dimensions ({rank}) for operand {place}"
        );
        labels.extend((0..rank - named).rev().map(Label::Ellipsis));
        labels.extend(letters(after)?);
    } else if named != rank {
        let (relation, hint) = match named > rank {
            true => ("is more than", ""),
            false => ("does not match", " and no ellipsis was given"),
        };
        bail!(
            Runtime,
            "einsum(): the number of subscripts in the equation ({named}) {relation} the number of \
             dimensions ({rank}) for operand {place}{hint}"
        );
    }
    Ok(labels)
}

fn output_labels(text: &str, inputs: &[Vec<Label>], covered: usize) -> Result<Vec<Label>> {
    let mut labels = Vec::new();
    let (before, after) = match text.split_once("...") {
        Some((before, after)) => (before, Some(after)),
        None => (text, None),
    };
    let push = |byte: u8, labels: &mut Vec<Label>| {
        let label = Label::Letter(byte);
        ensure!(
            byte.is_ascii_alphabetic(),
            Runtime,
            "einsum(): invalid subscript given at the output in the equation string, subscripts \
             must be in [a-zA-Z]"
        );
        ensure!(
            !labels.contains(&label),
            Runtime,
            "einsum(): output subscript {} appears more than once in the output",
            char::from(byte)
        );
        ensure!(
            inputs.iter().any(|input| input.contains(&label)),
            Runtime,
            "einsum(): output subscript {} does not appear in the equation for any input operand",
            char::from(byte)
        );
        labels.push(label);
        Ok(())
    };
    before.bytes().try_for_each(|byte| push(byte, &mut labels))?;
    if let Some(after) = after {
        labels.extend((0..covered).rev().map(Label::Ellipsis));
        after.bytes().try_for_each(|byte| push(byte, &mut labels))?;
    }
    Ok(labels)
}

/// The ellipsis, then the letters that appear once, in alphabetical order.
fn implicit_output(inputs: &[Vec<Label>], covered: usize) -> Vec<Label> {
    let mut labels: Vec<Label> = (0..covered).rev().map(Label::Ellipsis).collect();
    let count = |letter| inputs.iter().flatten().filter(|&&label| label == letter).count();
    labels.extend((b'A'..=b'z').map(Label::Letter).filter(|&letter| count(letter) == 1));
    labels
}

/// The product of two aligned operands, summed over some dimensions, which stay with size 1.
fn multiply(a: &Tensor, b: &Tensor, summed: &[usize]) -> Result<Tensor> {
    let (mut a, mut b) = (a.clone(), b.clone());
    let (mut shared, mut left, mut right, mut inner) = (vec![], vec![], vec![], vec![]);
    for dim in 0..a.dim() {
        let (in_a, in_b) = (a.sizes()[dim] != 1, b.sizes()[dim] != 1);
        match (in_a, in_b, summed.contains(&dim)) {
            (true, true, true) => inner.push(dim as i64),
            // A label of one operand only is summed before the product.
            (true, false, true) => a = op::sum_dim_intlist(&a, Some(&[dim as i64]), true, None)?,
            (false, true, true) => b = op::sum_dim_intlist(&b, Some(&[dim as i64]), true, None)?,
            (true, true, false) => shared.push(dim as i64),
            (true, false, false) => left.push(dim as i64),
            (false, true, false) => right.push(dim as i64),
            (false, false, _) => {}
        }
    }
    if inner.is_empty() {
        return op::mul_tensor(&a, &b);
    }
    // The product comes out in the order of the result where the right operand's labels are first.
    if let (Some(first), Some(last)) = (left.first(), right.last())
        && last < first
    {
        std::mem::swap(&mut a, &mut b);
        std::mem::swap(&mut left, &mut right);
    }
    let rank = a.dim();
    let rest: Vec<i64> = (0..rank as i64)
        .filter(|d| ![&shared, &left, &right, &inner].iter().any(|group| group.contains(d)))
        .collect();
    let size = |tensor: &Tensor, dims: &[i64]| -> i64 {
        dims.iter().map(|&d| tensor.sizes()[d as usize]).product()
    };
    let (batch, rows, columns, depth) =
        (size(&a, &shared), size(&a, &left), size(&b, &right), size(&a, &inner));
    let order_a = [&shared[..], &left, &inner, &right, &rest].concat();
    let order_b = [&shared[..], &inner, &right, &left, &rest].concat();
    let x = op::reshape(&op::permute(&a, &order_a)?, &[batch, rows, depth])?;
    let y = op::reshape(&op::permute(&b, &order_b)?, &[batch, depth, columns])?;
    let product = op::bmm(&x, &y)?;
    let order = [&shared[..], &left, &right, &inner, &rest].concat();
    let sizes: Dims = order
        .iter()
        .map(|&d| match (inner.contains(&d), a.sizes()[d as usize]) {
            (true, _) => 1,
            (false, 1) => b.sizes()[d as usize],
            (false, size) => size,
        })
        .collect();
    let mut back = vec![0; rank];
    order.iter().enumerate().for_each(|(place, &d)| back[d as usize] = place as i64);
    op::permute(&op::view(&product, &sizes)?, &back)
}
