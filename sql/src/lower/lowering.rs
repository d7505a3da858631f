//! The state of the lowering of one SELECT.

use crate::cursor::Cursor;
use crate::syntax::{Name, Nodes, OuterSelect, Select};

/// The lowering of one SELECT.
pub(super) struct Lowering<'c, 'a> {
    pub(super) cursor: &'c mut Cursor<'a>,
    pub(super) nodes: Nodes,
    pub(super) selects: &'c mut LoweredSelects,
    /// The SELECTs within this one, by index, and whether they stand in its FROM.
    pub(super) inner: Vec<(usize, bool)>,
}

/// SELECTs that have been lowered, each after those that it reads.
#[derive(Debug, Default)]
pub(super) struct LoweredSelects {
    pub(super) list: Vec<Select>,
    /// Queries that WITH has named and that can be read here, the innermost last.
    pub(super) named: Vec<(Name, usize)>,
}

impl LoweredSelects {
    /// The SELECT that WITH has given a name.
    pub(super) fn named(&self, name: &Name) -> Option<usize> {
        let mut named = self.named.iter().rev();
        let found = named.find(|(known, _)| known.text.eq_ignore_ascii_case(&name.text));
        found.map(|(_, select)| *select)
    }

    /// Adds a SELECT around others, and gives its index.
    pub(super) fn push(&mut self, select: Select, inner: &[(usize, bool)]) -> usize {
        let index = self.list.len();
        self.list.push(select);
        for &(within, in_from) in inner {
            let select = index;
            self.list[within].outer = Some(OuterSelect { select, in_from });
        }
        index
    }
}
