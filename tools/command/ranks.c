// SPDX-License-Identifier: Apache-2.0
/* Open MPI by name; see ranks.h. Its handles are addresses of variables of the library, which it
 * exports. */
#define _POSIX_C_SOURCE 200809L
#include "ranks.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "shared_object.h"

typedef int InitFn(int *count, char ***words);
typedef int FinalizeFn(void);
typedef int PlaceFn(void *communicator, int *number);
typedef int ReduceFn(const void *from, void *to, int count, void *type, void *operation,
                     void *communicator);
typedef int ReduceLaterFn(const void *from, void *to, int count, void *type, void *operation,
                          void *communicator, void **request);
typedef int TestFn(void **request, int *done, void *status);

static void *find(const Ranks *ranks, const char *name) {
    return object_symbol(ranks->library, name);
}

/* A function's address from an object's, which ISO C has no cast for. */
#define FUNCTION(type, ranks, name)                                                                \
    __extension__({                                                                                \
        void *address = find(ranks, name);                                                         \
        type *function;                                                                            \
        memcpy(&function, &address, sizeof function);                                              \
        function;                                                                                  \
    })

static bool open_library(Ranks *ranks, Err *err) {
    static const char *const names[] = {"libmpi.so.40", "libmpi.so.20", "libmpi.so"};
    const char *why = "";
    for (size_t i = 0; i < sizeof names / sizeof *names && !ranks->library; i++)
        ranks->library = object_open(names[i], OBJECT_SHARED, &why);
    if (!ranks->library)
        return err_set(err, ERR_ENV, "started by mpirun, but Open MPI's libmpi was not found: %s",
                       why);
    if (find(ranks, "ompi_mpi_comm_world")) return true;
    return err_set(err, ERR_ENV, "started by mpirun, but libmpi is not Open MPI's");
}

bool ranks_begin(Ranks *ranks, Err *err) {
    int part = 0, parts = 1;
    *ranks = (Ranks){.part = 0, .parts = 1};
    if (!getenv("OMPI_COMM_WORLD_SIZE")) return true;
    if (!open_library(ranks, err)) return false;
    InitFn *init = FUNCTION(InitFn, ranks, "MPI_Init");
    PlaceFn *rank = FUNCTION(PlaceFn, ranks, "MPI_Comm_rank");
    PlaceFn *size = FUNCTION(PlaceFn, ranks, "MPI_Comm_size");
    void *world = find(ranks, "ompi_mpi_comm_world");
    ranks->reduce = find(ranks, "MPI_Allreduce");
    ranks->begin = find(ranks, "MPI_Iallreduce");
    ranks->test = find(ranks, "MPI_Test");
    if (!init || !rank || !size || !ranks->reduce || !ranks->begin || !ranks->test ||
        init(NULL, NULL) != 0 || rank(world, &part) != 0 || size(world, &parts) != 0)
        return err_set(err, ERR_ENV, "cannot initialize Open MPI's libmpi");
    ranks->part = (size_t)part;
    ranks->parts = (size_t)parts;
    ranks->states = calloc(ranks->parts, sizeof *ranks->states);
    return ranks->states || err_out_of_memory(err);
}

/* ---- how the others are ---------------------------------------------------------------------- */

/* What a process is about to do, and with which exit code. */
enum { COMBINES = 1, ENDS = 2, FAILED = 3, STATE_BITS = 2 };

/* Some take much longer than others: who waits leaves the processor to them. */
static bool wait_for(Ranks *ranks, void **request) {
    enum { BRIEFLY = 1000, NAP = 200000 };
    static const struct timespec nap = {0, NAP};
    TestFn *test;
    memcpy(&test, &ranks->test, sizeof test);
    for (int tries = 0, done = 0;; tries++) {
        if (test(request, &done, NULL) != 0) return false;
        if (done) return true;
        if (tries > BRIEFLY) nanosleep(&nap, NULL);
    }
}

/* Of an error where there was one; else one has ended before others had what they needed of it, which is
 * theirs to say. */
static void settle(Ranks *ranks) {
    unsigned kinds[FAILED + 1] = {0};
    size_t first[FAILED + 1] = {0};
    for (size_t i = ranks->parts; i-- > 0;) {
        const unsigned kind = ranks->states[i] & FAILED;
        kinds[kind]++;
        first[kind] = i;
    }
    ranks->met = !kinds[COMBINES] || kinds[ENDS] || kinds[FAILED];
    ranks->teller = kinds[FAILED] ? first[FAILED] : kinds[COMBINES] ? first[COMBINES] : 0;
    const uint64_t state = ranks->states[ranks->teller];
    ranks->code = kinds[COMBINES] && !kinds[FAILED] ? ERR_ENV : (int)(state >> STATE_BITS);
}

/* Tells the others what this process is about to do, and finds out about them. */
static bool meet(Ranks *ranks, uint64_t state) {
    ReduceLaterFn *begin;
    void *request = NULL, *in_place = (void *)1;
    memcpy(&begin, &ranks->begin, sizeof begin);
    memset(ranks->states, 0, ranks->parts * sizeof *ranks->states);
    ranks->states[ranks->part] = state;
    if (begin(in_place, ranks->states, (int)ranks->parts, find(ranks, "ompi_mpi_uint64_t"),
              find(ranks, "ompi_mpi_op_bor"), find(ranks, "ompi_mpi_comm_world"), &request) != 0 ||
        !wait_for(ranks, &request))
        return false;
    settle(ranks);
    return true;
}

/* ---- putting together ------------------------------------------------------------------------ */

static bool reduce_all(const Ranks *ranks, uint64_t *words, size_t count) {
    enum { MOST = 1 << 20 };
    ReduceFn *reduce;
    memcpy(&reduce, &ranks->reduce, sizeof reduce);
    void *type = find(ranks, "ompi_mpi_uint64_t"), *either = find(ranks, "ompi_mpi_op_bor");
    void *world = find(ranks, "ompi_mpi_comm_world"), *in_place = (void *)1;
    for (size_t at = 0; at < count; at += MOST) {
        const size_t rest = count - at;
        const int part = (int)(rest < MOST ? rest : MOST);
        if (reduce(in_place, words + at, part, type, either, world) != 0) return false;
    }
    return true;
}

bool ranks_combine(void *data, uint64_t *words, size_t count) {
    Ranks *ranks = data;
    if (!ranks->library) return true;
    if (ranks->met || !meet(ranks, COMBINES) || ranks->met) return false;
    return reduce_all(ranks, words, count);
}

bool ranks_end(Ranks *ranks, bool failed, int *code) {
    if (!ranks->library || !ranks->states) return true;
    const uint64_t state = (failed ? FAILED : ENDS) | (uint64_t)*code << STATE_BITS;
    if (!ranks->met && !meet(ranks, state)) return true;
    *code = ranks->code;
    return ranks->part == ranks->teller;
}

void ranks_leave(Ranks *ranks) {
    if (!ranks->library || !ranks->states) return;
    FinalizeFn *finalize = FUNCTION(FinalizeFn, ranks, "MPI_Finalize");
    if (finalize) finalize();
    ranks->library = NULL; /* it stays open: its threads may */
    free(ranks->states);
    ranks->states = NULL;
}
