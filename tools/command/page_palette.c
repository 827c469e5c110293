// SPDX-License-Identifier: Apache-2.0
/* The colors of all pages and drawings; see page_palette.h. One table: a precision has one color
 * wherever it is shown. */
#include "page_palette.h"

#include <stdio.h>
#include <string.h>

typedef struct Color {
    const char *name, *light, *dark;
} Color;

/* Precisions are called as candidates of a search are; `other` is what computes without floats. All
 * but `line` and `mark` have a contrast of 3:1 or more to what they stand on, text 4.5:1. */
static const Color colors[] = {
    {"page", "#f6f7f9", "#10151b"},     {"card", "#ffffff", "#182028"},
    {"ink", "#16202b", "#e6ebf0"},      {"soft", "#5b6875", "#9aa7b4"},
    {"line", "#dde2e8", "#2b3641"},     {"mark", "#e6eef5", "#1b3140"},
    {"link", "#0b6a8f", "#6cc3e6"},     {"bad", "#b3261e", "#ff8a80"},
    {"float", "#c47f12", "#e7ab4c"},    {"float16", "#0f7f78", "#3cc4b8"},
    {"bfloat16", "#3f6fd1", "#86a8f5"}, {"a16w16", "#5a8f29", "#9ccc65"},
    {"a16w8", "#8c6d46", "#c9a77c"},    {"a8w16", "#b8478a", "#ec8fc4"},
    {"a8w8", "#7046b8", "#b699ef"},     {"w8", "#c2543d", "#f0957f"},
    {"w4", "#8a2f52", "#d9799b"},       {"a16w4", "#6d7a1f", "#c4cf6a"},
    {"a8w4", "#4a4fa3", "#a0a5ee"},     {"other", "#84909c", "#75828f"},
};
enum { COLORS = sizeof colors / sizeof *colors };

bool palette_has(const char *name) {
    for (int i = 0; i < COLORS; i++)
        if (strcmp(colors[i].name, name) == 0) return true;
    return false;
}

static bool put(DemiWriteFn write, void *user, const char *format, const char *a, const char *b,
                const char *c, const char *d) {
    char text[128];
    const int size = snprintf(text, sizeof text, format, a, b, c, d);
    return size > 0 && write(user, text, (size_t)size);
}

static bool put_variables(DemiWriteFn write, void *user, bool dark) {
    bool ok = put(write, user, ":root {\n", "", "", "", "");
    for (int i = 0; ok && i < COLORS; i++)
        ok = put(write, user, "  --%s: %s;\n", colors[i].name,
                 dark ? colors[i].dark : colors[i].light, "", "");
    return ok && put(write, user, "}\n", "", "", "", "");
}

static bool put_classes(DemiWriteFn write, void *user, bool dark) {
    bool ok = true;
    for (int i = 0; ok && i < COLORS; i++) {
        const char *name = colors[i].name, *color = dark ? colors[i].dark : colors[i].light;
        ok = put(write, user, ".fill-%s{fill:%s}.stroke-%s{stroke:%s}\n", name, color, name, color);
    }
    return ok;
}

static bool put_both(DemiWriteFn write, void *user, bool (*put_one)(DemiWriteFn, void *, bool)) {
    return put_one(write, user, false) &&
           put(write, user, "@media (prefers-color-scheme: dark) {\n", "", "", "", "") &&
           put_one(write, user, true) && put(write, user, "}\n", "", "", "", "");
}

bool palette_write_variables(DemiWriteFn write, void *user) {
    return put_both(write, user, put_variables);
}

bool palette_write_classes(DemiWriteFn write, void *user) {
    return put_both(write, user, put_classes);
}
