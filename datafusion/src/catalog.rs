//! A catalog of DataFusion whose tables are corpora, and contexts that have it.
//!
//! Invariant: corpora are looked up in the database each time, by names in any case of ASCII letters, so they come and go as
//! they do there. Other tables can be registered beside them, under names that no corpus has.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, SchemaProvider, TableProvider};
use datafusion::common::{exec_err, not_impl_err};
use datafusion::config::Dialect;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::filter_pushdown::FilterPushdown;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::prelude::{SessionConfig, SessionContext};
use zipfdb::Database;

use crate::functions::{CorpusFunction, FUNCTIONS, files};
use crate::memory::ZipfMemoryPool;
use crate::merged_sort::MergedSortKeys;
use crate::pushdown::ZipfPushdown;
use crate::relation::Relation;
use crate::source::{CorpusSource, blocking};
use crate::table::ZipfTable;
use crate::workers::WorkerPool;

/// The catalog that [`context`] makes.
pub const CATALOG: &str = "zipfdb";
/// The schema whose tables are the words of corpora, and what is registered beside them.
pub const SCHEMA: &str = "public";
/// The schema whose tables are the files of corpora: those of `files('corpus')`, which can be inserted into.
pub const FILES_SCHEMA: &str = "files";

/// Keys of a join's build side that a scan asks for at most, in each partition of the join. Looking up 10,000 words is far less
/// work than reading a corpus.
const KEYS_MAX: usize = 10_000;
/// The most bytes of these keys.
const KEYS_BYTES_MAX: usize = 1 << 20;

/// A context whose default catalog is [`CATALOG`]: corpora are tables by their names, beside those that are registered. What its
/// queries hold in memory is charged to the database's `memory_limit`.
pub fn context(database: &Database) -> SessionContext {
    let context = bare_context(database);
    register(&context, CATALOG, database);
    context
}

/// The context without corpora.
fn bare_context(database: &Database) -> SessionContext {
    let mut config = SessionConfig::new()
        .with_default_catalog_and_schema(CATALOG, SCHEMA)
        .with_create_default_catalog_and_schema(false)
        .with_information_schema(true);
    // Others take the column `offset` at the end of a list for a clause.
    config.options_mut().sql_parser.dialect = Dialect::SQLite;
    let optimizer = &mut config.options_mut().optimizer;
    optimizer.hash_join_inlist_pushdown_max_distinct_values = KEYS_MAX;
    optimizer.hash_join_inlist_pushdown_max_size = KEYS_BYTES_MAX;
    let runtime = RuntimeEnv {
        memory_pool: Arc::new(ZipfMemoryPool::new(database)),
        ..RuntimeEnv::default()
    };
    let mut rules = PhysicalOptimizer::new().rules;
    // Conditions of sorts are pushed down at the end, those of the sorts that the rule makes.
    let pushed = FilterPushdown::new_post_optimization();
    let place = rules.iter().position(|rule| rule.name() == pushed.name());
    rules.insert(place.unwrap_or(rules.len()), Arc::new(MergedSortKeys));
    let state = SessionStateBuilder::new()
        .with_default_features()
        .with_config(config)
        .with_runtime_env(Arc::new(runtime))
        .with_physical_optimizer_rules(rules)
        .build();
    SessionContext::new_with_state(state)
}

/// As [`context`], whose scans of corpora are done by workers, segment by segment. The database is the version that these
/// have, as [`zipfdb_remote::RemoteStore::open`] opens it; where edits are pending that no segment has, it answers itself.
pub fn context_with_workers(database: &Database, workers: Arc<WorkerPool>) -> SessionContext {
    let context = bare_context(database);
    let source = CorpusSource {
        workers: Some(workers),
        ..CorpusSource::new(database.clone())
    };
    register_source(&context, CATALOG, Arc::new(source));
    context
}

/// Adds the corpora of a database to a context, as tables `catalog.public.corpus`, with ZipfDB's table functions and the
/// optimizer rule that pushes counts down and gives all scans of a query one snapshot of each corpus. The functions are those
/// of the database that was registered last.
pub fn register(context: &SessionContext, catalog: &str, database: &Database) {
    register_source(
        context,
        catalog,
        Arc::new(CorpusSource::new(database.clone())),
    );
}

fn register_source(context: &SessionContext, catalog: &str, source: Arc<CorpusSource>) {
    let provider = ZipfCatalog {
        schema: Arc::new(CorpusSchema {
            source: source.clone(),
            others: RwLock::default(),
        }),
        files: Arc::new(FilesSchema {
            source: source.clone(),
        }),
    };
    context.register_catalog(catalog, Arc::new(provider));
    for definition in FUNCTIONS {
        let function = CorpusFunction::new(&source, definition);
        context.register_udtf(definition.name, Arc::new(function));
    }
    let rule = ZipfPushdown;
    // One rule serves all databases.
    context.remove_optimizer_rule(ZipfPushdown::NAME);
    context.add_optimizer_rule(Arc::new(rule));
}

/// The corpora of a database as a catalog with the schemas [`SCHEMA`] and [`FILES_SCHEMA`].
#[derive(Debug)]
pub struct ZipfCatalog {
    schema: Arc<CorpusSchema>,
    files: Arc<FilesSchema>,
}

impl CatalogProvider for ZipfCatalog {
    fn schema_names(&self) -> Vec<String> {
        vec![SCHEMA.into(), FILES_SCHEMA.into()]
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        match name {
            SCHEMA => Some(self.schema.clone()),
            FILES_SCHEMA => Some(self.files.clone()),
            _ => None,
        }
    }
}

/// Corpora and views of ZipfDB, and other tables beside them.
#[derive(Debug)]
struct CorpusSchema {
    source: Arc<CorpusSource>,
    others: RwLock<HashMap<String, Arc<dyn TableProvider>>>,
}

impl CorpusSchema {
    fn other(&self, name: &str) -> Option<Arc<dyn TableProvider>> {
        let others = self.others.read().unwrap_or_else(PoisonError::into_inner);
        others.get(name).cloned()
    }
}

#[async_trait]
impl SchemaProvider for CorpusSchema {
    fn table_names(&self) -> Vec<String> {
        let others = self.others.read().unwrap_or_else(PoisonError::into_inner);
        let mut names = self.source.database.corpora();
        names.extend(self.source.database.views());
        names.extend(others.keys().cloned());
        names.sort();
        names
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        let relation = if let Some(corpus) = self.source.corpus(name) {
            Relation::corpus(&self.source.reader(), &corpus)?
        } else if let Some(other) = self.other(name) {
            return Ok(Some(other));
        } else if let Some(view) = self.source.view(name) {
            let reader = self.source.reader();
            blocking(move || Relation::view(&reader, &view)).await?
        } else {
            return Ok(None);
        };
        Ok(Some(Arc::new(ZipfTable::new(&self.source, relation))))
    }

    fn register_table(
        &self,
        name: String,
        table: Arc<dyn TableProvider>,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        if self.source.corpus(&name).is_some() {
            return exec_err!("there is a corpus \"{name}\" already");
        }
        if self.source.view(&name).is_some() {
            return exec_err!("there is a view \"{name}\" already");
        }
        let mut others = self.others.write().unwrap_or_else(PoisonError::into_inner);
        Ok(others.insert(name, table))
    }

    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if self.source.corpus(name).is_some() {
            return not_impl_err!(
                "corpora are not dropped here; hint: `DROP CORPUS {name}` in ZipfDB's own dialect"
            );
        }
        let mut others = self.others.write().unwrap_or_else(PoisonError::into_inner);
        if !others.contains_key(name) && self.source.view(name).is_some() {
            return not_impl_err!(
                "views of ZipfDB are not dropped here; hint: `DROP VIEW {name}` in ZipfDB's own dialect"
            );
        }
        Ok(others.remove(name))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.source.corpus(name).is_some()
            || self.other(name).is_some()
            || self.source.view(name).is_some()
    }
}

/// The files of corpora.
#[derive(Debug)]
struct FilesSchema {
    source: Arc<CorpusSource>,
}

#[async_trait]
impl SchemaProvider for FilesSchema {
    fn table_names(&self) -> Vec<String> {
        self.source.database.corpora()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        let Some(corpus) = self.source.corpus(name) else {
            return Ok(None);
        };
        let relation = files(&self.source.reader(), &corpus)?;
        let table = ZipfTable::new(&self.source, relation).with_target(&corpus);
        Ok(Some(Arc::new(table)))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.source.corpus(name).is_some()
    }
}
