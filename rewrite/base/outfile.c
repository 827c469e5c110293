// SPDX-License-Identifier: Apache-2.0
/* Output by temporary file and rename; see outfile.h for the contract.
 *
 * Everything after the folder was opened goes through its descriptor, so that a folder that is
 * moved meanwhile, or a changed working directory, can't split the temporary from its destination.
 */
#define _GNU_SOURCE
#include "outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "outfile_parts.h"
#include "work_progress.h"

enum { LINK_HOPS = 40, CREATE_TRIES = 16, COPY_BUFFER = 1 << 20 };
enum { SYNC_STEP = 1 << 23 }; /* bytes after which writing to the device begins */

/* ---- finding the destination ----------------------------------------------------------------- */

static bool path_error(Err *err, const char *path, int error_number, const char *what) {
    bool usage = error_number == ENOENT || error_number == ENOTDIR || error_number == EISDIR ||
                 error_number == ELOOP || error_number == ENAMETOOLONG;
    if (usage)
        err_set(err, ERR_USAGE, "%s: %s", what, strerror(error_number));
    else
        err_errno(err, error_number, "%s", what);
    err_file(err, path);
    return false;
}

/* The path with symlinks of its last component followed, the last of which may lead nowhere. NULL
 * on error. */
static const char *path_follow(Arena *arena, const char *path, Err *err) {
    const char *at = path;
    for (int hop = 0; hop < LINK_HOPS; hop++) {
        char target[PATH_MAX];
        ssize_t length = readlink(at, target, sizeof target - 1);
        if (length < 0) {
            if (errno == EINVAL || errno == ENOENT) return at;
            path_error(err, path, errno, "cannot write");
            return NULL;
        }
        target[length] = '\0';
        const char *slash = strrchr(at, '/');
        int folder = target[0] != '/' && slash ? (int)(slash - at) + 1 : 0;
        at = arena_printf(arena, "%.*s%s", folder, at, target);
    }
    path_error(err, path, ELOOP, "cannot write");
    return NULL;
}

static bool open_streaming(OutFile *file, const char *path, Err *err) {
    file->streaming = true;
    do {
        file->fd = path ? open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY)
                        : fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
    } while (file->fd < 0 && errno == EINTR);
    return file->fd >= 0 || outfile_error(file, err, errno, "cannot write");
}

static bool open_folder(Arena *arena, OutFile *file, const char *target, Err *err) {
    const char *slash = strrchr(target, '/');
    size_t length = slash ? (size_t)(slash - target) : 0;
    file->name = slash ? slash + 1 : target;
    file->folder_path = !slash ? "." : length ? arena_copy(arena, target, length) : "/";
    if (!file->name[0] || strcmp(file->name, ".") == 0 || strcmp(file->name, "..") == 0)
        return path_error(err, file->path, EISDIR, "cannot write");
    file->folder = open(file->folder_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (file->folder < 0 && errno == EACCES) /* may be entered, but not listed: can't be synced */
        file->folder = open(file->folder_path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct stat status;
    if (file->folder < 0 || fstat(file->folder, &status) != 0)
        return path_error(err, file->path, errno, "cannot open its folder");
    file->folder_device = (uint64_t)status.st_dev;
    file->folder_inode = (uint64_t)status.st_ino;
    return true;
}

/* ---- the temporary --------------------------------------------------------------------------- */

/* Who cleans up after killed processes takes what nobody holds locked. It may have been quicker
 * than we: then the file has gone. Where the file system has no locks, nothing is cleaned up. */
static bool temp_lock(const OutFile *file) {
    struct stat now;
    while (flock(file->fd, LOCK_EX) != 0 && errno == EINTR) continue;
    return fstat(file->fd, &now) != 0 || now.st_nlink > 0;
}

static bool temp_open(OutFile *file, mode_t mode, Err *err) {
    for (int i = 0; i < CREATE_TRIES; i++) {
        uint64_t random;
        if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
            return outfile_error(file, err, errno, "cannot name a temporary file");
        snprintf(file->temp, sizeof file->temp, OUTFILE_TEMP_FORMAT, random);
        /* Before it exists: no gap for a signal. */
        file->live = live_add(file->folder, file->temp, 0);
        file->fd = openat(file->folder, file->temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        if (file->fd >= 0 && temp_lock(file)) return true;
        int error_number = file->fd >= 0 ? EEXIST : errno;
        if (file->fd >= 0) close(file->fd);
        file->fd = -1;
        live_remove(file->live);
        file->live = NULL;
        file->temp[0] = '\0';
        if (error_number != EEXIST && error_number != EINTR)
            return path_error(err, file->path, error_number,
                              "cannot create a temporary file in its folder");
    }
    return outfile_error(file, err, EEXIST, "cannot create a temporary file in its folder");
}

/* The new file gets what the old one had. That its owner can't always be given is not an error. */
static bool temp_inherit(OutFile *file, const struct stat *old, Err *err) {
    if (faccessat(file->folder, file->name, W_OK, AT_EACCESS) != 0)
        return outfile_error(file, err, errno, "cannot write");
    struct stat now;
    if (fstat(file->fd, &now) != 0) return outfile_error(file, err, errno, "cannot stat");
    bool same_owner = now.st_uid == old->st_uid && now.st_gid == old->st_gid;
    if (!same_owner && fchown(file->fd, old->st_uid, old->st_gid) != 0 && errno != EPERM)
        return outfile_error(file, err, errno, "cannot set the owner");
    if (fchmod(file->fd, old->st_mode & 0777) != 0)
        return outfile_error(file, err, errno, "cannot set the mode");
    return true;
}

static void abort_deferred(void *data) {
    outfile_abort(data);
}

static bool create(Arena *arena, OutFile *file, Err *err) {
    const char *path = file->path;
    if (strcmp(path, "-") == 0 || strcmp(path, "/dev/stdout") == 0)
        return open_streaming(file, NULL, err);
    if (!path[0]) return path_error(err, path, ENOENT, "cannot write");
    struct stat old;
    bool exists = stat(path, &old) == 0;
    if (!exists && errno != ENOENT) return path_error(err, path, errno, "cannot write");
    if (exists && S_ISDIR(old.st_mode)) return path_error(err, path, EISDIR, "cannot write");
    if (exists && !S_ISREG(old.st_mode)) return open_streaming(file, path, err);
    const char *target = path_follow(arena, path, err);
    if (!target || !open_folder(arena, file, target, err)) return false;
    if (!temp_open(file, exists ? 0600 : 0666, err)) return false;
    return !exists || temp_inherit(file, &old, err);
}

OutFile *outfile_create(Arena *arena, const char *path, Err *err) {
    OutFile *file = ARENA_NEW(arena, OutFile);
    file->path = arena_copy(arena, path, strlen(path));
    file->fd = file->folder = file->lock = -1;
    arena_defer(arena, abort_deferred, file);
    if (create(arena, file, err)) return file;
    outfile_abort(file);
    return NULL;
}

void outfile_set_name(OutFile *file, Arena *arena, const char *name) {
    file->name = arena_copy(arena, name, strlen(name));
}

/* ---- writing --------------------------------------------------------------------------------- */

void outfile_start_sync(OutFile *file) {
    if (file->streaming || file->size == file->started) return;
    /* No more than a hint: fsync is what counts, and reports what goes wrong. */
    sync_file_range(file->fd, (off_t)file->started, (off_t)(file->size - file->started),
                    SYNC_FILE_RANGE_WRITE);
    file->started = file->size;
}

bool outfile_write(OutFile *file, const void *bytes, size_t size, Err *err) {
    const size_t written = size;
    file->synced = false;
    for (const char *from = bytes; size > 0;) {
        ssize_t count = write(file->fd, from, size);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return outfile_error(file, err, count ? errno : EIO, "cannot write");
        from += count;
        size -= (size_t)count;
        file->size += (uint64_t)count;
    }
    progress_wrote(written);
    if (file->size - file->started >= SYNC_STEP) outfile_start_sync(file);
    return true;
}

/* Copies as much as the kernel is able and willing to; the rest is left to read and write, which
 * also give the errors. */
static uint64_t copy_in_kernel(OutFile *file, int fd, uint64_t offset, uint64_t size) {
    uint64_t done = 0;
    while (done < size) {
        off_t from = (off_t)(offset + done);
        size_t most = size - done < (1u << 30) ? (size_t)(size - done) : (size_t)1 << 30;
        ssize_t count = copy_file_range(fd, &from, file->fd, NULL, most, 0);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) break;
        done += (uint64_t)count;
        progress_wrote((uint64_t)count);
    }
    file->size += done;
    return done;
}

bool outfile_copy(OutFile *file, const Source *source, uint64_t offset, uint64_t size, Err *err) {
    file->synced = false;
    if (offset > source->size || size > source->size - offset)
        return source_read(source, offset, NULL, size, err); /* sets the error */
    if (source->memory) {
        while (size > 0) { /* in pieces that a size_t holds anywhere */
            size_t piece = size < COPY_BUFFER ? (size_t)size : COPY_BUFFER;
            if (!outfile_write(file, source->memory + offset, piece, err)) return false;
            offset += piece;
            size -= piece;
        }
        return true;
    }
    uint64_t done = file->streaming ? 0 : copy_in_kernel(file, source->fd, offset, size);
    char buffer[1 << 15];
    while (done < size) {
        size_t piece = size - done < sizeof buffer ? (size_t)(size - done) : sizeof buffer;
        if (!source_read(source, offset + done, buffer, piece, err)) return false;
        if (!outfile_write(file, buffer, piece, err)) return false;
        done += piece;
    }
    return true;
}

static int reopen(const OutFile *file, Err *err) {
    int fd = fcntl(file->fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) outfile_error(file, err, errno, "cannot reopen");
    return fd;
}

Source *outfile_reopen(const OutFile *file, Arena *arena, const char *name, Err *err) {
    int fd = reopen(file, err);
    return fd < 0 ? NULL : source_from_fd(arena, fd, name, err);
}

Source *outfile_follow(const OutFile *file, Arena *arena, const char *name, uint64_t size,
                       Err *err) {
    int fd = reopen(file, err);
    return fd < 0 ? NULL : source_growing(arena, fd, name, size, err);
}
