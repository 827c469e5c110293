// SPDX-License-Identifier: Apache-2.0
/* Gradients of products of matrices. */
#include <ctype.h>
#include <string.h>

#include "gradient_rule.h"

/* ---- MatMul ---------------------------------------------------------------------------------- */

/* A matrix, or a stack of them, of an operand that may be a vector. */
static Value *as_matrix(Grad *g, Value *value, uint32_t rank, int64_t axis) {
    return rank == 1 ? grad_axes(g, "Unsqueeze", value, (GradAxes){&axis, 1}) : value;
}

/* The shape of a product's gradient before it is summed: the stack of the output, then what the
 * operand itself has last. NULL where the output's rank is not known. */
static const Type *stacked_shape(Grad *g, const Value *operand, uint32_t stack) {
    const Type *out = value_shaped_type(grad_out(g, 0)), *own = value_shaped_type(operand);
    if (!out || !own || out->rank < stack) return NULL; /* what is declared may be wrong */
    Arena *arena = &g->make.ctx->model->arena;
    Dim *dims = ARENA_ARRAY(arena, Dim, stack + 2);
    for (uint32_t i = 0; i < stack; i++) dims[i] = out->dims[i];
    const uint32_t from = own->rank >= 2 ? own->rank - 2 : 0;
    uint32_t count = stack;
    if (own->rank == 1) {
        dims[count++] = own->dims[0];
    } else {
        dims[count++] = own->dims[from];
        dims[count++] = own->dims[from + 1];
    }
    return type_new_shaped(arena, (Dtype)own->dtype, dims, count);
}

void gradient_matmul(Grad *g) {
    Value *a = grad_in(g, 0), *b = grad_in(g, 1), *dy = grad_flow(g, 0);
    const uint32_t ra = grad_rank(g, a), rb = grad_rank(g, b);
    if (!g->failed && (ra == 0 || rb == 0)) grad_refuse(g, "of a single number");
    if (g->failed) return;
    const uint32_t wide_a = ra == 1 ? 2 : ra, wide_b = rb == 1 ? 2 : rb;
    const uint32_t stack = (wide_a > wide_b ? wide_a : wide_b) - 2;
    static const int64_t last = -1, second = -2;
    if (rb == 1) dy = grad_axes(g, "Unsqueeze", dy, (GradAxes){&last, 1});
    if (ra == 1) dy = grad_axes(g, "Unsqueeze", dy, (GradAxes){&second, 1});
    if (grad_wants(g, 0)) {
        Value *flow = GRAD(g, "MatMul", dy, grad_turn(g, as_matrix(g, b, rb, 1), wide_b));
        if (ra == 1) flow = grad_axes(g, "Squeeze", flow, (GradAxes){&second, 1});
        grad_give(g, 0, grad_sum_to(g, flow, stacked_shape(g, a, stack), a));
    }
    if (grad_wants(g, 1)) {
        Value *flow = GRAD(g, "MatMul", grad_turn(g, as_matrix(g, a, ra, 0), wide_a), dy);
        if (rb == 1) flow = grad_axes(g, "Squeeze", flow, (GradAxes){&last, 1});
        grad_give(g, 1, grad_sum_to(g, flow, stacked_shape(g, b, stack), b));
    }
}

/* ---- Gemm ------------------------------------------------------------------------------------ */

static Value *gemm(Grad *g, Value *a, bool turn_a, Value *b, bool turn_b) {
    Value *product = GRAD(g, "Gemm", a, b);
    node_set_attr_float(product->producer, "alpha", (float)grad_real(g, "alpha"));
    node_set_attr_int(product->producer, "transA", turn_a);
    node_set_attr_int(product->producer, "transB", turn_b);
    return product;
}

void gradient_gemm(Grad *g) {
    Value *a = grad_in(g, 0), *b = grad_in(g, 1), *dy = grad_flow(g, 0);
    const bool turn_a = grad_int(g, "transA"), turn_b = grad_int(g, "transB");
    if (grad_wants(g, 0))
        grad_give(g, 0, turn_a ? gemm(g, b, turn_b, dy, true) : gemm(g, dy, false, b, !turn_b));
    if (grad_wants(g, 1))
        grad_give(g, 1, turn_b ? gemm(g, dy, true, a, turn_a) : gemm(g, a, !turn_a, dy, false));
    if (grad_wants(g, 2)) {
        const double beta = grad_real(g, "beta");
        grad_give_sum(g, 2, beta == 1 ? dy : GRAD_CALC(g, "dy * $beta", NULL));
    }
}

/* ---- Det ------------------------------------------------------------------------------------- */

/* The numbers of all rows but one, for each: (n, n - 1). */
static Value *all_but_one(Grad *g, uint32_t n) {
    int64_t *items = ARENA_ARRAY(g->make.ctx->scratch, int64_t, (size_t)n * n);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k + 1 < n; k++) items[i * (n - 1) + k] = k + (k >= i);
    return grad_int_table(g, items, n, n - 1);
}

/* (n, n): 1 and -1 by turns. */
static Value *signs_like(Grad *g, uint32_t n, const Value *like) {
    int64_t *items = ARENA_ARRAY(g->make.ctx->scratch, int64_t, (size_t)n * n);
    for (uint32_t i = 0; i < n * n; i++) items[i] = (i / n + i % n) % 2 ? -1 : 1;
    return grad_cast(g, grad_int_table(g, items, n, n), type_dtype(like->type));
}

/* The cofactors, determinants of what is left without an element's row and column: of singular
 * matrices, too, which have no inverse. */
void gradient_det(Grad *g) {
    enum { SIZE_MOST = 32 };
    static const int64_t both[] = {-2, -1};
    Value *x = grad_in(g, 0);
    const uint32_t rank = grad_rank(g, x);
    const int64_t size = grad_size(g, x, -1);
    if (rank < 2 || size < 1 || size > SIZE_MOST)
        grad_refuse(g, "of matrices of %lld rows: 1 to %d", (long long)size, SIZE_MOST);
    if (g->failed) return;
    const uint32_t n = (uint32_t)size, stack = rank - 2;
    if (n == 1) {
        grad_give(g, 0, grad_reshape_like(g, grad_flow(g, 0), x));
        return;
    }
    Value *minors = GRAD(g, "Gather", x, all_but_one(g, n));
    node_set_attr_int(minors->producer, "axis", stack);
    minors = GRAD(g, "Gather", minors, all_but_one(g, n));
    node_set_attr_int(minors->producer, "axis", stack + 2);
    int64_t *perm = ARENA_ARRAY(g->make.ctx->scratch, int64_t, rank + 3);
    for (uint32_t i = 0; i < rank + 2; i++) perm[i] = i;
    perm[stack + 1] = stack + 2;
    perm[stack + 2] = stack + 1;
    Value *cofactors = GRAD(g, "Det", grad_transpose(g, minors, perm, rank + 2));
    cofactors = GRAD(g, "Mul", cofactors, signs_like(g, n, x));
    Value *flow = grad_axes(g, "Unsqueeze", grad_flow(g, 0), (GradAxes){both, 2});
    grad_give(g, 0, GRAD(g, "Mul", flow, cofactors));
}

/* ---- Einsum ---------------------------------------------------------------------------------- */

enum { EINSUM_TERMS = 32, EINSUM_LETTERS = 64 };

typedef struct Equation {
    char terms[EINSUM_TERMS][EINSUM_LETTERS]; /* letters of each operand, then of the output */
    uint32_t operands;
} Equation;

/* Without "->" the output has the letters that are there once, in their order. */
static void imply_output(Equation *e) {
    char *out = e->terms[e->operands];
    for (int letter = 'A'; letter <= 'z'; letter++) {
        unsigned times = 0;
        for (uint32_t i = 0; i < e->operands; i++)
            for (const char *at = e->terms[i]; *at; at++) times += *at == letter;
        if (times == 1) *out++ = (char)letter;
    }
    *out = 0;
}

static bool read_equation(Grad *g, Equation *e) {
    Bytes text = {0};
    attr_string(node_attr(g->node, "equation"), &text);
    uint32_t term = 0, length = 0;
    bool output = false;
    *e = (Equation){.operands = g->node->input_count};
    for (size_t i = 0; i < text.size; i++) {
        const int c = text.data[i];
        if (c == ' ' || c == '>') continue;
        if (c == ',' || c == '-') {
            output = output || c == '-';
            term++;
            length = 0;
        } else if (isalpha(c) && !strchr(e->terms[term], c) && length + 1 < EINSUM_LETTERS) {
            e->terms[term][length++] = (char)c;
        } else {
            grad_refuse(g, "with an ellipsis, or a letter twice in one operand");
            return false;
        }
        if (term > e->operands || term + 1 >= EINSUM_TERMS) break;
    }
    if (term != e->operands - !output || term + 2 >= EINSUM_TERMS) {
        grad_refuse(g, "of this equation");
        return false;
    }
    if (!output) imply_output(e);
    return true;
}

/* True where a letter of operand i stands nowhere else: ones bring it in. */
static bool is_summed_alone(const Equation *e, uint32_t i) {
    for (const char *at = e->terms[i]; *at; at++) {
        bool other = false;
        for (uint32_t k = 0; k <= e->operands; k++)
            other = other || (k != i && strchr(e->terms[k], *at));
        if (!other) return true;
    }
    return false;
}

void gradient_einsum(Grad *g) {
    Equation e;
    if (g->node->input_count + 2 >= EINSUM_TERMS) {
        grad_refuse(g, "with this number of operands");
        return;
    }
    if (!read_equation(g, &e)) return;
    Value *operands[EINSUM_TERMS];
    for (uint32_t i = 0; i < e.operands; i++) {
        if (!grad_wants(g, i)) continue;
        uint32_t count = 0;
        operands[count++] = grad_flow(g, 0);
        const char *text = e.terms[e.operands];
        for (uint32_t k = 0; k < e.operands; k++) {
            if (k == i) continue;
            operands[count++] = grad_in(g, k);
            text = arena_printf(g->make.ctx->scratch, "%s,%s", text, e.terms[k]);
        }
        if (is_summed_alone(&e, i)) {
            operands[count++] = grad_fill(g, 1, grad_in(g, i));
            text = arena_printf(g->make.ctx->scratch, "%s,%s", text, e.terms[i]);
        }
        Value *flow = grad_make(g, "Einsum", DTYPE_UNDEFINED, operands, count);
        text = arena_printf(g->make.ctx->scratch, "%s->%s", text, e.terms[i]);
        node_set_attr_string(flow->producer, "equation", text);
        grad_give(g, i, flow);
    }
}
