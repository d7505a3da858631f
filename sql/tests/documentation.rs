//! docs/SQL.md and the parser agree.
//!
//! Invariant: every statement and example of the page is a plan, every error that it shows is that error, every function is
//! there. What statements return is tested where there is an engine.

use std::cell::RefCell;
use std::sync::Arc;

use zipfdb_sql::query::MetadataColumn;
use zipfdb_sql::{Plan, Schema, Value, ValueKind, ViewDefinition, bind, parse, substr_range};

const PAGE: &str = include_str!("../../docs/SQL.md");

/// Knows the corpora, views and columns of files that statements of the page have created.
#[derive(Default)]
struct Corpora(
    RefCell<Vec<String>>,
    RefCell<Vec<ViewDefinition>>,
    RefCell<Vec<(String, MetadataColumn)>>,
);

impl Corpora {
    fn declare(&self, corpus: &str, name: String, kind: ValueKind) {
        let mut columns = self.2.borrow_mut();
        let id = u32::try_from(columns.len()).unwrap();
        columns.push((corpus.to_owned(), MetadataColumn { id, name, kind }));
    }
}

impl Schema for Corpora {
    fn corpora(&self) -> Vec<String> {
        self.0.borrow().clone()
    }

    fn views(&self) -> Vec<ViewDefinition> {
        self.1.borrow().clone()
    }

    fn metadata(&self, corpus: &str) -> Vec<MetadataColumn> {
        let columns = self.2.borrow();
        let columns = columns.iter().filter(|(of, _)| of == corpus);
        columns.map(|(_, column)| column.clone()).collect()
    }
}

/// The texts of all code blocks in a language.
fn blocks(language: &str) -> Vec<&'static str> {
    PAGE.split("```")
        .skip(1)
        .step_by(2)
        .filter_map(|block| block.strip_prefix(language)?.strip_prefix('\n'))
        .collect()
}

#[test]
fn every_statement_of_the_page_is_a_plan() {
    let corpora = Corpora::default();
    let mut count = 0;
    for block in blocks("sql") {
        for statement in parse(block).unwrap_or_else(|error| panic!("{block}\n{error}")) {
            let parameters: [Value; 3] = ["1941.txt".into(), 101.into(), 64.into()];
            let parameters = parameters.map(Arc::new);
            let plan = bind(
                &statement,
                &corpora,
                &parameters[..statement.parameter_count()],
            )
            .unwrap_or_else(|error| panic!("{}\n{error}", statement.text()));
            match plan {
                Plan::CreateCorpus { name, columns, .. } => {
                    for (column, kind) in columns {
                        corpora.declare(&name, column, kind);
                    }
                    corpora.0.borrow_mut().push(name);
                }
                Plan::AddColumn { corpus, name, kind } => corpora.declare(&corpus, name, kind),
                Plan::DropCorpus { name, .. } => {
                    corpora.0.borrow_mut().retain(|known| *known != name)
                }
                Plan::CreateView {
                    name,
                    is_temporary,
                    sql,
                    ..
                } => corpora.1.borrow_mut().push(ViewDefinition {
                    name,
                    sql,
                    is_temporary,
                }),
                Plan::DropView { name, .. } => {
                    corpora.1.borrow_mut().retain(|known| known.name != name)
                }
                _ => {}
            }
            count += 1;
        }
    }
    assert!(count > 50, "{count}");
}

#[test]
fn every_error_of_the_page_is_that_error() {
    let is_error = |line: &&str| line.starts_with(|first: char| first.is_ascii_digit());
    let corpora = Corpora(
        RefCell::new(vec!["speeches".to_owned()]),
        RefCell::default(),
        RefCell::default(),
    );
    let statements = [
        "SELECT COUNT(*) FROM speaches",
        "SELECT wrod FROM speeches WHERE word = 'a'",
        "SELECT file, COUNT(*) FROM speeches",
        "SELECT (SELECT words FROM files('speeches') AS f WHERE f.file = s.file) FROM speeches AS s",
        "SELECT word FORM speeches",
        r"SELECT 'a' REGEXP '\w{2000}'",
    ];
    let shown: Vec<String> = statements
        .iter()
        .map(|statement| match parse(statement) {
            Ok(parsed) => bind(&parsed[0], &corpora, &[]).unwrap_err().to_string(),
            Err(error) => error.to_string(),
        })
        .collect();
    let blocks = blocks("text");
    let lines = blocks.iter().flat_map(|block| block.lines());
    assert_eq!(lines.filter(is_error).collect::<Vec<_>>(), shown);
}

#[test]
fn the_table_of_substr_is_true() {
    let mut count = 0;
    for line in PAGE.lines() {
        let Some((call, rest)) = line
            .strip_prefix("| `substr(content, ")
            .and_then(|line| line.split_once(")` | "))
        else {
            continue;
        };
        let gives = rest.split(" | ").next().unwrap();
        let numbers: Vec<Option<i64>> =
            call.split(", ").map(|number| number.parse().ok()).collect();
        let [Some(start), ref length @ ..] = numbers[..] else {
            assert_eq!(gives, "NULL");
            continue;
        };
        let range = substr_range(start, length.first().map(|length| length.unwrap()), 6);
        let bytes = &"abcdef"[range.start.try_into().unwrap()..range.end.try_into().unwrap()];
        assert_eq!(
            if bytes.is_empty() {
                "nothing".to_owned()
            } else {
                format!("`{bytes}`")
            },
            gives,
            "{line}"
        );
        count += 1;
    }
    assert_eq!(count, 8);
}

/// The examples in the last column of tables that say that they are true.
fn examples() -> Vec<String> {
    let mut examples = Vec::new();
    let mut is_true = false;
    for line in PAGE.lines() {
        if !line.starts_with('|') {
            is_true = false;
        } else if line.ends_with("| is true |") {
            is_true = true;
        } else if is_true && !line.starts_with("|---") {
            let (_, example) = line.trim_end_matches(" |").rsplit_once(" | ").unwrap();
            let example = example
                .strip_prefix('`')
                .unwrap()
                .strip_suffix('`')
                .unwrap();
            examples.push(example.replace("\\|", "|"));
        }
    }
    examples
}

#[test]
fn every_example_of_the_page_is_a_plan() {
    let corpora = Corpora::default();
    let examples = examples();
    assert!(examples.len() > 45, "{}", examples.len());
    for example in examples {
        let text = format!("SELECT {example}");
        let plan = parse(&text).and_then(|statements| bind(&statements[0], &corpora, &[]));
        assert!(matches!(plan, Ok(Plan::Query(_))), "{text}: {plan:?}");
    }
}

#[test]
fn every_function_setting_and_column_is_on_the_page() {
    use zipfdb_sql::query::*;
    use zipfdb_sql::search_call::SearchFunction;
    use zipfdb_sql::setting::{Setting, Strategy};

    let functions = "abs avg binding char char_length character_length coalesce concat concat_ws count glob hex if ifnull iif \
        instr length like lower ltrim max min nullif octet_length quote regexp replace round rtrim sign substr substring snippet highlight sum \
        total trim typeof unicode upper zipfdb_version ceil ceiling floor exp ln log log2 log10 pow power sqrt greatest least format printf \
        split_part regexp_extract regexp_replace json_extract date time datetime julianday unixepoch strftime group_concat string_agg \
        median percentile_cont stddev stddev_samp stddev_pop variance var_samp var_pop";
    let page = PAGE.to_lowercase();
    for function in functions.split_whitespace() {
        let alone = format!("`{function}`");
        assert!(
            page.contains(&format!("{function}(")) || page.contains(&alone),
            "{function}"
        );
    }
    let names = Setting::NAMES.into_iter();
    let names = names.chain(WordsColumn::ALL.iter().map(|column| column.name()));
    let names = names.chain(NgramsColumn::ALL.iter().map(|column| column.name()));
    let names = names.chain(TermVectorsColumn::ALL.iter().map(|column| column.name()));
    let names = names.chain(FilesColumn::ALL.iter().map(|column| column.name()));
    let names = names.chain(CorporaColumn::ALL.iter().map(|column| column.name()));
    let names = names.chain(SegmentsColumn::ALL.iter().map(|column| column.name()));
    let names = names.chain(IndexesColumn::ALL.iter().map(|column| column.name()));
    let names = names.chain(FilesWithColumn::ALL.iter().map(|column| column.name()));
    let names = names.chain(NextWordsColumn::ALL.iter().map(|column| column.name()));
    let names = names.chain(PhraseColumn::ALL.iter().map(|column| column.name()));
    let names = names.chain(LongestMatchesColumn::ALL.iter().map(|column| column.name()));
    let names = names.chain(AttributeColumn::ALL.iter().map(|column| column.name()));
    let names = names.chain(OverlapColumn::ALL.iter().map(|column| column.name()));
    let names = names.chain(DuplicatesColumn::ALL.iter().map(|column| column.name()));
    let names = names.chain(CachesColumn::ALL.iter().map(|column| column.name()));
    let names = names.chain(DevicesColumn::ALL.iter().map(|column| column.name()));
    let names = names.chain(RejectsColumn::ALL.iter().map(|column| column.name()));
    let names = names.chain(SettingsColumn::ALL.iter().map(|column| column.name()));
    let functions = SearchFunction::ALL.into_iter();
    let columns = functions.flat_map(|function| function.columns().iter().map(|(name, _)| *name));
    for name in names.chain(columns) {
        assert!(page.contains(&format!("`{name}`")), "{name}");
    }
    for function in SearchFunction::ALL {
        for (name, _) in function.arguments().iter().skip(2) {
            let is_there =
                page.contains(&format!("{name} =>")) || page.contains(&format!("`{name}`"));
            assert!(is_there, "{name} of {}", function.name());
        }
    }
    for strategy in Strategy::ALL {
        assert!(page.contains(&format!("`'{}'`", strategy.name())));
    }
}
