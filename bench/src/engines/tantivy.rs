//! tantivy: the text in an index that stores it and answers word lookups with positions.

use std::path::Path;
use std::sync::Arc;

use tantivy::collector::Count;
use tantivy::postings::SegmentPostings;
use tantivy::query::{BooleanQuery, Occur, Query, TermQuery};
use tantivy::schema::{
    Field, IndexRecordOption, STORED, STRING, Schema, TextFieldIndexing, TextOptions, Value,
};
use tantivy::store::{Compressor, ZstdCompressor};
use tantivy::tokenizer::{LowerCaser, PreTokenizedString, SimpleTokenizer, TextAnalyzer, Token};
use tantivy::{
    DocAddress, Index, IndexSettings, IndexWriter, InvertedIndexReader, Searcher, TantivyDocument,
    Term,
};

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
    register_analyzer(&index);

    let mut writer: IndexWriter = index.writer_with_num_threads(job.threads, HEAP_SIZE)?;
    corpus.for_each_row(|row| {
        let mut document = TantivyDocument::default();
        document.add_text(file, row.file);
        document.add_u64(number, row.number);
        document.add_text(content, row.text());
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

fn register_analyzer(index: &Index) {
    let analyzer = TextAnalyzer::builder(SimpleTokenizer::default()).filter(LowerCaser);
    index.tokenizers().register(ANALYZER, analyzer.build());
}

/// An index that was filled by [`ingest`] for size, so of one segment, opened to be asked.
pub struct Reader {
    pub searcher: Searcher,
    pub words: Arc<InvertedIndexReader>,
    file: Field,
    number: Field,
    pub content: Field,
}

impl Reader {
    /// Opens it.
    pub fn open(directory: &Path) -> Result<Reader> {
        let index = Index::open_in_dir(directory)?;
        register_analyzer(&index);
        let schema = index.schema();
        let searcher = index.reader()?.searcher();
        let [segment] = searcher.segment_readers() else {
            return Err("the index has not one segment".into());
        };
        let content = schema.get_field("content")?;
        Ok(Reader {
            words: segment.inverted_index(content)?,
            searcher,
            file: schema.get_field("file")?,
            number: schema.get_field("number")?,
            content,
        })
    }

    /// For each document the name of its file and its number there.
    pub fn documents(&self) -> Result<Vec<(String, u64)>> {
        let documents = 0..self.searcher.segment_reader(0).max_doc();
        let row = |document| -> Result<(String, u64)> {
            let row: TantivyDocument = self.searcher.doc(DocAddress::new(0, document))?;
            let name = row.get_first(self.file).and_then(|value| value.as_str());
            let number = row.get_first(self.number).and_then(|value| value.as_u64());
            let name = name.ok_or("a document without a file")?;
            Ok((
                name.to_owned(),
                number.ok_or("a document without a number")?,
            ))
        };
        documents.map(row).collect()
    }

    /// The text of a document.
    pub fn text(&self, document: u32) -> Result<String> {
        let row: TantivyDocument = self.searcher.doc(DocAddress::new(0, document))?;
        let text = row.get_first(self.content).and_then(|value| value.as_str());
        Ok(text.ok_or("a document without text")?.to_owned())
    }

    /// Gives each word with its documents, ascending, and how often it occurs in each.
    pub fn for_each_posting(
        &self,
        mut take: impl FnMut(&[u8], &mut SegmentPostings),
    ) -> Result<()> {
        let mut terms = self.words.terms().stream()?;
        while terms.advance() {
            let option = IndexRecordOption::WithFreqs;
            let mut postings = self
                .words
                .read_postings_from_terminfo(terms.value(), option)?;
            take(terms.key(), &mut postings);
        }
        Ok(())
    }
}

/// How [`TermIndex`] is made, for the table.
pub fn configuration_of_words() -> String {
    format!(
        "{}: words given as tokens, `IndexRecordOption::Basic`, no field norms, nothing stored, one segment; a `BooleanQuery` whose \
         terms must all be there, built before the clock starts, and the collector `Count`.",
        ::tantivy::version_string(),
    )
}

/// An index of given words without positions, counts and text.
pub struct TermIndex {
    searcher: Searcher,
    content: Field,
}

impl TermIndex {
    /// Fills a new one with the words of each document, in their order.
    pub fn fill<'a>(
        directory: &Path,
        documents: impl Iterator<Item = Vec<&'a [u8]>>,
    ) -> Result<TermIndex> {
        let mut schema = Schema::builder();
        let indexing = TextFieldIndexing::default()
            .set_index_option(IndexRecordOption::Basic)
            .set_fieldnorms(false);
        let options = TextOptions::default().set_indexing_options(indexing);
        let content = schema.add_text_field("content", options);
        let index = Index::create_in_dir(directory, schema.build())?;
        let mut writer: IndexWriter = index.writer_with_num_threads(1, HEAP_SIZE)?;
        for words in documents {
            let tokens = words.iter().enumerate().map(|(position, word)| Token {
                position,
                text: String::from_utf8_lossy(word).into_owned(),
                ..Token::default()
            });
            let tokens = tokens.collect();
            let mut document = TantivyDocument::default();
            let text = String::new();
            document.add_pre_tokenized_text(content, PreTokenizedString { text, tokens });
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
        let searcher = index.reader()?.searcher();
        match searcher.segment_readers() {
            [_] => Ok(TermIndex { searcher, content }),
            _ => Err("the index has not one segment".into()),
        }
    }

    /// The query for documents that have all of some words, which are UTF-8.
    pub fn query(&self, words: &[&[u8]]) -> BooleanQuery {
        let terms = words.iter().map(|word| {
            let term = Term::from_field_text(self.content, &String::from_utf8_lossy(word));
            let query = TermQuery::new(term, IndexRecordOption::Basic);
            (Occur::Must, Box::new(query) as Box<dyn Query>)
        });
        BooleanQuery::new(terms.collect())
    }

    /// How many documents it finds.
    pub fn count(&self, query: &BooleanQuery) -> Result<u64> {
        Ok(self.searcher.search(query, &Count)? as u64)
    }
}
