//! Any text into CQL: a query or an error with a place inside the text, never a panic or a hang.
//!
//! What was read must be read again, as the same query, from the text that it is printed as.

use zipfdb_search::cql::parse;

/// One input.
pub fn run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    match parse(&text) {
        Ok(query) => {
            let printed = query.to_string();
            let again = parse(&printed).unwrap_or_else(|error| panic!("{printed}: {error}"));
            assert_eq!(again, query, "{printed}");
        }
        Err(error) => {
            assert!(error.place().byte <= text.len());
            assert!(!error.to_string().contains('\n'));
        }
    }
}
