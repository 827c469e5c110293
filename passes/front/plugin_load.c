// SPDX-License-Identifier: Apache-2.0
/* From a shared object to rows of a pass table. What a plug-in describes is checked and copied, so
 * that a faulty description is an error that names it and not a fault later. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "plugin.h"
#include "shared_object.h"

const DemiApi *plugin_api_new(Arena *arena) {
    DemiApi *api = ARENA_NEW(arena, DemiApi);
    api->size = sizeof *api;
    api->version = 1;
    api->demi_version = DEMI_VERSION_STRING;
    plugin_fill_run(api);
    plugin_fill_graph(api);
    plugin_fill_edit(api);
    plugin_fill_attr(api);
    plugin_fill_data(api);
    return api;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* The reason the system's loader gives, without the path before it. */
static bool loader_error(const char *path, const char *text, Err *err) {
    size_t length = strlen(path);
    if (strncmp(text, path, length) == 0 && strncmp(text + length, ": ", 2) == 0)
        text += length + 2;
    return err_set(err, ERR_USAGE, "cannot load: %s", text);
}

static bool is_file(const char *path, Err *err) {
    struct stat info;
    if (stat(path, &info) != 0) return err_set(err, ERR_USAGE, "cannot load: %s", strerror(errno));
    return S_ISREG(info.st_mode) || err_set(err, ERR_USAGE, "cannot load: not a regular file");
}

/* What a plug-in for other versions exports, if the object does; else NULL. */
static bool find_entry(void *object, DemiPluginEntry *entry, Err *err) {
    enum { NEWEST_GUESS = 9 };
    void *symbol = object_symbol(object, "demi_plugin_v1");
    memcpy(entry, &symbol, sizeof symbol); /* C has no cast from object to function pointer */
    for (int version = 2; !symbol && version <= NEWEST_GUESS; version++) {
        char name[32];
        snprintf(name, sizeof name, "demi_plugin_v%d", version);
        if (object_symbol(object, name))
            return err_set(err, ERR_USAGE, "a plug-in for interface %d; this demi (%s) has 1",
                           version, DEMI_VERSION_STRING);
    }
    return symbol || err_set(err, ERR_USAGE, "not a plug-in: it does not export 'demi_plugin_v1'");
}

_Static_assert(sizeof(DemiPluginEntry) == sizeof(void *), "dlsym gives functions");

static bool open_object(const char *path, Arena *arena, PluginSource *source, Err *err) {
    if (!is_file(path, err)) return false;
    /* A name without a slash would be looked for in the system's folders. */
    const char *place = strchr(path, '/') ? path : arena_printf(arena, "./%s", path);
    const char *why;
    void *object = object_open(place, OBJECT_ALONE, &why);
    if (!object) return loader_error(place, why, err);
    arena_defer(arena, object_close, object);
    source->file = arena_copy(arena, path, strlen(path));
    return find_entry(object, &source->entry, err);
}

bool plugin_open(const char *path, Arena *arena, PluginSource *source, Err *err) {
    if (open_object(path, arena, source, err)) return true;
    err_file(err, path);
    return false;
}

/* ---- describing ------------------------------------------------------------------------------ */

typedef struct Describer {
    const PluginSource *source;
    Arena *arena;
    const PassRows *rows; /* that there are */
    Err *err;
} Describer;

static bool is_name(const char *text) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
    return text && text[0] && text[0] != '-' && strspn(text, letters) == strlen(text);
}

static char *copy_text(const Describer *d, const char *text) {
    return text ? arena_copy(d->arena, text, strlen(text)) : NULL;
}

/* Copies a structure of the plug-in's, which may be shorter than ours; false where it has no size.
 */
static bool copy_struct(void *to, size_t size, const void *from) {
    uint32_t given;
    memcpy(&given, from, sizeof given);
    memset(to, 0, size);
    memcpy(to, from, given < size ? given : size);
    return given >= sizeof given;
}

static bool pass_fault(const Describer *d, const char *pass, const char *what) {
    return err_set(d->err, ERR_USAGE, "pass '%s': %s", pass, what);
}

static const char *const *copy_choices(const Describer *d, const char *const *choices) {
    size_t count = 0;
    while (choices[count]) count++;
    const char **copy = ARENA_ARRAY(d->arena, const char *, count + 1);
    for (size_t i = 0; i < count; i++) copy[i] = copy_text(d, choices[i]);
    return copy;
}

static bool option_kind(DemiOptionKind given, PassOptionKind *kind) {
    switch (given) {
    case DEMI_OPTION_BOOL: return *kind = OPTION_BOOL, true;
    case DEMI_OPTION_INT: return *kind = OPTION_INT, true;
    case DEMI_OPTION_STRING: return *kind = OPTION_STRING, true;
    case DEMI_OPTION_STRINGS: return *kind = OPTION_STRINGS, true;
    case DEMI_OPTION_CHOICE: return *kind = OPTION_CHOICE, true;
    }
    return false;
}

/* What is wrong with an option's description; NULL: nothing. */
static const char *option_fault(const DemiPluginOption *given, const PassOption *before) {
    PassOptionKind kind;
    if (!is_name(given->name)) return "an option's name must consist of a-z, 0-9, and '-'";
    if (!option_kind(given->kind, &kind)) return "an option's kind is unknown";
    if (kind == OPTION_CHOICE && (!given->choices || !given->choices[0]))
        return "an option has no choices";
    if (kind == OPTION_STRINGS && given->otherwise) return "a list has no default";
    for (; before->name; before++)
        if (strcmp(before->name, given->name) == 0) return "two options have one name";
    return NULL;
}

/* Fills info->options; each value has room for the largest kind. */
static bool describe_options(const Describer *d, const DemiPluginPass *given, PassInfo *info) {
    enum { MOST_OPTIONS = 1000 };
    const char *at = (const char *)given->options;
    size_t stride = 0, count = given->option_count;
    if (count > MOST_OPTIONS || (count && !at)) return pass_fault(d, info->name, "no options");
    PassOption *rows = ARENA_ARRAY(d->arena, PassOption, count + 1);
    for (size_t i = 0; i < count; i++, at += stride) {
        DemiPluginOption option;
        uint32_t size;
        memcpy(&size, at, sizeof size);
        if (i == 0) stride = size;
        if (!copy_struct(&option, sizeof option, at) || size != stride)
            return pass_fault(d, info->name, "an option's size is wrong: use the INIT macro");
        const char *fault = option_fault(&option, rows);
        if (fault) return pass_fault(d, info->name, fault);
        option_kind(option.kind, &rows[i].kind);
        rows[i].name = copy_text(d, option.name);
        rows[i].offset = i * sizeof(PassStrings);
        rows[i].help = copy_text(d, option.help);
        rows[i].otherwise = copy_text(d, option.otherwise);
        if (rows[i].kind == OPTION_CHOICE) rows[i].choices = copy_choices(d, option.choices);
    }
    info->options = rows;
    info->options_size = count * sizeof(PassStrings);
    return true;
}

static bool name_is_new(const Describer *d, const char *name) {
    for (size_t i = 0; i < d->rows->count; i++) {
        const PassInfo *row = d->rows->items[i];
        if (strcmp(row->name, name) != 0) continue;
        bool loaded = row->run == plugin_pass_run;
        err_set(d->err, ERR_USAGE, "pass '%s' already exists: %s%s", name,
                loaded ? "from " : "demi has one", loaded ? ((const PluginPass *)row)->file : "");
        return false;
    }
    return true;
}

/* Defaults are texts: they are read once as a pipeline will read them. */
static bool defaults_are_right(const Describer *d, const PassInfo *info) {
    const PassInfo *const rows[] = {info};
    const PassTable table = {.passes = rows, .count = 1};
    Pipeline pipeline;
    Err inner = {.code = ERR_NONE};
    if (pipeline_parse(&table, d->arena, info->name, &pipeline, &inner)) return true;
    return err_set(d->err, ERR_USAGE, "pass '%s': a default: %.200s", info->name, inner.what);
}

static bool describe_pass(const Describer *d, const DemiPluginPass *given, PluginPass *pass) {
    static const uint32_t facts = DEMI_FACT_DTYPES | DEMI_FACT_SHAPES;
    if (!is_name(given->name))
        return err_set(d->err, ERR_USAGE, "a pass's name must consist of a-z, 0-9, and '-'");
    if (!name_is_new(d, given->name)) return false;
    if (!given->run) return pass_fault(d, given->name, "it has no run function");
    if (given->scope != DEMI_SCOPE_MODEL && given->scope != DEMI_SCOPE_GRAPHS)
        return pass_fault(d, given->name, "its scope is unknown");
    if ((given->needs | given->gives | given->breaks) & ~facts)
        return pass_fault(d, given->name, "it needs, gives, or breaks unknown facts");
    pass->info = (PassInfo){.name = copy_text(d, given->name),
                            .summary = given->summary ? copy_text(d, given->summary) : "",
                            .needs = given->needs,
                            .gives = given->gives,
                            .breaks = given->breaks,
                            .foreign = true,
                            .idempotent = given->idempotent,
                            .run = plugin_pass_run};
    pass->scope = given->scope;
    pass->file = d->source->file;
    pass->api = d->source->api;
    pass->run = given->run;
    return describe_options(d, given, &pass->info) && defaults_are_right(d, &pass->info);
}

static bool describe_all(const Describer *d, const DemiPlugin *plugin, PassRows *rows) {
    const char *at = (const char *)plugin->passes;
    size_t stride = 0;
    if (plugin->pass_count == 0 || !at) return err_set(d->err, ERR_USAGE, "it has no passes");
    for (size_t i = 0; i < plugin->pass_count; i++, at += stride) {
        DemiPluginPass given;
        uint32_t size;
        memcpy(&size, at, sizeof size);
        if (i == 0) stride = size;
        if (!copy_struct(&given, sizeof given, at) || size != stride)
            return err_set(d->err, ERR_USAGE, "a pass's size is wrong: use the INIT macro");
        PluginPass *pass = ARENA_NEW(d->arena, PluginPass);
        if (!describe_pass(d, &given, pass)) return false;
        VEC_PUSH(d->arena, rows, &pass->info);
    }
    return true;
}

/* The plug-in's own description, once it has been asked for it. */
static bool describe_plugin(const Describer *d, DemiPlugin *plugin) {
    const DemiPlugin *given = d->source->entry(d->source->api);
    if (!given)
        return err_set(d->err, ERR_USAGE, "the plug-in refuses this demi (%s)",
                       DEMI_VERSION_STRING);
    if (!copy_struct(plugin, sizeof *plugin, given))
        return err_set(d->err, ERR_USAGE, "the plug-in's size is wrong: use the INIT macro");
    if (plugin->api_size <= d->source->api->size) return true;
    err_set(d->err, ERR_USAGE, "the plug-in was built for a newer demi than this (%s)",
            DEMI_VERSION_STRING);
    err_expected(d->err, "an interface of up to %u bytes", d->source->api->size);
    err_actual(d->err, "%u", plugin->api_size);
    return false;
}

bool plugin_describe(const PluginSource *source, Arena *arena, PassRows *rows, Err *err) {
    size_t before = rows->count;
    DemiPlugin plugin;
    Describer d = {.source = source, .arena = arena, .rows = rows, .err = err};
    if (describe_plugin(&d, &plugin) && describe_all(&d, &plugin, rows)) return true;
    rows->count = before;
    err_file(err, source->file);
    return false;
}
