// SPDX-License-Identifier: Apache-2.0
/* Exactness of casts, by types. */
#include "cast_chain.h"

#include "op_types.h"

static Dtype dtype_of(const Value *value) {
    return type_dtype(value->type);
}

/* Attributes of the cast say what becomes of values that the type lacks. */
static bool has_modes(Dtype dtype) {
    return dtype_is_float(dtype) && dtype_bits(dtype) <= 8;
}

static bool is_number(Dtype dtype) {
    return dtype == DTYPE_BOOL || dtype_is_integer(dtype) || dtype_is_float(dtype);
}

/* Integers drop their upper bits, twice or at once. Those of less than a byte are left alone. */
static bool wraps_alike(Dtype a, Dtype b, Dtype c) {
    return dtype_is_integer(a) && dtype_is_integer(b) && dtype_is_integer(c) &&
           dtype_bits(a) >= 8 && dtype_bits(c) >= 8 && dtype_bits(c) <= dtype_bits(b);
}

/* Not zero in `a` is not zero in `b`, so bool can't tell: rounding keeps order, so that the
 * smallest number tells of all. */
static bool keeps_truth(Dtype a, Dtype b) {
    if (dtype_is_integer(a) && dtype_is_integer(b)) return dtype_bits(a) <= dtype_bits(b);
    double least;
    uint64_t bits;
    return dtype_is_float(b) && !has_modes(a) && !has_modes(b) && dtype_to_double(a, 1, &least) &&
           dtype_from_double(b, least, &bits) && bits != 0;
}

/* Integers up to 2^24 are exact in float and double, and what lies beyond is infinite in float16.
 */
static bool overflows_alike(Dtype a, Dtype b, Dtype c) {
    return dtype_is_integer(a) && (b == DTYPE_FLOAT || b == DTYPE_DOUBLE) && c == DTYPE_FLOAT16;
}

/* What rounds Inf to the largest finite number: float8e5m2 alone has an Inf of the kinds with
 * modes. */
static bool loses_inf(const Node *cast, Dtype to) {
    return to == DTYPE_FLOAT8E5M2 && node_attr_int(cast, "saturate", 1) != 0;
}

bool cast_is_identity(const Node *cast) {
    return !loses_inf(cast, dtype_of(cast->outputs[0]));
}

bool cast_chain_is_exact(const Node *inner, const Node *outer) {
    Dtype a = dtype_of(inner->inputs[0].value), b = dtype_of(inner->outputs[0]);
    Dtype c = dtype_of(outer->outputs[0]);
    if (!is_number(a) || !is_number(b) || !is_number(c)) return false;
    if (wraps_alike(a, b, c) || overflows_alike(a, b, c)) return true;
    if (c == DTYPE_BOOL && keeps_truth(a, b)) return true;
    if (!dtype_lossless(a, b) || (a == b && !cast_is_identity(inner))) return false;
    if (loses_inf(inner, b) && a != b && dtype_is_float(a)) return false;
    if (!has_modes(c)) return true;
    /* Integers reach such types through float, or not, as an engine likes. */
    return dtype_is_float(a) && dtype_bits(a) <= 32 && (a != c || !loses_inf(outer, c));
}

static bool same_modes(const Node *a, const Node *b) {
    const Attr *mode = node_attr(a, "round_mode"), *other = node_attr(b, "round_mode");
    return node_attr_int(a, "saturate", 1) == node_attr_int(b, "saturate", 1) && !mode == !other &&
           (!mode || attr_same_text(mode, other));
}

bool cast_is_same(const Node *a, const Node *b) {
    Dtype to = dtype_of(a->outputs[0]);
    return to == dtype_of(b->outputs[0]) && (!has_modes(to) || same_modes(a, b));
}
