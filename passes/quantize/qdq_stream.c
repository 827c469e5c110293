// SPDX-License-Identifier: Apache-2.0
/* See qdq_stream.h. Scales of blocks are found tile by tile: a run of them in their own order, whose weights
 * lie in one piece or, where rows are long, in several of these beside each other. A table keeps those of the
 * tiles that were made last: numbers that are read in pieces find each scale once, and scales that are read
 * after them none. Who makes a tile says so first, and others wait for it; where several threads read
 * numbers of the same long rows, each makes the next tile that nobody is at. */
#include "qdq_stream.h"

#include <pthread.h>
#include <string.h>

#include "dequantized.h"
#include "workers.h"

enum {
    TILE = 1 << 18,   /* weights of a tile: 1 MiB */
    NARROWEST = 64,   /* columns of a tile of long rows */
    TABLE = 16 << 20, /* bytes of scales that are kept */
    LEAST_SLOTS = 4 * WORKERS_STREAMING
};

/* What a thread works with; taken out while it does. */
typedef struct Window {
    struct Window *next;
    float *items, *scales;
    uint8_t *zeros;
} Window;

typedef struct Slot {
    uint64_t tile; /* 1 + its number among all streams' tiles; 0: none */
    bool made;     /* else somebody is at it */
} Slot;

struct QdqStreams {
    Arena *arena;
    pthread_mutex_t lock;
    pthread_cond_t news; /* a tile was made, or a window is free */
    Window windows[WORKERS_STREAMING], *free;
    uint64_t tiles, items, scales; /* of all streams; the most that a tile has */
    uint64_t zeros;                /* as scales where some have zero points, else 0 */
    Slot *slots;
    size_t slot_count;
    float *slot_scales;  /* [slot_count][scales] */
    uint8_t *slot_zeros; /* [slot_count][zeros] */
};

struct QdqStream {
    QdqStreams *all;
    const Tensor *tensor;
    QdqWeights layout;
    const DequantizedMaker *grid;
    const float *scales;    /* [axis], by channels; NULL: by blocks */
    uint64_t count, blocks; /* weights; places along the axis, by blocks */
    uint64_t first_tile;    /* before it are those of other streams */
    uint64_t units;         /* of a tile: places of `outer`, or of blocks */
    uint64_t columns,
        across; /* of a tile of long rows, and how many are beside each other; else 0, 1 */
};

/* ---- making them ----------------------------------------------------------------------------- */

static void streams_free(void *data) {
    QdqStreams *all = data;
    pthread_cond_destroy(&all->news);
    pthread_mutex_destroy(&all->lock);
}

QdqStreams *qdq_streams_new(Arena *arena) {
    QdqStreams *all = ARENA_NEW(arena, QdqStreams);
    all->arena = arena;
    all->items = TILE / 4;
    pthread_mutex_init(&all->lock, NULL);
    pthread_cond_init(&all->news, NULL);
    arena_defer(arena, streams_free, all);
    return all;
}

bool qdq_can_stream(const QdqWeights *layout) {
    return !layout->block || layout->outer == 1 || layout->inner == 1;
}

static uint64_t at_least_one(uint64_t count) {
    return count ? count : 1;
}

static uint64_t less(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* How the weights of a tile lie. */
typedef struct Tile {
    uint64_t element, rows, columns; /* the rows are an inner axis' length apart */
    uint64_t scale, scale_count;     /* its run of scales */
    QdqWeights box;                  /* but for the items */
} Tile;

static Tile tile_of(const QdqStream *s, uint64_t number) {
    const QdqWeights *w = &s->layout;
    const uint64_t first = number / s->across * s->units, column = number % s->across * s->columns;
    Tile tile = {.box = *w, .rows = 1};
    if (w->inner == 1) {
        tile.box.outer = less(s->units, w->outer - first);
        tile.element = first * w->axis;
        tile.scale = first * s->blocks;
    } else {
        tile.box.axis = less(s->units * w->block, w->axis - first * w->block);
        if (s->columns) tile.box.inner = less(s->columns, w->inner - column);
        if (s->columns) tile.rows = tile.box.axis;
        tile.element = first * w->block * w->inner + column;
        tile.scale = first * w->inner + column;
    }
    tile.columns = tile.box.outer * tile.box.axis * tile.box.inner / tile.rows;
    tile.scale_count = qdq_scale_count(&tile.box);
    return tile;
}

/* Cuts the weights into tiles. */
static void cut(QdqStream *s) {
    const QdqWeights *w = &s->layout;
    const uint64_t unit = w->inner == 1 ? w->axis : less(w->block, w->axis) * w->inner;
    const uint64_t all = w->inner == 1 ? w->outer : s->blocks;
    s->units = at_least_one(TILE / unit);
    s->across = 1;
    if (w->inner != 1 && unit > TILE) {
        const uint64_t columns = TILE / less(w->block, w->axis) / NARROWEST * NARROWEST;
        s->columns = columns ? columns : NARROWEST;
        s->across = (w->inner + s->columns - 1) / s->columns;
    }
    s->first_tile = s->all->tiles;
    s->all->tiles += (all + s->units - 1) / s->units * s->across;
    const Tile tile = tile_of(s, 0); /* none is larger */
    const uint64_t items = tile.rows * tile.columns;
    if (items > s->all->items) s->all->items = items;
    if (tile.scale_count > s->all->scales) s->all->scales = tile.scale_count;
    if (quantized_has_zeros(w->dtype) || s->all->zeros) s->all->zeros = s->all->scales;
}

QdqStream *qdq_streams_add(QdqStreams *all, const QdqNumbers *numbers) {
    QdqStream *s = ARENA_NEW(all->arena, QdqStream);
    *s = (QdqStream){
        .all = all, .tensor = numbers->tensor, .layout = numbers->layout, .grid = numbers->grid};
    s->count = s->layout.outer * s->layout.axis * s->layout.inner;
    if (!s->layout.block) {
        s->scales = numbers->scales;
        return s;
    }
    s->blocks = (s->layout.axis + s->layout.block - 1) / s->layout.block;
    cut(s);
    return s;
}

void qdq_streams_begin(QdqStreams *all) {
    for (size_t i = 0; i < WORKERS_STREAMING; i++) {
        Window *window = &all->windows[i];
        window->items = arena_alloc_raw(all->arena, all->items * sizeof(float));
        window->scales = arena_alloc_raw(all->arena, all->scales * sizeof(float));
        window->zeros = arena_alloc_raw(all->arena, all->zeros);
        window->next = all->free;
        all->free = window;
    }
    if (!all->tiles) return;
    const uint64_t slot = all->scales * sizeof(float) + all->zeros, room = TABLE / slot;
    all->slot_count = (size_t)less(room > LEAST_SLOTS ? room : LEAST_SLOTS, all->tiles);
    all->slots = ARENA_ARRAY(all->arena, Slot, all->slot_count);
    all->slot_scales = arena_alloc_raw(all->arena, all->slot_count * all->scales * sizeof(float));
    all->slot_zeros = arena_alloc_raw(all->arena, all->slot_count * all->zeros);
}

/* ---- windows and tiles ----------------------------------------------------------------------- */

static Window *take_window(QdqStreams *all) {
    pthread_mutex_lock(&all->lock);
    while (!all->free) pthread_cond_wait(&all->news, &all->lock);
    Window *window = all->free;
    all->free = window->next;
    pthread_mutex_unlock(&all->lock);
    return window;
}

static void give_window(QdqStreams *all, Window *window) {
    pthread_mutex_lock(&all->lock);
    window->next = all->free;
    all->free = window;
    pthread_cond_broadcast(&all->news);
    pthread_mutex_unlock(&all->lock);
}

static bool read_floats(const QdqStream *s, uint64_t first, uint64_t count, float *items,
                        Err *err) {
    if (!tensor_read_floats(s->tensor, first, count, items, err)) return false;
    return qdq_weights_finite(items, count) ||
           err_set(err, ERR_ENV, "weights changed while they were read");
}

/* Rows [from, from + count) of the tile's weights, one after the other. */
static bool read_rows(const QdqStream *s, const Tile *tile, uint64_t from, uint64_t count,
                      float *items, Err *err) {
    for (uint64_t r = 0; r < count; r++)
        if (!read_floats(s, tile->element + (from + r) * s->layout.inner, tile->columns,
                         items + r * tile->columns, err))
            return false;
    return true;
}

typedef enum Claim { CLAIM_MINE, CLAIM_MADE, CLAIM_OTHERS } Claim;

/* Between a window and a slot of the table. */
static void copy_scales(const QdqStreams *all, float *to, uint8_t *zeros_to, const float *from,
                        const uint8_t *zeros_from) {
    memcpy(to, from, all->scales * sizeof(float));
    memcpy(zeros_to, zeros_from, all->zeros);
}

/* The tile is to be made by who asks, was made, and is copied into the window, or others are at it or at what
 * has its place: for these it is waited if `wait`. */
static Claim claim_tile(const QdqStream *s, uint64_t number, Window *window, bool wait) {
    QdqStreams *all = s->all;
    const uint64_t tile = s->first_tile + number + 1;
    const size_t at = (size_t)(tile % all->slot_count);
    Slot *slot = &all->slots[at];
    Claim claim = CLAIM_OTHERS;
    pthread_mutex_lock(&all->lock);
    while (wait && slot->tile && !slot->made) pthread_cond_wait(&all->news, &all->lock);
    if (slot->made && slot->tile == tile) {
        claim = CLAIM_MADE;
        copy_scales(all, window->scales, window->zeros, all->slot_scales + at * all->scales,
                    all->slot_zeros + at * all->zeros);
    } else if (slot->made || !slot->tile) {
        claim = CLAIM_MINE;
        *slot = (Slot){.tile = tile};
    }
    pthread_mutex_unlock(&all->lock);
    return claim;
}

/* What was claimed is in the window, or could not be made. */
static void settle_tile(const QdqStream *s, uint64_t number, const Window *window, bool made) {
    QdqStreams *all = s->all;
    const size_t at = (size_t)((s->first_tile + number + 1) % all->slot_count);
    pthread_mutex_lock(&all->lock);
    if (made)
        copy_scales(all, all->slot_scales + at * all->scales, all->slot_zeros + at * all->zeros,
                    window->scales, window->zeros);
    else
        all->slots[at].tile = 0;
    all->slots[at].made = made;
    pthread_cond_broadcast(&all->news);
    pthread_mutex_unlock(&all->lock);
}

/* Reads the claimed tile's weights into the window, and finds its scales. */
static bool make_tile(const QdqStream *s, uint64_t number, Window *window, Err *err) {
    Tile tile = tile_of(s, number);
    const bool made = read_rows(s, &tile, 0, tile.rows, window->items, err);
    tile.box.items = window->items;
    if (made && s->grid)
        dequantized_scales(s->grid, &s->layout, tile.scale, tile.scale_count, window->scales,
                           window->zeros);
    else if (made)
        qdq_find_block_scales(&tile.box, window->scales, window->zeros);
    settle_tile(s, number, window, made);
    return made;
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* Weights that lie one after the other, and where the first scale and zero point at hand belong. */
typedef struct Run {
    const float *items, *scales;
    const uint8_t *zeros;
    uint64_t element, count, scale;
} Run;

/* How many weights from `element` on have scales that follow each other, or share one; which is the first. */
static uint64_t row_at(const QdqStream *s, uint64_t element, uint64_t *scale, uint64_t *step) {
    const QdqWeights *w = &s->layout;
    const uint64_t row = element / w->inner, column = element % w->inner, a = row % w->axis;
    const uint64_t block = w->block ? w->block : 1;
    *scale = (row / w->axis * s->blocks + a / block) * w->inner + column;
    *step = w->inner != 1;
    if (w->block) return w->inner != 1 ? w->inner - column : less(block - a % block, w->axis - a);
    *step = w->inner == 1;
    *scale = a;
    return w->inner == 1 ? w->axis - a : w->inner - column;
}

/* As elements `first` and further of `out`. */
static void store_run(const QdqStream *s, Run run, uint64_t first, void *out) {
    QdqRow row = {0};
    qdq_set_limits(&s->layout, &row);
    for (uint64_t at = 0; at < run.count; at += row.count) {
        uint64_t scale;
        row.count = less(row_at(s, run.element + at, &scale, &row.step), run.count - at);
        row.items = run.items + at;
        row.scales = run.scales + (scale - run.scale);
        row.zeros = quantized_has_zeros(s->layout.dtype) ? run.zeros + (scale - run.scale) : NULL;
        qdq_store_row(&row, s->layout.dtype, first + at, out);
    }
}

/* Numbers to be made: of the elements [first, first + count). */
typedef struct Range {
    uint64_t first, count;
    void *out;
} Range;

static bool store_channels(const QdqStream *s, const Range *range, Window *window, Err *err) {
    for (uint64_t at = 0, now; at < range->count; at += now) {
        now = less(range->count - at, s->all->items);
        if (!read_floats(s, range->first + at, now, window->items, err)) return false;
        const Run run = {.items = window->items,
                         .scales = s->scales,
                         .element = range->first + at,
                         .count = now};
        store_run(s, run, at, range->out);
    }
    return true;
}

/* Those of the tile, whose scales are in the window, and also its weights if `read`. */
static bool store_tile(const QdqStream *s, uint64_t number, const Range *range, Window *window,
                       bool read, Err *err) {
    const Tile tile = tile_of(s, number);
    const uint64_t end = range->first + range->count;
    for (uint64_t r = 0; r < tile.rows; r++) {
        const uint64_t row = tile.element + r * s->layout.inner;
        const uint64_t from = row > range->first ? row : range->first;
        const uint64_t to = less(row + tile.columns, end);
        if (from >= to) continue;
        float *items = window->items + r * tile.columns + (from - row);
        if (!read && !read_floats(s, from, to - from, items, err)) return false;
        const Run run = {.items = items,
                         .scales = window->scales,
                         .zeros = window->zeros,
                         .element = from,
                         .count = to - from,
                         .scale = tile.scale};
        store_run(s, run, from - range->first, range->out);
    }
    return true;
}

/* The tiles that the range meets: [*first, *end). */
static void tiles_of(const QdqStream *s, const Range *range, uint64_t *first, uint64_t *end) {
    const QdqWeights *w = &s->layout;
    const uint64_t unit = s->units * (w->inner == 1 ? w->axis : w->block * w->inner);
    const uint64_t last = range->first + range->count - 1;
    *first = range->first / unit * s->across;
    *end = (last / unit + 1) * s->across;
}

static bool meets(const QdqStream *s, uint64_t number, const Range *range) {
    const uint64_t inner = s->layout.inner, column = number % s->across * s->columns;
    const uint64_t from = range->first % inner;
    if (s->across == 1 || from + range->count >= inner + column) return true;
    return column < from + range->count && column + s->columns > from;
}

/* Of tiles beside each other, makes those that nobody is at. */
static bool make_others(const QdqStream *s, const Range *range, Window *window, Err *err) {
    uint64_t first, end;
    tiles_of(s, range, &first, &end);
    for (uint64_t t = first; s->across > 1 && t < end; t++)
        if (meets(s, t, range) && claim_tile(s, t, window, false) == CLAIM_MINE &&
            !make_tile(s, t, window, err))
            return false;
    return true;
}

static bool store_part(const QdqStream *s, const Range *range, Window *window, Err *err) {
    uint64_t first, end;
    if (!make_others(s, range, window, err)) return false;
    tiles_of(s, range, &first, &end);
    for (uint64_t t = first; t < end; t++) {
        if (!meets(s, t, range)) continue;
        const bool mine = claim_tile(s, t, window, true) == CLAIM_MINE;
        if (mine && !make_tile(s, t, window, err)) return false;
        if (!store_tile(s, t, range, window, mine, err)) return false;
    }
    return true;
}

/* No more at once than tiles beside each other stay in the table for. */
static bool store_blocks(const QdqStream *s, const Range *range, Window *window, Err *err) {
    const unsigned bits = dtype_bits(s->layout.dtype);
    unsigned char *out = range->out;
    for (uint64_t at = 0, now; at < range->count; at += now) {
        now = less(range->count - at, TILE);
        const Range part = {range->first + at, now, out + at * bits / 8};
        if (!store_part(s, &part, window, err)) return false;
    }
    return true;
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool make_numbers(void *data, uint64_t offset, void *buffer, uint64_t size, Err *err) {
    const QdqStream *s = data;
    const unsigned bits = dtype_bits(s->layout.dtype);
    const uint64_t first = offset * 8 / bits;
    const Range range = {first, less(size * 8 / bits, s->count - first), buffer};
    if (!range.count) return true;
    if (bits < 8) memset(buffer, 0, size);
    Window *window = take_window(s->all);
    const bool made =
        s->scales ? store_channels(s, &range, window, err) : store_blocks(s, &range, window, err);
    give_window(s->all, window);
    return made;
}

/* Calls `put` with all tiles that have some of the scales [first, first + count), the tile's in the window. */
static bool each_tile(const QdqStream *s, uint64_t first, uint64_t count,
                      void (*put)(const Tile *tile, const Window *window, uint64_t first,
                                  uint64_t count, void *out),
                      void *out, Err *err) {
    const uint64_t inner = s->layout.inner, row = s->units * (inner == 1 ? s->blocks : inner);
    uint64_t t = first / row * s->across;
    bool made = true;
    if (s->columns) t += first % inner / s->columns;
    Window *window = take_window(s->all);
    for (; made && count > 0; t++) {
        const Tile tile = tile_of(s, t);
        const uint64_t now = less(count, tile.scale + tile.scale_count - first);
        made = claim_tile(s, t, window, true) != CLAIM_MINE || make_tile(s, t, window, err);
        if (made) put(&tile, window, first, now, out);
        first += now;
        count -= now;
    }
    give_window(s->all, window);
    return made;
}

/* A buffer for scales or zero points from `first` on. */
typedef struct Out {
    void *bytes;
    uint64_t first;
} Out;

static void put_scales(const Tile *tile, const Window *window, uint64_t first, uint64_t count,
                       void *data) {
    const Out *out = data;
    qdq_store_scales(&tile->box, window->scales + (first - tile->scale), count,
                     (char *)out->bytes + (first - out->first) * qdq_scale_size(&tile->box));
}

static void put_zeros(const Tile *tile, const Window *window, uint64_t first, uint64_t count,
                      void *data) {
    const Out *out = data;
    const unsigned bits = dtype_bits(tile->box.dtype);
    for (uint64_t i = 0; i < count; i++)
        qdq_put_code(out->bytes, bits, first + i - out->first,
                     window->zeros[first + i - tile->scale]);
}

static bool make_scales(void *data, uint64_t offset, void *buffer, uint64_t size, Err *err) {
    const QdqStream *s = data;
    const uint64_t each = qdq_scale_size(&s->layout);
    Out out = {buffer, offset / each};
    return each_tile(s, out.first, size / each, put_scales, &out, err);
}

static bool make_zeros(void *data, uint64_t offset, void *buffer, uint64_t size, Err *err) {
    const QdqStream *s = data;
    memset(buffer, 0, size);
    if (!quantized_has_zeros(s->layout.dtype)) return true;
    const unsigned each = 8 / dtype_bits(s->layout.dtype);
    Out out = {buffer, each * offset};
    const uint64_t left = qdq_scale_count(&s->layout) - out.first;
    return each_tile(s, out.first, less(each * size, left), put_zeros, &out, err);
}

static void put_zero_bytes(const Tile *tile, const Window *window, uint64_t first, uint64_t count,
                           void *data) {
    const Out *out = data;
    memcpy((char *)out->bytes + (first - out->first), window->zeros + (first - tile->scale), count);
}

/* Of a type that has zero points. */
static bool make_zero_bytes(void *data, uint64_t offset, void *buffer, uint64_t size, Err *err) {
    Out out = {buffer, offset};
    return each_tile(data, offset, size, put_zero_bytes, &out, err);
}

Source *qdq_stream_source(QdqStream *stream, QdqPart part, uint64_t size, const char *name) {
    SourceMaker *const makers[] = {make_numbers, make_scales, make_zeros, make_zero_bytes};
    return source_from_maker(stream->all->arena, makers[part], stream, size, name);
}
