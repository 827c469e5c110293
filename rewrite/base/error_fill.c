// SPDX-License-Identifier: Apache-2.0
/* From Err to DemiError; see error_fill.h. The caller's structure may be that of an older header,
 * so nothing is written beyond its `size`. */
#include "error_fill.h"

#include <stddef.h>
#include <string.h>

void error_fill(DemiError *error, DemiStatus status, const Err *err) {
    if (!error || error->size < offsetof(DemiError, message) || error->status != DEMI_OK) return;
    DemiError filled = {.status = status};
    Err line = *err;
    line.hint[0] = '\0';
    err_format(&line, filled.message, sizeof filled.message);
    memcpy(filled.hint, err->hint, sizeof filled.hint);
    memcpy(filled.file, err->file, sizeof filled.file);
    memcpy(filled.graph, err->graph, sizeof filled.graph);
    memcpy(filled.node, err->node, sizeof filled.node);
    memcpy(filled.op_type, err->op_type, sizeof filled.op_type);
    memcpy(filled.operand, err->operand, sizeof filled.operand);
    memcpy(filled.what, err->what, sizeof filled.what);
    memcpy(filled.expected, err->expected, sizeof filled.expected);
    memcpy(filled.actual, err->actual, sizeof filled.actual);
    filled.size = error->size;
    memcpy(error, &filled, error->size < sizeof filled ? error->size : sizeof filled);
}
