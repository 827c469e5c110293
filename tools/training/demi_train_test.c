// SPDX-License-Identifier: Apache-2.0
/* demi_train as a program calls it: the first step by hand, callbacks, initializations and several
 * trainings, what each error leaves of the model, and memory that runs out at allocation after
 * allocation, after which the model is as the last save saw it and can be trained. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "batches.h"
#include "demi_train.h"
#include "test_faults.h"
#include "unit_test.h"

static const char line[] = "<ir_version: 8, opset_import: [\"\" : 17]>\n"
                           "g (float[N, 2] x) => (float[N, 1] y)\n"
                           "<float[2, 1] w = {1, 2}, float[1] b = {0.5}> {\n"
                           "  m = MatMul (x, w) y = Add (m, b)\n"
                           "}";
static const char make[] = "infer-dtypes,infer-shapes,make-training{loss=mse,rate=\"0.125\"}";
enum { SAMPLES = 8 };
static const int64_t x_dims[] = {SAMPLES, 2}, y_dims[] = {SAMPLES, 1};
static const float x[SAMPLES * 2] = {1, 0, 0, 1, 1, 1, -1, 0, 0, -1, -1, 1, 1, -1, 0, 0};
static const float y[SAMPLES] = {3, 1, 4, -3, -1, -2, 2, 0};
static const char *const names[] = {"x", "labels"};
static const DemiData data[] = {DEMI_DATA_TENSOR(DEMI_FLOAT, 2, x_dims, x),
                                DEMI_DATA_TENSOR(DEMI_FLOAT, 2, y_dims, y)};

static DemiModel *load(void) {
    DemiModel *model = NULL;
    assert_int_equal(demi_load_memory(line, strlen(line), NULL, &model, NULL), DEMI_OK);
    assert_int_equal(demi_run_pipeline(model, make, NULL, NULL, NULL), DEMI_OK);
    return model;
}

/* Two trainings, of w and of b, and an initialization. */
static const char begun[] =
    "<ir_version: 8, opset_import: [\"\" : 17, \"ai.onnx.preview.training\" : 1]>\n"
    "g (float[N, 2] x) => (float[N, 1] y)\n"
    "<float[2, 1] w = {1, 2}, float[1] b = {0.5}> {\n"
    "  m = MatMul (x, w) y = Add (m, b)\n"
    "}\n"
    "@training <initialization: begin () => (float[2, 1] w0) {\n"
    "  w0 = RandomNormal <shape = [2, 1], scale = 0.5> ()\n"
    "}, algorithm: step (float[N, 1] labels) => (float loss) <float learning_rate = {0.125}> {\n"
    "  e = Sub (y, labels) s = Mul (e, e) loss = ReduceMean <keepdims = 0> (s)\n"
    "  g = ai.onnx.preview.training.Gradient <xs = [\"w\"], zs = [\"x\", \"labels\"], y = "
    "\"loss\"> "
    "(w, x, labels)\n"
    "  l = Mul (g, learning_rate) w1 = Sub (w, l)\n"
    "}, initialization_binding: [\"w\": \"w0\"], update_binding: [\"w\": \"w1\"]>\n"
    "@training <algorithm: step (float[N, 1] labels) => (float loss) <float learning_rate = {0.5}> "
    "{\n"
    "  e = Sub (y, labels) s = Mul (e, e) loss = ReduceMean <keepdims = 0> (s)\n"
    "  g = ai.onnx.preview.training.Gradient <xs = [\"b\"], zs = [\"x\", \"labels\"], y = "
    "\"loss\"> "
    "(b, x, labels)\n"
    "  l = Mul (g, learning_rate) b1 = Sub (b, l) k = Identity (w)\n"
    "}, update_binding: [\"b\": \"b1\", \"w\": \"k\"]>";

static DemiModel *load_begun(void) {
    DemiModel *model = NULL;
    DemiError error = DEMI_ERROR_INIT;
    if (demi_load_memory(begun, strlen(begun), NULL, &model, &error)) fail_msg("%s", error.message);
    return model;
}

static DemiTrainOptions options_of(uint64_t steps) {
    static DemiContextOptions one = DEMI_CONTEXT_OPTIONS_INIT;
    DemiTrainOptions options = DEMI_TRAIN_OPTIONS_INIT;
    one.threads = 1;
    options.names = names;
    options.data = data;
    options.data_count = 2;
    options.steps = steps;
    options.batch = SAMPLES / 2;
    options.context = &one;
    return options;
}

/* A model as bytes, to be held against another. */
typedef struct Kept {
    char bytes[8192];
    size_t size;
} Kept;

static bool keep(void *user, const void *bytes, size_t size) {
    Kept *kept = user;
    if (size > sizeof kept->bytes - kept->size) return false;
    memcpy(kept->bytes + kept->size, bytes, size);
    kept->size += size;
    return true;
}

static Kept bytes_of(DemiModel *model) {
    Kept kept = {.size = 0};
    assert_int_equal(demi_save_callback(model, keep, &kept, NULL, NULL), DEMI_OK);
    return kept;
}

static void assert_same(const Kept *a, const Kept *b) {
    assert_int_equal(a->size, b->size);
    assert_memory_equal(a->bytes, b->bytes, a->size);
}

/* The numbers of an initializer, from the model's text. */
static void read_floats(DemiModel *model, const char *head, double *numbers, size_t count) {
    Kept text = {.size = 0};
    assert_int_equal(demi_print(model, true, keep, &text, NULL), DEMI_OK);
    assert_true(text.size < sizeof text.bytes);
    const char *at = strstr(text.bytes, head);
    assert_non_null(at);
    at = strchr(at, '{');
    for (size_t i = 0; i < count; i++) {
        assert_non_null(at);
        char *end;
        numbers[i] = strtod(at + 1, &end);
        assert_true(end > at + 1);
        at = end;
    }
}

typedef struct Seen {
    uint64_t steps, saves, last_saved, most; /* most: ended by then; 0: never */
    double first_loss;
    bool full; /* nothing can be written */
    Kept saved;
} Seen;

static bool count_step(void *user, const DemiTrainStep *step) {
    Seen *seen = user;
    if (!seen->steps++) seen->first_loss = step->loss;
    assert_int_equal(step->size, sizeof *step);
    assert_true(step->loss >= 0 && step->seconds >= 0 && step->scale == 0);
    return step->step != seen->most;
}

static bool count_save(void *user, DemiModel *model, uint64_t step) {
    Seen *seen = user;
    seen->saves++;
    if (seen->full) return false;
    seen->last_saved = step;
    const bool armed = faults.armed; /* this is not the library's memory */
    faults.armed = false;
    seen->saved = bytes_of(model);
    faults.armed = armed;
    return true;
}

/* Loss and update of a whole batch, by hand: w -= rate 2/n x^T (x w + b - y), which sgd does. */
TEST(test_step) {
    DemiModel *model = load();
    DemiTrainOptions options = options_of(1);
    DemiTrained trained = DEMI_TRAINED_INIT;
    Seen seen = {.steps = 0};
    double w[2] = {1, 2}, b[1] = {0.5}, loss = 0, gw[2] = {0, 0}, gb = 0, got[2];
    for (size_t i = 0; i < SAMPLES; i++) {
        const double error = x[2 * i] * w[0] + x[2 * i + 1] * w[1] + b[0] - y[i];
        loss += error * error / SAMPLES;
        gw[0] += 2 * error * x[2 * i] / SAMPLES;
        gw[1] += 2 * error * x[2 * i + 1] / SAMPLES;
        gb += 2 * error / SAMPLES;
    }
    options.batch = SAMPLES;
    options.progress = count_step;
    options.progress_user = &seen;
    assert_int_equal(demi_train(model, &options, &trained, NULL), DEMI_OK);
    assert_int_equal(trained.steps, 1);
    assert_int_equal(seen.steps, 1);
    assert_true(fabs(trained.loss - loss) < 1e-6 && trained.loss == seen.first_loss);
    read_floats(model, "w =", got, 2);
    assert_true(fabs(got[0] - (w[0] - 0.125 * gw[0])) < 1e-6);
    assert_true(fabs(got[1] - (w[1] - 0.125 * gw[1])) < 1e-6);
    read_floats(model, "b =", got, 1);
    assert_true(fabs(got[0] - (b[0] - 0.125 * gb)) < 1e-6);
    demi_free(model);
}

/* A model that a cancelled pipeline left between two forms is not trained. */
static bool stop_pipeline(void *user, const char *pass, size_t done, size_t total) {
    (void)user, (void)pass, (void)done, (void)total;
    return false;
}

TEST(test_half_rewritten) {
    DemiRunOptions cancels = DEMI_RUN_OPTIONS_INIT;
    cancels.progress = stop_pipeline;
    DemiModel *model = load();
    assert_int_equal(demi_run_pipeline(model, "infer-dtypes,infer-shapes", &cancels, NULL, NULL),
                     DEMI_ERR_CANCELLED);
    DemiTrainOptions options = DEMI_TRAIN_OPTIONS_INIT;
    options.names = names;
    options.data = data;
    options.data_count = 2;
    DemiError error = DEMI_ERROR_INIT;
    assert_int_equal(demi_train(model, &options, NULL, &error), DEMI_ERR_USAGE);
    assert_non_null(strstr(error.message, "half rewritten"));
    error = (DemiError)DEMI_ERROR_INIT;
    assert_int_equal(demi_make_training(model, NULL, NULL, &error), DEMI_ERR_USAGE);
    assert_non_null(strstr(error.message, "half rewritten"));
    demi_free(model);
}

/* In parts, with saves between, ended early and gone on with: the bits of a training at once. */
TEST(test_parts) {
    DemiModel *whole = load(), *parts = load();
    DemiTrainOptions options = options_of(20);
    DemiTrained trained = DEMI_TRAINED_INIT;
    Seen seen = {.most = 7};
    assert_int_equal(demi_train(whole, &options, &trained, NULL), DEMI_OK);
    assert_int_equal(trained.steps, 20);
    assert_false(trained.ended_early);
    options.progress = count_step;
    options.save = count_save;
    options.progress_user = options.save_user = &seen;
    options.every = 3;
    assert_int_equal(demi_train(parts, &options, &trained, NULL), DEMI_OK);
    assert_true(trained.ended_early);
    assert_int_equal(trained.steps, 7);
    assert_int_equal(seen.saves, 3); /* after 3, 6 and 7 */
    assert_int_equal(seen.last_saved, 7);
    seen.most = 0;
    assert_int_equal(demi_train(parts, &options, &trained, NULL), DEMI_OK);
    assert_int_equal(trained.steps, 20);
    assert_int_equal(seen.steps, 20);
    const Kept a = bytes_of(whole), b = bytes_of(parts);
    assert_same(&a, &b);
    assert_same(&seen.saved, &b);
    demi_free(whole);
    demi_free(parts);
}

static void expect(DemiModel *model, const DemiTrainOptions *options, DemiStatus status,
                   const char *says) {
    DemiError error = DEMI_ERROR_INIT;
    const Kept before = bytes_of(model);
    assert_int_equal(demi_train(model, options, NULL, &error), status);
    if (!strstr(error.message, says)) fail_msg("'%s', not '%s'", error.message, says);
    const Kept after = bytes_of(model);
    assert_same(&before, &after);
}

TEST(test_errors) {
    static const float wild[SAMPLES * 2] = {INFINITY};
    const DemiData odd[] = {data[0], DEMI_DATA_TENSOR(DEMI_FLOAT, 2, x_dims, wild)};
    const DemiData infinite[] = {DEMI_DATA_TENSOR(DEMI_FLOAT, 2, x_dims, wild), data[1]};
    static const char *const other[] = {"x", "labels", "z"};
    const DemiData three[] = {data[0], data[1], data[1]};
    DemiModel *model = load(), *plain = NULL;
    DemiTrainOptions options = options_of(4);
    assert_int_equal(demi_load_memory(line, strlen(line), NULL, &plain, NULL), DEMI_OK);
    expect(plain, &options, DEMI_ERR_MODEL, "it has no training_info");
    options.data_count = 1;
    expect(model, &options, DEMI_ERR_USAGE, "no data for input 'labels'");
    options.data_count = 3;
    options.names = other;
    options.data = three;
    expect(model, &options, DEMI_ERR_USAGE, "array 'z' matches no input");
    options = options_of(4);
    options.data = odd;
    expect(model, &options, DEMI_ERR_USAGE, "'labels'");
    options.data = infinite;
    options.in_order = true;
    expect(model, &options, DEMI_ERR_MODEL, "the loss of step 1 is");
    options = options_of(4);
    options.batch = SAMPLES + 1;
    expect(model, &options, DEMI_ERR_USAGE, "samples");
    demi_free(model);
    demi_free(plain);
}

/* Before the first step: by the seed, unless weights are kept; what fails before a save leaves what
 * was there. Each training has its loss, the second one's with what the first updated. */
static bool two_losses(void *user, const DemiTrainStep *step) {
    double *losses = user;
    assert_int_equal(step->loss_count, 2);
    assert_true(step->losses[0] == step->loss);
    memcpy(losses, step->losses, 2 * sizeof *losses);
    return true;
}

static double mean_error(const double w[2], double b) {
    double loss = 0;
    for (size_t i = 0; i < SAMPLES; i++) {
        const double error = x[2 * i] * w[0] + x[2 * i + 1] * w[1] + b - y[i];
        loss += error * error / SAMPLES;
    }
    return loss;
}

TEST(test_begun) {
    static const float wild[SAMPLES * 2] = {INFINITY};
    const DemiData infinite[] = {DEMI_DATA_TENSOR(DEMI_FLOAT, 2, x_dims, wild), data[1]};
    double losses[2], w[2], drawn[2], again[2], b[1];
    DemiModel *model = load_begun(), *kept = load_begun();
    DemiTrainOptions options = options_of(3);
    options.data = infinite;
    options.in_order = true;
    expect(model, &options, DEMI_ERR_MODEL, "loss 1 of step 1 is");
    options = options_of(1);
    options.batch = SAMPLES;
    options.progress = two_losses;
    options.progress_user = losses;
    options.keep_weights = true;
    assert_int_equal(demi_train(kept, &options, NULL, NULL), DEMI_OK);
    read_floats(kept, "w =", w, 2);
    assert_true(fabs(losses[0] - mean_error((double[]){1, 2}, 0.5)) < 1e-5);
    assert_true(fabs(losses[1] - mean_error(w, 0.5)) < 1e-5);
    read_floats(kept, "b =", b, 1);
    assert_true(mean_error(w, b[0]) < losses[1]);
    options.keep_weights = false;
    const double still = 0;
    options.rate = &still;
    for (unsigned i = 0; i < 3; i++) {
        DemiModel *other = load_begun();
        options.seed = i == 2;
        assert_int_equal(demi_train(other, &options, NULL, NULL), DEMI_OK);
        read_floats(other, "w =", i ? again : drawn, 2);
        if (i) assert_int_equal(again[0] == drawn[0] && again[1] == drawn[1], i == 1);
        demi_free(other);
    }
    demi_free(model);
    demi_free(kept);
}

/* A model that can't be written ends the training, which has it trained by then. */
TEST(test_full) {
    DemiModel *model = load(), *other = load();
    DemiTrainOptions options = options_of(10);
    DemiTrained trained = DEMI_TRAINED_INIT;
    DemiError error = DEMI_ERROR_INIT;
    Seen seen = {.full = true};
    options.save = count_save;
    options.save_user = &seen;
    options.every = 4;
    assert_int_equal(demi_train(model, &options, &trained, &error), DEMI_ERR_ENV);
    assert_string_equal(error.message, "cannot write the result of 4 steps");
    assert_int_equal(trained.steps, 4);
    options = options_of(4);
    assert_int_equal(demi_train(other, &options, NULL, NULL), DEMI_OK);
    const Kept a = bytes_of(model), b = bytes_of(other);
    assert_same(&a, &b);
    demi_free(model);
    demi_free(other);
}

/* Memory runs out at every allocation of one kind in turn: the model is as the last save saw it. */
static unsigned fail_everywhere(DemiModel *(*make_model)(void), bool for_good, bool arenas) {
    DemiModel *model = make_model();
    DemiTrainOptions options = options_of(6);
    const Kept untrained = bytes_of(model);
    assert_int_equal(demi_train(model, &options, NULL, NULL), DEMI_OK);
    const Kept trained = bytes_of(model);
    demi_free(model);
    for (unsigned point = 0;; point += faults_step(7)) {
        DemiError error = DEMI_ERROR_INIT;
        Seen seen = {.saved = untrained};
        model = make_model();
        options.save = count_save;
        options.save_user = &seen;
        options.every = 2;
        faults =
            (struct Faults){.armed = true, .for_good = for_good, .arenas = arenas, .left = point};
        DemiStatus status = demi_train(model, &options, NULL, &error);
        const unsigned failed = faults.failed;
        faults.armed = false;
        if (!failed && status) fail_msg("%s", error.message);
        if (status && status != DEMI_ERR_ENV)
            fail_msg("allocation %u: status %d, '%s'", point, (int)status, error.message);
        Kept now = bytes_of(model);
        if (status) assert_same(&now, &seen.saved);
        options.save = NULL;
        assert_int_equal(demi_train(model, &options, NULL, NULL), DEMI_OK);
        now = bytes_of(model);
        assert_same(&now, &trained);
        demi_free(model);
        if (!failed) return point;
        assert_true(point < 100000);
    }
}

TEST(test_memory) {
    for (unsigned i = 0; i < 7; i += i < 4 ? 1 : 2) { /* of the larger model half as often */
        const unsigned points = fail_everywhere(i < 4 ? load : load_begun, i % 2, i / 2 % 2);
        print_message("%u allocations\n", points);
        assert_true(points > (i / 2 % 2 ? 150 : 20));
    }
}

/* Every order of three samples comes, that which they have among them. */
TEST(test_orders) {
    uint64_t order[3];
    bool seen[27] = {false};
    int found = 0;
    Batches batches = {.samples = 3, .batch = 3, .epoch = UINT64_MAX, .order = order};
    for (uint64_t epoch = 0; epoch < 60; epoch++) {
        batches_fill(&batches, epoch);
        bool *at = &seen[order[0] * 9 + order[1] * 3 + order[2]];
        found += !*at;
        *at = true;
    }
    assert_int_equal(found, 6);
}
