// SPDX-License-Identifier: Apache-2.0
/* Interned names: identity, odd contents, growth and fresh names. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sym.h"
#include "unit_test.h"

static SymTable table;

SET_UP {
    sym_table_init(&table, &test_arena);
}

TEST(test_equal_names_are_one) {
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

TEST(test_odd_names) {
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

TEST(test_many_names) {
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
TEST(test_reserved_neighbors) {
    enum { STEMS = 300, LAST = 256 };
    char text[4] = "";
    sym_reserve(&table, (size_t)STEMS * LAST);
    uint64_t used = test_arena.used;
    size_t groups = table.group_count;
    for (int i = 0; i < STEMS * LAST; i++) {
        memcpy(text, &(uint16_t){(uint16_t)(i / LAST)}, 2);
        text[2] = (char)(i % LAST);
        assert_int_equal(sym_find(&table, text, 3) != NULL, 0);
        sym_intern(&table, text, 3);
    }
    assert_int_equal(table.count, STEMS * LAST);
    assert_int_equal(table.group_count, groups);
    assert_true(test_arena.used > used);
    for (int i = 0; i < STEMS * LAST; i++) {
        memcpy(text, &(uint16_t){(uint16_t)(i / LAST)}, 2);
        text[2] = (char)(i % LAST);
        assert_ptr_equal(sym_find(&table, text, 3), table.names[i]);
    }
}

/* Where there is no memory for a larger table, the names that were there are still found. */
TEST(test_growth_that_fails) {
    enum { COUNT = 40000 }; /* the table is large enough to be given back when it grows */
    char text[32];
    static volatile bool failed;
    static volatile size_t count;
    failed = false;
    if (setjmp(test_trap.env)) {
        failed = true;
        test_arena.budget = UINT64_MAX;
    } else {
        for (int i = 0; i < COUNT; i++) {
            snprintf(text, sizeof text, "n%d", i);
            sym_intern_cstr(&table, text);
        }
        count = table.count;
        test_arena.budget = test_arena.used;
        sym_reserve(&table, 4 * COUNT);
    }
    assert_true(failed);
    assert_int_equal(table.count, count);
    for (size_t i = 0; i < count; i++) {
        snprintf(text, sizeof text, "n%zu", i);
        assert_ptr_equal(sym_find(&table, text, strlen(text)), table.names[i]);
    }
}

TEST(test_fresh_names) {
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
TEST(test_many_fresh_names) {
    enum { COUNT = 200000 };
    Sym last = NULL;
    for (int i = 0; i < COUNT; i++) last = sym_fresh(&table, "cast");
    assert_string_equal(last->text, "cast_199999");
    assert_int_equal(table.count, COUNT);
    assert_true(test_arena.used < (uint64_t)COUNT * 160);
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
TEST(test_hostile_names_spread) {
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
TEST(test_tables_hash_differently) {
    SymTable other;
    sym_table_init(&other, &test_arena);
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
TEST(test_hash_vector) {
    unsigned char bytes[16];
    for (unsigned i = 0; i < 16; i++) bytes[i] = (unsigned char)i;
    memcpy(table.key, bytes, sizeof table.key);
    uint64_t digest = UINT64_C(0xd320d86d2a519956);
    assert_true(sym_key(&table, (const char *)bytes, 16).hash == (digest ^ 15));
}
