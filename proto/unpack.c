// SPDX-License-Identifier: Apache-2.0
/* A bump allocator for protobuf-c; see unpack.h. */
#include "unpack.h"

#include <string.h>

enum { BLOCK_SIZE = 1 << 16, ALIGN = _Alignof(max_align_t) };

void *unpacker_alloc(Unpacker *unpacker, size_t size) {
    if (size > BLOCK_SIZE) return arena_alloc(&unpacker->large, size);
    size_t rounded = (size + ALIGN - 1) / ALIGN * ALIGN;
    if (rounded > BLOCK_SIZE - unpacker->used) return arena_alloc(&unpacker->large, size);
    void *result = unpacker->block + unpacker->used;
    unpacker->used += rounded;
    return memset(result, 0, rounded);
}

/* protobuf-c fills what it allocates itself, so this one does not clear it. */
static void *allocate(void *data, size_t size) {
    Unpacker *unpacker = data;
    if (size > BLOCK_SIZE - ALIGN) return arena_alloc(&unpacker->large, size);
    size_t rounded = size == 0 ? ALIGN : (size + ALIGN - 1) / ALIGN * ALIGN;
    if (rounded > BLOCK_SIZE - unpacker->used) return arena_alloc(&unpacker->large, size);
    void *result = unpacker->block + unpacker->used;
    unpacker->used += rounded;
    return result;
}

static void release(void *data, void *pointer) {
    (void)data;
    (void)pointer; /* freed by unpacker_reset */
}

static void free_large(void *data) {
    arena_free(&((Unpacker *)data)->large);
}

void unpacker_init(Unpacker *unpacker, Arena *owner) {
    *unpacker =
        (Unpacker){.allocator = {.alloc = allocate, .free = release, .allocator_data = unpacker}};
    arena_init(&unpacker->large, owner->trap);
    unpacker->large.budget = owner->budget;
    unpacker->block = arena_alloc(owner, BLOCK_SIZE);
    arena_defer(owner, free_large, unpacker);
}

void unpacker_reset(Unpacker *unpacker) {
    unpacker->used = 0;
    if (unpacker->large.chunks) arena_free(&unpacker->large);
}

ProtobufCMessage *unpacker_unpack(Unpacker *unpacker, const ProtobufCMessageDescriptor *descriptor,
                                  Bytes bytes) {
    static const unsigned char empty[1] = {0};
    return protobuf_c_message_unpack(descriptor, &unpacker->allocator, bytes.size,
                                     bytes.data ? bytes.data : empty);
}
