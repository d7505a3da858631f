//! Other programs that move, replace, remove, restore and touch the directory of a database while processes write to it.
//!
//! The invariant: what was acknowledged is in the directory that was written to, wherever that is now; what has its path then is as
//! it was put there; a writer whose directory is another one acknowledges nothing more, and one whose directory is the same goes
//! on; a reader shows states of the database that it opened, or says that its path leads elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::process::{Pid, Signal, kill_process};
use zipfdb::Database;

use crate::campaign::{Campaign, Outcome, Trial, copy_anew, ensure};
use crate::child::{Ended, Running, command, fingerprint, run};
use crate::kill::reopen;
use zipfdb_test_model::killed::{check_commits, random_changes};
use zipfdb_test_model::{Change, State, observe, possible};
use zipfdb_test_support::harness::{Random, contents, copy_directory};

/// Acts on one directory in a row.
const CHAIN: usize = 8;

/// Most time that a process takes to stop or to end.
const LIMIT: Duration = Duration::from_secs(60);

/// Most time that lines of a stopped process take to arrive.
const LINES_TIME: Duration = Duration::from_millis(100);

pub fn attack(campaign: &mut Campaign) {
    campaign.run("changes", campaign.share(30), |trial| {
        changes(trial, "alone")
    });
    campaign.run("shared changes", campaign.share(30), |trial| {
        changes(trial, "shared")
    });
    campaign.run("threads", campaign.share(15), |trial| {
        commits(trial, &["alone"])
    });
    campaign.run("processes", campaign.share(15), |trial| {
        commits(trial, &["shared"; 2])
    });
    campaign.run("restore", campaign.share(10), restores);
}

/// What another program does.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Act {
    /// The directory gets another name.
    Move,
    /// The database is moved, and another one moved to its path.
    Replace,
    /// Both change their names in one step.
    Exchange,
    Remove,
    /// The database is removed, and another one copied to its path.
    MakeAnew,
    /// The database is removed, and an older copy of it copied to its path.
    CopyBack,
    /// The files of an older copy are copied over those that are there, and others removed.
    Restore,
    /// `LOCK` is removed, and another writer comes.
    RemoveLock,
    /// Another file is moved to its name.
    ReplaceLock,
    /// The directory is moved, and back a moment later.
    MoveAndBack,
    /// Files and directories get other rights.
    Rights,
    /// Files get other times.
    Times,
    /// A copy is made whose files are links.
    Link,
    /// A copy is made.
    Copy,
    /// What is in `LOCK` is written over.
    OverwriteLock,
}

use Act::*;

/// Acts that end a process which has the lock all the time.
const STOPPING: [Act; 9] = [
    Move,
    Replace,
    Exchange,
    Remove,
    MakeAnew,
    CopyBack,
    Restore,
    RemoveLock,
    ReplaceLock,
];

/// Acts that take nothing away.
const HARMLESS: [Act; 5] = [Rights, Times, Link, Copy, OverwriteLock];

impl Act {
    /// Whether processes that have the directory open must not acknowledge anything more.
    fn must_stop(self, is_shared: bool) -> bool {
        // One that gives the lock back may take it in another file the next time, and reads what is there then.
        let is_of_files = matches!(self, RemoveLock | ReplaceLock | Restore);
        STOPPING.contains(&self) && !(is_shared && is_of_files)
    }

    fn is_harmless(self) -> bool {
        HARMLESS.contains(&self)
    }

    /// Whether the directory has its path afterwards.
    fn keeps_place(self) -> bool {
        !matches!(
            self,
            Move | Replace | Exchange | Remove | MakeAnew | CopyBack
        )
    }

    fn name(self) -> &'static str {
        match self {
            Move => "moved",
            Replace => "replaced",
            Exchange => "exchanged",
            Remove => "removed",
            MakeAnew => "made anew",
            CopyBack => "copied back",
            Restore => "restored",
            RemoveLock => "lock removed",
            ReplaceLock => "lock replaced",
            MoveAndBack => "there and back",
            Rights => "rights",
            Times => "times",
            Link => "linked",
            Copy => "copied",
            OverwriteLock => "lock overwritten",
        }
    }
}

/// The directories of a chain.
struct Folder<'a> {
    trial: &'a Trial,
    /// What the other database holds.
    other: State,
}

impl Folder<'_> {
    fn new(trial: &Trial) -> Outcome<Folder<'_>> {
        let folder = Folder {
            trial,
            other: State::new(),
        };
        let database = Database::options().threads(1).open(folder.pristine());
        let database = database.map_err(|error| error.to_string())?;
        for change in random_changes(trial.seed ^ 1, 12) {
            let done = change.perform(&database, trial.folder.path());
            done.map_err(|error| error.to_string())?;
        }
        let other = observe(&database).map_err(|error| error.to_string())?;
        Ok(Folder { other, ..folder })
    }

    /// The database that is written to.
    fn path(&self) -> PathBuf {
        self.trial.path("d.zdb")
    }

    /// Where it is after it was moved.
    fn moved(&self) -> PathBuf {
        self.trial.path("moved.zdb")
    }

    /// Another database, to be moved.
    fn other(&self) -> PathBuf {
        self.trial.path("other.zdb")
    }

    /// A copy of it, which stays.
    fn pristine(&self) -> PathBuf {
        self.trial.path("pristine.zdb")
    }

    /// An older copy of the database.
    fn backup(&self) -> PathBuf {
        self.trial.path("backup.zdb")
    }

    fn act(&self, act: Act, random: &mut Random) -> io::Result<()> {
        let path = self.path();
        let lock = path.join("LOCK");
        match act {
            Move => fs::rename(&path, self.moved()),
            Replace => {
                fs::rename(&path, self.moved())?;
                fs::rename(self.other(), &path)
            }
            Exchange => {
                renameat_with(CWD, &path, CWD, self.other(), RenameFlags::EXCHANGE)?;
                fs::rename(self.other(), self.moved())
            }
            Remove => remove(&path),
            MakeAnew => {
                remove(&path)?;
                copy_directory(&self.pristine(), &path);
                Ok(())
            }
            CopyBack => {
                remove(&path)?;
                copy_directory(&self.backup(), &path);
                Ok(())
            }
            Restore => restore(&self.backup(), &path),
            RemoveLock => fs::remove_file(&lock),
            ReplaceLock => {
                let copy = self.trial.path("LOCK");
                fs::write(&copy, "0000000000\n")?;
                fs::rename(&copy, &lock)
            }
            MoveAndBack => {
                fs::rename(&path, self.moved())?;
                std::thread::sleep(Duration::from_micros(random.below(3_000) as u64));
                fs::rename(self.moved(), &path)
            }
            Rights => {
                let mut change = |file: &Path| {
                    let mode =
                        if file.is_dir() { 0o700 } else { 0o600 } | random.below(0o100) as u32;
                    fs::set_permissions(file, fs::Permissions::from_mode(mode))
                };
                each(&path, &mut change)
            }
            Times => {
                let time =
                    SystemTime::UNIX_EPOCH + Duration::from_secs(random.below(1 << 30) as u64);
                each(&path, &mut |file| fs::File::open(file)?.set_modified(time))
            }
            Link => {
                let links = self.trial.path("links");
                let _ = fs::remove_dir_all(&links);
                fs::create_dir(&links)?;
                let mut number = 0;
                each(&path, &mut |file| {
                    number += 1;
                    if file.is_file() {
                        fs::hard_link(file, links.join(number.to_string()))?;
                    }
                    Ok(())
                })
            }
            Copy => {
                let copy = self.trial.path("copy.zdb");
                let _ = fs::remove_dir_all(&copy);
                fs::create_dir(&copy)?;
                let mut number = 0;
                each(&path, &mut |file| {
                    number += 1;
                    if file.is_file() {
                        fs::copy(file, copy.join(number.to_string()))?;
                    }
                    Ok(())
                })
            }
            OverwriteLock => fs::write(&lock, "0000000001\n"),
        }
    }

    /// What has the path of the database must be as it was put there.
    fn check_untouched(&self, source: &Path) -> Outcome {
        let files = |top: &Path| -> BTreeMap<PathBuf, Vec<u8>> {
            let files = contents(top).into_iter();
            let files =
                files.map(|(path, bytes)| (path.strip_prefix(top).unwrap().to_owned(), bytes));
            files
                .filter(|(path, _)| path != Path::new("LOCK"))
                .collect()
        };
        let (found, expected) = (files(&self.path()), files(source));
        ensure(found == expected, || {
            let names =
                |files: &BTreeMap<PathBuf, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
            format!(
                "a database was touched that another one was written beside: {:?} {:?}",
                names(&found),
                names(&expected)
            )
        })
    }

    /// Whether there is a copy of the database from before some change.
    fn has_older(&self) -> bool {
        let manifest = |path: PathBuf| fs::read(path.join("MANIFEST")).ok();
        let older = manifest(self.backup());
        older.is_some() && older != manifest(self.path())
    }

    /// The database has its path again.
    fn put_back(&self) -> Outcome {
        let _ = fs::remove_dir_all(self.path());
        fs::rename(self.moved(), self.path()).map_err(|error| error.to_string())
    }
}

/// Calls `act` for a directory and all that is in it. What a writer has removed meanwhile is left out.
fn each(path: &Path, act: &mut dyn FnMut(&Path) -> io::Result<()>) -> io::Result<()> {
    let unless_gone = |result: io::Result<()>| match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    };
    unless_gone(act(path))?;
    if path.is_dir() {
        for entry in fs::read_dir(path)? {
            unless_gone(each(&entry?.path(), act))?;
        }
    }
    Ok(())
}

/// Removes a directory that a process may be adding files to.
fn remove(path: &Path) -> io::Result<()> {
    let begun = Instant::now();
    loop {
        match fs::remove_dir_all(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if begun.elapsed() > LIMIT => return Err(error),
            Err(_) => {}
            Ok(()) => return Ok(()),
        }
    }
}

/// Makes the files of a directory those of another, in place.
fn restore(source: &Path, target: &Path) -> io::Result<()> {
    for entry in fs::read_dir(target)? {
        let target = entry?.path();
        if source.join(target.file_name().unwrap()).exists() {
            continue;
        }
        if target.is_dir() {
            fs::remove_dir_all(target)?;
        } else {
            fs::remove_file(target)?;
        }
    }
    for entry in fs::read_dir(source)? {
        let source = entry?.path();
        let target = target.join(source.file_name().unwrap());
        if source.is_dir() {
            let _ = fs::create_dir(&target);
            restore(&source, &target)?;
        } else {
            fs::copy(&source, &target)?;
        }
    }
    Ok(())
}

/// Stops processes, or lets them go on, and waits until they have.
fn signal<'a>(processes: impl Iterator<Item = &'a Running>, signal: Signal) -> Outcome {
    let begun = Instant::now();
    for process in processes {
        let number = process.child.id();
        let pid = Pid::from_raw(number as i32).unwrap();
        kill_process(pid, signal).map_err(|error| error.to_string())?;
        let is_stopped = || {
            let Ok(threads) = fs::read_dir(format!("/proc/{number}/task")) else {
                return true; // it has ended
            };
            threads.flatten().all(|thread| {
                let status = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
                // Behind the name, which may hold anything.
                let state = status
                    .rsplit(')')
                    .next()
                    .and_then(|rest| rest.trim().chars().next());
                matches!(state, None | Some('T' | 't' | 'Z' | 'X'))
            })
        };
        while signal == Signal::STOP && !is_stopped() {
            ensure(begun.elapsed() < LIMIT, || "it does not stop".to_owned())?;
            std::thread::sleep(Duration::from_micros(200));
        }
    }
    Ok(())
}

/// Starts processes and waits until they have opened the database.
fn start(arguments: &[Vec<String>]) -> Outcome<Vec<Running>> {
    let processes = arguments.iter().map(|arguments| {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        Running::start(command(&arguments))
    });
    let processes: Vec<Running> = processes.collect();
    let begun = Instant::now();
    let is_open = |process: &Running| {
        let seen = process.seen();
        seen.lines()
            .any(|line| line == "open" || line.starts_with("refused "))
    };
    while !processes.iter().all(is_open) && begun.elapsed() < LIMIT {
        std::thread::sleep(Duration::from_micros(500));
    }
    Ok(processes)
}

/// The outcome of processes that were acted beside.
struct Acted {
    ended: Vec<Ended>,
    /// Lines of each up to the moment of the act, if the processes were stopped for it.
    before: Option<Vec<usize>>,
}

/// Waits a moment, acts beside processes that write, and waits for their end, or kills them.
fn act_beside(
    folder: &Folder<'_>,
    act: Act,
    processes: Vec<Running>,
    reader: Option<&Running>,
    is_shared: bool,
    random: &mut Random,
) -> Outcome<Acted> {
    let pause = |random: &mut Random| Duration::from_micros(random.below(60_000) as u64);
    std::thread::sleep(pause(random));
    // No system restores a directory in one step: what is written or read meanwhile is in neither state.
    let is_stopped = act == Restore || (act != MoveAndBack && random.below(2) == 0);
    let all = || processes.iter().chain(reader);
    if is_stopped {
        signal(all(), Signal::STOP)?;
    }
    let acted = folder.act(act, random);
    let mut before = None;
    if is_stopped {
        if act.must_stop(is_shared) || act == Restore {
            std::thread::sleep(LINES_TIME);
        }
        let second = (act == RemoveLock && !is_shared).then(|| {
            let path = folder.path();
            run(&["committers-beside", "alone", path.to_str().unwrap(), "0"])
        });
        let lines = |process: &Running| process.seen().lines().count();
        before = Some(processes.iter().map(lines).collect());
        signal(all(), Signal::CONT)?;
        if let Some(second) = second {
            second.is_clean()?;
            let is_refused = second.output.starts_with("refused ");
            ensure(is_refused, || format!("a second writer: {}", second.output))?;
        }
    }
    acted.map_err(|error| format!("{act:?}: {error}"))?;
    let is_killed = !act.must_stop(is_shared);
    if is_killed {
        std::thread::sleep(pause(random));
    }
    let mut ended = Vec::new();
    for mut process in processes {
        if is_killed {
            let _ = process.child.kill();
        }
        let process = process.end();
        if !is_killed {
            process
                .is_clean()
                .map_err(|problem| format!("{act:?}: {problem}"))?;
            let is_refused = process.lines("refused").next().is_some();
            ensure(is_refused, || format!("{act:?}: it was not refused"))?;
        }
        ensure(process.complaints.is_empty(), || process.complaints.clone())?;
        ensure(!process.has("changed after an error"), || {
            let refused: Vec<&str> = process.lines("refused").collect();
            format!("{act:?}: a change was made after an error: {refused:?}")
        })?;
        if act.is_harmless() {
            let refused: Vec<&str> = process.lines("refused").collect();
            ensure(refused.is_empty(), || format!("{act:?}: {refused:?}"))?;
        }
        ended.push(process);
    }
    Ok(Acted { ended, before })
}

/// A reader that shares the database.
struct Reader(Running);

impl Reader {
    fn start(path: &Path) -> Reader {
        Reader(Running::reader("reader-beside", path))
    }

    /// What it saw of each corpus must be of one of `states`.
    fn end(self, states: &[State]) -> Outcome {
        let ended = self.0.end_reader()?;
        let corpora = states.iter().flatten();
        let known: BTreeSet<String> = corpora
            .map(|(name, texts)| format!("{name} {}", fingerprint(texts)))
            .collect();
        match ended.lines("saw").find(|seen| !known.contains(*seen)) {
            Some(seen) => Err(format!("a reader saw what never was: {seen}")),
            None => Ok(()),
        }
    }
}

/// Changes of all kinds, by a process that shares the database or has it alone.
fn changes(trial: &Trial, way: &str) -> Outcome {
    let mut random = trial.random();
    let is_shared = way == "shared";
    let folder = Folder::new(trial)?;
    let path = folder.path();
    let (mut state, mut older) = (State::new(), State::new());
    for round in 0..CHAIN {
        copy_anew(&folder.pristine(), &folder.other());
        let has_backup = folder.backup().exists();
        if path.exists() && (!has_backup || random.below(2) == 0) {
            copy_anew(&path, &folder.backup());
            older = state.clone();
        }
        let act = loop {
            let act = match random.below(12) {
                0..9 => STOPPING[random.below(STOPPING.len())],
                9 => MoveAndBack,
                _ => HARMLESS[random.below(HARMLESS.len())],
            };
            let needs_backup = matches!(act, Restore | CopyBack) && !folder.has_older();
            // A process that has given the lock back goes on with what was restored: see `restores`.
            let is_possible = !needs_backup && (act != Restore || !is_shared);
            if is_possible {
                break act;
            }
        };
        let seed = trial.seed.wrapping_add(round as u64);
        let top = trial.folder.path().to_str().unwrap();
        let arguments = ["changes-beside", way, &seed.to_string(), top].map(str::to_owned);
        let processes = start(&[arguments.into()])?;
        let reader = (round % 2 == 1 && path.exists()).then(|| Reader::start(&path));
        // One that opens the path later may find another database there, or half of one.
        let begun = Instant::now();
        let is_open = |reader: &Reader| !reader.0.seen().is_empty() || begun.elapsed() > LIMIT;
        while !reader.iter().all(is_open) {
            std::thread::sleep(Duration::from_micros(500));
        }
        let readers = reader.as_ref().map(|reader| &reader.0);
        let acted = act_beside(&folder, act, processes, readers, is_shared, &mut random)?;
        let ended = &acted.ended[0];
        let count =
            |lines: &mut dyn Iterator<Item = &str>| lines.filter(|line| *line == "done").count();
        let done = count(&mut ended.output.lines());
        let mut chance = Random::new(seed);
        let mut reached = state.clone();
        let mut states = vec![state.clone()];
        let mut changes = Vec::new();
        for _ in 0..=done {
            let change = Change::random(&mut chance, &reached);
            change.apply(&mut reached);
            states.push(reached.clone());
            changes.push(change);
        }
        if let (Some(before), true) = (&acted.before, act.must_stop(is_shared)) {
            let before = count(&mut ended.output.lines().take(before[0]));
            // The first one may have been made before. Those that write nothing say nothing of the directory.
            let mut late = changes.iter().take(done).skip(before + 1);
            let is_void =
                |change: &Change| matches!(change, Change::Rollback(_) | Change::Recompress(_));
            ensure(late.all(is_void), || {
                format!("{act:?}: after {before} of {done} in {changes:?}")
            })?;
        }
        if let Some(reader) = reader {
            if act == Restore {
                states.push(older.clone());
            }
            let seen = reader.end(&states);
            seen.map_err(|problem| format!("{act:?}: {problem}"))?;
        }
        if matches!(act, Replace | Exchange | MakeAnew) {
            folder.check_untouched(&folder.pristine())?;
        }
        if act == CopyBack {
            folder.check_untouched(&folder.backup())?;
        }
        if matches!(act, Move | Replace | Exchange) {
            folder.put_back()?;
        }
        let found = match act {
            Remove => State::new(),
            _ => reopen(&path)?,
        };
        let possible = match act {
            Remove => vec![State::new()],
            MakeAnew => vec![folder.other.clone()],
            CopyBack | Restore => vec![older.clone()],
            _ => possible(&state, &changes, done, false),
        };
        ensure(act != Remove || !path.exists(), || {
            "it is there again".to_owned()
        })?;
        ensure(possible.contains(&found), || {
            format!("{act:?} after {done} of {changes:?}: {found:?} is none of {possible:?}")
        })?;
        trial.passed(act.name());
        state = found;
    }
    Ok(())
}

/// Threads of some processes that commit.
fn commits(trial: &Trial, ways: &[&str]) -> Outcome {
    let mut random = trial.random();
    let is_shared = ways[0] == "shared";
    let folder = Folder::new(trial)?;
    let path = folder.path();
    let open = || {
        let database = Database::options().threads(1).open(&path);
        database.map_err(|error| error.to_string())
    };
    let create = Change::Create("plain").perform(&open()?, trial.folder.path());
    create.map_err(|error| error.to_string())?;
    let mut all = Vec::new();
    for _ in 0..CHAIN {
        copy_anew(&folder.pristine(), &folder.other());
        let act = match random.below(8) {
            0 => Move,
            1 => Replace,
            2 => Exchange,
            3 => RemoveLock,
            4 => ReplaceLock,
            5 => MoveAndBack,
            _ => HARMLESS[random.below(HARMLESS.len())],
        };
        let arguments: Vec<Vec<String>> = (ways.iter().enumerate())
            .map(|(process, way)| {
                let path = path.to_str().unwrap();
                ["committers-beside", way, path, &process.to_string()]
                    .map(str::to_owned)
                    .into()
            })
            .collect();
        let processes = start(&arguments)?;
        let acted = act_beside(&folder, act, processes, None, is_shared, &mut random)?;
        if matches!(act, Replace | Exchange) {
            folder.check_untouched(&folder.pristine())?;
        }
        if !act.keeps_place() {
            folder.put_back()?;
        }
        let reported = acted.ended.iter().flat_map(|ended| ended.output.lines());
        let checked = check_commits(&open()?, reported, &all, ways.len());
        all = checked.map_err(|problem| format!("{act:?}: {problem}"))?;
        trial.passed(act.name());
    }
    Ok(())
}

/// Threads of a process that commit to a database that is restored in place.
fn restores(trial: &Trial) -> Outcome {
    let mut random = trial.random();
    let folder = Folder::new(trial)?;
    let path = folder.path();
    let open = || {
        let database = Database::options().threads(1).open(&path);
        database.map_err(|error| error.to_string())
    };
    let create = Change::Create("plain").perform(&open()?, trial.folder.path());
    create.map_err(|error| error.to_string())?;
    for round in 0..CHAIN {
        let is_shared = round % 2 == 1;
        let way = if is_shared { "shared" } else { "alone" };
        let arguments = ["committers-beside", way, path.to_str().unwrap(), "0"].map(str::to_owned);
        let arguments = [arguments.into()];
        // Some commits that the copy has, and some that it lacks.
        for _ in 0..2 {
            copy_anew(&path, &folder.backup());
            let processes = start(&arguments)?;
            let begun = Instant::now();
            while processes[0].seen().lines().count() < 4 && begun.elapsed() < LIMIT {
                std::thread::sleep(Duration::from_micros(500));
            }
            std::thread::sleep(Duration::from_micros(random.below(20_000) as u64));
            for mut process in processes {
                let _ = process.child.kill();
                process.end();
            }
            check_commits(&open()?, [].into_iter(), &[], 1)?;
        }
        let older = observe(&open_at(&folder.backup())?).map_err(|error| error.to_string())?;
        let processes = start(&arguments)?;
        let acted = act_beside(&folder, Restore, processes, None, is_shared, &mut random);
        let acted = acted.map_err(|problem| format!("{way}: {problem}"))?;
        let found = observe(&open()?).map_err(|error| error.to_string())?;
        ensure(is_shared || found == older, || {
            format!("{found:?} was restored as {older:?}")
        })?;
        // What is behind what was restored are commits that follow each other, all that were acknowledged since.
        let before = acted.before.map_or(0, |before| before[0]);
        for thread in 0..3 {
            let (words, known) = (words_of(&found, thread), words_of(&older, thread));
            let prefix = format!("{thread} ");
            let numbers = acted.ended[0].output.lines().skip(before);
            let numbers = numbers.filter_map(|line| line.strip_prefix(&prefix)?.parse().ok());
            let last: Option<u64> = numbers.max();
            let added = words
                .strip_prefix(&known[..])
                .ok_or_else(|| format!("{way}: {words:?} do not begin with {known:?}"))?;
            let follow = added.windows(2).all(|pair| pair[0] + 1 == pair[1]);
            ensure(follow, || {
                format!("{way}: {added:?} do not follow each other")
            })?;
            // Thread 2 promises nothing. The last commit before the act may be acknowledged after it.
            let is_kept = thread == 2 || last.is_none_or(|last| added.last() >= Some(&last));
            let is_late = added.is_empty() && last.is_some();
            ensure(is_kept || is_late, || {
                format!("{way}: {last:?} is not in {added:?}")
            })?;
        }
        copy_anew(&folder.backup(), &path);
        trial.passed(way);
    }
    Ok(())
}

fn open_at(path: &Path) -> Outcome<Database> {
    let options = Database::options().threads(1).read_only(true);
    options.open(path).map_err(|error| error.to_string())
}

/// The numbers of the commits of a thread.
fn words_of(state: &State, thread: usize) -> Vec<u64> {
    let text = state
        .get("plain")
        .and_then(|texts| texts.get(&format!("t{thread}")));
    let text = String::from_utf8(text.cloned().unwrap_or_default()).unwrap();
    let words = text.split_whitespace();
    words
        .map(|word| word.split_once('.').unwrap().1.parse().unwrap())
        .collect()
}
