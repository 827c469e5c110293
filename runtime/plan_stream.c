// SPDX-License-Identifier: Apache-2.0
/* Writing plans; see plan.h. Constants are read from their source only here, so that no plan is in memory
 * as a whole.
 *
 * The file is made a batch at a time. While one batch is hashed and written, by two threads, the others read
 * the next one in chunks. A constant that gets a layout is read whole before, and packed, by all threads: it
 * is there twice meanwhile, in memory that the next one uses again. A large one is hashed and written from
 * where it was packed, while the next one is read. Bytes are the same for any number of threads.
 */
#include <string.h>

#include "hash64.h"
#include "kernel.h"
#include "plan.h"
#include "work_progress.h"
#include "workers.h"

enum {
    CHUNK = 1 << 19, /* bytes: what a task reads */
    BATCH = 4 * PLAN_BLOCK,
    FEW = 64 << 10, /* bytes of a constant below which a batch of them is one thread's: small reads
                            that follow one another are served from what was read ahead */
    PARTS = 4,      /* of a constant that is packed, for each thread */
    LARGE = BATCH,  /* bytes of a packed constant from which on it is no part of a batch */
    SINGLE = PLAN_BLOCK, /* bytes of a plan up to which no threads are made */
};

/* Memory that is used again, for what fits. */
typedef struct Room {
    void *items;
    size_t size;
    char *bytes; /* of them, 64-byte aligned */
} Room;

typedef enum Work { WORK_READ, WORK_PACK, WORK_FILL } Work;

typedef struct Stream {
    const PlanBuilder *b;
    PlanSections sections;
    const PlanHeader *header;
    uint64_t data, body; /* where DATA begins; the file without the sum */
    PlanWriteFn write;
    void *user;
    Workers *workers;
    Room batches[2];
    unsigned current;    /* of batches, the one that is filled */
    uint64_t start;      /* of it, in the file */
    unsigned piece;      /* progress_begin's */
    const char *pending; /* the other one, or `packed`, where it is to be hashed and written yet */
    size_t pending_size;
    bool wrote;
    Err write_err;
    Hash64 hash;
    const PlanConstant *made; /* what lies in `packed`, or in `plain` where it has no layout */
    Room plain, packed;
    Work work;
    const PlanConstant *making; /* of WORK_READ and WORK_PACK */
    uint64_t from, to, step;    /* of WORK_FILL: bytes of the file, and of each task */
    unsigned parts;             /* of WORK_PACK */
    Err lanes[WORKERS_STREAMING];
} Stream;

static void room_for(Stream *s, Room *room, uint64_t size) {
    const size_t wanted = (size_t)size + PLAN_ALIGN;
    if (room->size >= wanted) return;
    arena_release(s->b->arena, room->items, room->size);
    room->size = 0;
    room->items = arena_alloc_raw(s->b->arena, wanted);
    room->size = wanted;
    room->bytes = (char *)room->items + -(uintptr_t)room->items % PLAN_ALIGN;
}

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* ---- what the file has ----------------------------------------------------------------------- */

/* The first constant that ends behind that byte of DATA. */
static size_t constant_at(const Stream *s, uint64_t at) {
    size_t low = 0, high = s->b->constants.count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const PlanConstant *c = &s->b->constants.items[middle];
        if (c->offset + c->size <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Has to be made as a whole, before any part of it is put into the file. */
static bool is_made(const PlanConstant *c) {
    return c->layout || c->whole;
}

/* What [from, to) has of bytes that lie at `at` in the file. */
static void copy_part(const void *bytes, uint64_t at, uint64_t size, uint64_t from, uint64_t to,
                      char *buffer) {
    const uint64_t first = at > from ? at : from, last = least(at + size, to);
    if (first < last)
        memcpy(buffer + (first - from), (const char *)bytes + (first - at), (size_t)(last - first));
}

/* Bytes [from, to) of the file, as far as they are tables, into `buffer`, which has the file from byte
 * `from` on. */
static void fill_tables(const Stream *s, uint64_t from, uint64_t to, char *buffer) {
    if (from >= s->data) return;
    memset(buffer, 0, (size_t)(least(to, s->data) - from));
    copy_part(s->header, 0, sizeof *s->header, from, to, buffer);
    for (int i = 0; i < PLAN_DATA; i++) {
        const uint64_t size = s->sections.of[i].count * s->sections.of[i].size;
        copy_part(s->sections.of[i].items, s->sections.places[i].offset, size, from, to, buffer);
    }
}

static bool fill_constant(const Stream *s, const PlanConstant *c, uint64_t offset, char *buffer,
                          uint64_t size, Err *err) {
    if (!is_made(c)) return c->read(c->data, offset, buffer, size, err);
    memcpy(buffer, (c->layout ? s->packed : s->plain).bytes + offset, (size_t)size);
    return true;
}

/* The same of constants, and of what lies between them. */
static bool fill_data(const Stream *s, uint64_t from, uint64_t to, char *buffer, Err *err) {
    const uint64_t skipped = from < s->data ? s->data - from : 0;
    if (skipped >= to - from) return true;
    char *out = buffer + skipped;
    uint64_t at = from + skipped - s->data;
    const uint64_t end = to - s->data;
    for (size_t i = constant_at(s, at); i < s->b->constants.count && at < end; i++) {
        const PlanConstant *c = &s->b->constants.items[i];
        const uint64_t gap = c->offset > at ? least(c->offset, end) - at : 0;
        memset(out, 0, (size_t)gap);
        at += gap, out += gap;
        const uint64_t size = at < end ? least(c->offset + c->size, end) - at : 0;
        if (size && !fill_constant(s, c, at - c->offset, out, size, err)) return false;
        at += size, out += size;
    }
    memset(out, 0, (size_t)(end - at));
    return true;
}

/* ---- tasks ----------------------------------------------------------------------------------- */

static void write_pending(Stream *s) {
    for (size_t at = 0; s->wrote && at < s->pending_size; at += PLAN_BLOCK)
        s->wrote = s->write(s->user, s->pending + at,
                            (size_t)least(PLAN_BLOCK, s->pending_size - at), &s->write_err);
}

static bool read_chunk(const Stream *s, unsigned task, Err *err) {
    const PlanConstant *c = s->making;
    if (c->whole) return c->read(c->data, 0, s->plain.bytes, c->plain, err);
    const uint64_t at = (uint64_t)task * CHUNK, size = least(CHUNK, c->plain - at);
    return c->read(c->data, at, s->plain.bytes + at, size, err);
}

static bool fill_chunk(const Stream *s, unsigned task, Err *err) {
    const uint64_t from = s->from + task * s->step, to = least(from + s->step, s->to);
    char *buffer = s->batches[s->current].bytes + (from - s->start);
    fill_tables(s, from, to, buffer);
    return fill_data(s, from, to, buffer, err);
}

/* The caller's callback is called in task 0, which is the caller's thread's. */
static void do_task(void *data, unsigned task, unsigned lane) {
    Stream *s = data;
    const unsigned first = s->pending_size ? 2 : 0;
    Err *err = &s->lanes[lane];
    if (task < first) {
        if (task == 0)
            write_pending(s);
        else
            hash64_update(&s->hash, s->pending, s->pending_size);
        return;
    }
    if (err->code != ERR_NONE) return;
    if (s->work == WORK_READ) read_chunk(s, task - first, err);
    if (s->work == WORK_FILL) fill_chunk(s, task - first, err);
    if (s->work == WORK_PACK)
        weight_layout_pack_part(s->making->layout, s->plain.bytes, s->packed.bytes, task - first,
                                s->parts);
}

/* So many tasks of the work, and what is pending. */
static bool do_work(Stream *s, Work work, uint64_t count, Err *err) {
    s->work = work;
    workers_run(s->workers, (unsigned)count + (s->pending_size ? 2 : 0), do_task, s);
    s->pending_size = 0;
    const Err *failed = s->wrote ? NULL : &s->write_err;
    for (unsigned i = 0; !failed && i < workers_lanes(s->workers); i++)
        if (s->lanes[i].code != ERR_NONE) failed = &s->lanes[i];
    if (failed && err && err->code == ERR_NONE) *err = *failed;
    return !failed;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static bool make_constant(Stream *s, const PlanConstant *c, Err *err) {
    s->making = c;
    s->made = NULL;
    room_for(s, &s->plain, c->plain);
    if (!do_work(s, WORK_READ, c->whole ? 1 : (c->plain + CHUNK - 1) / CHUNK, err)) return false;
    s->parts = workers_lanes(s->workers) * PARTS;
    if (c->layout) {
        room_for(s, &s->packed, c->size);
        if (!do_work(s, WORK_PACK, s->parts, err)) return false;
    }
    s->made = c;
    return true;
}

/* Makes what lies at that byte of the file, if it has to be made; how far the file can be filled then. */
static bool make_next(Stream *s, uint64_t from, uint64_t *to, Err *err) {
    *to = least(s->start + BATCH, s->body);
    if (from < s->data) {
        *to = least(*to, s->data);
        return true;
    }
    for (size_t i = constant_at(s, from - s->data); i < s->b->constants.count; i++) {
        const PlanConstant *c = &s->b->constants.items[i];
        const uint64_t at = s->data + c->offset;
        if (at >= *to) break;
        if (!is_made(c)) continue;
        const bool here = at <= from;
        if (here && s->made != c && !make_constant(s, c, err)) return false;
        *to = least(*to, here ? at + c->size : at);
        break;
    }
    return true;
}

/* Many small constants are one task's, in their order. */
static bool fill(Stream *s, uint64_t from, uint64_t to, Err *err) {
    s->from = from, s->to = to, s->step = CHUNK;
    if (from >= s->data) {
        const uint64_t count = constant_at(s, to - s->data) - constant_at(s, from - s->data) + 1;
        if (count > 1 && (to - from) / count < FEW) s->step = to - from;
    }
    return do_work(s, WORK_FILL, (to - from + s->step - 1) / s->step, err);
}

/* The batch that is filled is to be hashed and written, and the other one, which was, filled. */
static void turn(Stream *s, uint64_t end) {
    s->pending = s->batches[s->current].bytes;
    s->pending_size = (size_t)(end - s->start);
    s->current ^= 1;
    s->start = end;
    progress_at(s->piece, end);
}

/* A large constant that gets a layout and begins at that byte of the file; NULL where there is none. */
static const PlanConstant *large_at(const Stream *s, uint64_t at) {
    if (at < s->data) return NULL;
    const size_t i = constant_at(s, at - s->data);
    const PlanConstant *c = i < s->b->constants.count ? &s->b->constants.items[i] : NULL;
    return c && c->offset == at - s->data && c->layout && c->size >= LARGE ? c : NULL;
}

/* Has it hashed and written from where it is packed, behind what the batch has. What is pending has been
 * written when the next one is packed: that is read first, which does it. */
static bool put_large(Stream *s, const PlanConstant *c, uint64_t at, Err *err) {
    if (at > s->start) turn(s, at);
    if (!make_constant(s, c, err)) return false;
    s->pending = s->packed.bytes;
    s->pending_size = (size_t)c->size;
    s->start = at + c->size;
    progress_at(s->piece, s->start);
    return true;
}

/* The last batch, and the sum of all behind it. */
static bool finish(Stream *s, Err *err) {
    char *last = s->batches[s->current].bytes;
    const size_t size = (size_t)(s->body - s->start);
    PlanSum sum = {.magic = PLAN_SUM_MAGIC};
    if (s->pending_size && !do_work(s, WORK_FILL, 0, err)) return false;
    hash64_update(&s->hash, last, size);
    sum.hash = hash64_final(&s->hash);
    memcpy(last + size, &sum, sizeof sum);
    s->pending = last;
    s->pending_size = size + sizeof sum;
    write_pending(s);
    if (!s->wrote && err && err->code == ERR_NONE) *err = s->write_err;
    return s->wrote;
}

static bool stream(Stream *s, Err *err) {
    for (uint64_t at = 0, to; at < s->body; at = to) {
        const PlanConstant *large = large_at(s, at);
        if (large) {
            if (!put_large(s, large, at, err)) return false;
            to = s->start;
            continue;
        }
        if (!make_next(s, at, &to, err) || !fill(s, at, to, err)) return false;
        if (to == s->start + BATCH && to < s->body) turn(s, to);
    }
    return finish(s, err);
}

bool plan_write(PlanBuilder *b, PlanWriteFn write, void *data, Err *err) {
    Stream s = {.b = b, .sections = plan_sections(b), .write = write, .user = data, .wrote = true};
    const PlanSection *places = s.sections.places;
    PlanHeader header = {.magic = PLAN_MAGIC,
                         .version = PLAN_VERSION,
                         .numerics = (uint8_t)b->numerics,
                         .small = b->small,
                         .header_size = sizeof header,
                         .file_size = s.sections.file_size,
                         .kernels = kernel_table_version(),
                         .source = {b->source[0], b->source[1]},
                         .isa = b->isa,
                         .tuned = b->choices.count ? (uint16_t)b->tuned : 0,
                         .threads = b->choices.count ? b->threads : 0};
    memcpy(header.sections, places, sizeof header.sections);
    s.header = &header;
    s.data = places[PLAN_DATA].offset;
    s.body = s.sections.file_size - sizeof(PlanSum);
    s.workers = s.body > SINGLE ? workers_new_streaming(b->arena) : workers_new(b->arena, 1);
    for (int i = 0; i < (s.body > BATCH ? 2 : 1); i++)
        room_for(&s, &s.batches[i], least(s.body, BATCH) + sizeof(PlanSum));
    hash64_init(&s.hash, 0);
    s.piece =
        progress_begin(b->maps ? "packing weights" : "writing the plan", s.body, PROGRESS_BYTES);
    const bool ok = stream(&s, err);
    progress_end(s.piece);
    Room *const rooms[] = {&s.batches[0], &s.batches[1], &s.plain, &s.packed};
    for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++)
        arena_release(b->arena, rooms[i]->items, rooms[i]->size);
    return ok;
}
