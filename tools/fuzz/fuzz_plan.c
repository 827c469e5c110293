// SPDX-License-Identifier: Apache-2.0
/* Fuzzer of plan files: any bytes are refused with a reason, or are a plan that runs on inputs of
 * its declared types, to an end or an error, within its budgets. */
#include <setjmp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "demi_runtime.h"
#include "fuzz.h"
#include "fuzz_run.h"
#include "input_use.h"
#include "kernel.h"
#include "plan.h"

/* What it asks of its inputs is found whatever it does with them. */
static void look_at_inputs(const DemiPlan *plan) {
    MemTrap trap;
    Arena arena;
    arena_init(&arena, &trap);
    if (setjmp(trap.env) == 0) input_uses(plan, &arena);
    arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    DemiPlan *plan = NULL;
    DemiError error = DEMI_ERROR_INIT;
    uint8_t *copy = aligned_alloc(64, (size + 64) / 64 * 64);
    if (!copy) abort();
    memcpy(copy, data, size);
    /* plans of the corpus were made for older tables of kernels: what they say is to be looked at
     * all the same */
    uint64_t version = kernel_table_version();
    if (size >= sizeof(PlanHeader))
        memcpy(copy + offsetof(PlanHeader, kernels), &version, sizeof version);
    if (demi_plan_from_memory(copy, size, &plan, &error) == DEMI_OK) {
        /* the second run is by what the first noted of shapes and memory, the third by all that */
        FuzzRun how = {.options = DEMI_CONTEXT_OPTIONS_INIT, .times = 3};
        how.options.memory_budget = 1 << 22;
        how.options.step_limit = 200;
        look_at_inputs(plan);
        fuzz_run(plan, &how);
    } else if (!error.message[0]) {
        fuzz_fail("refused without a reason", NULL);
    }
    demi_plan_free(plan);
    free(copy);
    return 0;
}
