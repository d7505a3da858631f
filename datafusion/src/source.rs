//! `CorpusSource`: the database that tables read.
//!
//! Invariant: all tables of a query that come from one source are given one frozen source by the optimizer rule.

use zipfdb::Database;

/// What tables read from.
#[derive(Debug)]
pub(crate) struct CorpusSource {
    pub(crate) database: Database,
    /// Whether all its statements see one snapshot of each corpus.
    pub(crate) is_frozen: bool,
}

impl CorpusSource {
    /// The name of a corpus as the database has it, by its name in any case of ASCII letters.
    pub(crate) fn corpus(&self, name: &str) -> Option<String> {
        let mut names = self.database.corpora().into_iter();
        names.find(|corpus| corpus.eq_ignore_ascii_case(name))
    }
}
