//! From the past to a context: which table predicts the next class.
//!
//! The right class of the last symbol decides first; where that pays, the one before it, by group, splits further.

use super::classes::Past;
use crate::segment::coding::Fault;
use crate::segment::coding::adaptive::{Bit, BitTree, Coder};

/// Most contexts.
pub const CONTEXTS_MAX: usize = 512;

/// Most groups of what is before the last symbol.
pub const GROUPS_MAX: usize = 32;

/// The context of each past.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contexts {
    /// `[classes + 1]`: the group of a class before the last.
    pub groups: Vec<u8>,
    /// `[(classes + 1) * GROUPS_MAX]`, by last class, then group.
    pub of: Vec<u16>,
    /// How many contexts there are; all in `of` are below.
    pub count: usize,
}

impl Contexts {
    /// The context of `past`.
    #[inline(always)]
    pub fn of(&self, past: Past) -> usize {
        let group = self.groups[usize::from(past.before)];
        usize::from(self.of[usize::from(past.last) * GROUPS_MAX + usize::from(group)])
    }

    /// Writes `contexts`, or reads them if there are none yet. Contexts are numbered in order of first use.
    pub fn code(
        coder: &mut impl Coder,
        classes: usize,
        contexts: Option<&Contexts>,
    ) -> Result<Contexts, Fault> {
        let mut result = Contexts {
            groups: Vec::new(),
            of: Vec::new(),
            count: 0,
        };
        let mut group_tree = BitTree::new(GROUPS_MAX.ilog2());
        for class in 0..=classes {
            let known = contexts.map_or(0, |contexts| u32::from(contexts.groups[class]));
            result.groups.push(group_tree.code(coder, known) as u8); // below GROUPS_MAX
        }
        let mut fresh_bit = Bit::default();
        let mut back_tree = BitTree::new(GROUPS_MAX.ilog2());
        for index in 0..(classes + 1) * GROUPS_MAX {
            // A context is used under one last class only, so it is coded as the number of first uses since it was made.
            let first = index % GROUPS_MAX == 0;
            let known = contexts.map_or(0, |contexts| usize::from(contexts.of[index]));
            let fresh = first || coder.bit(&mut fresh_bit, known == result.count);
            if fresh {
                if result.count == CONTEXTS_MAX {
                    return Err(Fault("it has too many contexts"));
                }
                result.of.push(result.count as u16); // below CONTEXTS_MAX
                result.count += 1;
            } else {
                let back = back_tree.code(
                    coder,
                    (result.count - 1).wrapping_sub(known) as u32 % GROUPS_MAX as u32,
                );
                let context = (result.count - 1)
                    .checked_sub(back as usize)
                    .ok_or(Fault("a context does not exist"))?;
                result.of.push(context as u16); // below CONTEXTS_MAX
            }
        }
        Ok(result)
    }
}
