//! N-grams that devices have of all segments, merged on one of them.
//!
//! Invariant: the result is the n-grams of the corpus, with those across cuts between parts of files. Where that is not possible,
//! the answers of segments stay as they are, and the host merges them.

use zipfdb_kernels::FileOrder;
use zipfdb_kernels::gpu::{CutPlaces, Gpu, MergedPart};

use super::device_partitions::is_too_much;
use super::merge::CutNgrams;
use super::ngram_payload::{DeviceResult, NgramAnswer, NgramPayload};
use super::stored_view::StoredView;
use crate::{Error, Result};

/// The part of a device's memory that the n-grams of all segments may take until they are merged, which takes several times more:
/// 1/`KEPT_SHARE`.
const KEPT_SHARE: u64 = 8;

/// Bytes that the n-grams of one of some segments may take on a device until their rows are made.
pub(super) fn kept_bytes(gpu: &Gpu, segments: usize) -> u64 {
    match segments {
        // Counting them took more.
        1 => u64::MAX,
        _ => gpu.memory_limit() / KEPT_SHARE / segments as u64,
    }
}

impl StoredView {
    /// The result of `take` on the n-grams of all segments, if devices have them and one has room for all; files come in an
    /// order.
    pub(super) fn merged_rows<P: NgramPayload, T>(
        &self,
        n: usize,
        order: FileOrder,
        answers: &[NgramAnswer<P>],
        take: impl FnOnce(P::DeviceRows) -> DeviceResult<T>,
    ) -> Result<Option<T>> {
        let words: u64 = self.index.files().iter().map(|file| file.words).sum();
        // Sums of counts have 32 bits there.
        if u32::try_from(words).is_err() {
            return Ok(None);
        }
        let vocabulary = self.vocabulary()?;
        let mut parts = Vec::with_capacity(answers.len());
        for (at, answer) in answers.iter().enumerate() {
            match answer {
                NgramAnswer::OnDevice(rows) => {
                    let count = self.segment_at(at).word_count()?;
                    parts.push(MergedPart {
                        rows,
                        words: (0..count).map(|word| vocabulary.number(at, word)).collect(),
                        files: if P::HAS_FILES {
                            self.file_numbers(at)?
                        } else {
                            Vec::new()
                        },
                    });
                }
                NgramAnswer::Parts(none) if none.is_empty() => {}
                NgramAnswer::Parts(_) => return Ok(None),
            }
        }
        if parts.is_empty() {
            return Ok(None);
        }
        let CutNgrams { words, files } = self.cut_ngrams(n, |_| true)?;
        let cut = CutPlaces {
            words: &words,
            files: &files,
        };
        let merged = P::merged_rows(&parts, cut, vocabulary.len(), order);
        let taken = merged.and_then(|merged| merged.map(take).transpose());
        match taken.map_err(Error::from) {
            Err(error) if is_too_much(&error) => {
                tracing::debug!("{error}; the host puts n-grams of segments together");
                Ok(None)
            }
            Err(error @ Error::Gpu(_)) if self.devices().falls_back() => {
                tracing::warn!("{error}; the host puts n-grams of segments together instead");
                Ok(None)
            }
            merged => merged,
        }
    }
}
