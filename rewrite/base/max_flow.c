// SPDX-License-Identifier: Apache-2.0
/* Highest-label preflow push. Only the first phase is needed: once no node that can still reach the
 * sink has excess, the nodes that can reach it in the residual network are the sink's side of a
 * minimum cut, and the smallest such side. Labels are lower bounds on the distance to the sink,
 * exact after each global relabeling; a label of node_count means "can't reach it". */
#include "max_flow.h"

void flow_init(FlowNetwork *f, Arena *arena) {
    *f = (FlowNetwork){.arena = arena, .node_count = 2};
}

uint32_t flow_add_node(FlowNetwork *f) {
    return f->node_count++;
}

void flow_add_arc(FlowNetwork *f, uint32_t from, uint32_t to, int64_t forward, int64_t backward) {
    if (from == to) return;
    if (to == FLOW_SOURCE || from == FLOW_SINK) forward = 0;
    if (from == FLOW_SOURCE || to == FLOW_SINK) backward = 0;
    if (forward == 0 && backward == 0) return;
    FlowArc arc = {from, to, forward}, reverse = {to, from, backward};
    VEC_PUSH(f->arena, &f->arcs, arc);
    VEC_PUSH(f->arena, &f->arcs, reverse);
}

static void index_arcs(FlowNetwork *f) {
    f->first = ARENA_ARRAY(f->arena, uint32_t, f->node_count + 1u);
    f->order = ARENA_ARRAY(f->arena, uint32_t, f->arcs.count);
    for (size_t i = 0; i < f->arcs.count; i++) f->first[f->arcs.items[i].from + 1]++;
    for (uint32_t v = 0; v < f->node_count; v++) f->first[v + 1] += f->first[v];
    uint32_t *fill = arena_copy(f->arena, f->first, f->node_count * sizeof *fill);
    for (size_t i = 0; i < f->arcs.count; i++)
        f->order[fill[f->arcs.items[i].from]++] = (uint32_t)i;
}

static void activate(FlowNetwork *f, uint32_t v) {
    uint32_t label = f->label[v];
    f->next_active[v] = f->bucket[label];
    f->bucket[label] = v;
    if (label > f->highest) f->highest = label;
}

/* Exact distances to the sink, breadth first over arcs that can still carry flow towards it. */
static void measure(FlowNetwork *f, uint32_t *queue) {
    uint32_t n = f->node_count, head = 0, tail = 0;
    for (uint32_t v = 0; v < n; v++) f->label[v] = n;
    f->label[FLOW_SINK] = 0;
    queue[tail++] = FLOW_SINK;
    while (head < tail) {
        uint32_t w = queue[head++];
        for (uint32_t i = f->first[w]; i < f->first[w + 1]; i++) {
            uint32_t v = f->arcs.items[f->order[i]].to;
            if (f->label[v] < n || f->arcs.items[f->order[i] ^ 1].residual == 0) continue;
            f->label[v] = f->label[w] + 1;
            queue[tail++] = v;
        }
    }
    f->label[FLOW_SOURCE] = n;
}

static void relabel_all(FlowNetwork *f, uint32_t *queue) {
    uint32_t n = f->node_count;
    measure(f, queue);
    for (uint32_t l = 0; l <= n; l++) {
        f->bucket[l] = UINT32_MAX;
        f->label_count[l] = 0;
    }
    f->highest = 0;
    for (uint32_t v = 0; v < n; v++) {
        f->current[v] = f->first[v];
        f->label_count[f->label[v]]++;
        if (v > FLOW_SINK && f->excess[v] > 0 && f->label[v] < n) activate(f, v);
    }
}

static void push(FlowNetwork *f, uint32_t v, uint32_t arc) {
    FlowArc *to = &f->arcs.items[arc];
    int64_t amount = f->excess[v] < to->residual ? f->excess[v] : to->residual;
    bool was_idle = f->excess[to->to] == 0;
    to->residual -= amount;
    f->arcs.items[arc ^ 1].residual += amount;
    f->excess[v] -= amount;
    f->excess[to->to] += amount;
    if (was_idle && to->to > FLOW_SINK) activate(f, to->to);
}

/* The least label that lets v push again; node_count where none does, or where v's old label was
 * the last of its kind: then nothing above that gap reaches the sink. */
static uint32_t raised_label(const FlowNetwork *f, uint32_t v) {
    uint32_t n = f->node_count, least = n;
    if (f->label_count[f->label[v]] == 1) return n;
    for (uint32_t i = f->first[v]; i < f->first[v + 1]; i++) {
        const FlowArc *arc = &f->arcs.items[f->order[i]];
        if (arc->residual > 0 && f->label[arc->to] + 1 < least) least = f->label[arc->to] + 1;
    }
    return least;
}

static void raise(FlowNetwork *f, uint32_t v) {
    uint32_t label = raised_label(f, v);
    f->label_count[f->label[v]]--;
    f->label_count[label]++;
    f->label[v] = label;
    f->current[v] = f->first[v];
}

enum { RAISE_WORK = 12, UPDATE_NODES = 6 }; /* as Cherkassky and Goldberg weigh them */

/* Pushes v's excess until it is gone or v is cut off from the sink. Returns the work of raising
 * v. */
static uint64_t discharge(FlowNetwork *f, uint32_t v) {
    uint64_t work = 0;
    while (f->excess[v] > 0 && f->label[v] < f->node_count) {
        if (f->current[v] == f->first[v + 1]) {
            raise(f, v);
            work += RAISE_WORK + f->first[v + 1] - f->first[v];
            continue;
        }
        uint32_t arc = f->order[f->current[v]];
        const FlowArc *a = &f->arcs.items[arc];
        if (a->residual > 0 && f->label[v] == f->label[a->to] + 1) push(f, v, arc);
        if (f->excess[v] > 0) f->current[v]++;
    }
    return work;
}

static void saturate_source(FlowNetwork *f) {
    for (uint32_t i = f->first[FLOW_SOURCE]; i < f->first[FLOW_SOURCE + 1]; i++) {
        FlowArc *arc = &f->arcs.items[f->order[i]];
        f->excess[arc->to] += arc->residual;
        f->arcs.items[f->order[i] ^ 1].residual += arc->residual;
        arc->residual = 0;
    }
}

void flow_solve(FlowNetwork *f) {
    uint32_t n = f->node_count;
    index_arcs(f);
    f->label = ARENA_ARRAY(f->arena, uint32_t, n);
    f->current = ARENA_ARRAY(f->arena, uint32_t, n);
    f->next_active = ARENA_ARRAY(f->arena, uint32_t, n);
    f->bucket = ARENA_ARRAY(f->arena, uint32_t, n + 1u);
    f->label_count = ARENA_ARRAY(f->arena, uint32_t, n + 1u);
    f->excess = ARENA_ARRAY(f->arena, int64_t, n);
    uint32_t *queue = ARENA_ARRAY(f->arena, uint32_t, n);
    saturate_source(f);
    relabel_all(f, queue);
    uint64_t work = 0, most = UPDATE_NODES * (uint64_t)n + f->arcs.count;
    for (;;) {
        while (f->highest > 0 && f->bucket[f->highest] == UINT32_MAX) f->highest--;
        if (f->highest == 0) break; /* only the sink has label 0 */
        uint32_t v = f->bucket[f->highest];
        f->bucket[f->highest] = f->next_active[v];
        work += discharge(f, v);
        if (work <= most) continue; /* labels have not drifted far from the distances */
        work = 0;
        relabel_all(f, queue);
    }
    measure(f, queue);
    f->reaches_sink = ARENA_ARRAY(f->arena, bool, n);
    for (uint32_t v = 0; v < n; v++) f->reaches_sink[v] = f->label[v] < n;
}

bool flow_on_source_side(const FlowNetwork *f, uint32_t node) {
    return !f->reaches_sink[node];
}
