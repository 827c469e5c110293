// SPDX-License-Identifier: Apache-2.0
/* quantize-rows: dynamic quantization. What products with weights of int8 are of is quantized when the model
 * runs, each row (token) by a scale of its own, and bytes are multiplied.
 *
 * Before: w = DequantizeLinear(wq, s); y = MatMul(x, w)
 * After:  q, scale, low = the rows of x as bytes, and what they are of (fusion/row_form.h has the operators)
 *         y = Cast(MatMulInteger(q, wq)) * scale * s + low * (s * sums of wq's columns)
 *
 * Products are MatMul, and Gemm that does not transpose its data; their weights are matrices of int8 with zero
 * point 0 and a scale for each column, or one. alpha goes into the scales; beta and C become an Add. Rows of a
 * value are quantized once for all products that read it in a graph, and weights stay shared. Data of 16 bits is
 * cast to float before, and the result back. What stays as it is gets a note with the reason.
 *
 * Weights that Gemm or a Transpose turns are stored turned where nothing else reads them; else a Transpose of bytes
 * turns them.
 */
#include <stddef.h>
#include <string.h>

#include "cast_node.h"
#include "constants.h"
#include "make_node.h"
#include "node_exclude.h"
#include "passes.h"
#include "qdq_plan.h"
#include "row_form.h"

typedef struct QuantizeRowsOptions {
    PassStrings keep, keep_ops, only;
    bool allow_unmatched;
} QuantizeRowsOptions;

static const PassOption options_table[] = {
    {"keep", OPTION_STRINGS, offsetof(QuantizeRowsOptions, keep), NULL, NULL,
     "products to skip, by PATTERN"},
    {"keep-ops", OPTION_STRINGS, offsetof(QuantizeRowsOptions, keep_ops), NULL, NULL,
     "operators to skip"},
    {"only", OPTION_STRINGS, offsetof(QuantizeRowsOptions, only), NULL, NULL,
     "the only products to change, by PATTERN"},
    {"allow-unmatched", OPTION_BOOL, offsetof(QuantizeRowsOptions, allow_unmatched), NULL, NULL,
     "accept patterns that match nothing"},
    {0},
};

enum { ROUND_SINCE = 11 };

/* A product, and what its weights are stored as. */
typedef struct Product {
    Node *node, *dequantize;
    Value *x, *read;   /* data; the weights as the product reads them */
    bool turned;       /* the product's matrix is the stored one with its axes exchanged */
    float alpha, beta; /* 1 of MatMul */
    int64_t depth, columns;
} Product;

/* What was made of weights for the products of a graph. */
typedef struct MadeWeights {
    const Value *read;
    const Graph *graph;
    bool turned;
    float alpha;
    RowWeights weights;
    struct MadeWeights *next;
} MadeWeights;

typedef struct MadeRows {
    const Value *x;
    const Graph *graph;
    RowBytes rows;
    struct MadeRows *next;
} MadeRows;

typedef struct Rows {
    PassCtx *ctx;
    const char **excluded;  /* [node_count] */
    const Product **chosen; /* [node_count]; NULL: it stays */
    uint32_t node_count;
    MadeWeights **weights; /* [value_count], by the id of the constant */
    MadeRows **rows;       /* [value_count], by that of x */
    bool *gone;            /* [node_count]: removed, after what it was made of */
    RowConstants shared;   /* of the graph at hand */
} Rows;

/* ---- what can be ----------------------------------------------------------------------------- */

/* The DequantizeLinear of a constant that the weights are, themselves or turned. */
static Node *dequantize_of(Value *weights, bool *turned) {
    uint32_t count = 0;
    Node *node = weights->producer;
    if (fuse_is(node, "Transpose")) {
        const Attr *attr = node_attr(node, "perm");
        const int64_t *perm = attr ? attr_ints(attr, &count) : NULL;
        const bool matrix = fuse_rank(weights) == 2;
        if (!matrix || (perm && !(count == 2 && perm[0] == 1))) return NULL;
        *turned = !*turned;
        node = fuse_input(node, 0) ? fuse_input(node, 0)->producer : NULL;
    }
    return fuse_is(node, "DequantizeLinear") && fuse_input(node, 0) &&
                   value_is_constant(fuse_input(node, 0)) && fuse_input(node, 1) &&
                   value_is_constant(fuse_input(node, 1))
               ? node
               : NULL;
}

/* All are 0, or there are none. */
static bool is_symmetric(const Rows *r, const Node *dequantize) {
    const Value *zero = fuse_input(dequantize, 2);
    const Tensor *tensor = zero ? constant_tensor(zero, r->ctx->scratch) : NULL;
    int64_t *items;
    uint64_t count;
    if (!zero) return true;
    if (!tensor || !tensor_check(tensor, NULL) ||
        !tensor_read_ints(tensor, r->ctx->scratch, tensor_count(tensor), &items, &count))
        return false;
    for (uint64_t i = 0; i < count; i++)
        if (items[i]) return false;
    return true;
}

/* A scale for all, or one for each column of the product. */
static bool has_column_scales(const Product *p) {
    const Value *scale = fuse_input(p->dequantize, 1);
    int64_t axis = node_attr_int(p->dequantize, "axis", 1);
    if (axis < 0) axis += 2;
    if (node_attr_int(p->dequantize, "block_size", 0)) return false;
    if (fuse_rank(scale) == 0) return true;
    return fuse_rank(scale) == 1 && fuse_dim(scale, 0) == p->columns && axis == (p->turned ? 0 : 1);
}

static bool read_gemm(Product *p) {
    if (node_attr_int(p->node, "transA", 0)) return false;
    p->turned ^= node_attr_int(p->node, "transB", 0) != 0;
    return fuse_attr_float(p->node, "alpha", 1, &p->alpha) &&
           fuse_attr_float(p->node, "beta", 1, &p->beta);
}

/* Whether the node is a product whose weights are stored as int8; *why says what keeps it as it is then, or NULL. */
static bool read_product(const Rows *r, Node *node, Product *p, const char **why) {
    const bool gemm = fuse_is(node, "Gemm");
    *p = (Product){.node = node, .alpha = 1, .beta = 1};
    *why = NULL;
    if ((!gemm && !fuse_is(node, "MatMul")) || !fuse_input(node, 0) || !fuse_input(node, 1))
        return false;
    p->x = fuse_input(node, 0);
    p->read = fuse_input(node, 1);
    p->dequantize = dequantize_of(p->read, &p->turned);
    if (!p->dequantize) return false;
    const Value *stored = fuse_input(p->dequantize, 0);
    if (type_dtype(stored->type) != DTYPE_INT8) return false;
    if (gemm && !read_gemm(p)) *why = "Gemm transposes its data, whose rows have no scales";
    if (fuse_rank(stored) != 2) *why = "its weights are several matrices";
    if (fuse_opset(node) < ROUND_SINCE) *why = "the model's opset has no Round";
    if (*why) return true;
    p->columns = fuse_dim(stored, p->turned ? 0 : 1);
    p->depth = fuse_dim(stored, p->turned ? 1 : 0);
    if (!has_column_scales(p) || !is_symmetric(r, p->dequantize))
        *why = "its weights have not one scale per column";
    else if (p->depth < 1 || p->columns < 1 || p->depth > ROW_DEPTH_MOST)
        *why = "its sums may not fit into 32 bits";
    else if (fuse_is(p->x->producer, "DequantizeLinear"))
        *why = "they are quantized already";
    else if (!fuse_takes(p->x) || !fuse_takes(node->outputs[0]) || value_is_constant(p->x))
        *why = "they are not computed floats of 16 or 32 bits";
    return true;
}

static const char reason[] = "uint8 activations by rows, int8 weights";

/* Of what keeps its weights of int8, and computes in float. */
static void note_float(const Rows *r, Node *node, const char *why) {
    if (!node->note || node->note->kind != NOTE_QUANTIZED) return;
    Arena *arena = &r->ctx->model->arena;
    NodeNote note = *node->note;
    note.reason = arena_printf(arena, "its weights are int8, and its activations float: %s", why);
    node->note = arena_copy(arena, &note, sizeof note);
}

static void choose(Rows *r, Node *node) {
    Product p;
    const char *why;
    const OpRecord *record = fuse_record(node);
    if (!read_product(r, node, &p, &why)) {
        if (record && record->work == WORK_CONV) note_float(r, node, "convolutions have no rows");
        return;
    }
    if (r->excluded[node->id]) why = r->excluded[node->id];
    if (why)
        note_float(r, node, why);
    else
        r->chosen[node->id] = arena_copy(r->ctx->scratch, &p, sizeof p);
}

/* ---- weights --------------------------------------------------------------------------------- */

enum { CHUNK = 1 << 20 };

/* Sums of the columns of bytes (rows, columns), or of the rows where `turned`. Bytes are read in pieces: some are
 * made only then. */
static bool read_sums(const Tensor *tensor, bool turned, int64_t *sums, Arena *owner, Err *err) {
    const uint64_t width = (uint64_t)tensor->dims[1], all = tensor_raw_size(tensor);
    Arena *scratch = arena_child(owner);
    int8_t *piece = arena_alloc(scratch, CHUNK);
    bool ok = true;
    for (uint64_t at = 0, size; ok && at < all; at += size) {
        size = all - at < CHUNK ? all - at : CHUNK;
        ok = tensor_read_raw(tensor, at, piece, size, err);
        for (uint64_t i = 0, count; ok && i < size; i += count) { /* what is of one row */
            const uint64_t column = (at + i) % width;
            count = width - column < size - i ? width - column : size - i;
            for (uint64_t k = 0; k < count; k++)
                sums[turned ? (at + i) / width : column + k] += piece[i + k];
        }
    }
    arena_free(scratch);
    return ok;
}

/* Stored bytes with their axes exchanged. */
static const Tensor *turned_tensor(PassCtx *ctx, const Tensor *tensor, Err *err) {
    const uint64_t rows = (uint64_t)tensor->dims[0], columns = (uint64_t)tensor->dims[1];
    const int64_t dims[2] = {tensor->dims[1], tensor->dims[0]};
    const uint64_t size = rows * columns;
    Arena *scratch = arena_child(ctx->scratch);
    int8_t *from = arena_alloc(scratch, size + 1);
    int8_t *to = arena_alloc_raw(&ctx->model->arena, size);
    const bool read = tensor_read_raw(tensor, 0, from, size, err);
    for (uint64_t r = 0; read && r < rows; r++)
        for (uint64_t c = 0; c < columns; c++) to[c * rows + r] = from[r * columns + c];
    arena_free(scratch);
    if (!read) return NULL;
    Tensor *made = tensor_new_raw(&ctx->model->arena, DTYPE_INT8, dims, 2, NULL, 0);
    made->bytes = (unsigned char *)to;
    made->size = size;
    return made;
}

/* Every node that reads the value, perhaps through a Transpose, is a product that was chosen, and has it turned. */
static bool all_turn(const Rows *r, const Value *value, bool behind) {
    for (const Use *use = value->uses; use; use = use->next) {
        const Node *node = use->node;
        if (!node || node->id >= r->node_count) return false;
        const Product *p = r->chosen[node->id];
        if (p ? use->index != 1 || !p->turned
              : behind || !fuse_is(node, "Transpose") || !all_turn(r, node->outputs[0], true))
            return false;
    }
    return !value->referenced;
}

/* The matrix of the product as a value of bytes. */
static Value *matrix_of(Rows *r, const Make *make, const Product *p, const Tensor *tensor,
                        Err *err) {
    static const int64_t exchanged[2] = {1, 0};
    Value *stored = fuse_input(p->dequantize, 0);
    if (!p->turned) return stored;
    if (stored->use_count == 1 && !stored->referenced &&
        all_turn(r, p->dequantize->outputs[0], false)) {
        const Tensor *turned = turned_tensor(r->ctx, tensor, err);
        return turned ? make_constant(make, turned) : NULL;
    }
    Arena *arena = &r->ctx->model->arena;
    const Dim dims[2] = {{.kind = DIM_KNOWN, .size = p->depth},
                         {.kind = DIM_KNOWN, .size = p->columns}};
    Value *made = make_op(make, "Transpose", &stored, 1, DTYPE_INT8);
    value_set_type(made,
                   type_new_shaped(arena, DTYPE_INT8, arena_copy(arena, dims, sizeof dims), 2));
    node_set_attr_ints(made->producer, "perm", exchanged, 2);
    node_add_metadata(made->producer, OWN_QUANTIZER, QUANTIZER_OF_PRODUCTS);
    return made;
}

/* The scales of the columns times alpha, and the sums of the columns times these. */
static bool columns_of(Rows *r, const Make *make, const Product *p, const Tensor *tensor,
                       RowWeights *made, Err *err) {
    Value *scale = fuse_input(p->dequantize, 1);
    Arena *scratch = r->ctx->scratch, *arena = &r->ctx->model->arena;
    const Tensor *given = constant_tensor(scale, scratch);
    const uint64_t n = (uint64_t)p->columns, count = fuse_rank(scale) == 0 ? 1 : n;
    float *scales = ARENA_ARRAY(scratch, float, n), *shifts = ARENA_ARRAY(scratch, float, n);
    int64_t *sums = ARENA_ARRAY(scratch, int64_t, n);
    if (!tensor_check(given, err) || !tensor_read_floats(given, 0, count, scales, err) ||
        !read_sums(tensor, p->turned, sums, scratch, err))
        return false;
    for (uint64_t i = 0; i < count; i++) scales[i] *= p->alpha;
    for (uint64_t i = 0; i < n; i++)
        shifts[i] = (float)((double)sums[i] * (double)scales[count == 1 ? 0 : i]);
    const int64_t dims[2] = {(int64_t)count, p->columns};
    const bool as_is = p->alpha == 1 && type_dtype(scale->type) == DTYPE_FLOAT;
    made->factors =
        as_is ? scale
              : make_constant(make, tensor_new_raw(arena, DTYPE_FLOAT, dims, fuse_rank(scale) == 1,
                                                   scales, count * sizeof *scales));
    made->shifts = make_constant(
        make, tensor_new_raw(arena, DTYPE_FLOAT, dims + 1, 1, shifts, n * sizeof *shifts));
    return true;
}

/* NULL with the error set. */
static const RowWeights *weights_of(Rows *r, const Product *p, Err *err) {
    Value *stored = fuse_input(p->dequantize, 0);
    MadeWeights **list = &r->weights[stored->id];
    for (MadeWeights *made = *list; made; made = made->next)
        if (made->graph == p->node->graph && made->turned == p->turned && made->alpha == p->alpha &&
            made->read == p->dequantize->outputs[0])
            return &made->weights;
    const Make make = {r->ctx, p->node, sym_text(p->read->name)};
    MadeWeights *made = ARENA_NEW(r->ctx->scratch, MadeWeights);
    *made = (MadeWeights){.read = p->dequantize->outputs[0],
                          .graph = p->node->graph,
                          .turned = p->turned,
                          .alpha = p->alpha,
                          .next = *list};
    const Tensor *tensor = constant_tensor(stored, r->ctx->scratch);
    if (!tensor || !tensor_check(tensor, err)) return NULL;
    made->weights.bytes = matrix_of(r, &make, p, tensor, err);
    if (!made->weights.bytes || !columns_of(r, &make, p, tensor, &made->weights, err)) return NULL;
    *list = made;
    return &made->weights;
}

/* ---- rewriting ------------------------------------------------------------------------------- */

/* A node of the product's own, whose result has the shape of `like`. */
static Value *own_op(const Make *make, const char *op, Value *const operands[2], const Type *like) {
    Value *made = make_op(make, op, operands, operands[1] ? 2 : 1, type_dtype(like));
    value_set_type(made, like);
    node_add_metadata(made->producer, OWN_QUANTIZER, QUANTIZER_OF_PRODUCTS);
    return made;
}

static Value *to_type(const Make *make, Value *value, Dtype dtype) {
    if (type_dtype(value->type) == dtype) return value;
    const Type *type = type_with_dtype(&make->ctx->model->arena, value->type, dtype);
    Value *made = own_op(make, "Cast", (Value *const[2]){value, NULL}, type);
    cast_set_to(made->producer, dtype);
    return made;
}

static const RowBytes *rows_of(Rows *r, const Product *p) {
    MadeRows **list = &r->rows[p->x->id];
    for (const MadeRows *made = *list; made; made = made->next)
        if (made->graph == p->node->graph) return &made->rows;
    const Make make = {r->ctx, p->node, sym_text(p->x->name)};
    MadeRows *made = ARENA_NEW(r->ctx->scratch, MadeRows);
    Value *x = to_type(&make, p->x, DTYPE_FLOAT);
    *made = (MadeRows){p->x, p->node->graph,
                       row_bytes_make(r->ctx, p->node, x, p->depth, &r->shared), *list};
    *list = made;
    return &made->rows;
}

/* C of a Gemm times beta, added. */
static Value *with_bias(Rows *r, const Make *make, const Product *p, Value *product) {
    Value *c = fuse_is(p->node, "Gemm") ? fuse_input(p->node, 2) : NULL;
    const Dtype dtype = type_dtype(product->type);
    if (!c || p->beta == 0) return product;
    if (p->beta != 1) {
        Arena *arena = &r->ctx->model->arena;
        const Tensor *beta = tensor_new_float_scalar(arena, p->beta);
        if (dtype != DTYPE_FLOAT) beta = tensor_new_cast(arena, beta, dtype);
        c = own_op(make, "Mul", (Value *const[2]){c, make_constant(make, beta)}, c->type);
    }
    return own_op(make, "Add", (Value *const[2]){product, c}, product->type);
}

/* The last node made gives what the product gave. */
static void take_place(Rows *r, const Product *p, Value *made, Node *integer) {
    Arena *arena = &r->ctx->model->arena;
    Value *result = p->node->outputs[0];
    const NodeNote note = {.dtype = DTYPE_UINT8,
                           .kind = NOTE_QUANTIZED,
                           .reason = reason,
                           .settled = true,
                           .label = sym_is_empty(p->node->name) ? node_label(p->node) : NULL};
    Node *last = made->producer;
    integer->name = p->node->name;
    integer->note = arena_copy(arena, &note, sizeof note);
    node_set_output(p->node, 0, NULL);
    node_set_output(last, 0, result);
    node_remove_unswept(p->node);
}

static bool rewrite(Rows *r, const Product *p, Err *err) {
    const RowWeights *weights = weights_of(r, p, err);
    if (!weights) return false;
    Node *integer;
    const Make make = {r->ctx, p->node, node_label(p->node)};
    const RowBytes *rows = rows_of(r, p);
    Value *made = row_product_make(r->ctx, p->node, rows, weights, &integer);
    made = to_type(&make, made, type_dtype(p->node->outputs[0]->type));
    take_place(r, p, with_bias(r, &make, p, made), integer);
    r->ctx->counts->rewrites++;
    return true;
}

/* A node that nothing reads any more, and then what it alone read. */
static void drop(Rows *r, Node *node) {
    if (r->gone[node->id] || node->outputs[0]->uses || node->outputs[0]->referenced) return;
    Value *reads[3] = {fuse_input(node, 0), fuse_input(node, 1), fuse_input(node, 2)};
    r->gone[node->id] = true;
    node_remove_unswept(node);
    for (int i = 0; i < 3; i++) {
        Value *value = reads[i];
        if (!value || value->uses || value->referenced) continue;
        if (value->producer)
            drop(r, value->producer);
        else if (value_is_constant(value))
            graph_remove_initializer(value);
    }
}

/* ---- the pass -------------------------------------------------------------------------------- */

static bool visit_graph(Rows *r, Graph *graph, Err *err) {
    VEC(Node *) weights = {0};
    r->shared = (RowConstants){.axis = NULL};
    for (Node *node = graph->first, *next; node; node = next) {
        next = node_after(node);
        const Product *p = node->id < r->node_count ? r->chosen[node->id] : NULL;
        if (!p) continue;
        VEC_PUSH(r->ctx->scratch, &weights, p->read->producer);
        if (!rewrite(r, p, err)) return false;
    }
    for (size_t i = 0; i < weights.count; i++) drop(r, weights.items[i]);
    return true;
}

static bool run(PassCtx *ctx, const void *opts, Err *err) {
    const QuantizeRowsOptions *options = opts;
    Model *model = ctx->model;
    const NodePatterns patterns = {.keep = options->keep,
                                   .keep_ops = options->keep_ops,
                                   .only = options->only,
                                   .allow_unmatched = options->allow_unmatched};
    Rows r = {.ctx = ctx,
              .excluded = node_exclusions(model, &patterns, ctx->scratch, err),
              .chosen = ARENA_ARRAY(ctx->scratch, const Product *, model->node_count + 1),
              .node_count = model->node_count,
              .weights = ARENA_ARRAY(ctx->scratch, MadeWeights *, model->value_count + 1),
              .rows = ARENA_ARRAY(ctx->scratch, MadeRows *, model->value_count + 1),
              .gone = ARENA_ARRAY(ctx->scratch, bool, model->node_count + 1)};
    if (!r.excluded) return false;
    GraphList all = model_graphs(model, ctx->scratch);
    for (size_t g = 0; g < all.count; g++)
        for (Node *node = all.items[g]->first; node && !all.items[g]->function;
             node = node_after(node))
            choose(&r, node);
    bool ok = true;
    model_batch_removals(model);
    for (size_t g = 0; ok && g < all.count; g++) ok = visit_graph(&r, all.items[g], err);
    model_sweep(model, ctx->scratch);
    return ok;
}

const PassInfo quantize_rows_pass = {
    .name = "quantize-rows",
    .summary = "dynamic quantization: multiply int8 weights by activations that are quantized by "
               "rows when the "
               "model runs",
    .needs = FACT_DTYPES,
    .gives = FACT_DTYPES,
    .options = options_table,
    .options_size = sizeof(QuantizeRowsOptions),
    .idempotent = true,
    .run = run,
};
