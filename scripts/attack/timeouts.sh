#!/usr/bin/env bash
# timeouts.sh [MIB]: runs every kind of statement on work that takes longer with a timeout of 1 s, and measures when it ends.
# Allowed are 1.5 s and 100 ms, and a statement that is done sooner. Text of about MIB mebibytes (256) is made in a temporary
# directory. The table at the end has a line for each statement; exit status 1 if one took too long or failed otherwise.
set -euo pipefail
mebibytes=${1:-256}
cargo build --release --quiet --locked -p zipfdb-cli
zipf=$(cargo metadata --no-deps --format-version 1 | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/release/zipf
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
db=$folder/d.zdb

# Words that repeat little, so that there is much to decode and to count.
awk -v bytes=$((mebibytes << 20)) 'BEGIN {
    srand(1)
    for (size = 0; size < bytes; size += length(line) + 1) {
        line = ""
        for (word = 0; word < 12; word++) line = line sprintf("w%d ", int(300000 ^ rand()))
        print line
    }
}' | split --line-bytes=$((mebibytes << 20 >> 6)) - "$folder/part."
mkdir "$folder/input" "$folder/more"
mv "$folder"/part.* "$folder/input"
cp "$folder/input"/part.a[a-d] "$folder/more"
"$zipf" "$db" -c "CREATE CORPUS c; COPY c FROM '$folder/input'; CREATE CORPUS e"

# A value of 128 MiB.
sixty_four=$(printf 'a%.0s' {1..64})
large="'a'"
for _ in 1 2 3 4; do large="replace($large, 'a', '$sixty_four')"; done
large="replace($large, 'a', 'abcdefgh')"

failures=0
trials=0
run() { # NAME SQL
    local begin end milliseconds status=0 verdict=ok message
    begin=$(date +%s%N)
    message=$("$zipf" "$db" --timeout 1s -c "$2" 2>&1 > /dev/null) || status=$?
    end=$(date +%s%N)
    milliseconds=$(((end - begin) / 1000000))
    trials=$((trials + 1))
    case $message in
        *"longer than 1000 ms"*) ;;
        *) [ $status -eq 0 ] || verdict="failed: ${message:0:80}" ;;
    esac
    [ $milliseconds -le 1600 ] || verdict="too late"
    [ "$verdict" = ok ] || failures=$((failures + 1))
    printf '%-44s %6d ms  exit %d  %s\n' "$1" "$milliseconds" "$status" "$verdict"
}

file=part.aa
for expression in "content LIKE '%a%b%c%q_z%'" "content GLOB '*a*b*[x-z]q*'" "content REGEXP 'q[a-z]*q[0-9]*z'" \
    "instr(content, 'qqq') > 0" "length(replace(content, 'w', 'abc')) < 0" "length(lower(content)) < 0" \
    "length(upper(content)) < 0" "length(trim(content, 'w0123456789 ')) < 0" "length(hex(content)) < 0" \
    "length(quote(content)) < 0" "length(content || content) < 0" "length(substr(content, 3)) < 0" \
    "content < lower(content)" "content = upper(content) COLLATE NOCASE"; do
    run "files: $expression" "SELECT COUNT(*) FROM files('c') WHERE $expression"
done
run "nested replace" "SELECT length(replace(replace($large, 'abc', 'aabbcc'), 'c', 'dd')) AS n"
run "LIKE of a large value" "SELECT x LIKE '%a%b%q%' FROM (SELECT $large AS x)"
while IFS='|' read -r name sql; do
    run "$name" "$sql"
done << END
count|SELECT COUNT(*) FROM c WHERE word = 'w77'
all occurrences|SELECT word, position, offset FROM c
occurrences of a word|SELECT file, position FROM c WHERE word = 'w77'
occurrences in a file|SELECT word, position FROM c WHERE file = '$file'
word counts|SELECT word, COUNT(*) AS n FROM c GROUP BY word ORDER BY n DESC
file counts|SELECT file, word, COUNT(*) FROM c GROUP BY file, word
distinct|SELECT DISTINCT word FROM c WHERE position % 7 = 3
sort of occurrences|SELECT word, offset FROM c ORDER BY offset % 1000, word
sort with a limit|SELECT word, offset FROM c ORDER BY offset % 1000, word LIMIT 1000000
group by an expression|SELECT offset % 1000003 AS k, COUNT(*) FROM c GROUP BY k
words like|SELECT COUNT(*) FROM c WHERE word LIKE '%7%'
term vectors|SELECT * FROM term_vectors('c', 100)
bigrams|SELECT ngram, COUNT(*) AS n FROM ngrams('c', 2) GROUP BY ngram ORDER BY n DESC LIMIT 10
n-grams by file|SELECT ngram, file, COUNT(*) FROM ngrams('c', 5) GROUP BY ngram, file
all n-grams|SELECT * FROM ngrams('c', 3)
a phrase|SELECT file, position, offset FROM ngrams('c', 2) WHERE ngram = 'w1 w2'
files|SELECT file, bytes, words, length(content) FROM files('c')
contents|SELECT content FROM files('c')
contents in order|SELECT content FROM files('c') ORDER BY content
corpora|SELECT * FROM corpora()
segments|SELECT * FROM segments('c')
devices|SELECT * FROM devices()
settings|SELECT * FROM settings()
explain|EXPLAIN SELECT word, COUNT(*) FROM c GROUP BY word
explain analyze|EXPLAIN ANALYZE SELECT * FROM ngrams('c', 8)
check|CHECK c
copy of a query|COPY (SELECT * FROM c) TO '$folder/rows.csv'
copy of a corpus|COPY c TO '$folder/out'
copy from|COPY e FROM '$folder/more'
insert select|INSERT INTO e (file, content) SELECT file, content FROM files('c')
insert|INSERT INTO e (file, content) VALUES ('x', $large)
replace|REPLACE INTO e (file, content) SELECT file, content FROM files('c')
commit|BEGIN; INSERT INTO e (file, content) SELECT file, content FROM files('c') LIMIT 8; COMMIT
delete|DELETE FROM e WHERE file LIKE 'part.a%'
recompress|INSERT INTO c (file, content) VALUES ('$file', ' w1 w2'); RECOMPRESS c
END
printf '%d statements, %d failures\n' "$trials" "$failures"
[ "$failures" -eq 0 ]
