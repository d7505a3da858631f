//! Edits compared with plain texts that are edited the same way: all answers, after every few edits.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bytes::Bytes;
use zipfdb_storage::Tokenizer;

use super::access_path::Run;
use super::tests::{
    Numbers, TOKENIZERS, Texts, check, segments_of, snapshot_of, stored, text, texts,
};
use super::{CorpusView, StoredView};
use crate::overlay::{EditBatch, Insertion, Overlay};
use crate::runtime::device::Devices;
use crate::runtime::interrupt::NEVER;
use crate::segment::cache::Cache;
use crate::{Error, Result};

/// The same edits on plain texts: rows of one batch see the texts before it.
pub(super) fn edit(texts: &mut Texts, batch: &EditBatch) {
    match batch {
        EditBatch::Insert(rows) => {
            let before = texts.clone();
            let mut rows: Vec<(u64, &Insertion)> = (rows.iter())
                .map(|row| {
                    let end = before.get(&*row.file).map_or(0, |text| text.len() as u64);
                    (row.offset.unwrap_or(end), row)
                })
                .collect();
            rows.sort_by_key(|&(offset, _)| offset);
            for (offset, row) in rows.into_iter().rev() {
                let at = offset as usize;
                let text = texts.entry(row.file.to_string()).or_default();
                text.splice(at..at, row.text.iter().copied());
            }
        }
        EditBatch::Replace(rows) => {
            for (file, text) in rows {
                texts.insert(file.to_string(), text.to_vec());
            }
        }
        EditBatch::Delete(files) => {
            for file in files {
                texts.remove(&**file);
            }
        }
        EditBatch::Set(_) => {}
    }
}

/// Pieces that join, split and make words of every tokenizer's kind.
const SNIPPETS: [&str; 28] = [
    "x",
    " ",
    "  ",
    "the",
    " york ",
    "\n",
    "'",
    ".",
    "3.1",
    ",4",
    "new words",
    " fresh ",
    "\u{301}",
    "\u{e9}",
    "e\u{301}",
    "\u{1f1e9}",
    "\u{1f1ea} ",
    "\u{200d}",
    "_",
    "\u{cca}",
    "\r\n",
    "\u{5d0}\"",
    "\u{202f}",
    "the new york times",
    "\u{4e2d}\u{6587}\u{4e2d}\u{6587}\u{4e2d}\u{6587}\u{4e2d}\u{6587}\u{4e2d}\u{6587}",
    "\u{3042}\u{4e2d}",
    "\u{30ab}\u{30bf}",
    "\u{4e2d}\u{3002}",
];

fn snippet(numbers: &mut Numbers) -> Vec<u8> {
    match numbers.below(30) {
        0 => vec![0xff, b'a'],
        1 => "\u{e9}".as_bytes()[..1].to_vec(),
        2 => text(numbers, 200),
        3 => Vec::new(),
        _ => SNIPPETS[numbers.below(SNIPPETS.len() as u64) as usize].into(),
    }
}

pub(super) fn some_edits(numbers: &mut Numbers, texts: &Texts) -> EditBatch {
    let names: Vec<&String> = texts.keys().collect();
    let any = |numbers: &mut Numbers| -> Arc<str> {
        match names.len() {
            0 => "dir/new0".into(),
            count => names[numbers.below(count as u64) as usize].as_str().into(),
        }
    };
    match numbers.below(12) {
        0 if !names.is_empty() => EditBatch::Delete(vec![any(numbers)]),
        1 => EditBatch::Replace(vec![(any(numbers), text(numbers, 300).into())]),
        2 => {
            let name = format!("dir/new{}", numbers.below(4));
            EditBatch::Insert(vec![Insertion {
                file: name.into(),
                offset: None,
                text: text(numbers, 100).into(),
            }])
        }
        _ => {
            let rows = 1 + numbers.below(6);
            let row = |numbers: &mut Numbers| {
                let file = any(numbers);
                let size = texts.get(&*file).map_or(0, |text| text.len() as u64);
                let offset = match numbers.below(5) {
                    0 => None,
                    _ if !texts.contains_key(&*file) => None,
                    // Some edits near each other, some at the very ends.
                    1 => Some(numbers.below(size + 1) / 16 * 16),
                    2 => Some(0),
                    _ => Some(numbers.below(size + 1)),
                };
                Insertion {
                    file,
                    offset,
                    text: Bytes::from(snippet(numbers)),
                }
            };
            EditBatch::Insert((0..rows).map(|_| row(numbers)).collect())
        }
    }
}

/// Makes random edits, some at a time, and checks all answers after each time.
fn check_edits(seed: u64, sizes: &[usize], tokenizer: Tokenizer, segment_size: u64, rounds: usize) {
    println!("seed {seed}");
    let mut numbers = Numbers(seed);
    let mut texts = texts(seed, sizes);
    let segments = if sizes.is_empty() {
        Vec::new()
    } else {
        segments_of(&texts, tokenizer, segment_size)
    };
    let stored = Arc::new(stored(segments).unwrap());
    let mut overlay = Overlay::default();
    for round in 0..rounds {
        for _ in 0..1 + round * 2 {
            let edits = some_edits(&mut numbers, &texts);
            overlay.apply(&edits, &*stored, &mut || Ok(())).unwrap();
            edit(&mut texts, &edits);
        }
        let view = CorpusView::new(stored.clone(), overlay.clone(), tokenizer, &NEVER).unwrap();
        check(&snapshot_of(2, view), &texts, tokenizer);
    }
}

#[test]
fn all_answers_are_those_on_the_edited_texts_with_any_tokenizer() {
    for (seed, tokenizer) in (100..).zip(TOKENIZERS) {
        check_edits(seed, &[0, 1, 40, 3_000, 400], tokenizer, 1 << 30, 5);
    }
}

#[test]
fn edits_of_files_in_parts_and_several_segments_are_answered_exactly() {
    for (seed, tokenizer) in (200..).zip(TOKENIZERS) {
        check_edits(seed, &[900, 6_000, 50, 0, 3_000], tokenizer, 2 << 10, 3);
    }
}

#[test]
fn a_corpus_of_which_nothing_is_stored_answers_for_its_edits() {
    check_edits(300, &[], Tokenizer::Unicode, 1 << 30, 6);
}

#[test]
fn a_large_text_that_is_pending_is_answered_exactly() {
    let mut numbers = Numbers(400);
    let mut texts = texts(400, &[200, 1_000]);
    let stored = Arc::new(stored(segments_of(&texts, Tokenizer::Unicode, 1 << 30)).unwrap());
    let mut overlay = Overlay::default();
    let rows = [("dir/file0.txt", Some(100)), ("dir/new", None)].map(|(file, offset)| Insertion {
        file: file.into(),
        offset,
        text: text(&mut numbers, 40_000).into(),
    });
    let batch = EditBatch::Insert(rows.into());
    overlay.apply(&batch, &*stored, &mut || Ok(())).unwrap();
    edit(&mut texts, &batch);
    let view = CorpusView::new(stored, overlay, Tokenizer::Unicode, &NEVER).unwrap();
    check(&snapshot_of(2, view), &texts, Tokenizer::Unicode);
}

#[test]
fn edits_that_one_view_has_looked_at_are_right_in_another() {
    let batch = |file: &str, text: &'static str| {
        let (file, text) = (file.into(), Bytes::from_static(text.as_bytes()));
        let offset = None;
        EditBatch::Insert(vec![Insertion { file, offset, text }])
    };
    let mut overlays = [Overlay::default(), Overlay::default()];
    let views = [(); 2].map(|()| {
        Arc::new(
            StoredView::new(
                "c".into(),
                Vec::new(),
                Devices::none(),
                &Arc::new(Cache::new(u64::MAX)),
            )
            .unwrap(),
        )
    });
    overlays[0]
        .apply(&batch("a", "the cat"), &*views[0], &mut || Ok(()))
        .unwrap();
    overlays[1]
        .apply(&batch("b", "zebra dog eel"), &*views[0], &mut || Ok(()))
        .unwrap();
    // Each view meets other words first.
    for (view, order) in views.into_iter().zip([[0, 1], [1, 0]]) {
        for overlay in order.map(|at| overlays[at].clone()) {
            let is_first = overlay.file("a").is_some();
            let (word, place) = [("dog", 6), ("cat", 4)][usize::from(is_first)];
            let view = CorpusView::new(view.clone(), overlay, Tokenizer::Unicode, &NEVER).unwrap();
            assert_eq!(
                view.search_in(0, word.as_bytes(), Run::to_the_end())
                    .unwrap(),
                [place]
            );
        }
    }
}

#[test]
fn what_edits_changed_is_not_looked_for_any_more_once_it_is_interrupted() {
    let stop = Arc::new(AtomicBool::new(true));
    let stored = Arc::new(
        StoredView::new(
            "c".into(),
            Vec::new(),
            Devices::none(),
            &Arc::new(Cache::new(u64::MAX)),
        )
        .unwrap(),
    );
    let batch = EditBatch::Insert(vec![Insertion {
        file: "a".into(),
        offset: None,
        text: text(&mut Numbers(500), 40_000).into(),
    }]);
    let mut overlay = Overlay::default();
    overlay.apply(&batch, &*stored, &mut || Ok(())).unwrap();
    let view = |stop: &AtomicBool| {
        CorpusView::new(stored.clone(), overlay.clone(), Tokenizer::Unicode, stop)
    };
    let interrupted = |result: Result<()>| matches!(result, Err(Error::Interrupted));
    assert!(interrupted(view(&stop).map(drop)));
    let found = view(&NEVER).unwrap();
    assert!(interrupted(
        found.ngram_count(&[0, 1], Run::until(&stop)).map(drop)
    ));
    assert!(interrupted(
        found.ngram_positions(&[0, 1], Run::until(&stop)).map(drop)
    ));
    assert!(found.ngram_count(&[0, 1], Run::to_the_end()).is_ok());
}

#[test]
fn a_batch_that_is_interrupted_has_done_nothing() {
    let stored = StoredView::new(
        "c".into(),
        Vec::new(),
        Devices::none(),
        &Arc::new(Cache::new(u64::MAX)),
    )
    .unwrap();
    let row = |number: u32| Insertion {
        file: number.to_string().into(),
        offset: None,
        text: Bytes::from_static(b"the cat"),
    };
    let mut overlay = Overlay::default();
    let first = EditBatch::Insert(vec![row(0)]);
    overlay.apply(&first, &stored, &mut || Ok(())).unwrap();
    let names = || (0..9u32).map(|number| Arc::from(number.to_string()));
    for batch in [
        EditBatch::Insert((0..9).map(row).collect()),
        EditBatch::Replace(names().map(|name| (name, Bytes::new())).collect()),
        EditBatch::Delete(names().collect()),
    ] {
        let before = overlay.clone();
        let mut left = 1;
        let mut go_on = || {
            left -= 1;
            if left < 0 {
                Err(Error::Interrupted)
            } else {
                Ok(())
            }
        };
        let result = overlay.apply(&batch, &stored, &mut go_on);
        assert!(matches!(result, Err(Error::Interrupted)), "{result:?}");
        assert!(overlay.is_same(&before));
    }
}
