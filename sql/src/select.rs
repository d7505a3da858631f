//! The parser of SELECT: its clauses, and the refusal of those that are not ours.
//!
//! Invariant: a left-to-right walk over the tokens. It descends only into a subquery in FROM, which the limit on nesting
//! bounds. Expressions are parsed in `expression`; names are not looked up here.

use crate::cursor::Cursor;
use crate::error::{Hint, Result, shorten};
use crate::expression::{ExpressionParser, check_depth};
use crate::lex::TokenKind;
use crate::syntax::{Argument, From, FromKind, Item, Name, NodeId, Nodes, OrderTerm, Select};

const ONE_SOURCE: &str = "query one corpus or table function at a time";

/// Parses a query from its SELECT up to a token that cannot belong to it; the innermost SELECT comes first.
pub(crate) fn query(cursor: &mut Cursor<'_>) -> Result<Vec<Select>> {
    let mut query = Vec::new();
    SelectParser { cursor }.select(&mut query, 0)?;
    Ok(query)
}

struct SelectParser<'c, 'a> {
    cursor: &'c mut Cursor<'a>,
}

impl SelectParser<'_, '_> {
    /// Parses a SELECT that stands in `depth` parentheses, and adds it and those within it to `query`.
    fn select(&mut self, query: &mut Vec<Select>, depth: usize) -> Result<()> {
        let at = self.cursor.byte();
        self.cursor.expect_word("SELECT")?;
        let mut nodes = Nodes::default();
        let distinct = self.distinct()?;
        let items = self.items(&mut nodes, depth)?;
        self.refuse_word(
            "INTO",
            "`COPY (SELECT ...) TO 'file.csv'` writes rows to a file",
        )?;
        let from = if self.cursor.take_word("FROM") {
            Some(self.from(query, depth)?)
        } else {
            None
        };
        let filter = self.condition("WHERE", &mut nodes, depth)?;
        let mut group_by = Vec::new();
        if self.cursor.take_word("GROUP") {
            self.cursor.expect_word("BY")?;
            if self.cursor.peek_word("ALL") {
                return Err(self
                    .cursor
                    .refuse("`GROUP BY ALL`", "name the expressions to group by"));
            }
            group_by = self.list(&mut nodes, depth, |_, root| Ok(root))?;
        }
        let having = self.condition("HAVING", &mut nodes, depth)?;
        self.refuse_word("WINDOW", "")?;
        self.refuse_word("QUALIFY", "")?;
        self.refuse_set_operation()?;
        let mut order_by = Vec::new();
        if self.cursor.take_word("ORDER") {
            self.cursor.expect_word("BY")?;
            order_by = self.list(&mut nodes, depth, SelectParser::order_term)?;
        }
        let (mut limit, mut offset) = (None, None);
        for _ in 0..2 {
            if limit.is_none() && self.cursor.take_word("LIMIT") {
                limit = Some(self.cursor.operand("a number or a parameter")?);
                if self.cursor.peek_symbol(",") {
                    let hint = "`LIMIT a, b` is written `LIMIT b OFFSET a`";
                    return Err(self.cursor.refuse("LIMIT with a comma", hint));
                }
            } else if offset.is_none() && self.cursor.take_word("OFFSET") {
                offset = Some(self.cursor.operand("a number or a parameter")?);
                let _ = self.cursor.take_word("ROWS") || self.cursor.take_word("ROW");
            }
        }
        self.refuse_set_operation()?;
        self.refuse_word("FETCH", "`LIMIT n` keeps the first n rows")?;
        self.refuse_word("FOR", "")?;
        query.push(Select {
            at,
            distinct,
            items,
            from,
            filter,
            group_by,
            having,
            order_by,
            limit,
            offset,
            nodes,
        });
        Ok(())
    }

    fn refuse_word(&self, word: &str, hint: &str) -> Result<()> {
        if self.cursor.peek_word(word) {
            return Err(self.cursor.refuse(format!("`{word}`"), hint));
        }
        Ok(())
    }

    fn refuse_set_operation(&self) -> Result<()> {
        for word in ["UNION", "INTERSECT", "EXCEPT"] {
            self.refuse_word(word, "run one SELECT after the other")?;
        }
        Ok(())
    }

    fn distinct(&mut self) -> Result<bool> {
        if self.cursor.peek_word("TOP") && self.cursor.after_next() == Some(&TokenKind::Number) {
            return Err(self
                .cursor
                .refuse("`TOP`", "`LIMIT n` keeps the first n rows"));
        }
        if !self.cursor.take_word("DISTINCT") {
            self.cursor.take_word("ALL");
            return Ok(false);
        }
        if self.cursor.peek_word("ON") {
            return Err(self
                .cursor
                .refuse("`DISTINCT ON`", "GROUP BY gives one row for each group"));
        }
        Ok(true)
    }

    fn expression(&mut self, nodes: &mut Nodes, depth: usize) -> Result<NodeId> {
        ExpressionParser::new(self.cursor, nodes, depth).expression()
    }

    fn condition(
        &mut self,
        keyword: &str,
        nodes: &mut Nodes,
        depth: usize,
    ) -> Result<Option<NodeId>> {
        if !self.cursor.take_word(keyword) {
            return Ok(None);
        }
        self.expression(nodes, depth).map(Some)
    }

    /// Expressions between commas, each finished by `finish`.
    fn list<T>(
        &mut self,
        nodes: &mut Nodes,
        depth: usize,
        finish: impl Fn(&mut Self, NodeId) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut list = Vec::new();
        loop {
            let root = self.expression(nodes, depth)?;
            list.push(finish(self, root)?);
            if !self.cursor.take(",") {
                return Ok(list);
            }
        }
    }

    fn order_term(&mut self, root: NodeId) -> Result<OrderTerm> {
        let descending = self.cursor.take_word("DESC");
        if !descending {
            self.cursor.take_word("ASC");
        }
        let mut nulls_first = None;
        if self.cursor.take_word("NULLS") {
            nulls_first = Some(self.cursor.take_word("FIRST"));
            if nulls_first == Some(false) && !self.cursor.take_word("LAST") {
                return Err(self.cursor.unexpected("`FIRST` or `LAST`", Hint::NONE));
            }
        }
        Ok(OrderTerm {
            root,
            descending,
            nulls_first,
        })
    }

    fn items(&mut self, nodes: &mut Nodes, depth: usize) -> Result<Vec<Item>> {
        let mut items = Vec::new();
        loop {
            items.push(self.item(nodes, depth)?);
            if !self.cursor.take(",") {
                return Ok(items);
            }
        }
    }

    fn item(&mut self, nodes: &mut Nodes, depth: usize) -> Result<Item> {
        let at = self.cursor.byte();
        if self.cursor.take("*") {
            return Ok(Item::Star { at, table: None });
        }
        if self.cursor.symbol_at(1) == Some(".")
            && self.cursor.symbol_at(2) == Some("*")
            && let Some(table) = self.cursor.peek_name()
        {
            (0..3).for_each(|_| self.cursor.advance());
            let table = Some(table);
            return Ok(Item::Star { at, table });
        }
        let root = self.expression(nodes, depth)?;
        let text = at..self.cursor.end_of_previous();
        let alias = self.cursor.alias()?;
        Ok(Item::Expression { root, alias, text })
    }

    fn from(&mut self, query: &mut Vec<Select>, depth: usize) -> Result<From> {
        let kind = if self.cursor.peek_symbol("(") {
            self.subquery(query, depth)?
        } else {
            self.relation()?
        };
        self.refuse_word("TABLESAMPLE", "")?;
        let alias = self.cursor.alias()?;
        if alias.is_some() && self.cursor.peek_symbol("(") {
            return Err(self.cursor.refuse(
                "an alias with columns",
                "name columns in the subquery's list",
            ));
        }
        self.refuse_word("TABLESAMPLE", "")?;
        if self.cursor.peek_symbol(",") {
            return Err(self
                .cursor
                .refuse("more than one source in FROM", ONE_SOURCE));
        }
        for word in ["JOIN", "CROSS", "INNER", "LEFT", "RIGHT", "FULL", "NATURAL"] {
            self.refuse_word(word, ONE_SOURCE)?;
        }
        Ok(From { kind, alias })
    }

    fn subquery(&mut self, query: &mut Vec<Select>, depth: usize) -> Result<FromKind> {
        check_depth(self.cursor, depth + 1)?;
        self.cursor.expect("(")?;
        if !self.cursor.peek_word("SELECT") {
            let hint = Hint::new("parentheses in FROM hold a subquery");
            return Err(self.cursor.unexpected("`SELECT`", hint));
        }
        self.select(query, depth + 1)?;
        if !self.cursor.take(")") {
            return Err(self.cursor.unexpected_in_query("`)`"));
        }
        Ok(FromKind::Subquery)
    }

    fn relation(&mut self) -> Result<FromKind> {
        for word in ["LATERAL", "UNNEST", "VALUES", "TABLE"] {
            if self.cursor.peek_word(word) && self.cursor.symbol_at(1) == Some("(") {
                return Err(self.cursor.refuse(format!("`{word}`"), ""));
            }
        }
        let expected = "the name of a corpus or a table function";
        let name = self.cursor.name(expected)?;
        if self.cursor.peek_symbol(".") {
            let hint = "a name that contains a dot needs double quotes";
            return Err(self.cursor.refuse("a name with a dot", hint));
        }
        if !self.cursor.take("(") {
            return Ok(FromKind::Corpus(name));
        }
        let mut arguments = Vec::new();
        if !self.cursor.take(")") {
            loop {
                arguments.push(self.argument(&name)?);
                if self.cursor.take(")") {
                    break;
                }
                if !self.cursor.take(",") {
                    return Err(self.cursor.unexpected("`,` or `)`", Hint::NONE));
                }
            }
        }
        Ok(FromKind::TableFunction { name, arguments })
    }

    fn argument(&mut self, function: &Name) -> Result<Argument> {
        let name = match self.cursor.symbol_at(1) {
            Some("=>") => {
                let name = self.cursor.name("the name of an argument")?;
                self.cursor.advance();
                Some(name)
            }
            _ => None,
        };
        if let Some(word) = self.cursor.peek_name() {
            let hint = Hint::new(format!(
                "write `{}('{}')`",
                shorten(&function.text),
                shorten(&word.text)
            ));
            return Err(self
                .cursor
                .unexpected("a text, a number or a parameter", hint));
        }
        let value = self.cursor.operand("a text, a number or a parameter")?;
        Ok(Argument { name, value })
    }
}
