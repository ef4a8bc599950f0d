//! The configuration of a folder of Hugging Face: `config.json`.

use super::{Activation, Architecture, Config, windowed_by};
use crate::rope::{Llama3, Rope, RopeScaling, Yarn};
use corten::Result;
use corten::core::{bail, err};
use serde_json::Value;
use std::path::Path;

/// A JSON file.
pub(crate) fn read_json(path: &Path) -> Result<Value> {
    let bytes = std::fs::read(path);
    let bytes = bytes.map_err(|error| err!(Runtime, "{}: {error}", path.display()))?;
    let value = serde_json::from_slice(&bytes);
    value.map_err(|error| err!(Runtime, "{}: {error}", path.display()))
}

/// The settings of a model of text; those of several kinds of input have them in `text_config`.
struct Settings<'a>(&'a Value);

impl Settings<'_> {
    fn number(&self, key: &str) -> Option<f64> {
        self.0.get(key).and_then(Value::as_f64)
    }

    fn int(&self, key: &str) -> Option<i64> {
        self.number(key).map(|number| number as i64)
    }

    fn required(&self, key: &str) -> Result<i64> {
        self.int(key).ok_or_else(|| err!(Runtime, "config.json has no {key:?}"))
    }

    fn rope(&self, head_width: i64) -> Result<Rope> {
        // From version 5 of transformers on the base is one of these.
        let parameters = self.0.get("rope_parameters");
        let parameters = parameters.map(|known| known.get("full_attention").unwrap_or(known));
        let scaling = parameters.or_else(|| self.0.get("rope_scaling"));
        let theta = self.number("rope_theta");
        let theta = theta.or_else(|| scaling?.get("rope_theta")?.as_f64()).unwrap_or(10_000.0);
        let part = self.number("partial_rotary_factor").unwrap_or(1.0);
        let dims = (head_width as f64 * part) as usize;
        let scaling = scaling.filter(|scaling| !scaling.is_null());
        Ok(Rope { theta, dims, scaling: scaling.map_or(Ok(RopeScaling::None), scaling_of)? })
    }

    fn local_theta(&self) -> f64 {
        let parameters = self.0.get("rope_parameters").and_then(|all| all.get("sliding_attention"));
        let theta = parameters.and_then(|known| known.get("rope_theta")).and_then(Value::as_f64);
        self.number("rope_local_base_freq").or(theta).unwrap_or(10_000.0)
    }

    /// Which layers have a window.
    fn windowed(&self, architecture: Architecture, layers: usize) -> Vec<bool> {
        let is_windowed = |kind: &Value| kind.as_str() == Some("sliding_attention");
        if let Some(Value::Array(kinds)) = self.0.get("layer_types")
            && kinds.len() == layers
        {
            return kinds.iter().map(is_windowed).collect();
        }
        let period = self.int("sliding_window_pattern").map(|period| period as usize);
        match architecture {
            Architecture::Gemma2 => windowed_by(layers, 2),
            Architecture::Gemma3 => windowed_by(layers, period.unwrap_or(6)),
            Architecture::Qwen2 | Architecture::Qwen3 => {
                let uses = self.0.get("use_sliding_window").and_then(Value::as_bool) == Some(true);
                let first = self.int("max_window_layers").unwrap_or(i64::MAX);
                (0..layers).map(|layer| uses && layer as i64 >= first).collect()
            }
            Architecture::Llama => vec![true; layers],
        }
    }
}

fn scaling_of(scaling: &Value) -> Result<RopeScaling> {
    let number = |key: &str| scaling.get(key).and_then(Value::as_f64);
    let kind = scaling.get("rope_type").or_else(|| scaling.get("type")).and_then(Value::as_str);
    let factor = number("factor").filter(|&factor| factor > 0.0).unwrap_or(1.0);
    let original = number("original_max_position_embeddings").unwrap_or(4096.0);
    Ok(match kind {
        None | Some("default") => RopeScaling::None,
        Some("linear") => RopeScaling::Linear(factor),
        Some("llama3") => RopeScaling::Llama3(Llama3 {
            factor,
            low: number("low_freq_factor").unwrap_or(1.0),
            high: number("high_freq_factor").unwrap_or(4.0),
            original,
        }),
        Some("yarn") => RopeScaling::Yarn(Yarn {
            factor,
            original,
            fast: number("beta_fast").unwrap_or(32.0),
            slow: number("beta_slow").unwrap_or(1.0),
            attention: number("attention_factor"),
        }),
        Some(other) => bail!(NotImplemented, "rotary positions scaled by {other:?}"),
    })
}

impl Config {
    /// The configuration of a folder of Hugging Face.
    ///
    /// # Errors
    /// `NotImplemented` for architectures that are not known, `Runtime` where settings are missing or make no sense.
    pub fn from_hugging_face(folder: impl AsRef<Path>) -> Result<Self> {
        let json = read_json(&folder.as_ref().join("config.json"))?;
        let known = Settings(json.get("text_config").unwrap_or(&json));
        let name = known.0.get("model_type").and_then(Value::as_str).unwrap_or("");
        let Some(architecture) = Architecture::of_name(name) else {
            bail!(NotImplemented, "models of the type {name:?} are not known")
        };
        let (width, heads) =
            (known.required("hidden_size")?, known.required("num_attention_heads")?);
        let layers = usize::try_from(known.required("num_hidden_layers")?).unwrap_or(0);
        let head_width = known.int("head_dim").unwrap_or(width / heads.max(1));
        let rope = known.rope(head_width)?;
        let is_gemma = architecture.is_gemma();
        let local_rope = match architecture {
            Architecture::Gemma3 => {
                Rope { theta: known.local_theta(), dims: rope.dims, scaling: RopeScaling::None }
            }
            _ => rope.clone(),
        };
        let divisor = known.number("query_pre_attn_scalar").filter(|_| is_gemma);
        let config = Self {
            architecture,
            width,
            layers,
            heads,
            kv_heads: known.int("num_key_value_heads").unwrap_or(heads),
            head_width,
            context: known.int("max_position_embeddings").unwrap_or(2048),
            eps: known.number("rms_norm_eps").unwrap_or(1e-6),
            rope,
            local_rope,
            interleaved: false,
            window: known.int("sliding_window").unwrap_or(0),
            windowed: known.windowed(architecture, layers.min(1 << 16)),
            attention_scale: 1.0 / divisor.unwrap_or(head_width as f64).sqrt(),
            attention_soft_cap: known.number("attn_logit_softcapping").unwrap_or(0.0),
            logit_soft_cap: known.number("final_logit_softcapping").unwrap_or(0.0),
            embedding_scale: if is_gemma { (width as f64).sqrt() } else { 1.0 },
            activation: if is_gemma { Activation::GeluTanh } else { Activation::Silu },
        };
        config.checked()
    }
}
