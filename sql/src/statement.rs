//! The parser of ZipfDB's own statements: CREATE, ALTER and DROP CORPUS, CREATE and DROP VIEW and INDEX, COPY, CHECK, SET, EXPLAIN;
//! and the refusal of all others.
//!
//! Invariant: a plain left-to-right walk over the tokens, no recursion. SELECT is parsed in `parse`, what changes files in
//! `change`.

use crate::change;
use crate::cursor::{Cursor, is_one_of};
use crate::error::{Error, Hint, Result, quote};
use crate::lex::{SourceText, Token, TokenKind};
use crate::mistake;
use crate::parse_query::query;
use crate::plan::ExplainFormat;
use crate::suggest;
use crate::syntax::{DeclaredColumn, Insert, InsertSource, OptionSetting, Select, StatementKind};
use crate::types;

/// Statements of other databases.
const FOREIGN: &str = "\
    ANALYZE ATTACH CALL DESCRIBE DETACH GRANT IMPORT EXPORT LOAD MERGE OPTIMIZE PRAGMA PREPARE EXECUTE REINDEX RELEASE \
    RENAME REVOKE SAVEPOINT SHOW START TABLE TRUNCATE USE VACUUM VALUES";

const KNOWN: &[&str] = &[
    "SELECT",
    "WITH",
    "INSERT",
    "REPLACE",
    "UPDATE",
    "DELETE",
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
    "CREATE",
    "ALTER",
    "DROP",
    "COPY",
    "CHECK",
    "RECOMPRESS",
    "EXPLAIN",
    "SET",
    "RESET",
];

/// Things that other databases create and drop.
const FOREIGN_OBJECTS: &str = "\
    DATABASE FUNCTION MATERIALIZED OR SCHEMA SEQUENCE TABLE TEMP TEMPORARY TRIGGER TYPE UNIQUE VIRTUAL";

/// Parses a statement.
pub(crate) fn parse(source: &SourceText, tokens: &[Token]) -> Result<StatementKind> {
    let mut parser = Parser {
        cursor: Cursor::new(source, tokens),
    };
    let begin = parser.cursor.byte();
    let kind = parser.statement()?;
    let query = matches!(
        &kind,
        StatementKind::Select(_)
            | StatementKind::Insert(Insert {
                source: InsertSource::Query(_),
                ..
            })
    );
    parser.end(begin, query)?;
    Ok(kind)
}

struct Parser<'a> {
    cursor: Cursor<'a>,
}

impl Parser<'_> {
    fn statement(&mut self) -> Result<StatementKind> {
        if self.begins_query() {
            return self.query().map(StatementKind::Select);
        }
        let cursor = &mut self.cursor;
        if cursor.take_word("CREATE") {
            self.create()
        } else if cursor.take_word("ALTER") {
            self.alter()
        } else if cursor.take_word("DROP") {
            self.drop()
        } else if cursor.take_word("COPY") {
            self.copy()
        } else if cursor.take_word("CHECK") {
            Ok(StatementKind::Check {
                corpus: cursor.name("the name of a corpus")?,
            })
        } else if cursor.take_word("SET") {
            self.set()
        } else if cursor.take_word("RESET") {
            Ok(StatementKind::Reset {
                name: cursor.name("the name of a setting")?,
            })
        } else if cursor.take_word("INSERT") {
            change::insert(cursor, false)
        } else if cursor.take_word("REPLACE") {
            change::insert(cursor, true)
        } else if cursor.take_word("UPDATE") {
            change::update(cursor)
        } else if cursor.take_word("DELETE") {
            change::delete(cursor)
        } else if cursor.take_word("BEGIN") {
            change::begin(cursor)
        } else if cursor.take_word("COMMIT") || cursor.take_word("END") {
            change::end(cursor, StatementKind::Commit)
        } else if cursor.take_word("ROLLBACK") {
            change::end(cursor, StatementKind::Rollback)
        } else if cursor.take_word("RECOMPRESS") {
            Ok(StatementKind::Recompress {
                corpus: cursor.name("the name of a corpus")?,
            })
        } else if cursor.peek_word("EXPLAIN") {
            self.explain()
        } else {
            Err(self.unknown_statement())
        }
    }

    fn begins_query(&self) -> bool {
        self.cursor.peek_word("SELECT") || self.cursor.peek_word("WITH")
    }

    fn query(&mut self) -> Result<Vec<Select>> {
        query(&mut self.cursor)
    }

    fn end(&self, begin: usize, query: bool) -> Result<()> {
        let cursor = &self.cursor;
        if cursor.peek().is_none() {
            return Ok(());
        }
        if query {
            return Err(mistake::explain(cursor, "the end of the statement"));
        }
        let statement = cursor.source.text[begin..cursor.byte()].trim_end();
        // A hint that repeats a long statement would hide the error.
        let hint = if statement.len() <= 40 && !statement.contains(char::is_control) {
            Hint::new(format!(
                "`{statement}` is complete; statements are separated by `;`"
            ))
        } else {
            Hint::new("statements are separated by `;`")
        };
        Err(cursor.unexpected("the end of the statement", hint))
    }

    /// `WITH (key = value, ...)`, or nothing.
    fn with(&mut self) -> Result<Vec<OptionSetting>> {
        if self.cursor.take_word("WITH") {
            self.options()
        } else {
            Ok(Vec::new())
        }
    }

    /// `(key = value, ...)`.
    fn options(&mut self) -> Result<Vec<OptionSetting>> {
        let cursor = &mut self.cursor;
        let mut options: Vec<OptionSetting> = Vec::new();
        cursor.expect("(")?;
        if cursor.take(")") {
            return Ok(options);
        }
        loop {
            let key = cursor.name("the name of an option")?;
            if let Some(first) = options
                .iter()
                .find(|option| option.key.text.eq_ignore_ascii_case(&key.text))
            {
                return Err(Error::Conflict {
                    at: cursor.source.at(key.at),
                    message: format!("option {} is given twice", quote(&first.key.text)),
                    hint: Hint::NONE,
                });
            }
            cursor.expect("=")?;
            let value = cursor.operand("a text, a number or a parameter")?;
            options.push(OptionSetting { key, value });
            if cursor.take(")") {
                return Ok(options);
            }
            if !cursor.take(",") {
                return Err(cursor.unexpected("`,` or `)`", Hint::NONE));
            }
        }
    }

    /// Reads CORPUS, or refuses the tables of other databases.
    fn corpus_word(&mut self, verb: &str) -> Result<()> {
        let cursor = &mut self.cursor;
        if cursor.take_word("CORPUS") {
            return Ok(());
        }
        let object = cursor.word_at(0).unwrap_or_default().to_ascii_uppercase();
        if is_one_of(FOREIGN_OBJECTS, &object) {
            return Err(cursor.not_supported(
                cursor.byte(),
                format!("`{verb} {object}`"),
                Hint::new(format!("text is kept in corpora: `{verb} CORPUS name`")),
            ));
        }
        Err(cursor.unexpected("`CORPUS`", cursor.misspelt("CORPUS")))
    }

    fn create(&mut self) -> Result<StatementKind> {
        let is_temporary = ["TEMP", "TEMPORARY"]
            .iter()
            .any(|word| self.cursor.peek_word(word) && self.cursor.is_word_at(1, "VIEW"));
        if is_temporary {
            self.cursor.advance();
        }
        if self.cursor.take_word("VIEW") {
            return self.create_view(is_temporary);
        }
        if self.cursor.take_word("INDEX") {
            return self.create_index();
        }
        self.corpus_word("CREATE")?;
        let if_not_exists = self.if_not_exists()?;
        let name = self.cursor.name("a name for the corpus")?;
        let columns = if self.cursor.take("(") {
            self.columns()?
        } else {
            Vec::new()
        };
        let options = self.with()?;
        Ok(StatementKind::CreateCorpus {
            name,
            if_not_exists,
            columns,
            options,
        })
    }

    /// `name type, ...)`.
    fn columns(&mut self) -> Result<Vec<DeclaredColumn>> {
        let mut columns = Vec::new();
        loop {
            columns.push(self.column()?);
            if self.cursor.take(")") {
                return Ok(columns);
            }
            if !self.cursor.take(",") {
                let hint = "a column has a name and a type; all values may be NULL";
                return Err(self.cursor.unexpected("`,` or `)`", Hint::new(hint)));
            }
        }
    }

    /// `name type`.
    fn column(&mut self) -> Result<DeclaredColumn> {
        let cursor = &mut self.cursor;
        let name = cursor.name("the name of a column")?;
        let kind = types::kind_at(cursor).ok_or_else(|| {
            let known = ["TEXT", "INTEGER", "REAL", "BOOLEAN", "DATE", "TIMESTAMP"];
            let near = cursor
                .word_at(0)
                .and_then(|word| suggest::nearest(word, known));
            let hint = match near {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("types are {}", known.join(", ")),
            };
            cursor.unexpected("the type of the column", Hint::new(hint))
        })?;
        Ok(DeclaredColumn { name, kind })
    }

    /// `[IF NOT EXISTS] name AS SELECT ...`.
    fn create_view(&mut self, is_temporary: bool) -> Result<StatementKind> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.cursor.name("a name for the view")?;
        if self.cursor.peek_symbol("(") {
            let hint = "name columns in the list of its SELECT";
            return Err(self.cursor.refuse("a view with columns", hint));
        }
        self.cursor.expect_word("AS")?;
        if !self.begins_query() {
            return Err(self.cursor.unexpected("`SELECT`", Hint::NONE));
        }
        let begin = self.cursor.byte();
        let query = self.query()?;
        let text = begin..self.cursor.end_of_previous();
        if self.cursor.peek().is_some() {
            return Err(mistake::explain(&self.cursor, "the end of the statement"));
        }
        Ok(StatementKind::CreateView {
            name,
            is_temporary,
            if_not_exists,
            query,
            text,
        })
    }

    /// `[IF NOT EXISTS] name ON corpus USING kind [WITH (...)]`.
    fn create_index(&mut self) -> Result<StatementKind> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.cursor.name("a name for the index")?;
        self.cursor.expect_word("ON")?;
        let corpus = self.cursor.name("the name of a corpus")?;
        if self.cursor.peek_symbol("(") {
            let hint = "an index is of all words of a corpus: `USING postings` says what is stored";
            return Err(self.cursor.refuse("an index of columns", hint));
        }
        self.cursor.expect_word("USING")?;
        let kind = self.cursor.name("what the index is made of")?;
        let options = self.with()?;
        Ok(StatementKind::CreateIndex {
            name,
            if_not_exists,
            corpus,
            kind,
            options,
        })
    }

    /// `IF NOT EXISTS`, if it is there.
    fn if_not_exists(&mut self) -> Result<bool> {
        let is_there = self.cursor.take_word("IF");
        if is_there {
            self.cursor.expect_word("NOT")?;
            self.cursor.expect_word("EXISTS")?;
        }
        Ok(is_there)
    }

    /// `IF EXISTS`, if it is there.
    fn if_exists(&mut self) -> Result<bool> {
        let is_there = self.cursor.take_word("IF");
        if is_there {
            self.cursor.expect_word("EXISTS")?;
        }
        Ok(is_there)
    }

    fn alter(&mut self) -> Result<StatementKind> {
        self.corpus_word("ALTER")?;
        let corpus = self.cursor.name("the name of a corpus")?;
        if self.cursor.take_word("ADD") {
            self.cursor.take_word("COLUMN");
            let column = self.column()?;
            return Ok(StatementKind::AddColumn { corpus, column });
        }
        if self.cursor.take_word("DROP") {
            self.cursor.take_word("COLUMN");
            let column = self.cursor.name("the name of a column")?;
            return Ok(StatementKind::DropColumn { corpus, column });
        }
        for verb in ["RENAME", "RESET"] {
            if self.cursor.peek_word(verb) {
                return Err(self.cursor.not_supported(
                    self.cursor.byte(),
                    format!("`ALTER CORPUS ... {verb}`"),
                    Hint::new("`ALTER CORPUS name SET (option = value)` changes options"),
                ));
            }
        }
        self.cursor.expect_word("SET")?;
        let options = self.options()?;
        Ok(StatementKind::AlterCorpus { corpus, options })
    }

    fn drop(&mut self) -> Result<StatementKind> {
        if self.cursor.take_word("VIEW") {
            let if_exists = self.if_exists()?;
            let name = self.cursor.name("the name of a view")?;
            return Ok(StatementKind::DropView { name, if_exists });
        }
        if self.cursor.take_word("INDEX") {
            let if_exists = self.if_exists()?;
            let name = self.cursor.name("the name of an index")?;
            return Ok(StatementKind::DropIndex { name, if_exists });
        }
        self.corpus_word("DROP")?;
        let if_exists = self.if_exists()?;
        let name = self.cursor.name("the name of a corpus")?;
        Ok(StatementKind::DropCorpus { name, if_exists })
    }

    fn copy(&mut self) -> Result<StatementKind> {
        if self.cursor.take("(") {
            return self.copy_query();
        }
        let corpus = self.cursor.name("the name of a corpus")?;
        if self.cursor.take_word("FROM") {
            let expected = "the path of a file, a directory or a glob, in single quotes";
            let path = self.cursor.operand(expected)?;
            let options = self.with()?;
            Ok(StatementKind::CopyFrom {
                corpus,
                path,
                options,
            })
        } else if self.cursor.take_word("TO") {
            let path = self
                .cursor
                .operand("the path of a directory, in single quotes")?;
            if self.cursor.peek_word("WITH") {
                let at = self.cursor.byte();
                let what = "`WITH` in `COPY ... TO`";
                return Err(self.cursor.not_supported(at, what, Hint::NONE));
            }
            Ok(StatementKind::CopyTo { corpus, path })
        } else {
            Err(self.cursor.unexpected("`FROM` or `TO`", Hint::NONE))
        }
    }

    fn copy_query(&mut self) -> Result<StatementKind> {
        if !self.begins_query() {
            return Err(self.cursor.unexpected("`SELECT`", Hint::NONE));
        }
        let query = self.query()?;
        if !self.cursor.take(")") {
            return Err(mistake::explain(&self.cursor, "`)`"));
        }
        if self.cursor.peek_word("FROM") {
            let hint = Hint::new("`COPY corpus FROM 'path'` adds files to a corpus");
            return Err(self.cursor.unexpected("`TO`", hint));
        }
        self.cursor.expect_word("TO")?;
        let path = self
            .cursor
            .operand("the path of a file, in single quotes")?;
        let options = self.with()?;
        Ok(StatementKind::CopyQuery {
            query,
            path,
            options,
        })
    }

    fn set(&mut self) -> Result<StatementKind> {
        let name = self.cursor.name("the name of a setting")?;
        if !self.cursor.take("=") && !self.cursor.take_word("TO") {
            return Err(self.cursor.unexpected("`=` or `TO`", Hint::NONE));
        }
        let value = self.cursor.operand("a text, a number or a parameter")?;
        Ok(StatementKind::Set { name, value })
    }

    fn explain(&mut self) -> Result<StatementKind> {
        let at = self.cursor.byte();
        self.cursor.advance();
        if self.cursor.peek_word("QUERY") {
            let hint = Hint::new("write `EXPLAIN SELECT ...`");
            return Err(self.cursor.not_supported(
                self.cursor.byte(),
                "`EXPLAIN QUERY PLAN`",
                hint,
            ));
        }
        let (mut analyze, mut format) = (false, ExplainFormat::Text);
        if self.cursor.take("(") {
            (analyze, format) = self.explain_options()?;
        } else if self.cursor.take_word("ANALYZE") {
            analyze = true;
        }
        if !self.begins_query() {
            if self.cursor.peek().is_none() || self.cursor.peek_symbol("(") {
                return Err(self.cursor.unexpected("`SELECT`", Hint::NONE));
            }
            return Err(self.cursor.not_supported(
                at,
                "`EXPLAIN` of anything but SELECT",
                Hint::new("`EXPLAIN SELECT ...` shows how a query is answered"),
            ));
        }
        let query = self.query()?;
        if self.cursor.peek().is_some() {
            return Err(mistake::explain(&self.cursor, "the end of the statement"));
        }
        Ok(StatementKind::Explain {
            query,
            analyze,
            format,
        })
    }

    /// `ANALYZE, FORMAT json)`, in any order, as far as it is there.
    fn explain_options(&mut self) -> Result<(bool, ExplainFormat)> {
        let (mut analyze, mut format) = (false, ExplainFormat::Text);
        loop {
            if self.cursor.take_word("ANALYZE") {
                analyze = true;
            } else if self.cursor.take_word("FORMAT") {
                format = if self.cursor.take_word("JSON") {
                    ExplainFormat::Json
                } else if self.cursor.take_word("TEXT") {
                    ExplainFormat::Text
                } else {
                    return Err(self.cursor.unexpected("`JSON` or `TEXT`", Hint::NONE));
                };
            } else {
                let hint = Hint::new("write `EXPLAIN (FORMAT json) SELECT ...`");
                return Err(self.cursor.unexpected("`ANALYZE` or `FORMAT`", hint));
            }
            if self.cursor.take(")") {
                return Ok((analyze, format));
            }
            self.cursor.expect(",")?;
        }
    }

    fn unknown_statement(&self) -> Error {
        let cursor = &self.cursor;
        if cursor.peek_symbol("(") {
            let hint = Hint::new("write the query without the parentheses");
            return cursor.not_supported(cursor.byte(), "a query in parentheses", hint);
        }
        let Some(word) = cursor.word_at(0) else {
            let quoted = matches!(
                cursor.peek().map(|token| &token.kind),
                Some(TokenKind::QuotedName(_))
            );
            let hint = if quoted {
                Hint::new(format!("statements begin with {}", KNOWN.join(", ")))
            } else {
                Hint::NONE
            };
            return cursor.unexpected("a statement", hint);
        };
        let upper = word.to_ascii_uppercase();
        if is_one_of(FOREIGN, &upper) {
            let hint = match upper.as_str() {
                "LOAD" | "IMPORT" => Hint::new("`COPY corpus FROM 'path'` adds files to a corpus"),
                "TRUNCATE" => Hint::new("`DELETE FROM corpus` removes all files of a corpus"),
                "MERGE" => Hint::new("`REPLACE INTO corpus (file, content)` replaces files"),
                "START" => Hint::new("write `BEGIN`"),
                "SAVEPOINT" | "RELEASE" => Hint::new("transactions are `BEGIN` ... `COMMIT`"),
                "OPTIMIZE" | "VACUUM" => {
                    Hint::new("`RECOMPRESS corpus` merges all changes of a corpus")
                }
                "SHOW" | "PRAGMA" => Hint::new(
                    "`SELECT * FROM corpora()` lists the corpora, `SELECT * FROM settings()` the settings",
                ),
                "DESCRIBE" | "TABLE" => Hint::new("`SELECT * FROM corpora()` lists the corpora"),
                "ANALYZE" => Hint::new("`CHECK corpus` reads and checks a corpus"),
                "EXPORT" => Hint::new("`COPY corpus TO 'directory'` writes a corpus' files"),
                "VALUES" => Hint::new("`SELECT 1, 2` gives one row of values"),
                _ => Hint::NONE,
            };
            return cursor.not_supported(cursor.byte(), format!("`{upper}`"), hint);
        }
        let hint = match suggest::nearest(word, KNOWN.iter().copied()) {
            Some(keyword) => Hint::new(format!("did you mean `{keyword}`?")),
            None => Hint::new(format!("statements begin with {}", KNOWN.join(", "))),
        };
        cursor.unexpected("a statement", hint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cursor::special_words;
    use crate::parse::parse;
    use crate::syntax::FromKind;

    fn from_name(text: &str) -> Option<String> {
        match &parse(text).ok()?.first()?.kind {
            StatementKind::Select(query) => match &query[0].from.as_ref()?.kind {
                FromKind::Corpus(name) => Some(name.text.clone()),
                _ => None,
            },
            _ => None,
        }
    }

    #[test]
    fn every_name_that_create_takes_can_be_queried() {
        let statements = KNOWN.iter().copied();
        let others = FOREIGN.split(' ');
        let functions = [
            "CAST", "COUNT", "FILTER", "FIRST", "IF", "LAST", "NULLS", "REPLACE",
        ];
        for keyword in special_words()
            .chain(statements)
            .chain(others)
            .chain(functions)
        {
            let created = parse(&format!("CREATE CORPUS {keyword}")).is_ok();
            let queried = [
                format!("SELECT COUNT(*) FROM {keyword}"),
                format!("SELECT COUNT(*) FROM {keyword} WHERE word = 'a'"),
                format!("SELECT word FROM {keyword} GROUP BY word ORDER BY word LIMIT 1"),
                format!(
                    "SELECT {keyword}.word FROM {keyword} AS {keyword} WHERE {keyword}.word = 'a'"
                ),
            ]
            .iter()
            .all(|query| from_name(query).as_deref() == Some(keyword));
            assert!(queried || !created, "{keyword}");
        }
    }
}
