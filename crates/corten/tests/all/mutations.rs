//! Files that were changed at random: every reader gives a value or an error, whatever it is given.
//!
//! The changes follow from a seed. `CORTEN_FUZZ_EXECUTIONS` sets how many files each reader is given, and
//! `CORTEN_FUZZ_SEED` which; `fuzz/` has the same readers for a fuzzer that sees which branches are taken.
#![allow(clippy::unwrap_used, clippy::panic)] // tests may

#[path = "mutations/mutate.rs"]
mod mutate;
#[path = "mutations/zips.rs"]
mod zips;

use corten::io::pickle::{self, Arena, Host, Node, NodeId};
use corten::io::torch::{LoadOptions, UnknownClasses, load_bytes};
use corten::io::{Value, gguf, npy, safetensors, tensorboard};
use corten::prelude::*;
use mutate::Random;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const GOLDENS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/goldens");

/// The most memory that a reader may bring the process to.
const MOST_MEMORY_KIB: u64 = 1 << 20;

#[allow(clippy::disallowed_methods, reason = "a test's own settings")]
fn setting(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

fn golden(name: &str) -> Vec<u8> {
    std::fs::read(format!("{GOLDENS}/{name}")).unwrap()
}

/// Gives a reader changed files, and looks at what it gives.
fn fuzz(
    name: &str,
    corpus: &[Vec<u8>],
    change: impl Fn(&mut Random, &[Vec<u8>]) -> Vec<u8>,
    read: impl Fn(&[u8]) -> Result<Vec<Tensor>>,
) {
    let executions = setting("CORTEN_FUZZ_EXECUTIONS", 400);
    let mut random = Random::new(setting("CORTEN_FUZZ_SEED", 1));
    let (mut accepted, mut slowest) = (0, Duration::ZERO);
    for _ in 0..executions {
        let bytes = change(&mut random, corpus);
        // Where the process ends, the file that ended it is here.
        let kept = scratch(&format!("{name}.last"));
        if executions > 100_000 {
            std::fs::write(&kept, &bytes).unwrap();
        }
        let start = Instant::now();
        match read(&bytes) {
            Ok(tensors) => {
                accepted += 1;
                tensors.iter().for_each(look_at);
            }
            Err(error) => {
                assert_ne!(error.kind(), corten::ErrorKind::Internal, "{error}");
                assert!(error.message().len() < 4096, "{error}");
            }
        }
        slowest = slowest.max(start.elapsed());
    }
    let memory = most_memory_kib();
    eprintln!("{name}: {executions} files, {accepted} read, slowest {slowest:?}, {memory} KiB");
    assert!(accepted > 0 && accepted < executions, "{name}: {accepted} of {executions} are files");
    assert!(memory < MOST_MEMORY_KIB, "{name}: {memory} KiB");
}

/// Reads the elements of a tensor that is small.
fn look_at(tensor: &Tensor) {
    if tensor.device().is_cpu() && tensor.numel() < 1 << 16 {
        let _ = tensor.to_vec::<f64>().map_err(|error| {
            assert_ne!(error.kind(), corten::ErrorKind::Internal, "{error}");
        });
    }
}

/// The most memory that the process has had.
fn most_memory_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok()).unwrap_or(0)
}

fn scratch(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("corten-mutations-{}-{name}", std::process::id()))
}

fn torch_archives() -> Vec<Vec<u8>> {
    [
        "saved_by_torch.pt",
        "kinds_saved_by_torch.pt",
        "saved_by_rust.pt",
        "quantised_saved_by_torch.pt",
    ]
    .map(golden)
    .to_vec()
}

fn read_torch(bytes: &[u8]) -> Result<Vec<Tensor>> {
    let unknown = match bytes.len() % 2 {
        0 => UnknownClasses::Refuse,
        _ => UnknownClasses::Keep,
    };
    let value = load_bytes(bytes, LoadOptions { unknown, ..Default::default() })?;
    Ok(value.tensors().into_iter().map(|(_, tensor)| tensor).collect())
}

#[test]
fn archives_of_pytorch() {
    let corpus = torch_archives();
    fuzz("archives", &corpus, mutate::bytes, read_torch);
}

#[test]
fn pickles_of_archives() {
    // The records are what they were, the pickle among them is changed and has a checksum again.
    let corpus: Vec<Vec<u8>> = torch_archives();
    let records: Vec<zips::Records> = corpus.iter().map(|bytes| zips::stored(bytes)).collect();
    let change = |random: &mut Random, _: &[Vec<u8>]| {
        let pickles: Vec<Vec<u8>> = records.iter().map(|one| zips::pickle(one).to_vec()).collect();
        let mut changed = records[random.below(records.len())].clone();
        *zips::pickle_mut(&mut changed) = mutate::pickle(random, &pickles);
        zips::write(&changed)
    };
    fuzz("pickles in archives", &corpus, change, read_torch);
}

#[test]
fn streams_of_pytorch() {
    let corpus = ["saved_by_torch_legacy.pt", "kinds_saved_by_torch_legacy.pt"].map(golden);
    let change = |random: &mut Random, corpus: &[Vec<u8>]| match random.below(2) {
        0 => mutate::bytes(random, corpus),
        _ => mutate::pickle(random, corpus),
    };
    fuzz("streams", &corpus, change, read_torch);
}

/// A host that allows everything and has no tensors.
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

#[test]
fn pickles() {
    let archives = torch_archives();
    let corpus: Vec<Vec<u8>> =
        archives.iter().map(|bytes| zips::pickle(&zips::stored(bytes)).to_vec()).collect();
    fuzz("pickles", &corpus, mutate::pickle, |bytes| {
        let mut host = Anything;
        let (arena, root, _) = pickle::read(bytes, 0, &mut host)?;
        arena.value(root, &mut (1 << 20))?;
        Ok(Vec::new())
    });
}

#[test]
fn arrays() -> Result<()> {
    let table = op::reshape(&Tensor::arange(0, 6)?, &[2, 3])?;
    let tensors = [
        table.clone(),
        tensor![1.5, 2.5; DType::Complex64]?,
        tensor![true, false]?,
        Tensor::zeros([0, 3])?,
    ];
    let corpus: Vec<Vec<u8>> = tensors.iter().map(npy::write).collect::<Result<_>>()?;
    fuzz("npy", &corpus, mutate::bytes, |bytes| Ok(vec![npy::read(bytes)?]));
    let path = scratch("arrays.npz");
    let mut archives = Vec::new();
    for is_compressed in [false, true] {
        npy::save_npz(&path, [("a", &tensors[0]), ("b", &tensors[1])], is_compressed)?;
        archives.push(std::fs::read(&path).unwrap());
    }
    std::fs::remove_file(&path).unwrap();
    fuzz("npz", &archives, mutate::bytes, |bytes| {
        Ok(npy::read_npz(bytes)?.into_iter().map(|(_, tensor)| tensor).collect())
    });
    Ok(())
}

#[test]
fn models() -> Result<()> {
    let tensors = [
        ("a".to_owned(), tensor![[1.0, 2.0], [3.0, 4.0]]?),
        ("b".to_owned(), tensor![1.0; DType::BFloat16]?),
        ("c".to_owned(), tensor![1u8, 2, 3]?.to(DType::Int8)?),
    ];
    let text = |text: &str| Value::Text(text.to_owned());
    let metadata = [
        ("general.architecture".to_owned(), text("llama")),
        ("general.alignment".to_owned(), Value::Int(32)),
        ("list".to_owned(), Value::List(vec![Value::Int(1), Value::Int(-5)])),
        ("tokens".to_owned(), Value::List(vec![text("a"), text("b")])),
    ];
    let path = scratch("model");
    gguf::save(&path, &metadata, &tensors)?;
    let gguf_corpus = [std::fs::read(&path).unwrap()];
    safetensors::save(&path, tensors.iter().map(|(name, tensor)| (name.clone(), tensor)), None)?;
    let truths = [("truths".to_owned(), tensor![true, false]?)];
    let mut corpus = vec![std::fs::read(&path).unwrap()];
    safetensors::save(&path, truths.iter().map(|(name, tensor)| (name.clone(), tensor)), None)?;
    corpus.push(std::fs::read(&path).unwrap());
    fuzz("gguf", &gguf_corpus, mutate::bytes, |bytes| {
        // A file of its own each time: what was mapped must not change.
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, bytes).unwrap();
        let file = gguf::Opened::new(&path)?;
        file.tensors().iter().map(|info| file.tensor(&info.name)).collect()
    });
    fuzz("safetensors", &corpus, mutate::bytes, |bytes| {
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, bytes).unwrap();
        Ok(safetensors::load(&path)?.into_iter().map(|(_, tensor)| tensor).collect())
    });
    std::fs::remove_file(&path).unwrap();
    Ok(())
}

/// A record of an event file: length and bytes, each with its masked CRC-32C.
fn record(data: &[u8]) -> Vec<u8> {
    let step = |crc: u32, _| (crc >> 1) ^ (0x82F6_3B78 & (crc & 1).wrapping_neg());
    let checksum = |bytes: &[u8]| {
        let crc = !bytes.iter().fold(!0, |crc, &byte| (0..8).fold(crc ^ u32::from(byte), step));
        crc.rotate_right(15).wrapping_add(0xA282_EAD8).to_le_bytes()
    };
    let length = (data.len() as u64).to_le_bytes();
    [&length, &checksum(&length)[..], data, &checksum(data)[..]].concat()
}

#[test]
fn events() -> Result<()> {
    let folder = scratch("events");
    let mut writer = tensorboard::SummaryWriter::new(&folder)?;
    writer.add_scalar("loss", 0.5, 1)?;
    writer.add_histogram("values", &tensor![1.0, 1.0, 3.0]?, -2)?;
    writer.add_text("notes", "hello", 3)?;
    writer.add_image("picture", &Tensor::zeros([1, 2, 2])?, 4)?;
    let path = writer.path().to_path_buf();
    drop(writer);
    let file = std::fs::read(&path).unwrap();
    std::fs::remove_dir_all(folder).unwrap();
    // The bytes of each record.
    let (mut corpus, mut rest) = (Vec::new(), &file[..]);
    while let Some(head) = rest.first_chunk::<8>() {
        let end = 12 + u64::from_le_bytes(*head) as usize;
        corpus.push(rest[12..end].to_vec());
        rest = &rest[end + 4..];
    }
    assert_eq!(file, corpus.iter().flat_map(|data| record(data)).collect::<Vec<u8>>());
    let change = |random: &mut Random, corpus: &[Vec<u8>]| match random.below(8) {
        0 => mutate::bytes(random, std::slice::from_ref(&file)),
        _ => record(&mutate::bytes(random, corpus)),
    };
    fuzz("events", &corpus, change, |bytes| {
        tensorboard::parse_events(bytes)?;
        Ok(Vec::new())
    });
    Ok(())
}

fn refused(bytes: &[u8]) -> String {
    let options = LoadOptions { unknown: UnknownClasses::Keep, ..Default::default() };
    load_bytes(bytes, options).unwrap_err().message().to_owned()
}

/// An archive with a pickle, and records beside it.
fn archive(pickle: &[u8], others: &[(&str, &[u8])]) -> Vec<u8> {
    let mut records = vec![("archive/data.pkl".to_owned(), pickle.to_vec())];
    records.extend(others.iter().map(|(name, bytes)| (format!("archive/{name}"), bytes.to_vec())));
    zips::write(&records)
}

#[test]
fn small_files_do_not_grow() {
    // A long text, and a function that copies it, called until the end: 250,000 copies of 400 KB.
    let text = vec![b'x'; 400_000];
    let mut pickle = b"\x80\x02X".to_vec();
    pickle.extend((text.len() as u32).to_le_bytes());
    pickle.extend(&text);
    pickle.extend(b"\x85q\x00c_codecs\nencode\nq\x01");
    (0..250_000).for_each(|_| pickle.extend(b"h\x01h\x00R"));
    pickle.push(b'.');
    assert!(refused(&archive(&pickle, &[])).contains("more than its size allows"));
    // The same with a list of pairs, and with a tuple as arguments of an unknown class.
    for function in ["collections\nOrderedDict", "unknown\nClass"] {
        let mut pickle = b"\x80\x02((".to_vec();
        (0..50_000).for_each(|_| pickle.extend(b"NN\x86"));
        pickle.extend([b"t\x85q\x00c", function.as_bytes(), b"\nq\x01"].concat());
        (0..100_000).for_each(|_| pickle.extend(b"h\x01h\x00R"));
        pickle.extend(b"t.");
        assert!(refused(&archive(&pickle, &[])).contains("more than its size allows"));
    }
    // A list of ten lists of ten lists, thirty deep.
    let mut pickle = b"\x80\x02]q\x00".to_vec();
    for level in 0..30 {
        pickle.extend(b"](");
        (0..10).for_each(|_| pickle.extend([b'h', level]));
        pickle.extend([b'e', b'q', level + 1]);
    }
    pickle.push(b'.');
    assert!(refused(&archive(&pickle, &[])).contains("more values than its size allows"));
    // One element, expanded to 2^40, for a device.
    let expanded = b"\x80\x02ctorch._utils\n_rebuild_device_tensor_from_cpu_tensor\n(\
        ctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\nFloatStorage\n\
        X\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x01tQK\x00\x8a\x06\x00\x00\x00\x00\x00\x01\x85K\x00\x85\
        \x89NtRctorch\nfloat64\nX\x03\x00\x00\x00cpu\x89tR.";
    let message = refused(&archive(expanded, &[("data/0", &[0; 4])]));
    assert!(message.contains("more elements than its storage"), "{message}");
    assert!(most_memory_kib() < MOST_MEMORY_KIB);
}

#[test]
fn records_have_names_and_places_of_their_own() {
    let pickle: &[u8] = b"\x80\x02N.";
    let good = archive(pickle, &[("a", b"1234"), ("b", b"1234")]);
    assert!(matches!(load_bytes(&good, LoadOptions::default()), Ok(Value::None)));
    let mut damaged = good.clone();
    let at = good.windows(pickle.len()).position(|bytes| bytes == pickle).unwrap();
    damaged[at + 2] = 0x88;
    assert!(refused(&damaged).contains("checksum"), "{}", refused(&damaged));
    let twice = archive(pickle, &[("a", b"1234"), ("a", b"5678")]);
    assert!(refused(&twice).contains("two records of one name"));
    let shared = zips::with_shared_place(&good);
    assert!(refused(&shared).contains("has another name"), "{}", refused(&shared));
}
