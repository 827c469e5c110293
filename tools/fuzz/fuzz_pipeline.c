// SPDX-License-Identifier: Apache-2.0
/* Fuzzer of pipeline text: any text is refused as a usage error, or parses to a pipeline whose
 * print parses to the same pipeline. */
#include <setjmp.h>
#include <string.h>

#include "fuzz.h"
#include "passes.h"

static void run(const char *text, Arena *arena) {
    Err err = {0}, unchecked = {0};
    Pipeline first, second;
    if (!pipeline_parse(&demi_passes, arena, text, &first, &err)) {
        if (err.code != ERR_USAGE || !err.what[0]) fuzz_fail("refused without a reason", &err);
        return;
    }
    if (!pipeline_check(&first, &unchecked) && unchecked.code != ERR_USAGE)
        fuzz_fail("no usage error", &unchecked);
    const char *printed = pipeline_print(&first, arena);
    if (!pipeline_parse(&demi_passes, arena, printed, &second, &err))
        fuzz_fail("its own print is refused", &err);
    if (first.steps.count != second.steps.count) fuzz_fail("other passes", NULL);
    if (strcmp(printed, pipeline_print(&second, arena)) != 0) fuzz_fail("other print", NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    MemTrap trap;
    Arena arena;
    if (setjmp(trap.env)) fuzz_fail("out of memory", NULL);
    arena_init(&arena, &trap);
    run(arena_copy(&arena, data, size), &arena);
    arena_free(&arena);
    return 0;
}
