// SPDX-License-Identifier: Apache-2.0
/* The exact solver: least cost, which is bytes converted, a charge for each cast, the bytes of
 * constants in fp32 and an eighth of the bytes given in fp32 (placement_cost.h).
 *
 * Every tie group is a node of a network, the source's side being low. A value of n elements that
 * is cast costs c = 12 n + the charge, in half bytes, where its producer and at least one reader
 * differ; once for all readers, since they share a cast:
 *
 *     producer low, some reader fp32:   producer -c-> a, a -c-> each reader
 *     producer fp32, some reader low:   each reader -c-> b, b -c-> producer
 *
 * What a group gives in fp32 costs n a value: source -n-> group. Pins are the terminals. "Low only
 * where every source is" (WIDEST operators, and readers that produce no float, which have no reason
 * of their own to see rounded values) is reader -inf-> source; so is "low only where its data is"
 * of operators that follow and compute. A constant can be stored either way: it costs a cast only
 * where its readers disagree and it is no single number, so that it is a node of its own there, and 8 n where one of them is
 * fp32: source -8n-> c -8n-> each reader. Groups that neither a LOW operator's data nor a constant
 * table's rows reach (placement_candidates) are pinned. Of all minimum cuts the one with the
 * largest low side is taken.
 */
#include "max_flow.h"
#include "placement.h"

typedef struct MinCut {
    Placement *p;
    FlowNetwork flow;
    uint32_t *nodes;       /* by root */
    bool *produces;        /* by root: some value has it */
    bool *candidates;      /* by root: may be decided */
    int64_t *fp32;         /* by root: cost of what it gives, in fp32 */
    int64_t infinite;      /* more than all finite capacities together */
    uint32_t *seen;        /* by network node: the value id + 1 that last listed it as a reader */
    VEC(uint32_t) readers; /* of the value at hand, distinct */
} MinCut;

/* The network node of a tie group; pinned groups are the terminals themselves. */
static uint32_t node_of(MinCut *m, VarId var) {
    VarId root = placement_root(m->p, var);
    if (!m->candidates[root]) return FLOW_SINK;
    if (m->p->vars.items[root].wants_low) return FLOW_SOURCE;
    if (m->nodes[root] == 0) m->nodes[root] = flow_add_node(&m->flow);
    return m->nodes[root];
}

static bool is_decided(const MinCut *m, uint32_t id) {
    return m->p->values[id] && m->p->value_vars[id] != VAR_NONE;
}

static bool is_free_constant(const Placement *p, uint32_t id) {
    return p->constant[id] && !p->values[id]->referenced;
}

/* The readers of a value, each once and less its producer. True where one of all is undecided. */
static bool list_readers(MinCut *m, uint32_t id, uint32_t producer) {
    bool undecided = producer > FLOW_SINK && producer != UINT32_MAX;
    m->readers.count = 0;
    for (const Use *use = m->p->values[id]->uses; use; use = use->next) {
        VarId var = placement_use_var(m->p, use);
        if (var == VAR_NONE || placement_use_is_free(use)) continue;
        uint32_t reader = node_of(m, var);
        if (reader == producer || m->seen[reader] == id + 1) continue;
        m->seen[reader] = id + 1;
        undecided |= reader > FLOW_SINK;
        VEC_PUSH(m->p->scratch, &m->readers, reader);
    }
    return undecided;
}

/* What it costs where one reader or more are fp32 while `from` is low; an arc behind one of that
 * capacity need not hold more. */
static void charge_readers(MinCut *m, uint32_t from, int64_t cost) {
    if (m->readers.count == 1) {
        flow_add_arc(&m->flow, from, m->readers.items[0], cost, 0);
        return;
    }
    uint32_t any = flow_add_node(&m->flow);
    flow_add_arc(&m->flow, from, any, cost, 0);
    for (size_t i = 0; i < m->readers.count; i++)
        flow_add_arc(&m->flow, any, m->readers.items[i], cost, 0);
}

/* The other direction: where one reader or more are low while `to` is fp32. */
static void charge_low_readers(MinCut *m, uint32_t to, int64_t cost) {
    if (m->readers.count == 1) {
        flow_add_arc(&m->flow, m->readers.items[0], to, cost, 0);
        return;
    }
    uint32_t any = flow_add_node(&m->flow);
    flow_add_arc(&m->flow, any, to, cost, 0);
    for (size_t i = 0; i < m->readers.count; i++)
        flow_add_arc(&m->flow, m->readers.items[i], any, cost, 0);
}

static void add_value(MinCut *m, uint32_t id, int64_t elements) {
    bool constant = is_free_constant(m->p, id);
    uint32_t producer = constant ? UINT32_MAX : node_of(m, m->p->value_vars[id]);
    if (!list_readers(m, id, producer) || m->readers.count == 0) return;
    if (constant) {
        charge_readers(m, FLOW_SOURCE, COST_STORED * elements);
        if (m->readers.count == 1 || placement_is_number(m->p, id)) return;
        producer = flow_add_node(&m->flow);
    }
    int64_t cost = COST_CAST + COST_CONVERTED * elements;
    charge_readers(m, producer, cost);
    charge_low_readers(m, producer, cost);
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

/* Arcs that a value of that cost may add, counted generously. */
static uint64_t arcs_of(const Value *value) {
    uint64_t count = 5;
    for (const Use *use = value->uses; use; use = use->next) count += 3;
    return count;
}

/* Elements by value, halved until the capacities of all arcs together leave room for the infinite
 * ones: that is, not at all, but for models of absurd sizes. */
static int64_t *scaled_elements(MinCut *m) {
    static const int64_t limit = INT64_MAX / 8;
    Placement *p = m->p;
    int64_t *elements = ARENA_ARRAY(p->scratch, int64_t, p->value_count);
    int64_t total = 1;
    for (unsigned shift = 0;; shift++) {
        total = 1;
        for (uint32_t id = 0; id < p->value_count && total < limit; id++) {
            if (!placement_value(p, id) || !is_decided(m, id)) continue;
            int64_t count = (int64_t)(placement_elements(p->values[id]) >> shift);
            elements[id] = count ? count : 1;
            int64_t most = COST_CAST + COST_CONVERTED * elements[id];
            int64_t arcs = (int64_t)arcs_of(p->values[id]);
            total = most > (limit - total) / arcs ? limit : total + most * arcs;
        }
        if (total < limit) break;
    }
    m->infinite = total;
    return elements;
}

static void add_fp32_costs(MinCut *m) {
    for (VarId v = 1; v < m->p->vars.count; v++)
        if (m->nodes[v]) flow_add_arc(&m->flow, FLOW_SOURCE, m->nodes[v], m->fp32[v], 0);
}

void placement_solve_mincut(Placement *p) {
    MinCut m = {.p = p};
    flow_init(&m.flow, p->scratch);
    m.nodes = ARENA_ARRAY(p->scratch, uint32_t, p->vars.count);
    m.fp32 = ARENA_ARRAY(p->scratch, int64_t, p->vars.count);
    m.seen = ARENA_ARRAY(p->scratch, uint32_t, 2 + p->vars.count + 4u * (size_t)p->value_count);
    m.produces = placement_producers(p);
    m.candidates = placement_candidates(p, m.produces);
    const int64_t *elements = scaled_elements(&m);
    for (uint32_t id = 0; id < p->value_count; id++) {
        if (!placement_value(p, id) || !is_decided(&m, id)) continue;
        add_value(&m, id, elements[id]);
        add_source_rules(&m, id);
        if (!is_free_constant(p, id))
            m.fp32[placement_root(p, p->value_vars[id])] += COST_FP32 * elements[id];
    }
    add_fp32_costs(&m);
    flow_solve(&m.flow);
    for (VarId v = 1; v < p->vars.count; v++) {
        PlaceVar *var = &p->vars.items[v];
        if (placement_root(p, v) != v || var->pinned) continue;
        var->low = var->wants_low || (m.nodes[v] && flow_on_source_side(&m.flow, m.nodes[v]));
    }
}

bool placement_is_number(const Placement *p, uint32_t value) {
    return is_free_constant(p, value) && placement_elements(p->values[value]) == 1;
}

PlacementCost placement_cost(Placement *p) {
    PlacementCost cost = {0};
    for (uint32_t id = 0; id < p->value_count; id++) {
        const Value *value = p->values[id];
        if (!value || p->value_vars[id] == VAR_NONE) continue;
        bool low = placement_is_low(p, p->value_vars[id]), any_low = false, any_fp32 = false;
        for (const Use *use = value->uses; use; use = use->next) {
            VarId var = placement_use_var(p, use);
            if (var == VAR_NONE) continue;
            if (placement_is_low(p, var))
                any_low = true;
            else
                any_fp32 = true;
        }
        bool constant = is_free_constant(p, id);
        bool cast = constant ? any_low && any_fp32 && !placement_is_number(p, id)
                    : low    ? any_fp32
                             : any_low;
        if (cast) placement_cost_add_cast(&cost, value);
        if (constant && any_fp32) placement_cost_add_stored(&cost, value);
        if (!constant && !low) placement_cost_add_fp32(&cost, value);
    }
    return cost;
}
