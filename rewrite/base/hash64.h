// SPDX-License-Identifier: Apache-2.0
/* A fast 64-bit hash of contents: XXH64, after its published specification.
 *
 * It tells contents apart and detects damage; it is not cryptographic: who can choose the contents
 * can make two of them collide. The result is the same on every machine and for every division of
 * the bytes into updates.
 */
#ifndef DEMI_BASE_HASH64_H
#define DEMI_BASE_HASH64_H

#include <stddef.h>
#include <stdint.h>

typedef struct Hash64 {
    uint64_t lanes[4];
    uint64_t total; /* bytes so far */
    uint64_t seed;
    unsigned char pending[32]; /* the last total % 32 bytes */
} Hash64;

/* Starts a hash; seed 0 where nothing speaks for another. */
void hash64_init(Hash64 *hash, uint64_t seed);

/* Adds bytes; `bytes` may be NULL where size is 0. */
void hash64_update(Hash64 *hash, const void *bytes, size_t size);

/* The hash of all bytes so far; the state is unchanged and may go on. */
uint64_t hash64_final(const Hash64 *hash);

/* init, update and final in one. */
uint64_t hash64_bytes(const void *bytes, size_t size, uint64_t seed);

#endif
