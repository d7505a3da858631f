//! Decoding sixteen chunks in step with AVX-512: a lane of a vector is a chunk.
//!
//! Invariant: bit for bit what [`super::lanes`] gives step by step, which is the twin and what other processors run. The
//! only file of this crate with `unsafe`: gathers and scatters take addresses. Every index is masked or clamped to its table
//! right before it is used, whatever was decoded, so that soundness rests on no byte of a file.

use super::classes::CLASSES_MAX;
use super::contexts::GROUPS_MAX;
use super::history::{HISTORY, REPEATS};
use crate::segment::coding::rans::{PROBABILITY_BITS, STATE_MIN};
use crate::segment::coding::tables::{LookupTable, WINDOW, WINDOWS};
use crate::segment::coding::{NoMemory, filled};
use std::arch::x86_64::*;
use std::sync::atomic::{AtomicU16, AtomicU32};

/// Chunks of a group.
pub const WIDTH: usize = 16;

/// Groups whose steps overlap: while one waits for loads the other computes.
pub const GROUPS: usize = 2;

/// Most symbols of each chunk that one call decodes.
pub const STEPS: usize = 128;

/// Words of each chunk that one call may need, made a power of two: three a symbol at most.
pub const WORDS: usize = 512;

/// Actions, made a power of two.
pub const ACTIONS: usize = 64;

/// Traces are below this.
pub const TRACES: usize = (2 * CLASSES_MAX) * GROUPS_MAX;

/// A trace that takes its group from what is before.
pub const OPEN: u32 = 1 << 15;

/// In place of a trace: the symbol follows the one before.
pub const GOES_ON: u32 = u16::MAX as u32;

const TRACE_GROUP_BITS: u32 = GROUPS_MAX.ilog2();

/// The symbols that the chunks of a group met lately: `[WIDTH][HISTORY_SIZE]`.
const HISTORY_SIZE: usize = MET + CLASSES_MAX;

/// Where in a history the numbers of symbols that were met begin; before are the rings.
const MET: usize = CLASSES_MAX * HISTORY;

/// The tables that decode all chunks.
pub struct WideTables<'a> {
    /// By closed trace the row of `classes`.
    pub rows: &'a [u32; TRACES],
    /// By class its group.
    pub groups: &'a [u32; 2 * CLASSES_MAX],
    /// By class and action where ranks begin, and above 32 bits how many there are; for repeats of distances.
    pub buckets: &'a [u64; CLASSES_MAX * ACTIONS],
    pub classes: LookupTable<'a, CLASSES_MAX>,
    pub actions: LookupTable<'a, ACTIONS>,
    /// By rank what the symbol leaves behind; two more than there are ranks.
    pub traces: &'a [AtomicU16],
    /// By rank the symbol; as many.
    pub symbols: &'a [AtomicU32],
    /// The trace before the first symbol of a body, its group.
    pub nothing_group: u32,
}

/// Sixteen chunks and the symbols that were decoded last.
pub struct WideGroup {
    pub states: [u64; WIDTH],
    /// How many words were used, modulo 2^32.
    pub used: [u32; WIDTH],
    pub last: [u32; WIDTH],
    pub group_before: [u32; WIDTH],
    /// By chunk its next words, each at its number modulo [`WORDS`].
    pub words: Box<[[u32; WORDS]; WIDTH]>,
    /// By step the symbols.
    pub symbols: Box<[[u32; WIDTH]; STEPS]>,
    /// By step what symbols leave behind. Before, where bodies begin, the trace of their first symbol; else [`GOES_ON`].
    pub traces: Box<[[u32; WIDTH]; STEPS]>,
    histories: Vec<u32>,
}

impl WideGroup {
    /// Chunks that nothing is known of.
    pub fn new() -> Result<WideGroup, NoMemory> {
        let made = "made with this length";
        let steps = |number: u32| filled([number; WIDTH], STEPS);
        Ok(WideGroup {
            states: [0; WIDTH],
            used: [0; WIDTH],
            last: [0; WIDTH],
            group_before: [0; WIDTH],
            words: filled([0; WORDS], WIDTH)?.try_into().expect(made),
            symbols: steps(0)?.try_into().expect(made),
            traces: steps(GOES_ON)?.try_into().expect(made),
            histories: filled(0, WIDTH * HISTORY_SIZE)?,
        })
    }

    /// The history of a chunk.
    fn history(&mut self, lane: usize) -> &mut [u32] {
        &mut self.histories[lane * HISTORY_SIZE..][..HISTORY_SIZE]
    }

    /// Forgets what a chunk met; `none` is the rank of what was not met.
    pub fn clear_history(&mut self, lane: usize, none: u32) {
        let (rings, met) = self.history(lane).split_at_mut(MET);
        rings.fill(none);
        met.fill(0);
    }

    /// Takes what a chunk of another group met.
    pub fn take_history(&mut self, lane: usize, met: &[u32]) {
        self.history(lane).copy_from_slice(met);
    }

    /// What a chunk met.
    pub fn history_of(&mut self, lane: usize) -> Vec<u32> {
        self.history(lane).to_vec()
    }
}

/// Whether this processor can.
pub fn is_supported() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512cd")
        && is_x86_feature_detected!("avx512dq")
}

/// Decodes `steps` symbols, at most [`STEPS`], of all chunks of the groups.
///
/// # Panics
/// If the processor cannot, or the tables have no row or rank.
pub fn decode<const BODIES: bool, const G: usize>(
    tables: &WideTables<'_>,
    groups: &mut [WideGroup; G],
    steps: usize,
) {
    assert!(is_supported());
    assert!(steps <= STEPS);
    assert!(tables.traces.len() >= 2);
    assert!(tables.symbols.len() == tables.traces.len());
    assert!(tables.classes.rows() > 0);
    assert!(tables.actions.rows() > 0);
    // SAFETY: the processor has the features, which is all that the function asks for.
    unsafe { steps_of::<BODIES, G>(tables, groups, steps) }
}

/// Two vectors of states.
type States = (__m512i, __m512i);

#[target_feature(enable = "avx512f,avx512cd,avx512dq")]
#[allow(clippy::needless_range_loop)] // a group has its place in several arrays
fn steps_of<const BODIES: bool, const G: usize>(
    tables: &WideTables<'_>,
    groups: &mut [WideGroup; G],
    steps: usize,
) {
    let zero = _mm512_setzero_si512();
    let one = _mm512_set1_epi32(1);
    let lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    let word_lanes = _mm512_mullo_epi32(lanes, _mm512_set1_epi32(WORDS as i32));
    let history_lanes = _mm512_mullo_epi32(lanes, _mm512_set1_epi32(HISTORY_SIZE as i32));
    let evens = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    let odds = _mm512_or_si512(evens, one);
    let rank_max = _mm512_set1_epi32((tables.traces.len() - 2).min(i32::MAX as usize) as i32);
    let class_row_max = _mm512_set1_epi32(tables.classes.rows() as i32 - 1);
    let action_row_max = _mm512_set1_epi32(tables.actions.rows() as i32 - 1);
    let mut states: [States; G] = [(zero, zero); G];
    let mut used = [zero; G];
    let mut last = [zero; G];
    let mut before = [zero; G];
    for g in 0..G {
        states[g] = (load64(&groups[g].states, 0), load64(&groups[g].states, 8));
        used[g] = load(&groups[g].used);
        last[g] = load(&groups[g].last);
        before[g] = load(&groups[g].group_before);
    }
    for step in 0..steps {
        let mut rows = [zero; G];
        for g in 0..G {
            if BODIES {
                let own = load(&groups[g].traces[step]);
                let begins = _mm512_cmpneq_epi32_mask(own, _mm512_set1_epi32(GOES_ON as i32));
                last[g] = _mm512_mask_mov_epi32(last[g], begins, own);
                let nothing = _mm512_set1_epi32(tables.nothing_group as i32);
                before[g] = _mm512_mask_mov_epi32(before[g], begins, nothing);
            }
            let is_open = _mm512_test_epi32_mask(last[g], _mm512_set1_epi32(OPEN as i32));
            let closed = _mm512_mask_or_epi32(last[g], is_open, last[g], before[g]);
            let closed = _mm512_and_si512(closed, _mm512_set1_epi32(TRACES as i32 - 1));
            // SAFETY: the index is below TRACES, the length of the array.
            rows[g] = unsafe { _mm512_i32gather_epi32::<4>(closed, tables.rows.as_ptr().cast()) };
        }
        let mut classes = [zero; G];
        for g in 0..G {
            let row = _mm512_min_epu32(rows[g], class_row_max);
            classes[g] = symbol(tables.classes, &mut states[g], row);
            refill(&groups[g].words, &mut states[g], &mut used[g], word_lanes);
        }
        let mut met = [zero; G];
        let mut history_of_class = [zero; G];
        for g in 0..G {
            let histories = groups[g].histories.as_ptr();
            let class = _mm512_and_si512(classes[g], _mm512_set1_epi32(CLASSES_MAX as i32 - 1));
            classes[g] = class;
            history_of_class[g] = _mm512_add_epi32(history_lanes, class);
            let place = _mm512_add_epi32(history_of_class[g], _mm512_set1_epi32(MET as i32));
            // SAFETY: lane below WIDTH, class below CLASSES_MAX: within WIDTH * HISTORY_SIZE, the length of the vector.
            met[g] = unsafe { _mm512_i32gather_epi32::<4>(place, histories.cast()) };
        }
        let mut actions = [zero; G];
        for g in 0..G {
            // min(ilog2(met / 16 + 1), 3)
            let sixteens = _mm512_add_epi32(_mm512_srli_epi32::<4>(met[g]), one);
            let fill = _mm512_sub_epi32(_mm512_set1_epi32(31), _mm512_lzcnt_epi32(sixteens));
            let fill = _mm512_min_epu32(fill, _mm512_set1_epi32(3));
            let row = _mm512_add_epi32(_mm512_slli_epi32::<2>(classes[g]), fill);
            let row = _mm512_min_epu32(row, action_row_max);
            actions[g] = symbol(tables.actions, &mut states[g], row);
            refill(&groups[g].words, &mut states[g], &mut used[g], word_lanes);
        }
        let mut starts = [zero; G];
        let mut counts = [zero; G];
        for g in 0..G {
            let action = _mm512_and_si512(actions[g], _mm512_set1_epi32(ACTIONS as i32 - 1));
            let place = _mm512_or_si512(_mm512_slli_epi32::<6>(classes[g]), action);
            let (low, high) = halves(place);
            let buckets = tables.buckets.as_ptr();
            // SAFETY: class below CLASSES_MAX and action below ACTIONS: the index is below the length of the array.
            let low = unsafe { _mm512_i32gather_epi64::<8>(low, buckets.cast()) };
            // SAFETY: as above.
            let high = unsafe { _mm512_i32gather_epi64::<8>(high, buckets.cast()) };
            starts[g] = _mm512_permutex2var_epi32(low, evens, high);
            counts[g] = _mm512_permutex2var_epi32(low, odds, high);
        }
        let mut ranks = [zero; G];
        for g in 0..G {
            let value = below(&mut states[g], counts[g]);
            refill(&groups[g].words, &mut states[g], &mut used[g], word_lanes);
            let value = _mm512_add_epi32(value, starts[g]);
            let is_repeat = _mm512_cmplt_epu32_mask(actions[g], _mm512_set1_epi32(REPEATS as i32));
            let ring_mask = _mm512_set1_epi32(HISTORY as i32 - 1);
            let class_ring = _mm512_slli_epi32::<{ HISTORY.ilog2() }>(classes[g]);
            let ring = _mm512_add_epi32(history_lanes, class_ring);
            let behind = _mm512_sub_epi32(_mm512_sub_epi32(met[g], one), value);
            let place = _mm512_add_epi32(ring, _mm512_and_si512(behind, ring_mask));
            let histories = &mut groups[g].histories[..];
            // SAFETY: lane below WIDTH, class below CLASSES_MAX, place in the ring below HISTORY: within the vector.
            let rank = unsafe {
                _mm512_mask_i32gather_epi32::<4>(value, is_repeat, place, histories.as_ptr().cast())
            };
            ranks[g] = rank;
            let place = _mm512_add_epi32(ring, _mm512_and_si512(met[g], ring_mask));
            // SAFETY: as above. Lanes have histories of their own, so no two places are the same.
            unsafe {
                _mm512_i32scatter_epi32::<4>(histories.as_mut_ptr().cast(), place, rank);
            }
            let place = _mm512_add_epi32(history_of_class[g], _mm512_set1_epi32(MET as i32));
            // SAFETY: where it was read from.
            unsafe {
                _mm512_i32scatter_epi32::<4>(
                    histories.as_mut_ptr().cast(),
                    place,
                    _mm512_add_epi32(met[g], one),
                );
            }
        }
        for g in 0..G {
            let place = _mm512_min_epu32(ranks[g], rank_max);
            let table = tables.symbols.as_ptr();
            // SAFETY: a number of the table. It is final.
            let symbol = unsafe { _mm512_i32gather_epi32::<4>(place, table.cast()) };
            store(&mut groups[g].symbols[step], symbol);
            let table = tables.traces.as_ptr();
            // SAFETY: four bytes at a number of the table that is not the last one. Writing to it meanwhile
            // takes exclusive access to the model.
            let trace = unsafe { _mm512_i32gather_epi32::<2>(place, table.cast()) };
            let trace = _mm512_and_si512(trace, _mm512_set1_epi32(0xffff));
            if BODIES {
                store(&mut groups[g].traces[step], trace);
            }
            let right = _mm512_srli_epi32::<TRACE_GROUP_BITS>(last[g]);
            let right = _mm512_and_si512(right, _mm512_set1_epi32(2 * CLASSES_MAX as i32 - 1));
            let table = tables.groups.as_ptr();
            // SAFETY: the index is below 2 * CLASSES_MAX, the length of the array.
            before[g] = unsafe { _mm512_i32gather_epi32::<4>(right, table.cast()) };
            last[g] = trace;
        }
    }
    for g in 0..G {
        store64(&mut groups[g].states, 0, states[g].0);
        store64(&mut groups[g].states, 8, states[g].1);
        store(&mut groups[g].used, used[g]);
        store(&mut groups[g].last, last[g]);
        store(&mut groups[g].group_before, before[g]);
    }
}

/// The next symbols under rows of a table.
#[inline]
#[target_feature(enable = "avx512f,avx512cd,avx512dq")]
fn symbol<const SYMBOLS: usize>(
    table: LookupTable<'_, SYMBOLS>,
    states: &mut States,
    row: __m512i,
) -> __m512i {
    let slot_mask = _mm512_set1_epi32((1 << PROBABILITY_BITS) - 1);
    let slot = _mm512_and_si512(low_words(*states), slot_mask);
    let row_size = LookupTable::<SYMBOLS>::ROW_SIZE as i32;
    let row = _mm512_mullo_epi32(row, _mm512_set1_epi32(row_size));
    let window = _mm512_srli_epi32::<{ WINDOW.ilog2() }>(slot);
    let place = _mm512_add_epi32(row, window);
    // SAFETY: four bytes at a guess of a row: entries come after the guesses.
    let guess = unsafe { _mm512_i32gather_epi32::<1>(place, table.as_ptr().cast()) };
    let entries = _mm512_add_epi32(row, _mm512_set1_epi32(WINDOWS as i32));
    let mut guess = _mm512_and_si512(guess, _mm512_set1_epi32(SYMBOLS as i32 - 1));
    let place = _mm512_add_epi32(entries, _mm512_slli_epi32::<2>(guess));
    // SAFETY: the entry is below SYMBOLS, the number of entries of a row.
    let mut entry = unsafe { _mm512_i32gather_epi32::<1>(place, table.as_ptr().cast()) };
    let mut end = _mm512_and_si512(_mm512_srli_epi32::<12>(entry), slot_mask);
    loop {
        let is_after = _mm512_cmpgt_epu32_mask(slot, end);
        if is_after == 0 {
            break;
        }
        guess = _mm512_add_epi32(guess, _mm512_set1_epi32(1));
        guess = _mm512_and_si512(guess, _mm512_set1_epi32(SYMBOLS as i32 - 1));
        let place = _mm512_add_epi32(entries, _mm512_slli_epi32::<2>(guess));
        // SAFETY: as above.
        entry = unsafe {
            _mm512_mask_i32gather_epi32::<1>(entry, is_after, place, table.as_ptr().cast())
        };
        end = _mm512_and_si512(_mm512_srli_epi32::<12>(entry), slot_mask);
    }
    let start = _mm512_and_si512(entry, slot_mask);
    let frequency = _mm512_add_epi32(_mm512_sub_epi32(end, start), _mm512_set1_epi32(1));
    let (low_frequency, high_frequency) = wide_halves(frequency);
    let (low_rest, high_rest) = wide_halves(_mm512_sub_epi32(slot, start));
    let low = _mm512_srli_epi64::<PROBABILITY_BITS>(states.0);
    let high = _mm512_srli_epi64::<PROBABILITY_BITS>(states.1);
    states.0 = _mm512_add_epi64(_mm512_mullo_epi64(low, low_frequency), low_rest);
    states.1 = _mm512_add_epi64(_mm512_mullo_epi64(high, high_frequency), high_rest);
    _mm512_srli_epi32::<24>(entry)
}

/// Values below counts, which are not 0.
#[inline]
#[target_feature(enable = "avx512f,avx512cd,avx512dq")]
fn below(states: &mut States, counts: __m512i) -> __m512i {
    let (zero, one) = (_mm512_setzero_si512(), _mm512_set1_epi32(1));
    let bits = _mm512_sub_epi32(_mm512_set1_epi32(31), _mm512_lzcnt_epi32(counts));
    let short = _mm512_sub_epi32(_mm512_sllv_epi32(_mm512_set1_epi32(2), bits), counts);
    let low = low_words(*states);
    let above = _mm512_sllv_epi32(_mm512_set1_epi32(-1), bits);
    let value = _mm512_andnot_si512(above, low);
    let next = _mm512_and_si512(_mm512_srlv_epi32(low, bits), one);
    let is_long = _mm512_cmpge_epu32_mask(value, short);
    let more = _mm512_add_epi32(_mm512_sub_epi32(value, short), next);
    let taken = _mm512_mask_add_epi32(bits, is_long, bits, one);
    let (low_taken, high_taken) = wide_halves(taken);
    states.0 = _mm512_srlv_epi64(states.0, low_taken);
    states.1 = _mm512_srlv_epi64(states.1, high_taken);
    _mm512_add_epi32(value, _mm512_mask_mov_epi32(zero, is_long, more))
}

/// Takes a word where a state has become small.
#[inline]
#[target_feature(enable = "avx512f,avx512cd,avx512dq")]
fn refill(
    words: &[[u32; WORDS]; WIDTH],
    states: &mut States,
    used: &mut __m512i,
    word_lanes: __m512i,
) {
    let least = _mm512_set1_epi64(STATE_MIN as i64);
    let low_short = _mm512_cmplt_epu64_mask(states.0, least);
    let high_short = _mm512_cmplt_epu64_mask(states.1, least);
    let is_short = u16::from(low_short) | u16::from(high_short) << 8;
    let place = _mm512_and_si512(*used, _mm512_set1_epi32(WORDS as i32 - 1));
    let place = _mm512_add_epi32(word_lanes, place);
    let (zero, words) = (_mm512_setzero_si512(), words.as_ptr());
    // SAFETY: lane below WIDTH, place below WORDS.
    let word = unsafe { _mm512_mask_i32gather_epi32::<4>(zero, is_short, place, words.cast()) };
    let (low_word, high_word) = wide_halves(word);
    let low = _mm512_or_si512(_mm512_slli_epi64::<32>(states.0), low_word);
    let high = _mm512_or_si512(_mm512_slli_epi64::<32>(states.1), high_word);
    states.0 = _mm512_mask_mov_epi64(states.0, low_short, low);
    states.1 = _mm512_mask_mov_epi64(states.1, high_short, high);
    *used = _mm512_mask_add_epi32(*used, is_short, *used, _mm512_set1_epi32(1));
}

/// The low 32 bits of all states.
#[inline]
#[target_feature(enable = "avx512f,avx512cd,avx512dq")]
fn low_words(states: States) -> __m512i {
    let evens = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    _mm512_permutex2var_epi32(states.0, evens, states.1)
}

#[inline]
#[target_feature(enable = "avx512f,avx512cd,avx512dq")]
fn halves(numbers: __m512i) -> (__m256i, __m256i) {
    (
        _mm512_castsi512_si256(numbers),
        _mm512_extracti64x4_epi64::<1>(numbers),
    )
}

/// As 64 bits each.
#[inline]
#[target_feature(enable = "avx512f,avx512cd,avx512dq")]
fn wide_halves(numbers: __m512i) -> (__m512i, __m512i) {
    let (low, high) = halves(numbers);
    (_mm512_cvtepu32_epi64(low), _mm512_cvtepu32_epi64(high))
}

#[inline]
#[target_feature(enable = "avx512f,avx512cd,avx512dq")]
fn load(numbers: &[u32; WIDTH]) -> __m512i {
    // SAFETY: the array has the 64 bytes of a vector.
    unsafe { _mm512_loadu_si512(numbers.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512cd,avx512dq")]
fn store(numbers: &mut [u32; WIDTH], vector: __m512i) {
    // SAFETY: the array has the 64 bytes of a vector.
    unsafe { _mm512_storeu_si512(numbers.as_mut_ptr().cast(), vector) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512cd,avx512dq")]
fn load64(numbers: &[u64; WIDTH], from: usize) -> __m512i {
    // SAFETY: the slice has eight numbers, the 64 bytes of a vector.
    unsafe { _mm512_loadu_si512(numbers[from..from + 8].as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512cd,avx512dq")]
fn store64(numbers: &mut [u64; WIDTH], from: usize, vector: __m512i) {
    // SAFETY: the slice has eight numbers, the 64 bytes of a vector.
    unsafe { _mm512_storeu_si512(numbers[from..from + 8].as_mut_ptr().cast(), vector) }
}
