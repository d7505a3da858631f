//! `MeasureError`: everything that can be wrong with the parameters of measures, samples and concordances; the lookup of names.
//!
//! Invariant: a message is one line; it shows at most [`SHOWN_CHARACTERS_MAX`] characters of the user's text, none of them a
//! control character. A name that is not known gets the list of known names, and the nearest one where one is near.

use strsim::damerau_levenshtein;

/// Characters of a text that a message shows.
const SHOWN_CHARACTERS_MAX: usize = 64;

/// What is wrong with a parameter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MeasureError {
    /// A name that is not one of the known names.
    #[error("no such {kind} `{name}`; hint: {hint}")]
    UnknownName {
        /// What the name should be a name of.
        kind: &'static str,
        /// The name, as far as it is shown.
        name: String,
        /// The nearest known name if one is near, and all known names.
        hint: String,
    },
    /// A name that stands twice in a list.
    #[error("{kind} `{name}` stands twice; hint: leave one of them out")]
    RepeatedName {
        /// What the name is a name of.
        kind: &'static str,
        /// The name.
        name: &'static str,
    },
    /// A text that cannot be read.
    #[error("`{text}` is no {what}; hint: {hint}")]
    Malformed {
        /// What the text should be.
        what: &'static str,
        /// The text, as far as it is shown.
        text: String,
        /// How such a text is written.
        hint: &'static str,
    },
    /// A number outside of its range.
    #[error("{what} is {value}; hint: it must be {range}")]
    OutOfRange {
        /// What the number is.
        what: &'static str,
        /// The number.
        value: String,
        /// The range, in words.
        range: &'static str,
    },
}

impl MeasureError {
    /// The text is no `what`; `hint` shows how one is written.
    pub(crate) fn malformed(what: &'static str, text: &str, hint: &'static str) -> MeasureError {
        MeasureError::Malformed {
            what,
            text: shorten(text),
            hint,
        }
    }

    /// `name` is not among `known`.
    pub(crate) fn unknown_name(kind: &'static str, name: &str, known: &[&str]) -> MeasureError {
        let listed = known.join(", ");
        let hint = match nearest(name, known) {
            Some(near) => format!("did you mean `{near}`? known are {listed}"),
            None => format!("known are {listed}"),
        };
        MeasureError::UnknownName {
            kind,
            name: shorten(name),
            hint,
        }
    }
}

/// The item of this name, in any case of ASCII letters. `names` has every item once for each of its names.
pub(crate) fn find<T: Copy>(
    kind: &'static str,
    name: &str,
    names: &[(&'static str, T)],
) -> Result<T, MeasureError> {
    let found = names
        .iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(name));
    match found {
        Some((_, item)) => Ok(*item),
        None => {
            let known: Vec<&str> = names.iter().map(|(known, _)| *known).collect();
            Err(MeasureError::unknown_name(kind, name, &known))
        }
    }
}

/// The items of a list of names between commas, in its order. No item may stand twice, under whichever of its names.
pub(crate) fn find_all<T: Copy + PartialEq>(
    kind: &'static str,
    text: &str,
    names: &[(&'static str, T)],
) -> Result<Vec<T>, MeasureError> {
    let mut items = Vec::new();
    for name in text.split(',') {
        let item = find(kind, name.trim(), names)?;
        if items.contains(&item) {
            return Err(MeasureError::RepeatedName {
                kind,
                name: first_name(names, item),
            });
        }
        items.push(item);
    }
    Ok(items)
}

/// The first name of an item, which is the one it is shown by.
pub(crate) fn first_name<T: Copy + PartialEq>(
    names: &[(&'static str, T)],
    item: T,
) -> &'static str {
    names
        .iter()
        .find(|(_, named)| *named == item)
        .map_or("", |(name, _)| name)
}

/// The items of a list of names, each once, in its order.
pub(crate) fn distinct<T: Copy + PartialEq>(
    names: &'static [(&'static str, T)],
) -> impl Iterator<Item = T> {
    let first = |&&(name, item): &&(&'static str, T)| first_name(names, item) == name;
    names.iter().filter(first).map(|(_, item)| *item)
}

/// The known name that `name` was most likely meant to be: at most one slip in a short name, two in a longer one.
fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let folded = name.to_ascii_lowercase();
    let allowed = match folded.chars().take(SHOWN_CHARACTERS_MAX + 1).count() {
        0 | 1 => return None,
        2..=5 => 1,
        6..=SHOWN_CHARACTERS_MAX => 2,
        _ => return None,
    };
    known
        .iter()
        .map(|known| {
            (
                damerau_levenshtein(&folded, &known.to_ascii_lowercase()),
                *known,
            )
        })
        .filter(|(distance, known)| *distance <= allowed && *distance < known.chars().count())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

/// The beginning of the text, with control characters escaped.
pub(crate) fn shorten(text: &str) -> String {
    let mut shown = String::new();
    for character in text.chars().take(SHOWN_CHARACTERS_MAX) {
        if character.is_control() {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    if text.chars().nth(SHOWN_CHARACTERS_MAX).is_some() {
        shown.push_str("...");
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: &[(&str, u8)] = &[("mi", 1), ("log_dice", 2), ("logdice", 2)];

    #[test]
    fn names_are_found_in_any_case() {
        assert_eq!(find("measure", "logDice", NAMES), Ok(2));
        assert_eq!(find_all("measure", " log_dice , MI", NAMES), Ok(vec![2, 1]));
    }

    #[test]
    fn an_unknown_name_gets_the_nearest_and_all_known_names() {
        for (name, message) in [
            (
                "logdcie",
                "no such measure `logdcie`; hint: did you mean `logdice`? known are mi, log_dice, logdice",
            ),
            (
                "x",
                "no such measure `x`; hint: known are mi, log_dice, logdice",
            ),
            (
                "",
                "no such measure ``; hint: known are mi, log_dice, logdice",
            ),
        ] {
            let error = find("measure", name, NAMES).expect_err(name);
            assert_eq!(error.to_string(), message);
        }
    }

    #[test]
    fn an_item_stands_once_in_a_list_under_all_its_names() {
        let error = find_all("measure", "logdice,mi,log_dice", NAMES).expect_err("twice");
        assert_eq!(
            error.to_string(),
            "measure `log_dice` stands twice; hint: leave one of them out"
        );
    }

    #[test]
    fn long_and_unprintable_names_are_shortened() {
        let error = find("measure", &"\n".repeat(1_000_000), NAMES).expect_err("unknown");
        let message = error.to_string();
        assert!(message.len() < 300, "{message}");
        assert!(!message.contains('\n'), "{message}");
    }
}
