// SPDX-License-Identifier: Apache-2.0
/* A plan with 400 MB of weights loads in a few milliseconds: nothing of the weights is read. The
 * file is sparse, as its weights are zeros. */
#define _DEFAULT_SOURCE /* mkstemp, ftruncate, getrusage */
#include "plan_make_test.h"

#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "demi_runtime.h"

enum { STEPS = 1000, WEIGHT = 1 << 19, MOST_FAULTS = 3000 };
#define MOST_SECONDS 0.01

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
    MemTrap trap;
    Arena arena;
    PlanBuilder builder;
    Err err = {0};
    if (setjmp(trap.env)) fail();
    arena_init(&arena, &trap);
    plan_builder_init(&builder, &arena);
    build(&builder);
    assert_true(plan_write(&builder, write_sparse, &fd, &err));
    arena_free(&arena);
    off_t size = lseek(fd, 0, SEEK_CUR);
    assert_true(size > 400 << 20);
    assert_int_equal(ftruncate(fd, size), 0); /* it may end in a hole */
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void test_loads_fast(void **state) {
    (void)state;
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
        double start = now();
        DemiStatus status = demi_plan_load(path, &plan, &error);
        double seconds = now() - start;
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

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_loads_fast)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
