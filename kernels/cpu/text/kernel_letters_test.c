// SPDX-License-Identifier: Apache-2.0
/* Case changes of texts in several scripts, and of bytes that are not text. */
#include <string.h>

#include "kernel_letters.h"
#include "unit_test.h"

static void check(const char *from, const char *to, LettersChange change) {
    char text[128];
    uint64_t size = letters_change(from, strlen(from), change, text);
    assert_true(size <= strlen(from) * LETTERS_GROWTH);
    assert_int_equal(size, strlen(to));
    assert_memory_equal(text, to, size);
}

TEST(test_scripts) {
    check("Monday 7!", "monday 7!", LETTERS_LOWER);
    check("Monday 7!", "MONDAY 7!", LETTERS_UPPER);
    check("ÀÉÎÕÜØÞŁŽŸ", "àéîõüøþłžÿ", LETTERS_LOWER);
    check("àéîõüøþłžÿ÷", "ÀÉÎÕÜØÞŁŽŸ÷", LETTERS_UPPER);
    check("ΑΒΓΣΩ Ά", "αβγσω ά", LETTERS_LOWER);
    check("ЖУКЁ", "жукё", LETTERS_LOWER);
    check("жукё ա", "ЖУКЁ Ա", LETTERS_UPPER);
    check("×ß漢😀", "×ß漢😀", LETTERS_UPPER);
    check("Same", "Same", LETTERS_SAME);
}

TEST(test_invalid) {
    check("\xC3", "\xC3", LETTERS_UPPER);
    check("\xC3"
          "a\x80\xFF",
          "\xC3"
          "A\x80\xFF",
          LETTERS_UPPER);
    check("\xE2\x82", "\xE2\x82", LETTERS_LOWER);
}
