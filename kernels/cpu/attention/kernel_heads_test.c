// SPDX-License-Identifier: Apache-2.0
/* com.microsoft's attention under operands that no exporter writes: calls that are right, and then one
 * thing of them is not: a dim, a rank, an operand that is missing, an attribute, a number. Each must
 * run to its end or fail with a message, within its tensors, whose memory ends where they do (run it
 * with the sanitizers). What is computed right is tools/suites/contrib_test.py's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernel.h"

enum { OPERANDS = 16, RESULTS = 4, RANK = 5, ATTRS = 12, ROUNDS = 4000 };

/* A tensor in the making; its data is made last. */
typedef struct Part {
    bool present;
    Dtype dtype;
    uint32_t rank;
    int64_t dims[RANK];
    const int64_t *numbers; /* NULL: floats */
    void *data;
} Part;

typedef struct Attribute {
    const char *name, *text; /* a string where there is a text */
    int64_t value;
} Attribute;

typedef struct Call {
    const char *op;
    Part inputs[OPERANDS], outputs[RESULTS];
    Attribute attrs[ATTRS];
    uint32_t attr_count;
    uint64_t state;
} Call;

static uint64_t draw(Call *c, uint64_t below) {
    c->state = c->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (c->state >> 33) % below;
}

static void set(Part *part, Dtype dtype, uint32_t rank, const int64_t *dims) {
    *part = (Part){.present = true, .dtype = dtype, .rank = rank};
    for (uint32_t i = 0; i < rank; i++) part->dims[i] = dims[i];
}
#define SET(part, dtype, ...)                                                                      \
    set(part, DTYPE_##dtype, sizeof((int64_t[]){__VA_ARGS__}) / 8, (const int64_t[]){__VA_ARGS__})

static void attribute(Call *c, const char *name, int64_t value) {
    c->attrs[c->attr_count++] = (Attribute){.name = name, .value = value};
}

/* ---- calls that are right -------------------------------------------------------------------- */

static const int64_t ones[64] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

static const int64_t twos[] = {2};

static void multi_head(Call *c) {
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
static void quantize(Call *c, int64_t bits, int64_t elements) {
    const bool each = draw(c, 2);
    attribute(c, "kv_cache_bit_width", bits);
    attribute(c, "k_quant_type", 0);
    attribute(c, "v_quant_type", 0);
    for (uint32_t i = 1; i < 3; i++)
        c->attrs[c->attr_count - i].text = each ? "PER_CHANNEL" : "PER_TENSOR";
    for (int i = 12; i < 14; i++) SET(&c->inputs[i], FLOAT, each ? elements : 1);
}

static void group(Call *c) {
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
    attribute(c, "local_window_size", (int64_t)draw(c, 3) - 1);
    attribute(c, "smooth_softmax", (int64_t)draw(c, 2));
    SET(&c->inputs[0], FLOAT, b, s, (packed ? n + 2 * k : n) * h);
    if (!packed) SET(&c->inputs[1], FLOAT, b, s, k * h);
    if (!packed) SET(&c->inputs[2], FLOAT, b, s, k * h);
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

static void rotary(Call *c) {
    const int64_t b = 1 + (int64_t)draw(c, 2), s = 1 + (int64_t)draw(c, 3), n = 2, h = 8;
    const bool partly = draw(c, 2);
    c->op = "RotaryEmbedding";
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

/* ---- what is wrong --------------------------------------------------------------------------- */

static const int64_t odd_dims[] = {0, 1, 2, 3, 5, 7, 64, INT64_C(1) << 31, INT64_C(1) << 61};
static const int64_t odd_numbers[] = {-1, 0, 1, 2, 3, 7, 1 << 30, INT32_MAX, INT32_MIN};
static const int64_t odd_attrs[] = {-1, 0, 1, 2, 3, 5, 1 << 30, INT64_MAX, INT64_MIN + 1};
#define PICK(c, list) (list)[draw(c, sizeof(list) / sizeof *(list))]

static Part *any_part(Call *c) {
    for (;;) {
        const uint64_t i = draw(c, OPERANDS + RESULTS);
        Part *part = i < OPERANDS ? &c->inputs[i] : &c->outputs[i - OPERANDS];
        if (part->present) return part;
    }
}

static void spoil(Call *c, int64_t *number) {
    Part *part = any_part(c);
    switch (draw(c, 6)) {
    case 0:
    case 1:
        if (part->rank) part->dims[draw(c, part->rank)] = PICK(c, odd_dims);
        break;
    case 2:
        part->rank = (uint32_t)draw(c, RANK + 1);
        for (uint32_t i = 0; i < part->rank; i++)
            if (!part->dims[i]) part->dims[i] = 1;
        break;
    case 3: /* what a definition requires is there, or no kernel is called */
        if (part != &c->inputs[0] && part->numbers == NULL && part->dtype == DTYPE_FLOAT &&
            part < c->outputs && strcmp(c->op, "RotaryEmbedding") != 0)
            part->present = false;
        break;
    case 4: c->attrs[draw(c, c->attr_count)].value = PICK(c, odd_attrs); break;
    default:
        *number = PICK(c, odd_numbers);
        if (part->numbers) part->numbers = number;
    }
}

/* ---- running --------------------------------------------------------------------------------- */

/* False where the tensor is too large to be made. */
static bool fill(Call *c, Part *part, KernelTensor *t) {
    enum { MOST = 1 << 12 };
    const size_t element = kernel_element_size(part->dtype);
    *t = (KernelTensor){
        .present = true, .dtype = part->dtype, .rank = part->rank, .dims = part->dims, .count = 1};
    bool none = false;
    for (uint32_t i = 0; i < part->rank; i++) none = none || part->dims[i] == 0;
    for (uint32_t i = 0; i < part->rank && !none; i++) {
        if (part->dims[i] > MOST || t->count * (uint64_t)part->dims[i] > MOST) return false;
        t->count *= (uint64_t)part->dims[i];
    }
    if (none) t->count = 0;
    t->data = part->data = malloc(t->count * element + !t->count);
    assert_non_null(t->data);
    for (uint64_t i = 0; i < t->count; i++) {
        const int64_t number = part->numbers ? part->numbers[part->numbers == ones ? i % 16 : i % 1]
                                             : (int64_t)draw(c, 5);
        kernel_set_real(t, i, (double)number);
    }
    return true;
}

static void fill_attrs(const Call *c, const KernelRow *row, void *attrs, Arena *arena) {
    for (uint32_t i = 0; i < c->attr_count; i++) {
        const char *text = c->attrs[i].text;
        PlainAttr attr = {.kind = PLAIN_INT, .v.i = c->attrs[i].value};
        if (text)
            attr = (PlainAttr){.kind = PLAIN_TEXT, .v.text = {true, (uint32_t)strlen(text), text}};
        const AttrField *field =
            attr_layout_find(row->layout, c->attrs[i].name, strlen(c->attrs[i].name));
        assert_non_null(field);
        attr_layout_fill(attrs, field, &attr, arena);
    }
}

/* True where it ran to its end. */
static bool run(Call *c) {
    Err err = {0};
    MemTrap trap;
    Arena arena;
    size_t count;
    KernelTensor inputs[OPERANDS] = {0}, outputs[RESULTS] = {0};
    volatile bool made = true, good = false;
    arena_init(&arena, &trap);
    arena.budget = 1 << 26;
    const KernelRow *row = kernel_find("com.microsoft", c->op, 1, &count);
    assert_non_null(row);
    for (int i = 0; i < OPERANDS; i++)
        if (c->inputs[i].present && !fill(c, &c->inputs[i], &inputs[i])) made = false;
    for (int i = 0; i < RESULTS; i++)
        if (c->outputs[i].present && !fill(c, &c->outputs[i], &outputs[i])) made = false;
    if (made && setjmp(trap.env) == 0) {
        void *attrs = attr_layout_new(row->layout, &arena);
        fill_attrs(c, row, attrs, &arena);
        KernelCall call = {.row = row,
                           .attrs = attrs,
                           .inputs = inputs,
                           .outputs = outputs,
                           .input_count = OPERANDS,
                           .output_count = RESULTS,
                           .opset = 1,
                           .scratch = &arena,
                           .err = &err};
        good = row->run(&call);
        assert_true(good || err.what[0]);
    }
    for (int i = 0; i < OPERANDS; i++) free(c->inputs[i].data);
    for (int i = 0; i < RESULTS; i++) free(c->outputs[i].data);
    arena_free(&arena);
    return good;
}

static void try_all(void (*make)(Call *)) {
    unsigned ran = 0;
    for (uint64_t seed = 0; seed < ROUNDS; seed++) {
        Call c = {.state = seed * 2 + 1};
        int64_t number = 0;
        draw(&c, 2);
        make(&c);
        if (seed % 8) spoil(&c, &number);
        const bool good = run(&c);
        if (seed % 8 == 0 && !good) fail_msg("seed %d: what is right fails", (int)seed);
        ran += good;
    }
    assert_in_range(ran, ROUNDS / 4, ROUNDS * 3 / 4);
}

static void test_multi_head(void **state) {
    (void)state;
    try_all(multi_head);
}
static void test_group(void **state) {
    (void)state;
    try_all(group);
}
static void test_rotary(void **state) {
    (void)state;
    try_all(rotary);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_multi_head),
        cmocka_unit_test(test_group),
        cmocka_unit_test(test_rotary),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
