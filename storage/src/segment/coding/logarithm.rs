//! Logarithms in fixed point, for cost estimates that must not depend on a float unit.

/// One bit of cost in the unit of [`log2`].
pub const ONE_BIT: u32 = 32;

const TABLE_BITS: u32 = 8;

/// `ONE_BIT * log2(1 + i / 256)`, rounded down.
const TABLE: [u8; 1 << TABLE_BITS] = {
    let mut table = [0u8; 1 << TABLE_BITS];
    let mut index = 0;
    while index < table.len() {
        // Squaring a number in 1 .. 2 doubles its logarithm: each time it passes 2, the next bit is 1.
        let mut mantissa = (1u64 << 31) + ((index as u64) << (31 - TABLE_BITS));
        let mut bits = 0u8;
        let mut round = 0;
        while round < 5 {
            mantissa = (mantissa * mantissa) >> 31;
            bits <<= 1;
            if mantissa >= 1 << 32 {
                mantissa >>= 1;
                bits |= 1;
            }
            round += 1;
        }
        table[index] = bits;
        index += 1;
    }
    table
};

/// `ONE_BIT * log2(value)`, rounded down; 0 for 0.
pub fn log2(value: u32) -> u32 {
    if value == 0 {
        return 0;
    }
    let whole = value.ilog2();
    let mantissa = (u64::from(value) << TABLE_BITS) >> whole;
    whole * ONE_BIT + u32::from(TABLE[(mantissa & 0xff) as usize])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_are_within_a_unit_of_the_true_ones() {
        for value in (1..5000).chain((1..64).map(|step| step << 25)) {
            let exact = f64::from(value).log2() * f64::from(ONE_BIT);
            let found = f64::from(log2(value));
            assert!(
                found <= exact + 1e-6 && found > exact - 1.3,
                "{value}: {found} {exact}"
            );
        }
        assert_eq!(log2(0), 0);
    }
}
