// SPDX-License-Identifier: Apache-2.0
/* Sources: files, pipes and memory; ranges; a file that shrinks; descriptors that must not leak. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hash64.h"
#include "source.h"
#include "test_folder.h"
#include "unit_test.h"

enum { SIZE = 100000 };
static char folder[64], path[128];
static unsigned char content[SIZE];

SET_UP {
    test_place(folder, sizeof folder, "source_testXXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/file", folder);
    for (int i = 0; i < SIZE; i++) content[i] = (unsigned char)(i * 7 + i / 256);
    int fd = open(path, O_CREAT | O_WRONLY, 0600);
    assert_int_equal(write(fd, content, SIZE), SIZE);
    close(fd);
}

TEAR_DOWN {
    unlink(path);
    assert_int_equal(rmdir(folder), 0);
}

/* The lowest free descriptor: the same before and after means that none leaked. */
static int lowest_free_fd(void) {
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    close(fd);
    return fd;
}

static void check_contents(const Source *source) {
    static unsigned char buffer[SIZE];
    Err err = {0};
    assert_true(source->size == SIZE);
    assert_true(source_read(source, 0, buffer, SIZE, &err));
    assert_memory_equal(buffer, content, SIZE);
    assert_true(source_read(source, 777, buffer, 10, &err));
    assert_memory_equal(buffer, content + 777, 10);
    assert_true(source_read(source, SIZE, buffer, 0, &err));
    assert_int_equal(err.code, ERR_NONE);
    static const uint64_t outside[][2] = {{SIZE, 1},     {SIZE - 1, 2},   {SIZE + 1, 0},
                                          {0, SIZE + 1}, {5, UINT64_MAX}, {UINT64_MAX, 5}};
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
        Err range = {0};
        assert_false(source_read(source, outside[i][0], buffer, outside[i][1], &range));
        assert_int_equal(range.code, ERR_MODEL);
        assert_string_equal(range.file, source->name);
    }
}

TEST(test_file) {
    int free_before = lowest_free_fd();
    Err err = {0};
    Source *source = source_open(&test_arena, path, SIZE, &err);
    assert_non_null(source);
    assert_null(source->memory);
    assert_string_equal(source->name, path);
    Source *again = source_open(&test_arena, path, SIZE, &err);
    assert_true(again->device == source->device && again->inode == source->inode);
    check_contents(source);
    assert_int_equal(fcntl(source->fd, F_GETFD), FD_CLOEXEC);
    arena_free(&test_arena);
    assert_int_equal(lowest_free_fd(), free_before);
}

TEST(test_memory) {
    check_contents(source_from_memory(&test_arena, content, SIZE, "bytes"));
    Source *empty = source_from_memory(&test_arena, NULL, 0, "empty");
    Err err = {0};
    assert_true(source_read(empty, 0, NULL, 0, &err));
    assert_false(source_read(empty, 0, content, 1, &err));
}

/* A pipe filled by a child process: more than a pipe holds at once. */
static int pipe_with_contents(void) {
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t child = fork();
    if (child == 0) {
        for (size_t at = 0; at < SIZE;) {
            ssize_t some = write(ends[1], content + at, SIZE - at < 999 ? SIZE - at : 999);
            if (some < 0) break;
            at += (size_t)some;
        }
        _exit(0);
    }
    close(ends[1]);
    return ends[0];
}

TEST(test_pipe) {
    Err err = {0};
    int fd = pipe_with_contents();
    Source *source = source_read_all(&test_arena, fd, "-", SIZE, &err);
    close(fd);
    assert_non_null(source);
    assert_int_equal(source->fd, -1);
    check_contents(source);
    fd = pipe_with_contents();
    char name[64];
    snprintf(name, sizeof name, "/dev/fd/%d", fd);
    source = source_open(&test_arena, name, SIZE, &err);
    close(fd);
    assert_non_null(source);
    check_contents(source);
    fd = pipe_with_contents();
    assert_null(source_read_all(&test_arena, fd, "-", SIZE - 1, &err));
    close(fd);
    assert_int_equal(err.code, ERR_MODEL);
    assert_string_equal(err.what, "larger than 99999 bytes");
}

TEST(test_cannot_open) {
    int free_before = lowest_free_fd();
    char other[160];
    Err absent = {0}, below_file = {0}, directory = {0}, closed = {0}, unreadable = {0};
    snprintf(other, sizeof other, "%s/absent", folder);
    assert_null(source_open(&test_arena, other, SIZE, &absent));
    assert_int_equal(absent.code, ERR_USAGE);
    assert_string_equal(absent.file, other);
    snprintf(other, sizeof other, "%s/below", path);
    assert_null(source_open(&test_arena, other, SIZE, &below_file));
    assert_int_equal(below_file.code, ERR_USAGE);
    assert_null(source_open(&test_arena, folder, SIZE, &directory));
    assert_int_equal(directory.code, ERR_USAGE);
    assert_string_equal(directory.what, strerror(EISDIR));
    assert_null(source_read_all(&test_arena, -1, "-", SIZE, &closed));
    assert_int_equal(closed.code, ERR_ENV);
    chmod(path, 0);
    if (geteuid() != 0) { /* root reads everything */
        assert_null(source_open(&test_arena, path, SIZE, &unreadable));
        assert_int_equal(unreadable.code, ERR_ENV);
    }
    assert_null(source_from_fd(&test_arena, 1000, "x", &closed)); /* no such descriptor */
    assert_int_equal(lowest_free_fd(), free_before);
}

TEST(test_file_that_shrinks) {
    static unsigned char buffer[SIZE];
    Err err = {0};
    Source *source = source_open(&test_arena, path, SIZE, &err);
    assert_int_equal(truncate(path, SIZE / 2), 0);
    assert_true(source_read(source, 0, buffer, SIZE / 2, &err));
    assert_false(source_read(source, 0, buffer, SIZE, &err));
    assert_int_equal(err.code, ERR_MODEL);
}

/* Small reads in order, with gaps, backwards and across the window's edges give the file's bytes.
 */
TEST(test_read_ahead) {
    static unsigned char all[SIZE], part[4096];
    Err err = {0};
    Source *source = source_open(&test_arena, path, SIZE, &err);
    assert_true(source_read(source, 0, all, SIZE, &err));
    source_read_ahead(source, &test_arena);
    for (int round = 0; round < 3; round++)
        for (uint64_t at = 0, size = 0; at + size <= SIZE; at += size + at % 3 * 700) {
            assert_true(source_read(source, at, part, size, &err));
            assert_memory_equal(part, all + at, size);
            uint64_t back = at > 5000 ? at - 5000 : 0;
            if (size % 5 == 0) assert_true(source_read(source, back, part, 9, &err));
            if (size % 5 == 0) assert_memory_equal(part, all + back, 9);
            size = (size + 37) % sizeof part;
        }
    assert_true(source_read(source, SIZE - 1, part, 1, &err));
    assert_int_equal(part[0], all[SIZE - 1]);
    assert_false(source_read(source, SIZE - 1, part, 2, &err));
    assert_int_equal(truncate(path, 0), 0);
    assert_false(source_read(source, 0, part, 8, &(Err){0}));
}

/* Writes the file from front to back, `wanted` of its bytes, while another thread reads it. */
typedef struct Writer {
    Source *source;
    uint64_t wanted;
} Writer;

static void *write_file(void *data) {
    const Writer *writer = data;
    FILE *file = fopen(path, "r+b");
    for (uint64_t at = 0, size = 1; file && at < writer->wanted; at += size, size = size * 2 + 1) {
        if (size > writer->wanted - at) size = writer->wanted - at;
        if (fwrite(content + at, 1, size, file) != size || fflush(file) != 0) break;
        source_has(writer->source, at + size);
    }
    if (file) fclose(file);
    source_ended(writer->source);
    return NULL;
}

/* What is read of a file that grows is what was written, however early; and where it ends too soon,
 * that is an error. With and without the window. */
/* Pieces and threads leave no trace in it. */
TEST(test_hash) {
    static const size_t sizes[] = {0, 1, 1 << 20, (1 << 20) + 1, 3 << 20, (9 << 20) + 5};
    const size_t most = sizes[sizeof sizes / sizeof *sizes - 1];
    unsigned char *bytes = malloc(most);
    assert_non_null(bytes);
    for (size_t i = 0; i < most; i++) bytes[i] = (unsigned char)(i * 2654435761U >> 13);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        Arena arena;
        Err err = {0};
        uint64_t hash[2];
        arena_init(&arena, &test_trap);
        const Source *source = source_from_memory(&arena, bytes, sizes[i], "bytes");
        assert_true(source_hash(source, &arena, hash, &err));
        for (uint64_t seed = 0; seed < 2; seed++)
            assert_true(hash[seed] == hash64_bytes(bytes, sizes[i], seed));
        arena_free(&arena);
    }
    free(bytes);
}

TEST(test_file_that_grows) {
    static unsigned char part[4096];
    for (int round = 0; round < 40; round++) {
        Err err = {0};
        assert_int_equal(truncate(path, 0), 0);
        Source *source = source_growing(&test_arena, open(path, O_RDONLY), path, SIZE, &err);
        assert_non_null(source);
        assert_int_equal(source->size, SIZE);
        if (round % 2) source_read_ahead(source, &test_arena);
        Writer writer = {source, round % 4 < 2 ? SIZE : SIZE / 2};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, write_file, &writer), 0);
        uint64_t at = 0;
        for (uint64_t size = 1; at < SIZE; at += size, size = (size + 37) % sizeof part) {
            if (size > SIZE - at) size = SIZE - at;
            if (!source_read(source, at, part, size, &err)) break;
            assert_memory_equal(part, content + at, size);
        }
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(err.code, writer.wanted == SIZE ? ERR_NONE : ERR_MODEL);
        assert_true(writer.wanted == SIZE ? at == SIZE : at <= writer.wanted);
    }
}

/* Whatever allocation fails, the descriptor is closed once the arena is freed. */
TEST(test_no_leak_where_memory_runs_out) {
    static volatile int failures, opened;
    static volatile uint64_t budget;
    int free_before = lowest_free_fd();
    failures = 0, opened = 0;
    for (budget = 0; budget < 1000; budget += 16) {
        test_arena.budget = budget;
        Err err = {0};
        if (setjmp(test_trap.env))
            failures++;
        else if (source_open(&test_arena, path, SIZE, &err))
            opened++;
        arena_free(&test_arena);
        assert_ptr_equal(test_arena.trap, &test_trap);
        assert_int_equal(lowest_free_fd(), free_before);
    }
    assert_true(failures > 3 && opened > 3);
}
