//! Estimated costs of work: the constants by which access paths, derived structures and devices are compared.
//!
//! Invariant: costs are nanoseconds of one thread where no device is named, and the numbers of words, tokens and symbols are
//! known without decoding segments. The costs of steps within a kernel are in its crate's `cost.rs`. `cargo run --release -p
//! zipfdb-bench -- calibrate` measures most of them and prints lines that can be pasted here.

use zipfdb_kernels::PARENTS_SYMBOL_COST;

use crate::segment::StructureKind;

/// Reading one file's summary.
pub(crate) const FILE_COST: f64 = 20.0;
/// Taking a stored count of a word.
pub(crate) const WORD_COST: f64 = 2.0;
/// Visiting a symbol of a body or root in order.
pub(crate) const SYMBOL_COST: f64 = 1.5;
/// Adding the count of a symbol to a file.
pub(crate) const FILE_SYMBOL_COST: f64 = 8.0;
/// Reading one word of a file with its place.
pub(crate) const STREAM_COST: f64 = 60.0;
/// Reading one word of a file by its number alone.
pub(crate) const NUMBER_COST: f64 = 5.0;
/// The cost of reading and counting a word, as a multiple of reading it.
pub(crate) const STREAM_COUNT_FACTOR: f64 = 2.0;
/// Decoding a byte of a long word of the dictionary.
pub(crate) const WORD_BYTE_COST: f64 = 30.0;
/// Looking a word up in a file by the rules that use it.
pub(crate) const LOOKUP_COST: f64 = 14_000.0;
/// Computing the place of one occurrence found by the rules.
pub(crate) const OCCURRENCE_COST: f64 = 200.0;
/// Looking a word up in a file in occurrence lists.
pub(crate) const LISTS_LOOKUP_COST: f64 = 600.0;
/// Taking one occurrence from occurrence lists.
pub(crate) const LISTS_OCCURRENCE_COST: f64 = 8.0;
/// Building occurrence lists, for each word of the text: repetitive text has many words for each symbol.
pub(crate) const LISTS_BUILD_COST: f64 = 70.0;
/// Taking a word from a suffix array.
pub(crate) const SUFFIX_COST: f64 = 6.0;
/// Taking a word with its file from a suffix array.
pub(crate) const SUFFIX_FILE_COST: f64 = 15.0;
/// Building a suffix array, for each word.
pub(crate) const SUFFIX_BUILD_COST: f64 = 150.0;
/// Sorting the places of a suffix array that eight words do not tell apart, for each word: in prose few, in text that repeats
/// itself all in several rounds.
pub(crate) const LONG_ORDER_COST: f64 = 100.0;
/// Taking n-grams from a table of long ones, for each symbol.
pub(crate) const TABLE_COST: f64 = 8.0;
/// Taking n-grams with their files from a table, for each symbol.
pub(crate) const TABLE_FILE_COST: f64 = 25.0;
/// Building a table of n-grams, for each symbol.
pub(crate) const TABLE_BUILD_COST: f64 = 1_000.0;
/// Starting work on a device, and copying the result back.
pub(crate) const DEVICE_START_COST: f64 = 140_000.0;
/// Copying a byte to or from a device.
pub(crate) const DEVICE_BYTE_COST: f64 = 0.09;
/// Copying a symbol of a grammar over words to a device.
pub(crate) const DEVICE_WORDS_COST: f64 = 1.0;
/// Counting words by file on a device, for each symbol.
pub(crate) const DEVICE_FILE_COUNT_COST: f64 = 1.0;
/// Counting words by file on a device that returns only the most frequent ones, for each symbol.
pub(crate) const DEVICE_FREQUENT_COST: f64 = 0.3;
/// Counting n-grams on a device, for each symbol.
pub(crate) const DEVICE_NGRAM_COST: f64 = 0.5;
/// Counting n-grams by file on a device, for each symbol.
pub(crate) const DEVICE_NGRAM_FILE_COST: f64 = 1.0;
/// Looking for a phrase in a symbol on a device.
pub(crate) const DEVICE_PHRASE_COST: f64 = 0.02;
/// Copying a grammar to a device and building its look-up structure, for each symbol.
pub(crate) const DEVICE_BUILD_COST: f64 = 3.1;
/// Answering a look-up of a batch on a device.
pub(crate) const DEVICE_LOOKUP_COST: f64 = 50.0;
/// Looking for a word in a symbol on a device, in all files.
pub(crate) const DEVICE_SEARCH_COST: f64 = 0.1;
/// Copying the lists of words of a symbol to a device, with their index.
pub(crate) const DEVICE_LISTS_COST: f64 = 10.0;
/// Looking a word of a query up in such lists on a device, with the result.
pub(crate) const DEVICE_LIST_LOOKUP_COST: f64 = 50.0;
/// Answering a look-up of a batch on the CPU.
pub(crate) const BATCH_LOOKUP_COST: f64 = 8_000.0;
/// Building a grammar on the CPU, for each token.
pub(crate) const CONSTRUCT_COST: f64 = 150.0;
/// Building a grammar on a device, for each token.
pub(crate) const DEVICE_CONSTRUCT_COST: f64 = 0.55;
/// Encoding a symbol of a grammar on the CPU: counting, choosing a model, coding.
pub(crate) const ENCODE_COST: f64 = 300.0;
/// The part of encoding that the CPU does for a device: choosing a model.
pub(crate) const ENCODE_MODEL_COST: f64 = 100.0;
/// Counting and coding a symbol on a device.
pub(crate) const DEVICE_ENCODE_COST: f64 = 2.0;
/// Placing one of many inserts on the CPU.
pub(crate) const INSERT_COST: f64 = 200.0;
/// Placing one of many inserts on a device, with copies.
pub(crate) const DEVICE_INSERT_COST: f64 = 20.0;
/// The cost of a distinct n-gram, as a multiple of that of a word.
pub(crate) const NGRAM_FACTOR: f64 = 20.0;
/// Making the text of an n-gram to test it.
pub(crate) const NGRAM_TEXT_COST: f64 = 400.0;
/// Counting all words in all files, for each symbol.
pub(crate) const COUNT_ALL_SYMBOL_COST: f64 = 30.0;
/// Reading the table of words and files from the lists of an index, for each symbol.
pub(crate) const COUNT_TABLE_LOAD_COST: f64 = 5.0;
/// Looking a word up in a table of words and files.
pub(crate) const TABLE_LOOKUP_COST: f64 = 300.0;
/// Building the parents, for each symbol.
pub(crate) const PARENTS_BUILD_COST: f64 = PARENTS_SYMBOL_COST as f64;
/// Building the users of words and rules, for each symbol.
pub(crate) const USES_BUILD_COST: f64 = 35.0;
/// Reading the list of a word of an index on disk.
pub(crate) const POSTINGS_COST: f64 = 30_000.0;
/// Finding an n-gram in a suffix array or a table of an index on disk.
pub(crate) const NGRAM_INDEX_COST: f64 = 300_000.0;
/// Finding the places of a word in an index on disk.
pub(crate) const OCCURRENCE_INDEX_COST: f64 = 150_000.0;
/// Reading a word of a suffix array back from disk.
pub(crate) const SUFFIX_LOAD_COST: f64 = 12.0;
/// Reading a table of n-grams back from disk, for each symbol.
pub(crate) const TABLE_LOAD_COST: f64 = 100.0;
/// Reading occurrence lists back from disk, for each symbol.
pub(crate) const LISTS_LOAD_COST: f64 = 10.0;
/// Decoding a token of the dictionary and preparing look-ups.
pub(crate) const DICTIONARY_TOKEN_COST: f64 = 100.0;
/// Finding a word in blocks of the dictionary, of which some are decoded.
pub(crate) const BLOCKS_COST: f64 = 250_000.0;
/// Reading the total of a word in addition: half of the words whose totals are coded together are decoded.
pub(crate) const BLOCKS_TOTAL_COST: f64 = 1_000_000.0;
/// Decoding the root of one file: two chunks of it at least.
pub(crate) const ALONE_COST: f64 = 1_000_000.0;
/// Expanding a token of a file by its root alone.
pub(crate) const ALONE_TOKEN_COST: f64 = 40.0;
/// Decoding all roots and building the look-up structures, for each symbol.
pub(crate) const ALL_SYMBOL_COST: f64 = 50.0;
/// Decoding a symbol of a root in a pass that keeps none.
pub(crate) const SCAN_SYMBOL_COST: f64 = 20.0;
/// Decoding a chunk of the roots, and finding a range of bytes in it.
pub(crate) const ROOT_CHUNK_COST: f64 = 300_000.0;
/// Preparing a symbol of a body for such a pass.
pub(crate) const SCAN_BODY_COST: f64 = 8.0;
/// Following rules to a token, in waits for memory: the time that stored expansions of rules save.
pub(crate) const FOLLOWED_TOKEN_COST: u64 = 25;
/// Finding a range of bytes from the root down.
pub(crate) const EXTRACT_COST: f64 = 1_000.0;
/// Unpacking a byte of text and looking for a word there.
pub(crate) const TEXT_SCAN_BYTE_COST: f64 = 1.5;
/// Unpacking a block of text, or taking one from the cache.
pub(crate) const TEXT_BLOCK_COST: f64 = 100_000.0;

/// Reading a token byte by byte with an automaton.
pub(crate) const TOKEN_READING_COST: f64 = 20.0;
/// Decoding a byte of text and reading it with an automaton.
pub(crate) const SEARCHED_BYTE_COST: f64 = 1.5;

/// The size of a segment, or of a corpus.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Size {
    /// Symbols in bodies and roots.
    pub(crate) symbols: u64,
    /// Tokens of all dictionaries.
    pub(crate) tokens: u64,
    /// Words of the text.
    pub(crate) words: u64,
    /// Files.
    pub(crate) files: u64,
}

/// The structures that a structure is made of, and the further cost of making it: nanoseconds for each symbol, token and word of
/// the text.
struct Making {
    of: &'static [StructureKind],
    symbol: f64,
    token: f64,
    word: f64,
}

fn making(kind: StructureKind) -> Making {
    use StructureKind::*;
    let (of, [symbol, token, word]): (&[StructureKind], [f64; 3]) = match kind {
        WordBlocks => (&[], [0.0, 10.0, 0.0]),
        Dictionary => (&[], [0.0, 130.0, 0.0]),
        Totals => (&[Dictionary], [0.0, 40.0, 0.0]),
        Bodies => (&[Dictionary], [10.0, 0.0, 0.0]),
        Grammar => (&[Bodies], [30.0, 0.0, 0.0]),
        Words => (&[Dictionary], [0.0, 80.0, 0.0]),
        TokenForms => (&[Words], [0.0, 5.0, 0.0]),
        WordIndex => (&[Dictionary], [0.0, 2.0, 0.0]),
        WordGrammar => (&[Grammar, Words], [18.0, 0.0, 0.0]),
        WordUses => (&[WordGrammar], [USES_BUILD_COST, 0.0, 0.0]),
        RuleFiles => (&[WordUses], [10.0, 0.0, 0.0]),
        WordLengths => (&[WordGrammar], [3.0, 0.0, 0.0]),
        WordSignatures => (&[WordGrammar], [1.0, 0.0, 0.0]),
        WordExpansions => (&[WordGrammar], [8.0, 0.0, 0.0]),
        RuleEnds => (&[WordGrammar], [1.0, 0.0, 0.0]),
        TokenWords => (&[Grammar], [4.0, 0.0, 0.0]),
        TokenLines => (&[Grammar], [4.0, 10.0, 0.0]),
        TokenExpansions => (&[Grammar], [8.0, 0.0, 0.0]),
        Lengths => (&[Grammar], [4.0, 0.0, 0.0]),
        Text => (&[Lengths], [5.0, 0.0, 0.0]),
        Signatures => (&[Grammar], [2.0, 0.0, 0.0]),
        Parents => (&[Grammar], [PARENTS_BUILD_COST, 0.0, 0.0]),
        Offsets => (&[Lengths, Words], [0.0, 0.0, LISTS_BUILD_COST]),
        Positions => (&[WordLengths], [0.0, 0.0, LISTS_BUILD_COST]),
        Suffixes => (&[WordGrammar], [0.0, 0.0, SUFFIX_BUILD_COST]),
        LongOrder => (&[Suffixes], [0.0, 0.0, LONG_ORDER_COST]),
        NgramTable => (&[WordUses], [TABLE_BUILD_COST, 0.0, 0.0]),
        Postings => (&[], [0.0, 1.0, 0.0]),
        PostingsLists => (&[Postings], [0.0, 5.0, 0.0]),
        OccurrenceIndex | SuffixIndex | NgramIndex => (&[], [0.0, 0.0, 0.02]),
        TextBlocks => (&[], [0.0, 0.0, 0.0]),
        RootChunks => (&[Bodies], [SCAN_SYMBOL_COST, 0.0, 0.0]),
        FileBits => (&[WordFiles], [0.0, 0.0, 0.0]),
        WordFiles | FileWords => (&[WordGrammar, Totals], [COUNT_ALL_SYMBOL_COST, 0.0, 0.0]),
    };
    Making {
        of,
        symbol,
        token,
        word,
    }
}

/// The cost of making missing structures, in nanoseconds of one thread, with all that they are made of.
pub(crate) fn making_cost(
    wanted: &[StructureKind],
    size: Size,
    is_there: impl Fn(StructureKind) -> bool,
) -> f64 {
    let mut is_counted = [false; StructureKind::ALL.len()];
    let mut rest = wanted.to_vec();
    let mut cost = 0.0;
    while let Some(kind) = rest.pop() {
        if std::mem::replace(&mut is_counted[kind as usize], true) || is_there(kind) {
            continue;
        }
        let making = making(kind);
        cost += size.symbols as f64 * making.symbol
            + size.tokens as f64 * making.token
            + size.words as f64 * making.word;
        rest.extend(making.of);
    }
    cost
}

/// The costs of building a grammar, in nanoseconds: on the CPU's threads, and on a device.
pub(crate) fn construction_costs(tokens: usize, threads: usize) -> (f64, f64) {
    let tokens = tokens as f64;
    let copy = 2.0 * tokens * size_of::<u32>() as f64 * DEVICE_BYTE_COST;
    let on_device = DEVICE_START_COST + copy + tokens * DEVICE_CONSTRUCT_COST;
    (tokens * CONSTRUCT_COST / threads.max(1) as f64, on_device)
}

/// The costs of encoding a grammar of `symbols` symbols, in nanoseconds: on the CPU's threads, and on a device.
pub(crate) fn encoding_costs(symbols: usize, threads: usize) -> (f64, f64) {
    let (symbols, threads) = (symbols as f64, threads.max(1) as f64);
    let copy = symbols * size_of::<u32>() as f64 * DEVICE_BYTE_COST;
    let model = symbols * ENCODE_MODEL_COST / threads;
    let on_device = DEVICE_START_COST + copy + model + symbols * DEVICE_ENCODE_COST;
    (symbols * ENCODE_COST / threads, on_device)
}

/// The costs of placing inserts, in nanoseconds: on the CPU's threads, and on a device.
pub(crate) fn insert_costs(inserts: usize, threads: usize) -> (f64, f64) {
    let inserts = inserts as f64;
    let on_device = DEVICE_START_COST + inserts * DEVICE_INSERT_COST;
    (inserts * INSERT_COST / threads.max(1) as f64, on_device)
}
