//! One encoded list: opened, decoded, walked and sought.
//!
//! The invariant: whatever bytes it is opened on, nothing panics, memory is in proportion to the count, and ids that come out
//! ascend and are below the universe. Lists of at most [`SHORT_MAX`] ids, and lists of all ids, are interpolative whichever
//! codec is named: headers would take more than ids.

use super::bit_layout::{BitLayout, BlockLayout};
use super::bit_packing::{BitInput, BitWriter};
use super::codec::{MalformedPostings, PostingsCodec};
use super::elias_fano::{self, EliasFano};
use super::gap_blocks::{self, GapBlocks, GapCoding};
use super::gap_segments::Exceptions;
use super::interpolative;
use super::list_line::{self, ListLine};
use super::roaring::{self, RoaringList};
use super::segment_lines::{self, SegmentLines, Segmentation};
use super::vector_join;

/// Ids of a list that no codec's headers pay for.
pub const SHORT_MAX: usize = 64;

/// A list this many times as long as there are candidates is sought, else it is decoded: where blocks have 128 ids, fewer leave
/// hardly a block without a candidate. Between 32 on lists in natural order and 128 on shuffled ones both take as long.
pub const SEEK_RATIO: usize = 48;

/// Ids for which there is room behind those that are decoded, so that vectors may write more.
const DECODE_SLACK: usize = 2 * vector_join::LANES;

/// Appends a list of ids that ascend below the universe; nothing for no ids.
///
/// # Panics
///
/// When ids do not ascend below the universe, as far as that is noticed.
pub fn encode_ids(codec: PostingsCodec, ids: &[u32], universe: u32, bytes: &mut Vec<u8>) {
    debug_assert!(ids.is_sorted_by(|a, b| a < b));
    let Some(&last) = ids.last() else {
        return;
    };
    assert!(last < universe, "id {last} of {universe}");
    if is_short(ids.len(), universe) {
        let mut writer = BitWriter::new(bytes);
        interpolative::encode(ids, 0, universe.into(), &mut writer);
        return writer.finish();
    }
    match layout(codec, ids.len(), universe) {
        Layout::Gaps(coding) => gap_blocks::encode_least(ids, universe, coding, bytes),
        Layout::Line { is_local } => list_line::encode(ids, is_local, bytes),
        Layout::Segments(segmentation) => segment_lines::encode(ids, segmentation, bytes),
        Layout::EliasFano => elias_fano::encode(ids, universe, bytes),
        Layout::Roaring => roaring::encode(ids, universe, bytes),
    }
}

/// Appends the ids of a list; on an error what was appended is taken away.
///
/// # Errors
///
/// [`MalformedPostings`] if no encoder writes these bytes for `count` ids, or what they hold does not ascend below the
/// universe. Takes memory in proportion to `count` even then.
pub fn decode_ids(
    codec: PostingsCodec,
    bytes: &[u8],
    count: usize,
    universe: u32,
    ids: &mut Vec<u32>,
) -> Result<(), MalformedPostings> {
    let list = PostingsList::new(codec, bytes, count, universe)?;
    let begin = ids.len();
    ids.reserve(count + DECODE_SLACK);
    let decoded = list.decode_all(ids);
    let own = &ids[begin..];
    let is_sound = decoded.is_ok() && own.len() == count && ascends(own, universe);
    if !is_sound {
        ids.truncate(begin);
        return Err(MalformedPostings);
    }
    Ok(())
}

/// Whether ids ascend below the universe.
fn ascends(ids: &[u32], universe: u32) -> bool {
    let behind = ids.get(1..).unwrap_or_default();
    // Looks at all, so that it is vectors.
    let falls = (ids.iter().zip(behind)).fold(0, |falls, (a, b)| falls | u32::from(a >= b));
    falls == 0 && ids.last().is_none_or(|&last| last < universe)
}

/// The codec for a list whose size and speed both count: partitioned Elias-Fano, unless BP128, which decodes two to three
/// times as fast, takes at most a sixteenth more. Encodes the list with both.
pub fn choose_codec(ids: &[u32], universe: u32) -> PostingsCodec {
    if is_short(ids.len(), universe) {
        return PostingsCodec::EliasFano;
    }
    let size = |codec| {
        let mut bytes = Vec::new();
        encode_ids(codec, ids, universe, &mut bytes);
        bytes.len()
    };
    let least = size(PostingsCodec::EliasFano);
    if size(PostingsCodec::Bp128) <= least + least / 16 {
        PostingsCodec::Bp128
    } else {
        PostingsCodec::EliasFano
    }
}

fn is_short(count: usize, universe: u32) -> bool {
    count <= SHORT_MAX || count == universe as usize
}

/// How a codec lays out a list that is not short.
enum Layout {
    Gaps(GapCoding),
    Line { is_local: bool },
    Segments(Segmentation),
    EliasFano,
    Roaring,
}

fn layout(codec: PostingsCodec, count: usize, universe: u32) -> Layout {
    let segments = |kind| Layout::Gaps(GapCoding::Segments(kind));
    let buckets = |bucket| Layout::Segments(Segmentation::hash(bucket, count, universe));
    match codec {
        PostingsCodec::Pfd => segments(Exceptions::Linked),
        PostingsCodec::NewPfd => segments(Exceptions::Simple16),
        PostingsCodec::ParaPfd => segments(Exceptions::Arrays),
        PostingsCodec::Lrc => Layout::Line { is_local: false },
        PostingsCodec::LrcSeg => Layout::Line { is_local: true },
        PostingsCodec::SegLrc => Layout::Segments(Segmentation::Length),
        PostingsCodec::HsLrc256 => buckets(256),
        PostingsCodec::HsLrc128 => buckets(128),
        PostingsCodec::EliasFano => Layout::EliasFano,
        PostingsCodec::Bp128 => Layout::Gaps(GapCoding::Vectors),
        PostingsCodec::Roaring => Layout::Roaring,
    }
}

/// An encoded list whose headers were read.
#[derive(Clone, Copy, Debug)]
pub struct PostingsList<'a> {
    count: usize,
    universe: u32,
    blocks: ListBlocks<'a>,
}

/// Its blocks, each of which decodes alone.
#[derive(Clone, Copy, Debug)]
enum ListBlocks<'a> {
    /// One, unless there are no ids.
    Short(&'a [u8]),
    Gaps(GapBlocks<'a>),
    Line(ListLine<'a>),
    Segments(SegmentLines<'a>),
    EliasFano(EliasFano<'a>),
    Roaring(RoaringList<'a>),
}

impl<'a> PostingsList<'a> {
    /// Reads the headers of a list of `count` ids below `universe`.
    ///
    /// # Errors
    ///
    /// [`MalformedPostings`] if there cannot be as many, or headers lead out of the bytes.
    pub fn new(
        codec: PostingsCodec,
        bytes: &'a [u8],
        count: usize,
        universe: u32,
    ) -> Result<PostingsList<'a>, MalformedPostings> {
        if count > universe as usize {
            return Err(MalformedPostings);
        }
        let blocks = if is_short(count, universe) {
            ListBlocks::Short(bytes)
        } else {
            match layout(codec, count, universe) {
                Layout::Gaps(coding) => {
                    ListBlocks::Gaps(GapBlocks::open(coding, bytes, count, universe)?)
                }
                Layout::Line { is_local } => {
                    ListBlocks::Line(ListLine::open(is_local, bytes, count)?)
                }
                Layout::Segments(segmentation) => {
                    let list = SegmentLines::open(segmentation, bytes, count, universe)?;
                    ListBlocks::Segments(list)
                }
                Layout::EliasFano => {
                    ListBlocks::EliasFano(EliasFano::open(bytes, count, universe)?)
                }
                Layout::Roaring => ListBlocks::Roaring(RoaringList::open(bytes, count, universe)?),
            }
        };
        Ok(PostingsList {
            count,
            universe,
            blocks,
        })
    }

    /// How many ids there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// All ids are below.
    pub fn universe(&self) -> u32 {
        self.universe
    }

    /// The id at an index: at once for the codecs of lines, else by decoding the block it lies in. Any id if bytes are
    /// damaged.
    ///
    /// # Panics
    ///
    /// When there are not as many.
    pub fn get(&self, index: usize) -> u32 {
        assert!(index < self.count, "index {index} of {}", self.count);
        let block = match &self.blocks {
            ListBlocks::Line(list) => return list.get(index),
            ListBlocks::Segments(list) => return list.get(index),
            ListBlocks::Short(_) => 0,
            ListBlocks::Gaps(list) => list.block_of(index),
            ListBlocks::EliasFano(list) => list.block_of(index),
            ListBlocks::Roaring(list) => list.block_of(index),
        };
        let mut ids = Vec::new();
        // What was decoded before an error may be read.
        self.decode(block, &mut ids).unwrap_or_default();
        let place = index.wrapping_sub(self.begin(block));
        ids.get(place).copied().unwrap_or(0)
    }

    /// A cursor before the first id.
    pub fn cursor(&self) -> PostingsCursor<'a> {
        PostingsCursor {
            list: *self,
            ids: Vec::new(),
            place: 0,
            begin: 0,
            block_next: 0,
            least: 0,
        }
    }

    /// Appends all ids, or those before the first damaged block.
    #[doc(hidden)]
    pub fn append(&self, ids: &mut Vec<u32>) {
        let begin = ids.len();
        ids.reserve(self.count);
        let decoded = self.decode_all(ids);
        if decoded.is_ok() && ascends(&ids[begin..], self.universe) {
            return;
        }
        ids.truncate(begin);
        let mut cursor = self.cursor();
        while cursor.load(cursor.block_next) {
            ids.extend_from_slice(&cursor.ids);
        }
    }

    /// Where its numbers lie; none for short lists, and codecs whose blocks no kernel reads.
    #[doc(hidden)]
    pub fn bit_layout(&self) -> Option<BitLayout<'a>> {
        let mut layout = match &self.blocks {
            ListBlocks::Gaps(list) => list.bit_layout()?,
            ListBlocks::Line(list) => list.bit_layout(),
            ListBlocks::Segments(list) => list.bit_layout(),
            ListBlocks::Short(_) | ListBlocks::EliasFano(_) | ListBlocks::Roaring(_) => {
                return None;
            }
        };
        let has_buckets = matches!(
            layout.blocks,
            BlockLayout::SegmentLines {
                buckets: Some(_),
                ..
            }
        );
        if !has_buckets {
            let blocks = 0..self.blocks();
            layout.firsts = blocks.map(|block| self.first_of(block)).collect();
        }
        Some(layout)
    }

    /// The first id of a block, any if bytes are damaged; 0 for blocks that have to be decoded.
    fn first_of(&self, block: usize) -> u32 {
        match &self.blocks {
            ListBlocks::Gaps(list) => list.first_of(block),
            ListBlocks::Line(list) => list.get(self.begin(block)),
            ListBlocks::Segments(list) => list.get(self.begin(block)),
            ListBlocks::Short(_) | ListBlocks::EliasFano(_) | ListBlocks::Roaring(_) => 0,
        }
    }

    fn blocks(&self) -> usize {
        match &self.blocks {
            ListBlocks::Short(_) => usize::from(self.count > 0),
            ListBlocks::Gaps(list) => list.blocks(),
            ListBlocks::Line(list) => list.blocks(),
            ListBlocks::Segments(list) => list.blocks(),
            ListBlocks::EliasFano(list) => list.blocks(),
            ListBlocks::Roaring(list) => list.blocks(),
        }
    }

    /// Appends all ids, which may be any if bytes are damaged.
    fn decode_all(&self, ids: &mut Vec<u32>) -> Result<(), MalformedPostings> {
        if let ListBlocks::EliasFano(list) = &self.blocks {
            return list.decode_all(ids);
        }
        (0..self.blocks()).try_for_each(|block| self.decode(block, ids))
    }

    /// The index of the first id of a block.
    fn begin(&self, block: usize) -> usize {
        match &self.blocks {
            ListBlocks::Short(_) => 0,
            ListBlocks::Gaps(list) => list.begin(block),
            ListBlocks::Line(list) => list.begin(block),
            ListBlocks::Segments(list) => list.begin(block),
            ListBlocks::EliasFano(list) => list.begin(block),
            ListBlocks::Roaring(list) => list.begin(block),
        }
    }

    /// A block from `from` on before which all ids are less than `id`, as far as headers show.
    fn find(&self, id: u32, from: usize) -> usize {
        match &self.blocks {
            ListBlocks::Short(_) => from,
            ListBlocks::Gaps(list) => list.find(id, from),
            ListBlocks::Line(list) => list.find(id, from),
            ListBlocks::Segments(list) => list.find(id, from),
            ListBlocks::EliasFano(list) => list.find(id, from),
            ListBlocks::Roaring(list) => list.find(id, from),
        }
    }

    /// Appends the ids of a block, which may be any if bytes are damaged.
    fn decode(&self, block: usize, ids: &mut Vec<u32>) -> Result<(), MalformedPostings> {
        match &self.blocks {
            ListBlocks::Short(bytes) => {
                let begin = ids.len();
                ids.resize(begin + self.count, 0);
                let mut input = BitInput::new(bytes);
                interpolative::decode(&mut ids[begin..], 0, self.universe.into(), &mut input);
                input.check_end()
            }
            ListBlocks::Gaps(list) => list.decode(block, ids),
            ListBlocks::Line(list) => list.decode(block, ids),
            ListBlocks::Segments(list) => list.decode(block, ids),
            ListBlocks::EliasFano(list) => list.decode(block, ids),
            ListBlocks::Roaring(list) => list.decode(block, ids),
        }
    }
}

/// Walks a list in order, a decoded block at a time. Of a damaged list it gives the ids before the first block that does not
/// ascend.
#[derive(Clone, Debug)]
pub struct PostingsCursor<'a> {
    list: PostingsList<'a>,
    /// The block at hand.
    ids: Vec<u32>,
    /// Which of them comes next.
    place: usize,
    /// The index of the first.
    begin: usize,
    block_next: usize,
    /// What ids of the next block are at least.
    least: u32,
}

impl PostingsCursor<'_> {
    /// The next id.
    #[expect(
        clippy::should_implement_trait,
        reason = "an iterator would not say that it can be sought"
    )]
    #[inline]
    pub fn next(&mut self) -> Option<u32> {
        while self.place == self.ids.len() {
            if !self.load(self.block_next) {
                return None;
            }
        }
        self.place += 1;
        Some(self.ids[self.place - 1])
    }

    /// The first id from the next on that is `at_least` or more, and passes it. Decodes no block that ends before.
    #[inline]
    pub fn seek(&mut self, at_least: u32) -> Option<u32> {
        loop {
            let rest = &self.ids[self.place..];
            if rest.last().is_some_and(|&last| last >= at_least) {
                self.place += count_below(rest, at_least) + 1;
                return Some(self.ids[self.place - 1]);
            }
            self.place = self.ids.len();
            if self.block_next >= self.list.blocks() {
                return None;
            }
            let block = self.list.find(at_least, self.block_next);
            if !self.load(block) {
                return None;
            }
        }
    }

    /// The index of the id that [`PostingsCursor::next`] gives; of those passed by `seek` too.
    pub fn position(&self) -> usize {
        self.begin + self.place
    }

    /// Decodes a block from `block_next` on; `false` if there is none or it is damaged, then for good.
    fn load(&mut self, block: usize) -> bool {
        self.ids.clear();
        self.place = 0;
        if block >= self.list.blocks() {
            self.end();
            return false;
        }
        self.begin = self.list.begin(block);
        let decoded = self.list.decode(block, &mut self.ids);
        let first = self.ids.first().copied();
        let follows = first.is_none_or(|first| first >= self.least);
        if decoded.is_err() || !follows || !ascends(&self.ids, self.list.universe) {
            self.ids.clear();
            self.end();
            return false;
        }
        if let Some(&last) = self.ids.last() {
            // Below the universe.
            self.least = last + 1;
        }
        self.block_next = block + 1;
        true
    }

    fn end(&mut self) {
        self.begin = self.list.count;
        self.block_next = self.list.blocks();
    }
}

/// How many of ascending ids are less; gallops.
#[inline]
pub fn count_below(ids: &[u32], bound: u32) -> usize {
    let (mut low, mut step) = (0, 1);
    while low + step <= ids.len() && ids[low + step - 1] < bound {
        low += step;
        step *= 2;
    }
    let high = ids.len().min(low + step - 1);
    low + ids[low..high].partition_point(|&id| id < bound)
}
