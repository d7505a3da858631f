#!/usr/bin/env bash
# Attacks on a database: `scripts/attack/run.sh all|kill|power|damage|faults|limits|hostile [OPTION VALUE]...`, see README.md
# beside this file. PROFILE chooses the profile of Cargo, `dev` if it is not set; `abort` ends a process at every panic.
set -euo pipefail
cd "$(dirname "$0")/../.."

profile=${PROFILE:-dev}
folder=$profile
[ "$profile" != dev ] || folder=debug
cargo build --quiet --locked --profile "$profile" --example attack
target=$(cargo metadata --no-deps --format-version 1 | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
exec "$target/$folder/examples/attack" "$@"
