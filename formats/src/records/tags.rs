//! HTML and XML without tags: every byte of a tag becomes a space.
//!
//! Invariant: the text has the size of the file, and all its other bytes stand where they stood; line ends stay too. Tags, comments,
//! declarations, and in HTML the content of `script` and `style` are blanked. References such as `&amp;` stay as they are, and so do
//! the two brackets that end a CDATA section.

/// Blanks tags in a text that comes in parts.
#[derive(Debug)]
pub(super) struct TagFilter {
    is_html: bool,
    state: State,
    /// The first bytes of the tag or comment at hand, and the last bytes of what a mark ends.
    name: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Text,
    /// Behind a `<`.
    Open,
    Tag,
    Quoted(u8),
    /// Until `-->`.
    Comment,
    /// Until `]]>`, whose text stays.
    Cdata,
    /// Until `</script` or `</style`.
    Raw(&'static [u8]),
}

/// Bytes of a tag's name that are looked at.
const NAME_BYTES_MAX: usize = 9;

impl TagFilter {
    pub(super) fn new(is_html: bool) -> TagFilter {
        TagFilter {
            is_html,
            state: State::Text,
            name: Vec::new(),
        }
    }

    /// Blanks the tags in the next part of the text.
    pub(super) fn strip(&mut self, bytes: &mut [u8]) {
        let mut at = 0;
        while at < bytes.len() {
            if self.state == State::Text {
                match memchr::memchr(b'<', &bytes[at..]) {
                    None => return,
                    Some(open) => at += open,
                }
            }
            let byte = bytes[at];
            if self.is_blanked(byte) && !matches!(byte, b'\n' | b'\r') {
                bytes[at] = b' ';
            }
            at += 1;
        }
    }

    /// Takes the next byte. Returns whether it is blanked.
    fn is_blanked(&mut self, byte: u8) -> bool {
        match self.state {
            State::Text => {
                self.state = State::Open;
                self.name.clear();
                true
            }
            State::Open | State::Tag => {
                self.tag(byte);
                true
            }
            State::Quoted(quote) => {
                if byte == quote {
                    self.state = State::Tag;
                }
                true
            }
            State::Comment => {
                if self.ends_with(byte, b"-->") {
                    self.state = State::Text;
                }
                true
            }
            State::Cdata => {
                let is_end = self.ends_with(byte, b"]]>");
                if is_end {
                    self.state = State::Text;
                }
                is_end
            }
            State::Raw(end) => {
                if self.ends_with(byte.to_ascii_lowercase(), end) {
                    self.name.clear();
                    self.state = State::Tag;
                }
                true
            }
        }
    }

    /// Takes a byte of a tag.
    fn tag(&mut self, byte: u8) {
        if self.name.len() < NAME_BYTES_MAX {
            self.name.push(byte.to_ascii_lowercase());
        }
        self.state = State::Tag;
        match (&self.name[..], byte) {
            (b"!--", _) => {
                self.name.clear();
                self.state = State::Comment;
            }
            (b"![cdata[", _) => {
                self.name.clear();
                self.state = State::Cdata;
            }
            (_, b'"' | b'\'') if self.name.first() != Some(&b'!') || self.name.len() > 3 => {
                self.state = State::Quoted(byte);
            }
            (name, b'>') => {
                let is = |tag: &[u8]| {
                    let rest = name.strip_prefix(tag);
                    self.is_html
                        && rest.is_some_and(|rest| {
                            !rest.first().is_some_and(u8::is_ascii_alphanumeric)
                        })
                };
                self.state = if is(b"script") {
                    State::Raw(b"</script")
                } else if is(b"style") {
                    State::Raw(b"</style")
                } else {
                    State::Text
                };
                self.name.clear();
            }
            _ => {}
        }
    }

    /// Takes a byte. Returns whether the last bytes are `mark`.
    fn ends_with(&mut self, byte: u8, mark: &[u8]) -> bool {
        self.name.push(byte);
        let excess = self.name.len().saturating_sub(mark.len());
        self.name.drain(..excess);
        self.name == mark
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stripped(text: &str, is_html: bool, part: usize) -> String {
        let mut filter = TagFilter::new(is_html);
        let mut bytes = text.as_bytes().to_vec();
        bytes.chunks_mut(part).for_each(|part| filter.strip(part));
        String::from_utf8_lossy(&bytes).into_owned()
    }

    #[test]
    fn tags_become_spaces_and_all_else_stays_in_its_place() {
        for (text, kept) in [
            ("a <b>c</b> d", &["a", "c", "d"][..]),
            ("<a href=\"x > y\">z</a>", &["z"]),
            ("x<!-- <b> -- > -->y", &["x", "y"]),
            ("x<script>if (a < b) '</b>'</script>y", &["x", "y"]),
            ("<p\nclass='a'>b", &["b"]),
            ("<style media=x>p > q</style>r", &["r"]),
            ("<scripted>a</scripted>", &["a"]),
            ("<!DOCTYPE html \"x\">a", &["a"]),
            ("a &lt; b", &["a", "&lt;", "b"]),
            ("<", &[]),
        ] {
            for part in [1, 3, 1000] {
                let found = stripped(text, true, part);
                let words: Vec<&str> = found.split_whitespace().collect();
                assert_eq!(words, kept, "{text} {part}");
                assert_eq!(found.len(), text.len());
                let mut bytes = found.bytes().zip(text.bytes());
                assert!(
                    bytes.all(|(found, byte)| found == byte || found == b' '),
                    "{text}"
                );
                assert_eq!(found.matches('\n').count(), text.matches('\n').count());
            }
        }
        let xml = stripped("<a><![CDATA[x < y]]></a>", false, 2);
        assert_eq!(
            xml.split_whitespace().collect::<Vec<_>>(),
            ["x", "<", "y]]"]
        );
    }
}
