//! Some files of a grammar as a grammar of their own.
//!
//! In   a grammar; the files
//! Out  the same rules and numbers of files, with the roots of other files empty; how often each symbol occurs then
//! Work O(roots of the files + body symbols + symbols)

use crate::GrammarView;
use crate::grammar::weights::symbol_weights;

/// The roots of some files, and how often each symbol occurs in them.
pub struct ChosenFiles {
    root_offsets: Vec<u32>,
    root: Vec<u32>,
    weights: Vec<u32>,
}

impl ChosenFiles {
    /// `files`, each once and ascending, of a grammar whose files have fewer terminals than a u32 counts.
    pub fn new(view: GrammarView<'_>, files: &[u32]) -> ChosenFiles {
        let mut root_offsets = Vec::with_capacity(view.files() + 1);
        let mut root = Vec::new();
        root_offsets.push(0);
        for &file in files {
            // An offset in fewer symbols than the whole root has. Files that are passed over end where they begin.
            root_offsets.resize(file as usize + 1, root.len() as u32);
            root.extend_from_slice(view.file_root(file));
        }
        root_offsets.resize(view.files() + 1, root.len() as u32);
        let mut chosen = ChosenFiles {
            root_offsets,
            root,
            weights: Vec::new(),
        };
        chosen.weights = symbol_weights(chosen.view(view));
        chosen
    }

    /// The files as a grammar; `of` is that which they were chosen of.
    pub fn view<'a>(&'a self, of: GrammarView<'a>) -> GrammarView<'a> {
        GrammarView {
            root_offsets: &self.root_offsets,
            root: &self.root,
            ..of
        }
    }

    /// How often each symbol occurs in the files.
    pub fn weights(&self) -> &[u32] {
        &self.weights
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::test_grammars::{self, TestGrammar};

    fn check(grammar: &TestGrammar) {
        let view = grammar.view();
        // None, every second file, the last two of three, and all.
        let chosen: [fn(u32) -> bool; 4] = [
            |_| false,
            |file| file % 2 == 0,
            |file| file % 3 > 0,
            |_| true,
        ];
        for is_chosen in chosen {
            let all = 0..view.files() as u32;
            let files: Vec<u32> = all.clone().filter(|&file| is_chosen(file)).collect();
            let chosen = ChosenFiles::new(view, &files);
            let found = chosen.view(view);
            assert_eq!(found.files(), view.files());
            let mut counts = vec![0; view.terminal_count as usize];
            for file in all {
                if is_chosen(file) {
                    assert_eq!(found.file_root(file), view.file_root(file));
                    for terminal in grammar.expand(file) {
                        counts[terminal as usize] += 1;
                    }
                } else {
                    assert!(found.file_root(file).is_empty())
                }
            }
            assert_eq!(chosen.weights()[..counts.len()], counts);
        }
    }

    #[test]
    fn chosen_files_are_the_same_and_others_empty() {
        test_grammars::all_small().for_each(|grammar| check(&grammar));
        test_grammars::random_many(100).for_each(|grammar| check(&grammar));
    }
}
