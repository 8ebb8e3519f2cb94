#!/usr/bin/env bash
# Fuzzes each target on stable Rust for FUZZ_SECONDS (60), starting from the vectors:
#     protocol/fuzz/run.sh            or, longer,  FUZZ_SECONDS=3600 protocol/fuzz/run.sh
#
# Coverage comes from LLVM's own pass, which stable rustc can be told to run. Only the address sanitizer needs a
# nightly, and without unsafe code there is little for it to find. --target keeps the flags away from build scripts.
# An input that fails is left in target/artifacts, and the script ends with an error; it belongs in the vectors.
set -euo pipefail
seconds=${FUZZ_SECONDS:-60}

cd "$(dirname "$0")"
host=$(rustc -vV | sed -n 's/^host: //p')
flags=(
    -Cpasses=sancov-module
    -Cllvm-args=-sanitizer-coverage-level=4
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters
    -Cllvm-args=-sanitizer-coverage-pc-table
    -Cllvm-args=-sanitizer-coverage-trace-compares
    -Ccodegen-units=1
)
RUSTFLAGS="${flags[*]}" cargo build --release --locked --target "$host"

# Every quoted text of hexadecimal in the vectors is somebody's bytes.
mkdir -p target/seeds target/artifacts
number=0
while read -r bytes; do
    printf '%b' "$bytes" >"target/seeds/$number"
    number=$((number + 1))
done < <(grep -ohE '"([0-9a-f]{2})+"' ../vectors/*.json | tr -d '"' | sed 's/../\\x&/g' | sort -u)

for name in check frames; do
    mkdir -p "target/corpus/$name"
    "target/$host/release/$name" "target/corpus/$name" target/seeds -max_total_time="$seconds" \
        -max_len=4096 -timeout=5 -rss_limit_mb=1024 -artifact_prefix=target/artifacts/ -print_final_stats=1
done
