// SPDX-License-Identifier: Apache-2.0
/* A reproducer: one text file with a model and the pipeline that failed on it, for a bug report.
 *
 *     # demi 0.1.0: MESSAGE
 *     # pipeline: infer-dtypes,insert-casts{to=float16}
 *     MODEL TEXT, with all weights
 *
 * `demi opt FILE` without --passes runs the pipeline that the file names.
 */
#ifndef DEMI_REPRODUCER_H
#define DEMI_REPRODUCER_H

#include "console.h"

#define OPTION_REPRODUCER                                                                          \
    {                                                                                              \
        "reproducer", 0, OPTION_ROW_VALUE, "FILE", NULL,                                           \
            "If a pass fails, write the model and the pipeline to FILE; 'demi opt FILE' repeats "  \
            "the failure."                                                                         \
    }

/* Where --reproducer was given and `fault` arose while passes ran, reads the input again and writes
 * the file. A problem in doing so goes to fault's hint: the fault itself matters more. */
void reproducer_write(Program *program, const Parsed *parsed, const char *pipeline, Err *fault);

/* The pipeline that a file names in its first lines; NULL where it names none, or is not a text. */
const char *reproducer_pipeline(Program *program, const char *path);

#endif
