// SPDX-License-Identifier: Apache-2.0
/* Putting finished files in place, all or none; see outfile.h for what is guaranteed.
 *
 * Several files: each is swapped with the old one of its name, so that a later failure can swap
 * them back, and the old ones, now under the temporary names, are removed at the end. Meanwhile the
 * folders are locked, against other processes that put files there or clean up, and signals that
 * end the process wait.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "outfile_parts.h"
#include "work_progress.h"

enum { EXCHANGE = 2, NO_REPLACE = 1 }; /* flags of renameat2 */

/* ---- messages -------------------------------------------------------------------------------- */

bool outfile_error(const OutFile *file, Err *err, int error_number, const char *what) {
    if (error_number == EPIPE)
        err_set(err, ERR_ENV, "%s", OUTFILE_GONE);
    else
        err_errno(err, error_number, "%s", what);
    err_file(err, file->path);
    return false;
}

bool outfile_is_gone(const Err *err) {
    return err && strcmp(err->what, OUTFILE_GONE) == 0;
}

/* ---- finishing what was written -------------------------------------------------------------- */

/* For who is shown it, piece by piece; no more than a hint, as in outfile_start_sync. */
static void wait_for_disk(const OutFile *file) {
    enum { PIECE = 32 << 20 };
    const unsigned flags =
        SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
    const unsigned piece = progress_begin("waiting for the disk", file->size, PROGRESS_BYTES);
    for (uint64_t at = 0; piece && at < file->size; at += PIECE) {
        progress_at(piece, at);
        if (sync_file_range(file->fd, (off_t)at, PIECE, flags) != 0) break;
    }
    progress_end(piece);
}

bool outfile_sync(OutFile *file, Err *err) {
    if (file->streaming || file->synced) return true;
    wait_for_disk(file);
    while (fsync(file->fd) != 0)
        if (errno != EINTR) return outfile_error(file, err, errno, "cannot sync");
    file->synced = true;
    return true;
}

bool outfile_finish(OutFile *file, Err *err) {
    if (file->fd < 0) return true;
    if (!outfile_sync(file, err)) return false;
    /* Keeps the lock that keeps others from cleaning the file up. */
    if (!file->streaming) file->lock = fcntl(file->fd, F_DUPFD_CLOEXEC, 0);
    int fd = file->fd;
    file->fd = -1;
    /* Linux closes the descriptor even where close says EINTR. */
    if (close(fd) == 0 || errno == EINTR) return true;
    return outfile_error(file, err, errno, "cannot write");
}

void outfile_abort(OutFile *file) {
    if (file->temp[0]) unlinkat(file->folder, file->temp, 0);
    file->temp[0] = '\0';
    live_remove(file->live);
    file->live = NULL;
    if (file->fd >= 0) close(file->fd);
    if (file->lock >= 0) close(file->lock);
    if (file->folder >= 0) close(file->folder);
    file->fd = file->lock = file->folder = -1;
    file->locked = false;
}

/* ---- locking folders ------------------------------------------------------------------------- */

/* By device and inode: -1, 0 or 1. */
static int folder_order(const OutFile *a, const OutFile *b) {
    if (a->folder_device != b->folder_device) return a->folder_device < b->folder_device ? -1 : 1;
    return (a->folder_inode > b->folder_inode) - (a->folder_inode < b->folder_inode);
}

/* A file in the first folder after that of `last`; one that has it locked already, if there is one:
 * a second descriptor of one folder would wait for the first. */
static OutFile *next_folder(OutFile *const *files, size_t count, const OutFile *last) {
    OutFile *found = NULL;
    for (size_t i = 0; i < count; i++) {
        if (files[i]->streaming || (last && folder_order(files[i], last) <= 0)) continue;
        int order = found ? folder_order(files[i], found) : -1;
        if (order < 0 || (order == 0 && files[i]->locked)) found = files[i];
    }
    return found;
}

/* In one order, so that two processes never wait for each other. */
void outfile_lock_folders(OutFile *const *files, size_t count) {
    for (OutFile *file = NULL; (file = next_folder(files, count, file));) {
        /* Where the file system has no locks, none is needed for a single user's work. */
        while (flock(file->folder, LOCK_EX) != 0 && errno == EINTR) continue;
        file->locked = true;
    }
}

/* ---- what killed processes left -------------------------------------------------------------- */

static bool is_temp_name(const char *name) {
    unsigned long long number = 0;
    char again[sizeof(((OutFile *)0)->temp)];
    int end = 0;
    if (sscanf(name, ".demi-%16llx.part%n", &number, &end) != 1 || name[end]) return false;
    snprintf(again, sizeof again, OUTFILE_TEMP_FORMAT, (uint64_t)number);
    return strcmp(name, again) == 0;
}

/* A temporary file is locked as long as its process lives: what can be locked belongs to none. */
static void remove_stale(int folder, const char *name) {
    struct stat open_file, named;
    int fd = openat(folder, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return;
    if (fstat(fd, &open_file) == 0 && S_ISREG(open_file.st_mode) && open_file.st_nlink == 1 &&
        open_file.st_uid == geteuid() && flock(fd, LOCK_EX | LOCK_NB) == 0 &&
        fstatat(folder, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
        named.st_ino == open_file.st_ino && named.st_dev == open_file.st_dev)
        unlinkat(folder, name, 0);
    close(fd);
}

/* Old files lie under such names while another process swaps: never without the folder's lock. */
static void clean_folder(const OutFile *file) {
    if (!file->locked && flock(file->folder, LOCK_EX | LOCK_NB) != 0) return;
    int fd = openat(file->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir && fd >= 0) close(fd);
    if (!dir) return;
    for (const struct dirent *entry; (entry = readdir(dir));)
        if (is_temp_name(entry->d_name)) remove_stale(file->folder, entry->d_name);
    closedir(dir);
}

/* ---- putting in place ------------------------------------------------------------------------ */

static int rename_with(const OutFile *file, unsigned flags) {
    return (int)syscall(SYS_renameat2, file->folder, file->temp, file->folder, file->name, flags);
}

/* A rename would not replace a folder, but would swap with it: then it is swapped back. */
static bool swapped_with_folder(const OutFile *file) {
    struct stat old;
    return fstatat(file->folder, file->temp, &old, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISDIR(old.st_mode) && rename_with(file, EXCHANGE) == 0;
}

/* Swaps with the old file, or takes a name that is free. False with errno where that fails. */
static bool swap(OutFile *file) {
    for (;;) {
        if (rename_with(file, EXCHANGE) == 0) {
            if (swapped_with_folder(file)) return errno = EISDIR, false;
            file->placed = OUTFILE_SWAPPED;
            return true;
        }
        if (errno != ENOENT) return false;
        if (rename_with(file, NO_REPLACE) == 0) {
            file->placed = OUTFILE_NEW;
            return true;
        }
        if (errno != EEXIST) return false; /* it came meanwhile */
    }
}

static bool place(OutFile *file, bool alone, Err *err) {
    if (!alone && swap(file)) return true;
    if (!alone && errno != EINVAL && errno != ENOSYS && errno != ENOTSUP && errno != EPERM)
        return outfile_error(file, err, errno, "cannot rename the temporary file");
    struct stat old;
    bool replaces = fstatat(file->folder, file->name, &old, AT_SYMLINK_NOFOLLOW) == 0;
    if (renameat(file->folder, file->temp, file->folder, file->name) != 0)
        return outfile_error(file, err, errno, "cannot rename the temporary file");
    file->placed = replaces ? OUTFILE_REPLACED : OUTFILE_NEW;
    return true;
}

static void take_back(OutFile *file, Err *err) {
    bool back = false;
    switch (file->placed) {
    case OUTFILE_NOT_PLACED: return;
    case OUTFILE_SWAPPED: back = rename_with(file, EXCHANGE) == 0; break;
    case OUTFILE_NEW:
        back = renameat(file->folder, file->name, file->folder, file->temp) == 0;
        break;
    case OUTFILE_REPLACED: break;
    }
    if (back)
        file->placed = OUTFILE_NOT_PLACED;
    else
        err_hint(err, "'%s' was replaced nevertheless, and cannot be restored", file->path);
}

static bool sync_folder(OutFile *file, const char *fault, Err *err) {
    while (fsync(file->folder) != 0) {
        if (errno == EINTR) continue;
        /* Not every file system can sync a folder, nor every descriptor that only names one. */
        if (errno == EINVAL || errno == EBADF || errno == ENOTSUP || errno == EROFS) return true;
        return outfile_error(file, err, errno, fault);
    }
    return true;
}

static bool place_all(OutFile *const *files, size_t count, bool alone, Err *err) {
    for (size_t i = 0; i < count; i++) {
        if (files[i]->streaming) continue;
        if (place(files[i], alone, err) &&
            (!files[i]->first || sync_folder(files[i], "cannot sync its folder", err)))
            continue;
        for (size_t j = i + 1; j-- > 0;) take_back(files[j], err);
        return false;
    }
    return true;
}

/* One sync is enough for files that are put into one folder one after another. */
static bool sync_folders(OutFile *const *files, size_t count, Err *err) {
    static const char fault[] = "was written, but its folder cannot be synced";
    bool ok = true;
    for (size_t i = 0; i < count; i++) {
        if (files[i]->streaming) continue;
        bool again = i + 1 < count && !files[i + 1]->streaming &&
                     strcmp(files[i]->folder_path, files[i + 1]->folder_path) == 0;
        if (!again) ok = sync_folder(files[i], fault, err) && ok;
    }
    return ok;
}

static void end_all(OutFile *const *files, size_t count) {
    for (size_t i = 0; i < count; i++) {
        OutFile *file = files[i];
        file->in_place = file->placed != OUTFILE_NOT_PLACED;
        /* Swapped: the old file has the temporary's name. */
        if (file->in_place && file->placed != OUTFILE_SWAPPED) file->temp[0] = '\0';
        if (file->temp[0]) unlinkat(file->folder, file->temp, 0);
        file->temp[0] = '\0';
    }
}

static void clean_folders(OutFile *const *files, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (files[i]->in_place && (count == 1 || files[i]->locked)) clean_folder(files[i]);
}

bool outfile_commit_all(OutFile *const *files, size_t count, Err *err) {
    bool ok = true;
    size_t named = 0;
    for (size_t i = 0; i < count && ok; i++) {
        named += !files[i]->streaming;
        ok = outfile_finish(files[i], err);
    }
    if (ok && named > 1) outfile_lock_folders(files, count);
    if (ok) {
        live_hold_signals();
        ok = place_all(files, count, named == 1, err);
        ok = ok && sync_folders(files, count, err);
        end_all(files, count);
        live_let_signals();
        clean_folders(files, count);
    }
    for (size_t i = 0; i < count; i++) outfile_abort(files[i]); /* closes what is left */
    return ok;
}

bool outfile_commit(OutFile *file, Err *err) {
    return outfile_commit_all(&file, 1, err);
}

bool outfile_is_in_place(const OutFile *file) {
    return file->in_place;
}
