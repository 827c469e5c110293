// SPDX-License-Identifier: Apache-2.0
/* The export's two passes, and which tensors must leave a model that is too large. */
#include "onnx_export.h"

#include <string.h>

#include "export_parts.h"

enum { COPY_PIECE = 1 << 16 };

/* One counting pass with plan->spill. */
static bool count(ExportPlan *plan) {
    plan->w.position = 0;
    plan->w.lengths.count = 0;
    plan->spilled.count = 0;
    plan->data_size = plan->streamed = 0;
    plan->was_external = false;
    put_model(plan);
    plan->size = plan->w.position;
    return writer_finish(&plan->w);
}

static bool fits(const ExportPlan *plan) {
    return plan->size <= INT32_MAX;
}

static bool count_until_it_fits(ExportPlan *plan, Err *err) {
    if (!count(plan)) return false;
    if (plan->was_external && plan->spill == SPILL_NONE && plan->data_name) {
        plan->spill = SPILL_INITIALIZERS;
        if (!count(plan)) return false;
    }
    while (!fits(plan) && plan->spill != SPILL_ALL) {
        if (!plan->data_name) {
            err_set(err, ERR_ENV, "a model of more than 2^31 - 1 bytes needs a separate data file");
            err_hint(err, "write to a file, not to a pipe");
            return false;
        }
        plan->spill = plan->spill == SPILL_NONE ? SPILL_INITIALIZERS : SPILL_ALL;
        if (!count(plan)) return false;
    }
    return fits(plan) ||
           err_set(err, ERR_MODEL,
                   "the model has more than 2^31 - 1 bytes in addition to its weights");
}

/* The importer refuses such files, as cut-off ones; only text makes such models. */
static bool has_required_fields(const Model *model, Err *err) {
    if (model->has_ir_version && model->opsets.count) return true;
    err_set(err, ERR_MODEL, "the model has no %s, which an ONNX file needs",
            model->has_ir_version ? "opset_import" : "ir_version");
    err_hint(err, "begin the text with <ir_version: 10, opset_import: [\"\" : 21]>");
    return false;
}

ExportPlan *onnx_export_plan(const Model *model, const ExportOptions *options, Arena *scratch,
                             Err *err) {
    if (!has_required_fields(model, err)) return NULL;
    ExportPlan *plan = ARENA_NEW(scratch, ExportPlan);
    plan->model = model;
    plan->arena = scratch;
    plan->spill = options->external && options->data_name ? SPILL_INITIALIZERS : SPILL_NONE;
    plan->data_name = options->data_name;
    writer_init(&plan->w, scratch, err);
    if (!count_until_it_fits(plan, err)) return NULL;
    export_make_sums(plan);
    return plan;
}

uint64_t export_plan_size(const ExportPlan *plan) {
    return plan->size;
}

uint64_t export_plan_data_size(const ExportPlan *plan) {
    return plan->data_size;
}

bool export_plan_is_unchanged(const ExportPlan *plan) {
    return plan->model->edits == 0 && plan->model->source && !plan->was_external;
}

bool onnx_export_model(ExportPlan *plan, const char *data_name, const ByteSink *sink, Err *err) {
    if (data_name) plan->data_name = data_name;
    plan->next_spilled = 0;
    writer_start_writing(&plan->w, sink, err);
    put_model(plan);
    if (!writer_finish(&plan->w)) return false;
    return plan->w.position == plan->size ||
           err_set(err, ERR_ENV, "internal: the model's size changed while it was written");
}

static bool copy_source(const Source *source, Arena *scratch, const ByteSink *sink, Err *err) {
    unsigned char *piece = arena_alloc(scratch, COPY_PIECE);
    for (uint64_t done = 0; done < source->size;) {
        uint64_t left = source->size - done;
        size_t now = left < COPY_PIECE ? (size_t)left : COPY_PIECE;
        if (!source_read(source, done, piece, now, err)) return false;
        if (!sink->write(sink->data, piece, now, err)) return false;
        done += now;
    }
    return true;
}

bool onnx_export(const Model *model, Arena *scratch, const ByteSink *sink, Err *err) {
    ExportPlan *plan = onnx_export_plan(model, &(ExportOptions){0}, scratch, err);
    if (!plan) return false;
    if (export_plan_is_unchanged(plan)) return copy_source(model->source, scratch, sink, err);
    return onnx_export_model(plan, NULL, sink, err);
}
