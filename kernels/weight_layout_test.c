// SPDX-License-Identifier: Apache-2.0
/* weight_layout.h: every word of packed weights against the header's formula, at sizes around those
 * of tiles, vectors and panels; packed and unpacked they are what they were; points of tiles against
 * their matrix; and layouts that a file may claim are refused unless they stay within the constant. */
#include <stdlib.h>
#include <string.h>

#include "unit_test.h"
#include "weight_layout.h"

static uint32_t state = 1;
static uint32_t below(uint32_t end) {
    state = state * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)state * end) >> 32);
}

static uint64_t count_of(const WeightLayout *l) {
    return l->groups * l->taps * l->depth * l->columns;
}

static uint64_t place(const WeightLayout *l, const uint64_t at[4]) {
    const uint64_t k = at[2];
    return at[0] * l->group + at[1] * l->tap + k / l->inner * l->outer + k % l->inner * l->row +
           at[3] * l->column;
}

/* The strides of a constant whose dimensions lie in any order: 0 is groups, 1 columns, 2 taps, 3
 * the outer and 4 the inner part of the depth. */
static void set_strides(WeightLayout *l) {
    uint64_t sizes[] = {l->groups, l->columns, l->taps, l->depth / l->inner, l->inner};
    uint64_t *strides[] = {&l->group, &l->column, &l->tap, &l->outer, &l->row};
    int order[] = {0, 1, 2, 3, 4};
    uint64_t step = 1;
    for (int i = 4; i > 0; i--) {
        const int other = (int)below((uint32_t)i + 1), kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
    for (int i = 0; i < 5; i++) {
        *strides[order[i]] = step;
        step *= sizes[order[i]];
    }
}

/* The element that a word's part i holds of group, tap, word and column; 0 where there is none. */
static double element(const WeightLayout *l, const void *data, const uint64_t at[4]) {
    if (at[2] >= l->depth || at[3] >= l->columns) return 0;
    const uint64_t i = place(l, at);
    if (l->word == WEIGHT_FLOATS) return (double)((const float *)data)[i];
    return l->word == WEIGHT_BFLOATS ? ((const uint16_t *)data)[i] : ((const int8_t *)data)[i];
}

static double packed_element(const WeightLayout *l, const char **at) {
    float real;
    int16_t wide;
    if (l->word == WEIGHT_FLOATS) {
        memcpy(&real, *at, sizeof real);
        *at += sizeof real;
        return (double)real;
    }
    if (l->word == WEIGHT_QUADS) return (int8_t) * (*at)++;
    memcpy(&wide, *at, sizeof wide);
    *at += sizeof wide;
    return l->word == WEIGHT_BFLOATS ? (uint16_t)wide : wide; /* their bits as a number */
}

/* All words in the order of the header. */
static void check_words(const WeightLayout *l, const void *data, const char *packed) {
    static const uint32_t each[] = {1, 4, 2, 1, 2};
    const uint64_t vectors = (l->columns + l->lanes - 1) / l->lanes;
    const uint64_t panels = (vectors + l->vecs - 1) / l->vecs, part = each[l->word];
    const char *at = packed;
    for (uint64_t g = 0; g < l->groups; g++)
        for (uint64_t p = 0, first = 0, width; p < panels; p++, first += width) {
            width = (vectors / panels + (p < vectors % panels)) * l->lanes;
            for (uint64_t t = 0; t < l->taps; t++)
                for (uint64_t k = 0; k < l->depth; k += part)
                    for (uint64_t n = first; n < first + width; n++)
                        for (uint64_t i = 0; i < part; i++) {
                            const uint64_t where[] = {g, t, k + i, n};
                            assert_true(packed_element(l, &at) == element(l, data, where));
                        }
        }
    assert_int_equal(at - packed, weight_layout_group(l) * l->groups);
}

static void check_sums(const WeightLayout *l, const int8_t *data, const char *packed) {
    const char *at = packed + weight_layout_sums(l);
    for (uint64_t g = 0; l->has_sums && g < l->groups; g++)
        for (uint64_t n = 0; n < l->columns; n++, at += sizeof(int32_t)) {
            int32_t sum = 0, have;
            for (uint64_t t = 0; t < l->taps; t++)
                for (uint64_t k = 0; k < l->depth; k++)
                    sum += data[place(l, (const uint64_t[]){g, t, k, n})];
            memcpy(&have, at, sizeof have);
            assert_int_equal(have, sum);
        }
}

static void run(const WeightLayout *l) {
    const uint64_t count = count_of(l), size = weight_layout_size(l);
    const size_t each = dtype_bits(weight_layout_dtype(l)) / 8;
    uint64_t told;
    assert_true(weight_layout_fits(l, weight_layout_dtype(l), count, &told));
    assert_int_equal(told, size);
    char *room = malloc((count + 3) * each),
         *data = room + below(4) * each; /* aligned as an element is */
    char *again = malloc(count * each + 1);
    char *packed = aligned_alloc(64, (size + 64) / 64 * 64);
    assert_true(room && again && packed);
    for (uint64_t i = 0; i < count; i++) {
        const float real = (float)below(1 << 20) / 512 - 1000;
        if (each == sizeof real)
            memcpy(data + i * each, &real, each);
        else if (each == 2)
            memcpy(data + i * each, &(uint16_t){(uint16_t)below(1 << 16)}, each);
        else
            data[i] = (char)below(256);
    }
    memset(packed, 0x55, size + 1);
    again[count * each] = 17;
    const unsigned parts = 1 + (unsigned)below(4);
    for (unsigned i = parts; i > 0; i--) weight_layout_pack_part(l, data, packed, i - 1, parts);
    assert_int_equal(packed[size], 0x55);
    char *whole = aligned_alloc(64, (size + 64) / 64 * 64); /* every byte is written */
    assert_true(whole != NULL);
    memset(whole, 0, size);
    weight_layout_pack(l, data, whole);
    assert_memory_equal(packed, whole, size);
    free(whole);
    check_words(l, data, packed);
    if (each == 1) check_sums(l, (const int8_t *)data, packed);
    weight_layout_unpack(l, packed, again);
    assert_memory_equal(data, again, count * each);
    assert_int_equal(again[count * each], 17);
    free(room);
    free(again);
    free(packed);
}

static WeightLayout random_layout(void) {
    static const uint32_t lanes[] = {1, 4, 8, 16};
    static const uint32_t words[] = {WEIGHT_FLOATS, WEIGHT_QUADS, WEIGHT_PAIRS, WEIGHT_BFLOATS};
    WeightLayout l = {.word = words[below(4)],
                      .lanes = lanes[below(4)],
                      .vecs = 1 + below(5),
                      .groups = 1 + below(3) * below(2),
                      .taps = 1 + below(10) * below(2),
                      .inner = 1 + below(20),
                      .columns = 1 + below(90)};
    l.depth = l.inner * (1 + below(3) * below(2));
    l.has_sums = weight_layout_dtype(&l) == DTYPE_INT8 && below(2);
    set_strides(&l);
    return l;
}

TEST(test_words) {
    for (int i = 0; i < 4000; i++) {
        const WeightLayout l = random_layout();
        run(&l);
    }
}

/* Row y of G of three taps: large, the powers of a point by its distances from the others. */
static void row_of_points(bool large, uint64_t y, double row[3]) {
    static const double rows[4][3] = {{1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}};
    static const double places[] = {0, 0.625, -0.625, 1.5, -1.5};
    double factor = 1;
    memcpy(row, rows[large ? 3 : y], 3 * sizeof *row);
    if (!large || y == 5) return;
    for (uint64_t k = 0; k < 5; k++)
        if (k != y) factor /= places[y] - places[k];
    for (uint64_t i = 0; i < 3; i++, factor *= places[y]) row[i] = factor;
}

/* Point (y, x) of G g G' for one column and depth. */
static double point_of(const WeightLayout *l, const float *data, uint64_t point,
                       const uint64_t at[2]) {
    const bool large = l->word == WEIGHT_LARGE_TILES;
    const uint64_t side = large ? 6 : 4;
    double down[3], across[3], sum = 0;
    row_of_points(large, point / side, down);
    row_of_points(large, point % side, across);
    if (at[1] >= l->columns) return 0;
    for (uint64_t i = 0; i < 3; i++)
        for (uint64_t j = 0; j < 3; j++)
            sum += down[i] * across[j] *
                   (double)data[place(l, (const uint64_t[]){0, i * 3 + j, at[0], at[1]})];
    return sum;
}

/* Of taps in a line: their polynomial at a point, by the product of its distances from the others. */
static double line_point_of(const WeightLayout *l, const float *data, uint64_t point,
                            const uint64_t at[2]) {
    static const double places[] = {0, 1, -1, 2, -2};
    double sum = 0, power = 1;
    if (at[1] >= l->columns) return 0;
    if (point == 5) return (double)data[place(l, (const uint64_t[]){0, l->taps - 1, at[0], at[1]})];
    for (uint64_t i = 0; i < l->taps; i++, power *= places[point])
        sum += power * (double)data[place(l, (const uint64_t[]){0, i, at[0], at[1]})];
    for (uint64_t k = 0; k < 5; k++)
        if (k != point) sum /= places[point] - places[k];
    return sum;
}

static void check_points(const WeightLayout *l, const float *data, const float *packed) {
    const uint64_t vectors = (l->columns + l->lanes - 1) / l->lanes;
    const uint64_t panels = (vectors + l->vecs - 1) / l->vecs;
    for (uint64_t point = 0; point < weight_points(l->word, l->taps); point++)
        for (uint64_t p = 0, first = 0, width; p < panels; p++, first += width) {
            width = (vectors / panels + (p < vectors % panels)) * l->lanes;
            for (uint64_t k = 0; k < l->depth; k++)
                for (uint64_t n = first; n < first + width; n++, packed++) {
                    const uint64_t at[] = {k, n};
                    const double expected = l->taps == 9 ? point_of(l, data, point, at)
                                                         : line_point_of(l, data, point, at);
                    const double off = (double)*packed - expected;
                    assert_true(off < 1e-3 && off > -1e-3);
                }
        }
}

/* Numbers up to 1000; nothing is written behind them. */
TEST(test_tiles) {
    for (int i = 0; i < 300; i++) {
        WeightLayout l = random_layout();
        uint64_t size;
        l.word = WEIGHT_TILES;
        l.groups = 1;
        l.taps = (const uint64_t[]){9, 3, 5, 9}[i % 4];
        if (i % 4 == 3) l.word = WEIGHT_LARGE_TILES;
        l.has_sums = 0;
        set_strides(&l);
        const uint64_t count = count_of(&l);
        assert_true(weight_layout_fits(&l, DTYPE_FLOAT, count, &size));
        assert_int_equal(size, weight_layout_size(&l));
        float *data = malloc(count * sizeof *data);
        float *packed = aligned_alloc(64, (size + 64) / 64 * 64);
        assert_true(data && packed);
        for (uint64_t k = 0; k < count; k++) data[k] = (float)below(1 << 20) / 512 - 1000;
        memset(packed, 0x55, size + 1);
        weight_layout_pack(&l, data, packed);
        assert_int_equal(((char *)packed)[size], 0x55);
        check_points(&l, data, packed);
        const uint64_t taps = l.taps;
        l.taps = 8;
        assert_false(weight_layout_fits(&l, DTYPE_FLOAT, count / taps * 8, &size));
        l.taps = taps;
        l.groups = 2;
        assert_false(weight_layout_fits(&l, DTYPE_FLOAT, count * 2, &size));
        free(data);
        free(packed);
    }
}

/* What convolutions and products ask for: elements of a column side by side, by depth or by tap. */
TEST(test_columns_side_by_side) {
    for (uint64_t taps = 1; taps <= 9; taps += 4)
        for (uint64_t depth = 1; depth < 70; depth += depth < 34 ? 5 : 13)
            for (uint64_t columns = 1; columns < 130; columns += columns < 34 ? 5 : 15) {
                WeightLayout l = {.lanes = 16,
                                  .vecs = 4,
                                  .groups = 2,
                                  .taps = taps,
                                  .depth = depth,
                                  .inner = depth,
                                  .columns = columns,
                                  .group = taps * depth * columns,
                                  .tap = 1,
                                  .row = taps,
                                  .column = taps * depth};
                run(&l);
                l.tap = depth;
                l.row = 1;
                run(&l);
                l.tap = depth * columns;
                l.row = columns;
                l.column = 1;
                run(&l);
            }
}

/* Members of a layout that fits, made into others: whatever still fits is packed and unpacked
 * within its memory, which sanitizers watch. */
TEST(test_hostile) {
    static const uint64_t numbers[] = {0,         1,          2,       3,          63,
                                       64,        65,         1 << 20, 1u << 31,   UINT32_MAX,
                                       INT64_MAX, UINT64_MAX, 1 << 16, 1ull << 32, 1ull << 62};
    unsigned fit = 0, refused = 0, tiles = 0;
    for (int i = 0; i < 60000; i++) {
        WeightLayout l = random_layout();
        if (below(4) == 0) l.word = below(2) ? WEIGHT_TILES : WEIGHT_LARGE_TILES;
        if (below(2)) l.taps = (const uint64_t[]){9, 3, 5}[below(3)];
        const uint64_t count = count_of(&l), number = numbers[below(15)];
        const uint32_t member = below(14), narrow = (uint32_t)number;
        uint64_t size, *wide[] = {&l.groups, &l.taps, &l.depth, &l.inner, &l.columns,
                                  &l.group,  &l.tap,  &l.outer, &l.row,   &l.column};
        uint32_t *words[] = {&l.word, &l.lanes, &l.vecs, &l.has_sums};
        if (member < 4)
            *words[member] = narrow;
        else
            *wide[member - 4] = number;
        const Dtype dtype = weight_layout_dtype(&l);
        if (!weight_layout_fits(&l, dtype, count, &size)) {
            refused++;
            continue;
        }
        fit++;
        const size_t bytes = (size_t)count * dtype_bits(dtype) / 8;
        void *data = calloc(1, bytes), *packed = aligned_alloc(64, (size + 64) / 64 * 64);
        assert_true(data && packed);
        weight_layout_pack(&l, data, packed);
        if (!weight_layout_loses(&l)) weight_layout_unpack(&l, packed, data);
        tiles += weight_layout_loses(&l);
        free(data);
        free(packed);
    }
    assert_true(fit > 1000 && refused > 1000 && tiles > 100);
    WeightLayout l = {.lanes = 16,
                      .vecs = 4,
                      .groups = 1,
                      .taps = 1,
                      .depth = 6,
                      .inner = 6,
                      .columns = 5,
                      .row = 5,
                      .column = 1};
    uint64_t size;
    assert_true(weight_layout_fits(&l, DTYPE_FLOAT, 30, &size));
    assert_int_equal(size, 6 * 16 * sizeof(float));
    assert_false(weight_layout_fits(&l, DTYPE_INT8, 30, &size));
    assert_false(weight_layout_fits(&l, DTYPE_FLOAT, 31, &size));
    l.row = 6;
    assert_false(weight_layout_fits(&l, DTYPE_FLOAT, 30, &size));
}
