// SPDX-License-Identifier: Apache-2.0
/* What the exact solver may decide, and under which rules; see placement.h. All linear. */
#include "placement.h"

#include "op_types.h"

/* What fuse-casts merges: not a cast that stays between equal types, nor one to 4 bits or float8,
 * which has modes. */
bool placement_use_is_free(const Use *use) {
    if (!node_is_cast(use->node)) return false;
    Dtype to = type_dtype(use->node->outputs[0]->type);
    return to != DTYPE_FLOAT && dtype_bits(to) >= 8 && !(dtype_is_float(to) && dtype_bits(to) == 8);
}

bool placement_use_needs_low(Placement *p, const Use *use, const bool *produces) {
    VarId root = placement_root(p, placement_use_var(p, use));
    const PlaceVar *place = &p->vars.items[root];
    if (place->wants_low || place->pinned || (place->all && place->slot)) return false;
    if (place->computes && use->node && use->index == 0) return true;
    return place->all || !produces[root];
}

bool *placement_producers(Placement *p) {
    bool *produces = ARENA_ARRAY(p->scratch, bool, p->vars.count);
    for (uint32_t id = 0; id < p->value_count; id++)
        if (p->values[id] && p->value_vars[id] != VAR_NONE)
            produces[placement_root(p, p->value_vars[id])] = true;
    return produces;
}

typedef struct Candidates {
    Placement *p;
    const bool *produces;
    bool *may;                          /* by root: the answer */
    VarId *component;                   /* union-find over roots */
    uint32_t *first_value, *next_value; /* by root: list of the values it gives */
    VEC(VarId) queue;                   /* roots that may not */
} Candidates;

static void refuse(Candidates *c, VarId root) {
    if (!c->may[root]) return;
    c->may[root] = false;
    VEC_PUSH(c->p->scratch, &c->queue, root);
}

static void list_values(Candidates *c) {
    Placement *p = c->p;
    for (VarId v = 0; v < p->vars.count; v++) c->first_value[v] = UINT32_MAX;
    for (uint32_t id = 0; id < p->value_count; id++) {
        if (!placement_value(p, id) || p->value_vars[id] == VAR_NONE || p->flexible[id]) continue;
        VarId root = placement_root(p, p->value_vars[id]);
        c->next_value[id] = c->first_value[root];
        c->first_value[root] = id;
    }
}

/* Whatever needs its sources low and has one that can't be. */
static void refuse_readers(Candidates *c, VarId root) {
    Placement *p = c->p;
    for (uint32_t id = c->first_value[root]; id != UINT32_MAX; id = c->next_value[id])
        for (const Use *use = p->values[id]->uses; use; use = use->next) {
            VarId var = placement_use_var(p, use);
            if (var != VAR_NONE && placement_use_needs_low(p, use, c->produces))
                refuse(c, placement_root(p, var));
        }
}

static VarId component_of(Candidates *c, VarId root) {
    while (c->component[root] != root) {
        c->component[root] = c->component[c->component[root]];
        root = c->component[root];
    }
    return root;
}

/* Groups that share a value belong together; what reads the same constant does not. */
static void join_components(Candidates *c) {
    Placement *p = c->p;
    for (uint32_t id = 0; id < p->value_count; id++) {
        if (!placement_value(p, id) || p->value_vars[id] == VAR_NONE || p->constant[id]) continue;
        VarId root = placement_root(p, p->value_vars[id]);
        if (!c->may[root]) continue;
        for (const Use *use = p->values[id]->uses; use; use = use->next) {
            VarId var = placement_use_var(p, use);
            VarId reader = var == VAR_NONE ? VAR_FP32 : placement_root(p, var);
            if (c->may[reader]) c->component[component_of(c, reader)] = component_of(c, root);
        }
    }
}

/* Rows of constant tables are data that may be low from the start. */
static void reach_from_tables(Candidates *c, bool *reached) {
    Placement *p = c->p;
    for (uint32_t id = 0; id < p->value_count; id++) {
        if (!placement_value(p, id) || !p->constant[id]) continue;
        for (const Use *use = p->values[id]->uses; use; use = use->next) {
            if (!use->node || use->index != 0 || !node_takes_rows(use->node)) continue;
            VarId var = placement_use_var(p, use);
            VarId root = var == VAR_NONE ? VAR_FP32 : placement_root(p, var);
            if (c->may[root]) reached[component_of(c, root)] = true;
        }
    }
}

static void drop_unreached(Candidates *c) {
    Placement *p = c->p;
    bool *reached = ARENA_ARRAY(p->scratch, bool, p->vars.count);
    for (VarId v = 1; v < p->vars.count; v++)
        if (c->may[v] && p->vars.items[v].wants_low) reached[component_of(c, v)] = true;
    reach_from_tables(c, reached);
    for (VarId v = 1; v < p->vars.count; v++)
        if (c->may[v] && !reached[component_of(c, v)]) c->may[v] = false;
}

bool *placement_candidates(Placement *p, const bool *produces) {
    size_t count = p->vars.count;
    Candidates c = {.p = p, .produces = produces};
    c.may = ARENA_ARRAY(p->scratch, bool, count);
    c.component = ARENA_ARRAY(p->scratch, VarId, count);
    c.first_value = ARENA_ARRAY(p->scratch, uint32_t, count);
    c.next_value = ARENA_ARRAY(p->scratch, uint32_t, p->value_count);
    list_values(&c);
    for (VarId v = 0; v < count; v++) {
        c.component[v] = v;
        bool is_root = placement_root(p, v) == v;
        c.may[v] = is_root;
        if (is_root && p->vars.items[v].pinned) refuse(&c, v);
    }
    for (size_t i = 0; i < c.queue.count; i++) refuse_readers(&c, c.queue.items[i]);
    join_components(&c);
    drop_unreached(&c);
    return c.may;
}
