//! `Snapshot`: an unchanging view of one corpus, from which every read starts.
//!
//! It holds the segments that were live when it was taken. The invariant:
//! answers are exact, whatever way they were found and however files are cut
//! into parts: counts of parts add up, offsets move by where the part begins,
//! extracts go across the borders. Work is done on the segments' grammars; text
//! is expanded only as far as bytes of it are asked for.
//!
//! It neither writes nor knows which statement asks.

use std::fmt;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use zipfdb_kernels::{FileOrder, NGRAM_WORDS_MAX};
use zipfdb_storage::MetadataSchema;

use crate::answer::access_path::Run;
use crate::answer::batch_results::FileOffsets;
use crate::answer::{
    CorpusReader, CorpusView, FileCounts, FileMethod, FileSummary, NgramCounts, NgramRequest,
    TermVectors, WordCounts, plan_files_with,
};
use crate::runtime::interrupt::check;
use crate::{Error, Result, Value};

/// An unchanging view of a corpus; made by [`crate::Corpus::snapshot`].
///
/// Methods are named `<what>`, `<what>_in` a file, and `.._many` for a batch of questions: [`count`](Snapshot::count),
/// [`count_in`](Snapshot::count_in), [`count_many`](Snapshot::count_many), [`count_in_many`](Snapshot::count_in_many).
///
/// Cheap to clone. Large work and batches run in parallel on the database's threads, small questions on the caller's. The first
/// question to a segment decodes it and builds the structures for the answer, which stay for later ones. A snapshot keeps the
/// segments that it was taken of, also ones that a recompression has replaced since: their files are removed when the last
/// snapshot that has them is dropped.
///
/// ```
/// use zipfdb::{CorpusSettings, Database};
///
/// let db = Database::in_memory()?;
/// let corpus = db.create_corpus("pets", CorpusSettings::default())?;
/// corpus.append("a.txt", "the cat and the dog")?;
///
/// let snapshot = corpus.snapshot()?;
/// assert_eq!(snapshot.count("the")?, 2);
/// assert_eq!(snapshot.count_in_many(&[("a.txt", "the"), ("a.txt", "cow")])?, [2, 0]);
/// assert_eq!(snapshot.search_in("a.txt", "the")?, [0, 12]);
/// assert_eq!(snapshot.phrase_count(&["the", "dog"])?, 1);
/// assert_eq!(snapshot.extract("a.txt", 4, 3)?, b"cat");
/// for (word, count) in snapshot.words()?.iter() {
///     println!("{} {count}", String::from_utf8_lossy(word));
/// }
/// # Ok::<(), zipfdb::Error>(())
/// ```
#[derive(Clone)]
pub struct Snapshot {
    reader: CorpusReader,
}

/// The name of a file and the offsets of a word in it.
type NamedOffsets = (String, Vec<u64>);

/// Segments of a corpus that share no file with others, so that they can be asked alone; of [`Snapshot::partitions`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Partition {
    /// The numbers of the segments, as in `segments('corpus')`.
    pub segments: Vec<u64>,
    /// Bytes of their text.
    pub bytes: u64,
}

impl Snapshot {
    pub(crate) fn new(reader: CorpusReader) -> Snapshot {
        Snapshot { reader }
    }

    /// The reader that answers questions.
    pub(crate) fn reader(&self) -> &CorpusReader {
        &self.reader
    }

    pub(crate) fn view(&self) -> &Arc<CorpusView> {
        self.reader.view()
    }

    /// The segments in groups that share no file: each file is whole in one of them, so answers of the groups
    /// ([`crate::Database::partition`]) add up to that of the corpus. None where edits are pending that no segment has yet.
    pub fn partitions(&self) -> Option<Vec<Partition>> {
        let segments = self.view().segments();
        let partition = |places: Vec<usize>| Partition {
            segments: places.iter().map(|&place| segments[place].id()).collect(),
            bytes: places
                .iter()
                .map(|&place| segments[place].text_bytes())
                .sum(),
        };
        Some(
            self.view()
                .partitions()?
                .into_iter()
                .map(partition)
                .collect(),
        )
    }

    /// Runs long work on the threads of the database, until its queries are interrupted or time is up.
    pub(super) fn watched<A: Send>(
        &self,
        work: impl FnOnce(&CorpusView, Run<'_>) -> Result<A> + Send,
    ) -> Result<A> {
        self.reader.watched(|run| work(self.view(), run))
    }

    /// The values of a file in some columns, with their names.
    pub(super) fn metadata(
        &self,
        file: &str,
        schema: &MetadataSchema,
    ) -> Result<Vec<(String, Value)>> {
        self.watched(|view, run| {
            let file = view.find(file)?;
            let values = schema.columns().iter().map(|column| {
                let value = view.metadata(column, run.stop)?.value(file);
                Ok((column.name.clone(), value))
            });
            values.collect()
        })
    }

    /// All files, in order of name.
    pub fn files(&self) -> &[FileSummary] {
        self.view().files()
    }

    /// The file called `name`, if there is one. Cost: about one comparison.
    pub fn file(&self, name: &str) -> Option<&FileSummary> {
        self.view().find_file(name).map(|file| &self.files()[file])
    }

    /// The number of words in the corpus.
    pub fn total_words(&self) -> u64 {
        self.view().total_words()
    }

    /// Every word of the corpus with its count, in dictionary order: by case-folded word, then word. Words are UTF-8, unless the
    /// tokenizer is `whitespace`.
    ///
    /// Cost: one pass over the symbols of each segment the first time, then O(words).
    ///
    /// # Errors
    /// If a segment is damaged.
    pub fn words(&self) -> Result<WordCounts> {
        let totals = self.reader.watched(|run| self.view().totals(run))?;
        let counts = (0..).zip(totals).filter(|&(_, count)| count > 0);
        Ok(WordCounts::new(self.view().clone(), counts.collect()))
    }

    /// The words of a file with their counts, in dictionary order.
    ///
    /// Cost: O(symbols that the file reaches), at most one pass over its segment.
    ///
    /// # Errors
    /// If there is no such file or a segment is damaged.
    pub fn words_in(&self, file: &str) -> Result<WordCounts> {
        let file = self.view().find(file)?;
        let counts = self
            .reader
            .install(|| self.view().totals_of(file, Run::to_the_end()))?;
        Ok(WordCounts::new(self.view().clone(), counts))
    }

    /// For each word the files that it occurs in, ascending, with counts: an inverted index.
    ///
    /// Cost: O(uses of symbols, each times the files of its rule) the first time, then O(words): a segment keeps the index,
    /// 8 bytes for each word and file.
    ///
    /// # Errors
    /// If a segment is damaged.
    pub fn word_files(&self) -> Result<FileCounts> {
        let table = self.reader.watched(|run| self.view().word_files(run))?;
        Ok(FileCounts::of_words(self.view().clone(), table))
    }

    /// For each file its words with counts: term vectors.
    ///
    /// Cost: as [`Snapshot::word_files`] the first time, then nothing; the memory is the same.
    ///
    /// # Errors
    /// If a segment is damaged.
    pub fn term_vectors(&self) -> Result<TermVectors> {
        let table = self.reader.watched(|run| self.view().file_words(run))?;
        Ok(TermVectors::new(self.view().clone(), table))
    }

    /// All sequences of `n` words of a file, in dictionary order of their words, with their counts: sequence count.
    ///
    /// # Errors
    /// If `n` is not in `1..=8`, or a segment is damaged.
    pub fn ngrams(&self, n: usize) -> Result<NgramCounts> {
        check_ngram_words(n)?;
        let parts = self
            .reader
            .watched(|run| self.view().ngrams(NgramRequest::all(n), run)?.into_parts())?;
        Ok(NgramCounts::new(self.view().clone(), n, parts))
    }

    /// All sequences of `n` words of a file, and for each the files that it occurs in, the largest count first: a ranked
    /// inverted index.
    ///
    /// # Errors
    /// If `n` is not in `1..=8`, or a segment is damaged.
    pub fn ngram_files(&self, n: usize) -> Result<FileCounts> {
        check_ngram_words(n)?;
        let request = NgramRequest {
            order: FileOrder::Count,
            ..NgramRequest::all(n)
        };
        let parts = self
            .reader
            .watched(|run| self.view().ngrams(request, run)?.into_parts())?;
        Ok(FileCounts::new(self.view().clone(), n, parts))
    }

    /// The count of `word` in the corpus.
    ///
    /// Cost: one pass over the symbols of each segment the first time, then a
    /// look-up of the word in each.
    ///
    /// # Errors
    /// If a segment is damaged.
    pub fn count<W>(&self, word: &W) -> Result<u64>
    where
        W: AsRef<[u8]> + ?Sized,
    {
        let word = word.as_ref();
        // Waking the pool would take longer.
        match self.view().count_at_hand(&[word])? {
            Some(count) => Ok(count),
            None => self
                .reader
                .install(|| self.view().count(word, Run::to_the_end())),
        }
    }

    /// The count of `word` in a file.
    ///
    /// # Errors
    /// If there is no such file or a segment is damaged.
    pub fn count_in<W>(&self, file: &str, word: &W) -> Result<u64>
    where
        W: AsRef<[u8]> + ?Sized,
    {
        let (file, word) = (self.view().find(file)?, word.as_ref());
        self.reader.count(file, word, &self.reader.interrupt())
    }

    /// The count of each word in its file: for each `(file, word)` the result of [`Snapshot::count_in`].
    ///
    /// Files that come up often are counted once for all their words.
    ///
    /// # Errors
    /// If there is no such file or a segment is damaged.
    pub fn count_in_many<F, W>(&self, questions: &[(F, W)]) -> Result<Vec<u64>>
    where
        F: AsRef<str> + Sync,
        W: AsRef<[u8]> + Sync,
    {
        if let [(file, word)] = questions {
            return Ok(vec![self.count_in(file.as_ref(), word)?]);
        }
        self.reader
            .watched(|run| self.view().count_many(questions, run))
    }

    /// The count of each word in the corpus: for each the result of [`Snapshot::count`].
    ///
    /// # Errors
    /// If a segment is damaged.
    pub fn count_many<W>(&self, words: &[W]) -> Result<Vec<u64>>
    where
        W: AsRef<[u8]> + Sync,
    {
        self.reader
            .install(|| self.view().count_words(words, Run::to_the_end()))
    }

    /// The files that have all of some words, in order of name; all files where there are no words.
    ///
    /// # Errors
    /// If a segment is damaged.
    pub fn files_with<W>(&self, words: &[W]) -> Result<Vec<&str>>
    where
        W: AsRef<[u8]> + Sync,
    {
        let method = self.method_of_files_with(words)?;
        let found = method.files(&self.reader, &self.reader.interrupt())?;
        Ok(self.names_of(found))
    }

    /// The number of files that have all of some words: [`Snapshot::files_with`] without their names.
    ///
    /// # Errors
    /// If a segment is damaged.
    pub fn count_files_with<W>(&self, words: &[W]) -> Result<usize>
    where
        W: AsRef<[u8]> + Sync,
    {
        let method = self.method_of_files_with(words)?;
        method.count(&self.reader, &self.reader.interrupt())
    }

    fn method_of_files_with<W: AsRef<[u8]>>(&self, words: &[W]) -> Result<FileMethod> {
        let words = words.iter().map(|word| word.as_ref().to_vec());
        Ok(plan_files_with(words.collect(), &self.reader, false)?.into_method())
    }

    /// As [`Snapshot::files_with`], for many sets of words at once. Devices answer where `SET device` demands it, or where they
    /// are estimated to be faster.
    ///
    /// # Errors
    /// If a segment is damaged, or a device that is demanded fails.
    pub fn files_with_many<Q, W>(&self, queries: &[Q]) -> Result<Vec<Vec<&str>>>
    where
        Q: AsRef<[W]> + Sync,
        W: AsRef<[u8]> + Sync,
    {
        let queries: Vec<&[W]> = queries.iter().map(AsRef::as_ref).collect();
        let found = self
            .reader
            .watched(|run| self.view().files_of_all(&queries, run))?;
        let names = found.into_iter().map(|files| self.names_of(files));
        Ok(names.collect())
    }

    fn names_of(&self, files: Vec<usize>) -> Vec<&str> {
        let names = files.into_iter().map(|file| &self.files()[file].name[..]);
        names.collect()
    }

    /// The places of `word`: the files that have it, in order of name, with the offsets of its first bytes, ascending.
    ///
    /// # Errors
    /// If a segment is damaged.
    pub fn search<W>(&self, word: &W) -> Result<Vec<NamedOffsets>>
    where
        W: AsRef<[u8]> + ?Sized,
    {
        let word = word.as_ref();
        let found = self.reader.watched(|run| self.view().search(word, run))?;
        Ok(self.with_names(found))
    }

    /// The places of `word` in a file: the offsets of its first byte, ascending.
    ///
    /// # Errors
    /// If there is no such file or a segment is damaged.
    pub fn search_in<W>(&self, file: &str, word: &W) -> Result<Vec<u64>>
    where
        W: AsRef<[u8]> + ?Sized,
    {
        let (file, word) = (self.view().find(file)?, word.as_ref());
        self.reader.offsets(file, word, &self.reader.interrupt())
    }

    /// The places of each word in its file: for each `(file, word)` the result of [`Snapshot::search_in`].
    ///
    /// # Errors
    /// If there is no such file or a segment is damaged.
    pub fn search_in_many<F, W>(&self, questions: &[(F, W)]) -> Result<Vec<Vec<u64>>>
    where
        F: AsRef<str> + Sync,
        W: AsRef<[u8]> + Sync,
    {
        if let [(file, word)] = questions {
            return Ok(vec![self.search_in(file.as_ref(), word)?]);
        }
        self.reader
            .watched(|run| self.view().search_many(questions, run))
    }

    /// The places of each word in the corpus: for each the result of [`Snapshot::search`].
    ///
    /// # Errors
    /// If a segment is damaged.
    pub fn search_many<W>(&self, words: &[W]) -> Result<Vec<Vec<NamedOffsets>>>
    where
        W: AsRef<[u8]> + Sync,
    {
        let found = self
            .reader
            .watched(|run| self.view().search_words(words, run))?;
        Ok(found
            .into_iter()
            .map(|files| self.with_names(files))
            .collect())
    }

    /// The number of places where some words follow each other in the files, whatever stands between them.
    ///
    /// Cost: O(places of the rarest word in the grammar and of rules around it), for any number of words; two binary searches once a
    /// suffix array is built.
    ///
    /// # Errors
    /// If a segment is damaged, or there are no words.
    pub fn phrase_count<W: AsRef<[u8]> + Sync>(&self, words: &[W]) -> Result<u64> {
        let Some(words) = self.reader.install(|| self.numbers_of(words))? else {
            return Ok(0);
        };
        self.reader
            .watched(|run| self.view().ngram_count(&words, run))
    }

    /// The places where some words follow each other: the files, in order of name, with the offsets of the first word's first
    /// byte, ascending.
    ///
    /// # Errors
    /// If a segment is damaged, or there are no words.
    pub fn phrase_search<W: AsRef<[u8]> + Sync>(&self, words: &[W]) -> Result<Vec<NamedOffsets>> {
        let Some(words) = self.reader.install(|| self.numbers_of(words))? else {
            return Ok(Vec::new());
        };
        let found = self.reader.watched(|run| {
            let places = self.view().ngram_places(&words, run)?;
            let mut found: Vec<FileOffsets> = Vec::new();
            for place in places {
                check(run.stop)?;
                let file = place.file;
                let offset = match place.offset {
                    Some(offset) => offset,
                    None => self.view().offset_of_word(file, place.position)?,
                };
                match found.last_mut() {
                    Some((last, offsets)) if *last == file as usize => offsets.push(offset),
                    _ => found.push((file as usize, vec![offset])),
                }
            }
            Ok(found)
        })?;
        Ok(self.with_names(found))
    }

    /// The numbers of words; none if the corpus has not all of them.
    fn numbers_of<W: AsRef<[u8]>>(&self, words: &[W]) -> Result<Option<Vec<u32>>> {
        if words.is_empty() {
            return Err(Error::Invalid {
                subject: "phrase".into(),
                reason: "it has no words, at least 1 can be searched".into(),
            });
        }
        let words = words.iter();
        words
            .map(|word| self.view().number_of(word.as_ref()))
            .collect()
    }

    /// The bytes `offset..offset + length` of a file, as far as it goes.
    ///
    /// # Errors
    /// If there is no such file or a segment is damaged.
    pub fn extract(&self, file: &str, offset: u64, length: u64) -> Result<Vec<u8>> {
        let file = self.view().find(file)?;
        self.reader
            .extract(file, offset, length, &self.reader.interrupt())
    }

    /// The bytes of many ranges: for each `(file, offset, length)` the result of [`Snapshot::extract`].
    ///
    /// # Errors
    /// If there is no such file or a segment is damaged.
    pub fn extract_many<F>(&self, ranges: &[(F, u64, u64)]) -> Result<Vec<Vec<u8>>>
    where
        F: AsRef<str> + Sync,
    {
        if let [(file, offset, length)] = ranges {
            return Ok(vec![self.extract(file.as_ref(), *offset, *length)?]);
        }
        self.reader
            .watched(|run| self.view().extract_many(ranges, run))
    }

    /// Writes the bytes of a file to `target`, in memory bounded by a few MiB a thread.
    ///
    /// # Errors
    /// If there is no such file, a segment is damaged, or `target` fails: then
    /// as [`Error::Io`] with the file's name.
    pub fn write_content(&self, file: &str, target: &mut (dyn Write + Send)) -> Result<()> {
        let index = self.view().find(file)?;
        let written = self
            .reader
            .install(|| self.view().write_file(index, target))?;
        written.map_err(|source| Error::Io {
            action: "write the content of",
            path: PathBuf::from(file),
            source,
        })
    }

    fn with_names(&self, found: Vec<FileOffsets>) -> Vec<NamedOffsets> {
        let files = found.into_iter();
        let files = files.map(|(file, offsets)| (self.files()[file].name.clone(), offsets));
        files.collect()
    }
}

/// # Errors
/// If there are no n-grams of `n` words.
fn check_ngram_words(n: usize) -> Result<()> {
    if (1..=NGRAM_WORDS_MAX).contains(&n) {
        return Ok(());
    }
    Err(Error::Invalid {
        subject: "n-grams".into(),
        reason: format!("n is {n}; hint: n-grams have 1 to {NGRAM_WORDS_MAX} words"),
    })
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Snapshot")
            .field("files", &self.files().len())
            .field("segments", &self.view().segments().len())
            .finish_non_exhaustive()
    }
}
