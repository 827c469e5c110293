// SPDX-License-Identifier: Apache-2.0
/* Which nodes a conversion leaves in fp32, and in what words reports say so. */
#ifndef DEMI_NODE_EXCLUDE_H
#define DEMI_NODE_EXCLUDE_H

#include "node_pattern.h"

/* For each node id the reason it stays, or NULL: "kept by name" where patterns->keep has its own,
 * "kept by 'PATTERN'" where that or keep_ops match it, "not among those to convert" where `only`
 * has PATTERNs and none matches it. The table is in `scratch`, the reasons in the model's arena.
 * NULL with ERR_USAGE as node_patterns_match. */
const char **node_exclusions(Model *model, const NodePatterns *patterns, Arena *scratch, Err *err);

/* For each input (outputs: output) of the main graph whether it is named; in `scratch`. NULL with
 * ERR_USAGE, naming the nearest, where a name is not an input's. */
bool *node_named_io(const Model *model, const PassStrings *names, bool outputs, Arena *scratch,
                    Err *err);

#endif
