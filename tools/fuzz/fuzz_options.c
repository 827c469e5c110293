// SPDX-License-Identifier: Apache-2.0
/* Fuzzer of what comes after and around the main job: bytes that are a model are changed a little
 * and then converted with random options, run through random pipelines, and compiled and run. What
 * is done follows from the bytes alone. Nothing may end but well or with a reason that is not
 * demi's own fault; what a conversion writes reads back, and is valid where its input was, and so is what
 * a pipeline leaves, but for operators of plans.
 *
 *     build/fuzz/fuzz_options -max_total_time=3600 -max_len=65536 -timeout=20 NEW_CORPUS \
 *         testdata/fuzz/convert testdata/models
 *
 * FUZZ_SALT=N does other things with the same bytes, so that kept models serve any number of times:
 *
 *     for n in $(seq 1000); do FUZZ_SALT=$n build/fuzz/replay_options testdata/fuzz/convert; done
 */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compare.h"
#include "demi.h"
#include "demi_front.h"
#include "demi_runtime.h"
#include "fuzz.h"
#include "fuzz_mutate.h"
#include "fuzz_run.h"
#include "onnx_import.h"
#include "passes.h"
#include "text.h"

enum { MOST_WORDS = 3 };

typedef struct Fuzz {
    MemTrap trap;
    Arena arena;
    FuzzRng rng;
    const Model *model; /* as it was read: where names come from */
    FuzzBytes bytes;    /* changed */
    FuzzBytes plan;
    bool valid;
} Fuzz;

/* What is done at the moment; fuzzers have one thread. */
static const Fuzz *current;
static char doing[4096];

/* FUZZ_SAVE=FILE keeps the changed model, for `demi opt FILE --passes` of what is printed. */
static void tell_current(void) {
    const char *path = getenv("FUZZ_SAVE");
    FILE *file = path ? fopen(path, "wb") : NULL;
    fprintf(stderr, "fuzz: %s\n", doing);
    if (!file) return;
    fwrite(current->bytes.bytes.items, 1, current->bytes.bytes.count, file);
    fclose(file);
}

_Noreturn static void fail(const char *what, const DemiError *error) {
    tell_current();
    Err err = {.code = ERR_MODEL};
    memcpy(err.what, error->message, sizeof err.what - 1);
    fuzz_fail(what, &err);
}

/* An error that says that demi itself is at fault: by words that no name of an input's, which hints
 * quote, stands behind. */
static bool is_ours(const DemiError *error) {
    static const char report[] = "please report this";
    const size_t length = strlen(error->hint), least = sizeof report - 1;
    return strncmp(error->what, "internal:", 9) == 0 ||
           (length >= least && strcmp(error->hint + length - least, report) == 0);
}

static void check_error(DemiStatus status, const DemiError *error, const char *what) {
    if (status == DEMI_OK) return;
    if (status != DEMI_ERR_MODEL && status != DEMI_ERR_USAGE && status != DEMI_ERR_ENV)
        fail(what, error);
    if (is_ours(error) || !error->message[0])
        fail(what, error); /* names may have any words and lines */
}

static bool take(void *user, const void *bytes, size_t size) {
    fuzz_put(user, bytes, size);
    return true;
}

static bool drop(void *user, const void *bytes, size_t size) {
    (void)user;
    (void)bytes;
    (void)size;
    return true;
}

static DemiModel *load(const FuzzBytes *bytes) {
    DemiModel *model = NULL;
    DemiError error = DEMI_ERROR_INIT;
    const unsigned char *items = bytes->bytes.items;
    if (demi_load_memory(items, bytes->bytes.count, NULL, &model, &error) != DEMI_OK)
        fail("its own output is refused", &error);
    return model;
}

static bool sizes_agree(const Type *a, const Type *b) {
    if (!a || !b || a->kind != TYPE_TENSOR || b->kind != TYPE_TENSOR || !a->has_shape ||
        !b->has_shape)
        return true;
    if (a->rank != b->rank) return false;
    for (uint32_t i = 0; i < a->rank; i++)
        if (a->dims[i].kind == DIM_KNOWN && b->dims[i].kind == DIM_KNOWN &&
            a->dims[i].size != b->dims[i].size)
            return false;
    return true;
}

/* What inner and outer graphs declare of their outputs is what these are; and of an input that is an
 * output, too, where checkers go by the one or the other, twice the same. */
static bool outputs_agree(const Model *model, Arena *arena) {
    GraphList graphs = model_graphs(model, arena);
    for (size_t g = 0; g < graphs.count; g++)
        for (size_t i = 0; i < graphs.items[g]->outputs.count; i++) {
            const GraphOutput *output = graphs.items[g]->outputs.items[i];
            const Type *declared = output->decl->type, *found = output->use.value->type;
            const ValueDecl *input = output->use.value ? output->use.value->input : NULL;
            if (declared && found && !type_same_dtypes(declared, found)) return false;
            if (input && !sizes_agree(declared, input->type)) return false;
        }
    return true;
}

/* Valid, with all types that follow from others. */
static bool is_valid(const FuzzBytes *bytes, DemiError *error) {
    DemiModel *model = load(bytes);
    bool valid = demi_check(model, error) == DEMI_OK &&
                 demi_run_pipeline(model, "infer-dtypes", NULL, NULL, error) == DEMI_OK &&
                 demi_check(model, error) == DEMI_OK &&
                 outputs_agree(demi_front_model(model), bytes->arena);
    demi_free(model);
    return valid;
}

/* ---- random words ---------------------------------------------------------------------------- */

static uint32_t below(Fuzz *f, uint32_t bound) {
    return fuzz_below(&f->rng, bound);
}

/* A pattern, name, rule or range; mostly of something that is there. */
static const char *word(Fuzz *f) {
    static const char *const formats[] = {"%s",
                                          "%.1s*",
                                          "name:%s",
                                          "re:%s",
                                          "re:.*",
                                          "out:%s",
                                          "from:%s,to:%s",
                                          "+%s",
                                          "-%s",
                                          "%s=float16",
                                          "%s=65504",
                                          "%s=1e39",
                                          "%s.axis=1",
                                          "%s.alpha=0.5",
                                          "com.mutated.Own",
                                          "com.mutated.Own(T) -> T; T = float|float16",
                                          "*",
                                          "%s=nan"};
    const char *a = fuzz_name(f->model, &f->rng, &f->arena);
    const char *b = fuzz_name(f->model, &f->rng, &f->arena);
    const char *format = formats[below(f, sizeof formats / sizeof *formats)];
    const char *made = "";
    for (const char *at = format; *at; at++) { /* no format that is not a constant */
        bool name = at[0] == '%' && at[1] == 's', letter = !strncmp(at, "%.1s", 4);
        if (name)
            made = arena_printf(&f->arena, "%s%s", made, made[0] ? b : a);
        else
            made = arena_printf(&f->arena, "%s%c", made, letter ? (a[0] ? a[0] : 'x') : *at);
        at += name ? 1 : letter ? 3 : 0;
    }
    return made;
}

static const char *const *words(Fuzz *f, size_t *count) {
    *count = below(f, 6) ? 0 : 1 + below(f, MOST_WORDS);
    const char **list = ARENA_ARRAY(&f->arena, const char *, MOST_WORDS);
    for (size_t i = 0; i < *count; i++) list[i] = word(f);
    return list;
}

/* A range of every value: what a calibration gives. */
static const char *const *all_ranges(Fuzz *f, size_t *count) {
    static const char *const ranges[] = {"1", "0:6", "-3:0.5", "-1:2:0.3", "0"};
    VEC(const char *) list = {0};
    const GraphList graphs = model_graphs(f->model, &f->arena);
    const Graph *graph = graphs.items[0];
    for (size_t i = 0; i < graph->inputs.count; i++)
        VEC_PUSH(&f->arena, &list, sym_text(graph->inputs.items[i]->name));
    for (const Node *node = graph->first; node; node = node_after(node))
        for (uint32_t i = 0; i < node->output_count; i++)
            if (node->outputs[i]) VEC_PUSH(&f->arena, &list, sym_text(node->outputs[i]->name));
    for (size_t i = 0; i < list.count; i++)
        list.items[i] = arena_printf(&f->arena, "%s=%s", list.items[i], ranges[below(f, 5)]);
    *count = list.count;
    return list.items;
}

/* A word as pipelines quote it. */
static const char *quoted(Fuzz *f, const char *text) {
    const char *made = "\"";
    for (; *text; text++) {
        bool plain = (unsigned char)*text >= ' ' && (unsigned char)*text < 127;
        bool escaped = *text == '"' || *text == '\\';
        if (plain) made = arena_printf(&f->arena, "%s%s%c", made, escaped ? "\\" : "", *text);
    }
    return arena_printf(&f->arena, "%s\"", made);
}

static const char *option_text(Fuzz *f, const PassOption *option) {
    static const char *const numbers[] = {"0", "1", "-1", "13", "22", "28", "1000000"};
    uint32_t choices = 0;
    switch (option->kind) {
    case OPTION_BOOL: return below(f, 2) ? "true" : "false";
    case OPTION_INT: return numbers[below(f, 7)];
    case OPTION_CHOICE:
        while (option->choices[choices]) choices++;
        return option->choices[below(f, choices)];
    case OPTION_STRING: return quoted(f, word(f));
    case OPTION_STRINGS:
        return arena_printf(&f->arena, "[%s,%s]", quoted(f, word(f)), quoted(f, word(f)));
    }
    return "";
}

static const char *pass_text(Fuzz *f) {
    const PassInfo *pass = demi_passes.passes[below(f, (uint32_t)demi_passes.count)];
    const char *text = arena_printf(&f->arena, "%s{", pass->name);
    bool any = false;
    for (const PassOption *option = pass->options; option && option->name; option++) {
        bool rare = option->kind == OPTION_STRING || option->kind == OPTION_STRINGS;
        if (below(f, rare ? 8 : 3)) continue;
        text = arena_printf(&f->arena, "%s%s%s=%s", text, any ? "," : "", option->name,
                            option_text(f, option));
        any = true;
    }
    return arena_printf(&f->arena, "%s}", text);
}

/* Facts come first, mostly; a pass that breaks them is mostly followed by them. */
static const char *pipeline(Fuzz *f, unsigned most) {
    const char *text = below(f, 8) ? "infer-dtypes,infer-shapes" : "eliminate-dead-code";
    for (unsigned i = below(f, most) + 1; i > 0; i--)
        text = arena_printf(&f->arena, "%s,%s%s", text, pass_text(f),
                            below(f, 2) ? ",infer-dtypes,infer-shapes" : "");
    return text;
}

/* ---- what is done ---------------------------------------------------------------------------- */

static void read_back(Fuzz *f, DemiModel *model) {
    FuzzBytes out = {.arena = &f->arena};
    DemiError error = DEMI_ERROR_INIT;
    DemiSaveOptions options = DEMI_SAVE_OPTIONS_INIT;
    options.format = DEMI_FORMAT_ONNX;
    DemiStatus status = demi_save_callback(model, take, &out, &options, &error);
    if (status != DEMI_OK && f->valid) fail("not written", &error);
    if (status != DEMI_OK) return;
    DemiModel *again = load(&out);
    Err err = {.code = ERR_NONE};
    if (!model_compare(demi_front_model(model), demi_front_model(again), NULL, &err)) {
        tell_current();
        fuzz_fail("reads back differently", &err);
    }
    demi_free(again);
    if (f->valid && !is_valid(&out, &error)) fail("a valid model became invalid", &error);
}

static void convert(Fuzz *f) {
    static const char *const policies[] = {NULL, NULL, "float16", "bfloat16", "fast"};
    DemiError error = DEMI_ERROR_INIT;
    DemiConvertOptions o = DEMI_CONVERT_OPTIONS_INIT;
    DemiRunOptions run = DEMI_RUN_OPTIONS_INIT;
    DemiReport *report = NULL;
    run.verify_each = below(f, 4) == 0;
    o.run = &run;
    o.to = (DemiTarget)(below(f, 2) ? below(f, 3) : below(f, 7));
    o.activations = (DemiActivations)below(f, 5);
    o.symmetric = below(f, 4) == 0;
    o.block = below(f, 4) ? 0 : 1 + (int64_t)below(f, 300);
    o.fold = below(f, 4) == 0;
    o.simplify = below(f, 4) == 0;
    o.io = (DemiIo)below(f, 3);
    o.placement = (DemiPlacement)below(f, 3);
    o.parameters = (DemiParameters)below(f, 4);
    o.overflow = (DemiOverflow)below(f, 5);
    o.opset = below(f, 3) ? -(int64_t)below(f, 3) : 1 + below(f, 28);
    o.policy = policies[below(f, 5)];
    o.allow_unmatched = below(f, 4) != 0;
    o.keep = words(f, &o.keep_count);
    o.keep_ops = words(f, &o.keep_op_count);
    o.only = words(f, &o.only_count);
    o.low_ops = words(f, &o.low_op_count);
    o.fp32_ops = words(f, &o.fp32_op_count);
    o.follow_ops = words(f, &o.follow_op_count);
    o.widest_ops = words(f, &o.widest_op_count);
    o.fp32_when = words(f, &o.fp32_when_count);
    o.low_inputs = words(f, &o.low_input_count);
    o.low_outputs = words(f, &o.low_output_count);
    o.ranges = below(f, 2) ? words(f, &o.range_count) : all_ranges(f, &o.range_count);
    o.range_margin = below(f, 8) ? 0 : 1 + below(f, 100);
    if (below(f, 8) == 0) o.declared_ops = words(f, &o.declared_op_count);
    DemiModel *model = load(&f->bytes);
    demi_convert_pipeline(&o, doing, sizeof doing, &error);
    DemiStatus status = demi_convert(model, &o, &report, &error);
    check_error(status, &error, "a conversion");
    if (status == DEMI_OK) read_back(f, model);
    demi_report_free(report);
    demi_free(model);
}

static bool has_plan_operators(Fuzz *f, DemiModel *model) {
    const GraphList graphs = model_graphs(demi_front_model(model), &f->arena);
    for (size_t i = 0; i < graphs.count; i++)
        for (const Node *node = graphs.items[i]->first; node; node = node_after(node))
            if (node->domain && strncmp(sym_text(node->domain), "demi.", 5) == 0) return true;
    return false;
}

static void run_pipeline(Fuzz *f) {
    DemiError error = DEMI_ERROR_INIT;
    DemiRunOptions options = DEMI_RUN_OPTIONS_INIT;
    FuzzBytes plan = {.arena = &f->arena};
    const char *text =
        arena_printf(&f->arena, "%s,infer-dtypes,infer-shapes,correct-shapes",
                     pipeline(f, 6)); /* which may know more of the model than was known */
    snprintf(doing, sizeof doing, "%s", text);
    options.text = drop;
    options.artifact = take;
    options.artifact_user = &plan;
    options.verify_each = below(f, 2) == 0;
    DemiModel *model = load(&f->bytes);
    DemiStatus status = demi_run_pipeline(model, text, &options, NULL, &error);
    check_error(status, &error, "a pipeline");
    if (status == DEMI_OK && f->valid && !has_plan_operators(f, model)) read_back(f, model);
    demi_free(model);
}

static void compile(Fuzz *f) {
    DemiError error = DEMI_ERROR_INIT;
    DemiCompileOptions options = DEMI_COMPILE_OPTIONS_INIT;
    DemiPlan *plan = NULL;
    options.numerics = (DemiNumerics)below(f, 2);
    options.keep_values = below(f, 4) == 0;
    options.memory_budget = 1 << (10 + below(f, 16));
    DemiModel *model = load(&f->bytes);
    snprintf(doing, sizeof doing, "compile, numerics %d, keep %d, memory %llu",
             (int)options.numerics, (int)options.keep_values,
             (unsigned long long)options.memory_budget);
    DemiStatus status = demi_compile(model, &options, take, &f->plan, &error);
    check_error(status, &error, "compiling");
    demi_free(model);
    if (status != DEMI_OK) return;
    size_t size = f->plan.bytes.count;
    void *aligned = aligned_alloc(64, (size + 64) / 64 * 64);
    if (!aligned) abort();
    memcpy(aligned, f->plan.bytes.items, size);
    status = demi_plan_from_memory(aligned, size, &plan, &error);
    check_error(status, &error, "its plan");
    FuzzRun how = {.options = DEMI_CONTEXT_OPTIONS_INIT, .times = 2};
    how.options.memory_budget = 1 << 24;
    how.options.step_limit = 2000;
    how.options.time_limit = 2;
    if (status == DEMI_OK) fuzz_run(plan, &how);
    demi_plan_free(plan);
    free(aligned);
}

/* ---- from bytes ------------------------------------------------------------------------------ */

static Model *read_model(Fuzz *f, const uint8_t *data, size_t size) {
    Err err = {.code = ERR_NONE};
    const ImportBytes input = {data, size, "fuzz"};
    if (text_is_likely(data, size))
        return text_parse_model((const char *)data, size, &f->trap, &err);
    return onnx_import_memory(&input, NULL, &f->trap, &err);
}

static void fuzz(Fuzz *f, Model *model) {
    Err err = {.code = ERR_NONE};
    DemiError error = DEMI_ERROR_INIT;
    f->model = model;
    fuzz_mutate(model, &f->rng, below(f, 6), &f->arena);
    if (!fuzz_export(model, &f->bytes, &err)) return;
    current = f;
    snprintf(doing, sizeof doing, "reading it");
    f->valid = is_valid(&f->bytes, &error);
    convert(f);
    run_pipeline(f);
    compile(f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *salt = getenv("FUZZ_SALT");
    Fuzz f = {.rng = {fuzz_hash(data, size) + (salt ? strtoull(salt, NULL, 10) : 0)}};
    Model *volatile model = NULL;
    if (setjmp(f.trap.env)) fuzz_fail("out of memory", NULL);
    arena_init(&f.arena, &f.trap);
    f.bytes.arena = f.plan.arena = &f.arena;
    model = read_model(&f, data, size);
    if (model) {
        fuzz(&f, model);
        model_free(model);
    }
    arena_free(&f.arena);
    return 0;
}
