// SPDX-License-Identifier: Apache-2.0
/* The exact solver against all 2^n decisions on small random graphs with shared values, constants,
 * If branches and sequences; and the max-flow code against all cuts of random networks. */
#include <stdio.h>
#include <string.h>

#include "infer_dtypes.h"
#include "max_flow.h"
#include "placement.h"
#include "text.h"
#include "unit_test.h"

enum { TRIALS = 4000, MOST_FREE = 14, MOST_VARS = 64 };

static uint32_t random_next(uint64_t *state) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33);
}

static uint32_t random_below(uint64_t *state, uint32_t limit) {
    return random_next(state) % limit;
}

typedef struct Text {
    char bytes[1 << 14];
    size_t length;
} Text;

static void say(Text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(Text *text, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int written =
        vsnprintf(text->bytes + text->length, sizeof text->bytes - text->length, format, args);
    va_end(args);
    text->length += (size_t)written;
    assert_true(text->length < sizeof text->bytes);
}

/* One random node that reads values v0 .. v(count - 1) and makes v(count). */
static void say_node(Text *text, uint64_t *state, uint32_t count) {
    uint32_t a = random_below(state, count), b = random_below(state, count);
    uint32_t kind = random_below(state, 13);
    if (kind < 2)
        say(text, "  v%u = MatMul (v%u, v%u)\n", count, a, b);
    else if (kind < 4)
        say(text, "  v%u = Exp (v%u)\n", count, a);
    else if (kind < 6)
        say(text, "  v%u = Relu (v%u)\n", count, a);
    else if (kind < 7)
        say(text, "  v%u = Transpose (v%u)\n", count, a);
    else if (kind < 9)
        say(text, "  v%u = Add (v%u, v%u)\n", count, a, b);
    else if (kind < 10)
        say(text, "  v%u = Max (v%u, v%u, v%u)\n", count, a, b, a);
    else if (kind < 11)
        say(text, "  v%u = Gather (v2, k)\n", count);
    else if (kind < 12)
        say(text,
            "  v%u = If <then_branch = t%u () => (float t%ua) { t%ua = Relu (v%u) }, "
            "else_branch = e%u () => (float e%ua) { e%ua = Neg (v%u) }> (c)\n",
            count, count, count, count, a, count, count, count, b);
    else
        say(text, "  s%u = SequenceConstruct (v%u, v%u)\n  v%u = SequenceAt (s%u, i)\n", count, a,
            b, count, count);
}

static void say_model(Text *text, uint64_t *state) {
    text->length = 0;
    uint32_t nodes = 2 + random_below(state, 9), count = 3;
    say(text,
        "<ir_version: 8, opset_import: [\"\" : 17]>\n"
        "g (float v0, float v1, bool c, int64[n] k) => (float v%u) "
        "<float[2] v2 = {1, 2}, int64 i = {0}> {\n",
        count + nodes - 1);
    for (uint32_t n = 0; n < nodes; n++, count++) say_node(text, state, count);
    say(text, "}\n");
}

typedef struct Trial {
    Placement p;
    VarId free_vars[MOST_VARS];
    size_t free_count;
    bool *produces, *allowed;
} Trial;

static void list_free(Trial *t) {
    t->free_count = 0;
    for (VarId v = 1; v < t->p.vars.count; v++) {
        const PlaceVar *var = &t->p.vars.items[v];
        if (placement_root(&t->p, v) != v || var->pinned || var->wants_low) continue;
        assert_true(t->free_count < MOST_VARS);
        t->free_vars[t->free_count++] = v;
    }
}

/* True where this use asks of its reader that what it reads be low. */
static bool asks_low(Trial *t, const Use *use) {
    VarId var = placement_use_var(&t->p, use);
    bool flexible = t->p.flexible[use->value->id];
    return var != VAR_NONE && !flexible && placement_use_needs_low(&t->p, use, t->produces);
}

/* One step of the rules that decide who may be low, by all values; true where something changed. */
static bool drop_barred(Trial *t, bool *may) {
    Placement *p = &t->p;
    bool changed = false;
    for (uint32_t id = 0; id < p->value_count; id++) {
        if (!p->values[id] || p->value_vars[id] == VAR_NONE) continue;
        bool source = may[placement_root(p, p->value_vars[id])];
        for (const Use *use = p->values[id]->uses; use; use = use->next) {
            if (source || !asks_low(t, use)) continue;
            VarId reader = placement_root(p, placement_use_var(p, use));
            changed |= may[reader];
            may[reader] = false;
        }
    }
    return changed;
}

static bool spread_reach(Trial *t, const bool *may, bool *reached) {
    Placement *p = &t->p;
    bool changed = false;
    for (uint32_t id = 0; id < p->value_count; id++) {
        if (!p->values[id] || p->value_vars[id] == VAR_NONE || p->constant[id]) continue;
        VarId source = placement_root(p, p->value_vars[id]);
        for (const Use *use = p->values[id]->uses; use; use = use->next) {
            VarId var = placement_use_var(p, use);
            VarId reader = var == VAR_NONE ? VAR_FP32 : placement_root(p, var);
            if (!may[source] || !may[reader] || reached[source] == reached[reader]) continue;
            reached[source] = reached[reader] = changed = true;
        }
    }
    return changed;
}

/* By root, in the plainest way: what may be low at all. */
static bool *allowed(Trial *t) {
    Placement *p = &t->p;
    bool *may = ARENA_ARRAY(p->scratch, bool, p->vars.count);
    bool *reached = ARENA_ARRAY(p->scratch, bool, p->vars.count);
    for (VarId v = 0; v < p->vars.count; v++) may[v] = !p->vars.items[v].pinned;
    while (drop_barred(t, may)) continue;
    for (VarId v = 0; v < p->vars.count; v++) reached[v] = may[v] && p->vars.items[v].wants_low;
    for (const Node *node = p->model->graph->first; node; node = node->next)
        if (sym_equals(node->op_type, "Gather")) {
            VarId root = placement_root(p, placement_use_var(p, &node->inputs[0]));
            reached[root] = may[root];
        }
    while (spread_reach(t, may, reached)) continue;
    return reached;
}

static bool is_feasible(Trial *t) {
    Placement *p = &t->p;
    for (size_t i = 0; i < t->free_count; i++)
        if (p->vars.items[t->free_vars[i]].low && !t->allowed[t->free_vars[i]]) return false;
    for (uint32_t id = 0; id < p->value_count; id++) {
        if (!p->values[id] || p->value_vars[id] == VAR_NONE) continue;
        bool low = placement_is_low(p, p->value_vars[id]);
        for (const Use *use = p->values[id]->uses; use; use = use->next)
            if (asks_low(t, use) && placement_is_low(p, placement_use_var(p, use)) && !low)
                return false;
    }
    return true;
}

/* Twice the cost, so that nothing is rounded. */
static uint64_t exact_cost(Trial *t) {
    PlacementCost cost = placement_cost(&t->p);
    assert_int_equal(placement_cost_sum(cost), cost.bytes_converted + 4096 * cost.casts +
                                                   cost.bytes_stored +
                                                   (cost.bytes_fp32 - cost.bytes_stored) / 8);
    return 2 * cost.bytes_converted + 8192 * cost.casts + 2 * cost.bytes_stored +
           (cost.bytes_fp32 - cost.bytes_stored) / 4;
}

static uint64_t brute_force(Trial *t) {
    uint64_t best = UINT64_MAX;
    for (uint32_t mask = 0; mask < 1u << t->free_count; mask++) {
        for (size_t i = 0; i < t->free_count; i++)
            t->p.vars.items[t->free_vars[i]].low = mask >> i & 1;
        if (!is_feasible(t)) continue;
        uint64_t cost = exact_cost(t);
        if (cost < best) best = cost;
    }
    return best;
}

/* True where a value that the group makes or reads has something low at its other end. */
static bool touches_low(Placement *p, VarId root) {
    for (uint32_t id = 0; id < p->value_count; id++) {
        if (!p->values[id] || p->value_vars[id] == VAR_NONE) continue;
        bool touched = placement_root(p, p->value_vars[id]) == root;
        bool low = placement_is_low(p, p->value_vars[id]);
        for (const Use *use = p->values[id]->uses; use; use = use->next) {
            VarId var = placement_use_var(p, use);
            if (var == VAR_NONE) continue;
            touched |= placement_root(p, var) == root;
            low |= placement_is_low(p, var);
        }
        if (touched && low) return true;
    }
    return false;
}

/* "Cheaper in fp32" is true: what lowering a group would cost is what the whole cost then differs
 * by, and never a gain, unless the rules forbid it or nothing low is near. */
static void check_lowering_costs(Trial *t, const char *text) {
    Placement *p = &t->p;
    PlacementReasons *reasons = placement_reasons_new(p, true);
    int64_t now = (int64_t)exact_cost(t);
    for (VarId v = 1; v < p->vars.count; v++) {
        PlaceVar *var = &p->vars.items[v];
        if (placement_root(p, v) != v || var->pinned || var->low) continue;
        int64_t said = placement_lowering_cost(reasons, v);
        bool near_low = touches_low(p, v);
        var->low = true;
        int64_t real = (int64_t)exact_cost(t) - now;
        bool allowed = is_feasible(t);
        var->low = false;
        if (said != real || (allowed && near_low && said < 0))
            fail_msg("variable %u: said %ld, is %ld:\n%s", v, said, real, text);
    }
    for (const Node *node = p->model->graph->first; node; node = node_after(node)) {
        NodeNote note = placement_note(reasons, node);
        if (note.kind == NOTE_NONE || note.kind == NOTE_FIXED)
            fail_msg("node %s: no true reason:\n%s", node_label(node), text);
    }
}

static void clear_decision(Placement *p) {
    for (VarId v = 0; v < p->vars.count; v++) p->vars.items[v].low = false;
}

static void random_shapes(Model *model, Placement *p, uint64_t *state) {
    for (uint32_t id = 0; id < p->value_count; id++) {
        Value *value = p->values[id];
        if (!value || !value->type || value->type->kind != TYPE_TENSOR) continue;
        Dim *dim = ARENA_NEW(&model->arena, Dim);
        static const int64_t scales[] = {1, 100, 3000}; /* about what a cast costs, and beyond */
        *dim = (Dim){.kind = DIM_KNOWN,
                     .size = (1 + random_below(state, 9)) * scales[random_below(state, 3)]};
        value_set_type(value, type_new_shaped(&model->arena, type_dtype(value->type), dim, 1));
    }
}

/* Returns false where the graph has too many free variables to enumerate. */
static bool run_trial(uint64_t *state, Arena *scratch) {
    static Text text; /* large; tests run one at a time */
    say_model(&text, state);
    Err err = {0};
    Model *model = text_parse_model(text.bytes, text.length, &test_trap, &err);
    if (!model) fail_msg("%s\n%s", err.what, text.bytes);
    PassCounts counts = {0};
    PassCtx ctx = {.model = model, .scratch = scratch, .counts = &counts};
    assert_true(infer_dtypes(&ctx, NULL, NULL, &err));
    Trial t = {.p = {.model = model,
                     .scratch = scratch,
                     .counts = &counts,
                     .statistics = statistics_memo_new(scratch)}};
    const OpClassLists none = {0};
    t.p.request = (PlacementRequest){
        .target = DTYPE_FLOAT16, .guard = GUARD_PIN, .io_low = random_below(state, 4) == 0};
    t.p.request.classes = op_classes_new(POLICY_FLOAT16, &none, scratch, &err);
    assert_true(placement_build(&t.p, &err));
    random_shapes(model, &t.p, state);
    t.produces = placement_producers(&t.p);
    t.allowed = allowed(&t);
    list_free(&t);
    bool small = t.free_count <= MOST_FREE;
    placement_solve_greedy(&t.p);
    uint64_t greedy = exact_cost(&t);
    clear_decision(&t.p);
    placement_solve_mincut(&t.p);
    uint64_t exact = exact_cost(&t);
    if (!is_feasible(&t)) fail_msg("infeasible:\n%s", text.bytes);
    if (exact > greedy) fail_msg("exact %lu, greedy %lu:\n%s", exact, greedy, text.bytes);
    check_lowering_costs(&t, text.bytes);
    uint64_t best = small ? brute_force(&t) : exact;
    if (exact != best) fail_msg("exact %lu, best %lu:\n%s", exact, best, text.bytes);
    model_free(model);
    arena_free(scratch);
    return small;
}

TEST(test_against_all_decisions) {
    uint64_t state = 42;
    int enumerated = 0;
    for (int i = 0; i < TRIALS; i++) enumerated += run_trial(&state, &test_arena);
    assert_true(enumerated > 500);
}

enum { NETWORK_NODES = 9, NETWORKS = 3000 };

static int64_t cut_value(int64_t caps[NETWORK_NODES][NETWORK_NODES], uint32_t side) {
    int64_t value = 0;
    for (uint32_t i = 0; i < NETWORK_NODES; i++)
        for (uint32_t j = 0; j < NETWORK_NODES; j++)
            if ((side >> i & 1) && !(side >> j & 1)) value += caps[i][j];
    return value;
}

TEST(test_flow_against_all_cuts) {
    uint64_t state = 7;
    for (int trial = 0; trial < NETWORKS; trial++) {
        int64_t caps[NETWORK_NODES][NETWORK_NODES] = {{0}};
        FlowNetwork flow;
        flow_init(&flow, &test_arena);
        for (uint32_t i = 2; i < NETWORK_NODES; i++) flow_add_node(&flow);
        for (uint32_t i = 0; i < NETWORK_NODES; i++)
            for (uint32_t j = 0; j < NETWORK_NODES; j++) {
                if (i == j || j == FLOW_SOURCE || i == FLOW_SINK || random_below(&state, 3))
                    continue;
                caps[i][j] = random_below(&state, 6);
                flow_add_arc(&flow, i, j, caps[i][j], 0);
            }
        flow_solve(&flow);
        uint32_t side = 0, largest = 0;
        for (uint32_t v = 0; v < NETWORK_NODES; v++)
            side |= (uint32_t)flow_on_source_side(&flow, v) << v;
        int64_t best = INT64_MAX;
        for (uint32_t s = 0; s < 1u << NETWORK_NODES; s++) {
            if (!(s & 1) || (s & 2)) continue;
            int64_t value = cut_value(caps, s);
            if (value < best) largest = 0;
            if (value <= best) largest |= s; /* minimum cuts are closed under union */
            if (value < best) best = value;
        }
        assert_int_equal(cut_value(caps, side), best);
        assert_int_equal(side, largest);
        arena_free(&test_arena);
    }
}
