//! What a run of a suite leaves: its tables with all that is needed to make them again, as a JSON file.
//!
//! The invariant: one form for all suites. A line of the file is a corpus, a table or a row, so that changes show in a diff.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::{Result, Table};

/// One run of one suite.
#[derive(Clone, Serialize, Deserialize)]
pub struct Envelope {
    /// As in the command line.
    pub suite: String,
    /// The command to type, without paths of corpora.
    pub command: String,
    /// When it began, as `2026-01-31T12:00:00Z`.
    pub date: String,
    /// What the program was built from, if known.
    pub commit: Option<String>,
    /// Where it ran.
    pub machine: Machine,
    /// Versions of everything compared, by name.
    pub versions: Vec<(String, String)>,
    /// What was measured, corpus by corpus.
    pub corpora: Vec<MeasuredCorpus>,
    /// What a reader of the tables must know.
    pub notes: Vec<String>,
}

/// Where a run was.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's model.
    pub cpu: String,
    /// Cores that the process may use.
    pub cores: usize,
    /// Bytes of memory.
    pub memory: u64,
    /// Models of the GPUs, with the version of their driver.
    pub gpus: Vec<String>,
    /// The operating system and its version.
    pub system: String,
}

/// A corpus with what was measured on it.
#[derive(Clone, Serialize, Deserialize)]
pub struct MeasuredCorpus {
    /// The last component of its path.
    pub name: String,
    /// Bytes of text.
    pub bytes: u64,
    /// Files of text.
    pub files: usize,
    /// Whether all of it is UTF-8. SQLite FTS5 and tantivy get other bytes replaced.
    pub is_utf8: bool,
    /// Its tables in order.
    pub tables: Vec<Table>,
}

impl MeasuredCorpus {
    /// Its name and size, as a heading has them.
    pub fn title(&self) -> String {
        let size = self.bytes as f64 / 1e6;
        let plural = if self.files == 1 { "" } else { "s" };
        format!("{}: {size:.1} MB in {} file{plural}", self.name, self.files)
    }
}

impl Envelope {
    /// Reads one.
    pub fn read(path: &Path) -> Result<Envelope> {
        let text =
            fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let envelope = serde_json::from_str(&text);
        Ok(envelope.map_err(|error| format!("{}: {error}", path.display()))?)
    }

    /// Writes it, and the folder that it lies in.
    pub fn write(&self, path: &Path) -> Result<()> {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        let text = self.json()?;
        Ok(fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))?)
    }

    /// Adds the corpora of another run of the same command. Says whether it was that, on a machine of the same kind.
    pub(crate) fn join(&mut self, other: Envelope) -> bool {
        let kind = |run: &Envelope| {
            let machine = (
                run.machine.cpu.clone(),
                run.machine.cores,
                run.machine.gpus.clone(),
            );
            (
                run.suite.clone(),
                run.command.clone(),
                run.commit.clone(),
                machine,
            )
        };
        let is_alike = kind(self) == kind(&other);
        if is_alike {
            self.date = self.date.clone().max(other.date);
            self.corpora.extend(other.corpora);
        }
        is_alike
    }

    fn json(&self) -> Result<String> {
        let mut text = serde_json::to_string(self)?;
        // Quotes in strings are escaped, so these are beginnings of objects.
        for object in ["{\"name\"", "{\"title\""] {
            text = text.replace(object, &format!("\n{object}"));
        }
        text.push('\n');
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::envelope;

    #[test]
    fn json_has_a_line_a_row_and_reads_back() {
        let mut envelope = envelope();
        envelope.notes = vec!["a note with {\"name\" in it".to_owned()];
        let json = envelope.json().expect("it is numbers and strings");
        let rows = envelope.corpora.iter().flat_map(|corpus| &corpus.tables);
        let rows: usize = rows.map(|table| table.rows.len()).sum();
        let lines = json.lines();
        let row_lines = lines.filter(|line| line.contains("\"cells\""));
        assert_eq!(row_lines.count(), rows);
        let back: Envelope = serde_json::from_str(&json).expect("was written so");
        assert_eq!(back.json().expect("as before"), json);
        assert_eq!(back.notes, envelope.notes);
    }
}
