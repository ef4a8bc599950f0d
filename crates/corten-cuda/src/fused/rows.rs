//! Groups whose rows are reduced: threads of a block share a row, and run over it once for every reduction that
//! waits for another one, and once for what is written.
//!
//! Each thread adds its elements in their order, and threads are merged as `reduce.cuh` does, so that the bits are
//! those of the reduction by itself. What a pass needs is computed anew from the operands, whose rows the caches
//! hold. Results are written after all passes, those of rows by one thread when all have read.

use super::printer::Printer;
use super::record::Launch;
use crate::text::{storage_type, value_type};
use corten_ops::device_groups::{GroupInput, GroupStep};
use std::fmt::Write as _;

/// What is known of the steps.
struct Passes {
    /// The passes that must be over before a step can run.
    after: Vec<usize>,
    count: usize,
}

impl Passes {
    fn of(steps: &[GroupStep]) -> Self {
        let mut after: Vec<usize> = Vec::with_capacity(steps.len());
        for step in steps {
            let inputs = step.inputs.iter().map(|input| match *input {
                GroupInput::Step(of) => after[of],
                _ => 0,
            });
            after.push(inputs.max().unwrap_or(0) + usize::from(step.reduces));
        }
        let count = after.iter().copied().max().unwrap_or(0);
        Self { after, count }
    }
}

/// Whether a step gives one element per row.
fn is_per_row(step: &GroupStep) -> bool {
    step.over_rows || step.reduces
}

/// The kernel: `rows` rows of `len` elements, with the strides of operands along rows and across them.
pub(super) fn rows(printer: &Printer<'_>, name: &str) -> String {
    let count = printer.group.operands.len();
    let passes = Passes::of(&printer.group.steps);
    let mut lines = String::new();
    load_rows(printer, &mut lines);
    over_rows(printer, &passes, 0, &mut lines);
    for pass in 0..passes.count {
        reduce(printer, &passes, pass, &mut lines);
        over_rows(printer, &passes, pass + 1, &mut lines);
    }
    write_elements(printer, &mut lines);
    write_rows(printer, &mut lines);
    format!(
        "namespace ct {{\n{}\
         struct Along {{ i64 stride[{count}]; }};\n\
         __global__ void {name}(\n    u32 rows, u32 len, Pointers<{count}> at, Table table, Along along, \
         Geometry<{count}> geometry\n) {{\n    CT_DYN_SMEM(double, room);\n    \
         u32 lane = threadIdx.x, lanes = blockDim.x, local = threadIdx.y;\n    \
         u32 row = blockIdx.x * blockDim.y + local;\n    bool exists = row < rows;\n    \
         if (!exists) row = rows - 1;\n    i64 offset[{count}];\n    offsets(geometry, row, offset);\n{lines}}}\n}}\n",
        printer.table(),
    )
}

/// Whether an operand has one element per row.
fn is_row_operand(printer: &Printer<'_>, operand: usize) -> bool {
    printer.group.operands[operand].strides[0] == 0
}

fn load_rows(printer: &Printer<'_>, lines: &mut String) {
    for operand in 0..printer.group.operands.len() {
        let kind = printer.operand_type(operand);
        if is_row_operand(printer, operand) && printer.is_read(operand) {
            let _ = writeln!(
                lines,
                "    {kind} a{operand} = *reinterpret_cast<const {kind}*>(at.at[{operand}] + offset[{operand}]);"
            );
        }
    }
}

/// The steps over single elements of rows that can run after so many passes.
fn over_rows(printer: &Printer<'_>, passes: &Passes, pass: usize, lines: &mut String) {
    for (index, step) in printer.group.steps.iter().enumerate() {
        if step.over_rows && passes.after[index] == pass {
            printer.pointwise(index, lines);
        }
    }
}

/// The loop over a row that computes what `roots` need, and what is done with it.
fn over_elements(printer: &Printer<'_>, roots: &[GroupInput], end: &str, lines: &mut String) {
    let steps = &printer.group.steps;
    let mut wanted = vec![false; steps.len()];
    let mut operands = vec![false; printer.group.operands.len()];
    let mut want = |input: &GroupInput, wanted: &mut Vec<bool>| match *input {
        GroupInput::Step(of) if !is_per_row(&steps[of]) => wanted[of] = true,
        GroupInput::Operand(of) => operands[of] = true,
        _ => {}
    };
    roots.iter().for_each(|root| want(root, &mut wanted));
    for index in (0..steps.len()).rev().filter(|&index| !is_per_row(&steps[index])) {
        if wanted[index] {
            steps[index].inputs.iter().for_each(|input| want(input, &mut wanted));
        }
    }
    lines.push_str("    if (exists) for (u32 i = lane; i < len; i += lanes) {\n");
    for (operand, &is_wanted) in operands.iter().enumerate() {
        let kind = printer.operand_type(operand);
        if is_wanted && !is_row_operand(printer, operand) {
            let _ = writeln!(
                lines,
                "    {kind} a{operand} = *reinterpret_cast<const {kind}*>(at.at[{operand}] + offset[{operand}] \
                 + i * along.stride[{operand}]);"
            );
        }
    }
    for index in (0..steps.len()).filter(|&index| wanted[index]) {
        printer.pointwise(index, lines);
    }
    let _ = writeln!(lines, "{end}    }}");
}

/// The reductions that can run after so many passes, in one loop.
fn reduce(printer: &Printer<'_>, passes: &Passes, pass: usize, lines: &mut String) {
    let (mut roots, mut adds, mut ends) = (Vec::new(), String::new(), String::new());
    for (index, step) in printer.group.steps.iter().enumerate() {
        let Launch::Reduction { reduction, dtypes } = printer.launch(index) else { continue };
        if passes.after[index] != pass + 1 {
            continue;
        }
        let value = value_type(reduction.dtype);
        let accumulator = reduction.accumulator.replace("{}", value);
        let result = storage_type(dtypes[0]);
        // Every bit counts.
        let number = format!("__longlong_as_double(0x{:x}LL)", reduction.number.to_bits());
        let input = step.inputs[0];
        let _ = writeln!(lines, "    {accumulator} r{index};\n    r{index}.start();");
        let _ = writeln!(
            adds,
            "    r{index}.add({}, i, {number});",
            printer.converted(input, dtypes[1], value)
        );
        let _ = writeln!(
            ends,
            "    r{index} = merged_rows(r{index}, reinterpret_cast<{accumulator}*>(room), lane, lanes, local);\n    \
             {result} v{index} = narrow<{result}>(r{index}.first(ReduceShape{{rows, len, len, {number}}}));"
        );
        roots.push(input);
    }
    over_elements(printer, &roots, &adds, lines);
    lines.push_str(&ends);
}

fn write_elements(printer: &Printer<'_>, lines: &mut String) {
    let (mut roots, mut stores) = (Vec::new(), String::new());
    for (index, operand) in printer.group.operands.iter().enumerate() {
        let Some(step) = operand.written.filter(|_| !is_row_operand(printer, index)) else {
            continue;
        };
        let kind = printer.operand_type(index);
        let _ = writeln!(
            stores,
            "    *reinterpret_cast<{kind}*>(at.at[{index}] + offset[{index}] + i * along.stride[{index}]) = v{step};"
        );
        roots.push(GroupInput::Step(step));
    }
    if !roots.is_empty() {
        over_elements(printer, &roots, &stores, lines);
    }
}

fn write_rows(printer: &Printer<'_>, lines: &mut String) {
    let written = printer.group.operands.iter().enumerate();
    let written = written.filter_map(|(index, operand)| Some((index, operand.written?)));
    let written: Vec<(usize, usize)> =
        written.filter(|&(index, _)| is_row_operand(printer, index)).collect();
    if written.is_empty() {
        return;
    }
    lines.push_str("    __syncthreads();\n    if (!exists || lane != 0) return;\n");
    for (index, step) in written {
        let kind = printer.operand_type(index);
        let _ = writeln!(
            lines,
            "    *reinterpret_cast<{kind}*>(at.at[{index}] + offset[{index}]) = v{step};"
        );
    }
}
