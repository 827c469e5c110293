// SPDX-License-Identifier: Apache-2.0
/* See model_plan.h. */
#include "model_plan.h"

#include "demi_front.h"
#include "error_fill.h"
#include "memory_return.h"
#include "plan_own.h"

DemiStatus model_plan(DemiModel **model, const DemiCompileOptions *options, DemiPlan **plan,
                      DemiError *error) {
    PlanRoom room = {.room = 0};
    const DemiPlanSink sink = {plan_room_write, plan_room_map, &room};
    *plan = NULL;
    DemiStatus status = demi_front_compile(*model, options, &sink, error);
    demi_free(*model);
    *model = NULL;
    memory_return_much();
    if (status == DEMI_OK) return demi_plan_own(&room, plan, error);
    plan_file_close(&room.file);
    if (!room.exhausted) return status;
    Err err = {0};
    err_out_of_memory(&err);
    error_fill(error, DEMI_ERR_ENV, &err);
    return DEMI_ERR_ENV;
}
