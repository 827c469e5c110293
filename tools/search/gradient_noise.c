// SPDX-License-Identifier: Apache-2.0
/* See gradient_noise.h. The measured model gets an input of signs for each output, and, where the gradient
 * of a group's value or weight was computed, a mark: a step that reads both and gives nothing of them, so
 * that who watches it sees them and they are let go behind it. */
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
#include "trial_memory.h"
#include "value_io.h"
#include "value_names.h"

enum { DIRECTIONS = 4, GRADIENT_OPSET = 17 };
#define UPGRADE "upgrade-opset{to=17}"

/* A group has a candidate. */
typedef struct Change {
    size_t at; /* in the table of noise */
    Rounding rounding;
} Change;

/* A value or weight of a group. */
typedef struct Part {
    const Value *value; /* of the asked model */
    VEC(Change) changes;
} Part;

typedef struct Noising {
    const Sensitivity *asked;
    Arena *arena;
    VEC(Part) parts;
    SymTable names;      /* of marks */
    VEC(uint32_t) marks; /* by their names' numbers: whose it is */
    bool lost;           /* no memory was left while it was watched */
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

/* Behind what makes the gradient; elements are there before all gradients. */
static void mark(Noising *n, const TrainingNodes *nodes, uint32_t part, Value *elements,
                 Value *gradient) {
    Model *model = nodes->ctx->model;
    Node *behind = gradient->producer ? node_after(gradient->producer) : NULL;
    const Type *length = type_new_shaped(&model->arena, DTYPE_INT64, NULL, 0);
    Value *both = training_op(nodes, "SequenceConstruct", (Value *[]){elements, gradient}, 2, NULL);
    Value *count = training_op(nodes, "SequenceLength", &both, 1, length);
    ValueDecl *decl = ARENA_NEW(&model->arena, ValueDecl);
    decl->type = length;
    graph_add_output(nodes->graph, count, decl);
    if (behind) {
        node_move_before(both->producer, behind);
        node_move_before(count->producer, behind);
    }
    sym_intern(&n->names, both->name->text, both->name->length);
    VEC_PUSH(n->arena, &n->marks, part);
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
    ask.at = node_new(graph, NULL, sym_intern_cstr(&ctx->model->syms, "Identity"), NULL);
    if (!gradient_expand(ctx, &ask, gradients, err)) {
        err_hint(err, "use --sensitivity measured, which needs no gradients");
        return false;
    }
    node_remove(ask.at);
    for (uint32_t i = 0; i < ask.x_count; i++) {
        if (!gradients[i]) continue;
        if (!gradients[i]->type) value_set_type(gradients[i], xs[i]->type);
        mark(n, &nodes, i, xs[i], gradients[i]);
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
                       .statistics = statistics_memo_new(&scratch)};
        add_gradients(n, &ctx, &err);
    }
    n->arena->trap = outer;
    arena_free(&scratch);
    if (err.code != ERR_NONE) error_fill(error, (DemiStatus)err.code, &err);
    return (DemiStatus)err.code;
}

/* What wanted candidates of groups change. */
static void list_parts(Noising *n) {
    const Sensitivity *asked = n->asked;
    const size_t groups = asked->model->groups.count, all = groups * asked->candidate_count;
    uint32_t *numbers = ARENA_ARRAY(n->arena, uint32_t, asked->model->value_count + 1);
    for (size_t at = 0; at < all; at++) {
        if (!asked->wanted[at]) continue;
        const GroupRoundings roundings = group_roundings(
            asked->model, &asked->model->groups.items[at / asked->candidate_count],
            asked->candidates[at % asked->candidate_count], asked->ranges, n->arena);
        for (size_t i = 0; i < roundings.count; i++) {
            const GroupRounding *of = &roundings.items[i];
            uint32_t *number = &numbers[of->value->id]; /* its part's and 1 */
            if (!*number) {
                VEC_PUSH(n->arena, &n->parts, ((Part){.value = of->value}));
                *number = (uint32_t)n->parts.count;
            }
            VEC_PUSH(n->arena, &n->parts.items[*number - 1].changes, ((Change){at, of->rounding}));
        }
    }
}

/* ---- what is rounded ------------------------------------------------------------------------- */

/* sum of e^2 g^2. */
static double noise_of(const DemiData *elements, const DemiData *gradients, Rounding *rounding,
                       Arena *within) {
    const float *from = elements->data, *gradient = gradients->data;
    const uint64_t count = value_count(elements);
    float *to = arena_alloc_raw(within, count * sizeof *to + 1);
    double sum = 0;
    if (value_count(gradients) != count) return INFINITY; /* nothing is known of it */
    rounding_apply(rounding, to, from, count);
    for (uint64_t i = 0; i < count; i++) {
        const double off = ((double)to[i] - (double)from[i]) * (double)gradient[i];
        if (!isfinite(from[i])) continue;
        if (!isfinite(to[i])) return INFINITY;
        sum += off * off;
    }
    return sum;
}

/* Of a run. */
static void add_part(Noising *n, Part *part, const DemiStep *step) {
    for (size_t i = 0; i < part->changes.count; i++) {
        Change *change = &part->changes.items[i];
        Arena *within = arena_child(n->arena);
        n->noise[change->at] +=
            noise_of(&step->inputs[0], &step->inputs[1], &change->rounding, within) / DIRECTIONS;
        arena_free(within);
    }
}

/* A DemiStepFn. The library's run must not be left by a jump. */
static void watch_step(void *user, const DemiStep *step) {
    Noising *n = user;
    MemTrap trap, *const outer = n->arena->trap;
    const char *name = step->output_count ? step->output_names[0] : "";
    const Sym sym = sym_find(&n->names, name, strlen(name));
    if (!sym || n->lost) return;
    n->arena->trap = &trap;
    if (setjmp(trap.env))
        n->lost = true;
    else
        add_part(n, &n->parts.items[n->marks.items[sym->number]], step);
    n->arena->trap = outer;
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

static bool run_directions(Noising *n, const TrialSet *set, Arena *within, Err *err) {
    const Session *reference = n->asked->trials->reference;
    for (unsigned direction = 0; direction < DIRECTIONS; direction++) {
        for (size_t i = 0; i < reference->output_count; i++)
            if (n->seeds[i] && !give_signs(n, i, &set->outputs[i], direction, within, err))
                return false;
        if (!session_run(n->session, err)) return false;
        if (n->lost) return err_out_of_memory(err);
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
    sym_table_init(&n->names, n->arena);
    n->marks.count = 0;
    DemiError error = DEMI_ERROR_INIT;
    return session_open(n->session, n->arena, &source, err) &&
           error_take(err, demi_context_watch(n->session->context, watch_step, n, &error), &error);
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
    asked->trials->others = (SessionList){&n->session, n->session != NULL};
    bool ok = progress_tell(&asked->trials->progress, "measuring gradients", i, asked->sets, err) &&
              trials_bind(asked->trials, number, err) && open_session(n, set, err);
    if (ok) {
        asked->trials->others.count = 1;
        trials_turn_others(asked->trials);
        ok = give_inputs(n, set, err) && run_directions(n, set, within, err);
    }
    asked->trials->others.count = 0;
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
    *runs = DIRECTIONS * asked->sets;
    arena_free(within);
    return ok;
}
