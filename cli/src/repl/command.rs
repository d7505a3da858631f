//! The dot commands of the prompt: their names, arguments and help.
//!
//! Invariant: parsing is the only thing that happens here; a wrong command gives a text that says what is right.

use clap::ValueEnum;

use crate::output::Format;

/// A dot command. A missing argument asks for the present setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// `.help`
    Help,
    /// `.corpora`
    Corpora,
    /// `.mode [FORMAT]`
    Mode(Option<Format>),
    /// `.timer [on|off]`
    Timer(Option<bool>),
    /// `.quit`, `.exit`
    Quit,
}

const HELP: &[(&str, &str)] = &[
    (
        ".corpora",
        "list the corpora, as SELECT * FROM corpora() does",
    ),
    (".exit", "leave, as .quit and Ctrl-D do"),
    (".help", "show this"),
    (".mode [FORMAT]", "show or set how rows are printed"),
    (".quit", "leave"),
    (".timer [on|off]", "show or set whether times are shown"),
];

/// The page that `.help` shows.
pub fn help() -> String {
    let mut page = String::new();
    for (usage, text) in HELP {
        page.push_str(&format!("{usage:<17} {text}\n"));
    }
    let formats: Vec<&str> = Format::names().collect();
    page.push_str(&format!("Formats: {}.\n", formats.join(", ")));
    page.push_str("Anything else is SQL, over as many lines as it takes, up to a semicolon:\n");
    page.push_str("  CREATE CORPUS c;  COPY c FROM 'path';\n");
    page.push_str(
        "  SELECT word, COUNT(*) AS n FROM c GROUP BY word ORDER BY n DESC, word LIMIT 10;",
    );
    page
}

impl Command {
    /// True if a line that begins no statement is meant as a command: it begins with a dot, or is what people type
    /// to get out of any prompt.
    pub fn is_command(line: &str) -> bool {
        let line = line.trim().trim_end_matches(';');
        line.starts_with('.') || matches!(line, "quit" | "exit" | "help")
    }

    /// Reads a command line, or says what is wrong with it.
    pub fn parse(line: &str) -> Result<Command, String> {
        // Whoever is used to SQL ends a command like a statement.
        let line = line.trim().trim_end_matches(';');
        let mut words = line.split_whitespace();
        let name = words.next().unwrap_or_default();
        let argument = words.next();
        if words.next().is_some() {
            return Err(format!(
                "`{name}` takes at most one argument; hint: .help lists the commands"
            ));
        }
        let command = match name {
            ".help" | "help" => Command::Help,
            ".corpora" => Command::Corpora,
            ".quit" | ".exit" | "quit" | "exit" => Command::Quit,
            ".mode" => return parse_mode(argument),
            ".timer" => return parse_timer(argument),
            _ => {
                return Err(unknown(
                    "command",
                    name,
                    HELP.iter().map(|(usage, _)| first_word(usage)),
                ));
            }
        };
        match argument {
            None => Ok(command),
            Some(argument) => Err(format!("`{name}` takes no argument, found `{argument}`")),
        }
    }
}

fn parse_mode(argument: Option<&str>) -> Result<Command, String> {
    match argument {
        None => Ok(Command::Mode(None)),
        Some(name) => match Format::from_str(name, true) {
            Ok(format) => Ok(Command::Mode(Some(format))),
            Err(_) => Err(unknown("format", name, Format::names())),
        },
    }
}

fn parse_timer(argument: Option<&str>) -> Result<Command, String> {
    match argument {
        None => Ok(Command::Timer(None)),
        Some("on") => Ok(Command::Timer(Some(true))),
        Some("off") => Ok(Command::Timer(Some(false))),
        Some(other) => Err(format!("`.timer` takes `on` or `off`, found `{other}`")),
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
    match nearest {
        Some((_, known)) => format!("no such {kind} `{name}`; hint: did you mean `{known}`?"),
        None => format!("no such {kind} `{name}`; hint: .help lists the {kind}s"),
    }
}

fn first_word(usage: &str) -> &str {
    usage.split(' ').next().unwrap_or(usage)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn commands_are_read() {
        assert_eq!(Command::parse(".help"), Ok(Command::Help));
        assert_eq!(Command::parse(" .corpora ; "), Ok(Command::Corpora));
        assert_eq!(Command::parse(".mode"), Ok(Command::Mode(None)));
        assert_eq!(
            Command::parse(".mode CSV"),
            Ok(Command::Mode(Some(Format::Csv)))
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
            "`.quit` takes no argument, found `now`"
        );
    }

    #[test]
    fn every_command_is_in_the_help() {
        for name in [".corpora", ".exit", ".help", ".mode", ".quit", ".timer"] {
            assert!(help().contains(&format!("{name} ")), "{name}");
        }
    }
}
