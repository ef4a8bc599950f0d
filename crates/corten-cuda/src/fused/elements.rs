//! Groups that run element by element.

use super::printer::Printer;
use std::fmt::Write as _;

/// A function of all steps over one element: `In` are the elements that are read, `Out` those that are written.
fn body(printer: &Printer<'_>) -> String {
    let group = printer.group;
    let (mut reads, mut writes, mut lines) = (String::new(), String::new(), String::new());
    for (i, operand) in group.operands.iter().enumerate() {
        let kind = printer.operand_type(i);
        if printer.is_read(i) {
            let _ = write!(reads, " {kind} a{i};");
            let _ = writeln!(lines, "    {kind} a{i} = in.a{i};");
        }
        if operand.written.is_some() {
            let _ = write!(writes, " {kind} b{i};");
        }
    }
    for step in 0..group.steps.len() {
        printer.pointwise(step, &mut lines);
    }
    for (i, operand) in group.operands.iter().enumerate() {
        if let Some(step) = operand.written {
            let _ = writeln!(lines, "    out.b{i} = v{step};");
        }
    }
    format!(
        "struct In {{{reads} }};\nstruct Out {{{writes} }};\n\
         CT_FN void group_body(const In& in, Out& out, const Table& table) {{\n{lines}}}\n"
    )
}

/// The kernel for operands at any strides: an element per thread.
pub(super) fn strided(printer: &Printer<'_>, name: &str) -> String {
    let count = printer.group.operands.len();
    let (mut loads, mut stores) = (String::new(), String::new());
    for (i, operand) in printer.group.operands.iter().enumerate() {
        let kind = printer.operand_type(i);
        if printer.is_read(i) {
            let _ = writeln!(
                loads,
                "    in.a{i} = *reinterpret_cast<const {kind}*>(at.at[{i}] + offset[{i}]);"
            );
        }
        if operand.written.is_some() {
            let _ = writeln!(
                stores,
                "    *reinterpret_cast<{kind}*>(at.at[{i}] + offset[{i}]) = out.b{i};"
            );
        }
    }
    format!(
        "namespace ct {{\n{}{}\
         __global__ void {name}(u32 n, Pointers<{count}> at, Table table, Geometry<{count}> geometry) {{\n    \
         u32 i = blockIdx.x * blockDim.x + threadIdx.x;\n    if (i >= n) return;\n    \
         i64 offset[{count}];\n    offsets(geometry, i, offset);\n    In in;\n    Out out;\n\
         {loads}    group_body(in, out, table);\n{stores}}}\n}}\n",
        printer.table(),
        body(printer),
    )
}

/// The kernel for operands that are dense, or one element: W elements per thread, which are aligned together.
pub(super) fn dense(printer: &Printer<'_>, name: &str) -> String {
    let group = printer.group;
    let (mut singles, mut loads, mut fill) = (String::new(), String::new(), String::new());
    let (mut one, mut packs, mut keep, mut stores, mut store_one) =
        (String::new(), String::new(), String::new(), String::new(), String::new());
    for (i, operand) in group.operands.iter().enumerate() {
        let kind = printer.operand_type(i);
        if printer.is_read(i) && operand.strides[0] == 0 {
            let _ =
                writeln!(singles, "    in.a{i} = *reinterpret_cast<const {kind}*>(at.at[{i}]);");
        } else if printer.is_read(i) {
            let _ = writeln!(
                loads,
                "        Pack<{kind}, W> p{i} = reinterpret_cast<const Pack<{kind}, W>*>(at.at[{i}])[first / W];"
            );
            let _ = writeln!(fill, "            in.a{i} = p{i}.v[j];");
            let _ =
                writeln!(one, "        in.a{i} = reinterpret_cast<const {kind}*>(at.at[{i}])[i];");
        }
        if operand.written.is_some() {
            let _ = writeln!(packs, "        Pack<{kind}, W> q{i};");
            let _ = writeln!(keep, "            q{i}.v[j] = out.b{i};");
            let _ = writeln!(
                stores,
                "        reinterpret_cast<Pack<{kind}, W>*>(at.at[{i}])[first / W] = q{i};"
            );
            let _ =
                writeln!(store_one, "        reinterpret_cast<{kind}*>(at.at[{i}])[i] = out.b{i};");
        }
    }
    let count = group.operands.len();
    format!(
        "namespace ct {{\n{}{}\
         template <int W> __global__ void {name}(u64 n, Pointers<{count}> at, Table table) {{\n    \
         u64 first = ((u64)blockIdx.x * blockDim.x + threadIdx.x) * W;\n    if (first >= n) return;\n    \
         In in;\n    Out out;\n{singles}    if (first + W <= n) {{\n{loads}{packs}        #pragma unroll\n        \
         for (int j = 0; j < W; j++) {{\n{fill}            group_body(in, out, table);\n{keep}        }}\n\
         {stores}        return;\n    }}\n    for (u64 i = first; i < n; i++) {{\n{one}        \
         group_body(in, out, table);\n{store_one}    }}\n}}\n}}\n",
        printer.table(),
        body(printer),
    )
}
