//! Joins a corpus with a table of the host: which words each decade uses most.
//!
//! `cargo run --example join`

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use zipfdb::{CorpusSettings, Database};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let database = Database::in_memory()?;
    let letters = database.create_corpus("letters", CorpusSettings::default())?;
    letters.append_many(&[
        ("1.txt", "dear friend, the war is over"),
        ("2.txt", "the war, the long war"),
        ("3.txt", "dear friend, peace at last"),
    ])?;

    let context = zipfdb_datafusion::context(&database);
    let files: ArrayRef = Arc::new(StringArray::from(vec!["1.txt", "2.txt", "3.txt"]));
    let years: ArrayRef = Arc::new(Int64Array::from(vec![1918, 1917, 1921]));
    let written = RecordBatch::try_from_iter([("file", files), ("year", years)])?;
    context.register_batch("written", written)?;

    let sql = "SELECT year / 10 * 10 AS decade, word, SUM(n) AS n \
               FROM (SELECT file, word, COUNT(*) AS n FROM letters GROUP BY file, word) AS counts \
               JOIN written USING (file) GROUP BY decade, word ORDER BY n DESC, decade, word LIMIT 5";
    context.sql(sql).await?.show().await?;
    context.sql(&format!("EXPLAIN {sql}")).await?.show().await?;
    Ok(())
}
