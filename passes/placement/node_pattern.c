// SPDX-License-Identifier: Apache-2.0
/* Matching of PATTERNs with the nodes of all graphs; see node_pattern.h for what they look like.
 * Names that a converted model's casts took over count as they did before. Who has a whole name is looked
 * up, as searches keep thousands of nodes by theirs; the other patterns are held against each node. */
#include "node_pattern.h"

#include <string.h>

#include "hash64.h"
#include "op_types.h"
#include "ops.h"
#include "regex_match.h"
#include "text_distance.h"

typedef struct Named {
    struct Named *next;
    const char *name;
    const Node *node;
} Named;

/* Nodes by names; a node may have several, a name several nodes. */
typedef struct NameIndex {
    Named **slots; /* [a power of two], lists; NULL: not made yet */
    size_t mask;
} NameIndex;

typedef struct Match {
    const Model *model;
    const GraphList *graphs;
    const char **matched;
    NameIndex labels, outputs;
    Regex *regex; /* of the pattern being matched */
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

/* The name that a value had before a cast of demi's took it over, as that of an output; NULL where
 * none did. Patterns mean the same in a model that was converted already. */
static const char *name_before(const Value *value) {
    for (const Use *use = value->uses; use; use = use->next) {
        if (!use->node || !node_is_own_cast(use->node)) continue;
        const Value *result = use->node->outputs[0];
        if (value_is_named_output(result)) return sym_text(result->name);
    }
    return NULL;
}

static bool matches_output(const Node *node, const char *glob) {
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (!node->outputs[i]) continue;
        const char *before = name_before(node->outputs[i]);
        if (glob_match(glob, sym_text(node->outputs[i]->name))) return true;
        if (before && glob_match(glob, before)) return true;
    }
    return false;
}

/* What a node without a name was called by then; NULL where that is node_label. */
static const char *label_before(const Node *node) {
    bool unnamed = sym_is_empty(node->name) && node->output_count && node->outputs[0];
    return unnamed ? name_before(node->outputs[0]) : NULL;
}

static bool matches_op(const Node *node, const char *op) {
    const char *dot = strrchr(op, '.');
    if (sym_equals(node->op_type, op)) return true;
    if (!dot || !sym_equals(node->op_type, dot + 1)) return false;
    size_t length = (size_t)(dot - op);
    const char *domain = domain_is_default(node->domain) ? "ai.onnx" : sym_text(node->domain);
    return strlen(domain) == length && memcmp(domain, op, length) == 0;
}

typedef enum MatchKind { MATCH_EXACT, MATCH_GLOB, MATCH_REGEX, MATCH_OUTPUT, MATCH_OP } MatchKind;

static bool label_matches(const Match *m, const char *label, const char *text, MatchKind kind) {
    switch (kind) {
    case MATCH_REGEX: return regex_matches(m->regex, label, strlen(label));
    case MATCH_GLOB: return glob_match(text, label);
    case MATCH_EXACT: /* looked up */
    case MATCH_OUTPUT:
    case MATCH_OP: break;
    }
    return false;
}

static bool node_matches(const Match *m, const Node *node, const char *text, MatchKind kind) {
    if (kind == MATCH_OUTPUT) return matches_output(node, text);
    if (kind == MATCH_OP) return matches_op(node, text);
    if (label_matches(m, node_label(node), text, kind)) return true;
    const char *before = label_before(node);
    return before && label_matches(m, before, text, kind);
}

/* ---- whole names ----------------------------------------------------------------------------- */

static Named **slot_of(const NameIndex *index, const char *name) {
    return &index->slots[hash64_bytes(name, strlen(name), 0) & index->mask];
}

static void index_name(Match *m, NameIndex *index, const char *name, const Node *node) {
    if (!name) return;
    Named **slot = slot_of(index, name);
    Named *named = ARENA_NEW(m->scratch, Named);
    *named = (Named){.next = *slot, .name = name, .node = node};
    *slot = named;
}

static void index_labels(Match *m, const Node *node) {
    index_name(m, &m->labels, node_label(node), node);
    index_name(m, &m->labels, label_before(node), node);
}

static void index_outputs(Match *m, const Node *node) {
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (!node->outputs[i]) continue;
        index_name(m, &m->outputs, sym_text(node->outputs[i]->name), node);
        index_name(m, &m->outputs, name_before(node->outputs[i]), node);
    }
}

static void index_make(Match *m, NameIndex *index, void (*add)(Match *m, const Node *node)) {
    size_t size = 16;
    while (size < m->model->node_count) size *= 2;
    index->slots = ARENA_ARRAY(m->scratch, Named *, size);
    index->mask = size - 1;
    for (size_t i = 0; i < m->graphs->count; i++)
        for (const Node *node = m->graphs->items[i]->first; node; node = node_after(node))
            add(m, node);
}

static bool mark_named(Match *m, const char *pattern, const char *name, MatchKind kind) {
    const bool outputs = kind == MATCH_OUTPUT;
    NameIndex *index = outputs ? &m->outputs : &m->labels;
    bool any = false;
    if (!index->slots) index_make(m, index, outputs ? index_outputs : index_labels);
    for (const Named *named = *slot_of(index, name); named; named = named->next) {
        if (strcmp(named->name, name) != 0) continue;
        any = true;
        if (!m->matched[named->node->id]) m->matched[named->node->id] = pattern;
    }
    return any;
}

/* ---- marking --------------------------------------------------------------------------------- */

static bool has_wildcard(const char *text) {
    return strpbrk(text, "*?");
}

static bool is_whole_name(const char *text, MatchKind kind) {
    return kind == MATCH_EXACT ||
           ((kind == MATCH_GLOB || kind == MATCH_OUTPUT) && !has_wildcard(text));
}

static bool mark(Match *m, const char *pattern, const char *text, MatchKind kind) {
    if (is_whole_name(text, kind)) return mark_named(m, pattern, text, kind);
    bool any = false;
    for (size_t i = 0; i < m->graphs->count; i++)
        for (const Node *node = m->graphs->items[i]->first; node; node = node_after(node)) {
            if (!node_matches(m, node, text, kind)) continue;
            any = true;
            if (!m->matched[node->id]) m->matched[node->id] = pattern;
        }
    return any;
}

/* Says what comes near, unless nobody will read it. Returns false. */
static bool unmatched(Match *m, const char *pattern, const char *text, MatchKind kind) {
    if (!m->err) return false;
    err_set(m->err, ERR_USAGE, "no %s matches '%s'", kind == MATCH_OP ? "operator" : "node",
            pattern);
    NearestName nearest = nearest_name_of(text);
    bool glob = (kind == MATCH_GLOB || kind == MATCH_OUTPUT) && has_wildcard(text);
    void (*try)(NearestName *, const char *) = glob ? nearest_name_try_glob : nearest_name_try;
    for (size_t i = 0; i < m->graphs->count; i++)
        for (const Node *node = m->graphs->items[i]->first; node; node = node_after(node)) {
            if (kind != MATCH_OUTPUT)
                try(&nearest, kind == MATCH_OP ? sym_text(node->op_type) : node_label(node));
            for (uint32_t k = 0; kind == MATCH_OUTPUT && k < node->output_count; k++)
                if (node->outputs[k]) try(&nearest, sym_text(node->outputs[k]->name));
        }
    if (nearest.best && glob)
        err_hint(m->err, "the nearest name is '%s' (--allow-unmatched accepts it)", nearest.best);
    else if (nearest.best)
        err_hint(m->err, "did you mean '%s'? (--allow-unmatched accepts it)", nearest.best);
    else
        err_hint(m->err, "--allow-unmatched accepts it");
    return false;
}

/* ---- from:A,to:B ----------------------------------------------------------------------------- */

static bool value_reached(const Value *value, const bool *reached) {
    return value && reached[value->id];
}

/* Values that a node of this graph reads, also in its subgraphs. */
typedef struct Reads {
    const bool *reached;
    bool any;
} Reads;

static void reads_in_graph(Graph *graph, void *data) {
    Reads *reads = data;
    for (const Node *node = graph->first; node && !reads->any; node = node_after(node)) {
        for (uint32_t i = 0; i < node->input_count; i++)
            reads->any |= value_reached(node->inputs[i].value, reads->reached);
        node_each_graph(node, reads_in_graph, reads);
    }
    for (size_t i = 0; i < graph->outputs.count; i++)
        reads->any |= value_reached(graph->outputs.items[i]->use.value, reads->reached);
}

static bool node_reads(const Node *node, const bool *reached) {
    Reads reads = {.reached = reached};
    for (uint32_t i = 0; i < node->input_count; i++)
        reads.any |= value_reached(node->inputs[i].value, reached);
    node_each_graph(node, reads_in_graph, &reads);
    return reads.any;
}

static void mark_outputs(const Node *node, bool *reached) {
    for (uint32_t i = 0; i < node->output_count; i++)
        if (node->outputs[i]) reached[node->outputs[i]->id] = true;
}

static bool writes_reached(const Node *node, const bool *reached) {
    for (uint32_t i = 0; i < node->output_count; i++)
        if (value_reached(node->outputs[i], reached)) return true;
    return false;
}

static void mark_reads(Graph *graph, void *data);

static void mark_inputs(const Node *node, bool *reached) {
    for (uint32_t i = 0; i < node->input_count; i++)
        if (node->inputs[i].value) reached[node->inputs[i].value->id] = true;
    node_each_graph(node, mark_reads, reached);
}

static void mark_reads(Graph *graph, void *data) {
    for (const Node *node = graph->first; node; node = node_after(node)) mark_inputs(node, data);
}

typedef struct MarkAll {
    Match *m;
    const char *pattern;
} MarkAll;

static void mark_graph(Graph *graph, void *data) {
    MarkAll *all = data;
    for (const Node *node = graph->first; node; node = node_after(node)) {
        if (!all->m->matched[node->id]) all->m->matched[node->id] = all->pattern;
        node_each_graph(node, mark_graph, all);
    }
}

/* Nodes that read something computed from A, and from which B is computed. */
static bool mark_between(Match *m, const char *pattern, const Value *from, const Value *to) {
    bool *forward = ARENA_ARRAY(m->scratch, bool, m->model->value_count + 1u);
    bool *backward = ARENA_ARRAY(m->scratch, bool, m->model->value_count + 1u);
    MarkAll all = {m, pattern};
    bool any = false;
    forward[from->id] = backward[to->id] = true;
    for (const Node *node = from->graph->first; node; node = node_after(node))
        if (node_reads(node, forward)) mark_outputs(node, forward);
    for (const Node *node = from->graph->last; node; node = node->prev) {
        if (!writes_reached(node, backward)) continue;
        mark_inputs(node, backward);
        if (!node_reads(node, forward)) continue;
        any = true;
        if (!m->matched[node->id]) m->matched[node->id] = pattern;
        node_each_graph(node, mark_graph, &all);
    }
    return any;
}

static const Value *value_named(const Match *m, Sym name, const Graph *graph) {
    for (size_t i = 0; name && i < m->graphs->count; i++) {
        const Graph *g = m->graphs->items[i];
        if (graph && g != graph) continue;
        for (size_t k = 0; k < g->inputs.count; k++)
            if (g->inputs.items[k]->name == name) return g->inputs.items[k];
        for (size_t k = 0; k < g->initializers.count; k++)
            if (g->initializers.items[k]->name == name) return g->initializers.items[k];
        for (const Node *node = g->first; node; node = node_after(node))
            for (uint32_t k = 0; k < node->output_count; k++)
                if (node->outputs[k] && node->outputs[k]->name == name) return node->outputs[k];
    }
    return NULL;
}

/* "from:A,to:B"; a name may hold a comma, so the last ",to:" divides. */
static bool match_range(Match *m, const char *pattern) {
    const char *start = pattern + 5, *split = NULL;
    for (const char *at = strstr(start, ",to:"); at; at = strstr(at + 1, ",to:")) split = at;
    if (!split) {
        err_set(m->err, ERR_USAGE, "'%s' lacks ',to:NAME'", pattern);
        return false;
    }
    const SymTable *syms = &m->model->syms;
    const Value *from = value_named(m, sym_find(syms, start, (size_t)(split - start)), NULL);
    const Value *to =
        from ? value_named(m, sym_find(syms, split + 4, strlen(split + 4)), from->graph) : NULL;
    if (!from) return unmatched(m, pattern, start, MATCH_OUTPUT);
    if (!to) return unmatched(m, pattern, split + 4, MATCH_OUTPUT);
    return mark_between(m, pattern, from, to) || unmatched(m, pattern, pattern, MATCH_EXACT);
}

/* Sorts of patterns that a prefix tells. */
static const char name_prefix[] = "name:", output_prefix[] = "out:", range_prefix[] = "from:",
                  regex_prefix[] = "re:";

/* What follows the prefix; NULL where the pattern does not begin with it. */
static const char *behind(const char *pattern, const char *prefix) {
    size_t length = strlen(prefix);
    return strncmp(pattern, prefix, length) == 0 ? pattern + length : NULL;
}

const char *node_pattern_exact(const char *label, Arena *arena) {
    bool plain = !has_wildcard(label) && !behind(label, name_prefix) &&
                 !behind(label, output_prefix) && !behind(label, range_prefix) &&
                 !behind(label, regex_prefix);
    return plain ? label : arena_printf(arena, "%s%s", name_prefix, label);
}

static bool match_pattern(Match *m, const char *pattern) {
    const char *name = behind(pattern, name_prefix), *output = behind(pattern, output_prefix);
    const char *regex = behind(pattern, regex_prefix);
    if (behind(pattern, range_prefix)) return match_range(m, pattern);
    if (regex) {
        m->regex = regex_compile(m->scratch, regex, m->err);
        return m->regex && (mark(m, pattern, pattern, MATCH_REGEX) ||
                            unmatched(m, pattern, regex, MATCH_REGEX));
    }
    if (output)
        return mark(m, pattern, output, MATCH_OUTPUT) ||
               unmatched(m, pattern, output, MATCH_OUTPUT);
    if (name)
        return mark(m, pattern, name, MATCH_EXACT) || unmatched(m, pattern, name, MATCH_EXACT);
    return mark(m, pattern, pattern, MATCH_EXACT) || mark(m, pattern, pattern, MATCH_GLOB) ||
           unmatched(m, pattern, pattern, MATCH_GLOB);
}

const char **node_patterns_match(const Model *model, const NodePatterns *patterns, Arena *scratch,
                                 Err *err) {
    GraphList graphs = model_graphs(model, scratch);
    Match m = {.model = model, .graphs = &graphs, .scratch = scratch, .err = err};
    m.matched = ARENA_ARRAY(scratch, const char *, model->node_count + 1u);
    if (patterns->allow_unmatched) m.err = NULL;
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
