// codes.cuh: codes of 64 bits for windows of words that take more than 64 bits.
// A word owns a part of an interval, as wide as it is frequent, and parts are in order of words. A window owns the part of a
// part of a part; its code is where that ends. Codes are in the order of windows; two windows have the same one only if
// the part of the greater has no width, which makes it inexact: of a text's windows those with rare words. In the order of
//     (code, exact first, words coded while the part had a width, the words from there on)
// windows are in the order of all their words.
// Exact  integers only
#pragma once
#include "primitives.cuh"

// Where the part of a word begins and ends in an interval of 2^32. No word has less than 2^-29 of it, so that two words
// never are inexact.
struct CodePart {
    u32 low;
    u32 high;
};

// Words that are never inexact.
constexpr u32 EXACT_WORDS = 2;

struct Code {
    // The end of the part.
    u64 value;
    // The words before which the part had a width; all words of an exact window and one more.
    u32 words;
};

__device__ __forceinline__ u64 part_of(u64 width, u32 share) {
    return (width >> 32) * share + ((u64(u32(width)) * share) >> 32);
}

// An interval that is divided word by word.
struct Coder {
    u64 low;
    u64 width;
    u32 words;
};

__device__ __forceinline__ Coder new_coder() { return Coder{0, ~u64(0), 0}; }

__device__ __forceinline__ void add_word(Coder& coder, CodePart part) {
    coder.words += coder.width > 0;
    const u64 before = part_of(coder.width, part.low);
    coder.low += before;
    coder.width = part_of(coder.width, part.high) - before;
}

__device__ __forceinline__ u64 value_of(const Coder& coder) { return coder.low + coder.width; }
__device__ __forceinline__ bool is_exact(const Coder& coder) { return coder.width > 0; }

// What orders inexact windows of one code: the word that left no width, and the words from there on; `word_at` gives words.
template <typename Words>
__device__ __forceinline__ u64 rest_key(const Coder& coder, u32 n, u32 bits, Words word_at) {
    const u32 first = coder.words - 1;
    u64 rest = 0;
    for (u32 i = first; i < n; i++) rest = rest << bits | word_at(i);
    return u64(first - EXACT_WORDS) << (n - EXACT_WORDS) * bits | rest;
}
