// SPDX-License-Identifier: Apache-2.0
/* pread with retries, a window for small reads, and reading of pipes into memory. */
#define _GNU_SOURCE
#include "source.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hash64.h"
#include "work_progress.h"
#include "vec.h"
#include "workers.h"

enum { FIRST_READ = 1 << 16, WINDOW = 1 << 16, SMALL_READ = WINDOW / 16, NEAR = WINDOW / 4 };

/* One reader at a time uses it; another one that comes meanwhile reads for itself. */
struct SourceWindow {
    atomic_flag busy;
    uint64_t start, end;  /* the range held; empty at first */
    uint64_t next;        /* where the last small read ended */
    unsigned char *bytes; /* [WINDOW] */
};

struct SourceGrowth {
    _Atomic uint64_t size; /* bytes that are there */
    atomic_bool ended;
    atomic_uint waiting; /* readers that are about to sleep, or do */
    pthread_mutex_t lock;
    pthread_cond_t news;
};

typedef struct OwnedFd {
    int fd;
} OwnedFd;

static void close_owned(void *data) {
    close(((OwnedFd *)data)->fd);
}

static Source *source_new(Arena *arena, const char *name) {
    Source *source = ARENA_NEW(arena, Source);
    source->name = arena_copy(arena, name, strlen(name));
    source->fd = -1;
    return source;
}

/* Has the arena close the descriptor, at once where there is no memory to remember it. */
static void own_fd(Arena *arena, int fd) {
    MemTrap *const outer = arena->trap;
    MemTrap inner;
    if (setjmp(inner.env)) {
        close(fd);
        arena->trap = outer;
        arena_exhausted(arena);
    }
    arena->trap = &inner;
    OwnedFd *owned = ARENA_NEW(arena, OwnedFd);
    owned->fd = fd;
    arena_defer(arena, close_owned, owned);
    arena->trap = outer;
}

static struct {
    SourceWatch watch;
    void *user;
} watched;

void source_watch(SourceWatch watch, void *user) {
    watched.watch = watch;
    watched.user = user;
}

bool source_tell(const struct stat *file, const char *path, Err *err) {
    return !watched.watch || !S_ISREG(file->st_mode) ||
           watched.watch(watched.user, file, path, err);
}

Source *source_from_fd(Arena *arena, int fd, const char *name, Err *err) {
    own_fd(arena, fd);
    Source *source = source_new(arena, name);
    struct stat info;
    if (fstat(fd, &info) != 0) {
        err_errno(err, errno, "cannot stat");
        err_file(err, name);
        return NULL;
    }
    if (!source_tell(&info, name, err)) return NULL;
    source->fd = fd;
    source->size = (uint64_t)info.st_size;
    source->device = (uint64_t)info.st_dev;
    source->inode = (uint64_t)info.st_ino;
    return source;
}

/* ---- files that are being written ------------------------------------------------------------ */

static void growth_free(void *data) {
    SourceGrowth *growth = data;
    pthread_cond_destroy(&growth->news);
    pthread_mutex_destroy(&growth->lock);
}

Source *source_growing(Arena *arena, int fd, const char *name, uint64_t size, Err *err) {
    Source *source = source_from_fd(arena, fd, name, err);
    if (!source) return NULL;
    source->size = size;
    source->growth = ARENA_NEW(arena, SourceGrowth);
    pthread_mutex_init(&source->growth->lock, NULL);
    pthread_cond_init(&source->growth->news, NULL);
    arena_defer(arena, growth_free, source->growth);
    return source;
}

/* Who waits says so and then looks again; who has news looks for who waits. */
static void growth_news(SourceGrowth *growth) {
    if (atomic_load(&growth->waiting) == 0) return;
    pthread_mutex_lock(&growth->lock);
    pthread_cond_broadcast(&growth->news);
    pthread_mutex_unlock(&growth->lock);
}

void source_has(Source *source, uint64_t size) {
    atomic_store(&source->growth->size, size);
    growth_news(source->growth);
}

void source_ended(Source *source) {
    atomic_store(&source->growth->ended, true);
    growth_news(source->growth);
}

/* False where the file has ended before `end`. */
static bool growth_reaches(SourceGrowth *growth, uint64_t end) {
    if (atomic_load(&growth->size) >= end) return true;
    pthread_mutex_lock(&growth->lock);
    atomic_fetch_add(&growth->waiting, 1);
    while (atomic_load(&growth->size) < end && !atomic_load(&growth->ended))
        pthread_cond_wait(&growth->news, &growth->lock);
    atomic_fetch_sub(&growth->waiting, 1);
    pthread_mutex_unlock(&growth->lock);
    return atomic_load(&growth->size) >= end;
}

/* ---- opening --------------------------------------------------------------------------------- */

static Source *open_failed(const char *path, int error_number, Err *err) {
    bool absent = error_number == ENOENT || error_number == EISDIR || error_number == ENOTDIR ||
                  error_number == ELOOP || error_number == ENAMETOOLONG;
    if (absent)
        err_set(err, ERR_USAGE, "%s", strerror(error_number));
    else
        err_errno(err, error_number, "cannot open");
    err_file(err, path);
    return NULL;
}

Source *source_open(Arena *arena, const char *path, uint64_t limit, Err *err) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return open_failed(path, errno, err);
    struct stat info;
    int error_number = fstat(fd, &info) != 0 ? errno : S_ISDIR(info.st_mode) ? EISDIR : 0;
    if (error_number != 0) {
        close(fd);
        return open_failed(path, error_number, err);
    }
    Source *file = source_from_fd(arena, fd, path, err);
    if (!file || S_ISREG(info.st_mode)) return file;
    return source_read_all(arena, fd, path, limit, err);
}

static bool read_more(int fd, unsigned char *buffer, size_t size, size_t *got) {
    for (;;) {
        ssize_t count = read(fd, buffer, size);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return false;
        *got = (size_t)count;
        return true;
    }
}

Source *source_read_all(Arena *arena, int fd, const char *name, uint64_t limit, Err *err) {
    Source *source = source_new(arena, name);
    size_t capacity = FIRST_READ, size = 0, got;
    unsigned char *bytes = arena_alloc(arena, capacity);
    for (;;) {
        if (size == capacity) bytes = vec_grow(arena, bytes, &capacity, 1);
        if (!read_more(fd, bytes + size, capacity - size, &got)) {
            err_errno(err, errno, "cannot read");
            err_file(err, name);
            return NULL;
        }
        if (got == 0) break;
        size += got;
        if (size > limit) {
            err_set(err, ERR_MODEL, "larger than %llu bytes", (unsigned long long)limit);
            err_file(err, name);
            return NULL;
        }
    }
    source->memory = bytes;
    source->size = size;
    return source;
}

Source *source_from_memory(Arena *arena, const void *bytes, uint64_t size, const char *name) {
    Source *source = source_new(arena, name);
    source->memory = size ? bytes : (const unsigned char *)"";
    source->size = size;
    return source;
}

Source *source_from_reader(Arena *arena, const SourceReader *reader, uint64_t size,
                           const char *name) {
    Source *source = source_new(arena, name);
    source->reader = *reader;
    source->size = size;
    return source;
}

Source *source_from_maker(Arena *arena, SourceMaker *make, void *maker, uint64_t size,
                          const char *name) {
    Source *source = source_new(arena, name);
    source->make = make;
    source->maker = maker;
    source->size = size;
    return source;
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool out_of_range(const Source *source, Err *err) {
    err_set(err, ERR_MODEL, "the file ends before its contents do");
    err_file(err, source->name);
    return false;
}

static bool read_reader(const Source *source, uint64_t offset, void *buffer, uint64_t size,
                        Err *err) {
    if (!size || source->reader.read(source->reader.user, source->name, offset, buffer, size))
        return true;
    err_set(err, ERR_ENV, "the callback that reads external data failed");
    err_file(err, source->name);
    return false;
}

static bool read_file(const Source *source, uint64_t offset, void *buffer, uint64_t size,
                      Err *err) {
    if (source->make) return source->make(source->maker, offset, buffer, size, err);
    if (source->reader.read) return read_reader(source, offset, buffer, size, err);
    if (source->growth && !growth_reaches(source->growth, offset + size))
        return out_of_range(source, err);
    for (char *to = buffer; size > 0;) {
        ssize_t got = pread(source->fd, to, size, (off_t)offset);
        if (got == 0) return out_of_range(source, err);
        if (got < 0) {
            if (errno == EINTR) continue;
            err_errno(err, errno, "cannot read");
            err_file(err, source->name);
            return false;
        }
        to += got;
        offset += (uint64_t)got;
        size -= (uint64_t)got;
    }
    return true;
}

void source_read_ahead(Source *source, Arena *arena) {
    if (source->memory) return;
    source->window = ARENA_NEW(arena, SourceWindow);
    source->window->bytes = arena_alloc(arena, WINDOW);
    atomic_flag_clear(&source->window->busy);
}

/* Has the window hold the range, where the last read ended shortly before it. */
static bool window_reach(const Source *source, uint64_t offset, uint64_t size) {
    SourceWindow *window = source->window;
    if (offset >= window->start && offset + size <= window->end) return true;
    bool follows = offset >= window->next && offset - window->next <= NEAR;
    if (!follows) return false;
    uint64_t left = source->size - offset, more = left < WINDOW ? left : WINDOW;
    window->start = window->end = 0;
    if (!read_file(source, offset, window->bytes, more, NULL)) return false;
    window->start = offset;
    window->end = offset + more;
    return true;
}

/* False where the window does not serve: the bytes are then to be read from the file. */
static bool read_window(const Source *source, uint64_t offset, void *buffer, uint64_t size) {
    SourceWindow *window = source->window;
    if (atomic_flag_test_and_set_explicit(&window->busy, memory_order_acquire)) return false;
    bool held = window_reach(source, offset, size);
    if (held) memcpy(buffer, window->bytes + (offset - window->start), size);
    window->next = offset + size;
    atomic_flag_clear_explicit(&window->busy, memory_order_release);
    return held;
}

bool source_read(const Source *source, uint64_t offset, void *buffer, uint64_t size, Err *err) {
    if (offset > source->size || size > source->size - offset) return out_of_range(source, err);
    progress_read(size);
    if (source->memory) {
        if (size) memcpy(buffer, source->memory + offset, size);
        return true;
    }
    if (source->window && size <= SMALL_READ && read_window(source, offset, buffer, size))
        return true;
    return read_file(source, offset, buffer, size, err);
}

bool source_is_file(const Source *source) {
    return source->fd >= 0 && !source->memory && !source->growth;
}

/* ---- hashing --------------------------------------------------------------------------------- */

enum { HASH_PIECE = 1 << 20, HASHES = 2, SHORT = 8 * HASH_PIECE };

/* While a piece is hashed, once for each seed, the next one is read. */
typedef struct Hashing {
    const Source *source;
    unsigned char *pieces[2];
    uint64_t at; /* of the piece that is read, into pieces[at / HASH_PIECE % 2] */
    Hash64 sums[HASHES];
    bool read;
    Err *err;
} Hashing;

static size_t piece_at(const Hashing *h, uint64_t at) {
    const uint64_t left = at < h->source->size ? h->source->size - at : 0;
    return left < HASH_PIECE ? (size_t)left : HASH_PIECE;
}

static unsigned char *piece_of(const Hashing *h, uint64_t at) {
    return h->pieces[at / HASH_PIECE % 2];
}

static void hash_task(void *data, unsigned task, unsigned lane) {
    Hashing *h = data;
    (void)lane;
    if (task == 0) {
        const size_t size = piece_at(h, h->at);
        h->read = !size || source_read(h->source, h->at, piece_of(h, h->at), size, h->err);
        return;
    }
    const uint64_t at = h->at - HASH_PIECE;
    hash64_update(&h->sums[task - 1], piece_of(h, at), piece_at(h, at));
}

bool source_hash(const Source *source, Arena *scratch, uint64_t hash[2], Err *err) {
    Hashing h = {.source = source, .err = err};
    Workers *workers =
        source->size > SHORT ? workers_new_streaming(scratch) : workers_new(scratch, 1);
    for (int i = 0; i < 2; i++) h.pieces[i] = arena_alloc_raw(scratch, piece_at(&h, 0) + 1);
    for (uint64_t i = 0; i < HASHES; i++) hash64_init(&h.sums[i], i);
    const unsigned piece = progress_begin("reading the model", source->size, PROGRESS_READ);
    do {
        workers_run(workers, h.at ? 1 + HASHES : 1, hash_task, &h);
        h.at += HASH_PIECE;
    } while (h.read && h.at < source->size + HASH_PIECE);
    progress_end(piece);
    for (int i = 0; i < HASHES; i++) hash[i] = hash64_final(&h.sums[i]);
    for (int i = 0; i < 2; i++) arena_release(scratch, h.pieces[i], piece_at(&h, 0) + 1);
    return h.read;
}
