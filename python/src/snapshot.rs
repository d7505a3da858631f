//! `Snapshot`: questions about one state of a corpus, without SQL, one by one or many at once.
//!
//! Invariant: it does not change while it is held. Single look-ups run on the calling thread, so that they take microseconds; Ctrl-C
//! ends the others.

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::{PyByteArray, PyBytes, PyList};
use zipfdb::InterruptHandle;

use crate::errors::{DataError, raised};
use crate::values::{Text, numbers, numbers_of, text_or_bytes};
use crate::work::{Held, work};

/// One state of a corpus.
#[pyclass(frozen, module = "zipfdb._zipfdb")]
pub(crate) struct Snapshot {
    held: std::sync::RwLock<Held<zipfdb::Snapshot>>,
    interrupt: InterruptHandle,
}

/// A file with the offsets of a word in it, as an array of 64-bit integers.
type FileOffsets<'py> = (String, Bound<'py, PyByteArray>);

impl Snapshot {
    pub(crate) fn new(snapshot: zipfdb::Snapshot, interrupt: &InterruptHandle) -> Snapshot {
        Snapshot {
            held: std::sync::RwLock::new(Held::new(snapshot)),
            interrupt: interrupt.clone(),
        }
    }

    /// Asks on this thread.
    fn ask<A: Send>(
        &self,
        py: Python<'_>,
        ask: impl FnOnce(&zipfdb::Snapshot) -> zipfdb::Result<A> + Send,
    ) -> PyResult<A> {
        let answer = py.detach(|| self.with(ask))?;
        answer.map_err(|error| raised(py, error))
    }

    /// Asks what may take long.
    fn ask_many<A: Send>(
        &self,
        py: Python<'_>,
        ask: impl FnOnce(&zipfdb::Snapshot) -> zipfdb::Result<A> + Send,
    ) -> PyResult<A> {
        let answer = work(py, &self.interrupt, || self.with(ask))??;
        answer.map_err(|error| raised(py, error))
    }

    fn with<A>(&self, ask: impl FnOnce(&zipfdb::Snapshot) -> A) -> PyResult<A> {
        let held = self
            .held
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        Ok(ask(held.get()?))
    }
}

fn named<'py>(py: Python<'py>, found: Vec<(String, Vec<u64>)>) -> PyResult<Vec<FileOffsets<'py>>> {
    let found = found.into_iter();
    found
        .map(|(file, offsets)| Ok((file, numbers(py, &offsets)?)))
        .collect()
}

#[pymethods]
impl Snapshot {
    /// Names, bytes and words of all files.
    fn files(&self, py: Python<'_>) -> PyResult<Vec<(String, u64, u64)>> {
        self.ask(py, |snapshot| {
            let files = snapshot.files().iter();
            Ok(files
                .map(|file| (file.name.clone(), file.bytes, file.words))
                .collect())
        })
    }

    /// The number of files.
    fn file_count(&self, py: Python<'_>) -> PyResult<usize> {
        self.ask(py, |snapshot| Ok(snapshot.files().len()))
    }

    /// The number of words.
    fn total_words(&self, py: Python<'_>) -> PyResult<u64> {
        self.ask(py, |snapshot| Ok(snapshot.total_words()))
    }

    /// The count of a word in the corpus, or in a file.
    #[pyo3(signature = (word, file=None))]
    fn count(&self, py: Python<'_>, word: Text, file: Option<PyBackedStr>) -> PyResult<u64> {
        self.ask(py, |snapshot| match &file {
            Some(file) => snapshot.count_in(file, word.as_ref()),
            None => snapshot.count(word.as_ref()),
        })
    }

    /// The counts of words, as an array of 64-bit integers; in their files if these are given.
    #[pyo3(signature = (words, files=None))]
    fn count_many<'py>(
        &self,
        py: Python<'py>,
        words: Vec<Text>,
        files: Option<Vec<PyBackedStr>>,
    ) -> PyResult<Bound<'py, PyByteArray>> {
        let counts = match &files {
            None => {
                let words: Vec<&[u8]> = words.iter().map(AsRef::as_ref).collect();
                self.ask_many(py, |snapshot| snapshot.count_many(&words))?
            }
            Some(files) => {
                let questions = questions(files, &words)?;
                self.ask_many(py, |snapshot| snapshot.count_in_many(&questions))?
            }
        };
        numbers(py, &counts)
    }

    /// The files that have a word, with the offsets of its first bytes.
    fn search<'py>(&self, py: Python<'py>, word: Text) -> PyResult<Vec<FileOffsets<'py>>> {
        named(py, self.ask(py, |snapshot| snapshot.search(word.as_ref()))?)
    }

    /// The offsets of a word in a file.
    fn search_in<'py>(
        &self,
        py: Python<'py>,
        file: &str,
        word: Text,
    ) -> PyResult<Bound<'py, PyByteArray>> {
        numbers(
            py,
            &self.ask(py, |snapshot| snapshot.search_in(file, word.as_ref()))?,
        )
    }

    /// For each word the result of `search`.
    fn search_many<'py>(
        &self,
        py: Python<'py>,
        words: Vec<Text>,
    ) -> PyResult<Vec<Vec<FileOffsets<'py>>>> {
        let words: Vec<&[u8]> = words.iter().map(AsRef::as_ref).collect();
        let found = self.ask_many(py, |snapshot| snapshot.search_many(&words))?;
        found.into_iter().map(|found| named(py, found)).collect()
    }

    /// For each word the result of `search_in` its file: the number of offsets of each, and all offsets.
    fn search_in_many<'py>(
        &self,
        py: Python<'py>,
        files: Vec<PyBackedStr>,
        words: Vec<Text>,
    ) -> PyResult<(Bound<'py, PyByteArray>, Bound<'py, PyByteArray>)> {
        let questions = questions(&files, &words)?;
        let found = self.ask_many(py, |snapshot| snapshot.search_in_many(&questions))?;
        let counts: Vec<u64> = found.iter().map(|offsets| offsets.len() as u64).collect();
        Ok((numbers(py, &counts)?, numbers(py, &found.concat())?))
    }

    /// The number of places where words follow each other.
    fn phrase_count(&self, py: Python<'_>, words: Vec<Text>) -> PyResult<u64> {
        self.ask_many(py, |snapshot| snapshot.phrase_count(&words))
    }

    /// The places where words follow each other.
    fn phrase_search<'py>(
        &self,
        py: Python<'py>,
        words: Vec<Text>,
    ) -> PyResult<Vec<FileOffsets<'py>>> {
        named(
            py,
            self.ask_many(py, |snapshot| snapshot.phrase_search(&words))?,
        )
    }

    /// Bytes of a file.
    fn extract<'py>(
        &self,
        py: Python<'py>,
        file: &str,
        offset: u64,
        length: u64,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.ask(py, |snapshot| snapshot.extract(file, offset, length))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Bytes of many ranges; offsets and lengths are arrays of 64-bit integers.
    fn extract_many<'py>(
        &self,
        py: Python<'py>,
        files: Vec<PyBackedStr>,
        offsets: &[u8],
        lengths: &[u8],
    ) -> PyResult<Bound<'py, PyList>> {
        let (offsets, lengths) = (numbers_of(offsets)?, numbers_of(lengths)?);
        if offsets.len() != files.len() || lengths.len() != files.len() {
            return Err(unequal(files.len(), offsets.len().min(lengths.len())));
        }
        let ranges = files.iter().zip(offsets).zip(lengths);
        let ranges: Vec<(&str, u64, u64)> = ranges
            .map(|((file, offset), length)| (&**file, offset, length))
            .collect();
        let found = self.ask_many(py, |snapshot| snapshot.extract_many(&ranges))?;
        PyList::new(py, found.iter().map(|bytes| PyBytes::new(py, bytes)))
    }

    /// The words of the corpus, or of a file, with their counts as an array of 64-bit integers.
    #[pyo3(signature = (file=None))]
    fn words<'py>(
        &self,
        py: Python<'py>,
        file: Option<&str>,
    ) -> PyResult<(Bound<'py, PyList>, Bound<'py, PyByteArray>)> {
        let found = self.ask_many(py, |snapshot| match file {
            Some(file) => snapshot.words_in(file),
            None => snapshot.words(),
        })?;
        let words = PyList::new(py, found.iter().map(|(word, _)| text_or_bytes(py, word)))?;
        let counts: Vec<u64> = found.iter().map(|(_, count)| count).collect();
        Ok((words, numbers(py, &counts)?))
    }

    /// Gives back what it holds.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| {
            let mut held = self
                .held
                .write()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            held.take().map(drop)
        })
    }
}

/// Pairs of a file and a word.
fn questions<'a>(
    files: &'a [PyBackedStr],
    words: &'a [Text],
) -> PyResult<Vec<(&'a str, &'a [u8])>> {
    if files.len() != words.len() {
        return Err(unequal(files.len(), words.len()));
    }
    let pairs = files.iter().zip(words);
    Ok(pairs.map(|(file, word)| (&**file, word.as_ref())).collect())
}

fn unequal(files: usize, others: usize) -> PyErr {
    DataError::new_err(format!(
        "{files} files and {others} other values are not pairs"
    ))
}
