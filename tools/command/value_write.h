// SPDX-License-Identifier: Apache-2.0
/* Values into files that a command writes. */
#ifndef DEMI_VALUE_WRITE_H
#define DEMI_VALUE_WRITE_H

#include "demi_runtime.h"
#include "outputs.h"

/* Writes a .pb or a .npy to a file that outputs_open gave, and finishes it. */
bool value_write_pb(OutputFile *to, Arena *arena, const DemiData *value, const DemiPlanIo *io);
bool value_write_npy(OutputFile *to, Arena *arena, const DemiData *value);

typedef struct SavedInput {
    const DemiPlanIo *io;
    const DemiData *value; /* NULL: it has none */
} SavedInput;

typedef struct SavedInputs {
    const SavedInput *items;
    size_t count;
} SavedInputs;

/* Writes input_N.pb for every input that has a value, for --save-inputs. */
bool inputs_save(const SavedInputs *inputs, Program *program, const char *folder, Err *err);

#endif
