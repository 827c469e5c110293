// SPDX-License-Identifier: Apache-2.0
/* Einsum: any equation, with ellipses, repeated letters and any number of operands.
 *
 * A term gives each letter ("label"; an axis under the ellipsis has one of its own, counted from
 * the right) a stride in its operand; a repeated letter's strides add up, which walks a diagonal,
 * and an axis of size 1 under a larger one has stride 0. Operands are contracted from left to
 * right: both are brought into the order batch, rows, columns and summed over what only they have
 * and nobody needs any more, and multiplied as batches of matrices. Floats sum as MatMul does;
 * integers are computed modulo 2^64 and cut.
 */
#include <string.h>

#include "checked.h"
#include "gemm.h"
#include "kernel_functions.h"
#include "plain_product.h"

enum { LETTERS = 52 };

/* An operand or an intermediate result. */
typedef struct Operand {
    const void *data;
    Dtype dtype;
    bool *has;         /* [labels] */
    uint64_t *strides; /* [labels]; 0 where it does not have the label */
    uint32_t rank;
} Operand;

typedef struct Einsum {
    KernelCall *call;
    const char *at, *end; /* of the equation, what is not yet read */
    uint32_t labels;      /* LETTERS and the axes of the longest ellipsis */
    uint64_t *dims;       /* [labels], 1 where unknown yet */
    uint32_t *uses;       /* [labels]: in operands' terms */
    Operand *operands;
    uint32_t *output; /* labels of the result in order */
    uint32_t output_rank;
    Dtype dtype; /* that is computed in: float, double or uint64 */
} Einsum;

/* A list of labels. */
typedef struct Labels {
    uint32_t *items;
    uint32_t count;
    uint64_t size; /* product of their dims */
} Labels;

/* ---- the equation ---------------------------------------------------------------------------- */

typedef enum Token {
    TOKEN_LETTER,
    TOKEN_DOTS,
    TOKEN_COMMA,
    TOKEN_ARROW,
    TOKEN_END,
    TOKEN_BAD
} Token;

static Token next_token(Einsum *e, uint32_t *letter) {
    while (e->at < e->end && *e->at == ' ') e->at++;
    if (e->at == e->end) return TOKEN_END;
    char c = *e->at++;
    if (c == ',') return TOKEN_COMMA;
    bool upper = c >= 'A' && c <= 'Z';
    if (upper || (c >= 'a' && c <= 'z')) {
        *letter = upper ? (uint32_t)(c - 'A') : (uint32_t)(c - 'a') + 26;
        return TOKEN_LETTER;
    }
    if (c == '-' && e->at < e->end && *e->at == '>') {
        e->at++;
        return TOKEN_ARROW;
    }
    if (c != '.' || e->end - e->at < 2 || e->at[0] != '.' || e->at[1] != '.') return TOKEN_BAD;
    e->at += 2;
    return TOKEN_DOTS;
}

/* Letters of the term that begins here. */
static uint32_t count_letters(Einsum copy) {
    uint32_t count = 0, letter;
    for (Token token; (token = next_token(&copy, &letter)) <= TOKEN_DOTS;)
        count += token == TOKEN_LETTER;
    return count;
}

/* Gives `label` the operand's axis. */
static bool add_axis(Einsum *e, Operand *operand, uint32_t label, uint64_t dim, uint64_t stride) {
    e->uses[label]++;
    operand->has[label] = true;
    if (dim != 1) operand->strides[label] += stride;
    if (e->dims[label] == dim || dim == 1) return true;
    if (e->dims[label] != 1) return kernel_fail(e->call, "one letter has two sizes");
    e->dims[label] = dim;
    return true;
}

static bool read_term(Einsum *e, uint32_t number, Token *token) {
    const KernelTensor *t = &e->call->inputs[number];
    Operand *operand = &e->operands[number];
    *operand = (Operand){t->data, t->dtype, ARENA_ARRAY(e->call->scratch, bool, e->labels),
                         ARENA_ARRAY(e->call->scratch, uint64_t, e->labels), t->rank};
    uint32_t letters = count_letters(*e), axis = 0, letter = 0;
    if (letters > t->rank) return kernel_fail(e->call, "a term has more letters than axes");
    bool dots = false;
    while ((*token = next_token(e, &letter)) <= TOKEN_DOTS) {
        if (*token == TOKEN_DOTS && dots) return kernel_fail(e->call, "two ellipses in a term");
        dots = dots || *token == TOKEN_DOTS;
        uint32_t count = *token == TOKEN_DOTS ? t->rank - letters : 1;
        for (uint32_t i = 0; i < count; i++, axis++) {
            uint32_t label = *token == TOKEN_DOTS ? LETTERS + count - 1 - i : letter;
            if (!add_axis(e, operand, label, (uint64_t)t->dims[axis],
                          kernel_span(t, axis + 1, t->rank)))
                return false;
        }
    }
    return axis == t->rank || kernel_fail(e->call, "a term has fewer letters than axes");
}

/* Labels under ellipses that some operand has, the leftmost first. */
static void output_dots(Einsum *e) {
    for (uint32_t label = e->labels; label-- > LETTERS;)
        if (e->uses[label]) e->output[e->output_rank++] = label;
}

static bool read_output(Einsum *e) {
    bool *seen = ARENA_ARRAY(e->call->scratch, bool, LETTERS + 1);
    uint32_t letter = 0;
    Token token;
    while ((token = next_token(e, &letter)) <= TOKEN_DOTS) {
        bool *mark = &seen[token == TOKEN_DOTS ? LETTERS : letter];
        if (*mark) return kernel_fail(e->call, "the output names an axis twice");
        *mark = true;
        if (token == TOKEN_DOTS)
            output_dots(e);
        else if (!e->uses[letter])
            return kernel_fail(e->call, "the output names an unused letter");
        else
            e->output[e->output_rank++] = letter;
    }
    return token == TOKEN_END || kernel_fail(e->call, "the equation can't be read");
}

static bool read_equation(Einsum *e) {
    Token token = TOKEN_COMMA;
    for (uint32_t i = 0; i < e->call->input_count; i++) {
        if (token != TOKEN_COMMA) return kernel_fail(e->call, "more inputs than terms");
        if (!read_term(e, i, &token)) return false;
    }
    if (token == TOKEN_ARROW) return read_output(e);
    if (token != TOKEN_END) return kernel_fail(e->call, "the equation can't be read");
    output_dots(e); /* implicit: what occurs once, in alphabetical order */
    for (uint32_t i = 0; i < LETTERS; i++)
        if (e->uses[i] == 1) e->output[e->output_rank++] = i;
    return true;
}

/* ---- bringing operands into order ------------------------------------------------------------ */

/* to[i] += from[i * stride]; ROW(compute type, stored type) */
#define ROW(TO, FROM)                                                                              \
    static void row_##FROM(TO *to, const void *data, uint64_t start, uint64_t stride,              \
                           uint64_t count) {                                                       \
        const FROM *from = (const FROM *)data + start;                                             \
        if (stride == 1)                                                                           \
            for (uint64_t i = 0; i < count; i++) to[i] += (TO)from[i];                             \
        else                                                                                       \
            for (uint64_t i = 0; i < count; i++) to[i] += (TO)from[i * stride];                    \
    }
ROW(float, float)
ROW(double, double)
ROW(uint64_t, int8_t)
ROW(uint64_t, int16_t)
ROW(uint64_t, int32_t)
ROW(uint64_t, uint8_t)
ROW(uint64_t, uint16_t)
ROW(uint64_t, uint32_t)
ROW(uint64_t, uint64_t)

static void add_row(Dtype dtype, void *to, const void *from, const uint64_t place[3]) {
    uint64_t start = place[0], stride = place[1], count = place[2];
    switch ((int)dtype) {
    case DTYPE_FLOAT: row_float(to, from, start, stride, count); break;
    case DTYPE_DOUBLE: row_double(to, from, start, stride, count); break;
    case DTYPE_INT8: row_int8_t(to, from, start, stride, count); break;
    case DTYPE_INT16: row_int16_t(to, from, start, stride, count); break;
    case DTYPE_INT32: row_int32_t(to, from, start, stride, count); break;
    case DTYPE_UINT8: row_uint8_t(to, from, start, stride, count); break;
    case DTYPE_UINT16: row_uint16_t(to, from, start, stride, count); break;
    case DTYPE_UINT32: row_uint32_t(to, from, start, stride, count); break;
    case DTYPE_INT64:
    case DTYPE_UINT64: row_uint64_t(to, from, start, stride, count); break;
    }
}

/* Steps the odometer over labels and the place in an operand that goes with it. */
static bool step(const Einsum *e, const Labels *labels, uint32_t count, uint64_t *index,
                 const Operand *operand, uint64_t *place) {
    for (uint32_t i = count; i-- > 0;) {
        uint64_t label = labels->items[i], stride = operand->strides[label];
        *place += stride;
        if (++index[i] < e->dims[label]) return true;
        *place -= stride * e->dims[label];
        index[i] = 0;
    }
    return false;
}

/* True where the operand's memory already is the labels in order, in the type computed in. */
static bool in_order(const Einsum *e, const Operand *operand, const Labels *order,
                     const Labels *sums) {
    uint64_t stride = 1;
    bool same =
        operand->dtype == e->dtype || (e->dtype == DTYPE_UINT64 && operand->dtype == DTYPE_INT64);
    for (uint32_t i = order->count; same && i-- > 0;) {
        uint64_t dim = e->dims[order->items[i]];
        same = dim == 1 || operand->strides[order->items[i]] == stride;
        stride *= dim;
    }
    return same && sums->size == 1;
}

/* The operand's elements by the labels `order`, summed over `sums`; in scratch or the operand's
 * own. */
static const void *arrange(const Einsum *e, const Operand *operand, const Labels *order,
                           const Labels *sums) {
    if (in_order(e, operand, order, sums)) return operand->data;
    size_t size = kernel_element_size(e->dtype);
    char *to = arena_array(e->call->scratch, order->size + 1, size);
    if (order->size == 0 || sums->size == 0) return to;
    uint32_t outer = order->count ? order->count - 1 : 0;
    uint64_t *index = ARENA_ARRAY(e->call->scratch, uint64_t, order->count + 1);
    uint64_t *summed = ARENA_ARRAY(e->call->scratch, uint64_t, sums->count + 1);
    uint64_t place[3] = {0, 1, 1}, base = 0, row;
    if (order->count) place[1] = operand->strides[order->items[outer]];
    if (order->count) place[2] = e->dims[order->items[outer]];
    do {
        place[0] = base;
        row = 0;
        do {
            add_row(operand->dtype, to + row * place[2] * size, operand->data, place);
            row++;
        } while (step(e, order, outer, index, operand, &place[0]));
    } while (step(e, sums, sums->count, summed, operand, &base));
    return to;
}

/* ---- contraction ----------------------------------------------------------------------------- */

static Labels labels_new(const Einsum *e) {
    return (Labels){ARENA_ARRAY(e->call->scratch, uint32_t, e->labels), 0, 1};
}

/* False with the error set where the product of sizes overflows. */
static bool labels_add(const Einsum *e, Labels *list, uint32_t label) {
    list->items[list->count++] = label;
    return checked_mul(list->size, e->dims[label], &list->size) && list->size <= INT64_MAX;
}

static bool labels_join(const Einsum *e, Labels *list, const Labels *more) {
    for (uint32_t i = 0; i < more->count; i++)
        if (!labels_add(e, list, more->items[i])) return false;
    return true;
}

/* Labels by who has and who needs them. */
typedef struct Roles {
    Labels batch, rows, columns, inner, only_a, only_b;
} Roles;

static bool sort_labels(const Einsum *e, const Operand *a, const Operand *b, const bool *needed,
                        Roles *r) {
    *r = (Roles){labels_new(e), labels_new(e), labels_new(e),
                 labels_new(e), labels_new(e), labels_new(e)};
    for (uint32_t label = 0; label < e->labels; label++) {
        bool in_a = a->has[label], in_b = b->has[label], kept = needed[label];
        if (!in_a && !in_b) continue;
        Labels *list = in_a && in_b ? (kept ? &r->batch : &r->inner)
                       : in_a       ? (kept ? &r->rows : &r->only_a)
                                    : (kept ? &r->columns : &r->only_b);
        if (!labels_add(e, list, label)) return false;
    }
    return true;
}

static bool multiply(const Einsum *e, const Roles *r, const void *a, const void *b, void *c) {
    uint64_t m = r->rows.size, n = r->columns.size, k = r->inner.size, batches = r->batch.size;
    if (e->dtype == DTYPE_FLOAT) {
        uint64_t *starts = ARENA_ARRAY(e->call->scratch, uint64_t, 2 * batches + 1);
        for (uint64_t i = 0; i < batches; i++) starts[i] = i * m * k;
        for (uint64_t i = 0; i < batches; i++) starts[batches + i] = i * k * n;
        const GemmMatrices g = {.batches = batches,
                                .m = m,
                                .n = n,
                                .k = k,
                                .a = {a, starts, k, 1, DTYPE_UNDEFINED},
                                .b = {b, starts + batches, n, 1, DTYPE_UNDEFINED},
                                .c = c};
        return gemm_matrices(e->call, &g);
    }
    size_t size = kernel_element_size(e->dtype);
    for (uint64_t i = 0; k && i < batches; i++) {
        const PlainProduct p = {.a = (const char *)a + i * m * k * size,
                                .b = (const char *)b + i * k * n * size,
                                .y = (char *)c + i * m * n * size,
                                .m = m,
                                .n = n,
                                .k = k,
                                .a_row = k,
                                .a_column = 1,
                                .b_row = n,
                                .b_column = 1};
        plain_product(e->call, e->dtype, &p);
    }
    return true;
}

/* The operand that has these labels in this order. */
static Operand operand_of(const Einsum *e, const void *data, const Labels *labels) {
    Operand result = {data, e->dtype, ARENA_ARRAY(e->call->scratch, bool, e->labels),
                      ARENA_ARRAY(e->call->scratch, uint64_t, e->labels), labels->count};
    uint64_t stride = 1;
    for (uint32_t i = labels->count; i-- > 0; stride *= e->dims[labels->items[i]]) {
        result.has[labels->items[i]] = true;
        result.strides[labels->items[i]] = e->dims[labels->items[i]] == 1 ? 0 : stride;
    }
    return result;
}

/* a = a * b, keeping the labels that are needed. */
static bool contract(const Einsum *e, Operand *a, const Operand *b, const bool *needed) {
    Roles r;
    Labels left = labels_new(e), right = labels_new(e), result = labels_new(e);
    bool fits = sort_labels(e, a, b, needed, &r) && labels_join(e, &left, &r.batch) &&
                labels_join(e, &left, &r.rows) && labels_join(e, &left, &r.inner) &&
                labels_join(e, &right, &r.batch) && labels_join(e, &right, &r.inner) &&
                labels_join(e, &right, &r.columns) && labels_join(e, &result, &r.batch) &&
                labels_join(e, &result, &r.rows) && labels_join(e, &result, &r.columns);
    if (!fits) return kernel_fail(e->call, "an intermediate result is too large");
    const void *first = arrange(e, a, &left, &r.only_a), *second = arrange(e, b, &right, &r.only_b);
    void *product = arena_array(e->call->scratch, result.size + 1, kernel_element_size(e->dtype));
    if (result.size && !multiply(e, &r, first, second, product)) return false;
    *a = operand_of(e, product, &result);
    return true;
}

static bool contract_all(const Einsum *e, Operand *result) {
    *result = e->operands[0];
    bool *needed = ARENA_ARRAY(e->call->scratch, bool, e->labels);
    for (uint32_t i = 1; i < e->call->input_count; i++) {
        memset(needed, 0, e->labels * sizeof *needed);
        for (uint32_t k = 0; k < e->output_rank; k++) needed[e->output[k]] = true;
        for (uint32_t k = i + 1; k < e->call->input_count; k++)
            for (uint32_t label = 0; label < e->labels; label++)
                needed[label] = needed[label] || e->operands[k].has[label];
        if (!contract(e, result, &e->operands[i], needed)) return false;
    }
    return true;
}

/* Cuts 64-bit integers to the result's type, or copies what was computed. */
static void store(KernelTensor *y, const void *from) {
    size_t size = kernel_element_size(y->dtype);
    const uint64_t *wide = from;
    if (y->dtype == DTYPE_FLOAT || y->dtype == DTYPE_DOUBLE || size == 8) {
        memcpy(y->data, from, y->count * size);
        return;
    }
    for (uint64_t i = 0; i < y->count; i++) {
        if (size == 1)
            ((uint8_t *)y->data)[i] = (uint8_t)wide[i];
        else if (size == 2)
            ((uint16_t *)y->data)[i] = (uint16_t)wide[i];
        else
            ((uint32_t *)y->data)[i] = (uint32_t)wide[i];
    }
}

static bool finish(const Einsum *e, const Operand *operand) {
    KernelTensor *y = &e->call->outputs[0];
    Labels order = labels_new(e), sums = labels_new(e);
    bool fits = true;
    for (uint32_t i = 0; i < e->output_rank; i++)
        fits = fits && labels_add(e, &order, e->output[i]);
    for (uint32_t label = 0; label < e->labels; label++) {
        bool in_output = false;
        for (uint32_t i = 0; i < e->output_rank; i++) in_output |= e->output[i] == label;
        if (operand->has[label] && !in_output) fits = fits && labels_add(e, &sums, label);
    }
    if (!fits || order.size != y->count)
        return kernel_fail(e->call, "the result's size is not the equation's");
    if (y->count) store(y, arrange(e, operand, &order, &sums));
    return true;
}

bool kernel_einsum(KernelCall *call) {
    const EinsumAttrs *attrs = call->attrs;
    if (!attrs->equation.present) return kernel_fail(call, "the equation is missing");
    uint32_t most = 0;
    for (uint32_t i = 0; i < call->input_count; i++) {
        const KernelTensor *t = &call->inputs[i];
        most = t->rank > most ? t->rank : most;
    }
    Einsum e = {.call = call, .at = attrs->equation.text, .labels = LETTERS + most};
    e.end = e.at + attrs->equation.size;
    e.dims = ARENA_ARRAY(call->scratch, uint64_t, e.labels);
    e.uses = ARENA_ARRAY(call->scratch, uint32_t, e.labels);
    e.operands = ARENA_ARRAY(call->scratch, Operand, call->input_count);
    e.output = ARENA_ARRAY(call->scratch, uint32_t, 2 * (size_t)e.labels);
    for (uint32_t i = 0; i < e.labels; i++) e.dims[i] = 1;
    Dtype dtype = call->outputs[0].dtype;
    e.dtype = dtype == DTYPE_FLOAT || dtype == DTYPE_DOUBLE ? dtype : DTYPE_UINT64;
    Operand result;
    return read_equation(&e) && contract_all(&e, &result) && finish(&e, &result);
}
