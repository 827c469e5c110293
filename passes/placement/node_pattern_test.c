// SPDX-License-Identifier: Apache-2.0
/* Patterns of nodes: globs (against a plain recursive matcher, too), what wins, subgraphs and
 * functions, messages; and that no pattern makes matching slow. */
#include "test_model.h"

#include <time.h>

#include "node_pattern.h"

TEST(test_globs) {
    static const struct {
        const char *glob, *text;
        bool match;
    } rows[] = {
        {"", "", true},
        {"", "a", false},
        {"*", "", true},
        {"*", "a/b", true},
        {"?", "", false},
        {"?", "a", true},
        {"a*", "abc", true},
        {"*c", "abc", true},
        {"a*c", "abdc", true},
        {"a*c", "abd", false},
        {"a?c", "a/c", true},
        {"**", "x", true},
        {"*a*b*", "xxaxxbxx", true},
        {"*a*b*", "xxbxxaxx", false},
        {"a*b*c", "abbbc", true},
        {"*.weight", "layer.0.weight", true},
        {"[ab]", "a", false},
        {"[ab]", "[ab]", true},
        {"a\\*", "a*", false},
        {"*ab", "aab", true},
        {"*?", "", false},
        {"?*?", "ab", true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (glob_match(rows[i].glob, rows[i].text) != rows[i].match)
            fail_msg("'%s' '%s'", rows[i].glob, rows[i].text);
}

/* What a glob means, as simply as it can be said. */
static bool plain_match(const char *glob, const char *text) {
    if (!*glob) return !*text;
    if (*glob == '*') return plain_match(glob + 1, text) || (*text && plain_match(glob, text + 1));
    return *text && (*glob == '?' || *glob == *text) && plain_match(glob + 1, text + 1);
}

TEST(test_random_globs) {
    static uint64_t random = 3;
    unsigned matches = 0;
    for (int round = 0; round < 200000; round++) {
        char glob[9] = "", text[9] = "";
        for (uint32_t i = test_random(&random, 8); i > 0; i--)
            glob[i - 1] = "ab*?"[test_random(&random, 4)];
        for (uint32_t i = test_random(&random, 8); i > 0; i--)
            text[i - 1] = "ab"[test_random(&random, 2)];
        bool match = glob_match(glob, text);
        matches += match;
        if (match != plain_match(glob, text)) fail_msg("'%s' '%s'", glob, text);
    }
    assert_true(matches > 10000 && matches < 190000);
}

/* Backtracking over every star would take 2^30 steps and more. */
TEST(test_hostile_globs) {
    static char glob[4001], text[4001];
    for (size_t i = 0; i < 4000; i++) {
        glob[i] = i % 2 ? 'a' : '*';
        text[i] = 'a';
    }
    glob[3999] = 'b'; /* *a*a*a…*b */
    clock_t start = clock();
    assert_false(glob_match(glob, text));
    memset(glob, '*', 3999);
    assert_false(glob_match(glob, text));
    memset(glob, '?', 4000);
    assert_true(glob_match(glob, text));
    assert_true((double)(clock() - start) / CLOCKS_PER_SEC < 2.0);
}

static const char text[] =
    "g (bool c, float x) => (float y) {\n"
    "    [\"/a/Conv\"] p = Relu (x)\n"
    "    [\"/a/C*\"] q = Relu (p)\n"
    "    r = Exp (q)\n"
    "    [branch] y = If (c) <then_branch = t () => (float u) { [\"/a/inner\"] u = Exp (r) },\n"
    "                         else_branch = e () => (float v) { v = com.x.Exp (r) }>\n"
    "}\n"
    "<domain: \"com.x\", opset_import: [\"\" : 21]> F (a) => (z) {\n"
    "    [\"/f/in\"] z = Neg (a)\n"
    "    [\"re:.*\"] dead = Neg (a)\n"
    "}\n";

/* The labels of matched nodes, in order of graphs, and the pattern of each. */
static const char *matched(const NodePatterns *patterns, Err *err) {
    static char labels[400];
    Arena scratch;
    arena_init(&scratch, &test_trap);
    Model *model = test_model(text);
    const char **found = node_patterns_match(model, patterns, &scratch, err);
    GraphList graphs = model_graphs(model, &scratch);
    labels[0] = '\0';
    for (size_t i = 0; found && i < graphs.count; i++)
        for (const Node *node = graphs.items[i]->first; node; node = node_after(node))
            if (found[node->id]) {
                strcat(strcat(labels, node_label(node)), "<");
                strcat(strcat(labels, found[node->id]), " ");
            }
    arena_free(&scratch);
    model_free(model);
    return found ? labels : NULL;
}

static void keeps(const char *pattern, const char *expected) {
    const char *items[] = {pattern};
    NodePatterns patterns = {.keep = {items, 1}};
    Err err = {0};
    const char *labels = matched(&patterns, &err);
    if (!labels) fail_msg("%s: %s", pattern, err.what);
    assert_string_equal(labels, expected);
}

static void keeps_op(const char *op, const char *expected) {
    const char *items[] = {op};
    NodePatterns patterns = {.keep_ops = {items, 1}};
    Err err = {0};
    const char *labels = matched(&patterns, &err);
    if (!labels) fail_msg("%s: %s", op, err.what);
    assert_string_equal(labels, expected);
}

TEST(test_patterns) {
    keeps("/a/Conv", "/a/Conv</a/Conv ");
    keeps("/a/C*", "/a/C*</a/C* "); /* a node has just that name: nothing else is meant */
    keeps("/a/C?nv", "/a/Conv</a/C?nv ");
    keeps("/a/*", "/a/Conv</a/* /a/C*</a/* /a/inner</a/* ");
    keeps("r", "r<r ");
    keeps("/f/*", "/f/in</f/* ");
    keeps("out:p", "/a/Conv<out:p ");
    keeps("out:?", "/a/Conv<out:? /a/C*<out:? r<out:? branch<out:? /a/inner<out:? v<out:? "
                   "/f/in<out:? ");
    keeps("name:/a/C*", "/a/C*<name:/a/C* ");
    keeps("name:r", "r<name:r ");
    keeps("name:re:.*", "re:.*<name:re:.* ");
    keeps("re:re.*", "re:.*<re:re.* ");
    keeps_op("Exp", "r<Exp /a/inner<Exp v<Exp ");
    keeps_op("com.x.Exp", "v<com.x.Exp ");
    keeps_op("ai.onnx.Exp", "r<ai.onnx.Exp /a/inner<ai.onnx.Exp ");
    const char *items[] = {"/a/*", "out:u"}, *ops[] = {"Exp"};
    NodePatterns patterns = {.keep = {items, 2}, .keep_ops = {ops, 1}};
    assert_string_equal(matched(&patterns, NULL), /* the first pattern is named */
                        "/a/Conv</a/* /a/C*</a/* r<Exp /a/inner</a/* v<Exp ");
    NodePatterns none = {.keep = {NULL, 0}};
    assert_string_equal(matched(&none, NULL), "");
}

TEST(test_exact) {
    static const char *const exact[][2] = {
        {"/a/Conv", "/a/Conv"},    {"", ""},
        {"name", "name"},          {"a:re:b", "a:re:b"},
        {"/a/C*", "name:/a/C*"},   {"wh?t", "name:wh?t"},
        {"re:.*", "name:re:.*"},   {"out:p", "name:out:p"},
        {"name:r", "name:name:r"}, {"from:x,to:y", "name:from:x,to:y"},
    };
    for (size_t i = 0; i < sizeof exact / sizeof *exact; i++)
        assert_string_equal(node_pattern_exact(exact[i][0], &test_arena), exact[i][1]);
}

static void refuses(const NodePatterns *patterns, const char *expected) {
    Err err = {0};
    char line[1024];
    assert_null(matched(patterns, &err));
    err_format(&err, line, sizeof line);
    assert_string_equal(line, expected);
    assert_int_equal(err.code, ERR_USAGE);
}

TEST(test_unmatched) {
    const char *near[] = {"/a/Cnov"}, *far[] = {"something else"}, *op[] = {"Expp"};
    const char *out[] = {"out:branch"}, *both[] = {"nothing*", "/a/Conv"};
    refuses(&(NodePatterns){.keep = {near, 1}}, "no node matches '/a/Cnov'; hint: did you mean "
                                                "'/a/Conv'? (--allow-unmatched accepts it)");
    refuses(&(NodePatterns){.keep = {far, 1}},
            "no node matches 'something else'; hint: --allow-unmatched accepts it");
    const char *exact[] = {"name:/a/*"};
    refuses(
        &(NodePatterns){.keep = {exact, 1}},
        "no node matches 'name:/a/*'; hint: did you mean '/a/C*'? (--allow-unmatched accepts it)");
    refuses(&(NodePatterns){.keep_ops = {op, 1}}, "no operator matches 'Expp'; hint: did you mean "
                                                  "'Exp'? (--allow-unmatched accepts it)");
    Err err = {0};
    assert_null(matched(&(NodePatterns){.keep = {out, 1}}, &err)); /* a node's name, no value's */
    NodePatterns allowed = {.keep = {both, 2}, .keep_ops = {op, 1}, .allow_unmatched = true};
    err = (Err){0};
    assert_string_equal(matched(&allowed, &err), "/a/Conv</a/Conv ");
    assert_int_equal(err.code, ERR_NONE);
}
