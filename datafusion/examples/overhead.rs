//! What DataFusion adds to ZipfDB's own dialect: ten statements by both, and the words a second that a scan gives.
//!
//! `cargo run --release --example overhead -- DATABASE CORPUS WORD FILE` prints medians of alternating repeats, in milliseconds, all
//! rows read in batches. The database is open and its caches are warm: one run of each comes before.

use std::error::Error;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::arrow::array::{Array, BooleanArray, StringViewArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::logical_expr::{ColumnarValue, Volatility, create_udf};
use datafusion::prelude::SessionContext;
use futures::StreamExt;
use tokio::runtime::Runtime;
use zipfdb::Database;

const REPEATS: usize = 9;
const BATCH_ROWS: usize = 8192;

fn main() -> Result<(), Box<dyn Error>> {
    match measure(&mut io::stdout().lock()) {
        // `| head -1` reads no further.
        Err(error) if is_closed(&*error) => Ok(()),
        done => done,
    }
}

/// Whether an error is that nothing reads the output any more.
fn is_closed(error: &(dyn Error + 'static)) -> bool {
    (error.downcast_ref::<io::Error>())
        .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

fn measure(out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, corpus, word, file] = &arguments[..] else {
        return Err("usage: overhead DATABASE CORPUS WORD FILE".into());
    };
    let options = Database::options().read_only(true);
    let database = options.open(path)?;
    let runtime = Runtime::new()?;
    let context = zipfdb_datafusion::context(&database);
    let statements = [
        format!("SELECT word, COUNT(*) AS n FROM {corpus} GROUP BY word"),
        format!(
            "SELECT word, COUNT(*) AS n FROM {corpus} GROUP BY word ORDER BY n DESC, word LIMIT 100"
        ),
        format!("SELECT file, COUNT(*) AS n FROM {corpus} GROUP BY file"),
        format!("SELECT word, COUNT(*) AS n FROM {corpus} WHERE file = '{file}' GROUP BY word"),
        format!("SELECT COUNT(*) FROM {corpus} WHERE word = '{word}'"),
        format!("SELECT file, COUNT(*) AS n FROM {corpus} WHERE word = '{word}' GROUP BY file"),
        format!("SELECT file, offset FROM {corpus} WHERE word = '{word}'"),
        format!("SELECT COUNT(*) FROM {corpus} WHERE word LIKE 'inter%'"),
        format!(
            "SELECT ngram, COUNT(*) AS n FROM ngrams('{corpus}', 2) GROUP BY ngram ORDER BY n DESC, ngram LIMIT 100"
        ),
        format!("SELECT file, word FROM term_vectors('{corpus}', 10)"),
    ];
    writeln!(
        out,
        "| statement | rows | own, ms | DataFusion, ms | ratio |\n|---|--:|--:|--:|--:|"
    )?;
    for sql in &statements {
        let own = || own_rows(&database, sql);
        let through = || runtime.block_on(rows_through(&context, sql));
        let rows = own()?;
        if through()? != rows {
            return Err(format!("{sql}: not as many rows").into());
        }
        let (mut first, mut second) = (Vec::new(), Vec::new());
        for _ in 0..REPEATS {
            first.push(timed(own)?);
            second.push(timed(through)?);
        }
        let (first, second) = (median(first), median(second));
        let ratio = second / first;
        writeln!(
            out,
            "| `{sql}` | {rows} | {first:.2} | {second:.2} | {ratio:.2} |"
        )?;
    }
    writeln!(
        out,
        "\n| scan of words, partitions | own, M words/s | DataFusion, M words/s |\n|---|--:|--:|"
    )?;
    for partitions in [1, 2] {
        let context = zipfdb_datafusion::context(&database);
        let set = format!("SET datafusion.execution.target_partitions = {partitions}");
        runtime.block_on(context.sql(&set))?;
        context.register_udf(create_udf(
            "is_long",
            vec![DataType::Utf8View],
            DataType::Boolean,
            Volatility::Volatile,
            Arc::new(|values: &[ColumnarValue]| {
                let words = ColumnarValue::values_to_arrays(values)?;
                let words = words[0].as_any().downcast_ref::<StringViewArray>();
                let sizes = words.into_iter().flat_map(StringViewArray::lengths);
                let long: BooleanArray = sizes.map(|size| Some(size > 12)).collect();
                Ok(ColumnarValue::Array(Arc::new(long)))
            }),
        ));
        let filtered = format!("SELECT COUNT(*) FROM {corpus} WHERE is_long(word)");
        let scanned = format!("SELECT word FROM {corpus}");
        let words = own_rows(&database, &scanned)? as f64 / 1e6;
        let (mut first, mut second) = (Vec::new(), Vec::new());
        for _ in 0..REPEATS {
            first.push(timed(|| own_rows(&database, &scanned))?);
            second.push(timed(|| {
                runtime.block_on(rows_through(&context, &filtered))
            })?);
        }
        let rate = |times: Vec<f64>| words / median(times) * 1e3;
        let (first, second) = (rate(first), rate(second));
        writeln!(out, "| {partitions} | {first:.1} | {second:.1} |")?;
    }
    Ok(())
}

fn own_rows(database: &Database, sql: &str) -> Result<usize, Box<dyn Error>> {
    let mut rows = database.query(sql, ())?;
    let mut count = 0;
    while let Some(batch) = rows.next_batch(BATCH_ROWS)? {
        count += batch.len();
    }
    Ok(count)
}

async fn rows_through(context: &SessionContext, sql: &str) -> Result<usize, Box<dyn Error>> {
    let mut stream = context.sql(sql).await?.execute_stream().await?;
    let mut count = 0;
    while let Some(batch) = stream.next().await {
        count += batch?.num_rows();
    }
    Ok(count)
}

/// Milliseconds.
fn timed<T>(work: impl FnOnce() -> Result<T, Box<dyn Error>>) -> Result<f64, Box<dyn Error>> {
    let begin = Instant::now();
    work()?;
    Ok(Duration::as_secs_f64(&begin.elapsed()) * 1e3)
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
