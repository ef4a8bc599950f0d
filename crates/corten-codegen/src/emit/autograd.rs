//! The file of corten-autograd: recording wrappers, backward functions, nodes.

use super::{Generated, HEADER, Output, Piece, Section};
use crate::Sources;
use crate::registry::{Form, Grad, Op};
use crate::rust::{Shape, Signature, function_name, identifier, static_name};
use crate::schema::{Argument, Schema};

mod backward;
mod slots;

use backward::{Recipe, recipe};

/// Generates the file.
pub fn autograd(sources: &Sources) -> Generated {
    let mut output = Output::default();
    for op in &sources.registry.ops {
        output.add(op, operator(sources, op));
    }
    let items = output.items(Section::Autograd);
    let register = output.register(
        "/// Registers every wrapper.\n///\n/// # Errors\n/// None today.\npub fn register() -> Result<()>",
        "Ok(())",
    );
    let text = format!(
        "{HEADER}use crate::backward::{{Backward, Gradients}};\n\
         use crate::node::NodeDef;\nuse crate::record;\n\
         use corten_core::{{below_adinplaceorview, Complex, DType, Device, DispatchKey, Generator, Layout, MemoryFormat, Result, Scalar, Storage, TensorOptions}};\n\
         use corten_ops::{{Target, Tensor, op}};\n\n{items}\n{register}"
    );
    output.finish(text)
}

/// What is generated for one operator.
pub(super) fn operator(sources: &Sources, op: &Op) -> Result<Vec<Piece>, String> {
    if !op.is_selected() {
        return Ok(Vec::new());
    }
    match &op.grad {
        Grad::Composite => Ok(Vec::new()),
        Grad::Manual => Ok(op.selected_forms().flat_map(|(_, schema)| manual(schema)).collect()),
        Grad::None => {
            let wrappers =
                op.selected_forms().map(|(form, schema)| wrapper(op, form, schema, None));
            Ok(wrappers.collect::<Result<Vec<_>, _>>()?.concat())
        }
        Grad::Formulas { .. } | Grad::Multi { .. } => {
            let common = recipe(sources, op, false)?;
            let has_own = op.grad_inplace.is_some() || op.node_inplace.is_some();
            let own = if has_own { Some(recipe(sources, op, true)?) } else { None };
            let nodes = std::iter::once(&common).chain(&own);
            let mut pieces: Vec<Piece> =
                nodes.map(|recipe| piece(recipe.node_and_backward(op))).collect();
            for (form, schema) in op.selected_forms() {
                let inplace = own.as_ref().filter(|_| form == Form::Inplace);
                pieces.extend(wrapper(op, form, schema, Some(inplace.unwrap_or(&common)))?);
            }
            Ok(pieces)
        }
    }
}

fn piece(code: String) -> Piece {
    Piece { place: Section::Autograd, code }
}

fn manual(schema: &Schema) -> Vec<Piece> {
    let path = format!("crate::manual::{}", function_name(schema));
    register(schema, &path, !schema.is_functional() || schema.viewed().is_some())
}

/// In-place, out and view wrappers also serve `ADInplaceOrView`, alone in inference mode.
fn register(schema: &Schema, path: &str, both: bool) -> Vec<Piece> {
    let name = static_name(schema);
    let mut code = format!("op::{name}.implement(Target::Autograd, {path});");
    if both {
        code.push_str(&format!("op::{name}.implement(DispatchKey::ADInplaceOrView, {path});"));
    }
    vec![Piece { place: Section::Register, code }]
}

/// The names of the arguments in one wrapper, by what happens to them.
struct Wrapper<'a> {
    schema: &'a Schema,
    signature: Signature,
    recipe: Option<&'a Recipe>,
    op: &'a Op,
}

/// The wrapper of one form; nothing where calls can pass.
fn wrapper(
    op: &Op,
    form: Form,
    schema: &Schema,
    recipe: Option<&Recipe>,
) -> Result<Vec<Piece>, String> {
    let wrapper = Wrapper { schema, signature: Signature::of(schema)?, recipe, op };
    let is_out = form == Form::Out || schema.outs().next().is_some();
    let writes = !schema.is_functional();
    let tensors = wrapper.signature.parameters.iter().any(|p| p.ty.holds_tensors());
    let view = schema.viewed().is_some();
    let passes = recipe.is_none() && !writes && !view && (op.is_iterator() || !tensors);
    if passes {
        return Ok(Vec::new());
    }
    let body = match (is_out, writes) {
        (true, _) => wrapper.out(),
        _ if !wrapper.written_names().is_empty() => wrapper.inplace()?,
        _ => wrapper.functional()?,
    };
    let name = function_name(schema);
    let code = format!(
        "fn {name}({}) -> Result<{}> {{ {body} }}",
        wrapper.signature.declared(),
        wrapper.signature.output.rust()
    );
    let mut pieces = vec![piece(code)];
    pieces.extend(register(schema, &name, writes || view));
    Ok(pieces)
}

impl Wrapper<'_> {
    /// The call of the operator.
    fn call(&self) -> String {
        format!("op::{}({})", function_name(self.schema), self.signature.passed())
    }

    /// The call of the operator below autograd.
    fn below(&self) -> String {
        format!("below_adinplaceorview(|| {})?", self.call())
    }

    fn inputs(&self) -> String {
        let names = self.recipe.map_or(&[][..], |recipe| &recipe.inputs);
        names.iter().map(|name| format!("{name}.into()")).collect::<Vec<_>>().join(", ")
    }

    /// What is written; with a gradient, what has one.
    fn written_names(&self) -> Vec<String> {
        let name = |a: &Argument| identifier(&a.name);
        match self.recipe {
            Some(_) => self.schema.rewritten().map(name).collect(),
            None => self.schema.written().map(name).collect(),
        }
    }

    /// The check of the tensors for which there is no gradient.
    fn refuse_gradients(&self) -> String {
        let Some(recipe) = self.recipe else { return String::new() };
        let written = self.written_names();
        let has_none = |argument: &&Argument| {
            let name = identifier(&argument.name);
            argument.ty.holds_tensors()
                && !self.op.nondiff.contains(&argument.name)
                && !recipe.inputs.contains(&name)
                && !written.contains(&name)
        };
        let list = self.schema.arguments.iter().filter(has_none).map(|argument| {
            format!("({:?}, {}.into())", argument.name, identifier(&argument.name))
        });
        let list: Vec<String> = list.collect();
        if list.is_empty() {
            return String::new();
        }
        format!("record::refuse_gradients({:?}, &[{}])?;", self.schema.name, list.join(", "))
    }

    /// A slice of what is written.
    fn written(&self) -> String {
        let list = |name: &str| {
            let found = self.signature.parameters.iter().find(|p| p.name == name);
            found.is_some_and(|p| p.ty.shape == Shape::List)
        };
        match &self.written_names()[..] {
            [one] if list(one) => format!("&{one}.iter().collect::<Vec<_>>()"),
            several if several.iter().all(|name| list(name)) => {
                format!("&[{}].concat().iter().collect::<Vec<_>>()", several.join(", "))
            }
            several => format!("&[{}]", several.join(", ")),
        }
    }

    fn save(&self, inplace: bool) -> String {
        let Some(recipe) = self.recipe else { return String::new() };
        let written = if inplace { self.written_names() } else { Vec::new() };
        match recipe.save_inputs(&written) {
            text if text.is_empty() => String::new(),
            text => format!("if let Some(rec) = &mut rec {{ {text} }}"),
        }
    }

    fn functional(&self) -> Result<String, String> {
        let mut text = self.refuse_gradients();
        if let Some(recipe) = self.recipe {
            let mutable = if recipe.saves_inputs() { "mut " } else { "" };
            text.push_str(&format!(
                "let {mutable}rec = record::begin(&{}, &[{}])?; {}",
                recipe.node,
                self.inputs(),
                self.save(false)
            ));
        }
        let list = matches!(&self.signature.output.0[..], [ty] if ty.shape == Shape::List);
        let viewed = self.schema.viewed().filter(|_| self.recipe.is_some());
        let fresh = self.recipe.is_some()
            && viewed.is_none()
            && matches!(&self.signature.output.0[..], [ty] if ty.shape == Shape::One);
        let mutable = if fresh { "mut " } else { "" };
        // A view without a derivative, of the bits as another dtype, stands by itself.
        let result = match viewed.map(|base| identifier(&base.name)) {
            None => self.below(),
            Some(base) if list => format!("record::views({base}, || {})?", self.call()),
            Some(base) => {
                format!("record::view({base}, rec.is_some(), || {})?", self.call())
            }
        };
        text.push_str(&format!("let {mutable}result = {result};"));
        if let Some(recipe) = self.recipe {
            let parts = self.signature.output.parts("result");
            let finish = match (list, fresh) {
                (true, _) => "rec.finish_list(&result)?;".to_owned(),
                (false, true) => "rec.finish_fresh(&mut result)?;".to_owned(),
                (false, false) => {
                    let results: Vec<String> =
                        parts.iter().map(|part| format!("&{part}")).collect();
                    format!("rec.finish(&[{}])?;", results.join(", "))
                }
            };
            let saved = recipe.save_results(&parts, fresh);
            let mutable = if saved.is_empty() { "" } else { "mut " };
            text.push_str(&format!("if let Some({mutable}rec) = rec {{ {saved} {finish} }}"));
        }
        Ok(text + "Ok(result)")
    }

    fn inplace(&self) -> Result<String, String> {
        let written = self.written();
        let mut text = self.refuse_gradients();
        text.push_str(&match self.recipe {
            Some(recipe) => {
                let mutable = if recipe.saves_inputs() { "mut " } else { "" };
                let inputs = self.inputs();
                let node = &recipe.node;
                format!(
                    "let {mutable}rec = record::begin_inplace(&{node}, &[{inputs}], {written})?; {}",
                    self.save(true)
                )
            }
            None => format!("record::check_inplace({written}, &[])?;"),
        });
        text.push_str(&format!("let result = {}; record::bump({written})?;", self.below()));
        if let Some(recipe) = self.recipe {
            let saved = recipe.save_results(&self.written_names(), false);
            let mutable = if saved.is_empty() { "" } else { "mut " };
            text.push_str(&format!(
                "if let Some({mutable}rec) = rec {{ {saved} rec.finish_inplace({written})?; }}"
            ));
        }
        Ok(text + "Ok(result)")
    }

    fn out(&self) -> String {
        let written = self.written();
        let check = match self.recipe {
            Some(_) => {
                let name = &self.op.schema.name;
                format!("record::check_out({name:?}, &[{}], {written})?;", self.inputs())
            }
            None => String::new(),
        };
        // Not `result`, which is the name of some outputs.
        format!("{check} let outputs = {}; record::bump({written})?; Ok(outputs)", self.below())
    }
}
