// SPDX-License-Identifier: Apache-2.0
/* Interned names: identity, odd contents, growth and fresh names. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sym.h"
#include "unit_test.h"

static MemTrap trap;
static Arena arena;
static SymTable table;

static int set_up(void **state) {
    (void)state;
    arena_init(&arena, &trap);
    sym_table_init(&table, &arena);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    arena_free(&arena);
    return 0;
}

static void test_equal_names_are_one(void **state) {
    (void)state;
    if (setjmp(trap.env)) fail_msg("out of memory");
    assert_null(sym_find(&table, "a", 1));
    Sym a = sym_intern_cstr(&table, "a");
    assert_ptr_equal(sym_intern(&table, "ab", 1), a);
    assert_ptr_equal(sym_find(&table, "a", 1), a);
    assert_ptr_not_equal(sym_intern(&table, "ab", 2), a);
    assert_null(sym_find(&table, "b", 1));
    assert_int_equal(table.count, 2);
    assert_string_equal(sym_text(a), "a");
    assert_true(sym_equals(a, "a"));
    assert_false(sym_equals(a, "ab") || sym_equals(a, "") || sym_equals(NULL, ""));
}

static void test_odd_names(void **state) {
    (void)state;
    if (setjmp(trap.env)) fail_msg("out of memory");
    Sym empty = sym_intern(&table, NULL, 0);
    assert_non_null(empty);
    assert_ptr_equal(sym_intern(&table, NULL, 0), empty);
    assert_ptr_equal(sym_intern_cstr(&table, ""), empty);
    assert_true(sym_is_empty(empty) && sym_is_empty(NULL));
    assert_string_equal(sym_text(NULL), "");
    Sym nul = sym_intern(&table, "a\0b", 3);
    assert_int_equal(nul->length, 3);
    assert_ptr_not_equal(nul, sym_intern(&table, "a\0c", 3));
    assert_ptr_not_equal(nul, sym_intern(&table, "a", 1));
    assert_memory_equal(nul->text, "a\0b\0", 4);
    assert_false(sym_equals(nul, "a"));
}

static void test_many_names(void **state) {
    (void)state;
    if (setjmp(trap.env)) fail_msg("out of memory");
    enum { COUNT = 20000 };
    static Sym names[COUNT];
    char text[32];
    for (int i = 0; i < COUNT; i++) {
        snprintf(text, sizeof text, "/layer/%d/out", i);
        names[i] = sym_intern_cstr(&table, text);
    }
    assert_int_equal(table.count, COUNT);
    for (int i = 0; i < COUNT; i++) {
        snprintf(text, sizeof text, "/layer/%d/out", i);
        assert_ptr_equal(sym_find(&table, text, strlen(text)), names[i]);
        assert_string_equal(names[i]->text, text);
    }
}

/* Names that differ in their last byte only belong to one group, far more of them here than it
 * holds: all must still be found. */
static void test_reserved_neighbours(void **state) {
    (void)state;
    if (setjmp(trap.env)) fail_msg("out of memory");
    enum { STEMS = 300, LAST = 256 };
    char text[4] = "";
    sym_reserve(&table, (size_t)STEMS * LAST);
    uint64_t used = arena.used;
    size_t groups = table.group_count;
    for (int i = 0; i < STEMS * LAST; i++) {
        memcpy(text, &(uint16_t){(uint16_t)(i / LAST)}, 2);
        text[2] = (char)(i % LAST);
        assert_int_equal(sym_find(&table, text, 3) != NULL, 0);
        sym_intern(&table, text, 3);
    }
    assert_int_equal(table.count, STEMS * LAST);
    assert_int_equal(table.group_count, groups);
    assert_true(arena.used > used);
    for (int i = 0; i < STEMS * LAST; i++) {
        memcpy(text, &(uint16_t){(uint16_t)(i / LAST)}, 2);
        text[2] = (char)(i % LAST);
        assert_ptr_equal(sym_find(&table, text, 3), table.names[i]);
    }
}

/* Where there is no memory for a larger table, the names that were there are still found. */
static void test_growth_that_fails(void **state) {
    (void)state;
    enum { COUNT = 40000 }; /* the table is large enough to be given back when it grows */
    char text[32];
    static volatile bool failed;
    static volatile size_t count;
    failed = false;
    if (setjmp(trap.env)) {
        failed = true;
        arena.budget = UINT64_MAX;
    } else {
        for (int i = 0; i < COUNT; i++) {
            snprintf(text, sizeof text, "n%d", i);
            sym_intern_cstr(&table, text);
        }
        count = table.count;
        arena.budget = arena.used;
        sym_reserve(&table, 4 * COUNT);
    }
    assert_true(failed);
    assert_int_equal(table.count, count);
    for (size_t i = 0; i < count; i++) {
        snprintf(text, sizeof text, "n%zu", i);
        assert_ptr_equal(sym_find(&table, text, strlen(text)), table.names[i]);
    }
}

static void test_fresh_names(void **state) {
    (void)state;
    if (setjmp(trap.env)) fail_msg("out of memory");
    sym_intern_cstr(&table, "x_2");
    assert_string_equal(sym_fresh(&table, "x")->text, "x");
    assert_string_equal(sym_fresh(&table, "x")->text, "x_1");
    assert_string_equal(sym_fresh(&table, "x")->text, "x_3");
    sym_intern_cstr(&table, "x_4");
    assert_string_equal(sym_fresh(&table, "x")->text, "x_5");
    assert_string_equal(sym_fresh(&table, "x_1")->text, "x_1_1");
    assert_string_equal(sym_fresh(&table, "")->text, "");
    assert_string_equal(sym_fresh(&table, "")->text, "_1");
}

/* Quadratic work or memory would show: 200,000 names of one stem. */
static void test_many_fresh_names(void **state) {
    (void)state;
    if (setjmp(trap.env)) fail_msg("out of memory");
    enum { COUNT = 200000 };
    Sym last = NULL;
    for (int i = 0; i < COUNT; i++) last = sym_fresh(&table, "cast");
    assert_string_equal(last->text, "cast_199999");
    assert_int_equal(table.count, COUNT);
    assert_true(arena.used < (uint64_t)COUNT * 160);
}

static int compare_hash(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Most names of one hash value. */
static size_t worst_bucket(uint32_t *hashes, size_t count) {
    size_t worst = 0, run = 0;
    qsort(hashes, count, sizeof *hashes, compare_hash);
    for (size_t i = 0; i < count; i++) {
        run = i && hashes[i] == hashes[i - 1] ? run + 1 : 1;
        if (run > worst) worst = run;
    }
    return worst;
}

/* What decides the group of a name. */
static uint32_t group_hash(const SymTable *of, const char *text, size_t length) {
    return (uint32_t)(sym_key(of, text, length).hash >> 32);
}

/* "aa" and "bB" differ by what 31-multiplying hashes cancel; zero bytes are what FNV's xor ignores
 * at the state 0; equal low bits are what a mask keeps. None of these families may share
 * buckets. */
static void test_hostile_names_spread(void **state) {
    (void)state;
    if (setjmp(trap.env)) fail_msg("out of memory");
    enum { BITS = 14, COUNT = 1 << BITS };
    static uint32_t hashes[COUNT], high[COUNT];
    for (int family = 0; family < 3; family++) {
        size_t first = table.count;
        for (uint32_t i = 0; i < COUNT; i++) {
            char text[64];
            size_t length = 0;
            for (unsigned bit = 0; bit < BITS; bit++) {
                const char *pair = i >> bit & 1 ? "aa" : "bB";
                memcpy(text + length, family == 0 ? pair : i >> bit & 1 ? "\0\1" : "\0\0", 2);
                length += 2;
            }
            if (family == 2) { /* one byte repeated, so that only the length differs at first */
                memset(text, 'x', sizeof text);
                memcpy(text + 8, &i, sizeof i);
                length = 16;
            }
            assert_int_equal(sym_intern(&table, text, length)->number, first + i);
            hashes[i] = group_hash(&table, text, length);
            high[i] = hashes[i] >> 18;
        }
        /* Two names differ in their last byte only, where that is one of the pair's. */
        assert_true(worst_bucket(hashes, COUNT) <= 4);
        assert_true(worst_bucket(high, COUNT) <= 16);
    }
}

/* Names found to collide in one table do not collide in the next one. */
static void test_tables_hash_differently(void **state) {
    (void)state;
    if (setjmp(trap.env)) fail_msg("out of memory");
    SymTable other;
    sym_table_init(&other, &arena);
    unsigned same = 0;
    for (int i = 0; i < 64; i++) {
        char text[16];
        snprintf(text, sizeof text, "n%d", i);
        same += group_hash(&table, text, strlen(text)) == group_hash(&other, text, strlen(text));
    }
    assert_true(same < 2);
}

/* SipHash-1-3 of the bytes 00..0e under the key 00..0f, by another implementation that also gives
 * the published digest of SipHash-2-4; ours adds the last byte, 0f. */
static void test_hash_vector(void **state) {
    (void)state;
    if (setjmp(trap.env)) fail_msg("out of memory");
    unsigned char bytes[16];
    for (unsigned i = 0; i < 16; i++) bytes[i] = (unsigned char)i;
    memcpy(table.key, bytes, sizeof table.key);
    uint64_t digest = UINT64_C(0xd320d86d2a519956);
    assert_true(sym_key(&table, (const char *)bytes, 16).hash == (digest ^ 15));
}

UNIT_TESTS(sym_test) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_equal_names_are_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_odd_names, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_many_names, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_reserved_neighbours, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_growth_that_fails, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_fresh_names, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_many_fresh_names, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_hostile_names_spread, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_tables_hash_differently, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_hash_vector, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
