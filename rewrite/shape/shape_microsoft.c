// SPDX-License-Identifier: Apache-2.0
/* Operators of com.microsoft whose shapes follow as no published operator's do: products that turn
 * their operands, attention with its state, and quantized operators, whose operands have scales and
 * zero points between them. */
#include "shape_calc.h"

static const ShapeNum unknown = {.kind = SHAPE_UNKNOWN};

static ShapeNum dim_at(const ShapeOperand *x, uint32_t axis) {
    return x && axis < x->rank ? x->dims[axis] : unknown;
}

static ShapeNum half_of(ShapeNum num, int64_t parts) {
    return num.kind == SHAPE_KNOWN ? num_floor_div(num, parts) : unknown;
}

/* ---- products -------------------------------------------------------------------------------- */

/* What becomes of an operand before it is multiplied: its first axis goes behind the batches, then its
 * last two are exchanged. */
typedef struct Turns {
    bool last, batches;
} Turns;

static bool turn(ShapeCall *call, Turns turns, ShapeOperand *x) {
    if (!x->present || !x->has_rank || (!turns.last && !turns.batches)) return true;
    if (x->rank < 2) return !turns.batches || shape_invalid(call, "a vector has no batches");
    ShapeNum *dims = ARENA_ARRAY(call->arena, ShapeNum, x->rank);
    for (uint32_t i = 0; i < x->rank; i++) dims[i] = x->dims[i];
    for (uint32_t i = 0; turns.batches && i + 1 < x->rank; i++)
        dims[i] = x->dims[i + 2 < x->rank ? i + 1 : 0];
    if (turns.last) {
        const ShapeNum last = dims[x->rank - 1];
        dims[x->rank - 1] = dims[x->rank - 2];
        dims[x->rank - 2] = last;
    }
    x->dims = dims;
    return true;
}

bool shape_turned_matmul(ShapeCall *call) {
    const GemmAttrs *attrs = call->attrs;
    ShapeOperand inputs[] = {*shape_input(call, 0), *shape_input(call, 1)};
    if (!turn(call, (Turns){attrs->trans_a != 0, attrs->batch_a != 0}, &inputs[0]) ||
        !turn(call, (Turns){attrs->trans_b != 0, attrs->batch_b != 0}, &inputs[1]))
        return false;
    ShapeCall product = *call;
    const ShapeRow row = {.variant = SHAPE_INPUTS_0_1};
    product.row = &row;
    product.inputs = inputs;
    product.input_count = 2;
    if (shape_matmul(&product)) return true;
    return shape_invalid(call, "%s", product.reason);
}

/* Weights (N, K), or, where transB is 0, (K, N) of another product. */
bool shape_matmul_bnb4(ShapeCall *call) {
    const BitsAttrs *attrs = call->attrs;
    BitsAttrs turned = *attrs;
    ShapeCall product = *call;
    if (attrs->k == ATTR_ABSENT || attrs->n == ATTR_ABSENT)
        return shape_invalid(call, "K or N is missing");
    if (!attrs->turned) turned.k = attrs->n;
    if (!attrs->turned) turned.n = attrs->k;
    product.attrs = &turned;
    return shape_matmul_bits(&product) || shape_invalid(call, "%s", product.reason);
}

/* ---- quantized ------------------------------------------------------------------------------- */

/* Operands 0 and 3, each with a scale and a zero point behind it. */
bool shape_broadcast_quantized(ShapeCall *call) {
    const ShapeOperand *const both[] = {shape_ranked(call, 0), shape_ranked(call, 3)};
    ShapeDims result;
    if (!both[0] || !both[1]) return true;
    if (!shape_broadcast_all(call, both, 2, &result)) return false;
    ShapeNum *dims = shape_output(call, 0, result.rank);
    for (uint32_t i = 0; i < result.rank; i++) dims[i] = result.dims[i];
    return true;
}

/* A condition, X and Y, and each one's scale and zero point. */
bool shape_where_quantized(ShapeCall *call) {
    const ShapeOperand *const all[] = {shape_ranked(call, 0), shape_ranked(call, 1),
                                       shape_ranked(call, 4)};
    ShapeDims result;
    if (!all[0] || !all[1] || !all[2]) return true;
    if (!shape_broadcast_all(call, all, 3, &result)) return false;
    ShapeNum *dims = shape_output(call, 0, result.rank);
    for (uint32_t i = 0; i < result.rank; i++) dims[i] = result.dims[i];
    return true;
}

/* The result's scale and zero point, then as many operands as one likes, each with its own two. */
bool shape_concat_quantized(ShapeCall *call) {
    const JoinAttrs *attrs = call->attrs;
    uint32_t axis, count = call->input_count < 2 ? 0 : (call->input_count - 2) / 3;
    if (call->input_count < 5 || (call->input_count - 2) % 3)
        return shape_invalid(call, "operands must be tensors with a scale and a zero point each");
    if (attrs->axis == ATTR_ABSENT) return shape_invalid(call, "axis is missing");
    const ShapeOperand *first = shape_ranked(call, 2);
    if (!first) return true;
    if (!shape_axis(call, attrs->axis, first->rank, &axis)) return false;
    ShapeNum *dims = shape_output(call, 0, first->rank);
    for (uint32_t i = 0; i < first->rank; i++) dims[i] = first->dims[i];
    for (uint32_t k = 1; k < count; k++) {
        const ShapeOperand *x = shape_ranked(call, 2 + 3 * k);
        if (x && x->rank != first->rank)
            return shape_invalid(call, "ranks %u and %u", first->rank, x->rank);
        for (uint32_t i = 0; i < first->rank; i++) {
            if (i == axis)
                dims[i] = num_add(dims[i], dim_at(x, i));
            else if (!shape_unify(call, &dims[i], dim_at(x, i)))
                return false;
        }
    }
    return true;
}

bool shape_global_pool_quantized(ShapeCall *call) {
    const WindowAttrs *attrs = call->attrs;
    const ShapeOperand *x = shape_ranked(call, 0);
    if (!x) return true;
    if (x->rank < 2) return shape_invalid(call, "rank %u leaves no spatial axes", x->rank);
    const uint32_t channels = attrs->channels_last ? x->rank - 1 : 1;
    ShapeNum *dims = shape_output(call, 0, x->rank);
    for (uint32_t i = 0; i < x->rank; i++)
        dims[i] = i == 0 || i == channels ? x->dims[i] : num_known(1);
    return true;
}

/* As Gather; rows of data of bytes may hold several elements a byte, along the last axis. */
bool shape_gather_blocks(ShapeCall *call) {
    const GatherBlocksAttrs *attrs = call->attrs;
    ShapeOperand inputs[] = {*shape_input(call, 0), *shape_input(call, 1)};
    const ShapeOperand *x = shape_ranked(call, 0), *scales = shape_ranked(call, 2);
    const GatherAttrs plain = {.axis = attrs->axis};
    uint32_t along;
    if (x && x->rank == 0) return shape_invalid(call, "a scalar has no axis");
    if (x && !shape_axis(call, attrs->along, x->rank, &along)) return false;
    if (x && scales && scales->rank != x->rank)
        return shape_invalid(call, "scales of rank %u", scales->rank);
    if (x && attrs->bits > 0 && attrs->bits < 8 && x->dtype == DTYPE_UINT8) {
        ShapeNum *dims = ARENA_ARRAY(call->arena, ShapeNum, x->rank);
        for (uint32_t i = 0; i < x->rank; i++) dims[i] = x->dims[i];
        dims[x->rank - 1] = num_mul(dims[x->rank - 1], num_known(8 / attrs->bits));
        inputs[0].dims = dims;
    }
    ShapeCall gather = *call;
    gather.attrs = &plain;
    gather.inputs = inputs;
    gather.input_count = 2;
    return shape_gather(&gather) || shape_invalid(call, "%s", gather.reason);
}

/* ---- norms, embeddings, matrices ------------------------------------------------------------- */

/* Half of the last axis. */
bool shape_split_gelu(ShapeCall *call) {
    const ShapeOperand *x = shape_ranked(call, 0);
    if (!x) return true;
    if (x->rank == 0) return shape_invalid(call, "a scalar has no halves");
    ShapeNum *dims = shape_output(call, 0, x->rank);
    for (uint32_t i = 0; i + 1 < x->rank; i++) dims[i] = x->dims[i];
    dims[x->rank - 1] = half_of(x->dims[x->rank - 1], 2);
    return true;
}

/* The result, mean and deviation, and the sum that was normalized. */
bool shape_skip_norm(ShapeCall *call) {
    const ShapeOperand *x = shape_ranked(call, 0);
    shape_same_as(call, 0, shape_input(call, 0));
    if (call->output_count > 3) shape_same_as(call, 3, shape_input(call, 0));
    if (!x) return true;
    if (x->rank == 0) return shape_invalid(call, "a scalar has no axis");
    for (uint32_t k = 1; k < 3 && k < call->output_count; k++) {
        ShapeNum *dims = shape_output(call, k, x->rank);
        for (uint32_t i = 0; i < x->rank; i++)
            dims[i] = i + 1 < x->rank ? x->dims[i] : num_known(1);
    }
    return true;
}

/* Ids (batch, length) become (batch, length, hidden), a number for each batch, and the sum. */
bool shape_embed_layer_norm(ShapeCall *call) {
    const ShapeOperand *ids = shape_ranked(call, 0), *words = shape_ranked(call, 2);
    if (!shape_want_rank(call, 0, 2) || !shape_want_rank(call, 2, 2)) return false;
    for (uint32_t k = 0; k < 3; k += 2) {
        ShapeNum *dims = shape_output(call, k, 3);
        dims[0] = dim_at(ids, 0);
        dims[1] = dim_at(ids, 1);
        dims[2] = dim_at(words, 1);
    }
    shape_output(call, 1, 1)[0] = dim_at(ids, 0);
    return true;
}

/* What becomes of operand 0, and of operand 3. */
bool shape_linear_gates(ShapeCall *call) {
    shape_same_as(call, 0, shape_input(call, 0));
    if (call->output_count > 1) shape_same_as(call, 1, shape_input(call, 3));
    return true;
}

/* Square matrices, in stacks. */
bool shape_inverse(ShapeCall *call) {
    const ShapeOperand *x = shape_ranked(call, 0);
    if (!x) return true;
    if (x->rank < 2) return shape_invalid(call, "rank %u is not a matrix", x->rank);
    ShapeNum side = x->dims[x->rank - 1];
    if (!shape_unify(call, &side, x->dims[x->rank - 2])) return false;
    shape_same_as(call, 0, x);
    return true;
}

/* ---- attention ------------------------------------------------------------------------------- */

static void set_dims(ShapeCall *call, uint32_t index, uint32_t rank, const ShapeNum *from) {
    ShapeNum *dims = shape_output(call, index, rank);
    for (uint32_t i = 0; i < rank; i++) dims[i] = from[i];
}

/* Attention: input (batch, rows, width), weights (width, Q + K + V); the past, operand `place`, and
 * what becomes of it, is (2, batch, heads, length, size). */
static bool packed_attention(ShapeCall *call, uint32_t place) {
    const HeadsAttrs *attrs = call->attrs;
    const ShapeOperand *x = shape_ranked(call, 0), *w = shape_ranked(call, 1),
                       *past = shape_ranked(call, place);
    if (!shape_want_rank(call, 0, 3) || !shape_want_rank(call, 1, 2) ||
        !shape_want_rank(call, place, 5))
        return false;
    const AttrInts *sizes = &attrs->sizes;
    if (attrs->heads < 1) return shape_invalid(call, "num_heads is missing");
    if (sizes->present && (sizes->count != 3 || sizes->items[1] < 0 || sizes->items[2] < 0))
        return shape_invalid(call, "qkv_hidden_sizes does not have three elements");
    const ShapeNum value = sizes->present ? num_known(sizes->items[2]) : half_of(dim_at(w, 1), 3);
    const ShapeNum out[] = {dim_at(x, 0), dim_at(x, 1), value};
    set_dims(call, 0, 3, out);
    const bool has = shape_input(call, place)->present;
    ShapeNum before = has ? dim_at(past, 3) : num_known(0);
    const ShapeNum present[] = {num_known(2), dim_at(x, 0), num_known(attrs->heads),
                                attrs->share > 0 ? before : num_add(before, dim_at(x, 1)),
                                half_of(value, attrs->heads)};
    set_dims(call, 1, 5, present);
    return true;
}

bool shape_packed_attention(ShapeCall *call) {
    return packed_attention(call, 4);
}

bool shape_q_attention(ShapeCall *call) {
    return packed_attention(call, 8);
}

/* What MultiHeadAttention's first three operands say; unknown where they do not. */
typedef struct QueryKey {
    ShapeNum batch, rows, keys, value; /* value: elements of all heads */
} QueryKey;

static bool multi_head_sizes(ShapeCall *call, int64_t heads, QueryKey *sizes) {
    const ShapeOperand *q = shape_ranked(call, 0), *k = shape_ranked(call, 1),
                       *v = shape_ranked(call, 2);
    *sizes = (QueryKey){dim_at(q, 0), dim_at(q, 1), unknown, unknown};
    if (q && q->rank != 3 && q->rank != 5)
        return shape_invalid(call, "a query of rank %u", q->rank);
    if (!shape_input(call, 1)->present) { /* all in one: (batch, rows, heads, 3, size) */
        sizes->keys = sizes->rows;
        if (q && q->rank != 5) return shape_invalid(call, "a query without keys");
        sizes->value = num_mul(num_known(heads), dim_at(q, 4));
    } else if (!shape_input(call, 2)->present) { /* (batch, keys, heads, 2, size) */
        if (k && k->rank != 5) return shape_invalid(call, "keys without values");
        sizes->keys = dim_at(k, 1);
        sizes->value = num_mul(num_known(heads), dim_at(k, 4));
    } else if (v) {
        if (v->rank != 3 && v->rank != 4) return shape_invalid(call, "values of rank %u", v->rank);
        sizes->keys = v->dims[v->rank == 4 ? 2 : 1];
        sizes->value = v->rank == 4 ? num_mul(num_known(heads), v->dims[3]) : v->dims[2];
    }
    return true;
}

bool shape_multi_head_attention(ShapeCall *call) {
    const HeadsAttrs *attrs = call->attrs;
    QueryKey sizes;
    if (attrs->heads < 1) return shape_invalid(call, "num_heads is missing");
    if (!shape_want_rank(call, 6, 4) || !shape_want_rank(call, 7, 4) ||
        !multi_head_sizes(call, attrs->heads, &sizes))
        return false;
    const ShapeOperand *past = shape_ranked(call, 6), *value = shape_ranked(call, 2),
                       *key = shape_ranked(call, 1), *q = shape_ranked(call, 0);
    const bool has = shape_input(call, 6)->present, crossed = value && value->rank == 4;
    const ShapeNum out[] = {sizes.batch, sizes.rows, sizes.value};
    set_dims(call, 0, 3, out);
    /* the cache of another sequence, which is not added to, is what comes out */
    ShapeNum before = !has ? num_known(0) : dim_at(past, 2);
    ShapeNum total = crossed                         ? sizes.keys
                     : shape_input(call, 8)->present ? before
                                                     : num_add(before, sizes.keys);
    if (!value && shape_input(call, 2)->present) total = unknown;
    const ShapeOperand *used = shape_input(call, 8);
    const ShapeNum seen = used->present ? num_add(shape_single(used), sizes.keys) : total;
    const ShapeNum key_size = key && key->rank == 5   ? key->dims[4]
                              : key && key->rank == 4 ? key->dims[3]
                              : q && q->rank == 5     ? q->dims[4]
                                                      : half_of(dim_at(q, 2), attrs->heads);
    const ShapeNum heads = num_known(attrs->heads);
    const ShapeNum keys[] = {sizes.batch, heads, total, key_size},
                   values[] = {sizes.batch, heads, total, half_of(sizes.value, attrs->heads)},
                   scores[] = {sizes.batch, heads, sizes.rows, seen};
    set_dims(call, 1, 4, keys);
    set_dims(call, 2, 4, values);
    set_dims(call, 3, 4, scores);
    return true;
}

/* How many keys there are: what is told, or the past's room where that is longer, or does not grow. */
static ShapeNum group_total(ShapeCall *call) {
    const HeadsAttrs *attrs = call->attrs;
    const ShapeOperand *past = shape_ranked(call, 3);
    ShapeNum told = shape_single(shape_input(call, 6)), room = dim_at(past, 2);
    if (!shape_input(call, 3)->present) room = num_known(0);
    if (attrs->sliding) return room;
    if (told.kind == SHAPE_KNOWN && room.kind == SHAPE_KNOWN)
        return told.value > room.value ? told : room;
    return num_is(room, 0) ? told : unknown;
}

bool shape_group_attention(ShapeCall *call) {
    const HeadsAttrs *attrs = call->attrs;
    const ShapeOperand *q = shape_ranked(call, 0);
    const int64_t heads = attrs->heads, groups = attrs->kv_heads;
    if (heads < 1 || groups < 1 || heads % groups)
        return shape_invalid(call, "the number of heads is not a multiple of the number of groups");
    if (!shape_want_rank(call, 0, 3) || !shape_want_rank(call, 3, 4)) return false;
    const bool packed = !shape_input(call, 1)->present;
    const bool many = heads > INT64_MAX / 4 || groups > INT64_MAX / 4;
    if (many) return shape_invalid(call, "%lld heads", (long long)heads);
    const ShapeNum size = half_of(dim_at(q, 2), packed ? heads + 2 * groups : heads);
    const ShapeNum out[] = {dim_at(q, 0), dim_at(q, 1),
                            packed ? num_mul(size, num_known(heads)) : dim_at(q, 2)};
    const ShapeNum total = group_total(call);
    const ShapeNum kept = attrs->bit_width == 4 ? half_of(size, 2) : size;
    const ShapeNum cache[] = {dim_at(q, 0), num_known(groups), total, kept},
                   scores[] = {dim_at(q, 0), num_known(heads), dim_at(q, 1),
                               shape_single(shape_input(call, 6))};
    set_dims(call, 0, 3, out);
    set_dims(call, 1, 4, cache);
    set_dims(call, 2, 4, cache);
    set_dims(call, 3, 4, scores);
    return true;
}
