//! Batches of conjunctive queries on lists that stay encoded in device memory (Ao et al., PVLDB 4(8), 2011, 5.3).
//!
//! The invariant: answers are those of [`intersect`](crate::intersect) on the same lists. A device has the bytes that an index stores,
//! and beside them the first id of each block, H of the paper, with a line that bounds the search in it; buckets of a hash need
//! neither. Of lists of residuals an id is decoded alone, of gaps a block. Bytes may be damaged: then answers are any ids, and
//! nothing outside of the lists is read.

use rayon::prelude::*;

use zipfdb_kernels::gpu::building_blocks::{
    BatchAnswers, BatchQueries, LIST_SEARCH_HEADER, Source, THREADS, answer_batches, arguments,
    batches_of, shortest_first, survivors_of,
};
use zipfdb_kernels::gpu::{Buffer, Gpu, GpuError, QueryIds};
use zipfdb_kernels::postings::building_blocks::{
    BLOCK_IDS, BitArray, BitLayout, BlockLayout, GAP_SEGMENT, LIST_FRACTION, RESIDUAL_BITS_MAX,
    SEGMENT_FRACTION,
};
use zipfdb_kernels::postings::{PostingsCodec, PostingsList};

use crate::LINES_HEADER;
use crate::list_searches::SafeRange;

pub(crate) static SOURCE: Source = Source {
    name: "coded_lists.cu",
    text: include_str!("coded_lists.cu"),
    headers: &[LIST_SEARCH_HEADER, LINES_HEADER],
    constants: &[
        ("CODED_THREADS", THREADS as u64),
        ("CODED_BLOCK_IDS", BLOCK_IDS as u64),
        ("CODED_GAP_SEGMENT", GAP_SEGMENT as u64),
        ("CODED_LIST_FRACTION", LIST_FRACTION as u64),
        ("CODED_SEGMENT_FRACTION", SEGMENT_FRACTION as u64),
        ("CODED_RESIDUAL_BITS_MAX", RESIDUAL_BITS_MAX),
    ],
};

/// `CodedList` of `coded_lists.cu`.
type CodedListWords = [u64; 16];

/// What a list is, as `coded_lists.cu` knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
enum ListKind {
    Plain = 0,
    Every = 1,
    Encoded = 2,
}

/// How blocks are found and read; `coded_flags_kernel` knows those of residuals by their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BlockSearch {
    ListLine,
    SegmentLines,
    Buckets,
    Gaps,
}

/// Encoded lists in device memory, with what finds their blocks.
#[derive(Debug)]
pub struct DeviceCodedLists {
    /// `[lists]`.
    counts: Vec<u32>,
    search: BlockSearch,
    words: Buffer<u32>,
    lists: Buffer<CodedListWords>,
    heads: Buffer<u32>,
}

/// One list, before it is known where its words and heads lie.
struct PreparedList<'a> {
    words: CodedListWords,
    bytes: &'a [u8],
    heads: Vec<u32>,
    count: u32,
}

impl DeviceCodedLists {
    /// The codecs whose lists kernels read as they are.
    pub const CODECS: [PostingsCodec; 6] = [
        PostingsCodec::ParaPfd,
        PostingsCodec::Lrc,
        PostingsCodec::LrcSeg,
        PostingsCodec::SegLrc,
        PostingsCodec::HsLrc256,
        PostingsCodec::HsLrc128,
    ];

    /// Copies lists, whose number is their place. Lists of another codec, those of few ids and all of codecs whose blocks no
    /// kernel reads, are decoded and stay so; of the others the bytes are copied as they are.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    pub fn new(
        gpu: &Gpu,
        codec: PostingsCodec,
        lists: &[PostingsList<'_>],
    ) -> Result<DeviceCodedLists, GpuError> {
        let search = match codec {
            PostingsCodec::Lrc | PostingsCodec::LrcSeg => BlockSearch::ListLine,
            PostingsCodec::SegLrc => BlockSearch::SegmentLines,
            PostingsCodec::HsLrc256 | PostingsCodec::HsLrc128 => BlockSearch::Buckets,
            _ => BlockSearch::Gaps,
        };
        let prepared = lists.par_iter().map(|list| PreparedList::of(list, search));
        let prepared: Vec<PreparedList<'_>> = prepared.collect();
        let (mut counts, mut all_words, mut heads) = (Vec::new(), Vec::new(), Vec::new());
        let mut list_words = Vec::with_capacity(lists.len());
        for list in prepared {
            let mut words = list.words;
            words[0] = all_words.len() as u64;
            words[14] |= heads.len() as u64; // fewer than 2^32 ids
            let quads = list.bytes.chunks(4).map(|quad| {
                let mut word = [0; 4];
                word[..quad.len()].copy_from_slice(quad);
                u32::from_le_bytes(word)
            });
            all_words.extend(quads);
            heads.extend(list.heads);
            counts.push(list.count);
            list_words.push(words);
        }
        // Reads take up to three words at once.
        all_words.extend([0; 2]);
        Ok(DeviceCodedLists {
            counts,
            search,
            words: gpu.upload(&all_words)?,
            lists: gpu.upload(&list_words)?,
            heads: gpu.upload(&heads)?,
        })
    }

    /// Bytes of device memory, with what finds blocks.
    pub fn bytes(&self) -> usize {
        let numbers = self.words.len() + self.heads.len();
        numbers * size_of::<u32>() + self.lists.len() * size_of::<CodedListWords>()
    }

    /// As [`DeviceLists::intersect`](zipfdb_kernels::gpu::DeviceLists::intersect). Any ids where lists are damaged.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    ///
    /// # Panics
    ///
    /// When there is no such list.
    pub fn intersect(
        &self,
        gpu: &Gpu,
        queries: &[Vec<u32>],
        threshold: usize,
    ) -> Result<QueryIds, GpuError> {
        let queries = shortest_first(queries, |list| self.counts[list as usize]);
        let candidates = |query: &[u32]| {
            let shortest = query.first();
            shortest.map_or(0, |&list| self.counts[list as usize] as usize)
        };
        let batches = batches_of(&queries, threshold, candidates);
        answer_batches(
            gpu,
            &batches,
            |gpu, queries| {
                let counts = queries.iter().map(|query| candidates(query));
                BatchQueries::upload(gpu, queries, counts)
            },
            |gpu, batch| self.start(gpu, batch),
        )
    }

    /// Starts the kernels of a batch.
    fn start(&self, gpu: &Gpu, batch: BatchQueries) -> Result<BatchAnswers, GpuError> {
        let (queries, items) = (batch.queries, batch.items);
        let candidates = gpu.allocate::<u32>(items as usize)?;
        let flags = gpu.allocate::<u32>(items as usize)?;
        let mut arguments = arguments! {
            words: &self.words,
            lists: &self.lists,
            heads: &self.heads,
            entries: batch.entries(),
            query_offsets: batch.query_offsets(),
            item_offsets: batch.item_offsets(),
            queries,
            items,
            candidates,
            flags,
        }
        .to_vec();
        let kernel = match self.search {
            BlockSearch::Gaps => SOURCE.kernel("gap_flags_kernel"),
            search => {
                let method = search as u32;
                arguments.extend(arguments! { method });
                SOURCE.kernel("coded_flags_kernel").made_for(method)
            }
        };
        gpu.launch_looping(kernel, items as usize, &arguments)?;
        survivors_of(gpu, batch, &flags, |_, places, survivors| {
            let arguments = arguments! { candidates, items, places, survivors };
            let kernel = SOURCE.kernel("kept_candidates_kernel");
            gpu.launch_looping(kernel, items as usize, arguments)
        })
    }
}

impl<'a> PreparedList<'a> {
    fn of(list: &PostingsList<'a>, search: BlockSearch) -> PreparedList<'a> {
        let layout = (list.bit_layout()).filter(|layout| search_of(&layout.blocks) == search);
        let Some(layout) = layout else {
            return PreparedList::decoded(list);
        };
        let count = list.len() as u32; // at most the universe
        let mut words = [0; 16];
        words[1] = layout.bytes.len() as u64 * 8;
        words[2] = layout.data;
        let packed = |array: BitArray| match array.width {
            0 => 0,
            width => array.at << 6 | u64::from(width),
        };
        let mut blocks = layout.firsts.len() as u32; // fewer than ids
        let mut shift = 0;
        match layout.blocks {
            BlockLayout::Gaps { ends } => words[8] = packed(ends),
            BlockLayout::ListLine {
                base,
                slope,
                minima,
                ends,
            } => {
                words[3] = base as u64;
                words[4] = slope;
                words[5] = packed(minima);
                words[8] = packed(ends);
            }
            BlockLayout::SegmentLines {
                bases,
                slopes,
                ends,
                buckets,
            } => {
                words[6] = packed(bases);
                words[7] = packed(slopes);
                words[8] = packed(ends);
                if let Some(buckets) = buckets {
                    words[5] = packed(buckets.begins);
                    blocks = buckets.count;
                    shift = buckets.shift;
                }
            }
        }
        words[9..13].copy_from_slice(&head_line(&layout).map(f64::to_bits));
        words[13] = u64::from(count) | (ListKind::Encoded as u64) << 32;
        words[14] = u64::from(blocks) << 32;
        words[15] = u64::from(shift);
        PreparedList {
            words,
            bytes: layout.bytes,
            heads: layout.firsts,
            count,
        }
    }

    /// A list as its ids.
    fn decoded(list: &PostingsList<'a>) -> PreparedList<'a> {
        let is_every = list.len() == list.universe() as usize;
        let mut heads = Vec::new();
        let (kind, count) = if is_every {
            (ListKind::Every, list.len())
        } else {
            list.append(&mut heads);
            (ListKind::Plain, heads.len())
        };
        let count = count as u32; // at most the universe
        let mut words = [0; 16];
        words[13] = u64::from(count) | (kind as u64) << 32;
        PreparedList {
            words,
            bytes: &[],
            heads,
            count,
        }
    }
}

fn search_of(blocks: &BlockLayout) -> BlockSearch {
    match blocks {
        BlockLayout::Gaps { .. } => BlockSearch::Gaps,
        BlockLayout::ListLine { .. } => BlockSearch::ListLine,
        BlockLayout::SegmentLines { buckets: None, .. } => BlockSearch::SegmentLines,
        BlockLayout::SegmentLines { .. } => BlockSearch::Buckets,
    }
}

/// The line by which the block of an id is found: an id is in the last block that begins with it or less, so one block before
/// that in which the line has it may be right too.
fn head_line(layout: &BitLayout<'_>) -> [f64; 4] {
    let range = SafeRange::fit(&layout.firsts).0;
    let numbers = [range.base, range.inverse, range.left + 1.0, range.right];
    if range.inverse > 0.0 && numbers.iter().all(|number| number.is_finite()) {
        return numbers;
    }
    // First ids that do not ascend are damaged, and found wherever they are.
    let blocks = layout.firsts.len() as f64;
    [0.0, 0.0, blocks, blocks]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use zipfdb_kernels::gpu::test_devices::{Numbers, on_devices};
    use zipfdb_kernels::postings::encode_ids;

    use super::*;

    /// Lists of all lengths around blocks, whose ids are near each other, far from each other, or both.
    fn lists(universe: u32, numbers: &mut Numbers) -> Vec<Vec<u32>> {
        let lengths = [
            0, 1, 31, 32, 33, 64, 65, 127, 128, 129, 255, 256, 257, 511, 513, 1000, 3000, 5000,
        ];
        let mut lists = Vec::new();
        for (number, &length) in lengths.iter().cycle().take(3 * lengths.len()).enumerate() {
            let draw = |numbers: &mut Numbers| -> u32 {
                let [a, b] = numbers.below(2, universe)[..] else {
                    unreachable!("two were asked for");
                };
                match number / lengths.len() {
                    0 => a,
                    // Dense at the front.
                    1 => (u64::from(a) * u64::from(b) / u64::from(universe)) as u32,
                    // In clusters.
                    _ => a / 4096 * 4096 + b % 300,
                }
            };
            let ids: BTreeSet<u32> = match length {
                5000 if number / lengths.len() == 2 => (7..5007.min(universe)).collect(),
                _ => (0..length)
                    .map(|_| draw(numbers).min(universe - 1))
                    .collect(),
            };
            lists.push(ids.into_iter().collect());
        }
        lists.push((0..universe.min(9000)).collect());
        lists
    }

    fn encoded(codec: PostingsCodec, lists: &[Vec<u32>], universe: u32) -> Vec<Vec<u8>> {
        let encode = |ids: &Vec<u32>| {
            let mut bytes = Vec::new();
            encode_ids(codec, ids, universe, &mut bytes);
            bytes
        };
        lists.iter().map(encode).collect()
    }

    fn opened<'a>(
        codec: PostingsCodec,
        bytes: &'a [Vec<u8>],
        lists: &[Vec<u32>],
        universe: u32,
    ) -> Vec<PostingsList<'a>> {
        let lists = bytes.iter().zip(lists).map(|(bytes, ids)| {
            PostingsList::new(codec, bytes, ids.len(), universe).expect("was encoded")
        });
        lists.collect()
    }

    fn common(lists: &[Vec<u32>], queries: &[Vec<u32>]) -> QueryIds {
        let mut expected = QueryIds {
            offsets: vec![0],
            ids: Vec::new(),
        };
        for query in queries {
            let sets = query.iter().map(|&list| {
                let ids = lists[list as usize].iter().copied();
                ids.collect::<BTreeSet<u32>>()
            });
            expected
                .ids
                .extend(sets.reduce(|all, set| &all & &set).unwrap_or_default());
            expected.offsets.push(expected.ids.len());
        }
        expected
    }

    #[test]
    fn encoded_lists_have_the_answers_of_sets() {
        on_devices(|gpu| {
            for universe in [9000, 1 << 20, u32::MAX] {
                let mut numbers = Numbers::new(universe.into());
                let lists = lists(universe, &mut numbers);
                let count = lists.len() as u32;
                let mut queries: Vec<Vec<u32>> = (0..60)
                    .map(|query| numbers.below(query % 7, count))
                    .collect();
                // Each list alone: every id is decoded. Each with that of the same kind which is longest: many are found.
                queries.extend((0..count).map(|list| vec![list]));
                queries.extend((0..count).map(|list| vec![list, (16 + list / 18 * 18) % count]));
                let expected = common(&lists, &queries);
                for codec in DeviceCodedLists::CODECS {
                    let bytes = encoded(codec, &lists, universe);
                    let opened = opened(codec, &bytes, &lists, universe);
                    let device = DeviceCodedLists::new(gpu, codec, &opened)?;
                    for threshold in [300, usize::MAX] {
                        let found = device.intersect(gpu, &queries, threshold)?;
                        assert!(found == expected, "{codec:?}, {universe}, {threshold}");
                    }
                }
            }
            Ok(())
        });
    }

    #[test]
    fn lists_of_other_codecs_are_decoded_first() {
        on_devices(|gpu| {
            let universe = 20_000;
            let lists = lists(universe, &mut Numbers::new(5));
            let queries: Vec<Vec<u32>> = (1..20).map(|k| vec![k, 35 - k, 17]).collect();
            let mut all = Vec::new();
            for codec in PostingsCodec::ALL {
                all.push(encoded(codec, &lists, universe));
            }
            let codecs = PostingsCodec::ALL.into_iter().cycle();
            let mixed = lists
                .iter()
                .enumerate()
                .zip(codecs)
                .map(|((k, ids), codec)| {
                    let bytes = &all[codec as usize - 1][k];
                    PostingsList::new(codec, bytes, ids.len(), universe).expect("was encoded")
                });
            let mixed: Vec<PostingsList<'_>> = mixed.collect();
            for codec in [PostingsCodec::SegLrc, PostingsCodec::EliasFano] {
                let device = DeviceCodedLists::new(gpu, codec, &mixed)?;
                let found = device.intersect(gpu, &queries, 1000)?;
                assert!(found == common(&lists, &queries), "{codec:?}");
            }
            Ok(())
        });
    }

    #[test]
    fn damaged_lists_give_any_ids_and_read_nothing_else() {
        on_devices(|gpu| {
            let universe = 1 << 20;
            let mut numbers = Numbers::new(11);
            let lists = lists(universe, &mut numbers);
            let count = lists.len() as u32;
            let queries: Vec<Vec<u32>> = (0..40)
                .map(|query| numbers.below(1 + query % 4, count))
                .collect();
            for codec in DeviceCodedLists::CODECS {
                let sound = encoded(codec, &lists, universe);
                for round in 0..6 {
                    let mut bytes = sound.clone();
                    for bytes in &mut bytes {
                        let size = bytes.len();
                        if size == 0 {
                            continue;
                        }
                        for _ in 0..3 {
                            // Headers come first, and are few.
                            let [place, bits] = numbers.any(2)[..] else {
                                unreachable!("two were asked for");
                            };
                            let within = if bits % 2 == 0 { size } else { size.min(40) };
                            bytes[place as usize % within] ^= (bits >> 8) as u8;
                        }
                        if round == 5 {
                            bytes.truncate(size * 2 / 3);
                        }
                    }
                    let mut found = Vec::new();
                    let opened = (bytes.iter().zip(&lists)).filter_map(|(bytes, ids)| {
                        PostingsList::new(codec, bytes, ids.len(), universe).ok()
                    });
                    found.extend(opened);
                    let within = |query: &Vec<u32>| -> Vec<u32> {
                        let lists = query.iter().map(|list| list % found.len() as u32);
                        lists.collect()
                    };
                    let queries: Vec<Vec<u32>> = queries.iter().map(within).collect();
                    let device = DeviceCodedLists::new(gpu, codec, &found)?;
                    device.intersect(gpu, &queries, 5000)?;
                }
            }
            Ok(())
        });
    }
}
