//! The same answers by straight scans of texts in memory.
//!
//! Nothing is kept between questions but the texts and the ids of their words.

use std::collections::HashMap;
use std::fs;

use rayon::prelude::*;
use regex_automata::meta::Regex;
use regex_automata::util::syntax;
use rustc_hash::FxBuildHasher;

use super::Job;
use super::grep;
use super::spans::Subjects;
use super::timed::Outcome;
use crate::Result;
use crate::corpus::Corpus;
use crate::words::{self, Words};

/// Counts the matches of each pattern.
pub fn grep(job: &Job) -> Result<Outcome> {
    let corpus = Corpus::open(&job.corpus)?;
    let texts = corpus.files.iter().map(|file| fs::read(&file.path));
    let texts = texts.collect::<std::io::Result<Vec<Vec<u8>>>>()?;
    let patterns = grep::all();
    let names: Vec<String> = patterns.iter().map(|&text| text.to_owned()).collect();
    let asked = job.ask(&names, |index| {
        let syntax = syntax::Config::new().multi_line(true).utf8(false);
        let config = Regex::config().utf8_empty(false);
        let regex = Regex::builder()
            .syntax(syntax)
            .configure(config)
            .build(patterns[index])?;
        let count = |text: &Vec<u8>| regex.find_iter(text).count() as u64;
        Ok((texts.par_iter().map(count).sum(), Vec::new()))
    })?;
    Ok(Outcome::of(asked))
}

/// Counts what part `spans` asks for, as far as a pass over word ids does.
pub fn spans(job: &Job) -> Result<Outcome> {
    let corpus = Corpus::open(&job.corpus)?;
    let words = Words::new(&words::read_pieces(&corpus)?, corpus.files.len())?;
    let subjects: Subjects = serde_json::from_str(job.question()?)?;
    let id = |word: &str| {
        let found = words
            .dictionary
            .iter()
            .position(|other| other == word.as_bytes());
        found
            .map(|id| id as u32)
            .ok_or_else(|| format!("no word `{word}`"))
    };
    let (frequent, second) = (id(&subjects.frequent)?, id(&subjects.second)?);
    let files = 0..corpus.files.len();
    let per_file = |count: &(dyn Fn(&[u32]) -> u64 + Sync)| -> u64 {
        files
            .clone()
            .into_par_iter()
            .map(|file| count(words.file(file)))
            .sum()
    };
    let names = Subjects::COUNTED.map(str::to_owned);
    let asked = job.ask(&names, |index| {
        let answer = match index {
            0 => per_file(&|file| file.iter().filter(|&&word| word == frequent).count() as u64),
            1 => per_file(&|file| {
                let pairs = file.windows(2);
                pairs.filter(|pair| *pair == [frequent, second]).count() as u64
            }),
            2 => per_file(&|file| {
                let starts = (0..file.len()).filter(|&at| file[at] == frequent);
                let is_near = |at: &usize| {
                    let window = &file[at + 1..file.len().min(at + 5)];
                    window.contains(&second)
                };
                starts.filter(is_near).count() as u64
            }),
            _ => {
                let mut groups: HashMap<Option<u32>, u64, FxBuildHasher> = HashMap::default();
                for file in files.clone() {
                    let file = words.file(file);
                    for at in (0..file.len()).filter(|&at| file[at] == frequent) {
                        *groups.entry(file.get(at + 1).copied()).or_default() += 1;
                    }
                }
                groups.len() as u64
            }
        };
        Ok((answer, Vec::new()))
    })?;
    Ok(Outcome::of(asked))
}
