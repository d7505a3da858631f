//! Contexts that predict bytes of folded words.

/// What a byte of a folded word is predicted from: the two before it, or, for the first one that is not shared, the
/// one before it and the one that the entry before has in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Context {
    /// Whether this is the first byte that is not shared.
    pub first: bool,
    /// The byte before; for the first one, the byte in its place in the entry before.
    pub near: Option<u8>,
    /// The byte before that; for the first one, the byte before.
    pub far: Option<u8>,
}

impl Context {
    pub fn first(before: &[u8], shared: &[u8]) -> Context {
        Context {
            first: true,
            near: before.get(shared.len()).copied(),
            far: shared.last().copied(),
        }
    }

    /// The context after `byte`.
    pub fn next(self, byte: u8) -> Context {
        Context {
            first: false,
            near: Some(byte),
            far: if self.first { self.far } else { self.near },
        }
    }
}
