//! The text of a group's kernel: what both of its forms have in common.

use super::record::Launch;
use crate::pointwise::MAX_DIMS;
use crate::text::{self, needed, storage_type, value_type};
use corten_core::DType;
use corten_ops::device_groups::{DeviceGroup, ElementBytes, GroupInput, GroupStep};
use std::fmt::Write as _;

/// Bytes of parameters that a launch takes.
const MOST_BYTES: usize = 4096;
/// Of them by operand: an address, a stride along rows, and strides of `Geometry`.
const OPERAND_BYTES: usize = 16 + 4 * MAX_DIMS;
/// Of them for everything else but numbers.
const OTHER_BYTES: usize = 256;

/// Prints the steps of a group.
pub(super) struct Printer<'a> {
    pub(super) group: &'a DeviceGroup,
    launches: Vec<&'a Launch>,
    /// The numbers of all steps, which the launch passes: kernels that differ in them have one text.
    pub(super) numbers: Vec<[u8; 16]>,
    /// Where numbers of steps and of the group begin in `numbers`.
    of_steps: Vec<usize>,
    of_group: usize,
}

impl<'a> Printer<'a> {
    /// `None` for launches of another back end, and for more numbers than a launch takes.
    pub(super) fn new(group: &'a DeviceGroup) -> Option<Self> {
        let launches = group.steps.iter().map(|step| step.launch.downcast_ref::<Launch>());
        let launches: Vec<&Launch> = launches.collect::<Option<_>>()?;
        let (mut numbers, mut of_steps) = (Vec::new(), Vec::new());
        for launch in &launches {
            of_steps.push(numbers.len());
            if let Launch::Pointwise { numbers: own, .. } = launch {
                numbers.extend_from_slice(own);
            }
        }
        let of_group = numbers.len();
        numbers.extend(group.numbers.iter().map(bytes_of));
        let bytes = OTHER_BYTES + OPERAND_BYTES * group.operands.len() + 16 * numbers.len();
        if bytes > MOST_BYTES {
            return None;
        }
        if numbers.is_empty() {
            numbers.push([0; 16]);
        }
        Some(Self { group, launches, numbers, of_steps, of_group })
    }

    /// What the kernel is made of besides what is printed: the parts of the text, and the definitions of expressions.
    pub(super) fn parts(&self) -> (Vec<&'static str>, String) {
        let mut parts = vec![text::TYPES, text::MATH, text::POINTWISE];
        if self.group.by_rows {
            parts.push(text::REDUCE);
        }
        let mut own: Vec<&'static str> = Vec::new();
        for launch in &self.launches {
            let Launch::Pointwise { expression, .. } = launch else { continue };
            for part in needed(expression.text) {
                if !parts.contains(&part) {
                    parts.push(part);
                }
            }
            if !own.contains(&expression.text) {
                own.push(expression.text);
            }
        }
        (parts, own.join("\n"))
    }

    /// The launch of a step.
    pub(super) fn launch(&self, step: usize) -> &'a Launch {
        self.launches[step]
    }

    /// The type in which an operand lies in memory.
    pub(super) fn operand_type(&self, operand: usize) -> &'static str {
        storage_type(self.group.operands[operand].dtype)
    }

    /// Whether steps read what an operand holds before the group runs.
    pub(super) fn is_read(&self, operand: usize) -> bool {
        let reads = |step: &GroupStep| step.inputs.contains(&GroupInput::Operand(operand));
        self.group.steps.iter().any(reads)
    }

    /// The type of the numbers.
    pub(super) fn table(&self) -> String {
        let count = self.numbers.len();
        format!("struct __align__(16) Table {{ unsigned char v[{count}][16]; }};\n")
    }

    /// An input of a dtype, in the type in which it lies in memory.
    fn input(&self, input: GroupInput, dtype: DType) -> String {
        match input {
            GroupInput::Operand(operand) => format!("a{operand}"),
            GroupInput::Step(step) => format!("v{step}"),
            GroupInput::Number(number) => number_at(storage_type(dtype), self.of_group + number),
        }
    }

    /// An input as a value of a type.
    pub(super) fn converted(&self, input: GroupInput, dtype: DType, value: &str) -> String {
        format!("to<{value}>(widen({}))", self.input(input, dtype))
    }

    /// The lines that compute a pointwise step from `a…` and `v…`.
    pub(super) fn pointwise(&self, step: usize, out: &mut String) {
        let Launch::Pointwise { expression, dtypes, value, numbers } = self.launches[step] else {
            return;
        };
        let (value, result) = (value_type(*value), storage_type(dtypes[0]));
        let inputs = self.group.steps[step].inputs.iter().zip(&dtypes[1..]);
        let inputs: Vec<String> =
            inputs.map(|(&input, &dtype)| self.converted(input, dtype, value)).collect();
        let first = self.of_steps[step];
        let scalars: Vec<String> =
            (first..first + numbers.len()).map(|at| number_at(value, at)).collect();
        let operator = expression.operator;
        let (x, s) = (array(value, "x", step, &inputs), array(value, "s", step, &scalars));
        // Writing to a string does not fail.
        let _ = writeln!(
            out,
            "    {x} {s}\n    {result} v{step} = narrow<{result}>({operator}::template apply<{value}>(x{step}, s{step}));"
        );
    }
}

/// An array of values; of one without a value where there are none.
fn array(value: &str, name: &str, step: usize, elements: &[String]) -> String {
    match elements.len() {
        0 => format!("{value} {name}{step}[1];"),
        count => format!("{value} {name}{step}[{count}] = {{{}}};", elements.join(", ")),
    }
}

fn number_at(kind: &str, at: usize) -> String {
    format!("*reinterpret_cast<const {kind}*>(table.v[{at}])")
}

fn bytes_of(element: &ElementBytes) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&element[0].to_ne_bytes());
    bytes[8..].copy_from_slice(&element[1].to_ne_bytes());
    bytes
}
