// SPDX-License-Identifier: Apache-2.0
/* See gradient_noise.h. The measured model gets an input of signs for each output, and gives, of each
 * value and weight of a group, its elements and their gradients. */
#include "gradient_noise.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "demi_front.h"
#include "error_fill.h"
#include "gradient.h"
#include "group_roundings.h"
#include "model_source.h"
#include "pipeline_put.h"
#include "training_nodes.h"
#include "value_io.h"
#include "value_names.h"

enum { DIRECTIONS = 4, GRADIENT_OPSET = 17 };
#define UPGRADE "upgrade-opset{to=17}"

/* A value or weight of a group. */
typedef struct Part {
    const Value *value; /* of the asked model */
    bool weights;
    bool reached;        /* an output depends on it */
    size_t elements, by; /* outputs of the session: itself, its gradient */
    float *squares;      /* of gradients, summed over directions; of weights over all sets, too */
    uint64_t count;
} Part;

typedef struct Noising {
    const Sensitivity *asked;
    Arena *arena;
    VEC(Part) parts;
    uint32_t *part_of; /* [value_count]: its number */
    const char *
        *seeds;      /* [reference's output_count]: inputs; NULL where an output is not of floats */
    double *signals; /* the same: over the sets */
    SessionOptions how;
    Session *session;
    const char *passes; /* that its model was made with: sizes of inputs, which rules need */
    uint64_t state;     /* of signs */
    double *noise;
} Noising;

/* ---- the model ------------------------------------------------------------------------------- */

/* Sizes as the set has them. */
static const char *passes_for(const Noising *n, const TrialSet *set, Arena *arena) {
    const Session *reference = n->asked->trials->reference;
    PipelineText text = {.arena = arena};
    Words shapes = {0};
    for (size_t i = 0; i < reference->input_count; i++) {
        const DemiData *value = &set->values[i];
        if (!set->given[i] || value->kind != DEMI_DATA_TENSOR_KIND || !value->rank) continue;
        const char *shape = arena_printf(arena, "%s=", reference->inputs[i].name);
        for (uint32_t k = 0; k < value->rank; k++)
            shape = arena_printf(arena, "%s%s%" PRId64, shape, k ? "x" : "", value->dims[k]);
        VEC_PUSH(arena, &shapes, shape);
    }
    if (shapes.count) {
        pipeline_put_pass(&text, "set-shapes");
        pipeline_put_list(&text, "shapes", shapes.items, shapes.count);
        pipeline_end_pass(&text);
    }
    pipeline_put_pass(&text, "infer-dtypes,infer-shapes");
    return pipeline_text(&text);
}

static Value *named(Graph *graph, const char *name) {
    return value_named(graph, (Bytes){(const unsigned char *)name, strlen(name)});
}

static bool is_float(const Value *value) {
    return value_type(value)->kind == TYPE_TENSOR && type_dtype(value->type) == DTYPE_FLOAT;
}

static void give(const TrainingNodes *nodes, Value *value, const char *name) {
    Value *same = training_op(nodes, "Identity", &value, 1, value->type);
    Model *model = nodes->ctx->model;
    value_rename(same, sym_fresh(&model->syms, name));
    ValueDecl *decl = ARENA_NEW(&model->arena, ValueDecl);
    decl->type = value->type;
    graph_add_output(nodes->graph, same, decl);
}

/* ys and their seeds. */
static void add_seeds(Noising *n, const TrainingNodes *nodes, GradientAsk *ask) {
    Arena *scratch = nodes->ctx->scratch;
    const Graph *graph = nodes->graph;
    const size_t count = graph->outputs.count;
    Value **ys = ARENA_ARRAY(scratch, Value *, count + 1);
    Value **seeds = ARENA_ARRAY(scratch, Value *, count + 1);
    for (size_t i = 0; i < count; i++) {
        Value *y = graph->outputs.items[i]->use.value;
        if (!is_float(y)) continue;
        ys[ask->y_count] = y;
        Value *seed = seeds[ask->y_count++] = training_input(nodes, "signs", y->type);
        n->seeds[i] = arena_copy(n->arena, seed->name->text, seed->name->length);
    }
    ask->ys = ys;
    ask->seeds = seeds;
}

static bool add_gradients(Noising *n, PassCtx *ctx, Err *err) {
    Graph *graph = ctx->model->graph;
    const TrainingNodes nodes = training_nodes_in(ctx, graph);
    const MeasuredModel *measured = n->asked->model;
    GradientAsk ask = {.through = true};
    size_t outputs = graph->outputs.count;
    Value **xs = ARENA_ARRAY(ctx->scratch, Value *, n->parts.count + 1);
    Value **gradients = ARENA_ARRAY(ctx->scratch, Value *, n->parts.count + 1);
    add_seeds(n, &nodes, &ask);
    for (size_t i = 0; i < n->parts.count; i++) {
        const char *name = measured_name(measured, n->parts.items[i].value);
        xs[i] = named(graph, name);
        if (!xs[i]) return err_set(err, ERR_MODEL, "value '%s' is lost on the way", name);
    }
    ask.xs = xs;
    ask.x_count = (uint32_t)n->parts.count;
    for (size_t i = 0; i < n->parts.count; i++) give(&nodes, xs[i], "elements");
    ask.at = node_new(graph, NULL, sym_intern_cstr(&ctx->model->syms, "Identity"), NULL);
    if (!gradient_expand(ctx, &ask, gradients, err)) {
        err_hint(err, "sensitivities that are measured take no gradients (--sensitivity measured)");
        return false;
    }
    node_remove(ask.at);
    for (size_t i = 0; i < n->parts.count; i++) n->parts.items[i].elements = outputs++;
    for (size_t i = 0; i < n->parts.count; i++) {
        Part *part = &n->parts.items[i];
        part->reached = gradients[i] != NULL;
        if (!part->reached) continue;
        if (!gradients[i]->type) value_set_type(gradients[i], xs[i]->type);
        give(&nodes, gradients[i], "gradient");
        part->by = outputs++;
    }
    return true;
}

/* Gradients are of operators as newer opsets have them. */
static DemiStatus prepare(const Noising *n, DemiModel *model, DemiError *error) {
    const int64_t opset = opset_version(&demi_front_model(model)->opsets, NULL);
    DemiStatus status = DEMI_OK;
    if (opset && opset < GRADIENT_OPSET)
        status = demi_run_pipeline(model, UPGRADE, NULL, NULL, error);
    return status == DEMI_OK ? demi_run_pipeline(model, n->passes, NULL, NULL, error) : status;
}

/* A DemiOpenFn. */
static DemiStatus open_gradients(void *user, DemiModel **opened, DemiError *error) {
    Noising *n = user;
    Err err = {0};
    MemTrap trap;
    Arena scratch;
    DemiModel **volatile held = opened;
    MemTrap *const outer = n->arena->trap; /* nothing jumps over the caller */
    DemiStatus status = demi_source_open(&n->asked->trials->source, opened, error);
    if (status == DEMI_OK) status = prepare(n, *held, error);
    if (status != DEMI_OK) return status;
    if (setjmp(trap.env)) {
        err_out_of_memory(&err);
    } else {
        PassCounts counts = {0};
        arena_init(&scratch, &trap);
        n->arena->trap = &trap;
        PassCtx ctx = {.model = demi_front_lend(*held, &trap),
                       .scratch = &scratch,
                       .counts = &counts,
                       .census = census_memo_new(&scratch)};
        add_gradients(n, &ctx, &err);
    }
    n->arena->trap = outer;
    arena_free(&scratch);
    if (err.code != ERR_NONE) error_fill(error, (DemiStatus)err.code, &err);
    return (DemiStatus)err.code;
}

/* What any wanted candidate of a group changes. */
static void list_parts(Noising *n) {
    const Sensitivity *asked = n->asked;
    n->part_of = ARENA_ARRAY(n->arena, uint32_t, asked->model->value_count + 1);
    for (uint32_t g = 0; g < asked->model->groups.count; g++) {
        const Group *group = &asked->model->groups.items[g];
        bool values = false, weights = false;
        for (size_t c = 0; c < asked->candidate_count; c++) {
            if (!asked->wanted[g * asked->candidate_count + c]) continue;
            values = values || asked->candidates[c]->activations != DTYPE_FLOAT;
            weights = weights || asked->candidates[c]->weights != DTYPE_FLOAT;
        }
        for (size_t i = 0; i < group->values.count + group->weights.count; i++) {
            const bool is_weights = i >= group->values.count;
            const Value *value = group_part(group, i);
            if (!(is_weights ? weights : values)) continue;
            n->part_of[value->id] = (uint32_t)n->parts.count;
            VEC_PUSH(n->arena, &n->parts, ((Part){.value = value, .weights = is_weights}));
        }
    }
}

/* ---- what is rounded ------------------------------------------------------------------------- */

/* sum of e^2 g^2. */
static double noise_of(const Part *part, const float *from, const Rounding *rounding,
                       Arena *within) {
    double sum = 0;
    float *to = arena_alloc_raw(within, part->count * sizeof *to + 1);
    rounding_apply((void *)(uintptr_t)rounding, to, from, part->count);
    for (uint64_t i = 0; i < part->count; i++) {
        const double off = (double)to[i] - (double)from[i];
        if (!isfinite(from[i])) continue;
        if (!isfinite(to[i])) return INFINITY;
        sum += off * off * (double)part->squares[i];
    }
    return sum;
}

/* Adds what candidates do to the group's parts of that kind, with the gradients that are summed. */
static void add_group(Noising *n, uint32_t g, bool weights) {
    const Sensitivity *asked = n->asked;
    for (size_t c = 0; c < asked->candidate_count; c++) {
        const size_t at = g * asked->candidate_count + c;
        if (!asked->wanted[at]) continue;
        Arena *within = arena_child(n->arena);
        const GroupRoundings roundings =
            group_roundings(asked->model, &asked->model->groups.items[g], asked->candidates[c],
                            asked->ranges, within);
        for (size_t i = 0; i < roundings.count; i++) {
            const Part *part = &n->parts.items[n->part_of[roundings.items[i].value->id]];
            if (part->weights != weights || !part->reached) continue;
            const DemiData *from = demi_context_output(n->session->context, part->elements);
            n->noise[at] +=
                noise_of(part, from->data, &roundings.items[i].rounding, within) / DIRECTIONS;
        }
        arena_free(within);
    }
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* splitmix64 */
static uint64_t next_random(uint64_t *state) {
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static bool give_signs(const Noising *n, size_t output, const DemiData *y, unsigned direction,
                       Arena *within, Err *err) {
    const uint64_t count = value_count(y);
    const double signal = n->signals[output];
    const float scale = signal > 0 ? (float)(1 / sqrt(signal)) : 0;
    float *signs = arena_alloc_raw(within, count * sizeof *signs + 1);
    uint64_t state = n->state + output, bits = 0;
    for (uint64_t i = 0; i < count; i++) {
        if (i % 64 == 0) bits = next_random(&state);
        const bool row = __builtin_parityll(i & direction); /* of the Hadamard matrix */
        signs[i] = ((bits >> i % 64 & 1) != 0) != row ? scale : -scale;
    }
    DemiData data = *y;
    DemiError error = DEMI_ERROR_INIT;
    data.data = signs;
    const DemiStatus status =
        demi_context_set_input(n->session->context, n->seeds[output], &data, &error);
    return error_take(err, status, &error);
}

static bool give_inputs(const Noising *n, const TrialSet *set, Err *err) {
    const Session *reference = n->asked->trials->reference;
    for (size_t i = 0; i < reference->input_count; i++) {
        DemiError error = DEMI_ERROR_INIT;
        if (!set->given[i]) continue;
        const DemiStatus status = demi_context_borrow_input(
            n->session->context, reference->inputs[i].name, &set->values[i], &error);
        if (!error_take(err, status, &error)) return false;
    }
    return true;
}

/* Of a run. */
static void add_squares(Noising *n, Arena *within) {
    for (size_t p = 0; p < n->parts.count; p++) {
        Part *part = &n->parts.items[p];
        if (!part->reached) continue;
        const DemiData *gradient = demi_context_output(n->session->context, part->by);
        const float *items = gradient->data;
        part->count = value_count(gradient);
        if (!part->squares)
            part->squares =
                arena_array(part->weights ? n->arena : within, part->count + 1, sizeof(float));
        for (uint64_t i = 0; i < part->count; i++) part->squares[i] += items[i] * items[i];
    }
}

static bool run_directions(Noising *n, const TrialSet *set, Arena *within, Err *err) {
    const Session *reference = n->asked->trials->reference;
    for (unsigned direction = 0; direction < DIRECTIONS; direction++) {
        for (size_t i = 0; i < reference->output_count; i++)
            if (n->seeds[i] && !give_signs(n, i, &set->outputs[i], direction, within, err))
                return false;
        if (!session_run(n->session, err)) return false;
        add_squares(n, within);
    }
    return true;
}

/* Sets of one shape share a session. */
static bool open_session(Noising *n, const TrialSet *set, Err *err) {
    DemiSource source = n->asked->trials->source;
    const char *passes = passes_for(n, set, n->arena);
    if (n->session && strcmp(passes, n->passes) == 0) return true;
    if (n->session) session_close(n->session);
    n->passes = passes;
    source.open = open_gradients;
    source.open_user = n;
    n->session = session_new(n->arena, &n->how);
    return session_open(n->session, n->arena, &source, err);
}

/* The i-th of those that are asked for. */
static size_t set_number(const Sensitivity *asked, size_t i) {
    return i * asked->trials->count / asked->sets;
}

static bool run_set(Noising *n, size_t i, Err *err) {
    const Sensitivity *asked = n->asked;
    const size_t number = set_number(asked, i);
    const TrialSet *set = &asked->trials->sets[number];
    Arena *within = arena_child(n->arena);
    n->state = number << 32;
    const bool ok =
        progress_tell(&asked->trials->progress, "measuring gradients", i, asked->sets, err) &&
        trials_bind(asked->trials, number, err) && open_session(n, set, err) &&
        give_inputs(n, set, err) && run_directions(n, set, within, err);
    for (uint32_t g = 0; ok && g < asked->model->groups.count; g++) add_group(n, g, false);
    for (size_t p = 0; p < n->parts.count; p++)
        if (!n->parts.items[p].weights) n->parts.items[p].squares = NULL;
    if (ok) trials_end_set(asked->trials, number);
    arena_free(within);
    return ok;
}

static bool find_signals(Noising *n, Err *err) {
    const Sensitivity *asked = n->asked;
    const size_t count = asked->trials->reference->output_count;
    ValueSums *sums = ARENA_ARRAY(n->arena, ValueSums, count + 1);
    for (size_t i = 0; i < asked->sets; i++) {
        const size_t number = set_number(asked, i);
        const TrialSet *set = &asked->trials->sets[number];
        if (!trials_bind(asked->trials, number, err)) return false;
        for (size_t k = 0; k < count; k++)
            value_sums_add(&sums[k], &set->outputs[k], &set->outputs[k]);
        trials_end_set(asked->trials, number);
    }
    for (size_t k = 0; k < count; k++) n->signals[k] = sums[k].signal;
    return true;
}

bool gradient_noise_find(const Sensitivity *asked, double *noise, size_t *runs, Arena *arena,
                         Err *err) {
    Arena *within = arena_child(arena);
    const size_t outputs = asked->trials->reference->output_count;
    Noising n = {.asked = asked,
                 .arena = within,
                 .how = asked->trials->how,
                 .seeds = ARENA_ARRAY(within, const char *, outputs + 1),
                 .signals = ARENA_ARRAY(within, double, outputs + 1),
                 .noise = noise};
    n.how.compile.keep_values = false; /* nobody watches */
    n.how.compile.numerics = DEMI_NUMERICS_FAST;
    list_parts(&n);
    bool ok = find_signals(&n, err);
    for (size_t i = 0; ok && i < asked->sets; i++) ok = run_set(&n, i, err);
    for (uint32_t g = 0; ok && g < asked->model->groups.count; g++) add_group(&n, g, true);
    *runs = DIRECTIONS * asked->sets;
    arena_free(within);
    return ok;
}
