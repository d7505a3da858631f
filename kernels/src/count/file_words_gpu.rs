//! Counts of words by file from the words themselves.
//!
//! The invariant: tables are those of lists. Only for grammars of many files whose words are not many times their symbols: others
//! are better not decoded.

use std::sync::OnceLock;

use crate::count::key_tables_gpu::table_of_keys;
use crate::count::root_words_gpu::root_words;
use crate::count::rule_words_gpu::{self, RECORD, RECORD_CONSTANT, RuleWords};
use crate::count::tables_gpu::DeviceTable;
use crate::gpu::GpuError;
use crate::gpu::device::{Buffer, Gpu, arguments};
use crate::gpu::driver::{Launch, Source, THREADS};
use crate::gpu::primitives::{self, SORT_MAX};
use crate::grammar::words_gpu::DeviceWords;

/// Symbols of a tile of the root whose words are counted, and slots for them.
const COUNT_TILE: usize = 4096;
const SLOT_BITS: usize = 12;

/// Bytes of a key with a count that are kept, and of one while they are sorted and divided into rows.
const KEY_BYTES: usize = 2 * size_of::<u32>();
const SORT_BYTES: usize = 3 * KEY_BYTES + size_of::<u64>();

/// The average words of a symbol up to which words of rules are decoded.
const WORDS_MAX: usize = 4;

pub(crate) static SOURCE: Source = Source {
    name: "file_words.cu",
    text: include_str!("file_words.cu"),
    headers: &[rule_words_gpu::HEADER],
    constants: &[
        ("FILE_WORDS_THREADS", THREADS as u64),
        ("FILE_WORDS_COUNT_TILE", COUNT_TILE as u64),
        ("FILE_WORDS_SLOT_BITS", SLOT_BITS as u64),
        RECORD_CONSTANT,
    ],
};

/// How often each word occurs in each file, and once they are asked for the words of all files.
#[derive(Debug)]
pub(crate) struct FileWords {
    /// `word << file_bits | file`, in any order, some more than once; and how often each.
    keys: Buffer<u32>,
    counts: Buffer<u32>,
    pub(crate) shape: KeyShape,
    /// `word << file_bits | file` for each word, in order of files.
    words: OnceLock<Buffer<u32>>,
}

/// Bits of words and files in a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyShape {
    pub(crate) word_bits: u32,
    pub(crate) file_bits: u32,
}

impl KeyShape {
    /// `None` if both do not fit into a key.
    pub(crate) fn new(words: usize, files: usize) -> Option<KeyShape> {
        let bits = |count: usize| usize::BITS - count.saturating_sub(1).leading_zeros();
        let (word_bits, file_bits) = (bits(words), bits(files));
        // Shifts by 32 bits are not defined.
        let fits = word_bits + file_bits <= u32::BITS && file_bits < u32::BITS;
        fits.then_some(KeyShape {
            word_bits,
            file_bits,
        })
    }
}

impl FileWords {
    /// Counts the words of all files; `None` where that does not pay.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    pub(crate) fn new(gpu: &Gpu, grammar: &DeviceWords) -> Result<Option<FileWords>, GpuError> {
        let (bodies, roots) = grammar.sizes();
        let shape = KeyShape::new(grammar.terminal_count as usize, grammar.files());
        let Some(shape) = shape else {
            return Ok(None);
        };
        let Some(RuleWords { flat, totals }) = RuleWords::new(gpu, grammar)? else {
            return Ok(None);
        };
        let words_max = (WORDS_MAX * (bodies + roots)).min(SORT_MAX);
        // Mostly a tile has a word twice for each that no other has.
        let mut capacity = roots;
        loop {
            let room = gpu.memory_limit().saturating_sub(gpu.memory_used());
            if (capacity * (KEY_BYTES + SORT_BYTES)) as u64 > room {
                return Ok(None);
            }
            let mut keys = gpu.allocate::<u32>(capacity)?;
            let mut counts = gpu.allocate::<u32>(capacity)?;
            let arguments = arguments! {
                root: &grammar.root,
                root_files: &grammar.root_files,
                count: roots,
                terminals: grammar.terminal_count,
                flat,
                flat_size: flat.len(),
                // Rules are u32.
                rules: grammar.rules() as u32,
                words_max: words_max.saturating_sub(roots),
                file_bits: shape.file_bits,
                keys,
                counts,
                capacity,
                totals,
            };
            let launch = Launch::tiles(roots, COUNT_TILE);
            let kernel = SOURCE.kernel("count_words_kernel");
            gpu.launch(kernel.moving(roots * 2 * 4), launch, arguments)?;
            let found = gpu.download(&totals)?;
            let [flat_words, rule_words, count] = found[..] else {
                unreachable!("three totals");
            };
            let records = grammar.rules() * RECORD;
            let is_room = flat_words <= (flat.len() - records) as u64;
            if !is_room || rule_words > words_max.saturating_sub(roots) as u64 {
                return Ok(None);
            }
            // At most the number of words, a usize.
            let count = count as usize;
            if count <= capacity {
                keys.truncate(count);
                counts.truncate(count);
                return Ok(Some(FileWords {
                    keys,
                    counts,
                    shape,
                    words: OnceLock::new(),
                }));
            }
            capacity = count;
            gpu.fill_items(&totals, 2, 1, 0)?;
        }
    }

    /// The words of all files, decoded by the first call; `None` without room for what that takes.
    pub(crate) fn words(
        &self,
        gpu: &Gpu,
        grammar: &DeviceWords,
    ) -> Result<Option<&Buffer<u32>>, GpuError> {
        if let Some(words) = self.words.get() {
            return Ok(Some(words));
        }
        let decoded = root_words(gpu, grammar, self.shape.file_bits)?;
        Ok(decoded.map(|words| self.words.get_or_init(|| words)))
    }

    /// For each word the files that it occurs in, with counts; with `by_file` for each file its words.
    pub(crate) fn table(
        &self,
        gpu: &Gpu,
        grammar: &DeviceWords,
        by_file: bool,
    ) -> Result<DeviceTable, GpuError> {
        let KeyShape {
            word_bits,
            file_bits,
        } = self.shape;
        let bits = 0..word_bits + file_bits;
        let (keys, counts) = if by_file {
            let turned = gpu.allocate::<u32>(self.keys.len())?;
            let arguments = arguments! {
                keys: &self.keys,
                count: self.keys.len(),
                file_bits,
                word_bits,
                keys_out: &turned,
            };
            let kernel = SOURCE.kernel("turn_keys_kernel").whole();
            gpu.launch_looping(kernel, self.keys.len(), arguments)?;
            primitives::sorted_pairs(gpu, &turned, &self.counts, bits)?
        } else {
            primitives::sorted_pairs(gpu, &self.keys, &self.counts, bits)?
        };
        let (rows, column_bits) = if by_file {
            (grammar.files(), word_bits)
        } else {
            (grammar.terminal_count as usize, file_bits)
        };
        table_of_keys(gpu, &keys, Some(&counts), column_bits, rows)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::FileCounting;
    use crate::gpu::test_devices::on_devices;
    use crate::grammar::test_grammars;

    #[test]
    fn words_that_are_few_are_decoded_and_counted_as_by_the_twin() {
        on_devices(|gpu| {
            let mut decoded = 0;
            let few = [
                test_grammars::many_files(3),
                test_grammars::many_files(300),
                test_grammars::long_body(9_000),
                // Rules that no file uses have up to 2^70 words.
                test_grammars::doubling(70),
            ];
            for grammar in test_grammars::random_many(5).chain(few) {
                let words = grammar.word_grammar();
                let view = words.view();
                let device = DeviceWords::upload(gpu, view)?;
                if let Some(found) = FileWords::new(gpu, &device)? {
                    let table = found.table(gpu, &device, false)?;
                    let go = AtomicBool::new(false);
                    let twin = crate::word_file_counts(view, FileCounting::Rules, &go);
                    assert_eq!(Ok(table.download(gpu)?), twin, "{grammar:?}");
                    let table = found.table(gpu, &device, true)?;
                    let twin = crate::file_word_counts(view, FileCounting::Rules, &go);
                    assert_eq!(Ok(table.download(gpu)?), twin, "{grammar:?}");
                    decoded += 1;
                }
            }
            assert!(decoded > 3, "{decoded} were decoded");
            let long = test_grammars::runs(16);
            let device = DeviceWords::upload(gpu, long.word_grammar().view())?;
            assert!(FileWords::new(gpu, &device)?.is_none());
            Ok(())
        });
    }

    #[test]
    fn more_words_than_a_tile_has_room_for_and_long_rules_are_counted() {
        on_devices(|gpu| {
            // One rule of 700 words, one of it twice; files of more words than there are slots.
            let (words, long) = (3_000u32, 700u32);
            let symbols: Vec<u32> = (0..long).chain([words, 1, words]).collect();
            let mut root: Vec<u32> = (0..words).collect();
            root.push(words + 1);
            root.extend(0..words);
            root.push(words);
            root.extend(0..words);
            let view = crate::GrammarView {
                terminal_count: words,
                rule_offsets: &[0, long, long + 3],
                symbols: &symbols,
                level_offsets: &[0, 1, 2],
                root_offsets: &[0, words + 1, 2 * words + 2, 3 * words + 2],
                root: &root,
            };
            let device = DeviceWords::upload(gpu, view)?;
            let found = FileWords::new(gpu, &device)?.expect("few words a symbol");
            let expected = |word: u32| {
                let in_long = u32::from(word < long);
                let first = 1 + 2 * in_long + u32::from(word == 1);
                vec![(0, first), (1, 1 + in_long), (2, 1)]
            };
            let rows = (0..words).map(expected).collect();
            let twin = crate::CountTable::of_rows(rows);
            assert_eq!(found.table(gpu, &device, false)?.download(gpu)?, twin);
            let turned = twin.transposed(3);
            assert_eq!(found.table(gpu, &device, true)?.download(gpu)?, turned);
            Ok(())
        });
    }
}
