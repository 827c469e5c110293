// SPDX-License-Identifier: Apache-2.0
/* Streaming the data of tensors out, and checking what arrived.
 *
 * A tensor goes through in pieces. While one piece is written, the next one is read, converted and
 * hashed in chunks, by whichever thread comes to them; so reading, converting and writing take the
 * time of the longest of them, and no more than two pieces are in memory. A tensor's checksum is
 * the sum of its chunks' hashes, so that both taking and checking it are work for all threads.
 */
#include <stdatomic.h>
#include <string.h>

#include "compare.h"
#include "export_parts.h"
#include "hash64.h"

/* Bytes, as written. A piece is long enough to be worth a system call; the first of a tensor is not
 * read, nor the last written, beside anything else, so it must not be much longer. */
enum { CHUNK = 1 << 17, CHUNKS = 4, PIECE = CHUNK * CHUNKS };

/* ---- checksums ------------------------------------------------------------------------------- */

static TensorSum *sum_slot(const ExportPlan *plan, const Tensor *tensor) {
    uint64_t hash = (uint64_t)(uintptr_t)tensor * UINT64_C(0x9e3779b97f4a7c15);
    for (uint64_t i = hash >> 32;; i++) {
        TensorSum *slot = &plan->sums[i & plan->sum_mask];
        const Tensor *held = atomic_load(&slot->tensor);
        if (!held || held == tensor) return slot;
    }
}

void export_make_sums(ExportPlan *plan) {
    plan->sum_mask = 15;
    while (plan->sum_mask < plan->streamed * 2) plan->sum_mask = plan->sum_mask * 2 + 1;
    plan->sums = ARENA_ARRAY(plan->arena, TensorSum, plan->sum_mask + 1);
    if (!plan->streamed) return;
    plan->checkers = workers_new_streaming(plan->arena);
    plan->check_chunks =
        arena_alloc_raw(plan->arena, (size_t)workers_lanes(plan->checkers) * CHUNK);
}

/* Before the bytes are written: who reads them finds it. */
static void add_sum(const ExportPlan *plan, const Tensor *tensor, uint64_t sum) {
    TensorSum *slot = sum_slot(plan, tensor);
    if (atomic_load(&slot->tensor)) return; /* of another place that has the same tensor */
    slot->sum = sum;
    atomic_store(&slot->tensor, tensor);
}

/* The chunk's number is its seed: chunks that change places change the sum. */
static uint64_t chunk_sum(const void *bytes, size_t size, uint64_t offset) {
    return hash64_bytes(bytes, size, offset / CHUNK);
}

uint64_t export_plan_data_hash(const ExportPlan *plan) {
    Hash64 hash;
    hash64_init(&hash, 0);
    for (size_t i = 0; i < plan->spilled.count; i++) {
        const Spilled *spilled = &plan->spilled.items[i];
        const uint64_t facts[] = {spilled->offset, spilled->size,
                                  sum_slot(plan, spilled->tensor)->sum};
        hash64_update(&hash, facts, sizeof facts);
    }
    return hash64_final(&hash);
}

/* ---- streaming ------------------------------------------------------------------------------- */

/* What happened to a chunk. */
typedef struct ChunkResult {
    uint64_t sum;
    Err err;
} ChunkResult;

typedef struct Stream {
    ExportPlan *plan;
    const ByteSink *sink; /* NULL: the open bytes field */
    const Tensor *tensor;
    uint64_t size;
    const unsigned char *memory; /* all of the data, or NULL: it is read into the plan's pieces */
    uint64_t reading;            /* where the piece at hand begins; the one before it is written */
    bool writes, wrote;          /* there is one before it; it was */
    uint64_t sum;
    ChunkResult *chunks; /* [CHUNKS] */
    Err *err;
} Stream;

/* The size bytes of the stream's data that the piece at `offset` has. */
static size_t piece_size(const Stream *s, uint64_t offset) {
    uint64_t left = offset < s->size ? s->size - offset : 0;
    return left < PIECE ? (size_t)left : PIECE;
}

static unsigned char *piece_buffer(const Stream *s, uint64_t offset) {
    return s->plan->pieces + (offset / PIECE & 1 ? PIECE : 0);
}

static void write_piece(Stream *s) {
    uint64_t offset = s->reading - PIECE;
    const unsigned char *bytes = s->memory ? s->memory + offset : piece_buffer(s, offset);
    size_t size = piece_size(s, offset);
    if (s->sink) {
        s->wrote = s->sink->write(s->sink->data, bytes, size, s->err);
    } else {
        writer_raw_bytes(&s->plan->w, bytes, size);
        s->wrote = !s->plan->w.failed;
    }
}

static void take_chunk(Stream *s, unsigned number) {
    ChunkResult *chunk = &s->chunks[number];
    uint64_t offset = s->reading + (uint64_t)number * CHUNK, left = s->size - offset;
    size_t size = left < CHUNK ? (size_t)left : CHUNK;
    unsigned char *buffer = s->memory ? NULL : piece_buffer(s, s->reading) + number * CHUNK;
    const unsigned char *bytes = s->memory ? s->memory + offset : buffer;
    chunk->err.code = ERR_NONE;
    if (buffer && !tensor_read_raw(s->tensor, offset, buffer, size, &chunk->err)) return;
    chunk->sum = chunk_sum(bytes, size, offset);
}

/* Writing is task 0, the caller's: a sink may be a user's function. */
static void stream_task(void *data, unsigned task, unsigned lane) {
    Stream *s = data;
    (void)lane;
    if (task == 0 && s->writes)
        write_piece(s);
    else
        take_chunk(s, task - s->writes);
}

static bool stream_pieces(Stream *s) {
    for (s->reading = 0; s->reading == 0 || piece_size(s, s->reading - PIECE) > 0;
         s->reading += PIECE) {
        unsigned chunks = (unsigned)((piece_size(s, s->reading) + CHUNK - 1) / CHUNK);
        s->writes = s->reading > 0;
        s->wrote = true;
        workers_run(s->plan->workers, s->writes + chunks, stream_task, s);
        if (!s->wrote) return false;
        for (unsigned i = 0; i < chunks; i++) {
            const ChunkResult *chunk = &s->chunks[i];
            if (chunk->err.code != ERR_NONE) {
                if (s->err && s->err->code == ERR_NONE) *s->err = chunk->err;
                return false;
            }
            s->sum += chunk->sum;
        }
        bool whole = s->reading + PIECE >= s->size;
        if (whole && (s->sink || s->size >= EXPORT_EXTERNAL_MIN))
            add_sum(s->plan, s->tensor, s->sum);
    }
    return true;
}

static void make_buffers(ExportPlan *plan) {
    plan->workers = workers_new_streaming(plan->arena);
    plan->pieces = arena_alloc_raw(plan->arena, 2 * PIECE);
}

bool export_stream_tensor(ExportPlan *plan, const ByteSink *sink, const Spilled *what, Err *err) {
    const Tensor *tensor = what->tensor;
    if (!plan->workers) make_buffers(plan);
    ChunkResult chunks[CHUNKS]; /* not cleared: they are much larger than a small tensor */
    Stream s = {.plan = plan,
                .sink = sink,
                .tensor = tensor,
                .size = what->size,
                .chunks = chunks,
                .err = err};
    bool stored = tensor->storage == TENSOR_RAW || tensor->storage == TENSOR_EXTERNAL;
    if (stored && !tensor->cast_of) s.memory = tensor->bytes;
    return stream_pieces(&s);
}

static bool write_zeros(const ByteSink *sink, uint64_t count, Err *err) {
    static const unsigned char zeros[1 << 12];
    while (count > 0) {
        size_t now = count < sizeof zeros ? (size_t)count : sizeof zeros;
        if (!sink->write(sink->data, zeros, now, err)) return false;
        count -= now;
    }
    return true;
}

bool onnx_export_data(ExportPlan *plan, const ByteSink *sink, Err *err) {
    uint64_t position = 0;
    for (size_t i = 0; i < plan->spilled.count; i++) {
        const Spilled *spilled = &plan->spilled.items[i];
        if (spilled->size && !write_zeros(sink, spilled->offset - position, err)) return false;
        if (!export_stream_tensor(plan, sink, spilled, err)) {
            err_operand(err, "tensor '%s'", sym_text(spilled->tensor->name));
            return false;
        }
        if (spilled->size) position = spilled->offset + spilled->size;
    }
    return true;
}

/* ---- checking -------------------------------------------------------------------------------- */

typedef struct Check {
    const Tensor *tensor;
    unsigned char *chunks; /* [lanes][CHUNK] */
    ChunkResult *lanes;    /* [lanes]: the sum of the chunks that each took */
} Check;

static void check_chunk(void *data, unsigned task, unsigned lane) {
    const Check *c = data;
    ChunkResult *result = &c->lanes[lane];
    unsigned char *bytes = c->chunks + (size_t)lane * CHUNK;
    uint64_t offset = (uint64_t)task * CHUNK, left = c->tensor->size - offset;
    size_t size = left < CHUNK ? (size_t)left : CHUNK;
    if (result->err.code == ERR_NONE &&
        tensor_read_raw(c->tensor, offset, bytes, size, &result->err))
        result->sum += chunk_sum(bytes, size, offset);
}

bool export_plan_same_data(ExportPlan *plan, const Tensor *written, const Tensor *read, Err *err) {
    const TensorSum *expected = sum_slot(plan, written);
    uint64_t chunks = (read->size + CHUNK - 1) / CHUNK, sum = 0;
    if (!atomic_load(&expected->tensor) || chunks > UINT32_MAX)
        return tensor_compare_raw(written, read, read->size, err);
    const unsigned lanes = workers_lanes(plan->checkers);
    ChunkResult results[WORKERS_STREAMING] = {{.sum = 0}};
    Check c = {.tensor = read, .chunks = plan->check_chunks, .lanes = results};
    workers_run(plan->checkers, (unsigned)chunks, check_chunk, &c);
    for (unsigned i = 0; i < lanes; i++) {
        if (results[i].err.code != ERR_NONE) {
            if (err && err->code == ERR_NONE) *err = results[i].err;
            return false;
        }
        sum += results[i].sum;
    }
    return sum == expected->sum || err_set(err, ERR_MODEL, "checksum of a tensor's data differs");
}
