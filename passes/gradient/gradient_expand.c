// SPDX-License-Identifier: Apache-2.0
/* The walk back from the ys to the xs; see gradient.h. */
#include <string.h>

#include "clone_nodes.h"
#include "fuse_graph.h"
#include "gradient.h"
#include "gradient_rule.h"
#include "infer_shapes.h"
#include "passes.h"
#include "verify.h"

/* ---- which nodes ----------------------------------------------------------------------------- */

typedef struct Reached {
    const Node *node;
    Value **reads;
    uint32_t count, next;
} Reached;

typedef struct Reach {
    Arena *arena;
    const bool *cut;
    bool *seen; /* [node_count] by id */
    VEC(Reached) stack;
    GradientNodes nodes;
} Reach;

static void reach(Reach *r, const Value *value) {
    Node *node = value->producer;
    if (!node || r->cut[value->id] || r->seen[node->id]) return;
    r->seen[node->id] = true;
    Reached reached = {.node = node};
    reached.reads = gradient_reads(node, r->arena, &reached.count);
    VEC_PUSH(r->arena, &r->stack, reached);
}

static bool *cuts(const GradientAsk *ask, Arena *arena) {
    bool *cut = ARENA_ARRAY(arena, bool, ask->at->graph->model->value_count + 1);
    for (uint32_t i = 0; i < ask->x_count && !ask->through; i++) cut[ask->xs[i]->id] = true;
    for (uint32_t i = 0; i < ask->z_count; i++) cut[ask->zs[i]->id] = true;
    return cut;
}

GradientNodes gradient_nodes(const GradientAsk *ask, Arena *arena) {
    Reach r = {.arena = arena,
               .cut = cuts(ask, arena),
               .seen = ARENA_ARRAY(arena, bool, ask->at->graph->model->node_count + 1)};
    for (uint32_t i = 0; i < ask->y_count; i++) {
        reach(&r, ask->ys[i]);
        while (r.stack.count) {
            Reached *top = &r.stack.items[r.stack.count - 1];
            if (top->next < top->count) {
                reach(&r, top->reads[top->next++]);
                continue;
            }
            VEC_PUSH(arena, &r.nodes, (Node *)top->node);
            r.stack.count--;
        }
    }
    return r.nodes;
}

/* ---- what varies ----------------------------------------------------------------------------- */

static bool is_real(const Value *value) {
    const Dtype dtype = type_dtype(value->type);
    return value_type(value)->kind == TYPE_TENSOR &&
           (fuse_takes(value) || dtype == DTYPE_DOUBLE || dtype == DTYPE_UNDEFINED);
}

/* Sequences and optionals hold what varies, too: what reads them is refused. */
static bool may_vary(const Value *value) {
    return is_real(value) || value_type(value)->kind != TYPE_TENSOR;
}

static bool is_call(const Node *node) {
    return model_find_function(node->graph->model, node) != NULL;
}

static const GradientRow *row_of(const Node *node) {
    const bool ours =
        domain_is_default(node->domain) && !model_find_function(node->graph->model, node);
    return ours ? gradient_row(sym_text(node->op_type)) : NULL;
}

static bool is_differentiable(const GradientRow *row, uint32_t i) {
    if (!row || row->kind == GRADIENT_REFUSED) return true; /* it is refused when something flows */
    switch (row->kind) {
    case GRADIENT_FORMULA: return i < GRADIENT_FORMULAS && row->formulas[i];
    case GRADIENT_BODY:
    case GRADIENT_RULE: return row->inputs >> (i < 31 ? i : 31) & 1;
    case GRADIENT_NONE:
    case GRADIENT_REFUSED: break;
    }
    return false;
}

bool gradient_flows(const Node *node, uint32_t i, bool known) {
    const GradientRow *row = row_of(node);
    if (!known) return is_differentiable(row, i);
    const OpSchema *schema = node_schema(node);
    return row && row->kind != GRADIENT_REFUSED && schema && row->since <= schema->since &&
           is_differentiable(row, i);
}

/* True of an operand through which the node depends on an x. */
static bool reads_varying(const GradientWalk *walk, const Node *node, Arena *scratch) {
    const GradientRow *row = row_of(node);
    if (row && row->kind == GRADIENT_NONE) return false;
    uint32_t count, formal = node->input_count;
    for (uint32_t i = 0; i < formal; i++)
        if (node->inputs[i].value && walk->varies[node->inputs[i].value->id] &&
            is_differentiable(row, i))
            return true;
    Value **reads = gradient_reads(node, scratch, &count);
    uint32_t present = 0;
    for (uint32_t i = 0; i < formal; i++) present += node->inputs[i].value != NULL;
    for (uint32_t i = present; i < count; i++)
        if (walk->varies[reads[i]->id]) return true;
    return false;
}

static void find_varying(GradientWalk *walk, const GradientNodes *nodes, Arena *scratch) {
    for (uint32_t i = 0; i < walk->ask->x_count; i++) walk->varies[walk->ask->xs[i]->id] = true;
    for (size_t i = 0; i < nodes->count; i++) {
        const Node *node = nodes->items[i];
        if (!reads_varying(walk, node, scratch)) continue;
        for (uint32_t k = 0; k < node->output_count; k++) {
            const Value *value = node->outputs[k];
            if (value && !walk->cut[value->id] && may_vary(value)) walk->varies[value->id] = true;
        }
    }
}

/* ---- one node -------------------------------------------------------------------------------- */

/* True where the definition has as many operands as the node, and each of its attributes. */
static bool has_form(const OpSchema *schema, const Node *node) {
    for (const Attr *attr = node->attrs; attr; attr = attr->next)
        if (!op_schema_attr(schema, sym_text(attr->name))) return false;
    return op_allows(node->input_count, schema->min_input, schema->max_input);
}

/* What a rule made must be there at the opset, and take these types. */
static bool check_made(Grad *g, const Node *before) {
    Node *node = before ? before->next : g->node->graph->first;
    if (before && before->graph != g->make.at->graph) node = g->make.at->graph->first;
    for (; node && node != g->make.at && !g->failed; node = node->next) {
        Err err = {0};
        const OpSchema *schema = node_schema(node);
        if (is_call(g->node)) /* its nodes are the model's own */
            return true;
        if (!schema || schema->deprecated)
            grad_refuse(g, "it needs %s, which opset %lld does not have", sym_text(node->op_type),
                        (long long)g->opset);
        else if (!has_form(schema, node))
            grad_refuse(g, "it needs %s in a form that opset %lld does not have",
                        sym_text(node->op_type), (long long)g->opset);
        else if (!node_check_types(node, &err))
            grad_refuse(g, "it needs %s, which opset %lld does not have for this type",
                        sym_text(node->op_type), (long long)g->opset);
    }
    return !g->failed;
}

static void run_formulas(Grad *g, const GradientRow *row) {
    for (uint32_t i = 0; i < GRADIENT_FORMULAS && !g->failed; i++)
        if (row->formulas[i] && grad_wants(g, i))
            grad_give_sum(g, i, GRAD_CALC(g, row->formulas[i], NULL));
}

/* True where the operand stands further before, too: that one gets all. */
static bool is_repeated(const Grad *g, uint32_t i) {
    for (uint32_t k = 0; k < i; k++)
        if (grad_in(g, k) == grad_in(g, i)) return true;
    return false;
}

/* The body's outputs that something flows from are differentiated with respect to the operands that
 * something is to flow into. */
static void run_body(Grad *g, const GradientRow *row) {
    const uint32_t outputs = g->node->output_count, inputs = g->node->input_count;
    Arena *scratch = g->make.ctx->scratch;
    Value *const *made = g->walk->bodies[g->node->id];
    Value **ys = ARENA_ARRAY(scratch, Value *, outputs + 1);
    Value **seeds = ARENA_ARRAY(scratch, Value *, outputs + 1);
    Value **xs = ARENA_ARRAY(scratch, Value *, inputs + 1);
    Value **gradients = ARENA_ARRAY(scratch, Value *, inputs + 1);
    uint32_t *places = ARENA_ARRAY(scratch, uint32_t, inputs + 1);
    GradientAsk ask = {.at = g->make.at, .ys = ys, .seeds = seeds, .xs = xs};
    for (uint32_t i = 0; i < outputs && !g->failed; i++) {
        if (!grad_flow(g, i)) continue;
        if (!made[i]) grad_refuse(g, "its output %u is used", i);
        ys[ask.y_count] = made[i];
        seeds[ask.y_count++] = grad_flow(g, i);
    }
    for (uint32_t i = 0; i < inputs; i++) {
        if (!grad_wants(g, i) || !is_differentiable(row, i) || is_repeated(g, i)) continue;
        places[ask.x_count] = i;
        xs[ask.x_count++] = grad_in(g, i);
    }
    if (g->failed) return;
    g->failed = !gradient_expand(g->make.ctx, &ask, gradients, g->err);
    for (uint32_t i = 0; i < ask.x_count && !g->failed; i++)
        if (gradients[i]) grad_give(g, places[i], gradients[i]);
}

/* ---- bodies ---------------------------------------------------------------------------------- */

/* What rules take for granted; bodies make their outputs anew, and need none. */
static void check_operands(Grad *g, const GradientRow *row) {
    const Node *node = g->node;
    if (!op_allows(node->input_count, g->schema->min_input, g->schema->max_input))
        grad_refuse(g, "it has %u operands", node->input_count);
    for (uint32_t i = 0; i < node->input_count; i++)
        if (op_schema_input_is_required(g->schema, i) && !grad_in(g, i))
            grad_refuse(g, "its operand %u is missing", i);
    if (row->kind != GRADIENT_BODY && !grad_out(g, 0)) grad_refuse(g, "its output 0 is omitted");
}

static bool is_known(Grad *g, const GradientRow *row) {
    g->schema = node_schema(g->node);
    if (!row || !g->schema)
        grad_refuse(g, "none is known for this operator");
    else if (row->kind == GRADIENT_REFUSED)
        grad_refuse(g, "%s", row->why);
    else if (row->since > g->schema->since)
        grad_refuse(g, "it is known from opset %d on (upgrade-opset)", row->since);
    else
        check_operands(g, row);
    return !g->failed;
}

/* A body is what its row makes, or the function's. */
static void make_body(Grad *g, const GradientRow *row, Value **outputs) {
    if (!is_call(g->node)) {
        if (is_known(g, row)) row->body(g, outputs, g->node->output_count);
        return;
    }
    CloneNodes clone = clone_begin(g->make.ctx->model, g->make.ctx->scratch);
    if (!clone_call(&clone, g->node, g->make.at, outputs))
        grad_refuse(g, "the function's opsets differ from the model's");
}

/* Makes all bodies that may be needed, so that their types and shapes are inferred together. */
static bool make_bodies(Grad *g, const GradientNodes *nodes) {
    PassCtx *ctx = g->make.ctx;
    bool any = false;
    for (size_t i = 0; i < nodes->count; i++) {
        const Node *node = nodes->items[i], *before = g->make.at->prev;
        const GradientRow *row = row_of(node);
        const bool has_body = is_call(node) || (row && row->kind == GRADIENT_BODY);
        if (!has_body || !reads_varying(g->walk, node, ctx->scratch)) continue;
        g->node = node;
        g->make.stem = arena_printf(ctx->scratch, "%s_again", node_label(node));
        Value **outputs = ARENA_ARRAY(ctx->scratch, Value *, node->output_count + 1);
        make_body(g, row, outputs);
        g->walk->bodies[node->id] = outputs;
        if (g->failed || !check_made(g, before)) return false;
        any = true;
    }
    return !any || infer_again(ctx, g->err);
}

static void differentiate(Grad *g) {
    const GradientRow *row = row_of(g->node);
    const Node *node = g->node;
    if (!is_call(node) && !is_known(g, row)) return;
    for (uint32_t i = 0; i < node->output_count; i++)
        if (node->outputs[i]) grad_total(g, node->outputs[i]);
    if (g->walk->bodies[node->id])
        run_body(g, row);
    else if (row->kind == GRADIENT_FORMULA)
        run_formulas(g, row);
    else
        row->rule(g);
}

static bool has_flow(const GradientWalk *walk, const Node *node) {
    for (uint32_t i = 0; i < node->output_count; i++)
        if (node->outputs[i] && walk->varies[node->outputs[i]->id] &&
            walk->flows[node->outputs[i]->id].count)
            return true;
    return false;
}

static bool visit(Grad *g, const Node *node) {
    if (!has_flow(g->walk, node)) return true;
    const Node *before = g->make.at->prev;
    g->node = node;
    g->make.stem = arena_printf(g->make.ctx->scratch, "%s_grad", node_label(node));
    differentiate(g);
    return !g->failed && check_made(g, before);
}

/* ---- all ------------------------------------------------------------------------------------- */

static void seed(Grad *g) {
    const GradientAsk *ask = g->walk->ask;
    g->node = ask->at;
    for (uint32_t i = 0; i < ask->y_count; i++) {
        Value *y = ask->ys[i];
        g->make.stem = arena_printf(g->make.ctx->scratch, "%s_grad", sym_text(y->name));
        Value *one = ask->seeds ? ask->seeds[i] : grad_fill(g, 1, y);
        VEC_PUSH(g->make.ctx->scratch, &g->walk->flows[y->id], one);
    }
}

bool gradient_expand(PassCtx *ctx, const GradientAsk *ask, Value **gradients, Err *err) {
    const size_t count = ctx->model->value_count;
    GradientWalk walk = {.ask = ask,
                         .expand = gradient_expand,
                         .cut = cuts(ask, ctx->scratch),
                         .varies = ARENA_ARRAY(ctx->scratch, bool, count + 1),
                         .flows = ARENA_ARRAY(ctx->scratch, Flows, count + 1),
                         .bodies = ARENA_ARRAY(ctx->scratch, Value **, ctx->model->node_count + 1)};
    const GradientNodes nodes = gradient_nodes(ask, ctx->scratch);
    find_varying(&walk, &nodes, ctx->scratch);
    Grad g = {.make = {ctx, ask->at, node_label(ask->at)},
              .opset = fuse_opset(ask->at),
              .walk = &walk,
              .err = err};
    if (!make_bodies(&g, &nodes)) return false;
    seed(&g);
    for (size_t i = nodes.count; i-- > 0 && !g.failed;)
        if (!visit(&g, nodes.items[i])) return false;
    g.node = ask->at;
    for (uint32_t i = 0; i < ask->x_count; i++) {
        g.make.stem = arena_printf(ctx->scratch, "%s_grad", sym_text(ask->xs[i]->name));
        gradients[i] = grad_total(&g, ask->xs[i]);
    }
    return !g.failed;
}
