//! Where words of a segment occur.

use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use zipfdb_kernels::{
    GrammarView, Lengths, PARENTS_SYMBOL_COST, Parents, Structures, WordPlaces, WordTerminals,
    cost_without_parents, locate, locate_in_file,
};

use crate::Result;
use crate::answer::cost::PLACES_BUILD_COST;
use crate::segment::{
    LiveSegment, Offsets, Positions, SegmentView, StructureKind, TokenWords, Unit, WordSignatures,
};

/// About what a token has in text.
const BYTES_A_TOKEN: u64 = 5;

/// Bytes that occurrence lists take for each symbol, about.
const PLACES_SYMBOL_BYTES: u64 = 16;

/// Bytes that parents take for each symbol, about.
const PARENTS_SYMBOL_BYTES: u64 = 12;

/// The token that holds `place` of the segment, which lies in `file`, by lengths in one unit: where it begins in another
/// unit, the token, and how far in it the place is.
fn descend(
    view: GrammarView<'_>,
    lengths: &Lengths,
    others: &Lengths,
    file: u32,
    place: u64,
) -> (u64, u32, u64) {
    let (root_position, mut rest) = lengths.find_in_root(view, file, place);
    let mut start = others.root_start(view, root_position);
    let mut symbol = view.root[root_position];
    while let Some(rule) = view.rule(symbol) {
        let index;
        (index, rest) = lengths.find_in_body(view, rule, rest);
        start += others.body_start(view, rule, index);
        symbol = view.body(rule)[index];
    }
    (start, symbol, rest)
}

impl SegmentView {
    /// Where words are, if that is there: counted in bytes or words from the start of the segment.
    fn places(&self, unit: Unit, stop: &AtomicBool) -> Result<Option<&WordPlaces>> {
        let (symbols, _) = self.size();
        // Below 2^39.
        let price = (symbols as f64 * PLACES_BUILD_COST / self.threads as f64) as u64;
        let (budget, bytes) = (
            &self.budgets.places[unit as usize],
            symbols * PLACES_SYMBOL_BYTES,
        );
        let places = match unit {
            Unit::Bytes => {
                let offsets = self.pin_if_due::<Offsets>(budget, price, bytes, stop)?;
                offsets.map(|offsets| &offsets.0)
            }
            Unit::Words => {
                let positions = self.pin_if_due::<Positions>(budget, price, bytes, stop)?;
                positions.map(|positions| &positions.0)
            }
        };
        Ok(places.and_then(Option::as_ref))
    }

    #[cfg(test)]
    pub(crate) fn build_places(&self) -> Result<()> {
        for unit in [Unit::Bytes, Unit::Words] {
            self.budgets.places[unit as usize].make_due();
            self.places(unit, &AtomicBool::new(false))?;
        }
        Ok(())
    }

    /// Whether there are occurrence lists. Text that has too many occurrences has none.
    pub(crate) fn has_places(&self, unit: Unit) -> bool {
        match unit {
            Unit::Bytes => self
                .pinned::<Offsets>()
                .is_some_and(|offsets| offsets.0.is_some()),
            Unit::Words => (self.pinned::<Positions>()).is_some_and(|places| places.0.is_some()),
        }
    }

    /// The places of a word in a file, counted from its start, if places are kept.
    fn kept_in_file(
        &self,
        unit: Unit,
        file: u32,
        word: WordTerminals,
        stop: &AtomicBool,
    ) -> Result<Option<Vec<u64>>> {
        let Some(places) = self.places(unit, stop)? else {
            return Ok(None);
        };
        let range = self.lengths_in(unit)?.file_range(file);
        let start = range.start;
        let mut found = match self.number_of(word)? {
            Some(number) => places.places(number, range),
            None => Vec::new(),
        };
        for place in &mut found {
            *place -= start;
        }
        Ok(Some(found))
    }

    /// Lengths of the grammar that has its places counted so.
    fn lengths_in(&self, unit: Unit) -> Result<&Lengths> {
        match unit {
            Unit::Bytes => self.lengths(),
            Unit::Words => self.word_lengths(),
        }
    }

    /// The offsets of a word in each file that has it, files ascending.
    pub(crate) fn locate(
        &self,
        word: WordTerminals,
        stop: &AtomicBool,
    ) -> Result<Vec<(u32, Vec<u64>)>> {
        if word.first == word.end {
            return Ok(Vec::new());
        }
        let view = self.view()?;
        let offsets = match self.places(Unit::Bytes, stop)? {
            Some(places) => places.places(self.word_of()?[word.first as usize], 0..u64::MAX),
            None => {
                let begin = Instant::now();
                let range = 0..view.root.len();
                let tokens = self.bytes()? / BYTES_A_TOKEN;
                let structures = self.structures(view, range.clone(), tokens)?;
                let offsets = locate(structures, word, range, tokens);
                self.budgets.places[Unit::Bytes as usize].add_since(begin);
                offsets
            }
        };
        let starts = &self.lengths()?.file_starts;
        let mut rest = &offsets[..];
        let mut files = Vec::new();
        while let Some(&first) = rest.first() {
            // The last file that starts at or before it: empty ones lie before.
            let file = starts[..starts.len() - 1].partition_point(|&start| start <= first) - 1;
            let inside = rest.partition_point(|&offset| offset < starts[file + 1]);
            let (these, others) = rest.split_at(inside);
            let these = these.iter().map(|offset| offset - starts[file]).collect();
            // A segment's files are counted by a u32.
            files.push((file as u32, these));
            rest = others;
        }
        Ok(files)
    }

    /// The offsets of a word in a file.
    pub(crate) fn locate_in_file(
        &self,
        file: u32,
        word: WordTerminals,
        stop: &AtomicBool,
    ) -> Result<Vec<u64>> {
        if word.first == word.end {
            return Ok(Vec::new());
        }
        if let Some(offsets) = self.kept_in_file(Unit::Bytes, file, word, stop)? {
            return Ok(offsets);
        }
        if let Some(offsets) =
            self.ask_alone(file, StructureKind::Grammar, |alone| alone.locate(word))?
        {
            return Ok(offsets);
        }
        let view = self.view()?;
        let tokens = self.about_tokens(view, file)?;
        let begin = Instant::now();
        let structures = self.structures(view, view.root_range(file), tokens)?;
        let offsets = locate_in_file(structures, word, file, tokens);
        self.budgets.places[Unit::Bytes as usize].add_since(begin);
        Ok(offsets)
    }

    /// The positions, counted in words, of a word in a file.
    pub(crate) fn positions_in_file(
        &self,
        file: u32,
        word: WordTerminals,
        stop: &AtomicBool,
    ) -> Result<Vec<u64>> {
        let Some(number) = self.number_of(word)? else {
            return Ok(Vec::new());
        };
        if let Some(positions) = self.kept_in_file(Unit::Words, file, word, stop)? {
            return Ok(positions);
        }
        let grammar = StructureKind::WordGrammar;
        if let Some(positions) = self.ask_alone(file, grammar, |alone| alone.positions(word))? {
            return Ok(positions);
        }
        let view = self.word_grammar()?.view();
        let structures = Structures {
            view,
            lengths: self.word_lengths()?,
            signatures: &self.pin::<WordSignatures>()?.0,
            parents: Some(&self.word_uses()?.parents),
        };
        let terminals = WordTerminals {
            first: number,
            spaced: number + 1,
            end: number + 1,
        };
        let words = self.files()?[file as usize].words;
        let begin = Instant::now();
        let positions = locate_in_file(structures, terminals, file, words);
        self.budgets.places[Unit::Words as usize].add_since(begin);
        Ok(positions)
    }

    /// The offset of the word's own first byte of word number `position`, which the file has.
    ///
    /// Work: one step down the grammar a level.
    pub(crate) fn offset_of_word(&self, file: u32, position: u64) -> Result<u64> {
        let view = self.view()?;
        let (words, bytes) = (self.token_words()?, self.lengths()?);
        let start = words.file_range(file).start;
        let (offset, token, _) = descend(view, words, bytes, file, start + position);
        let space = u64::from(self.dictionary()?.has_glued_space(token));
        Ok(offset - bytes.file_range(file).start + space)
    }

    /// How many words of a file begin before byte `offset` of it, which the file has.
    ///
    /// Work: one step down the grammar a level.
    pub(crate) fn words_before(&self, file: u32, offset: u64) -> Result<u64> {
        let view = self.view()?;
        let (words, bytes) = (self.token_words()?, self.lengths()?);
        let start = bytes.file_range(file).start;
        let (before, token, rest) = descend(view, bytes, words, file, start + offset);
        let before = before - words.file_range(file).start;
        let dictionary = self.dictionary()?;
        let is_word = token < dictionary.word_tokens();
        let space = u64::from(is_word && dictionary.has_glued_space(token));
        Ok(before + u64::from(is_word && rest > space))
    }

    /// Lengths of the grammar over tokens, in words.
    fn token_words(&self) -> Result<&Lengths> {
        Ok(&self.pin::<TokenWords>()?.0)
    }

    /// Builds what offsets need.
    pub(crate) fn prepare_offsets(&self) -> Result<()> {
        self.signatures()?;
        self.lengths().map(drop)
    }

    fn structures<'a>(
        &'a self,
        view: GrammarView<'a>,
        positions: Range<usize>,
        tokens: u64,
    ) -> Result<Structures<'a>> {
        Ok(Structures {
            view,
            lengths: self.lengths()?,
            signatures: self.signatures()?,
            parents: self.parents(view, positions, tokens)?,
        })
    }

    /// The parents, if they are there or it is time to build them.
    pub(super) fn parents(
        &self,
        view: GrammarView<'_>,
        positions: Range<usize>,
        tokens: u64,
    ) -> Result<Option<&Parents>> {
        if let Some(parents) = self.pinned() {
            return Ok(Some(parents));
        }
        let symbols = (view.symbols.len() + view.root.len()) as u64;
        let (budget, price) = (&self.budgets.parents, symbols * PARENTS_SYMBOL_COST);
        let cost = cost_without_parents(view, positions, tokens);
        budget.add(cost.min(price));
        let never = AtomicBool::new(false);
        self.pin_if_due(budget, price, symbols * PARENTS_SYMBOL_BYTES, &never)
    }

    #[cfg(test)]
    pub(crate) fn make_parents_due(&self) {
        self.budgets.parents.make_due();
    }

    #[cfg(test)]
    pub(crate) fn has_parents(&self) -> bool {
        self.has(StructureKind::Parents)
    }
}

impl LiveSegment {
    /// Whether the bytes where words begin are told without building anything first.
    pub(crate) fn can_tell_offsets_now(&self) -> bool {
        self.has(StructureKind::TokenWords) && self.has(StructureKind::Lengths)
    }
}
