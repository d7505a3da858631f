//! LEB128: seven bits a byte, low bits first, the top bit says that more follow.

use super::Fault;

/// Appends `value`.
pub fn write(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Takes a value off the front of `input`.
pub fn read(input: &mut &[u8]) -> Result<u64, Fault> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = input.split_first().ok_or(Fault("a number is cut off"))?;
        *input = rest;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            break;
        }
        value |= bits << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(Fault("a number has too many bytes"))
}

/// Takes a value that must fit `u32` off the front of `input`.
pub fn read_u32(input: &mut &[u8]) -> Result<u32, Fault> {
    u32::try_from(read(input)?).map_err(|_| Fault("a number is too large"))
}

/// Takes `count` bytes off the front of `input`.
pub fn take<'a>(input: &mut &'a [u8], count: usize) -> Result<&'a [u8], Fault> {
    let (front, rest) = input
        .split_at_checked(count)
        .ok_or(Fault("a part is cut off"))?;
    *input = rest;
    Ok(front)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn numbers_come_back_and_leave_what_follows() {
        for value in [
            0,
            1,
            127,
            128,
            16_383,
            16_384,
            u64::from(u32::MAX),
            u64::MAX - 1,
            u64::MAX,
        ] {
            let mut bytes = Vec::new();
            write(&mut bytes, value);
            bytes.push(7);
            let mut input = &bytes[..];
            assert_eq!(read(&mut input), Ok(value));
            assert_eq!(input, [7]);
        }
    }

    #[test]
    fn cut_and_overlong_numbers_are_faults() {
        assert!(read(&mut &[][..]).is_err());
        assert!(read(&mut &[0x80][..]).is_err());
        assert!(read(&mut &[0xff; 10][..]).is_err());
        assert!(
            read(&mut &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x02][..]).is_err()
        );
        assert!(read_u32(&mut &[0xff, 0xff, 0xff, 0xff, 0x1f][..]).is_err());
        assert!(take(&mut &[1, 2][..], 3).is_err());
    }
}
