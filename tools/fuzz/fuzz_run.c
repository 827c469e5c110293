// SPDX-License-Identifier: Apache-2.0
/* See fuzz_run.h. */
#include "fuzz_run.h"

#include "fuzz.h"

enum { MOST_RANK = 8, MOST_ELEMENTS = 4096, MOST_INPUTS = 16, OPEN_SIZE = 2, CARRIED_RUNS = 3 };

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

static bool set_inputs(const DemiPlan *plan, DemiContext *context) {
    static const DemiString zeros[MOST_ELEMENTS]; /* as large as elements can be */
    static Feed feeds[MOST_INPUTS];
    size_t count = demi_plan_input_count(plan);
    for (size_t i = 0; i < count; i++) {
        DemiPlanIo io = DEMI_PLAN_IO_INIT;
        demi_plan_input(plan, i, &io);
        if (count > MOST_INPUTS || !make_feed(&io, zeros, &feeds[i]) ||
            demi_context_set_input(context, io.name, &feeds[i].value, NULL) != DEMI_OK)
            return false;
    }
    return true;
}

/* Every output to the input of its number, where the types allow it. */
static void carry_all(const DemiPlan *plan, DemiContext *context) {
    DemiPlanIo input = DEMI_PLAN_IO_INIT, output = DEMI_PLAN_IO_INIT;
    for (size_t i = 0; demi_plan_input(plan, i, &input) && demi_plan_output(plan, i, &output); i++)
        demi_context_carry(context, output.name, input.name, NULL);
}

/* What was carried is cut, and outputs are looked at, which makes them plain. */
static void cut_all(const DemiPlan *plan, DemiContext *context) {
    DemiPlanIo input = DEMI_PLAN_IO_INIT;
    for (size_t i = 0; demi_plan_input(plan, i, &input); i++) {
        if (i % 2) demi_context_output(context, i);
        for (uint32_t axis = 0; axis < 3; axis++)
            demi_context_cut(context, input.name, axis, OPEN_SIZE + (int64_t)axis, NULL);
    }
}

void fuzz_run(const DemiPlan *plan, const FuzzRun *how) {
    DemiContext *context = NULL;
    DemiContextOptions options = how->options;
    options.threads = 1;
    if (demi_context_new(plan, &options, &context, NULL) != DEMI_OK) return;
    bool ok = set_inputs(plan, context);
    for (int i = 0; ok && i < how->times + CARRIED_RUNS; i++) {
        DemiError error = DEMI_ERROR_INIT;
        if (i == how->times) carry_all(plan, context);
        if (i > how->times + 1) cut_all(plan, context);
        ok = demi_context_run(context, &error) == DEMI_OK;
        if (!ok && !error.message[0]) fuzz_fail("a run failed without a reason", NULL);
    }
    demi_context_free(context);
}
