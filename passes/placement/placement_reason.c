// SPDX-License-Identifier: Apache-2.0
/* Why a node got what it got: one reason, and a true one, from the solved problem.
 *
 * A node's own pins come first: policy, exclusion, legality, values. Else what it is tied to is
 * pinned. Else nothing is, and the solver left it: because something it reads is fp32 (FOLLOW and
 * WIDEST rules) or, by the cut, because lowering its group would convert more. What the node's own
 * operands do not tell is found in a table over tie groups that is filled once, when first asked,
 * so that all notes together take linear time.
 */
#include "op_types.h"
#include "placement.h"

/* Uses of a value by what reads there, as decided. */
typedef struct ReaderCount {
    uint32_t low, fp32;
} ReaderCount;

struct PlacementReasons {
    Placement *p;
    bool mincut, filled;
    const Use **fp32_uses;  /* by root: a use of the group that reads an fp32 value from outside */
    const bool *produces;   /* by root */
    uint32_t *first, *next; /* values by root that produces them: lists by id, UINT32_MAX ends */
    uint32_t *use_first;    /* by root: values that its members read */
    VEC(uint32_t) use_values, use_next;
    int64_t *costs; /* by root, where has_cost */
    bool *has_cost;
    ReaderCount *readers;     /* [value_count] */
    uint32_t *seen;           /* [value_count]: the root + 1 whose cost is being counted */
    uint32_t *own_uses;       /* [value_count]: by that root; those still fp32 */
    const char **low_reasons; /* [ops_count()] */
    bool *called;             /* by function: some node calls it */
};

static VarId use_root(const PlacementReasons *r, const Use *use) {
    VarId var = placement_use_var(r->p, use);
    return var == VAR_NONE ? VAR_NONE : placement_root(r->p, var);
}

/* True where an fp32 value at this use keeps the reader's group from being low. */
static bool decides(const PlacementReasons *r, const Use *use) {
    return !r->mincut || placement_use_needs_low(r->p, use, r->produces);
}

static void note_use(PlacementReasons *r, const Use *use, uint32_t id, VarId producer) {
    Placement *p = r->p;
    VarId reader = use_root(r, use);
    if (reader == VAR_NONE) return;
    bool paid = r->mincut && !placement_use_is_free(use);
    if (paid) *(p->vars.items[reader].low ? &r->readers[id].low : &r->readers[id].fp32) += 1;
    if (p->vars.items[reader].pinned || p->vars.items[reader].low) return;
    bool outside = reader != producer && !p->flexible[id] && !p->vars.items[producer].low;
    if (outside && !r->fp32_uses[reader] && decides(r, use)) r->fp32_uses[reader] = use;
    if (!paid) return;
    VEC_PUSH(p->scratch, &r->use_values, id);
    VEC_PUSH(p->scratch, &r->use_next, r->use_first[reader]);
    r->use_first[reader] = (uint32_t)r->use_values.count - 1;
}

static void take_values(PlacementReasons *r) {
    Placement *p = r->p;
    for (uint32_t id = 0; id < p->value_count; id++) {
        const Value *value = p->values[id];
        if (!value || p->value_vars[id] == VAR_NONE) continue;
        VarId producer = placement_root(p, p->value_vars[id]);
        if (r->mincut) {
            r->next[id] = r->first[producer];
            r->first[producer] = id;
        }
        for (const Use *use = value->uses; use; use = use->next) note_use(r, use, id, producer);
    }
}

static uint32_t *empty_lists(Placement *p, size_t count) {
    uint32_t *lists = ARENA_ARRAY(p->scratch, uint32_t, count);
    for (size_t i = 0; i < count; i++) lists[i] = UINT32_MAX;
    return lists;
}

static void find_calls(PlacementReasons *r) {
    const Model *model = r->p->model;
    r->called = ARENA_ARRAY(r->p->scratch, bool, model->functions.count + 1);
    for (size_t i = 0; model->functions.count && i < r->p->graphs.count; i++)
        for (const Node *node = r->p->graphs.items[i]->first; node; node = node_after(node)) {
            const Function *function = model_find_function(model, node);
            if (function) r->called[function->index] = true;
        }
}

PlacementReasons *placement_reasons_new(Placement *p, bool mincut) {
    PlacementReasons *r = ARENA_NEW(p->scratch, PlacementReasons);
    r->p = p;
    r->mincut = mincut;
    r->low_reasons = ARENA_ARRAY(p->scratch, const char *, ops_count());
    find_calls(r);
    if (mincut) r->produces = placement_producers(p);
    return r;
}

static void fill_table(PlacementReasons *r) {
    Placement *p = r->p;
    size_t count = p->vars.count;
    if (r->filled) return;
    r->filled = true;
    r->fp32_uses = ARENA_ARRAY(p->scratch, const Use *, count);
    if (r->mincut) {
        r->first = empty_lists(p, count);
        r->use_first = empty_lists(p, count);
        r->next = ARENA_ARRAY(p->scratch, uint32_t, p->value_count);
        r->seen = ARENA_ARRAY(p->scratch, uint32_t, p->value_count);
        r->own_uses = ARENA_ARRAY(p->scratch, uint32_t, p->value_count);
        r->readers = ARENA_ARRAY(p->scratch, ReaderCount, p->value_count);
        r->costs = ARENA_ARRAY(p->scratch, int64_t, count);
        r->has_cost = ARENA_ARRAY(p->scratch, bool, count);
    }
    take_values(r);
}

/* ---- what lowering would cost ---------------------------------------------------------------- */

/* What a value costs, given its producer's precision and its readers', in half bytes. */
static int64_t cost_of(const Placement *p, uint32_t id, bool low, const ReaderCount *count) {
    const Value *value = p->values[id];
    bool any_low = count->low > 0, any_fp32 = count->fp32 > 0;
    bool constant = p->constant[id] && !value->referenced;
    bool cast = constant ? any_low && any_fp32 && !placement_is_number(p, id)
                : low    ? any_fp32
                         : any_low;
    bool fp32 = constant ? any_fp32 : !low;
    int64_t elements = (int64_t)placement_elements(value);
    int64_t stays = (constant ? COST_STORED : COST_FP32) * elements;
    return (cast ? COST_CAST + COST_CONVERTED * elements : 0) + (fp32 ? stays : 0);
}

/* Counted once for the root: what its lowering changes for a value that it makes or reads. */
static int64_t value_cost(PlacementReasons *r, uint32_t id, VarId root) {
    if (r->seen[id] != root + 1) return 0;
    r->seen[id] = 0;
    const ReaderCount *now = &r->readers[id];
    ReaderCount then = {.low = now->low + r->own_uses[id], .fp32 = now->fp32 - r->own_uses[id]};
    VarId producer = placement_root(r->p, r->p->value_vars[id]);
    bool low = r->p->vars.items[producer].low;
    return cost_of(r->p, id, low || producer == root, &then) - cost_of(r->p, id, low, now);
}

static void mark_value(PlacementReasons *r, uint32_t id, VarId root, uint32_t uses) {
    if (r->seen[id] != root + 1) r->own_uses[id] = 0;
    r->seen[id] = root + 1;
    r->own_uses[id] += uses;
}

int64_t placement_lowering_cost(PlacementReasons *r, VarId var) {
    VarId root = placement_root(r->p, var);
    fill_table(r);
    if (r->has_cost[root]) return r->costs[root];
    int64_t cost = 0;
    for (uint32_t id = r->first[root]; id != UINT32_MAX; id = r->next[id])
        mark_value(r, id, root, 0);
    for (uint32_t at = r->use_first[root]; at != UINT32_MAX; at = r->use_next.items[at])
        mark_value(r, r->use_values.items[at], root, 1);
    for (uint32_t id = r->first[root]; id != UINT32_MAX; id = r->next[id])
        cost += value_cost(r, id, root);
    for (uint32_t at = r->use_first[root]; at != UINT32_MAX; at = r->use_next.items[at])
        cost += value_cost(r, r->use_values.items[at], root);
    r->has_cost[root] = true;
    return r->costs[root] = cost;
}

/* ---- one variable ---------------------------------------------------------------------------- */

static NodeNote note(NoteKind kind, const char *reason) {
    return (NodeNote){.dtype = DTYPE_FLOAT, .kind = kind, .reason = reason};
}

static NodeNote follows(const PlacementReasons *r, VarId root, const Value *value) {
    return (NodeNote){.dtype = DTYPE_FLOAT,
                      .kind = r->p->vars.items[root].all ? NOTE_READS : NOTE_FOLLOWS,
                      .subject = sym_text(value->name)};
}

static NodeNote tied(const Node *node, const char *reason) {
    return (NodeNote){.dtype = DTYPE_FLOAT,
                      .kind = NOTE_TIED,
                      .reason = reason,
                      .subject = node ? node_label(node) : NULL};
}

/* The node whose operand a use is: its reader, or who holds the subgraph it is an output of. */
static const Node *use_node(const Use *use) {
    return use->node ? use->node : use_graph(use)->owner;
}

/* One of the node's own operands of that group that is fp32 and comes from outside. */
static const Value *own_fp32_operand(const PlacementReasons *r, const Node *node, VarId root) {
    Placement *p = r->p;
    for (uint32_t i = 0; i < node->input_count; i++) {
        const Value *value = node->inputs[i].value;
        if (!value || use_root(r, &node->inputs[i]) != root || p->flexible[value->id]) continue;
        VarId var = p->value_vars[value->id];
        VarId producer = var == VAR_NONE ? VAR_NONE : placement_root(p, var);
        if (producer == VAR_NONE || producer == root || p->vars.items[producer].low) continue;
        if (decides(r, &node->inputs[i])) return value;
    }
    return NULL;
}

/* Of a group that something outside it, which other members of it read, keeps in fp32. */
static NodeNote from_sources(const PlacementReasons *r, const Node *node, VarId root) {
    const Use *use = r->fp32_uses[root];
    const Node *reader = use_node(use);
    if (reader == node || !reader) return follows(r, root, use->value);
    return tied(reader, arena_printf(&r->p->model->arena, "reads '%s', which is in float32",
                                     sym_text(use->value->name)));
}

static NodeNote unpinned_note(PlacementReasons *r, const Node *node, VarId root) {
    Placement *p = r->p;
    const Value *own = own_fp32_operand(r, node, root);
    if (own) return follows(r, root, own);
    bool flexible = !r->mincut && p->vars.items[root].flexible;
    if (!flexible) fill_table(r);
    if (!flexible && r->fp32_uses[root]) return from_sources(r, node, root);
    if (!r->mincut) return note(NOTE_CONSTANT, "computed from constants that are read in float32");
    NodeNote cheaper = note(NOTE_CHEAPER, NULL);
    int64_t cost = placement_lowering_cost(r, root);
    cheaper.cost = cost > 0 ? (cost + 1) / 2 : cost;
    return cheaper;
}

static NodeNote pinned_note(const PlacementReasons *r, const Node *node, VarId root) {
    VarId culprit = r->p->vars.items[root].culprit;
    if (root == VAR_FP32 || culprit == VAR_NONE || culprit == VAR_FP32)
        return tied(NULL, "tied to a value whose type is fixed");
    const PlaceVar *var = &r->p->vars.items[culprit];
    if (var->node == node) return note((NoteKind)var->kind, var->reason);
    if (var->node) return tied(var->node, var->reason);
    return tied(NULL, arena_printf(&r->p->model->arena, "tied: %s", var->reason));
}

static NodeNote var_note(PlacementReasons *r, const Node *node, VarId var) {
    const PlaceVar *own = &r->p->vars.items[var];
    if (own->reason) return note((NoteKind)own->kind, own->reason);
    VarId root = placement_root(r->p, var);
    return r->p->vars.items[root].pinned ? pinned_note(r, node, root)
                                         : unpinned_note(r, node, root);
}

/* ---- one node -------------------------------------------------------------------------------- */

/* The variables of a node, operand by operand; VAR_NONE where one holds no float32. */
static VarId operand_at(const Placement *p, const Node *node, uint32_t i) {
    if (i < node->input_count) return placement_use_var(p, &node->inputs[i]);
    const Value *out = node->outputs[i - node->input_count];
    return out ? p->value_vars[out->id] : VAR_NONE;
}

static NodeNote low_note(PlacementReasons *r, const Node *node, VarId var) {
    Placement *p = r->p;
    const PlaceVar *root = &p->vars.items[placement_root(p, var)];
    const OpSchema *schema = node_schema(node);
    NodeNote low = {
        .dtype = p->request.target, .kind = NOTE_LOW, .reason = "follows what it reads"};
    if (r->mincut)
        low.reason = "cheaper in 16-bit";
    else if (root->flexible)
        low.reason = "computed from constants that are read in 16-bit";
    bool own = op_class_of(node, p->request.classes).op_class == CLASS_LOW;
    if (!own || !root->wants_low || !schema) return low;
    size_t place = (size_t)(schema - ops_at(0));
    if (schema < ops_at(0) || place >= ops_count()) {
        low.reason = "it is a 16-bit operator";
        return low;
    }
    if (!r->low_reasons[place])
        r->low_reasons[place] =
            arena_printf(&p->model->arena, "%s is a 16-bit operator", schema->name);
    low.reason = r->low_reasons[place];
    return low;
}

static NodeNote constant_note(PlacementReasons *r, const Value *value) {
    bool any_low = false, any_fp32 = false;
    for (const Use *use = value->uses; use; use = use->next) {
        VarId reader = use_root(r, use);
        if (reader != VAR_NONE && r->p->vars.items[reader].low)
            any_low = true;
        else
            any_fp32 = true;
    }
    if (!any_low && !any_fp32) return note(NOTE_CONSTANT, "a constant that nothing reads");
    if (!any_low) return note(NOTE_CONSTANT, "a constant that is read in float32");
    return note(NOTE_CONSTANT, any_fp32 ? "a constant that is read in float32 and in 16-bit"
                                        : "a constant that is cast where it is read");
}

static Dtype any_dtype(const Node *node) {
    for (uint32_t i = 0; i < node->output_count; i++)
        if (node->outputs[i] && type_dtype(node->outputs[i]->type))
            return type_dtype(node->outputs[i]->type);
    return DTYPE_UNDEFINED;
}

/* The first operand that nothing is known of, or NULL. */
static const Value *unknown_operand(const Node *node) {
    OpType type;
    for (uint32_t i = 0; i < node->input_count + node->output_count; i++) {
        const Value *value =
            i < node->input_count ? node->inputs[i].value : node->outputs[i - node->input_count];
        if (value && !op_type_from(value->type, &type)) return value;
    }
    return NULL;
}

/* A node with no float32 that is known of. */
static NodeNote typeless_note(const PlacementReasons *r, const Node *node) {
    Arena *arena = &r->p->model->arena;
    const Function *function = node->graph->function;
    const Value *value = unknown_operand(node);
    NodeNote result = note(NOTE_NO_FLOAT, "has no float32 values");
    result.dtype = any_dtype(node);
    if (!value) return result;
    result.kind = NOTE_UNKNOWN;
    if (!function)
        result.reason = arena_printf(arena, "type unknown: operand '%s'", sym_text(value->name));
    else
        result.reason = arena_printf(
            arena,
            r->called[function->index] ? "type unknown: function %s is called with different types"
                                       : "type unknown: function %s is never called",
            sym_text(function->name));
    return result;
}

/* The note of a node none of whose variables is low: of its own decision before that of an operand
 * that it keeps in fp32 anyway. */
static NodeNote fp32_note(PlacementReasons *r, const Node *node) {
    Placement *p = r->p;
    uint32_t count = node->input_count + node->output_count;
    VarId aside = VAR_NONE;
    bool fixed = false;
    for (uint32_t i = 0; i < count; i++) {
        VarId var = operand_at(p, node, i);
        fixed |= var == VAR_FP32;
        if (var == VAR_NONE || var == VAR_FP32) continue;
        if (!p->vars.items[var].aside) return var_note(r, node, var);
        if (aside == VAR_NONE) aside = var;
    }
    if (aside != VAR_NONE) return var_note(r, node, aside);
    if (fixed) return note(NOTE_FIXED, "its floating-point operands have a fixed type");
    return typeless_note(r, node);
}

NodeNote placement_note(PlacementReasons *r, const Node *node) {
    Placement *p = r->p;
    const Value *out = node->output_count ? node->outputs[0] : NULL;
    if (p->stays[node->id])
        return note(NOTE_FIXED, "part of a training update, which is kept in float32");
    if (out && p->constant[out->id]) return constant_note(r, out);
    for (uint32_t i = 0; i < node->input_count + node->output_count; i++) {
        VarId var = operand_at(p, node, i);
        if (placement_is_low(p, var)) return low_note(r, node, var);
    }
    return fp32_note(r, node);
}
