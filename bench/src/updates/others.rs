//! The same edits in SQLite FTS5 and tantivy, as well as their interfaces allow: both replace whole rows.

use std::collections::HashMap;
use std::path::Path;

use ::tantivy::schema::{STORED, STRING, Schema, TextFieldIndexing, TextOptions};
use ::tantivy::{Index, IndexWriter, TantivyDocument, Term};
use rusqlite::Connection;

use super::{COMMITS, EDIT_BYTES, Edits, Figure, Unit, per_second};
use crate::Result;

/// Edits of places that are made: rows of up to 1 MiB are written again for each.
const SAMPLE: usize = 500;

fn figure(engine: &'static str, name: &'static str, value: f64) -> Figure {
    Figure {
        name,
        engine,
        unit: Unit::PerSecond,
        value,
    }
}

/// Rows of the database, and rows that grow.
pub fn fts5(edits: &Edits, directory: &Path) -> Result<Vec<Figure>> {
    let mut connection = Connection::open(directory.join("corpus.db"))?;
    connection.pragma_update(None, "journal_mode", "TRUNCATE")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    let rows: i64 = connection.query_row("SELECT max(rowid) FROM corpus", (), |row| row.get(0))?;
    let sample = &edits.inserts[..edits.inserts.len().min(SAMPLE)];
    let transaction = connection.transaction()?;
    let inserts = per_second(sample.len(), || {
        let mut read = transaction.prepare("SELECT content FROM corpus WHERE rowid = ?1")?;
        let mut write = transaction.prepare("UPDATE corpus SET content = ?2 WHERE rowid = ?1")?;
        for (number, insert) in sample.iter().enumerate() {
            let row = (insert.offset.wrapping_mul(31) + number as u64) as i64 % rows + 1;
            let text: Vec<u8> =
                read.query_row([row], |row| Ok(row.get_ref(0)?.as_bytes()?.to_vec()))?;
            let mut text = String::from_utf8_lossy(&text).into_owned();
            let mut at = insert.offset as usize % (text.len() + 1);
            while !text.is_char_boundary(at) {
                at -= 1;
            }
            text.insert_str(at, &String::from_utf8_lossy(&insert.text));
            write.execute((row, text))?;
        }
        Ok(())
    })?;
    transaction.commit()?;
    let transaction = connection.transaction()?;
    let add = "INSERT INTO corpus(file, number, content) VALUES ('new', ?1, ?2)";
    let appends = per_second(edits.inserts.len(), || {
        let mut write = transaction.prepare(add)?;
        for (number, insert) in (0i64..).zip(&edits.inserts) {
            write.execute((number, String::from_utf8_lossy(&insert.text)))?;
        }
        drop(write);
        Ok(transaction.commit()?)
    })?;
    let commits = per_second(COMMITS, || {
        for number in 0..COMMITS as i64 {
            connection.execute(add, (number, "x".repeat(EDIT_BYTES)))?;
        }
        Ok(())
    })?;
    Ok(vec![
        figure("fts5", "inserts in sequence", inserts),
        figure("fts5", "appends", appends),
        figure("fts5", "commits of one row", commits),
    ])
}

/// Documents of an index of the same kind, keyed so that one can be replaced.
pub fn tantivy(edits: &Edits, directory: &Path, threads: usize) -> Result<Vec<Figure>> {
    let reader = crate::engines::tantivy::Reader::open(directory)?;
    let documents = reader.documents()?;
    let mut schema = Schema::builder();
    let key = schema.add_text_field("key", STRING | STORED);
    let indexing = TextFieldIndexing::default()
        .set_index_option(::tantivy::schema::IndexRecordOption::WithFreqsAndPositions);
    let options = TextOptions::default()
        .set_indexing_options(indexing)
        .set_stored();
    let content = schema.add_text_field("content", options);
    let folder = directory.join("keyed");
    std::fs::create_dir(&folder)?;
    let index = Index::builder()
        .schema(schema.build())
        .create_in_dir(&folder)?;
    let mut writer: IndexWriter = index.writer_with_num_threads(threads, 512 << 20)?;
    let document = |name: &str, text: &str| {
        let mut document = TantivyDocument::default();
        document.add_text(key, name);
        document.add_text(content, text);
        document
    };
    let mut texts: HashMap<String, String> = HashMap::new();
    let names: Vec<String> = (documents.iter())
        .map(|(file, number)| format!("{file}#{number}"))
        .collect();
    for (number, name) in (0..).zip(&names) {
        let text = reader.text(number)?;
        writer.add_document(document(name, &text))?;
        texts.insert(name.clone(), text);
    }
    writer.commit()?;
    let sample = &edits.inserts[..edits.inserts.len().min(SAMPLE)];
    let inserts = per_second(sample.len(), || {
        for (number, insert) in sample.iter().enumerate() {
            let place = (insert.offset.wrapping_mul(31) + number as u64) as usize;
            let name = &names[place % names.len()];
            let text = texts.get_mut(name).ok_or("a document is gone")?;
            let mut at = insert.offset as usize % (text.len() + 1);
            while !text.is_char_boundary(at) {
                at -= 1;
            }
            text.insert_str(at, &String::from_utf8_lossy(&insert.text));
            writer.delete_term(Term::from_field_text(key, name));
            writer.add_document(document(name, text))?;
        }
        writer.commit()?;
        Ok(())
    })?;
    let appends = per_second(edits.inserts.len(), || {
        for insert in &edits.inserts {
            writer.add_document(document("new", &String::from_utf8_lossy(&insert.text)))?;
        }
        writer.commit()?;
        Ok(())
    })?;
    let few = COMMITS / 4;
    let commits = per_second(few, || {
        for _ in 0..few {
            writer.add_document(document("new", &"x".repeat(EDIT_BYTES)))?;
            writer.commit()?;
        }
        Ok(())
    })?;
    Ok(vec![
        figure("tantivy", "inserts in sequence", inserts),
        figure("tantivy", "appends", appends),
        figure("tantivy", "commits of one row", commits),
    ])
}
