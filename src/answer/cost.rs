//! Which algorithm answers a scan, and what it is estimated to cost.
//!
//! The invariant: every strategy that can answer gives the same rows, so the choice is about time only. Costs are
//! nanoseconds of one thread, from counts that segments tell without being decoded; `cargo run --release -p zipfdb-bench --
//! calibrate` measures the constants.

use std::fmt;

use zipfdb_sql::setting::Strategy;

use crate::{Error, Result};

/// Reading one file's summary.
const FILE_COST: f64 = 20.0;
/// Taking a stored count of a word.
const WORD_COST: f64 = 2.0;
/// Visiting a symbol of a body or root in order.
const SYMBOL_COST: f64 = 1.5;
/// Adding the count of a symbol to a file.
const FILE_SYMBOL_COST: f64 = 8.0;
/// Expanding one word.
const EXPAND_COST: f64 = 6.0;
/// Looking a word up in a file by the rules that use it.
const LOOKUP_COST: f64 = 14_000.0;
/// Placing one occurrence that was found so.
const PLACE_COST: f64 = 200.0;
/// Looking a word up in a file where all places of all words are kept, and placing one.
const KEPT_LOOKUP_COST: f64 = 600.0;
const KEPT_PLACE_COST: f64 = 8.0;
/// Finding all places of all words, for each symbol.
pub(crate) const PLACES_BUILD_COST: f64 = 140.0;

/// Taking a word from a suffix array, and with its file.
const SUFFIX_COST: f64 = 6.0;
const SUFFIX_FILE_COST: f64 = 15.0;
/// Building one, for each word.
pub(crate) const SUFFIX_BUILD_COST: f64 = 150.0;
/// Taking n-grams, for each symbol, from a table of long ones, and with their files.
const TABLE_COST: f64 = 8.0;
const TABLE_FILE_COST: f64 = 25.0;
/// Building one, for each symbol.
pub(crate) const TABLE_BUILD_COST: f64 = 1_000.0;

/// Starting work on a device, and fetching what it found.
const DEVICE_START_COST: f64 = 140_000.0;
/// Copying a byte to or from a device.
const DEVICE_BYTE_COST: f64 = 0.09;
/// Copying a symbol of a grammar over words to a device.
const DEVICE_WORDS_COST: f64 = 1.0;
/// Counting words by file on a device, for each symbol.
const DEVICE_FILE_COUNT_COST: f64 = 1.0;
/// Counting n-grams on a device, for each symbol.
const DEVICE_NGRAM_COST: f64 = 1.7;
/// Counting n-grams by file on a device, for each symbol.
const DEVICE_NGRAM_FILE_COST: f64 = 13.0;
/// Copying a grammar to a device and building what look-ups need, for each symbol.
const DEVICE_BUILD_COST: f64 = 3.1;
/// Answering a look-up of a batch on a device.
const DEVICE_LOOKUP_COST: f64 = 50.0;
/// Answering a look-up of a batch on the CPU.
const BATCH_LOOKUP_COST: f64 = 8_000.0;
/// Building a grammar on the CPU, for each token.
const CONSTRUCT_COST: f64 = 150.0;
/// Building a grammar on a device, for each token.
const DEVICE_CONSTRUCT_COST: f64 = 0.55;
/// Placing one of many inserts on the CPU.
const INSERT_COST: f64 = 150.0;
/// Placing one of many inserts on a device, with copies.
const DEVICE_INSERT_COST: f64 = 20.0;
/// Distinct n-grams are about so many words' worth of work each.
pub(crate) const NGRAM_FACTOR: f64 = 20.0;

/// Work that a device can do for a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// Counts of all words.
    Totals,
    /// Counts of all words by file.
    FileCounts,
    /// Counts of all n-grams.
    Ngrams,
    /// Counts of all n-grams by file.
    NgramFiles,
    /// So many counts, searches or extracts at once, in all segments.
    Lookups(u64),
}

impl Task {
    /// What the CPU's threads take for it, in nanoseconds.
    pub(crate) fn cpu_cost(self, size: Size, threads: usize) -> f64 {
        let cost = match self {
            Task::Totals => Candidate::weights(size).cost,
            Task::FileCounts => Candidate::file_weights(size, size.files, size.words).cost,
            Task::Ngrams => Candidate::weights(size).cost * NGRAM_FACTOR,
            Task::NgramFiles => {
                Candidate::file_weights(size, size.files, size.words).cost * NGRAM_FACTOR
            }
            Task::Lookups(count) => count as f64 * BATCH_LOOKUP_COST,
        };
        cost / threads.max(1) as f64
    }

    /// What the CPU's threads take for n-grams, in nanoseconds, with a suffix array.
    pub(crate) fn suffixes_cost(self, size: Size, threads: usize) -> f64 {
        let cost = match self {
            Task::NgramFiles => SUFFIX_FILE_COST,
            _ => SUFFIX_COST,
        };
        size.words as f64 * cost / threads.max(1) as f64
    }

    /// Likewise with a table of long n-grams.
    pub(crate) fn table_cost(self, size: Size, threads: usize) -> f64 {
        let cost = match self {
            Task::NgramFiles => TABLE_FILE_COST,
            _ => TABLE_COST,
        };
        size.symbols as f64 * cost / threads.max(1) as f64
    }

    /// What a device takes for it, in nanoseconds, with what it needs in its memory or not.
    pub(crate) fn device_cost(self, size: Size, is_resident: bool) -> f64 {
        let symbols = size.symbols as f64;
        let (work, before) = match self {
            // The grammar over words that is copied comes with the counts.
            Task::Totals => return f64::INFINITY,
            Task::FileCounts => (symbols * DEVICE_FILE_COUNT_COST, DEVICE_WORDS_COST),
            Task::Ngrams => (symbols * DEVICE_NGRAM_COST, DEVICE_WORDS_COST),
            Task::NgramFiles => (symbols * DEVICE_NGRAM_FILE_COST, DEVICE_WORDS_COST),
            Task::Lookups(count) => (count as f64 * DEVICE_LOOKUP_COST, DEVICE_BUILD_COST),
        };
        let before = if is_resident { 0.0 } else { symbols * before };
        DEVICE_START_COST + before + work
    }
}

/// What building a grammar takes, in nanoseconds: on the CPU's threads, and on a device.
pub(crate) fn construction_costs(tokens: usize, threads: usize) -> (f64, f64) {
    let tokens = tokens as f64;
    let copy = 2.0 * tokens * size_of::<u32>() as f64 * DEVICE_BYTE_COST;
    let on_device = DEVICE_START_COST + copy + tokens * DEVICE_CONSTRUCT_COST;
    (tokens * CONSTRUCT_COST / threads.max(1) as f64, on_device)
}

/// What placing inserts takes, in nanoseconds: on the CPU's threads, and on a device.
pub(crate) fn insert_costs(inserts: usize, threads: usize) -> (f64, f64) {
    let inserts = inserts as f64;
    let on_device = DEVICE_START_COST + inserts * DEVICE_INSERT_COST;
    (inserts * INSERT_COST / threads.max(1) as f64, on_device)
}

/// What the segments of a corpus have.
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

/// A strategy and its estimated cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Candidate {
    pub(crate) strategy: Strategy,
    /// Nanoseconds of one thread.
    pub(crate) cost: f64,
}

impl Candidate {
    /// Stored totals of `files` files.
    pub(crate) fn totals(files: u64) -> Candidate {
        Candidate {
            strategy: Strategy::Totals,
            cost: files as f64 * FILE_COST,
        }
    }

    /// Weights of all words of the corpus.
    pub(crate) fn weights(size: Size) -> Candidate {
        Candidate {
            strategy: Strategy::Weights,
            cost: size.symbols as f64 * SYMBOL_COST + size.tokens as f64 * WORD_COST,
        }
    }

    /// Weights of all words in `files` files that together have `words` words.
    pub(crate) fn file_weights(size: Size, files: u64, words: u64) -> Candidate {
        // A file has no more symbols than words, and all of them together about as many as roots and bodies.
        let share = if size.words == 0 {
            0.0
        } else {
            words as f64 / size.words as f64
        };
        let symbols = (size.symbols as f64 * share).max(1.0);
        Candidate {
            strategy: Strategy::FileWeights,
            cost: files as f64 * FILE_COST + symbols * FILE_SYMBOL_COST,
        }
    }

    /// Counts of a set of words for each rule.
    pub(crate) fn local_tables(size: Size) -> Candidate {
        Candidate {
            strategy: Strategy::LocalTables,
            cost: size.symbols as f64 * SYMBOL_COST * 2.0,
        }
    }

    /// Walks from `words` words up to `files` files, that find about `places` places.
    pub(crate) fn parents(words: u64, files: u64, places: u64) -> Candidate {
        Candidate {
            strategy: Strategy::Parents,
            cost: words as f64 * files as f64 * LOOKUP_COST + places as f64 * PLACE_COST,
        }
    }

    /// Likewise where all places are kept.
    pub(crate) fn kept_places(words: u64, files: u64, places: u64) -> Candidate {
        Candidate {
            strategy: Strategy::Parents,
            cost: words as f64 * files as f64 * KEPT_LOOKUP_COST + places as f64 * KEPT_PLACE_COST,
        }
    }

    /// All words in order, one by one.
    pub(crate) fn root_stream(size: Size) -> Candidate {
        Candidate {
            strategy: Strategy::RootStream,
            cost: size.words as f64 * EXPAND_COST * 2.0,
        }
    }

    /// The same at a multiple of the cost.
    pub(crate) fn times(self, factor: f64) -> Candidate {
        Candidate {
            cost: self.cost * factor,
            ..self
        }
    }

    /// The `words` words of a few files.
    pub(crate) fn decode(words: u64) -> Candidate {
        Candidate {
            strategy: Strategy::Decode,
            cost: words as f64 * EXPAND_COST,
        }
    }
}

/// Chooses the cheapest, or the one that is forced.
///
/// # Errors
/// If the forced one cannot answer.
pub(crate) fn choose(candidates: &[Candidate], forced: Option<Strategy>) -> Result<Candidate> {
    let found = match forced {
        None => (candidates.iter()).min_by(|left, right| left.cost.total_cmp(&right.cost)),
        Some(strategy) => (candidates.iter()).find(|candidate| candidate.strategy == strategy),
    };
    found.copied().ok_or_else(|| Error::Invalid {
        subject: "strategy".into(),
        reason: format!(
            "this query can be answered by {}; hint: SET strategy = 'auto'",
            CandidateNames(candidates)
        ),
    })
}

/// The names of some candidates.
struct CandidateNames<'a>(&'a [Candidate]);

impl fmt::Display for CandidateNames<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, candidate) in self.0.iter().enumerate() {
            if index > 0 {
                formatter.write_str(", ")?;
            }
            write!(formatter, "`{}`", candidate.strategy.name())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_cheapest_is_taken_unless_one_is_forced() {
        let candidates = [Candidate::decode(1_000_000), Candidate::parents(1, 1, 10)];
        assert_eq!(
            choose(&candidates, None).unwrap().strategy,
            Strategy::Parents
        );
        let forced = choose(&candidates, Some(Strategy::Decode)).unwrap();
        assert_eq!(forced.strategy, Strategy::Decode);
        let error = choose(&candidates, Some(Strategy::Totals)).unwrap_err();
        assert!(error.to_string().contains("`decode`, `parents`"), "{error}");
    }
}
