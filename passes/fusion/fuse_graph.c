// SPDX-License-Identifier: Apache-2.0
/* What fusing passes ask of graphs and do to them; see fuse_graph.h. */
#include "fuse_graph.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "constants.h"
#include "half.h"
#include "make_node.h"
#include "op_facts.h"

static const char *const numerics_names[] = {"fast", "faithful", NULL};

const PassOption fuse_options[] = {
    {"numerics", OPTION_CHOICE, offsetof(FuseOptions, numerics), numerics_names, "fast",
     "faithful: fuse only if the rounding is that of the separate operators"},
    {0},
};

/* ---- walking --------------------------------------------------------------------------------- */

static bool stands(const Node *node) {
    for (uint32_t i = 0; i < node->output_count; i++)
        if (node->outputs[i]) return node->outputs[i]->producer == node;
    return false;
}

void each_node(PassCtx *ctx, NodeVisit *visit, void *data) {
    GraphList graphs = model_graphs(ctx->model, ctx->scratch);
    model_batch_removals(ctx->model);
    for (size_t i = 0; i < graphs.count; i++) {
        const Graph *graph = graphs.items[i];
        if (!graph_is_within(graph, ctx->model->graph)) continue;
        Node **nodes = ARENA_ARRAY(ctx->scratch, Node *, graph->node_count + 1);
        size_t count = 0;
        for (Node *node = graph->first; node; node = node_after(node)) nodes[count++] = node;
        for (size_t k = 0; k < count; k++)
            if (stands(nodes[k])) visit(ctx, nodes[k], data);
    }
    model_sweep(ctx->model, ctx->scratch);
}

/* One fusion over all nodes. */
typedef struct FuseWalk {
    Fuse *fuse;
    FuseVisit visit;
} FuseWalk;

static void fuse_node(PassCtx *ctx, Node *node, void *data) {
    const FuseWalk *walk = data;
    (void)ctx;
    walk->visit(walk->fuse, node);
}

void fuse_run(PassCtx *ctx, const FuseOptions *options, const FuseVisit *visits) {
    Fuse fuse = {.ctx = ctx, .faithful = options->numerics == 1, .options = options};
    for (; *visits; visits++) each_node(ctx, fuse_node, &(FuseWalk){&fuse, *visits});
}

/* ---- questions ------------------------------------------------------------------------------- */

static bool gives(const Node *node) {
    return node && node->output_count && node->outputs[0];
}

bool fuse_is(const Node *node, const char *op) {
    return gives(node) && domain_is_default(node->domain) && sym_equals(node->op_type, op) &&
           !model_find_function(node->graph->model, node);
}

const OpRecord *fuse_record(const Node *node) {
    return gives(node) && !model_find_function(node->graph->model, node) ? node_record(node) : NULL;
}

int64_t fuse_opset(const Node *node) {
    return opset_version(node->graph->opsets, NULL);
}

Value *fuse_input(const Node *node, uint32_t i) {
    return i < node->input_count ? node->inputs[i].value : NULL;
}

bool fuse_has_phases(const Node *node) {
    enum { STRIDE_MOST = 16 };
    uint32_t count = 0;
    const Attr *attr = node_attr(node, "strides");
    const int64_t *strides = attr_ints(attr, &count);
    if (node_attr_int(node, "group", 1) != 1 || (attr && !strides)) return false;
    for (uint32_t i = 0; i < count; i++)
        if (strides[i] < 1 || strides[i] > STRIDE_MOST) return false;
    return true;
}

bool fuse_is_inference(const Node *norm) {
    enum { OPERANDS = 5 };
    for (uint32_t i = 1; i < norm->output_count; i++)
        if (norm->outputs[i]) return false;
    return norm->input_count == OPERANDS && node_attr_int(norm, "training_mode", 0) == 0 &&
           fuse_opset(norm) >= 7 &&
           (fuse_opset(norm) >= 9 || node_attr_int(norm, "spatial", 1) != 0);
}

bool fuse_is_inner(const Value *value) {
    if (value->referenced) return false;
    for (const Use *use = value->uses; use; use = use->next)
        if (!use->node || use->node->graph != value->graph) return false;
    return true;
}

Node *fuse_reader(const Value *value) {
    return value->use_count == 1 && fuse_is_inner(value) ? value->uses->node : NULL;
}

Value *fuse_other(const Node *node, const Value *value) {
    if (node->input_count != 2) return NULL;
    Value *a = node->inputs[0].value, *b = node->inputs[1].value;
    if (a == b) return NULL;
    return a == value ? b : b == value ? a : NULL;
}

bool fuse_takes(const Value *value) {
    if (value_type(value)->kind != TYPE_TENSOR) return false;
    Dtype dtype = type_dtype(value->type);
    return dtype_is_working(dtype);
}

bool fuse_is_widening(const Node *node) {
    if (!node || !node_is_cast(node) || !fuse_is(node, "Cast") || !node->inputs[0].value ||
        !fuse_takes(node->inputs[0].value))
        return false;
    return type_dtype(node->inputs[0].value->type) != DTYPE_FLOAT &&
           type_dtype(node->outputs[0]->type) == DTYPE_FLOAT;
}

bool fuse_moves(const Node *node) {
    const OpSchema *schema = fuse_record(node) ? node_schema(node) : NULL;
    const OpFlags *flags = schema ? op_flags(schema) : NULL;
    return flags && !flags->unless_attr && flags->moved == 1 && (flags->flags & OP_KEEPS_COUNT) &&
           node->output_count == 1 && fuse_input(node, 0);
}

bool fuse_takes_bytes(const Value *value) {
    if (value_type(value)->kind != TYPE_TENSOR) return false;
    Dtype dtype = type_dtype(value->type);
    return dtype == DTYPE_INT8 || dtype == DTYPE_UINT8;
}

int64_t fuse_rank(const Value *value) {
    const Type *type = value_shaped_type(value);
    return type ? (int64_t)type->rank : -1;
}

int64_t fuse_dim(const Value *value, int64_t axis) {
    int64_t rank = fuse_rank(value);
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank) return -1;
    const Dim *dim = &value_type(value)->dims[axis];
    return dim->kind == DIM_KNOWN && dim->size >= 0 ? dim->size : -1;
}

Dtype fuse_rounded_to(const Value *value) {
    const Tensor *was = value->init ? value->init->cast_of : NULL;
    return was && type_dtype(value->type) == DTYPE_FLOAT ? (Dtype)was->dtype
                                                         : type_dtype(value->type);
}

double fuse_slack(const Value *value) {
    return fmax(1e-5, 2.048 * dtype_roundoff(fuse_rounded_to(value)));
}

/* The number as a value of that type has it. */
static float rounded(float number, Dtype dtype) {
    uint16_t narrow;
    if (!dtype_is_reduced(dtype)) return number;
    reduced_convert_from_float(dtype, &narrow, &number, 1);
    reduced_convert_to_float(dtype, &number, &narrow, 1);
    return number;
}

bool fuse_scalar(const Value *value, float *number) {
    const Node *cast = value->producer;
    if (constant_scalar(value, number)) return true;
    if (!fuse_is(cast, "Cast") || !fuse_takes(value) || !cast->inputs[0].value ||
        !constant_scalar(cast->inputs[0].value, number))
        return false;
    *number = rounded(*number, type_dtype(value->type));
    return true;
}

bool fuse_is_number(const Value *value, const Value *to, double number) {
    float have;
    if (!value || !fuse_scalar(value, &have)) return false;
    return fabs((double)have - number) <= fuse_slack(value) * fabs(number) &&
           (fuse_rank(value) == 0 || (fuse_rank(value) > 0 && fuse_rank(value) <= fuse_rank(to)));
}

bool fuse_attr_float(const Node *node, const char *name, float otherwise, float *number) {
    const Attr *attr = node_attr(node, name);
    *number = otherwise;
    return !attr || attr_float(attr, number);
}

bool fuse_attr_is(const Node *node, const char *name, const char *text, bool by_default) {
    const Attr *attr = node_attr(node, name);
    return attr ? attr_is_text(attr, text) : by_default;
}

/* ---- making ---------------------------------------------------------------------------------- */

Node *fuse_new(Fuse *fuse, Node *at, const char *op, const Node *like, uint32_t inputs) {
    Model *model = fuse->ctx->model;
    Sym domain = sym_intern_cstr(&model->syms, FUSED_DOMAIN);
    if (opset_version(at->graph->opsets, domain) != FUSED_OPSET)
        model_import_opset(model, at->graph->opsets, domain, FUSED_OPSET);
    Node *node = node_new(at->graph, at, sym_intern_cstr(&model->syms, op), domain);
    node->name = like->name;
    node_resize_inputs(node, inputs);
    node_resize_outputs(node, 1);
    return node;
}

Value *fuse_make(Fuse *fuse, Node *at, const char *op, Value *const operands[2], const Type *type) {
    const Make make = {fuse->ctx, at, node_label(at)};
    Value *value = make_op(&make, op, operands, operands[1] ? 2 : 1, type_dtype(type));
    value_set_type(value, type);
    return value;
}

void fuse_set_dtype(Fuse *fuse, Value *value, Dtype dtype) {
    Arena *arena = &fuse->ctx->model->arena;
    if (type_dtype(value->type) != dtype)
        value_set_type(value, type_with_dtype(arena, value->type, dtype));
}

Value *fuse_new_ints(Fuse *fuse, Graph *graph, const int64_t *items, uint32_t count) {
    Arena *arena = &fuse->ctx->model->arena;
    const int64_t length = count;
    Dim *dim = ARENA_NEW(arena, Dim);
    *dim = (Dim){.kind = DIM_KNOWN, .size = length};
    Value *value = value_new(graph, sym_fresh(&fuse->ctx->model->syms, "shape"));
    value_set_type(value, type_new_shaped(arena, DTYPE_INT64, dim, 1));
    value_set_init(value,
                   tensor_new_raw(arena, DTYPE_INT64, &length, 1, items, 8 * (uint64_t)count));
    return value;
}

/* Trailing inputs that are omitted are not there at all. */
static void trim_inputs(Node *node) {
    uint32_t inputs = node->input_count;
    while (inputs && !node->inputs[inputs - 1].value) inputs--;
    node_resize_inputs(node, inputs);
}

static bool is_dead(const Node *node) {
    for (uint32_t i = 0; i < node->output_count; i++)
        if (node->outputs[i] && (node->outputs[i]->uses || node->outputs[i]->referenced))
            return false;
    return true;
}

void fuse_replace_root(Fuse *fuse, Node *made, Node *root) {
    VEC(Node *) dead = {0};
    Value *result = root->outputs[0];
    trim_inputs(made);
    node_set_output(root, 0, NULL);
    node_set_output(made, 0, result);
    VEC_PUSH(fuse->ctx->scratch, &dead, root);
    for (size_t i = 0; i < dead.count; i++) {
        Node *node = dead.items[i];
        uint32_t count = node->input_count;
        Node **before = ARENA_ARRAY(fuse->ctx->scratch, Node *, count + 1);
        for (uint32_t k = 0; k < count; k++)
            if (node->inputs[k].value) before[k] = node->inputs[k].value->producer;
        node_remove_unswept(node);
        for (uint32_t k = 0; k < count; k++) {
            bool again = false; /* an operand that is read twice */
            for (uint32_t j = 0; j < k; j++) again = again || before[j] == before[k];
            if (before[k] && before[k] != made && !again && before[k]->graph == made->graph &&
                is_dead(before[k]))
                VEC_PUSH(fuse->ctx->scratch, &dead, before[k]);
        }
    }
    fuse->ctx->counts->rewrites++;
}

void fuse_replace(Fuse *fuse, Node *made, Node *const *old, size_t count) {
    Node *last = old[count - 1];
    Value *result = last->outputs[0];
    trim_inputs(made);
    node_set_output(last, 0, NULL);
    node_set_output(made, 0, result);
    while (count-- > 0) node_remove_unswept(old[count]);
    fuse->ctx->counts->rewrites++;
}
