// SPDX-License-Identifier: Apache-2.0
/* For tests: wire bytes written by hand, valid or not.
 *
 *     Wire node = {.arena = &arena}, graph = {.arena = &arena};
 *     build_text(&node, 4, "Relu");
 *     build_message(&graph, 1, &node);
 */
#ifndef DEMI_WIRE_BUILD_H
#define DEMI_WIRE_BUILD_H

#include <string.h>

#include "wire_read.h"
#include "vec.h"

typedef struct Wire {
    Arena *arena;
    unsigned char *items;
    size_t count, capacity;
} Wire;

/* Any bytes. */
static inline void build_raw(Wire *wire, const void *bytes, size_t size) {
    for (size_t i = 0; i < size; i++)
        VEC_PUSH(wire->arena, wire, ((const unsigned char *)bytes)[i]);
}

static inline void build_varint(Wire *wire, uint64_t value) {
    unsigned char bytes[WIRE_VARINT_MAX];
    build_raw(wire, bytes, wire_put_varint(bytes, value));
}

static inline void build_tag(Wire *wire, uint32_t field, WireType type) {
    build_varint(wire, (uint64_t)field << 3 | (uint64_t)type);
}

/* An integer field. */
static inline void build_int(Wire *wire, uint32_t field, uint64_t value) {
    build_tag(wire, field, WIRE_VARINT);
    build_varint(wire, value);
}

static inline void build_bytes(Wire *wire, uint32_t field, const void *bytes, size_t size) {
    build_tag(wire, field, WIRE_BYTES);
    build_varint(wire, size);
    build_raw(wire, bytes, size);
}

static inline void build_text(Wire *wire, uint32_t field, const char *text) {
    build_bytes(wire, field, text, strlen(text));
}

static inline void build_message(Wire *wire, uint32_t field, const Wire *message) {
    build_bytes(wire, field, message->items, message->count);
}

#endif
