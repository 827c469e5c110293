// SPDX-License-Identifier: Apache-2.0
/* fuse-qkv: queries, keys and values that are products of one value become one product.
 *
 *   q, k, v = Reshape(MatMul(x, W?) + b?, {0, 0, heads, size})
 *   Attention(q, k, v)
 *     ->  all = Reshape(MatMul(x, Concat(W, W, W)) + Concat(b, b, b), {0, 0, 3, heads, size})
 *         Attention(all, all, all) {parts: 0, 1, 2}
 *
 * x is read once instead of three times, and there is one step instead of six; attention reads its
 * part of the rows where they are. Weights and biases are constants of one shape; weights, products
 * and what becomes of them are read by nothing else. Those that widen-values widened are joined in 16 bit,
 * as they are stored so. Of demi.fused's Attention, so behind fuse-attention, and behind fuse-matmul, which
 * takes the bias.
 */
#include "constants.h"
#include "fuse_graph.h"

enum { BRANCHES = 3, RANK = 4, JOINED_RANK = 5 };

/* A product and the heads that its columns are. */
typedef struct Branch {
    Node *reshape, *product;
    Value *x, *weights, *bias; /* bias may be NULL */
    int64_t heads, size;
} Branch;

static bool is_fused(const Node *node, const char *op) {
    return node && sym_equals(node->domain, FUSED_DOMAIN) && sym_equals(node->op_type, op);
}

/* True where the list is (batch, rows, heads, size) of x, whose first two axes it keeps. */
static bool keeps_rows(const Fuse *fuse, const Value *shape, const Value *x, Branch *branch) {
    const Tensor *tensor = shape ? constant_tensor(shape, fuse->ctx->scratch) : NULL;
    int64_t *items;
    uint64_t count;
    if (!tensor || !tensor_check(tensor, NULL) ||
        !tensor_read_ints(tensor, fuse->ctx->scratch, RANK, &items, &count) || count != RANK)
        return false;
    bool open = false;
    for (uint32_t i = 0; i < 2; i++) {
        bool same = items[i] == 0 || items[i] == fuse_dim(x, i);
        if (!same && (open || items[i] != -1)) return false;
        open = open || !same;
    }
    branch->heads = items[2];
    branch->size = items[3];
    return branch->heads > 0 && branch->heads < INT32_MAX && branch->size > 0 &&
           branch->size < INT32_MAX && branch->heads * branch->size == fuse_dim(x, -1);
}

/* True where the product is nothing but x W + b, of constants. */
static bool is_plain(const Node *product) {
    const Value *w = fuse_input(product, 1), *b = fuse_input(product, 2);
    if ((!is_fused(product, "MatMul") && !fuse_is(product, "MatMul")) || !w || fuse_rank(w) != 2 ||
        !value_is_constant(w) || fuse_reader(w) != product || fuse_input(product, 3))
        return false;
    if (b && (!value_is_constant(b) || fuse_rank(b) != 1 || fuse_dim(b, 0) != fuse_dim(w, 1) ||
              b->graph != w->graph))
        return false;
    float alpha;
    return fuse_attr_is(product, "activation", "", true) && !node_attr_int(product, "transA", 0) &&
           !node_attr_int(product, "transB", 0) && fuse_attr_float(product, "alpha", 1, &alpha) &&
           alpha == 1;
}

/* The product behind operand i of attention, whose heads are split by a Transpose that it reads
 * through. */
static bool find_branch(const Fuse *fuse, const Node *attention, uint32_t i, Branch *branch) {
    static const char *const names[] = {"q_axes", "k_axes", "v_axes"};
    static const int64_t split[RANK] = {0, 2, 1, 3};
    uint32_t count;
    const int64_t *axes = attr_ints(node_attr(attention, names[i]), &count);
    for (uint32_t k = 0; k < RANK; k++)
        if (!axes || count != RANK || axes[k] != split[k]) return false;
    const Value *operand = fuse_input(attention, i);
    branch->reshape = operand->producer;
    const Value *y = fuse_is(branch->reshape, "Reshape") ? fuse_input(branch->reshape, 0) : NULL;
    if (!y || fuse_reader(operand) != attention || fuse_reader(y) != branch->reshape ||
        fuse_rank(y) != 3 || !y->producer || y->output_index != 0 ||
        y->producer->graph != attention->graph || !is_plain(y->producer) ||
        !keeps_rows(fuse, fuse_input(branch->reshape, 1), y, branch))
        return false;
    branch->product = y->producer;
    branch->x = fuse_input(branch->product, 0);
    branch->weights = fuse_input(branch->product, 1);
    branch->bias = fuse_input(branch->product, 2);
    return true;
}

static bool same_types(const Value *a, const Value *b) {
    return !a == !b && (!a || (type_dtype(a->type) == type_dtype(b->type) &&
                               fuse_rounded_to(a) == fuse_rounded_to(b)));
}

static bool are_alike(const Branch *a, const Branch *b) {
    return a->x == b->x && a->heads == b->heads && a->size == b->size &&
           same_types(a->weights, b->weights) && same_types(a->bias, b->bias) &&
           same_types(a->product->outputs[0], b->product->outputs[0]);
}

/* `like` with other known dims at the end: `count` of them in place of its last `dropped`. */
static const Type *with_tail(Fuse *fuse, const Value *like, uint32_t dropped, const int64_t *sizes,
                             uint32_t count) {
    Arena *arena = &fuse->ctx->model->arena;
    const Type *type = value_shaped_type(like);
    const uint32_t kept = type->rank - dropped;
    Dim *dims = ARENA_ARRAY(arena, Dim, kept + count);
    for (uint32_t i = 0; i < kept; i++) dims[i] = type->dims[i];
    for (uint32_t i = 0; i < count; i++)
        dims[kept + i] = (Dim){.kind = DIM_KNOWN, .size = sizes[i]};
    return type_new_shaped(arena, type_dtype(type), dims, kept + count);
}

/* Constants that were widened (widen_values.c): what they were of, side by side, widened. NULL where they are
 * others, or can't be read. */
static Value *join_narrow(Fuse *fuse, Value *const parts[BRANCHES], int64_t columns) {
    Arena *arena = &fuse->ctx->model->arena;
    const Dtype dtype = fuse_rounded_to(parts[0]);
    const uint32_t rank = (uint32_t)fuse_rank(parts[0]);
    const int64_t rows = rank == 2 ? fuse_dim(parts[0], 0) : 1, dims[] = {rows, columns};
    if (dtype == type_dtype(parts[0]->type) || rows < 0) return NULL;
    const uint64_t all = (uint64_t)columns * sizeof(uint16_t), part = all / BRANCHES;
    char *data = arena_alloc(fuse->ctx->scratch, (uint64_t)rows * all);
    for (uint32_t i = 0; i < BRANCHES; i++) {
        const Tensor *tensor = parts[i]->init->cast_of;
        Err ignored = {0};
        if (parts[i]->init->factors || !tensor_check(tensor, NULL) ||
            tensor_raw_size(tensor) != (uint64_t)rows * part)
            return NULL;
        for (uint64_t r = 0; r < (uint64_t)rows; r++)
            if (!tensor_read_raw(tensor, r * part, data + r * all + i * part, part, &ignored))
                return NULL;
    }
    const Tensor *narrow =
        tensor_new_raw(arena, dtype, rank == 2 ? dims : dims + 1, rank, data, (uint64_t)rows * all);
    arena_release(fuse->ctx->scratch, data, (uint64_t)rows * all);
    return fuse_new_constant(fuse, parts[0]->graph, tensor_new_cast(arena, narrow, DTYPE_FLOAT));
}

/* The constants side by side along their last axis. */
static Value *join(Fuse *fuse, Node *at, Value *const parts[BRANCHES], int64_t columns) {
    Value *narrow = join_narrow(fuse, parts, columns);
    if (narrow) return narrow;
    const Type *type = with_tail(fuse, parts[0], 1, &columns, 1);
    Value *made = fuse_make(fuse, at, "Concat", parts, type);
    node_resize_inputs(made->producer, BRANCHES);
    for (uint32_t i = 0; i < BRANCHES; i++) node_set_input(made->producer, i, parts[i]);
    node_set_attr_int(made->producer, "axis", (int64_t)type->rank - 1);
    return made;
}

static Value *make_product(Fuse *fuse, Node *at, const Branch branches[BRANCHES]) {
    const Branch *first = branches;
    const int64_t columns = BRANCHES * first->heads * first->size;
    const Type *type = with_tail(fuse, first->product->outputs[0], 1, &columns, 1);
    Value *weights[BRANCHES], *biases[BRANCHES];
    for (uint32_t i = 0; i < BRANCHES; i++) {
        weights[i] = branches[i].weights;
        biases[i] = branches[i].bias;
    }
    Value *const operands[2] = {first->x, join(fuse, at, weights, columns)};
    Value *made = fuse_make(fuse, at, "MatMul", operands, type);
    Node *fused = fuse_matmul_alone(fuse, made->producer);
    if (first->bias) {
        node_resize_inputs(fused, 3);
        node_set_input(fused, 2, join(fuse, fused, biases, columns));
    }
    fused->name = first->product->name;
    Dtype dtype = type_dtype(type);
    if (type_dtype(first->x->type) != dtype) node_set_attr_int(fused, "to", dtype);
    return fused->outputs[0];
}

static void visit(Fuse *fuse, Node *attention) {
    static const int64_t axes[] = {0, 3, 1, 4}, parts[] = {0, 1, 2};
    Branch branches[BRANCHES];
    if (!is_fused(attention, "Attention") || node_attr(attention, "parts")) return;
    for (uint32_t i = 0; i < BRANCHES; i++)
        if (!find_branch(fuse, attention, i, &branches[i]) ||
            !are_alike(&branches[0], &branches[i]))
            return;
    Value *product = make_product(fuse, attention, branches);
    const int64_t sizes[] = {BRANCHES, branches[0].heads, branches[0].size};
    const int64_t shape[] = {0, 0, sizes[0], sizes[1], sizes[2]};
    Value *const operands[] = {product, fuse_new_ints(fuse, attention->graph, shape, JOINED_RANK)};
    Value *all = fuse_make(fuse, attention, "Reshape", operands,
                           with_tail(fuse, product, 1, sizes, BRANCHES));
    for (uint32_t i = 0; i < BRANCHES; i++) node_set_input(attention, i, all);
    node_set_attr_ints(attention, "q_axes", axes, RANK);
    node_set_attr_ints(attention, "k_axes", axes, RANK);
    node_set_attr_ints(attention, "v_axes", axes, RANK);
    node_set_attr_ints(attention, "parts", parts, BRANCHES);
    for (uint32_t i = 0; i < BRANCHES; i++) {
        node_remove_unswept(branches[i].reshape);
        node_remove_unswept(branches[i].product);
    }
    fuse->ctx->counts->rewrites++;
}

FUSE_PASS(
    fuse_qkv, "fuse-qkv",
    "merge the products for attention's queries, keys, and values into one (QKV fusion), for plans",
    visit);
