//! Files that have all of some words.
//!
//! Invariant: answers are those of the texts as they are now. Each segment finds the files that it has whole by the cheapest of the
//! access paths below; a file that is cut into parts or edited is asked for each word alone. Source: Ao et al., "Efficient
//! Parallel Lists Intersection", PVLDB 4(8), 2011, section 4, for lists of an index.

use std::collections::BTreeSet;

use zipfdb_kernels::FileCount;

use super::corpus_view::CorpusView;
use super::path::{AccessPath, PartitionOperation, PathName, Run, answer, choose};
use super::spread::SpreadPlan;
use super::word_files::{FewWordFiles, in_postings_cost, in_table_cost};
use crate::Result;
use crate::runtime::interrupt::check;
use crate::segment::SegmentView;

/// The files of a segment that have all of some words; ascending.
pub(crate) struct AllWordsFiles;

impl PartitionOperation for AllWordsFiles {
    type Question<'a> = &'a [&'a [u8]];
    type Answer = Vec<u32>;

    const PATHS: &'static [AccessPath<AllWordsFiles>] = &[
        AccessPath {
            name: PathName::CountTable,
            needs: &[],
            cost: in_table_cost,
            run: |words, segment, run| {
                let table = segment.word_files(run.stop)?;
                let numbers = words.iter().map(|word| segment.word_number(word));
                let numbers: Vec<Option<u32>> = numbers.collect::<Result<_>>()?;
                let rows = numbers
                    .into_iter()
                    .map(|number| number.map_or(&[][..], |number| table.row(number as usize)));
                Ok(intersection(rows.collect()))
            },
        },
        AccessPath {
            name: PathName::Postings,
            needs: &[],
            cost: in_postings_cost,
            run: |words, segment, run| {
                let mut tokens = Vec::with_capacity(words.len());
                for word in *words {
                    let found = segment.find_one_word(word)?;
                    if found.first == found.end {
                        return Ok(Vec::new());
                    }
                    tokens.push(found.first);
                }
                match segment.common_postings(&tokens)? {
                    Some(files) => Ok(files),
                    // The index is damaged, and given up.
                    None => each_word(words, segment, run),
                }
            },
        },
        AccessPath {
            name: PathName::EachWord,
            needs: &[],
            cost: |words, segment| {
                let one = choose::<FewWordFiles>(words, segment, None).ok()?;
                Some(words.len() as f64 * one.cost())
            },
            run: |words, segment, run| each_word(words, segment, run),
        },
    ];
}

/// Asks for the files of each word, and keeps those that have all.
fn each_word(words: &[&[u8]], segment: &SegmentView, run: Run<'_>) -> Result<Vec<u32>> {
    let run = run.unforced();
    let mut files: Option<Vec<u32>> = None;
    for word in words {
        let counts = answer::<FewWordFiles>(&std::slice::from_ref(word), segment, run)?;
        let has = |file: &u32| counts[*file as usize] > 0;
        files = Some(match files {
            // Files of a segment are numbered by u32.
            None => (0..counts.len() as u32).filter(has).collect(),
            Some(files) => files.into_iter().filter(has).collect(),
        });
    }
    Ok(files.unwrap_or_default())
}

/// The files that are in all lists, each of which ascends: those of the shortest, looked up in the others.
fn intersection(mut lists: Vec<&[FileCount]>) -> Vec<u32> {
    lists.sort_by_key(|list| list.len());
    let Some((shortest, others)) = lists.split_first() else {
        return Vec::new();
    };
    let mut files: Vec<u32> = shortest.iter().map(|&(file, _)| file).collect();
    for &list in others {
        let mut rest = list;
        files.retain(|&wanted| {
            rest = &rest[rest.partition_point(|&(file, _)| file < wanted)..];
            rest.first().is_some_and(|&(file, _)| file == wanted)
        });
    }
    files
}

impl CorpusView {
    /// How files that have all of some words would be found.
    ///
    /// # Errors
    /// If a segment is damaged.
    pub(crate) fn plan_files_of_all(&self) -> Result<SpreadPlan<'_>> {
        (self.stored()).plan_on_cpu::<AllWordsFiles>(&&[&b""[..]][..], None)
    }

    /// The files that have all of some words, ascending; all files where there are no words.
    ///
    /// # Errors
    /// If a segment is damaged, or the run is over.
    pub(crate) fn files_of_all<W: AsRef<[u8]>>(
        &self,
        words: &[W],
        run: Run<'_>,
    ) -> Result<Vec<usize>> {
        let words: BTreeSet<&[u8]> = words.iter().map(AsRef::as_ref).collect();
        let words: Vec<&[u8]> = words.into_iter().collect();
        if words.is_empty() {
            return Ok((0..self.files().len()).collect());
        }
        let stored = self.stored();
        let mut found: Vec<Vec<u32>> = Vec::with_capacity(stored.segments().len());
        for index in 0..stored.segments().len() {
            check(run.stop)?;
            let segment = stored.segment_at(index);
            found.push(answer::<AllWordsFiles>(&&words[..], &segment, run)?);
        }
        // Files in parts and edited files have words in several places.
        let (mut files, mut others) = (Vec::new(), Vec::new());
        for file in 0..self.files().len() {
            match self.only_part(file) {
                None => others.push(file),
                Some(part) => {
                    if found[part.segment as usize]
                        .binary_search(&part.file)
                        .is_ok()
                    {
                        files.push(file);
                    }
                }
            }
        }
        let names = self.files();
        for word in &words {
            let questions: Vec<_> = others
                .iter()
                .map(|&file| (&names[file].name, *word))
                .collect();
            let mut counts = self.count_many(&questions, run)?.into_iter();
            others.retain(|_| counts.next().is_some_and(|count| count > 0));
        }
        files.extend(others);
        files.sort_unstable();
        Ok(files)
    }
}
