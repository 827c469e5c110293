// SPDX-License-Identifier: Apache-2.0
/* Formulas become nodes; see gradient_rule.h. They are the table's, so a mistake in one is a mistake
 * of ours: a case of every one is in gradient_test.py.
 *
 *     formula = factor { sign factor }, as tightly as formula_signs.def has it
 *     factor  = "-" factor | number | name | "$" attribute | "(" formula ")"
 *             | Operator "(" formula { "," formula } ")"
 */
#include <assert.h>
#include <ctype.h>
#include <stdint.h>
#include <string.h>

#include "gradient_rule.h"

/* A number that no node holds yet, or a value. */
typedef struct Term {
    Value *value; /* NULL: the number */
    double number;
} Term;

typedef struct Formula {
    Grad *g;
    const char *at;
    Value *const *values;
    const Value *like; /* whose element type numbers have */
    unsigned depth;
} Formula;

enum { FORMULA_DEPTH = 40, FORMULA_OPERANDS = 3 };

static Term parse(Formula *f);

static void skip_spaces(Formula *f) {
    while (*f->at == ' ') f->at++;
}

static bool take(Formula *f, const char *word) {
    skip_spaces(f);
    const size_t length = strlen(word);
    if (strncmp(f->at, word, length) != 0) return false;
    f->at += length;
    return true;
}

static void expect(Formula *f, const char *word) {
    const bool there = take(f, word);
    assert(there);
    (void)there;
}

static Value *value_of(Formula *f, Term term) {
    return term.value ? term.value : grad_number(f->g, term.number, f->like);
}

typedef struct Sign {
    const char *sign, *op;
    unsigned level; /* the larger, the tighter it binds */
} Sign;

static const Sign signs[] = {
#define SIGN(sign, level, op, result) {sign, op, level},
#include "formula_signs.def"
};

/* Of numbers alone. */
static double computed(size_t place, double a, double b) {
    const double results[] = {
#define SIGN(sign, level, op, result) result,
#include "formula_signs.def"
    };
    return results[place];
}

static Term combined(Formula *f, size_t place, Term a, Term b) {
    if (!a.value && !b.value) return (Term){.number = computed(place, a.number, b.number)};
    Value *x = value_of(f, a), *y = value_of(f, b);
    const Dtype dtype = signs[place].level ? type_dtype(x->type) : DTYPE_BOOL;
    return (Term){.value = GRAD_AS(f->g, signs[place].op, dtype, x, y)};
}

/* ---- what formulas name ---------------------------------------------------------------------- */

static Term named(Formula *f, const char *name, size_t length) {
    static const char *const operands[] = {"x", "a", "b", "c"};
    static const uint32_t places[] = {0, 0, 1, 2};
    Grad *g = f->g;
    if (length == 2) return (Term){.value = grad_flow(g, 0)};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (*operands[i] == *name) return (Term){.value = grad_in(g, places[i])};
    if (*name == 'y') return (Term){.value = grad_out(g, 0)};
    assert(*name >= 'p' && *name <= 'r');
    return (Term){.value = f->values[*name - 'p']};
}

static Term called(Formula *f, const char *name, size_t length) {
    Value *operands[FORMULA_OPERANDS];
    size_t count = 0;
    do {
        assert(count < FORMULA_OPERANDS);
        operands[count++] = value_of(f, parse(f));
    } while (take(f, ","));
    expect(f, ")");
    const char *op = arena_printf(f->g->make.ctx->scratch, "%.*s", (int)length, name);
    const Dtype dtype = type_dtype(operands[count - 1]->type); /* of Where: the last one's */
    return (Term){.value = grad_make(f->g, op, dtype, operands, count)};
}

static Term word(Formula *f) {
    const bool attribute = take(f, "$");
    const char *name = f->at;
    while (isalnum((unsigned char)*f->at) || *f->at == '_') f->at++;
    const size_t length = (size_t)(f->at - name);
    assert(length);
    if (attribute) {
        const char *text = arena_printf(f->g->make.ctx->scratch, "%.*s", (int)length, name);
        return (Term){.number = grad_real(f->g, text)};
    }
    return take(f, "(") ? called(f, name, length) : named(f, name, length);
}

/* ---- grammar --------------------------------------------------------------------------------- */

static Term factor(Formula *f) {
    if (take(f, "-")) {
        const Term term = factor(f);
        if (term.value) return (Term){.value = GRAD(f->g, "Neg", term.value)};
        return (Term){.number = -term.number};
    }
    if (take(f, "(")) {
        const Term term = parse(f);
        expect(f, ")");
        return term;
    }
    skip_spaces(f);
    if (!isdigit((unsigned char)*f->at)) return word(f);
    double number = 0, unit = 1; /* not strtod, whose point is the locale's */
    while (isdigit((unsigned char)*f->at)) number = number * 10 + (*f->at++ - '0');
    if (*f->at == '.')
        for (f->at++; isdigit((unsigned char)*f->at); f->at++)
            number += (unit /= 10) * (*f->at - '0');
    return (Term){.number = number};
}

/* Operands of signs that bind at least as tightly as `level`. */
static Term joined(Formula *f, unsigned level) {
    enum { TIGHTEST = 2 };
    Term term = level < TIGHTEST ? joined(f, level + 1) : factor(f);
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        if (signs[i].level != level || !take(f, signs[i].sign)) continue;
        term = combined(f, i, term, level < TIGHTEST ? joined(f, level + 1) : factor(f));
        i = SIZE_MAX; /* all signs again */
    }
    return term;
}

static Term parse(Formula *f) {
    assert(f->depth < FORMULA_DEPTH);
    f->depth++;
    const Term term = joined(f, 0);
    f->depth--;
    return term;
}

Value *grad_formula(Grad *g, const char *formula, Value *const values[3]) {
    const Value *like = grad_flow(g, 0);
    for (int i = 2; i >= 0; i--)
        if (values[i] && type_dtype(values[i]->type) != DTYPE_BOOL) like = values[i];
    Formula f = {g, formula, values, like, 0};
    const Term term = parse(&f);
    skip_spaces(&f);
    assert(!*f.at);
    return value_of(&f, term);
}
