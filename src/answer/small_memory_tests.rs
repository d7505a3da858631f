//! Look-ups where the cache has room for the dictionary and the rules of a segment, but not for its grammar: each decodes a few
//! blocks, and no structure again.

#![allow(clippy::unwrap_used)]

use std::sync::atomic::AtomicBool;

use zipfdb_storage::{CorpusSettings, IndexKind};

use super::tests::Numbers;
use crate::Database;
use crate::handles::snapshot::Snapshot;
use crate::segment::{SegmentView, Unit};

const FILES: u64 = 6;

/// Words of each file.
const WORDS: u64 = 40_000;

/// The limit of memory: too little for the grammar.
const LIMIT: &str = "SET memory_limit = '4MiB'";

/// Text of frequent and seldom words, with little that repeats.
fn prose(numbers: &mut Numbers) -> String {
    let word = |numbers: &mut Numbers| {
        let below = [20, 400, 5_000][numbers.below(3) as usize];
        format!("w{}", numbers.below(below))
    };
    let words = (0..WORDS).map(|_| word(numbers));
    words.collect::<Vec<_>>().join(" ")
}

/// The answers to one look-up of each kind at a random place.
fn look_up(snapshot: &Snapshot, numbers: &mut Numbers) -> (Vec<u8>, u64, Vec<u64>, u64) {
    let file = &snapshot.files()[numbers.below(FILES) as usize];
    let bytes = snapshot.extract(&file.name, numbers.below(file.bytes - 64), 64);
    let bytes = bytes.unwrap();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    // The first may be a part of a word.
    let words: Vec<&str> = text.split(' ').skip(1).take(2).collect();
    let count = snapshot.count_in(&file.name, words[0]).unwrap();
    let places = snapshot.search_in(&file.name, words[0]).unwrap();
    (bytes, count, places, snapshot.phrase_count(&words).unwrap())
}

#[test]
fn look_ups_decode_blocks_and_make_no_structure_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.zdb");
    let mut numbers = Numbers(11);
    let texts: Vec<(String, String)> = (0..FILES)
        .map(|file| (format!("f{file}"), prose(&mut numbers)))
        .collect();
    let database = Database::open(&path).unwrap();
    let corpus = database.create_corpus("c", CorpusSettings::default());
    corpus.unwrap().append_many(&texts).unwrap();
    database.execute_batch("RECOMPRESS c").unwrap();
    drop(database);
    let open = || Database::options().read_only(true).threads(2).open(&path);
    let (large, small) = (open().unwrap(), open().unwrap());
    small.execute_batch(LIMIT).unwrap();
    let snapshot = |database: &Database| database.corpus("c").unwrap().snapshot().unwrap();
    let (large, small) = (snapshot(&large), snapshot(&small));
    let [live] = small.view().segments() else {
        panic!("it has one segment");
    };
    let segment = || SegmentView::of(live);
    assert!(!segment().has_room(segment().lookup_bytes()));

    // Each kind of index that is due is written by one look-up.
    let (mut of_large, mut of_small) = (Numbers(5), Numbers(5));
    for _ in 0..3 {
        let budgets = &live.budgets;
        let lists = &budgets.places[Unit::Bytes as usize];
        for budget in [&budgets.chunks, &budgets.counts, &budgets.suffixes, lists] {
            budget.make_due();
        }
        let found = look_up(&small, &mut of_small);
        assert_eq!(found, look_up(&large, &mut of_large));
    }
    for kind in [
        IndexKind::Postings,
        IndexKind::Occurrences,
        IndexKind::Suffixes,
    ] {
        assert!(live.has_index(kind), "{}", kind.name());
        assert!(live.indexes().is_empty(), "temporary ones are not listed");
    }

    // The directories of indexes, and what else is read once.
    for _ in 0..5 {
        let found = look_up(&small, &mut of_small);
        assert_eq!(found, look_up(&large, &mut of_large));
    }
    let cache = live.slots().cache();
    let (made, decoded) = (cache.made(), segment().decoded_chunks());
    assert!(decoded > 0);
    for _ in 0..40 {
        let found = look_up(&small, &mut of_small);
        assert_eq!(found, look_up(&large, &mut of_large));
        assert!(cache.used() <= cache.limit(), "{}", cache.used());
    }
    // One that is due meanwhile is made once; one that each look-up made again would take more.
    let again = cache.made() - made;
    assert!(again <= cache.limit() / 2, "made {again} bytes");
    // An extract of 64 bytes lies in at most two chunks.
    assert!(segment().decoded_chunks() <= decoded + 80);

    // A batch, in any order, decodes each chunk once at most on each thread.
    let names = |snapshot: &Snapshot| -> Vec<String> {
        let files = snapshot.files().iter();
        files.map(|file| file.name.clone()).collect()
    };
    let names = names(&small);
    let ranges: Vec<(&str, u64, u64)> = (0..400)
        .map(|_| {
            let file = &names[numbers.below(FILES) as usize];
            (&**file, numbers.below(100_000), 64)
        })
        .collect();
    let decoded = segment().decoded_chunks();
    let found = small.extract_many(&ranges).unwrap();
    assert_eq!(found, large.extract_many(&ranges).unwrap());
    let chunks = segment().chunk_count(&AtomicBool::new(false)).unwrap();
    assert!(segment().decoded_chunks() - decoded <= 4 * chunks);
    assert!(cache.made() - made <= cache.limit());
}
