// SPDX-License-Identifier: Apache-2.0
/* Eight bytes as a little-endian word, on every machine. */
#ifndef DEMI_BASE_LE_WORD_H
#define DEMI_BASE_LE_WORD_H

#include <stdint.h>
#include <string.h>

static inline uint64_t le_word(const unsigned char *bytes) {
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word;
}

#endif
