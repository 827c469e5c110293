// SPDX-License-Identifier: Apache-2.0
/* Values into files that a command writes; see value_write.h. */
#include "value_write.h"

#include "npy.h"
#include "value_pb.h"

bool value_write_pb(OutputFile *to, Arena *arena, const DemiData *value, const DemiPlanIo *io) {
    Bytes bytes = value_pb_make(arena, value, io->name, io->optional);
    return (!bytes.size || outputs_write(to, bytes.data, bytes.size)) &&
           outfile_finish(to->file, to->err);
}

bool value_write_npy(OutputFile *to, Arena *arena, const DemiData *value) {
    return npy_write(to->file, arena, value, to->err) && outfile_finish(to->file, to->err);
}

bool inputs_save(const SavedInputs *inputs, Program *program, const char *folder, Err *err) {
    if (!outputs_make_folder(program, folder, err)) return false;
    size_t number = 0;
    bool all = true; /* else files stand for the inputs that have no default */
    for (size_t i = 0; i < inputs->count; i++) all = all && inputs->items[i].value;
    for (size_t i = 0; i < inputs->count; i++) {
        const SavedInput *input = &inputs->items[i];
        if (!input->value || (!all && input->io->has_default)) continue;
        const char *path = arena_printf(program->arena, "%s/input_%zu.pb", folder, number++);
        OutputFile file = {outputs_open(program, "save-inputs", path, err), err};
        if (!file.file || !value_write_pb(&file, program->arena, input->value, input->io))
            return false;
    }
    return true;
}
