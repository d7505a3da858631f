//! Values for the parameters of statements, as `--param` and `.parameter` set them.
//!
//! Invariant: a statement gets a value for each of its parameters or does not run. What is no text by its quotes and would not be
//! written back as it was given is text: `007` is no other word than `007`.

use std::collections::BTreeMap;

use zipfdb::{Statement, Value};

/// Values by name or number.
#[derive(Debug, Clone, Default)]
pub struct Parameters {
    values: BTreeMap<String, Value>,
}

impl Parameters {
    /// Reads an argument of `--param`: `NAME=VALUE`, `NUMBER=VALUE`, or the value of the next number.
    pub fn add(&mut self, argument: &str) {
        match argument.split_once('=') {
            Some((name, value)) if is_name(bare(name)) => self.set(name, value),
            _ => {
                let numbers = self
                    .values
                    .keys()
                    .filter_map(|name| name.parse::<usize>().ok());
                let next = numbers.max().unwrap_or(0) + 1;
                self.set(&next.to_string(), argument);
            }
        }
    }

    /// Sets a value. Names may be written as in SQL: `?1`, `$1`, `:name`.
    pub fn set(&mut self, name: &str, value: &str) {
        self.values.insert(bare(name).to_owned(), literal(value));
    }

    /// Forgets one value, or all.
    pub fn clear(&mut self, name: Option<&str>) {
        match name {
            Some(name) => drop(self.values.remove(bare(name))),
            None => self.values.clear(),
        }
    }

    /// All names and numbers with their values.
    pub fn all(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.values
            .iter()
            .map(|(name, value)| (name.as_str(), value))
    }

    /// The values for a statement, in order of number, or what is missing.
    pub fn of(&self, statement: &Statement) -> Result<Vec<Value>, String> {
        let names = statement.parameter_names();
        let of_number = |number: usize| {
            let name = names.get(number - 1).and_then(Option::as_deref);
            let named = name.and_then(|name| self.values.get(name));
            let value = named.or_else(|| self.values.get(&number.to_string()));
            value.cloned().ok_or_else(|| {
                let (written, key) = match name {
                    Some(name) => (format!(":{name}"), name.to_owned()),
                    None => (format!("?{number}"), number.to_string()),
                };
                format!(
                    "parameter {written} has no value; hint: `--param {key}=VALUE` or `.parameter set {key} VALUE` gives it one"
                )
            })
        };
        (1..=statement.parameter_count()).map(of_number).collect()
    }
}

/// A name without the sign that it has in SQL.
fn bare(name: &str) -> &str {
    name.strip_prefix(['?', '$', ':', '@']).unwrap_or(name)
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_')
}

/// Digits of a real that the database writes back.
const REAL_DIGITS: usize = 15;

/// A value as it is written: NULL, text in quotes, a BLOB as in SQL, or a number that is written so; anything else is text.
fn literal(written: &str) -> Value {
    let quoted = |text: &str| Some(text.strip_prefix('\'')?.strip_suffix('\'')?.to_owned());
    if let Some(text) = quoted(written).filter(|text| !text.replace("''", "").contains('\'')) {
        return Value::Text(text.replace("''", "'"));
    }
    if let Some(bytes) = written
        .strip_prefix(['x', 'X'])
        .and_then(quoted)
        .and_then(|digits| bytes(&digits))
    {
        return Value::Blob(bytes);
    }
    if written == "NULL" {
        return Value::Null;
    }
    let integer = written.parse().map(Value::Integer);
    let real = written.parse().map(Value::Real);
    let is_same = |value: &Value| value.to_string() == written;
    if let Some(integer) = integer.ok().filter(is_same) {
        return integer;
    }
    let digits = written.bytes().filter(u8::is_ascii_digit).count();
    let is_plain = written
        .bytes()
        .all(|byte| byte.is_ascii_digit() || b"-.".contains(&byte));
    let real = real.ok().filter(|real| {
        let is_negative_zero = *real == Value::Real(0.0) && written.starts_with('-');
        is_plain && digits <= REAL_DIGITS && !is_negative_zero && is_same(real)
    });
    real.unwrap_or_else(|| Value::Text(written.to_owned()))
}

/// The bytes that hexadecimal digits stand for.
fn bytes(digits: &str) -> Option<Vec<u8>> {
    let is_whole =
        digits.len().is_multiple_of(2) && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let pairs = digits.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    is_whole.then(|| pairs.map(byte).collect::<Option<Vec<u8>>>())?
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use zipfdb::Database;

    #[test]
    fn values_are_literals_or_text() {
        for (written, value) in [
            ("7", Value::Integer(7)),
            ("-7", Value::Integer(-7)),
            ("-1.5", Value::Real(-1.5)),
            ("0.1", Value::Real(0.1)),
            ("2.0", Value::Real(2.0)),
            ("NULL", Value::Null),
            ("'7'", Value::Text("7".into())),
            ("'it''s'", Value::Text("it's".into())),
            ("'", Value::Text("'".into())),
            ("'a' || 'b'", Value::Text("'a' || 'b'".into())),
            ("x'00fF'", Value::Blob(vec![0, 255])),
            ("x'0'", Value::Text("x'0'".into())),
            ("two words", Value::Text("two words".into())),
            ("inf", Value::Text("inf".into())),
            ("nan", Value::Text("nan".into())),
            ("", Value::Text(String::new())),
        ] {
            assert_eq!(literal(written), value, "{written}");
        }
    }

    #[test]
    fn what_is_not_written_back_the_same_is_text() {
        let database = Database::in_memory().unwrap();
        for written in [
            "007",
            "+5",
            "-0",
            "1e5",
            "1.5e3",
            "1E5",
            "1.10",
            "1.",
            ".5",
            "-0.0",
            "9223372036854775808",
            "0.1234567890123456789",
            "1234567890.1234567",
            "null",
            "Null",
        ] {
            assert_eq!(literal(written), Value::Text(written.into()), "{written}");
        }
        for written in [
            "0",
            "-7",
            "9223372036854775807",
            "0.1",
            "-1.5",
            "0.0001",
            "123456789.012345",
            "99999999999999.9",
        ] {
            let value = literal(written);
            assert!(!matches!(value, Value::Text(_)), "{written}");
            let sql = "SELECT CAST(? AS TEXT)";
            let row = database.query(sql, &[value]).unwrap().next().unwrap();
            assert_eq!(row.unwrap()[0], Value::from(written));
        }
    }

    #[test]
    fn statements_get_values_by_name_and_number() {
        let database = Database::in_memory().unwrap();
        let mut parameters = Parameters::default();
        for argument in ["one", "word=two", "7=x=y", "a b=c"] {
            parameters.add(argument);
        }
        let of = |sql: &str| parameters.of(&database.prepare(sql).unwrap());
        let text = |text: &str| Value::Text(text.into());
        assert_eq!(
            of("SELECT ?, :word, $word, ?1"),
            Ok(vec![text("one"), text("two")])
        );
        assert_eq!(of("SELECT :word"), Ok(vec![text("two")]));
        let missing = of("SELECT ?7, :other").unwrap_err();
        assert!(
            missing.starts_with("parameter ?2 has no value; hint: `--param 2=VALUE`"),
            "{missing}"
        );
        assert_eq!(parameters.all().count(), 4);
        parameters.clear(Some(":word"));
        assert_eq!(
            parameters.all().map(|(name, _)| name).collect::<Vec<_>>(),
            ["1", "7", "8"]
        );
        parameters.clear(None);
        assert_eq!(parameters.all().count(), 0);
    }
}
