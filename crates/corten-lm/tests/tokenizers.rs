//! Tokens beside those of tokenizers and sentencepiece.
#![allow(clippy::unwrap_used, clippy::panic)] // tests may

use corten::io::gguf;
use corten_lm::{TextStream, Tokenizer};
use serde_json::Value;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/goldens/language_models");

fn expected(name: &str) -> Vec<(String, Vec<u32>)> {
    let text = std::fs::read_to_string(format!("{FOLDER}/tokens.json")).unwrap();
    let all: Value = serde_json::from_str(&text).unwrap();
    let ids = |ids: &Value| -> Vec<u32> {
        ids.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
    };
    let pairs = all[name].as_array().unwrap().iter();
    pairs.map(|pair| (pair[0].as_str().unwrap().to_owned(), ids(&pair[1]))).collect()
}

fn of_file(name: &str) -> Tokenizer {
    let file = gguf::Opened::new(format!("{FOLDER}/{name}.gguf")).unwrap();
    Tokenizer::from_gguf(&file).unwrap()
}

fn of_folder(name: &str) -> Tokenizer {
    Tokenizer::from_hugging_face(format!("{FOLDER}/{name}")).unwrap()
}

fn check(name: &str, tokenizer: &Tokenizer, goldens: &str) {
    let mut compared = 0;
    for (text, tokens) in expected(goldens) {
        assert_eq!(tokenizer.encode(&text, false), tokens, "{name}: {text:?}");
        assert_eq!(tokenizer.decode(&tokens), text, "{name}");
        compared += 1;
    }
    assert_eq!(compared, 12);
}

#[test]
fn folders_of_hugging_face() {
    for name in ["llama", "qwen2", "qwen3", "gemma2", "gemma3"] {
        check(name, &of_folder(name), name);
    }
}

#[test]
fn byte_level_in_gguf() {
    check("gguf", &of_file("llama"), "llama");
}

#[test]
fn sentence_piece() {
    check("bpe", &of_file("bpe"), "bpe");
    check("unigram", &of_file("unigram"), "unigram");
}

#[test]
fn tokens_around_texts() {
    let tokenizer = of_file("gemma3");
    let begin = tokenizer.begin().unwrap();
    let tokens = tokenizer.encode("the", true);
    assert_eq!(tokens[0], begin);
    assert_eq!(tokens[1..], tokenizer.encode("the", false));
    assert_eq!(tokenizer.decode(&tokens), "the");
    let end = tokenizer.end().unwrap();
    assert!(tokenizer.ends_text(end) && !tokenizer.ends_text(begin));
}

#[test]
fn tokens_that_stand_for_themselves() {
    let tokenizer = of_file("bpe");
    let turn = tokenizer.token("<turn>").unwrap();
    let tokens = tokenizer.encode("man<turn>man<turn>", false);
    let man = tokenizer.encode("man", false);
    assert_eq!(tokens, [&man[..], &[turn], &man[..], &[turn]].concat());
    let folder = of_folder("gemma3");
    let start = folder.token("<start_of_turn>").unwrap();
    assert_eq!(folder.encode("<start_of_turn>", false), [start]);
    assert_eq!(folder.decode(&[start]), "");
}

#[test]
fn characters_come_when_they_are_complete() {
    for tokenizer in [of_file("bpe"), of_folder("llama"), of_folder("gemma3")] {
        let mut stream = TextStream::new(&tokenizer);
        let text = "naïve 日本語 😀!";
        let pieces: Vec<String> =
            tokenizer.encode(text, false).into_iter().map(|token| stream.push(token)).collect();
        assert_eq!(pieces.concat().trim_start(), text);
        assert!(pieces.iter().any(String::is_empty));
    }
    let tokenizer = of_file("bpe");
    let mut stream = TextStream::new(&tokenizer);
    let wrong = tokenizer.token("<0xFF>").unwrap();
    assert_eq!(stream.push(wrong), "�");
    assert_eq!(stream.push(u32::MAX), "");
    assert_eq!(tokenizer.decode(&[wrong, u32::MAX]), "�");
}

#[test]
fn long_texts() {
    // Merging takes the logarithm of the length for each character, not the length.
    let text = "the fruit of that forbidden tree ".repeat(4000);
    for tokenizer in [of_file("bpe"), of_folder("llama"), of_file("unigram")] {
        assert_eq!(tokenizer.decode(&tokenizer.encode(&text, false)), text);
    }
}
