// SPDX-License-Identifier: Apache-2.0
/* Damaged models: every truncation, random byte flips, random cuts and copies of spans.
 *
 * Whatever the bytes, the importer either refuses them with one line, or gives a model that is
 * written and read back the same. Sanitizers see the rest. The random numbers are fixed, so a
 * failure names a case that repeats. */
#include <stdio.h>
#include <stdlib.h>

#include "onnx_export.h"
#include "onnx_import.h"
#include "unit_test.h"
#include "verify.h"
#include "wire_build.h"

enum { FLIPS = 2500, SPANS = 1000 };

typedef struct Bench {
    const char *name; /* of the model */
    Bytes original;
    Arena arena; /* of one case */
    const char *damage;
    uint64_t which; /* the case, for messages */
    uint64_t read, refused;
} Bench;

static bool sink_write(void *data, const void *bytes, size_t size, Err *err) {
    (void)err;
    build_raw(data, bytes, size);
    return true;
}

_Noreturn static void wrong(const Bench *bench, const char *what, const Err *err) {
    char line[1024];
    err_format(err, line, sizeof line);
    fprintf(stderr, "%s, %s %llu: %s: %s\n", bench->name, bench->damage,
            (unsigned long long)bench->which, what, line);
    fail();
    abort();
}

/* Reads, and writes as if changed. False where the model is refused. */
static bool rewrite(Bench *bench, Bytes bytes, Wire *out, Err *err) {
    ImportBytes input = {.bytes = bytes.data, .size = bytes.size, .name = bench->name};
    Model *model = onnx_import_memory(&input, NULL, &test_trap, err);
    if (!model) return false;
    Err ignored = {.code = ERR_NONE};
    model_verify(model, &bench->arena, &ignored); /* may well fail; must not crash */
    model_touch(model);
    ByteSink sink = {.write = sink_write, .data = out};
    bool written = onnx_export(model, &bench->arena, &sink, err);
    model_free(model);
    return written;
}

static void check(Bench *bench, Bytes bytes) {
    Err err = {.code = ERR_NONE};
    Wire once = {.arena = &bench->arena}, twice = {.arena = &bench->arena};
    if (!rewrite(bench, bytes, &once, &err)) {
        if (err.code != ERR_MODEL || !err.what[0]) wrong(bench, "refused without a reason", &err);
        bench->refused++;
        arena_free(&bench->arena);
        return;
    }
    if (!rewrite(bench, (Bytes){once.items, once.count}, &twice, &err))
        wrong(bench, "its own output is refused", &err);
    if (once.count != twice.count || memcmp(once.items, twice.items, once.count) != 0)
        wrong(bench, "written differently the second time", &err);
    bench->read++;
    arena_free(&bench->arena);
}

/* xorshift64*, so that every machine damages alike. */
static uint64_t random_next(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717);
}

static void damage_flips(Bench *bench, unsigned char *copy) {
    uint64_t state = 1;
    size_t size = bench->original.size;
    bench->damage = "flip";
    for (bench->which = 0; bench->which < FLIPS; bench->which++) {
        memcpy(copy, bench->original.data, size);
        for (uint64_t n = 1 + random_next(&state) % 4; n > 0; n--) {
            uint64_t bits = random_next(&state);
            copy[(bits >> 8) % size] = (unsigned char)bits;
        }
        check(bench, (Bytes){copy, size});
    }
}

/* A span cut out, or copied over another place. */
static void damage_spans(Bench *bench, unsigned char *copy) {
    uint64_t state = 2;
    size_t size = bench->original.size;
    bench->damage = "span";
    for (bench->which = 0; bench->which < SPANS; bench->which++) {
        memcpy(copy, bench->original.data, size);
        size_t from = random_next(&state) % size, to = random_next(&state) % size;
        size_t last = from > to ? from : to;
        size_t length = 1 + random_next(&state) % 64;
        if (length > size - last) length = size - last;
        if (bench->which % 2) {
            memmove(copy + to, copy + from, length);
            check(bench, (Bytes){copy, size});
        } else {
            memmove(copy + from, copy + from + length, size - from - length);
            check(bench, (Bytes){copy, size - length});
        }
    }
}

static void damage_all(const char *name, Bytes original) {
    Bench bench = {.name = name, .original = original, .damage = "whole"};
    arena_init(&bench.arena, NULL); /* out of memory aborts the test */
    check(&bench, original);
    assert_int_equal(bench.read, 1);
    bench.damage = "truncation";
    for (bench.which = 0; bench.which < original.size; bench.which++) {
        unsigned char *cut = malloc(bench.which + 1); /* its end is the sanitizer's to guard */
        assert_non_null(cut);
        memcpy(cut, original.data, bench.which);
        unsigned char *exact = realloc(cut, bench.which ? bench.which : 1);
        assert_non_null(exact);
        check(&bench, (Bytes){exact, bench.which});
        free(exact);
    }
    unsigned char *copy = malloc(original.size);
    assert_non_null(copy);
    damage_flips(&bench, copy);
    damage_spans(&bench, copy);
    free(copy);
    print_message("%s: %llu read, %llu refused\n", name, (unsigned long long)bench.read,
                  (unsigned long long)bench.refused);
    assert_true(bench.read > 0 && bench.refused > 0);
}

static void damage_file(const char *name) {
    char path[512];
    snprintf(path, sizeof path, "%s/models/%s", DEMI_TESTDATA, name);
    FILE *file = fopen(path, "rb");
    if (!file) fail_msg("cannot open %s", path);
    static unsigned char bytes[1 << 16];
    size_t size = fread(bytes, 1, sizeof bytes, file);
    assert_true(feof(file) || size < sizeof bytes);
    fclose(file);
    damage_all(name, (Bytes){bytes, size});
}

TEST(test_conv_net) {
    damage_file("conv_net.onnx");
}

TEST(test_control_flow) {
    damage_file("loop_if.onnx");
}

TEST(test_odd_parts) {
    damage_file("odd_parts.onnx");
}

TEST(test_low_precision) {
    damage_file("low_precision.onnx");
}

/* Non-canonical: split submessages, unpacked lists, groups, wrong wire types. */
TEST(test_non_canonical) {
    Wire half = {.arena = &test_arena}, other = {.arena = &test_arena},
         attribute = {.arena = &test_arena};
    Wire node = {.arena = &test_arena}, graph = {.arena = &test_arena},
         model = {.arena = &test_arena};
    Wire opset = {.arena = &test_arena}, part = {.arena = &test_arena};
    build_int(&half, 1, 2);
    build_int(&half, 2, 7);
    build_text(&half, 9, "a raw_data that is given twice");
    build_int(&other, 7, 5);
    build_bytes(&other, 7, "\1\2\3", 3);
    build_message(&attribute, 5, &half);
    build_text(&attribute, 1, "value");
    build_message(&attribute, 5, &other);
    build_message(&attribute, 6, &graph);
    build_tag(&node, 60, WIRE_GROUP);
    build_text(&node, 4, "in a group");
    build_tag(&node, 60, WIRE_GROUP_END);
    build_message(&node, 5, &attribute);
    build_int(&node, 2, 5);
    build_text(&node, 2, "y");
    build_message(&graph, 1, &node);
    build_text(&graph, 2, "g");
    build_int(&opset, 2, 17);
    build_text(&part, 2, "renamed");
    build_message(&model, 7, &graph);
    build_int(&model, 1, 8);
    build_message(&model, 8, &opset);
    build_message(&model, 7, &part);
    damage_all("non-canonical", (Bytes){model.items, model.count});
}
