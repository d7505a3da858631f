//! Equal tokens get equal numbers on a GPU, from text that the host has cut into tokens.
//!
//! The invariant: two tokens have the same number if and only if they have the same bytes and are of the same kind. Where
//! different tokens have the same hash, another seed is tried. The numbers follow the slots of a hash table; the host sorts
//! the tokens and gives them their final numbers.

use crate::gpu::device::{Buffer, Gpu, arguments};
use crate::gpu::driver::{Source, THREADS};
use crate::gpu::error::GpuError;
use crate::gpu::primitives;

/// Slots of the table that are examined for a token, at most.
const PROBES_MAX: u64 = 64;

/// Tokens per slot of the first table. Text repeats most tokens, so few slots are used.
const TOKENS_A_SLOT: usize = 4;
const SLOTS_MIN: usize = 1 << 10;

/// Slots per token of the largest table.
const SLOTS_A_TOKEN_MAX: usize = 8;

/// Hashes begin with one of these: with the next one where different tokens have the same hash.
const SEEDS: [u64; 3] = [
    0x9e37_79b9_7f4a_7c15,
    0xbf58_476d_1ce4_e5b9,
    0x94d0_49bb_1331_11eb,
];

/// Faults of a pass: no slot was free near a hash; different tokens have one hash.
const IS_FULL: u32 = 1;
const IS_ALIKE: u32 = 2;

pub(crate) static SOURCE: Source = Source {
    name: "intern.cu",
    text: include_str!("intern.cu"),
    headers: &[],
    constants: &[
        ("INTERN_THREADS", THREADS as u64),
        ("INTERN_PROBES", PROBES_MAX),
        ("INTERN_IS_FULL", IS_FULL as u64),
        ("INTERN_IS_ALIKE", IS_ALIKE as u64),
    ],
};

/// Bytes of text that a device takes at most.
pub const TEXT_BYTES_MAX: usize = 1 << 30;

/// How a token is cut: its size, and whether it is a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TokenCut(u16);

impl TokenCut {
    /// None if the token is larger than a cut can say.
    pub fn new(size: usize, is_word: bool) -> Option<TokenCut> {
        let size = u16::try_from(size)
            .ok()
            .filter(|&size| size <= u16::MAX / 2)?;
        Some(TokenCut(size << 1 | u16::from(is_word)))
    }

    /// Twice the size, and 1 for a word.
    pub fn bits(self) -> u16 {
        self.0
    }

    /// Bytes of the token.
    pub fn size(self) -> usize {
        usize::from(self.0 >> 1)
    }

    /// Whether it is a word.
    pub fn is_word(self) -> bool {
        self.0 & 1 != 0
    }
}

/// A piece of a text with all of its tokens.
#[derive(Clone, Copy, Debug)]
pub struct CutText<'a> {
    /// The text.
    pub text: &'a [u8],
    /// Its tokens, which are the text one after the other: [`TokenCut::bits`] of each.
    pub cuts: &'a [u16],
}

/// The tokens of a text on a device, by number.
pub struct InternedTokens {
    ids: Buffer<u32>,
    distinct: Vec<(u32, TokenCut)>,
}

impl InternedTokens {
    /// Numbers the tokens of a text, which is given in pieces.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    ///
    /// # Panics
    ///
    /// If the tokens are not as long as the text.
    pub fn new(gpu: &Gpu, pieces: &[CutText<'_>]) -> Result<InternedTokens, GpuError> {
        DeviceText::new(gpu, pieces)?.interned(gpu)
    }

    /// For each number where a token with it starts, and how that is cut.
    pub fn distinct(&self) -> &[(u32, TokenCut)] {
        &self.distinct
    }

    /// What `of` has for the number of each token, in order.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    ///
    /// # Panics
    ///
    /// If that is not one for each number.
    pub fn renumbered(self, gpu: &Gpu, of: &[u32]) -> Result<Buffer<u32>, GpuError> {
        assert!(of.len() == self.distinct.len(), "not one for each number");
        let (ids, of) = (self.ids, gpu.upload(of)?);
        let tokens = ids.len();
        let kernel = SOURCE.kernel("renumber_tokens_kernel").moving(tokens * 8);
        gpu.launch_looping(kernel, tokens, arguments! { ids, tokens, of })?;
        Ok(ids)
    }
}

/// A text that is cut, on a device.
struct DeviceText {
    text: Buffer<u8>,
    cuts: Buffer<u16>,
    /// `[tokens + 1]`.
    starts: Buffer<u32>,
}

impl DeviceText {
    fn new(gpu: &Gpu, pieces: &[CutText<'_>]) -> Result<DeviceText, GpuError> {
        let bytes = pieces.iter().map(|piece| piece.text.len()).sum::<usize>();
        check_size(bytes)?;
        let texts: Vec<&[u8]> = pieces.iter().map(|piece| piece.text).collect();
        let text = gpu.upload_pieces(&texts)?;
        let cuts: Vec<&[u16]> = pieces.iter().map(|piece| piece.cuts).collect();
        let cuts = gpu.upload_pieces(&cuts)?;
        let tokens = cuts.len();
        let sizes = gpu.allocate::<u32>(tokens)?;
        let kernel = SOURCE.kernel("token_sizes_kernel").moving(tokens * 6);
        gpu.launch_looping(kernel, tokens, arguments! { cuts, tokens, sizes })?;
        let starts = primitives::scan::<u32, u32>(gpu, &sizes)?;
        let end = gpu.item(&starts, tokens)? as usize;
        assert!(end == bytes, "tokens are not the text");
        Ok(DeviceText { text, cuts, starts })
    }

    fn interned(&self, gpu: &Gpu) -> Result<InternedTokens, GpuError> {
        let tokens = self.cuts.len();
        let ids = gpu.allocate::<u32>(tokens)?;
        for seed in SEEDS {
            let mut slots = (tokens / TOKENS_A_SLOT).next_power_of_two().max(SLOTS_MIN);
            // No slot is free in a larger table only if many hashes lie close together.
            while slots / SLOTS_A_TOKEN_MAX <= tokens.max(SLOTS_MIN) {
                let firsts = gpu.filled::<u32>(slots, u8::MAX)?;
                match self.find_slots(gpu, seed, &firsts, &ids)? {
                    IS_FULL => slots *= 4,
                    IS_ALIKE => break,
                    _ => return self.numbered(gpu, &firsts, ids),
                }
            }
        }
        Err(GpuError::Call {
            device: gpu.facts().name.clone(),
            call: "numbering tokens".to_owned(),
            reason: "hashes of tokens are the same or too close, whatever the seed".to_owned(),
        })
    }

    /// Sets what each slot of a table has as its first token, and the slot of each token; says what went wrong, 0 if nothing did.
    fn find_slots(
        &self,
        gpu: &Gpu,
        seed: u64,
        firsts: &Buffer<u32>,
        slots: &Buffer<u32>,
    ) -> Result<u32, GpuError> {
        let DeviceText { text, cuts, starts } = self;
        let tokens = cuts.len();
        let hashes = gpu.zeroed::<u64>(firsts.len())?;
        let state = gpu.zeroed::<u32>(1)?;
        // Tokens are not empty, and so fewer than 2^31.
        let mask = (firsts.len() - 1) as u32;
        let arguments = arguments! {
            text,
            cuts,
            starts,
            tokens,
            seed,
            slot_mask: mask,
            hashes,
            firsts,
            slots,
            state,
        };
        let kernel = SOURCE.kernel("find_slots_kernel").moving(self.bytes());
        gpu.launch_looping(kernel, tokens, arguments)?;
        match gpu.item(&state, 0)? {
            0 => self.compare(gpu, firsts, slots, &state),
            fault => Ok(fault),
        }
    }

    /// Compares each token with the first one of its slot; says what went wrong, 0 if all are the same.
    fn compare(
        &self,
        gpu: &Gpu,
        firsts: &Buffer<u32>,
        slots: &Buffer<u32>,
        state: &Buffer<u32>,
    ) -> Result<u32, GpuError> {
        let DeviceText { text, cuts, starts } = self;
        let arguments = arguments! { text, cuts, starts, tokens: cuts.len(), firsts, slots, state };
        let kernel = SOURCE.kernel("compare_tokens_kernel").moving(self.bytes());
        gpu.launch_looping(kernel, cuts.len(), arguments)?;
        gpu.item(state, 0)
    }

    /// What a pass over the text moves.
    fn bytes(&self) -> usize {
        self.text.len() + self.cuts.len() * 10
    }

    /// Numbers the slots that are used, and tokens by their slots, which `ids` holds.
    fn numbered(
        &self,
        gpu: &Gpu,
        firsts: &Buffer<u32>,
        ids: Buffer<u32>,
    ) -> Result<InternedTokens, GpuError> {
        let (slots, tokens) = (firsts.len(), ids.len());
        let flags = gpu.allocate::<u32>(slots)?;
        let kernel = SOURCE.kernel("slot_flags_kernel").moving(slots * 8);
        gpu.launch_looping(kernel, slots, arguments! { firsts, slots, flags })?;
        let numbers = primitives::scan::<u32, u32>(gpu, &flags)?;
        drop(flags);
        let used = gpu.item(&numbers, slots)? as usize;
        let first_starts = gpu.allocate::<u32>(used)?;
        let first_cuts = gpu.allocate::<u32>(used)?;
        let arguments = arguments! {
            firsts,
            numbers,
            slots,
            cuts: &self.cuts,
            starts: &self.starts,
            first_starts,
            first_cuts,
        };
        let kernel = SOURCE.kernel("first_tokens_kernel").moving(slots * 8);
        gpu.launch_looping(kernel, slots, arguments)?;
        let kernel = SOURCE.kernel("renumber_tokens_kernel").moving(tokens * 8);
        gpu.launch_looping(kernel, tokens, arguments! { ids, tokens, of: &numbers })?;
        let starts = gpu.download(&first_starts)?;
        let cuts = gpu.download(&first_cuts)?.into_iter();
        // They were u16.
        let cuts = cuts.map(|cut| TokenCut(cut as u16));
        Ok(InternedTokens {
            ids,
            distinct: starts.into_iter().zip(cuts).collect(),
        })
    }
}

fn check_size(bytes: usize) -> Result<(), GpuError> {
    if bytes <= TEXT_BYTES_MAX {
        Ok(())
    } else {
        Err(GpuError::Limit {
            what: "bytes of text",
            items: bytes as u64,
            limit: TEXT_BYTES_MAX as u64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::test_devices::{Numbers, on_devices};
    use std::collections::HashMap;

    /// Tokens of few letters, many of them equal, some long.
    fn random_tokens(seed: u64, tokens: usize, letters: u32) -> Vec<(Vec<u8>, bool)> {
        let mut numbers = Numbers::new(seed);
        let mut token = || {
            let choice = numbers.below(3, 1_000);
            let size = match choice[0] {
                0 => 1 + choice[1] as usize * 30,
                _ => 1 + choice[1] as usize % 9,
            };
            let bytes = numbers.below(size, letters);
            let bytes = bytes.into_iter().map(|letter| b'a' + letter as u8);
            (bytes.collect(), choice[2].is_multiple_of(3))
        };
        (0..tokens).map(|_| token()).collect()
    }

    /// Checks the numbers of tokens that are given piece by piece.
    fn check(gpu: &Gpu, tokens: &[(Vec<u8>, bool)], pieces: usize) -> Result<(), GpuError> {
        let pieces: Vec<(Vec<u8>, Vec<u16>)> = tokens
            .chunks(tokens.len().div_ceil(pieces).max(1))
            .map(|tokens| {
                let text: Vec<Vec<u8>> = tokens.iter().map(|(token, _)| token.clone()).collect();
                let cut = |(token, is_word): &(Vec<u8>, bool)| {
                    TokenCut::new(token.len(), *is_word).map_or(0, TokenCut::bits)
                };
                (text.concat(), tokens.iter().map(cut).collect())
            })
            .collect();
        let cut_texts: Vec<CutText<'_>> = pieces
            .iter()
            .map(|(text, cuts)| CutText { text, cuts })
            .collect();
        let interned = InternedTokens::new(gpu, &cut_texts)?;
        let text: Vec<u8> = pieces.iter().flat_map(|(text, _)| text.clone()).collect();
        let distinct: Vec<(&[u8], bool)> = (interned.distinct().iter())
            .map(|&(start, cut)| (&text[start as usize..][..cut.size()], cut.is_word()))
            .collect();
        let numbers: HashMap<(&[u8], bool), u32> = distinct.iter().copied().zip(0..).collect();
        assert_eq!(numbers.len(), distinct.len());
        let doubled: Vec<u32> = (0..distinct.len() as u32)
            .map(|number| number * 2)
            .collect();
        let ids = interned.renumbered(gpu, &doubled)?;
        let expected = tokens
            .iter()
            .map(|(token, is_word)| numbers[&(&token[..], *is_word)] * 2);
        assert!(gpu.download(&ids)?.into_iter().eq(expected));
        Ok(())
    }

    #[test]
    fn equal_tokens_get_equal_numbers() {
        on_devices(|gpu| {
            check(gpu, &[], 1)?;
            check(gpu, &[(b"a".to_vec(), true)], 1)?;
            check(gpu, &[(b"a".to_vec(), true), (b"a".to_vec(), false)], 2)?;
            for (seed, tokens, letters, pieces) in [
                (1, 3_000, 2, 1),
                (2, 20_000, 3, 7),
                (3, 5_000, 26, 5_000),
                // Hardly a token repeats, so the table grows.
                (4, 30_000, 26, 3),
            ] {
                check(gpu, &random_tokens(seed, tokens, letters), pieces)?;
            }
            Ok(())
        });
    }

    #[test]
    fn tokens_that_share_a_slot_are_distinguished() {
        on_devices(|gpu| {
            for (text, sizes, expected) in [
                ("abab", [2, 2], 0),
                ("abac", [2, 2], IS_ALIKE),
                ("aaa", [1, 2], IS_ALIKE),
            ] {
                let cuts = sizes.map(|size| TokenCut::new(size, true).map_or(0, TokenCut::bits));
                let piece = CutText {
                    text: text.as_bytes(),
                    cuts: &cuts,
                };
                let cut = DeviceText::new(gpu, &[piece])?;
                let (firsts, slots) = (gpu.upload(&[0u32])?, gpu.upload(&[0u32, 0])?);
                let found = cut.compare(gpu, &firsts, &slots, &gpu.zeroed(1)?)?;
                assert_eq!(found, expected, "{text}");
            }
            Ok(())
        });
    }

    #[test]
    fn cuts_say_sizes_up_to_half_of_what_fits() {
        for (size, is_word) in [(1, false), (64, true), (32_767, true)] {
            let cut = TokenCut::new(size, is_word);
            assert_eq!(
                cut.map(|cut| (cut.size(), cut.is_word())),
                Some((size, is_word))
            );
        }
        assert_eq!(TokenCut::new(32_768, true), None);
    }

    #[test]
    fn more_text_than_positions_say_is_refused() {
        assert!(matches!(check_size(TEXT_BYTES_MAX), Ok(())));
        let error = check_size(TEXT_BYTES_MAX + 1);
        assert!(matches!(error, Err(GpuError::Limit { .. })));
    }
}
