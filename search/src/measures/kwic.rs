//! The parameters of concordances: keys to sort and group hits by, and widths of contexts and windows.
//!
//! Invariant: what is parsed is plain data within the limits below; it names no corpus. Nothing here reads text or sorts.

use std::str::FromStr;

use crate::measures::names::{MeasureError, shorten};

/// Words of a context on one side, and the farthest word that a key may name.
pub const CONTEXT_WORDS_MAX: u32 = 10_000;

/// Keys of one list.
pub const KWIC_KEYS_MAX: usize = 16;

/// What hits are sorted or grouped by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KwicKey {
    /// What is compared.
    pub slot: KwicSlot,
    /// Words are compared after case folding.
    pub ignores_case: bool,
    /// The order is descending.
    pub is_descending: bool,
}

/// A property of a hit.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum KwicSlot {
    /// The n-th word left of the hit, from 1.
    Left(u32),
    /// The n-th word right of the hit, from 1.
    Right(u32),
    /// The n-th word of the hit, from 1.
    FromStart(u32),
    /// The n-th word of the hit from its end, from 1.
    FromEnd(u32),
    /// All words of the hit.
    Hit,
    /// The name of the file.
    File,
    /// The position of the hit in its file.
    Position,
    /// All words of what a capture matched.
    Capture(String),
}

/// How keys are written.
const KEY_HINT: &str = "write `R1` or `L2` for a word right or left of the hit, `H1` or `H-1` for its first or last word, `hit`, \
                        `file`, `position` or the name of a capture; `:i` after it ignores case, `-` before it reverses the order";

const SLOTS: &[(&str, KwicSlot)] = &[
    ("hit", KwicSlot::Hit),
    ("file", KwicSlot::File),
    ("position", KwicSlot::Position),
];

impl KwicKey {
    /// The keys of a list such as `R1:i,R2,-file`, the first the most significant.
    ///
    /// Words are `R1`, `L1`, `H1` and `H-1` with capital letters, where `R1i` is short for `R1:i`. `captures` has the names of the
    /// captures of the query; `hit`, `file` and `position` and the names of words take precedence over them.
    ///
    /// # Errors
    ///
    /// A text that is no key, a name that is no capture, a word beyond [`CONTEXT_WORDS_MAX`], more than [`KWIC_KEYS_MAX`] keys.
    pub fn parse_list(text: &str, captures: &[&str]) -> Result<Vec<KwicKey>, MeasureError> {
        let keys = text.split(',').take(KWIC_KEYS_MAX + 1);
        let keys: Vec<KwicKey> = keys
            .map(|key| KwicKey::parse(key.trim(), captures))
            .collect::<Result<_, _>>()?;
        if keys.len() > KWIC_KEYS_MAX {
            return Err(MeasureError::OutOfRange {
                what: "the number of keys",
                value: text.split(',').count().to_string(),
                range: "at most 16",
            });
        }
        Ok(keys)
    }

    fn parse(text: &str, captures: &[&str]) -> Result<KwicKey, MeasureError> {
        let (is_descending, rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (name, ignores_case) = match rest.strip_suffix(":i") {
            Some(name) => (name, true),
            None => (rest, false),
        };
        let word = match word_slot(name)? {
            // `R1i` is short for `R1:i`.
            None if !ignores_case => match name.strip_suffix('i') {
                Some(name) => word_slot(name)?.map(|slot| (slot, true)),
                None => None,
            },
            slot => slot.map(|slot| (slot, ignores_case)),
        };
        if let Some((slot, ignores_case)) = word {
            return Ok(KwicKey {
                slot,
                ignores_case,
                is_descending,
            });
        }
        let is_name = name.starts_with(|first: char| first.is_alphabetic() || first == '_')
            && name.chars().all(|c| c.is_alphanumeric() || c == '_');
        if !is_name {
            return Err(MeasureError::malformed("key", text, KEY_HINT));
        }
        let slot = named_slot(name, captures)?;
        if ignores_case && matches!(slot, KwicSlot::File | KwicSlot::Position) {
            return Err(MeasureError::malformed(
                "key",
                text,
                "`:i` is for words; leave it out after `file` and `position`",
            ));
        }
        Ok(KwicKey {
            slot,
            ignores_case,
            is_descending,
        })
    }
}

/// The slot of `R1`, `L1`, `H1` or `H-1`; none for other names.
fn word_slot(name: &str) -> Result<Option<KwicSlot>, MeasureError> {
    let Some(digits) = name.strip_prefix(['R', 'L', 'H']) else {
        return Ok(None);
    };
    let (digits, slot): (&str, fn(u32) -> KwicSlot) = match (&name[..1], digits.strip_prefix('-')) {
        ("R", None) => (digits, KwicSlot::Right),
        ("L", None) => (digits, KwicSlot::Left),
        ("H", None) => (digits, KwicSlot::FromStart),
        ("H", Some(digits)) => (digits, KwicSlot::FromEnd),
        _ => return Ok(None),
    };
    if !is_number(digits) {
        return Ok(None);
    }
    match digits.parse() {
        Ok(number @ 1..=CONTEXT_WORDS_MAX) => Ok(Some(slot(number))),
        _ => Err(MeasureError::OutOfRange {
            what: "the number of a word",
            value: shorten(digits),
            range: "between 1 and 10000",
        }),
    }
}

fn named_slot(name: &str, captures: &[&str]) -> Result<KwicSlot, MeasureError> {
    if let Some((_, slot)) = SLOTS.iter().find(|(known, _)| *known == name) {
        return Ok(slot.clone());
    }
    if captures.contains(&name) {
        return Ok(KwicSlot::Capture(name.to_owned()));
    }
    let words = ["R1", "L1", "H1", "H-1"].into_iter();
    let known: Vec<&str> = words
        .chain(SLOTS.iter().map(|(known, _)| *known))
        .chain(captures.iter().copied())
        .collect();
    Err(MeasureError::unknown_name("key", name, &known))
}

/// Numbers of words left and right of a hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ContextWidths {
    /// Words left of it.
    pub left: u32,
    /// Words right of it.
    pub right: u32,
}

impl ContextWidths {
    /// The words of both sides: the factor `w` of a window.
    pub fn words(self) -> u64 {
        u64::from(self.left) + u64::from(self.right)
    }

    /// As `parse`, for a window of collocations, which has at least one word.
    ///
    /// # Errors
    ///
    /// A text that is no widths, a width above [`CONTEXT_WORDS_MAX`], two widths of zero.
    pub fn parse_window(text: &str) -> Result<ContextWidths, MeasureError> {
        let widths: ContextWidths = text.parse()?;
        if widths.words() == 0 {
            return Err(MeasureError::malformed(
                "window",
                text,
                "a window has at least one word, as `5:5`, `0:1` or `3`",
            ));
        }
        Ok(widths)
    }
}

impl FromStr for ContextWidths {
    type Err = MeasureError;

    /// `5:10` for 5 words to the left and 10 to the right, `5` for 5 on both sides.
    fn from_str(text: &str) -> Result<ContextWidths, MeasureError> {
        let (left, right) = text.trim().split_once(':').unwrap_or((text, text));
        let width = |digits: &str| {
            let digits = digits.trim();
            is_number(digits)
                .then(|| digits.parse().ok())
                .flatten()
                .filter(|width| *width <= CONTEXT_WORDS_MAX)
        };
        match (width(left), width(right)) {
            (Some(left), Some(right)) => Ok(ContextWidths { left, right }),
            _ => Err(MeasureError::malformed(
                "context",
                text,
                "write `5:10` for the words left and right, or `5` for both, each at most 10000",
            )),
        }
    }
}

fn is_number(digits: &str) -> bool {
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(slot: KwicSlot, ignores_case: bool, is_descending: bool) -> KwicKey {
        KwicKey {
            slot,
            ignores_case,
            is_descending,
        }
    }

    #[test]
    fn keys_are_read() {
        let captures = ["verb", "Ri", "L1", "i"];
        for (text, expected) in [
            ("R1", key(KwicSlot::Right(1), false, false)),
            ("L12", key(KwicSlot::Left(12), false, false)),
            ("R1i", key(KwicSlot::Right(1), true, false)),
            ("-L2:i", key(KwicSlot::Left(2), true, true)),
            ("H1", key(KwicSlot::FromStart(1), false, false)),
            ("H-1i", key(KwicSlot::FromEnd(1), true, false)),
            ("-H-3", key(KwicSlot::FromEnd(3), false, true)),
            ("hit:i", key(KwicSlot::Hit, true, false)),
            ("-file", key(KwicSlot::File, false, true)),
            ("position", key(KwicSlot::Position, false, false)),
            (
                "verb",
                key(KwicSlot::Capture("verb".to_owned()), false, false),
            ),
            (
                "verb:i",
                key(KwicSlot::Capture("verb".to_owned()), true, false),
            ),
            ("Ri", key(KwicSlot::Capture("Ri".to_owned()), false, false)),
            ("i", key(KwicSlot::Capture("i".to_owned()), false, false)),
            ("L1", key(KwicSlot::Left(1), false, false)),
        ] {
            assert_eq!(
                KwicKey::parse_list(text, &captures),
                Ok(vec![expected]),
                "{text}"
            );
        }
        let slots = KwicKey::parse_list(" R1, R2 ,-L1,file", &[]).expect("keys");
        assert_eq!(slots.len(), 4);
        assert!(slots[2].is_descending);
    }

    #[test]
    fn faults_of_keys_are_named() {
        for (text, message) in [
            (
                "r1",
                "no such key `r1`; hint: did you mean `R1`? known are R1, L1, H1, H-1, hit, file, position, verb",
            ),
            (
                "vreb",
                "no such key `vreb`; hint: did you mean `verb`? known are R1, L1, H1, H-1, hit, file, position, verb",
            ),
            (
                "R0",
                "the number of a word is 0; hint: it must be between 1 and 10000",
            ),
            (
                "H-99999999999",
                "the number of a word is 99999999999; hint: it must be between 1 and 10000",
            ),
            (
                "position:i",
                "`position:i` is no key; hint: `:i` is for words; leave it out after `file` and `position`",
            ),
        ] {
            let error = KwicKey::parse_list(text, &["verb"]).expect_err(text);
            assert_eq!(error.to_string(), message);
        }
        for text in [
            "", "-", "R1,", "R-1", "L 1", "R1:x", "--R1", ":i", "1", "R1:i:i",
        ] {
            let error = KwicKey::parse_list(text, &[]).expect_err(text);
            assert!(
                error.to_string().contains("is no key; hint: write `R1`"),
                "{error}"
            );
        }
        let many = vec!["R1"; 17].join(",");
        let error = KwicKey::parse_list(&many, &[]).expect_err("too many");
        assert_eq!(
            error.to_string(),
            "the number of keys is 17; hint: it must be at most 16"
        );
    }

    #[test]
    fn widths_are_read() {
        for (text, left, right) in [("5:10", 5, 10), ("5", 5, 5), (" 0 : 3 ", 0, 3), ("0", 0, 0)] {
            assert_eq!(text.parse(), Ok(ContextWidths { left, right }), "{text}");
        }
        let window = ContextWidths::parse_window("5:5").expect("window");
        assert_eq!(window.words(), 10);
        for text in [
            "",
            ":",
            "5:",
            "-1:2",
            "5:5:5",
            "+5",
            "10001",
            "99999999999",
            "1,2",
        ] {
            let error = ContextWidths::parse_window(text).expect_err(text);
            assert!(
                error
                    .to_string()
                    .contains("is no context; hint: write `5:10`"),
                "{error}"
            );
        }
        let error = ContextWidths::parse_window("0:0").expect_err("empty");
        assert_eq!(
            error.to_string(),
            "`0:0` is no window; hint: a window has at least one word, as `5:5`, `0:1` or `3`"
        );
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,40}") {
            let _ = KwicKey::parse_list(&text, &["verb"]);
            let _ = ContextWidths::parse_window(&text);
        }
    }
}
