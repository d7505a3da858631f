//! Formats of files that are not plain text, recognized by their first bytes.
//!
//! Invariant: a format is reported only if the bytes begin as every file of it does, in a way that no text in use does. Files are
//! not read or unpacked here.

/// A format of files.
#[derive(Debug, PartialEq, Eq)]
pub struct FileFormat {
    /// The name of the format.
    pub(crate) name: &'static str,
    /// The program that makes text of its files; none if there is none.
    pub(crate) remedy: Option<&'static str>,
    /// The bytes at offsets that all its files have.
    signature: &'static [(usize, &'static [u8])],
}

/// Bytes of a file that show its format: those of tar are the last.
pub(crate) const SIGNATURE_END: usize = 262;

const DECOMPRESS: Option<&str> = Some("decompress them first");
const UNPACK: Option<&str> = Some("unpack them first, and copy the directory");
/// The remedy for what COPY unpacks where it is asked to.
const AUTO: Option<&str> = if cfg!(feature = "formats") {
    Some("COPY ... WITH (format = 'auto') unpacks them")
} else {
    Some("unpack them first, and copy the directory")
};
const EXTRACT: Option<&str> = Some("extract their text first, as `pdftotext` does of PDF");
const ZIP: Option<&str> =
    Some("unpack them first, or save them as plain text if they are documents");

const fn format(
    name: &'static str,
    remedy: Option<&'static str>,
    signature: &'static [(usize, &'static [u8])],
) -> FileFormat {
    FileFormat {
        name,
        remedy,
        signature,
    }
}

/// All known formats.
pub(crate) static ALL: &[FileFormat] = &[
    format("gzip", AUTO, &[(0, b"\x1f\x8b\x08")]),
    format("Zstandard", AUTO, &[(0, b"\x28\xb5\x2f\xfd")]),
    format("xz", AUTO, &[(0, b"\xfd7zXZ\0")]),
    format("lzip", DECOMPRESS, &[(0, b"LZIP\x01")]),
    format("LZ4", AUTO, &[(0, b"\x04\x22\x4d\x18")]),
    format("compress", DECOMPRESS, &[(0, b"\x1f\x9d\x90")]),
    // The mark of a block, or of the end of an empty file, behind the size of blocks.
    format("bzip2", AUTO, &[(0, b"BZh"), (4, b"1AY&SY")]),
    format("bzip2", AUTO, &[(0, b"BZh"), (4, b"\x17rE8P\x90")]),
    format(
        "text packed by `zipf pack`",
        Some("`zipf unpack` unpacks them"),
        &[(0, b"\x89ZDBPAK\n")],
    ),
    format("tar", AUTO, &[(257, b"ustar")]),
    format("zip", ZIP, &[(0, b"PK\x03\x04")]),
    format("zip", ZIP, &[(0, b"PK\x05\x06")]),
    format("7z", UNPACK, &[(0, b"7z\xbc\xaf\x27\x1c")]),
    format("RAR", UNPACK, &[(0, b"Rar!\x1a\x07")]),
    format("PDF", EXTRACT, &[(0, b"%PDF-")]),
    format(
        "Office documents",
        EXTRACT,
        &[(0, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")],
    ),
    format(
        "SQLite databases",
        Some("export their texts first, as `sqlite3 DB '.mode csv' 'SELECT ...'` does"),
        &[(0, b"SQLite format 3\0")],
    ),
    format("PNG", None, &[(0, b"\x89PNG\r\n\x1a\n")]),
    format("JPEG", None, &[(0, b"\xff\xd8\xff")]),
    format("GIF", None, &[(0, b"GIF87a")]),
    format("GIF", None, &[(0, b"GIF89a")]),
    format("WebP", None, &[(0, b"RIFF"), (8, b"WEBP")]),
    format("WAV", None, &[(0, b"RIFF"), (8, b"WAVE")]),
    format("Ogg", None, &[(0, b"OggS\0")]),
    format("HDF5", None, &[(0, b"\x89HDF\r\n\x1a\n")]),
    format("ELF executables", None, &[(0, b"\x7fELF")]),
    format("WebAssembly", None, &[(0, b"\0asm\x01\0\0\0")]),
    format("Java classes", None, &[(0, b"\xca\xfe\xba\xbe\0")]),
];

/// The format of a file that begins with these bytes, [`SIGNATURE_END`] of them or all.
pub(crate) fn format_of(beginning: &[u8]) -> Option<&'static FileFormat> {
    let has = |&(start, bytes): &(usize, &[u8])| {
        beginning
            .get(start..)
            .is_some_and(|rest| rest.starts_with(bytes))
    };
    ALL.iter().find(|format| format.signature.iter().all(has))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_recognized_and_texts_are_none() {
        let name = |bytes: &[u8]| format_of(bytes).map(|format| format.name);
        let mut tar = vec![b'a'; 512];
        assert_eq!(name(&tar), None);
        tar[257..262].copy_from_slice(b"ustar");
        assert_eq!(name(&tar), Some("tar"));
        assert_eq!(name(&tar[..SIGNATURE_END]), Some("tar"));
        assert_eq!(name(&tar[..SIGNATURE_END - 1]), None);
        for (bytes, expected) in [
            (&b"\x1f\x8b\x08\0"[..], Some("gzip")),
            (b"BZh91AY&SY", Some("bzip2")),
            (b"BZh9\x17rE8P\x90", Some("bzip2")),
            (b"PK\x03\x04", Some("zip")),
            (b"%PDF-1.7", Some("PDF")),
            (b"RIFF\0\0\0\0WEBP", Some("WebP")),
            (b"", None),
            (b"BZhou Zhuang", None),
            (b"PK", None),
            (b"RIFF is no WAVE", None),
            (b"7z is a program", None),
        ] {
            assert_eq!(name(bytes), expected, "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn no_signature_ends_behind_what_is_looked_at() {
        let ends = ALL.iter().flat_map(|format| format.signature);
        let end = ends.map(|(start, bytes)| start + bytes.len()).max();
        assert_eq!(end, Some(SIGNATURE_END));
    }
}
