//! SELECT and its clauses, WITH and UNION.
//!
//! Invariant: as in `lower`. It descends only into subqueries, which the limit on nesting bounds; operands of UNION are walked in
//! a loop. Expressions are in `expression`, FROM is in `from`.

use sqlparser::ast;
use sqlparser::ast::{Expr, SelectItem, SetExpr};

use crate::cursor::Cursor;
use crate::error::{Error, Hint, Result, quote};
use crate::lower::lowering::{LoweredSelects, Lowering};
use crate::mistake;
use crate::syntax::{From, FromKind, Item, Name, NodeId, Nodes, OrderTerm, Select};

/// Adds the query and those within it to `selects`, and gives its index.
pub(super) fn query(
    cursor: &mut Cursor<'_>,
    query: &ast::Query,
    selects: &mut LoweredSelects,
) -> Result<usize> {
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
    if fetch.is_some()
        || !locks.is_empty()
        || for_clause.is_some()
        || settings.is_some()
        || format_clause.is_some()
        || !pipe_operators.is_empty()
    {
        return Err(cursor.refuse("a clause of this query", ""));
    }
    let visible = selects.named.len();
    if let Some(with) = with {
        with_clause(cursor, with, selects)?;
    }
    let (select, inner, nodes) = match body.as_ref() {
        SetExpr::Select(select) => lone_select(cursor, select, selects)?,
        operations @ SetExpr::SetOperation { .. } => {
            let (select, inner) = union(cursor, operations, selects)?;
            (select, inner, Nodes::default())
        }
        _ => return Err(cursor.unexpected_in_query("`SELECT`")),
    };
    let mut lowering = Lowering {
        cursor,
        nodes,
        selects,
        inner,
    };
    let mut select = select;
    if let Some(order_by) = order_by {
        select.order_by = lowering.order_by(order_by)?;
    }
    if let Some(limit_clause) = limit_clause {
        (select.limit, select.offset) = lowering.limit(limit_clause)?;
    }
    let Lowering { nodes, inner, .. } = lowering;
    select.nodes = nodes;
    let index = selects.push(select, &inner);
    selects.named.truncate(visible);
    Ok(index)
}

/// A SELECT except for its nodes, what stands in it, and its nodes.
type LoneSelect = (Select, Vec<(usize, bool)>, Nodes);

fn lone_select(
    cursor: &mut Cursor<'_>,
    select: &ast::Select,
    selects: &mut LoweredSelects,
) -> Result<LoneSelect> {
    let mut lowering = Lowering {
        cursor,
        nodes: Nodes::default(),
        selects,
        inner: Vec::new(),
    };
    let lowered = lowering.select(select)?;
    Ok((lowered, lowering.inner, lowering.nodes))
}

/// `WITH name [(column, ...)] AS (SELECT ...), ...`.
fn with_clause(
    cursor: &mut Cursor<'_>,
    with: &ast::With,
    selects: &mut LoweredSelects,
) -> Result<()> {
    let ast::With {
        with_token: _,
        recursive,
        cte_tables,
    } = with;
    cursor.expect_word("WITH")?;
    if *recursive {
        return Err(cursor.refuse("`WITH RECURSIVE`", ""));
    }
    let visible = selects.named.len();
    for (index, cte) in cte_tables.iter().enumerate() {
        let ast::Cte {
            alias: _,
            query: body,
            from,
            materialized,
            closing_paren_token: _,
        } = cte;
        if from.is_some() || materialized.is_some() {
            return Err(cursor.refuse("this form of WITH", ""));
        }
        if index > 0 {
            cursor.expect(",")?;
        }
        let name = cursor.name("a name for the subquery")?;
        let mut earlier = selects.named[visible..].iter();
        if earlier.any(|(known, _)| known.text.eq_ignore_ascii_case(&name.text)) {
            return Err(Error::Conflict {
                at: cursor.source.at(name.at),
                message: format!("{} is given twice in WITH", quote(&name.text)),
                hint: Hint::NONE,
            });
        }
        let mut columns = Vec::new();
        if cursor.take("(") {
            loop {
                columns.push(cursor.name("the name of a column")?);
                if !cursor.take(",") {
                    break;
                }
            }
            cursor.expect(")")?;
        }
        cursor.expect_word("AS")?;
        cursor.expect("(")?;
        let body = query(cursor, body, selects)?;
        cursor.expect(")")?;
        selects.list[body].columns = columns;
        selects.named.push((name, body));
    }
    Ok(())
}

/// Operands of UNION, from left to right, as one SELECT of them all where that means the same.
fn union(
    cursor: &mut Cursor<'_>,
    operations: &SetExpr,
    selects: &mut LoweredSelects,
) -> Result<(Select, Vec<(usize, bool)>)> {
    let mut rights = Vec::new();
    let mut leftmost = operations;
    while let SetExpr::SetOperation {
        op,
        set_quantifier,
        left,
        right,
    } = leftmost
    {
        if *op != ast::SetOperator::Union {
            return Err(cursor.refuse("this set operation", mistake::ONE_SOURCE));
        }
        rights.push((set_quantifier, right.as_ref()));
        leftmost = left;
    }
    let at = cursor.byte();
    let mut terms = vec![operand(cursor, leftmost, selects)?];
    let mut is_distinct = false;
    for (quantifier, right) in rights.into_iter().rev() {
        cursor.expect_word("UNION")?;
        let all = match quantifier {
            ast::SetQuantifier::None => false,
            ast::SetQuantifier::All => {
                cursor.expect_word("ALL")?;
                true
            }
            ast::SetQuantifier::Distinct => {
                cursor.expect_word("DISTINCT")?;
                false
            }
            _ => return Err(cursor.refuse("this form of UNION", "")),
        };
        // Behind UNION ALL only what stands before it has no equal rows.
        if all && is_distinct {
            let inner: Vec<(usize, bool)> = terms.iter().map(|term| (*term, true)).collect();
            let left = selects.push(union_of(at, terms, true), &inner);
            terms = vec![left];
        }
        is_distinct = !all;
        terms.push(operand(cursor, right, selects)?);
    }
    let inner = terms.iter().map(|term| (*term, true)).collect();
    Ok((union_of(at, terms, is_distinct), inner))
}

/// An operand of UNION: a SELECT, or a whole query in parentheses.
fn operand(
    cursor: &mut Cursor<'_>,
    operand: &SetExpr,
    selects: &mut LoweredSelects,
) -> Result<usize> {
    match operand {
        SetExpr::Select(select) => {
            let (mut select, inner, nodes) = lone_select(cursor, select, selects)?;
            select.nodes = nodes;
            Ok(selects.push(select, &inner))
        }
        SetExpr::Query(inner) => {
            cursor.expect("(")?;
            let index = query(cursor, inner, selects)?;
            cursor.expect(")")?;
            Ok(index)
        }
        _ => Err(cursor.unexpected_in_query("`SELECT`")),
    }
}

fn union_of(at: usize, terms: Vec<usize>, distinct: bool) -> Select {
    Select {
        at,
        outer: None,
        columns: Vec::new(),
        distinct,
        items: vec![Item::Star { at, table: None }],
        from: Some(From {
            kind: FromKind::Union(terms),
            alias: None,
        }),
        filter: None,
        group_by: Vec::new(),
        having: None,
        order_by: Vec::new(),
        limit: None,
        offset: None,
        nodes: Nodes::default(),
    }
}

impl Lowering<'_, '_> {
    /// All but ORDER BY, LIMIT and the nodes.
    fn select(&mut self, select: &ast::Select) -> Result<Select> {
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
            outer: None,
            columns: Vec::new(),
            distinct,
            items,
            from: self.from(from)?,
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
    pub(super) fn separator(&mut self, index: usize, keyword: &str) -> Result<()> {
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
            terms.push(self.order_term(order)?);
        }
        Ok(terms)
    }

    /// An expression and its direction.
    pub(super) fn order_term(&mut self, order: &ast::OrderByExpr) -> Result<OrderTerm> {
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
        Ok(OrderTerm {
            root,
            descending,
            nulls_first: *nulls_first,
        })
    }

    /// LIMIT and OFFSET, in either order.
    fn limit(&mut self, clause: &ast::LimitClause) -> Result<(Option<NodeId>, Option<NodeId>)> {
        let (limit, offset) = match clause {
            ast::LimitClause::LimitOffset {
                limit,
                offset,
                limit_by,
            } if limit_by.is_empty() => (limit.as_ref(), offset.as_ref()),
            ast::LimitClause::LimitOffset { .. } => {
                return Err(self.cursor.refuse("`LIMIT BY`", ""));
            }
            ast::LimitClause::OffsetCommaLimit { offset, limit } => {
                self.cursor.expect_word("LIMIT")?;
                let offset = self.expression(offset)?;
                self.cursor.expect(",")?;
                return Ok((Some(self.expression(limit)?), Some(offset)));
            }
        };
        let (mut rows, mut skipped) = (None, None);
        let mut limit = limit;
        if !self.cursor.peek_word("OFFSET") {
            rows = self.condition("LIMIT", limit.take())?;
        }
        if let Some(ast::Offset { value, rows }) = offset {
            skipped = self.condition("OFFSET", Some(value))?;
            match rows {
                ast::OffsetRows::None => {}
                ast::OffsetRows::Row => self.cursor.expect_word("ROW")?,
                ast::OffsetRows::Rows => self.cursor.expect_word("ROWS")?,
            }
        }
        if limit.is_some() {
            rows = self.condition("LIMIT", limit)?;
        }
        Ok((rows, skipped))
    }
}
