//! The file of corten-cuda: the registry's pointwise expressions as CUDA C++, and the registration of
//! every kernel that the crate has.

use super::{Generated, HEADER, Output, Piece, Section, indented};
use crate::formula::pointwise::{CudaVocabulary, Vocabulary, lower_to_cuda};
use crate::registry::{Body, Form, MetaRule, Op, Registry};
use crate::rust::{Signature, camel, function_name, static_name};
use std::collections::BTreeSet;

/// What corten-cuda has: the primitives of its kernels' text, and its functions as `family::name`.
#[derive(Debug, Default)]
pub struct CudaParts {
    /// The primitives.
    pub primitives: CudaVocabulary,
    /// The functions below `kernels`.
    pub kernels: BTreeSet<String>,
    /// The coefficients of special functions, as C++.
    pub tables: String,
}

/// Generates the file.
pub fn cuda(registry: &Registry, vocabulary: &Vocabulary, parts: &CudaParts) -> Generated {
    let mut output = Output::default();
    for op in &registry.ops {
        output.add(op, operator(op, vocabulary, parts));
    }
    let table = output.items(Section::Pointwise);
    let register = output.register(
        "/// Registers every kernel of this crate.\n///\n/// # Errors\n/// When the device takes no iterator kernels.\npub(crate) fn register() -> Result<()>",
        "Ok(())",
    );
    let text = format!(
        "{HEADER}use crate::kernels;\n\
         use corten_core::{{DeviceType, DispatchKey, Result}};\nuse corten_ops::{{op, stubs}};\n\n\
         /// The coefficients of special functions.\npub(crate) const TABLES: &str = {:?};\n\n\
         /// The operators that are written as expressions.\npub(crate) mod expressions {{\n\
         \x20   use crate::pointwise::{{Expression, run}};\n    use corten_core::{{Result, Scalar}};\n\
         \x20   use corten_ops::TensorIterator;\n    use corten_ops::meta::Domain;\n{}}}\n\n{register}",
        parts.tables,
        indented(&table)
    );
    output.finish(text)
}

fn operator(op: &Op, vocabulary: &Vocabulary, parts: &CudaParts) -> Result<Vec<Piece>, String> {
    if !op.is_selected() {
        return Ok(Vec::new());
    }
    let register = |code: String| Piece { place: Section::Register, code };
    let name = static_name(&op.schema);
    Ok(match &op.body {
        Body::Pointwise { expr, meta } => {
            let Some(code) = pointwise(op, &expr.expr, meta, vocabulary, &parts.primitives)? else {
                return Ok(Vec::new());
            };
            let function = function_name(&op.schema);
            let set = format!("stubs::{name}.set(DeviceType::Cuda, expressions::{function})?;");
            vec![Piece { place: Section::Pointwise, code }, register(set)]
        }
        Body::Iterator { kernel, .. } if parts.kernels.contains(kernel) => {
            vec![register(format!("stubs::{name}.set(DeviceType::Cuda, kernels::{kernel})?;"))]
        }
        Body::Kernel { kernel, inplace, out, .. } => {
            let paths = op.selected_forms().filter_map(|(form, schema)| {
                let path = match form {
                    Form::Declared => Some(kernel),
                    Form::Inplace => inplace.as_ref(),
                    Form::Out => out.as_ref(),
                };
                Some((static_name(schema), path.filter(|path| parts.kernels.contains(*path))?))
            });
            let implement = |(name, path): (String, &String)| {
                register(format!("op::{name}.implement(DispatchKey::CUDA, kernels::{path});"))
            };
            paths.map(implement).collect()
        }
        _ => Vec::new(),
    })
}

/// The entry of an expression; none where it uses a primitive that CUDA does not have.
fn pointwise(
    op: &Op,
    expr: &crate::formula::Expr,
    meta: &MetaRule,
    vocabulary: &Vocabulary,
    primitives: &CudaVocabulary,
) -> Result<Option<String>, String> {
    let (predicate, domain) = match meta {
        MetaRule::Pointwise { promote, domain } => {
            (matches!(*promote, "comparison" | "bool_out"), *domain)
        }
        MetaRule::Function(_) => (false, "all"),
    };
    let signature = Signature::of(&op.schema)?;
    let Some(body) = lower_to_cuda(expr, &signature, predicate, vocabulary, primitives)? else {
        return Ok(None);
    };
    let operands: Vec<String> =
        body.inputs.iter().enumerate().map(|(i, input)| format!("E {input} = in[{i}];")).collect();
    let result = if predicate { "Truth" } else { "E" };
    let name = camel(&function_name(&op.schema));
    let texts = primitives.texts_of(expr).unwrap_or_default();
    let needed: Vec<&str> = texts.into_iter().filter(|&text| text != "math").collect();
    let needed = match needed.is_empty() {
        true => String::new(),
        false => format!("// needs {}\n", needed.join(" ")),
    };
    let text = format!(
        "{needed}namespace ct {{ namespace registry {{ struct {name} {{ template <class E> CT_FN static {result} apply(const E* in, \
         const E* s) {{ {} return {result}({}); }} }}; }} }}",
        operands.join(" "),
        body.body
    );
    Ok(Some(format!(
        "static {}: Expression = Expression {{ name: {:?}, operator: \"registry::{name}\", text: {text:?}, inputs: {}, \
         domain: Domain::{} }};\n
         pub(crate) fn {}(iter: &mut TensorIterator, scalars: &[Scalar]) -> Result<()> {{
             run(&{}, iter, scalars)
         }}",
        static_name(&op.schema),
        op.schema.name.trim_end_matches('_'),
        body.inputs.len(),
        camel(domain),
        function_name(&op.schema),
        static_name(&op.schema),
    )))
}
