// SPDX-License-Identifier: Apache-2.0
/* The plan of move-casts: sites are gathered from the casts outwards, what changes no value is
 * found by two sweeps, and a minimum cut decides. A group of connected sites is left alone unless
 * the cut is cheaper than what is there, so that a second run finds nothing to do. */
#include "move_plan.h"

#include "constants.h"
#include "max_flow.h"
#include "op_facts.h"
#include "op_types.h"
#include "placement.h"

enum {
    EXACT_ELEMENTS_MAX = 4096, /* constants beyond are taken for inexact */
    MOVED_BITS = 8,
};

static const uint64_t COST_MAX = UINT64_C(1) << 38; /* of the whole network */

static Dtype dtype_of(const Value *value) {
    return type_dtype(value->type);
}

static bool is_low(const MovePlan *plan, const Value *value) {
    return dtype_of(value) == plan->narrow;
}

static bool in_pair(const MovePlan *plan, const Value *value) {
    Dtype dtype = dtype_of(value);
    return value_type(value)->kind == TYPE_TENSOR && (dtype == plan->wide || dtype == plan->narrow);
}

/* ---- casts and readers ----------------------------------------------------------------------- */

static bool is_pair_cast(const MovePlan *plan, const Node *cast) {
    if (!cast || !node_is_own_cast(cast)) return false;
    const Value *from = cast->inputs[0].value, *to = cast->outputs[0];
    return from->graph == cast->graph && !to->referenced && in_pair(plan, from) &&
           in_pair(plan, to) && dtype_of(from) != dtype_of(to);
}

bool move_plan_is_shared_cast(const MovePlan *plan, const Node *cast) {
    return is_pair_cast(plan, cast) && !is_pair_cast(plan, cast->inputs[0].value->producer);
}

/* The value that this one is a shared cast of, or itself. */
static Value *move_plan_origin(const MovePlan *plan, Value *value) {
    bool cast = move_plan_is_shared_cast(plan, value->producer);
    return cast ? value->producer->inputs[0].value : value;
}

/* True where input i of the site is moved. */
static bool move_site_moves(const MoveSite *site, uint32_t i) {
    return site->moved >> (i < MOVED_BITS ? i : MOVED_BITS - 1) & 1;
}

static uint32_t site_at(const MovePlan *plan, const Use *use) {
    if (!use->node || use->node->id >= plan->node_count) return 0;
    uint32_t site = plan->site_of[use->node->id];
    return site && move_site_moves(&plan->sites.items[site - 1], use->index) ? site : 0;
}

static void add_reader(const MovePlan *plan, Use *use, MoveReaders *readers) {
    MoveReader reader = {use, is_low(plan, use->value), site_at(plan, use)};
    VEC_PUSH(plan->ctx->scratch, &readers->list, reader);
}

/* All that reads `value`, in *readers, which is emptied first. */
static void list_readers(const MovePlan *plan, const Value *value, MoveReaders *readers) {
    readers->list.count = 0;
    for (Use *use = value->uses; use; use = use->next) {
        if (!move_plan_is_shared_cast(plan, use->node)) {
            add_reader(plan, use, readers);
            continue;
        }
        for (Use *through = use->node->outputs[0]->uses; through; through = through->next)
            add_reader(plan, through, readers);
    }
}

/* ---- sizes ----------------------------------------------------------------------------------- */

static uint32_t unknown_dims(const Type *type) {
    uint32_t count = 0;
    if (!type->has_shape) return UINT32_MAX;
    for (uint32_t i = 0; i < type->rank; i++) count += type->dims[i].kind == DIM_UNKNOWN;
    return count;
}

/* The value's type, or that of a cast of it: of the same shape, of which it may say more, since a
 * graph's output is declared and what a cast makes one of may not be. */
static const Type *shaped_type(const MovePlan *plan, const Value *value) {
    if (plan->shapes[value->id]) return plan->shapes[value->id];
    const Type *best = value_type(value);
    uint32_t least = unknown_dims(best);
    for (const Use *use = value->uses; least && use; use = use->next) {
        if (!move_plan_is_shared_cast(plan, use->node)) continue;
        const Type *type = value_type(use->node->outputs[0]);
        if (unknown_dims(type) >= least) continue;
        best = type;
        least = unknown_dims(type);
    }
    return plan->shapes[value->id] = best;
}

/* What of a's dimensions b does not have: the product of known ones, and whether a symbol is left.
 * False where a dimension is unknown. */
static bool measure(const Type *a, const Type *b, uint64_t *known, bool *symbols) {
    *known = 1;
    *symbols = false;
    if (!a->has_shape || !b->has_shape || b->rank > 64) return false;
    uint64_t used = 0;
    for (uint32_t i = 0; i < a->rank; i++) {
        const Dim *dim = &a->dims[i];
        if (dim->kind == DIM_KNOWN ? dim->size < 0 : !dim_is_named(dim)) return false;
        if (dim->kind == DIM_KNOWN) {
            uint64_t size = (uint64_t)dim->size;
            *known = size && *known > COST_MAX / size ? COST_MAX : *known * size;
            continue;
        }
        uint32_t k = 0;
        while (k < b->rank && (used >> k & 1 || !dim_same(dim, &b->dims[k]))) k++;
        if (k < b->rank)
            used |= UINT64_C(1) << k;
        else
            *symbols = true;
    }
    return true;
}

/* True where it is certain which of two types has more elements, a symbol standing for one at
 * least. */
static bool is_comparable(const Type *a, const Type *b) {
    uint64_t of_a, of_b;
    bool more_a, more_b;
    if (!measure(a, b, &of_a, &more_a) || !measure(b, a, &of_b, &more_b)) return false;
    if (more_a && more_b) return false;
    return (!more_a || of_a >= of_b) && (!more_b || of_b >= of_a);
}

static bool sizes_are_certain(const MovePlan *plan, const MoveSite *site, const OpFlags *flags) {
    const Node *node = site->node;
    if (flags->flags & (OP_KEEPS_COUNT | OP_SHRINKS | OP_GROWS)) return true;
    for (uint32_t i = 0; i < node->input_count; i++) {
        Value *value = move_site_moves(site, i) ? node->inputs[i].value : NULL;
        const Type *in = value ? shaped_type(plan, move_plan_origin(plan, value)) : NULL;
        for (uint32_t o = 0; in && o < node->output_count; o++)
            if (node->outputs[o] && !is_comparable(in, shaped_type(plan, node->outputs[o])))
                return false;
    }
    return true;
}

/* The first moved operand behind a site's output, where its operator says how the sizes compare. */
static Value *size_source(const MovePlan *plan, const Value *value, unsigned *flags) {
    const Node *node = value->producer;
    if (!node || node->id >= plan->node_count || !plan->site_of[node->id]) return NULL;
    *flags = op_flags(node_schema(node))->flags & (OP_KEEPS_COUNT | OP_SHRINKS | OP_GROWS);
    Value *source = node->inputs[0].value;
    return *flags && source ? move_plan_origin(plan, source) : NULL;
}

static uint64_t combine(unsigned flags, uint64_t own, uint64_t source) {
    if (flags & OP_KEEPS_COUNT) return source;
    if (flags & OP_SHRINKS) return own < source ? own : source;
    return own > source ? own : source;
}

/* Estimates along a chain of sites must not contradict what their operators say. */
static uint64_t elements_of(MovePlan *plan, Value *value) {
    VEC(Value *) chain = {0};
    unsigned flags;
    for (Value *at = value; at && !plan->elements[at->id]; at = size_source(plan, at, &flags))
        VEC_PUSH(plan->ctx->scratch, &chain, at);
    for (size_t i = chain.count; i-- > 0;) {
        const Value shaped = {.type = shaped_type(plan, chain.items[i])};
        uint64_t own = placement_elements(&shaped);
        const Value *source = size_source(plan, chain.items[i], &flags);
        plan->elements[chain.items[i]->id] =
            source ? combine(flags, own, plan->elements[source->id]) : own;
    }
    return plan->elements[value->id];
}

/* ---- sites ----------------------------------------------------------------------------------- */

static bool allows(const MovePlan *plan, const OpSchema *schema, const OpParam *param) {
    const TypeSet *types = op_param_types(schema, param);
    const char *var = schema->vars[param->var].name;
    return type_set_has(types, OPTYPE_TENSOR, plan->wide) &&
           type_set_has(types, OPTYPE_TENSOR, plan->narrow) &&
           !op_refusal(schema, var, plan->wide) && !op_refusal(schema, var, plan->narrow);
}

/* An output of the type variable `var`, whose name can go along. */
static bool output_can_change(const MovePlan *plan, const OpSchema *schema, const Node *node,
                              uint32_t o) {
    const Value *value = node->outputs[o];
    if (!value) return true;
    const OpParam *param = op_schema_output(schema, o);
    bool may = param && param->var != OP_NO_VAR && !value->referenced && in_pair(plan, value);
    for (const Use *use = value->uses; may && use; use = use->next)
        if (move_plan_is_shared_cast(plan, use->node) &&
            value_is_named_output(use->node->outputs[0]))
            may = !value_is_named_output(value);
    return may;
}

/* The moved operands are all operands of one type variable; so are the outputs. */
static bool operands_can_change(const MovePlan *plan, const OpSchema *schema,
                                const MoveSite *site) {
    const Node *node = site->node;
    uint8_t var = OP_NO_VAR;
    Dtype dtype = site->low ? plan->narrow : plan->wide;
    for (uint32_t i = 0; i < node->input_count; i++) {
        const Value *value = node->inputs[i].value;
        const OpParam *param = op_schema_input(schema, i);
        if (!param || (value && value->graph != node->graph && move_site_moves(site, i)))
            return false;
        if (!move_site_moves(site, i)) {
            if (value && var != OP_NO_VAR && param->var == var) return false;
            continue;
        }
        if (param->var == OP_NO_VAR || (var != OP_NO_VAR && param->var != var)) return false;
        var = param->var;
        if (!allows(plan, schema, param)) return false;
        if (value && (!in_pair(plan, value) || dtype_of(value) != dtype)) return false;
    }
    for (uint32_t o = 0; o < node->output_count; o++) {
        const OpParam *param = op_schema_output(schema, o);
        if (!param || param->var != var || !output_can_change(plan, schema, node, o)) return false;
        if (node->outputs[o] && dtype_of(node->outputs[o]) != dtype) return false;
    }
    return true;
}

/* Bit i for actual input i; a variadic formal stands for all from its place on. */
static uint8_t moved_inputs(const OpSchema *schema, uint8_t formals) {
    unsigned last = schema->input_count - 1u;
    bool variadic =
        last < MOVED_BITS && (formals >> last & 1) && schema->inputs[last].option == OP_VARIADIC;
    return (uint8_t)(variadic ? formals | 0xffu << last : formals);
}

static bool make_site(const MovePlan *plan, Node *node, MoveSite *site) {
    if (node->id >= plan->node_count || (node->note && node->note->settled)) return false;
    const OpSchema *schema = node_schema(node);
    const OpFlags *flags = schema ? op_flags(schema) : NULL;
    if (!flags || !(flags->flags & OP_MOVES) || schema->deprecated) return false;
    if (model_find_function(plan->ctx->model, node)) return false;
    if (flags->unless_attr && node_attr(node, flags->unless_attr)) return false;
    if (!node->input_count || !node->output_count || !node->outputs[0]) return false;
    *site = (MoveSite){.node = node,
                       .moved = moved_inputs(schema, flags->moved),
                       .low = is_low(plan, node->outputs[0]),
                       .fits = true};
    return operands_can_change(plan, schema, site) && sizes_are_certain(plan, site, flags);
}

static void list_value(MovePlan *plan, Value *value) {
    value = move_plan_origin(plan, value);
    if (plan->listed[value->id] || !in_pair(plan, value)) return;
    VEC_PUSH(plan->ctx->scratch, &plan->values, value);
    plan->listed[value->id] = (uint32_t)plan->values.count;
}

static void visit_node(MovePlan *plan, Node *node) {
    MoveSite site;
    if (!node || node->id >= plan->node_count || plan->visited[node->id]) return;
    plan->visited[node->id] = true;
    if (!make_site(plan, node, &site)) return;
    site.group = (uint32_t)plan->sites.count;
    VEC_PUSH(plan->ctx->scratch, &plan->sites, site);
    plan->site_of[node->id] = (uint32_t)plan->sites.count;
    for (uint32_t i = 0; i < node->input_count; i++)
        if (node->inputs[i].value && move_site_moves(&site, i))
            list_value(plan, node->inputs[i].value);
    for (uint32_t o = 0; o < node->output_count; o++)
        if (node->outputs[o]) list_value(plan, node->outputs[o]);
}

/* Everything that casts can move to, from the casts outwards. */
static void gather(MovePlan *plan) {
    GraphList graphs = model_graphs(plan->ctx->model, plan->ctx->scratch);
    MoveReaders readers = {0};
    for (size_t g = 0; g < graphs.count; g++)
        for (Node *node = graphs.items[g]->first; node; node = node_after(node))
            if (move_plan_is_shared_cast(plan, node))
                list_value(plan, node->inputs[0].value);
            else
                plan->chained |= is_pair_cast(plan, node);
    for (size_t i = 0; i < plan->values.count; i++) {
        Value *value = plan->values.items[i];
        visit_node(plan, value->producer);
        list_readers(plan, value, &readers);
        for (size_t r = 0; r < readers.list.count; r++)
            visit_node(plan, readers.list.items[r].use->node);
    }
    plan->readers = ARENA_ARRAY(plan->ctx->scratch, MoveReaders, plan->values.count);
    for (size_t i = 0; plan->sites.count && i < plan->values.count; i++)
        list_readers(plan, plan->values.items[i], &plan->readers[i]);
}

/* Of a value that a site gives. */
static const MoveReaders *readers_of(const MovePlan *plan, const Value *value) {
    return &plan->readers[plan->listed[value->id] - 1];
}

/* ---- what changes no value ------------------------------------------------------------------- */

static uint32_t producer_site(const MovePlan *plan, const Value *value) {
    const Node *node = value->producer;
    return node && node->id < plan->node_count ? plan->site_of[node->id] : 0;
}

/* True where all elements are values of the narrow type: small constants are looked at. */
static bool is_exact_constant(const MovePlan *plan, const Value *value) {
    Arena *scratch = plan->ctx->scratch;
    const Tensor *tensor = constant_tensor(value, scratch);
    unsigned width = dtype_bits(plan->wide) / 8;
    bool held = dtype_is_float(plan->wide) || width < 8; /* by a double */
    if (!tensor || !held || !tensor_check(tensor, NULL) || tensor->dtype != (int32_t)plan->wide ||
        tensor_count(tensor) > EXACT_ELEMENTS_MAX)
        return false;
    uint64_t size = tensor_raw_size(tensor);
    unsigned char *bytes = ARENA_ARRAY(scratch, unsigned char, size);
    if (!tensor_read_raw(tensor, 0, bytes, size, NULL)) return false;
    for (uint64_t at = 0; at < size; at += width) {
        uint64_t bits = 0, low = 0;
        double number, back;
        memcpy(&bits, bytes + at, width);
        if (!dtype_to_double(plan->wide, bits, &number) ||
            !dtype_from_double(plan->narrow, number, &low) ||
            !dtype_to_double(plan->narrow, low, &back) || memcmp(&number, &back, sizeof back) != 0)
            return false;
    }
    return true;
}

/* Makes `site` one that does not fit, and all behind it. */
static void spread_unfit(MovePlan *plan, uint32_t site) {
    VEC(uint32_t) queue = {0};
    VEC_PUSH(plan->ctx->scratch, &queue, site);
    for (size_t q = 0; q < queue.count; q++) {
        MoveSite *at = &plan->sites.items[queue.items[q]];
        if (!at->fits) continue;
        at->fits = false;
        for (uint32_t o = 0; o < at->node->output_count; o++) {
            if (!at->node->outputs[o]) continue;
            const MoveReaders *readers = readers_of(plan, at->node->outputs[o]);
            for (size_t r = 0; r < readers->list.count; r++)
                if (readers->list.items[r].site)
                    VEC_PUSH(plan->ctx->scratch, &queue, readers->list.items[r].site - 1);
        }
    }
}

/* Makes `site` one whose result is needed in the wide type, and all before it. */
static void spread_need(MovePlan *plan, uint32_t site) {
    VEC(uint32_t) queue = {0};
    VEC_PUSH(plan->ctx->scratch, &queue, site);
    for (size_t q = 0; q < queue.count; q++) {
        MoveSite *at = &plan->sites.items[queue.items[q]];
        if (at->needs) continue;
        at->needs = true;
        for (uint32_t i = 0; i < at->node->input_count; i++) {
            Value *value = at->node->inputs[i].value;
            uint32_t before = 0;
            if (value && move_site_moves(at, i))
                before = producer_site(plan, move_plan_origin(plan, value));
            if (before) VEC_PUSH(plan->ctx->scratch, &queue, before - 1);
        }
    }
}

static void find_freedom(MovePlan *plan) {
    for (size_t i = 0; i < plan->values.count; i++) {
        Value *value = plan->values.items[i];
        const MoveReader *readers = plan->readers[i].list.items;
        size_t count = plan->readers[i].list.count;
        uint32_t producer = producer_site(plan, value);
        bool exact = producer || is_low(plan, value), read = false;
        for (size_t r = 0; r < count; r++) {
            if (!readers[r].site && !readers[r].low && producer) spread_need(plan, producer - 1);
            read |= readers[r].site != 0;
        }
        if (exact || !read || is_exact_constant(plan, value)) continue;
        for (size_t r = 0; r < count; r++)
            if (readers[r].site) spread_unfit(plan, readers[r].site - 1);
    }
}

/* ---- the cut --------------------------------------------------------------------------------- */

typedef struct Cut {
    MovePlan *plan;
    FlowNetwork flow;
    int64_t infinite;
    unsigned shift;
    uint32_t *seen; /* by network node: the value that last listed it, plus one */
    VEC(uint32_t) nodes;
    uint64_t *before, *after; /* by site: what its group's casts cost, at the group's root */
} Cut;

static uint32_t group_of(MovePlan *plan, uint32_t site) {
    MoveSite *sites = plan->sites.items;
    while (sites[site].group != site) site = sites[site].group = sites[sites[site].group].group;
    return site;
}

static uint32_t fixed_node(bool low) {
    return low ? FLOW_SOURCE : FLOW_SINK;
}

/* A site that is not free stays what it is. */
static void add_sites(Cut *cut) {
    for (size_t i = 0; i < cut->plan->sites.count; i++) {
        MoveSite *site = &cut->plan->sites.items[i];
        bool is_free = site->fits || !site->needs;
        site->flow = is_free ? flow_add_node(&cut->flow) : fixed_node(site->low);
    }
}

static uint32_t producer_node(const MovePlan *plan, const Value *value) {
    uint32_t site = producer_site(plan, value);
    return site ? plan->sites.items[site - 1].flow : fixed_node(is_low(plan, value));
}

static uint32_t reader_node(const MovePlan *plan, const MoveReader *reader) {
    return reader->site ? plan->sites.items[reader->site - 1].flow : fixed_node(reader->low);
}

static void unite(MovePlan *plan, uint32_t a, uint32_t b) {
    if (!a || !b) return;
    a = group_of(plan, a - 1);
    b = group_of(plan, b - 1);
    plan->sites.items[a > b ? a : b].group = a > b ? b : a;
}

static void add_value(Cut *cut, uint32_t index) {
    MovePlan *plan = cut->plan;
    Value *value = plan->values.items[index];
    const MoveReader *readers = plan->readers[index].list.items;
    uint32_t producer = producer_node(plan, value), first = producer_site(plan, value);
    cut->nodes.count = 0;
    for (size_t r = 0; r < plan->readers[index].list.count; r++) {
        if (!first) first = readers[r].site;
        unite(plan, first, readers[r].site);
        uint32_t node = reader_node(plan, &readers[r]);
        if (node == producer || cut->seen[node] == index + 1) continue;
        cut->seen[node] = index + 1;
        VEC_PUSH(plan->ctx->scratch, &cut->nodes, node);
    }
    if (cut->nodes.count == 0 || !first) return;
    uint64_t scaled = elements_of(plan, value) >> cut->shift;
    int64_t cost = scaled ? (int64_t)scaled : 1;
    if (cut->nodes.count == 1) {
        flow_add_arc(&cut->flow, producer, cut->nodes.items[0], cost, cost);
        return;
    }
    uint32_t up = flow_add_node(&cut->flow), down = flow_add_node(&cut->flow);
    flow_add_arc(&cut->flow, producer, up, cost, 0);
    flow_add_arc(&cut->flow, down, producer, cost, 0);
    for (size_t i = 0; i < cut->nodes.count; i++) {
        flow_add_arc(&cut->flow, up, cut->nodes.items[i], cut->infinite, 0);
        flow_add_arc(&cut->flow, cut->nodes.items[i], down, cut->infinite, 0);
    }
}

static void scale_costs(Cut *cut) {
    MovePlan *plan = cut->plan;
    uint64_t total = 0;
    for (size_t i = 0; i < plan->values.count && total < UINT64_MAX / 4; i++)
        total += elements_of(plan, plan->values.items[i]);
    while (total >> cut->shift > COST_MAX) cut->shift++;
    cut->infinite = (int64_t)((total >> cut->shift) + plan->values.count + 1);
}

/* What the value's cast costs under the present precisions and under the planned ones. */
static void add_costs(Cut *cut, size_t index) {
    MovePlan *plan = cut->plan;
    Value *value = plan->values.items[index];
    const MoveReaders *readers = &plan->readers[index];
    const MoveSite *sites = plan->sites.items;
    uint32_t producer = producer_site(plan, value), any = producer;
    bool low = is_low(plan, value), planned = producer ? sites[producer - 1].planned : low;
    bool cast = false, will_cast = false;
    for (size_t r = 0; r < readers->list.count; r++) {
        const MoveReader *reader = &readers->list.items[r];
        if (reader->site) any = reader->site;
        cast |= reader->low != low;
        will_cast |= (reader->site ? sites[reader->site - 1].planned : reader->low) != planned;
    }
    if (!any) return;
    uint32_t group = group_of(plan, any - 1);
    if (cast) cut->before[group] += elements_of(plan, value);
    if (will_cast) cut->after[group] += elements_of(plan, value);
}

static bool keep_gains(Cut *cut) {
    MovePlan *plan = cut->plan;
    bool any = false;
    cut->before = ARENA_ARRAY(plan->ctx->scratch, uint64_t, plan->sites.count);
    cut->after = ARENA_ARRAY(plan->ctx->scratch, uint64_t, plan->sites.count);
    for (size_t i = 0; i < plan->values.count; i++) add_costs(cut, i);
    for (uint32_t i = 0; i < plan->sites.count; i++) {
        MoveSite *site = &plan->sites.items[i];
        uint32_t group = group_of(plan, i);
        if (cut->after[group] >= cut->before[group]) site->planned = site->low;
        any |= site->planned != site->low;
    }
    return any;
}

static bool solve(MovePlan *plan) {
    Cut cut = {.plan = plan};
    flow_init(&cut.flow, plan->ctx->scratch);
    add_sites(&cut);
    scale_costs(&cut);
    size_t most = 2 + plan->sites.count + 2 * plan->values.count;
    cut.seen = ARENA_ARRAY(plan->ctx->scratch, uint32_t, most);
    for (size_t i = 0; i < plan->values.count; i++) add_value(&cut, (uint32_t)i);
    flow_solve(&cut.flow);
    for (size_t i = 0; i < plan->sites.count; i++) {
        MoveSite *site = &plan->sites.items[i];
        site->planned = site->flow == FLOW_SOURCE ||
                        (site->flow != FLOW_SINK && flow_on_source_side(&cut.flow, site->flow));
    }
    return keep_gains(&cut);
}

bool move_plan_make(MovePlan *plan) {
    Model *model = plan->ctx->model;
    Arena *scratch = plan->ctx->scratch;
    plan->node_count = model->node_count;
    plan->site_of = ARENA_ARRAY(scratch, uint32_t, model->node_count);
    plan->listed = ARENA_ARRAY(scratch, uint32_t, model->value_count);
    plan->visited = ARENA_ARRAY(scratch, bool, model->node_count);
    plan->shapes = ARENA_ARRAY(scratch, const Type *, model->value_count);
    plan->elements = ARENA_ARRAY(scratch, uint64_t, model->value_count);
    gather(plan);
    if (plan->sites.count == 0) return false;
    find_freedom(plan);
    return solve(plan);
}
