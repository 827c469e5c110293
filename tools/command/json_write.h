// SPDX-License-Identifier: Apache-2.0
/* Writes JSON as it is told, without building it in memory first: a report of half a million nodes
 * costs one buffer. Text from a model need not be valid UTF-8; what is not becomes U+FFFD. jansson
 * is linked too: no function here may be called like one of its. */
#ifndef DEMI_JSON_WRITE_H
#define DEMI_JSON_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "demi.h"

enum { JSON_BROKEN = 4 };

typedef struct JsonWriter {
    DemiWriteFn write;
    void *user;
    size_t used;
    unsigned depth;
    bool broken[JSON_BROKEN]; /* of the outermost levels: each item has a line of its own */
    bool comma;               /* the innermost object or array has an item */
    bool failed;              /* a write failed; the others were dropped */
    char buffer[8192];
} JsonWriter;

void json_start(JsonWriter *json, DemiWriteFn write, void *user);
/* Ends the text with a newline. False where a write failed. */
bool json_finish(JsonWriter *json);

/* key: NULL within arrays and at the top. */
void json_open(JsonWriter *json, const char *key, char bracket); /* '{' or '[' */
void json_close(JsonWriter *json, char bracket);                 /* '}' or ']' */
void json_text(JsonWriter *json, const char *key, const char *value);
void json_bytes(JsonWriter *json, const char *key, const char *value, size_t length);
void json_signed(JsonWriter *json, const char *key, int64_t value);
void json_unsigned(JsonWriter *json, const char *key, uint64_t value);
void json_number(JsonWriter *json, const char *key, double value); /* not finite: null */
void json_boolean(JsonWriter *json, const char *key, bool value);

#endif
