//! Batches of questions and edits, of any bytes, against the same operations one after the other on plain texts.
//!
//! The first byte says what the corpus is, the others are the operations. The invariant: every answer is the one of the
//! plain text at that moment, whose words are those of the tokenizer; a batch with an operation that has no answer is an
//! error, and has done nothing.

use std::collections::BTreeMap;

use zipfdb::fuzzing::{Sink, has_glued_space, tokenize};
use zipfdb::ingest::NoProgress;
use zipfdb::mixed::{Answer, Operation};
use zipfdb::{Corpus, CorpusSettings, Database, Tokenizer};

const FILES: [&str; 3] = ["a", "b", "c"];
const BATCHES_MAX: usize = 2;
const OPERATIONS_MAX: usize = 40;

type Texts = BTreeMap<&'static str, Vec<u8>>;

/// Where each word begins, and the word.
struct Words {
    tokenizer: Tokenizer,
    words: Vec<(u64, Vec<u8>)>,
}

impl Sink for Words {
    fn word(&mut self, text: &[u8], start: usize, end: usize) {
        let start = start + usize::from(has_glued_space(self.tokenizer, &text[start..end]));
        self.words.push((start as u64, text[start..end].to_vec()));
    }

    fn gap(&mut self, _text: &[u8], _start: usize, _end: usize) {}
}

fn words(tokenizer: Tokenizer, text: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let mut words = Words {
        tokenizer,
        words: Vec::new(),
    };
    tokenize(tokenizer, text, &mut words);
    words.words
}

/// The rest of the input; zeros behind its end.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn byte(&mut self) -> u8 {
        match self.0.split_first() {
            Some((&byte, rest)) => {
                self.0 = rest;
                byte
            }
            None => 0,
        }
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::from(u16::from_le_bytes([self.byte(), self.byte()])) % limit
    }

    fn bytes(&mut self, count_max: usize) -> &'a [u8] {
        let count = self.below(count_max).min(self.0.len());
        let (bytes, rest) = self.0.split_at(count);
        self.0 = rest;
        bytes
    }
}

/// An operation that owns what it names.
enum Step {
    Count(&'static str, Vec<u8>),
    Search(&'static str, Vec<u8>),
    Extract(&'static str, u64, u64),
    Insert(&'static str, u64, Vec<u8>),
    Append(&'static str, Vec<u8>),
}

impl Step {
    fn new(input: &mut Input<'_>, tokenizer: Tokenizer, texts: &Texts) -> Step {
        let (kind, file) = (input.byte(), FILES[input.below(FILES.len())]);
        let text = texts.get(file).map_or(&[][..], Vec::as_slice);
        // One past the end, now and then.
        let past = usize::from(kind >= 250);
        let offset = (input.below(text.len() + 1) + past) as u64;
        match kind % 5 {
            0 => Step::Insert(file, offset, input.bytes(24).to_vec()),
            1 => Step::Append(file, input.bytes(40).to_vec()),
            2 => Step::Extract(file, offset, input.below(300) as u64),
            kind => {
                let words = words(tokenizer, text);
                let word = if words.is_empty() || input.byte().is_multiple_of(8) {
                    input.bytes(8).to_vec()
                } else {
                    words[input.below(words.len())].1.clone()
                };
                match kind {
                    3 => Step::Count(file, word),
                    _ => Step::Search(file, word),
                }
            }
        }
    }

    fn operation(&self) -> Operation<'_> {
        match *self {
            Step::Count(file, ref word) => Operation::Count { file, word },
            Step::Search(file, ref word) => Operation::Search { file, word },
            Step::Extract(file, offset, length) => Operation::Extract {
                file,
                offset,
                length,
            },
            Step::Insert(file, offset, ref text) => Operation::Insert { file, offset, text },
            Step::Append(file, ref text) => Operation::Append { file, text },
        }
    }

    /// Its answer on plain texts; none if it is an error.
    fn answer(&self, tokenizer: Tokenizer, texts: &mut Texts) -> Option<Answer> {
        let offsets = |texts: &Texts, file: &str, word: &[u8]| -> Option<Vec<u64>> {
            let found = words(tokenizer, texts.get(file)?).into_iter();
            let found = found.filter(|(_, other)| other == word);
            Some(found.map(|(start, _)| start).collect())
        };
        Some(match self {
            Step::Count(file, word) => Answer::Count(offsets(texts, file, word)?.len() as u64),
            Step::Search(file, word) => Answer::Offsets(offsets(texts, file, word)?),
            Step::Extract(file, offset, length) => {
                let text = texts.get(file)?.iter().skip(*offset as usize);
                Answer::Bytes(text.take(*length as usize).copied().collect())
            }
            Step::Insert(file, offset, text) => {
                let at = *offset as usize;
                let target = texts.get_mut(file).filter(|target| at <= target.len())?;
                target.splice(at..at, text.iter().copied());
                Answer::Edited
            }
            Step::Append(file, text) => {
                texts.entry(file).or_default().extend(text);
                Answer::Edited
            }
        })
    }
}

fn check(corpus: &Corpus, tokenizer: Tokenizer, texts: &Texts) {
    let snapshot = corpus.snapshot().expect("it can be read");
    let mut counts: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
    for (file, text) in texts {
        let found = snapshot.extract(file, 0, u64::MAX).expect("it is there");
        assert_eq!(found, *text, "{file}");
        for (_, word) in words(tokenizer, text) {
            *counts.entry(word).or_default() += 1;
        }
    }
    let found = snapshot.words().expect("words are counted").to_vec();
    let found = found
        .into_iter()
        .map(|(word, count)| (word.to_vec(), count));
    assert_eq!(found.collect::<BTreeMap<_, _>>(), counts);
}

/// One input.
pub fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    let kind = usize::from(input.byte());
    let tokenizer = Tokenizer::ALL[kind % 3];
    let settings = CorpusSettings {
        tokenizer,
        segment_size: if kind & 4 == 0 { 1 << 20 } else { 100 },
        ..CorpusSettings::default()
    };
    let database = Database::options().threads(1).in_memory();
    let database = database.expect("there is memory");
    let corpus = database.create_corpus("c", settings);
    let corpus = corpus.expect("there is none");
    let mut texts = Texts::new();
    for file in &FILES[..kind >> 3 & 3] {
        texts.insert(file, input.bytes(500).to_vec());
    }
    let rows: Vec<(&str, &[u8])> = texts
        .iter()
        .map(|(file, text)| (*file, &text[..]))
        .collect();
    corpus.append_many(&rows).expect("texts are of any bytes");
    for batch in 0..BATCHES_MAX {
        if kind >> (5 + batch) & 1 == 1 {
            corpus.recompress(&NoProgress).expect("it has memory");
        }
        let mut steps = Vec::new();
        let mut expected = Some(Vec::new());
        let mut after = texts.clone();
        while steps.len() < OPERATIONS_MAX && !input.0.is_empty() && expected.is_some() {
            let step = Step::new(&mut input, tokenizer, &after);
            let answer = step.answer(tokenizer, &mut after);
            expected = expected.zip(answer).map(|(mut answers, answer)| {
                answers.push(answer);
                answers
            });
            steps.push(step);
        }
        let operations: Vec<Operation<'_>> = steps.iter().map(Step::operation).collect();
        match (corpus.mixed_many(&operations), expected) {
            (found, Some(expected)) => {
                assert_eq!(found.expect("every operation has an answer"), expected);
                texts = after;
            }
            (found, None) => assert!(found.is_err(), "{:?}", operations.last()),
        }
        check(&corpus, tokenizer, &texts);
    }
}
