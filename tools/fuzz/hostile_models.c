// SPDX-License-Identifier: Apache-2.0
/* Models that are not as their operators' definitions say, through every command, in process.
 *
 *     hostile_models [--commands N] [--every N] [--seed S] [--operator NAME] [--old] [--show]
 *                    [--demi DEMI] untyped|attributes ...
 *
 * untyped:     the output of an operator that nobody knows, and of whose type nothing is known, at
 *              every operand of every operator: such models are valid.
 * attributes:  every attribute of every operator, and one that it does not have, of every other
 *              kind, of its own kind with every other field filled, of every kind with nothing in
 *              it, and left out.
 *
 * The newest version of each operator is taken, with --old all; the node stands in the main graph,
 * in a branch and in a function, in turn, where the call gives the attribute. Every case is loaded,
 * checked, converted, and what was valid must be afterwards; N commands (2; 0: all) run on it, in
 * turn, and each 199th by the program DEMI as well. --every takes each Nth case. Nothing may end
 * otherwise than well or with one line; what was tried last is printed when a case brings the
 * program down. All of it, which takes hours:
 *
 *     build/debug/hostile_models --old --commands 0 untyped attributes
 */
#define _DEFAULT_SOURCE /* setitimer */
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include "demi.h"
#include "fused_ops.h"
#include "fuzz.h"
#include "hostile_commands.h"
#include "hostile_text.h"
#include "text.h"

enum { MOST_SECONDS = 60, PROGRAM_EVERY = 199 };

static const char *const lines[] = {
    "convert %0 -o - --quiet",
    "compile %0 -o -",
    "opt %0 -o - --quiet --passes "
    "infer-dtypes,infer-shapes,insert-casts{store=true},move-casts,cast-params{both=true},"
    "fuse-casts,infer-dtypes,strip-casts",
    "show %0 --text=full",
    "run %0 --random 1 --quiet --threads 1 --memory 64M --time 5",
    "diff %0 %1",
    "convert %0 -o - --quiet --to bfloat16 --io low",
    "check %0 --against %1",
    "opt %0 -o - --quiet --passes "
    "infer-dtypes,infer-shapes,decompose,fuse-gelu,fuse-rotary,fuse-one-hot,fold-batch-norm,fuse-"
    "conv,"
    "fuse-"
    "attention,"
    "fuse-matmul,fuse-qkv,fuse-layer-norm,fuse-kernel-casts,read-kv-cache,choose-layouts,fuse-"
    "separable,"
    "lower-plan{fold=true}",
    "show %0 --json",
    "compare %1 %0 --random 1 --quiet --threads 1 --memory 64M --time 5",
    "convert %0 -o - --quiet --parameters both --overflow clamp --verify-each",
    "opt %0 -o - --quiet --passes infer-dtypes,upgrade-opset{for=bfloat16},upgrade-opset{to=28}",
    "compile %0 -o - --numerics faithful --memory 16M",
    "show %0",
    "convert %0 --dry-run --json=- --why n",
    "check %0",
    "opt %0 -o - --quiet --passes "
    "infer-dtypes,infer-shapes{annotate=true},eliminate-dead-code,print",
    "diff %1 %0 --strict --json=-",
    "bench %0 --random 1 --runs 1 --warmup 0 --no-peak --threads 1 --memory 64M --time 5",
    "convert %0 -o - --quiet --placement greedy --parameters runtime --opset 23",
    "show %0 --dot",
    "convert %0 -o - --quiet --keep-ops MatMul --fp32-when Conv.group=1 --allow-unmatched",
    "opt %0 -o - --quiet --passes strip-casts,cast-params,fuse-casts{own=true}",
    "run %0 --random 1 --quiet --threads 1 --memory 64M --time 5 --numerics fast",
    "convert %0 -o - --quiet --verify random --threads 1 --memory 64M",
    "convert %0 -o - --quiet --to int8 --calibrate random --threads 1 --memory 64M",
    "convert %0 -o - --quiet --to int4-weights",
    ("search %0 -o - --quiet -c float,float16,a8w8 --random 1 --sets 2 --evaluations 4 --target 30 "
     "--threads 1 --memory 64M"),
};
enum { LINES = sizeof lines / sizeof *lines };

typedef struct Options {
    uint64_t commands, every, seed;
    const char *only, *demi;
    bool old, show;
} Options;

typedef struct Totals {
    const Options *options;
    uint64_t cases, taken, commands, valid, converted, failures;
    unsigned next;    /* command */
    bool must_refuse; /* the model at hand, which no pass may see */
} Totals;

static const char *current = "";
static const char *current_line = "";

static void fail(Totals *totals, const char *what, const char *more) {
    if (totals->failures++ < 20)
        hostile_say("FAIL %s: %s: %s\n%s\n", current_line, what, more, current);
}

/* ---- judging --------------------------------------------------------------------------------- */

static bool is_our_fault(const char *message) {
    return strstr(message, "internal:") || strstr(message, "please report") ||
           strchr(message, '\n');
}

static void try_command(Totals *totals, const char *line) {
    Err err;
    char message[2048] = "";
    current_line = line;
    int code = hostile_command(line, &err);
    err_format(&err, message, sizeof message);
    totals->commands++;
    const char *demi = totals->options->demi;
    if (demi && totals->commands % PROGRAM_EVERY == 0 && hostile_program(demi, line) != code)
        fail(totals, "the program ends otherwise", message);
    if (totals->options->show) hostile_say("%s: %d %s\n", line, code, message);
    if (code < 0 || code > 3) fail(totals, "it ended with another code", message);
    if (is_our_fault(message) || is_our_fault(err.hint)) fail(totals, message, err.hint);
    if (err.code != ERR_NONE && !message[0]) fail(totals, "no reason", "");
}

/* Valid, with all types that follow from others. */
static bool is_valid(const FuzzBytes *bytes, DemiError *error) {
    DemiModel *model = NULL;
    const unsigned char *data = bytes->bytes.items;
    bool valid = demi_load_memory(data, bytes->bytes.count, NULL, &model, error) == DEMI_OK &&
                 demi_check(model, error) == DEMI_OK &&
                 demi_run_pipeline(model, "infer-dtypes", NULL, NULL, error) == DEMI_OK &&
                 demi_check(model, error) == DEMI_OK;
    demi_free(model);
    return valid;
}

/* Converts in memory: what was valid stays valid. */
static void try_convert(Totals *totals, const FuzzBytes *bytes, DemiTarget to) {
    DemiModel *model = NULL;
    DemiError error = DEMI_ERROR_INIT;
    DemiConvertOptions options = DEMI_CONVERT_OPTIONS_INIT;
    current_line = to == DEMI_TO_BFLOAT16 ? "bfloat16 in memory" : "float16 in memory";
    options.to = to;
    if (demi_load_memory(bytes->bytes.items, bytes->bytes.count, NULL, &model, &error) != DEMI_OK) {
        fail(totals, "it can't be loaded", error.message);
        return;
    }
    bool valid = is_valid(bytes, &error);
    totals->valid += valid;
    if (totals->options->show) hostile_say("check: %s\n", valid ? "valid" : error.message);
    DemiStatus status = demi_convert(model, &options, NULL, &error);
    if (totals->options->show) hostile_say("%s: %s\n", current_line, error.message);
    if (status != DEMI_OK && status != DEMI_ERR_MODEL)
        fail(totals, "another status", error.message);
    if (status != DEMI_OK && is_our_fault(error.message)) fail(totals, "refused", error.message);
    if (totals->must_refuse && (status == DEMI_OK || valid)) fail(totals, "not refused", "");
    if (status == DEMI_OK && valid && demi_check(model, &error) != DEMI_OK)
        fail(totals, "a valid model became invalid", error.message);
    totals->converted += status == DEMI_OK;
    demi_free(model);
}

/* The ONNX form of a text; false where that is the test's fault. Operators of demi's own have
 * none: the text is the file. */
static bool write_model(Totals *totals, const char *text, MemTrap *trap, FuzzBytes *out) {
    Err err = {.code = ERR_NONE};
    Model *model = text_parse_model(text, strlen(text), trap, &err);
    bool fused = strstr(text, FUSED_DOMAIN);
    if (fused) fuzz_put(out, text, strlen(text));
    bool ok = model && (fused || fuzz_export(model, out, &err));
    char message[1024];
    err_format(&err, message, sizeof message);
    if (!ok) fail(totals, "the test's text is wrong", message);
    if (model) model_free(model);
    return ok;
}

static void judge(Totals *totals, const char *text, const char *base) {
    MemTrap trap;
    Arena arena;
    const Options *options = totals->options;
    if (totals->cases++ % options->every) return;
    current = text;
    current_line = "writing it";
    if (setjmp(trap.env)) {
        fail(totals, "making it took all memory", "");
        return;
    }
    arena_init(&arena, &trap);
    FuzzBytes odd = {.arena = &arena}, plain = {.arena = &arena};
    if (write_model(totals, text, &trap, &odd) && write_model(totals, base, &trap, &plain)) {
        hostile_commands_file(0, odd.bytes.items, odd.bytes.count);
        hostile_commands_file(1, plain.bytes.items, plain.bytes.count);
        setitimer(ITIMER_PROF, &(struct itimerval){.it_value = {MOST_SECONDS, 0}}, NULL);
        try_convert(totals, &odd, totals->taken++ % 2 ? DEMI_TO_BFLOAT16 : DEMI_TO_FLOAT16);
        for (uint64_t i = 0; i < (options->commands ? options->commands : LINES); i++)
            try_command(totals, lines[totals->next++ % LINES]);
        setitimer(ITIMER_PROF, &(struct itimerval){.it_value = {0, 0}}, NULL);
    }
    arena_free(&arena);
}

/* ---- cases ----------------------------------------------------------------------------------- */

static uint64_t mixed(uint64_t x) {
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return x ^ x >> 31;
}

/* The case, beside the same model without what is odd. */
static void try_node(Totals *totals, HostileNode *node) {
    MemTrap trap;
    Arena arena;
    if (setjmp(trap.env)) {
        fail(totals, "making it took all memory", "");
        return;
    }
    arena_init(&arena, &trap);
    node->style = mixed(totals->options->seed * 1000003 + totals->cases);
    const char *text = hostile_text(node, &arena);
    HostileNode plain = *node;
    plain.untyped = -1;
    plain.odd = NULL;
    judge(totals, text, hostile_text(&plain, &arena));
    arena_free(&arena);
}

static void try_untyped(Totals *totals, const OpSchema *schema) {
    for (unsigned i = 0; i < hostile_text_operands(schema); i++)
        for (unsigned place = 0; place < HOSTILE_PLACES; place++)
            try_node(
                totals,
                &(HostileNode){.schema = schema, .place = (HostilePlace)place, .untyped = (int)i});
}

typedef struct Odd {
    const OpSchema *schema;
    const char *name;
    AttrType kind; /* its definition's */
    Arena *arena;
} Odd;

/* True where a pass must not see it: another kind than the definition's, where that is told from
 * the node itself; another field than its kind's; a message that is missing. */
static bool is_refused(const Odd *odd, AttrType says, AttrType holds, HostilePlace place) {
    bool message = says == ATTR_TENSOR || says == ATTR_GRAPH || says == ATTR_SPARSE_TENSOR ||
                   says == ATTR_TYPE;
    bool known = op_schema_attr(odd->schema, odd->name) && place != HOSTILE_FUNCTION;
    return (known && says != odd->kind) || (holds != ATTR_UNDEFINED && holds != says) ||
           (holds == ATTR_UNDEFINED && message);
}

/* One kind and field, in turn in one of the three places. */
static void try_value(Totals *totals, const Odd *odd, AttrType says, AttrType holds) {
    HostileNode node = {.schema = odd->schema, .untyped = -1, .odd = odd->name};
    node.place = (HostilePlace)(totals->cases % HOSTILE_PLACES);
    node.value = hostile_text_value(says, holds, odd->arena);
    totals->must_refuse = is_refused(odd, says, holds, node.place);
    try_node(totals, &node);
    totals->must_refuse = false;
}

static void try_attribute(Totals *totals, const OpSchema *schema, const char *name, AttrType kind) {
    MemTrap trap;
    Arena arena;
    if (setjmp(trap.env)) abort();
    arena_init(&arena, &trap);
    const Odd odd = {schema, name, kind, &arena};
    for (int says = ATTR_UNDEFINED; says <= ATTR_TYPES; says++) {
        AttrType other = (AttrType)says;
        try_value(totals, &odd, other, ATTR_UNDEFINED);
        if (other == ATTR_UNDEFINED) continue;
        try_value(totals, &odd, other, other);
        if (other != kind) try_value(totals, &odd, kind, other);
        try_value(totals, &odd, ATTR_UNDEFINED, other);
    }
    try_node(totals, &(HostileNode){.schema = schema, .untyped = -1, .odd = name});
    arena_free(&arena);
}

static void try_attributes(Totals *totals, const OpSchema *schema) {
    for (uint32_t i = 0; i < schema->attr_count; i++)
        try_attribute(totals, schema, schema->attrs[i].name, (AttrType)schema->attrs[i].type);
    try_attribute(totals, schema, "zz", ATTR_TENSOR);
}

typedef void (*TrySchema)(Totals *totals, const OpSchema *schema);

static void try_all(Totals *totals, TrySchema try) {
    const char *only = totals->options->only;
    for (size_t i = 0; i < ops_count() + fused_ops_count(); i++) {
        bool fused = i >= ops_count();
        const OpSchema *schema = fused ? fused_ops_at(i - ops_count()) : ops_at(i);
        if (schema->deprecated || (only && strcmp(only, schema->name) != 0) ||
            (schema->until != INT32_MAX && !totals->options->old))
            continue;
        try(totals, schema);
    }
}

/* ---- the program ----------------------------------------------------------------------------- */

static void tell_current(void) {
    hostile_say("\nhostile_models: brought down by: %s\n%s\n", current_line, current);
}

/* The sanitizers', where they are linked. */
__attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)(void));

static void on_signal(int number) {
    tell_current();
    signal(number, SIG_DFL);
    raise(number);
}

static void watch_signals(void) {
    static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGABRT, SIGPROF, SIGILL};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        if (!__sanitizer_set_death_callback || signals[i] == SIGPROF) signal(signals[i], on_signal);
    if (__sanitizer_set_death_callback) __sanitizer_set_death_callback(tell_current);
}

static bool read_option(int argc, char **argv, int *at, Options *options) {
    struct {
        const char *name;
        uint64_t *number;
    } numbers[] = {{"--commands", &options->commands},
                   {"--every", &options->every},
                   {"--seed", &options->seed}};
    if (strcmp(argv[*at], "--show") == 0) return options->show = true;
    if (strcmp(argv[*at], "--old") == 0) return options->old = true;
    for (size_t i = 0; *at + 1 < argc && i < sizeof numbers / sizeof *numbers; i++) {
        if (strcmp(argv[*at], numbers[i].name) != 0) continue;
        *numbers[i].number = strtoull(argv[++*at], NULL, 10);
        return true;
    }
    bool only = strcmp(argv[*at], "--operator") == 0, demi = strcmp(argv[*at], "--demi") == 0;
    if (*at + 1 >= argc || (!only && !demi)) return false;
    *(only ? &options->only : &options->demi) = argv[++*at];
    return true;
}

int main(int argc, char **argv) {
    Options options = {.commands = 2, .every = 1, .seed = 1};
    Totals totals = {.options = &options};
    hostile_commands_begin();
    watch_signals();
    for (int i = 1; i < argc; i++) {
        if (read_option(argc, argv, &i, &options)) continue;
        if (!options.every) options.every = 1;
        bool untyped = strcmp(argv[i], "untyped") == 0;
        if (!untyped && strcmp(argv[i], "attributes") != 0) return 2;
        uint64_t before = totals.taken;
        try_all(&totals, untyped ? try_untyped : try_attributes);
        hostile_say("%s: %llu models\n", argv[i], (unsigned long long)(totals.taken - before));
    }
    hostile_say("%llu models, %llu of them valid, %llu converted, %llu commands, %llu failures\n",
                (unsigned long long)totals.taken, (unsigned long long)totals.valid,
                (unsigned long long)totals.converted, (unsigned long long)totals.commands,
                (unsigned long long)totals.failures);
    return totals.failures || !totals.taken;
}
