// SPDX-License-Identifier: Apache-2.0
#include "node_pattern.h"

#include <string.h>

#include "ops.h"
#include "text_distance.h"

typedef struct Match {
    const Model *model;
    const GraphList *graphs;
    const char **matched;
    Arena *scratch;
    Err *err;
} Match;

bool glob_match(const char *glob, const char *text) {
    const char *star = NULL, *resume = NULL;
    while (*text) {
        if (*glob == '*') {
            star = ++glob;
            resume = text;
        } else if (*glob == '?' || *glob == *text) {
            glob++;
            text++;
        } else if (star) {
            glob = star;
            text = ++resume;
        } else {
            return false;
        }
    }
    while (*glob == '*') glob++;
    return !*glob;
}

static bool matches_output(const Node *node, const char *glob) {
    for (uint32_t i = 0; i < node->output_count; i++)
        if (node->outputs[i] && glob_match(glob, sym_text(node->outputs[i]->name))) return true;
    return false;
}

static bool matches_op(const Node *node, const char *op) {
    const char *dot = strrchr(op, '.');
    if (sym_equals(node->op_type, op)) return true;
    if (!dot || !sym_equals(node->op_type, dot + 1)) return false;
    size_t length = (size_t)(dot - op);
    const char *domain = domain_is_default(node->domain) ? "ai.onnx" : sym_text(node->domain);
    return strlen(domain) == length && memcmp(domain, op, length) == 0;
}

typedef enum MatchKind { MATCH_EXACT, MATCH_GLOB, MATCH_OUTPUT, MATCH_OP } MatchKind;

static bool node_matches(const Node *node, const char *text, MatchKind kind) {
    switch (kind) {
    case MATCH_EXACT: return strcmp(node_label(node), text) == 0;
    case MATCH_GLOB: return glob_match(text, node_label(node));
    case MATCH_OUTPUT: return matches_output(node, text);
    case MATCH_OP: return matches_op(node, text);
    }
    return false;
}

static bool mark(Match *m, const char *pattern, const char *text, MatchKind kind) {
    bool any = false;
    for (size_t i = 0; i < m->graphs->count; i++)
        for (const Node *node = m->graphs->items[i]->first; node; node = node->next) {
            if (!node_matches(node, text, kind)) continue;
            any = true;
            if (!m->matched[node->id]) m->matched[node->id] = pattern;
        }
    return any;
}

static bool unmatched(Match *m, const char *pattern, const char *text, MatchKind kind) {
    err_set(m->err, ERR_USAGE, "no %s matches '%s'", kind == MATCH_OP ? "operator" : "node",
            pattern);
    NearestName nearest = nearest_name_of(text);
    for (size_t i = 0; i < m->graphs->count; i++)
        for (const Node *node = m->graphs->items[i]->first; node; node = node->next) {
            nearest_name_try(&nearest, kind == MATCH_OP ? sym_text(node->op_type)
                                                        : node_label(node));
            for (uint32_t k = 0; kind == MATCH_OUTPUT && k < node->output_count; k++)
                if (node->outputs[k])
                    nearest_name_try(&nearest, sym_text(node->outputs[k]->name));
        }
    if (nearest.best) err_hint(m->err, "did you mean '%s'? (--allow-unmatched accepts it)", nearest.best);
    else err_hint(m->err, "--allow-unmatched accepts it");
    return false;
}

static bool match_pattern(Match *m, const char *pattern) {
    if (strncmp(pattern, "out:", 4) == 0)
        return mark(m, pattern, pattern + 4, MATCH_OUTPUT) ||
               unmatched(m, pattern, pattern + 4, MATCH_OUTPUT);
    return mark(m, pattern, pattern, MATCH_EXACT) || mark(m, pattern, pattern, MATCH_GLOB) ||
           unmatched(m, pattern, pattern, MATCH_GLOB);
}

const char **node_patterns_match(const Model *model, const NodePatterns *patterns, Arena *scratch,
                                 Err *err) {
    GraphList graphs = model_graphs(model, scratch);
    Match m = {.model = model, .graphs = &graphs, .scratch = scratch, .err = err};
    m.matched = ARENA_ARRAY(scratch, const char *, model->node_count + 1u);
    Err unused = {0};
    if (patterns->allow_unmatched) m.err = &unused;
    for (size_t i = 0; i < patterns->keep.count; i++)
        if (!match_pattern(&m, patterns->keep.items[i]) && !patterns->allow_unmatched) return NULL;
    for (size_t i = 0; i < patterns->keep_ops.count; i++) {
        const char *op = patterns->keep_ops.items[i];
        if (!mark(&m, op, op, MATCH_OP) && !unmatched(&m, op, op, MATCH_OP) &&
            !patterns->allow_unmatched)
            return NULL;
    }
    return m.matched;
}
