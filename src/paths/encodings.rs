//! How files are encoded, and which bytes are decoded to UTF-8 before they become the text of a file.
//!
//! Invariant: without a word of the user bytes stay as they are. What is decoded is decoded exactly: bytes that mean nothing in
//! an encoding are an error and never replaced.

use std::io::{self, Read};

use encoding_rs::{Decoder, DecoderResult, Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};

/// How COPY reads the bytes of files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextEncoding(EncodingChoice);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum EncodingChoice {
    #[default]
    Bytes,
    Auto,
    /// UTF-16, as its byte order mark says.
    Utf16,
    Named(&'static Encoding),
}

impl TextEncoding {
    /// Bytes stay as they are, whatever they mean.
    pub const BYTES: TextEncoding = TextEncoding(EncodingChoice::Bytes);

    /// A byte order mark tells; files without one stay as they are.
    pub const AUTO: TextEncoding = TextEncoding(EncodingChoice::Auto);

    /// `bytes`, `auto`, `latin-1` (windows-1252, which has all of it), `utf-16` (as its byte order mark says, else little-endian)
    /// or a label of the Encoding Standard, in any case; none for other names.
    pub fn named(name: &str) -> Option<TextEncoding> {
        let choice = match name.trim().to_ascii_lowercase().as_str() {
            "bytes" => EncodingChoice::Bytes,
            "auto" => EncodingChoice::Auto,
            "utf-16" | "utf16" => EncodingChoice::Utf16,
            "latin-1" => EncodingChoice::Named(WINDOWS_1252),
            label => EncodingChoice::Named(Encoding::for_label_no_replacement(label.as_bytes())?),
        };
        Some(TextEncoding(choice))
    }

    /// How a file is decoded that begins with these bytes, at least [`MARK_SIZE_MAX`] of them or all; none if it is not.
    ///
    /// # Errors
    /// Why it cannot be.
    pub(crate) fn decoding(self, beginning: &[u8]) -> Result<Option<Decoding>, &'static str> {
        let marked = || match beginning {
            [0xFF, 0xFE, 0, 0, ..] | [0, 0, 0xFE, 0xFF, ..] => Err(
                "its byte order mark is that of UTF-32, which cannot be decoded; hint: save it as UTF-8",
            ),
            _ => Ok(Encoding::for_bom(beginning).map(|(encoding, _)| encoding)),
        };
        let has_mark = |encoding| marked().map(|found| found == Some(encoding));
        let decoding = |encoding, has_mark| Decoding { encoding, has_mark };
        Ok(match self.0 {
            EncodingChoice::Bytes => None,
            EncodingChoice::Auto => marked()?.map(|encoding| decoding(encoding, true)),
            EncodingChoice::Utf16 => Some(match marked()? {
                Some(encoding) => decoding(encoding, true),
                None => decoding(UTF_16LE, false),
            }),
            EncodingChoice::Named(encoding) => {
                let is_unicode = [UTF_8, UTF_16LE, UTF_16BE].contains(&encoding);
                Some(decoding(encoding, is_unicode && has_mark(encoding)?))
            }
        })
    }
}

/// Bytes of the longest byte order mark.
pub(crate) const MARK_SIZE_MAX: usize = 4;

/// How a file is decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decoding {
    encoding: &'static Encoding,
    /// Whether it begins with a byte order mark, which is no part of the text.
    has_mark: bool,
}

impl Decoding {
    /// Whether the text has as many bytes as the file.
    pub(crate) fn keeps_size(self) -> bool {
        self.encoding == UTF_8 && !self.has_mark
    }
}

/// Bytes that are decoded at a time.
const PART: usize = 64 << 10;

/// A text that is decoded while it is read.
pub(crate) struct Decoded<R> {
    source: R,
    encoding: &'static Encoding,
    decoder: Decoder,
    /// What has been read and not been decoded.
    input: Vec<u8>,
    input_at: usize,
    /// Bytes before `input`.
    before: u64,
    is_at_end: bool,
    /// What has been decoded and not been handed out.
    output: Vec<u8>,
    output_at: usize,
}

impl<R: Read> Decoded<R> {
    pub(crate) fn new(source: R, decoding: Decoding) -> Decoded<R> {
        let encoding = decoding.encoding;
        Decoded {
            source,
            encoding,
            decoder: match decoding.has_mark {
                true => encoding.new_decoder_with_bom_removal(),
                false => encoding.new_decoder_without_bom_handling(),
            },
            input: Vec::new(),
            input_at: 0,
            before: 0,
            is_at_end: false,
            output: Vec::new(),
            output_at: 0,
        }
    }

    pub(crate) fn source(&self) -> &R {
        &self.source
    }

    /// Decodes until there is output, or nothing more.
    fn fill(&mut self) -> io::Result<()> {
        while self.output_at == self.output.len() {
            if self.input_at == self.input.len() && !self.is_at_end {
                self.before += self.input.len() as u64;
                self.input.resize(PART, 0);
                // An error, also that the source is not ready, leaves nothing that was read before.
                let read = self.source.read(&mut self.input);
                self.input.truncate(*read.as_ref().unwrap_or(&0));
                self.input_at = 0;
                self.is_at_end = read? == 0;
            }
            self.output.resize(PART, 0);
            let (result, read, written) = self.decoder.decode_to_utf8_without_replacement(
                &self.input[self.input_at..],
                &mut self.output,
                self.is_at_end,
            );
            self.input_at += read;
            self.output.truncate(written);
            self.output_at = 0;
            match result {
                DecoderResult::Malformed(bad, after) => {
                    let end = self.before + self.input_at as u64;
                    let at = end.saturating_sub(u64::from(bad) + u64::from(after));
                    let reason = format!("not {} at byte {at}", self.encoding.name());
                    return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
                }
                DecoderResult::InputEmpty if self.is_at_end => break,
                DecoderResult::InputEmpty | DecoderResult::OutputFull => {}
            }
        }
        Ok(())
    }
}

impl<R: Read> Read for Decoded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.fill()?;
        let rest = &self.output[self.output_at..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.output_at += count;
        Ok(count)
    }
}

/// What the bytes of a text are that was taken as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignText {
    /// It begins with a byte order mark of UTF-16.
    Utf16Mark,
    /// Every second byte of its beginning is NUL, as in UTF-16.
    LikeUtf16,
    /// It has bytes that are not UTF-8.
    NotUtf8,
}

/// Looks at a text while it is read.
#[derive(Debug, Default)]
pub(crate) struct EncodingWatch {
    /// The first bytes.
    beginning: Vec<u8>,
    /// The beginning of a character.
    open: Vec<u8>,
    is_not_utf8: bool,
}

/// Bytes of a text that tell whether it looks like UTF-16.
pub(crate) const BEGINNING: usize = 256;

impl EncodingWatch {
    /// A watch of a part of a text that begins with a character and is told how the text begins: its first [`BEGINNING`] bytes.
    #[cfg(unix)]
    pub(crate) fn of_part(beginning: &[u8]) -> EncodingWatch {
        EncodingWatch {
            beginning: beginning.to_vec(),
            ..EncodingWatch::default()
        }
    }

    /// Takes the next bytes.
    pub(crate) fn see(&mut self, bytes: &[u8]) {
        let missing = BEGINNING.saturating_sub(self.beginning.len());
        self.beginning.extend(bytes.iter().take(missing));
        let mut rest = bytes;
        while !self.open.is_empty() && !self.is_not_utf8 {
            let Some((&next, after)) = rest.split_first() else {
                return;
            };
            self.open.push(next);
            rest = after;
            match std::str::from_utf8(&self.open) {
                Ok(_) => self.open.clear(),
                Err(error) => self.is_not_utf8 = error.error_len().is_some(),
            }
        }
        if self.is_not_utf8 {
            return;
        }
        let valid = Encoding::utf8_valid_up_to(rest);
        let open = &rest[valid..];
        match std::str::from_utf8(open) {
            Err(error) if error.error_len().is_some() => self.is_not_utf8 = true,
            _ => self.open.extend_from_slice(open),
        }
    }

    /// What the text is if it is all that was seen; none if it is UTF-8.
    pub(crate) fn verdict(&self) -> Option<ForeignText> {
        if self.beginning.starts_with(&[0xFF, 0xFE]) || self.beginning.starts_with(&[0xFE, 0xFF]) {
            return Some(ForeignText::Utf16Mark);
        }
        let pairs = self.beginning.chunks_exact(2);
        let count = pairs.len();
        let zeros = |side: usize| pairs.clone().filter(|pair| pair[side] == 0).count();
        let (left, right) = (zeros(0), zeros(1));
        // Text of a script of Europe has hardly another byte there, and none of it is NUL itself.
        if count >= 4 && left.min(right) == 0 && left.max(right) * 10 >= count * 9 {
            return Some(ForeignText::LikeUtf16);
        }
        (self.is_not_utf8 || !self.open.is_empty()).then_some(ForeignText::NotUtf8)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Gives a few bytes at a time, and is not ready before each.
    struct Drips<'a>(&'a [u8], usize, bool);

    impl Read for Drips<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.2 = !self.2;
            if self.2 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let count = self.1.min(self.0.len()).min(buffer.len());
            buffer[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    fn decode(name: &str, bytes: &[u8], step: usize) -> Result<Vec<u8>, String> {
        let encoding = TextEncoding::named(name).unwrap();
        let Some(decoding) = encoding.decoding(bytes)? else {
            return Ok(bytes.to_vec());
        };
        let mut decoded = Decoded::new(Drips(bytes, step, false), decoding);
        let mut text = Vec::new();
        let mut buffer = [0; 3];
        loop {
            match decoded.read(&mut buffer) {
                Ok(0) => return Ok(text),
                Ok(count) => text.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    fn utf16(text: &str, bytes: impl Fn(u16) -> [u8; 2]) -> Vec<u8> {
        text.encode_utf16().flat_map(bytes).collect()
    }

    #[test]
    fn texts_are_decoded_however_they_are_read() {
        let text = "na\u{ef}ve \u{1f600} \u{660e}\u{6708}\n";
        let little = utf16(text, u16::to_le_bytes);
        let big = utf16(text, u16::to_be_bytes);
        let marked = utf16(&format!("\u{feff}{text}"), u16::to_be_bytes);
        let utf8_marked = format!("\u{feff}{text}").into_bytes();
        for step in [1, 2, 3, 1000] {
            for (name, bytes) in [
                ("utf-16le", &little),
                ("utf-16", &little),
                ("UTF-16BE", &big),
                ("utf-16be", &marked),
                ("utf-16", &marked),
                ("auto", &marked),
                ("auto", &utf8_marked),
                ("utf-8", &utf8_marked),
                ("utf-8", &text.as_bytes().to_vec()),
            ] {
                assert_eq!(
                    decode(name, bytes, step).unwrap(),
                    text.as_bytes(),
                    "{name} {step}"
                );
            }
            assert_eq!(
                decode("latin-1", b"caf\xe9\x80", step).unwrap(),
                "caf\u{e9}\u{20ac}".as_bytes()
            );
            assert_eq!(
                decode("shift_jis", b"\x93\xfa", step).unwrap(),
                "\u{65e5}".as_bytes()
            );
            for name in ["auto", "bytes"] {
                assert_eq!(decode(name, b"caf\xe9", step).unwrap(), b"caf\xe9");
            }
        }
        assert_eq!(TextEncoding::named("latin-9"), None);
        assert_eq!(TextEncoding::named("replacement"), None);
    }

    #[test]
    fn what_means_nothing_is_an_error_with_its_place() {
        for step in [1, 7] {
            assert_eq!(
                decode("utf-8", b"ab\xffc", step),
                Err("not UTF-8 at byte 2".into())
            );
            assert_eq!(
                decode("utf-8", b"ab\xc3", step),
                Err("not UTF-8 at byte 2".into())
            );
            assert_eq!(
                decode("utf-16le", b"a\0b", step),
                Err("not UTF-16LE at byte 2".into())
            );
        }
        assert!(
            decode("auto", b"\xff\xfe\0\0a\0\0\0", 1)
                .unwrap_err()
                .contains("UTF-32")
        );
    }

    #[test]
    fn texts_that_are_not_utf8_are_told() {
        let verdict = |bytes: &[u8], step: usize| {
            let mut watch = EncodingWatch::default();
            bytes.chunks(step).for_each(|part| watch.see(part));
            watch.verdict()
        };
        for step in [1, 2, 3, 1000] {
            for (bytes, expected) in [
                (&b""[..], None),
                ("na\u{ef}ve \u{1f600}".as_bytes(), None),
                (b"\0\0\0\0\0\0\0\0", None),
                (b"caf\xe9 au lait", Some(ForeignText::NotUtf8)),
                (b"\xc3", Some(ForeignText::NotUtf8)),
                (b"\xed\xa0\x80", Some(ForeignText::NotUtf8)),
                (b"\xff\xfeh\0", Some(ForeignText::Utf16Mark)),
                (b"\xfe\xff\0h", Some(ForeignText::Utf16Mark)),
                (b"h\0e\0l\0l\0o\0", Some(ForeignText::LikeUtf16)),
                (b"\0h\0e\0l\0l\0o", Some(ForeignText::LikeUtf16)),
            ] {
                assert_eq!(verdict(bytes, step), expected, "{bytes:?} {step}");
            }
        }
    }
}
