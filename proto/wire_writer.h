// SPDX-License-Identifier: Apache-2.0
/* WireWriter: protobuf wire format, streamed.
 *
 * A nested message needs its length before its contents. So the same code runs twice over a model:
 * a counting pass notes the length of every message in the order they are opened, then a writing
 * pass takes them from there. Nothing but these lengths (4 bytes a message) is held, and the two
 * passes can't disagree without being noticed.
 *
 * Fields of a message must be put in the order of their numbers. A message's `rest` (wire bytes of
 * fields that the graph does not model) is merged in: known fields at their place by number,
 * unknown ones after all others, which is where every protobuf library writes them.
 */
#ifndef DEMI_WIRE_WRITER_H
#define DEMI_WIRE_WRITER_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stdint.h>

#include "arena.h"
#include "err.h"
#include "sym.h"
#include "vec.h"
#include "wire_guard.h"

/* Where bytes go. write returns false with *err set to stop everything. It must not jump: what
 * comes next is being read by other threads meanwhile. */
typedef struct ByteSink {
    bool (*write)(void *data, const void *bytes, size_t size, Err *err);
    void *data;
} ByteSink;

typedef struct WireFrame {
    const ProtobufCMessageDescriptor *known; /* tells known from unknown fields of rest */
    Bytes rest;
    uint32_t rest_next; /* known fields of rest below this number are written */
    uint64_t rest_drop; /* set of field numbers below 64 that are left out of rest */
    uint64_t start;     /* position after the length */
    size_t slot;        /* of its length */
} WireFrame;

typedef struct WireWriter {
    const ByteSink *sink; /* NULL: the counting pass */
    Err *err;
    bool failed;       /* an error was set; everything that follows does nothing */
    uint64_t position; /* bytes so far */
    Arena *arena;
    VEC(uint32_t) lengths;                /* of messages, in order of opening */
    size_t next_length;                   /* writing: the next to be used */
    WireFrame frames[WIRE_DEPTH_MAX + 2]; /* the outermost message, nested ones, a packed field */
    uint32_t depth;
    unsigned char *buffer;
    size_t filled;
} WireWriter;

/* Starts counting; lengths go to the arena. */
void writer_init(WireWriter *writer, Arena *arena, Err *err);

/* Starts writing to sink what was counted before. */
void writer_start_writing(WireWriter *writer, const ByteSink *sink, Err *err);

/* Opens the outermost message, which has neither number nor length. */
void writer_open_root(WireWriter *writer, const ProtobufCMessageDescriptor *known, Bytes rest);

/* Opens a nested message. More than WIRE_DEPTH_MAX of them are an ERR_MODEL. */
void writer_open(WireWriter *writer, uint32_t number, const ProtobufCMessageDescriptor *known,
                 Bytes rest);

/* Opens a packed repeated field: writer_raw_* follow. */
void writer_open_packed(WireWriter *writer, uint32_t number);

/* Writes what is left of rest and closes message or packed field. */
void writer_close(WireWriter *writer);

/* Leaves a known field of the open message's rest out. number < 64. */
void writer_drop(WireWriter *writer, uint32_t number);

/* One field of the open message. A NULL Sym is an absent field. */
void writer_put_varint(WireWriter *writer, uint32_t number, uint64_t value);
void writer_put_float(WireWriter *writer, uint32_t number, float value);
void writer_put_bytes(WireWriter *writer, uint32_t number, const void *bytes, uint64_t size);
void writer_put_sym(WireWriter *writer, uint32_t number, Sym sym);

/* The head of a bytes field of `size` bytes, which writer_raw_bytes or writer_skip must follow. */
void writer_put_head(WireWriter *writer, uint32_t number, uint64_t size);
void writer_raw_varint(WireWriter *writer, uint64_t value);
void writer_raw_bytes(WireWriter *writer, const void *bytes, uint64_t size);
/* Counting only: as if size bytes were written. */
void writer_skip(WireWriter *writer, uint64_t size);

/* Empties the buffer; false where anything failed since writer_init or writer_start_writing. */
bool writer_finish(WireWriter *writer);

#endif
