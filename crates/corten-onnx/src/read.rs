//! Reading: whatever the bytes are, the result is a model or an error.

use crate::data;
use crate::messages::{
    AttributeProto, AttributeType, DimensionProto, GraphProto, ModelProto, NodeProto,
    StringStringEntryProto, TensorProto, ValueInfoProto,
};
use crate::model::{Attribute, Dimension, Graph, Model, Node, ValueInfo};
use corten_core::{DType, Error, Result, bail, ensure, err};
use corten_ops::Tensor;
use prost::Message;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Component, Path};

/// Where the elements of tensors may be.
///
/// ```
/// use corten::onnx::{Model, Tensors};
///
/// assert!(Model::from_bytes(b"no model", Tensors::Within).is_err());
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Tensors<'a> {
    /// In the model alone.
    Within,
    /// Also in files of this folder and those below it.
    Beside(&'a Path),
}

impl Model {
    /// A model of the bytes of a file.
    ///
    /// # Errors
    /// `Value` for bytes that are no model or that contradict themselves, `Type` for element types that no dtype
    /// has, `Runtime` where a file beside the model cannot be read.
    pub fn from_bytes(bytes: &[u8], tensors: Tensors<'_>) -> Result<Self> {
        let proto = ModelProto::decode(bytes).map_err(|error| err!(Value, "no model of ONNX: {error}"))?;
        let graph = proto.graph.ok_or_else(|| err!(Value, "no model of ONNX: it has no graph"))?;
        let opsets = proto.opset_import.into_iter();
        Ok(Self {
            ir_version: proto.ir_version.unwrap_or(0),
            opsets: opsets
                .map(|opset| (opset.domain.unwrap_or_default(), opset.version.unwrap_or(0)))
                .collect(),
            producer_name: proto.producer_name.unwrap_or_default(),
            producer_version: proto.producer_version.unwrap_or_default(),
            metadata: pairs(proto.metadata_props),
            graph: graph_of(graph, tensors)?,
        })
    }

    /// A model of a file, with the files beside it that it names.
    ///
    /// # Errors
    /// As [`Model::from_bytes`].
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let bytes =
            std::fs::read(path).map_err(|error| err!(Runtime, "{}: {error}", path.display()))?;
        let folder = path.parent().unwrap_or_else(|| Path::new(""));
        Self::from_bytes(&bytes, Tensors::Beside(folder))
    }
}

fn graph_of(proto: GraphProto, tensors: Tensors<'_>) -> Result<Graph> {
    let initializers = proto.initializer.into_iter().map(|tensor| {
        let name = tensor.name.clone().unwrap_or_default();
        let found = tensor_of(tensor, tensors).map_err(|error| Error::new(error.kind(), format!("tensor {name:?}: {}", error.message())))?;
        Ok((name, found))
    });
    let values = |values: Vec<ValueInfoProto>| values.into_iter().map(value_of).collect();
    Ok(Graph {
        name: proto.name.unwrap_or_default(),
        initializers: initializers.collect::<Result<_>>()?,
        nodes: proto.node.into_iter().map(|node| node_of(node, tensors)).collect::<Result<_>>()?,
        inputs: values(proto.input),
        outputs: values(proto.output),
        values: values(proto.value_info),
    })
}

fn node_of(proto: NodeProto, tensors: Tensors<'_>) -> Result<Node> {
    let attributes = proto.attribute.into_iter().map(|attribute| attribute_of(attribute, tensors));
    Ok(Node {
        op_type: proto.op_type.unwrap_or_default(),
        domain: proto.domain.unwrap_or_default(),
        name: proto.name.unwrap_or_default(),
        inputs: proto.input,
        outputs: proto.output,
        attributes: attributes.collect::<Result<_>>()?,
        metadata: pairs(proto.metadata_props),
    })
}

fn attribute_of(proto: AttributeProto, tensors: Tensors<'_>) -> Result<(String, Attribute)> {
    let name = proto.name.unwrap_or_default();
    let kind = proto.r#type.unwrap_or(0);
    let kind = AttributeType::try_from(kind)
        .map_err(|_| err!(Value, "the attribute {name:?} has the unknown type {kind}"))?;
    let text = |bytes| String::from_utf8(bytes).map_err(|_| err!(Value, "the attribute {name:?} is no text"));
    let found = match kind {
        AttributeType::Float => Attribute::Float(proto.f.unwrap_or(0.0)),
        AttributeType::Int => Attribute::Int(proto.i.unwrap_or(0)),
        AttributeType::String => Attribute::Text(text(proto.s.unwrap_or_default())?),
        AttributeType::Tensor => Attribute::Tensor(tensor_of(proto.t.unwrap_or_default(), tensors)?),
        AttributeType::Graph => {
            let graph = proto.g.map_or_else(GraphProto::default, |graph| *graph);
            Attribute::Graph(Box::new(graph_of(graph, tensors)?))
        }
        AttributeType::Floats => Attribute::Floats(proto.floats),
        AttributeType::Ints => Attribute::Ints(proto.ints),
        AttributeType::Strings => {
            Attribute::Texts(proto.strings.into_iter().map(text).collect::<Result<_>>()?)
        }
        AttributeType::Undefined => bail!(Value, "the attribute {name:?} has no type"),
    };
    Ok((name, found))
}

fn tensor_of(proto: TensorProto, tensors: Tensors<'_>) -> Result<Tensor> {
    let dtype = data::dtype(proto.data_type.unwrap_or(0))?;
    if proto.data_location == Some(1) {
        let bytes = external(pairs(proto.external_data), tensors, &proto.dims, dtype)?;
        return data::tensor(&bytes, dtype, &proto.dims);
    }
    if let Some(raw) = proto.raw_data {
        return data::tensor(&raw, dtype, &proto.dims);
    }
    let bytes: Vec<u8> = match dtype {
        DType::Float32 | DType::Complex64 => le(&proto.float_data, |number| number.to_le_bytes()),
        DType::Float64 | DType::Complex128 => le(&proto.double_data, |number| number.to_le_bytes()),
        DType::Int64 => le(&proto.int64_data, |number| number.to_le_bytes()),
        DType::UInt64 => le(&proto.uint64_data, |number| number.to_le_bytes()),
        DType::UInt32 => le(&proto.uint64_data, |number| (number as u32).to_le_bytes()),
        _ => match dtype.itemsize() {
            1 => le(&proto.int32_data, |number| (number as u8).to_le_bytes()),
            2 => le(&proto.int32_data, |number| (number as u16).to_le_bytes()),
            _ => le(&proto.int32_data, |number| number.to_le_bytes()),
        },
    };
    data::tensor(&bytes, dtype, &proto.dims)
}

fn le<T: Copy, const N: usize>(numbers: &[T], bytes: impl Fn(T) -> [u8; N]) -> Vec<u8> {
    numbers.iter().flat_map(|&number| bytes(number)).collect()
}

/// The elements of a tensor in another file.
fn external(
    pairs: Vec<(String, String)>,
    tensors: Tensors<'_>,
    sizes: &[i64],
    dtype: DType,
) -> Result<Vec<u8>> {
    let Tensors::Beside(folder) = tensors else {
        bail!(Value, "its elements are in another file: read the model from its file")
    };
    let of = |key: &str| pairs.iter().find(|(known, _)| known == key).map(|(_, value)| value);
    let location = Path::new(of("location").ok_or_else(|| err!(Value, "its file has no name"))?);
    let is_below = location.components().all(|part| matches!(part, Component::Normal(_)));
    ensure!(is_below, Value, "its file {} is not in the folder of the model", location.display());
    let number = |key: &str| of(key).map(|text| text.parse::<u64>().map_err(|_| err!(Value, "its {key} is {text:?}")));
    let expected = sizes.iter().try_fold(dtype.itemsize() as u64, |product, &size| {
        product.checked_mul(u64::try_from(size).ok()?)
    });
    let expected = expected.ok_or_else(|| err!(Value, "it has the shape {sizes:?}"))?;
    let (offset, length) = (number("offset").transpose()?.unwrap_or(0), number("length").transpose()?);
    let length = length.unwrap_or(expected);
    let path = folder.join(location);
    let told = |error: std::io::Error| err!(Runtime, "{}: {error}", path.display());
    let mut file = File::open(&path).map_err(told)?;
    file.seek(SeekFrom::Start(offset)).map_err(told)?;
    let mut bytes = Vec::new();
    file.take(length).read_to_end(&mut bytes).map_err(told)?;
    Ok(bytes)
}

fn value_of(proto: ValueInfoProto) -> ValueInfo {
    let tensor = proto.r#type.and_then(|r#type| r#type.tensor_type).unwrap_or_default();
    let shape = tensor.shape.map(|shape| shape.dim.into_iter().map(dimension).collect());
    ValueInfo {
        name: proto.name.unwrap_or_default(),
        element_type: tensor.elem_type.unwrap_or(0),
        shape,
    }
}

fn dimension(proto: DimensionProto) -> Dimension {
    match (proto.dim_value, proto.dim_param) {
        (Some(size), _) => Dimension::Size(size),
        (None, Some(name)) if !name.is_empty() => Dimension::Name(name),
        _ => Dimension::Open,
    }
}

fn pairs(entries: Vec<StringStringEntryProto>) -> Vec<(String, String)> {
    let pair = |entry: StringStringEntryProto| (entry.key.unwrap_or_default(), entry.value.unwrap_or_default());
    entries.into_iter().map(pair).collect()
}
