//! Mailboxes: messages, each behind a line that begins with `From `.
//!
//! Invariant: the text of a message is its bytes between two such lines, without the blank line before the second; one `>` is taken
//! away where several `>` and `From ` begin a line, as writers of `mboxrd` add it. Headers are decoded for fields only.

use std::io::BufRead;
use std::sync::Arc;

use mail_parser::{Address, Message, MessageParser};

use super::lines::LineReader;
use crate::error::{Damage, Failure};
use crate::member::MemberRecords;
use crate::options::ReadOptions;
use crate::record::FieldValue;

/// Reads the messages of a mailbox.
pub(super) fn read(
    source: impl BufRead,
    options: &ReadOptions<'_>,
    target: &mut MemberRecords<'_>,
) -> Result<(), Failure> {
    let bytes_max = options.limits.record_bytes;
    let mut lines = LineReader::new(source, bytes_max);
    let mut message: Option<(u64, Vec<u8>)> = None;
    let mut is_blank = true;
    while lines.next()? {
        let line = lines.whole();
        if is_blank && line.starts_with(b"From ") {
            let next = Some((lines.number() + 1, Vec::new()));
            if let Some((first, text)) = std::mem::replace(&mut message, next) {
                record(first, without_blank_line(&text), options, target)?;
            }
            is_blank = false;
            continue;
        }
        is_blank = lines.line().is_empty();
        let Some((first, text)) = &mut message else {
            if is_blank {
                continue;
            }
            let reason = "a mailbox begins with `From `";
            return Err(Damage::at(lines.number(), 1, reason).into());
        };
        let quotes = line.iter().take_while(|&&byte| byte == b'>').count();
        let line = if quotes > 0 && line[quotes..].starts_with(b"From ") {
            &line[1..]
        } else {
            line
        };
        if text.len() + line.len() > bytes_max {
            return Err(Damage::at(
                *first,
                0,
                format!("a message of more than {bytes_max} bytes"),
            )
            .into());
        }
        text.extend_from_slice(line);
    }
    match message {
        Some((first, text)) => record(first, without_blank_line(&text), options, target),
        None => Ok(()),
    }
}

/// A message without the blank line that ends it.
fn without_blank_line(text: &[u8]) -> &[u8] {
    let crlf = text.strip_suffix(b"\r\n\r\n").map(|rest| rest.len() + 2);
    let lf = text.strip_suffix(b"\n\n").map(|rest| rest.len() + 1);
    &text[..crlf.or(lf).unwrap_or(text.len())]
}

fn record(
    line: u64,
    text: &[u8],
    options: &ReadOptions<'_>,
    target: &mut MemberRecords<'_>,
) -> Result<(), Failure> {
    let parsed = MessageParser::default().parse(text);
    let mut fields = parsed.as_ref().map(fields).unwrap_or_default();
    let name = match &options.name {
        None => None,
        Some(name) => {
            let place = fields.iter().position(|(field, _)| **field == **name);
            let found = place.and_then(|place| fields.remove(place).1.into_name());
            if found.is_none() {
                let reason = format!("the message has no `{name}`, which gives the name");
                return Ok(target.reject(Damage::at(line, 1, reason))?);
            }
            found
        }
    };
    match options.text.as_deref() {
        None => target.text(text)?,
        Some("body") => {
            let body = parsed.as_ref().and_then(|message| message.body_text(0));
            target.text(body.unwrap_or_default().as_bytes())?;
        }
        Some(other) => {
            let reason =
                format!("messages have no text `{other}`; hint: text = 'body' is the decoded body");
            return Ok(target.reject(Damage::at(line, 1, reason))?);
        }
    }
    Ok(target.record(line, name, fields)?)
}

/// The fields of a message that are known everywhere.
fn fields(message: &Message<'_>) -> Vec<(Arc<str>, FieldValue)> {
    let text = |text: Option<String>| text.map_or(FieldValue::Null, FieldValue::Text);
    let of_str = |found: Option<&str>| text(found.map(str::to_owned));
    vec![
        ("message_id".into(), of_str(message.message_id())),
        ("subject".into(), of_str(message.subject())),
        ("author".into(), text(message.from().and_then(addresses))),
        ("recipients".into(), text(message.to().and_then(addresses))),
        (
            "date".into(),
            text(message.date().map(|date| date.to_rfc3339())),
        ),
    ]
}

/// Addresses, each `name <address>`, with commas between.
fn addresses(address: &Address<'_>) -> Option<String> {
    let all: Vec<String> = (address.iter())
        .filter_map(|one| match (one.name(), one.address()) {
            (Some(name), Some(address)) => Some(format!("{name} <{address}>")),
            (Some(one), None) | (None, Some(one)) => Some(one.to_owned()),
            (None, None) => None,
        })
        .collect();
    (!all.is_empty()).then(|| all.join(", "))
}
