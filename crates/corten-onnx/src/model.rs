//! What a file holds, as plain structures.

use corten_ops::Tensor;

/// A model: a graph, and which operators it means.
///
/// ```
/// use corten::onnx::{Graph, Model};
///
/// let model = Model::new(Graph::default(), 18);
/// assert_eq!(model.opsets, [(String::new(), 18)]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Model {
    /// The version of the format.
    pub ir_version: i64,
    /// Domains of operators with their versions; ONNX's own domain is empty.
    pub opsets: Vec<(String, i64)>,
    /// The program that made the model.
    pub producer_name: String,
    /// Its version.
    pub producer_version: String,
    /// Pairs of texts about the model.
    pub metadata: Vec<(String, String)>,
    /// The operators.
    pub graph: Graph,
}

impl Model {
    /// A model of a graph over a version of ONNX's operators, in version 10 of the format.
    pub fn new(graph: Graph, opset: i64) -> Self {
        let opsets = vec![(String::new(), opset)];
        Self { ir_version: 10, opsets, graph, ..Self::default() }
    }
}

/// Operators in the order in which they run, and what goes in and out.
///
/// ```
/// use corten::onnx::{Graph, Node};
///
/// let nodes = vec![Node::new("Relu", ["x"], ["y"])];
/// assert_eq!(Graph { nodes, ..Graph::default() }.nodes.len(), 1);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// Its name.
    pub name: String,
    /// Operators; each uses values that are made before it.
    pub nodes: Vec<Node>,
    /// What the caller gives.
    pub inputs: Vec<ValueInfo>,
    /// What the caller is given.
    pub outputs: Vec<ValueInfo>,
    /// What is known of values between them.
    pub values: Vec<ValueInfo>,
    /// Values that are stored in the file, by name.
    pub initializers: Vec<(String, Tensor)>,
}

/// A call of an operator.
///
/// ```
/// use corten::onnx::Node;
///
/// let node = Node::new("Add", ["a", "b"], ["sum"]);
/// assert_eq!(node.inputs, ["a", "b"]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// The operator.
    pub op_type: String,
    /// Where the operator is defined: empty for those of ONNX.
    pub domain: String,
    /// A name that is unique in the graph.
    pub name: String,
    /// Names of values; an empty one stands for an input that is left out.
    pub inputs: Vec<String>,
    /// Names of the results.
    pub outputs: Vec<String>,
    /// Arguments that are known.
    pub attributes: Vec<(String, Attribute)>,
    /// Pairs of texts about the node.
    pub metadata: Vec<(String, String)>,
}

impl Node {
    /// A call of one of ONNX's operators without attributes.
    pub fn new<'a>(
        op_type: &str,
        inputs: impl IntoIterator<Item = &'a str>,
        outputs: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        Self {
            op_type: op_type.to_owned(),
            inputs: inputs.into_iter().map(str::to_owned).collect(),
            outputs: outputs.into_iter().map(str::to_owned).collect(),
            ..Self::default()
        }
    }
}

/// An argument of an operator that is known when the model is written.
///
/// ```
/// use corten::onnx::Attribute;
///
/// assert!(matches!(Attribute::Ints(vec![0, 1]), Attribute::Ints(axes) if axes.len() == 2));
/// ```
#[derive(Clone, Debug)]
pub enum Attribute {
    /// A number.
    Float(f32),
    /// A whole number.
    Int(i64),
    /// Text.
    Text(String),
    /// A tensor.
    Tensor(Tensor),
    /// A graph: a branch, or the body of a loop.
    Graph(Box<Graph>),
    /// Numbers.
    Floats(Vec<f32>),
    /// Whole numbers.
    Ints(Vec<i64>),
    /// Texts.
    Texts(Vec<String>),
}

/// Name, element type and shape of a value.
///
/// ```
/// use corten::onnx::{Dimension, ValueInfo};
///
/// let mut info = ValueInfo::new("x", 1, [None, Some(4)]);
/// info.shape = Some(vec![Dimension::Name("batch".to_owned()), Dimension::Size(4)]);
/// assert_eq!(info.element_type, 1);
/// ```
#[derive(Clone, Debug, Default)]
pub struct ValueInfo {
    /// The name.
    pub name: String,
    /// The number of the element type: 1 for 32-bit floats, 7 for 64-bit integers …; 0 where it is not known.
    pub element_type: i32,
    /// The sizes, if their number is known.
    pub shape: Option<Vec<Dimension>>,
}

impl ValueInfo {
    /// A value of an element type and sizes, of which some may be open.
    pub fn new(
        name: &str,
        element_type: i32,
        sizes: impl IntoIterator<Item = Option<i64>>,
    ) -> Self {
        let sizes = sizes.into_iter().map(|size| size.map_or(Dimension::Open, Dimension::Size));
        Self { name: name.to_owned(), element_type, shape: Some(sizes.collect()) }
    }
}

/// A size of a shape.
///
/// ```
/// use corten::onnx::Dimension;
///
/// assert_ne!(Dimension::Size(1), Dimension::Open);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dimension {
    /// A size.
    Size(i64),
    /// A size by name: equal names mean equal sizes.
    Name(String),
    /// A size of which nothing is known.
    Open,
}
