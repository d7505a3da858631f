//! tantivy and SQLite FTS5 on the words that ZipfDB has, a file a document, with positions and lengths.
//!
//! Neither stores the text in what is asked; what tantivy's store of the text takes is in its parts.

use std::fs;

use rusqlite::Connection;
use tantivy::collector::{Count, TopDocs};
use tantivy::query::{BooleanQuery, Occur, PhraseQuery, TermQuery};
use tantivy::schema::{
    Field, IndexRecordOption, STORED, Schema, TextFieldIndexing, TextOptions, Value,
};
use tantivy::store::{Compressor, ZstdCompressor};
use tantivy::tokenizer::{PreTokenizedString, Token};
use tantivy::{DocAddress, Index, IndexSettings, IndexWriter, Searcher, TantivyDocument, Term};

use super::Job;
use super::files::{KINDS, TOP, names};
use super::query::{self, Clause, Query, Role};
use super::timed::Outcome;
use crate::Result;
use crate::corpus::Corpus;
use crate::engines::{directory_size, files_below};

/// Memory of tantivy's writer.
const HEAP_SIZE: usize = 512 << 20;

/// Size of SQLite's page cache; a negative number counts KiB.
const CACHE_KIBIBYTES: i64 = -262_144;

/// Bytes of the database that SQLite maps into memory.
const MAPPED_BYTES: i64 = 1 << 30;

/// Fills an index of tantivy and asks it.
pub fn tantivy(job: &Job) -> Result<Outcome> {
    let corpus = Corpus::open(&job.corpus)?;
    let queries = query::read(job.question()?.as_ref())?;
    let index = filled(job, &corpus)?;
    let searcher = index.reader()?.searcher();
    if searcher.segment_readers().len() != 1 {
        return Err("the index has not one segment".into());
    }
    let content = index.schema().get_field("content")?;
    let documents = documents(&searcher, index.schema().get_field("file")?)?;
    let mut asked = job.ask(&names(&queries, KINDS[0]), |index| {
        let query = tantivy_query(&queries[index], content);
        Ok((searcher.search(&*query, &Count)? as u64, Vec::new()))
    })?;
    asked.extend(job.ask(&names(&queries, KINDS[1]), |index| {
        let query = tantivy_query(&queries[index], content);
        let top = TopDocs::with_limit(TOP).order_by_score();
        let found = searcher.search(&*query, &top)?;
        let found = found.into_iter();
        let found = found.map(|(_, address)| documents[address.doc_id as usize].clone());
        let found: Vec<String> = found.collect();
        Ok((found.len() as u64, found))
    })?);
    Ok(Outcome {
        asked,
        parts: parts(job)?,
    })
}

fn filled(job: &Job, corpus: &Corpus) -> Result<Index> {
    let mut schema = Schema::builder();
    let file = schema.add_text_field("file", STORED);
    let text = schema.add_bytes_field("text", STORED);
    let indexing = TextFieldIndexing::default()
        .set_index_option(IndexRecordOption::WithFreqsAndPositions)
        .set_fieldnorms(true);
    let options = TextOptions::default().set_indexing_options(indexing);
    let content = schema.add_text_field("content", options);
    let settings = IndexSettings {
        docstore_compression: Compressor::Zstd(ZstdCompressor::default()),
        ..Default::default()
    };
    let builder = Index::builder().schema(schema.build()).settings(settings);
    let index = builder.create_in_dir(&job.directory)?;
    let mut writer: IndexWriter = index.writer_with_num_threads(job.threads, HEAP_SIZE)?;
    for source in &corpus.files {
        let bytes = fs::read(&source.path)?;
        let words = query::words(&bytes).into_iter().enumerate();
        let tokens = words.map(|(position, text)| Token {
            position,
            text,
            ..Token::default()
        });
        let tokens = tokens.collect();
        let mut document = TantivyDocument::default();
        document.add_text(file, &source.name);
        document.add_bytes(text, &bytes);
        let words = PreTokenizedString {
            text: String::new(),
            tokens,
        };
        document.add_pre_tokenized_text(content, words);
        writer.add_document(document)?;
    }
    writer.commit()?;
    writer.wait_merging_threads()?;
    let mut writer: IndexWriter = index.writer_with_num_threads(1, HEAP_SIZE)?;
    let segments = index.searchable_segment_ids()?;
    if segments.len() > 1 {
        writer.merge(&segments).wait()?;
    }
    writer.garbage_collect_files().wait()?;
    writer.wait_merging_threads()?;
    Ok(index)
}

fn tantivy_query(query: &Query, content: Field) -> Box<dyn tantivy::query::Query> {
    let clause = |clause: &Clause| -> Box<dyn tantivy::query::Query> {
        let words = clause.words.iter();
        let mut terms: Vec<Term> = words
            .map(|word| Term::from_field_text(content, word))
            .collect();
        if terms.len() > 1 {
            return Box::new(PhraseQuery::new(terms));
        }
        let term = terms.swap_remove(0);
        Box::new(TermQuery::new(term, IndexRecordOption::WithFreqs))
    };
    if let [only] = &query.clauses[..]
        && only.role != Role::Not
    {
        return clause(only);
    }
    let clauses = query.clauses.iter().map(|one| {
        let occur = match one.role {
            Role::Must => Occur::Must,
            Role::Should => Occur::Should,
            Role::Not => Occur::MustNot,
        };
        (occur, clause(one))
    });
    Box::new(BooleanQuery::new(clauses.collect()))
}

/// The name of each document. It lies beside the text, so that reading it for a page would unpack that.
fn documents(searcher: &Searcher, file: Field) -> Result<Vec<String>> {
    let documents = 0..searcher.segment_reader(0).max_doc();
    let names = documents.map(|document| {
        let row: TantivyDocument = searcher.doc(DocAddress::new(0, document))?;
        let name = row.get_first(file).and_then(|value| value.as_str());
        Ok(name.ok_or("a document without a name")?.to_owned())
    });
    names.collect()
}

/// What the index takes, and what the text stored beside it does.
fn parts(job: &Job) -> Result<Vec<(String, u64)>> {
    let files = files_below(&job.directory)?.into_iter();
    let stores = files.filter(|(path, _)| path.extension().is_some_and(|name| name == "store"));
    let store: u64 = stores.map(|(_, size)| size).sum();
    let index = directory_size(&job.directory)? - store;
    Ok(vec![
        ("index".to_owned(), index),
        ("text".to_owned(), store),
    ])
}

/// Fills a table of FTS5 and asks it.
pub fn fts5(job: &Job) -> Result<Outcome> {
    let corpus = Corpus::open(&job.corpus)?;
    let queries = query::read(job.question()?.as_ref())?;
    let mut connection = Connection::open(job.directory.join("words.db"))?;
    connection.pragma_update(None, "cache_size", CACHE_KIBIBYTES)?;
    connection.pragma_update(None, "mmap_size", MAPPED_BYTES)?;
    // The words are given with spaces between them: all else is a part of words.
    let punctuation = (b'!'..=b'~').filter(|byte| !byte.is_ascii_alphanumeric());
    let in_words: String = punctuation.map(char::from).collect();
    let in_words = in_words.replace('\'', "''").replace('"', "\"\"");
    connection.execute_batch(&format!(
        "CREATE VIRTUAL TABLE words USING fts5(content, content='', detail=full, tokenize=\"ascii tokenchars '{in_words}'\")"
    ))?;
    let transaction = connection.transaction()?;
    {
        let mut insert =
            transaction.prepare("INSERT INTO words(rowid, content) VALUES (?1, ?2)")?;
        for (number, source) in corpus.files.iter().enumerate() {
            let words = query::words(&fs::read(&source.path)?);
            insert.execute((number as i64, words.join(" ")))?;
        }
    }
    transaction.commit()?;
    connection.execute("INSERT INTO words(words) VALUES ('optimize')", ())?;
    connection.execute_batch("VACUUM")?;
    let mut count = connection.prepare("SELECT count(*) FROM words WHERE words MATCH ?1")?;
    let mut top = connection.prepare(&format!(
        "SELECT rowid FROM words WHERE words MATCH ?1 ORDER BY rank LIMIT {TOP}"
    ))?;
    let mut asked = job.ask(&names(&queries, KINDS[0]), |index| {
        let found: i64 = count.query_row([fts5_query(&queries[index])], |row| row.get(0))?;
        Ok((found.unsigned_abs(), Vec::new()))
    })?;
    asked.extend(job.ask(&names(&queries, KINDS[1]), |index| {
        let rows = top.query_map([fts5_query(&queries[index])], |row| row.get::<_, i64>(0))?;
        let rows = rows.map(|row| Ok(corpus.files[usize::try_from(row?)?].name.clone()));
        let rows = rows.collect::<Result<Vec<String>>>()?;
        Ok((rows.len() as u64, rows))
    })?);
    Ok(Outcome {
        asked,
        parts: vec![("index".to_owned(), directory_size(&job.directory)?)],
    })
}

fn fts5_query(query: &Query) -> String {
    let joined = |role: Role, operator: &str| {
        let clauses = query.clauses.iter().filter(|clause| clause.role == role);
        let clauses =
            clauses.map(|clause| format!("\"{}\"", clause.words.join(" ").replace('"', "\"\"")));
        clauses.collect::<Vec<String>>().join(operator)
    };
    let (must, should, not) = (
        joined(Role::Must, " AND "),
        joined(Role::Should, " OR "),
        joined(Role::Not, " OR "),
    );
    // FTS5 has no term that only adds to the score.
    let mut text = match (must.is_empty(), should.is_empty()) {
        (true, _) => should,
        (_, true) => must,
        _ => format!("({must}) AND (({must}) OR {should})"),
    };
    if !not.is_empty() {
        text = format!("({text}) NOT ({not})");
    }
    text
}
