#!/usr/bin/env bash
# Variants of scan and radix sort: gpu-variants.sh [BENCH]; each with 2^26, 2^21 and 2^18 items.
set -euo pipefail
bench=${1:-./zipfdb-bench}
try() {
    echo "== $*"
    for items in 67108864 2097152 262144; do
        env $(printf 'ZIPFDB_TUNE_%s ' "$@") "$bench" gpu --parts primitives --items $items | grep -E 'scan|sort|items'
    done
}
u32() { echo "SORT_U32_THREADS=$1 SORT_U32_ITEMS=$2 SORT_U32_BLOCKS=$3 SORT_U32_PAIR_BLOCKS=$4"; }
u64() { echo "SORT_U64_THREADS=$1 SORT_U64_ITEMS=$2 SORT_U64_BLOCKS=$3 SORT_U64_PAIR_BLOCKS=$4"; }
try SORT_LOOKS=8
try SORT_LOOKS=4
try SORT_LOOKS=16
try SORT_EARLY=1
try $(u32 512 16 2 2) $(u64 384 15 2 2)
try $(u32 512 16 2 2) $(u64 384 15 2 2) SORT_EARLY=1
try $(u32 384 16 3 3) $(u64 256 12 5 4)
try $(u32 256 24 4 3) $(u64 512 10 2 2)
try $(u32 256 20 4 3) $(u64 384 12 2 2)
try $(u32 256 16 5 4) $(u64 256 20 2 2)
try SCAN_ROWS=8 SCAN_BLOCKS=4 SCAN_U64_ROWS=4 SCAN_U64_BLOCKS=8
try SCAN_ROWS=4 SCAN_BLOCKS=8 SCAN_U64_ROWS=8 SCAN_U64_BLOCKS=5
try SCAN_ROWS=2 SCAN_BLOCKS=8 SCAN_U64_ROWS=12 SCAN_U64_BLOCKS=3
