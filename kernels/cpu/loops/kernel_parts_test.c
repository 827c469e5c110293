// SPDX-License-Identifier: Apache-2.0
/* Parts cover all items once; operators that are cut into parts give the same bits for any number
 * of threads. */
#include "kernel_case_test.h"

#include <stdatomic.h>

#include "kernel_parts.h"

enum { ROWS = 700, COLUMNS = 61, PLANES = 3, COUNT = PLANES * ROWS * COLUMNS };

TEST(test_cover) {
    for (uint64_t count = 0; count < 300; count++)
        for (unsigned parts = 1; parts < 9; parts++)
            for (uint64_t grain = 1; grain < 40; grain += 5) {
                assert_int_equal(kernel_part_begin(count, grain, 0, parts), 0);
                assert_int_equal(kernel_part_begin(count, grain, parts, parts), count);
                for (unsigned i = 0; i < parts; i++) {
                    uint64_t begin = kernel_part_begin(count, grain, i, parts);
                    uint64_t end = kernel_part_begin(count, grain, i + 1, parts);
                    assert_true(begin <= end && (begin % grain == 0 || begin == count));
                    assert_true(end - begin <= (count / grain / parts + 2) * grain);
                }
            }
    assert_int_equal(kernel_parts(8, 0, 1), 1);
    assert_int_equal(kernel_parts(8, 3 * KERNEL_PART_LEAST, 1), 3);
    assert_int_equal(kernel_parts(2, 3 * KERNEL_PART_LEAST, 1), 2);
}

/* ---- chunks ---------------------------------------------------------------------------------- */

enum { ITEMS = 500 };

typedef struct Counted {
    KernelCut cut;
    atomic_uint *done; /* [ITEMS] */
    atomic_uint wrong;
    unsigned slow; /* looks at `wrong` that the caller takes for a range */
} Counted;

/* Chunks begin at multiples of their size from the beginning of their part on. */
static void count_items(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    const Counted *given = data;
    Counted *counted = (Counted *)(uintptr_t)given;
    const KernelCut *cut = &counted->cut;
    for (uint64_t i = first; i < end; i++) atomic_fetch_add(&counted->done[i], 1);
    for (unsigned p = 0; p < cut->parts; p++) {
        const uint64_t begin = kernel_part_begin(cut->count, cut->grain, p, cut->parts);
        const uint64_t stop = kernel_part_begin(cut->count, cut->grain, p + 1, cut->parts);
        if (first < begin || first >= stop) continue;
        const uint64_t unit = cut->parts > 1 && cut->chunk ? cut->chunk : cut->piece;
        if (unit ? (first - begin) % unit : first != begin) atomic_store(&counted->wrong, 1);
        if (end > stop && cut->parts > 1) atomic_store(&counted->wrong, 2);
    }
    for (unsigned i = 0; lane == 0 && i < counted->slow; i++) atomic_load(&counted->wrong);
}

TEST(test_chunks) {
    for (unsigned threads = 1; threads < 6; threads++) {
        Workers *workers = workers_new(&test_arena, threads);
        for (uint32_t i = 0; i < 3000; i++) {
            static atomic_uint done[ITEMS];
            const uint32_t random = i * 2654435761u;
            const uint64_t chunk = random / 11 % 30, pieces = random / 13 % 4;
            Counted counted = {.slow = i % 4 ? 0 : 2000,
                               .cut = {1 + random % ITEMS, 1 + random / 7 % 20, threads, chunk,
                                       chunk ? chunk * pieces : 30 * pieces},
                               .done = done};
            atomic_init(&counted.wrong, 0);
            for (int k = 0; k < ITEMS; k++) atomic_store(&done[k], 0);
            kernel_run_parts(workers, counted.cut, count_items, &counted);
            for (uint32_t k = 0; k < ITEMS; k++)
                if (atomic_load(&done[k]) != (k < counted.cut.count))
                    fail_msg("item %u of %u: %u times", (unsigned)k, (unsigned)counted.cut.count,
                             atomic_load(&done[k]));
            assert_int_equal(atomic_load(&counted.wrong), 0);
        }
    }
}

/* ---- the end of a run ------------------------------------------------------------------------ */

typedef struct Ending {
    RunEnd end;
    atomic_uint parts; /* that began */
} Ending;

/* Cancels the run as soon as a part is done. */
static void cancel_part(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    Ending *ending = (Ending *)(uintptr_t)data;
    (void)first, (void)end, (void)lane;
    atomic_fetch_add(&ending->parts, 1);
    atomic_store(&ending->end.cancel, true);
}

/* True where the job was left, false where it returned. */
static bool is_left(Workers *workers, KernelCut cut, Ending *ending) {
    MemTrap trap;
    run_end_begin(&ending->end, 0, &trap);
    if (setjmp(trap.env)) return true;
    kernel_run_parts(workers, cut, cancel_part, ending);
    return false;
}

TEST(test_end) {
    for (unsigned threads = 1; threads < 4; threads++) {
        Workers *workers = workers_new(&test_arena, threads);
        for (unsigned shared = 0; shared < 2; shared++) {
            static Ending ending;
            const KernelCut cut = {1000, 1, threads, shared, 10};
            Err err = {0};
            atomic_store(&ending.parts, 0);
            workers_set_end(workers, &ending.end);
            assert_true(is_left(workers, cut, &ending));
            assert_in_range(atomic_load(&ending.parts), 1, threads);
            assert_false(run_end_fail(&ending.end, &err));
            assert_int_equal(err.code, ERR_CANCELLED);
            assert_false(atomic_load(&ending.end.cancel));
        }
    }
}

/* The operator on x, and on a bias of COLUMNS, into y of dims. */
static void compute(const char *op, uint32_t inputs, const int64_t *dims, float *y,
                    unsigned threads) {
    static float x[COUNT], bias[COLUMNS];
    static const int64_t x_dims[] = {PLANES, ROWS, COLUMNS}, bias_dims[] = {COLUMNS};
    KernelCase test;
    for (uint32_t i = 0; i < COUNT; i++)
        x[i] = (float)(int32_t)(i * 2654435761u) * 0x1p-29f; /* within 4 */
    for (uint32_t i = 0; i < COLUMNS; i++) bias[i] = (float)i - 30;
    case_begin(&test, op, 21);
    case_set_in(&test, 0, case_borrow(DTYPE_FLOAT, 3, x_dims, x));
    if (inputs > 1) case_set_in(&test, 1, case_borrow(DTYPE_FLOAT, 1, bias_dims, bias));
    case_set_out(&test, 0, case_borrow(DTYPE_FLOAT, 3, dims, y));
    test.call.workers = workers_new(&test.arena, threads);
    assert_true(case_run(&test));
    case_end(&test);
}

TEST(test_threads) {
    static float want[COUNT], got[COUNT];
    static const int64_t same[] = {PLANES, ROWS, COLUMNS}, transposed[] = {COLUMNS, ROWS, PLANES};
    static const struct {
        const char *op;
        uint32_t inputs;
        const int64_t *dims;
    } cases[] = {
        {"Add", 2, same},
        {"Relu", 1, same},
        {"Erf", 1, same},
        {"Softmax", 1, same},
        {"Transpose", 1, transposed},
        {"LayerNormalization", 2, same},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        compute(cases[i].op, cases[i].inputs, cases[i].dims, want, 1);
        for (unsigned threads = 2; threads < 6; threads++) {
            memset(got, 0xff, sizeof got);
            compute(cases[i].op, cases[i].inputs, cases[i].dims, got, threads);
            if (memcmp(want, got, sizeof want))
                fail_msg("%s differs with %u threads", cases[i].op, threads);
        }
    }
}
