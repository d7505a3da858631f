//! The text that `zipf demo` builds its database from: speeches compiled into the binary.
//!
//! Invariant: [`SPEECHES`] lists exactly the files of `cli/sample/speeches`, in order of name. Where they come from
//! is told in `cli/sample/README.md`. Nothing here reads a file at run time.

/// One file of the sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Speech {
    /// The file's name, `1961-Kennedy-1.txt`.
    pub name: &'static str,
    /// Its content.
    pub text: &'static str,
}

macro_rules! speeches {
    ($($name:literal)*) => {
        &[$(Speech {
            name: concat!($name, ".txt"),
            text: include_str!(concat!("../sample/speeches/", $name, ".txt")),
        }),*]
    };
}

/// All files of the sample in order of name.
#[rustfmt::skip]
pub const SPEECHES: &[Speech] = speeches![
    "1941-Roosevelt-1" "1942-Roosevelt-1" "1943-Roosevelt-1" "1944-Roosevelt-1" "1945-Roosevelt-1"
    "1945-Roosevelt-2" "1946-Truman-1" "1947-Truman-1" "1948-Truman-1" "1949-Truman-1"
    "1950-Truman-1" "1951-Truman-1" "1952-Truman-1" "1953-Eisenhower-1" "1953-Truman-1"
    "1954-Eisenhower-1" "1955-Eisenhower-1" "1956-Eisenhower-1" "1956-Eisenhower-2" "1957-Eisenhower-1"
    "1958-Eisenhower-1" "1959-Eisenhower-1" "1960-Eisenhower-1" "1961-Eisenhower-1" "1961-Kennedy-1"
    "1962-Kennedy-1" "1963-Kennedy-1" "1964-Johnson-1" "1965-Johnson-1" "1966-Johnson-1"
    "1967-Johnson-1" "1968-Johnson-1" "1969-Johnson-1" "1970-Nixon-1" "1971-Nixon-1"
    "1972-Nixon-1" "1972-Nixon-2" "1973-Nixon-1" "1973-Nixon-10" "1973-Nixon-11"
    "1973-Nixon-2" "1973-Nixon-3" "1973-Nixon-4" "1973-Nixon-5" "1973-Nixon-6"
    "1973-Nixon-7" "1973-Nixon-8" "1973-Nixon-9" "1974-Nixon-1" "1974-Nixon-2"
    "1975-Ford-1" "1976-Ford-1" "1977-Ford-1" "1978-Carter-1" "1978-Carter-2"
    "1979-Carter-1" "1979-Carter-2" "1980-Carter-1" "1980-Carter-2" "1981-Carter-1"
    "1982-Reagan-1" "1983-Reagan-1" "1984-Reagan-1" "1985-Reagan-1" "1986-Reagan-1"
    "1987-Reagan-1" "1988-Reagan-1" "1990-Bush-1" "1991-Bush-1" "1992-Bush-1"
    "1994-Clinton-1" "1995-Clinton-1" "1996-Clinton-1" "1997-Clinton-1" "1998-Clinton-1"
    "1999-Clinton-1" "2000-Clinton-1" "2002-Bush-1" "2003-Bush-1" "2004-Bush-1"
    "2005-Bush-1" "2006-Bush-1" "2007-Bush-1" "2008-Bush-1" "2010-Obama-1"
    "2011-Obama-1" "2012-Obama-1" "2013-Obama-1" "2014-Obama-1" "2015-Obama-1"
    "2016-Obama-1" "2018-Trump-1" "2019-Trump-1" "2020-Trump-1" "2022-Biden-1"
    "2023-Biden-1" "2024-Biden-1" "2026-Trump-1"
];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_list_is_the_folder() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/sample/speeches");
        let mut names: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        let listed: Vec<&str> = SPEECHES.iter().map(|speech| speech.name).collect();
        assert_eq!(names, listed);
    }

    #[test]
    fn the_sample_is_at_most_four_megabytes() {
        let bytes: usize = SPEECHES.iter().map(|speech| speech.text.len()).sum();
        assert_eq!(bytes, 3_930_161);
    }
}
