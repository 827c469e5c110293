// SPDX-License-Identifier: Apache-2.0
/* For tests: ONNX's Cast and data movement, evaluated on vectors by code of their own, which shares
 * nothing with what is tested.
 *
 * A number is read into a long double, which holds every element of every type here (64 bits of
 * mantissa), and rounded from there by ldexp and rint. Integers to integers drop the upper bits.
 * What the definition of Cast leaves open is marked and compared with nothing: a float that is NaN
 * or out of range, to an integer. NaNs are one value whatever their payload; bool is 0 or 1, and
 * anything but zero, NaN too, is true. */
#ifndef DEMI_CAST_REFERENCE_H
#define DEMI_CAST_REFERENCE_H

#include <float.h>
#include <math.h>

#include "constants.h"
#include "op_types.h"
#include "test_model.h"

static_assert(LDBL_MANT_DIG >= 64, "long double must hold 64-bit integers");

enum { REF_TYPES = 13 };

/* A type by what is written about it: a float's mantissa bits and least exponent, an integer's
 * bits. */
typedef struct RefType {
    Dtype dtype;
    const char *name;
    int width;    /* bits of an element */
    int mantissa; /* floats: explicit bits; 0 for others */
    int exponent; /* floats: bits */
    bool is_signed;
} RefType;

static const RefType ref_types[REF_TYPES] = {
    {DTYPE_FLOAT16, "float16", 16, 10, 5, true}, {DTYPE_BFLOAT16, "bfloat16", 16, 7, 8, true},
    {DTYPE_FLOAT, "float", 32, 23, 8, true},     {DTYPE_DOUBLE, "double", 64, 52, 11, true},
    {DTYPE_INT8, "int8", 8, 0, 0, true},         {DTYPE_UINT8, "uint8", 8, 0, 0, false},
    {DTYPE_INT16, "int16", 16, 0, 0, true},      {DTYPE_UINT16, "uint16", 16, 0, 0, false},
    {DTYPE_INT32, "int32", 32, 0, 0, true},      {DTYPE_UINT32, "uint32", 32, 0, 0, false},
    {DTYPE_INT64, "int64", 64, 0, 0, true},      {DTYPE_UINT64, "uint64", 64, 0, 0, false},
    {DTYPE_BOOL, "bool", 8, 0, 0, false},
};

static inline const RefType *ref_type(Dtype dtype) {
    for (size_t i = 0; i < REF_TYPES; i++)
        if (ref_types[i].dtype == dtype) return &ref_types[i];
    fail_msg("no reference for type %d", (int)dtype);
    return NULL;
}

static inline bool ref_is_float(const RefType *type) {
    return type->mantissa != 0;
}

/* One element: its bits, in the lowest ones; `open` where the definition says nothing of it. */
typedef struct RefElement {
    uint64_t bits;
    bool open;
} RefElement;

static inline uint64_t ref_low_bits(int width) {
    return width == 64 ? UINT64_MAX : (UINT64_C(1) << width) - 1;
}

static inline long double ref_decode(const RefType *type, uint64_t bits) {
    if (!ref_is_float(type)) {
        bool negative = type->is_signed && (bits >> (type->width - 1) & 1);
        if (!negative) return (long double)bits;
        return -(long double)(ref_low_bits(type->width) - bits) - 1.0L;
    }
    uint64_t fraction = bits & ref_low_bits(type->mantissa);
    int field = (int)(bits >> type->mantissa & ref_low_bits(type->exponent));
    int bias = (1 << (type->exponent - 1)) - 1, top = (1 << type->exponent) - 1;
    long double sign = bits >> (type->width - 1) & 1 ? -1.0L : 1.0L;
    if (field == top) return fraction ? (long double)NAN : sign * (long double)INFINITY;
    long double whole = (long double)fraction;
    if (field) whole += ldexpl(1.0L, type->mantissa);
    return sign * ldexpl(whole, (field ? field : 1) - bias - type->mantissa);
}

/* Nearest, ties to even: counted in units of the last place, and rounded as a whole number. */
static inline uint64_t ref_encode_float(const RefType *type, long double value) {
    int bias = (1 << (type->exponent - 1)) - 1, exponent;
    uint64_t inf = ref_low_bits(type->exponent) << type->mantissa;
    uint64_t sign = signbit(value) ? UINT64_C(1) << (type->width - 1) : 0;
    if (isnan(value)) return inf | UINT64_C(1) << (type->mantissa - 1);
    long double size = fabsl(value);
    if (isinf(size)) return sign | inf;
    if (size == 0) return sign;
    frexpl(size, &exponent);
    exponent--;
    if (exponent < 1 - bias) exponent = 1 - bias;
    long double units = rintl(ldexpl(size, type->mantissa - exponent));
    uint64_t code = ((uint64_t)(exponent - (1 - bias)) << type->mantissa) + (uint64_t)units;
    return sign | (code < inf ? code : inf);
}

static inline RefElement ref_cast(const RefType *from, const RefType *to, RefElement in) {
    RefElement out = {.open = in.open};
    if (from == to) return in;
    long double value = ref_decode(from, in.bits);
    if (to->dtype == DTYPE_BOOL) {
        out.bits = isnan(value) || value != 0;
    } else if (ref_is_float(to)) {
        out.bits = ref_encode_float(to, value);
    } else if (ref_is_float(from)) {
        long double top = ldexpl(1.0L, to->is_signed ? to->width - 1 : to->width);
        long double whole = truncl(value);
        bool held = whole < top && whole >= (to->is_signed ? -top : 0.0L); /* NaN is not */
        out.open |= !held;
        if (held) out.bits = whole < 0 ? 0 - (uint64_t)-whole : (uint64_t)whole;
        out.bits &= ref_low_bits(to->width);
    } else {
        bool negative = from->is_signed && (in.bits >> (from->width - 1) & 1);
        uint64_t wide = negative ? in.bits | ~ref_low_bits(from->width) : in.bits;
        out.bits = wide & ref_low_bits(to->width);
    }
    return out;
}

static inline bool ref_is_nan(const RefType *type, uint64_t bits) {
    return ref_is_float(type) && isnan(ref_decode(type, bits));
}

/* True unless both are defined and differ. */
static inline bool ref_agree(const RefType *type, RefElement a, RefElement b) {
    if (a.open || b.open || a.bits == b.bits) return true;
    return ref_is_nan(type, a.bits) && ref_is_nan(type, b.bits);
}

/* ---- vectors and graphs ---------------------------------------------------------------------- */

typedef struct RefVector {
    const RefType *type; /* NULL: not computed */
    RefElement *items;
    size_t count;
} RefVector;

typedef struct RefRun {
    Arena *arena;
    RefVector *values; /* [value_count] */
} RefRun;

static inline RefVector ref_vector(Arena *arena, const RefType *type, size_t count) {
    return (RefVector){type, ARENA_ARRAY(arena, RefElement, count), count};
}

static inline int64_t ref_int(const Node *node, uint32_t input, size_t at, Arena *arena) {
    int64_t *values = NULL;
    uint64_t count = 0;
    const Tensor *tensor = constant_tensor(node->inputs[input].value, arena);
    if (!tensor || !tensor_read_ints(tensor, arena, 1 << 20, &values, &count) || at >= count)
        fail_msg("%s: no constant operand %u", node_label(node), (unsigned)input);
    return values[at];
}

static inline RefVector ref_constant(const Value *value, Arena *arena) {
    const Tensor *tensor = constant_tensor(value, arena);
    assert_non_null(tensor);
    RefVector out = ref_vector(arena, ref_type((Dtype)tensor->dtype), (size_t)tensor_count(tensor));
    uint64_t bytes = (uint64_t)out.type->width / 8;
    for (size_t i = 0; i < out.count; i++)
        assert_true(tensor_read_raw(tensor, i * bytes, &out.items[i].bits, bytes, NULL));
    return out;
}

static inline RefVector ref_input(RefRun *run, const Node *node, uint32_t i) {
    const Value *value = i < node->input_count ? node->inputs[i].value : NULL;
    if (!value) return (RefVector){0};
    if (!run->values[value->id].type && value_is_constant(value))
        run->values[value->id] = ref_constant(value, run->arena);
    return run->values[value->id];
}

static inline RefVector ref_gathered(RefRun *run, RefVector x, const Node *node) {
    int64_t *at;
    uint64_t count;
    const Tensor *tensor = constant_tensor(node->inputs[1].value, run->arena);
    assert_true(tensor_read_ints(tensor, run->arena, 1 << 20, &at, &count));
    RefVector out = ref_vector(run->arena, x.type, (size_t)count);
    for (size_t i = 0; i < out.count; i++) out.items[i] = x.items[at[i]];
    return out;
}

static inline RefVector ref_padded(RefRun *run, RefVector x, const Node *node) {
    size_t before = (size_t)ref_int(node, 1, 0, run->arena);
    size_t after = (size_t)ref_int(node, 1, 1, run->arena);
    RefVector fill = ref_input(run, node, 2),
              out = ref_vector(run->arena, x.type, x.count + before + after);
    for (size_t i = 0; i < out.count; i++) {
        bool inside = i >= before && i < before + x.count;
        if (inside)
            out.items[i] = x.items[i - before];
        else if (fill.type)
            out.items[i] = fill.items[0];
    }
    return out;
}

static inline RefVector ref_where(RefRun *run, const Node *node) {
    RefVector c = ref_input(run, node, 0), x = ref_input(run, node, 1), y = ref_input(run, node, 2);
    RefVector out = ref_vector(run->arena, x.type, x.count);
    for (size_t i = 0; i < out.count; i++)
        out.items[i] = c.items[c.count == 1 ? 0 : i].bits ? x.items[i] : y.items[i];
    return out;
}

static inline RefVector ref_joined(RefRun *run, RefVector x, RefVector y) {
    RefVector out = ref_vector(run->arena, x.type, x.count + y.count);
    for (size_t i = 0; i < out.count; i++)
        out.items[i] = i < x.count ? x.items[i] : y.items[i - x.count];
    return out;
}

/* The operators that the tests use, on vectors of one dimension. */
static inline RefVector ref_node(RefRun *run, const Node *node) {
    RefVector x = ref_input(run, node, 0);
    if (sym_equals(node->op_type, "Cast")) {
        const RefType *to = ref_type((Dtype)node_attr_int(node, "to", 0));
        RefVector out = ref_vector(run->arena, to, x.count);
        for (size_t i = 0; i < out.count; i++) out.items[i] = ref_cast(x.type, to, x.items[i]);
        return out;
    }
    if (sym_equals(node->op_type, "Where")) return ref_where(run, node);
    if (sym_equals(node->op_type, "Gather")) return ref_gathered(run, x, node);
    if (sym_equals(node->op_type, "Pad")) return ref_padded(run, x, node);
    if (sym_equals(node->op_type, "Concat")) return ref_joined(run, x, ref_input(run, node, 1));
    if (sym_equals(node->op_type, "Tile")) return ref_joined(run, x, x); /* by 2 */
    if (sym_equals(node->op_type, "Slice")) {
        int64_t from = ref_int(node, 1, 0, run->arena), to = ref_int(node, 2, 0, run->arena);
        x.items += from;
        x.count = (size_t)(to - from);
    } else if (!sym_equals(node->op_type, "Identity") && !sym_equals(node->op_type, "Reshape") &&
               !sym_equals(node->op_type, "Transpose")) {
        fail_msg("no reference for %s", sym_text(node->op_type));
    }
    return x;
}

/* Evaluates the main graph on `input`, its first input. */
static inline RefRun ref_run(const Model *model, RefVector input, Arena *arena) {
    RefRun run = {arena, ARENA_ARRAY(arena, RefVector, model->value_count)};
    run.values[model->graph->inputs.items[0]->id] = input;
    for (const Node *node = model->graph->first; node; node = node->next)
        run.values[node->outputs[0]->id] = ref_node(&run, node);
    return run;
}

static inline RefVector ref_output(RefRun *run, const Model *model, size_t i) {
    return run->values[model->graph->outputs.items[i]->use.value->id];
}

#endif
