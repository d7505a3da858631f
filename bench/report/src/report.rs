//! RESULTS.md, made of the JSON of runs and of the sentences that stand beside it.
//!
//! The invariant: the same folder gives the same text, so that a check can compare them. A folder has `NAME.json` with a run
//! of a suite, or `NAME.CORPUS.json` for each of several corpora, `NAME.md` with what there is to say about it, and
//! `introduction.md`. A suite without JSON has no section.

use std::fs;
use std::path::Path;

use crate::table::markdown;
use crate::{Cell, Envelope, MeasuredCorpus, Result, Table, digits};

/// Suites in the order of their sections.
const SUITES: [&str; 15] = [
    "size",
    "ingest",
    "tasks",
    "lookups",
    "memory",
    "cold",
    "sql",
    "updates",
    "records",
    "tadoc",
    "tokenize",
    "codec",
    "intersect",
    "gpu",
    "calibrate",
];

/// What stands behind the name of a corpus that is not UTF-8.
const NOT_UTF8: &str = "[^utf8]";

/// A run with the sentences about it.
pub struct Section {
    /// The file's name before the first dot, and the heading: the suite, or the suite and something else.
    pub name: String,
    /// The run.
    pub envelope: Envelope,
    /// What is to be said about it.
    pub commentary: String,
}

/// Reads all runs of a folder, in order of their sections.
///
/// # Errors
/// If runs that one section has are of different commands, commits or machines.
pub fn sections(folder: &Path) -> Result<Vec<Section>> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut files = Vec::new();
    for entry in entries {
        files.push(entry?.file_name().to_string_lossy().into_owned());
    }
    files.retain(|file| file.ends_with(".json"));
    files.sort();
    let mut sections: Vec<Section> = Vec::new();
    for file in files {
        let name = file.split('.').next().unwrap_or_default();
        let envelope = Envelope::read(&folder.join(&file))?;
        if let Some(section) = sections.iter_mut().find(|section| section.name == name) {
            if !section.envelope.join(envelope) {
                return Err(format!(
                    "{file}: of another command, commit or machine than the other runs of `{name}`; hint: name it {name}-other.json"
                )
                .into());
            }
            continue;
        }
        let commentary = folder.join(format!("{name}.md"));
        sections.push(Section {
            name: name.to_owned(),
            envelope,
            commentary: if commentary.exists() {
                fs::read_to_string(commentary)?
            } else {
                String::new()
            },
        });
    }
    let place = |section: &Section| {
        SUITES
            .iter()
            .position(|suite| *suite == section.envelope.suite)
    };
    sections.sort_by_key(|section| (place(section).unwrap_or(SUITES.len()), section.name.clone()));
    Ok(sections)
}

/// The text of RESULTS.md: the introduction of the folder, all corpora, and the sections.
pub fn render(folder: &Path, sections: &[Section]) -> Result<String> {
    let introduction = folder.join("introduction.md");
    let introduction = fs::read_to_string(&introduction)
        .map_err(|error| format!("{}: {error}", introduction.display()))?;
    let mut text = format!("{}\n\n{}", introduction.trim_end(), corpora(sections));
    for section in sections {
        text += &format!("- [{0}](#{0})\n", section.name);
    }
    for section in sections {
        text.push('\n');
        text += &section.markdown();
    }
    Ok(text)
}

/// A table of all corpora, and what a mark behind a name means.
fn corpora(sections: &[Section]) -> String {
    let mut corpora: Vec<(String, Table)> = Vec::new();
    for corpus in sections.iter().flat_map(|one| &one.envelope.corpora) {
        let mut table = Table::new("", ["MB", "files"]);
        let megabytes = Cell::from(corpus.bytes as f64 / 1e6);
        table.row(
            marked_name(corpus),
            [megabytes, Cell::from(corpus.files as u64)],
        );
        if !corpora.iter().any(|(name, _)| *name == corpus.name) {
            corpora.push((corpus.name.clone(), table));
        }
    }
    let mut all = Table::new("corpus", ["MB", "files"]);
    all.rows = corpora
        .into_iter()
        .flat_map(|(_, table)| table.rows)
        .collect();
    let mut text = markdown(&[("", &all)]);
    text.push('\n');
    if all.rows.iter().any(|row| row.name.ends_with(NOT_UTF8)) {
        text += &format!(
            "{NOT_UTF8}: Not all of it is UTF-8: SQLite FTS5 and tantivy got other bytes replaced, ZipfDB did not.\n\n"
        );
    }
    text
}

fn marked_name(corpus: &MeasuredCorpus) -> String {
    let mark = if corpus.is_utf8 { "" } else { NOT_UTF8 };
    format!("{}{mark}", corpus.name)
}

impl Section {
    /// The section in RESULTS.md.
    pub fn markdown(&self) -> String {
        let Envelope {
            command,
            date,
            commit,
            machine,
            corpora,
            ..
        } = &self.envelope;
        let mut text = format!("## {}\n\n", self.name);
        if !self.commentary.is_empty() {
            text += &format!("{}\n\n", self.commentary.trim_end());
        }
        let day = date.split('T').next().unwrap_or_default();
        let memory = digits(machine.memory as f64 / 1e9);
        text += &format!(
            "`{command}`, {day}, {}, {} cores, {memory} GB",
            machine.cpu, machine.cores
        );
        for gpu in &machine.gpus {
            text += &format!(", {gpu}");
        }
        text += &format!(", {}", machine.system);
        if let Some(commit) = commit {
            text += &format!(", commit {commit}");
        }
        text += ".";
        text += &self.spread();
        text.push('\n');
        let tables = corpora.iter().flat_map(|corpus| &corpus.tables);
        let mut titles: Vec<&str> = Vec::new();
        for table in tables.filter(|table| !table.is_detail) {
            if !titles.contains(&&*table.title) {
                titles.push(&table.title);
            }
        }
        for title in titles {
            let of_corpus = |corpus: &'_ MeasuredCorpus| {
                let table = corpus.tables.iter().find(|table| table.title == title)?;
                Some((marked_name(corpus), table.clone()))
            };
            let mut tables: Vec<(String, Table)> = corpora.iter().filter_map(of_corpus).collect();
            if let [(name, table)] = &mut tables[..] {
                // A lone table says what it is about.
                let about = if title.is_empty() { "" } else { ", " };
                table.title = format!("{name}{about}{title}");
            }
            let tables: Vec<(&str, &Table)> = tables
                .iter()
                .map(|(name, table)| (&**name, table))
                .collect();
            text.push('\n');
            text += &markdown(&tables);
        }
        text
    }

    /// How far runs are from the medians that are shown.
    fn spread(&self) -> String {
        let tables = self
            .envelope
            .corpora
            .iter()
            .flat_map(|corpus| &corpus.tables);
        let cells = tables
            .filter(|table| !table.is_detail)
            .flat_map(|table| &table.rows)
            .flat_map(|row| &row.cells);
        let spreads = cells.filter_map(|cell| match *cell {
            Cell::Runs([median, least, most]) if median > 0.0 => {
                Some((median - least).max(most - median) / median * 100.0)
            }
            _ => None,
        });
        match Cell::of_runs(spreads) {
            Cell::Runs([median, _, most]) => format!(
                " Runs differ from their median by up to {median:.0} % in half of the cells, by up to {most:.0} % in all."
            ),
            _ => String::new(),
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::Machine;

    /// A run on two corpora, the second of which is not UTF-8.
    pub fn envelope() -> Envelope {
        let corpus = |name: &str, is_utf8: bool, ours: f64| {
            let mut table = Table::new("ms", ["ZipfDB", "scan"]);
            table.row(
                "count",
                [
                    Cell::of_runs([ours, ours * 0.9, ours * 1.2]),
                    Cell::from(20.0),
                ],
            );
            let mut detail = Table::new("ns", ["ZipfDB"]).detail();
            detail.row("a step", [5.0]);
            MeasuredCorpus {
                name: name.to_owned(),
                bytes: 2_500_000,
                files: 3,
                is_utf8,
                tables: vec![table, detail],
            }
        };
        Envelope {
            suite: "tasks".to_owned(),
            command: "zipfdb-bench tasks --corpus a b".to_owned(),
            date: "2026-01-31T12:00:00Z".to_owned(),
            commit: Some("abc".to_owned()),
            machine: Machine {
                cpu: "a processor".to_owned(),
                cores: 2,
                memory: 24_000_000_000,
                gpus: Vec::new(),
                system: "Linux 6".to_owned(),
            },
            versions: Vec::new(),
            corpora: vec![corpus("a", true, 4.0), corpus("b", false, 5.5)],
            notes: Vec::new(),
        }
    }

    #[test]
    fn results_have_commentary_command_machine_and_tables() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text);
        write("introduction.md", "# Results\n").expect("a file");
        write("tasks.md", "One. Two. Three.\n").expect("a file");
        write("size.md", "Without JSON it has no section.\n").expect("a file");
        let path = folder.path().join("tasks.json");
        envelope().write(&path).expect("it is numbers and strings");
        let sections = sections(folder.path()).expect("files are as written");
        let text = render(folder.path(), &sections).expect("there is an introduction");
        let expected = "\
# Results

| corpus   |   MB | files |
|----------|-----:|------:|
| a        | 2.50 |     3 |
| b[^utf8] | 2.50 |     3 |

[^utf8]: Not all of it is UTF-8: SQLite FTS5 and tantivy got other bytes replaced, ZipfDB did not.

- [tasks](#tasks)

## tasks

One. Two. Three.

`zipfdb-bench tasks --corpus a b`, 2026-01-31, a processor, 2 cores, 24 GB, Linux 6, commit abc. Runs differ from their \
median by up to 20 % in half of the cells, by up to 20 % in all.

| ms: ZipfDB / scan |      a |  b[^utf8] |
|-------------------|-------:|----------:|
| count             | 4 / 20 | 5.50 / 20 |
";
        assert_eq!(text, expected);
    }

    #[test]
    fn runs_on_single_corpora_are_one_section() {
        let folder = tempfile::tempdir().expect("a folder");
        let all = envelope();
        for (index, name) in ["tasks.a.json", "tasks.b.json"].into_iter().enumerate() {
            let mut one = envelope();
            one.corpora = vec![all.corpora[index].clone()];
            one.write(&folder.path().join(name)).expect("it is numbers");
        }
        let whole = Section {
            name: "tasks".to_owned(),
            envelope: all,
            commentary: String::new(),
        };
        let found = sections(folder.path()).expect("both are of one command");
        let found: Vec<String> = found.iter().map(Section::markdown).collect();
        assert_eq!(found, [whole.markdown()]);
        let mut other = envelope();
        other.machine.cores += 1;
        let path = folder.path().join("tasks.c.json");
        other.write(&path).expect("it is numbers");
        let error = sections(folder.path()).err().expect("another machine");
        assert!(error.to_string().contains("tasks.c.json"), "{error}");
    }

    #[test]
    fn a_table_of_one_corpus_is_named_after_it() {
        let mut envelope = envelope();
        envelope.corpora.truncate(1);
        let section = Section {
            name: "tasks".to_owned(),
            envelope,
            commentary: String::new(),
        };
        assert!(section.markdown().contains("| a, ms | ZipfDB | scan |"));
    }
}
