// SPDX-License-Identifier: Apache-2.0
/* Where a session's inputs come from: --shape, --input, --data, --random; see session.h. Any
 * mismatch is one line that lists all inputs with type and shape. */
#define _POSIX_C_SOURCE 200809L
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "npy.h"
#include "random_values.h"
#include "session.h"
#include "text_distance.h"
#include "value_io.h"

typedef struct Finder {
    Session *session;
    Arena *arena;
    const Parsed *parsed;
    Err *err;
} Finder;

/* ---- messages -------------------------------------------------------------------------------- */

static bool blame_input(Finder *f, size_t i) {
    err_operand(f->err, "input '%s'", f->session->inputs[i].name);
    err_hint(f->err, "the inputs are: %s",
             session_list(f->arena, f->session->inputs, f->session->input_count));
    return false;
}

static bool unknown_input(Finder *f, const char *option, const char *name) {
    const Session *s = f->session;
    NearestName nearest = nearest_name_of(name);
    for (size_t i = 0; i < s->input_count; i++) nearest_name_try(&nearest, s->inputs[i].name);
    err_set(f->err, ERR_USAGE, "the model has no input '%s' that '--%s' names", name, option);
    err_file(f->err, s->path);
    const char *list = session_list(f->arena, s->inputs, s->input_count);
    if (nearest.best)
        err_hint(f->err, "did you mean '%s'? the inputs are: %s", nearest.best, list);
    else
        err_hint(f->err, "the inputs are: %s", list);
    return false;
}

/* ---- shapes ---------------------------------------------------------------------------------- */

/* Where the name of "NAME=1x3" or "NAME:1,3" ends: at the last '=', else ':'. */
static const char *name_end(const char *word) {
    const char *end = strrchr(word, '=');
    return end ? end : strrchr(word, ':');
}

static bool parse_dims(const char *text, int64_t *dims, uint32_t *rank, uint32_t most) {
    bool bracket = *text == '[' || *text == '(';
    char close = *text == '(' ? ')' : ']';
    text += bracket;
    *rank = 0;
    while (*text && !(bracket && *text == close)) {
        char *end;
        if (*text < '0' || *text > '9' || *rank == most) return false;
        dims[(*rank)++] = strtoll(text, &end, 10);
        if (dims[*rank - 1] < 0 || dims[*rank - 1] == INT64_MAX) return false;
        text = end;
        if (*text == 'x' || *text == ',')
            text += 1 + (text[1] == ' ');
        else if (*text && !(bracket && *text == close))
            return false;
    }
    return !bracket || (text[0] == close && !text[1]);
}

static bool same_as_declared(const DemiPlanIo *io, const int64_t *dims, uint32_t rank) {
    bool same = !io->has_rank || io->rank == rank;
    for (uint32_t i = 0; same && io->has_rank && i < rank; i++)
        same = io->dims[i] < 0 || io->dims[i] == dims[i];
    return same;
}

static bool take_shape(Finder *f, const char *word) {
    enum { MOST_RANK = 64 };
    Session *s = f->session;
    const char *end = name_end(word);
    int64_t dims[MOST_RANK];
    uint32_t rank = 0;
    if (!end || !parse_dims(end + 1, dims, &rank, MOST_RANK)) {
        err_set(f->err, ERR_USAGE, "'%s' is no value of '--shape'", word);
        err_hint(f->err, "write --shape NAME=1x3x224x224");
        return false;
    }
    const char *name = arena_copy(f->arena, word, (size_t)(end - word));
    size_t i = 0;
    while (i < s->input_count && strcmp(s->inputs[i].name, name) != 0) i++;
    if (i == s->input_count) return unknown_input(f, "shape", name);
    if (!same_as_declared(&s->inputs[i], dims, rank)) {
        err_set(f->err, ERR_USAGE, "'--shape' does not fit the model");
        err_expected(f->err, "%s", value_io_text(f->arena, &s->inputs[i]));
        err_actual(f->err, "%s", end + 1);
        err_file(f->err, s->path);
        return blame_input(f, i);
    }
    s->inputs[i].has_rank = true;
    s->inputs[i].rank = rank;
    s->inputs[i].dims = arena_copy(f->arena, dims, rank * sizeof *dims);
    return true;
}

static bool take_shapes(Finder *f) {
    const Words *words = parsed_list(f->parsed, "shape");
    for (size_t i = 0; i < words->count; i++)
        if (!take_shape(f, words->items[i])) return false;
    return true;
}

/* ---- files ----------------------------------------------------------------------------------- */

static bool take_file(Finder *f, size_t i, const char *path) {
    Session *s = f->session;
    bool ok = value_read_file(f->arena, path, &s->inputs[i], &s->values[i], f->err) &&
              value_check(f->arena, &s->values[i], &s->inputs[i], f->err);
    if (!ok) {
        err_file(f->err, path);
        return blame_input(f, i);
    }
    s->given[i] = true;
    return true;
}

/* An archive for all inputs it has arrays of; one that the model lacks is an error. */
static bool take_archive(Finder *f, const char *path) {
    Session *s = f->session;
    NpzMembers members = {0};
    Source *source = source_open(f->arena, path, 0, f->err);
    bool ok = source && npz_list(f->arena, source, &members, f->err);
    for (size_t m = 0; ok && m < members.count; m++) {
        size_t i = 0;
        while (i < s->input_count && strcmp(s->inputs[i].name, members.items[m].name) != 0) i++;
        ok = i < s->input_count ? take_file(f, i, path)
                                : unknown_input(f, "input", members.items[m].name);
    }
    if (!ok) err_file(f->err, path);
    return ok;
}

/* Names and paths may hold '=': the name is the one that is an input's. */
static bool take_input(Finder *f, const char *word) {
    Session *s = f->session;
    const char *first = strchr(word, '=');
    for (const char *end = first; end; end = strchr(end + 1, '='))
        for (size_t i = 0; i < s->input_count; i++)
            if (strlen(s->inputs[i].name) == (size_t)(end - word) &&
                memcmp(s->inputs[i].name, word, (size_t)(end - word)) == 0)
                return take_file(f, i, end + 1);
    if (value_is_archive(f->arena, word)) return take_archive(f, word);
    if (first) return unknown_input(f, "input", arena_copy(f->arena, word, (size_t)(first - word)));
    err_set(f->err, ERR_USAGE, "'%s' is no value of '--input'", word);
    err_hint(f->err, "write --input NAME=FILE, or --input FILE.npz");
    return false;
}

static bool take_files(Finder *f) {
    const Words *words = parsed_knows(f->parsed, "input") ? parsed_list(f->parsed, "input") : NULL;
    for (size_t i = 0; words && i < words->count; i++)
        if (!take_input(f, words->items[i])) return false;
    return true;
}

/* ---- folders --------------------------------------------------------------------------------- */

static bool is_there(const char *path) {
    struct stat status;
    return stat(path, &status) == 0;
}

static bool is_data(Arena *arena, const char *folder) {
    return is_there(arena_printf(arena, "%s/input_0.pb", folder)) ||
           is_there(arena_printf(arena, "%s/output_0.pb", folder));
}

static int by_number(const void *a, const void *b) {
    const char *x = *(const char *const *)a, *y = *(const char *const *)b;
    size_t m = strlen(x), n = strlen(y);
    return m != n ? (m < n ? -1 : 1) : strcmp(x, y);
}

bool session_data_folders(Program *program, const char *data, Words *folders, Err *err) {
    *folders = (Words){0};
    if (!data) return true;
    if (is_data(program->arena, data)) {
        VEC_PUSH(program->arena, folders, data);
        return true;
    }
    DIR *dir = opendir(data);
    while (dir) {
        const struct dirent *entry = readdir(dir);
        if (!entry) break;
        if (strncmp(entry->d_name, "test_data_set_", 14) != 0) continue;
        VEC_PUSH(program->arena, folders,
                 arena_printf(program->arena, "%s/%s", data, entry->d_name));
    }
    if (dir) closedir(dir);
    if (folders->count) qsort(folders->items, folders->count, sizeof *folders->items, by_number);
    if (folders->count) return true;
    err_set(err, ERR_USAGE, dir ? "the folder has no test data" : "inputs are read from a folder");
    err_file(err, data);
    err_hint(err,
             "test data are files input_0.pb, input_1.pb, ..., or folders test_data_set_0, ... "
             "of them");
    return false;
}

/* Files stand for the inputs that have no default, or for all where there are as many. */
static bool take_folder(Finder *f, const char *folder) {
    Session *s = f->session;
    size_t files = 0, needed = 0, number = 0;
    while (is_there(arena_printf(f->arena, "%s/input_%zu.pb", folder, files))) files++;
    for (size_t i = 0; i < s->input_count; i++) needed += !s->inputs[i].has_default;
    bool all = files == s->input_count;
    if (files > s->input_count || (!all && files > needed)) {
        err_set(f->err, ERR_USAGE, "the folder has more inputs than the model");
        err_expected(f->err, "%zu", needed);
        err_actual(f->err, "%zu", files);
        err_file(f->err, folder);
        return false;
    }
    for (size_t i = 0; i < s->input_count && number < files; i++) {
        if (!all && s->inputs[i].has_default) continue;
        const char *path = arena_printf(f->arena, "%s/input_%zu.pb", folder, number++);
        if (!s->given[i] && !take_file(f, i, path)) return false;
    }
    return true;
}

/* ---- the rest -------------------------------------------------------------------------------- */

static bool take_random(Finder *f, uint64_t seed) {
    Session *s = f->session;
    for (size_t i = 0; i < s->input_count; i++) {
        if (s->given[i] || s->inputs[i].has_default) continue;
        if (!random_value(f->arena, seed, &s->inputs[i], &s->values[i], f->err)) {
            err_file(f->err, s->path);
            return blame_input(f, i);
        }
        s->given[i] = true;
        for (uint32_t k = 0; k < s->inputs[i].rank; k++)
            if (s->inputs[i].dims[k] < 0) s->guessed = s->inputs[i].name;
    }
    return true;
}

static bool find_missing(Finder *f) {
    Session *s = f->session;
    for (size_t i = 0; i < s->input_count; i++) {
        if (s->given[i] || s->inputs[i].has_default || s->inputs[i].optional) continue;
        err_set(f->err, ERR_USAGE, "no value is given");
        err_file(f->err, s->path);
        err_operand(f->err, "input '%s'", s->inputs[i].name);
        err_hint(f->err, "give --input NAME=FILE, --data DIR or --random SEED; the inputs are: %s",
                 session_list(f->arena, s->inputs, s->input_count));
        return false;
    }
    return true;
}

bool session_find_inputs(Session *s, Program *program, const Parsed *parsed, const char *folder,
                         const char *random_seed, Err *err) {
    Finder f = {s, program->arena, parsed, err};
    bool random = parsed_flag(parsed, "random") || random_seed;
    uint64_t seed = random_seed ? strtoull(random_seed, NULL, 10) : 0;
    memset(s->given, 0, s->input_count * sizeof *s->given);
    return session_number(parsed, "random", 0, &seed, seed, err) && take_shapes(&f) &&
           take_files(&f) && (!folder || take_folder(&f, folder)) &&
           (!random || take_random(&f, seed)) && find_missing(&f);
}

bool session_take_inputs(Session *s, Program *program, const Session *from, Err *err) {
    Finder f = {s, program->arena, NULL, err};
    for (size_t i = 0; i < s->input_count; i++) {
        size_t k = 0;
        while (k < from->input_count && strcmp(from->inputs[k].name, s->inputs[i].name) != 0) k++;
        s->given[i] = k < from->input_count && from->given[k];
        if (!s->given[i]) continue;
        s->values[i] = value_convert(f.arena, &from->values[k], s->inputs[i].dtype);
        if (value_check(f.arena, &s->values[i], &s->inputs[i], err)) continue;
        err_file(err, s->path);
        return blame_input(&f, i);
    }
    for (size_t i = 0; i < s->input_count; i++) {
        if (s->given[i] || s->inputs[i].has_default || s->inputs[i].optional) continue;
        err_set(err, ERR_USAGE, "'%s' has no such input", from->path);
        err_file(err, s->path);
        return blame_input(&f, i);
    }
    return true;
}

bool session_save_inputs(const Session *s, Program *program, const char *folder, Err *err) {
    Arena *arena = program->arena;
    if (!outputs_make_folder(program, folder, err)) return false;
    size_t number = 0;
    bool all = true; /* else files stand for the inputs that have no default */
    for (size_t i = 0; i < s->input_count; i++) all = all && s->given[i];
    for (size_t i = 0; i < s->input_count; i++) {
        if (!s->given[i] || (!all && s->inputs[i].has_default)) continue;
        const char *path = arena_printf(arena, "%s/input_%zu.pb", folder, number++);
        OutputFile file = {outputs_open(program, "save-inputs", path, err), err};
        if (!file.file || !value_write_pb(&file, arena, &s->values[i], &s->inputs[i]))
            return false;
    }
    return true;
}
