// SPDX-License-Identifier: Apache-2.0
/* Plan files in memory; see plan_file.h. Both parts lie in one range of addresses, as in the file,
 * which is taken whole before anything is put into it. */
#define _GNU_SOURCE /* madvise, MAP_ANONYMOUS, MAP_NORESERVE, mremap, pread */
#include "plan_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plan.h"
#include "source.h"

/* `size` bytes from the file's beginning. */
static bool read_whole(int fd, void *bytes, size_t size, Err *err) {
    for (size_t at = 0; at < size;) {
        ssize_t got = pread(fd, (char *)bytes + at, size - at, (off_t)at);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return err_errno(err, errno, "cannot be read");
        if (got == 0) return err_set(err, ERR_MODEL, "it was truncated while it was read");
        at += (size_t)got;
    }
    return true;
}

/* How much is to be read: up to DATA, in whole pages. A header that says nonsense has it all read,
 * for plan_check to say so. */
static bool find_split(int fd, const PlanFile *file, bool copy, size_t *split, Err *err) {
    PlanHeader header = {.magic = ""};
    *split = file->size;
    if (file->size < sizeof header) return err_set(err, ERR_MODEL, "this is not a plan");
    if (!read_whole(fd, &header, sizeof header, err)) return false;
    if (memcmp(header.magic, PLAN_MAGIC, sizeof header.magic) != 0)
        return err_set(err, ERR_MODEL, "this is not a plan");
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), data = header.sections[PLAN_DATA].offset;
    if (!copy && file->size > PLAN_FILE_SMALL && data < file->size - page)
        *split = (size_t)((data + page - 1) / page * page);
    return true;
}

/* Addresses for `size` bytes, none of which may be touched yet, as far into a large page as they are into the
 * file: what the file system has in one is mapped as one then. */
static void *reserve(size_t size) {
    const size_t room = size + PLAN_BLOCK;
    if (room < size) return MAP_FAILED;
    char *all = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED) return all;
    const size_t before = (size_t)(-(uintptr_t)all % PLAN_BLOCK);
    const size_t page = (size_t)sysconf(_SC_PAGESIZE),
                 end = (before + size + page - 1) / page * page;
    if (before) munmap(all, before);
    if (end < room) munmap(all + end, room - end);
    return all + before;
}

/* The file's bytes from `from` on, where they lie in a range that `reserve` gave. */
static bool map_file(int fd, void *to, size_t from, size_t size, Err *err) {
    if (mmap(to, size, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, (off_t)from) == MAP_FAILED)
        return err_errno(err, errno, "cannot be mapped");
#ifdef MADV_HUGEPAGE /* no more than a hint, for what is not in memory yet */
    madvise(to, size, MADV_HUGEPAGE);
#endif
    return true;
}

static bool fill(int fd, PlanFile *file, bool copy, Err *err) {
    size_t split;
    if (!find_split(fd, file, copy, &split, err)) return false;
    void *all = reserve(file->size);
    if (all == MAP_FAILED) return err_errno(err, errno, "cannot be mapped");
    file->bytes = all;
    if (mprotect(all, split, PROT_READ | PROT_WRITE) != 0)
        return err_errno(err, errno, "cannot be read");
    if (!read_whole(fd, all, split, err)) return false;
    if (mprotect(all, split, PROT_READ) != 0) return err_errno(err, errno, "cannot be read");
    file->mapped = file->size - split;
    return !file->mapped || map_file(fd, (char *)all + split, split, file->mapped, err);
}

bool plan_file_open(PlanFile *file, const char *path, bool copy, Err *err) {
    struct stat status;
    *file = (PlanFile){NULL, 0, 0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? err_set(err, ERR_USAGE, "no such file")
                               : err_errno(err, errno, "cannot be opened");
    bool ok = fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0;
    if (!ok) err_set(err, ERR_MODEL, "this is not a plan");
    if (ok) file->size = (size_t)status.st_size;
    ok = ok && source_tell(&status, path, err) && fill(fd, file, copy, err);
    close(fd);
    if (!ok) plan_file_close(file);
    return ok;
}

void plan_file_forget(const PlanFile *file, const void *bytes, size_t size) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t first = (uintptr_t)bytes, end = first + size;
    uintptr_t mapped = (uintptr_t)file->bytes + (file->size - file->mapped);
    if (!file->bytes || end > (uintptr_t)file->bytes + file->size) return;
    if (first < mapped) first = mapped; /* what was read lies nowhere else */
    first = (first + page - 1) / page * page;
    end = end / page * page;
    if (first < end) madvise((void *)first, end - first, MADV_DONTNEED);
}

/* ---- plans in memory of the process ---------------------------------------------------------- */

static size_t pages(size_t size) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (size + page - 1) / page * page;
}

/* In whole pages, so that closing `size` bytes ends all that there is memory for. */
static bool grow(PlanRoom *to, size_t need) {
    const size_t old = to->room, room = pages(need);
    if (to->file.mapped) return false; /* it is larger than was said */
    void *bytes =
        old ? mremap(to->file.bytes, old, room, MREMAP_MAYMOVE)
            : mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (bytes == MAP_FAILED) return false;
    to->file.bytes = bytes;
    to->room = room;
    return true;
}

bool plan_room_write(void *room, const void *bytes, size_t size) {
    PlanRoom *to = room;
    const size_t end = to->written + size;
    if (end < size || end > SIZE_MAX / 2 || (end > to->room && !grow(to, end))) {
        to->exhausted = true;
        return false;
    }
    memcpy((char *)to->file.bytes + to->written, bytes, size);
    to->written = end;
    if (!to->file.mapped) to->file.size = end;
    return true;
}

/* Memory for the plan, and addresses for what lies behind it up to `end`. */
static bool make_room(PlanRoom *to, size_t size, size_t end, Err *err) {
    void *all = reserve(end);
    if (all == MAP_FAILED) return err_errno(err, errno, "cannot map files");
    to->file = (PlanFile){all, end, end - plan_end(size)};
    to->room = pages(size);
    return mprotect(all, to->room, PROT_READ | PROT_WRITE) == 0 ||
           err_errno(err, errno, "not enough memory for the plan");
}

/* A source's file, as long as it was when that was opened. */
static bool map_source(const Source *source, void *to, Err *err) {
    struct stat status;
    bool ok = fstat(source->fd, &status) == 0 && (uint64_t)status.st_size >= source->size;
    if (!ok) err_set(err, ERR_MODEL, "it was truncated while it was read");
    ok = ok && map_file(source->fd, to, 0, (size_t)source->size, err);
    if (!ok) err_file(err, source->name);
    return ok;
}

bool plan_room_map(void *room, uint64_t size, const MappedFile *files, size_t count, Err *err) {
    PlanRoom *to = room;
    const MappedFile *last = &files[count - 1];
    const uint64_t end = last->at + last->source->size;
    if (end > SIZE_MAX / 2) return err_out_of_memory(err);
    bool ok = make_room(to, (size_t)size, (size_t)end, err);
    for (size_t i = 0; ok && i < count; i++)
        ok = map_source(files[i].source, (char *)to->file.bytes + files[i].at, err);
    return ok;
}

void plan_file_close(PlanFile *file) {
    if (file->bytes) munmap(file->bytes, file->size);
    *file = (PlanFile){NULL, 0, 0};
}
