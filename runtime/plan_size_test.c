// SPDX-License-Identifier: Apache-2.0
/* A plan with 400 MB of weights loads in less than a millisecond: nothing of the weights is read. The
 * file is sparse, as its weights are zeros. Plans are written in blocks, and mapped such that a file
 * system's large pages can be. */
#define _DEFAULT_SOURCE /* mkstemp, ftruncate, getrusage */
#include "plan_make_test.h"

#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "demi_runtime.h"
#include "plan_file.h"
#include "work_progress.h"

enum { STEPS = 1000, WEIGHT = 1 << 19, MOST_FAULTS = 400 };
#define MOST_SECONDS 0.01 /* of the processor */

static bool read_zeros(void *data, uint64_t offset, void *buffer, uint64_t size, Err *err) {
    (void)data, (void)offset, (void)err;
    memset(buffer, 0, size);
    return true;
}

/* A chain of Adds, each of weights of half a megabyte. */
static void build(PlanBuilder *b) {
    const int64_t dims[] = {WEIGHT / 4};
    uint32_t x = add_value(b, "x", DTYPE_FLOAT, dims, 1), last = x;
    for (int i = 0; i < STEPS; i++) {
        char name[24];
        snprintf(name, sizeof name, "weight %d", i);
        uint32_t pair[] = {last, add_value(b, name, DTYPE_FLOAT, dims, 1)};
        plan_set_data(b, pair[1], i < 800 ? WEIGHT : 4, read_zeros, NULL);
        if (i >= 800) b->values.items[pair[1]].rank = 0;
        snprintf(name, sizeof name, "sum %d", i);
        last = add_value(b, name, DTYPE_FLOAT, dims, 1);
        add_step(b, "Add", plan_add_operands(b, pair, 2), one(b, last), (PlanSpan){0});
    }
    PlanGraph graph = {.inputs = one(b, x), .outputs = one(b, last), .steps = {0, STEPS}};
    VEC_PUSH(b->arena, &b->graphs, graph);
}

/* Zeros are left out, so that the file has holes. */
static bool write_sparse(void *data, const void *bytes, size_t size, Err *err) {
    int fd = *(int *)data;
    (void)err;
    const char *at = bytes;
    bool zeros = size > 4096;
    for (size_t i = 0; zeros && i < size; i++) zeros = at[i] == 0;
    return zeros ? lseek(fd, (off_t)size, SEEK_CUR) >= 0 : write(fd, bytes, size) == (ssize_t)size;
}

static void write_plan(int fd) {
    Arena arena;
    PlanBuilder builder;
    Err err = {0};
    arena_init(&arena, &test_trap);
    plan_builder_init(&builder, &arena);
    build(&builder);
    assert_true(plan_write(&builder, write_sparse, &fd, &err));
    arena_free(&arena);
    off_t size = lseek(fd, 0, SEEK_CUR);
    assert_true(size > 400 << 20);
    assert_int_equal(ftruncate(fd, size), 0); /* it may end in a hole */
}

static double seconds_now(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

TEST(test_loads_fast) {
    const char *folder = getenv("TMPDIR");
    char path[512];
    snprintf(path, sizeof path, "%s/demi-plan-XXXXXX", folder ? folder : "/tmp");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    write_plan(fd);
    double best = 1;
    long faults = 0;
    for (int i = 0; i < 10; i++) {
        struct rusage before, after;
        DemiPlan *plan = NULL;
        DemiError error = DEMI_ERROR_INIT;
        getrusage(RUSAGE_SELF, &before);
        double start = seconds_now();
        DemiStatus status = demi_plan_load(path, &plan, &error);
        double seconds = seconds_now() - start;
        getrusage(RUSAGE_SELF, &after);
        if (status != DEMI_OK) fail_msg("%s", error.message);
        assert_int_equal(demi_plan_input_count(plan), 1);
        if (seconds < best) best = seconds;
        if (i) faults = after.ru_minflt - before.ru_minflt;
        demi_plan_free(plan);
    }
    close(fd);
    unlink(path);
    printf("%.2f ms, %ld page faults\n", best * 1e3, faults);
    assert_true(faults < MOST_FAULTS); /* its weights are 100,000 pages */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && defined(NDEBUG)
    assert_true(best < MOST_SECONDS);
#endif
}

/* ---- blocks ---------------------------------------------------------------------------------- */

enum { WORDS = 400003, CONSTANTS = 7 };

static uint32_t word_of(uint64_t i, uint64_t at) {
    return (uint32_t)(i * 2654435761u + at * 40503u);
}

static bool read_words(void *data, uint64_t offset, void *buffer, uint64_t size, Err *err) {
    uint32_t *to = buffer;
    (void)err;
    for (uint64_t at = 0; at < size / 4; at++)
        to[at] = word_of(*(const uint64_t *)data, offset / 4 + at);
    return true;
}

typedef struct Blocks {
    int fd;
    bool ended;
    uint64_t done; /* as it is said to be under way */
} Blocks;

static void be_idle(void *user) {
    ++*(unsigned *)user;
}

static bool write_block(void *data, const void *bytes, size_t size, Err *err) {
    Blocks *blocks = data;
    (void)err;
    assert_false(blocks->ended);
    ProgressPiece pieces[PROGRESS_DEPTH];
    assert_int_equal(progress_pieces(pieces), 1);
    assert_string_equal(pieces[0].what, "writing the plan");
    assert_true(pieces[0].unit == PROGRESS_BYTES && pieces[0].done >= blocks->done);
    assert_true(pieces[0].total > CONSTANTS * WORDS * sizeof(int32_t));
    blocks->done = pieces[0].done;
    assert_true(size && size <= PLAN_BLOCK);
    blocks->ended = size < PLAN_BLOCK;
    return write(blocks->fd, bytes, size) == (ssize_t)size;
}

static void write_words(int fd) {
    static uint64_t numbers[CONSTANTS];
    Arena arena;
    PlanBuilder b;
    Err err = {0};
    const int64_t dims[] = {WORDS};
    Blocks blocks = {.fd = fd};
    arena_init(&arena, &test_trap);
    plan_builder_init(&b, &arena);
    uint32_t value = 0;
    for (uint64_t i = 0; i < CONSTANTS; i++) {
        numbers[i] = i;
        value = add_value(&b, "w", DTYPE_INT32, dims, 1);
        plan_set_data(&b, value, WORDS * sizeof(int32_t), read_words, &numbers[i]);
    }
    PlanGraph graph = {.outputs = one(&b, value)};
    VEC_PUSH(&arena, &b.graphs, graph);
    unsigned idle = 0;
    progress_listen(be_idle, &idle);
    assert_true(plan_write(&b, write_block, &blocks, &err));
    progress_listen(NULL, NULL);
    assert_true(idle == 1 && blocks.done > 0);
    arena_free(&arena);
}

TEST(test_blocks) {
    char path[512];
    const char *folder = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/demi-plan-XXXXXX", folder ? folder : "/tmp");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    write_words(fd);
    PlanFile file;
    Err err = {0};
    assert_true(plan_file_open(&file, path, false, &err));
    assert_true(file.size > CONSTANTS * WORDS * sizeof(int32_t) && file.mapped);
    assert_int_equal((uintptr_t)file.bytes % PLAN_BLOCK, 0);
    const PlanHeader *header = file.bytes;
    const char *data = (const char *)file.bytes + header->sections[PLAN_DATA].offset;
    const PlanValue *values =
        (const void *)((const char *)file.bytes + header->sections[PLAN_VALUES].offset);
    for (uint64_t i = 0; i < CONSTANTS; i++) {
        const uint32_t *words = (const void *)(data + values[i].data);
        for (uint64_t at = 0; at < WORDS; at++)
            if (words[at] != word_of(i, at)) fail_msg("constant %d, word %d", (int)i, (int)at);
    }
    plan_file_close(&file);
    DemiError error = DEMI_ERROR_INIT;
    DemiPlan *plan = NULL;
    if (demi_plan_load(path, &plan, &error) != DEMI_OK) fail_msg("%s", error.message);
    demi_plan_free(plan);
    close(fd);
    unlink(path);
}
