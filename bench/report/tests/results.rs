//! bench/RESULTS.md is what the JSON beside it gives.

use std::fs;
use std::path::Path;

use zipfdb_bench_report::{Result, render, sections};

#[test]
fn results_are_what_the_json_gives() -> Result<()> {
    let bench = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folder = bench.join("results");
    let sections = sections(&folder)?;
    // Without any JSON the file is none of the generator's.
    if !sections.is_empty() {
        let text = fs::read_to_string(bench.join("RESULTS.md"))?;
        let expected = render(&folder, &sections)?;
        assert_eq!(text, expected, "hint: zipfdb-bench report");
    }
    Ok(())
}
