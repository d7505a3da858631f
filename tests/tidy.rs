//! Rules about the source tree that no compiler checks, each with its reason: the direction of dependencies, the places
//! of `unsafe`, the opening of every file, the words and bytes that stay out.
//!
//! Rules read files only, so a problem names its file and line and what to do about it. Where a rule looks at code it
//! sees neither comments nor strings, and the other way round; see [`Source`]. It is no Rust parser and does not judge
//! style that rustfmt or clippy can judge.

use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The only files where `unsafe` may stand: launches of CUDA kernels, calls of NVML, the decoder that gathers with AVX-512, functions
/// for C, and streams of Arrow that Python passes as pointers.
const UNSAFE_ALLOWED: [&str; 5] = [
    "ffi/src/",
    "kernels/src/",
    "python/src/streams.rs",
    "bench/kernels/src/energy.rs",
    "storage/src/segment/symbols/wide.rs",
];

/// Marks a test that counts allocations, for which `unsafe` is allowed.
const COUNTING_ALLOCATOR: &str = "unsafe impl GlobalAlloc for";

/// Crate roots, and how they forbid `unsafe`: altogether, or except in modules that allow it.
const UNSAFE_FORBIDDEN: [(&str, &str); 8] = [
    ("src/lib.rs", "#![forbid(unsafe_code)]"),
    ("arrow/src/lib.rs", "#![forbid(unsafe_code)]"),
    ("python/src/lib.rs", "#![deny(unsafe_code)]"),
    ("formats/src/lib.rs", "#![forbid(unsafe_code)]"),
    ("search/src/lib.rs", "#![forbid(unsafe_code)]"),
    ("sql/src/lib.rs", "#![forbid(unsafe_code)]"),
    ("storage/src/lib.rs", "#![deny(unsafe_code)]"),
    ("cli/src/main.rs", "#![forbid(unsafe_code)]"),
];

/// Which crates of ours a crate may use.
const DIRECTION: [(&str, &[&str]); 19] = [
    (
        "Cargo.toml",
        &[
            "zipfdb-formats",
            "zipfdb-search",
            "zipfdb-sql",
            "zipfdb-storage",
            "zipfdb-kernels",
            // For tests.
            "zipfdb-test-support",
            "zipfdb-test-model",
        ],
    ),
    ("formats/Cargo.toml", &[]),
    ("search/Cargo.toml", &[]),
    ("sql/Cargo.toml", &[]),
    // For tests.
    ("storage/Cargo.toml", &["zipfdb-test-support"]),
    ("test-support/Cargo.toml", &["zipfdb-storage"]),
    (
        "test-model/Cargo.toml",
        &[
            "zipfdb",
            "zipfdb-formats",
            "zipfdb-search",
            "zipfdb-sql",
            "zipfdb-storage",
            "zipfdb-test-support",
        ],
    ),
    ("kernels/Cargo.toml", &[]),
    ("cli/Cargo.toml", &["zipfdb"]),
    (
        "bench/Cargo.toml",
        &[
            "zipfdb",
            "zipfdb-bench-kernels",
            "zipfdb-bench-report",
            "zipfdb-kernels",
            "zipfdb-search",
            "zipfdb-storage",
            "zipfdb-tadoc",
        ],
    ),
    ("bench/kernels/Cargo.toml", &["zipfdb-kernels"]),
    ("bench/report/Cargo.toml", &[]),
    ("bench/tadoc/Cargo.toml", &[]),
    ("arrow/Cargo.toml", &["zipfdb"]),
    (
        "datafusion/Cargo.toml",
        &["zipfdb", "zipfdb-arrow", "zipfdb-remote"],
    ),
    ("python/Cargo.toml", &["zipfdb", "zipfdb-arrow"]),
    ("remote/Cargo.toml", &["zipfdb", "zipfdb-storage"]),
    ("ffi/Cargo.toml", &["zipfdb", "zipfdb-arrow"]),
    ("fuzz/Cargo.toml", &["zipfdb-test-model"]),
];

/// Dependencies that live behind one crate of ours, so that their types and faults stay there.
const CONFINED: [(&str, &str); 3] = [
    ("sqlparser", "sql/Cargo.toml"),
    ("sled", "storage/Cargo.toml"),
    ("cudarc", "kernels/Cargo.toml"),
];

/// Words that name one of our concepts wrongly, without underscores, and what to say.
const BANNED_WORDS: [(&str, &str); 7] = [
    ("nonterminal", "rule"),
    ("digram", "pair"),
    ("lexicon", "dictionary"),
    ("shard", "segment"),
    ("journal", "record log"),
    ("compaction", "recompression"),
    ("docid", "FileId"),
];

/// Words that prose and messages do without, and what to write. Threads, callers and programs are not persons, a number
/// has a name, and files and values state, show or decide.
const BANNED_PHRASES: [(&[&str], &str); 14] = [
    (&["whoever"], "name the thread, caller or program"),
    (&["somebody"], "name the thread, caller or program"),
    (
        &["nobody"],
        "say `no thread`, `no process`, or what holds instead",
    ),
    (&["anybody"], "name the thread, caller or program"),
    (&["those", "who"], "name the threads, callers or programs"),
    (&["who", "waits"], "say `the waiting thread`"),
    (&["likewise"], "say what holds"),
    (&["so", "many"], "say the number's name"),
    (&["as", "much", "as"], "say the number's name"),
    (
        &["told"],
        "say computed, known, distinguished, reported or given",
    ),
    (&["tells"], "say computes, knows, shows, reports or decides"),
    (&["what", "is", "so"], "say what it is"),
    (&["comes", "to", "be"], "say appears, begins or becomes"),
    (&["it", "is", "to", "be"], "say must, or what it does"),
];

/// Text of other authors, kept as it came, and data of tests.
const FOREIGN: [&str; 4] = [
    "cli/sample/speeches/",
    "fixtures/",
    "fuzz/seeds/",
    "snapshots/",
];

/// Largest file of the tree but for the demo's sample, and largest sample.
const FILE_SIZE_MAX: u64 = 256 << 10;
const SAMPLE_SIZE_MAX: u64 = 4 << 20;
const SAMPLE: &str = "cli/sample/";

#[test]
fn crates_depend_downwards_only() {
    let mut problems = Problems::default();
    for file in files().iter().filter(|file| file.is("Cargo.toml")) {
        let Some((_, allowed)) = DIRECTION.iter().find(|(path, _)| *path == file.path) else {
            problems.add(
                file,
                1,
                "a crate that DIRECTION in tests/tidy.rs does not know: say there what it may use",
            );
            continue;
        };
        for (line, dependency) in dependencies(&file.text()) {
            if dependency.starts_with("zipfdb") && !allowed.contains(&dependency.as_str()) {
                problems.add(file, line, format!("must not depend on {dependency}: the direction is cli -> root -> {{formats, search, sql, storage, kernels}}"));
            }
            if let Some((_, home)) = CONFINED
                .iter()
                .find(|(name, home)| *name == dependency && *home != file.path)
            {
                problems.add(
                    file,
                    line,
                    format!("{dependency} lives behind {home} only: add what you need there"),
                );
            }
        }
    }
    problems.none_left();
}

#[test]
fn every_crate_takes_the_shared_lints() {
    let mut problems = Problems::default();
    for file in files()
        .iter()
        .filter(|file| file.is("Cargo.toml") && !file.path.starts_with("fuzz/"))
    {
        if !file.text().contains("[lints]\nworkspace = true") {
            problems.add(file, 1, "add `[lints]` with `workspace = true`");
        }
    }
    problems.none_left();
}

#[test]
fn no_file_is_compiled_from_another_place() {
    let mut problems = Problems::default();
    for file in files().iter().filter(|file| file.has_extension(&["rs"])) {
        for (line, content) in numbered(&file.source().code) {
            if content.trim_start().starts_with("#[path") {
                problems.add(
                    file,
                    line,
                    "`#[path]` compiles a file a second time: what tests share is a crate, as `test-support` is",
                );
            }
        }
    }
    problems.none_left();
}

/// A crate that lists its programs of tests runs no other file.
#[test]
fn every_file_of_tests_is_run() {
    let mut problems = Problems::default();
    let all = files();
    for file in &all {
        let path = file.path.strip_suffix(".rs").unwrap_or_default();
        let Some((folder, name)) = path.rsplit_once("tests/") else {
            continue;
        };
        let manifest = format!("{folder}Cargo.toml");
        let Some(manifest) = all.iter().find(|other| other.path == manifest) else {
            continue;
        };
        let manifest = manifest.text();
        if name.contains('/') || !manifest.contains("autotests = false") {
            continue;
        }
        let is_program = |name: &str| manifest.contains(&format!("[[test]]\nname = \"{name}\"\n"));
        let programs = all.iter().filter(|other| {
            let name = other.path.strip_prefix(&format!("{folder}tests/"));
            name.and_then(|name| name.strip_suffix(".rs"))
                .is_some_and(is_program)
        });
        let line = format!("\nmod {name};\n");
        if !is_program(name)
            && !programs
                .into_iter()
                .any(|other| other.text().contains(&line))
        {
            problems.add(
                file,
                1,
                "not run: list it in `suite.rs`, or in `Cargo.toml` if it needs a process of its own",
            );
        }
    }
    problems.none_left();
}

#[test]
fn unsafe_code_is_confined_and_argued() {
    let mut problems = Problems::default();
    for file in files().iter().filter(|file| file.has_extension(&["rs"])) {
        let source = file.source();
        let counts_allocations =
            file.path.contains("/tests/") && source.code.contains(COUNTING_ALLOCATOR);
        let allowed = counts_allocations
            || UNSAFE_ALLOWED
                .iter()
                .any(|place| file.path.starts_with(place));
        for (line, code) in source.code_lines() {
            if !identifiers(code).any(|word| word == "unsafe") {
                continue;
            }
            if !allowed {
                problems.add(
                    file,
                    line,
                    "`unsafe` stands only in launch wrappers of kernels/src, in wide.rs of storage, in ffi and in streams.rs of python",
                );
            } else if !is_unsafe_item(code) && !source.comment_above(line).contains("SAFETY:") {
                problems.add(
                    file,
                    line,
                    "say under `// SAFETY:` directly above why this is sound",
                );
            }
        }
        for (root, lint) in UNSAFE_FORBIDDEN {
            if file.path == root && !source.code.contains(lint) {
                problems.add(file, 1, format!("add `{lint}`"));
            }
        }
    }
    problems.none_left();
}

/// Whether a line declares a function that its documentation says how to call, or names it for other languages.
fn is_unsafe_item(code: &str) -> bool {
    let code = code.trim_start();
    ["unsafe fn", "unsafe extern"]
        .iter()
        .any(|item| code.contains(item))
        || code.starts_with("#[unsafe(")
}

#[test]
fn every_source_file_says_what_lives_in_it() {
    let mut problems = Problems::default();
    for file in files() {
        let text = file.text();
        let first = text.lines().next().unwrap_or_default();
        if file.has_extension(&["rs"]) && !first.starts_with("//! ") {
            problems.add(&file, 1, "open with `//!`: what lives here, the one invariant, what it deliberately does not do");
        }
        let name = file.path.rsplit('/').next().unwrap_or_default();
        if file.has_extension(&["cu", "cuh"]) && !first.starts_with(&format!("// {name}: ")) {
            problems.add(
                &file,
                1,
                format!("open with `// {name}: ` and what it computes"),
            );
        }
    }
    problems.none_left();
}

#[test]
fn every_concept_has_one_name() {
    let mut problems = Problems::default();
    // The names of other engines in bench/ are not ours to choose.
    for file in files()
        .iter()
        .filter(|file| file.is_code() && !file.path.starts_with("bench/"))
    {
        let source = file.source();
        for (banned, right) in BANNED_WORDS {
            let named = |code: &str| {
                let plain = |word: &str| word.replace('_', "").to_ascii_lowercase();
                identifiers(code).any(|word| plain(word).contains(banned))
            };
            let lines: Vec<usize> = source
                .code_lines()
                .filter_map(|(line, code)| named(code).then_some(line))
                .collect();
            if let Some(first) = lines.first() {
                let count = lines.len();
                problems.add(
                    file,
                    *first,
                    format!("say {right}, not {banned}: {count} lines"),
                );
            }
        }
    }
    problems.none_left();
}

#[test]
fn prose_is_plain() {
    let mut problems = Problems::default();
    for file in files() {
        let found = file
            .prose()
            .into_iter()
            .flat_map(|text| banned_phrases(&text));
        for (line, phrase, instead) in found {
            problems.add(&file, line, format!("`{phrase}` in prose: {instead}"));
        }
    }
    problems.none_left();
}

/// Words that no name has: what prose does without too, and its relatives.
const BANNED_IN_NAMES: [&str; 9] = [
    "told", "tell", "tells", "teller", "nobody", "somebody", "anybody", "whoever", "who",
];

#[test]
fn names_are_plain() {
    let mut problems = Problems::default();
    for file in files().iter().filter(|file| file.is_code()) {
        for (line, code) in file.source().code_lines() {
            for name in identifiers(code) {
                if let Some(word) = BANNED_IN_NAMES.iter().find(|word| has_word(name, word)) {
                    problems.add(file, line, format!("`{word}` in the name `{name}`"));
                }
            }
        }
    }
    problems.none_left();
}

/// Whether a name has a word: between underscores, or from a capital letter to the next one.
fn has_word(name: &str, word: &str) -> bool {
    let mut words = String::new();
    let mut is_lower = false;
    for letter in name.chars() {
        if is_lower && letter.is_ascii_uppercase() {
            words.push('_');
        }
        is_lower = letter.is_ascii_lowercase();
        words.push(letter);
    }
    words.split('_').any(|part| part.eq_ignore_ascii_case(word))
}

#[test]
fn words_of_names_are_found() {
    for (name, is_found) in [
        ("told", true),
        ("is_told", true),
        ("TOLD_ALL", true),
        ("hasToldAll", true),
        ("Told", true),
        ("threshold", false),
        ("bolder_Stolder", false),
    ] {
        assert_eq!(has_word(name, "told"), is_found, "{name}");
    }
}

#[test]
fn conditions_are_asked_with_if() {
    let mut problems = Problems::default();
    for file in files().iter().filter(|file| file.has_extension(&["rs"])) {
        for (line, code) in file.source().code_lines() {
            if has_bool_arm(code) {
                problems.add(file, line, "`match` on a bool: write `if` and `else`");
            }
        }
    }
    problems.none_left();
}

/// `println!` panics when a pipe such as `| head -1` is closed.
#[test]
fn examples_and_scripts_write_to_an_output_that_may_be_closed() {
    let mut problems = Problems::default();
    let is_shown = |file: &TreeFile| {
        file.has_extension(&["rs"])
            && (file.path.contains("examples/") || file.path.starts_with("scripts/"))
    };
    for file in files().into_iter().filter(is_shown) {
        for (line, code) in file.source().code_lines() {
            let prints = |macro_call: &str| {
                let mut found = code.match_indices(macro_call);
                found.any(|(at, _)| {
                    !code[..at].ends_with(|before: char| before.is_ascii_alphanumeric())
                })
            };
            if prints("println!(") || prints("print!(") {
                problems.add(
                    &file,
                    line,
                    "`println!` panics where the output is closed: use `writeln!`, and end quietly at `BrokenPipe`",
                );
            }
        }
    }
    problems.none_left();
}

#[test]
fn source_is_ascii() {
    let mut problems = Problems::default();
    for file in files()
        .iter()
        .filter(|file| !file.is_foreign() && !file.has_extension(&["slt"]))
    {
        let Ok(text) = String::from_utf8(file.bytes()) else {
            continue;
        };
        for (line, content) in numbered(&text) {
            if let Some(found) = content.chars().find(|character| !character.is_ascii()) {
                problems.add(
                    file,
                    line,
                    format!(
                        "`{}` is not ASCII: write it as an escape or say it in plain letters",
                        found.escape_unicode()
                    ),
                );
            }
        }
    }
    problems.none_left();
}

#[test]
fn nothing_is_left_lying_about_in_code() {
    let mut problems = Problems::default();
    for file in files().iter().filter(|file| file.is_code()) {
        let source = file.source();
        for (line, code) in source.code_lines() {
            if code.contains("dbg!(") {
                problems.add(file, line, "remove `dbg!`");
            }
            if code.contains("#[ignore") {
                problems.add(
                    file,
                    line,
                    "a test that fails is fixed or deleted, never ignored",
                );
            }
        }
        for (line, comment) in numbered(&source.comments) {
            if let Some(word) = ["TODO", "FIXME", "XXX", "HACK"]
                .into_iter()
                .find(|word| identifiers(comment).any(|found| found == *word))
                && !comment.contains(&format!("{word} #"))
                && !comment.contains(&format!("{word}(#"))
            {
                problems.add(
                    file,
                    line,
                    format!("`{word}` needs the number of its issue: `{word}(#12): ...`"),
                );
            }
            let Some(text) = comment.trim_start().strip_prefix("//") else {
                continue;
            };
            if is_banner(text) {
                problems.add(
                    file,
                    line,
                    "no banners: a file that needs sections wants to be two files",
                );
            }
            // Documentation may show code.
            if !text.starts_with(['/', '!']) && is_code(text.trim()) {
                problems.add(file, line, "code in a comment: delete it, git keeps it");
            }
            if line <= 10 && text.to_ascii_lowercase().contains("author:") {
                problems.add(file, line, "no author headers: git knows");
            }
        }
    }
    problems.none_left();
}

#[test]
fn links_between_documents_lead_somewhere() {
    let mut problems = Problems::default();
    for file in files()
        .iter()
        .filter(|file| file.has_extension(&["md"]) && !file.is_foreign())
    {
        let text = file.text();
        for (line, target) in links(&text) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (path, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let directory = file.absolute.parent().unwrap_or(Path::new(""));
            let found = if path.is_empty() {
                file.absolute.clone()
            } else {
                directory.join(path)
            };
            if path.starts_with('/') || !found.exists() {
                problems.add(
                    file,
                    line,
                    format!("dead link `{target}`: links are relative to this file"),
                );
            } else if !anchor.is_empty()
                && found.extension().is_some_and(|extension| extension == "md")
            {
                let headings = fs::read_to_string(&found).unwrap_or_default();
                if !prose_lines(&headings).any(|(_, line)| {
                    line.starts_with('#') && slug(line.trim_start_matches('#')) == anchor
                }) {
                    problems.add(file, line, format!("dead link `{target}`: no such heading"));
                }
            }
        }
    }
    problems.none_left();
}

#[test]
fn no_path_of_one_machine_is_written_down() {
    let mut problems = Problems::default();
    let homes = ["work", "home", "root", "Users"].map(|home| format!("/{home}/"));
    for file in files().iter().filter(|file| !file.is_foreign()) {
        let Ok(text) = String::from_utf8(file.bytes()) else {
            continue;
        };
        for (line, content) in numbered(&text) {
            for home in &homes {
                // Inside a longer path it may name anything.
                let starts_there = |(at, _): (usize, &str)| {
                    !content[..at].ends_with(|before: char| {
                        before.is_ascii_alphanumeric() || "._-}~".contains(before)
                    })
                };
                if content.match_indices(home.as_str()).any(starts_there) {
                    problems.add(file, line, format!("`{home}` exists on one machine: give a path of this tree or a placeholder"));
                }
            }
        }
    }
    problems.none_left();
}

#[test]
fn the_tree_holds_small_text_files() {
    let mut problems = Problems::default();
    let mut sample_size = 0;
    for file in files() {
        let bytes = file.bytes();
        let size = bytes.len() as u64;
        if file.path.starts_with(SAMPLE) {
            sample_size += size;
        } else if size > FILE_SIZE_MAX {
            problems.add(&file, 1, format!("{size} bytes, more than {FILE_SIZE_MAX}: generate it, or fetch it where it is needed"));
        }
        if !file.is_foreign() && (bytes.contains(&0) || String::from_utf8(bytes).is_err()) {
            problems.add(
                &file,
                1,
                "a binary file: only tests/fixtures and fuzz/seeds hold these",
            );
        }
    }
    if sample_size > SAMPLE_SIZE_MAX {
        problems.0.push(format!("{SAMPLE}: {sample_size} bytes in all, more than {SAMPLE_SIZE_MAX}: drop the oldest speeches"));
    }
    problems.none_left();
}

#[test]
fn comments_strings_and_code_are_separated() {
    for (text, code, comments, strings) in [
        (
            "let a = \"un//safe\"; // b \"c",
            "let a = \"        \";        ",
            "// b \"c",
            "un//safe",
        ),
        (
            "r#\"d\"# 'e' '\\'' 'f",
            "r#\" \"# ' ' '  ' 'f",
            "",
            "d    e   \\'",
        ),
        (
            "g /* h\n/* i */ j */ k",
            "g     \n             k",
            "/* h\n/* i */ j */",
            "",
        ),
    ] {
        let source = Source::read(text);
        assert_eq!(source.code, code);
        assert_eq!(source.comments.trim(), comments);
        assert_eq!(source.strings.trim(), strings);
    }
}

#[test]
fn comments_that_hold_code_are_found() {
    for code in [
        "let x = y;",
        "foo.bar(baz);",
        "}",
        "if x {",
        "use std::fs;",
        "x += 1;",
        "return;",
        "#[test]",
        "pub fn f() {",
    ] {
        assert!(is_code(code), "{code}");
    }
    for prose in [
        "Ids are u32; counts are u64;",
        "as before (see above);",
        "If this fails {nothing} is lost.",
        "let us see",
        "SAFETY: x = y",
    ] {
        assert!(!is_code(prose), "{prose}");
    }
}

#[test]
fn phrases_are_found_across_lines_and_outside_code() {
    let (so, many) = ("so", "many");
    for (text, lines) in [
        (format!("one {so} {many}"), vec![1]),
        (format!("So\n/// {many}"), vec![1]),
        (format!("\n//! {so} {many}. {so} {many}"), vec![2, 2]),
        (format!("{so}, {many}"), vec![]),
        (format!("{so}\n\n{many}"), vec![]),
        (format!("{so} `{many}`"), vec![]),
        (format!("{{{so}}} {many}"), vec![]),
        (format!("{so} {many}fold"), vec![]),
        ("`told`\n(told)".to_owned(), vec![2]),
    ] {
        let found: Vec<usize> = banned_phrases(&text).iter().map(|found| found.0).collect();
        assert_eq!(found, lines, "{text:?}");
    }
}

#[test]
fn arms_of_bools_are_found() {
    for (code, is_arm) in [
        ("    true => 1,", true),
        ("false if x => {", true),
        ("match x { true => 1, false => 2 }", true),
        ("(true, _) => 1,", false),
        ("Some(false) => 1,", false),
        ("x.then(|| true)", false),
    ] {
        assert_eq!(has_bool_arm(code), is_arm, "{code}");
    }
}

/// Everything wrong with the tree under one rule.
#[derive(Default)]
struct Problems(Vec<String>);

impl Problems {
    fn add(&mut self, file: &TreeFile, line: usize, what: impl Display) {
        self.0.push(format!("{}:{line}: {what}", file.path));
    }

    fn none_left(self) {
        assert!(self.0.is_empty(), "\n{}\n", self.0.join("\n"));
    }
}

/// A file of the tree.
struct TreeFile {
    /// Relative to the root, with `/`.
    path: String,
    absolute: PathBuf,
}

impl TreeFile {
    fn is(&self, name: &str) -> bool {
        self.path.rsplit('/').next() == Some(name)
    }

    fn has_extension(&self, extensions: &[&str]) -> bool {
        self.absolute
            .extension()
            .is_some_and(|found| extensions.iter().any(|extension| found == *extension))
    }

    fn is_code(&self) -> bool {
        self.has_extension(&["rs", "cu", "cuh"])
    }

    fn is_foreign(&self) -> bool {
        FOREIGN.iter().any(|place| self.path.contains(place))
    }

    fn bytes(&self) -> Vec<u8> {
        fs::read(&self.absolute).unwrap_or_else(|error| panic!("{}: {error}", self.path))
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes()).into_owned()
    }

    fn source(&self) -> Source {
        Source::read(&self.text())
    }

    /// Texts of the file that are read as prose, with the lines of the file: comments and messages of code, documents
    /// without their code, comments of scripts and settings.
    fn prose(&self) -> Vec<String> {
        if self.is_foreign() {
            Vec::new()
        } else if self.is_code() || self.has_extension(&["cpp", "hpp"]) {
            let source = self.source();
            vec![source.comments, messages(&source.strings)]
        } else if self.has_extension(&["md"]) {
            let text = self.text();
            let mut lines = vec![""; text.lines().count()];
            for (line, content) in prose_lines(&text) {
                lines[line - 1] = content;
            }
            vec![lines.join("\n")]
        } else if self.has_extension(&["py", "sh", "slt", "toml", "yml"]) || self.is("run") {
            let text = self.text();
            let comments = text.lines().map(|line| {
                if line.trim_start().starts_with('#') {
                    line
                } else {
                    ""
                }
            });
            vec![comments.collect::<Vec<&str>>().join("\n")]
        } else {
            Vec::new()
        }
    }
}

/// All files that git tracks or would track, and without git all but build outputs.
fn files() -> Vec<TreeFile> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let listed = Command::new("git")
        .current_dir(root)
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .output();
    let mut paths: Vec<String> = match listed {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout)
            .split('\0')
            .filter(|path| !path.is_empty())
            .map(str::to_owned)
            .collect(),
        _ => walk(root),
    };
    paths.sort();
    paths.dedup();
    let all = paths.into_iter().map(|path| TreeFile {
        absolute: root.join(&path),
        path,
    });
    // Git lists deleted files until the deletion is committed.
    let files: Vec<TreeFile> = all.filter(|file| file.absolute.is_file()).collect();
    assert!(
        files.iter().any(|file| file.path == "tests/tidy.rs"),
        "found no files below {}",
        root.display()
    );
    files
}

fn walk(root: &Path) -> Vec<String> {
    let mut paths = Vec::new();
    let mut pending = vec![root.to_path_buf()];
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            let (path, name) = (
                entry.path(),
                entry.file_name().to_string_lossy().into_owned(),
            );
            if ["target", ".git", "device", "artifacts", "corpus"].contains(&name.as_str())
                || name.ends_with(".zdb")
            {
                continue;
            }
            if path.is_dir() {
                pending.push(path);
            } else {
                paths.extend(
                    path.strip_prefix(root)
                        .map(|path| path.to_string_lossy().replace('\\', "/")),
                );
            }
        }
    }
    paths
}

/// A source file taken apart: three texts of the same length and lines, each with all but its part blanked: code with
/// the delimiters of literals, comments, the contents of literals. Works for Rust and CUDA C++.
struct Source {
    code: String,
    comments: String,
    strings: String,
}

impl Source {
    fn read(text: &str) -> Source {
        // What is not ASCII has a rule of its own.
        let bytes: Vec<u8> = text
            .bytes()
            .map(|byte| if byte.is_ascii() { byte } else { b'?' })
            .collect();
        let mut code = vec![b' '; bytes.len()];
        let (mut comments, mut strings) = (code.clone(), code.clone());
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            let (end, is_comment) = if rest.starts_with(b"//") {
                (
                    at + rest
                        .iter()
                        .position(|&byte| byte == b'\n')
                        .unwrap_or(rest.len()),
                    true,
                )
            } else if rest.starts_with(b"/*") {
                (at + block_comment_size(rest), true)
            } else {
                let starts_word = at == 0 || !is_word_byte(bytes[at - 1]);
                let literal = Literal::at_start_of(rest, starts_word);
                let (open, close, end) = (
                    at + literal.open,
                    at + literal.size - literal.close,
                    at + literal.size,
                );
                code[at..open].copy_from_slice(&bytes[at..open]);
                code[close..end].copy_from_slice(&bytes[close..end]);
                strings[open..close].copy_from_slice(&bytes[open..close]);
                (end, false)
            };
            if is_comment {
                comments[at..end].copy_from_slice(&bytes[at..end]);
            }
            at = end;
        }
        for (index, _) in bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n') {
            code[index] = b'\n';
            comments[index] = b'\n';
            strings[index] = b'\n';
        }
        let text = |bytes| String::from_utf8(bytes).expect("only ASCII was put in");
        Source {
            code: text(code),
            comments: text(comments),
            strings: text(strings),
        }
    }

    fn code_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        numbered(&self.code)
    }

    /// The comment that ends on the line before `line`, and the one on it.
    fn comment_above(&self, line: usize) -> String {
        let lines: Vec<&str> = self.comments.lines().take(line).collect();
        let (last, above) = lines.split_last().expect("a file with a line has lines");
        let mut found: Vec<&str> = above
            .iter()
            .rev()
            .take_while(|line| !line.trim().is_empty())
            .copied()
            .collect();
        found.push(last);
        found.join("\n")
    }
}

/// Size of the comment that `bytes` starts with. Block comments nest in Rust.
fn block_comment_size(bytes: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    bytes.len()
}

/// Sizes of a string or character literal and of its delimiters.
struct Literal {
    open: usize,
    close: usize,
    size: usize,
}

impl Literal {
    /// The literal that `bytes` starts with; any other byte counts as a delimiter of nothing.
    fn at_start_of(bytes: &[u8], starts_word: bool) -> Literal {
        if starts_word && (bytes[0] == b'r' || bytes.starts_with(b"br")) {
            let prefix = if bytes[0] == b'r' { 1 } else { 2 };
            let hashes = bytes[prefix..]
                .iter()
                .take_while(|&&byte| byte == b'#')
                .count();
            if bytes.get(prefix + hashes) == Some(&b'"') {
                let (open, close) = (prefix + hashes + 1, hashes + 1);
                let ending = [b"\"".as_slice(), &b"#".repeat(hashes)].concat();
                let found = bytes[open..]
                    .windows(close)
                    .position(|window| window == ending);
                return match found {
                    Some(length) => Literal {
                        open,
                        close,
                        size: open + length + close,
                    },
                    None => Literal {
                        open,
                        close: 0,
                        size: bytes.len(),
                    },
                };
            }
        }
        let is_character =
            bytes[0] == b'\'' && (bytes.get(1) == Some(&b'\\') || bytes.get(2) == Some(&b'\''));
        if bytes[0] == b'"' || is_character {
            let mut at = 1;
            while at < bytes.len() && bytes[at] != bytes[0] {
                at += if bytes[at] == b'\\' { 2 } else { 1 };
            }
            return if at < bytes.len() {
                Literal {
                    open: 1,
                    close: 1,
                    size: at + 1,
                }
            } else {
                Literal {
                    open: 1,
                    close: 0,
                    size: bytes.len(),
                }
            };
        }
        Literal {
            open: 1,
            close: 0,
            size: 1,
        }
    }
}

/// The literals of more than one word, which are messages or statements; of others nothing is read.
fn messages(strings: &str) -> String {
    let lines = strings.lines().map(|line| {
        // Blanks between two literals are at least their delimiters and a comma.
        let literals = line.split("   ").map(|literal| {
            if literal.trim().contains(' ') {
                literal.to_owned()
            } else {
                " ".repeat(literal.len())
            }
        });
        literals.collect::<Vec<String>>().join("   ")
    });
    lines.collect::<Vec<String>>().join("\n")
}

/// Lines where banned phrases begin, in any case, with the phrase and what to write. Between the words of a phrase stands
/// nothing but spaces, and at most one line break with the marker of a comment; inline code and names in braces are no
/// words.
fn banned_phrases(text: &str) -> Vec<(usize, String, &'static str)> {
    let mut words: Vec<(usize, &str)> = Vec::new();
    for (line, content) in numbered(text) {
        let content = content
            .trim_start()
            .trim_start_matches(['/', '!', '#', '*']);
        let mut is_inline_code = false;
        for word in content.split_whitespace() {
            let marks = word.bytes().filter(|&byte| byte == b'`').count();
            let is_code = is_inline_code || marks > 0 || word.contains(['{', '}']);
            is_inline_code ^= marks % 2 == 1;
            let word = word.trim_start_matches(['(', '"', '\'', '*', '[']);
            words.push((line, if is_code { "`" } else { word }));
        }
    }
    let mut found = Vec::new();
    for (at, &(line, _)) in words.iter().enumerate() {
        for (phrase, instead) in BANNED_PHRASES {
            let Some(place) = words.get(at..at + phrase.len()) else {
                continue;
            };
            if is_phrase(place, phrase) {
                found.push((line, phrase.join(" "), instead));
            }
        }
    }
    found
}

fn is_phrase(place: &[(usize, &str)], phrase: &[&str]) -> bool {
    let last = phrase.len() - 1;
    let ending = |mark: char| !mark.is_ascii_alphanumeric();
    (0..last).all(|index| place[index].1.eq_ignore_ascii_case(phrase[index]))
        && (place[last].1.get(..phrase[last].len()))
            .is_some_and(|word| word.eq_ignore_ascii_case(phrase[last]))
        && place[last].1[phrase[last].len()..]
            .trim_end_matches(ending)
            .is_empty()
        && place.windows(2).all(|pair| pair[1].0 - pair[0].0 <= 1)
}

/// Whether a line of code begins an arm whose pattern is `true` or `false`, so that its `match` is on a bool.
fn has_bool_arm(code: &str) -> bool {
    let begins = |text: &str| {
        ["true => ", "false => ", "true if ", "false if "]
            .iter()
            .any(|arm| text.starts_with(arm))
    };
    begins(&format!("{} ", code.trim()))
        || code
            .match_indices("{ ")
            .any(|(at, _)| begins(&code[at + 2..]))
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn identifiers(code: &str) -> impl Iterator<Item = &str> {
    code.split(|character: char| !character.is_ascii_alphanumeric() && character != '_')
        .filter(|word| !word.is_empty())
}

fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line))
}

/// Whether a comment draws a line: `----`, `==== Title ====`, `//////`.
fn is_banner(comment: &str) -> bool {
    let text = comment.trim_start_matches('!').trim();
    let Some(first) = text
        .chars()
        .next()
        .filter(|first| "-=*#~/_+".contains(*first))
    else {
        return false;
    };
    text.chars()
        .take_while(|character| *character == first)
        .count()
        >= if first == '#' || first == '/' { 7 } else { 3 }
}

/// Whether a line of a comment was code once.
fn is_code(comment: &str) -> bool {
    let starts = [
        "let ", "use ", "pub ", "fn ", "impl ", "if ", "for ", "while ", "match ", "return", "#[",
        "mod ", "const ",
    ];
    let ends = comment.ends_with([';', '{', '}']);
    if comment == "}"
        || comment.starts_with("#[")
        || (ends && starts.iter().any(|start| comment.starts_with(start)))
    {
        return true;
    }
    // A call or an assignment as a statement: one path, then at once `(` or an operator.
    let path = comment.trim_start_matches(|character: char| {
        character.is_ascii_alphanumeric() || "_.:!".contains(character)
    });
    let has_path = path.len() < comment.len();
    comment.ends_with(';')
        && has_path
        && (path.starts_with('(')
            || [" = ", " += ", " -= "]
                .iter()
                .any(|operator| path.starts_with(operator)))
}

/// Names in the dependency tables of a Cargo.toml with their lines.
fn dependencies(manifest: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut in_dependencies = false;
    for (line, content) in numbered(manifest) {
        if let Some(table) = content.trim().strip_prefix('[') {
            let table = table.trim_end_matches(']');
            // The workspace's list only fixes versions.
            let (parent, name) = table.rsplit_once('.').unwrap_or(("", table));
            in_dependencies = name.ends_with("dependencies") && table != "workspace.dependencies";
            if parent.ends_with("dependencies") && parent != "workspace.dependencies" {
                found.push((line, name.to_owned()));
            }
        } else if in_dependencies {
            let name: String = content
                .chars()
                .take_while(|character| {
                    character.is_ascii_alphanumeric() || "_-".contains(*character)
                })
                .collect();
            if !name.is_empty() {
                found.push((line, name));
            }
        }
    }
    found
}

/// Lines of a Markdown text outside code fences.
fn prose_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    numbered(text).filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    })
}

/// Targets of `[text](target)` and `[name]: target` with their lines.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (line, content) in prose_lines(text) {
        // Every second piece is inline code.
        let prose: Vec<&str> = content.split('`').step_by(2).collect();
        let prose = prose.join("`");
        for (at, _) in prose.match_indices("](") {
            let target = prose[at + 2..].split([')', ' ']).next().unwrap_or_default();
            found.push((line, target.to_owned()));
        }
        if let Some((name, target)) = prose
            .split_once("]: ")
            .filter(|(name, _)| name.starts_with('[') && !name.starts_with("[^"))
            && !name[1..].contains([']', '['])
        {
            found.push((line, target.trim().to_owned()));
        }
    }
    found
}

/// The anchor that GitHub gives a heading.
fn slug(heading: &str) -> String {
    let kept = heading
        .trim()
        .chars()
        .filter(|character| character.is_alphanumeric() || " -_".contains(*character));
    kept.map(|character| {
        if character == ' ' {
            '-'
        } else {
            character.to_ascii_lowercase()
        }
    })
    .collect()
}
