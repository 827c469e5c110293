// SPDX-License-Identifier: Apache-2.0
/* Every operator under attributes, shapes and data that no exporter writes.
 *
 *     hostile_operators [CASES [OPERATOR [SEED [PLAN...]]]]
 *
 * Of every version of every operator that the runtime has, CASES plans of one step are made at
 * random from pools of hostile values, without anything that checks a model before: numbers of
 * inputs, types, ranks, sizes, indices, axes, attributes that are missing or of another type, NaN.
 * Each must run to an end or fail with one line, within its time and memory; with the sanitizers
 * nothing may be reported. What was tried last is told when a case brings the program down. A seed
 * gives the same cases everywhere.
 */
#define _DEFAULT_SOURCE /* setitimer, getrusage, posix_memalign */
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "attr_layout.h"
#include "context.h"
#include "demi_runtime.h"
#include "fused_ops.h"
#include "hostile_mutate.h"
#include "hostile_values.h"
#include "kernel.h"
#include "ops.h"
#include "plan.h"

enum { MOST_OPERANDS = 24, BUDGET = 16 << 20, SLACK = 64 << 20, MOST_SECONDS = 10 };
static const double slow_seconds = 2; /* sanitizers included */

/* Told by the signal handler. */
static char current[512];

typedef struct Feed {
    char name[32];
    DemiData value;
    bool constant;
    void *own; /* a copy of the data in memory of its own that ends where it does; or NULL */
} Feed;

typedef struct Case {
    Arena *arena;
    Rng rng;
    const OpSchema *schema;
    PlanBuilder b;
    Dtype vars[64];    /* of the schema's type variables */
    HostileShape like; /* what operands look like that are not made otherwise */
    Feed feeds[MOST_OPERANDS];
    size_t feed_count;
    char *bytes;
    size_t size, room;
    unsigned touched; /* sum over outputs: what makes the sanitizers look at them */
} Case;

/* ---- types ----------------------------------------------------------------------------------- */

static Dtype random_dtype(Rng *rng, uint32_t set) {
    unsigned count = (unsigned)__builtin_popcount(set);
    if (!set) return DTYPE_FLOAT;
    if (set >> DTYPE_FLOAT & 1 && rng_chance(rng, 60)) return DTYPE_FLOAT;
    if (set >> DTYPE_INT64 & 1 && rng_chance(rng, 40)) return DTYPE_INT64;
    for (unsigned pick = (unsigned)rng_below(rng, count);; pick--) {
        unsigned lowest = (unsigned)__builtin_ctz(set);
        if (!pick) return (Dtype)lowest;
        set &= set - 1;
    }
}

static PlanKind kind_of(Rng *rng, const TypeSet *set) {
    static const PlanKind kinds[] = {[OPTYPE_TENSOR] = PLAN_TENSOR,
                                     [OPTYPE_SEQ] = PLAN_SEQUENCE,
                                     [OPTYPE_OPTIONAL] = PLAN_OPTIONAL,
                                     [OPTYPE_OPTIONAL_SEQ] = PLAN_OPTIONAL_SEQUENCE};
    if (set->dtypes[OPTYPE_TENSOR] && rng_chance(rng, 70)) return PLAN_TENSOR;
    for (unsigned k = OPTYPE_SEQ; k <= OPTYPE_OPTIONAL_SEQ; k++)
        if (set->dtypes[k]) return kinds[k];
    return PLAN_TENSOR;
}

static Dtype dtype_of(Case *c, const OpParam *param, const TypeSet *set) {
    uint32_t all = set->dtypes[OPTYPE_TENSOR] | set->dtypes[OPTYPE_SEQ] |
                   set->dtypes[OPTYPE_OPTIONAL] | set->dtypes[OPTYPE_OPTIONAL_SEQ];
    if (rng_chance(&c->rng, 3)) return (Dtype)(1 + rng_below(&c->rng, DTYPE_COUNT - 1));
    if (param->var == OP_NO_VAR || !param->homogeneous) return random_dtype(&c->rng, all);
    Dtype *bound = &c->vars[param->var % 64];
    if (*bound == DTYPE_UNDEFINED) *bound = random_dtype(&c->rng, all);
    return *bound;
}

/* ---- operands -------------------------------------------------------------------------------- */

static bool read_data(void *data, uint64_t offset, void *buffer, uint64_t size, Err *err) {
    (void)err;
    memcpy(buffer, (const char *)data + offset, size);
    return true;
}

static uint32_t text(Case *c, const char *words) {
    return plan_add_text(&c->b, words, strlen(words));
}

/* A value that is defined elsewhere, of unknown shape. */
static uint32_t add_value(Case *c, const char *name, PlanKind kind, Dtype dtype) {
    PlanValue value = {.name = text(c, name),
                       .kind = (uint8_t)kind,
                       .dtype = (uint8_t)dtype,
                       .rank = PLAN_NONE,
                       .data = PLAN_NO_DATA};
    VEC_PUSH(c->arena, &c->b.values, value);
    return (uint32_t)c->b.values.count - 1;
}

static void make_constant(Case *c, uint32_t index, const DemiData *data) {
    PlanValue *value = &c->b.values.items[index];
    uint64_t count = hostile_count(data->rank, data->dims);
    value->rank = data->rank;
    value->dims = plan_add_numbers(&c->b, data->dims, data->rank);
    plan_set_data(&c->b, index, count * kernel_element_size((Dtype)data->dtype), read_data,
                  (void *)(uintptr_t)data->data);
}

static DemiData tensor(Case *c, Dtype dtype) {
    HostileShape shape = rng_chance(&c->rng, 55) ? c->like : hostile_shape(&c->rng);
    if (rng_chance(&c->rng, 15) && shape.rank) hostile_cut(&shape);
    if (dtype == DTYPE_INT64 && rng_chance(&c->rng, 40)) shape = hostile_list(&c->rng);
    return hostile_tensor(c->arena, &c->rng, dtype, &shape);
}

static uint32_t add_input(Case *c, PlanKind kind, Dtype dtype) {
    Feed *feed = &c->feeds[c->feed_count];
    snprintf(feed->name, sizeof feed->name, "x%zu", c->feed_count++);
    uint32_t index = add_value(c, feed->name, kind, dtype);
    feed->value = (DemiData)DEMI_DATA_INIT;
    if (kind == PLAN_TENSOR || (kind == PLAN_OPTIONAL && rng_chance(&c->rng, 70)))
        feed->value = tensor(c, dtype);
    else if (kind == PLAN_SEQUENCE || kind == PLAN_OPTIONAL_SEQUENCE) {
        size_t count = rng_below(&c->rng, 4);
        DemiData *items = ARENA_ARRAY(c->arena, DemiData, count + 1);
        for (size_t i = 0; i < count; i++) items[i] = tensor(c, dtype);
        feed->value = (DemiData)DEMI_DATA_SEQUENCE(count, items);
    }
    feed->constant = kind == PLAN_TENSOR && dtype != DTYPE_STRING && rng_chance(&c->rng, 35);
    if (feed->constant) make_constant(c, index, &feed->value);
    return index;
}

static size_t input_count(Case *c) {
    const OpSchema *s = c->schema;
    size_t most = s->max_input < s->input_count + 2u ? s->max_input : s->input_count + 2u;
    if (rng_chance(&c->rng, 4)) return 0;
    if (rng_chance(&c->rng, 4)) return most + 1 < MOST_OPERANDS ? most + 1 : most;
    if (most > MOST_OPERANDS) most = MOST_OPERANDS;
    size_t least = s->min_input < most ? s->min_input : most;
    if (rng_chance(&c->rng, 4) && least) least--;
    return least + rng_below(&c->rng, most - least + 1);
}

static PlanSpan add_inputs(Case *c) {
    uint32_t operands[MOST_OPERANDS + 1];
    size_t count = input_count(c);
    for (size_t i = 0; i < count && i < MOST_OPERANDS; i++) {
        const OpParam *param = op_schema_input(c->schema, i);
        bool omitted = rng_chance(&c->rng, 2) ||
                       (param && param->option == OP_OPTIONAL && rng_chance(&c->rng, 40));
        const TypeSet *set = param ? op_param_types(c->schema, param) : NULL;
        operands[i] = omitted ? PLAN_NONE
                      : param ? add_input(c, kind_of(&c->rng, set), dtype_of(c, param, set))
                              : add_input(c, PLAN_TENSOR, DTYPE_FLOAT);
    }
    return plan_add_operands(&c->b, operands, count);
}

static PlanSpan add_outputs(Case *c) {
    uint32_t operands[MOST_OPERANDS];
    const OpSchema *s = c->schema;
    size_t most = s->max_output < s->output_count + 1u ? s->max_output : s->output_count + 1u;
    size_t least = s->min_output < most ? s->min_output : most;
    size_t count = least + rng_below(&c->rng, most - least + 1);
    if (rng_chance(&c->rng, 3)) count = count ? count - 1 : 1;
    for (size_t i = 0; i < count; i++) {
        char name[32];
        const OpParam *param = op_schema_output(s, i);
        const TypeSet *set = param ? op_param_types(s, param) : NULL;
        snprintf(name, sizeof name, "y%zu", i);
        operands[i] = param ? add_value(c, name, kind_of(&c->rng, set), dtype_of(c, param, set))
                            : add_value(c, name, PLAN_TENSOR, DTYPE_FLOAT);
        if (param && param->option == OP_OPTIONAL && rng_chance(&c->rng, 10))
            operands[i] = PLAN_NONE;
    }
    return plan_add_operands(&c->b, operands, count);
}

/* ---- attributes ------------------------------------------------------------------------------ */

static int64_t add_texts(Case *c, size_t count) {
    uint32_t items[8] = {0};
    for (size_t i = 0; i < count; i++) items[i] = text(c, hostile_word(&c->rng));
    return plan_add_operands(&c->b, items, count).first;
}

static void fill_attr(Case *c, PlanAttr *attr, const char *name) {
    int64_t ints[8] = {0};
    float floats[8] = {0};
    float number = hostile_float(&c->rng);
    uint32_t bits;
    attr->count = (uint32_t)rng_below(&c->rng, 7);
    if (rng_chance(&c->rng, 50)) attr->count = c->like.rank < 8 ? c->like.rank : 8;
    for (uint32_t i = 0; i < attr->count; i++) {
        ints[i] = hostile_int(&c->rng, name, c->like.rank);
        floats[i] = hostile_float(&c->rng);
    }
    switch ((PlainAttrKind)attr->kind) {
    case PLAIN_INT: attr->value = hostile_int(&c->rng, name, c->like.rank); return;
    case PLAIN_FLOAT: memcpy(&bits, &number, sizeof bits), attr->value = bits; return;
    case PLAIN_TEXT: attr->value = text(c, hostile_word(&c->rng)); return;
    case PLAIN_INTS: attr->value = plan_add_numbers(&c->b, ints, attr->count); return;
    case PLAIN_FLOATS: attr->value = plan_add_floats(&c->b, floats, attr->count); return;
    case PLAIN_TEXTS: attr->value = add_texts(c, attr->count); return;
    case PLAIN_TENSOR: {
        Dtype dtype = random_dtype(&c->rng, 0x10CFE & ~(1u << DTYPE_STRING));
        uint32_t value = add_value(c, "attribute", PLAN_TENSOR, dtype);
        DemiData data = tensor(c, dtype);
        make_constant(c, value, &data);
        attr->value = value;
        return;
    }
    case PLAIN_GRAPH:
    case PLAIN_KIND_COUNT: attr->value = 1; return;
    }
}

static PlainAttrKind attr_kind(uint8_t type) {
    static const PlainAttrKind kinds[16] = {
        [1] = PLAIN_FLOAT,  [2] = PLAIN_INT,   [3] = PLAIN_TEXT,
        [4] = PLAIN_TENSOR, [5] = PLAIN_GRAPH, [6] = PLAIN_FLOATS,
        [7] = PLAIN_INTS,   [8] = PLAIN_TEXTS, [11] = PLAIN_TENSOR};
    return kinds[type % 16];
}

static PlanSpan add_attrs(Case *c) {
    PlanSpan span = {(uint32_t)c->b.attrs.count, 0};
    bool graph = false; /* a body may be held once */
    for (uint32_t i = 0; i < c->schema->attr_count; i++) {
        const OpAttr *known = &c->schema->attrs[i];
        if (rng_chance(&c->rng, known->required ? 5 : 55)) continue;
        PlanAttr attr = {.name = text(c, known->name), .kind = attr_kind(known->type)};
        if (rng_chance(&c->rng, 4)) attr.kind = (uint32_t)rng_below(&c->rng, PLAIN_GRAPH);
        if (attr.kind == PLAIN_GRAPH && graph) continue;
        graph = graph || attr.kind == PLAIN_GRAPH;
        fill_attr(c, &attr, known->name);
        if (attr.kind == PLAIN_TEXT && known->type == ATTR_STRING && known->has_default &&
            rng_chance(&c->rng, 50))
            attr.value = text(c, known->value.s);
        VEC_PUSH(c->arena, &c->b.attrs, attr);
        span.count++;
    }
    return span;
}

/* A body that hands on some of its inputs. */
static PlanGraph body_of(Case *c) {
    static const Dtype dtypes[] = {DTYPE_INT64, DTYPE_BOOL, DTYPE_FLOAT, DTYPE_FLOAT};
    uint32_t in[4], out[4] = {0};
    size_t inputs = rng_below(&c->rng, 5), outputs = inputs ? rng_below(&c->rng, 4) : 0;
    for (size_t i = 0; i < inputs; i++) {
        char name[32];
        snprintf(name, sizeof name, "b%zu", i);
        in[i] = add_value(c, name, PLAN_TENSOR, dtypes[i]);
    }
    for (size_t i = 0; i < outputs; i++)
        out[i] = in[rng_chance(&c->rng, 60) ? (i + 1) % inputs : rng_below(&c->rng, inputs)];
    return (PlanGraph){.name = text(c, "body"),
                       .inputs = plan_add_operands(&c->b, in, inputs),
                       .outputs = plan_add_operands(&c->b, out, outputs)};
}

/* ---- one case -------------------------------------------------------------------------------- */

static bool append(void *data, const void *bytes, size_t size, Err *err) {
    Case *c = data;
    (void)err;
    if (c->size + size > c->room) return false;
    memcpy(c->bytes + c->size, bytes, size);
    c->size += size;
    return true;
}

static void build(Case *c) {
    const OpSchema *s = c->schema;
    uint32_t inputs[MOST_OPERANDS], count = 0;
    int64_t opset = s->until == INT32_MAX || rng_chance(&c->rng, 50) ? s->since : s->until;
    PlanStep step = {.op = plan_add_op(&c->b, s->domain, s->name, opset), .name = text(c, "it")};
    step.inputs = add_inputs(c);
    for (uint32_t i = 0; i < c->feed_count; i++)
        if (!c->feeds[i].constant) inputs[count++] = i; /* they are the first values */
    step.outputs = add_outputs(c);
    step.attrs = add_attrs(c);
    PlanGraph graph = {.name = text(c, "main"), .inputs = plan_add_operands(&c->b, inputs, count)};
    uint32_t outputs[MOST_OPERANDS], made = 0;
    for (uint32_t i = 0; i < step.outputs.count; i++) {
        uint32_t value = c->b.operands.items[step.outputs.first + i];
        if (value != PLAN_NONE) outputs[made++] = value;
    }
    graph.outputs = plan_add_operands(&c->b, outputs, made);
    graph.steps = (PlanSpan){0, 1};
    bool held = false;
    for (uint32_t i = 0; i < c->b.attrs.count; i++)
        held = held || c->b.attrs.items[i].kind == PLAIN_GRAPH;
    VEC_PUSH(c->arena, &c->b.graphs, graph);
    VEC_PUSH(c->arena, &c->b.steps, step);
    if (!held) return;
    PlanGraph body = body_of(c);
    body.steps = (PlanSpan){1, 0};
    VEC_PUSH(c->arena, &c->b.graphs, body);
}

/* Reads all of a result, so that a sanitizer sees it. */
static unsigned touch(const DemiData *value) {
    unsigned sum = 0;
    if (!value) return 0;
    for (size_t i = 0; i < value->count; i++) sum += touch(&value->items[i]);
    if (value->kind != DEMI_DATA_TENSOR_KIND) return sum;
    uint64_t count = hostile_count(value->rank, value->dims);
    const unsigned char *bytes = value->data;
    size_t size = kernel_element_size((Dtype)value->dtype);
    for (uint64_t i = 0; i < count * size; i++) sum += bytes[i];
    if (value->dtype == DTYPE_STRING)
        for (uint64_t i = 0; i < count; i++)
            for (uint64_t k = 0; k < ((const DemiString *)value->data)[i].size; k++)
                sum += (unsigned char)((const DemiString *)value->data)[i].text[k];
    return sum;
}

static DemiStatus set_input(DemiContext *context, Feed *feed, bool borrow, DemiError *error) {
    DemiData *value = &feed->value;
    size_t size =
        value->kind == DEMI_DATA_TENSOR_KIND
            ? hostile_count(value->rank, value->dims) * kernel_element_size((Dtype)value->dtype)
            : 0;
    if (!borrow || !size || posix_memalign(&feed->own, 64, size) != 0)
        return demi_context_set_input(context, feed->name, value, error);
    memcpy(feed->own, value->data, size);
    value->data = feed->own;
    return demi_context_borrow_input(context, feed->name, value, error);
}

/* Any row of the operator, told to go any way that there is. */
static StepWay choose(void *data, const LoadedStep *step, const KernelCall *call) {
    Rng *rng = data;
    (void)call;
    StepWay way = {.alone = rng_chance(rng, 20)};
    if (!step->row_count || rng_chance(rng, 50)) return way;
    const uint64_t row = rng_below(rng, step->row_count);
    const KernelPrepare *prepare = step->rows[row].prepare;
    way.row = (uint8_t)(1 + row);
    if (prepare) way.choice = (uint8_t)rng_below(rng, prepare->choices + 1);
    return way;
}

static DemiStatus run_plan(Case *c, DemiError *error) {
    const StepChooser chooser = {choose, &c->rng};
    DemiContextOptions options = DEMI_CONTEXT_OPTIONS_INIT;
    DemiPlan *plan = NULL;
    DemiContext *context = NULL;
    options.memory_budget = BUDGET;
    options.threads = 1 + (uint32_t)rng_chance(&c->rng, 20);
    options.step_limit = 200;
    DemiStatus status = demi_plan_from_memory(c->bytes, c->size, &plan, error);
    if (status == DEMI_OK) status = demi_context_new(plan, &options, &context, error);
    if (context) context->exec.options.chooser = &chooser;
    for (size_t i = 0; status == DEMI_OK && i < c->feed_count; i++)
        if (!c->feeds[i].constant)
            status = set_input(context, &c->feeds[i], rng_chance(&c->rng, 50), error);
    for (int run = 0; run < 2 && status == DEMI_OK; run++) {
        status = demi_context_run(context, error);
        for (size_t i = 0; status == DEMI_OK && i < demi_plan_output_count(plan); i++)
            c->touched += touch(demi_context_output(context, i));
    }
    demi_context_free(context);
    demi_plan_free(plan);
    for (size_t i = 0; i < c->feed_count; i++) free(c->feeds[i].own);
    return status;
}

typedef struct Totals {
    uint64_t cases, ran, failures;
    uint64_t ops; /* operator versions */
} Totals;

static void fail(Totals *totals, const char *what) {
    if (totals->failures++ < 50) printf("FAIL %s: %s\n", current, what);
}

/* Of this process: others may be busy. */
static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static long resident_most(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss * 1024;
}

/* Runs what the case has built, within its bounds; true where it ran to an end. */
static bool judge(Case *c, Totals *totals) {
    DemiError error = DEMI_ERROR_INIT;
    double start = seconds_now();
    long resident = resident_most();
    setitimer(ITIMER_PROF, &(struct itimerval){.it_value = {MOST_SECONDS, 0}}, NULL);
    DemiStatus status = run_plan(c, &error);
    setitimer(ITIMER_PROF, &(struct itimerval){.it_value = {0, 0}}, NULL);
    if (seconds_now() - start > slow_seconds) fail(totals, "it took too long");
    if (resident_most() - resident > SLACK) fail(totals, "it took too much memory");
    if (status != DEMI_OK && !error.message[0]) fail(totals, "it failed without a reason");
    if (strchr(error.message, '\n')) fail(totals, "its message has several lines");
    if (status != DEMI_OK && (status < DEMI_ERR_MODEL || status > DEMI_ERR_ENV))
        fail(totals, "it failed with another status");
    if (getenv("HOSTILE_SHOW")) printf("%s: %d %s\n", current, (int)status, error.message);
    totals->cases++;
    totals->ran += status == DEMI_OK;
    return status == DEMI_OK;
}

enum { ROOM = 1 << 20 };

/* True where it ran to an end. */
static bool try_case(const OpSchema *schema, uint64_t seed, Totals *totals) {
    static _Alignas(64) char bytes[ROOM];
    MemTrap trap;
    Arena arena;
    Err err = {.code = ERR_NONE};
    if (setjmp(trap.env)) {
        fail(totals, "making it took all memory");
        return false;
    }
    arena_init(&arena, &trap);
    Case *c = ARENA_NEW(&arena, Case);
    *c = (Case){.arena = &arena, .rng = {seed}, .schema = schema, .bytes = bytes, .room = ROOM};
    c->like = hostile_shape(&c->rng);
    plan_builder_init(&c->b, &arena);
    build(c);
    bool ran = plan_write(&c->b, append, c, &err) && judge(c, totals);
    arena_free(&arena);
    return ran;
}

/* ---- valid plans, changed -------------------------------------------------------------------- */

/* An input as the plan declares it, in part; false where there is no telling. */
static bool feed_declared(Case *c, const DemiPlanIo *io) {
    Feed *feed = &c->feeds[c->feed_count];
    HostileShape shape = hostile_shape(&c->rng);
    snprintf(feed->name, sizeof feed->name, "%s", io->name);
    if (io->has_rank && io->rank <= HOSTILE_RANK && !rng_chance(&c->rng, 5)) {
        shape.rank = io->rank;
        for (uint32_t i = 0; i < io->rank; i++) shape.dims[i] = io->dims[i] < 0 ? 2 : io->dims[i];
    }
    if (hostile_count(shape.rank, shape.dims) > ROOM) return false;
    feed->value = (DemiData)DEMI_DATA_INIT;
    if (io->kind == DEMI_DATA_TENSOR_KIND)
        feed->value = hostile_tensor(c->arena, &c->rng, (Dtype)io->dtype, &shape);
    else if (io->kind == DEMI_DATA_SEQUENCE_KIND)
        feed->value = (DemiData)DEMI_DATA_SEQUENCE(0, NULL);
    c->feed_count++;
    return true;
}

static bool feed_all(Case *c) {
    DemiPlan *plan = NULL;
    bool ok = demi_plan_from_memory(c->bytes, c->size, &plan, NULL) == DEMI_OK;
    size_t count = ok ? demi_plan_input_count(plan) : 0;
    for (size_t i = 0; ok && i < count; i++) {
        DemiPlanIo io = DEMI_PLAN_IO_INIT;
        demi_plan_input(plan, i, &io);
        ok = count <= MOST_OPERANDS && strlen(io.name) < sizeof c->feeds[0].name &&
             feed_declared(c, &io);
    }
    demi_plan_free(plan);
    return ok;
}

static bool try_changed(const char *from, size_t size, uint64_t seed, Totals *totals) {
    static _Alignas(64) char bytes[ROOM];
    MemTrap trap;
    Arena arena;
    if (setjmp(trap.env)) {
        fail(totals, "making it took all memory");
        return false;
    }
    arena_init(&arena, &trap);
    Case *c = ARENA_NEW(&arena, Case);
    *c = (Case){.arena = &arena, .rng = {seed}, .bytes = bytes, .size = size};
    memcpy(bytes, from, size);
    bool ran = hostile_mutate(&arena, &c->rng, bytes, size) && feed_all(c) && judge(c, totals);
    arena_free(&arena);
    return ran;
}

static void try_plan(const char *path, uint64_t cases, uint64_t seed, Totals *totals) {
    static char bytes[ROOM];
    FILE *file = fopen(path, "rb");
    size_t size = file ? fread(bytes, 1, sizeof bytes, file) : 0;
    uint64_t version = kernel_table_version();
    if (file) fclose(file);
    if (size < sizeof(PlanHeader) || size == sizeof bytes) return; /* too small, or too large */
    memcpy(bytes + offsetof(PlanHeader, kernels), &version, sizeof version);
    for (uint64_t i = 0; i < cases; i++) {
        const char *name = strrchr(path, '/');
        snprintf(current, sizeof current, "plan %.200s, case %llu of seed %llu",
                 name ? name + 1 : path, (unsigned long long)i, (unsigned long long)seed);
        try_changed(bytes, size, seed * UINT64_C(0x9E3779B97F4A7C15) + i, totals);
    }
}

static void try_operator(const OpSchema *schema, uint64_t cases, uint64_t seed, Totals *totals) {
    uint64_t ran = 0;
    if (!plan_has_operator(schema->domain, schema->name, schema->since)) return;
    totals->ops++;
    for (uint64_t i = 0; i < cases; i++) {
        uint64_t own = seed * UINT64_C(0x9E3779B97F4A7C15) + (uint64_t)schema->since * 1000003 + i;
        for (const char *p = schema->name; *p; p++) own = own * 1099511628211u + (unsigned char)*p;
        snprintf(current, sizeof current, "%s%s%s %d, case %llu of seed %llu", schema->domain,
                 schema->domain[0] ? "." : "", schema->name, (int)schema->since,
                 (unsigned long long)i, (unsigned long long)seed);
        ran += try_case(schema, own, totals);
    }
    if (ran == 0 && getenv("HOSTILE_SHOW")) printf("none of %s ran\n", current);
}

static void tell_current(void) {
    static const char before[] = "\nhostile_operators: brought down by ";
    if (write(2, before, sizeof before - 1) < 0 || write(2, current, strlen(current)) < 0 ||
        write(2, "\n", 1) < 0)
        _exit(1);
}

/* The sanitizers', where they are linked. */
__attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)(void));

static void on_signal(int number) {
    tell_current();
    signal(number, SIG_DFL);
    raise(number);
}

int main(int argc, char **argv) {
    uint64_t cases = argc > 1 ? strtoull(argv[1], NULL, 10) : 200;
    const char *only = argc > 2 && argv[2][0] ? argv[2] : NULL;
    uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGABRT, SIGPROF, SIGILL};
    Totals totals = {0};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) signal(signals[i], on_signal);
    if (__sanitizer_set_death_callback) __sanitizer_set_death_callback(tell_current);
    for (size_t i = 0; i < ops_count(); i++)
        if (!only || strcmp(only, ops_at(i)->name) == 0)
            try_operator(ops_at(i), cases, seed, &totals);
    for (size_t i = 0; i < fused_ops_count(); i++)
        if (!only || strcmp(only, fused_ops_at(i)->name) == 0)
            try_operator(fused_ops_at(i), cases, seed, &totals);
    for (int i = 4; i < argc; i++) try_plan(argv[i], cases, seed, &totals);
    printf("%llu cases of %llu operator versions and %d plans: %llu ran to an end, %llu failures\n",
           (unsigned long long)totals.cases, (unsigned long long)totals.ops,
           argc > 4 ? argc - 4 : 0, (unsigned long long)totals.ran,
           (unsigned long long)totals.failures);
    return totals.failures || !totals.cases;
}
