// SPDX-License-Identifier: Apache-2.0
/* What was noted comes back, also where a search was ended at any byte; a journal of another search, or
 * a file that is none, is refused and stays. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <math.h>

#include "journal.h"
#include "test_folder.h"
#include "unit_test.h"

enum { ENTRIES = 12 };

static const JournalField fields[] = {{"demi", "0.1"}, {"model", "00ff\"<a>"}, {"target", "40"}};
static char path[64];

static double number_of(int entry, int i) {
    static const double odd[] = {0.1, -0.0,     1e-310,   1.7976931348623157e308,
                                 NAN, INFINITY, -INFINITY};
    return i < 7 ? odd[i] : (entry + 1) / 3.0 * i;
}

/* Goes on until all entries are there, each measured once where it was not noted; how many were. */
static int search(void) {
    Arena arena;
    Err err = {0};
    int measured = 0;
    arena_init(&arena, &test_trap);
    Journal *journal = journal_open(path, fields, 3, &arena, &err);
    if (!journal) fail_msg("%s", err.what);
    for (int e = 0; e < ENTRIES; e++) {
        char key[16];
        double numbers[10];
        snprintf(key, sizeof key, "entry %d", e);
        const double *noted = journal_find(journal, key, 10);
        for (int i = 0; i < 10; i++) numbers[i] = number_of(e, i);
        for (int i = 0; noted && i < 10; i++) {
            if (isnan(numbers[i]))
                assert_true(isnan(noted[i]));
            else
                assert_memory_equal(&noted[i], &numbers[i], sizeof *noted);
        }
        if (noted) continue;
        assert_true(journal_add(journal, key, numbers, 10, &err));
        assert_non_null(journal_find(journal, key, 10));
        measured++;
    }
    assert_null(journal_find(journal, "entry 0", 9));
    assert_null(journal_find(journal, "entry", 10));
    arena_free(&arena);
    return measured;
}

static size_t read_file(char *bytes, size_t room) {
    FILE *file = fopen(path, "rb");
    const size_t size = fread(bytes, 1, room, file);
    fclose(file);
    return size;
}

static void write_file(const char *bytes, size_t size) {
    FILE *file = fopen(path, "wb");
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
}

SET_UP {
    char name[40];
    snprintf(name, sizeof name, "journal_test.%ld", (long)getpid());
    test_place(path, sizeof path, name);
}

TEAR_DOWN {
    unlink(path);
}

TEST(test_ended_anywhere) {
    static char whole[16384], again[16384];
    unlink(path);
    assert_int_equal(search(), ENTRIES);
    const size_t size = read_file(whole, sizeof whole);
    assert_true(size < sizeof whole);
    assert_int_equal(search(), 0);
    for (size_t cut = 0; cut < size; cut++) {
        write_file(whole, cut);
        assert_true(search() > 0);
        assert_int_equal(read_file(again, sizeof again), size);
        assert_memory_equal(again, whole, size);
    }
}

static void refused(const JournalField *of, const char *says) {
    Arena arena;
    Err err = {0};
    static char before[16384], after[16384];
    const size_t size = read_file(before, sizeof before);
    arena_init(&arena, &test_trap);
    assert_null(journal_open(path, of, 3, &arena, &err));
    assert_int_equal(err.code, ERR_USAGE);
    if (!strstr(err.what, says)) fail_msg("'%s'", err.what);
    assert_int_equal(read_file(after, sizeof after), size);
    assert_memory_equal(after, before, size);
    arena_free(&arena);
}

TEST(test_of_another_search) {
    unlink(path);
    search();
    for (int i = 0; i < 3; i++) {
        char says[64];
        JournalField other[3];
        memcpy(other, fields, sizeof other);
        other[i].text = "else";
        snprintf(says, sizeof says, "'%s' differs", fields[i].name);
        refused(other, says);
    }
}

TEST(test_no_journal) {
    static const char *const files[] = {
        "a model's bytes", "{}", "{\"demi\": 1}\n", "{\"demi\":\"0.1\",\"model\":\"00ff", "\n",
        "\0\0\0"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        write_file(files[i], i + 1 == sizeof files / sizeof *files ? 3 : strlen(files[i]));
        if (i == 3) {
            search(); /* a first line that was cut short */
            continue;
        }
        refused(fields, "line 1");
    }
}

TEST(test_damaged) {
    static char whole[16384];
    unlink(path);
    search();
    const size_t size = read_file(whole, sizeof whole);
    char *line = memchr(whole, '\n', size);
    line[3] = '!';
    write_file(whole, size);
    refused(fields, "line 2");
}

TEST(test_one_at_a_time) {
    Err err = {0};
    unlink(path);
    assert_non_null(journal_open(path, fields, 3, &test_arena, &err));
    assert_null(journal_open(path, fields, 3, &test_arena, &err));
    assert_int_equal(err.code, ERR_USAGE);
}
