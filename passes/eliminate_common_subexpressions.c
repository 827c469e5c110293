// SPDX-License-Identifier: Apache-2.0
/* eliminate-common-subexpressions: of nodes that compute the same of the same, and of equal constants, one is left.
 *
 *   a = Shape (x)  b = Shape (x)        ->  a, which what read b reads
 *   float[2] w = {1, 2}, v = {1, 2}     ->  w
 *
 * The first stays, also for graphs inside the one it lies in. Nodes are equal that have the same
 * operator, operands and attributes; random ones, those with graphs, calls of functions and
 * operators that demi does not know are left alone. Constants are equal that have the same type,
 * dims and bytes, and are initializers; doc strings and metadata of those that go are lost. What has
 * a name that is an interface's stays.
 */
#include <string.h>

#include "compare.h"
#include "hash64.h"
#include "op_types.h"
#include "passes.h"
#include "fuse_graph.h"
#include "simplify_graph.h"

/* What was met, by its hash: in the order it was met. */
typedef struct Seen {
    struct Seen *next;
    uint64_t hash;
    Node *node;   /* or */
    Value *value; /* an initializer */
} Seen;

typedef struct Merge {
    PassCtx *ctx;
    Err *err;
    Seen **slots; /* [slot_count], a power of two */
    size_t slot_count;
    uint32_t *position; /* [model's nodes]: in its graph */
    NameCounts names;
    VEC(Value *) gone; /* initializers of the graph at hand */
} Merge;

static uint64_t mix(uint64_t hash, const void *bytes, size_t size) {
    return hash64_bytes(bytes, size, hash);
}

static Seen **slot_of(const Merge *merge, uint64_t hash) {
    return &merge->slots[hash & (merge->slot_count - 1)];
}

static void remember(const Merge *merge, Seen seen) {
    Seen **at = slot_of(merge, seen.hash);
    Seen *made = ARENA_NEW(merge->ctx->scratch, Seen);
    seen.next = *at;
    *made = seen;
    *at = made;
}

/* The next one with that hash from `seen` on, or NULL; also after LOOKS of them, so that what only
 * looks alike costs no more than that. */
static Seen *next_seen(Seen *seen, uint64_t hash, unsigned *looks) {
    enum { LOOKS = 64 };
    while (seen && seen->hash != hash) seen = seen->next;
    return (*looks)++ < LOOKS ? seen : NULL;
}

/* ---- constants ------------------------------------------------------------------------------- */

static bool has_plain_data(const Value *value) {
    const Tensor *tensor = value->init;
    return !value->input && !value->trained && tensor->dtype != DTYPE_STRING &&
           tensor_check(tensor, NULL);
}

/* Of the type, the dims and the first bytes: whole weights are read only where these agree. */
static bool hash_constant(const Merge *merge, const Tensor *tensor, uint64_t *hash) {
    enum { FIRST = 4096 };
    unsigned char first[FIRST];
    uint64_t size = tensor_raw_size(tensor);
    uint64_t part = size < FIRST ? size : FIRST;
    if (!tensor_read_raw(tensor, 0, first, part, merge->err)) return false;
    *hash = mix((uint64_t)tensor->dtype, tensor->dims, tensor->rank * sizeof *tensor->dims);
    *hash = mix(*hash, first, (size_t)part);
    return true;
}

static bool same_tensor(const Tensor *a, const Tensor *b) {
    return a->dtype == b->dtype && a->rank == b->rank &&
           (a->rank == 0 || memcmp(a->dims, b->dims, a->rank * sizeof *a->dims) == 0) &&
           tensor_compare_raw(a, b, tensor_raw_size(a), NULL);
}

/* True where what reads the value may read the first instead: it is visible there by its name. */
static bool reaches(const Merge *merge, const Value *first, const Value *value) {
    return first->graph == value->graph ||
           (graph_is_within(value->graph, first->graph) && name_is_single(&merge->names, first));
}

static bool merge_constant(Merge *merge, Value *value) {
    uint64_t hash;
    if (!value->uses || !has_plain_data(value)) return true;
    if (!hash_constant(merge, value->init, &hash)) return false;
    unsigned looks = 0;
    for (Seen *seen = next_seen(*slot_of(merge, hash), hash, &looks); seen;
         seen = next_seen(seen->next, hash, &looks)) {
        if (!seen->value || !reaches(merge, seen->value, value) ||
            !same_tensor(seen->value->init, value->init))
            continue;
        if (!value_bypass(value, seen->value)) return true;
        VEC_PUSH(merge->ctx->scratch, &merge->gone, value);
        merge->ctx->counts->rewrites++;
        return true;
    }
    remember(merge, (Seen){.hash = hash, .value = value});
    return true;
}

static bool merge_constants(Merge *merge, Graph *graph) {
    merge->gone.count = 0;
    for (size_t i = 0; i < graph->initializers.count; i++)
        if (!merge_constant(merge, graph->initializers.items[i])) return false;
    graph_remove_initializers(graph, merge->gone.items, merge->gone.count);
    return true;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static bool may_merge(const Merge *merge, const Node *node) {
    const OpRecord *record = node_record(node);
    return record && node_schema(node) && !node_holds_graph(node) && node->input_count > 0 &&
           !op_record_has(record, OP_RANDOM) && !op_record_has(record, OP_RANDOM_TRAINING) &&
           !model_find_function(merge->ctx->model, node);
}

/* Of the operator, its operands and, in any order, integers among the attributes. */
static uint64_t hash_node(const Node *node) {
    uint64_t attrs = node->output_count;
    for (const Attr *attr = node->attrs; attr; attr = attr->next) {
        uint32_t count;
        int64_t number = 0;
        const int64_t *ints = attr_ints(attr, &count);
        attr_int(attr, &number);
        attrs += mix((uint64_t)number, ints, count * sizeof *ints);
    }
    uint64_t hash = mix(attrs, node->op_type->text, node->op_type->length);
    for (uint32_t i = 0; i < node->input_count; i++) {
        const Value *value = node->inputs[i].value;
        uint32_t id = value ? value->id : UINT32_MAX;
        hash = mix(hash, &id, sizeof id);
    }
    return hash;
}

static bool same_lists(const Attr *a, const Attr *b) {
    uint32_t n, m;
    const int64_t *ints = attr_ints(a, &n), *other = attr_ints(b, &m);
    if (a->type == ATTR_INTS) return n == m && (n == 0 || !memcmp(ints, other, n * sizeof *ints));
    const float *floats = attr_floats(a, &n), *others = attr_floats(b, &m);
    if (a->type == ATTR_FLOATS)
        return n == m && (n == 0 || !memcmp(floats, others, n * sizeof *floats));
    return false;
}

static bool same_attr(const Attr *a, const Attr *b) {
    int64_t i = 0, k = 0;
    float f = 0, g = 0;
    if (a->name != b->name || a->type != b->type || a->ref || b->ref || a->also || b->also)
        return false;
    switch (a->type) {
    case ATTR_INT: return attr_int(a, &i) == attr_int(b, &k) && i == k;
    case ATTR_FLOAT: return attr_float(a, &f) == attr_float(b, &g) && !memcmp(&f, &g, sizeof f);
    case ATTR_STRING: return attr_same_text(a, b);
    case ATTR_INTS:
    case ATTR_FLOATS: return same_lists(a, b);
    case ATTR_TENSOR:
        return attr_tensor(a) && attr_tensor(b) && attr_tensor(a)->dtype != DTYPE_STRING &&
               tensor_check(attr_tensor(a), NULL) && tensor_check(attr_tensor(b), NULL) &&
               same_tensor(attr_tensor(a), attr_tensor(b));
    case ATTR_UNDEFINED:
    case ATTR_GRAPH:
    case ATTR_STRINGS:
    case ATTR_TENSORS:
    case ATTR_GRAPHS:
    case ATTR_SPARSE_TENSOR:
    case ATTR_SPARSE_TENSORS:
    case ATTR_TYPE:
    case ATTR_TYPES: break;
    }
    return false;
}

/* Attributes in any order; a list has each name once. */
static bool same_attrs(const Node *a, const Node *b) {
    uint32_t left = 0;
    for (const Attr *attr = b->attrs; attr; attr = attr->next) left++;
    for (const Attr *attr = a->attrs; attr; attr = attr->next, left--) {
        const Attr *other = attr->name ? node_attr(b, attr->name->text) : NULL;
        if (!other || !same_attr(attr, other)) return false;
    }
    return left == 0;
}

static bool same_node(const Node *a, const Node *b) {
    if (a->op_type != b->op_type || a->domain != b->domain || a->input_count != b->input_count ||
        a->output_count != b->output_count || a->graph->opsets != b->graph->opsets)
        return false;
    for (uint32_t i = 0; i < a->input_count; i++)
        if (a->inputs[i].value != b->inputs[i].value) return false;
    for (uint32_t i = 0; i < a->output_count; i++)
        if (!a->outputs[i] != !b->outputs[i] ||
            (a->outputs[i] && !type_same_dtypes(a->outputs[i]->type, b->outputs[i]->type)))
            return false;
    return same_attrs(a, b);
}

/* True where `first` has run before whatever `node` lies in does, and its results are visible there
 * by their names. */
static bool comes_before(const Merge *merge, const Node *first, const Node *node) {
    for (uint32_t i = 0; first->graph != node->graph && i < first->output_count; i++)
        if (first->outputs[i] && !name_is_single(&merge->names, first->outputs[i])) return false;
    while (node && node->graph != first->graph) node = node->graph->owner;
    return node && merge->position[first->id] < merge->position[node->id];
}

static void merge_into(const Merge *merge, Node *node, const Node *first) {
    for (uint32_t i = 0; i < node->output_count; i++) {
        Value *value = node->outputs[i];
        if (!value || !value->uses) continue;
        if (!value_bypass(value, first->outputs[i])) return;
        merge->ctx->counts->rewrites++;
    }
    for (uint32_t i = 0; i < node->output_count; i++)
        if (node->outputs[i] && node->outputs[i]->referenced) return;
    node_remove_unswept(node);
}

static void merge_node(PassCtx *ctx, Node *node, void *data) {
    Merge *merge = data;
    unsigned looks = 0;
    (void)ctx;
    if (!may_merge(merge, node)) return;
    uint64_t hash = hash_node(node);
    for (Seen *seen = next_seen(*slot_of(merge, hash), hash, &looks); seen;
         seen = next_seen(seen->next, hash, &looks)) {
        if (!seen->node || !same_node(seen->node, node) || !comes_before(merge, seen->node, node))
            continue;
        merge_into(merge, node, seen->node);
        return; /* one that has to stay is for nobody else, either */
    }
    remember(merge, (Seen){.hash = hash, .node = node});
}

/* ---- the pass -------------------------------------------------------------------------------- */

static void prepare(Merge *merge, const GraphList *graphs) {
    size_t count = 0;
    for (size_t i = 0; i < graphs->count; i++) {
        uint32_t position = 0;
        count += graphs->items[i]->node_count + graphs->items[i]->initializers.count;
        for (Node *node = graphs->items[i]->first; node; node = node_after(node))
            merge->position[node->id] = position++;
    }
    for (merge->slot_count = 64; merge->slot_count < 2 * count;) merge->slot_count *= 2;
    merge->slots = ARENA_ARRAY(merge->ctx->scratch, Seen *, merge->slot_count);
}

static bool run(PassCtx *ctx, const void *options, Err *err) {
    (void)options;
    Merge merge = {.ctx = ctx, .err = err};
    GraphList graphs = model_graphs(ctx->model, ctx->scratch);
    merge.position = ARENA_ARRAY(ctx->scratch, uint32_t, ctx->model->node_count + 1);
    merge.names = names_count(ctx);
    prepare(&merge, &graphs);
    for (size_t i = 0; i < graphs.count; i++)
        if (graph_is_within(graphs.items[i], ctx->model->graph) &&
            !merge_constants(&merge, graphs.items[i]))
            return false;
    each_node(ctx, merge_node, &merge);
    return true;
}

const PassInfo eliminate_common_subexpressions_pass = {
    .name = "eliminate-common-subexpressions",
    .summary = "common subexpression elimination (CSE): keep one of several nodes that compute the "
               "same, and of equal constants",
    .needs = FACT_DTYPES,
    .gives = FACT_DTYPES,
    .idempotent = true,
    .run = run,
};
