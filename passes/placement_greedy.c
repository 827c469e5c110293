// SPDX-License-Identifier: Apache-2.0
/* The greedy solver: MXNet's operator-list rules as a least fixed point.
 *
 * 1. What reads constants only is flexible: it has no precision of its own and will follow its
 *    readers. (MXNet decided in visiting order; here order cannot matter.)
 * 2. From the LOW operators on, low spreads forward: a FOLLOW variable goes low when one of its
 *    sources that are not flexible is low, an `all` variable when all of them are.
 * 3. Flexible variables, readers first, go low where every reader is low, so that a constant behind
 *    a Transpose or Reshape is stored low like any other.
 */
#include "placement.h"

typedef struct Greedy {
    Placement *p;
    uint32_t *sources;  /* by root: sources that are not flexible */
    uint32_t *low_sources;
    uint32_t *first_value, *next_value; /* by root: list of the values it produces */
    VEC(VarId) queue;
} Greedy;

static VarId root_of(Greedy *g, VarId var) {
    return var == VAR_NONE ? VAR_NONE : placement_root(g->p, var);
}

/* A node's variable is flexible where all it reads is: judged in the graph's order. */
static void mark_flexible(Placement *p, const Node *node) {
    const VarId *uses = p->use_vars[node->id];
    for (uint32_t o = 0; o < node->output_count; o++) {
        const Value *out = node->outputs[o];
        VarId var = out ? p->value_vars[out->id] : VAR_NONE;
        if (var == VAR_NONE || p->constant[out->id] || placement_root(p, var) == VAR_FP32) continue;
        PlaceVar *own = &p->vars.items[placement_root(p, var)];
        if (own->node != node || own->slot || own->wants_low || own->pinned) continue;
        bool flexible = true;
        for (uint32_t i = 0; flexible && i < node->input_count; i++)
            if (uses[i] != VAR_NONE && placement_root(p, uses[i]) == placement_root(p, var))
                flexible = p->flexible[node->inputs[i].value->id];
        own->flexible = flexible;
        p->flexible[out->id] = flexible;
    }
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

static void go_low(Greedy *g, VarId root) {
    PlaceVar *var = &g->p->vars.items[root];
    if (var->low || var->pinned) return;
    var->low = true;
    VEC_PUSH(g->p->scratch, &g->queue, root);
}

/* The values of `root` are low now: tells their readers. */
static void spread(Greedy *g, VarId root) {
    for (uint32_t id = g->first_value[root]; id != UINT32_MAX; id = g->next_value[id]) {
        if (g->p->flexible[id]) continue;
        for (const Use *use = g->p->values[id]->uses; use; use = use->next) {
            VarId reader = root_of(g, placement_use_var(g->p, use));
            if (reader == VAR_NONE || reader == root) continue;
            g->low_sources[reader]++;
            const PlaceVar *var = &g->p->vars.items[reader];
            if (!var->all || g->low_sources[reader] == g->sources[reader]) go_low(g, reader);
        }
    }
}

/* A value's readers that care, itself aside, are all low. Variables that produce nothing (Shape's input) do not
 * care; a value nobody cares for stays. */
static bool readers_are_low(Greedy *g, const Value *value, bool *any) {
    for (const Use *use = value->uses; use; use = use->next) {
        VarId reader = root_of(g, placement_use_var(g->p, use));
        if (reader == VAR_NONE || reader == root_of(g, g->p->value_vars[value->id])) continue;
        const PlaceVar *var = &g->p->vars.items[reader];
        if (var->flexible && g->first_value[reader] == UINT32_MAX) continue;
        if (!var->low) return false;
        *any = true;
    }
    return true;
}

/* A slot that only constants reach (a weight passed through a loop as its state) adapts to its readers
 * as the constants themselves do. */
static void settle_slots(Greedy *g) {
    Placement *p = g->p;
    for (VarId v = 1; v < p->vars.count; v++) {
        PlaceVar *var = &p->vars.items[v];
        if (placement_root(p, v) != v || !var->slot || var->low || var->pinned || g->sources[v])
            continue;
        bool low = true, any = false;
        for (uint32_t id = g->first_value[v]; low && id != UINT32_MAX; id = g->next_value[id])
            low = readers_are_low(g, p->values[id], &any);
        if (low && any) var->low = true;
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
        if (low && any && !p->vars.items[root].pinned) p->vars.items[root].low = true;
    }
}

static void solve(Greedy *g) {
    Placement *p = g->p;
    for (VarId v = 1; v < p->vars.count; v++)
        if (placement_root(p, v) == v && p->vars.items[v].wants_low) go_low(g, v);
    for (size_t i = 0; i < g->queue.count; i++) spread(g, g->queue.items[i]);
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
    g.first_value = ARENA_ARRAY(p->scratch, uint32_t, count);
    g.next_value = ARENA_ARRAY(p->scratch, uint32_t, p->value_count);
    for (size_t i = 0; i < count; i++) g.first_value[i] = UINT32_MAX;
    for (size_t i = 0; i < p->graphs.count; i++)
        for (const Node *node = p->graphs.items[i]->first; node; node = node->next)
            mark_flexible(p, node);
    count_sources(&g);
    solve(&g);
}
