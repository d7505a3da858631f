//! A sink that keeps records, and sources in each compression.

use std::io::{Cursor, Read, Write};

use zipfdb_formats::{
    Compression, Compressor, Error, FieldValue, Input, ReadOptions, Record, RecordName, RecordSink,
    Reject, Result, read_source,
};

/// Keeps texts, records and rejects.
#[derive(Default)]
pub struct Kept {
    pub text: Vec<u8>,
    pub records: Vec<(Record, Vec<u8>)>,
    pub rejects: Vec<Reject>,
    pub stops: bool,
}

impl RecordSink for Kept {
    fn text(&mut self, bytes: &[u8]) -> Result<()> {
        self.text.extend_from_slice(bytes);
        Ok(())
    }

    fn record(&mut self, record: Record) -> Result<()> {
        self.records.push((record, std::mem::take(&mut self.text)));
        Ok(())
    }

    fn reject(&mut self, reject: Reject) -> Result<()> {
        self.text.clear();
        if self.stops {
            return Err(Error::Rejected { reject });
        }
        self.rejects.push(reject);
        Ok(())
    }
}

impl Kept {
    /// Names, as a database writes them, with texts.
    pub fn texts(&self) -> Vec<(String, String)> {
        let records = self.records.iter();
        records
            .map(|(record, text)| {
                (
                    shown(&record.name),
                    String::from_utf8_lossy(text).into_owned(),
                )
            })
            .collect()
    }

    pub fn rejects(&self) -> Vec<String> {
        self.rejects.iter().map(Reject::to_string).collect()
    }
}

fn shown(name: &RecordName) -> String {
    match name {
        RecordName::Path(path) => String::from_utf8_lossy(path).into_owned(),
        RecordName::Numbered { path, number } => {
            format!("{}/{number}", String::from_utf8_lossy(path))
        }
        RecordName::Given(name) => name.clone(),
    }
}

/// Reads a stream to its end.
pub fn read(name: &str, bytes: &[u8], options: &ReadOptions<'_>) -> Kept {
    let mut kept = Kept::default();
    let input = Input::Stream(Box::new(bytes));
    read_source(name.as_bytes(), input, options, &mut kept).unwrap();
    kept
}

/// Reads a file, and a stream of one byte a read, and compares them.
pub fn read_all_ways(name: &str, bytes: &[u8], options: &ReadOptions<'_>) -> Kept {
    struct Slow<'a>(Cursor<&'a [u8]>);
    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let size = buffer.len().min(1);
            self.0.read(&mut buffer[..size])
        }
    }
    let whole = read(name, bytes, options);
    let mut slow = Kept::default();
    let input = Input::Stream(Box::new(Slow(Cursor::new(bytes))));
    read_source(name.as_bytes(), input, options, &mut slow).unwrap();
    let mut of_file = Kept::default();
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    std::io::Seek::rewind(&mut file).unwrap();
    read_source(name.as_bytes(), Input::File(file), options, &mut of_file).unwrap();
    for other in [slow, of_file] {
        assert_eq!(other.records, whole.records, "{name}");
        assert_eq!(other.rejects, whole.rejects, "{name}");
    }
    whole
}

pub fn text(value: &str) -> FieldValue {
    FieldValue::Text(value.to_owned())
}

/// The bytes compressed.
pub fn compressed(compression: Compression, bytes: &[u8]) -> Vec<u8> {
    match compression {
        Compression::Xz => {
            let mut writer =
                lzma_rust2::XzWriter::new(Vec::new(), lzma_rust2::XzOptions::with_preset(1))
                    .unwrap();
            writer.write_all(bytes).unwrap();
            writer.finish().unwrap()
        }
        Compression::Bzip2 => {
            let mut writer = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
            writer.write_all(bytes).unwrap();
            writer.finish().unwrap()
        }
        Compression::Lz4 => {
            let frame = lz4_flex::frame::FrameInfo::new().content_checksum(true);
            let mut writer = lz4_flex::frame::FrameEncoder::with_frame_info(frame, Vec::new());
            writer.write_all(bytes).unwrap();
            writer.finish().unwrap()
        }
        compression => {
            let mut writer = Compressor::new(compression, Vec::new()).unwrap().unwrap();
            writer.write_all(bytes).unwrap();
            writer.finish().unwrap()
        }
    }
}

/// A tar archive as other programs write it.
pub fn tar(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        builder.append_data(&mut header, name, *content).unwrap();
    }
    builder.into_inner().unwrap()
}

/// A zip archive.
pub fn zip(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in files {
        let options = zip::write::SimpleFileOptions::default()
            .compression_method(zip::CompressionMethod::Deflated);
        writer.start_file(*name, options).unwrap();
        writer.write_all(content).unwrap();
    }
    writer.finish().unwrap().into_inner()
}
