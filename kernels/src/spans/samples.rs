//! Terminals at some places of a text.
//!
//! Invariant: the places are spread over the root, and of each a bounded number of terminals is read, however long rules are.

use crate::GrammarView;

/// Places of the root that are sampled, and the terminals read at each.
pub(super) const SAMPLES: usize = 16;
const SAMPLE_TERMINALS: usize = 256;

/// The next terminals of a grammar from a place on.
pub(super) struct SampledTerminals<'a> {
    view: GrammarView<'a>,
    stack: Vec<&'a [u32]>,
    left: usize,
}

impl<'a> SampledTerminals<'a> {
    /// The terminals at place number `place`, below [`SAMPLES`]. Where there are no roots they are those of bodies: their order is not that
    /// of the text, but most of it is.
    pub(super) fn at(view: GrammarView<'a>, place: usize) -> SampledTerminals<'a> {
        let source = if view.root.is_empty() {
            view.symbols
        } else {
            view.root
        };
        let position = source.len() * place / SAMPLES;
        let end = source.len().min(position + SAMPLE_TERMINALS);
        SampledTerminals {
            view,
            stack: vec![&source[position..end]],
            left: SAMPLE_TERMINALS,
        }
    }
}

impl Iterator for SampledTerminals<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        while self.left > 0
            && let Some(symbols) = self.stack.last_mut()
        {
            let Some((&symbol, rest)) = symbols.split_first() else {
                self.stack.pop();
                continue;
            };
            *symbols = rest;
            match self.view.rule(symbol) {
                Some(rule) => self.stack.push(self.view.body(rule)),
                None => {
                    self.left -= 1;
                    return Some(symbol);
                }
            }
        }
        None
    }
}
