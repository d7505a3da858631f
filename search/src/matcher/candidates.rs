//! Where the words that pass a test lie in a dictionary.

use crate::fold::fold;

/// Where the words that pass a test lie in a dictionary ordered by (folded word, word).
///
/// Every word that passes is a candidate; a candidate need not pass. Lists are sorted and distinct.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Candidates {
    /// These words.
    Words(Vec<Vec<u8>>),
    /// Words that fold to one of these.
    Folded(Vec<Vec<u8>>),
    /// Words whose folded text begins with one of these; none of them begins with another.
    Prefixes(Vec<Vec<u8>>),
    /// All words.
    Every,
}

impl Candidates {
    /// These words.
    pub(super) fn words(words: impl Iterator<Item = Vec<u8>>) -> Self {
        Self::Words(sorted(words))
    }

    /// Words that fold as one of these does.
    pub(super) fn folded(words: impl Iterator<Item = Vec<u8>>) -> Self {
        Self::Folded(sorted(words.map(|word| folded(&word))))
    }

    /// Words that begin with one of these, before or after folding.
    pub(super) fn prefixes(prefixes: impl Iterator<Item = Vec<u8>>) -> Self {
        let mut prefixes = sorted(prefixes.map(|prefix| folded(whole_characters(&prefix))));
        prefixes.dedup_by(|next, prefix| next.starts_with(prefix));
        if prefixes.first().is_some_and(Vec::is_empty) {
            Self::Every
        } else {
            Self::Prefixes(prefixes)
        }
    }

    /// Those of both.
    pub(super) fn union(self, other: Self) -> Self {
        match (self, other) {
            (Self::Every, _) | (_, Self::Every) => Self::Every,
            (Self::Words(left), Self::Words(right)) => Self::words(left.into_iter().chain(right)),
            (Self::Prefixes(left), other) | (other, Self::Prefixes(left)) => {
                Self::prefixes(left.into_iter().chain(other.into_texts()))
            }
            (left, right) => Self::folded(left.into_texts().into_iter().chain(right.into_texts())),
        }
    }

    /// The narrower one, by kind and number.
    pub(super) fn narrower(self, other: Self) -> Self {
        if other.width() < self.width() {
            other
        } else {
            self
        }
    }

    fn width(&self) -> (u8, usize) {
        match self {
            Self::Words(words) | Self::Folded(words) if words.is_empty() => (0, 0),
            Self::Words(words) => (0, words.len()),
            Self::Folded(words) => (1, words.len()),
            Self::Prefixes(prefixes) => (2, prefixes.len()),
            Self::Every => (3, 0),
        }
    }

    fn into_texts(self) -> Vec<Vec<u8>> {
        match self {
            Self::Words(texts) | Self::Folded(texts) | Self::Prefixes(texts) => texts,
            Self::Every => vec![Vec::new()],
        }
    }
}

fn sorted(texts: impl Iterator<Item = Vec<u8>>) -> Vec<Vec<u8>> {
    let mut texts: Vec<Vec<u8>> = texts.collect();
    texts.sort_unstable();
    texts.dedup();
    texts
}

fn folded(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    fold(text, &mut bytes);
    bytes
}

/// A prefix without a character that it cuts, which could fold to other bytes.
fn whole_characters(prefix: &[u8]) -> &[u8] {
    let cut = prefix
        .utf8_chunks()
        .last()
        .map_or(0, |chunk| chunk.invalid().len());
    &prefix[..prefix.len() - cut]
}
