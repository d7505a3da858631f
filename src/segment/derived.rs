//! The derived structures of a segment: built of its parts to answer more, or faster.
//!
//! Invariant: each is a function of the parts alone, so it can be evicted and built again. A structure that contradicts the file
//! table is an error.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use memchr::memchr_iter;
use zipfdb_kernels::{
    CountTable, Expansions, GAP, Lengths, LongOrder, NgramTable, Parents, RowBits, RuleEnds,
    RuleFiles, Signatures, SymbolText, WordGrammar, WordPlaces, WordSuffixes, WordUses,
    file_word_counts, give_back_free_memory, word_file_counts,
};
use zipfdb_sql::quote;
use zipfdb_storage::Dictionary;

use super::data::view_of;
use super::segment_view::{SegmentStructure, SegmentView, Unit};
use super::structure::StructureKind;
use super::word_order::WordIndex;
use crate::Result;

/// The words of a dictionary, numbered in its order.
pub(crate) struct WordTable {
    /// For each token its word, or [`GAP`].
    pub(crate) word_of: Vec<u32>,
    /// For each word its first token.
    pub(crate) tokens: Vec<u32>,
    /// For each word the start and end of its bytes in the dictionary; empty if they do not fit into 32 bits.
    pub(crate) spans: Vec<[u32; 2]>,
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

/// The form of a token in a text.
#[derive(Clone, Copy)]
pub(crate) struct TokenForm {
    /// Its length.
    pub(crate) bytes: u32,
    /// Twice the number of its word, plus one if a space precedes the word in the token; or [`GAP`], which no word has: there are
    /// fewer than 2^31 tokens.
    form: u32,
}

impl TokenForm {
    /// Whether it is a word, or a space and a word, and no gap.
    #[inline]
    pub(crate) fn is_word(self) -> bool {
        self.form != GAP
    }

    /// Its word and the number of bytes before that; for a gap any numbers.
    #[inline]
    pub(crate) fn word(self) -> (u32, u32) {
        (self.form >> 1, self.form & 1)
    }
}

/// The forms of all tokens: words are read one after the other without their bytes.
pub(crate) struct TokenForms(pub(crate) Vec<TokenForm>);

/// Lengths of the grammar over words, in words.
pub(crate) struct WordLengths(pub(crate) Lengths);

/// Signatures of the grammar over words.
pub(crate) struct WordSignatures(pub(crate) Signatures);

/// Expansions of the grammar over words.
pub(crate) struct WordExpansions(pub(crate) Expansions);

/// Lengths of the grammar over tokens, in words.
pub(crate) struct TokenWords(pub(crate) Lengths);

/// Lengths of the grammar over tokens, in line feeds.
pub(crate) struct TokenLines(pub(crate) Lengths);

/// The offsets of each word in bytes from the start of the segment; none if they take too much memory.
pub(crate) struct Offsets(pub(crate) Option<WordPlaces>);

/// The positions of each word in words from the start of the segment; none if they take too much memory.
pub(crate) struct Positions(pub(crate) Option<WordPlaces>);

/// A row for each word: its files with counts.
pub(crate) struct WordFiles(pub(crate) Arc<CountTable>);

/// Bit sets of the files of words that many files have.
pub(crate) struct FileBits(pub(crate) RowBits);

/// A row for each file: its words with counts.
pub(crate) struct FileWords(pub(crate) Arc<CountTable>);

/// Implements [`SegmentStructure`] for a type: its kind, its bytes, and the code that makes it.
macro_rules! structure {
    ($name:ty, $kind:ident, |$structure:ident| $bytes:expr, |$segment:ident, $stop:pat_param| $made:expr) => {
        impl SegmentStructure for $name {
            const KIND: StructureKind = StructureKind::$kind;

            fn bytes(&self) -> usize {
                let $structure = self;
                $bytes
            }

            fn make($segment: &SegmentView, $stop: &AtomicBool) -> Result<Arc<$name>> {
                Ok(Arc::new($made))
            }
        }
    };
}

structure!(
    WordTable,
    Words,
    |table| size_of_val(&table.word_of[..])
        + size_of_val(&table.tokens[..])
        + size_of_val(&table.spans[..]),
    |segment, _| WordTable::new(segment.dictionary()?)
);

structure!(
    TokenForms,
    TokenForms,
    |forms| size_of_val(&forms.0[..]),
    |segment, _| {
        let (dictionary, word_of) = (segment.dictionary()?, segment.word_of()?);
        let forms = (0..).zip(word_of).map(|(token, &word)| {
            let bytes = u32::try_from(dictionary.token(token).len());
            let bytes = bytes.map_err(|_| segment.inconsistent("a token has 4 GiB or more"))?;
            let form = match word {
                GAP => GAP,
                word => word << 1 | u32::from(dictionary.has_glued_space(token)),
            };
            Ok(TokenForm { bytes, form })
        });
        TokenForms(forms.collect::<Result<_>>()?)
    }
);

structure!(WordIndex, WordIndex, |index| index.bytes(), |segment, _| {
    WordIndex::new(segment.dictionary()?)
});

structure!(
    WordGrammar,
    WordGrammar,
    |grammar| grammar.bytes(),
    |segment, _| {
        let (word_of, words) = (segment.word_of()?, segment.word_count()?);
        let grammar = if segment.has_grammar() {
            WordGrammar::new(segment.apart().view()?, word_of, words)
        } else {
            // Bodies decoded for this alone are not kept: they would double the memory of all words or n-grams.
            let had_bodies = segment.has(StructureKind::Bodies);
            let (rules, root_offsets, root) = segment.apart().rules_and_root()?;
            if !had_bodies {
                segment.slots().forget(StructureKind::Bodies as usize);
            }
            segment.budgets.roots.clear();
            give_back_free_memory();
            let rules = view_of(&rules, &root_offsets, &[]);
            WordGrammar::taking_root(rules, root, word_of, words)
        };
        match segment.stored_totals()? {
            Some(totals) if totals != &grammar.weights()[..words as usize] => {
                return Err(segment.inconsistent("a word does not occur as often as it says"));
            }
            _ => grammar,
        }
    }
);

structure!(WordUses, WordUses, |uses| uses.bytes(), |segment, _| {
    WordUses::new(segment.word_grammar()?.view())
});

structure!(
    RuleFiles,
    RuleFiles,
    |lists| lists.bytes(),
    |segment, stop| {
        let view = segment.word_grammar()?.view();
        let had_uses = segment.has(StructureKind::WordUses);
        let source = segment.apart();
        let lists = RuleFiles::new(view, source.word_uses()?, stop)?;
        drop(source);
        if !had_uses {
            // Phrases need the users, but not for what these lists answer.
            segment.slots().forget(StructureKind::WordUses as usize);
        }
        lists
    }
);

structure!(
    WordLengths,
    WordLengths,
    |lengths| lengths.0.bytes(),
    |segment, _| WordLengths(Lengths::new(segment.word_grammar()?.view(), |_| 1))
);

structure!(
    WordSignatures,
    WordSignatures,
    |signatures| signatures.0.bytes(),
    |segment, _| WordSignatures(Signatures::new(segment.word_grammar()?.view(), |word| word))
);

structure!(
    WordExpansions,
    WordExpansions,
    |expansions| expansions.0.bytes(),
    |segment, _| WordExpansions(Expansions::new(segment.word_grammar()?.view()))
);

structure!(RuleEnds, RuleEnds, |ends| ends.bytes(), |segment, _| {
    RuleEnds::new(segment.word_grammar()?.view())
});

structure!(
    TokenWords,
    TokenWords,
    |lengths| lengths.0.bytes(),
    |segment, _| {
        let word_tokens = segment.dictionary()?.word_tokens();
        let words = Lengths::new(segment.view()?, |token| u64::from(token < word_tokens));
        let starts = words.file_starts.windows(2);
        let counted = starts.map(|range| range[1] - range[0]);
        if counted.eq(segment.files()?.iter().map(|file| file.words)) {
            TokenWords(words)
        } else {
            return Err(
                segment.inconsistent("the number of words of a file differs from its file table")
            );
        }
    }
);

structure!(
    TokenLines,
    TokenLines,
    |lengths| lengths.0.bytes(),
    |segment, _| {
        let dictionary = segment.dictionary()?;
        let feeds = |token: u32| memchr_iter(b'\n', dictionary.token(token)).count() as u64;
        TokenLines(Lengths::new(segment.view()?, feeds))
    }
);

structure!(
    Expansions,
    TokenExpansions,
    |expansions| expansions.bytes(),
    |segment, _| Expansions::new(segment.view()?)
);

structure!(Lengths, Lengths, |lengths| lengths.bytes(), |segment, _| {
    let dictionary = segment.dictionary()?;
    let lengths = Lengths::new(segment.view()?, |t| dictionary.token(t).len() as u64);
    for (number, file) in (0..).zip(segment.files()?) {
        let range = lengths.file_range(number);
        // Saturated sums are the end of a range, and no file's length.
        if range.end == u64::MAX || range.end - range.start != file.bytes {
            let (name, bytes) = (&file.name, file.bytes);
            return Err(segment.inconsistent(format!("file {} has not {bytes} bytes", quote(name))));
        }
    }
    lengths
});

structure!(SymbolText, Text, |text| text.memory(), |segment, _| {
    let dictionary = segment.dictionary()?;
    let bytes: u64 = dictionary.iter().map(|token| token.len() as u64).sum();
    if u32::try_from(bytes).is_err() {
        return Err(segment.inconsistent("its tokens have 4 GiB or more"));
    }
    let view = segment.view()?;
    SymbolText::new(view, segment.lengths()?, |t| dictionary.token(t))
});

structure!(
    Signatures,
    Signatures,
    |signatures| signatures.bytes(),
    |segment, _| {
        let dictionary = segment.dictionary()?;
        let words = dictionary.word_tokens();
        let group = |terminal: u32| {
            let is_second = terminal < words && dictionary.is_second_token(terminal);
            terminal - u32::from(is_second)
        };
        Signatures::new(segment.view()?, group)
    }
);

structure!(Parents, Parents, |parents| parents.bytes(), |segment, _| {
    Parents::new(segment.view()?)
});

structure!(
    Offsets,
    Offsets,
    |offsets| offsets.0.as_ref().map_or(0, WordPlaces::bytes),
    |segment, stop| {
        if let Some(lists) = segment.lists_on_disk(Unit::Bytes)? {
            return Ok(Arc::new(Offsets(Some(lists))));
        }
        let (dictionary, word_of) = (segment.dictionary()?, segment.word_of()?);
        let word = |token: u32| match word_of[token as usize] {
            GAP => (GAP, 0),
            word => (word, u32::from(dictionary.has_glued_space(token))),
        };
        let (view, lengths) = (segment.view()?, segment.lengths()?);
        Offsets(WordPlaces::new(
            view,
            lengths,
            segment.word_count()?,
            word,
            stop,
        )?)
    }
);

structure!(
    Positions,
    Positions,
    |positions| positions.0.as_ref().map_or(0, WordPlaces::bytes),
    |segment, stop| {
        if let Some(lists) = segment.lists_on_disk(Unit::Words)? {
            return Ok(Arc::new(Positions(Some(lists))));
        }
        let (view, lengths) = (segment.word_grammar()?.view(), segment.word_lengths()?);
        Positions(WordPlaces::new(
            view,
            lengths,
            view.terminal_count,
            |word| (word, 0),
            stop,
        )?)
    }
);

structure!(
    WordSuffixes,
    Suffixes,
    |suffixes| suffixes.bytes(),
    |segment, stop| {
        if let Some(suffixes) = segment.suffixes_on_disk()? {
            return Ok(Arc::new(suffixes));
        }
        let grammar = segment.word_grammar()?;
        WordSuffixes::new(
            grammar.view(),
            grammar.weights(),
            segment.build_bytes(),
            stop,
        )?
    }
);

structure!(
    LongOrder,
    LongOrder,
    |order| order.bytes(),
    |segment, stop| LongOrder::new(segment.pin_until::<WordSuffixes>(stop)?, stop)?
);

structure!(
    NgramTable,
    NgramTable,
    |table| table.bytes(),
    |segment, stop| {
        if let Some(table) = segment.ngrams_on_disk()? {
            return Ok(Arc::new(table));
        }
        let (grammar, uses) = (segment.word_grammar()?, segment.word_uses()?);
        NgramTable::new(
            grammar.view(),
            grammar.weights(),
            uses,
            segment.build_bytes(),
            stop,
        )?
    }
);

structure!(
    WordFiles,
    WordFiles,
    |table| table.0.bytes(),
    |segment, stop| {
        let words = segment.totals()?.len();
        WordFiles(Arc::new(match segment.pinned::<FileWords>() {
            _ if segment.files()?.len() == 1 => segment.only_file()?.transposed(words),
            Some(table) => table.0.transposed(words),
            None => match segment.postings_table(stop)? {
                Some(table) => table,
                None => {
                    let view = segment.word_grammar()?.view();
                    word_file_counts(view, segment.counting(), stop)?
                }
            },
        }))
    }
);

structure!(
    FileBits,
    FileBits,
    |bits| bits.0.bytes(),
    |segment, stop| {
        let files = segment.files()?.len() as u32; // numbered by u32
        FileBits(RowBits::new(segment.word_files(stop)?, files))
    }
);

structure!(
    FileWords,
    FileWords,
    |table| table.0.bytes(),
    |segment, stop| {
        FileWords(Arc::new(match segment.pinned::<WordFiles>() {
            Some(table) => table.0.transposed(segment.files()?.len()),
            None if segment.files()?.len() == 1 => segment.only_file()?,
            None => {
                let view = segment.word_grammar()?.view();
                file_word_counts(view, segment.counting(), stop)?
            }
        }))
    }
);

impl SegmentView {
    /// The words of the only file with their counts.
    fn only_file(&self) -> Result<CountTable> {
        let counts = (0..).zip(self.totals()?.iter().copied());
        let entries: Vec<(u32, u32)> = counts.filter(|&(_, count)| count > 0).collect();
        Ok(CountTable {
            offsets: vec![0, entries.len()],
            entries,
        })
    }

    pub(crate) fn word_table(&self) -> Result<&WordTable> {
        self.pin()
    }

    /// For each token its word, or [`GAP`].
    pub(crate) fn word_of(&self) -> Result<&[u32]> {
        Ok(&self.word_table()?.word_of)
    }

    /// The number of words in the dictionary. They are numbered in its order.
    pub(crate) fn word_count(&self) -> Result<u32> {
        // At most the number of tokens.
        Ok(self.word_table()?.tokens.len() as u32)
    }

    /// The total of each word in the segment: of its file, or of its grammar. The two are compared once both are known.
    pub(crate) fn totals(&self) -> Result<&[u32]> {
        let totals = match self.stored_totals()? {
            Some(totals) => totals,
            None => &self.word_grammar()?.weights()[..self.word_count()? as usize],
        };
        self.check_totals(totals)?;
        Ok(totals)
    }

    /// Checks the totals of all words against the file table.
    pub(crate) fn check_totals(&self, totals: &[u32]) -> Result<()> {
        if self.counted.get().is_some() {
            return Ok(());
        }
        let words: u64 = totals.iter().map(|&count| u64::from(count)).sum();
        let mut files = self.files()?.iter();
        let listed = files.try_fold(0u64, |sum, file| sum.checked_add(file.words));
        if listed != Some(words) {
            let fault = "the number of words in its text differs from its file table";
            return Err(self.inconsistent(fault));
        }
        self.counted.get_or_init(|| ());
        Ok(())
    }

    /// The grammar over words.
    pub(crate) fn word_grammar(&self) -> Result<&WordGrammar> {
        self.pin()
    }

    /// The users of each symbol of the grammar over words.
    pub(crate) fn word_uses(&self) -> Result<&WordUses> {
        self.pin()
    }

    /// Lengths of the grammar over words, in words.
    pub(crate) fn word_lengths(&self) -> Result<&Lengths> {
        Ok(&self.pin::<WordLengths>()?.0)
    }

    /// Lengths in bytes, checked against the file table.
    pub(crate) fn lengths(&self) -> Result<&Lengths> {
        self.pin()
    }

    pub(crate) fn signatures(&self) -> Result<&Signatures> {
        self.pin()
    }

    /// A row for each word: its files with counts. 8 bytes a word and file.
    pub(crate) fn word_files(&self, stop: &AtomicBool) -> Result<&Arc<CountTable>> {
        Ok(&self.pin_until::<WordFiles>(stop)?.0)
    }

    /// A row for each file: its words with counts. 8 bytes a word and file.
    pub(crate) fn file_words(&self, stop: &AtomicBool) -> Result<&Arc<CountTable>> {
        Ok(&self.pin_until::<FileWords>(stop)?.0)
    }

    /// Stores a table made by a device, at a price in nanoseconds.
    pub(crate) fn hold_word_files(&self, table: CountTable, price: u64) -> Arc<CountTable> {
        self.hold(Arc::new(WordFiles(Arc::new(table))), price)
            .0
            .clone()
    }

    /// Stores a table made by a device, at a price in nanoseconds.
    pub(crate) fn hold_file_words(&self, table: CountTable, price: u64) -> Arc<CountTable> {
        self.hold(Arc::new(FileWords(Arc::new(table))), price)
            .0
            .clone()
    }
}
