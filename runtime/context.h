// SPDX-License-Identifier: Apache-2.0
/* What the handles of demi_runtime.h are, for the files that implement it: demi_runtime.c, and
 * context_carry.c for values that go from run to run. */
#ifndef DEMI_CONTEXT_H
#define DEMI_CONTEXT_H

#include <stdatomic.h>

#include "demi_runtime.h"
#include "error_fill.h"
#include "exec.h"
#include "plan_devices.h"

struct DemiPlan {
    atomic_uint holders; /* the caller, and each context: the last one's end is the plan's */
    Arena arena;
    LoadedPlan loaded;
    PlanDevices *devices;
    DemiPlanIo *inputs, *outputs;
    const DemiPlanIo **inputs_by_name, **outputs_by_name; /* the same, in the order of strcmp */
    size_t input_count, output_count;
    const void *bytes;
    uint64_t size;
    PlanFile file; /* where they lie, if they are not the caller's, and what lies behind them */
};

/* An output that is an input of the next run. */
typedef struct ContextCarry {
    uint32_t output, input;
    bool grows;   /* in place (carry.h) */
    RtValue next; /* what the input will be; unset but at the end of a run */
} ContextCarry;

typedef struct ContextCarries {
    VEC(ContextCarry) items;
    uint8_t *grows; /* ExecCarry's; NULL until there is an item */
} ContextCarries;

/* Outputs whose memory is the caller's, or becomes it. */
typedef struct ContextOwned {
    bool *lasting;                         /* ExecOwned's, each NULL until there is one */
    struct OwnMemory *bound;               /* [value_count] */
    struct OwnMemory *given;               /* [output_count]: where each output goes */
    struct OwnMemory *there, *given_there; /* the same of the device's memory */
} ContextOwned;

struct DemiContext {
    const DemiPlan *plan; /* held */
    Arena arena;
    Exec exec;
    RtValue *inputs;   /* [input_count] */
    RtValue *used;     /* [input_count]: those of the last run that outputs may point into */
    DemiData *outputs; /* [output_count], of the last run */
    ContextCarries carries;
    ContextOwned owned;
    RunEnd end;
    uint32_t output_count;
    Arena result;       /* what outputs point to beside tensors */
    const char **names; /* [value_count], made when somebody first watches */
    DemiStepFn watch;
    void *watch_user;
    double time_limit;         /* seconds, 0: none */
    bool starts;               /* the run under way is not waited for */
    uint8_t *reads;            /* [input_count]: context_device.c's; NULL: not asked yet */
    const LoadedStep *watched; /* the step that it is called for */
    Err err;
};

/* The error's status, with what it says in *error. */
static inline DemiStatus context_end(const Err *err, DemiError *error) {
    if (err->code == ERR_NONE) return DEMI_OK;
    error_fill(error, (DemiStatus)err->code, err);
    return (DemiStatus)err->code;
}

/* The value as a caller sees it; what points to more than the tensor lies in `arena`. One with room
 * (carry.h) is made plain before. */
DemiData context_give(Arena *arena, const RtValue *value);
/* True where elements may point to text that lies with them. */
bool context_has_text(const RtValue *value);
/* Whether the model takes the value for that input; else false with the error set. */
bool context_fits(const DemiPlanIo *io, const DemiData *value, Err *err);

/* The plan's number of output i. */
static inline uint32_t context_output_value(const DemiContext *context, size_t i) {
    const Plan *plan = &context->exec.loaded->plan;
    return plan->operands[plan->graphs[0].outputs.first + i];
}
/* Whether output i is bound to the device's memory. */
static inline bool context_is_there(const DemiContext *context, size_t i) {
    return context->owned.given_there && context->owned.given_there[i].data;
}
/* That input or output; the count of them where there is none. */
size_t plan_find_input(const DemiPlan *plan, const char *name);
size_t plan_find_output(const DemiPlan *plan, const char *name);
/* Has the value lie in memory that lasts beyond the run, from the next run on. */
void context_let_last(DemiContext *context, uint32_t value);
/* Of a run that succeeded: bound outputs are where they are to be, and `outputs` has them all. False
 * with the error set where one is larger than its place. */
bool context_collect(DemiContext *context);

/* ---- memory of the device (context_device.c) ------------------------------------------------- */

/* Whether the value may be an input's that lies on the context's device; else false, the error set. */
bool context_device_may_give(const DemiContext *context, const DemiData *value, Err *err);
/* Says where input i lies there; NULL: no more. False without memory for the table. */
bool context_device_give(DemiContext *context, size_t i, const void *data);
/* Of input i, at the beginning of a run: what the processor reads of it is there. False with the error
 * set. */
bool context_device_fetch(DemiContext *context, size_t i);
/* At the end of one, `ok` so far: outputs are on the device where they are to be, and the work is done,
 * unless the run is only started. False with the error set, all of it done. */
bool context_device_end(DemiContext *context, bool ok);

/* Of a run that succeeded: its carried outputs become inputs. False with the error set past the
 * budget; then all inputs are as they were. */
bool context_carry_on(DemiContext *context);
/* Before a run: whether the model takes what was carried. */
bool context_carried_fit(DemiContext *context);

#endif
