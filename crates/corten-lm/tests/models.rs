//! Logits of small models beside those of transformers, with every kind of cache.
#![allow(clippy::unwrap_used, clippy::panic)] // tests may

use corten::io::{gguf, npy};
use corten::prelude::*;
use corten_lm::{
    Cache, CacheOptions, Config, Generation, LanguageModel, LoadOptions, Sampler, Sampling,
    Tokenizer,
};
use std::collections::HashMap;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/goldens/language_models");
const NAMES: [&str; 5] = ["llama", "qwen2", "qwen3", "gemma2", "gemma3"];

fn expected(name: &str) -> (Vec<u32>, Tensor) {
    expected_of(&format!("{name}_tokens"), &format!("{name}_logits"))
}

fn expected_of(tokens: &str, logits: &str) -> (Vec<u32>, Tensor) {
    let all: HashMap<String, Tensor> =
        npy::load_npz(format!("{FOLDER}/expected.npz")).unwrap().into_iter().collect();
    let tokens = all[tokens].to_vec::<i64>().unwrap();
    (tokens.into_iter().map(|token| token as u32).collect(), all[logits].clone())
}

fn folder(name: &str) -> LanguageModel {
    LanguageModel::from_hugging_face(format!("{FOLDER}/{name}"), &LoadOptions::default()).unwrap()
}

fn file(name: &str) -> gguf::Opened {
    gguf::Opened::new(format!("{FOLDER}/{name}.gguf")).unwrap()
}

fn cache(model: &LanguageModel, dtype: DType, page_tokens: usize) -> Cache {
    let options = CacheOptions { dtype, capacity: 64, page_tokens, ..CacheOptions::default() };
    Cache::new(model.config(), options).unwrap()
}

/// The largest difference of logits at every fifth position, relative to the largest logit.
fn error(logits: &Tensor, expected: &Tensor) -> f32 {
    let logits = logits.i(s![4..; 5]).unwrap();
    assert_eq!(logits.sizes(), expected.sizes());
    let apart = (&logits - expected).unwrap().abs().unwrap().max().unwrap();
    let largest = expected.abs().unwrap().max().unwrap();
    apart.to_element::<f32>().unwrap() / largest.to_element::<f32>().unwrap()
}

/// The root of the mean square of differences at every fifth position, relative to that of the logits.
fn mean_error(logits: &Tensor, expected: &Tensor) -> f32 {
    let size = |x: &Tensor| (x * x).unwrap().mean().unwrap().to_element::<f32>().unwrap().sqrt();
    let logits = logits.i(s![4..; 5]).unwrap();
    assert_eq!(logits.sizes(), expected.sizes());
    size(&(&logits - expected).unwrap()) / size(expected)
}

/// The logits of all tokens, the first `prompt` of them at once and the others one by one.
fn one_by_one(model: &LanguageModel, tokens: &[u32], prompt: usize, cache: &mut Cache) -> Tensor {
    let mut logits = Vec::new();
    if prompt > 0 {
        logits.push(model.forward_all(&tokens[..prompt], cache).unwrap());
    }
    for token in &tokens[prompt..] {
        logits.push(model.forward(&[*token], cache).unwrap());
    }
    op::cat(&logits, 0).unwrap()
}

#[test]
fn prompts_at_once() {
    for name in NAMES {
        let (model, (tokens, logits)) = (folder(name), expected(name));
        let found = model.forward_all(&tokens, &mut cache(&model, DType::Float32, 0)).unwrap();
        let error = error(&found, &logits);
        assert!(error < 2e-5, "{name}: {error}");
    }
}

#[test]
fn tokens_one_by_one() {
    for name in NAMES {
        let (model, (tokens, logits)) = (folder(name), expected(name));
        for (prompt, page_tokens) in [(0, 0), (17, 0), (0, 5), (23, 16), (3, 1)] {
            let mut cache = cache(&model, DType::Float32, page_tokens);
            let found = one_by_one(&model, &tokens, prompt, &mut cache);
            let error = error(&found, &logits);
            assert!(error < 2e-5, "{name}, {prompt} at once, pages of {page_tokens}: {error}");
            assert_eq!(cache.len(0), tokens.len());
        }
    }
}

#[test]
fn short_caches() {
    let bounds = [(DType::Float16, 2e-3), (DType::BFloat16, 2e-2), (DType::Int8, 4e-2)];
    for name in NAMES {
        let (model, (tokens, logits)) = (folder(name), expected(name));
        for (dtype, bound) in bounds {
            for (prompt, page_tokens) in [(0, 0), (40, 0), (20, 8)] {
                let mut cache = cache(&model, dtype, page_tokens);
                let error = error(&one_by_one(&model, &tokens, prompt, &mut cache), &logits);
                assert!(error < bound, "{name}, {dtype}, {prompt} at once: {error}");
            }
        }
    }
}

#[test]
fn files_of_gguf() {
    let model = LanguageModel::from_gguf(&file("llama")).unwrap();
    let (tokens, logits) = expected("llama");
    let found = model.forward_all(&tokens, &mut cache(&model, DType::Float32, 0)).unwrap();
    assert!(error(&found, &logits) < 2e-5);
    let model = LanguageModel::from_gguf(&file("gemma3")).unwrap();
    let (tokens, logits) = expected("gguf");
    let found = model.forward_all(&tokens, &mut cache(&model, DType::Float32, 0)).unwrap();
    // Activations are rounded to 8 bits, or to half precision, in every product of seven layers: that alone takes the
    // logits 0.066 away from exact ones.
    let (_, rounded) = expected_of("gguf_tokens", "gguf_rounded_logits");
    assert!(mean_error(&found, &logits) < 0.08);
    let at_once = mean_error(&found, &rounded);
    assert!(at_once < 0.02, "{at_once}");
    let found = one_by_one(&model, &tokens, 5, &mut cache(&model, DType::Float32, 0));
    let behind = mean_error(&found, &rounded);
    assert!(behind < 0.02, "{behind}");
}

#[test]
fn weights_quantised_while_they_are_loaded() {
    let options = LoadOptions { quantize: Some(corten::blocks::Format::Q8_0) };
    let model = LanguageModel::from_hugging_face(format!("{FOLDER}/qwen3"), &options).unwrap();
    let (tokens, logits) = expected("qwen3");
    let found = model.forward_all(&tokens, &mut cache(&model, DType::Float32, 0)).unwrap();
    let error = mean_error(&found, &logits);
    // Weights and activations are both rounded to 8 bits, in rows of one block.
    assert!((1e-5..0.06).contains(&error), "{error}");
}

#[test]
fn several_sequences() {
    let (model, (tokens, _)) = (folder("gemma3"), expected("gemma3"));
    for page_tokens in [0, 4] {
        let options =
            CacheOptions { sequences: 3, capacity: 64, page_tokens, ..CacheOptions::default() };
        let mut cache = Cache::new(model.config(), options).unwrap();
        let mut apart = Vec::new();
        for sequence in 0..3 {
            let mut single = self::cache(&model, DType::Float16, 0);
            for step in 0..12 {
                let logits = model.forward(&[tokens[sequence * 12 + step]], &mut single).unwrap();
                if step == 11 {
                    apart.push(logits);
                }
            }
        }
        let mut logits = None;
        // The first sequence begins earlier, so that they have different numbers of tokens.
        for &token in &tokens[..3] {
            model.decode(&[0], &[token], &mut cache).unwrap();
        }
        for step in 0..12 {
            let first = if step + 3 < 12 { tokens[step + 3] } else { 1 };
            let next = [first, tokens[12 + step], tokens[24 + step]];
            let found = model.decode(&[0, 1, 2], &next, &mut cache).unwrap();
            if step == 8 {
                logits = Some(found.i(0..1).unwrap().clone());
            }
            if step == 11 {
                let rest = found.i(1..3).unwrap();
                let all = op::cat(&[logits.clone().unwrap(), rest], 0).unwrap();
                let apart = op::cat(&apart, 0).unwrap();
                let error = (all - &apart).unwrap().abs().unwrap().max().unwrap();
                assert!(error.to_element::<f32>().unwrap() < 1e-3);
            }
        }
        assert_eq!([0, 1, 2].map(|sequence| cache.len(sequence)), [15, 12, 12]);
        assert_eq!(model.decode(&[1, 0], &[1, 2], &mut cache).is_ok(), page_tokens > 0);
        assert!(model.decode(&[0, 0], &[1, 2], &mut cache).is_err());
        assert!(model.decode(&[3], &[1], &mut cache).is_err());
    }
}

#[test]
fn pages_are_given_back() {
    let model = folder("llama");
    let options =
        CacheOptions { sequences: 2, capacity: 32, page_tokens: 8, ..CacheOptions::default() };
    let mut cache = Cache::new(model.config(), options).unwrap();
    model.forward(&[1; 24], &mut cache).unwrap();
    assert_eq!((cache.room(0), cache.room(1)), (8, 8));
    assert!(model.forward(&[1; 9], &mut cache).is_err());
    assert!(model.decode(&[1], &[7], &mut cache).is_ok());
    assert!(model.forward(&[1], &mut cache).is_err());
    cache.truncate(0, 9).unwrap();
    assert_eq!((cache.room(0), cache.room(1)), (15, 15));
    assert!(cache.truncate(0, 10).is_err());
    assert!(model.forward(&[1; 15], &mut cache).is_ok());
}

#[test]
fn a_cache_that_is_cut_goes_on_as_before() {
    let (model, (tokens, _)) = (folder("gemma2"), expected("gemma2"));
    let mut cache = cache(&model, DType::Float32, 0);
    let first = model.forward(&tokens[..20], &mut cache).unwrap();
    cache.truncate(0, 13).unwrap();
    let again = model.forward(&tokens[13..20], &mut cache).unwrap();
    let apart = (first - &again).unwrap().abs().unwrap().max().unwrap();
    assert!(apart.to_element::<f32>().unwrap() < 1e-4);
}

#[test]
fn generation() {
    let opened = file("gemma3");
    let (model, tokenizer) =
        (LanguageModel::from_gguf(&opened).unwrap(), Tokenizer::from_gguf(&opened).unwrap());
    let run = |sampling| -> Vec<u32> {
        let made = Generation::of(&model, &tokenizer, "the fruit", sampling).unwrap();
        made.take(20).map(|piece| piece.unwrap().token).collect()
    };
    let greedy = run(Sampling::greedy());
    assert_eq!(greedy, run(Sampling::greedy()));
    assert_eq!(greedy, run(Sampling { top_k: 1, ..Sampling::default() }));
    let sampled = |seed| run(Sampling { temperature: 3.0, seed, ..Sampling::default() });
    assert_eq!(sampled(1), sampled(1));
    assert_ne!(sampled(1), sampled(2));
    // It ends where the cache is full.
    let tokens = tokenizer.encode("the", true);
    let options = CacheOptions { capacity: tokens.len() + 4, ..CacheOptions::default() };
    let cache = Cache::new(model.config(), options).unwrap();
    let made = Generation::behind(&model, &tokenizer, tokens, Sampling::greedy(), cache).unwrap();
    assert!(made.count() <= 5);
    assert!(Generation::of(&model, &tokenizer, &"x".repeat(5000), Sampling::greedy()).is_err());
}

#[test]
fn what_is_left_of_the_tokens() -> Result<()> {
    let logits = tensor![0., 2., 1., -1., 3.]?;
    let drawn = |sampling: Sampling, history: &[u32]| -> Result<Vec<u32>> {
        let mut sampler = Sampler::new(sampling);
        let mut all =
            (0..300).map(|_| sampler.pick(&logits, history)).collect::<Result<Vec<_>>>()?;
        all.sort_unstable();
        all.dedup();
        Ok(all)
    };
    let all = Sampling { temperature: 2.0, ..Sampling::default() };
    assert_eq!(drawn(all, &[])?, [0, 1, 2, 3, 4]);
    assert_eq!(drawn(Sampling { top_k: 3, ..all }, &[])?, [1, 2, 4]);
    assert_eq!(drawn(Sampling { top_p: 0.5, ..all }, &[])?, [1, 4]);
    assert_eq!(drawn(Sampling { top_p: 0.0, ..all }, &[])?, [4]);
    assert_eq!(drawn(Sampling { min_p: 0.3, ..all }, &[])?, [1, 2, 4]);
    let penalised = Sampling { repetition_penalty: 100.0, ..Sampling::greedy() };
    assert_eq!(drawn(penalised, &[4])?, [1]);
    assert_eq!(drawn(Sampling { repetition_window: 1, ..penalised }, &[4, 0])?, [4]);
    // Frequencies are those of the softmax.
    let mut sampler = Sampler::new(Sampling { seed: 5, ..Sampling::default() });
    let mut count = 0;
    for _ in 0..4000 {
        count += usize::from(sampler.pick(&logits, &[])? == 4);
    }
    assert!((count as f64 / 4000.0 - 0.636).abs() < 0.03, "{count}");
    Ok(())
}

#[test]
fn configurations_of_older_folders() {
    let path = std::env::temp_dir().join(format!("corten-lm-{}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    let read = |text: &str| {
        std::fs::write(path.join("config.json"), text).unwrap();
        Config::from_hugging_face(&path)
    };
    let sizes = r#""hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 7"#;
    let gemma = read(&format!(
        r#"{{"model_type": "gemma3", "text_config": {{"model_type": "gemma3_text", {sizes}, "sliding_window": 512,
        "rope_theta": 1e6, "rope_local_base_freq": 1e4, "query_pre_attn_scalar": 256, "num_key_value_heads": 1,
        "rope_scaling": {{"rope_type": "linear", "factor": 8.0}}}}}}"#
    ))
    .unwrap();
    assert_eq!((gemma.window_of(4), gemma.window_of(5), gemma.window_of(6)), (512, 0, 512));
    assert_eq!((gemma.rope.frequencies()[0], gemma.local_rope.theta), (0.125, 1e4));
    assert_eq!((gemma.attention_scale, gemma.head_width), (1.0 / 16.0, 16));
    let qwen = read(&format!(
        r#"{{"model_type": "qwen2", {sizes}, "sliding_window": 32, "use_sliding_window": false}}"#
    ))
    .unwrap();
    assert_eq!(qwen.window_of(6), 0);
    assert!(read(&format!(r#"{{"model_type": "bert", {sizes}}}"#)).is_err());
    assert!(read(r#"{"model_type": "llama"}"#).is_err());
    assert!(read("{").is_err());
    for wrong in ["0", "-4", "3", "1e30"] {
        let sizes = format!(r#""hidden_size": 64, "num_attention_heads": {wrong}"#);
        let text = format!(
            r#"{{"model_type": "llama", {sizes}, "num_key_value_heads": 2, "num_hidden_layers": 1}}"#
        );
        assert!(read(&text).is_err(), "{wrong}");
    }
    std::fs::remove_dir_all(path).ok();
}

#[test]
fn what_is_refused() {
    let model = folder("llama");
    let mut cache = cache(&model, DType::Float32, 0);
    assert!(model.forward(&[], &mut cache).is_err());
    assert!(model.forward(&[384], &mut cache).is_err());
    assert!(model.forward(&[1; 65], &mut cache).is_err());
    assert!(cache.is_empty());
    assert!(model.forward(&[1; 64], &mut cache).is_ok());
    assert!(model.forward(&[1], &mut cache).is_err());
    let options = CacheOptions { dtype: DType::Float64, ..CacheOptions::default() };
    assert!(Cache::new(model.config(), options).is_err());
    assert!(LanguageModel::from_gguf(&file("bpe")).is_err());
}
