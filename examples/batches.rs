//! Rows as columns: batches whose words are numbers with one dictionary, in the layout of Apache Arrow.
//!
//! `cargo run --example batches`. Reading numbers costs a small part of what a `String` for each row costs.

mod output;

use std::error::Error;
use std::io::Write;

use zipfdb::batch::BatchColumn;
use zipfdb::ingest::CopyOptions;
use zipfdb::{CorpusSettings, Database};

const SPEECHES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/cli/sample/speeches");

/// An array of Arrow, as far as this example needs it: all values of a column in one allocation.
#[derive(Debug)]
enum Array {
    Int64(Vec<i64>),
    Float64(Vec<f64>),
    /// Bytes of all texts, and where each begins; one more offset than texts.
    Utf8 {
        offsets: Vec<u32>,
        bytes: Vec<u8>,
    },
    /// Numbers of texts of a dictionary that all batches of an answer share.
    Dictionary {
        indices: Vec<u32>,
        texts: usize,
    },
}

fn array(column: &BatchColumn, rows: usize) -> Array {
    match column {
        BatchColumn::Integers(integers) => Array::Int64(integers.clone()),
        BatchColumn::Reals(reals) => Array::Float64(reals.clone()),
        BatchColumn::Words {
            indices,
            dictionary,
        } => Array::Dictionary {
            indices: indices.clone(),
            texts: dictionary.len(),
        },
        // N-grams, texts that were computed, and columns of several types: value by value.
        other => {
            let (mut offsets, mut bytes) = (vec![0], Vec::new());
            for row in 0..rows {
                other.write_text(row, &mut bytes);
                offsets.push(bytes.len() as u32);
            }
            Array::Utf8 { offsets, bytes }
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    output::run(read)
}

fn read(out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let db = Database::in_memory()?;
    let corpus = db.create_corpus("speeches", CorpusSettings::default())?;
    corpus.copy_from(SPEECHES, &CopyOptions::default())?;

    let sql = "SELECT word, file, offset, length * 0.5 AS half, upper(word) AS loud FROM speeches";
    let mut rows = db.query(sql, ())?;
    for column in rows.columns() {
        writeln!(out, "{}: {:?}", column.name(), column.kind())?;
    }
    let mut total = 0;
    // Some thousand rows at a time: each column is one array.
    while let Some(batch) = rows.next_batch(4096)? {
        let columns = batch.columns().iter();
        let arrays: Vec<Array> = columns.map(|column| array(column, batch.len())).collect();
        if total == 0 {
            for array in &arrays {
                writeln!(out, "    {}", shown(array))?;
            }
        }
        total += batch.len();
    }
    writeln!(out, "{total} rows")?;
    Ok(())
}

fn shown(array: &Array) -> String {
    match array {
        Array::Int64(values) => format!("{} integers", values.len()),
        Array::Float64(values) => format!("{} floating point numbers", values.len()),
        Array::Utf8 { offsets, bytes } => {
            format!("{} texts in {} bytes", offsets.len() - 1, bytes.len())
        }
        Array::Dictionary { indices, texts } => {
            format!("{} numbers of a dictionary of {texts} texts", indices.len())
        }
    }
}
