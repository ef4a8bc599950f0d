//! Models written and read: beside a file of ONNX's own library, through files, and from bytes that are no models.

use corten::onnx::{Attribute, Dimension, External, Graph, Model, Node, Tensors, ValueInfo};
use corten::prelude::*;

const GOLDEN: &[u8] = include_bytes!("../../../tests/goldens/model.onnx");

fn named(name: &str, element_type: i32, shape: &[Option<&str>]) -> ValueInfo {
    let dimension = |size: &Option<&str>| match size {
        None => Dimension::Open,
        Some(text) => text
            .parse()
            .map_or_else(|_| Dimension::Name((*text).to_owned()), Dimension::Size),
    };
    let shape = Some(shape.iter().map(dimension).collect());
    ValueInfo { name: name.to_owned(), element_type, shape }
}

fn node(op_type: &str, name: &str, inputs: &[&str], output: &str) -> Node {
    let node = Node::new(op_type, inputs.iter().copied(), [output]);
    Node { name: name.to_owned(), ..node }
}

fn with(mut node: Node, attributes: Vec<(&str, Attribute)>) -> Node {
    let attributes = attributes.into_iter();
    node.attributes = attributes.map(|(name, value)| (name.to_owned(), value)).collect();
    node
}

fn branch(name: &str, op_type: &str) -> Attribute {
    let result = format!("{name}_result");
    Attribute::Graph(Box::new(Graph {
        name: name.to_owned(),
        nodes: vec![node(op_type, &format!("{name}_node"), &["x"], &result)],
        outputs: vec![named(&result, 1, &[Some("batch"), Some("2")])],
        ..Graph::default()
    }))
}

/// The model of `tests/goldens/make/onnx_model.py`.
fn model() -> Result<Model> {
    let weight = Tensor::from_vec((0..6).map(|i| i as f32 / 4.0).collect(), &[2, 3])?;
    let gemm = with(
        node("Gemm", "gemm", &["x", "weight"], "product"),
        vec![("alpha", Attribute::Float(0.5)), ("transB", Attribute::Int(0))],
    );
    let gemm = Node { metadata: vec![("namespace".to_owned(), "net/gemm".to_owned())], ..gemm };
    let choice = with(
        node("If", "choice", &["flag"], "chosen"),
        vec![("else_branch", branch("else", "Neg")), ("then_branch", branch("then", "Relu"))],
    );
    let half = Attribute::Tensor(Tensor::from_element(0.5_f32)?);
    let own = with(
        node("Own", "own", &["product", "", "half"], "out"),
        vec![
            ("floats", Attribute::Floats(vec![0.25, 1.5])),
            ("ints", Attribute::Ints(vec![3, -1])),
            ("mode", Attribute::Text("edge".to_owned())),
            ("names", Attribute::Texts(vec!["a".to_owned(), "b".to_owned()])),
        ],
    );
    let own = Node { domain: "corten.test".to_owned(), ..own };
    let batch = Some("batch");
    let graph = Graph {
        name: "main_graph".to_owned(),
        nodes: vec![
            gemm,
            choice,
            with(node("Constant", "half", &[], "half"), vec![("value", half)]),
            own,
        ],
        inputs: vec![named("x", 1, &[batch, Some("2")]), named("flag", 9, &[])],
        outputs: vec![named("out", 1, &[batch, None]), named("chosen", 1, &[batch, Some("2")])],
        values: vec![named("product", 1, &[batch, Some("3")])],
        initializers: vec![
            ("weight".to_owned(), weight),
            ("sizes".to_owned(), Tensor::from_vec(vec![-1_i64, 2], &[2])?),
        ],
    };
    let mut model = Model::new(graph, 20);
    model.opsets.push(("corten.test".to_owned(), 1));
    model.producer_name = "pytorch".to_owned();
    model.producer_version = "1.0".to_owned();
    model.metadata = vec![("task".to_owned(), "test".to_owned())];
    Ok(model)
}

#[test]
fn bytes_are_those_of_the_library_of_onnx() {
    assert_eq!(model().unwrap().to_bytes().unwrap(), GOLDEN);
}

#[test]
fn what_is_read_is_what_was_written() {
    let read = Model::from_bytes(GOLDEN, Tensors::Within).unwrap();
    assert_eq!(read.to_bytes().unwrap(), GOLDEN);
    assert_eq!(format!("{:?}", read.graph.inputs), format!("{:?}", model().unwrap().graph.inputs));
    let through_values = Model::from_value(&read.to_value()).unwrap();
    assert_eq!(through_values.to_bytes().unwrap(), GOLDEN);
}

#[test]
fn every_element_type_survives() {
    let dtypes = [
        DType::Float32,
        DType::Float64,
        DType::Float16,
        DType::BFloat16,
        DType::Int8,
        DType::UInt8,
        DType::Int16,
        DType::UInt16,
        DType::Int32,
        DType::UInt32,
        DType::Int64,
        DType::UInt64,
        DType::Bool,
        DType::Complex64,
        DType::Float8E4m3fn,
        DType::Float8E5m2,
    ];
    for dtype in dtypes {
        let numbers = Tensor::from_vec(vec![0.0_f32, 1.0, 1.0, 0.0, 1.0, 1.0], &[2, 3]).unwrap();
        // Transposed elements are written in the order of the shape.
        let tensor = numbers.to_dtype(dtype, false, false, None).unwrap().t().unwrap();
        let initializers = vec![("t".to_owned(), tensor.clone())];
        let bytes = Model::new(Graph { initializers, ..Graph::default() }, 20).to_bytes().unwrap();
        let read = Model::from_bytes(&bytes, Tensors::Within).unwrap();
        let (_, found) = &read.graph.initializers[0];
        assert_eq!(found.dtype(), dtype);
        assert_eq!(found.sizes(), [3, 2]);
        let numbers = |tensor: &Tensor| {
            let wide = if dtype.is_complex() { DType::Complex64 } else { DType::Float64 };
            format!("{}", tensor.to_dtype(wide, false, false, None).unwrap())
        };
        assert_eq!(numbers(found), numbers(&tensor), "{}", dtype.name());
    }
}

#[test]
fn large_tensors_are_in_a_file_of_their_own() {
    let folder = std::env::temp_dir().join(format!("corten-onnx-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("model.onnx");
    let external = External { location: "model.onnx.data".to_owned(), least: 20 };
    let model = model().unwrap();
    model.save_external(&path, &external).unwrap();
    assert_eq!(std::fs::metadata(folder.join("model.onnx.data")).unwrap().len(), 24);
    let read = Model::load(&path).unwrap();
    assert_eq!(read.to_bytes().unwrap(), GOLDEN);
    let bytes = std::fs::read(&path).unwrap();
    let error = Model::from_bytes(&bytes, Tensors::Within).unwrap_err();
    assert!(error.message().contains("another file"), "{error}");
    // No file outside of the folder is read, and none that is too short.
    let outside = External { location: "../model.onnx.data".to_owned(), least: 20 };
    let mut pieces = Vec::new();
    model
        .write(Some(&outside), |piece| {
            pieces.extend_from_slice(piece);
            Ok(())
        })
        .unwrap();
    let error = Model::from_bytes(&pieces, Tensors::Beside(&folder)).unwrap_err();
    assert!(error.message().contains("not in the folder"), "{error}");
    std::fs::write(folder.join("model.onnx.data"), [0; 5]).unwrap();
    assert!(Model::load(&path).is_err());
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn bytes_that_are_no_model_are_errors() {
    for end in 0..GOLDEN.len() {
        let _ = Model::from_bytes(&GOLDEN[..end], Tensors::Within);
        for changed in [0x00, 0x7f, 0x80, 0xff] {
            let mut bytes = GOLDEN.to_vec();
            bytes[end] = changed;
            if let Ok(read) = Model::from_bytes(&bytes, Tensors::Within) {
                // What was read can be written.
                let _ = read.to_bytes();
            }
        }
    }
    assert!(Model::from_bytes(b"", Tensors::Within).is_err());
    // Messages within messages without end.
    let mut nested = vec![];
    for _ in 0..10_000 {
        let mut outer = vec![0x3a];
        varint(nested.len(), &mut outer);
        outer.append(&mut nested);
        nested = outer;
        if nested.len() > 1 << 16 {
            break;
        }
    }
    let _ = Model::from_bytes(&nested, Tensors::Within);
}

fn varint(mut number: usize, bytes: &mut Vec<u8>) {
    while number > 0x7f {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}
