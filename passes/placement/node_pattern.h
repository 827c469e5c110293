// SPDX-License-Identifier: Apache-2.0
/* Choosing nodes by name. A PATTERN is
 *   NAME      a node's name, or an unnamed node's first output; exact match first,
 *   GLOB      else with * (any characters, '/' too), ? (one character),
 *   name:NAME  exactly that, whatever characters it has and whatever it begins with,
 *   re:REGEX  the whole name matches (regex_match.h has the syntax),
 *   out:NAME  the node that produces the value NAME (may be a glob),
 *   from:A,to:B  every node on a path from the value A to the value B, which are names of values of
 *             one graph; nodes within those nodes' subgraphs, too.
 * Nodes of all subgraphs and functions are looked at. Matching a name takes at most time
 * proportional to its length times the pattern's: nothing backtracks further than to the last
 * '*'. */
#ifndef DEMI_NODE_PATTERN_H
#define DEMI_NODE_PATTERN_H

#include "graph.h"
#include "pass.h"

typedef struct NodePatterns {
    PassStrings keep;     /* PATTERNs */
    PassStrings keep_ops; /* operators, optionally DOMAIN.OPERATOR */
    PassStrings only;     /* PATTERNs; for node_exclude.h */
    bool allow_unmatched;
} NodePatterns;

/* For each node id, the pattern that matched, or NULL; a table of node_count (at least 1) entries
 * in `scratch`. NULL with ERR_USAGE where a pattern matches nothing and that is not allowed: the
 * message names it and the nearest names. */
const char **node_patterns_match(const Model *model, const NodePatterns *patterns, Arena *scratch,
                                 Err *err);

/* The PATTERN of nodes called exactly `label`, in `arena` or `label` itself: with "name:" where it
 * could be taken for another sort of pattern. */
const char *node_pattern_exact(const char *label, Arena *arena);

/* Glob match of the whole text, with one backtrack point: at most length times length. */
bool glob_match(const char *glob, const char *text);

#endif
