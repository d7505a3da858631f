//! Recovery: decides at every open from the catalog and the files what is live.
//!
//! Publishing, creating and dropping change the `segments` directory first, durably, and the catalog after it. The
//! directory therefore always shows the newest state, and the catalog which part of it was checked to be there:
//!
//! | in the directory | in the catalog | means |
//! |---|---|---|
//! | a complete publication | no | a commit that was interrupted, or the catalog lost it: live |
//! | part of a publication | no | a commit that was interrupted: garbage. Set aside if the catalog is rebuilt |
//! | no file | a live segment | the file was lost: a warning now, an error when it is needed |
//! | a marker | no | a corpus whose creation was interrupted, or the catalog lost it: live |
//! | a tombstone | anything | dropped: its segments are garbage |
//! | neither marker nor segments nor records | a corpus | dropped, and the catalog lost that |
//! | segments or records, no marker | a corpus | the marker was lost: live, the marker is written again |
//! | a marker with a later merged position | a corpus | it lost a recompression: a segment without file is replaced |
//!
//! A recompression is first in the log, then in the directory, then in the catalog. What the log says of one is done
//! again at every open as long as it says so:
//!
//! | in the log | in the directory | means |
//! |---|---|---|
//! | an added segment | a temporary file of it | interrupted: it gets its name, live |
//! | a replaced segment | a segment | not removed yet: garbage |
//! | a merged position | | nothing before it is replayed, whatever the catalog says |
//!
//! Invariant: nothing that a finished commit made is ever garbage, whatever single file is lost or damaged. This
//! module only decides; it reads headers and markers and changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use crate::catalog::{Corpora, CorpusRecord};
use crate::log::{LogPosition, Scan};
use crate::segment::SegmentHeader;
use crate::store::directory::Listing;
use crate::{Error, Result};

/// What is inside the files of a listing.
pub(crate) trait Facts {
    /// The content of a marker.
    fn marker(&self, id: u64) -> Result<CorpusRecord>;
    /// The content of a tombstone.
    fn tombstone(&self, id: u64) -> Result<CorpusRecord>;
    /// The header of a segment.
    fn header(&self, id: u64) -> Result<SegmentHeader>;
}

/// What is live, and what has to be done about the rest.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Recovered {
    pub(crate) corpora: Corpora,
    /// For the user: what is lost or damaged.
    pub(crate) warnings: Vec<String>,
    /// Where the catalog was behind the files. After a crash that is worth a warning; to a reader it only means that
    /// a writer is at work.
    pub(crate) notes: Vec<String>,
    /// Live corpora whose marker has to be written again.
    pub(crate) unmarked: Vec<u64>,
    /// Segments to remove.
    pub(crate) garbage: BTreeSet<u64>,
    /// Temporary files to remove.
    pub(crate) temporary: BTreeSet<String>,
    /// Tombstones to remove once the garbage is gone for good.
    pub(crate) tombstones: BTreeSet<u64>,
    /// Segments that could not be placed, to set aside.
    pub(crate) aside: BTreeSet<u64>,
    /// Live segments that have their temporary names yet.
    pub(crate) unplaced: BTreeSet<u64>,
    /// A live segment is missing.
    pub(crate) incomplete: bool,
    /// Garbage is left where it is.
    pub(crate) left: bool,
}

/// What to do about a recompression that has not given all segments their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unfinished {
    /// The writer that began it is gone.
    Finish,
    /// As if it had not begun: all that it replaces is there, with the same content.
    Hide,
}

/// Compares the catalog with the files and the log. `None` for the catalog means that it has to be rebuilt.
///
/// Reads only markers and segments that the catalog does not know. An error is one of the operating system or a file
/// of a later version; damage is a warning.
pub(crate) fn recover(
    catalog: Option<&Corpora>,
    listing: &Listing,
    log: &Scan,
    unfinished: Unfinished,
    facts: &dyn Facts,
) -> Result<Recovered> {
    let rebuilt = catalog.is_none();
    let nothing = Corpora::new();
    let catalog = catalog.unwrap_or(&nothing);
    let logged: BTreeSet<u64> = (log.files.iter())
        .flat_map(|file| file.corpora.keys().copied())
        .collect();
    let mut recovered = Recovered::default();

    let marked = recovered.take_marked(catalog, rebuilt, listing, facts)?;
    recovered.take_unmarked(catalog, listing, &logged);
    let dropped = recovered.bury(catalog, listing, facts)?;
    let mut known = recovered.replace(listing, log, unfinished);
    known.extend(catalog.values().flat_map(|record| &record.segments));
    let unknown = listing.segments.difference(&known).copied().collect();
    let place = Place {
        rebuilt,
        listing,
        log,
        logged: &logged,
        dropped: &dropped,
    };
    recovered.place_unknown(unknown, &place, facts)?;
    recovered.set_merged_positions(log, unfinished, listing);
    for record in recovered.corpora.values() {
        if (marked.get(&record.id)).is_some_and(|marked| *marked < record.merged_position) {
            recovered.unmarked.push(record.id);
        }
    }
    recovered.note_recompressions(catalog);
    recovered.report_missing(listing);
    recovered.report_orphans(&logged, listing);

    if rebuilt && !recovered.aside.is_empty() {
        // Something is wrong beyond the catalog: leave everything for a human to look at.
        recovered.garbage.clear();
        recovered.tombstones.clear();
        recovered.left = true;
    } else {
        recovered.temporary = listing.temporary.clone();
        for id in &recovered.unplaced {
            if let Some(name) = listing.temporary_segment(*id) {
                recovered.temporary.remove(name);
            }
        }
    }
    Ok(recovered)
}

/// What segments that the catalog does not know are placed by.
struct Place<'a> {
    rebuilt: bool,
    listing: &'a Listing,
    log: &'a Scan,
    /// Corpora with records in the log.
    logged: &'a BTreeSet<u64>,
    dropped: &'a [CorpusRecord],
}

impl Recovered {
    /// Corpora that have a marker. Returns the merged positions of the markers.
    fn take_marked(
        &mut self,
        catalog: &Corpora,
        rebuilt: bool,
        listing: &Listing,
        facts: &dyn Facts,
    ) -> Result<BTreeMap<u64, LogPosition>> {
        let mut positions = BTreeMap::new();
        for &id in listing.markers.difference(&listing.tombstones) {
            let marker = self.unless_damaged(facts.marker(id))?;
            if let Some(marker) = &marker {
                positions.insert(id, marker.merged_position);
            }
            match (catalog.get(&id).cloned(), marker) {
                (Some(mut record), Some(marker)) => {
                    if marker.merged_position > record.merged_position {
                        // The catalog has lost a recompression, which the log may not hold any
                        // more.
                        record.merged_position = marker.merged_position;
                        (record.segments).retain(|segment| listing.segments.contains(segment));
                    }
                    self.corpora.insert(id, record);
                }
                (Some(record), None) => {
                    self.unmarked.push(id);
                    self.corpora.insert(id, record);
                }
                (None, Some(marker)) => {
                    if !rebuilt {
                        let name = &marker.name;
                        self.note(format!("corpus `{name}` was not in the catalog: added"));
                    }
                    self.corpora.insert(id, marker);
                }
                (None, None) => {}
            }
        }
        Ok(positions)
    }

    /// Corpora of the catalog that have neither marker nor tombstone.
    fn take_unmarked(&mut self, catalog: &Corpora, listing: &Listing, logged: &BTreeSet<u64>) {
        for (id, record) in catalog {
            if listing.markers.contains(id) || listing.tombstones.contains(id) {
                continue;
            }
            let name = &record.name;
            let has_segment =
                (record.segments.iter()).any(|segment| listing.segments.contains(segment));
            if has_segment || logged.contains(id) {
                self.warn(format!(
                    "corpus `{name}` has lost its marker file: restored"
                ));
                self.unmarked.push(*id);
                self.corpora.insert(*id, record.clone());
            } else {
                self.note(format!(
                    "corpus `{name}` is in the catalog but has no files: taken as dropped"
                ));
            }
        }
    }

    /// Dropped corpora: the segments that the catalog gives them are garbage. Returns their records.
    fn bury(
        &mut self,
        catalog: &Corpora,
        listing: &Listing,
        facts: &dyn Facts,
    ) -> Result<Vec<CorpusRecord>> {
        let mut dropped = Vec::new();
        for &id in &listing.tombstones {
            let record = match catalog.get(&id) {
                Some(record) => Some(record.clone()),
                None => self.unless_damaged(facts.tombstone(id))?,
            };
            let Some(record) = record else { continue };
            let present = record
                .segments
                .iter()
                .filter(|id| listing.segments.contains(id));
            self.garbage.extend(present);
            self.tombstones.insert(id);
            dropped.push(record);
        }
        Ok(dropped)
    }

    /// Applies the recompressions in the log. Returns the segments that are settled with that.
    fn replace(&mut self, listing: &Listing, log: &Scan, unfinished: Unfinished) -> BTreeSet<u64> {
        let mut settled = BTreeSet::new();
        for merge in &log.merges {
            settled.extend(&merge.added);
            if unfinished == Unfinished::Hide && listing.is_unfinished(&merge.added) {
                continue;
            }
            let present = (merge.replaced.iter()).filter(|id| listing.segments.contains(id));
            self.garbage.extend(present);
            settled.extend(&merge.replaced);
            let Some(record) = self.corpora.get_mut(&merge.corpus) else {
                // Dropped, or its marker is lost and its segments are all that is left.
                settled.retain(|id| !merge.added.contains(id));
                continue;
            };
            record.segments.retain(|id| !merge.replaced.contains(id));
            record.segments.extend(&merge.added);
            record.segments.sort_unstable();
            record.segments.dedup();
            for &id in &merge.added {
                if listing.temporary_segment(id).is_some() {
                    self.unplaced.insert(id);
                }
            }
        }
        settled
    }

    /// The log knows what is merged, even if neither catalog nor marker does.
    fn set_merged_positions(&mut self, log: &Scan, unfinished: Unfinished, listing: &Listing) {
        for merge in &log.merges {
            if unfinished == Unfinished::Hide && listing.is_unfinished(&merge.added) {
                continue;
            }
            if let Some(record) = self.corpora.get_mut(&merge.corpus) {
                record.merged_position = record.merged_position.max(merge.position);
            }
        }
    }

    fn note_recompressions(&mut self, catalog: &Corpora) {
        let mut notes = Vec::new();
        for (id, record) in &self.corpora {
            let is_behind = |known: &CorpusRecord| {
                known.merged_position < record.merged_position
                    || known
                        .segments
                        .iter()
                        .any(|id| !record.segments.contains(id))
            };
            if catalog.get(id).is_some_and(is_behind) {
                notes.push(format!(
                    "a recompression of corpus `{}` was not in the catalog: added",
                    record.name
                ));
            }
        }
        self.notes.extend(notes);
    }

    /// Segments that the catalog does not know, one publication at a time.
    fn place_unknown(
        &mut self,
        unknown: BTreeSet<u64>,
        place: &Place<'_>,
        facts: &dyn Facts,
    ) -> Result<()> {
        let mut publications = BTreeMap::<u64, Vec<SegmentHeader>>::new();
        for id in unknown {
            match self.unless_damaged(facts.header(id))? {
                Some(header) => publications
                    .entry(header.publication)
                    .or_default()
                    .push(header),
                None => drop(self.aside.insert(id)),
            }
        }
        for (publication, mut headers) in publications {
            headers.sort_by_key(|header| header.publication_index);
            let name = headers[0].corpus.clone();
            let ids = headers.iter().map(|header| header.segment_id);
            let owner = self
                .corpora
                .values()
                .chain(place.dropped)
                .filter(|record| record.name == name && record.id < publication)
                .map(|record| record.id)
                .max();
            if owner.is_some_and(|id| !self.corpora.contains_key(&id)) {
                self.garbage.extend(ids);
                continue;
            }
            if !is_complete(&headers) {
                if place.rebuilt {
                    self.aside.extend(ids);
                    self.warn(format!(
                        "publication {publication} of corpus `{name}` is incomplete: its {} segments are set aside",
                        headers.len()
                    ));
                } else {
                    self.garbage.extend(ids);
                }
                continue;
            }
            if !place.rebuilt {
                self.note(format!(
                    "publication {publication} of corpus `{name}` ({} segments) was not in the catalog: added",
                    headers.len()
                ));
            }
            let owner = match owner {
                Some(owner) => owner,
                None => self.corpus_of_header(&headers[0], place),
            };
            let record = self
                .corpora
                .get_mut(&owner)
                .expect("found or just inserted");
            record.segments.extend(ids);
            record.segments.sort_unstable();
        }
        Ok(())
    }

    /// A corpus that only its segments know of, and the log by its number.
    fn corpus_of_header(&mut self, header: &SegmentHeader, place: &Place<'_>) -> u64 {
        let is_free = |id: &u64| {
            *id < header.publication
                && !self.corpora.contains_key(id)
                && !place.listing.tombstones.contains(id)
        };
        let merge = (place.log.merges.iter())
            .find(|merge| merge.publication == header.publication && is_free(&merge.corpus));
        let mut orphans = place.logged.iter().copied().filter(is_free);
        let id = match (merge, orphans.next(), orphans.next()) {
            (Some(merge), ..) => merge.corpus,
            (None, Some(orphan), None) => orphan,
            _ => (0..header.publication)
                .rev()
                .find(|id| is_free(id) && !place.logged.contains(id))
                .unwrap_or(0),
        };
        self.warn(format!(
            "corpus `{}` has lost its marker file: restored from its segments",
            header.corpus
        ));
        self.unmarked.push(id);
        let record = CorpusRecord {
            id,
            name: header.corpus.clone(),
            settings: header.settings.clone(),
            merged_position: LogPosition::START,
            segments: Vec::new(),
        };
        self.corpora.insert(id, record);
        id
    }

    fn report_missing(&mut self, listing: &Listing) {
        let mut warnings = Vec::new();
        for record in self.corpora.values() {
            for id in record
                .segments
                .iter()
                .filter(|id| !listing.segments.contains(id) && !self.unplaced.contains(id))
            {
                warnings.push(format!(
                    "segment {id} of corpus `{}` is missing: the corpus cannot be read",
                    record.name
                ));
            }
        }
        self.incomplete = !warnings.is_empty();
        self.warnings.extend(warnings);
    }

    /// Corpora of which nothing but records is left. The log keeps them.
    fn report_orphans(&mut self, logged: &BTreeSet<u64>, listing: &Listing) {
        for id in logged {
            if !self.corpora.contains_key(id) && !listing.tombstones.contains(id) {
                self.warn(format!(
                    "the record log has changes to corpus {id}, of which nothing else is left: they cannot be read"
                ));
            }
        }
    }

    fn warn(&mut self, warning: String) {
        self.warnings.push(warning);
    }

    fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    /// What was read, or `None` and a warning if the file is damaged.
    fn unless_damaged<T>(&mut self, read: Result<T>) -> Result<Option<T>> {
        match read {
            Ok(value) => Ok(Some(value)),
            Err(error @ (Error::Io { .. } | Error::Version { .. })) => Err(error),
            Err(error) => {
                self.warn(error.to_string());
                Ok(None)
            }
        }
    }
}

/// Whether these headers, in order of index, are all of one publication.
fn is_complete(headers: &[SegmentHeader]) -> bool {
    let last = headers.len() - 1;
    headers.iter().enumerate().all(|(index, header)| {
        header.publication_index as usize == index
            && header.publication_last == (index == last)
            && header.corpus == headers[0].corpus
    })
}

#[cfg(test)]
mod tests;
