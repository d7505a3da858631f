//! Distinct names for the columns of a file: readers of JSON keep the last of several values under one name, and readers of CSV
//! rename or drop them.
//!
//! Invariant: no two names are the same, compared byte for byte. The first column of a name keeps it.

use std::collections::{HashMap, HashSet};

use crate::notice::Notice;

/// The most new names that a notice lists.
const NAMED_MAX: usize = 3;

/// Characters of a name that a notice shows: an expression is a name as it was written, and the new name differs at its end.
const SHOWN_MAX: usize = 60;

/// The names, where a second `x` is `x_2` unless a column is called so, then `x_3` and so on; and a notice if names change.
pub(super) fn distinct_names(names: Vec<String>) -> (Vec<String>, Vec<Notice>) {
    let mut taken: HashSet<String> = names.iter().cloned().collect();
    if taken.len() == names.len() {
        return (names, Vec::new());
    }
    let mut last_numbers: HashMap<String, usize> = HashMap::new();
    let mut changed = Vec::new();
    let distinct = names.into_iter().map(|name| {
        let Some(number) = last_numbers.get_mut(&name) else {
            last_numbers.insert(name.clone(), 1);
            return name;
        };
        loop {
            *number += 1;
            let free = format!("{name}_{number}");
            if taken.insert(free.clone()) {
                let hidden = free.chars().count().saturating_sub(SHOWN_MAX);
                let shown: String = free.chars().skip(hidden).collect();
                let cut = if hidden > 0 { "..." } else { "" };
                changed.push(format!("\"{cut}{shown}\""));
                return free;
            }
        }
    });
    let distinct = distinct.collect();
    let rest = if changed.len() > NAMED_MAX {
        ", ..."
    } else {
        ""
    };
    changed.truncate(NAMED_MAX);
    let text = format!(
        "columns of one name are written under names of their own: {}{rest}",
        changed.join(", ")
    );
    let hint = "AS names a column".to_owned();
    (distinct, vec![Notice::new(text, Some(hint))])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn distinct(names: &[&str]) -> (Vec<String>, Option<String>) {
        let (names, notices) = distinct_names(names.iter().map(|name| name.to_string()).collect());
        (names, notices.first().map(ToString::to_string))
    }

    #[test]
    fn names_of_which_no_two_are_the_same_stay() {
        let names = ["x", "X", "x ", "", "x_2"];
        assert_eq!(distinct(&names), (names.map(String::from).into(), None));
        assert_eq!(distinct(&[]), (Vec::new(), None));
    }

    #[test]
    fn later_columns_of_a_name_get_the_next_that_is_free() {
        let (names, notice) = distinct(&["x", "y", "x", "x_2", "x", "", ""]);
        assert_eq!(names, ["x", "y", "x_3", "x_2", "x_4", "", "_2"]);
        let expected = "columns of one name are written under names of their own: \"x_3\", \"x_4\", \"_2\"; hint: AS names a column";
        assert_eq!(notice.as_deref(), Some(expected));
        let (names, notice) = distinct(&["x", "x", "x_2", "x_2", "x_2"]);
        assert_eq!(names, ["x", "x_3", "x_2", "x_2_2", "x_2_3"]);
        assert_eq!(notice.map(|notice| notice.contains("...")), Some(false));
        let (names, notice) = distinct(&["x"; 5]);
        assert_eq!(names, ["x", "x_2", "x_3", "x_4", "x_5"]);
        assert_eq!(notice.map(|notice| notice.contains(", ...; ")), Some(true));
        let long = "+1".repeat(100_000);
        let (_, notice) = distinct(&[&long, &long]);
        let notice = notice.unwrap_or_default();
        assert!(notice.len() < 200 && notice.contains("1_2\""), "{notice}");
    }
}
