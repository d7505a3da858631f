//! Any bytes as an index file, and as what lies in one: an error, or lists whose files, n-grams and places ascend; never a panic, a hang
//! or memory out of proportion to the file (libFuzzer's limit on one allocation).
//!
//! The first byte, divided by 4, chooses the reader of the rest: 0 files; 1 lists, 2 n-grams, in a segment of as many files as the second
//! byte says; 3 places of a word, whose entries are as many bytes as the second byte says, and links. The layout is that of
//! storage/FORMAT.md.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use zipfdb::fuzzing::{
    LINK_BYTES_MAX, NgramTable, PackedLists, PlaceSource, WordPlaces, stored_places,
};
use zipfdb_storage::{Backend, IndexReader, MemoryBackend};

/// One input.
pub fn run(bytes: &[u8]) {
    match bytes {
        [mode, file @ ..] if mode % 4 == 0 => open(file),
        [mode, files, block @ ..] if mode % 4 == 1 => read_block(block, u32::from(*files) << 3),
        [mode, files, block @ ..] if mode % 4 == 2 => read_ngrams(block, usize::from(*files)),
        [_, size, bytes @ ..] => {
            let (entries, links) = bytes.split_at(bytes.len().min(usize::from(*size)));
            read_places(entries, links);
        }
        _ => {}
    }
}

/// Words of the dictionary that n-grams are of.
const WORDS: u32 = 1 << 12;

fn read_ngrams(block: &[u8], files: usize) {
    let Some(table) = NgramTable::of_blocks(files, WORDS, &[(0, block)]) else {
        return;
    };
    for n in 1..=3 {
        let all = table.ngram_counts(n, &AtomicBool::new(false));
        let mut last = Vec::new();
        for part in all.expect("the flag is never set") {
            for ngram in part.words.chunks_exact(n) {
                assert!(&last[..] < ngram, "n-grams ascend");
                last = ngram.to_vec();
                table.count(ngram);
            }
        }
    }
}

/// Places that occurrences are counted up to.
const PLACES_MAX: usize = 1 << 16;

/// Links of nodes that begin every few bytes.
struct Links<'a>(&'a [u8]);

/// Bytes from the beginning of a node to that of the next.
const NODE_BYTES: usize = 8;

impl PlaceSource for Links<'_> {
    type Error = ();

    fn nodes(&self) -> u32 {
        (self.0.len() / NODE_BYTES) as u32
    }

    fn node(&self, node: u32) -> Result<u64, ()> {
        Ok(node as u64 * NODE_BYTES as u64)
    }

    fn links<R>(&self, at: u64, read: impl FnOnce(&[u8]) -> R) -> Result<R, ()> {
        let rest = self.0.get(at as usize..).ok_or(())?;
        Ok(read(&rest[..rest.len().min(LINK_BYTES_MAX)]))
    }

    fn malformed(&self) {}
}

fn read_places(entries: &[u8], links: &[u8]) {
    let found = stored_places(&Links(links), entries, 0..u64::MAX, PLACES_MAX);
    if let Ok(found) = found {
        assert!(found.len() <= PLACES_MAX);
        assert!(found.is_sorted_by(|left, right| left < right));
    }
    let places = WordPlaces::of_stored(&[0], entries.to_vec(), &[0], links.to_vec(), 1 << 16);
    if let Some(places) = places {
        assert!(places.places(0, 0..u64::MAX).len() <= PLACES_MAX);
    }
}

fn open(file: &[u8]) {
    let path = Path::new("fuzzed.idx");
    let backend = MemoryBackend::default();
    let mut target = backend.create(path).expect("memory has room for a file");
    target.write_all(file).expect("memory takes all bytes");
    target.sync().expect("memory needs no sync");
    drop(target);
    let Ok(reader) = IndexReader::open(&backend, path) else {
        return;
    };
    assert_eq!(reader.size(), file.len() as u64);
    let _ = reader.verify();
    let _ = reader.part(0, 0, reader.section_size(0), 0);
}

fn read_block(block: &[u8], files: u32) {
    let mut lists = PackedLists::new(block, 0, files);
    let mut last = None;
    while let Ok(Some(list)) = lists.next_list() {
        assert!(last < Some(list.token), "tokens ascend");
        last = Some(list.token);
        let ids = list.ids();
        if let Ok(ids) = &ids {
            assert_eq!(ids.len(), list.len());
            assert!(ids.is_sorted_by(|left, right| left < right));
            assert!(ids.last().is_none_or(|&id| id < files));
        }
        let counts = list.counts();
        assert!(counts.is_err() || counts.is_ok_and(|counts| counts.len() == list.len()));
        for step in [1, 17] {
            let mut common: Vec<u32> = (0..files).step_by(step).collect();
            if list.retain_common(&mut common).is_ok()
                && let Ok(ids) = &ids
            {
                let expected = ids.iter().copied().filter(|id| id % step as u32 == 0);
                assert!(common.into_iter().eq(expected));
            }
        }
    }
}
