// SPDX-License-Identifier: Apache-2.0
/* Errors: the first wins, long texts are cut visibly, and the line stays one line. */
#include <errno.h>
#include <string.h>

#include "err.h"
#include "unit_test.h"

static char line[4096];

static const char *format(const Err *err) {
    size_t length = err_format(err, line, sizeof line);
    assert_int_equal(length, strlen(line));
    return line;
}

TEST(test_full_line) {
    Err err = {0};
    assert_false(err_set(&err, ERR_MODEL, "dtype of %s", "W"));
    err_file(&err, "m.onnx");
    strcpy(err.graph, "g/then_branch");
    strcpy(err.node, "n");
    strcpy(err.op_type, "Conv");
    err_operand(&err, "input '%s'", "W");
    err_expected(&err, "float");
    err_actual(&err, "%s", "int8");
    err_hint(&err, "run it again");
    assert_string_equal(format(&err),
                        "m.onnx: graph 'g/then_branch': node 'n' (Conv), input 'W': dtype of W: "
                        "expected float, got int8; hint: run it again");
    assert_int_equal(err.code, ERR_MODEL);
}

TEST(test_partial_lines) {
    Err err = {0};
    err_set(&err, ERR_USAGE, "no such pass");
    assert_string_equal(format(&err), "no such pass");
    err_actual(&err, "x");
    assert_string_equal(format(&err), "no such pass: got x");
    err_operand(&err, "option '--to'");
    assert_string_equal(format(&err), "option '--to': no such pass: got x");
    strcpy(err.op_type, "Add");
    assert_string_equal(format(&err), "node (Add), option '--to': no such pass: got x");
}

TEST(test_first_error_wins) {
    Err err = {0};
    err_set(&err, ERR_MODEL, "first");
    assert_false(err_set(&err, ERR_ENV, "second"));
    assert_false(err_errno(&err, EIO, "third"));
    assert_false(err_out_of_memory(&err));
    err_file(&err, "a");
    err_file(&err, "b");
    err_hint(&err, "one");
    err_hint(&err, "two");
    assert_int_equal(err.code, ERR_MODEL);
    assert_string_equal(format(&err), "a: first; hint: one");
}

/* A reused variable holds nothing of the error before. */
TEST(test_setting_clears_old_fields) {
    Err err = {0};
    err_hint(&err, "stale");
    err_set(&err, ERR_MODEL, "new");
    assert_string_equal(format(&err), "new");
}

TEST(test_null_is_allowed) {
    assert_false(err_set(NULL, ERR_MODEL, "x"));
    assert_false(err_errno(NULL, EIO, "x"));
    assert_false(err_out_of_memory(NULL));
    err_file(NULL, "x");
    err_operand(NULL, "x");
    err_expected(NULL, "x");
    err_actual(NULL, "x");
    err_hint(NULL, "x");
}

TEST(test_errno) {
    Err err = {0};
    err_errno(&err, ENOSPC, "cannot write %d bytes", 3);
    assert_int_equal(err.code, ERR_ENV);
    assert_string_equal(format(&err), "cannot write 3 bytes: No space left on device");
    Err memory = {0};
    err_out_of_memory(&memory);
    assert_int_equal(memory.code, ERR_ENV);
    assert_string_equal(format(&memory), "out of memory");
}

TEST(test_long_texts_are_cut) {
    char text[3000];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    Err err = {0};
    err_set(&err, ERR_MODEL, "%s", text);
    err_file(&err, text);
    err_hint(&err, "%s", text);
    assert_int_equal(strlen(err.what), sizeof err.what - 1);
    assert_string_equal(err.what + sizeof err.what - 4, "...");
    assert_int_equal(strlen(err.file), sizeof err.file - 1);
    assert_string_equal(err.file + sizeof err.file - 4, "...");
    assert_string_equal(err.hint + sizeof err.hint - 4, "...");
    Err fits = {0};
    err_set(&fits, ERR_MODEL, "%.*s", (int)sizeof fits.what - 1, text);
    assert_int_equal(fits.what[sizeof fits.what - 2], 'a');
}

/* A cut never leaves part of a character, whatever its phase. */
TEST(test_cut_between_characters) {
    for (size_t phase = 0; phase < 4; phase++) {
        char text[1000] = "";
        memset(text, 'a', phase);
        for (size_t i = phase; i + 5 < sizeof text; i += 4) memcpy(text + i, "\xf0\x9f\x99\x82", 5);
        Err err = {0};
        err_set(&err, ERR_MODEL, "%s", text);
        size_t cut = strlen(err.what) - 3;
        assert_string_equal(err.what + cut, "...");
        assert_int_equal((cut - phase) % 4, 0);
        assert_in_range(cut, sizeof err.what - 8, sizeof err.what - 4);
    }
}

TEST(test_control_characters_are_shown) {
    Err err = {0};
    err_set(&err, ERR_MODEL, "a\nb\x1b[31m\x7f");
    err_file(&err, "new\nline");
    err_hint(&err, "one\ntwo");
    assert_string_equal(format(&err), "new\\x0aline: a\\x0ab\\x1b[31m\\x7f; hint: one\\x0atwo");
}

TEST(test_small_buffers) {
    Err err = {0};
    err_set(&err, ERR_MODEL, "0123456789");
    for (size_t size = 0; size < 14; size++) {
        char buffer[16];
        memset(buffer, 'z', sizeof buffer);
        size_t length = err_format(&err, buffer, size);
        assert_int_equal(length, size == 0 ? 0 : size > 10 ? 10 : size - 1);
        if (size) assert_int_equal(buffer[length], 0);
        assert_int_equal(buffer[size], 'z');
    }
}
