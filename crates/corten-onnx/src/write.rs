//! Writing: messages for the graph, while the elements of tensors go from their memory to the file, one after the other.

use crate::data;
use crate::messages::{
    AttributeProto, AttributeType, DimensionProto, GraphProto, ModelProto, NodeProto,
    OperatorSetIdProto, StringStringEntryProto, TensorProto, TensorShapeProto, TensorTypeProto,
    TypeProto, ValueInfoProto,
};
use crate::model::{Attribute, Dimension, Graph, Model, Node, ValueInfo};
use corten_core::{Result, ensure, err};
use corten_io::atomic;
use corten_ops::Tensor;
use prost::Message;
use prost::encoding::{encode_varint, encoded_len_varint};
use std::io::Write;
use std::path::Path;

/// Keys of fields that hold messages or bytes: the graph of a model, initializers of a graph, elements of a tensor.
const GRAPH: u8 = 7 << 3 | 2;
const INITIALIZER: u8 = 5 << 3 | 2;
const RAW_DATA: u8 = 9 << 3 | 2;
/// What libraries of the encoding read at most.
const LARGEST: usize = i32::MAX as usize;
/// Tensors begin at lines of caches, large ones at pages, so that they can be mapped.
const ALIGNMENTS: (usize, usize) = (64, 4096);
const LARGE: usize = 1 << 20;

/// Where large tensors are written beside the model.
///
/// ```
/// use corten::onnx::External;
///
/// let external = External { location: "model.onnx.data".to_owned(), least: 256 };
/// assert_eq!(external.least, 256);
/// ```
#[derive(Clone, Debug)]
pub struct External {
    /// The name of the file, from the folder of the model.
    pub location: String,
    /// Tensors of so many bytes are written to it; smaller ones to the model.
    pub least: usize,
}

impl Model {
    /// The bytes of a file.
    ///
    /// # Errors
    /// `Type` for a dtype that the format lacks, `Value` for a model of more than 2 GiB.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.write(None, |piece| {
            bytes.extend_from_slice(piece);
            Ok(())
        })?;
        Ok(bytes)
    }

    /// Writes a file, which appears under its name only when it is complete.
    ///
    /// # Errors
    /// As [`Model::to_bytes`], and `Runtime` when the file cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        atomic::write(path, |file| self.write(None, |piece| put(file, piece)))
    }

    /// Writes a file, and the elements of its large tensors to another beside it.
    ///
    /// # Errors
    /// As [`Model::save`].
    pub fn save_external(&self, path: impl AsRef<Path>, external: &External) -> Result<()> {
        let path = path.as_ref();
        atomic::write(path.with_file_name(&external.location), |file| {
            self.write_data(external, |piece| put(file, piece))
        })?;
        atomic::write(path, |file| self.write(Some(external), |piece| put(file, piece)))
    }

    /// Gives the bytes of the model to a function, piece by piece.
    ///
    /// # Errors
    /// As [`Model::to_bytes`], and those of the function.
    pub fn write(
        &self,
        external: Option<&External>,
        mut put: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let weights = Weight::all(&self.graph, external)?;
        let (head, tail) = graph_around(&self.graph)?;
        let length = head.encoded_len()
            + weights.iter().map(Weight::length_with_key).sum::<usize>()
            + tail.encoded_len();
        ensure!(
            length <= LARGEST,
            Value,
            "the model has {length} bytes, and a file of ONNX at most 2 GiB: write large tensors to a file of their own"
        );
        let (before, behind) = model_around(self);
        let mut piece = before.encode_to_vec();
        piece.push(GRAPH);
        encode_varint(length as u64, &mut piece);
        put(&piece)?;
        put(&head.encode_to_vec())?;
        weights.iter().try_for_each(|weight| weight.write(&mut put))?;
        put(&tail.encode_to_vec())?;
        put(&behind.encode_to_vec())
    }

    /// Gives the bytes of the file of large tensors to a function, piece by piece.
    ///
    /// # Errors
    /// Those of the function.
    pub fn write_data(
        &self,
        external: &External,
        mut put: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut end = 0;
        for (_, tensor) in &self.graph.initializers {
            if let Some(start) = external.place(tensor, end) {
                put(&[0; ALIGNMENTS.1][..start - end])?;
                put(&data::bytes(tensor)?)?;
                end = start + data::nbytes(tensor);
            }
        }
        Ok(())
    }
}

impl External {
    /// Where a tensor begins behind others that end at `end`; `None` for one that is written to the model.
    fn place(&self, tensor: &Tensor, end: usize) -> Option<usize> {
        let nbytes = data::nbytes(tensor);
        let alignment = if nbytes >= LARGE { ALIGNMENTS.1 } else { ALIGNMENTS.0 };
        (nbytes >= self.least.max(1)).then(|| end.next_multiple_of(alignment))
    }
}

fn put(file: &mut impl Write, piece: &[u8]) -> Result<()> {
    file.write_all(piece).map_err(|error| err!(Runtime, "the model cannot be written: {error}"))
}

/// A tensor of the file: what stands before its elements, and where they are.
struct Weight<'a> {
    tensor: &'a Tensor,
    head: TensorProto,
    is_within: bool,
    tail: TensorProto,
}

impl<'a> Weight<'a> {
    fn all(graph: &'a Graph, external: Option<&External>) -> Result<Vec<Self>> {
        let mut end = 0;
        let weights = graph.initializers.iter().map(|(name, tensor)| {
            let head = tensor_head(name, tensor)?;
            let place = external.and_then(|external| Some((external, external.place(tensor, end)?)));
            let tail = place.map(|(external, start)| {
                end = start + data::nbytes(tensor);
                elsewhere(&external.location, start, end - start)
            });
            let is_within = tail.is_none();
            Ok(Self { tensor, head, is_within, tail: tail.unwrap_or_default() })
        });
        weights.collect()
    }

    fn length(&self) -> usize {
        let nbytes = data::nbytes(self.tensor);
        let elements = 1 + encoded_len_varint(nbytes as u64) + nbytes;
        let elements = if self.is_within { elements } else { 0 };
        self.head.encoded_len() + elements + self.tail.encoded_len()
    }

    fn length_with_key(&self) -> usize {
        let length = self.length();
        1 + encoded_len_varint(length as u64) + length
    }

    fn write(&self, put: &mut impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let mut piece = vec![INITIALIZER];
        encode_varint(self.length() as u64, &mut piece);
        piece.extend(self.head.encode_to_vec());
        if !self.is_within {
            piece.extend(self.tail.encode_to_vec());
            return put(&piece);
        }
        piece.push(RAW_DATA);
        encode_varint(data::nbytes(self.tensor) as u64, &mut piece);
        put(&piece)?;
        put(&data::bytes(self.tensor)?)
    }
}

fn tensor_head(name: &str, tensor: &Tensor) -> Result<TensorProto> {
    Ok(TensorProto {
        dims: tensor.sizes().to_vec(),
        data_type: Some(data::element_type(tensor.dtype())?),
        name: some(name),
        ..TensorProto::default()
    })
}

/// Where the elements of a tensor are in another file.
fn elsewhere(location: &str, offset: usize, length: usize) -> TensorProto {
    let pairs = [
        ("location", location.to_owned()),
        ("offset", offset.to_string()),
        ("length", length.to_string()),
    ];
    let external_data = pairs.map(|(key, value)| entry(key, &value)).to_vec();
    TensorProto { external_data, data_location: Some(1), ..TensorProto::default() }
}

/// The fields of a model before its graph, and behind it.
fn model_around(model: &Model) -> (ModelProto, ModelProto) {
    let before = ModelProto {
        ir_version: Some(model.ir_version),
        producer_name: some(&model.producer_name),
        producer_version: some(&model.producer_version),
        ..ModelProto::default()
    };
    let opset = |(domain, version): &(String, i64)| OperatorSetIdProto {
        domain: Some(domain.clone()),
        version: Some(*version),
    };
    let behind = ModelProto {
        opset_import: model.opsets.iter().map(opset).collect(),
        metadata_props: entries(&model.metadata),
        ..ModelProto::default()
    };
    (before, behind)
}

/// The fields of a graph before its initializers, and behind them.
fn graph_around(graph: &Graph) -> Result<(GraphProto, GraphProto)> {
    let node = graph.nodes.iter().map(node_proto).collect::<Result<_>>()?;
    let values = |values: &[ValueInfo]| values.iter().map(value_proto).collect();
    let head = GraphProto { node, name: Some(graph.name.clone()), ..GraphProto::default() };
    let tail = GraphProto {
        input: values(&graph.inputs),
        output: values(&graph.outputs),
        value_info: values(&graph.values),
        ..GraphProto::default()
    };
    Ok((head, tail))
}

/// A graph within another, with its tensors.
fn graph_proto(graph: &Graph) -> Result<GraphProto> {
    let (head, tail) = graph_around(graph)?;
    let initializer = graph.initializers.iter().map(|(name, tensor)| tensor_proto(name, tensor));
    Ok(GraphProto { node: head.node, name: head.name, initializer: initializer.collect::<Result<_>>()?, ..tail })
}

fn tensor_proto(name: &str, tensor: &Tensor) -> Result<TensorProto> {
    Ok(TensorProto { raw_data: Some(data::bytes(tensor)?), ..tensor_head(name, tensor)? })
}

fn node_proto(node: &Node) -> Result<NodeProto> {
    Ok(NodeProto {
        input: node.inputs.clone(),
        output: node.outputs.clone(),
        name: some(&node.name),
        op_type: Some(node.op_type.clone()),
        attribute: node.attributes.iter().map(attribute_proto).collect::<Result<_>>()?,
        domain: some(&node.domain),
        metadata_props: entries(&node.metadata),
    })
}

fn attribute_proto((name, attribute): &(String, Attribute)) -> Result<AttributeProto> {
    let mut proto = AttributeProto { name: Some(name.clone()), ..AttributeProto::default() };
    let kind = match attribute {
        Attribute::Float(number) => {
            proto.f = Some(*number);
            AttributeType::Float
        }
        Attribute::Int(number) => {
            proto.i = Some(*number);
            AttributeType::Int
        }
        Attribute::Text(text) => {
            proto.s = Some(text.clone().into_bytes());
            AttributeType::String
        }
        Attribute::Tensor(tensor) => {
            proto.t = Some(tensor_proto("", tensor)?);
            AttributeType::Tensor
        }
        Attribute::Graph(graph) => {
            proto.g = Some(Box::new(graph_proto(graph)?));
            AttributeType::Graph
        }
        Attribute::Floats(numbers) => {
            proto.floats.clone_from(numbers);
            AttributeType::Floats
        }
        Attribute::Ints(numbers) => {
            proto.ints.clone_from(numbers);
            AttributeType::Ints
        }
        Attribute::Texts(texts) => {
            proto.strings = texts.iter().map(|text| text.clone().into_bytes()).collect();
            AttributeType::Strings
        }
    };
    proto.r#type = Some(kind as i32);
    Ok(proto)
}

fn value_proto(value: &ValueInfo) -> ValueInfoProto {
    let shape = value.shape.as_ref().map(|shape| {
        let dim = shape.iter().map(|dimension| match dimension {
            Dimension::Size(size) => DimensionProto { dim_value: Some(*size), dim_param: None },
            Dimension::Name(name) => DimensionProto { dim_value: None, dim_param: Some(name.clone()) },
            Dimension::Open => DimensionProto::default(),
        });
        TensorShapeProto { dim: dim.collect() }
    });
    let tensor_type = TensorTypeProto { elem_type: Some(value.element_type), shape };
    let r#type = (value.element_type != 0).then_some(TypeProto { tensor_type: Some(tensor_type) });
    ValueInfoProto { name: Some(value.name.clone()), r#type }
}

fn entries(pairs: &[(String, String)]) -> Vec<StringStringEntryProto> {
    pairs.iter().map(|(key, value)| entry(key, value)).collect()
}

fn entry(key: &str, value: &str) -> StringStringEntryProto {
    StringStringEntryProto { key: Some(key.to_owned()), value: Some(value.to_owned()) }
}

/// A text that is left out where it is empty.
fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}
