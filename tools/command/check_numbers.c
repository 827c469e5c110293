// SPDX-License-Identifier: Apache-2.0
/* Running a model beside its reference; see check_numbers.h. */
#include "check_numbers.h"

#include <string.h>

#include "dtype.h"
#include "report_out.h"

bool check_numbers_asked(const Parsed *parsed) {
    return parsed_value(parsed, "data") || parsed_flag(parsed, "random") ||
           parsed_flag(parsed, "input") || parsed_value(parsed, "max-error") ||
           parsed_value(parsed, "atol");
}

typedef struct Job {
    Program *program;
    const Parsed *parsed;
    Arena *arena;
    CheckNumbers *numbers;
    Session reference, model;
    bool picks; /* the reference picks something */
    bool low;   /* one of both has 16-bit values */
} Job;

static void note_types(void *user, const DemiStep *step) {
    Job *job = user;
    for (size_t i = 0; i < step->output_count; i++) {
        Dtype dtype = (Dtype)step->outputs[i].dtype;
        job->low = job->low || (step->outputs[i].kind == DEMI_DATA_TENSOR_KIND &&
                                dtype_is_float(dtype) && dtype_bits(dtype) < 32);
    }
}

static bool watch_types(Job *job, Session *session, Err *err) {
    DemiError error = DEMI_ERROR_INIT;
    bool ok =
        console_check(demi_context_watch(session->context, note_types, job, &error), &error, err) &&
        session_run(session, err);
    demi_context_watch(session->context, NULL, NULL, &error);
    return ok;
}

/* Both runs and what came of them. Types differ not from set to set: the first tells them. */
static bool run_both(Job *job, Judgement *judgement, Err *err) {
    CheckNumbers *numbers = job->numbers;
    Picks picks;
    picks_init(&picks, job->arena);
    if (!session_bind(&job->reference, err) || !session_bind(&job->model, err) ||
        (numbers->sets == 0 &&
         (!watch_types(job, &job->reference, err) || !watch_types(job, &job->model, err) ||
          !limit_find(job->parsed, job->low, &numbers->limit, err))) ||
        !(job->picks ? picks_run_reference(&picks, &job->reference, err)
                     : session_run(&job->reference, err)))
        return false;
    const Judge judge = {.arena = job->arena,
                         .reference = {job->reference.path, &job->reference, NULL},
                         .picks = job->picks ? &picks : NULL,
                         .enough = numbers->limit.error};
    return judge_run(&judge, &job->model, judgement, err);
}

/* One set of inputs; folder is NULL for those that options give. */
static bool run_set(Job *job, const char *folder, Err *err) {
    CheckNumbers *numbers = job->numbers;
    Judgement judgement;
    if (!session_find_inputs(&job->reference, job->program, job->parsed, folder, "0", err) ||
        !session_take_inputs(&job->model, job->program, &job->reference, err) ||
        !run_both(job, &judgement, err))
        return false;
    numbers->sets++;
    for (size_t i = 0; i < judgement.picks.count; i++)
        picks_add(job->arena, &numbers->picks, &judgement.picks.items[i]);
    for (size_t i = 0; i < judgement.outputs.count; i++) {
        WorstOutput row = {folder ? folder : "", judgement.outputs.items[i]};
        /* The name is the plan's, which is gone when results are told. */
        row.row.output = arena_copy(job->arena, row.row.output, strlen(row.row.output));
        if (i >= numbers->outputs.count)
            VEC_PUSH(job->arena, &numbers->outputs, row);
        else if (output_error_is_worse(&row.row.diff, &numbers->outputs.items[i].row.diff))
            numbers->outputs.items[i] = row;
    }
    return true;
}

static bool run_sets(Job *job, Err *err) {
    Words folders;
    bool ok = session_data_sets(&job->reference, job->program, parsed_value(job->parsed, "data"),
                                &folders, err);
    if (ok && folders.count == 0) ok = run_set(job, NULL, err);
    for (size_t i = 0; ok && i < folders.count; i++) ok = run_set(job, folders.items[i], err);
    return ok;
}

bool check_numbers_run(CheckNumbers *numbers, Program *program, const Parsed *parsed,
                       const CheckPair *pair, Err *err) {
    Job job = {.program = program, .parsed = parsed, .arena = program->arena, .numbers = numbers};
    job.reference.judges = job.model.judges = true;
    bool ok = limit_find(parsed, false, &numbers->limit, err) &&
              session_open(&job.reference, program, parsed, pair->reference, err) &&
              session_open(&job.model, program, parsed, pair->model, err);
    job.picks = ok && picks_are_made(&job.reference);
    ok = ok && run_sets(&job, err);
    session_close(&job.reference);
    session_close(&job.model);
    for (size_t i = 0; ok && i < numbers->outputs.count; i++)
        numbers->beyond += limit_beyond(&numbers->limit, &numbers->outputs.items[i].row.diff);
    for (size_t i = 0; ok && i < numbers->picks.count; i++)
        numbers->beyond += pick_beyond(&numbers->limit, &numbers->picks.items[i]);
    return ok;
}

static void print_picks(const CheckNumbers *numbers, FILE *out) {
    for (size_t i = 0; i < numbers->picks.count; i++) {
        pick_print(&numbers->picks.items[i], out);
        if (pick_beyond(&numbers->limit, &numbers->picks.items[i]))
            fprintf(out, "; beyond %g", numbers->limit.error);
        fputc('\n', out);
    }
}

void check_numbers_print(const CheckNumbers *numbers, Arena *arena, FILE *out) {
    size_t beyond = 0;
    for (size_t i = 0; i < numbers->outputs.count; i++) {
        const WorstOutput *worst = &numbers->outputs.items[i];
        const ValueDiff *diff = &worst->row.diff;
        fputs("output '", out);
        report_put(out, worst->row.output, strlen(worst->row.output));
        fprintf(out, "': %s", output_error_text(arena, diff));
        beyond += limit_beyond(&numbers->limit, diff);
        if (limit_beyond(&numbers->limit, diff)) fprintf(out, "; beyond %g", numbers->limit.error);
        if (worst->set[0] && numbers->sets > 1) {
            fputs(", with ", out);
            report_put(out, worst->set, strlen(worst->set));
        }
        fputc('\n', out);
    }
    print_picks(numbers, out);
    fprintf(out, "%zu of %zu outputs beyond %g of scale, over %zu set%s of inputs\n", beyond,
            numbers->outputs.count, numbers->limit.error, numbers->sets,
            numbers->sets == 1 ? "" : "s");
}

void check_numbers_json(const CheckNumbers *numbers, JsonWriter *json) {
    json_open(json, "numbers", '{');
    json_number(json, "max_error", numbers->limit.error);
    json_number(json, "atol", numbers->limit.least);
    json_unsigned(json, "sets", numbers->sets);
    json_unsigned(json, "beyond", numbers->beyond);
    json_open(json, "outputs", '[');
    for (size_t i = 0; i < numbers->outputs.count; i++) {
        const WorstOutput *worst = &numbers->outputs.items[i];
        json_open(json, NULL, '{');
        json_text(json, "name", worst->row.output);
        if (worst->set[0]) json_text(json, "set", worst->set);
        output_error_json(json, &worst->row.diff, &numbers->limit);
        json_close(json, '}');
    }
    json_close(json, ']');
    picks_json(json, &numbers->picks, &numbers->limit);
    json_close(json, '}');
}
