//! A query as a formula of its terms: which files or units match, with which score.
//!
//! Invariant: scores are added in the order in which the query has its parts, so a score is the same to the last bit however its
//! file was found; the bound of a block is added in the same order and, as rounding is monotone, is at least every score in it.

use super::file_postings::{BlockCursors, block_of};

/// What a query asks of a file or unit.
#[derive(Debug)]
pub(super) enum Formula {
    Constant(bool),
    /// It has this term.
    Term(usize),
    /// This condition holds for the name of the file.
    Name(usize),
    All(Vec<Formula>),
    AtLeast(u32, Vec<Formula>),
    Not(Box<Formula>),
}

/// What a part of a query says of a file or unit.
#[derive(Clone, Copy)]
pub(super) struct Verdict {
    pub(super) is_match: bool,
    pub(super) score: f64,
    pub(super) hits: u64,
}

/// The number of no block.
const NO_BLOCK: u32 = u32::MAX;

/// Files in blocks: those of terms, and for each condition on names those that it holds for.
pub(super) struct FileSets<'a> {
    pub(super) terms: BlockCursors<'a>,
    pub(super) names: &'a [Vec<u64>],
    /// The number of files.
    pub(super) files: u32,
}

impl Verdict {
    fn of(is_match: bool) -> Verdict {
        Verdict {
            is_match,
            score: 0.0,
            hits: 0,
        }
    }

    /// Adds what another part says.
    fn add(&mut self, other: Verdict) {
        if other.is_match {
            self.score += other.score;
            self.hits += other.hits;
        }
    }

    /// The same, without a score if it does not match.
    fn if_match(self, is_match: bool) -> Verdict {
        if is_match {
            Verdict { is_match, ..self }
        } else {
            Verdict::of(false)
        }
    }
}

impl Formula {
    /// What it says of a file or unit: `term` is the number of hits of a term and their score, `name` whether a condition on names
    /// holds. Recursion is as deep as the query.
    pub(super) fn verdict(
        &self,
        term: &mut impl FnMut(usize) -> (u64, f64),
        name: &impl Fn(usize) -> bool,
    ) -> Verdict {
        match self {
            Formula::Constant(is_match) => Verdict::of(*is_match),
            Formula::Term(number) => {
                let (hits, score) = term(*number);
                Verdict {
                    is_match: hits > 0,
                    score,
                    hits,
                }
            }
            Formula::Name(number) => Verdict::of(name(*number)),
            Formula::All(parts) => {
                let (sum, met) = sum(parts, term, name);
                sum.if_match(met as usize == parts.len())
            }
            Formula::AtLeast(minimum, parts) => {
                let (sum, met) = sum(parts, term, name);
                sum.if_match(met >= *minimum)
            }
            Formula::Not(part) => Verdict::of(!part.verdict(term, name).is_match),
        }
    }

    /// At least the score of files for which `term` is at least the score of each term. Recursion is as deep as the query.
    pub(super) fn bound(&self, term: &impl Fn(usize) -> f64) -> f64 {
        match self {
            Formula::Constant(_) | Formula::Name(_) | Formula::Not(_) => 0.0,
            Formula::Term(number) => term(*number),
            Formula::All(parts) | Formula::AtLeast(_, parts) => {
                let bounds = parts.iter().map(|part| part.bound(term));
                bounds.fold(0.0, |sum, bound| sum + bound)
            }
        }
    }

    /// The files that match in the first block from `from` on that has some, and its number.
    pub(super) fn next_files(&self, from: u32, sets: &mut FileSets<'_>) -> Option<(u32, u64)> {
        let (last, bit) = block_of(sets.files.checked_sub(1)?);
        let mut from = from;
        loop {
            let block = self.next_block(from, sets);
            if block > last {
                return None;
            }
            let mut files = self.bits(block, sets);
            if block == last {
                files &= bit | (bit - 1);
            }
            if files != 0 {
                return Some((block, files));
            }
            from = block + 1;
        }
    }

    /// The first block from `from` on that may have files that match. Recursion is as deep as the query.
    fn next_block(&self, from: u32, sets: &mut FileSets<'_>) -> u32 {
        match self {
            Formula::Constant(false) => NO_BLOCK,
            Formula::Term(number) => sets.terms.seek(*number, from).unwrap_or(NO_BLOCK),
            Formula::All(parts) => {
                let (mut next, mut agreed) = (from, 0);
                // Until all parts in a row have the same next block.
                for part in parts.iter().cycle() {
                    if agreed == parts.len() || next == NO_BLOCK {
                        break;
                    }
                    let found = part.next_block(next, sets);
                    agreed = if found == next { agreed + 1 } else { 1 };
                    next = found;
                }
                next
            }
            Formula::AtLeast(minimum, parts) if *minimum > 0 => {
                let next = parts.iter().map(|part| part.next_block(from, sets));
                next.min().unwrap_or(NO_BLOCK)
            }
            _ => from,
        }
    }

    /// The files of a block that match, and perhaps more behind the last file. Recursion is as deep as the query.
    fn bits(&self, block: u32, sets: &mut FileSets<'_>) -> u64 {
        match self {
            Formula::Constant(is_match) => {
                if *is_match {
                    u64::MAX
                } else {
                    0
                }
            }
            Formula::Term(number) => sets.terms.bits(*number, block),
            Formula::Name(number) => sets.names[*number][block as usize],
            Formula::All(parts) => {
                let mut common = u64::MAX;
                for part in parts {
                    common &= part.bits(block, sets);
                    if common == 0 {
                        break;
                    }
                }
                common
            }
            Formula::AtLeast(0, _) => u64::MAX,
            Formula::AtLeast(1, parts) => {
                let bits = parts.iter().map(|part| part.bits(block, sets));
                bits.fold(0, |union, bits| union | bits)
            }
            Formula::AtLeast(minimum, parts) => {
                let minimum = *minimum as usize;
                if minimum > parts.len() {
                    return 0;
                }
                // For each number from 1 on the files that as many parts have.
                let mut met = vec![0; minimum];
                for part in parts {
                    let mut bits = part.bits(block, sets);
                    for met in &mut met {
                        (*met, bits) = (*met | bits, *met & bits);
                    }
                }
                met[minimum - 1]
            }
            Formula::Not(part) => !part.bits(block, sets),
        }
    }
}

/// What parts say together, and how many of them match.
fn sum(
    parts: &[Formula],
    term: &mut impl FnMut(usize) -> (u64, f64),
    name: &impl Fn(usize) -> bool,
) -> (Verdict, u32) {
    let (mut sum, mut met) = (Verdict::of(true), 0);
    for part in parts {
        let found = part.verdict(term, name);
        met += u32::from(found.is_match);
        sum.add(found);
    }
    (sum, met)
}

#[cfg(test)]
mod tests {
    use super::super::file_postings::{FilePostings, files_of};
    use super::*;
    use proptest::prelude::*;

    const FILES: u32 = 200;

    fn leaf() -> impl Strategy<Value = Formula> {
        prop_oneof![
            any::<bool>().prop_map(Formula::Constant),
            (0..4_usize).prop_map(Formula::Term),
            (0..1_usize).prop_map(Formula::Name),
        ]
    }

    fn joined() -> impl Strategy<Value = Formula> {
        let parts = || proptest::collection::vec(leaf(), 1..4);
        prop_oneof![
            leaf(),
            parts().prop_map(Formula::All),
            (0..4_u32, parts()).prop_map(|(minimum, parts)| Formula::AtLeast(minimum, parts)),
            parts().prop_map(|parts| Formula::Not(Box::new(Formula::All(parts)))),
        ]
    }

    proptest! {
        #[test]
        fn blocks_have_the_files_that_match(
            parts in proptest::collection::vec(joined(), 1..4),
            is_all in any::<bool>(),
            minimum in 0..3_u32,
            terms in proptest::collection::vec(
                proptest::collection::btree_map(0..FILES, 1_u64..5, 0..90), 4,
            ),
            names in proptest::collection::vec(any::<u64>(), 4),
        ) {
            let formula = if is_all {
                Formula::All(parts)
            } else {
                Formula::AtLeast(minimum, parts)
            };
            let names = [names];
            let has_name = |file: u32| {
                let (block, bit) = block_of(file);
                names[0][block as usize] & bit != 0
            };
            let matching: Vec<u32> = (0..FILES)
                .filter(|file| {
                    let mut term = |term: usize| (terms[term].get(file).copied().unwrap_or(0), 1.0);
                    formula.verdict(&mut term, &|_| has_name(*file)).is_match
                })
                .collect();
            let postings: Vec<FilePostings> =
                terms.iter().map(|term| term.clone().into_iter().collect()).collect();
            let terms = BlockCursors::new(&postings);
            let mut sets = FileSets { terms, names: &names, files: FILES };
            let (mut found, mut from) = (Vec::new(), 0);
            while let Some((block, files)) = formula.next_files(from, &mut sets) {
                found.extend(files_of(block, files));
                from = block + 1;
            }
            prop_assert_eq!(found, matching);
        }
    }
}
