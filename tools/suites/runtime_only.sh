#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Checks that the runtime needs nothing of what reads and rewrites models: a program and a shared
# library linked with the archives of runtime, kernels, shape and base alone hold no symbol that the
# other archives, protobuf-c or jansson define; and the program runs a plan.
# usage: runtime_only.sh DEMI MODEL PROGRAM LIBRARY OTHER_ARCHIVE…
set -eu
demi=$1 model=$2 program=$3 library=$4
shift 4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM

fail() {
    echo "runtime_only: $*" >&2
    exit 1
}

nm --defined-only "$@" | awk 'NF == 3 && $2 ~ /[A-Z]/ {print $3}' | sort -u >"$work/foreign"
for symbol in graph_new onnx_import demi_load_file demi_compile; do
    grep -q "^$symbol" "$work/foreign" || fail "no archive defines $symbol"
done
for linked in "$program" "$library"; do
    nm "$linked" | awk '{print $NF}' | sort -u >"$work/have"
    grep -q '^demi_context_run' "$work/have" || fail "$linked has lost its symbols"
    both=$(comm -12 "$work/have" "$work/foreign")
    [ -z "$both" ] || fail "$linked holds $(echo "$both" | tr '\n' ' ')"
    other=$(grep -E '^(protobuf_c_|onnx__|json_)' "$work/have" || true)
    [ -z "$other" ] || fail "$linked holds $(echo "$other" | tr '\n' ' ')"
done
"$demi" compile "$model" -o "$work/model.plan" >/dev/null
"$program" "$work/model.plan" >"$work/out" || fail "the program failed"
grep -q ': .*[0-9]' "$work/out" || fail "it printed: $(cat "$work/out")"
echo "runtime_only: $(cat "$work/out")"
