//! Each format of records: names, texts, fields and places; what is written is read back.

use proptest::prelude::*;
use zipfdb_formats::{Cutting, FieldPattern, FieldValue, Format, ReadOptions};

use crate::support::{Kept, read, read_all_ways, text};

fn in_format(format: Format) -> ReadOptions<'static> {
    ReadOptions {
        cutting: Cutting::In(format),
        ..ReadOptions::default()
    }
}

fn fields(kept: &Kept, record: usize) -> Vec<(String, FieldValue)> {
    let fields = kept.records[record].0.fields.iter();
    fields
        .map(|(name, value)| (name.to_string(), value.clone()))
        .collect()
}

fn untyped(value: &str) -> FieldValue {
    FieldValue::Untyped(value.to_owned())
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    let pairs = pairs.iter();
    pairs
        .map(|(name, text)| (name.to_string(), text.to_string()))
        .collect()
}

#[test]
fn json_lines_have_texts_names_and_fields() {
    let lines = br#"{"file":"a/b","text":"one\n\ud83d\ude00","likes":3,"score":0.5,"is_new":true,"tags":["x",1],"day":null}

{"text":{"hex":"ff00"},"big":18446744073709551615}
{"content":"c","text":"t"}"#;
    let kept = read_all_ways("posts.jsonl", lines, &ReadOptions::default());
    assert_eq!(kept.rejects(), [""; 0]);
    let names = ["a/b", "posts.jsonl/2", "posts.jsonl/3"];
    let found = kept.texts();
    assert_eq!(
        names.map(str::to_owned).to_vec(),
        found
            .iter()
            .map(|(name, _)| name.clone())
            .collect::<Vec<_>>()
    );
    assert_eq!(kept.records[0].1, "one\n\u{1f600}".as_bytes());
    assert_eq!(kept.records[1].1, b"\xff\0");
    assert_eq!(kept.records[2].1, b"c");
    let named = |name: &str, value| (name.to_owned(), value);
    assert_eq!(
        fields(&kept, 0),
        [
            named("likes", FieldValue::Integer(3)),
            named("score", FieldValue::Real(0.5)),
            named("is_new", FieldValue::Boolean(true)),
            named("tags", text("[\"x\",1]")),
            named("day", FieldValue::Null),
        ]
    );
    assert_eq!(kept.records[1].0.place.to_string(), "line 3");
}

#[test]
fn options_name_the_fields_of_text_and_name() {
    let options = ReadOptions {
        text: Some("body".to_owned()),
        name: Some("id".to_owned()),
        ..ReadOptions::default()
    };
    let kept = read_all_ways("x.jsonl", b"{\"id\":7,\"body\":\"b\",\"text\":\"t\"}\n{\"body\":\"b\"}\n{\"id\":8}\n{\"id\":1.5,\"body\":\"b\"}\n", &options);
    assert_eq!(kept.texts(), pairs(&[("7", "b")]));
    assert_eq!(
        kept.rejects(),
        [
            "line 2, column 1: it has no field `id`, which gives the name",
            "line 3, column 1: it has no field `body`",
            "line 4, column 1: its name, the field `id`, is neither a string nor a whole number",
        ]
    );
}

#[test]
fn damaged_lines_of_json_are_rejected_with_their_places() {
    let lines = b"{\"text\":\"one\"}\n{\"text\":\"two}\n[1]\n{\"text\":\"\xff\"}\n{\"text\":1}\n{\"text\":\"a\",\"text\":\"b\"}\n{\"text\":\"three\"}";
    let kept = read_all_ways("x.jsonl", lines, &ReadOptions::default());
    assert_eq!(
        kept.texts(),
        pairs(&[("x.jsonl/1", "one"), ("x.jsonl/7", "three")])
    );
    let places: Vec<(u64, u64)> = kept
        .rejects
        .iter()
        .map(|reject| (reject.place.line, reject.place.column))
        .collect();
    assert_eq!(
        places,
        [(2, 13), (3, 1), (4, 10), (5, 1), (6, 23)],
        "{:?}",
        kept.rejects()
    );
}

#[test]
fn json_is_an_array_of_objects_or_objects() {
    for json in [
        "[{\"text\":\"one\"},\n {\"text\": \"t{w\\\"o\"}]\n",
        "{\"text\":\"one\"}\n{\"text\":\n\"t{w\\\"o\"}",
        "\u{feff} {\"text\":\"one\"}{\"text\":\"t{w\\\"o\"}",
    ] {
        let kept = read_all_ways("x.json", json.as_bytes(), &ReadOptions::default());
        assert_eq!(
            kept.texts(),
            pairs(&[("x.json/1", "one"), ("x.json/2", "t{w\"o")]),
            "{json}"
        );
    }
    assert_eq!(
        read_all_ways("x.json", b" [ ] ", &ReadOptions::default()).texts(),
        []
    );
    for (json, records, reject) in [
        (
            "[{\"text\":\"a\"}",
            1,
            "line 1, column 14: the array does not end",
        ),
        (
            "[{\"text\":\"a\"} {\"text\":\"b\"}]",
            1,
            "line 1, column 15: a `,` is missing",
        ),
        (
            "[\n {\"text\":\"a\"}, 7]",
            1,
            "line 2, column 16: an object must begin here",
        ),
        (
            "[{\"text\":\"a\"}] x",
            1,
            "line 1, column 16: there is something behind the array",
        ),
        (
            "{\"text\":\"a\"}\n {\"text\":",
            1,
            "line 2, column 2: the object does not end",
        ),
        ("7", 0, "line 1, column 1: an object must begin here"),
        (
            "[{\"text\":]}, {\"text\":\"b\"}]",
            0,
            "line 1, column 11: a `,` is missing",
        ),
    ] {
        let kept = read_all_ways("x.json", json.as_bytes(), &ReadOptions::default());
        assert_eq!(kept.records.len(), records, "{json}");
        assert_eq!(kept.rejects().last().unwrap(), reject, "{json}");
    }
}

#[test]
fn csv_has_names_quotes_and_lines_in_fields() {
    let csv =
        "file,text,n\r\na,\"one, \"\"two\"\"\nthree\",1\nb,,\nc,\"\",x\nd,X'ff',\"X'ff'\"\n\n";
    let kept = read_all_ways("x.csv", csv.as_bytes(), &ReadOptions::default());
    assert_eq!(kept.rejects(), ["line 4, column 1: its text is null"]);
    assert_eq!(kept.records[0].1, b"one, \"two\"\nthree");
    assert_eq!(kept.records[2].1, b"\xff");
    assert_eq!(fields(&kept, 2), [("n".to_owned(), text("X'ff'"))]);
    let lines: Vec<u64> = kept
        .records
        .iter()
        .map(|(record, _)| record.place.line)
        .collect();
    assert_eq!(lines, [2, 5, 6]);
    for (csv, reject) in [
        ("text\n\"a\nb", "line 2: a quote in the row does not end"),
        (
            "text\n\"a\"b\"\"\n",
            "line 2, column 4: a `,` must follow the quote",
        ),
        (
            "text,n\na\"b\"\n",
            "line 2, column 2: a quote in a field without quotes around it",
        ),
        (
            "text,n\na\n",
            "line 2, column 1: it has 1 fields, the first line has 2",
        ),
        (
            "n,text\n1,\"a\n\u{e9}\"b\n",
            "line 3, column 4: a `,` must follow the quote",
        ),
    ] {
        let kept = read_all_ways("x.csv", csv.as_bytes(), &ReadOptions::default());
        assert_eq!(kept.rejects(), [reject], "{csv}");
    }
    let kept = read_all_ways("x.csv", b"n,text\n1,a\xffb\n2,c\n", &ReadOptions::default());
    assert_eq!(
        kept.rejects(),
        ["line 2, column 4: it is not UTF-8; hint: the option encoding decodes it"]
    );
    assert_eq!(kept.texts().len(), 1);
}

#[test]
fn tsv_has_escapes_and_no_quotes() {
    let tsv = "file\ttext\na\tx\\ty\\nz\\\\\nb\t\\N\nc\t\"q\nd\tX'00'\ne\t\\X'00'\n";
    let kept = read_all_ways("x.tsv", tsv.as_bytes(), &ReadOptions::default());
    assert_eq!(kept.rejects(), ["line 3, column 1: its text is null"]);
    let expected = [
        ("a", "x\ty\nz\\"),
        ("c", "\"q"),
        ("d", "\0"),
        ("e", "X'00'"),
    ];
    assert_eq!(kept.texts(), pairs(&expected));
}

#[test]
fn messages_of_a_mailbox_are_records() {
    let mbox = b"From a@b Mon Jan  1 00:00:00 2024\nFrom: =?utf-8?q?J=C3=BCrgen?= <j@b.c>\nTo: x@y.z, w@y.z\nSubject: one\nMessage-ID: <1@b>\nDate: Mon, 1 Jan 2024 10:00:00 +0100\n\nbody\n>From here\n>>From there\nFrom inside\n\nFrom c@d Tue\nSubject: two\n\nx\n\n";
    let kept = read_all_ways("m.mbox", mbox, &ReadOptions::default());
    assert_eq!(kept.rejects(), [""; 0]);
    let texts = kept.texts();
    assert_eq!(texts[0].0, "m.mbox/1");
    assert!(
        texts[0]
            .1
            .ends_with("\n\nbody\nFrom here\n>From there\nFrom inside\n"),
        "{:?}",
        texts[0]
    );
    assert_eq!(texts[1].1, "Subject: two\n\nx\n");
    assert_eq!(
        fields(&kept, 0),
        [
            ("message_id".to_owned(), text("1@b")),
            ("subject".to_owned(), text("one")),
            ("author".to_owned(), text("J\u{fc}rgen <j@b.c>")),
            ("recipients".to_owned(), text("x@y.z, w@y.z")),
            ("date".to_owned(), text("2024-01-01T10:00:00+01:00")),
        ]
    );
    let options = ReadOptions {
        text: Some("body".to_owned()),
        name: Some("message_id".to_owned()),
        ..ReadOptions::default()
    };
    let kept = read_all_ways("m.mbox", mbox, &options);
    assert_eq!(
        kept.texts(),
        pairs(&[("1@b", "body\nFrom here\n>From there\nFrom inside\n")])
    );
    assert_eq!(
        kept.rejects(),
        ["line 14, column 1: the message has no `message_id`, which gives the name"]
    );
    let kept = read_all_ways("m.mbox", b"no mail\n", &ReadOptions::default());
    assert_eq!(
        kept.rejects(),
        ["line 1, column 1: a mailbox begins with `From `"]
    );
}

#[test]
fn resources_of_a_web_archive_are_records() {
    let record = |kind: &str, media: &str, block: &str| {
        format!(
            "WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Target-URI: http://x/{kind}\r\nWARC-Date: 2024-01-01T00:00:00Z\r\nContent-Type: {media}\r\nContent-Length: {}\r\n\r\n{block}\r\n\r\n",
            block.len()
        )
    };
    let http = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>page\r\n\r\nend";
    let archive = [
        record("warcinfo", "application/warc-fields", "a: b"),
        record("response", "application/http; msgtype=response", http),
        record("request", "application/http", "GET /"),
        record("conversion", "text/plain", "plain"),
    ]
    .concat();
    let kept = read_all_ways("x.warc", archive.as_bytes(), &ReadOptions::default());
    assert_eq!(kept.rejects(), [""; 0]);
    assert_eq!(
        kept.texts(),
        pairs(&[("x.warc/1", "<p>page\r\n\r\nend"), ("x.warc/2", "plain")])
    );
    assert_eq!(
        fields(&kept, 0)[0],
        ("uri".to_owned(), text("http://x/response"))
    );
    assert_eq!(
        fields(&kept, 0)[2],
        ("content_type".to_owned(), text("text/html"))
    );
    let kept = read_all_ways(
        "x.warc",
        &archive.as_bytes()[..archive.len() - 10],
        &ReadOptions::default(),
    );
    assert_eq!((kept.texts().len(), kept.rejects().len()), (1, 1));
    assert!(kept.rejects()[0].contains("the archive ends in a record"));
}

#[test]
fn lines_and_paragraphs_are_records_with_fields_of_a_pattern() {
    let log = b"h1 GET /a\r\nh2 PUT /b\n\n \nh3 x\n";
    let kept = read_all_ways("a.log", log, &in_format(Format::Lines));
    let texts: Vec<String> = kept.texts().into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts, ["h1 GET /a", "h2 PUT /b", "", " ", "h3 x"]);
    let kept = read_all_ways("a.log", log, &in_format(Format::Paragraphs));
    assert_eq!(
        kept.texts(),
        pairs(&[("a.log/1", "h1 GET /a\r\nh2 PUT /b"), ("a.log/2", "h3 x")])
    );
    assert_eq!(kept.records[1].0.place.line, 5);
    let options = ReadOptions {
        fields: Some(FieldPattern::new(r"^(?<host>\S+) (?<verb>[A-Z]+)?").unwrap()),
        ..in_format(Format::Lines)
    };
    let kept = read_all_ways("a.log", log, &options);
    assert_eq!(
        fields(&kept, 1),
        [
            ("host".to_owned(), untyped("h2")),
            ("verb".to_owned(), untyped("PUT"))
        ]
    );
    assert_eq!(fields(&kept, 2)[1].1, FieldValue::Null);
    assert_eq!(kept.rejects().len(), 2);
    assert!(
        kept.rejects()[0].starts_with("line 3, column 1: it does not match"),
        "{:?}",
        kept.rejects()
    );
    for (pattern, reason) in [
        ("(a)", "no named group"),
        ("(?<a>", "unclosed group"),
        ("(?<a>\\w{1000}){1000}", "exceeded limit"),
    ] {
        let error = FieldPattern::new(pattern).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn rows_of_the_csv_crate_are_read_back(rows in proptest::collection::vec(("[a-z]{1,3}", ".{1,20}"), 0..8)) {
        let mut writer = csv::WriterBuilder::new().quote_style(csv::QuoteStyle::Always).from_writer(Vec::new());
        writer.write_record(["field", "text"]).unwrap();
        for (field, value) in &rows {
            writer.write_record([field, value]).unwrap();
        }
        let kept = read("x.csv", &writer.into_inner().unwrap(), &ReadOptions::default());
        prop_assert_eq!(kept.rejects(), [""; 0]);
        let found: Vec<(FieldValue, Vec<u8>)> = kept.records.iter().map(|(record, text)| (record.fields[0].1.clone(), text.clone())).collect();
        let expected: Vec<(FieldValue, Vec<u8>)> = rows.iter().map(|(field, value)| (text(field), value.clone().into_bytes())).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn objects_of_serde_are_read_back(rows in proptest::collection::vec((any::<i64>(), ".*"), 0..8), is_array: bool) {
        let objects = rows.iter().map(|(n, text)| serde_json::json!({"n": n, "text": text}).to_string());
        let objects: Vec<String> = objects.collect();
        let (name, json) = if is_array {
            ("x.json", format!("[{}]", objects.join(",\n")))
        } else {
            ("x.jsonl", objects.join("\n"))
        };
        let kept = read(name, json.as_bytes(), &ReadOptions::default());
        prop_assert_eq!(kept.rejects(), [""; 0]);
        let found: Vec<(FieldValue, Vec<u8>)> = kept.records.iter().map(|(record, text)| (record.fields[0].1.clone(), text.clone())).collect();
        let expected: Vec<(FieldValue, Vec<u8>)> = rows.iter().map(|(n, text)| (FieldValue::Integer(*n), text.clone().into_bytes())).collect();
        prop_assert_eq!(found, expected);
    }
}
