// SPDX-License-Identifier: Apache-2.0
/* Journals as JSON lines; see journal.h. Numbers have 17 digits, which bring them back; what is not
 * finite is a string. */
#define _DEFAULT_SOURCE /* flock */
#include "journal.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "source.h"
#include "sym.h"
#include "vec.h"

typedef struct Entry {
    const double *numbers; /* [count] */
    size_t count;
} Entry;

struct Journal {
    Arena *arena;
    const char *path;
    int fd;
    SymTable keys;
    VEC(Entry) entries; /* by key's number */
    uint64_t size;      /* of the file, up to its last whole line */
};

static void close_journal(void *data) {
    Journal *journal = data;
    if (journal->fd >= 0) close(journal->fd);
}

static bool damaged(const Journal *journal, size_t line, const char *why, Err *err) {
    err_set(err, ERR_USAGE, "line %zu %s", line, why);
    err_file(err, journal->path);
    err_hint(err, "it is not a search journal; choose another file");
    return false;
}

static bool fails(const Journal *journal, Err *err) {
    err_errno(err, errno, "cannot write the journal");
    err_file(err, journal->path);
    return false;
}

/* ---- lines ----------------------------------------------------------------------------------- */

static json_t *number_json(double number) {
    if (isfinite(number)) return json_real(number);
    return json_string(isnan(number) ? "nan" : number > 0 ? "inf" : "-inf");
}

static bool json_number_is(const json_t *json, double *number) {
    const char *text = json_string_value(json);
    *number = text && strcmp(text, "nan") == 0    ? NAN
              : text && strcmp(text, "inf") == 0  ? INFINITY
              : text && strcmp(text, "-inf") == 0 ? -INFINITY
                                                  : json_number_value(json);
    return json_is_number(json) || (text && !isfinite(*number));
}

/* The object's line without its end, which is freed; NULL with the error set. */
static char *line_of(json_t *object, Err *err) {
    char *text = json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(17));
    json_decref(object);
    if (!text) err_out_of_memory(err);
    return text;
}

/* Writes the object as a line, which is on disk then. */
static bool write_line(Journal *journal, json_t *object, Err *err) {
    char *text = line_of(object, err);
    if (!text) return false;
    const size_t length = strlen(text);
    text[length] = '\n'; /* in place of the end */
    size_t done = 0;
    while (done <= length) {
        const ssize_t wrote =
            pwrite(journal->fd, text + done, length + 1 - done, (off_t)(journal->size + done));
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0) break;
        done += (size_t)wrote;
    }
    free(text);
    if (done <= length || fsync(journal->fd) != 0) return fails(journal, err);
    journal->size += length + 1;
    return true;
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool keep_entry(Journal *journal, const char *key, Entry entry) {
    const Entry none = {.count = 0};
    const Sym sym = sym_intern_cstr(&journal->keys, key);
    while (journal->entries.count <= sym->number) VEC_PUSH(journal->arena, &journal->entries, none);
    journal->entries.items[sym->number] = entry;
    return true;
}

static bool read_entry(Journal *journal, const json_t *line) {
    const char *key = json_string_value(json_object_get(line, "key"));
    const json_t *list = json_object_get(line, "is");
    if (!key || !json_is_array(list)) return false;
    const size_t count = json_array_size(list);
    double *numbers = ARENA_ARRAY(journal->arena, double, count + 1);
    for (size_t i = 0; i < count; i++)
        if (!json_number_is(json_array_get(list, i), &numbers[i])) return false;
    return keep_entry(journal, key, (Entry){numbers, count});
}

static bool check_fields(const Journal *journal, const json_t *line, const JournalField *fields,
                         size_t count, Err *err) {
    for (size_t i = 0; i < count; i++) {
        const char *text = json_string_value(json_object_get(line, fields[i].name));
        if (text && strcmp(text, fields[i].text) == 0) continue;
        if (!text) return damaged(journal, 1, "does not identify its search", err);
        err_set(err, ERR_USAGE, "the journal belongs to another search: '%s' differs",
                fields[i].name);
        err_file(err, journal->path);
        err_expected(err, "%s", fields[i].text);
        err_actual(err, "%s", text);
        err_hint(err, "choose another file, or remove this one to start over");
        return false;
    }
    return true;
}

static char *read_all(Journal *journal, size_t *size, Err *err) {
    struct stat status;
    if (fstat(journal->fd, &status) != 0) {
        fails(journal, err);
        return NULL;
    }
    char *text = arena_alloc(journal->arena, (size_t)status.st_size + 1);
    size_t done = 0;
    while (done < (size_t)status.st_size) {
        const ssize_t got =
            pread(journal->fd, text + done, (size_t)status.st_size - done, (off_t)done);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        done += (size_t)got;
    }
    *size = done;
    return text;
}

static json_t *first_line(const JournalField *fields, size_t count) {
    json_t *object = json_object();
    for (size_t i = 0; i < count; i++)
        json_object_set_new(object, fields[i].name, json_string(fields[i].text));
    return object;
}

/* What there is without a whole line may be a first line that was cut short, and nothing else: no other
 * file is written over. */
static bool check_beginning(Journal *journal, const char *text, size_t size,
                            const JournalField *fields, size_t count, Err *err) {
    if (journal->size || !size) return true;
    char *line = line_of(first_line(fields, count), err);
    if (!line) return false;
    const bool ok = size <= strlen(line) && memcmp(text, line, size) == 0;
    free(line);
    return ok || damaged(journal, 1, "does not identify its search", err);
}

static bool read_lines(Journal *journal, const JournalField *fields, size_t count, Err *err) {
    size_t size = 0, number = 0;
    const char *text = read_all(journal, &size, err);
    if (!text) return false;
    for (size_t at = 0; at < size;) {
        const char *end = memchr(text + at, '\n', size - at);
        if (!end) break; /* cut short: it never happened */
        json_t *line = json_loadb(text + at, (size_t)(end - text) - at, 0, NULL);
        const bool first = number++ == 0;
        bool ok = first ? json_is_object(line) && check_fields(journal, line, fields, count, err)
                        : read_entry(journal, line);
        json_decref(line);
        if (!ok && err->code != ERR_NONE) return false;
        if (!ok) return damaged(journal, number, "is damaged", err);
        at = (size_t)(end - text) + 1;
        journal->size = at;
    }
    return check_beginning(journal, text, size, fields, count, err);
}

/* ---- front ----------------------------------------------------------------------------------- */

Journal *journal_open(const char *path, const JournalField *fields, size_t count, Arena *arena,
                      Err *err) {
    Journal *journal = ARENA_NEW(arena, Journal);
    *journal = (Journal){.arena = arena, .path = path, .fd = -1};
    sym_table_init(&journal->keys, arena);
    arena_defer(arena, close_journal, journal);
    journal->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (journal->fd < 0) {
        err_errno(err, errno, "cannot open the journal");
        err_file(err, path);
        return NULL;
    }
    struct stat status;
    if (fstat(journal->fd, &status) == 0 && !source_tell(&status, path, err)) return NULL;
    if (flock(journal->fd, LOCK_EX | LOCK_NB) != 0) {
        err_set(err, ERR_USAGE, "another search is writing this journal");
        err_file(err, path);
        return NULL;
    }
    if (!read_lines(journal, fields, count, err)) return NULL;
    if (ftruncate(journal->fd, (off_t)journal->size) != 0) {
        fails(journal, err);
        return NULL;
    }
    if (journal->size == 0 && !write_line(journal, first_line(fields, count), err)) return NULL;
    return journal;
}

const double *journal_find(const Journal *journal, const char *key, size_t count) {
    const Sym sym = sym_find(&journal->keys, key, strlen(key));
    const Entry *entry = sym ? &journal->entries.items[sym->number] : NULL;
    return entry && entry->count == count ? entry->numbers : NULL;
}

bool journal_add(Journal *journal, const char *key, const double *numbers, size_t count, Err *err) {
    json_t *object = json_object(), *list = json_array();
    for (size_t i = 0; i < count; i++) json_array_append_new(list, number_json(numbers[i]));
    json_object_set_new(object, "key", json_string(key));
    json_object_set_new(object, "is", list);
    if (!write_line(journal, object, err)) return false;
    const double *kept = arena_copy(journal->arena, numbers, count * sizeof *numbers);
    return keep_entry(journal, key, (Entry){kept, count});
}
