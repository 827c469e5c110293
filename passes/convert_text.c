// SPDX-License-Identifier: Apache-2.0
/* Options of a conversion to pipeline text; see convert_text.h and pass.h for the grammar. */
#include "convert_text.h"

#include <stdio.h>
#include <string.h>

typedef struct Text {
    char *buffer;
    size_t size, length; /* length counts what did not fit, too */
} Text;

static void put_char(Text *text, char c) {
    if (text->length + 1 < text->size) text->buffer[text->length] = c;
    text->length++;
}

static void put(Text *text, const char *string) {
    for (; *string; string++) put_char(text, *string);
}

/* A JSON string, so that a pattern may hold any character. */
static void put_quoted(Text *text, const char *string) {
    static const char hex[] = "0123456789abcdef";
    put_char(text, '"');
    for (const unsigned char *p = (const unsigned char *)string; *p; p++) {
        if (*p == '"' || *p == '\\') put_char(text, '\\');
        if (*p >= 0x20) {
            put_char(text, (char)*p);
            continue;
        }
        put(text, "\\u00");
        put_char(text, hex[*p >> 4]);
        put_char(text, hex[*p & 15]);
    }
    put_char(text, '"');
}

static void put_list(Text *text, const char *key, const char *const *items, size_t count) {
    if (count == 0) return;
    put(text, key);
    put(text, "=[");
    for (size_t i = 0; i < count; i++) {
        if (i) put_char(text, ',');
        put_quoted(text, items[i]);
    }
    put_char(text, ']');
}

static const char *target_name(DemiTarget to) {
    switch (to) {
    case DEMI_TO_FLOAT16: return "float16";
    case DEMI_TO_BFLOAT16: return "bfloat16";
    }
    return "float16";
}

static const char *io_name(DemiIo io) {
    switch (io) {
    case DEMI_IO_KEEP: return "keep";
    case DEMI_IO_LOW: return "low";
    }
    return "keep";
}

static void put_number(Text *text, int64_t number) {
    char digits[24];
    snprintf(digits, sizeof digits, "%lld", (long long)number);
    put(text, digits);
}

/* First of all, so that everything after sees the opset that the model will have. */
static void put_upgrade(Text *text, const DemiConvertOptions *options) {
    if (options->opset == DEMI_OPSET_KEEP) return;
    bool automatic = options->opset == DEMI_OPSET_AUTO;
    put(text, automatic ? "upgrade-opset{for=" : "upgrade-opset{to=");
    if (automatic) put(text, target_name(options->to));
    else put_number(text, options->opset);
    put(text, "},");
}

size_t convert_text(const DemiConvertOptions *options, char *buffer, size_t size) {
    Text text = {.buffer = buffer, .size = size};
    put_upgrade(&text, options);
    put(&text, "infer-dtypes");
    if (options->input_dtype_count) {
        put_char(&text, '{');
        put_list(&text, "inputs", options->input_dtypes, options->input_dtype_count);
        put_char(&text, '}');
    }
    put(&text, ",infer-shapes,insert-casts{to=");
    put(&text, target_name(options->to));
    put(&text, ",io=");
    put(&text, io_name(options->io));
    put_list(&text, ",keep", options->keep, options->keep_count);
    put_list(&text, ",keep-ops", options->keep_ops, options->keep_op_count);
    if (options->allow_unmatched) put(&text, ",allow-unmatched=true");
    put(&text, "},cast-params{own=true},fuse-casts{own=true}");
    if (size) buffer[text.length < size ? text.length : size - 1] = '\0';
    return text.length;
}
