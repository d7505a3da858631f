//! The command line: options, the demo subcommand and the order of the SQL sources.
//!
//! Invariant: whatever is wrong with the arguments is found here, by clap. Nothing is read here, and no database of the user is
//! opened.

use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

use zipfdb::pack::{Elimination, PackCodec, PackOptions};

use zipfdb::Database;

use crate::error::without_place;
use crate::output::Format;

/// Query text that stays compressed, with SQL.
///
/// Runs the SQL given by -c and -f, in their order; without these, SQL from standard input if that is not a terminal
/// (each statement as it arrives), else a prompt. Without DB the database is in memory and gone at the end.
#[derive(Debug, Parser)]
#[command(
    name = "zipf",
    version,
    args_conflicts_with_subcommands = true,
    disable_help_subcommand = true,
    override_usage = "zipf [OPTIONS] [DB]\n       zipf grep [OPTIONS] DB REGEX [CORPUS]\n       \
                      zipf search [OPTIONS] DB QUERY [CORPUS]\n       zipf kwic [OPTIONS] DB CQL [CORPUS]\n       \
                      zipf demo [DIR]\n       zipf repair DB [TARGET]\n       zipf pack IN OUT --codec CODEC [OPTIONS]\n       zipf unpack IN OUT",
    after_help = TASKS_HELP,
    after_long_help = AFTER_LONG_HELP,
)]
pub struct Arguments {
    /// Directory of the database; the first change creates it if it is missing
    #[arg(value_name = "DB")]
    pub database: Option<PathBuf>,

    /// Run these statements; may be given several times
    #[arg(
        short = 'c',
        long = "command",
        value_name = "SQL",
        allow_hyphen_values = true
    )]
    commands: Vec<String>,

    /// Run the statements of this file (- is standard input); may be given several times
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    files: Vec<PathBuf>,

    /// How rows are printed [default: table on a terminal, csv otherwise]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub format: Option<Format>,

    /// Open the database for reading only; it must exist
    #[arg(long, requires = "database")]
    pub readonly: bool,

    /// Threads for imports and queries [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,

    /// Value of a parameter, `?1` or `:name`, of the statements: NAME=VALUE, NUMBER=VALUE, or that of the next number. 7, -1.5,
    /// NULL, 'text' and X'00' are what they are in SQL; anything else, also 007 and 1e5, is text
    #[arg(
        long = "param",
        value_name = "[NAME=]VALUE",
        allow_hyphen_values = true
    )]
    pub parameters: Vec<String>,

    /// Time after which a statement ends with an error, as SET statement_timeout takes it: 500, 5s, 2min
    #[arg(long, value_name = "TIME", value_parser = |value: &str| setting("statement_timeout", value))]
    timeout: Option<String>,

    /// Memory of a query before it uses the disk, as SET memory_limit takes it: 512MiB
    #[arg(long, value_name = "SIZE", value_parser = |value: &str| setting("memory_limit", value))]
    memory_limit: Option<String>,

    /// What to do instead of running SQL.
    #[command(subcommand)]
    pub subcommand: Option<Task>,

    #[arg(skip)]
    sources: Vec<Source>,
}

/// What the program can do besides running SQL.
#[derive(Debug, Subcommand)]
pub enum Task {
    /// Build a small database from bundled speeches, show its size and one query of each kind
    Demo {
        /// Where to build the database; must not exist yet [default: a fresh temporary directory, which is kept]
        #[arg(value_name = "DIR")]
        directory: Option<PathBuf>,
    },
    /// Copy all that can be read of a damaged database to a new one, and say what is lost
    #[command(after_help = REPAIR_HELP)]
    Repair {
        /// The damaged database; nothing is written to it. Close it everywhere first
        #[arg(value_name = "DB")]
        database: PathBuf,
        /// Where to build the new database; must not exist yet [default: DB.repaired]
        #[arg(value_name = "TARGET")]
        target: Option<PathBuf>,
    },
    /// Pack a file in blocks that are unpacked in parallel
    #[command(after_help = PACK_HELP)]
    Pack(PackArguments),
    /// Print the lines of a corpus that match a regular expression, as ripgrep does
    #[command(after_help = GREP_HELP)]
    Grep(GrepArguments),
    /// Print the files of a corpus that match a query, best first
    #[command(after_help = SEARCH_HELP)]
    Search(SearchArguments),
    /// Print a concordance: the places of a corpus that match a query in CQL, with the words around them
    #[command(after_help = KWIC_HELP)]
    Kwic(KwicArguments),
    /// Unpack a file that `zipf pack` has written, and check it
    #[command(after_help = UNPACK_HELP)]
    Unpack {
        /// The packed file; - for standard input
        #[arg(value_name = "IN")]
        source: PathBuf,
        /// The file to write; must not exist yet, unless it is a pipe or device; - for standard output
        #[arg(value_name = "OUT")]
        target: PathBuf,
    },
}

/// The corpus that a task searches. What to search for is the second argument.
#[derive(Debug, Args)]
pub struct CorpusArguments {
    /// The database
    #[arg(value_name = "DB", index = 1)]
    pub database: PathBuf,
    /// The corpus [default: the only one]
    #[arg(id = "CORPUS", value_name = "CORPUS", index = 3)]
    pub name: Option<String>,
    /// Whether to colour names, numbers and matches [default: auto]
    #[arg(long = "color", value_enum, value_name = "WHEN")]
    colour: Option<ColourChoice>,
    /// Threads for the search [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
}

/// When output is coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ColourChoice {
    /// On a terminal that wants it
    Auto,
    Always,
    Never,
}

impl CorpusArguments {
    /// Whether output is coloured; none if the terminal decides.
    pub fn is_coloured(&self) -> Option<bool> {
        match self.colour {
            None | Some(ColourChoice::Auto) => None,
            Some(choice) => Some(choice == ColourChoice::Always),
        }
    }
}

/// What `zipf grep` searches for, and what it prints.
#[derive(Debug, Args)]
pub struct GrepArguments {
    /// The regular expression, in the syntax of the Rust crate regex
    #[arg(value_name = "REGEX", allow_negative_numbers = true, index = 2)]
    regex: String,
    /// Ignore the case of letters
    #[arg(short = 'i', long)]
    ignore_case: bool,
    /// REGEX is a plain text
    #[arg(short = 'F', long)]
    fixed_strings: bool,
    /// Only whole words match
    #[arg(short = 'w', long)]
    word_regexp: bool,
    /// Let matches span several lines
    #[arg(short = 'U', long)]
    multiline: bool,
    /// Print the lines that do not match
    #[arg(short = 'v', long)]
    pub invert_match: bool,
    /// Print the number of each line; on a terminal always
    #[arg(short = 'n', long)]
    pub line_number: bool,
    /// Print the number of matching lines of each file; with -o that of matches
    #[arg(short = 'c', long, conflicts_with = "json")]
    pub count: bool,
    /// Print the names of files with matches
    #[arg(short = 'l', long, conflicts_with_all = ["json", "count"])]
    pub files_with_matches: bool,
    /// Print what matches, each match on its own line
    #[arg(short = 'o', long, conflicts_with_all = ["json", "invert_match"])]
    pub only_matching: bool,
    /// Print N lines after each matching line
    #[arg(short = 'A', long, value_name = "N")]
    after_context: Option<u64>,
    /// Print N lines before each matching line
    #[arg(short = 'B', long, value_name = "N")]
    before_context: Option<u64>,
    /// Print N lines before and after each matching line
    #[arg(
        short = 'C',
        long,
        value_name = "N",
        default_value_t = 0,
        hide_default_value = true
    )]
    context: u64,
    /// Stop after N lines of each file
    #[arg(short = 'm', long, value_name = "N")]
    pub max_count: Option<u64>,
    /// Print no names of files
    #[arg(short = 'I', long)]
    pub no_filename: bool,
    /// Print JSON objects, one a line, as `rg --json`
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub corpus: CorpusArguments,
}

impl GrepArguments {
    /// The expression of `grep()`.
    pub fn expression(&self) -> String {
        let mut expression = String::with_capacity(self.regex.len());
        if self.fixed_strings {
            for character in self.regex.chars() {
                if character.is_ascii_punctuation() {
                    expression.push('\\');
                }
                expression.push(character);
            }
        } else {
            expression.push_str(&self.regex);
        }
        if self.word_regexp {
            expression = format!(r"\b{{start-half}}(?:{expression})\b{{end-half}}");
        }
        expression
    }

    /// The flags of `grep()`.
    pub fn flags(&self) -> String {
        let mut flags = "m".to_owned();
        flags.extend(self.ignore_case.then_some('i'));
        flags.extend((!self.multiline).then_some('l'));
        flags
    }

    /// The numbers of lines before and after each.
    pub fn context(&self) -> (u64, u64) {
        let before = self.before_context.unwrap_or(self.context);
        let after = self.after_context.unwrap_or(self.context);
        (before, after)
    }
}

/// What `zipf search` searches for, and what it prints.
#[derive(Debug, Args)]
pub struct SearchArguments {
    /// The query, in the simple language
    #[arg(value_name = "QUERY", allow_negative_numbers = true, index = 2)]
    pub query: String,
    /// Print at most N files, 0 for all [default: 10]
    #[arg(long, value_name = "N")]
    pub limit: Option<u32>,
    /// Join terms by AND
    #[arg(long)]
    all: bool,
    /// Take any text for a query, and ignore what means nothing
    #[arg(long, conflicts_with = "all")]
    lenient: bool,
    /// Print the names of files only
    #[arg(short = 'l', long, conflicts_with = "json")]
    pub files_with_matches: bool,
    /// Print the number of files only, of all that match
    #[arg(short = 'c', long, conflicts_with_all = ["json", "files_with_matches", "limit"])]
    pub count: bool,
    /// Print JSON objects, one a line: file, score, hits
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub corpus: CorpusArguments,
}

impl SearchArguments {
    /// The mode of `search()`.
    pub fn mode(&self) -> &'static str {
        if self.all {
            "all"
        } else if self.lenient {
            "lenient"
        } else {
            "any"
        }
    }
}

/// What `zipf kwic` searches for, and what it prints.
#[derive(Debug, Args)]
pub struct KwicArguments {
    /// The query, in CQL
    #[arg(value_name = "CQL", allow_negative_numbers = true, index = 2)]
    pub query: String,
    /// Print N words before each hit [default: 8, with --bytes 40]
    #[arg(long, value_name = "N")]
    left: Option<u32>,
    /// Print N words behind each hit [default: 8, with --bytes 40]
    #[arg(long, value_name = "N")]
    right: Option<u32>,
    /// Count the text before and behind hits in bytes, not in words
    #[arg(long)]
    pub bytes: bool,
    /// Sort by these keys: R1, L1, H1, hit, file, position, captures, such as R1:i,-file
    #[arg(long, value_name = "KEYS", allow_hyphen_values = true)]
    pub sort: Option<String>,
    /// Draw a sample of N hits, or of P% of them
    #[arg(long, value_name = "N|P%")]
    pub sample: Option<String>,
    /// Seed of the sample: the same one draws the same hits [default: 0]
    #[arg(long, value_name = "N", requires = "sample")]
    pub seed: Option<u32>,
    /// Print at most N hits, 0 for all [default: 50]
    #[arg(long, value_name = "N")]
    pub limit: Option<u32>,
    /// Print the number of hits only, of all that match
    #[arg(short = 'c', long, conflicts_with_all = ["json", "limit", "sample"])]
    pub count: bool,
    /// Print no names of files
    #[arg(short = 'I', long, conflicts_with = "json")]
    pub no_filename: bool,
    /// Print JSON objects, one a line: file, position, words, offset, length, left, hit, right
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub corpus: CorpusArguments,
}

/// Words and bytes of text on each side of a hit.
const CONTEXT_WORDS: u32 = 8;
const CONTEXT_BYTES: u32 = 40;

impl KwicArguments {
    /// How much text there is before and behind each hit, in words or bytes.
    pub fn context(&self) -> (u32, u32) {
        let default = if self.bytes {
            CONTEXT_BYTES
        } else {
            CONTEXT_WORDS
        };
        (self.left.unwrap_or(default), self.right.unwrap_or(default))
    }
}

/// How a file is packed.
#[derive(Debug, Args)]
pub struct PackArguments {
    /// The file to pack; - for standard input
    #[arg(value_name = "IN")]
    pub source: PathBuf,
    /// The packed file; must not exist yet, unless it is a pipe or device; - for standard output
    #[arg(value_name = "OUT")]
    pub target: PathBuf,
    /// How blocks are coded
    #[arg(long, value_enum, value_name = "CODEC")]
    codec: CodecName,
    /// Use no match that needs another one near it, for GPUs
    #[arg(long)]
    de: bool,
    /// Bytes of text of a block, a power of two from 256 to 4194304 [default: 262144]
    #[arg(long, value_name = "N", value_parser = |value: &str| power_of_two(value, 1 << 8, 1 << 22))]
    block_size: Option<u32>,
    /// Bytes that a match goes back at most, a power of two from 256 to 65536 [default: 65536]
    #[arg(long, value_name = "N", value_parser = |value: &str| power_of_two(value, 1 << 8, 1 << 16))]
    window: Option<u32>,
    /// How hard to look for matches, 1 (fast) to 9 (small) [default: 6]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=9))]
    level: Option<u8>,
}

/// A codec, by its name here.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum CodecName {
    /// Matches and literals as they are: fastest to unpack
    Byte,
    /// The same in Huffman codes: smaller
    Bit,
}

impl PackArguments {
    /// The options that the arguments ask for.
    pub fn options(&self) -> PackOptions {
        let defaults = PackOptions::new(match self.codec {
            CodecName::Byte => PackCodec::Byte,
            CodecName::Bit => PackCodec::Bit,
        });
        PackOptions {
            elimination: if self.de {
                Elimination::References
            } else {
                Elimination::Off
            },
            block_size: self.block_size.unwrap_or(defaults.block_size),
            window: self.window.unwrap_or(defaults.window),
            level: self.level.unwrap_or(defaults.level),
            ..defaults
        }
    }
}

/// A power of two between two others.
fn power_of_two(value: &str, least: u32, most: u32) -> Result<u32, String> {
    let number = value.parse().ok();
    let is_allowed = |number: &u32| number.is_power_of_two() && (least..=most).contains(number);
    number
        .filter(is_allowed)
        .ok_or_else(|| format!("it is no power of two from {least} to {most}"))
}

/// Where SQL comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The argument of a -c.
    Text(String),
    /// The argument of a -f.
    File(PathBuf),
    /// `-f -`.
    StandardInput,
}

const TASKS_HELP: &str = "\
`zipf grep` prints the lines that match a regular expression, `zipf search` the files that match a query, `zipf kwic` words in their \
context, `zipf demo` builds a small database to try things on, `zipf repair` saves what can be read of a damaged one, `zipf pack` \
and `zipf unpack` pack files. A database that has the name of one of these is reached by a path: ./demo.";

const GREP_HELP: &str = "\
Lines end in line feeds. A match lies within a line, and ^ and $ are the ends of lines, unless -U lets matches span several lines.
Files come in order of name. On a terminal names stand above the lines of their file; elsewhere before each line.
A REGEX that begins with a minus stands behind --.

Exit codes: 0 there is a line, 1 there is none, 2 wrong usage, or the database could not be read.";

const SEARCH_HELP: &str = "\
Queries: fox, quick fox (one of the words or both), fox AND dog, +fox -dog, \"quick fox\"~3, qui*,
(a OR b) AND c, file:tales/*. docs/SEARCH.md describes all. A query that begins with a minus stands
behind --.
Each line has the score by BM25, the number of hits of all terms, and the file.

Exit codes: 0 there is a file, 1 there is none, 2 wrong usage, or the database could not be read.";

const KWIC_HELP: &str = "\
Queries: '\"freedom\"', '[word = \"free.*\" %c]', '\"the\" []{0,3} \"people\"', '\"end\" </s>'.
docs/SEARCH.md describes all. Each line has the file with the number of the first word, from 0, then
the hit between the text on both sides, in which white space is one space. Lines are cut to the
width of the terminal, or to 100 columns; --json cuts nothing.

Exit codes: 0 there is a hit, 1 there is none, 2 wrong usage, or the database could not be read.";

const PACK_HELP: &str = "\
The packed file is made of blocks that know nothing of each other: each is unpacked by a thread, or on a GPU by a warp, which
--de makes faster there and the file some percent larger.

IN and OUT may be pipes, and - is standard input or output. The sizes stand in front of a packed file: what comes from or goes to a
pipe lies in a temporary file until the end of IN. OUT has the permissions of IN.

Exit codes: 0 done, 1 the file could not be read or written, 2 wrong usage. A signal leaves no OUT.";

const UNPACK_HELP: &str = "\
IN and OUT may be pipes, and - is standard input or output: each block is checked before it is written. OUT has the permissions
of IN.

Exit codes: 0 done, 1 the file could not be read or written, 2 wrong usage. A signal leaves no OUT.";

const REPAIR_HELP: &str = "\
Every file of every segment is saved that can be decoded and has the right checksum, then the changes in the record log,
up to the first that cannot be read. The parts that are left of a file that is partly lost are saved as NAME and
NAME.from-BYTE. What is lost is listed on standard error.

Exit codes: 0 nothing is lost, 1 something is, or the new database could not be written, 2 wrong usage. An error or a signal
leaves no new database.";

const AFTER_LONG_HELP: &str = "\
Rows go to standard output, everything else (messages, notices, progress, times) to standard error.

Formats:
  table     for reading: control characters are shown as escapes, a cell is cut after 2,000 characters;
            if the terminal is too narrow for all columns, one line for each column of a row
  csv       RFC 4180 with a header line, lines end in LF; NULL is empty, an empty text is \"\"
  tsv       a header line; \\t \\n \\r \\\\ stand for tab, line feed, carriage return and backslash, \\N for NULL
  json      one array of objects for each statement
  jsonl     one object on each line
  markdown  a pipe table; control characters and | are escaped
A BLOB that is UTF-8 is printed as text, any other as X'hex' (in json and jsonl as {\"hex\":\"...\"}), infinity as 1e999. In csv,
tsv, json and jsonl, which are what COPY (SELECT ...) TO writes, a second column called x is x_2.

Lines that begin with a dot where a statement could begin are commands, at the prompt and in -c, -f and standard input: `.help`
lists them.

At the prompt Tab completes, Ctrl-C ends the statement that runs, and tables longer than the
screen go through $PAGER (less -SRFX if it is not set; `.pager off` or PAGER=cat for none).

Exit codes: 0 done, 1 a statement failed (the ones after it were not run), the database could not be used or standard
output could not be written, 2 wrong usage. If the reader of the output goes away (zipf ... | head), zipf stops quietly with 0.
Ctrl-C, SIGTERM and SIGHUP interrupt the statement that runs, which removes what it has not finished, and end zipf as signals
do (128 and the number of the signal in a shell); the second one ends it at once.

`zipf grep` prints the lines that match a regular expression, `zipf search` the files that match a query, `zipf kwic` words in
their context, `zipf demo` builds a small database to try things on, `zipf repair` saves what can be read of a damaged one,
`zipf pack` and `zipf unpack` pack files so that GPUs and many threads unpack them fast. A database that has the name of one of
these is reached by a path: ./demo.";

impl Arguments {
    /// Reads the arguments of this process.
    ///
    /// # Errors
    /// For wrong usage, and for `--help` and `--version` with what they ask for.
    pub fn read() -> Result<Arguments, clap::Error> {
        let matches = Arguments::command().try_get_matches()?;
        Arguments::from_matches(&matches)
    }

    /// The -c and -f arguments in the order in which they were given.
    pub fn sources(&self) -> &[Source] {
        &self.sources
    }

    /// Statements that change settings as the arguments say. They succeed on any database.
    pub fn settings(&self) -> impl Iterator<Item = &str> {
        let settings = [&self.timeout, &self.memory_limit];
        settings.into_iter().flatten().map(String::as_str)
    }

    fn from_matches(matches: &ArgMatches) -> Result<Arguments, clap::Error> {
        let mut arguments = Arguments::from_arg_matches(matches)?;
        for command in Arguments::command().get_subcommands() {
            let task = command.get_name();
            if arguments.subcommand.is_none()
                && arguments.database.as_deref() == Some(task.as_ref())
            {
                let problem = format!(
                    "`{task}` takes no options; hint: a database called {task} is ./{task}"
                );
                return Err(Arguments::command().error(ErrorKind::ArgumentConflict, problem));
            }
        }
        let indices = |id| matches.indices_of(id).into_iter().flatten();
        let texts = std::mem::take(&mut arguments.commands)
            .into_iter()
            .map(Source::Text);
        let files = std::mem::take(&mut arguments.files)
            .into_iter()
            .map(|path| {
                if path.as_os_str() == "-" {
                    Source::StandardInput
                } else {
                    Source::File(path)
                }
            });
        let mut sources: Vec<(usize, Source)> = indices("commands")
            .zip(texts)
            .chain(indices("files").zip(files))
            .collect();
        sources.sort_by_key(|(index, _)| *index);
        arguments.sources = sources.into_iter().map(|(_, source)| source).collect();
        Ok(arguments)
    }
}

/// The statement that gives a setting this value. Whether it is valid only the database knows, and an empty one is enough.
fn setting(name: &str, value: &str) -> Result<String, String> {
    let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    let statement = if is_number {
        format!("SET {name} = {value}")
    } else {
        format!("SET {name} = '{}'", value.replace('\'', "''"))
    };
    let database = Database::options().threads(1).in_memory();
    match database.and_then(|database| database.execute_batch(&statement)) {
        Ok(()) => Ok(statement),
        Err(error) => Err(without_place(&error)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Arguments, clap::Error> {
        let all = std::iter::once("zipf").chain(arguments.iter().copied());
        Arguments::command()
            .try_get_matches_from(all)
            .and_then(|matches| Arguments::from_matches(&matches))
    }

    #[test]
    fn the_definition_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn sources_keep_their_order() {
        let arguments = parse(&[
            "-c",
            "a",
            "db",
            "-f",
            "x.sql",
            "--command",
            "-- b",
            "-f",
            "-",
        ])
        .unwrap();
        assert_eq!(arguments.database.as_deref(), Some("db".as_ref()));
        assert_eq!(
            arguments.sources(),
            [
                Source::Text("a".into()),
                Source::File("x.sql".into()),
                Source::Text("-- b".into()),
                Source::StandardInput
            ]
        );
    }

    #[test]
    fn settings_become_statements() {
        let arguments = parse(&["--memory-limit", "64MiB", "--timeout", "1500"]).unwrap();
        let statements: Vec<&str> = arguments.settings().collect();
        assert_eq!(
            statements,
            ["SET statement_timeout = 1500", "SET memory_limit = '64MiB'"]
        );
    }

    #[test]
    fn a_database_called_demo_is_reached_by_a_path() {
        let is_demo = |arguments: &[&str]| parse(arguments).unwrap().subcommand.is_some();
        assert!(is_demo(&["demo"]));
        assert!(is_demo(&["demo", "somewhere"]));
        assert!(!is_demo(&["./demo"]));
        assert!(!is_demo(&["--format", "csv", "./demo"]));
        assert!(!is_demo(&["help"]));
    }

    #[test]
    fn options_of_pack_are_those_of_the_codec_unless_given() {
        let options = |arguments: &[&str]| {
            let all = [&["pack", "in", "out", "--codec"], arguments].concat();
            let Some(Task::Pack(arguments)) = parse(&all).unwrap().subcommand else {
                panic!("{all:?}");
            };
            arguments.options()
        };
        assert_eq!(options(&["byte"]), PackOptions::new(PackCodec::Byte));
        let all = [
            "bit",
            "--de",
            "--block-size",
            "65536",
            "--window",
            "8192",
            "--level",
            "9",
        ];
        let expected = PackOptions {
            elimination: Elimination::References,
            block_size: 65_536,
            window: 8_192,
            level: 9,
            ..PackOptions::new(PackCodec::Bit)
        };
        assert_eq!(options(&all), expected);
    }

    #[test]
    fn options_of_grep_become_an_expression_with_flags() {
        let expression = |arguments: &[&str]| {
            let all = [&["grep", "db"], arguments].concat();
            let Some(Task::Grep(arguments)) = parse(&all).unwrap().subcommand else {
                panic!("{all:?}");
            };
            (arguments.expression(), arguments.flags())
        };
        assert_eq!(expression(&["a.b"]), ("a.b".into(), "ml".into()));
        assert_eq!(
            expression(&["-F", "-i", "a.b-c"]),
            ("a\\.b\\-c".into(), "mil".into())
        );
        assert_eq!(
            expression(&["a|b", "-wU"]),
            (r"\b{start-half}(?:a|b)\b{end-half}".into(), "m".into())
        );
        assert_eq!(expression(&["-1", "c"]), ("-1".into(), "ml".into()));
    }

    #[test]
    fn wrong_usage_is_refused() {
        for arguments in [
            &["--format", "xml"][..],
            &["--threads", "0"],
            &["--timeout", "soon"],
            &["--timeout", ""],
            &["--memory-limit", "1"],
            &["--threads", "many"],
            &["--readonly"],
            &["-c"],
            &["one", "two"],
            &["--format", "csv", "demo"],
            &["--", "demo"],
            &["demo", "one", "two"],
            &["demo", "--threads", "2"],
            &["repair"],
            &["repair", "one", "two", "three"],
            &["--format", "csv", "repair"],
            &["pack", "in", "out"],
            &["pack", "in", "--codec", "bit"],
            &["pack", "in", "out", "--codec", "zip"],
            &[
                "pack",
                "in",
                "out",
                "--codec",
                "bit",
                "--block-size",
                "1000",
            ],
            &["pack", "in", "out", "--codec", "bit", "--window", "131072"],
            &["pack", "in", "out", "--codec", "bit", "--level", "10"],
            &["unpack", "in"],
            &["grep", "db"],
            &["grep", "db", "a", "-m", "few"],
            &["grep", "db", "a", "-c", "-l"],
            &["search", "db"],
            &["search", "db", "a", "--limit", "few"],
            &["search", "db", "a", "--all", "--lenient"],
            &["search", "db", "a", "-c", "-l"],
            &["search", "db", "a", "-l", "--json"],
            &["search", "db", "a", "c", "d"],
            &["kwic", "db"],
            &["kwic", "db", "a", "--left", "-1"],
            &["kwic", "db", "a", "--seed", "1"],
            &["kwic", "db", "a", "--count", "--json"],
            &["kwic", "db", "a", "--count", "--sample", "1"],
            &["--format", "csv", "search"],
            &["--", "kwic"],
            &["--format", "csv", "grep"],
            &["--format", "csv", "unpack"],
        ] {
            assert_eq!(
                parse(arguments).unwrap_err().exit_code(),
                2,
                "{arguments:?}"
            );
        }
    }
}
