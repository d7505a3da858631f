//! The places of words as an index stores them: those of one word are found where they lie.
//!
//! The invariant: bytes of any content give places in the range that was asked for, or nothing, and end.

use std::cell::{Cell, RefCell};
use std::ops::Range;

use rayon::prelude::*;

use super::{RootCursor, SAMPLE_ENTRIES, WordPlaces, sample_of, take_entry};
use crate::lookup::locate::{Emitted, HIT, Link};
use crate::numbers::symbol_slots::NONE;
use crate::numbers::varints::take;

/// Bytes that a link or the number of links takes at most.
pub const LINK_BYTES_MAX: usize = 20;

/// Where the nodes and links of stored places are read.
pub trait PlaceSource {
    /// What reading may fail with.
    type Error;

    /// How many nodes there are.
    fn nodes(&self) -> u32;

    /// Where the links of a node begin.
    fn node(&self, node: u32) -> Result<u64, Self::Error>;

    /// Calls `read` with the links' bytes from one on: [`LINK_BYTES_MAX`] at least, fewer only where they end.
    fn links<R>(&self, at: u64, read: impl FnOnce(&[u8]) -> R) -> Result<R, Self::Error>;

    /// That the bytes make no sense.
    fn malformed(&self) -> Self::Error;
}

/// The places of a word, whose entries begin with `entries`, in a range of the segment that begins and ends where files do,
/// ascending; at most `places_max`.
///
/// Work: a binary search, then O(occurrences).
///
/// # Errors
/// If reading fails, or the bytes make no sense.
pub fn stored_places<S: PlaceSource>(
    source: &S,
    entries: &[u8],
    range: Range<u64>,
    places_max: usize,
) -> Result<Vec<u64>, S::Error> {
    let failed = RefCell::new(None);
    // A node has two links at least, so there are fewer nodes than places, and fewer links than both.
    let left = Cell::new(3 * places_max as u64);
    let or_failed = |read: Result<Option<(u64, u64)>, S::Error>| match read {
        Ok(Some(read)) if left.get() > 0 => {
            left.set(left.get() - 1);
            Some(read)
        }
        Ok(_) => {
            failed
                .borrow_mut()
                .get_or_insert_with(|| source.malformed());
            None
        }
        Err(error) => {
            failed.borrow_mut().get_or_insert(error);
            None
        }
    };
    let nodes = |node: u32| {
        let read = || {
            if node >= source.nodes() {
                return Ok(None);
            }
            let begin = source.node(node)?;
            source.links(begin, |bytes| {
                let mut rest = bytes;
                let count = take(&mut rest).filter(|&count| count >= 2)?;
                Some((begin + (bytes.len() - rest.len()) as u64, count))
            })
        };
        match or_failed(read()) {
            // The links are at most the body symbols, whose number is a u32.
            Some((begin, count)) => (begin as usize, count as u32),
            None => (0, 0),
        }
    };
    let next = |at: &mut usize| {
        let ended = Link {
            bytes: 0,
            target: NONE,
        };
        if failed.borrow().is_some() {
            return ended;
        }
        let link = Cell::new(ended);
        let read = source.links(*at as u64, |bytes| {
            let mut rest = bytes;
            let (distance, node) = take_entry(&mut rest)?;
            let target = node.unwrap_or(HIT);
            link.set(Link {
                bytes: distance,
                target,
            });
            Some(((bytes.len() - rest.len()) as u64, 0))
        });
        match or_failed(read) {
            Some((size, _)) => {
                *at += size as usize;
                link.get()
            }
            None => ended,
        }
    };
    let mut cursor = RootCursor::new(entries).ok_or_else(|| source.malformed())?;
    let emitted = Emitted::of_untrusted(source.nodes() as usize, places_max);
    let places = cursor.places(range.clone(), emitted, nodes, next);
    let is_cut = cursor.left > 0 && cursor.rest.is_empty();
    if let Some(error) = failed.into_inner() {
        return Err(error);
    }
    let ascend = places.is_sorted_by(|left, right| left < right);
    let are_inside = places.last().is_none_or(|&last| last < range.end)
        && places.first().is_none_or(|&first| first >= range.start);
    if ascend && are_inside && !is_cut && places.len() <= places_max {
        Ok(places)
    } else {
        Err(source.malformed())
    }
}

/// The ranges that begin at `starts` and end where the next one begins, the last at `end`; none if they do not ascend.
fn ranges_of(starts: &[u64], end: usize) -> Option<impl Iterator<Item = Range<usize>>> {
    let ends = starts.iter().copied().skip(1).chain([end as u64]);
    let is_whole = starts.first().copied().unwrap_or(end as u64) == 0
        && starts.is_sorted()
        && starts.last().is_none_or(|&last| last <= end as u64);
    let ranges = starts.iter().zip(ends);
    is_whole.then(|| ranges.map(|(&start, end)| start as usize..end as usize))
}

impl WordPlaces {
    /// The places of these arrays, which are those that the functions below give; none if they make no sense, or have more than
    /// `places_max` places.
    pub fn of_stored(
        word_starts: &[u64],
        entries: Vec<u8>,
        node_starts: &[u64],
        links: Vec<u8>,
        places_max: u64,
    ) -> Option<WordPlaces> {
        // Places behind each node: nodes lead to those before them only.
        let mut counts: Vec<u64> = Vec::with_capacity(node_starts.len());
        for range in ranges_of(node_starts, links.len())? {
            let mut rest = &links[range];
            let mut sum = 0;
            let count = take(&mut rest).filter(|&count| count >= 2)?;
            let (mut last, mut next) = (0, 0);
            for _ in 0..count {
                let (start, node) = take_entry(&mut rest)?;
                if start < next || start >= 1 << 31 {
                    return None;
                }
                (last, next) = (start, start + 1);
                sum += match node {
                    None => 1,
                    Some(node) => *counts.get(node as usize)?,
                };
            }
            let fits = last < 1 << 31 && sum <= places_max && rest.is_empty();
            counts.push(fits.then_some(sum)?);
        }
        let words: Vec<Range<usize>> = ranges_of(word_starts, entries.len())?.collect();
        let places = words.into_par_iter().map(|range| {
            let bytes = &entries[range];
            let mut cursor = RootCursor::new(bytes)?;
            let (samples, all) = (cursor.samples, cursor.rest);
            let (mut sum, mut read) = (0u64, 0);
            while cursor.left > 0 {
                if read > 0 && read % SAMPLE_ENTRIES == 0 {
                    let sample = sample_of(samples.get(read / SAMPLE_ENTRIES - 1)?);
                    if sample != (cursor.offset, all.len() - cursor.rest.len()) {
                        return None;
                    }
                }
                let (_, node) = cursor.next()?;
                read += 1;
                sum = sum.checked_add(match node {
                    None => 1,
                    Some(node) => *counts.get(node as usize)?,
                })?;
            }
            cursor.rest.is_empty().then_some(sum)
        });
        let sums: Vec<u64> = places.collect::<Option<_>>()?;
        let sum = sums
            .iter()
            .try_fold(0u64, |sum, &more| sum.checked_add(more))?;
        (sum <= places_max).then(|| WordPlaces {
            words: word_starts.iter().copied().collect(),
            roots: entries,
            nodes: node_starts.iter().copied().collect(),
            links,
        })
    }

    /// Where each word begins among the entries.
    pub fn word_starts(&self) -> impl Iterator<Item = u64> + Clone + '_ {
        (0..self.words.len()).map(|word| self.words.get(word))
    }

    /// The entries of all words, one after the other.
    pub fn entries(&self) -> &[u8] {
        &self.roots
    }

    /// Where the links of each node begin.
    pub fn node_starts(&self) -> impl Iterator<Item = u64> + Clone + '_ {
        (0..self.nodes.len()).map(|node| self.nodes.get(node))
    }

    /// The links of all nodes, one after the other.
    pub fn links(&self) -> &[u8] {
        &self.links
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::construct::pairs::mix;
    use crate::grammar::test_grammars;
    use crate::lookup::word_places::tests::places_of;

    struct Source<'a> {
        nodes: Vec<u64>,
        links: &'a [u8],
    }

    impl PlaceSource for Source<'_> {
        type Error = ();

        fn nodes(&self) -> u32 {
            self.nodes.len() as u32
        }

        fn node(&self, node: u32) -> Result<u64, ()> {
            Ok(self.nodes[node as usize])
        }

        fn links<R>(&self, at: u64, read: impl FnOnce(&[u8]) -> R) -> Result<R, ()> {
            let rest = self.links.get(at as usize..).ok_or(())?;
            Ok(read(&rest[..rest.len().min(LINK_BYTES_MAX)]))
        }

        fn malformed(&self) {}
    }

    #[test]
    fn stored_places_are_those_in_memory_and_changed_bytes_end() {
        let grammars = test_grammars::random_many(40)
            .chain([test_grammars::repeated_text(40), test_grammars::runs(14)]);
        for (number, grammar) in (0..).zip(grammars) {
            let places = places_of(&grammar);
            let starts: Vec<u64> = places.word_starts().collect();
            let source = Source {
                nodes: places.node_starts().collect(),
                links: places.links(),
            };
            let read = |entries: &[u8], links: &[u8]| {
                let (entries, links) = (entries.to_vec(), links.to_vec());
                WordPlaces::of_stored(&starts, entries, &source.nodes, links, 1 << 20)
            };
            assert_eq!(
                read(places.entries(), places.links()).as_ref(),
                Some(&places)
            );
            let files = grammar.lengths().file_starts;
            for (word, start) in (0..).zip(&starts) {
                let entries = &places.entries()[*start as usize..];
                for file in files.windows(2).take(3).chain([&[0, u64::MAX][..]]) {
                    let range = file[0]..file[1];
                    let expected = places.places(word, range.clone());
                    let (count, read) = (expected.len(), |max| {
                        stored_places(&source, entries, range.clone(), max)
                    });
                    assert_eq!(read(count), Ok(expected));
                    assert!(count == 0 || read(count - 1).is_err());
                }
            }
            for change in 0..200 {
                let seed = number << 16 | change;
                let flip = |bytes: &[u8], seed: u64| {
                    let mut bytes = bytes.to_vec();
                    let at = mix(seed) as usize % bytes.len().max(1);
                    bytes
                        .iter_mut()
                        .skip(at)
                        .take(1)
                        .for_each(|byte| *byte ^= mix(seed + 1) as u8);
                    bytes
                };
                let (entries, links) = (
                    flip(places.entries(), seed),
                    flip(places.links(), seed ^ 1 << 40),
                );
                let changed = Source {
                    nodes: source.nodes.clone(),
                    links: &links,
                };
                if let Some(read) = read(&entries, &links) {
                    for word in 0..starts.len() {
                        read.places(word as u32, 0..u64::MAX);
                    }
                }
                for start in &starts {
                    let entries = &entries[*start as usize..];
                    let found = stored_places(&changed, entries, 0..u64::MAX, 10_000);
                    assert!(found.is_err() || found.is_ok_and(|found| found.len() <= 10_000));
                }
            }
        }
    }
}
