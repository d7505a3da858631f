//! Formulas of collocation, keyness, dispersion, ranking and vocabulary growth, as functions of counts; samples; the parameters of
//! concordances.
//!
//! Invariant: a value is a finite number or none, which is NULL in SQL. Nothing here counts: the counts come from the caller, and
//! streams of parts, positions and hits are taken one by one. Test values are published ones; each test names its source.

mod association;
mod deviance;
mod dispersion;
mod growth;
mod keyness;
mod kwic;
mod names;
mod ranking;
mod sample;

pub use association::{AssociationMeasure, Contingency};
pub use dispersion::{
    PartDispersion, PartMeasures, PartTotals, PositionDispersion, PositionMeasures,
};
pub use growth::{
    FrequencySpectrum, GrowthPoint, PowerLaw, STANDARD_SEGMENT, StandardizedTypeRatio,
    VocabularyGrowth,
};
pub use keyness::{
    KeynessCounts, KeynessMeasure, SIMPLE_MATHS_SMOOTHING, bonferroni, chi_squared_p,
};
pub use kwic::{CONTEXT_WORDS_MAX, ContextWidths, KWIC_KEYS_MAX, KwicKey, KwicSlot};
pub use names::MeasureError;
pub use ranking::{Bm25, Bm25Word, CollectionSize, inverse_file_frequency};
pub use sample::{CountSample, PercentSample, SampleSize, sample_key};
