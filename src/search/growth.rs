//! The growth of the vocabulary with the words read.
//!
//! Invariant: files are read in order of name.

use std::sync::Arc;

use zipfdb_search::measures::{GrowthPoint, VocabularyGrowth};

use super::subcorpus::Subcorpus;
use crate::Result;
use crate::answer::access_path::Run;
use crate::answer::{CorpusView, NumberStream};
use crate::runtime::interrupt::check;

/// Words that are read at a time.
const READ_WORDS: usize = 1 << 16;

/// The vocabulary after each of at most `steps` parts of a subcorpus, which are of equal size, apart from the last one.
///
/// # Errors
/// If a segment is damaged, or the run must end.
pub(crate) fn vocabulary_growth(
    view: &Arc<CorpusView>,
    of: &Subcorpus,
    steps: u64,
    run: Run<'_>,
) -> Result<Vec<GrowthPoint>> {
    let mut growth = VocabularyGrowth::new(of.words.div_ceil(steps.max(1)));
    let mut counts = vec![0u32; view.vocabulary()?.len()];
    let mut stream = NumberStream::within(view.clone(), of.files.clone(), 0..=u64::MAX);
    loop {
        check(run.stop)?;
        let words = stream.read(READ_WORDS)?.words;
        if words.is_empty() {
            return Ok(growth.finish());
        }
        for word in words {
            let count = &mut counts[word as usize];
            growth.add(u64::from(*count));
            // Two and more are alike.
            *count = (*count + 1).min(2);
        }
    }
}
