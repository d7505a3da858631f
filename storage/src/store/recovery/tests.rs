//! Recovery, one row of its table at a time, on made-up listings.

#![allow(clippy::unwrap_used)]

use std::io;
use std::path::PathBuf;

use super::*;
use crate::CorpusSettings;
use crate::log::Merge;

/// A database of two corpora, as its files show: `a` (1) with publication 3 (segments 4, 5) and 6 (segment 7), and
/// `b` (2) without segments.
#[derive(Clone)]
struct Files {
    listing: Listing,
    markers: BTreeMap<u64, CorpusRecord>,
    headers: BTreeMap<u64, SegmentHeader>,
}

fn corpus(id: u64, name: &str, segments: &[u64]) -> CorpusRecord {
    CorpusRecord {
        id,
        name: name.to_owned(),
        settings: CorpusSettings::default(),
        merged_position: LogPosition::START,
        segments: segments.to_vec(),
    }
}

fn catalog() -> Corpora {
    BTreeMap::from([(1, corpus(1, "a", &[4, 5, 7])), (2, corpus(2, "b", &[]))])
}

fn damaged() -> Error {
    Error::Corrupt {
        path: PathBuf::from("file"),
        part: "header",
        fault: "damaged",
    }
}

impl Files {
    fn new() -> Files {
        let mut files = Files {
            listing: Listing::default(),
            markers: BTreeMap::new(),
            headers: BTreeMap::new(),
        };
        files.mark(1, "a");
        files.mark(2, "b");
        files.publish("a", 3, &[4, 5]);
        files.publish("a", 6, &[7]);
        files
    }

    fn mark(&mut self, id: u64, name: &str) {
        self.listing.markers.insert(id);
        self.markers.insert(id, corpus(id, name, &[]));
    }

    fn publish(&mut self, name: &str, publication: u64, segments: &[u64]) {
        for (index, &id) in segments.iter().enumerate() {
            self.listing.segments.insert(id);
            let header = SegmentHeader {
                corpus: name.to_owned(),
                settings: CorpusSettings::default(),
                segment_id: id,
                unicode_version: (16, 0, 0),
                publication,
                publication_index: index as u32,
                publication_last: index + 1 == segments.len(),
            };
            self.headers.insert(id, header);
        }
    }

    fn bury(&mut self, id: u64) {
        self.listing.markers.remove(&id);
        self.listing.tombstones.insert(id);
    }

    fn recover(&self, catalog: Option<Corpora>) -> Recovered {
        self.recover_with(catalog, &Scan::default(), Unfinished::Finish)
    }

    fn recover_with(
        &self,
        catalog: Option<Corpora>,
        log: &Scan,
        unfinished: Unfinished,
    ) -> Recovered {
        recover(catalog.as_ref(), &self.listing, log, unfinished, self).unwrap()
    }
}

impl Facts for Files {
    fn marker(&self, id: u64) -> Result<CorpusRecord> {
        self.markers.get(&id).cloned().ok_or_else(damaged)
    }

    fn tombstone(&self, id: u64) -> Result<CorpusRecord> {
        self.marker(id)
    }

    fn header(&self, id: u64) -> Result<SegmentHeader> {
        self.headers.get(&id).cloned().ok_or_else(damaged)
    }
}

#[test]
fn nothing_happens_when_catalog_and_files_agree() {
    let recovered = Files::new().recover(Some(catalog()));
    let expected = Recovered {
        corpora: catalog(),
        ..Recovered::default()
    };
    assert_eq!(recovered, expected);
}

#[test]
fn segments_that_the_catalog_knows_are_not_read() {
    let mut files = Files::new();
    files.headers.clear();
    files.markers.clear();
    assert_eq!(files.recover(Some(catalog())).corpora, catalog());
}

#[test]
fn a_lost_catalog_is_rebuilt_whole() {
    let recovered = Files::new().recover(None);
    assert_eq!(recovered.corpora, catalog());
    assert_eq!(recovered.warnings, [""; 0]);
}

#[test]
fn any_older_catalog_is_brought_up_to_date_with_warnings() {
    let older = [
        (Corpora::new(), 4),
        (Corpora::from([(1, corpus(1, "a", &[]))]), 3),
        (Corpora::from([(1, corpus(1, "a", &[4, 5]))]), 2),
        (Corpora::from([(1, corpus(1, "a", &[4, 5, 7]))]), 1),
    ];
    for (older, changes) in older {
        let recovered = Files::new().recover(Some(older));
        assert_eq!(recovered.corpora, catalog());
        assert_eq!(recovered.notes.len(), changes);
        assert_eq!(recovered.warnings, [""; 0]);
        assert!(recovered.garbage.is_empty());
    }
}

#[test]
fn part_of_a_publication_is_garbage_or_set_aside_if_the_catalog_is_lost_too() {
    for missing in [10, 11, 12] {
        let mut files = Files::new();
        files.publish("b", 9, &[10, 11, 12]);
        files.listing.segments.remove(&missing);
        files
            .listing
            .temporary
            .insert("00000012.seg.tmp".to_owned());
        let rest: BTreeSet<u64> = [10, 11, 12]
            .into_iter()
            .filter(|id| *id != missing)
            .collect();

        let recovered = files.recover(Some(catalog()));
        assert_eq!(recovered.corpora, catalog());
        assert_eq!(recovered.garbage, rest);
        assert_eq!(recovered.temporary.len(), 1);
        assert_eq!(recovered.warnings, [""; 0]);

        let recovered = files.recover(None);
        assert_eq!(recovered.corpora, catalog());
        assert_eq!(recovered.aside, rest);
        assert!(recovered.garbage.is_empty() && recovered.temporary.is_empty());
        assert_eq!(recovered.warnings.len(), 1);
    }
}

#[test]
fn a_segment_of_the_catalog_without_a_file_is_reported_and_kept() {
    let mut files = Files::new();
    files.listing.segments.remove(&5);
    let recovered = files.recover(Some(catalog()));
    assert_eq!(recovered.corpora, catalog());
    assert_eq!(
        recovered.warnings,
        ["segment 5 of corpus `a` is missing: the corpus cannot be read"]
    );
}

#[test]
fn a_tombstone_wins_over_the_catalog_and_takes_the_segments_with_it() {
    let mut files = Files::new();
    files.bury(1);
    let rest = Corpora::from([(2, corpus(2, "b", &[]))]);
    for known in [Some(catalog()), Some(rest.clone()), None] {
        let recovered = files.recover(known);
        assert_eq!(recovered.corpora, rest);
        assert_eq!(recovered.garbage, BTreeSet::from([4, 5, 7]));
        assert_eq!(recovered.tombstones, BTreeSet::from([1]));
        assert_eq!(recovered.warnings, [""; 0]);
    }
}

#[test]
fn a_corpus_created_again_does_not_inherit_the_segments_of_the_dropped_one() {
    let mut files = Files::new();
    files.bury(1);
    files.mark(8, "a");
    files.publish("a", 9, &[10]);
    let expected = Corpora::from([(2, corpus(2, "b", &[])), (8, corpus(8, "a", &[10]))]);
    for known in [Some(catalog()), Some(expected.clone()), None] {
        let recovered = files.recover(known);
        assert_eq!(recovered.corpora, expected);
        assert_eq!(recovered.garbage, BTreeSet::from([4, 5, 7]));
    }
}

#[test]
fn a_drop_that_the_catalog_lost_stays_a_drop() {
    let mut files = Files::new();
    files.listing.markers.remove(&1);
    files.listing.segments.clear();
    files.listing.markers.remove(&2);
    let recovered = files.recover(Some(catalog()));
    assert_eq!(recovered.corpora, Corpora::new());
    assert_eq!(recovered.notes.len(), 2);
}

#[test]
fn a_lost_or_damaged_marker_loses_no_segment() {
    let mut files = Files::new();
    files.listing.markers.remove(&1);
    let recovered = files.recover(Some(catalog()));
    assert_eq!(recovered.corpora, catalog());
    assert_eq!(recovered.unmarked, [1]);
    assert_eq!(recovered.warnings.len(), 1);

    // Without catalog the corpus comes back under another number, with all its segments.
    let recovered = files.recover(None);
    assert_eq!(
        recovered.corpora[&recovered.unmarked[0]].segments,
        [4, 5, 7]
    );
    assert_eq!(recovered.warnings.len(), 1);

    files.listing.markers.insert(1);
    files.markers.remove(&1);
    assert_eq!(files.recover(Some(catalog())).corpora, catalog());
    let recovered = files.recover(None);
    assert_eq!(
        recovered.corpora[&recovered.unmarked[0]].segments,
        [4, 5, 7]
    );
    assert_eq!(recovered.warnings.len(), 2);
}

#[test]
fn an_unreadable_segment_is_set_aside_and_takes_its_publication_with_it_if_the_catalog_is_lost() {
    let mut files = Files::new();
    files.headers.remove(&5);
    assert_eq!(files.recover(Some(catalog())).corpora, catalog());

    let recovered = files.recover(None);
    assert_eq!(recovered.corpora[&1].segments, [7]);
    assert_eq!(recovered.aside, BTreeSet::from([4, 5]));
    assert_eq!(recovered.warnings.len(), 2);
}

#[test]
fn an_error_of_the_operating_system_or_a_later_version_is_not_taken_for_damage() {
    struct Failing(Files, fn() -> Error);
    impl Facts for Failing {
        fn marker(&self, id: u64) -> Result<CorpusRecord> {
            self.0.marker(id)
        }
        fn tombstone(&self, id: u64) -> Result<CorpusRecord> {
            self.0.tombstone(id)
        }
        fn header(&self, _id: u64) -> Result<SegmentHeader> {
            Err(self.1())
        }
    }
    let errors: [fn() -> Error; 2] = [
        || Error::Io {
            path: PathBuf::new(),
            action: "read",
            source: io::ErrorKind::Other.into(),
        },
        || Error::Version {
            path: PathBuf::new(),
            found: 9,
            supported: 1,
        },
    ];
    for error in errors {
        let files = Files::new();
        let listing = files.listing.clone();
        let failing = Failing(files, error);
        recover(
            None,
            &listing,
            &Scan::default(),
            Unfinished::Finish,
            &failing,
        )
        .unwrap_err();
    }
}

/// A log that says that segment 11 of publication 10 has replaced all segments of `a`.
fn recompressed() -> Scan {
    Scan {
        merges: vec![Merge {
            corpus: 1,
            publication: 10,
            position: POSITION,
            added: vec![11],
            replaced: vec![4, 5, 7],
        }],
        ..Scan::default()
    }
}

const POSITION: LogPosition = LogPosition {
    file: 1,
    offset: 500,
};

/// The catalog after [`recompressed`].
fn merged() -> Corpora {
    let mut corpora = catalog();
    let record = corpora.get_mut(&1).unwrap();
    record.segments = vec![11];
    record.merged_position = POSITION;
    corpora
}

#[test]
fn a_recompression_in_the_log_is_finished_from_every_point() {
    for (renamed, removed) in [(false, 0), (true, 0), (true, 1), (true, 3)] {
        let mut files = Files::new();
        if renamed {
            files.publish("a", 10, &[11]);
        } else {
            let name = "00000011.seg.tmp".to_owned();
            files.listing.temporary.insert(name);
        }
        for id in &[4, 5, 7][..removed] {
            files.listing.segments.remove(id);
        }
        let left: BTreeSet<u64> = [4, 5, 7].into_iter().skip(removed).collect();
        for known in [Some(catalog()), Some(merged()), None] {
            let recovered = files.recover_with(known, &recompressed(), Unfinished::Finish);
            assert_eq!(recovered.corpora, merged());
            assert_eq!(recovered.garbage, left);
            assert_eq!(recovered.unplaced.contains(&11), !renamed);
            assert_eq!(recovered.unmarked, [1], "the marker has the old position");
            assert_eq!(recovered.warnings, [""; 0]);
            assert!(recovered.temporary.is_empty());
        }
    }
}

#[test]
fn readers_do_not_see_a_recompression_before_all_its_segments_have_their_names() {
    let mut files = Files::new();
    let name = "00000011.seg.tmp".to_owned();
    files.listing.temporary.insert(name);
    for known in [Some(catalog()), None] {
        let recovered = files.recover_with(known, &recompressed(), Unfinished::Hide);
        assert_eq!(recovered.corpora, catalog());
        assert!(recovered.garbage.is_empty());
    }
}

#[test]
fn a_recompression_that_adds_nothing_leaves_an_empty_corpus() {
    let files = Files::new();
    let mut log = recompressed();
    log.merges[0].added.clear();
    for unfinished in [Unfinished::Finish, Unfinished::Hide] {
        let recovered = files.recover_with(Some(catalog()), &log, unfinished);
        assert_eq!(recovered.corpora[&1].segments, [0; 0]);
        assert_eq!(recovered.corpora[&1].merged_position, POSITION);
        assert_eq!(recovered.garbage, BTreeSet::from([4, 5, 7]));
    }
}

#[test]
fn a_catalog_that_has_lost_a_recompression_is_helped_by_the_marker() {
    let mut files = Files::new();
    files.listing.segments.clear();
    files.publish("a", 10, &[11]);
    files.markers.get_mut(&1).unwrap().merged_position = POSITION;
    for known in [catalog(), Corpora::new()] {
        let recovered = files.recover(Some(known));
        assert_eq!(recovered.corpora, merged());
        assert_eq!(recovered.warnings, [""; 0]);
    }
    // One that has not: the segment is lost.
    files.listing.segments.clear();
    let recovered = files.recover(Some(merged()));
    assert_eq!(recovered.warnings.len(), 1);
    assert!(recovered.incomplete);
}

#[test]
fn a_recompression_of_a_dropped_corpus_brings_nothing_back() {
    let mut files = Files::new();
    files.publish("a", 10, &[11]);
    files.bury(1);
    for known in [Some(catalog()), None] {
        let recovered = files.recover_with(known, &recompressed(), Unfinished::Finish);
        assert!(!recovered.corpora.contains_key(&1));
        assert_eq!(recovered.garbage, BTreeSet::from([4, 5, 7, 11]));
    }
}
