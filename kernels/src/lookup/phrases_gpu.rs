//! Count and positions of one n-gram, on a device.
//!
//! In   a grammar over words on the device, the weights of its symbols; for places the lists of where symbols are used; the words
//! Out  the count; the places, in words from the start of the segment, ascending
//! Work see `phrases.cu`: a pass over bodies and roots, for places two, and a step for each level above what holds the n-gram
//!
//! The invariant: answers are those of [`crate::ngram_count`] and [`crate::ngram_positions`].

use crate::NGRAM_WORDS_MAX;
use crate::gpu::device::{ArgumentStruct, Buffer, Gpu, arguments};
use crate::gpu::driver::{Launch, NamedArgument, Source, THREADS};
use crate::gpu::error::GpuError;
use crate::gpu::primitives::{scan, sort_keys};
use crate::grammar::words_gpu::DeviceWords;
use crate::lookup::structures_gpu::{DeviceParents, measure, parents, root_starts};
use crate::ngrams::all_ngrams_gpu::rule_ends;

/// Uses that a block goes through.
const TILE: usize = 2048;

/// Places that are found at most: their counters are u32.
const PLACES_MAX: u64 = 1 << 30;

/// Indices of the two counters that kernels write.
const ITEMS: usize = 0;
const PLACES: usize = 1;

pub(crate) static SOURCE: Source = Source {
    name: "phrases.cu",
    text: include_str!("phrases.cu"),
    headers: &[],
    constants: &[
        ("PHRASE_THREADS", THREADS as u64),
        ("PHRASE_TILE", TILE as u64),
        ("PHRASE_WORDS_MAX", NGRAM_WORDS_MAX as u64),
    ],
};

/// As `Phrase` of phrases.cu.
type PhraseNumbers = ArgumentStruct<[u32; NGRAM_WORDS_MAX + 1]>;

/// Where the symbols of a grammar over words are used, and where that begins, counted in words.
#[derive(Debug)]
pub struct DeviceWordUses {
    /// `[symbols]`: words of each expansion.
    lengths: Buffer<u64>,
    /// `[body symbols]`: where each begins in its rule.
    body_starts: Buffer<u64>,
    /// `[root symbols + 1]`: where each begins in the segment.
    root_starts: Buffer<u64>,
    parents: DeviceParents,
}

impl DeviceWordUses {
    /// Builds it.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    pub fn new(gpu: &Gpu, grammar: &DeviceWords) -> Result<DeviceWordUses, GpuError> {
        let words = grammar.terminal_count as usize;
        let (lengths, _, body_starts) = measure(gpu, grammar, &vec![1; words], &vec![0; words])?;
        Ok(DeviceWordUses {
            root_starts: root_starts(gpu, grammar, &lengths)?,
            parents: parents(gpu, grammar)?,
            lengths,
            body_starts,
        })
    }
}

/// How often the n-gram `words` occurs in all files; `weights` holds how often each symbol occurs.
///
/// # Errors
///
/// [`GpuError`].
///
/// # Panics
///
/// When there is no word, or more than [`NGRAM_WORDS_MAX`].
pub fn ngram_count(
    gpu: &Gpu,
    grammar: &DeviceWords,
    weights: &Buffer<u32>,
    words: &[u32],
) -> Result<u64, GpuError> {
    match *words {
        _ if words.iter().any(|&word| word >= grammar.terminal_count) => Ok(0),
        [word] => Ok(u64::from(gpu.item(weights, word as usize)?)),
        _ => {
            let search = DevicePhraseSearch::new(gpu, grammar, weights, words)?;
            search.count(gpu)
        }
    }
}

/// Where the n-gram `words` occurs: how many words of the segment stand before its first one, ascending.
///
/// # Errors
///
/// [`GpuError`].
///
/// # Panics
///
/// As [`ngram_count`].
pub fn ngram_places(
    gpu: &Gpu,
    grammar: &DeviceWords,
    weights: &Buffer<u32>,
    uses: &DeviceWordUses,
    words: &[u32],
) -> Result<Buffer<u64>, GpuError> {
    if words.iter().any(|&word| word >= grammar.terminal_count) {
        return gpu.allocate(0);
    }
    let search = match words {
        [_] => None,
        _ => Some(DevicePhraseSearch::new(gpu, grammar, weights, words)?),
    };
    let count = match &search {
        None => u64::from(gpu.item(weights, words[0] as usize)?),
        Some(search) => search.count(gpu)?,
    };
    if count > PLACES_MAX {
        return Err(GpuError::Limit {
            what: "places of an n-gram",
            items: count,
            limit: PLACES_MAX,
        });
    }
    // Each item leads to a place of its own, so there are no more of them.
    let mut found = Found::new(gpu, count as usize)?;
    match search {
        None => {
            gpu.upload_to(&found.items.symbols, 0, &[words[0]])?;
            gpu.fill_items(&found.items.offsets, 0, 1, 0)?;
            found.item_count = 1;
        }
        Some(search) => search.crossings(gpu, uses, &mut found)?,
    }
    if count == 0 {
        return Ok(found.places);
    }
    let mut next = PhraseItems::new(gpu, count as usize)?;
    while found.item_count > 0 {
        step(gpu, grammar, weights, uses, &mut found, &mut next)?;
    }
    let words_end = gpu.item(&uses.root_starts, grammar.root.len())?;
    let bits = u64::BITS - words_end.leading_zeros();
    sort_keys(gpu, found.places, 0..bits)
}

/// Symbols that hold the n-gram, each with how many words of it stand before that.
struct PhraseItems {
    symbols: Buffer<u32>,
    offsets: Buffer<u64>,
}

impl PhraseItems {
    fn new(gpu: &Gpu, count: usize) -> Result<PhraseItems, GpuError> {
        Ok(PhraseItems {
            symbols: gpu.allocate(count.max(1))?,
            offsets: gpu.allocate(count.max(1))?,
        })
    }
}

/// What was found so far: places, and symbols whose uses lead to more.
struct Found {
    items: PhraseItems,
    item_count: usize,
    places: Buffer<u64>,
    /// How many items and places kernels have made.
    made: Buffer<u32>,
}

impl Found {
    fn new(gpu: &Gpu, count: usize) -> Result<Found, GpuError> {
        Ok(Found {
            items: PhraseItems::new(gpu, count)?,
            item_count: 0,
            places: gpu.allocate(count)?,
            made: gpu.zeroed(2)?,
        })
    }

    /// How many there may be of both.
    fn room(&self) -> u32 {
        // At most `PLACES_MAX`.
        self.places.len() as u32
    }

    /// Reads how many items there are; more than there is room for is a grammar whose weights are wrong.
    fn read(&mut self, gpu: &Gpu) -> Result<(), GpuError> {
        let made = gpu.download(&self.made)?;
        let (most, room) = (made[ITEMS].max(made[PLACES]), self.room());
        if most > room {
            return Err(GpuError::Limit {
                what: "places of an n-gram",
                items: u64::from(most),
                limit: u64::from(room),
            });
        }
        self.item_count = made[ITEMS] as usize;
        Ok(())
    }
}

/// An n-gram of two words or more, and in what it is searched for.
struct DevicePhraseSearch<'a> {
    grammar: &'a DeviceWords,
    weights: &'a Buffer<u32>,
    phrase: PhraseNumbers,
    ends: Buffer<u32>,
    half: u32,
}

impl<'a> DevicePhraseSearch<'a> {
    fn new(
        gpu: &Gpu,
        grammar: &'a DeviceWords,
        weights: &'a Buffer<u32>,
        words: &[u32],
    ) -> Result<DevicePhraseSearch<'a>, GpuError> {
        let count = words.len();
        assert!((2..=NGRAM_WORDS_MAX).contains(&count), "{count} words");
        let mut numbers = [0; NGRAM_WORDS_MAX + 1];
        numbers[..count].copy_from_slice(words);
        // At most `NGRAM_WORDS_MAX`.
        let n = count as u32;
        numbers[NGRAM_WORDS_MAX] = n;
        Ok(DevicePhraseSearch {
            grammar,
            weights,
            phrase: ArgumentStruct(numbers),
            ends: rule_ends(gpu, grammar, n)?,
            half: (n - 1).next_power_of_two(),
        })
    }

    /// Launches a kernel on all bodies and roots, with arguments of its own behind those of all.
    fn launch<'s>(
        &'s self,
        gpu: &Gpu,
        kernel: &'static str,
        own: impl Fn(bool) -> Vec<NamedArgument<'s>>,
    ) -> Result<(), GpuError> {
        let terminals = self.grammar.terminal_count;
        for sequence in self.grammar.sequences() {
            let mut arguments = arguments! {
                phrase: &self.phrase,
                end_words: &self.ends,
                terminals,
                half: self.half,
                symbols: sequence.symbols,
                count: sequence.symbols.len(),
                owners: sequence.owners,
                ends_of: sequence.offsets.at(1),
                is_root: u32::from(sequence.is_root),
                rule_weights: self.weights.at(terminals as usize),
            }
            .to_vec();
            arguments.extend(own(sequence.is_root));
            gpu.launch_looping(SOURCE.kernel(kernel), sequence.symbols.len(), &arguments)?;
        }
        Ok(())
    }

    /// How often it occurs.
    fn count(&self, gpu: &Gpu) -> Result<u64, GpuError> {
        let count = gpu.zeroed::<u64>(1)?;
        self.launch(gpu, "count_phrase_kernel", |_| {
            arguments! { occurrences: &count }.to_vec()
        })?;
        gpu.item(&count, 0)
    }

    /// Where it crosses symbols.
    fn crossings(
        &self,
        gpu: &Gpu,
        uses: &DeviceWordUses,
        found: &mut Found,
    ) -> Result<(), GpuError> {
        self.launch(gpu, "phrase_crossings_kernel", |is_root| {
            arguments! {
                lengths: &uses.lengths,
                starts: if is_root { &uses.root_starts } else { &uses.body_starts },
                item_symbols: &found.items.symbols,
                item_offsets: &found.items.offsets,
                places: &found.places,
                made_max: found.room(),
                made: &found.made,
            }
            .to_vec()
        })?;
        found.read(gpu)
    }
}

/// Goes from all items to where they are used; `next` is room for items.
fn step(
    gpu: &Gpu,
    grammar: &DeviceWords,
    weights: &Buffer<u32>,
    uses: &DeviceWordUses,
    found: &mut Found,
    next: &mut PhraseItems,
) -> Result<(), GpuError> {
    let (count, parents) = (found.item_count, &uses.parents);
    let sizes = gpu.allocate::<u32>(count)?;
    let arguments = arguments! {
        item_symbols: &found.items.symbols,
        count,
        place_offsets: &parents.offsets,
        position_offsets: &parents.root_offsets,
        sizes,
    };
    let kernel = SOURCE.kernel("phrase_uses_kernel").moving(count * 6 * 4);
    gpu.launch(kernel, Launch::each(count), arguments)?;
    let ends: Buffer<u64> = scan(gpu, &sizes)?;
    let use_count = gpu.item(&ends, count)? as usize;
    gpu.fill_items(&found.made, ITEMS, 1, 0)?;
    let arguments = arguments! {
        item_symbols: &found.items.symbols,
        item_offsets: &found.items.offsets,
        uses: &ends,
        item_count: count,
        terminals: grammar.terminal_count,
        place_offsets: &parents.offsets,
        body_places: &parents.places,
        body_rules: &parents.body_rules,
        body_starts: &uses.body_starts,
        position_offsets: &parents.root_offsets,
        positions: &parents.root_positions,
        root_starts: &uses.root_starts,
        rule_weights: weights.at(grammar.terminal_count as usize),
        symbols_out: &next.symbols,
        offsets_out: &next.offsets,
        places: &found.places,
        made_max: found.room(),
        made: &found.made,
    };
    let launch = Launch::tiles(use_count, TILE);
    gpu.launch(SOURCE.kernel("phrase_step_kernel"), launch, arguments)?;
    std::mem::swap(&mut found.items, next);
    found.read(gpu)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::gpu::test_devices::{Numbers, on_devices};
    use crate::grammar::test_grammars::{self, TestGrammar};
    use crate::grammar::weights_gpu::weights;

    /// Asks for some n-grams that occur and some that do not, and compares with all words.
    fn check(gpu: &Gpu, grammar: &TestGrammar) -> Result<(), GpuError> {
        let texts = grammar.all_file_words();
        let all: Vec<u32> = texts.concat();
        let compressed = grammar.word_grammar();
        let words = DeviceWords::upload(gpu, compressed.view())?;
        let weights = weights(gpu, &words)?;
        let uses = DeviceWordUses::new(gpu, &words)?;
        let mut numbers = Numbers::new(all.len() as u64);
        for n in [1, 2, 3, 5, 8] {
            let mut places: BTreeMap<&[u32], Vec<u64>> = BTreeMap::new();
            let mut before = 0;
            for text in &texts {
                for (at, window) in text.windows(n).enumerate() {
                    places.entry(window).or_default().push(before + at as u64);
                }
                before += text.len() as u64;
            }
            let step = places.len() / 12 + 1;
            let mut asked: Vec<Vec<u32>> = places
                .keys()
                .step_by(step)
                .map(|key| key.to_vec())
                .collect();
            // Some that may not occur, and a word that there is not.
            let limit = words.terminal_count + 1;
            asked.extend((0..4).map(|_| numbers.below(n, limit)));
            asked.push(vec![words.terminal_count; n]);
            for phrase in asked {
                let expected = places.get(&phrase[..]).cloned().unwrap_or_default();
                let count = ngram_count(gpu, &words, &weights, &phrase)?;
                assert_eq!(count, expected.len() as u64, "{phrase:?} {grammar:?}");
                let found = ngram_places(gpu, &words, &weights, &uses, &phrase)?;
                assert_eq!(gpu.download(&found)?, expected, "{phrase:?} {grammar:?}");
            }
        }
        Ok(())
    }

    #[test]
    fn phrases_equal_those_in_the_words_of_small_grammars() {
        on_devices(|gpu| {
            let mut small = test_grammars::all_small().step_by(1_511);
            small.try_for_each(|grammar| check(gpu, &grammar))
        });
    }

    #[test]
    fn phrases_equal_those_in_the_words_of_random_and_extreme_grammars() {
        on_devices(|gpu| {
            test_grammars::random_many(12).try_for_each(|grammar| check(gpu, &grammar))?;
            check(gpu, &test_grammars::deep_chain(60))?;
            check(gpu, &test_grammars::long_body(3_000))?;
            check(gpu, &test_grammars::many_files(60))?;
            check(gpu, &test_grammars::fibonacci(12))?;
            check(gpu, &test_grammars::runs(9))
        });
    }
}
