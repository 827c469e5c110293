// SPDX-License-Identifier: Apache-2.0
/* Fuzzer of the reader: any bytes are refused with one reason, or give a model that is written,
 * reads back the same, and is written the same again. An unchanged model is its own bytes. */
#include <setjmp.h>
#include <string.h>

#include "fuzz.h"
#include "onnx_import.h"
#include "strict_check.h"
#include "verify.h"

static void run(const ImportBytes *input, Arena *scratch, MemTrap *trap) {
    Err err = {0}, ignored = {0};
    Model *model = onnx_import_memory(input, NULL, trap, &err);
    if (!model) {
        if (err.code != ERR_MODEL || !err.what[0]) fuzz_fail("refused without a reason", &err);
        return;
    }
    model_verify(model, scratch, &ignored);             /* may fail, must not crash */
    strict_check(model, STRICT_ALL, scratch, &ignored); /* structure, operators, types, shapes */
    ExportOptions options = {0};
    ExportPlan *plan = onnx_export_plan(model, &options, scratch, &err);
    if (plan && !export_plan_is_unchanged(plan)) fuzz_fail("a model just read is changed", NULL);
    fuzz_round_trip(model, scratch, trap);
    model_free(model);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    MemTrap trap;
    Arena scratch;
    if (setjmp(trap.env)) fuzz_fail("out of memory", NULL);
    arena_init(&scratch, &trap);
    const ImportBytes input = {data, size, "input"};
    run(&input, &scratch, &trap);
    arena_free(&scratch);
    return 0;
}
