// SPDX-License-Identifier: Apache-2.0
/* Packing weights and unpacking them; see weight_layout.h. Where the elements of a column lie side
 * by side, in any order of taps and depth, a few columns are turned at a time, so that every line of
 * memory is read once and written once. */
#include "weight_layout.h"

#include <string.h>

#include "checked.h"

enum {
    ALIGN = 64,
    LANES_MOST = 64,
    TILE = 16, /* columns that are turned together */
    TAPS = 3,  /* of square tiles, along an axis; and their points */
    SIDE = 4,
    LINE = 6, /* points of a line, and of large squares along an axis */
};

static uint64_t div_up(uint64_t a, uint64_t b) {
    return a / b + (a % b != 0);
}
static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* ---- sizes ----------------------------------------------------------------------------------- */

enum { WORD = 4 }; /* bytes */

/* Elements that a word holds. */
static uint32_t word_elements(uint32_t word) {
    static const uint32_t elements[WEIGHT_WORD_COUNT] = {
        [WEIGHT_FLOATS] = 1, [WEIGHT_QUADS] = 4,   [WEIGHT_PAIRS] = 2,
        [WEIGHT_TILES] = 1,  [WEIGHT_BFLOATS] = 2, [WEIGHT_LARGE_TILES] = 1};
    return elements[word];
}

/* Rows of each word in a panel. */
static uint64_t taps_of(const WeightLayout *l) {
    return weight_layout_loses(l) ? 1 : l->taps;
}

static uint64_t groups_of(const WeightLayout *l) {
    return weight_layout_loses(l) ? weight_points(l->word, l->taps) : l->groups;
}

static uint64_t words_of(const WeightLayout *l) {
    return div_up(l->depth, word_elements(l->word));
}

uint64_t weight_layout_group(const WeightLayout *l) {
    return div_up(l->columns, l->lanes) * l->lanes * taps_of(l) * words_of(l) * WORD;
}

uint64_t weight_layout_sums(const WeightLayout *l) {
    return div_up(weight_layout_group(l) * groups_of(l), ALIGN) * ALIGN;
}

uint64_t weight_layout_size(const WeightLayout *l) {
    if (!l->has_sums) return weight_layout_group(l) * groups_of(l);
    return weight_layout_sums(l) + l->groups * l->columns * sizeof(int32_t);
}

/* The product of a list; false where it overflows. */
static bool product(const uint64_t *factors, int count, uint64_t *result) {
    *result = 1;
    for (int i = 0; i < count; i++)
        if (!factors[i] || !checked_mul(*result, factors[i], result)) return false;
    return true;
}

/* The place of the last element. */
static bool last_element(const WeightLayout *l, uint64_t *last) {
    const uint64_t steps[][2] = {{l->groups - 1, l->group},
                                 {l->taps - 1, l->tap},
                                 {l->depth / l->inner - 1, l->outer},
                                 {l->inner - 1, l->row},
                                 {l->columns - 1, l->column}};
    *last = 0;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        uint64_t part;
        if (!checked_mul(steps[i][0], steps[i][1], &part) || !checked_add(*last, part, last))
            return false;
    }
    return true;
}

bool weight_layout_fits(const WeightLayout *l, Dtype dtype, uint64_t count, uint64_t *size) {
    const uint64_t elements[] = {l->groups, l->taps, l->depth, l->columns};
    uint64_t there, last;
    if (l->word >= WEIGHT_WORD_COUNT || l->has_sums > 1 || dtype != weight_layout_dtype(l) ||
        !l->lanes || l->lanes > LANES_MOST || !l->vecs || !l->inner ||
        !product(elements, 4, &there) || there != count || l->depth % l->inner ||
        (l->has_sums && weight_layout_dtype(l) != DTYPE_INT8) ||
        (weight_layout_loses(l) && (!weight_points(l->word, l->taps) || l->groups != 1)) ||
        !last_element(l, &last) || last >= count)
        return false;
    /* whole vectors and words are at most so many times as much */
    uint64_t bytes;
    if (!checked_mul(count, (uint64_t)LANES_MOST * 8 * sizeof(int32_t), &bytes) ||
        bytes > INT64_MAX)
        return false;
    *size = weight_layout_size(l);
    return true;
}

bool weight_layout_equals(const WeightLayout *a, const WeightLayout *b) {
    return memcmp(a, b, sizeof *a) == 0;
}

/* ---- panels ---------------------------------------------------------------------------------- */

/* One panel of one group. */
typedef struct Panel {
    const WeightLayout *layout;
    uint64_t words, width, columns; /* of a row of the panel, and those that are the constant's */
    uint64_t from;                  /* the constant's element that it begins with */
    uint64_t at;                    /* bytes behind the packed ones' beginning */
    uint64_t number;                /* it is among all panels of all groups */
} Panel;

typedef void PanelVisitor(const Panel *panel, void *data);

static void each_panel(const WeightLayout *l, PanelVisitor *visit, void *data) {
    const uint64_t vectors = div_up(l->columns, l->lanes), count = div_up(vectors, l->vecs);
    if (!count) return;
    const uint64_t base = vectors / count, rest = vectors % count;
    Panel panel = {.layout = l, .words = words_of(l)};
    for (uint64_t g = 0; g < l->groups; g++)
        for (uint64_t p = 0; p < count; p++) {
            const uint64_t first = (base * p + least(p, rest)) * l->lanes;
            panel.width = (base + (p < rest)) * l->lanes;
            panel.columns = least(panel.width, l->columns - first);
            panel.from = g * l->group + first * l->column;
            visit(&panel, data);
            panel.at += panel.width * taps_of(l) * panel.words * WORD;
            panel.number++;
        }
}

static uint64_t depth_at(const WeightLayout *l, uint64_t k) {
    return k / l->inner * l->outer + k % l->inner * l->row;
}

/* ---- floats ---------------------------------------------------------------------------------- */

/* How the elements of a column lie side by side, if they do: of index j, either tap j % taps of
 * depth j / taps, or depth j % depth of tap j / depth. */
typedef enum ColumnOrder { COLUMN_APART, COLUMN_BY_DEPTH, COLUMN_BY_TAP } ColumnOrder;

static ColumnOrder order_of(const WeightLayout *l) {
    if (l->inner != l->depth) return COLUMN_APART;
    if ((l->tap == 1 || l->taps == 1) && l->row == l->taps) return COLUMN_BY_DEPTH;
    return l->row == 1 && (l->tap == l->depth || l->taps == 1) ? COLUMN_BY_TAP : COLUMN_APART;
}

/* The row of a panel that holds element j. */
static uint64_t row_of(const Panel *p, ColumnOrder order, uint64_t j) {
    const uint64_t taps = p->layout->taps;
    return order == COLUMN_BY_DEPTH ? j % taps * p->words + j / taps : j;
}

typedef float Four __attribute__((vector_size(16)));

/* Four elements of four columns: vectors are known to every processor's compiler. */
static void turn_four(const float *from, uint64_t column, float *to) {
    Four r[4], half[4], turned[4];
    for (uint64_t i = 0; i < 4; i++) memcpy(&r[i], from + i * column, sizeof r[i]);
    for (int i = 0; i < 2; i++) {
        half[i] = __builtin_shufflevector(r[2 * i], r[2 * i + 1], 0, 4, 1, 5);
        half[i + 2] = __builtin_shufflevector(r[2 * i], r[2 * i + 1], 2, 6, 3, 7);
    }
    for (int i = 0; i < 2; i++) {
        turned[2 * i] = __builtin_shufflevector(half[2 * i], half[2 * i + 1], 0, 1, 4, 5);
        turned[2 * i + 1] = __builtin_shufflevector(half[2 * i], half[2 * i + 1], 2, 3, 6, 7);
    }
    for (int i = 0; i < 4; i++) memcpy(to + i * TILE, &turned[i], sizeof turned[i]);
}

/* A few columns, from n on. */
static void turn_columns(const Panel *p, ColumnOrder order, uint64_t n, const float *from,
                         float *to) {
    const uint64_t count = p->layout->taps * p->words, column = p->layout->column;
    const uint64_t across = least(TILE, p->columns - n);
    float tile[TILE][TILE];
    for (uint64_t j = 0; j < count; j += TILE) {
        const uint64_t down = least(TILE, count - j);
        if (across == TILE && down == TILE) {
            for (uint64_t c = 0; c < TILE; c += 4)
                for (uint64_t i = 0; i < TILE; i += 4)
                    turn_four(from + (n + c) * column + j + i, column, &tile[i][c]);
            for (uint64_t i = 0; i < TILE; i++)
                memcpy(to + row_of(p, order, j + i) * p->width + n, tile[i], sizeof tile[i]);
            continue;
        }
        for (uint64_t i = 0; i < down; i++) {
            float *row = to + row_of(p, order, j + i) * p->width + n;
            for (uint64_t c = 0; c < across; c++) row[c] = from[(n + c) * column + j + i];
        }
    }
}

/* Words [first, end) of each tap; all of them where columns are turned. */
static void pack_floats(const Panel *p, uint64_t first, uint64_t end, const float *from,
                        float *to) {
    const WeightLayout *l = p->layout;
    const ColumnOrder order = order_of(l);
    const bool turns = l->column != 1 && order != COLUMN_APART;
    for (uint64_t n = 0; turns && n < p->columns; n += TILE) turn_columns(p, order, n, from, to);
    for (uint64_t t = 0; t < l->taps; t++)
        for (uint64_t k = first; k < end; k++) {
            const float *row = from + t * l->tap + depth_at(l, k);
            float *at = to + (t * p->words + k) * p->width;
            memset(at + p->columns, 0, (p->width - p->columns) * sizeof *at);
            if (turns) continue;
            if (l->column == 1) memcpy(at, row, p->columns * sizeof *at);
            for (uint64_t n = 0; l->column != 1 && n < p->columns; n++) at[n] = row[n * l->column];
        }
}

static void unpack_floats(const Panel *p, const float *from, float *to) {
    const WeightLayout *l = p->layout;
    for (uint64_t t = 0; t < l->taps; t++)
        for (uint64_t k = 0; k < p->words; k++, from += p->width) {
            float *row = to + t * l->tap + depth_at(l, k);
            for (uint64_t n = 0; n < p->columns; n++) row[n * l->column] = from[n];
        }
}

/* ---- tiles ----------------------------------------------------------------------------------- */

typedef float Lanes[TILE];

/* G times three taps, which are `step` apart. */
static void turn_taps(const Lanes *g, uint32_t step, Lanes u[SIDE]) {
    const float *a = g[0], *b = g[step], *c = g[2 * step];
    for (uint32_t n = 0; n < TILE; n++) {
        u[0][n] = a[n];
        u[1][n] = 0.5F * (a[n] + b[n] + c[n]);
        u[2][n] = 0.5F * (a[n] - b[n] + c[n]);
        u[3][n] = c[n];
    }
}

static void turn_square(const Lanes g[TAPS * TAPS], Lanes points[SIDE * SIDE]) {
    Lanes columns[TAPS][SIDE], row[TAPS];
    for (uint32_t x = 0; x < TAPS; x++) turn_taps(g + x, TAPS, columns[x]);
    for (uint32_t y = 0; y < SIDE; y++) {
        for (uint32_t x = 0; x < TAPS; x++) memcpy(row[x], columns[x][y], sizeof row[x]);
        turn_taps(row, 1, points + (size_t)y * SIDE);
    }
}

/* G times three taps, at 0, a, -a, b, -b and infinity; in double, as these are rounded once. */
typedef double WideLanes[TILE];
static void turn_large_taps(const WideLanes *g, uint32_t step, WideLanes u[LINE]) {
    static const double at[] = {WEIGHT_TILE_A, WEIGHT_TILE_B};
    const double squares[] = {at[0] * at[0], at[1] * at[1]};
    for (uint32_t n = 0; n < TILE; n++) u[0][n] = g[0][n] / (squares[0] * squares[1]);
    for (uint32_t i = 0; i < 2; i++) {
        const double factor = 1 / (2 * squares[i] * (squares[i] - squares[1 - i]));
        for (uint32_t n = 0; n < TILE; n++) {
            const double even = g[0][n] + squares[i] * g[2 * step][n], odd = at[i] * g[step][n];
            u[1 + 2 * i][n] = (even + odd) * factor;
            u[2 + 2 * i][n] = (even - odd) * factor;
        }
    }
    memcpy(u[LINE - 1], g[2 * step], sizeof *u);
}

static void turn_large_square(const Lanes g[TAPS * TAPS], Lanes points[LINE * LINE]) {
    WideLanes wide[TAPS * TAPS], columns[TAPS][LINE], row[TAPS], turned[LINE];
    for (uint32_t t = 0; t < TAPS * TAPS; t++)
        for (uint32_t n = 0; n < TILE; n++) wide[t][n] = (double)g[t][n];
    for (uint32_t x = 0; x < TAPS; x++) turn_large_taps(wide + x, TAPS, columns[x]);
    for (uint32_t y = 0; y < LINE; y++) {
        for (uint32_t x = 0; x < TAPS; x++) memcpy(row[x], columns[x][y], sizeof row[x]);
        turn_large_taps(row, 1, turned);
        for (uint32_t x = 0; x < LINE; x++)
            for (uint32_t n = 0; n < TILE; n++) points[y * LINE + x][n] = (float)turned[x][n];
    }
}

/* G times taps in a line: their polynomial at 0, 1, -1, 2, -2 and infinity, by Lagrange's factors. */
static void turn_line(const Lanes *g, uint64_t taps, Lanes points[LINE]) {
    for (uint32_t n = 0; n < TILE; n++) {
        float even = g[0][n], odd = 0, even2 = g[0][n], odd2 = 0, power = 2;
        for (uint64_t t = 1; t < taps; t++, power *= 2) {
            *(t % 2 ? &odd : &even) += g[t][n];
            *(t % 2 ? &odd2 : &even2) += g[t][n] * power;
        }
        points[0][n] = g[0][n] / 4;
        points[1][n] = (even + odd) / -6;
        points[2][n] = (even - odd) / -6;
        points[3][n] = (even2 + odd2) / 24;
        points[4][n] = (even2 - odd2) / 24;
        points[5][n] = g[taps - 1][n];
    }
}

/* The points of some columns at one depth: all in one reading. */
static void turn_points(const WeightLayout *l, const float *from, uint64_t count,
                        Lanes points[WEIGHT_POINTS]) {
    Lanes g[TAPS * TAPS] = {{0}};
    for (uint64_t n = 0; n < count; n++)
        for (uint32_t t = 0; t < l->taps; t++) g[t][n] = from[n * l->column + t * l->tap];
    if (l->word == WEIGHT_LARGE_TILES)
        turn_large_square(g, points);
    else if (l->taps == TAPS * TAPS)
        turn_square(g, points);
    else
        turn_line(g, l->taps, points);
}

/* The panel of every point; columns behind the last become 0. */
static void pack_points(const Panel *p, const float *from, float *to) {
    const WeightLayout *l = p->layout;
    const uint64_t point = weight_layout_group(l) / sizeof *to;
    for (uint64_t n = 0; n < p->width; n += TILE) {
        const uint64_t width = least(TILE, p->width - n);
        const uint64_t count = n < p->columns ? least(width, p->columns - n) : 0;
        for (uint64_t k = 0; k < p->words; k++) {
            Lanes points[WEIGHT_POINTS];
            turn_points(l, count ? from + depth_at(l, k) + n * l->column : from, count, points);
            for (uint32_t i = 0; i < weight_points(l->word, l->taps); i++)
                memcpy(to + i * point + k * p->width + n, points[i], width * sizeof *to);
        }
    }
}

/* ---- bytes ----------------------------------------------------------------------------------- */

/* Where the elements of word k lie behind those of a tap; how many there are. */
static uint64_t word_places(const Panel *p, uint64_t k, uint64_t *places) {
    const uint64_t each = word_elements(p->layout->word);
    const uint64_t count = least(each, p->layout->depth - k * each);
    for (uint64_t i = 0; i < count; i++) places[i] = depth_at(p->layout, k * each + i);
    return count;
}

/* The words of some columns that begin with `from`, their elements at `places` behind it. Inline, for
 * columns that lie side by side. */
static inline void put_words(const Panel *p, const int8_t *from, const uint64_t *places,
                             uint64_t column, uint32_t *words) {
    const bool quads = p->layout->word == WEIGHT_QUADS;
    for (uint64_t n = 0; quads && n < TILE; n++) {
        const int8_t *e = from + n * column;
        words[n] = (uint32_t)(uint8_t)e[places[0]] | (uint32_t)(uint8_t)e[places[1]] << 8 |
                   (uint32_t)(uint8_t)e[places[2]] << 16 | (uint32_t)(uint8_t)e[places[3]] << 24;
    }
    for (uint64_t n = 0; !quads && n < TILE; n++) {
        const int8_t *e = from + n * column;
        const int16_t low = e[places[0]], high = e[places[1]];
        words[n] = (uint32_t)(uint16_t)low | (uint32_t)(uint16_t)high << 16;
    }
}

/* Where whole words of many columns are. */
static void pack_tile(const Panel *p, const int8_t *from, const uint64_t *places, char *to) {
    const uint64_t column = p->layout->column;
    uint32_t words[TILE];
    if (column == 1)
        put_words(p, from, places, 1, words);
    else
        put_words(p, from, places, column, words);
    memcpy(to, words, sizeof words);
}

/* One word of each of some columns, of which elements may miss. */
static void pack_rest(const Panel *p, const int8_t *from, uint64_t k, uint64_t columns, char *to) {
    const WeightLayout *l = p->layout;
    const uint64_t element = l->word == WEIGHT_QUADS ? 1 : 2, word = WORD;
    uint64_t places[4];
    const uint64_t count = word_places(p, k, places);
    memset(to, 0, columns * word);
    for (uint64_t n = 0; n < columns; n++)
        for (uint64_t i = 0; i < count; i++) {
            const int16_t wide = from[places[i] + n * l->column];
            const char narrow = (char)wide;
            memcpy(to + n * word + i * element, element == 1 ? (const void *)&narrow : &wide,
                   element);
        }
}

static void pack_bytes(const Panel *p, const int8_t *from, char *to) {
    const WeightLayout *l = p->layout;
    const uint64_t word = WORD, row = p->width * word;
    const bool whole = l->word == WEIGHT_QUADS || l->word == WEIGHT_PAIRS;
    for (uint64_t n = 0; n < p->columns; n += TILE) {
        const uint64_t across = least(TILE, p->columns - n);
        for (uint64_t k = 0; k < p->words; k++) {
            uint64_t places[4];
            const bool full = word_places(p, k, places) == word_elements(l->word);
            for (uint64_t t = 0; t < l->taps; t++) {
                const int8_t *at = from + n * l->column + t * l->tap;
                char *into = to + (t * p->words + k) * row + n * word;
                if (whole && full && across == TILE)
                    pack_tile(p, at, places, into);
                else
                    pack_rest(p, at, k, across, into);
            }
        }
    }
    for (uint64_t i = 0; i < l->taps * p->words; i++)
        memset(to + i * row + p->columns * word, 0, (p->width - p->columns) * word);
}

static void unpack_bytes(const Panel *p, const char *from, int8_t *to) {
    const WeightLayout *l = p->layout;
    const uint64_t element = l->word == WEIGHT_QUADS ? 1 : 2, word = WORD;
    uint64_t places[4];
    for (uint64_t t = 0; t < l->taps; t++)
        for (uint64_t k = 0; k < p->words; k++, from += p->width * word) {
            const uint64_t count = word_places(p, k, places);
            for (uint64_t i = 0; i < count; i++) {
                int8_t *row = to + t * l->tap + places[i];
                const char *at = from + i * element; /* of int16, the lower half */
                for (uint64_t n = 0; n < p->columns; n++) row[n * l->column] = (int8_t)at[n * word];
            }
        }
}

/* Sums of columns, which wrap around as those of products do. */
static void sum_columns(const WeightLayout *l, const int8_t *from, uint32_t *sums) {
    const bool side_by_side = order_of(l) != COLUMN_APART && l->column != 1;
    memset(sums, 0, l->groups * l->columns * sizeof *sums);
    for (uint64_t g = 0; side_by_side && g < l->groups; g++)
        for (uint64_t n = 0; n < l->columns; n++) {
            const int8_t *column = from + g * l->group + n * l->column;
            uint32_t sum = 0;
            for (uint64_t i = 0; i < l->taps * l->depth; i++) {
                const int32_t weight = column[i];
                sum += (uint32_t)weight;
            }
            sums[g * l->columns + n] = sum;
        }
    for (uint64_t g = 0; !side_by_side && g < l->groups; g++)
        for (uint64_t t = 0; t < l->taps; t++)
            for (uint64_t k = 0; k < l->depth; k++) {
                const int8_t *row = from + g * l->group + t * l->tap + depth_at(l, k);
                for (uint64_t n = 0; n < l->columns; n++) {
                    const int32_t weight = row[n * l->column];
                    sums[g * l->columns + n] += (uint32_t)weight;
                }
            }
}

/* ---- pairs of bfloat16 ----------------------------------------------------------------------- */

/* Inline, for columns that lie side by side. */
static inline void put_pairs(const uint16_t *low, const uint16_t *high, uint64_t column,
                             uint64_t count, uint32_t *words) {
    for (uint64_t n = 0; n < count; n++)
        words[n] = (uint32_t)low[n * column] | (high ? (uint32_t)high[n * column] << 16 : 0);
}

static void pack_bfloats(const Panel *p, const uint16_t *from, uint32_t *to) {
    const WeightLayout *l = p->layout;
    for (uint64_t n = 0; n < p->columns; n += TILE) {
        const uint64_t across = least(TILE, p->columns - n);
        for (uint64_t k = 0; k < p->words; k++) {
            uint64_t places[4];
            const bool whole = word_places(p, k, places) == 2;
            for (uint64_t t = 0; t < l->taps; t++) {
                const uint16_t *at = from + n * l->column + t * l->tap;
                const uint16_t *low = at + places[0], *high = whole ? at + places[1] : NULL;
                uint32_t *words = to + (t * p->words + k) * p->width + n;
                if (l->column == 1)
                    put_pairs(low, high, 1, across, words);
                else
                    put_pairs(low, high, l->column, across, words);
            }
        }
    }
    for (uint64_t i = 0; i < l->taps * p->words; i++)
        memset(to + i * p->width + p->columns, 0, (p->width - p->columns) * WORD);
}

static void unpack_bfloats(const Panel *p, const uint32_t *from, uint16_t *to) {
    const WeightLayout *l = p->layout;
    uint64_t places[4];
    for (uint64_t t = 0; t < l->taps; t++)
        for (uint64_t k = 0; k < p->words; k++, from += p->width) {
            const uint64_t count = word_places(p, k, places);
            for (uint64_t i = 0; i < count; i++) {
                uint16_t *row = to + t * l->tap + places[i];
                for (uint64_t n = 0; n < p->columns; n++)
                    row[n * l->column] = (uint16_t)(from[n] >> 16 * i);
            }
        }
}

/* ---- all ------------------------------------------------------------------------------------- */

typedef struct Job {
    const void *from;
    void *to;
    uint64_t part, parts; /* of packing: of the panels */
    uint64_t first, end;  /* words of each tap, of floats */
} Job;

static void pack_panel(const Panel *p, void *data) {
    const Job *job = data;
    if (p->number % job->parts != job->part) return;
    char *to = (char *)job->to + p->at;
    if (weight_layout_loses(p->layout))
        pack_points(p, (const float *)job->from + p->from, (float *)(void *)to);
    else if (p->layout->word == WEIGHT_FLOATS)
        pack_floats(p, job->first, job->end, (const float *)job->from + p->from,
                    (float *)(void *)to);
    else if (p->layout->word == WEIGHT_BFLOATS)
        pack_bfloats(p, (const uint16_t *)job->from + p->from, (uint32_t *)(void *)to);
    else
        pack_bytes(p, (const int8_t *)job->from + p->from, to);
}

static void unpack_panel(const Panel *p, void *data) {
    const Job *job = data;
    const char *from = (const char *)job->from + p->at;
    if (p->layout->word == WEIGHT_FLOATS)
        unpack_floats(p, (const float *)(const void *)from, (float *)job->to + p->from);
    else if (p->layout->word == WEIGHT_BFLOATS)
        unpack_bfloats(p, (const uint32_t *)(const void *)from, (uint16_t *)job->to + p->from);
    else
        unpack_bytes(p, from, (int8_t *)job->to + p->from);
}

/* Whole words of bytes or bfloat16 that lie side by side, which move as floats do: a panel's
 * beginning is counted in what is moved, so elements must be whole words apart, from one on that a float
 * may lie at. */
static bool as_floats(const WeightLayout *l, const void *from, WeightLayout *floats) {
    const uint64_t each = word_elements(l->word);
    const uint64_t steps = l->depth | l->column | l->group | (l->taps > 1 ? l->tap : 0);
    if ((l->word != WEIGHT_QUADS && l->word != WEIGHT_BFLOATS) || l->inner != l->depth ||
        l->row != 1 || steps % each || (uintptr_t)from % sizeof(float))
        return false;
    *floats = *l;
    floats->word = WEIGHT_FLOATS;
    floats->depth = floats->inner = l->depth / each;
    floats->tap = l->tap / each;
    floats->column = l->column / each;
    floats->group = l->group / each;
    return true;
}

/* Rows whose elements lie side by side are read one behind the other, some of them for all panels: panel by
 * panel, each would be touched again and again, a little at a time. */
static void pack_elements(const WeightLayout *l, const void *from, void *to, unsigned part,
                          unsigned parts) {
    enum { ROWS = 32 };
    const bool by_rows = l->word == WEIGHT_FLOATS && l->column == 1;
    const uint64_t words = words_of(l);
    Job job = {.from = from, .to = to, .part = part, .parts = parts, .end = words};
    if (!by_rows) {
        each_panel(l, pack_panel, &job);
        return;
    }
    job.part = 0;
    job.parts = 1;
    for (uint64_t i = part; i * ROWS < words; i += parts) {
        job.first = i * ROWS;
        job.end = least(words, job.first + ROWS);
        each_panel(l, pack_panel, &job);
    }
}

void weight_layout_pack(const WeightLayout *l, const void *from, void *to) {
    weight_layout_pack_part(l, from, to, 0, 1);
}

void weight_layout_pack_part(const WeightLayout *l, const void *from, void *to, unsigned part,
                             unsigned parts) {
    WeightLayout floats;
    pack_elements(as_floats(l, from, &floats) ? &floats : l, from, to, part, parts);
    if (!l->has_sums || part != parts - 1) return;
    const uint64_t end = weight_layout_group(l) * l->groups, sums = weight_layout_sums(l);
    memset((char *)to + end, 0, sums - end);
    sum_columns(l, from, (uint32_t *)(void *)((char *)to + sums));
}

void weight_layout_unpack(const WeightLayout *l, const void *from, void *to) {
    Job job = {.from = from, .to = to};
    each_panel(l, unpack_panel, &job);
}
