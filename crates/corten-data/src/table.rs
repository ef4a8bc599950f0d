//! Tables in CSV files.

use crate::dataset::{Dataset, check_index};
use crate::iterable::{IterableDataset, Samples};
use crate::worker::worker_info;
use corten_core::{Element, Error, Result, err, try_push};
use corten_ops::Tensor;
use csv::{Reader, ReaderBuilder, StringRecord};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// How a CSV file is written.
///
/// ```
/// use corten::data::CsvOptions;
///
/// let tabs = CsvOptions { delimiter: b'\t', ..Default::default() };
/// assert!(tabs.header);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct CsvOptions {
    /// Whether the first line has the names of the columns; they are `0`, `1`, … otherwise.
    pub header: bool,
    /// What stands between fields.
    pub delimiter: u8,
}

impl Default for CsvOptions {
    fn default() -> Self {
        Self { header: true, delimiter: b',' }
    }
}

impl CsvOptions {
    fn reader<R: Read>(self, source: R) -> Reader<R> {
        ReaderBuilder::new().has_headers(self.header).delimiter(self.delimiter).from_reader(source)
    }
}

fn told(error: csv::Error) -> Error {
    err!(Value, "CSV: {error}")
}

/// The error with the file that it is about.
fn in_file(path: &Path, error: &Error) -> Error {
    Error::new(error.kind(), format!("{}: {}", path.display(), error.message()))
}

fn open(path: &Path) -> Result<File> {
    File::open(path).map_err(|error| err!(Runtime, "{}: {error}", path.display()))
}

fn fields(record: &StringRecord) -> Vec<String> {
    record.iter().map(str::to_owned).collect()
}

/// A table from a CSV file, in memory. As a data set its samples are the fields of rows.
///
/// ```
/// use corten::data::CsvTable;
/// use corten::prelude::*;
///
/// let text = "name,width,height\na,1.5,2\nb,3,4\n";
/// let table = CsvTable::from_reader(text.as_bytes(), Default::default())?;
/// assert_eq!(table.names(), ["name", "width", "height"]);
/// let sizes = table.tensor::<f32>(&["width", "height"])?;
/// assert_eq!(sizes.to_vec::<f32>()?, [1.5, 2.0, 3.0, 4.0]);
/// assert_eq!(table.column::<String>("name")?, ["a", "b"]);
/// let rows = TensorDataset::new(vec![sizes, table.tensor::<i64>(&["height"])?])?;
/// assert_eq!(rows.len(), 2);
/// # Ok::<(), corten::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct CsvTable {
    names: Vec<String>,
    rows: Vec<StringRecord>,
}

impl CsvTable {
    /// The table of a file.
    ///
    /// # Errors
    /// `Runtime` where the file cannot be read; `Value` where rows differ in length.
    pub fn read(path: impl AsRef<Path>, options: CsvOptions) -> Result<Self> {
        let path = path.as_ref();
        Self::from_reader(open(path)?, options).map_err(|error| in_file(path, &error))
    }

    /// The table of a stream.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn from_reader(source: impl Read, options: CsvOptions) -> Result<Self> {
        let mut reader = options.reader(source);
        let mut rows = Vec::new();
        let header = reader.headers().map_err(told)?.clone();
        for row in reader.records() {
            try_push(&mut rows, row.map_err(told)?)?;
        }
        let names = if options.header {
            fields(&header)
        } else {
            (0..header.len()).map(|place| place.to_string()).collect()
        };
        Ok(Self { names, rows })
    }

    /// The names of the columns.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The values of a column.
    ///
    /// # Errors
    /// `Index` for a name that no column has; `Value` for a field that cannot be read as `T`.
    pub fn column<T: FromStr>(&self, name: &str) -> Result<Vec<T>> {
        let place = self.place(name)?;
        let mut values = Vec::new();
        for number in 0..self.rows.len() {
            try_push(&mut values, self.value(number, place)?)?;
        }
        Ok(values)
    }

    /// Columns as a tensor of shape `[rows, columns]`.
    ///
    /// # Errors
    /// As [`column`](Self::column).
    pub fn tensor<T: Element + FromStr>(&self, names: &[&str]) -> Result<Tensor> {
        let places = names.iter().map(|name| self.place(name)).collect::<Result<Vec<_>>>()?;
        let mut values = Vec::new();
        for number in 0..self.rows.len() {
            for place in &places {
                try_push(&mut values, self.value::<T>(number, *place)?)?;
            }
        }
        Tensor::from_vec(values, &[self.rows.len() as i64, names.len() as i64])
    }

    fn place(&self, name: &str) -> Result<usize> {
        let found = self.names.iter().position(|other| other == name);
        found.ok_or_else(|| err!(Index, "there is no column {name:?} among {:?}", self.names))
    }

    fn value<T: FromStr>(&self, number: usize, place: usize) -> Result<T> {
        let text = self.rows[number].get(place).unwrap_or_default();
        // Spaces around a number mean nothing; text is as it stands.
        text.parse().or_else(|_| text.trim().parse()).map_err(|_| {
            let (name, kind) = (&self.names[place], std::any::type_name::<T>());
            err!(Value, "row {number}, column {name:?}: {text:?} cannot be read as {kind}")
        })
    }
}

impl Dataset for CsvTable {
    type Sample = Vec<String>;

    fn len(&self) -> usize {
        self.rows.len()
    }

    fn get(&self, index: usize) -> Result<Vec<String>> {
        check_index(index, self.rows.len())?;
        Ok(fields(&self.rows[index]))
    }
}

/// The rows of a CSV file, read one after another: for files larger than memory.
///
/// With workers, each takes every n-th row.
///
/// ```
/// use corten::data::{CsvRows, IterableDataset};
///
/// let path = std::env::temp_dir().join(format!("corten-doc-{}.csv", std::process::id()));
/// std::fs::write(&path, "x,y\n1,2\n3,4\n").unwrap();
/// let rows = CsvRows::new(&path, Default::default());
/// assert_eq!(rows.iter()?.collect::<corten::Result<Vec<_>>>()?, [["1", "2"], ["3", "4"]]);
/// # std::fs::remove_file(path).ok();
/// # Ok::<(), corten::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct CsvRows {
    path: PathBuf,
    options: CsvOptions,
}

impl CsvRows {
    /// The rows of a file, which is opened when a pass begins.
    pub fn new(path: impl Into<PathBuf>, options: CsvOptions) -> Self {
        Self { path: path.into(), options }
    }
}

impl IterableDataset for CsvRows {
    type Sample = Vec<String>;

    fn iter(&self) -> Result<Samples<Vec<String>>> {
        let rows = self.options.reader(open(&self.path)?).into_records();
        let (id, workers) = worker_info().map_or((0, 1), |info| (info.id(), info.num_workers()));
        let (rows, path) = (rows.skip(id).step_by(workers), self.path.clone());
        Ok(Box::new(rows.map(move |row| {
            row.map(|row| fields(&row)).map_err(|error| in_file(&path, &told(error)))
        })))
    }
}
