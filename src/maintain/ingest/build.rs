//! Drafts to grammars, on devices where they are cheaper, else on the CPU, with the same result.

use crate::drafts::{Draft, Limits, numbered, sorted_tokens};
use crate::maintain::device_coder::ResidentGrammar;
use crate::runtime::device::{Device, Devices};
use crate::segment::cost::construction_costs;
use crate::{Error, Result};
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use zipfdb_kernels::gpu::{CutText, Gpu, InternedTokens, TEXT_BYTES_MAX};
use zipfdb_kernels::{Constructed, Parameters, Stage, construct_observed, gpu, token_buffer};
use zipfdb_storage::{CorpusSettings, Dictionary, Grammar};

/// Bytes of text for each token, about.
const BYTES_A_TOKEN: u64 = 5;

/// The stages of a build, in order.
#[derive(Clone, Copy)]
pub(super) enum BuildStage {
    Dictionary,
    Rounds,
    Prune,
}

/// Whether devices would number the tokens of `bytes` of text, by an estimate of their number.
pub(super) fn is_for_devices(bytes: u64, limits: Limits, devices: Option<&Devices>) -> bool {
    let bytes = bytes.min(limits.bytes);
    let tokens = usize::try_from(bytes / BYTES_A_TOKEN).unwrap_or(usize::MAX);
    let costs = construction_costs(tokens, rayon::current_num_threads());
    limits.bytes <= TEXT_BYTES_MAX as u64
        && devices.is_some_and(|devices| devices.will_construct(tokens, costs))
}

/// The device that builds a grammar of `tokens` tokens; none if the CPU is cheaper, or no device has the memory.
fn device_for(tokens: usize, devices: Option<&Devices>) -> Option<(&Devices, &Arc<Device>)> {
    let devices = devices?;
    let threads = rayon::current_num_threads();
    let device = devices.for_construction(tokens, construction_costs(tokens, threads))?;
    Some((devices, device))
}

/// The inputs of a grammar, except its tokens.
pub(super) struct GrammarMaking<'a> {
    pub settings: &'a CorpusSettings,
    /// `[files + 1]`: where the tokens of each start.
    pub file_offsets: &'a [u32],
    /// None for the CPU alone.
    pub devices: Option<&'a Devices>,
    /// Ends the work when it is set.
    pub stop: &'a AtomicBool,
}

impl GrammarMaking<'_> {
    /// Makes the dictionary and the grammar of a draft. `on_stage` is called as each stage begins.
    ///
    /// # Errors
    /// [`Error::Gpu`], [`Error::NoMemory`], [`Error::Interrupted`].
    pub(super) fn make(
        &self,
        mut draft: Draft,
        on_stage: &mut dyn FnMut(BuildStage),
    ) -> Result<(Dictionary, Grammar, Option<ResidentGrammar>)> {
        let made = match draft.cut_texts() {
            Some(texts) => self.of_texts(&texts, on_stage)?,
            None => None,
        };
        let (dictionary, constructed, resident) = match made {
            Some((dictionary, constructed, resident)) => (dictionary, constructed, Some(resident)),
            None => {
                on_stage(BuildStage::Dictionary);
                let tokenizer = self.settings.tokenizer;
                draft.intern(tokenizer);
                let buffer = |count| token_buffer(count, self.file_offsets.len() - 1);
                let (dictionary, tokens) = numbered(tokenizer, draft, buffer)?;
                let made = self.of_tokens(tokens, dictionary.len(), on_stage)?;
                (dictionary, made.0, made.1)
            }
        };
        let grammar = Grammar {
            terminal_count: dictionary.len(),
            rule_offsets: constructed.rule_offsets,
            symbols: constructed.symbols,
            level_offsets: constructed.level_offsets,
            root_offsets: constructed.root_offsets,
            root: constructed.root,
        };
        Ok((dictionary, grammar, resident))
    }

    fn parameters(&self) -> Parameters {
        Parameters {
            alpha_numerator: self.settings.alpha_numerator,
            alpha_denominator: self.settings.alpha_denominator,
        }
    }

    /// Numbers the tokens of texts and builds their grammar on a device; none if the CPU does it.
    fn of_texts(
        &self,
        texts: &[CutText<'_>],
        on_stage: &mut dyn FnMut(BuildStage),
    ) -> Result<Option<(Dictionary, Constructed, ResidentGrammar)>> {
        let tokens = texts.iter().map(|text| text.cuts.len()).sum();
        let on_stage = RefCell::new(on_stage);
        let made = self.on_device(tokens, &|gpu| {
            on_stage.borrow_mut()(BuildStage::Dictionary);
            let interned = InternedTokens::new(gpu, texts)?;
            let (dictionary, ids) =
                sorted_tokens(self.settings.tokenizer, texts, interned.distinct());
            let tokens = interned.renumbered(gpu, &ids)?;
            on_stage.borrow_mut()(BuildStage::Rounds);
            let built = gpu::construct_uploaded(
                gpu,
                &tokens,
                self.file_offsets,
                dictionary.len(),
                &self.parameters(),
                &mut || on_stage.borrow_mut()(BuildStage::Prune),
                self.stop,
            )?;
            Ok((dictionary, built.download(gpu)?, built.grammar))
        });
        let made = made.map(|made| {
            made.map(|((dictionary, constructed, grammar), device)| {
                let resident = ResidentGrammar { device, grammar };
                (dictionary, constructed, resident)
            })
        });
        match made {
            // The host can number the tokens too, for example if hashes of different tokens are equal. A failure of the device
            // shows again when it builds their grammar.
            Err(Error::Gpu(error)) => {
                tracing::debug!("tokens are numbered by the CPU: {error}");
                Ok(None)
            }
            made => made,
        }
    }

    /// Builds the grammar of numbered tokens, on a device or on the CPU, with the same result.
    fn of_tokens(
        &self,
        tokens: Vec<u32>,
        terminal_count: u32,
        on_stage: &mut dyn FnMut(BuildStage),
    ) -> Result<(Constructed, Option<ResidentGrammar>)> {
        let (files, parameters, stop) = (self.file_offsets, &self.parameters(), self.stop);
        let on_stage = RefCell::new(on_stage);
        let report = |stage| {
            on_stage.borrow_mut()(match stage {
                Stage::Rounds => BuildStage::Rounds,
                Stage::Prune => BuildStage::Prune,
            });
        };
        let built = self.on_device(tokens.len(), &|gpu| {
            let built = gpu::construct(
                gpu,
                &tokens,
                files,
                terminal_count,
                parameters,
                &mut &report,
                stop,
            )?;
            Ok((built.download(gpu)?, built.grammar))
        })?;
        if let Some(((constructed, grammar), device)) = built {
            return Ok((constructed, Some(ResidentGrammar { device, grammar })));
        }
        let constructed = construct_observed(
            tokens,
            files,
            terminal_count,
            parameters,
            &mut &report,
            &mut |_| {},
            stop,
        )?;
        Ok((constructed, None))
    }

    /// Runs work on the device that builds a grammar of `tokens` tokens, and returns the device too. None if the CPU does the
    /// work: no device is wanted or has the memory, or a device has failed and the CPU may take its place.
    fn on_device<T>(
        &self,
        tokens: usize,
        work: &dyn Fn(&Gpu) -> Result<T>,
    ) -> Result<Option<(T, Arc<Device>)>> {
        let Some((devices, device)) = device_for(tokens, self.devices) else {
            return Ok(None);
        };
        match device.with_gpu(work) {
            Err(error @ Error::Gpu(_)) if devices.falls_back() => {
                device.count_failure(&error);
                Ok(None)
            }
            built => built.map(|built| Some((built, device.clone()))),
        }
    }
}
