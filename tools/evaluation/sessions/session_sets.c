// SPDX-License-Identifier: Apache-2.0
/* Sets of inputs on disk, as --data, --calibrate and --verify take them:
 *
 *     FILE.npz           one set: arrays called like the inputs, and perhaps the outputs
 *     FILE.npy, FILE.pb  one set, for a model with one input
 *     a folder           one set: of input_0.pb, input_1.pb, ... by position (or .npy), or NAME.npy
 *                        as 'demi run --output-dir' spells names
 *     a folder           of any of these, each one set; of files NAME.npy that are not inputs'
 * names, each one set for a model with one input
 */
#define _POSIX_C_SOURCE 200809L
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "npy.h"
#include "session.h"
#include "value_io.h"

typedef enum PathKind { PATH_NONE, PATH_FILE, PATH_FOLDER } PathKind;

static PathKind kind_of(const char *path) {
    struct stat status;
    if (stat(path, &status) != 0) return PATH_NONE;
    return S_ISDIR(status.st_mode) ? PATH_FOLDER : PATH_FILE;
}

static bool is_there(const char *path) {
    return kind_of(path) != PATH_NONE;
}

static bool has_ending(const char *path, const char *ending) {
    size_t size = strlen(path), length = strlen(ending);
    return size > length && strcmp(path + size - length, ending) == 0;
}

static bool is_value_file(const char *path) {
    return has_ending(path, ".npz") || has_ending(path, ".npy") || has_ending(path, ".pb");
}

/* The file of an input by position, NULL where there is none. */
static const char *numbered(Arena *arena, const char *folder, const char *what, size_t i) {
    const char *pb = arena_printf(arena, "%s/%s_%zu.pb", folder, what, i);
    const char *npy = arena_printf(arena, "%s/%s_%zu.npy", folder, what, i);
    return is_there(pb) ? pb : is_there(npy) ? npy : NULL;
}

static const char *named(Arena *arena, const char *folder, const char *name) {
    const char *path = arena_printf(arena, "%s/%s.npy", folder, value_file_name(arena, name));
    return is_there(path) ? path : NULL;
}

static bool has_inputs(const Session *s, Arena *arena, const char *folder) {
    if (numbered(arena, folder, "input", 0) || numbered(arena, folder, "output", 0)) return true;
    for (size_t i = 0; i < s->input_count; i++)
        if (named(arena, folder, s->inputs[i].name)) return true;
    return false;
}

/* Numbers in order of their values, where names differ in nothing before. */
static int by_number(const void *a, const void *b) {
    const char *x = *(const char *const *)a, *y = *(const char *const *)b;
    size_t m = strlen(x), n = strlen(y), same = 0;
    while (x[same] && x[same] == y[same]) same++;
    bool digits = x[same] >= '0' && x[same] <= '9' && y[same] >= '0' && y[same] <= '9';
    return digits && m != n ? (m < n ? -1 : 1) : strcmp(x, y);
}

static size_t needed_count(const Session *s) {
    size_t needed = 0;
    for (size_t i = 0; i < s->input_count; i++) needed += !s->inputs[i].has_default;
    return needed;
}

/* Single arrays are sets only where the model needs one. */
static void list_sets(const Session *s, Arena *arena, const char *data, Words *sets) {
    DIR *dir = opendir(data);
    while (dir) {
        const struct dirent *entry = readdir(dir);
        if (!entry) break;
        if (entry->d_name[0] == '.') continue;
        const char *path = arena_printf(arena, "%s/%s", data, entry->d_name);
        PathKind kind = kind_of(path);
        bool folder = kind == PATH_FOLDER && (has_inputs(s, arena, path) ||
                                              strncmp(entry->d_name, "test_data_set_", 14) == 0);
        bool file = kind == PATH_FILE && (has_ending(path, ".npz") ||
                                          (has_ending(path, ".npy") && needed_count(s) == 1));
        if (folder || file) VEC_PUSH(arena, sets, path);
    }
    if (dir) closedir(dir);
    if (sets->count) qsort(sets->items, sets->count, sizeof *sets->items, by_number);
}

bool session_data_sets(const Session *s, Arena *arena, const char *data, Words *sets, Err *err) {
    *sets = (Words){0};
    if (!data) return true;
    PathKind kind = kind_of(data);
    if ((kind == PATH_FILE && is_value_file(data)) ||
        (kind == PATH_FOLDER && has_inputs(s, arena, data)))
        VEC_PUSH(arena, sets, data);
    else if (kind == PATH_FOLDER)
        list_sets(s, arena, data, sets);
    if (sets->count) return true;
    err_set(err, ERR_USAGE,
            kind == PATH_NONE   ? "no such file or folder"
            : kind == PATH_FILE ? "inputs must be .npz, .npy, or a folder"
                                : "the folder has no inputs");
    err_file(err, data);
    err_hint(err,
             "expected an .npz with arrays named after the inputs, a folder with NAME.npy or "
             "input_0.pb, input_1.pb, ..., or a folder of these; the inputs are: %s",
             session_list(arena, s->inputs, s->input_count));
    return false;
}

const char *session_set_name(Arena *arena, const char *set) {
    const char *slash = strrchr(set, '/');
    const char *last = slash && slash[1] ? slash + 1 : set;
    size_t length = strlen(last);
    if (kind_of(set) == PATH_FILE && is_value_file(last))
        length = (size_t)(strrchr(last, '.') - last);
    return arena_copy(arena, last, length);
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool is_output(const Session *s, const char *name) {
    for (size_t i = 0; i < s->output_count; i++)
        if (strcmp(s->outputs[i].name, name) == 0) return true;
    return false;
}

bool session_read_archive(Session *s, Arena *arena, const char *path, bool outputs, Err *err) {
    NpzMembers members = {0};
    Arena *within = arena_child(arena);
    Source *source = source_open(within, path, 0, err);
    bool ok = source && npz_list(within, source, &members, err);
    for (size_t m = 0; ok && m < members.count; m++) {
        const char *name = members.items[m].name;
        size_t i = session_input(s, name);
        if (i < s->input_count)
            ok = session_read_input(s, arena, i, path, err);
        else if (!outputs || !is_output(s, name))
            ok = session_no_input(s, arena, path, name, NULL, err);
    }
    arena_free(within);
    if (!ok) err_file(err, path);
    return ok;
}

/* Files stand for the inputs that have no default, or for all where there are as many. */
static bool read_numbered(Session *s, Arena *arena, const char *folder, Err *err) {
    size_t files = 0, needed = needed_count(s), number = 0;
    while (numbered(arena, folder, "input", files)) files++;
    bool all = files == s->input_count;
    if (files > s->input_count || (!all && files > needed)) {
        err_set(err, ERR_USAGE, "the folder has more inputs than the model");
        err_expected(err, "%zu", needed);
        err_actual(err, "%zu", files);
        err_file(err, folder);
        return false;
    }
    for (size_t i = 0; i < s->input_count && number < files; i++) {
        if (!all && s->inputs[i].has_default) continue;
        const char *path = numbered(arena, folder, "input", number++);
        if (!s->given[i] && !session_read_input(s, arena, i, path, err)) return false;
    }
    return true;
}

static bool read_named(Session *s, Arena *arena, const char *folder, Err *err) {
    for (size_t i = 0; i < s->input_count; i++) {
        const char *path = named(arena, folder, s->inputs[i].name);
        if (path && !s->given[i] && !session_read_input(s, arena, i, path, err)) return false;
    }
    return true;
}

static bool read_single(Session *s, Arena *arena, const char *path, Err *err) {
    size_t i = 0;
    if (needed_count(s) != 1) {
        err_set(err, ERR_USAGE, "the file has only one array, but the model has more inputs");
        err_file(err, path);
        err_hint(err, "use an .npz with arrays named after them, or a folder; the inputs are: %s",
                 session_list(arena, s->inputs, s->input_count));
        return false;
    }
    while (s->inputs[i].has_default) i++;
    return s->given[i] || session_read_input(s, arena, i, path, err);
}

bool session_read_set(Session *s, Arena *arena, const char *set, Err *err) {
    if (kind_of(set) == PATH_FILE)
        return value_is_archive(arena, set) ? session_read_archive(s, arena, set, true, err)
                                            : read_single(s, arena, set, err);
    if (numbered(arena, set, "input", 0)) return read_numbered(s, arena, set, err);
    return read_named(s, arena, set, err);
}

const char *session_file_of(const Session *s, Arena *arena, const char *set, size_t i) {
    if (kind_of(set) == PATH_FOLDER) return named(arena, set, s->inputs[i].name);
    return value_is_archive(arena, set) || needed_count(s) == 1 ? set : NULL;
}
