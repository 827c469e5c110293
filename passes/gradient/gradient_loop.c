// SPDX-License-Identifier: Apache-2.0
/* The gradient of a Scan or a Loop: the node once more, which hands out what its body was given in each
 * step, and a Scan over that, from the last step to the first. A step of it computes the body once
 * more and differentiates it: states of the Scan are what flows into the states, and the sums of what
 * flows into what the body captures. */
#include "clone_nodes.h"
#include "fuse_graph.h"
#include "gradient_rule.h"

/* How the operands of node and body are laid out. */
typedef struct Steps {
    Grad *g;
    const Graph *body;
    uint32_t lead_in, lead_out; /* of a Loop: number and condition, condition */
    uint32_t first;             /* the operand that is the first state */
    uint32_t states, scans;     /* scans: operands that are read step by step */
    Value **captured;           /* that something is to flow into */
    uint32_t capture_count;
    Node *back;  /* the Scan back */
    Graph *made; /* its body */
} Steps;

static bool is_float(const Value *value) {
    return fuse_takes(value) || type_dtype(value->type) == DTYPE_DOUBLE;
}

/* ---- making graphs --------------------------------------------------------------------------- */

static Value *add_input(const Steps *s, const char *stem, const Type *type) {
    return grad_graph_input(s->g, s->made, stem, type);
}

/* The node again; its outputs from *first on are what the body was given. */
static Node *run_again(const Steps *s, uint32_t *first) {
    Grad *g = s->g;
    CloneNodes clone = clone_begin(g->make.ctx->model, g->make.ctx->scratch);
    Node *again = clone_node(&clone, g->node, g->make.at->graph, g->make.at);
    Graph *body = attr_graph(node_attr(again, "body"));
    Node *end = grad_graph_end(g, body);
    *first = again->output_count;
    for (uint32_t i = 0; i < s->lead_in + s->states; i++) {
        grad_graph_output(g, body, end, body->inputs.items[i]);
        make_output(&g->make, again, type_dtype(body->inputs.items[i]->type));
    }
    node_remove(end);
    return again;
}

/* ---- the body back --------------------------------------------------------------------------- */

/* What flows in and out of a step, in the body. */
typedef struct Step {
    CloneNodes clone;
    GradientAsk ask;
    Value **ys, **seeds, **xs, **gradients, **sums;
    Value **given; /* of the node, by state: what flows into its last value; then captures' zeros */
    uint32_t given_count;
    Value **flows; /* of the node: what flows from what it gave step by step */
    uint32_t flow_count;
} Step;

static void take_state(Steps *s, Step *step, uint32_t i) {
    Grad *g = s->g;
    const Value *inner = s->body->inputs.items[s->lead_in + i];
    Value *flow = grad_flow(g, i);
    if (!is_float(inner)) return;
    step->given[step->given_count++] = flow ? flow : grad_fill(g, 0, grad_in(g, s->first + i));
    step->ys[step->ask.y_count] = s->body->outputs.items[s->lead_out + i]->use.value;
    step->seeds[step->ask.y_count++] = add_input(s, "state_flow", inner->type);
}

/* States: flows, then sums. Read step by step: what the body was given, then flows. */
static void take_inputs(Steps *s, Step *step) {
    Grad *g = s->g;
    for (uint32_t i = 0; i < s->states; i++) take_state(s, step, i);
    for (uint32_t i = 0; i < s->capture_count; i++) {
        step->given[step->given_count++] = grad_fill(g, 0, s->captured[i]);
        step->sums[i] = add_input(s, "sum", s->captured[i]->type);
    }
    for (size_t i = 0; i < s->body->inputs.count; i++) {
        const Value *inner = s->body->inputs.items[i];
        clone_map(&step->clone, inner, add_input(s, sym_text(inner->name), inner->type));
    }
    for (uint32_t i = s->states; i < g->node->output_count; i++) {
        Value *y = s->body->outputs.items[s->lead_out + i]->use.value;
        if (!grad_flow(g, i)) continue;
        step->flows[step->flow_count++] = grad_flow(g, i);
        step->ys[step->ask.y_count] = y;
        step->seeds[step->ask.y_count++] = add_input(s, "flow", y->type);
    }
}

/* What is differentiated by: states, captures, what is read step by step. */
static void take_xs(Steps *s, Step *step) {
    Grad *g = s->g;
    for (uint32_t i = 0; i < s->states; i++) {
        Value *inner = s->body->inputs.items[s->lead_in + i];
        if (is_float(inner)) step->xs[step->ask.x_count++] = clone_value(&step->clone, inner);
    }
    for (uint32_t i = 0; i < s->capture_count; i++) step->xs[step->ask.x_count++] = s->captured[i];
    for (uint32_t i = 0; i < s->scans; i++)
        if (grad_wants(g, s->first + s->states + i))
            step->xs[step->ask.x_count++] =
                clone_value(&step->clone, s->body->inputs.items[s->lead_in + s->states + i]);
}

static void give_outputs(Steps *s, Step *step, Node *end) {
    Grad inner = *s->g;
    inner.make.at = end;
    const uint32_t states = step->given_count - s->capture_count;
    for (uint32_t i = 0; i < step->ask.x_count; i++) {
        Value *flow = step->gradients[i];
        if (i >= states && i < states + s->capture_count) {
            Value *sum = step->sums[i - states];
            flow = flow ? GRAD(&inner, "Add", sum, flow) : sum;
        }
        if (!flow) flow = grad_fill(&inner, 0, step->xs[i]);
        grad_graph_output(s->g, s->made, end, flow);
    }
}

static Step new_step(const Steps *s) {
    Grad *g = s->g;
    Arena *scratch = g->make.ctx->scratch;
    const size_t most = s->body->inputs.count + s->body->outputs.count + s->capture_count + 1;
    return (Step){.clone = clone_begin(g->make.ctx->model, scratch),
                  .ys = ARENA_ARRAY(scratch, Value *, most),
                  .seeds = ARENA_ARRAY(scratch, Value *, most),
                  .xs = ARENA_ARRAY(scratch, Value *, most),
                  .gradients = ARENA_ARRAY(scratch, Value *, most),
                  .sums = ARENA_ARRAY(scratch, Value *, most),
                  .given = ARENA_ARRAY(scratch, Value *, most),
                  .flows = ARENA_ARRAY(scratch, Value *, most)};
}

static bool make_step(Steps *s, Step *step) {
    Grad *g = s->g;
    *step = new_step(s);
    s->back = make_node(&g->make, "Scan", NULL, 0);
    s->made = grad_graph(g, s->body->name);
    grad_graph_hold(s->back, "body", s->made);
    take_inputs(s, step);
    clone_into(&step->clone, s->body, s->made);
    for (uint32_t i = 0; i < step->ask.y_count; i++)
        step->ys[i] = clone_value(&step->clone, step->ys[i]);
    take_xs(s, step);
    Node *end = grad_graph_end(g, s->made);
    step->ask.at = end;
    step->ask.ys = step->ys;
    step->ask.seeds = step->seeds;
    step->ask.xs = step->xs;
    g->failed = g->failed || !g->walk->expand(g->make.ctx, &step->ask, step->gradients, g->err);
    if (!g->failed) give_outputs(s, step, end);
    gradient_sweep(g->make.ctx, NULL, end);
    node_remove(end);
    return !g->failed;
}

/* ---- the node -------------------------------------------------------------------------------- */

static void set_backwards(Grad *g, Node *scan, const char *name, uint32_t count) {
    int64_t *ones = ARENA_ARRAY(g->make.ctx->scratch, int64_t, count + 1);
    for (uint32_t i = 0; i < count; i++) ones[i] = 1;
    if (count) node_set_attr_ints(scan, name, ones, count);
}

/* The Scan from the last step to the first, behind what it reads. */
static Node *run_back(const Steps *s, const Step *step, const Node *again, uint32_t first) {
    Grad *g = s->g;
    const uint32_t kept = s->lead_in + s->states;
    const uint32_t read = kept + s->scans + step->flow_count;
    Node *scan = s->back;
    uint32_t at = 0;
    node_resize_inputs(scan, step->given_count + read);
    node_move_before(scan, g->make.at);
    for (uint32_t i = 0; i < step->given_count; i++) node_set_input(scan, at++, step->given[i]);
    for (uint32_t i = 0; i < kept; i++) node_set_input(scan, at++, again->outputs[first + i]);
    for (uint32_t i = 0; i < s->scans; i++)
        node_set_input(scan, at++, grad_in(g, s->first + s->states + i));
    for (uint32_t i = 0; i < step->flow_count; i++) node_set_input(scan, at++, step->flows[i]);
    node_set_attr_int(scan, "num_scan_inputs", read);
    set_backwards(g, scan, "scan_input_directions", read);
    set_backwards(g, scan, "scan_output_directions", step->ask.x_count - step->given_count);
    return scan;
}

static void differentiate_steps(Steps *s) {
    Grad *g = s->g;
    Step step;
    uint32_t first, out = 0;
    s->captured = grad_captures(g, &s->capture_count);
    if (g->failed || !make_step(s, &step)) return;
    const Node *again = run_again(s, &first);
    Node *scan = run_back(s, &step, again, first);
    for (uint32_t i = 0; i < s->states; i++) {
        const Value *inner = s->body->inputs.items[s->lead_in + i];
        if (!is_float(inner)) continue;
        Value *flow = make_output(&g->make, scan, type_dtype(step.given[out++]->type));
        if (grad_wants(g, s->first + i)) grad_give(g, s->first + i, flow);
    }
    for (uint32_t i = 0; i < s->capture_count; i++)
        grad_give_value(g, s->captured[i],
                        make_output(&g->make, scan, type_dtype(s->captured[i]->type)));
    for (uint32_t i = 0; i < s->scans; i++) {
        const uint32_t operand = s->first + s->states + i;
        if (!grad_wants(g, operand)) continue;
        grad_give(g, operand, make_output(&g->make, scan, type_dtype(grad_in(g, operand)->type)));
    }
}

static bool fits(const Steps *s) {
    const uint32_t inputs = s->lead_in + s->states + s->scans;
    bool all = s->body && s->body->inputs.count == inputs &&
               s->body->outputs.count == s->lead_out + s->g->node->output_count &&
               s->g->node->output_count >= s->states;
    for (uint32_t i = s->first; all && i < s->g->node->input_count; i++)
        all = grad_in(s->g, i) != NULL;
    if (!all) grad_refuse(s->g, "its body does not fit it");
    return all;
}

void gradient_scan(Grad *g) {
    static const char *const layouts[] = {"scan_input_axes", "scan_output_axes",
                                          "scan_input_directions", "scan_output_directions"};
    const int64_t scans = grad_int(g, "num_scan_inputs");
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        if (node_attr(g->node, layouts[i])) grad_refuse(g, "with %s", layouts[i]);
    if (scans < 0 || scans > g->node->input_count) grad_refuse(g, "of these scans");
    if (g->failed) return;
    Steps s = {.g = g,
               .body = attr_graph(node_attr(g->node, "body")),
               .states = g->node->input_count - (uint32_t)scans,
               .scans = (uint32_t)scans};
    if (fits(&s)) differentiate_steps(&s);
}

void gradient_loop(Grad *g) {
    Steps s = {.g = g,
               .body = attr_graph(node_attr(g->node, "body")),
               .lead_in = 2,
               .lead_out = 1,
               .first = 2,
               .states = g->node->input_count - 2};
    if (fits(&s)) differentiate_steps(&s);
}
