//! The command line: options, the demo subcommand and the order of the SQL sources.
//!
//! Invariant: whatever is wrong with the arguments is found here, by clap. Nothing is read here, and no database of the user is
//! opened.

use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

use zipfdb::pack::{Elimination, PackCodec, PackOptions};

use zipfdb::Database;

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
    override_usage = "zipf [OPTIONS] [DB]\n       zipf demo [DIR]\n       zipf repair DB [TARGET]\n       \
                      zipf pack IN OUT --codec CODEC [OPTIONS]\n       zipf unpack IN OUT",
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
`zipf demo` builds a small database to try things on, `zipf repair` saves what can be read of a damaged one, `zipf pack` and \
`zipf unpack` pack files. Databases called demo, repair, pack and unpack are ./demo, ./repair, ./pack and ./unpack.";

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

`zipf demo` builds a small database to try things on, `zipf repair` saves what can be read of a damaged one, `zipf pack` and
`zipf unpack` pack files so that GPUs and many threads unpack them fast. Databases called demo, repair, pack and unpack are ./demo,
./repair, ./pack and ./unpack.";

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
        for task in ["demo", "repair", "pack", "unpack"] {
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
        Err(error) => {
            let text = error.to_string();
            // The place in the statement means nothing to the user.
            Err(match &error {
                zipfdb::Error::Sql(sql) => text
                    .strip_prefix(&format!("{}: ", sql.position()))
                    .unwrap_or(&text)
                    .to_string(),
                _ => text,
            })
        }
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
