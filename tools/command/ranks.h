// SPDX-License-Identifier: Apache-2.0
/* One command as several processes, started by Open MPI's mpirun: each does its part, and what they
 * found is put together. The library is opened only where mpirun started the process, so nothing of
 * it is needed otherwise; it is used by its C interface as Open MPI 2 to 5 have it. */
#ifndef DEMI_RANKS_H
#define DEMI_RANKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "err.h"

typedef struct Ranks {
    size_t part, parts; /* of this process; 0 of 1 where it is alone */
    void *library;      /* NULL: alone */
    void *reduce;       /* MPI_Allreduce */
} Ranks;

/* Finds out, and joins the others. ERR_ENV where mpirun started the process and its library can't be
 * used. */
bool ranks_begin(Ranks *ranks, Err *err);

/* Bitwise or of all processes' words, in all of them: a DemiCombineFn, `ranks` is a Ranks. */
bool ranks_combine(void *ranks, uint64_t *words, size_t count);

/* Leaves the others; all have to. */
void ranks_end(Ranks *ranks);

#endif
