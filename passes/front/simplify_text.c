// SPDX-License-Identifier: Apache-2.0
/* Making the text of a pipeline from the rows of simplify_passes.def. */
#include "simplify_text.h"

#include <string.h>

typedef enum Stage { BEGIN, ROUND, END, LAST } Stage;

#define INEXACT "inexact"
static const struct {
    const char *name;
    Stage stage;
    const char *options;
} passes[] = {
#define PASS(name, stage, options) {name, stage, options},
#include "simplify_passes.def"
};

static void put_stage(PipelineText *text, Stage stage, bool inexact) {
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
        const char *options = passes[i].options;
        if (passes[i].stage != stage) continue;
        pipeline_put_pass(text, passes[i].name);
        if (*options && (inexact || strcmp(options, INEXACT) != 0))
            pipeline_put_choice(text, options, "true");
        pipeline_end_pass(text);
    }
}

static void put_all(PipelineText *text, bool inexact) {
    put_stage(text, BEGIN, inexact);
    put_stage(text, ROUND, inexact);
    put_stage(text, ROUND, inexact);
    put_stage(text, END, inexact);
    if (inexact) put_stage(text, LAST, inexact);
}

void simplify_put_exact(PipelineText *text) {
    put_all(text, false);
}

bool freeze_can(const Model *model) {
    const Graph *graph = model->graph;
    for (size_t i = 0; i < graph->inputs.count; i++)
        if (graph->inputs.items[i]->init) return true;
    return false;
}

void freeze_put(PipelineText *text, const Model *model, const Freeze *freeze) {
    if (!freeze->fed_count && (!freeze_can(model) || (model->ir_version >= 4 && !freeze->all)))
        return;
    pipeline_put_pass(text, "freeze-inputs");
    if (freeze->all) pipeline_put_choice(text, "all", "true");
    pipeline_put_list(text, "fed", freeze->fed, freeze->fed_count);
    pipeline_end_pass(text);
}

void simplify_put(PipelineText *text, const DemiSimplifyOptions *options) {
    if (options->shape_count || options->dim_count) {
        pipeline_put_pass(text, "set-shapes");
        pipeline_put_list(text, "shapes", options->shapes, options->shape_count);
        pipeline_put_list(text, "dims", options->dims, options->dim_count);
        pipeline_end_pass(text);
    }
    put_all(text, options->inexact);
    if (options->strip_doc_strings) pipeline_put_pass(text, "strip-doc-strings");
}
