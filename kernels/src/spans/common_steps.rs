//! `CommonSteps`: for each symbol a code of 32 bits, which says what it does from the usual states of a machine.
//!
//! Invariant: what a code says holds from each usual state. How codes are found is in `common`.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::spans::machine::{DEAD, Total};

/// The code of a symbol that depends on the state before it.
const VARIES: u32 = 1 << 31;

/// A bit of a code: the state behind the symbol is not usual.
const IS_UNUSUAL: u32 = 1 << 30;

/// Above the bits of the state.
const EVENT_SHIFT: u32 = 16;
const EVENTS: u32 = (1 << 14) - 1;

/// The states that codes have; the last one is [`DEAD`].
const STATE: u32 = (1 << EVENT_SHIFT) - 1;

/// Symbols that are looked up together.
const BLOCK: usize = 16;

/// What symbols do from usual states.
#[derive(Debug)]
pub(super) struct CommonSteps {
    pub(super) usual: Vec<u32>,
    /// True at all times; [`VARIES`] until found.
    codes: Box<[AtomicU32]>,
}

/// How far a sequence of symbols was read.
pub(super) struct Skipped {
    pub(super) symbols: usize,
    pub(super) state: u32,
    pub(super) events: u64,
}

impl CommonSteps {
    /// No codes yet for a grammar of `symbols` symbols; there is a usual state.
    pub(super) fn new(usual: Vec<u32>, symbols: usize) -> CommonSteps {
        let codes = (0..symbols).map(|_| AtomicU32::new(VARIES));
        CommonSteps {
            codes: codes.collect(),
            usual,
        }
    }

    /// The memory for a grammar of `symbols` symbols.
    pub(super) fn bytes_of(symbols: usize) -> usize {
        symbols * size_of::<AtomicU32>()
    }

    #[inline]
    fn get(&self, symbol: u32) -> u32 {
        self.codes[symbol as usize].load(Ordering::Relaxed)
    }

    /// Sets what a symbol does from all usual states; none if that depends on the state.
    pub(super) fn set(&self, symbol: u32, step: Option<Total>) {
        let code = step.map_or(VARIES, |step| self.code(step));
        self.codes[symbol as usize].store(code, Ordering::Relaxed);
    }

    #[inline]
    fn is_usual(&self, state: u32) -> bool {
        self.usual.contains(&state)
    }

    /// The code of a step from a usual state; [`VARIES`] if it does not fit.
    fn code(&self, step: Total) -> u32 {
        if step.events > u64::from(EVENTS) || step.state != DEAD && step.state >= STATE {
            return VARIES;
        }
        let unusual = if self.is_usual(step.state) {
            0
        } else {
            IS_UNUSUAL
        };
        // Events fit, and DEAD becomes STATE.
        unusual | (step.events as u32) << EVENT_SHIFT | step.state.min(STATE)
    }

    fn total_of(code: u32) -> Total {
        let state = code & STATE;
        Total {
            state: if state == STATE { DEAD } else { state },
            events: u64::from(code >> EVENT_SHIFT & EVENTS),
        }
    }

    /// What a symbol does from a state, if that is known.
    #[inline]
    pub(super) fn total(&self, state: u32, symbol: u32) -> Option<Total> {
        let code = self.get(symbol);
        (code & VARIES == 0 && self.is_usual(state)).then(|| CommonSteps::total_of(code))
    }

    /// Reads symbols from a state on as far as codes say what they do; up to the first with events unless these are counted.
    #[inline]
    pub(super) fn skip<const COUNTS: bool>(&self, symbols: &[u32], state: u32) -> Skipped {
        let mut skipped = Skipped {
            symbols: 0,
            state,
            events: 0,
        };
        if !self.is_usual(state) {
            return skipped;
        }
        let stops = VARIES | IS_UNUSUAL | if COUNTS { 0 } else { EVENTS << EVENT_SHIFT };
        let mut last = None;
        let mut rest = symbols;
        while let Some((block, behind)) = rest.split_first_chunk::<BLOCK>() {
            let codes = block.map(|symbol| self.get(symbol));
            if codes.iter().fold(0, |all, code| all | code) & stops != 0 {
                break;
            }
            if COUNTS {
                let events = codes.iter().map(|code| code >> EVENT_SHIFT);
                skipped.events += u64::from(events.sum::<u32>());
            }
            last = Some(codes[BLOCK - 1]);
            rest = behind;
        }
        // Up to the symbol that ends it, which may lead to an unusual state.
        while let Some((&symbol, behind)) = rest.split_first() {
            let code = self.get(symbol);
            if code & stops & !IS_UNUSUAL != 0 {
                break;
            }
            skipped.events += u64::from(code >> EVENT_SHIFT & EVENTS);
            last = Some(code);
            rest = behind;
            if code & IS_UNUSUAL != 0 {
                break;
            }
        }
        skipped.symbols = symbols.len() - rest.len();
        if let Some(code) = last {
            skipped.state = CommonSteps::total_of(code).state;
        }
        skipped
    }
}
