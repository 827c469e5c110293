// SPDX-License-Identifier: Apache-2.0
/* Every code point, and bytes that are none. */
#include "escaped.h"

#include <string.h>

#include "unit_test.h"

static void expect(const char *text, const char *wanted) {
    char all[256] = "";
    for (size_t left = strlen(text); left;) {
        char out[SHOWN_MOST];
        size_t size, taken = escaped_take(text, left, out, &size);
        assert_int_equal(strlen(out), size);
        strcat(all, out);
        text += taken;
        left -= taken;
    }
    assert_string_equal(all, wanted);
}

TEST(test_plain_text_stays) {
    expect("/model/layer.0/MatMul_1 \"x\" \\ ~", "/model/layer.0/MatMul_1 \"x\" \\ ~");
    expect("Straße \u540d\u524d \u05e9\u05dc\u05d5\u05dd \U0001f600",
           "Straße \u540d\u524d \u05e9\u05dc\u05d5\u05dd \U0001f600");
}

TEST(test_controls_are_shown) {
    expect("a\x1b[31mb\n\t\x7f", "a\\x1b[31mb\\x0a\\x09\\x7f");
    expect("\xc2\x80\xc2\x9b"
           "31m\xc2\x9f\xc2\xa1",
           "\\u0080\\u009b31m\\u009f\xc2\xa1");
    expect("\u202ecba\u202c \u2066x\u2069\u200f\u200e\u061c",
           "\\u202ecba\\u202c \\u2066x\\u2069\\u200f\\u200e\\u061c");
    expect("a\u2028b\u2029c\ufeff\u200b", "a\\u2028b\\u2029c\\ufeff\\u200b");
    expect("\U000e0041", "\\Ue0041");
}

TEST(test_what_is_no_utf8) {
    expect("\x9b"
           "31m",
           "\\x9b31m");
    expect("\xff\xc0\x80", "\\xff\\xc0\\x80"); /* overlong NUL */
    expect("\xed\xa0\x80", "\\xed\\xa0\\x80"); /* a surrogate */
    expect("\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80");
    expect("\xe2\x82", "\\xe2\\x82");                  /* cut */
    expect("\xe2\x82x\xc2\x85", "\\xe2\\x82x\\u0085"); /* no byte of another character is taken */
}

TEST(test_every_code_point) {
    for (unsigned code = 1; code <= 0x10ffff; code++) {
        char text[5], out[SHOWN_MOST];
        size_t length = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4, size;
        if (code >= 0xd800 && code < 0xe000) continue;
        for (size_t i = length; i-- > 1;)
            text[i] = (char)(0x80 | (code >> 6 * (length - 1 - i) & 0x3f));
        text[0] = (char)(length == 1 ? code : (0xf00u >> length & 0xff) | code >> 6 * (length - 1));
        assert_int_equal(utf8_length(text, length), length);
        assert_int_equal(utf8_code(text, length), code);
        assert_int_equal(escaped_take(text, length, out, &size), length);
        if (code < 0x20 || (code >= 0x7f && code < 0xa0)) assert_int_equal(out[0], '\\');
        for (size_t i = 0; i < size; i++) assert_true((unsigned char)out[i] >= 0x20);
    }
}

TEST(test_escapes) {
    static const struct {
        unsigned code;
        const char *text;
    } rows[] = {{0x1b, "\\u001b"},           {0x202e, "\\u202e"},
                {0xffff, "\\uffff"},         {0x10000, "\\ud800\\udc00"},
                {0xe0041, "\\udb40\\udc41"}, {0x10ffff, "\\udbff\\udfff"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char out[SHOWN_ESCAPE_MOST];
        assert_int_equal(escaped_escape(rows[i].code, out), strlen(rows[i].text));
        assert_string_equal(out, rows[i].text);
    }
}

TEST(test_cut) {
    assert_int_equal(escaped_cut("abc", 3, 3), 3);
    assert_int_equal(escaped_cut("abcd", 4, 3), 3);
    assert_int_equal(escaped_cut("a\u20acb", 5, 3), 1);
    assert_int_equal(escaped_cut("a\u20acb", 5, 4), 4);
}
