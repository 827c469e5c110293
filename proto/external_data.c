// SPDX-License-Identifier: Apache-2.0
/* Confined opening of data files; see external_data.h. */
#define _GNU_SOURCE
#include "external_data.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "checked.h"

/* O_NONBLOCK: opening a FIFO must not wait for its writer. */
enum { OPEN_FILE = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY };

typedef struct Folder {
    int fd; /* -1: not opened yet */
} Folder;

typedef struct CachedSource {
    Sym location;
    const Source *source;
} CachedSource;

struct ExternalData {
    Arena *arena;
    ExternalOptions options;
    Folder folder;
    CachedSource *slots; /* by location, open addressing */
    size_t capacity, count;
};

static void close_folder(void *data) {
    Folder *folder = data;
    if (folder->fd >= 0) close(folder->fd);
}

ExternalData *external_data_new(Arena *arena, const ExternalOptions *options) {
    ExternalData *external = ARENA_NEW(arena, ExternalData);
    external->arena = arena;
    external->options = *options;
    external->folder.fd = -1;
    arena_defer(arena, close_folder, &external->folder);
    return external;
}

/* ---- opening --------------------------------------------------------------------------------- */

static int open_beneath(int folder, const char *path) {
    struct open_how how = {.flags = OPEN_FILE, .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
    for (int tries = 0; tries < 16; tries++) {
        long fd = syscall(SYS_openat2, folder, path, &how, sizeof how);
        /* EAGAIN: something was renamed meanwhile, so that the kernel can't be sure. */
        if (fd >= 0 || (errno != EAGAIN && errno != EINTR)) return (int)fd;
    }
    return -1;
}

/* As open_beneath, but symbolic links end in ELOOP or ENOTDIR. `path` has no "..". */
static int open_stepwise(int folder, const char *path) {
    char name[NAME_MAX + 1];
    int at = folder;
    for (;;) {
        size_t length = strcspn(path, "/");
        const char *rest = path + length + strspn(path + length, "/");
        if (length > NAME_MAX) errno = ENAMETOOLONG;
        int fd = -1;
        if (length <= NAME_MAX) {
            memcpy(name, path, length);
            name[length] = '\0';
            int flags = *rest ? O_PATH | O_DIRECTORY | O_CLOEXEC : OPEN_FILE;
            fd = openat(at, name, flags | O_NOFOLLOW);
        }
        int error_number = errno;
        if (at != folder) close(at);
        errno = error_number;
        if (fd < 0 || !*rest) return fd;
        at = fd;
        path = rest;
    }
}

static int open_inside(const ExternalData *external, int folder, const char *path) {
    if (!external->options.without_openat2) {
        int fd = open_beneath(folder, path);
        if (fd >= 0 || errno != ENOSYS) return fd;
    }
    return open_stepwise(folder, path);
}

/* The file behind a link out of the folder, where that lies in `real_folder`: it is opened from
 * there without following further links. -1 with errno EXDEV where it does not. */
static int open_in_real_folder(const ExternalData *external, const char *real_folder,
                               const char *real_path) {
    size_t length = strlen(real_folder);
    if (length > 1 && (strncmp(real_path, real_folder, length) != 0 || real_path[length] != '/')) {
        errno = EXDEV;
        return -1;
    }
    int folder = open(real_folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) return -1;
    const char *inside = real_path + length + strspn(real_path + length, "/");
    int fd = open_inside(external, folder, inside);
    int error_number = errno;
    close(folder);
    errno = error_number;
    return fd;
}

/* The folder that links may lead to, by its real path, into buffer[PATH_MAX]. */
static bool real_folder_of(const ExternalData *external, char *buffer) {
    const char *model_path = external->options.model_path;
    if (!model_path) return realpath(external->options.folder, buffer) != NULL;
    if (!realpath(model_path, buffer)) return false;
    char *slash = strrchr(buffer, '/');
    slash[slash == buffer] = '\0'; /* keeps the root's own slash */
    return true;
}

static int open_linked(const ExternalData *external, const char *location) {
    char real_folder[PATH_MAX], real_path[PATH_MAX];
    char *path = arena_printf(external->arena, "%s/%s", external->options.folder, location);
    if (!realpath(path, real_path) || !real_folder_of(external, real_folder)) return -1;
    return open_in_real_folder(external, real_folder, real_path);
}

static int open_location(ExternalData *external, const char *location) {
    if (external->folder.fd < 0)
        external->folder.fd = open(external->options.folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (external->folder.fd < 0) return -1;
    int fd = open_inside(external, external->folder.fd, location);
    if (fd >= 0 || (errno != EXDEV && errno != ELOOP && errno != ENOTDIR)) return fd;
    return open_linked(external, location);
}

/* ---- checks ---------------------------------------------------------------------------------- */

/* Says which tensor and location an error that was just set is about. */
static bool refused(const Tensor *tensor, Err *err) {
    err_operand(err, "tensor '%s'", sym_text(tensor->name));
    return false;
}

static bool location_is_inside(Sym location) {
    const char *text = location->text;
    if (location->length == 0 || text[0] == '/' || strlen(text) != location->length) return false;
    bool named = false; /* has a component that is not "." */
    for (const char *at = text; *at;) {
        size_t length = strcspn(at, "/");
        if (length == 2 && at[0] == '.' && at[1] == '.') return false;
        if (length > 1 || (length == 1 && at[0] != '.')) named = true;
        at += length + strspn(at + length, "/");
    }
    return named;
}

static bool open_failed(const char *location, int error_number, Err *err) {
    switch (error_number) {
    case EXDEV:
    case ELOOP:
        err_set(err, ERR_MODEL, "external data '%s' is outside of the model's folder", location);
        return false;
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case EIO:
    case EACCES: return err_errno(err, error_number, "cannot open external data '%s'", location);
    default:
        err_set(err, ERR_MODEL, "external data '%s': %s", location, strerror(error_number));
        if (error_number == ENOENT)
            err_hint(err, "that file contains the weights: keep it next to the model");
        return false;
    }
}

static bool file_is_allowed(const ExternalData *external, int fd, const char *location, Err *err) {
    struct stat info;
    if (fstat(fd, &info) != 0)
        return err_errno(err, errno, "cannot stat external data '%s'", location);
    if (!S_ISREG(info.st_mode))
        return err_set(err, ERR_MODEL, "external data '%s' is not a regular file", location);
    if (info.st_nlink <= 1 || external->options.allow_hardlinks) return true;
    err_set(err, ERR_MODEL, "external data '%s' has more than one hard link", location);
    err_hint(err, "--allow-hardlinks");
    return false;
}

/* Files below it hold few tensors: a window for each would be more than it saves. */
enum { READ_AHEAD_MIN = 1 << 20 };

/* ---- one Source per location ----------------------------------------------------------------- */

static CachedSource *slot_of(const ExternalData *external, Sym location) {
    size_t mask = external->capacity - 1;
    for (size_t i = sym_hash(location) & mask;; i = (i + 1) & mask) {
        CachedSource *slot = &external->slots[i];
        if (!slot->location || slot->location == location) return slot;
    }
}

static void cache_grow(ExternalData *external) {
    ExternalData old = *external;
    external->capacity = old.capacity ? old.capacity * 2 : 16;
    external->slots = ARENA_ARRAY(external->arena, CachedSource, external->capacity);
    for (size_t i = 0; i < old.capacity; i++)
        if (old.slots[i].location) *slot_of(external, old.slots[i].location) = old.slots[i];
}

static Source *read_by_caller(ExternalData *external, Sym location, Err *err) {
    const ExternalReader *from = &external->options.from;
    const int64_t size = from->size(from->reader.user, location->text);
    if (size >= 0)
        return source_from_reader(external->arena, &from->reader, (uint64_t)size, location->text);
    err_set(err, ERR_MODEL, "external data '%s': the callback does not provide it", location->text);
    return NULL;
}

static Source *open_file(ExternalData *external, Sym location, Err *err) {
    if (!external->options.folder) {
        err_set(err, ERR_MODEL, "external data '%s' of a model that is not in a folder",
                location->text);
        err_hint(err, "--data-root DIR");
        return NULL;
    }
    if (!location_is_inside(location)) {
        err_set(err, ERR_MODEL, "external data '%s' is not a path inside the model's folder",
                location->text);
        return NULL;
    }
    const char *written = external->options.written;
    bool renamed = written && strcmp(location->text, written) == 0;
    int fd = open_location(external, renamed ? external->options.written_as : location->text);
    if (fd < 0) return open_failed(location->text, errno, err), NULL;
    if (!file_is_allowed(external, fd, location->text, err)) {
        close(fd);
        return NULL;
    }
    const char *name =
        arena_printf(external->arena, "%s/%s", external->options.folder, location->text);
    return source_from_fd(external->arena, fd, name, err);
}

static const Source *source_at(ExternalData *external, Sym location, Err *err) {
    if (external->count * 2 >= external->capacity) cache_grow(external);
    CachedSource *slot = slot_of(external, location);
    if (slot->location) return slot->source;
    Source *source = external->options.from.size ? read_by_caller(external, location, err)
                                                 : open_file(external, location, err);
    if (!source) return NULL;
    if (source->size >= READ_AHEAD_MIN) source_read_ahead(source, external->arena);
    *slot = (CachedSource){.location = location, .source = source};
    external->count++;
    return source;
}

void external_data_list(const ExternalData *external, Model *model) {
    for (size_t i = 0; i < external->capacity; i++)
        if (external->slots[i].location)
            VEC_PUSH(&model->arena, &model->data_files, external->slots[i].source);
}

/* ---- entries --------------------------------------------------------------------------------- */

typedef struct Entries {
    Sym location, offset, length;
} Entries;

static bool entries_read(const Tensor *tensor, Entries *entries, Err *err) {
    *entries = (Entries){0};
    for (const KeyValue *entry = tensor->external; entry; entry = entry->next) {
        Sym *field = sym_equals(entry->key, "location") ? &entries->location
                     : sym_equals(entry->key, "offset") ? &entries->offset
                     : sym_equals(entry->key, "length") ? &entries->length
                                                        : NULL;
        if (!field) continue;
        if (*field)
            return err_set(err, ERR_MODEL, "external data with two entries '%s'", entry->key->text);
        if (!entry->value)
            return err_set(err, ERR_MODEL, "external data without a value of '%s'",
                           entry->key->text);
        *field = entry->value;
    }
    if (entries->location) return true;
    return err_set(err, ERR_MODEL, "external data without location");
}

/* A plain decimal number below 2^63. */
static bool number_parse(Sym text, uint64_t *number) {
    uint64_t result = 0;
    if (text->length == 0 || text->length > 19) return false;
    for (uint32_t i = 0; i < text->length; i++) {
        if (text->text[i] < '0' || text->text[i] > '9') return false;
        result = result * 10 + (uint64_t)(text->text[i] - '0');
    }
    *number = result;
    return result <= INT64_MAX;
}

/* Where no length is given: the tensor's own, since several tensors may lie in one file; the rest
 * of the file where it is shorter, or the tensor says no size. */
static uint64_t size_within(const Tensor *tensor, uint64_t left) {
    uint64_t count, size;
    bool sized = tensor->dtype > 0 && tensor->dtype < DTYPE_COUNT &&
                 checked_count(tensor->dims, tensor->rank, &count) &&
                 dtype_bytes((Dtype)tensor->dtype, count, &size);
    return sized && size < left ? size : left;
}

static bool range_read(const Entries *entries, const Tensor *tensor, ExternalRange *range,
                       Err *err) {
    const char *location = entries->location->text;
    const Source *source = range->source;
    if (entries->offset && !number_parse(entries->offset, &range->offset))
        return err_set(err, ERR_MODEL, "external data '%s' with a bad offset '%s'", location,
                       entries->offset->text);
    if (entries->length && !number_parse(entries->length, &range->size))
        return err_set(err, ERR_MODEL, "external data '%s' with a bad length '%s'", location,
                       entries->length->text);
    bool inside = range->offset <= source->size;
    uint64_t left = inside ? source->size - range->offset : 0;
    if (!entries->length) range->size = size_within(tensor, left);
    if (inside && range->size <= left) return true;
    err_set(err, ERR_MODEL, "external data extends beyond the end of '%s'", location);
    err_expected(err, "at most %llu bytes", (unsigned long long)source->size);
    err_actual(err, "offset %llu and length %llu", (unsigned long long)range->offset,
               (unsigned long long)range->size);
    err_hint(err, "the file may be truncated: fetch it again, with 'git lfs pull' if it is stored "
                  "in Git LFS");
    return false;
}

bool external_data_find(ExternalData *external, const Tensor *tensor, ExternalRange *range,
                        Err *err) {
    Entries entries;
    if (!entries_read(tensor, &entries, err)) return refused(tensor, err);
    const Source *source = source_at(external, entries.location, err);
    *range = (ExternalRange){.source = source};
    if (!source || !range_read(&entries, tensor, range, err)) return refused(tensor, err);
    return true;
}
