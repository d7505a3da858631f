//! Completion of statements and dot commands.
//!
//! Invariant: candidates fit the place of the cursor as far as the tokens before it show; nothing is run or read but
//! the names of corpora and, for paths, one directory. Names are found in any case and keywords are written in the case
//! that was begun.

use std::path::Path;

use super::scan::{Kind, Token, scan};
use crate::command::{self, Argument};
use crate::output::Format;
use crate::vocabulary::{
    self, FUNCTIONS, INDEX_KINDS, INSERTED, KEYWORDS, SETTINGS, STATEMENTS, TABLE_FUNCTIONS,
    TableFunction, VALUES, WORDS,
};

/// Candidates for one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    /// The byte of the text from which a candidate replaces what was typed.
    pub start: usize,
    /// What could stand there, sorted.
    pub candidates: Vec<String>,
}

impl Completion {
    fn new(start: usize, mut candidates: Vec<String>) -> Completion {
        candidates.sort();
        candidates.dedup();
        Completion { start, candidates }
    }
}

/// Completes SQL: `text` is all lines of what is being typed, `at` the cursor in it.
pub fn statement(text: &str, at: usize, corpora: &[String]) -> Completion {
    let all = Tokens::of(text, at);
    let mut before: Vec<Token> = scan(&text[..at]);
    if matches!(before.last(), Some(last) if last.kind == Kind::Comment && is_open_comment(text, *last, at))
    {
        return Completion::new(at, Vec::new());
    }
    before.retain(|token| token.kind != Kind::Comment);
    if let Some(end) = before
        .iter()
        .rposition(|token| &text[token.start..token.end] == ";")
    {
        before.drain(..=end);
    }
    let partial = before.pop_if(|last| last.end == at && is_partial(last.kind));
    let place = Place {
        text,
        before: &before,
        partial: partial.map_or("", |partial| &text[partial.start..at]),
        corpora,
    };
    match partial {
        Some(Token {
            kind: Kind::Text { .. },
            start,
            ..
        }) => {
            let typed = &text[start + 1..at];
            let close = if text[at..].starts_with('\'') {
                ""
            } else {
                "'"
            };
            Completion::new(start + 1, place.in_text(typed, close))
        }
        Some(Token {
            kind: Kind::Number, ..
        }) => Completion::new(at, Vec::new()),
        Some(Token { start, .. }) => Completion::new(start, place.candidates(&all)),
        None => Completion::new(at, place.candidates(&all)),
    }
}

/// Completes a dot command. `at` is the cursor in `line`.
pub fn command(line: &str, at: usize, corpora: &[String]) -> Completion {
    let typed = &line[..at];
    let begin = typed.len() - typed.trim_start().len();
    let Some(name_end) = typed[begin..]
        .find(char::is_whitespace)
        .map(|end| begin + end)
    else {
        let names = command::names().filter(|name| name.starts_with(&typed[begin..]));
        return Completion::new(begin, names.map(String::from).collect());
    };
    let (count, start) = command::last_argument(&typed[name_end..]);
    let start = name_end + start;
    let partial = &typed[start..];
    let kinds = command::arguments(&typed[begin..name_end]);
    let Some(kind) = kinds.get(count) else {
        return Completion::new(at, Vec::new());
    };
    let bare = partial.trim_start_matches(['\'', '"']);
    let starting = |all: Vec<String>| {
        all.into_iter()
            .filter(|name| starts_with(name, bare))
            .map(|name| command::quoted(&name))
            .collect()
    };
    let candidates = match kind {
        Argument::Corpus => starting(corpora.to_vec()),
        Argument::Format => starting(Format::names().map(String::from).collect()),
        Argument::ParameterAction => starting(vec!["clear".into(), "list".into(), "set".into()]),
        Argument::Switch => starting(vec!["off".into(), "on".into()]),
        Argument::Path => paths(bare)
            .iter()
            .map(|path| command::quoted(path))
            .collect(),
        Argument::CorpusOrPath => {
            let mut all: Vec<String> = starting(corpora.to_vec());
            all.extend(paths(bare).iter().map(|path| command::quoted(path)));
            all
        }
    };
    Completion::new(start, candidates)
}

/// What a completion can replace.
fn is_partial(kind: Kind) -> bool {
    match kind {
        Kind::Word | Kind::Number => true,
        Kind::Text { is_closed } | Kind::Name { is_closed } => !is_closed,
        Kind::Comment | Kind::Symbol => false,
    }
}

fn is_open_comment(text: &str, comment: Token, at: usize) -> bool {
    let is_block = text[comment.start..].starts_with("/*");
    comment.end == at && (!is_block || !text[comment.start..at].ends_with("*/"))
}

fn starts_with(name: &str, partial: &str) -> bool {
    let mut typed = partial.chars().flat_map(char::to_lowercase);
    let mut letters = name.chars().flat_map(char::to_lowercase);
    typed.all(|letter| letters.next() == Some(letter))
}

/// The tokens of the statement around the cursor, and those after it.
struct Tokens<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    /// How many parentheses are open at the cursor.
    depth: usize,
}

impl Tokens<'_> {
    fn of(text: &str, at: usize) -> Tokens<'_> {
        let mut tokens = scan(text);
        tokens.retain(|token| token.kind != Kind::Comment);
        let is_end = |token: &Token| &text[token.start..token.end] == ";";
        if let Some(end) = tokens
            .iter()
            .position(|token| token.start >= at && is_end(token))
        {
            tokens.truncate(end);
        }
        if let Some(end) = tokens.iter().rposition(is_end) {
            tokens.drain(..=end);
        }
        let depth = tokens
            .iter()
            .rfind(|token| token.start < at)
            .map_or(0, |token| {
                let opens = &text[token.start..token.end] == "(";
                token.depth + usize::from(opens)
            });
        Tokens {
            text,
            tokens,
            depth,
        }
    }

    fn word(&self, index: usize) -> &str {
        self.tokens
            .get(index)
            .map_or("", |token| &self.text[token.start..token.end])
    }

    /// The columns of what FROM names, nearest to the cursor; of everything if there is no FROM yet.
    fn columns(&self) -> Vec<String> {
        let is_from = |index: &usize| self.word(*index).eq_ignore_ascii_case("from");
        let froms: Vec<usize> = (0..self.tokens.len()).filter(is_from).collect();
        let outwards = (0..=self.depth).rev();
        let from = outwards
            .chain(self.depth + 1..=self.depth + froms.len())
            .find_map(|depth| {
                let mut same = froms.iter();
                same.find(|from| self.tokens[**from].depth == depth && self.word(**from + 1) != "(")
            });
        let source = from.map_or("", |from| self.word(from + 1));
        let is_call = from.is_some_and(|from| self.word(from + 2) == "(");
        let mut columns: Vec<String> = match TableFunction::find(source) {
            Some(function) if is_call => function.columns(),
            _ => WORDS.iter().map(|(name, _)| name.to_string()).collect(),
        };
        if source.is_empty() {
            let all = TABLE_FUNCTIONS.iter();
            columns.extend(all.flat_map(TableFunction::columns));
        }
        let aliases = (0..self.tokens.len()).filter(|index| {
            self.word(*index).eq_ignore_ascii_case("as")
                && self
                    .tokens
                    .get(index + 1)
                    .is_some_and(|next| next.kind == Kind::Word)
        });
        columns.extend(aliases.map(|index| self.word(index + 1).to_string()));
        columns
    }
}

/// The cursor and what stands before it.
struct Place<'a> {
    text: &'a str,
    /// Tokens of the statement before the one that is being typed.
    before: &'a [Token],
    partial: &'a str,
    corpora: &'a [String],
}

impl Place<'_> {
    /// The token that is `back` before the one being typed, in upper case; empty if there is none.
    fn back(&self, back: usize) -> String {
        let index = self.before.len().checked_sub(back);
        let token = index.and_then(|index| self.before.get(index));
        token.map_or(String::new(), |token| {
            self.text[token.start..token.end].to_ascii_uppercase()
        })
    }

    fn first(&self) -> String {
        self.back(self.before.len())
    }

    /// True in `CREATE INDEX`.
    fn is_index(&self) -> bool {
        self.back(self.before.len() - 1) == "INDEX"
    }

    /// True between `COPY name` and its path: there FROM and TO name no relation.
    fn is_copy_path(&self) -> bool {
        self.first() == "COPY"
            && matches!(self.back(1).as_str(), "FROM" | "TO")
            && self.before.last().is_some_and(|last| last.depth == 0)
    }

    /// True within the parentheses of `WITH (...)` or `SET (...)`.
    fn is_in_options(&self) -> bool {
        let open = self
            .before
            .iter()
            .rposition(|token| &self.text[token.start..token.end] == "(");
        let is_option_list = open.is_some_and(|open| {
            let back = self.before.len() - open;
            matches!(self.back(back + 1).as_str(), "WITH" | "SET")
        });
        is_option_list && self.first() != "SELECT"
    }

    /// True within the parentheses that name the columns of INSERT.
    fn is_in_inserted(&self) -> bool {
        let closes = |token: &Token| &self.text[token.start..token.end] == ")";
        !self.before.iter().any(closes)
    }

    /// True right behind those parentheses.
    fn is_behind_inserted(&self) -> bool {
        let is = |token: &&Token| &self.text[token.start..token.end] == ")";
        self.before.iter().filter(is).count() == 1
    }

    /// The values of the setting or option before a `=` or `TO`.
    fn values(&self) -> &'static [&'static str] {
        if !matches!(self.back(1).as_str(), "=" | "TO") || self.is_copy_path() {
            return &[];
        }
        let name = self.back(2).to_ascii_lowercase();
        let is_setting = self.first() == "SET" && self.before.len() == 3;
        let found = VALUES.iter().find(|(known, _)| *known == name);
        found
            .filter(|_| is_setting || self.is_in_options())
            .map_or(&[], |(_, values)| values)
    }

    /// True for the first argument of a table function of a corpus.
    fn is_corpus_argument(&self) -> bool {
        let function = TableFunction::find(&self.back(2));
        self.back(1) == "("
            && self.back(3) == "FROM"
            && function.is_some_and(|function| function.is_of_corpus)
    }

    /// Candidates for the inside of quotes, of which `typed` is there.
    fn in_text(&self, typed: &str, close: &str) -> Vec<String> {
        if self.is_copy_path() || (self.back(1) == "TO" && self.first() == "COPY") {
            let paths = paths(&typed.replace("''", "'"));
            let quoted = |path: String| {
                let end = if path.ends_with('/') { "" } else { close };
                format!("{}{end}", path.replace('\'', "''"))
            };
            return paths.into_iter().map(quoted).collect();
        }
        let all: Vec<String> = if self.is_corpus_argument() {
            self.corpora.to_vec()
        } else {
            self.values().iter().copied().map(String::from).collect()
        };
        all.into_iter()
            .filter(|name| starts_with(name, typed))
            .map(|name| format!("{}{close}", name.replace('\'', "''")))
            .collect()
    }

    /// Candidates outside of quotes.
    fn candidates(&self, all: &Tokens) -> Vec<String> {
        let mut found = Found {
            place: self,
            candidates: Vec::new(),
        };
        let previous = self.back(1);
        match (self.first().as_str(), previous.as_str()) {
            ("", _) => found.keywords(STATEMENTS),
            _ if self.is_copy_path() => found.exactly("'"),
            ("INSERT" | "REPLACE", "INTO") | ("RECOMPRESS", "RECOMPRESS") => found.corpora(),
            ("INSERT" | "REPLACE", "INSERT" | "REPLACE") => found.keywords(&["INTO"]),
            ("INSERT" | "REPLACE", _) if self.before.len() == 3 => found.exactly("("),
            ("INSERT" | "REPLACE", "(" | ",") if self.is_in_inserted() => {
                found.names(INSERTED, "");
            }
            ("INSERT" | "REPLACE", ")") if self.is_behind_inserted() => {
                found.keywords(&["VALUES", "SELECT"]);
            }
            ("UPDATE", "UPDATE") => found.corpora(),
            ("UPDATE", _) if self.before.len() == 2 => found.keywords(&["SET"]),
            ("DELETE", "DELETE") => found.keywords(&["FROM"]),
            ("DELETE", "FROM") => found.corpora(),
            ("DELETE", _) if self.before.len() == 3 => found.keywords(&["WHERE"]),
            ("BEGIN" | "COMMIT" | "ROLLBACK", _) => {
                if self.before.len() == 1 {
                    found.keywords(&["TRANSACTION"]);
                }
            }
            ("COPY", "COPY") | ("CHECK", "CHECK") | ("ALTER" | "DROP", "CORPUS") => {
                found.corpora();
                if self.first() == "DROP" {
                    found.keywords(&["IF EXISTS"]);
                }
            }
            ("DROP", "EXISTS") => found.corpora(),
            ("CREATE", "CORPUS") => found.keywords(&["IF NOT EXISTS"]),
            ("CREATE" | "ALTER" | "DROP", "CREATE" | "ALTER" | "DROP") => {
                found.keywords(match self.first().as_str() {
                    "CREATE" => &["CORPUS", "INDEX", "TEMP VIEW", "VIEW"],
                    "DROP" => &["CORPUS", "INDEX", "VIEW"],
                    _ => &["CORPUS"],
                });
            }
            ("CREATE", "INDEX" | "VIEW") => found.keywords(&["IF NOT EXISTS"]),
            ("DROP", "INDEX" | "VIEW") => found.keywords(&["IF EXISTS"]),
            ("SET" | "RESET", "SET" | "RESET") => found.names(SETTINGS, ""),
            ("SET", _) if self.before.len() == 2 => {
                found.exactly("=");
                found.keywords(&["TO"]);
            }
            _ if !self.values().is_empty() => {
                for value in self.values() {
                    found.exactly(&vocabulary::text(value));
                }
            }
            ("CREATE" | "ALTER" | "COPY", "(" | ",") if self.is_in_options() => {
                found.names(
                    match self.first().as_str() {
                        "CREATE" if self.is_index() => &["codec", "positions", "reorder", "unit"],
                        "CREATE" => &[
                            "ingest",
                            "recompress_threshold",
                            "segment_size",
                            "tokenizer",
                        ],
                        "ALTER" => &["ingest", "recompress_threshold", "segment_size"],
                        _ => &[
                            "compression",
                            "encoding",
                            "fields",
                            "format",
                            "name",
                            "on_conflict",
                            "on_error",
                            "records",
                            "strip",
                            "text",
                            "unpack_limit",
                        ],
                    },
                    " = ",
                );
            }
            ("CREATE", "ON") if self.is_index() => found.corpora(),
            ("CREATE", "USING") if self.is_index() => found.names(INDEX_KINDS, ""),
            ("CREATE", _) if self.is_index() => {
                let has = |word: &str| {
                    let mut tokens = self.before.iter();
                    tokens.any(|token| self.text[token.start..token.end].eq_ignore_ascii_case(word))
                };
                found.keywords(match (has("ON"), has("USING")) {
                    (false, _) => &["ON"],
                    (true, false) => &["USING"],
                    (true, true) => &["WITH"],
                });
            }
            ("CREATE", _) => found.keywords(&["WITH"]),
            ("ALTER", _) if self.before.len() == 3 => {
                found.keywords(&["ADD COLUMN", "DROP COLUMN", "SET"]);
            }
            ("COPY", _) if self.before.len() == 2 => found.keywords(&["FROM", "TO"]),
            ("COPY", _) if previous.starts_with('\'') => found.keywords(&["WITH"]),
            ("EXPLAIN", "EXPLAIN") => found.keywords(&["ANALYZE", "SELECT"]),
            ("EXPLAIN", "ANALYZE") | ("COPY", "(") if self.before.len() == 2 => {
                found.keywords(&["SELECT"])
            }
            (_, "FROM") => {
                found.corpora();
                for function in TABLE_FUNCTIONS {
                    let end = if function.is_of_corpus { "('" } else { "()" };
                    found.names(&[function.name], end);
                }
            }
            (_, "(") if self.back(2) == "FROM" => found.keywords(&["SELECT"]),
            _ if self.is_corpus_argument() => {
                for corpus in self.corpora {
                    found.exactly(&vocabulary::text(corpus));
                }
            }
            (_, ".") => found.columns(all),
            (_, "GROUP" | "ORDER") => found.keywords(&["BY"]),
            (_, "AS") => {}
            _ => {
                found.columns(all);
                found.names(FUNCTIONS, "(");
                found.keywords(KEYWORDS);
            }
        }
        found.candidates
    }
}

/// Gathers what begins like the word being typed.
struct Found<'a> {
    place: &'a Place<'a>,
    candidates: Vec<String>,
}

impl Found<'_> {
    /// Something that has no case.
    fn exactly(&mut self, text: &str) {
        if starts_with(text, self.place.partial) {
            self.candidates.push(text.to_string());
        }
    }

    fn corpora(&mut self) {
        let partial = self.place.partial;
        for corpus in self.place.corpora {
            let written = vocabulary::name(corpus);
            if starts_with(corpus, partial) || starts_with(&written, partial) {
                self.candidates.push(written);
            }
        }
    }

    /// Names are lower case unless upper case was begun.
    fn names(&mut self, names: &[&str], end: &str) {
        let partial = self.place.partial;
        let is_upper =
            partial.contains(char::is_uppercase) && !partial.contains(char::is_lowercase);
        let matching = names.iter().filter(|name| starts_with(name, partial));
        self.candidates.extend(matching.map(|name| {
            if is_upper {
                format!("{}{end}", name.to_uppercase())
            } else {
                format!("{name}{end}")
            }
        }));
    }

    fn columns(&mut self, all: &Tokens) {
        let columns = all.columns();
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        self.names(&columns, "");
    }

    /// Keywords are upper case unless lower case was begun, here or with the statement.
    fn keywords(&mut self, keywords: &[&str]) {
        let place = self.place;
        let begun = match (place.partial, place.before.first()) {
            ("", Some(first)) => &place.text[first.start..first.end],
            (partial, _) => partial,
        };
        let is_lower = begun.contains(char::is_lowercase);
        let matching = keywords
            .iter()
            .filter(|keyword| starts_with(keyword, place.partial));
        self.candidates.extend(matching.map(|keyword| {
            if is_lower {
                keyword.to_lowercase()
            } else {
                keyword.to_string()
            }
        }));
    }
}

/// Paths that begin with `typed`; those of directories end with a slash. Hidden ones only if their dot is there.
fn paths(typed: &str) -> Vec<String> {
    let (folder, prefix) = match typed.rfind('/') {
        Some(slash) => typed.split_at(slash + 1),
        None => ("", typed),
    };
    let place = if folder.is_empty() { "." } else { folder };
    let Ok(entries) = std::fs::read_dir(Path::new(place)) else {
        return Vec::new();
    };
    let mut paths = Vec::new();
    for entry in entries.flatten() {
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        if !name.starts_with(prefix) || (name.starts_with('.') && !prefix.starts_with('.')) {
            continue;
        }
        let is_folder = std::fs::metadata(entry.path()).is_ok_and(|metadata| metadata.is_dir());
        let slash = if is_folder { "/" } else { "" };
        paths.push(format!("{folder}{name}{slash}"));
    }
    paths
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Completes at the `|`, and gives the candidates.
    fn at_bar(marked: &str) -> Vec<String> {
        completed(marked).candidates
    }

    fn completed(marked: &str) -> Completion {
        let at = marked.find('|').unwrap();
        let text = marked.replacen('|', "", 1);
        let corpora = [
            "notes".to_string(),
            "my mail".to_string(),
            "Novels".to_string(),
        ];
        if text.starts_with('.') {
            command(&text, at, &corpora)
        } else {
            statement(&text, at, &corpora)
        }
    }

    #[test]
    fn keywords_follow_the_case_that_was_begun() {
        assert_eq!(at_bar("se|"), ["select", "set"]);
        assert_eq!(at_bar("SE|"), ["SELECT", "SET"]);
        assert_eq!(at_bar("SELECT word FROM notes WHE|"), ["WHEN", "WHERE"]);
        assert_eq!(
            at_bar("SELECT word FROM notes gr|"),
            ["greatest(", "group by", "group_concat("]
        );
        assert_eq!(at_bar("select word from notes order |"), ["by"]);
        assert_eq!(at_bar("create |"), ["corpus", "index", "temp view", "view"]);
        assert_eq!(at_bar("DROP |"), ["CORPUS", "INDEX", "VIEW"]);
        assert_eq!(at_bar("DROP VIEW |"), ["IF EXISTS"]);
        assert_eq!(at_bar("create view |"), ["if not exists"]);
        assert_eq!(at_bar("CREATE INDEX i |"), ["ON"]);
        assert_eq!(at_bar("create index i on not|"), ["notes"]);
        assert_eq!(at_bar("create index i on notes |"), ["using"]);
        assert_eq!(at_bar("CREATE INDEX i ON notes USING |"), INDEX_KINDS);
        let options = "CREATE INDEX i ON notes USING postings WITH (";
        assert_eq!(at_bar(&format!("{options}re|")), ["reorder = "]);
        let units = ["'block:4096'", "'file'"];
        assert_eq!(at_bar(&format!("{options}unit = |")), units);
        assert_eq!(
            at_bar("SELECT 1; c|"),
            [
                "check",
                "commit",
                "copy",
                "create corpus",
                "create index",
                "create temp view",
                "create view"
            ]
        );
    }

    #[test]
    fn statements_of_changes_are_completed() {
        assert_eq!(at_bar("ins|"), ["insert into"]);
        assert_eq!(at_bar("INSERT |"), ["INTO"]);
        assert_eq!(at_bar("INSERT INTO no|"), ["Novels", "notes"]);
        assert_eq!(at_bar("REPLACE INTO notes |"), ["("]);
        assert_eq!(
            at_bar("INSERT INTO notes (|"),
            ["content", "file", "offset"]
        );
        assert_eq!(at_bar("INSERT INTO notes (file, con|"), ["content"]);
        assert_eq!(
            at_bar("INSERT INTO notes (file, content) |"),
            ["SELECT", "VALUES"]
        );
        assert_eq!(at_bar("delete |"), ["from"]);
        assert_eq!(at_bar("DELETE FROM no|"), ["Novels", "notes"]);
        assert_eq!(at_bar("DELETE FROM notes |"), ["WHERE"]);
        assert_eq!(at_bar("DELETE FROM notes WHERE fil|"), ["file", "filter"]);
        assert_eq!(at_bar("BEGIN |"), ["TRANSACTION"]);
        assert_eq!(at_bar("RECOMPRESS no|"), ["Novels", "notes"]);
        assert_eq!(at_bar("SET durability = 'o|"), ["off'"]);
    }

    #[test]
    fn from_offers_corpora_and_table_functions() {
        assert_eq!(at_bar("SELECT * FROM no|"), ["Novels", "notes"]);
        assert_eq!(at_bar("SELECT * FROM NO|"), ["Novels", "notes"]);
        assert_eq!(at_bar("SELECT * FROM my|"), ["\"my mail\""]);
        assert_eq!(at_bar("SELECT * FROM \"my|"), ["\"my mail\""]);
        assert_eq!(at_bar("SELECT * FROM ng|"), ["ngrams('"]);
        assert_eq!(at_bar("SELECT * FROM corp|"), ["corpora()"]);
        assert_eq!(at_bar("SELECT * FROM (|"), ["SELECT"]);
        assert_eq!(
            at_bar("SELECT * FROM files('|"),
            ["Novels'", "my mail'", "notes'"]
        );
        assert_eq!(
            at_bar("SELECT * FROM files(|"),
            ["'Novels'", "'my mail'", "'notes'"]
        );
        assert_eq!(at_bar("SELECT * FROM files('no|')"), ["Novels", "notes"]);
        assert_eq!(at_bar("DROP CORPUS n|"), ["Novels", "notes"]);
        assert_eq!(at_bar("CHECK n|"), ["Novels", "notes"]);
    }

    #[test]
    fn columns_are_those_of_the_relation() {
        assert_eq!(at_bar("SELECT wo| FROM notes"), ["word"]);
        assert_eq!(at_bar("SELECT WO| FROM notes"), ["WORD"]);
        assert_eq!(at_bar("SELECT ng| FROM ngrams('notes', 3)"), ["ngram"]);
        assert_eq!(at_bar("SELECT ng| FROM notes"), [] as [&str; 0]);
        assert_eq!(at_bar("SELECT ng|"), ["ngram"]);
        assert_eq!(at_bar("SELECT COUNT(wo|) FROM notes"), ["word"]);
        assert_eq!(at_bar("SELECT n.wo| FROM notes AS n"), ["word"]);
        assert_eq!(
            at_bar("SELECT x FROM (SELECT con| FROM files('notes'))"),
            ["concat(", "concat_ws(", "content"]
        );
        assert_eq!(
            at_bar("SELECT word, COUNT(*) AS total_n\nFROM notes GROUP BY word ORDER BY tot|"),
            ["total(", "total_n"]
        );
        // Of two statements on a line each has its own.
        assert_eq!(
            at_bar("SELECT 1 FROM notes; SELECT cont| FROM files('notes')"),
            ["content"]
        );
    }

    #[test]
    fn settings_options_and_their_values_are_offered() {
        assert_eq!(at_bar("SET st|"), ["statement_timeout", "strategy"]);
        assert_eq!(at_bar("SET device |"), ["=", "TO"]);
        assert_eq!(at_bar("SET device = |"), ["'auto'", "'cpu'", "'cuda'"]);
        assert_eq!(at_bar("SET device TO 'c|"), ["cpu'", "cuda'"]);
        assert_eq!(at_bar("RESET me|"), ["memory_limit"]);
        assert_eq!(at_bar("CREATE CORPUS x WITH (tok|"), ["tokenizer = "]);
        assert_eq!(
            at_bar("CREATE CORPUS x WITH (tokenizer = 'u|"),
            ["unicode'"]
        );
        assert_eq!(
            at_bar("ALTER CORPUS notes SET (|"),
            ["ingest = ", "recompress_threshold = ", "segment_size = "]
        );
        assert_eq!(
            at_bar("COPY notes FROM 'x' WITH (compression = '|"),
            ["fast'", "grammar'"]
        );
        assert_eq!(
            at_bar("COPY notes FROM 'x' WITH (on_error = '|"),
            ["skip'", "stop'"]
        );
    }

    #[test]
    fn nothing_is_offered_within_texts_comments_and_numbers() {
        for text in [
            "SELECT 'se|",
            "SELECT 1|",
            "SELECT -- se|",
            "SELECT /* se|",
            "SELECT x AS wo|",
        ] {
            assert_eq!(at_bar(text), [] as [&str; 0], "{text}");
        }
    }

    #[test]
    fn paths_are_read_from_the_directory() {
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path().to_str().unwrap();
        for name in ["a.txt", "a b.txt", "it's", ".hidden"] {
            std::fs::write(directory.path().join(name), "").unwrap();
        }
        std::fs::create_dir(directory.path().join("all")).unwrap();
        let named = |marked: &str| {
            let candidates = at_bar(&marked.replace("DIR", folder));
            let short = |path: &String| path.replace(folder, "DIR");
            candidates.iter().map(short).collect::<Vec<String>>()
        };
        assert_eq!(
            named("COPY notes FROM 'DIR/a|"),
            ["DIR/a b.txt'", "DIR/a.txt'", "DIR/all/"]
        );
        assert_eq!(named("COPY notes TO 'DIR/i|"), ["DIR/it''s'"]);
        assert_eq!(named("COPY notes TO 'DIR/.h|"), ["DIR/.hidden'"]);
        assert_eq!(named("COPY (SELECT 1) TO 'DIR/al|"), ["DIR/all/"]);
        assert_eq!(
            named(".read DIR/a|"),
            ["'DIR/a b.txt'", "DIR/a.txt", "DIR/all/"]
        );
        assert_eq!(named(".import 'DIR/a |"), ["'DIR/a b.txt'"]);
        assert_eq!(at_bar("COPY notes FROM |"), ["'"]);
    }

    #[test]
    fn commands_and_their_arguments_are_offered() {
        assert_eq!(at_bar(".se|"), [".settings"]);
        assert_eq!(at_bar(".mode js|"), ["json", "jsonl"]);
        assert_eq!(at_bar(".timer |"), ["off", "on"]);
        assert_eq!(at_bar(".schema no|"), ["Novels", "notes"]);
        assert_eq!(at_bar(".schema m|"), ["'my mail'"]);
        assert_eq!(at_bar(".import x.txt no|"), ["Novels", "notes"]);
        assert_eq!(at_bar(".quit |"), [] as [&str; 0]);
        assert_eq!(completed(".mode js|").start, 6);
    }

    #[test]
    fn every_place_of_every_text_is_safe() {
        let text =
            "SELECT \u{e9}'\u{4e2d}' FROM (files('my \u{1f600}', \"x) -- \n /* ; */ COPY a TO '";
        for (at, _) in text.char_indices() {
            let completion = statement(text, at, &["a".into()]);
            assert!(completion.start <= at && text.is_char_boundary(completion.start));
            command(text, at, &[]);
        }
    }
}
