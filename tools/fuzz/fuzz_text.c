// SPDX-License-Identifier: Apache-2.0
/* Fuzzer of the text form: any text is refused with one reason, or gives a model whose print parses
 * and prints to the same text, and whose ONNX form reads back as the same model. */
#include <setjmp.h>
#include <string.h>

#include "compare.h"
#include "fuzz.h"
#include "text.h"
#include "verify.h"

static void put_text(void *data, const char *text, size_t size) {
    fuzz_put(data, text, size);
}

static bool print(const Model *model, FuzzBytes *out, Err *err) {
    const TextSink sink = {.write = put_text, .data = out};
    return text_print_model(model, TEXT_FULL, &sink, err);
}

static void run(const char *text, size_t size, Arena *scratch, MemTrap *trap) {
    Err err = {0}, ignored = {0};
    FuzzBytes once = {.arena = scratch}, twice = {.arena = scratch};
    Model *model = text_parse_model(text, size, trap, &err);
    if (!model) {
        if (err.code != ERR_MODEL || !err.what[0]) fuzz_fail("refused without a reason", &err);
        return;
    }
    model_verify(model, scratch, &ignored);
    if (!print(model, &once, &err)) {
        if (err.code != ERR_MODEL) fuzz_fail("not printed", &err);
        model_free(model);
        return;
    }
    Model *again = text_parse_model((char *)once.bytes.items, once.bytes.count, trap, &err);
    if (!again) fuzz_fail("its own print is refused", &err);
    if (!model_compare(model, again, NULL, &err)) fuzz_fail("reads back differently", &err);
    if (!print(again, &twice, &err)) fuzz_fail("not printed again", &err);
    if (once.bytes.count != twice.bytes.count ||
        memcmp(once.bytes.items, twice.bytes.items, once.bytes.count) != 0)
        fuzz_fail("printed differently the second time", NULL);
    model_free(again);
    fuzz_round_trip(model, scratch, trap);
    model_free(model);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    MemTrap trap;
    Arena scratch;
    if (setjmp(trap.env)) fuzz_fail("out of memory", NULL);
    arena_init(&scratch, &trap);
    run((const char *)data, size, &scratch, &trap);
    arena_free(&scratch);
    return 0;
}
