// SPDX-License-Identifier: Apache-2.0
/* Mixtures of experts and tables of few bits under operands that no exporter writes
 * (spoilt_call_test.h). What is computed right is tools/suites/contrib_test.py's. */
#include "spoilt_call_test.h"

static void text(SpoiltCall *c, const char *name, const char *value) {
    attribute(c, name, 0);
    c->attrs[c->attr_count - 1].text = value;
}

/* The router, what is common to all, and rows of the first layer. */
static int64_t mixture(SpoiltCall *c, int64_t tokens, int64_t width, int64_t inner,
                       int64_t experts) {
    static const char *const kinds[] = {"relu", "gelu", "silu", "identity", "swiglu"};
    const uint64_t kind = draw(c, 5);
    const bool pairs = kind == 4;
    attribute(c, "k", 1 + (int64_t)draw(c, 2));
    attribute(c, "normalize_routing_weights", (int64_t)draw(c, 2));
    attribute(c, "swiglu_fusion", pairs ? 1 + (int64_t)draw(c, 2) : 0);
    text(c, "activation_type", kinds[kind]);
    if (draw(c, 2))
        SET(&c->inputs[0], FLOAT, tokens, width);
    else
        SET(&c->inputs[0], FLOAT, 1, tokens, width);
    c->outputs[0] = c->inputs[0];
    SET(&c->inputs[1], FLOAT, tokens, experts);
    return pairs ? 2 * inner : inner;
}

static void plain(SpoiltCall *c) {
    const int64_t t = 1 + (int64_t)draw(c, 3), h = 4, i = 6, e = 2 + (int64_t)draw(c, 2);
    const int64_t rows = mixture(c, t, h, i, e);
    c->op = "MoE";
    SET(&c->inputs[2], FLOAT, e, rows, h);
    if (draw(c, 2)) SET(&c->inputs[3], FLOAT, e, rows);
    SET(&c->inputs[4], FLOAT, e, h, i);
    if (draw(c, 2)) SET(&c->inputs[5], FLOAT, e, h);
    if (rows == i && draw(c, 2)) SET(&c->inputs[6], FLOAT, e, i, h);
}

/* A layer of bytes at inputs [at, at + 3), its zero points at `zeros`. */
static void layer(SpoiltCall *c, int at, int zeros, const int64_t sizes[5]) {
    const int64_t e = sizes[0], rows = sizes[1], columns = sizes[2], bits = sizes[3],
                  block = sizes[4];
    const int64_t each = 8 / bits, blocks = block ? columns / block : 1;
    SET(&c->inputs[at], UINT8, e, rows, columns / each);
    if (block)
        SET(&c->inputs[at + 1], FLOAT, e, rows, blocks);
    else
        SET(&c->inputs[at + 1], FLOAT, e, rows);
    if (draw(c, 2)) SET(&c->inputs[at + 2], FLOAT, e, rows);
    if (draw(c, 2)) return;
    if (block)
        SET(&c->inputs[zeros], UINT8, e, rows, (blocks + each - 1) / each);
    else
        SET(&c->inputs[zeros], UINT8, e, (rows + each - 1) / each);
}

static void bytes(SpoiltCall *c) {
    const int64_t t = 1 + (int64_t)draw(c, 3), h = 16, i = 32, e = 2 + (int64_t)draw(c, 2),
                  bits = INT64_C(2) << draw(c, 3), block = draw(c, 2) ? 0 : 16;
    const int64_t rows = mixture(c, t, h, i, e);
    c->op = "QMoE";
    attribute(c, "expert_weight_bits", bits);
    if (block) attribute(c, "block_size", block);
    layer(c, 2, 11, (const int64_t[]){e, rows, h, bits, block});
    layer(c, 5, 12, (const int64_t[]){e, h, i, bits, block});
    if (rows == i && draw(c, 2)) layer(c, 8, 13, (const int64_t[]){e, i, h, bits, block});
    if (draw(c, 2)) SET(&c->inputs[14], FLOAT, t, e);
}

static void table(SpoiltCall *c) {
    const bool packed = draw(c, 2);
    const int64_t rows = 2 + (int64_t)draw(c, 3), bits = packed ? INT64_C(2) << draw(c, 3) : 4,
                  each = packed ? 8 / bits : 1, width = 16 * (1 + (int64_t)draw(c, 3)),
                  n = 1 + (int64_t)draw(c, 3);
    const Dtype dtype = packed ? DTYPE_UINT8 : draw(c, 2) ? DTYPE_INT4 : DTYPE_UINT4;
    const int64_t data[] = {rows, width / each}, zeros[] = {rows, (width / 16 + each - 1) / each};
    c->op = "GatherBlockQuantized";
    attribute(c, "bits", bits);
    attribute(c, "block_size", 16);
    attribute(c, "gather_axis", 0);
    attribute(c, "quantize_axis", 1);
    set(&c->inputs[0], dtype, 2, data);
    SET(&c->inputs[1], INT64, n);
    c->inputs[1].numbers = ones;
    SET(&c->inputs[2], FLOAT, rows, width / 16);
    if (draw(c, 2)) set(&c->inputs[3], dtype, 2, zeros);
    SET(&c->outputs[0], FLOAT, n, width);
}

TEST(test_plain) {
    try_all(plain);
}
TEST(test_bytes) {
    try_all(bytes);
}
TEST(test_table) {
    try_all(table);
}
