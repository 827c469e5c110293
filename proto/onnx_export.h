// SPDX-License-Identifier: Apache-2.0
/* Model -> ONNX bytes.
 *
 * Fields come in the order of their numbers and nodes in the graph's order, so that equal graphs
 * give equal bytes, and a file that was written canonically is written back byte for byte. Weights
 * are streamed: a lazily cast or new tensor becomes raw_data, converted on the way; an untouched
 * one is written to the field it was read from. Both passes of the writer are linear and hold 4
 * bytes a message beside the graph.
 *
 * With external data, the data of large tensors goes to a second stream that becomes one file:
 *   - initializers of EXPORT_EXTERNAL_MIN bytes and more; smaller ones stay inside the model,
 *     unless they were external before;
 *   - a tensor in an attribute or a sparse initializer only where it was external before, or where
 *     the model would otherwise pass 2^31 - 1 bytes (then tensors in typed fields, too);
 *   - offsets are multiples of 64 KiB for data of 1 MiB and more (a page of any system can be
 *     mapped), of 4 KiB from 64 KiB on, else of 64.
 * A model that passes 2^31 - 1 bytes is written so even where external was not asked for.
 */
#ifndef DEMI_ONNX_EXPORT_H
#define DEMI_ONNX_EXPORT_H

#include "graph.h"
#include "wire_writer.h"

enum { EXPORT_EXTERNAL_MIN = 1024 };

typedef struct ExportOptions {
    bool external;         /* write external data; implied where the model has some */
    const char *data_name; /* name of the data file beside the model; NULL: none is possible, and a
                              model that needs one is an ERR_ENV */
} ExportOptions;

/* A model measured and ready to be written. The model must not change while a plan is in use. */
typedef struct ExportPlan ExportPlan;

/* Checks and measures. ERR_MODEL where the model has no ONNX form: no ir_version or opset_import,
 * an operator of the domain demi.fused, initializers in a function, nesting beyond 100 messages,
 * more than 2^31 - 1 bytes beside the weights. The plan lives in scratch, which also needs about 1
 * MiB for streaming. */
ExportPlan *onnx_export_plan(const Model *model, const ExportOptions *options, Arena *scratch,
                             Err *err);

uint64_t export_plan_size(const ExportPlan *plan);      /* bytes of the model */
uint64_t export_plan_data_size(const ExportPlan *plan); /* bytes of the data file; 0: none */

/* True where the model was not changed since it was read from a source that holds all of it: the
 * source's own bytes are then what to write. */
bool export_plan_is_unchanged(const ExportPlan *plan);

/* Writes the data file's bytes; nothing where there is none. */
bool onnx_export_data(ExportPlan *plan, const ByteSink *sink, Err *err);

/* Writes the model's bytes. data_name is what it calls the data file, as long as the name that the
 * plan was made with (it may hold a hash that was not known then); NULL: that name. */
bool onnx_export_model(ExportPlan *plan, const char *data_name, const ByteSink *sink, Err *err);

/* After onnx_export_data: a hash of what it wrote, the same on every machine; for a name of the
 * file. */
uint64_t export_plan_data_hash(const ExportPlan *plan);

/* After writing: true where `read`, which was read back, has the raw bytes that were written of
 * `written`; false with *err set where they differ or can't be read. By checksum where the tensor
 * was written as external data, or as raw data of EXPORT_EXTERNAL_MIN bytes or more. */
bool export_plan_same_data(ExportPlan *plan, const Tensor *written, const Tensor *read, Err *err);

/* Plans and writes a model without external data: the source's bytes where it is unchanged. */
bool onnx_export(const Model *model, Arena *scratch, const ByteSink *sink, Err *err);

#endif
