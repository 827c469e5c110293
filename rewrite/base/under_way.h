// SPDX-License-Identifier: Apache-2.0
/* What a program is at, for who shows it: work that may be long says what it is and how much of it is
 * done, and a program that listens can ask from another thread.
 *
 * Pieces of work nest. Those of the thread that listens count, and bytes that others add to them; where
 * nobody listens, or another thread is at work, saying so is a load and a branch. A jump may leave pieces open:
 * those around them end them.
 */
#ifndef DEMI_UNDER_WAY_H
#define DEMI_UNDER_WAY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is counted of a piece. */
typedef enum WayUnit {
    WAY_PARTS,   /* that take differently long, such as passes */
    WAY_STEPS,   /* much the same each */
    WAY_BYTES,   /* so many bytes are done */
    WAY_READ,    /* bytes that sources have given meanwhile */
    WAY_WRITTEN, /* bytes that were written to files meanwhile */
} WayUnit;

enum { WAY_TEXT = 80, WAY_DEPTH = 6 };

/* A piece of work as it was when it was asked for. */
typedef struct WayPiece {
    char what[WAY_TEXT]; /* cut where it is longer */
    WayUnit unit;
    uint64_t done, total; /* total 0: not known */
    uint64_t read;        /* bytes, meanwhile */
    uint64_t first;       /* what was done when it was first asked for, so many seconds ago */
    double seconds;
} WayPiece;

/* Has this thread's work count from now on. `idle` is called in it where the last piece ends; NULL ends
 * listening. Before there are other threads, but for one that only asks. */
void under_way_listen(void (*idle)(void *user), void *user);

extern atomic_bool under_way_heard; /* somebody listens; for what follows alone */

/* What is under way, the outermost piece first: how many of pieces[] there are; 0 where nothing is. From any
 * thread. */
unsigned under_way_pieces(WayPiece pieces[WAY_DEPTH]);

/* Seconds that the outermost of these pieces takes on, as far as what was done of it since it was first asked
 * for tells; negative where it does not, as parts differ. */
double under_way_left(const WayPiece *pieces, unsigned count);

/* Begins a piece inside those that are open; a number for the other functions. 0, which they ignore: nobody
 * listens. */
unsigned under_way_begin_heard(const char *what, uint64_t total, WayUnit unit);
static inline unsigned under_way_begin(const char *what, uint64_t total, WayUnit unit) {
    if (!atomic_load_explicit(&under_way_heard, memory_order_relaxed)) return 0;
    return under_way_begin_heard(what, total, unit);
}

/* So many of the total are done. */
void under_way_at_heard(unsigned piece, uint64_t done);
static inline void under_way_at(unsigned piece, uint64_t done) {
    if (piece) under_way_at_heard(piece, done);
}

/* The piece is called otherwise from now on, so much of it being done; what was inside it has ended. */
void under_way_turn(unsigned piece, const char *what, uint64_t done, uint64_t total);

/* Bytes that were read or written, which count for the innermost piece. From any thread. */
void under_way_add_heard(bool written, uint64_t bytes);
static inline void under_way_read(uint64_t bytes) {
    if (atomic_load_explicit(&under_way_heard, memory_order_relaxed))
        under_way_add_heard(false, bytes);
}
static inline void under_way_wrote(uint64_t bytes) {
    if (atomic_load_explicit(&under_way_heard, memory_order_relaxed))
        under_way_add_heard(true, bytes);
}

/* Ends the piece, and what is still open inside it; one that has ended is fine. */
void under_way_end_heard(unsigned piece);
static inline void under_way_end(unsigned piece) {
    if (piece && atomic_load_explicit(&under_way_heard, memory_order_relaxed))
        under_way_end_heard(piece);
}
/* How many are open, of the thread that asks: the next one's number less one. */
unsigned under_way_open(void);

#endif
