//! Garbage collection: removes versions that were replaced longer ago than a grace time, and objects that no version names.
//!
//! Invariant: the newest version and all it names stays, as does each that was replaced less than the grace time ago, and
//! what a publication that is going on has written. Objects are listed before publications, and these before versions: what
//! becomes needed between two lists is in the later one, or was written later than the first. A publication that is taken
//! for dead can succeed no more: another version was published after the one it follows. Names of objects are never used
//! twice.

use std::collections::HashSet;
use std::time::{Duration, SystemTime};

use object_store::ObjectMeta;
use uuid::Uuid;

use crate::Result;
use crate::store::{OBJECTS, PUBLISHING, RemoteStore, for_each, version_name};

/// Objects that are removed at once.
const REMOVED_AT_ONCE: usize = 16;

/// What was collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collected {
    /// Versions that are gone.
    pub versions: usize,
    /// Objects with contents of files that are gone.
    pub objects: usize,
    /// Their bytes.
    pub bytes: u64,
}

impl RemoteStore {
    /// Removes versions that were replaced more than `grace` ago, and objects that no version names any more. A reader that has opened a
    /// version can go on reading it for the grace time after it was replaced; later its queries fail. A publication is taken for dead if
    /// it has said nothing for the grace time: an hour is short, a day is plenty. Times are compared with the clock of this
    /// machine.
    ///
    /// # Errors
    /// [`crate::Error::Store`], [`crate::Error::TimedOut`], [`crate::Error::Corrupt`].
    pub fn collect(&self, grace: Duration) -> Result<Collected> {
        let now = SystemTime::now();
        let is_old = |time: SystemTime| now.duration_since(time).is_ok_and(|age| age >= grace);
        let objects = self.list(OBJECTS)?;
        let (dead, mut living): (Vec<_>, Vec<_>) = (self.list(PUBLISHING)?.into_iter())
            .partition(|(_, meta)| is_old(meta.last_modified.into()));
        if !dead.is_empty() {
            if self.fence()? {
                dead.iter()
                    .try_for_each(|(name, _)| self.remove(&format!("{PUBLISHING}/{name}")))?
            } else {
                living.extend(dead)
            }
        }
        let versions = self.version_objects()?;
        // One is replaced when the next is published.
        let replaced = versions.iter().zip(versions.iter().skip(1));
        let gone: HashSet<u64> = replaced
            .filter(|(_, (_, next))| is_old(next.last_modified.into()))
            .map(|((number, _), _)| *number)
            .collect();
        let mut needed: HashSet<String> = HashSet::new();
        for (number, _) in versions.iter().filter(|(number, _)| !gone.contains(number)) {
            // Another collection may be removing it.
            if let Some(version) = self.version(*number)? {
                needed.extend(version.files.into_iter().map(|file| file.object));
            }
        }
        for number in &gone {
            self.remove(&version_name(*number))?;
        }
        let of_living = |object: &str| {
            let publication = object.split_once('-').map(|(publication, _)| publication);
            living
                .iter()
                .any(|(name, _)| publication == Some(&name[..]))
        };
        let unneeded: Vec<(String, ObjectMeta)> = (objects.into_iter())
            .filter(|(name, _)| !needed.contains(name) && !of_living(name))
            .collect();
        for_each(&unneeded, REMOVED_AT_ONCE, |(name, _)| {
            self.remove(&format!("{OBJECTS}/{name}"))
        })?;
        Ok(Collected {
            versions: gone.len(),
            objects: unneeded.len(),
            bytes: unneeded.iter().map(|(_, meta)| meta.size).sum(),
        })
    }

    /// Publishes a version with the files of the newest one. Publications that were to follow the newest one fail from then on.
    /// False if there is no version, or another publication was faster.
    fn fence(&self) -> Result<bool> {
        let Some(newest) = self.newest()? else {
            return Ok(false);
        };
        self.create_version(&newest.repeated(Uuid::new_v4().simple().to_string()))
    }
}
