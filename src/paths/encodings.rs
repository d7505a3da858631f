//! Encodings of files: which bytes are decoded to UTF-8 before they become the text of a file.
//!
//! Invariant: bytes stay as they are unless the user names an encoding. Decoding is exact: bytes without meaning in an encoding
//! are an error and never replaced. The encodings are those of the Encoding Standard, and UTF-32, which it lacks.

use std::io::{self, Read};

use encoding_rs::{Decoder, DecoderResult, Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};

use crate::paths::formats::{FileFormat, SIGNATURE_END, format_of};

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
    /// UTF-32, as its byte order mark says.
    Utf32,
    Named(Charset),
}

/// The character encoding of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Charset {
    /// An encoding of the Encoding Standard.
    Standard(&'static Encoding),
    Utf32Le,
    Utf32Be,
}

impl Charset {
    fn name(self) -> &'static str {
        match self {
            Charset::Standard(encoding) => encoding.name(),
            Charset::Utf32Le => "UTF-32LE",
            Charset::Utf32Be => "UTF-32BE",
        }
    }

    fn is_utf32(self) -> bool {
        matches!(self, Charset::Utf32Le | Charset::Utf32Be)
    }

    /// Whether its texts may begin with a byte order mark.
    fn is_unicode(self) -> bool {
        let marked = [UTF_8, UTF_16LE, UTF_16BE].map(Charset::Standard);
        self.is_utf32() || marked.contains(&self)
    }

    /// The encoding whose byte order mark a file begins with.
    fn of_mark(beginning: &[u8]) -> Option<Charset> {
        match beginning {
            [0xFF, 0xFE, 0, 0, ..] => Some(Charset::Utf32Le),
            [0, 0, 0xFE, 0xFF, ..] => Some(Charset::Utf32Be),
            _ => Encoding::for_bom(beginning).map(|(encoding, _)| Charset::Standard(encoding)),
        }
    }
}

impl TextEncoding {
    /// Bytes stay as they are.
    pub const BYTES: TextEncoding = TextEncoding(EncodingChoice::Bytes);

    /// A byte order mark names the encoding; files without one stay as they are.
    pub const AUTO: TextEncoding = TextEncoding(EncodingChoice::Auto);

    /// `bytes`, `auto`, `latin-1` (windows-1252, which has all of it), `utf-16` and `utf-32` (as the byte order mark says, else
    /// little-endian), `utf-32le`, `utf-32be` or a label of the Encoding Standard, in any case; none for other names.
    pub fn named(name: &str) -> Option<TextEncoding> {
        let choice = match name.trim().to_ascii_lowercase().as_str() {
            "bytes" => EncodingChoice::Bytes,
            "auto" => EncodingChoice::Auto,
            "utf-16" | "utf16" => EncodingChoice::Utf16,
            "utf-32" | "utf32" => EncodingChoice::Utf32,
            "utf-32le" => EncodingChoice::Named(Charset::Utf32Le),
            "utf-32be" => EncodingChoice::Named(Charset::Utf32Be),
            "latin-1" => EncodingChoice::Named(Charset::Standard(WINDOWS_1252)),
            label => {
                let encoding = Encoding::for_label_no_replacement(label.as_bytes())?;
                EncodingChoice::Named(Charset::Standard(encoding))
            }
        };
        Some(TextEncoding(choice))
    }

    /// The decoding of a file that begins with these bytes, at least [`MARK_SIZE_MAX`] of them or all; none if it is not decoded.
    ///
    /// # Errors
    /// Why it cannot be decoded.
    pub(crate) fn decoding(self, beginning: &[u8]) -> Result<Option<Decoding>, &'static str> {
        // The mark of UTF-32 begins like that of UTF-16.
        const UTF32: &str =
            "its byte order mark is that of UTF-32; hint: encoding = 'utf-32' decodes it";
        let marked = Charset::of_mark(beginning);
        let is_utf32 = marked.is_some_and(Charset::is_utf32);
        let by_mark = |otherwise| Decoding {
            charset: marked.unwrap_or(otherwise),
            has_mark: marked.is_some(),
        };
        Ok(match self.0 {
            EncodingChoice::Bytes => None,
            EncodingChoice::Auto => marked.map(by_mark),
            EncodingChoice::Utf16 if is_utf32 => return Err(UTF32),
            EncodingChoice::Utf16 => Some(by_mark(Charset::Standard(UTF_16LE))),
            EncodingChoice::Utf32 => Some(by_mark(Charset::Utf32Le)),
            EncodingChoice::Named(charset) => {
                let has_mark = charset.is_unicode() && marked == Some(charset);
                if charset.is_unicode() && is_utf32 && !has_mark {
                    return Err(UTF32);
                }
                Some(Decoding { charset, has_mark })
            }
        })
    }
}

/// Bytes of the longest byte order mark.
pub(crate) const MARK_SIZE_MAX: usize = 4;

/// How a file is decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decoding {
    charset: Charset,
    /// Whether it begins with a byte order mark, which is no part of the text.
    has_mark: bool,
}

impl Decoding {
    /// Whether the text has the size of the file.
    pub(crate) fn keeps_size(self) -> bool {
        self.charset == Charset::Standard(UTF_8) && !self.has_mark
    }
}

/// Bytes decoded at a time.
const PART: usize = 64 << 10;

/// A text that is decoded while it is read.
pub(crate) struct Decoded<R> {
    source: R,
    charset: Charset,
    decoder: TextDecoder,
    /// The bytes that were read and not decoded.
    input: Vec<u8>,
    input_at: usize,
    /// Bytes before `input`.
    before: u64,
    is_at_end: bool,
    /// The text that was decoded and not returned.
    output: Vec<u8>,
    output_at: usize,
}

impl<R: Read> Decoded<R> {
    pub(crate) fn new(source: R, decoding: Decoding) -> Decoded<R> {
        Decoded {
            source,
            charset: decoding.charset,
            decoder: TextDecoder::new(decoding),
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

    /// Decodes until there is output, or the source has ended.
    fn fill(&mut self) -> io::Result<()> {
        while self.output_at == self.output.len() {
            if self.input_at == self.input.len() && !self.is_at_end {
                self.before += self.input.len() as u64;
                self.input.resize(PART, 0);
                // After an error, or while the source is not ready, `input` holds nothing.
                let read = self.source.read(&mut self.input);
                self.input.truncate(*read.as_ref().unwrap_or(&0));
                self.input_at = 0;
                self.is_at_end = read? == 0;
            }
            self.output.resize(PART, 0);
            let input = &self.input[self.input_at..];
            let decoded = self.decoder.decode(input, &mut self.output, self.is_at_end);
            let (result, read, written) = decoded;
            self.input_at += read;
            self.output.truncate(written);
            self.output_at = 0;
            match result {
                DecoderResult::Malformed(bad, after) => {
                    let end = self.before + self.input_at as u64;
                    let at = end.saturating_sub(u64::from(bad) + u64::from(after));
                    let reason = format!("not {} at byte {at}", self.charset.name());
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

/// Decodes bytes to UTF-8.
enum TextDecoder {
    Standard(Box<Decoder>),
    Utf32(Utf32Decoder),
}

impl TextDecoder {
    fn new(decoding: Decoding) -> TextDecoder {
        let utf32 = |read_unit| {
            TextDecoder::Utf32(Utf32Decoder {
                read_unit,
                unit: [0; 4],
                filled: 0,
                skips_mark: decoding.has_mark,
            })
        };
        match decoding.charset {
            Charset::Standard(encoding) => TextDecoder::Standard(Box::new(if decoding.has_mark {
                encoding.new_decoder_with_bom_removal()
            } else {
                encoding.new_decoder_without_bom_handling()
            })),
            Charset::Utf32Le => utf32(u32::from_le_bytes),
            Charset::Utf32Be => utf32(u32::from_be_bytes),
        }
    }

    /// Decodes as far as the output has room. Returns why it stopped, and how many bytes were read and written.
    fn decode(
        &mut self,
        input: &[u8],
        output: &mut [u8],
        is_last: bool,
    ) -> (DecoderResult, usize, usize) {
        match self {
            TextDecoder::Standard(decoder) => {
                decoder.decode_to_utf8_without_replacement(input, output, is_last)
            }
            TextDecoder::Utf32(decoder) => decoder.decode(input, output, is_last),
        }
    }
}

/// Decodes UTF-32 to UTF-8.
struct Utf32Decoder {
    /// The number that four bytes encode.
    read_unit: fn([u8; 4]) -> u32,
    /// The bytes of an incomplete character.
    unit: [u8; 4],
    /// The number of its bytes that were read.
    filled: usize,
    /// Whether the first character may be a byte order mark, which is no part of the text.
    skips_mark: bool,
}

impl Utf32Decoder {
    fn decode(
        &mut self,
        input: &[u8],
        output: &mut [u8],
        is_last: bool,
    ) -> (DecoderResult, usize, usize) {
        let (mut read, mut written) = (0, 0);
        loop {
            if output.len() - written < char::MAX.len_utf8() {
                return (DecoderResult::OutputFull, read, written);
            }
            while self.filled < self.unit.len() && read < input.len() {
                self.unit[self.filled] = input[read];
                self.filled += 1;
                read += 1;
            }
            let filled = self.filled as u8; // at most 4
            if self.filled < self.unit.len() {
                let is_cut = is_last && filled > 0;
                self.filled = if is_cut { 0 } else { self.filled };
                let result = if is_cut {
                    DecoderResult::Malformed(filled, 0)
                } else {
                    DecoderResult::InputEmpty
                };
                return (result, read, written);
            }
            self.filled = 0;
            let Some(character) = char::from_u32((self.read_unit)(self.unit)) else {
                return (DecoderResult::Malformed(filled, 0), read, written);
            };
            if !std::mem::take(&mut self.skips_mark) {
                written += character.encode_utf8(&mut output[written..]).len();
            }
        }
    }
}

/// The reason why a text that was taken as it is may not be UTF-8 text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignText {
    /// A text that begins as files of a format that is not text.
    Format(&'static FileFormat),
    /// A text with a byte order mark of UTF-32.
    Utf32Mark,
    /// A text whose beginning has three NULs in each four bytes, as in UTF-32.
    LikeUtf32,
    /// A text with a byte order mark of UTF-16.
    Utf16Mark,
    /// A text whose beginning has a NUL in every second byte, as in UTF-16.
    LikeUtf16,
    /// A text with bytes that are not UTF-8.
    NotUtf8,
}

/// Checks the encoding of a text while it is read.
#[derive(Debug, Default)]
pub(crate) struct EncodingWatch {
    /// The first bytes.
    beginning: Vec<u8>,
    /// The bytes of an incomplete character.
    open: Vec<u8>,
    is_not_utf8: bool,
}

/// Bytes at the beginning of a text that show UTF-16 or a format that is not text.
pub(crate) const BEGINNING: usize = 512;

const _: () = assert!(SIGNATURE_END <= BEGINNING);

impl EncodingWatch {
    /// A watch of a part of a text that begins with a character; `beginning` is the first [`BEGINNING`] bytes of the text.
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

    /// The verdict on the text, if it ends here; none if it is UTF-8.
    pub(crate) fn verdict(&self) -> Option<ForeignText> {
        if let Some(format) = format_of(&self.beginning) {
            return Some(ForeignText::Format(format));
        }
        match Charset::of_mark(&self.beginning) {
            Some(charset) if charset.is_utf32() => return Some(ForeignText::Utf32Mark),
            Some(Charset::Standard(encoding)) if encoding != UTF_8 => {
                return Some(ForeignText::Utf16Mark);
            }
            _ => {}
        }
        if is_like_utf32(&self.beginning) {
            return Some(ForeignText::LikeUtf32);
        }
        let pairs = self.beginning.chunks_exact(2);
        let count = pairs.len();
        let zeros = |side: usize| pairs.clone().filter(|pair| pair[side] == 0).count();
        let (left, right) = (zeros(0), zeros(1));
        // Text in a European script has hardly another byte there, and no NUL character.
        if count >= 4 && left.min(right) == 0 && left.max(right) * 10 >= count * 9 {
            return Some(ForeignText::LikeUtf16);
        }
        (self.is_not_utf8 || !self.open.is_empty()).then_some(ForeignText::NotUtf8)
    }
}

/// Whether a text looks like UTF-32 of a European script: nine in ten of its characters have three bytes of NUL on the same side,
/// and none is NUL itself.
fn is_like_utf32(beginning: &[u8]) -> bool {
    let (units, _) = beginning.as_chunks::<4>();
    let count =
        |has_zeros: fn(&[u8; 4]) -> bool| units.iter().filter(|&unit| has_zeros(unit)).count();
    let (little, big) = (
        count(|unit| unit[1..] == [0; 3]),
        count(|unit| unit[..3] == [0; 3]),
    );
    let nul = count(|unit| *unit == [0; 4]);
    units.len() >= 4 && nul == 0 && little.max(big) * 10 >= units.len() * 9
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Returns a few bytes at a time, and is not ready before each.
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

    fn utf32(text: &str, bytes: impl Fn(u32) -> [u8; 4]) -> Vec<u8> {
        text.chars().flat_map(|c| bytes(c.into())).collect()
    }

    #[test]
    fn texts_are_decoded_however_they_are_read() {
        let text = "na\u{ef}ve \u{1f600} \u{660e}\u{6708}\n";
        let little = utf16(text, u16::to_le_bytes);
        let big = utf16(text, u16::to_be_bytes);
        let marked = utf16(&format!("\u{feff}{text}"), u16::to_be_bytes);
        let utf8_marked = format!("\u{feff}{text}").into_bytes();
        let utf32_little = utf32(text, u32::to_le_bytes);
        let utf32_big = utf32(text, u32::to_be_bytes);
        let utf32_marked = utf32(&format!("\u{feff}{text}"), u32::to_le_bytes);
        let utf32_big_marked = utf32(&format!("\u{feff}{text}"), u32::to_be_bytes);
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
                ("utf-32", &utf32_little),
                ("UTF-32LE", &utf32_little),
                ("utf-32be", &utf32_big),
                ("utf-32", &utf32_marked),
                ("utf-32le", &utf32_marked),
                ("auto", &utf32_marked),
                ("utf-32", &utf32_big_marked),
                ("utf-32be", &utf32_big_marked),
                ("auto", &utf32_big_marked),
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
            for (bytes, at) in [
                // Half of a pair of UTF-16, a number that is no character, and a text that is cut.
                (&b"a\0\0\0\0\xd8\0\0"[..], 4),
                (b"a\0\0\0a\0\0\0\0\0\x11\0b\0\0\0", 8),
                (b"a\0\0\0b\0\0", 4),
            ] {
                let reason = format!("not UTF-32LE at byte {at}");
                assert_eq!(decode("utf-32le", bytes, step), Err(reason));
            }
        }
        for name in ["utf-8", "utf-16", "utf-16le", "utf-16be", "utf-32be"] {
            let reason = decode(name, b"\xff\xfe\0\0a\0\0\0", 1).unwrap_err();
            assert!(reason.contains("encoding = 'utf-32'"), "{name}: {reason}");
        }
    }

    #[test]
    fn texts_that_are_not_utf8_are_reported() {
        let pdf = format_of(b"%PDF-1.7").unwrap();
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
                (b"\xff\xfe\0\0h\0\0\0", Some(ForeignText::Utf32Mark)),
                (b"\0\0\xfe\xff\0\0\0h", Some(ForeignText::Utf32Mark)),
                (
                    b"h\0\0\0e\0\0\0l\0\0\0l\0\0\0",
                    Some(ForeignText::LikeUtf32),
                ),
                (
                    b"\0\0\0h\0\0\0e\0\0\0l\0\0\0l",
                    Some(ForeignText::LikeUtf32),
                ),
                (b"%PDF-1.7", Some(ForeignText::Format(pdf))),
            ] {
                assert_eq!(verdict(bytes, step), expected, "{bytes:?} {step}");
            }
        }
    }
}
