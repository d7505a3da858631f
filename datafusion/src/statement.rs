//! `Select`: a SELECT of ZipfDB's dialect, as text.
//!
//! Invariant: names and texts are quoted, so what is written means what was put in.

use std::fmt;

/// A SELECT of one relation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Select {
    /// Expressions; at least one.
    pub(crate) columns: Vec<String>,
    /// A corpus or a call of a table function.
    pub(crate) from: String,
    /// Conditions that all hold.
    pub(crate) filters: Vec<String>,
    /// Keys of groups.
    pub(crate) groups: Vec<String>,
    /// Expressions with their directions.
    pub(crate) order: Vec<String>,
    /// Rows at most.
    pub(crate) limit: Option<usize>,
}

impl fmt::Display for Select {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "SELECT {} FROM {}",
            self.columns.join(", "),
            self.from
        )?;
        if !self.filters.is_empty() {
            write!(formatter, " WHERE {}", self.filters.join(" AND "))?;
        }
        if !self.groups.is_empty() {
            write!(formatter, " GROUP BY {}", self.groups.join(", "))?;
        }
        if !self.order.is_empty() {
            write!(formatter, " ORDER BY {}", self.order.join(", "))?;
        }
        if let Some(limit) = self.limit {
            write!(formatter, " LIMIT {limit}")?;
        }
        Ok(())
    }
}

/// A name as it is written in SQL.
pub(crate) fn quoted_name(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text as it is written in SQL.
pub(crate) fn quoted_text(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clauses_come_in_their_order_and_quotes_are_doubled() {
        let select = Select {
            columns: vec![quoted_name("a\"b"), "COUNT(*)".into()],
            from: "t".into(),
            filters: vec![format!("x = {}", quoted_text("it's")), "(y OR z)".into()],
            groups: vec!["x".into()],
            order: vec!["2 DESC".into()],
            limit: Some(3),
        };
        let sql = "SELECT \"a\"\"b\", COUNT(*) FROM t WHERE x = 'it''s' AND (y OR z) GROUP BY x ORDER BY 2 DESC LIMIT 3";
        assert_eq!(select.to_string(), sql);
    }
}
