// SPDX-License-Identifier: Apache-2.0
/* One large file of many samples: a run on all of them at once would take memory in proportion. Where the
 * model leaves the first axis open, in all of its inputs and outputs, that axis counts samples, and what the
 * file holds is taken some rows at a time, each part a set of its own; rows are read when they are needed. The
 * same cut makes many sets of few, of files or of a caller's values, for who needs many. */
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

static const DemiData *value_of(const Session *s, const DemiInputOptions *inputs, size_t set,
                                size_t input) {
    for (size_t i = 0; i < inputs->value_count; i++)
        if (inputs->values[i].set == set &&
            strcmp(inputs->values[i].name, s->declared[input].name) == 0)
            return inputs->values[i].value;
    return NULL;
}

/* Rows that a set of values of the caller's has for each input; 0 where they are not as many, or strings. */
static uint64_t rows_of_values(const Session *s, const DemiInputOptions *inputs, size_t set) {
    uint64_t rows = 0;
    for (size_t i = 0; i < s->input_count; i++) {
        const DemiData *value = value_of(s, inputs, set, i);
        if (!value || value->kind != DEMI_DATA_TENSOR_KIND || !value->rank || !value->dims ||
            value->dims[0] < 1 || value->dtype == DEMI_STRING ||
            (rows && rows != (uint64_t)value->dims[0]))
            return 0;
        rows = (uint64_t)value->dims[0];
    }
    return rows;
}

/* How sets are cut. */
typedef struct Cutting {
    const Session *session;
    const DemiInputOptions *inputs;
    Arena *arena;
    bool samples;  /* the first axis counts them */
    uint64_t each; /* rows of a part of a small set; 0: these stay whole */
} Cutting;

/* Sets *bytes of the files, 0 of values, and returns the rows that the set can be cut into; 0: none. */
static uint64_t rows_of(const Cutting *c, const SessionSet *set, uint64_t *bytes) {
    *bytes = 0;
    if (set->values) return rows_of_values(c->session, c->inputs, *set->values);
    SessionFile *file = set->path ? open_file(c->session, c->arena, set->path, bytes) : NULL;
    const uint64_t rows = file ? (uint64_t)file->arrays[0].dims[0] : 0;
    if (file) close_file(file);
    return rows;
}

static void add_part(const Cutting *c, const SessionSet *set, NpyRows rows, SessionSetList *list) {
    SessionSet part = *set;
    part.rows = rows;
    if (set->path)
        part.title = arena_printf(c->arena, "%s, rows %llu to %llu", set->path,
                                  (unsigned long long)rows.first,
                                  (unsigned long long)(rows.first + rows.count - 1));
    VEC_PUSH(c->arena, list, part);
}

/* The set, or sets of some rows each where it is to be cut and can be. */
static void add_parts(const Cutting *c, const SessionSet *set, SessionSetList *list) {
    uint64_t bytes;
    const uint64_t rows = rows_of(c, set, &bytes);
    const bool large = bytes >= CUT_FROM;
    uint64_t each = c->each;
    if (large && (!each || bytes / rows * each > PART))
        each = bytes / rows < PART ? PART / (bytes / rows + 1) + 1 : 1;
    if (!each || rows < 2 || !c->samples) {
        SessionSet whole = *set;
        if (large && rows > 1) whole.uncut = bytes;
        VEC_PUSH(c->arena, list, whole);
        return;
    }
    for (uint64_t first = 0; first < rows; first += each)
        add_part(c, set, (NpyRows){first, rows - first < each ? rows - first : each}, list);
}

/* So that there are about so many parts of all sets. */
static uint64_t rows_of_a_part(const Cutting *c, const SessionSetList *sets, size_t parts) {
    uint64_t rows = 0, bytes;
    if (parts < 2 || sets->count > parts / 2 || !c->samples) return 0;
    for (size_t i = 0; i < sets->count; i++) rows += rows_of(c, &sets->items[i], &bytes);
    return rows / parts + (rows < parts);
}

/* ---- all sets of the options ----------------------------------------------------------------- */

static size_t sets_of_values(const DemiInputOptions *inputs) {
    size_t count = 0;
    for (size_t i = 0; i < inputs->value_count; i++)
        if (inputs->values[i].set >= count) count = inputs->values[i].set + 1;
    return count;
}

static bool list_sets(const Session *s, Arena *arena, const DemiInputOptions *inputs,
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
    for (size_t i = 0; i < count; i++) {
        SessionSet set = {.random = inputs->random || (!values && !inputs->data)};
        if (inputs->data) set.path = set.title = paths.items[i];
        if (values) set.values = arena_copy(arena, &i, sizeof i);
        VEC_PUSH(arena, sets, set);
    }
    return true;
}

bool session_input_sets(const Session *s, Arena *arena, const DemiInputOptions *inputs,
                        size_t parts, SessionSetList *sets, Err *err) {
    SessionSetList whole;
    if (!list_sets(s, arena, inputs, &whole, err)) return false;
    *sets = whole;
    /* sizes and files that are the same in all sets are of whole ones */
    if (!parts || inputs->shape_count || inputs->dim_count || inputs->file_count) return true;
    Cutting cutting = {s, inputs, arena, counts_samples(s), 0};
    cutting.each = rows_of_a_part(&cutting, &whole, parts);
    *sets = (SessionSetList){0};
    for (size_t i = 0; i < whole.count; i++) add_parts(&cutting, &whole.items[i], sets);
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
