// SPDX-License-Identifier: Apache-2.0
/* Depthwise convolutions of bytes, channels last: output r of channel c is
 *
 *     v = factor[c] * (sum over t of X(r, t)[c] * W[c, t] + offset[c]) + shift[c]
 *
 * bounded, rounded and stored as igemm.h's IgemmScale says. X(r, t) is an address, as in igemm.h.
 *
 * Weights and scales are packed by blocks of channels in the order in which sums of words lie in
 * registers: bytes of several taps are interleaved to words (four with VNNI, else two int16), whose
 * sums are packed to bytes again, so that nothing is moved from place to place.
 */
#ifndef DEMI_BYTE_CHANNELS_H
#define DEMI_BYTE_CHANNELS_H

#include "igemm.h"

enum { BYTE_CHANNELS_BLOCK = 64 }; /* most channels of a block */

/* Some outputs next to each other, all of their channels. */
typedef struct BytePixels {
    const void *const *rows; /* [taps][stride]: addresses of [channels] bytes */
    uint64_t taps, stride, count, channels;
    const void *weights;         /* packed */
    const float *factor, *shift; /* [blocks][block], in the order of sums */
    const int32_t *offset;
    IgemmScale scale; /* the type and zero point; its arrays are not used */
    float low, high;  /* of bytes, within the type less its zero point */
    bool is_signed;   /* rows are int8 */
    void *y;
    uint64_t y_row;
} BytePixels;

/* What an instruction set has: blocks of channels, as vectors of parts of four; the taps of a word. */
typedef struct ByteChannelsIsa {
    uint32_t block, vectors, parts, taps;
    uint32_t narrow; /* least channels of the last block, which has several pixels then */
    void (*pixels)(const BytePixels *pixels);
} ByteChannelsIsa;

/* The best for a processor that has these features. */
const ByteChannelsIsa *byte_channels_isa(IsaSet cpu);

/* Bytes of packed weights; `data` is [channels][taps], `to` 64-byte aligned. */
uint64_t byte_channels_size(const ByteChannelsIsa *isa, uint64_t channels, uint64_t taps);
void byte_channels_pack(const ByteChannelsIsa *isa, void *to, const int8_t *data, uint64_t channels,
                        uint64_t taps);

/* g's columns are channels, its weights packed so, its scale that of IGEMM; kind and depth are not
 * used. Offsets of words of quads are for bytes moved by 128 where rows are int8. False with the
 * error set past the memory budget. */
bool byte_channels_run(KernelCall *call, const Igemm *g, const ByteChannelsIsa *isa);

/* The channel, of a block of `width` channels, that element `lane` of vector `vector` is of; that of
 * narrow blocks comes once for each of their pixels. */
static inline uint64_t byte_channels_place(const ByteChannelsIsa *isa, uint64_t width,
                                           uint64_t vector, uint64_t lane) {
    const uint64_t part = 4 * (uint64_t)isa->vectors;
    return part * (lane / 4) % width + 4 * vector + lane % 4;
}

/* How many channels the block that begins with `at` is for: as many as the ISA's, or less at the
 * end, where there are more pixels instead. */
static inline uint64_t byte_channels_width(const ByteChannelsIsa *isa, uint64_t left) {
    uint64_t width = isa->block;
    while (width > isa->narrow && left <= width / 2) width /= 2;
    return width;
}

#endif
