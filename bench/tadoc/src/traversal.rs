//! The two directions of a traversal, over whatever bodies hold: words, or sequences by number.
//!
//! Top-down, what is known of a body (how often it occurs, in which files) goes to the bodies that it uses; bottom-up, what a
//! body holds (items with counts) goes to those that use it. Both give the same answers. A body is a file's part of the root, or
//! a rule; users come first.

use crate::rows::{CountedRows, Rows};

/// A direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traversal {
    /// From files to rules: little to do for few files.
    TopDown,
    /// From rules to files: nothing is known by file until the end.
    BottomUp,
}

/// Files at least and words a file at most for which tasks by file go bottom-up. They are not fitted to the corpora:
/// with flat tables bottom-up takes 0.5 to 1.0 of the time of top-down for 15 and for 2,265 large files too.
const FILES_MANY: usize = 800;
const FILE_WORDS_FEW: usize = 2860;

impl Traversal {
    /// The direction of tasks by file, chosen by number and mean size of files as in PVLDB 2018: lists of files grow with the
    /// number of files, tables of words with the size of files.
    pub fn choose(files: usize, words: usize) -> Traversal {
        if files >= FILES_MANY && words / files.max(1) <= FILE_WORDS_FEW {
            Traversal::BottomUp
        } else {
            Traversal::TopDown
        }
    }
}

/// Which bodies bodies use; those of files come first.
pub struct Uses<'a> {
    pub files: usize,
    pub children: &'a Rows,
}

/// How often each item occurs: weights go down.
pub fn counts_top_down(uses: &Uses<'_>, items: &Rows, item_count: usize) -> Vec<u64> {
    let mut weights = vec![0u64; uses.children.len()];
    weights[..uses.files].fill(1);
    let mut counts = vec![0; item_count];
    for body in 0..weights.len() {
        let weight = weights[body];
        for &child in uses.children.row(body) {
            weights[child as usize] += weight;
        }
        for &item in items.row(body) {
            counts[item as usize] += weight;
        }
    }
    counts
}

/// How often each item occurs: tables of items go up.
pub fn counts_bottom_up(uses: &Uses<'_>, items: &Rows, item_count: usize) -> Vec<u64> {
    let mut counts = vec![0; item_count];
    for_each_file_table(uses, items, item_count, |_, table| {
        for &(item, count) in table {
            counts[item as usize] += u64::from(count);
        }
    });
    counts
}

/// For each item its files, ascending, with counts: lists of files go down.
pub fn files_top_down(uses: &Uses<'_>, items: &Rows, item_count: usize) -> CountedRows {
    let mut lists: Vec<FileList> = vec![FileList::default(); uses.children.len()];
    for (file, list) in (0..).zip(&mut lists[..uses.files]) {
        list.0.push((file, 1));
    }
    let mut found: Vec<FileList> = vec![FileList::default(); item_count];
    for body in 0..lists.len() {
        let list = std::mem::take(&mut lists[body]).settled();
        for &child in uses.children.row(body) {
            lists[child as usize].add(&list);
        }
        for &item in items.row(body) {
            found[item as usize].add(&list);
        }
    }
    CountedRows::of_rows(found.into_iter().map(FileList::settled).collect())
}

/// For each file its items, ascending, with counts: tables of items go up.
pub fn items_bottom_up(uses: &Uses<'_>, items: &Rows, item_count: usize) -> CountedRows {
    let mut files = vec![Vec::new(); uses.files];
    for_each_file_table(uses, items, item_count, |file, table| {
        let mut row = table.to_vec();
        row.sort_unstable_by_key(|&(item, _)| item);
        files[file] = row;
    });
    CountedRows::of_rows(files)
}

/// Calls `take` for each file, the last first, with its items and their counts in any order.
///
/// A table lives until the last body that uses it is done.
fn for_each_file_table(
    uses: &Uses<'_>,
    items: &Rows,
    item_count: usize,
    mut take: impl FnMut(usize, &[(u32, u32)]),
) {
    let bodies = uses.children.len();
    let mut users = vec![0u32; bodies];
    for body in 0..bodies {
        for &child in uses.children.row(body) {
            users[child as usize] += 1;
        }
    }
    let mut tables: Vec<Vec<(u32, u32)>> = vec![Vec::new(); bodies];
    // 0 between bodies.
    let mut counts = vec![0u32; item_count];
    let mut seen = Vec::new();
    for body in (0..bodies).rev() {
        let mut add = |item: u32, count: u32| {
            let sum = &mut counts[item as usize];
            if *sum == 0 {
                seen.push(item);
            }
            *sum += count;
        };
        for &item in items.row(body) {
            add(item, 1);
        }
        for &child in uses.children.row(body) {
            for &(item, count) in &tables[child as usize] {
                add(item, count);
            }
            users[child as usize] -= 1;
            if users[child as usize] == 0 {
                tables[child as usize] = Vec::new();
            }
        }
        let drain = |item| (item, std::mem::take(&mut counts[item as usize]));
        tables[body] = seen.drain(..).map(drain).collect();
        if body < uses.files {
            take(body, &std::mem::take(&mut tables[body]));
        }
    }
}

/// Files with counts, some of them more than once until it is settled.
#[derive(Clone, Default)]
struct FileList(Vec<(u32, u32)>);

impl FileList {
    fn add(&mut self, more: &[(u32, u32)]) {
        let list = &mut self.0;
        if let ([(file, count)], Some((last, sum))) = (more, list.last_mut())
            && file == last
        {
            *sum += count;
            return;
        }
        if !list.is_empty() && list.len() + more.len() > list.capacity() {
            settle(list);
            // So that settling is paid by what came since.
            list.reserve(list.len() + more.len());
        }
        list.extend_from_slice(more);
    }

    /// The files in order, each once.
    fn settled(mut self) -> Vec<(u32, u32)> {
        settle(&mut self.0);
        self.0
    }
}

fn settle(list: &mut Vec<(u32, u32)>) {
    if list.is_sorted_by(|a, b| a.0 < b.0) {
        return;
    }
    list.sort_unstable_by_key(|&(file, _)| file);
    list.dedup_by(|next, kept| {
        let is_same = next.0 == kept.0;
        kept.1 += if is_same { next.1 } else { 0 };
        is_same
    });
}
