//! Data sets from files: image folders, CSV tables, mapped tokens; pinned batches and progress.
#![allow(clippy::unwrap_used)] // tests may

use corten::Generator;
use corten::data::*;
use corten::prelude::*;
use std::path::PathBuf;

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/goldens/data_loader.txt");

/// A folder that is removed at the end of the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("corten-data-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn tokens_are_mapped() {
    let folder = Folder::new("tokens");
    let bytes: Vec<u8> = (0..100u16).flat_map(u16::to_le_bytes).collect();
    let path = folder.write("train.bin", &bytes);
    let tokens = TokenFile::open(&path, DType::UInt16).unwrap();
    assert_eq!((tokens.len(), tokens.tensor().dtype()), (100, DType::UInt16));
    let (x, y) = tokens.random_batch(5, 8, Some(&Generator::cpu(2))).unwrap();
    let text = std::fs::read_to_string(GOLDEN).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("token_starts|")).unwrap();
    let starts: Vec<i64> = line.split(' ').map(|number| number.parse().unwrap()).collect();
    let (x, y) = (x.to_vec::<i64>().unwrap(), y.to_vec::<i64>().unwrap());
    for (row, start) in starts.into_iter().enumerate() {
        assert_eq!(x[row * 8..][..8], (start..start + 8).collect::<Vec<_>>());
        assert_eq!(y[row * 8..][..8], (start + 1..start + 9).collect::<Vec<_>>());
    }
    let blocks = tokens.blocks(33).unwrap();
    assert_eq!(blocks.len(), 3);
    let (x, y) = blocks.get(2).unwrap();
    assert_eq!(x.to_vec::<i64>().unwrap(), (66..99).collect::<Vec<_>>());
    assert_eq!(y.to_vec::<i64>().unwrap(), (67..100).collect::<Vec<_>>());
    let wide: Vec<u8> = [70_000u32, 4_000_000_000].into_iter().flat_map(u32::to_le_bytes).collect();
    let wide = TokenFile::open(folder.write("wide.bin", &wide), DType::UInt32).unwrap();
    let (x, y) = wide.random_batch(1, 1, None).unwrap();
    assert_eq!(
        (x.to_vec::<i64>().unwrap(), y.to_vec::<i64>().unwrap()),
        (vec![70_000], vec![4_000_000_000])
    );
}

#[test]
fn token_files_that_cannot_be_are_refused() {
    let folder = Folder::new("refused");
    let empty = TokenFile::open(folder.write("empty.bin", &[]), DType::UInt16).unwrap();
    assert!(empty.is_empty());
    assert_eq!(empty.blocks(4).unwrap().len(), 0);
    assert!(empty.random_batch(1, 4, None).is_err());
    let odd = folder.write("odd.bin", &[1, 2, 3]);
    assert!(TokenFile::open(&odd, DType::UInt16).is_err());
    assert!(TokenFile::open(&odd, DType::Float16).is_err());
    assert!(TokenFile::open(folder.0.join("missing.bin"), DType::UInt16).is_err());
    let tokens = TokenFile::from_tensor(tensor![1, 2, 3].unwrap()).unwrap();
    assert!(tokens.random_batch(1, 3, None).is_err());
    assert!(tokens.random_batch(1, 2, None).is_ok());
    assert!(tokens.blocks(0).is_err());
}

#[test]
fn image_folders_follow_the_names() {
    let folder = Folder::new("images");
    let pixels = |level: u8| Tensor::from_vec(vec![level; 12], &[3, 2, 2]).unwrap();
    let png = |level| op::encode_png(&pixels(level), 6).unwrap().to_vec::<u8>().unwrap();
    let jpeg = |level| op::encode_jpeg(&pixels(level), 95).unwrap().to_vec::<u8>().unwrap();
    folder.write("dogs/b.PNG", &png(20));
    folder.write("dogs/a.jpg", &jpeg(40));
    folder.write("dogs/notes.txt", b"no image");
    folder.write("cats/more/1.png", &png(60));
    folder.write("cats/2.png", &png(80));
    let images = ImageFolder::open(&folder.0).unwrap();
    assert_eq!(images.classes(), ["cats", "dogs"]);
    let found: Vec<(i64, i64)> = (0..images.len())
        .map(|index| {
            let (image, class) = images.get(index).unwrap();
            assert_eq!(image.sizes().as_slice(), [3, 2, 2]);
            (image.to_vec::<i64>().unwrap()[0], class)
        })
        .collect();
    assert_eq!(found, [(80, 0), (60, 0), (40, 1), (20, 1)]);
    let gray = images.clone().mode(ImageMode::Gray).get(0).unwrap().0;
    assert_eq!(gray.sizes().as_slice(), [1, 2, 2]);
    let scaled = MapDataset::new(images, |(image, class)| Ok(((&image / 255.0)?, class)));
    let (batch, classes) =
        DataLoader::new(scaled, 4).workers(1).iter().unwrap().next().unwrap().unwrap();
    assert_eq!(batch.sizes().as_slice(), [4, 3, 2, 2]);
    assert_eq!(classes.to_vec::<i64>().unwrap(), [0, 0, 1, 1]);
    folder.write("birds/empty.txt", b"");
    let message = ImageFolder::open(&folder.0).unwrap_err().message().to_owned();
    assert!(message.starts_with("Found no valid file for the classes birds."), "{message}");
    let message = ImageFolder::open(folder.0.join("birds")).unwrap_err().message().to_owned();
    assert!(message.starts_with("Couldn't find any class folder in"), "{message}");
    assert!(read_image(folder.write("broken.png", b"nothing"), ImageMode::Rgb).is_err());
}

#[test]
fn tables_are_read() {
    let text = "id,label,\"a, b\"\n1,x,0.5\n2,\"y \"\"z\"\"\", 1.5\n";
    let table = CsvTable::from_reader(text.as_bytes(), CsvOptions::default()).unwrap();
    assert_eq!(table.names(), ["id", "label", "a, b"]);
    assert_eq!(table.column::<String>("label").unwrap(), ["x", "y \"z\""]);
    let both = table.tensor::<f64>(&["a, b", "id"]).unwrap();
    assert_eq!(both.to_vec::<f64>().unwrap(), [0.5, 1.0, 1.5, 2.0]);
    let message = table.tensor::<f32>(&["label"]).unwrap_err().message().to_owned();
    assert_eq!(message, "row 0, column \"label\": \"x\" cannot be read as f32");
    assert!(table.column::<i64>("none").is_err());
    let uneven = CsvTable::from_reader("a,b\n1\n".as_bytes(), CsvOptions::default());
    assert!(uneven.is_err());
    let bare = CsvOptions { header: false, delimiter: b';' };
    let table = CsvTable::from_reader("1;2\n3;4\n".as_bytes(), bare).unwrap();
    assert_eq!((table.names(), table.len()), (&["0".to_owned(), "1".to_owned()][..], 2));
    let empty = CsvTable::from_reader("a,b\n".as_bytes(), CsvOptions::default()).unwrap();
    assert_eq!(empty.tensor::<f32>(&["a", "b"]).unwrap().sizes().as_slice(), [0, 2]);
}

#[test]
fn rows_are_shared_out_to_workers() {
    let folder = Folder::new("rows");
    let text: String = (0..7).map(|row| format!("{row}\n")).collect();
    let path = folder.write("rows.csv", format!("n\n{text}").as_bytes());
    for workers in [0, 3] {
        let rows = CsvRows::new(&path, CsvOptions::default());
        let loader = DataLoader::iterable_unbatched(rows).workers(workers);
        let mut found: Vec<String> = loader.iter().unwrap().flat_map(Result::unwrap).collect();
        found.sort();
        assert_eq!(found, ["0", "1", "2", "3", "4", "5", "6"], "{workers} workers");
    }
}

#[test]
fn batches_are_pinned_where_there_is_a_device() {
    let rows = TensorDataset::new(vec![tensor![1.0, 2.0].unwrap()]).unwrap();
    let batch = DataLoader::new(rows, 2).pin_memory(true).iter().unwrap().next().unwrap().unwrap();
    assert_eq!(batch[0].to_vec::<f32>().unwrap(), [1.0, 2.0]);
}

#[test]
fn progress_is_told() {
    let mut out = Vec::new();
    let items: Vec<u8> = Progress::new(0..3u8, &mut out).collect();
    assert_eq!(items, [0, 1, 2]);
    let text = String::from_utf8(out).unwrap();
    assert!(text.starts_with("\r  0%|          | 0/3 [00:00<"), "{text:?}");
    assert!(text.contains("\r100%|██████████| 3/3 [00:00<00:00, "), "{text:?}");
    assert!(text.ends_with("it/s]\n"), "{text:?}");
    let mut out = Vec::new();
    assert_eq!(
        Progress::new(std::iter::repeat(1).take_while(|_| true), &mut out).take(2).count(),
        2
    );
    assert!(String::from_utf8(out).unwrap().contains("0it [00:00, ?it/s]"));
}
