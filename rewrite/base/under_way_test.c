// SPDX-License-Identifier: Apache-2.0
/* Pieces of work: how they nest and end, whose count, and what is said of them. */
#include "under_way.h"

#include <pthread.h>
#include <string.h>

#include "unit_test.h"

static unsigned idle;

static void be_idle(void *user) {
    ++*(unsigned *)user;
}

SET_UP {
    idle = 0;
    under_way_listen(be_idle, &idle);
}

TEAR_DOWN {
    under_way_listen(NULL, NULL);
}

TEST(test_nests) {
    WayPiece pieces[WAY_DEPTH];
    assert_int_equal(under_way_pieces(pieces), 0);
    const unsigned outer = under_way_begin("outer", 3, WAY_PARTS);
    under_way_turn(outer, "second", 1, 3);
    const unsigned inner = under_way_begin("inner", 100, WAY_WRITTEN);
    under_way_wrote(30);
    under_way_wrote(12);
    under_way_read(7);
    assert_int_equal(under_way_pieces(pieces), 2);
    assert_string_equal(pieces[0].what, "second");
    assert_true(pieces[0].unit == WAY_PARTS && pieces[0].done == 1 && pieces[0].total == 3);
    assert_string_equal(pieces[1].what, "inner");
    assert_true(pieces[1].done == 42 && pieces[1].total == 100 && pieces[1].read == 7);
    assert_true(pieces[1].first == 42 && pieces[1].seconds >= 0);
    under_way_wrote(8);
    under_way_pieces(pieces);
    assert_true(pieces[1].first == 42 && pieces[1].done == 50);
    under_way_end(inner);
    under_way_read(9); /* of the outer one */
    assert_int_equal(under_way_pieces(pieces), 1);
    assert_int_equal(pieces[0].read, 9);
    assert_int_equal(idle, 0);
    under_way_end(outer);
    assert_int_equal(under_way_pieces(pieces), 0);
    assert_int_equal(idle, 1);
}

/* The outermost piece whose steps are alike tells, by what was done of it while it was looked at. */
TEST(test_time_left) {
    enum { PARTS, STEPS, BYTES, COUNT };
    WayPiece pieces[COUNT] = {
        [PARTS] = {.unit = WAY_PARTS, .done = 3, .total = 4, .seconds = 100},
        [STEPS] = {.unit = WAY_STEPS, .done = 10, .first = 4, .total = 64, .seconds = 3},
        [BYTES] = {.unit = WAY_BYTES, .done = 500, .first = 0, .total = 1500, .seconds = 8}};
    assert_true(under_way_left(pieces, 0) < 0);
    assert_true(under_way_left(pieces, 1) < 0);
    assert_true(under_way_left(pieces, COUNT) == 27);
    pieces[STEPS].first = 10; /* nothing was done of it since */
    assert_true(under_way_left(pieces, COUNT) == 16);
    pieces[BYTES].total = 0; /* nobody knows */
    assert_true(under_way_left(pieces, COUNT) < 0);
    pieces[BYTES].total = pieces[BYTES].done;
    assert_true(under_way_left(pieces, COUNT) < 0);
}

/* What was left open ends with what is around it; and what has no place does no harm. */
TEST(test_left_open) {
    WayPiece pieces[WAY_DEPTH];
    const unsigned outer = under_way_begin("outer", 2, WAY_STEPS);
    unsigned last = 0;
    for (int i = 0; i < 2 * WAY_DEPTH; i++) last = under_way_begin("left", 5, WAY_STEPS);
    under_way_at(last, 4);
    under_way_read(1);
    under_way_turn(last, "more", 1, 5);
    assert_int_equal(under_way_pieces(pieces), WAY_DEPTH);
    under_way_turn(outer, "again", 1, 2);
    assert_int_equal(under_way_pieces(pieces), 1);
    under_way_begin("left", 5, WAY_STEPS);
    assert_int_equal(under_way_open(), 2);
    under_way_end(outer);
    under_way_end(outer);
    assert_int_equal(under_way_open(), 0);
    assert_int_equal(under_way_pieces(pieces), 0);
    assert_int_equal(idle, 1);
}

TEST(test_long_text) {
    char text[2 * WAY_TEXT];
    WayPiece pieces[WAY_DEPTH];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    under_way_begin(text, 1, WAY_STEPS);
    assert_int_equal(under_way_pieces(pieces), 1);
    assert_int_equal(strlen(pieces[0].what), WAY_TEXT - 1);
}

static void *other(void *unused) {
    (void)unused;
    under_way_end(under_way_begin("other", 1, WAY_STEPS));
    for (int i = 0; i < 1000; i++) under_way_wrote(1);
    return NULL;
}

TEST(test_threads) {
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    WayPiece pieces[WAY_DEPTH];
    const unsigned piece = under_way_begin("mine", 0, WAY_WRITTEN);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, other, NULL), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    assert_int_equal(under_way_pieces(pieces), 1);
    assert_int_equal(pieces[0].done, THREADS * 1000);
    under_way_end(piece);
}

TEST(test_nobody_listens) {
    WayPiece pieces[WAY_DEPTH];
    under_way_listen(NULL, NULL);
    const unsigned piece = under_way_begin("unheard", 1, WAY_STEPS);
    assert_int_equal(piece, 0);
    under_way_at(piece, 1);
    under_way_turn(piece, "unheard", 1, 1);
    under_way_read(1);
    under_way_end(piece);
    assert_int_equal(under_way_pieces(pieces), 0);
}
