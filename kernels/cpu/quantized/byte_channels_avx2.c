// SPDX-License-Identifier: Apache-2.0
/* byte_channels.h with AVX2: 16 channels of a pixel, whose bytes of two taps become pairs of
 * int16. */
#include <string.h>

#include "byte_channels.h"
#include "simd.h"

#if defined(__x86_64__) || defined(__i386__)

#define ALWAYS static inline __attribute__((always_inline))

enum { PAIR = 2, VECTORS = 2, LANES = 8, BLOCK = 16 };

/* A tap's channels, of which there are `count`, as int16. */
AVX2_TARGET ALWAYS __m256i load(const void *from, size_t count, bool is_signed) {
    __m128i bytes = _mm_setzero_si128();
    if (count == BLOCK)
        bytes = _mm_loadu_si128(from);
    else
        memcpy(&bytes, from, count);
    return is_signed ? _mm256_cvtepi8_epi16(bytes) : _mm256_cvtepu8_epi16(bytes);
}

AVX2_TARGET ALWAYS __m256i weight(const int32_t *from) {
    return _mm256_loadu_si256((const __m256i *)(const void *)from);
}

AVX2_TARGET ALWAYS void sum_up(const BytePixels *p, uint64_t pixel, uint64_t at, __m256i *acc) {
    const size_t count = p->channels - at < BLOCK ? (size_t)(p->channels - at) : BLOCK;
    const int32_t *w = (const int32_t *)p->weights + at * ((p->taps + 1) / PAIR);
    const void *const *row = p->rows + pixel;
    for (int v = 0; v < VECTORS; v++) acc[v] = weight(p->offset + at + v * LANES);
    for (uint64_t t = 0; t < p->taps; t += PAIR, row += PAIR * p->stride, w += BLOCK) {
        const void *second = t + 1 < p->taps ? row[p->stride] : row[0]; /* its weights are 0 */
        const __m256i a = load((const char *)row[0] + at, count, p->is_signed);
        const __m256i b = load((const char *)second + at, count, p->is_signed);
        const __m256i low = _mm256_madd_epi16(_mm256_unpacklo_epi16(a, b), weight(w));
        const __m256i high = _mm256_madd_epi16(_mm256_unpackhi_epi16(a, b), weight(w + LANES));
        acc[0] = _mm256_add_epi32(acc[0], low);
        acc[1] = _mm256_add_epi32(acc[1], high);
    }
}

AVX2_TARGET ALWAYS __m256 scaled(const BytePixels *p, uint64_t at, __m256i sum) {
    const __m256 v = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), _mm256_loadu_ps(p->factor + at),
                                     _mm256_loadu_ps(p->shift + at));
    return _mm256_min_ps(_mm256_set1_ps(p->high), _mm256_max_ps(_mm256_set1_ps(p->low), v));
}

/* Channels 0 to 3 and 8 to 11 are in v[0], the others in v[1]. */
AVX2_TARGET ALWAYS void store_floats(const __m256 *v, float *y, uint64_t count) {
    float values[BLOCK];
    _mm256_storeu_ps(values, _mm256_permute2f128_ps(v[0], v[1], 0x20));
    _mm256_storeu_ps(values + LANES, _mm256_permute2f128_ps(v[0], v[1], 0x31));
    memcpy(y, values, count * sizeof *y);
}

AVX2_TARGET ALWAYS void store_bytes(const BytePixels *p, const __m256 *v, uint8_t *y,
                                    uint64_t count) {
    const __m256i zero = _mm256_set1_epi32(p->scale.zero);
    const __m256i low = _mm256_add_epi32(_mm256_cvtps_epi32(v[0]), zero);
    const __m256i high = _mm256_add_epi32(_mm256_cvtps_epi32(v[1]), zero);
    const __m256i words = _mm256_packs_epi32(low, high);
    const __m128i first = _mm256_castsi256_si128(words);
    const __m128i second = _mm256_extracti128_si256(words, 1);
    const __m128i bytes = p->scale.to == DTYPE_INT8 ? _mm_packs_epi16(first, second)
                                                    : _mm_packus_epi16(first, second);
    if (count == BLOCK)
        _mm_storeu_si128((__m128i *)(void *)y, bytes);
    else
        memcpy(y, &bytes, count);
}

AVX2_TARGET static void pixels_avx2(const BytePixels *p) {
    for (uint64_t at = 0; at < p->channels; at += BLOCK) {
        const uint64_t count = p->channels - at < BLOCK ? p->channels - at : BLOCK;
        for (uint64_t i = 0; i < p->count; i++) {
            __m256i acc[VECTORS];
            sum_up(p, i, at, acc);
            const __m256 v[] = {scaled(p, at, acc[0]), scaled(p, at + LANES, acc[1])};
            if (p->scale.to == DTYPE_FLOAT)
                store_floats(v, (float *)p->y + i * p->y_row + at, count);
            else
                store_bytes(p, v, (uint8_t *)p->y + i * p->y_row + at, count);
        }
    }
}

const ByteChannelsIsa *byte_channels_avx2(void) {
    static const ByteChannelsIsa isa = {BLOCK, VECTORS, 2, PAIR, BLOCK, pixels_avx2};
    return &isa;
}

#else

const ByteChannelsIsa *byte_channels_avx2(void) {
    return byte_channels_portable();
}

#endif
