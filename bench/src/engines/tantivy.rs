//! tantivy: the text in an index that stores it and answers word lookups with positions.

use tantivy::schema::{IndexRecordOption, STORED, STRING, Schema, TextFieldIndexing, TextOptions};
use tantivy::store::{Compressor, ZstdCompressor};
use tantivy::tokenizer::{LowerCaser, SimpleTokenizer, TextAnalyzer};
use tantivy::{Index, IndexSettings, IndexWriter, TantivyDocument};

use super::{Account, Job, Purpose};
use crate::Result;
use crate::corpus::{Corpus, ROW_SIZE_MAX};

/// Memory of the writer, shared by its threads.
const HEAP_SIZE: usize = 512 << 20;

/// Name of the analyzer: tantivy's default one without its limit of 40 bytes a word.
const ANALYZER: &str = "all_words";

/// How it is run, for the table.
pub fn configuration(threads: usize) -> String {
    format!(
        "{}: text stored in zstd blocks, positions indexed, `SimpleTokenizer` and `LowerCaser` without its default limit \
         of 40 bytes a word; one document a file, files over {} MiB cut at line ends into documents of that size, bytes \
         that are not UTF-8 replaced; {threads} writer threads, {} MiB heap, one commit, its own merges waited for. \
         Size: after a merge into one segment.",
        ::tantivy::version_string(),
        ROW_SIZE_MAX >> 20,
        HEAP_SIZE >> 20,
    )
}

/// Fills a new index.
pub fn ingest(job: &Job, corpus: &Corpus) -> Result<Account> {
    let mut schema = Schema::builder();
    let file = schema.add_text_field("file", STRING | STORED);
    let number = schema.add_u64_field("number", STORED);
    let indexing = TextFieldIndexing::default()
        .set_tokenizer(ANALYZER)
        .set_index_option(IndexRecordOption::WithFreqsAndPositions)
        .set_fieldnorms(false);
    let content = schema.add_text_field(
        "content",
        TextOptions::default()
            .set_indexing_options(indexing)
            .set_stored(),
    );
    let settings = IndexSettings {
        docstore_compression: Compressor::Zstd(ZstdCompressor::default()),
        ..Default::default()
    };
    let index = Index::builder()
        .schema(schema.build())
        .settings(settings)
        .create_in_dir(&job.directory)?;
    index.tokenizers().register(
        ANALYZER,
        TextAnalyzer::builder(SimpleTokenizer::default())
            .filter(LowerCaser)
            .build(),
    );

    let mut writer: IndexWriter = index.writer_with_num_threads(job.threads, HEAP_SIZE)?;
    corpus.for_each_row(|row| {
        let mut document = TantivyDocument::default();
        document.add_text(file, row.file);
        document.add_u64(number, row.number);
        document.add_text(content, String::from_utf8_lossy(row.content));
        writer.add_document(document)?;
        Ok(())
    })?;
    writer.commit()?;
    writer.wait_merging_threads()?;
    if job.purpose == Purpose::Size {
        let mut writer: IndexWriter = index.writer_with_num_threads(1, HEAP_SIZE)?;
        let segments = index.searchable_segment_ids()?;
        if segments.len() > 1 {
            writer.merge(&segments).wait()?;
        }
        writer.garbage_collect_files().wait()?;
        writer.wait_merging_threads()?;
    }
    Ok(Account::default())
}
