//! Snapshots: many look-ups in one state of a corpus.
//!
//! Invariant: answers stand in the order of the questions.

use std::ffi::{CString, c_char};

use crate::boundary::guarded;
use crate::database::Database;
use crate::error::{ErrorHandle, c_text};
use crate::pointers::{Failure, c_str, free, give, handle, items, texts};
use crate::text::Text;
use crate::texts::Texts;

/// One state of a corpus. It is freed by `zipfdb_snapshot_free`.
pub struct SnapshotHandle(zipfdb::Snapshot);

/// A part of a file.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Range {
    /// The name of the file, as a C string.
    pub file: *const c_char,
    /// The first byte.
    pub offset: u64,
    /// The number of bytes.
    pub length: u64,
}

/// A place in a corpus.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// The name of the file, which lives as long as the answer.
    pub file: *const c_char,
    /// The byte.
    pub offset: u64,
}

/// The places of some words. They are freed by `zipfdb_places_free`.
pub struct Places {
    /// Owns the names that places lead to.
    _files: Vec<CString>,
    places: Vec<Place>,
    /// `[words + 1]`: the places of word i are `ends[i]..ends[i + 1]`.
    ends: Vec<usize>,
}

impl Places {
    /// The places of words, for each the files with the offsets in them.
    fn of(found: Vec<Vec<(String, Vec<u64>)>>) -> Places {
        let mut files = Vec::new();
        let mut places = Vec::new();
        let mut ends = vec![0];
        for in_files in found {
            for (file, offsets) in in_files {
                // The bytes of a CString stay where they are when it moves.
                let file = c_text(&file);
                let name = file.as_ptr();
                files.push(file);
                places.extend(
                    offsets
                        .into_iter()
                        .map(|offset| Place { file: name, offset }),
                );
            }
            ends.push(places.len());
        }
        Places {
            _files: files,
            places,
            ends,
        }
    }
}

/// Takes the state of a corpus. Later edits do not show in it.
///
/// # Safety
/// `database` is a database that was not closed, `corpus` a C string; `snapshot` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zipfdb_snapshot_new(
    database: *const Database,
    corpus: *const c_char,
    snapshot: *mut *mut SnapshotHandle,
) -> *mut ErrorHandle {
    guarded(|| {
        // SAFETY: by the contract of the function.
        let database = unsafe { handle(database, "database") }?;
        // SAFETY: by the contract of the function.
        let corpus = unsafe { c_str(corpus, "corpus") }?;
        let taken = SnapshotHandle(database.0.corpus(corpus)?.snapshot()?);
        // SAFETY: by the contract of the function.
        unsafe { give(snapshot, taken, "snapshot") }
    })
}

/// Frees a snapshot.
///
/// # Safety
/// `snapshot` is NULL or a snapshot that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zipfdb_snapshot_free(snapshot: *mut SnapshotHandle) {
    // SAFETY: by the contract of the function.
    unsafe { free(snapshot) }
}

/// Writes the number of occurrences of each of `count` words to `counts`.
///
/// # Safety
/// `snapshot` is a snapshot that was not freed; `words` has `count` texts and `counts` room for as many numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zipfdb_count_many(
    snapshot: *const SnapshotHandle,
    words: *const Text,
    count: usize,
    counts: *mut u64,
) -> *mut ErrorHandle {
    guarded(|| {
        // SAFETY: by the contract of the function.
        let snapshot = unsafe { handle(snapshot, "snapshot") }?;
        // SAFETY: by the contract of the function.
        let words = unsafe { texts(words, count, "words") }?;
        let found = snapshot.0.count_many(&words)?;
        if count > 0 && counts.is_null() {
            return Err(Failure::Argument("argument `counts` is NULL".to_owned()));
        }
        // SAFETY: there is room for `count` numbers, and `count_many` gives one for each word.
        unsafe { counts.copy_from_nonoverlapping(found.as_ptr(), found.len()) };
        Ok(())
    })
}

/// Finds the places of each of `count` words: files in order of name, offsets ascending.
///
/// # Safety
/// `snapshot` is a snapshot that was not freed; `words` has `count` texts; `places` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zipfdb_search_many(
    snapshot: *const SnapshotHandle,
    words: *const Text,
    count: usize,
    places: *mut *mut Places,
) -> *mut ErrorHandle {
    guarded(|| {
        // SAFETY: by the contract of the function.
        let snapshot = unsafe { handle(snapshot, "snapshot") }?;
        // SAFETY: by the contract of the function.
        let words = unsafe { texts(words, count, "words") }?;
        let found = Places::of(snapshot.0.search_many(&words)?);
        // SAFETY: by the contract of the function.
        unsafe { give(places, found, "places") }
    })
}

/// Reads each of `count` parts of files, as far as the files go.
///
/// # Safety
/// `snapshot` is a snapshot that was not freed; `ranges` has `count` parts; `texts` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zipfdb_extract_many(
    snapshot: *const SnapshotHandle,
    ranges: *const Range,
    count: usize,
    texts: *mut *mut Texts,
) -> *mut ErrorHandle {
    guarded(|| {
        // SAFETY: by the contract of the function.
        let (snapshot, ranges) = unsafe {
            (
                handle(snapshot, "snapshot")?,
                items(ranges, count, "ranges")?,
            )
        };
        let ranges = ranges.iter().map(|range| {
            // SAFETY: by the contract of the function.
            let file = unsafe { c_str(range.file, "ranges") }?;
            Ok((file, range.offset, range.length))
        });
        let ranges = ranges.collect::<Result<Vec<_>, Failure>>()?;
        let read = Texts::of(snapshot.0.extract_many(&ranges)?);
        // SAFETY: by the contract of the function.
        unsafe { give(texts, read, "texts") }
    })
}

/// The places of word `number`, numbered from 0. Writes how many there are and returns the first; they lie side by side and live
/// as long as the answer. NULL if there is no such word.
///
/// # Safety
/// `places` are places that were not freed; `count` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zipfdb_places_of(
    places: *const Places,
    number: usize,
    count: *mut usize,
) -> *const Place {
    // SAFETY: by the contract of the function.
    let found = unsafe { places.as_ref() }.and_then(|places| {
        let (start, end) = (*places.ends.get(number)?, *places.ends.get(number + 1)?);
        places.places.get(start..end)
    });
    if !count.is_null() {
        // SAFETY: by the contract of the function.
        unsafe { count.write(found.map_or(0, <[Place]>::len)) };
    }
    found.map_or(std::ptr::null(), <[Place]>::as_ptr)
}

/// Frees places.
///
/// # Safety
/// `places` is NULL or places that were not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zipfdb_places_free(places: *mut Places) {
    // SAFETY: by the contract of the function.
    unsafe { free(places) }
}
