// SPDX-License-Identifier: Apache-2.0
/* Pieces of work: how they nest and end, whose count, and what is said of them. */
#include "work_progress.h"

#include <pthread.h>
#include <string.h>

#include "unit_test.h"

static unsigned idle;

static void be_idle(void *user) {
    ++*(unsigned *)user;
}

SET_UP {
    idle = 0;
    progress_listen(be_idle, &idle);
}

TEAR_DOWN {
    progress_listen(NULL, NULL);
}

TEST(test_nests) {
    ProgressPiece pieces[PROGRESS_DEPTH];
    assert_int_equal(progress_pieces(pieces), 0);
    const unsigned outer = progress_begin("outer", 3, PROGRESS_PARTS);
    progress_turn(outer, "second", 1, 3);
    const unsigned inner = progress_begin("inner", 100, PROGRESS_WRITTEN);
    progress_wrote(30);
    progress_wrote(12);
    progress_read(7);
    assert_int_equal(progress_pieces(pieces), 2);
    assert_string_equal(pieces[0].what, "second");
    assert_true(pieces[0].unit == PROGRESS_PARTS && pieces[0].done == 1 && pieces[0].total == 3);
    assert_string_equal(pieces[1].what, "inner");
    assert_true(pieces[1].done == 42 && pieces[1].total == 100 && pieces[1].read == 7);
    assert_true(pieces[1].first == 42 && pieces[1].seconds >= 0);
    progress_wrote(8);
    progress_pieces(pieces);
    assert_true(pieces[1].first == 42 && pieces[1].done == 50);
    progress_end(inner);
    progress_read(9); /* of the outer one */
    assert_int_equal(progress_pieces(pieces), 1);
    assert_int_equal(pieces[0].read, 9);
    assert_int_equal(idle, 0);
    progress_end(outer);
    assert_int_equal(progress_pieces(pieces), 0);
    assert_int_equal(idle, 1);
}

/* The outermost piece whose steps are alike tells, by what was done of it while it was looked at. */
TEST(test_time_left) {
    enum { PARTS, STEPS, BYTES, COUNT };
    ProgressPiece pieces[COUNT] = {
        [PARTS] = {.unit = PROGRESS_PARTS, .done = 3, .total = 4, .seconds = 100},
        [STEPS] = {.unit = PROGRESS_STEPS, .done = 10, .first = 4, .total = 64, .seconds = 3},
        [BYTES] = {.unit = PROGRESS_BYTES, .done = 500, .first = 0, .total = 1500, .seconds = 8}};
    assert_true(progress_left(pieces, 0) < 0);
    assert_true(progress_left(pieces, 1) < 0);
    assert_true(progress_left(pieces, COUNT) == 27);
    pieces[STEPS].first = 10; /* nothing was done of it since */
    assert_true(progress_left(pieces, COUNT) == 16);
    pieces[BYTES].total = 0; /* nobody knows */
    assert_true(progress_left(pieces, COUNT) < 0);
    pieces[BYTES].total = pieces[BYTES].done;
    assert_true(progress_left(pieces, COUNT) < 0);
}

/* What was left open ends with what is around it; and what has no place does no harm. */
TEST(test_left_open) {
    ProgressPiece pieces[PROGRESS_DEPTH];
    const unsigned outer = progress_begin("outer", 2, PROGRESS_STEPS);
    unsigned last = 0;
    for (int i = 0; i < 2 * PROGRESS_DEPTH; i++) last = progress_begin("left", 5, PROGRESS_STEPS);
    progress_at(last, 4);
    progress_read(1);
    progress_turn(last, "more", 1, 5);
    assert_int_equal(progress_pieces(pieces), PROGRESS_DEPTH);
    progress_turn(outer, "again", 1, 2);
    assert_int_equal(progress_pieces(pieces), 1);
    progress_begin("left", 5, PROGRESS_STEPS);
    assert_int_equal(progress_open(), 2);
    progress_end(outer);
    progress_end(outer);
    assert_int_equal(progress_open(), 0);
    assert_int_equal(progress_pieces(pieces), 0);
    assert_int_equal(idle, 1);
}

TEST(test_long_text) {
    char text[2 * PROGRESS_TEXT];
    ProgressPiece pieces[PROGRESS_DEPTH];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    progress_begin(text, 1, PROGRESS_STEPS);
    assert_int_equal(progress_pieces(pieces), 1);
    assert_int_equal(strlen(pieces[0].what), PROGRESS_TEXT - 1);
}

static void *other(void *unused) {
    (void)unused;
    progress_end(progress_begin("other", 1, PROGRESS_STEPS));
    for (int i = 0; i < 1000; i++) progress_wrote(1);
    return NULL;
}

TEST(test_threads) {
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    ProgressPiece pieces[PROGRESS_DEPTH];
    const unsigned piece = progress_begin("mine", 0, PROGRESS_WRITTEN);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, other, NULL), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    assert_int_equal(progress_pieces(pieces), 1);
    assert_int_equal(pieces[0].done, THREADS * 1000);
    progress_end(piece);
}

TEST(test_nobody_listens) {
    ProgressPiece pieces[PROGRESS_DEPTH];
    progress_listen(NULL, NULL);
    const unsigned piece = progress_begin("unheard", 1, PROGRESS_STEPS);
    assert_int_equal(piece, 0);
    progress_at(piece, 1);
    progress_turn(piece, "unheard", 1, 1);
    progress_read(1);
    progress_end(piece);
    assert_int_equal(progress_pieces(pieces), 0);
}
