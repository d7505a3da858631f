//! Sequences to text: literal strings, then references, in three orders of these.
//!
//! The invariant: all orders give the same text or a fault for the same sequences. A reference reads only what was written before:
//! that a group's references need no other of it is examined for each, and where it does not hold they are resolved in
//! rounds.
//!
//! The section numbers are those of Sitaridi et al., "Massively-Parallel Lossless Data Decompression", ICPP 2016.

use super::error::BlockFault;
use super::format::{GROUP, PackSequence, Record};

/// Bytes that are copied at once.
const STEP: usize = 16;

/// In which order the references of a group of 32 sequences are resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum References {
    /// One after the other, as any LZ77 decoder does (SC).
    Sequential,
    /// In rounds: all whose source is written (MRR, section IV-A).
    Rounds,
    /// All at once where none needs another of its group, which is verified (DE, section IV-B); else in rounds.
    Direct,
}

/// How many rounds groups took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReferenceRounds {
    /// Groups of 32 sequences; the last one of a block may have fewer.
    pub groups: u64,
    /// Rounds of all groups; one for a group without references.
    pub rounds: u64,
    /// The most rounds of a group.
    pub rounds_max: u32,
}

impl ReferenceRounds {
    fn add_group(&mut self, rounds: u32) {
        self.groups += 1;
        self.rounds += u64::from(rounds);
        self.rounds_max = self.rounds_max.max(rounds);
    }

    /// The rounds of two parts together.
    pub fn and(self, other: ReferenceRounds) -> ReferenceRounds {
        ReferenceRounds {
            groups: self.groups + other.groups,
            rounds: self.rounds + other.rounds,
            rounds_max: self.rounds_max.max(other.rounds_max),
        }
    }
}

/// Writes the text of some sequences, which take all of `literals` and make all of `text`.
pub(super) fn resolve(
    records: &[Record],
    literals: &[u8],
    text: &mut [u8],
    order: References,
) -> Result<ReferenceRounds, BlockFault> {
    let mut rounds = ReferenceRounds::default();
    let mut end = Cursors::default();
    match order {
        References::Sequential => {
            end = sequential(records, literals, text)?;
            rounds.groups = records.len().div_ceil(GROUP) as u64;
        }
        References::Rounds | References::Direct => {
            for group in records.chunks(GROUP) {
                let mut pending = Pending::copy_literals(group, literals, text, &mut end)?;
                if order == References::Direct {
                    pending.copy_independent(text);
                }
                rounds.add_group(pending.copy_in_rounds(text));
            }
        }
    }
    if end.text == text.len() && end.literals == literals.len() {
        Ok(rounds)
    } else {
        Err(BlockFault::Lengths)
    }
}

/// How far literals are read and text is written.
#[derive(Clone, Copy, Default)]
struct Cursors {
    literals: usize,
    text: usize,
}

fn sequential(records: &[Record], literals: &[u8], text: &mut [u8]) -> Result<Cursors, BlockFault> {
    let mut place = Cursors::default();
    for &record in records {
        let sequence = PackSequence::from_record(record);
        let write = copy_string(sequence, literals, text, place)?;
        let source = write.wrapping_sub(sequence.distance);
        let end = write + sequence.length;
        // Most references are short and far: steps of a fixed size are faster, where there is room for what follows the reference.
        // A source before the text is no place in it.
        if sequence.distance >= STEP && copy_steps(text, source, write, sequence.length).is_some() {
            // All is copied.
        } else if sequence.length > 0 {
            if source >= write {
                return Err(BlockFault::Distance);
            }
            if end > text.len() {
                return Err(BlockFault::Lengths);
            }
            copy_repeated(text, source, write, sequence.length);
        }
        place.literals += sequence.literals;
        place.text = end;
    }
    Ok(place)
}

/// Copies the literal string of a sequence; returns where its reference is to be written. May write a few bytes behind the string,
/// which later text overwrites.
#[inline(always)]
fn copy_string(
    sequence: PackSequence,
    literals: &[u8],
    text: &mut [u8],
    place: Cursors,
) -> Result<usize, BlockFault> {
    let count = sequence.literals;
    let write = place.text + count;
    if count <= STEP
        && let Some(from) = step_at(literals, place.literals)
        && let Some(to) = step_at_mut(text, place.text)
    {
        *to = *from;
        return Ok(write);
    }
    let from = literals.get(place.literals..place.literals + count);
    let to = text.get_mut(place.text..write);
    match (from, to) {
        (Some(from), Some(to)) => to.copy_from_slice(from),
        _ => return Err(BlockFault::Lengths),
    }
    Ok(write)
}

#[inline(always)]
fn step_at(bytes: &[u8], at: usize) -> Option<&[u8; STEP]> {
    bytes.get(at..)?.first_chunk()
}

#[inline(always)]
fn step_at_mut(bytes: &mut [u8], at: usize) -> Option<&mut [u8; STEP]> {
    bytes.get_mut(at..)?.first_chunk_mut()
}

/// Copies at least `length` bytes from `source` to at least a step behind it, and what is left of the last step; nothing, or a
/// part, where the text has no room for whole steps.
#[inline(always)]
fn copy_steps(text: &mut [u8], source: usize, write: usize, length: usize) -> Option<()> {
    let step = *step_at(text, source)?;
    *step_at_mut(text, write)? = step;
    let mut done = STEP;
    while done < length {
        let step = *step_at(text, source + done)?;
        *step_at_mut(text, write + done)? = step;
        done += STEP;
    }
    Some(())
}

/// Copies exactly `length` bytes from `source` to `write`, behind it, byte by byte if they overlap: what is written doubles what can be
/// copied.
#[inline(never)]
fn copy_repeated(text: &mut [u8], source: usize, write: usize, length: usize) {
    let mut done = 0;
    while done < length {
        let step = (write + done - source).min(length - done);
        text.copy_within(source..source + step, write + done);
        done += step;
    }
}

/// Copies a reference. Short ones whose source ends at least a step before are copied by one step, which keeps the text behind
/// the reference.
#[inline(always)]
fn copy_exactly(text: &mut [u8], source: usize, write: usize, length: usize) {
    if length <= STEP
        && source + STEP <= write
        && let Some(&to) = step_at(text, write)
        && let Some(&from) = step_at(text, source)
    {
        // At most 15 bytes are kept.
        let kept = u128::MAX.checked_shl(8 * length as u32).unwrap_or(0);
        let both = u128::from_le_bytes(to) & kept | u128::from_le_bytes(from) & !kept;
        if let Some(to) = step_at_mut(text, write) {
            *to = both.to_le_bytes();
        }
        return;
    }
    copy_repeated(text, source, write, length);
}

/// The references of a group whose literals are written.
struct Pending {
    /// By sequence: where its literals and its reference are written; what follows is that of the next.
    begins: [usize; GROUP],
    writes: [usize; GROUP],
    lengths: [usize; GROUP],
    sources: [usize; GROUP],
    sequences: usize,
    /// A bit for each that is not copied, the first lowest.
    bits: u32,
}

const _: () = assert!(GROUP == u32::BITS as usize);

impl Pending {
    /// Copies the literal strings of a group, and checks where its references go.
    fn copy_literals(
        group: &[Record],
        literals: &[u8],
        text: &mut [u8],
        end: &mut Cursors,
    ) -> Result<Pending, BlockFault> {
        let mut pending = Pending {
            begins: [0; GROUP],
            writes: [0; GROUP],
            lengths: [0; GROUP],
            sources: [0; GROUP],
            sequences: group.len(),
            bits: 0,
        };
        let mut place = *end;
        for (i, &record) in group.iter().enumerate() {
            let sequence = PackSequence::from_record(record);
            let write = copy_string(sequence, literals, text, place)?;
            pending.begins[i] = place.text;
            pending.writes[i] = write;
            pending.lengths[i] = sequence.length;
            if sequence.length > 0 {
                let source = write.checked_sub(sequence.distance);
                pending.sources[i] = source.ok_or(BlockFault::Distance)?;
                pending.bits |= 1 << i;
            }
            place.literals += sequence.literals;
            place.text = write + sequence.length;
        }
        if place.text > text.len() {
            return Err(BlockFault::Lengths);
        }
        *end = place;
        Ok(pending)
    }

    /// Copies those whose source lies before the group's first reference, or within a literal string of the group.
    fn copy_independent(&mut self, text: &mut [u8]) {
        let first = match self.bits {
            0 => return,
            bits => self.writes[bits.trailing_zeros() as usize],
        };
        for i in crate::numbers::bits::bits_of(self.bits.into()) {
            let i = i as usize;
            let (source, length) = (self.sources[i], self.lengths[i]);
            let end = source + length;
            if end <= first || self.is_in_literals(source, end) {
                copy_exactly(text, source, self.writes[i], length);
                self.bits &= !(1 << i);
            }
        }
    }

    /// Whether a source lies within one literal string.
    fn is_in_literals(&self, source: usize, end: usize) -> bool {
        let begins = &self.begins[..self.sequences];
        let after = begins.partition_point(|&begin| begin <= source);
        after > 0 && end <= self.writes[after - 1]
    }

    /// Copies all that are left, and counts the rounds; one if there are none.
    ///
    /// A round copies the references whose source ends before the mark, the target of the first pending one. A source
    /// that overlaps its reference ends there, as the copy makes the rest; so the first one is copied in any case.
    fn copy_in_rounds(&mut self, text: &mut [u8]) -> u32 {
        let mut rounds = 0;
        while self.bits != 0 {
            rounds += 1;
            let mark = self.writes[self.bits.trailing_zeros() as usize];
            for i in crate::numbers::bits::bits_of(self.bits.into()) {
                let i = i as usize;
                let (source, write, length) = (self.sources[i], self.writes[i], self.lengths[i]);
                if (source + length).min(write) <= mark {
                    copy_exactly(text, source, write, length);
                    self.bits &= !(1 << i);
                }
            }
        }
        rounds.max(1)
    }
}
