// SPDX-License-Identifier: Apache-2.0
/* Whole layers: RNN, GRU and LSTM, attention in its variants, Fourier transforms; and the
 * predictors of ai.onnx.ml. */
#include "head_axes.h"
#include "shape_calc.h"

static const ShapeNum unknown = {.kind = SHAPE_UNKNOWN};

static ShapeNum dim_of(const ShapeOperand *operand, uint32_t i) {
    return operand && i < operand->rank ? operand->dims[i] : unknown;
}

/* ---- recurrent ------------------------------------------------------------------------------- */

/* layout 0: Y (seq, directions, batch, hidden), state (directions, batch, hidden)
 * layout 1: Y (batch, seq, directions, hidden), state (batch, directions, hidden)
 * `hidden_axis` of R has the hidden units. */
static bool recurrent(ShapeCall *call, uint32_t hidden_axis) {
    const RecurrentAttrs *attrs = call->attrs;
    const ShapeOperand *x = shape_ranked(call, 0), *r = shape_ranked(call, 2);
    if (!shape_want_rank(call, 0, 3) || !shape_want_rank(call, 2, 3)) return false;
    if (attrs->direction < 0) return shape_invalid(call, "direction is unknown");
    bool batch_first = attrs->layout != 0;
    ShapeNum directions = num_known(attrs->direction == 2 ? 2 : 1), hidden = dim_of(r, hidden_axis);
    ShapeNum batch = dim_of(x, batch_first ? 0 : 1);
    if (attrs->hidden_size != ATTR_ABSENT) hidden = num_known(attrs->hidden_size);
    ShapeNum *y = shape_output(call, 0, 4);
    y[0] = dim_of(x, 0);
    y[1] = batch_first ? dim_of(x, 1) : directions;
    y[2] = batch_first ? directions : batch;
    y[3] = hidden;
    for (uint32_t i = 1; i < 3; i++) {
        ShapeNum *state = shape_output(call, i, 3);
        state[0] = batch_first ? batch : directions;
        state[1] = batch_first ? directions : batch;
        state[2] = hidden;
    }
    return true;
}

bool shape_recurrent(ShapeCall *call) {
    return recurrent(call, 2);
}

/* W and R lie the other way round. */
bool shape_recurrent_bytes(ShapeCall *call) {
    return recurrent(call, 1);
}

/* ---- attention ------------------------------------------------------------------------------- */

/* Sizes of one of Q, K, V as (batch, heads, sequence, size per head). */
typedef struct Heads {
    ShapeNum batch, heads, length, size;
} Heads;

static bool split_heads(ShapeCall *call, const ShapeOperand *x, int64_t heads, Heads *result) {
    *result = (Heads){unknown, unknown, unknown, unknown};
    if (!x) return true;
    if (x->rank == 4) {
        *result = (Heads){x->dims[0], x->dims[1], x->dims[2], x->dims[3]};
        return true;
    }
    if (x->rank != 3) return shape_invalid(call, "attention of rank %u", x->rank);
    if (heads == ATTR_ABSENT || heads < 1)
        return shape_invalid(call, "rank 3 needs the number of heads");
    ShapeNum width = x->dims[2];
    if (width.kind == SHAPE_KNOWN && width.value % heads)
        return shape_invalid(call, "%lld is not a multiple of %lld heads", (long long)width.value,
                             (long long)heads);
    *result = (Heads){x->dims[0], num_known(heads), x->dims[1], num_floor_div(width, heads)};
    return true;
}

static void set_four(ShapeCall *call, uint32_t index, Heads heads) {
    ShapeNum *dims = shape_output(call, index, 4);
    dims[0] = heads.batch;
    dims[1] = heads.heads;
    dims[2] = heads.length;
    dims[3] = heads.size;
}

/* Keys and values are of the same heads and positions, and keys as long as queries. */
static bool heads_fit(ShapeCall *call, Heads *q, Heads *k, Heads *v) {
    return shape_unify(call, &k->batch, q->batch) && shape_unify(call, &v->batch, k->batch) &&
           shape_unify(call, &v->heads, k->heads) && shape_unify(call, &v->length, k->length) &&
           shape_unify(call, &k->size, q->size);
}

/* The past, inputs 4 and 5: both or none, of the dims of keys and values but for its length. */
static bool past_fits(ShapeCall *call, Heads k, Heads v) {
    ShapeNum length = unknown;
    if (shape_input(call, 4)->present != shape_input(call, 5)->present)
        return shape_invalid(call, "past_key and past_value require each other");
    for (uint32_t i = 0; i < 2; i++) {
        const ShapeOperand *past = shape_ranked(call, 4 + i);
        Heads now = i ? v : k;
        if (!past) continue;
        if (!shape_unify(call, &now.batch, past->dims[0]) ||
            !shape_unify(call, &now.heads, past->dims[1]) ||
            !shape_unify(call, &length, past->dims[2]) ||
            !shape_unify(call, &now.size, past->dims[3]))
            return false;
    }
    return true;
}

/* present_key, present_value, and what query times key gives. */
static void attention_extras(ShapeCall *call, Heads q, Heads k, Heads v) {
    const ShapeOperand *past = shape_input(call, 4);
    ShapeNum before = past->present ? dim_of(shape_ranked(call, 4), 2) : num_known(0);
    ShapeNum total = num_add(before, k.length);
    set_four(call, 1, (Heads){k.batch, k.heads, total, k.size});
    set_four(call, 2, (Heads){v.batch, v.heads, total, v.size});
    set_four(call, 3, (Heads){q.batch, q.heads, q.length, total});
}

bool shape_attention(ShapeCall *call) {
    const AttentionAttrs *attrs = call->attrs;
    const ShapeOperand *query = shape_ranked(call, 0);
    Heads q, k, v;
    if (!shape_want_rank(call, 4, 4) || !shape_want_rank(call, 5, 4)) return false; /* the past */
    if (!split_heads(call, query, attrs->q_heads, &q) ||
        !split_heads(call, shape_ranked(call, 1), attrs->kv_heads, &k) ||
        !split_heads(call, shape_ranked(call, 2), attrs->kv_heads, &v))
        return false;
    if (call->strict && (!heads_fit(call, &q, &k, &v) || !past_fits(call, k, v))) return false;
    attention_extras(call, q, k, v);
    if (!query) return true;
    if (query->rank == 4) {
        set_four(call, 0, (Heads){q.batch, q.heads, q.length, v.size});
        return true;
    }
    ShapeNum *dims = shape_output(call, 0, 3);
    dims[0] = q.batch;
    dims[1] = q.length;
    dims[2] = num_mul(q.heads, v.size);
    return true;
}

/* ---- demi.fused's attention ------------------------------------------------------------------ */

/* Dims of an operand by what they are; of one without a rank none is known. */
static bool head_dims(ShapeCall *call, uint32_t index, const AttrInts *given, ShapeNum dims[4]) {
    const ShapeOperand *x = shape_ranked(call, index);
    HeadAxes axes;
    if (x && !head_axes_find(given, x->rank, &axes))
        return shape_invalid(call, "input %u has different axes", index);
    for (uint32_t i = 0; i < HEAD_AXES; i++)
        dims[i] = !x ? unknown : axes.axis[i] < 0 ? num_known(1) : x->dims[axes.axis[i]];
    return true;
}

/* Scores broadcast to a mask, but for their keys. */
static bool broadcast_mask(ShapeCall *call, uint32_t index, ShapeNum dims[4]) {
    const ShapeOperand *x = shape_ranked(call, index);
    bool open = !x && shape_input(call, index)->present;
    if (x && x->rank > HEAD_AXES) return shape_invalid(call, "a mask of rank %u", x->rank);
    for (uint32_t i = HEAD_BATCH; i <= HEAD_ROWS; i++) {
        uint32_t missing = x ? HEAD_AXES - x->rank : 0;
        ShapeNum other = open ? unknown : !x || i < missing ? num_known(1) : x->dims[i - missing];
        if (!shape_broadcast_dim(call, &dims[i], other)) return false;
    }
    return true;
}

bool shape_fused_attention(ShapeCall *call) {
    const FusedAttentionAttrs *attrs = call->attrs;
    ShapeNum q[4], k[4], v[4];
    if (!head_dims(call, 0, &attrs->q_axes, q) || !head_dims(call, 1, &attrs->k_axes, k) ||
        !head_dims(call, 2, &attrs->v_axes, v) ||
        !shape_broadcast_dim(call, &q[HEAD_BATCH], k[HEAD_BATCH]) ||
        !shape_broadcast_dim(call, &q[HEAD_BATCH], v[HEAD_BATCH]) || !broadcast_mask(call, 3, q) ||
        !broadcast_mask(call, 4, q))
        return false;
    HeadAxes axes;
    const uint32_t rank = head_axes_rank(&attrs->y_axes);
    if (rank == 0 || !head_axes_find(&attrs->y_axes, rank, &axes))
        return shape_invalid(call, "y_axes is not a permutation of the axes");
    q[HEAD_SIZE] = v[HEAD_SIZE];
    ShapeNum *dims = shape_output(call, 0, rank);
    for (uint32_t i = 0; i < HEAD_AXES; i++)
        if (axes.axis[i] >= 0) dims[axes.axis[i]] = q[i];
    return true;
}

/* Q, K, V of rank 4, and nothing but Y */
bool shape_flex_attention(ShapeCall *call) {
    const ShapeOperand *q = shape_ranked(call, 0), *v = shape_ranked(call, 2);
    for (uint32_t i = 0; i < 3; i++)
        if (!shape_want_rank(call, i, 4)) return false;
    set_four(call, 0, (Heads){dim_of(q, 0), dim_of(q, 1), dim_of(q, 2), dim_of(v, 3)});
    return true;
}

/* Packed (B, T, heads * size) in and out; the state is (B, kv heads, d_k, d_v). */
bool shape_linear_attention(ShapeCall *call) {
    const LinearAttentionAttrs *attrs = call->attrs;
    Heads q, k, v;
    for (uint32_t i = 0; i < 3; i++)
        if (!shape_want_rank(call, i, 3)) return false;
    if (!split_heads(call, shape_ranked(call, 0), attrs->q_heads, &q) ||
        !split_heads(call, shape_ranked(call, 1), attrs->kv_heads, &k) ||
        !split_heads(call, shape_ranked(call, 2), attrs->kv_heads, &v))
        return false;
    ShapeNum *dims = shape_output(call, 0, 3);
    dims[0] = q.batch;
    dims[1] = q.length;
    dims[2] = num_mul(q.heads, v.size);
    set_four(call, 1, (Heads){k.batch, k.heads, k.size, v.size});
    return true;
}

/* ---- Fourier transforms ---------------------------------------------------------------------- */

/* length / 2 + 1 */
static ShapeNum one_sided(ShapeNum length) {
    if (length.kind != SHAPE_KNOWN) return unknown;
    return num_add(num_floor_div(length, 2), num_known(1));
}

/* The transformed axis becomes dft_length long (one-sided: about half), the last one 2: real and
 * imaginary parts. A one-sided inverse gives real numbers. */
static bool dft_along(ShapeCall *call, const ShapeOperand *x, int64_t along) {
    const SignalAttrs *attrs = call->attrs;
    const ShapeOperand *given = shape_input(call, 1);
    bool half = attrs->onesided == 1, inverse = half && attrs->inverse == 1;
    uint32_t axis;
    if (!shape_axis(call, along, x->rank, &axis)) return false;
    if (axis + 1 == x->rank) return shape_invalid(call, "the last axis holds complex numbers");
    ShapeNum length = given->present ? shape_single(given) : x->dims[axis];
    if (inverse && !given->present && length.kind == SHAPE_KNOWN)
        length = num_mul(num_sub(length, num_known(1)), num_known(2));
    else if (inverse && !given->present)
        length = unknown;
    ShapeNum *dims = shape_output(call, 0, x->rank);
    for (uint32_t i = 0; i < x->rank; i++) dims[i] = x->dims[i];
    dims[axis] = half && !inverse ? one_sided(length) : length;
    dims[x->rank - 1] = num_known(inverse ? 1 : 2);
    return true;
}

/* What a one-sided inverse reads is complex. */
static bool complex_fits(ShapeCall *call, const ShapeOperand *x) {
    const SignalAttrs *attrs = call->attrs;
    ShapeNum parts = num_known(2);
    if (!call->strict || attrs->onesided != 1 || attrs->inverse != 1 || !x->rank) return true;
    return shape_unify(call, &parts, x->dims[x->rank - 1]);
}

bool shape_dft(ShapeCall *call) {
    const SignalAttrs *attrs = call->attrs;
    const ShapeOperand *x = shape_ranked(call, 0), *input = shape_input(call, 2);
    ShapeNum axis = input->present ? shape_single(input) : num_known(attrs->axis);
    if (call->strict && !shape_want_rank(call, 2, 0)) return false;
    if (!x) return true;
    if (!complex_fits(call, x)) return false;
    if (axis.kind == SHAPE_KNOWN) return dft_along(call, x, axis.value);
    /* whichever axis it is: without a length and with both sides it keeps its size */
    bool half = attrs->onesided == 1, keeps = !half && !shape_input(call, 1)->present;
    ShapeNum *dims = shape_output(call, 0, x->rank);
    for (uint32_t i = 0; keeps && i < x->rank; i++) dims[i] = x->dims[i];
    if (x->rank) dims[x->rank - 1] = num_known(half && attrs->inverse == 1 ? 1 : 2);
    return true;
}

/* DFT-17: the axis is an attribute. */
bool shape_dft_17(ShapeCall *call) {
    const SignalAttrs *attrs = call->attrs;
    const ShapeOperand *x = shape_ranked(call, 0);
    return !x || (complex_fits(call, x) && dft_along(call, x, attrs->axis));
}

/* (batch, frames, bins, 2). A signal is (batch, samples, 1 or 2); real ones of rank 2 are in use,
 * and ONNX Runtime takes them. */
bool shape_stft(ShapeCall *call) {
    const SignalAttrs *attrs = call->attrs;
    const ShapeOperand *signal = shape_ranked(call, 0), *frame = shape_input(call, 3);
    const ShapeOperand *window = shape_input(call, 2);
    ShapeNum step = shape_single(shape_input(call, 1)), total = dim_of(signal, 1), length = total;
    if (!(signal && signal->rank == 2) && !shape_want_rank(call, 0, 3)) return false;
    if (frame->present)
        length = shape_single(frame);
    else if (window->present)
        length = shape_length(window);
    ShapeNum *dims = shape_output(call, 0, 4);
    dims[0] = dim_of(signal, 0);
    dims[2] = attrs->onesided != 0 ? one_sided(length) : length;
    dims[3] = num_known(2);
    ShapeNum room = num_sub(total, length);
    if (room.kind != SHAPE_KNOWN || step.kind != SHAPE_KNOWN) return true;
    if (room.value < 0 || step.value < 1)
        return shape_invalid(call, "frames of %lld every %lld in %lld samples",
                             (long long)length.value, (long long)step.value,
                             (long long)total.value);
    dims[1] = num_add(num_floor_div(room, step.value), num_known(1));
    return true;
}

/* ---- training -------------------------------------------------------------------------------- */

/* Inputs R, T, then groups of k tensors: X, gradients, and one or two of state. Out come X and the
 * state. */
bool shape_optimizer(ShapeCall *call) {
    uint32_t groups = call->row->variant == SHAPE_THREE_GROUPS ? 3 : 2,
             k = call->output_count / groups;
    for (uint32_t i = 0; k && i < call->output_count; i++) {
        uint32_t group = i / k, from = group ? group + 1 : 0;
        shape_same_as(call, i, shape_input(call, 2 + from * k + i % k));
    }
    return true;
}

/* ---- ai.onnx.ml ------------------------------------------------------------------------------ */

/* Rows of X: its first dim, or one row where X is a vector. */
static ShapeNum rows_of(const ShapeOperand *x) {
    if (!x) return unknown;
    return x->rank == 1 ? num_known(1) : dim_of(x, 0);
}

/* Labels (N), scores (N, classes): how many scores a binary classifier gives is not said. */
bool shape_classifier(ShapeCall *call) {
    const ShapeOperand *x = shape_ranked(call, 0);
    if (!x) return true;
    if (x->rank != 1 && x->rank != 2) return shape_invalid(call, "rank %u", x->rank);
    shape_output(call, 0, 1)[0] = rows_of(x);
    shape_output(call, 1, 2)[0] = rows_of(x);
    return true;
}

/* (N, targets) */
static bool scores(ShapeCall *call, int64_t targets) {
    const ShapeOperand *x = shape_ranked(call, 0);
    if (!x) return true;
    if (x->rank != 1 && x->rank != 2) return shape_invalid(call, "rank %u", x->rank);
    ShapeNum *dims = shape_output(call, 0, 2);
    dims[0] = rows_of(x);
    if (targets != ATTR_ABSENT) dims[1] = num_known(targets);
    return true;
}

bool shape_linear_regressor(ShapeCall *call) {
    const MlLinearAttrs *attrs = call->attrs;
    return scores(call, attrs->targets);
}

bool shape_svm_regressor(ShapeCall *call) {
    return scores(call, ATTR_ABSENT);
}

bool shape_tree_regressor(ShapeCall *call) {
    const TreeAttrs *attrs = call->attrs;
    return scores(call, attrs->targets);
}

/* X with an axis of the categories added */
bool shape_one_hot_encoder(ShapeCall *call) {
    const FeatureAttrs *attrs = call->attrs;
    const ShapeOperand *x = shape_ranked(call, 0);
    if (!x) return true;
    ShapeNum *dims = shape_output(call, 0, (uint64_t)x->rank + 1);
    if (!dims) return false;
    for (uint32_t i = 0; i < x->rank; i++) dims[i] = x->dims[i];
    if (attrs->ints.present)
        dims[x->rank] = num_known(attrs->ints.count);
    else if (attrs->texts.present)
        dims[x->rank] = num_known(attrs->texts.count);
    return true;
}

/* Picks from the last axis; a vector gives one row. */
bool shape_array_feature(ShapeCall *call) {
    const ShapeOperand *x = shape_ranked(call, 0), *y = shape_ranked(call, 1);
    if (!x) return true;
    if (x->rank == 0) return shape_invalid(call, "a scalar has no features");
    uint32_t rank = x->rank == 1 ? 2 : x->rank;
    ShapeNum *dims = shape_output(call, 0, rank);
    for (uint32_t i = 0; i + 1 < rank; i++) dims[i] = x->rank == 1 ? num_known(1) : x->dims[i];
    if (y) dims[rank - 1] = num_product(y->dims, 0, y->rank);
    return true;
}

/* (1, entries of the map) */
bool shape_cast_map(ShapeCall *call) {
    ShapeNum *dims = shape_output(call, 0, 2);
    dims[0] = num_known(1);
    return true;
}
