//! The parser of ZipfDB's own statements: CREATE and DROP CORPUS, COPY, CHECK; and the refusal of all others.
//!
//! Invariant: a plain left-to-right walk over the tokens, no recursion. SELECT is not parsed here.

use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::error::{Error, Hint, Result, quote, shorten};
use crate::lex::{Source, byte_of, end_of};
use crate::suggest;
use crate::syntax::{Name, Operand, OperandKind, OptionSetting, StatementKind};
use crate::value::Value;

/// Statements that the later dialect will have.
const LATER: &str = "\
    ALTER ANALYZE BEGIN COMMIT DELETE END EXPLAIN INSERT RECOMPRESS REPLACE RESET ROLLBACK SET \
    SHOW START VALUES WITH";

/// Statements of other databases.
const FOREIGN: &str = "\
    ATTACH CALL DESCRIBE DETACH GRANT IMPORT EXPORT LOAD MERGE OPTIMIZE PRAGMA PREPARE EXECUTE \
    REINDEX RELEASE RENAME REVOKE SAVEPOINT TABLE TRUNCATE UPDATE USE VACUUM";

const KNOWN: &[&str] = &["SELECT", "CREATE", "DROP", "COPY", "CHECK"];

/// Things that other databases create and drop.
const FOREIGN_OBJECTS: &str = "\
    DATABASE FUNCTION INDEX MATERIALIZED OR SCHEMA SEQUENCE TABLE TEMP TEMPORARY TRIGGER TYPE \
    UNIQUE VIEW VIRTUAL";

/// Words that cannot be names unless they are quoted, since a SELECT could not use them.
const RESERVED: &str = "\
    ALL AND AS BETWEEN BY CASE CHECK COPY CORPUS CREATE CURRENT_DATE CURRENT_TIME \
    CURRENT_TIMESTAMP DELETE DISTINCT DROP ELSE END EXCEPT EXISTS FALSE FETCH FROM GROUP \
    HAVING IF IN INSERT INTERSECT INTERVAL INTO IS JOIN LATERAL LIKE LIMIT LOCALTIME \
    LOCALTIMESTAMP NOT NULL OFFSET ON OR ORDER SELECT SET STRUCT TABLE THEN TO TOP TRIM TRUE \
    UNION UNNEST UPDATE USING VALUES WHEN WHERE WITH";

fn is_one_of(words: &str, word: &str) -> bool {
    words
        .split(' ')
        .any(|known| known.eq_ignore_ascii_case(word))
}

/// Parses a statement; none if it is a query, for the other parser.
pub(crate) fn parse(source: &Source, tokens: &[TokenWithSpan]) -> Result<Option<StatementKind>> {
    let mut cursor = Cursor {
        source,
        tokens,
        next: 0,
    };
    if matches!(cursor.peek(), Some(Token::LParen)) || cursor.peek_word("SELECT") {
        return Ok(None);
    }
    let begin = cursor.byte();
    let kind = if cursor.take_word("CREATE") {
        cursor.create()?
    } else if cursor.take_word("DROP") {
        cursor.drop()?
    } else if cursor.take_word("COPY") {
        cursor.copy()?
    } else if cursor.take_word("CHECK") {
        StatementKind::Check {
            corpus: cursor.name("the name of a corpus")?,
        }
    } else {
        return Err(cursor.unknown_statement());
    };
    cursor.end(begin)?;
    Ok(Some(kind))
}

struct Cursor<'a> {
    source: &'a Source,
    tokens: &'a [TokenWithSpan],
    next: usize,
}

impl Cursor<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.next).map(|token| &token.token)
    }

    /// The byte of the next token, or the end of the text.
    fn byte(&self) -> usize {
        self.tokens
            .get(self.next)
            .and_then(|token| byte_of(token.span))
            .unwrap_or(self.source.text.trim_end().len())
    }

    /// The next token as it was written.
    fn found(&self) -> String {
        describe_token(self.source, self.tokens.get(self.next))
    }

    fn peek_word(&self, keyword: &str) -> bool {
        matches!(self.peek(), Some(Token::Word(word)) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(keyword))
    }

    fn take_word(&mut self, keyword: &str) -> bool {
        let found = self.peek_word(keyword);
        self.next += usize::from(found);
        found
    }

    fn take(&mut self, token: &Token) -> bool {
        let found = self.peek() == Some(token);
        self.next += usize::from(found);
        found
    }

    fn unexpected(&self, expected: impl Into<String>, hint: Hint) -> Error {
        Error::Syntax {
            at: self.source.at(self.byte()),
            expected: expected.into(),
            found: self.found(),
            hint,
        }
    }

    fn expect_word(&mut self, keyword: &str) -> Result<()> {
        if self.take_word(keyword) {
            return Ok(());
        }
        Err(self.unexpected(format!("`{keyword}`"), self.misspelt(keyword)))
    }

    /// A hint if the next word is nearly the keyword that should stand there.
    fn misspelt(&self, keyword: &str) -> Hint {
        match self.peek() {
            Some(Token::Word(word)) if suggest::nearest(&word.value, [keyword]).is_some() => {
                Hint::new(format!("did you mean `{keyword}`?"))
            }
            _ => Hint::NONE,
        }
    }

    fn expect(&mut self, token: &Token) -> Result<()> {
        if self.take(token) {
            return Ok(());
        }
        Err(self.unexpected(format!("`{token}`"), Hint::NONE))
    }

    fn end(&self, begin: usize) -> Result<()> {
        if self.peek().is_none() {
            return Ok(());
        }
        let end = self.byte().min(self.source.text.len());
        let statement = self.source.text[begin..end].trim_end();
        // A hint that repeats a long statement would hide the error.
        let hint = if statement.len() <= 40 && !statement.contains(char::is_control) {
            Hint::new(format!(
                "`{statement}` is complete; statements are separated by `;`"
            ))
        } else {
            Hint::new("statements are separated by `;`")
        };
        Err(self.unexpected("the end of the statement", hint))
    }

    fn not_supported(&self, byte: usize, what: impl Into<String>, hint: Hint) -> Error {
        Error::NotSupported {
            at: self.source.at(byte),
            what: what.into(),
            hint,
        }
    }

    fn name(&mut self, expected: &str) -> Result<Name> {
        let at = self.byte();
        match self.peek() {
            Some(Token::Word(word)) => {
                let quoted = word.quote_style.is_some();
                if !quoted && is_one_of(RESERVED, &word.value) {
                    return Err(self.unexpected(
                        expected,
                        Hint::new(format!(
                            "a reserved word can be a name in double quotes: \"{}\"",
                            word.value
                        )),
                    ));
                }
                let text = word.value.clone();
                self.next += 1;
                Ok(Name { text, at, quoted })
            }
            Some(Token::SingleQuotedString(text)) => {
                let hint = Hint::new(format!(
                    "names are written bare or in double quotes: \"{}\"",
                    shorten(text)
                ));
                Err(self.unexpected(expected, hint))
            }
            _ => Err(self.unexpected(expected, Hint::NONE)),
        }
    }

    fn operand(&mut self, expected: &str) -> Result<Operand> {
        let at = self.byte();
        let kind = match self.peek() {
            Some(Token::SingleQuotedString(text)) => {
                OperandKind::Literal(Value::Text(text.clone()))
            }
            Some(Token::Number(digits, _)) => {
                OperandKind::Literal(number(self.source, at, digits, false)?)
            }
            Some(Token::Placeholder(name)) => OperandKind::Parameter(parameter_number(name)),
            Some(Token::Minus) => match self.tokens.get(self.next + 1).map(|token| &token.token) {
                Some(Token::Number(digits, _)) => {
                    let value = number(self.source, at, digits, true)?;
                    self.next += 1;
                    OperandKind::Literal(value)
                }
                _ => return Err(self.unexpected(expected, Hint::NONE)),
            },
            Some(Token::Word(word)) if !self.peek_word("NULL") => {
                let hint = Hint::new(format!(
                    "text is written in single quotes: '{}'",
                    shorten(&word.value)
                ));
                return Err(self.unexpected(expected, hint));
            }
            Some(Token::Word(_)) => OperandKind::Literal(Value::Null),
            Some(Token::HexStringLiteral(digits)) => {
                OperandKind::Literal(Value::Blob(blob(digits)))
            }
            _ => return Err(self.unexpected(expected, Hint::NONE)),
        };
        self.next += 1;
        Ok(Operand { at, kind })
    }

    /// `WITH (key = value, ...)`, or nothing.
    fn options(&mut self) -> Result<Vec<OptionSetting>> {
        let mut options: Vec<OptionSetting> = Vec::new();
        if !self.take_word("WITH") {
            return Ok(options);
        }
        self.expect(&Token::LParen)?;
        if self.take(&Token::RParen) {
            return Ok(options);
        }
        loop {
            let key = self.name("the name of an option")?;
            if let Some(first) = options
                .iter()
                .find(|option| option.key.text.eq_ignore_ascii_case(&key.text))
            {
                return Err(Error::Conflict {
                    at: self.source.at(key.at),
                    message: format!("option {} is given twice", quote(&first.key.text)),
                    hint: Hint::NONE,
                });
            }
            self.expect(&Token::Eq)?;
            let value = self.operand("a text, a number or a parameter")?;
            options.push(OptionSetting { key, value });
            if self.take(&Token::RParen) {
                return Ok(options);
            }
            if !self.take(&Token::Comma) {
                return Err(self.unexpected("`,` or `)`", Hint::NONE));
            }
        }
    }

    /// Reads CORPUS, or refuses the tables of other databases.
    fn corpus_word(&mut self, verb: &str) -> Result<()> {
        if self.take_word("CORPUS") {
            return Ok(());
        }
        let object = match self.peek() {
            Some(Token::Word(word)) if word.quote_style.is_none() => {
                word.value.to_ascii_uppercase()
            }
            _ => String::new(),
        };
        if is_one_of(FOREIGN_OBJECTS, &object) {
            return Err(self.not_supported(
                self.byte(),
                format!("`{verb} {object}`"),
                Hint::new(format!("text is kept in corpora: `{verb} CORPUS name`")),
            ));
        }
        Err(self.unexpected("`CORPUS`", self.misspelt("CORPUS")))
    }

    fn create(&mut self) -> Result<StatementKind> {
        self.corpus_word("CREATE")?;
        let if_not_exists = self.take_word("IF");
        if if_not_exists {
            self.expect_word("NOT")?;
            self.expect_word("EXISTS")?;
        }
        let name = self.name("a name for the corpus")?;
        if matches!(self.peek(), Some(Token::LParen)) {
            return Err(self.unexpected(
                "`WITH` or the end of the statement",
                Hint::new("every corpus has the same columns: file, word, offset, length"),
            ));
        }
        let options = self.options()?;
        Ok(StatementKind::CreateCorpus {
            name,
            if_not_exists,
            options,
        })
    }

    fn drop(&mut self) -> Result<StatementKind> {
        self.corpus_word("DROP")?;
        let if_exists = self.take_word("IF");
        if if_exists {
            self.expect_word("EXISTS")?;
        }
        let name = self.name("the name of a corpus")?;
        Ok(StatementKind::DropCorpus { name, if_exists })
    }

    fn copy(&mut self) -> Result<StatementKind> {
        if matches!(self.peek(), Some(Token::LParen)) {
            return Err(self.not_supported(
                self.byte(),
                "`COPY (SELECT ...)`",
                Hint::new("`COPY corpus TO 'directory'` writes a corpus' files"),
            ));
        }
        let corpus = self.name("the name of a corpus")?;
        if self.take_word("FROM") {
            let path =
                self.operand("the path of a file, a directory or a glob, in single quotes")?;
            let options = self.options()?;
            Ok(StatementKind::CopyFrom {
                corpus,
                path,
                options,
            })
        } else if self.take_word("TO") {
            let directory = self.operand("the path of a directory, in single quotes")?;
            if self.peek_word("WITH") {
                return Err(self.not_supported(self.byte(), "`WITH` in `COPY ... TO`", Hint::NONE));
            }
            Ok(StatementKind::CopyTo { corpus, directory })
        } else {
            Err(self.unexpected("`FROM` or `TO`", Hint::NONE))
        }
    }

    fn unknown_statement(&self) -> Error {
        let Some(Token::Word(word)) = self.peek() else {
            return self.unexpected("a statement", Hint::NONE);
        };
        let upper = word.value.to_ascii_uppercase();
        if word.quote_style.is_none() && (is_one_of(LATER, &upper) || is_one_of(FOREIGN, &upper)) {
            let hint = match upper.as_str() {
                "INSERT" | "REPLACE" | "LOAD" | "IMPORT" => {
                    Hint::new("`COPY corpus FROM 'path'` adds files to a corpus")
                }
                "DELETE" | "TRUNCATE" => Hint::new("`DROP CORPUS name` removes a whole corpus"),
                "SHOW" | "DESCRIBE" | "TABLE" => {
                    Hint::new("`SELECT * FROM corpora()` lists the corpora")
                }
                "ANALYZE" => Hint::new("`CHECK corpus` reads and checks a corpus"),
                "EXPORT" => Hint::new("`COPY corpus TO 'directory'` writes a corpus' files"),
                _ => Hint::NONE,
            };
            return self.not_supported(self.byte(), format!("`{upper}`"), hint);
        }
        let known = KNOWN.iter().copied();
        let hint = match suggest::nearest(&word.value, known.chain(LATER.split(' '))) {
            Some(keyword) if word.quote_style.is_none() => {
                Hint::new(format!("did you mean `{keyword}`?"))
            }
            _ => Hint::new(format!("statements begin with {}", KNOWN.join(", "))),
        };
        self.unexpected("a statement", hint)
    }
}

/// A token as it was written, shortened; or that there is none.
pub(crate) fn describe_token(source: &Source, token: Option<&TokenWithSpan>) -> String {
    let Some(token) = token else {
        return "the end of the statement".to_owned();
    };
    let begin = byte_of(token.span).unwrap_or(0);
    let end = end_of(token.span).unwrap_or(begin);
    format!(
        "`{}`",
        shorten(source.text.get(begin..end).unwrap_or_default())
    )
}

/// The value of a number: an integer if it is written as one.
pub(crate) fn number(source: &Source, at: usize, digits: &str, negative: bool) -> Result<Value> {
    let sign = if negative { "-" } else { "" };
    let text = format!("{sign}{digits}");
    let out_of_range = |bounds: &str| Error::OutOfRange {
        at: source.at(at),
        what: "a number".to_owned(),
        bounds: bounds.to_owned(),
        found: shorten(&text),
        hint: Hint::NONE,
    };
    if digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return match text.parse() {
            Ok(value) => Ok(Value::Integer(value)),
            Err(_) => Err(out_of_range(
                "in -9223372036854775808..=9223372036854775807 if it has no fraction",
            )),
        };
    }
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(Value::Real(value)),
        _ => Err(out_of_range("below 1.8e308")),
    }
}

/// The number in `?N`, the only form of parameters that `lex` makes.
pub(crate) fn parameter_number(placeholder: &str) -> usize {
    placeholder
        .strip_prefix('?')
        .and_then(|digits| digits.parse().ok())
        .expect("lex numbers every parameter")
}

/// The bytes of X'..', whose digits `lex` has checked.
pub(crate) fn blob(digits: &str) -> Vec<u8> {
    let digit = |byte: u8| {
        char::from(byte)
            .to_digit(16)
            .expect("lex admits only hexadecimal digits") as u8
    };
    digits
        .as_bytes()
        .chunks_exact(2)
        .map(|pair| digit(pair[0]) << 4 | digit(pair[1]))
        .collect()
}

#[cfg(test)]
mod tests {
    use sqlparser::keywords::ALL_KEYWORDS;

    use super::*;
    use crate::parse::parse;

    fn from_name(text: &str) -> Option<String> {
        match &parse(text).ok()?.first()?.kind {
            StatementKind::Select(select) => Some(select.from.name.text.clone()),
            _ => None,
        }
    }

    #[test]
    fn every_name_that_create_takes_can_be_queried() {
        for keyword in ALL_KEYWORDS {
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
            .all(|query| from_name(query).as_deref() == Some(*keyword));
            assert!(queried || !created, "{keyword}");
        }
    }
}
