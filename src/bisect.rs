//! Binary searches over numbers, for data that is not a slice.
//!
//! The invariant: as for [`slice::partition_point`], the numbers for which `is_so` is true all come before the others.

/// The first number below `count` for which `is_so` is false, or `count`.
pub(crate) fn partition_point(count: usize, is_so: impl Fn(usize) -> bool) -> usize {
    between(0, count, is_so)
}

/// The first number below `count` for which `is_so` is false, or `count`. Work: logarithmic in the answer, not in `count`.
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
        if is_so(middle) {
            from = middle + 1
        } else {
            to = middle
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
