//! All roots of a segment in one pass that keeps none of them: answers the first questions about all files, before the grammar of
//! all files is worth keeping.
//!
//! The invariant: each symbol of each root is passed once, and the fragments of a root in order. Fragments end only where the
//! decoder stops.

use std::sync::atomic::AtomicBool;

use rayon::prelude::*;
use zipfdb_storage::{Bodies, Segment};

use super::content::whole_price;
use super::live_segment::Parts;
use super::one_file::{Mismatch, OneFile, Phrase, PhraseReadings};
use super::segment_view::SegmentView;
use super::structure::StructureKind;
use crate::Result;
use crate::runtime::interrupt::check;
use crate::segment::cost::{ALONE_COST, SCAN_BODY_COST, SCAN_SYMBOL_COST};

/// Consecutive symbols of the root of a file: at least one.
pub(crate) struct RootFragment<'a> {
    /// Whether they are the whole root.
    pub(crate) is_whole: bool,
    pub(crate) symbols: &'a [u32],
}

impl SegmentView {
    /// The cost of a pass over all roots once the bodies are decoded, in nanoseconds of all threads; none if the cache has a
    /// grammar that answers as well, or it is time to decode that.
    pub(crate) fn scan_cost(&self, grammar: StructureKind) -> Option<f64> {
        let cost = self
            .is_alone_worth_asking(grammar)
            .then(|| self.scan_work())?;
        Some(cost / self.thread_count())
    }

    /// The same cost, of one thread.
    fn scan_work(&self) -> f64 {
        match &self.parts {
            Parts::Stored(segment) => {
                let info = segment.info();
                info.root_symbols as f64 * SCAN_SYMBOL_COST + info.symbols as f64 * SCAN_BODY_COST
            }
            Parts::Text(_) => f64::INFINITY,
            #[cfg(test)]
            Parts::Memory(_) => f64::INFINITY,
        }
    }

    /// Decodes all roots, and calls `visit` fragment by fragment, on many threads. Returns its answers that are not none, with
    /// the file, in order.
    ///
    /// # Errors
    /// If the segment is damaged or `stop` is set.
    pub(crate) fn scan_roots<A: Send>(
        &self,
        stop: &AtomicBool,
        visit: impl Fn(RootFragment<'_>) -> Option<A> + Sync,
    ) -> Result<Vec<(u32, A)>> {
        match &self.parts {
            Parts::Stored(segment) => self.scan_stored(segment, stop, visit),
            Parts::Text(_) => Err(self.inconsistent("packed text has no roots")),
            #[cfg(test)]
            Parts::Memory(_) => Err(self.inconsistent("plain data is not coded")),
        }
    }

    fn scan_stored<A: Send>(
        &self,
        segment: &Segment,
        stop: &AtomicBool,
        visit: impl Fn(RootFragment<'_>) -> Option<A> + Sync,
    ) -> Result<Vec<(u32, A)>> {
        let bodies = self.pin::<Bodies>()?;
        let offsets = bodies.root_offsets();
        self.check_files(offsets)?;
        let work = self.scan_work() as u64;
        let info = segment.info();
        let price = whole_price(info.symbols + info.root_symbols);
        self.budgets.roots.add(work.min(price));
        let found = segment.scan_roots(bodies, stop, |start, symbols| {
            let (end, mut found) = (start + symbols.len(), Vec::new());
            // The last file that begins there or before, which is not an empty one.
            let first = offsets.partition_point(|&offset| offset as usize <= start) - 1;
            for (file, range) in (first..).zip(offsets[first..].windows(2)) {
                let [from, to] = [range[0] as usize, range[1] as usize];
                if from >= end {
                    break;
                }
                let within = from.max(start)..to.min(end);
                if within.is_empty() {
                    continue;
                }
                let fragment = RootFragment {
                    is_whole: within == (from..to),
                    symbols: &symbols[within.start - start..within.end - start],
                };
                let answer = visit(fragment);
                // Files are numbered by u32.
                found.extend(answer.map(|answer| (file as u32, answer)));
            }
            found
        })?;
        check(stop)?;
        Ok(found.into_iter().flatten().collect())
    }

    /// Searches all files for a phrase, and asks those that may have it by their roots, on many threads. Returns the answers,
    /// with the file, in order.
    ///
    /// # Errors
    /// If the segment is damaged or `stop` is set.
    pub(crate) fn scan_for_phrase<A: Send>(
        &self,
        phrase: &Phrase,
        stop: &AtomicBool,
        answer: impl Fn(OneFile<'_>, &PhraseReadings) -> std::result::Result<A, Mismatch> + Sync,
    ) -> Result<Vec<(u32, A)>> {
        let readings = self.phrase_readings(phrase)?;
        // The roots of files that have it, and of those that the decoder has cut.
        let mut roots: Vec<(u32, Vec<u32>)> = Vec::new();
        let fragments = self.scan_roots(stop, |fragment| {
            let is_kept = !fragment.is_whole || readings.find(fragment.symbols);
            is_kept.then(|| fragment.symbols.to_vec())
        })?;
        for (file, mut symbols) in fragments {
            match roots.last_mut() {
                Some((last, root)) if *last == file => root.append(&mut symbols),
                _ => roots.push((file, symbols)),
            }
        }
        self.ask_roots(roots, readings, stop, answer)
    }

    /// Searches some files, which ascend, for a phrase by their roots, on many threads. Returns the answers of those that may
    /// have it, with the file, in order.
    ///
    /// # Errors
    /// If the segment is damaged or `stop` is set.
    pub(crate) fn look_for_phrase<A: Send>(
        &self,
        phrase: &Phrase,
        files: &[u32],
        stop: &AtomicBool,
        answer: impl Fn(OneFile<'_>, &PhraseReadings) -> std::result::Result<A, Mismatch> + Sync,
    ) -> Result<Vec<(u32, A)>> {
        let Some(segment) = self.stored_segment() else {
            return Err(self.inconsistent("plain data is not coded"));
        };
        let (bodies, readings) = (self.pin::<Bodies>()?, self.phrase_readings(phrase)?);
        let work = files.len() as f64 * ALONE_COST;
        self.budgets.roots.add(work as u64);
        let root = |&file: &u32| {
            let root = check(stop).and_then(|()| Ok(segment.root_of(bodies, file)?));
            match root {
                Ok(root) if readings.find(&root) => Some(Ok((file, root))),
                Ok(_) => None,
                Err(error) => Some(Err(error)),
            }
        };
        let roots: Result<Vec<(u32, Vec<u32>)>> = files.par_iter().filter_map(root).collect();
        self.ask_roots(roots?, readings, stop, answer)
    }

    fn phrase_readings(&self, phrase: &Phrase) -> Result<PhraseReadings> {
        let word_tokens = self.dictionary()?.word_tokens();
        Ok(PhraseReadings::new(
            phrase,
            self.bodies_view()?,
            word_tokens,
        ))
    }

    /// Asks files by their roots.
    fn ask_roots<A: Send>(
        &self,
        roots: Vec<(u32, Vec<u32>)>,
        mut readings: PhraseReadings,
        stop: &AtomicBool,
        answer: impl Fn(OneFile<'_>, &PhraseReadings) -> std::result::Result<A, Mismatch> + Sync,
    ) -> Result<Vec<(u32, A)>> {
        let (dictionary, entries) = (self.dictionary()?, self.files()?);
        let view = self.bodies_view()?;
        let words: u64 = roots
            .iter()
            .map(|(file, _)| entries[*file as usize].words)
            .sum();
        if words > view.symbol_count() as u64 {
            readings.measure(view, dictionary);
        }
        let bodies = self.pin::<Bodies>()?;
        let ask = |(file, root): (u32, Vec<u32>)| {
            check(stop)?;
            let file_alone = OneFile {
                dictionary,
                entry: &entries[file as usize],
                bodies,
                root,
            };
            let answer =
                answer(file_alone, &readings).map_err(|misfit| self.inconsistent(misfit))?;
            Ok((file, answer))
        };
        roots.into_par_iter().map(ask).collect()
    }
}
