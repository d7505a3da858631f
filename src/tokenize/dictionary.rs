//! Local dictionaries to the one sorted dictionary of a segment.
//!
//! Word tokens come first, by (case-folded word, word, without before with its space), so all tokens of a word and all
//! spellings of a folded word are neighbours; gap tokens follow by their bytes. No two tokens compare equal, so the
//! order depends on nothing but the set of tokens: not on threads, hashes or how the text was cut into chunks.

use super::fold::{fold, is_folded};
use super::has_glued_space;
use super::interner::{IdTable, LocalDictionary, hash_bytes, random_seeds};
use rayon::prelude::*;
use std::cmp::Ordering;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use zipfdb_storage::{Dictionary, Tokenizer};

/// Equal tokens meet in the same partition, and partitions are merged in parallel.
const PARTITION_BITS: u32 = 6;
const PARTITIONS: usize = 1 << PARTITION_BITS;

/// Distinct tokens that one task writes.
const TASK_TOKENS: usize = 1 << 13;

/// What [`merge`] makes of local dictionaries.
pub struct Merged {
    /// All tokens, sorted.
    pub dictionary: Dictionary,
    /// For each local dictionary, in the order given, the ids of its tokens by local id.
    pub ids: Vec<Vec<u32>>,
}

/// Merges local dictionaries into a sorted one.
///
/// Linear in their tokens but for one parallel sort of the distinct ones; uses the current rayon pool.
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
    let mut tokens: Vec<FoldedToken<'_>> = (0..distinct)
        .into_par_iter()
        .map(|distinct| {
            // An empty partition has the base of the next one.
            let partition = bases.partition_point(|&base| base <= distinct) - 1;
            let place = distinct - bases[partition];
            partitions[partition].token(tokenizer, locals, place as usize, distinct)
        })
        .collect();
    tokens.par_sort_unstable_by(FoldedToken::compare);

    let mut ids = Vec::new();
    ids.resize_with(tokens.len(), AtomicU32::default);
    let numbered = (0..distinct).into_par_iter().zip(&tokens);
    numbered.for_each(|(id, token)| ids[token.distinct as usize].store(id, Relaxed));
    let words = tokens.partition_point(|token| !token.is_gap);
    let own_spaces = (0..words as u32).into_par_iter().filter(|&id| {
        let token = &tokens[id as usize];
        !token.has_space && token.text[0] == b' '
    });
    let own_spaces = own_spaces.collect();
    let (offsets, bytes) = written(&tokens);
    let word_tokens = words as u32;

    let local_ids = local_ids(&partitioned, &partitions, &bases, &ids);
    Merged {
        dictionary: Dictionary::new(offsets, bytes, word_tokens, own_spaces),
        ids: local_ids,
    }
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

/// The top bits: the tables use the low ones.
fn partition_of(hash: u64) -> usize {
    (hash >> (u64::BITS - PARTITION_BITS)) as usize
}

/// The distinct tokens of one partition.
struct HashPartition {
    /// For each a local dictionary and an id there.
    distinct: Vec<(u32, u32)>,
    /// For each token of the partition, in order of local dictionaries, its place in `distinct`.
    places: Vec<u32>,
    /// Folded words.
    folded: Vec<u8>,
    /// `[distinct + 1]` into `folded`; an empty range where the word folds to itself or there is no word.
    folded_offsets: Vec<usize>,
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
        let mut folded = Vec::new();
        let mut folded_offsets = Vec::with_capacity(distinct.len() + 1);
        folded_offsets.push(0);
        for &(local, id) in &distinct {
            let local = &locals[local as usize];
            let token = local.token(id);
            if local.is_word(id) && !is_folded(token) {
                let space = usize::from(has_glued_space(tokenizer, token));
                fold(&token[space..], &mut folded);
            }
            folded_offsets.push(folded.len());
        }
        HashPartition {
            distinct,
            places,
            folded,
            folded_offsets,
        }
    }

    /// The distinct token at `place`, ready to be sorted. `distinct` is its place among those of all partitions.
    fn token<'a>(
        &'a self,
        tokenizer: Tokenizer,
        locals: &'a [LocalDictionary],
        place: usize,
        distinct: u32,
    ) -> FoldedToken<'a> {
        let (local, id) = self.distinct[place];
        let local = &locals[local as usize];
        let token = local.token(id);
        if !local.is_word(id) {
            return FoldedToken {
                is_gap: true,
                ..FoldedToken::new(token, token, false, distinct)
            };
        }
        let has_space = has_glued_space(tokenizer, token);
        let word = &token[usize::from(has_space)..];
        let folded = &self.folded[self.folded_offsets[place]..self.folded_offsets[place + 1]];
        let folded = if folded.is_empty() { word } else { folded };
        FoldedToken::new(folded, word, has_space, distinct)
    }
}

/// Tokens one after the other: where each begins, and where the last one ends; and their bytes. Parallel on the current pool.
fn written(tokens: &[FoldedToken<'_>]) -> (Vec<u64>, Vec<u8>) {
    let parts = tokens.par_chunks(TASK_TOKENS);
    let sizes: Vec<usize> = parts
        .map(|tokens| tokens.iter().map(FoldedToken::size).sum())
        .collect();
    let mut bytes = vec![0; sizes.iter().sum()];
    let mut offsets = vec![0; tokens.len() + 1];
    let (mut rest, mut begin) = (&mut bytes[..], 0);
    let mut parts = Vec::with_capacity(sizes.len());
    let ends = offsets[1..].chunks_mut(TASK_TOKENS);
    for ((tokens, ends), size) in tokens.chunks(TASK_TOKENS).zip(ends).zip(sizes) {
        let (part, after) = rest.split_at_mut(size);
        rest = after;
        parts.push((tokens, ends, part, begin));
        begin += size as u64;
    }
    parts
        .into_par_iter()
        .for_each(|(tokens, ends, part, begin)| {
            let mut written = 0;
            for (token, end) in tokens.iter().zip(ends) {
                let bytes = &mut part[written..written + token.size()];
                bytes[..usize::from(token.has_space)].fill(b' ');
                bytes[usize::from(token.has_space)..].copy_from_slice(token.text);
                written += token.size();
                *end = begin + written as u64;
            }
        });
    (offsets, bytes)
}

/// A token to be sorted, with its folding at hand.
struct FoldedToken<'a> {
    /// The first bytes of `folded`, big-endian, zeros behind its end: settles most comparisons.
    prefix: [u64; 2],
    folded: &'a [u8],
    /// The word, or the gap token.
    text: &'a [u8],
    /// Its place among the distinct tokens of all partitions.
    distinct: u32,
    /// Whether the token has a space before `text`.
    has_space: bool,
    /// Gap tokens come after all words.
    is_gap: bool,
}

impl<'a> FoldedToken<'a> {
    fn new(folded: &'a [u8], text: &'a [u8], has_space: bool, distinct: u32) -> FoldedToken<'a> {
        let mut prefix = [0; 16];
        let size = folded.len().min(prefix.len());
        prefix[..size].copy_from_slice(&folded[..size]);
        let prefix = u128::from_be_bytes(prefix);
        FoldedToken {
            prefix: [(prefix >> 64) as u64, prefix as u64],
            folded,
            text,
            distinct,
            has_space,
            is_gap: false,
        }
    }

    fn size(&self) -> usize {
        self.text.len() + usize::from(self.has_space)
    }

    fn compare(&self, other: &FoldedToken<'_>) -> Ordering {
        (self.is_gap.cmp(&other.is_gap))
            .then_with(|| self.prefix.cmp(&other.prefix))
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
