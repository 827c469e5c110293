// SPDX-License-Identifier: Apache-2.0
/* Properties of the greedy placement on thousands of random small graphs with shared values,
 * constants, sequences, branches, loops and function calls:
 *   - what is pinned is fp32, what wants low and is not pinned is low;
 *   - what is low is reached from what wants low, and meets its rule: FOLLOW has a low source,
 * WIDEST only low ones; found here by plain iteration;
 *   - it does not depend on the order of the nodes;
 *   - insert-casts makes one cast for each precision that a value is needed in beside its own, and
 *     what comes out is valid. */
#include "test_model.h"

#include <stdio.h>

#include "op_types.h"
#include "passes.h"
#include "placement.h"

enum { NODES = 14, LINE = 400, GRAPHS = 2500 };

/* ---- random graphs --------------------------------------------------------------------------- */

/* One node, or a few that stay together: text, and which earlier ones it reads. */
typedef struct Piece {
    char text[LINE];
    bool reads[NODES];
    bool sequence; /* it gives a sequence */
    bool kept;
} Piece;

typedef struct Maker {
    uint64_t random;
    size_t count;
    Piece pieces[NODES];
    bool is_read[NODES];
} Maker;

/* A float tensor: an earlier node's, an input, or an initializer (c3 is too large for float16). */
static const char *tensor(Maker *m, Piece *piece) {
    static char names[8][32];
    static unsigned turn;
    char *name = names[turn++ % 8];
    for (int tries = 0; tries < 6 && m->count && test_random(&m->random, 4); tries++) {
        size_t i = test_random(&m->random, (uint32_t)m->count);
        if (m->pieces[i].sequence) continue;
        piece->reads[i] = m->is_read[i] = true;
        snprintf(name, 32, "v%zu", i);
        return name;
    }
    uint32_t which = test_random(&m->random, 10);
    if (which < 6)
        snprintf(name, 32, "x%u", (unsigned)which % 2);
    else
        snprintf(name, 32, "c%u", (unsigned)(which - 6));
    return name;
}

/* An earlier sequence, or NULL. */
static const char *sequence(Maker *m, Piece *piece) {
    static char name[32];
    for (size_t i = m->count; i-- > 0;)
        if (m->pieces[i].sequence && (i == 0 || test_random(&m->random, 3))) {
            piece->reads[i] = m->is_read[i] = true;
            snprintf(name, sizeof name, "v%zu", i);
            return name;
        }
    return NULL;
}

#define PUT(...) snprintf(piece->text, LINE, __VA_ARGS__)

static void make_sequence_node(Maker *m, Piece *piece, int i) {
    const char *from = sequence(m, piece);
    if (!from || test_random(&m->random, 4) == 0) {
        piece->sequence = true;
        PUT("[n%d] v%d = SequenceConstruct (%s, %s)", i, i, tensor(m, piece), tensor(m, piece));
    } else if (test_random(&m->random, 2)) {
        piece->sequence = true;
        PUT("[n%d] v%d = SequenceInsert (%s, %s)", i, i, from, tensor(m, piece));
    } else {
        PUT("[n%d] v%d = SequenceAt (%s, zero)", i, i, from);
    }
}

static void make_body_node(Maker *m, Piece *piece, int i) {
    static const char *const inner[] = {"Relu", "Exp", "Tanh"};
    const char *op = inner[test_random(&m->random, 3)];
    switch (test_random(&m->random, 3)) {
    case 0:
        PUT("[n%d] v%d = If (cond) <then_branch = t%d () => (float[4,4] t%da) { t%da = MatMul (%s, "
            "%s)"
            " }, else_branch = e%d () => (float[4,4] e%da) { e%db = %s (%s) e%da = Add (e%db, %s) "
            "}>",
            i, i, i, i, i, tensor(m, piece), tensor(m, piece), i, i, i, op, tensor(m, piece), i, i,
            tensor(m, piece));
        return;
    case 1:
        if (test_random(&m->random, 2)) { /* two float operands: low through either */
            PUT("[n%d] v%d = Loop (zero, cond, %s) <body = b%d (int64 b%di, bool b%dc, float[4,4] "
                "b%ds)"
                " => (bool b%dd, float[4,4] b%dt) { b%dd = Identity (b%dc) b%dt = Clip (b%ds, %s) "
                "}>",
                i, i, tensor(m, piece), i, i, i, i, i, i, i, i, i, i, tensor(m, piece));
            return;
        }
        PUT("[n%d] v%d, s%d = Loop (zero, cond, %s) <body = b%d (int64 b%di, bool b%dc, float[4,4] "
            "b%ds)"
            " => (bool b%dd, float[4,4] b%dt, float[4,4] b%du) { b%dd = Identity (b%dc) b%dt = %s "
            "(b%ds) b%du = MatMul (b%dt, %s) }>",
            i, i, i, tensor(m, piece), i, i, i, i, i, i, i, i, i, i, op, i, i, i, tensor(m, piece));
        return;
    default: PUT("[n%d] v%d = com.x.F (%s, %s)", i, i, tensor(m, piece), tensor(m, piece));
    }
}

static void make_piece(Maker *m) {
    static const char *const one[] = {"Relu", "Exp", "Transpose", "Softmax", "Identity", "Sigmoid"};
    static const char *const two[] = {"Add", "MatMul", "Mul", "MatMul", "Div", "Max"};
    int i = (int)m->count;
    Piece *piece = &m->pieces[i];
    memset(piece, 0, sizeof *piece);
    piece->kept = test_random(&m->random, 8) == 0;
    uint32_t kind = test_random(&m->random, 18);
    if (kind < 4)
        PUT("[n%d] v%d = %s (%s)", i, i, one[test_random(&m->random, 6)], tensor(m, piece));
    else if (kind < 9)
        PUT("[n%d] v%d = %s (%s, %s)", i, i, two[test_random(&m->random, 6)], tensor(m, piece),
            tensor(m, piece));
    else if (kind == 9)
        PUT("[n%d] v%d = Sum (%s, %s, %s)", i, i, tensor(m, piece), tensor(m, piece),
            tensor(m, piece));
    else if (kind == 10)
        PUT("[n%d] v%d = Constant <value = float[4,4] {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2,"
            " 3, 4, 5, 6, 7}> ()",
            i, i);
    else if (kind == 11)
        PUT("[n%d] v%d = BatchNormalization (%s, c4, c4, c4, c4)", i, i, tensor(m, piece));
    else if (kind == 12) /* Shape reads its operand in any precision */
        PUT("h%d = Shape (%s) [n%d] v%d = Reshape (%s, h%d)", i, tensor(m, piece), i, i,
            tensor(m, piece), i);
    else if (kind < 15)
        make_sequence_node(m, piece, i);
    else
        make_body_node(m, piece, i);
    m->count++;
}

/* The model, nodes in a random order that respects what they read. */
static Model *make_model(Maker *m) {
    static char text[8000];
    char outputs[200] = "";
    for (size_t i = 0; i < m->count; i++)
        if (!m->pieces[i].sequence && (!m->is_read[i] || i % 4 == 0))
            sprintf(outputs + strlen(outputs), ", float[4,4] v%zu", i);
    size_t length = (size_t)snprintf(
        text, sizeof text,
        "g (bool cond, float[4,4] x0, float[4,4] x1) => (float[4,4] x0o%s)\n"
        "<int64 zero = {0}, float[4,4] c0 = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7},\n"
        " float c1 = {0.5}, float[4] c2 = {1, 2, 3, 4}, float c3 = {1e9}, float[4] c4 = {1, 1, 1, "
        "1}>\n"
        "{ x0o = Neg (x0)\n",
        outputs);
    bool done[NODES] = {false};
    for (size_t left = m->count; left > 0; left--) {
        size_t i;
        bool ready;
        do {
            i = test_random(&m->random, (uint32_t)m->count);
            ready = !done[i];
            for (size_t k = 0; ready && k < m->count; k++)
                ready = !m->pieces[i].reads[k] || done[k];
        } while (!ready);
        done[i] = true;
        length += (size_t)snprintf(text + length, sizeof text - length, "%s\n", m->pieces[i].text);
    }
    snprintf(text + length, sizeof text - length,
             "}\n<domain: \"com.x\", opset_import: [\"\" : 21]> F (a, b) => (z) "
             "{ fm = MatMul (a, b) z = Relu (fm) }\n");
    return test_model(text);
}

/* ---- solving --------------------------------------------------------------------------------- */

static void run_pipeline(Model *model, const char *text, PassCounts *counts) {
    Err err = {0};
    char line[1024];
    Arena arena, scratch;
    Pipeline pipeline;
    PipelineOptions options = {.verify_each = true};
    arena_init(&arena, &test_trap);
    arena_init(&scratch, &test_trap);
    PassCtx ctx = {.model = model,
                   .scratch = &scratch,
                   .counts = counts,
                   .statistics = statistics_memo_new(&arena)};
    bool ok = pipeline_parse(&demi_passes, &arena, text, &pipeline, &err);
    /* Steps before are checked as part of a whole: dtypes are given anew where they are needed. */
    ok = ok && pipeline_run(&pipeline, &ctx, &options, &err);
    err_format(&err, line, sizeof line);
    if (!ok) fail_msg("%s: %s", text, line);
    arena_free(&scratch);
    arena_free(&arena);
}

static void solve(Placement *p, const Maker *m, Model *model, Arena *arena, bool low_io) {
    Err err = {0};
    const char **excluded = ARENA_ARRAY(arena, const char *, model->node_count);
    for (const Node *node = model->graph->first; node; node = node_after(node)) {
        unsigned i;
        if (sscanf(node_label(node), "n%u", &i) == 1 && m->pieces[i].kept)
            excluded[node->id] = "kept";
    }
    *p = (Placement){.model = model, .scratch = arena, .statistics = statistics_memo_new(arena)};
    const OpClassLists none = {0};
    p->request = (PlacementRequest){.target = DTYPE_FLOAT16,
                                    .policy = POLICY_FLOAT16,
                                    .classes = op_classes_new(POLICY_FLOAT16, &none, arena, &err),
                                    .io_low = low_io,
                                    .excluded = excluded,
                                    .guard = GUARD_PIN};
    p->counts = ARENA_NEW(arena, PassCounts);
    assert_true(placement_build(p, &err));
    placement_solve_greedy(p);
}

/* ---- properties ------------------------------------------------------------------------------ */

static VarId root_at(Placement *p, VarId var) {
    return var == VAR_NONE ? VAR_NONE : placement_root(p, var);
}

typedef struct Plain {
    Placement *p;
    bool *low, *refused; /* by root */
    unsigned *sources, *lows;
} Plain;

static void count_sources(Plain *s) {
    Placement *p = s->p;
    memset(s->sources, 0, p->vars.count * sizeof *s->sources);
    memset(s->lows, 0, p->vars.count * sizeof *s->lows);
    for (uint32_t id = 0; id < p->value_count; id++) {
        VarId from = root_at(p, p->value_vars[id]);
        if (!p->values[id] || from == VAR_NONE || p->flexible[id]) continue;
        for (const Use *use = p->values[id]->uses; use; use = use->next) {
            VarId to = root_at(p, placement_use_var(p, use));
            if (to == VAR_NONE || to == from) continue;
            s->sources[to]++;
            s->lows[to] += s->low[from];
        }
    }
}

/* One sweep over all variables: forward, low reaches whoever has a low source; backward, who does
 * not meet its rule is refused. True where something changed. */
static bool sweep(Plain *s, bool forward) {
    bool changed = false;
    count_sources(s);
    for (VarId v = 1; v < s->p->vars.count; v++) {
        const PlaceVar *var = &s->p->vars.items[v];
        if (placement_root(s->p, v) != v || var->pinned || s->refused[v]) continue;
        bool kept = var->wants_low || (var->all ? s->lows[v] == s->sources[v] : s->lows[v] > 0);
        if (forward && !s->low[v] && (var->wants_low || s->lows[v])) s->low[v] = changed = true;
        if (!forward && s->low[v] && !kept) {
            s->low[v] = false;
            s->refused[v] = changed = true;
        }
    }
    return changed;
}

/* What is reached from LOW operators, less what breaks its rule; again without that, until nothing
 * breaks one. */
static Plain plain_solution(Placement *p) {
    size_t count = p->vars.count;
    bool *low = ARENA_ARRAY(p->scratch, bool, count);
    Plain s = {.p = p,
               .low = low,
               .refused = ARENA_ARRAY(p->scratch, bool, count),
               .sources = ARENA_ARRAY(p->scratch, unsigned, count),
               .lows = ARENA_ARRAY(p->scratch, unsigned, count)};
    bool refused;
    do {
        memset(low, 0, count * sizeof *low);
        while (sweep(&s, true)) continue;
        refused = false;
        while (sweep(&s, false)) refused = true;
    } while (refused);
    return s;
}

static void check_fixed_point(Placement *p) {
    const Plain s = plain_solution(p);
    assert_false(placement_is_low(p, VAR_FP32));
    for (VarId v = 1; v < p->vars.count; v++) {
        const PlaceVar *var = &p->vars.items[v];
        if (placement_root(p, v) != v) continue;
        if (var->pinned) assert_false(var->low);
        if (var->wants_low && !var->pinned) assert_true(var->low);
        /* Shape, what reads constants only, and a slot that only constants reach follow their
         * readers. */
        bool follows = var->flexible || (var->node && sym_equals(var->node->op_type, "Shape")) ||
                       (var->slot && s.sources[v] == 0);
        if (!follows || s.low[v]) assert_int_equal(var->low, s.low[v]);
    }
}

/* What depends on constants alone. */
static bool is_made_of_constants(const Placement *p, const Value *value) {
    if (p->constant[value->id]) return true;
    if (!value->producer || value->producer->input_count == 0) return false;
    for (uint32_t i = 0; i < value->producer->input_count; i++) {
        const Value *input = value->producer->inputs[i].value;
        if (input && value_holds_float(input) && !is_made_of_constants(p, input)) return false;
    }
    return true;
}

/* A flexible value is made of constants, and low exactly where all who read it are. */
static void check_flexible(Placement *p) {
    for (uint32_t id = 0; id < p->value_count; id++) {
        const Value *value = p->values[id];
        if (!value || !p->flexible[id] || p->constant[id]) continue;
        assert_true(is_made_of_constants(p, value));
        bool all = true, any = false;
        for (const Use *use = value->uses; use; use = use->next) {
            VarId var = placement_use_var(p, use);
            if (var == VAR_NONE) continue;
            if (use->node && sym_equals(use->node->op_type, "Shape")) {
                bool kept = p->vars.items[placement_root(p, var)].pinned; /* else as it is given */
                if (!kept)
                    assert_int_equal(placement_is_low(p, var),
                                     placement_is_low(p, p->value_vars[id]));
                continue;
            }
            any = true;
            all = all && placement_is_low(p, var);
        }
        if (value->producer->output_count == 1)
            assert_int_equal(placement_is_low(p, p->value_vars[id]), all && any);
    }
}

static void same_dtype(const Value *a, const Value *b) {
    if (a && b) assert_int_equal(type_dtype(a->type), type_dtype(b->type));
}

/* Operands and formals of bodies have one type, which no schema says. */
static void check_bodies(Model *model, Arena *scratch) {
    GraphList graphs = model_graphs(model, scratch);
    for (size_t g = 0; g < graphs.count; g++) {
        const Graph *graph = graphs.items[g];
        const Node *owner = graph->owner;
        bool loop = owner && sym_equals(owner->op_type, "Loop");
        for (size_t i = 0; owner && i < owner->output_count; i++)
            same_dtype(owner->outputs[i], graph->outputs.items[i + loop]->use.value);
        if (!loop) continue;
        same_dtype(owner->inputs[2].value, graph->inputs.items[2]);
        same_dtype(owner->inputs[2].value, graph->outputs.items[1]->use.value);
    }
    const Graph *body = model->functions.items[0]->body;
    for (const Node *node = model->graph->first; node; node = node_after(node)) {
        if (!model_find_function(model, node)) continue;
        for (size_t i = 0; i < 2; i++) same_dtype(node->inputs[i].value, body->inputs.items[i]);
        same_dtype(node->outputs[0], body->outputs.items[0]->use.value);
    }
}

/* By the classes of the operators, whatever the variables say. */
static void check_classes(Placement *p) {
    for (size_t g = 0; g < p->graphs.count; g++)
        for (const Node *node = p->graphs.items[g]->first; node; node = node_after(node)) {
            const Value *out = node->output_count ? node->outputs[0] : NULL;
            if (!out || p->value_vars[out->id] == VAR_NONE || p->constant[out->id]) continue;
            OpClass op_class =
                op_class_lookup(sym_text(node->domain), sym_text(node->op_type), POLICY_FLOAT16);
            bool low = placement_is_low(p, p->value_vars[out->id]);
            bool kept = p->request.excluded[node->id] != NULL;
            if (op_class == CLASS_FP32 || kept) assert_false(low);
            if (op_class != CLASS_WIDEST || !low || p->flexible[out->id]) continue;
            for (uint32_t i = 0; i < node->input_count; i++) {
                const Value *input = node->inputs[i].value;
                if (!p->flexible[input->id])
                    assert_true(placement_is_low(p, p->value_vars[input->id]));
            }
        }
}

static void check_order(Placement *a, Placement *b) {
    for (uint32_t i = 0; i < a->value_count; i++)
        for (uint32_t k = 0; a->values[i] && k < b->value_count; k++) {
            if (!b->values[k] || strcmp(sym_text(a->values[i]->name), sym_text(b->values[k]->name)))
                continue;
            if (placement_is_low(a, a->value_vars[i]) != placement_is_low(b, b->value_vars[k]))
                fail_msg("'%s' depends on the order", sym_text(a->values[i]->name));
        }
}

/* Casts that the decision calls for: one a value that somebody reads in the other precision. */
static unsigned expected_casts(Placement *p) {
    unsigned count = 0;
    for (uint32_t id = 0; id < p->value_count; id++) {
        if (!p->values[id] || p->value_vars[id] == VAR_NONE) continue;
        bool low = placement_is_low(p, p->value_vars[id]), differs = false;
        for (const Use *use = p->values[id]->uses; use; use = use->next) {
            VarId var = placement_use_var(p, use);
            differs |= var != VAR_NONE && placement_is_low(p, var) != low;
        }
        count += differs;
    }
    return count;
}

/* Casts that are there; no two make the same of the same value, and none makes what it reads. */
static unsigned real_casts(Model *model, Arena *scratch) {
    unsigned count = 0;
    GraphList graphs = model_graphs(model, scratch);
    for (size_t g = 0; g < graphs.count; g++)
        for (const Node *node = graphs.items[g]->first; node; node = node_after(node)) {
            if (!node_is_own_cast(node)) continue;
            const Value *from = node->inputs[0].value;
            count++;
            assert_true(type_dtype(from->type) != type_dtype(node->outputs[0]->type));
            assert_true(node->outputs[0]->use_count > 0);
            assert_false(from->producer && node_is_own_cast(from->producer));
            for (const Use *use = from->uses; use; use = use->next)
                assert_true(!use->node || use->node == node || !node_is_own_cast(use->node));
        }
    return count;
}

static void check_realized(const Maker *m, Model *model, unsigned casts, bool low_io) {
    char text[300];
    PassCounts counts = {0};
    Err err = {0};
    Arena scratch;
    arena_init(&scratch, &test_trap);
    int length = snprintf(text, sizeof text,
                          "infer-dtypes,insert-casts{to=float16,placement=greedy,"
                          "allow-unmatched=true,io=%s,keep=[",
                          low_io ? "low" : "keep");
    bool first = true;
    for (size_t i = 0; i < m->count; i++) {
        if (!m->pieces[i].kept) continue;
        length +=
            snprintf(text + length, sizeof text - (size_t)length, "%sn%zu", first ? "" : ",", i);
        first = false;
    }
    snprintf(text + length, sizeof text - (size_t)length, "]}");
    run_pipeline(model, text, &counts);
    assert_int_equal(real_casts(model, &scratch), casts);
    assert_int_equal(counts.casts_added, casts);
    check_bodies(model, &scratch);
    char line[1024];
    bool ok = model_check(model, &scratch, &err);
    err_format(&err, line, sizeof line);
    if (!ok) fail_msg("%s", line);
    arena_free(&scratch);
}

/* ---- tests ----------------------------------------------------------------------------------- */

TEST(test_random_graphs) {
    static Maker m;
    static unsigned casts, lows;
    for (uint64_t seed = 1; seed <= GRAPHS; seed++) {
        Placement first, second;
        PassCounts counts = {0};
        m = (Maker){.random = seed * UINT64_C(0x9e3779b97f4a7c15)};
        size_t wanted = 1 + test_random(&m.random, NODES);
        bool low_io = test_random(&m.random, 3) == 0;
        while (m.count < wanted) make_piece(&m);
        Model *a = make_model(&m), *b = make_model(&m);
        run_pipeline(a, "infer-dtypes", &counts);
        run_pipeline(b, "infer-dtypes", &counts);
        solve(&first, &m, a, &test_arena, low_io);
        solve(&second, &m, b, &test_arena, low_io);
        check_fixed_point(&first);
        check_flexible(&first);
        check_classes(&first);
        check_order(&first, &second);
        unsigned expected = expected_casts(&first);
        casts += expected;
        for (VarId v = 0; v < first.vars.count; v++) lows += placement_is_low(&first, v);
        check_realized(&m, a, expected, low_io);
        arena_free(&test_arena);
        model_free(a);
        model_free(b);
    }
    assert_true(casts > GRAPHS && lows > GRAPHS); /* there was something to decide */
}
