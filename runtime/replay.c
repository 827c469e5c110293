// SPDX-License-Identifier: Apache-2.0
/* Recordings and replays; see replay.h.
 *
 * Which steps run is decided before: those that read, or whose inner graphs read, what a change
 * reaches, as far as an output follows from them; and those that make what these read and what was
 * not kept. All others are skipped (ExecAgain), the values that they would have made being set. */
#include "replay.h"

#include <string.h>

typedef struct Reads {
    uint32_t count;
    const uint32_t *values; /* [count]: what a step reads, its inner graphs included */
} Reads;

struct Replay {
    DemiContext *context;
    Arena *arena;
    PlanSpan steps;  /* of the main graph */
    RtValue *kept;   /* [value_count]; RT_UNSET: it is not */
    Reads *reads;    /* [steps.count] */
    uint64_t *seeds; /* [step_count]: of steps of the main graph */
    uint64_t bytes;  /* kept */
    uint64_t most;   /* of them */
    bool recording, ended;

    /* of one replay */
    const ReplayChange **changes; /* [value_count]; NULL: it is not changed itself */
    bool *reached;                /* [value_count]: it follows from a change */
    bool *needed;                 /* [value_count] */
    bool *skip;                   /* [step_count] */
    bool *follows;                /* [steps.count]: it reads what is reached */
    size_t run;                   /* steps */
};

static const LoadedPlan *loaded_of(const Replay *r) {
    return r->context->exec.loaded;
}

static const LoadedStep *step_of(const Replay *r, uint32_t i) {
    return &loaded_of(r)->steps[r->steps.first + i];
}

/* ---- what steps read ------------------------------------------------------------------------- */

typedef struct Reading {
    const LoadedPlan *loaded;
    Arena *arena;
    VEC(uint32_t) found;
} Reading;

static void read_values(Reading *r, const uint32_t *values, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (values[i] != PLAN_NONE) VEC_PUSH(r->arena, &r->found, values[i]);
}

static void read_graph(Reading *r, uint32_t number);

static void read_step(Reading *r, const LoadedStep *step) {
    const Plan *plan = &r->loaded->plan;
    read_values(r, step->inputs, step->plan->inputs.count);
    for (uint32_t a = 0; a < step->plan->attrs.count; a++) {
        const PlanAttr *attr = &plan->attrs[step->plan->attrs.first + a];
        if (attr->kind == PLAIN_GRAPH) read_graph(r, (uint32_t)attr->value);
    }
}

/* Its own values are among them, which nothing outside knows. */
static void read_graph(Reading *r, uint32_t number) {
    const Plan *plan = &r->loaded->plan;
    const PlanGraph *graph = &plan->graphs[number];
    for (uint32_t i = 0; i < graph->steps.count; i++)
        read_step(r, &r->loaded->steps[graph->steps.first + i]);
    read_values(r, plan->operands + graph->outputs.first, graph->outputs.count);
}

static void find_reads(Replay *r) {
    r->reads = ARENA_ARRAY(r->arena, Reads, r->steps.count);
    for (uint32_t i = 0; i < r->steps.count; i++) {
        Reading reading = {.loaded = loaded_of(r), .arena = r->arena};
        read_step(&reading, step_of(r, i));
        r->reads[i] = (Reads){(uint32_t)reading.found.count, reading.found.items};
    }
}

const char *const *replay_names(const DemiPlan *handle, Arena *arena, uint32_t *count) {
    const Plan *plan = &handle->loaded.plan;
    const PlanGraph *graph = &plan->graphs[0];
    const char **names = ARENA_ARRAY(arena, const char *, plan->value_count);
    PlanSpan span = graph->inputs;
    for (uint32_t s = 0; s <= graph->steps.count; s++) {
        if (s) span = plan->steps[graph->steps.first + s - 1].outputs;
        for (uint32_t i = 0; i < span.count; i++) {
            const uint32_t value = plan->operands[span.first + i];
            if (value != PLAN_NONE) names[value] = plan_text(plan, plan->values[value].name, arena);
        }
    }
    *count = plan->value_count;
    return names;
}

/* ---- what runs ------------------------------------------------------------------------------- */

static bool reads_reached(const Replay *r, uint32_t i) {
    for (uint32_t k = 0; k < r->reads[i].count; k++)
        if (r->reached[r->reads[i].values[k]]) return true;
    return false;
}

/* What follows from the changes, in the steps' order. A value that is changed is reached, what makes
 * it is not. */
static void find_reached(Replay *r) {
    for (uint32_t i = 0; i < r->steps.count; i++) {
        const LoadedStep *step = step_of(r, i);
        r->follows[i] = reads_reached(r, i);
        for (uint32_t k = 0; r->follows[i] && k < step->plan->outputs.count; k++)
            if (step->outputs[k] != PLAN_NONE) r->reached[step->outputs[k]] = true;
    }
}

/* Is there something to be had of the step that is not kept? Elements of a value that is changed are
 * made of those it has. */
static bool gives_missing(const Replay *r, const LoadedStep *step) {
    for (uint32_t k = 0; k < step->plan->outputs.count; k++) {
        const uint32_t value = step->outputs[k];
        if (value != PLAN_NONE && r->needed[value] && r->kept[value].state == RT_UNSET) return true;
    }
    return false;
}

static bool gives_needed(const Replay *r, const LoadedStep *step) {
    for (uint32_t k = 0; k < step->plan->outputs.count; k++)
        if (step->outputs[k] != PLAN_NONE && r->needed[step->outputs[k]]) return true;
    return false;
}

static void choose_steps(Replay *r) {
    const Plan *plan = &loaded_of(r)->plan;
    const PlanSpan outputs = plan->graphs[0].outputs;
    for (uint32_t i = 0; i < outputs.count; i++)
        r->needed[plan->operands[outputs.first + i]] = true;
    for (uint32_t i = r->steps.count; i-- > 0;) {
        const LoadedStep *step = step_of(r, i);
        const bool runs = r->follows[i] ? gives_needed(r, step) : gives_missing(r, step);
        r->skip[r->steps.first + i] = !runs;
        r->run += runs;
        for (uint32_t k = 0; runs && k < r->reads[i].count; k++)
            r->needed[r->reads[i].values[k]] = true;
    }
}

/* ---- taking part in a run -------------------------------------------------------------------- */

static bool change_value(Replay *r, uint32_t number) {
    Exec *exec = &r->context->exec;
    const ReplayChange *change = r->changes[number];
    RtValue *value = &exec->values[number];
    if (value->state != RT_TENSOR)
        return err_set(exec->err, ERR_USAGE, "the operand to change is not a tensor");
    KernelTensor like = value->tensor->tensor;
    RtTensor *changed;
    if (change->become) {
        like.data = (void *)(uintptr_t)change->become;
        changed = rt_tensor_borrow(&exec->pool, &like, exec->err);
    } else {
        changed = rt_tensor_new(&exec->pool, like.dtype, like.rank, like.dims, exec->err);
        if (changed) change->change(change->user, changed->tensor.data, like.data, like.count);
    }
    if (!changed) return false;
    rt_value_set(value, (RtValue){.state = RT_TENSOR, .tensor = changed});
    return true;
}

/* What skipped steps would have made. Inputs are set by now. */
static bool set_values(Replay *r) {
    Exec *exec = &r->context->exec;
    const Plan *plan = &loaded_of(r)->plan;
    const PlanSpan inputs = plan->graphs[0].inputs;
    for (uint32_t i = 0; i < plan->value_count; i++)
        if (r->needed[i] && r->kept[i].state != RT_UNSET)
            rt_value_set(&exec->values[i], rt_value_ref(r->kept[i]));
    for (uint32_t i = 0; i < inputs.count; i++) {
        const uint32_t value = plan->operands[inputs.first + i];
        if (r->changes[value] && !change_value(r, value)) return false;
    }
    for (uint32_t i = 0; i < r->steps.count; i++) {
        const LoadedStep *step = step_of(r, i);
        for (uint32_t k = 0; r->skip[step - loaded_of(r)->steps] && k < step->plan->outputs.count;
             k++) {
            const uint32_t value = step->outputs[k];
            if (value != PLAN_NONE && r->changes[value] && r->needed[value] &&
                !change_value(r, value))
                return false;
        }
    }
    return true;
}

/* Views count as what they are views of, so that what is let go is memory. */
static uint64_t bytes_of(const RtValue *value) {
    uint64_t bytes = 0;
    if (value->state == RT_TENSOR)
        return value->tensor->tensor.count * kernel_element_size(value->tensor->tensor.dtype);
    for (uint32_t i = 0; value->state == RT_LIST && i < value->list->count; i++)
        bytes += bytes_of(&value->list->items[i]);
    return bytes;
}

/* The largest that is kept, the last of these, until as much as may be is. */
static void let_go(Replay *r) {
    while (r->bytes > r->most) {
        uint64_t largest = 0;
        uint32_t found = PLAN_NONE;
        for (uint32_t i = 0; i < loaded_of(r)->plan.value_count; i++) {
            if (r->kept[i].state == RT_UNSET || loaded_of(r)->kept[i]) continue;
            const uint64_t bytes = bytes_of(&r->kept[i]);
            if (bytes < largest) continue;
            largest = bytes;
            found = i;
        }
        if (found == PLAN_NONE) return;
        r->bytes -= largest;
        rt_value_clear(&r->kept[found]);
    }
}

/* Text ends with the run that made it. What is there anyhow does not count. */
static void keep_outputs(Replay *r, const LoadedStep *step) {
    Exec *exec = &r->context->exec;
    for (uint32_t k = 0; k < step->plan->outputs.count; k++) {
        const uint32_t value = step->outputs[k];
        if (value == PLAN_NONE || context_has_text(&exec->values[value])) continue;
        rt_value_set(&r->kept[value], rt_value_ref(exec->values[value]));
        if (!loaded_of(r)->kept[value]) r->bytes += bytes_of(&r->kept[value]);
    }
    let_go(r);
}

static bool change_outputs(Replay *r, const LoadedStep *step) {
    for (uint32_t k = 0; k < step->plan->outputs.count; k++) {
        const uint32_t value = step->outputs[k];
        if (value != PLAN_NONE && r->changes[value] && r->needed[value] && !change_value(r, value))
            return false;
    }
    return true;
}

/* ---- ExecAgain ------------------------------------------------------------------------------- */

static bool begin(void *data) {
    Replay *r = data;
    return r->recording || set_values(r);
}

static bool before(void *data, const LoadedStep *step) {
    Replay *r = data;
    const size_t number = (size_t)(step - loaded_of(r)->steps);
    uint64_t *seed = &r->context->exec.progress.seed;
    if (r->recording) {
        r->seeds[number] = *seed;
        return true;
    }
    *seed = r->seeds[number];
    return !r->skip[number];
}

static bool after(void *data, const LoadedStep *step) {
    Replay *r = data;
    if (!r->recording) return change_outputs(r, step);
    keep_outputs(r, step);
    return true;
}

static bool run(Replay *r, Err *err) {
    const ExecAgain again = {.data = r, .begin = begin, .before = before, .after = after};
    DemiError error = DEMI_ERROR_INIT;
    Exec *exec = &r->context->exec;
    const bool keeps_values = exec->options.keeps_values;
    const uint64_t seed = exec->progress.seed;
    exec->again = &again;
    exec->options.keeps_values = true;
    DemiStatus status = demi_context_run(r->context, &error);
    exec->again = NULL;
    exec->options.keeps_values = keeps_values;
    if (!r->recording) exec->progress.seed = seed;
    return error_take(err, status, &error);
}

/* ---- recordings ------------------------------------------------------------------------------ */

static void clear(void *data) {
    replay_free(data);
}

void replay_free(Replay *r) {
    if (r->ended) return;
    r->ended = true;
    for (uint32_t i = 0; i < loaded_of(r)->plan.value_count; i++) rt_value_clear(&r->kept[i]);
}

bool replay_record(DemiContext *context, uint64_t most_bytes, Arena *arena, Replay **replay,
                   Err *err) {
    const Plan *plan = &context->exec.loaded->plan;
    Replay *r = ARENA_NEW(arena, Replay);
    *r = (Replay){.context = context,
                  .arena = arena,
                  .steps = plan->graphs[0].steps,
                  .kept = ARENA_ARRAY(arena, RtValue, plan->value_count),
                  .seeds = ARENA_ARRAY(arena, uint64_t, plan->step_count),
                  .changes = ARENA_ARRAY(arena, const ReplayChange *, plan->value_count),
                  .reached = ARENA_ARRAY(arena, bool, plan->value_count),
                  .needed = ARENA_ARRAY(arena, bool, plan->value_count),
                  .skip = ARENA_ARRAY(arena, bool, plan->step_count),
                  .follows = ARENA_ARRAY(arena, bool, plan->graphs[0].steps.count),
                  .most = most_bytes,
                  .recording = true};
    arena_defer(arena, clear, r);
    find_reads(r);
    const bool ok = run(r, err);
    r->recording = false;
    *replay = ok ? r : NULL;
    return ok;
}

bool replay_run(Replay *r, const ReplayChange *changes, size_t count, Err *err) {
    const uint32_t values = loaded_of(r)->plan.value_count;
    memset(r->changes, 0, values * sizeof(const ReplayChange *));
    memset(r->reached, 0, values);
    memset(r->needed, 0, values);
    r->run = 0;
    for (size_t i = 0; i < count; i++) {
        r->changes[changes[i].value] = &changes[i];
        r->reached[changes[i].value] = true;
    }
    find_reached(r);
    choose_steps(r);
    return run(r, err);
}

void replay_trim(DemiContext *context) {
    pool_trim(&context->exec.pool);
}

size_t replay_steps_run(const Replay *r) {
    return r->run;
}

size_t replay_steps(const Replay *r) {
    return r->steps.count;
}

uint64_t replay_bytes(const Replay *r) {
    return r->bytes;
}
