// SPDX-License-Identifier: Apache-2.0
/* From a model to what runs it, in one call; see demi_trials.h. */
#include <setjmp.h>

#include "demi_trials.h"
#include "error_fill.h"
#include "model_plan.h"
#include "model_source.h"
#include "session.h"

static DemiStatus fail(const Err *err, DemiError *error) {
    error_fill(error, (DemiStatus)err->code, err);
    return (DemiStatus)err->code;
}

/* Whether the source is a plan's path; false with the error set out of memory. */
static bool is_plan(const DemiSource *source, Err *err) {
    Arena arena;
    MemTrap trap;
    bool plan = false;
    if (setjmp(trap.env)) {
        arena_free(&arena);
        return err_out_of_memory(err);
    }
    arena_init(&arena, &trap);
    plan = !source->open && source->path && session_is_plan(&arena, source->path);
    arena_free(&arena);
    return plan;
}

DemiStatus demi_plan_open(const DemiSource *source, const DemiCompileOptions *options,
                          DemiPlan **plan, DemiError *error) {
    Err err = {0};
    DemiModel *model = NULL;
    *plan = NULL;
    if (is_plan(source, &err)) return demi_plan_load(source->path, plan, error);
    if (err.code == ERR_NONE) model_open(source, &model, &err);
    if (err.code != ERR_NONE) return fail(&err, error);
    DemiStatus status = model_plan(&model, options, plan, error);
    demi_free(model);
    return status;
}

DemiStatus demi_context_open(const DemiSource *source, const DemiCompileOptions *compile,
                             const DemiContextOptions *options, DemiContext **context,
                             DemiError *error) {
    DemiPlan *plan;
    *context = NULL;
    DemiStatus status = demi_plan_open(source, compile, &plan, error);
    if (status == DEMI_OK) status = demi_context_new(plan, options, context, error);
    demi_plan_free(plan); /* the context holds it */
    return status;
}
