// SPDX-License-Identifier: Apache-2.0
/* Streaming JSON; see json_write.h. Outer objects and arrays are broken into lines, inner ones are
 * written on one line each: readable, and small for long lists. */
#include "json_write.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Depths down to which each is broken: the nodes of a graph get a line each. */
enum { BROKEN_OBJECTS = 2, BROKEN_ARRAYS = 3 };

static void flush(JsonWriter *json) {
    if (json->used && !json->failed)
        json->failed = !json->write(json->user, json->buffer, json->used);
    json->used = 0;
}

static void put(JsonWriter *json, const char *text, size_t size) {
    if (size > sizeof json->buffer - json->used) flush(json);
    memcpy(json->buffer + json->used, text, size); /* callers pass a few bytes at a time */
    json->used += size;
}

static void puts_json(JsonWriter *json, const char *text) {
    put(json, text, strlen(text));
}

static void break_line(JsonWriter *json) {
    put(json, "\n", 1);
    for (unsigned i = 0; i < json->depth; i++) put(json, "  ", 2);
}

/* Bytes of the valid UTF-8 sequence at text (RFC 3629), 0 where there is none. */
static size_t utf8_length(const unsigned char *text, size_t left) {
    static const unsigned char lowest[] = {0, 0, 0x80, 0xa0, 0x90};
    unsigned char c = text[0];
    if (c < 0x80) return 1;
    size_t length = c >= 0xc2 && c <= 0xdf   ? 2
                    : c >= 0xe0 && c <= 0xef ? 3
                    : c >= 0xf0 && c <= 0xf4 ? 4
                                             : 0;
    if (length == 0 || length > left) return 0;
    for (size_t i = 1; i < length; i++)
        if ((text[i] & 0xc0) != 0x80) return 0;
    if ((c == 0xe0 || c == 0xf0) && text[1] < lowest[length]) return 0;
    if (c == 0xed && text[1] > 0x9f) return 0; /* surrogates */
    if (c == 0xf4 && text[1] > 0x8f) return 0; /* above U+10FFFF */
    return length;
}

static void put_string(JsonWriter *json, const char *text, size_t length) {
    const unsigned char *p = (const unsigned char *)text, *end = p + length;
    put(json, "\"", 1);
    while (p < end) {
        size_t size = utf8_length(p, (size_t)(end - p));
        if (size == 0) {
            puts_json(json, "\\ufffd");
            p++;
            continue;
        }
        if (*p < 0x20 || *p == 0x7f) {
            char escape[8];
            snprintf(escape, sizeof escape, "\\u%04x", *p);
            puts_json(json, escape);
        } else {
            if (*p == '"' || *p == '\\') put(json, "\\", 1);
            put(json, (const char *)p, size);
        }
        p += size;
    }
    put(json, "\"", 1);
}

/* True where the innermost open object or array has a line for each item. */
static bool is_broken(const JsonWriter *json) {
    return json->depth && json->depth <= JSON_BROKEN && json->broken[json->depth - 1];
}

static void begin_item(JsonWriter *json, const char *key) {
    if (json->comma) put(json, ",", 1);
    if (is_broken(json))
        break_line(json);
    else if (json->comma)
        put(json, " ", 1);
    json->comma = true;
    if (!key) return;
    put_string(json, key, strlen(key));
    put(json, ": ", 2);
}

void json_start(JsonWriter *json, DemiWriteFn write, void *user) {
    json->write = write;
    json->user = user;
    json->used = 0;
    json->depth = 0;
    json->comma = json->failed = false;
    memset(json->broken, 0, sizeof json->broken);
}

bool json_finish(JsonWriter *json) {
    put(json, "\n", 1);
    flush(json);
    return !json->failed;
}

void json_open(JsonWriter *json, const char *key, char bracket) {
    begin_item(json, key);
    put(json, &bracket, 1);
    unsigned most = bracket == '[' ? BROKEN_ARRAYS : BROKEN_OBJECTS;
    if (json->depth < JSON_BROKEN) json->broken[json->depth] = json->depth < most;
    json->depth++;
    json->comma = false;
}

void json_close(JsonWriter *json, char bracket) {
    bool broken = json->comma && is_broken(json);
    json->depth--;
    if (broken) break_line(json);
    put(json, &bracket, 1);
    json->comma = true;
}

void json_bytes(JsonWriter *json, const char *key, const char *value, size_t length) {
    begin_item(json, key);
    put_string(json, length ? value : "", length); /* no bytes may lie nowhere */
}

void json_text(JsonWriter *json, const char *key, const char *value) {
    json_bytes(json, key, value, strlen(value));
}

void json_signed(JsonWriter *json, const char *key, int64_t value) {
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, value);
    begin_item(json, key);
    puts_json(json, text);
}

void json_unsigned(JsonWriter *json, const char *key, uint64_t value) {
    char text[32];
    snprintf(text, sizeof text, "%" PRIu64, value);
    begin_item(json, key);
    puts_json(json, text);
}

void json_number(JsonWriter *json, const char *key, double value) {
    char text[40];
    if (isfinite(value))
        snprintf(text, sizeof text, "%.9g", value);
    else
        snprintf(text, sizeof text, "null");
    begin_item(json, key);
    puts_json(json, text);
}

void json_boolean(JsonWriter *json, const char *key, bool value) {
    begin_item(json, key);
    puts_json(json, value ? "true" : "false");
}
