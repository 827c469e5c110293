// SPDX-License-Identifier: Apache-2.0
/* What the fuzzers share. Each tools/fuzz/fuzz_X.c defines LLVMFuzzerTestOneInput, which either
 * returns or aborts with a line that says which promise was broken; the sanitizers see the rest.
 * With DEMI_FUZZ they are libFuzzer programs; in every build fuzz_replay.c runs the same function
 * over the kept corpus in testdata/fuzz/X. */
#ifndef DEMI_FUZZ_H
#define DEMI_FUZZ_H

#include <stddef.h>
#include <stdint.h>

#include "arena.h"
#include "err.h"
#include "graph.h"
#include "onnx_export.h"
#include "vec.h"

/* libFuzzer's entry point. Returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Aborts, saying what went wrong; err may be NULL. */
_Noreturn void fuzz_fail(const char *what, const Err *err);

/* Bytes that are written, in an arena. */
typedef struct FuzzBytes {
    Arena *arena;
    VEC(unsigned char) bytes;
} FuzzBytes;

/* Appends. */
void fuzz_put(FuzzBytes *out, const void *bytes, size_t size);

/* The model's ONNX form, written as if the model had been changed. False where it has none; then
 * err says why. */
bool fuzz_export(Model *model, FuzzBytes *out, Err *err);

/* Writes the model, reads it back and compares; aborts where that differs. Memory of `scratch`. */
void fuzz_round_trip(Model *model, Arena *scratch, MemTrap *trap);

#endif
