//! What the pickles of tensors may call.

use super::load::{LoadOptions, UnknownClasses};
use super::storage_dtype;
use crate::bytes::{only_truths, swap};
use crate::pickle::{Arena, Host, Node, NodeId};
use crate::value::Value;
use corten_blocks::Format;
use corten_core::{DType, Device, DeviceType, Layout, Result, Storage, bail, ensure, err};
use corten_ops::sparse::{Compressed, Coo};
use corten_ops::{Tensor, blocks, op};
use std::collections::HashMap;

/// Reads the data of a storage by key and number of bytes.
pub(super) type ReadStorage<'r> = &'r mut dyn FnMut(&str, usize) -> Result<Storage>;

/// Operators have up to this many dimensions.
const MOST_DIMENSIONS: usize = 64;

/// The storages of a file; each is read once.
pub(super) struct Storages<'r> {
    read: ReadStorage<'r>,
    is_big_endian: bool,
    found: Vec<Found>,
    keys: HashMap<String, usize>,
}

/// A storage of a file.
pub(super) struct Found {
    pub(super) key: String,
    pub(super) storage: Storage,
    pub(super) dtype: DType,
}

impl<'r> Storages<'r> {
    pub(super) fn new(read: ReadStorage<'r>, is_big_endian: bool) -> Self {
        Self { read, is_big_endian, found: Vec::new(), keys: HashMap::new() }
    }

    /// The storages that were asked for.
    pub(super) fn found(&self) -> &[Found] {
        &self.found
    }

    /// A storage with the dtype of its class.
    pub(super) fn of(&self, number: usize) -> (Storage, DType) {
        let Found { storage, dtype, .. } = &self.found[number];
        (storage.clone(), *dtype)
    }

    fn find(&mut self, key: &str, dtype: DType, device: Device, count: usize) -> Result<usize> {
        if let Some(&number) = self.keys.get(key) {
            ensure!(
                self.found[number].dtype == dtype,
                Runtime,
                "the storage {key:.80} is of two dtypes"
            );
            return Ok(number);
        }
        let nbytes = count.checked_mul(dtype.itemsize());
        let nbytes = nbytes.filter(|&nbytes| isize::try_from(nbytes).is_ok());
        let nbytes = nbytes.ok_or_else(|| err!(Runtime, "a storage has an impossible size"))?;
        let storage = match device.device_type {
            DeviceType::Meta => Storage::new(nbytes, device)?,
            DeviceType::Cpu => self.read(key, nbytes, dtype)?,
            _ => {
                let bytes = self.read(key, nbytes, dtype)?;
                let bytes = Tensor::from_storage(bytes, DType::UInt8, &[nbytes as i64], &[1], 0)?;
                let there = op::to_device(&bytes, device, DType::UInt8, false, false, None)?;
                there.storage()?.clone()
            }
        };
        self.found.push(Found { key: key.to_owned(), storage, dtype });
        self.keys.insert(key.to_owned(), self.found.len() - 1);
        Ok(self.found.len() - 1)
    }

    fn read(&mut self, key: &str, nbytes: usize, dtype: DType) -> Result<Storage> {
        let storage = (self.read)(key, nbytes)?;
        if self.is_big_endian {
            swap(&storage, dtype)?;
        }
        if dtype == DType::Bool {
            only_truths(&storage)?;
        }
        Ok(storage)
    }
}

/// The host of pickles with tensors.
pub(super) struct TensorHost<'r> {
    pub(super) storages: Storages<'r>,
    options: LoadOptions,
    sparse: Vec<Tensor>,
}

impl<'r> TensorHost<'r> {
    pub(super) fn new(storages: Storages<'r>, options: LoadOptions) -> Self {
        Self { storages, options, sparse: Vec::new() }
    }
}

/// The functions and classes that may be called.
const CALLED: &[&str] = &[
    "torch._utils._rebuild_tensor",
    "torch._utils._rebuild_tensor_v2",
    "torch._utils._rebuild_tensor_v3",
    "torch._utils._rebuild_parameter",
    "torch._utils._rebuild_parameter_with_state",
    "torch._utils._rebuild_meta_tensor_no_storage",
    "torch._utils._rebuild_device_tensor_from_cpu_tensor",
    "torch._utils._rebuild_sparse_tensor",
    "torch._utils._rebuild_qtensor",
    "torch._utils._rebuild_block_tensor",
    "torch._tensor._rebuild_from_type_v2",
    "torch.serialization._get_layout",
    "torch.Size",
    "torch.device",
    "torch.Tensor",
    "torch.nn.parameter.Parameter",
    "collections.OrderedDict",
    "collections.Counter",
    "builtins.set",
    "builtins.bytearray",
    "builtins.complex",
    "_codecs.encode",
];

/// Names of Python 2.
fn today(module: &str) -> &str {
    match module {
        "__builtin__" => "builtins",
        other => other,
    }
}

impl Host for TensorHost<'_> {
    fn global(&mut self, module: &str, name: &str) -> Result<Node> {
        let full = format!("{}.{name}", today(module));
        let is_known = CALLED.contains(&full.as_str()) || storage_of(&full).is_some();
        if is_known || super::quantized::scheme_of(&full).is_some() {
            return Ok(Node::Global(full));
        }
        if let Some(dtype) = full.strip_prefix("torch.").and_then(DType::from_name) {
            return Ok(Node::Value(Value::DType(dtype)));
        }
        let blocked = ["sys", "os", "posix", "nt"];
        ensure!(
            !blocked.contains(&module.split('.').next().unwrap_or_default()),
            Runtime,
            "Trying to load unsupported GLOBAL {full:.200} whose module {module:.200} is blocked."
        );
        if self.options.unknown == UnknownClasses::Keep {
            return Ok(Node::Global(full));
        }
        bail!(
            Runtime,
            "Unsupported global: GLOBAL {full:.200} was not an allowed global by default: the file holds more than weights"
        )
    }

    fn call(&mut self, arena: &mut Arena, function: &str, arguments: &[NodeId]) -> Result<Node> {
        let given = Arguments { arena, ids: arguments };
        let Some(name) = function.strip_prefix("torch._utils.") else {
            return self.call_other(arena, function, arguments);
        };
        let tensor = match name {
            "_rebuild_tensor" => self.tensor(&given, None)?,
            "_rebuild_tensor_v2" => {
                let tensor = self.tensor(&given, None)?;
                marked(tensor, &given, 6)?
            }
            "_rebuild_tensor_v3" => {
                let Node::Value(Value::DType(dtype)) = *given.node(6)? else {
                    bail!(Runtime, "a dtype is expected")
                };
                let tensor = self.tensor(&given, Some(dtype))?;
                marked(tensor, &given, 7)?
            }
            "_rebuild_parameter" | "_rebuild_parameter_with_state" => given.tensor(0)?,
            "_rebuild_meta_tensor_no_storage" => {
                let (dtype, sizes, strides) = (given.dtype(0)?, given.dims(1)?, given.dims(2)?);
                let meta = Some(Device::META);
                op::empty_strided(&sizes, &strides, Some(dtype), None, meta, None)?
            }
            "_rebuild_device_tensor_from_cpu_tensor" => {
                let (tensor, dtype) = (given.tensor(0)?, given.dtype(1)?);
                let device = self.options.map_location.unwrap_or(tensor.device());
                // An expanded tensor of a small file would grow to any size.
                ensure!(
                    tensor.numel() as u64 <= tensor.storage()?.nbytes() as u64,
                    Runtime,
                    "a tensor of a device has more elements than its storage"
                );
                op::to_device(&tensor, device, dtype, false, false, None)?
            }
            "_rebuild_sparse_tensor" if self.options.unknown == UnknownClasses::Keep => {
                return Ok(Node::Object(function.to_owned(), arguments.to_vec()));
            }
            "_rebuild_sparse_tensor" => self.sparse_tensor(&given)?,
            "_rebuild_block_tensor" => block_tensor(&given)?,
            "_rebuild_qtensor" => self.quantized_tensor(&given)?,
            _ => bail!(Runtime, "Trying to call reduce for unrecognized function {function:.200}"),
        };
        Ok(Node::Value(Value::Tensor(tensor)))
    }

    fn persistent(&mut self, arena: &Arena, id: NodeId) -> Result<Node> {
        let Node::Tuple(parts) = arena.get(id) else {
            bail!(Runtime, "persistent_load id must be tuple");
        };
        let given = Arguments { arena, ids: parts };
        ensure!(given.text(0)? == "storage", Runtime, "Only persistent_load of storage is allowed");
        let class = match given.node(1)? {
            Node::Global(class) => class,
            _ => bail!(Runtime, "a reference to a storage has parts of wrong types"),
        };
        let Some(dtype) = storage_of(class) else {
            bail!(NotImplemented, "storages of the class {class:.200} are not read")
        };
        let count = usize::try_from(given.int(4)?)
            .map_err(|_| err!(Runtime, "a storage has an impossible size"))?;
        if parts.len() > 5 && !matches!(given.node(5)?, Node::Value(Value::None)) {
            bail!(NotImplemented, "views of storages, which very old files have, are not read");
        }
        let (key, location) = (given.text(2)?, given.text(3)?);
        let device = self.device(&location)?;
        Ok(Node::Storage(self.storages.find(&key, dtype, device, count)?))
    }
}

/// A block-quantised tensor: of the name of its format, bytes, shape, and whether it is transposed.
fn block_tensor(given: &Arguments<'_>) -> Result<Tensor> {
    let name = given.text(0)?;
    let Some(format) = Format::of_name(&name) else {
        bail!(Runtime, "the file holds a tensor of the unknown block format {name:.200}")
    };
    let made = blocks::from_bytes(format, &given.tensor(1)?, &given.dims(2)?)?;
    let is_transposed = matches!(given.node(3)?, Node::Value(Value::Bool(true)));
    if is_transposed { op::t(&made) } else { Ok(made) }
}

/// The dtype of a class of storages by its whole name.
fn storage_of(full: &str) -> Option<DType> {
    let class = full.strip_prefix("torch.storage.").or_else(|| full.strip_prefix("torch."))?;
    storage_dtype(class)
}

impl TensorHost<'_> {
    /// A tensor over a storage: of storage, offset, sizes and strides.
    fn tensor(&self, given: &Arguments<'_>, dtype: Option<DType>) -> Result<Tensor> {
        let Node::Storage(number) = *given.node(0)? else {
            bail!(Runtime, "a storage is expected");
        };
        let Found { storage, dtype: own, .. } = &self.storages.found[number];
        let (sizes, strides) = (given.dims(2)?, given.dims(3)?);
        Tensor::from_storage(
            storage.clone(),
            dtype.unwrap_or(*own),
            &sizes,
            &strides,
            given.int(1)?,
        )
    }

    /// A tensor whose rows or columns are compressed, which is checked when its data are there.
    fn sparse_tensor(&mut self, given: &Arguments<'_>) -> Result<Tensor> {
        let Node::Value(Value::Layout(layout)) = *given.node(0)? else {
            bail!(Runtime, "a layout is expected")
        };
        let ids = given.items(1)?;
        let parts = Arguments { arena: given.arena, ids: &ids };
        if layout == Layout::Sparse {
            return self.coordinates(&parts);
        }
        if layout == Layout::Strided {
            bail!(Runtime, "the layout torch.strided is not that of a sparse tensor");
        }
        let (first, second, values) = (parts.tensor(0)?, parts.tensor(1)?, parts.tensor(2)?);
        let sizes = parts.dims(3)?;
        ensure!(
            sizes.iter().all(|&size| size >= 0),
            Runtime,
            "a sparse tensor has a negative size"
        );
        let made = op::_sparse_compressed_tensor_unsafe(
            &first,
            &second,
            &values,
            &sizes,
            None,
            Some(layout),
            None,
            None,
        )?;
        self.sparse.push(made.clone());
        Ok(made)
    }

    /// A tensor in coordinate format, which is checked when its data are there.
    fn coordinates(&mut self, parts: &Arguments<'_>) -> Result<Tensor> {
        let (indices, values, sizes) = (parts.tensor(0)?, parts.tensor(1)?, parts.dims(2)?);
        ensure!(
            sizes.iter().all(|&size| size >= 0),
            Runtime,
            "a sparse tensor has a negative size"
        );
        // Files of old do not say it.
        let coalesced = match parts.ids.get(3).map(|_| parts.node(3)).transpose()? {
            Some(Node::Value(Value::Bool(coalesced))) => *coalesced,
            _ => false,
        };
        let made = op::_sparse_coo_tensor_unsafe(
            &indices,
            &values,
            &sizes,
            None,
            None,
            None,
            None,
            Some(coalesced),
        )?;
        self.sparse.push(made.clone());
        Ok(made)
    }

    /// Checks that the parts of sparse tensors fit together.
    pub(super) fn check_sparse(&self) -> Result<()> {
        for tensor in &self.sparse {
            if let Some(parts) = Coo::of(tensor) {
                let (sizes, coalesced) = (tensor.sizes(), Some(parts.coalesced));
                let (indices, values) = (&parts.indices, &parts.values);
                op::_validate_sparse_coo_tensor_args(indices, values, &sizes, coalesced, None)?;
            }
            let Some(parts) = Compressed::of(tensor) else { continue };
            op::_validate_sparse_compressed_tensor_args(
                &parts.compressed_indices,
                &parts.plain_indices,
                &parts.values,
                &tensor.sizes(),
                parts.layout,
                None,
            )?;
        }
        Ok(())
    }

    /// Where the options say that data go, or else the file.
    fn device(&self, location: &str) -> Result<Device> {
        if location == "meta" {
            return Ok(Device::META);
        }
        match self.options.map_location {
            Some(device) => Ok(device),
            None => location.parse().map_err(|_| {
                err!(
                    Runtime,
                    "don't know how to restore data location of torch.UntypedStorage (tagged with {location:.80})"
                )
            }),
        }
    }

    fn call_other(&mut self, arena: &mut Arena, function: &str, ids: &[NodeId]) -> Result<Node> {
        if function == "torch._tensor._rebuild_from_type_v2" {
            return self.call_of_type(arena, ids);
        }
        let given = Arguments { arena, ids };
        Ok(match function {
            "collections.OrderedDict" | "collections.Counter" => match ids {
                [] => Node::Dict(Vec::new()),
                [pairs, ..] => Node::Dict(pairs_of(arena, *pairs)?),
            },
            "builtins.set" => {
                Node::Set(if ids.is_empty() { Vec::new() } else { given.items(0)? })
            }
            "builtins.bytearray" | "_codecs.encode" => Node::Value(given.bytes()?),
            "builtins.complex" => Node::Value(Value::Complex(given.float(0)?, given.float(1)?)),
            "torch.Size" => {
                Node::Value(Value::Size(if ids.is_empty() { Vec::new() } else { given.ints(0)? }))
            }
            "torch.device" => {
                let mut name = given.text(0)?;
                if ids.len() > 1 {
                    name = format!("{name}:{}", given.int(1)?);
                }
                let device = name.parse();
                Node::Value(Value::Device(
                    device.map_err(|_| err!(Runtime, "no device: {name:.40}"))?,
                ))
            }
            "torch.serialization._get_layout" => {
                let name = given.text(0)?;
                let known = |layout: &&Layout| name.strip_prefix("torch.") == Some(layout.name());
                let layout = Layout::ALL.iter().find(known);
                let Some(layout) = layout else { bail!(Runtime, "a layout is expected") };
                Node::Value(Value::Layout(*layout))
            }
            "torch.nn.parameter.Parameter" | "torch.Tensor" => {
                Node::Value(Value::Tensor(given.tensor(0)?))
            }
            _ if self.options.unknown == UnknownClasses::Keep => {
                Node::Object(function.to_owned(), ids.to_vec())
            }
            _ => bail!(Runtime, "Trying to call reduce for unrecognized function {function:.200}"),
        })
    }

    /// A tensor of a subclass: its class and its attributes are left out where they are those of tensors.
    fn call_of_type(&mut self, arena: &mut Arena, ids: &[NodeId]) -> Result<Node> {
        let given = Arguments { arena, ids };
        let (Node::Global(function), Node::Global(class)) = (given.node(0)?, given.node(1)?) else {
            bail!(Runtime, "a function and a class are expected");
        };
        let is_tensor = ["torch.Tensor", "torch.nn.parameter.Parameter"].contains(&class.as_str());
        ensure!(
            is_tensor || self.options.unknown == UnknownClasses::Keep,
            Runtime,
            "tensors cannot be made instances of {class:.200}"
        );
        ensure!(
            function.starts_with("torch._utils._rebuild"),
            Runtime,
            "Trying to call reduce for unrecognized function {function:.200}"
        );
        let (function, arguments) = (function.clone(), given.items(2)?);
        self.call(arena, &function, &arguments)
    }
}

/// The pairs of a list of pairs.
fn pairs_of(arena: &Arena, id: NodeId) -> Result<Vec<(NodeId, NodeId)>> {
    match arena.get(id) {
        Node::Dict(pairs) => Ok(pairs.clone()),
        Node::List(items) | Node::Tuple(items) => {
            let pair = |&id: &NodeId| match arena.get(id) {
                Node::List(pair) | Node::Tuple(pair) if pair.len() == 2 => Ok((pair[0], pair[1])),
                _ => bail!(Runtime, "a dictionary is saved as pairs"),
            };
            items.iter().map(pair).collect()
        }
        _ => bail!(Runtime, "a dictionary is saved as pairs"),
    }
}

/// A tensor with the lazy bits that its metadata name.
fn marked(tensor: Tensor, given: &Arguments<'_>, at: usize) -> Result<Tensor> {
    let Some(&id) = given.ids.get(at) else { return Ok(tensor) };
    let Node::Dict(pairs) = given.arena.get(id) else { return Ok(tensor) };
    let is_set = |wanted: &str| {
        pairs.iter().any(|&(key, value)| {
            matches!(given.arena.get(key), Node::Value(Value::Text(name)) if name == wanted)
                && matches!(given.arena.get(value), Node::Value(Value::Bool(true)))
        })
    };
    let tensor = if is_set("conj") { op::conj(&tensor)? } else { tensor };
    if is_set("neg") { op::_neg_view(&tensor) } else { Ok(tensor) }
}

/// The arguments of a call.
pub(super) struct Arguments<'a> {
    pub(super) arena: &'a Arena,
    pub(super) ids: &'a [NodeId],
}

impl<'a> Arguments<'a> {
    pub(super) fn node(&self, at: usize) -> Result<&'a Node> {
        let id = self.ids.get(at).ok_or_else(|| err!(Runtime, "a call has too few arguments"))?;
        Ok(self.arena.get(*id))
    }

    fn text(&self, at: usize) -> Result<String> {
        match self.node(at)? {
            Node::Value(Value::Text(text)) => Ok(text.clone()),
            _ => bail!(Runtime, "a text is expected"),
        }
    }

    pub(super) fn int(&self, at: usize) -> Result<i64> {
        match self.node(at)? {
            Node::Value(Value::Int(value)) => Ok(*value),
            _ => bail!(Runtime, "a whole number is expected"),
        }
    }

    pub(super) fn float(&self, at: usize) -> Result<f64> {
        match self.node(at)? {
            Node::Value(value) => {
                value.number().ok_or_else(|| err!(Runtime, "a number is expected"))
            }
            _ => bail!(Runtime, "a number is expected"),
        }
    }

    fn dtype(&self, at: usize) -> Result<DType> {
        match self.node(at)? {
            Node::Value(Value::DType(dtype)) => Ok(*dtype),
            _ => bail!(Runtime, "a dtype is expected"),
        }
    }

    pub(super) fn tensor(&self, at: usize) -> Result<Tensor> {
        match self.node(at)? {
            Node::Value(Value::Tensor(tensor)) => Ok(tensor.clone()),
            _ => bail!(Runtime, "a tensor is expected"),
        }
    }

    pub(super) fn items(&self, at: usize) -> Result<Vec<NodeId>> {
        match self.node(at)? {
            Node::Tuple(items) | Node::List(items) | Node::Set(items) => Ok(items.clone()),
            _ => bail!(Runtime, "a list is expected"),
        }
    }

    fn ints(&self, at: usize) -> Result<Vec<i64>> {
        if let Node::Value(Value::Size(sizes)) = self.node(at)? {
            return Ok(sizes.clone());
        }
        let int = |&id: &NodeId| match self.arena.get(id) {
            Node::Value(Value::Int(value)) => Ok(*value),
            _ => bail!(Runtime, "a whole number is expected"),
        };
        self.items(at)?.iter().map(int).collect()
    }

    /// Sizes or strides.
    pub(super) fn dims(&self, at: usize) -> Result<Vec<i64>> {
        let dims = self.ints(at)?;
        ensure!(dims.len() <= MOST_DIMENSIONS, Runtime, "a tensor of {} dimensions", dims.len());
        Ok(dims)
    }

    /// Bytes as protocol 2 stores them: text of the same code points.
    fn bytes(&self) -> Result<Value> {
        Ok(match self.ids.first().map(|&id| self.arena.get(id)) {
            None => Value::Bytes(Vec::new()),
            Some(Node::Value(Value::Bytes(bytes))) => Value::Bytes(bytes.clone()),
            Some(Node::Value(Value::Text(text))) => {
                let bytes = text.chars().map(|c| u8::try_from(u32::from(c)));
                let bytes: Result<Vec<u8>, _> = bytes.collect();
                Value::Bytes(bytes.map_err(|_| err!(Runtime, "bytes are encoded as latin1"))?)
            }
            _ => bail!(Runtime, "bytes are encoded as latin1"),
        })
    }
}
