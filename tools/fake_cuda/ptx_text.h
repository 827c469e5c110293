// SPDX-License-Identifier: Apache-2.0
/* PTX as text: a module's functions and data, and statements of a function. */
#ifndef FAKE_PTX_TEXT_H
#define FAKE_PTX_TEXT_H

#include "ptx_code.h"

/* A piece of the module's text. */
typedef struct PtxSlice {
    const char *at;
    uint32_t length;
} PtxSlice;

typedef struct PtxFunction {
    PtxSlice name, header, body; /* between its braces */
    bool entry;
} PtxFunction;

/* Memory of the module itself, or all blocks' dynamic shared memory. */
typedef struct PtxData {
    PtxSlice name;
    PtxRegion region;
    bool shared; /* dynamic shared memory, without a region */
} PtxData;

struct PtxModule {
    PtxFunction *functions;
    uint32_t function_count, function_room;
    PtxData *data;
    uint32_t data_count, data_room;
    PtxKernel *kernels; /* that were decoded */
};

/* A statement: its words up to the semicolon. Braces around statements were left out, those of a
 * declaration or operand are part of it. */
typedef struct PtxStatement {
    PtxSlice guard; /* "%p1" or "!%p1"; empty for none */
    PtxSlice name;  /* of the instruction or directive; of a label without colon */
    PtxSlice rest;
    bool label;
} PtxStatement;

/* The next statement from *at on, which moves behind it; false at the end. */
bool ptx_next(const char **at, const char *end, PtxStatement *statement);

/* The next of operands separated by commas, with brackets and braces closed; false at the end. */
bool ptx_next_operand(PtxSlice *rest, PtxSlice *operand);

/* Without what is around: spaces, and one pair of brackets or braces. */
PtxSlice ptx_trim(PtxSlice slice);
PtxSlice ptx_inside(PtxSlice slice);
bool ptx_same(PtxSlice a, PtxSlice b);
/* Asked of each statement with dozens of names, whose length compilers know here. */
static inline bool ptx_starts(PtxSlice slice, const char *text) {
    const size_t length = strlen(text);
    return slice.length >= length && memcmp(slice.at, text, length) == 0;
}
static inline bool ptx_is(PtxSlice slice, const char *text) {
    return slice.length == strlen(text) && ptx_starts(slice, text);
}
/* Where the text first is in it; NULL for nowhere. */
const char *ptx_search(PtxSlice slice, const char *text);
/* A word of letters, digits, _, $ and % at the start. */
PtxSlice ptx_word(PtxSlice slice);

/* Finds functions and data. False with `why`. */
bool ptx_scan(PtxModule *module, const char *text, char *why);

/* [`count` + 1] elements behind `items`, as more of them are needed; ends the program without memory. */
void *ptx_grow(void *items, uint32_t count, uint32_t *room, uint32_t size);

#endif
