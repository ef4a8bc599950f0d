//! The file of corten-cpu: loops from expressions, and the registration of every kernel.

use super::{Generated, HEADER, Output, Piece, Section, indented};
use crate::formula::pointwise::{Vocabulary, lower};
use crate::registry::{Body, Form, MetaKernel, MetaRule, Op, Registry};
use crate::rust::{Signature, camel, function_name, static_name};

/// Generates the file.
pub fn cpu(registry: &Registry, vocabulary: &Vocabulary) -> Generated {
    let mut output = Output::default();
    for op in &registry.ops {
        output.add(op, operator(op, vocabulary));
    }
    let loops = output.items(Section::Pointwise);
    let register = output.register(
        "/// Registers every kernel of this crate.\n///\n/// # Errors\n/// When the device takes no iterator kernels.\npub fn register() -> Result<()>",
        "Ok(())",
    );
    let text = format!(
        "{HEADER}use crate::kernels;\nuse crate::pointwise as runners;\n\
         use corten_core::{{DeviceType, DispatchKey, Result}};\n\
         use corten_ops::{{op, stubs}};\n\n\
         /// The loops that are written as expressions.\npub mod pointwise {{\n\
         \x20   use crate::pointwise::*;\n    use crate::vec::expr::*;\n    use corten_ops::meta::Domain;\n{}}}\n\n{register}",
        indented(&loops)
    );
    output.finish(text)
}

/// What is generated for one operator.
pub(super) fn operator(op: &Op, vocabulary: &Vocabulary) -> Result<Vec<Piece>, String> {
    let register = |code: String| match &op.feature {
        Some(feature) => {
            let code = format!("#[cfg(feature = {feature:?})]\n{code}");
            Piece { place: Section::Register, code }
        }
        None => Piece { place: Section::Register, code },
    };
    if !op.is_selected() {
        return Ok(Vec::new());
    }
    let name = static_name(&op.schema);
    let further = op.kernel_at.iter().map(|(key, path)| {
        register(format!("op::{name}.implement(DispatchKey::{key}, kernels::{path});"))
    });
    let further: Vec<Piece> = further.collect();
    let stub = |kernel: &str| register(format!("stubs::{name}.set(DeviceType::Cpu, {kernel})?;"));
    let mut pieces = match &op.body {
        Body::Pointwise { expr, meta } => {
            let (code, driver) = pointwise(op, &expr.expr, meta, vocabulary)
                .map_err(|message| format!("pointwise: {message}"))?;
            let set = register(format!("{driver}(&stubs::{name})?;"));
            vec![Piece { place: Section::Pointwise, code }, set]
        }
        Body::Iterator { kernel, .. } => vec![stub(&format!("kernels::{kernel}"))],
        Body::Kernel { kernel, inplace, out, meta } => {
            // See Note [Kernels on the meta device].
            let keys = match meta {
                Some(MetaKernel::Itself) => &["CPU", "Meta"][..],
                _ => &["CPU"],
            };
            let paths = op.selected_forms().filter_map(|(form, schema)| {
                let path = match form {
                    Form::Declared => Some(kernel),
                    Form::Inplace => inplace.as_ref(),
                    Form::Out => out.as_ref(),
                };
                Some((static_name(schema), path?))
            });
            let implement = |(name, path): (String, &String)| {
                let line =
                    |key| format!("op::{name}.implement(DispatchKey::{key}, kernels::{path});");
                keys.iter().map(line).map(&register).collect::<Vec<_>>()
            };
            paths.flat_map(implement).collect()
        }
        Body::Any(_) | Body::Composite(_) | Body::WrapScalar | Body::CopyOf(_) | Body::Sparse => {
            Vec::new()
        }
    };
    pieces.extend(further);
    Ok(pieces)
}

/// The struct of a pointwise operator and the driver that runs it.
fn pointwise(
    op: &Op,
    expr: &crate::formula::Expr,
    meta: &MetaRule,
    vocabulary: &Vocabulary,
) -> Result<(String, String), String> {
    let (predicate, domain) = match meta {
        MetaRule::Pointwise { promote, domain } => {
            (matches!(*promote, "comparison" | "bool_out"), *domain)
        }
        MetaRule::Function(_) => (false, "all"),
    };
    let signature = Signature::of(&op.schema)?;
    let body = lower(expr, &signature, predicate, vocabulary)?;
    let count = body.inputs.len();
    let name = camel(&function_name(&op.schema));
    let inputs: Vec<String> = body.inputs.iter().map(|name| format!("{name}: E")).collect();
    let (family, driver, result) = match predicate {
        true => ("PointwisePred", "predicate", "E::Mask"),
        false => ("Pointwise", "pointwise", "E"),
    };
    let code = format!(
        "/// `{text}`
        pub struct {name};
        impl {family}{count} for {name} {{
            const NAME: &'static str = {shown:?};
            const DOMAIN: Domain = Domain::{domain};
            #[inline(always)]
            fn eval<E: Expr>({inputs}, s: &[E]) -> {result} {{ {body} }}
        }}",
        text = op_text(op),
        shown = op.schema.name.trim_end_matches('_'),
        domain = camel(domain),
        inputs = inputs.join(", "),
        body = body.body,
    );
    Ok((code, format!("runners::register_{driver}{count}::<pointwise::{name}>")))
}

fn op_text(op: &Op) -> &str {
    match &op.body {
        Body::Pointwise { expr, .. } => &expr.text,
        _ => "",
    }
}
