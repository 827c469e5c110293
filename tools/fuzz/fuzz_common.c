// SPDX-License-Identifier: Apache-2.0
/* Helpers of the fuzzers; see fuzz.h. */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compare.h"
#include "onnx_import.h"

_Noreturn void fuzz_fail(const char *what, const Err *err) {
    char line[2048] = "";
    if (err) err_format(err, line, sizeof line);
    fprintf(stderr, "fuzz: %s: %s\n", what, line);
    abort();
}

void fuzz_put(FuzzBytes *out, const void *bytes, size_t size) {
    const unsigned char *from = bytes;
    for (size_t i = 0; i < size; i++) VEC_PUSH(out->arena, &out->bytes, from[i]);
}

static bool sink_write(void *data, const void *bytes, size_t size, Err *err) {
    (void)err;
    fuzz_put(data, bytes, size);
    return true;
}

bool fuzz_export(Model *model, FuzzBytes *out, Err *err) {
    const ByteSink sink = {.write = sink_write, .data = out};
    model_touch(model); /* an unchanged model would be copied */
    return onnx_export(model, out->arena, &sink, err);
}

void fuzz_round_trip(Model *model, Arena *scratch, MemTrap *trap) {
    Err err = {0};
    FuzzBytes once = {.arena = scratch}, twice = {.arena = scratch};
    if (!fuzz_export(model, &once, &err)) {
        if (err.code != ERR_MODEL) fuzz_fail("not written", &err);
        return;
    }
    const ImportBytes input = {once.bytes.items, once.bytes.count, "once"};
    Model *again = onnx_import_memory(&input, NULL, trap, &err);
    if (!again) fuzz_fail("its own output is refused", &err);
    if (!model_compare(model, again, NULL, &err)) fuzz_fail("reads back differently", &err);
    if (!fuzz_export(again, &twice, &err)) fuzz_fail("not written again", &err);
    if (once.bytes.count != twice.bytes.count ||
        memcmp(once.bytes.items, twice.bytes.items, once.bytes.count) != 0)
        fuzz_fail("written differently the second time", NULL);
    model_free(again);
}
