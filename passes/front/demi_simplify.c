// SPDX-License-Identifier: Apache-2.0
/* Simplifying models: a pipeline that is made of a few options, and demi_run_pipeline. */
#include <string.h>

#include "demi_call.h"
#include "demi_front.h"
#include "simplify_text.h"

typedef struct SimplifyArgs {
    DemiModel *model; /* NULL: any */
    DemiSimplifyOptions options;
    Arena arena; /* the text's */
    const char *text;
} SimplifyArgs;

static void text_body(Call *call, void *data) {
    SimplifyArgs *args = data;
    arena_init(&args->arena, &call->trap);
    PipelineText text = {.arena = &args->arena};
    const DemiSimplifyOptions *o = &args->options;
    if (args->model)
        freeze_put(&text, demi_front_model(args->model),
                   &(Freeze){o->freeze_inputs, o->fed, o->fed_count});
    simplify_put(&text, o);
    args->text = pipeline_text(&text);
}

static DemiStatus make_text(SimplifyArgs *args, const DemiSimplifyOptions *options,
                            DemiError *error) {
    Call call = {0};
    args->options = (DemiSimplifyOptions)DEMI_SIMPLIFY_OPTIONS_INIT;
    options_copy(&call, &args->options, sizeof args->options, options);
    if (args->model) demi_front_is_whole(args->model, &call.err);
    return call_run(&call, text_body, args, error);
}

DemiStatus demi_simplify(DemiModel *model, const DemiSimplifyOptions *options, DemiReport **report,
                         DemiError *error) {
    SimplifyArgs args = {.model = model};
    if (report) *report = NULL;
    DemiStatus status = make_text(&args, options, error);
    if (status == DEMI_OK)
        status = demi_run_pipeline(model, args.text, args.options.run, report, error);
    arena_free(&args.arena);
    return status;
}

size_t demi_simplify_pipeline(const DemiSimplifyOptions *options, char *buffer, size_t size,
                              DemiError *error) {
    SimplifyArgs args = {.text = NULL};
    size_t length = 0;
    if (make_text(&args, options, error) == DEMI_OK) {
        length = strlen(args.text);
        const size_t fits = length < size ? length : size - 1;
        if (size) { /* else there may be no buffer */
            memcpy(buffer, args.text, fits);
            buffer[fits] = '\0';
        }
    }
    arena_free(&args.arena);
    return length;
}
