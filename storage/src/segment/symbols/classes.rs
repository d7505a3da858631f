//! Classes of the ends of every symbol.
//!
//! A symbol has a *left* class (how its expansion begins: what is predicted) and a *right* class (how it ends: what
//! predicts). A terminal takes both from its shape, a rule from the ends of its body; frequent symbols have classes of
//! their own instead.

/// Stands for "no class": the symbol is a single token, so nothing is before its last token.
pub const NONE: u8 = u8::MAX;

/// Most classes.
pub const CLASSES_MAX: usize = 128;

/// The classes of a symbol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// How the expansion begins.
    pub left: u8,
    /// How it ends.
    pub right: u8,
    /// The right class of what comes before its end; [`u8::MAX`] for a terminal.
    pub before: u8,
}

/// What the symbols before a place say: the right classes of the last two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Past {
    /// Class of the last token or rule.
    pub last: u8,
    /// Class of what came before that.
    pub before: u8,
}

impl Past {
    /// Where nothing is before; its class comes after all `classes` others.
    #[inline(always)]
    pub fn nothing(classes: usize) -> Past {
        // At most CLASSES_MAX.
        Past {
            last: classes as u8,
            before: classes as u8,
        }
    }

    /// One symbol further.
    #[inline(always)]
    pub fn after(self, ends: Ends) -> Past {
        Past {
            last: ends.right,
            before: if ends.before == NONE {
                self.last
            } else {
                ends.before
            },
        }
    }
}

/// The classes of a rule from those of its symbols, before a class of its own replaces them.
pub fn of_body(body: impl IntoIterator<Item = Ends>, classes: usize) -> Ends {
    let mut past = Past::nothing(classes);
    let mut left = None;
    for ends in body {
        left.get_or_insert(ends.left);
        past = past.after(ends);
    }
    Ends {
        left: left.unwrap_or(0),
        right: past.last,
        before: past.before,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_begins_and_ends_as_its_body_does() {
        let token = |class: u8| Ends {
            left: class,
            right: class + 1,
            before: NONE,
        };
        let pair = of_body([token(1), token(3)], 9);
        assert_eq!(
            pair,
            Ends {
                left: 1,
                right: 4,
                before: 2
            }
        );
        assert_eq!(
            of_body([token(5), pair], 9),
            Ends {
                left: 5,
                right: 4,
                before: 2
            }
        );
        assert_eq!(
            of_body([pair, token(5)], 9),
            Ends {
                left: 1,
                right: 6,
                before: 4
            }
        );
    }
}
