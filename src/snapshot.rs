//! `Snapshot`: an unchanging view of one corpus, from which every read starts.
//!
//! It holds the segments that were live when it was taken. What a query needs of
//! a segment is decoded or built at first use and then shared by all snapshots
//! that hold the segment. A file may be cut into parts that lie in consecutive
//! segments; here it is one file again. Which statement asks is not known here.

use std::fmt;
use std::io::{self, Write};
use std::sync::{Arc, OnceLock};

use rayon::prelude::*;
use zipfdb_kernels::{
    Content, GrammarView, Lengths, Parents, Signatures, Structures, SymbolText, WordTerminals,
    count_in_file, expand_file, extract, file_weights, locate, locate_in_file, weights,
};
use zipfdb_storage::{Dictionary, FileEntry, Grammar, Segment};

use crate::database::Shared;
use crate::tokenize::fold;
use crate::{Error, Result};

/// A file of a corpus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSummary {
    /// Its name: the path it was imported from, relative, with `/`.
    pub name: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// How many words it has.
    pub words: u64,
}

/// An unchanging view of a corpus; made by [`crate::Corpus::snapshot`].
///
/// Batches (`count_many`, `search_many`, `extract_many`) run in parallel on the
/// database's threads. The first question to a segment decodes it.
///
/// ```
/// use zipfdb::{CopyOptions, CorpusSettings, Database};
///
/// # let folder = tempfile::tempdir().expect("a temporary directory");
/// # std::fs::write(folder.path().join("a.txt"), "the cat and the dog").expect("a file");
/// let db = Database::in_memory()?;
/// let corpus = db.create_corpus("pets", CorpusSettings::default())?;
/// corpus.copy_from(folder.path(), &CopyOptions::default())?;
///
/// let snapshot = corpus.snapshot()?;
/// assert_eq!(snapshot.count_many(&[("a.txt", "the"), ("a.txt", "cow")])?, [2, 0]);
/// assert_eq!(snapshot.search_many(&[("a.txt", "the")])?, [vec![0, 12]]);
/// assert_eq!(snapshot.extract_many(&[("a.txt", 4, 3)])?, [b"cat"]);
/// # Ok::<(), zipfdb::Error>(())
/// ```
#[derive(Clone)]
pub struct Snapshot {
    shared: Arc<Shared>,
    view: Arc<CorpusView>,
}

/// The segments of a corpus and where each of its files lies in them.
pub(crate) struct CorpusView {
    name: String,
    segments: Vec<Arc<SegmentView>>,
    /// Sorted by name.
    files: Vec<FileSummary>,
    /// For each file its parts in order: index of the segment, index of the entry.
    parts: Vec<Vec<(usize, u32)>>,
}

impl CorpusView {
    /// Reads the file tables of the segments, in order of publication.
    pub(crate) fn new(name: String, segments: Vec<Arc<SegmentView>>) -> Result<CorpusView> {
        let mut entries: Vec<(&FileEntry, usize, u32)> = Vec::new();
        for (index, segment) in segments.iter().enumerate() {
            for (number, entry) in (0..).zip(segment.files()?) {
                entries.push((entry, index, number));
            }
        }
        entries.sort_by(|a, b| (&a.0.name, a.0.first_byte).cmp(&(&b.0.name, b.0.first_byte)));
        let mut files: Vec<FileSummary> = Vec::new();
        let mut parts: Vec<Vec<(usize, u32)>> = Vec::new();
        let mut complete = true;
        for (entry, segment, number) in entries {
            let inconsistent = |reason: &str| Error::Inconsistent {
                segment: segments[segment].id(),
                reason: format!("file \"{}\": {reason}", entry.name),
            };
            if entry.first_byte == 0 && complete {
                if files.last().is_some_and(|file| file.name == entry.name) {
                    return Err(inconsistent("there are two files of this name"));
                }
                files.push(FileSummary {
                    name: entry.name.clone(),
                    bytes: 0,
                    words: 0,
                });
                parts.push(Vec::new());
            }
            let (Some(file), Some(part)) = (files.last_mut(), parts.last_mut()) else {
                return Err(inconsistent("its first part is missing"));
            };
            let follows = file.name == entry.name
                && file.bytes == entry.first_byte
                && file.words == entry.first_word;
            if !follows {
                return Err(inconsistent("a part of it is missing"));
            }
            file.bytes += entry.bytes;
            file.words += entry.words;
            part.push((segment, number));
            complete = entry.last_part;
        }
        Ok(CorpusView {
            name,
            segments,
            files,
            parts,
        })
    }

    pub(crate) fn segments(&self) -> &[Arc<SegmentView>] {
        &self.segments
    }

    fn find(&self, file: &str) -> Option<usize> {
        let found = self
            .files
            .binary_search_by(|entry| entry.name.as_str().cmp(file));
        found.ok()
    }

    fn index(&self, file: &str) -> Result<usize> {
        self.find(file).ok_or_else(|| Error::NoSuchFile {
            corpus: self.name.clone(),
            file: file.to_owned(),
            nearest: self.nearest(file),
        })
    }

    /// The name most like `file`, if one is alike.
    fn nearest(&self, file: &str) -> Option<String> {
        const ALIKE: f64 = 0.8;
        let scored = self
            .files
            .iter()
            .map(|entry| (strsim::jaro_winkler(&entry.name, file), &entry.name));
        scored
            .filter(|(score, _)| *score >= ALIKE)
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .map(|(_, name)| name.clone())
    }

    /// The parts of a file with the bytes of the file before each.
    fn parts_of(&self, file: usize) -> impl Iterator<Item = (&SegmentView, u32, u64)> {
        let mut before = 0;
        self.parts[file].iter().map(move |&(segment, entry)| {
            let segment = &*self.segments[segment];
            let first_byte = before;
            before += segment.length_of(entry);
            (segment, entry, first_byte)
        })
    }

    fn count(&self, file: usize, word: &[u8]) -> Result<u64> {
        self.parts_of(file)
            .map(|(segment, entry, _)| segment.count(entry, word))
            .sum()
    }

    fn search(&self, file: usize, word: &[u8]) -> Result<Vec<u64>> {
        let mut offsets = Vec::new();
        for (segment, entry, first_byte) in self.parts_of(file) {
            let found = segment.search(entry, word)?;
            offsets.extend(found.into_iter().map(|offset| first_byte + offset));
        }
        Ok(offsets)
    }

    fn extract(&self, file: usize, offset: u64, length: u64) -> Result<Vec<u8>> {
        let end = offset.saturating_add(length);
        let mut bytes = Vec::new();
        for (segment, entry, first_byte) in self.parts_of(file) {
            let last_byte = first_byte + segment.length_of(entry);
            if first_byte < end && offset < last_byte {
                let from = offset.max(first_byte);
                let part = segment.extract(entry, from - first_byte, end.min(last_byte) - from)?;
                match bytes.is_empty() {
                    true => bytes = part,
                    false => bytes.extend(part),
                }
            }
        }
        Ok(bytes)
    }
}

impl Snapshot {
    pub(crate) fn new(shared: Arc<Shared>, view: Arc<CorpusView>) -> Snapshot {
        Snapshot { shared, view }
    }

    /// All files, in order of name.
    pub fn files(&self) -> &[FileSummary] {
        &self.view.files
    }

    /// The file called `name`, if there is one. Cost: O(log files).
    pub fn file(&self, name: &str) -> Option<&FileSummary> {
        self.view.find(name).map(|index| &self.view.files[index])
    }

    /// Every word of the corpus and how often it occurs, each word once, in no
    /// promised order. Words are UTF-8, unless the tokenizer is `whitespace`.
    ///
    /// Cost: one pass over the grammar.
    ///
    /// # Errors
    /// If a segment is damaged.
    pub fn word_count(&self) -> Result<Vec<(Vec<u8>, u64)>> {
        let segments = self.view.segments.iter();
        self.install(|| {
            let counts: Result<Vec<_>> = segments.map(|segment| segment.word_counts()).collect();
            Ok(merge_counts(counts?))
        })
    }

    /// As [`Snapshot::word_count`], for one file.
    ///
    /// Cost: O(symbols that the file reaches).
    ///
    /// # Errors
    /// If there is no such file or a segment is damaged.
    pub fn word_count_of(&self, file: &str) -> Result<Vec<(Vec<u8>, u64)>> {
        let parts = self.view.parts_of(self.view.index(file)?);
        self.install(|| {
            let counts: Result<Vec<_>> = parts
                .map(|(segment, entry, _)| segment.word_counts_of(entry))
                .collect();
            Ok(merge_counts(counts?))
        })
    }

    /// How often `word` occurs in the corpus.
    ///
    /// # Errors
    /// If a segment is damaged.
    pub fn count(&self, word: &str) -> Result<u64> {
        self.install(|| {
            let segments = self.view.segments.iter();
            let counts = segments.map(|segment| segment.count_all(word.as_bytes()));
            counts.sum()
        })
    }

    /// How often each word occurs in its file: one count for each `(file, word)`.
    ///
    /// # Errors
    /// If there is no such file or a segment is damaged.
    pub fn count_many(&self, questions: &[(&str, &str)]) -> Result<Vec<u64>> {
        self.many(questions, |&(file, word)| {
            self.view.count(self.view.index(file)?, word.as_bytes())
        })
    }

    /// Where `word` occurs: the files that have it, in order of name, with the
    /// offsets of its first bytes, ascending.
    ///
    /// # Errors
    /// If a segment is damaged.
    pub fn search(&self, word: &str) -> Result<Vec<(String, Vec<u64>)>> {
        let view = &*self.view;
        let found: Result<Vec<Vec<Vec<u64>>>> = self.install(|| {
            let segments = view.segments.par_iter();
            segments
                .map(|segment| segment.search_all(word.as_bytes()))
                .collect()
        });
        let mut found = found?;
        let mut answer = Vec::new();
        for (file, parts) in view.files.iter().zip(&view.parts) {
            let mut first_byte = 0;
            let mut offsets: Vec<u64> = Vec::new();
            for &(segment, entry) in parts {
                let part = std::mem::take(&mut found[segment][entry as usize]);
                offsets.extend(part.into_iter().map(|offset| first_byte + offset));
                first_byte += view.segments[segment].length_of(entry);
            }
            if !offsets.is_empty() {
                answer.push((file.name.clone(), offsets));
            }
        }
        Ok(answer)
    }

    /// Where each word occurs in its file: for each `(file, word)` the offsets
    /// of the word's first byte, ascending.
    ///
    /// # Errors
    /// If there is no such file or a segment is damaged.
    pub fn search_many(&self, questions: &[(&str, &str)]) -> Result<Vec<Vec<u64>>> {
        self.many(questions, |&(file, word)| {
            self.view.search(self.view.index(file)?, word.as_bytes())
        })
    }

    /// The bytes `offset..offset + length` of a file, as far as it goes.
    ///
    /// # Errors
    /// If there is no such file or a segment is damaged.
    pub fn extract(&self, file: &str, offset: u64, length: u64) -> Result<Vec<u8>> {
        self.view.extract(self.view.index(file)?, offset, length)
    }

    /// The bytes of many ranges: for each `(file, offset, length)` what
    /// [`Snapshot::extract`] gives.
    ///
    /// # Errors
    /// If there is no such file or a segment is damaged.
    pub fn extract_many(&self, ranges: &[(&str, u64, u64)]) -> Result<Vec<Vec<u8>>> {
        self.many(ranges, |&(file, offset, length)| {
            self.view.extract(self.view.index(file)?, offset, length)
        })
    }

    /// Writes the bytes of a file to `target`, in memory bounded by a few MiB.
    ///
    /// # Errors
    /// If there is no such file, a segment is damaged, or `target` fails: then
    /// as [`Error::Io`] with the file's name.
    pub fn write_content(&self, file: &str, target: &mut (dyn Write + Send)) -> Result<()> {
        let index = self.view.index(file)?;
        let written = self.install(|| self.write_file(index, target))?;
        written.map_err(|source| Error::Io {
            action: "write the content of",
            path: file.into(),
            source,
        })
    }

    /// Writes file `index` of [`Snapshot::files`] on the current threads; the inner error is the target's.
    pub(crate) fn write_file(
        &self,
        index: usize,
        target: &mut dyn Write,
    ) -> Result<io::Result<()>> {
        for (segment, entry, _) in self.view.parts_of(index) {
            if let Err(error) = segment.write_content(entry, target)? {
                return Ok(Err(error));
            }
        }
        Ok(Ok(()))
    }

    fn many<Q: Sync, A: Send>(
        &self,
        questions: &[Q],
        answer: impl Fn(&Q) -> Result<A> + Sync,
    ) -> Result<Vec<A>> {
        if let [question] = questions {
            return Ok(vec![answer(question)?]);
        }
        self.install(|| questions.par_iter().map(&answer).collect())
    }

    fn install<A: Send>(&self, work: impl FnOnce() -> A + Send) -> A {
        self.shared.pool.install(work)
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Snapshot")
            .field("corpus", &self.view.name)
            .field("segments", &self.view.segments.len())
            .finish_non_exhaustive()
    }
}

/// Adds up the counts of several segments; each part has every word once.
fn merge_counts(mut parts: Vec<Vec<(Vec<u8>, u64)>>) -> Vec<(Vec<u8>, u64)> {
    if parts.len() <= 1 {
        return parts.pop().unwrap_or_default();
    }
    let mut all = parts.concat();
    all.sort_unstable();
    all.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        if same {
            kept.1 += next.1;
        }
        same
    });
    all
}

/// One live segment and what queries have decoded or built of it.
pub(crate) struct SegmentView {
    segment: Arc<Segment>,
    lengths: OnceLock<Lengths>,
    signatures: OnceLock<Signatures>,
    parents: OnceLock<Parents>,
    text: OnceLock<SymbolText>,
    /// Bytes of each file's part, as its entry says.
    file_bytes: OnceLock<Vec<u64>>,
}

impl SegmentView {
    pub(crate) fn new(segment: Arc<Segment>) -> SegmentView {
        SegmentView {
            segment,
            lengths: OnceLock::new(),
            signatures: OnceLock::new(),
            parents: OnceLock::new(),
            text: OnceLock::new(),
            file_bytes: OnceLock::new(),
        }
    }

    pub(crate) fn id(&self) -> u64 {
        self.segment.id()
    }

    pub(crate) fn files(&self) -> Result<&[FileEntry]> {
        let files = self.segment.files()?;
        self.file_bytes
            .get_or_init(|| files.iter().map(|entry| entry.bytes).collect());
        Ok(files)
    }

    /// Bytes of an entry of the file table, which has been read.
    fn length_of(&self, entry: u32) -> u64 {
        self.file_bytes
            .get()
            .map_or(0, |bytes| bytes[entry as usize])
    }

    fn grammar(&self) -> Result<GrammarView<'_>> {
        let Grammar {
            terminal_count,
            rule_offsets,
            symbols,
            level_offsets,
            root_offsets,
            root,
        } = self.segment.grammar()?;
        let dictionary = self.segment.dictionary()?;
        let files = self.segment.files()?.len();
        if dictionary.len() != *terminal_count || root_offsets.len() != files + 1 {
            return Err(Error::Inconsistent {
                segment: self.id(),
                reason: "its parts do not belong together".into(),
            });
        }
        Ok(GrammarView {
            terminal_count: *terminal_count,
            rule_offsets,
            symbols,
            level_offsets,
            root_offsets,
            root,
        })
    }

    /// The lengths, after the length of every file is found to be what its entry says.
    fn lengths(&self, view: GrammarView<'_>, dictionary: &Dictionary) -> Result<&Lengths> {
        let lengths = self
            .lengths
            .get_or_init(|| Lengths::new(view, |terminal| dictionary.token(terminal).len() as u64));
        let files = self.files()?;
        let measured = lengths
            .file_starts
            .windows(2)
            .map(|range| range[1] - range[0]);
        match files
            .iter()
            .zip(measured)
            .find(|(entry, bytes)| entry.bytes != *bytes)
        {
            None => Ok(lengths),
            Some((entry, bytes)) => Err(Error::Inconsistent {
                segment: self.id(),
                reason: format!(
                    "file \"{}\" has {bytes} bytes, its entry says {}",
                    entry.name, entry.bytes
                ),
            }),
        }
    }

    fn content(&self) -> Result<Content<'_>> {
        let dictionary = self.segment.dictionary()?;
        let view = self.grammar()?;
        let lengths = self.lengths(view, dictionary)?;
        let token = |id| dictionary.token(id);
        let text = self
            .text
            .get_or_init(|| SymbolText::new(view, lengths, token));
        Ok(Content {
            view,
            lengths,
            text,
        })
    }

    fn structures(&self) -> Result<Structures<'_>> {
        let view = self.grammar()?;
        let dictionary = self.segment.dictionary()?;
        let lengths = self.lengths(view, dictionary)?;
        // The two tokens of a word are neighbours: the first stands for both.
        let group = |token: u32| {
            let is_second = token > 0
                && token < dictionary.word_tokens()
                && dictionary.word(token) == dictionary.word(token - 1);
            token - u32::from(is_second)
        };
        Ok(Structures {
            view,
            lengths,
            signatures: self.signatures.get_or_init(|| Signatures::new(view, group)),
            parents: Some(self.parents.get_or_init(|| Parents::new(view))),
        })
    }

    /// The tokens of a word: at most two, by binary search in dictionary order.
    fn terminals(&self, word: &[u8]) -> Result<WordTerminals> {
        let dictionary = self.segment.dictionary()?;
        let mut folded = Vec::with_capacity(word.len());
        fold(word, &mut folded);
        let mut buffer = Vec::new();
        let mut is_before = |id: u32| {
            let other = dictionary.word(id);
            buffer.clear();
            fold(other, &mut buffer);
            (buffer.as_slice(), other) < (folded.as_slice(), word)
        };
        let (mut first, mut behind) = (0, dictionary.word_tokens());
        while first < behind {
            let middle = first + (behind - first) / 2;
            match is_before(middle) {
                true => first = middle + 1,
                false => behind = middle,
            }
        }
        let mut end = first;
        while end < dictionary.word_tokens() && dictionary.word(end) == word {
            end += 1;
        }
        let spaced = (first..end)
            .find(|&id| dictionary.has_glued_space(id))
            .unwrap_or(end);
        Ok(WordTerminals { first, spaced, end })
    }

    /// About how many tokens a part of a file has: its words and a gap for every fourth.
    fn tokens_about(&self, entry: u32) -> Result<u64> {
        let words = self.segment.files()?[entry as usize].words;
        Ok(words + words / 4 + 1)
    }

    /// Adds up the counts of the tokens of each word; `counts` are ascending by token.
    fn by_word(&self, counts: impl Iterator<Item = (u32, u64)>) -> Result<Vec<(Vec<u8>, u64)>> {
        let dictionary = self.segment.dictionary()?;
        let mut words: Vec<(Vec<u8>, u64)> = Vec::new();
        for (token, count) in counts {
            if token >= dictionary.word_tokens() || count == 0 {
                continue;
            }
            let word = dictionary.word(token);
            match words.last_mut() {
                Some(last) if last.0 == word => last.1 += count,
                _ => words.push((word.to_owned(), count)),
            }
        }
        Ok(words)
    }

    fn word_counts(&self) -> Result<Vec<(Vec<u8>, u64)>> {
        let view = self.grammar()?;
        let counts = weights(view, 0..view.root.len(), self.segment.info().bytes);
        self.by_word((0..view.terminal_count).zip(counts))
    }

    fn word_counts_of(&self, entry: u32) -> Result<Vec<(Vec<u8>, u64)>> {
        let view = self.grammar()?;
        let tokens = self.tokens_about(entry)?;
        let counts = file_weights(view, entry, tokens, self.length_of(entry));
        self.by_word(counts.into_iter())
    }

    /// Words of each file's part, counted on the grammar.
    pub(crate) fn words_by_file(&self) -> Result<Vec<u64>> {
        let view = self.grammar()?;
        let words = self.segment.dictionary()?.word_tokens();
        let lengths = Lengths::new(view, |terminal| u64::from(terminal < words));
        let starts = lengths.file_starts.windows(2);
        Ok(starts.map(|range| range[1] - range[0]).collect())
    }

    fn count(&self, entry: u32, word: &[u8]) -> Result<u64> {
        let WordTerminals { first, end, .. } = self.terminals(word)?;
        if first == end {
            return Ok(0);
        }
        let Structures {
            view,
            signatures,
            parents,
            ..
        } = self.structures()?;
        let tokens = self.tokens_about(entry)?;
        Ok(count_in_file(
            view,
            parents,
            signatures,
            first..end,
            entry,
            tokens,
        ))
    }

    fn count_all(&self, word: &[u8]) -> Result<u64> {
        let WordTerminals { first, end, .. } = self.terminals(word)?;
        if first == end {
            return Ok(0);
        }
        let view = self.grammar()?;
        let counts = weights(view, 0..view.root.len(), self.segment.info().bytes);
        Ok(counts[first as usize..end as usize].iter().sum())
    }

    fn search(&self, entry: u32, word: &[u8]) -> Result<Vec<u64>> {
        let word = self.terminals(word)?;
        if word.first == word.end {
            return Ok(Vec::new());
        }
        Ok(locate_in_file(
            self.structures()?,
            word,
            entry,
            self.tokens_about(entry)?,
        ))
    }

    /// The offsets of a word in each file's part.
    fn search_all(&self, word: &[u8]) -> Result<Vec<Vec<u64>>> {
        let mut found = vec![Vec::new(); self.files()?.len()];
        let word = self.terminals(word)?;
        if word.first == word.end {
            return Ok(found);
        }
        let structures = self.structures()?;
        let starts = &structures.lengths.file_starts;
        let tokens = self.segment.info().words;
        let offsets = locate(
            structures,
            word,
            0..structures.view.root.len(),
            tokens + tokens / 4,
        );
        let mut file = 0;
        for offset in offsets {
            while starts[file + 1] <= offset {
                file += 1;
            }
            found[file].push(offset - starts[file]);
        }
        Ok(found)
    }

    fn extract(&self, entry: u32, offset: u64, length: u64) -> Result<Vec<u8>> {
        Ok(extract(self.content()?, entry, offset, length))
    }

    /// Writes a file's part; the inner error is the target's.
    pub(crate) fn write_content(
        &self,
        entry: u32,
        target: &mut dyn Write,
    ) -> Result<io::Result<()>> {
        Ok(expand_file(self.content()?, entry, target))
    }
}
