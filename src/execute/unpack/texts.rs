//! Sources that COPY ... FROM unpacks: compressed files, archives and files of records become texts in temporary files.
//!
//! Invariant: an import sees unpacked texts as it sees files, with names, sizes and conflicts known before the first is read, so all or
//! none of them are copied. Threads unpack several sources at once, each into a file of its own; a source that cannot be read, or a
//! record, is one of the listing's unreadable paths. Formats are known by the crate `zipfdb-formats` alone.

use std::fs::File;
use std::io::{self, Cursor, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rayon::prelude::*;
use zipfdb_formats::{
    Cutting, Decode, FieldPattern, Format, Input, Limits, ReadOptions, Record, RecordName,
    RecordSink, Reject, is_named_format, is_plain_text, read_source,
};
use zipfdb_sql::plan::RecordOptions;
use zipfdb_storage::encode_values;

use super::fields::{FieldNumbers, FieldReader, FoundFields};
use super::{ImportedFields, Unpacking};
use crate::overlay::check_name;
use crate::paths::encodings::{Decoded, MARK_SIZE_MAX, TextEncoding};
use crate::paths::sources::{Listing, OnError, SIZE_UNKNOWN, Source, Unreadable};
use crate::paths::streams;
use crate::paths::unpacked::UnpackedText;
use crate::paths::{bytes_of_name, name_of_bytes};
use crate::runtime::interrupt::check;
use crate::{Error, Result};

/// Bytes of a source that show whether it is packed.
const BEGINNING: usize = 512;

/// Bytes of texts that are written at a time.
const BUFFER_BYTES: usize = 1 << 20;

/// Digits of the number in a made name, so that a billion records of a file are in their order.
const NUMBER_DIGITS: usize = 9;

/// Records that one source may reject: a source with more has another format.
const REJECTS_MAX: usize = 100_000;

/// Puts the texts of packed sources, and the records of others, in the place of the sources. `path` is the path of the statement.
///
/// # Errors
/// If an option cannot be used, or the disk is full; [`Error::Interrupted`] once `stop` is set. Sources that cannot be read are in the
/// listing.
pub(in crate::execute) fn unpack(
    listing: Listing,
    path: &Path,
    unpacking: &Unpacking<'_>,
    stop: &AtomicBool,
) -> Result<(Listing, ImportedFields)> {
    let records = unpacking.records;
    let is_named = path.to_str().is_some_and(is_named_format);
    let is_file = path.is_file();
    let cutting = match records.format.as_deref() {
        None if is_named || is_file => Cutting::Named,
        None | Some("bytes") => {
            refuse_options(records)?;
            return Ok((listing, ImportedFields::default()));
        }
        Some("auto") => Cutting::All,
        Some(name) => Cutting::In(Format::named(name).ok_or_else(|| Error::Invalid {
            subject: "format".to_owned(),
            reason: format!("no such format {name}"),
        })?),
    };
    let fields = (records.fields.as_deref())
        .map(FieldPattern::new)
        .transpose();
    let options = ReadOptions {
        cutting,
        text: records.text.clone(),
        name: records.name.clone(),
        fields: fields.map_err(invalid_option)?,
        strips_tags: records.strips_tags,
        limits: Limits {
            unpacked_bytes: records.unpack_limit,
            ..Limits::default()
        },
        directory: None,
        decode: (unpacking.encoding != TextEncoding::BYTES).then_some(&unpacking.encoding),
    };
    let Listing {
        sources,
        unreadable,
        encoding,
        ..
    } = listing;
    let numbers = FieldNumbers::new(unpacking.schema, records.creates_columns);
    let next = AtomicUsize::new(0);
    let has_failed = AtomicBool::new(false);
    let workers = (0..rayon::current_num_threads()).into_par_iter();
    let done = workers.map(|_| {
        let mut sink = TextSink::new(unpacking, &numbers, stop);
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(source) = sources.get(number) else {
                break;
            };
            sink.fields.begin_source(number);
            check(stop)?;
            // Under `on_error = 'stop'` one source that cannot be read is enough.
            if has_failed.load(Ordering::Relaxed) {
                break;
            }
            let read = sink.read(source, &options);
            if read.is_err() || unpacking.on_error == OnError::Stop && !sink.unreadable.is_empty() {
                has_failed.store(true, Ordering::Relaxed);
            }
            read?;
        }
        sink.finish()
    });
    let done: Vec<UnpackedTexts> = done.collect::<Result<_>>()?;
    let mut listing = Listing {
        sources: Vec::new(),
        unreadable,
        encoding,
        fields: Vec::new(),
    };
    let mut found = Vec::new();
    for mut texts in done {
        listing.sources.append(&mut texts.sources);
        listing.unreadable.append(&mut texts.unreadable);
        found.push(texts.fields);
    }
    listing.sort_by_name();
    listing
        .unreadable
        .sort_by(|one, other| one.path.cmp(&other.path));
    if unpacking.on_error == OnError::Stop {
        listing.check_readable()?;
    }
    Ok((listing, numbers.settle(found)))
}

/// Refuses options of records where no source is cut into records.
fn refuse_options(records: &RecordOptions) -> Result<()> {
    let named = [
        ("text", records.text.is_some()),
        ("name", records.name.is_some()),
        ("fields", records.fields.is_some()),
        ("create_columns", records.creates_columns),
        ("strip", records.strips_tags),
        ("unpack_limit", records.unpack_limit.is_some()),
    ];
    match named.iter().find(|(_, is_set)| *is_set) {
        None => Ok(()),
        Some((option, _)) => Err(Error::Invalid {
            subject: format!("option {option}"),
            reason: "the files are copied as they are; hint: format = 'auto' unpacks them and cuts them into records"
                .to_owned(),
        }),
    }
}

fn invalid_option(error: zipfdb_formats::Error) -> Error {
    match error {
        zipfdb_formats::Error::Option { option, reason } => Error::Invalid {
            subject: format!("option {option}"),
            reason,
        },
        error => Error::Invalid {
            subject: "options".to_owned(),
            reason: error.to_string(),
        },
    }
}

impl Decode for TextEncoding {
    fn decode<'r>(&self, mut source: Box<dyn Read + 'r>) -> io::Result<Box<dyn Read + 'r>> {
        let mut beginning = Vec::new();
        (&mut source)
            .take(MARK_SIZE_MAX as u64)
            .read_to_end(&mut beginning)?;
        let decoding = self.decoding(&beginning);
        let decoding =
            decoding.map_err(|reason| io::Error::new(io::ErrorKind::InvalidData, reason))?;
        let source = Cursor::new(beginning).chain(source);
        Ok(match decoding {
            Some(decoding) => Box::new(Decoded::new(source, decoding)),
            None => Box::new(source),
        })
    }
}

/// What a thread has unpacked.
struct UnpackedTexts {
    sources: Vec<Source>,
    unreadable: Vec<Unreadable>,
    fields: FoundFields,
}

/// Writes texts to a temporary file. The values of a record follow its text.
struct TextSink<'a> {
    unpacking: &'a Unpacking<'a>,
    stop: &'a AtomicBool,
    /// Made when the first text is written.
    file: Option<Arc<File>>,
    /// The bytes that follow those in the file.
    buffer: Vec<u8>,
    /// The size of the file.
    written: u64,
    /// The start of the text at hand.
    start: u64,
    path: Arc<Path>,
    rejects: usize,
    sources: Vec<Source>,
    unreadable: Vec<Unreadable>,
    fields: FieldReader<'a>,
}

impl<'a> TextSink<'a> {
    fn new(
        unpacking: &'a Unpacking<'a>,
        numbers: &'a FieldNumbers<'a>,
        stop: &'a AtomicBool,
    ) -> TextSink<'a> {
        TextSink {
            unpacking,
            stop,
            file: None,
            buffer: Vec::new(),
            written: 0,
            start: 0,
            path: Path::new("").into(),
            rejects: 0,
            sources: Vec::new(),
            unreadable: Vec::new(),
            fields: FieldReader::new(numbers),
        }
    }

    /// Reads a source, or leaves it as it is if it is plain text.
    fn read(&mut self, source: &Source, options: &ReadOptions<'_>) -> Result<()> {
        self.path = Arc::clone(&source.path);
        self.rejects = 0;
        let name = bytes_of_name(&source.name);
        let read = if source.bytes == SIZE_UNKNOWN {
            let opened = streams::open_source(&source.path);
            opened.map(|stream| {
                let stream = WaitingStream {
                    stream,
                    stop: self.stop,
                };
                read_source(&name, Input::Stream(Box::new(stream)), options, self)
            })
        } else {
            self.read_file(source, &name, options)
        };
        check(self.stop)?;
        match read {
            Ok(Ok(())) => Ok(()),
            // It is among the unreadable ones.
            Ok(Err(zipfdb_formats::Error::Rejected { .. })) => Ok(()),
            Ok(Err(zipfdb_formats::Error::Sink { source })) => Err(self.failed(source)),
            Ok(Err(error)) => Err(invalid_option(error)),
            Err(error) => {
                self.drop_text();
                let reason = zipfdb_storage::IoReason(&error).to_string();
                let path = source.path.to_path_buf();
                self.unreadable.push(Unreadable::whole(path, reason));
                Ok(())
            }
        }
    }

    fn read_file(
        &mut self,
        source: &Source,
        name: &[u8],
        options: &ReadOptions<'_>,
    ) -> io::Result<zipfdb_formats::Result<()>> {
        let mut file = File::open(&source.path)?;
        let before = file.metadata()?;
        let mut beginning = Vec::new();
        (&mut file)
            .take(BEGINNING as u64)
            .read_to_end(&mut beginning)?;
        if is_plain_text(name, &beginning, options) {
            self.sources.push(source.clone());
            return Ok(Ok(()));
        }
        file.rewind()?;
        let first = self.sources.len();
        let read = read_source(name, Input::File(file.try_clone()?), options, self);
        let after = file.metadata()?;
        if before.len() != after.len() || before.modified()? != after.modified()? {
            self.sources.truncate(first);
            return Err(io::Error::other("it changed while it was read"));
        }
        Ok(read)
    }

    fn finish(mut self) -> Result<UnpackedTexts> {
        self.write_out().map_err(|source| self.failed(source))?;
        Ok(UnpackedTexts {
            sources: self.sources,
            unreadable: self.unreadable,
            fields: self.fields.finish(),
        })
    }

    /// Where the next byte will be.
    fn end(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Drops the bytes of the text at hand.
    fn drop_text(&mut self) {
        match self.start.checked_sub(self.written) {
            Some(kept) => self.buffer.truncate(kept as usize), // at most its length
            None => {
                self.buffer.clear();
                self.written = self.start;
            }
        }
    }

    fn file(&mut self) -> io::Result<&Arc<File>> {
        if self.file.is_none() {
            let file = self.unpacking.directory.temporary_file()?;
            self.file = Some(Arc::new(file));
        }
        self.file
            .as_ref()
            .ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.buffer.len() + bytes.len() > BUFFER_BYTES {
            self.write_out()?;
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    fn write_out(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let (buffer, written) = (std::mem::take(&mut self.buffer), self.written);
        let mut file = &**self.file()?;
        file.seek(SeekFrom::Start(written))?;
        file.write_all(&buffer)?;
        self.written += buffer.len() as u64;
        self.buffer = buffer;
        self.buffer.clear();
        Ok(())
    }

    fn failed(&self, source: io::Error) -> Error {
        self.unpacking.directory.failed(source)
    }

    /// The name of a record in the corpus.
    fn name(record: &Record) -> String {
        match &record.name {
            RecordName::Path(path) => name_of_bytes(path),
            RecordName::Numbered { path, number } => {
                let path = name_of_bytes(path);
                format!("{path}/{number:0NUMBER_DIGITS$}")
            }
            RecordName::Given(name) => name.clone(),
        }
    }
}

impl RecordSink for TextSink<'_> {
    fn text(&mut self, bytes: &[u8]) -> zipfdb_formats::Result<()> {
        self.check()?;
        Ok(self.append(bytes)?)
    }

    /// The one place where a new file gets its text and its fields.
    fn record(&mut self, record: Record) -> zipfdb_formats::Result<()> {
        self.check()?;
        let name = TextSink::name(&record);
        if let Err(fault) = check_name(&name) {
            let (place, reason) = (record.place, fault.to_string());
            return self.reject(Reject { place, reason });
        }
        let values = match self.fields.values(&record.fields) {
            Ok(values) => values,
            Err(reason) => {
                let place = record.place;
                return self.reject(Reject { place, reason });
            }
        };
        let bytes = self.end() - self.start;
        let mut encoded = Vec::new();
        if !values.is_empty() {
            encode_values(&values, &mut encoded);
        }
        let values_bytes = u32::try_from(encoded.len());
        let values_bytes = values_bytes.map_err(|_| io::Error::other("values of 4 GiB"))?;
        self.append(&encoded)?;
        let file = Arc::clone(self.file()?);
        self.sources.push(Source {
            name,
            path: Arc::clone(&self.path),
            bytes,
            identity: None,
            decoding: None,
            unpacked: Some(UnpackedText::new(&file, self.start).with_values(values_bytes)),
        });
        self.start = self.end();
        Ok(())
    }

    fn reject(&mut self, reject: Reject) -> zipfdb_formats::Result<()> {
        self.check()?;
        self.drop_text();
        let member = &*reject.place.member;
        let path = match member {
            "" => self.path.to_path_buf(),
            member => self.path.join(member),
        };
        self.rejects += 1;
        self.unreadable.push(Unreadable {
            path,
            line: reject.place.line,
            column: reject.place.column,
            reason: reject.reason.clone(),
        });
        if self.unpacking.on_error == OnError::Stop {
            return Err(zipfdb_formats::Error::Rejected { reject });
        }
        if self.rejects == REJECTS_MAX {
            let path = self.path.to_path_buf();
            let reason =
                format!("{REJECTS_MAX} of its records cannot be read, so it was left there");
            self.unreadable.push(Unreadable::whole(path, reason));
            return Err(zipfdb_formats::Error::Rejected { reject });
        }
        Ok(())
    }
}

impl TextSink<'_> {
    /// Ends reading once the statement must end; the error is replaced by the reason.
    fn check(&self) -> zipfdb_formats::Result<()> {
        check(self.stop).map_err(|error| io::Error::other(error).into())
    }
}

/// A stream that waits for its bytes, until the statement must end.
struct WaitingStream<'a> {
    stream: File,
    stop: &'a AtomicBool,
}

impl Read for WaitingStream<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match streams::wait_to_read(&self.stream).and_then(|()| self.stream.read(buffer)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    check(self.stop).map_err(io::Error::other)?;
                }
                read => return read,
            }
        }
    }
}
