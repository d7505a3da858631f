//! Passes and walks against runs of the automaton over plain terminals.
//!
//! The invariant of all tests: nothing depends on the direction of the memo beyond its order, on the bound of memory, or on threads.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::grammar::test_grammars::{self, Numbers, TestGrammar, in_pools};
use crate::{
    CommonMachine, DEAD, Direction, FileEvents, Halted, Lengths, Machine, MachineStep, Pattern,
    SpanEvent, SpanMemo, SpanPass, SpanWalk, StepTable, TableMachine,
};

static GO: AtomicBool = AtomicBool::new(false);

/// A machine by a table of states and terminals that may find several events in a terminal.
struct RandomMachine {
    states: u32,
    terminals: u32,
    steps: Vec<MachineStep>,
}

impl RandomMachine {
    /// A machine that often goes to its first state, and sometimes dies.
    fn new(states: u32, terminals: u32, numbers: &mut Numbers) -> RandomMachine {
        let dies = numbers.below(3) == 0;
        let steps = (0..states * terminals).map(|_| {
            let (state, events) = match numbers.below(40) {
                0 if dies => (DEAD, 0),
                1..20 => (0, 0),
                _ => (numbers.below(u64::from(states)) as u32, 0),
            };
            let events = match numbers.below(6) {
                0 => 1 + numbers.below(2) as u32,
                _ => events,
            };
            MachineStep { state, events }
        });
        RandomMachine {
            states,
            terminals,
            steps: steps.collect(),
        }
    }
}

impl Machine for RandomMachine {
    type Cache = u32;

    fn cache(&self) -> u32 {
        self.terminals
    }

    fn step(&self, terminals: &mut u32, state: u32, terminal: u32) -> Option<MachineStep> {
        Some(self.steps[(state * *terminals + terminal) as usize])
    }
}

impl CommonMachine for RandomMachine {
    fn common_step(&self, states: &[u32], terminal: u32) -> Option<MachineStep> {
        let step = |state: u32| self.steps[(state * self.terminals + terminal) as usize];
        let first = step(states[0]);
        states
            .iter()
            .all(|&state| step(state) == first)
            .then_some(first)
    }
}

/// The oracle: the events of terminals that begin in a range, and the state at its end.
fn run<M: Machine>(
    machine: &M,
    terminals: &[u32],
    length: impl Fn(u32) -> u64,
    direction: Direction,
    range: Range<u64>,
    start: u32,
) -> (Vec<SpanEvent>, u32) {
    let mut cache = machine.cache();
    let mut at = 0;
    let mut placed: Vec<(u64, u32)> = Vec::new();
    for &terminal in terminals {
        placed.push((at, terminal));
        at += length(terminal);
    }
    placed.retain(|(start, _)| range.contains(start));
    if direction == Direction::Backward {
        placed.reverse();
    }
    let mut state = start;
    let mut events = Vec::new();
    for (start, terminal) in placed {
        if state == DEAD {
            break;
        }
        let step = machine
            .step(&mut cache, state, terminal)
            .expect("it never gives up");
        if step.events > 0 {
            events.push(SpanEvent {
                start,
                terminal,
                before: state,
                after: step.state,
                events: u64::from(step.events),
            });
        }
        state = step.state;
    }
    (events, state)
}

fn sum(events: &[SpanEvent]) -> u64 {
    events.iter().map(|event| event.events).sum()
}

fn all_events<M: Machine>(walk: &mut SpanWalk<'_, M>) -> Vec<SpanEvent> {
    std::iter::from_fn(|| walk.next_event().expect("nothing stops it")).collect()
}

/// Compares everything for one machine and direction, with memos of several bounds.
fn check_machine(
    grammar: &TestGrammar,
    machine: &RandomMachine,
    lengths: &Lengths,
    direction: Direction,
    numbers: &mut Numbers,
) {
    let view = grammar.view();
    let length = |terminal: u32| lengths.symbols[terminal as usize];
    for (bytes_max, is_prepared) in [
        (0, true),
        (100_000, false),
        (usize::MAX, false),
        (usize::MAX, true),
    ] {
        let memo = SpanMemo::new(view.symbol_count(), direction, bytes_max);
        let pass = SpanPass {
            view,
            lengths,
            machine,
            memo: &memo,
            stop: &GO,
        };
        let files: Vec<u32> = (0..view.files() as u32).rev().collect();
        let start = numbers.below(u64::from(machine.states)) as u32;
        if is_prepared {
            pass.prepare(start).expect("nothing stops it");
        }
        let usual = numbers.below(u64::from(machine.states)) as u32;
        let counts = pass.count(&files, start, usual).expect("nothing stops it");
        for (&file, &count) in files.iter().zip(&counts) {
            let terminals = grammar.expand(file);
            let (expected, state) = run(machine, &terminals, length, direction, 0..u64::MAX, start);
            let events = sum(&expected);
            assert_eq!(count, FileEvents { events, state });
            if direction == Direction::Forward {
                let counted = pass.count_symbols(view.file_root(file), start);
                assert_eq!(counted, Ok(count));
            }
            let mut walk = SpanWalk::new(pass, file, 0..u64::MAX, start);
            assert_eq!(all_events(&mut walk), expected);
            assert_eq!(walk.state(), state);
            drop(walk);
            let mut walk = SpanWalk::of_file(pass, file, start);
            assert_eq!(all_events(&mut walk), expected);
            assert_eq!(walk.state(), state);
            drop(walk);

            let all: u64 = terminals.iter().map(|&terminal| length(terminal)).sum();
            for _ in 0..4 {
                let from = numbers.below(all + 2);
                let range = from..from + numbers.below(all + 2);
                let start = numbers.below(u64::from(machine.states)) as u32;
                let (expected, state) =
                    run(machine, &terminals, length, direction, range.clone(), start);
                let mut walk = SpanWalk::new(pass, file, range.clone(), start);
                assert_eq!(all_events(&mut walk), expected);
                assert_eq!(walk.state(), state);
                drop(walk);

                let skipped = numbers.below(expected.len() as u64 + 1) as usize;
                // Another walk resumes behind an event.
                if let Some(&event) = expected.get(skipped) {
                    let rest = match direction {
                        Direction::Forward => event.start + 1..range.end,
                        Direction::Backward => range.start..event.start,
                    };
                    let mut resumed = SpanWalk::new(pass, file, rest, event.after);
                    assert_eq!(all_events(&mut resumed), expected[skipped + 1..]);
                    assert_eq!(resumed.state(), state);
                }
            }
        }
    }
}

fn check(grammar: &TestGrammar, machines: u64, seed: u64) {
    let mut numbers = Numbers::new(seed);
    let terminals = grammar.view().terminal_count;
    let in_bytes = grammar.lengths();
    let in_terminals = Lengths::new(grammar.view(), |_| 1);
    for _ in 0..machines {
        let states = 1 + numbers.below(9) as u32;
        let machine = RandomMachine::new(states, terminals, &mut numbers);
        for direction in [Direction::Forward, Direction::Backward] {
            for lengths in [&in_bytes, &in_terminals] {
                check_machine(grammar, &machine, lengths, direction, &mut numbers);
            }
        }
    }
}

#[test]
fn passes_and_walks_find_what_a_run_over_all_terminals_of_small_grammars_finds() {
    for (seed, grammar) in (0..).zip(test_grammars::all_small().step_by(5)) {
        check(&grammar, 1, seed);
    }
}

#[test]
fn passes_and_walks_find_what_a_run_over_all_terminals_of_random_and_extreme_grammars_finds() {
    for (seed, grammar) in (0..).zip(test_grammars::random_many(40)) {
        check(&grammar, 2, seed);
    }
    for grammar in [
        test_grammars::deep_chain(300),
        test_grammars::long_body(500),
        test_grammars::runs(9),
        test_grammars::many_files(20),
        test_grammars::fibonacci(12),
        test_grammars::thue_morse(8),
        test_grammars::held_often(6, 20),
    ] {
        check(&grammar, 2, 7);
    }
}

/// Finds a phrase.
struct Phrase(Pattern<u32>);

impl Machine for Phrase {
    type Cache = ();

    fn cache(&self) {}

    fn step(&self, (): &mut (), state: u32, terminal: u32) -> Option<MachineStep> {
        let (state, is_found) = self.0.step(state as usize, &terminal);
        Some(MachineStep {
            state: state as u32,
            events: u32::from(is_found),
        })
    }
}

#[test]
fn walks_that_pass_over_blocks_of_long_roots_find_what_a_run_finds() {
    let grammar = test_grammars::repeated_text(9);
    let lengths = Lengths::new(grammar.view(), |_| 1);
    let mut numbers = Numbers::new(5);
    for states in [2, 7] {
        let terminals = grammar.view().terminal_count;
        let machine = RandomMachine::new(states, terminals, &mut numbers);
        for direction in [Direction::Forward, Direction::Backward] {
            check_machine(&grammar, &machine, &lengths, direction, &mut numbers);
        }
    }
    // Events are rare, so that blocks are passed over, and walks that come later find them known.
    let view = grammar.view();
    assert!(view.file_root(0).len() > 4096);
    let terminals = grammar.expand(0);
    let middle = terminals.len() / 2;
    let machine = Phrase(Pattern::new(terminals[middle..middle + 12].to_vec()));
    for direction in [Direction::Forward, Direction::Backward] {
        let memo = SpanMemo::new(view.symbol_count(), direction, usize::MAX);
        let pass = SpanPass {
            view,
            lengths: &lengths,
            machine: &machine,
            memo: &memo,
            stop: &GO,
        };
        let mut walk = SpanWalk::new(pass, 0, 0..0, 0);
        for _ in 0..30 {
            let from = numbers.below(terminals.len() as u64);
            let range = from..from + numbers.below(terminals.len() as u64);
            let (expected, state) = run(&machine, &terminals, |_| 1, direction, range.clone(), 0);
            walk.begin(0, range, 0);
            assert_eq!(all_events(&mut walk), expected);
            assert_eq!(walk.state(), state);
        }
    }
}

#[test]
fn a_memo_without_memory_forgets_and_a_pass_finds_the_same() {
    // More pairs than a hash table has room for that may not grow.
    let mut numbers = Numbers::new(3);
    let grammar = test_grammars::many_files(60);
    let lengths = grammar.lengths();
    let machine = RandomMachine::new(60, grammar.view().terminal_count, &mut numbers);
    for direction in [Direction::Forward, Direction::Backward] {
        check_machine(&grammar, &machine, &lengths, direction, &mut numbers);
    }
}

/// A machine that remembers how many terminals 0 it has read, modulo a number, and never forgets. Each third one is an event.
struct Counter(u32);

impl Machine for Counter {
    type Cache = ();

    fn cache(&self) {}

    fn step(&self, (): &mut (), state: u32, terminal: u32) -> Option<MachineStep> {
        let state = (state + u32::from(terminal == 0)) % self.0;
        let events = u32::from(terminal == 0 && state.is_multiple_of(3));
        Some(MachineStep { state, events })
    }
}

#[test]
fn parts_of_a_large_file_that_begin_in_other_states_are_read_again() {
    let grammar = test_grammars::repeated_text(150);
    let (view, lengths) = (grammar.view(), Lengths::new(grammar.view(), |_| 1));
    for direction in [Direction::Forward, Direction::Backward] {
        for states in [1, 3, 7] {
            let machine = Counter(states);
            let counts = in_pools(|| {
                let memo = SpanMemo::new(view.symbol_count(), direction, usize::MAX);
                let pass = SpanPass {
                    view,
                    lengths: &lengths,
                    machine: &machine,
                    memo: &memo,
                    stop: &GO,
                };
                pass.count(&[1, 0], 0, 0).expect("nothing stops it")
            });
            for (file, count) in [1, 0].into_iter().zip(counts) {
                let terminals = grammar.expand(file);
                let (events, state) = run(&machine, &terminals, |_| 1, direction, 0..u64::MAX, 0);
                let events = sum(&events);
                assert_eq!(count, FileEvents { events, state });
            }
        }
    }
}

#[test]
fn events_are_the_steps_of_a_table_that_are_named() {
    // Finds `a b`; class 1 is `a`, class 2 is `b`; what class 3 is in ends it.
    let next = [0, 1, 0, DEAD, 0, 1, 2, DEAD, 0, 1, 0, DEAD];
    let table = StepTable::new(4, &next, |index| next[index] == 2);
    let machine = TableMachine {
        classes: &[0, 1, 2, 3],
        table: &table,
    };
    let mut states = Vec::new();
    let mut state = 0;
    for terminal in [2, 1, 1, 2, 0, 3] {
        let step = machine
            .step(&mut (), state, terminal)
            .expect("a table has all steps");
        states.push((step.state, step.events));
        state = step.state;
    }
    assert_eq!(states, [(0, 0), (1, 0), (1, 0), (2, 1), (0, 0), (DEAD, 0)]);
}

#[test]
fn deep_grammars_need_no_stack_and_large_numbers_of_events_are_kept() {
    for (grammar, depth) in [
        (test_grammars::deep_chain(30_000), 30_000),
        (test_grammars::doubling(70), 70),
    ] {
        let (view, lengths) = (grammar.view(), Lengths::new(grammar.view(), |_| 1));
        let machine = Counter(1);
        for direction in [Direction::Forward, Direction::Backward] {
            for bytes_max in [0, usize::MAX] {
                let memo = SpanMemo::new(view.symbol_count(), direction, bytes_max);
                let pass = SpanPass {
                    view,
                    lengths: &lengths,
                    machine: &machine,
                    memo: &memo,
                    stop: &GO,
                };
                memo.make_row(0);
                let mut worker = memo.worker(|| ());
                // Twice: computed, and remembered.
                for symbol in [depth - 1, depth / 2, depth - 1] {
                    let symbol = view.terminal_count + symbol;
                    let total = pass
                        .total(&mut worker, 0, symbol)
                        .expect("nothing stops it");
                    let expected = if depth == 70 {
                        lengths.symbols[symbol as usize]
                    } else {
                        let terminals = grammar.expand_symbols(&[symbol]);
                        terminals.iter().filter(|&&terminal| terminal == 0).count() as u64
                    };
                    assert_eq!((total.state, total.events), (0, expected));
                }
            }
        }
    }
}

#[test]
fn a_pass_and_a_walk_end_when_they_are_stopped() {
    let grammar = test_grammars::thue_morse(9);
    let (view, lengths) = (grammar.view(), grammar.lengths());
    let stop = AtomicBool::new(false);
    let memo = SpanMemo::new(view.symbol_count(), Direction::Forward, usize::MAX);
    let machine = Counter(5);
    let pass = SpanPass {
        view,
        lengths: &lengths,
        machine: &machine,
        memo: &memo,
        stop: &stop,
    };
    let mut walk = SpanWalk::new(pass, 0, 0..u64::MAX, 0);
    let first = walk.next_event();
    assert!(matches!(first, Ok(Some(_))));
    stop.store(true, Ordering::Relaxed);
    assert_eq!(pass.count(&[0, 1], 0, 0), Err(Halted::Stopped));
    assert_eq!(walk.next_event(), Err(Halted::Stopped));
    // What was computed until then is still right.
    stop.store(false, Ordering::Relaxed);
    let (expected, _) = run(
        &machine,
        &grammar.expand(0),
        |terminal| lengths.symbols[terminal as usize],
        Direction::Forward,
        0..u64::MAX,
        0,
    );
    let rest = all_events(&mut walk);
    assert_eq!(rest, expected[1..]);
    assert_eq!(
        pass.count(&[0], 0, 0).map(|counts| counts[0].events),
        Ok(sum(&expected))
    );
}

/// A machine that has no step over a terminal.
struct Refusing(u32);

impl Machine for Refusing {
    type Cache = ();

    fn cache(&self) {}

    fn step(&self, (): &mut (), _: u32, terminal: u32) -> Option<MachineStep> {
        let step = MachineStep {
            state: 0,
            events: 0,
        };
        (terminal != self.0).then_some(step)
    }
}

#[test]
fn a_pass_ends_when_its_machine_gives_up_and_only_then() {
    let grammar = test_grammars::runs(10);
    let (view, lengths) = (grammar.view(), grammar.lengths());
    for (refused, halts) in [(1, true), (view.terminal_count, false)] {
        let memo = SpanMemo::new(view.symbol_count(), Direction::Forward, usize::MAX);
        let pass = SpanPass {
            view,
            lengths: &lengths,
            machine: &Refusing(refused),
            memo: &memo,
            stop: &GO,
        };
        let counts = pass.count(&[0, 1], 0, 0);
        assert_eq!(counts.err(), halts.then_some(Halted::GaveUp));
        let event = SpanWalk::new(pass, 1, 0..u64::MAX, 0).next_event();
        assert_eq!(event.err(), halts.then_some(Halted::GaveUp));
    }
}
