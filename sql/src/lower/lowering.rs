//! What the lowering of one SELECT has at hand.

use crate::cursor::Cursor;
use crate::syntax::Nodes;

/// The lowering of one SELECT.
pub(super) struct Lowering<'c, 'a> {
    pub(super) cursor: &'c mut Cursor<'a>,
    pub(super) nodes: Nodes,
}
