// SPDX-License-Identifier: Apache-2.0
/* demi show of a plan: checked as the runtime checks it, then printed. The file is mapped, since
 * most of it are weights, of which little is shown. */
#include <string.h>

#include "plan.h"
#include "plan_file.h"
#include "show_model.h"
#include "step_place.h"

static void close_file(void *data) {
    plan_file_close(data);
}

static void write_text(void *program, const char *text, size_t size) {
    console_write(program, text, size);
}

bool show_plan(Program *program, const char *path, const char *device, Err *err) {
    PlanFile *file = ARENA_NEW(program->arena, PlanFile);
    const DeviceKind *kind = NULL;
    unsigned number;
    Plan plan;
    if (device && strcmp(device, "cpu") != 0 && !(kind = device_kind(device, &number, err)))
        return false;
    arena_defer(program->arena, close_file, file);
    if (!plan_file_open(file, path, false, err) ||
        !plan_check(&plan, file->bytes, file->size, program->arena, err))
        return false;
    PlanSink sink = {write_text, program};
    if (kind)
        plan_show_placed(&plan, kind, &sink, program->arena);
    else
        plan_show(&plan, &sink);
    return true;
}
