//! Spans as automata over classes of words.
//!
//! `SpanAutomaton::new` compiles what is regular in a query: words, sequences, alternatives, repetitions, intersections, `containing`,
//! ordered and unordered NEAR, and boundaries of the units that the caller reads. The rest is relaxed: the automaton
//! then matches a superset, `is_exact` is false, and `naive` decides on each candidate, with `Span::context` words around it.
//! Invariant: the automaton matches every nonempty span of the set that some match has, and is blind to captures.

mod boundary;
mod bounds;
mod compile;
mod dfa;
mod fragments;
mod nfa;

pub use boundary::Boundary;
pub use bounds::{Anchor, Context, Lengths};
pub use dfa::{Alphabet, DEAD, Dfa, Form, LazyDfa};
pub use nfa::{Edge, Letter, Nfa, NfaState};

use crate::algebra::{SpanQuery, Unit, WordTest};
use crate::compile_error::CompileError;
use compile::Compiler;

/// The automaton of a query.
///
/// ```
/// use zipfdb_search::algebra::{Pattern, Span, SpanQuery, Strategy, TextTest, WordTest};
/// use zipfdb_search::automaton::{Alphabet, Form, LazyDfa, Letter, SpanAutomaton};
/// use zipfdb_search::matcher::WordMatcher;
///
/// let word = |text: &str| {
///     let pattern = Pattern::Literal(text.into());
///     Span::Word(WordTest::Text(TextTest { pattern, folds_case: true, folds_diacritics: false }))
/// };
/// let span = Span::Sequence(vec![word("the"), word("cat")]);
/// let query = SpanQuery { span, constraint: None, strategy: Strategy::Shortest, show: None };
/// let automaton = SpanAutomaton::new(&query, &|_| false, 1 << 14)?;
/// assert!(automaton.is_exact, "no match needs `naive` to verify it");
///
/// // Once for each dictionary: the class of each word.
/// let matchers = automaton.tests.iter().map(|test| WordMatcher::new(test, Default::default()));
/// let matchers = matchers.collect::<Result<Vec<_>, _>>()?;
/// let mut alphabet = Alphabet::default();
/// let classes = ["cat", "sat", "The", "the"].map(|word| {
///     let passes = |number: &usize| matchers[*number].matches(word.as_bytes(), || 1);
///     alphabet.class(Letter::Word((0..matchers.len()).filter(passes).map(|bit| 1 << bit).sum()))
/// });
///
/// // In each thread: where matches end in a file. `nfa.reversed()` gives where they start, in a file that is read backwards.
/// let mut dfa = LazyDfa::new(&automaton.nfa, alphabet.letters(), Form::Searching, 1000);
/// let mut state = dfa.start();
/// let mut ends = Vec::new();
/// for (place, word) in [2, 0, 1, 3, 0].into_iter().enumerate() {
///     state = dfa.step(state, classes[word]).expect("few states");
///     if dfa.is_match(state) {
///         ends.push(place + 1);
///     }
/// }
/// assert_eq!(ends, [2, 5]);
/// # Ok::<(), zipfdb_search::CompileError>(())
/// ```
#[derive(Debug, Clone)]
pub struct SpanAutomaton {
    /// Bit i of a word's letter is set if it passes test i. At most 64, distinct.
    pub tests: Vec<WordTest>,
    /// Bit i of a place's letter is set if boundary i is there. At most 64, distinct.
    pub boundaries: Vec<Boundary>,
    /// Reads matches from their start.
    pub nfa: Nfa,
    /// Whether it matches the nonempty spans of the set and no others. Else each match is a candidate that must be verified.
    pub is_exact: bool,
}

impl SpanAutomaton {
    /// Compiles a query. `has_unit` is whether the caller reads letters for the boundaries of a unit; the conditions on other units
    /// are relaxed. At most `states_max` states are built on the way. Recursion is as deep as the span.
    ///
    /// # Errors
    /// If there are too many states, tests or boundaries.
    pub fn new(
        query: &SpanQuery,
        has_unit: &dyn Fn(Unit) -> bool,
        states_max: usize,
    ) -> Result<Self, CompileError> {
        let mut compiler = Compiler {
            tests: Vec::new(),
            boundaries: Vec::new(),
            has_unit,
            is_exact: query.constraint.is_none(),
            limit: states_max,
        };
        let nfa = compiler.nonempty(&query.span)?;
        Ok(Self {
            tests: compiler.tests,
            boundaries: compiler.boundaries,
            nfa,
            is_exact: compiler.is_exact,
        })
    }
}
