//! `zipf pack` and `zipf unpack`.

use std::fs;
use std::path::Path;

use super::{Ended, run, zipf};

/// Text of several blocks.
fn text() -> Vec<u8> {
    let words = (0u32..).flat_map(|number| format!("word {} ", number % 1009).into_bytes());
    words.take(3_000_000).collect()
}

fn zipf_in(directory: &Path, arguments: &[&str]) -> Ended {
    run(zipf().current_dir(directory).args(arguments))
}

#[test]
fn files_are_packed_and_unpacked_to_the_same_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let text = "Four score and seven years ago our fathers brought forth.\n".repeat(20_000);
    fs::write(directory.join("text"), &text).unwrap();
    fs::write(directory.join("empty"), "").unwrap();
    let cases: [&[&str]; 4] = [
        &["--codec", "byte"],
        &["--codec", "bit"],
        &[
            "--codec",
            "byte",
            "--de",
            "--block-size",
            "65536",
            "--level",
            "1",
        ],
        &["--codec", "bit", "--de", "--window", "8192", "--level", "9"],
    ];
    for (number, options) in cases.into_iter().enumerate() {
        for source in ["text", "empty"] {
            let (packed, back) = (
                format!("{source}{number}.packed"),
                format!("{source}{number}"),
            );
            let arguments = [&["pack", source, &packed], options].concat();
            let ended = zipf_in(directory, &arguments);
            assert_eq!(
                (ended.code, ended.rows.as_str()),
                (Some(0), ""),
                "{ended:?}"
            );
            let ended = zipf_in(directory, &["unpack", &packed, &back]);
            assert_eq!(ended.code, Some(0), "{ended:?}");
            let read = |name: &str| fs::read(directory.join(name)).unwrap();
            assert!(read(&back) == read(source), "{options:?}");
            assert!(source == "empty" || read(&packed).len() < text.len() / 4);
        }
    }
}

#[test]
fn what_cannot_be_packed_or_unpacked_says_why_and_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    fs::write(
        directory.join("text"),
        "some text, some more text ".repeat(100),
    )
    .unwrap();
    let fails = |arguments: &[&str], expected: &str| {
        let ended = zipf_in(directory, arguments);
        assert_eq!(
            (ended.code, ended.rows.as_str()),
            (Some(1), ""),
            "{ended:?}"
        );
        assert!(ended.messages.contains(expected), "{ended:?}");
    };
    fails(
        &["pack", "nothing", "out", "--codec", "bit"],
        "cannot pack: cannot open nothing: ",
    );
    fails(
        &["pack", ".", "out", "--codec", "bit"],
        "cannot pack: cannot open .: ",
    );
    fails(
        &["pack", "text", "text", "--codec", "bit"],
        "text: it exists; hint: ",
    );
    fails(
        &["pack", "text", "no/out", "--codec", "bit"],
        "cannot create no/out: ",
    );
    fails(
        &["unpack", "text", "out"],
        "cannot unpack: text: not packed text",
    );
    let ended = zipf_in(directory, &["pack", "text", "packed", "--codec", "byte"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let mut bytes = fs::read(directory.join("packed")).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    bytes[100] ^= 1;
    fs::write(directory.join("damaged"), &bytes).unwrap();
    fails(
        &["unpack", "damaged", "out"],
        "cannot unpack: damaged: block 0",
    );
    fs::write(directory.join("damaged"), &bytes[..bytes.len() - 4]).unwrap();
    fails(&["unpack", "damaged", "out"], "header and block table say");
    let mut names: Vec<String> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["damaged", "packed", "text"]);
}

#[cfg(unix)]
#[test]
fn pipes_are_packed_and_unpacked_as_files_are() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    fs::write(directory.join("text"), text()).unwrap();
    fs::write(directory.join("empty"), "").unwrap();
    for source in ["text", "empty"] {
        let shell = |script: &str| {
            let mut shell = std::process::Command::new("sh");
            shell.args(["-euc", script]).arg(zipf().get_program());
            run(shell.arg(source).current_dir(directory))
        };
        let ended = shell(
            "for option in 'byte' 'bit --de' 'byte --block-size 256 --level 1'
            do
                \"$0\" pack \"$1\" file --codec $option
                \"$0\" pack - a --codec $option < \"$1\"
                cat \"$1\" | \"$0\" pack - b --codec $option
                cat \"$1\" | \"$0\" pack - - --codec $option > c
                \"$0\" pack \"$1\" - --codec $option | cat > d
                \"$0\" pack \"$1\" /dev/stdout --codec $option > e
                mkfifo pipe
                cat \"$1\" > pipe & \"$0\" pack pipe f --codec $option
                for packed in a b c d e f; do cmp file $packed; done
                \"$0\" unpack - 1 < file
                cat file | \"$0\" unpack - 2
                cat file | \"$0\" unpack - - > 3
                \"$0\" unpack file /dev/stdout > 4
                \"$0\" unpack file - | cat > 5
                cat file > pipe & \"$0\" unpack pipe 6
                cat 6 > pipe & \"$0\" pack pipe - --codec $option | \"$0\" unpack - - > 7
                for unpacked in 1 2 3 4 5 6 7; do cmp \"$1\" $unpacked; done
                wait
                rm file a b c d e f 1 2 3 4 5 6 7 pipe
            done",
        );
        assert_eq!((ended.code, &*ended.rows), (Some(0), ""), "{ended:?}");
        assert!(
            ended.messages.contains("bytes are on standard output"),
            "{ended:?}"
        );
    }
    assert_eq!(fs::read_dir(directory).unwrap().count(), 2);
}

#[cfg(unix)]
#[test]
fn a_pipe_that_ends_early_or_late_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    fs::write(directory.join("text"), text()).unwrap();
    let ended = zipf_in(directory, &["pack", "text", "packed", "--codec", "byte"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let packed = fs::read(directory.join("packed")).unwrap();
    let longer = [&packed[..], b"x"].concat();
    for input in [
        &packed[..20],
        &packed[..50],
        &packed[..packed.len() - 1],
        &longer,
    ] {
        let mut unpack = zipf();
        unpack.current_dir(directory).args(["unpack", "-", "out"]);
        let ended = super::run_with_input(&mut unpack, input);
        assert_eq!((ended.code, &*ended.rows), (Some(1), ""), "{ended:?}");
        let message = format!(
            "error: cannot unpack: -: packed text of {} bytes",
            input.len()
        );
        assert!(ended.messages.starts_with(&message), "{ended:?}");
        assert!(!directory.join("out").exists());
    }
}

#[cfg(unix)]
#[test]
fn what_is_made_of_a_private_file_is_private() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    fs::write(directory.join("text"), "some text").unwrap();
    for umask in ["000", "022", "077"] {
        for mode in [0o600, 0o640, 0o444, 0o4755] {
            let set = fs::Permissions::from_mode(mode);
            fs::set_permissions(directory.join("text"), set).unwrap();
            let script = "umask $1; \"$0\" pack text packed --codec bit; \"$0\" unpack packed out; \
                cat text | \"$0\" pack - piped --codec bit";
            let mut shell = std::process::Command::new("sh");
            shell.args(["-euc", script]).arg(zipf().get_program());
            let ended = run(shell.arg(umask).current_dir(directory));
            assert_eq!(ended.code, Some(0), "{ended:?}");
            let mode_of = |name: &str| {
                let found = fs::metadata(directory.join(name)).unwrap();
                found.permissions().mode() & 0o7777
            };
            assert_eq!(mode_of("packed"), mode & 0o777, "{umask} {mode:o}");
            assert_eq!(mode_of("out"), mode & 0o777, "{umask} {mode:o}");
            let umask = u32::from_str_radix(umask, 8).unwrap();
            assert_eq!(mode_of("piped"), 0o666 & !umask);
            for name in ["packed", "out", "piped"] {
                fs::remove_file(directory.join(name)).unwrap();
            }
        }
    }
}
