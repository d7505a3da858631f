//! The dot commands: their names, arguments and help. What they do is in `action`.
//!
//! Invariant: parsing is the only thing that happens here; a wrong command gives a text that says what is right.

pub mod action;

use std::path::PathBuf;

use clap::ValueEnum;
use zipfdb::internal::shorten;

use crate::output::Format;

/// A dot command. A missing argument asks for the present setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// `.help`
    Help,
    /// `.corpora`
    Corpora,
    /// `.devices`
    Devices,
    /// `.export CORPUS DIR`
    Export {
        /// Whose files are written.
        corpus: String,
        /// Where to.
        directory: PathBuf,
    },
    /// `.export FILE SELECT ...`
    ExportRows {
        /// The file to write.
        path: String,
        /// Whose rows.
        select: String,
    },
    /// `.import PATH CORPUS`
    Import {
        /// A file, a directory or a glob.
        path: PathBuf,
        /// Where its files go.
        corpus: String,
    },
    /// `.mode [FORMAT]`
    Mode(Option<Format>),
    /// `.pager [on|off]`
    Pager(Option<bool>),
    /// `.parameter list`
    ListParameters,
    /// `.parameter set NAME VALUE`
    SetParameter {
        /// The name, or the number.
        name: String,
        /// The value as it was written.
        value: String,
    },
    /// `.parameter clear [NAME]`
    ClearParameters(Option<String>),
    /// `.indexes CORPUS`
    Indexes(String),
    /// `.quit`, `.exit`
    Quit,
    /// `.read FILE`
    Read(PathBuf),
    /// `.schema [CORPUS]`
    Schema(Option<String>),
    /// `.settings`
    Settings,
    /// `.timer [on|off]`
    Timer(Option<bool>),
}

/// What an argument is, for completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Argument {
    /// The name of a corpus.
    Corpus,
    /// A corpus, or the path of a file.
    CorpusOrPath,
    /// The name of a format.
    Format,
    /// What to do about parameters.
    ParameterAction,
    /// A path.
    Path,
    /// `on` or `off`.
    Switch,
}

struct About {
    name: &'static str,
    usage: &'static str,
    arguments: &'static [Argument],
    text: &'static str,
}

const fn about(
    name: &'static str,
    usage: &'static str,
    arguments: &'static [Argument],
    text: &'static str,
) -> About {
    About {
        name,
        usage,
        arguments,
        text,
    }
}

const ALL: &[About] = &[
    about(
        ".corpora",
        "",
        &[],
        "list the corpora, as SELECT * FROM corpora() does",
    ),
    about(
        ".devices",
        "",
        &[],
        "list the GPUs, as SELECT * FROM devices() does",
    ),
    about(".exit", "", &[], "leave, as .quit and Ctrl-D do"),
    about(
        ".export",
        "CORPUS DIR",
        &[Argument::CorpusOrPath, Argument::Path],
        "write the files of a corpus below a directory; .export FILE SELECT ... writes rows in the format of the extension",
    ),
    about(".help", "", &[], "show this"),
    about(
        ".import",
        "PATH CORPUS",
        &[Argument::Path, Argument::Corpus],
        "copy a file, a directory or a glob into a corpus, which is created if there is none",
    ),
    about(
        ".indexes",
        "CORPUS",
        &[Argument::Corpus],
        "list the indexes of a corpus, as SELECT * FROM indexes('CORPUS') does",
    ),
    about(
        ".mode",
        "[FORMAT]",
        &[Argument::Format],
        "show or set how rows are printed",
    ),
    about(
        ".pager",
        "[on|off]",
        &[Argument::Switch],
        "show or set whether results longer than the screen go through $PAGER",
    ),
    about(
        ".parameter",
        "set NAME VALUE|list|clear [NAME]",
        &[Argument::ParameterAction],
        "set a parameter (?1, :name) of the statements that follow, list all, forget one or all",
    ),
    about(".quit", "", &[], "leave"),
    about(
        ".read",
        "FILE",
        &[Argument::Path],
        "run the statements of a file, up to the first that fails",
    ),
    about(
        ".schema",
        "[CORPUS]",
        &[Argument::Corpus],
        "show the statement that creates a corpus, and its columns; all corpora without a name",
    ),
    about(".settings", "", &[], "list what SET can change"),
    about(
        ".timer",
        "[on|off]",
        &[Argument::Switch],
        "show or set whether times are shown",
    ),
];

/// The page that `.help` shows.
pub fn help() -> String {
    let mut page = String::new();
    for about in ALL {
        let usage = format!("{} {}", about.name, about.usage);
        page.push_str(&format!("{usage:<20} {}\n", about.text));
    }
    let formats: Vec<&str> = Format::names().collect();
    page.push_str(&format!("Formats: {}.\n", formats.join(", ")));
    page.push_str("Arguments with spaces are written in quotes. Tab completes; Ctrl-C ends a statement that runs.\n");
    page.push_str("Anything else is SQL, over as many lines as it takes, up to a semicolon:\n");
    page.push_str("  CREATE CORPUS c;  COPY c FROM 'path';\n");
    page.push_str(
        "  SELECT word, COUNT(*) AS n FROM c GROUP BY word ORDER BY n DESC, word LIMIT 10;",
    );
    page
}

/// The names of all commands.
pub fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|about| about.name)
}

/// What arguments a command takes.
pub fn arguments(name: &str) -> &'static [Argument] {
    let found = ALL.iter().find(|about| about.name == name);
    found.map_or(&[], |about| about.arguments)
}

impl Command {
    /// True if a line of a file that begins no statement is meant as a command.
    pub fn is_command_of_file(line: &str) -> bool {
        line.trim_start().starts_with('.')
    }

    /// True if a line that begins no statement is meant as a command: it begins with a dot, or is what people type
    /// to get out of any prompt.
    pub fn is_command(line: &str) -> bool {
        let line = line.trim().trim_end_matches(';');
        line.starts_with('.') || matches!(line, "quit" | "exit" | "help")
    }

    /// Reads a command line, or says what is wrong with it.
    pub fn parse(line: &str) -> Result<Command, String> {
        // Commands may end with `;`, as statements do.
        let line = line.trim().trim_end_matches(';').trim_end();
        let (name, rest) = line.split_at(line.find(char::is_whitespace).unwrap_or(line.len()));
        let name = match name {
            "quit" | "exit" | "help" => &format!(".{name}"),
            name => name,
        };
        let Some(about) = ALL.iter().find(|about| about.name == name) else {
            return Err(unknown("command", name, names()));
        };
        let usage = || {
            format!("usage: {} {}", about.name, about.usage)
                .trim_end()
                .to_string()
        };
        if about.name == ".export"
            && let Some((path, select)) = split_argument(rest)?
            && select
                .get(..6)
                .is_some_and(|word| word.eq_ignore_ascii_case("select"))
        {
            let select = select.to_string();
            return Ok(Command::ExportRows { path, select });
        }
        if about.name == ".parameter" {
            return parameter_command(rest)?.ok_or_else(|| format!("hint: {}", usage()));
        }
        let mut arguments = Vec::new();
        let mut rest = rest;
        while let Some((argument, after)) = split_argument(rest)? {
            arguments.push(argument);
            rest = after;
        }
        if arguments.len() > about.arguments.len() {
            let count =
                ["no argument", "one argument", "two arguments"][about.arguments.len().min(2)];
            let first = shorten(&arguments[about.arguments.len()]);
            return Err(format!(
                "`{name}` takes {count}, found `{first}`; hint: {}",
                usage()
            ));
        }
        let mut arguments = arguments.into_iter();
        let mut required = || {
            arguments
                .next()
                .ok_or_else(|| format!("`{name}` lacks an argument; hint: {}", usage()))
        };
        Ok(match about.name {
            ".corpora" => Command::Corpora,
            ".devices" => Command::Devices,
            ".export" => Command::Export {
                corpus: required()?,
                directory: required()?.into(),
            },
            ".help" => Command::Help,
            ".import" => Command::Import {
                path: required()?.into(),
                corpus: required()?,
            },
            ".indexes" => Command::Indexes(required()?),
            ".mode" => Command::Mode(arguments.next().map(|name| format(&name)).transpose()?),
            ".pager" => Command::Pager(
                arguments
                    .next()
                    .map(|word| switch(name, &word))
                    .transpose()?,
            ),
            ".read" => Command::Read(required()?.into()),
            ".schema" => Command::Schema(arguments.next()),
            ".settings" => Command::Settings,
            ".timer" => Command::Timer(
                arguments
                    .next()
                    .map(|word| switch(name, &word))
                    .transpose()?,
            ),
            _ => Command::Quit,
        })
    }
}

/// What `.parameter` is to do; none if that is not said.
fn parameter_command(text: &str) -> Result<Option<Command>, String> {
    let Some((action, rest)) = split_argument(text)? else {
        return Ok(None);
    };
    let first = split_argument(rest)?;
    Ok(match (action.as_str(), first) {
        ("list", None) => Some(Command::ListParameters),
        ("clear", None) => Some(Command::ClearParameters(None)),
        ("clear", Some((name, ""))) => Some(Command::ClearParameters(Some(name))),
        // Quotes around the value are part of it: they say that it is text.
        ("set", Some((name, value))) if !value.is_empty() => Some(Command::SetParameter {
            name,
            value: value.to_owned(),
        }),
        _ => None,
    })
}

/// How many arguments stand before the last one of a line that is being typed, and where that begins.
pub fn last_argument(text: &str) -> (usize, usize) {
    let mut count = 0;
    let mut start = text.len() - text.trim_start().len();
    loop {
        match split_argument(&text[start..]) {
            // Quotes that are open, or nothing behind it: this is the last.
            Err(_) | Ok(None) => return (count, start),
            Ok(Some((_, rest))) => {
                let ends = rest.is_empty() && !text.ends_with(char::is_whitespace);
                if ends {
                    return (count, start);
                }
                count += 1;
                start = text.len() - rest.len();
            }
        }
    }
}

/// An argument as it is written: in quotes if it would not be one otherwise.
pub fn quoted(argument: &str) -> String {
    let is_bare = !argument.is_empty()
        && !argument.starts_with(['\'', '"'])
        && !argument.contains(char::is_whitespace);
    if is_bare {
        argument.to_string()
    } else {
        format!("'{}'", argument.replace('\'', "''"))
    }
}

/// The first argument of a text and what follows it. Quotes of either kind keep spaces; a quote in them is written twice.
fn split_argument(text: &str) -> Result<Option<(String, &str)>, String> {
    let text = text.trim_start();
    let Some(first) = text.chars().next() else {
        return Ok(None);
    };
    if !matches!(first, '\'' | '"') {
        let (word, rest) = text.split_at(text.find(char::is_whitespace).unwrap_or(text.len()));
        return Ok(Some((word.to_string(), rest.trim_start())));
    }
    let mut argument = String::new();
    let mut rest = &text[1..];
    while let Some(end) = rest.find(first) {
        argument.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        if !rest.starts_with(first) {
            return Ok(Some((argument, rest.trim_start())));
        }
        argument.push(first);
        rest = &rest[1..];
    }
    Err(format!("a quote ({first}) is not closed"))
}

fn format(name: &str) -> Result<Format, String> {
    Format::from_str(name, true).map_err(|_| unknown("format", name, Format::names()))
}

fn switch(command: &str, word: &str) -> Result<bool, String> {
    match word {
        "on" => Ok(true),
        "off" => Ok(false),
        other => Err(format!(
            "`{command}` takes `on` or `off`, found `{}`",
            shorten(other)
        )),
    }
}

/// Complains about a name and suggests one that is spelled nearly like it.
fn unknown<'a>(kind: &str, name: &str, names: impl Iterator<Item = &'a str>) -> String {
    let nearest = names
        .map(|known| {
            (
                strsim::damerau_levenshtein(&name.to_lowercase(), known),
                known,
            )
        })
        .filter(|(distance, known)| *distance <= known.len() / 2)
        .min();
    let name = shorten(name);
    match nearest {
        Some((_, known)) => format!("no such {kind} `{name}`; hint: did you mean `{known}`?"),
        None => format!("no such {kind} `{name}`; hint: .help lists the {kind}s"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use zipfdb::output::RowFormat;

    #[test]
    fn commands_are_read() {
        assert_eq!(Command::parse(".help"), Ok(Command::Help));
        assert_eq!(Command::parse(" .corpora ; "), Ok(Command::Corpora));
        assert_eq!(Command::parse(".mode"), Ok(Command::Mode(None)));
        assert_eq!(
            Command::parse(".mode CSV"),
            Ok(Command::Mode(Some(Format::Rows(RowFormat::Csv))))
        );
        assert_eq!(
            Command::parse(".timer off"),
            Ok(Command::Timer(Some(false)))
        );
        assert_eq!(Command::parse(".quit"), Ok(Command::Quit));
        assert_eq!(Command::parse(".exit"), Ok(Command::Quit));
        assert_eq!(Command::parse("exit;"), Ok(Command::Quit));
    }

    #[test]
    fn arguments_may_be_quoted() {
        assert_eq!(
            Command::parse(".import 'my mail/*.eml' \"it's\""),
            Ok(Command::Import {
                path: "my mail/*.eml".into(),
                corpus: "it's".into()
            })
        );
        assert_eq!(
            Command::parse(".read 'it''s'"),
            Ok(Command::Read("it's".into()))
        );
        assert_eq!(
            Command::parse(".read 'it"),
            Err("a quote (') is not closed".into())
        );
        for argument in ["plain", "with space", "it's", "'", "a\tb", ""] {
            assert_eq!(
                split_argument(&quoted(argument)),
                Ok(Some((argument.to_string(), "")))
            );
        }
    }

    #[test]
    fn export_takes_a_corpus_or_a_query() {
        assert_eq!(
            Command::parse(".export notes 'a b'"),
            Ok(Command::Export {
                corpus: "notes".into(),
                directory: "a b".into()
            })
        );
        assert_eq!(
            Command::parse(".export n.csv select word, 'a  b' FROM notes;"),
            Ok(Command::ExportRows {
                path: "n.csv".into(),
                select: "select word, 'a  b' FROM notes".into()
            })
        );
        assert_eq!(
            Command::parse(".export notes"),
            Err("`.export` lacks an argument; hint: usage: .export CORPUS DIR".into())
        );
    }

    #[test]
    fn parameters_are_set_with_their_quotes() {
        let set = |name: &str, value: &str| {
            Ok(Command::SetParameter {
                name: name.into(),
                value: value.into(),
            })
        };
        assert_eq!(
            Command::parse(".parameter set :w 'it''s'"),
            set(":w", "'it''s'")
        );
        assert_eq!(
            Command::parse(".parameter set 2 two words;"),
            set("2", "two words")
        );
        assert_eq!(
            Command::parse(".parameter list"),
            Ok(Command::ListParameters)
        );
        assert_eq!(
            Command::parse(".parameter clear"),
            Ok(Command::ClearParameters(None))
        );
        assert_eq!(
            Command::parse(".parameter clear ?1"),
            Ok(Command::ClearParameters(Some("?1".into())))
        );
        for wrong in [
            ".parameter",
            ".parameter set",
            ".parameter set x",
            ".parameter lst",
            ".parameter clear a b",
        ] {
            assert_eq!(
                Command::parse(wrong),
                Err("hint: usage: .parameter set NAME VALUE|list|clear [NAME]".into()),
                "{wrong}"
            );
        }
    }

    #[test]
    fn the_last_argument_is_found() {
        assert_eq!(last_argument(" "), (0, 1));
        assert_eq!(last_argument(" a"), (0, 1));
        assert_eq!(last_argument(" 'a b"), (0, 1));
        assert_eq!(last_argument(" a "), (1, 3));
        assert_eq!(last_argument(" 'a b' c"), (1, 7));
    }

    #[test]
    fn sql_is_not_a_command() {
        assert!(Command::is_command(" .mode csv"));
        assert!(Command::is_command("quit;"));
        assert!(!Command::is_command("SELECT .5;"));
        assert!(!Command::is_command("help me"));
    }

    #[test]
    fn unknown_names_get_a_suggestion() {
        let problem = |line| Command::parse(line).unwrap_err();
        assert_eq!(
            problem(".hlep"),
            "no such command `.hlep`; hint: did you mean `.help`?"
        );
        assert_eq!(
            problem(".time"),
            "no such command `.time`; hint: did you mean `.timer`?"
        );
        assert_eq!(
            problem(".xyzzy"),
            "no such command `.xyzzy`; hint: .help lists the commands"
        );
        assert_eq!(
            problem(".mode jason"),
            "no such format `jason`; hint: did you mean `json`?"
        );
        assert_eq!(
            problem(".mode 7"),
            "no such format `7`; hint: .help lists the formats"
        );
        assert_eq!(
            problem(".timer 1"),
            "`.timer` takes `on` or `off`, found `1`"
        );
        assert_eq!(
            problem(".quit now"),
            "`.quit` takes no argument, found `now`; hint: usage: .quit"
        );
    }

    #[test]
    fn every_command_is_in_the_help() {
        let help = help();
        for name in names() {
            let lines = help
                .lines()
                .filter(|line| line.starts_with(&format!("{name} ")));
            assert_eq!(lines.count(), 1, "{name}");
        }
    }
}
