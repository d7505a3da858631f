//! Terminals of a file in order: the rest of its root is followed rule by rule.
//!
//! A segment's short rules are kept expanded once the time that scans have spent on following rules equals the price of expanding
//! them.

use std::sync::atomic::AtomicBool;

use zipfdb_kernels::{Expansions, GrammarView};

use crate::Result;
use crate::segment::cost::FOLLOWED_TOKEN_COST;
use crate::segment::{SegmentStructure, SegmentView, Unit, WordExpansions};

/// The expanded short rules of one of a segment's grammars.
pub(super) trait KeptRules: SegmentStructure {
    /// The unit of the budget that pays for them.
    const UNIT: Unit;

    fn grammar(segment: &SegmentView) -> Result<GrammarView<'_>>;

    fn expansions(&self) -> &Expansions;
}

impl KeptRules for Expansions {
    const UNIT: Unit = Unit::Bytes;

    fn grammar(segment: &SegmentView) -> Result<GrammarView<'_>> {
        segment.view()
    }

    fn expansions(&self) -> &Expansions {
        self
    }
}

impl KeptRules for WordExpansions {
    const UNIT: Unit = Unit::Words;

    fn grammar(segment: &SegmentView) -> Result<GrammarView<'_>> {
        Ok(segment.word_grammar()?.view())
    }

    fn expansions(&self) -> &Expansions {
        &self.0
    }
}

/// The root of a file, as for [`take_terminals`].
pub(super) fn root_of_file(grammar: GrammarView<'_>, file: u32) -> Vec<(u32, u32)> {
    let root = grammar.root_range(file);
    // Offsets into the root are u32.
    vec![(root.start as u32, root.end as u32)]
}

/// Takes the next terminals of the rest of a root: at least `count`, or fewer at its end. `stack` is `[start, end)` in root or
/// bodies: its lowest entry lies in the root, the others in bodies.
///
/// # Errors
/// If the segment is damaged.
pub(super) fn take_terminals<R: KeptRules>(
    segment: &SegmentView,
    stack: &mut Vec<(u32, u32)>,
    count: usize,
    terminals: &mut Vec<u32>,
) -> Result<()> {
    let grammar = R::grammar(segment)?;
    match kept_rules::<R>(segment, grammar)? {
        Some(kept) => kept.take(grammar, stack, count, terminals),
        None => {
            follow(grammar, stack, count, terminals);
            let cost = terminals.len() as u64 * FOLLOWED_TOKEN_COST;
            segment.budgets.expansions[R::UNIT as usize].add(cost);
        }
    }
    Ok(())
}

/// A segment's expanded rules, if they are in memory or due.
fn kept_rules<'a, R: KeptRules>(
    segment: &'a SegmentView,
    grammar: GrammarView<'_>,
) -> Result<Option<&'a Expansions>> {
    if let Some(kept) = segment.pinned::<R>() {
        return Ok(Some(kept.expansions()));
    }
    let price = segment.missing(&[R::KIND]) as u64; // below 2^40
    let bytes = Expansions::bytes_max(grammar) as u64;
    let budget = &segment.budgets.expansions[R::UNIT as usize];
    let kept = segment.pin_if_due::<R>(budget, price, bytes, &AtomicBool::new(false))?;
    Ok(kept.map(R::expansions))
}

/// Takes the next terminals of the rest of a root, `count` or fewer at its end, rule by rule; `stack` is as that of
/// [`Expansions::take`].
fn follow(
    grammar: GrammarView<'_>,
    stack: &mut Vec<(u32, u32)>,
    count: usize,
    terminals: &mut Vec<u32>,
) {
    terminals.clear();
    while let Some((start, end)) = stack.pop() {
        let is_root = stack.is_empty();
        let symbols = if is_root {
            grammar.root
        } else {
            grammar.symbols
        };
        for (next, &symbol) in (start + 1..).zip(&symbols[start as usize..end as usize]) {
            let Some(rule) = grammar.rule(symbol) else {
                terminals.push(symbol);
                if terminals.len() == count {
                    stack.push((next, end));
                    return;
                }
                continue;
            };
            // The rest of the root stays below the bodies even if it is empty.
            if is_root || next < end {
                stack.push((next, end));
            }
            let body = grammar.body_range(rule);
            // Offsets into bodies are u32.
            stack.push((body.start as u32, body.end as u32));
            break;
        }
    }
}
