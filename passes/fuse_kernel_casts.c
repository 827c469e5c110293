// SPDX-License-Identifier: Apache-2.0
/* fuse-kernel-casts: casts between float types go into the kernels around them.
 *
 *   Cast(kernel(x))                      ->  kernel(x) {to}
 *   kernel(Cast(x, float)), x in 16 bit  ->  kernel(x)
 *   Attention(Cast(x, 16 bit)), x float  ->  Attention(x), not in faithful plans
 *   y = LayerNormalization(x), float; Cast(y, 16 bit); others read y, too
 *                                        ->  y, , cast = LayerNormalization(x) {low}
 *
 * Kernels are Conv, MatMul, Gemm, LayerNormalization and Gelu, fused or not; they become
 * demi.fused's. A result that is cast is read by nothing else, and so is the result of a cast that
 * is read. Between a kernel and its cast there may be nodes that only move elements (Reshape,
 * Transpose), which move them in the other type then. Of products only casts that widen are read: rounding an operand once for all kernels is what
 * makes 16-bit kernels fast. Attention computes in float whatever it reads, and a cache of keys that is
 * float would be rounded whole for each token. Constants are left to be converted when compiling.
 * Faithful: a result that is float is rounded once either way, and widening is exact; a cast of a
 * 16-bit result stays, as it would no longer be rounded.
 */
#include "constants.h"
#include "fuse_graph.h"
#include "op_types.h"

static bool is_fused(const Node *node) {
    return sym_equals(node->domain, FUSED_DOMAIN);
}

/* ---- kernels --------------------------------------------------------------------------------- */

/* The fused node of that form in place of one of ai.onnx. */
static Node *convert(Fuse *fuse, Node *node, const OpForm *form) {
    Node *made = fuse_new(fuse, node, form->fused, node, FORM_OPERANDS);
    node_share_lists(made, node);
    for (uint32_t i = 0; i < FORM_OPERANDS; i++)
        if (form->operands[i] >= 0)
            node_set_input(made, i, fuse_input(node, (uint32_t)form->operands[i]));
    node_remove_attr(made, "stash_type");
    fuse_replace(fuse, made, &node, 1);
    return made;
}

static bool all_taken(const Node *node) {
    for (uint32_t i = 0; i < node->input_count; i++)
        if (node->inputs[i].value && !fuse_takes(node->inputs[i].value)) return false;
    for (uint32_t i = 0; i < node->output_count; i++)
        if (node->outputs[i] && (i || !fuse_takes(node->outputs[i]))) return false;
    return node->output_count && node->outputs[0];
}

/* The form that the node's operator has among demi's own. */
static const OpForm *form_of(const Node *node) {
    const OpRecord *record = fuse_record(node);
    return record ? op_form_find(record->domain, record->name) : NULL;
}

/* True where the node has a kernel that reads and writes any float type. */
static bool is_kernel(const Node *node) {
    if (!node || is_fused(node)) return node != NULL;
    return form_of(node) && all_taken(node);
}

/* The kernel as a node of demi.fused; NULL where there is none for it after all: a product of
 * matrices may have what a fused one lacks. */
static Node *as_fused(Fuse *fuse, Node *node) {
    if (is_fused(node)) return node;
    const OpForm *form = form_of(node);
    bool matrices = fuse_is(node, "MatMul") || fuse_is(node, "Gemm");
    return matrices ? fuse_matmul_alone(fuse, node) : convert(fuse, node, form);
}

/* ---- casts ----------------------------------------------------------------------------------- */

/* The first of those values, each made of the one before by nodes that move elements and read by
 * the next of them alone. */
static Value *before_moves(Value *value) {
    while (fuse_moves(value->producer) && fuse_reader(value->producer->inputs[0].value) &&
           value->producer->graph == value->graph)
        value = value->producer->inputs[0].value;
    return value;
}

/* All of them, from `first` on, have that type. */
static void retype(Fuse *fuse, Value *first, const Value *end, Dtype dtype) {
    for (Value *value = first; value != end; value = fuse_reader(value)->outputs[0])
        fuse_set_dtype(fuse, value, dtype);
}

static bool fuse_write(Fuse *fuse, Node *cast) {
    Value *last = cast->inputs[0].value, *result = cast->outputs[0];
    if (fuse_reader(last) != cast) return false;
    Value *y = before_moves(last);
    Node *kernel = y->producer;
    bool exact = type_dtype(y->type) == DTYPE_FLOAT;
    if (!is_kernel(kernel) || y->output_index != 0 || kernel->graph != cast->graph ||
        (!exact && (fuse->faithful || node_attr(kernel, "to"))))
        return false; /* the second of two casts may undo what its author meant the first to round
                       */
    Dtype to = type_dtype(result->type);
    kernel = as_fused(fuse, kernel);
    if (!kernel) return false;
    node_set_attr_int(kernel, "to", to);
    retype(fuse, y, last, to);
    Node *maker = last->producer;
    node_set_output(cast, 0, NULL);
    node_remove_unswept(cast);
    node_set_output(maker, 0, result);
    return true;
}

/* A norm that gives its float result in 16 bit, too, as others read it as it is. */
static bool fuse_beside(Fuse *fuse, Node *cast) {
    Value *y = cast->inputs[0].value, *low = cast->outputs[0];
    Node *norm = y->producer;
    if (type_dtype(y->type) != DTYPE_FLOAT || y->output_index != 0 || !is_kernel(norm) ||
        norm->graph != cast->graph || !sym_equals(norm->op_type, "LayerNormalization") ||
        node_attr(norm, "low"))
        return false;
    norm = as_fused(fuse, norm);
    if (!norm) return false;
    node_set_attr_int(norm, "low", type_dtype(low->type));
    node_set_output(cast, 0, NULL);
    node_remove_unswept(cast);
    node_resize_outputs(norm, 3);
    node_set_output(norm, 2, low);
    return true;
}

/* The outputs keep the types that they have from the first operand, where nothing else is said. */
static void keep_types(Node *kernel) {
    static const char *const names[] = {"to", "sum"}; /* of two outputs: LayerNormalization's */
    for (uint32_t i = 0; i < kernel->output_count && i < 2; i++)
        if (kernel->outputs[i] && !node_attr(kernel, names[i]))
            node_set_attr_int(kernel, names[i], type_dtype(kernel->outputs[i]->type));
}

/* True where the value follows from constants alone, by few nodes: `left` may yet be looked at. */
static bool is_computed_ahead(const Value *value, int *left) {
    if (value_is_constant(value)) return true;
    const Node *node = value->producer;
    if (!node || !node->input_count || --*left < 0) return false;
    for (uint32_t i = 0; i < node->input_count; i++)
        if (node->inputs[i].value && !is_computed_ahead(node->inputs[i].value, left)) return false;
    return true;
}

/* The kernel, the cast's one reader, reads what the cast does; its results keep their types. */
static void read_before(Node *kernel, Node *cast) {
    for (uint32_t i = 0; i < kernel->input_count; i++) {
        if (kernel->inputs[i].value != cast->outputs[0]) continue;
        if (i == 0) keep_types(kernel);
        node_set_input(kernel, i, cast->inputs[0].value);
    }
    node_remove_unswept(cast);
}

/* The last of those values, each read only by a node that moves its elements to the next. */
static Value *behind_moves(Value *value) {
    const Node *reader = fuse_reader(value);
    while (fuse_moves(reader) && fuse_input(reader, 0) == value) {
        value = reader->outputs[0];
        reader = fuse_reader(value);
    }
    return value;
}

/* The same where the cast's result is moved to be `moved`, which the kernel alone reads. */
static void move_before(Fuse *fuse, Node *kernel, Node *cast, Value *moved) {
    Value *x = cast->inputs[0].value, *wide = cast->outputs[0];
    if (fuse_input(kernel, 0) == moved) keep_types(kernel);
    retype(fuse, fuse_reader(wide)->outputs[0], moved, type_dtype(x->type));
    fuse_set_dtype(fuse, moved, type_dtype(x->type));
    node_set_input(fuse_reader(wide), 0, x);
    node_remove_unswept(cast);
}

static bool fuse_read(Fuse *fuse, Node *cast) {
    Value *x = cast->inputs[0].value, *wide = cast->outputs[0];
    Value *moved = behind_moves(wide);
    Node *kernel = fuse_reader(moved);
    int left = 64;
    if (type_dtype(wide->type) != DTYPE_FLOAT || is_computed_ahead(x, &left) || !kernel ||
        !is_kernel(kernel))
        return false;
    kernel = as_fused(fuse, kernel);
    if (!kernel) return false;
    if (moved == wide)
        read_before(kernel, cast);
    else
        move_before(fuse, kernel, cast, moved);
    return true;
}

/* Rounding that only attention reads. */
static bool fuse_rounding(Fuse *fuse, Node *cast) {
    Value *x = cast->inputs[0].value, *low = cast->outputs[0];
    Node *kernel = fuse_reader(low);
    if (fuse->faithful || type_dtype(x->type) != DTYPE_FLOAT || !kernel || !is_fused(kernel) ||
        !sym_equals(kernel->op_type, "Attention") || !is_kernel(kernel))
        return false;
    read_before(kernel, cast);
    return true;
}

static void visit(Fuse *fuse, Node *cast) {
    if (!node_is_cast(cast) || !fuse_takes(cast->inputs[0].value) ||
        !fuse_takes(cast->outputs[0]) || model_find_function(fuse->ctx->model, cast) ||
        type_dtype(cast->inputs[0].value->type) == type_dtype(cast->outputs[0]->type))
        return;
    if (!fuse_write(fuse, cast) && !fuse_read(fuse, cast) && !fuse_rounding(fuse, cast) &&
        !fuse_beside(fuse, cast))
        return;
    fuse->ctx->counts->casts_fused++;
    fuse->ctx->counts->rewrites++;
}

FUSE_PASS(fuse_kernel_casts, "fuse-kernel-casts",
          "fuse casts into kernels that can read or write the other type, for plans", visit);
