//! Merges local dictionaries to the one sorted dictionary of a segment.
//!
//! Word tokens come first, by (case-folded word, word, without before with its space), so all tokens of a word and all spellings
//! of a folded word are neighbours; gap tokens follow by their bytes. No two tokens compare equal, so the order depends on the
//! set of tokens alone: not on threads, hashes or the cutting of the text into chunks.

use super::has_glued_space;
use super::interner::{IdTable, LocalDictionary, hash_bytes, random_seeds};
use rayon::prelude::*;
use std::cmp::Ordering;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use zipfdb_search::fold::{fold, is_folded};
use zipfdb_storage::{Dictionary, Tokenizer};

/// Equal tokens are in the same partition, and partitions are merged in parallel.
const PARTITION_BITS: u32 = 6;
const PARTITIONS: usize = 1 << PARTITION_BITS;

/// Distinct tokens that one task writes.
const TASK_TOKENS: usize = 1 << 13;

/// The result of [`merge`].
pub struct Merged {
    /// All tokens, sorted.
    pub dictionary: Dictionary,
    /// For each local dictionary, in the order given, the ids of its tokens by local id.
    pub ids: Vec<Vec<u32>>,
}

/// Merges local dictionaries into a sorted one.
///
/// Linear in their tokens except for one parallel sort of the distinct ones; uses the current rayon pool.
///
/// # Panics
/// If there are more than `u32::MAX` tokens altogether.
pub fn merge(tokenizer: Tokenizer, locals: &[LocalDictionary]) -> Merged {
    let tokens: usize = locals.iter().map(LocalDictionary::len).sum();
    assert!(u32::try_from(tokens).is_ok(), "token ids fit 32 bits");
    let seeds = random_seeds();
    let partitioned: Vec<Partitioned> = locals
        .par_iter()
        .map(|local| Partitioned::new(local, seeds))
        .collect();
    let partitions: Vec<HashPartition> = (0..PARTITIONS)
        .into_par_iter()
        .map(|partition| HashPartition::new(tokenizer, locals, &partitioned, partition))
        .collect();

    let mut bases = Vec::with_capacity(PARTITIONS);
    let mut distinct = 0;
    for partition in &partitions {
        bases.push(distinct);
        distinct += partition.distinct.len() as u32;
    }
    let tokens: Vec<FoldedToken<'_>> = (0..distinct)
        .into_par_iter()
        .map(|distinct| {
            // An empty partition has the base of the next one.
            let partition = bases.partition_point(|&base| base <= distinct) - 1;
            let place = distinct - bases[partition];
            partitions[partition].token(tokenizer, locals, place as usize)
        })
        .collect();
    let (dictionary, ids) = sorted(&tokens);
    Merged {
        dictionary,
        ids: local_ids(&partitioned, &partitions, &bases, &ids),
    }
}

/// Sorts `count` tokens, no two of which are equal: a dictionary, and for each token its id there. `token` returns the bytes of a
/// token, and whether it is a word token. Parallel on the current pool.
///
/// # Panics
/// If there are more than `u32::MAX`.
pub fn sort_distinct<'a>(
    tokenizer: Tokenizer,
    count: usize,
    token: impl Fn(usize) -> (&'a [u8], bool) + Sync,
) -> (Dictionary, Vec<u32>) {
    assert!(u32::try_from(count).is_ok(), "token ids fit 32 bits");
    // Copies keep tokens that are compared close together.
    let parts = (0..count.div_ceil(TASK_TOKENS)).into_par_iter();
    let parts: Vec<LocalDictionary> = parts
        .map(|part| {
            let part = part * TASK_TOKENS..count.min((part + 1) * TASK_TOKENS);
            let mut copied = LocalDictionary::default();
            for (text, is_word) in part.map(&token) {
                copied.push(text, is_word);
            }
            copied
        })
        .collect();
    let folded = parts.par_iter().map(|copied| {
        // Checked above.
        let ids = 0..copied.len() as u32;
        Folded::new(tokenizer, ids.map(|id| copied.entry(id)))
    });
    let folded: Vec<Folded> = folded.collect();
    let tokens = (0..count).into_par_iter().map(|token| {
        let (part, place) = (token / TASK_TOKENS, token % TASK_TOKENS);
        let entry = parts[part].entry(place as u32);
        folded[part].token(tokenizer, place, entry)
    });
    let tokens: Vec<FoldedToken<'_>> = tokens.collect();
    let (dictionary, ids) = sorted(&tokens);
    (
        dictionary,
        ids.into_iter().map(AtomicU32::into_inner).collect(),
    )
}

/// Sorts distinct tokens: their dictionary, and the id of each.
fn sorted(tokens: &[FoldedToken<'_>]) -> (Dictionary, Vec<AtomicU32>) {
    let parts = in_order(tokens);
    let starts = parts.iter().scan(0, |start, part| {
        let this = *start;
        *start += part.len() as u32; // the caller has counted them
        Some(this)
    });
    let starts: Vec<u32> = starts.collect();
    let mut ids = Vec::new();
    ids.resize_with(tokens.len(), AtomicU32::default);
    let numbered = parts.par_iter().zip(&starts);
    numbered.clone().for_each(|(part, &start)| {
        let numbered = part.iter().zip(start..);
        numbered.for_each(|(&token, id)| ids[token as usize].store(id, Relaxed));
    });
    let words = parts
        .par_iter()
        .map(|part| part.partition_point(|&token| !tokens[token as usize].is_gap));
    let words: usize = words.sum();
    let own_spaces = numbered.flat_map_iter(|(part, &start)| {
        let own = part.iter().zip(start..).filter(|&(&token, _)| {
            let token = &tokens[token as usize];
            !token.is_gap && !token.has_space && token.text[0] == b' '
        });
        own.map(|(_, id)| id)
    });
    let own_spaces = own_spaces.collect();
    let (offsets, bytes) = written(tokens, &parts);
    let dictionary = Dictionary::new(offsets, bytes, words as u32, own_spaces);
    (dictionary, ids)
}

/// The tokens in order, in consecutive parts: a sample gives the ends of parts, so that all threads sort from the beginning.
/// Parallel on the current pool.
fn in_order(tokens: &[FoldedToken<'_>]) -> Vec<Vec<u32>> {
    /// Tokens sampled for each part.
    const SAMPLED: usize = 8;
    /// A limit to the size of the table of chunks by parts, whatever the number of tokens.
    const PARTS_MAX: usize = 512;
    /// Chunks for each thread.
    const CHUNKS_A_THREAD: usize = 4;
    let parts = tokens.len().div_ceil(TASK_TOKENS).min(PARTS_MAX);
    let chunks = CHUNKS_A_THREAD * rayon::current_num_threads();
    let chunk_tokens = tokens.len().div_ceil(chunks).max(TASK_TOKENS);
    let sample = (0..parts * SAMPLED).map(|index| {
        let spread = index as u64 * tokens.len() as u64 / (parts * SAMPLED) as u64;
        tokens[spread as usize].key()
    });
    let mut sample: Vec<_> = sample.collect();
    sample.sort_unstable();
    let ends: Vec<_> = (1..parts).map(|part| sample[part * SAMPLED]).collect();
    // The caller has counted them: numbers fit u32.
    let chunks = tokens.par_chunks(chunk_tokens).enumerate();
    let shared_out: Vec<Vec<Vec<NumberedKey>>> = chunks
        .map(|(chunk, tokens)| {
            let mut shares = vec![Vec::new(); parts];
            for (number, token) in (chunk * chunk_tokens..).zip(tokens) {
                let key = token.key();
                shares[ends.partition_point(|end| *end <= key)].push(NumberedKey {
                    number: number as u32,
                    is_gap: token.is_gap,
                    prefix: token.prefix[0],
                });
            }
            shares
        })
        .collect();
    let parts = (0..parts).into_par_iter().map(|part| {
        let mut part: Vec<NumberedKey> = (shared_out.iter())
            .flat_map(|shares| shares[part].iter().copied())
            .collect();
        part.sort_unstable_by(|left, right| {
            let keys = (left.is_gap, left.prefix).cmp(&(right.is_gap, right.prefix));
            let token = |key: &NumberedKey| &tokens[key.number as usize];
            keys.then_with(|| token(left).compare(token(right)))
        });
        part.iter().map(|key| key.number).collect()
    });
    parts.collect()
}

/// A token by number, with the beginning of its key: most comparisons need no more.
#[derive(Clone, Copy)]
struct NumberedKey {
    prefix: u64,
    number: u32,
    is_gap: bool,
}

/// For each local dictionary the final ids of its tokens, from `ids`, those of the distinct tokens.
fn local_ids(
    partitioned: &[Partitioned],
    partitions: &[HashPartition],
    bases: &[u32],
    ids: &[AtomicU32],
) -> Vec<Vec<u32>> {
    let mut starts = [0; PARTITIONS];
    let starts: Vec<[usize; PARTITIONS]> = partitioned
        .iter()
        .map(|local| {
            let these = starts;
            for (start, ends) in starts.iter_mut().zip(local.offsets.windows(2)) {
                *start += ends[1] - ends[0];
            }
            these
        })
        .collect();
    partitioned
        .par_iter()
        .zip(starts)
        .map(|(local, starts)| {
            let mut local_ids = vec![0; local.tokens.len()];
            for (partition, start) in starts.into_iter().enumerate() {
                let tokens = local.tokens(partition);
                let places = &partitions[partition].places[start..start + tokens.len()];
                for (&(token, _), place) in tokens.iter().zip(places) {
                    let id = &ids[(bases[partition] + place) as usize];
                    local_ids[token as usize] = id.load(Relaxed);
                }
            }
            local_ids
        })
        .collect()
}

/// The tokens of one local dictionary, grouped by partition.
struct Partitioned {
    /// Local id and hash.
    tokens: Vec<(u32, u64)>,
    /// `[PARTITIONS + 1]` into `tokens`.
    offsets: Vec<usize>,
}

impl Partitioned {
    fn new(local: &LocalDictionary, seeds: [u64; 2]) -> Partitioned {
        let hashes: Vec<u64> = (0..local.len() as u32)
            .map(|id| hash_bytes(local.token(id), seeds, local.is_word(id)))
            .collect();
        let mut offsets = vec![0; PARTITIONS + 1];
        for &hash in &hashes {
            offsets[partition_of(hash) + 1] += 1;
        }
        for partition in 0..PARTITIONS {
            offsets[partition + 1] += offsets[partition];
        }
        let mut tokens = vec![(0, 0); hashes.len()];
        let mut next = offsets.clone();
        for (id, &hash) in hashes.iter().enumerate() {
            let place = &mut next[partition_of(hash)];
            tokens[*place] = (id as u32, hash);
            *place += 1;
        }
        Partitioned { tokens, offsets }
    }

    fn tokens(&self, partition: usize) -> &[(u32, u64)] {
        &self.tokens[self.offsets[partition]..self.offsets[partition + 1]]
    }
}

/// The partition of a hash, by its top bits: the tables use the low ones.
fn partition_of(hash: u64) -> usize {
    (hash >> (u64::BITS - PARTITION_BITS)) as usize
}

/// The distinct tokens of one partition.
struct HashPartition {
    /// For each distinct token a local dictionary and an id there.
    distinct: Vec<(u32, u32)>,
    /// For each token of the partition, in order of local dictionaries, its place in `distinct`.
    places: Vec<u32>,
    /// The folded words of the distinct tokens.
    folded: Folded,
}

impl HashPartition {
    fn new(
        tokenizer: Tokenizer,
        locals: &[LocalDictionary],
        partitioned: &[Partitioned],
        partition: usize,
    ) -> HashPartition {
        let tokens: usize = partitioned
            .iter()
            .map(|local| local.tokens(partition).len())
            .sum();
        let mut table = IdTable::new();
        let mut distinct: Vec<(u32, u32)> = Vec::new();
        let mut places = Vec::with_capacity(tokens);
        for (index, (local, partitioned)) in locals.iter().zip(partitioned).enumerate() {
            for &(id, hash) in partitioned.tokens(partition) {
                let (token, is_word) = (local.token(id), local.is_word(id));
                let new_place = distinct.len() as u32;
                let place = table.find_or_insert(hash, new_place, |place| {
                    let (other, id) = distinct[place as usize];
                    let other = &locals[other as usize];
                    other.token(id) == token && other.is_word(id) == is_word
                });
                if place == new_place {
                    distinct.push((index as u32, id));
                }
                places.push(place);
            }
        }
        let folded = distinct
            .iter()
            .map(|&(local, id)| locals[local as usize].entry(id));
        HashPartition {
            folded: Folded::new(tokenizer, folded),
            distinct,
            places,
        }
    }

    /// The distinct token at `place`, ready to be sorted.
    fn token<'a>(
        &'a self,
        tokenizer: Tokenizer,
        locals: &'a [LocalDictionary],
        place: usize,
    ) -> FoldedToken<'a> {
        let (local, id) = self.distinct[place];
        let token = locals[local as usize].entry(id);
        self.folded.token(tokenizer, place, token)
    }
}

/// The words of some tokens, folded, one after the other.
struct Folded {
    words: Vec<u8>,
    /// `[tokens + 1]` into `words`; an empty range where the word folds to itself or there is no word.
    offsets: Vec<usize>,
}

impl Folded {
    /// Folds tokens, each with a flag for word tokens.
    fn new<'a>(tokenizer: Tokenizer, tokens: impl Iterator<Item = (&'a [u8], bool)>) -> Folded {
        let mut words = Vec::new();
        let mut offsets = vec![0];
        offsets.reserve(tokens.size_hint().0);
        for (token, is_word) in tokens {
            if is_word && !is_folded(token) {
                let space = usize::from(has_glued_space(tokenizer, token));
                fold(&token[space..], &mut words);
            }
            offsets.push(words.len());
        }
        Folded { words, offsets }
    }

    /// The token at `place`, ready to be sorted.
    fn token<'a>(
        &'a self,
        tokenizer: Tokenizer,
        place: usize,
        (token, is_word): (&'a [u8], bool),
    ) -> FoldedToken<'a> {
        if !is_word {
            return FoldedToken {
                is_gap: true,
                ..FoldedToken::new(token, token, false)
            };
        }
        let has_space = has_glued_space(tokenizer, token);
        let word = &token[usize::from(has_space)..];
        let folded = &self.words[self.offsets[place]..self.offsets[place + 1]];
        let folded = if folded.is_empty() { word } else { folded };
        FoldedToken::new(folded, word, has_space)
    }
}

/// Tokens in the order of `parts`, one after the other: where each begins, and where the last one ends; and their bytes. Parallel
/// on the current pool.
fn written(tokens: &[FoldedToken<'_>], parts: &[Vec<u32>]) -> (Vec<u64>, Vec<u8>) {
    let token_of = |&token: &u32| &tokens[token as usize];
    let sizes = parts.par_iter();
    let sizes: Vec<usize> = sizes
        .map(|part| part.iter().map(token_of).map(FoldedToken::size).sum())
        .collect();
    let mut bytes = vec![0; sizes.iter().sum()];
    let mut offsets = vec![0; tokens.len() + 1];
    let (mut rest, mut ends, mut begin) = (&mut bytes[..], &mut offsets[1..], 0);
    let mut work = Vec::with_capacity(sizes.len());
    for (part, size) in parts.iter().zip(sizes) {
        let (part_bytes, part_ends);
        (part_bytes, rest) = rest.split_at_mut(size);
        (part_ends, ends) = ends.split_at_mut(part.len());
        work.push((part, part_ends, part_bytes, begin));
        begin += size as u64;
    }
    work.into_par_iter().for_each(|(part, ends, bytes, begin)| {
        let mut written = 0;
        for (token, end) in part.iter().map(token_of).zip(ends) {
            let bytes = &mut bytes[written..written + token.size()];
            bytes[..usize::from(token.has_space)].fill(b' ');
            bytes[usize::from(token.has_space)..].copy_from_slice(token.text);
            written += token.size();
            *end = begin + written as u64;
        }
    });
    (offsets, bytes)
}

/// A token to be sorted, with its folded word.
struct FoldedToken<'a> {
    /// The first bytes of `folded`, big-endian, zeros behind its end: decides most comparisons.
    prefix: [u64; 2],
    folded: &'a [u8],
    /// The word, or the gap token.
    text: &'a [u8],
    /// Whether the token has a space before `text`.
    has_space: bool,
    /// Gap tokens come after all words.
    is_gap: bool,
}

impl<'a> FoldedToken<'a> {
    fn new(folded: &'a [u8], text: &'a [u8], has_space: bool) -> FoldedToken<'a> {
        let mut prefix = [0; 16];
        let size = folded.len().min(prefix.len());
        prefix[..size].copy_from_slice(&folded[..size]);
        let prefix = u128::from_be_bytes(prefix);
        FoldedToken {
            prefix: [(prefix >> 64) as u64, prefix as u64],
            folded,
            text,
            has_space,
            is_gap: false,
        }
    }

    fn size(&self) -> usize {
        self.text.len() + usize::from(self.has_space)
    }

    /// The first part of the order, which decides most comparisons.
    fn key(&self) -> (bool, [u64; 2]) {
        (self.is_gap, self.prefix)
    }

    fn compare(&self, other: &FoldedToken<'_>) -> Ordering {
        (self.key().cmp(&other.key()))
            .then_with(|| self.folded.cmp(other.folded))
            .then_with(|| self.text.cmp(other.text))
            .then_with(|| self.has_space.cmp(&other.has_space))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::{Interner, chunk_end, tokenize};
    use super::*;
    use std::collections::BTreeSet;

    fn intern(tokenizer: Tokenizer, texts: &[&[u8]]) -> (Vec<Vec<u32>>, Vec<LocalDictionary>) {
        let mut interner = Interner::new();
        texts
            .iter()
            .map(|text| {
                tokenize(tokenizer, text, &mut interner);
                interner.take()
            })
            .unzip()
    }

    fn merged_texts(merged: &Merged, ids: &[Vec<u32>]) -> Vec<Vec<u8>> {
        ids.iter()
            .zip(&merged.ids)
            .map(|(ids, finals)| {
                ids.iter()
                    .flat_map(|&id| merged.dictionary.token(finals[id as usize]).to_vec())
                    .collect()
            })
            .collect()
    }

    #[test]
    fn distinct_tokens_are_sorted_as_they_are_merged() {
        let words = (0..20_000u32).map(|word| {
            let word = word.wrapping_mul(2_654_435_761) >> 12;
            format!("{word:x} Stra\u{df}e{} x-{word}\n", word % 900)
        });
        let text: String = words.collect();
        let texts = ["", "one", &text];
        for text in texts {
            let (_, locals) = intern(Tokenizer::Unicode, &[text.as_bytes()]);
            let merged = merge(Tokenizer::Unicode, &locals);
            let local = &locals[0];
            let token = |id: usize| local.entry(id as u32);
            let (dictionary, ids) = sort_distinct(Tokenizer::Unicode, local.len(), token);
            assert_eq!(dictionary, merged.dictionary);
            assert_eq!(ids, merged.ids[0]);
        }
    }

    #[test]
    fn words_sort_by_folded_word_then_word_then_space_and_gaps_follow() {
        let texts = [
            "The the  THE, caf\u{e9} CAF\u{c9} cafe zoo\n",
            "\tthe Zoo the\t",
        ];
        let texts = texts.map(str::as_bytes);
        let (ids, locals) = intern(Tokenizer::Unicode, &texts);
        let merged = merge(Tokenizer::Unicode, &locals);
        let tokens: Vec<&str> = merged
            .dictionary
            .iter()
            .map(|token| str::from_utf8(token).unwrap())
            .collect();
        assert_eq!(
            tokens,
            [
                " cafe",
                " CAF\u{c9}",
                " caf\u{e9}",
                " THE",
                "The",
                "the",
                " the",
                " Zoo",
                " zoo",
                "\t",
                "\n",
                " ",
                ",",
            ]
        );
        assert_eq!(merged.dictionary.word_tokens(), 9);
        assert_eq!(merged_texts(&merged, &ids), texts);
    }

    #[test]
    fn the_order_does_not_depend_on_threads_or_chunks() {
        let text: Vec<u8> = (0..40_000_u32)
            .flat_map(|number| {
                let mixed = number.wrapping_mul(2_654_435_761) >> 18;
                format!("{mixed:x}Ab{} ", char::from(b'a' + (mixed % 26) as u8)).into_bytes()
            })
            .collect();
        let expected: BTreeSet<(Vec<u8>, Vec<u8>, bool)> = text
            .split_inclusive(|&byte| byte == b' ')
            .enumerate()
            .map(|(index, word)| {
                let word = word.trim_ascii_end();
                (word.to_ascii_lowercase(), word.to_vec(), index > 0)
            })
            .collect();
        for threads in [1, 2, 16] {
            for pieces in [1, 7] {
                let cuts: Vec<&[u8]> = {
                    let mut rest = &text[..];
                    let mut cuts = Vec::new();
                    for _ in 1..pieces {
                        let end =
                            chunk_end(Tokenizer::Unicode, &rest[..text.len() / pieces]).unwrap();
                        cuts.push(&rest[..end]);
                        rest = &rest[end..];
                    }
                    cuts.push(rest);
                    cuts
                };
                let (ids, locals) = intern(Tokenizer::Unicode, &cuts);
                let pool = rayon::ThreadPoolBuilder::new()
                    .num_threads(threads)
                    .build()
                    .unwrap();
                let merged = pool.install(|| merge(Tokenizer::Unicode, &locals));
                assert_eq!(merged_texts(&merged, &ids), cuts);
                let words: Vec<(Vec<u8>, Vec<u8>, bool)> = (0..merged.dictionary.word_tokens())
                    .map(|id| {
                        let word = merged.dictionary.word(id).to_vec();
                        let has_space = merged.dictionary.has_glued_space(id);
                        (word.to_ascii_lowercase(), word, has_space)
                    })
                    .collect();
                assert!(words.iter().eq(&expected));
            }
        }
    }

    #[test]
    fn the_same_bytes_as_word_and_as_gap_are_two_tokens() {
        // Cut at 64 bytes, the ideographic space leaves two bytes that are a word where they stand alone.
        let spaces = "\u{3000}".repeat(22);
        let (ids, locals) = intern(Tokenizer::Whitespace, &[spaces.as_bytes(), b"\x80\x80"]);
        let merged = merge(Tokenizer::Whitespace, &locals);
        assert_eq!(merged.dictionary.len(), 3);
        assert_eq!(merged.dictionary.word_tokens(), 1);
        assert_eq!(
            merged_texts(&merged, &ids),
            [spaces.as_bytes(), b"\x80\x80"]
        );
    }

    #[test]
    fn no_tokens_make_an_empty_dictionary() {
        let merged = merge(Tokenizer::Unicode, &[LocalDictionary::default()]);
        assert!(merged.dictionary.is_empty());
        assert_eq!(merged.ids, [Vec::<u32>::new()]);
    }
}
