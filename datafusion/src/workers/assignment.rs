//! The assignment of segments to workers.
//!
//! Rendezvous hashing with bounded loads: each partition has an order of workers of its own, by a hash of both, and goes to
//! the first that has room. So a partition meets the same worker, and its warm cache, from query to query, and few move when a worker
//! comes or goes. Sources: Thaler and Ravishankar, "Using Name-Based Mappings to Increase Hit Rates", 1998; Mirrokni et al.,
//! "Consistent Hashing with Bounded Loads", SODA 2018.
//!
//! Invariant: each partition has one worker, and none more bytes than it must have or a quarter above the average.

use std::hash::{DefaultHasher, Hash, Hasher};

use zipfdb::storage::Partition;

/// Workers by their places, the one that answers for `key` first.
pub(super) fn preference(addresses: &[String], key: u64) -> Vec<usize> {
    let weight = |worker: &usize| {
        let mut hasher = DefaultHasher::new();
        (&addresses[*worker], key).hash(&mut hasher);
        hasher.finish()
    };
    let mut order: Vec<usize> = (0..addresses.len()).collect();
    order.sort_by_cached_key(weight);
    order
}

/// For each worker what it answers for; `is_out` says which get nothing, unless all are.
pub(super) fn assign(
    partitions: &[Partition],
    addresses: &[String],
    is_out: &[bool],
) -> Vec<Vec<Partition>> {
    let are_all_out = is_out.iter().all(|is_out| *is_out);
    let is_in = |worker: &usize| are_all_out || !is_out[*worker];
    let count = (0..addresses.len()).filter(is_in).count().max(1) as u64;
    let bytes: u64 = partitions.iter().map(|partition| partition.bytes).sum();
    let room = bytes / count + bytes / count / 4;
    let mut assigned = vec![Vec::new(); addresses.len()];
    let mut loads = vec![0; addresses.len()];
    // The largest first, so that the small ones fill what is left.
    let mut order: Vec<&Partition> = partitions.iter().collect();
    order.sort_by_key(|partition| (u64::MAX - partition.bytes, &partition.segments));
    for partition in order {
        let key = partition.segments.first().copied().unwrap_or(0);
        let workers: Vec<usize> = (preference(addresses, key).into_iter())
            .filter(is_in)
            .collect();
        let fits = |worker: &&usize| loads[**worker] + partition.bytes <= room;
        let least = || workers.iter().min_by_key(|worker| loads[**worker]);
        if let Some(&worker) = workers.iter().find(fits).or_else(least) {
            loads[worker] += partition.bytes;
            assigned[worker].push(partition.clone());
        }
    }
    assigned
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use zipfdb::{CorpusSettings, Database};

    fn addresses(count: usize) -> Vec<String> {
        (0..count).map(|worker| format!("host{worker}:1")).collect()
    }

    /// A partition for each number of bytes, which has one segment.
    fn partitions(bytes: &[u64]) -> Vec<Partition> {
        let database = Database::in_memory().unwrap();
        let corpus = database.create_corpus("c", CorpusSettings::default());
        let corpus = corpus.unwrap();
        corpus.append_many(&[("a", "b")]).unwrap();
        database.execute_batch("RECOMPRESS c").unwrap();
        let any = corpus.snapshot().unwrap().partitions().unwrap().remove(0);
        let numbered = bytes.iter().enumerate();
        numbered
            .map(|(number, &bytes)| {
                let mut partition = any.clone();
                partition.segments = vec![number as u64];
                partition.bytes = bytes;
                partition
            })
            .collect()
    }

    fn places(assigned: &[Vec<Partition>]) -> Vec<(u64, usize)> {
        let workers = assigned.iter().enumerate();
        let mut places: Vec<(u64, usize)> = workers
            .flat_map(|(worker, partitions)| {
                let segments = partitions.iter().map(|partition| partition.segments[0]);
                segments.map(move |segment| (segment, worker))
            })
            .collect();
        places.sort_unstable();
        places
    }

    #[test]
    fn loads_are_even_and_few_partitions_move() {
        let partitions = partitions(&[100; 64]);
        let before = assign(&partitions, &addresses(4), &[false; 4]);
        assert_eq!(places(&before).len(), 64);
        assert!(before.iter().all(|worker| worker.len() <= 20));
        assert_eq!(before, assign(&partitions, &addresses(4), &[false; 4]));
        // Without the second worker its partitions move, and a few of the others.
        let after = assign(&partitions, &addresses(4), &[false, true, false, false]);
        assert!(after[1].is_empty());
        assert!(after.iter().all(|worker| worker.len() <= 27));
        let moved = places(&before).into_iter().zip(places(&after));
        let moved = moved.filter(|(before, after)| before != after && before.1 != 1);
        assert!(moved.count() <= 16);
    }

    #[test]
    fn one_large_partition_and_no_healthy_worker_are_assigned_too() {
        let assigned = assign(&partitions(&[1000, 1, 1]), &addresses(2), &[false; 2]);
        assert_eq!(places(&assigned).len(), 3);
        assert!(assigned.iter().any(|worker| worker.len() == 2));
        let assigned = assign(&partitions(&[5, 5]), &addresses(2), &[true; 2]);
        assert_eq!(places(&assigned).len(), 2);
        assert!(assign(&[], &addresses(2), &[false; 2]).concat().is_empty());
    }
}
