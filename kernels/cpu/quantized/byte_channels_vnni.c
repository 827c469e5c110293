// SPDX-License-Identifier: Apache-2.0
/* byte_channels.h with AVX-512 and VNNI. A vector has 64 channels of a pixel, or 32 of two, or 16 of
 * four: bytes of four taps are interleaved, so that a word has four taps of one channel. */
#include <string.h>

#include "byte_channels.h"
#include "byte_result_avx512.h"

#if defined(__x86_64__) || defined(__i386__)

#define VNNI_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx2,fma,bmi2,avx512vnni")))
#define ALWAYS      static inline __attribute__((always_inline))

enum { QUAD = 4, VECTORS = 4, LANES = 16 };

/* What functions are made for: channels of a block, rows of int8. */
typedef struct Form {
    uint32_t width;
    bool is_signed;
} Form;

/* A block of `width` channels, of which there are `mask`; that many pixels from `first` on. */
typedef struct Place {
    const BytePixels *p;
    uint64_t at, first, count;
    __mmask64 mask;
    bool whole;
} Place;

/* Pixel i's bytes of a tap; what is behind the last pixel is the last one once more. */
static inline const char *bytes_of(const Place *place, const void *const *rows, uint64_t i) {
    const uint64_t most = place->count - 1;
    return (const char *)rows[place->first + (i < most ? i : most)] + place->at;
}

VNNI_TARGET ALWAYS __m512i load_bytes(const Place *place, const void *const *rows,
                                      const uint32_t width) {
    if (width == 64)
        return place->whole ? _mm512_loadu_si512(bytes_of(place, rows, 0))
                            : _mm512_maskz_loadu_epi8(place->mask, bytes_of(place, rows, 0));
    if (width == 32) {
        const __mmask32 mask = (__mmask32)place->mask;
        const __m256i one = _mm256_maskz_loadu_epi8(mask, bytes_of(place, rows, 0));
        return _mm512_inserti64x4(_mm512_castsi256_si512(one),
                                  _mm256_maskz_loadu_epi8(mask, bytes_of(place, rows, 1)), 1);
    }
    const __mmask16 mask = (__mmask16)place->mask;
    __m512i all = _mm512_castsi128_si512(_mm_maskz_loadu_epi8(mask, bytes_of(place, rows, 0)));
    all = _mm512_inserti32x4(all, _mm_maskz_loadu_epi8(mask, bytes_of(place, rows, 1)), 1);
    all = _mm512_inserti32x4(all, _mm_maskz_loadu_epi8(mask, bytes_of(place, rows, 2)), 2);
    return _mm512_inserti32x4(all, _mm_maskz_loadu_epi8(mask, bytes_of(place, rows, 3)), 3);
}

VNNI_TARGET ALWAYS __m512i load(const Place *place, const void *const *rows, const Form form) {
    const __m512i bytes = load_bytes(place, rows, form.width);
    return form.is_signed ? _mm512_xor_si512(bytes, _mm512_set1_epi8((char)128)) : bytes;
}

VNNI_TARGET ALWAYS void add_words(__m512i *acc, const __m512i *words, const int32_t *w) {
    TILE_UNROLL
    for (int v = 0; v < VECTORS; v++)
        acc[v] = _mm512_dpbusd_epi32(acc[v], words[v], _mm512_loadu_si512(w + v * LANES));
}

/* Four taps. */
VNNI_TARGET ALWAYS void add_taps(__m512i *acc, const __m512i *x, const int32_t *w) {
    const __m512i low01 = _mm512_unpacklo_epi8(x[0], x[1]);
    const __m512i high01 = _mm512_unpackhi_epi8(x[0], x[1]);
    const __m512i low23 = _mm512_unpacklo_epi8(x[2], x[3]);
    const __m512i high23 = _mm512_unpackhi_epi8(x[2], x[3]);
    const __m512i words[] = {
        _mm512_unpacklo_epi16(low01, low23), _mm512_unpackhi_epi16(low01, low23),
        _mm512_unpacklo_epi16(high01, high23), _mm512_unpackhi_epi16(high01, high23)};
    add_words(acc, words, w);
}

/* One, and three whose weights are 0. */
VNNI_TARGET ALWAYS void add_tap(__m512i *acc, __m512i x, const int32_t *w) {
    const __m512i low = _mm512_unpacklo_epi8(x, x), high = _mm512_unpackhi_epi8(x, x);
    const __m512i words[] = {_mm512_unpacklo_epi16(low, low), _mm512_unpackhi_epi16(low, low),
                             _mm512_unpacklo_epi16(high, high), _mm512_unpackhi_epi16(high, high)};
    add_words(acc, words, w);
}

VNNI_TARGET ALWAYS void sum_up(const Place *place, __m512i *acc, const Form form) {
    const BytePixels *p = place->p;
    const uint64_t stride = p->stride;
    const int32_t *w = (const int32_t *)p->weights + place->at * ((p->taps + QUAD - 1) / QUAD);
    const int32_t *offset = p->offset + place->at;
    TILE_UNROLL
    for (int v = 0; v < VECTORS; v++) acc[v] = _mm512_loadu_si512(offset + v * LANES);
    const void *const *rows = p->rows;
    uint64_t left = p->taps;
    for (; left >= QUAD; left -= QUAD, rows += QUAD * stride, w += VECTORS * LANES) {
        const __m512i x[] = {load(place, rows, form), load(place, rows + stride, form),
                             load(place, rows + 2 * stride, form),
                             load(place, rows + 3 * stride, form)};
        add_taps(acc, x, w);
    }
    if (left > 1) {
        const void *const *third = rows + (left > 2 ? 2 * stride : 0);
        const __m512i x[] = {load(place, rows, form), load(place, rows + stride, form),
                             load(place, third, form), load(place, rows, form)};
        add_taps(acc, x, w);
    } else if (left) {
        add_tap(acc, load(place, rows, form), w);
    }
}

static void store_floats(const Place *place, const float *values, uint32_t width) {
    const BytePixels *p = place->p;
    const ByteChannelsIsa *isa = byte_channels_vnni();
    for (uint64_t i = 0; i < VECTORS * LANES; i++) {
        const uint64_t c = place->at + byte_channels_place(isa, width, i / LANES, i % LANES);
        const uint64_t pixel = i % LANES / (width / 16 * 4);
        if (c < p->channels && pixel < place->count)
            ((float *)p->y)[(place->first + pixel) * p->y_row + c] = values[i];
    }
}

VNNI_TARGET ALWAYS void store(const Place *place, __m512i bytes, const uint32_t width) {
    const BytePixels *p = place->p;
    char *y = (char *)p->y + place->first * p->y_row + place->at;
    if (width == 64 && place->whole) {
        _mm512_storeu_si512(y, bytes);
        return;
    }
    const uint64_t pixels = 64 / width;
    for (uint64_t i = 0; i < pixels && i < place->count; i++, y += p->y_row) {
        _mm512_mask_storeu_epi8(y, place->mask, bytes);
        if (width == 32) bytes = _mm512_shuffle_i64x2(bytes, bytes, 0xee);
        if (width == 16) bytes = _mm512_alignr_epi32(bytes, bytes, 4);
    }
}

VNNI_TARGET ALWAYS void finish(const Place *place, const ByteEnd *end, const __m512i *acc,
                               const uint32_t width) {
    const BytePixels *p = place->p;
    __m512 v[VECTORS];
    TILE_UNROLL
    for (int i = 0; i < VECTORS; i++)
        v[i] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(acc[i]),
                               _mm512_loadu_ps(p->factor + place->at + i * LANES),
                               _mm512_loadu_ps(p->shift + place->at + i * LANES));
    if (p->scale.to != DTYPE_FLOAT) {
        store(place, byte_end_pack(end, v), width);
        return;
    }
    float values[VECTORS * LANES];
    for (int i = 0; i < VECTORS; i++)
        _mm512_storeu_ps(
            values + i * LANES,
            _mm512_min_ps(_mm512_set1_ps(p->high), _mm512_max_ps(_mm512_set1_ps(p->low), v[i])));
    store_floats(place, values, width);
}

VNNI_TARGET ALWAYS void run_block(const BytePixels *p, uint64_t at, const Form form) {
    const uint64_t left = p->channels - at, pixels = 64 / form.width;
    const ByteEnd end = byte_end(&p->scale, p->low, p->high);
    Place place = {.p = p, .at = at, .whole = left >= 64};
    place.mask = left >= 64 ? ~(__mmask64)0 : ((__mmask64)1 << left) - 1;
    for (place.first = 0; place.first < p->count; place.first += pixels) {
        const uint64_t rest = p->count - place.first;
        __m512i acc[VECTORS];
        place.count = rest < pixels ? rest : pixels;
        sum_up(&place, acc, form);
        finish(&place, &end, acc, form.width);
    }
}

#define BLOCK(name, width, is_signed)                                                              \
    VNNI_TARGET static void name(const BytePixels *p, uint64_t at) {                               \
        run_block(p, at, (Form){width, is_signed});                                                \
    }
BLOCK(block_64_u8, 64, false)
BLOCK(block_32_u8, 32, false)
BLOCK(block_16_u8, 16, false)
BLOCK(block_64_i8, 64, true)
BLOCK(block_32_i8, 32, true)
BLOCK(block_16_i8, 16, true)

static void pixels_vnni(const BytePixels *p) {
    const ByteChannelsIsa *isa = byte_channels_vnni();
    for (uint64_t at = 0; at < p->channels; at += isa->block) {
        const uint64_t width = byte_channels_width(isa, p->channels - at);
        if (width == 64)
            (p->is_signed ? block_64_i8 : block_64_u8)(p, at);
        else if (width == 32)
            (p->is_signed ? block_32_i8 : block_32_u8)(p, at);
        else
            (p->is_signed ? block_16_i8 : block_16_u8)(p, at);
    }
}

const ByteChannelsIsa *byte_channels_vnni(void) {
    static const ByteChannelsIsa isa = {64, VECTORS, 4, QUAD, 16, pixels_vnni};
    return &isa;
}

#else

const ByteChannelsIsa *byte_channels_vnni(void) {
    return byte_channels_portable();
}

#endif
