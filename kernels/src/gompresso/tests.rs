//! Text is unpacked as it was packed, and damaged bytes are an error or the right text.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::AtomicBool;

use proptest::prelude::*;

use super::format::{PackSequence, Record};
use super::references::resolve;
use super::*;

const ORDERS: [References; 3] = [
    References::Sequential,
    References::Rounds,
    References::Direct,
];

const ELIMINATIONS: [Elimination; 3] = [
    Elimination::Off,
    Elimination::BeforeGroup,
    Elimination::References,
];

/// Options with small blocks, of both codecs and all eliminations.
fn all_options() -> impl Iterator<Item = PackOptions> {
    let codecs = [PackCodec::Byte, PackCodec::Bit];
    codecs.into_iter().flat_map(|codec| {
        ELIMINATIONS.map(|elimination| PackOptions {
            elimination,
            block_size: 1 << 12,
            ..PackOptions::new(codec)
        })
    })
}

fn packed(text: &[u8], options: &PackOptions) -> Vec<u8> {
    pack(text, options, &AtomicBool::new(false)).unwrap()
}

/// Unpacks in every order, compares, and counts the rounds of all but the first.
fn unpacked(bytes: &[u8]) -> Result<(Vec<u8>, [ReferenceRounds; 2]), PackedError> {
    let reader = PackedReader::open(bytes)?;
    let stop = AtomicBool::new(false);
    let size = reader.header().size as usize;
    let results = ORDERS.map(|order| -> Result<_, PackedError> {
        let mut text = vec![0xa5; size];
        let rounds = reader.unpack_to(&mut text, order, &stop)?;
        Ok((text, rounds))
    });
    let [first, second, third] = results;
    let errors = [&first, &second, &third].map(|result| result.as_ref().err());
    assert!(
        errors[0] == errors[1] && errors[1] == errors[2],
        "{errors:?}"
    );
    let (text, _) = first?;
    let (second, third) = (second?, third?);
    assert!(second.0 == text && third.0 == text);
    Ok((text, [second.1, third.1]))
}

/// Words from a small set, with some bytes that are not text.
fn words(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed;
    let mut next = move || {
        state = state
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 33) as usize
    };
    let set: [&[u8]; 8] = [
        b"the ",
        b"grammar ",
        b"of ",
        b"all ",
        b"words, ",
        b"\n\n    ",
        b"aaaaaaaaaaaaaaaa",
        b"\xff\0",
    ];
    let mut text = Vec::new();
    while text.len() < len {
        match next() % 16 {
            0 => text.push(next() as u8),
            1 => text.extend(vec![b' '; next() % 300]),
            n => text.extend(set[n % 8]),
        }
    }
    text.truncate(len);
    text
}

#[test]
fn texts_of_all_kinds_are_unpacked_as_they_were() {
    let block = 1 << 12;
    let noise: Vec<u8> = (0..3 * block as u64)
        .map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8)
        .collect();
    let mut texts = vec![
        Vec::new(),
        vec![b'x'],
        b"ab".to_vec(),
        vec![b'x'; block - 1],
        vec![b'x'; block],
        vec![b'x'; block + 1],
        vec![0; 5 * block],
        b"abc".repeat(block),
        noise,
        words(1, 10 * block + 77),
        (0..=u8::MAX).collect(),
    ];
    for size in [block - 1, block, block + 1, 100] {
        texts.push(words(size as u64, size));
    }
    for options in all_options() {
        for text in &texts {
            let bytes = packed(text, &options);
            let (found, [_, direct]) = unpacked(&bytes).unwrap();
            assert!(&found == text, "{options:?}, {} bytes", text.len());
            let is_direct = options.elimination != Elimination::Off;
            assert!(
                !is_direct || direct.rounds_max <= 1,
                "{options:?}, {} bytes",
                text.len()
            );
        }
    }
}

#[test]
fn references_before_the_group_take_one_round_of_all() {
    let text = words(5, 100_000);
    for codec in [PackCodec::Byte, PackCodec::Bit] {
        let of = |elimination| {
            let options = PackOptions {
                elimination,
                ..PackOptions::new(codec)
            };
            let bytes = packed(&text, &options);
            (bytes.len(), unpacked(&bytes).unwrap().1)
        };
        let [off, before, references] = ELIMINATIONS.map(of);
        assert!(off.1[0].rounds_max > 1);
        assert_eq!(before.1[0].rounds_max, 1);
        // More sources are allowed, and sizes show it.
        assert!(off.0 <= references.0 && references.0 < before.0);
    }
}

#[test]
fn every_block_is_read_alone() {
    let text = words(3, 30_000);
    for options in all_options() {
        let bytes = packed(&text, &options);
        let reader = PackedReader::open(&bytes).unwrap();
        assert_eq!(reader.block_count(), text.len().div_ceil(1 << 12));
        for block in (0..reader.block_count()).rev() {
            let begin = block << 12;
            let mut found = vec![0; reader.block_len(block)];
            reader.unpack_block(block, &mut found).unwrap();
            assert_eq!(found, text[begin..begin + found.len()]);
        }
    }
}

#[test]
fn options_of_all_values_are_packed_and_others_refused() {
    let text = words(9, 200_000);
    for code_bits in 9..=12 {
        for (sub_block, window, level) in [
            (8, 1 << 8, 1),
            (16, 1 << 13, 3),
            (32, 1 << 15, 7),
            (64, 1 << 16, 9),
        ] {
            let options = PackOptions {
                code_bits,
                sub_block,
                window,
                level,
                ..PackOptions::new(PackCodec::Bit)
            };
            assert!(unpacked(&packed(&text, &options)).unwrap().0 == text);
        }
    }
    let refused: [fn(&mut PackOptions); 5] = [
        |options| options.block_size = 1000,
        |options| options.window = 1 << 17,
        |options| options.sub_block = 12,
        |options| options.code_bits = 8,
        |options| options.level = 10,
    ];
    for change in refused {
        let mut options = PackOptions::new(PackCodec::Bit);
        change(&mut options);
        let error = pack(&text, &options, &AtomicBool::new(false)).unwrap_err();
        assert!(matches!(error, PackedError::Option { .. }), "{error}");
    }
}

#[test]
fn packed_text_does_not_depend_on_the_number_of_threads() {
    let text = words(4, 100_000);
    for options in all_options() {
        let with = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .unwrap();
            pool.install(|| packed(&text, &options))
        };
        assert!(with(1) == with(4));
    }
}

#[test]
fn a_flag_ends_packing_and_unpacking() {
    let (set, unset) = (AtomicBool::new(true), AtomicBool::new(false));
    let options = PackOptions::new(PackCodec::Byte);
    let bytes = pack(b"text", &options, &unset).unwrap();
    let stopped = Err(PackedError::Stopped(crate::Stopped));
    assert_eq!(pack(b"text", &options, &set), stopped);
    assert_eq!(PackedReader::open(&bytes).unwrap().unpack(&set), stopped);
}

fn record(literals: usize, length: usize, distance: usize) -> Record {
    PackSequence {
        literals,
        length,
        distance,
    }
    .to_record()
}

/// The text of some sequences in each order, and the rounds of the last two.
fn resolved(records: &[Record], literals: &[u8], size: usize) -> (Vec<u8>, [ReferenceRounds; 2]) {
    let [first, second, third] = ORDERS.map(|order| {
        let mut text = vec![0; size];
        let rounds = resolve(records, literals, &mut text, order).unwrap();
        (text, rounds)
    });
    assert_eq!(first.0, second.0);
    assert_eq!(first.0, third.0);
    (first.0, [second.1, third.1])
}

#[test]
fn a_chain_of_nested_references_takes_a_round_each() {
    // Each reference needs the whole of the one before.
    let mut records = vec![record(4, 5, 4)];
    records.extend((1..32).map(|_| record(0, 5, 5)));
    let (text, [rounds, direct]) = resolved(&records, b"abcd", 4 + 32 * 5);
    assert_eq!(&text[..14], b"abcdabcdaabcda");
    assert_eq!((rounds.rounds_max, rounds.groups), (32, 1));
    // The flag of a stream that says otherwise is not trusted.
    assert_eq!(direct.rounds_max, 32);
}

#[test]
fn references_into_their_own_literals_and_over_themselves_are_resolved() {
    // The printed algorithm of the paper waits for ever on either.
    let (text, [rounds, direct]) = resolved(&[record(6, 3, 6), record(1, 3, 1)], b"abcdefg", 13);
    assert_eq!(text, b"abcdefabcgggg");
    assert_eq!(rounds.rounds_max, 2);
    assert_eq!(direct.rounds_max, 1);
}

#[test]
fn sources_in_literals_of_the_group_need_no_round_more() {
    // The third reads what the second has as literals, behind the first's reference.
    let records = [record(4, 4, 4), record(5, 3, 9), record(1, 4, 8)];
    let (text, [rounds, direct]) = resolved(&records, b"abcdvwxyz!", 21);
    assert_eq!(text, b"abcdabcdvwxyzabc!wxyz"[..].to_vec());
    assert_eq!((rounds.rounds_max, direct.rounds_max), (2, 1));
}

#[test]
fn lengths_and_distances_that_cannot_be_are_faults() {
    let cases: [(&[Record], &[u8], usize, BlockFault); 7] = [
        (&[record(1, 3, 2)], b"a", 4, BlockFault::Distance),
        (&[record(1, 3, 1)], b"a", 3, BlockFault::Lengths),
        (&[record(1, 3, 1)], b"a", 5, BlockFault::Lengths),
        (&[record(2, 0, 1)], b"a", 2, BlockFault::Lengths),
        (&[record(1, 0, 1)], b"ab", 1, BlockFault::Lengths),
        (
            &[record(1, 200, 1), record(0, 200, 1), record(9, 0, 1)],
            b"abcdefghij",
            100,
            BlockFault::Lengths,
        ),
        (&[], b"", 1, BlockFault::Lengths),
    ];
    for (records, literals, size, expected) in cases {
        for order in ORDERS {
            let found = resolve(records, literals, &mut vec![0; size], order);
            assert_eq!(found, Err(expected), "{records:?}, {order:?}");
        }
    }
}

#[test]
fn every_damaged_byte_and_every_cut_is_an_error_or_the_right_text() {
    let text = words(6, 1500);
    for options in all_options() {
        let bytes = packed(
            &text,
            &PackOptions {
                block_size: 1 << 10,
                ..options
            },
        );
        for at in 0..bytes.len() {
            for change in [1, 0x80, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] ^= change;
                if let Ok((found, _)) = unpacked(&damaged) {
                    assert!(found == text, "byte {at}");
                }
            }
            assert!(unpacked(&bytes[..at]).is_err());
        }
        let longer = [&bytes[..], &[0]].concat();
        assert!(matches!(unpacked(&longer), Err(PackedError::Size { .. })));
    }
}

#[test]
fn a_table_cannot_ask_for_more_memory_than_its_blocks_bound() {
    let options = PackOptions {
        block_size: 1 << 22,
        ..PackOptions::new(PackCodec::Byte)
    };
    let mut header = options.header(1 << 40).unwrap();
    let entry = BlockEntry {
        bytes: 0,
        sequences: 1,
        crc: 0,
    };
    let table = entry.to_bytes().repeat(1 << 18);
    header.table_crc = crc32fast::hash(&table);
    let bytes = [&header.to_bytes()[..], &table].concat();
    let found = PackedReader::open(&bytes).err();
    let fault = BlockFault::Bytes;
    assert_eq!(found, Some(PackedError::Block { block: 0, fault }));
}

/// Puts a checksum that fits to what an entry and its block were changed to, so that the decoders see the damage.
fn with_checksums(mut bytes: Vec<u8>, text: &[u8]) -> Vec<u8> {
    let header = PackHeader::read(&bytes).unwrap();
    let begin = header.blocks_begin() as usize;
    for (block, entry) in bytes[HEADER_SIZE..begin]
        .chunks_exact_mut(ENTRY_SIZE)
        .enumerate()
    {
        let begin = block * header.block_size as usize;
        let text = &text[begin..][..header.block_len(block as u64)];
        entry[8..].copy_from_slice(&crc32fast::hash(text).to_le_bytes());
    }
    let table_crc = crc32fast::hash(&bytes[HEADER_SIZE..begin]);
    let header = PackHeader {
        table_crc,
        ..header
    };
    bytes[..HEADER_SIZE].copy_from_slice(&header.to_bytes());
    bytes
}

proptest! {
    #[test]
    fn any_text_is_unpacked_as_it_was(
        seed in any::<u64>(),
        len in 0usize..20_000,
        option in 0usize..6,
        level in 1u8..=9,
        window in 8u32..=16,
    ) {
        let text = words(seed, len);
        let options = PackOptions {
            level,
            window: 1 << window,
            ..all_options().nth(option).unwrap()
        };
        let (found, _) = unpacked(&packed(&text, &options)).unwrap();
        prop_assert!(found == text);
    }

    #[test]
    fn damage_behind_the_table_is_an_error_or_the_right_text(
        seed in any::<u64>(),
        option in 0usize..6,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
    ) {
        let text = words(seed, 6000);
        let options = all_options().nth(option).unwrap();
        let mut bytes = packed(&text, &options);
        for (at, value) in changes {
            let at = HEADER_SIZE + at.index(bytes.len() - HEADER_SIZE);
            bytes[at] = value;
        }
        if let Ok((found, _)) = unpacked(&with_checksums(bytes, &text)) {
            prop_assert!(found == text);
        }
    }
}
