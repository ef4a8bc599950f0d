//! Any bytes are a pickle or an error, for a host that allows everything.

#![no_main]

use corten_io::Value;
use corten_io::pickle::{self, Arena, Host, Node, NodeId};
use corten_ops::{ErrorKind, Result};
use libfuzzer_sys::fuzz_target;

struct Anything;

impl Host for Anything {
    fn global(&mut self, module: &str, name: &str) -> Result<Node> {
        Ok(Node::Global(format!("{module}.{name}")))
    }

    fn call(&mut self, _: &mut Arena, function: &str, arguments: &[NodeId]) -> Result<Node> {
        Ok(Node::Object(function.to_owned(), arguments.to_vec()))
    }

    fn persistent(&mut self, _: &Arena, _: NodeId) -> Result<Node> {
        Ok(Node::Value(Value::None))
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut host = Anything;
    let value = pickle::read(bytes, 0, &mut host)
        .and_then(|(arena, root, _)| arena.value(root, &mut (1 << 20)));
    if let Err(error) = value {
        assert_ne!(error.kind(), ErrorKind::Internal, "{error}");
    }
});
