#!/usr/bin/env bash
# Attacks on a database: `scripts/attack/run.sh all|kill|beside|power|damage|faults|limits|hostile|timeouts [OPTION VALUE]...`, see
# README.md beside this file. PROFILE chooses the profile of Cargo: if it is not set, `release` for `timeouts` and `dev` for all
# others; `abort` ends a process at every panic.
set -euo pipefail
cd "$(dirname "$0")/../.."

default=dev
[ "${1:-}" != timeouts ] || default=release
profile=${PROFILE:-$default}
folder=$profile
[ "$profile" != dev ] || folder=debug
cargo build --quiet --locked --profile "$profile" --example attack
target=$(cargo metadata --no-deps --format-version 1 | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
exec "$target/$folder/examples/attack" "$@"
