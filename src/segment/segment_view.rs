//! One segment of a snapshot: its decoded parts and what queries derive from them.
//!
//! The invariant: what is derived never changes and never contradicts the file
//! table, or there is an error instead. Everything is built when first needed,
//! without a lock: two threads that need it at once both build it, and one
//! result is dropped. A lock would be held across parallel work, whose idle
//! thread may take up another query that waits for the same lock.
//!
//! It knows numbers of files and terminals, no names and no other segments.

use std::io;
use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use zipfdb_kernels::{
    Content, CountTable, FileCounting, FileOrder, GAP, GrammarView, Lengths, NgramCounts,
    NgramFiles, PARENTS_SYMBOL_COST, Parents, RuleEnds, Signatures, Structures, SymbolText,
    WordGrammar, WordPlaces, WordSuffixes, WordTerminals, WordUses, cost_without_parents,
    count_in_file, expand_file, extract, file_weights, file_word_counts, locate, locate_in_file,
    ngram_count, ngram_counts, ngram_file_counts, ngram_positions, word_file_counts,
};
use zipfdb_storage::{Dictionary, FileEntry, Grammar, Segment, SegmentHeader};

use super::kept_ngrams::{self, KeptNgrams, NgramSource};
use super::one_file::{Mismatch, OneFile};
use super::spent::{Kept, Spent};
use super::word_order::{WordIndex, order_fault};
use crate::runtime::device::{Kind, Residence};
use crate::strategy::{PLACES_BUILD_COST, Task};
use crate::{Error, Result, tokenize};

/// What places of words are counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Bytes,
    Words,
}

/// Where a segment's parts come from.
enum Parts {
    /// A live segment, which decodes a part when it is first asked for.
    Stored(Arc<Segment>),
    /// Plain data.
    #[cfg(test)]
    Memory(Box<PlainParts>),
}

#[cfg(test)]
struct PlainParts {
    id: u64,
    files: Vec<FileEntry>,
    dictionary: Dictionary,
    grammar: Grammar,
}

/// The words of a dictionary, numbered in its order.
struct WordTable {
    /// For each token its word, or [`GAP`].
    word_of: Vec<u32>,
    /// For each word its first token.
    tokens: Vec<u32>,
    /// For each word where it begins and ends in the dictionary's bytes; empty if 32 bits do not tell.
    spans: Vec<[u32; 2]>,
}

impl WordTable {
    fn new(dictionary: &Dictionary) -> WordTable {
        let mut tokens = dictionary.word_offsets();
        let mut word_of = vec![GAP; dictionary.len() as usize];
        for (word, range) in (0..).zip(tokens.windows(2)) {
            word_of[range[0] as usize..range[1] as usize].fill(word);
        }
        tokens.pop();
        let offsets = dictionary.offsets();
        let span = |&token: &u32| {
            let range = [offsets[token as usize], offsets[token as usize + 1]];
            let start = range[0] + u64::from(dictionary.has_glued_space(token));
            // All offsets fit, or there are no spans.
            [start as u32, range[1] as u32]
        };
        let spans = match u32::try_from(dictionary.bytes().len()) {
            Ok(_) => tokens.iter().map(span).collect(),
            Err(_) => Vec::new(),
        };
        WordTable {
            word_of,
            tokens,
            spans,
        }
    }
}

/// One live segment and what queries have built of it.
pub(crate) struct SegmentView {
    parts: Parts,
    /// How many threads build what is kept.
    threads: usize,
    /// There once the order of the dictionary has been checked.
    ordered: OnceLock<()>,
    index: OnceLock<WordIndex>,
    words: OnceLock<WordTable>,
    word_grammar: OnceLock<WordGrammar>,
    word_uses: OnceLock<WordUses>,
    word_lengths: OnceLock<Lengths>,
    word_signatures: OnceLock<Signatures>,
    /// There once the weights of words have been checked against the file table.
    counted: OnceLock<()>,
    rule_ends: OnceLock<RuleEnds>,
    /// Lengths of the grammar over tokens, in words.
    token_words: OnceLock<Lengths>,
    lengths: OnceLock<Lengths>,
    text: OnceLock<SymbolText>,
    signatures: OnceLock<Signatures>,
    parents: Kept<Parents>,
    /// All places of all words, by [`Unit`]; none where they take too much.
    places: [Kept<Option<WordPlaces>>; 2],
    kept_ngrams: KeptNgrams,
    /// What questions took whose files were decoded alone, about.
    spent_alone: Spent,
    /// For each word its files with counts.
    word_files: OnceLock<Arc<CountTable>>,
    /// For each file its words with counts.
    file_words: OnceLock<Arc<CountTable>>,
    /// What counts of words in files took because `word_files` was not there.
    spent_counting: Spent,
    residence: Residence,
}

/// The token that holds `place` of the segment, which lies in `file`, by lengths in one unit: where it begins in another
/// unit, the token, and how far in it the place is.
fn descend(
    view: GrammarView<'_>,
    lengths: &Lengths,
    others: &Lengths,
    file: u32,
    place: u64,
) -> (u64, u32, u64) {
    let (root_position, mut rest) = lengths.find_in_root(view, file, place);
    let mut start = others.root_start(view, root_position);
    let mut symbol = view.root[root_position];
    while let Some(rule) = view.rule(symbol) {
        let index;
        (index, rest) = lengths.find_in_body(view, rule, rest);
        start += others.body_start(view, rule, index);
        symbol = view.body(rule)[index];
    }
    (start, symbol, rest)
}

impl SegmentView {
    /// A view of a stored segment, of which nothing is looked at yet, in a database of so many threads.
    pub(crate) fn new(segment: Arc<Segment>, threads: usize) -> SegmentView {
        SegmentView::of(Parts::Stored(segment), threads)
    }

    /// A view of plain data. The grammar must be a checked one.
    #[cfg(test)]
    pub(crate) fn in_memory(
        id: u64,
        files: Vec<FileEntry>,
        dictionary: Dictionary,
        grammar: Grammar,
    ) -> SegmentView {
        let parts = PlainParts {
            id,
            files,
            dictionary,
            grammar,
        };
        SegmentView::of(Parts::Memory(Box::new(parts)), 1)
    }

    fn of(parts: Parts, threads: usize) -> SegmentView {
        SegmentView {
            parts,
            threads,
            ordered: OnceLock::new(),
            index: OnceLock::new(),
            words: OnceLock::new(),
            word_grammar: OnceLock::new(),
            word_uses: OnceLock::new(),
            word_lengths: OnceLock::new(),
            word_signatures: OnceLock::new(),
            counted: OnceLock::new(),
            rule_ends: OnceLock::new(),
            token_words: OnceLock::new(),
            lengths: OnceLock::new(),
            text: OnceLock::new(),
            signatures: OnceLock::new(),
            parents: Kept::new(),
            places: [Kept::new(), Kept::new()],
            kept_ngrams: KeptNgrams::new(),
            spent_alone: Spent::new(),
            word_files: OnceLock::new(),
            file_words: OnceLock::new(),
            spent_counting: Spent::new(),
            residence: Residence::new(),
        }
    }

    /// The segment's number in its database.
    pub(crate) fn id(&self) -> u64 {
        match &self.parts {
            Parts::Stored(segment) => segment.id(),
            #[cfg(test)]
            Parts::Memory(parts) => parts.id,
        }
    }

    /// Its place in the memory of devices.
    pub(crate) fn residence(&self) -> &Residence {
        &self.residence
    }

    /// Whether the answer to some work is there already.
    pub(crate) fn has_answer(&self, task: Task) -> bool {
        let counts = self.word_files.get().is_some() || self.file_words.get().is_some();
        task == Task::FileCounts && counts
    }

    /// What the segment file says of itself; none of plain data.
    pub(crate) fn header(&self) -> Option<&SegmentHeader> {
        match &self.parts {
            Parts::Stored(segment) => Some(segment.header()),
            #[cfg(test)]
            Parts::Memory(_) => None,
        }
    }

    /// How many bytes of text it has; nothing is decoded for it.
    pub(crate) fn text_bytes(&self) -> u64 {
        match &self.parts {
            Parts::Stored(segment) => segment.info().bytes,
            #[cfg(test)]
            Parts::Memory(parts) => parts.files.iter().map(|file| file.bytes).sum(),
        }
    }

    /// Symbols of bodies and root, and tokens; nothing is decoded for it.
    pub(crate) fn size(&self) -> (u64, u64) {
        match &self.parts {
            Parts::Stored(segment) => {
                let info = segment.info();
                (info.symbols + info.root_symbols, u64::from(info.tokens))
            }
            #[cfg(test)]
            Parts::Memory(parts) => {
                let grammar = &parts.grammar;
                let symbols = grammar.symbols.len() + grammar.root.len();
                (symbols as u64, u64::from(grammar.terminal_count))
            }
        }
    }

    pub(crate) fn inconsistent(&self, reason: impl Into<String>) -> Error {
        Error::Inconsistent {
            segment: self.id(),
            reason: reason.into(),
        }
    }

    /// The file table.
    pub(crate) fn files(&self) -> Result<&[FileEntry]> {
        match &self.parts {
            Parts::Stored(segment) => Ok(segment.files()?),
            #[cfg(test)]
            Parts::Memory(parts) => Ok(&parts.files),
        }
    }

    /// The dictionary, whose words are in order: whoever looks words up relies on it, and the store knows no folding.
    pub(crate) fn dictionary(&self) -> Result<&Dictionary> {
        let dictionary = match &self.parts {
            Parts::Stored(segment) => segment.dictionary()?,
            #[cfg(test)]
            Parts::Memory(parts) => &parts.dictionary,
        };
        build_once(&self.ordered, || match order_fault(dictionary) {
            None => Ok(()),
            Some(fault) => Err(self.inconsistent(fault)),
        })?;
        Ok(dictionary)
    }

    fn grammar(&self) -> Result<&Grammar> {
        match &self.parts {
            Parts::Stored(segment) => Ok(segment.grammar()?),
            #[cfg(test)]
            Parts::Memory(parts) => Ok(&parts.grammar),
        }
    }

    /// The grammar.
    pub(crate) fn view(&self) -> Result<GrammarView<'_>> {
        let grammar = self.grammar()?;
        let files = self.files()?.len();
        let roots = grammar.root_offsets.len().saturating_sub(1);
        if roots != files {
            return Err(self.inconsistent(format!("{files} files, but roots for {roots}")));
        }
        let tokens = self.dictionary()?.len();
        if grammar.terminal_count != tokens {
            let terminals = grammar.terminal_count;
            return Err(self.inconsistent(format!("{tokens} tokens, but {terminals} terminals")));
        }
        Ok(GrammarView {
            terminal_count: grammar.terminal_count,
            rule_offsets: &grammar.rule_offsets,
            symbols: &grammar.symbols,
            level_offsets: &grammar.level_offsets,
            root_offsets: &grammar.root_offsets,
            root: &grammar.root,
        })
    }

    /// The tokens of a word; none if the segment does not have it.
    pub(crate) fn find_word(&self, word: &[u8]) -> Result<WordTerminals> {
        let dictionary = self.dictionary()?;
        let index = build_once(&self.index, || Ok(WordIndex::new(dictionary)))?;
        Ok(index.find(dictionary, word))
    }

    /// How many words the dictionary has. They are numbered in its order.
    pub(crate) fn word_count(&self) -> Result<u32> {
        // At most the number of tokens.
        Ok(self.word_table()?.tokens.len() as u32)
    }

    /// The word with a number below [`SegmentView::word_count`], which was asked for before.
    pub(crate) fn word(&self, number: u32) -> &[u8] {
        self.texts()(number)
    }

    /// Gives words by their numbers, as [`SegmentView::word`]; for whoever wants many.
    pub(crate) fn texts<'a>(&'a self) -> impl Fn(u32) -> &'a [u8] {
        let table = self.words.get().expect("words have been counted");
        let dictionary = self.dictionary().expect("decoded when words were counted");
        let bytes = dictionary.bytes();
        move |number| match table.spans.get(number as usize) {
            Some(&[start, end]) => &bytes[start as usize..end as usize],
            None => dictionary.word(table.tokens[number as usize]),
        }
    }

    /// The number of a word; none if the segment does not have it.
    pub(crate) fn word_number(&self, word: &[u8]) -> Result<Option<u32>> {
        self.number_of(self.find_word(word)?)
    }

    /// The number of the word with these tokens.
    pub(crate) fn number_of(&self, tokens: WordTerminals) -> Result<Option<u32>> {
        if tokens.first == tokens.end {
            return Ok(None);
        }
        Ok(Some(self.word_table()?.word_of[tokens.first as usize]))
    }

    /// For each token its word, or [`GAP`].
    pub(crate) fn word_of(&self) -> Result<&[u32]> {
        Ok(&self.word_table()?.word_of)
    }

    fn word_table(&self) -> Result<&WordTable> {
        build_once(&self.words, || Ok(WordTable::new(self.dictionary()?)))
    }

    /// The grammar over words.
    pub(crate) fn word_grammar(&self) -> Result<&WordGrammar> {
        build_once(&self.word_grammar, || {
            let (word_of, words) = (self.word_of()?, self.word_count()?);
            let grammar = WordGrammar::new(self.view()?, word_of, words);
            match self.stored_totals()? {
                Some(totals) if totals != &grammar.weights()[..words as usize] => {
                    Err(self.inconsistent("a word does not occur as often as it says"))
                }
                _ => Ok(grammar),
            }
        })
    }

    /// How often each word occurs, if the segment file says so.
    fn stored_totals(&self) -> Result<Option<&[u32]>> {
        match &self.parts {
            Parts::Stored(segment) => Ok(segment.totals()?),
            #[cfg(test)]
            Parts::Memory(_) => Ok(None),
        }
    }

    /// Whether there is all that a device is given.
    pub(crate) fn has_grammar_of(&self, kind: Kind) -> bool {
        match kind {
            Kind::Words => self.word_grammar.get().is_some(),
            Kind::Lookups => self.signatures.get().is_some(),
        }
    }

    /// Where each symbol of the grammar over words is used.
    pub(crate) fn word_uses(&self) -> Result<&WordUses> {
        let grammar = self.word_grammar()?;
        build_once(&self.word_uses, || Ok(WordUses::new(grammar.view())))
    }

    /// How often each word occurs in the segment: as its file says, or its grammar, which is compared with that once it is
    /// there.
    pub(crate) fn totals(&self) -> Result<&[u32]> {
        let totals = match self.stored_totals()? {
            Some(totals) => totals,
            None => &self.word_grammar()?.weights()[..self.word_count()? as usize],
        };
        self.check_totals(totals)?;
        Ok(totals)
    }

    /// Checks counts of all words against the file table.
    pub(crate) fn check_totals(&self, totals: &[u32]) -> Result<()> {
        build_once(&self.counted, || {
            let words: u64 = totals.iter().map(|&count| u64::from(count)).sum();
            let mut files = self.files()?.iter();
            let listed = files.try_fold(0u64, |sum, file| sum.checked_add(file.words));
            match listed == Some(words) {
                true => Ok(()),
                false => {
                    Err(self.inconsistent("its text has not as many words as its file table says"))
                }
            }
        })
        .copied()
    }

    /// What is kept that n-grams come from.
    pub(crate) fn ngram_source(&self) -> Option<kept_ngrams::NgramStructure> {
        self.kept_ngrams.get(2).map(NgramSource::kind)
    }

    /// Lets `take` do something with what n-grams are kept for and of.
    fn keep_ngrams<T>(
        &self,
        stop: &AtomicBool,
        take: impl FnOnce(&KeptNgrams, kept_ngrams::NgramOrigin<'_>) -> T,
    ) -> Result<T> {
        let of = kept_ngrams::NgramOrigin {
            grammar: self.word_grammar()?,
            uses: &|| self.word_uses(),
            stop,
        };
        Ok(take(&self.kept_ngrams, of))
    }

    #[cfg(test)]
    pub(crate) fn build_ngrams(&self, kind: kept_ngrams::NgramStructure) -> Result<()> {
        let stop = AtomicBool::new(false);
        self.keep_ngrams(&stop, |kept, of| kept.build(kind, of))?
    }

    /// The suffix array, if it is kept and has n-grams of so many words.
    pub(crate) fn kept_suffixes(&self, n: usize) -> Option<&WordSuffixes> {
        match self.kept_ngrams.get(n) {
            Some(NgramSource::Suffixes(suffixes)) => Some(suffixes),
            _ => None,
        }
    }

    /// All n-grams with their counts, in parts. `memory` bounds the bytes for windows.
    pub(crate) fn ngram_counts(
        &self,
        n: usize,
        memory: usize,
        stop: &AtomicBool,
    ) -> Result<Vec<NgramCounts>> {
        match self.kept_ngrams.get(n) {
            Some(NgramSource::Suffixes(suffixes)) => return Ok(suffixes.ngram_counts(n, stop)?),
            Some(NgramSource::Table(table)) => return Ok(table.ngram_counts(n, stop)?),
            None => (),
        }
        let grammar = self.word_grammar()?;
        let begin = Instant::now();
        let counts = ngram_counts(grammar.view(), grammar.weights(), n, memory, stop)?;
        self.keep_ngrams(stop, |kept, of| kept.spend(n, begin, of))?;
        Ok(counts)
    }

    /// All n-grams with the files that have them, in parts. `memory` bounds the bytes for windows.
    pub(crate) fn ngram_files(
        &self,
        n: usize,
        order: FileOrder,
        memory: usize,
        stop: &AtomicBool,
    ) -> Result<Vec<NgramFiles>> {
        match self.kept_ngrams.get(n) {
            Some(NgramSource::Suffixes(suffixes)) => {
                return Ok(suffixes.ngram_file_counts(n, order, stop)?);
            }
            Some(NgramSource::Table(table)) => {
                return Ok(table.ngram_file_counts(n, order, stop)?);
            }
            None => (),
        }
        let (grammar, uses) = (self.word_grammar()?, self.word_uses()?);
        let (view, weights) = (grammar.view(), grammar.weights());
        let begin = Instant::now();
        let files = ngram_file_counts(view, weights, uses, n, order, memory, stop)?;
        self.keep_ngrams(stop, |kept, of| kept.spend(n, begin, of))?;
        Ok(files)
    }

    /// How often an n-gram occurs in the segment's files, told by the segment's numbers of its words.
    pub(crate) fn ngram_count(&self, words: &[u32], stop: &AtomicBool) -> Result<u64> {
        self.totals()?;
        match self.kept_ngrams.get(words.len()) {
            Some(NgramSource::Suffixes(suffixes)) => return Ok(suffixes.count(words)),
            Some(NgramSource::Table(table)) => return Ok(table.count(words)),
            None => (),
        }
        let (grammar, uses, ends) = (self.word_grammar()?, self.word_uses()?, self.rule_ends()?);
        let (view, weights) = (grammar.view(), grammar.weights());
        let begin = Instant::now();
        let count = ngram_count(view, uses, ends, weights, words, stop)?;
        self.keep_ngrams(stop, |kept, of| kept.spend(words.len(), begin, of))?;
        Ok(count)
    }

    /// Where an n-gram occurs: file, and number of its first word in it.
    pub(crate) fn ngram_positions(
        &self,
        words: &[u32],
        stop: &AtomicBool,
    ) -> Result<Vec<(u32, u64)>> {
        if let Some(NgramSource::Suffixes(suffixes)) = self.kept_ngrams.get(words.len()) {
            return Ok(suffixes.positions(words));
        }
        let (grammar, uses, ends) = (self.word_grammar()?, self.word_uses()?, self.rule_ends()?);
        let view = grammar.view();
        let lengths = self.word_lengths(view)?;
        let begin = Instant::now();
        let positions = ngram_positions(view, uses, ends, lengths, words, stop)?;
        self.keep_ngrams(stop, |kept, of| {
            kept.spend_on_places(words.len(), begin, of)
        })?;
        Ok(positions)
    }

    fn rule_ends(&self) -> Result<&RuleEnds> {
        let view = self.word_grammar()?.view();
        build_once(&self.rule_ends, || Ok(RuleEnds::new(view)))
    }

    /// The offset of the word's own first byte of word number `position`, which the file has.
    ///
    /// Work: one step down the grammar a level.
    pub(crate) fn offset_of_word(&self, file: u32, position: u64) -> Result<u64> {
        let view = self.view()?;
        let (words, bytes) = (self.token_words(view)?, self.lengths(view)?);
        let start = words.file_range(file).start;
        let (offset, token, _) = descend(view, words, bytes, file, start + position);
        let space = u64::from(self.dictionary()?.has_glued_space(token));
        Ok(offset - bytes.file_range(file).start + space)
    }

    /// How many words of a file begin before byte `offset` of it, which the file has.
    ///
    /// Work: one step down the grammar a level.
    pub(crate) fn words_before(&self, file: u32, offset: u64) -> Result<u64> {
        let view = self.view()?;
        let (words, bytes) = (self.token_words(view)?, self.lengths(view)?);
        let start = bytes.file_range(file).start;
        let (before, token, rest) = descend(view, bytes, words, file, start + offset);
        let before = before - words.file_range(file).start;
        let dictionary = self.dictionary()?;
        let is_word = token < dictionary.word_tokens();
        let space = u64::from(is_word && dictionary.has_glued_space(token));
        Ok(before + u64::from(is_word && rest > space))
    }

    /// Lengths of the grammar over tokens, in words.
    fn token_words(&self, view: GrammarView<'_>) -> Result<&Lengths> {
        build_once(&self.token_words, || {
            let word_tokens = self.dictionary()?.word_tokens();
            let words = Lengths::new(view, |token| u64::from(token < word_tokens));
            let counted = words
                .file_starts
                .windows(2)
                .map(|range| range[1] - range[0]);
            match counted.eq(self.files()?.iter().map(|file| file.words)) {
                true => Ok(words),
                false => Err(self.inconsistent("a file has not as many words as it says")),
            }
        })
    }

    /// How often a word occurs in the segment.
    pub(crate) fn count(&self, word: &[u8]) -> Result<u64> {
        self.count_number(self.word_number(word)?)
    }

    /// How often the word with a number occurs in the segment; 0 if there is none.
    fn count_number(&self, number: Option<u32>) -> Result<u64> {
        match number {
            None => Ok(0),
            Some(number) => Ok(u64::from(self.totals()?[number as usize])),
        }
    }

    /// How often a word occurs in a file.
    pub(crate) fn count_in_file(&self, file: u32, word: WordTerminals) -> Result<u64> {
        if word.first == word.end {
            return Ok(0);
        }
        if self.files()?.len() == 1 {
            return self.count_number(self.number_of(word)?);
        }
        if let Some(table) = self.word_files.get() {
            let number = self.number_of(word)?;
            let files = number.map_or(&[][..], |number| table.row(number as usize));
            let found = files.binary_search_by_key(&file, |&(file, _)| file);
            return Ok(found.map_or(0, |at| u64::from(files[at].1)));
        }
        if let Some(count) = self.ask_alone(file, |alone| alone.count(word))? {
            return Ok(count);
        }
        let begin = Instant::now();
        let view = self.view()?;
        let tokens = self.about_tokens(view, file)?;
        let parents = self.parents(view, view.root_range(file), tokens)?;
        let signatures = self.signatures(view)?;
        let terminals = word.first..word.end;
        let count = count_in_file(view, parents, signatures, terminals, file, tokens);
        self.spent_counting.add_since(begin);
        let (symbols, _) = self.size();
        let price = symbols * COUNT_ALL_SYMBOL_COST;
        let count_all = || self.word_files(&AtomicBool::new(false)).map(|_| ());
        self.spent_counting.build_if_due(price, count_all)?;
        Ok(count)
    }

    /// A row for each word: its files with counts. Kept: 8 bytes a word and file.
    pub(crate) fn word_files(&self, stop: &AtomicBool) -> Result<&Arc<CountTable>> {
        build_once(&self.word_files, || {
            if self.files()?.len() == 1 {
                return Ok(Arc::new(self.only_file()?.transposed(self.totals()?.len())));
            }
            if let Some(table) = self.file_words.get() {
                return Ok(Arc::new(table.transposed(self.totals()?.len())));
            }
            let view = self.word_grammar()?.view();
            Ok(Arc::new(word_file_counts(view, self.counting(), stop)?))
        })
    }

    /// A row for each file: its words with counts. Kept: 8 bytes a word and file.
    pub(crate) fn file_words(&self, stop: &AtomicBool) -> Result<&Arc<CountTable>> {
        build_once(&self.file_words, || {
            if let Some(table) = self.word_files.get() {
                return Ok(Arc::new(table.transposed(self.files()?.len())));
            }
            if self.files()?.len() == 1 {
                return Ok(Arc::new(self.only_file()?));
            }
            let view = self.word_grammar()?.view();
            Ok(Arc::new(file_word_counts(view, self.counting(), stop)?))
        })
    }

    /// How its words would be counted by file; nothing is decoded for it.
    fn counting(&self) -> FileCounting {
        match &self.parts {
            Parts::Stored(segment) => {
                let info = segment.info();
                let files = u64::from(info.files);
                FileCounting::cheapest(files, info.symbols, info.root_symbols, info.words)
            }
            #[cfg(test)]
            Parts::Memory(parts) => {
                let grammar = &parts.grammar;
                let symbols = (grammar.symbols.len() as u64, grammar.root.len() as u64);
                let words = parts.files.iter().map(|file| file.words).sum();
                FileCounting::cheapest(parts.files.len() as u64, symbols.0, symbols.1, words)
            }
        }
    }

    /// Where counts of words by file come from.
    pub(crate) fn counts_source(&self) -> &'static str {
        match self.counting() {
            _ if self.has_answer(Task::FileCounts) => "kept",
            _ if self.files().is_ok_and(|files| files.len() == 1) => "totals",
            FileCounting::Rules => "by rules",
            FileCounting::Words => "by words",
        }
    }

    /// Keeps a table that a device has made.
    pub(crate) fn keep_word_files(&self, table: CountTable) -> Arc<CountTable> {
        self.word_files.get_or_init(|| Arc::new(table)).clone()
    }

    /// Likewise.
    pub(crate) fn keep_file_words(&self, table: CountTable) -> Arc<CountTable> {
        self.file_words.get_or_init(|| Arc::new(table)).clone()
    }

    /// The words of the only file with their counts.
    fn only_file(&self) -> Result<CountTable> {
        let counts = (0..).zip(self.totals()?.iter().copied());
        let entries: Vec<(u32, u32)> = counts.filter(|&(_, count)| count > 0).collect();
        Ok(CountTable {
            offsets: vec![0, entries.len()],
            entries,
        })
    }

    /// The words that occur in a file, ascending, and how often.
    pub(crate) fn word_counts(&self, file: u32) -> Result<Vec<(u32, u64)>> {
        let word_of = self.word_of()?;
        if let Some(counts) = self.ask_alone(file, |alone| alone.word_counts(word_of))? {
            return Ok(counts);
        }
        let view = self.word_grammar()?.view();
        let entry = &self.files()?[file as usize];
        Ok(file_weights(view, file, entry.words, entry.words))
    }

    /// Where words are, if that is kept: counted in bytes or words from the start of the segment.
    fn places(&self, unit: Unit, stop: &AtomicBool) -> Result<Option<&WordPlaces>> {
        let build = || {
            let lengths = self.lengths_in(unit)?;
            let places = match unit {
                Unit::Bytes => {
                    let (dictionary, word_of) = (self.dictionary()?, self.word_of()?);
                    let word = |token: u32| match word_of[token as usize] {
                        GAP => (GAP, 0),
                        word => (word, u32::from(dictionary.has_glued_space(token))),
                    };
                    WordPlaces::new(self.view()?, lengths, self.word_count()?, word, stop)?
                }
                Unit::Words => {
                    let view = self.word_grammar()?.view();
                    WordPlaces::new(view, lengths, view.terminal_count, |word| (word, 0), stop)?
                }
            };
            Ok(places)
        };
        let kept = self.places[unit as usize].get_or_build(self.places_price(), build)?;
        Ok(kept.and_then(Option::as_ref))
    }

    #[cfg(test)]
    pub(crate) fn build_places(&self) -> Result<()> {
        for unit in [Unit::Bytes, Unit::Words] {
            self.places[unit as usize].spent.make_due();
            self.places(unit, &AtomicBool::new(false))?;
        }
        Ok(())
    }

    /// Nanoseconds that finding all places takes, about.
    fn places_price(&self) -> u64 {
        let (symbols, _) = self.size();
        // Below 2^39.
        (symbols as f64 * PLACES_BUILD_COST / self.threads as f64) as u64
    }

    /// The places of a word in a file, counted from its start, if places are kept.
    fn kept_in_file(
        &self,
        unit: Unit,
        file: u32,
        word: WordTerminals,
        stop: &AtomicBool,
    ) -> Result<Option<Vec<u64>>> {
        let Some(places) = self.places(unit, stop)? else {
            return Ok(None);
        };
        let range = self.lengths_in(unit)?.file_range(file);
        let start = range.start;
        let mut found = match self.number_of(word)? {
            Some(number) => places.places(number, range),
            None => Vec::new(),
        };
        for place in &mut found {
            *place -= start;
        }
        Ok(Some(found))
    }

    /// Lengths of the grammar that has its places counted so.
    fn lengths_in(&self, unit: Unit) -> Result<&Lengths> {
        match unit {
            Unit::Bytes => self.lengths(self.view()?),
            Unit::Words => self.word_lengths(self.word_grammar()?.view()),
        }
    }

    /// Lengths of the grammar over words, in words.
    fn word_lengths(&self, view: GrammarView<'_>) -> Result<&Lengths> {
        build_once(&self.word_lengths, || Ok(Lengths::new(view, |_| 1)))
    }

    /// The offsets of a word in each file that has it, files ascending.
    pub(crate) fn locate(
        &self,
        word: WordTerminals,
        stop: &AtomicBool,
    ) -> Result<Vec<(u32, Vec<u64>)>> {
        if word.first == word.end {
            return Ok(Vec::new());
        }
        let view = self.view()?;
        let offsets = match self.places(Unit::Bytes, stop)? {
            Some(places) => places.places(self.word_of()?[word.first as usize], 0..u64::MAX),
            None => {
                let begin = Instant::now();
                let range = 0..view.root.len();
                let tokens = self.bytes()? / BYTES_A_TOKEN;
                let structures = self.structures(view, range.clone(), tokens)?;
                let offsets = locate(structures, word, range, tokens);
                self.places[Unit::Bytes as usize].spent.add_since(begin);
                offsets
            }
        };
        let starts = &self.lengths(view)?.file_starts;
        let mut rest = &offsets[..];
        let mut files = Vec::new();
        while let Some(&first) = rest.first() {
            // The last file that starts at or before it: empty ones lie before.
            let file = starts[..starts.len() - 1].partition_point(|&start| start <= first) - 1;
            let inside = rest.partition_point(|&offset| offset < starts[file + 1]);
            let (these, others) = rest.split_at(inside);
            let these = these.iter().map(|offset| offset - starts[file]).collect();
            // A segment's files are counted by a u32.
            files.push((file as u32, these));
            rest = others;
        }
        Ok(files)
    }

    /// The offsets of a word in a file.
    pub(crate) fn locate_in_file(
        &self,
        file: u32,
        word: WordTerminals,
        stop: &AtomicBool,
    ) -> Result<Vec<u64>> {
        if word.first == word.end {
            return Ok(Vec::new());
        }
        if let Some(offsets) = self.kept_in_file(Unit::Bytes, file, word, stop)? {
            return Ok(offsets);
        }
        if let Some(offsets) = self.ask_alone(file, |alone| alone.locate(word))? {
            return Ok(offsets);
        }
        let view = self.view()?;
        let tokens = self.about_tokens(view, file)?;
        let begin = Instant::now();
        let structures = self.structures(view, view.root_range(file), tokens)?;
        let offsets = locate_in_file(structures, word, file, tokens);
        self.places[Unit::Bytes as usize].spent.add_since(begin);
        Ok(offsets)
    }

    /// The positions, counted in words, of a word in a file.
    pub(crate) fn positions_in_file(
        &self,
        file: u32,
        word: WordTerminals,
        stop: &AtomicBool,
    ) -> Result<Vec<u64>> {
        let Some(number) = self.number_of(word)? else {
            return Ok(Vec::new());
        };
        if let Some(positions) = self.kept_in_file(Unit::Words, file, word, stop)? {
            return Ok(positions);
        }
        if let Some(positions) = self.ask_alone(file, |alone| alone.positions(word))? {
            return Ok(positions);
        }
        let view = self.word_grammar()?.view();
        let structures = Structures {
            view,
            lengths: self.word_lengths(view)?,
            signatures: build_once(&self.word_signatures, || Ok(Signatures::new(view, |w| w)))?,
            parents: Some(&self.word_uses()?.parents),
        };
        let terminals = WordTerminals {
            first: number,
            spaced: number + 1,
            end: number + 1,
        };
        let words = self.files()?[file as usize].words;
        let begin = Instant::now();
        let positions = locate_in_file(structures, terminals, file, words);
        self.places[Unit::Words as usize].spent.add_since(begin);
        Ok(positions)
    }

    /// Some bytes of a file.
    pub(crate) fn extract(&self, file: u32, offset: u64, length: u64) -> Result<Vec<u8>> {
        if let Some(bytes) = self.ask_alone(file, |alone| alone.extract(offset, length))? {
            return Ok(bytes);
        }
        Ok(extract(self.content()?, file, offset, length))
    }

    /// Writes a file; the inner error is the target's.
    pub(crate) fn write_content(
        &self,
        file: u32,
        target: &mut dyn io::Write,
    ) -> Result<io::Result<()>> {
        if let Some(bytes) = self.ask_alone(file, |alone| alone.extract(0, u64::MAX))? {
            return Ok(target.write_all(&bytes));
        }
        Ok(expand_file(self.content()?, file, target))
    }

    /// The answer of a file whose root alone is decoded; none if the roots of all files are, or it is time to decode them.
    fn ask_alone<A>(
        &self,
        file: u32,
        answer: impl FnOnce(OneFile<'_>) -> std::result::Result<A, Mismatch>,
    ) -> Result<Option<A>> {
        let segment = match &self.parts {
            Parts::Stored(segment) if !segment.has_grammar() => segment,
            _ => return Ok(None),
        };
        let (info, entry) = (segment.info(), &self.files()?[file as usize]);
        let tokens = entry.words.max(entry.bytes / GAP_BYTES);
        let cost = tokens
            .saturating_mul(ALONE_TOKEN_COST)
            .saturating_add(ALONE_COST);
        // Below 2^39.
        let price = (info.symbols + info.root_symbols) * ALL_SYMBOL_COST;
        self.spent_alone.add(cost.min(price));
        if self.spent_alone.is_due(price) {
            return Ok(None);
        }
        let dictionary = self.dictionary()?;
        let bodies = segment.bodies()?;
        let alone = OneFile {
            dictionary,
            entry,
            root: segment.root_of(&bodies, file)?,
            bodies,
        };
        answer(alone)
            .map(Some)
            .map_err(|misfit| self.inconsistent(misfit))
    }

    /// Whether places of words are kept.
    pub(crate) fn has_places(&self, unit: Unit) -> bool {
        let places = self.places[unit as usize].get();
        places.is_some_and(Option::is_some)
    }

    /// Whether words are counted in files by a look-up in a table.
    pub(crate) fn can_count_now(&self) -> bool {
        let is_single = || self.files().is_ok_and(|files| files.len() == 1);
        self.word_files.get().is_some() || (self.counted.get().is_some() && is_single())
    }

    /// Whether bytes are extracted without building anything first.
    pub(crate) fn can_extract_now(&self) -> bool {
        self.text.get().is_some()
    }

    /// Whether the bytes where words begin are told without building anything first.
    pub(crate) fn can_tell_offsets_now(&self) -> bool {
        self.token_words.get().is_some() && self.lengths.get().is_some()
    }

    /// Builds what counts in files need.
    pub(crate) fn prepare_counts(&self) -> Result<()> {
        self.signatures(self.view()?).map(|_| ())
    }

    /// Builds what offsets need.
    pub(crate) fn prepare_offsets(&self) -> Result<()> {
        let view = self.view()?;
        self.signatures(view)?;
        self.lengths(view).map(|_| ())
    }

    /// Whether the roots of all files are decoded.
    #[cfg(test)]
    pub(crate) fn has_grammar(&self) -> bool {
        match &self.parts {
            Parts::Stored(segment) => segment.has_grammar(),
            Parts::Memory(_) => true,
        }
    }

    #[cfg(test)]
    pub(crate) fn has_parents(&self) -> bool {
        self.parents.get().is_some()
    }

    fn bytes(&self) -> Result<u64> {
        let sum = (self.files()?.iter()).try_fold(0u64, |sum, file| sum.checked_add(file.bytes));
        sum.ok_or_else(|| self.inconsistent("its files are too long"))
    }

    /// About how many tokens a file has: its words, or what its size or its root say.
    fn about_tokens(&self, view: GrammarView<'_>, file: u32) -> Result<u64> {
        let entry = &self.files()?[file as usize];
        let root = view.root_range(file).len() as u64;
        Ok(entry.words.max(entry.bytes / GAP_BYTES).max(root))
    }

    /// Lengths in bytes, which are those of the file table.
    pub(crate) fn lengths(&self, view: GrammarView<'_>) -> Result<&Lengths> {
        build_once(&self.lengths, || {
            let dictionary = self.dictionary()?;
            let lengths = Lengths::new(view, |t| dictionary.token(t).len() as u64);
            for (number, file) in (0..).zip(self.files()?) {
                let range = lengths.file_range(number);
                // Saturated sums are the end of a range, and no file's length.
                if range.end == u64::MAX || range.end - range.start != file.bytes {
                    let (name, bytes) = (&file.name, file.bytes);
                    return Err(self.inconsistent(format!("file \"{name}\" has not {bytes} bytes")));
                }
            }
            Ok(lengths)
        })
    }

    pub(crate) fn signatures(&self, view: GrammarView<'_>) -> Result<&Signatures> {
        build_once(&self.signatures, || {
            let dictionary = self.dictionary()?;
            let words = dictionary.word_tokens();
            let group = |terminal: u32| {
                let is_second = terminal < words && dictionary.is_second_token(terminal);
                terminal - u32::from(is_second)
            };
            Ok(Signatures::new(view, group))
        })
    }

    /// What extracts read; built if it is not there.
    pub(crate) fn content(&self) -> Result<Content<'_>> {
        let view = self.view()?;
        let lengths = self.lengths(view)?;
        let text = build_once(&self.text, || {
            let dictionary = self.dictionary()?;
            let bytes: u64 = dictionary.iter().map(|token| token.len() as u64).sum();
            if u32::try_from(bytes).is_err() {
                return Err(self.inconsistent("its tokens have 4 GiB or more"));
            }
            Ok(SymbolText::new(view, lengths, |t| dictionary.token(t)))
        })?;
        Ok(Content {
            view,
            lengths,
            text,
        })
    }

    fn structures<'a>(
        &'a self,
        view: GrammarView<'a>,
        positions: Range<usize>,
        tokens: u64,
    ) -> Result<Structures<'a>> {
        Ok(Structures {
            view,
            lengths: self.lengths(view)?,
            signatures: self.signatures(view)?,
            parents: self.parents(view, positions, tokens)?,
        })
    }

    /// The parents, if they are there or it is time to build them.
    fn parents(
        &self,
        view: GrammarView<'_>,
        positions: Range<usize>,
        tokens: u64,
    ) -> Result<Option<&Parents>> {
        if let Some(parents) = self.parents.get() {
            return Ok(Some(parents));
        }
        let cost = cost_without_parents(view, positions, tokens);
        let price = (view.symbols.len() + view.root.len()) as u64 * PARENTS_SYMBOL_COST;
        self.parents.spent.add(cost.min(price));
        self.parents.get_or_build(price, || Ok(Parents::new(view)))
    }

    #[cfg(test)]
    pub(crate) fn make_parents_due(&self) {
        self.parents.spent.make_due();
    }
}

/// Nanoseconds that a file takes whose root alone is decoded, about: two chunks of the root at least, and its tokens.
const ALONE_COST: u64 = 1_000_000;
const ALONE_TOKEN_COST: u64 = 40;

/// Nanoseconds that decoding all roots and building what look-ups need takes for each symbol, about.
const ALL_SYMBOL_COST: u64 = 50;

/// Nanoseconds that counting all words in all files takes for each symbol, about.
const COUNT_ALL_SYMBOL_COST: u64 = 30;

/// What a token of a long gap has.
const GAP_BYTES: u64 = tokenize::GAP_BYTES_MAX as u64;

/// About what a token has in text.
const BYTES_A_TOKEN: u64 = 5;

/// What `cell` holds; if nothing, what `build` makes. Builds without a lock:
/// see the module.
fn build_once<T>(cell: &OnceLock<T>, build: impl FnOnce() -> Result<T>) -> Result<&T> {
    if let Some(built) = cell.get() {
        return Ok(built);
    }
    let built = build()?;
    Ok(cell.get_or_init(|| built))
}
