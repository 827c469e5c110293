// SPDX-License-Identifier: Apache-2.0
/* Values that 16 bits are too few for, whatever the class of what computes them: angles,
 * coordinates, indices.
 *
 *     t = MatMul(frequencies, positions); e = Concat(t, t); c = Cos(e)
 *
 * MatMul is a 16-bit operator, and positions of 2,000 would leave the angle off by a radian. Cos
 * itself is an fp32 operator, but that comes too late. So what feeds such an operand alone
 * (ASKS of operators/) stays fp32: arithmetic and data movement all the way back, and one
 * product of matrices, behind which there are a network's own values and no angles. Where a sigmoid
 * or softmax gives the operand, that alone stays. What feeds something else too (the waves that a
 * layer adds to its own input) is decided as ever; an output of the model and a look at the shape
 * count for nothing.
 *
 * A decision belongs to a tie group (placement.h), and so does "alone": it holds of a group where
 * it holds of all that reads any of its values. That takes loops' states, branches and formals of
 * functions along. What comes elsewhere is found first, then how far each such operand reaches
 * back, in time linear in the number of uses, and none in a model without such an operand.
 */
#include "constants.h"
#include "op_facts.h"
#include "op_record.h"
#include "op_types.h"
#include "placement.h"
#include "text_order.h"

/* What an operator is here, of which the cache keeps a byte: 0 where it was not looked up yet, else
 * ROLE_KNOWN, whether some operand asks, and its OpExact. */
enum { ROLE_KNOWN = 1, ROLE_ASKS = 2, ROLE_EXACT = 4 };

/* How far back an operand asks. */
typedef enum Reach {
    REACH_NONE,
    REACH_NEAR, /* up to the next product */
    REACH_FAR,  /* past one */
} Reach;

/* A value of group `producer` that group `reader` reads. */
typedef struct Link {
    VarId producer;
    uint32_t next; /* of the same reader; UINT32_MAX ends */
} Link;

typedef struct Precise {
    Placement *p;
    bool *stops, *products; /* by root: some node of it carries nothing; is a product */
    bool *bars;             /* by root: of those that stop, some node does not even end here */
    bool *squares;          /* by root: some node of it squares */
    bool *elsewhere;        /* by root: what it gives comes to more than such operands */
    uint8_t *reach;         /* by root: a Reach, the farthest of the operands it comes to */
    const char **reasons;   /* by root */
    uint32_t *first;        /* by root: its links as a reader */
    VEC(Link) links;
    VEC(VarId) queue;
} Precise;

/* ---- roles ----------------------------------------------------------------------------------- */

static const OpRecord *find_asks(const OpSchema *schema, uint32_t operand) {
    const OpRecord *record = op_record_find(schema->domain, schema->name);
    return record && operand < 8 && (record->asks >> operand & 1) ? record : NULL;
}

static uint8_t find_roles(const OpSchema *schema) {
    const OpRecord *record = op_record_find(schema->domain, schema->name);
    uint8_t exact = record ? record->exact : (uint8_t)EXACT_NONE;
    if (exact == EXACT_NONE && op_has_flags(schema, OP_MOVES)) exact = EXACT_CARRIES;
    return (uint8_t)(ROLE_KNOWN | (record && record->asks ? ROLE_ASKS : 0) | ROLE_EXACT * exact);
}

/* Operators that the table of published ones lacks have no role. */
static uint8_t roles_of(Placement *p, const OpSchema *schema) {
    size_t place = schema ? (size_t)(schema - ops_at(0)) : ops_count();
    if (!schema || schema < ops_at(0) || place >= ops_count()) return ROLE_KNOWN;
    if (!p->op_roles[place]) p->op_roles[place] = find_roles(schema);
    return p->op_roles[place];
}

void placement_note_asking(Placement *p, const OpSchema *schema) {
    p->asks |= (roles_of(p, schema) & ROLE_ASKS) != 0;
}

OpExact placement_precise_role(Placement *p, const OpSchema *schema) {
    return (OpExact)(roles_of(p, schema) / ROLE_EXACT);
}

bool placement_holds_bodies(const Node *node) {
    for (const Attr *attr = node->attrs; attr; attr = attr->next)
        if (attr->type == ATTR_GRAPH) return true;
    return false;
}

static bool casts_to_integer(const Node *node) {
    return node->output_count && node->outputs[0] &&
           dtype_is_integer(type_dtype(node->outputs[0]->type));
}

/* Why what is read here has to be exact; NULL where it does not, or where the user lets the reader
 * run in 16 bit itself. */
static const OpRecord *asks_of(Precise *c, const Use *use, VarId reader) {
    const OpSchema *schema = use->node ? node_schema(use->node) : NULL;
    if (!(roles_of(c->p, schema) & ROLE_ASKS) || !c->p->vars.items[reader].pinned) return NULL;
    const OpRecord *row = find_asks(schema, use->index);
    bool cast = row && text_equals(row->name, "Cast");
    return cast && !casts_to_integer(use->node) ? NULL : row;
}

/* ---- who reads what -------------------------------------------------------------------------- */

static const char *reason_of(const Precise *c, const OpRecord *row) {
    return arena_printf(&c->p->model->arena, "feeds only %s, and 16 bits are too few for %s",
                        row->name, row->asks_for);
}

static bool is_model_output(const Use *use) {
    return !use->node && !use_graph(use)->owner && !use_graph(use)->function;
}

/* Outputs of the model, casts to such, and readers that see no values, neither ask nor forbid. */
static bool is_neutral(const Use *use) {
    if (!use->node) return is_model_output(use);
    if (node_is_own_cast(use->node)) { /* of a conversion before */
        for (const Use *last = use->node->outputs[0]->uses; last; last = last->next)
            if (!is_model_output(last)) return false;
        return true;
    }
    const OpSchema *schema = node_schema(use->node);
    return schema && op_has_flags(schema, OP_SHAPE_ONLY);
}

static void take_use(Precise *c, const Use *use, VarId producer) {
    VarId var = placement_use_var(c->p, use);
    if (var == VAR_NONE || is_neutral(use)) return;
    VarId reader = placement_root(c->p, var);
    const OpRecord *row = asks_of(c, use, reader);
    if (row) {
        Reach reach = text_equals(row->asks_for, "indices") ? REACH_NEAR : REACH_FAR;
        if (reach > c->reach[producer]) {
            c->reach[producer] = (uint8_t)reach;
            c->reasons[producer] = reason_of(c, row);
        }
        return;
    }
    if (reader == producer) return;
    VEC_PUSH(c->p->scratch, &c->links, ((Link){producer, c->first[reader]}));
    c->first[reader] = (uint32_t)c->links.count - 1;
}

static void take_uses(Precise *c) {
    Placement *p = c->p;
    for (uint32_t id = 0; id < p->value_count; id++) {
        const Value *value = placement_value(p, id);
        if (!value || p->value_vars[id] == VAR_NONE) continue;
        VarId producer = placement_root(p, p->value_vars[id]);
        if (producer == VAR_FP32) continue;
        for (const Use *use = value->uses; use; use = use->next) take_use(c, use, producer);
    }
}

bool placement_node_squares(const Node *node) {
    float exponent;
    if (!domain_is_default(node->domain) || node->input_count == 0) return false;
    if (sym_equals(node->op_type, "ReduceSumSquare")) return true;
    if (node->input_count < 2 || !node->inputs[1].value) return false;
    const Value *a = node->inputs[0].value, *b = node->inputs[1].value;
    if (sym_equals(node->op_type, "Mul")) return a == b;
    return sym_equals(node->op_type, "Pow") && value_is_constant(b) &&
           constant_scalar(b, &exponent) && exponent == 2.0f;
}

static void take_node(Precise *c, const Node *node) {
    Placement *p = c->p;
    bool inside = placement_holds_bodies(node) || model_find_function(p->model, node);
    OpExact role = inside ? EXACT_CARRIES : placement_precise_role(p, node_schema(node));
    for (uint32_t i = 0; i < node->output_count; i++) {
        const Value *out = node->outputs[i];
        VarId var = out ? p->value_vars[out->id] : VAR_NONE;
        if (var == VAR_NONE) continue;
        VarId root = placement_root(p, var);
        if (role == EXACT_NONE || role == EXACT_ENDS) c->stops[root] = true;
        if (role == EXACT_NONE) c->bars[root] = true;
        if (role == EXACT_PRODUCT) c->products[root] = true;
        if (placement_node_squares(node)) c->squares[root] = true;
    }
}

static void take_nodes(Precise *c) {
    Placement *p = c->p;
    for (size_t g = 0; g < p->graphs.count; g++)
        for (const Node *node = p->graphs.items[g]->first; node; node = node_after(node))
            take_node(c, node);
    for (size_t i = 0; i < p->model->graph->inputs.count; i++) { /* the caller's own word */
        VarId var = p->value_vars[p->model->graph->inputs.items[i]->id];
        if (var == VAR_NONE) continue;
        c->stops[placement_root(p, var)] = c->bars[placement_root(p, var)] = true;
    }
}

/* ---- deciding -------------------------------------------------------------------------------- */

static void leave(Precise *c, VarId root) {
    if (c->elsewhere[root]) return;
    c->elsewhere[root] = true;
    VEC_PUSH(c->p->scratch, &c->queue, root);
}

static void leave_sources(Precise *c, VarId root) {
    for (uint32_t at = c->first[root]; at != UINT32_MAX; at = c->links.items[at].next)
        leave(c, c->links.items[at].producer);
}

/* By root: what comes to such an operand at all, through arithmetic. */
static bool *find_asked(Precise *c, size_t count) {
    bool *asked = ARENA_ARRAY(c->p->scratch, bool, count);
    for (VarId root = 1; root < count; root++) {
        asked[root] = c->reach[root] != REACH_NONE;
        if (asked[root]) VEC_PUSH(c->p->scratch, &c->queue, root);
    }
    for (size_t i = 0; i < c->queue.count; i++) {
        if (c->stops[c->queue.items[i]]) continue;
        for (uint32_t at = c->first[c->queue.items[i]]; at != UINT32_MAX;
             at = c->links.items[at].next) {
            VarId producer = c->links.items[at].producer;
            if (!asked[producer]) VEC_PUSH(c->p->scratch, &c->queue, producer);
            asked[producer] = true;
        }
    }
    c->queue.count = 0;
    return asked;
}

/* Whatever comes to an operator that carries nothing or comes to no such operand, or to what itself
 * does. A loop of values that comes to angles alone is not among it. */
static void find_elsewhere(Precise *c, size_t count) {
    const bool *asked = find_asked(c, count);
    for (VarId root = 0; root < count; root++)
        if (placement_root(c->p, root) == root && (c->stops[root] || !asked[root]))
            leave_sources(c, root);
    for (size_t i = 0; i < c->queue.count; i++) leave_sources(c, c->queue.items[i]);
    c->queue.count = 0;
}

/* What a group reads, the operands it comes to ask of, too. */
static void pass_on(Precise *c, VarId root, Reach reach) {
    for (uint32_t at = c->first[root]; at != UINT32_MAX; at = c->links.items[at].next) {
        VarId producer = c->links.items[at].producer;
        if (reach <= c->reach[producer]) continue;
        c->reach[producer] = (uint8_t)reach;
        c->reasons[producer] = c->reasons[root];
        VEC_PUSH(c->p->scratch, &c->queue, producer);
    }
}

static void decide(Precise *c, VarId root) {
    Reach reach = (Reach)c->reach[root];
    if (c->elsewhere[root] || c->bars[root] || root == VAR_FP32) return;
    if (c->products[root] && reach == REACH_NEAR) return;
    placement_pin(c->p, root, NOTE_PRECISE, c->reasons[root]);
    c->p->vars.items[root].precise = true;
    if (c->stops[root]) return;
    if (c->products[root]) reach = REACH_NEAR;
    pass_on(c, root, c->squares[root] ? REACH_FAR : reach);
}

void placement_keep_precise(Placement *p) {
    size_t count = p->vars.count;
    Precise c = {.p = p};
    if (!p->asks) return;
    c.stops = ARENA_ARRAY(p->scratch, bool, count);
    c.bars = ARENA_ARRAY(p->scratch, bool, count);
    c.squares = ARENA_ARRAY(p->scratch, bool, count);
    c.products = ARENA_ARRAY(p->scratch, bool, count);
    c.elsewhere = ARENA_ARRAY(p->scratch, bool, count);
    c.reach = ARENA_ARRAY(p->scratch, uint8_t, count);
    c.reasons = ARENA_ARRAY(p->scratch, const char *, count);
    c.first = ARENA_ARRAY(p->scratch, uint32_t, count);
    for (size_t i = 0; i < count; i++) c.first[i] = UINT32_MAX;
    take_uses(&c);
    take_nodes(&c);
    find_elsewhere(&c, count);
    for (VarId root = 1; root < count; root++)
        if (c.reach[root]) VEC_PUSH(p->scratch, &c.queue, root);
    for (size_t i = 0; i < c.queue.count; i++) decide(&c, c.queue.items[i]);
}
