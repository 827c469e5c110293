// SPDX-License-Identifier: Apache-2.0
/* What a program is at, for who shows it: work that may be long says what it is and how much of it is
 * done, and a program that listens can ask from another thread.
 *
 * Pieces of work nest. Those of the thread that listens count, and bytes that others add to them; where
 * nobody listens, or another thread is at work, saying so is a load and a branch. A jump may leave pieces open:
 * those around them end them.
 */
#ifndef DEMI_WORK_PROGRESS_H
#define DEMI_WORK_PROGRESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is counted of a piece. */
typedef enum ProgressUnit {
    PROGRESS_PARTS,   /* that take differently long, such as passes */
    PROGRESS_STEPS,   /* much the same each */
    PROGRESS_BYTES,   /* so many bytes are done */
    PROGRESS_READ,    /* bytes that sources have given meanwhile */
    PROGRESS_WRITTEN, /* bytes that were written to files meanwhile */
} ProgressUnit;

enum { PROGRESS_TEXT = 80, PROGRESS_DEPTH = 6 };

/* A piece of work as it was when it was asked for. */
typedef struct ProgressPiece {
    char what[PROGRESS_TEXT]; /* cut where it is longer */
    ProgressUnit unit;
    uint64_t done, total; /* total 0: not known */
    uint64_t read;        /* bytes, meanwhile */
    uint64_t first;       /* what was done when it was first asked for, so many seconds ago */
    double seconds;
} ProgressPiece;

/* Has this thread's work count from now on. `idle` is called in it where the last piece ends; NULL ends
 * listening. Before there are other threads, but for one that only asks. */
void progress_listen(void (*idle)(void *user), void *user);

extern atomic_bool progress_heard; /* somebody listens; for what follows alone */

/* What is under way, the outermost piece first: how many of pieces[] there are; 0 where nothing is. From any
 * thread. */
unsigned progress_pieces(ProgressPiece pieces[PROGRESS_DEPTH]);

/* Seconds that the outermost of these pieces takes on, as far as what was done of it since it was first asked
 * for tells; negative where it does not, as parts differ. */
double progress_left(const ProgressPiece *pieces, unsigned count);

/* Begins a piece inside those that are open; a number for the other functions. 0, which they ignore: nobody
 * listens. */
unsigned progress_begin_heard(const char *what, uint64_t total, ProgressUnit unit);
static inline unsigned progress_begin(const char *what, uint64_t total, ProgressUnit unit) {
    if (!atomic_load_explicit(&progress_heard, memory_order_relaxed)) return 0;
    return progress_begin_heard(what, total, unit);
}

/* So many of the total are done. */
void progress_at_heard(unsigned piece, uint64_t done);
static inline void progress_at(unsigned piece, uint64_t done) {
    if (piece) progress_at_heard(piece, done);
}

/* The piece is called otherwise from now on, so much of it being done; what was inside it has ended. */
void progress_turn(unsigned piece, const char *what, uint64_t done, uint64_t total);

/* Bytes that were read or written, which count for the innermost piece. From any thread. */
void progress_add_heard(bool written, uint64_t bytes);
static inline void progress_read(uint64_t bytes) {
    if (atomic_load_explicit(&progress_heard, memory_order_relaxed))
        progress_add_heard(false, bytes);
}
static inline void progress_wrote(uint64_t bytes) {
    if (atomic_load_explicit(&progress_heard, memory_order_relaxed))
        progress_add_heard(true, bytes);
}

/* Ends the piece, and what is still open inside it; one that has ended is fine. */
void progress_end_heard(unsigned piece);
static inline void progress_end(unsigned piece) {
    if (piece && atomic_load_explicit(&progress_heard, memory_order_relaxed))
        progress_end_heard(piece);
}
/* How many are open, of the thread that asks: the next one's number less one. */
unsigned progress_open(void);

#endif
