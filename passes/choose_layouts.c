// SPDX-License-Identifier: Apache-2.0
/* choose-layouts: regions of convolutions have their channels last, for plans.
 *
 * A node whose operator can (OpLayout) has its channels second, as ONNX has them, or last; where
 * what makes a value and what reads it differ, the value is turned, once for all its readers. The
 * choice is a minimum cut, the source's side being channels-last. A value of n elements costs n
 * where it is turned:
 *
 *     made last, some reader second:    maker -n-> a, a -inf-> each reader
 *     made second, some reader last:    each reader -inf-> b, b -n-> maker
 *
 * and a convolution that has its channels second costs what it would gain: source -> node. All that
 * can't is the sink. A Transpose that the model has, from one layout to the other, is one of these
 * turnings: what it makes is there in both layouts, and what it reads costs n where it is not made
 * last. Of all minimum cuts the one with most nodes channels-last is taken.
 *
 * Then the nodes are changed one after the other (layout_change), and what they make is turned back
 * for readers that stay. What follows the channels of a constant is computed when the plan is
 * folded. Not in faithful plans, as sums are made in another order.
 */
#include <stddef.h>

#include "layout_node.h"
#include "max_flow.h"

typedef struct LayoutOptions {
    bool device;
} LayoutOptions;

typedef struct Layouts {
    Fuse *fuse;
    const LayoutOptions *options;
    Graph *graph;
    Arena *scratch;
    uint32_t values, nodes;   /* ids before the graph's turn */
    uint32_t *vars;           /* [nodes]: of the network; 0: it can't */
    Value **last;             /* [values]: with the channels last, where it is there */
    uint32_t room, node_room; /* of the two, which graphs share: `last` is NULL between them */
    VEC(uint32_t) turned;     /* where it is not */
    FlowNetwork flow;
    int64_t infinite;
} Layouts;

/* ---- the cut --------------------------------------------------------------------------------- */

static bool has_layout(const Value *value) {
    const int64_t rank = fuse_rank(value);
    return rank >= LAYOUT_RANK_LEAST && rank <= LAYOUT_RANK_MOST;
}

static uint32_t var_of(const Layouts *l, const Node *node) {
    const bool ours = node && node->graph == l->graph && node->id < l->nodes;
    return ours && l->vars[node->id] ? l->vars[node->id] : (uint32_t)FLOW_SINK;
}

static uint32_t reader_of(const Layouts *l, const Use *use) {
    return use->node && layout_follows(use->node, use->index) ? var_of(l, use->node)
                                                              : (uint32_t)FLOW_SINK;
}

/* A value that a node makes: what it costs where the layouts of makers and readers differ. */
static void add_value(Layouts *l, const Value *value) {
    const int64_t cost = layout_cost(value);
    const bool both = layout_is_turn(value->producer, true);
    const uint32_t maker = both ? (uint32_t)FLOW_SOURCE : var_of(l, value->producer);
    uint32_t second = 0, last = 0; /* a and b above */
    if (value->referenced && maker != FLOW_SINK) flow_add_arc(&l->flow, maker, FLOW_SINK, cost, 0);
    for (const Use *use = value->uses; use; use = use->next) {
        if (layout_is_turn(use->node, false)) {
            if (maker > FLOW_SINK) flow_add_arc(&l->flow, FLOW_SOURCE, maker, cost, 0);
            continue;
        }
        const uint32_t reader = reader_of(l, use);
        if (reader == maker || (maker == FLOW_SINK && reader == FLOW_SINK)) continue;
        if (!second) {
            second = flow_add_node(&l->flow);
            last = flow_add_node(&l->flow);
            flow_add_arc(&l->flow, maker, second, cost, 0);
            flow_add_arc(&l->flow, last, maker, cost, 0);
        }
        flow_add_arc(&l->flow, second, reader, l->infinite, 0);
        flow_add_arc(&l->flow, reader, last, l->infinite, 0);
    }
}

/* More than all finite capacities together. False where nothing can gain, or all of them, an
 * infinite one for each use, would be too much to add up. */
static bool sum_up(Layouts *l) {
    const Model *model = l->fuse->ctx->model;
    int64_t gains = 0;
    l->infinite = 1;
    for (const Node *node = l->graph->first; node; node = node_after(node)) {
        const int64_t gain = layout_gain(node, l->scratch);
        gains += gain;
        l->infinite += gain;
        for (uint32_t i = 0; i < node->output_count; i++) {
            const Value *value = node->outputs[i];
            if (value && has_layout(value))
                l->infinite += layout_cost(value) * (3 + (int64_t)value->use_count);
        }
        if (l->infinite > (INT64_C(1) << 58) / (1 + (int64_t)model->use_count)) return false;
    }
    for (size_t i = 0; i < l->graph->inputs.count; i++)
        if (has_layout(l->graph->inputs.items[i]))
            l->infinite += layout_cost(l->graph->inputs.items[i]) * 4;
    return gains > 0;
}

/* Devices have no kernels of ConvTransposeLast. */
static bool is_left(const Layouts *l, const Node *node) {
    return l->options->device && fuse_is(node, "ConvTranspose");
}

static void choose(Layouts *l) {
    flow_init(&l->flow, l->scratch);
    for (const Node *node = l->graph->first; node; node = node_after(node))
        if (layout_can(node, l->scratch) && !is_left(l, node))
            l->vars[node->id] = flow_add_node(&l->flow);
    for (const Node *node = l->graph->first; node; node = node_after(node)) {
        const int64_t gain = l->vars[node->id] ? layout_gain(node, l->scratch) : 0;
        if (gain) flow_add_arc(&l->flow, FLOW_SOURCE, l->vars[node->id], gain, 0);
        for (uint32_t i = 0; i < node->output_count; i++)
            if (node->outputs[i] && has_layout(node->outputs[i])) add_value(l, node->outputs[i]);
    }
    for (size_t i = 0; i < l->graph->inputs.count; i++)
        if (has_layout(l->graph->inputs.items[i])) add_value(l, l->graph->inputs.items[i]);
    flow_solve(&l->flow);
}

/* ---- the change ------------------------------------------------------------------------------ */

static void set_last(Layouts *l, const Value *value, Value *last) {
    l->last[value->id] = last;
    VEC_PUSH(l->scratch, &l->turned, value->id);
}

static Value *last_of(Layouts *l, Node *at, Value *value) {
    if (value->id >= l->values) return layout_turn(l->fuse, at, value, false);
    if (!l->last[value->id]) set_last(l, value, layout_turn(l->fuse, at, value, false));
    return l->last[value->id];
}

static void change(Layouts *l, Node *node) {
    Value **inputs = ARENA_ARRAY(l->scratch, Value *, node->input_count + 1);
    Value **outputs = ARENA_ARRAY(l->scratch, Value *, node->output_count + 1);
    Value **before = ARENA_ARRAY(l->scratch, Value *, node->output_count + 1);
    const uint32_t count = node->output_count;
    for (uint32_t i = 0; i < node->input_count; i++)
        if (layout_follows(node, i)) inputs[i] = last_of(l, node, node->inputs[i].value);
    for (uint32_t i = 0; i < count; i++) before[i] = node->outputs[i];
    const LayoutChange made = {l->fuse, node, inputs, outputs};
    layout_change(&made);
    for (uint32_t i = 0; i < count; i++)
        if (before[i] && outputs[i]) set_last(l, before[i], outputs[i]);
}

/* A Transpose of the model's that turns what is there already. */
static void skip_turn(Layouts *l, Node *turn) {
    Value *from = turn->inputs[0].value, *to = turn->outputs[0];
    if (from->id >= l->values || !l->last[from->id]) return;
    Node *same =
        node_new(turn->graph, turn, sym_intern_cstr(&l->fuse->ctx->model->syms, "Identity"), NULL);
    same->name = turn->name;
    node_resize_inputs(same, 1);
    node_resize_outputs(same, 1);
    node_set_input(same, 0, l->last[from->id]);
    node_set_output(turn, 0, NULL);
    node_set_output(same, 0, to);
    node_remove_unswept(turn);
}

/* What has lost its producer but not its readers. */
static void turn_back(Layouts *l, Value *value) {
    Value *last = l->last[value->id];
    if (!value->uses && !value->referenced) return;
    Node *turn = layout_turn(l->fuse, last->producer, last, true)->producer;
    node_move_before(turn, node_after(last->producer));
    node_set_output(turn, 0, NULL);
    node_set_output(turn, 0, value);
}

/* Tables for all ids that there are by now. What they held was of graphs before. */
static void make_room(Layouts *l) {
    l->values = l->fuse->ctx->model->value_count;
    l->nodes = l->fuse->ctx->model->node_count;
    if (l->values >= l->room) {
        l->room = l->values + l->values / 2 + 1;
        l->last = ARENA_ARRAY(l->scratch, Value *, l->room);
    }
    if (l->nodes >= l->node_room) {
        l->node_room = l->nodes + l->nodes / 2 + 1;
        l->vars = ARENA_ARRAY(l->scratch, uint32_t, l->node_room);
    }
}

static void run_graph(Layouts *l, Graph *graph) {
    VEC(Node *) nodes = {0};
    VEC(Value *) made = {0};
    l->graph = graph;
    if (!sum_up(l)) return;
    make_room(l);
    choose(l);
    for (Node *node = graph->first; node; node = node_after(node))
        VEC_PUSH(l->scratch, &nodes, node);
    for (size_t i = 0; i < nodes.count; i++) {
        Node *node = nodes.items[i];
        const uint32_t var = l->vars[node->id];
        if (layout_is_turn(node, false)) skip_turn(l, node);
        if (!var || !flow_on_source_side(&l->flow, var)) continue;
        for (uint32_t k = 0; k < node->output_count; k++)
            if (node->outputs[k] && layout_turns(node, k))
                VEC_PUSH(l->scratch, &made, node->outputs[k]);
        change(l, node);
    }
    for (size_t i = 0; i < made.count; i++) turn_back(l, made.items[i]);
    for (size_t i = 0; i < l->turned.count; i++) l->last[l->turned.items[i]] = NULL;
    l->turned.count = 0;
}

static bool run(PassCtx *ctx, const void *options, Err *err) {
    Fuse fuse = {.ctx = ctx};
    Layouts l = {.fuse = &fuse, .options = options, .scratch = ctx->scratch};
    GraphList graphs = model_graphs(ctx->model, ctx->scratch);
    (void)err;
    for (size_t i = 0; i < graphs.count; i++)
        if (graph_is_within(graphs.items[i], ctx->model->graph)) run_graph(&l, graphs.items[i]);
    for (size_t i = 0; i < graphs.count; i++) graph_sweep(graphs.items[i]);
    return true;
}

static const PassOption layout_options[] = {
    {"device", OPTION_BOOL, offsetof(LayoutOptions, device), NULL, NULL,
     "for a device: do not change operators that have no channels-last kernel there"},
    {0},
};

const PassInfo choose_layouts_pass = {
    .name = "choose-layouts",
    .summary = "run regions of convolutions channels-last, for plans",
    .needs = FACT_DTYPES,
    .gives = FACT_DTYPES,
    .options = layout_options,
    .options_size = sizeof(LayoutOptions),
    .idempotent = true,
    .run = run,
};
