//! Independent blocks one after the other, with their sizes in front, so that each can be found and decoded alone.

use super::{DecodeError, Fault, reserved, varint};

/// Appends the sizes of all blocks, then the blocks.
pub fn write(out: &mut Vec<u8>, blocks: &[impl AsRef<[u8]>]) {
    let bytes = blocks
        .iter()
        .map(|block| block.as_ref().len() + size_of::<u32>());
    out.reserve(bytes.sum());
    for block in blocks {
        varint::write(out, block.as_ref().len() as u64);
    }
    for block in blocks {
        out.extend_from_slice(block.as_ref());
    }
}

/// Takes `count` blocks off the front of `input`.
pub fn read<'a>(input: &mut &'a [u8], count: usize) -> Result<Vec<&'a [u8]>, DecodeError> {
    let sizes = read_sizes(input, count)?;
    let mut blocks = reserved(count)?;
    for size in sizes {
        blocks.push(varint::take(input, size)?);
    }
    Ok(blocks)
}

/// Takes the sizes of `count` blocks, which follow them, off the front of `input`.
pub fn read_sizes(input: &mut &[u8], count: usize) -> Result<Vec<usize>, DecodeError> {
    if count > input.len() {
        return Err(Fault("it has fewer blocks than it claims").into());
    }
    let mut sizes = reserved(count)?;
    for _ in 0..count {
        sizes.push(varint::read_u32(input)? as usize);
    }
    Ok(sizes)
}

/// Appends a part with its size in front.
pub fn write_part(out: &mut Vec<u8>, part: &[u8]) {
    varint::write(out, part.len() as u64);
    out.extend_from_slice(part);
}

/// Takes a part off the front of `input`.
pub fn read_part<'a>(input: &mut &'a [u8]) -> Result<&'a [u8], Fault> {
    let size = usize::try_from(varint::read(input)?).map_err(|_| Fault("a part is too large"))?;
    varint::take(input, size)
}
