//! Levels of a grammar joined for counts of all symbols: fewer steps, each of which costs a wait, for more items.
//!
//! The invariant: the steps give what the levels give. In a step of several levels each rule adds what it has from outside of
//! the step to the symbols that its body has below, rules of the step expanded. What a rule has from rules of its own step is
//! added to a counter beside, its *shadow*, since nobody may read what others still add to; a last step adds those up.

use std::ops::Range;

use super::device::{Buffer, Gpu};
use super::error::GpuError;
use super::traversal::DeviceWords;

/// A level joins the step above it if that makes at most so many items more: fewer than are done while a step waits.
const MORE_ITEMS_MAX: usize = 1 << 16;

/// Levels are looked at, from the highest, as long as their bodies have together at most so many symbols: the host does that.
const SYMBOLS_MAX: usize = 1 << 18;

/// Steps in which symbols are counted, without the root.
#[derive(Debug)]
pub(crate) struct JoinedLevels {
    /// `[items]`: symbols and shadows, and the rule or shadow whose count each gets. Items are numbered from the number of
    /// symbols of bodies on; those before are these symbols.
    pub(crate) symbols: Buffer<u32>,
    pub(crate) owners: Buffer<u32>,
    /// Symbols with a shadow; shadows are numbered from the number of symbols on.
    pub(crate) shadows: usize,
    /// The items of each step.
    pub(crate) steps: Vec<Range<u32>>,
}

/// An item: the count of a rule is added to that of a symbol.
type Item = (u32, u32);

/// The bodies of the highest levels.
struct Bodies<'a> {
    words: &'a DeviceWords,
    first_rule: u32,
    first_symbol: u32,
    /// From the first rule and symbol on.
    offsets: Vec<u32>,
    symbols: Vec<u32>,
}

impl JoinedLevels {
    /// Joins what pays.
    pub(crate) fn new(gpu: &Gpu, words: &DeviceWords) -> Result<JoinedLevels, GpuError> {
        let levels = words.levels();
        let symbols = words.symbols.len();
        let high = |&level: &usize| symbols - words.level_symbols[level] as usize <= SYMBOLS_MAX;
        let lowest = (0..levels).find(high).unwrap_or(levels);
        let mut items: Vec<Item> = Vec::new();
        let mut shadows = Shadows::new(words);
        let mut steps = Vec::new();
        let mut top = levels;
        let bodies = Bodies::download(gpu, words, lowest)?;
        while top > lowest {
            let (bottom, step) = bodies.join(lowest..top, &mut shadows);
            if bottom + 1 == top {
                steps.push(words.level_bodies(bottom));
            } else {
                // Symbols and items are below 2^31 each: a few levels at most are joined.
                let first = (symbols + items.len()) as u32;
                steps.push(first..first + step.len() as u32);
                items.extend(step);
            }
            top = bottom;
        }
        steps.extend((0..lowest).rev().map(|level| words.level_bodies(level)));
        let first = (symbols + items.len()) as u32;
        let rules = shadows.rules.iter();
        let sums = (shadows.first - words.terminal_count..).zip(rules);
        items.extend(sums.map(|(shadow, &rule)| (shadow, words.terminal_count + rule)));
        steps.push(first..(symbols + items.len()) as u32);
        let (owners, joined): (Vec<u32>, Vec<u32>) = items.into_iter().unzip();
        Ok(JoinedLevels {
            symbols: gpu.upload(&joined)?,
            owners: gpu.upload(&owners)?,
            shadows: shadows.rules.len(),
            steps,
        })
    }

    /// How many items the steps have.
    pub(crate) fn items(&self) -> usize {
        let sizes = self
            .steps
            .iter()
            .map(|step| (step.end - step.start) as usize);
        sizes.sum()
    }
}

/// Counters beside those of rules.
struct Shadows {
    first: u32,
    /// The rule of each.
    rules: Vec<u32>,
}

impl Shadows {
    fn new(words: &DeviceWords) -> Shadows {
        Shadows {
            // Symbols are u32.
            first: words.symbol_count() as u32,
            rules: Vec::new(),
        }
    }

    /// A shadow of a rule.
    fn add(&mut self, rule: u32) -> u32 {
        self.rules.push(rule);
        // Fewer than items.
        self.first + self.rules.len() as u32 - 1
    }
}

impl Bodies<'_> {
    fn download<'a>(
        gpu: &Gpu,
        words: &'a DeviceWords,
        lowest: usize,
    ) -> Result<Bodies<'a>, GpuError> {
        let first_rule = words.level_offsets[lowest];
        let first_symbol = words.level_symbols[lowest];
        let mut offsets = vec![0u32; words.rules() - first_rule as usize + 1];
        gpu.download_from(&words.rule_offsets, first_rule as usize, &mut offsets)?;
        let mut symbols = vec![0u32; words.symbols.len() - first_symbol as usize];
        gpu.download_from(&words.symbols, first_symbol as usize, &mut symbols)?;
        Ok(Bodies {
            words,
            first_rule,
            first_symbol,
            offsets,
            symbols,
        })
    }

    fn body(&self, rule: u32) -> &[u32] {
        let at = (rule - self.first_rule) as usize;
        let place = |offset: u32| (offset - self.first_symbol) as usize;
        &self.symbols[place(self.offsets[at])..place(self.offsets[at + 1])]
    }

    /// The items of rules of a level.
    fn items(&self, level: usize) -> impl Iterator<Item = Item> + '_ {
        let rules = self.words.level_rules(level);
        rules.flat_map(|rule| self.body(rule).iter().map(move |&symbol| (rule, symbol)))
    }

    /// Joins levels from the highest on: the last one that joins, and the items of the step. Work: O(items).
    fn join(&self, levels: Range<usize>, shadows: &mut Shadows) -> (usize, Vec<Item>) {
        let mut bottom = levels.end - 1;
        let mut shadowed: Vec<Item> = Vec::new();
        // Items by the level of their symbols, those that no level joins first.
        let mut by_level: Vec<Vec<Item>> = vec![Vec::new(); levels.len() + 1];
        let place = |symbol: u32| {
            let rule = symbol.checked_sub(self.words.terminal_count);
            let first = self.words.level_offsets[levels.start];
            match rule.filter(|&rule| rule >= first) {
                None => 0,
                Some(rule) => {
                    let firsts = &self.words.level_offsets[levels.start..levels.end];
                    firsts.partition_point(|&first| first <= rule)
                }
            }
        };
        for item in self.items(bottom) {
            by_level[place(item.1)].push(item);
        }
        while bottom > levels.start {
            let joining = bottom - levels.start;
            let rule_of = |symbol: u32| symbol - self.words.terminal_count;
            let used = by_level[joining].iter();
            let more: usize = used
                .map(|&(_, symbol)| self.body(rule_of(symbol)).len() + 1)
                .sum();
            if more > MORE_ITEMS_MAX {
                break;
            }
            bottom -= 1;
            let rules = self.words.level_rules(bottom);
            let mut shadow_of = vec![None; rules.len()];
            for (owner, symbol) in std::mem::take(&mut by_level[joining]) {
                let rule = rule_of(symbol);
                let shadow = &mut shadow_of[(rule - rules.start) as usize];
                let shadow = *shadow.get_or_insert_with(|| shadows.add(rule));
                shadowed.push((owner, shadow));
                for &symbol in self.body(rule) {
                    by_level[place(symbol)].push((owner, symbol));
                }
            }
            for item in self.items(bottom) {
                by_level[place(item.1)].push(item);
            }
        }
        by_level.push(shadowed);
        (bottom, by_level.concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::test_devices::on_devices;
    use crate::gpu::weights;
    use crate::test_grammars;

    #[test]
    fn joined_levels_are_fewer_and_count_the_same_again_and_again() {
        on_devices(|gpu| {
            for grammar in [
                test_grammars::random(5),
                test_grammars::deep_chain(200),
                test_grammars::repeated_text(4),
            ] {
                let view = grammar.view();
                let words = DeviceWords::upload(gpu, view)?;
                let joined = JoinedLevels::new(gpu, &words)?;
                let levels = words.levels();
                assert!(
                    joined.steps.len() <= levels.max(1) || levels < 2,
                    "{levels}"
                );
                let expected = crate::weights(view, 0..view.root.len(), u64::MAX);
                for _ in 0..3 {
                    let found = gpu.download(&weights(gpu, &words)?)?;
                    let found: Vec<u64> = found.into_iter().map(u64::from).collect();
                    assert_eq!(found, expected[..found.len()]);
                }
            }
            Ok(())
        });
    }

    #[test]
    fn a_level_that_would_make_too_many_items_begins_a_step() {
        on_devices(|gpu| {
            // Each level doubles what it expands to, if all of them join.
            let grammar = test_grammars::doubling(90);
            let words = DeviceWords::upload(gpu, grammar.view())?;
            let joined = JoinedLevels::new(gpu, &words)?;
            if words.levels() > 20 {
                assert!(joined.steps.len() > 2, "{:?}", joined.steps);
            }
            assert!(joined.items() < 4 * MORE_ITEMS_MAX);
            Ok(())
        });
    }
}
