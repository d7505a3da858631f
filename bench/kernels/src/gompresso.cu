// gompresso.cu: packed text to text (Sitaridi et al., "Massively-Parallel Lossless Data Decompression", ICPP 2016).
// In     packed: the data blocks as they are stored; blocks [blocks]: where each is, and how many sequences it has
// Out    text [size] u8; faults [blocks] u32: 0, or why a block cannot be what a writer wrote, and then its text is anything
// Work   Bit: a look-up a symbol, bits to records and literals in memory, 4 bytes a sequence and 1 a literal.
//        Text: reads records and literals, and sources that are farther back than the ring; writes each byte of text once
// Map    Bit: a CUDA block a data block, a thread a sub-block. Text: a warp a data block, a lane a sequence, so that votes need
//        no barrier; short data blocks give more warps
// Exact  copies only. What bytes of `packed` say is checked before it is used: nothing is read or written outside of the block's
//        own memory
// Why    Lanes write to a ring in shared memory, which the warp copies out in vectors: strings and references have some
//        bytes each and begin anywhere, and stores of single bytes would be as many writes to the cache as bytes
#include "primitives.cuh"

constexpr u32 BIT_THREADS = GOMPRESSO_BIT_THREADS;
constexpr u32 CODE_BITS_MAX = GOMPRESSO_CODE_BITS_MAX;
constexpr u32 TEXT_SYMBOLS = GOMPRESSO_TEXT_SYMBOLS;
constexpr u32 DISTANCE_SYMBOLS = GOMPRESSO_DISTANCE_SYMBOLS;
constexpr u32 SYMBOLS = TEXT_SYMBOLS + DISTANCE_SYMBOLS;
constexpr u32 NO_MATCH = GOMPRESSO_NO_MATCH;
constexpr u32 LENGTHS_BEGIN = NO_MATCH + 1;
constexpr u32 LITERALS_MAX = GOMPRESSO_LITERALS_MAX;
constexpr u32 MATCH_MIN = GOMPRESSO_MATCH_MIN;
constexpr u32 MATCH_MAX = GOMPRESSO_MATCH_MAX;
constexpr u32 HEAD_SIZE = GOMPRESSO_HEAD_SIZE;
constexpr u32 BITS_WIDTH_MAX = GOMPRESSO_BITS_WIDTH_MAX;
constexpr u32 LITERALS_WIDTH_MAX = GOMPRESSO_LITERALS_WIDTH_MAX;

// Orders of references.
constexpr u32 SEQUENTIAL = GOMPRESSO_SEQUENTIAL;
constexpr u32 DIRECT = GOMPRESSO_DIRECT;

// Faults.
constexpr u32 NO_FAULT = 0;
constexpr u32 BYTES = GOMPRESSO_BYTES;
constexpr u32 LENGTHS = GOMPRESSO_LENGTHS;
constexpr u32 DISTANCE = GOMPRESSO_DISTANCE;
constexpr u32 CODE_LENGTHS = GOMPRESSO_CODE_LENGTHS;
constexpr u32 BITS = GOMPRESSO_BITS;

constexpr u32 WORD = sizeof(u32);

// A data block: where it is stored, where its records and literals are, all in bytes and multiples of 4.
struct DataBlock {
    u64 stored;
    u64 records;
    u64 literals;
    // 0 if the text is stored as it is.
    u32 sequences;
    // Stored bytes.
    u32 bytes;
};

__device__ __forceinline__ const u32* words_at(const u8* bytes, u64 at) {
    return reinterpret_cast<const u32*>(bytes + at);
}

// Bit blocks.

// `count` bits from a bit on, of words of which there are enough; at most 32.
__device__ __forceinline__ u32 field_at(const u32* words, u64 bit, u32 count) {
    if (count == 0) return 0;
    const u64 word = bit / 32;
    const u32 shift = u32(bit % 32);
    u64 found = words[word] >> shift;
    if (shift + count > 32) found |= u64(words[word + 1]) << (32 - shift);
    return u32(found & ((u64(1) << count) - 1));
}

// The next bits of a stream; 0 behind its end.
struct BitStream {
    const u32* words;
    u32 word_count;
    u32 next;
    u32 known;
    u64 bits;
};

// Makes at least 33 bits known.
__device__ __forceinline__ void refill(BitStream& stream) {
    if (stream.known > 32) return;
    const u32 word = stream.next < stream.word_count ? stream.words[stream.next] : 0;
    stream.bits |= u64(word) << stream.known;
    stream.known += 32;
    stream.next++;
}

__device__ __forceinline__ BitStream stream_at(const u32* words, u32 word_count, u32 bit) {
    BitStream stream{words, word_count, bit / 32, 0, 0};
    refill(stream);
    stream.bits >>= bit % 32;
    stream.known -= bit % 32;
    refill(stream);
    return stream;
}

// At most 32 bits, which are known.
__device__ __forceinline__ u32 take(BitStream& stream, u32 count) {
    const u32 bits = u32(stream.bits & ((u64(1) << count) - 1));
    stream.bits >>= count;
    stream.known -= count;
    return bits;
}

// Bytes that are stored as words, except for those that share a word with others' bytes.
struct ByteSink {
    u8* bytes;
    u32 begin;
    u32 at;
    u32 pending;
};

__device__ __forceinline__ void flush_bytes(const ByteSink& sink) {
    const u32 first = max(sink.begin, (sink.at - 1) / WORD * WORD);
    for (u32 i = first; i < sink.at; i++) sink.bytes[i] = u8(sink.pending >> i % WORD * 8);
}

__device__ __forceinline__ void put_byte(ByteSink& sink, u32 byte) {
    sink.pending |= byte << sink.at % WORD * 8;
    sink.at++;
    if (sink.at % WORD > 0) return;
    if (sink.at - sink.begin >= WORD) {
        *reinterpret_cast<u32*>(sink.bytes + sink.at - WORD) = sink.pending;
    } else {
        flush_bytes(sink);
    }
    sink.pending = 0;
}

__device__ __forceinline__ void finish_bytes(const ByteSink& sink) {
    if (sink.at > sink.begin && sink.at % WORD > 0) flush_bytes(sink);
}

// What the threads of a data block share.
template <u32 TABLE_BITS>
struct BitShared {
    // By the next bits: the symbol and above 4 bits of its length; 0 for no code.
    u16 text_table[1 << TABLE_BITS];
    u16 distance_table[1 << TABLE_BITS];
    u8 lengths[SYMBOLS];
    u16 codes[SYMBOLS];
    BlockSum<u64> sums;
    u32 fault;
    u32 bits_width;
    u32 literals_width;
    u32 table_begin;
    u32 stream_begin;
};

constexpr u32 ENTRY_SHIFT = 4;
constexpr u32 ENTRY_LENGTH = (1 << ENTRY_SHIFT) - 1;

// Reads code lengths of nibbles, as `read_code_lengths`. False if there are others, or of another size.
__device__ bool read_lengths(const u8* bytes, u32 size, u8* lengths) {
    constexpr u32 REPEAT = 13, ZEROS = 14, RUN_MIN = 3, MANY_ZEROS_MIN = RUN_MIN + 16;
    u32 taken = 0, at = 0;
    bool is_short = false;
    const auto nibble = [&]() -> u32 {
        if (taken / 2 >= size) {
            is_short = true;
            return 0;
        }
        const u32 found = bytes[taken / 2] >> taken % 2 * 4 & 15;
        taken++;
        return found;
    };
    while (at < SYMBOLS) {
        const u32 first = nibble();
        u32 value = first, run = 1;
        if (first == REPEAT) {
            if (at == 0) return false;
            value = lengths[at - 1];
            run = RUN_MIN + nibble();
        } else if (first == ZEROS) {
            value = 0;
            run = RUN_MIN + nibble();
        } else if (first > ZEROS) {
            value = 0;
            run = nibble();
            run = MANY_ZEROS_MIN + (run | nibble() << 4);
        }
        if (is_short || at + run > SYMBOLS) return false;
        for (const u32 end = at + run; at < end; at++) lengths[at] = u8(value);
    }
    return (taken + 1) / 2 == size;
}

// The canonical codes of some lengths, their first bits lowest. False if no prefix code has them.
__device__ bool assign_codes(const u8* lengths, u32 symbols, u32 code_bits, u16* codes) {
    u32 next[CODE_BITS_MAX + 1];
    for (u32 length = 0; length <= CODE_BITS_MAX; length++) next[length] = 0;
    for (u32 symbol = 0; symbol < symbols; symbol++) {
        if (lengths[symbol] > code_bits) return false;
        next[lengths[symbol]]++;
    }
    u32 code = 0, before = 0, used = 0;
    for (u32 length = 1; length <= CODE_BITS_MAX; length++) {
        const u32 count = next[length];
        code = (code + before) << 1;
        if (length <= code_bits) used += count << (code_bits - length);
        next[length] = code;
        before = count;
    }
    if (used > 1u << code_bits) return false;
    for (u32 symbol = 0; symbol < symbols; symbol++) {
        const u32 length = lengths[symbol];
        if (length > 0) codes[symbol] = u16(__brev(next[length]++) >> (32 - length));
    }
    return true;
}

// Fills a table with the codes of symbols, a warp a symbol.
__device__ __forceinline__ void fill_table(const u8* lengths, const u16* codes, u32 symbols, u32 code_bits, u16* table) {
    for (u32 symbol = warp_index(); symbol < symbols; symbol += BIT_THREADS / WARP_THREADS) {
        const u32 length = lengths[symbol];
        if (length == 0) continue;
        const u16 entry = u16(symbol << ENTRY_SHIFT | length);
        for (u32 i = lane_index(); i < 1u << (code_bits - length); i += WARP_THREADS) {
            table[codes[symbol] | i << length] = entry;
        }
    }
}

// The head of a block and its codes: one thread.
template <typename Shared>
__device__ u32 read_head(const u8* stored, const DataBlock& block, u32 sub_block, u32 code_bits, Shared& shared) {
    if (block.bytes < HEAD_SIZE) return BYTES;
    const u32 head = *words_at(stored, 0);
    const u32 size = head & 0xffff;
    shared.bits_width = head >> 16 & 0xff;
    shared.literals_width = head >> 24;
    shared.table_begin = (HEAD_SIZE + size + WORD - 1) / WORD * WORD;
    if (HEAD_SIZE + size > block.bytes) return BYTES;
    if (!read_lengths(stored + HEAD_SIZE, size, shared.lengths)) return CODE_LENGTHS;
    if (shared.bits_width > BITS_WIDTH_MAX || shared.literals_width > LITERALS_WIDTH_MAX) return BITS;
    const u64 sub_blocks = (u64(block.sequences) + sub_block - 1) / sub_block;
    const u64 table_bits = sub_blocks * (shared.bits_width + shared.literals_width);
    const u64 stream_begin = shared.table_begin + (table_bits + 31) / 32 * WORD;
    if (stream_begin > block.bytes) return BYTES;
    shared.stream_begin = u32(stream_begin);
    const bool are_codes = assign_codes(shared.lengths, TEXT_SYMBOLS, code_bits, shared.codes) &&
                           assign_codes(shared.lengths + TEXT_SYMBOLS, DISTANCE_SYMBOLS, code_bits,
                                        shared.codes + TEXT_SYMBOLS);
    return are_codes ? NO_FAULT : CODE_LENGTHS;
}

// Values of symbols, as in `symbols.rs`.

__device__ __forceinline__ u32 taken_length(u32 symbol, BitStream& stream) {
    const u32 index = symbol - LENGTHS_BEGIN;
    if (index < 8) return MATCH_MIN + index;
    const u32 extra = index / 4 - 1;
    return MATCH_MIN + ((4 + index % 4) << extra) + take(stream, extra);
}

// Less 1.
__device__ __forceinline__ u32 taken_distance(u32 symbol, BitStream& stream) {
    if (symbol < 4) return symbol;
    const u32 extra = symbol / 2 - 1;
    return ((2 + symbol % 2) << extra) + take(stream, extra);
}

// Decodes a sub-block of `count` sequences and `bits` bits to records, and to literals up to `literals_end`.
template <typename Shared>
__device__ u32 decode_sub_block(const Shared& shared, BitStream stream, u32 code_bits, u32 bits, u32 count, u32* records,
                                ByteSink literals, u32 literals_end) {
    const u32 mask = (1u << code_bits) - 1;
    const u64 begin = u64(stream.next) * 32 - stream.known;
    for (u32 i = 0; i < count; i++) {
        const u32 string = literals.at;
        u32 reference = 0;
        while (true) {
            refill(stream);
            const u32 entry = shared.text_table[u32(stream.bits) & mask];
            if (entry == 0) return BITS;
            take(stream, entry & ENTRY_LENGTH);
            const u32 symbol = entry >> ENTRY_SHIFT;
            if (symbol < NO_MATCH) {
                if (literals.at == literals_end) return BITS;
                put_byte(literals, symbol);
                continue;
            }
            if (symbol == NO_MATCH) break;
            const u32 length = taken_length(symbol, stream);
            refill(stream);
            const u32 entry_of_distance = shared.distance_table[u32(stream.bits) & mask];
            if (entry_of_distance == 0) return BITS;
            take(stream, entry_of_distance & ENTRY_LENGTH);
            const u32 distance = taken_distance(entry_of_distance >> ENTRY_SHIFT, stream);
            if (length > MATCH_MAX) return LENGTHS;
            reference = (length - (MATCH_MIN - 1)) << 8 | distance << 16;
            break;
        }
        if (literals.at - string > LITERALS_MAX) return LENGTHS;
        records[i] = (literals.at - string) | reference;
    }
    finish_bytes(literals);
    const u64 end = u64(stream.next) * 32 - stream.known;
    return end == begin + bits && literals.at == literals_end ? NO_FAULT : BITS;
}

// Decodes the sub-blocks of data blocks to records and literals. literal_bytes[block] = how many these are.
extern "C" __global__ void __launch_bounds__(BIT_THREADS)
gompresso_bits_kernel(const u8* packed, const DataBlock* blocks, u32 block_size, u64 size, u32 sub_block, u32 code_bits,
                      u32* records, u8* literals, u32* literal_bytes, u32* faults) {
    SHARED(BitShared<MADE_FOR_OR(CODE_BITS_MAX)>, shared);
    const DataBlock block = blocks[blockIdx.x];
    if (block.sequences == 0) return;
    const u8* stored = packed + block.stored;
    const u64 text_begin = u64(blockIdx.x) * block_size;
    const u32 text_len = u32(min(size - text_begin, u64(block_size)));
    for (u32 i = threadIdx.x; i < 1u << code_bits; i += BIT_THREADS) {
        shared.text_table[i] = 0;
        shared.distance_table[i] = 0;
    }
    if (threadIdx.x == 0) shared.fault = read_head(stored, block, sub_block, code_bits, shared);
    __syncthreads();
    if (shared.fault != NO_FAULT) {
        if (threadIdx.x == 0) faults[blockIdx.x] = shared.fault;
        return;
    }
    fill_table(shared.lengths, shared.codes, TEXT_SYMBOLS, code_bits, shared.text_table);
    fill_table(shared.lengths + TEXT_SYMBOLS, shared.codes + TEXT_SYMBOLS, DISTANCE_SYMBOLS, code_bits,
               shared.distance_table);
    __syncthreads();

    const u32* table = words_at(stored, shared.table_begin);
    const u32* stream = words_at(stored, shared.stream_begin);
    const u32 stream_words = (block.bytes - shared.stream_begin) / WORD;
    const u32 bits_width = shared.bits_width, literals_width = shared.literals_width;
    const u32 sub_blocks = (block.sequences - 1) / sub_block + 1;
    // Bits, and literals in the high half.
    u64 before = 0;
    u32 fault = NO_FAULT;
    for (u32 first = 0; first < sub_blocks; first += BIT_THREADS) {
        const u32 index = first + threadIdx.x;
        u32 bits = 0, literal_count = 0;
        if (index < sub_blocks) {
            const u64 field = u64(index) * (bits_width + literals_width);
            bits = field_at(table, field, bits_width);
            literal_count = field_at(table, field + bits_width, literals_width);
        }
        u64 sum = 0;
        const u64 own = before + block_exclusive_sum(u64(literal_count) << 32 | bits, shared.sums, sum);
        before += sum;
        // Widths bound the sums of a round, so that these are found before they overflow.
        if (u32(before) > u64(stream_words) * 32 || before >> 32 > text_len) {
            fault = LENGTHS;
            break;
        }
        if (index < sub_blocks) {
            const u32 count = min(sub_block, block.sequences - index * sub_block);
            const u32 literals_begin = u32(own >> 32);
            const ByteSink sink{literals + block.literals, literals_begin, literals_begin, 0};
            u32* own_records = records + block.records / WORD + u64(index) * sub_block;
            const u32 found = decode_sub_block(shared, stream_at(stream, stream_words, u32(own)), code_bits, bits, count,
                                               own_records, sink, literals_begin + literal_count);
            if (found != NO_FAULT) fault = found;
        }
    }
    if ((u32(before) + 31) / 32 != stream_words && fault == NO_FAULT) fault = BYTES;
    // Any of the faults: plain stores of threads that found one.
    if (fault != NO_FAULT) atomicMax(&faults[blockIdx.x], fault);
    if (threadIdx.x == 0) literal_bytes[blockIdx.x] = u32(before >> 32);
}

// Text.

// The last bytes of a block's text: byte `at` of the block is byte `at % RING` of it.
constexpr u32 RING = 4096;
constexpr u32 RING_WORDS = RING / WORD;
// Text of a group at most; what is before it in the ring is left, and references to it need no look at memory.
constexpr u32 GROUP_TEXT_MAX = RING / 2;
// Bytes that lanes copy out at once.
constexpr u32 VECTOR = sizeof(Vector<u32>);
// Words that are loaded before any is stored, so that their latencies overlap.
constexpr u32 WORDS_AT_ONCE = 4;

struct TextShared {
    Vector<u32> vectors[RING / VECTOR];
};

// `wanted` bytes from `from` on, at most 4; `load` gives words by index. Touches no word without a wanted byte.
template <typename Load>
__device__ __forceinline__ u32 gather(u32 from, u32 wanted, Load load) {
    const u32 shift = from % WORD;
    const u32 low = load(from / WORD);
    const u32 high = shift + wanted > WORD ? load(from / WORD + 1) : 0;
    return __funnelshift_r(low, high, shift * 8);
}

__device__ __forceinline__ void store_few(u32* ring, u32 to, u32 value, u32 count) {
    u8* bytes = reinterpret_cast<u8*>(ring);
#pragma unroll
    for (u32 i = 0; i < WORD - 1; i++) {
        if (i < count) bytes[(to + i) % RING] = u8(value >> i * 8);
    }
}

// Copies bytes to the ring, which are all there before: a lane alone, by words of the ring.
template <typename Load>
__device__ __forceinline__ void copy_words(u32* ring, u32 to, u32 from, u32 count, Load load) {
    const u32 head = min((WORD - to % WORD) % WORD, count);
    if (head > 0) {
        store_few(ring, to, gather(from, head, load), head);
        to += head;
        from += head;
        count -= head;
    }
    while (count >= WORD) {
        const u32 words = min(count / WORD, WORDS_AT_ONCE);
        u32 loaded[WORDS_AT_ONCE];
#pragma unroll
        for (u32 i = 0; i < WORDS_AT_ONCE; i++) {
            loaded[i] = i < words ? gather(from + i * WORD, WORD, load) : 0;
        }
#pragma unroll
        for (u32 i = 0; i < WORDS_AT_ONCE; i++) {
            if (i < words) ring[(to / WORD + i) % RING_WORDS] = loaded[i];
        }
        to += words * WORD;
        from += words * WORD;
        count -= words * WORD;
    }
    if (count > 0) store_few(ring, to, gather(from, count, load), count);
}

// Copies bytes of the ring one after the other: they may be made by the copy itself, or have neighbours that are written meanwhile.
__device__ __forceinline__ void copy_bytes(u32* ring, u32 to, u32 from, u32 count) {
    u8* bytes = reinterpret_cast<u8*>(ring);
    for (u32 i = 0; i < count; i++) bytes[(to + i) % RING] = bytes[(from + i) % RING];
}

// The reference of a lane.
struct Reference {
    u32 source;
    u32 write;
    u32 length;
};

// Copies a reference whose source is written, or made by the copy itself. Below `mark` all is written and nothing is being
// written; from `ring_begin` on the ring has the text, below it memory.
__device__ __forceinline__ void copy_reference(u32* ring, const u32* text, const Reference& reference, u32 mark,
                                               u32 ring_begin) {
    const u32 end = reference.source + reference.length;
    const bool is_in_ring = reference.source >= ring_begin;
    if (is_in_ring && (end + WORD - 1) / WORD * WORD > mark) {
        copy_bytes(ring, reference.write, reference.source, reference.length);
        return;
    }
    const auto load = [&](u32 word) { return is_in_ring ? ring[word % RING_WORDS] : text[word]; };
    copy_words(ring, reference.write, reference.source, reference.length, load);
}

// Whether the source of a lane's reference lies within a literal string of the group. `begin` and `write` are where a lane's string
// begins and ends.
__device__ __forceinline__ bool is_in_literals(u32 begin, const Reference& reference) {
    // The last lane whose string begins at or before the source.
    u32 owner = 0;
#pragma unroll
    for (u32 step = WARP_THREADS / 2; step > 0; step /= 2) {
        if (__shfl_sync(FULL_WARP, begin, i32(owner + step)) <= reference.source) owner += step;
    }
    return reference.source + reference.length <= __shfl_sync(FULL_WARP, reference.write, i32(owner));
}

// Copies the references of a group whose literals are written; `begin` is where a lane's string begins.
__device__ __forceinline__ void copy_references(u32* ring, const u32* text, u32 begin, const Reference& reference,
                                                u32 ring_begin, u32 order) {
    u32 votes = __ballot_sync(FULL_WARP, reference.length > 0);
    if (votes == 0) return;
    if (order == SEQUENTIAL) {
        for (; votes != 0; votes &= votes - 1) {
            const u32 lane = u32(__ffs(i32(votes))) - 1;
            if (lane_index() == lane) copy_reference(ring, text, reference, reference.write, ring_begin);
            __syncwarp();
        }
        return;
    }
    const u32 end = min(reference.source + reference.length, reference.write);
    bool is_pending = reference.length > 0;
    u32 mark = __shfl_sync(FULL_WARP, reference.write, __ffs(i32(votes)) - 1);
    bool is_ready = end <= mark;
    if (order == DIRECT && __any_sync(FULL_WARP, is_pending && !is_ready)) {
        // All lanes take part.
        const bool is_literal = is_in_literals(begin, reference);
        is_ready = is_ready || is_literal;
    }
    // The lowest pending lane is always ready: no more rounds than lanes.
    while (true) {
        if (is_pending && is_ready) {
            copy_reference(ring, text, reference, mark, ring_begin);
            is_pending = false;
        }
        __syncwarp();
        votes = __ballot_sync(FULL_WARP, is_pending);
        if (votes == 0) return;
        mark = __shfl_sync(FULL_WARP, reference.write, __ffs(i32(votes)) - 1);
        is_ready = end <= mark;
    }
}

// Copies text that is stored as it is: a warp.
__device__ __forceinline__ void copy_stored(const u32* from, u8* text, u32 len) {
    u32* words = reinterpret_cast<u32*>(text);
    for (u32 i = lane_index(); i < len / WORD; i += WARP_THREADS) words[i] = from[i];
    const u32 rest = len / WORD * WORD + lane_index();
    if (rest < len) text[rest] = u8(from[len / WORD] >> lane_index() * 8);
}

// Makes text of records and literals.
extern "C" __global__ void __launch_bounds__(WARP_THREADS)
gompresso_text_kernel(const u8* packed, const DataBlock* blocks, u32 block_size, u64 size, const u8* records,
                      const u8* literals, const u32* literal_bytes, u32 order, u8* text, u32* faults) {
    SHARED(TextShared, shared);
    u32* ring = shared.vectors[0].items;
    const DataBlock block = blocks[blockIdx.x];
    const u64 text_begin = u64(blockIdx.x) * block_size;
    const u32 len = u32(min(size - text_begin, u64(block_size)));
    u8* own_text = text + text_begin;
    if (faults[blockIdx.x] != NO_FAULT) return;
    // A fault that is found here is written once all lanes have looked.
    __syncwarp();
    if (block.sequences == 0) {
        copy_stored(words_at(packed, block.stored), own_text, len);
        return;
    }
    const u32* own_records = words_at(records, block.records);
    const u32* own_literals = words_at(literals, block.literals);
    const u32 literal_end = literal_bytes[blockIdx.x];
    const u32* text_words = reinterpret_cast<const u32*>(own_text);
    const auto load_literals = [&](u32 word) { return own_literals[word]; };
    const u32 lane = lane_index();
    // How far literals are read, text is made, and text is copied out.
    u32 used = 0, at = 0, flushed = 0;
    u32 fault = NO_FAULT;
    u32 next_record = lane < block.sequences ? own_records[lane] : 0;
    for (u32 next = 0; next < block.sequences;) {
        const u32 record = next_record;
        u32 literal_count = record & 0xff;
        u32 length = record >> 8 & 0xff;
        length += length > 0 ? MATCH_MIN - 1 : 0;
        // Text up to this lane, and literals in the high half: at most 2^14 and 2^13 bytes.
        const u32 sums = warp_inclusive_sum(literal_count << 16 | (literal_count + length));
        // Longer groups are cut.
        const u32 lanes = u32(__popc(__ballot_sync(FULL_WARP, (sums & 0xffff) <= GROUP_TEXT_MAX)));
        const u32 group = __shfl_sync(FULL_WARP, sums, i32(lanes - 1));
        next += lanes;
        // Loaded while this group is worked on.
        next_record = next + lane < block.sequences ? own_records[next + lane] : 0;
        const u32 end = at + (group & 0xffff);
        if (end > len || used + (group >> 16) > literal_end) {
            fault = LENGTHS;
            break;
        }
        // Lanes that are not of the group have nothing at its end.
        if (lane >= lanes) literal_count = length = 0;
        const u32 own_end = lane < lanes ? at + (sums & 0xffff) : end;
        const u32 write = own_end - length;
        const u32 begin = write - literal_count;
        const u32 distance = (record >> 16) + 1;
        if (__any_sync(FULL_WARP, length > 0 && distance > write)) {
            fault = DISTANCE;
            break;
        }
        const Reference reference{length > 0 ? write - distance : write, write, length};
        copy_words(ring, begin, used + (sums >> 16) - literal_count, literal_count, load_literals);
        __syncwarp();
        const u32 ring_begin = end > RING ? end - RING : 0;
        copy_references(ring, text_words, begin, reference, ring_begin, MADE_FOR_OR(order));
        __syncwarp();
        for (u32 i = flushed / VECTOR + lane; i < end / VECTOR; i += WARP_THREADS) {
            reinterpret_cast<Vector<u32>*>(own_text)[i] = shared.vectors[i % (RING / VECTOR)];
        }
        __syncwarp();
        flushed = end / VECTOR * VECTOR;
        used += group >> 16;
        at = end;
    }
    if (fault == NO_FAULT) {
        if (flushed + lane < at) {
            own_text[flushed + lane] = reinterpret_cast<const u8*>(ring)[(flushed + lane) % RING];
        }
        // Literals of a Byte block end with its last word.
        if (at != len || literal_end - used >= WORD) fault = LENGTHS;
    }
    if (fault != NO_FAULT && lane == 0) faults[blockIdx.x] = fault;
}
