//! One statement with many parameter sets: one answer with the rows of all sets.
//!
//! Invariant: rows come in order of the sets. A query for a set begins when the rows of the set before it are returned, so no two
//! answers are in memory; statements that are no queries have all run before the first row.

use std::sync::Arc;

use zipfdb_sql::Plan;

use super::execute_until;
use super::select::select_many;
use crate::handles::row::Row;
use crate::handles::rows::Rows;
use crate::handles::session::Session;
use crate::notice::Notice;
use crate::runtime::interrupt::Interrupt;
use crate::runtime::progress::NoProgress;
use crate::{Result, Value};

/// Runs the plans of one statement, each for its parameter set.
pub(crate) fn execute_many(
    session: &Arc<Session>,
    plans: Vec<Plan>,
    interrupt: &Interrupt,
) -> Result<Rows> {
    let is_edit = |plan: &Plan| {
        matches!(
            plan,
            Plan::Insert { .. } | Plan::Update { .. } | Plan::Delete { .. }
        )
    };
    if plans.iter().any(is_edit) && !session.is_in_transaction() {
        // All sets together are one change; a session of its own leaves the caller's transaction alone.
        let session = Arc::new(Session::new(session.shared().clone()));
        session.begin(interrupt)?;
        let rows = execute_many(&session, plans, interrupt)?;
        session.end("COMMIT")?.commit_until(interrupt)?;
        return Ok(rows);
    }
    let mut queries = Vec::new();
    let mut columns = Vec::new();
    let mut rows: Vec<Result<Vec<Value>>> = Vec::new();
    let mut notices: Vec<Notice> = Vec::new();
    let mut changed = 0;
    for plan in plans {
        match plan {
            Plan::Query(query) => queries.push(query),
            plan => {
                let answer = execute_until(session, plan, &NoProgress, interrupt)?;
                columns = answer.columns().to_vec();
                changed += answer.changed();
                for notice in answer.notices() {
                    if !notices.contains(notice) {
                        notices.push(notice.clone());
                    }
                }
                rows.extend(answer.map(|row| row.map(Row::into_values)));
            }
        }
    }
    // All plans are of one statement: either all are queries or none is.
    if queries.is_empty() {
        let rows = Rows::new(columns, rows.into_iter()).with_changed(changed);
        Ok(rows.with_notices(notices))
    } else {
        select_many(session, queries, interrupt)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::ingest::CopyOptions;
    use crate::{CorpusSettings, Database, Value};

    fn pets() -> Database {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.txt"), "the cat and the dog").unwrap();
        let database = Database::in_memory().unwrap();
        let corpus = database.create_corpus("pets", CorpusSettings::default());
        let options = CopyOptions::default();
        corpus.unwrap().copy_from(folder.path(), &options).unwrap();
        database
    }

    #[test]
    fn answers_come_in_order_of_the_sets() {
        let sets = ["the", "cow", "dog"].map(|word| vec![Value::from(word)]);
        let sql = "SELECT word, offset FROM pets WHERE word = ? ORDER BY offset";
        let rows = pets().query_many(sql, &sets).unwrap();
        assert_eq!(rows.columns()[1].name(), "offset");
        let offsets: Vec<Value> = rows.map(|row| row.unwrap()[1].clone()).collect();
        assert_eq!(offsets, [0, 12, 16].map(Value::Integer));
    }

    #[test]
    fn intersections_of_many_sets_are_those_of_each() {
        let database = Database::in_memory().unwrap();
        database.execute_batch("CREATE CORPUS c").unwrap();
        for file in 0..40u32 {
            let words: Vec<String> = (1..=file).map(|n| format!("w{}", file % (n + 1))).collect();
            let sql = "INSERT INTO c (file, content) VALUES (?, ?)";
            let row = [format!("f{file:02}").into(), words.join(" ").into()];
            database.query(sql, &row).unwrap();
        }
        let sets: Vec<Vec<Value>> = (0..60u32)
            .map(|set| {
                [set % 7, set % 5 + 1]
                    .map(|n| format!("w{n}").into())
                    .to_vec()
            })
            .collect();
        let sql = "SELECT binding(), file FROM files_with('c', ?, ?)";
        let collect = |sets: &[Vec<Value>]| -> Vec<Vec<Value>> {
            let rows = database.query_many(sql, sets).unwrap();
            rows.map(|row| row.unwrap().into_values()).collect()
        };
        let many = collect(&sets);
        let each = (0..).zip(&sets).flat_map(|(number, set)| {
            let rows = collect(std::slice::from_ref(set)).into_iter();
            rows.map(move |row| vec![Value::Integer(number), row[1].clone()])
        });
        assert!(!many.is_empty());
        assert_eq!(many, each.collect::<Vec<_>>());
    }

    #[test]
    fn edits_of_all_sets_are_one_change() {
        let database = pets();
        let rows = |last: i64| {
            let row = |at: i64| vec![Value::Integer(at), Value::from("very ")];
            vec![row(4), row(9), row(last)]
        };
        let sql = "INSERT INTO pets (file, offset, content) VALUES ('a.txt', ?, ?)";
        let text = || {
            let snapshot = database.corpus("pets").unwrap().snapshot().unwrap();
            String::from_utf8(snapshot.extract("a.txt", 0, 99).unwrap()).unwrap()
        };
        assert!(database.query_many(sql, &rows(99)).is_err());
        assert_eq!(text(), "the cat and the dog");
        database.query_many(sql, &rows(26)).unwrap();
        assert_eq!(text(), "the very very cat and the very dog");
    }

    #[test]
    fn a_set_that_does_not_fit_is_an_error_before_anything_runs() {
        let database = pets();
        let sets = [vec![Value::from("the")], vec![]];
        let sql = "SELECT COUNT(*) FROM pets WHERE word = ?";
        assert!(database.query_many(sql, &sets).is_err());
        assert_eq!(database.query_many(sql, &[]).unwrap().count(), 0);
        assert!(
            database
                .query_many("CHECK pets; CHECK pets", &sets)
                .is_err()
        );
    }
}
