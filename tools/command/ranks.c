// SPDX-License-Identifier: Apache-2.0
/* Open MPI by name; see ranks.h. Its handles are addresses of variables of the library, which it
 * exports. */
#include "ranks.h"

#include <stdlib.h>
#include <string.h>

#include "shared_object.h"

typedef int InitFn(int *count, char ***words);
typedef int FinalizeFn(void);
typedef int PlaceFn(void *communicator, int *number);
typedef int ReduceFn(const void *from, void *to, int count, void *type, void *operation,
                     void *communicator);

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
    if (!init || !rank || !size || !ranks->reduce || init(NULL, NULL) != 0 ||
        rank(world, &part) != 0 || size(world, &parts) != 0)
        return err_set(err, ERR_ENV, "cannot initialize Open MPI's libmpi");
    ranks->part = (size_t)part;
    ranks->parts = (size_t)parts;
    return true;
}

bool ranks_combine(void *data, uint64_t *words, size_t count) {
    enum { MOST = 1 << 20 };
    Ranks *ranks = data;
    ReduceFn *reduce;
    if (!ranks->library) return true;
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

void ranks_end(Ranks *ranks) {
    if (!ranks->library) return;
    FinalizeFn *finalize = FUNCTION(FinalizeFn, ranks, "MPI_Finalize");
    if (finalize) finalize();
    ranks->library = NULL; /* it stays open: its threads may */
}
