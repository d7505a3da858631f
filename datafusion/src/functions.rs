//! ZipfDB's table functions as those of DataFusion: `files('c')`, `ngrams('c', 2)` and the others, with the same arguments.
//!
//! Invariant: `FUNCTIONS` is the only list of them. A function that ZipfDB gets is a line in it; columns that the line does not
//! name are INTEGER.

use std::sync::Arc;

use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{ScalarValue, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::Expr;
use zipfdb::Reader;

use crate::relation::{ColumnDefinition, ColumnKind, Relation, RowCounting};
use crate::source::CorpusSource;
use crate::statement::quoted_text;
use crate::table::ZipfTable;

/// A table function.
#[derive(Debug)]
pub(crate) struct FunctionDefinition {
    pub(crate) name: &'static str,
    columns: &'static [ColumnDefinition],
    counting: RowCounting,
    /// Whether each row is of a file of the corpus that the first argument names.
    is_by_files: bool,
}

const fn integer(name: &'static str) -> ColumnDefinition {
    ColumnDefinition::new(name, ColumnKind::Integer)
}

const fn text(name: &'static str) -> ColumnDefinition {
    ColumnDefinition::new(name, ColumnKind::Text)
}

const fn real(name: &'static str) -> ColumnDefinition {
    ColumnDefinition::new(name, ColumnKind::Real)
}

const fn maybe_real(name: &'static str) -> ColumnDefinition {
    ColumnDefinition::nullable(name, ColumnKind::Real)
}

const fn maybe_text(name: &'static str) -> ColumnDefinition {
    ColumnDefinition::nullable(name, ColumnKind::Text)
}

const FILES: FunctionDefinition = FunctionDefinition {
    name: "files",
    columns: &[
        text("file"),
        ColumnDefinition::new("content", ColumnKind::Blob),
        integer("bytes"),
        integer("words"),
    ],
    counting: RowCounting::Files,
    is_by_files: true,
};

/// The files of a corpus as a table: what `files()` reads.
///
/// # Errors
/// If there is no corpus of this name.
pub(crate) fn files(reader: &Reader, corpus: &str) -> Result<Relation> {
    let from = format!("files({})", quoted_text(corpus));
    let relation = Relation::new(reader, from, FILES.columns, None)?;
    relation
        .by_files(Some(corpus))
        .counted(Some(corpus), FILES.counting)
}

/// All table functions.
pub(crate) const FUNCTIONS: &[FunctionDefinition] = &[
    FILES,
    FunctionDefinition {
        name: "ngrams",
        columns: &[
            text("ngram"),
            text("file"),
            integer("position"),
            integer("offset"),
        ],
        counting: RowCounting::Ngrams,
        is_by_files: true,
    },
    FunctionDefinition {
        name: "term_vectors",
        columns: &[
            text("file"),
            text("word"),
            integer("count"),
            integer("rank"),
        ],
        counting: RowCounting::None,
        is_by_files: true,
    },
    FunctionDefinition {
        name: "files_with",
        columns: &[text("file")],
        counting: RowCounting::None,
        is_by_files: true,
    },
    FunctionDefinition {
        name: "grep",
        columns: &[
            text("file"),
            integer("offset"),
            integer("length"),
            integer("line"),
            text("match"),
        ],
        counting: RowCounting::None,
        is_by_files: true,
    },
    FunctionDefinition {
        name: "lines",
        columns: &[
            text("file"),
            integer("line"),
            integer("offset"),
            integer("length"),
            text("text"),
        ],
        counting: RowCounting::None,
        is_by_files: true,
    },
    FunctionDefinition {
        name: "search",
        columns: &[text("file"), real("score")],
        counting: RowCounting::None,
        is_by_files: false,
    },
    FunctionDefinition {
        // A condition on the frequency of a word is on the whole corpus.
        name: "hits",
        columns: &[text("file"), text("hit"), maybe_text("captures")],
        counting: RowCounting::None,
        is_by_files: false,
    },
    FunctionDefinition {
        name: "concordance",
        columns: &[text("file"), text("left"), text("hit"), text("right")],
        counting: RowCounting::None,
        is_by_files: false,
    },
    FunctionDefinition {
        name: "frequencies",
        columns: &[maybe_text("text"), real("relative")],
        counting: RowCounting::None,
        is_by_files: false,
    },
    FunctionDefinition {
        name: "collocations",
        columns: &[
            text("word"),
            maybe_real("logdice"),
            maybe_real("mi"),
            maybe_real("t"),
            maybe_real("g2"),
        ],
        counting: RowCounting::None,
        is_by_files: false,
    },
    FunctionDefinition {
        name: "keywords",
        columns: &[
            text("word"),
            maybe_real("per_million"),
            maybe_real("reference_per_million"),
            maybe_real("simple_maths"),
            maybe_real("g2"),
            maybe_real("log_ratio"),
        ],
        counting: RowCounting::None,
        is_by_files: false,
    },
    FunctionDefinition {
        name: "dispersion",
        columns: &[
            maybe_real("dp"),
            maybe_real("dp_norm"),
            maybe_real("juilland_d"),
            maybe_real("carroll_d2"),
            maybe_real("rosengren_s"),
            maybe_real("kld"),
            maybe_real("arf"),
            maybe_real("ald"),
            maybe_real("awt"),
            maybe_text("word"),
        ],
        counting: RowCounting::None,
        is_by_files: false,
    },
    FunctionDefinition {
        name: "distribution",
        columns: &[maybe_text("part"), real("per_million")],
        counting: RowCounting::None,
        is_by_files: false,
    },
    FunctionDefinition {
        name: "vocabulary_growth",
        columns: &[real("type_token_ratio")],
        counting: RowCounting::None,
        is_by_files: false,
    },
    FunctionDefinition {
        name: "next_words",
        columns: &[
            text("word"),
            integer("count"),
            real("probability"),
            integer("context_words"),
        ],
        counting: RowCounting::None,
        is_by_files: false,
    },
    FunctionDefinition {
        name: "phrase",
        columns: &[text("file")],
        counting: RowCounting::None,
        is_by_files: false,
    },
    FunctionDefinition {
        name: "longest_matches",
        columns: &[text("file"), text("text")],
        counting: RowCounting::None,
        is_by_files: false,
    },
    FunctionDefinition {
        name: "attribute",
        columns: &[text("file")],
        counting: RowCounting::None,
        is_by_files: false,
    },
    FunctionDefinition {
        name: "overlap",
        columns: &[
            maybe_real("share"),
            ColumnDefinition::nullable("position", ColumnKind::Integer),
            maybe_text("file"),
            ColumnDefinition::nullable("offset", ColumnKind::Integer),
        ],
        counting: RowCounting::None,
        is_by_files: false,
    },
    FunctionDefinition {
        name: "duplicates",
        columns: &[text("file")],
        counting: RowCounting::None,
        is_by_files: false,
    },
    FunctionDefinition {
        name: "segments",
        columns: &[
            maybe_real("ratio"),
            maybe_real("recompressed"),
            maybe_text("form"),
        ],
        counting: RowCounting::None,
        is_by_files: false,
    },
    FunctionDefinition {
        name: "indexes",
        columns: &[
            maybe_text("name"),
            maybe_text("kind"),
            maybe_text("codec"),
            maybe_text("unit"),
            maybe_text("reorder"),
            maybe_real("build_time"),
        ],
        counting: RowCounting::None,
        is_by_files: false,
    },
    FunctionDefinition {
        name: "caches",
        columns: &[maybe_text("kind"), maybe_real("price")],
        counting: RowCounting::None,
        is_by_files: false,
    },
    FunctionDefinition {
        name: "corpora",
        columns: &[
            maybe_text("corpus"),
            maybe_text("tokenizer"),
            maybe_real("ratio"),
            maybe_real("recompressed"),
            maybe_text("recompress_error"),
        ],
        counting: RowCounting::None,
        is_by_files: false,
    },
    FunctionDefinition {
        name: "devices",
        columns: &[
            maybe_text("device"),
            maybe_text("model"),
            maybe_text("architecture"),
        ],
        counting: RowCounting::None,
        is_by_files: false,
    },
    FunctionDefinition {
        name: "settings",
        columns: &[
            maybe_text("setting"),
            maybe_text("value"),
            maybe_text("default"),
            maybe_text("description"),
        ],
        counting: RowCounting::None,
        is_by_files: false,
    },
];

/// A table function of one database.
#[derive(Debug)]
pub(crate) struct CorpusFunction {
    source: Arc<CorpusSource>,
    definition: &'static FunctionDefinition,
}

impl CorpusFunction {
    pub(crate) fn new(
        source: &Arc<CorpusSource>,
        definition: &'static FunctionDefinition,
    ) -> CorpusFunction {
        CorpusFunction {
            source: source.clone(),
            definition,
        }
    }
}

impl TableFunctionImpl for CorpusFunction {
    /// # Errors
    /// If an argument is not a text or an integer, or ZipfDB refuses the call.
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let name = self.definition.name;
        let mut arguments = Vec::new();
        let (mut corpus, mut ngram_words) = (None, None);
        for (index, argument) in args.exprs().iter().enumerate() {
            let Expr::Literal(value, _) = argument else {
                return plan_err!("{name}(): argument {} is no literal", index + 1);
            };
            match (value.try_as_str(), value) {
                (Some(Some(text)), _) => {
                    corpus = corpus.or(Some(text));
                    arguments.push(quoted_text(text));
                }
                (_, ScalarValue::Int64(Some(number))) => {
                    if name == "ngrams" {
                        ngram_words = usize::try_from(*number).ok();
                    }
                    arguments.push(number.to_string());
                }
                _ => {
                    return plan_err!(
                        "{name}(): argument {} is neither a text nor an integer",
                        index + 1
                    );
                }
            }
        }
        let from = format!("{name}({})", arguments.join(", "));
        let columns = self.definition.columns;
        let relation = Relation::new(&self.source.reader(), from, columns, ngram_words)?;
        let by_files = corpus.filter(|_| self.definition.is_by_files);
        let relation = relation
            .by_files(by_files)
            .counted(corpus, self.definition.counting)?;
        Ok(Arc::new(ZipfTable::new(&self.source, relation)))
    }
}
