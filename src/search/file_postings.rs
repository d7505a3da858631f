//! Files with counts, in blocks of 64, and cursors over them.
//!
//! Invariant: blocks ascend, none is empty, and counts are in the order of files and not 0. Sets of files are joined a block at a
//! time; a cursor skips the blocks before the one that is sought, so files of one list alone cost nothing. No score is known here.

use crate::bisect::gallop;

/// Files of a block: one a bit.
const BLOCK_FILES: u32 = u64::BITS;

/// Some of 64 consecutive files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileBlock {
    /// Its files are those from 64 times this number on.
    number: u32,
    /// The place of its first file among those of all blocks.
    first: u32,
    /// A bit for each file.
    bits: u64,
}

/// Files, each with a count.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct FilePostings {
    blocks: Vec<FileBlock>,
    counts: Vec<u64>,
}

/// The block of a file, and its bit there.
pub(super) fn block_of(file: u32) -> (u32, u64) {
    (file / BLOCK_FILES, 1 << (file % BLOCK_FILES))
}

/// The files of a block, ascending.
pub(super) fn files_of(block: u32, bits: u64) -> impl Iterator<Item = u32> {
    let mut rest = bits;
    std::iter::from_fn(move || {
        let bit = (rest != 0).then(|| rest.trailing_zeros())?;
        rest &= rest - 1;
        Some(block * BLOCK_FILES + bit)
    })
}

impl FileBlock {
    /// The place of a file of the block, given by its bit, among the files of all blocks.
    fn place(&self, bit: u64) -> Option<usize> {
        let before = (self.bits & (bit - 1)).count_ones();
        (self.bits & bit != 0).then_some((self.first + before) as usize)
    }
}

impl FromIterator<(u32, u64)> for FilePostings {
    /// Of files that ascend, with counts that are not 0.
    fn from_iter<I: IntoIterator<Item = (u32, u64)>>(files: I) -> FilePostings {
        let mut postings = FilePostings::default();
        for (file, count) in files {
            let (number, bit) = block_of(file);
            match postings.blocks.last_mut() {
                Some(block) if block.number == number => block.bits |= bit,
                _ => postings.blocks.push(FileBlock {
                    number,
                    // Files are numbered by u32.
                    first: postings.counts.len() as u32,
                    bits: bit,
                }),
            }
            postings.counts.push(count);
        }
        postings.blocks.shrink_to_fit();
        postings.counts.shrink_to_fit();
        postings
    }
}

impl FilePostings {
    /// The number of files.
    pub(super) fn len(&self) -> usize {
        self.counts.len()
    }

    /// The files, ascending, with counts.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, u64)> {
        let blocks = self.blocks.iter();
        let files = blocks.flat_map(|block| files_of(block.number, block.bits));
        files.zip(self.counts.iter().copied())
    }

    /// The counts, in the order of files.
    pub(super) fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// For each block the number of its files.
    pub(super) fn block_sizes(&self) -> impl Iterator<Item = usize> {
        let blocks = self.blocks.iter();
        blocks.map(|block| block.bits.count_ones() as usize)
    }

    /// The place of a file among these.
    pub(super) fn place_of(&self, file: u32) -> Option<usize> {
        let (number, bit) = block_of(file);
        let at = self.blocks.partition_point(|block| block.number < number);
        let block = self.blocks.get(at)?;
        (block.number == number).then(|| block.place(bit))?
    }

    /// The memory that it takes, in bytes.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&self.blocks[..]) + size_of_val(&self.counts[..])
    }
}

/// Places in several lists of blocks, which move forwards.
pub(super) struct BlockCursors<'a> {
    lists: Vec<&'a [FileBlock]>,
    /// For each list the index of its next block.
    next: Vec<usize>,
}

impl<'a> BlockCursors<'a> {
    pub(super) fn new(lists: impl IntoIterator<Item = &'a FilePostings>) -> BlockCursors<'a> {
        let lists: Vec<&[FileBlock]> = lists.into_iter().map(|list| &list.blocks[..]).collect();
        BlockCursors {
            next: vec![0; lists.len()],
            lists,
        }
    }

    /// The number of the first block of a list from `number` on.
    pub(super) fn seek(&mut self, list: usize, number: u32) -> Option<u32> {
        let (blocks, next) = (self.lists[list], &mut self.next[list]);
        if blocks.get(*next).is_some_and(|block| block.number < number) {
            let rest = &blocks[*next..];
            *next += gallop(rest.len(), |at| rest[at].number < number);
        }
        blocks.get(*next).map(|block| block.number)
    }

    /// The block of a list with a number, which no block behind was sought before, and its index.
    fn block(&mut self, list: usize, number: u32) -> Option<(usize, &'a FileBlock)> {
        let found = self.seek(list, number)?;
        let next = self.next[list];
        (found == number).then(|| (next, &self.lists[list][next]))
    }

    /// The files of a block of a list.
    pub(super) fn bits(&mut self, list: usize, number: u32) -> u64 {
        self.block(list, number).map_or(0, |(_, block)| block.bits)
    }

    /// The index of a block of a list.
    pub(super) fn index(&mut self, list: usize, number: u32) -> Option<usize> {
        self.block(list, number).map(|(index, _)| index)
    }

    /// The place of a file of a list among its files.
    pub(super) fn place(&mut self, list: usize, file: u32) -> Option<usize> {
        let (number, bit) = block_of(file);
        self.block(list, number)?.1.place(bit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn files_are_found_where_they_are(
            files in proptest::collection::btree_map(0_u32..1000, 1_u64..9, 0..200),
            sought in proptest::collection::btree_set(0_u32..1000, 0..50),
        ) {
            let postings: FilePostings = files.clone().into_iter().collect();
            prop_assert!(postings.iter().eq(files.clone()));
            prop_assert_eq!(postings.block_sizes().sum::<usize>(), files.len());
            let mut cursors = BlockCursors::new([&postings]);
            for file in sought {
                let place = files.contains_key(&file).then(|| files.range(..file).count());
                prop_assert_eq!(postings.place_of(file), place);
                prop_assert_eq!(cursors.place(0, file), place);
                let (block, bit) = block_of(file);
                prop_assert_eq!(cursors.bits(0, block) & bit != 0, place.is_some());
                prop_assert!(files_of(block, bit).eq([file]));
            }
        }
    }
}
