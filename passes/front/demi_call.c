// SPDX-License-Identifier: Apache-2.0
/* Entering and leaving the library: see demi_call.h. */
#include "demi_call.h"

#include <string.h>

#include "error_fill.h"
#include "work_progress.h"

static DemiStatus call_end(const Call *call, DemiError *error) {
    DemiStatus status = call->cancelled ? DEMI_ERR_CANCELLED : (DemiStatus)call->err.code;
    if (status != DEMI_OK) error_fill(error, status, &call->err);
    return status;
}

DemiStatus call_run(Call *call, CallBody body, void *args, DemiError *error) {
    if (call->err.code == ERR_NONE) {
        const unsigned inside = progress_open() + 1;
        arena_init(&call->scratch, &call->trap);
        if (setjmp(call->trap.env) == 0)
            body(call, args);
        else if (call->cancelled)
            err_set(&call->err, ERR_CANCELLED, "cancelled");
        else
            err_out_of_memory(&call->err);
        progress_end(inside); /* what a jump left open */
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
