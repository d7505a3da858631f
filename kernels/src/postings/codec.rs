//! The codecs of postings lists, by name and by number.
//!
//! The invariant: a number, once given, never changes its meaning, since files hold it.

/// How the ids of a list are stored. Sections are those of Ao et al., PVLDB 4(8), 2011.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum PostingsCodec {
    /// PForDelta: slots of exceptions are a linked list (5.1).
    Pfd = 1,
    /// PForDelta whose exceptions keep their low bits in the slots; the rest is coded by Simple-16 (5.1).
    NewPfd = 2,
    /// As `NewPfd`, with plain arrays, so that exceptions decode in parallel (5.1, appendix D).
    ParaPfd = 3,
    /// Residuals of one line for the whole list (5.2).
    Lrc = 4,
    /// As `Lrc`, with a residual to begin at for each 256 ids.
    LrcSeg = 5,
    /// Residuals of a line for each 256 ids.
    SegLrc = 6,
    /// Residuals of a line for each hash bucket of about 256 ids.
    HsLrc256 = 7,
    /// Residuals of a line for each hash bucket of about 128 ids.
    HsLrc128 = 8,
    /// Partitioned Elias-Fano (Ottaviano and Venturini, SIGIR 2014).
    EliasFano = 9,
    /// Gaps of 128 ids in as many bits each as the largest needs (Lemire and Boytsov, 2015).
    Bp128 = 10,
    /// Arrays, bit sets and runs for each 65,536 ids of the universe (Lemire et al., 2016).
    Roaring = 11,
}

impl PostingsCodec {
    /// All codecs, by number.
    pub const ALL: [PostingsCodec; 11] = [
        PostingsCodec::Pfd,
        PostingsCodec::NewPfd,
        PostingsCodec::ParaPfd,
        PostingsCodec::Lrc,
        PostingsCodec::LrcSeg,
        PostingsCodec::SegLrc,
        PostingsCodec::HsLrc256,
        PostingsCodec::HsLrc128,
        PostingsCodec::EliasFano,
        PostingsCodec::Bp128,
        PostingsCodec::Roaring,
    ];

    /// The name that users give.
    pub fn name(self) -> &'static str {
        match self {
            PostingsCodec::Pfd => "pfd",
            PostingsCodec::NewPfd => "newpfd",
            PostingsCodec::ParaPfd => "parapfd",
            PostingsCodec::Lrc => "lrc",
            PostingsCodec::LrcSeg => "lrcseg",
            PostingsCodec::SegLrc => "seglrc",
            PostingsCodec::HsLrc256 => "hs256_lrc",
            PostingsCodec::HsLrc128 => "hs128_lrc",
            PostingsCodec::EliasFano => "ef",
            PostingsCodec::Bp128 => "bp128",
            PostingsCodec::Roaring => "roaring",
        }
    }

    /// The codec of that name.
    pub fn from_name(name: &str) -> Option<PostingsCodec> {
        let mut all = PostingsCodec::ALL.into_iter();
        all.find(|codec| codec.name() == name)
    }

    /// The codec of a number that a file holds.
    pub fn from_number(number: u8) -> Option<PostingsCodec> {
        let mut all = PostingsCodec::ALL.into_iter();
        all.find(|&codec| codec as u8 == number)
    }
}

/// Bytes that no encoder writes for this number of ids of that universe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed postings list")]
pub struct MalformedPostings;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_find_their_codec() {
        for (index, codec) in PostingsCodec::ALL.into_iter().enumerate() {
            assert_eq!(codec as usize, index + 1);
            assert_eq!(PostingsCodec::from_number(codec as u8), Some(codec));
            assert_eq!(PostingsCodec::from_name(codec.name()), Some(codec));
        }
        assert_eq!(PostingsCodec::from_number(0), None);
        assert_eq!(PostingsCodec::from_name("auto"), None);
    }
}
