// SPDX-License-Identifier: Apache-2.0
/* The exact solver: least bytes converted, and among those the least bytes moved in fp32.
 *
 * Every tie group is a node of a network, the source's side being low. A value of n elements costs n
 * where its producer and at least one reader differ, once for all readers, since they share a cast:
 *
 *     producer low, some reader fp32:   producer -n-> a, a -inf-> each reader
 *     producer fp32, some reader low:   each reader -inf-> b, b -n-> producer
 *
 * Pins are the terminals. "Low only where every source is" (WIDEST operators, and readers that
 * produce no float, which have no reason of their own to see rounded values) is reader -inf-> source;
 * so is "low only where its data is" of operators that follow and compute.
 * A constant is a free node: it can be stored either way, and costs a cast only where its readers
 * disagree. Of all minimum cuts the one with the largest low side is taken; minimum cuts form a
 * lattice, so that one moves the least in fp32 too.
 *
 * A symbolic or unknown dimension counts as 64 elements, an unknown rank as 4096 in all: what matters
 * is the ratio of values to each other, and batch-like dimensions cancel.
 */
#include "max_flow.h"
#include "placement.h"

enum { UNKNOWN_DIM = 64, UNKNOWN_RANK = 4096 };

static const int64_t LARGEST_COST = INT64_C(1) << 40;

typedef struct MinCut {
    Placement *p;
    FlowNetwork flow;
    uint32_t *nodes;   /* by root */
    bool *produces;    /* by root: some value has it */
    int64_t infinite;  /* more than all finite capacities together */
    uint32_t *seen;    /* by network node: the value id + 1 that last listed it as a reader */
    VEC(uint32_t) readers; /* of the value at hand, distinct */
} MinCut;

uint64_t placement_elements(const Value *value) {
    const Type *type = value->type;
    while (type && type->kind != TYPE_TENSOR && type->kind != TYPE_SPARSE_TENSOR) type = type->elem;
    if (!type || !type->has_shape) return UNKNOWN_RANK;
    uint64_t count = 1;
    for (uint32_t i = 0; i < type->rank; i++) {
        const Dim *dim = &type->dims[i];
        uint64_t size = dim->kind == DIM_KNOWN && dim->size >= 0 ? (uint64_t)dim->size : UNKNOWN_DIM;
        if (size && count > (uint64_t)LARGEST_COST / size) return (uint64_t)LARGEST_COST;
        count *= size;
    }
    return count ? count : 1; /* even an empty cast is a node to run */
}

/* The network node of a tie group; pinned groups are the terminals themselves. */
static uint32_t node_of(MinCut *m, VarId var) {
    VarId root = placement_root(m->p, var);
    const PlaceVar *place = &m->p->vars.items[root];
    if (place->pinned) return FLOW_SINK;
    if (place->wants_low) return FLOW_SOURCE;
    if (m->nodes[root] == 0) m->nodes[root] = flow_add_node(&m->flow);
    return m->nodes[root];
}

static bool is_decided(const MinCut *m, uint32_t id) {
    return m->p->values[id] && m->p->value_vars[id] != VAR_NONE;
}

static void list_readers(MinCut *m, uint32_t id, uint32_t producer) {
    m->readers.count = 0;
    for (const Use *use = m->p->values[id]->uses; use; use = use->next) {
        VarId var = placement_use_var(m->p, use);
        if (var == VAR_NONE) continue;
        uint32_t reader = node_of(m, var);
        if (reader == producer || m->seen[reader] == id + 1) continue;
        m->seen[reader] = id + 1;
        VEC_PUSH(m->p->scratch, &m->readers, reader);
    }
}

static void add_value(MinCut *m, uint32_t id, int64_t cost) {
    bool constant = m->p->constant[id] && !m->p->values[id]->referenced;
    uint32_t producer = constant ? flow_add_node(&m->flow) : node_of(m, m->p->value_vars[id]);
    list_readers(m, id, producer);
    if (m->readers.count == 0) return;
    if (m->readers.count == 1) {
        flow_add_arc(&m->flow, producer, m->readers.items[0], cost, cost);
        return;
    }
    uint32_t up = flow_add_node(&m->flow), down = flow_add_node(&m->flow);
    flow_add_arc(&m->flow, producer, up, cost, 0);
    flow_add_arc(&m->flow, down, producer, cost, 0);
    for (size_t i = 0; i < m->readers.count; i++) {
        flow_add_arc(&m->flow, up, m->readers.items[i], m->infinite, 0);
        flow_add_arc(&m->flow, m->readers.items[i], down, m->infinite, 0);
    }
}

bool placement_use_needs_low(Placement *p, const Use *use, const bool *produces) {
    VarId root = placement_root(p, placement_use_var(p, use));
    const PlaceVar *place = &p->vars.items[root];
    if (place->wants_low || place->pinned || (place->all && place->slot)) return false;
    if (place->computes && use->node && use->index == 0) return true;
    return place->all || !produces[root];
}

static void add_source_rules(MinCut *m, uint32_t id) {
    if (m->p->flexible[id]) return;
    uint32_t producer = node_of(m, m->p->value_vars[id]);
    for (const Use *use = m->p->values[id]->uses; use; use = use->next) {
        VarId var = placement_use_var(m->p, use);
        if (var == VAR_NONE || !placement_use_needs_low(m->p, use, m->produces)) continue;
        flow_add_arc(&m->flow, node_of(m, var), producer, m->infinite, 0);
    }
}

bool *placement_producers(Placement *p) {
    bool *produces = ARENA_ARRAY(p->scratch, bool, p->vars.count);
    for (uint32_t id = 0; id < p->value_count; id++)
        if (p->values[id] && p->value_vars[id] != VAR_NONE)
            produces[placement_root(p, p->value_vars[id])] = true;
    return produces;
}

/* Costs are halved until their sum leaves room for the infinite arcs. */
static int64_t *scaled_costs(MinCut *m) {
    Placement *p = m->p;
    int64_t *costs = ARENA_ARRAY(p->scratch, int64_t, p->value_count);
    int64_t total = 0;
    unsigned shift = 0;
    for (uint32_t id = 0; id < p->value_count; id++) {
        if (!is_decided(m, id)) continue;
        costs[id] = (int64_t)placement_elements(p->values[id]);
        total += costs[id];
        if (total > INT64_MAX / 4) total = INT64_MAX / 4;
    }
    while (total >> shift > LARGEST_COST) shift++;
    for (uint32_t id = 0; shift && id < p->value_count; id++)
        costs[id] = costs[id] >> shift ? costs[id] >> shift : 1;
    m->infinite = (total >> shift) + p->value_count + 1;
    return costs;
}

/* Groups that the source can't reach and nothing forces: they stay as they are. A group is low only
 * where a low operator gains by it. */
static bool *gains(MinCut *m) {
    uint32_t n = m->flow.node_count, tail = 0;
    bool *reached = ARENA_ARRAY(m->p->scratch, bool, n);
    uint32_t *queue = ARENA_ARRAY(m->p->scratch, uint32_t, n);
    reached[FLOW_SOURCE] = true;
    queue[tail++] = FLOW_SOURCE;
    for (uint32_t head = 0; head < tail; head++) {
        uint32_t v = queue[head];
        for (uint32_t i = m->flow.first[v]; i < m->flow.first[v + 1]; i++) {
            uint32_t w = m->flow.arcs.items[m->flow.order[i]].to;
            if (reached[w] || w == FLOW_SINK || !flow_on_source_side(&m->flow, w)) continue;
            reached[w] = true;
            queue[tail++] = w;
        }
    }
    return reached;
}

void placement_solve_mincut(Placement *p) {
    MinCut m = {.p = p};
    flow_init(&m.flow, p->scratch);
    m.nodes = ARENA_ARRAY(p->scratch, uint32_t, p->vars.count);
    m.seen = ARENA_ARRAY(p->scratch, uint32_t, 2 + p->vars.count + 3u * (size_t)p->value_count);
    m.produces = placement_producers(p);
    int64_t *costs = scaled_costs(&m);
    for (uint32_t id = 0; id < p->value_count; id++) {
        if (!is_decided(&m, id)) continue;
        add_value(&m, id, costs[id]);
        add_source_rules(&m, id);
    }
    flow_solve(&m.flow);
    bool *reached = gains(&m);
    for (VarId v = 1; v < p->vars.count; v++) {
        PlaceVar *var = &p->vars.items[v];
        if (placement_root(p, v) != v || var->pinned) continue;
        var->low = var->wants_low || (m.nodes[v] && flow_on_source_side(&m.flow, m.nodes[v]) &&
                                      reached[m.nodes[v]]);
    }
}

PlacementCost placement_cost(Placement *p) {
    PlacementCost cost = {0};
    for (uint32_t id = 0; id < p->value_count; id++) {
        const Value *value = p->values[id];
        if (!value || p->value_vars[id] == VAR_NONE) continue;
        bool free_constant = p->constant[id] && !value->referenced;
        bool low = placement_is_low(p, p->value_vars[id]), any_low = false, any_fp32 = false;
        for (const Use *use = value->uses; use; use = use->next) {
            VarId var = placement_use_var(p, use);
            if (var == VAR_NONE) continue;
            if (placement_is_low(p, var)) any_low = true;
            else any_fp32 = true;
        }
        bool cast = free_constant ? any_low && any_fp32 : low ? any_fp32 : any_low;
        if (cast) cost.converted += placement_elements(value);
        if (cast) cost.casts++;
        if (!low && !p->constant[id]) cost.moved_fp32 += placement_elements(value);
    }
    return cost;
}
