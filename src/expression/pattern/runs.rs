//! Runs of elements, found in a text one after the other.
//!
//! The first run stands at the start of the text and the last one at its end; each of those between is searched from the end of
//! the one before: the first place leaves most of the text to the others, so no second place is tried. A run that is a plain text
//! is found in time proportional to the text, and so is one of at most 64 elements; of a longer one with wildcards the first 64
//! are searched and the others compared. Invariant: loops of more than some thousand steps check for interruption.

use std::sync::Arc;

use memchr::memmem::Finder;

use super::element::{Element, STRAY_BYTES, first_character, last_character, push_code};
use crate::Result;
use crate::runtime::interrupt::Pace;

/// A string of bytes in every text that matches a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NeededLiteral {
    pub(crate) bytes: Vec<u8>,
    /// Whether the case of ASCII letters may differ in the text.
    pub(crate) ignores_case: bool,
    /// Whether every text with the string matches.
    pub(crate) is_enough: bool,
}

/// A text in every text that matches a pattern, except for the case of ASCII letters where the pattern leaves that open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FixedRun {
    pub(crate) text: String,
    /// Whether every match begins with it.
    pub(crate) is_first: bool,
    /// Whether every match ends with it.
    pub(crate) is_last: bool,
}

/// A pattern as runs.
#[derive(Debug, Clone)]
pub(crate) struct ElementRuns {
    first: Vec<Element>,
    between: Vec<ElementRun>,
    /// None if the first run is the whole pattern.
    last: Option<Vec<Element>>,
}

/// A run between others, of at least one element.
#[derive(Debug, Clone)]
struct ElementRun {
    elements: Vec<Element>,
    search: Search,
}

/// The way to find a run.
#[derive(Debug, Clone)]
enum Search {
    /// The run is these bytes.
    Bytes(Arc<Finder<'static>>),
    /// The run is these bytes once the capitals of ASCII are lowercase.
    Lowercase(Arc<Finder<'static>>),
    /// By stepping through the text with all places in its first elements at once.
    Steps(Arc<Steps>),
}

/// For each character the elements that accept it, a bit for each.
#[derive(Debug)]
struct Steps {
    ascii: [u64; 128],
    /// From each of these codes up to the next one, ascending from 0.
    from: Vec<(u32, u64)>,
}

/// The least bytes of text between two checks for interruption.
const PART: usize = 1 << 16;

/// Elements whose places are kept at once.
const STEPS: usize = u64::BITS as usize;

impl ElementRuns {
    /// The most memory of the runs of a pattern, while they are made.
    pub(super) fn bytes_max(pattern: &[u8]) -> u64 {
        /// The memory for a byte: two elements, and four changes of `Steps`.
        const BYTE: usize = 2 * size_of::<Element>() + 4 * size_of::<(u32, u64)>();
        /// A run beside its elements, with the memory of `Finder`.
        const RUN: usize = size_of::<ElementRun>() + size_of::<Steps>() + (1 << 9);
        let is_wildcard = |byte: &&u8| matches!(byte, b'%' | b'*');
        let runs = 1 + pattern.iter().filter(is_wildcard).count() as u64;
        (pattern.len() as u64 * BYTE as u64).saturating_add(runs * RUN as u64)
    }

    pub(super) fn new(elements: &[Element]) -> ElementRuns {
        let mut runs: Vec<&[Element]> = elements
            .split(|element| *element == Element::Many)
            .collect();
        let last = match runs.len() {
            1 => None,
            _ => runs.pop(),
        };
        let between = runs[1..].iter().filter(|run| !run.is_empty());
        ElementRuns {
            first: runs[0].to_vec(),
            between: between.map(|run| ElementRun::new(run)).collect(),
            last: last.map(<[Element]>::to_vec),
        }
    }

    /// The elements at the start of the text.
    pub(super) fn first(&self) -> &[Element] {
        &self.first
    }

    /// As [`super::Pattern::literal`].
    pub(super) fn literal(&self, bytes_max: usize) -> Option<NeededLiteral> {
        let between = self.between.iter().map(|run| &run.elements[..]);
        let runs = [&self.first[..]].into_iter().chain(between);
        let runs = runs.chain(self.last.as_deref());
        let is_plain = |element: &Element| matches!(element, Element::One(_) | Element::Letter(_));
        let stretches = runs.flat_map(|run| run.split(|element| !is_plain(element)));
        let longest = stretches.max_by_key(|stretch| stretch.len())?;
        let mut bytes = Vec::new();
        for element in longest {
            if let Element::One(code) | Element::Letter(code) = element {
                push_code(*code, &mut bytes);
            }
        }
        let is_only = self.first.is_empty()
            && self.last.as_ref().is_some_and(Vec::is_empty)
            && matches!(&self.between[..], [run] if run.elements.len() == longest.len());
        // A byte of ASCII is a character wherever it stands.
        let is_enough = is_only && bytes.is_ascii() && bytes.len() <= bytes_max;
        bytes.truncate(bytes_max);
        (!bytes.is_empty()).then(|| NeededLiteral {
            ignores_case: longest
                .iter()
                .any(|element| matches!(element, Element::Letter(_))),
            is_enough,
            bytes,
        })
    }

    /// As [`super::Pattern::fixed_runs`].
    pub(super) fn fixed_runs(&self) -> Option<Vec<FixedRun>> {
        let between = self
            .between
            .iter()
            .map(|run| (&run.elements[..], false, false));
        let first = (&self.first[..], true, self.last.is_none());
        let last = self.last.as_deref().map(|last| (last, false, true));
        let mut fixed = Vec::new();
        for (elements, is_first, is_last) in [first].into_iter().chain(between).chain(last) {
            let mut run = FixedRun {
                text: String::new(),
                is_first,
                is_last: false,
            };
            for element in elements {
                let character = match element {
                    Element::One(code) | Element::Letter(code) => char::from_u32(*code),
                    Element::Never => return None,
                    Element::Any | Element::Many | Element::Set { .. } => None,
                };
                match character {
                    Some(character) => run.text.push(character),
                    None => {
                        let next = FixedRun {
                            text: String::new(),
                            is_first: false,
                            is_last: false,
                        };
                        fixed.push(std::mem::replace(&mut run, next));
                    }
                }
            }
            run.is_last = is_last;
            fixed.push(run);
        }
        // An empty one has a meaning only if it is the whole pattern.
        fixed.retain(|run| !run.text.is_empty() || run.is_first && run.is_last);
        Some(fixed)
    }

    pub(super) fn matches(&self, text: &[u8], pace: &mut Pace) -> Result<bool> {
        let Some(mut at) = end_of(&self.first, text, 0, pace)? else {
            return Ok(false);
        };
        let Some(last) = &self.last else {
            return Ok(at == text.len());
        };
        let Some(end) = start_of(last, text, pace)?.filter(|&end| at <= end) else {
            return Ok(false);
        };
        for run in &self.between {
            match run.find(&text[..end], at, pace)? {
                Some(found) => at = found,
                None => return Ok(false),
            }
        }
        Ok(true)
    }
}

/// The end of elements that begin at a byte of the text, if they match there.
fn end_of(
    elements: &[Element],
    text: &[u8],
    mut at: usize,
    pace: &mut Pace,
) -> Result<Option<usize>> {
    let start = at;
    for element in elements {
        if at == text.len() {
            return Ok(None);
        }
        let (code, length) = first_character(&text[at..]);
        if !element.accepts(code) {
            pace.work(at - start)?;
            return Ok(None);
        }
        at += length;
    }
    pace.work(at - start)?;
    Ok(Some(at))
}

/// The beginning of elements that end where the text does, if they match there.
fn start_of(elements: &[Element], text: &[u8], pace: &mut Pace) -> Result<Option<usize>> {
    let mut end = text.len();
    for element in elements.iter().rev() {
        if end == 0 {
            return Ok(None);
        }
        let (code, length) = last_character(&text[..end]);
        if !element.accepts(code) {
            return Ok(None);
        }
        end -= length;
    }
    pace.work(text.len() - end)?;
    Ok(Some(end))
}

impl ElementRun {
    fn new(elements: &[Element]) -> ElementRun {
        ElementRun {
            elements: elements.to_vec(),
            search: Search::new(elements),
        }
    }

    /// The end of the first match that begins at a byte of the text or behind it.
    fn find(&self, text: &[u8], at: usize, pace: &mut Pace) -> Result<Option<usize>> {
        match &self.search {
            Search::Bytes(finder) => {
                let found = |part: &[u8]| finder.find(part);
                find_in_parts(text, at, finder.needle().len(), pace, found)
            }
            Search::Lowercase(finder) => {
                let found = |part: &[u8]| finder.find(&part.to_ascii_lowercase());
                find_in_parts(text, at, finder.needle().len(), pace, found)
            }
            Search::Steps(steps) => steps.find(&self.elements, text, at, pace),
        }
    }
}

/// The end of the first match of `length` bytes, which `find` finds in a part of the text.
fn find_in_parts(
    text: &[u8],
    mut at: usize,
    length: usize,
    pace: &mut Pace,
    find: impl Fn(&[u8]) -> Option<usize>,
) -> Result<Option<usize>> {
    loop {
        let end = text.len().min(at + PART.max(2 * length));
        pace.work(end - at)?;
        if let Some(found) = find(&text[at..end]) {
            return Ok(Some(at + found + length));
        }
        if end == text.len() {
            return Ok(None);
        }
        // A match may begin in this part and end behind it.
        at = end - (length - 1);
    }
}

impl Search {
    fn new(elements: &[Element]) -> Search {
        let mut bytes = Vec::new();
        let (mut has_letters, mut is_text) = (false, true);
        for element in elements {
            match element {
                // A stray byte may be part of a character of the text, which it does not match.
                Element::One(code) if *code < STRAY_BYTES => push_code(*code, &mut bytes),
                Element::Letter(code) => {
                    has_letters = true;
                    push_code(*code, &mut bytes);
                }
                _ => is_text = false,
            }
        }
        let finder = || Arc::new(Finder::new(&bytes).into_owned());
        // A copy in lowercase costs more than steps.
        if is_text && !has_letters {
            Search::Bytes(finder())
        } else if is_text && elements.len() > STEPS {
            Search::Lowercase(finder())
        } else {
            Search::Steps(Arc::new(Steps::new(&elements[..elements.len().min(STEPS)])))
        }
    }
}

impl Steps {
    fn new(elements: &[Element]) -> Steps {
        // The codes at which the accepting elements change.
        let mut changes: Vec<(u32, u64)> = Vec::new();
        for (index, element) in elements.iter().enumerate() {
            let bit = 1 << index;
            let mut change =
                |first: u32, last: u32| changes.extend([(first, bit), (last + 1, bit)]);
            match element {
                Element::One(code) => change(*code, *code),
                Element::Letter(lower) => {
                    change(*lower, *lower);
                    change(lower & !0x20, lower & !0x20);
                }
                Element::Set { ranges, .. } => {
                    ranges.iter().for_each(|&(first, last)| change(first, last));
                }
                Element::Any | Element::Many | Element::Never => {}
            }
            if matches!(element, Element::Any | Element::Set { inverted: true, .. }) {
                changes.push((0, bit));
            }
        }
        changes.sort_unstable_by_key(|&(code, _)| code);
        let mut steps = Steps {
            ascii: [0; 128],
            from: vec![(0, 0)],
        };
        let mut mask = 0;
        for (code, bit) in changes {
            mask ^= bit;
            match steps.from.last_mut() {
                Some(last) if last.0 == code => last.1 = mask,
                _ => steps.from.push((code, mask)),
            }
        }
        steps.ascii = std::array::from_fn(|code| steps.of(code as u32)); // below 128
        steps
    }

    /// The elements that accept a character.
    fn of(&self, code: u32) -> u64 {
        let behind = self.from.partition_point(|&(first, _)| first <= code);
        self.from[behind - 1].1
    }

    /// The end of the first match of `elements` that begins at a byte of the text or behind it. The steps are those of its first
    /// elements.
    fn find(
        &self,
        elements: &[Element],
        text: &[u8],
        mut at: usize,
        pace: &mut Pace,
    ) -> Result<Option<usize>> {
        let (stepped, others) = elements.split_at(elements.len().min(STEPS));
        let last = 1u64 << (stepped.len() - 1);
        // Bit i if element i matched the character before, and all elements before it the characters before that.
        let mut places = 0u64;
        while at < text.len() {
            let end = text.len().min(at + PART);
            pace.work(end - at)?;
            while at < end {
                let byte = text[at];
                let (accepting, length) = if byte < 0x80 {
                    (self.ascii[usize::from(byte)], 1)
                } else {
                    let (code, length) = first_character(&text[at..]);
                    (self.of(code), length)
                };
                places = (places << 1 | 1) & accepting;
                at += length;
                if places & last != 0
                    && let Some(end) = end_of(others, text, at, pace)?
                {
                    return Ok(Some(end));
                }
            }
        }
        Ok(None)
    }
}
