//! The configuration of a GGUF file.

use super::{Activation, Architecture, Config, scale_of, windowed_by};
use crate::rope::{Rope, RopeScaling, Yarn};
use corten::core::{bail, err};
use corten::io::{Value, gguf::Opened};
use corten::{DType, Result};

/// The metadata of one architecture: keys begin with its name.
struct Metadata<'a> {
    file: &'a Opened,
    prefix: &'a str,
}

impl Metadata<'_> {
    fn number(&self, key: &str) -> Option<f64> {
        self.file.get(&format!("{}.{key}", self.prefix)).and_then(Value::number)
    }

    fn int(&self, key: &str) -> Option<i64> {
        self.number(key).map(|number| number as i64)
    }

    fn required(&self, key: &str) -> Result<i64> {
        let found = self.int(key);
        found.ok_or_else(|| err!(Runtime, "the file has no metadata {}.{key}", self.prefix))
    }

    fn text(&self, key: &str) -> Option<&str> {
        match self.file.get(&format!("{}.{key}", self.prefix)) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// Rotary positions of layers that see all tokens.
    fn rope(&self, head_width: i64) -> Result<Rope> {
        let factor = self.number("rope.scaling.factor").or(self.number("rope.scale_linear"));
        let factor = factor.filter(|&factor| factor > 0.0).unwrap_or(1.0);
        let scaling = match self.text("rope.scaling.type") {
            Some("linear") => RopeScaling::Linear(factor),
            Some("yarn") => RopeScaling::Yarn(Yarn {
                factor,
                original: self.number("rope.scaling.original_context_length").unwrap_or(4096.0),
                fast: self.number("rope.scaling.yarn_beta_fast").unwrap_or(32.0),
                slow: self.number("rope.scaling.yarn_beta_slow").unwrap_or(1.0),
                attention: self.number("rope.scaling.attn_factor"),
            }),
            None | Some("none") if factor == 1.0 => RopeScaling::None,
            None => RopeScaling::Linear(factor),
            Some("none") => RopeScaling::None,
            Some(other) => bail!(NotImplemented, "rotary positions scaled by {other:?}"),
        };
        let scaling = match self.file.info("rope_freqs.weight") {
            Ok(_) => RopeScaling::Divided(
                self.file.tensor("rope_freqs.weight")?.to(DType::Float64)?.to_vec::<f64>()?,
            ),
            Err(_) => scaling,
        };
        let theta = self.number("rope.freq_base").unwrap_or(10_000.0);
        let dims = self.int("rope.dimension_count").unwrap_or(head_width);
        Ok(Rope { theta, dims: dims as usize, scaling })
    }
}

impl Config {
    /// The configuration of a GGUF file.
    ///
    /// # Errors
    /// `NotImplemented` for architectures that are not known, `Runtime` where metadata are missing or make no sense.
    pub fn from_gguf(file: &Opened) -> Result<Self> {
        let Some(Value::Text(name)) = file.get("general.architecture") else {
            bail!(Runtime, "the file does not say of which architecture its model is")
        };
        let Some(architecture) = Architecture::of_name(name) else {
            bail!(NotImplemented, "models of the architecture {name:?} are not known")
        };
        let data = Metadata { file, prefix: name };
        let (width, heads) =
            (data.required("embedding_length")?, data.required("attention.head_count")?);
        let layers = usize::try_from(data.required("block_count")?).unwrap_or(0);
        let head_width = data.int("attention.key_length").unwrap_or(width / heads.max(1));
        let window = data.int("attention.sliding_window").unwrap_or(0);
        let period = match architecture {
            Architecture::Gemma2 => 2,
            Architecture::Gemma3 => 6,
            _ => 1,
        };
        let period = data.int("attention.sliding_window_pattern").unwrap_or(period) as usize;
        let rope = data.rope(head_width)?;
        let local_rope = match architecture {
            Architecture::Gemma3 => Rope {
                theta: data.number("rope.freq_base_swa").unwrap_or(10_000.0),
                dims: rope.dims,
                scaling: RopeScaling::None,
            },
            _ => rope.clone(),
        };
        let is_gemma = architecture.is_gemma();
        let cap = |key, default| {
            let known = data.number(key).unwrap_or(default);
            if architecture == Architecture::Gemma2 { known } else { 0.0 }
        };
        let config = Self {
            architecture,
            width,
            layers,
            heads,
            kv_heads: data.int("attention.head_count_kv").unwrap_or(heads),
            head_width,
            context: data.int("context_length").unwrap_or(2048),
            eps: data.number("attention.layer_norm_rms_epsilon").unwrap_or(1e-6),
            rope,
            local_rope,
            interleaved: architecture == Architecture::Llama,
            window: if period > 1 { window } else { 0 },
            windowed: if layers < 1 << 16 { windowed_by(layers, period) } else { Vec::new() },
            attention_scale: scale_of(architecture, layers, width, heads, head_width),
            attention_soft_cap: cap("attn_logit_softcapping", 50.0),
            logit_soft_cap: cap("final_logit_softcapping", 30.0),
            embedding_scale: if is_gemma { (width as f64).sqrt() } else { 1.0 },
            activation: if is_gemma { Activation::GeluTanh } else { Activation::Silu },
        };
        config.checked()
    }
}
