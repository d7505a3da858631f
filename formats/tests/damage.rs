//! Cut, changed and random input: records or rejects, never a panic, and memory within limits.

use proptest::prelude::*;
use zipfdb_formats::{Compression, Cutting, Format, Limits, ReadOptions};

use crate::support::{Kept, compressed, read, tar, zip};

fn everything() -> ReadOptions<'static> {
    ReadOptions {
        cutting: Cutting::All,
        limits: Limits {
            unpacked_bytes: Some(1 << 24),
            record_bytes: 1 << 16,
            depth: 4,
        },
        ..ReadOptions::default()
    }
}

/// Small sources of all kinds.
fn sources() -> Vec<(String, Vec<u8>)> {
    let jsonl = b"{\"file\":\"a\",\"text\":\"one\"}\n{\"file\":\"b\",\"text\":\"two\"}\n";
    let files: [(&str, &[u8]); 3] = [
        ("a.jsonl", jsonl),
        ("b.csv", b"file,text\nx,\"y\nz\"\n"),
        ("c.mbox", b"From a\nSubject: b\n\nc\n\nFrom d\n\ne\n"),
    ];
    let (tar, zip) = (tar(&files), zip(&files));
    let mut sources = vec![
        (
            "x.json".to_owned(),
            b"[{\"text\":\"a\"},{\"text\":\"b\"}]".to_vec(),
        ),
        ("x.tsv".to_owned(), b"text\tn\na\\tb\t1\n".to_vec()),
        (
            "x.warc".to_owned(),
            b"WARC/1.0\r\nWARC-Type: resource\r\nContent-Length: 3\r\n\r\nabc\r\n\r\n".to_vec(),
        ),
        (
            "x.html".to_owned(),
            b"<p class=\"a\">b</p><script>c</script>".to_vec(),
        ),
        ("x.zip".to_owned(), zip),
    ];
    for compression in Compression::ALL {
        sources.push(("x.tar".to_owned(), compressed(compression, &tar)));
    }
    for (name, content) in files {
        sources.push((name.to_owned(), content.to_vec()));
    }
    sources
}

#[test]
fn sources_that_are_cut_give_the_records_before_or_a_reject() {
    for (name, bytes) in sources() {
        let whole = read(&name, &bytes, &everything());
        assert_eq!(whole.rejects(), [""; 0], "{name}");
        for end in 0..bytes.len() {
            let kept = read(&name, &bytes[..end], &everything());
            assert!(kept.records.len() <= whole.records.len(), "{name} {end}");
        }
    }
}

#[test]
fn compressed_sources_that_are_cut_or_changed_are_rejected() {
    let text = b"some words and then some more\n".repeat(3);
    for compression in Compression::ALL {
        let bytes = compressed(compression, &text);
        // The first bytes alone show no compression.
        for end in 10..bytes.len() {
            let kept = read("x", &bytes[..end], &everything());
            assert_eq!(kept.texts(), [], "{compression:?} {end}");
            assert_eq!(kept.rejects().len(), 1, "{compression:?} {end}");
        }
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0x10;
            let kept = read("x", &changed, &everything());
            // Some bits of headers mean nothing, and those of the mark make it plain bytes.
            let is_plain = kept.records.len() == 1 && kept.records[0].1 == changed;
            let is_same = kept.records.len() == 1 && kept.records[0].1 == text;
            assert!(
                is_plain || is_same || kept.rejects().len() == 1,
                "{compression:?} {at}"
            );
        }
    }
}

#[test]
fn records_before_the_damage_of_a_compressed_source_are_given() {
    let lines = b"{\"text\":\"one\"}\n{\"text\":\"two\"}\n";
    let bytes = compressed(Compression::Gzip, lines);
    let kept = read("x.jsonl.gz", &bytes[..bytes.len() - 4], &everything());
    assert_eq!(kept.texts().len(), 2);
    assert_eq!(kept.rejects(), ["line 3: it ends too early"]);
}

#[test]
fn records_longer_than_the_limit_are_rejected() {
    let long = "x".repeat(1 << 17);
    let check = |name: &str, bytes: String, options: &ReadOptions<'_>| -> Kept {
        let kept = read(name, bytes.as_bytes(), options);
        assert!(
            kept.rejects()[0].contains("of more than 65536 bytes"),
            "{:?}",
            kept.rejects()
        );
        kept
    };
    check("x.jsonl", format!("{{\"text\":\"{long}\"}}"), &everything());
    check(
        "x.json",
        format!("[{{\"text\":\"{long}\"}}]"),
        &everything(),
    );
    check("x.csv", format!("text\n{long}\n"), &everything());
    check(
        "x.csv",
        format!("text\n\"{}\"\n", "x\n".repeat(1 << 16)),
        &everything(),
    );
    check(
        "x.mbox",
        format!("From a\n\n{}", "x\n".repeat(1 << 16)),
        &everything(),
    );
    for format in [Format::Lines, Format::Paragraphs] {
        let options = ReadOptions {
            cutting: Cutting::In(format),
            ..everything()
        };
        check("x.log", format!("{long}\n"), &options);
    }
    // Texts that are a whole file pass through.
    assert_eq!(
        read("x.txt", long.as_bytes(), &everything()).records[0]
            .1
            .len(),
        long.len()
    );
}

#[test]
fn a_sink_that_stops_ends_reading() {
    let mut kept = Kept {
        stops: true,
        ..Kept::default()
    };
    let input =
        zipfdb_formats::Input::Stream(Box::new(&b"{\"text\":\"a\"}\n{\n{\"text\":\"b\"}\n"[..]));
    let error =
        zipfdb_formats::read_source(b"x.jsonl", input, &everything(), &mut kept).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("line 2, column 1: it is no JSON object"),
        "{error}"
    );
    assert_eq!(kept.records.len(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn changed_sources_cause_no_panic(number in 0..13_usize, changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..6)) {
        let sources = sources();
        let (name, mut bytes) = sources[number % sources.len()].clone();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        read(&name, &bytes, &everything());
    }

    #[test]
    fn random_bytes_cause_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600), number in 0..Format::ALL.len()) {
        let options = ReadOptions { cutting: Cutting::In(Format::ALL[number]), strips_tags: true, ..everything() };
        read("x", &bytes, &options);
    }
}
