// SPDX-License-Identifier: Apache-2.0
/* Fuzzer of the main job: load, convert to both types, write, reload, compare. Any bytes, protobuf
 * or text, are refused with one reason or converted; what comes out reads back as what was meant,
 * and passes the check that the input passed. The input's last byte chooses between I/O modes. */
#include <setjmp.h>
#include <string.h>

#include "compare.h"
#include "demi.h"
#include "demi_front.h"
#include "fuzz.h"

typedef struct Output {
    MemTrap trap;
    Arena arena;
    FuzzBytes out;
} Output;

static bool take(void *user, const void *bytes, size_t size) {
    fuzz_put(&((Output *)user)->out, bytes, size);
    return true;
}

_Noreturn static void fail(const char *what, const DemiError *error) {
    Err err = {.code = ERR_MODEL};
    memcpy(err.what, error->message, sizeof err.what - 1);
    fuzz_fail(what, &err);
}

static void reload(DemiModel *model, bool was_valid) {
    Output output;
    DemiError error = DEMI_ERROR_INIT;
    DemiSaveOptions options = DEMI_SAVE_OPTIONS_INIT;
    DemiModel *again = NULL;
    options.format = DEMI_FORMAT_ONNX;
    if (setjmp(output.trap.env)) fuzz_fail("out of memory", NULL);
    arena_init(&output.arena, &output.trap);
    output.out = (FuzzBytes){.arena = &output.arena};
    DemiStatus status = demi_save_callback(model, take, &output, &options, &error);
    if (status != DEMI_OK && (status != DEMI_ERR_MODEL || was_valid)) fail("not written", &error);
    if (status == DEMI_OK) {
        if (demi_load_memory(output.out.bytes.items, output.out.bytes.count, NULL, &again, &error))
            fail("its own output is refused", &error);
        Err err = {0};
        if (!model_compare(demi_front_model(model), demi_front_model(again), NULL, &err))
            fuzz_fail("reads back differently", &err);
        if (was_valid && demi_check(again, &error)) fail("a valid model became invalid", &error);
    }
    demi_free(again);
    arena_free(&output.arena);
}

static bool drop(void *user, const void *bytes, size_t size) {
    (void)user;
    (void)bytes;
    (void)size;
    return true;
}

static void convert(const uint8_t *data, size_t size, DemiTarget to) {
    DemiModel *model = NULL;
    DemiReport *report = NULL;
    DemiError error = DEMI_ERROR_INIT;
    DemiConvertOptions options = DEMI_CONVERT_OPTIONS_INIT;
    options.to = to;
    options.io = size && data[size - 1] & 1 ? DEMI_IO_LOW : DEMI_IO_KEEP;
    DemiStatus status = demi_load_memory(data, size, NULL, &model, &error);
    bool valid = status == DEMI_OK && demi_check(model, NULL) == DEMI_OK;
    if (status == DEMI_OK) status = demi_convert(model, &options, &report, &error);
    if (status == DEMI_OK) {
        reload(model, valid);
        demi_print(model, false, drop, NULL, NULL);
    } else if (status != DEMI_ERR_MODEL && status != DEMI_ERR_USAGE) {
        fail("not the model's fault", &error);
    } else if (!error.message[0]) {
        fail("refused without a reason", &error);
    }
    demi_report_free(report);
    demi_free(model);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    convert(data, size, DEMI_TO_FLOAT16);
    convert(data, size, DEMI_TO_BFLOAT16);
    return 0;
}
