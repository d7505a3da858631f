//! Compressed files and archives, and what is in them.

use zipfdb_formats::{Compression, Cutting, Format, Limits, ReadOptions};

use crate::support::{compressed, read, read_all_ways, tar, zip};

fn everything() -> ReadOptions<'static> {
    ReadOptions {
        cutting: Cutting::All,
        ..ReadOptions::default()
    }
}

fn named(names: &[&str]) -> Vec<(String, String)> {
    let named = names.iter().map(|name| name.rsplit_once('=').unwrap());
    named
        .map(|(name, text)| (name.to_owned(), text.to_owned()))
        .collect()
}

#[test]
fn each_compression_gives_the_content_under_the_name_without_its_extension() {
    let text = "some words and then some more\n".repeat(50_000);
    for compression in Compression::ALL {
        let one = compressed(compression, text.as_bytes());
        assert_eq!(Compression::of_beginning(&one), Some(compression));
        let extension = match compression {
            Compression::Gzip => "gz",
            Compression::Zstd => "zst",
            Compression::Xz => "xz",
            Compression::Bzip2 => "bz2",
            _ => "lz4",
        };
        let name = format!("a.txt.{extension}");
        assert_eq!(Compression::of_name(name.as_bytes()), Some(compression));
        let kept = read(&name, &one, &ReadOptions::default());
        assert_eq!(kept.texts(), [("a.txt".to_owned(), text.clone())]);
        // Without the extension, the bytes decide.
        let kept = read("a", &one, &ReadOptions::default());
        assert_eq!(kept.texts(), [("a".to_owned(), text.clone())]);
        // Several behind each other are one.
        let two = [one.clone(), compressed(compression, b"the end")].concat();
        let kept = read(&name, &two, &ReadOptions::default());
        assert_eq!(kept.rejects(), [""; 0]);
        assert_eq!(kept.texts()[0].1.len(), text.len() + 7, "{name}");
        let empty = compressed(compression, b"");
        assert_eq!(
            read_all_ways(&name, &empty, &ReadOptions::default()).texts(),
            named(&["a.txt="])
        );
    }
}

#[test]
fn a_plain_file_with_the_name_of_a_compressed_one_is_plain() {
    let kept = read_all_ways("a.txt.gz", b"plain", &ReadOptions::default());
    assert_eq!(kept.texts(), named(&["a.txt.gz=plain"]));
}

#[test]
fn members_of_archives_are_files_below_them() {
    let files: [(&str, &[u8]); 4] = [
        ("./a.txt", b"one"),
        ("b/c.csv", b"x,y\n1,2\n"),
        ("b/empty", b""),
        ("d.gz", &compressed(Compression::Gzip, b"two")),
    ];
    for (name, archive, top) in [
        ("x.tar", tar(&files), "x.tar"),
        ("x.zip", zip(&files), "x.zip"),
        (
            "x.tgz",
            compressed(Compression::Gzip, &tar(&files)),
            "x.tar",
        ),
        (
            "x.tar.zst",
            compressed(Compression::Zstd, &tar(&files)),
            "x.tar",
        ),
    ] {
        let kept = read_all_ways(name, &archive, &ReadOptions::default());
        let names: Vec<String> = kept.texts().into_iter().map(|(name, _)| name).collect();
        let below = ["a.txt", "b/c.csv", "b/empty", "d.gz"].map(|name| format!("{top}/{name}"));
        assert_eq!(names, below, "{name}");
        assert_eq!(kept.records[1].1, files[1].1);
        assert_eq!(kept.records[3].1, files[3].1);
    }
}

#[test]
fn archives_in_archives_are_unpacked_where_that_is_asked_for() {
    let inner = tar(&[(
        "lines.jsonl",
        b"{\"text\":\"one\"}\n{\"text\":\"two\",\"file\":\"t\"}\n",
    )]);
    let middle = zip(&[
        ("inner.tar.xz", &compressed(Compression::Xz, &inner)),
        ("plain", b"three"),
    ]);
    let outer = compressed(Compression::Bzip2, &tar(&[("middle.zip", &middle)]));
    let kept = read_all_ways("outer.tar.bz2", &outer, &everything());
    let top = "outer.tar/middle.zip";
    let expected = [
        format!("{top}/inner.tar/lines.jsonl/1=one"),
        "t=two".to_owned(),
        format!("{top}/plain=three"),
    ];
    assert_eq!(
        kept.texts(),
        named(&expected.each_ref().map(String::as_str))
    );
    let place = kept.records[1].0.place.to_string();
    assert_eq!(place, "middle.zip/inner.tar.xz/lines.jsonl: line 2");
    // As text, members are unpacked but not cut.
    let options = ReadOptions {
        cutting: Cutting::In(Format::Text),
        ..ReadOptions::default()
    };
    assert_eq!(read("outer.tar.bz2", &outer, &options).texts().len(), 2);
    let plain = read("outer.tar.bz2", &outer, &ReadOptions::default());
    assert_eq!(plain.texts()[0].0, "outer.tar/middle.zip");
}

#[test]
fn sources_that_unpack_to_too_much_are_refused() {
    // Eight MiB of zeros, compressed twice: both levels count.
    let zeros = vec![0; 8 << 20];
    let bomb = compressed(Compression::Gzip, &compressed(Compression::Zstd, &zeros));
    assert!(bomb.len() < 1 << 12);
    let options = |bytes| ReadOptions {
        limits: Limits {
            unpacked_bytes: Some(bytes),
            ..Limits::default()
        },
        ..ReadOptions::default()
    };
    let mut counted = Counted::default();
    let input = zipfdb_formats::Input::Stream(Box::new(&bomb[..]));
    zipfdb_formats::read_source(b"bomb", input, &options(1 << 20), &mut counted).unwrap();
    let expected = "it unpacks to more than 1048576 bytes";
    assert!(counted.reason.contains(expected), "{}", counted.reason);
    assert!(counted.bytes <= 1 << 20);
    let kept = read("bomb", &bomb, &options((8 << 20) + (1 << 12)));
    assert_eq!(kept.rejects(), [""; 0]);

    let small = compressed(Compression::Gzip, &[b'x'; 10_000]);
    let within = |bytes| ReadOptions {
        limits: Limits {
            unpacked_bytes: Some(bytes),
            ..Limits::default()
        },
        ..ReadOptions::default()
    };
    assert_eq!(read("a.gz", &small, &within(10_000)).rejects(), [""; 0]);
    let rejects = read("a.gz", &small, &within(9_999)).rejects();
    assert!(
        rejects[0].starts_with("it unpacks to more than 9999 bytes"),
        "{rejects:?}"
    );
    let archive = zip(&[("a", &[b'x'; 10_000]), ("b", &[b'y'; 10_000])]);
    let kept = read("a.zip", &archive, &within(15_000));
    assert_eq!((kept.texts().len(), kept.rejects().len()), (1, 1));

    let mut deep = b"text".to_vec();
    for _ in 0..9 {
        deep = compressed(Compression::Gzip, &deep);
    }
    let kept = read("deep.gz", &deep, &ReadOptions::default());
    assert_eq!(
        kept.rejects(),
        ["more than 8 archives and compressed files inside of each other"]
    );
}

/// Counts bytes without keeping them.
#[derive(Default)]
struct Counted {
    bytes: u64,
    reason: String,
}

impl zipfdb_formats::RecordSink for Counted {
    fn text(&mut self, bytes: &[u8]) -> zipfdb_formats::Result<()> {
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    fn record(&mut self, _: zipfdb_formats::Record) -> zipfdb_formats::Result<()> {
        Ok(())
    }

    fn reject(&mut self, reject: zipfdb_formats::Reject) -> zipfdb_formats::Result<()> {
        self.reason = reject.reason;
        Ok(())
    }
}
