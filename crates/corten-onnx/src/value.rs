//! Models as values with the types of Python, and back: what the Python package makes and is given.

use crate::model::{Attribute, Dimension, Graph, Model, Node, ValueInfo};
use corten_core::{Result, err};
use corten_io::Value;

impl Model {
    /// A model of a dictionary with the names of its fields as keys.
    ///
    /// ```
    /// use corten::io::Value;
    /// use corten::onnx::{Graph, Model};
    ///
    /// let described = Model::new(Graph::default(), 18).to_value();
    /// assert_eq!(Model::from_value(&described)?.opsets[0].1, 18);
    /// # Ok::<(), corten::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Type` where an entry is missing or of another type.
    pub fn from_value(value: &Value) -> Result<Self> {
        let opsets = entries(value, "opset")?.into_iter();
        Ok(Self {
            ir_version: int(value, "ir_version")?,
            opsets: opsets.map(|(domain, version)| Ok((domain, of_int(&version)?))).collect::<Result<_>>()?,
            producer_name: text(value, "producer_name")?,
            producer_version: text(value, "producer_version")?,
            metadata: texts(value, "metadata")?,
            graph: graph(field(value, "graph")?)?,
        })
    }

    /// The model as a dictionary.
    pub fn to_value(&self) -> Value {
        let opsets = self.opsets.iter().map(|(domain, version)| (domain.clone(), Value::Int(*version)));
        Value::from_pairs([
            ("ir_version", Value::Int(self.ir_version)),
            ("opset", Value::from_pairs(opsets)),
            ("producer_name", Value::Text(self.producer_name.clone())),
            ("producer_version", Value::Text(self.producer_version.clone())),
            ("metadata", of_pairs(&self.metadata)),
            ("graph", of_graph(&self.graph)),
        ])
    }
}

fn field<'a>(value: &'a Value, key: &str) -> Result<&'a Value> {
    value.get(key).ok_or_else(|| err!(Type, "the description of a model lacks {key:?}"))
}

fn wrong(value: &Value) -> corten_core::Error {
    err!(Type, "the description of a model has {value:?} where something else is expected")
}

fn of_int(value: &Value) -> Result<i64> {
    match value {
        Value::Int(number) => Ok(*number),
        _ => Err(wrong(value)),
    }
}

fn of_text(value: &Value) -> Result<String> {
    value.text().map(str::to_owned).ok_or_else(|| wrong(value))
}

fn int(value: &Value, key: &str) -> Result<i64> {
    of_int(field(value, key)?)
}

fn text(value: &Value, key: &str) -> Result<String> {
    of_text(field(value, key)?)
}

fn entries(value: &Value, key: &str) -> Result<Vec<(String, Value)>> {
    let found = field(value, key)?;
    found.entries().ok_or_else(|| wrong(found))
}

fn texts(value: &Value, key: &str) -> Result<Vec<(String, String)>> {
    entries(value, key)?.into_iter().map(|(key, value)| Ok((key, of_text(&value)?))).collect()
}

/// The elements of a list, each turned into something.
fn list<T>(value: &Value, key: &str, each: impl Fn(&Value) -> Result<T>) -> Result<Vec<T>> {
    let found = field(value, key)?;
    found.elements().ok_or_else(|| wrong(found))?.iter().map(each).collect()
}

fn graph(value: &Value) -> Result<Graph> {
    Ok(Graph {
        name: text(value, "name")?,
        nodes: list(value, "nodes", node)?,
        inputs: list(value, "inputs", info)?,
        outputs: list(value, "outputs", info)?,
        values: list(value, "values", info)?,
        initializers: list(value, "initializers", |pair| match pair.elements() {
            Some([Value::Text(name), Value::Tensor(tensor)]) => Ok((name.clone(), tensor.clone())),
            _ => Err(wrong(pair)),
        })?,
    })
}

fn node(value: &Value) -> Result<Node> {
    let attributes = entries(value, "attributes")?.into_iter();
    Ok(Node {
        op_type: text(value, "op_type")?,
        domain: text(value, "domain")?,
        name: text(value, "name")?,
        inputs: list(value, "inputs", of_text)?,
        outputs: list(value, "outputs", of_text)?,
        attributes: attributes.map(|(name, value)| Ok((name, attribute(&value)?))).collect::<Result<_>>()?,
        metadata: texts(value, "metadata")?,
    })
}

fn attribute(value: &Value) -> Result<Attribute> {
    Ok(match value {
        Value::Bool(flag) => Attribute::Int(i64::from(*flag)),
        Value::Int(number) => Attribute::Int(*number),
        Value::Float(number) => Attribute::Float(*number as f32),
        Value::Text(text) => Attribute::Text(text.clone()),
        Value::Tensor(tensor) => Attribute::Tensor(tensor.clone()),
        Value::Dict(_) => Attribute::Graph(Box::new(graph(value)?)),
        Value::List(values) | Value::Tuple(values) => match values.first() {
            Some(Value::Float(_)) => Attribute::Floats(
                values.iter().map(|value| Ok(value.number().ok_or_else(|| wrong(value))? as f32)).collect::<Result<_>>()?,
            ),
            Some(Value::Text(_)) => Attribute::Texts(values.iter().map(of_text).collect::<Result<_>>()?),
            _ => Attribute::Ints(values.iter().map(of_int).collect::<Result<_>>()?),
        },
        _ => return Err(wrong(value)),
    })
}

fn info(value: &Value) -> Result<ValueInfo> {
    let element_type = match field(value, "type")? {
        Value::None => 0,
        found => i32::try_from(of_int(found)?).map_err(|_| wrong(found))?,
    };
    let shape = match field(value, "shape")? {
        Value::None => None,
        _ => Some(list(value, "shape", |size| match size {
            Value::Int(size) => Ok(Dimension::Size(*size)),
            Value::Text(name) => Ok(Dimension::Name(name.clone())),
            Value::None => Ok(Dimension::Open),
            _ => Err(wrong(size)),
        })?),
    };
    Ok(ValueInfo { name: text(value, "name")?, element_type, shape })
}

fn of_pairs(pairs: &[(String, String)]) -> Value {
    Value::from_pairs(pairs.iter().map(|(key, value)| (key.clone(), Value::Text(value.clone()))))
}

fn of_texts(texts: &[String]) -> Value {
    Value::List(texts.iter().map(|text| Value::Text(text.clone())).collect())
}

fn of_graph(graph: &Graph) -> Value {
    let infos = |infos: &[ValueInfo]| Value::List(infos.iter().map(of_info).collect());
    let initializers = graph.initializers.iter();
    let initializers = initializers
        .map(|(name, tensor)| Value::Tuple(vec![Value::Text(name.clone()), Value::Tensor(tensor.clone())]));
    Value::from_pairs([
        ("name", Value::Text(graph.name.clone())),
        ("nodes", Value::List(graph.nodes.iter().map(of_node).collect())),
        ("inputs", infos(&graph.inputs)),
        ("outputs", infos(&graph.outputs)),
        ("values", infos(&graph.values)),
        ("initializers", Value::List(initializers.collect())),
    ])
}

fn of_node(node: &Node) -> Value {
    let attributes = node.attributes.iter().map(|(name, attribute)| (name.clone(), of_attribute(attribute)));
    Value::from_pairs([
        ("op_type", Value::Text(node.op_type.clone())),
        ("domain", Value::Text(node.domain.clone())),
        ("name", Value::Text(node.name.clone())),
        ("inputs", of_texts(&node.inputs)),
        ("outputs", of_texts(&node.outputs)),
        ("attributes", Value::from_pairs(attributes)),
        ("metadata", of_pairs(&node.metadata)),
    ])
}

fn of_attribute(attribute: &Attribute) -> Value {
    match attribute {
        Attribute::Float(number) => Value::Float(f64::from(*number)),
        Attribute::Int(number) => Value::Int(*number),
        Attribute::Text(text) => Value::Text(text.clone()),
        Attribute::Tensor(tensor) => Value::Tensor(tensor.clone()),
        Attribute::Graph(graph) => of_graph(graph),
        Attribute::Floats(numbers) => {
            Value::List(numbers.iter().map(|number| Value::Float(f64::from(*number))).collect())
        }
        Attribute::Ints(numbers) => Value::List(numbers.iter().copied().map(Value::Int).collect()),
        Attribute::Texts(texts) => of_texts(texts),
    }
}

fn of_info(info: &ValueInfo) -> Value {
    let shape = info.shape.as_ref().map_or(Value::None, |shape| {
        let sizes = shape.iter().map(|dimension| match dimension {
            Dimension::Size(size) => Value::Int(*size),
            Dimension::Name(name) => Value::Text(name.clone()),
            Dimension::Open => Value::None,
        });
        Value::List(sizes.collect())
    });
    let element_type = Value::Int(i64::from(info.element_type));
    Value::from_pairs([("name", Value::Text(info.name.clone())), ("type", element_type), ("shape", shape)])
}
