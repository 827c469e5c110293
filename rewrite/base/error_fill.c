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

_Static_assert(sizeof((DemiError *)0)->file == sizeof((Err *)0)->file &&
                   sizeof((DemiError *)0)->node == sizeof((Err *)0)->node &&
                   sizeof((DemiError *)0)->what == sizeof((Err *)0)->what,
               "the public error has the fields of the inner one");

bool error_take(Err *err, DemiStatus status, const DemiError *error) {
    if (status == DEMI_OK) return true;
    if (err->code != ERR_NONE) return false;
    *err = (Err){.code = (ErrCode)status};
    memcpy(err->file, error->file, sizeof err->file);
    memcpy(err->graph, error->graph, sizeof err->graph);
    memcpy(err->node, error->node, sizeof err->node);
    memcpy(err->op_type, error->op_type, sizeof err->op_type);
    memcpy(err->operand, error->operand, sizeof err->operand);
    memcpy(err->what, error->what, sizeof err->what);
    memcpy(err->expected, error->expected, sizeof err->expected);
    memcpy(err->actual, error->actual, sizeof err->actual);
    memcpy(err->hint, error->hint, sizeof err->hint);
    return false;
}
