// SPDX-License-Identifier: Apache-2.0
/* demi check: is this model valid, is it its reference but for precision, is it what a policy makes
 * of that, and does it compute the same? Prints its facts, or the first fault; then what differs
 * from the reference, a line each. */
#include <string.h>

#include "check_numbers.h"
#include "check_plan.h"
#include "commands.h"
#include "console.h"
#include "convert_options.h"
#include "demi_front.h"
#include "model_against.h"
#include "model_diff.h"
#include "report_out.h"

static const ArgumentRow arguments[] = {
    {"FILE", "The model: an ONNX file, text (.onnxtxt), or '-'."},
    {NULL, NULL},
};

static const OptionRow options[] = {
    {"against", 0, OPTION_ROW_VALUE, "REF", NULL,
     "Also compare with the model it was made from: the same inputs and outputs, nodes, shapes and "
     "metadata, casts apart; weights equal or rounded to nearest even; float as float16 or "
     "bfloat16 wherever a type is said; opsets may be raised, and operators then have the form that "
     "'upgrade-opset' gives them."},
    {"full", 0, OPTION_ROW_FLAG, NULL, NULL,
     "With --against of a plan: compile REF again and compare every byte, which covers weights that "
     "REF has in other files, too."},
    {"policy", 0, OPTION_ROW_VALUE, "FILE", NULL,
     "With --against: FILE must be what 'demi convert REF --policy FILE' makes; a file, or "
     "float16, bfloat16 or fast."},
    {"max-error", 'e', OPTION_ROW_VALUE, "X", NULL,
     "With --against: run both, and fail where an output differs by more, by the largest magnitude "
     "of the reference's; default 0.02 where one of both has 16-bit values, else 1e-4."},
    {"atol", 0, OPTION_ROW_VALUE, "X", NULL,
     "A difference that is fine however small the values are; default 6.2e-5 where one of both has "
     "16-bit values, else 1e-7."},
    SESSION_OPTIONS,
    OPTION_JSON("Write the result as JSON too. Without FILE (as the last word, or before another "
                "option) it goes to standard output and the text to standard error."),
    OPTION_QUIET,
    OPTION_HELP,
    {NULL, 0, OPTION_ROW_FLAG, NULL, NULL, NULL},
};

typedef struct Result {
    const char *file;
    const DemiReport *report;    /* NULL where the model could not be read */
    const Err *fault;            /* code ERR_NONE: valid */
    const char *against;         /* or NULL */
    const Words *differences;    /* from it */
    const CheckNumbers *numbers; /* NULL: not asked for */
} Result;

static void write_fault(const Err *fault, JsonWriter *json) {
    const struct {
        const char *key, *value;
    } fields[] = {
        {"graph", fault->graph},     {"node", fault->node}, {"op_type", fault->op_type},
        {"operand", fault->operand}, {"what", fault->what}, {"expected", fault->expected},
        {"actual", fault->actual},   {"hint", fault->hint},
    };
    json_open(json, "fault", '{');
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if (fields[i].value[0]) json_text(json, fields[i].key, fields[i].value);
    json_close(json, '}');
}

static void fill_json(JsonWriter *json, void *data) {
    const Result *result = data;
    json_open(json, NULL, '{');
    json_text(json, "file", result->file);
    json_boolean(json, "valid", result->fault->code == ERR_NONE);
    if (result->fault->code != ERR_NONE) write_fault(result->fault, json);
    if (result->report) report_write_facts(result->report, json);
    if (result->against && result->fault->code == ERR_NONE) {
        json_text(json, "against", result->against);
        json_open(json, "differences", '[');
        for (size_t i = 0; i < result->differences->count; i++)
            json_text(json, NULL, result->differences->items[i]);
        json_close(json, ']');
        if (result->numbers) check_numbers_json(result->numbers, json);
    }
    json_close(json, '}');
}

typedef struct Job {
    Program *program;
    const Parsed *parsed;
    const char *file, *against; /* against may be NULL */
    Words differences;
    CheckNumbers numbers;
} Job;

static void take_difference(void *data, const char *line) {
    Job *job = data;
    Arena *arena = job->program->arena;
    const char *copy = arena_copy(arena, line, strlen(line));
    VEC_PUSH(arena, &job->differences, copy);
}

static bool make_types_exact(DemiModel *model, const char *file, Err *err) {
    DemiError error = DEMI_ERROR_INIT;
    DemiStatus status = demi_run_pipeline(model, "infer-dtypes", NULL, NULL, &error);
    if (console_check(status, &error, err)) return true;
    err_file(err, file);
    return false;
}

/* "node 'n' (Conv) is added", "type 't' is changed, dtype: float16 -> float". */
static void take_policy(void *data, const Difference *diff) {
    static const char *const changes[] = {
        [DIFF_REMOVED] = "is not there", [DIFF_ADDED] = "is added", [DIFF_CHANGED] = "is changed"};
    Job *job = data;
    Arena *arena = job->program->arena;
    const char *where = diff->graph[0] ? arena_printf(arena, " in '%.60s'", diff->graph) : "";
    const char *op = diff->op_type[0] ? arena_printf(arena, " (%s)", diff->op_type) : "";
    const char *line =
        arena_printf(arena, "by the policy: %s '%s'%s%s %s", diff_kind_name(diff->kind), diff->name,
                     op, where, changes[diff->change]);
    if (diff->what[0]) line = arena_printf(arena, "%s, %s", line, diff->what);
    if (diff->a[0] || diff->b[0])
        line = arena_printf(arena, "%s: %.60s -> %.60s", line, diff->a[0] ? diff->a : "none",
                            diff->b[0] ? diff->b : "none");
    VEC_PUSH(arena, &job->differences, line);
}

typedef struct ModelBytes {
    Arena *arena;
    VEC(char) items;
} ModelBytes;

static bool take_bytes(void *user, const void *bytes, size_t size) {
    ModelBytes *all = user;
    while (all->items.capacity - all->items.count < size)
        all->items.items = vec_grow(all->arena, all->items.items, &all->items.capacity, 1);
    memcpy(all->items.items + all->items.count, bytes, size);
    all->items.count += size;
    return true;
}

/* The reference converted by the policy, as it is when written and read back: nodes without a name
 * are then called by what they give there. */
static DemiModel *convert(Job *job, ModelBytes *bytes, Err *err) {
    DemiModel *reference = NULL, *made = NULL;
    DemiConvertOptions policy = DEMI_CONVERT_OPTIONS_INIT;
    DemiError error = DEMI_ERROR_INIT;
    if (!convert_options_policy(job->program->arena, job->parsed, &policy, err) ||
        !console_load(job->program, job->parsed, job->against, &reference, err))
        return NULL;
    DemiStatus status = demi_convert(reference, &policy, NULL, &error);
    if (status == DEMI_OK) status = demi_save_callback(reference, take_bytes, bytes, NULL, &error);
    if (status == DEMI_OK)
        status = demi_load_memory(bytes->items.items, bytes->items.count, NULL, &made, &error);
    demi_free(reference);
    if (!console_check(status, &error, err)) err_file(err, job->against);
    return made;
}

/* The model must be what the policy makes of the reference. */
static bool compare_policy(Job *job, DemiModel *model, Err *err) {
    ModelBytes bytes = {.arena = job->program->arena};
    DemiModel *made = convert(job, &bytes, err);
    Arena scratch;
    if (!made) return false;
    arena_init(&scratch, job->program->arena->trap);
    bool ok = model_diff(demi_front_model(made), demi_front_model(model), &scratch, take_policy,
                         job, err);
    arena_free(&scratch);
    demi_free(made);
    return ok;
}

/* The opset of the default domain that a model imports; 0: none. */
static int64_t default_opset(const DemiModel *model) {
    return opset_version(&demi_front_model(model)->opsets, NULL);
}

/* The reference at the opset that the model was raised to, where operators may have another form:
 * attributes that became inputs, say. One that can't be raised so is compared as it is. */
static bool load_reference(Job *job, const DemiModel *model, DemiModel **reference, Err *err) {
    Program *program = job->program;
    int64_t wanted = default_opset(model);
    if (!console_load(program, job->parsed, job->against, reference, err)) return false;
    if (!default_opset(*reference) || wanted <= default_opset(*reference)) return true;
    const char *pass = arena_printf(program->arena, "upgrade-opset{to=%lld}", (long long)wanted);
    if (demi_run_pipeline(*reference, pass, NULL, NULL, NULL) == DEMI_OK) return true;
    demi_free(*reference);
    *reference = NULL;
    return console_load(program, job->parsed, job->against, reference, err);
}

/* What differs from the reference goes to the job; false where that can't be told. */
static bool compare(Job *job, DemiModel *model, Err *err) {
    DemiModel *reference = NULL;
    Arena scratch;
    if (parsed_value(job->parsed, "policy") && !compare_policy(job, model, err)) return false;
    if (!load_reference(job, model, &reference, err)) return false;
    arena_init(&scratch, job->program->arena->trap);
    bool ok = make_types_exact(model, job->file, err) &&
              make_types_exact(reference, job->against, err) &&
              model_against(demi_front_model(model), demi_front_model(reference), &scratch,
                            take_difference, job, err);
    arena_free(&scratch);
    demi_free(reference);
    CheckPair pair = {job->file, job->against};
    return ok && (!check_numbers_asked(job->parsed) ||
                  check_numbers_run(&job->numbers, job->program, job->parsed, &pair, err));
}

/* Loads and checks; what is wrong with the model, or the comparison, goes to *fault. */
static void examine(Job *job, DemiReport **report, Err *fault) {
    DemiModel *model = NULL;
    DemiError error = DEMI_ERROR_INIT;
    if (!console_load(job->program, job->parsed, job->file, &model, fault)) return;
    if (console_check(demi_describe(model, report, &error), &error, fault))
        console_check(demi_check(model, &error), &error, fault);
    if (fault->code != ERR_NONE)
        err_file(fault, job->file);
    else if (job->against)
        compare(job, model, fault);
    demi_free(model);
}

static bool check_options(const Job *job, Err *err) {
    bool numbers = check_numbers_asked(job->parsed);
    bool again = numbers || parsed_value(job->parsed, "policy");
    bool from_input = strcmp(job->file, "-") == 0;
    if (!job->against) {
        if (!numbers && !parsed_value(job->parsed, "policy")) return true;
        err_set(err, ERR_USAGE, "there is nothing to compare with");
        err_hint(err, "--policy, --max-error and inputs go with --against REF");
        return false;
    }
    bool reference_from_input = strcmp(job->against, "-") == 0;
    if (from_input && reference_from_input)
        return err_set(err, ERR_USAGE, "only one model can come from standard input");
    if ((numbers && from_input) || (again && reference_from_input))
        return err_set(err, ERR_USAGE, "standard input can't be read twice: give a file");
    return true;
}

static void print_differences(const Job *job, const char *against, FILE *out) {
    for (size_t i = 0; i < job->differences.count; i++) {
        const char *line = job->differences.items[i];
        report_put(out, line, strlen(line));
        fputc('\n', out);
    }
    if (!job->differences.count)
        fputs("the same as ", out);
    else
        fprintf(out, "%zu difference%s from ", job->differences.count,
                job->differences.count == 1 ? "" : "s");
    report_puts(out, against);
    fputs(job->differences.count ? "\n" : ", but for precision\n", out);
}

static void print_result(const Job *job, const DemiReport *report, const ReportPlan *plan) {
    FILE *out = plan->text;
    report_print_stats(report, job->file, out);
    fprintf(out, "%svalid%s\n", console_paint(plan->color, PAINT_GOOD),
            console_paint(plan->color, PAINT_PLAIN));
    if (!job->against) return;
    print_differences(job, job->against, out);
    if (job->numbers.sets) check_numbers_print(&job->numbers, job->program->arena, out);
}

static bool run(Program *program, const Parsed *parsed, Err *err) {
    ReportPlan plan;
    Err fault = {.code = ERR_NONE};
    DemiReport *report = NULL;
    Job job = {.program = program,
               .parsed = parsed,
               .file = parsed_argument(parsed, 0),
               .against = parsed_value(parsed, "against")};
    if (!job.file) return console_missing(parsed, "a model to check", err);
    if (session_is_plan(program->arena, job.file)) {
        if (check_numbers_asked(parsed) || parsed_value(parsed, "policy"))
            return err_set(err, ERR_USAGE, "a plan is compared with a model by 'demi compare'");
        bool ok = check_plan(program, parsed, job.file, err);
        if (!ok) err_file(err, job.file);
        if (ok && !parsed_flag(parsed, "quiet")) {
            report_puts(stdout, job.file);
            puts(": a valid plan");
        }
        return ok;
    }
    if (!check_options(&job, err) || !report_plan(program, false, &plan, err)) return false;
    examine(&job, &report, &fault);
    Result result = {.file = job.file,
                     .report = report,
                     .fault = &fault,
                     .against = job.against,
                     .differences = &job.differences,
                     .numbers = job.numbers.sets ? &job.numbers : NULL};
    bool ok = true;
    if (fault.code == ERR_NONE && plan.text) print_result(&job, report, &plan);
    if (job.differences.count || job.numbers.beyond) program->exit_code = 1;
    /* A file that is not there, or can't be read, has no result. */
    if (plan.json && fault.code <= ERR_MODEL)
        ok = report_json_to(program, &plan, fill_json, &result, err);
    if (fault.code <= ERR_MODEL) ok = ok && outputs_commit(program, NULL, err);
    demi_report_free(report);
    if (ok && fault.code != ERR_NONE) *err = fault;
    return err->code == ERR_NONE;
}

const Command command_check = {
    .name = "check",
    .summary = "check that a model is valid, and against another",
    .usage = "FILE [OPTIONS]",
    .about =
        "Checks that FILE is a valid model: its encoding, names, definitions before uses, tensors "
        "as long as their shapes say, every known operator against its definition at the "
        "model's opset: number of inputs and outputs, attributes, types; and types and shapes, as "
        "they follow from inputs and constants, against what branches, loops and declarations say. "
        "What ONNX's full check and strict inference refuse is refused. A valid model's facts are "
        "printed and the exit code is 0; otherwise the first fault is, and it is 1.\n"
        "\n"
        "A plan is checked as the runtime checks it before it is run, and all its bytes, weights "
        "included, must be those that were written. With --against MODEL it must have been compiled "
        "from that file, as the hash of the file's bytes tells; of what the file has elsewhere "
        "(external data) only --full knows.\n"
        "\n"
        "With --against REF the model must also be REF but for precision; each difference is a "
        "line, "
        "and any makes the exit code 1. With inputs (--data, --random, --input) or --max-error "
        "both are run as well, on each set of inputs of --data, and an output further off than "
        "--max-error makes the exit code 1, too: a gate for continuous integration. 'demi compare' "
        "then says where it begins.",
    .examples = "demi check model.onnx\n"
                "demi check model.onnx --quiet && echo fine\n"
                "demi check model.fp16.onnx --against model.onnx\n"
                "demi check model.fp16.onnx --against model.onnx --data samples --max-error 0.01\n"
                "demi check model.onnx --json\n",
    .arguments = arguments,
    .options = options,
    .common = "against policy max-error data random json quiet help",
    .run = run,
};
