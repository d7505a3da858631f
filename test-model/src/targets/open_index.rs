//! Any bytes as an index file, and as a block of its lists: an error, or lists whose files ascend; never a panic, a hang or memory
//! out of proportion to the file (libFuzzer's limit on one allocation).
//!
//! An even first byte gives the rest to the reader of files; an odd one to that of blocks, in a segment of as many files as the
//! second byte says. The layout is that of storage/FORMAT.md.

use std::path::Path;

use zipfdb::fuzzing::PackedLists;
use zipfdb_storage::{Backend, IndexReader, MemoryBackend};

/// One input.
pub fn run(bytes: &[u8]) {
    match bytes {
        [mode, file @ ..] if mode % 2 == 0 => open(file),
        [_, files, block @ ..] => read_block(block, u32::from(*files) << 3),
        _ => {}
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
