// SPDX-License-Identifier: Apache-2.0
/* Fuzzer of plan files: any bytes are refused with a reason, or are a plan that runs on inputs of
 * its declared types, to an end or an error, within its budgets. */
#include <setjmp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "demi_runtime.h"
#include "fuzz.h"
#include "input_use.h"
#include "kernel.h"
#include "plan.h"

enum { MOST_RANK = 8, MOST_ELEMENTS = 4096, MOST_INPUTS = 16, OPEN_SIZE = 2 };

typedef struct Feed {
    int64_t dims[MOST_RANK];
    DemiData value;
} Feed;

/* A tensor of zeros, or an empty sequence or optional; false where it would be large. */
static bool make_feed(const DemiPlanIo *io, const void *zeros, Feed *feed) {
    uint64_t count = 1;
    feed->value = (DemiData)DEMI_DATA_INIT;
    if (io->optional) return true;
    feed->value.kind = io->kind;
    if (io->kind == DEMI_DATA_SEQUENCE_KIND) return true;
    if (io->has_rank && io->rank > MOST_RANK) return false;
    feed->value.rank = io->has_rank ? io->rank : 1;
    for (uint32_t i = 0; i < feed->value.rank; i++) {
        feed->dims[i] = io->has_rank && io->dims[i] >= 0 ? io->dims[i] : OPEN_SIZE;
        if (feed->dims[i] > MOST_ELEMENTS) return false;
        count *= (uint64_t)feed->dims[i];
        if (count > MOST_ELEMENTS) return false;
    }
    feed->value.dtype = io->dtype;
    feed->value.dims = feed->dims;
    feed->value.data = zeros;
    return true;
}

static void run(const DemiPlan *plan) {
    static const KernelString zeros[MOST_ELEMENTS]; /* as large as elements can be */
    static Feed feeds[MOST_INPUTS];
    DemiContextOptions options = DEMI_CONTEXT_OPTIONS_INIT;
    DemiContext *context = NULL;
    options.threads = 1;
    options.memory_budget = 1 << 22;
    options.step_limit = 200;
    if (demi_context_new(plan, &options, &context, NULL) != DEMI_OK) return;
    size_t count = demi_plan_input_count(plan);
    bool ok = count <= MOST_INPUTS;
    for (size_t i = 0; ok && i < count; i++) {
        DemiPlanIo io = DEMI_PLAN_IO_INIT;
        demi_plan_input(plan, i, &io);
        ok = make_feed(&io, zeros, &feeds[i]) &&
             demi_context_set_input(context, io.name, &feeds[i].value, NULL) == DEMI_OK;
    }
    /* the second run is by what the first one noted of shapes and memory, the third by all that */
    for (int i = 0; ok && i < 3; i++) ok = demi_context_run(context, NULL) == DEMI_OK;
    demi_context_free(context);
}

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
        look_at_inputs(plan);
        run(plan);
    } else if (!error.message[0]) {
        fuzz_fail("refused without a reason", NULL);
    }
    demi_plan_free(plan);
    free(copy);
    return 0;
}
