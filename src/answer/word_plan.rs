//! The methods that answer questions about words, and the choice among them.
//!
//! Invariant: every decision on how rows are made is taken here, once; answers found on the way are kept in the plan.

use zipfdb_sql::setting::Strategy;

use super::corpus_view::CorpusView;
use super::plan::{AnswerPlan, Candidate};
use super::question::{FileSet, Granularity, PlaceConditions, Question};
use super::reader::CorpusReader;
use crate::Result;
use crate::runtime::interrupt::Interrupt;
use crate::segment::cost::{NUMBER_COST, STREAM_COST, STREAM_COUNT_FACTOR};

/// Nanoseconds of adding up counts of words by file, for each word of the files, about.
const ADD_UP_COST: f64 = 25.0;

/// Nanoseconds of skipping the rows of unwanted words, for each word of the files, about.
const PASS_OVER_COST: f64 = 0.4;

/// The most named words that are counted without the vocabulary.
pub(crate) const FEW_WORDS: usize = 8;

/// The most files that are looked up one by one before the dictionary is decoded.
const FEW_FILES: usize = 16;

/// A method to make rows about words.
#[derive(Clone, Debug)]
pub(crate) enum WordMethod {
    /// The count was known from memory: of a file, or of all.
    Known { file: u32, count: u64 },
    /// The file table has the counts.
    FileTotals,
    /// A few words are counted in all files together.
    CountWords(Vec<Vec<u8>>),
    /// A few words are looked up in each file.
    CountInFiles(Vec<Vec<u8>>),
    /// Words are looked up by number in each file; `at_once` if as one batch.
    LookUp { at_once: bool },
    /// A few words are counted by file.
    CountByFile(Vec<Vec<u8>>),
    /// A set of words is counted by file.
    CountSetByFile,
    /// All words are counted in all files together.
    Totals,
    /// All words are counted in some files together.
    TotalsOfFiles,
    /// All words are counted by file, in one table.
    FileTable,
    /// All words are counted in one file after the other.
    EachFile,
    /// The same in parts that fit into memory.
    FileParts,
    /// Files are expanded and their words counted.
    Expand,
    /// The occurrences of a few words are looked up in all files at once.
    SearchAll(Vec<Vec<u8>>),
    /// The occurrences of a word are looked up in each file.
    SearchFiles(Vec<u8>),
    /// The occurrences of words are looked up by number in each file.
    Search,
    /// Words are read by number, without the bytes between them.
    Numbers,
    /// Words are read one after the other.
    Stream,
}

/// The conditions of a plan beside the question.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlanSettings {
    /// The strategy that SET names.
    pub(crate) forced: Option<Strategy>,
    /// Whether EXPLAIN shows the choice, so nothing is answered while planning.
    pub(crate) is_explained: bool,
    /// Bytes.
    pub(crate) memory_limit: u64,
}

/// Chooses the method that answers a question about words.
///
/// # Errors
/// If the strategy of SET cannot answer, a segment is damaged, or the statement must end.
pub(crate) fn plan_words(
    question: &Question,
    reader: &CorpusReader,
    settings: PlanSettings,
    interrupt: &Interrupt,
) -> Result<AnswerPlan<WordMethod>> {
    let forced = settings.forced;
    let are_demanded = reader.view().stored().devices().are_demanded();
    let is_free = forced.is_none() && !settings.is_explained && !are_demanded;
    if is_free && let Some(method) = known_count(question, reader, interrupt)? {
        // Estimating other methods would take longer than this answer.
        return Ok(AnswerPlan::answered(method));
    }
    let candidates = || WordPlanner { question, reader }.candidates();
    let mut plan = AnswerPlan::choose(reader.view(), forced, candidates)?;
    if forced.is_none() && reader.knows_lookups() {
        plan.prefer(WordMethod::looks_up);
    }
    if question.granularity == Granularity::FileWord
        && forced.is_none()
        && !plan.method().looks_up()
        && rows_bytes(question, reader) > settings.memory_limit
    {
        // Each file on the grammar.
        plan.prefer(|method| matches!(method, WordMethod::FileTable | WordMethod::EachFile));
        plan.vary(WordMethod::FileParts);
    }
    Ok(plan)
}

impl WordMethod {
    /// Whether single words are looked up.
    fn looks_up(&self) -> bool {
        matches!(
            self,
            WordMethod::CountInFiles(_)
                | WordMethod::LookUp { .. }
                | WordMethod::SearchAll(_)
                | WordMethod::SearchFiles(_)
                | WordMethod::Search
        )
    }
}

/// The most bytes of the rows of words by file, as a table and as rows.
fn rows_bytes(question: &Question, reader: &CorpusReader) -> u64 {
    let pairs = question.files.pairs(reader.view());
    let entry = size_of::<(u32, u32)>() + size_of::<(u32, u32, u64)>();
    pairs.saturating_mul(entry as u64)
}

/// The sum of the counts of a few words in all files or in one, if rows have only that and structures in memory answer.
fn known_count(
    question: &Question,
    reader: &CorpusReader,
    interrupt: &Interrupt,
) -> Result<Option<WordMethod>> {
    let (files, view) = (&question.files, reader.view());
    let Some(words) = question.texts.few() else {
        return Ok(None);
    };
    match (question.granularity, files.numbers()) {
        (Granularity::All, _) if files.is_all() => {
            let count = view.count_at_hand(words)?;
            Ok(count.map(|count| WordMethod::Known { file: 0, count }))
        }
        (Granularity::All | Granularity::File, &[file]) if view.can_count_now(file as usize) => {
            let count = reader.count_sum(file as usize, words, interrupt)?;
            Ok(Some(WordMethod::Known { file, count }))
        }
        _ => Ok(None),
    }
}

/// A method to count the words of each of some files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TermVectorMethod {
    /// All files together, in one table.
    Table,
    /// One file after the other.
    EachFile,
    /// The same, because the table may exceed the memory limit.
    FileByFile,
}

/// Chooses how the `limit` most frequent words of each of some files are counted.
///
/// # Errors
/// If the strategy of SET cannot answer, or a segment is damaged.
pub(crate) fn plan_term_vectors(
    view: &CorpusView,
    files: &FileSet,
    limit: u32,
    settings: PlanSettings,
) -> Result<AnswerPlan<TermVectorMethod>> {
    let bytes = files
        .pairs(view)
        .saturating_mul(size_of::<(u32, u32)>() as u64);
    let method = if bytes > settings.memory_limit {
        TermVectorMethod::FileByFile
    } else if files.is_all() && files.len() > 1 {
        TermVectorMethod::Table
    } else {
        TermVectorMethod::EachFile
    };
    AnswerPlan::choose(view, settings.forced, || {
        let plan = match method {
            TermVectorMethod::Table => view.plan_frequent_words(limit)?,
            _ => view.plan_totals_of(files.numbers())?,
        };
        Ok(vec![Candidate::planned(
            Strategy::FileWeights,
            method,
            &plan,
        )])
    })
}

/// Makes the candidates of a question.
struct WordPlanner<'a> {
    question: &'a Question,
    reader: &'a CorpusReader,
}

impl WordPlanner<'_> {
    fn candidates(&self) -> Result<Vec<Candidate<WordMethod>>> {
        let (question, view) = (self.question, self.reader.view());
        let mut candidates = Vec::new();
        // Look-ups come first: they win at equal costs.
        if let Some(named) = question.texts.named() {
            candidates.push(match question.granularity {
                Granularity::Occurrence => self.search(named)?,
                _ => self.look_up(named)?,
            });
        }
        if question.granularity == Granularity::Occurrence {
            candidates.push(self.occurrences());
            return Ok(candidates);
        }
        candidates.extend(self.sums()?);
        candidates.push(self.by_file()?);
        let stream = Candidate::stream(WordMethod::Expand, question, view);
        candidates.push(stream.times(STREAM_COUNT_FACTOR));
        Ok(candidates)
    }

    /// Look-ups of named words in each file.
    fn look_up(&self, named: u64) -> Result<Candidate<WordMethod>> {
        let (files, view) = (&self.question.files, self.reader.view());
        let are_demanded = view.stored().devices().are_demanded();
        let is_summed = matches!(
            self.question.granularity,
            Granularity::All | Granularity::File
        );
        let method = match self.question.texts.few() {
            Some(words)
                if is_summed
                    && files.len() <= FEW_FILES
                    && !view.has_vocabulary()
                    && !are_demanded =>
            {
                WordMethod::CountInFiles(words.to_vec())
            }
            _ => WordMethod::LookUp {
                at_once: are_demanded && !self.reader.knows_lookups(),
            },
        };
        let plan = view.plan_file_counts(named, files.numbers())?;
        Ok(Candidate::planned(Strategy::Parents, method, &plan))
    }

    /// The occurrences of named words.
    fn search(&self, named: u64) -> Result<Candidate<WordMethod>> {
        let (question, view) = (self.question, self.reader.view());
        let files = &question.files;
        // The count of a word is not known before its segment is decoded: Zipf's law gives the middle.
        let tokens = view.symbols_and_tokens().1.max(1);
        let occurrences = named * files.words(view) / tokens * 8;
        let few = question.texts.few().unwrap_or_default();
        let is_unnumbered = named == 1
            && !question.shown.texts
            && !question.uses_positions()
            && !view.has_vocabulary();
        // A device takes as long for one file as for all of them.
        let are_demanded = view.stored().devices().are_demanded();
        let is_at_once = !few.is_empty()
            && if are_demanded {
                files.len() > 1 && !question.looks_up_positions()
            } else {
                files.len() >= FEW_FILES && is_unnumbered
            }
            && question
                .limit
                .is_none_or(|limit| limit > files.len() as u64)
            && !self.reader.knows_lookups();
        let method = match few {
            words if is_at_once => WordMethod::SearchAll(words.to_vec()),
            [word] if is_unnumbered => WordMethod::SearchFiles(word.clone()),
            _ => WordMethod::Search,
        };
        let plan = if is_at_once {
            view.plan_search_at_once(few.len() as u64, occurrences)?
        } else {
            let positions = question.looks_up_positions();
            view.plan_search(named, files.numbers(), occurrences, positions)?
        };
        Ok(Candidate::planned(Strategy::Parents, method, &plan))
    }

    /// Counts that are added up over words or files.
    fn sums(&self) -> Result<Option<Candidate<WordMethod>>> {
        let (question, view) = (self.question, self.reader.view());
        let (files, few) = (&question.files, question.texts.few());
        let weights = |method, plan| Some(Candidate::planned(Strategy::Weights, method, &plan));
        let by_file = |method, plan| Some(Candidate::planned(Strategy::LocalTables, method, &plan));
        Ok(match question.granularity {
            Granularity::All | Granularity::File if question.texts.is_all() => Some(
                Candidate::file_totals(WordMethod::FileTotals, files.len() as u64),
            ),
            Granularity::All if files.is_all() && few.is_some() && !view.has_vocabulary() => {
                let words = few.unwrap_or_default();
                let named = question.texts.named().unwrap_or_default();
                let method = WordMethod::CountWords(words.to_vec());
                weights(method, view.plan_counts(named)?)
            }
            Granularity::All | Granularity::Word if files.is_all() => {
                weights(WordMethod::Totals, view.plan_totals()?)
            }
            Granularity::Word => weights(
                WordMethod::TotalsOfFiles,
                view.plan_totals_of_set(files.numbers())?,
            ),
            Granularity::All | Granularity::File => match few {
                Some(words) => by_file(
                    WordMethod::CountByFile(words.to_vec()),
                    view.plan_files_of_words()?,
                ),
                None => by_file(WordMethod::CountSetByFile, view.plan_word_set()?),
            },
            Granularity::FileWord | Granularity::Occurrence => None,
        })
    }

    /// All words of each file.
    fn by_file(&self) -> Result<Candidate<WordMethod>> {
        let (question, view) = (self.question, self.reader.view());
        let files = &question.files;
        let candidate = if question.has_table_of_files() {
            let plan = view.plan_file_words()?;
            Candidate::planned(Strategy::FileWeights, WordMethod::FileTable, &plan)
        } else {
            let plan = view.plan_totals_of(files.numbers())?;
            Candidate::planned(Strategy::FileWeights, WordMethod::EachFile, &plan)
        };
        let is_by_file = question.granularity.is_by_file();
        let cost_of_word = if !is_by_file && files.len() > 1 {
            ADD_UP_COST
        } else if question.texts.is_all() {
            0.0
        } else {
            PASS_OVER_COST
        };
        Ok(candidate.plus(files.words(view) as f64 * cost_of_word))
    }

    /// All words in order, by number alone where rows have no offsets and these are not known sooner.
    fn occurrences(&self) -> Candidate<WordMethod> {
        let (question, view) = (self.question, self.reader.view());
        let (files, places) = (&question.files, &question.places);
        let (has_all_texts, has_all_places) = (question.texts.is_all(), question.has_all_places());
        // A stream stops when enough rows are out.
        let rows_max = (question.limit).filter(|_| has_all_texts && has_all_places);
        let all = files.words(view).max(1) as f64;
        let share = rows_max.map_or(1.0, |rows| rows as f64 / all);
        let stream = Candidate::stream(WordMethod::Stream, question, view).times(share.min(1.0));
        let is_decided = matches!(places.conditions, PlaceConditions::Any { .. });
        if is_decided || question.shown.offsets {
            return stream;
        }
        let words = files.words_in(view, &places.ranges);
        let limit = question.limit.filter(|_| has_all_texts);
        let rows = limit.map_or(words, |limit| limit.min(words)) as f64;
        let cost = view.missing_for_numbers(&places.ranges.positions) + rows * NUMBER_COST;
        if cost >= view.missing_for_stream() + rows * STREAM_COST {
            return stream;
        }
        Candidate::streamed(WordMethod::Numbers, files, cost.min(stream.cost()))
    }
}
