//! Pruning: rules that do not pay are replaced by their bodies.
//!
//! The simple version: a vector for each body. The invariant: bodies hold
//! rules of smaller ids only, before and after. Ids stay; the rules that went
//! have empty bodies. Renumbering is not done here.

/// Passes over the grammar at most.
const PASSES: usize = 4;

/// Rules and sequence; a rule that is gone has an empty body.
pub(crate) struct Pruned {
    pub(crate) bodies: Vec<Vec<u32>>,
    pub(crate) sequence: Vec<u32>,
}

pub(crate) fn prune(pairs: Vec<u64>, sequence: Vec<u32>, terminal_count: u32) -> Pruned {
    let bodies = pairs
        .iter()
        .map(|pair| vec![(pair >> 32) as u32, *pair as u32])
        .collect();
    let mut grammar = Pruned { bodies, sequence };
    for _ in 0..PASSES {
        while inline(&mut grammar, terminal_count, |uses, _| uses <= 1) {}
        if !inline(&mut grammar, terminal_count, |uses, length| {
            uses * length <= uses + length
        }) {
            break;
        }
    }
    grammar
}

/// Inlines all rules that `pays_not(uses, length)` tells; says whether there were any.
fn inline(grammar: &mut Pruned, terminal_count: u32, pays_not: impl Fn(u64, u64) -> bool) -> bool {
    let Pruned { bodies, sequence } = grammar;
    let rule_of = |symbol: u32| {
        (symbol as usize)
            .checked_sub(terminal_count as usize)
            .filter(|&rule| rule < bodies.len())
    };
    let mut uses = vec![0; bodies.len()];
    for rule in bodies
        .iter()
        .flatten()
        .chain(&*sequence)
        .filter_map(|&s| rule_of(s))
    {
        uses[rule] += 1;
    }
    let inlined: Vec<bool> = bodies
        .iter()
        .zip(&uses)
        .map(|(body, &uses)| !body.is_empty() && pays_not(uses, body.len() as u64))
        .collect();
    if !inlined.contains(&true) {
        return false;
    }
    let expand = |text: &[u32], bodies: &[Vec<u32>]| -> Vec<u32> {
        let mut expanded = Vec::with_capacity(text.len());
        for &symbol in text {
            match rule_of(symbol).filter(|&rule| inlined[rule]) {
                Some(rule) => expanded.extend_from_slice(&bodies[rule]),
                None => expanded.push(symbol),
            }
        }
        expanded
    };
    let mut new: Vec<Vec<u32>> = Vec::with_capacity(bodies.len());
    for body in &*bodies {
        let body = expand(body, &new);
        new.push(body);
    }
    *sequence = expand(sequence, &new);
    for (body, inlined) in new.iter_mut().zip(inlined) {
        if inlined {
            *body = Vec::new();
        }
    }
    *bodies = new;
    true
}
