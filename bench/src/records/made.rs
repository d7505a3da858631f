//! Records that are made of the texts of a corpus, and an access log that is made of nothing: files of one record a line.
//!
//! The invariant: a file depends on the texts, its size and the seed alone. Texts of records are stretches of the corpus, so they
//! have its words and repeats; authors, days and the paths of a log are as skewed as real ones.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use serde_json::json;

use crate::Result;
use crate::corpus::Corpus;
use crate::edited_copies::Random;

/// Authors of the records.
const AUTHORS: u64 = 2_000;

/// Days of the records: from 2000-01-01 on, about 20 years.
const DAYS: u64 = 7_300;

/// 2000-01-01 in days since 1970-01-01.
const FIRST_DAY: u64 = 10_957;

/// Languages by how many of 16 records have them.
const LANGUAGES: [(&str, u64); 4] = [("en", 10), ("de", 3), ("fr", 2), ("fi", 1)];

/// Seconds that an access log covers: 30 days.
const LOG_SECONDS: u64 = 30 * 86_400;

/// 2026-01-01 in seconds since 1970-01-01.
const LOG_START: u64 = 1_767_225_600;

/// What a made file has.
#[derive(Clone, Copy, Debug, Default)]
pub struct Made {
    pub records: u64,
    pub bytes: u64,
    /// Bytes of the texts alone.
    pub text_bytes: u64,
}

/// Writes JSON lines with texts of about `text_bytes` bytes, until they have `bytes` bytes.
pub fn json_lines(
    corpus: &Corpus,
    path: &Path,
    text_bytes: usize,
    bytes: u64,
    seed: u64,
) -> Result<Made> {
    let texts = corpus_text(corpus, bytes)?;
    let mut out = BufWriter::new(File::create(path)?);
    let mut random = Random::new(seed);
    let mut made = Made::default();
    let (mut at, mut round) = (0, 0);
    while made.bytes < bytes {
        if at >= texts.len() {
            // The next round begins elsewhere, so that its texts are others.
            round += 1;
            at = (text_bytes * round / 3) % texts.len().max(1);
            if texts.is_empty() {
                return Err("the corpus has no text in UTF-8".into());
            }
        }
        let size = text_bytes / 2 + random.below(text_bytes as u64) as usize;
        let text = stretch(&texts[at..], size);
        at += text.len().max(1);
        let author = skewed(&mut random, AUTHORS);
        // The number of records grows with the years.
        let day = random.below(DAYS).max(random.below(DAYS));
        let mut kind = random.below(16);
        let language = LANGUAGES.iter().find(|(_, share)| {
            let is_it = kind < *share;
            kind = kind.saturating_sub(*share);
            is_it
        });
        let line = json!({
            "author": format!("author {author:04}"),
            "day": date(FIRST_DAY + day),
            "lang": language.map_or("en", |(name, _)| name),
            "likes": skewed(&mut random, 1_000),
            "content": text,
        });
        let line = serde_json::to_string(&line)?;
        out.write_all(line.as_bytes())?;
        out.write_all(b"\n")?;
        made.records += 1;
        made.bytes += line.len() as u64 + 1;
        made.text_bytes += text.len() as u64;
    }
    out.flush()?;
    Ok(made)
}

/// The text of a corpus, or the beginning of it that is enough for `bytes` bytes; without what is not UTF-8.
fn corpus_text(corpus: &Corpus, bytes: u64) -> Result<String> {
    let mut text = String::new();
    corpus.for_each_row(|row| {
        if (text.len() as u64) < bytes {
            text.push_str(&row.text());
        }
        Ok(())
    })?;
    Ok(text)
}

/// The beginning of a text, up to a space near `size`.
fn stretch(text: &str, size: usize) -> &str {
    let mut end = size.min(text.len());
    while !text.is_char_boundary(end) {
        end += 1;
    }
    match text[end..].find([' ', '\n']) {
        Some(more) if more < 64 => &text[..end + more + 1],
        _ => &text[..end],
    }
}

/// A number below a limit; small ones are more frequent, about as ranks of words are.
fn skewed(random: &mut Random, limit: u64) -> u64 {
    // Drawn uniformly on a logarithmic scale.
    let unit = random.below(1 << 30) as f64 / f64::from(1 << 30);
    // Below `limit`, which is small.
    ((limit as f64).powf(unit) - 1.0) as u64
}

/// Writes an access log in the combined format, until it has `bytes` bytes. Times ascend, and errors come in bursts.
pub fn access_log(path: &Path, bytes: u64, seed: u64) -> Result<Made> {
    const AGENTS: [&str; 5] = [
        "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
        "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/139.0.0.0 Safari/537.36",
        "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 Version/18.5 Mobile/15E148 Safari/604.1",
        "Mozilla/5.0 (compatible; ExampleBot/2.1; +http://bot.example/about)",
        "curl/8.5.0",
    ];
    const SECTIONS: [&str; 6] = [
        "articles",
        "users",
        "search",
        "static/js",
        "static/css",
        "api/v2/items",
    ];
    let mut out = BufWriter::new(File::create(path)?);
    let mut random = Random::new(seed);
    let mut made = Made::default();
    // A line has about 200 bytes.
    let step = (LOG_SECONDS as f64 * 1000.0 / (bytes as f64 / 200.0)).max(1.0) as u64;
    let mut now = LOG_START * 1000;
    while made.bytes < bytes {
        now += random.below(2 * step + 1);
        let second = now / 1000;
        let host = skewed(&mut random, 60_000);
        let section = SECTIONS[skewed(&mut random, SECTIONS.len() as u64) as usize];
        let page = skewed(&mut random, 50_000);
        // One hour in 40 has many errors.
        let is_burst = (second / 3600) % 40 == 17;
        let status = match random.below(1000) {
            0..=1 => 500,
            2 => 503,
            3..=150 if is_burst => 502,
            3..=40 => 404,
            41..=120 => 304,
            121..=140 => 301,
            _ => 200,
        };
        let size = if status == 304 {
            0
        } else {
            200 + skewed(&mut random, 90_000)
        };
        let (day, time) = (second / 86_400, second % 86_400);
        let line = format!(
            "10.{}.{}.{} - - [{}T{:02}:{:02}:{:02}.{:03}Z] \"GET /{section}/{page} HTTP/1.1\" {status} {size} \
             \"https://www.example.org/{section}\" \"{}\" {}\n",
            host >> 16 & 255,
            host >> 8 & 255,
            host & 255,
            date(day),
            time / 3600,
            time / 60 % 60,
            time % 60,
            now % 1000,
            AGENTS[skewed(&mut random, AGENTS.len() as u64) as usize],
            random.below(40) * random.below(40),
        );
        out.write_all(line.as_bytes())?;
        made.records += 1;
        made.bytes += line.len() as u64;
    }
    out.flush()?;
    made.text_bytes = made.bytes;
    Ok(made)
}

/// A day since 1970-01-01 as `2026-01-31`.
fn date(days: u64) -> String {
    // Years begin in March, so that a leap day is the last of one; 719,468 days lie between 0000-03-01 and 1970-01-01.
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    format!("{:04}-{month:02}-{day:02}", era * 400 + year + next)
}
