//! Kernels at the keys of sparse layouts.

use super::super::{Piece, Section};
use super::computed;
use crate::registry::{Body, Form, Op};
use crate::rust::{Signature, function_name, identifier, static_name};
use crate::schema::Schema;

/// The body of the kernel of an operator that is zero at zero, on the values of the entries.
fn by_values(op: &Op, form: Form, schema: &Schema, signature: &Signature) -> Option<String> {
    let composite = matches!(op.body, Body::Composite(_) | Body::WrapScalar);
    if composite || !op.tags.iter().any(|tag| tag == "keeps_zero") {
        return None;
    }
    let (function, passed) = (function_name(schema), signature.passed());
    Some(match form {
        Form::Declared => {
            format!("sparse::values::of_values(self_, |self_| op::{function}({passed}))")
        }
        Form::Inplace => format!(
            "sparse::values::write_values(self_, {:?}, |self_| op::{function}({passed}))",
            schema.name
        ),
        Form::Out => {
            let out = schema.outs().next()?;
            format!("sparse::store({}, &{})", identifier(&out.name), computed(op, schema).ok()?)
        }
    })
}

/// The kernels of an overload at the keys of sparse layouts.
pub(super) fn kernels(
    op: &Op,
    form: Form,
    schema: &Schema,
    signature: &Signature,
) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    for (key, word, paths) in
        [("Sparse", "sparse", &op.sparse), ("SparseCsr", "sparse_csr", &op.sparse_csr)]
    {
        if let (None, "sparse", Some(kernel)) =
            (paths, word, by_values(op, form, schema, signature))
        {
            let name = format!("{}_{word}", function_name(schema));
            let (declared, output) = (signature.declared(), signature.output.rust());
            let code =
                format!("pub(crate) fn {name}({declared}) -> Result<{output}> {{ {kernel} }}");
            pieces.push(Piece { place: Section::Kernel, code });
            let code =
                format!("op::{}.implement(Target::{key}, kernel::{name});", static_name(schema));
            pieces.push(Piece { place: Section::Register, code });
        }
        let Some(paths) = paths else { continue };
        let path = match form {
            Form::Declared => Some(&paths.main),
            Form::Inplace => paths.inplace.as_ref(),
            Form::Out => paths.out.as_ref(),
        };
        let kernel = match path {
            Some(path) => format!("sparse::{path}"),
            None => {
                let outs = schema.outs().count();
                if outs > 1 {
                    continue;
                }
                let target = match schema.outs().next() {
                    Some(out) => identifier(&out.name),
                    None => "self_".to_owned(),
                };
                let name = format!("{}_{word}", function_name(schema));
                let (declared, output) = (signature.declared(), signature.output.rust());
                let code = format!(
                    "pub(crate) fn {name}({declared}) -> Result<{output}> {{ sparse::store({target}, &{}) }}",
                    computed(op, schema)?
                );
                pieces.push(Piece { place: Section::Kernel, code });
                format!("kernel::{name}")
            }
        };
        let code = format!("op::{}.implement(Target::{key}, {kernel});", static_name(schema));
        pieces.push(Piece { place: Section::Register, code });
    }
    Ok(pieces)
}
