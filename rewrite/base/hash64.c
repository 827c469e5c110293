// SPDX-License-Identifier: Apache-2.0
/* XXH64: four lanes take 8 bytes each of every 32-byte stripe, then are merged, the remaining bytes
 * are mixed in, and the bits avalanched. All words are little-endian; the constants and rotations
 * are those of the specification. */
#include "hash64.h"

#include <string.h>

#include "le_word.h"

#define PRIME1 0x9E3779B185EBCA87u
#define PRIME2 0xC2B2AE3D27D4EB4Fu
#define PRIME3 0x165667B19E3779F9u
#define PRIME4 0x85EBCA77C2B2AE63u
#define PRIME5 0x27D4EB2F165667C5u

enum { STRIPE = 32 };

static inline uint64_t rotate(uint64_t value, unsigned bits) {
    return value << bits | value >> (64 - bits);
}

static inline uint64_t read_half_word(const unsigned char *bytes) {
    uint32_t word;
    memcpy(&word, bytes, sizeof word);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap32(word);
#endif
    return word;
}

static inline uint64_t lane_round(uint64_t lane, uint64_t word) {
    return rotate(lane + word * PRIME2, 31) * PRIME1;
}

/* Takes the whole stripes of `bytes`; the lanes are held in locals so that they stay in registers.
 */
static void take_stripes(Hash64 *hash, const unsigned char *bytes, size_t count) {
    uint64_t a = hash->lanes[0], b = hash->lanes[1], c = hash->lanes[2], d = hash->lanes[3];
    for (; count > 0; count--, bytes += STRIPE) {
        a = lane_round(a, le_word(bytes));
        b = lane_round(b, le_word(bytes + 8));
        c = lane_round(c, le_word(bytes + 16));
        d = lane_round(d, le_word(bytes + 24));
    }
    hash->lanes[0] = a, hash->lanes[1] = b, hash->lanes[2] = c, hash->lanes[3] = d;
}

void hash64_init(Hash64 *hash, uint64_t seed) {
    *hash = (Hash64){.seed = seed,
                     .lanes = {seed + PRIME1 + PRIME2, seed + PRIME2, seed, seed - PRIME1}};
}

void hash64_update(Hash64 *hash, const void *bytes, size_t size) {
    const unsigned char *from = bytes;
    if (size == 0) return;
    size_t pending = hash->total % STRIPE;
    hash->total += size;
    if (pending) {
        size_t some = size < STRIPE - pending ? size : STRIPE - pending;
        memcpy(hash->pending + pending, from, some);
        if (pending + some < STRIPE) return;
        take_stripes(hash, hash->pending, 1);
        from += some;
        size -= some;
    }
    take_stripes(hash, from, size / STRIPE);
    memcpy(hash->pending, from + size / STRIPE * STRIPE, size % STRIPE);
}

static uint64_t merge_lanes(const uint64_t lanes[4]) {
    uint64_t result =
        rotate(lanes[0], 1) + rotate(lanes[1], 7) + rotate(lanes[2], 12) + rotate(lanes[3], 18);
    for (int i = 0; i < 4; i++) result = (result ^ lane_round(0, lanes[i])) * PRIME1 + PRIME4;
    return result;
}

static uint64_t mix_rest(uint64_t result, const unsigned char *bytes, size_t size) {
    for (; size >= 8; size -= 8, bytes += 8)
        result = rotate(result ^ lane_round(0, le_word(bytes)), 27) * PRIME1 + PRIME4;
    if (size >= 4) {
        result = rotate(result ^ read_half_word(bytes) * PRIME1, 23) * PRIME2 + PRIME3;
        size -= 4, bytes += 4;
    }
    for (; size > 0; size--, bytes++) result = rotate(result ^ *bytes * PRIME5, 11) * PRIME1;
    return result;
}

uint64_t hash64_final(const Hash64 *hash) {
    uint64_t result = hash->total >= STRIPE ? merge_lanes(hash->lanes) : hash->seed + PRIME5;
    result = mix_rest(result + hash->total, hash->pending, hash->total % STRIPE);
    result = (result ^ result >> 33) * PRIME2;
    result = (result ^ result >> 29) * PRIME3;
    return result ^ result >> 32;
}

uint64_t hash64_bytes(const void *bytes, size_t size, uint64_t seed) {
    Hash64 hash;
    hash64_init(&hash, seed);
    hash64_update(&hash, bytes, size);
    return hash64_final(&hash);
}
