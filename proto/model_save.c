// SPDX-License-Identifier: Apache-2.0
/* Write, read back, compare, sync, rename; see model_save.h for the order and its reasons. Where
 * there is a second processor, the file is read back while it is still being written. */
#define _GNU_SOURCE
#include "model_save.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "background.h"
#include "compare.h"
#include "onnx_export.h"
#include "onnx_import.h"
#include "wire_guard.h"
#include "outfile.h"
#include "work_progress.h"

enum { PIECE = 1 << 17, HASH_DIGITS = 16 };

typedef struct ModelSave Save;

struct ModelSave {
    const Model *model;
    SaveInfo info;
    Arena *scratch;
    OutFile *out, *data; /* data: NULL where there is none */
    ExportPlan *plan;
    char *data_name;   /* NULL when streaming */
    bool named;        /* by the caller */
    VEC(char *) stale; /* data files that no other model names */
    Err *err;          /* of the call that is underway */
};

/* ---- reading back ---------------------------------------------------------------------------- */

static bool read_back_failed(Save *save, const Err *inner) {
    char what[sizeof inner->what];
    snprintf(what, sizeof what, "%s", inner->what);
    *save->err = *inner;
    save->err->code = ERR_ENV;
    save->err->file[0] = '\0';
    err_file(save->err, save->out->path);
    snprintf(save->err->what, sizeof save->err->what,
             "the written file does not read back as the model: %.240s", what);
    return false;
}

/* CompareOptions.same_data */
static bool same_data(void *data, const Tensor *a, const Tensor *b, Err *err) {
    const Save *save = data;
    return export_plan_same_data(save->plan, a, b, err);
}

/* The file is compared as it grows, or, without a thread for that, when it is written. */
typedef struct Reading {
    Save *save;
    WrittenFile file;
    Background *beside;
    bool same;
    Err err;
} Reading;

static void read_back(void *data) {
    Reading *reading = data;
    const Save *save = reading->save;
    const CompareOptions options = {.same_data = same_data, .data = reading->save};
    reading->same = onnx_compare_file(save->model, &reading->file, &options, &reading->err);
}

/* The end of writing, also where an error or a jump was: who reads must not wait for more. */
static void reading_end(void *data) {
    Reading *reading = data;
    source_ended(reading->file.source);
    if (reading->beside) background_wait(reading->beside);
}

static Reading *reading_new(Save *save) {
    Reading *reading = ARENA_NEW(save->scratch, Reading);
    reading->save = save;
    reading->file.path =
        arena_printf(save->scratch, "%s/%s", save->out->folder_path, save->out->temp);
    if (save->data) {
        reading->file.data_name = save->data_name;
        reading->file.data_file = save->data->temp;
    }
    reading->file.source = outfile_follow(save->out, save->scratch, save->out->path,
                                          export_plan_size(save->plan), save->err);
    if (!reading->file.source) return NULL;
    arena_defer(save->scratch, reading_end, reading);
    reading->beside = background_start(save->scratch, read_back, reading);
    return reading;
}

static bool reading_result(Reading *reading) {
    reading_end(reading);
    if (!reading->beside) read_back(reading);
    return reading->same || read_back_failed(reading->save, &reading->err);
}

/* ByteSink.write */
static bool write_followed(void *data, const void *bytes, size_t size, Err *err) {
    Reading *reading = data;
    if (!outfile_write(reading->save->out, bytes, size, err)) return false;
    source_has(reading->file.source, reading->save->out->size);
    return true;
}

/* An unchanged model is compared byte for byte with its source. */
static bool read_back_copy(Save *save) {
    const Source *source = save->model->source;
    Source *copy = outfile_reopen(save->out, save->scratch, save->out->path, save->err);
    if (!copy) return false;
    unsigned char *a = arena_alloc(save->scratch, PIECE), *b = arena_alloc(save->scratch, PIECE);
    for (uint64_t done = 0; done < source->size;) {
        size_t now = source->size - done < PIECE ? (size_t)(source->size - done) : PIECE;
        if (!source_read(source, done, a, now, save->err)) return false;
        if (!source_read(copy, done, b, now, save->err)) return false;
        if (memcmp(a, b, now) != 0) return read_back_failed(save, &(Err){.what = "bytes differ"});
        done += now;
    }
    return copy->size == source->size || read_back_failed(save, &(Err){.what = "sizes differ"});
}

/* ---- data files ------------------------------------------------------------------------------ */

static bool write_bytes(void *data, const void *bytes, size_t size, Err *err) {
    return outfile_write(data, bytes, size, err);
}

/* `name` is NAME.<16 hex digits>.data, as save_data makes it. */
static bool is_data_of(const char *name, const char *owner) {
    size_t length = strlen(owner);
    if (strncmp(name, owner, length) != 0 || name[length] != '.') return false;
    const char *digits = name + length + 1;
    return strspn(digits, "0123456789abcdef") == HASH_DIGITS &&
           strcmp(digits + HASH_DIGITS, ".data") == 0;
}

/* Does the file have the name in it? Models do wherever they name data; the old text is carried along, as a
 * name may lie across two pieces. True where that can't be told. */
static bool file_mentions(int folder, const char *file, const char *name, Arena *scratch) {
    const size_t length = strlen(name);
    char *text = arena_alloc(scratch, PIECE + length);
    struct stat status;
    size_t kept = 0;
    ssize_t got = 0;
    bool found = false;
    int fd = openat(folder, file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return errno != ENOENT;
    bool regular = fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
    while (regular && !found && (got = read(fd, text + kept, PIECE)) > 0) {
        const size_t size = kept + (size_t)got;
        found = memmem(text, size, name, length) != NULL;
        kept = size < length - 1 ? size : length - 1;
        memmove(text, text + size - kept, kept);
    }
    close(fd);
    return found || got < 0;
}

/* Can it be another model than the one at `out`? Not what has the name of data, nor what is too large for
 * protobuf, nor a symbolic link to `out`; a hard link keeps what is there. */
static bool may_be_other(int folder, const char *out, const char *file) {
    static const char *const others[] = {".data", ".bin", ".npy", ".npz", ".safetensors", ".plan"};
    const char *dot = strrchr(file, '.');
    struct stat link, status, old;
    for (size_t i = 0; dot && i < sizeof others / sizeof *others; i++)
        if (strcmp(dot, others[i]) == 0) return false;
    if (strcmp(file, out) == 0 || fstatat(folder, file, &status, 0) != 0) return false;
    bool leads = fstatat(folder, file, &link, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(link.st_mode) &&
                 fstatat(folder, out, &old, 0) == 0 && old.st_ino == status.st_ino &&
                 old.st_dev == status.st_dev;
    return !leads && S_ISREG(status.st_mode) && (uint64_t)status.st_size <= WIRE_SIZE_MAX;
}

/* A data file is in use where a model beside the one that is about to be replaced names it: a copy of that. */
static bool is_used(const Save *save, DIR *dir, const char *name) {
    bool used = false;
    rewinddir(dir);
    for (const struct dirent *entry; !used && (entry = readdir(dir));)
        used = may_be_other(dirfd(dir), save->out->name, entry->d_name) &&
               file_mentions(dirfd(dir), entry->d_name, name, save->scratch);
    return used;
}

static bool is_same_file(int folder, const char *a, const char *b, Arena *scratch) {
    unsigned char *pieces = arena_alloc(scratch, (size_t)2 * PIECE);
    struct stat one, other;
    const int fds[2] = {openat(folder, a, O_RDONLY | O_CLOEXEC),
                        openat(folder, b, O_RDONLY | O_CLOEXEC)};
    bool same = fds[0] >= 0 && fds[1] >= 0 && fstat(fds[0], &one) == 0 &&
                fstat(fds[1], &other) == 0 && one.st_size == other.st_size;
    for (off_t at = 0; same && at < one.st_size;) {
        const ssize_t got = pread(fds[0], pieces, PIECE, at);
        same = got > 0 && pread(fds[1], pieces + PIECE, (size_t)got, at) == got &&
               memcmp(pieces, pieces + PIECE, (size_t)got) == 0;
        at += got > 0 ? got : 0;
    }
    for (int i = 0; i < 2; i++)
        if (fds[i] >= 0) close(fds[i]);
    return same;
}

/* Data that a caller names take no other's place: nothing is there, or the same, or what the model that is
 * about to be replaced names alone. */
static bool may_replace(Save *save) {
    struct stat status;
    const int folder = save->out->folder;
    if (fstatat(folder, save->data_name, &status, AT_SYMLINK_NOFOLLOW) != 0) return errno == ENOENT;
    if (!S_ISREG(status.st_mode)) return false;
    if (is_same_file(folder, save->data->temp, save->data_name, save->scratch)) return true;
    if (!file_mentions(folder, save->out->name, save->data_name, save->scratch)) return false;
    DIR *dir = opendir(save->out->folder_path);
    const bool used = !dir || is_used(save, dir, save->data_name);
    if (dir) closedir(dir);
    return !used;
}

/* Writes the data file. Where a caller does not name it, its name is known only then. */
static bool save_data(Save *save) {
    const OutFile *out = save->out;
    const char *path = arena_printf(save->scratch, "%s/%s", out->folder_path, save->data_name);
    OutFile *data = outfile_create(save->scratch, path, save->err);
    const ByteSink sink = {.write = write_bytes, .data = data};
    if (!data) return false;
    if (!save->named)
        data->path = out->path; /* what messages call it: the name above was never the file's */
    if (!onnx_export_data(save->plan, &sink, save->err)) return false;
    if (!outfile_finish(data, save->err)) return false;
    data->first = true; /* a model on the device never names data that are not */
    save->data = data;
    if (save->named)
        return may_replace(save) ||
               err_set(save->err, ERR_USAGE,
                       "'%s' exists and is not this model's own data file: choose another name",
                       save->data_name);
    sprintf(save->data_name, "%s.%016" PRIx64 ".data", out->name,
            export_plan_data_hash(save->plan));
    outfile_set_name(data, save->scratch, save->data_name);
    return true;
}

/* Files of the folder that have the form of the output's data files, less the new one. */
static void list_data_files(Save *save, DIR *dir) {
    for (const struct dirent *entry; (entry = readdir(dir));) {
        if (!is_data_of(entry->d_name, save->out->name)) continue;
        if (save->info.data_name[0] && strcmp(entry->d_name, save->info.data_name) == 0) continue;
        VEC_PUSH(save->scratch, &save->stale,
                 arena_copy(save->scratch, entry->d_name, strlen(entry->d_name)));
    }
}

static void close_folder(void *data) {
    closedir(data);
}

/* Finds data files of the model that is about to be replaced, and those that a process left that was killed
 * between data and model: no model names them then. What can't be read is no reason to fail: files then
 * stay. */
static void find_stale(Save *save) {
    DIR *dir = opendir(save->out->folder_path);
    if (!dir) return;
    arena_defer(save->scratch, close_folder, dir);
    list_data_files(save, dir);
    size_t kept = 0;
    for (size_t i = 0; i < save->stale.count; i++)
        if (!is_used(save, dir, save->stale.items[i]))
            save->stale.items[kept++] = save->stale.items[i];
    save->stale.count = kept;
}

/* ---- saving ---------------------------------------------------------------------------------- */

static bool copy_and_check(Save *save) {
    const Source *source = save->model->source;
    if (!outfile_copy(save->out, source, 0, source->size, save->err)) return false;
    outfile_start_sync(save->out);
    return save->out->streaming || read_back_copy(save);
}

static bool write_data(Save *save) {
    SaveInfo *info = &save->info;
    if (info->data_bytes == 0) return true;
    if (!save_data(save)) return false;
    snprintf(info->data_name, sizeof info->data_name, "%s", save->data_name);
    return true;
}

static bool write_and_check(Save *save) {
    if (!write_data(save)) return false;
    if (save->out->streaming) {
        const ByteSink sink = {.write = write_bytes, .data = save->out};
        return onnx_export_model(save->plan, save->data_name, &sink, save->err);
    }
    Reading *reading = reading_new(save);
    if (!reading) return false;
    const ByteSink sink = {.write = write_followed, .data = reading};
    if (!onnx_export_model(save->plan, save->data_name, &sink, save->err)) return false;
    outfile_start_sync(save->out);
    return reading_result(reading);
}

static bool put_model_file(Save *save) {
    SaveInfo *info = &save->info;
    info->data_bytes = export_plan_data_size(save->plan);
    const unsigned piece = progress_begin(
        "writing", export_plan_size(save->plan) + info->data_bytes, PROGRESS_WRITTEN);
    info->copied = export_plan_is_unchanged(save->plan) && info->data_bytes == 0;
    bool same = info->copied ? copy_and_check(save) : write_and_check(save);
    info->model_bytes = save->out->size;
    progress_end(piece);
    return same && outfile_sync(save->out, save->err);
}

/* ---- the two halves -------------------------------------------------------------------------- */

bool model_save_is_name(const char *name) {
    return *name && !strchr(name, '/') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
           strlen(name) < sizeof((SaveInfo *)NULL)->data_name;
}

/* What external data are called; NULL: there are none. */
static void name_data(Save *save, const SaveOptions *options) {
    save->named = options->data_name != NULL;
    if (save->named)
        save->data_name = arena_printf(save->scratch, "%s", options->data_name);
    else if (!save->out->streaming && options->place != SAVE_INSIDE)
        save->data_name =
            arena_printf(save->scratch, "%s.%0*d.data", save->out->name, HASH_DIGITS, 0);
}

static bool takes_name(const Save *save) {
    if (!save->named || (!save->out->streaming && model_save_is_name(save->data_name) &&
                         strcmp(save->data_name, save->out->name) != 0))
        return true;
    return err_set(save->err, ERR_USAGE, "'%s' is not allowed as the name of the data file",
                   save->data_name);
}

ModelSave *model_save_write(const Model *model, OutFile *out, const SaveOptions *options,
                            Arena *arena, Err *err) {
    Save *save = ARENA_NEW(arena, Save);
    *save = (Save){.model = model, .scratch = arena, .out = out, .err = err};
    name_data(save, options);
    const ExportOptions as = {.external = options->place == SAVE_OUTSIDE,
                              .data_name = save->data_name};
    save->plan = takes_name(save) ? onnx_export_plan(model, &as, arena, err) : NULL;
    bool ok = save->plan && put_model_file(save) && outfile_finish(out, err);
    if (ok) return save;
    err_file(err, out->path);
    return NULL;
}

/* A descriptor that keeps the lock of the output's folder once all files are closed: a lock belongs to
 * what one of them opened, and to copies of that alone. -1 where there is none. */
static int keep_lock(const Save *save, const OutFileList *all) {
    for (size_t i = 0; i < all->count; i++) {
        const OutFile *file = all->items[i];
        if (file->locked && file->folder_device == save->out->folder_device &&
            file->folder_inode == save->out->folder_inode)
            return fcntl(file->folder, F_DUPFD_CLOEXEC, 0);
    }
    return -1;
}

bool model_save_commit(ModelSave *save, const OutFileList *with, Err *err) {
    OutFileList all = {0};
    save->err = err;
    for (size_t i = 0; with && i < with->count; i++) VEC_PUSH(save->scratch, &all, with->items[i]);
    if (save->data) VEC_PUSH(save->scratch, &all, save->data);
    VEC_PUSH(save->scratch, &all, save->out);
    /* One save at a time from here on, of those that share the folder. */
    outfile_lock_folders(all.items, all.count);
    if (!save->out->streaming) find_stale(save);
    int folder = save->out->streaming ? -1 : keep_lock(save, &all);
    bool ok = outfile_commit_all(all.items, all.count, err);
    bool replaced = outfile_is_in_place(save->out);
    for (size_t i = 0; replaced && folder >= 0 && i < save->stale.count; i++)
        unlinkat(folder, save->stale.items[i], 0);
    if (folder >= 0) close(folder); /* and with it the lock */
    return ok;
}

const OutFile *model_save_out(const ModelSave *save) {
    return save->out;
}

static bool save_to(const Model *model, const char *path, const SaveOptions *options,
                    Arena *scratch, Err *err) {
    OutFile *out = outfile_create(scratch, path, err);
    ModelSave *save = out ? model_save_write(model, out, options, scratch, err) : NULL;
    if (!save || !model_save_commit(save, NULL, err)) return false;
    if (options->info) *options->info = save->info;
    return true;
}

static bool save_trapped(const Model *model, const char *path, const SaveOptions *options,
                         Arena *scratch, Err *err) {
    if (setjmp(scratch->trap->env)) return err_out_of_memory(err);
    return save_to(model, path, options, scratch, err);
}

bool model_save(const Model *model, const char *path, const SaveOptions *options, Err *err) {
    static const SaveOptions none;
    MemTrap trap;
    Arena scratch;
    Err unseen = {0};
    if (!options) options = &none;
    if (!err) err = &unseen;
    arena_init(&scratch, &trap);
    if (options->memory_budget) scratch.budget = options->memory_budget;
    bool ok = save_trapped(model, path, options, &scratch, err);
    arena_free(&scratch);
    if (!ok) err_file(err, path);
    return ok;
}
