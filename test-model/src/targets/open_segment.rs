//! Any bytes as a segment file: every section is decoded and checked, or refused with an error; never a panic, a hang or
//! memory out of proportion to the file (libFuzzer's limit on one allocation).
//!
//! Files whose first byte is odd are sealed again before they are opened, as a grammar or as packed text, so that mutations get past
//! the checksums and reach the decoders. What a segment means is not looked at. The layout is that of storage/FORMAT.md.

use std::path::Path;

use zipfdb_storage::{Backend, Grammar, MemoryBackend, SegmentForm, SegmentReader};

const MAGIC: [u8; 8] = *b"\x89ZDBSEG\n";
const VERSION_SIZE: usize = 4;
const HEAD_SIZE: usize = MAGIC.len() + VERSION_SIZE;

/// Size of the footer, its CRC32, magic.
const TAIL_SIZE: usize = 4 + 4 + MAGIC.len();

/// At the end of the footer: for each section its size in 8 bytes and its CRC32.
const EXTENT_SIZE: usize = 8 + 4;

/// One input.
pub fn run(bytes: &[u8]) {
    let Some((mode, file)) = bytes.split_first() else {
        return;
    };
    let mut file = file.to_vec();
    match mode % 4 {
        1 => seal(&mut file, SegmentForm::Grammar),
        3 => seal(&mut file, SegmentForm::Text),
        _ => {}
    }
    let path = Path::new("fuzzed.seg");
    let backend = MemoryBackend::default();
    let mut target = backend.create(path).expect("memory has room for a file");
    target.write_all(&file).expect("memory takes all bytes");
    target.sync().expect("memory needs no sync");
    drop(target);

    let Ok(reader) = SegmentReader::open(&backend, path) else {
        return;
    };
    let info = reader.info();
    assert_eq!(info.size, file.len() as u64);
    assert_eq!(
        info.sections.iter().map(|(_, size)| size).sum::<u64>(),
        info.size
    );
    let files = reader.files().is_ok();
    let metadata = reader.metadata().is_ok();
    if info.form == SegmentForm::Text {
        let text = reader.read_text(0..reader.text_size());
        assert!(text.is_ok(), "memory can be read");
        assert!(
            files && metadata || reader.verify().is_err(),
            "what verifies can be read"
        );
        return;
    }
    let dictionary = reader.dictionary().is_ok();
    let totals = reader.totals().is_ok();
    let words = look_up(&reader);
    let roots = reader.bodies().map(|bodies| {
        let roots = (0..info.files).map(|file| reader.root_of(&bodies, file));
        roots.collect::<Result<Vec<_>, _>>().ok()
    });
    let grammar = reader.grammar().is_ok();
    let all = files && dictionary && totals && grammar && metadata;
    if reader.verify().is_ok() {
        assert!(all, "what verifies can be read");
        assert!(words.is_ok(), "and so can its words alone");
    }
    if let Ok(dictionary) = reader.dictionary() {
        assert_eq!(dictionary.iter().count(), dictionary.len() as usize);
        assert!(dictionary.word_tokens() <= dictionary.len());
    }
    if let Ok(grammar) = reader.grammar() {
        assert!(
            Grammar::clone(&grammar).check().is_ok(),
            "a grammar that was given out is sound"
        );
        let roots = roots.ok().flatten().expect("all roots can be read");
        let all = (0..info.files).map(|file| grammar.root_of(file));
        assert!(all.eq(&roots), "roots are the same alone");
    }
}

/// Looks up the first words of a few blocks without the dictionary: they are the words that it has.
fn look_up(reader: &SegmentReader) -> zipfdb_storage::Result<()> {
    let Some(blocks) = reader.word_blocks()? else {
        return Ok(());
    };
    for block in 0..blocks.len().min(4) {
        let first = reader.first_token(&blocks, block)?;
        let run = reader.block_tokens(&blocks, block..block + 1)?;
        assert_eq!(first.first, run.first);
        assert_eq!(first.dictionary.token(0), run.dictionary.token(0));
        if let Ok(dictionary) = reader.dictionary() {
            assert_eq!(run.dictionary.token(0), dictionary.token(run.first));
            if !dictionary.is_second_token(run.first) {
                reader.word_total(&blocks, run.first)?;
                let number = reader.word_number(&blocks, run.first)?;
                let (found, first) = reader.numbered_word(&blocks, number)?;
                assert_eq!(found.first + first, run.first);
            }
        }
    }
    Ok(())
}

/// Makes magic, version and all checksums right, and lets the last section take or give the bytes that sizes are off.
/// Leaves a file alone that is too short for its footer.
pub(super) fn seal(file: &mut [u8], form: SegmentForm) {
    // Files with metadata have versions of their own.
    let has_metadata = file.get(MAGIC.len()).is_some_and(|version| *version > 3);
    let (version, sections) = match (form, has_metadata) {
        (SegmentForm::Grammar, false) => (2_u32, 8),
        (SegmentForm::Text, false) => (3, 2),
        (SegmentForm::Grammar, true) => (4, 9),
        (SegmentForm::Text, true) => (5, 3),
    };
    let version = version.to_le_bytes();
    let extents_size = sections * EXTENT_SIZE;
    let Some(tail) = file.len().checked_sub(TAIL_SIZE) else {
        return;
    };
    let footer_size =
        u32::from_le_bytes([file[tail], file[tail + 1], file[tail + 2], file[tail + 3]]);
    let Some(footer) = tail.checked_sub(footer_size as usize) else {
        return;
    };
    if footer < HEAD_SIZE || tail - footer < extents_size {
        return;
    }
    file[..MAGIC.len()].copy_from_slice(&MAGIC);
    file[MAGIC.len()..HEAD_SIZE].copy_from_slice(&version);
    let mut start = HEAD_SIZE;
    for section in 0..sections {
        let extent = tail - extents_size + section * EXTENT_SIZE;
        let recorded: [u8; 8] = file[extent..extent + 8].try_into().expect("8 bytes");
        let room = footer - start;
        let recorded = usize::try_from(u64::from_le_bytes(recorded)).unwrap_or(room);
        let size = if section == sections - 1 {
            room
        } else {
            recorded.min(room)
        };
        let crc32 = crc32fast::hash(&file[start..start + size]);
        file[extent..extent + 8].copy_from_slice(&(size as u64).to_le_bytes());
        file[extent + 8..extent + EXTENT_SIZE].copy_from_slice(&crc32.to_le_bytes());
        start += size;
    }
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&version);
    hasher.update(&file[footer..tail]);
    file[tail + 4..tail + 8].copy_from_slice(&hasher.finalize().to_le_bytes());
    file[tail + 8..].copy_from_slice(&MAGIC);
}
