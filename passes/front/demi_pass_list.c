// SPDX-License-Identifier: Apache-2.0
/* The part of demi.h that tells which passes there are, and adds those of plug-ins. A set of passes
 * is the table of the library's own followed by what was loaded; it owns the shared objects. */
#define DEMI_EXPERIMENTAL
#include <stdio.h>
#include <string.h>

#include "demi_call.h"
#include "demi_passes.h"
#include "passes.h"
#include "plugin.h"

struct DemiPasses {
    Arena arena; /* owns all of this, and closes the objects */
    PassRows rows;
    PassTable table; /* of rows */
    const DemiApi *api;
};

const PassTable *demi_passes_table(const DemiPasses *passes) {
    return passes ? &passes->table : &demi_passes;
}

/* ---- sets of passes -------------------------------------------------------------------------- */

static void show_rows(DemiPasses *passes) {
    passes->table.passes = passes->rows.items;
    passes->table.count = passes->rows.count;
}

typedef struct NewArgs {
    Arena arena; /* becomes the handle's */
    DemiPasses *passes;
} NewArgs;

static void new_body(Call *call, void *data) {
    NewArgs *args = data;
    arena_init(&args->arena, &call->trap);
    DemiPasses *passes = ARENA_NEW(&args->arena, DemiPasses);
    for (size_t i = 0; i < demi_passes.count; i++)
        VEC_PUSH(&args->arena, &passes->rows, demi_passes.passes[i]);
    passes->table = demi_passes; /* its former names */
    show_rows(passes);
    passes->api = plugin_api_new(&args->arena);
    passes->arena = args->arena;
    args->passes = passes;
}

DemiStatus demi_passes_new(DemiPasses **passes, DemiError *error) {
    Call call = {0};
    NewArgs args = {.passes = NULL};
    DemiStatus status = call_run(&call, new_body, &args, error);
    if (!args.passes) arena_free(&args.arena);
    *passes = args.passes;
    return status;
}

void demi_passes_free(DemiPasses *passes) {
    if (!passes) return;
    Arena arena = passes->arena; /* the handle itself lies in it */
    arena_free(&arena);
}

typedef struct AddArgs {
    DemiPasses *passes;
    const char *path; /* or */
    DemiPluginEntry entry;
} AddArgs;

static void add_body(Call *call, void *data) {
    const AddArgs *args = data;
    DemiPasses *passes = args->passes;
    PluginSource source = {.file = "the program itself", .entry = args->entry, .api = passes->api};
    passes->arena.trap = &call->trap;
    if (args->path && !plugin_open(args->path, &passes->arena, &source, &call->err)) return;
    if (plugin_describe(&source, &passes->arena, &passes->rows, &call->err)) show_rows(passes);
}

/* Out of memory leaves the rows longer than the table: only what the table counts was added. */
static DemiStatus add(AddArgs *args, DemiError *error) {
    Call call = {0};
    DemiStatus status = call_run(&call, add_body, args, error);
    args->passes->rows.count = args->passes->table.count;
    args->passes->table.passes = args->passes->rows.items;
    return status;
}

DemiStatus demi_passes_load(DemiPasses *passes, const char *path, DemiError *error) {
    AddArgs args = {.passes = passes, .path = path};
    return add(&args, error);
}

DemiStatus demi_passes_add(DemiPasses *passes, DemiPluginEntry entry, DemiError *error) {
    AddArgs args = {.passes = passes, .entry = entry};
    return add(&args, error);
}

/* ---- what there is --------------------------------------------------------------------------- */

static const PassInfo *pass_at(const DemiPasses *passes, size_t i) {
    const PassTable *table = demi_passes_table(passes);
    return i < table->count ? table->passes[i] : NULL;
}

size_t demi_pass_count(const DemiPasses *passes) {
    return demi_passes_table(passes)->count;
}

const char *demi_pass_name(const DemiPasses *passes, size_t i) {
    const PassInfo *pass = pass_at(passes, i);
    return pass ? pass->name : NULL;
}

const char *demi_pass_summary(const DemiPasses *passes, size_t i) {
    const PassInfo *pass = pass_at(passes, i);
    return pass ? pass->summary : NULL;
}

static void takes_text(const PassOption *row, char *buffer, size_t size) {
    const char *fixed = "";
    switch (row->kind) {
    case OPTION_BOOL: fixed = "true|false"; break;
    case OPTION_INT: fixed = "N"; break;
    case OPTION_STRING: fixed = "TEXT"; break;
    case OPTION_STRINGS: fixed = "[TEXT,...]"; break;
    case OPTION_CHOICE: break;
    }
    size_t length = (size_t)snprintf(buffer, size, "%s", fixed);
    if (row->kind != OPTION_CHOICE) return;
    for (const char *const *choice = row->choices; *choice && length < size; choice++)
        length +=
            (size_t)snprintf(buffer + length, size - length, "%s%s", length ? "|" : "", *choice);
}

bool demi_pass_option(const DemiPasses *passes, size_t i, size_t j, DemiPassOption *option) {
    const PassInfo *pass = pass_at(passes, i);
    if (!pass || !pass->options) return false;
    const PassOption *row = pass->options;
    for (; row->name && j; j--) row++;
    if (!row->name) return false;
    DemiPassOption filled = {
        .size = option->size, .name = row->name, .otherwise = row->otherwise, .help = row->help};
    takes_text(row, filled.takes, sizeof filled.takes);
    memcpy(option, &filled, option->size < sizeof filled ? option->size : sizeof filled);
    return true;
}
