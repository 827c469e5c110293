// SPDX-License-Identifier: Apache-2.0
/* See einsum_terms.h. */
#include "einsum_terms.h"

#include <string.h>

#include "checked.h"
#include "op_attrs.h"

enum { LETTERS = 52 };

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
static bool add_axis(Einsum *e, EinsumOperand *operand, uint32_t label, uint64_t dim,
                     uint64_t stride) {
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
    EinsumOperand *operand = &e->operands[number];
    *operand = (EinsumOperand){t->data, t->dtype, ARENA_ARRAY(e->call->scratch, bool, e->labels),
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
    return token == TOKEN_END || kernel_fail(e->call, "cannot parse the equation");
}

static bool read_equation(Einsum *e) {
    Token token = TOKEN_COMMA;
    for (uint32_t i = 0; i < e->call->input_count; i++) {
        if (token != TOKEN_COMMA) return kernel_fail(e->call, "more inputs than terms");
        if (!read_term(e, i, &token)) return false;
    }
    if (token == TOKEN_ARROW) return read_output(e);
    if (token != TOKEN_END) return kernel_fail(e->call, "cannot parse the equation");
    output_dots(e); /* implicit: what occurs once, in alphabetical order */
    for (uint32_t i = 0; i < LETTERS; i++)
        if (e->uses[i] == 1) e->output[e->output_rank++] = i;
    return true;
}

bool einsum_read(KernelCall *call, Einsum *e) {
    const EinsumAttrs *attrs = call->attrs;
    if (!attrs->equation.present) return kernel_fail(call, "the equation is missing");
    uint32_t most = 0;
    for (uint32_t i = 0; i < call->input_count; i++) {
        const KernelTensor *t = &call->inputs[i];
        most = t->rank > most ? t->rank : most;
    }
    *e = (Einsum){.call = call, .at = attrs->equation.text, .labels = LETTERS + most};
    e->end = e->at + attrs->equation.size;
    e->dims = ARENA_ARRAY(call->scratch, uint64_t, e->labels);
    e->uses = ARENA_ARRAY(call->scratch, uint32_t, e->labels);
    e->operands = ARENA_ARRAY(call->scratch, EinsumOperand, call->input_count);
    e->output = ARENA_ARRAY(call->scratch, uint32_t, 2 * (size_t)e->labels);
    for (uint32_t i = 0; i < e->labels; i++) e->dims[i] = 1;
    return read_equation(e);
}

/* ---- contraction ----------------------------------------------------------------------------- */

static EinsumLabels labels_new(const Einsum *e) {
    return (EinsumLabels){ARENA_ARRAY(e->call->scratch, uint32_t, e->labels), 0, 1};
}

/* False with the error set where the product of sizes overflows. */
static bool labels_add(const Einsum *e, EinsumLabels *list, uint32_t label) {
    list->items[list->count++] = label;
    return checked_mul(list->size, e->dims[label], &list->size) && list->size <= INT64_MAX;
}

static bool labels_join(const Einsum *e, EinsumLabels *list, const EinsumLabels *more) {
    for (uint32_t i = 0; i < more->count; i++)
        if (!labels_add(e, list, more->items[i])) return false;
    return true;
}

static bool sort_labels(const Einsum *e, const EinsumOperand *a, const EinsumOperand *b,
                        const bool *needed, EinsumStep *r) {
    EinsumLabels *const all[] = {&r->batch,  &r->rows, &r->columns, &r->inner, &r->only_a,
                                 &r->only_b, &r->left, &r->right,   &r->result};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) *all[i] = labels_new(e);
    for (uint32_t label = 0; label < e->labels; label++) {
        bool in_a = a->has[label], in_b = b->has[label], kept = needed[label];
        if (!in_a && !in_b) continue;
        EinsumLabels *list = in_a && in_b ? (kept ? &r->batch : &r->inner)
                             : in_a       ? (kept ? &r->rows : &r->only_a)
                                          : (kept ? &r->columns : &r->only_b);
        if (!labels_add(e, list, label)) return false;
    }
    return true;
}

/* Those that the result has, or an operand behind the number-th. */
static const bool *needed_behind(const Einsum *e, uint32_t number) {
    bool *needed = ARENA_ARRAY(e->call->scratch, bool, e->labels);
    for (uint32_t k = 0; k < e->output_rank; k++) needed[e->output[k]] = true;
    for (uint32_t k = number + 1; k < e->call->input_count; k++)
        for (uint32_t label = 0; label < e->labels; label++)
            needed[label] = needed[label] || e->operands[k].has[label];
    return needed;
}

bool einsum_step(const Einsum *e, const EinsumOperand *a, uint32_t number, EinsumStep *r) {
    return (sort_labels(e, a, &e->operands[number], needed_behind(e, number), r) &&
            labels_join(e, &r->left, &r->batch) && labels_join(e, &r->left, &r->rows) &&
            labels_join(e, &r->left, &r->inner) && labels_join(e, &r->right, &r->batch) &&
            labels_join(e, &r->right, &r->inner) && labels_join(e, &r->right, &r->columns) &&
            labels_join(e, &r->result, &r->batch) && labels_join(e, &r->result, &r->rows) &&
            labels_join(e, &r->result, &r->columns)) ||
           kernel_fail(e->call, "an intermediate result is too large");
}

EinsumOperand einsum_operand(const Einsum *e, const void *data, Dtype dtype,
                             const EinsumLabels *labels) {
    EinsumOperand result = {data, dtype, ARENA_ARRAY(e->call->scratch, bool, e->labels),
                            ARENA_ARRAY(e->call->scratch, uint64_t, e->labels), labels->count};
    uint64_t stride = 1;
    for (uint32_t i = labels->count; i-- > 0; stride *= e->dims[labels->items[i]]) {
        result.has[labels->items[i]] = true;
        result.strides[labels->items[i]] = e->dims[labels->items[i]] == 1 ? 0 : stride;
    }
    return result;
}

bool einsum_in_order(const Einsum *e, const EinsumOperand *operand, const EinsumLabels *order,
                     const EinsumLabels *sums) {
    uint64_t stride = 1;
    bool same = true;
    for (uint32_t i = order->count; same && i-- > 0;) {
        uint64_t dim = e->dims[order->items[i]];
        same = dim == 1 || operand->strides[order->items[i]] == stride;
        stride *= dim;
    }
    return same && sums->size == 1;
}

bool einsum_end(const Einsum *e, const EinsumOperand *operand, EinsumLabels *order,
                EinsumLabels *sums) {
    bool fits = true;
    *order = labels_new(e);
    *sums = labels_new(e);
    for (uint32_t i = 0; i < e->output_rank; i++) fits = fits && labels_add(e, order, e->output[i]);
    for (uint32_t label = 0; label < e->labels; label++) {
        bool in_output = false;
        for (uint32_t i = 0; i < e->output_rank; i++) in_output |= e->output[i] == label;
        if (operand->has[label] && !in_output) fits = fits && labels_add(e, sums, label);
    }
    return (fits && order->size == e->call->outputs[0].count) ||
           kernel_fail(e->call, "the size of the result does not match the equation");
}
