// SPDX-License-Identifier: Apache-2.0
/* A model's structure for other programs: as JSON, and as a Graphviz drawing. */
#ifndef DEMI_SHOW_MODEL_H
#define DEMI_SHOW_MODEL_H

#include <stdio.h>

#include "console.h"
#include "graph.h"
#include "json_write.h"

/* The graphs, nodes, attributes and types of a model as members of the open JSON object; of tensors
 * the dtype and dims, not the data. */
void show_write_json(const Model *model, JsonWriter *json);

/* The main graph in Graphviz' language, subgraphs as clusters. */
void show_write_dot(const Model *model, FILE *out);

/* Prints the plan at `path` to standard output; with `device` (not NULL), as it is placed there. */
bool show_plan(Program *program, const char *path, const char *device, Err *err);

#endif
