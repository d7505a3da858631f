//! Paths that are not UTF-8 as text: in the names of a corpus, and in messages.
//!
//! Each byte of a part of a path that is no part of a UTF-8 character becomes `\xHH`, H hexadecimal digits in lower case.
//! A backslash that would read as the beginning of such an escape becomes `\x5c`, in parts that need an escape and in those
//! that would be taken for escaped ones. All other parts stay as they are.
//!
//! Invariant: [`restored`] gives back what [`escaped`] was given, whatever the bytes, and `escaped` gives back every name
//! that `restored` was given. No escape stands for `/`, `.` or NUL. Which of the two a text means is not known here.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;

use crate::shown::shown;

/// Bytes of an escape.
const ESCAPE_SIZE: usize = 4;

/// The name that a part of a path has in a corpus.
pub fn escaped(part: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(part) {
        Ok(name) if restored(name).as_ref() == part => Cow::Borrowed(name),
        _ => Cow::Owned(with_escapes(part)),
    }
}

/// The part of a path that a part of a name stands for.
pub fn restored(name: &str) -> Cow<'_, [u8]> {
    let plain = Cow::Borrowed(name.as_bytes());
    let bytes = without_escapes(name);
    // What would not be escaped so again is no escaped name. Each level is shorter than the one before.
    if bytes.len() < name.len() && escaped(&bytes) == name {
        Cow::Owned(bytes)
    } else {
        plain
    }
}

/// A path as messages show it: what is not UTF-8 is escaped part by part, as in the names of a corpus, so that COPY takes it. Of a long one
/// both ends are shown.
///
/// Where paths are not bytes, what is not Unicode is shown as the system shows it.
#[derive(Clone, Copy, Debug)]
pub struct PathText<'a>(pub &'a Path);

impl PathText<'_> {
    /// All of it, however long, for statements and command lines.
    #[cfg(unix)]
    pub fn whole(&self) -> String {
        use std::os::unix::ffi::OsStrExt;
        let parts = self.0.as_os_str().as_bytes().split(|byte| *byte == b'/');
        let parts: Vec<Cow<'_, str>> = parts.map(escaped).collect();
        parts.join("/")
    }

    /// All of it, however long, for statements and command lines.
    #[cfg(not(unix))]
    pub fn whole(&self) -> String {
        self.0.display().to_string()
    }
}

impl fmt::Display for PathText<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&shown(&self.whole()))
    }
}

fn with_escapes(part: &[u8]) -> String {
    let mut name = String::with_capacity(part.len() + 3 * ESCAPE_SIZE);
    let escape = |name: &mut String, byte: u8| name.push_str(&format!("\\x{byte:02x}"));
    for chunk in part.utf8_chunks() {
        let valid = chunk.valid();
        for (at, character) in valid.char_indices() {
            if character == '\\' && escape_at(&valid.as_bytes()[at..]).is_some() {
                escape(&mut name, b'\\')
            } else {
                name.push(character)
            }
        }
        for &byte in chunk.invalid() {
            escape(&mut name, byte);
        }
    }
    name
}

fn without_escapes(name: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.as_bytes();
    while let Some(&first) = rest.first() {
        let (byte, size) = match escape_at(rest) {
            Some(byte) => (byte, ESCAPE_SIZE),
            None => (first, 1),
        };
        bytes.push(byte);
        rest = &rest[size..];
    }
    bytes
}

/// The byte that an escape at the beginning of a text stands for.
fn escape_at(text: &[u8]) -> Option<u8> {
    let &[b'\\', b'x', high, low, ..] = text else {
        return None;
    };
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let byte = digit(high)? << 4 | digit(low)?;
    (byte >= 0x80 || byte == b'\\').then_some(byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_what_is_not_utf8_is_escaped() {
        assert_eq!(escaped(b"caf\xe9.txt"), "caf\\xe9.txt");
        assert_eq!(
            escaped("caf\u{e9} \\ \\x41 \\n".as_bytes()),
            "caf\u{e9} \\ \\x41 \\n"
        );
        assert_eq!(escaped(b"\\xe9"), "\\x5cxe9");
        // A character cannot have been two escapes.
        assert_eq!(escaped(b"\\xc3\\xa9"), "\\xc3\\xa9");
        assert_eq!(restored("caf\\xe9.txt").as_ref(), b"caf\xe9.txt");
        assert_eq!(
            restored("\\x2e\\x2F\\x00\\xE9").as_ref(),
            b"\\x2e\\x2F\\x00\\xE9"
        );
    }

    #[cfg(unix)]
    #[test]
    fn paths_are_shown_part_by_part() {
        use std::ffi::OsStr;
        use std::os::unix::ffi::OsStrExt;
        let shown = |path: &[u8]| PathText(Path::new(OsStr::from_bytes(path))).to_string();
        assert_eq!(shown(b"/a/caf\xe9/x\\xff/"), "/a/caf\\xe9/x\\x5cxff/");
        assert_eq!(shown("./\u{e9} b\\c".as_bytes()), "./\u{e9} b\\c");
        assert_eq!(shown(b""), "");
        let long = [&b"caf\xe9/"[..], &[b'x'; 1_000]].concat();
        let path = Path::new(OsStr::from_bytes(&long));
        assert!(shown(&long).len() < 240);
        assert_eq!(
            PathText(path).whole(),
            format!("caf\\xe9/{}", "x".repeat(1_000))
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_000))]

        #[test]
        fn any_bytes_and_any_names_come_back(
            pieces in prop::collection::vec(
                prop::sample::select(vec![
                    &b"\\"[..], b"x", b"\\x", b"e9", b"5c", b"c3", b"a9", b"80", b"\xe9", b"\xc3", b"\xa9", b"a", b"\\x5c",
                    b"\\xc3\\xa9", b"\xc3\xa9",
                ]),
                0..12,
            )
        ) {
            let bytes = pieces.concat();
            let name = escaped(&bytes);
            prop_assert_eq!(restored(&name), &bytes[..]);
            if let Ok(name) = std::str::from_utf8(&bytes) {
                let restored = restored(name);
                prop_assert_eq!(escaped(&restored), name);
            }
        }
    }
}
