//! A plan's query as text: for snapshots that people read, or as SQL that binds to the same query again.
//!
//! Invariant: as SQL, everything is in parentheses and every collation is written, so that the text depends on nothing but
//! the plan. What binding adds by itself (affinities) is shown only to people.

// Not every test uses all of it.
#![allow(dead_code, clippy::unwrap_used)]

use zipfdb_sql::plan::InsertColumn;
use zipfdb_sql::query::{
    Affinity, Aggregate, AggregateFunction, BinaryOperator, Block, Collation, Comparison,
    Expression, ExpressionId, Function, Matcher, Query, Relation, SortKey, Source,
};

/// The query as SQL that binds to an equal query.
pub fn sql(query: &Query) -> String {
    #[allow(dead_code)]
    text(query, false)
}

/// The query for people.
pub fn shown(query: &Query) -> String {
    text(query, true)
}

fn text(query: &Query, for_people: bool) -> String {
    block_text(query, query.blocks.len() - 1, for_people)
}

/// A block and those that it reads.
fn block_text(query: &Query, index: usize, for_people: bool) -> String {
    let block = &query.blocks[index];
    let names = |inner: usize| {
        let outputs = query.blocks[inner].outputs.iter();
        outputs.map(|output| output.name.clone()).collect()
    };
    let printer = Printer {
        query,
        block,
        columns: match &block.source {
            Source::Block(inner) => names(*inner),
            Source::Union(inner) => names(inner[0]),
            Source::Relation(relation) => {
                let mut columns = columns_of(relation);
                columns.extend(block.metadata.iter().map(|column| column.name.clone()));
                columns
            }
            Source::Nothing | Source::Values { .. } => Vec::new(),
        },
        for_people,
    };
    let from = match &block.source {
        Source::Nothing => String::new(),
        Source::Values { .. } => panic!("VALUES stand only in INSERT"),
        Source::Relation(relation) => format!(" FROM {}", relation_text(relation)),
        Source::Block(inner) => format!(" FROM ({})", block_text(query, *inner, for_people)),
        Source::Union(inner) => {
            let operator = if block.distinct {
                " UNION "
            } else {
                " UNION ALL "
            };
            let operands = inner.iter().map(|inner| {
                let operand = block_text(query, *inner, for_people);
                let has_tail = operand.contains(" ORDER BY ") || operand.contains(" LIMIT ");
                let is_union = matches!(query.blocks[*inner].source, Source::Union(_));
                if has_tail || is_union {
                    format!("({operand})")
                } else {
                    operand
                }
            });
            let operands: Vec<String> = operands.collect();
            return operands.join(operator) + &printer.tail();
        }
    };
    printer.block(&from)
}

/// An INSERT or REPLACE with its rows, as SQL that binds to an equal plan.
pub fn insert_sql(corpus: &str, columns: &[InsertColumn], query: &Query, replace: bool) -> String {
    insert(corpus, columns, query, replace, false)
}

/// The same for people.
pub fn insert_shown(
    corpus: &str,
    columns: &[InsertColumn],
    query: &Query,
    replace: bool,
) -> String {
    insert(corpus, columns, query, replace, true)
}

fn insert(
    corpus: &str,
    columns: &[InsertColumn],
    query: &Query,
    replace: bool,
    for_people: bool,
) -> String {
    let verb = if replace { "REPLACE" } else { "INSERT" };
    let columns: Vec<&str> = columns.iter().map(|column| column.name()).collect();
    let rows = match &query.blocks[..] {
        [block] if matches!(block.source, Source::Values { .. }) => {
            values(query, block, for_people)
        }
        _ => text(query, for_people),
    };
    format!(
        "{verb} INTO {} ({}) {rows}",
        name(corpus),
        columns.join(", ")
    )
}

fn values(query: &Query, block: &Block, for_people: bool) -> String {
    let Source::Values { width, values } = &block.source else {
        panic!("no VALUES")
    };
    for (index, output) in block.outputs.iter().enumerate() {
        let expression = &block.expressions[output.expression.0 as usize];
        assert_eq!(*expression, Expression::Column(index));
    }
    assert_eq!(block.outputs.len(), *width);
    let printer = Printer {
        query,
        block,
        columns: Vec::new(),
        for_people,
    };
    let rows = values.chunks_exact(*width).map(|row| {
        let row: Vec<String> = row.iter().map(|id| printer.expression(*id)).collect();
        format!("({})", row.join(", "))
    });
    format!("VALUES {}", rows.collect::<Vec<String>>().join(", "))
}

fn name(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn relation_text(relation: &Relation) -> String {
    let text = |corpus: &str| format!("'{}'", corpus.replace('\'', "''"));
    match relation {
        Relation::Words { corpus } => name(corpus),
        Relation::Ngrams { corpus, n } => format!("ngrams({}, {n})", text(corpus)),
        Relation::Search(call) => {
            let arguments = call.arguments.iter();
            let arguments = arguments.map(|(name, value)| format!(", {name} => {value:?}"));
            let reference = call.reference.iter();
            let reference = reference.map(|corpus| format!(", reference => {}", text(corpus)));
            let (corpus, name) = (text(&call.corpus), call.function.name());
            let rest: String = arguments.chain(reference).collect();
            format!("{name}({corpus}{rest})")
        }
        Relation::TermVectors { corpus, k } => format!("term_vectors({}, {k})", text(corpus)),
        Relation::Files { corpus } => format!("files({})", text(corpus)),
        Relation::Corpora => "corpora()".to_owned(),
        Relation::Segments { corpus } => format!("segments({})", text(corpus)),
        Relation::Caches { corpus } => format!("caches({})", text(corpus)),
        Relation::Indexes { corpus } => format!("indexes({})", text(corpus)),
        Relation::NextWords {
            corpus,
            context,
            backoff,
        } => {
            let context = text(&String::from_utf8_lossy(context));
            format!("next_words({}, {context}, {backoff})", text(corpus))
        }
        Relation::Phrase { corpus, text: of } => {
            let of = text(&String::from_utf8_lossy(of));
            format!("phrase({}, {of})", text(corpus))
        }
        Relation::LongestMatches { corpus, text: of } => {
            let of = text(&String::from_utf8_lossy(of));
            format!("longest_matches({}, {of})", text(corpus))
        }
        Relation::Attribute {
            corpus,
            text: of,
            words_min,
        } => {
            let of = text(&String::from_utf8_lossy(of));
            format!("attribute({}, {of}, {words_min})", text(corpus))
        }
        Relation::Overlap {
            corpus,
            text: of,
            n,
        } => {
            let of = text(&String::from_utf8_lossy(of));
            format!("overlap({}, {of}, {n})", text(corpus))
        }
        Relation::Duplicates { corpus, words_min } => {
            format!("duplicates({}, {words_min})", text(corpus))
        }
        Relation::FilesWith { corpus, words } => {
            let words = words.iter().map(|word| String::from_utf8_lossy(word));
            let words: Vec<String> = words.map(|word| text(&word)).collect();
            format!("files_with({}, {})", text(corpus), words.join(", "))
        }
        Relation::Grep {
            corpus,
            regex,
            flags,
        } => format!("grep({}, {}, {})", text(corpus), text(regex), text(flags)),
        Relation::Lines { corpus } => format!("lines({})", text(corpus)),
        Relation::Devices => "devices()".to_owned(),
        Relation::Settings => "settings()".to_owned(),
        Relation::Rejects => "rejects()".to_owned(),
    }
}

fn columns_of(relation: &Relation) -> Vec<String> {
    let columns = (0..).map_while(|column| relation.column(column));
    columns.map(|(name, _)| name.to_owned()).collect()
}

struct Printer<'a> {
    query: &'a Query,
    block: &'a Block,
    columns: Vec<String>,
    for_people: bool,
}

impl Printer<'_> {
    fn block(&self, from: &str) -> String {
        let block = self.block;
        let list = |ids: &mut dyn Iterator<Item = ExpressionId>, separator: &str| {
            ids.map(|id| self.expression(id))
                .collect::<Vec<String>>()
                .join(separator)
        };
        let mut text = "SELECT ".to_owned();
        if block.distinct {
            text += "DISTINCT ";
        }
        let outputs: Vec<String> = block
            .outputs
            .iter()
            .map(|output| {
                let expression = self.expression(output.expression);
                format!("{expression} AS {}", name(&output.name))
            })
            .collect();
        text += &outputs.join(", ");
        text += from;
        if !block.filter.is_empty() {
            text += " WHERE ";
            text += &list(&mut block.filter.iter().copied(), " AND ");
        }
        let keys = block.aggregation.iter().flat_map(|grouped| &grouped.keys);
        let keys: Vec<String> = keys
            .map(|key| self.collated(key.expression, key.collation))
            .collect();
        if !keys.is_empty() {
            text += &format!(" GROUP BY {}", keys.join(", "));
        }
        if self.for_people && keys.is_empty() && block.aggregation.is_some() {
            text += " GROUP BY ()";
        }
        if !block.having.is_empty() {
            text += " HAVING ";
            text += &list(&mut block.having.iter().copied(), " AND ");
        }
        text + &self.tail()
    }

    /// ORDER BY, LIMIT and OFFSET.
    fn tail(&self) -> String {
        let block = self.block;
        let mut text = String::new();
        if !block.order_by.is_empty() {
            text += &format!(" ORDER BY {}", self.order(&block.order_by));
        }
        if let Some(limit) = block.limit {
            text += &format!(" LIMIT {limit}");
        }
        if block.offset > 0 {
            text += &format!(" OFFSET {}", block.offset);
        }
        text
    }

    fn order(&self, keys: &[SortKey]) -> String {
        let keys = keys.iter().map(|key| {
            let expression = self.collated(key.expression, key.collation);
            let order = if key.descending { " DESC" } else { "" };
            let nulls = if key.nulls_first != key.descending {
                ""
            } else if key.nulls_first {
                " NULLS FIRST"
            } else {
                " NULLS LAST"
            };
            format!("{expression}{order}{nulls}")
        });
        keys.collect::<Vec<String>>().join(", ")
    }

    fn collated(&self, id: ExpressionId, collation: Collation) -> String {
        let text = self.expression(id);
        match collation {
            Collation::NoCase => format!("({text} COLLATE NOCASE)"),
            Collation::Binary if self.for_people => text,
            Collation::Binary => format!("({text} COLLATE BINARY)"),
        }
    }

    fn aggregate(&self, aggregate: &Aggregate) -> String {
        let function = match aggregate.function {
            AggregateFunction::Count => "count",
            AggregateFunction::Sum => "sum",
            AggregateFunction::Total => "total",
            AggregateFunction::Avg => "avg",
            AggregateFunction::Min => "min",
            AggregateFunction::Max => "max",
            AggregateFunction::GroupConcat => "group_concat",
            AggregateFunction::Median => "median",
            AggregateFunction::PercentileCont => "percentile_cont",
            AggregateFunction::StddevPop => "stddev_pop",
            AggregateFunction::StddevSamp => "stddev_samp",
            AggregateFunction::VarPop => "var_pop",
            AggregateFunction::VarSamp => "var_samp",
        };
        let argument = match aggregate.argument {
            None => "*".to_owned(),
            Some(argument) => self.collated(argument, aggregate.collation),
        };
        let distinct = if aggregate.distinct { "DISTINCT " } else { "" };
        let filter = match aggregate.filter {
            None => String::new(),
            Some(filter) => format!(" FILTER (WHERE {})", self.expression(filter)),
        };
        let parameter = match aggregate.parameter {
            None => String::new(),
            Some(parameter) => format!(", {}", self.expression(parameter)),
        };
        let order = if aggregate.order_by.is_empty() {
            String::new()
        } else {
            format!(" ORDER BY {}", self.order(&aggregate.order_by))
        };
        format!("{function}({distinct}{argument}{parameter}{order}){filter}")
    }

    fn expression(&self, id: ExpressionId) -> String {
        let index = id.0 as usize;
        let of = |operand: &ExpressionId| {
            assert!(operand.0 < id.0, "operands come first");
            self.expression(*operand)
        };
        let list = |ids: &[ExpressionId]| ids.iter().map(of).collect::<Vec<String>>().join(", ");
        let not = |negated: &bool| if *negated { "NOT " } else { "" };
        match &self.block.expressions[index] {
            Expression::Value(value) => format!("({value})"),
            // Only sections of segments, which the schema names, are behind the known ones.
            Expression::Column(column) => match self.columns.get(*column) {
                Some(known) => name(known),
                None => format!("#{column}"),
            },
            Expression::Key(key) => {
                let key = self.block.aggregation.as_ref().unwrap().keys[*key];
                self.expression(key.expression)
            }
            Expression::Aggregate(aggregate) => {
                self.aggregate(&self.block.aggregation.as_ref().unwrap().aggregates[*aggregate])
            }
            Expression::Affine { operand, affinity } => {
                let operand = of(operand);
                match affinity {
                    _ if !self.for_people => operand,
                    Affinity::Text => format!("text<{operand}>"),
                    Affinity::Integer => format!("number<{operand}>"),
                    other => panic!("{other:?}"),
                }
            }
            Expression::Cast { operand, affinity } => {
                let kind = match affinity {
                    Affinity::Integer => "INTEGER",
                    Affinity::Real => "REAL",
                    Affinity::Text => "TEXT",
                    Affinity::Blob => "BLOB",
                    Affinity::Numeric => "NUMERIC",
                    Affinity::None => panic!("no type"),
                };
                format!("CAST({} AS {kind})", of(operand))
            }
            Expression::Not(operand) => format!("(NOT {})", of(operand)),
            Expression::Negate(operand) => format!("(- {})", of(operand)),
            Expression::Binary {
                operator,
                left,
                right,
            } => {
                let operator = match operator {
                    BinaryOperator::And => "AND",
                    BinaryOperator::Or => "OR",
                    BinaryOperator::Add => "+",
                    BinaryOperator::Subtract => "-",
                    BinaryOperator::Multiply => "*",
                    BinaryOperator::Divide => "/",
                    BinaryOperator::Remainder => "%",
                    BinaryOperator::Concatenate => "||",
                };
                format!("({} {operator} {})", of(left), of(right))
            }
            Expression::Compare {
                comparison,
                left,
                right,
                collation,
            } => {
                of(left);
                let operator = match comparison {
                    Comparison::Equal => "=",
                    Comparison::NotEqual => "<>",
                    Comparison::Less => "<",
                    Comparison::LessOrEqual => "<=",
                    Comparison::Greater => ">",
                    Comparison::GreaterOrEqual => ">=",
                    Comparison::Is => "IS",
                    Comparison::IsNot => "IS NOT",
                };
                let left = self.collated(*left, *collation);
                format!("({left} {operator} {})", of(right))
            }
            Expression::IsNull { operand, negated } => {
                format!("({} IS {}NULL)", of(operand), not(negated))
            }
            Expression::In {
                operand,
                list: items,
                negated,
                collation,
            } => {
                of(operand);
                let operand = self.collated(*operand, *collation);
                format!("({operand} {}IN ({}))", not(negated), list(items))
            }
            Expression::Match {
                matcher,
                text,
                pattern,
                escape,
                negated,
            } => {
                let operator = match matcher {
                    Matcher::Like => "LIKE",
                    Matcher::Glob => "GLOB",
                    Matcher::Regexp => "REGEXP",
                };
                let escape = match escape {
                    None => String::new(),
                    Some(escape) => format!(" ESCAPE {}", of(escape)),
                };
                let (text, not) = (of(text), not(negated));
                format!("({text} {not}{operator} {}{escape})", of(pattern))
            }
            Expression::Case {
                branches,
                otherwise,
            } => {
                let mut text = "CASE".to_owned();
                for (condition, result) in branches {
                    text += &format!(" WHEN {} THEN {}", of(condition), of(result));
                }
                if let Some(otherwise) = otherwise {
                    text += &format!(" ELSE {}", of(otherwise));
                }
                text + " END"
            }
            Expression::InSubquery {
                operand,
                block,
                affinity: _,
                negated,
                collation,
            } => {
                let operand = self.collated(*operand, *collation);
                let not = if *negated { "NOT " } else { "" };
                let subquery = block_text(self.query, *block, self.for_people);
                format!("({operand} {not}IN ({subquery}))")
            }
            Expression::Subquery { block } => {
                format!("({})", block_text(self.query, *block, self.for_people))
            }
            Expression::Exists { block } => {
                format!(
                    "EXISTS ({})",
                    block_text(self.query, *block, self.for_people)
                )
            }
            Expression::InValues { .. } => panic!("binding makes none"),
            Expression::Call {
                function: function @ (Function::JsonPart | Function::JsonValue),
                arguments,
                ..
            } => {
                let [text, path] = &arguments[..] else {
                    panic!("two operands")
                };
                format!("({} {} {})", of(text), function_name(*function), of(path))
            }
            Expression::Call {
                function,
                arguments,
                collation,
            } => {
                let mut written: Vec<String> = arguments.iter().map(of).collect();
                if let Function::Greatest
                | Function::Least
                | Function::Max
                | Function::Min
                | Function::NullIf = function
                {
                    written[0] = self.collated(arguments[0], *collation);
                }
                format!("{}({})", function_name(*function), written.join(", "))
            }
        }
    }
}

pub fn function_name(function: Function) -> &'static str {
    match function {
        Function::Abs => "abs",
        Function::Binding => "binding",
        Function::Char => "char",
        Function::Coalesce => "coalesce",
        Function::Concat => "concat",
        Function::ConcatWs => "concat_ws",
        Function::Hex => "hex",
        Function::Highlight => "highlight",
        Function::IfNull => "ifnull",
        Function::Iif => "iif",
        Function::Instr => "instr",
        Function::Length => "length",
        Function::Lower => "lower",
        Function::LeftTrim => "ltrim",
        Function::Max => "max",
        Function::Min => "min",
        Function::NullIf => "nullif",
        Function::OctetLength => "octet_length",
        Function::Quote => "quote",
        Function::Replace => "replace",
        Function::Round => "round",
        Function::RightTrim => "rtrim",
        Function::Sign => "sign",
        Function::Snippet => "snippet",
        Function::Substr => "substr",
        Function::Trim => "trim",
        Function::TypeOf => "typeof",
        Function::Unicode => "unicode",
        Function::Upper => "upper",
        Function::Ceiling => "ceil",
        Function::Date => "date",
        Function::DateTime => "datetime",
        Function::DateTrunc => "date_trunc",
        Function::Day => "day",
        Function::Month => "month",
        Function::Year => "year",
        Function::Exponential => "exp",
        Function::Floor => "floor",
        Function::Format => "format",
        Function::Greatest => "greatest",
        Function::JsonExtract => "json_extract",
        Function::JsonPart => "->",
        Function::JsonValue => "->>",
        Function::JulianDay => "julianday",
        Function::Least => "least",
        Function::Logarithm => "log",
        Function::Logarithm10 => "log10",
        Function::Logarithm2 => "log2",
        Function::NaturalLogarithm => "ln",
        Function::Power => "pow",
        Function::RegexpExtract => "regexp_extract",
        Function::RegexpReplace => "regexp_replace",
        Function::SplitPart => "split_part",
        Function::SquareRoot => "sqrt",
        Function::Strftime => "strftime",
        Function::Time => "time",
        Function::UnixEpoch => "unixepoch",
        Function::Version => "zipfdb_version",
    }
}
