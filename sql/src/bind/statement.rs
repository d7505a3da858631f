//! CREATE and DROP CORPUS, COPY: names, options and their values.
//!
//! Invariant: an option that is accepted has a value within its bounds. CHECK has nothing to bind but its corpus.

use super::{Binder, is_corpus_name};
use crate::error::{Error, Hint, NameKind, Result, quote, shorten};
use crate::plan::{OnError, Plan, Tokenizer};
use crate::suggest::did_you_mean;
use crate::syntax::{Name, Operand, OptionSetting};
use crate::value::Value;

/// The least `segment_size` in bytes.
pub const SEGMENT_SIZE_MIN: u64 = 64 << 10;
/// The greatest `segment_size` in bytes.
pub const SEGMENT_SIZE_MAX: u64 = 1 << 30;

impl Binder<'_> {
    pub(super) fn create_corpus(
        &self,
        name: &Name,
        if_not_exists: bool,
        options: &[OptionSetting],
    ) -> Result<Plan> {
        if !is_corpus_name(&name.text) {
            return Err(Error::OutOfRange {
                at: self.source.at(name.at),
                what: "a corpus' name".to_owned(),
                bounds: "1 to 255 bytes without control characters and without spaces around it"
                    .to_owned(),
                found: quote(&name.text),
                hint: Hint::NONE,
            });
        }
        let (mut tokenizer, mut segment_size) = (None, None);
        for OptionSetting { key, value } in options {
            match key.text.to_ascii_lowercase().as_str() {
                "tokenizer" => tokenizer = Some(self.tokenizer(value)?),
                "segment_size" => segment_size = Some(self.segment_size(value)?),
                _ => return Err(self.no_such_option(key, &["tokenizer", "segment_size"])),
            }
        }
        if let Some(existing) = self.find_corpus(&name.text)
            && !if_not_exists
        {
            return Err(Error::CorpusExists {
                at: self.source.at(name.at),
                name: quote(&existing),
                hint: Hint::new("`CREATE CORPUS IF NOT EXISTS` leaves it as it is"),
            });
        }
        Ok(Plan::CreateCorpus {
            name: name.text.clone(),
            if_not_exists,
            tokenizer,
            segment_size,
        })
    }

    fn no_such_option(&self, key: &Name, options: &[&str]) -> Error {
        let listed = if options.len() == 1 {
            "the only option is"
        } else {
            "options are"
        };
        self.no_such(
            key.at,
            NameKind::Option,
            &key.text,
            did_you_mean(&key.text, options, listed),
        )
    }

    fn tokenizer(&self, operand: &Operand) -> Result<Tokenizer> {
        let name = self.text(operand, "the tokenizer")?;
        let found = Tokenizer::ALL
            .into_iter()
            .find(|tokenizer| tokenizer.name().eq_ignore_ascii_case(&name));
        found.ok_or_else(|| {
            let hint = did_you_mean(
                &name,
                &Tokenizer::ALL.map(Tokenizer::name),
                "tokenizers are",
            );
            self.no_such(operand.at, NameKind::Tokenizer, &name, hint)
        })
    }

    fn segment_size(&self, operand: &Operand) -> Result<u64> {
        let value = self.value(&operand.kind);
        let size = match value {
            Value::Integer(size) => u64::try_from(*size).ok(),
            Value::Text(text) => parse_size(text),
            _ => {
                return Err(self.wrong_type(
                    operand,
                    "segment_size",
                    "INTEGER or TEXT",
                    Hint::NONE,
                ));
            }
        };
        size.filter(|size| (SEGMENT_SIZE_MIN..=SEGMENT_SIZE_MAX).contains(size))
            .ok_or_else(|| Error::OutOfRange {
                at: self.source.at(operand.at),
                what: "segment_size".to_owned(),
                bounds: "a size in '64KiB'..='1GiB'".to_owned(),
                found: shorten(&value.to_string()),
                hint: Hint::new("sizes are bytes, or text with a unit: B, KiB, MiB, GiB"),
            })
    }

    pub(super) fn drop_corpus(&self, name: &Name, if_exists: bool) -> Result<Plan> {
        let found = match self.find_corpus(&name.text) {
            Some(found) => found,
            None if if_exists => name.text.clone(),
            None => self.corpus(&name.text, name.at)?,
        };
        Ok(Plan::DropCorpus {
            name: found,
            if_exists,
        })
    }

    pub(super) fn copy_from(
        &self,
        corpus: &Name,
        path: &Operand,
        options: &[OptionSetting],
    ) -> Result<Plan> {
        let mut on_error = OnError::default();
        let corpus = self.corpus(&corpus.text, corpus.at)?;
        for OptionSetting { key, value } in options {
            if !key.text.eq_ignore_ascii_case("on_error") {
                return Err(self.no_such_option(key, &["on_error"]));
            }
            let chosen = self.text(value, "on_error")?;
            on_error = match chosen.to_ascii_lowercase().as_str() {
                "stop" => OnError::Stop,
                "skip" => OnError::Skip,
                _ => {
                    return Err(Error::OutOfRange {
                        at: self.source.at(value.at),
                        what: "on_error".to_owned(),
                        bounds: "'stop' or 'skip'".to_owned(),
                        found: format!("'{}'", shorten(&chosen)),
                        hint: Hint::NONE,
                    });
                }
            };
        }
        Ok(Plan::CopyFrom {
            corpus,
            path: self.path(path, "the path")?,
            on_error,
        })
    }
}

/// Reads `64MiB`, `512 KiB`, `1000`: a whole number and perhaps a unit, whose case does not matter.
fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim_start().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "kib" => 10,
        "mib" => 20,
        "gib" => 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_whole_numbers_with_binary_units() {
        for (text, size) in [
            ("0", Some(0)),
            ("1000", Some(1000)),
            ("7B", Some(7)),
            (" 64 mib ", Some(64 << 20)),
            ("1GiB", Some(1 << 30)),
            ("17179869184GiB", None),
            ("18446744073709551616", None),
            ("1MB", None),
            ("1.5GiB", None),
            ("-1", None),
            ("GiB", None),
            ("", None),
        ] {
            assert_eq!(parse_size(text), size, "{text}");
        }
    }
}
