//! The decoded parts of a segment: the content of its file.
//!
//! Invariant: parts that contradict each other or the file table are an error before anything is derived of them.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use zipfdb_kernels::{FileCounting, GrammarView};
use zipfdb_storage::{Bodies, Dictionary, Grammar};

use super::live_segment::{LiveSegment, Parts};
use super::segment_view::{SegmentStructure, SegmentView};
use super::structure::StructureKind;
use super::word_order::order_fault;
use crate::{Result, tokenize};

/// The longest gap token in bytes.
pub(crate) const GAP_BYTES: u64 = tokenize::GAP_BYTES_MAX as u64;

/// The total of each word, if the file has totals.
pub(super) struct StoredTotals(Option<Vec<u32>>);

/// The bodies of a grammar and the roots of all files.
pub(super) struct WholeGrammar {
    /// The rules, the same as in [`Bodies`] once in memory.
    pub(super) rules: Arc<Grammar>,
    pub(super) root_offsets: Vec<u32>,
    pub(super) root: Vec<u32>,
}

/// Rules with these roots, as a view for kernels; nothing is checked.
pub(crate) fn view_of<'a>(
    rules: &'a Grammar,
    root_offsets: &'a [u32],
    root: &'a [u32],
) -> GrammarView<'a> {
    GrammarView {
        terminal_count: rules.terminal_count,
        rule_offsets: &rules.rule_offsets,
        symbols: &rules.symbols,
        level_offsets: &rules.level_offsets,
        root_offsets,
        root,
    }
}

impl SegmentStructure for Dictionary {
    const KIND: StructureKind = StructureKind::Dictionary;

    fn bytes(&self) -> usize {
        self.memory()
    }

    fn make(segment: &SegmentView, stop: &AtomicBool) -> Result<Arc<Dictionary>> {
        match &segment.parts {
            Parts::Stored(segment) => Ok(segment.dictionary()?),
            Parts::Text(stored) => segment.tokenized_dictionary(stored, stop),
            #[cfg(test)]
            Parts::Memory(parts) => Ok(parts.dictionary.clone()),
        }
    }
}

impl SegmentStructure for StoredTotals {
    const KIND: StructureKind = StructureKind::Totals;

    fn bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |totals| size_of_val(&totals[..]))
    }

    fn make(segment: &SegmentView, _: &AtomicBool) -> Result<Arc<StoredTotals>> {
        let totals = match &segment.parts {
            Parts::Stored(stored) => {
                // The store decodes the dictionary too if it is not in memory.
                segment.pin::<Dictionary>()?;
                stored.totals()?
            }
            Parts::Text(_) => None,
            #[cfg(test)]
            Parts::Memory(_) => None,
        };
        Ok(Arc::new(StoredTotals(totals)))
    }
}

impl SegmentStructure for Bodies {
    const KIND: StructureKind = StructureKind::Bodies;

    fn bytes(&self) -> usize {
        let (rules, beside) = self.memory();
        rules + beside
    }

    fn make(segment: &SegmentView, _: &AtomicBool) -> Result<Arc<Bodies>> {
        match &segment.parts {
            Parts::Stored(stored) => {
                // The store decodes the dictionary too if it is not in memory.
                segment.pin::<Dictionary>()?;
                Ok(stored.bodies()?)
            }
            Parts::Text(_) => Err(segment.inconsistent("packed text has no rules")),
            #[cfg(test)]
            Parts::Memory(_) => Err(segment.inconsistent("plain data is not coded")),
        }
    }
}

impl SegmentStructure for WholeGrammar {
    const KIND: StructureKind = StructureKind::Grammar;

    fn bytes(&self) -> usize {
        self.rules.bytes() + size_of_val(&self.root_offsets[..]) + size_of_val(&self.root[..])
    }

    fn make(segment: &SegmentView, stop: &AtomicBool) -> Result<Arc<WholeGrammar>> {
        let whole = match &segment.parts {
            Parts::Stored(stored) => {
                let bodies = segment.pin::<Bodies>()?;
                let root = stored.roots(bodies)?;
                // The roots of single files are no longer needed.
                segment.slots().forget(StructureKind::Bodies as usize);
                segment.budgets.roots.clear();
                WholeGrammar {
                    rules: bodies.rules().clone(),
                    root_offsets: bodies.root_offsets().to_vec(),
                    root,
                }
            }
            Parts::Text(stored) => return segment.tokenized_grammar(stored, stop),
            #[cfg(test)]
            Parts::Memory(parts) => WholeGrammar {
                rules: parts.grammar.clone(),
                root_offsets: parts.grammar.root_offsets.clone(),
                root: parts.grammar.root.clone(),
            },
        };
        Ok(Arc::new(whole))
    }
}

impl SegmentView {
    /// The dictionary, checked to be in order: look-ups rely on that, and the store knows no folding.
    pub(crate) fn dictionary(&self) -> Result<&Dictionary> {
        let dictionary = self.pin::<Dictionary>()?;
        if self.ordered.get().is_none() {
            if let Some(fault) = order_fault(dictionary) {
                return Err(self.inconsistent(fault));
            }
            self.ordered.get_or_init(|| ());
        }
        Ok(dictionary)
    }

    /// Whether words can be looked up without building a structure; if so, the view pins what that needs.
    pub(crate) fn pin_words_at_hand(&self) -> bool {
        self.ordered.get().is_some()
            && self.pin_at_hand(&[StructureKind::Dictionary, StructureKind::WordIndex])
    }

    /// The total of each word, if the segment file has totals.
    pub(super) fn stored_totals(&self) -> Result<Option<&[u32]>> {
        Ok(self.pin::<StoredTotals>()?.0.as_deref())
    }

    /// The grammar.
    pub(crate) fn view(&self) -> Result<GrammarView<'_>> {
        let grammar = self.pin::<WholeGrammar>()?;
        self.checked(&grammar.rules, &grammar.root_offsets, &grammar.root)
    }

    /// The rules, the start of each file's root, and all roots, as an array of its own that is not in the cache.
    pub(super) fn rules_and_root(&self) -> Result<(Arc<Grammar>, Vec<u32>, Vec<u32>)> {
        let (rules, root_offsets, root) = match &self.parts {
            Parts::Stored(stored) => {
                let bodies = self.pin::<Bodies>()?;
                let root = stored.roots(bodies)?;
                (bodies.rules().clone(), bodies.root_offsets().to_vec(), root)
            }
            Parts::Text(_) => {
                let grammar = self.pin::<WholeGrammar>()?;
                let root = grammar.root.clone();
                (grammar.rules.clone(), grammar.root_offsets.clone(), root)
            }
            #[cfg(test)]
            Parts::Memory(parts) => {
                let grammar = parts.grammar.clone();
                let (root_offsets, root) = (grammar.root_offsets.clone(), grammar.root.clone());
                (grammar, root_offsets, root)
            }
        };
        self.checked(&rules, &root_offsets, &root)?;
        Ok((rules, root_offsets, root))
    }

    /// A grammar, checked against the number of files in the file table and of tokens in the dictionary.
    fn checked<'a>(
        &self,
        rules: &'a Grammar,
        root_offsets: &'a [u32],
        root: &'a [u32],
    ) -> Result<GrammarView<'a>> {
        self.check_files(root_offsets)?;
        self.with_roots(rules, root_offsets, root)
    }

    /// The bodies as a grammar without files.
    pub(crate) fn bodies_view(&self) -> Result<GrammarView<'_>> {
        self.with_roots(self.pin::<Bodies>()?.rules(), &[0], &[])
    }

    /// Checks that the number of roots is the number of files.
    pub(super) fn check_files(&self, root_offsets: &[u32]) -> Result<()> {
        let files = self.files()?.len();
        let roots = root_offsets.len().saturating_sub(1);
        if roots != files {
            return Err(self.inconsistent(format!("{files} files, but roots for {roots}")));
        }
        Ok(())
    }

    /// A view of rules with these roots; their number of terminals is checked against the dictionary.
    fn with_roots<'a>(
        &self,
        rules: &'a Grammar,
        root_offsets: &'a [u32],
        root: &'a [u32],
    ) -> Result<GrammarView<'a>> {
        let tokens = self.dictionary()?.len();
        if rules.terminal_count != tokens {
            let terminals = rules.terminal_count;
            return Err(self.inconsistent(format!("{tokens} tokens, but {terminals} terminals")));
        }
        Ok(view_of(rules, root_offsets, root))
    }

    /// The number of tokens of a file, about: by its words, its size or its root.
    pub(crate) fn about_tokens(&self, view: GrammarView<'_>, file: u32) -> Result<u64> {
        let entry = &self.files()?[file as usize];
        let root = view.root_range(file).len() as u64;
        Ok(entry.words.max(entry.bytes / GAP_BYTES).max(root))
    }
}

impl LiveSegment {
    /// Whether the roots of all files are decoded.
    pub(crate) fn has_grammar(&self) -> bool {
        match &self.parts {
            Parts::Stored(_) | Parts::Text(_) => self.has(StructureKind::Grammar),
            #[cfg(test)]
            Parts::Memory(_) => true,
        }
    }

    /// The way in which its words would be counted by file; decodes nothing.
    pub(crate) fn counting(&self) -> FileCounting {
        match &self.parts {
            Parts::Stored(segment) | Parts::Text(segment) => {
                let info = segment.info();
                let files = u64::from(info.files);
                FileCounting::cheapest(files, info.symbols, info.root_symbols, info.words)
            }
            #[cfg(test)]
            Parts::Memory(parts) => {
                let grammar = &parts.grammar;
                let symbols = (grammar.symbols.len() as u64, grammar.root.len() as u64);
                let files = self.files().unwrap_or_default();
                let words = files.iter().map(|file| file.words).sum();
                FileCounting::cheapest(files.len() as u64, symbols.0, symbols.1, words)
            }
        }
    }

    /// The size of all files.
    pub(crate) fn bytes(&self) -> Result<u64> {
        let sum = (self.files()?.iter()).try_fold(0u64, |sum, file| sum.checked_add(file.bytes));
        sum.ok_or_else(|| self.inconsistent("its files are too long"))
    }
}
