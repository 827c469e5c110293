// SPDX-License-Identifier: Apache-2.0
/* Entering and leaving the library: see demi_call.h. */
#include "demi_call.h"

#include <string.h>

static void error_fill(DemiError *error, DemiStatus status, const Err *err) {
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

static DemiStatus call_end(const Call *call, DemiError *error) {
    DemiStatus status = call->cancelled ? DEMI_ERR_CANCELLED : (DemiStatus)call->err.code;
    bool has_room = error && error->size >= offsetof(DemiError, message);
    if (status != DEMI_OK && has_room && error->status == DEMI_OK)
        error_fill(error, status, &call->err);
    return status;
}

DemiStatus call_run(Call *call, CallBody body, void *args, DemiError *error) {
    if (call->err.code == ERR_NONE) {
        arena_init(&call->scratch, &call->trap);
        if (setjmp(call->trap.env) == 0)
            body(call, args);
        else if (call->cancelled)
            err_set(&call->err, ERR_ENV, "cancelled");
        else
            err_out_of_memory(&call->err);
        arena_free(&call->scratch);
    }
    return call_end(call, error);
}

void options_copy(Call *call, void *known, size_t known_size, const void *given) {
    if (!given) return;
    uint32_t size;
    memcpy(&size, given, sizeof size);
    if (size < sizeof size) {
        err_set(&call->err, ERR_USAGE, "options without a size: use the INIT macro");
        return;
    }
    memcpy(known, given, size < known_size ? size : known_size);
    for (size_t i = known_size; i < size; i++) {
        if (!((const unsigned char *)given)[i]) continue;
        err_set(&call->err, ERR_USAGE, "options set that this libdemi (%s) does not know",
                DEMI_VERSION_STRING);
        return;
    }
}
