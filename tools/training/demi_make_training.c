// SPDX-License-Identifier: Apache-2.0
/* demi_make_training: a pipeline of passes that is made of options; see demi_train.h. */
#include "demi_call.h"
#include "demi_front.h"
#include "demi_train.h"
#include "graph.h"
#include "pipeline_put.h"
#include "real_text.h"

/* Before opset 14 a batch normalization has no mode for training, before 12 a dropout, nor is there a
 * loss; at 15 running statistics have a type of their own, which stays float in a 16-bit model. */
enum { LEAST_OPSET = 15, RAISED_OPSET = 17 };

typedef struct MakeTraining {
    DemiModel *model;
    DemiTrainingOptions options;
    Arena arena; /* the text's */
    const char *text;
} MakeTraining;

static void put_real(PipelineText *text, const char *key, double value) {
    char buffer[REAL_TEXT];
    real_format(buffer, 17, value);
    pipeline_put_string(text, key, buffer);
}

static bool check_choices(const DemiTrainingOptions *o, Err *err) {
    if ((unsigned)o->loss > DEMI_LOSS_MSE)
        return err_set(err, ERR_USAGE, "unknown loss %d", (int)o->loss);
    if ((unsigned)o->optimizer > DEMI_OPTIMIZER_ADAGRAD)
        return err_set(err, ERR_USAGE, "unknown optimizer %d", (int)o->optimizer);
    return true;
}

static void put_training(PipelineText *text, const DemiTrainingOptions *o) {
    static const char *const losses[] = {"cross-entropy", "mse"};
    static const char *const optimizers[] = {"sgd", "momentum", "adam", "adagrad"};
    pipeline_put_pass(text, "make-training");
    pipeline_put_choice(text, "loss", losses[o->loss]);
    pipeline_put_choice(text, "optimizer", optimizers[o->optimizer]);
    put_real(text, "rate", o->rate);
    put_real(text, "momentum", o->momentum);
    put_real(text, "decay", o->decay);
    if (o->output) pipeline_put_string(text, "output", o->output);
    pipeline_put_list(text, "freeze", o->freeze, o->freeze_count);
    pipeline_end_pass(text);
}

static void put_scale(PipelineText *text, const DemiTrainingOptions *o) {
    if (o->scale == 0 && !o->dynamic_scale) return;
    pipeline_put_pass(text, "scale-loss");
    if (o->dynamic_scale)
        pipeline_put_choice(text, "scale", "dynamic");
    else
        put_real(text, "scale", o->scale);
    pipeline_end_pass(text);
}

static void text_body(Call *call, void *data) {
    MakeTraining *make = data;
    arena_init(&make->arena, &call->trap);
    const int64_t opset = opset_version(&demi_front_lend(make->model, &call->trap)->opsets, NULL);
    PipelineText text = {.arena = &make->arena};
    if (!check_choices(&make->options, &call->err)) return;
    if (opset > 0 && opset < LEAST_OPSET)
        pipeline_put_pass(
            &text, arena_printf(&make->arena, "infer-dtypes,upgrade-opset{to=%d}", RAISED_OPSET));
    pipeline_put_pass(&text, "infer-dtypes,infer-shapes,inline-calls");
    put_training(&text, &make->options);
    put_scale(&text, &make->options);
    if (make->options.decompose) pipeline_put_pass(&text, "decompose-optimizer");
    make->text = pipeline_text(&text);
}

DemiStatus demi_make_training(DemiModel *model, const DemiTrainingOptions *options,
                              DemiReport **report, DemiError *error) {
    Call call = {0};
    MakeTraining make = {.model = model, .options = DEMI_TRAINING_OPTIONS_INIT};
    if (report) *report = NULL;
    options_copy(&call, &make.options, sizeof make.options, options);
    demi_front_is_whole(model, &call.err);
    DemiStatus status = call_run(&call, text_body, &make, error);
    if (status == DEMI_OK)
        status = demi_run_pipeline(model, make.text, make.options.run, report, error);
    arena_free(&make.arena);
    return status;
}
