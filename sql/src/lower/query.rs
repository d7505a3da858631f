//! SELECT and its clauses.
//!
//! Invariant: as in `lower`. It descends only into the subquery in FROM, which the limit on nesting bounds. Expressions
//! are in `expression`, FROM is in `from`.

use sqlparser::ast;
use sqlparser::ast::{Expr, SelectItem, SetExpr};

use crate::cursor::Cursor;
use crate::error::Result;
use crate::lower::lowering::Lowering;
use crate::mistake;
use crate::syntax::{Item, Name, NodeId, Nodes, Operand, OrderTerm, Select};

/// Adds the SELECT and those within it to `selects`.
pub(super) fn query(
    cursor: &mut Cursor<'_>,
    query: &ast::Query,
    selects: &mut Vec<Select>,
) -> Result<()> {
    let ast::Query {
        with,
        body,
        order_by,
        limit_clause,
        fetch,
        locks,
        for_clause,
        settings,
        format_clause,
        pipe_operators,
    } = query;
    let SetExpr::Select(select) = body.as_ref() else {
        return Err(cursor.unexpected_in_query("`SELECT`"));
    };
    if with.is_some()
        || fetch.is_some()
        || !locks.is_empty()
        || for_clause.is_some()
        || settings.is_some()
        || format_clause.is_some()
        || !pipe_operators.is_empty()
    {
        return Err(cursor.refuse("a clause of this query", ""));
    }
    let mut lowering = Lowering {
        cursor,
        nodes: Nodes::default(),
    };
    let mut lowered = lowering.select(select, selects)?;
    if let Some(order_by) = order_by {
        lowered.order_by = lowering.order_by(order_by)?;
    }
    if let Some(limit_clause) = limit_clause {
        (lowered.limit, lowered.offset) = lowering.limit(limit_clause)?;
    }
    lowered.nodes = lowering.nodes;
    selects.push(lowered);
    Ok(())
}

impl Lowering<'_, '_> {
    /// All but ORDER BY, LIMIT and the nodes.
    fn select(&mut self, select: &ast::Select, selects: &mut Vec<Select>) -> Result<Select> {
        let ast::Select {
            select_token: _,
            optimizer_hints,
            distinct,
            select_modifiers,
            top,
            top_before_distinct: _,
            projection,
            exclude,
            into,
            from,
            lateral_views,
            prewhere,
            selection,
            connect_by,
            group_by,
            cluster_by,
            distribute_by,
            sort_by,
            having,
            named_window,
            qualify,
            window_before_qualify: _,
            value_table_mode,
            flavor,
        } = select;
        if !optimizer_hints.is_empty()
            || select_modifiers.is_some()
            || top.is_some()
            || exclude.is_some()
            || into.is_some()
            || !lateral_views.is_empty()
            || prewhere.is_some()
            || !connect_by.is_empty()
            || !cluster_by.is_empty()
            || !distribute_by.is_empty()
            || !sort_by.is_empty()
            || !named_window.is_empty()
            || qualify.is_some()
            || value_table_mode.is_some()
            || *flavor != ast::SelectFlavor::Standard
        {
            return Err(self.cursor.refuse("this form of SELECT", ""));
        }
        let at = self.cursor.byte();
        self.cursor.expect_word("SELECT")?;
        let distinct = match distinct {
            None => false,
            Some(ast::Distinct::All) => {
                self.cursor.expect_word("ALL")?;
                false
            }
            Some(ast::Distinct::Distinct) => {
                self.cursor.expect_word("DISTINCT")?;
                true
            }
            Some(ast::Distinct::On(_)) => return Err(self.cursor.refuse("`DISTINCT ON`", "")),
        };
        let mut items = Vec::with_capacity(projection.len());
        for (index, item) in projection.iter().enumerate() {
            if index > 0 {
                self.cursor.expect(",")?;
            }
            items.push(self.item(item)?);
        }
        Ok(Select {
            at,
            distinct,
            items,
            from: self.from(from, selects)?,
            filter: self.condition("WHERE", selection.as_ref())?,
            group_by: self.group_by(group_by)?,
            having: self.condition("HAVING", having.as_ref())?,
            order_by: Vec::new(),
            limit: None,
            offset: None,
            nodes: Nodes::default(),
        })
    }

    fn item(&mut self, item: &SelectItem) -> Result<Item> {
        let at = self.cursor.byte();
        match item {
            SelectItem::UnnamedExpr(expr) => self.item_expression(at, expr, false),
            SelectItem::ExprWithAlias { expr, alias: _ } => self.item_expression(at, expr, true),
            SelectItem::Wildcard(options) => {
                self.star(options)?;
                Ok(Item::Star { at, table: None })
            }
            SelectItem::QualifiedWildcard(
                ast::SelectItemQualifiedWildcardKind::ObjectName(_),
                options,
            ) => {
                let table = self.cursor.name("the name of a table")?;
                self.cursor.expect(".")?;
                if !self.cursor.peek_symbol("*") {
                    let hint = "a column is `column` or `alias.column`";
                    return Err(self.cursor.refuse("a name with more than one dot", hint));
                }
                self.star(options)?;
                let table = Some(table);
                Ok(Item::Star { at, table })
            }
            SelectItem::QualifiedWildcard(ast::SelectItemQualifiedWildcardKind::Expr(_), _)
            | SelectItem::ExprWithAliases { .. } => Err(self.cursor.refuse("this item", "")),
        }
    }

    fn item_expression(&mut self, at: usize, expr: &Expr, has_alias: bool) -> Result<Item> {
        let root = self.expression(expr)?;
        let text = at..self.cursor.end_of_previous();
        let alias = self.alias(has_alias)?;
        Ok(Item::Expression { root, alias, text })
    }

    /// The alias that the tree has here.
    pub(super) fn alias(&mut self, has_alias: bool) -> Result<Option<Name>> {
        if !has_alias {
            return Ok(None);
        }
        let alias = self.cursor.alias()?;
        if alias.is_none() {
            return Err(mistake::explain(self.cursor, mistake::ALIAS));
        }
        Ok(alias)
    }

    fn star(&mut self, options: &ast::WildcardAdditionalOptions) -> Result<()> {
        let ast::WildcardAdditionalOptions {
            wildcard_token: _,
            opt_ilike,
            opt_exclude,
            opt_except,
            opt_replace,
            opt_rename,
            opt_alias,
        } = options;
        if opt_ilike.is_some()
            || opt_exclude.is_some()
            || opt_except.is_some()
            || opt_replace.is_some()
            || opt_rename.is_some()
            || opt_alias.is_some()
        {
            return Err(self.cursor.refuse("`*` with a change to it", ""));
        }
        if !self.cursor.take("*") {
            return Err(mistake::explain(self.cursor, "an expression"));
        }
        Ok(())
    }

    fn condition(&mut self, keyword: &str, condition: Option<&Expr>) -> Result<Option<NodeId>> {
        let Some(condition) = condition else {
            return Ok(None);
        };
        self.cursor.expect_word(keyword)?;
        self.expression(condition).map(Some)
    }

    fn group_by(&mut self, group_by: &ast::GroupByExpr) -> Result<Vec<NodeId>> {
        let (exprs, modifiers) = match group_by {
            ast::GroupByExpr::Expressions(exprs, modifiers) => (exprs, modifiers),
            ast::GroupByExpr::All(_) => {
                self.cursor.expect_word("GROUP")?;
                self.cursor.expect_word("BY")?;
                return Err(self
                    .cursor
                    .refuse("`GROUP BY ALL`", "name the expressions to group by"));
            }
        };
        if !modifiers.is_empty() {
            return Err(self.cursor.refuse("this form of GROUP BY", ""));
        }
        let mut roots = Vec::with_capacity(exprs.len());
        for (index, expr) in exprs.iter().enumerate() {
            self.separator(index, "GROUP")?;
            roots.push(self.expression(expr)?);
        }
        Ok(roots)
    }

    /// What stands before an expression of GROUP BY or ORDER BY.
    fn separator(&mut self, index: usize, keyword: &str) -> Result<()> {
        if index > 0 {
            return self.cursor.expect(",");
        }
        self.cursor.expect_word(keyword)?;
        self.cursor.expect_word("BY")
    }

    fn order_by(&mut self, order_by: &ast::OrderBy) -> Result<Vec<OrderTerm>> {
        let ast::OrderBy { kind, interpolate } = order_by;
        let exprs = match kind {
            ast::OrderByKind::Expressions(exprs) if interpolate.is_none() => exprs,
            _ => return Err(self.cursor.refuse("this form of ORDER BY", "")),
        };
        let mut terms = Vec::with_capacity(exprs.len());
        for (index, order) in exprs.iter().enumerate() {
            self.separator(index, "ORDER")?;
            let ast::OrderByExpr {
                expr,
                options: ast::OrderByOptions { sort, nulls_first },
                with_fill,
            } = order;
            if with_fill.is_some() {
                return Err(self.cursor.refuse("`FILL` in ORDER BY", ""));
            }
            let root = self.expression(expr)?;
            let descending = match sort {
                None => false,
                Some(ast::OrderBySort::Asc) => {
                    self.cursor.expect_word("ASC")?;
                    false
                }
                Some(ast::OrderBySort::Desc) => {
                    self.cursor.expect_word("DESC")?;
                    true
                }
                Some(ast::OrderBySort::Using(_)) => {
                    return Err(self.cursor.refuse("`USING` in ORDER BY", ""));
                }
            };
            if let Some(first) = nulls_first {
                self.cursor.expect_word("NULLS")?;
                self.cursor
                    .expect_word(if *first { "FIRST" } else { "LAST" })?;
            }
            terms.push(OrderTerm {
                root,
                descending,
                nulls_first: *nulls_first,
            });
        }
        Ok(terms)
    }

    /// LIMIT and OFFSET, in either order.
    fn limit(&mut self, clause: &ast::LimitClause) -> Result<(Option<Operand>, Option<Operand>)> {
        let (has_limit, offset) = match clause {
            ast::LimitClause::LimitOffset {
                limit,
                offset,
                limit_by,
            } if limit_by.is_empty() => (limit.is_some(), offset.as_ref()),
            ast::LimitClause::LimitOffset { .. } => {
                return Err(self.cursor.refuse("`LIMIT BY`", ""));
            }
            ast::LimitClause::OffsetCommaLimit {
                offset: _,
                limit: _,
            } => {
                self.operand_of("LIMIT")?;
                let hint = "`LIMIT a, b` is written `LIMIT b OFFSET a`";
                return Err(self.cursor.refuse("LIMIT with a comma", hint));
            }
        };
        let (mut limit, mut skipped) = (None, None);
        if has_limit && !self.cursor.peek_word("OFFSET") {
            limit = Some(self.operand_of("LIMIT")?);
        }
        if let Some(ast::Offset { value: _, rows }) = offset {
            skipped = Some(self.operand_of("OFFSET")?);
            match rows {
                ast::OffsetRows::None => {}
                ast::OffsetRows::Row => self.cursor.expect_word("ROW")?,
                ast::OffsetRows::Rows => self.cursor.expect_word("ROWS")?,
            }
        }
        if has_limit && limit.is_none() {
            limit = Some(self.operand_of("LIMIT")?);
        }
        Ok((limit, skipped))
    }

    /// A literal or a parameter is all that can stand here; of any other expression, a token is left over.
    fn operand_of(&mut self, keyword: &str) -> Result<Operand> {
        self.cursor.expect_word(keyword)?;
        self.cursor.operand(mistake::NUMBER)
    }
}
