// SPDX-License-Identifier: Apache-2.0
/* Initializers of their own for layers that share one by chance; see training_ties.h. */
#include "training_ties.h"

#include <math.h>
#include <string.h>

#include "clone_nodes.h"
#include "simplify_graph.h"

/* The matrix that is nearest before a node, or that it reads. */
typedef struct Near {
    const Value *matrix;
    size_t at; /* how late the node stands that reads it */
} Near;

typedef struct Untie {
    PassCtx *ctx;
    const TrainingTies *ties;
    TrainingMoves moves;
    CloneNodes clone;
    uint32_t *first, *next; /* by value, by place: the places of a source, counted from 1 */
    Near *near;             /* by node; of those that places are among */
    uint32_t *last;         /* by value, a matrix: the last place with it, counted from 1 */
    bool *covered; /* by node: it moves the source at hand to one of its places, or is one */
    bool removed;
} Untie;

/* A source's places in their order, and which of its readers share one. */
typedef struct Readers {
    Value *source;
    const TrainingPlace **places; /* [count] */
    size_t *groups;               /* [count] */
    size_t count, group_count;
} Readers;

/* ---- what is filled -------------------------------------------------------------------------- */

typedef struct Different {
    uint64_t found[2];
    unsigned count;
} Different;

/* False at a third one. */
static bool meet(Different *different, uint64_t bits) {
    for (unsigned i = 0; i < different->count; i++)
        if (different->found[i] == bits) return true;
    if (different->count == 2) return false;
    different->found[different->count++] = bits;
    return true;
}

/* True of a tensor that an initialization filled. */
static bool is_filled(const Tensor *tensor) {
    enum { ROOM = 4096, MANY = 16 };
    unsigned char room[ROOM];
    Different different = {0};
    uint64_t size = 0;
    Err err = {0};
    if (!tensor_check(tensor, NULL) || !dtype_bytes((Dtype)tensor->dtype, 1, &size) || !size)
        return false;
    const uint64_t all = tensor_raw_size(tensor);
    for (uint64_t done = 0; done < all; done += ROOM) {
        const uint64_t part = all - done < ROOM ? all - done : ROOM;
        if (!tensor_read_raw(tensor, done, room, part, &err)) return false;
        for (uint64_t i = 0; i < part; i += size) {
            uint64_t bits = 0;
            memcpy(&bits, room + i, (size_t)(size < sizeof bits ? size : sizeof bits));
            if (!meet(&different, bits)) return false;
        }
    }
    return different.count == 1 || (different.count == 2 && tensor_count(tensor) >= MANY);
}

bool training_is_mask(const Tensor *tensor) {
    enum { ROOM = 1024 };
    const float most = 1e30F; /* the lowest float is a mask, too */
    float room[ROOM];
    Err err = {0};
    const uint64_t count = tensor_count(tensor);
    const Dtype dtype = (Dtype)tensor->dtype;
    if (!dtype_is_working(dtype)) return false;
    for (uint64_t i = 0; i < count; i += ROOM) {
        const uint64_t part = count - i < ROOM ? count - i : ROOM;
        if (!tensor_read_floats(tensor, i, part, room, &err)) return false;
        for (uint64_t k = 0; k < part; k++)
            if (fabsf(room[k]) > most) return true;
    }
    return false;
}

/* ---- which layer a reader is ------------------------------------------------------------------ */

/* Each node that reads a matrix has the first one; of a product's weights, say, before its bias. */
static void find_matrices(Untie *u) {
    const TrainingPlaces *places = u->ties->places;
    for (size_t i = places->count; i-- > 0;) {
        const TrainingPlace *place = &places->items[i];
        if (!place->statistic && !is_filled(place->source->init))
            u->near[place->node->id].matrix = place->source;
    }
}

static void find_near(Untie *u) {
    const GradientNodes *nodes = u->ties->nodes;
    u->near = ARENA_ARRAY(u->ctx->scratch, Near, u->ctx->model->node_count + 1);
    find_matrices(u);
    for (size_t n = 0; n < nodes->count; n++) {
        const Node *node = nodes->items[n];
        Near *near = &u->near[node->id];
        if (near->matrix) near->at = n + 1;
        for (uint32_t i = 0; !near->matrix && i < node->input_count; i++) {
            const Value *value = node->inputs[i].value;
            const Near *before = value && value->producer ? &u->near[value->producer->id] : NULL;
            if (before && before->at > near->at) near->at = before->at;
        }
        for (uint32_t i = 0; !near->matrix && near->at && i < node->input_count; i++) {
            const Value *value = node->inputs[i].value;
            if (value && value->producer && u->near[value->producer->id].at == near->at)
                near->matrix = u->near[value->producer->id].matrix;
        }
    }
}

/* The same layer, of other data: the second call of one. Both have the same matrix, which is read again
 * for the second call; of two normalizations in a row it is not. */
static bool is_called_again(const Untie *u, const TrainingPlace *a, const TrainingPlace *b) {
    const uint32_t data = a->operand == 0;
    return u->near[a->node->id].at != u->near[b->node->id].at && a->operand == b->operand &&
           a->node->op_type == b->node->op_type && a->node->domain == b->node->domain &&
           data < a->node->input_count && data < b->node->input_count &&
           a->node->inputs[data].value != b->node->inputs[data].value;
}

/* ---- groups ---------------------------------------------------------------------------------- */

static Readers readers_of(const Untie *u, uint32_t first) {
    Arena *scratch = u->ctx->scratch;
    Readers readers = {.source = u->ties->places->items[first - 1].source};
    for (uint32_t i = first; i; i = u->next[i - 1]) readers.count++;
    readers.places = ARENA_ARRAY(scratch, const TrainingPlace *, readers.count);
    readers.groups = ARENA_ARRAY(scratch, size_t, readers.count);
    size_t count = 0;
    for (uint32_t i = first; i; i = u->next[i - 1])
        readers.places[count++] = &u->ties->places->items[i - 1];
    return readers;
}

/* The place before that has the group, counted from 1; 0: it has one of its own. */
static size_t same_group(Untie *u, const Readers *readers, size_t i, bool tied, size_t first) {
    const TrainingPlace *place = readers->places[i];
    if (place->statistic) return 0;
    if (tied) return first;
    const Value *matrix = u->near[place->node->id].matrix;
    if (!matrix) return 0;
    const size_t last = u->last[matrix->id];
    u->last[matrix->id] = (uint32_t)i + 1;
    return last && is_called_again(u, readers->places[last - 1], place) ? last : 0;
}

static void find_groups(Untie *u, Readers *readers, bool tied) {
    size_t first = 0; /* parameter, counted from 1 */
    for (size_t i = 0; i < readers->count; i++) {
        const size_t same = same_group(u, readers, i, tied, first);
        readers->groups[i] = same ? readers->groups[same - 1] : readers->group_count++;
        if (!first && !readers->places[i]->statistic) first = i + 1;
    }
    for (size_t i = 0; i < readers->count; i++) {
        const Value *matrix = u->near[readers->places[i]->node->id].matrix;
        if (matrix) u->last[matrix->id] = 0;
    }
}

/* ---- their own ------------------------------------------------------------------------------- */

static void cover(Untie *u, const Readers *readers, bool covered) {
    for (size_t i = 0; i < readers->count; i++) {
        const TrainingPlace *place = readers->places[i];
        u->covered[place->node->id] = covered;
        training_walk(&u->moves, place->node->inputs[place->operand].value);
        for (size_t k = 0; k < u->moves.nodes.count; k++)
            u->covered[u->moves.nodes.items[k]->id] = covered;
    }
}

/* True where something else reads the source, too: a formula, a bound, an output. */
static bool has_others(Untie *u, const Readers *readers) {
    bool any = false;
    cover(u, readers, true);
    for (const Use *use = readers->source->uses; use; use = use->next)
        any = any || !use->node || !u->covered[use->node->id];
    cover(u, readers, false);
    return any;
}

static Value *copy_of(const Untie *u, const Value *source) {
    Model *model = u->ctx->model;
    Value *made = value_new(model->graph, sym_fresh(&model->syms, sym_text(source->name)));
    value_set_type(made, source->type);
    value_set_init(made, source->init);
    u->ctx->counts->rewrites++;
    return made;
}

static bool is_idle(const Node *node) {
    for (uint32_t i = 0; i < node->output_count; i++) {
        const Value *value = node->outputs[i];
        if (value && (value->uses || value->referenced)) return false;
    }
    return true;
}

/* The place reads `own` in the source's place, through copies of what is between. */
static void give(Untie *u, const TrainingPlace *place, Value *own) {
    Node *reader = place->node;
    Value *value = reader->inputs[place->operand].value;
    if (value == place->source || place->statistic) {
        node_set_input(reader, place->operand, own);
        return;
    }
    training_walk(&u->moves, value);
    clone_map(&u->clone, place->source, own);
    for (size_t i = 0; i < u->moves.nodes.count; i++) {
        Node *node = u->moves.nodes.items[i];
        bool depends = false;
        for (uint32_t k = 0; k < node->input_count; k++) {
            Value *operand = node->inputs[k].value;
            depends = depends || (operand && clone_value(&u->clone, operand) != operand);
        }
        if (depends) clone_node(&u->clone, node, node->graph, node);
    }
    node_set_input(reader, place->operand, clone_value(&u->clone, value));
    clone_map(&u->clone, place->source, place->source);
    for (size_t i = u->moves.nodes.count; i-- > 0;) {
        Node *node = u->moves.nodes.items[i];
        for (uint32_t k = 0; k < node->output_count; k++)
            if (node->outputs[k]) clone_map(&u->clone, node->outputs[k], node->outputs[k]);
        if (!is_idle(node)) continue;
        node_remove_unswept(node);
        u->removed = true;
    }
}

/* Which group keeps the source: the first parameter's, else the first statistic's; none where others
 * read what an initialization filled, which then stays a constant. */
static size_t keeper_of(Untie *u, const Readers *readers, bool tied) {
    size_t keeper = readers->groups[0];
    bool parameters = false;
    for (size_t i = readers->count; i-- > 0;) {
        if (readers->places[i]->statistic) continue;
        parameters = true;
        keeper = readers->groups[i];
    }
    return (tied && parameters) || !has_others(u, readers) ? keeper : readers->group_count;
}

static bool separate(Untie *u, Readers *readers) {
    Value *source = readers->source;
    const bool tied = u->ties->frozen[source->id] || !is_filled(source->init);
    bool any = false;
    find_groups(u, readers, tied);
    const size_t keeper = keeper_of(u, readers, tied);
    Value **owns = ARENA_ARRAY(u->ctx->scratch, Value *, readers->group_count + 1);
    for (size_t i = 0; i < readers->count; i++) {
        const TrainingPlace *place = readers->places[i];
        const size_t group = readers->groups[i];
        if (group == keeper) continue;
        if (!owns[group]) owns[group] = copy_of(u, source);
        give(u, place, owns[group]);
        if (keeper == readers->group_count && !any && !source->input && !source->referenced)
            value_swap_names(source, owns[group]); /* the name is the parameter's */
        any = true;
    }
    return any;
}

/* ---- all of them ----------------------------------------------------------------------------- */

/* Lists of places by source, in their order. */
static void find_readers(Untie *u) {
    const TrainingPlaces *places = u->ties->places;
    u->first = ARENA_ARRAY(u->ctx->scratch, uint32_t, u->ctx->model->value_count + 1);
    u->next = ARENA_ARRAY(u->ctx->scratch, uint32_t, places->count + 1);
    for (size_t i = places->count; i-- > 0;) {
        uint32_t *first = &u->first[places->items[i].source->id];
        u->next[i] = *first;
        *first = (uint32_t)i + 1;
    }
}

bool training_untie(PassCtx *ctx, const TrainingTies *ties) {
    Model *model = ctx->model;
    const size_t values = model->value_count;
    Untie u = {.ctx = ctx, .ties = ties, .moves = training_moves(ctx)};
    bool any = false;
    if (!model_has_free_initializers(model)) return false;
    find_readers(&u);
    u.clone = clone_begin(model, ctx->scratch);
    u.last = ARENA_ARRAY(ctx->scratch, uint32_t, values + 1);
    u.covered = ARENA_ARRAY(ctx->scratch, bool, model->node_count + 1);
    find_near(&u);
    for (size_t i = 0; i < ties->places->count; i++) {
        const uint32_t first = u.first[ties->places->items[i].source->id];
        if (first != i + 1 || !tensor_check(ties->places->items[i].source->init, NULL)) continue;
        Readers readers = readers_of(&u, first);
        if (separate(&u, &readers)) any = true;
    }
    const GraphList graphs = model_graphs(model, ctx->scratch);
    for (size_t i = 0; u.removed && i < graphs.count; i++) graph_sweep(graphs.items[i]);
    return any;
}
