//! A source to records: decompressed, unpacked, decoded and cut, level by level.
//!
//! Invariant: names and first bytes decide on compression and archives, names and options on records. A member that is damaged is
//! rejected, and reading goes on behind it where that is possible: in an archive with the next member.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read, Seek};

use crate::archive::{ArchiveKind, BLOCK, TarReader, read_zip};
use crate::compression::Compression;
use crate::error::{Damage, Error, Failure, Result};
use crate::format::Format;
use crate::limits::Meter;
use crate::member::{Member, MemberRecords};
use crate::options::{Cutting, ReadOptions};
use crate::record::RecordSink;
use crate::records;

/// The bytes of a source.
pub enum Input<'a> {
    /// A stream, read once from start to end.
    Stream(Box<dyn Read + 'a>),
    /// A file.
    File(File),
}

impl std::fmt::Debug for Input<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Input::Stream(_) => formatter.write_str("Stream"),
            Input::File(file) => formatter.debug_tuple("File").field(file).finish(),
        }
    }
}

/// Reads a source whose name is the last part of its path, and gives its records to a sink.
///
/// # Errors
/// [`Error::Rejected`] where the sink does not go on behind a reject, and other errors of the sink.
pub fn read_source(
    name: &[u8],
    input: Input<'_>,
    options: &ReadOptions<'_>,
    sink: &mut dyn RecordSink,
) -> Result<()> {
    let meter = Meter::default();
    let mut walk = Walk {
        options,
        meter: &meter,
        sink,
    };
    let top = Member {
        path: name.to_vec(),
        shown: Vec::new(),
        depth: 0,
        is_inside: false,
    };
    let read = match input {
        Input::File(file) => walk.file(&top, file),
        Input::Stream(stream) => walk.stream(&top, Box::new(meter.source(stream))),
    };
    walk.settle(&top, read)
}

/// A source that has failed: it gives its error once, and that it ended too early after that.
struct FailedSource(Option<io::Error>);

impl Read for FailedSource {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        let error = self.0.take();
        Err(error.unwrap_or_else(|| io::ErrorKind::UnexpectedEof.into()))
    }
}

/// Whether a path or glob names compressed files, archives or files of records by its extension: what it means is then unpacked
/// and cut into records without being asked to.
pub fn is_named_format(path: &str) -> bool {
    let name = path.as_bytes();
    let is_archive = ArchiveKind::of_name(name).is_some();
    is_archive || Compression::of_name(name).is_some() || Format::of_name(name).is_some()
}

/// Whether a source of this name that begins with these bytes, 512 of them or all, is one text as it is: reading it gives nothing but
/// its bytes.
pub fn is_plain_text(name: &[u8], beginning: &[u8], options: &ReadOptions<'_>) -> bool {
    let is_packed = Compression::of_beginning(beginning).is_some()
        || ArchiveKind::of_file(name, beginning).is_some();
    let format = record_format(name, beginning, options.cutting);
    let is_text = match format {
        Format::Text => true,
        Format::Html | Format::Xml => !options.strips_tags,
        _ => false,
    };
    is_text && !is_packed
}

/// The format of a member that is not packed.
fn record_format(name: &[u8], beginning: &[u8], cutting: Cutting) -> Format {
    match cutting {
        Cutting::In(format) => format,
        _ if beginning.starts_with(b"PAR1") => Format::Parquet,
        _ if beginning.starts_with(b"ARROW1\0\0") => Format::Arrow,
        Cutting::Named | Cutting::All => Format::of_name(name).unwrap_or(Format::Text),
    }
}

struct Walk<'a, 's> {
    options: &'a ReadOptions<'a>,
    meter: &'a Meter,
    sink: &'s mut dyn RecordSink,
}

impl Walk<'_, '_> {
    /// Rejects a damaged member.
    fn settle(&mut self, member: &Member, read: Result<(), Failure>) -> Result<()> {
        match read {
            Ok(()) => Ok(()),
            Err(Failure::Stop(error)) => Err(error),
            Err(Failure::Damage(damage)) => self.sink.reject(member.reject(damage)),
        }
    }

    fn file(&mut self, member: &Member, mut file: File) -> Result<(), Failure> {
        let mut beginning = Vec::new();
        (&mut file).take(BLOCK as u64).read_to_end(&mut beginning)?;
        file.rewind()?;
        if self.unpacks(member)
            && ArchiveKind::of_file(&member.path, &beginning) == Some(ArchiveKind::Zip)
        {
            self.meter.add_source_bytes(file.metadata()?.len());
            return self.zip(member, BufReader::new(file));
        }
        let source = self.meter.source(file);
        self.stream(member, Box::new(source))
    }

    /// Whether compressed files and archives are unpacked here.
    fn unpacks(&self, member: &Member) -> bool {
        self.options.cutting != Cutting::Named || !member.is_inside
    }

    fn stream(&mut self, member: &Member, mut source: Box<dyn Read + '_>) -> Result<(), Failure> {
        if !self.unpacks(member) {
            return self.records(member, Format::Text, source);
        }
        let mut beginning = Vec::new();
        let read = (&mut source).take(BLOCK as u64).read_to_end(&mut beginning);
        // A failure ends what could be read before it.
        let rest: Box<dyn Read + '_> = match read {
            Ok(_) => source,
            Err(error) => Box::new(FailedSource(Some(error))),
        };
        let compression = Compression::of_beginning(&beginning);
        let archive = ArchiveKind::of_file(&member.path, &beginning);
        let format = record_format(&member.path, &beginning, self.options.cutting);
        let source: Box<dyn Read + '_> = Box::new(Cursor::new(beginning).chain(rest));
        let is_packed = compression.is_some() || archive.is_some();
        if is_packed && member.depth >= self.options.limits.depth {
            let reason = format!(
                "more than {} archives and compressed files inside of each other",
                self.options.limits.depth
            );
            return Err(Damage::whole(reason).into());
        }
        if let Some(compression) = compression {
            let content = Member {
                path: compression.content_name(&member.path),
                shown: member.shown.clone(),
                depth: member.depth + 1,
                is_inside: member.is_inside,
            };
            let unpacked = compression.decompressed(source)?;
            let unpacked = self.meter.unpacked(unpacked, self.options.limits);
            return self.stream(&content, Box::new(unpacked));
        }
        match archive {
            Some(ArchiveKind::Tar) => return self.tar(member, source),
            Some(ArchiveKind::Zip) => return self.zip_of_stream(member, source),
            None => {}
        }
        self.records(member, format, source)
    }

    fn tar(&mut self, member: &Member, source: Box<dyn Read + '_>) -> Result<(), Failure> {
        let mut reader = TarReader::new(BufReader::with_capacity(64 << 10, source));
        while let Some(name) = reader.next_file()? {
            let inner = if reader.is_corpus() && !member.is_inside {
                Member {
                    path: name.clone(),
                    ..member.inside(name)
                }
            } else {
                member.inside(name)
            };
            let read = self.stream(&inner, Box::new(&mut reader));
            self.settle(&inner, read)?;
        }
        Ok(())
    }

    fn zip(&mut self, member: &Member, source: impl Read + Seek) -> Result<(), Failure> {
        read_zip(source, &mut |name, content| {
            let inner = member.inside(name.to_vec());
            let read = match content {
                Ok(content) => {
                    let content = self.meter.unpacked(content, self.options.limits);
                    self.stream(&inner, Box::new(content))
                }
                Err(damage) => Err(damage.into()),
            };
            Ok(self.settle(&inner, read)?)
        })
    }

    /// Zip has its list of members at its end, so a stream is written to a file first.
    fn zip_of_stream(
        &mut self,
        member: &Member,
        mut source: Box<dyn Read + '_>,
    ) -> Result<(), Failure> {
        let mut file = match &self.options.directory {
            Some(directory) => tempfile::tempfile_in(directory),
            None => tempfile::tempfile(),
        }
        .map_err(Error::from)?;
        io::copy(&mut source, &mut file)?;
        file.rewind().map_err(Error::from)?;
        self.zip(member, BufReader::new(file))
    }

    fn records(
        &mut self,
        member: &Member,
        format: Format,
        source: Box<dyn Read + '_>,
    ) -> Result<(), Failure> {
        let source = match self.options.decode {
            Some(decode) if !matches!(format, Format::Parquet | Format::Arrow) => {
                decode.decode(source)?
            }
            _ => source,
        };
        let mut target = MemberRecords::new(member, self.sink);
        records::read(format, source, self.options, &mut target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_of_a_path_name_formats() {
        for name in [
            "x.gz",
            "x.tgz",
            "x.tar",
            "logs/*.log.zst",
            "x.zip",
            "x.html",
        ] {
            assert!(is_named_format(name), "{name}");
        }
        for name in ["x.txt", "archive", "x.docx", "x.jar", "x.gz/*"] {
            assert!(!is_named_format(name), "{name}");
        }
    }
}
