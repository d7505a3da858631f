//! Many items, gathered by partition in chunks that are freed as soon as they are read.
//!
//! The invariant: items of a partition come back in the order in which they were pushed. An item takes as many bytes as it
//! has bits for, so that what waits to be sorted is small; and what a partition held is free when its items have been
//! read, so that what is made of them can take its place. What a partition means is its owner's business.

use crate::sort::window_keys::WindowKey;

/// Bytes of a chunk, about: many partitions that each have begun one take little.
const CHUNK_BYTES: usize = 1 << 14;

/// Bytes that an item is written with at most, for it is written whole and then written over.
const ITEM_BYTES_MAX: usize = 32 + size_of::<u32>();

/// Bits that are left of an item above those of its key's type.
const HIGH_BITS_MAX: u32 = u32::BITS;

/// How items of a key and a value below it lie in bytes.
#[derive(Clone, Copy)]
pub(crate) struct ItemLayout<K> {
    /// Bits of an item.
    bits: u32,
    value_bits: u32,
    bytes: usize,
    /// The bits of an item that its key's type holds.
    low_mask: K,
    high_mask: u32,
}

impl<K: WindowKey> ItemLayout<K> {
    /// Items of keys of `key_bits` bits and values of at least one.
    pub(crate) fn new(key_bits: u32, value_bits: u32) -> ItemLayout<K> {
        let bits = key_bits + value_bits;
        let high_bits = bits.saturating_sub(K::BITS);
        debug_assert!(high_bits < HIGH_BITS_MAX);
        ItemLayout {
            bits,
            value_bits,
            bytes: bits.div_ceil(u8::BITS) as usize,
            low_mask: K::ones(bits.min(K::BITS)),
            high_mask: (1 << high_bits) - 1,
        }
    }

    /// Bytes of an item.
    pub(crate) fn bytes(self) -> usize {
        self.bytes
    }

    /// The item of a key and a value: the bits that the key's type holds, and the bits above.
    #[inline(always)]
    fn item(self, key: K, value: u32) -> (K, u32) {
        let low = key.shl(self.value_bits).or(K::from_word(value));
        // At most 32 bits are left.
        let high = key.shr(K::BITS - self.value_bits).low() as u32;
        (low, high)
    }

    /// The bits of an item from `shift` on, which are less than the type of the key holds.
    #[inline(always)]
    pub(crate) fn top(self, (low, high): (K, u32), shift: u32) -> u64 {
        let above = u64::from(high) << (K::BITS - shift).min(u64::BITS - 1);
        if self.bits > K::BITS {
            low.shr(shift).low() | above
        } else {
            low.shr(shift).low()
        }
    }
}

/// A chunk that has room.
#[derive(Default)]
struct OpenChunk {
    bytes: Vec<u8>,
    end: usize,
}

/// Items of one task, by partition.
pub(crate) struct Partitions<K> {
    layout: ItemLayout<K>,
    open: Vec<OpenChunk>,
    full: Vec<Vec<ItemChunk>>,
}

/// Items that lie together.
pub(crate) struct ItemChunk(Vec<u8>);

impl<K: WindowKey> Partitions<K> {
    pub(crate) fn new(layout: ItemLayout<K>, partitions: usize) -> Partitions<K> {
        Partitions {
            layout,
            open: (0..partitions).map(|_| OpenChunk::default()).collect(),
            full: (0..partitions).map(|_| Vec::new()).collect(),
        }
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, partition: usize, key: K, value: u32) {
        let layout = self.layout;
        let open = &mut self.open[partition];
        if open.end + ITEM_BYTES_MAX > open.bytes.len() {
            self.full[partition].extend(open.take());
        }
        let (low, high) = layout.item(key, value);
        let target = &mut open.bytes[open.end..open.end + K::BYTES + size_of::<u32>()];
        low.write(&mut target[..K::BYTES]);
        target[K::BYTES..].copy_from_slice(&high.to_le_bytes());
        open.end += layout.bytes;
    }

    /// Ends pushing: the chunks of each partition.
    pub(crate) fn finish(self) -> Vec<Vec<ItemChunk>> {
        let chunks = self.open.into_iter().zip(self.full);
        let chunks = chunks.map(|(open, mut full)| {
            full.extend(open.finish());
            full
        });
        chunks.collect()
    }
}

impl OpenChunk {
    /// Goes on with an empty chunk and gives the one that was there.
    #[cold]
    fn take(&mut self) -> Option<ItemChunk> {
        let next = OpenChunk {
            bytes: vec![0; CHUNK_BYTES],
            end: 0,
        };
        std::mem::replace(self, next).finish()
    }

    fn finish(mut self) -> Option<ItemChunk> {
        // The last item may have been written with more bytes than it has.
        self.bytes.truncate(self.end);
        (self.end > 0).then_some(ItemChunk(self.bytes))
    }
}

impl ItemChunk {
    /// How many items it has.
    pub(crate) fn items<K>(&self, layout: ItemLayout<K>) -> usize {
        self.0.len() / layout.bytes
    }

    /// Calls `take` with each item: the bits that the key's type holds, and the bits above.
    #[inline(always)]
    pub(crate) fn each<K: WindowKey>(self, layout: ItemLayout<K>, mut take: impl FnMut(K, u32)) {
        let ItemChunk(mut bytes) = self;
        let items = bytes.len() / layout.bytes;
        // What is read of the last item beyond its end is masked.
        bytes.resize(items * layout.bytes + ITEM_BYTES_MAX, 0);
        for item in 0..items {
            let start = item * layout.bytes;
            let source = &bytes[start..start + K::BYTES + size_of::<u32>()];
            let low = K::read(&source[..K::BYTES]).and(layout.low_mask);
            let high = source[K::BYTES..].first_chunk().copied();
            let high = u32::from_le_bytes(high.unwrap_or_default()) & layout.high_mask;
            take(low, high);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::test_grammars::Numbers;
    use crate::sort::window_keys::Wide;

    /// Keys of `bits` bits from 64 random ones, and what their first `bits - shift` ones are.
    fn check<K: WindowKey>(key_bits: u32, value_bits: u32) {
        let layout = ItemLayout::<K>::new(key_bits, value_bits);
        assert_eq!(layout.bytes(), (key_bits + value_bits).div_ceil(8) as usize);
        let mut numbers = Numbers::new(u64::from(key_bits << 8 | value_bits));
        let shift = (key_bits + value_bits).min(K::BITS) - 3;
        let mut partitions = Partitions::new(layout, 3);
        let mut expected = vec![Vec::new(); 3];
        for _ in 0..10_000 {
            let random = |numbers: &mut Numbers| K::from_word(numbers.below(1 << 32) as u32);
            let parts = (0..key_bits.div_ceil(32)).fold(K::default(), |key, _| {
                key.shl(32 % K::BITS).or(random(&mut numbers))
            });
            let key = parts.and(K::ones(key_bits));
            let value = (numbers.below(1 << value_bits)) as u32;
            // Partition 1 stays empty.
            let partition = [0, 2, 2][numbers.below(3) as usize];
            partitions.push(partition, key, value);
            let top = key.shr(shift - value_bits).low();
            let low = key.shl(value_bits).or(K::from_word(value));
            expected[partition].push((low, top));
        }
        for (chunks, expected) in partitions.finish().into_iter().zip(expected) {
            let mut found = Vec::new();
            for chunk in chunks {
                chunk.each(layout, |low, high| {
                    found.push((low, layout.top((low, high), shift)));
                });
            }
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn items_come_back_in_the_order_of_pushing() {
        check::<u64>(20, 1);
        check::<u64>(54, 10);
        check::<u64>(54, 21);
        check::<u64>(60, 30);
        check::<u128>(100, 7);
        check::<u128>(72, 12);
        check::<u128>(120, 29);
        check::<Wide>(200, 25);
        check::<Wide>(248, 31);
    }
}
