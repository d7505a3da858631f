//! Any bytes as packed text: all ways to unpack it give the same text or the same error; never a panic, a hang or memory out of
//! proportion to the input (libFuzzer's limit on one allocation).
//!
//! The first byte chooses: any bytes; a data block of any bytes under right checksums of header and table, so that the decoders are
//! reached; or text that was packed and then damaged, which must give an error or the text. The layout is that of
//! storage/FORMAT.md.

use std::sync::atomic::AtomicBool;

use zipfdb::fuzzing::gompresso::{
    BlockEntry, Elimination, PackCodec, PackHeader, PackOptions, PackedError, PackedReader,
    References, pack,
};

/// One input.
pub fn run(bytes: &[u8]) {
    let Some((mode, rest)) = bytes.split_first() else {
        return;
    };
    match mode % 3 {
        0 => drop(unpack(rest)),
        1 => sealed(rest),
        _ => damage(rest),
    }
}

/// Unpacks in all orders and compares.
fn unpack(bytes: &[u8]) -> Result<Vec<u8>, PackedError> {
    let reader = PackedReader::open(bytes)?;
    let size = usize::try_from(reader.header().size).expect("it is bounded by the input");
    let stop = AtomicBool::new(false);
    let with = |order| {
        let mut text = vec![0; size];
        reader.unpack_to(&mut text, order, &stop).map(|_| text)
    };
    let text = with(References::Sequential);
    assert!(with(References::Rounds) == text);
    assert!(with(References::Direct) == text);
    text
}

/// Options of two bytes.
fn options(first: u8, second: u8) -> PackOptions {
    let codec = match first & 1 {
        0 => PackCodec::Byte,
        _ => PackCodec::Bit,
    };
    let eliminations = [
        Elimination::Off,
        Elimination::BeforeGroup,
        Elimination::References,
    ];
    PackOptions {
        elimination: eliminations[usize::from(first >> 1) % 3],
        block_size: 256 << (second % 4),
        window: 256 << (second >> 2 & 7),
        sub_block: 8 << (first >> 4 & 3),
        code_bits: 9 + (first >> 6),
        level: 1 + second % 9,
        ..PackOptions::new(codec)
    }
}

/// A text of one block: options, sequences and size as the bytes say, under right checksums but that of the text.
fn sealed(bytes: &[u8]) {
    let [first, second, sequences, size_low, size_high, block @ ..] = bytes else {
        return;
    };
    let options = PackOptions {
        block_size: 1 << 16,
        ..options(*first, *second)
    };
    let size = u16::from_le_bytes([*size_low, *size_high]);
    let block = &block[..block.len() / 4 * 4];
    let entry = BlockEntry {
        bytes: u32::try_from(block.len()).expect("inputs are small"),
        sequences: (*sequences).into(),
        crc: 0,
    };
    let table = entry.to_bytes();
    let header = PackHeader {
        table_crc: crc32fast::hash(&table),
        ..options
            .header(size.into())
            .expect("the options are allowed")
    };
    drop(unpack(&[&header.to_bytes()[..], &table, block].concat()));
}

/// Packs a text, damages it and unpacks it.
fn damage(bytes: &[u8]) {
    let [first, second, at_high, at_low, change, value, text @ ..] = bytes else {
        return;
    };
    let options = options(*first, *second);
    let mut packed =
        pack(text, &options, &AtomicBool::new(false)).expect("the options are allowed");
    assert!(unpack(&packed).expect("it was packed") == text);
    let at = usize::from(u16::from_be_bytes([*at_high, *at_low])) % packed.len();
    match change % 4 {
        0 => packed[at] ^= (*value).max(1),
        1 => packed.truncate(at),
        2 => packed.insert(at, *value),
        _ => packed[at..].fill(*value),
    }
    if let Ok(found) = unpack(&packed) {
        assert!(found == text);
    }
}
