// SPDX-License-Identifier: Apache-2.0
/* Tuning by the public interface: choices are measured in a context, and the plan is written anew
 * with them. Packed weights that the context made lie in other memory than those that are mapped from
 * a file, and are read at another speed: so the last word has a comparison of the two plans as files,
 * each in a context of its own. */
#define _POSIX_C_SOURCE 200809L /* fileno */
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include "context.h"
#include "demi_tune.h"
#include "exec_memory.h"
#include "plan_tune.h"
#include "step_specialization.h"
#include "tune_rule.h"

static const double DEFAULT_SECONDS = 30;
/* Of all the time, what the comparison of files may take; and of a run's, what is worth a choice. */
static const double FILES_SHARE = 0.25, LEAST_GAIN = 0.01;
enum { LEAST_ROUNDS = 7, MOST_ROUNDS = 200 };

typedef struct Output {
    DemiPlanWriteFn write;
    void *user;
} Output;

static bool write_bytes(void *data, const void *bytes, size_t size, Err *err) {
    const Output *output = data;
    return output->write(output->user, bytes, size) ||
           err_set(err, ERR_ENV, "cannot write the plan");
}

static bool run(void *data, Err *err) {
    DemiError error = DEMI_ERROR_INIT;
    return error_take(err, demi_context_run(data, &error), &error);
}

typedef VEC(PlanChoice) Choices;

/* What is chosen, and on which machine, for how many threads. */
typedef struct Chosen {
    Choices choices;
    PlanIsa tuned;
    uint16_t threads;
} Chosen;

/* The plan with these choices instead of its own, weights laid out for them. Without any it is as it
 * was. */
static bool write_plan(const LoadedPlan *loaded, const Chosen *chosen, Output *output, Arena *arena,
                       Err *err) {
    const PlanHeader *header = loaded->plan.header;
    PlanBuilder *b = ARENA_NEW(arena, PlanBuilder);
    if (!chosen->choices.count && !loaded->plan.choice_count)
        return write_bytes(output, header, (size_t)header->file_size, err);
    plan_builder_init(b, arena);
    plan_builder_take(b, loaded);
    b->choices.items = chosen->choices.items;
    b->choices.count = b->choices.capacity = chosen->choices.count;
    b->tuned = chosen->tuned;
    b->threads = chosen->threads;
    return plan_pack(b, err) && plan_write(b, write_bytes, output, err);
}

static bool may_tune(const DemiContext *context, Err *err) {
    const Exec *exec = &context->exec;
    const PlanHeader *header = exec->loaded->plan.header;
    const Workers *workers = exec->options.workers;
    if (header->numerics == PLAN_FAITHFUL)
        return err_set(err, ERR_USAGE, "a faithful plan is computed in one way, it can't be tuned");
    if (exec->options.provider != KERNEL_PROVIDER_AUTO || exec->options.small)
        return err_set(err, ERR_USAGE, "cannot tune with a choice of kernels");
    if (context->carries.items.count) return err_set(err, ERR_USAGE, "cannot tune runs with state");
    if (workers && workers_lanes(workers) > UINT16_MAX)
        return err_set(err, ERR_USAGE, "too many threads to tune for");
    return true;
}

/* One call of demi_context_tune. */
typedef struct Job {
    DemiContext *context;
    DemiTuneOptions options;
    Output output;
    DemiTuned tuned;
} Job;

/* ---- plans as files -------------------------------------------------------------------------- */

/* A plan in a temporary file, and what runs it. */
typedef struct Trial {
    FILE *file;
    DemiPlan *plan;
    DemiContext *context;
    VEC(double) seconds;
} Trial;

static void close_trial(void *data) {
    Trial *trial = data;
    demi_context_free(trial->context);
    demi_plan_free(trial->plan);
    if (trial->file) fclose(trial->file);
}

static bool write_file(void *user, const void *bytes, size_t size) {
    return fwrite(bytes, 1, size, user) == size;
}

/* The inputs of the one context, lent to the other. */
static bool lend_inputs(const DemiContext *from, DemiContext *to, Arena *arena, Err *err) {
    DemiError error = DEMI_ERROR_INIT;
    for (size_t i = 0; i < from->plan->input_count; i++) {
        if (from->inputs[i].state == RT_UNSET) continue;
        const DemiData value = context_give(arena, &from->inputs[i]);
        const char *name = from->plan->inputs[i].name;
        if (!error_take(err, demi_context_borrow_input(to, name, &value, &error), &error))
            return false;
    }
    return true;
}

/* Writes the plan with those choices to a file and opens it as anyone would. */
static Trial *trial_new(const Job *call, const Chosen *chosen, Arena *arena, Err *err) {
    const Exec *exec = &call->context->exec;
    DemiContextOptions options = DEMI_CONTEXT_OPTIONS_INIT;
    DemiError error = DEMI_ERROR_INIT;
    char path[64];
    Trial *trial = ARENA_NEW(arena, Trial);
    arena_defer(arena, close_trial, trial);
    trial->file = tmpfile();
    if (!trial->file) {
        err_set(err, ERR_ENV, "there is no place for a temporary file");
        return NULL;
    }
    Output output = {write_file, trial->file};
    snprintf(path, sizeof path, "/proc/self/fd/%d", fileno(trial->file));
    options.threads = chosen->threads;
    options.memory_budget = exec->pool.budget;
    options.seed = exec->progress.seed;
    bool ok =
        write_plan(exec->loaded, chosen, &output, arena, err) &&
        (fflush(trial->file) == 0 || err_set(err, ERR_ENV, "a temporary file can't be written")) &&
        error_take(err, demi_plan_load(path, &trial->plan, &error), &error) &&
        error_take(err, demi_context_new(trial->plan, &options, &trial->context, &error), &error) &&
        lend_inputs(call->context, trial->context, arena, err);
    return ok ? trial : NULL;
}

static TuneTimes times_of(const Trial *trial) {
    return (TuneTimes){trial->seconds.items, trial->seconds.count};
}

/* Whether runs went that way: a row may decline what a file holds, then the step goes by the rules. Of
 * many shapes, forms are forgotten: then nobody knows. */
static bool may_be_gone(const Exec *exec, const PlanChoice *choice) {
    uint32_t count = 0;
    for (const StepSpecialization *form = exec->forms.memos[choice->step].forms; form;
         form = form->next) {
        const StepWay *way = &form->way;
        if (way->row == choice->row && way->choice == choice->choice && way->alone == choice->alone)
            return true;
        count++;
    }
    return count >= STEP_SPECIALIZATION_LIMIT;
}

/* Drops the choices that steps of the plan as a file declined: it is no other plan with them. */
static void drop_declined(const Trial *trial, Chosen *chosen) {
    uint32_t kept = 0;
    for (size_t i = 0; i < chosen->choices.count; i++)
        if (may_be_gone(&trial->context->exec, &chosen->choices.items[i]))
            chosen->choices.items[kept++] = chosen->choices.items[i];
    chosen->choices.count = kept;
}

/* Runs both by turns; the first round, in which they get ready, does not count. False with the error
 * set where one fails. */
static bool race(Trial *const trials[2], double seconds, Arena *arena, Err *err) {
    const double begin = exec_now();
    for (uint32_t r = 0; r <= MOST_ROUNDS; r++) {
        if (r > LEAST_ROUNDS && exec_now() - begin > seconds) break;
        for (uint32_t i = 0; i < 2; i++) {
            Trial *trial = trials[(i + r) % 2];
            const double start = exec_now();
            if (!run(trial->context, err)) return false;
            if (r) VEC_PUSH(arena, &trial->seconds, exec_now() - start);
        }
    }
    return true;
}

/* Whether the plan is faster with those choices; else they are dropped. */
static bool compare_files(Job *call, Chosen *chosen, Arena *arena, Err *err) {
    const Chosen plain = {.tuned = chosen->tuned, .threads = chosen->threads};
    Trial *const trials[] = {trial_new(call, &plain, arena, err),
                             trial_new(call, chosen, arena, err)};
    if (!trials[0] || !trials[1] || !race(trials, call->options.seconds * FILES_SHARE, arena, err))
        return false;
    const TuneTimes before = times_of(trials[0]), after = times_of(trials[1]);
    double *scratch = ARENA_ARRAY(arena, double, before.count);
    call->tuned.before = call->tuned.after = tune_median(&before, scratch);
    drop_declined(trials[1], chosen);
    if (chosen->choices.count && tune_is_faster(&before, &after, LEAST_GAIN, scratch))
        call->tuned.after = tune_median(&after, scratch);
    else
        chosen->choices.count = 0;
    call->tuned.steps = chosen->choices.count;
    if (call->tuned.changed > call->tuned.steps) call->tuned.changed = call->tuned.steps;
    call->tuned.runs += before.count + after.count;
    return true;
}

/* ---- the calls ------------------------------------------------------------------------------- */

static bool tune(Job *call, Arena *arena, Err *err) {
    Exec *exec = &call->context->exec;
    if (!(call->options.seconds > 0)) call->options.seconds = DEFAULT_SECONDS;
    const TuneJob job = {exec, run, call->context, call->options.seconds * (1 - FILES_SHARE)};
    Tuning tuning;
    const double begin = exec_now();
    if (!may_tune(call->context, err) || !plan_tune(&job, arena, &tuning, err)) return false;
    call->tuned = (DemiTuned){.size = sizeof call->tuned,
                              .kinds = tuning.kinds,
                              .changed = tuning.changed,
                              .steps = tuning.choices.count,
                              .runs = tuning.runs,
                              .before = tuning.before,
                              .after = tuning.after,
                              .ended_early = tuning.ended_early};
    Chosen chosen = {{tuning.choices.items, tuning.choices.count, tuning.choices.count},
                     plan_isa_here(),
                     (uint16_t)(exec->options.workers ? workers_lanes(exec->options.workers) : 1)};
    if (chosen.choices.count && !compare_files(call, &chosen, arena, err)) return false;
    call->tuned.seconds = exec_now() - begin;
    return write_plan(exec->loaded, &chosen, &call->output, arena, err);
}

DemiStatus demi_plan_write_chosen(const DemiPlan *plan, const DemiPlan *tuned,
                                  DemiPlanWriteFn write, void *user, DemiError *error) {
    const Plan *like = &tuned->loaded.plan;
    Output output = {write, user};
    Err err = {0};
    Arena arena;
    MemTrap trap;
    if (setjmp(trap.env)) {
        err_out_of_memory(&err);
    } else {
        arena_init(&arena, &trap);
        const Chosen chosen = {
            {arena_copy(&arena, like->choices, like->choice_count * sizeof *like->choices),
             like->choice_count, like->choice_count},
            (PlanIsa)like->header->tuned,
            like->header->threads};
        write_plan(&plan->loaded, &chosen, &output, &arena, &err);
    }
    arena_free(&arena);
    return context_end(&err, error);
}

DemiStatus demi_context_tune(DemiContext *context, const DemiTuneOptions *given,
                             DemiPlanWriteFn write, void *user, DemiTuned *tuned,
                             DemiError *error) {
    Job call = {context, DEMI_TUNE_OPTIONS_INIT, {write, user}, DEMI_TUNED_INIT};
    Exec *exec = &context->exec;
    const ExecOptions before = exec->options;
    StepMemo *const memos = exec->forms.memos;
    Err err = {0};
    Arena arena;
    MemTrap trap;
    if (given)
        memcpy(&call.options, given,
               given->size < sizeof call.options ? given->size : sizeof call.options);
    if (setjmp(trap.env)) {
        err_out_of_memory(&err);
        step_specialization_drop(exec);
        exec_drop_results(exec);
        arena_free(&exec->scratch);
        exec_memory_forget(exec);
        exec->options = before; /* what the tuner had ends with its arena */
        exec->forms.memos = memos;
    } else {
        arena_init(&arena, &trap);
        tune(&call, &arena, &err);
    }
    arena_free(&arena);
    if (tuned) {
        const uint32_t size = tuned->size;
        memcpy(tuned, &call.tuned, size < sizeof call.tuned ? size : sizeof call.tuned);
        tuned->size = size;
    }
    return context_end(&err, error);
}
