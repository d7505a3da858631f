//! The prompt on a pseudo-terminal: what a person sees, types and gets.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use nix::pty::{Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{DEADLINE, IMPORT, SLOW, directory_with_long_file, zipf};

pub struct Typist {
    child: Child,
    keyboard: File,
    screen: Receiver<Vec<u8>>,
    /// All that was shown since the last time something was waited for.
    shown: String,
}

impl Typist {
    fn start(state: &Path, arguments: &[&str]) -> Typist {
        let mut command = Command::new(zipf().get_program());
        command.args(arguments);
        Typist::start_command(command, state, None)
    }

    /// Starts it in a session that has no terminal but the one that is typed at, with another standard output.
    pub fn without_terminal(state: &Path, output: Stdio) -> Typist {
        let mut command = Command::new("setsid");
        command.arg(zipf().get_program());
        Typist::start_command(command, state, Some(output))
    }

    fn start_command(mut command: Command, state: &Path, output: Option<Stdio>) -> Typist {
        let size = Winsize {
            ws_row: 50,
            ws_col: 100,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        let terminal = openpty(Some(&size), None).unwrap();
        let end = || terminal.slave.try_clone().unwrap();
        let child = command
            .env("XDG_STATE_HOME", state)
            .env("TERM", "xterm")
            .env("NO_COLOR", "1")
            // Marks what went through it.
            .env("PAGER", "sed s/^/paged:/")
            .current_dir(state)
            .stdin(end())
            .stdout(output.unwrap_or_else(|| end().into()))
            .stderr(end())
            .spawn()
            .unwrap();
        // The ends that it holds.
        drop((terminal.slave, command));
        let keyboard = File::from(terminal.master);
        let mut source = keyboard.try_clone().unwrap();
        let (sender, screen) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // Reading fails when the other end is closed.
            while let Ok(read @ 1..) = source.read(&mut buffer) {
                if sender.send(buffer[..read].to_vec()).is_err() {
                    break;
                }
            }
        });
        Typist {
            child,
            keyboard,
            screen,
            shown: String::new(),
        }
    }

    /// Waits until `text` was shown and returns all up to its end.
    fn wait_for(&mut self, text: &str) -> String {
        loop {
            if let Some(at) = self.shown.find(text) {
                let rest = self.shown.split_off(at + text.len());
                return std::mem::replace(&mut self.shown, rest);
            }
            match self.screen.recv_timeout(DEADLINE) {
                Ok(bytes) => self.shown.push_str(&String::from_utf8_lossy(&bytes)),
                Err(_) => panic!("waited for {text:?}, got {:?}", self.shown),
            }
        }
    }

    /// Interrupts until `text` is shown, for a signal between two statements reaches none. What the terminal does on
    /// Ctrl-C is done here, for it is not the controlling one of the program.
    fn interrupt_until(&mut self, text: &str) {
        // Longer than any run of the test takes, for whatever hangs.
        for _ in 0..DEADLINE.as_secs() {
            kill(self.process(), Signal::SIGINT).unwrap();
            while let Ok(bytes) = self.screen.recv_timeout(Duration::from_secs(1)) {
                self.shown.push_str(&String::from_utf8_lossy(&bytes));
                if self.shown.contains(text) {
                    self.wait_for(text);
                    return;
                }
            }
        }
        panic!("waited for {text:?}, got {:?}", self.shown);
    }

    fn process(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).unwrap())
    }

    /// The signal that has ended it.
    fn end_by_signal(mut self) -> Option<i32> {
        while self.screen.recv_timeout(DEADLINE).is_ok() {}
        self.child.wait().unwrap().signal()
    }

    fn type_keys(&mut self, keys: &str) {
        self.type_bytes(keys.as_bytes());
    }

    fn type_bytes(&mut self, bytes: &[u8]) {
        self.keyboard.write_all(bytes).unwrap();
    }

    fn end(self) -> Option<i32> {
        self.end_and_messages().0
    }

    /// The exit code, and what was shown since the last time something was waited for.
    pub fn end_and_messages(mut self) -> (Option<i32>, String) {
        // Whatever is shown now must not block the program.
        while let Ok(bytes) = self.screen.recv_timeout(DEADLINE) {
            self.shown.push_str(&String::from_utf8_lossy(&bytes));
        }
        (self.child.wait().unwrap().code(), self.shown)
    }
}

#[test]
fn statements_commands_and_keys_work_on_a_terminal() {
    let state = tempfile::tempdir().unwrap();
    let mut typist = Typist::start(state.path(), &[]);
    let greeting = typist.wait_for("zipf> ");
    assert!(greeting.contains("in memory"), "{greeting}");

    typist.type_keys("CREATE CORPUS\r");
    typist.wait_for(" ...> ");
    typist.type_keys("typed;\r");
    typist.wait_for("zipf> ");

    // Ctrl-C forgets what was begun.
    typist.type_keys("SELECT nonsense\r");
    typist.wait_for(" ...> ");
    typist.type_keys("more\u{3}");
    typist.wait_for("zipf> ");

    // An error is shown, and the prompt comes back.
    typist.type_keys("DROP CORPUS tped;\r");
    let shown = typist.wait_for("zipf> ");
    assert!(
        shown.contains("error: ") && shown.contains("did you mean"),
        "{shown}"
    );

    typist.type_keys(".mode jsonl\r");
    typist.wait_for("zipf> ");
    typist.type_keys("SELECT corpus FROM corpora();\r");
    let shown = typist.wait_for("zipf> ");
    assert!(shown.contains("{\"corpus\":\"typed\"}"), "{shown}");
    assert!(shown.contains("1 row in "), "{shown}");

    typist.type_keys(".hlep\r");
    typist.wait_for("did you mean `.help`?");
    typist.wait_for("zipf> ");
    typist.type_keys("\u{4}");
    assert_eq!(typist.end(), Some(0));

    // The next session remembers; the statement of two lines is one entry.
    let history = std::fs::read_to_string(state.path().join("zipf/history")).unwrap();
    assert!(history.contains("CREATE CORPUS\\ntyped;"), "{history}");
    let mut typist = Typist::start(state.path(), &["x.zdb"]);
    typist.wait_for("zipf> ");
    typist.type_keys("\u{1b}[A");
    typist.wait_for(".hlep");
    typist.type_keys("\u{3}");
    typist.wait_for("zipf> ");
    typist.type_keys(".quit\r");
    assert_eq!(typist.end(), Some(0));
}

#[test]
fn tab_completes_names_and_words() {
    let state = tempfile::tempdir().unwrap();
    let mut typist = Typist::start(state.path(), &["--format", "csv"]);
    typist.wait_for("zipf> ");
    typist.type_keys("CREATE CORPUS letters;\r");
    typist.wait_for("done in ");
    typist.wait_for("zipf> ");
    typist.type_keys("sele\t 4 + 3 as \r");
    typist.wait_for(" ...> ");
    typist.type_keys("seven fro\t let\t limit 1;\r");
    typist.wait_for("0 rows in ");
    typist.wait_for("zipf> ");
    typist.type_keys(".sche\t l\t\r");
    typist.wait_for("CREATE CORPUS letters WITH (tokenizer = 'unicode'");
    typist.wait_for("zipf> ");
    typist.type_keys(".quit\r");
    assert_eq!(typist.end(), Some(0));
}

#[test]
fn an_error_points_at_its_place() {
    let state = tempfile::tempdir().unwrap();
    let mut typist = Typist::start(state.path(), &[]);
    typist.wait_for("zipf> ");
    typist.type_keys("SELECT setting,\r");
    typist.wait_for(" ...> ");
    typist.type_keys("  valeu FROM settings();\r");
    typist.wait_for(
        "  2 |   valeu FROM settings()\r\n    |   ^\r\nerror: no such column \"valeu\"\r\nhint: did you mean \"value\"?",
    );
    typist.wait_for("zipf> ");
    typist.type_keys(".quit\r");
    assert_eq!(typist.end(), Some(0));
}

#[test]
fn results_longer_than_the_screen_are_paged() {
    let state = tempfile::tempdir().unwrap();
    let words: String = (0..200).map(|number| format!("w{number} ")).collect();
    std::fs::write(state.path().join("words.txt"), words).unwrap();
    let mut typist = Typist::start(state.path(), &["--format", "csv"]);
    typist.wait_for("zipf> ");
    typist.type_keys(".import words.txt c\r");
    typist.wait_for("1 file, 890 bytes, 200 words");
    typist.wait_for("zipf> ");
    typist.type_keys("SELECT word FROM c ORDER BY position;\r");
    typist.wait_for("paged:w199");
    typist.wait_for("200 rows in ");
    typist.wait_for("zipf> ");
    typist.type_keys("SELECT word FROM c ORDER BY position LIMIT 40;\r");
    let shown = typist.wait_for("40 rows in ");
    assert!(!shown.contains("paged:"), "{shown}");
    typist.wait_for("zipf> ");
    typist.type_keys(".pager off\r");
    typist.wait_for("zipf> ");
    typist.type_keys(".timer off\r");
    typist.wait_for("zipf> ");
    typist.type_keys("SELECT word FROM c ORDER BY position;\r");
    let shown = typist.wait_for("w199\r\n");
    assert!(!shown.contains("paged:"), "{shown}");
    let shown = typist.wait_for("zipf> ");
    assert!(!shown.contains(" rows in "), "{shown}");
    typist.type_keys(".quit\r");
    assert_eq!(typist.end(), Some(0));
}

#[test]
fn control_c_ends_the_statement_and_not_the_program() {
    let directory = directory_with_long_file();
    let mut typist = Typist::start(directory.path(), &[]);
    typist.wait_for("zipf> ");
    typist.type_keys(&format!("{IMPORT};\r"));
    typist.wait_for("done in ");
    typist.wait_for("done in ");
    typist.wait_for("zipf> ");
    typist.type_keys(&format!("SELECT 1; {SLOW};\r"));
    typist.wait_for("1 row in ");
    typist.interrupt_until("interrupted");
    typist.wait_for("zipf> ");
    typist.type_keys("SELECT 3 + 4 AS seven;\r");
    typist.wait_for(" 7 ");
    typist.wait_for("zipf> ");
    typist.type_keys(".quit\r");
    assert_eq!(typist.end(), Some(0));
}

#[test]
fn a_line_that_is_not_utf8_is_refused_and_the_transaction_goes_on() {
    let state = tempfile::tempdir().unwrap();
    let mut typist = Typist::start(state.path(), &["x.zdb", "--format", "jsonl"]);
    typist.wait_for("zipf> ");
    typist.type_keys("CREATE CORPUS c; BEGIN;\r");
    typist.wait_for("done in ");
    typist.wait_for("done in ");
    typist.wait_for("zipf*> ");
    typist.type_keys("INSERT INTO c (file, content) VALUES ('f', 'kept');\r");
    typist.wait_for("done in ");
    typist.wait_for("zipf*> ");

    // With what it continues, which means something else without it.
    typist.type_keys("DELETE FROM c\r");
    typist.wait_for(" ...*> ");
    typist.type_bytes(b"WHERE file = 'caf\xe9'");
    typist.wait_for("error: the line is not UTF-8");
    typist.wait_for("zipf*> ");
    typist.type_keys(";\r");
    typist.wait_for("zipf*> ");

    // A paste is a line, more of which the terminal holds than is read at once.
    let mut paste = b"\x1b[200~SELECT '\xff".to_vec();
    paste.extend(vec![b'x'; 2000]);
    paste.extend(b"';\rDELETE FROM c;\rROLLBACK;\r\x1b[201~");
    typist.type_bytes(&paste);
    typist.wait_for("error: the line is not UTF-8");
    typist.wait_for("zipf*> ");
    typist.type_keys("COMMIT;\r");
    typist.wait_for("done in ");
    typist.wait_for("zipf> ");
    typist.type_keys("SELECT file, content FROM files('c');\r");
    typist.wait_for("{\"file\":\"f\",\"content\":\"kept\"}");
    typist.wait_for("zipf> ");
    typist.type_keys(".quit\r");
    assert_eq!(typist.end(), Some(0));
}

#[test]
fn a_line_that_is_not_utf8_is_refused_where_no_lines_are_edited() {
    let state = tempfile::tempdir().unwrap();
    let mut command = Command::new("env");
    command.arg("TERM=dumb").arg(zipf().get_program());
    let mut typist = Typist::start_command(command, state.path(), None);
    typist.wait_for("zipf> ");
    typist.type_bytes(
        b"CREATE CORPUS caf\xe9; CREATE CORPUS d;\nSELECT COUNT(*) AS n FROM corpora();\n",
    );
    typist.wait_for("error: the line is not UTF-8");
    typist.wait_for(" 0 ");
    typist.wait_for("zipf> ");
    typist.type_keys(".quit\n");
    assert_eq!(typist.end(), Some(0));
}

#[test]
fn a_signal_at_the_prompt_ends_the_program() {
    for signal in [Signal::SIGTERM, Signal::SIGHUP] {
        let directory = directory_with_long_file();
        let mut typist = Typist::start(directory.path(), &[]);
        typist.wait_for("zipf> ");
        kill(typist.process(), signal).unwrap();
        assert_eq!(typist.end_by_signal(), Some(signal as i32));

        // While a statement runs.
        let mut typist = Typist::start(directory.path(), &[]);
        typist.wait_for("zipf> ");
        typist.type_keys(&format!("{IMPORT};\r"));
        typist.wait_for("done in ");
        typist.wait_for("done in ");
        typist.wait_for("zipf> ");
        typist.type_keys(&format!("SELECT 1; {SLOW};\r"));
        typist.wait_for("1 row in ");
        kill(typist.process(), signal).unwrap();
        assert_eq!(typist.end_by_signal(), Some(signal as i32));
    }
}
