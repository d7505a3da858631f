// rule_words.cuh: where the words of rules are.
// In     flat u32: a record for each rule, then the words of rules that exceed a record
// Work   a record is 32 bytes, loaded by vectors
// Exact  integers
#pragma once
#include "primitives.cuh"

// Words of a record.
constexpr u32 RECORD = RULE_WORDS_RECORD;

// No word: behind the last one of a record. In place of the first: place and length of the words follow.
constexpr u32 NO_WORD = ~0u;

using Quad = Vector<u32>;
constexpr u32 QUADS = RECORD / Quad::COUNT;
static_assert(RECORD % Quad::COUNT == 0, "records are loaded by vectors");

// Where the words of a rule are in `flat`, and how many there are.
struct Expansion {
    u32 place;
    u32 length;
};

__device__ __forceinline__ void load_quad(const u32* flat, u32 rule, u32 quad, u32 (&record)[RECORD]) {
    const Quad found = reinterpret_cast<const Quad*>(flat)[u64(rule) * QUADS + quad];
#pragma unroll
    for (u32 i = 0; i < Quad::COUNT; i++) record[quad * Quad::COUNT + i] = found.items[i];
}

__device__ __forceinline__ void load_record(const u32* flat, u32 rule, u32 (&record)[RECORD]) {
#pragma unroll
    for (u32 quad = 0; quad < QUADS; quad++) load_quad(flat, rule, quad, record);
}

__device__ __forceinline__ u32 record_length(const u32 (&record)[RECORD]) {
    if (record[0] == NO_WORD) return record[2];
    u32 length = 0;
#pragma unroll
    for (u32 i = 0; i < RECORD; i++) length += record[i] != NO_WORD;
    return length;
}

__device__ __forceinline__ Expansion expansion_of(const u32* flat, u32 rule) {
    u32 record[RECORD];
    load_record(flat, rule, record);
    return Expansion{record[0] == NO_WORD ? record[1] : rule * RECORD, record_length(record)};
}

// What is counted of a grammar, in one array that is 0 at first.
enum Total : u32 {
    // Words behind records.
    FLAT_WORDS,
    // Words of all rules in the root.
    RULE_WORDS,
    // Keys with counts.
    KEYS,
};
