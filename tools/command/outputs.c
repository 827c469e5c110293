// SPDX-License-Identifier: Apache-2.0
/* Destinations, what they must not be, and committing them together; see outputs.h. */
#define _GNU_SOURCE
#include "outputs.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "demi_front.h"
#include "outfile_parts.h"
#include "source.h"

typedef struct FileId {
    uint64_t device, inode;
    mode_t mode; /* 0: there is none */
} FileId;

typedef struct Destination {
    const char *option, *path;
    FileId now; /* what is there */
    OutFile *file;
} Destination;

/* A file that was opened for reading. */
typedef struct ReadFile {
    FileId id;
    char *path;
} ReadFile;

typedef struct MadeFolder {
    int parent; /* -1: it was committed */
    const char *name;
    LiveTemp *live;
} MadeFolder;

struct Outputs {
    Arena *arena;
    VEC(Destination) destinations;
    VEC(MadeFolder *) folders;
    const Program *program;
    SaveOptions saves;    /* where weights of models go that are written */
    bool saving;          /* what is read is what will be replaced, of which the saver takes care */
    pthread_mutex_t lock; /* of what follows: threads read, too */
    ReadFile *read;       /* [read_count], not of the arena, which is the main thread's */
    size_t read_count, read_room;
};

/* ---- which file is it? ----------------------------------------------------------------------- */

static bool is_standard(const char *path) {
    return strcmp(path, "-") == 0 || strcmp(path, "/dev/stdout") == 0;
}

static FileId id_of(const struct stat *status) {
    return (FileId){(uint64_t)status->st_dev, (uint64_t)status->st_ino, status->st_mode};
}

static FileId id_of_path(const char *path) {
    struct stat status;
    int failed = is_standard(path) ? fstat(STDOUT_FILENO, &status) : stat(path, &status);
    return failed ? (FileId){0} : id_of(&status);
}

/* One file whose bytes would be lost or mixed: not a terminal, nor /dev/null. */
static bool same_file(const FileId *a, const FileId *b) {
    return (S_ISREG(a->mode) || S_ISFIFO(a->mode)) && S_ISREG(a->mode) == S_ISREG(b->mode) &&
           a->device == b->device && a->inode == b->inode;
}

/* The same name of the same folder: neither need exist. */
static bool same_place(const OutFile *a, const OutFile *b) {
    return !a->streaming && !b->streaming && strcmp(a->name, b->name) == 0 &&
           a->folder_device == b->folder_device && a->folder_inode == b->folder_inode;
}

static bool same_destination(const Destination *a, const Destination *b) {
    if (is_standard(a->path) && is_standard(b->path)) return true;
    return same_file(&a->now, &b->now) || same_place(a->file, b->file);
}

/* ---- what an output must not be -------------------------------------------------------------- */

static bool refuse(const Destination *to, const char *what, const char *name, Err *err) {
    err_set(err, ERR_USAGE, "'--%s' would overwrite %s '%s'", to->option, what, name);
    err_file(err, to->path);
    err_hint(err, "choose another name");
    return false;
}

static bool is_output_option(const char *name) {
    static const char *const names[] = {"output",      "report",     "json",
                                        "trace",       "reproducer", "output-dir",
                                        "save-inputs", "policy-out", "data-name"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], name) == 0) return true;
    return false;
}

static bool is_read(const Destination *to, const char *path) {
    FileId id = id_of_path(path);
    return path != to->path && !is_standard(path) && same_file(&id, &to->now);
}

/* NAME=FILE stands for FILE, and both may have '=' in them. */
static bool option_reads(const Destination *to, const Words *values) {
    for (size_t i = 0; i < values->count; i++) {
        if (is_read(to, values->items[i])) return true;
        for (const char *sign = strchr(values->items[i], '='); sign; sign = strchr(sign + 1, '='))
            if (is_read(to, sign + 1)) return true;
    }
    return false;
}

/* The model that convert, simplify and opt may write over: their argument. */
static bool may_rewrite(const Program *program, const Destination *to) {
    static const char *const commands[] = {"convert", "simplify", "opt"};
    const Parsed *parsed = program->parsed;
    bool rewrites = false;
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        rewrites = rewrites || strcmp(parsed->command->name, commands[i]) == 0;
    if (!rewrites || strcmp(to->option, "output") != 0 || !parsed->arguments.count) return false;
    const char *path = parsed->arguments.items[0];
    struct stat standard;
    if (strcmp(path, "-") != 0 || fstat(STDIN_FILENO, &standard) != 0) return is_read(to, path);
    const FileId id = id_of(&standard);
    return same_file(&id, &to->now);
}

static bool clear_of_words(const Program *program, const Destination *to, Err *err) {
    const Parsed *parsed = program->parsed;
    const OptionRow *rows = parsed->command->options;
    for (size_t i = may_rewrite(program, to); i < parsed->arguments.count; i++)
        if (is_read(to, parsed->arguments.items[i]))
            return refuse(to, "the input", parsed->arguments.items[i], err);
    for (size_t i = 0; rows[i].name; i++) {
        if (is_output_option(rows[i].name) || !option_reads(to, &parsed->values[i])) continue;
        return refuse(to, "the file of option", rows[i].name, err);
    }
    return true;
}

static bool clear_of_file(const Program *program, const Destination *to, const ReadFile *file,
                          Err *err) {
    return !same_file(&to->now, &file->id) || may_rewrite(program, to) ||
           refuse(to, "the input file", file->path, err);
}

/* Standard output is an output wherever it leads to, also where nothing names it. */
static bool clear_of_streams(const Destination *to, Err *err) {
    struct stat status;
    if (is_standard(to->path) || fstat(STDOUT_FILENO, &status) != 0) return true;
    FileId standard = id_of(&status);
    if (!same_file(&standard, &to->now)) return true;
    err_set(err, ERR_USAGE, "'--%s' and standard output are the same file", to->option);
    err_file(err, to->path);
    return false;
}

static bool is_clear(const Program *program, const Destination *to, Err *err) {
    Outputs *outputs = program->outputs;
    if (!clear_of_words(program, to, err) || !clear_of_streams(to, err)) return false;
    bool clear = true;
    pthread_mutex_lock(&outputs->lock);
    for (size_t i = 0; clear && i < outputs->read_count; i++)
        clear = clear_of_file(program, to, &outputs->read[i], err);
    pthread_mutex_unlock(&outputs->lock);
    if (!clear) return false;
    for (size_t i = 0; i < outputs->destinations.count; i++) {
        const Destination *other = &outputs->destinations.items[i];
        if (!same_destination(to, other)) continue;
        err_set(err, ERR_USAGE, "'--%s' and '--%s' are the same file", other->option, to->option);
        err_file(err, to->path);
        return false;
    }
    return true;
}

static bool open_clear(Program *program, Destination *to, Err *err) {
    to->file = outfile_create(program->outputs->arena, to->path, err);
    if (to->file && is_clear(program, to, err)) return true;
    if (to->file) outfile_abort(to->file);
    return false;
}

OutFile *outputs_open(Program *program, const char *option, const char *path, Err *err) {
    Outputs *outputs = program->outputs;
    Destination to = {.option = option, .path = path, .now = id_of_path(path)};
    if (!open_clear(program, &to, err)) return NULL;
    VEC_PUSH(outputs->arena, &outputs->destinations, to);
    if (is_standard(path)) to.file->path = "standard output"; /* in messages */
    return to.file;
}

bool outputs_try(Program *program, const char *option, const char *path, Err *err) {
    Destination to = {.option = option, .path = path, .now = id_of_path(path)};
    if (!S_ISREG(to.now.mode) && to.now.mode != 0) return true; /* opening a FIFO would wait */
    if (!open_clear(program, &to, err)) return false;
    outfile_abort(to.file);
    return true;
}

/* ---- what is read ---------------------------------------------------------------------------- */

/* A SourceWatch.  */
static bool note_file(void *data, const struct stat *status, const char *path, Err *err) {
    Outputs *outputs = data;
    if (outputs->saving) return true;
    ReadFile file = {id_of(status), strdup(path)};
    if (!file.path) return err_out_of_memory(err);
    bool clear = true;
    pthread_mutex_lock(&outputs->lock);
    if (outputs->read_count == outputs->read_room) {
        size_t room = 2 * outputs->read_room + 8;
        ReadFile *larger = realloc(outputs->read, room * sizeof *larger);
        clear = larger || err_out_of_memory(err);
        if (larger) {
            outputs->read = larger;
            outputs->read_room = room;
        }
    }
    if (clear)
        outputs->read[outputs->read_count++] = file;
    else
        free(file.path);
    for (size_t i = 0; clear && i < outputs->destinations.count; i++)
        clear = clear_of_file(outputs->program, &outputs->destinations.items[i], &file, err);
    pthread_mutex_unlock(&outputs->lock);
    return clear;
}

bool outputs_place(Program *program, bool inside, bool outside, const char *name, Err *err) {
    if (inside && (outside || name))
        return err_set(err, ERR_USAGE, "give --one-file or --%s, not both",
                       name ? "data-name" : "external");
    if (name && !model_save_is_name(name))
        return err_set(
            err, ERR_USAGE,
            "--data-name '%s' is not a plain file name; the file is always in OUT's folder", name);
    program->outputs->saves = (SaveOptions){.place = inside            ? SAVE_INSIDE
                                                     : outside || name ? SAVE_OUTSIDE
                                                                       : SAVE_AS_IT_WAS,
                                            .data_name = name};
    return true;
}

/* Data that have a name of the user's take the place of nothing that the command reads or writes. */
static bool try_data_name(Program *program, const OutFile *file, const char *name, Err *err) {
    if (!name) return true;
    return outputs_try(program, "data-name",
                       arena_printf(program->arena, "%s/%s", file->folder_path, name), err);
}

ModelSave *outputs_save(Program *program, const DemiModel *model, OutFile *file, Arena *arena,
                        Err *err) {
    const SaveOptions *saves = &program->outputs->saves;
    if (saves->place == SAVE_OUTSIDE && file->streaming) {
        err_set(err, ERR_USAGE, "--%s needs an output file, not standard output",
                saves->data_name ? "data-name" : "external");
        return NULL;
    }
    if (!try_data_name(program, file, saves->data_name, err)) return NULL;
    program->outputs->saving = true;
    ModelSave *save = model_save_write(demi_front_model(model), file, saves, arena, err);
    program->outputs->saving = false;
    return save;
}

static void end_outputs(void *data) {
    Outputs *outputs = data;
    source_watch(NULL, NULL);
    for (size_t i = 0; i < outputs->read_count; i++) free(outputs->read[i].path);
    free(outputs->read);
    pthread_mutex_destroy(&outputs->lock);
}

Outputs *outputs_new(const Program *program) {
    Outputs *outputs = ARENA_NEW(program->arena, Outputs);
    outputs->arena = program->arena;
    outputs->program = program;
    pthread_mutex_init(&outputs->lock, NULL);
    arena_defer(program->arena, end_outputs, outputs);
    source_watch(note_file, outputs);
    return outputs;
}

/* ---- folders --------------------------------------------------------------------------------- */

/* An arena_defer: runs after the files in the folder have gone, as they were made later. */
static void forget_folder(void *data) {
    MadeFolder *made = data;
    if (made->parent < 0) return;
    unlinkat(made->parent, made->name, AT_REMOVEDIR);
    live_remove(made->live);
    close(made->parent);
    made->parent = -1;
}

static bool folder_error(const char *path, int error_number, Err *err) {
    if (error_number == EEXIST || error_number == ENOTDIR)
        err_set(err, ERR_USAGE, "this is not a folder");
    else if (error_number == ENOENT)
        err_set(err, ERR_USAGE, "the folder above it does not exist");
    else
        err_errno(err, error_number, "cannot create the folder");
    err_file(err, path);
    return false;
}

bool outputs_make_folder(Program *program, const char *path, Err *err) {
    Outputs *outputs = program->outputs;
    Arena *arena = outputs->arena;
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') length--;
    const char *plain = arena_copy(arena, path, length), *slash = strrchr(plain, '/');
    struct stat status;
    if (stat(path, &status) == 0) return S_ISDIR(status.st_mode) || folder_error(path, EEXIST, err);
    MadeFolder *made = ARENA_NEW(arena, MadeFolder);
    made->name = slash ? slash + 1 : plain;
    made->parent = -1;
    arena_defer(arena, forget_folder, made);
    const char *above = !slash ? "." : arena_copy(arena, plain, (size_t)(slash - plain) + 1);
    int parent = open(above, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (parent < 0) return folder_error(path, errno, err);
    made->live = live_add(parent, made->name, AT_REMOVEDIR);
    if (mkdirat(parent, made->name, 0777) == 0) {
        made->parent = parent;
        VEC_PUSH(arena, &outputs->folders, made);
        return true;
    }
    int error_number = errno;
    live_remove(made->live);
    close(parent);
    return folder_error(path, error_number, err);
}

static void keep_folders(Outputs *outputs) {
    for (size_t i = 0; i < outputs->folders.count; i++) {
        MadeFolder *made = outputs->folders.items[i];
        live_remove(made->live);
        close(made->parent);
        made->parent = -1;
    }
    outputs->folders.count = 0;
}

/* ---- the end --------------------------------------------------------------------------------- */

bool outputs_write(void *output_file, const void *bytes, size_t size) {
    OutputFile *output = output_file;
    return outfile_write(output->file, bytes, size, output->err);
}

void outputs_drop(Program *program, OutFile *file) {
    Outputs *outputs = program->outputs;
    size_t kept = 0;
    for (size_t i = 0; i < outputs->destinations.count; i++)
        if (outputs->destinations.items[i].file != file)
            outputs->destinations.items[kept++] = outputs->destinations.items[i];
    outputs->destinations.count = kept;
    outfile_abort(file);
}

bool outputs_commit(Program *program, ModelSave *save, Err *err) {
    Outputs *outputs = program->outputs;
    OutFileList files = {0};
    if (!console_finish(program, err)) return false;
    for (size_t i = 0; i < outputs->destinations.count; i++) {
        OutFile *file = outputs->destinations.items[i].file;
        if (save && file == model_save_out(save)) continue;
        VEC_PUSH(outputs->arena, &files, file);
    }
    outputs->saving = true;
    bool ok = save ? model_save_commit(save, &files, err)
                   : outfile_commit_all(files.items, files.count, err);
    outputs->saving = false;
    outputs->destinations.count = 0;
    if (ok) keep_folders(outputs);
    return ok;
}
