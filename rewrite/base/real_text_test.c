// SPDX-License-Identifier: Apache-2.0
/* Numbers as text, with a decimal point in every locale: C, one with a comma, one whose sign has
 * two bytes. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <string.h>

#include "real_text.h"
#include "test_locale.h"
#include "unit_test.h"

static const struct {
    double value;
    int digits;
    const char *text;
} written[] = {
    {0.5, 9, "0.5"},     {-1234.25, 9, "-1234.25"},        {1e-7, 9, "1e-07"},
    {3, 9, "3"},         {0.1, 17, "0.10000000000000001"}, {1.5e300, 17, "1.5000000000000001e+300"},
    {INFINITY, 9, "inf"}};

static const char *const unread[] = {"",
                                     " 1",
                                     "1 ",
                                     "0,5",
                                     "1.2.3",
                                     "0x10",
                                     "nan(1)",
                                     "1e999",
                                     "abc",
                                     "1,2",
                                     "--1",
                                     "\xd9\xab"
                                     "5",
                                     "1\xd9\xab"
                                     "5"};

static void check_all(void) {
    char buffer[REAL_TEXT];
    double value;
    float small;
    for (size_t i = 0; i < sizeof written / sizeof *written; i++) {
        assert_int_equal(real_format(buffer, written[i].digits, written[i].value),
                         strlen(written[i].text));
        assert_string_equal(buffer, written[i].text);
        assert_true(real_read(buffer, strlen(buffer), &value));
        assert_true(value == written[i].value);
    }
    assert_true(real_read_float("16777217.5", 10, &small) && small == 16777218.0f);
    assert_true(real_read("nan", 3, &value) && isnan(value));
    assert_true(real_read("-nan", 4, &value) && isnan(value) && signbit(value));
    assert_true(real_read_float("-NaN", 4, &small) && isnan(small) && signbit(small));
    assert_true(real_read_float("nan", 3, &small) && isnan(small) && !signbit(small));
    assert_true(real_read("-Infinity", 9, &value) && value == -INFINITY);
    assert_true(real_read(".5", 2, &value) && value == 0.5);
    assert_true(real_read("5.tail", 2, &value) && value == 5);
    for (size_t i = 0; i < sizeof unread / sizeof *unread; i++)
        assert_false(real_read(unread[i], strlen(unread[i]), &value));
}

TEST(test_in_c) {
    check_all();
}

TEST(test_elsewhere) {
    static const char *const points[] = {",", "<U066B>"};
    for (size_t i = 0; i < 2; i++) {
        test_locale_set(points[i]);
        check_all();
        test_locale_reset();
    }
}
