// SPDX-License-Identifier: Apache-2.0
/* Second moments of what a model's steps read and give, while it runs. */
#ifndef DEMI_MOMENT_WATCH_H
#define DEMI_MOMENT_WATCH_H

#include "data_rounding.h"
#include "demi_runtime.h"
#include "err.h"
#include "moment_sums.h"
#include "sym.h"
#include "vec.h"

/* A value that is asked for. */
typedef struct WatchedRows {
    const MomentRows *rows;
    size_t sum, next; /* of which sums; 1 + the next one of the same value, 0: none */
} WatchedRows;

typedef struct WatchedName {
    size_t first; /* 1 + its WatchedRows */
    bool made;    /* by a step, which gives it each time; else it is an input */
    bool noted;   /* in the run at hand, where it is an input */
} WatchedName;

typedef struct MomentWatch {
    SymTable names;
    VEC(WatchedName) values; /* by name's number */
    VEC(WatchedRows) rows;
    MomentSums *sums; /* [count] */
    bool *odd;        /* [count]: a value had another form than its product's weights have */
    size_t count;
    float *vectors; /* [room]: those that have to be brought together */
    uint64_t room;
    Workers *workers;
    MemTrap trap; /* of what is used within a run, which is not to be left by it */
    Arena scratch;
    bool failed;     /* memory ran out there */
    const char *bad; /* the first value that was not finite; NULL: none */
} MomentWatch;

/* For these requests; all that is used while the model runs is made now, in `arena`. */
MomentWatch moment_watch_new(const MomentRequest *requests, size_t count, Workers *workers,
                             Arena *arena);

/* Bytes that a request takes. */
uint64_t moment_watch_bytes(const MomentRequest *request);

/* A DemiStepFn; `watch` is a MomentWatch. Inputs count once a run, which begins by moment_watch_begin. */
void moment_watch_step(void *watch, const DemiStep *step);
void moment_watch_begin(MomentWatch *watch);

#endif
