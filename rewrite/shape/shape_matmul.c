// SPDX-License-Identifier: Apache-2.0
/* Products of matrices: MatMul and its quantized kin, Gemm, Einsum, Det. */
#include <string.h>

#include "shape_calc.h"

static const ShapeNum unknown = {.kind = SHAPE_UNKNOWN};

/* numpy.matmul: the last two axes are matrices, those before broadcast; a vector is a row on the
 * left, a column on the right, and its axis is missing from the result. */
static bool multiply(ShapeCall *call, const ShapeOperand *a, const ShapeOperand *b) {
    if (a->rank == 0 || b->rank == 0) return shape_invalid(call, "a scalar is not a matrix");
    ShapeNum inner = a->dims[a->rank - 1];
    if (!shape_unify(call, &inner, b->dims[b->rank > 1 ? b->rank - 2 : 0])) return false;
    ShapeOperand batch_a = *a, batch_b = *b;
    batch_a.rank = a->rank > 1 ? a->rank - 2 : 0;
    batch_b.rank = b->rank > 1 ? b->rank - 2 : 0;
    const ShapeOperand *const batches[] = {&batch_a, &batch_b};
    ShapeDims batch;
    if (!shape_broadcast_all(call, batches, 2, &batch)) return false;
    uint32_t rank = batch.rank + (a->rank > 1) + (b->rank > 1), at = batch.rank;
    ShapeNum *dims = shape_output(call, 0, rank);
    for (uint32_t i = 0; i < batch.rank; i++) dims[i] = batch.dims[i];
    if (a->rank > 1) dims[at++] = a->dims[a->rank - 2];
    if (b->rank > 1) dims[at] = b->dims[b->rank - 1];
    return true;
}

bool shape_matmul(ShapeCall *call) {
    const ShapeOperand *a = shape_ranked(call, 0);
    const ShapeOperand *b = shape_ranked(call, call->row->variant == SHAPE_INPUTS_0_3 ? 3 : 1);
    return !a || !b || multiply(call, a, b);
}

/* The operand with its last two axes exchanged. */
static bool turn(ShapeCall *call, ShapeOperand *operand) {
    if (operand->rank < 2) return shape_invalid(call, "cannot transpose a vector");
    ShapeNum *dims = ARENA_ARRAY(call->arena, ShapeNum, operand->rank);
    for (uint32_t i = 0; i < operand->rank; i++) dims[i] = operand->dims[i];
    dims[operand->rank - 2] = operand->dims[operand->rank - 1];
    dims[operand->rank - 1] = operand->dims[operand->rank - 2];
    operand->dims = dims;
    return true;
}

/* demi.fused */
bool shape_fused_matmul(ShapeCall *call) {
    const GemmAttrs *attrs = call->attrs;
    const ShapeOperand *a = shape_ranked(call, 0), *b = shape_ranked(call, 1);
    if (!a || !b) return true;
    ShapeOperand left = *a, right = *b;
    if ((attrs->trans_a && !turn(call, &left)) || (attrs->trans_b && !turn(call, &right)))
        return false;
    return multiply(call, &left, &right);
}

/* A's rows, and a column for each row of B. */
bool shape_matmul_bits(ShapeCall *call) {
    const BitsAttrs *attrs = call->attrs;
    const ShapeOperand *a = shape_ranked(call, 0), *b = shape_ranked(call, 1);
    if (!a) return true;
    if (a->rank == 0) return shape_invalid(call, "a scalar is not a matrix");
    ShapeNum inner = a->dims[a->rank - 1];
    if (attrs->k != ATTR_ABSENT && !shape_unify(call, &inner, num_known(attrs->k))) return false;
    ShapeNum *dims = shape_output(call, 0, a->rank);
    for (uint32_t i = 0; i + 1 < a->rank; i++) dims[i] = a->dims[i];
    if (attrs->n != ATTR_ABSENT && attrs->n < 0) return shape_invalid(call, "N is negative");
    if (attrs->n != ATTR_ABSENT)
        dims[a->rank - 1] = num_known(attrs->n);
    else if (b && b->rank > 0)
        dims[a->rank - 1] = b->dims[0];
    return true;
}

bool shape_gemm(ShapeCall *call) {
    const GemmAttrs *attrs = call->attrs;
    const uint32_t second = call->row->variant == SHAPE_INPUTS_0_3 ? 3 : 1;
    const ShapeOperand *a = shape_ranked(call, 0), *b = shape_ranked(call, second);
    if (!shape_want_rank(call, 0, 2) || !shape_want_rank(call, second, 2)) return false;
    ShapeNum *dims = shape_output(call, 0, 2);
    if (a) dims[0] = a->dims[attrs->trans_a ? 1 : 0];
    if (b) dims[1] = b->dims[attrs->trans_b ? 0 : 1];
    if (!a || !b) return true;
    ShapeNum inner = a->dims[attrs->trans_a ? 0 : 1];
    return shape_unify(call, &inner, b->dims[attrs->trans_b ? 1 : 0]);
}

bool shape_det(ShapeCall *call) {
    const ShapeOperand *x = shape_ranked(call, 0);
    if (!x) return true;
    if (x->rank < 2) return shape_invalid(call, "rank %u is not a matrix", x->rank);
    ShapeNum side = x->dims[x->rank - 1];
    if (!shape_unify(call, &side, x->dims[x->rank - 2])) return false;
    ShapeNum *dims = shape_output(call, 0, x->rank - 2);
    for (uint32_t i = 0; i + 2 < x->rank; i++) dims[i] = x->dims[i];
    return true;
}

/* ---- Einsum ---------------------------------------------------------------------------------- */

enum { LETTERS = 52, ELLIPSIS = LETTERS, ARROW, COMMA, END, OTHER };

typedef struct Einsum {
    const char *at, *end;
    bool seen[LETTERS]; /* the letter's dim is in dims */
    uint32_t uses[LETTERS];
    ShapeNum dims[LETTERS];
    bool has_ellipsis;     /* some term has one */
    bool ellipsis_unknown; /* an operand with one has no rank */
    ShapeDims ellipsis;    /* broadcast of all of them */
} Einsum;

static int einsum_next(Einsum *sum) {
    while (sum->at < sum->end && *sum->at == ' ') sum->at++;
    if (sum->at == sum->end) return END;
    char c = *sum->at++;
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c == ',') return COMMA;
    bool arrow = c == '-' && sum->at < sum->end && *sum->at == '>';
    bool dots = c == '.' && sum->end - sum->at >= 2 && sum->at[0] == '.' && sum->at[1] == '.';
    sum->at += arrow ? 1 : dots ? 2 : 0;
    return arrow ? ARROW : dots ? ELLIPSIS : OTHER;
}

/* Letters of the term that begins here; false where it is malformed. */
static bool einsum_measure(Einsum sum, uint32_t *letters, bool *ellipsis) {
    *letters = 0;
    *ellipsis = false;
    for (int token = einsum_next(&sum); token <= ELLIPSIS; token = einsum_next(&sum)) {
        if (token == ELLIPSIS && *ellipsis) return false;
        if (token == ELLIPSIS)
            *ellipsis = true;
        else
            ++*letters;
    }
    return true;
}

static bool einsum_ellipsis(ShapeCall *call, Einsum *sum, const ShapeOperand *operand,
                            ShapeDims part) {
    sum->has_ellipsis = true;
    if (!operand) sum->ellipsis_unknown = true;
    if (!operand) return true;
    const ShapeOperand covered = {.has_rank = true, .rank = part.rank, .dims = part.dims};
    const ShapeOperand before = {
        .has_rank = true, .rank = sum->ellipsis.rank, .dims = sum->ellipsis.dims};
    const ShapeOperand *const both[] = {&before, &covered};
    return shape_broadcast_all(call, both, 2, &sum->ellipsis);
}

/* The same letter at several places: one size, or (as onnx allows) 1 that broadcasts. */
static bool einsum_letter(ShapeCall *call, Einsum *sum, int letter, const ShapeNum *dim) {
    ShapeNum size = dim ? *dim : unknown;
    sum->uses[letter]++;
    if (!sum->seen[letter])
        sum->dims[letter] = size;
    else if (!shape_broadcast_dim(call, &sum->dims[letter], size))
        return false;
    sum->seen[letter] = true;
    return true;
}

/* Reads one input's term; *token is what ended it. operand NULL: rank unknown. */
static bool einsum_term(ShapeCall *call, Einsum *sum, const ShapeOperand *operand, int *token) {
    uint32_t letters, axis = 0;
    bool ellipsis;
    if (!einsum_measure(*sum, &letters, &ellipsis)) return shape_invalid(call, "two ellipses");
    if (operand && (operand->rank < letters || (operand->rank > letters && !ellipsis)))
        return shape_invalid(call, "a term has %u letters for rank %u", letters, operand->rank);
    for (*token = einsum_next(sum); *token <= ELLIPSIS; *token = einsum_next(sum)) {
        if (*token == ELLIPSIS) {
            uint32_t covered = operand ? operand->rank - letters : 0;
            ShapeNum *copy = ARENA_ARRAY(call->arena, ShapeNum, covered);
            for (uint32_t i = 0; i < covered; i++) copy[i] = operand->dims[axis + i];
            axis += covered;
            if (!einsum_ellipsis(call, sum, operand, (ShapeDims){covered, copy})) return false;
            continue;
        }
        if (!einsum_letter(call, sum, *token, operand ? &operand->dims[axis] : NULL)) return false;
        axis++;
    }
    return true;
}

/* Without "->": the ellipsis, then the letters used once, in alphabetical order. */
static bool einsum_implicit(ShapeCall *call, Einsum *sum) {
    if (sum->ellipsis_unknown) return true;
    uint64_t rank = sum->ellipsis.rank;
    for (int i = 0; i < LETTERS; i++) rank += sum->uses[i] == 1;
    ShapeNum *dims = shape_output(call, 0, rank);
    if (!dims) return false;
    uint32_t at = 0;
    for (uint32_t i = 0; i < sum->ellipsis.rank; i++) dims[at++] = sum->ellipsis.dims[i];
    for (int i = 0; i < LETTERS; i++)
        if (sum->uses[i] == 1) dims[at++] = sum->dims[i];
    return true;
}

static bool einsum_explicit(ShapeCall *call, Einsum *sum) {
    uint32_t letters, at = 0;
    bool ellipsis;
    if (!einsum_measure(*sum, &letters, &ellipsis)) return shape_invalid(call, "two ellipses");
    if (ellipsis && sum->ellipsis_unknown) return true;
    ShapeNum *dims = shape_output(call, 0, (uint64_t)letters + (ellipsis ? sum->ellipsis.rank : 0));
    if (!dims) return false;
    int token = einsum_next(sum);
    for (; token <= ELLIPSIS; token = einsum_next(sum)) {
        if (token == ELLIPSIS) {
            for (uint32_t i = 0; i < sum->ellipsis.rank; i++) dims[at++] = sum->ellipsis.dims[i];
            continue;
        }
        if (!sum->seen[token]) return shape_invalid(call, "the output names an unused letter");
        dims[at++] = sum->dims[token];
    }
    return token == END || shape_invalid(call, "cannot parse the equation");
}

bool shape_einsum(ShapeCall *call) {
    const EinsumAttrs *attrs = call->attrs;
    if (!attrs->equation.present) return shape_invalid(call, "equation is missing");
    Einsum sum = {.at = attrs->equation.text, .end = attrs->equation.text + attrs->equation.size};
    int token = COMMA;
    for (uint32_t i = 0; i < call->input_count; i++) {
        if (token != COMMA) return shape_invalid(call, "more inputs than terms");
        if (!einsum_term(call, &sum, shape_ranked(call, i), &token)) return false;
    }
    if (token == ARROW) return einsum_explicit(call, &sum);
    if (token == END) return einsum_implicit(call, &sum);
    return shape_invalid(call,
                         token == COMMA ? "more terms than inputs" : "cannot parse the equation");
}
