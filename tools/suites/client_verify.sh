#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs the client that verifies, calibrates, searches, compares and diffs through the library, and
# checks what it was told: all of it, cancelled calls too.
# usage: client_verify.sh CLIENT MODEL
set -eu
client=$1 model=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM

fail() {
    echo "client_verify: $*" >&2
    cat "$work/out" >&2
    exit 1
}

"$client" "$model" "$work/low.onnx" 0.0001 >"$work/out" || fail "the client failed"
while read -r line; do
    grep -q "^ *$line" "$work/out" || fail "it did not print: $line"
done <<'END'
verified: off by 0.000[0-9]* on 3 sets, told 3 times$
y: 4 elements, 0.000[0-9]* of scale$
verified: cancelled after 2$
calibrated: 0 values reach 64, on 3 sets$
searched: off by 0 with 1 nodes kept, 1 patterns$
searched: off by 0 with 5 nodes kept, 5 patterns, stopped$
searched: cancelled after 1; no set of nodes to keep was sufficient by then$
judged: 0 beyond 0.02$
weight w$
differ: 8 times, cancelled after 1$
against: 0 differences but for precision$
compared: 5 values, 5 beyond, first c$
advised: reaches, 1 to keep, off by 0 with them, a policy of [0-9]\{4\} bytes$
END
echo "client_verify: all fine"
