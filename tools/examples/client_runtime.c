// SPDX-License-Identifier: Apache-2.0
/* The smallest program that runs a plan with only demi_runtime.h: sets inputs that are float
 * tensors to ones, with dynamic sizes of 1, and prints the shapes and first elements of the
 * outputs. A test links it with nothing of demi except its runtime. */
#include <demi/demi_runtime.h>

#include <stdio.h>
#include <stdlib.h>

static DemiStatus set_ones(DemiContext *context, const DemiPlanIo *io, DemiError *error) {
    int64_t dims[16];
    size_t count = 1;
    if (io->dtype != DEMI_FLOAT || !io->has_rank || io->rank > 16)
        return DEMI_OK; /* the run then fails: the input is not set */
    for (uint32_t i = 0; i < io->rank; i++) {
        dims[i] = io->dims[i] < 0 ? 1 : io->dims[i];
        count *= (size_t)dims[i];
    }
    float *ones = malloc((count + 1) * sizeof *ones);
    if (!ones) return DEMI_ERR_ENV;
    for (size_t i = 0; i < count; i++) ones[i] = 1;
    DemiData value = DEMI_DATA_TENSOR(DEMI_FLOAT, io->rank, dims, ones);
    DemiStatus status = demi_context_set_input(context, io->name, &value, error);
    free(ones);
    return status;
}

static DemiStatus set_inputs(const DemiPlan *plan, DemiContext *context, DemiError *error) {
    DemiStatus status = DEMI_OK;
    for (size_t i = 0; status == DEMI_OK && i < demi_plan_input_count(plan); i++) {
        DemiPlanIo io = DEMI_PLAN_IO_INIT;
        demi_plan_input(plan, i, &io);
        status = set_ones(context, &io, error);
    }
    return status;
}

static void print_outputs(const DemiPlan *plan, const DemiContext *context) {
    for (size_t i = 0; i < demi_plan_output_count(plan); i++) {
        DemiPlanIo io = DEMI_PLAN_IO_INIT;
        const DemiData *value = demi_context_output(context, i);
        demi_plan_output(plan, i, &io);
        printf("%s:", io.name);
        for (uint32_t k = 0; k < value->rank; k++) printf(" %lld", (long long)value->dims[k]);
        if (value->dtype == DEMI_FLOAT) printf(" %g", (double)*(const float *)value->data);
        printf("\n");
    }
}

int main(int argc, char **argv) {
    DemiError error = DEMI_ERROR_INIT;
    DemiPlan *plan = NULL;
    DemiContext *context = NULL;
    if (argc == 2 && demi_plan_load(argv[1], &plan, &error) == DEMI_OK &&
        demi_context_new(plan, NULL, &context, &error) == DEMI_OK &&
        set_inputs(plan, context, &error) == DEMI_OK &&
        demi_context_run(context, &error) == DEMI_OK)
        print_outputs(plan, context);
    if (error.status != DEMI_OK) fprintf(stderr, "%s\n", error.message);
    demi_context_free(context);
    demi_plan_free(plan);
    return (int)error.status;
}
