//! A member of a source, and the sink of its records.
//!
//! Invariant: records of a member have its path, their number in it and the places where they begin.

use std::sync::Arc;

use crate::error::{Damage, Place, Reject, Result};
use crate::record::{FieldValue, Record, RecordName, RecordSink};

/// A file in a source, or the source itself.
pub(crate) struct Member {
    /// Its path, as records are named: the source, and the archives and members below.
    pub(crate) path: Vec<u8>,
    /// Its path below the source, for messages.
    pub(crate) shown: Vec<u8>,
    /// Archives and compressed files around it.
    pub(crate) depth: usize,
    /// Whether it is a member of an archive.
    pub(crate) is_inside: bool,
}

impl Member {
    /// A member of an archive.
    pub(crate) fn inside(&self, mut name: Vec<u8>) -> Member {
        // As tools unpack it: below the archive.
        while let Some(rest) = name.strip_prefix(b"./").or(name.strip_prefix(b"/")) {
            name = rest.to_vec();
        }
        let below = |path: &[u8]| {
            if path.is_empty() {
                name.clone()
            } else {
                [path, b"/", &name].concat()
            }
        };
        Member {
            path: below(&self.path),
            shown: below(&self.shown),
            depth: self.depth + 1,
            is_inside: true,
        }
    }

    pub(crate) fn reject(&self, damage: Damage) -> Reject {
        Reject {
            place: Place {
                member: String::from_utf8_lossy(&self.shown).into(),
                line: damage.line,
                column: damage.column,
            },
            reason: damage.reason,
        }
    }
}

/// The sink of one member's records, which gives them names and places.
pub(crate) struct MemberRecords<'a> {
    member: &'a Member,
    sink: &'a mut dyn RecordSink,
    shown: Arc<str>,
    number: u64,
}

impl<'a> MemberRecords<'a> {
    pub(crate) fn new(member: &'a Member, sink: &'a mut dyn RecordSink) -> MemberRecords<'a> {
        MemberRecords {
            member,
            sink,
            shown: String::from_utf8_lossy(&member.shown).into(),
            number: 0,
        }
    }

    pub(crate) fn text(&mut self, bytes: &[u8]) -> Result<()> {
        self.sink.text(bytes)
    }

    /// The whole member is a record.
    pub(crate) fn whole(&mut self) -> Result<()> {
        self.sink.record(Record {
            name: RecordName::Path(self.member.path.clone()),
            fields: Vec::new(),
            place: self.place(0),
        })
    }

    /// A record that begins at a line, with a name that stands in it, or a number.
    pub(crate) fn record(
        &mut self,
        line: u64,
        name: Option<String>,
        fields: Vec<(Arc<str>, FieldValue)>,
    ) -> Result<()> {
        self.number += 1;
        let name = match name {
            Some(name) => RecordName::Given(name),
            None => RecordName::Numbered {
                path: self.member.path.clone(),
                number: self.number,
            },
        };
        self.sink.record(Record {
            name,
            fields,
            place: self.place(line),
        })
    }

    /// Rejects a record. Without an error the next record is read. A rejected record has a number, so that others keep theirs.
    pub(crate) fn reject(&mut self, damage: Damage) -> Result<()> {
        self.number += 1;
        self.sink.reject(self.member.reject(damage))
    }

    fn place(&self, line: u64) -> Place {
        Place {
            member: Arc::clone(&self.shown),
            line,
            column: 0,
        }
    }
}
