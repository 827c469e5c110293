// SPDX-License-Identifier: Apache-2.0
/* One large file of many samples: a run on all of them at once would take memory in proportion. Where the
 * model leaves the first axis open, in all of its inputs and outputs, that axis counts samples, and what the
 * file holds is taken some rows at a time, each part a set of its own; rows are read when they are needed. */
#include "session_parts.h"

#include <string.h>

#include "value_io.h"

enum {
    CUT_FROM = 8 << 20, /* bytes of all inputs: what is less runs whole */
    PART = 1 << 20,     /* bytes of a part, about; one row is always taken */
};

struct SessionFile {
    Arena *arena;     /* of its own, where this lies, too */
    const char *path; /* of the set */
    NpyArray *arrays; /* [input_count] */
};

/* ---- which axis ------------------------------------------------------------------------------ */

/* What the model calls the open first axis; "" where it has no name, NULL where it is not open. */
static const char *open_rows(const DemiPlanIo *io) {
    if (io->kind != DEMI_DATA_TENSOR_KIND || !io->has_rank || !io->rank || io->dims[0] >= 0)
        return NULL;
    return io->dim_names && io->dim_names[0] ? io->dim_names[0] : "";
}

/* Sizes of two names may differ. */
static bool may_be_one(const char *name, const char *other) {
    return !name[0] || !other[0] || strcmp(name, other) == 0;
}

static bool all_open(const DemiPlanIo *list, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++) {
        const char *rows = open_rows(&list[i]);
        if (!rows || !may_be_one(rows, name)) return false;
    }
    return true;
}

static bool counts_samples(const Session *s) {
    const char *name = s->input_count ? open_rows(&s->declared[0]) : NULL;
    return name && all_open(s->declared, s->input_count, name) &&
           all_open(s->outputs, s->output_count, name);
}

/* ---- files ----------------------------------------------------------------------------------- */

static void close_file(void *file) {
    arena_free(((SessionFile *)file)->arena);
}

static SessionFile *new_file(const Session *s, Arena *arena, const char *path) {
    Arena *own = arena_child(arena);
    SessionFile *file = ARENA_NEW(own, SessionFile);
    file->arena = own;
    file->path = arena_copy(own, path, strlen(path));
    file->arrays = ARENA_ARRAY(own, NpyArray, s->input_count + 1);
    return file;
}

/* What an archive holds is called like inputs and outputs. */
static bool knows_all(const Session *s, const ValueFile *file) {
    for (size_t i = 0; i < file->members.count; i++) {
        const char *name = file->members.items[i].name;
        if (session_input(s, name) == s->input_count &&
            session_find_io(s->outputs, s->output_count, name, i) == s->output_count)
            return false;
    }
    return true;
}

/* An array for each input, all with as many rows; *bytes of them together. False where it is otherwise: then
 * the set is read whole, and what is wrong with it said there. */
static bool find_arrays(const Session *s, SessionFile *file, uint64_t *bytes) {
    Err ignored = {.code = ERR_NONE};
    *bytes = 0;
    for (size_t i = 0; i < s->input_count; i++) {
        const char *path = session_file_of(s, file->arena, file->path, i);
        NpyArray *array = &file->arrays[i];
        ValueFile values;
        if (!path || !value_file_open(file->arena, path, &values, &ignored) ||
            !knows_all(s, &values) ||
            !value_file_find(file->arena, &values, &s->declared[i], array, &ignored))
            return false;
        if (array->rank == 0 || array->dims[0] != file->arrays[0].dims[0]) return false;
        *bytes += array->data.size;
    }
    return true;
}

static SessionFile *open_file(const Session *s, Arena *arena, const char *path, uint64_t *bytes) {
    SessionFile *file = new_file(s, arena, path);
    if (find_arrays(s, file, bytes)) return file;
    close_file(file);
    return NULL;
}

/* The set, or sets of some rows each where it is a large one that can be cut. */
static void add_parts(const Session *s, Arena *arena, const SessionSet *set, SessionSetList *list) {
    uint64_t bytes = 0, rows = 0;
    SessionFile *file = set->path ? open_file(s, arena, set->path, &bytes) : NULL;
    if (file) rows = (uint64_t)file->arrays[0].dims[0];
    if (file) close_file(file);
    if (!file || bytes < CUT_FROM || rows < 2 || !counts_samples(s)) {
        SessionSet whole = *set;
        if (file && bytes >= CUT_FROM && rows > 1) whole.uncut = bytes;
        VEC_PUSH(arena, list, whole);
        return;
    }
    const uint64_t each = bytes / rows < PART ? PART / (bytes / rows + 1) + 1 : 1;
    for (uint64_t first = 0; first < rows; first += each) {
        SessionSet part = *set;
        part.rows = (NpyRows){first, rows - first < each ? rows - first : each};
        part.title =
            arena_printf(arena, "%s, rows %llu to %llu", set->path, (unsigned long long)first,
                         (unsigned long long)(first + part.rows.count - 1));
        VEC_PUSH(arena, list, part);
    }
}

/* ---- all sets of the options ----------------------------------------------------------------- */

static size_t sets_of_values(const DemiInputOptions *inputs) {
    size_t count = 0;
    for (size_t i = 0; i < inputs->value_count; i++)
        if (inputs->values[i].set >= count) count = inputs->values[i].set + 1;
    return count;
}

bool session_input_sets(const Session *s, Arena *arena, const DemiInputOptions *inputs, bool parts,
                        SessionSetList *sets, Err *err) {
    Words paths = {0};
    const bool values = inputs->value_count != 0;
    if (values && inputs->data)
        return err_set(err, ERR_USAGE, "inputs are either values or files of `data`");
    if (!session_data_sets(s, arena, inputs->data, &paths, err)) return false;
    const size_t count = values         ? sets_of_values(inputs)
                         : inputs->data ? paths.count
                         : inputs->sets ? inputs->sets
                                        : 1;
    *sets = (SessionSetList){0};
    /* sizes and files that are the same in all sets are of whole ones */
    parts = parts && !inputs->shape_count && !inputs->dim_count && !inputs->file_count;
    for (size_t i = 0; i < count; i++) {
        SessionSet set = {.random = inputs->random || (!values && !inputs->data)};
        if (inputs->data) set.path = set.title = paths.items[i];
        if (values) set.values = arena_copy(arena, &i, sizeof i);
        if (parts)
            add_parts(s, arena, &set, sets);
        else
            VEC_PUSH(arena, sets, set);
    }
    return true;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* The set's file, which is the one of the part before, mostly. */
static bool get_file(Session *s, Arena *arena, const SessionSet *set, Err *err) {
    uint64_t bytes;
    if (s->file && strcmp(s->file->path, set->path) == 0) {
        s->file->arena->trap = arena->trap; /* which differs from call to call */
        return true;
    }
    if (s->file) close_file(s->file);
    s->file = NULL; /* running out of memory ends here */
    s->file = open_file(s, s->sizes.arena, set->path, &bytes);
    if (s->file) return true;
    err_set(err, ERR_MODEL, "the file has changed since it was listed");
    err_file(err, set->path);
    return false;
}

bool session_read_part(Session *s, Arena *arena, const SessionSet *set, Err *err) {
    if (!get_file(s, arena, set, err)) return false;
    for (size_t i = 0; i < s->input_count; i++) {
        if (s->given[i]) continue;
        if (!npy_read(arena, &s->file->arrays[i], set->rows, &s->values[i], err) ||
            !value_check(arena, &s->values[i], &s->inputs[i], err)) {
            err_file(err, set->path);
            return session_blame(s, arena, i, err);
        }
        session_take_value(s, i);
    }
    return true;
}
