#!/usr/bin/env bash
# One folder with everything that tests and times the CUDA kernels on a Linux machine with an NVIDIA driver and NVRTC, and
# without Rust and the sources: `scripts/gpu-bundle.sh FOLDER [CORPUS...]`. Corpora are files, directories of text, or databases; they
# travel as databases. There: `FOLDER/run.sh [tests|sanitize|bench|profile|calibrate]`.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ $# -lt 1 ]; then
    sed -n 's/^# //p' "$0" >&2
    exit 2
fi
folder=$1
shift
mkdir -p "$folder/corpora"

# The executable that Cargo says it has built.
executable() {
    sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -n 1
}

tests=$(cargo test --release -p zipfdb-kernels --lib --no-run --message-format=json | executable)
bench_tests=$(cargo test --release -p zipfdb-bench-kernels --lib --no-run --message-format=json | executable)
database_tests=$(cargo test --release -p zipfdb --test gpu --no-run --message-format=json | executable)
cargo build --release -p zipfdb-bench --bin zipfdb-bench -p zipfdb-cli --bin zipf
release=$(dirname "$(dirname "$tests")")
install -m 755 "$tests" "$folder/kernel-tests"
install -m 755 "$bench_tests" "$folder/bench-kernel-tests"
install -m 755 "$database_tests" "$folder/database-tests"
install -m 755 "$release/zipfdb-bench" "$folder/zipfdb-bench"
strip "$folder/kernel-tests" "$folder/bench-kernel-tests" "$folder/database-tests" "$folder/zipfdb-bench"
install -m 644 bench/src/gpu/cub.cu scripts/gpu_profile.py "$folder"
install -m 755 scripts/gpu-profile.sh "$folder"

for corpus in "$@"; do
    name=$(basename "${corpus%.zdb}")
    target=$folder/corpora/$name.zdb
    rm -rf "$target"
    if [ -d "$corpus/segments" ]; then
        cp -r "$corpus" "$target"
    else
        "$release/zipf" "$target" -c "CREATE CORPUS c; COPY c FROM '$corpus'"
    fi
done

cat > "$folder/run.sh" << 'RUN'
#!/usr/bin/env bash
# Tests the CUDA kernels on this machine, looks for bad accesses and races, and times them:
# run.sh [tests|sanitize|bench|profile|calibrate]
set -euo pipefail
cd "$(dirname "$0")"
chmod +x kernel-tests bench-kernel-tests database-tests zipfdb-bench

library=$(find /usr/local/cuda*/ /usr/lib /opt -name 'libnvrtc.so*' 2> /dev/null | head -n 1 || true)
[ -z "$library" ] || export LD_LIBRARY_PATH=$(dirname "$library"):${LD_LIBRARY_PATH:-}

tests() {
    ./kernel-tests gpu --nocapture
    ./bench-kernel-tests --nocapture
    ./database-tests --nocapture
}

# Without a C++ compiler tests leave the emulator out, which has sanitizers of its own. Racecheck takes minutes for some tests: each has
# a process of its own, twelve at once. Tests that use no device are left out of it.
sanitize() {
    export CXX=none
    compute-sanitizer --tool memcheck --error-exitcode 1 ./kernel-tests gpu::
    compute-sanitizer --tool memcheck --error-exitcode 1 ./bench-kernel-tests
    racecheck ./kernel-tests gpu:: '^(gpu::(compile|emulator|signature)|ngrams::codes_gpu)::'
    racecheck ./bench-kernel-tests '' '^(energy|list_searches|prefix_code|set_operations|shared_lists)::'
}

# racecheck TESTS FILTER WITHOUT: looks for races in the tests of an executable that the filter takes, without some.
racecheck() {
    "$1" "$2" --list | sed -n 's/: test$//p' | grep -vE "$3" |
        TESTS=$1 xargs -P 12 -I {} sh -c 'log=$(compute-sanitizer --tool racecheck --racecheck-report all --error-exitcode 1 \
            "$TESTS" --exact {} 2>&1) && echo "no race: {}" || { printf "%s\n" "$log"; exit 1; }'
}

bench() {
    if command -v nvcc > /dev/null; then
        nvcc -O3 -std=c++17 -arch=native cub.cu -o cub && ./cub
    fi
    local corpora=(corpora/*.zdb)
    ./zipfdb-bench gpu --corpus "${corpora[@]}"
}

profile() {
    for corpus in corpora/*.zdb; do
        printf '\n%s\n' "$corpus"
        ./gpu-profile.sh "$corpus" "profile-$(basename "$corpus" .zdb)"
    done
}

calibrate() {
    ./zipfdb-bench calibrate --corpus corpora/*.zdb
}

if [ $# -eq 0 ]; then
    set -- tests sanitize bench
fi
for part in "$@"; do
    printf '\n== %s\n' "$part"
    "$part"
done
RUN
chmod +x "$folder/run.sh"
du -sh "$folder"
