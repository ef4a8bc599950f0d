//! Pickles of protocol 2, which all versions of PyTorch read.

use crate::value::Value;
use corten_core::{Result, bail};
use corten_ops::Tensor;

/// Writes a pickle.
///
/// Nothing is memoised: a value that stands in two places is written twice. Tensors are written by who knows the
/// format of the file around the pickle.
pub struct Writer<'t> {
    bytes: Vec<u8>,
    tensor: Box<TensorWriter<'t>>,
}

/// Writes a tensor to a pickle.
type TensorWriter<'t> = dyn FnMut(&mut Writer<'_>, &Tensor) -> Result<()> + 't;

impl<'t> Writer<'t> {
    /// A writer that leaves tensors to a function.
    pub fn new(tensor: impl FnMut(&mut Writer<'_>, &Tensor) -> Result<()> + 't) -> Self {
        Self { bytes: vec![0x80, 2], tensor: Box::new(tensor) }
    }

    /// The pickle of a value.
    ///
    /// # Errors
    /// `Runtime` for objects of unknown classes; those of the function for tensors.
    pub fn pickle(mut self, value: &Value) -> Result<Vec<u8>> {
        self.value(value)?;
        self.bytes.push(b'.');
        Ok(self.bytes)
    }

    /// Writes a value.
    ///
    /// # Errors
    /// As [`pickle`](Self::pickle).
    pub fn value(&mut self, value: &Value) -> Result<()> {
        match value {
            Value::None => self.bytes.push(b'N'),
            Value::Bool(value) => self.bytes.push(if *value { 0x88 } else { 0x89 }),
            Value::Int(value) => self.int(*value),
            Value::BigInt(bytes) => self.long(bytes)?,
            Value::Float(value) => {
                self.bytes.push(b'G');
                self.bytes.extend(value.to_be_bytes());
            }
            Value::Complex(real, imaginary) => {
                let parts = [Value::Float(*real), Value::Float(*imaginary)];
                self.call("builtins", "complex", &parts)?;
            }
            Value::Text(text) => self.text(text)?,
            Value::Bytes(bytes) => {
                // Protocol 2 has no bytes: text of the same code points stands for them.
                let text = bytes.iter().map(|&byte| char::from(byte)).collect();
                let encoding = Value::Text("latin1".to_owned());
                self.call("_codecs", "encode", &[Value::Text(text), encoding])?;
            }
            Value::Tuple(values) => self.tuple(values)?,
            Value::List(values) => self.list(values)?,
            Value::Set(values) => {
                self.global("builtins", "set");
                self.list(values)?;
                self.bytes.extend([0x85, b'R']);
            }
            Value::Dict(entries) => {
                self.bytes.extend(b"}(");
                for (key, value) in entries {
                    self.value(key)?;
                    self.value(value)?;
                }
                self.bytes.push(b'u');
            }
            Value::Tensor(tensor) => self.tensor(tensor)?,
            Value::Size(sizes) => {
                let sizes = sizes.iter().copied().map(Value::Int).collect();
                self.call("torch", "Size", &[Value::Tuple(sizes)])?;
            }
            Value::DType(dtype) => self.global("torch", dtype.name()),
            Value::Device(device) => {
                let mut parts = vec![Value::Text(device.device_type.to_string())];
                parts.extend((device.index >= 0).then(|| Value::Int(i64::from(device.index))));
                self.call("torch", "device", &parts)?;
            }
            Value::Layout(layout) => {
                let name = Value::Text(format!("torch.{}", layout.name()));
                self.call("torch.serialization", "_get_layout", &[name])?;
            }
            Value::Object(object) => {
                bail!(Runtime, "an object of the class {} cannot be saved", object.class)
            }
        }
        Ok(())
    }

    fn tensor(&mut self, tensor: &Tensor) -> Result<()> {
        let mut write: Box<TensorWriter<'t>> =
            std::mem::replace(&mut self.tensor, Box::new(|_, _| Ok(())));
        let written = write(self, tensor);
        self.tensor = write;
        written
    }

    /// Writes bytes of a pickle as they are.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
    }

    /// Writes a function or class.
    pub fn global(&mut self, module: &str, name: &str) {
        self.bytes.push(b'c');
        self.bytes.extend(format!("{module}\n{name}\n").bytes());
    }

    /// Writes a call.
    ///
    /// # Errors
    /// Those of the arguments.
    pub fn call(&mut self, module: &str, name: &str, arguments: &[Value]) -> Result<()> {
        self.global(module, name);
        self.tuple(arguments)?;
        self.bytes.push(b'R');
        Ok(())
    }

    /// Writes a tuple.
    ///
    /// # Errors
    /// Those of the values.
    pub fn tuple(&mut self, values: &[Value]) -> Result<()> {
        self.bytes.push(b'(');
        values.iter().try_for_each(|value| self.value(value))?;
        self.bytes.push(b't');
        Ok(())
    }

    fn list(&mut self, values: &[Value]) -> Result<()> {
        self.bytes.extend(b"](");
        values.iter().try_for_each(|value| self.value(value))?;
        self.bytes.push(b'e');
        Ok(())
    }

    fn int(&mut self, value: i64) {
        match i32::try_from(value) {
            Ok(small) => {
                self.bytes.push(b'J');
                self.bytes.extend(small.to_le_bytes());
            }
            Err(_) => {
                self.bytes.extend([0x8a, 8]);
                self.bytes.extend(value.to_le_bytes());
            }
        }
    }

    fn long(&mut self, bytes: &[u8]) -> Result<()> {
        let Ok(count) = u8::try_from(bytes.len()) else {
            bail!(Runtime, "a whole number of more than 255 bytes cannot be saved");
        };
        self.bytes.extend([0x8a, count]);
        self.bytes.extend(bytes);
        Ok(())
    }

    fn text(&mut self, text: &str) -> Result<()> {
        let Ok(count) = u32::try_from(text.len()) else {
            bail!(Runtime, "a text of more than 4 GiB cannot be saved");
        };
        self.bytes.push(b'X');
        self.bytes.extend(count.to_le_bytes());
        self.bytes.extend(text.bytes());
        Ok(())
    }
}
