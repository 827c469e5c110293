// SPDX-License-Identifier: Apache-2.0
/* The greedy solver: MXNet's operator-list rules as a fixed point. MXNet decided in visiting order;
 * here order cannot matter.
 *
 * 1. What lies behind LOW operators may be low. Of that, an `all` variable with a source that is
 *    fp32 and not flexible goes back, and so does a FOLLOW variable without a low one, until
 *    nothing changes. A loop's state, or the formal of a function that is called twice in a row, is
 *    among its own sources and does not stand in its own way: a loop is decided as if it were
 *    unrolled. Only what nests or queues such loops needs many rounds; after ROUNDS_MAX of them the
 *    whole is decided without: low is then what is low before its loop has run, which takes one
 *    round.
 * 2. Flexible variables (they read constants only), readers first, go low where every reader is
 *    low, so that a constant behind a Transpose or Reshape is stored low like any other.
 */
#include "op_facts.h"
#include "op_types.h"
#include "placement.h"

enum { ROUNDS_MAX = 32 };

typedef struct Greedy {
    Placement *p;
    uint32_t *sources; /* by root: sources that are not flexible */
    uint32_t *low_sources;
    bool *refused;                      /* by root: can't be low */
    uint32_t *first_value, *next_value; /* by root: list of the values it produces */
    VEC(VarId) queue;
} Greedy;

static VarId root_of(Greedy *g, VarId var) {
    return var == VAR_NONE ? VAR_NONE : placement_root(g->p, var);
}

static void count_sources(Greedy *g) {
    Placement *p = g->p;
    for (uint32_t id = 0; id < p->value_count; id++) {
        const Value *value = p->values[id];
        if (!value || p->value_vars[id] == VAR_NONE) continue;
        VarId producer = root_of(g, p->value_vars[id]);
        g->next_value[id] = g->first_value[producer];
        g->first_value[producer] = id;
        for (const Use *use = value->uses; use; use = use->next) {
            VarId reader = root_of(g, placement_use_var(p, use));
            if (reader == VAR_NONE) continue;
            if (!p->flexible[id] && reader != producer) g->sources[reader]++;
        }
    }
}

/* Calls visit for each reader of what `root` produces, once a use. */
static void each_reader(Greedy *g, VarId root, void (*visit)(Greedy *g, VarId reader)) {
    for (uint32_t id = g->first_value[root]; id != UINT32_MAX; id = g->next_value[id]) {
        if (g->p->flexible[id]) continue;
        for (const Use *use = g->p->values[id]->uses; use; use = use->next) {
            VarId reader = root_of(g, placement_use_var(g->p, use));
            if (reader != VAR_NONE && reader != root) visit(g, reader);
        }
    }
}

static void reach(Greedy *g, VarId root) {
    PlaceVar *var = &g->p->vars.items[root];
    if (var->low || var->pinned || g->refused[root]) return;
    var->low = true;
    VEC_PUSH(g->p->scratch, &g->queue, root);
}

static void gain_source(Greedy *g, VarId root) {
    g->low_sources[root]++;
}

static void check(Greedy *g, VarId root) {
    PlaceVar *var = &g->p->vars.items[root];
    bool kept = var->all ? g->low_sources[root] == g->sources[root] : g->low_sources[root] > 0;
    if (!var->low || var->wants_low || kept) return;
    var->low = false;
    g->refused[root] = true;
    VEC_PUSH(g->p->scratch, &g->queue, root);
}

static void lose_source(Greedy *g, VarId root) {
    g->low_sources[root]--;
    check(g, root);
}

/* Shape and the like see nothing of what their operand holds: they take it as it is. */
static bool takes_any(const Greedy *g, VarId reader) {
    const PlaceVar *var = &g->p->vars.items[reader];
    if (!var->node || var->pinned || g->first_value[reader] != UINT32_MAX) return false;
    const OpSchema *schema = node_schema(var->node);
    return schema && op_has_flags(schema, OP_SHAPE_ONLY);
}

/* A value's readers that care, itself aside, are all low; a value nobody cares for stays. */
static bool readers_are_low(Greedy *g, const Value *value, bool *any) {
    for (const Use *use = value->uses; use; use = use->next) {
        VarId reader = root_of(g, placement_use_var(g->p, use));
        if (reader == VAR_NONE || reader == root_of(g, g->p->value_vars[value->id])) continue;
        if (takes_any(g, reader)) continue;
        if (!g->p->vars.items[reader].low) return false;
        *any = true;
    }
    return true;
}

/* Makes the values of a flexible variable low, and what takes them as they are. */
static void lower_flexible(Greedy *g, VarId root) {
    g->p->vars.items[root].low = true;
    for (uint32_t id = g->first_value[root]; id != UINT32_MAX; id = g->next_value[id])
        for (const Use *use = g->p->values[id]->uses; use; use = use->next) {
            VarId reader = root_of(g, placement_use_var(g->p, use));
            if (reader != VAR_NONE && takes_any(g, reader)) g->p->vars.items[reader].low = true;
        }
}

/* A slot that only constants reach (a weight passed through a loop as its state) adapts to its
 * readers as the constants themselves do. */
static void settle_slots(Greedy *g) {
    Placement *p = g->p;
    for (VarId v = 1; v < p->vars.count; v++) {
        PlaceVar *var = &p->vars.items[v];
        if (placement_root(p, v) != v || !var->slot || var->low || var->pinned || g->sources[v])
            continue;
        bool low = true, any = false;
        for (uint32_t id = g->first_value[v]; low && id != UINT32_MAX; id = g->next_value[id])
            low = readers_are_low(g, p->values[id], &any);
        if (low && any) lower_flexible(g, v);
    }
}

static void settle_flexible(Greedy *g, const Node *node) {
    Placement *p = g->p;
    for (uint32_t o = 0; o < node->output_count; o++) {
        const Value *out = node->outputs[o];
        if (!out || !p->flexible[out->id] || p->constant[out->id]) continue;
        VarId root = root_of(g, p->value_vars[out->id]);
        bool low = true, any = false;
        for (uint32_t id = g->first_value[root]; low && id != UINT32_MAX; id = g->next_value[id])
            low = readers_are_low(g, p->values[id], &any);
        if (low && any && !p->vars.items[root].pinned) lower_flexible(g, root);
    }
}

/* One round: low is what can be reached from LOW operators, less what has to go back. True where
 * something had to: what was reached through it alone is then still there. */
static bool spread(Greedy *g) {
    Placement *p = g->p;
    g->queue.count = 0;
    for (VarId v = 0; v < p->vars.count; v++) {
        g->low_sources[v] = 0;
        p->vars.items[v].low = false;
    }
    for (VarId v = 1; v < p->vars.count; v++)
        if (placement_root(p, v) == v && p->vars.items[v].wants_low) reach(g, v);
    for (size_t i = 0; i < g->queue.count; i++) each_reader(g, g->queue.items[i], reach);
    size_t reached = g->queue.count;
    for (size_t i = 0; i < reached; i++) each_reader(g, g->queue.items[i], gain_source);
    for (size_t i = 0; i < reached; i++) check(g, g->queue.items[i]);
    for (size_t i = reached; i < g->queue.count; i++)
        each_reader(g, g->queue.items[i], lose_source);
    return g->queue.count > reached;
}

static void gain_low(Greedy *g, VarId root) {
    const PlaceVar *var = &g->p->vars.items[root];
    g->low_sources[root]++;
    if (!var->all || g->low_sources[root] == g->sources[root]) reach(g, root);
}

/* Low is only what has to be, given what is low already. */
static void spread_once(Greedy *g) {
    Placement *p = g->p;
    g->queue.count = 0;
    for (VarId v = 0; v < p->vars.count; v++) {
        g->low_sources[v] = 0;
        g->refused[v] = p->vars.items[v].low = false;
    }
    for (VarId v = 1; v < p->vars.count; v++)
        if (placement_root(p, v) == v && p->vars.items[v].wants_low) reach(g, v);
    for (size_t i = 0; i < g->queue.count; i++) each_reader(g, g->queue.items[i], gain_low);
}

static void solve(Greedy *g) {
    Placement *p = g->p;
    unsigned rounds = 0;
    while (rounds < ROUNDS_MAX && spread(g)) rounds++;
    if (rounds == ROUNDS_MAX) spread_once(g);
    settle_slots(g);
    for (size_t i = p->graphs.count; i-- > 0;)
        for (const Node *node = p->graphs.items[i]->last; node; node = node->prev)
            settle_flexible(g, node);
}

void placement_solve_greedy(Placement *p) {
    Greedy g = {.p = p};
    size_t count = p->vars.count;
    g.sources = ARENA_ARRAY(p->scratch, uint32_t, count);
    g.low_sources = ARENA_ARRAY(p->scratch, uint32_t, count);
    g.refused = ARENA_ARRAY(p->scratch, bool, count);
    g.first_value = ARENA_ARRAY(p->scratch, uint32_t, count);
    g.next_value = ARENA_ARRAY(p->scratch, uint32_t, p->value_count);
    for (size_t i = 0; i < count; i++) g.first_value[i] = UINT32_MAX;
    count_sources(&g);
    solve(&g);
}
