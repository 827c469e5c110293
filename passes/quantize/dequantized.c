// SPDX-License-Identifier: Apache-2.0
/* See dequantized.h. Runs of a result's elements have codes at equal distances, and scales likewise. */
#include "dequantized.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum {
    HELD_MOST = 1 << 18, /* elements that are made at once */
    CODES = 1 << 8
};

struct DequantizedMaker {
    Dequantized of;
    const Tensor *made; /* copies of it may be changed, and are not made so */
    const uint8_t *codes;
    const float *scales, *zeros; /* zeros: NULL: none */
    uint64_t scale_count, blocks;
    unsigned bits;
    float numbers[CODES]; /* of a code of 8 bits or fewer */
};

typedef DequantizedMaker Maker;

typedef struct Run {
    uint64_t code, code_step, scale, scale_step, count;
} Run;

/* ---- reading parts --------------------------------------------------------------------------- */

/* The raw data, where it is or read into the arena; NULL where it can't be. */
static const uint8_t *read_raw(Arena *arena, const Tensor *tensor, uint64_t size) {
    if (!tensor_check(tensor, NULL) || tensor_raw_size(tensor) != size) return NULL;
    if (tensor->bytes && (tensor->storage == TENSOR_RAW || tensor->storage == TENSOR_EXTERNAL))
        return tensor->bytes;
    uint8_t *bytes = arena_alloc_raw(arena, size + 1);
    return tensor_read_raw(tensor, 0, bytes, size, NULL) ? bytes : NULL;
}

static uint64_t code_at(const uint8_t *codes, unsigned bits, uint64_t i) {
    uint64_t code = 0;
    if (bits < 8) return (uint64_t)codes[i * bits / 8] >> i * bits % 8 & ((1u << bits) - 1);
    memcpy(&code, codes + i * (bits / 8), bits / 8);
    return code;
}

static bool has_codes(Dtype dtype) {
    const unsigned bits = dtype_bits(dtype);
    return bits && bits <= 32 && (bits >= 8 || 8 % bits == 0);
}

static uint64_t bytes_of(uint64_t count, unsigned bits) {
    return bits < 8 ? (count * bits + 7) / 8 : count * (bits / 8);
}

/* `lines` times `line` codes, each line from a byte of its own on, as floats, which must have all of them. */
static const float *read_floats(Arena *arena, const Tensor *tensor, Dtype dtype, uint64_t lines,
                                uint64_t line) {
    const unsigned bits = dtype_bits(dtype);
    if (!has_codes(dtype)) return NULL;
    const uint64_t size = bytes_of(line, bits);
    const uint8_t *codes = read_raw(arena, tensor, lines * size);
    float *items = codes ? arena_alloc_raw(arena, (lines * line + 1) * sizeof *items) : NULL;
    for (uint64_t i = 0; items && i < lines * line; i++) {
        double number;
        if (!dtype_to_double(dtype, code_at(codes + i / line * size, bits, i % line), &number))
            return NULL;
        items[i] = (float)number;
        if (dtype_is_integer(dtype) && (double)items[i] != number) return NULL;
    }
    return items;
}

static bool read_scales(Maker *m, Arena *arena) {
    const Dequantized *of = &m->of;
    const uint64_t given = of->scales ? tensor_count(of->scales) : 0;
    m->blocks = of->block ? (of->axis + of->block - 1) / of->block : of->axis;
    m->scale_count = of->block ? of->outer * m->blocks * of->inner : of->axis;
    if (!of->block && given == 1) m->scale_count = 1;
    if (given != m->scale_count || !given) return false;
    m->scales = read_floats(arena, of->scales, (Dtype)of->scales->dtype, 1, given);
    if (!of->zeros) return m->scales != NULL;
    const uint64_t line = of->zero_line ? of->zero_line : given;
    m->zeros =
        given % line ? NULL : read_floats(arena, of->zeros, of->zero_dtype, given / line, line);
    return m->scales && m->zeros;
}

static bool read_numbers(Maker *m, Arena *arena) {
    const Dequantized *of = &m->of;
    m->bits = dtype_bits(of->dtype);
    if (!has_codes(of->dtype)) return false;
    uint64_t size; /* factors of it are below 2^32, or those of a tensor */
    if (!dtype_bytes(of->dtype, of->outer * of->axis * of->inner, &size)) return false;
    m->codes = read_raw(arena, of->numbers, size);
    for (uint64_t code = 0; m->bits <= 8 && code < 1u << m->bits; code++) {
        double number = 0; /* of codes that are no numbers, NaN */
        if (!dtype_to_double(of->dtype, code, &number)) return false;
        m->numbers[code] = (float)number;
    }
    return m->codes != NULL;
}

/* ---- making ---------------------------------------------------------------------------------- */

static Run run_turned(const Maker *m, uint64_t element) {
    const Dequantized *of = &m->of;
    const uint64_t k = element / of->outer, n = element % of->outer;
    const uint64_t group = of->groups ? (uint64_t)of->groups[k] : k / of->block;
    return (Run){.code = n * of->axis + k,
                 .code_step = of->axis,
                 .scale = n * m->blocks + group,
                 .scale_step = m->blocks,
                 .count = of->outer - n};
}

/* From the element on, those that have one scale, or scales that follow each other. */
static Run run_at(const Maker *m, uint64_t element) {
    const Dequantized *of = &m->of;
    if (of->turned) return run_turned(m, element);
    const uint64_t line = element / of->inner, column = element % of->inner, a = line % of->axis;
    Run run = {.code = element, .code_step = 1, .count = of->inner - column};
    if (m->scale_count == 1) {
        run.count = UINT64_MAX;
    } else if (!of->block) {
        run.scale = a;
    } else {
        const uint64_t left = of->block - a % of->block, end = of->axis - a;
        run.scale = (line / of->axis * m->blocks + a / of->block) * of->inner + column;
        run.scale_step = of->inner != 1;
        if (of->inner == 1) run.count = left < end ? left : end;
    }
    return run;
}

static double number_at(const Maker *m, uint64_t i) {
    double number = 0;
    if (m->bits <= 8) return (double)m->numbers[code_at(m->codes, m->bits, i)];
    dtype_to_double(m->of.dtype, code_at(m->codes, m->bits, i), &number);
    return number;
}

static void make_floats(const Maker *m, uint64_t first, uint64_t count, float *out) {
    for (uint64_t at = 0; at < count;) {
        Run run = run_at(m, first + at);
        if (run.count > count - at) run.count = count - at;
        for (uint64_t i = 0; i < run.count; i++) {
            const uint64_t scale = run.scale + i * run.scale_step;
            const double zero = (double)(m->zeros ? m->zeros[scale] : m->of.zero);
            const double number = number_at(m, run.code + i * run.code_step);
            out[at + i] = (float)(number - zero) * m->scales[scale];
        }
        at += run.count;
    }
}

static bool make_bytes(void *data, uint64_t offset, void *buffer, uint64_t size, Err *err) {
    (void)err;
    make_floats(data, offset / sizeof(float), size / sizeof(float), buffer);
    return true;
}

/* Codes behind each other, and blocks that there are. */
static bool fits(const Maker *m, uint64_t count) {
    const Dequantized *of = &m->of;
    if (!of->turned) return count == of->outer * of->axis * of->inner;
    if (of->inner != 1 || !of->block || of->depth > of->axis || count != of->depth * of->outer)
        return false;
    for (uint64_t k = 0; of->groups && k < of->depth; k++)
        if (of->groups[k] < 0 || (uint64_t)of->groups[k] >= m->blocks) return false;
    return true;
}

const Tensor *dequantized_tensor(Arena *arena, const Dequantized *of, const int64_t *dims,
                                 uint32_t rank, const char *name) {
    Maker *m = ARENA_NEW(arena, Maker);
    m->of = *of;
    Tensor *tensor = tensor_new_raw(arena, DTYPE_FLOAT, dims, rank, NULL, 0);
    const uint64_t count = tensor_count(tensor);
    if (!read_scales(m, arena) || !read_numbers(m, arena) || !fits(m, count)) return NULL;
    tensor->size = count * sizeof(float);
    tensor->bytes = NULL;
    m->made = tensor;
    tensor_set_extra(tensor, arena, (TensorExtra){.quantized = m});
    if (count > HELD_MOST) {
        tensor->source = source_from_maker(arena, make_bytes, m, tensor->size, name);
        return tensor;
    }
    float *items = arena_alloc_raw(arena, tensor->size + 1);
    make_floats(m, 0, count, items);
    tensor->bytes = (const unsigned char *)items;
    return tensor;
}

/* ---- the grid -------------------------------------------------------------------------------- */

/* All numbers of a block of the layout have one scale and zero point. */
static bool has_blocks(const Maker *m, const QdqWeights *w) {
    const Dequantized *of = &m->of;
    const bool coarser = of->block && of->block % w->block == 0;
    if (of->turned)
        return coarser && !of->groups && w->outer == 1 && w->axis == of->depth &&
               w->inner == of->outer;
    if (m->scale_count == 1) return true;
    if (of->block)
        return coarser && w->outer == of->outer && w->axis == of->axis && w->inner == of->inner;
    /* by channels, of a matrix, along the other axis */
    return (w->outer == 1 && of->outer == w->axis && of->axis == w->inner) ||
           (w->inner == 1 && of->outer == 1 && of->axis == w->outer);
}

/* Scales that can be divided by, and are numbers of `floats`; and zero points that are codes. */
static bool has_numbers(const Maker *m, Dtype floats) {
    const float most = (float)((1u << m->bits) - 1);
    for (uint64_t i = 0; i < m->scale_count; i++) {
        const float scale = m->scales[i], zero = m->zeros ? m->zeros[i] : m->of.zero;
        const float size = fabsf(scale);
        if (!(size <= FLT_MAX) ||
            (size > 0 && (size < FLT_MIN || qdq_scale_as(floats, size) != size)) ||
            !(zero >= 0 && zero <= most && zero == floorf(zero)))
            return false;
    }
    return true;
}

const DequantizedMaker *dequantized_grid(const Tensor *tensor, const QdqWeights *layout) {
    while (tensor->cast_of && !tensor->factors && !tensor->clamped) tensor = tensor->cast_of;
    const Maker *m = tensor_extra(tensor)->quantized;
    return m && m->made == tensor && m->of.dtype == layout->dtype && layout->block &&
                   quantized_has_zeros(layout->dtype) && has_blocks(m, layout) &&
                   has_numbers(m, layout->floats)
               ? m
               : NULL;
}

void dequantized_scales(const DequantizedMaker *grid, const QdqWeights *layout, uint64_t first,
                        uint64_t count, float *scales, uint8_t *zeros) {
    const uint64_t blocks = (layout->axis + layout->block - 1) / layout->block;
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t row = (first + i) / layout->inner, column = (first + i) % layout->inner;
        const uint64_t place = row / blocks * layout->axis + row % blocks * layout->block;
        const uint64_t at = run_at(grid, place * layout->inner + column).scale;
        const float scale = grid->scales[at];
        scales[i] = scale != 0 ? scale : 1;
        zeros[i] = (uint8_t)(grid->zeros ? grid->zeros[at] : grid->of.zero);
    }
}
