//! Where the weights of a model come from, under the names of GGUF.

use crate::config::{Architecture, read_json};
use corten::core::{Scalar, bail, err};
use corten::io::{gguf, safetensors};
use corten::{Result, Tensor, op};
use std::collections::{BTreeSet, HashMap};
use std::path::Path;

/// Tensors by the names of GGUF.
pub(crate) trait Weights {
    /// The tensor of a name, if there is one.
    fn find(&self, name: &str) -> Result<Option<Tensor>>;

    /// The tensor of a name.
    fn get(&self, name: &str) -> Result<Tensor> {
        let found = self.find(name)?;
        found.ok_or_else(|| err!(Runtime, "the model has no tensor {name:?}"))
    }
}

impl Weights for gguf::Opened {
    fn find(&self, name: &str) -> Result<Option<Tensor>> {
        let known = self.tensors().iter().any(|info| info.name == name);
        known.then(|| self.weights(name)).transpose()
    }
}

/// The safetensors files of a folder of Hugging Face.
pub(crate) struct Folder {
    files: Vec<safetensors::Opened>,
    /// In which file a tensor is.
    places: HashMap<String, usize>,
    architecture: Architecture,
    /// What stands before the names of the model of text.
    prefix: String,
}

impl Folder {
    pub(crate) fn open(folder: &Path, architecture: Architecture) -> Result<Self> {
        let index = folder.join("model.safetensors.index.json");
        let mut names = BTreeSet::new();
        if index.exists() {
            let json = read_json(&index)?;
            let map = json.get("weight_map").and_then(serde_json::Value::as_object);
            for name in map.into_iter().flatten().filter_map(|(_, file)| file.as_str()) {
                // Only files of the folder itself are opened.
                if name.contains(['/', '\\']) || name.starts_with("..") {
                    bail!(Runtime, "{}: {name:?} is no file of the folder", index.display())
                }
                names.insert(name.to_owned());
            }
        } else {
            names.insert("model.safetensors".to_owned());
        }
        let (mut files, mut places) = (Vec::new(), HashMap::new());
        for name in names {
            let file = safetensors::Opened::new(folder.join(name))?;
            for tensor in file.names()? {
                places.insert(tensor, files.len());
            }
            files.push(file);
        }
        let end = "embed_tokens.weight";
        let prefix = places.keys().find_map(|name| name.strip_suffix(end));
        let prefix = prefix.ok_or_else(|| err!(Runtime, "the model has no tensor …{end}"))?;
        Ok(Self { prefix: prefix.to_owned(), files, places, architecture })
    }

    /// The name in these files of what GGUF calls `name`.
    fn translated(&self, name: &str) -> Option<String> {
        let (stem, end) = name.rsplit_once('.')?;
        let prefix = &self.prefix;
        let outer = match stem {
            "token_embd" => Some("embed_tokens"),
            "output_norm" => Some("norm"),
            _ => None,
        };
        if let Some(outer) = outer {
            return Some(format!("{prefix}{outer}.{end}"));
        }
        if stem == "output" {
            let head = prefix.strip_suffix("model.").unwrap_or(prefix);
            let places = [format!("{head}lm_head.{end}"), format!("lm_head.{end}")];
            return places.into_iter().find(|name| self.places.contains_key(name));
        }
        let (layer, part) = stem.strip_prefix("blk.")?.split_once('.')?;
        let has_post_norms = self.architecture.is_gemma();
        let part = match part {
            "attn_norm" => "input_layernorm",
            "attn_q" => "self_attn.q_proj",
            "attn_k" => "self_attn.k_proj",
            "attn_v" => "self_attn.v_proj",
            "attn_q_norm" => "self_attn.q_norm",
            "attn_k_norm" => "self_attn.k_norm",
            "attn_output" => "self_attn.o_proj",
            "post_attention_norm" if has_post_norms => "post_attention_layernorm",
            "ffn_norm" if has_post_norms => "pre_feedforward_layernorm",
            "ffn_norm" => "post_attention_layernorm",
            "post_ffw_norm" if has_post_norms => "post_feedforward_layernorm",
            "ffn_gate" => "mlp.gate_proj",
            "ffn_up" => "mlp.up_proj",
            "ffn_down" => "mlp.down_proj",
            _ => return None,
        };
        Some(format!("{prefix}layers.{layer}.{part}.{end}"))
    }
}

impl Weights for Folder {
    fn find(&self, name: &str) -> Result<Option<Tensor>> {
        let Some(theirs) = self.translated(name) else { return Ok(None) };
        let Some(file) = self.places.get(&theirs).and_then(|&place| self.files.get(place)) else {
            return Ok(None);
        };
        let tensor = file.tensor(&theirs)?;
        // These files have what is added to 1; GGUF has the sum.
        if self.architecture.is_gemma() && name.ends_with("norm.weight") {
            let wide = tensor.to(corten::DType::Float32)?;
            return op::add_scalar(&wide, Scalar::Int(1), Scalar::Int(1)).map(Some);
        }
        Ok(Some(tensor))
    }
}
