// SPDX-License-Identifier: Apache-2.0
/* Case mappings as ranges; see kernel_letters.h. */
#include "kernel_letters.h"

#include <string.h>

/* Upper-case letters first .. last, each `step` apart; the lower-case one is `distance` further. */
typedef struct CaseRange {
    uint32_t first, last;
    int32_t distance;
    uint32_t step;
} CaseRange;

static const CaseRange ranges[] = {
    {0x41, 0x5A, 32, 1},    {0xC0, 0xD6, 32, 1},       {0xD8, 0xDE, 32, 1},
    {0x100, 0x12E, 1, 2},   {0x132, 0x136, 1, 2},      {0x139, 0x147, 1, 2},
    {0x14A, 0x176, 1, 2},   {0x178, 0x178, -121, 1},   {0x179, 0x17D, 1, 2},
    {0x1CD, 0x1DB, 1, 2},   {0x1DE, 0x1EE, 1, 2},      {0x1F8, 0x21E, 1, 2},
    {0x222, 0x232, 1, 2},   {0x386, 0x386, 38, 1},     {0x388, 0x38A, 37, 1},
    {0x38C, 0x38C, 64, 1},  {0x38E, 0x38F, 63, 1},     {0x391, 0x3A1, 32, 1},
    {0x3A3, 0x3AB, 32, 1},  {0x3D8, 0x3EE, 1, 2},      {0x400, 0x40F, 80, 1},
    {0x410, 0x42F, 32, 1},  {0x460, 0x480, 1, 2},      {0x48A, 0x4BE, 1, 2},
    {0x4C0, 0x4C0, 15, 1},  {0x4C1, 0x4CD, 1, 2},      {0x4D0, 0x52E, 1, 2},
    {0x531, 0x556, 48, 1},  {0x10A0, 0x10C5, 7264, 1}, {0x1E00, 0x1E94, 1, 2},
    {0x1EA0, 0x1EFE, 1, 2}, {0xFF21, 0xFF3A, 32, 1},
};

static uint32_t map(uint32_t letter, LettersChange change) {
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        const CaseRange *range = &ranges[i];
        uint32_t up = change == LETTERS_LOWER ? letter : letter - (uint32_t)range->distance;
        if (up < range->first || up > range->last || (up - range->first) % range->step) continue;
        return change == LETTERS_LOWER ? letter + (uint32_t)range->distance : up;
    }
    return letter;
}

/* Decodes a character of two or three bytes; 0 where there is none. */
static uint32_t decode(const unsigned char *text, uint64_t size, unsigned *length) {
    *length = text[0] >= 0xE0 ? 3 : 2;
    if (text[0] < 0xC2 || text[0] >= 0xF0 || size < *length) return 0;
    uint32_t letter = *length == 2 ? text[0] & 0x1Fu : text[0] & 0x0Fu;
    for (unsigned i = 1; i < *length; i++) {
        if ((text[i] & 0xC0) != 0x80) return 0;
        letter = letter << 6 | (text[i] & 0x3Fu);
    }
    return letter;
}

static unsigned encode(uint32_t letter, char *to) {
    if (letter < 0x80) {
        to[0] = (char)letter;
        return 1;
    }
    if (letter < 0x800) {
        to[0] = (char)(0xC0 | letter >> 6);
        to[1] = (char)(0x80 | (letter & 0x3F));
        return 2;
    }
    to[0] = (char)(0xE0 | letter >> 12);
    to[1] = (char)(0x80 | (letter >> 6 & 0x3F));
    to[2] = (char)(0x80 | (letter & 0x3F));
    return 3;
}

uint64_t letters_change(const char *text, uint64_t size, LettersChange change, char *to) {
    uint64_t length = 0;
    for (uint64_t at = 0; at < size;) {
        unsigned char byte = (unsigned char)text[at];
        unsigned width = 1;
        uint32_t letter =
            byte < 0x80 ? byte : decode((const unsigned char *)text + at, size - at, &width);
        uint32_t mapped = letter && change != LETTERS_SAME ? map(letter, change) : letter;
        if (letter && mapped != letter) {
            length += encode(mapped, to + length);
            at += width;
        } else { /* also the bytes of what is not a letter, one by one */
            to[length++] = text[at++];
        }
    }
    return length;
}
