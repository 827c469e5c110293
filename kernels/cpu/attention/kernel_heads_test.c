// SPDX-License-Identifier: Apache-2.0
/* com.microsoft's attention under operands that no exporter writes (spoilt_call_test.h). What is
 * computed right is tools/suites/contrib_test.py's. */
#include "spoilt_call_test.h"

/* ---- calls that are right -------------------------------------------------------------------- */

static const int64_t twos[] = {2};

static void multi_head(SpoiltCall *c) {
    const int64_t b = 1 + (int64_t)draw(c, 2), s = 1 + (int64_t)draw(c, 3), n = 2, h = 4,
                  p = (int64_t)draw(c, 3), keys = s + p;
    const bool shared = p && draw(c, 2);
    c->op = "MultiHeadAttention";
    attribute(c, "num_heads", n);
    attribute(c, "unidirectional", (int64_t)draw(c, 2));
    SET(&c->inputs[0], FLOAT, b, s, n * h);
    switch (draw(c, 3)) {
    case 0:
        SET(&c->inputs[1], FLOAT, b, s, n * h);
        SET(&c->inputs[2], FLOAT, b, s, n * h);
        break;
    case 1: SET(&c->inputs[1], FLOAT, b, s, n, 2, h); break;
    default: SET(&c->inputs[0], FLOAT, b, s, n, 3, h);
    }
    if (draw(c, 2)) SET(&c->inputs[3], FLOAT, 3 * n * h);
    if (draw(c, 2)) {
        switch (draw(c, 4)) {
        case 0: SET(&c->inputs[4], INT32, b, keys); break;
        case 1: SET(&c->inputs[4], INT32, b, s, keys); break;
        case 2: SET(&c->inputs[4], INT32, b, 1, keys, keys); break;
        default: SET(&c->inputs[4], INT32, b);
        }
        c->inputs[4].numbers = ones;
    }
    if (draw(c, 2)) SET(&c->inputs[5], FLOAT, draw(c, 2) ? b : 1, draw(c, 2) ? n : 1, s, keys);
    if (p) SET(&c->inputs[6], FLOAT, b, n, shared ? keys : p, h);
    if (p) SET(&c->inputs[7], FLOAT, b, n, shared ? keys : p, h);
    if (shared) {
        SET(&c->inputs[8], INT32, 1);
        c->inputs[8].numbers = p == 1 ? ones : twos;
    }
    SET(&c->outputs[0], FLOAT, b, s, n * h);
    if (draw(c, 2)) SET(&c->outputs[1], FLOAT, b, n, keys, h);
    if (draw(c, 2)) SET(&c->outputs[2], FLOAT, b, n, keys, h);
    if (draw(c, 2)) SET(&c->outputs[3], FLOAT, b, n, s, keys);
}

/* Caches of few bits, with a scale for all, or for each element of all heads. */
static void quantize(SpoiltCall *c, int64_t bits, int64_t elements) {
    const bool each = draw(c, 2);
    attribute(c, "kv_cache_bit_width", bits);
    attribute(c, "k_quant_type", 0);
    attribute(c, "v_quant_type", 0);
    for (uint32_t i = 1; i < 3; i++)
        c->attrs[c->attr_count - i].text = each ? "PER_CHANNEL" : "PER_TENSOR";
    for (int i = 12; i < 14; i++) SET(&c->inputs[i], FLOAT, each ? elements : 1);
}

static void group(SpoiltCall *c) {
    static const int64_t totals[] = {1, 2, 3, 4, 5, 6},
                         lengths[][2] = {{0, 0}, {1, 1}, {2, 2}, {3, 3}, {4, 4}, {5, 5}};
    const int64_t b = 1 + (int64_t)draw(c, 2), s = 1 + (int64_t)draw(c, 2), k = 2, n = 4, h = 4,
                  p = draw(c, 2) ? 0 : 1 + (int64_t)draw(c, 3), total = s + p,
                  room = total + (int64_t)draw(c, 2);
    const bool packed = draw(c, 2), kept = p || draw(c, 2), turn = draw(c, 2);
    c->op = "GroupQueryAttention";
    attribute(c, "num_heads", n);
    attribute(c, "kv_num_heads", k);
    attribute(c, "do_rotary", turn);
    attribute(c, "rotary_interleaved", (int64_t)draw(c, 2));
    const bool lent = kept && !packed && !draw(c, 4); /* another layer's caches */
    const int64_t window = (int64_t)draw(c, 3) - 1;
    attribute(c, "local_window_size", window);
    if (kept && window > 0 && window <= room)
        attribute(c, "sliding_window_cache", lent ? 0 : (int64_t)draw(c, 2));
    attribute(c, "smooth_softmax", (int64_t)draw(c, 2));
    SET(&c->inputs[0], FLOAT, b, s, (packed ? n + 2 * k : n) * h);
    if (!packed) SET(&c->inputs[1], FLOAT, b, lent ? 0 : s, k * h);
    if (!packed) SET(&c->inputs[2], FLOAT, b, lent ? 0 : s, k * h);
    const uint64_t bits = kept ? draw(c, 4) : 0; /* of caches: floats, 4 or 8 */
    if (bits > 1) quantize(c, bits == 2 ? 4 : 8, k * h);
    const Dtype cache = bits == 2 ? DTYPE_UINT8 : bits == 3 ? DTYPE_INT8 : DTYPE_FLOAT;
    const int64_t size = bits == 2 ? h / 2 : h, dims[] = {b, k, kept ? room : total, size};
    for (int i = 3; i < 5 && kept; i++) set(&c->inputs[i], cache, 4, dims);
    SET(&c->inputs[5], INT32, b);
    c->inputs[5].numbers = lengths[total - 1];
    set(&c->inputs[6], DTYPE_INT32, 0, NULL);
    c->inputs[6].numbers = &totals[total - 1];
    if (turn) SET(&c->inputs[7], FLOAT, 8, h / 2);
    if (turn) SET(&c->inputs[8], FLOAT, 8, h / 2);
    if (turn && draw(c, 2)) {
        SET(&c->inputs[9], INT64, b, s);
        c->inputs[9].numbers = ones;
    }
    if (draw(c, 2)) SET(&c->inputs[10], FLOAT, draw(c, 2) ? b : 1, draw(c, 2) ? n : 1, s, total);
    if (draw(c, 2)) SET(&c->inputs[11], FLOAT, n);
    const bool norms = draw(c, 2);
    if (norms) SET(&c->inputs[14], FLOAT, h);
    if (norms) SET(&c->inputs[15], FLOAT, h);
    SET(&c->outputs[0], FLOAT, b, s, n * h);
    for (int i = 1; i < 3; i++) set(&c->outputs[i], cache, 4, dims);
    if (!draw(c, 3)) return;
    attribute(c, "qk_output", 1 + (int64_t)draw(c, 2));
    SET(&c->outputs[3], FLOAT, b, n, s, total);
}

static void rotary(SpoiltCall *c) {
    const int64_t b = 1 + (int64_t)draw(c, 2), s = 1 + (int64_t)draw(c, 3), n = 2, h = 8;
    const bool partly = draw(c, 2);
    c->op = "RotaryEmbedding";
    c->all_required = true;
    if (partly) attribute(c, "num_heads", n);
    if (partly) attribute(c, "rotary_embedding_dim", h / 2);
    attribute(c, "interleaved", (int64_t)draw(c, 2));
    if (draw(c, 2))
        SET(&c->inputs[0], FLOAT, b, s, n * h);
    else
        SET(&c->inputs[0], FLOAT, b, n, s, h);
    c->outputs[0] = c->inputs[0];
    if (draw(c, 2))
        SET(&c->inputs[1], INT64, b, s);
    else
        SET(&c->inputs[1], INT64, 1);
    c->inputs[1].numbers = ones;
    SET(&c->inputs[2], FLOAT, 6, partly ? h / 4 : h / 2);
    SET(&c->inputs[3], FLOAT, 6, partly ? h / 4 : h / 2);
}

TEST(test_multi_head) {
    try_all(multi_head);
}
TEST(test_group) {
    try_all(group);
}
TEST(test_rotary) {
    try_all(rotary);
}
