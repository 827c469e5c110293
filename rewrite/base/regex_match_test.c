// SPDX-License-Identifier: Apache-2.0
/* Regular expressions against expected answers and, on random patterns, against a plain
 * backtracking matcher; hostile patterns end quickly. */
#include <stdio.h>
#include <string.h>

#include "regex_match.h"
#include "unit_test.h"

static bool matches(const char *pattern, const char *text) {
    Err err = {0};
    Regex *regex = regex_compile(&test_arena, pattern, &err);
    if (!regex) fail_msg("%s: %s", pattern, err.what);
    return regex_matches(regex, text, strlen(text));
}

TEST(test_answers) {
    static const struct {
        const char *pattern, *yes, *no;
    } cases[] = {
        {"", "", "a"},
        {"abc", "abc", "abcd"},
        {"a.c", "a/c", "ac"},
        {"a|b|", "", "ab"},
        {"(ab)*c", "ababc", "abac"},
        {"a+b?", "aaab", "b"},
        {"[a-c_]+", "a_cb", "d"},
        {"[^/]*", "abc", "a/b"},
        {"[]x]+", "]x", "y"},
        {"a{2}", "aa", "aaa"},
        {"a{2,}", "aaaa", "a"},
        {"(a|b){1,3}", "bab", "baba"},
        {"a{0}b", "b", "ab"},
        {"\\d+\\.\\w\\s", "12.x ", "1x.x "},
        {"\\D", "x", "5"},
        {"/layer\\.(1[0-9]|2[0-3])/.*", "/layer.17/MatMul", "/layer.24/MatMul"},
        {"(((a)))*", "aaa", "ab"},
        {"(a*)*", "aaaa", "b"},
        {"^ab$", "ab", "^ab$"},
        {"a.b", "aéb", "aééb"},
        {"é+", "éé", "é\xA9"},
        {"[äöü]{2}", "äü", "é"},
        {"[^äa]*", "öxü", "xäx"},
        {"[α-ω]+\\W", "λογος漢", "Λ漢"},
        {".\xFF.", "\xFE\xFF\xC3", "é"},
        {"[\\W_]+", "é_", "a"},
        {"(^|x)a(y|$)", "xa", "ya"},
        {"a^b|c", "c", "ab"},
        {"www\\.[\\w.-]+\\.\\bcom\\b", "www.a-b.com", "www.a.xcom"},
        {"(\\W|^)a\\b.*", "-a b", "xa b"},
        {"a\\Bb", "ab", "a"},
        {"\\Aa\\t\\n\\z", "a\t\n", "atn"},
        {"(?:ab)+?c", "ababc", "?:abc"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (!matches(cases[i].pattern, cases[i].yes)) fail_msg("%s", cases[i].pattern);
        if (matches(cases[i].pattern, cases[i].no)) fail_msg("not %s", cases[i].pattern);
    }
}

TEST(test_refusals) {
    static const char *const patterns[] = {"(",
                                           ")",
                                           "[a",
                                           "*a",
                                           "a{",
                                           "a{3,2}",
                                           "a{x}",
                                           "[b-a]",
                                           "a\\",
                                           "a{9999}",
                                           "((a{1000}){1000}){1000}",
                                           "a{2",
                                           "(?i)a"};
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        Err err = {0};
        assert_null(regex_compile(&test_arena, patterns[i], &err));
        assert_int_equal(err.code, ERR_USAGE);
    }
    char deep[300];
    memset(deep, '(', sizeof deep - 1);
    deep[sizeof deep - 1] = '\0';
    assert_null(regex_compile(&test_arena, deep, NULL));
}

TEST(test_hostile_patterns_are_linear) {
    char text[20001];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_false(matches("(a*)*b", text));
    assert_false(matches("(a|aa)+b", text));
    assert_true(matches("(a?){50}a*", text));
}

/* Concatenation of literals, '.', and starred literals: easy to match by hand. */
static bool slow(const char *pattern, const char *text) {
    if (!*pattern) return !*text;
    bool same = *text && (*pattern == '.' || *pattern == *text);
    if (pattern[1] == '*') return slow(pattern + 2, text) || (same && slow(pattern, text + 1));
    return same && slow(pattern + 1, text + 1);
}

TEST(test_random_patterns) {
    uint64_t seed = 1;
    for (int trial = 0; trial < 20000; trial++) {
        char pattern[16], text[10];
        size_t p = 0, t = 0;
        for (int i = 0; i < 5; i++) {
            seed = seed * UINT64_C(6364136223846793005) + 1;
            pattern[p++] = "ab."[seed >> 60 & 3 ? (seed >> 40) % 3 : 0];
            if (seed >> 50 & 1) pattern[p++] = '*';
            if (seed >> 51 & 1) text[t++] = "ab"[seed >> 52 & 1];
        }
        pattern[p] = text[t] = '\0';
        if (matches(pattern, text) != slow(pattern, text)) fail_msg("%s on %s", pattern, text);
    }
}
