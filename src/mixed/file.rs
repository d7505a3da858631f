//! One file of a batch: its state before the operations on it, and where their edits put text.

use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;
use zipfdb_kernels::gpu::{DeviceInserts, ExtractedBytes, GpuError};
use zipfdb_kernels::{APPEND, Insert, Splice, Splices, place_inserts};
use zipfdb_sql::quote;

use super::operation::{Operation, Target, at};
use super::splices::Stretches;
use super::texts::InsertedTexts;
use crate::answer::{Found, ask_stored};
use crate::overlay::{EditedFile, FileState, Piece, check_name};
use crate::segment::cost::insert_costs;
use crate::{Error, Result};

/// The state of a file before the batch.
pub(super) enum FileBase {
    Missing,
    /// As stored.
    Stored {
        file: usize,
        bytes: u64,
    },
    /// With pending edits, perhaps on a stored file.
    Edited(Arc<EditedFile>, Option<usize>),
}

/// A file of a batch.
pub(super) struct File<'a> {
    pub(super) name: &'a str,
    pub(super) base: FileBase,
    /// The operations that insert some text.
    pub(super) edits: Vec<usize>,
    /// Number of inserts, empty ones included, and their total bytes.
    pub(super) rows: u64,
    pub(super) inserted_bytes: u64,
    /// The number of operations up to the last question about a word, and of edits among them: later ones change no answer.
    pub(super) question_end: usize,
    pub(super) question_edits: usize,
    pub(super) stretches: Stretches,
}

impl FileBase {
    /// The size in bytes.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            FileBase::Missing => 0,
            FileBase::Stored { bytes, .. } => *bytes,
            FileBase::Edited(file, _) => file.pieces.bytes(),
        }
    }

    /// The stored file that it is or rests on.
    pub(super) fn stored(&self) -> Option<usize> {
        match self {
            FileBase::Missing => None,
            FileBase::Stored { file, .. } => Some(*file),
            FileBase::Edited(_, stored) => *stored,
        }
    }

    /// The pieces of a range of bytes.
    pub(super) fn pieces(&self, range: Range<u64>) -> Vec<Piece> {
        match self {
            FileBase::Edited(file, _) => file.pieces.slice(range),
            _ if range.is_empty() => Vec::new(),
            _ => vec![Piece::Stored(range)],
        }
    }

    /// Appends the stored bytes that a range needs to the questions.
    pub(super) fn ask(&self, range: Range<u64>, asked: &mut Vec<(usize, u64, u64)>) {
        match self {
            FileBase::Missing => {}
            FileBase::Stored { .. } if range.is_empty() => {}
            FileBase::Stored { file, .. } => {
                asked.push((*file, range.start, range.end - range.start));
            }
            FileBase::Edited(file, stored) => ask_stored(&file.pieces.slice(range), *stored, asked),
        }
    }

    /// Appends a range of bytes to a text; the answers to [`FileBase::ask`] are read from question `next` on.
    pub(super) fn read(
        &self,
        range: Range<u64>,
        found: &Found<ExtractedBytes>,
        next: &mut usize,
        text: &mut Vec<u8>,
    ) {
        let mut append = |text: &mut Vec<u8>| {
            let parts = found.parts(*next);
            parts.for_each(|(_, part)| text.extend_from_slice(part));
            *next += 1;
        };
        match self {
            FileBase::Missing => {}
            FileBase::Stored { .. } if range.is_empty() => {}
            FileBase::Stored { .. } => append(text),
            FileBase::Edited(file, stored) => {
                for piece in file.pieces.slice(range) {
                    match piece {
                        Piece::Inserted(more) => text.extend_from_slice(&more),
                        Piece::Stored(_) if stored.is_some() => append(text),
                        Piece::Stored(_) => {}
                    }
                }
            }
        }
    }
}

impl Target<'_> {
    /// The state of a file.
    pub(super) fn base(&self, name: &str) -> FileBase {
        match self.overlay.file(name) {
            Some(FileState::Deleted) => FileBase::Missing,
            Some(FileState::Edited(file)) => {
                let stored = file.is_stored.then(|| self.stored.find_file(name));
                FileBase::Edited(file.clone(), stored.flatten())
            }
            None => match self.stored.find_file(name) {
                None => FileBase::Missing,
                Some(file) => FileBase::Stored {
                    file,
                    bytes: self.stored.files()[file].bytes,
                },
            },
        }
    }

    /// Checks the operations on one file.
    ///
    /// # Errors
    /// If one of them is not valid.
    pub(super) fn open<'a>(
        &self,
        base: FileBase,
        indexes: &'a [usize],
        operations: &[Operation<'a>],
    ) -> Result<File<'a>> {
        let name = operations[indexes[0]].file();
        let mut size = match base {
            FileBase::Missing => None,
            _ => Some(base.bytes()),
        };
        let (mut edits, mut rows, mut inserted_bytes) = (Vec::new(), 0, 0);
        let (mut question_end, mut question_edits) = (0, 0);
        for (number, &index) in indexes.iter().enumerate() {
            let operation = &operations[index];
            let Some(bytes) = size.or_else(|| operation.is_append().then_some(0)) else {
                return Err(at(index, self.stored.no_such_file(name)));
            };
            if size.is_none() {
                check_name(name).map_err(|error| at(index, error))?;
            }
            match *operation {
                Operation::Count { .. } | Operation::Search { .. } => {
                    (question_end, question_edits) = (number + 1, edits.len());
                }
                Operation::Insert { offset, .. } if offset > bytes => {
                    return Err(at(
                        index,
                        Error::Invalid {
                            subject: format!("offset {offset}"),
                            reason: format!("file {} has {bytes} bytes then", quote(name)),
                        },
                    ));
                }
                Operation::Insert { text, .. } | Operation::Append { text, .. } => {
                    rows += 1;
                    inserted_bytes += text.len() as u64;
                    size = Some(bytes + text.len() as u64);
                    if !text.is_empty() {
                        edits.push(index);
                    }
                }
                Operation::Extract { .. } => {}
            }
        }
        Ok(File {
            name,
            stretches: Stretches::new(base.bytes(), 0, [].into_iter()),
            base,
            edits,
            rows,
            inserted_bytes,
            question_end,
            question_edits,
        })
    }

    /// Computes where the edits of all files put text.
    ///
    /// # Errors
    /// If a device fails that was to do it, or the run must end.
    pub(super) fn place(&self, files: &mut [File<'_>], operations: &[Operation<'_>]) -> Result<()> {
        let mut edited: Vec<&mut File<'_>> = files
            .iter_mut()
            .filter(|file| !file.edits.is_empty())
            .collect();
        let count = edited.iter().map(|file| file.edits.len()).sum();
        let devices = self.stored.devices();
        let threads = rayon::current_num_threads();
        let Some(device) = devices.for_work(insert_costs(count, threads)) else {
            edited
                .par_iter_mut()
                .for_each(|file| file.place(operations));
            return Ok(());
        };
        let mut rest = vec![&mut edited[..]];
        while let Some(files) = rest.pop() {
            let sizes: Vec<u64> = files.iter().map(|file| file.base.bytes()).collect();
            let inserts: Vec<Insert> = (0..)
                .zip(&*files)
                .flat_map(|(number, file)| file.inserts(number, operations))
                .collect();
            let placed = device.until(self.run.stop).with_gpu(|gpu| {
                let uploaded = DeviceInserts::upload(gpu, &sizes, &inserts)?;
                Ok(uploaded.place(gpu)?.download(gpu)?)
            });
            match placed {
                Err(Error::Gpu(GpuError::Memory { .. })) if files.len() > 1 => {
                    let (left, right) = files.split_at_mut(files.len() / 2);
                    rest.extend([right, left]);
                }
                Err(error @ Error::Gpu(_)) if devices.falls_back() => {
                    device.count_failure(&error);
                    files.par_iter_mut().for_each(|file| file.place(operations));
                }
                placed => {
                    let Splices { offsets, splices } = placed?.expect(IN_FILES);
                    let mut firsts = Vec::with_capacity(files.len());
                    let mut first = 0;
                    for file in &*files {
                        firsts.push(first);
                        // Fewer than 2^31, as all inserts are.
                        first += file.edits.len() as u32;
                    }
                    let ranges = offsets.par_windows(2).zip(firsts);
                    files
                        .par_iter_mut()
                        .zip(ranges)
                        .for_each(|(file, (range, first))| {
                            let splices = &splices[range[0] as usize..range[1] as usize];
                            let of_file = splices.iter().map(|splice| Splice {
                                insert: splice.insert - first,
                                ..*splice
                            });
                            file.set_splices(of_file);
                        });
                }
            }
        }
        Ok(())
    }
}

/// The reason why edits can be placed.
const IN_FILES: &str = "edits were found to be within their files";

impl File<'_> {
    /// The edits, as those of file number `file`.
    fn inserts<'a>(
        &'a self,
        number: u32,
        operations: &'a [Operation<'_>],
    ) -> impl Iterator<Item = Insert> + 'a {
        self.edits.iter().map(move |&index| Insert {
            file: number,
            offset: match operations[index] {
                Operation::Insert { offset, .. } => offset,
                _ => APPEND,
            },
            length: operations[index].text().len() as u64,
        })
    }

    fn place(&mut self, operations: &[Operation<'_>]) {
        let inserts: Vec<Insert> = self.inserts(0, operations).collect();
        let placed = place_inserts(&[self.base.bytes()], &inserts);
        self.set_splices(placed.expect(IN_FILES).splices.into_iter());
    }

    fn set_splices(&mut self, splices: impl ExactSizeIterator<Item = Splice>) {
        self.stretches = Stretches::new(self.base.bytes(), self.edits.len(), splices);
    }

    /// The file after all edits; none if there are none.
    pub(super) fn edited(&self, texts: &InsertedTexts) -> Option<(Arc<str>, EditedFile)> {
        if self.rows == 0 {
            return None;
        }
        let mut file = match &self.base {
            FileBase::Missing => EditedFile::empty(),
            FileBase::Stored { bytes, .. } => EditedFile::stored(*bytes),
            FileBase::Edited(file, _) => EditedFile::clone(file),
        };
        let inserted = self.stretches.inserted();
        let inserted =
            inserted.map(|(base, edit, range)| (base, texts.slice(self.edits[edit], range)));
        file.pieces.insert_many(inserted.collect());
        Some((self.name.into(), file))
    }
}
