//! Searches among numbers, where what is looked at has no slice.
//!
//! The invariant: as [`slice::partition_point`], the numbers for which something is so all come before the others.

/// The first number below `count` for which it is not so, or `count`.
pub(crate) fn partition_point(count: usize, is_so: impl Fn(usize) -> bool) -> usize {
    between(0, count, is_so)
}

/// Likewise. Work: logarithmic in the answer, not in `count`.
pub(crate) fn gallop(count: usize, is_so: impl Fn(usize) -> bool) -> usize {
    let (mut from, mut step) = (0, 1);
    while from + step <= count && is_so(from + step - 1) {
        from += step;
        step *= 2;
    }
    between(from, count.min(from + step), is_so)
}

fn between(mut from: usize, mut to: usize, is_so: impl Fn(usize) -> bool) -> usize {
    while from < to {
        let middle = from + (to - from) / 2;
        match is_so(middle) {
            true => from = middle + 1,
            false => to = middle,
        }
    }
    from
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_find_the_first_that_is_not_so() {
        for count in 0..70 {
            for first in 0..=count {
                assert_eq!(partition_point(count, |number| number < first), first);
                assert_eq!(gallop(count, |number| number < first), first);
            }
        }
    }
}
