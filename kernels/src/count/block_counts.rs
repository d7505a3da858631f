//! Counts of words in blocks: each file is cut into blocks of `block_words` words.
//!
//! In   a grammar over words
//! Out  `[blocks]`, those of one file after those of the file before: words with counts, ascending
//! Work O(words), a sort of each block

use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use crate::stop::{Stopped, check};
use crate::{CountTable, Expander, Expansions, GrammarView};

/// Counts words in blocks. The last block of a file has the rest of its words; a file without words has none.
///
/// # Errors
/// If it is stopped.
pub fn block_word_counts(
    view: GrammarView<'_>,
    block_words: usize,
    stop: &AtomicBool,
) -> Result<CountTable, Stopped> {
    let kept = Expansions::new(view);
    let of_file = |file: u32| {
        let mut rows = Vec::new();
        let mut block: Vec<u32> = Vec::with_capacity(block_words);
        let mut is_stopped = Ok(());
        Expander::new(view, &kept).for_each_piece(view.root_range(file), |piece| {
            let mut rest = piece;
            while !rest.is_empty() && is_stopped.is_ok() {
                let (taken, behind) = rest.split_at(rest.len().min(block_words - block.len()));
                block.extend_from_slice(taken);
                rest = behind;
                if block.len() == block_words {
                    rows.push(row_of(&mut block));
                    is_stopped = check(stop);
                }
            }
        });
        if !block.is_empty() {
            rows.push(row_of(&mut block));
        }
        is_stopped.map(|()| rows)
    };
    // Files are u32.
    let files = (0..view.files() as u32).into_par_iter().map(of_file);
    let rows: Vec<Vec<Vec<(u32, u32)>>> = files.collect::<Result<_, Stopped>>()?;
    Ok(CountTable::of_rows(rows.into_iter().flatten().collect()))
}

/// The words of a block with their counts; the block is empty then.
fn row_of(block: &mut Vec<u32>) -> Vec<(u32, u32)> {
    block.sort_unstable();
    // A block is counted by a u32.
    let runs = block.chunk_by(|left, right| left == right);
    let row = runs.map(|run| (run[0], run.len() as u32)).collect();
    block.clear();
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::test_grammars;
    use std::collections::BTreeMap;

    #[test]
    fn counts_are_those_of_the_expanded_blocks() {
        let grammars = test_grammars::random_many(40).chain([
            test_grammars::many_files(30),
            test_grammars::long_body(5_000),
            test_grammars::runs(9),
        ]);
        for grammar in grammars {
            let words = grammar.word_grammar();
            for block_words in [1, 7, 64] {
                let stop = AtomicBool::new(false);
                let found = block_word_counts(words.view(), block_words, &stop);
                let found = found.expect("not stopped");
                let mut blocks = 0..found.rows();
                for file in grammar.all_file_words() {
                    for block in file.chunks(block_words) {
                        let mut counts: BTreeMap<u32, u32> = BTreeMap::new();
                        block
                            .iter()
                            .for_each(|word| *counts.entry(*word).or_default() += 1);
                        let row = found.row(blocks.next().expect("as many blocks"));
                        assert_eq!(row, counts.into_iter().collect::<Vec<_>>());
                    }
                }
                assert_eq!(blocks.next(), None);
            }
            let stopped = block_word_counts(words.view(), 1, &AtomicBool::new(true));
            assert!(stopped.is_err() || stopped.is_ok_and(|table| table.rows() == 0));
        }
    }
}
