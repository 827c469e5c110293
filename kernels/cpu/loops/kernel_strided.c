// SPDX-License-Identifier: Apache-2.0
/* Strided copies; see kernel_strided.h. */
#include "kernel_strided.h"

#include <string.h>

#include "kernel_clones.h"
#include "kernel_parts.h"
#include "simd_baseline.h"

/* Elements are moved as numbers of their size, whatever their type. */
typedef uint8_t __attribute__((may_alias)) Unit1;
typedef uint16_t __attribute__((may_alias)) Unit2;
typedef uint32_t __attribute__((may_alias)) Unit4;
typedef uint64_t __attribute__((may_alias)) Unit8;
typedef struct __attribute__((may_alias)) Unit16 {
    uint64_t low, high;
} Unit16;

enum { TILE = 16 }; /* of a transposition: lines of 64 bytes on both sides, few pages */

StridedWalk strided_new(KernelCall *call, uint32_t rank) {
    StridedWalk walk = {.rank = rank,
                        .axes = ARENA_ARRAY(call->scratch, StridedAxis, rank),
                        .workers = call->workers};
    for (uint32_t i = 0; i < rank; i++) walk.axes[i].count = 1;
    return walk;
}

void strided_set_dims(StridedWalk *walk, const int64_t *dims) {
    for (uint32_t i = 0; i < walk->rank; i++) walk->axes[i].count = dims[i];
}

void strided_set_to(StridedWalk *walk, const int64_t *dims) {
    int64_t step = 1;
    for (uint32_t i = walk->rank; i-- > 0; step *= dims[i]) walk->axes[i].to = step;
}

void strided_set_from(StridedWalk *walk, const int64_t *dims) {
    int64_t step = 1;
    for (uint32_t i = walk->rank; i-- > 0; step *= dims[i]) walk->axes[i].from = step;
}

/* ---- two axes at a time ---------------------------------------------------------------------- */

#define PLANE(Unit)                                                                                \
    KERNEL_CLONES                                                                                  \
    static void three_##Unit(Unit *restrict to, const Unit *restrict from, int64_t step,           \
                             int64_t count) {                                                      \
        for (int64_t i = 0; i < count; i++) {                                                      \
            to[3 * i] = from[i];                                                                   \
            to[3 * i + 1] = from[i + step];                                                        \
            to[3 * i + 2] = from[i + 2 * step];                                                    \
        }                                                                                          \
    }                                                                                              \
    static void row_##Unit(Unit *to, const Unit *from, StridedAxis axis) {                         \
        if (axis.to == 1 && axis.from == 0)                                                        \
            for (int64_t i = 0; i < axis.count; i++) to[i] = *from;                                \
        else if (axis.to == 1)                                                                     \
            for (int64_t i = 0; i < axis.count; i++) to[i] = from[i * axis.from];                  \
        else                                                                                       \
            for (int64_t i = 0; i < axis.count; i++) to[i * axis.to] = from[i * axis.from];        \
    }                                                                                              \
    static void tile_##Unit(Unit *to, const Unit *from, StridedAxis rows, StridedAxis columns) {   \
        for (int64_t i = 0; i < TILE; i++)                                                         \
            for (int64_t k = 0; k < TILE; k++)                                                     \
                to[i * rows.to + k] = from[i * rows.from + k * columns.from];                      \
    }                                                                                              \
    static void tiles_##Unit(Unit *to, const Unit *from, StridedAxis rows, StridedAxis columns) {  \
        for (int64_t r = 0; r < rows.count; r += TILE)                                             \
            for (int64_t c = 0; c < columns.count; c += TILE) {                                    \
                Unit *target = to + r * rows.to + c * columns.to;                                  \
                const Unit *source = from + r * rows.from + c * columns.from;                      \
                int64_t high = rows.count - r < TILE ? rows.count - r : TILE;                      \
                StridedAxis part = columns;                                                        \
                part.count = columns.count - c < TILE ? columns.count - c : TILE;                  \
                if (high == TILE && part.count == TILE && columns.to == 1)                         \
                    tile_##Unit(target, source, rows, columns);                                    \
                else                                                                               \
                    for (int64_t i = 0; i < high; i++)                                             \
                        row_##Unit(target + i * rows.to, source + i * rows.from, part);            \
            }                                                                                      \
    }                                                                                              \
    static void plane_##Unit(char *to, const char *from, StridedAxis rows, StridedAxis columns) {  \
        Unit *target = (Unit *)(void *)to;                                                         \
        const Unit *source = (const Unit *)(const void *)from;                                     \
        if (columns.to == 1 && columns.from == 1)                                                  \
            for (int64_t i = 0; i < rows.count; i++)                                               \
                memcpy(target + i * rows.to, source + i * rows.from,                               \
                       (size_t)columns.count * sizeof(Unit));                                      \
        else if (columns.count == 3 && columns.to == 1 && rows.to == 3 && rows.from == 1)          \
            three_##Unit(target, source, columns.from, rows.count);                                \
        else if ((rows.from == 1 || rows.from == -1) && columns.from != 0)                         \
            tiles_##Unit(target, source, rows, columns);                                           \
        else                                                                                       \
            for (int64_t i = 0; i < rows.count; i++)                                               \
                row_##Unit(target + i * rows.to, source + i * rows.from, columns);                 \
    }

PLANE(Unit1)
PLANE(Unit2)
PLANE(Unit4)
PLANE(Unit8)
PLANE(Unit16)

/* As memcpy, but that long runs go to memory whole: a line that is stored to is else read first, and what
 * else is in the cache makes room for it. */
static void copy_away(char *to, const char *from, size_t size) {
#ifdef SIMD_STREAMS
    enum { LEAST = 1024 };
    if (size >= LEAST) {
        const size_t head = -(uintptr_t)to % SIMD_LINE;
        memcpy(to, from, head);
        to += head;
        from += head;
        size -= head;
        for (; size >= SIMD_LINE; to += SIMD_LINE, from += SIMD_LINE, size -= SIMD_LINE) {
            simd_fetch_stream(from);
            simd_stream_line(to, from);
        }
    }
#endif
    memcpy(to, from, size);
}

/* Rows of bytes that lie side by side in both. */
static void plane_away(char *to, const char *from, StridedAxis rows, StridedAxis columns) {
    for (int64_t i = 0; i < rows.count; i++)
        copy_away(to + i * rows.to, from + i * rows.from, (size_t)columns.count);
    simd_stream_end();
}

typedef void (*PlaneCopy)(char *to, const char *from, StridedAxis rows, StridedAxis columns);

static PlaneCopy plane_of(size_t size) {
    if (size == 1) return plane_Unit1;
    if (size == 2) return plane_Unit2;
    if (size == 4) return plane_Unit4;
    return size == 8 ? plane_Unit8 : plane_Unit16;
}

/* ---- walks ----------------------------------------------------------------------------------- */

/* Leaves out axes of one element and joins what lies behind each other on both sides. False where
 * there is nothing to move. */
static bool simplify(StridedWalk *walk) {
    uint32_t rank = 0;
    for (uint32_t i = 0; i < walk->rank; i++) {
        StridedAxis axis = walk->axes[i];
        if (axis.count == 0) return false;
        if (axis.count == 1) continue;
        StridedAxis *outer = rank ? &walk->axes[rank - 1] : NULL;
        if (outer && outer->to == axis.to * axis.count && outer->from == axis.from * axis.count) {
            *outer = (StridedAxis){outer->count * axis.count, axis.to, axis.from};
        } else {
            walk->axes[rank++] = axis;
        }
    }
    walk->rank = rank;
    return true;
}

/* Puts the axis along which the source is contiguous next to the innermost one. */
static void order_for_tiles(StridedWalk *walk) {
    StridedAxis *axes = walk->axes;
    uint32_t last = walk->rank - 1;
    if (axes[last].from == 1) return;
    for (uint32_t i = 0; i + 1 < last; i++) {
        if (axes[i].from != 1) continue;
        StridedAxis found = axes[i];
        for (uint32_t k = i; k + 1 < last; k++) axes[k] = axes[k + 1];
        axes[last - 1] = found;
        return;
    }
}

/* The same in bytes, where runs lie side by side in both. */
static bool count_bytes(StridedWalk *walk, size_t size) {
    StridedAxis *axes = walk->axes;
    const uint32_t last = walk->rank - 1;
    if (!walk->rank || axes[last].to != 1 || axes[last].from != 1) return false;
    axes[last].count *= (int64_t)size;
    for (uint32_t i = 0; i < last; i++) {
        axes[i].to *= (int64_t)size;
        axes[i].from *= (int64_t)size;
    }
    return true;
}

/* Two innermost axes at all places of the others. */
typedef struct Planes {
    const StridedAxis *axes; /* [outer] */
    uint32_t outer;
    StridedAxis rows, columns;
    PlaneCopy copy;
    int64_t size; /* of an element */
    char *to;
    const char *from;
} Planes;

/* Rows [row, end) of all planes. */
static void copy_rows(const Planes *p, int64_t row, int64_t end) {
    while (row < end) {
        int64_t rest = row / p->rows.count, first = row % p->rows.count;
        int64_t target = first * p->rows.to, source = first * p->rows.from;
        for (uint32_t i = p->outer; i-- > 0; rest /= p->axes[i].count) {
            int64_t at = rest % p->axes[i].count;
            target += at * p->axes[i].to;
            source += at * p->axes[i].from;
        }
        StridedAxis rows = p->rows;
        rows.count -= first;
        if (rows.count > end - row) rows.count = end - row;
        p->copy(p->to + target * p->size, p->from + source * p->size, rows, p->columns);
        row += rows.count;
    }
}

static void copy_part(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    (void)lane;
    copy_rows(data, (int64_t)first, (int64_t)end);
}

void strided_copy(StridedWalk *walk, void *to, const void *from, size_t size) {
    if (!simplify(walk)) return;
    const bool away = walk->away && count_bytes(walk, size);
    const uint64_t unit = away ? size : 1; /* of an element */
    if (away) size = 1;
    if (walk->rank > 2) order_for_tiles(walk);
    StridedAxis *axes = walk->axes, one = {1, 0, 0};
    const Planes p = {
        .axes = axes,
        .outer = walk->rank > 2 ? walk->rank - 2 : 0,
        .rows = walk->rank > 1 ? axes[walk->rank - 2] : one,
        .columns = walk->rank ? axes[walk->rank - 1] : (StridedAxis){1, 1, 1},
        .copy = away ? plane_away : plane_of(size),
        .size = (int64_t)size,
        .to = to,
        .from = from,
    };
    int64_t count = p.rows.count;
    for (uint32_t i = 0; i < p.outer; i++) count *= axes[i].count;
    const uint64_t rows = (uint64_t)count;
    const unsigned threads = walk->workers ? workers_lanes(walk->workers) : 1;
    const uint64_t elements = rows * (uint64_t)p.columns.count / unit;
    const unsigned parts = kernel_parts(threads, elements, 1);
    /* rows that are contiguous in both are no tiles: a few long ones are shared out too */
    const uint64_t grain = p.columns.from == 1 && p.columns.to == 1 ? 1 : TILE;
    kernel_run_parts(walk->workers, kernel_element_cut(rows, grain, parts, elements), copy_part,
                     &p);
}

void strided_fill(KernelTensor *tensor, const void *element) {
    static const KernelString empty = {0, ""};
    size_t size = kernel_element_size(tensor->dtype);
    if (tensor->count == 0) return;
    if (!element && tensor->dtype != DTYPE_STRING) {
        memset(tensor->data, 0, tensor->count * size);
        return;
    }
    StridedAxis axis = {(int64_t)tensor->count, 1, 0};
    plane_of(size)(tensor->data, element ? element : (const void *)&empty, (StridedAxis){1, 0, 0},
                   axis);
}
