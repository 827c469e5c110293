// SPDX-License-Identifier: Apache-2.0
/* Pieces of work in a table of the program's: what is left by a jump must not be a frame's. */
#define _POSIX_C_SOURCE 200809L
#include "work_progress.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

typedef struct Piece {
    char what[PROGRESS_TEXT];
    ProgressUnit unit;
    uint64_t total, first; /* first: done when it was first asked for, at `began` */
    double began;          /* 0: nobody has asked */
    _Atomic uint64_t done, read, written;
} Piece;

atomic_bool progress_heard;

/* `lock` is for what is no counter: the thread that listens writes it, and another one reads it. */
static struct {
    pthread_mutex_t lock;
    pthread_t thread;
    void (*idle)(void *user);
    void *user;
    unsigned open; /* pieces, more than PROGRESS_DEPTH of which have no place; that thread's */
    atomic_uint depth;
    Piece pieces[PROGRESS_DEPTH];
} way = {.lock = PTHREAD_MUTEX_INITIALIZER};

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

void progress_listen(void (*idle)(void *user), void *user) {
    way.thread = pthread_self();
    way.idle = idle;
    way.user = user;
    way.open = 0;
    atomic_store(&way.depth, 0);
    atomic_store(&progress_heard, idle != NULL);
}

static bool is_listening(void) {
    return pthread_equal(way.thread, pthread_self());
}

static void set_open(unsigned open) {
    way.open = open;
    atomic_store(&way.depth, open < PROGRESS_DEPTH ? open : PROGRESS_DEPTH);
}

static void set(Piece *piece, const char *what, uint64_t done, uint64_t total) {
    size_t size = strlen(what);
    if (size >= PROGRESS_TEXT) size = PROGRESS_TEXT - 1;
    memcpy(piece->what, what, size);
    piece->what[size] = '\0';
    piece->total = total;
    atomic_store_explicit(&piece->done, done, memory_order_relaxed);
    atomic_store_explicit(&piece->read, 0, memory_order_relaxed);
    atomic_store_explicit(&piece->written, 0, memory_order_relaxed);
}

unsigned progress_begin_heard(const char *what, uint64_t total, ProgressUnit unit) {
    if (!is_listening()) return 0;
    if (way.open < PROGRESS_DEPTH) {
        Piece *piece = &way.pieces[way.open];
        pthread_mutex_lock(&way.lock);
        set(piece, what, 0, total);
        piece->unit = unit;
        piece->began = 0;
        pthread_mutex_unlock(&way.lock);
    }
    set_open(way.open + 1);
    return way.open;
}

void progress_at_heard(unsigned piece, uint64_t done) {
    if (piece > PROGRESS_DEPTH) return;
    atomic_store_explicit(&way.pieces[piece - 1].done, done, memory_order_relaxed);
}

void progress_turn(unsigned piece, const char *what, uint64_t done, uint64_t total) {
    if (!piece) return;
    set_open(piece);
    if (piece > PROGRESS_DEPTH) return;
    Piece *at = &way.pieces[piece - 1];
    pthread_mutex_lock(&way.lock);
    if (done == 0 || total != at->total) at->began = 0;
    set(at, what, done, total);
    pthread_mutex_unlock(&way.lock);
}

void progress_add_heard(bool written, uint64_t bytes) {
    const unsigned depth = atomic_load_explicit(&way.depth, memory_order_relaxed);
    if (!depth) return;
    Piece *piece = &way.pieces[depth - 1];
    atomic_fetch_add_explicit(written ? &piece->written : &piece->read, bytes,
                              memory_order_relaxed);
}

void progress_end_heard(unsigned piece) {
    if (piece > way.open || !is_listening()) return;
    set_open(piece - 1);
    if (piece == 1 && way.idle) way.idle(way.user);
}

unsigned progress_open(void) {
    return atomic_load_explicit(&progress_heard, memory_order_relaxed) && is_listening() ? way.open
                                                                                         : 0;
}

static void look(Piece *from, ProgressPiece *to) {
    memcpy(to->what, from->what, sizeof to->what);
    to->unit = from->unit;
    to->total = from->total;
    to->read = atomic_load_explicit(&from->read, memory_order_relaxed);
    to->done = atomic_load_explicit(&from->done, memory_order_relaxed);
    if (to->unit == PROGRESS_READ) to->done = to->read;
    if (to->unit == PROGRESS_WRITTEN)
        to->done = atomic_load_explicit(&from->written, memory_order_relaxed);
    if (from->began <= 0) {
        from->began = now();
        from->first = to->done;
    }
    to->first = from->first;
    to->seconds = now() - from->began;
}

unsigned progress_pieces(ProgressPiece pieces[PROGRESS_DEPTH]) {
    pthread_mutex_lock(&way.lock);
    const unsigned depth = atomic_load(&way.depth);
    for (unsigned i = 0; i < depth; i++) look(&way.pieces[i], &pieces[i]);
    pthread_mutex_unlock(&way.lock);
    return depth;
}

double progress_left(const ProgressPiece *pieces, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        const ProgressPiece *p = &pieces[i];
        if (p->unit == PROGRESS_PARTS || p->done <= p->first || p->total <= p->done) continue;
        return p->seconds / (double)(p->done - p->first) * (double)(p->total - p->done);
    }
    return -1;
}
