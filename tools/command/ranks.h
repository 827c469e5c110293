// SPDX-License-Identifier: Apache-2.0
/* One command as several processes, started by Open MPI's mpirun: each does its part, and what they
 * found is put together. The library is opened only where mpirun started the process, so nothing of
 * it is needed otherwise; it is used by its C interface as Open MPI 2 to 5 have it.
 *
 * Before anything is put together, processes tell each other how they are: where one of them has come to its
 * end, by an error, none waits for it, and all end with its exit code. */
#ifndef DEMI_RANKS_H
#define DEMI_RANKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "err.h"

typedef struct Ranks {
    size_t part, parts;          /* of this process; 0 of 1 where it is alone */
    void *library;               /* NULL: alone */
    void *reduce, *begin, *test; /* MPI_Allreduce, MPI_Iallreduce, MPI_Test */
    uint64_t *states;            /* [parts] */
    bool met;                    /* all know that they come to their end: */
    size_t teller;               /* who says why */
    int code;                    /* exit code of all */
} Ranks;

/* Finds out, and joins the others. ERR_ENV where mpirun started the process and its library can't be
 * used. */
bool ranks_begin(Ranks *ranks, Err *err);

/* Bitwise or of all processes' words, in all of them: a DemiCombineFn, `ranks` is a Ranks. False where
 * another process has come to its end. */
bool ranks_combine(void *ranks, uint64_t *words, size_t count);

/* Tells the others that this process ends, with that exit code, and whether that is one of an error. Waits for
 * them. *code becomes that of all: of an error if there was one, else of the first process. Returns whether
 * this process is the one to say what its error is, before it leaves. */
bool ranks_end(Ranks *ranks, bool failed, int *code);

/* Leaves when all do. */
void ranks_leave(Ranks *ranks);

#endif
