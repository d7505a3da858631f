//! Any bytes as a source of records: compressed files, archives and files of each format.
//!
//! Invariant: reading ends, with records or rejects, and gives no more text than the limits allow. The first byte of an input chooses
//! the name of the source or its format, the others are its content.

use zipfdb_formats::{
    Cutting, FieldPattern, Format, Input, Limits, ReadOptions, Record, RecordSink, Reject, Result,
    read_source,
};

/// Names that sources have.
const NAMES: [&str; 12] = [
    "x.jsonl", "x.json", "x.csv", "x.tsv", "x.mbox", "x.warc", "x.html", "x.tar", "x.zip", "x.tgz",
    "x.xml", "x",
];

/// Bytes that a source may unpack to.
const UNPACKED_BYTES: u64 = 1 << 22;

#[derive(Default)]
struct Counted {
    text: u64,
}

impl RecordSink for Counted {
    fn text(&mut self, bytes: &[u8]) -> Result<()> {
        self.text += bytes.len() as u64;
        Ok(())
    }

    fn record(&mut self, record: Record) -> Result<()> {
        assert!(record.fields.iter().all(|(name, _)| name.len() <= 1 << 20));
        Ok(())
    }

    fn reject(&mut self, reject: Reject) -> Result<()> {
        assert!(!reject.reason.is_empty());
        Ok(())
    }
}

pub fn run(bytes: &[u8]) {
    let Some((&choice, content)) = bytes.split_first() else {
        return;
    };
    let choice = usize::from(choice);
    let (name, cutting) = match NAMES.get(choice) {
        Some(name) => (*name, Cutting::All),
        None => {
            let format = Format::ALL[(choice - NAMES.len()) % Format::ALL.len()];
            ("x", Cutting::In(format))
        }
    };
    let has_fields = matches!(cutting, Cutting::In(Format::Lines));
    let pattern = FieldPattern::new(r"^(?<first>\S+)").expect("it is an expression");
    let options = ReadOptions {
        cutting,
        fields: has_fields.then_some(pattern),
        strips_tags: true,
        limits: Limits {
            unpacked_bytes: Some(UNPACKED_BYTES),
            record_bytes: 1 << 20,
            depth: 3,
        },
        ..ReadOptions::default()
    };
    let mut counted = Counted::default();
    let input = Input::Stream(Box::new(content));
    read_source(name.as_bytes(), input, &options, &mut counted).expect("the sink takes all");
    // Values of JSON may be longer as text than as they stand.
    let given = 2 * (content.len() as u64 + UNPACKED_BYTES);
    assert!(counted.text <= given, "{} bytes of text", counted.text);
}
